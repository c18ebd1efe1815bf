// SPDX-License-Identifier: GPL-2.0
//! `turnstile.ko`: the Turnstile transport, messages in sockets.
//!
//! This crate only joins two others: `turnstile_core` is the protocol, `knet_transport` is the
//! kernel. Read [`state`] for what a network namespace keeps and how packets come and go,
//! [`socket`] for a socket's life, [`send`] and [`receive`] for its calls, [`budget`] for how a
//! receive buffer is shared.

#![forbid(unsafe_code)]

use kernel::prelude::*;
use knet_transport::{
    Arrival, Busy, Caller, FamilyRegistration, Locked, Net, Opening, Queue, Ready, ReceiveFlags,
    Receiving, Sending, Sock, Timeout, Transport,
};

mod budget;
mod errno;
mod host;
mod incoming;
mod memory;
mod netlink;
mod outgoing;
mod ports;
mod receive;
mod send;
mod socket;
mod state;

use state::State;

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

#[pin_data]
struct Module {
    #[pin]
    family: FamilyRegistration<Turnstile>,
}

impl kernel::InPlaceModule for Module {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            family <- FamilyRegistration::new(module),
        })
    }
}

/// The transport.
pub(crate) struct Turnstile;

impl Transport for Turnstile {
    type State = State;

    fn open(net: &mut Opening<'_>) -> Option<KBox<State>> {
        State::new(net)
    }

    fn next_timer(state: &State) -> Option<u64> {
        state.next_timer()
    }

    fn timer(state: &mut Locked<'_, Self>) {
        state::timer(state);
    }

    fn packet(state: &mut Locked<'_, Self>, arrival: Arrival<'_>) {
        state::packet(state, arrival);
    }

    fn sock_open(net: &mut Net<'_, Self>, sock: &Sock) -> Result {
        socket::open(net, sock)
    }

    fn sock_close(net: &mut Net<'_, Self>, sock: Caller<'_>, abort: bool, linger: Timeout) {
        socket::close(net, sock, abort, linger);
    }

    fn sock_bind(net: &mut Net<'_, Self>, sock: Busy<'_>, port: u16) -> Result<u16> {
        socket::bind(net, sock, port)
    }

    fn sock_unbind(net: &mut Net<'_, Self>, sock: Busy<'_>) {
        socket::unbind(net, sock);
    }

    fn sock_moved(_net: &mut Net<'_, Self>, _sock: Busy<'_>) {
        // Addresses are looked at when a message comes.
    }

    fn sock_shutdown(net: &mut Net<'_, Self>, sock: Busy<'_>) {
        socket::shutdown(net, sock);
    }

    fn send(
        net: &mut Net<'_, Self>,
        sock: Caller<'_>,
        message: &mut Sending<'_>,
        len: usize,
    ) -> Result<u32> {
        send::send(net, sock, message, len)
    }

    fn receive(
        net: &mut Net<'_, Self>,
        sock: Caller<'_>,
        message: &mut Receiving<'_>,
        len: usize,
        flags: ReceiveFlags,
    ) -> Result<u32> {
        receive::receive(net, sock, message, len, flags)
    }

    fn poll(net: &mut Net<'_, Self>, sock: &Sock) -> Ready {
        socket::poll(net, sock)
    }

    fn set_option(net: &mut Net<'_, Self>, sock: Busy<'_>, option: u32, value: i32) -> Result {
        socket::set_option(net, sock, option, value)
    }

    fn get_option(net: &mut Net<'_, Self>, sock: &Sock, option: u32) -> Result<i32> {
        socket::get_option(net, sock, option)
    }

    fn queued(net: &mut Net<'_, Self>, sock: &Sock, queue: Queue) -> u32 {
        socket::queued(net, sock, queue)
    }
}
