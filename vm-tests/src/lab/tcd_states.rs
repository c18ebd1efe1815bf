// SPDX-License-Identifier: GPL-2.0
//! What TCD says of a port that is overloaded and of those that only pass its pauses on (TCD
//! section 5.2.4, its network and its bursts).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use turnstile_core::port::uapi::{band_stat, port_stat};
use turnstile_test_protocol::lab::{Plot, SetUpLines, Style, Table};

use super::report::{number, rounded, thinned};
use super::{Experiment, Lab};
use crate::clock;
use crate::raw_netlink::Stats;
use crate::recorder::{passages, Passage, Recorder};
use crate::scenario::lossless::{data_stats, dropped, pauses, plan, port_stats, queues, Marks};
use crate::scenario::lossless::{A0, B0, BURSTING, P2, P3, R0, R1, S0, S1};
use crate::scenario::lossless::{BUFFER, DELAY, PERCENT, THRESHOLD, XOFF};
use crate::scenario::LEAD;
use crate::topology::Fabric;
use crate::traffic::{Flow, Packet, Source};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcd-states",
    title: "congested, undetermined or neither: bursts behind a lossless port",
    source: "TCD section 5.2.4: 15 hosts send bursts of 64 KB to R1 for 3 ms at 40 Gbit/s; the \
             port before, P2, becomes undetermined",
    run,
};

/// bit/s.
const RATES: [u64; 3] = [10_000_000_000, 40_000_000_000, 100_000_000_000];
/// The one that is drawn, as in the text.
const DRAWN: u64 = 40_000_000_000;
/// Bytes of a burst.
const BURST: u64 = 64_000;
/// How many of them each host sends.
const ROUNDS: u64 = 15;
/// Of what their links carry, what S0 and S1 send, percent.
const SENT: u64 = 90;
/// Of the curve of what gets through, ns.
const BIN: u64 = 50_000;
/// ECN's code points.
const ECT: u8 = 2;
const UE: u8 = 1;
const CE: u8 = 3;

/// A port that is looked at.
struct Watched {
    name: &'static str,
    node: &'static str,
    dev: &'static str,
    /// It is never offered more than its link carries.
    victim: bool,
}

const PORTS: [Watched; 4] = [
    watched("P3, t2 to R1", P3, false),
    watched("P2, l0 to t2", P2, true),
    watched("S0's own", ("h1", "t0"), true),
    watched("S1's own", ("h2", "t0"), true),
];

const fn watched(name: &'static str, at: (&'static str, &'static str), victim: bool) -> Watched {
    Watched {
        name,
        node: at.0,
        dev: at.1,
        victim,
    }
}

/// What was seen at a rate.
struct Seen {
    /// Wall clock at the start, ns.
    began: u64,
    /// What passed each of [`PORTS`], of switches, and its counters.
    ports: Vec<(Option<Vec<Passage>>, Stats)>,
    /// What left towards R0.
    to_r0: Vec<Passage>,
    /// When P2 was told to pause (`true`), and to go on.
    pauses: Vec<(u64, bool)>,
    /// P2's, in force.
    max_on: u64,
    dropped: u64,
}

impl Seen {
    /// When P2 was paused first.
    fn paused(&self) -> Option<u64> {
        Some(self.pauses.iter().find(|(_, pause)| *pause)?.0)
    }

    /// When its last pause was over.
    fn resumed(&self) -> Option<u64> {
        Some(self.pauses.iter().rfind(|(_, pause)| !*pause)?.0)
    }
}

