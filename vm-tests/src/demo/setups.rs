// SPDX-License-Identifier: GPL-2.0
//! The ways to configure the bottleneck's port.
//!
//! The stock ones are built as well as stock parts allow: wire lengths are counted as Turnstile
//! counts them (`stab overhead 24 mpu 84`), the whole port is limited to the same rate by a `tbf`
//! on top, queues have the same caps, and `u32` filters read the same bytes of the packets. The
//! limiters' bursts are 20 ms of the link, so that a machine whose timers are late (emulation)
//! costs them nothing; a token queue's burst is one token.

use anyhow::{Context, Result};
use turnstile_core::header::PORT;

use super::load::{CLASSES, DATA, LINK, TOKENS, TOKEN_SHARE};
use crate::netns::Netns;
use crate::stats;
use crate::traffic::Packet;

/// Cap of the data queue in each set-up.
const DATA_LIMIT: &str = "16kb";
/// Burst of the stock set-ups' limiters, bytes: 20 ms of the link.
const LIMITER_BURST: u64 = LINK / 8 / 50;
/// Cap of each token queue, packets (TOP section 4.3; Turnstile's with `jitter 0`).
const TOKEN_LIMIT: u64 = 8;
/// Bytes of a token on the wire.
const TOKEN_WIRE: u64 = 84;

/// How a port's classes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Turnstile,
    /// A `prio` whose bands, in the order of `bands`, hold these classes (indices of [`CLASSES`]).
    Prio {
        bands: [usize; 9],
    },
}

/// One way.
#[derive(Clone, Debug)]
pub(super) struct SetUp {
    /// For programs.
    pub(super) name: &'static str,
    /// For people.
    pub(super) title: &'static str,
    /// The lines to type, for device `dev`.
    pub(super) commands: Vec<String>,
    /// What to know about it.
    pub(super) notes: Vec<String>,
    kind: Kind,
}

/// The counters of one class in a set-up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClassCounters {
    pub(super) offered: u64,
    pub(super) sent: u64,
    pub(super) over_limit: u64,
    pub(super) expired: u64,
    /// ns, where the port measures it.
    pub(super) sojourn: Option<(u64, u64)>,
}

/// All set-ups for device `dev`.
pub(super) fn all(dev: &str) -> Vec<SetUp> {
    vec![
        turnstile(dev),
        limited_group(dev),
        limiter_per_queue(dev),
        data_shaped(dev),
    ]
}

fn turnstile(dev: &str) -> SetUp {
    SetUp {
        name: "turnstile",
        title: "turnstile: one shaper for all token priorities",
        commands: vec![format!(
            "tc qdisc add dev {dev} root handle 1: turnstile link {} jitter 0 data-limit \
             {DATA_LIMIT}",
            words(LINK)
        )],
        notes: Vec::new(),
        kind: Kind::Turnstile,
    }
}

/// What a stock kernel can do to limit a group: a prio of priorities in a tbf in a prio of bands in
/// the port's tbf.
fn limited_group(dev: &str) -> SetUp {
    const SIGNAL: usize = 0;
    const UNSCHEDULED: usize = 8;
    const GROUP: usize = 2;
    let data_band = 2;
    let mut commands = vec![
        root(dev),
        format!(
            "tc qdisc add dev {dev} parent 1:1 handle 2: prio bands 4 priomap {}",
            priomap(data_band)
        ),
        format!(
            "tc qdisc add dev {dev} parent 2:1 handle {}: pfifo limit 1000",
            handle(SIGNAL)
        ),
        // A burst of one token; the limit is that of the queues below.
        format!(
            "tc qdisc add dev {dev} parent 2:{GROUP} handle 3: tbf rate {}bit burst 100 limit 1mb",
            (LINK as f64 * TOKEN_SHARE) as u64
        ),
        format!(
            "tc qdisc add dev {dev} parent 3:1 handle 4: prio bands {} priomap {}",
            TOKENS.len(),
            priomap(TOKENS.len() - 1)
        ),
        format!(
            "tc qdisc add dev {dev} parent 2:3 handle {}: bfifo limit {DATA_LIMIT}",
            handle(DATA)
        ),
        format!(
            "tc qdisc add dev {dev} parent 2:4 handle {}: pfifo limit 1",
            handle(UNSCHEDULED)
        ),
        filter(dev, SIGNAL, "2:", "2:1"),
        filter(dev, UNSCHEDULED, "2:", "2:4"),
    ];
    for (band, class) in (1..).zip(TOKENS) {
        commands.push(format!(
            "tc qdisc add dev {dev} parent 4:{band} handle {}: pfifo limit {TOKEN_LIMIT}",
            handle(class)
        ));
        commands.push(filter(dev, class, "2:", &format!("2:{GROUP}")));
        commands.push(filter(dev, class, "4:", &format!("4:{band}")));
    }
    SetUp {
        name: "limited-group",
        title: "stock: a limiter over the token queues, in four layers",
        commands,
        notes: vec![
            "prio in tbf in prio in tbf; every token is classified twice by u32 filters".into(),
            "no queue knows how old a token is: one that waited too long is sent all the same"
                .into(),
        ],
        kind: Kind::Prio {
            bands: [0, 1, 2, 3, 4, 5, 6, 7, 8],
        },
    }
}

