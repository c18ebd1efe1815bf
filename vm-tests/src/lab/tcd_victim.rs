// SPDX-License-Identifier: GPL-2.0
//! What TCD is for: messages that only share a paused link with those who are to blame (TCD figure
//! 18).
//!
//! What goes to R0 are victims whatever their senders do: the links of all who send by t0 carry no
//! more together than one of the others, so that no port on their way to R0 is ever offered more
//! than it carries. P2 is paused since S1 sends to R1 whenever others burst to it. Those heed
//! nothing, so that pauses are the same for all transports.
//!
//! In the text one host, S0, sends all that are victims. Here there are some hosts in its place,
//! each with a part of its link, so that a row can tell what short messages wait for that have a
//! host of their own.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use turnstile_core::port::uapi::band_stat;
use turnstile_test_protocol::lab::{SetUpLines, Table};

use super::report::number;
use super::tcd::{mean, pairs, percentile, slowdowns, Pair, Way, DCTCP, TIMELY};
use super::{Experiment, Lab};
use crate::limits::more_files;
use crate::recorder::Passage;
use crate::scenario::lossless::{plan_with, queues, run_beside as send, Beside, Marks, Outcome};
use crate::scenario::lossless::{A0, BUFFER, BURSTING, DELAY, MORE0, P2, PERCENT, R0, R1, S1};
use crate::scenario::lossless::{THRESHOLD, XOFF};
use crate::scenario::Carrier;
use crate::topology::Fabric;
use crate::traffic::messages::{poisson, Message, HADOOP};
use crate::traffic::{Flow, Packet};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tcd-victim",
    title: "messages that share a paused link, with and without TCD",
    source: "TCD figure 18: with TCD, TIMELY's victims complete 2.2 times (below 10 KB) and 2.3 \
             times (above 1 MB) sooner in the mean; more bursts make more victims",
    run,
};

/// bit/s.
const RATE: u64 = 40_000_000_000;
/// Of S1's link.
const RATE_OF_S1: u64 = RATE * PERCENT / 100;
/// Who stands for S0, and what their links carry: with S1's, as much as t0's to l0.
const SENDERS: usize = 4;
const RATE_OF_EACH: u64 = (RATE - RATE_OF_S1) / SENDERS as u64;
/// From them to R0.
const WAY: Way = Way {
    rate: RATE,
    first: RATE_OF_EACH,
    delay: DELAY,
    hops: 4,
};
/// How often victims are drawn.
const DRAWS: usize = 3;
/// How long victims begin, ns.
const SPAN: u64 = 40_000_000;
/// What victims ask of these links.
const LOAD: f64 = 0.3;
/// Bytes of a burst of the table of all transports, and of the one of bursts.
const BURST: u64 = 64_000;
const BURSTS: [u64; 3] = [16_000, BURST, 256_000];
/// Bytes that S1 sends with each burst.
const BURST_OF_S1: u64 = 128_000;
/// What all of this asks of R1's link in the mean.
const BURST_LOAD: f64 = 0.4;
/// Where bursts go: nobody reads them.
const DISCARD: u16 = 9;
/// The rate below which nobody slows down by default, bit/s.
const SLOWEST: u64 = 10_000_000;

/// Bytes of messages that live long enough to be slowed down.
const LONG: u64 = 100_000;
/// Bytes: from, and below.
const CLASSES: [(&str, u64, u64); 4] = [
    ("below 10 KB", 0, 10_000),
    ("10 KB to 100 KB", 10_000, 100_000),
    ("100 KB to 1 MB", 100_000, 1_000_000),
    ("1 MB and more", 1_000_000, u64::MAX),
];

/// ECN's code points.
const CE: u8 = 3;
const ECT: u8 = 2;
const UE: u8 = 1;

