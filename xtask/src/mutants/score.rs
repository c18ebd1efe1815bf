// SPDX-License-Identifier: GPL-2.0
//! How many were caught, by folder.

use std::collections::BTreeMap;
use std::path::Path;

use super::sample::Mutant;
use super::{Outcome, Outcomes};
use crate::tables;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    caught: usize,
    missed: usize,
    void: usize,
}

/// What came of a sample.
#[derive(Debug)]
pub(super) struct Score {
    folders: BTreeMap<String, Counts>,
    all: Counts,
    /// Names of those that no test noticed.
    pub(super) survivors: Vec<String>,
}

impl Score {
    pub(super) fn of(mutants: &[Mutant], outcomes: &Outcomes) -> Self {
        let mut score = Self {
            folders: BTreeMap::new(),
            all: Counts::default(),
            survivors: Vec::new(),
        };
        for mutant in mutants {
            let Some(outcome) = outcomes.get(&mutant.name) else {
                continue;
            };
            let folder = score.folders.entry(folder(&mutant.file)).or_default();
            for counts in [folder, &mut score.all] {
                match outcome {
                    Outcome::Caught => counts.caught += 1,
                    Outcome::Missed => counts.missed += 1,
                    Outcome::Void => counts.void += 1,
                }
            }
            if *outcome == Outcome::Missed {
                score.survivors.push(mutant.name.clone());
            }
        }
        score
    }

    pub(super) fn caught(&self) -> usize {
        self.all.caught
    }

    /// Those that a test could have noticed.
    pub(super) fn judged(&self) -> usize {
        self.all.caught + self.all.missed
    }

    /// A row for each folder, and one for all.
    pub(super) fn table(&self) -> String {
        let row = |cells: [String; 5]| cells.to_vec();
        let head = ["folder", "caught", "survived", "void", "score"];
        let mut rows = vec![row(head.map(str::to_owned))];
        let folders = self
            .folders
            .iter()
            .map(|(folder, counts)| (folder.as_str(), counts));
        for (folder, counts) in folders.chain([("all", &self.all)]) {
            rows.push(row([
                folder.to_owned(),
                counts.caught.to_string(),
                counts.missed.to_string(),
                counts.void.to_string(),
                percent(counts),
            ]));
        }
        tables::aligned(&rows)
    }
}

fn percent(counts: &Counts) -> String {
    match counts.caught + counts.missed {
        0 => "-".to_owned(),
        judged => format!("{:.0} %", counts.caught as f64 * 100.0 / judged as f64),
    }
}

/// The folder of a module: `core/src/port` of `core/src/port.rs` as of `core/src/port/line.rs`.
fn folder(file: &str) -> String {
    let path = Path::new(file);
    let parent = path.parent().unwrap_or(path);
    let of_module = path.with_extension("");
    let is_top = parent.ends_with("src");
    let folder = if is_top { of_module.as_path() } else { parent };
    folder.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_and_its_parts_are_one_folder() {
        assert_eq!(folder("core/src/port.rs"), "core/src/port");
        assert_eq!(folder("core/src/port/line.rs"), "core/src/port");
        assert_eq!(
            folder("core/src/port/marker/ren.rs"),
            "core/src/port/marker"
        );
    }

    #[test]
    fn scores_leave_out_what_nobody_can_notice() {
        let lines = [
            ("core/src/port.rs:1:1: a", Outcome::Caught),
            ("core/src/port/line.rs:2:1: b", Outcome::Missed),
            ("core/src/port/line.rs:3:1: c", Outcome::Caught),
            ("core/src/port/line.rs:4:1: d", Outcome::Void),
            ("core/src/shaper.rs:5:1: e", Outcome::Void),
        ];
        let mutants: Vec<Mutant> = lines
            .iter()
            .map(|(line, _)| Mutant::parse(line, "core").unwrap())
            .collect();
        let outcomes = lines
            .iter()
            .map(|(line, outcome)| ((*line).to_owned(), *outcome));
        let score = Score::of(&mutants, &outcomes.collect());
        assert_eq!((score.caught(), score.judged()), (2, 3));
        assert_eq!(score.survivors, ["core/src/port/line.rs:2:1: b"]);
        assert_eq!(
            score.table(),
            "  folder           caught  survived  void  score\n  \
             core/src/port         2         1     1   67 %\n  \
             core/src/shaper       0         0     1      -\n  \
             all                   2         1     2   67 %\n"
        );
    }
}
