// SPDX-License-Identifier: GPL-2.0
//! `sch_turnstile.ko`: the Turnstile port, a classful qdisc; ports of several queues, another kind;
//! and the host pacer.
//!
//! This crate only joins two others: `turnstile_core` decides what happens to a packet and when,
//! `knet` is the kernel. Read [`port`] for the packet path, [`filters`] for what filters say of a
//! packet, [`options`] for what `tc` may say, [`classes`] for what exists where, [`report`] for the
//! counters; [`group`] for the ports of several queues, [`pacer`] for the pacer.

#![forbid(unsafe_code)]

use kernel::prelude::*;

mod classes;
mod filters;
mod group;
mod options;
mod pacer;
mod packet;
mod pauses;
mod port;
mod report;

module! {
    type: Module,
    name: "sch_turnstile",
    authors: ["The Turnstile authors"],
    description: "Turnstile port: token-scheduled strict-priority packet scheduler",
    license: "GPL",
    alias: ["net-sch-turnstile", "net-sch-turnstile_mq", "net-sch-turnstile_pacer"],
}

static PORT: knet::Kind<port::TurnstilePort> = knet::Kind::new();
static GROUP: knet::GroupKind<group::TurnstileGroup> = knet::GroupKind::new();
static PACER: knet::Kind<pacer::TurnstilePacer> = knet::Kind::new();

struct Module {
    _port: knet::Registration,
    _group: knet::Registration,
    _pacer: knet::Registration,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        packet::draw_flow_key();
        Ok(Module {
            _port: PORT.register()?,
            _group: GROUP.register()?,
            _pacer: PACER.register()?,
        })
    }
}
