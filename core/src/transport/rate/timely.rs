// SPDX-License-Identifier: GPL-2.0
//! TIMELY (Mittal et al., *TIMELY: RTT-based Congestion Control for the Datacenter*, SIGCOMM 2015,
//! section 4.3 and algorithm 1): the rate follows the round-trip time and how it changes.
//!
//! ```text
//! rtt_diff <- (1 - alpha) rtt_diff + alpha (rtt - the last rtt)
//! gradient <- rtt_diff / min_rtt
//!
//! rtt < T_low:    rate <- rate + delta
//! rtt > T_high:   rate <- rate (1 - beta (1 - T_high / rtt))
//! gradient <= 0:  rate <- rate + N delta
//! else:           rate <- rate (1 - beta gradient)
//! ```
//!
//! N is 1, and 5 once the gradient was negative at five segments in a row (*HAI*).
//!
//! # What the paper leaves open
//!
//! - **The first round-trip time** has none before it. Its difference counts as 0.
//! - **What counts for HAI.** Algorithm 1 raises the rate at a gradient of 0 too, but counts those
//!   below 0. So does this; every other segment begins the count anew, also one below T_low or
//!   above T_high, where the gradient is not used. The fifth in a row has N = 5 already.
//! - **Cuts of more than all.** `beta gradient` can be more than 1, as a gradient has no limit.
//!   The paper's algorithm has no answer to that. The code that its authors published, which the
//!   text on TCD says its simulator is made after, leaves at least half of the rate, and so does
//!   the default, [`Config::max_cut`]; with 1000 the lowest rate is left. The paper has no lowest
//!   rate; the default is DCQCN's.
//! - **alpha** weighs the newest difference in algorithm 1. It has no number there. 0.875 is what
//!   is used for it by Zhu et al. (*ECN or Delay*, CoNEXT 2016, section 4). The default is 0.125,
//!   which is the same number for who reads the other term as the weight, as RFC 6298 does: in a
//!   model of flows on one link (`timely/tests/fluid.rs`) some keep most of it with 0.875.
//! - **Bursts.** A segment is to leave as a burst, at the rate of the link (section 4.1). Here each
//!   packet is paced by itself, since bursts cost half of the link (`timely/tests/fluid.rs`). The
//!   price: packets that are paced one by one all see the same queue, and flows keep whatever rates
//!   they have (*ECN or Delay*, section 4.3). In the model (`paced`) four have Jain's index 0.87.
//! - **min_rtt** is a constant, as in section 4.3: it only scales the gradient, and a wrong
//!   measurement would do harm. The default is 20 us.
//!
//! # With TCD
//!
//! (*Congestion Detection in Lossless Networks*, section 5.2.3.) The rate stays as it is if the
//! gradient is above 0, the round-trip time between T_low and T_high, and the segment marked as
//! undetermined. The last round-trip time and rtt_diff go on, and the count for HAI begins anew.
//! All other cuts are by [`Config::tcd_beta`]. The paper changes beta in order to cut congested
//! flows harder, and does not say what an undetermined one above T_high gets; here that is beta as
//! it is without TCD.

use core::num::NonZeroU64;

use super::part::Part;
use super::{limits, time_within, Mark};
use crate::units::{Nanos, Rate};

/// What can be chosen about TIMELY. Symbols are those of algorithm 1, and defaults the paper's, if
/// nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// T_low: below it the rate goes up whatever the gradient is: 1 us..1 s, default 50 us. It has
    /// to be more than the round-trip time of an empty network.
    pub t_low: Nanos,
    /// T_high: above it the rate goes down whatever the gradient is: from T_low to 1 s, default
    /// 500 us. It bounds queues.
    pub t_high: Nanos,
    /// What the gradient is divided by: 1 us..1 s, default 20 us. Less reacts harder to what
    /// changes.
    pub min_rtt: Nanos,
    /// alpha: the weight of the newest difference, in thousandths: 1..1000, default 125.
    pub weight: u32,
    /// beta, in thousandths: 1..4000, default 800. More cuts harder.
    pub beta: u32,
    /// delta, bytes/s: 1..2^42 - 1, default 1250000, which is 10 Mbit/s.
    pub additive: u64,
    /// HAI begins with so many segments in a row that have a negative gradient: 1..255, default 5.
    pub hyper_after: u8,
    /// N in HAI: 1..255, default 5.
    pub hyper_factor: u8,
    /// The lowest rate, bytes/s: 1..2^42 - 1, default 1250000, which is 10 Mbit/s. No more than the
    /// link's counts.
    pub minimum: u64,
    /// Whether ports detect three states. Default: no.
    pub tcd: bool,
    /// beta with TCD, in thousandths: 1..4000, default 1600 (TCD, section 5.2.3).
    pub tcd_beta: u32,
    /// The most that one segment takes of the rate, in thousandths: 1..1000, default 500. 1000 is
    /// algorithm 1. See the module's documentation.
    pub max_cut: u32,
}

