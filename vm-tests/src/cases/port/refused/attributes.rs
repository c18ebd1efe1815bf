// SPDX-License-Identifier: GPL-2.0
//! Values that the tools would not send: what the kernel itself says of them.

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::{class, option};

use super::{Bench, Verdicts, PORT};
use crate::harness::Ctx;
use crate::raw_netlink::{attribute, attribute_u32, attribute_u64};

/// One attribute of a request.
#[derive(Clone, Copy, Debug)]
enum Attr {
    U32(u16, u32),
    U64(u16, u64),
    /// A DSCP map that sends this code point to this class number, all others to data.
    Dscp(usize, u8),
}

impl Attr {
    fn number(self) -> u16 {
        match self {
            Self::U32(number, _) | Self::U64(number, _) => number,
            Self::Dscp(..) => option::DSCP_MAP,
        }
    }

    fn content(self) -> Vec<u8> {
        match self {
            Self::U32(_, value) => value.to_ne_bytes().to_vec(),
            Self::U64(_, value) => value.to_ne_bytes().to_vec(),
            Self::Dscp(code, minor) => {
                let mut map = [class::DATA; 64];
                map[code] = minor;
                map.to_vec()
            }
        }
    }
}

use Attr::{Dscp, U32, U64};

/// Requests, and what the refusal must say. The link has 10 Gbit/s: 1250000000 B/s.
const REFUSED: &[(&[Attr], &[&str])] = &[
    (
        &[U64(option::LINK_RATE64, 1)],
        &["link: 8bit is not in 1kbit..800gbit or auto"],
    ),
    (
        &[U64(option::LINK_RATE64, 124)],
        &["link: 992bit is not in 1kbit..800gbit or auto"],
    ),
    (
        &[U64(option::LINK_RATE64, 100_000_000_001)],
        &["link: 800000000008bit is not in 1kbit..800gbit or auto"],
    ),
    (
        &[U64(option::LINK_RATE64, u64::MAX)],
        &["link: 147573952tbit is not in 1kbit..800gbit or auto"],
    ),
    (
        &[U32(option::TOKEN_SHARE, 0)],
        &["tokens: 0% is not in 0.01%..50%"],
    ),
    (
        &[U32(option::TOKEN_SHARE, 99_999)],
        &["tokens: 0.0099999% is not in 0.01%..50%"],
    ),
    (
        &[U32(option::TOKEN_SHARE, 500_000_001)],
        &["tokens: 50.0000001% is not in 0.01%..50%"],
    ),
    (
        &[U32(option::TOKEN_SHARE, u32::MAX)],
        &["tokens: 429.4967295% is not in 0.01%..50%"],
    ),
    (
        &[U64(option::TOKEN_RATE64, 0)],
        &["tokens: 0bit is not in 1mbit..5gbit"],
    ),
    (
        &[U64(option::TOKEN_RATE64, 124_999)],
        &["tokens: 999992bit is not in 1mbit..5gbit"],
    ),
    (
        &[U64(option::TOKEN_RATE64, 625_000_001)],
        &["tokens: 5000000008bit is not in 1mbit..5gbit"],
    ),
    (
        &[U64(option::TOKEN_RATE64, u64::MAX)],
        &["tokens: 147573952tbit is not in 1mbit..5gbit"],
    ),
    (
        &[
            U64(option::LINK_RATE64, 1000),
            U64(option::TOKEN_RATE64, 501),
        ],
        &["tokens: 4008bit is not in 8bit..4kbit"],
    ),
    (
        &[
            U32(option::TOKEN_SHARE, 50_000_000),
            U64(option::TOKEN_RATE64, 1_250_000),
        ],
        &["tokens", "share", "rate"],
    ),
    (
        &[
            U64(option::TOKEN_RATE64, 1_250_000),
            U32(option::TOKEN_SHARE, 50_000_000),
        ],
        &["tokens", "share", "rate"],
    ),
    (
        &[U32(option::PRIORITIES, 0)],
        &["priorities: 0 is not in 1..8"],
    ),
    (
        &[U32(option::PRIORITIES, 9)],
        &["priorities: 9 is not in 1..8"],
    ),
    (
        &[U32(option::PRIORITIES, 257)],
        &["priorities: 257 is not in 1..8"],
    ),
    (
        &[U32(option::PRIORITIES, u32::MAX)],
        &["priorities: 4294967295 is not in 1..8"],
    ),
    (
        &[U32(option::TOKEN_LIMIT, 0)],
        &["token-limit: 0 is not in 1..1024 packets"],
    ),
    (
        &[U32(option::TOKEN_LIMIT, 1025)],
        &["token-limit: 1025 is not in 1..1024 packets"],
    ),
    (
        &[U32(option::TOKEN_LIMIT, u32::MAX)],
        &["token-limit: 4294967295 is not in 1..1024 packets"],
    ),
    (
        &[U64(option::TOKEN_EXPIRY, 10_000_000_001)],
        &["token-expiry: 10000000001ns is not in 1ns..10s, auto or off"],
    ),
    (
        &[U64(option::TOKEN_EXPIRY, u64::MAX - 1)],
        &["token-expiry: 18446744073709551614ns is not in 1ns..10s, auto or off"],
    ),
    (
        &[U32(option::ORDER, 2)],
        &["order: 2 is none of tokens-first|data-first"],
    ),
    (
        &[U32(option::ORDER, u32::MAX)],
        &["order: 4294967295 is none of tokens-first|data-first"],
    ),
    (
        &[U32(option::TOKEN_DROP, 2)],
        &["token-drop: 2 is none of fair|last"],
    ),
    (
        &[U32(option::UNSCHEDULED, 1025)],
        &["unscheduled: 1025 is not in 1..1024 packets or off"],
    ),
    (
        &[U32(option::UNSCHEDULED, u32::MAX)],
        &["unscheduled: 4294967295 is not in 1..1024 packets or off"],
    ),
    (
        &[U32(option::DATA_LIMIT, 0)],
        &["data-limit: 0b is not in 1600b..1gb"],
    ),
    (
        &[U32(option::DATA_LIMIT, 1599)],
        &["data-limit: 1599b is not in 1600b..1gb"],
    ),
    (
        &[U32(option::DATA_LIMIT, (1 << 30) + 1)],
        &["data-limit: 1073741825b is not in 1600b..1gb"],
    ),
    (
        &[U32(option::DATA_LIMIT, u32::MAX)],
        &["data-limit: 4294967295b is not in 1600b..1gb"],
    ),
    (
        &[U32(option::SIGNAL_LIMIT, 0)],
        &["signal-limit: 0 is not in 1..100000 packets"],
    ),
    (
        &[U32(option::SIGNAL_LIMIT, 100_001)],
        &["signal-limit: 100001 is not in 1..100000 packets"],
    ),
    (
        &[U32(option::SIGNAL_LIMIT, u32::MAX)],
        &["signal-limit: 4294967295 is not in 1..100000 packets"],
    ),
    (
        &[U32(option::SIGNAL_SHARE, 99_999)],
        &["signal-share: 0.0099999% is not in 0.01%..100% or off"],
    ),
    (
        &[U32(option::SIGNAL_SHARE, 1_000_000_001)],
        &["signal-share: 100.0000001% is not in 0.01%..100% or off"],
    ),
    (&[Dscp(0, 0)], &["dscp: CS0: 0 is not a class"]),
    (&[Dscp(63, 4)], &["dscp: 63: 4 is not a class"]),
    (
        &[Dscp(46, class::TOKENS + 8)],
        &["dscp: EF: 24 is not a class"],
    ),
    (&[Dscp(46, 255)], &["dscp: EF: 255 is not a class"]),
    (
        &[U32(option::PRIORITIES, 6), Dscp(46, class::TOKENS + 6)],
        &["dscp: EF goes to token6, but there are 6 priorities"],
    ),
    (
        &[U32(option::PRIORITIES, 2), Dscp(10, class::TOKENS + 2)],
        &["dscp: AF11 goes to token2, but there are 2 priorities"],
    ),
    (
        &[Dscp(10, class::TOKENS + 1), U32(option::PRIORITIES, 1)],
        &["dscp: AF11 goes to token1, but there is 1 priority"],
    ),
    (
        &[U32(option::UNSCHEDULED, 0), Dscp(8, class::UNSCHEDULED)],
        &["dscp: CS1 goes to unscheduled, which is off"],
    ),
    (
        &[Dscp(8, class::UNSCHEDULED), U32(option::UNSCHEDULED, 0)],
        &["dscp: CS1 goes to unscheduled, which is off"],
    ),
    (
        &[U32(option::SPLIT_GSO, 3)],
        &["split-gso: 3 is not in 0..1 or auto"],
    ),
    (
        &[U32(option::SPLIT_GSO, u32::MAX)],
        &["split-gso: 4294967295 is not in 0..1 or auto"],
    ),
    (
        &[U64(option::GSO_HOLD, 1_000_000_001)],
        &["gso-hold: 1000000001ns is not in 0ns..1s or auto"],
    ),
    (
        &[U64(option::GSO_HOLD, u64::MAX - 1)],
        &["gso-hold: 18446744073709551614ns is not in 0ns..1s or auto"],
    ),
    (
        &[U32(option::OVERHEAD, 257)],
        &["overhead: 257b is not in 0b..256b"],
    ),
    (
        &[U32(option::OVERHEAD, u32::MAX)],
        &["overhead: 4294967295b is not in 0b..256b"],
    ),
    (&[U32(option::MPU, 257)], &["mpu: 257b is not in 0b..256b"]),
    (
        &[U32(option::MPU, u32::MAX)],
        &["mpu: 4294967295b is not in 0b..256b"],
    ),
    (
        &[U64(option::JITTER, 10_000_001)],
        &["jitter: 10000001ns is not in 0ns..10ms"],
    ),
    (
        &[U64(option::JITTER, u64::MAX)],
        &["jitter: 18446744073709551615ns is not in 0ns..10ms"],
    ),
    // What comes before the refused attribute must not take effect either.
    (
        &[
            U32(option::TOKEN_LIMIT, 100),
            U32(option::DATA_LIMIT, 50_000),
            U32(option::MPU, 300),
        ],
        &["mpu: 300b is not in 0b..256b"],
    ),
    (
        &[
            U32(option::PHANTOM_SHARE, 9_999_999),
            U32(option::PHANTOM_MARK, 0),
        ],
        &["phantom drain: 0.9999999% is not in 1%..100% or off"],
    ),
    (
        &[
            U32(option::PHANTOM_SHARE, u32::MAX),
            U32(option::PHANTOM_MARK, 0),
        ],
        &["phantom drain: 429.4967295% is not in 1%..100% or off"],
    ),
    (
        &[U64(option::PHANTOM_RATE64, 0), U32(option::PHANTOM_MARK, 0)],
        &["phantom drain: 0bit is not in 100mbit..10gbit"],
    ),
    (
        &[
            U64(option::PHANTOM_RATE64, u64::MAX),
            U32(option::PHANTOM_MARK, 0),
        ],
        &["phantom drain: 147573952tbit is not in 100mbit..10gbit"],
    ),
    (
        &[
            U32(option::PHANTOM_SHARE, 950_000_000),
            U32(option::PHANTOM_MARK, (1 << 30) + 1),
        ],
        &["phantom mark: 1073741825b is not in 0b..1gb"],
    ),
    (
        &[
            U32(option::PHANTOM_SHARE, 950_000_000),
            U64(option::PHANTOM_RATE64, 1_000_000_000),
            U32(option::PHANTOM_MARK, 0),
        ],
        &["phantom drain: both a share and a rate"],
    ),
    (
        &[
            U64(option::PHANTOM_RATE64, 1_000_000_000),
            U32(option::PHANTOM_SHARE, 0),
        ],
        &["phantom drain: both a share and a rate"],
    ),
    (
        &[U32(option::PHANTOM_SHARE, 950_000_000)],
        &["phantom drain: needs phantom mark, too"],
    ),
    (
        &[U32(option::PHANTOM_MARK, 1000)],
        &["phantom mark: needs phantom drain, too"],
    ),
    (
        &[
            U32(option::PHANTOM_SHARE, 0),
            U32(option::PHANTOM_MARK, 1000),
        ],
        &["phantom mark: the phantom queue is off"],
    ),
    (
        &[U64(option::REN_PERIOD, 999)],
        &["ren period: 999ns is not in 1us..1s or off"],
    ),
    (
        &[U64(option::REN_PERIOD, 1_000_000_001)],
        &["ren period: 1000000001ns is not in 1us..1s or off"],
    ),
    (
        &[U64(option::REN_PERIOD, u64::MAX)],
        &["ren period: 18446744073709551615ns is not in 1us..1s or off"],
    ),
];

