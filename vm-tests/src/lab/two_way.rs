// SPDX-License-Identifier: GPL-2.0
//! Messages both ways over the same links: what is neither token nor data takes its part of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{bail, Result};
use turnstile_test_protocol::lab::Table;

use super::report::number;
use super::{Experiment, Lab};
use crate::clock;
use crate::events::Event;
use crate::scenario::{
    data_sent, delay_for, Carrier, Queues, Seen, FULL_PAYLOAD, FULL_WIRE, SHIPPED,
};
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::messages::{places, poisson, Done, Hosts, Message, WEB_SEARCH};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "two-way",
    title: "messages both ways over the same links, by default settings and one socket per host",
    source: "ExpressPass section 2.1 (a token's share leaves time for data alone)",
    run: |lab| run(lab, Duration::from_millis(80), 600, false),
};
pub(super) const LONG: Experiment = Experiment {
    name: "two-way-long",
    title: "the same for a second",
    source: EXPERIMENT.source,
    run: |lab| run(lab, Duration::from_secs(1), 3000, true),
};

const RATE: u64 = 10_000_000_000;
/// How often there is word of a part's progress, ns.
const TENTH: u64 = 100_000_000;
/// A token's way to the sender and its packet's way back, ns.
const RTT: u64 = 48_000;
const HOPS: u64 = 3;
/// Buffer of a switch's port, bytes.
const BUFFER: u32 = 128_000;
/// Hosts on either side.
const PAIRS: usize = 4;
/// Bytes of a message where links are to be saturated, at most.
const LONGEST: u64 = 25_000_000;
/// Payload each way, as parts of a link in the middle.
const LOADS: [f64; 2] = [0.6, 0.9];
/// The versions of IP, and what data have of a saturated link each way, at least: the tokens' share
/// leaves 94.8 %, of which ACKs, one for 16 packets, take 0.3 %. Over IPv6 both are 20 bytes
/// longer: 93.7 and 0.4 %; 92.9 is what they have in this long.
const FAMILIES: [(&str, f64); 2] = [("IPv4", 0.942), ("IPv6", 0.929)];

/// All messages one way and the other.
fn pairs() -> Vec<(usize, usize)> {
    let right = PAIRS..2 * PAIRS;
    let there = (0..PAIRS).flat_map(|from| right.clone().map(move |to| (from, to)));
    let there: Vec<_> = there.collect();
    let back = there.iter().map(|(from, to)| (*to, *from));
    back.chain(there.iter().copied()).collect()
}

/// What became of them, what the ports saw, and what data had of the link between `s1` and `s2` in
/// the middle half of so long, in the direction that had less.
fn send(
    lab: &Lab,
    fabric: &Fabric,
    (messages, family, name): (&[Message], &str, &str),
    lasts: Option<Duration>,
) -> Result<(Vec<Done>, Seen, Option<f64>)> {
    let queues = Queues::Tokens(SHIPPED.into());
    Carrier::Turnstile(String::new()).configure(fabric)?;
    queues.apply(fabric)?;
    let sockets = match family {
        "IPv6" => Hosts::open_v6(&places(fabric))?,
        _ => Hosts::open(&places(fabric))?,
    };
    sockets.meet(&pairs())?;
    queues.apply(fabric)?;
    let last = messages.iter().map(|message| message.at).max().unwrap_or(0);
    let patience = Duration::from_nanos(last) + Duration::from_secs(20);
    let start = clock::monotonic() + 20_000_000;
    let (over, events) = (AtomicBool::new(false), &lab.events);
    std::thread::scope(|scope| {
        let share = lasts.map(|lasts| scope.spawn(move || share(fabric, start, lasts)));
        // A tenth of a second takes minutes where the machine has other things to do.
        scope.spawn(|| {
            for tenth in 1.. {
                clock::sleep_until(start + tenth * TENTH);
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let text = format!("{name}: {} ms have passed", tenth * TENTH / 1_000_000);
                events.send(&Event::Progress { text });
            }
        });
        let done = sockets.run(messages, start, patience);
        over.store(true, Ordering::Relaxed);
        let done = done?;
        let share = match share.map(|share| share.join()) {
            Some(Ok(share)) => Some(share?),
            Some(Err(_)) => bail!("sampling the ports panicked"),
            None => None,
        };
        Ok((done, Seen::read(fabric)?, share))
    })
}

/// What data have of the link in the middle half of so long from `start` on.
fn share(fabric: &Fabric, start: u64, lasts: Duration) -> Result<f64> {
    let quarter = clock::nanos(lasts) / 4;
    let sent = |at: u64| -> Result<[u64; 2]> {
        clock::sleep_until(start + at);
        Ok([
            data_sent(fabric, ("s1", "s2"))?,
            data_sent(fabric, ("s2", "s1"))?,
        ])
    };
    let (before, after) = (sent(quarter)?, sent(3 * quarter)?);
    let least = before
        .iter()
        .zip(after)
        .map(|(before, after)| after - before);
    let least = least.min().unwrap_or(0) as f64;
    Ok(least * 8e9 / RATE as f64 / (2 * quarter) as f64)
}

