// SPDX-License-Identifier: GPL-2.0
//! What an experiment found, as the guest writes it (`vm-tests/src/lab/report.rs`).

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// All of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Findings {
    /// The experiment.
    pub(crate) name: String,
    /// What it is about.
    pub(crate) title: String,
    /// Where the paper's figures are from.
    pub(crate) source: String,
    /// Release of the guest's kernel.
    pub(crate) kernel: String,
    /// Seed of all that is random.
    pub(crate) seed: u64,
    /// The ways to configure the port.
    pub(crate) setups: Vec<SetUp>,
    /// The tables.
    pub(crate) tables: Vec<Table>,
    /// The plots.
    pub(crate) plots: Vec<Plot>,
    /// What the figures should bear out.
    pub(crate) claims: Vec<Claim>,
    /// What to know about it.
    pub(crate) notes: Vec<String>,
    /// Names of the captures that came with it.
    pub(crate) captures: Vec<String>,
}

/// A way to configure the port.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SetUp {
    /// For people.
    pub(crate) title: String,
    /// Lines for `tc`; `DEV` is the device.
    pub(crate) lines: Vec<String>,
}

/// Rows of words and numbers.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Table {
    /// What it shows.
    pub(crate) title: String,
    /// With units.
    pub(crate) columns: Vec<String>,
    /// A string or a number for each column.
    pub(crate) rows: Vec<Vec<Value>>,
}

/// How points are joined.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Style {
    /// By straight lines.
    Line,
    /// Each value holds until the next point.
    Steps,
}

/// Curves over one axis.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Plot {
    /// What it shows.
    pub(crate) title: String,
    /// The horizontal axis, with its unit.
    pub(crate) x: String,
    /// The vertical one.
    pub(crate) y: String,
    /// How points are joined.
    pub(crate) style: Style,
    /// The curves.
    pub(crate) series: Vec<Series>,
    /// Lines across: a name and a height.
    pub(crate) levels: Vec<(String, f64)>,
}

/// A curve.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Series {
    /// For the legend.
    pub(crate) name: String,
    /// x and y, by rising x.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Something that the figures should bear out.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Claim {
    /// In words.
    pub(crate) text: String,
    /// Whether they do.
    pub(crate) holds: bool,
}

impl Findings {
    /// Reads the guest's file.
    ///
    /// # Errors
    /// It is not one.
    pub(crate) fn read(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).context("not the findings of an experiment")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Small, with everything in it.
    pub(crate) fn example() -> Findings {
        Findings::read(
            br#"{"name":"x","title":"what it is","source":"a paper","kernel":"7.2.12-virtual","seed":1,
            "setups":[{"title":"one: first","lines":["qdisc add dev DEV root pfifo"]}],
            "tables":[{"title":"t","columns":["port","gap, ns","paper"],
                "rows":[["one",1297.6,1297.6],["another",80,1297.6]]}],
            "plots":[
                {"title":"p","x":"time, us","y":"tokens","style":"steps",
                 "series":[{"name":"one","points":[[0.0,1.0],[1.0,3.0],[2.0,0.0]]},{"name":"two","points":[]}],
                 "levels":[["limit",8.0]]},
                {"title":"q","x":"n","y":"ns","style":"line",
                 "series":[{"name":"one","points":[[1.0,-1.0]]}],"levels":[]}],
            "claims":[{"text":"good","holds":true},{"text":"bad","holds":false}],
            "notes":["to know"],"captures":["x-one.pcap"]}"#,
        )
        .unwrap()
    }

    #[test]
    fn the_guests_file_is_read() {
        let findings = example();
        assert_eq!(findings.plots[0].style, Style::Steps);
        assert_eq!(findings.plots[0].levels[0].1, 8.0);
        assert!(!findings.claims[1].holds);
        assert!(Findings::read(b"{}").is_err());
    }
}
