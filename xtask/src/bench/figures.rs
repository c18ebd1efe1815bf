// SPDX-License-Identifier: GPL-2.0
//! What a boot of the guest measured, as it sends it in `figures.json`, and what follows from it.

use anyhow::{ensure, Context, Result};
use serde::{Deserialize, Serialize};

/// All figures of one boot.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Boot {
    /// Release of the guest's kernel.
    pub(super) kernel: String,
    /// What was measured as whose cost is known.
    pub(super) ruler: Ruler,
    /// Names of all that was to be measured.
    pub(super) planned: Vec<String>,
    /// What was measured, in the order of the table.
    pub(super) setups: Vec<SetUp>,
}

/// Whether the guest's clock counts instructions. All in its units.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Ruler {
    /// 100 instructions.
    #[serde(rename = "nops-100")]
    pub(super) nops_100: u64,
    /// 64 random numbers of the kernel.
    #[serde(rename = "random-64")]
    pub(super) random_64: u64,
    /// A reading of the kernel's clock.
    #[serde(rename = "ktime_get")]
    pub(super) ktime_get: u64,
    /// 10000 instructions and a reading of the clock, by the clock.
    #[serde(rename = "clock-10000")]
    pub(super) clock_10000: u64,
}

/// One thing that was measured.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct SetUp {
    /// What gates ask for.
    pub(super) name: String,
    /// The root qdisc's.
    pub(super) kind: String,
    /// For people; empty where the kind says it all.
    pub(super) title: String,
    /// For people: what was sent.
    pub(super) packets: String,
    /// What to type for it.
    pub(super) commands: Vec<String>,
    direct: Sums,
    xmit: Sums,
    noqueue: Sums,
    /// What a port must not have done meanwhile.
    pub(super) waits: Waits,
}

/// Instructions over all packets.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sums {
    packets: u64,
    #[serde(rename = "in")]
    enqueue: u64,
    out: u64,
    empty: u64,
    out_calls: u64,
}

/// How often packets did not just pass through.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Waits {
    /// For the link.
    pub(super) link_waits: u64,
    /// For a token's release.
    pub(super) token_waits: u64,
    /// Tokens dropped as too old.
    pub(super) expired: u64,
}

/// Instructions for each packet on the wire, means over the bands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Costs {
    /// Of the qdisc's enqueue, called directly.
    pub(super) enqueue: f64,
    /// Of its dequeue.
    pub(super) dequeue: f64,
    /// Of its dequeue when there is nothing left, once for each enqueue.
    pub(super) empty_dequeue: f64,
    /// The sum of the three.
    pub(super) direct: f64,
    /// Of the whole transmit path.
    pub(super) xmit: f64,
    /// Of the transmit path without any queue, with the same packets.
    pub(super) noqueue: f64,
    /// The difference.
    pub(super) xmit_minus_noqueue: f64,
}

