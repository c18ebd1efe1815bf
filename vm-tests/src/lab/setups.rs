// SPDX-License-Identifier: GPL-2.0
//! Set-ups of a port: Turnstile, and the stock qdiscs that come closest.
//!
//! The stock ones are as good as stock qdiscs allow: wire lengths are counted as Turnstile counts
//! them (`stab overhead 24 mpu 84`), a `tbf` at the root holds the port to the link's rate, queues
//! have the same caps, `u32` filters read the same bytes. Time is exact here, so that bursts are as
//! small as a `tbf` takes: one frame, one token.

use turnstile_core::header::PORT;

pub(super) use crate::scenario::{TOKEN_LIMIT, TOKEN_SHARE};
use crate::traffic::Packet;
use turnstile_test_protocol::lab::SetUpLines;

/// Token priorities in use.
pub(super) const PRIORITIES: u8 = 6;
/// Bytes of a token on the wire.
pub(super) const TOKEN_WIRE: u64 = 84;
/// Bytes that the data queue holds.
pub(super) const DATA_LIMIT: u64 = 375_000;

/// A set-up.
#[derive(Clone, Debug)]
pub(super) struct SetUp {
    /// Short, for columns and file names.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// For [`crate::topology::Fabric::requeue`].
    pub(super) lines: Vec<String>,
}

impl SetUp {
    pub(super) fn report(&self) -> SetUpLines {
        SetUpLines {
            title: format!("{}: {}", self.name, self.title),
            lines: self.lines.clone(),
        }
    }
}

/// Interval of tokens on a link of so many bit/s, at the default share, ns.
pub(super) fn interval(rate: u64) -> f64 {
    TOKEN_WIRE as f64 * 8e9 / (rate as f64 * TOKEN_SHARE)
}

/// Turnstile's port with these options beside the link's rate, as exact as the papers' switches.
pub(super) fn turnstile(rate: u64, options: &str) -> SetUp {
    SetUp {
        name: "turnstile",
        title: "one shaper for all token priorities",
        lines: vec![format!(
            "qdisc add dev DEV root handle 1: turnstile link {rate}bit jitter 0 data-limit \
             {DATA_LIMIT} {options}"
        )
        .trim_end()
        .to_owned()],
    }
}

/// prio in tbf in prio in tbf: the token group has a limiter of its own. Nothing expires.
pub(super) fn nested(rate: u64) -> SetUp {
    let tokens = (rate as f64 * TOKEN_SHARE).round();
    let mut lines = port(rate, 4, 2);
    lines.push(format!(
        "qdisc add dev DEV parent 2:2 handle 3: tbf rate {tokens}bit burst {TOKEN_WIRE} limit 1mb"
    ));
    lines.push(format!(
        "qdisc add dev DEV parent 3:1 handle 4: prio bands {PRIORITIES} priomap {}",
        ["0"; 16].join(" ")
    ));
    for band in 1..=PRIORITIES {
        lines.push(format!(
            "qdisc add dev DEV parent 4:{band} handle {}: pfifo limit {TOKEN_LIMIT}",
            40 + band
        ));
    }
    lines.extend(data_and_unscheduled(3));
    lines.push(filter("2:", "2:1", Packet::Signal));
    for priority in 0..PRIORITIES {
        lines.push(filter("2:", "2:2", Packet::Token(priority)));
        let band = format!("4:{}", priority + 1);
        lines.push(filter("4:", &band, Packet::Token(priority)));
    }
    lines.push(filter("2:", "2:4", Packet::Unscheduled));
    SetUp {
        name: "nested",
        title: "stock: prio in tbf in prio in tbf",
        lines,
    }
}

/// TOP section 4.1: "rate-limit each token queue such that their capacities sum up to 5 percent".
pub(super) fn limiter_per_queue(rate: u64) -> SetUp {
    let each = (rate as f64 * TOKEN_SHARE / f64::from(PRIORITIES)).round();
    let limiter = format!(
        "tbf rate {each}bit burst {TOKEN_WIRE} limit {}",
        TOKEN_LIMIT * TOKEN_WIRE
    );
    SetUp {
        name: "limiter-per-queue",
        title: "stock: one limiter per token queue",
        lines: flat(rate, &limiter),
    }
}

/// Strict priority; tokens are not limited.
pub(super) fn unlimited(rate: u64) -> SetUp {
    SetUp {
        name: "unlimited",
        title: "stock: strict priority, tokens not limited",
        lines: flat(rate, "pfifo limit 1000"),
    }
}