impl Config {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        t_low: Nanos(50_000),
        t_high: Nanos(500_000),
        min_rtt: Nanos(20_000),
        weight: 125,
        beta: 800,
        additive: 1_250_000,
        hyper_after: 5,
        hyper_factor: 5,
        minimum: 1_250_000,
        tcd: false,
        tcd_beta: 1600,
        max_cut: 500,
    };
}

/// The range of all times.
const TIMES: (Nanos, Nanos) = (Nanos(1000), Nanos::SECOND);

/// Round-trip times count up to this, 4.29 s.
const MAX_RTT: u64 = (1 << 32) - 1;

/// rtt_diff is kept in units of 2^-10 ns.
const UNIT_BITS: u32 = 10;
const UNITS_NZ: NonZeroU64 = match NonZeroU64::new(1 << UNIT_BITS) {
    Some(units) => units,
    None => NonZeroU64::MIN,
};

/// Thousandths in one.
const WHOLE: i64 = 1000;
const WHOLE_NZ: NonZeroU64 = match NonZeroU64::new(WHOLE.unsigned_abs()) {
    Some(whole) => whole,
    None => NonZeroU64::MIN,
};

/// The constants of the law on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    line: u64,
    minimum: u64,
    t_low: u64,
    t_high: u64,
    /// min_rtt, in what `beta x rtt_diff` is in: 1/1024 ns and thousandths. Below 2^50.
    scale: NonZeroU64,
    /// At most 1000.
    weight: i64,
    /// At most 4000.
    beta: u64,
    /// beta where a port said undetermined.
    gentle_beta: u64,
    max_cut: Part,
    additive: u64,
    hyper_after: u8,
    hyper_factor: u8,
    tcd: bool,
}

impl Law {
    /// The law on a link of `line` bytes/s, 1..[`Rate::MAX_BYTES_PER_SEC`]. What is out of its
    /// range counts as the range's end.
    pub fn new(config: &Config, line: u64) -> Self {
        let (least, most) = TIMES;
        let (minimum, line) = limits(config.minimum, line);
        let t_low = time_within(config.t_low, least, most);
        let scale = time_within(config.min_rtt, least, most)
            .saturating_mul(UNITS_NZ)
            .saturating_mul(WHOLE_NZ);
        let beta = |value: u32| u64::from(value.clamp(1, 4000));
        Self {
            line,
            minimum,
            t_low: t_low.get(),
            t_high: time_within(config.t_high, Nanos(t_low.get()), most).get(),
            scale,
            weight: i64::from(config.weight.clamp(1, 1000)),
            beta: beta(match config.tcd {
                true => config.tcd_beta,
                false => config.beta,
            }),
            gentle_beta: beta(config.beta),
            max_cut: Part::new(config.max_cut.clamp(1, 1000).into(), WHOLE_NZ),
            additive: config.additive.clamp(1, Rate::MAX_BYTES_PER_SEC),
            hyper_after: config.hyper_after.max(1),
            hyper_factor: config.hyper_factor.max(1),
            tcd: config.tcd,
        }
    }

    /// A flow's highest rate, bytes/s.
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// A flow's lowest rate, bytes/s.
    pub const fn minimum(&self) -> u64 {
        self.minimum
    }
}

/// The rate of one flow. See the module's documentation.
///
/// # Invariants
///
/// `minimum <= rate <= line`, and `diff` is less than 2^42 from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timely {
    rate: u64,
    /// ns, less than 2^32.
    last_rtt: Option<u64>,
    /// rtt_diff, 1/1024 ns.
    diff: i64,
    /// Segments in a row that had a negative gradient, as far as 255.
    falling: u8,
}