impl Costs {
    /// Those that are measured, not worked out from others; with their names.
    pub(super) fn measured(&self) -> [(&'static str, f64); 5] {
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
    /// It holds something else, or a measurement of no packets.
    pub(super) fn read(text: &[u8]) -> Result<Self> {
        let boot: Self =
            serde_json::from_slice(text).context("the guest's figures cannot be read")?;
        for set_up in &boot.setups {
            let parts = [&set_up.direct, &set_up.xmit, &set_up.noqueue];
            ensure!(
                parts.iter().all(|part| part.packets > 0) && set_up.direct.out_calls > 0,
                "{} was measured with no packets",
                set_up.name
            );
        }
        Ok(boot)
    }

    /// What is measured under this name.
    pub(super) fn set_up(&self, name: &str) -> Option<&SetUp> {
        self.setups.iter().find(|set_up| set_up.name == name)
    }
}

impl SetUp {
    /// Instructions for each packet on the wire.
    pub(super) fn costs(&self) -> Costs {
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
    pub(super) fn label(&self) -> String {
        if self.title.is_empty() {
            self.kind.clone()
        } else {
            format!("{}: {}", self.kind, self.title)
        }
    }

    /// Whether it is Turnstile's port.
    pub(super) fn is_ours(&self) -> bool {
        self.kind == "turnstile"
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Packets of each measurement in the examples.
    const PACKETS: u64 = 8000;

    /// A set-up with these costs in whole instructions: enqueue, dequeue, empty dequeue, transmit
    /// path.
    fn set_up(name: &str, kind: &str, title: &str, costs: [u64; 4]) -> SetUp {
        let sums = |enqueue: u64, out: u64, empty: u64, out_calls: u64| Sums {
            packets: PACKETS,
            enqueue: enqueue * PACKETS,
            out: out * PACKETS,
            empty: empty * PACKETS,
            out_calls,
        };
        let [enqueue, dequeue, empty, xmit] = costs;
        SetUp {
            name: name.into(),
            kind: kind.into(),
            title: title.into(),
            packets: "8 bands".into(),
            commands: vec![format!("tc qdisc add dev bench0 root {kind}")],
            direct: sums(enqueue, dequeue, empty, PACKETS),
            xmit: sums(xmit, 0, 0, 0),
            noqueue: sums(300, 0, 0, 0),
            waits: Waits::default(),
        }
    }

    /// A boot that passes all gates.
    pub(in crate::bench) fn example() -> Boot {
        let setups = vec![
            set_up(
                "turnstile/class-id",
                "turnstile",
                "8 bands, class id",
                [110, 60, 40, 800],
            ),
            set_up(
                "turnstile/header",
                "turnstile",
                "8 bands, header",
                [170, 60, 40, 800],
            ),
            set_up(
                "turnstile/shaped",
                "turnstile",
                "8 bands, shaped link",
                [110, 110, 40, 900],
            ),
            set_up(
                "turnstile/shaped-data",
                "turnstile",
                "data, shaped link",
                [110, 110, 40, 900],
            ),
            set_up("pfifo", "pfifo", "", [40, 50, 10, 450]),
            set_up("prio", "prio", "8 bands, class id", [120, 200, 120, 800]),
            set_up("tbf+prio", "tbf", "prio child", [200, 300, 180, 1100]),
        ];
        Boot {
            kernel: "7.2.12+deb13-amd64".into(),
            ruler: Ruler {
                nops_100: 100,
                random_64: 9000,
                ktime_get: 48,
                clock_10000: 10_048,
            },
            planned: setups.iter().map(|s| s.name.clone()).collect(),
            setups,
        }
    }

    impl Boot {
        /// Changes what one set-up's dequeue costs, by a number of instructions.
        pub(in crate::bench) fn plant_in_dequeue(&mut self, name: &str, instructions: f64) {
            let set_up = self.setups.iter_mut().find(|s| s.name == name).unwrap();
            let sum = set_up.direct.out as f64 + instructions * PACKETS as f64;
            set_up.direct.out = sum as u64;
        }

        /// Changes what one set-up's enqueue costs, by a number of instructions.
        pub(in crate::bench) fn plant(&mut self, name: &str, instructions: f64) {
            let set_up = self.setups.iter_mut().find(|s| s.name == name).unwrap();
            let sum = set_up.direct.enqueue as f64 + instructions * PACKETS as f64;
            set_up.direct.enqueue = sum as u64;
        }
    }

    const TEXT: &str = r#"{"kernel":"7.2","ruler":{"nops-100":100,"random-64":9,"ktime_get":48,"clock-10000":10048},
        "planned":["a"],"setups":[{"name":"a","kind":"turnstile","title":"t","packets":"p","commands":["tc x"],
        "direct":{"qdisc":"turnstile","packets":10,"in":1000,"out":8000,"empty":400,"in-min":1,"out-calls":100},
        "xmit":{"packets":20,"in":40000,"out":0,"empty":0,"out-calls":0},
        "noqueue":{"packets":10,"in":4000,"out":0,"empty":0,"out-calls":0},
        "waits":{"link-waits":1,"token-waits":2,"expired":3}}]}"#;

    #[test]
    fn costs_are_per_packet_on_the_wire() {
        let boot = Boot::read(TEXT.as_bytes()).unwrap();
        let costs = boot.set_up("a").unwrap().costs();
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
    fn figures_of_nothing_are_refused() {
        let none = TEXT.replace("\"out-calls\":100", "\"out-calls\":0");
        assert!(Boot::read(none.as_bytes()).is_err());
        let none = TEXT.replace("\"packets\":20", "\"packets\":0");
        assert!(Boot::read(none.as_bytes()).is_err());
        assert!(Boot::read(b"{}").is_err());
    }
}
