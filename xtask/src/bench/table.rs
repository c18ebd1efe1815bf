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

/// What messages cost, three times: a row for each load, a column for each transport.
fn messages(all: &[Messages]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\nInstructions of messages: both ends and the way between them on one processor, shipped \
         settings. From 100 B to\n\
         1 MB: requests and answers of that length. Paced: at 100 Mbit/s, so that it does not \
         matter how the ends take turns.\n\
         One way: so many that are sent and not yet read, one unless more are named. Ports: \
         Turnstile's, on both hosts;\n\
         else there are no qdiscs. tcp-plain: TCP without offloads. UDP: datagrams of a packet \
         each, and nobody makes sure\n\
         that they arrive; udp-gso: one call for many of them.\n",
    );
    for (what, per) in [
        ("per message", Messages::per_message as fn(&Messages) -> f64),
        ("per byte", Messages::per_byte),
        ("per packet on the wire", Messages::per_packet),
    ] {
        text.push('\n');
        text.push_str(&aligned(&by_load(all, what, per)));
    }
    text
}

/// The rows of one of these tables. The last column holds ours against TCP.
fn by_load(all: &[Messages], what: &str, per: fn(&Messages) -> f64) -> Vec<Vec<String>> {
    let loads = distinct(all.iter().map(|row| row.load.as_str()));
    let transports = distinct(all.iter().map(|row| row.transport.as_str()));
    let find = |transport: &str, load: &str| {
        let mut rows = all.iter();
        rows.find(|row| row.transport == transport && row.load == load)
    };
    let mut rows = vec![std::iter::once(what)
        .chain(transports.iter().copied())
        .chain(["turnstile / tcp"])
        .map(str::to_owned)
        .collect::<Vec<_>>()];
    for load in loads {
        let title = all.iter().find(|row| row.load == load);
        let mut row = vec![title.map_or_else(String::new, |row| row.title.clone())];
        let cell = |of: Option<f64>| of.map_or_else(|| "-".to_owned(), shown);
        row.extend(transports.iter().map(|it| cell(find(it, load).map(per))));
        let ratio = find("turnstile", load)
            .zip(find("tcp", load))
            .map(|(ours, theirs)| per(ours) / per(theirs));
        row.push(cell(ratio));
        rows.push(row);
    }
    rows
}

/// Each once, in the order in which they first come.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut list = Vec::new();
    for name in names {
        if !list.contains(&name) {
            list.push(name);
        }
    }
    list
}

/// Decimals where they say something.
fn shown(figure: f64) -> String {
    if figure < 1000.0 {
        format!("{figure:.2}")
    } else {
        format!("{figure:.0}")
    }
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
    use super::super::before::RATIOS;
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
    fn messages_have_a_row_per_load_and_a_column_per_transport() {
        let text = render(&example());
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("the load 100B "))
            .map(|line| line.split_whitespace().collect())
            .collect();
        // Per message, per byte, per packet.
        let ratio = format!("{:.2}", RATIOS[0].1);
        assert_eq!(rows.len(), 3, "{text}");
        // TCP without offloads was not measured with that load.
        assert_eq!(rows[0][1..4], ["5000", "-", "4000"], "{text}");
        assert_eq!(rows[1][1..4], ["50.00", "-", "40.00"]);
        assert_eq!(rows[2][1..4], ["2500", "-", "2000"]);
        assert!(rows.iter().all(|row| row[4] == ratio), "{rows:?}");
        let line = text.lines().find(|line| line.contains("the load bulk "));
        assert!(line.is_some_and(|line| line.contains(" - ")), "{text}");
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