fn run(lab: &mut Lab) -> Result<()> {
    let mut states = Table::new(
        "what ports say of themselves, and what they mark",
        &[
            "Gbit/s",
            "port",
            "congested, us",
            "undetermined, us",
            "CE",
            "UE",
            "unmarked",
            "ECN at the same length would mark",
            "longest queue, kB",
            "paused, times",
        ],
    );
    let mut delays = Table::new(
        "how soon, us",
        &[
            "Gbit/s",
            "max-on",
            "P3: from the threshold to the first CE",
            "P2: from a pause to the first UE",
            "P2: from its last pause to the last UE",
            "P2, overloaded, too: from its last pause to its first CE",
            "its CE while it is paused now and then",
        ],
    );
    for rate in RATES {
        lab.progress(&format!("{} Gbit/s", rate / 1_000_000_000));
        at(lab, rate, &mut states, &mut delays)?;
    }
    lab.report.tables.extend([states, delays]);
    lab.report.notes.push(format!(
        "Links of 1 us. All ports are lossless, with a pause at {} kB of each ingress, and TCD's \
         threshold is {} kB. S0 sends to R0 and S1 to R1, {SENT} % of what their links \
         carry, which is {PERCENT} % of the others' rate; then {BURSTING} hosts on t2 burst {} kB \
         each to R1, {ROUNDS} times, as often as R1's link carries that: with S1's, 1.4 times what \
         it carries. What S0 and S1 send is never more than nine tenths of what P2 carries. What \
         waited at t0 until the last pause was over comes to P2 as fast as P2 can send. \
         Overloaded, too: once more, while B0 sends {SENT} % of what its link carries to R0 \
         through P2 until long after the bursts",
        XOFF / 1000,
        THRESHOLD / 1000,
        BURST / 1000
    ));
    Ok(())
}

/// Time that R1's link takes for a round of bursts, ns.
fn round(rate: u64) -> u64 {
    let packet = Flow::new(0, Packet::Data, std::net::Ipv4Addr::LOCALHOST);
    let packets = BURST / packet.payload as u64;
    packets * BURSTING as u64 * packet.wire_length() as u64 * 8_000_000 / (rate / 1000)
}

fn at(lab: &mut Lab, rate: u64, states: &mut Table, delays: &mut Table) -> Result<()> {
    let fabric = plan(rate, rate * PERCENT / 100, BUFFER).build()?;
    let queues = queues(Marks::Tcd);
    if rate == DRAWN {
        lab.report.setups.push(SetUpLines {
            title: "all ports".into(),
            lines: queues.example(&fabric),
        });
    }
    queues.apply(&fabric)?;
    let seen = measure(&fabric, rate, false)?;
    let gbit = rate / 1_000_000_000;
    for (port, (passed, stats)) in PORTS.iter().zip(&seen.ports) {
        let us = |number: u16| self::number(stats.app(number) as f64 / 1e3, 1);
        let recorded = passed.as_ref().map(|passed| {
            let behind = behind(passed);
            let longer = behind.iter().filter(|(_, bytes)| *bytes >= THRESHOLD);
            let most = behind.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
            (longer.count(), most)
        });
        states.row(vec![
            gbit.into(),
            port.name.into(),
            us(band_stat::TCD_TIME_CONGESTED),
            us(band_stat::TCD_TIME_UNDETERMINED),
            stats.app(band_stat::TCD_CE).into(),
            stats.app(band_stat::TCD_UE).into(),
            stats.app(band_stat::TCD_UNMARKED).into(),
            recorded.map_or("-".into(), |(longer, _)| longer.into()),
            recorded.map_or("-".into(), |(_, most)| number(most as f64 / 1e3, 1)),
            stats.app(band_stat::PFC_PAUSES).into(),
        ]);
        if port.victim {
            lab.claim(
                format!("{gbit} Gbit/s, {}: never congested", port.name),
                stats.app(band_stat::TCD_CONGESTIONS) == 0,
            );
        }
        if !port.victim {
            lab.claim(
                format!("{gbit} Gbit/s, {}: congested, and never paused", port.name),
                stats.app(band_stat::TCD_CE) > 0 && stats.app(band_stat::PFC_PAUSES) == 0,
            );
        }
    }
    lab.claim(
        format!("{gbit} Gbit/s: no packet is dropped"),
        seen.dropped == 0,
    );
    queues.apply(&fabric)?;
    let overloaded = measure(&fabric, rate, true)?;
    lab.claim(
        format!("{gbit} Gbit/s, P2 overloaded: no packet is dropped"),
        overloaded.dropped == 0,
    );
    soon(lab, rate, (&seen, &overloaded), delays)?;
    if rate == DRAWN {
        draw(lab, &seen);
    }
    Ok(())
}

