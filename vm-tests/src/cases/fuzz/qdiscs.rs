// SPDX-License-Identifier: GPL-2.0
//! Qdiscs of all kinds with their children, classes and filters, by rtnetlink.

use anyhow::Result;
use turnstile_core::{pacer, port};

use crate::raw_netlink::kinds::{self, Netem};
use crate::raw_netlink::{Request, Tc, ROOT};
use crate::rng::Rng;
use crate::topology::Host;

use super::hand::Hand;
use super::settings;

/// The handle of what is at the root.
const ROOT_HANDLE: u32 = 0x1_0000;
const PORT: &str = port::uapi::KIND;
const QUEUES: &str = port::uapi::KIND_MQ;
const PACER: &str = pacer::uapi::KIND;
/// Devices that come and go with [`super::devices`] among them.
pub(super) const DEVICES: &[&str] = &["eth0", "eth0", "lo", "dev1", "dev2"];

/// A thread's way to traffic control and to devices.
pub(super) struct Devices {
    pub(super) tc: Tc,
}

impl Devices {
    /// Of a host.
    pub(super) fn open(host: &Host) -> Result<Self> {
        Ok(Self {
            tc: Tc::open(&host.ns, "eth0")?,
        })
    }

    /// Takes one of the devices, if it is there now.
    fn choose(&mut self, rng: &mut Rng) -> Option<&'static str> {
        let name = *rng.pick(DEVICES);
        let index = nix::net::if_::if_nametoindex(name).ok()?;
        self.tc.ifindex = i32::try_from(index).ok()?;
        Some(name)
    }
}

/// Makes a request.
pub(super) fn call(hand: &mut Hand<'_>) {
    let Some(device) = hand.devices.choose(&mut hand.rng) else {
        return;
    };
    match hand.rng.index(24) {
        0..3 => root(hand, device, PORT),
        3 => root(hand, device, QUEUES),
        4..7 => root(hand, device, PACER),
        7..10 => child(hand, device),
        10..12 => change(hand, device),
        12 => delete(hand, device),
        13 => class(hand, device),
        14..16 => filter(hand, device),
        16..19 => anything(hand, device),
        _ => dump(hand, device),
    }
}

fn right(rng: &mut Rng, kind: &str) -> Vec<u8> {
    if rng.one_in(2) {
        Vec::new()
    } else if kind == PORT || kind == QUEUES {
        settings::right::<port::config::Config>(rng)
    } else {
        settings::right::<pacer::config::Config>(rng)
    }
}

fn count(hand: &mut Hand<'_>, what: &'static str, answer: Result<crate::raw_netlink::Answer>) {
    let done = answer.is_ok_and(|answer| answer.errno == 0);
    hand.tally.count(what, done);
}

/// A port or a pacer at the root.
fn root(hand: &mut Hand<'_>, device: &str, kind: &'static str) {
    let options = right(&mut hand.rng, kind);
    hand.about_to(format!("{device}: replace root {kind} {options:x?}"));
    let tc = &mut hand.devices.tc;
    let answer = tc.qdisc(Request::ReplaceQdisc, ROOT, ROOT_HANDLE, kind, &options);
    let what = match kind {
        PORT => "a port at the root",
        QUEUES => "ports of queues at the root",
        _ => "a pacer at the root",
    };
    count(hand, what, answer);
}

/// A qdisc below a class of a port or pacer, or below that.
fn child(hand: &mut Hand<'_>, device: &str) {
    let rng = &mut hand.rng;
    let data = u32::from(port::uapi::class::DATA);
    let pass = u32::from(pacer::uapi::class::PASS);
    let class = *rng.pick(&[data, data, pass, pass, 0x10, 0x17, 0x3]);
    let below = *rng.pick(&[ROOT_HANDLE, ROOT_HANDLE, 0x2_0000]);
    let (kind, options) = match rng.index(8) {
        0 => (PORT, right(rng, PORT)),
        1 => (PACER, right(rng, PACER)),
        2 => ("pfifo", kinds::fifo(rng.range(0..=1000) as u32)),
        3 => ("prio", kinds::prio()),
        4 => {
            let netem = Netem {
                delay_ns: rng.range(0..=1_000_000),
                limit: rng.range(1..=1000) as u32,
                loss: rng.range(0..=1 << 28) as u32,
                duplicate: rng.range(0..=1 << 28) as u32,
                ..Netem::default()
            };
            ("netem", kinds::netem(netem))
        }
        5 => ("tbf", kinds::tbf(12_500_000, 20_000, 100_000)),
        6 => ("fq", Vec::new()),
        _ => ("fq_codel", Vec::new()),
    };
    let handle = *rng.pick(&[0, 0x2_0000, 0x3_0000]);
    hand.about_to(format!(
        "{device}: {kind} {handle:x} below {below:x}+{class:x}"
    ));
    let tc = &mut hand.devices.tc;
    let answer = tc.qdisc(Request::ReplaceQdisc, below | class, handle, kind, &options);
    let own = kind == PORT || kind == PACER;
    let what = if own {
        "a port or pacer as a child"
    } else {
        "a child"
    };
    count(hand, what, answer);
}