/// The limits themselves. The dump must show them afterwards.
const ACCEPTED: &[&[Attr]] = &[
    &[U64(option::LINK_RATE64, 125)],
    &[U64(option::LINK_RATE64, 100_000_000_000)],
    &[U64(option::LINK_RATE64, 0)],
    &[U32(option::TOKEN_SHARE, 100_000)],
    &[U32(option::TOKEN_SHARE, 500_000_000)],
    &[U64(option::TOKEN_RATE64, 125_000)],
    &[U64(option::TOKEN_RATE64, 625_000_000)],
    &[
        U64(option::LINK_RATE64, 1000),
        U64(option::TOKEN_RATE64, 500),
    ],
    &[
        U64(option::LINK_RATE64, 0),
        U32(option::TOKEN_SHARE, 51_787_916),
    ],
    &[U32(option::PRIORITIES, 1)],
    &[U32(option::PRIORITIES, 8)],
    &[U32(option::TOKEN_LIMIT, 1)],
    &[U32(option::TOKEN_LIMIT, 1024)],
    &[U64(option::TOKEN_EXPIRY, 1)],
    &[U64(option::TOKEN_EXPIRY, 10_000_000_000)],
    &[U64(option::TOKEN_EXPIRY, 0)],
    &[U64(option::TOKEN_EXPIRY, u64::MAX)],
    &[U32(option::ORDER, 1)],
    &[U32(option::ORDER, 0)],
    &[U32(option::TOKEN_DROP, 1)],
    &[U32(option::TOKEN_DROP, 0)],
    &[U32(option::UNSCHEDULED, 0)],
    &[U32(option::UNSCHEDULED, 1024)],
    &[U32(option::UNSCHEDULED, 1)],
    &[U32(option::DATA_LIMIT, 1600)],
    &[U32(option::DATA_LIMIT, 1 << 30)],
    &[U32(option::SIGNAL_LIMIT, 1)],
    &[U32(option::SIGNAL_LIMIT, 100_000)],
    &[U32(option::SIGNAL_SHARE, 0)],
    &[U32(option::SIGNAL_SHARE, 100_000)],
    &[U32(option::SIGNAL_SHARE, 1_000_000_000)],
    &[U32(option::PRIORITIES, 8), Dscp(46, class::TOKENS + 7)],
    &[Dscp(0, class::UNSCHEDULED), U32(option::UNSCHEDULED, 2)],
    &[Dscp(63, class::SIGNAL)],
    &[U32(option::SPLIT_GSO, 0)],
    &[U32(option::SPLIT_GSO, 1)],
    &[U32(option::SPLIT_GSO, 2)],
    &[U64(option::GSO_HOLD, 0)],
    &[U64(option::GSO_HOLD, 1_000_000_000)],
    &[U64(option::GSO_HOLD, u64::MAX)],
    &[U32(option::OVERHEAD, 0)],
    &[U32(option::OVERHEAD, 256)],
    &[U32(option::MPU, 0)],
    &[U32(option::MPU, 256)],
    &[U64(option::JITTER, 0)],
    &[U64(option::JITTER, 10_000_000)],
    &[
        U32(option::PHANTOM_MARK, 0),
        U32(option::PHANTOM_SHARE, 10_000_000),
    ],
    &[
        U32(option::PHANTOM_SHARE, 1_000_000_000),
        U32(option::PHANTOM_MARK, 1 << 30),
    ],
    &[
        U64(option::PHANTOM_RATE64, 12_500_000),
        U32(option::PHANTOM_MARK, 1500),
    ],
    &[
        U32(option::PHANTOM_MARK, 1500),
        U64(option::PHANTOM_RATE64, 1_250_000_000),
    ],
    &[U32(option::PHANTOM_SHARE, 0)],
    &[U64(option::REN_PERIOD, 1_000)],
    &[U64(option::REN_PERIOD, 1_000_000_000)],
    &[U64(option::REN_PERIOD, 0)],
];

