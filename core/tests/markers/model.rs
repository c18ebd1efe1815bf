// SPDX-License-Identifier: GPL-2.0
//! The markers once more, as plainly as they can be said: in times instead of volumes, with fractions of 128 bits.

use turnstile_core::band::Band;
use turnstile_core::config::{Config, Drain};
use turnstile_core::marker::MarkStats;

use crate::common::PerByte;
use crate::P;

/// A phantom queue, as the time at which it would be empty: at exactly `empty / per.bytes` ns.
struct Phantom {
    per: PerByte,
    mark: u32,
    empty: u128,
    /// The latest time that was seen.
    now: u64,
    /// The most that it ever held, in the same units of time.
    max: u128,
}

impl Phantom {
    fn held(&self, now: u64) -> u128 {
        let now = u128::from(now.max(self.now)) * self.per.bytes;
        self.empty.saturating_sub(now)
    }

    fn bytes(&self, held: u128) -> u64 {
        (held / self.per.ns) as u64
    }

    /// `len` bytes come at `now`, or when the last came if that was later: do they find more than the threshold,
    /// if that `counts`?
    fn add(&mut self, now: u64, len: u32, counts: bool) -> bool {
        let found = self.held(now);
        self.now = self.now.max(now);
        let held = found + u128::from(len) * self.per.ns;
        self.empty = u128::from(self.now) * self.per.bytes + held;
        if counts {
            self.max = self.max.max(held);
        }
        counts && found > u128::from(self.mark) * self.per.ns
    }

    fn change(&mut self, per: PerByte, mark: u32, now: u64) {
        self.mark = mark;
        if per != self.per {
            let (held, max) = (self.bytes(self.held(now)), self.bytes(self.max));
            self.per = per;
            self.now = self.now.max(now);
            self.empty = u128::from(self.now) * per.bytes + u128::from(held) * per.ns;
            self.max = u128::from(max) * per.ns;
        }
    }
}

pub(crate) struct Model {
    speed: u64,
    link: PerByte,
    phantom: Option<Phantom>,
    stats: MarkStats,
}

impl Model {
    pub(crate) fn new(config: &Config, speed: u64, now: u64) -> Self {
        let mut model = Self {
            speed,
            link: PerByte::of_rate(speed),
            phantom: None,
            stats: MarkStats::default(),
        };
        model.change(config, now);
        model
    }

    pub(crate) fn change(&mut self, config: &Config, now: u64) {
        let Some(wanted) = config.phantom else {
            self.phantom = None;
            return;
        };
        let per = match wanted.drain {
            Drain::Share(ppb) => PerByte::of_share(self.speed, ppb),
            Drain::Rate(rate) => PerByte::of_rate(rate),
        };
        let empty = Phantom {
            per,
            mark: 0,
            empty: 0,
            now,
            max: 0,
        };
        self.phantom
            .get_or_insert(empty)
            .change(per, wanted.mark, now);
    }

    pub(crate) fn reset(&mut self) {
        if let Some(phantom) = &mut self.phantom {
            phantom.empty = 0;
        }
    }

    /// A packet leaves, and `behind` of the data band are left: its ECN field afterwards.
    pub(crate) fn leaves(&mut self, now: u64, band: Band, packet: &P, _behind: u64) -> Option<u8> {
        if band != Band::Data {
            return packet.ecn;
        }
        let segs = u64::from(packet.inner.meta.segs);
        let mut wanted = packet.ecn;
        if let Some(phantom) = &mut self.phantom {
            self.stats.phantom.seen += segs;
            let above = pass(phantom, self.link, now, packet);
            if !packet.ren && matches!(packet.ecn, Some(1 | 2)) {
                self.stats.phantom.markable += segs;
                if above {
                    wanted = Some(3);
                    if packet.writable {
                        self.stats.phantom.marked += segs;
                    }
                }
            }
        }
        if wanted != packet.ecn && !packet.writable {
            self.stats.unwritable += segs;
            return packet.ecn;
        }
        wanted
    }

    pub(crate) fn stats(&self) -> &MarkStats {
        &self.stats
    }

    /// In the phantom queue: bytes now, and the most ever.
    pub(crate) fn backlog(&self, now: u64) -> (u64, u64) {
        let phantom = self.phantom.as_ref().expect("the port has one");
        (phantom.bytes(phantom.held(now)), phantom.bytes(phantom.max))
    }
}

/// Segment by segment, each in the nanosecond in which those before it have passed the link. Of those between the first and the last
/// none finds more than both, but for what a part of a nanosecond brings.
fn pass(phantom: &mut Phantom, link: PerByte, now: u64, packet: &P) -> bool {
    let meta = packet.inner.meta;
    let len = meta.wire_len / meta.segs;
    let begin = now.max(phantom.now);
    (0..meta.segs).fold(false, |above, segment| {
        let before = u128::from(segment * len) * link.ns / link.bytes;
        let counts = segment == 0 || segment == meta.segs - 1;
        phantom.add(begin + before as u64, len, counts) || above
    })
}
