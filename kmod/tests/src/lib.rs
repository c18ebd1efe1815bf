// SPDX-License-Identifier: GPL-2.0
//! What the kernel module keeps for a socket's buffers, tested outside of the kernel: its
//! own files, over what they need of the kernel's crates. Memory can be made to run out.
#![cfg(test)]

// The module's files name the kernel's crates.
extern crate self as kernel;
extern crate self as knet_transport;

// What only the rest of the module uses is dead here.
#[allow(dead_code)]
#[path = "../../src/buffer.rs"]
mod buffer;
#[allow(dead_code)]
#[path = "../../src/charges.rs"]
mod charges;
#[allow(dead_code)]
#[path = "../../src/queue.rs"]
mod queue;
#[allow(dead_code)]
#[path = "../../src/room.rs"]
mod room;

mod buffers;
mod incoming;
mod memory;
mod rbtree;
mod shares;
mod waiting;

/// A peer, 256 of which are a network.
fn peer(number: u16) -> SockAddress {
    let [net, host] = number.to_be_bytes();
    let mut ip = [0; 16];
    (ip[10], ip[11]) = (255, 255);
    (ip[12], ip[14], ip[15]) = (10, net, host);
    SockAddress {
        ip,
        scope: 0,
        port: 0,
    }
}

/// As the kernel's.
mod prelude {
    pub(crate) type Result<T = (), E = crate::memory::NoMemory> = core::result::Result<T, E>;
}

/// As knet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SockAddress {
    pub(crate) ip: [u8; 16],
    pub(crate) scope: u32,
    pub(crate) port: u16,
}