/// TOP section 4.1: "rate-limit each token queue such that their capacities sum up to 5 percent".
fn limiter_per_queue(dev: &str) -> SetUp {
    // Signal, tokens, data, unscheduled: the order of CLASSES.
    let bands = [0, 1, 2, 3, 4, 5, 6, 7, 8];
    let each = (LINK as f64 * TOKEN_SHARE / TOKENS.len() as f64) as u64;
    let mut commands = skeleton(dev, bands);
    for class in TOKENS {
        // A burst of one token: what the shaper may save up while idle.
        commands.push(format!(
            "tc qdisc add dev {dev} parent 2:{} handle {}: tbf rate {each}bit burst 100 limit {}",
            class + 1,
            handle(class),
            TOKEN_LIMIT * TOKEN_WIRE
        ));
    }
    commands.push(format!(
        "tc qdisc add dev {dev} parent 2:8 handle {}: bfifo limit {DATA_LIMIT}",
        handle(DATA)
    ));
    commands.extend(filters(dev, bands));
    SetUp {
        name: "limiter-per-queue",
        title: "stock: one limiter per token queue",
        commands,
        notes: vec![
            "tokens-first order; each of the six token queues has a tbf of one sixth of the token \
             rate"
                .into(),
            "whole port limited by a tbf at the root; classes chosen by u32 filters on the \
             payload's first bytes"
                .into(),
        ],
        kind: Kind::Prio { bands },
    }
}

/// TOP section 4.1: data in the second highest queue, shaped to 95 %, tokens below it, not shaped.
fn data_shaped(dev: &str) -> SetUp {
    // Signal, data, tokens, unscheduled.
    let bands = [0, 7, 1, 2, 3, 4, 5, 6, 8];
    let mut commands = skeleton(dev, bands);
    commands.push(format!(
        "tc qdisc add dev {dev} parent 2:2 handle {}: tbf rate {} burst {LIMITER_BURST} limit \
         {DATA_LIMIT}",
        handle(DATA),
        words(LINK * 95 / 100)
    ));
    for (band, class) in (3..).zip(TOKENS) {
        commands.push(format!(
            "tc qdisc add dev {dev} parent 2:{band} handle {}: pfifo limit {TOKEN_LIMIT}",
            handle(class)
        ));
    }
    commands.extend(filters(dev, bands));
    SetUp {
        name: "data-shaped",
        title: "stock: data shaped to 95 %, the token group not",
        commands,
        notes: vec![
            "data-first order (TOP fig. 3a), the one in which shaping the data can limit the \
             tokens at all"
                .into(),
            "whole port limited by a tbf at the root; classes chosen by u32 filters on the \
             payload's first bytes"
                .into(),
        ],
        kind: Kind::Prio { bands },
    }
}

/// A rate in tc's words.
fn words(rate: u64) -> String {
    match rate % 1_000_000 {
        0 => format!("{}mbit", rate / 1_000_000),
        _ => format!("{}kbit", rate / 1000),
    }
}

/// The major number of a class's own qdisc in the stock set-ups.
fn handle(class: usize) -> usize {
    10 + class
}

/// The limiter of the whole port.
fn root(dev: &str) -> String {
    format!(
        "tc qdisc add dev {dev} root handle 1: stab overhead 24 mpu 84 linklayer ethernet \
         tbf rate {} burst {LIMITER_BURST} limit 1mb",
        words(LINK)
    )
}

