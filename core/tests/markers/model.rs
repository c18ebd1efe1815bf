// SPDX-License-Identifier: GPL-2.0
//! A straightforward model of the markers: in times instead of volumes, with 128-bit fractions.

use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Config, Drain};
use turnstile_core::port::marker::MarkStats;

use crate::common::PerByte;
use crate::P;

/// A phantom queue, as the exact time at which it will be empty: `empty / per.bytes` ns.
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

    /// `len` bytes come at `now`, or at the time of the last if that was later. Returns whether
    /// they find more than the threshold, if that `counts`.
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

/// REN's marker, in whole packets and exact fractions.
struct Ren {
    period: u64,
    begin: u64,
    /// The link is busy until exactly `busy / link.bytes` ns.
    busy: u128,
    /// Gaps in ns and marks, each with the number of the part of a period that it belongs to; and
    /// when the newest part began.
    idle: Vec<(u64, u64)>,
    given: Vec<(u64, u8)>,
    number: u64,
    newest: u64,
}

const FRAME: u64 = 1538;
/// Parts of a period; the one before them counts for what of it is still within the period.
const PARTS: u64 = 16;

impl Ren {
    fn part(&self) -> u64 {
        (self.period / PARTS).max(1)
    }

    fn passes(&mut self, link: PerByte, now: u64, len: u32) -> bool {
        let elapsed = now.saturating_sub(self.begin);
        let begins = elapsed >= self.period;
        if begins {
            self.begin = match elapsed < 2 * self.period {
                true => self.begin + self.period,
                false => now,
            };
        }
        let parts = now.saturating_sub(self.newest) / self.part();
        self.number += parts;
        self.newest += parts * self.part();
        let oldest = self.number.saturating_sub(PARTS);
        self.idle.retain(|(number, _)| *number >= oldest);
        self.given.retain(|(number, _)| *number >= oldest);
        let free = self.busy.div_ceil(link.bytes) as u64;
        if now > free {
            if now - free > self.period {
                self.idle.push((self.number, link.duration(FRAME)));
            } else {
                let mut until = now;
                for back in 0..=PARTS {
                    let begin = self.newest.saturating_sub(back * self.part());
                    let from = begin.max(free);
                    if let Some(number) = self.number.checked_sub(back) {
                        self.idle.push((number, until.saturating_sub(from)));
                    }
                    until = until.min(from);
                }
            }
            self.busy = u128::from(now) * link.bytes;
        }
        self.busy += u128::from(len) * link.ns;
        let latest = now + self.period;
        if self.busy.div_ceil(link.bytes) > u128::from(latest) {
            self.busy = u128::from(latest) * link.bytes;
        }
        begins
    }

    /// The sum of these over the sampling period until `now`.
    fn sum(&self, now: u64, all: impl Iterator<Item = (u64, u64)>) -> u64 {
        let (mut sum, mut oldest) = (0, 0);
        for (number, amount) in all {
            if number + PARTS == self.number {
                oldest += amount;
            } else {
                sum += amount;
            }
        }
        let passed = now.saturating_sub(self.newest).min(self.part());
        sum + oldest * (self.part() - passed) / self.part()
    }

    fn count(&self, now: u64, mark: u8) -> u64 {
        let given = self.given.iter().filter(|(_, given)| *given == mark);
        self.sum(now, given.map(|(number, _)| (*number, 1)))
    }

    fn judge(&self, link: PerByte, now: u64, queue: u64) -> u8 {
        let idle = self.sum(now, self.idle.iter().copied());
        let fit = u128::from(idle) * link.bytes / (u128::from(FRAME) * link.ns);
        let fit = fit as u64;
        if queue > fit + self.count(now, 2) {
            2
        } else if fit > queue + self.count(now, 0) {
            0
        } else {
            1
        }
    }
}

pub(crate) struct Model {
    speed: u64,
    link: PerByte,
    phantom: Option<Phantom>,
    ren: Option<Ren>,
    stats: MarkStats,
}

impl Model {
    pub(crate) fn new(config: &Config, speed: u64, now: u64) -> Self {
        let mut model = Self {
            speed,
            link: PerByte::of_rate(speed),
            phantom: None,
            ren: None,
            stats: MarkStats::default(),
        };
        model.change(config, now);
        model
    }

    pub(crate) fn change(&mut self, config: &Config, now: u64) {
        match (config.ren, &mut self.ren) {
            (None, ren) => *ren = None,
            (Some(period), Some(ren)) => ren.period = period.0,
            (Some(period), ren) => {
                *ren = Some(Ren {
                    period: period.0,
                    begin: now,
                    busy: u128::from(now) * self.link.bytes,
                    idle: Vec::new(),
                    given: Vec::new(),
                    number: 0,
                    newest: now,
                });
            }
        }
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
        if let Some(ren) = &mut self.ren {
            ren.idle.clear();
            ren.given.clear();
        }
    }

    /// A packet leaves, with `behind` packets left in the data band. Returns its ECN field
    /// afterwards.
    pub(crate) fn leaves(&mut self, now: u64, band: Band, packet: &P, behind: u64) -> Option<u8> {
        let meta = packet.inner.meta;
        if let Some(ren) = &mut self.ren {
            self.stats.ren.periods += u64::from(ren.passes(self.link, now, meta.wire_len));
        }
        if band != Band::Data {
            return packet.ecn;
        }
        let segs = u64::from(meta.segs);
        let mut above = false;
        if let Some(phantom) = &mut self.phantom {
            self.stats.phantom.seen += segs;
            above = pass(phantom, self.link, now, packet);
        }
        let ecn = packet.ecn?;
        if packet.ren {
            return Some(self.ren_mark(now, packet, ecn, behind));
        }
        if self.phantom.is_none() || !matches!(ecn, 1 | 2) {
            return Some(ecn);
        }
        self.stats.phantom.markable += segs;
        if !above {
            return Some(ecn);
        }
        if !packet.writable {
            self.stats.unwritable += segs;
            return Some(ecn);
        }
        self.stats.phantom.marked += segs;
        Some(3)
    }

    fn ren_mark(&mut self, now: u64, packet: &P, ecn: u8, behind: u64) -> u8 {
        let Some(ren) = &mut self.ren else {
            return ecn;
        };
        let segs = packet.inner.meta.segs;
        let stats = &mut self.stats.ren;
        stats.seen += u64::from(segs);
        let mark = ren.judge(self.link, now, behind);
        let after = ecn.max(mark);
        let counter = if after != ecn && !packet.writable {
            self.stats.unwritable += u64::from(segs);
            return ecn;
        } else if after == ecn && (ecn, mark) != (0, 0) {
            &mut stats.kept
        } else {
            match after {
                0 => &mut stats.under,
                1 => &mut stats.full,
                _ => &mut stats.over,
            }
        };
        *counter += u64::from(segs);
        // The mark, by what its grant will draw: no packet, one, two.
        let means = after.min(2);
        if means == mark {
            let given = (ren.number, means);
            ren.given.extend(vec![given; segs as usize]);
        }
        after
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

/// Segment by segment, each in the nanosecond in which those before it have passed the link. Of
/// those between the first and the last none finds more than both, but for what a part of a
/// nanosecond brings.
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
