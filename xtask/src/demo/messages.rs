// SPDX-License-Identifier: GPL-2.0
//! The demonstration's second part: what the guest measured of messages, and the tables of it.

use std::fmt::Write as _;

use turnstile_test_protocol::messages::{Messages, Way};

use super::tables::rate;
use crate::tables::aligned;

/// The tables.
pub(super) fn render(messages: &Messages) -> String {
    let mut text = format!(
        "Messages between {} hosts over two switches, links of {}, round trip {} ms, {} kB in \
             a port, {} % load; the same messages with each transport\n",
        messages.hosts,
        rate(messages.link_bit_s as f64),
        messages.rtt_ms,
        messages.buffer_bytes as f64 / 1e3,
        messages.load_percent
    );
    for way in &messages.ways {
        let _ = writeln!(text, "\n{}", way.title);
        for command in &way.commands {
            let _ = writeln!(text, "  $ {command}");
        }
        text.push_str(&aligned(&rows(way)));
        let _ = writeln!(
            text,
            "  * {} data packets dropped, {} unscheduled; longest data queue of a switch {:.1} kB",
            way.data_drops,
            way.unscheduled_drops,
            way.longest_queue_bytes as f64 / 1e3
        );
    }
    text
}

fn rows(way: &Way) -> Vec<Vec<String>> {
    let head = [
        "messages",
        "number",
        "not in time",
        "slowdown mean",
        "99 %",
        "time mean",
        "99 %",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(way.classes.iter().map(|class| {
        vec![
            class.class.clone(),
            class.messages.to_string(),
            class.missing.to_string(),
            format!("{:.2}", class.slowdown_mean),
            format!("{:.2}", class.slowdown_p99),
            format!("{:.0} ms", class.time_mean_us / 1e3),
            format!("{:.0} ms", class.time_p99_us / 1e3),
        ]
    }));
    rows
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two transports, two classes.
    pub(crate) fn example() -> Messages {
        let way = |title: &str, slow: f64| {
            format!(
                r#"{{"name":"x","title":"{title}","commands":["tc qdisc add"],"classes":[
                {{"class":"short","messages":3,"missing":0,"slowdown_mean":{slow},
                  "slowdown_median":1.0,"slowdown_p99":9.5,"slowdown_max":9.5,
                  "time_mean_us":50000.0,"time_median_us":1.0,"time_p99_us":90000.0}},
                {{"class":"all","messages":5,"missing":1,"slowdown_mean":2.0,
                  "slowdown_median":1.0,"slowdown_p99":4.0,"slowdown_max":9.5,
                  "time_mean_us":70000.0,"time_median_us":1.0,"time_p99_us":190000.0}}],
                "data_drops":7,"unscheduled_drops":2,"longest_queue_bytes":12500,
                "longest_queue_at":"s1 to s2",
                "points":[[1450,40.5],[2900,50.0],[145000,800.0]]}}"#
            )
        };
        let text = format!(
            r#"{{"link_bit_s":5000000,"rtt_ms":40.0,"buffer_bytes":48000,"hosts":8,
            "load_percent":60.0,"ways":[{},{}]}}"#,
            way("turnstile: messages", 1.25),
            way("stock: TCP", 6.5)
        );
        serde_json::from_str(&text).expect("the example is of the guest's form")
    }

    #[test]
    fn the_table_has_a_row_per_class() {
        let text = render(&example());
        assert!(
            text.contains("8 hosts") && text.contains("5 Mbit/s"),
            "{text}"
        );
        assert!(text.contains("$ tc qdisc add"));
        let short = text.lines().find(|line| line.contains("short")).unwrap();
        for cell in ["3", "1.25", "9.50", "50 ms", "90 ms"] {
            assert!(short.contains(cell), "{cell}: {short}");
        }
        assert!(text.contains("7 data packets dropped, 2 unscheduled"));
        assert!(text.contains("12.5 kB"));
    }
}
