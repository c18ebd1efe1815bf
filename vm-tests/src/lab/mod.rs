// SPDX-License-Identifier: GPL-2.0
//! Experiments: a paper's figure or table with the real kernel code, next to what stock qdiscs or
//! TCP do in the same run.
//!
//! An experiment is a function that builds its network ([`crate::topology::Plan`]), configures the
//! port in several ways (`setups`), sends a load ([`crate::traffic`]) and puts what it recorded
//! ([`crate::recorder`]) into the [`Findings`]. It runs on the virtual bed, where time is exact and
//! every run gives the same bytes. `docs/lab.md` shows how to add one.

mod convergence;
mod fairness;
mod hull;
mod hull_dynamic;
mod hull_load;
mod hull_static;
mod incast;
mod incast_transport;
mod loads;
mod parking_lot;
mod pfc_spread;
mod priority;
mod ren_burst;
mod report;
mod setups;
mod share;
mod tcd;
mod tcd_fairness;
mod tcd_states;
mod tcd_victim;
mod tcd_workloads;
mod token_priority;
mod token_queue;
mod token_spacing;
mod two_way;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_core::header;
use turnstile_test_protocol::lab::{Claim, Findings};

use crate::clock;
use crate::events::{Event, Events};
use crate::handout::HandOut;
use crate::harness::{isolate, kmsg};
use crate::pcap::{self, Captured};
use crate::recorder::Recorder;
use crate::rng::Rng;
use crate::scenario::LEAD;
use crate::topology::Fabric;
use crate::traffic::{Flow, Source};
use setups::SetUp;

/// One experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// A title.
    pub title: &'static str,
    /// The source of the figures that it is compared with.
    pub source: &'static str,
    run: fn(&mut Lab) -> Result<()>,
}

/// All experiments. To add one: a file with a `pub(super) const EXPERIMENT`, its `mod` line, and
/// its name here.
pub const EXPERIMENTS: &[Experiment] = &[
    token_spacing::EXPERIMENT,
    token_priority::EXPERIMENT,
    token_queue::EXPERIMENT,
    share::EXPERIMENT,
    incast::EXPERIMENT,
    incast_transport::EXPERIMENT,
    convergence::EXPERIMENT,
    fairness::EXPERIMENT,
    parking_lot::EXPERIMENT,
    priority::EXPERIMENT,
    loads::EXPERIMENT,
    loads::BY_SOCKETS,
    loads::OF_WEB_SEARCH,
    loads::OF_DATA_MINING,
    loads::OF_HADOOP,
    loads::OF_CACHE_FOLLOWERS,
    two_way::EXPERIMENT,
    two_way::LONG,
    hull_static::EXPERIMENT,
    hull_dynamic::EXPERIMENT,
    ren_burst::EXPERIMENT,
    pfc_spread::EXPERIMENT,
    tcd_states::EXPERIMENT,
    tcd_victim::EXPERIMENT,
    tcd_fairness::EXPERIMENT,
    tcd_fairness::TIMELY,
    tcd_workloads::EXPERIMENT,
];

/// The argument of an experiment: its inputs, and the report for its results.
#[derive(Debug)]
pub struct Lab {
    report: Findings,
    rng: Rng,
    events: Events,
    out: HandOut,
}

/// What a load left at a recorded switch: captures and times.
struct Outcome {
    captured: Captured,
    /// Wall clock at the load's start, ns.
    began: u64,
}

impl Lab {
    /// Shows progress on the terminal.
    fn progress(&self, text: &str) {
        println!("lab: {text}");
        self.events.send(&Event::Progress { text: text.into() });
    }

    /// Adds a claim to the report, and whether it holds.
    fn claim(&mut self, text: impl Into<String>, holds: bool) {
        let text = text.into();
        self.report.claims.push(Claim { text, holds });
    }

    /// Hands out a capture as `EXPERIMENT-PART.pcap`.
    fn capture(&mut self, part: &str, captured: &Captured) -> Result<()> {
        let name = format!("{}-{part}.pcap", self.report.name);
        if self.out.file(&name, &pcap::file(&captured.packets))? {
            self.report.captures.push(name);
        }
        Ok(())
    }

    /// Configures the switch's port, applies a load (flows by sending host) to host `to` for
    /// `duration`, and waits until what is queued has arrived.
    fn load(
        &self,
        fabric: &Fabric,
        (switch, dev): (&str, &str),
        set_up: &SetUp,
        to: usize,
        flows: Vec<(usize, Vec<Flow>)>,
        duration: Duration,
    ) -> Result<Outcome> {
        /// Time for queued packets to arrive after the load.
        const DRAIN: Duration = Duration::from_millis(2);
        fabric.requeue(switch, dev, &set_up.lines)?;
        // A bound socket, or the host would answer by ICMP. Nobody reads it: results come from
        // captures.
        let _deaf = fabric.host(to).enter(|| {
            UdpSocket::bind((Ipv4Addr::UNSPECIFIED, header::PORT)).context("binding the receiver")
        })?;
        let recorder = Recorder::start(&fabric.node(switch)?.ns)?;
        let start = clock::monotonic() + LEAD;
        let began = clock::realtime() + (start - clock::monotonic());
        let sources: Vec<_> = flows
            .into_iter()
            .map(|(host, flows)| Source::start(fabric.host(host), flows, start))
            .collect();
        for source in sources {
            source.wait()?;
        }
        clock::sleep_until(start + clock::nanos(duration + DRAIN));
        Ok(Outcome {
            captured: recorder.finish()?,
            began,
        })
    }
}

/// Runs an experiment and hands its report to the host. Returns whether all claims hold and the
/// kernel's log is clean.
///
/// # Errors
/// When there is no such experiment, the clock is not simulated, or it cannot be run.
pub fn run(name: &str, seed: u64) -> Result<bool> {
    let experiment = EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name)
        .with_context(|| format!("no experiment is called {name}"))?;
    ensure!(
        clock::is_simulated(),
        "experiments need simulated time: on this machine they would measure the machine"
    );
    isolate()?;
    let mut log = kmsg::Watch::start()?;
    let mut lab = Lab {
        report: Findings {
            name: name.into(),
            title: experiment.title.into(),
            source: experiment.source.into(),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .context("the kernel's release")?
                .trim()
                .into(),
            seed,
            ..Findings::default()
        },
        rng: Rng::new(seed, name),
        events: Events::from_env(),
        out: HandOut::open(),
    };
    (experiment.run)(&mut lab)?;
    let complaints = log.complaints()?;
    for line in &complaints {
        println!("lab: the kernel complained: {line}");
    }
    let json = serde_json::to_vec(&lab.report).context("writing the report")?;
    lab.out.file(&format!("{name}.json"), &json)?;
    let bad = complaints.len() + lab.report.claims.iter().filter(|c| !c.holds).count();
    lab.events.send(&Event::Done {
        passed: lab.report.claims.iter().filter(|c| c.holds).count(),
        failed: bad,
    });
    Ok(bad == 0)
}