fn run(lab: &mut Lab) -> Result<()> {
    // A burst is a flow of its own.
    more_files(16_384)?;
    let fabric = plan_with(RATE, RATE_OF_S1, (SENDERS, RATE_OF_EACH), BUFFER).build()?;
    let _deaf = fabric.host(R1).enter(|| {
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, DISCARD)).context("binding the receiver")
    })?;
    lab.report.setups.push(SetUpLines {
        title: "all ports, with TCD".into(),
        lines: queues(Marks::Tcd).example(&fabric),
    });
    let draws: Vec<Vec<Message>> = (0..DRAWS).map(|_| victims(lab)).collect();
    let mut table = Table::new(
        "victims: mean slowdown against the wire's ideal, without and with TCD; medians of draws",
        &[
            "sender",
            "messages",
            "number",
            "without",
            "with",
            "times better",
            "least",
            "most",
            "text",
            "99 %, without",
            "with ",
        ],
    );
    let mut marks = Table::new(
        "P2, and the victims' packets that leave it, of 100",
        &[
            "sender",
            "paused, times",
            "of the time, %",
            "CE of P2",
            "CE of any",
            "UE of P2",
            "UE of any",
            "with UE, of 100 victims",
            "others under way as one below 10 KB begins",
            "dropped",
        ],
    );
    let mut timely = None;
    for pair in pairs() {
        let name = pair.name;
        let plain = all(lab, &fabric, name, &pair.plain, &draws, BURST)?;
        let title = format!("{name} with TCD");
        let with = all(lab, &fabric, &title, &pair.tcd, &draws, BURST)?;
        compare(lab, &mut table, &pair, &plain, &with);
        for (title, outcomes) in [(name, &plain), (&title, &with)] {
            marks.row(Seen::of(&fabric, outcomes).row(title));
        }
        let dropped: u64 = plain.iter().chain(&with).map(|it| it.dropped).sum();
        lab.claim(format!("{name}: no packet is dropped"), dropped == 0);
        lab.claim(
            format!("{name} with TCD: P2 marks no victim CE"),
            Seen::of(&fabric, &with).ce[0] == 0.0,
        );
        if name == TIMELY {
            timely = Some((plain, with));
        }
    }
    let mut bursts = Table::new(
        "TIMELY, by the size of the bursts: victims' mean slowdown, medians of draws",
        &[
            "burst, kB",
            "without TCD",
            "with TCD",
            "P2 paused, of the time, %",
            "with UE, of 100 victims",
        ],
    );
    let [pair, ..] = pairs();
    for burst in BURSTS {
        let known = timely.take_if(|_| burst == BURST);
        let (plain, with) = match known {
            Some(known) => known,
            None => {
                let title = format!("TIMELY, bursts of {} kB", burst / 1000);
                let plain = all(lab, &fabric, &title, &pair.plain, &draws, burst)?;
                let with = all(lab, &fabric, &title, &pair.tcd, &draws, burst)?;
                (plain, with)
            }
        };
        let seen = Seen::of(&fabric, &with);
        bursts.row(vec![
            (burst / 1000).into(),
            number(median(&means(&plain, (0, u64::MAX))), 2),
            number(median(&means(&with, (0, u64::MAX))), 2),
            number(seen.paused * 100.0, 1),
            number(seen.with_ue * 100.0, 1),
        ]);
    }
    let apart = apart(lab, &fabric, &draws)?;
    let why = why(lab, &fabric, &draws)?;
    drop(fabric);
    let alone = alone(lab, &draws)?;
    let tables = [table, marks, bursts, apart, why, alone];
    lab.report.tables.extend(tables);
    lab.report.notes.push(format!(
        "40 Gbit/s, but S1's link has {PERCENT} % of that, and those of the {SENDERS} hosts in the \
         place of S0 what is left of it; links of {} us, a pause at {} kB of each ingress, marks \
         from {} kB on (without TCD: of the queue alone). Victims: messages from these to R0 for \
         {} ms, lengths of Hadoop, {LOAD} of their links, {DRAWS} draws. {BURSTING} hosts burst to \
         R1 at once, and S1 {} kB, UDP that heeds nothing, as often as makes {BURST_LOAD} of R1's \
         link. Least and most: of the draws. CE of any: on their way up to P2, P2 included; a \
         victim has UE if one of its packets left P2 with it (with TCP, a connection, which \
         carries several)",
        DELAY / 1000,
        XOFF / 1000,
        THRESHOLD / 1000,
        SPAN / 1_000_000,
        BURST_OF_S1 / 1000,
    ));
    Ok(())
}

