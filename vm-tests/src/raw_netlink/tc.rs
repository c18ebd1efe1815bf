// SPDX-License-Identifier: GPL-2.0
//! The qdiscs, classes and filters of a device, over netlink.

use std::collections::BTreeMap;

use anyhow::{bail, Context, Result};

use super::attributes::{parse, Attributes};
use super::socket::{Answer, Netlink};
use crate::netns::Netns;

/// `TC_H_ROOT`: the parent of a device's root qdisc.
pub const ROOT: u32 = 0xffff_ffff;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const STATS_BASIC: u16 = 1;
const STATS_QUEUE: u16 = 3;
const STATS_APP: u16 = 4;
const STATS_PKT64: u16 = 8;
/// Bytes of `struct tcmsg`.
const TCMSG: usize = 20;

/// What `tc` calls these requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Makes a new one only.
    Add,
    /// Changes an existing one only.
    Change,
    /// Makes or changes.
    Replace,
}

impl Verb {
    fn flags(self) -> u16 {
        let flags = match self {
            Self::Add => libc::NLM_F_CREATE | libc::NLM_F_EXCL,
            Self::Change => 0,
            Self::Replace => libc::NLM_F_CREATE | libc::NLM_F_REPLACE,
        };
        flags as u16
    }
}

/// Counters that all qdiscs and classes have, and their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets queued.
    pub qlen: u32,
    /// Bytes queued.
    pub backlog: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Times that a packet had to be put back.
    pub requeues: u32,
    /// Times that something was held back.
    pub overlimits: u32,
    /// `TCA_STATS_APP`: of this project's kinds only, by attribute number.
    pub app: BTreeMap<u16, u64>,
}

impl Stats {
    /// One of the kind's own counters; 0 if it does not have it.
    pub fn app(&self, number: u16) -> u64 {
        self.app.get(&number).copied().unwrap_or(0)
    }
}

/// A qdisc or class as the kernel dumps it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// The device.
    pub ifindex: i32,
    /// `1:` is 0x10000, class `1:2` is 0x10002.
    pub handle: u32,
    /// What it hangs on; [`ROOT`].
    pub parent: u32,
    /// Of a class: the handle of its leaf.
    pub info: u32,
    /// As in `tc qdisc add … KIND`.
    pub kind: String,
    /// The bytes inside `TCA_OPTIONS`; `None` without it.
    pub options: Option<Vec<u8>>,
    /// Counters.
    pub stats: Stats,
}

impl Object {
    fn read(body: &[u8]) -> Result<Self> {
        let head: &[u8; TCMSG] = body.first_chunk().context("a cut-off struct tcmsg")?;
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&head[at..at + 4]);
            u32::from_ne_bytes(word)
        };
        let mut object = Self {
            ifindex: word(4) as i32,
            handle: word(8),
            parent: word(12),
            info: word(16),
            ..Self::default()
        };
        for (number, payload) in parse(&body[TCMSG..]) {
            match number {
                TCA_KIND => {
                    object.kind = String::from_utf8_lossy(payload)
                        .trim_end_matches('\0')
                        .to_owned();
                }
                TCA_OPTIONS => object.options = Some(payload.to_vec()),
                TCA_STATS2 => object.stats = read_stats(payload, &object.kind),
                _ => {}
            }
        }
        Ok(object)
    }

    /// Everything but the counters.
    pub fn shape(&self) -> Self {
        Self {
            stats: Stats::default(),
            ..self.clone()
        }
    }

    /// The payload of an attribute inside `TCA_OPTIONS`.
    pub fn option(&self, number: u16) -> Option<&[u8]> {
        let options = self.options.as_deref()?;
        parse(options)
            .find(|(found, _)| *found == number)
            .map(|(_, payload)| payload)
    }
}

fn read_stats(nest: &[u8], kind: &str) -> Stats {
    let mut stats = Stats::default();
    let u32_at = |bytes: &[u8], at: usize| {
        bytes
            .get(at..)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |word| u32::from_ne_bytes(*word))
    };
    let u64_of = |bytes: &[u8]| bytes.first_chunk().map_or(0, |w| u64::from_ne_bytes(*w));
    for (number, payload) in parse(nest) {
        match number {
            STATS_BASIC => {
                stats.bytes = u64_of(payload);
                // Where there are more than 32 bits can hold, a 64-bit attribute follows.
                stats.packets = u32_at(payload, 8).into();
            }
            STATS_PKT64 => stats.packets = u64_of(payload),
            STATS_QUEUE => {
                stats.qlen = u32_at(payload, 0);
                stats.backlog = u32_at(payload, 4);
                stats.drops = u32_at(payload, 8);
                stats.requeues = u32_at(payload, 12);
                stats.overlimits = u32_at(payload, 16);
            }
            STATS_APP if kind == turnstile_core::uapi::KIND => {
                stats.app = parse(payload)
                    .filter(|(_, value)| value.len() == 8)
                    .map(|(number, value)| (number, u64_of(value)))
                    .collect();
            }
            _ => {}
        }
    }
    stats
}

