// SPDX-License-Identifier: GPL-2.0
//! As many packets as are asked for: messages of all kinds over networks that lose, repeat and
//! delay, of which each must arrive once and leave nothing behind.
//!
//! `SOAK=1000000000 cargo test --release -p turnstile-core --test transport_model soak --
//! --nocapture` is what is run before a release; `SOAK_SEED` is the first network's seed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::crossing::{all_kinds, assert_clean, configs};
use super::*;

/// Packets in a test.
const PACKETS: u64 = 200_000;
/// Messages of one network.
const MESSAGES: usize = 300;
/// How often to say how far it is.
const TOLD: Duration = Duration::from_secs(10);

/// Packets that the endpoints of a network sent.
fn sent(network: &Network, hosts: usize) -> u64 {
    let of_host = |host| network.endpoint(host).stats().iter();
    let packets = |(counter, value): (turnstile_core::transport::stats::Counter, u64)| {
        let name = counter.name();
        let counts = name.contains("_sent") && !name.ends_with("_bytes");
        if counts {
            value
        } else {
            0
        }
    };
    (0..hosts).flat_map(of_host).map(packets).sum()
}

/// Says which network it was that failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("again: SOAK_SEED={} SOAK=1", self.0);
        }
    }
}

/// A network of this seed: how many packets it took.
fn one(seed: u64) -> u64 {
    let _told = Seed(seed);
    let mut random = seed;
    let mut below = |n: u64| host::next(&mut random) % n;
    // Parts per million; each is absent in every other network.
    let mut rate = |most: u64| below(2) * below(most);
    let link = Link {
        rate: 1_250_000_000,
        delay: 1_000 + rate(50_000),
        loss: rate(60_000),
        repeat: rate(60_000),
        reorder: rate(120_000),
        late: 100_000,
        ..Link::default()
    };
    let all = configs();
    let (_, config) = &all[seed as usize % all.len()];
    let mut network = all_kinds(seed, config, link, below(2) == 1, MESSAGES);
    assert_clean(&mut network, 4);
    sent(&network, 4)
}

#[test]
fn soak() {
    let most = std::env::var("SOAK").map_or(PACKETS, |n| n.parse().expect("a number of packets"));
    let first = std::env::var("SOAK_SEED").map_or(0, |n| n.parse().expect("a seed"));
    let (packets, seeds) = (AtomicU64::new(0), AtomicU64::new(first));
    let began = Instant::now();
    let work = |tells: bool| {
        let mut told = Instant::now();
        while packets.load(Ordering::Relaxed) < most {
            let seed = seeds.fetch_add(1, Ordering::Relaxed);
            packets.fetch_add(one(seed), Ordering::Relaxed);
            if tells && told.elapsed() >= TOLD {
                told = Instant::now();
                let done = packets.load(Ordering::Relaxed);
                println!("{done} packets, {:.0} s", began.elapsed().as_secs_f64());
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = &work;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || work(thread == 0));
        }
    });
    println!(
        "{} packets in {} networks, {:.0} s: each message arrived once, nothing was left",
        packets.load(Ordering::Relaxed),
        seeds.load(Ordering::Relaxed) - first,
        began.elapsed().as_secs_f64()
    );
}