/// Those of less than [`LONG`] bytes are from a host of their own, so that they share no host's
/// link with long ones.
fn apart(lab: &mut Lab, fabric: &Fabric, draws: &[Vec<Message>]) -> Result<Table> {
    let mut table = Table::new(
        "short messages from a host of their own: mean slowdown, medians of draws",
        &["sender", "messages", "without", "with", "times better"],
    );
    let mut all_short = 0;
    let draws: Vec<Vec<Message>> = draws
        .iter()
        .map(|draw| {
            let of_host = |message: &Message| {
                let from = match message.bytes < LONG {
                    true => MORE0,
                    false => MORE0 + 1 + message.from % (SENDERS - 1),
                };
                all_short += usize::from(from == MORE0);
                Message { from, ..*message }
            };
            draw.iter().map(of_host).collect()
        })
        .collect();
    for pair in pairs() {
        let title = format!("{}, short ones apart", pair.name);
        let plain = all(lab, fabric, &title, &pair.plain, &draws, BURST)?;
        let title = format!("{} with TCD, short ones apart", pair.name);
        let with = all(lab, fabric, &title, &pair.tcd, &draws, BURST)?;
        for (name, from, below) in CLASSES {
            let [without, tcd] = [&plain, &with].map(|it| means(it, (from, below)));
            let better: Vec<f64> = without.iter().zip(&tcd).map(|(a, b)| a / b).collect();
            table.row(vec![
                pair.name.into(),
                name.into(),
                number(median(&without), 2),
                number(median(&tcd), 2),
                number(median(&better), 2),
            ]);
        }
    }
    lab.report.notes.push(format!(
        "{all_short} of the victims have less than {} KB",
        LONG / 1000
    ));
    Ok(table)
}

