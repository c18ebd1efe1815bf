// SPDX-License-Identifier: GPL-2.0
//! A link is not silent while a long message waits for it.

use std::cell::RefCell;
use std::rc::Rc;

use turnstile_core::transport::config::Config;
use turnstile_core::transport::wire::*;
use turnstile_workload::sizes::{self, PACKET, WEB_SEARCH};

use super::topology::dumbbell;
use super::*;

const G10: u64 = 1_250_000_000;
/// Messages of more bytes than these are long.
const LONG: u32 = 100_000;
/// ns: no longer silence while one waits. One that others outranked asks again after two round
/// trips, and it takes another one until its data comes.
const SILENCE: u64 = 200_000;
/// ns that the first byte of a message may take, as others' tokens may go first.
const BEGIN: u64 = 100_000;

fn link() -> Link {
    Link {
        rate: G10,
        delay: 8_000,
        ..Link::default()
    }
}

/// Web-search messages from 4 hosts to 4 others over one link, so many percent of it; the shipped
/// settings. Returns the longest time in which no data came over that link though a long message
/// was under way, and how many such messages there were.
fn longest(seed: u64, percent: u64, count: u64) -> (u64, usize) {
    let mut network = dumbbell(seed, &Config::DEFAULT, 4, link());
    let came: Rc<RefCell<Vec<u64>>> = Rc::default();
    let tap = came.clone();
    network.tap = Some(Box::new(move |now, packet| {
        if matches!(packet.packet, Packet::Data(_)) && packet.to >= 4 {
            tap.borrow_mut().push(now);
        }
    }));
    let bytes = sizes::mean(WEB_SEARCH) * f64::from(PACKET);
    let mean = bytes * 100.0 / (percent as f64 * G10 as f64) * 1e9;
    let mut at = 2_000_000.0;
    for _ in 0..count {
        let u = (network.below(1 << 40) + 1) as f64 / (1_u64 << 40) as f64;
        at += -u.ln() * mean;
        let (from, to) = (network.below(4) as usize, 4 + network.below(4) as usize);
        let share = network.below(1_000_000) as f64 / 1e6;
        let length = (sizes::at(WEB_SEARCH, share) * f64::from(PACKET)) as u32;
        network.send_at(at as u64, from, to, length);
    }
    network.run_to_the_end(100_000_000_000);
    let all = &network.registry.messages;
    let long: Vec<(u64, u64)> = all
        .iter()
        .filter(|message| message.length > LONG)
        .map(|message| (message.began + BEGIN, message.delivered.unwrap()))
        .collect();
    let came = came.borrow();
    let gaps = came.windows(2).map(|pair| {
        let (from, to) = (pair[0], pair[1]);
        let waits = |it: &&(u64, u64)| it.0 < to && it.1 > from;
        // Only that part of the gap counts in which a message waits.
        let part = |it: &(u64, u64)| to.min(it.1) - from.max(it.0);
        long.iter().filter(waits).map(part).max().unwrap_or(0)
    });
    (gaps.max().unwrap_or(0), long.len())
}

/// Also where losses of others' making have brought a message down to `min-rate`: it has a token in
/// some 87 us then.
#[test]
fn no_link_is_silent_while_a_long_message_waits() {
    for percent in [30, 60, 90] {
        for seed in 1..=4 {
            let (ns, count) = longest(seed, percent, 150);
            println!(
                "{percent} %, draw {seed}: {} us at most, {count} long messages",
                ns / 1000
            );
            assert!(count > 30, "{count} long messages");
            assert!(
                ns < SILENCE,
                "{percent} %, draw {seed}: {} us without data",
                ns / 1000
            );
        }
    }
}
