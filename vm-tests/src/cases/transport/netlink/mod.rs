// SPDX-License-Identifier: GPL-2.0
//! The generic netlink family `turnstile`, by hand-made requests.
//!
//! After each refusal the configuration is, byte for byte, what it was. So that no table passes
//! because everything is refused, each comes with the nearest thing that must be accepted.

mod events;
mod flows;
mod fuzz;
mod malformed;
mod options;
mod ranges;
mod rights;
mod stats;

use std::collections::BTreeMap;

use anyhow::{ensure, Result};
use turnstile_core::transport::uapi::{command, config, FAMILY};

use crate::harness::{Case, Need};
use crate::netns::Netns;
use crate::raw_netlink::{attribute_u32, attribute_u64, Answer, Generic, GenericRequest, Reply};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/netlink/options", options::run),
    Case::new("transport/netlink/ranges", ranges::run),
    Case::new("transport/netlink/malformed", malformed::run),
    Case::new("transport/netlink/fuzz", fuzz::run).timeout_s(180),
    Case::new("transport/netlink/rights", rights::run),
    Case::new("transport/netlink/port-in-use", rights::port_in_use),
    Case::new("transport/netlink/namespaces", rights::namespaces),
    Case::new("transport/netlink/flows-many", flows::many),
    // Who dumps and who sends must run at the same time.
    Case::new("transport/netlink/flows-churn", flows::churn).needs(&[Need::Smp]),
    Case::new("transport/netlink/flows-both-sides", flows::both_sides),
    Case::new("transport/netlink/events", events::run),
    Case::new("transport/netlink/events-lost", events::lost),
    Case::new("transport/netlink/stats", stats::run),
];

/// One attribute of the configuration.
#[derive(Clone, Copy, Debug)]
enum Attr {
    U32(u16, u32),
    U64(u16, u64),
}

impl Attr {
    fn number(self) -> u16 {
        match self {
            Self::U32(number, _) | Self::U64(number, _) => number,
        }
    }

    fn content(self) -> Vec<u8> {
        match self {
            Self::U32(_, value) => value.to_ne_bytes().to_vec(),
            Self::U64(_, value) => value.to_ne_bytes().to_vec(),
        }
    }
}

fn bytes(attributes: &[Attr]) -> Vec<u8> {
    let each = attributes.iter().map(|attr| match *attr {
        Attr::U32(number, value) => attribute_u32(number, value),
        Attr::U64(number, value) => attribute_u64(number, value),
    });
    each.collect::<Vec<_>>().concat()
}

/// A namespace and its family.
struct Bench {
    ns: Netns,
    family: Generic,
}

impl Bench {
    fn new() -> Result<Self> {
        let ns = Netns::create("a")?;
        let family = Generic::open(&ns, FAMILY)?;
        Ok(Self { ns, family })
    }

    /// The configuration, and nothing that the kernel only says.
    fn config(&mut self) -> Result<BTreeMap<u16, Vec<u8>>> {
        let mut all = self.family.read(command::TRANSPORT_GET)?.attributes;
        all.remove(&config::LINK_IN_FORCE);
        all.remove(&config::PAD);
        Ok(all)
    }

    fn request(&mut self, request: &GenericRequest<'_>) -> Result<(Vec<Reply>, Answer)> {
        self.family.request(request)
    }

    fn set(&mut self, attributes: &[u8]) -> Result<Answer> {
        let (replies, answer) =
            self.request(&GenericRequest::new(command::TRANSPORT_SET, attributes))?;
        ensure!(replies.is_empty(), "more than an answer: {replies:?}");
        Ok(answer)
    }

    /// Sends attributes that must be refused with just these words.
    fn refused(&mut self, attributes: &[u8], words: &str) -> Result<()> {
        let before = self.config()?;
        let answer = self.set(attributes)?;
        ensure!(
            answer.errno == libc::EINVAL && answer.text == format!("{FAMILY}: {words}"),
            "{answer:?}"
        );
        ensure!(self.config()? == before, "the refusal left a trace");
        Ok(())
    }

    /// Sends attributes that must be accepted, and be there afterwards, with all others as before.
    fn accepted(&mut self, attributes: &[Attr]) -> Result<()> {
        let mut expected = self.config()?;
        self.set(&bytes(attributes))?.success()?;
        for attr in attributes {
            expected.insert(attr.number(), attr.content());
        }
        let now = self.config()?;
        ensure!(now == expected, "{now:?} instead of {expected:?}");
        Ok(())
    }
}
