// SPDX-License-Identifier: GPL-2.0
//! What several themes share: a bottleneck under load, and comparing measured with expected.

pub(in crate::cases) mod ledger;
pub(in crate::cases) mod load;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};

use crate::clock;
use crate::harness::Ctx;
use crate::netns::Netns;
pub(in crate::cases) use crate::scenario::TOKEN_SHARE;
use crate::stalls::StallMeter;
use crate::stats::{self, Counters};
use crate::tool::Tool;
use crate::topology::{Builder, Net};
use crate::traffic::{Flow, Packet, Received, Sent, Sink, Source};

/// The handle of every port in the tests.
pub(in crate::cases) const PORT: &str = "1:";

/// What the loads here can bear: on a link of 1 Mbit/s, tokens and data make up for 100 ms.
const STALL: Duration = Duration::from_millis(60);

/// Two senders and a receiver on a bridge; the bottleneck is the bridge's port to the receiver.
pub(in crate::cases) struct Bottleneck {
    pub(in crate::cases) net: Net,
}

/// What a load left in counters and at the receiver.
pub(in crate::cases) struct Outcome {
    /// The port's classes, all counters since the port was made.
    pub(in crate::cases) classes: BTreeMap<String, Counters>,
    /// What the receiver got, by stream.
    pub(in crate::cases) received: BTreeMap<u16, Received>,
    /// The sink's bin in which the load began.
    first_bin: u64,
    /// How many bins it lasted.
    bins: u64,
}

impl Bottleneck {
    pub(in crate::cases) fn new() -> Result<Self> {
        Ok(Self {
            net: Builder::bridged(3).build()?,
        })
    }

    /// The switch.
    pub(in crate::cases) fn switch(&self) -> &Netns {
        self.net.port_to(2).0
    }

    /// Its device to the receiver.
    pub(in crate::cases) fn dev(&self) -> String {
        self.net.port_to(2).1
    }

    /// A flow to the receiver.
    pub(in crate::cases) fn flow(&self, packet: Packet) -> Flow {
        Flow::new(packet.stream(), packet, self.net.hosts[2].v4)
    }

    /// Makes the port anew with these options.
    pub(in crate::cases) fn port(&self, tool: Tool, options: &str) -> Result<()> {
        let dev = self.dev();
        // There may be none yet.
        let _ = self
            .switch()
            .try_run(&format!("tc qdisc del dev {dev} root"))?;
        tool.port(self.switch(), "add", &dev, options)
    }

    /// Makes the port anew with these options, sends flows for `seconds`, and reads everything when
    /// the queues are empty. When the machine stood still meanwhile, which changes rates, it does
    /// so again.
    pub(in crate::cases) fn run(
        &self,
        ctx: &Ctx,
        tool: Tool,
        options: &str,
        flows: &[Flow],
        seconds: f64,
    ) -> Result<Outcome> {
        self.run_with(ctx, tool, options, flows, seconds, &|_, _| Ok(()))
    }

    /// The same, and does something to the port (switch, device) when the load has just begun.
    pub(in crate::cases) fn run_with(
        &self,
        ctx: &Ctx,
        tool: Tool,
        options: &str,
        flows: &[Flow],
        seconds: f64,
        meanwhile: &dyn Fn(&Netns, &str) -> Result<()>,
    ) -> Result<Outcome> {
        const ATTEMPTS: usize = 5;
        for attempt in 1.. {
            self.port(tool, options)?;
            let (stalled, outcome) = self.load(flows, seconds, meanwhile)?;
            if stalled < 0.01 || attempt == ATTEMPTS {
                return outcome;
            }
            ctx.note(format!(
                "the machine stood still for {:.1} % of the time; again",
                stalled * 100.0
            ));
        }
        anyhow::bail!("no attempt")
    }

    /// One attempt: the part of the time that the machine stood still, and what came of the load.
    fn load(
        &self,
        flows: &[Flow],
        seconds: f64,
        meanwhile: &dyn Fn(&Netns, &str) -> Result<()>,
    ) -> Result<(f64, Result<Outcome>)> {
        let sink = Sink::start(&self.net.hosts[2].ns)?;
        let bin = clock::nanos(Sink::BIN);
        let (wall, monotonic) = (clock::realtime(), clock::monotonic());
        // Starts where a bin starts.
        let begin = (wall + 20_000_000).next_multiple_of(bin);
        let start = monotonic + (begin - wall);
        let until = Duration::from_secs_f64(seconds);
        let intended = flows
            .iter()
            .map(|flow| (flow.stream, flow.intended(until)))
            .collect();
        // Full-size packets from one host, small ones from the other.
        let (large, small) = flows
            .iter()
            .map(|flow| Flow {
                until: flow.until.min(until),
                ..flow.clone()
            })
            .partition(|flow| flow.payload > 1000);
        let sources = [(0, large), (1, small)]
            .map(|(host, flows)| Source::start(&self.net.hosts[host].ns, flows, start));
        clock::sleep_until(start);
        let stalls = StallMeter::start(STALL);
        meanwhile(self.switch(), &self.dev())?;
        let mut enough = Ok(());
        for source in sources {
            enough = enough.and(offered_enough(&source.wait()?, &intended));
        }
        let stalled = stalls.finish().as_secs_f64() / seconds;
        self.settle()?;
        let outcome = Outcome {
            classes: self.classes()?,
            received: sink.finish()?,
            first_bin: begin / bin,
            bins: (until.as_millis() / Sink::BIN.as_millis()) as u64,
        };
        Ok((stalled, enough.map(|()| outcome)))
    }

