// SPDX-License-Identifier: GPL-2.0
//! The demonstration's second part: what the guest measured of messages, and the tables of it.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::demo::{aligned, rate};

/// All of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Messages {
    /// Rate of each link, bit/s on the wire.
    pub(crate) link_bit_s: f64,
    /// A token's way to the sender and its packet's way back.
    pub(crate) rtt_ms: f64,
    /// What a switch's port holds of data.
    pub(crate) buffer_bytes: u64,
    /// How many hosts there are.
    pub(crate) hosts: u64,
    /// Payload of all messages, as a part of the link in the middle.
    pub(crate) load_percent: f64,
    /// The transports.
    pub(crate) ways: Vec<Way>,
}

/// One transport.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Way {
    /// For people.
    pub(crate) title: String,
    /// What a user types: at each port of a switch, and at each host.
    pub(crate) commands: Vec<String>,
    /// By length; the last is of all messages.
    pub(crate) classes: Vec<Class>,
    /// Data packets that ports dropped.
    pub(crate) data_drops: u64,
    /// Unscheduled packets that ports dropped.
    pub(crate) unscheduled_drops: u64,
    /// The longest that a data queue of a switch was.
    pub(crate) longest_queue_bytes: u64,
    /// Bytes and ms of each message.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Messages of some lengths. A slowdown is the completion time divided by that of the same length
/// on the idle network.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Class {
    /// Which.
    pub(crate) class: String,
    /// How many.
    pub(crate) messages: u64,
    /// Those that did not arrive in time.
    pub(crate) missing: u64,
    /// Mean.
    pub(crate) slowdown_mean: f64,
    /// 99th percentile.
    pub(crate) slowdown_p99: f64,
    /// Mean.
    pub(crate) time_mean_us: f64,
    /// 99th percentile.
    pub(crate) time_p99_us: f64,
}

impl Messages {
    /// The tables.
    pub(crate) fn render(&self) -> String {
        let mut text = format!(
            "Messages between {} hosts over two switches, links of {}, round trip {} ms, {} kB in a port, {} % load; the same messages with each transport\n",
            self.hosts,
            rate(self.link_bit_s),
            self.rtt_ms,
            self.buffer_bytes as f64 / 1e3,
            self.load_percent
        );
        for way in &self.ways {
            let _ = writeln!(text, "\n{}", way.title);
            for command in &way.commands {
                let _ = writeln!(text, "  $ {command}");
            }
            text.push_str(&aligned(&way.rows()));
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
}

impl Way {
    fn rows(&self) -> Vec<Vec<String>> {
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
        rows.extend(self.classes.iter().map(|class| {
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
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two transports, two classes.
    pub(crate) fn example() -> Messages {
        let way = |title: &str, slow: f64| {
            format!(
                r#"{{"name":"x","title":"{title}","commands":["tc qdisc add"],"classes":[
                {{"class":"short","messages":3,"missing":0,"slowdown_mean":{slow},"slowdown_median":1.0,"slowdown_p99":9.5,"slowdown_max":9.5,
                  "time_mean_us":50000.0,"time_median_us":1.0,"time_p99_us":90000.0}},
                {{"class":"all","messages":5,"missing":1,"slowdown_mean":2.0,"slowdown_median":1.0,"slowdown_p99":4.0,"slowdown_max":9.5,
                  "time_mean_us":70000.0,"time_median_us":1.0,"time_p99_us":190000.0}}],
                "data_drops":7,"unscheduled_drops":2,"longest_queue_bytes":12500,"longest_queue_at":"s1 to s2",
                "points":[[1450,40.5],[2900,50.0],[145000,800.0]]}}"#
            )
        };
        let text = format!(
            r#"{{"link_bit_s":5000000,"rtt_ms":40.0,"buffer_bytes":48000,"hosts":8,"load_percent":60.0,"ways":[{},{}]}}"#,
            way("turnstile: messages", 1.25),
            way("stock: TCP", 6.5)
        );
        serde_json::from_str(&text).expect("the example is of the guest's form")
    }

    #[test]
    fn the_table_has_a_row_per_class() {
        let text = example().render();
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