/// Sends it all, and records. `overloaded`: also what is too much for P2, for twice as long.
fn measure(fabric: &Fabric, rate: u64, overloaded: bool) -> Result<Seen> {
    let round = round(rate);
    let (first, span) = (2 * round, (ROUNDS + 4) * round);
    let start = clock::monotonic() + LEAD;
    let began = clock::realtime() + (start - clock::monotonic());
    let nodes = [P3.0, P2.0];
    let recorders = nodes
        .iter()
        .map(|node| Recorder::start(&fabric.node(node)?.ns))
        .collect::<Result<Vec<_>>>()?;
    let flow = |stream: usize, to: usize| {
        let stream = u16::try_from(stream).unwrap_or(u16::MAX);
        let mut flow = Flow::new(stream, Packet::Data, fabric.address(to));
        flow.ecn = ECT;
        flow
    };
    let steady = |from: usize, to: usize, link: u64, span: u64| {
        let flow = flow(from, to).bits_per_s((link * SENT / 100) as f64);
        let until = Duration::from_nanos(span);
        (from, vec![flow.window(Duration::ZERO, until)])
    };
    let of_s = rate * PERCENT / 100;
    let mut all = vec![steady(S0, R0, of_s, span), steady(S1, R1, of_s, span)];
    if overloaded {
        all = vec![
            steady(S0, R0, of_s, 2 * span),
            steady(S1, R1, of_s, 2 * span),
            steady(B0, R0, rate, 2 * span),
        ];
    }
    for host in A0..A0 + BURSTING {
        let bursts = (0..ROUNDS).map(|n| {
            let from = Duration::from_nanos(first + n * round);
            let burst = flow(host, R1);
            let packets = BURST / burst.payload as u64;
            burst.burst(packets).window(from, Duration::MAX)
        });
        all.push((host, bursts.collect()));
    }
    let sources: Vec<_> = all
        .into_iter()
        .map(|(host, flows)| Source::start(fabric.host(host), flows, start))
        .collect();
    for source in sources {
        source.wait()?;
    }
    // What was held up arrives.
    clock::sleep_until(start + if overloaded { 6 } else { 2 } * span);
    let captured = recorders
        .into_iter()
        .map(Recorder::finish)
        .collect::<Result<Vec<_>>>()?;
    let mut ports = Vec::new();
    for port in &PORTS {
        let stats = data_stats(fabric, port.node, port.dev)?;
        // What a host sends has not come in, and is not recorded.
        let recorded = nodes
            .iter()
            .zip(&captured)
            .find(|(node, _)| **node == port.node);
        let behind = fabric.hosts_behind(port.node, port.dev)?;
        let passed = recorded
            .map(|(_, captured)| passages(captured, port.dev, &behind))
            .transpose()?;
        ports.push((passed, stats));
    }
    let behind = [fabric.address(R0)].into();
    let pauses = pauses(captured[1].of(P2.1)?);
    Ok(Seen {
        began,
        pauses,
        to_r0: passages(&captured[0], "h7", &behind)?,
        ports,
        max_on: port_stats(fabric, P2)?.app(port_stat::TCD_MAX_ON),
        dropped: dropped(fabric)?,
    })
}

/// When each packet left, and the bytes that waited behind it.
fn behind(passed: &[Passage]) -> Vec<(u64, u64)> {
    // Packets leave in the order in which they came.
    let mut came = passed.iter().filter(|it| it.left.is_some()).peekable();
    let mut waiting = 0;
    let left = passed.iter().filter_map(|it| Some((it.left?, it.bytes)));
    left.map(|(left, bytes)| {
        while let Some(next) = came.next_if(|next| next.came <= left) {
            waiting += next.bytes as u64;
        }
        waiting = waiting.saturating_sub(bytes as u64);
        (left, waiting)
    })
    .collect()
}

