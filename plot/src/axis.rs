// SPDX-License-Identifier: GPL-2.0
//! An axis: what it spans, and where its labels are.

/// An axis.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// What is measured, with its unit.
    pub name: String,
    /// The least and the greatest value.
    pub span: (f64, f64),
    /// Whether equal distances are equal ratios.
    pub log: bool,
    /// About how many numbers there are along it.
    pub labels: usize,
    /// At most so many decimals in them.
    pub decimals: usize,
    /// Whether faint lines across go out from them.
    pub grid: bool,
    /// Words at places, instead of numbers.
    pub words: Vec<(f64, String)>,
}

impl Axis {
    /// A linear one.
    pub fn linear(name: impl Into<String>, span: (f64, f64), labels: usize) -> Self {
        Self {
            name: name.into(),
            span,
            labels,
            decimals: 3,
            ..Self::default()
        }
    }

    /// A logarithmic one, with lines across. What it spans is above 0.
    pub fn log(name: impl Into<String>, span: (f64, f64)) -> Self {
        Self {
            log: true,
            grid: true,
            ..Self::linear(name, span, 8)
        }
    }

    /// One with words at places, instead of numbers.
    pub fn words(span: (f64, f64), words: Vec<(f64, String)>) -> Self {
        Self {
            span,
            words,
            ..Self::default()
        }
    }

    /// With faint lines across.
    pub fn grid(self) -> Self {
        Self { grid: true, ..self }
    }

    /// With at most so many decimals.
    pub fn decimals(self, decimals: usize) -> Self {
        Self { decimals, ..self }
    }

    /// Where a value is: linear in px.
    pub(crate) fn place(&self, value: f64) -> f64 {
        if self.log {
            value.max(f64::MIN_POSITIVE).log10()
        } else {
            value
        }
    }

    /// Where its ends are.
    pub(crate) fn ends(&self) -> (f64, f64) {
        (self.place(self.span.0), self.place(self.span.1))
    }

    /// The values that are written along it.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.span;
        if self.labels == 0 || high <= low {
            return Vec::new();
        }
        if self.log {
            // 1, 2 and 5 of each power of ten, or the powers alone if these are many.
            let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
            let of_ten: &[f64] = if last - first > 4 {
                &[1.0]
            } else {
                &[1.0, 2.0, 5.0]
            };
            let all = (first..=last).flat_map(|exponent| {
                let power = 10_f64.powi(exponent);
                of_ten.iter().map(move |factor| factor * power)
            });
            let room = (high / low).powf(1e-9);
            return all
                .filter(|tick| *tick * room >= low && *tick <= high * room)
                .collect();
        }
        let rough = (high - low) / self.labels as f64;
        let power = 10_f64.powi(rough.log10().floor() as i32);
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(10.0 * power);
        let (first, last) = (
            (low / step).ceil() as i64,
            (high / step * 1.000_001).floor() as i64,
        );
        (first..=last).map(|n| n as f64 * step).collect()
    }
}

/// What a linear axis spans: all of the values with a little room above, from 0 unless some are
/// below it.
pub fn upwards(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    for value in values {
        low = low.min(value);
        high = high.max(value);
    }
    if high - low <= 0.0 {
        high = low + 1.0;
    }
    let room = (high - low) * 0.08;
    (if low < 0.0 { low - room } else { 0.0 }, high + room)
}

/// What a logarithmic axis spans: the positive values, with a little room around.
pub fn logarithmic(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|value| *value > 0.0) {
        low = low.min(value);
        high = high.max(value);
    }
    if high <= 0.0 {
        return (1.0, 10.0);
    }
    (low * 0.7, high * 1.4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_all_values() {
        assert_eq!(upwards([0.0, 100.0].into_iter()), (0.0, 108.0));
        let (low, high) = upwards([-50.0, 50.0].into_iter());
        assert!(low < -50.0 && high > 50.0);
        assert_eq!(upwards([].into_iter()).0, 0.0);
        let (low, high) = logarithmic([2.0, 300.0, 0.0].into_iter());
        assert!(low < 2.0 && low > 0.0 && high > 300.0);
        assert_eq!(logarithmic([].into_iter()), (1.0, 10.0));
    }

    #[test]
    fn labels_are_round_and_about_as_many_as_asked_for() {
        let ticks = |span, labels| Axis::linear("x", span, labels).ticks();
        assert_eq!(
            ticks((0.0, 12.5), 12),
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
        );
        assert_eq!(ticks((-1.0, 1.0), 4), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert!(ticks((0.0, 1.0), 0).is_empty());
        let ticks = |low, high| Axis::log("x", (low, high)).ticks();
        assert_eq!(ticks(0.9, 25.0), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(ticks(1.0, 1e5), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
    }
}
