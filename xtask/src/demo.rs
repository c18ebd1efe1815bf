// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask demo`: has the guest measure Turnstile beside two stock set-ups, and shows what
//! came out.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use crate::bed::Bed;
use crate::demo_data::{is_token, Class, Demo, SetUp};
use crate::env::{checkout, Env};
use crate::follow;
use crate::guest::Limits;
use crate::image::RunConfig;
use crate::plot;
use crate::plot_messages;
use crate::report::Report;
use crate::session::Session;

/// The longest a demonstration may take.
const LIMITS: Limits = Limits {
    overall: Duration::from_secs(10 * 60),
    silence: Duration::from_secs(2 * 60),
};

/// What the user asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Measure nothing: show the figures of an earlier run again, from its demo.json
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

/// Runs the demonstration; `false` if the guest was not well.
///
/// # Errors
/// What is needed cannot be had or compiled, or the guest sent nothing to show.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if let Some(file) = &options.from {
        let out = checkout().join("out");
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        print!("{}", show(file, &out)?);
        return Ok(true);
    }
    let began = Instant::now();
    let env = Env::open()?;
    let lock = env.lock()?;
    let (session, built) = Session::prepare_and_build(&env, Bed::Vm)?;
    drop(lock);
    let ready = began.elapsed();
    let out = env.src.join("out");
    let json = out.join("demo.json");
    if json.exists() {
        // A failed run must not show the figures of an earlier one.
        fs::remove_file(&json).with_context(|| format!("cannot remove {}", json.display()))?;
    }
    let config = RunConfig {
        mode: "demo".into(),
        seed: 1,
        timeout_scale: 1.0,
        ..RunConfig::default()
    };
    let report = Report::new(env.ui.clone());
    session.boot(&env, &built, &config, |guest| {
        follow::run(&env, guest, "demo", LIMITS, &out, &report)
    })?;
    if !json.exists() {
        bail!("the guest sent no demo.json");
    }
    env.ui.result(show(&json, &out)?);
    let (total, ready) = (began.elapsed().as_secs_f64(), ready.as_secs_f64());
    env.ui.result(format!(
        "demo took {total:.0} s: {ready:.0} s to set up and build, {:.0} s in the guest",
        total - ready
    ));
    Ok(report.totals().1 == 0)
}

