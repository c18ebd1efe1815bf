// SPDX-License-Identifier: GPL-2.0
//! What a pause held up at the switches before, and where it comes by: a port that passes pauses on
//! for a millisecond, and then none, of whose hosts all together want less than it carries.

use std::collections::VecDeque;
use std::vec::Vec;

use super::*;
use crate::pfc::ingress::{Ingress, Limits, Pool, Xoff};

/// Bytes of a packet, and its time at 40 Gbit/s, ns. As in `cargo xtask lab tcd-states`: links of
/// a microsecond, a pause at 40 kB of each that ends at two packets less, congested at 20 kB.
const WIRE: u32 = 1538;
const TIME: u64 = 308;
const DELAY: u64 = 1000;
const XOFF: u64 = 40_000;
const CONGESTED: u64 = 20_000;
const ON: Nanos = Nanos(95_000);
/// ns: how long the port is paused half of the time, and until when it is looked at.
const PAUSED: u64 = 1_000_000;
const END: u64 = 6_000_000;
const STEP: u64 = 4;

/// A link that packets come by, as many as the host behind it has.
struct Link {
    ingress: Ingress,
    pool: Pool,
    /// Bytes.
    backlog: f64,
    free_at: u64,
    silent: bool,
    /// When it hears what.
    told: VecDeque<(u64, bool)>,
}

impl Link {
    fn tell(&mut self, now: u64, silent: bool) {
        self.told.push_back((now + TIME + DELAY, silent));
    }
}

/// The first that is due.
fn due<T>(all: &mut VecDeque<(u64, T)>, now: u64) -> Option<(u64, T)> {
    match all.front() {
        Some((at, _)) if *at <= now => all.pop_front(),
        _ => None,
    }
}

/// How many packets such a port marks CE and UE, and how many it does not mark.
fn marks(links: usize, load: f64) -> [u32; 3] {
    let rate = Rate::from_bytes_per_sec(5_000_000_000).unwrap();
    let law = Law {
        threshold: CONGESTED,
        max_on: Some(ON),
        rise: rise(rate, ON),
    };
    let limits = Limits {
        xoff: Xoff::Fixed {
            xoff: XOFF,
            xon: XOFF - 2 * u64::from(WIRE),
        },
        headroom: 1 << 20,
    };
    let link = |_| Link {
        ingress: Ingress::new(limits, &rate),
        pool: Pool::new(XOFF),
        backlog: 0.0,
        free_at: 0,
        silent: false,
        told: VecDeque::new(),
    };
    let mut links: Vec<Link> = (0..links).map(link).collect();
    let each = load / links.len() as f64 * 5.0 * STEP as f64;
    let (mut tcd, mut counters) = (Tcd::new(law, false, Nanos(0)), Counters::EMPTY);
    let (mut wire, mut queue) = (VecDeque::new(), VecDeque::new());
    let (mut paused, mut free_at) = (false, 0);
    let mut counts = [0; 3];
    for now in (0..END).step_by(STEP as usize) {
        let bytes = queue.len() as u64 * u64::from(WIRE);
        let pauses = now < PAUSED && now % 40_000 < 20_000;
        match (paused, pauses) {
            (false, true) => tcd.pause(Nanos(now), &mut counters),
            (true, false) => tcd.resume(Nanos(now), bytes),
            _ => {}
        }
        paused = pauses;
        for (number, link) in links.iter_mut().enumerate() {
            link.backlog += each;
            while let Some((_, silent)) = due(&mut link.told, now) {
                link.silent = silent;
            }
            if !link.silent && link.free_at <= now && link.backlog >= f64::from(WIRE) {
                link.backlog -= f64::from(WIRE);
                link.free_at = now + TIME;
                wire.push_back((now + TIME + DELAY, number));
            }
        }
        while let Some((_, number)) = due(&mut wire, now) {
            let link: &mut Link = &mut links[number];
            let (_, send) = link.ingress.arrive(Nanos(now), WIRE, &mut link.pool);
            if send.is_some() {
                link.tell(now, true);
                tcd.asks();
            }
            queue.push_back(number);
        }
        if paused || free_at > now {
            continue;
        }
        let Some(number) = queue.pop_front() else {
            continue;
        };
        free_at = now + TIME;
        let link = &mut links[number];
        if link.ingress.leave(WIRE, &mut link.pool).is_some() {
            link.tell(now, false);
        }
        let left = queue.len() as u64 * u64::from(WIRE);
        match tcd.judge(Nanos(now), left, &mut counters) {
            State::Congested => counts[0] += 1,
            State::Undetermined => counts[1] += 1,
            State::NotCongested => counts[2] += 1,
        }
    }
    counts
}

/// By one link no more comes at a time than leaves, however much has waited there. By two more
/// does, until it has all come: that is congestion to the port, though its flows want less than it
/// carries.
#[test]
fn what_has_waited_is_no_congestion_if_it_comes_by_one_link() {
    for load in [0.5, 0.8, 0.95] {
        for links in 1..=5 {
            let [ce, ue, none] = marks(links, load);
            std::println!(
                "{links} links, {load} of what it carries: {ce} CE, {ue} UE, {none} none"
            );
            assert!(ue > 0);
            // With half of what it carries, nothing has waited but while it was paused.
            let congested = links > 1 && load > 0.5;
            assert_eq!(ce > 0, congested, "{links} links, {load}: {ce} CE");
        }
    }
}
