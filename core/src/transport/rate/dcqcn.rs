// SPDX-License-Identifier: GPL-2.0
//! DCQCN (Zhu et al., *Congestion Control for Large-Scale RDMA Deployments*, SIGCOMM 2015,
//! section 3.1): ports mark, the receiver notifies the sender of marks, and the sender cuts its
//! rate and then goes back up, at first quickly to where it was.
//!
//! | in the paper | here |
//! |---|---|
//! | notification point | [`Notifier`] |
//! | reaction point | [`Dcqcn`] |
//! | equation 1: a notification | [`Dcqcn::notified`] |
//! | equation 2: K has passed without one | [`Dcqcn::advance`] |
//! | equations 3 and 4, figure 7: T or B has passed | [`Dcqcn::advance`], [`Dcqcn::sent`] |
//!
//! R_C is the rate, R_T its target, and alpha says how congested the path was lately:
//!
//! ```text
//! notified:             R_T <- R_C,  R_C <- R_C (1 - alpha / 2),  alpha <- (1 - g) alpha + g
//! not, for K:           alpha <- (1 - g) alpha
//! each T, and each B:   fast recovery:      R_C <- (R_T + R_C) / 2
//!                       additive increase:  R_T <- R_T + R_AI, then the same
//!                       hyper increase:     R_T <- R_T + i R_HAI, then the same
//! ```
//!
//! # What the paper leaves open
//!
//! - **How long fast recovery is.** The text has five rounds of it, but figure 7 compares counters
//!   that may have been raised already, which would make four. Here an event is judged by those
//!   before it: F events of the timer, or of the counter, are fast recovery.
//! - **Hyper increase.** The paper names it and gives no formula, but says that the increase is
//!   that of QCN. There R_T grows by i x R_HAI in the i-th round in which both timer and counter
//!   are beyond F (Alizadeh et al., *Data Center Transport Mechanisms*, Allerton 2008). So it does
//!   here, with QCN's R_HAI. The simulators that are in use add R_HAI once.
//! - **Before the first notification** there is nothing to recover: timers stand still, and alpha
//!   is 1. So the first cut is by half, however late it comes; with TCD by three quarters, and with
//!   `dcqcn-tcd-cut` at 2000 or more by all, down to the lowest rate.
//! - **The lowest rate.** The default is that of QCN in IEEE 802.1Q. R_C keeps to it, and so does
//!   R_T, since it is never below R_C.
//! - **The timer.** 55 us is what the authors found to be best (section 5) and is the default. QCN
//!   has 15 ms, and simulators and adapters are often set to 300 us or 1.5 ms; with these flows are
//!   slower to take what others leave, and ports mark less.
//!
//! # With TCD
//!
//! The paper on TCD (section 6) recommends to adjust flows of undetermined ports gently, and to cut
//! those of congested ones hard. Here a notification of an undetermined port keeps all as it is,
//! and lets T, B and K begin anew. So while such notifications come closer than these, the rate
//! does not rise either. One of a congested port cuts by [`Config::tcd_cut`] times as much.

use core::num::NonZeroU64;

use super::part::Part;
use super::{limits, time_within, Mark};
use crate::units::{Nanos, Rate};

