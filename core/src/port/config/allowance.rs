// SPDX-License-Identifier: GPL-2.0
//! What a port that pauses others allows them.

use super::{Config, Dynamic, Generate, Resolved, SplitGso};
use crate::options::{Problem, Refusal, Unit};
use crate::pfc::headroom::{longest_response, Headroom};
use crate::pfc::ingress::{Limits, Xoff};
use crate::queue::Framing;
use crate::units::{Nanos, Rate};

/// What may wait of what came in by a device, in bytes on the wire. All zeros while the link's
/// speed is not known: then nobody knows how long a pause lasts, and none is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// With more the other end is paused.
    pub xoff: u64,
    /// With no more the pause ends.
    pub xon: u64,
    /// What has room beyond `xoff`.
    pub headroom: u64,
    /// If `xoff` is a part of what is free in a buffer: which, and its size. `xoff` and `xon` are
    /// what they are while that is empty.
    pub share: Option<Dynamic>,
}

impl Allowance {
    /// The link's speed is not known.
    pub fn is_unresolved(&self) -> bool {
        *self == Self::default()
    }

    /// As a [ledger](crate::pfc::ledger) has it.
    pub fn limits(&self) -> Limits {
        let Self {
            xoff,
            xon,
            headroom,
            share,
        } = *self;
        let xoff = match share {
            None => Xoff::Fixed { xoff, xon },
            Some(Dynamic { alpha, .. }) => Xoff::Share {
                alpha,
                gap: xoff.saturating_sub(xon),
            },
        };
        Limits { xoff, headroom }
    }
}

impl Config {
    /// Does the port pause others?
    #[inline]
    pub fn generates(&self) -> bool {
        self.pfc.is_some_and(|pfc| pfc.generate.is_some())
    }

    /// What others are allowed, if the port pauses them. `frame`: the longest that the device sends
    /// and receives, in bytes as the kernel counts them; `merged`: what packets that it has
    /// received may be merged into, 0 if they are not. Slow, for configuration.
    ///
    /// Merged packets are counted together. When the first finds that a pause is due, the rest has
    /// come as well, and needs room in place of the one frame.
    ///
    /// `xoff auto` is what comes until a pause acts, which is also about what would have come in
    /// the time until its end acts: a link that was paused is so not idle while there is something
    /// left to send. Two full frames more, so that not each frame is a pause and its end.
    pub fn allowance(&self, resolved: &Resolved, frame: u32, merged: u32) -> Option<Allowance> {
        let Generate {
            xoff,
            xon,
            headroom,
            delay,
            share,
        } = self.pfc?.generate?;
        if resolved.is_unresolved() {
            return Some(Allowance::default());
        }
        let framing = Framing::new(self.overhead, self.mpu);
        let wire = framing.wire_len(frame, 1);
        let two = u64::from(wire).saturating_mul(2);
        let auto = self.room(&resolved.link_rate, wire, delay.time());
        let more = wire_of_merged(framing, frame, merged).saturating_sub(wire);
        let room = auto.saturating_add(more.into());
        let headroom = headroom.given().map_or(room, u64::from);
        let xon = xon.given().map(u64::from);
        let xoff = xoff.given().map(u64::from);
        let xoff = xoff.unwrap_or_else(|| xoff_of(auto, xon, two));
        let xoff = share.map_or(xoff, |share| share.alpha.of(share.buffer.into()));
        Some(Allowance {
            xoff,
            xon: xon.unwrap_or_else(|| xoff.saturating_sub(two)),
            headroom,
            share,
        })
    }

    /// What comes until a pause acts, with frames of so many bytes on the wire at both ends.
    fn room(&self, rate: &Rate, wire: u32, delay: Nanos) -> u64 {
        let model = Headroom {
            rate: *rate,
            ours: wire,
            theirs: wire,
            delay,
            response: longest_response(rate),
            late: self.jitter + self.jitter,
        };
        model.above_xoff()
    }

    /// How far the thresholds are apart of a port that pauses others so, with frames of so many
    /// bytes on the wire.
    pub(super) fn gap(&self, ours: &Generate, rate: &Rate, wire: u32) -> u64 {
        let two = u64::from(wire).saturating_mul(2);
        let xon = ours.xon.given().map(u64::from);
        match (ours.xoff.given(), xon) {
            (_, None) => two,
            (Some(xoff), Some(xon)) => u64::from(xoff).saturating_sub(xon),
            (None, Some(own)) => {
                xoff_of(self.room(rate, wire, ours.delay.time()), xon, two).saturating_sub(own)
            }
        }
    }

    /// Refuses what would drop packets of who is paused instead of that, or keep pauses waiting.
    pub(super) fn validate_pauses(&self) -> Result<(), Refusal> {
        let Some(generate) = self.pfc.and_then(|pfc| pfc.generate) else {
            return Ok(());
        };
        let refuse = |option, what| Err(Refusal { option, what });
        if self.unscheduled != 0 {
            let said = "needs unscheduled off, whose packets are dropped";
            return refuse("pfc xoff", Problem::Said(said));
        }
        if self.split_gso == SplitGso::No {
            let said = "not with no-split-gso: pauses would wait for 64 KB";
            return refuse("pfc xoff", Problem::Said(said));
        }
        if generate.share.is_some() {
            let said = "needs pfc xoff auto and xon auto, which follow from it";
            if generate.xoff.given().is_some() || generate.xon.given().is_some() {
                return refuse("pfc alpha", Problem::Said(said));
            }
        }
        match (generate.xon.given(), generate.xoff.given()) {
            (Some(xon), Some(xoff)) if xon > xoff => refuse(
                "pfc xon",
                Problem::Above(xon.into(), "pfc xoff", xoff.into(), Unit::Size),
            ),
            _ => Ok(()),
        }
    }
}

/// `xoff auto`, where so much comes until a pause acts, and this is two full frames.
fn xoff_of(room: u64, xon: Option<u64>, two: u64) -> u64 {
    room.max(xon.unwrap_or(0)).saturating_add(two)
}

/// Bytes on the wire of packets that were merged into one of so many bytes: segments of
/// [`SEGMENT`], whose headers the merged packet has once.
fn wire_of_merged(framing: Framing, frame: u32, merged: u32) -> u32 {
    let each = frame.saturating_sub(HEADERS).clamp(1, SEGMENT);
    let count = merged.checked_div(each).unwrap_or(0).saturating_add(1);
    let len = merged.saturating_add(count.saturating_mul(HEADERS));
    framing.wire_len(len, count)
}

/// Payload of the shortest segments that are merged: what TCP sends to a host that does not say
/// how much it takes (RFC 9293, section 3.7.1). Where shorter ones come, `headroom` is to be given.
const SEGMENT: u32 = 536;
/// The most that headers of a packet take that is merged with others.
const HEADERS: u32 = 100;

#[cfg(test)]
mod tests;