/// Writes the tables and the pictures of a demo.json into the folder `out`; returns the tables.
fn show(json: &Path, out: &Path) -> Result<String> {
    let text = fs::read(json).with_context(|| format!("cannot read {}", json.display()))?;
    let demo = Demo::read(&text)
        .with_context(|| format!("{} holds no figures of a demo", json.display()))?;
    if demo.setups.is_empty() {
        bail!("{} holds no set-up", json.display());
    }
    let mut text = render(&demo);
    let mut pictures = vec![("demo.svg", plot::draw(&demo)?)];
    if let Some(messages) = &demo.messages {
        text.push('\n');
        text.push_str(&messages.render());
        pictures.push(("demo-messages.svg", plot_messages::draw(messages)?));
    }
    let files = pictures.iter().map(|(name, data)| (*name, data));
    for (name, data) in files.chain([("demo.txt", &text)]) {
        let path = out.join(name);
        fs::write(&path, data).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let _ = writeln!(
        text,
        "\nin {}: {} (the pictures), demo.txt, demo.json",
        out.display(),
        pictures
            .iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok(text)
}

/// The tables, and what to see in them.
fn render(demo: &Demo) -> String {
    let mut text = format!(
        "Turnstile on the stock kernel {}: one port of {}, {} s of the same load on each set-up\n",
        demo.kernel,
        rate(demo.link_bit_s),
        demo.duration_s
    );
    for set_up in &demo.setups {
        text.push('\n');
        text.push_str(&table(set_up));
    }
    text.push('\n');
    text.push_str(&comparison(demo));
    text
}

fn table(set_up: &SetUp) -> String {
    let mut causes: Vec<&str> = set_up
        .classes
        .iter()
        .flat_map(|c| c.drops.keys())
        .map(String::as_str)
        .collect();
    causes.sort_unstable();
    causes.dedup();
    let head: Vec<String> = ["class", "offered", "sent"]
        .into_iter()
        .chain(causes.iter().copied())
        .chain(["share of link", "sojourn mean", "maximum"])
        .map(str::to_owned)
        .collect();
    let row = |class: &Class| -> Vec<String> {
        let mut cells = vec![
            class.name.clone(),
            class.offered.to_string(),
            class.sent.to_string(),
        ];
        cells.extend(
            causes
                .iter()
                .map(|c| class.drops.get(*c).copied().unwrap_or(0).to_string()),
        );
        cells.push(format!("{:.2} %", class.share_percent));
        cells.push(class.sojourn_mean_us.map_or("-".into(), micros));
        cells.push(class.sojourn_max_us.map_or("-".into(), micros));
        cells
    };
    let mut rows = vec![head];
    rows.extend(set_up.classes.iter().map(row));
    let tokens: Vec<&Class> = set_up
        .classes
        .iter()
        .filter(|c| is_token(&c.name))
        .collect();
    rows.push(row(&sum("all tokens", &tokens)));
    let mut text = format!("{}\n", set_up.title);
    match set_up.commands.as_slice() {
        [command] => text.push_str(&format!("  $ {command}\n")),
        commands => text.push_str(&format!("  {} commands, see demo.json\n", commands.len())),
    }
    text.push_str(&aligned(&rows));
    for note in &set_up.notes {
        let _ = writeln!(text, "  * {note}");
    }
    text
}

/// The classes as one; how long packets of all of them waited is not known.
fn sum(name: &str, classes: &[&Class]) -> Class {
    let mut drops = std::collections::BTreeMap::new();
    for (cause, number) in classes.iter().flat_map(|c| &c.drops) {
        *drops.entry(cause.clone()).or_insert(0) += number;
    }
    Class {
        name: name.into(),
        offered: classes.iter().map(|c| c.offered).sum(),
        sent: classes.iter().map(|c| c.sent).sum(),
        drops,
        share_percent: classes.iter().map(|c| c.share_percent).sum(),
        sojourn_mean_us: None,
        sojourn_max_us: None,
    }
}

fn comparison(demo: &Demo) -> String {
    let mut text = format!(
        "What to see: the token group's share of the link; its target is {:.2} %\n",
        demo.token_share_percent
    );
    let mut head = vec!["while".to_owned()];
    head.extend((1..=demo.setups.len()).map(|n| format!("set-up {n}")));
    let mut rows = vec![head];
    for phase in &demo.phases {
        let mut row = vec![format!(
            "{} ({} to {} s)",
            phase.what, phase.from, phase.until
        )];
        row.extend(demo.setups.iter().map(|set_up| {
            demo.group_share(set_up, phase).map_or("-".into(), |share| {
                format!("{share:.2} % {:<9}", demo.judge(share))
            })
        }));
        rows.push(row);
    }
    if !demo.phases.is_empty() {
        text.push_str(&aligned(&rows));
    }
    for (n, set_up) in (1..).zip(&demo.setups) {
        let starving = match set_up.starving() {
            none if none.is_empty() => String::new(),
            some => format!("; next to nothing left of {}", some.join(", ")),
        };
        let _ = writeln!(text, "  {n}: {}{starving}", set_up.title);
    }
    text
}

/// Columns: the first to the left, the others to the right, indented by two.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::from("  ");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column == 0 {
                write!(line, "{cell:<width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A rate in the unit that keeps it short.
pub(crate) fn rate(bit_s: f64) -> String {
    let (scaled, unit) = match bit_s {
        r if r >= 1e9 => (r / 1e9, "Gbit/s"),
        r if r >= 1e6 => (r / 1e6, "Mbit/s"),
        r => (r / 1e3, "kbit/s"),
    };
    let text = format!("{scaled:.2}");
    format!(
        "{} {unit}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}

/// A time in the unit that keeps it short.
fn micros(us: f64) -> String {
    if us >= 10_000.0 {
        format!("{:.1} ms", us / 1000.0)
    } else {
        format!("{us:.0} us")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo_data::tests::example;

    #[test]
    fn the_table_has_a_row_per_class_and_a_column_per_cause() {
        let text = table(&example().setups[0]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "  $ tc qdisc add");
        let lines = &lines[1..];
        for word in [
            "offered",
            "sent",
            "expired",
            "over-limit",
            "share of link",
            "maximum",
        ] {
            assert!(lines[1].contains(word), "{word}: {}", lines[1]);
        }
        assert!(lines[2].trim_start().starts_with("signal") && lines[2].ends_with('-'));
        assert!(lines[3].contains(" 40 ") && lines[3].contains(" 60 "));
        let all = lines.iter().find(|l| l.contains("all tokens")).unwrap();
        assert!(
            all.contains("2000") && all.contains("920") && all.contains("1020"),
            "{all}"
        );
        assert!(text.contains("* a note"));
    }

    #[test]
    fn the_comparison_tells_the_set_ups_apart() {
        let text = comparison(&example());
        assert!(text.contains("target is 5.18 %"), "{text}");
        assert!(
            text.contains("5.18 % on target") && text.contains("0.86 % below"),
            "{text}"
        );
        assert!(text.contains("next to nothing left of token1"), "{text}");
    }

    #[test]
    fn rates_and_times_are_short() {
        assert_eq!(rate(20e6), "20 Mbit/s");
        assert_eq!(rate(1.0357e6), "1.04 Mbit/s");
        assert_eq!(rate(100e9), "100 Gbit/s");
        assert_eq!(micros(12.4), "12 us");
        assert_eq!(micros(12_345.0), "12.3 ms");
    }
}
