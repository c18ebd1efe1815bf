// SPDX-License-Identifier: GPL-2.0
//! Exact arithmetic of rates, and how far departures are from it.
//!
//! None of it comes from `turnstile_core`: what is tested must not say what is right.

use anyhow::{ensure, Result};

/// A rate as an exact fraction: so many ns for so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    ns: u128,
    bytes: u128,
}

/// bit/s.
pub(super) const MBIT: u64 = 1_000_000;
/// bit/s.
pub(super) const GBIT: u64 = 1_000_000_000;
/// A rate as tc takes it: `10gbit`.
pub(super) fn words(rate: u64) -> String {
    [(GBIT, "gbit"), (MBIT, "mbit")]
        .into_iter()
        .find(|(unit, _)| rate % unit == 0)
        .map_or_else(
            || format!("{rate}bit"),
            |(unit, name)| format!("{}{name}", rate / unit),
        )
}

/// The share that a port gives to tokens unless told otherwise, 84/1622, as it keeps it: parts per
/// billion.
pub(super) const SHARE: u64 = 51_787_916;
/// Wire bytes of a token over IPv4.
pub(super) const TOKEN: u64 = 84;
/// Wire bytes of a full frame.
pub(super) const FRAME: u64 = 1538;

impl Pace {
    /// `rate` bit/s.
    pub(super) const fn bits(rate: u64) -> Self {
        Self {
            ns: 8_000_000_000,
            bytes: rate as u128,
        }
    }

    /// `ppb` parts per billion of a link of `link` bit/s.
    pub(super) const fn share(link: u64, ppb: u64) -> Self {
        Self {
            ns: 8_000_000_000 * 1_000_000_000,
            bytes: link as u128 * ppb as u128,
        }
    }

    /// Of tokens of `wire` bytes, 84 or more, where tokens have `ppb` of a link of `link` bit/s:
    /// those bytes of each that are beyond 84 and not beyond 168 go at the link's rate, and the
    /// others at that share.
    pub(super) const fn tokens(link: u64, ppb: u64, wire: u64) -> Self {
        let (share, whole) = (Self::share(link, ppb), Self::bits(link));
        let longer = if wire > 2 * TOKEN {
            TOKEN
        } else {
            wire - TOKEN
        };
        Self {
            ns: (wire - longer) as u128 * share.ns * whole.bytes
                + longer as u128 * whole.ns * share.bytes,
            bytes: wire as u128 * share.bytes * whole.bytes,
        }
    }

    /// The first whole ns in which `bytes` have passed.
    pub(super) fn after(self, bytes: u64) -> u64 {
        // Far from 64 bits: the longest run here is some minutes.
        (u128::from(bytes) * self.ns).div_ceil(self.bytes) as u64
    }

    /// ns that `bytes` take.
    pub(super) fn ns(self, bytes: u64) -> f64 {
        // The quotient apart, so that no digit is lost.
        let total = u128::from(bytes) * self.ns;
        (total / self.bytes) as f64 + (total % self.bytes) as f64 / self.bytes as f64
    }
}

impl Pace {
    /// Bytes per ns.
    pub(super) fn bytes_per_ns(self) -> f64 {
        self.bytes as f64 / self.ns as f64
    }
}

/// How packets of one length were spaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spacing {
    /// Gaps.
    pub(super) gaps: u64,
    /// ns: the ideal gap.
    pub(super) ideal: f64,
    /// ns: the shortest.
    pub(super) min: u64,
    /// ns: the longest.
    pub(super) max: u64,
    /// ns.
    pub(super) mean: f64,
}

impl Spacing {
    /// Of departures in order, at least two. `ideal` in ns.
    pub(super) fn of(departures: &[u64], ideal: f64) -> Result<Self> {
        let (Some(first), Some(last)) = (departures.first(), departures.last()) else {
            anyhow::bail!("nothing came")
        };
        ensure!(departures.len() > 1, "a single packet came");
        let (mut min, mut max) = (u64::MAX, 0);
        for pair in departures.windows(2) {
            let gap = pair[1].saturating_sub(pair[0]);
            (min, max) = (min.min(gap), max.max(gap));
        }
        let gaps = departures.len() as u64 - 1;
        let whole = (last - first) / gaps;
        let rest = (last - first) % gaps;
        Ok(Self {
            gaps,
            ideal,
            min,
            max,
            mean: whole as f64 + rest as f64 / gaps as f64,
        })
    }