fn bytes(attributes: &[Attr]) -> Vec<u8> {
    let each = attributes.iter().map(|attr| match *attr {
        U32(number, value) => attribute_u32(number, value),
        U64(number, value) => attribute_u64(number, value),
        Dscp(..) => attribute(option::DSCP_MAP, &attr.content()),
    });
    each.collect::<Vec<_>>().concat()
}

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new("")?;
    let mut verdicts = Verdicts::default();
    for (attributes, says) in REFUSED {
        let says = [&["turnstile: "], *says].concat();
        verdicts.row(
            &format!("{attributes:?}"),
            bench.refused_raw(&bytes(attributes), &says),
        );
    }
    for attributes in ACCEPTED {
        verdicts.row(&format!("{attributes:?}"), accepted(&mut bench, attributes));
    }
    ctx.note(format!("{} rows", verdicts.rows));
    verdicts.finish()
}

fn accepted(bench: &mut Bench, attributes: &[Attr]) -> Result<()> {
    bench.accepted_raw(&bytes(attributes))?;
    let port = bench.port.get(PORT)?;
    for attr in attributes {
        let shown = port
            .option(attr.number())
            .with_context(|| format!("{attr:?} is not in the dump"))?;
        ensure!(
            shown == attr.content(),
            "the dump shows {shown:?} for {attr:?}"
        );
    }
    Ok(())
}