impl Timely {
    /// A flow that begins, at a host with `others` more of them: at an equal part of the link
    /// (section 4.3).
    pub fn new(law: &Law, others: u32) -> Self {
        let flows = NonZeroU64::MIN.saturating_add(others.into());
        Self::at(law, law.line / flows)
    }

    /// A flow that had this rate, in bytes/s, by another law.
    pub fn at(law: &Law, rate: u64) -> Self {
        Self {
            rate: rate.max(law.minimum).min(law.line),
            last_rtt: None,
            diff: 0,
            falling: 0,
        }
    }

    /// The law has changed. The rate stays, within its limits.
    pub fn configure(&mut self, law: &Law) {
        self.rate = self.rate.max(law.minimum).min(law.line);
    }

    /// The rate, in bytes/s.
    #[inline]
    pub const fn bytes_per_sec(&self) -> u64 {
        self.rate
    }

    /// rtt_diff, in whole ns, rounded towards 0.
    pub const fn rtt_diff(&self) -> i64 {
        self.diff / (1 << UNIT_BITS)
    }

    /// A segment was acknowledged as a whole. To be called once for each segment of 16 to 64 KB, or
    /// for each message that is shorter (section 4.1).
    ///
    /// `rtt`: from when its first byte was sent until the acknowledgment came, less the time that
    /// its bytes take at the rate of the sender's link (section 4.1). More than 4.29 s count as
    /// that. `mark`: the worst of its packets' ([`Mark`]'s order); without TCD it does not matter.
    /// Returns whether TCD held the rate, which would have been cut.
    pub fn completed(&mut self, law: &Law, rtt: Nanos, mark: Mark) -> bool {
        let rtt = rtt.0.min(MAX_RTT);
        self.differ(law, rtt);
        let falling = core::mem::take(&mut self.falling);
        let undetermined = law.tcd && mark == Mark::Undetermined;
        let beta = match undetermined {
            true => law.gentle_beta,
            false => law.beta,
        };
        if rtt < law.t_low {
            self.raise(law, 1);
        } else if let (Some(whole), true) = (NonZeroU64::new(rtt), rtt > law.t_high) {
            // Below 2^12 x 2^32 and 2^10 x 2^32.
            let beyond = rtt.saturating_sub(law.t_high).wrapping_mul(beta);
            self.cut(law, Part::new(beyond, whole.saturating_mul(WHOLE_NZ)));
        } else if self.diff <= 0 {
            if self.diff < 0 {
                self.falling = falling.saturating_add(1);
            }
            let hyper = self.falling >= law.hyper_after;
            self.raise(law, if hyper { law.hyper_factor } else { 1 });
        } else if undetermined {
            return true;
        } else {
            // Below 2^42 x 2^12.
            let steep = self.diff.unsigned_abs().wrapping_mul(beta);
            self.cut(law, Part::new(steep, law.scale));
        }
        false
    }

    /// Takes another round-trip time into the filter.
    #[inline]
    fn differ(&mut self, law: &Law, rtt: u64) {
        let last = self.last_rtt.replace(rtt).unwrap_or(rtt);
        // Both below 2^32, so that this and the filter's result are within 2^42 of 0, and the
        // products within 2^52. The quotient is towards 0, so nothing is left of a difference that
        // is long past.
        let signed = |time: u64| i64::try_from(time).unwrap_or(0);
        let new = signed(rtt).wrapping_sub(signed(last)) << UNIT_BITS;
        let old = self.diff.wrapping_mul(WHOLE.wrapping_sub(law.weight));
        self.diff = old.wrapping_add(new.wrapping_mul(law.weight)) / WHOLE;
    }

    #[inline]
    fn raise(&mut self, law: &Law, times: u8) {
        // Below 2^42 x 2^8.
        let rise = law.additive.wrapping_mul(times.into());
        self.rate = self
            .rate
            .saturating_add(rise)
            .max(law.minimum)
            .min(law.line);
    }

    #[inline]
    fn cut(&mut self, law: &Law, part: Part) {
        let least = law.max_cut.off(self.rate).max(law.minimum);
        self.rate = part.off(self.rate).max(least).min(law.line);
    }
}

#[cfg(test)]
mod tests;
