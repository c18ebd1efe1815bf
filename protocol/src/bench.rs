// SPDX-License-Identifier: GPL-2.0
//! What a boot of the guest counts for `bench`: `figures.json`. `knet/bench/knet_bench.c` writes
//! the parts of it that are measured ([`Sums`], [`Ruler`]).

use serde::{Deserialize, Serialize};

/// The filter of a run that measures no more of messages than each run of the tests does.
pub const QUICK: &str = "quick";

/// All figures of one boot.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Boot {
    /// Release of the guest's kernel.
    pub kernel: String,
    /// What was measured as whose cost is known.
    pub ruler: Ruler,
    /// Names of all that was to be measured, whether it was or not.
    pub planned: Vec<String>,
    /// What was measured, in the order of the table.
    pub setups: Vec<SetUp>,
    /// What messages cost, transport by transport.
    #[serde(default)]
    pub messages: Vec<Messages>,
}

/// What one load costs with one transport: both ends, and the way between them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Messages {
    /// `turnstile`, `tcp`, `tcp-plain` (without offloads), `udp` or `udp-gso`.
    pub transport: String,
    /// Which load: what gates ask for.
    pub load: String,
    /// The load, for people.
    pub title: String,
    /// What the table shows.
    pub unit: Unit,
    /// Instructions, in all.
    pub instructions: u64,
    /// Messages that they were for.
    pub messages: u64,
    /// Bytes in those.
    pub bytes: u64,
    /// Packets on the wire, both ways: a super-packet counts as its segments.
    pub packets: u64,
}

/// What a load's instructions are divided by.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A message.
    Message,
    /// A byte of it.
    Byte,
}

impl Messages {
    /// What `--profile` asks for.
    pub fn name(&self) -> String {
        format!("{}/{}", self.transport, self.load)
    }

    /// Instructions for each message.
    pub fn per_message(&self) -> f64 {
        self.instructions as f64 / self.messages as f64
    }

    /// Instructions for each byte.
    pub fn per_byte(&self) -> f64 {
        self.instructions as f64 / self.bytes as f64
    }

    /// Instructions for each packet on the wire.
    pub fn per_packet(&self) -> f64 {
        self.instructions as f64 / self.packets as f64
    }

    /// Instructions for each of what the table shows.
    pub fn per_unit(&self) -> f64 {
        match self.unit {
            Unit::Message => self.per_message(),
            Unit::Byte => self.per_byte(),
        }
    }
}

/// What the guest tells of a row that was counted instruction by instruction: `profile.json`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Profiled {
    /// Release of the guest's kernel.
    pub kernel: String,
    /// The row, as its clock saw it.
    pub row: Messages,
    /// The kernel's functions and those of modules: lines of `/proc/kallsyms`.
    pub symbols: String,
}

/// Whether the guest's clock counts instructions. All in its units.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Ruler {
    /// 100 instructions.
    #[serde(rename = "nops-100")]
    pub nops_100: u64,
    /// 64 random numbers of the kernel.
    #[serde(rename = "random-64")]
    pub random_64: u64,
    /// A reading of the kernel's clock.
    pub ktime_get: u64,
    /// 10000 instructions and a reading of the clock, by the clock.
    #[serde(rename = "clock-10000")]
    pub clock_10000: u64,
}

/// One thing that was measured.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct SetUp {
    /// What gates ask for.
    pub name: String,
    /// The root qdisc's.
    pub kind: String,
    /// For people; empty where the kind says it all.
    pub title: String,
    /// For people: what was sent.
    pub packets: String,
    /// What to type for it.
    pub commands: Vec<String>,
    /// The root qdisc's own functions.
    pub direct: Sums,
    /// The whole transmit path.
    pub xmit: Sums,
    /// The same packets on a device without a queue.
    pub noqueue: Sums,
    /// What a port must not have done meanwhile.
    pub waits: Waits,
}

