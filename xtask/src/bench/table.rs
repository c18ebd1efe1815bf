// SPDX-License-Identifier: GPL-2.0
//! The figures as text.

use std::fmt::Write as _;

use super::gates::Gate;
use crate::tables::aligned;
use turnstile_test_protocol::bench::{Boot, Messages};

/// The table: a row for each set-up.
pub(super) fn render(boot: &Boot) -> String {
    let mut text = format!(
        "Instructions per packet on the stock kernel {}: a qdisc called directly, and the whole \
         transmit path less what it\n\
         costs without a queue. Means over the bands in turn; where there are none, over 8 flows \
         of UDP. Super-packets have 10\n\
         segments, each of which counts as a packet.\n\n",
        boot.kernel
    );
    let head = [
        "set-up",
        "enqueue",
        "dequeue",
        "empty dequeue",
        "sum",
        "xmit - noqueue",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for set_up in &boot.setups {
        let costs = set_up.costs();
        let figures = [
            costs.enqueue,
            costs.dequeue,
            costs.empty_dequeue,
            costs.direct,
            costs.xmit_minus_noqueue,
        ];
        let mut row = vec![set_up.label()];
        row.extend(figures.map(|figure| format!("{figure:.1}")));
        rows.push(row);
    }
    text.push_str(&aligned(&rows));
    text.push_str(&messages(&boot.messages));
    text
}

/// What messages cost: a row for each transport.
fn messages(all: &[Messages]) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    let mut transports: Vec<&str> = Vec::new();
    for row in all {
        for (list, name) in [(&mut kinds, &row.what), (&mut transports, &row.transport)] {
            if !list.contains(&name.as_str()) {
                list.push(name);
            }
        }
    }
    if kinds.is_empty() {
        return String::new();
    }
    let mut rows = vec![std::iter::once("transport")
        .chain(kinds.iter().copied())
        .map(str::to_owned)
        .collect::<Vec<_>>()];
    for transport in transports {
        let mut row = vec![transport.to_owned()];
        row.extend(kinds.iter().map(|kind| {
            let found = all
                .iter()
                .find(|row| row.transport == transport && row.what == *kind);
            found.map_or_else(
                || "-".to_owned(),
                |row| {
                    if row.instructions < 1000.0 {
                        format!("{:.2}", row.instructions)
                    } else {
                        format!("{:.0}", row.instructions)
                    }
                },
            )
        }));
        rows.push(row);
    }
    format!(
        "\nInstructions per message (and per byte of a long one), both ends and the way between \
         them on one processor, shipped\nsettings, no qdiscs. 100 B and 10 KB: the mean of \
         requests and answers. UDP: datagrams of 1472 bytes, and nobody\nmakes sure that they \
         arrive. Paced: at 100 Mbit/s, so that it does not matter how the ends take turns.\n\n{}",
        aligned(&rows)
    )
}

/// A line for each gate.
pub(super) fn verdicts(gates: &[Gate]) -> String {
    let mut text = String::from("Gates (sums, called directly)\n");
    for gate in gates {
        let (word, detail) = match &gate.verdict {
            Ok(detail) => ("holds", detail),
            Err(why) => ("FAILS", why),
        };
        let detail = detail.replace('\n', "; ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {word}  {}: {detail}", gate.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::example::{example, plant};
    use super::super::gates::judge;
    use super::*;

    #[test]
    fn the_table_has_a_row_per_set_up() {
        let text = render(&example());
        let row = |label: &str| {
            let line = text.lines().find(|l| l.trim_start().starts_with(label));
            line.unwrap_or_else(|| panic!("no {label} in\n{text}"))
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let cells = row("turnstile: 8 bands, class id");
        let figures = ["110.0", "60.0", "40.0", "210.0", "500.0"];
        assert!(cells.windows(5).any(|w| w == figures), "{cells:?}");
        let cells = row("pfifo");
        assert_eq!(cells[1..6], ["40.0", "50.0", "10.0", "100.0", "150.0"]);
    }

    #[test]
    fn messages_have_a_row_per_transport() {
        let text = render(&example());
        let row = |name: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(name));
            line.map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>())
        };
        assert_eq!(row("tcp"), Some(vec!["5000", "10000", "1.25", "2.50"]));
        assert_eq!(row("udp"), Some(vec!["4000", "8000", "-", "-"]), "{text}");
    }

    #[test]
    fn verdicts_say_which_gate_fails_and_why() {
        let mut boot = example();
        plant(&mut boot, "turnstile/class-id", 30.0);
        let text = verdicts(&judge(&[boot]));
        assert!(
            text.contains("FAILS  8 bands, class id: at most 220: 240.0 of 220"),
            "{text}"
        );
        assert!(text.contains("holds  8 bands, header: at most prio alone: 270.0 of 440.0"));
    }
}
