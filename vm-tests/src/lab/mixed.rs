// SPDX-License-Identifier: GPL-2.0
//! Short and long messages at once: the load of a web search over one link, with Turnstile's
//! transport, TCP and DCTCP.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, SetUpLines, Style, Table};

use super::report::{number, rounded};
use super::{Experiment, Lab};
use crate::scenario::mixed::{run as measure, Load, Outcome, Way};
use crate::scenario::{delay_for, Carrier, Queues, RTO, THRESHOLD};
use crate::topology::Link;
use crate::traffic::messages::{summary, Class, WEB_SEARCH};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mixed",
    title: "messages of a web search at 60 % load: completion times with Turnstile, TCP and DCTCP",
    source: "TOP section 5.2 (Poisson arrivals at load 0.6 over a dumbbell); DCTCP fig. 4 \
             (lengths); the goals are the project's",
    run,
};

const RATE: u64 = 10_000_000_000;
/// A token's way to the sender and its packet's way back, ns.
const RTT: u64 = 48_000;
/// Buffer of a switch's port, bytes.
const BUFFER: u32 = 128_000;
/// TOP's priority function for these lengths (section 3.2: its parameters are for the workload):
/// messages of up to 54 packets, of 148, 403, and so on to 21980 packets.
const PRIORITIES: &str = "priorities 8 priority-packets 3000 priority-a 50";
/// The default, set explicitly because settings of the previous set-up would stay.
const DEFAULT_PRIORITIES: &str = "priorities auto";
/// Messages: fewer than the 1000 of TOP section 5.2, to save time.
const COUNT: usize = 300;

const CLASSES: [Class; 4] = [
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
        name: "100 KB and more",
        from: 100_000,
        below: u64::MAX,
    },
    Class {
        name: "all",
        from: 0,
        below: u64::MAX,
    },
];
/// Goals for the slowdown, mean and 99th percentile, by class.
const GOALS: [Option<(f64, f64)>; 4] = [Some((1.2, 3.0)), None, None, Some((1.6, 7.0))];
/// Number of draws that the mean of all messages is taken over.
const DRAWS: u32 = 3;
/// The set-up that the goals are for.
const BEST: &str = "turnstile";

