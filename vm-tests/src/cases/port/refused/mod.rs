// SPDX-License-Identifier: GPL-2.0
//! Everything that must be refused, as tables: what is asked for, and what the refusal must say.
//!
//! After each refusal the port's dump is, byte for byte, what it was. So that no table passes
//! because everything is refused, each comes with the nearest thing that must be accepted.

mod attributes;
mod fuzz;
mod malformed;
mod places;
mod ranges;
mod words;

use anyhow::{ensure, Context, Result};

use crate::cases::support::Verdicts;
use crate::harness::{Case, Need};
use crate::netns::Netns;
use crate::raw_netlink::{Object, Request, Tc, ROOT};
use crate::topology::{Builder, Net};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("refused/words", words::run)
        .needs(&[
            Need::VirtualTime,
            Need::Module("dummy"),
            Need::Module("ifb"),
        ])
        .timeout_s(180),
    Case::new("refused/attributes", attributes::run),
    Case::new("refused/ranges", ranges::run),
    Case::new("refused/malformed", malformed::run),
    Case::new("refused/places", places::run).timeout_s(120),
    Case::new("refused/fuzz", fuzz::run).timeout_s(120),
];

/// The port that all tables are about.
const PORT: u32 = 0x1_0000;

/// Two devices in `h1`: eth0 with a port `1:`, and `spare`, a device of the same speed without one.
struct Bench {
    net: Net,
    port: Tc,
    spare: Tc,
}

impl Bench {
    fn new(options: &str) -> Result<Self> {
        let net = Builder::pair().build()?;
        let ns = &net.hosts[0].ns;
        ns.ip("link add spare type veth peer name spare2")?;
        ns.tc(&format!(
            "qdisc add dev eth0 root handle 1: turnstile {options}"
        ))?;
        let (port, spare) = (Tc::open(ns, "eth0")?, Tc::open(ns, "spare")?);
        Ok(Self { net, port, spare })
    }

    fn ns(&self) -> &Netns {
        &self.net.hosts[0].ns
    }

    /// All that configuration made on eth0.
    fn state(&mut self) -> Result<State> {
        let shapes = |classes: Vec<Object>| classes.iter().map(Object::shape).collect();
        Ok(State {
            qdiscs: self.port.netlink.qdiscs(self.port.ifindex)?,
            classes: shapes(self.port.classes_of(PORT)?),
        })
    }

    /// Whether the device without a port still has none.
    fn spare_is_bare(&mut self) -> Result<()> {
        let found = self.spare.qdiscs()?;
        ensure!(
            found.iter().all(|qdisc| qdisc.kind != "turnstile"),
            "the refused `add` left a port behind: {found:x?}"
        );
        Ok(())
    }

    /// Sends options to the port and, in an `add`, to the other device. Both must be refused alike.
    fn refused_raw(&mut self, options: &[u8], says: &[&str]) -> Result<()> {
        let before = self.state()?;
        let answer = self.port.change_port(PORT, options)?;
        ensure!(answer.errno != 0, "accepted by a change");
        check_words(&answer.text, says).context("change")?;
        ensure!(self.state()? == before, "the refused change left a trace");
        let answer = self
            .spare
            .qdisc(Request::AddQdisc, ROOT, PORT, "turnstile", options)?;
        ensure!(answer.errno != 0, "accepted by an add");
        check_words(&answer.text, says).context("add")?;
        self.spare_is_bare()
    }

    /// Sends options that must be accepted, by a change and by an `add`.
    fn accepted_raw(&mut self, options: &[u8]) -> Result<()> {
        self.port
            .change_port(PORT, options)?
            .success()
            .context("change")?;
        self.spare
            .qdisc(Request::AddQdisc, ROOT, PORT, "turnstile", options)?
            .success()
            .context("add")?;
        self.spare
            .delete(ROOT)?
            .success()
            .context("deleting what was added")
    }
}

#[derive(PartialEq, Eq)]
struct State {
    qdiscs: Vec<Vec<u8>>,
    classes: Vec<Object>,
}

/// Whether a refusal says all of this.
fn check_words(text: &str, says: &[&str]) -> Result<()> {
    for word in says {
        ensure!(text.contains(word), "{word:?} is not in {text:?}");
    }
    Ok(())
}
