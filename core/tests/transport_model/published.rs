// SPDX-License-Identifier: GPL-2.0
//! The lengths of published traces over a dumbbell, with the shipped settings, beside the wire: in
//! seconds what `cargo xtask lab loads-hadoop` and its like measure of the kernel.

use turnstile_core::port::band::Band;
use turnstile_core::port::config::Config as PortConfig;
use turnstile_core::transport::config::Config;
use turnstile_workload::figures::{mean, percentile};
use turnstile_workload::sizes::{self, Trace};

use super::crossing::assert_clean;
use super::*;

/// bytes/s.
const RATE: u64 = 1_250_000_000;
const MS: u64 = 1_000_000;
/// Hosts on either side.
const SIDE: usize = 4;
/// A token's way and its packet's way back over three links are 48 us.
const DELAY: u64 = 7329;
/// As in the lab: bytes, from and below.
const CLASSES: [(&str, u32, u32); 5] = [
    ("< 10 KB", 0, 10_000),
    ("10-100 KB", 10_000, 100_000),
    ("0.1-1 MB", 100_000, 1_000_000),
    ("> 1 MB", 1_000_000, u32::MAX),
    ("all", 0, u32::MAX),
];

/// Four hosts that send to four others over one link, which know each other.
fn dumbbell(seed: u64) -> Network {
    let link = Link {
        rate: RATE,
        delay: DELAY,
        ..Link::default()
    };
    let route = |from: usize, to: usize| {
        let middle = usize::from(from >= SIDE);
        vec![2 + 2 * from, middle, 2 + 2 * to + 1]
    };
    let mut network = Network::new(seed, Box::new(route));
    let switch = PortConfig {
        data_limit: 128_000,
        ..PortConfig::DEFAULT
    };
    let own = PortConfig {
        jitter: PortConfig::DEFAULT.jitter,
        ..topology::host_port()
    };
    network.node(switch, link);
    network.node(switch, link);
    let config = Config::DEFAULT.validate(Some(RATE)).unwrap();
    for _ in 0..2 * SIDE {
        network.host(&config, false);
        network.node(own, link);
        network.node(switch, link);
    }
    network.acquaint((0..SIDE).flat_map(|from| (SIDE..2 * SIDE).map(move |to| (from, to))));
    network
}

/// ns that so many bytes of payload take on a link, in full packets.
fn wire(length: u32) -> f64 {
    let packets = length.div_ceil(1450);
    f64::from(length + 88 * packets) * 1e9 / RATE as f64
}

/// The shortest time that a message could take on the idle network, ns: its last packet once more
/// for each further link, and propagation.
fn ideal(length: u32) -> f64 {
    let last = match length % 1450 {
        0 => 1450,
        rest => rest,
    };
    wire(length) + 2.0 * wire(last) + 3.0 * DELAY as f64
}

/// ns until each message has come, of a fluid that is sent in the order of what is left (SRPT) at
/// what tokens leave of the link in the middle: `messages` are when they begin, and their lengths.
fn srpt(messages: &[(u64, u32)]) -> Vec<f64> {
    const SHARE: f64 = 1538.0 / 1622.0;
    let service = |length: u32| wire(length) / SHARE;
    let mut order: Vec<usize> = (0..messages.len()).collect();
    order.sort_by_key(|index| messages[*index].0);
    let mut took = vec![0.0; messages.len()];
    // ns of service that are left, and of which.
    let mut left: Vec<(f64, usize)> = Vec::new();
    let mut now = 0.0;
    let mut next = order.into_iter().peekable();
    loop {
        let arrival = next.peek().map(|index| messages[*index].0 as f64);
        let least = (0..left.len()).min_by(|a, b| left[*a].0.total_cmp(&left[*b].0));
        match (least, arrival) {
            (None, None) => return took,
            (Some(least), arrival) if arrival.is_none_or(|at| now + left[least].0 <= at) => {
                let (rest, index) = left.swap_remove(least);
                now += rest;
                let (at, length) = messages[index];
                took[index] = now - at as f64 + ideal(length) - wire(length);
            }
            (least, arrival) => {
                let at = arrival.unwrap_or(now);
                if let Some(least) = least {
                    left[least].0 -= at - now;
                }
                now = at;
                left.extend(next.next().map(|index| (service(messages[index].1), index)));
            }
        }
    }
}

/// The slowdown of each class, and that of the fluid.
fn slowdowns(seed: u64, trace: &Trace, count: usize, load: f64) -> [[[f64; 2]; 5]; 2] {
    let mut network = dumbbell(seed);
    let part = |network: &mut Network| network.below(1 << 40) as f64 / (1_u64 << 40) as f64;
    let gap = sizes::mean(trace.points) * f64::from(trace.unit) / (RATE as f64 * load) * 1e9;
    let mut at = network.now as f64;
    for _ in 0..count {
        at -= (1.0 - part(&mut network)).ln() * gap;
        let [from, to] = [0, SIDE].map(|side| side + network.below(SIDE as u64) as usize);
        let units = sizes::at(trace.points, part(&mut network)).max(1.0) as u32;
        network.send_at(at as u64, from, to, (units * trace.unit).max(8));
    }
    network.run_to_the_end(at as u64 + 2000 * MS);
    let switches = network.nodes[..2]
        .iter()
        .chain(network.nodes[3..].iter().step_by(2));
    let dropped: u64 = switches
        .map(|node| node.port.stats(Band::Data).over_limit)
        .sum();
    assert_eq!(dropped, 0, "packets of data were dropped");
    assert_clean(&mut network, 2 * SIDE);
    let messages = &network.registry.messages;
    let lengths: Vec<(u64, u32)> = messages.iter().map(|it| (it.began, it.length)).collect();
    let took = messages
        .iter()
        .map(|it| (it.delivered.unwrap() - it.began) as f64);
    [
        classes(&lengths, &took.collect::<Vec<_>>()),
        classes(&lengths, &srpt(&lengths)),
    ]
}

