// SPDX-License-Identifier: GPL-2.0
//! The demonstration's figures as text, and what to see in them.

use std::fmt::Write as _;

use turnstile_test_protocol::demo::{is_token, Class, Demo, SetUp};

use crate::tables::aligned;

/// A class that gets less than this part of what it offers starves.
const STARVING: f64 = 0.05;
/// How far from its target, as a part of it, the token group's share may be to count as on it.
const ON_TARGET: f64 = 0.1;

/// The tables, and what to see in them.
pub(super) fn render(demo: &Demo) -> String {
    let mut text = format!(
        "Turnstile on the stock kernel {}: one port of {}, {} s of the same load on each set-up\n",
        demo.kernel,
        rate(demo.link()),
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
        received: classes.iter().map(|c| c.received).sum(),
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
                format!("{share:.2} % {:<9}", judge(demo, share))
            })
        }));
        rows.push(row);
    }
    if !demo.phases.is_empty() {
        text.push_str(&aligned(&rows));
    }
    for (n, set_up) in (1..).zip(&demo.setups) {
        let starving = match starving(set_up) {
            none if none.is_empty() => String::new(),
            some => format!("; next to nothing left of {}", some.join(", ")),
        };
        let _ = writeln!(text, "  {n}: {}{starving}", set_up.title);
    }
    text
}

/// What a share of the token group's is, in a word.
fn judge(demo: &Demo, share: f64) -> &'static str {
    let ratio = share / demo.token_share_percent;
    if share < 0.01 {
        "none"
    } else if ratio > 1.0 + ON_TARGET {
        "above"
    } else if ratio < 1.0 - ON_TARGET {
        "below"
    } else {
        "on target"
    }
}

/// The classes that got next to nothing of what they offered.
fn starving(set_up: &SetUp) -> Vec<&str> {
    set_up
        .classes
        .iter()
        .filter(|c| c.offered > 0 && (c.sent as f64) < STARVING * c.offered as f64)
        .map(|c| c.name.as_str())
        .collect()
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
pub(super) mod tests {
    use super::*;

    /// A demonstration of two set-ups: one on target, one with tokens at a sixth of it.
    pub(crate) fn example() -> Demo {
        serde_json::from_str(&example_json()).expect("the example is a demo.json")
    }

    fn example_json() -> String {
        let samples = |rate: f64| {
            (0..20)
                .map(|i| {
                    format!(
                        r#"{{"t":{},"rates":{{"signal":1e5,"token0":{},"token1":{},"data":5e6}}}}"#,
                        f64::from(i) * 0.2 + 0.1,
                        rate / 4.0,
                        rate * 3.0 / 4.0
                    )
                })
                .collect::<Vec<_>>()
                .join(",")
        };
        let set_up = |title: &str, rate: f64| {
            format!(
                r#"{{"name":"x","title":"{title}","commands":["tc qdisc add"],"notes":["a note"],
                "classes":[
                 {{"name":"signal","offered":10,"sent":10,"received":10,"drops":{{}},
                  "share_percent":0.5,"sojourn_mean_us":null,"sojourn_max_us":null}},
                 {{"name":"token0","offered":1000,"sent":900,"received":900,
                  "drops":{{"expired":40,"over-limit":60}},
                  "share_percent":1.3,"sojourn_mean_us":12.5,"sojourn_max_us":100.0}},
                 {{"name":"token1","offered":1000,"sent":20,"received":20,"drops":{{"expired":980}},
                  "share_percent":3.9,"sojourn_mean_us":2500.0,"sojourn_max_us":8000.0}},
                 {{"name":"data","offered":500,"sent":400,"received":400,
                  "drops":{{"over-limit":100}},
                  "share_percent":25.0,"sojourn_mean_us":1.0,"sojourn_max_us":2.0}}],
                "samples":[{}]}}"#,
                samples(rate)
            )
        };
        let target = 20e6 * 84.0 / 1622.0;
        format!(
            r#"{{"kernel":"7.2","link_bit_s":20000000,"duration_s":4.0,"token_share_percent":{},
            "phases":[{{"what":"first","from":0.0,"until":2.0}},
              {{"what":"second","from":2.0,"until":4.0}}],
            "setups":[{},{}]}}"#,
            84.0 / 16.22,
            set_up("turnstile: one shaper", target),
            set_up("stock: one limiter each", target / 6.0)
        )
    }

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

    #[test]
    fn the_groups_share_is_that_of_the_phases_inner_samples() {
        let mut demo = example();
        demo.setups[0].samples[0].rates.insert("token0".into(), 1e9);
        let share = demo.group_share(&demo.setups[0], &demo.phases[0]);
        assert!((share.unwrap() - 84.0 / 16.22).abs() < 1e-9);
        assert_eq!(judge(&demo, share.unwrap()), "on target");
        let low = demo.group_share(&demo.setups[1], &demo.phases[1]).unwrap();
        assert_eq!(judge(&demo, low), "below");
        assert_eq!(judge(&demo, 3.0 * 5.18), "above");
        assert_eq!(judge(&demo, 0.0), "none");
    }

    #[test]
    fn a_class_starves_that_gets_less_than_a_twentieth() {
        assert_eq!(starving(&example().setups[0]), ["token1"]);
    }
}