    /// ns: the largest deviation of a gap from the ideal.
    pub(super) fn deviation(&self) -> f64 {
        (self.max as f64 - self.ideal).max(self.ideal - self.min as f64)
    }

    /// The relative error of the mean.
    pub(super) fn error(&self) -> f64 {
        (self.mean / self.ideal - 1.0).abs()
    }

    /// Every gap is within 1 ns of the ideal, and the mean within `error` of it, relatively.
    pub(super) fn check(&self, what: &str, error: f64) -> Result<()> {
        ensure!(
            self.deviation() <= 1.0,
            "{what}: gaps of {}..{} ns where {} is ideal",
            self.min,
            self.max,
            self.ideal
        );
        ensure!(
            self.error() <= error,
            "{what}: a mean gap of {} ns where {} is ideal, an error of {:.1e}",
            self.mean,
            self.ideal,
            self.error()
        );
        Ok(())
    }
}

/// That packets left when exact arithmetic says, to the nanosecond and without drift: each in the
/// first whole nanosecond in which those before it have passed at `pace`, counted from the first.
/// `lens` are their wire lengths in order.
pub(super) fn check_schedule(
    what: &str,
    departures: &[u64],
    lens: impl IntoIterator<Item = u64>,
    pace: Pace,
) -> Result<()> {
    let Some(first) = departures.first() else {
        anyhow::bail!("{what}: nothing came")
    };
    let mut sum = 0;
    for ((number, at), len) in departures.iter().enumerate().zip(lens) {
        let (is, due) = (at - first, pace.after(sum));
        ensure!(
            is == due,
            "{what}: packet {number} left {is} ns after the first instead of {due} ns{}",
            near(departures, number)
        );
        sum += len;
    }
    Ok(())
}

/// That this came when it should, given as offsets in ns from `start`.
pub(super) fn check_times(what: &str, start: u64, came: &[u64], want: &[u64]) -> Result<()> {
    let came: Vec<i64> = came.iter().map(|at| *at as i64 - start as i64).collect();
    let same = came.len() == want.len()
        && came
            .iter()
            .zip(want)
            .all(|(came, want)| *came == *want as i64);
    ensure!(same, "{what}: left after {came:?} ns instead of {want:?}");
    Ok(())
}

/// The gaps around a departure, for a message.
fn near(departures: &[u64], number: usize) -> String {
    let from = number.saturating_sub(3);
    let to = (number + 3).min(departures.len());
    let gaps: Vec<u64> = departures[from..to]
        .windows(2)
        .map(|pair| pair[1].saturating_sub(pair[0]))
        .collect();
    format!("; gaps around it: {gaps:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_agree_with_what_is_known() {
        // A token for each full frame: 1622 bytes of the link.
        assert_eq!(Pace::bits(10 * GBIT).ns(TOKEN + FRAME), 1297.6);
        let share = Pace::share(10 * GBIT, SHARE);
        assert!((share.ns(84) / 1297.6 - 1.0).abs() < 1e-8);
        assert_eq!(Pace::bits(84 * MBIT).ns(84), 8000.0);
        assert_eq!(Pace::bits(84 * MBIT).after(84), 8000);
        assert_eq!(Pace::bits(3 * GBIT).after(1), 3);
        assert_eq!(Pace::bits(10 * GBIT).after(FRAME), 1231);
        assert_eq!(words(10 * GBIT), "10gbit");
        assert_eq!(words(1500 * MBIT), "1500mbit");
        assert_eq!(words(8), "8bit");
    }

    #[test]
    fn spacing_is_worked_out() {
        let spacing = Spacing::of(&[10, 20, 31], 10.5).unwrap();
        assert_eq!((spacing.min, spacing.max, spacing.gaps), (10, 11, 2));
        assert_eq!((spacing.mean, spacing.deviation()), (10.5, 0.5));
        spacing.check("x", 0.0).unwrap();
        assert!(Spacing::of(&[10, 20, 32], 10.5)
            .unwrap()
            .check("x", 1.0)
            .is_err());
        assert!(Spacing::of(&[10, 20, 30], 10.5)
            .unwrap()
            .check("x", 1e-6)
            .is_err());
    }

    #[test]
    fn a_schedule_is_exact_or_refused() {
        let pace = Pace::bits(10 * GBIT);
        let good = [100, 168, 235, 302];
        check_schedule("x", &good, [84; 4], pace).unwrap();
        assert!(check_schedule("x", &[100, 168, 235, 303], [84; 4], pace).is_err());
        assert!(check_schedule("x", &[100, 167, 235, 302], [84; 4], pace).is_err());
    }
}
