// SPDX-License-Identifier: GPL-2.0
//! What TCD is for: messages that only share a paused link with those who are to blame (TCD figure
//! 18).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::lab::{SetUpLines, Table};

use super::report::number;
use super::tcd::{mean, pairs, percentile, slowdowns, Pair, Way, TIMELY};
use super::{Experiment, Lab};
use crate::scenario::lossless::{plan, queues, run as send, Marks, Outcome};
use crate::scenario::lossless::{A0, BUFFER, BURSTING, DELAY, P2, R0, R1, S0, S1};
use crate::scenario::lossless::{THRESHOLD, XOFF};
use crate::scenario::Carrier;
use crate::topology::Fabric;
use crate::traffic::messages::{poisson, Message, HADOOP};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcd-victim",
    title: "messages that share a paused link, with and without TCD",
    source: "TCD figure 18: with TCD, TIMELY's victims complete 2.2 times (below 10 KB) and 2.3 \
             times (above 1 MB) sooner in the mean; more bursts make more victims",
    run,
};

/// bit/s.
const RATE: u64 = 40_000_000_000;
/// From S0 to R0.
const WAY: Way = Way {
    rate: RATE,
    delay: DELAY,
    hops: 4,
};
/// How long it is looked at, ns.
const SPAN: u64 = 24_000_000;
/// How many victims there are at most, and what they ask of S0's link.
const VICTIMS: usize = 300;
const LOAD: f64 = 0.3;
/// Bytes of a burst of the table of all transports, and of the one of bursts.
const BURST: u64 = 64_000;
const BURSTS: [u64; 3] = [16_000, 64_000, 256_000];
/// What bursts ask of R1's link in the mean.
const BURST_LOAD: f64 = 0.9;
/// The rate below which nobody slows down by default, bit/s.
const SLOWEST: u64 = 10_000_000;
/// What S1 sends: more than it can.
const LONG: u64 = 1 << 29;

/// Bytes: from, and below.
const CLASSES: [(&str, u64, u64); 4] = [
    ("below 10 KB", 0, 10_000),
    ("10 KB to 100 KB", 10_000, 100_000),
    ("100 KB to 1 MB", 100_000, 1_000_000),
    ("1 MB and more", 1_000_000, u64::MAX),
];

fn run(lab: &mut Lab) -> Result<()> {
    let fabric = plan(RATE, RATE, BUFFER).build()?;
    lab.report.setups.push(SetUpLines {
        title: "all ports, with TCD".into(),
        lines: queues(Marks::Tcd).example(&fabric),
    });
    let victims = victims(lab);
    let mut table = Table::new(
        "victims: mean slowdown against the wire's ideal, without and with TCD",
        &[
            "sender",
            "messages",
            "number",
            "without",
            "with",
            "times better",
            "text",
            "99 %, without",
            "with ",
        ],
    );
    let mut marks = Table::new(
        "marks of the victims' packets, of 100, and what is dropped",
        &["sender", "CE without TCD", "CE", "UE", "dropped"],
    );
    for pair in pairs() {
        let name = pair.name;
        lab.progress(&format!("{name}, bursts of {} kB", BURST / 1000));
        let plain = measure(&fabric, &pair.plain, &victims, BURST)?;
        lab.progress(&format!("{name} with TCD"));
        let with = measure(&fabric, &pair.tcd, &victims, BURST)?;
        compare(lab, &mut table, &pair, &plain, &with);
        let [ce, _] = marked(&fabric, &plain);
        let [ce_with, ue] = marked(&fabric, &with);
        let dropped = plain.dropped + with.dropped;
        marks.row(vec![
            name.into(),
            number(ce * 100.0, 1),
            number(ce_with * 100.0, 1),
            number(ue * 100.0, 1),
            dropped.into(),
        ]);
        lab.claim(format!("{name}: no packet is dropped"), dropped == 0);
    }
    let mut bursts = Table::new(
        "TIMELY, by the size of the bursts: victims' mean slowdown",
        &["burst, kB", "without TCD", "with TCD", "victims with UE, %"],
    );
    let [timely, ..] = pairs();
    for burst in BURSTS {
        lab.progress(&format!("TIMELY, bursts of {} kB", burst / 1000));
        let plain = measure(&fabric, &timely.plain, &victims, burst)?;
        let with = measure(&fabric, &timely.tcd, &victims, burst)?;
        let [_, ue] = marked(&fabric, &with);
        bursts.row(vec![
            (burst / 1000).into(),
            number(mean(&slowdowns(&plain.done, &WAY, (0, u64::MAX))), 2),
            number(mean(&slowdowns(&with.done, &WAY, (0, u64::MAX))), 2),
            number(ue * 100.0, 1),
        ]);
    }
    let why = why(lab, &fabric, &victims)?;
    lab.report.tables.extend([table, marks, bursts, why]);
    lab.report.notes.push(format!(
        "40 Gbit/s, links of {} us, a pause at {} kB of each ingress, marks from {} kB on (without \
         TCD: of the queue alone). Victims: {VICTIMS} messages from S0 to R0, lengths of Hadoop, \
         {LOAD} of S0's link; S1 sends to R1 without end, so that the link that both share is \
         congested, too, when S1 may send as fast as it can; {BURSTING} hosts burst to R1 at once, \
         as often as makes {BURST_LOAD} of its link",
        DELAY / 1000,
        XOFF / 1000,
        THRESHOLD / 1000
    ));
    Ok(())
}