/// The body of a request: `struct tcmsg` and attributes.
pub fn message(ifindex: i32, handle: u32, parent: u32, info: u32, attributes: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend_from_slice(&ifindex.to_ne_bytes());
    for word in [handle, parent, info] {
        body.extend_from_slice(&word.to_ne_bytes());
    }
    body.extend_from_slice(attributes);
    body
}

/// Traffic control of one device.
#[derive(Debug)]
pub struct Tc {
    /// The socket.
    pub netlink: Netlink,
    /// The device.
    pub ifindex: i32,
}

impl Tc {
    /// For `dev` in `ns`.
    ///
    /// # Errors
    /// When there is no such device.
    pub fn open(ns: &Netns, dev: &str) -> Result<Self> {
        let netlink = Netlink::open(ns)?;
        let ifindex = ns.enter(|| {
            let index = nix::net::if_::if_nametoindex(dev)
                .with_context(|| format!("no device {dev} in namespace {}", ns.name()))?;
            Ok(i32::try_from(index)?)
        })?;
        Ok(Self { netlink, ifindex })
    }

    /// Sends a request about this device, with these attributes.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn send(
        &mut self,
        kind: u16,
        flags: u16,
        handle: u32,
        parent: u32,
        attributes: &Attributes,
    ) -> Result<Answer> {
        let body = message(self.ifindex, handle, parent, 0, attributes.bytes());
        self.netlink.request(kind, flags, &body)
    }

    /// `tc qdisc VERB … parent PARENT handle HANDLE KIND`, with what goes inside `TCA_OPTIONS`.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn qdisc(
        &mut self,
        verb: Verb,
        parent: u32,
        handle: u32,
        kind: &str,
        options: Option<&Attributes>,
    ) -> Result<Answer> {
        let mut attributes = Attributes::new().text(TCA_KIND, kind);
        if let Some(options) = options {
            attributes = attributes.nest(TCA_OPTIONS, options);
        }
        self.send(
            libc::RTM_NEWQDISC,
            verb.flags(),
            handle,
            parent,
            &attributes,
        )
    }

    /// `tc qdisc change … handle HANDLE turnstile`, with these bytes inside `TCA_OPTIONS`.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn change_port(&mut self, handle: u32, options: &Attributes) -> Result<Answer> {
        let attributes = Attributes::new()
            .text(TCA_KIND, turnstile_core::uapi::KIND)
            .nest(TCA_OPTIONS, options);
        // Without a parent the kernel goes by the handle, wherever the port is.
        self.send(libc::RTM_NEWQDISC, 0, handle, 0, &attributes)
    }

    /// `tc qdisc del … parent PARENT`.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn delete(&mut self, parent: u32) -> Result<Answer> {
        self.send(libc::RTM_DELQDISC, 0, 0, parent, &Attributes::new())
    }

    /// `tc class del … classid CLASS`.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn delete_class(&mut self, class: u32) -> Result<Answer> {
        self.send(libc::RTM_DELTCLASS, 0, class, 0, &Attributes::new())
    }

    /// The qdiscs of the device.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn qdiscs(&mut self) -> Result<Vec<Object>> {
        self.dump(libc::RTM_GETQDISC)
    }

    /// The classes of all qdiscs of the device.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn classes(&mut self) -> Result<Vec<Object>> {
        self.dump(libc::RTM_GETTCLASS)
    }

    /// One qdisc.
    ///
    /// # Errors
    /// When there is none of this handle.
    pub fn get(&mut self, handle: u32) -> Result<Object> {
        self.get_one(libc::RTM_GETQDISC, handle)
            .with_context(|| format!("qdisc {:x}:", handle >> 16))
    }

    /// One class.
    ///
    /// # Errors
    /// When there is none of this id.
    pub fn get_class(&mut self, class: u32) -> Result<Object> {
        self.get_one(libc::RTM_GETTCLASS, class)
            .with_context(|| format!("class {:x}:{:x}", class >> 16, class & 0xffff))
    }

    fn get_one(&mut self, kind: u16, handle: u32) -> Result<Object> {
        let found = self.send(kind, 0, handle, 0, &Attributes::new())??;
        match &found[..] {
            [one] => Object::read(&one.body),
            _ => bail!("{} answers instead of one", found.len()),
        }
    }

    fn dump(&mut self, kind: u16) -> Result<Vec<Object>> {
        let flags = u16::try_from(libc::NLM_F_DUMP)?;
        let found = self.send(kind, flags, 0, 0, &Attributes::new())??;
        let mut objects = Vec::new();
        for message in found {
            let object = Object::read(&message.body)?;
            if object.ifindex == self.ifindex {
                objects.push(object);
            }
        }
        Ok(objects)
    }
}
