// SPDX-License-Identifier: GPL-2.0
//! Messages over a link that the next switch pauses again and again, though no more comes for it
//! than it carries: what `cargo xtask lab tcd-victim` measures of the kernel, in seconds.

use turnstile_core::pfc::scope::Scope;
use turnstile_core::port::config::{Config as PortConfig, MaxOn, Pfc, Tcd};
use turnstile_core::transport::config::Config;
use turnstile_core::transport::uapi;
use turnstile_workload::figures::mean;
use turnstile_workload::sizes;

use super::topology::{host_port, PAPERS};
use super::*;

/// bytes/s: of the link, and of each host's own.
const RATE: u64 = 5_000_000_000;
const SENDERS: usize = 4;
const OWN: u64 = RATE * 55 / 100 / SENDERS as u64;
const DELAY: u64 = 1000;
/// ns: how often others burst, the pauses of the link because of that, and how much later its
/// switch pauses hosts.
const PERIOD: u64 = 545_000;
const PAUSES: u64 = 9;
const PAUSE: u64 = 15_000;
const EVERY: u64 = 24_000;
const LATER: u64 = 8_000;
/// ns that messages begin, and what they ask of the hosts' links.
const SPAN: u64 = 40_000_000;
const LOAD: f64 = 0.3;
/// Bytes: from, and below.
const CLASSES: [(&str, u32, u32); 4] = [
    ("< 10 KB", 0, 10_000),
    ("10-100 KB", 10_000, 100_000),
    ("0.1-1 MB", 100_000, 1_000_000),
    ("> 1 MB", 1_000_000, u32::MAX),
];

/// The shortest time of a message, ns.
fn ideal(length: u32) -> f64 {
    let packets = length.div_ceil(1450);
    let last = length - (packets - 1) * 1450 + 88;
    let wire = f64::from(length + 88 * packets) * 1e9 / OWN as f64;
    wire + 2.0 * f64::from(last) * 1e9 / RATE as f64 + 3.0 * DELAY as f64
}

fn pausable(tcd: Option<Tcd>) -> PortConfig {
    PortConfig {
        pfc: Some(Pfc {
            data: Scope::one(0),
            watchdog: Nanos(200_000_000),
            generate: None,
        }),
        data_limit: 64 << 20,
        tcd,
        ..PAPERS
    }
}

/// The mean slowdown of each class, in the mean of some draws.
fn slowdowns(policy: u32, tcd: bool) -> [f64; 4] {
    const DRAWS: u64 = 3;
    let mut all: [Vec<f64>; 4] = Default::default();
    for seed in 1..=DRAWS {
        let route = |from: usize, to: usize| {
            let middle = usize::from(from >= SENDERS);
            vec![2 + 2 * from, middle, 2 + 2 * to + 1]
        };
        let mut network = Network::new(seed, Box::new(route));
        let link = |rate| Link {
            rate,
            delay: DELAY,
            ..Link::default()
        };
        let marks = Tcd {
            threshold: 20_000,
            max_on: match tcd {
                true => MaxOn::Time(Nanos(95_000)),
                false => MaxOn::Off,
            },
        };
        network.node(pausable(Some(marks)), link(RATE));
        network.node(pausable(None), link(RATE));
        let mut config = Config {
            policy,
            tcd: u32::from(tcd),
            ..Config::DEFAULT
        };
        if policy == uapi::POLICY_TIMELY {
            // Pauses this short leave round-trip times below the default, where TIMELY never cuts.
            config.timely_low = 20_000;
        }
        for host in 0..=SENDERS {
            let rate = if host < SENDERS { OWN } else { RATE };
            let config = config.validate(Some(rate)).unwrap();
            network.host(&config, false);
            let own = PortConfig {
                tcd: None,
                ..pausable(None)
            };
            let own = PortConfig {
                unscheduled: host_port().unscheduled,
                ..own
            };
            network.node(own, link(rate));
            network.node(pausable(None), link(rate));
            network.set_window(host, u32::MAX >> 2, 0);
        }
        network.acquaint((0..SENDERS).map(|from| (from, SENDERS)));
        let trace = sizes::NAMED.iter().find(|it| it.name == "hadoop").unwrap();
        let part = |network: &mut Network| network.below(1 << 40) as f64 / (1_u64 << 40) as f64;
        let bytes = sizes::mean(trace.points) * f64::from(trace.unit);
        let gap = bytes / (OWN as f64 * SENDERS as f64 * LOAD) * 1e9;
        let began = network.now;
        let mut at = began as f64;
        loop {
            at -= (1.0 - part(&mut network)).ln() * gap;
            if at as u64 >= began + SPAN {
                break;
            }
            let from = network.below(SENDERS as u64) as usize;
            let units = sizes::at(trace.points, part(&mut network)).max(1.0) as u32;
            network.send_at(at as u64, from, SENDERS, (units * trace.unit).max(8));
        }
        // Pauses, and a while longer.
        let mut events: Vec<(u64, usize, bool)> = Vec::new();
        for n in 0..4 * SPAN / PERIOD * PAUSES {
            let from = began + n / PAUSES * PERIOD + n % PAUSES * EVERY;
            events.extend([(from, 0, true), (from + PAUSE, 0, false)]);
            for host in 0..SENDERS {
                events.push((from + LATER, 2 + 2 * host, true));
                events.push((from + PAUSE + 1000, 2 + 2 * host, false));
            }
        }
        events.sort_unstable();
        for (at, node, pause) in events {
            network.run_until(at);
            network.pause(node, pause);
        }
        network.run_to_the_end(network.now + 100_000_000);
        for (class, (_, from, below)) in all.iter_mut().zip(CLASSES) {
            let messages = network.registry.messages.iter();
            let of = messages.filter(|it| (from..below).contains(&it.length));
            class.extend(of.map(|it| {
                let took = it.delivered.map_or(u64::MAX, |at| at - it.began);
                took as f64 / ideal(it.length)
            }));
        }
    }
    all.map(|class| mean(&class))
}

/// Victims are sooner with TCD, and those that are over before they are told of anything no later:
/// the long ones of their host, which nobody slows down, let them go first.
#[test]
fn victims_are_sooner_with_tcd() {
    for (name, policy) in [
        ("dcqcn", uapi::POLICY_DCQCN),
        ("timely", uapi::POLICY_TIMELY),
    ] {
        let [plain, with] = [false, true].map(|tcd| slowdowns(policy, tcd));
        for (((class, ..), plain), with) in CLASSES.iter().zip(plain).zip(with) {
            let better = plain / with;
            println!("{name}, {class}: {plain:.2} and {with:.2} with tcd, {better:.2}");
            assert!(better >= 0.98, "{name}, {class}: {plain} and {with}");
        }
        let [_, short, _, long] = with;
        assert!(plain[3] / long >= 1.1, "{} and {long}", plain[3]);
        if policy == uapi::POLICY_DCQCN {
            assert!(short <= 1.45, "{short}");
        }
    }
}