/// What is left of a victim's slowdown where it heeds no mark, so that only pauses and queues cost
/// it time; and where a mark cuts as it does without TCD.
fn why(lab: &mut Lab, fabric: &Fabric, draws: &[Vec<Message>]) -> Result<Table> {
    let mut heading = vec!["senders, with TCD"];
    heading.extend(CLASSES.map(|(name, ..)| name));
    heading.extend(["CE", "UE, of 100"]);
    let mut table = Table::new(
        "where the victims' time goes: mean slowdown, medians of draws",
        &heading,
    );
    let mut row = |lab: &mut Lab, title: &str, words: &str| -> Result<()> {
        let sender = (Marks::Tcd, Carrier::Turnstile(words.into()));
        let outcomes = all(lab, fabric, title, &sender, draws, BURST)?;
        let mut cells = vec![title.into()];
        cells.extend(CLASSES.map(|(_, from, below)| {
            let means = means(&outcomes, (from, below));
            number(median(&means), 2)
        }));
        let seen = Seen::of(fabric, &outcomes);
        cells.extend([seen.ce[1], seen.ue[1]].map(|part| number(part * 100.0, 1)));
        table.row(cells);
        Ok(())
    };
    // What a carrier says to all hosts leaves this as it is.
    let tell = |words: &str| -> Result<()> {
        for host in senders() {
            let words = format!("turnstile transport set {words}");
            fabric.host(host).run(&words)?;
        }
        Ok(())
    };
    let slowest = |rate: u64| tell(&format!("minimum-rate {rate}bit"));
    for (name, words) in [
        (
            "TIMELY, but victims never slow down",
            "policy timely tcd on",
        ),
        ("DCQCN, but victims never slow down", "policy dcqcn tcd on"),
    ] {
        tell(words)?;
        slowest(RATE_OF_EACH)?;
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

/// As in the text: one host, S0, sends all; and TIMELY with an alpha of 0.875, as *ECN or Delay*
/// (CoNEXT 2016) has it.
fn alone(lab: &mut Lab, draws: &[Vec<Message>]) -> Result<Table> {
    let rate = RATE - RATE_OF_S1;
    let way = Way { first: rate, ..WAY };
    let fabric = plan_with(RATE, RATE_OF_S1, (1, rate), BUFFER).build()?;
    let _deaf = fabric.host(R1).enter(|| {
        UdpSocket::bind((Ipv4Addr::UNSPECIFIED, DISCARD)).context("binding the receiver")
    })?;
    let of_one = |draw: &Vec<Message>| -> Vec<Message> {
        let all = draw.iter();
        all.map(|it| Message { from: MORE0, ..*it }).collect()
    };
    let draws: Vec<_> = draws.iter().map(of_one).collect();
    let mut heading = vec!["TIMELY, one host sends"];
    heading.extend(CLASSES.map(|(name, ..)| name));
    let mut table = Table::new(
        "all victims from one host: mean slowdown, medians of draws",
        &heading,
    );
    for (title, marks, words) in [
        ("without TCD", Marks::None, "policy timely tcd off"),
        ("with TCD", Marks::Tcd, "policy timely tcd on"),
        (
            "alpha 0.875, without TCD",
            Marks::None,
            "policy timely tcd off timely-weight 875",
        ),
        (
            "alpha 0.875, with TCD",
            Marks::Tcd,
            "policy timely tcd on timely-weight 875",
        ),
    ] {
        let sender = (marks, Carrier::Turnstile(words.into()));
        let outcomes = all(
            lab,
            &fabric,
            &format!("one host, {title}"),
            &sender,
            &draws,
            BURST,
        )?;
        let mut cells = vec![title.into()];
        cells.extend(CLASSES.map(|(_, from, below)| {
            let each = outcomes
                .iter()
                .map(|it| slowdowns(&it.done, &way, (from, below)));
            let means: Vec<f64> = each
                .filter(|all| !all.is_empty())
                .map(|all| mean(&all))
                .collect();
            number(median(&means), 2)
        }));
        table.row(cells);
    }
    Ok(table)
}

/// The victims' senders.
fn senders() -> Range<usize> {
    MORE0..MORE0 + SENDERS
}

/// Those from them to R0.
fn victims(lab: &mut Lab) -> Vec<Message> {
    /// More than begin in the time.
    const MANY: usize = 1000;
    let load = LOAD * (RATE_OF_EACH * SENDERS as u64) as f64;
    let pairs: Vec<_> = senders().map(|from| (from, R0)).collect();
    let all = poisson(&mut lab.rng, &HADOOP, &pairs, MANY, load);
    all.into_iter().filter(|it| it.at < SPAN).collect()
}

/// All draws.
fn all(
    lab: &Lab,
    fabric: &Fabric,
    title: &str,
    sender: &(Marks, Carrier),
    draws: &[Vec<Message>],
    burst: u64,
) -> Result<Vec<Outcome>> {
    let draws = draws.iter().enumerate().map(|(number, victims)| {
        lab.progress(&format!("{title}: draw {} of {DRAWS}", number + 1));
        measure(fabric, sender, victims, burst)
    });
    draws.collect()
}

fn measure(
    fabric: &Fabric,
    (marks, carrier): &(Marks, Carrier),
    victims: &[Message],
    burst: u64,
) -> Result<Outcome> {
    let bytes = burst * BURSTING as u64 + BURST_OF_S1;
    let every = (bytes * 8) as f64 * 1e9 / (BURST_LOAD * RATE as f64);
    let times = (1..).map(|n: u64| (n as f64 * every) as u64);
    let times: Vec<u64> = times.take_while(|at| *at < SPAN).collect();
    let bursts = |from: usize, bytes: u64| {
        let stream = u16::try_from(from).unwrap_or(u16::MAX);
        let mut flow = Flow::new(stream, Packet::Other, fabric.address(R1));
        flow.to.set_port(DISCARD);
        flow.ecn = ECT;
        let packets = bytes / flow.payload as u64;
        let begins = times.iter().map(|at| Duration::from_nanos(*at));
        let flows = begins.map(|at| flow.clone().burst(packets).window(at, Duration::MAX));
        (from, flows.collect())
    };
    let mut flows: Vec<_> = (A0..A0 + BURSTING)
        .map(|from| bursts(from, burst))
        .collect();
    flows.push(bursts(S1, BURST_OF_S1));
    let beside = Beside {
        flows,
        ..Beside::default()
    };
    let span = Duration::from_nanos(4 * SPAN);
    send(fabric, (*marks, carrier), victims, &[P2], beside, span)
}

/// The mean slowdown of messages of that length in each draw that has any.
fn means(outcomes: &[Outcome], class: (u64, u64)) -> Vec<f64> {
    let all = outcomes.iter().map(|it| slowdowns(&it.done, &WAY, class));
    all.filter(|all| !all.is_empty())
        .map(|all| mean(&all))
        .collect()
}

/// The middle one; of an even number the lower one of the two.
fn median(all: &[f64]) -> f64 {
    let mut all = all.to_vec();
    all.sort_by(f64::total_cmp);
    all.get(all.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(0.0)
}

fn compare(lab: &mut Lab, table: &mut Table, pair: &Pair, plain: &[Outcome], with: &[Outcome]) {
    for (class, (name, from, below)) in CLASSES.iter().enumerate() {
        let class_of = (*from, *below);
        let [without, tcd] = [plain, with].map(|outcomes| means(outcomes, class_of));
        let better: Vec<f64> = without.iter().zip(&tcd).map(|(a, b)| a / b).collect();
        let together = |outcomes: &[Outcome]| {
            let done: Vec<_> = outcomes.iter().flat_map(|it| it.done.clone()).collect();
            slowdowns(&done, &WAY, class_of)
        };
        let [slow, slow_with] = [plain, with].map(together);
        let text = match (pair.name, class) {
            (TIMELY, 0) => Some(2.2),
            (TIMELY, 3) => Some(2.3),
            _ => None,
        };
        let least = better.iter().copied().fold(f64::INFINITY, f64::min);
        let most = better.iter().copied().fold(0.0, f64::max);
        table.row(vec![
            pair.name.into(),
            (*name).into(),
            slow.len().into(),
            number(median(&without), 2),
            number(median(&tcd), 2),
            number(median(&better), 2),
            number(least, 2),
            number(most, 2),
            text.map_or("".into(), |text| number(text, 1)),
            number(percentile(&slow), 2),
            number(percentile(&slow_with), 2),
        ]);
        // Shorter ones are over before they are told of a mark, and share their host's link with
        // long ones that are not slowed down: the table has it, as it has DCTCP, whose marks are
        // its own hosts' ports'.
        if *from >= LONG && pair.name != DCTCP {
            lab.claim(
                format!("{}, {name}: sooner with TCD", pair.name),
                median(&better) > 1.0,
            );
        }
    }
}

/// How many other victims are under way as each of the shortest begins.
fn others(outcome: &Outcome) -> Vec<f64> {
    let all = &outcome.done;
    let under_way = |from: usize, at: u64| {
        let some = all.iter().filter(|it| {
            let end = it.took.map_or(u64::MAX, |took| it.message.at + took);
            it.message.from == from && it.message.at < at && at < end
        });
        some.count() as f64
    };
    let short = all.iter().filter(|it| it.message.bytes < CLASSES[0].2);
    short
        .map(|it| under_way(it.message.from, it.message.at))
        .collect()
}

/// What was seen at P2, over all draws.
struct Seen {
    /// How often it was paused, and which part of the time.
    pauses: u64,
    paused: f64,
    /// The parts of the victims' packets with these marks: of P2, and of any port.
    ce: [f64; 2],
    ue: [f64; 2],
    /// The part of the victims that had UE.
    with_ue: f64,
    /// As one of the shortest begins, so many others of its sender's are under way in the mean:
    /// TIMELY gives each an equal part of the link at first.
    others: f64,
    dropped: u64,
}

impl Seen {
    fn of(fabric: &Fabric, outcomes: &[Outcome]) -> Self {
        let from: Vec<_> = senders().map(|host| fabric.address(host)).collect();
        let victims = |outcome: &Outcome| -> Vec<Passage> {
            let all = outcome.passed.iter().flatten();
            all.filter(|it| from.contains(&it.from) && it.left.is_some())
                .cloned()
                .collect()
        };
        let (mut packets, mut counts) = (0, [0; 4]);
        let (mut flows, mut marked) = (0, 0);
        for outcome in outcomes {
            let all = victims(outcome);
            packets += all.len();
            let count =
                |which: &dyn Fn(&Passage) -> bool| all.iter().filter(|it| which(it)).count();
            for (at, code) in [CE, UE].into_iter().enumerate() {
                counts[at * 2] += count(&|it| it.ecn == code && it.before != code);
                counts[at * 2 + 1] += count(&|it| it.ecn == code);
            }
            let ports = |which: &dyn Fn(&Passage) -> bool| {
                let some = all.iter().filter(|it| which(it));
                let some = some.map(|it| (it.from, it.port));
                some.collect::<BTreeSet<_>>().len()
            };
            flows += ports(&|_| true);
            marked += ports(&|it| it.ecn == UE);
        }
        let counted = |number: u16| -> u64 {
            let all = outcomes.iter().flat_map(|it| &it.counted);
            all.map(|stats| stats.app(number)).sum()
        };
        let lasted: u64 = outcomes.iter().map(|it| it.lasted).sum();
        let part = |some: usize, of: usize| some as f64 / of.max(1) as f64;
        let [ce_own, ce, ue_own, ue] = counts.map(|count| part(count, packets));
        Self {
            pauses: counted(band_stat::PFC_PAUSES),
            paused: counted(band_stat::PFC_TIME) as f64 / lasted.max(1) as f64,
            ce: [ce_own, ce],
            ue: [ue_own, ue],
            with_ue: part(marked, flows),
            others: mean(&outcomes.iter().flat_map(others).collect::<Vec<_>>()),
            dropped: outcomes.iter().map(|it| it.dropped).sum(),
        }
    }

    fn row(&self, title: &str) -> Vec<Value> {
        let parts = [
            self.paused,
            self.ce[0],
            self.ce[1],
            self.ue[0],
            self.ue[1],
            self.with_ue,
        ];
        let mut cells = vec![title.into(), self.pauses.into()];
        cells.extend(parts.map(|part| number(part * 100.0, 1)));
        cells.push(number(self.others, 2));
        cells.push(self.dropped.into());
        cells
    }
}