/// TOP section 4.1: data above the tokens and shaped to 95 %, tokens below it, not shaped.
pub(super) fn data_shaped(rate: u64) -> SetUp {
    let mut lines = port(rate, 3 + PRIORITIES, 1);
    lines.push(format!(
        "qdisc add dev DEV parent 2:2 handle 12: tbf rate {}bit burst 1600 limit {DATA_LIMIT}",
        rate / 100 * 95
    ));
    lines.push(format!(
        "qdisc add dev DEV parent 2:{} handle 13: pfifo limit 1",
        3 + PRIORITIES
    ));
    lines.push(filter("2:", "2:1", Packet::Signal));
    for priority in 0..PRIORITIES {
        let band = 3 + priority;
        lines.push(format!(
            "qdisc add dev DEV parent 2:{band} handle {}: pfifo limit {TOKEN_LIMIT}",
            40 + band
        ));
        lines.push(filter("2:", &format!("2:{band}"), Packet::Token(priority)));
    }
    SetUp {
        name: "data-shaped",
        title: "stock: data first and shaped to 95 %, tokens not",
        lines,
    }
}

/// A band for each class, tokens before data; each token queue is this qdisc.
fn flat(rate: u64, token_queue: &str) -> Vec<String> {
    let mut lines = port(rate, 3 + PRIORITIES, 1 + PRIORITIES);
    lines.push(filter("2:", "2:1", Packet::Signal));
    for priority in 0..PRIORITIES {
        let band = 2 + priority;
        lines.push(format!(
            "qdisc add dev DEV parent 2:{band} handle {}: {token_queue}",
            40 + band
        ));
        lines.push(filter("2:", &format!("2:{band}"), Packet::Token(priority)));
    }
    lines.extend(data_and_unscheduled(2 + PRIORITIES));
    lines.push(filter(
        "2:",
        &format!("2:{}", 3 + PRIORITIES),
        Packet::Unscheduled,
    ));
    lines
}

/// The limiter of the whole port and its bands; packets that no filter matches go to this band,
/// counted from 0.
fn port(rate: u64, bands: u8, data: u8) -> Vec<String> {
    vec![
        format!(
            "qdisc add dev DEV root handle 1: stab overhead 24 mpu 84 linklayer ethernet \
             tbf rate {rate}bit burst 1600 limit 10mb"
        ),
        format!(
            "qdisc add dev DEV parent 1:1 handle 2: prio bands {bands} priomap {}",
            vec![data.to_string(); 16].join(" ")
        ),
        "qdisc add dev DEV parent 2:1 handle 11: pfifo limit 1000".into(),
    ]
}

/// The queues of the two lowest bands; `band` is that of data.
fn data_and_unscheduled(band: u8) -> Vec<String> {
    vec![
        format!("qdisc add dev DEV parent 2:{band} handle 12: bfifo limit {DATA_LIMIT}"),
        format!(
            "qdisc add dev DEV parent 2:{} handle 13: pfifo limit 1",
            band + 1
        ),
    ]
}

/// A filter of qdisc `parent`, on the UDP port and the first payload bytes, behind 20 bytes of IPv4
/// and 8 of UDP.
fn filter(parent: &str, class: &str, packet: Packet) -> String {
    let header = packet.header();
    let at = |offset: usize| format!("match u8 0x{:02x} 0xff at {}", header[offset], 28 + offset);
    let bytes = match packet {
        Packet::Token(_) => format!("{} {}", at(0), at(1)),
        Packet::Unscheduled => format!("{} {}", at(0), at(2)),
        _ => at(0),
    };
    format!(
        "filter add dev DEV parent {parent} protocol ip prio 1 u32 match ip protocol 17 0xff \
         match ip dport {PORT} 0xffff {bytes} flowid {class}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_due_every_84_of_1622() {
        assert!((interval(10_000_000_000) - 1297.6).abs() < 1e-9);
    }

    #[test]
    fn every_set_up_names_its_device_in_each_line() {
        let rate = 10_000_000_000;
        for set_up in [
            turnstile(rate, ""),
            nested(rate),
            limiter_per_queue(rate),
            unlimited(rate),
            data_shaped(rate),
        ] {
            assert!(set_up.lines.iter().all(|line| line.contains(" dev DEV ")));
        }
    }
}
