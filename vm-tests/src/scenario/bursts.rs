// SPDX-License-Identifier: GPL-2.0
//! Bursts of flows that join one on its link and leave (REN sections 2.3 and 5.2).

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use turnstile_core::port::uapi::band_stat;

use super::flows::{self, Passed, ENDLESS};
use super::{delay_for, Carrier, Queues, Seen, FULL_WIRE, LEAD};
use crate::clock;
use crate::raw_netlink::Tc;
use crate::recorder::{lengths, mean, passages, Recorder, Unit};
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::messages::{places, Message, Messages};
use crate::traffic::Packet;

/// bit/s of all links (REN section 2.3).
pub const RATE: u64 = 10_000_000_000;
/// A grant's way to the sender and its packet's way back, ns (REN section 5.2).
pub const RTT: u64 = 48_000;
/// Full packets that a link carries in a round trip.
pub const BDP: u64 = RATE / 8 * RTT / 1_000_000_000 / FULL_WIRE;
/// How long a burst's flows stay, and for how long the first flow is alone before each and after
/// the last, round trips.
pub const STAYS: u64 = 40;
/// The options of `tc-configs/ren-port.sh` besides rate and period.
const PORT: &str =
    "tokens 20% priorities 1 token-limit 1024 token-expiry off order tokens-first unscheduled off";
/// The port that is observed.
const AT: (&str, &str) = ("s1", "s2");

/// One burst, as the port saw it. Times are ns after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// When its first packet came.
    pub came: u64,
    /// When its last packet left.
    pub gone: u64,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The port's data queue at each change: ns after the start, packets.
    pub queue: Vec<(u64, u64)>,
    /// The first flow's packets when they left the port.
    pub first: Vec<Passed>,
    /// The bursts.
    pub bursts: Vec<Burst>,
    /// The statistics of all ports.
    pub seen: Seen,
    /// The port's lines for `tc`.
    pub lines: Vec<String>,
    /// The port's marks: left under-utilized, raised to fully and to over-utilized.
    pub marks: [u64; 3],
}

impl Outcome {
    /// The longest queue in `from..until`, packets.
    pub fn longest(&self, from: u64, until: u64) -> u64 {
        let before = self.queue.iter().rev().find(|(at, _)| *at <= from);
        let within = self
            .queue
            .iter()
            .filter(|(at, _)| (from..until).contains(at));
        before
            .into_iter()
            .chain(within)
            .map(|(_, length)| *length)
            .max()
            .unwrap_or(0)
    }

    /// Time from a burst's first packet until the queue, past its longest, is below `packets`
    /// again, ns; `None`: not before the burst leaves.
    pub fn drained(&self, burst: &Burst, packets: u64) -> Option<u64> {
        let stay = |at: &u64| (burst.came..burst.gone).contains(at);
        let longest = self.longest(burst.came, burst.gone);
        let mut since = self
            .queue
            .iter()
            .filter(|(at, _)| stay(at))
            .skip_while(|(_, length)| *length < longest);
        let below = since.find(|(_, length)| *length < packets);
        below.map(|(at, _)| at - burst.came)
    }

    /// The mean queue in `from..until`, packets.
    pub fn mean(&self, from: u64, until: u64) -> f64 {
        mean(&self.queue, from, until)
    }

    /// The part of the link that the first flow has in `from..until`.
    pub fn share(&self, from: u64, until: u64) -> f64 {
        flows::rate(&self.first, from, until) / RATE as f64
    }

    /// Time from a burst's last packet until a round trip begins in which the first flow has this
    /// part of the link, ns; `None`: not before the next burst may come.
    pub fn recovered(&self, burst: &Burst, share: f64) -> Option<u64> {
        let last = burst.gone + (STAYS / 2) * RTT;
        let begins = std::iter::once(burst.gone)
            .chain(self.first.iter().map(|packet| packet.at))
            .filter(|at| (burst.gone..last).contains(at));
        begins
            .map(|at| (at, self.share(at, at + RTT)))
            .find(|(_, has)| *has >= share)
            .map(|(at, _)| at - burst.gone)
    }
}