/// Every host sends as much as one other, all at once, and all lasts for about so long.
fn saturated(lasts: Duration) -> Vec<Message> {
    let bytes = (lasts.as_secs_f64() * RATE as f64 / 8.0) as u64 / PAIRS as u64;
    let count = bytes.div_ceil(LONGEST);
    let bytes = bytes / count / FULL_WIRE * FULL_PAYLOAD;
    let there = (0..PAIRS).map(|host| (host, PAIRS + host));
    there
        .flat_map(|(a, b)| [(a, b), (b, a)])
        .flat_map(|(from, to)| (0..count).map(move |_| Message::new(from, to, bytes)))
        .collect()
}

/// `every`: over IPv6, too, what else is sent over IPv4 alone, to save time.
fn run(lab: &mut Lab, lasts: Duration, count: usize, every: bool) -> Result<()> {
    let link = Link::new(RATE, delay_for(RTT, HOPS, RATE)).buffer(BUFFER);
    let networks = [
        ("dumbbell", Plan::dumbbell(PAIRS, link, link)),
        ("leaf-spine", Plan::leaf_spine(2, 2, PAIRS, link, link)),
    ];
    let mut table = Table::new(
        "both ways at once",
        &[
            "network",
            "IP",
            "load each way",
            "messages",
            "data of the link, %",
            "goal",
            "data packets dropped",
            "longest data queue, kB",
            "unscheduled packets dropped",
            "tokens dropped",
        ],
    );
    for (name, plan) in networks {
        let fabric = plan.build()?;
        fabric.add_ipv6()?;
        let mut all = vec![("saturated".to_owned(), saturated(lasts))];
        for load in LOADS {
            // Of each leaf's to the spines; both ways.
            let links = if name == "dumbbell" { 2.0 } else { 4.0 };
            let rate = load * RATE as f64 * links;
            let drawn = poisson(&mut lab.rng, &WEB_SEARCH, &pairs(), count, rate);
            all.push((format!("{:.0} %", load * 100.0), drawn));
        }
        // Saturated over either, before hosts learn from what follows how long messages are: equal
        // ones have one priority then. Otherwise the first ones end early, and others, whose
        // tokens these displaced, take a round trip or two to follow each of them.
        let families = all.iter().flat_map(|(load, messages)| {
            FAMILIES.iter().map(move |family| (family, load, messages))
        });
        for (&(family, goal), load, messages) in families {
            if family == "IPv6" && !every && (name != "dumbbell" || load == "90 %") {
                continue;
            }
            let part = format!("{name}, {family}, {load}");
            lab.progress(&part);
            // Hosts' own links are the narrowest where there are two in the middle.
            let full = load == "saturated" && name == "dumbbell";
            let what = (messages.as_slice(), family, part.as_str());
            let (done, seen, share) = send(lab, &fabric, what, full.then_some(lasts))?;
            table.row(vec![
                name.into(),
                family.into(),
                load.as_str().into(),
                messages.len().into(),
                share.map_or("".into(), |share| number(share * 100.0, 2)),
                share.map_or("".into(), |_| number(goal * 100.0, 1)),
                seen.data_drops.into(),
                number(seen.longest as f64 / 1e3, 1),
                seen.unscheduled_drops.into(),
                seen.token_drops.into(),
            ]);
            lab.claim(
                format!("{name}, {family}, {load}: no data packet is dropped"),
                seen.data_drops == 0,
            );
            lab.claim(
                format!("{name}, {family}, {load}: every message arrives"),
                done.iter().all(|done| done.took.is_some()),
            );
            if let Some(share) = share {
                lab.claim(
                    format!(
                        "{name}, {family}, {load}: data have {:.1} % of the link each way",
                        goal * 100.0
                    ),
                    share >= goal,
                );
            }
        }
    }
    lab.report.tables.push(table);
    lab.report.notes.push(format!(
        "{PAIRS} and {PAIRS} hosts, links of 10 Gbit/s, {BUFFER} bytes in a switch's port; a \
         token's way and its packet's way back take {} us over the dumbbell. Saturated: every host \
         sends {} MB to one other and gets as much, in messages of at most {} MB that begin at the \
         same moment; otherwise lengths of {}, the load is \
         payload, as a part of the links in the middle. Data of the link: frames with preamble and \
         gap, of the direction that had less, in the middle half of the {} ms that they take",
        RTT / 1000,
        (lasts.as_secs_f64() * RATE as f64 / 8e6) as u64 / PAIRS as u64,
        LONGEST / 1_000_000,
        WEB_SEARCH.name,
        lasts.as_millis()
    ));
    Ok(())
}