/// What can be chosen about DCQCN. Symbols are the paper's; defaults are what section 5 and figure
/// 14 have, if nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// g: how far one notification moves alpha, in parts per billion: 1..1000000000, default
    /// 3906250, which is 1/256. More forgets faster.
    pub g: u32,
    /// K: after so long without a notification alpha decays: 1 us..1 s, default 55 us. It should be
    /// more than [`Config::notify_interval`] (section 3.1), or alpha decays between notifications.
    pub alpha_timer: Nanos,
    /// T: after so long the rate goes up a step: 1 us..1 s, default 55 us. Longer is slower to
    /// recover. See the module's documentation.
    pub timer: Nanos,
    /// B: after so many bytes, too: 64 KiB..1 TiB, default 10 MB. Less makes fast flows faster.
    pub byte_counter: u64,
    /// F: steps of fast recovery: 1..100, default 5.
    pub recovery_steps: u8,
    /// R_AI, bytes/s: 1..2^42 - 1, default 5000000, which is 40 Mbit/s. More is faster to take what
    /// is free, and makes longer queues where many flows meet.
    pub additive: u64,
    /// R_HAI, bytes/s: 1..2^42 - 1, default 6250000, which is QCN's 50 Mbit/s.
    pub hyper: u64,
    /// The lowest rate, bytes/s: 1..2^42 - 1, default 1250000, which is 10 Mbit/s (IEEE 802.1Q,
    /// rpgMinRate). No more than the link's counts.
    pub minimum: u64,
    /// A receiver sends at most one notification of a flow in so long: 1 us..1 s, default 50 us
    /// (section 3.1).
    pub notify_interval: Nanos,
    /// Whether ports detect three states. Default: no.
    pub tcd: bool,
    /// With TCD, how much harder a cut is, in thousandths: 1000..4000. The cut is `factor x alpha /
    /// 2` of the rate, or all of it but the lowest rate. The text has no number for DCQCN, and
    /// doubles TIMELY's beta; but alpha is 1 at first, and twice a half is all. So the default is
    /// 1500, which leaves a quarter.
    pub tcd_cut: u32,
}

impl Config {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        g: 3_906_250,
        alpha_timer: Nanos(55_000),
        timer: Nanos(55_000),
        byte_counter: 10_000_000,
        recovery_steps: 5,
        additive: 5_000_000,
        hyper: 6_250_000,
        minimum: 1_250_000,
        notify_interval: Nanos(50_000),
        tcd: false,
        tcd_cut: 1500,
    };
}

/// The range of all times.
const TIMES: (Nanos, Nanos) = (Nanos(1000), Nanos::SECOND);

/// The constants of the law on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    line: u64,
    minimum: u64,
    g: Part,
    keep: Part,
    alpha_timer: NonZeroU64,
    timer: NonZeroU64,
    byte_counter: u64,
    recovery_steps: u8,
    additive: u64,
    hyper: u64,
    tcd: bool,
    cut: u32,
}