/// What is left of a victim's slowdown where it heeds no mark, so that only pauses and queues cost
/// it time; and where a mark cuts as it does without TCD.
fn why(lab: &mut Lab, fabric: &Fabric, victims: &[Message]) -> Result<Table> {
    let mut heading = vec!["senders, with TCD"];
    heading.extend(CLASSES.map(|(name, ..)| name));
    heading.extend(["CE", "UE, of 100"]);
    let mut table = Table::new("where the victims' time goes: mean slowdown", &heading);
    let mut row = |lab: &mut Lab, title: &str, words: &str| -> Result<()> {
        lab.progress(title);
        let sender = (Marks::Tcd, Carrier::Turnstile(words.into()));
        let outcome = measure(fabric, &sender, victims, BURST)?;
        let mut cells = vec![title.into()];
        cells.extend(CLASSES.map(|(_, from, below)| {
            number(mean(&slowdowns(&outcome.done, &WAY, (from, below))), 2)
        }));
        cells.extend(marked(fabric, &outcome).map(|part| number(part * 100.0, 1)));
        table.row(cells);
        Ok(())
    };
    // What a carrier says to all hosts leaves this as it is.
    let slowest = |rate: u64| {
        let words = format!("turnstile transport set minimum-rate {rate}bit");
        fabric.host(S0).run(&words)
    };
    for (name, words) in [
        (
            "TIMELY, but victims never slow down",
            "policy timely tcd on",
        ),
        ("DCQCN, but victims never slow down", "policy dcqcn tcd on"),
    ] {
        fabric
            .host(S0)
            .run(&format!("turnstile transport set {words}"))?;
        slowest(RATE)?;
        row(lab, name, words)?;
    }
    slowest(SLOWEST)?;
    row(
        lab,
        "DCQCN that cuts as without TCD",
        "policy dcqcn tcd on dcqcn-tcd-cut 1000",
    )?;
    Ok(table)
}

/// Those from S0 to R0, as long as they can end in time.
fn victims(lab: &mut Lab) -> Vec<Message> {
    let all = poisson(
        &mut lab.rng,
        &HADOOP,
        &[(S0, R0)],
        VICTIMS,
        LOAD * RATE as f64,
    );
    all.into_iter().filter(|it| it.at < SPAN).collect()
}

fn measure(
    fabric: &Fabric,
    (marks, carrier): &(Marks, Carrier),
    victims: &[Message],
    burst: u64,
) -> Result<Outcome> {
    let mut messages = victims.to_vec();
    messages.push(Message::new(S1, R1, LONG));
    let every = (burst * BURSTING as u64 * 8) as f64 * 1e9 / (BURST_LOAD * RATE as f64);
    let times = (1..).map(|n: u64| (n as f64 * every) as u64);
    for at in times.take_while(|at| *at < SPAN) {
        messages.extend((A0..A0 + BURSTING).map(|from| Message::new(from, R1, burst).at(at)));
    }
    let span = Duration::from_nanos(4 * SPAN);
    let mut outcome = send(fabric, (*marks, carrier), &messages, &[P2], span)?;
    outcome.done.retain(|done| done.message.from == S0);
    Ok(outcome)
}

fn compare(lab: &mut Lab, table: &mut Table, pair: &Pair, plain: &Outcome, with: &Outcome) {
    for (class, (name, from, below)) in CLASSES.iter().enumerate() {
        let plain = slowdowns(&plain.done, &WAY, (*from, *below));
        let with = slowdowns(&with.done, &WAY, (*from, *below));
        let better = mean(&plain) / mean(&with);
        let text = match (pair.name, class) {
            (TIMELY, 0) => Some(2.2),
            (TIMELY, 3) => Some(2.3),
            _ => None,
        };
        table.row(vec![
            pair.name.into(),
            (*name).into(),
            plain.len().into(),
            number(mean(&plain), 2),
            number(mean(&with), 2),
            number(better, 2),
            text.map_or("".into(), |text| number(text, 1)),
            number(percentile(&plain), 2),
            number(percentile(&with), 2),
        ]);
        // With the others it depends on the load: the table has it.
        if !with.is_empty() && pair.name == TIMELY {
            lab.claim(
                format!("{}, {name}: sooner with TCD", pair.name),
                better > 1.0,
            );
        }
    }
}

/// The parts of the victims' packets that left P2 with CE and with UE.
fn marked(fabric: &Fabric, outcome: &Outcome) -> [f64; 2] {
    const CE: u8 = 3;
    const UE: u8 = 1;
    let mut counts: BTreeMap<u8, u64> = BTreeMap::new();
    let from = fabric.address(S0);
    for it in outcome.passed.iter().flatten() {
        if it.from == from && it.left.is_some() {
            *counts.entry(it.ecn).or_default() += 1;
        }
    }
    let all: u64 = counts.values().sum();
    [CE, UE].map(|code| counts.get(&code).map_or(0.0, |n| *n as f64 / all as f64))
}
