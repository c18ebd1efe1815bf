// SPDX-License-Identifier: GPL-2.0
//! Published loads over one link, with Turnstile as it is shipped, TCP and DCTCP, beside the
//! shortest times that there could be.

use std::collections::BinaryHeap;
use std::time::Duration;

use anyhow::Result;
use turnstile_core::transport::config::Config;
use turnstile_test_protocol::lab::{SetUpLines, Table};
use turnstile_workload::figures::{mean, percentile};

use super::report::number;
use super::{Experiment, Lab};
use crate::limits::more_files;
use crate::scenario::mixed::{run_on, Load, Use, Way};
use crate::scenario::{
    delay_for, Carrier, Queues, Seen, FULL_PAYLOAD, FULL_WIRE, RTO, SHIPPED, THRESHOLD,
};
use crate::topology::{Fabric, Link};
use crate::traffic::messages::{
    Class, Done, Hosts, Message, Sizes, CACHE_FOLLOWER, DATA_MINING, HADOOP, WEB_SEARCH,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "loads",
    title: "messages of a web search at 60 % load, by default settings and one socket per host",
    source: "DCTCP fig. 4 (lengths); TOP section 5.2 (Poisson arrivals over a dumbbell)",
    run: |lab| run(lab, &WEB_SEARCH, 300, &[0.6]),
};
pub(super) const BY_SOCKETS: Experiment = Experiment {
    name: "loads-sockets",
    title: "the same messages by one socket per host, and by a thousand",
    source: EXPERIMENT.source,
    run: by_sockets,
};
pub(super) const OF_WEB_SEARCH: Experiment = Experiment {
    name: "loads-web-search",
    title: "the same at 40, 60 and 80 % load",
    source: EXPERIMENT.source,
    run: |lab| run(lab, &WEB_SEARCH, 300, &LOADS),
};
pub(super) const OF_DATA_MINING: Experiment = Experiment {
    name: "loads-data-mining",
    title: "messages of data mining at 40, 60 and 80 % load, by default settings",
    source: "VL2 fig. 2 (lengths)",
    run: |lab| run(lab, &DATA_MINING, 200, &LOADS),
};
pub(super) const OF_HADOOP: Experiment = Experiment {
    name: "loads-hadoop",
    title: "messages of a Hadoop cluster at 40, 60 and 80 % load, by default settings",
    source: "Roy et al., SIGCOMM 2015, fig. 6 (lengths)",
    run: |lab| run(lab, &HADOOP, 1500, &LOADS),
};
pub(super) const OF_CACHE_FOLLOWERS: Experiment = Experiment {
    name: "loads-cache-followers",
    title: "messages of cache followers at 40, 60 and 80 % load, by default settings",
    source: "Roy et al., SIGCOMM 2015, fig. 6 (lengths)",
    run: |lab| run(lab, &CACHE_FOLLOWER, 300, &LOADS),
};

/// Payload, as parts of the link in the middle.
const LOADS: [f64; 3] = [0.4, 0.6, 0.8];

const RATE: u64 = 10_000_000_000;
/// A token's way to the sender and its packet's way back, ns.
const RTT: u64 = 48_000;
/// Links from host to host.
const HOPS: u64 = 3;
/// Buffer of a switch's port, bytes.
const BUFFER: u32 = 128_000;
/// Draws of so many messages.
const DRAWS: usize = 3;

const CLASSES: [Class; 5] = [
    Class {
        name: "below 10 KB",
        from: 0,
        below: 10_000,
    },
    Class {
        name: "10 KB to 100 KB",
        from: 10_000,
        below: 100_000,
    },
    Class {
        name: "100 KB to 1 MB",
        from: 100_000,
        below: 1_000_000,
    },
    Class {
        name: "1 MB and more",
        from: 1_000_000,
        below: u64::MAX,
    },
    Class {
        name: "all",
        from: 0,
        below: u64::MAX,
    },
];

/// The shortest time that a message could take on the idle network, ns: payload and headers at the
/// link's rate, the last packet once more for each further link, propagation. No token, no
/// handshake.
fn ideal(bytes: u64) -> f64 {
    let (full, rest) = (bytes / FULL_PAYLOAD, bytes % FULL_PAYLOAD);
    let headers = FULL_WIRE - FULL_PAYLOAD;
    let last = if rest == 0 { FULL_WIRE } else { rest + headers };
    let partial = if rest == 0 { 0 } else { rest + headers };
    let on_wire = full * FULL_WIRE + partial + (HOPS - 1) * last.max(84);
    let delay = HOPS * delay_for(RTT, HOPS, RATE);
    on_wire as f64 * 8e9 / RATE as f64 + delay as f64
}