/// Instructions, summed over all packets. The least and the greatest of each are for people who
/// read the file: means are judged.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Sums {
    /// Kind of the root qdisc.
    pub qdisc: String,
    /// How many packets went in.
    pub packets: u64,
    /// Of enqueue, or of the whole path.
    #[serde(rename = "in")]
    pub enqueue: u64,
    /// Of dequeues that gave a packet.
    pub out: u64,
    /// Of those that gave none.
    pub empty: u64,
    /// Of one packet.
    pub in_min: u64,
    /// Of one packet.
    pub in_max: u64,
    /// Of one packet.
    pub out_min: u64,
    /// Of one packet.
    pub out_max: u64,
    /// Of one call.
    pub empty_min: u64,
    /// Of one call.
    pub empty_max: u64,
    /// How many packets came out, called directly: more than went in where they are split.
    pub out_calls: u64,
}

/// How often the port had to wait, or let a token expire: then a figure is not that of a packet
/// passing through. All 0 for other qdiscs.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Waits {
    /// For the link.
    pub link_waits: u64,
    /// For a token's release.
    pub token_waits: u64,
    /// Tokens dropped as too old.
    pub expired: u64,
}

/// Instructions for each packet on the wire, means over the bands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Costs {
    /// Of the qdisc's enqueue, called directly.
    pub enqueue: f64,
    /// Of its dequeue.
    pub dequeue: f64,
    /// Of its dequeue when there is nothing left, once for each enqueue.
    pub empty_dequeue: f64,
    /// The sum of the three.
    pub direct: f64,
    /// Of the whole transmit path.
    pub xmit: f64,
    /// Of the transmit path without any queue, with the same packets.
    pub noqueue: f64,
    /// The difference.
    pub xmit_minus_noqueue: f64,
}

impl Costs {
    /// Those that are measured, not worked out from others; with their names.
    pub fn measured(&self) -> [(&'static str, f64); 5] {
        [
            ("enqueue", self.enqueue),
            ("dequeue", self.dequeue),
            ("empty dequeue", self.empty_dequeue),
            ("transmit path", self.xmit),
            ("transmit path without queue", self.noqueue),
        ]
    }
}

impl Boot {
    /// Reads the guest's file.
    ///
    /// # Errors
    /// It holds something else, or a measurement of no packets or no messages.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let boot: Self = serde_json::from_slice(text)
            .map_err(|error| format!("the guest's figures cannot be read: {error}"))?;
        for set_up in &boot.setups {
            let parts = [&set_up.direct, &set_up.xmit, &set_up.noqueue];
            if parts.iter().any(|part| part.packets == 0) || set_up.direct.out_calls == 0 {
                return Err(format!("{} was measured with no packets", set_up.name));
            }
        }
        for row in &boot.messages {
            if row.messages == 0 || row.bytes == 0 || row.packets == 0 {
                return Err(format!("{} was measured with no messages", row.name()));
            }
        }
        Ok(boot)
    }

    /// What a load costs with a transport.
    pub fn row(&self, transport: &str, load: &str) -> Option<&Messages> {
        self.messages
            .iter()
            .find(|row| row.transport == transport && row.load == load)
    }

    /// What is measured under this name.
    pub fn set_up(&self, name: &str) -> Option<&SetUp> {
        self.setups.iter().find(|set_up| set_up.name == name)
    }
}

impl SetUp {
    /// Instructions for each packet on the wire.
    pub fn costs(&self) -> Costs {
        // Far below 2^53: exact.
        let wire = self.direct.out_calls as f64;
        // Segments of a packet that was split.
        let segments = wire / self.direct.packets as f64;
        let whole = |sums: &Sums| sums.enqueue as f64 / (sums.packets as f64 * segments);
        let [enqueue, dequeue, empty_dequeue] =
            [self.direct.enqueue, self.direct.out, self.direct.empty].map(|sum| sum as f64 / wire);
        let (xmit, noqueue) = (whole(&self.xmit), whole(&self.noqueue));
        Costs {
            enqueue,
            dequeue,
            empty_dequeue,
            direct: enqueue + dequeue + empty_dequeue,
            xmit,
            noqueue,
            xmit_minus_noqueue: xmit - noqueue,
        }
    }

    /// Kind and title in one.
    pub fn label(&self) -> String {
        if self.title.is_empty() {
            self.kind.clone()
        } else {
            format!("{}: {}", self.kind, self.title)
        }
    }

