// SPDX-License-Identifier: GPL-2.0
//! Counts what qdiscs cost: instructions per packet, Turnstile's port beside the stock ones.
//!
//! For a guest in which each instruction takes a nanosecond (`cargo xtask bench`); `knet_bench.ko`
//! does the counting. Each set-up is measured twice: enqueue, dequeue and an empty dequeue called
//! directly; and the whole transmit path, with the same packets on a device without a queue to be
//! taken off.

mod messages;
mod meter;
mod packets;
mod setups;
mod symbols;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use turnstile_test_protocol::bench::{Boot, Profiled, SetUp as Figures, Sums, Waits};

use crate::events::{Event, Events};
use crate::netns::Netns;
use crate::stats::{self, Counters};
use meter::{Meter, Mode, DEV};
use setups::{SetUp, ROOT};

/// Packets of one measurement: a multiple of what the meter measures at a time, and of any number
/// of bands.
const PACKETS: u32 = 4096;
/// Of super-packets, which cost as much as all of their segments.
const SUPER_PACKETS: u32 = 512;
/// What the boot still does in the background is over then.
const SETTLED: Duration = Duration::from_secs(5);
/// What is loaded before the first measurement. All else that there is to load comes with the first
/// `tc` command.
const MODULES: &[&str] = &[
    "sch_turnstile",
    "sch_prio",
    "sch_tbf",
    "sch_htb",
    "sch_ets",
    "sch_fq",
    "sch_fq_codel",
    "sch_cake",
    "cls_u32",
    "cls_flower",
];

/// Names of the rows of messages, of which [`profile`] takes one.
pub fn rows() -> Vec<String> {
    messages::names()
}

/// Runs one row of messages for whoever counts each instruction, and sends the host `profile.json`.
///
/// # Errors
/// There is no such row, or it cannot be measured.
pub fn profile(name: &str) -> Result<bool> {
    let events = Events::from_env();
    // It makes the random pool ready.
    Meter::load()?;
    std::thread::sleep(SETTLED);
    let profiled = Profiled {
        row: messages::profile(name)?,
        kernel: release()?,
        symbols: symbols::all()?,
    };
    events.send(&Event::File {
        name: "profile.json".into(),
        data: serde_json::to_string(&profiled).context("writing profile.json")?,
    });
    events.send(&Event::Done {
        passed: 1,
        failed: 0,
    });
    Ok(true)
}

fn release() -> Result<String> {
    let path = "/proc/sys/kernel/osrelease";
    let text = std::fs::read_to_string(path).context("the kernel's release")?;
    Ok(text.trim().into())
}

/// Measures all set-ups, and what messages cost, in a few rows if it has to be `quick`. Sends the
/// figures to the host as `figures.json`. Returns whether all could be measured.
///
/// # Errors
/// When nothing can be measured here.
pub fn run(quick: bool) -> Result<bool> {
    let events = Events::from_env();
    let all = setups::all();
    let mut bench = Bench::new()?;
    let mut report = Boot {
        kernel: release()?,
        ruler: bench.meter.ruler()?,
        planned: all.iter().map(|set_up| set_up.name.into()).collect(),
        setups: Vec::new(),
        messages: Vec::new(),
    };
    println!("bench: {:?}", report.ruler);
    let mut failed = 0;
    for set_up in &all {
        events.send(&Event::Start {
            case: set_up.name.into(),
        });
        let began = Instant::now();
        match bench.measure_least(set_up) {
            Ok(measured) => {
                println!("bench: {}: {:?}", set_up.name, measured.direct);
                report.setups.push(measured);
            }
            Err(error) => {
                failed += 1;
                println!("bench: {}: {error:#}", set_up.name);
                events.send(&Event::Fail {
                    case: set_up.name.into(),
                    ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                    why: format!("{error:#}"),
                });
            }
        }
    }
    // Last: what it loads stays loaded.
    match messages::run(quick) {
        Ok(messages) => report.messages = messages,
        Err(error) => {
            failed += 1;
            println!("bench: {error:#}");
            events.send(&Event::Fail {
                case: "messages".into(),
                ms: 0,
                why: format!("{error:#}"),
            });
        }
    }
    events.send(&Event::File {
        name: "figures.json".into(),
        data: serde_json::to_string(&report).context("writing figures.json")?,
    });
    events.send(&Event::Done {
        passed: report.setups.len(),
        failed,
    });
    Ok(failed == 0)
}

/// A device to measure on.
struct Bench {
    /// Its namespace, where nothing else sends.
    ns: Netns,
    meter: Meter,
    /// What the transmit path alone costs, by the packets sent.
    noqueue: BTreeMap<Vec<String>, Sums>,
}

impl Bench {
    fn new() -> Result<Self> {
        // First of all: it makes the random pool ready.
        let meter = Meter::load()?;
        for module in MODULES {
            crate::cmd::run_here(&format!("modprobe {module}"), "")?.success()?;
        }
        let ns = Netns::create("bench")?;
        // Neither neighbours nor routers are to be looked for while there is measuring.
        ns.sysctl("net/ipv6/conf/default/disable_ipv6", "1")?;
        crate::cmd::run_here(&format!("ip link set {DEV} netns bench"), "")?.success()?;
        ns.ip(&format!("link set {DEV} up arp off"))?;
        Ok(Self {
            ns,
            meter,
            noqueue: BTreeMap::new(),
        })
    }