fn change(hand: &mut Hand<'_>, device: &str) {
    let kind = *hand.rng.pick(&[PORT, QUEUES, PACER, PACER]);
    let options = right(&mut hand.rng, kind);
    hand.about_to(format!("{device}: change {kind} {options:x?}"));
    let tc = &mut hand.devices.tc;
    let answer = tc.qdisc(Request::ChangeQdisc, ROOT, ROOT_HANDLE, kind, &options);
    count(hand, "a change", answer);
}

fn delete(hand: &mut Hand<'_>, device: &str) {
    let places = [ROOT, ROOT_HANDLE | 1, ROOT_HANDLE | 2, 0x2_0002];
    let parent = *hand.rng.pick(&places);
    hand.about_to(format!("{device}: delete below {parent:x}"));
    let answer = hand.devices.tc.delete(parent);
    count(hand, "a qdisc deleted", answer);
}

/// Classes cannot be made or removed; that is what is to be said.
fn class(hand: &mut Hand<'_>, device: &str) {
    let requests = [
        Request::AddClass,
        Request::ChangeClass,
        Request::DeleteClass,
    ];
    let what = *hand.rng.pick(&requests);
    let class = ROOT_HANDLE | hand.rng.range(0..=0x18) as u32;
    hand.about_to(format!("{device}: {what:?} {class:x}"));
    let tc = &mut hand.devices.tc;
    let answer = tc.qdisc(what, ROOT_HANDLE, class, PORT, &[]);
    count(hand, "a class made or removed", answer);
}

fn filter(hand: &mut Hand<'_>, device: &str) {
    let parent = *hand.rng.pick(&[ROOT_HANDLE, ROOT_HANDLE, 0x2_0000]);
    hand.about_to(format!("{device}: a filter of {parent:x}"));
    let rng = &mut hand.rng;
    if rng.one_in(3) {
        let answer = hand.devices.tc.delete_filters(parent);
        return count(hand, "filters deleted", answer);
    }
    let class = (!rng.one_in(6)).then_some(parent | *rng.pick(&[1, 2, 3, 0x10, 0x12, 0x99]));
    let priority = rng.range(1..=4) as u16;
    let answer = hand.devices.tc.add_matchall(parent, priority, class);
    count(hand, "a filter", answer);
}

/// Any request with any attributes.
fn anything(hand: &mut Hand<'_>, device: &str) {
    let rng = &mut hand.rng;
    let what = *rng.pick(&[
        Request::AddQdisc,
        Request::ReplaceQdisc,
        Request::ChangeQdisc,
        Request::DeleteQdisc,
        Request::AddClass,
        Request::ChangeClass,
        Request::DeleteClass,
    ]);
    let parent = *rng.pick(&[ROOT, ROOT, 0, ROOT_HANDLE, 0x1_0001, 0x1_0002, 0x2_0002]);
    let handle = *rng.pick(&[0, ROOT_HANDLE, 0x2_0000, 0x1_0002, 0xffff_0000]);
    let (kind, options) = if rng.one_in(2) {
        (PORT, settings::wrong::<port::config::Config>(rng))
    } else {
        (PACER, settings::wrong::<pacer::config::Config>(rng))
    };
    hand.about_to(format!(
        "{device}: {what:?} {parent:x} {handle:x} {options:x?}"
    ));
    let answer = hand.devices.tc.qdisc(what, parent, handle, kind, &options);
    count(hand, "a request about qdiscs of any kind", answer);
}

/// Lists qdiscs or classes, and sees whether packets went through them.
fn dump(hand: &mut Hand<'_>, device: &str) {
    hand.about_to(format!("{device}: a dump"));
    let tc = &mut hand.devices.tc;
    let found = if hand.rng.one_in(2) {
        tc.qdiscs()
    } else {
        tc.classes_of(ROOT_HANDLE)
    };
    hand.tally
        .count("a list of qdiscs or classes", found.is_ok());
    for object in found.unwrap_or_default() {
        let passed = object.stats.packets > 0;
        match object.kind.as_str() {
            PORT => hand.tally.count("packets through a port", passed),
            PACER => hand.tally.count("packets through a pacer", passed),
            _ => {}
        }
    }
}
