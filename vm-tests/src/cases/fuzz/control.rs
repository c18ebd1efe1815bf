// SPDX-License-Identifier: GPL-2.0
//! Netlink, devices, `/proc` and namespaces.

use std::io::Read;

use anyhow::Result;
use nix::sched::{unshare, CloneFlags};
use turnstile_core::transport::uapi::FAMILY;
use turnstile_socket::Socket;

use crate::raw_netlink::{attribute, Generic, GenericRequest, Request, Tc, ROOT};
use crate::rng::Rng;
use crate::topology::Host;

/// A thread's means.
pub(super) struct Control {
    family: Generic,
    tc: Tc,
}

impl Control {
    pub(super) fn open(host: &Host) -> Result<Self> {
        Ok(Self {
            family: Generic::open_here(FAMILY)?,
            tc: Tc::open(&host.ns, "eth0")?,
        })
    }

    pub(super) fn call(&mut self, rng: &mut Rng) {
        match rng.index(10) {
            0..4 => self.generic(rng),
            4..8 => self.qdisc(rng),
            8 => files(rng),
            _ => namespace(rng),
        }
    }

    fn generic(&mut self, rng: &mut Rng) {
        let attributes = attributes(rng, 60);
        let mut request = GenericRequest::new(rng.range(0..=9) as u8, &attributes);
        if rng.one_in(4) {
            request.flags |= 0x300;
        }
        if rng.one_in(20) {
            request.reserved = 1;
        }
        // Whatever it answers.
        let _ = self.family.request(&request);
    }

    fn qdisc(&mut self, rng: &mut Rng) {
        let what = *rng.pick(&[
            Request::AddQdisc,
            Request::ReplaceQdisc,
            Request::ReplaceQdisc,
            Request::ChangeQdisc,
            Request::DeleteQdisc,
            Request::AddClass,
            Request::DeleteClass,
        ]);
        let parent = *rng.pick(&[ROOT, ROOT, 0x1_0000, 0x1_0001, 0x1_0002, 0x1_0009]);
        let handle = *rng.pick(&[0, 0x1_0000, 0x2_0000]);
        let kind = *rng.pick(&[
            "turnstile",
            "turnstile",
            "turnstile_pacer",
            "pfifo",
            "fq_codel",
        ]);
        let options = attributes(rng, 30);
        let _ = self.tc.qdisc(what, parent, handle, kind, &options);
        if rng.one_in(8) {
            let _ = self.tc.qdiscs();
            let _ = self.tc.classes_of(0x1_0000);
        }
    }
}

/// Attributes of numbers up to `most`, right or not.
fn attributes(rng: &mut Rng, most: u64) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..rng.index(5) {
        let value = match rng.index(4) {
            0 => 0,
            1 => rng.range(0..=u64::MAX),
            2 => 1 << rng.range(0..=40),
            _ => rng.range(0..=10_000),
        };
        let len = *rng.pick(&[0, 1, 4, 4, 4, 8, 8]);
        let kind = rng.range(0..=most) as u16;
        all.extend_from_slice(&attribute(kind, &value.to_ne_bytes()[..len]));
    }
    if rng.one_in(20) {
        all.truncate(rng.index(all.len() + 1));
    }
    all
}

const FILES: &[&str] = &[
    "/proc/net/protocols",
    "/proc/net/sockstat",
    "/proc/net/udp",
    "/proc/net/snmp",
    "/proc/net/dev",
    "/proc/modules",
    "/sys/module/turnstile/refcnt",
    "/sys/module/sch_turnstile/refcnt",
];

fn files(rng: &mut Rng) {
    if let Ok(mut file) = std::fs::File::open(rng.pick(FILES)) {
        let _ = file.read(&mut vec![0; rng.range(1..=10_000) as usize]);
    }
}

/// A namespace that goes with a socket in it, with or without a user namespace of its own.
fn namespace(rng: &mut Rng) {
    let user = rng.one_in(2);
    let answer = std::thread::spawn(move || {
        // A thread cannot have a user namespace of its own among others; refused is as good.
        let kind = if user {
            CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUSER
        } else {
            CloneFlags::CLONE_NEWNET
        };
        if unshare(kind).is_ok() {
            let _ = Socket::bind("127.0.0.1:4000");
            let _ = Socket::bind("[::1]:4001");
        }
    })
    .join();
    assert!(answer.is_ok(), "the thread panicked");
}
