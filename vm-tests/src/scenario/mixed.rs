// SPDX-License-Identifier: GPL-2.0
//! Messages of all lengths between many hosts over one link.

use std::time::Duration;

use anyhow::Result;

use super::watch::Watch;
use super::{Carrier, Queues, Seen};
use crate::clock;
use crate::rng::Rng;
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::messages::{places, poisson, Alone, Done, Hosts, Message, Messages, Sizes};

/// The port that all messages pass: switch and device.
const MIDDLE: (&str, &str) = ("s1", "s2");

/// A transport with the queues of its ports.
#[derive(Clone, Debug)]
pub struct Way {
    /// Short.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// The queues of all ports.
    pub queues: Queues,
    /// What carries the messages.
    pub carrier: Carrier,
}

/// The network and the load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Hosts on either side.
    pub pairs: usize,
    /// Each link.
    pub link: Link,
    /// Lengths of messages.
    pub sizes: Sizes,
    /// How many messages.
    pub count: usize,
    /// Payload of the messages, as a part of what the link in the middle carries.
    pub load: f64,
    /// How many messages between two hosts can be under way at once.
    pub channels: usize,
    /// How long all may take together, beyond the last one's start.
    pub patience: Duration,
    /// Time between the messages that are measured alone.
    pub pause: Duration,
}

impl Load {
    /// The dumbbell: every host of the left sends to every one of the right.
    pub fn plan(&self) -> Plan {
        Plan::dumbbell(self.pairs, self.link, self.link)
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let left = 0..self.pairs;
        left.flat_map(|from| (self.pairs..2 * self.pairs).map(move |to| (from, to)))
            .collect()
    }

    /// The messages of a seed.
    pub fn messages(&self, rng: &mut Rng) -> Vec<Message> {
        let bits_per_s = self.load * self.link.rate as f64;
        poisson(rng, &self.sizes, &self.pairs(), self.count, bits_per_s)
    }
}

/// The result.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Every message.
    pub done: Vec<Done>,
    /// How long one takes when it is alone.
    pub alone: Alone,
    /// What the ports saw while all were under way.
    pub seen: Seen,
}

/// How programs use the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Sockets for each pair of hosts, of which a message takes an idle one.
    Pool,
    /// One socket for each host (Turnstile only).
    SocketPerHost,
}

/// As [`run`], with the sockets used so, and without what each message takes when it is alone.
///
/// # Errors
/// When the network cannot be configured, or a transport fails.
pub fn run_on(
    fabric: &Fabric,
    load: &Load,
    way: &Way,
    used: Use,
    messages: &[Message],
) -> Result<Outcome> {
    let transport = way.carrier.configure(fabric)?;
    let places = places(fabric);
    way.queues.apply(fabric)?;
    let last = messages.iter().map(|m| m.at).max().unwrap_or(0);
    let patience = Duration::from_nanos(last) + load.patience;
    let soon = || clock::monotonic() + clock::nanos(load.pause);
    let done = match used {
        Use::Pool => {
            let mut sockets = Messages::open(transport, &places, &load.pairs(), load.channels)?;
            way.queues.apply(fabric)?;
            sockets.run(messages, soon(), patience)?
        }
        Use::SocketPerHost => {
            let sockets = Hosts::open(&places)?;
            sockets.meet(&load.pairs())?;
            way.queues.apply(fabric)?;
            sockets.run(messages, soon(), patience)?
        }
    };
    Ok(Outcome {
        done,
        alone: Alone::default(),
        seen: Seen::read(fabric)?,
    })
}

/// Sends the messages over a network of [`Load::plan`].
///
/// # Errors
/// When it cannot be configured, or a transport fails.
pub fn run(fabric: &Fabric, load: &Load, way: &Way, messages: &[Message]) -> Result<Outcome> {
    way.queues.apply(fabric)?;
    let transport = way.carrier.configure(fabric)?;
    let places = places(fabric);
    let mut sockets = Messages::open(transport, &places, &load.pairs(), load.channels)?;
    let alone = sockets.alone(
        (0, load.pairs),
        &load.sizes.grid(),
        load.pause,
        load.patience,
    )?;
    way.queues.apply(fabric)?;
    let start = clock::monotonic() + clock::nanos(load.pause);
    let last = messages.iter().map(|m| m.at).max().unwrap_or(0);
    let patience = Duration::from_nanos(last) + load.patience;
    // A port reports the greatest length of its own queue, but not of a child's.
    let watch = match way.queues {
        Queues::Marked(_) => Some(Watch::start(fabric, MIDDLE)?),
        _ => None,
    };
    let done = sockets.run(messages, start, patience)?;
    let mut seen = Seen::read(fabric)?;
    if let Some(watch) = watch {
        seen.longest = watch.finish()?;
        seen.longest_at = format!("{} to {}, sampled", MIDDLE.0, MIDDLE.1);
    }
    Ok(Outcome { done, alone, seen })
}
