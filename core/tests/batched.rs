// SPDX-License-Identifier: GPL-2.0
//! The port on a late machine (`jitter`): bursts of tokens and late timers. With the defaults it
//! drops no tokens that come below their rate, and keeps to its share when more come.

mod common;

use common::{Drops, Fifo, PerByte, Rng, P, PAPERS};
use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Config, Expiry, Order};
use turnstile_core::port::{Dequeue, Port};
use turnstile_core::queue::NoChild;
use turnstile_core::units::Nanos;

const MBIT: u64 = 125_000;
/// 100 Mbit/s to 100 Gbit/s.
const LINKS: [u64; 6] = [
    100 * MBIT,
    1_000 * MBIT,
    10_000 * MBIT,
    25_000 * MBIT,
    40_000 * MBIT,
    100_000 * MBIT,
];
/// Burst lengths up to that of one NAPI poll.
const BURSTS: [u64; 4] = [1, 8, 32, 64];
const SHARE: u32 = 51_787_916;
/// ns: how late timers are at most.
const LATE: u64 = 50_000;

/// How late the machine is.
#[derive(Clone, Copy, Debug)]
enum Late {
    /// Always by so much.
    By(u64),
    /// By anything up to [`LATE`].
    Any,
}

/// A load, and how late the machine is.
#[derive(Clone, Copy, Debug)]
struct Load {
    link: u64,
    /// The port is shaped to the link rate; otherwise it is asked whenever a packet comes or is
    /// due.
    shaped: bool,
    order: Order,
    burst: u64,
    /// Tokens offered, in per cent of the tokens' rate.
    percent: u64,
    /// Full frames keep the data queue from becoming empty.
    data: bool,
    /// Bytes of a token.
    len: u32,
    /// The tokens of a burst have so many priorities.
    priorities: u8,
    /// A burst is queued as a whole before the port is asked; otherwise it is asked after each
    /// packet.
    whole: bool,
    late: Late,
    /// Bursts come late, too.
    late_bursts: bool,
}

impl Load {
    fn tokens(link: u64, burst: u64, late: Late) -> Self {
        Self {
            link,
            shaped: true,
            order: Order::TokensFirst,
            burst,
            percent: 90,
            data: false,
            len: 60,
            priorities: 1,
            whole: true,
            late,
            late_bursts: false,
        }
    }
}

/// The result of a run.
#[derive(Debug)]
#[allow(dead_code)] // what is only shown
struct Outcome {
    offered: u64,
    sent: u64,
    /// Bytes of tokens sent, relative to the token group's share of the link.
    share: f64,
    max_queue: u64,
    max_wait: u64,
    forfeits: u64,
    forfeited: u64,
    time: u64,
}

impl Outcome {
    fn sent(&self) -> f64 {
        self.sent as f64 / self.offered as f64
    }
}

fn run(config: &Config, load: Load, tokens: u64) -> Outcome {
    let config = Config {
        link: load.shaped.then_some(load.link),
        order: load.order,
        data_limit: 1 << 20,
        ..*config
    };
    let resolved = config.validate(Some(load.link)).unwrap();
    let mut port = Port::<Fifo>::new(&config, &resolved, Nanos::ZERO);
    let mut drops = Drops::default();
    let mut rng = Rng(load.burst ^ load.link);
    let late = |rng: &mut Rng| match load.late {
        Late::By(ns) => ns,
        Late::Any => rng.below(LATE + 1),
    };
    let share = PerByte::of_share(load.link, SHARE);
    let wire = u64::from(load.len.max(60) + 24);
    // The time for a burst, exactly: in `share.bytes` times `load.percent` parts of a nanosecond.
    let period = |number: u64| {
        let ns = u128::from(number * load.burst * wire) * share.ns * 100;
        (ns / (share.bytes * u128::from(load.percent))) as u64
    };
    let (mut now, mut number, mut offered, mut token_bytes) = (0, 0, 0, 0);
    let mut arrival = 0;
    // The time that the timer is set for, and when it fires.
    let (mut due, mut timer) = (u64::MAX, u64::MAX);
    while offered < tokens {
        // The next event.
        let arrives = arrival <= timer;
        now = now.max(arrival.min(timer));
        let mut bursts = 1;
        if arrives {
            number += 1;
            arrival = period(number) + if load.late_bursts { late(&mut rng) } else { 0 };
        } else {
            timer = u64::MAX;
            bursts = 0;
        }
        let mut left = bursts * load.burst;
        loop {
            while left > 0 {
                let priority = rng.below(load.priorities.into()) as u8;
                let packet = P::new(0, load.len, 1, 24, 84);
                port.enqueue(Nanos(now), Band::Token(priority), packet, &mut drops);
                offered += 1;
                left -= 1;
                if !load.whole {
                    break;
                }
            }
            loop {
                while load.data && port.queued(Band::Data).packets < 4 {
                    let packet = P::new(0, 1514, 1, 24, 84);
                    port.enqueue(Nanos(now), Band::Data, packet, &mut drops);
                }
                match port.dequeue(Nanos(now), &mut NoChild, &mut drops) {
                    Dequeue::Packet(packet, Band::Token(_)) => {
                        token_bytes += u64::from(packet.meta.wire_len);
                    }
                    Dequeue::Packet(..) => {}
                    Dequeue::Wait(time) => {
                        // As in the kernel, a timer that is set for this time already stays.
                        if std::mem::replace(&mut due, time.0) != time.0 || timer == u64::MAX {
                            timer = time.0 + late(&mut rng);
                        }
                        break;
                    }
                    Dequeue::Empty => break,
                }
            }
            if left == 0 {
                break;
            }
        }
    }
    let classes = (0..8).map(|p| port.stats(Band::Token(p)));
    let port_stats = port.port_stats();
    let queued: u64 = classes.clone().map(|stats| stats.queued_packets).sum();
    Outcome {
        offered: offered - queued,
        sent: classes.clone().map(|stats| stats.sent_packets).sum(),
        share: token_bytes as f64 * share.ns as f64 / share.bytes as f64 / now as f64,
        max_queue: classes
            .clone()
            .map(|stats| stats.max_packets)
            .max()
            .unwrap(),
        max_wait: classes.map(|stats| stats.sojourn_max).max().unwrap(),
        forfeits: port_stats.slack_forfeits,
        forfeited: port_stats.slack_forfeited,
        time: now,
    }
}

