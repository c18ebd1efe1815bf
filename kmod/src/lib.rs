// SPDX-License-Identifier: GPL-2.0
//! `turnstile.ko`: the Turnstile transport, messages in sockets.
//!
//! This crate only joins two others: `turnstile_core` is the protocol, `knet_transport` is the kernel.

#![forbid(unsafe_code)]

use kernel::prelude::*;
use knet_transport::{Arrival, Locked, Net, Registration, Sock, Transport};

module! {
    type: Module,
    name: "turnstile",
    authors: ["The Turnstile authors"],
    description: "Turnstile transport: messages scheduled by tokens",
    license: "GPL",
    // socket(AF_INET or AF_INET6, SOCK_RDM, 259)
    alias: ["net-pf-2-proto-259-type-4", "net-pf-10-proto-259-type-4"],
}

struct Module {
    _sockets: Registration<Turnstile>,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Module {
            _sockets: Registration::new()?,
        })
    }
}

/// The transport.
pub struct Turnstile;

/// What a network namespace keeps.
pub struct State {
    sockets: u64,
}

impl Transport for Turnstile {
    type State = State;

    fn open(_net: &Net<Self>) -> Option<KBox<State>> {
        KBox::new(State { sockets: 0 }, GFP_KERNEL).ok()
    }

    fn next_timer(_state: &State) -> Option<u64> {
        None
    }

    fn timer(_state: &mut Locked<'_, Self>) {}

    fn packet(_state: &mut Locked<'_, Self>, _arrival: &Arrival<'_>) {}

    fn sock_open(net: &Net<Self>, _sock: &Sock) -> Result {
        let mut state = net.lock().ok_or(ENODEV)?;
        state.sockets = state.sockets.wrapping_add(1);
        Ok(())
    }

    fn sock_close(net: &Net<Self>, _sock: &Sock) {
        if let Some(mut state) = net.lock() {
            state.sockets = state.sockets.wrapping_sub(1);
        }
    }
}