/// Mean and 99th percentile of the slowdown of each class.
fn classes(messages: &[(u64, u32)], took: &[f64]) -> [[f64; 2]; 5] {
    let slower = || {
        messages
            .iter()
            .zip(took)
            .map(|(it, took)| (it.1, took / ideal(it.1)))
    };
    CLASSES.map(|(_, from, below)| {
        let of = slower().filter(|it| (from..below).contains(&it.0));
        let mut of: Vec<f64> = of.map(|it| it.1).collect();
        of.sort_by(f64::total_cmp);
        [mean(&of), percentile(&of, 99.0)]
    })
}

/// The mean of three seeds, of the transport and of the fluid.
fn of_three_seeds(name: &str, count: usize, load: f64) -> [[[f64; 2]; 5]; 2] {
    let trace = sizes::NAMED.iter().find(|it| it.name == name).unwrap();
    let mut means = [[[0.0; 2]; 5]; 2];
    for seed in 1..=3 {
        let got = slowdowns(seed, trace, count, load);
        let all = means.iter_mut().flatten().flatten();
        all.zip(got.iter().flatten().flatten())
            .for_each(|(mean, it)| *mean += it / 3.0);
    }
    for ((name, ..), at) in CLASSES.iter().zip(0..) {
        println!(
            "{name}: {:.2?}, of the fluid {:.2?}",
            means[0][at], means[1][at]
        );
    }
    means
}

/// Each class has what it is to have, mean and 99th percentile; or so many times what the fluid
/// has.
fn assert_goals(means: &[[[f64; 2]; 5]; 2], goals: [[f64; 2]; 5], times_fluid: f64) {
    for (class, at) in CLASSES.iter().zip(0..) {
        for figure in 0..2 {
            let [got, fluid] = [means[0][at][figure], means[1][at][figure]];
            let bound = goals[at][figure].max(fluid * times_fluid);
            assert!(got <= bound, "{}: {got:.2}, and not {bound:.2}", class.0);
        }
    }
}

#[test]
fn a_web_search_at_60_percent_is_served_soon() {
    let means = of_three_seeds("web-search", 1500, 0.6);
    let goals = [[1.1, 1.4], [1.35, 2.5], [1.5, 4.0], [1.7, 5.0], [1.4, 4.0]];
    assert_goals(&means, goals, 1.35);
}

/// Nine in ten of those of 10 to 100 KB are longer than what a sender may send unasked, and wait
/// for a token's way and its packet's way back: 1.35 in the mean at least.
#[test]
fn a_hadoop_cluster_at_80_percent_is_served_soon() {
    let means = of_three_seeds("hadoop", 4500, 0.8);
    let goals = [
        [1.1, 1.5],
        [1.54, 3.5],
        [2.0, 8.0],
        [3.0, 10.0],
        [1.35, 5.0],
    ];
    assert_goals(&means, goals, 1.5);
}

/// What that class costs on the idle network, one message at a time: the goal of 1.5 at 80 % load
/// leaves 0.15 for all waiting, of which the best order there is (SRPT, above) takes 0.07. What is
/// beyond the 31 KB that each of four senders may send unasked comes a token's round trip after
/// the first bytes were sent, and not when these have left.
#[test]
fn a_hadoop_clusters_messages_alone() {
    let trace = sizes::NAMED.iter().find(|it| it.name == "hadoop").unwrap();
    let mut network = dumbbell(1);
    let mut at = network.now;
    let class = CLASSES[1];
    // Before a pair's first message the receiver does not know how many will want its allowance.
    for pair in 0..SIDE * SIDE {
        at += MS;
        network.send_at(at, pair % SIDE, SIDE + pair / SIDE, 1000);
    }
    for number in 0..1000 {
        let share = (f64::from(number) + 0.5) / 1000.0;
        let length = sizes::at(trace.points, share) as u32;
        if (class.1..class.2).contains(&length) {
            at += MS;
            let pair = number as usize;
            network.send_at(at, pair % SIDE, SIDE + pair / SIDE % SIDE, length);
        }
    }
    network.run_to_the_end(at + 2000 * MS);
    let messages = network.registry.messages.iter().skip(SIDE * SIDE);
    let took = messages.map(|it| {
        let took = (it.delivered.unwrap() - it.began) as f64;
        took / ideal(it.length)
    });
    let alone = mean(&took.collect::<Vec<_>>());
    println!("{}: {alone:.3} alone on the network", class.0);
    assert!((1.33..1.36).contains(&alone), "{alone:.3}");
}
