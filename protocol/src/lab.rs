// SPDX-License-Identifier: GPL-2.0
//! An experiment's report: `NAME.json`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The report.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Findings {
    /// The experiment.
    pub name: String,
    /// A title.
    pub title: String,
    /// The source of the paper's figures.
    pub source: String,
    /// Release of the guest's kernel.
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
    /// Names of the captures that came with it.
    pub captures: Vec<String>,
}

/// A set-up of the port.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SetUpLines {
    /// For people.
    pub title: String,
    /// Lines for `tc -batch`; `DEV` is the device.
    pub lines: Vec<String>,
}

/// Rows of words and numbers.
#[derive(Clone, Debug, Deserialize, Serialize)]
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

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// By straight lines.
    Line,
    /// Each value holds until the next point.
    Steps,
}

/// Curves over one axis.
#[derive(Clone, Debug, Deserialize, Serialize)]
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
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// x and y, by rising x.
    pub points: Vec<(f64, f64)>,
}

/// A claim that the figures should support.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Claim {
    /// In words.
    pub text: String,
    /// Whether they do.
    pub holds: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept;

    #[test]
    fn findings_of_an_earlier_run_are_read() {
        let findings: Findings = kept(
            r#"{"name":"x","title":"what it is","source":"a paper","kernel":"7.2.12-virtual",
            "seed":1,"setups":[{"title":"one: first","lines":["qdisc add dev DEV root pfifo"]}],
            "tables":[{"title":"t","columns":["port","gap, ns"],"rows":[["one",1297.6],["b",80]]}],
            "plots":[{"title":"p","x":"time, us","y":"tokens","style":"steps",
              "series":[{"name":"one","points":[[0.0,1.0],[1.0,3.0]]},{"name":"two","points":[]}],
              "levels":[["limit",8.0]]},
             {"title":"q","x":"n","y":"ns","style":"line","series":[],"levels":[]}],
            "claims":[{"text":"good","holds":true},{"text":"bad","holds":false}],
            "notes":["to know"],"captures":["x-one.pcap"]}"#,
        );
        assert_eq!(findings.plots[0].style, Style::Steps);
        assert_eq!(findings.plots[0].levels[0].1, 8.0);
        assert!(!findings.claims[1].holds);
        assert!(serde_json::from_str::<Findings>("{}").is_err());
    }
}