/// The times of a fluid that is sent in the order of what is left (SRPT) over the link in the
/// middle, at what tokens leave of it.
fn srpt(messages: &[Message]) -> Vec<Done> {
    const SHARE: f64 = 1538.0 / 1622.0;
    let service = |bytes: u64| {
        let packets = bytes.div_ceil(FULL_PAYLOAD);
        (bytes + packets * (FULL_WIRE - FULL_PAYLOAD)) as f64 * 8e9 / (RATE as f64 * SHARE)
    };
    let mut order: Vec<usize> = (0..messages.len()).collect();
    order.sort_by_key(|index| messages[*index].at);
    let mut done: Vec<Done> = messages
        .iter()
        .map(|&message| Done {
            message,
            took: None,
        })
        .collect();
    // What is left, ns of service, and which; the least first.
    let mut left: BinaryHeap<std::cmp::Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut now = 0.0;
    let mut next = order.into_iter().peekable();
    loop {
        let arrival = next.peek().map(|index| messages[*index].at as f64);
        match (left.pop(), arrival) {
            (None, None) => return done,
            (None, Some(at)) => now = f64::max(now, at),
            (Some(std::cmp::Reverse((need, index))), at) => {
                let end = now + need as f64;
                match at {
                    Some(at) if at < end => {
                        let rest = (end - at) as u64;
                        left.push(std::cmp::Reverse((rest, index)));
                        now = at;
                    }
                    _ => {
                        now = end;
                        let message = messages[index];
                        let fixed = ideal(message.bytes) - service(message.bytes) * SHARE;
                        done[index].took = Some((end - message.at as f64 + fixed) as u64);
                        continue;
                    }
                }
            }
        }
        while let Some(index) = next.next_if(|index| messages[*index].at as f64 <= now) {
            left.push(std::cmp::Reverse((
                service(messages[index].bytes) as u64,
                index,
            )));
        }
    }
}

/// The same where only so many bytes on the wire of each message may be sent before a token's way
/// there and its packet's way back.
fn srpt_with_tokens(messages: &[Message], first: u64) -> Vec<Done> {
    const SHARE: f64 = 1538.0 / 1622.0;
    let time = |wire: u64| wire as f64 * 8e9 / (RATE as f64 * SHARE);
    let wire = |bytes: u64| bytes + bytes.div_ceil(FULL_PAYLOAD) * (FULL_WIRE - FULL_PAYLOAD);
    // When what is to wait may go, and of which message; and what is left, ns of service, and how
    // much of that has to wait.
    let waits = |message: &Message| wire(message.bytes).saturating_sub(first);
    let mut left = vec![(0.0_f64, 0.0_f64); messages.len()];
    let mut events: Vec<(f64, bool, usize)> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        events.push((message.at as f64, false, index));
        events.push(((message.at + RTT) as f64, true, index));
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut done: Vec<Done> = messages
        .iter()
        .map(|&message| Done {
            message,
            took: None,
        })
        .collect();
    let mut active: Vec<usize> = Vec::new();
    let mut now = 0.0;
    let mut events = events.into_iter().peekable();
    loop {
        let ready = active
            .iter()
            .filter(|&&index| left[index].0 > left[index].1);
        let least = ready.min_by(|&&a, &&b| left[a].0.total_cmp(&left[b].0));
        let next = events.peek().map(|event| event.0);
        match (least.copied(), next) {
            (None, None) => return done,
            (Some(index), next) => {
                let end = now + left[index].0 - left[index].1;
                if next.is_none_or(|next| end <= next) {
                    left[index].0 = left[index].1;
                    now = end;
                    if left[index].1 == 0.0 {
                        let message = messages[index];
                        let fixed = ideal(message.bytes) - time(wire(message.bytes)) * SHARE;
                        done[index].took = Some((end - message.at as f64 + fixed) as u64);
                        active.retain(|it| *it != index);
                    }
                    continue;
                }
                left[index].0 -= next.unwrap_or(now) - now;
            }
            (None, Some(_)) => {}
        }
        if let Some((at, comes, index)) = events.next() {
            now = at;
            if comes {
                left[index].1 = 0.0;
            } else {
                let message = &messages[index];
                left[index] = (time(wire(message.bytes)), time(waits(message)));
                active.push(index);
            }
        }
    }
}

fn network(sizes: &Sizes, count: usize) -> Load {
    Load {
        pairs: 4,
        link: Link::new(RATE, delay_for(RTT, HOPS, RATE)).buffer(BUFFER),
        sizes: *sizes,
        count,
        load: 0.0,
        channels: 16,
        patience: Duration::from_secs(20),
        pause: Duration::from_millis(20),
    }
}

