// SPDX-License-Identifier: GPL-2.0
//! The markers in a port against a model: in long random runs of all kinds of packets and
//! configurations, every packet leaves with the mark that the model gives it.

#[path = "../common/mod.rs"]
mod common;
mod model;
mod tcd;

use std::collections::{HashMap, VecDeque};

use common::Rng;
use model::Model;
use proptest::prelude::*;
use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Config, Drain, Order, Phantom, Tokens};
use turnstile_core::port::marker::field::{Label, Place};
use turnstile_core::port::{Dequeue, Port};
use turnstile_core::queue::{Child, DropCause, Meta, Packet, Queue, Sink};
use turnstile_core::units::Nanos;

/// A packet with an ECN field, if it is IP at all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct P {
    inner: common::P,
    ecn: Option<u8>,
    ren: bool,
    /// Its header can be written to.
    writable: bool,
}

impl Packet for P {
    fn meta(&self) -> Meta {
        self.inner.meta
    }
    fn set_enqueued(&mut self, now: Nanos) {
        self.inner.set_enqueued(now);
    }
    fn label(&self, _: bool) -> Option<Label> {
        Some(Label {
            place: Place::default(),
            ecn: self.ecn?,
            ren: self.ren,
        })
    }
    fn set_ecn(&mut self, _: bool, place: Place, ecn: u8) -> bool {
        assert_eq!(place, Place::default());
        assert_ne!(self.ecn, Some(ecn), "what is there already is not written");
        if self.writable {
            self.ecn = Some(ecn);
        }
        self.writable
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
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Debug, Default)]
struct FakeChild(VecDeque<P>);

impl Child<P> for FakeChild {
    fn queued(&self) -> u64 {
        self.0.len() as u64
    }
    fn dequeue(&mut self) -> Option<P> {
        self.0.pop_front()
    }
}

struct Free;

impl Sink<P> for Free {
    fn dropped(&mut self, _: P, _: Band, _: DropCause) {}
}

#[derive(Clone, Debug)]
struct Setup {
    config: Config,
    /// bytes/s, of the device.
    speed: u64,
    child: bool,
    /// Super-packets leave whole.
    supers: bool,
}

impl Setup {
    /// Another setup's phantom queue, on this one's link.
    fn and_then_phantom(&self, other: &Self) -> Option<Phantom> {
        let mut phantom = other.config.phantom?;
        if let Drain::Rate(rate) = phantom.drain {
            let share = u128::from(rate) * u128::from(self.speed) / u128::from(other.speed);
            phantom.drain = Drain::Rate((share as u64).max(self.speed.div_ceil(100)));
        }
        Some(phantom)
    }
}

fn setup() -> impl Strategy<Value = Setup> {
    let speed = prop::sample::select(
        &[
            12_500_000_u64,
            125_000_000,
            1_250_000_000,
            12_500_000_000,
            50_000_000_000,
        ][..],
    );
    let drain = (0_u32..4, 10_000_000_u32..=1_000_000_000);
    let mark = prop::sample::select(&[0_u32, 1000, 6000, 30_000, 1 << 20][..]);
    (
        speed,
        any::<[bool; 6]>(),
        prop::option::weighted(0.7, (drain, mark)),
        prop::option::weighted(0.7, 1_u64..200),
    )
        .prop_map(
            |(speed, [shaped, rated, data_first, overhead, child, supers], phantom, frames)| {
                let phantom = phantom.map(|((usual, any), mark)| {
                    let ppb = match usual {
                        0 => 950_000_000,
                        1 => 1_000_000_000,
                        _ => any,
                    };
                    let rate = u128::from(speed) * u128::from(ppb) / 1_000_000_000;
                    let drain = match rated {
                        true => Drain::Rate((rate as u64).max(speed / 100)),
                        false => Drain::Share(ppb),
                    };
                    Phantom { drain, mark }
                });
                let config = Config {
                    link: shaped.then_some(speed),
                    tokens: Tokens::Share(51_787_916),
                    order: if data_first {
                        Order::DataFirst
                    } else {
                        Order::TokensFirst
                    },
                    data_limit: 1 << 30,
                    overhead: if overhead { 24 } else { 0 },
                    phantom,
                    // In frames, and a little more.
                    ren: frames.map(|frames| {
                        Nanos((frames * 1_540_000_000_000 / speed).clamp(1000, 1_000_000_000))
                    }),
                    ..common::PAPERS
                };
                Setup {
                    config,
                    speed,
                    child,
                    supers,
                }
            },
        )
}

/// A port and its model.
struct Bench {
    port: Port<Fifo>,
    child: FakeChild,
    model: Model,
    setup: Setup,
    now: u64,
    rng: Rng,
    /// Packets as they came.
    came: HashMap<u64, P>,
    left: u64,
}

impl Bench {
    fn new(setup: &Setup, seed: u64) -> Self {
        let mut rng = Rng(seed);
        let now = rng.below(1 << 40);
        let resolved = setup.config.validate(Some(setup.speed)).unwrap();
        let mut port = Port::new(&setup.config, &resolved, Nanos(now));
        port.set_grafted(setup.child);
        Self {
            port,
            child: FakeChild::default(),
            model: Model::new(&setup.config, setup.speed, now),
            setup: setup.clone(),
            now,
            rng,
            came: HashMap::new(),
            left: 0,
        }
    }