    /// The port's classes.
    pub(in crate::cases) fn classes(&self) -> Result<BTreeMap<String, Counters>> {
        stats::classes(self.switch(), &self.dev())
    }

    /// Waits until so many packets have been offered to a class.
    pub(in crate::cases) fn wait_for(&self, class: &str, count: u64) -> Result<()> {
        for _ in 0..100 {
            if self
                .classes()?
                .get(class)
                .is_some_and(|class| class.get("offered-packets") >= count)
            {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        anyhow::bail!(
            "class {class} was never offered {count} packets: {:?}",
            self.classes()?.get(class)
        )
    }

    /// Waits until the port's queues are empty, and checks its sums.
    fn settle(&self) -> Result<()> {
        let (switch, dev) = (self.switch(), self.dev());
        for _ in 0..400 {
            if stats::qdisc(switch, &dev, PORT)?.qlen == 0 {
                // What has left may still be on its way through the receiver's stack.
                std::thread::sleep(Duration::from_millis(50));
                return stats::check_port(switch, &dev, PORT);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        anyhow::bail!(
            "{:?} still queued after 20 s",
            stats::qdisc(switch, &dev, PORT)?.qlen
        )
    }
}

impl Outcome {
    /// A class by its id.
    pub(in crate::cases) fn class(&self, id: &str) -> Result<&Counters> {
        self.classes
            .get(id)
            .with_context(|| format!("no class {id}"))
    }

    /// Of what was offered to a class, the part that it sent.
    pub(in crate::cases) fn sent_part(&self, id: &str) -> Result<f64> {
        let class = self.class(id)?;
        let offered = class.get("offered-packets");
        ensure!(offered > 0, "nothing was offered to class {id}");
        Ok(class.packets as f64 / offered as f64)
    }

    /// The rate at which a kind arrived, bit/s on the wire, from 300 ms after the load's start
    /// until its end.
    pub(in crate::cases) fn steady_rate(&self, packet: Packet) -> f64 {
        const SETTLING: u64 = 3;
        let steady = self.first_bin + SETTLING..self.first_bin + self.bins;
        let seconds = (self.bins - SETTLING) as f64 * Sink::BIN.as_secs_f64();
        let stream = self.received.get(&packet.stream());
        let bytes: u64 = stream.map_or(0, |stream| {
            stream.bins.range(steady).map(|(_, bytes)| bytes).sum()
        });
        bytes as f64 * 8.0 / seconds
    }
}

/// That the senders came by what they were to offer, by stream: otherwise nothing is shown.
fn offered_enough(sent: &[Sent], intended: &BTreeMap<u16, u64>) -> Result<()> {
    for flow in sent {
        let intended = intended.get(&flow.stream).copied().unwrap_or(0);
        ensure!(
            flow.packets * 10 >= intended * 8,
            "this machine is too slow: {} of {intended} packets of stream {} were sent",
            flow.packets,
            flow.stream
        );
    }
    Ok(())
}

/// That `value` lies in `low..=high`.
///
/// # Errors
/// Naming it, when it does not.
pub(in crate::cases) fn within(what: &str, value: f64, low: f64, high: f64) -> Result<()> {
    ensure!(
        (low..=high).contains(&value),
        "{what}: {value:.4} is not in {low:.4}..{high:.4}"
    );
    Ok(())
}

/// Collects what is wrong with a table's rows, so that one run shows all of it.
#[derive(Default)]
pub(in crate::cases) struct Verdicts {
    pub(in crate::cases) rows: usize,
    wrong: Vec<String>,
}

impl Verdicts {
    pub(in crate::cases) fn row(&mut self, name: &str, verdict: Result<()>) {
        self.rows += 1;
        if let Err(error) = verdict {
            self.wrong.push(format!("{name}: {error:#}"));
        }
    }

    pub(in crate::cases) fn finish(self) -> Result<()> {
        if self.wrong.is_empty() {
            return Ok(());
        }
        bail!(
            "{} of {} rows:\n{}",
            self.wrong.len(),
            self.rows,
            self.wrong.join("\n")
        )
    }
}
