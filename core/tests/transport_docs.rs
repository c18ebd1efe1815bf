// SPDX-License-Identifier: GPL-2.0
//! The counters in `docs/transport-options.md` are what the table in the code says.

use std::fmt::Write as _;

use turnstile_core::transport::stats::Counter;

const DOCS: &str = include_str!("../../docs/transport-options.md");

fn rows(of: impl Iterator<Item = String>) -> String {
    of.fold(String::new(), |mut all, row| {
        let _ = writeln!(all, "{row}");
        all
    })
}

fn counters() -> String {
    rows(Counter::ALL.iter().map(|counter| {
        let (name, doc) = (counter.name(), counter.doc().trim());
        format!("| `{name}` | {doc} |")
    }))
}

#[test]
fn the_counters_are_documented_as_they_are() {
    let counters = counters();
    assert!(
        DOCS.contains(&counters),
        "docs/transport-options.md should have:\n{counters}"
    );
}