impl Law {
    /// The law on a link of `line` bytes/s, 1..[`Rate::MAX_BYTES_PER_SEC`]. What is out of its
    /// range counts as the range's end.
    pub fn new(config: &Config, line: u64) -> Self {
        let (least, most) = TIMES;
        let (minimum, line) = limits(config.minimum, line);
        let g = Part::per_billion(config.g.max(1));
        Self {
            line,
            minimum,
            g,
            keep: g.rest(),
            alpha_timer: time_within(config.alpha_timer, least, most),
            timer: time_within(config.timer, least, most),
            byte_counter: config.byte_counter.clamp(1 << 16, 1 << 40),
            recovery_steps: config.recovery_steps.clamp(1, 100),
            additive: config.additive.clamp(1, Rate::MAX_BYTES_PER_SEC),
            hyper: config.hyper.clamp(1, Rate::MAX_BYTES_PER_SEC),
            tcd: config.tcd,
            cut: match config.tcd {
                true => config.tcd_cut.clamp(1000, 4000),
                false => 1000,
            },
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

/// The reaction point: the rate of one flow. See the module's documentation.
///
/// # Invariants
///
/// `minimum <= current <= target <= line`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dcqcn {
    /// R_C.
    current: u64,
    /// R_T.
    target: u64,
    alpha: Part,
    /// When alpha next decays, and when the timer next expires. Never until the first notification.
    decay_at: Nanos,
    raise_at: Nanos,
    /// Sent since the byte counter last expired.
    bytes: u64,
    /// How often timer and byte counter expired since the last notification, as far as 255.
    timer_steps: u8,
    byte_steps: u8,
}

impl Dcqcn {
    /// A flow that begins: at the rate of the link (section 3.1).
    pub const fn new(law: &Law) -> Self {
        Self {
            current: law.line,
            target: law.line,
            alpha: Part::ALL,
            decay_at: Nanos::MAX,
            raise_at: Nanos::MAX,
            bytes: 0,
            timer_steps: 0,
            byte_steps: 0,
        }
    }

    /// A flow that had this rate, in bytes/s, by another law. It goes up from there as after a
    /// notification, and the first one cuts by half as always.
    pub fn at(law: &Law, now: Nanos, rate: u64) -> Self {
        let rate = rate.max(law.minimum).min(law.line);
        let flow = Self::new(law);
        if rate == law.line {
            return flow;
        }
        Self {
            current: rate,
            target: rate,
            raise_at: now + Nanos(law.timer.get()),
            ..flow
        }
    }

    /// The law has changed. The rate stays within its limits, and a flow that was never notified
    /// has the link's. What has begun of T and K stays as long as it was.
    pub fn configure(&mut self, law: &Law) {
        if self.raise_at == Nanos::MAX {
            *self = Self::new(law);
        }
        self.current = self.current.max(law.minimum).min(law.line);
        self.target = self.target.max(self.current).min(law.line);
    }

    /// R_C, in bytes/s.
    #[inline]
    pub const fn bytes_per_sec(&self) -> u64 {
        self.current
    }

    /// R_T, in bytes/s. At least R_C.
    #[inline]
    pub const fn target(&self) -> u64 {
        self.target
    }

    /// alpha, in parts per billion.
    pub fn alpha(&self) -> u32 {
        self.alpha.as_per_billion()
    }

    /// When the timer next raises the rate. `None` if it is as high as it gets.
    #[inline]
    pub fn next(&self, law: &Law) -> Option<Nanos> {
        (self.current < law.line).then_some(self.raise_at)
    }

    /// Lets timers expire as often as they have by `now`: equation 2 for alpha, and the increase of
    /// the rate. Earlier times than before change nothing.
    #[inline]
    pub fn advance(&mut self, law: &Law, now: Nanos) {
        if now >= self.decay_at {
            let times = expire(&mut self.decay_at, law.alpha_timer, now);
            self.alpha = self.alpha.times_power(law.keep, times);
        }
        if now >= self.raise_at {
            let times = expire(&mut self.raise_at, law.timer, now);
            self.raise_often(law, times);
        }
    }

    /// `bytes` were sent. More than [`Rate::MAX_LEN`] count as that.
    #[inline]
    pub fn sent(&mut self, law: &Law, now: Nanos, bytes: u32) {
        self.advance(law, now);
        if self.raise_at == Nanos::MAX {
            return;
        }
        // At most 65 times, as it is 64 KiB or more; also if it was more before.
        let before = self.bytes.min(law.byte_counter);
        self.bytes = before.saturating_add(bytes.min(Rate::MAX_LEN).into());
        while self.bytes >= law.byte_counter {
            self.bytes = self.bytes.saturating_sub(law.byte_counter);
            self.raise(law);
            self.byte_steps = self.byte_steps.saturating_add(1);
        }
    }

    /// A notification has come: equation 1. Without TCD one of an undetermined port is none.
    /// Returns whether TCD held the rate: without it, or with no mark, it might have gone up.
    pub fn notified(&mut self, law: &Law, now: Nanos, mark: Mark) -> bool {
        self.advance(law, now);
        match mark {
            Mark::None => return false,
            Mark::Undetermined if !law.tcd || self.raise_at == Nanos::MAX => return false,
            Mark::Undetermined => {}
            Mark::Congested => {
                self.target = self.current;
                let cut = self.alpha.half_times(law.cut);
                self.current = cut.off(self.current).max(law.minimum);
                // The same as the equation, and never less than before by rounding.
                self.alpha = self.alpha.plus(self.alpha.rest().times(law.g));
                (self.timer_steps, self.byte_steps) = (0, 0);
            }
        }
        self.bytes = 0;
        self.decay_at = now + Nanos(law.alpha_timer.get());
        self.raise_at = now + Nanos(law.timer.get());
        mark == Mark::Undetermined
    }

    /// By how much an event raises the target now: 0 in fast recovery.
    #[inline]
    fn step(&self, law: &Law) -> u64 {
        let most = self.timer_steps.max(self.byte_steps);
        let least = self.timer_steps.min(self.byte_steps);
        if most < law.recovery_steps {
            return 0;
        }
        match least.saturating_sub(law.recovery_steps) {
            0 => law.additive,
            // Below 2^8 x 2^42.
            beyond => u64::from(beyond).wrapping_mul(law.hyper),
        }
    }

    /// One event: of the timer, or of the byte counter. The target rises by what is returned,
    /// unless it meets the line's rate.
    #[inline]
    fn raise(&mut self, law: &Law) -> u64 {
        let step = self.step(law);
        self.target = self.target.saturating_add(step).min(law.line);
        // Half of the way, rounded up, so that the target is reached.
        let left = self.target.saturating_sub(self.current) / 2;
        self.current = self.target.saturating_sub(left);
        step
    }

    /// So many events of the timer, in at most some 350 steps.
    fn raise_often(&mut self, law: &Law, times: u64) {
        let mut left = times;
        while left != 0 && self.current != law.line {
            let gap = self.target.saturating_sub(self.current);
            let step = self.raise(law);
            left = left.saturating_sub(1);
            let settled =
                self.timer_steps == u8::MAX && self.target.saturating_sub(self.current) == gap;
            self.timer_steps = self.timer_steps.saturating_add(1);
            // All further steps are the same, until the target meets the line's rate: rate and
            // target rise alike.
            let Some(step) = NonZeroU64::new(step).filter(|_| settled) else {
                continue;
            };
            let often = left.min(law.line.saturating_sub(self.target) / step);
            // At most what the line leaves.
            let rise = step.get().wrapping_mul(often);
            self.target = self.target.saturating_add(rise);
            self.current = self.current.saturating_add(rise);
            left = left.saturating_sub(often);
        }
        let rest = u8::try_from(left).unwrap_or(u8::MAX);
        self.timer_steps = self.timer_steps.saturating_add(rest);
    }
}

/// How often a timer has expired by `now`, which is not before `at`; and it is set to when it does
/// next.
fn expire(at: &mut Nanos, every: NonZeroU64, now: Nanos) -> u64 {
    let late = now.0.saturating_sub(at.0);
    let times = (late / every).saturating_add(1);
    *at = now + Nanos(every.get().saturating_sub(late % every));
    times
}

/// The notification point: which packets of one flow a receiver tells the sender of (section 3.1,
/// figure 6).
///
/// The first marked packet is told of at once, and so is the first after a pause. Otherwise those
/// of an interval are told of together at its end, as the worst that they were
/// ([`Mark`]'s order): so a congested port may be told of up to an interval late if an undetermined
/// one was before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notifier {
    /// When the next notification may be sent.
    open_at: Nanos,
    /// What waits for that.
    waiting: Mark,
}

impl Notifier {
    /// Nothing was marked so far.
    pub const NEW: Self = Self {
        open_at: Nanos::ZERO,
        waiting: Mark::None,
    };

    /// A packet has come with this mark, or [`Notifier::next`] with none. Returns what the sender
    /// is to be notified of now. `interval` is [`Config::notify_interval`].
    #[inline]
    pub fn heard(&mut self, interval: Nanos, now: Nanos, mark: Mark) -> Option<Mark> {
        self.waiting = self.waiting.max(mark);
        if self.waiting == Mark::None || now < self.open_at {
            return None;
        }
        self.open_at = now + interval;
        Some(core::mem::take(&mut self.waiting))
    }

    /// When to call again if no packet comes before. `None`: nothing waits.
    ///
    /// A receiver without timers may leave it at packets: then the flow's next packet after the
    /// interval brings the notification, marked or not.
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        (self.waiting != Mark::None).then_some(self.open_at)
    }
}

#[cfg(test)]
mod tests;
