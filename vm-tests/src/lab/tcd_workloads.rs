// SPDX-License-Identifier: GPL-2.0
//! Published loads on a lossless leaf-spine network, with and without TCD (TCD figure 19).

use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::lab::{SetUpLines, Table};

use super::report::number;
use super::tcd::{mean, pairs, percentile, slowdowns, Way, TIMELY};
use super::{Experiment, Lab};
use crate::limits::more_files;
use crate::scenario::lossless::{queues, run as send, Marks, BUFFER, DELAY, THRESHOLD, XOFF};
use crate::scenario::Carrier;
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::messages::{poisson, Message, HADOOP, WEB_SEARCH};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcd-workloads",
    title: "Hadoop and web search on a lossless leaf-spine network, with and without TCD",
    source:
        "TCD section 5.2.3, figure 19: with TCD, TIMELY's 99th percentile of Hadoop's messages \
             below 50 KB is 36.6 times the ideal instead of 50.3",
    run,
};

/// bit/s.
const RATE: u64 = 40_000_000_000;
const LEAVES: usize = 3;
const SPINES: usize = 4;
/// Hosts of a leaf.
const HOSTS: usize = 4;
/// Payload, as a part of the hosts' links.
const LOAD: f64 = 0.6;
/// Between hosts of different leaves.
const WAY: Way = Way {
    rate: RATE,
    first: RATE,
    delay: DELAY,
    hops: 4,
};
/// Bytes: from, and below.
const CLASSES: [(&str, u64, u64); 4] = [
    ("below 50 KB", 0, 50_000),
    ("50 KB to 500 KB", 50_000, 500_000),
    ("500 KB and more", 500_000, u64::MAX),
    ("all", 0, u64::MAX),
];

/// Options that change one thing: how hard a sender cuts with TCD, or how soon TIMELY forgets.
const OTHERS: [(&str, Marks, &str); 4] = [
    (
        "TIMELY with TCD that cuts as without",
        Marks::Tcd,
        "policy timely tcd on timely-tcd-beta 800",
    ),
    (
        "DCQCN with TCD that cuts as without",
        Marks::Tcd,
        "policy dcqcn tcd on dcqcn-tcd-cut 1000",
    ),
    (
        "TIMELY with alpha 0.875",
        Marks::None,
        "policy timely tcd off timely-weight 875",
    ),
    (
        "the same with TCD",
        Marks::Tcd,
        "policy timely tcd on timely-weight 875 timely-tcd-beta 1600",
    ),
];
const BY_DEFAULT: &str = "timely-tcd-beta 1600 dcqcn-tcd-cut 1500 timely-weight 125";

fn run(lab: &mut Lab) -> Result<()> {
    // Some for each of the pairs of hosts.
    more_files(16_384)?;
    let link = Link::new(RATE, DELAY).buffer(BUFFER);
    let fabric = Plan::leaf_spine(LEAVES, SPINES, HOSTS, link, link).build()?;
    lab.report.setups.push(SetUpLines {
        title: "all ports, with TCD".into(),
        lines: queues(Marks::Tcd).example(&fabric),
    });
    let hosts = LEAVES * HOSTS;
    let mut pairs_of_hosts = Vec::new();
    for from in 0..hosts {
        let others = (0..hosts).filter(|to| to / HOSTS != from / HOSTS);
        pairs_of_hosts.extend(others.map(|to| (from, to)));
    }
    for (sizes, count) in [(&HADOOP, 1500), (&WEB_SEARCH, 300)] {
        let bits = LOAD * RATE as f64 * hosts as f64;
        let messages: Vec<Message> = poisson(&mut lab.rng, sizes, &pairs_of_hosts, count, bits);
        let mut table = Table::new(
            &format!("{}: slowdown against the wire's ideal", sizes.name),
            &[
                "sender",
                "messages",
                "number",
                "mean",
                "with TCD",
                "99 %",
                "with TCD ",
                "times better",
                "text",
            ],
        );
        for pair in pairs() {
            lab.progress(&format!("{}: {}", sizes.name, pair.name));
            let span = Duration::from_millis(400);
            let (marks, carrier) = &pair.plain;
            let plain = send(&fabric, (*marks, carrier), &messages, &[], span)?;
            lab.progress(&format!("{}: {} with TCD", sizes.name, pair.name));
            let (marks, carrier) = &pair.tcd;
            let with = send(&fabric, (*marks, carrier), &messages, &[], span)?;
            for (class, (name, from, below)) in CLASSES.iter().enumerate() {
                let plain = slowdowns(&plain.done, &WAY, (*from, *below));
                let with = slowdowns(&with.done, &WAY, (*from, *below));
                let better = percentile(&plain) / percentile(&with);
                let published = pair.name == TIMELY && class == 0 && sizes.name == HADOOP.name;
                table.row(vec![
                    pair.name.into(),
                    (*name).into(),
                    plain.len().into(),
                    number(mean(&plain), 2),
                    number(mean(&with), 2),
                    number(percentile(&plain), 2),
                    number(percentile(&with), 2),
                    number(better, 2),
                    match published {
                        true => number(50.3 / 36.6, 2),
                        false => "".into(),
                    },
                ]);
            }
            lab.claim(
                format!(
                    "{}, {}: nothing is dropped, all arrives",
                    sizes.name, pair.name
                ),
                plain.dropped + with.dropped == 0
                    && plain
                        .done
                        .iter()
                        .chain(&with.done)
                        .all(|it| it.took.is_some()),
            );
        }
        let why = why(lab, &fabric, (sizes.name, &messages))?;
        lab.report.tables.extend([table, why]);
    }
    lab.report.notes.push(format!(
        "{LEAVES} leaves of {HOSTS} hosts, {SPINES} spines, {} Gbit/s everywhere, links of {} us; \
         each message to another leaf; {LOAD} of the hosts' links, so that leaves' ways to spines \
         are asked for {} of what they carry. A pause at {} kB of each ingress, marks from {} kB \
         on",
        RATE / 1_000_000_000,
        DELAY / 1000,
        LOAD * HOSTS as f64 / SPINES as f64,
        XOFF / 1000,
        THRESHOLD / 1000
    ));
    Ok(())
}

/// What is left of TCD's effect where a mark cuts no harder than without it, and where TIMELY's
/// filter is as quick as *ECN or Delay* (CoNEXT 2016) has it.
fn why(lab: &mut Lab, fabric: &Fabric, (name, messages): (&str, &[Message])) -> Result<Table> {
    let mut heading = vec!["senders"];
    heading.extend(CLASSES.map(|(class, ..)| class));
    let title = format!("{name}: the 99th percentile of the slowdown");
    let mut table = Table::new(&title, &heading);
    for (sender, marks, words) in OTHERS {
        lab.progress(&format!("{name}: {sender}"));
        let carrier = Carrier::Turnstile(words.into());
        let span = Duration::from_millis(400);
        let outcome = send(fabric, (marks, &carrier), messages, &[], span)?;
        let mut cells = vec![sender.into()];
        cells.extend(CLASSES.map(|(_, from, below)| {
            let all = slowdowns(&outcome.done, &WAY, (from, below));
            number(percentile(&all), 2)
        }));
        table.row(cells);
        // What a carrier says to all hosts stays.
        for host in 0..LEAVES * HOSTS {
            let words = format!("turnstile transport set {BY_DEFAULT}");
            fabric.host(host).run(&words)?;
        }
    }
    Ok(table)
}