/// Enough tokens that the last burst does not matter.
fn tokens(burst: u64) -> u64 {
    100 * burst + 2_000
}

/// Each link with each burst, each of both with each lateness, and a quarter of what that makes
/// with each other; all of it with `TURNSTILE_LONG=1`.
fn loads() -> impl Iterator<Item = Load> {
    let lates = [Late::By(0), Late::By(10_000), Late::By(LATE), Late::Any];
    let long = std::env::var_os("TURNSTILE_LONG").is_some();
    let all = LINKS.into_iter().enumerate().flat_map(move |(i, link)| {
        BURSTS.into_iter().enumerate().flat_map(move |(j, burst)| {
            let of_burst = lates.into_iter().enumerate();
            let taken = of_burst.filter(move |(k, _)| long || (i + j + k) % 4 == 0);
            taken.map(move |(_, late)| Load::tokens(link, burst, late))
        })
    });
    all.flat_map(|load| {
        let mut loads = Vec::new();
        for order in [Order::TokensFirst, Order::DataFirst] {
            for (shaped, data) in [(true, true), (true, false), (false, false)] {
                for whole in [true, false] {
                    loads.push(Load {
                        order,
                        shaped,
                        data,
                        whole,
                        ..load
                    });
                }
            }
        }
        loads
    })
}

#[test]
fn with_the_defaults_99_per_cent_of_tokens_are_sent() {
    for load in loads() {
        // Over IPv6; to two priorities.
        let longer = Load { len: 80, ..load };
        let two = Load {
            priorities: 2,
            ..load
        };
        for load in [load, longer, two] {
            let outcome = run(&Config::DEFAULT, load, tokens(load.burst));
            assert!(outcome.sent() >= 0.99, "{load:?}: {outcome:?}");
            assert_eq!(outcome.forfeits, 0, "{load:?}: {outcome:?}");
        }
    }
}

/// When late timers make bursts overlap, tokens of the lowest of many priorities wait for the
/// higher ones of more than one burst, by strict priority.
#[test]
fn with_six_priorities_few_of_the_lowest_expire() {
    for load in loads() {
        let load = Load {
            priorities: 6,
            ..load
        };
        let outcome = run(&Config::DEFAULT, load, tokens(load.burst));
        assert!(outcome.sent() >= 0.97, "{load:?}: {outcome:?}");
    }
}

#[test]
fn with_the_defaults_the_share_is_kept_under_overload() {
    for load in loads().filter(|load| load.data || !load.shaped) {
        for percent in [150, 300] {
            let load = Load { percent, ..load };
            let outcome = run(&Config::DEFAULT, load, 30_000 * percent / 100);
            assert!(
                (outcome.share - 1.0).abs() <= 0.001,
                "{load:?}: {outcome:?}"
            );
        }
    }
}

/// Why the option exists: without it, bursts and late timers cost most of the tokens.
#[test]
fn without_jitter_bursts_and_late_timers_cost_tokens() {
    for link in LINKS {
        for burst in [32, 64] {
            let load = Load::tokens(link, burst, Late::By(0));
            let sent = run(&PAPERS, load, tokens(burst)).sent();
            assert!(sent < 0.5, "{load:?}: {sent}");
        }
        let single = Load::tokens(link, 1, Late::By(0));
        assert_eq!(run(&PAPERS, single, tokens(1)).sent(), 1.0);
    }
    // A burst that fits, but served late: 8 intervals are 10.4 us.
    let load = Load::tokens(10_000 * MBIT, 8, Late::By(LATE));
    let outcome = run(&PAPERS, load, tokens(8));
    assert!(outcome.sent() < 0.6, "{outcome:?}");
    // A long queue and no expiry are not enough: lateness beyond the slack is forfeited.
    let patient = Config {
        token_limit: 1024,
        token_expiry: Expiry::Off,
        ..PAPERS
    };
    let load = Load {
        burst: 64,
        percent: 150,
        ..load
    };
    let outcome = run(&patient, load, 30_000);
    assert!(outcome.share < 0.9, "{outcome:?}");
    // The time counted as forfeited is exactly the share that is missing.
    let time = outcome.share + outcome.forfeited as f64 / outcome.time as f64;
    assert!((time - 1.0).abs() < 0.001, "{outcome:?}");
    assert!(outcome.forfeits > 0, "{outcome:?}");
}