/// One flow, and bursts of `count` others: one for each of `offsets`, by which it is delayed, ns.
/// `marks`: ports have REN's marker. Switches' ports hold `buffer` bytes of data.
///
/// # Errors
/// When something is refused or a socket fails.
pub fn run(count: usize, offsets: &[u64], marks: bool, buffer: u32) -> Result<Outcome> {
    let link = Link::new(RATE, delay_for(RTT, 3, RATE)).buffer(buffer);
    let all = count + 1;
    let fabric = Plan::dumbbell(all, link, link).build()?;
    let ren = match marks {
        true => format!("{PORT} ren period {RTT}ns"),
        false => PORT.to_owned(),
    };
    let queues = Queues::Tokens(ren);
    queues.apply(&fabric)?;
    let words = format!("policy ren link {RATE}bit base-rtt {RTT}ns");
    let transport = Carrier::Turnstile(words).configure(&fabric)?;
    let places = places(&fabric);
    let pairs: Vec<_> = (1..all).map(|flow| (flow, all + flow)).collect();
    let mut first = Messages::open(transport, &places, &[(0, all)], 1)?;
    // They are aborted when their time is over, by closing the sockets.
    let mut sets = offsets
        .iter()
        .map(|_| Messages::open(transport, &places, &pairs, 1))
        .collect::<Result<Vec<_>>>()?;
    let recorder = Recorder::start(&fabric.node(AT.0)?.ns)?;
    let start = clock::monotonic() + LEAD;
    let began = clock::realtime() + (start - clock::monotonic());
    let round = |number: u64| number * STAYS * RTT;
    let total = round(2 * offsets.len() as u64 + 1);
    std::thread::scope(|scope| -> Result<()> {
        let alone = scope.spawn(move || {
            let message = Message::new(0, all, ENDLESS);
            first.run(&[message], start, Duration::from_nanos(total))
        });
        for (number, (set, offset)) in (0_u64..).zip(sets.iter_mut().zip(offsets)) {
            let at = round(2 * number + 1) + offset;
            let messages: Vec<_> = pairs
                .iter()
                .map(|&(from, to)| Message::new(from, to, ENDLESS).at(at))
                .collect();
            set.run(&messages, start, Duration::from_nanos(at + round(1)))?;
        }
        let alone = alone.join();
        alone.map_err(|_| anyhow!("sending panicked"))??;
        Ok(())
    })?;
    let lines = queues.example(&fabric);
    look(&fabric, recorder, began, offsets, lines)
}

fn look(
    fabric: &Fabric,
    recorder: Recorder,
    began: u64,
    offsets: &[u64],
    lines: Vec<String>,
) -> Result<Outcome> {
    let captured = recorder.finish()?;
    let behind: BTreeSet<Ipv4Addr> = fabric.hosts_behind(AT.0, AT.1)?;
    let mut all = passages(&captured, AT.1, &behind)?;
    for passage in &mut all {
        passage.came = passage.came.saturating_sub(began);
        passage.left = passage.left.map(|at| at.saturating_sub(began));
    }
    let sender = fabric.address(0);
    let (first, others): (Vec<_>, Vec<_>) = flows::data(&captured, AT.1, began)?
        .into_iter()
        .partition(|packet| packet.id.0 == sender);
    let bursts = (0_u64..)
        .zip(offsets)
        .map(|(number, offset)| {
            let from = (2 * number + 1) * STAYS * RTT + offset;
            let until = from + 3 * STAYS / 2 * RTT;
            let mut came = all
                .iter()
                .filter(|passage| passage.packet == Packet::Data && passage.from != sender)
                .map(|passage| passage.came)
                .filter(|at| (from..until).contains(at));
            let mut left = others.iter().rev().map(|packet| packet.at);
            Ok(Burst {
                came: came.next().context("a burst did not come")?,
                gone: left
                    .find(|at| *at < until)
                    .context("a burst did not leave")?,
            })
        })
        .collect::<Result<_>>()?;
    let mut tc = Tc::open(&fabric.node(AT.0)?.ns, AT.1)?;
    let data = tc.get_class((1 << 16) | 2)?;
    let keys = [
        band_stat::REN_UNDER,
        band_stat::REN_FULL,
        band_stat::REN_OVER,
    ];
    Ok(Outcome {
        queue: lengths(&all, Unit::Packets, |passage| {
            passage.packet == Packet::Data
        }),
        first,
        bursts,
        seen: Seen::read(fabric)?,
        lines,
        marks: keys.map(|key| data.stats.app(key)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let packet = |n: u64| Passed {
            at: n * 1231,
            id: (Ipv4Addr::LOCALHOST, 1),
            wire: FULL_WIRE,
        };
        Outcome {
            queue: vec![(100, 1), (200, 5), (300, 0), (350, 2), (400, 1), (900, 0)],
            // Half of the link for two round trips, and then all.
            first: (0..39)
                .map(|n| packet(2 * n))
                .chain((78..200).map(packet))
                .collect(),
            bursts: vec![Burst {
                came: 150,
                gone: 800,
            }],
            seen: Seen::default(),
            lines: Vec::new(),
            marks: [0; 3],
        }
    }

    #[test]
    fn what_waits_and_for_how_long() {
        let outcome = outcome();
        let burst = outcome.bursts[0];
        assert_eq!(outcome.longest(0, 1000), 5);
        assert_eq!(outcome.longest(320, 360), 2);
        assert_eq!(outcome.longest(250, 260), 5);
        assert_eq!(outcome.drained(&burst, 2), Some(150));
        assert_eq!(outcome.drained(&burst, 0), None);
        assert_eq!(outcome.drained(&burst, 6), Some(50));
        assert_eq!(outcome.mean(200, 400), 3.0);
    }

    #[test]
    fn shares_and_when_they_are_reached() {
        let outcome = outcome();
        assert!((outcome.share(0, RTT) - 0.5).abs() < 0.02);
        let burst = Burst { came: 0, gone: 1 };
        let recovered = outcome.recovered(&burst, 0.95).unwrap();
        let full = 78 * 1231;
        assert!(
            recovered > full - RTT / 8 && recovered <= full,
            "{recovered}"
        );
        assert_eq!(outcome.recovered(&burst, 1.1), None);
    }
}
