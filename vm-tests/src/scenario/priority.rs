// SPDX-License-Identifier: GPL-2.0
//! Urgent messages while others saturate the link (TOP section 3.1).

use std::time::Duration;

use anyhow::{ensure, Result};

use super::flows::ENDLESS;
use super::{delay_for, Carrier, Queues, Seen, FULL_PAYLOAD};
use crate::clock;
use crate::rng::Rng;
use crate::topology::{Link, Plan};
use crate::traffic::messages::{places, Message, Messages};

/// bit/s of each link.
pub const RATE: u64 = 10_000_000_000;
/// A token's way to the sender and its packet's way back, ns.
pub const RTT: u64 = 48_000;
/// Lengths of the urgent messages, full packets.
pub const LENGTHS: [u64; 4] = [1, 10, 100, 400];
/// How many of each length.
const EACH: usize = 5;
/// Interval of urgent messages, as a multiple of their time alone: without priority they share the
/// link with three others.
const ROOM: u64 = 6;
/// Pause before a load, ns, in which earlier messages end.
const PAUSE: u64 = 2_000_000;

/// The urgent messages of one length.
#[derive(Clone, Copy, Debug)]
pub struct OfLength {
    /// Full packets.
    pub packets: u64,
    /// ns without the load.
    pub alone: u64,
    /// ns under the load: mean.
    pub mean: f64,
    /// ns under the load: the longest.
    pub longest: u64,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By length.
    pub lengths: Vec<OfLength>,
    /// Payload of the load that arrived in full messages or not, as counted at the ports.
    pub seen: Seen,
}

/// A dumbbell of four pairs: the first has urgent messages (token priority 0), the others send
/// without end (the last priority).
///
/// # Errors
/// When something is refused, a socket fails or an urgent message does not arrive.
pub fn run(words: &str, rng: &mut Rng) -> Result<Outcome> {
    const PAIRS: usize = 4;
    let link = Link::new(RATE, delay_for(RTT, 3, RATE));
    let fabric = Plan::dumbbell(PAIRS, link, link).build()?;
    Queues::Tokens(String::new()).apply(&fabric)?;
    let words = format!("{words} link {RATE}bit base-rtt {RTT}ns sender-priority use");
    let transport = Carrier::Turnstile(words).configure(&fabric)?;
    let pairs: Vec<_> = (0..PAIRS).map(|host| (host, PAIRS + host)).collect();
    let mut sockets = Messages::open(transport, &places(&fabric), &pairs, 1)?;
    let urgent = |packets: u64| Message::new(0, PAIRS, packets * FULL_PAYLOAD).priority(0);
    let mut alone = Vec::new();
    for packets in LENGTHS {
        let start = clock::monotonic() + PAUSE;
        let done = sockets.run(&[urgent(packets)], start, Duration::from_secs(1))?;
        alone.extend(done.first().and_then(|done| done.took));
    }
    ensure!(
        alone.len() == LENGTHS.len(),
        "a message alone did not arrive"
    );
    let load = (1..PAIRS).map(|host| Message::new(host, PAIRS + host, ENDLESS).priority(5));
    let mut messages: Vec<Message> = load.collect();
    let mut at = PAUSE;
    for _ in 0..EACH {
        for (packets, alone) in LENGTHS.into_iter().zip(&alone) {
            at += rng.range(0..=RTT);
            messages.push(urgent(packets).at(at));
            at += ROOM * alone;
        }
    }
    let start = clock::monotonic() + PAUSE;
    let done = sockets.run(&messages, start, Duration::from_nanos(at))?;
    let lengths = LENGTHS
        .into_iter()
        .zip(alone)
        .map(|(packets, alone)| {
            let message = urgent(packets);
            let times: Vec<u64> = done
                .iter()
                .filter(|done| done.message.bytes == message.bytes)
                .filter_map(|done| done.took)
                .collect();
            ensure!(
                times.len() == EACH,
                "{} of {EACH} urgent messages of {packets} packets arrived",
                times.len()
            );
            Ok(OfLength {
                packets,
                alone,
                mean: times.iter().sum::<u64>() as f64 / EACH as f64,
                longest: times.iter().copied().max().unwrap_or(0),
            })
        })
        .collect::<Result<_>>()?;
    Ok(Outcome {
        lengths,
        seen: Seen::read(&fabric)?,
    })
}