fn run(lab: &mut Lab) -> Result<()> {
    let link = Link::new(RATE, delay_for(RTT, 3, RATE)).buffer(BUFFER);
    let load = Load {
        pairs: 4,
        link,
        sizes: WEB_SEARCH,
        count: COUNT,
        load: 0.6,
        channels: 16,
        patience: Duration::from_secs(5),
        pause: Duration::from_millis(20),
    };
    let messages = load.messages(&mut lab.rng);
    let fabric = load.plan().build()?;
    let mut queues = Table::new(
        "the ports",
        &[
            "transport",
            "data packets dropped",
            "goal",
            "longest data queue, kB",
            "at",
            "unscheduled packets dropped",
            "tokens dropped",
        ],
    );
    let mut plot = Plot::new(
        "mean slowdown",
        "messages by length, %",
        "completion / completion alone",
        Style::Steps,
    );
    let mut tables: Vec<Table> = CLASSES
        .iter()
        .map(|class| {
            Table::new(
                &format!("messages {}", class.name),
                &[
                    "transport",
                    "messages",
                    "not there in time",
                    "slowdown, mean",
                    "goal",
                    "slowdown, 99 %",
                    "goal",
                    "time, mean, us",
                    "median",
                    "99 %",
                ],
            )
        })
        .collect();
    // The 99th percentiles of slowdowns, ours and others', by the classes that have goals.
    let mut slow: BTreeMap<&str, [Vec<(&str, f64)>; 2]> = BTreeMap::new();
    let all = |outcome: &Outcome| {
        let [.., class] = CLASSES;
        summary(class, &outcome.done, &outcome.alone).slowdown_mean
    };
    let mut means = Vec::new();
    for way in ways() {
        lab.progress(&format!("{}: {COUNT} messages", way.title));
        lab.report.setups.push(SetUpLines {
            title: format!("{}: {}", way.name, way.title),
            lines: way.queues.example(&fabric),
        });
        let outcome = measure(&fabric, &load, &way, &messages)?;
        for ((class, goal), table) in CLASSES.into_iter().zip(GOALS).zip(&mut tables) {
            let summary = summary(class, &outcome.done, &outcome.alone);
            if let Some((mean, most)) = goal {
                let [ours, others] = slow.entry(class.name).or_default();
                let figures = match way.carrier {
                    Carrier::Turnstile(_) => ours,
                    Carrier::Tcp(..) => others,
                };
                figures.push((way.name, summary.slowdown_p99));
                if way.name == BEST {
                    let times = |of| {
                        format!(
                            "{BEST}: messages {}: the slowdown's {of} is within the goal",
                            class.name
                        )
                    };
                    // A few long messages dominate the mean of all 300, so that goal is for several
                    // draws.
                    if class.below < u64::MAX {
                        lab.claim(times("mean"), summary.slowdown_mean <= mean);
                    }
                    // The 99th percentile of all 300 is the third slowest and depends on the seed;
                    // that of short ones hardly does.
                    if class.from == 0 && class.below < u64::MAX {
                        lab.claim(times("99th percentile"), summary.slowdown_p99 <= most);
                    }
                }
            }
            let goal = |pick: fn((f64, f64)) -> f64| {
                goal.map_or_else(|| "".into(), |goal| number(pick(goal), 1))
            };
            table.row(vec![
                way.name.into(),
                summary.messages.into(),
                summary.missing.into(),
                number(summary.slowdown_mean, 2),
                goal(|goal| goal.0),
                number(summary.slowdown_p99, 2),
                goal(|goal| goal.1),
                number(summary.time_mean_us, 1),
                number(summary.time_median_us, 1),
                number(summary.time_p99_us, 1),
            ]);
        }
        queues.row(vec![
            way.name.into(),
            outcome.seen.data_drops.into(),
            0.into(),
            number(outcome.seen.longest as f64 / 1e3, 1),
            outcome.seen.longest_at.clone().into(),
            outcome.seen.unscheduled_drops.into(),
            outcome.seen.token_drops.into(),
        ]);
        if let Carrier::Turnstile(_) = way.carrier {
            lab.claim(
                format!("{}: no data packet is dropped", way.name),
                outcome.seen.data_drops == 0,
            );
            lab.claim(
                format!("{}: every message arrives", way.name),
                outcome.done.iter().all(|done| done.took.is_some()),
            );
        }
        plot.series(way.name, by_length(&outcome));
        if way.name == BEST {
            means.push(all(&outcome));
            for draw in 2..=DRAWS {
                lab.progress(&format!("{}: draw {draw} of {DRAWS}", way.title));
                let messages = load.messages(&mut lab.rng);
                means.push(all(&measure(&fabric, &load, &way, &messages)?));
            }
        }
    }
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    lab.report.notes.push(format!(
        "{BEST}: the slowdown of all messages in {DRAWS} draws of {COUNT}: {means:.2?}, {mean:.2} \
         in the mean"
    ));
    let [.., goal] = GOALS;
    lab.claim(
        format!("{BEST}: messages all, {DRAWS} draws: the slowdown's mean is within the goal"),
        goal.is_some_and(|(goal, _)| mean <= goal),
    );
    for (class, [ours, others]) in &slow {
        for (own, slowdown) in ours {
            for (other, more) in others {
                lab.claim(
                    format!(
                        "{own}: messages {class}: the 99th percentile of the slowdown is lower \
                             than with {other}"
                    ),
                    slowdown < more,
                );
            }
        }
    }
    lab.report.tables.extend(tables);
    lab.report.tables.push(queues);
    lab.report.plots.push(plot);
    lab.report.notes.push(format!(
        "4 and 4 hosts, links of 10 Gbit/s; a token's way and its packet's way back take {} us. \
         The load is payload, as a part of the middle link. Times \
         are those of the receiving application, from when the message was asked for; alone: the \
         same length on the idle network, by the same transport",
        RTT / 1000
    ));
    lab.report.notes.push(
        "TCP's connections are up beforehand, and a message takes an idle one; the shortest \
         retransmission timeout is 4 ms, a tick"
            .into(),
    );
    Ok(())
}

fn ways() -> [Way; 4] {
    const TOP: &str = "policy top link 10gbit base-rtt 48us unscheduled 8";
    [
        Way {
            name: BEST,
            title: "Turnstile, policy top; ports take unscheduled packets as data; priorities for \
                    these lengths",
            queues: Queues::Tokens("priorities 8 unscheduled off".into()),
            carrier: Carrier::Turnstile(format!("{TOP} {PRIORITIES}")),
        },
        Way {
            name: "by default",
            title: "Turnstile, policy top; switches' ports hold one unscheduled packet, below all \
                    data (TOP section 4.4); priorities by the lengths that came",
            queues: Queues::Tokens("unscheduled 1".into()),
            carrier: Carrier::Turnstile(format!("{TOP} {DEFAULT_PRIORITIES}")),
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

/// The mean slowdown of each tenth of the messages, from the shortest to the longest.
fn by_length(outcome: &Outcome) -> Vec<(f64, f64)> {
    const PARTS: usize = 10;
    let mut all: Vec<(u64, f64)> = outcome
        .done
        .iter()
        .filter_map(|done| {
            let bytes = done.message.bytes;
            Some((bytes, done.took? as f64 / outcome.alone.time(bytes)))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut points = Vec::new();
    for part in 0..PARTS {
        let slice = &all[all.len() * part / PARTS..all.len() * (part + 1) / PARTS];
        let mean = slice.iter().map(|(_, slow)| slow).sum::<f64>() / slice.len().max(1) as f64;
        points.push((100.0 * part as f64 / PARTS as f64, rounded(mean, 3)));
    }
    if let Some(&(_, last)) = points.last() {
        points.push((100.0, last));
    }
    points
}
