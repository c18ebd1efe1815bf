// SPDX-License-Identifier: GPL-2.0
//! What the demonstration finds, in the log.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use turnstile_test_protocol::demo::{Class, SetUp};

const COLUMNS: [&str; 9] = [
    "class",
    "offered",
    "sent",
    "received",
    "over-limit",
    "expired",
    "share %",
    "sojourn us",
    "max us",
];

/// A table of one set-up, for the log.
pub(super) fn print(set_up: &SetUp) {
    println!("\n{}", set_up.title);
    let mut table = Table::new();
    table.load_preset(NOTHING).add_row(COLUMNS);
    table.add_rows(set_up.classes.iter().map(row));
    for (n, column) in table.column_iter_mut().enumerate() {
        column.set_padding((2, 0));
        if n > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    println!("{}", table.trim_fmt());
    for note in &set_up.notes {
        println!("  {note}");
    }
}

fn row(class: &Class) -> [String; 9] {
    let drops = |cause| class.drops.get(cause).copied().unwrap_or(0).to_string();
    let time = |us: Option<f64>| us.map_or_else(|| "-".into(), |us| format!("{us:.0}"));
    [
        class.name.clone(),
        class.offered.to_string(),
        class.sent.to_string(),
        class.received.to_string(),
        drops("over-limit"),
        drops("expired"),
        format!("{:.2}", class.share_percent),
        time(class.sojourn_mean_us),
        time(class.sojourn_max_us),
    ]
}
