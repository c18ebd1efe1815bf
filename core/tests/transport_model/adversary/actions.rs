// SPDX-License-Identifier: GPL-2.0
//! What an attacker can do in its turn.

use turnstile_core::header::{FLAG_UNASKED, FLAG_UNSCHEDULED};
use turnstile_core::transport::wire::*;

use super::super::network::{Flying, Network};
use super::OWN;
use crate::host::{Payload, RIVAL};

/// An attacker: in its turns it forges packets.
pub(in super::super) trait Attack {
    /// `seen`: what it saw since its last turn.
    fn turn(&mut self, forge: &mut Forge<'_>, seen: &[Flying]);
}

/// A means to forge packets.
pub(in super::super) struct Forge<'a> {
    network: &'a mut Network,
    /// How many were forged.
    count: u64,
}

/// Lets an attacker have its turn; returns how many packets it forged.
pub(super) fn turn(network: &mut Network, attacker: &mut dyn Attack, seen: &[Flying]) -> u64 {
    let mut forge = Forge { network, count: 0 };
    attacker.turn(&mut forge, seen);
    forge.count
}

/// A SYNC of a message of `length` bytes.
pub(super) fn sync(cookie: u64, length: u32) -> Sync {
    Sync {
        cookie: Cookie(cookie),
        source: 1,
        destination: 2,
        length: Some(length),
        deadline: 0,
        coflow: 0,
        unscheduled: 0,
        mss: 1450,
        patience: 100,
        echo: 0,
        priority: None,
        probe: false,
        acked: false,
        ren: false,
        paced: false,
    }
}

/// All of a message of `length` bytes in a packet.
pub(super) fn whole(cookie: u64, length: u32) -> Packet {
    Packet::First(First {
        sync: Sync {
            unscheduled: length,
            ..sync(cookie, length)
        },
        data: Data {
            flags: FLAG_UNASKED,
            more: 1,
            ..data(cookie, 0, length)
        },
        prompt: false,
        delivered: Delivered::NONE,
    })
}

/// Data that nobody asked for.
pub(super) fn data(cookie: u64, offset: u32, len: u32) -> Data {
    Data {
        cookie: Cookie(cookie),
        token: 0,
        timestamp: 0,
        offset,
        len,
        flags: FLAG_UNSCHEDULED,
        more: 0,
    }
}

impl Forge<'_> {
    /// A random number.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.network.below(n)
    }

    /// A packet of the address `from` arrives at the honest host `to`.
    pub(super) fn send(&mut self, from: usize, to: usize, packet: Packet) {
        let payload = match &packet {
            // It is no honest message's: whoever takes it for one is noticed.
            Packet::Data(data) => Some(Payload {
                message: if from == OWN { RIVAL } else { usize::MAX },
                offset: data.offset,
                len: data.len,
            }),
            Packet::First(first) => Some(Payload {
                message: if from == OWN { RIVAL } else { usize::MAX },
                offset: 0,
                len: first.data.len,
            }),
            _ => None,
        };
        self.count += 1;
        if from < OWN {
            self.network.forged(from, to, &packet);
        }
        self.network.inject(from, to, packet, payload);
    }

    /// A packet that was seen arrives once more.
    pub(super) fn replay(&mut self, packet: &Flying) {
        self.count += 1;
        self.network
            .inject(packet.from, packet.to, packet.packet, packet.payload);
    }
}