/// The same messages, each host with one socket, and with as many for each of its peers that all
/// hosts of a side have a thousand.
fn by_sockets(lab: &mut Lab) -> Result<()> {
    const COUNT: usize = 300;
    /// Parts of each other that their means may differ by.
    const APART: f64 = 0.05;
    let mut load = network(&WEB_SEARCH, COUNT);
    load.load = 0.6;
    load.channels = 1008 / (load.pairs * load.pairs);
    more_files(4096)?;
    let fabric = load.plan().build()?;
    let mut table = Table::new("60 % load: slowdown against the wire's ideal", &COLUMNS);
    let draws = draws(lab, &load);
    let [way, ..] = ways();
    let uses = [
        ("one socket per host", Use::SocketPerHost),
        ("a thousand", Use::Pool),
    ];
    let mut all = Vec::new();
    for (name, used) in uses {
        lab.progress(&format!("{name}: {COUNT} messages"));
        let (mut done, mut dropped) = (Vec::new(), 0);
        for messages in &draws {
            let outcome = run_on(&fabric, &load, &way, used, messages)?;
            dropped += outcome.seen.data_drops;
            done.extend(outcome.done);
        }
        lab.claim(format!("{name}: no data packet is dropped"), dropped == 0);
        lab.claim(
            format!("{name}: every message arrives"),
            done.iter().all(|done| done.took.is_some()),
        );
        all.push(add(&mut table, name, &done));
    }
    if let [one, thousand] = all.as_slice() {
        for ((class, one), thousand) in CLASSES.iter().zip(one).zip(thousand) {
            lab.claim(
                format!(
                    "messages {}: the means differ by {:.0} % at most",
                    class.name,
                    APART * 100.0
                ),
                (thousand.0 / one.0 - 1.0).abs() <= APART,
            );
        }
    }
    lab.report.tables.push(table);
    lab.report.notes.push(format!(
        "{DRAWS} draws of {COUNT} messages; set-up and yardstick are those of `loads`. With a \
         thousand, {} for each pair of hosts, a message takes one that is idle",
        load.channels
    ));
    Ok(())
}

/// One workload at each of these loads, with so many messages a draw.
fn run(lab: &mut Lab, sizes: &Sizes, count: usize, loads: &[f64]) -> Result<()> {
    let mut load = network(sizes, count);
    let fabric = load.plan().build()?;
    for way in ways() {
        lab.report.setups.push(SetUpLines {
            title: format!("{}: {}", way.name, way.title),
            lines: way.queues.example(&fabric),
        });
    }
    for &part in loads {
        load.load = part;
        at(lab, &fabric, &load)?;
    }
    lab.report.notes.push(format!(
        "4 and 4 hosts, links of 10 Gbit/s, {BUFFER} bytes in a switch's port; a token's way and \
         its packet's way back take {} us. {DRAWS} draws of {count} messages, lengths of {}. The \
         load is payload, as a part of the middle link. A message has {} bytes at least",
        RTT / 1000,
        sizes.name,
        Hosts::LEAST
    ));
    lab.report.notes.push(
        "slowdown: the time from when the message was asked for until the application has read all \
         of it, divided by that of its payload and headers at the link's rate with the last packet \
         once more for each further link, and propagation; no token, no handshake. Fluid SRPT: one \
         server at the rate that tokens leave of the link, always for who has least left; with \
         tokens, what is beyond the part of unscheduled-buffer that each sender has waits for a \
         round trip"
            .into(),
    );
    lab.report.notes.push(
        "Turnstile: one socket per host, which sends and receives all, nothing set in its \
         namespace, and on it only that pieces of messages too long for its buffer alternate with \
         others (TURNSTILE_RECVINFO 2). TCP: connections that are up beforehand, of which a \
         message takes an idle one; the shortest retransmission timeout is 4 ms, a tick"
            .into(),
    );
    Ok(())
}

/// Columns of the table of slowdowns.
const COLUMNS: [&str; 7] = [
    "transport",
    "messages",
    "number",
    "not there in time",
    "mean",
    "99 %",
    "most",
];

/// The draws of a load.
fn draws(lab: &mut Lab, load: &Load) -> Vec<Vec<Message>> {
    let mut draws: Vec<_> = (0..DRAWS).map(|_| load.messages(&mut lab.rng)).collect();
    for message in draws.iter_mut().flatten() {
        message.bytes = message.bytes.max(Hosts::LEAST);
    }
    draws
}

