// SPDX-License-Identifier: GPL-2.0
//! The demonstration: three hosts send signals, tokens, data and unscheduled packets through a
//! switch to a fourth, above the capacity of its link; once with Turnstile on the switch's port,
//! and once with each of the two stock set-ups that TOP section 4.1 says cannot do it. Then eight
//! hosts send messages over two switches, with Turnstile's transport and with TCP (`messages`).

mod load;
mod messages;
mod report;
mod setups;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use turnstile_test_protocol::demo::{Class, Demo, Sample, SetUp as Measured};

use crate::clock;
use crate::events::{Event, Events};
use crate::harness::{isolate, kmsg};
use crate::netns::Netns;
use crate::stalls::StallMeter;
use crate::topology::{Builder, Net};
use crate::traffic::{Flow, Packet, Received, Sent, Sink, Source};
use load::{CLASSES, DURATION, LINK, PHASES, TOKENS, TOKEN_SHARE};
use setups::SetUp;

/// Width of the plot's samples: a whole number of the sink's bins.
const SAMPLE: Duration = Duration::from_millis(200);
/// How long what is queued may take to arrive after the load has ended.
const DRAIN: Duration = Duration::from_millis(300);

/// The machine stood still if it did so for longer than this: a token's life is 20.8 ms.
const STALL: Duration = Duration::from_millis(15);

type Streams = BTreeMap<u16, Received>;

/// Runs it and hands the figures to the host as `demo.json`. Returns whether the kernel took it
/// well.
///
/// # Errors
/// When it cannot be run.
pub fn run() -> Result<bool> {
    let events = Events::from_env();
    let progress = |text: &str| {
        println!("demo: {text}");
        events.send(&Event::Progress { text: text.into() });
    };
    isolate()?;
    let mut log = kmsg::Watch::start()?;
    progress("building four hosts and a switch as network namespaces");
    let net = Builder::bridged(4).build()?;
    let (switch, dev) = net.port_to(3);
    let base = base_path(&net)?;
    let mut found = Demo {
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .context("the kernel's release")?
            .trim()
            .into(),
        link_bit_s: LINK,
        duration_s: DURATION.as_secs_f64(),
        token_share_percent: TOKEN_SHARE * 100.0,
        phases: PHASES.iter().map(load::Phase::report).collect(),
        setups: Vec::new(),
        messages: None,
    };
    for set_up in setups::all(&dev) {
        progress(&format!(
            "{}: {} s of load",
            set_up.title,
            DURATION.as_secs_f64()
        ));
        let measured =
            measure(&net, switch, &dev, &set_up, base).with_context(|| set_up.title.to_owned())?;
        report::print(&measured);
        found.setups.push(measured);
    }
    // The second part has hosts of the same names.
    drop(net);
    found.messages = Some(messages::run(progress)?);
    let data = serde_json::to_string(&found).context("writing demo.json")?;
    events.send(&Event::File {
        name: "demo.json".into(),
        data,
    });
    let complaints = log.complaints()?;
    for line in &complaints {
        println!("demo: the kernel complained: {line}");
    }
    let failed = usize::from(!complaints.is_empty());
    events.send(&Event::Done {
        passed: found.setups.len() + 1,
        failed,
    });
    Ok(complaints.is_empty())
}

/// Mean latency in ns through the switch while its port has no queue: what is not sojourn.
fn base_path(net: &Net) -> Result<f64> {
    let receiver = &net.hosts[3];
    let sink = Sink::start(&receiver.ns)?;
    let flow = Flow::new(0, Packet::Token(0), receiver.v4)
        .packets_per_s(500.0)
        .window(Duration::ZERO, Duration::from_secs(1));
    Source::run(&net.hosts[0].ns, vec![flow])?;
    let streams = sink.finish()?;
    streams
        .get(&0)
        .and_then(Received::latency_mean)
        .context("nothing arrived over the idle path")
}

