// SPDX-License-Identifier: GPL-2.0
//! The queues of all ports of a network, and what went through them.

use anyhow::{Context, Result};

use crate::stats::{self, Counters};
use crate::topology::{Fabric, Port};

/// Bytes of a full frame, as tc counts.
pub(super) const FRAME: u32 = 1514;
/// What a host's own queue holds, bytes: it is no switch, and its programs wait for it.
const HOST_BUFFER: u32 = 1_000_000;

/// How ports queue. A link's buffer is what a switch's port holds of data; hosts hold more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queues {
    /// A port for tokens, with these options beside the link's rate and the buffer.
    Tokens(String),
    /// One queue for all; what does not fit is dropped.
    DropTail,
    /// One queue for all; the switches' ports mark ECN above so many full packets.
    Marked(u32),
}

impl Queues {
    /// Puts them onto every port of the network, with counters at 0.
    ///
    /// # Errors
    /// When tc refuses.
    pub fn apply(&self, fabric: &Fabric) -> Result<()> {
        for port in fabric.ports() {
            fabric.requeue(&port.node, &port.dev, &self.lines(&port))?;
        }
        Ok(())
    }

    /// The lines of tc for a port of a switch, for people.
    pub fn example(&self, fabric: &Fabric) -> Vec<String> {
        let ports = fabric.ports();
        let port = ports.iter().find(|port| !port.of_host);
        port.map(|port| self.lines(port)).unwrap_or_default()
    }

    fn lines(&self, port: &Port) -> Vec<String> {
        let rate = port.link.rate;
        let buffer = match port.of_host {
            true => HOST_BUFFER.max(port.link.buffer),
            false => port.link.buffer,
        };
        let root = format!(
            "qdisc add dev DEV root handle 1: turnstile link {rate}bit data-limit {buffer}"
        );
        if let Self::Tokens(options) = self {
            return vec![format!("{root} {options}").trim_end().to_owned()];
        }
        let mut lines = vec![
            root,
            "filter add dev DEV parent 1: protocol all matchall classid 1:2".into(),
        ];
        if let (Self::Marked(packets), false) = (self, port.of_host) {
            let least = packets * FRAME;
            // Between the two thresholds is nothing, so that nothing is left to chance; the average follows the queue closely.
            lines.push(format!(
                "qdisc add dev DEV parent 1:2 handle 2: red limit {buffer} min {least} max {} avpkt {FRAME} burst {packets} \
                 probability 1 bandwidth {rate}bit ecn",
                least + 1
            ));
        }
        lines
    }
}

/// What the ports of a network have seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets of the data class that were dropped, at all ports. Where all packets are in one queue, that is all.
    pub data_drops: u64,
    /// Packets of the unscheduled band that were dropped, at all ports.
    pub unscheduled_drops: u64,
    /// Tokens that were dropped at all ports: no room, or too old.
    pub token_drops: u64,
    /// Bytes of frames in the longest data queue that a port of a switch had.
    pub longest: u64,
    /// The port that had it: switch and device.
    pub longest_at: String,
}

impl Seen {
    /// Since the queues were made.
    ///
    /// # Errors
    /// When tc does not tell.
    pub fn read(fabric: &Fabric) -> Result<Self> {
        let mut seen = Self::default();
        for port in fabric.ports() {
            let classes = stats::classes(&fabric.node(&port.node)?.ns, &port.dev)?;
            let data = classes.get("1:2").context("a port without a data class")?;
            seen.data_drops += data.drops_by_cause();
            seen.unscheduled_drops += classes.get("1:3").map_or(0, Counters::drops_by_cause);
            for (handle, class) in &classes {
                if handle.starts_with("1:1") && handle != "1:1" {
                    seen.token_drops += class.drops_by_cause();
                }
            }
            let longest = data.get("max-bytes");
            if !port.of_host && longest > seen.longest {
                seen.longest = longest;
                seen.longest_at = format!("{} to {}", port.node, port.dev);
            }
        }
        Ok(seen)
    }
}
