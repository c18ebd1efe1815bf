// SPDX-License-Identifier: GPL-2.0
//! What the demonstration finds, in the log.

use turnstile_test_protocol::demo::SetUp;

/// A table of one set-up, for the log.
pub(super) fn print(set_up: &SetUp) {
    println!("\n{}", set_up.title);
    println!(
        "  {:<12}{:>9}{:>9}{:>9}{:>11}{:>9}{:>10}{:>14}{:>13}",
        "class",
        "offered",
        "sent",
        "received",
        "over-limit",
        "expired",
        "share %",
        "sojourn us",
        "max us"
    );
    for class in &set_up.classes {
        let number =
            |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.0}"));
        println!(
            "  {:<12}{:>9}{:>9}{:>9}{:>11}{:>9}{:>10.2}{:>14}{:>13}",
            class.name,
            class.offered,
            class.sent,
            class.received,
            class.drops.get("over-limit").copied().unwrap_or(0),
            class.drops.get("expired").copied().unwrap_or(0),
            class.share_percent,
            number(class.sojourn_mean_us),
            number(class.sojourn_max_us),
        );
    }
    for note in &set_up.notes {
        println!("  {note}");
    }
}
