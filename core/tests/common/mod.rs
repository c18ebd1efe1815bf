// SPDX-License-Identifier: GPL-2.0
//! Shared by the property tests: packets, queues, a child, a sink, and fractions.
#![allow(dead_code, unreachable_pub, missing_docs)] // each test uses a part of it

use std::collections::VecDeque;

use turnstile_core::port::band::Band;
use turnstile_core::port::config::Config;
use turnstile_core::port::flows::{Flow, LOOKS};
use turnstile_core::queue::{wire_len, Child, DropCause, Meta, Packet, Queue, Sink};
use turnstile_core::units::Nanos;

/// The papers' switch: `jitter 0`, so that limit and expiry are as configured.
pub const PAPERS: Config = Config {
    jitter: Nanos::ZERO,
    ..Config::DEFAULT
};

#[derive(Clone, Debug, PartialEq)]
pub struct P {
    pub id: u64,
    pub meta: Meta,
    pub flow: Flow,
}

impl P {
    pub fn new(id: u64, len: u32, segs: u32, overhead: u32, mpu: u32) -> Self {
        let wire_len = wire_len(len, segs, overhead, mpu);
        Self {
            id,
            meta: Meta {
                len,
                wire_len,
                segs,
                enqueued: Nanos::ZERO,
            },
            flow: 0,
        }
    }
}

impl Packet for P {
    fn meta(&self) -> Meta {
        self.meta
    }
    fn set_enqueued(&mut self, now: Nanos) {
        self.meta.enqueued = now;
    }
    fn flow(&self, _: bool) -> Flow {
        self.flow
    }
}

#[derive(Debug, Default)]
pub struct Fifo(pub VecDeque<P>);

impl Queue for Fifo {
    const EMPTY: Self = Self(VecDeque::new());
    type Packet = P;
    fn push(&mut self, packet: P) {
        self.0.push_back(packet);
    }
    fn pop(&mut self) -> Option<P> {
        self.0.pop_front()
    }
    fn front(&self) -> Option<Meta> {
        self.0.front().map(Packet::meta)
    }
    fn set_front_enqueued(&mut self, now: Nanos) {
        if let Some(front) = self.0.front_mut() {
            front.set_enqueued(now);
        }
    }
    fn flows(&mut self, _: bool, flows: &mut [Flow; LOOKS]) -> usize {
        for (flow, packet) in flows.iter_mut().zip(&self.0) {
            *flow = packet.flow;
        }
        self.0.len().min(LOOKS)
    }
    fn remove(&mut self, place: usize) -> Option<P> {
        self.0.remove(place)
    }
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A child qdisc; while throttled it has packets and gives none.
#[derive(Clone, Debug, Default)]
pub struct FakeChild {
    pub packets: VecDeque<P>,
    pub throttled: bool,
}

impl Child<P> for FakeChild {
    fn queued(&self) -> u64 {
        self.packets.len() as u64
    }
    fn dequeue(&mut self) -> Option<P> {
        if self.throttled {
            None
        } else {
            self.packets.pop_front()
        }
    }
}

/// The dropped packets, in order.
#[derive(Debug, Default)]
pub struct Drops(pub Vec<(P, Band, DropCause)>);

impl Sink<P> for Drops {
    fn dropped(&mut self, packet: P, band: Band, cause: DropCause) {
        self.0.push((packet, band, cause));
    }
}

/// Time per byte, `ns / bytes`, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerByte {
    pub ns: u128,
    pub bytes: u128,
}

impl PerByte {
    /// None at all.
    pub const NONE: Self = Self { ns: 0, bytes: 1 };

    pub fn of_rate(bytes_per_sec: u64) -> Self {
        Self::reduced(1_000_000_000, bytes_per_sec.into())
    }

    pub fn of_share(link: u64, ppb: u32) -> Self {
        Self::reduced(
            1_000_000_000_000_000_000,
            u128::from(link) * u128::from(ppb),
        )
    }

    fn reduced(ns: u128, bytes: u128) -> Self {
        let (mut a, mut b) = (ns, bytes);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Self {
            ns: ns / a,
            bytes: bytes / a,
        }
    }

    /// What `len` bytes take, rounded up.
    pub fn duration(&self, len: u64) -> u64 {
        (u128::from(len) * self.ns).div_ceil(self.bytes) as u64
    }
}

/// A small seeded generator: splitmix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `n` - 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
