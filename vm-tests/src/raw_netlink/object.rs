// SPDX-License-Identifier: GPL-2.0
//! Qdiscs and classes as the kernel dumps them.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::{attributes_of, TCA_KIND, TCA_OPTIONS, TCMSG};

const TCA_XSTATS: u16 = 4;
const TCA_STATS2: u16 = 7;
const STATS_BASIC: u16 = 1;
const STATS_QUEUE: u16 = 3;
const STATS_APP: u16 = 4;
const STATS_PKT64: u16 = 8;
/// The kinds whose own counters are known: all are `u64`.
const KINDS: [&str; 3] = [
    turnstile_core::port::uapi::KIND,
    turnstile_core::port::uapi::KIND_MQ,
    turnstile_core::pacer::uapi::KIND,
];
/// The bits of an attribute's type that are its number.
const NUMBER: u16 = 0x3fff;

/// Counters that all qdiscs and classes have, and a port's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets queued.
    pub qlen: u32,
    /// Bytes queued.
    pub backlog: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Times that something was held back.
    pub overlimits: u32,
    /// `TCA_XSTATS` of a port, its classes or a pacer, by attribute number.
    pub app: BTreeMap<u16, u64>,
    /// Bytes of `TCA_STATS_APP`, where kinds of the kernel have structures of their own. What is in
    /// them changes with time alone.
    pub foreign: usize,
}

impl Stats {
    /// One of a port's own counters; 0 if it is not there.
    pub fn app(&self, number: u16) -> u64 {
        self.app.get(&number).copied().unwrap_or(0)
    }

    fn read(nest: &[u8]) -> Self {
        let mut stats = Self::default();
        let word = |bytes: &[u8], at: usize| {
            let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
            word.map_or(0, |word| u32::from_ne_bytes(*word))
        };
        let long = |bytes: &[u8]| {
            bytes
                .first_chunk()
                .map_or(0, |long| u64::from_ne_bytes(*long))
        };
        for (number, content) in attributes_of(nest) {
            match number & NUMBER {
                STATS_BASIC => {
                    stats.bytes = long(content);
                    stats.packets = word(content, 8).into();
                }
                // Follows the other where 32 bits do not hold the number.
                STATS_PKT64 => stats.packets = long(content),
                STATS_QUEUE => {
                    stats.qlen = word(content, 0);
                    stats.backlog = word(content, 4);
                    stats.drops = word(content, 8);
                    stats.overlimits = word(content, 16);
                }
                STATS_APP => stats.foreign = content.len(),
                _ => {}
            }
        }
        stats
    }
}

/// A qdisc or a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// `1:` is 0x10000, class `1:2` is 0x10002.
    pub handle: u32,
    /// What it hangs on.
    pub parent: u32,
    /// Of a class: its leaf's handle. Of a qdisc: how many refer to it.
    pub info: u32,
    /// As in `tc qdisc add … KIND`.
    pub kind: String,
    /// What is inside `TCA_OPTIONS`.
    pub options: Vec<u8>,
    /// Counters.
    pub stats: Stats,
}

impl Object {
    /// From a message of the kernel's, `struct tcmsg` first.
    ///
    /// # Errors
    /// When it is cut short.
    pub(super) fn read(body: &[u8]) -> Result<Self> {
        let head: &[u8; TCMSG] = body.first_chunk().context("a cut struct tcmsg")?;
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let mut object = Self {
            handle: word(8),
            parent: word(12),
            info: word(16),
            ..Self::default()
        };
        let mut own = Vec::new();
        for (number, content) in attributes_of(&body[TCMSG..]) {
            match number & NUMBER {
                TCA_KIND => {
                    object.kind = String::from_utf8_lossy(content)
                        .trim_end_matches('\0')
                        .to_owned();
                }
                TCA_OPTIONS => object.options = content.to_vec(),
                TCA_STATS2 => object.stats = Stats::read(content),
                TCA_XSTATS => own = content.to_vec(),
                _ => {}
            }
        }
        if KINDS.contains(&object.kind.as_str()) {
            let counters = attributes_of(&own)
                .into_iter()
                .filter_map(|(number, value)| {
                    let value = <[u8; 8]>::try_from(value).ok()?;
                    Some((number & NUMBER, u64::from_ne_bytes(value)))
                });
            object.stats.app = counters.collect();
        }
        Ok(object)
    }

    /// Everything but the counters: what configuration made.
    pub fn shape(&self) -> Self {
        Self {
            stats: Stats::default(),
            ..self.clone()
        }
    }

    /// The content of an attribute inside `TCA_OPTIONS`.
    pub fn option(&self, number: u16) -> Option<&[u8]> {
        attributes_of(&self.options)
            .into_iter()
            .find(|(found, _)| found & NUMBER == number)
            .map(|(_, content)| content)
    }
}
