// SPDX-License-Identifier: GPL-2.0
//! What the demonstration's second part finds: the same messages with each transport.

use serde::{Deserialize, Serialize};

/// All of it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Messages {
    /// Rate of each link, bit/s on the wire.
    pub link_bit_s: u64,
    /// A token's way to the sender and its packet's way back.
    pub rtt_ms: f64,
    /// What a switch's port holds of data.
    pub buffer_bytes: u64,
    /// How many hosts there are.
    pub hosts: usize,
    /// Payload of all messages, as a part of the link in the middle.
    pub load_percent: f64,
    /// The transports.
    pub ways: Vec<Way>,
}

/// One transport.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Way {
    /// In a word.
    pub name: String,
    /// For people.
    pub title: String,
    /// What a user types: at each port of a switch, and at each host.
    pub commands: Vec<String>,
    /// By length; the last is of all messages.
    pub classes: Vec<Summary>,
    /// Data packets that ports dropped.
    pub data_drops: u64,
    /// Unscheduled packets that ports dropped.
    pub unscheduled_drops: u64,
    /// The longest that a data queue of a switch was.
    pub longest_queue_bytes: u64,
    /// Where that was.
    pub longest_queue_at: String,
    /// Length in bytes and completion in ms of each message.
    pub points: Vec<(u64, f64)>,
}

/// A class of messages by length. A slowdown is the completion time divided by that of the same
/// length on the idle network.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Summary {
    /// Which.
    pub class: String,
    /// How many there were.
    pub messages: usize,
    /// Those of them that did not arrive in time. No other figure includes them.
    pub missing: usize,
    /// Mean.
    pub slowdown_mean: f64,
    /// The median.
    pub slowdown_median: f64,
    /// The 99th percentile.
    pub slowdown_p99: f64,
    /// The greatest.
    pub slowdown_max: f64,
    /// Completion, us: mean.
    pub time_mean_us: f64,
    /// The median.
    pub time_median_us: f64,
    /// The 99th percentile.
    pub time_p99_us: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept;

    #[test]
    fn messages_of_an_earlier_run_are_read() {
        let messages: Messages = kept(
            r#"{"link_bit_s":5000000,"rtt_ms":40.0,"buffer_bytes":48000,"hosts":8,
            "load_percent":60.0,"ways":[{"name":"x","title":"stock: TCP","commands":["tc qdisc"],
            "classes":[{"class":"short","messages":3,"missing":0,"slowdown_mean":1.5,
              "slowdown_median":1.0,"slowdown_p99":9.5,"slowdown_max":9.5,"time_mean_us":50000.0,
              "time_median_us":1.0,"time_p99_us":90000.0}],
            "data_drops":7,"unscheduled_drops":2,"longest_queue_bytes":12500,
            "longest_queue_at":"s1 to s2","points":[[1450,40.5],[145000,800.0]]}]}"#,
        );
        assert_eq!(messages.ways[0].points[1], (145_000, 800.0));
    }
}