    fn packet(&mut self) -> P {
        let (len, segs) = match self.rng.below(8) {
            0 => (60, 1),
            1 => (60 + self.rng.below(8941) as u32, 1),
            2 if self.setup.supers => {
                let segs = 2 + self.rng.below(42) as u32;
                (segs * 1514, segs)
            }
            _ => (1514, 1),
        };
        let config = self.port.config();
        let id = self.came.len() as u64;
        P {
            inner: common::P::new(id, len, segs, config.overhead, config.mpu),
            ecn: match self.rng.below(9) {
                8 => None,
                ecn => Some(ecn as u8 & 3),
            },
            ren: self.rng.below(3) == 0,
            writable: self.rng.below(16) != 0,
        }
    }

    fn put(&mut self) {
        let band = match self.rng.below(12) {
            0 => Band::Signal,
            1 => Band::Token(0),
            2 => Band::Unscheduled,
            _ => Band::Data,
        };
        let packet = self.packet();
        self.came.insert(packet.inner.id, packet.clone());
        if self.setup.child && band == Band::Data {
            self.port.child_offered(packet.meta());
            self.child.0.push_back(packet);
        } else {
            self.port.enqueue(Nanos(self.now), band, packet, &mut Free);
        }
    }

    /// Dequeues one packet, if one may leave; otherwise returns when to ask again, if at all.
    fn get(&mut self) -> Result<(), Option<u64>> {
        match self
            .port
            .dequeue(Nanos(self.now), &mut self.child, &mut Free)
        {
            Dequeue::Packet(packet, band) => {
                let before = &self.came[&packet.inner.id];
                let behind = self.port.queued(Band::Data).packets + self.child.queued();
                let expected = self.model.leaves(self.now, band, before, behind);
                assert_eq!(packet.ecn, expected, "{before:?} of {band}");
                self.left += 1;
                if self.setup.config.link.is_none() {
                    // It still occupies the link.
                    let bytes = u64::from(packet.meta().wire_len);
                    self.now += (bytes * 1_000_000_000).div_ceil(self.setup.speed);
                }
                Ok(())
            }
            Dequeue::Wait(time) => Err(Some(time.0)),
            Dequeue::Empty => Err(None),
        }
    }

    /// Dequeues all packets, each when it is due or a little later.
    fn drain(&mut self) {
        loop {
            match self.get() {
                Ok(()) => {}
                Err(None) => return,
                Err(Some(time)) => {
                    let late = match self.rng.below(4) {
                        0 => self.rng.below(3000),
                        _ => 0,
                    };
                    self.now = time + late;
                    if self.rng.below(3) == 0 {
                        self.put();
                    }
                }
            }
        }
    }

    fn change(&mut self, config: &Config) {
        let resolved = config.validate(Some(self.setup.speed)).unwrap();
        self.port
            .change(config, &resolved, Nanos(self.now), &mut Free);
        self.model.change(config, self.now);
        self.setup.config = *config;
    }

    fn step(&mut self, other: &Config) {
        // What a full frame takes.
        let frame = 1538 * 1_000_000_000 / self.setup.speed;
        match self.rng.below(40) {
            0..=19 => self.put(),
            20..=22 => {
                for _ in 0..self.rng.below(60) {
                    self.put();
                }
            }
            23..=27 => self.now += self.rng.below(2 * frame + 1),
            28 => self.now += self.rng.below(200 * frame + 1),
            29..=36 => {
                if let Err(Some(time)) = self.get() {
                    self.now = time;
                }
            }
            37 => self.drain(),
            38 if self.rng.below(20) == 0 => self.change(other),
            39 if self.rng.below(40) == 0 => {
                self.port.reset(&mut Free);
                self.model.reset();
            }
            _ => {}
        }
        let now = self.now;
        assert_eq!(self.model.stats(), self.port.markers().stats());
        if let Some(phantom) = self.port.markers().phantom() {
            assert_eq!(
                (phantom.backlog(Nanos(now)), phantom.max_backlog()),
                self.model.backlog(now)
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_leaves_as_the_model_says(setup in setup(), other in setup(), seed: u64) {
        let mut bench = Bench::new(&setup, seed);
        // The framing stays: packets are made with it.
        let mut changed = setup.config;
        changed.phantom = setup.and_then_phantom(&other);
        changed.ren = other.config.ren;
        for _ in 0..4000 {
            bench.step(&changed);
        }
        bench.drain();
        prop_assert!(bench.left > 100, "{} packets left", bench.left);
    }
}

/// The runs above cover every kind of outcome, and often.
#[test]
fn random_runs_see_every_outcome() {
    let config = Config {
        link: Some(125_000_000),
        phantom: Some(Phantom {
            drain: Drain::Share(950_000_000),
            mark: 6000,
        }),
        ren: Some(Nanos(400_000)),
        data_limit: 1 << 30,
        ..common::PAPERS
    };
    let mut bench = Bench::new(
        &Setup {
            config,
            speed: 125_000_000,
            child: false,
            supers: true,
        },
        1,
    );
    for _ in 0..30_000 {
        bench.step(&config);
    }
    let stats = *bench.port.markers().stats();
    let (phantom, ren) = (stats.phantom, stats.ren);
    for (name, count) in [
        ("not markable", phantom.seen - phantom.markable),
        ("not marked", phantom.markable - phantom.marked),
        ("marked", phantom.marked),
        ("left under-utilized", ren.under),
        ("fully utilized", ren.full),
        ("over-utilized", ren.over),
        ("marked before", ren.kept),
        ("not writable", stats.unwritable),
    ] {
        assert!(count > 200, "{name}: {count} of {stats:?}");
    }
}
