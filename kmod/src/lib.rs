// SPDX-License-Identifier: GPL-2.0
//! `turnstile.ko`: the Turnstile transport, messages in sockets.
//!
//! This crate only joins two others: `turnstile_core` is the protocol, `knet_transport` is the kernel.

#![forbid(unsafe_code)]

use kernel::prelude::*;
use knet_transport::{Arrival, FamilyRegistration, Locked, Net, Registration, Sock, Transport};

mod netlink;

module! {
    type: Module,
    name: "turnstile",
    authors: ["The Turnstile authors"],
    description: "Turnstile transport: messages scheduled by tokens",
    license: "GPL",
    // socket(AF_INET or AF_INET6, SOCK_RDM, 259)
    // and the generic netlink family
    alias: [
        "net-pf-2-proto-259-type-4",
        "net-pf-10-proto-259-type-4",
        "net-pf-16-proto-16-family-turnstile",
    ],
}

struct Module {
    _family: FamilyRegistration<Turnstile>,
}

impl kernel::Module for Module {
    fn init(module: &'static ThisModule) -> Result<Self> {
        Ok(Module {
            _family: FamilyRegistration::new(module, Registration::new()?)?,
        })
    }
}

/// The transport.
pub struct Turnstile;

/// What a network namespace keeps.
pub struct State {
    sockets: u64,
    settings: netlink::Settings,
}

impl Transport for Turnstile {
    type State = State;

    fn open(net: &Net<Self>) -> Option<KBox<State>> {
        let settings = netlink::Settings::new(net).ok()?;
        KBox::new(
            State {
                sockets: 0,
                settings,
            },
            GFP_KERNEL,
        )
        .ok()
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
