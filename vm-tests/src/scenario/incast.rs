// SPDX-License-Identifier: GPL-2.0
//! Many hosts send to one at the same time (TOP section 5.3).

use std::time::Duration;

use anyhow::{ensure, Result};

use super::{Carrier, Queues, Seen, FULL_PAYLOAD, FULL_WIRE, TOKEN_LIMIT};
use crate::clock;
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::messages::{places, Message, Messages, Transport};

/// bit/s of each link.
pub const RATE: u64 = 10_000_000_000;
/// Propagation delay of each link, ns (ExpressPass section 3.3).
pub const DELAY: u64 = 4_000;
/// Full packets that each sends.
pub const PACKETS: u64 = 50;
/// Buffer of a switch's port, bytes: 250 full packets.
pub const BUFFER: u32 = 250 * 1514;

/// The star: the last host receives.
///
/// # Errors
/// When it cannot be made.
pub fn build(senders: usize) -> Result<Fabric> {
    Plan::star(senders + 1, Link::new(RATE, DELAY).buffer(BUFFER)).build()
}

/// The result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// ns until each message had been read, by rising time.
    pub times: Vec<u64>,
    /// What the ports saw.
    pub seen: Seen,
}

/// Configures the transport of all hosts.
///
/// # Errors
/// When something is refused.
pub fn configure(fabric: &Fabric, words: &str) -> Result<Transport> {
    Carrier::Turnstile(words.to_owned()).configure(fabric)
}

/// Runs an incast: so many of the fabric's hosts send to its last.
///
/// # Errors
/// When a socket fails or a message does not arrive in 5 s.
pub fn run(fabric: &Fabric, transport: Transport, senders: usize) -> Result<Outcome> {
    Queues::Tokens(String::new()).apply(fabric)?;
    let to = fabric.hosts() - 1;
    let pairs: Vec<_> = (0..senders).map(|from| (from, to)).collect();
    let messages: Vec<_> = (0..senders)
        .map(|from| Message::new(from, to, PACKETS * FULL_PAYLOAD))
        .collect();
    let mut sockets = Messages::open(transport, &places(fabric), &pairs, 1)?;
    let start = clock::monotonic() + 1_000_000;
    let done = sockets.run(&messages, start, Duration::from_secs(5))?;
    let mut times: Vec<u64> = done.iter().filter_map(|done| done.took).collect();
    ensure!(
        times.len() == senders,
        "{} of {senders} messages arrived",
        times.len()
    );
    times.sort_unstable();
    Ok(Outcome {
        times,
        seen: Seen::read(fabric)?,
    })
}

/// ns until the last packet has arrived if the link to the receiver were busy with nothing but data
/// from the first moment.
pub fn ideal(senders: usize) -> f64 {
    let frame = FULL_WIRE as f64 * 8e9 / RATE as f64;
    (senders as f64 * PACKETS as f64 + 1.0) * frame + 2.0 * DELAY as f64
}

/// Bound on the data queue of the receiver's port, bytes (ExpressPass section 2.1, TOP section
/// 3.1): what the link carries between the earliest and the latest moment at which a token's packet
/// may come. The token queues bound a token's wait: one at the receiver's own port and one at the
/// switch's port to the sender. One packet is in transmission.
pub const fn bound() -> u64 {
    const QUEUES: u64 = 2;
    (QUEUES * TOKEN_LIMIT + 1) * 1514
}