/// Configures the port, applies the load, and reads everything.
fn measure(net: &Net, switch: &Netns, dev: &str, set_up: &SetUp, base: f64) -> Result<Measured> {
    set_up.apply(switch)?;
    let sink = Sink::start(&net.hosts[3].ns)?;
    let bin = clock::nanos(Sink::BIN);
    // The load starts where a bin starts, so that phases and bins agree.
    let (wall, monotonic) = (clock::realtime(), clock::monotonic());
    let begin = (wall + 100_000_000).next_multiple_of(bin);
    let start = monotonic + (begin - wall);
    let flows = load::flows(net);
    let sources: Vec<_> = net
        .hosts
        .iter()
        .zip(&flows)
        .map(|(host, flows)| Source::start(&host.ns, flows.clone(), start))
        .collect();
    clock::sleep_until(start);
    let stalls = StallMeter::start(STALL);
    let mut sent = Vec::new();
    for source in sources {
        sent.extend(source.wait()?);
    }
    let stalled = stalls.finish().as_secs_f64() / DURATION.as_secs_f64();
    clock::sleep_until(start + clock::nanos(DURATION + DRAIN));
    let counters = set_up.counters(switch, dev)?;
    let streams = sink.finish()?;
    switch.tc(&format!("qdisc del dev {dev} root"))?;

    let mut notes = set_up.notes.clone();
    notes.extend(phase_notes(&streams, begin / bin));
    notes.extend(shortfalls(&flows.concat(), &sent));
    if stalled > 0.01 {
        notes.push(format!(
            "this machine was busy: its CPUs stood still for {:.0} % of the time, which changes \
             the figures",
            stalled * 100.0
        ));
    }
    let classes = CLASSES.iter().enumerate().map(|(index, name)| {
        let counters = counters[index];
        let stream = streams.get(&(index as u16));
        let wire_bits = stream.map_or(0, |stream| stream.wire_bytes) as f64 * 8.0;
        // Stock queues do not measure it; what the sink saw beyond the idle path is nearly the
        // same.
        let sojourn = match (counters.sojourn, stream) {
            (_, None) => None,
            (Some((mean, max)), _) => Some((mean as f64, max as f64)),
            (None, Some(stream)) => stream.latency_mean().map(|mean| {
                (
                    (mean - base).max(0.0),
                    (stream.latency_max as f64 - base).max(0.0),
                )
            }),
        };
        Class {
            name: (*name).into(),
            offered: counters.offered,
            sent: counters.sent,
            received: stream.map_or(0, |stream| stream.packets),
            drops: BTreeMap::from([
                ("over-limit".into(), counters.over_limit),
                ("expired".into(), counters.expired),
            ]),
            share_percent: rounded(wire_bits / DURATION.as_secs_f64() / LINK as f64 * 100.0, 3),
            sojourn_mean_us: sojourn.map(|(mean, _)| rounded(mean / 1e3, 1)),
            sojourn_max_us: sojourn.map(|(_, max)| rounded(max / 1e3, 1)),
        }
    });
    Ok(Measured {
        name: set_up.name.into(),
        title: set_up.title.into(),
        commands: set_up.commands.clone(),
        classes: classes.collect(),
        samples: samples(&streams, begin / bin),
        notes,
    })
}

/// Wire bytes that a stream received in bins `from..until` after `first`.
fn bytes_between(stream: Option<&Received>, first: u64, from: u64, until: u64) -> u64 {
    stream.map_or(0, |stream| {
        stream
            .bins
            .range(first + from..first + until)
            .map(|(_, bytes)| bytes)
            .sum()
    })
}

/// The rates over time. `first`: number of the sink's bin at the start.
fn samples(streams: &Streams, first: u64) -> Vec<Sample> {
    let width = (SAMPLE.as_millis() / Sink::BIN.as_millis()) as u64;
    let count = (DURATION + DRAIN).as_millis() as u64 / SAMPLE.as_millis() as u64;
    (0..count)
        .map(|index| Sample {
            t: rounded((index as f64 + 0.5) * SAMPLE.as_secs_f64(), 3),
            rates: CLASSES
                .iter()
                .zip(0..)
                .map(|(name, stream)| {
                    let bytes = bytes_between(
                        streams.get(&stream),
                        first,
                        index * width,
                        (index + 1) * width,
                    );
                    (
                        (*name).into(),
                        rounded(bytes as f64 * 8.0 / SAMPLE.as_secs_f64(), 0),
                    )
                })
                .collect(),
        })
        .collect()
}

/// What the token group and the data got in each phase.
fn phase_notes(streams: &Streams, first: u64) -> Vec<String> {
    let bin = Sink::BIN.as_secs_f64();
    PHASES
        .iter()
        .map(|phase| {
            // The first bins of a phase still hold what was queued in the one before.
            let (from, until) = ((phase.from / bin) as u64 + 2, (phase.until / bin) as u64);
            let seconds = (until - from) as f64 * bin;
            let share = |mut classes: std::ops::Range<usize>| {
                let bytes: u64 = classes
                    .by_ref()
                    .map(|class| bytes_between(streams.get(&(class as u16)), first, from, until))
                    .sum();
                bytes as f64 * 8.0 / seconds / LINK as f64 * 100.0
            };
            format!(
                "{:.1}-{:.1} s, {}: token group {:.2} % of the link (its share is {:.2} %), data \
                 {:.1} %",
                phase.from,
                phase.until,
                phase.what,
                share(TOKENS),
                TOKEN_SHARE * 100.0,
                share(load::DATA..load::DATA + 1),
            )
        })
        .collect()
}

/// Says so when the emulated machine could not send what it was meant to.
fn shortfalls(flows: &[Flow], sent: &[Sent]) -> Vec<String> {
    flows
        .iter()
        .zip(sent)
        .filter_map(|(flow, sent)| {
            let intended = flow.intended(DURATION);
            (sent.packets * 100 < intended * 95).then(|| {
                format!(
                    "this machine was too slow: {} of {intended} packets of {} were offered",
                    sent.packets,
                    CLASSES[usize::from(flow.stream)]
                )
            })
        })
        .collect()
}

/// To so many decimals: what is written need not be longer than what is known.
fn rounded(value: f64, decimals: i32) -> f64 {
    let factor = 10_f64.powi(decimals);
    (value * factor).round() / factor
}