    /// Whether it is Turnstile's port.
    pub fn is_ours(&self) -> bool {
        self.kind == "turnstile"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept;

    const EARLIER: &str = r#"{"kernel":"7.2",
        "ruler":{"nops-100":100,"random-64":9,"ktime_get":48,"clock-10000":10048},"planned":["a"],
        "setups":[{"name":"a","kind":"turnstile","title":"t","packets":"p","commands":["tc x"],
        "direct":{"qdisc":"turnstile","packets":10,"in":1000,"out":8000,"empty":400,"in-min":1,
          "in-max":2,"out-min":3,
          "out-max":4,"empty-min":5,"empty-max":6,"out-calls":100},
        "xmit":{"qdisc":"turnstile","packets":20,"in":40000,"out":0,"empty":0,"in-min":1,
          "in-max":2,"out-min":3,
          "out-max":4,"empty-min":5,"empty-max":6,"out-calls":0},
        "noqueue":{"qdisc":"noqueue","packets":10,"in":4000,"out":0,"empty":0,"in-min":1,
          "in-max":2,"out-min":3,
          "out-max":4,"empty-min":5,"empty-max":6,"out-calls":0},
        "waits":{"link-waits":1,"token-waits":2,"expired":3}}],
        "messages":[{"transport":"tcp","load":"100B","title":"t","unit":"message",
          "instructions":4000,"messages":10,"bytes":1000,"packets":20}]}"#;

    #[test]
    fn costs_are_per_packet_on_the_wire() {
        let boot: Boot = kept(EARLIER);
        let costs = boot.set_up("a").expect("it is there").costs();
        // Ten super-packets of ten segments.
        assert_eq!(
            (costs.enqueue, costs.dequeue, costs.empty_dequeue),
            (10.0, 80.0, 4.0)
        );
        assert_eq!(
            (costs.direct, costs.xmit, costs.noqueue),
            (94.0, 200.0, 40.0)
        );
        assert_eq!(costs.xmit_minus_noqueue, 160.0);
        assert_eq!(boot.setups[0].waits.expired, 3);
        assert!(boot.set_up("b").is_none());
    }

    #[test]
    fn a_load_has_a_cost_per_message_byte_and_packet() {
        let boot: Boot = kept(EARLIER);
        let mut row = boot.row("tcp", "100B").expect("it is there").clone();
        assert_eq!(
            (row.per_message(), row.per_byte(), row.per_packet()),
            (400.0, 4.0, 200.0)
        );
        assert_eq!((row.name().as_str(), row.per_unit()), ("tcp/100B", 400.0));
        row.unit = Unit::Byte;
        assert_eq!(row.per_unit(), 4.0);
        assert!(boot.row("tcp", "10KB").is_none());
        assert!(boot.row("udp", "100B").is_none());
    }

    #[test]
    fn figures_of_nothing_are_refused() {
        assert!(Boot::read(EARLIER.as_bytes()).is_ok());
        let none = EARLIER.replace("\"out-calls\":100", "\"out-calls\":0");
        assert!(Boot::read(none.as_bytes()).is_err());
        let none = EARLIER.replace("\"packets\":20", "\"packets\":0");
        assert!(Boot::read(none.as_bytes()).is_err());
        for what in ["\"messages\":10", "\"bytes\":1000", "\"packets\":20}]"] {
            let none = what.replace("10", "0").replace("00", "").replace("20", "0");
            let none = EARLIER.replace(what, &none);
            assert!(Boot::read(none.as_bytes()).is_err(), "{what}");
        }
        assert!(Boot::read(b"{}").is_err());
    }

    #[test]
    fn the_modules_lines_are_read() {
        let line = r#"{"mode":"direct","qdisc":"prio","packets":8,"bracket":21,"in":800,"out":1600,
            "empty":2400,"in-min":90,"in-max":110,"out-min":190,"out-max":210,"empty-min":300,
            "empty-max":300,"out-calls":8}"#;
        let read: Sums = serde_json::from_str(line).expect("valid");
        assert_eq!(
            (read.qdisc.as_str(), read.enqueue, read.out_calls),
            ("prio", 800, 8)
        );
        let line = r#"{"mode":"ruler","bracket":21,"nops-100":100,"random-64":9000,"ktime_get":40,
            "clock-10000":10040}"#;
        let read: Ruler = serde_json::from_str(line).expect("valid");
        assert_eq!((read.nops_100, read.ktime_get), (100, 40));
    }
}
