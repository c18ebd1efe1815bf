// SPDX-License-Identifier: GPL-2.0
//! `turnstile.ko`: the Turnstile transport, messages in sockets.
//!
//! This crate only joins two others: `turnstile_core` is the protocol, `knet_transport` is the
//! kernel. Its modules, each of which uses only those above it:
//!
//! | module | what it has |
//! |---|---|
//! | [`errno`], [`memory`] | errors and memory, as the kernel has them |
//! | [`ports`] | which sockets have which ports |
//! | [`incoming`], [`outgoing`] | what is kept for each message |
//! | [`keys`] | the keys of sealed messages |
//! | [`events`], [`settings`] | what is kept for netlink: events to tell, the configuration |
//! | [`socket`] | what is kept for each socket, and the table of them |
//! | [`waiting`] | which of them wait for a place for a message |
//! | [`host`] | what the endpoint needs of all these |
//! | [`state`] | what a network namespace keeps; how packets come and go |
//! | [`send`], [`receive`] | `sendmsg`, `recvmsg` |
//! | [`calls`] | a socket's life, and its other calls |
//! | [`list`] | sockets for those who list them |
//! | [`netlink`] | the generic netlink family |
//!
//! The crate's root ties them to [`Transport`], and is used by none of them.

#![forbid(unsafe_code)]

use kernel::prelude::*;
use knet_transport::{
    Ancillary, Arrival, Caller, FamilyRegistration, Listed, Locked, LockedSock, Net, Numbers,
    Opening, Path, Payload, Ready, ReceiveFlags, Receiving, Refused, ReportNumbers, Sending, Sock,
    SockName, SockQueue, Timeout, Train, Transport, Unreachable, Whole,
};
use turnstile_core::header;
use turnstile_core::transport::{
    uapi::{self, ancillary},
    wire,
};

mod buffer;
mod calls;
mod charges;
mod errno;
mod events;
mod host;
mod incoming;
mod keys;
mod list;
mod memory;
mod netlink;
mod outgoing;
mod ports;
mod promotable;
mod queue;
mod receive;
mod room;
mod send;
mod settings;
mod socket;
mod sockets;
mod state;
mod trains;
mod waiting;

use state::{State, Turnstile};

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

/// DATA, unless its message's SYNC comes first or it is sealed: these have more than its header to
/// look at.
const PLAIN_DATA: Payload = {
    let others = header::FLAG_FIRST | header::Type::Data.sealed();
    Payload {
        first: u32::from_be_bytes([header::Type::Data.first_byte(), 0, 0, 0]),
        mask: u32::from_be_bytes([u8::MAX, 0, others, 0]),
        header: wire::DATA_LEN as u32,
    }
};

impl Transport for Turnstile {
    const NUMBERS: Numbers = Numbers {
        names: [c"TURNSTILE", c"TURNSTILEv6"],
        header: wire::MAX_HEADER as u32,
        payload: PLAIN_DATA,
        udp_port: header::PORT,
        source_port: wire::FIRST_SOURCE_PORT,
        protocol: uapi::IPPROTO_TURNSTILE,
        level: uapi::SOL_TURNSTILE,
        ancillary: Ancillary {
            length: ancillary::LENGTH,
            deadline: ancillary::DEADLINE,
            coflow: ancillary::COFLOW,
            priority: ancillary::PRIORITY,
            unknown_size: ancillary::UNKNOWN_SIZE,
            info: ancillary::INFO,
        },
        report: ReportNumbers {
            origin: uapi::EE_ORIGIN,
            delivered: uapi::EE_DELIVERED,
            failed: uapi::EE_FAILED,
            lost: uapi::EE_LOST,
        },
    };

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

    fn packet(net: &mut Net<'_, Self>, arrival: Arrival<'_>) {
        state::packet(net, arrival);
    }

    fn whole(net: &mut Net<'_, Self>, whole: &mut Whole<'_>) {
        trains::whole(net, whole);
    }

    fn train(net: &mut Net<'_, Self>, train: Train<'_>) {
        trains::train(net, train);
    }

    fn refused(state: &mut Locked<'_, Self>, why: Refused) {
        state::refused(state, why);
    }

    fn quoted(state: &mut Locked<'_, Self>, to: Path, port: u16, head: &[u8]) -> bool {
        state::quoted(state, to, port, head)
    }

    fn unreachable(state: &mut Locked<'_, Self>, to: Path, head: &[u8], what: Unreachable) {
        state::unreachable(state, to, head, what);
    }

    fn left(state: &mut Locked<'_, Self>, name: u64, still: u32) {
        state::left(state, name, still);
    }

    fn path_mtu(state: &mut Locked<'_, Self>, to: Path, mtu: u32) {
        state::path_mtu(state, to, mtu);
    }

    fn sock_open(net: &mut Net<'_, Self>, sock: &Sock) -> Result {
        calls::open(net, sock)
    }

    fn sock_close(net: &mut Net<'_, Self>, sock: Caller<'_>, abort: bool, linger: Timeout) {
        calls::close(net, sock, abort, linger);
    }

    fn sock_bind(net: &mut Net<'_, Self>, sock: LockedSock<'_>, port: u16) -> Result<u16> {
        calls::bind(net, sock, port)
    }

    fn sock_unbind(net: &mut Net<'_, Self>, sock: LockedSock<'_>) {
        calls::unbind(net, sock);
    }

    fn sock_moved(net: &mut Net<'_, Self>, sock: LockedSock<'_>) {
        calls::moved(net, sock);
    }

    fn sock_shutdown(net: &mut Net<'_, Self>, sock: LockedSock<'_>) {
        calls::shutdown(net, sock);
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
        calls::poll(net, sock)
    }

    fn set_option(
        net: &mut Net<'_, Self>,
        sock: LockedSock<'_>,
        option: u32,
        value: i32,
        wide: Option<u64>,
    ) -> Result {
        calls::set_option(net, sock, option, value, wide)
    }

    fn get_option(net: &mut Net<'_, Self>, sock: &Sock, option: u32) -> Result<i64> {
        calls::get_option(net, sock, option)
    }

    fn queued(net: &mut Net<'_, Self>, sock: &Sock, queue: SockQueue) -> u32 {
        calls::queued(net, sock, queue)
    }

    fn sock_next(
        state: &mut Locked<'_, Self>,
        name: Option<&SockName>,
        from: u64,
    ) -> Option<Listed> {
        list::next(state, name, from)
    }

    fn sock_resized(net: &mut Net<'_, Self>, sock: LockedSock<'_>) {
        calls::resized(net, sock);
    }

    fn sock_abort(net: &mut Net<'_, Self>, _sock: LockedSock<'_>, handle: u64) {
        calls::destroy(net, handle);
    }
}
