// SPDX-License-Identifier: GPL-2.0
//! What the demonstration's hosts send: the same in every set-up.

use std::time::Duration;

use turnstile_test_protocol::demo;

pub(super) use crate::scenario::TOKEN_SHARE;
use crate::topology::Net;
use crate::traffic::{Flow, Packet};

/// The bottleneck's rate in bit/s on the wire. Chosen so that a machine in software emulation is
/// well able to send and forward the load (about 1800 packets/s), and that a pacing interval (2.6
/// ms) is longer than its timers are late: the port limits, not the emulation.
pub(super) const LINK: u64 = 5_000_000;
/// How long the load lasts.
pub(super) const DURATION: Duration = Duration::from_millis(12_500);

/// A part of the load's story.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    /// What the hosts do, for people.
    pub(super) what: &'static str,
    /// Seconds after the start.
    pub(super) from: f64,
    /// Seconds after the start.
    pub(super) until: f64,
}

impl Phase {
    /// As it is reported.
    pub(super) fn report(&self) -> demo::Phase {
        demo::Phase {
            what: self.what.into(),
            from: self.from,
            until: self.until,
        }
    }
}

/// The story. Signals run all through it.
pub(super) const PHASES: [Phase; 5] = [
    Phase {
        what: "idle but for signals",
        from: 0.0,
        until: 1.0,
    },
    Phase {
        what: "low-priority tokens alone",
        from: 1.0,
        until: 4.0,
    },
    Phase {
        what: "higher priorities join",
        from: 4.0,
        until: 7.0,
    },
    Phase {
        what: "data saturates the link",
        from: 7.0,
        until: 10.5,
    },
    Phase {
        what: "tokens stop",
        from: 10.5,
        until: 12.5,
    },
];

/// The classes, highest first, by the names used in the report; a stream has its class's index.
pub(super) const CLASSES: [&str; 9] = [
    "signal",
    "token0",
    "token1",
    "token2",
    "token3",
    "token4",
    "token5",
    "data",
    "unscheduled",
];
/// Indices of the token classes in [`CLASSES`].
pub(super) const TOKENS: std::ops::Range<usize> = 1..7;
/// Index of the data class in [`CLASSES`].
pub(super) const DATA: usize = 7;

/// The flows by sending host. All go to the last host.
pub(super) fn flows(net: &Net) -> Vec<Vec<Flow>> {
    let link = LINK as f64;
    let group = link * TOKEN_SHARE;
    let to = net.hosts[net.hosts.len() - 1].v4;
    let seconds = Duration::from_secs_f64;
    let flow = |packet, rate: f64, from, until| {
        let stream = match packet {
            Packet::Signal => 0,
            Packet::Token(priority) => 1 + u16::from(priority),
            Packet::Unscheduled => 8,
            Packet::Data | Packet::Other => 7,
        };
        Flow::new(stream, packet, to)
            .bits_per_s(rate)
            .window(seconds(from), seconds(until))
    };
    let [idle, low, join, saturated, stop] = PHASES;
    vec![
        vec![
            flow(Packet::Token(5), 3.0 * group, low.from, saturated.until),
            flow(Packet::Token(2), 0.4 * group, join.from, saturated.until),
        ],
        vec![
            flow(Packet::Token(0), 0.4 * group, join.from, saturated.until),
            flow(
                Packet::Token(1),
                0.5 * group,
                saturated.from,
                saturated.until,
            ),
            flow(Packet::Signal, 0.003 * link, idle.from, stop.until),
        ],
        vec![
            flow(Packet::Data, 1.2 * link, saturated.from, stop.until),
            flow(Packet::Unscheduled, 0.1 * link, join.from, stop.until),
        ],
    ]
}