/// How soon marks tell of what happens.
fn soon(
    lab: &mut Lab,
    rate: u64,
    (seen, overloaded): (&Seen, &Seen),
    table: &mut Table,
) -> Result<()> {
    let [(Some(p3), _), (Some(p2), _), ..] = seen.ports.as_slice() else {
        bail!("the switches' ports were not recorded");
    };
    let [_, (Some(p2_over), _), ..] = overloaded.ports.as_slice() else {
        bail!("the switches' ports were not recorded");
    };
    let first = |passed: &[Passage], code: u8| {
        let mut marked = passed.iter().filter(|it| it.ecn == code);
        marked.find_map(|it| it.left)
    };
    let last = |passed: &[Passage], code: u8| {
        let marked = passed.iter().filter(|it| it.ecn == code);
        marked.filter_map(|it| it.left).max()
    };
    let reached = behind(p3)
        .into_iter()
        .find(|(_, bytes)| *bytes >= THRESHOLD);
    let reached = reached.context("P3 was never congested")?.0;
    let called = first(p3, CE).context("P3 marked nothing")?;
    let paused = seen.paused().context("P2 was never paused")?;
    let resumed = seen.resumed().context("P2 was paused for ever")?;
    let undetermined = first(p2, UE).context("P2 marked nothing")?;
    let until = last(p2, UE).context("P2 marked nothing")?;
    let paused_over = overloaded.paused().context("P2 was never paused")?;
    let resumed_over = overloaded.resumed().context("P2 was paused for ever")?;
    // Those that it has marked itself.
    let own = p2_over.iter().filter(|it| it.marked);
    let own: Vec<u64> = own.filter_map(|it| it.left).collect();
    let meanwhile = own
        .iter()
        .filter(|at| (paused_over..resumed_over).contains(at));
    let meanwhile = meanwhile.count();
    let called_over = own.iter().find(|at| **at >= resumed_over);
    let called_over = called_over.context("P2 was overloaded, and did not say so")?;
    let us = |ns: u64| number(ns as f64 / 1e3, 2);
    let gbit = rate / 1_000_000_000;
    // Until a change here is known there, and what follows from it here again.
    let feedback = 2 * DELAY;
    lab.claim(
        format!("{gbit} Gbit/s: P3 is called congested within max-on and a feedback delay"),
        called.saturating_sub(reached) <= seen.max_on + feedback,
    );
    lab.claim(
        format!("{gbit} Gbit/s: P2, overloaded, too, is called so as soon after its last pause"),
        called_over.saturating_sub(resumed_over) <= seen.max_on + feedback,
    );
    table.row(vec![
        gbit.into(),
        us(seen.max_on),
        us(called.saturating_sub(reached)),
        us(undetermined.saturating_sub(paused)),
        us(until.saturating_sub(resumed)),
        us(called_over.saturating_sub(resumed_over)),
        meanwhile.into(),
    ]);
    Ok(())
}

/// States, queues and what gets through, over time.
fn draw(lab: &mut Lab, seen: &Seen) {
    let us = |at: u64| rounded(at.saturating_sub(seen.began) as f64 / 1e3, 3);
    let mut states = Plot::new(
        "marks of what leaves: 0 none, 1 UE, 2 CE",
        "time, us",
        "mark",
        Style::Steps,
    );
    let mut queues = Plot::new("queues", "time, us", "kB", Style::Steps)
        .level("threshold", THRESHOLD as f64 / 1e3);
    for (port, (passed, _)) in PORTS.iter().zip(&seen.ports) {
        let Some(passed) = passed else {
            continue;
        };
        let mark = |ecn: u8| match ecn {
            CE => 2.0,
            UE => 1.0,
            _ => 0.0,
        };
        let mut marks: Vec<(f64, f64)> = Vec::new();
        for (left, ecn) in passed.iter().filter_map(|it| Some((it.left?, it.ecn))) {
            if marks.last().is_none_or(|(_, last)| *last != mark(ecn)) {
                marks.push((us(left), mark(ecn)));
            }
        }
        states.series(port.name, marks);
        let queue: Vec<_> = behind(passed)
            .into_iter()
            .map(|(left, bytes)| (us(left), bytes as f64 / 1e3))
            .collect();
        queues.series(port.name, thinned(&queue, 400));
    }
    let mut rate = Plot::new("S0 to R0", "time, us", "Gbit/s", Style::Steps);
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    for it in &seen.to_r0 {
        if let Some(left) = it.left {
            *bins
                .entry(left.saturating_sub(seen.began) / BIN)
                .or_default() += it.wire_bytes() as u64;
        }
    }
    let last = bins.keys().last().copied().unwrap_or(0);
    let points = (0..=last).map(|bin| {
        let bytes = bins.get(&bin).copied().unwrap_or(0);
        let at = (bin * BIN) as f64 / 1e3;
        (at, rounded(bytes as f64 * 8.0 / BIN as f64, 2))
    });
    rate.series("what left for R0", points.collect());
    lab.report.plots.extend([states, queues, rate]);
}
