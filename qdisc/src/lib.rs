// SPDX-License-Identifier: GPL-2.0
//! `sch_turnstile.ko`: the Turnstile port, a classful qdisc.
//!
//! This crate only joins two others: `turnstile_core` decides what happens to a packet and when, `knet` is
//! the kernel. Read [`port`] for the packet path, [`options`] for what `tc` may say, [`classes`] for what exists where,
//! [`report`] for the counters.

#![forbid(unsafe_code)]

use kernel::prelude::*;

mod classes;
mod options;
mod packet;
mod port;
mod report;

module! {
    type: Module,
    name: "sch_turnstile",
    authors: ["The Turnstile authors"],
    description: "Turnstile port: token-scheduled strict-priority packet scheduler",
    license: "GPL",
    alias: ["net-sch-turnstile"],
}

struct Module {
    _kind: knet::Registration<port::TurnstilePort>,
}

impl kernel::Module for Module {
    fn init(module: &'static ThisModule) -> Result<Self> {
        Ok(Module {
            _kind: knet::Registration::new(module)?,
        })
    }
}