/// What no filter names goes to `band`, counted from 0.
fn priomap(band: usize) -> String {
    vec![band.to_string(); 16].join(" ")
}

/// What the flat stock set-ups share: the port's limiter, the bands, the queues for signals and
/// unscheduled packets.
fn skeleton(dev: &str, bands: [usize; 9]) -> Vec<String> {
    let data_band = bands
        .iter()
        .position(|class| *class == DATA)
        .unwrap_or_default();
    vec![
        root(dev),
        format!(
            "tc qdisc add dev {dev} parent 1:1 handle 2: prio bands 9 priomap {}",
            priomap(data_band)
        ),
        format!(
            "tc qdisc add dev {dev} parent 2:1 handle {}: pfifo limit 1000",
            handle(0)
        ),
        format!(
            "tc qdisc add dev {dev} parent 2:9 handle {}: pfifo limit 1",
            handle(8)
        ),
    ]
}

/// One filter per class of the flat set-ups. What no filter names is data.
fn filters(dev: &str, bands: [usize; 9]) -> Vec<String> {
    (1..)
        .zip(bands)
        .filter(|(_, class)| *class != DATA)
        .map(|(band, class)| filter(dev, class, "2:", &format!("2:{band}")))
        .collect()
}

/// A filter for a class, on UDP port and the first payload bytes (behind 20 bytes of IPv4 and 8 of
/// UDP).
fn filter(dev: &str, class: usize, parent: &str, to: &str) -> String {
    let at = |offset: usize, value: u8| format!("match u8 0x{value:02x} 0xff at {offset}");
    let matches = match class {
        0 => vec![at(28, Packet::Signal.header()[0])],
        8 => {
            let header = Packet::Unscheduled.header();
            vec![at(28, header[0]), at(30, header[2])]
        }
        token => {
            let header = Packet::Token((token - TOKENS.start) as u8).header();
            vec![at(28, header[0]), at(29, header[1])]
        }
    };
    format!(
        "tc filter add dev {dev} parent {parent} protocol ip prio 1 u32 match ip protocol 17 0xff \
         match ip dport {PORT} 0xffff {} flowid {to}",
        matches.join(" ")
    )
}

impl SetUp {
    /// Configures the port.
    pub(super) fn apply(&self, ns: &Netns) -> Result<()> {
        for command in &self.commands {
            ns.run(command)?;
        }
        Ok(())
    }

    /// Reads the counters of all classes, in the order of [`CLASSES`].
    pub(super) fn counters(&self, ns: &Netns, dev: &str) -> Result<Vec<ClassCounters>> {
        match self.kind {
            Kind::Turnstile => {
                let classes = stats::classes(ns, dev)?;
                CLASSES
                    .iter()
                    .enumerate()
                    .map(|(index, name)| {
                        let id = class_id(index);
                        let class = classes
                            .get(&id)
                            .with_context(|| format!("no class {id} ({name})"))?;
                        class.check()?;
                        Ok(ClassCounters {
                            offered: class.get("offered-packets"),
                            sent: class.packets,
                            over_limit: class.get("over-limit"),
                            expired: class.get("expired"),
                            sojourn: Some((class.get("sojourn-mean"), class.get("sojourn-max"))),
                        })
                    })
                    .collect()
            }
            Kind::Prio { bands } => {
                let qdiscs = stats::qdiscs(ns, dev)?;
                let mut counters = vec![ClassCounters::default(); CLASSES.len()];
                for class in bands {
                    let id = format!("{}:", handle(class));
                    let qdisc = qdiscs
                        .iter()
                        .find(|qdisc| qdisc.handle == id)
                        .with_context(|| format!("no qdisc {id} ({})", CLASSES[class]))?;
                    counters[class] = ClassCounters {
                        offered: qdisc.packets + qdisc.drops + qdisc.qlen,
                        sent: qdisc.packets,
                        over_limit: qdisc.drops,
                        ..ClassCounters::default()
                    };
                }
                Ok(counters)
            }
        }
    }
}

/// The class of port `1:` that holds a class of the report.
fn class_id(index: usize) -> String {
    use turnstile_core::port::uapi::class;
    let minor = match index {
        0 => class::SIGNAL,
        7 => class::DATA,
        8 => class::UNSCHEDULED,
        token => class::TOKENS + (token - TOKENS.start) as u8,
    };
    format!("1:{minor:x}")
}
