// SPDX-License-Identifier: GPL-2.0
//! An experiment's report, as the host reads it from `NAME.json`.

use serde::Serialize;
use serde_json::Value;

/// The report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The experiment.
    pub name: String,
    /// A title.
    pub title: String,
    /// The source of the paper's figures.
    pub source: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The set-ups of the port.
    pub setups: Vec<SetUpLines>,
    /// The tables.
    pub tables: Vec<Table>,
    /// The plots.
    pub plots: Vec<Plot>,
    /// The claims, and whether they hold.
    pub claims: Vec<Claim>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// Captures that were handed out.
    pub captures: Vec<String>,
}

/// A set-up of the port.
#[derive(Clone, Debug, Serialize)]
pub struct SetUpLines {
    /// For people.
    pub title: String,
    /// Lines for `tc -batch`; `DEV` is the device.
    pub lines: Vec<String>,
}

/// Rows of words and numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// With units. The paper's figure is in the column `paper`, behind the one that it is to be
    /// compared with.
    pub columns: Vec<String>,
    /// A string or a number for each column.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// Without rows.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|&column| column.into()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Value>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }
}

/// A number in a table, rounded to so many decimals: no more digits than are meaningful.
pub fn number(value: f64, decimals: i32) -> Value {
    rounded(value, decimals).into()
}

/// To so many decimals.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    let factor = 10_f64.powi(decimals);
    let rounded = (value * factor).round() / factor;
    // No -0.
    rounded + 0.0
}

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// By straight lines.
    Line,
    /// Each value holds until the next point.
    Steps,
}

/// Curves over one axis.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x: String,
    /// The vertical one.
    pub y: String,
    /// How points are joined.
    pub style: Style,
    /// The curves.
    pub series: Vec<Series>,
    /// Lines across: a name and a height; the paper's figure.
    pub levels: Vec<(String, f64)>,
}

impl Plot {
    /// Without curves.
    pub fn new(title: &str, x: &str, y: &str, style: Style) -> Self {
        Self {
            title: title.into(),
            x: x.into(),
            y: y.into(),
            style,
            series: Vec::new(),
            levels: Vec::new(),
        }
    }

    /// With a line across.
    pub fn level(mut self, name: &str, height: f64) -> Self {
        self.levels.push((name.into(), height));
        self
    }

    /// Adds a curve.
    pub fn series(&mut self, name: &str, points: Vec<(f64, f64)>) {
        self.series.push(Series {
            name: name.into(),
            points,
        });
    }
}

/// A curve.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// x and y, by rising x.
    pub points: Vec<(f64, f64)>,
}

/// A claim that the figures should support.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// In words.
    pub text: String,
    /// Whether they do.
    pub holds: bool,
}

/// Reduces a curve of steps to at most `most` points: the greatest of each stretch of equal width,
/// at its beginning.
pub fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    if points.len() <= most {
        return points.to_vec();
    }
    let width = (last.0 - first.0) / most as f64;
    let mut thin: Vec<(f64, f64)> = Vec::with_capacity(most + 1);
    let mut stretch = None;
    for &(x, y) in points {
        let index = ((x - first.0) / width) as usize;
        if stretch == Some(index) {
            if let Some(kept) = thin.last_mut() {
                kept.1 = kept.1.max(y);
            }
        } else {
            stretch = Some(index);
            thin.push((x, y));
        }
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_peaks() {
        let points: Vec<_> = (0..1000)
            .map(|x| (f64::from(x), if x == 777 { 9.0 } else { 1.0 }))
            .collect();
        let thin = thinned(&points, 100);
        assert!(thin.len() <= 101);
        assert!(thin.iter().any(|(_, y)| *y == 9.0));
        assert_eq!(thinned(&points[..5], 100).len(), 5);
        assert!(thinned(&[], 100).is_empty());
    }

    #[test]
    fn numbers_have_no_more_digits_than_they_should() {
        assert_eq!(number(1_297.600_000_1, 1).to_string(), "1297.6");
        assert_eq!(number(-0.000_1, 1).to_string(), "0.0");
    }
}
