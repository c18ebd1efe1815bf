// SPDX-License-Identifier: GPL-2.0
//! Counts the cases of a test run and prints a line for each.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Error, Result};

use crate::progress::Ui;

/// The count so far. Shared by threads.
#[derive(Debug)]
pub(crate) struct Report {
    ui: Ui,
    count: Mutex<(usize, usize)>,
    cases: Mutex<BTreeMap<String, bool>>,
}

impl Report {
    /// Nothing counted yet.
    pub(crate) fn new(ui: Ui) -> Self {
        Self {
            ui,
            count: Mutex::new((0, 0)),
            cases: Mutex::default(),
        }
    }

    /// A case has ended.
    pub(crate) fn case(&self, name: &str, took: Duration, result: &Result<()>) {
        match result {
            Ok(()) => self.passed(name, took, 1),
            Err(error) => self.failed(name, took, 1, &reason(error)),
        }
    }

    /// `number` cases of one name have passed.
    pub(crate) fn passed(&self, name: &str, took: Duration, number: usize) {
        self.count().0 += number;
        let name = if number == 1 {
            name.to_owned()
        } else {
            format!("{name} ({number})")
        };
        self.ui.result(line("ok", &name, took));
    }

    /// `number` cases of one name have failed.
    pub(crate) fn failed(&self, name: &str, took: Duration, number: usize, why: &str) {
        self.count().1 += number;
        self.ui.result(line("FAIL", name, took));
        for text in why.lines() {
            self.ui.result(format!("       {text}"));
        }
    }

    /// A case was left out; counts as neither.
    pub(crate) fn skipped(&self, name: &str, why: &str) {
        self.ui.result(format!("skip   {name}: {why}"));
    }

    /// A guest has run this case, or left it out: some other bed has to run it then.
    pub(crate) fn ran(&self, case: &str, it_did: bool) {
        let mut cases = self
            .cases
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        *cases.entry(case.to_owned()).or_default() |= it_did;
    }

    /// A case that no bed has run is one that cannot fail: that is a failure itself.
    pub(crate) fn each_case_ran(&self) {
        let cases = self
            .cases
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        for (case, _) in cases.iter().filter(|(_, ran)| !**ran) {
            let why = "all beds leave it out: none has what it needs";
            self.failed(case, Duration::ZERO, 1, why);
        }
    }

    /// Passed and failed so far.
    pub(crate) fn totals(&self) -> (usize, usize) {
        *self.count()
    }

    /// Prints the line that ends a run, alone on a line; returns whether all is well. A run of
    /// nothing is not.
    pub(crate) fn end(&self) -> bool {
        let (passed, failed) = self.totals();
        self.ui.result(format!("{passed} passed, {failed} failed"));
        failed == 0 && passed > 0
    }

    fn count(&self) -> std::sync::MutexGuard<'_, (usize, usize)> {
        // A thread that panicked cannot have left two numbers in disorder.
        self.count
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// An error with its causes, on lines of their own.
pub(crate) fn reason(error: &Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

fn line(word: &str, name: &str, took: Duration) -> String {
    format!("{word:<6} {name:<66} {:>7.1} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_all_beds_leave_out_has_failed() {
        let report = report();
        for (case, ran) in [("a", true), ("a", false), ("b", false), ("b", true)] {
            report.ran(case, ran);
        }
        report.each_case_ran();
        assert_eq!(report.totals(), (0, 0));
        report.ran("c", false);
        report.ran("c", false);
        report.each_case_ran();
        assert_eq!(report.totals(), (0, 1));
    }

    fn report() -> Report {
        Report::new(Ui::new(std::env::temp_dir()))
    }

    #[test]
    fn cases_are_counted() {
        let report = report();
        report.case("one", Duration::ZERO, &Ok(()));
        report.passed("many", Duration::ZERO, 10);
        assert!(report.end());
        report.case(
            "bad",
            Duration::ZERO,
            &Err(Error::msg("why").context("what")),
        );
        report.skipped("none", "the bed lacks it");
        assert_eq!(report.totals(), (11, 1));
        assert!(!report.end());
    }

    #[test]
    fn a_run_of_nothing_is_no_success() {
        assert!(!report().end());
    }

    #[test]
    fn reasons_name_every_cause() {
        let error = Error::msg("inner").context("outer");
        assert_eq!(reason(&error), "outer\ninner");
    }
}
