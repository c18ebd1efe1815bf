// SPDX-License-Identifier: GPL-2.0
//! Markers: which packets are marked, and that nothing else happens to them. Frames are handed to
//! the port's device as they are, and looked at where they leave it.

pub(in crate::cases) mod dctcp;
mod diff;
pub(super) mod frames;
pub(in crate::cases) mod phantom;
pub(in crate::cases) mod ren;

use std::collections::BTreeMap;

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::class;

use crate::harness::Case;
use crate::netns::Netns;
use crate::stats::{self, Counters};
use crate::tool::Tool;
use crate::topology::{Builder, Net};
use crate::traffic::frame::Frame;
use crate::traffic::RawSocket;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("marking/packet-diff", diff::run).timeout_s(240),
    Case::new("marking/copies-are-not-touched", diff::copies),
];

const DEV: &str = "eth0";

/// A phantom queue that marks all but the first packet, on a link on which that is sent in no time:
/// what one full frame brings takes 120 ms to drain, and there are [`HEAT`] of them before a test
/// begins.
const HOT: &str = "link 10mbit phantom drain 1% mark 0";
/// A phantom queue that marks nothing.
const COLD: &str = "link 10mbit phantom drain 1% mark 1gb";
/// Full frames that are sent before a test: a queue that lasts for five seconds.
const HEAT: usize = 40;

/// Two hosts, a port on the first one's device, a socket that puts frames into it and one that sees
/// them leave.
struct Probe {
    net: Net,
    socket: RawSocket,
    tap: RawSocket,
}

impl Probe {
    fn new(options: &str) -> Result<Self> {
        let net = Builder::pair().build()?;
        let ns = &net.hosts[0].ns;
        Tool::Tc.port(ns, "add", DEV, options)?;
        let socket = RawSocket::open(ns, DEV)?;
        let tap = RawSocket::open(ns, DEV)?;
        Ok(Self { net, socket, tap })
    }

    fn ns(&self) -> &Netns {
        &self.net.hosts[0].ns
    }

    fn change(&self, tool: Tool, options: &str) -> Result<()> {
        tool.port(self.ns(), "change", DEV, options)
    }

    /// Fills the phantom queue, so that for some seconds it marks whatever it may.
    fn heat(&self) -> Result<()> {
        let to = self.net.hosts[1].v4;
        let frame = Frame::udp4(to, 0, 9, &[0; 1472]).bytes();
        for _ in 0..HEAT {
            self.put(&frame)?;
            self.leaves()?;
        }
        Ok(())
    }

    fn put(&self, frame: &[u8]) -> Result<()> {
        ensure!(self.socket.send(frame)?, "the port dropped a frame");
        Ok(())
    }

    /// The next frame that leaves the device.
    fn leaves(&self) -> Result<Vec<u8>> {
        next(&self.tap, true)
    }

    /// A frame as it leaves the device.
    fn pass(&self, frame: &[u8]) -> Result<Vec<u8>> {
        self.put(frame)?;
        self.leaves()
    }

    /// What the data class counts.
    fn data(&self) -> Result<Counters> {
        data(self.ns(), DEV)
    }

    /// How much counters of the data class have grown.
    fn grown(&self, before: &Counters) -> Result<BTreeMap<String, u64>> {
        let now = self.data()?;
        let grown = now
            .extra
            .iter()
            .map(|(key, value)| (key.clone(), value.saturating_sub(before.get(key))));
        Ok(grown.collect())
    }
}

/// What the data class of a device's port counts.
fn data(ns: &Netns, dev: &str) -> Result<Counters> {
    let mut classes = stats::classes(ns, dev)?;
    let id = format!("1:{}", class::DATA);
    classes.remove(&id).context("no data class")
}

/// The next frame on a device that one of the tests sent: what the kernel sends of its own is no
/// datagram to port 9 and the like. `outgoing`: whether the device sends it.
fn next(tap: &RawSocket, outgoing: bool) -> Result<Vec<u8>> {
    loop {
        let frame = tap.receive(10_000)?.context("no frame came")?;
        if frame.outgoing == outgoing && !frames::is_of_the_kernel(&frame.bytes) {
            return Ok(frame.bytes);
        }
    }
}
