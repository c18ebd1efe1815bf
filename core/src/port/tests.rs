// SPDX-License-Identifier: GPL-2.0
//! One rule per test, by hand. Long random runs against a model are in `tests/`.

mod arrivals;
mod bursts;
mod common;
mod cut;
mod early;
mod flows;
mod fresh;
mod generates;
mod hold;
mod layout;
mod limits;
mod live;
mod order;
mod signals;
mod trains;
mod unresolved;

use super::*;
use crate::port::config::{Expiry, Tokens};
use crate::port::flows::{Flow, LOOKS};
use crate::queue::{Child, NoChild};
use std::collections::VecDeque;
use std::ops::Range;
use std::vec::Vec;

const GBIT: u64 = 125_000_000;

/// The papers' switch: what tokens may wait is as configured.
const PAPERS: Config = Config {
    jitter: Nanos::ZERO,
    ..Config::DEFAULT
};

#[derive(Debug, PartialEq)]
struct P(u32, Meta);

impl Packet for P {
    fn meta(&self) -> Meta {
        self.1
    }
    fn set_enqueued(&mut self, now: Nanos) {
        self.1.enqueued = now;
    }
    /// The number's thousands.
    fn flow(&self, _: bool) -> Flow {
        Flow::from(self.0 / 1000)
    }
}

#[derive(Debug, Default)]
struct Fifo(VecDeque<P>);

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
    fn flows(&mut self, ethernet: bool, flows: &mut [Flow; LOOKS]) -> usize {
        for (flow, packet) in flows.iter_mut().zip(&self.0) {
            *flow = packet.flow(ethernet);
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

/// A child; one that is throttled has packets and gives none.
#[derive(Default)]
struct FakeChild {
    packets: VecDeque<P>,
    throttled: bool,
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

impl Sink<P> for Vec<(u32, Band, DropCause)> {
    fn dropped(&mut self, packet: P, band: Band, cause: DropCause) {
        self.push((packet.0, band, cause));
    }
}

/// A port with what a test wants to look at.
struct Bench {
    port: Port<Fifo>,
    child: FakeChild,
    drops: Vec<(u32, Band, DropCause)>,
    now: Nanos,
}

impl Bench {
    fn new(config: Config) -> Self {
        Self::on(Some(10 * GBIT), config)
    }

    /// A port on a device of this speed.
    fn on(speed: Option<u64>, config: Config) -> Self {
        let resolved = config.validate(speed).unwrap();
        let now = Nanos(1_000_000);
        let port = Port::new(&config, &resolved, now);
        Self {
            port,
            child: FakeChild::default(),
            drops: Vec::new(),
            now,
        }
    }

    fn packet(id: u32, len: u32, segs: u32) -> P {
        P(
            id,
            Meta {
                len,
                wire_len: crate::queue::wire_len(len, segs, 24, 84),
                segs,
                enqueued: Nanos::ZERO,
            },
        )
    }

    fn put_sized(&mut self, band: Band, id: u32, len: u32, segs: u32) -> Enqueue {
        self.port
            .enqueue(self.now, band, Self::packet(id, len, segs), &mut self.drops)
    }

    /// A full frame of data, a minimum frame of anything else.
    fn put(&mut self, band: Band, id: u32) -> Enqueue {
        let len = if matches!(band, Band::Data | Band::Unscheduled) {
            1514
        } else {
            60
        };
        self.put_sized(band, id, len, 1)
    }

    fn put_all(&mut self, band: Band, ids: Range<u32>) {
        for id in ids {
            assert_eq!(self.put(band, id), Enqueue::Queued);
        }
    }

    fn get(&mut self) -> Dequeue<u32> {
        match self
            .port
            .dequeue(self.now, &mut self.child, &mut self.drops)
        {
            Dequeue::Packet(packet, band) => Dequeue::Packet(packet.0, band),
            Dequeue::Wait(time) => Dequeue::Wait(time - Nanos(1_000_000)),
            Dequeue::Empty => Dequeue::Empty,
        }
    }

    /// What leaves up to `end` ns after the start, when; polled at exactly the times it asks for.
    fn run(&mut self, end: u64) -> Vec<(u64, u32)> {
        let mut out = Vec::new();
        loop {
            match self.get() {
                Dequeue::Packet(id, _) => out.push((self.now.0 - 1_000_000, id)),
                Dequeue::Wait(time) if time.0 <= end => self.at(time.0),
                _ => return out,
            }
        }
    }

    /// The time is now `ns` after the start.
    fn at(&mut self, ns: u64) {
        let now = Nanos(1_000_000 + ns);
        assert!(now > self.now, "time stands still or runs backwards");
        self.now = now;
    }

    fn change(&mut self, config: Config) {
        let resolved = config.validate(Some(10 * GBIT)).unwrap();
        self.port
            .change(&config, &resolved, self.now, &mut self.drops);
    }
}

fn shaped() -> Config {
    Config {
        link: Some(10 * GBIT),
        ..PAPERS
    }
}
