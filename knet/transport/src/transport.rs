// SPDX-License-Identifier: GPL-2.0
//! What a transport has to say.

use crate::{
    bindings,
    net::{Locked, Net},
    sock::Sock,
};
use kernel::{alloc::KBox, error::Result};

/// A peer as seen from a local address. IPv4 addresses are mapped (`::ffff:a.b.c.d`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The peer.
    pub ip: [u8; 16],
    /// The local address.
    pub local: [u8; 16],
    /// The device's index, if the peer's address is of that device's link only; 0 otherwise.
    pub scope: u32,
}

impl Path {
    pub(crate) fn from_raw(path: &bindings::knt_path) -> Self {
        Self {
            ip: path.ip,
            local: path.local,
            scope: path.scope,
        }
    }
}

/// A packet that came in.
pub struct Arrival<'a> {
    /// Where from and where to.
    pub from: Path,
    /// The first bytes behind UDP's header, at most 144.
    pub head: &'a [u8],
    /// How many bytes there are behind UDP's header.
    pub len: u32,
    /// Index of the device that it came in by.
    pub device: u32,
    /// The ECN field of IP's header.
    pub ecn: u8,
}

/// A transport. There is one in a module.
pub trait Transport: Sized + 'static {
    /// What a network namespace keeps, its sockets included.
    type State: Send + 'static;

    /// Makes a namespace's state; `None`: no memory. May sleep.
    fn open(net: &Net<Self>) -> Option<KBox<Self::State>>;

    /// When [`Transport::timer`] is to be called, on [`now`](crate::now)'s clock.
    fn next_timer(state: &Self::State) -> Option<u64>;

    /// The time of [`Transport::next_timer`] has come.
    fn timer(state: &mut Locked<'_, Self>);

    /// A packet came in.
    fn packet(state: &mut Locked<'_, Self>, arrival: &Arrival<'_>);

    /// A socket is made.
    ///
    /// # Errors
    /// Those of `socket(2)`.
    fn sock_open(net: &Net<Self>, sock: &Sock) -> Result;

    /// A socket is closed; also called when [`Transport::sock_open`] has failed.
    fn sock_close(net: &Net<Self>, sock: &Sock);
}
