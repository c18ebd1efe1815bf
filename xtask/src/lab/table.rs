// SPDX-License-Identifier: GPL-2.0
//! An experiment's findings as text.

use std::fmt::Write as _;

use serde_json::Value;

use turnstile_test_protocol::lab::{Findings, Table};

use crate::tables;

/// All of it.
pub(crate) fn render(findings: &Findings) -> String {
    let mut text = format!(
        "{}: {}\n\ncompared with: {}\nkernel {}, seed {}\n",
        findings.name, findings.title, findings.source, findings.kernel, findings.seed
    );
    for table in &findings.tables {
        let _ = write!(text, "\n{}\n{}", table.title, grid(table));
    }
    let lists = [
        (
            "what is claimed",
            findings
                .claims
                .iter()
                .map(|claim| {
                    format!(
                        "{:<5} {}",
                        if claim.holds { "holds" } else { "NOT" },
                        claim.text
                    )
                })
                .collect(),
        ),
        ("to know", findings.notes.clone()),
        (
            "set-ups (tc; DEV is the port)",
            findings
                .setups
                .iter()
                .flat_map(|set_up| {
                    let lines = set_up.lines.iter().map(|line| format!("    {line}"));
                    std::iter::once(set_up.title.clone()).chain(lines)
                })
                .collect(),
        ),
        ("captures", findings.captures.clone()),
    ];
    for (head, lines) in lists {
        if !lines.is_empty() {
            let _ = write!(text, "\n{head}\n  {}\n", lines.join("\n  "));
        }
    }
    text
}

/// A table, numbers to the right. Numbers of a column have as many decimals as the longest of them.
fn grid(table: &Table) -> String {
    let columns = table.columns.len();
    let decimals: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = table.rows.iter().filter_map(|row| row.get(column));
            cells.map(decimals).max().unwrap_or(0)
        })
        .collect();
    let rows: Vec<Vec<String>> = table
        .rows
        .iter()
        .map(|row| {
            row.iter()
                .zip(&decimals)
                .map(|(cell, d)| shown(cell, *d))
                .collect()
        })
        .collect();
    let words: Vec<bool> = (0..columns)
        .map(|column| {
            table
                .rows
                .iter()
                .any(|row| row.get(column).is_some_and(Value::is_string))
        })
        .collect();
    let head = table.columns.iter().map(|head| head.trim().to_owned());
    let all: Vec<_> = std::iter::once(head.collect()).chain(rows).collect();
    tables::grid(&all, &words)
}

/// How many decimals a number was written with.
fn decimals(cell: &Value) -> usize {
    match cell {
        Value::Number(number) if number.is_f64() => {
            let text = number.to_string();
            match text.split_once('.') {
                Some((_, "0")) | None => 0,
                Some((_, decimals)) => decimals.len(),
            }
        }
        _ => 0,
    }
}

fn shown(cell: &Value, decimals: usize) -> String {
    match cell {
        Value::String(word) => word.clone(),
        Value::Number(number) => number
            .as_f64()
            .map_or_else(|| number.to_string(), |n| format!("{n:.decimals$}")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::example;
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_alike() {
        let text = grid(&example().tables[0]);
        assert_eq!(
            text,
            "  port     gap, ns   paper\n  one       1297.6  1297.6\n  another     80.0  1297.6\n"
        );
    }

    #[test]
    fn everything_is_told() {
        let text = render(&example());
        for part in [
            "x: what it is",
            "compared with: a paper",
            "holds good",
            "NOT   bad",
            "to know\n  to know",
            "    qdisc add dev DEV root pfifo",
            "x-one.pcap",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
