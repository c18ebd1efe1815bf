// SPDX-License-Identifier: GPL-2.0
//! The demonstration's second part: messages of all lengths over a dumbbell, with Turnstile's
//! transport over token-scheduled ports and with TCP over the same links.

use std::time::Duration;

use anyhow::{Context, Result};
use turnstile_test_protocol::messages::{Messages, Way as Measured};

use crate::rng::Rng;
use crate::scenario::mixed::{run as measure, Load, Way};
use crate::scenario::{delay_for, Carrier, Queues};
use crate::topology::Link;
use crate::traffic::messages::{summary, Class, Sizes};

/// bit/s: what a machine in software emulation forwards over three hops, tokens included.
const RATE: u64 = 5_000_000;
/// A token's way to the sender and its packet's way back, ns.
const RTT: u64 = 40_000_000;
/// What a switch's port holds, bytes: twice what is on its way in a round trip.
const BUFFER: u32 = 48_000;
/// The shape of a web search's lengths, short enough for slow links.
const SIZES: Sizes = Sizes {
    name: "mixed",
    unit: 1450,
    points: &[
        (1.0, 0.0),
        (2.0, 0.3),
        (6.0, 0.5),
        (20.0, 0.7),
        (60.0, 0.85),
        (150.0, 0.95),
        (300.0, 1.0),
    ],
};
const LOAD: Load = Load {
    pairs: 4,
    link: Link::new(RATE, delay_for(RTT, 3, RATE)).buffer(BUFFER),
    sizes: SIZES,
    count: 130,
    load: 0.6,
    channels: 4,
    patience: Duration::from_secs(20),
    pause: Duration::from_millis(80),
};

const CLASSES: [Class; 4] = [
    Class {
        name: "below 10 KB",
        from: 0,
        below: 10_000,
    },
    Class {
        name: "10 KB to 100 KB",
        from: 10_000,
        below: 100_000,
    },
    Class {
        name: "100 KB and more",
        from: 100_000,
        below: u64::MAX,
    },
    Class {
        name: "all",
        from: 0,
        below: u64::MAX,
    },
];

/// Sends the same messages with each transport.
pub(super) fn run(progress: impl Fn(&str)) -> Result<Messages> {
    let messages = LOAD.messages(&mut Rng::new(1, "demo"));
    let fabric = LOAD.plan().build()?;
    let mut ways = Vec::new();
    for way in all() {
        progress(&format!(
            "{}: {} messages over a dumbbell",
            way.title, LOAD.count
        ));
        let outcome = measure(&fabric, &LOAD, &way, &messages).context(way.title)?;
        let mut commands: Vec<String> = way
            .queues
            .example(&fabric)
            .into_iter()
            .map(|line| format!("tc {line}"))
            .collect();
        if let Carrier::Turnstile(words) = &way.carrier {
            commands.push(format!("turnstile transport set {words}"));
        }
        let measured = Measured {
            name: way.name.into(),
            title: way.title.into(),
            commands,
            classes: CLASSES
                .into_iter()
                .map(|class| summary(class, &outcome.done, &outcome.alone))
                .collect(),
            data_drops: outcome.seen.data_drops,
            unscheduled_drops: outcome.seen.unscheduled_drops,
            longest_queue_bytes: outcome.seen.longest,
            longest_queue_at: outcome.seen.longest_at,
            points: outcome
                .done
                .iter()
                .filter_map(|done| {
                    let ms = done.took? as f64 / 1e6;
                    Some((done.message.bytes, (ms * 100.0).round() / 100.0))
                })
                .collect(),
        };
        print(&measured);
        ways.push(measured);
    }
    Ok(Messages {
        link_bit_s: RATE,
        rtt_ms: RTT as f64 / 1e6,
        buffer_bytes: BUFFER.into(),
        hosts: fabric.hosts(),
        load_percent: LOAD.load * 100.0,
        ways,
    })
}

fn all() -> [Way; 2] {
    [
        Way {
            name: "turnstile",
            title: "turnstile: messages over token-scheduled ports",
            queues: Queues::Tokens("unscheduled off".into()),
            carrier: Carrier::Turnstile(
                "policy top link 5mbit base-rtt 40ms unscheduled 8 rto 200ms".into(),
            ),
        },
        Way {
            name: "tcp",
            title: "stock: TCP cubic over drop-tail ports",
            queues: Queues::DropTail,
            // The kernel's own shortest retransmission timeout.
            carrier: Carrier::Tcp("cubic", 200_000),
        },
    ]
}

/// A table for the log.
fn print(way: &Measured) {
    println!("\n{}", way.title);
    for class in &way.classes {
        println!(
            "  {:<16}{:>4} messages, {} not there in time; slowdown mean {:.2}, 99 % {:.2}; \
                 time mean {:.1} ms",
            class.class,
            class.messages,
            class.missing,
            class.slowdown_mean,
            class.slowdown_p99,
            class.time_mean_us / 1e3
        );
    }
    println!(
        "  {} data packets dropped; longest queue {} bytes ({})",
        way.data_drops, way.longest_queue_bytes, way.longest_queue_at
    );
}
