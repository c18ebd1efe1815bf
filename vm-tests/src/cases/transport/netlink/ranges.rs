// SPDX-License-Identifier: GPL-2.0
//! Values just beyond each range, and beyond each other: what the kernel says of them.

use anyhow::Result;
use turnstile_core::transport::uapi::config;

use super::Attr::{self, U32, U64};
use super::{bytes, Bench};
use crate::cases::support::Verdicts;
use crate::harness::Ctx;

/// Requests, and the refusal's words.
const REFUSED: &[(&[Attr], &str)] = &[
    (
        &[U32(config::POLICY, 5)],
        "policy: 5 is none of expresspass|top|ren|dcqcn|timely",
    ),
    (
        &[U32(config::POLICY, u32::MAX)],
        "policy: 4294967295 is none of expresspass|top|ren|dcqcn|timely",
    ),
    (
        &[U64(config::LINK_RATE64, 124)],
        "link: 992bit is not in 1kbit..800gbit or auto",
    ),
    (
        &[U64(config::LINK_RATE64, 100_000_000_001)],
        "link: 800000000008bit is not in 1kbit..800gbit or auto",
    ),
    (
        &[U64(config::LINK_RATE64, u64::MAX)],
        "link: 147573952tbit is not in 1kbit..800gbit or auto",
    ),
    (
        &[U32(config::TOKEN_SHARE, 99_999)],
        "token-share: 0.0099999% is not in 0.01%..50%",
    ),
    (
        &[U32(config::TOKEN_SHARE, 0)],
        "token-share: 0% is not in 0.01%..50%",
    ),
    (
        &[U32(config::TOKEN_SHARE, 500_000_001)],
        "token-share: 50.0000001% is not in 0.01%..50%",
    ),
    (
        &[U32(config::FEEDBACK, 4)],
        "feedback: 4 is none of midpoint|weighted|ranked|auto",
    ),
    (
        &[U32(config::INITIAL_RATE, 9_999)],
        "initial-rate: 0.0009999% is not in 0.001%..100%",
    ),
    (
        &[U32(config::INITIAL_RATE, 1_000_000_001)],
        "initial-rate: 100.0000001% is not in 0.001%..100%",
    ),
    (
        &[U32(config::MIN_RATE, 9_999)],
        "min-rate: 0.0009999% is not in 0.001%..100%",
    ),
    (
        &[U32(config::MIN_RATE, 1_000_000_001)],
        "min-rate: 100.0000001% is not in 0.001%..100%",
    ),
    (
        &[U32(config::TARGET_LOSS, 500_000_001)],
        "target-loss: 50.0000001% is not in 0%..50%",
    ),
    (
        &[U32(config::WEIGHT_INITIAL, 99_999)],
        "weight-initial: 0.0099999% is not in 0.01%..100%",
    ),
    (
        &[U32(config::WEIGHT_INITIAL, 1_000_000_001)],
        "weight-initial: 100.0000001% is not in 0.01%..100%",
    ),
    (
        &[U32(config::WEIGHT_MIN, 99_999)],
        "weight-min: 0.0099999% is not in 0.01%..100%",
    ),
    (
        &[U32(config::WEIGHT_MIN, 1_000_000_001)],
        "weight-min: 100.0000001% is not in 0.01%..100%",
    ),
    (
        &[U32(config::WEIGHT_MAX, 99_999)],
        "weight-max: 0.0099999% is not in 0.01%..100%",
    ),
    (
        &[U32(config::WEIGHT_MAX, u32::MAX)],
        "weight-max: 429.4967295% is not in 0.01%..100%",
    ),
    (
        &[U32(config::JITTER, 1_000_000_001)],
        "jitter: 100.0000001% is not in 0%..100%",
    ),
    (
        &[U64(config::UPDATE_PERIOD, 999)],
        "update-period: 999ns is not in 1us..1s or rtt",
    ),
    (
        &[U64(config::UPDATE_PERIOD, 1_000_000_001)],
        "update-period: 1000000001ns is not in 1us..1s or rtt",
    ),
    (
        &[U64(config::BASE_RTT, 999)],
        "base-rtt: 999ns is not in 1us..1s",
    ),
    (
        &[U64(config::BASE_RTT, 0)],
        "base-rtt: 0ns is not in 1us..1s",
    ),
    (
        &[U64(config::BASE_RTT, 1_000_001_000)],
        "base-rtt: 1000001us is not in 1us..1s",
    ),
    (
        &[U64(config::TOKEN_EXPIRY, 999)],
        "token-expiry: 999ns is not in 1us..1s or off",
    ),
    (
        &[U64(config::TOKEN_EXPIRY, u64::MAX)],
        "token-expiry: 18446744073709551615ns is not in 1us..1s or off",
    ),
    (&[U32(config::CLOCK, 2)], "clock: 2 is none of realtime|tai"),
    (
        &[U32(config::PRIORITIES, 9)],
        "priorities: 9 is not in 1..8 or auto",
    ),
    (
        &[U32(config::PRIORITIES, 257)],
        "priorities: 257 is not in 1..8 or auto",
    ),
    (
        &[U32(config::PRIORITY_PACKETS, 1)],
        "priority-packets: 1 is not in 2..4194304 packets",
    ),
    (
        &[U32(config::PRIORITY_PACKETS, 4_194_305)],
        "priority-packets: 4194305 is not in 2..4194304 packets",
    ),
    (
        &[U32(config::PRIORITY_A, 0)],
        "priority-a: 0 is not in 1..1000000 thousandths",
    ),
    (
        &[U32(config::PRIORITY_A, 1_000_001)],
        "priority-a: 1000001 is not in 1..1000000 thousandths",
    ),
    (
        &[U32(config::PRIORITY_B, 1_000_000_001)],
        "priority-b: 1000000001 is not in 0..1000000000 thousandths",
    ),
    (
        &[U32(config::SCHEDULE, 4)],
        "schedule: 4 is none of srpt|las|edf|coflow",
    ),
    (
        &[U32(config::UNSCHEDULED, 1025)],
        "unscheduled: 1025 is not in 1..1024 packets, off or auto",
    ),
    (
        &[U32(config::MAX_INCOMING, 0)],
        "max-incoming: 0 is not in 1..65536 messages",
    ),
    (
        &[U32(config::MAX_INCOMING, 65_537)],
        "max-incoming: 65537 is not in 1..65536 messages",
    ),
    (
        &[U32(config::MAX_OUTGOING, 0)],
        "max-outgoing: 0 is not in 1..65536 messages",
    ),
    (
        &[U32(config::MAX_OUTGOING, 65_537)],
        "max-outgoing: 65537 is not in 1..65536 messages",
    ),
    (
        &[U32(config::MAX_PER_PEER, 0)],
        "max-per-peer: 0 is not in 1..65536 messages",
    ),
    (
        &[U32(config::MAX_PER_PEER, 65_537)],
        "max-per-peer: 65537 is not in 1..65536 messages",
    ),
    (
        &[U32(config::MAX_HALF_OPEN, 0)],
        "max-half-open: 0 is not in 1..65536 messages",
    ),
    (
        &[U32(config::MAX_HALF_OPEN, 65_537)],
        "max-half-open: 65537 is not in 1..65536 messages",
    ),
    (
        &[U32(config::MAX_REMEMBERED, 0)],
        "max-remembered: 0 is not in 1..1048576 messages",
    ),
    (
        &[U32(config::MAX_REMEMBERED, 1_048_577)],
        "max-remembered: 1048577 is not in 1..1048576 messages",
    ),
    (
        &[U64(config::TIMEOUT, 99_999_999)],
        "timeout: 99999999ns is not in 100ms..3600s",
    ),
    (
        &[U64(config::TIMEOUT, 3_601_000_000_000)],
        "timeout: 3601s is not in 100ms..3600s",
    ),
    (
        &[U64(config::RTO, 199_000)],
        "rto: 199us is not in 200us..1s",
    ),
    (
        &[U64(config::RTO, 1_001_000_000)],
        "rto: 1001ms is not in 200us..1s",
    ),
    (
        &[U32(config::SEND_BUFFER, 65_535)],
        "send-buffer: 65535b is not in 64kb..1gb",
    ),
    (
        &[U32(config::SEND_BUFFER, (1 << 30) + 1)],
        "send-buffer: 1073741825b is not in 64kb..1gb",
    ),
    (
        &[U32(config::RECEIVE_BUFFER, 65_535)],
        "receive-buffer: 65535b is not in 64kb..1gb",
    ),
    (
        &[U32(config::RECEIVE_BUFFER, u32::MAX)],
        "receive-buffer: 4294967295b is not in 64kb..1gb",
    ),
    (
        &[U32(config::RECEIVE_BUFFER_MAX, 65_535)],
        "receive-buffer-max: 65535b is not in 64kb..1gb",
    ),
    (
        &[U32(config::RECEIVE_MEMORY, u32::MAX)],
        "receive-memory: 4294967295b is not in 64kb..1gb",
    ),
    (
        &[U32(config::DSCP_SIGNAL, 64)],
        "dscp-signal: 64 is not in 0..63",
    ),
    (
        &[U32(config::DSCP_TOKEN, 64)],
        "dscp-token: 64 is not in 0..63",
    ),
    (
        &[U32(config::DSCP_DATA, 256)],
        "dscp-data: 256 is not in 0..63",
    ),
    (
        &[U32(config::DSCP_UNSCHEDULED, u32::MAX)],
        "dscp-unscheduled: 4294967295 is not in 0..63",
    ),
    (&[U32(config::FAIRNESS, 65)], "fairness: 65 is not in 0..64"),
    (
        &[U32(config::MAX_ORPHANS, 0)],
        "max-orphans: 0 is not in 1..65536 messages",
    ),
    (
        &[U32(config::MAX_ORPHANS, 65_537)],
        "max-orphans: 65537 is not in 1..65536 messages",
    ),
    (
        &[U32(config::ORPHAN_BUFFER, 65_535)],
        "orphan-buffer: 65535b is not in 64kb..1gb",
    ),
    (
        &[U32(config::ORPHAN_BUFFER, (1 << 30) + 1)],
        "orphan-buffer: 1073741825b is not in 64kb..1gb",
    ),
    // Beyond each other.
    (
        &[U32(config::INITIAL_RATE, 3_000_000)],
        "initial-rate: 0.3% is below min-rate, 1.5%",
    ),
    (
        &[U32(config::WEIGHT_INITIAL, 1_000_000)],
        "weight-initial: 0.1% is below weight-min, 5%",
    ),
    (
        &[U32(config::WEIGHT_MAX, 62_000_000)],
        "weight-max: 6.2% is below weight-initial, 6.25%",
    ),
    (
        &[
            U64(config::RTO, 300_000_000),
            U64(config::TIMEOUT, 200_000_000),
        ],
        "rto: 300ms is above timeout, 200ms",
    ),
    // What comes before the refused attribute must not take effect either.
    (
        &[
            U32(config::PRIORITIES, 3),
            U64(config::TIMEOUT, 1_000_000_000),
            U32(config::DSCP_DATA, 64),
        ],
        "dscp-data: 64 is not in 0..63",
    ),
    // Nor what comes after it.
    (
        &[U32(config::PRIORITIES, 9), U32(config::MAX_INCOMING, 7)],
        "priorities: 9 is not in 1..8 or auto",
    ),
    (
        &[U64(config::LINK_IN_FORCE, 1_250_000_000)],
        "link-in-force: can only be read",
    ),
];

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new()?;
    let mut verdicts = Verdicts::default();
    // In a namespace that nobody has used, then in one that has a configuration.
    for fresh in [true, false] {
        for (attributes, words) in REFUSED {
            verdicts.row(
                &format!("{attributes:?}, fresh: {fresh}"),
                bench.refused(&bytes(attributes), words),
            );
        }
        verdicts.row(
            "one that is accepted",
            bench.accepted(&[U32(config::MAX_INCOMING, 65_536)]),
        );
    }
    ctx.note(format!("{} rows", verdicts.rows));
    verdicts.finish()
}
