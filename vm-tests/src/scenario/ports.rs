// SPDX-License-Identifier: GPL-2.0
//! The queues of all ports of a network, and their statistics.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use turnstile_core::port::uapi::band_stat;

use crate::raw_netlink::Tc;
use crate::topology::{Fabric, Port};

/// The port's handle, `1:`.
const PORT: u32 = 1 << 16;
/// Its classes, by their minor numbers.
const DATA: u32 = 2;
const UNSCHEDULED: u32 = 3;
const TOKENS: u32 = 0x10;
/// Counters of dropped packets.
const DROPS: [u16; 5] = [
    band_stat::OVER_LIMIT,
    band_stat::EXPIRED,
    band_stat::TRIMMED,
    band_stat::PURGED,
    band_stat::CHILD,
];

/// Bytes of a full frame, as tc counts.
pub(super) const FRAME: u32 = 1514;
/// Limit of a host's own queue, bytes: programs wait for it, so that it drops nothing.
const HOST_BUFFER: u32 = 1_000_000;

/// A host's own port under Turnstile's transport, as `tc-configs/host-nic.sh` makes it.
const HOST_PORT: &str = "tokens 10% token-limit 64 token-expiry off unscheduled off jitter 50us";

/// Options of a switch's port as it is shipped, but for its buffer.
pub const SHIPPED: &str = "jitter 50us";

/// How ports queue, those of switches as exactly as the papers', `jitter 0`, unless their options
/// say otherwise. A link's buffer is
/// what a switch's port holds of data; hosts hold more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queues {
    /// Ports for tokens; those of switches with these options beside the link's rate and the
    /// buffer.
    Tokens(String),
    /// One queue for all; what does not fit is dropped.
    DropTail,
    /// One queue for all; the switches' ports mark ECN above so many full packets.
    Marked(u32),
    /// All ports with these options, which make data lossless; packets go where ports put them.
    Lossless(String),
}

impl Queues {
    /// Puts them onto every port of the network, with counters at 0.
    ///
    /// # Errors
    /// When tc refuses.
    pub fn apply(&self, fabric: &Fabric) -> Result<()> {
        // One run of tc per node, not per port: there may be hundreds.
        let mut nodes: BTreeMap<String, String> = BTreeMap::new();
        for port in fabric.ports() {
            let text = nodes.entry(port.node.clone()).or_default();
            for line in self.lines(&port) {
                *text += &line.replace("DEV", &port.dev);
                text.push('\n');
            }
        }
        for (node, text) in nodes {
            let ns = &fabric.node(&node)?.ns;
            let mut batch = String::new();
            for port in fabric.ports().iter().filter(|port| port.node == node) {
                batch += &format!("qdisc del dev {} root\n", port.dev);
            }
            ns.run_with("tc -batch -", &(batch + &text))
                .with_context(|| format!("the queues of {node}"))?;
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
        let options = match (self, port.of_host) {
            (Self::Tokens(_), true) => HOST_PORT,
            (Self::Tokens(options), false) | (Self::Lossless(options), _) => options,
            _ => "",
        };
        let jitter = if options.contains("jitter") {
            ""
        } else {
            " jitter 0"
        };
        let root = format!(
            "qdisc add dev DEV root handle 1: turnstile link {rate}bit{jitter} data-limit {buffer}"
        );
        if let Self::Tokens(_) | Self::Lossless(_) = self {
            return vec![format!("{root} {options}").trim_end().to_owned()];
        }
        let mut lines = vec![
            root,
            "filter add dev DEV parent 1: protocol all matchall classid 1:2".into(),
        ];
        if let (Self::Marked(packets), false) = (self, port.of_host) {
            let least = packets * FRAME;
            // The two thresholds are adjacent, so that RED marks deterministically; the average
            // follows the queue closely.
            lines.push(format!(
                "qdisc add dev DEV parent 1:2 handle 2: red limit {buffer} min {least} max {} \
                 avpkt {FRAME} burst {packets} \
                 probability 1 bandwidth {rate}bit ecn",
                least + 1
            ));
        }
        lines
    }
}

/// Statistics over the ports of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets of the data class that were dropped, at all ports. Where all packets are in one
    /// queue, that is all.
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

/// Bytes on the wire that the data class of a port has sent: frames, preambles and gaps.
///
/// # Errors
/// When the statistics cannot be read.
pub fn data_sent(fabric: &Fabric, (node, dev): (&str, &str)) -> Result<u64> {
    let mut tc = Tc::open(&fabric.node(node)?.ns, dev)?;
    let classes = tc.classes_of(PORT)?;
    let data = classes.iter().find(|class| class.handle & 0xffff == DATA);
    let stats = &data.context("a port without a data class")?.stats;
    Ok(stats.bytes + 24 * stats.packets)
}

impl Seen {
    /// Since the queues were made.
    ///
    /// # Errors
    /// When the statistics cannot be read.
    pub fn read(fabric: &Fabric) -> Result<Self> {
        let mut seen = Self::default();
        for port in fabric.ports() {
            let mut tc = Tc::open(&fabric.node(&port.node)?.ns, &port.dev)?;
            let mut longest = 0;
            for class in tc.classes_of(PORT)? {
                let drops: u64 = DROPS.iter().map(|cause| class.stats.app(*cause)).sum();
                match class.handle & 0xffff {
                    DATA => {
                        // A child's drops are counted by the class, too.
                        seen.data_drops += drops;
                        longest = class.stats.app(band_stat::MAX_BYTES);
                    }
                    UNSCHEDULED => seen.unscheduled_drops += drops,
                    TOKENS.. => seen.token_drops += drops,
                    _ => {}
                }
            }
            if !port.of_host && longest > seen.longest {
                seen.longest = longest;
                seen.longest_at = format!("{} to {}", port.node, port.dev);
            }
        }
        Ok(seen)
    }
}