/// One workload at one load.
fn at(lab: &mut Lab, fabric: &Fabric, load: &Load) -> Result<()> {
    let percent = format!("{:.0} %", load.load * 100.0);
    let draws = draws(lab, load);
    let mut table = Table::new(
        &format!("{percent} load: slowdown against the wire's ideal"),
        &COLUMNS,
    );
    let mut queues = Table::new(
        &format!("{percent} load: the ports"),
        &[
            "transport",
            "data packets dropped",
            "longest data queue, kB",
            "unscheduled packets dropped",
            "tokens dropped",
        ],
    );
    let bound: Vec<Done> = draws.iter().flat_map(|messages| srpt(messages)).collect();
    add(&mut table, "fluid SRPT", &bound);
    let first = u64::from(Config::DEFAULT.unscheduled_buffer) / load.pairs as u64;
    let bound = draws.iter();
    let bound: Vec<Done> = bound
        .flat_map(|messages| srpt_with_tokens(messages, first))
        .collect();
    add(&mut table, "the same, tokens", &bound);
    let mut ours = Vec::new();
    for way in ways() {
        lab.progress(&format!(
            "{percent}, {}: {} messages",
            way.title, load.count
        ));
        let used = match way.carrier {
            Carrier::Turnstile(_) => Use::SocketPerHost,
            Carrier::Tcp(..) => Use::Pool,
        };
        let mut done = Vec::new();
        let mut seen = Seen::default();
        for messages in &draws {
            let outcome = run_on(fabric, load, &way, used, messages)?;
            done.extend(outcome.done);
            seen.data_drops += outcome.seen.data_drops;
            seen.unscheduled_drops += outcome.seen.unscheduled_drops;
            seen.token_drops += outcome.seen.token_drops;
            seen.longest = seen.longest.max(outcome.seen.longest);
        }
        let figures = add(&mut table, way.name, &done);
        queues.row(vec![
            way.name.into(),
            seen.data_drops.into(),
            number(seen.longest as f64 / 1e3, 1),
            seen.unscheduled_drops.into(),
            seen.token_drops.into(),
        ]);
        if let Carrier::Turnstile(_) = way.carrier {
            lab.claim(
                format!("{percent}, {}: no data packet is dropped", way.name),
                seen.data_drops == 0,
            );
            lab.claim(
                format!("{percent}, {}: every message arrives", way.name),
                done.iter().all(|done| done.took.is_some()),
            );
            ours = figures;
            continue;
        }
        for ((class, ours), theirs) in CLASSES.iter().zip(&ours).zip(&figures) {
            for (what, ours, theirs) in [
                ("mean", ours.0, theirs.0),
                ("99th percentile", ours.1, theirs.1),
            ] {
                // Of none there is no figure.
                if theirs.is_finite() {
                    lab.claim(
                        format!(
                            "{percent}, messages {}: the slowdown's {what} is lower than with {}",
                            class.name, way.name
                        ),
                        ours < theirs,
                    );
                }
            }
        }
    }
    lab.report.tables.push(table);
    lab.report.tables.push(queues);
    Ok(())
}

/// A line for each class. Their means and 99th percentiles.
fn add(table: &mut Table, name: &str, done: &[Done]) -> Vec<(f64, f64)> {
    let mut figures = Vec::new();
    for class in CLASSES {
        let of_class: Vec<&Done> = done
            .iter()
            .filter(|done| (class.from..class.below).contains(&done.message.bytes))
            .collect();
        let mut slow: Vec<f64> = of_class
            .iter()
            .filter_map(|done| Some(done.took? as f64 / ideal(done.message.bytes)))
            .collect();
        slow.sort_by(f64::total_cmp);
        table.row(vec![
            name.into(),
            class.name.into(),
            of_class.len().into(),
            (of_class.len() - slow.len()).into(),
            number(mean(&slow), 2),
            number(percentile(&slow, 99.0), 2),
            number(percentile(&slow, 100.0), 2),
        ]);
        figures.push((mean(&slow), percentile(&slow, 99.0)));
    }
    figures
}

fn ways() -> [Way; 3] {
    [
        Way {
            name: "turnstile",
            title: "Turnstile as it is shipped",
            queues: Queues::Tokens(SHIPPED.into()),
            carrier: Carrier::Turnstile("".into()),
        },
        Way {
            name: "cubic",
            title: "TCP cubic, drop tail",
            queues: Queues::DropTail,
            carrier: Carrier::Tcp("cubic", RTO),
        },
        Way {
            name: "dctcp",
            title: "DCTCP, marked by RED above 65 packets",
            queues: Queues::Marked(THRESHOLD),
            carrier: Carrier::Tcp("dctcp", RTO),
        },
    ]
}