    /// The cheapest of as many measurements as the set-up says.
    fn measure_least(&mut self, set_up: &SetUp) -> Result<Figures> {
        let mut least = self.measure(set_up)?;
        for _ in 1..set_up.times {
            let next = self.measure(set_up)?;
            if next.direct.enqueue < least.direct.enqueue {
                least = next;
            }
        }
        Ok(least)
    }

    fn measure(&mut self, set_up: &SetUp) -> Result<Figures> {
        self.meter.set_packets(&set_up.packets.lines)?;
        let noqueue = match self.noqueue.get(&set_up.packets.lines) {
            Some(known) => known.clone(),
            None => {
                let commands = [format!("qdisc add dev {DEV} {ROOT} noqueue")];
                let measured = self.with(&commands, |bench| {
                    bench.count(Mode::Xmit, set_up, "noqueue")
                })?;
                self.noqueue
                    .insert(set_up.packets.lines.clone(), measured.clone());
                measured
            }
        };
        self.with(&set_up.commands, |bench| {
            let direct = bench.count(Mode::Direct, set_up, set_up.kind)?;
            let xmit = bench.count(Mode::Xmit, set_up, set_up.kind)?;
            let classes = stats::classes(&bench.ns, DEV)?;
            spread_evenly(&set_up.classes, &classes)?;
            let waits = if set_up.kind == "turnstile" {
                let port = stats::qdisc(&bench.ns, DEV, "1:")?;
                Waits {
                    link_waits: port.get("link-waits"),
                    token_waits: port.get("token-waits"),
                    expired: classes.values().map(|class| class.get("expired")).sum(),
                }
            } else {
                Waits::default()
            };
            Ok(Figures {
                name: set_up.name.into(),
                kind: set_up.kind.into(),
                title: set_up.title.into(),
                packets: set_up.packets.what.into(),
                commands: set_up
                    .commands
                    .iter()
                    .map(|command| format!("tc {command}"))
                    .collect(),
                direct,
                xmit,
                noqueue,
                waits,
            })
        })
    }

    /// Does `work` between setting a qdisc up, with lines for `tc`, and deleting it.
    fn with<R>(&self, commands: &[String], work: impl FnOnce(&Self) -> Result<R>) -> Result<R> {
        self.ns
            .run_with("tc -batch -", &format!("{}\n", commands.join("\n")))
            .with_context(|| commands.join("; "))?;
        let result = work(self);
        let deleted = self.ns.tc(&format!("qdisc del dev {DEV} root"));
        let result = result?;
        deleted?;
        Ok(result)
    }

    /// Sends the set-up's packets through a root qdisc of this kind.
    fn count(&self, mode: Mode, set_up: &SetUp, kind: &str) -> Result<Sums> {
        let packets = if set_up.packets.are_super {
            SUPER_PACKETS
        } else {
            PACKETS
        };
        let measured = self.meter.measure(&self.ns, mode, packets)?;
        // What was asked for, not what a device has by default.
        ensure!(
            measured.qdisc == kind,
            "measured {}, not {kind}",
            measured.qdisc
        );
        Ok(measured)
    }
}

/// That all of these classes got the same number of packets, and that it is not 0: otherwise the
/// figure is not a mean over the bands. With no classes named there is nothing to look at.
fn spread_evenly(names: &[String], classes: &BTreeMap<String, Counters>) -> Result<()> {
    let sent: Vec<u64> = names
        .iter()
        .map(|name| {
            let class = classes.get(name);
            Ok(class.with_context(|| format!("no class {name}"))?.packets)
        })
        .collect::<Result<_>>()?;
    ensure!(
        sent.iter()
            .all(|packets| *packets > 0 && Some(packets) == sent.first()),
        "classes {} sent {sent:?} packets instead of the same number each",
        names.join(" ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(packets: &[(&str, u64)]) -> BTreeMap<String, Counters> {
        packets
            .iter()
            .map(|(name, packets)| {
                let counters = Counters {
                    packets: *packets,
                    ..Counters::default()
                };
                ((*name).to_owned(), counters)
            })
            .collect()
    }

    #[test]
    fn packets_in_the_wrong_band_are_noticed() {
        let names = ["1:1".to_owned(), "1:2".to_owned()];
        let check = |packets: &[(&str, u64)]| spread_evenly(&names, &classes(packets)).is_ok();
        assert!(check(&[("1:1", 7), ("1:2", 7), ("1:3", 0)]));
        assert!(!check(&[("1:1", 0), ("1:2", 0)]));
        assert!(!check(&[("1:1", 0), ("1:2", 14)]));
        assert!(!check(&[("1:1", 7)]));
        assert!(spread_evenly(&[], &classes(&[])).is_ok());
    }
}
