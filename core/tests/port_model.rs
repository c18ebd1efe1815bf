// SPDX-License-Identifier: GPL-2.0
//! The port against a model: under random operations in random configurations, all verdicts, times,
//! drops and counters agree.

mod common;
mod model;

use common::{Drops, FakeChild, Fifo, P};
use model::Model;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Config, Drain, Expiry, Order, Phantom, TokenDrop, Tokens};
use turnstile_core::port::{Dequeue, Enqueue, Port, Slot};
use turnstile_core::units::Nanos;

/// Links on which every share is exact, bytes/s.
const LINKS: [u64; 8] = [
    125,
    1_250_000,
    12_500_000,
    125_000_000,
    1_250_000_000,
    3_125_000_000,
    12_500_000_000,
    100_000_000_000,
];

#[derive(Clone, Debug)]
enum Op {
    Put {
        band: Band,
        len: u32,
        segs: u32,
    },
    Flood {
        band: Band,
        len: u32,
        count: usize,
    },
    ChildPut {
        len: u32,
        refused: bool,
    },
    ChildThrottled(bool),
    Get,
    /// Dequeue until nothing may leave now.
    Drain,
    /// Dequeue at the time that the last dequeue said, give or take some ns.
    Wait {
        off: i64,
    },
    /// So many dequeues, each at the time that the last one asked for.
    Follow {
        times: usize,
    },
    /// Let time pass, in parts of a token's time on the present link.
    Sleep {
        percent: u64,
    },
    Change(Box<Config>),
    /// What the device reports, if anything.
    Speed(Option<u64>),
    Reset,
}

fn band() -> impl Strategy<Value = Band> {
    prop_oneof![
        1 => Just(Band::Signal),
        4 => (0_u8..8).prop_map(Band::Token),
        3 => Just(Band::Data),
        1 => Just(Band::Unscheduled),
    ]
}

fn len() -> impl Strategy<Value = u32> {
    prop_oneof![Just(60_u32), Just(1514), 1_u32..9000]
}

fn config() -> impl Strategy<Value = Config> {
    let tokens = prop_oneof![
        2 => Just(Tokens::Share(51_787_916)),
        2 => (100_000_u32..=500_000_000).prop_map(Tokens::Share),
        1 => (1_u64..=1000).prop_map(Tokens::Rate), // in thousandths of half the link: see below
    ];
    let expiry = prop_oneof![
        2 => Just(Expiry::Auto),
        1 => Just(Expiry::Off),
        1 => (1_u64..10_000_000).prop_map(|ns| Expiry::After(Nanos(ns))),
    ];
    let order = prop::sample::select(&[Order::TokensFirst, Order::DataFirst][..]);
    let link = prop::option::weighted(0.7, prop::sample::select(&LINKS[..]));
    let limits = (1_u32..12, 0_u32..3, 1600_u32..40_000, 1_u32..20);
    let signal_share = prop_oneof![
        2 => Just(50_000_000_u32),
        1 => Just(0),
        3 => 100_000_u32..=1_000_000_000,
    ];
    (
        link,
        tokens,
        1_u8..=8,
        expiry,
        order,
        limits,
        (0_u32..40, 0_u32..100, jitter(), signal_share),
    )
        .prop_map(
            |(link, tokens, priorities, token_expiry, order, limits, rest)| {
                let (overhead, mpu, jitter, signal_share) = rest;
                let (token_limit, unscheduled, data_limit, signal_limit) = limits;
                let tokens = match tokens {
                    Tokens::Rate(n) => Tokens::Rate((link.unwrap_or(LINKS[3]) / 2000 * n).max(1)),
                    share => share,
                };
                Config {
                    link,
                    tokens,
                    priorities,
                    token_limit,
                    token_expiry,
                    order,
                    token_drop: match priorities % 4 {
                        0 => TokenDrop::Last,
                        _ => TokenDrop::Fair,
                    },
                    unscheduled,
                    data_limit,
                    signal_limit,
                    signal_share,
                    overhead,
                    mpu,
                    jitter,
                    // This has no effect on what leaves when.
                    phantom: (mpu % 3 == 0).then_some(Phantom {
                        drain: Drain::Share(950_000_000),
                        mark: 1000,
                    }),
                    ..Config::DEFAULT
                }
            },
        )
}

/// A device's speed, if it knows that.
fn device() -> impl Strategy<Value = Option<u64>> {
    prop::option::weighted(0.8, prop::sample::select(&LINKS[..]))
}

fn jitter() -> impl Strategy<Value = Nanos> {
    prop_oneof![
        2 => Just(0),
        1 => Just(50_000),
        1 => 1_u64..200_000,
        1 => 1_u64..=10_000_000,
    ]
    .prop_map(Nanos)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        30 => (band(), len(), prop_oneof![9 => Just(1_u32), 1 => 2_u32..6])
            .prop_map(|(band, len, segs)| Op::Put { band, len, segs }),
        6 => (band(), len(), 2_usize..14)
            .prop_map(|(band, len, count)| Op::Flood { band, len, count }),
        1 => (1000_u32..9000, 5_usize..60)
            .prop_map(|(len, count)| Op::Flood { band: Band::Signal, len, count }),
        3 => (len(), prop::bool::weighted(0.2))
            .prop_map(|(len, refused)| Op::ChildPut { len, refused }),
        1 => any::<bool>().prop_map(Op::ChildThrottled),
        25 => Just(Op::Get),
        3 => Just(Op::Drain),
        20 => prop_oneof![4 => Just(0_i64), 1 => -3_i64..4, 1 => 0_i64..10_000]
            .prop_map(|off| Op::Wait { off }),
        4 => (1_usize..20).prop_map(|times| Op::Follow { times }),
        10 => prop_oneof![5 => 0_u64..300, 1 => 0_u64..5000, 1 => Just(1_000_000)]
            .prop_map(|percent| Op::Sleep { percent }),
        2 => config().prop_map(|config| Op::Change(Box::new(config))),
        1 => device().prop_map(Op::Speed),
        1 => Just(Op::Reset),
    ]
}

/// Port and model side by side.
struct Pair {
    port: Port<Fifo>,
    model: Model,
    child: FakeChild,
    drops: Drops,
    now: u64,
    /// When the last dequeue said to ask again.
    wait: Option<u64>,
    next_id: u64,
    /// What the device last reported.
    device: Option<u64>,
    sent: u64,
    /// A dequeue before time passes was promised, as `Context::asked_at_once` does.
    promised: bool,
    /// How often.
    fresh: u64,
}

impl Pair {
    fn new(config: &Config, device: Option<u64>) -> Self {
        let now = 1_000_000_000;
        // A token rate may not suit the device.
        let (device, resolved) = match config.validate(device) {
            Ok(resolved) => (device, resolved),
            Err(_) => (Some(LINKS[3]), config.validate(Some(LINKS[3])).unwrap()),
        };
        Self {
            port: Port::new(config, &resolved, Nanos(now)),
            model: Model::new(config, device.unwrap_or(0), now),
            child: FakeChild::default(),
            drops: Drops::default(),
            now,
            wait: None,
            next_id: 0,
            device,
            sent: 0,
            promised: false,
            fresh: 0,
        }
    }

    fn packet(&mut self, len: u32, segs: u32) -> P {
        self.next_id += 1;
        let config = self.port.config();
        let mut packet = P::new(self.next_id, len, segs, config.overhead, config.mpu);
        // A flow that has many, and others.
        packet.flow = [1, 1, 1, 2, 2, 3, self.next_id][len as usize % 7];
        packet
    }

    fn put(&mut self, band: Band, len: u32, segs: u32) {
        let packet = self.packet(len, segs);
        let early = self.port.map_band(band) == Band::Data && self.next_id % 3 == 0;
        let asked = self.next_id % 2 == 0;
        let long = self.next_id % 9 == 0;
        let model = &mut self.model;
        let expected = model.enqueue(self.now, band, packet.clone(), early && !long);
        let now = Nanos(self.now);
        let meta = packet.meta;
        let slot = match self.port.slot(band) {
            Slot::DATA if early && long => Slot::UNASKED_LONG,
            Slot::DATA if early && asked => Slot::SHORT,
            Slot::DATA if early => Slot::UNASKED,
            Slot::UNPAID if self.next_id % 3 == 0 => Slot::UNPAID,
            Slot::UNPAID if self.port.try_pay(meta.wire_len) => Slot::SIGNAL,
            Slot::UNPAID => self.port.pay(now, &meta, || false),
            slot => slot,
        };
        // Every other packet with the promise of a dequeue at once, which `apply` keeps.
        let left = if self.next_id % 2 == 0 {
            let now = match self.port.needs_no_clock(slot) {
                true => Port::<Fifo>::NO_TIME,
                false => now,
            };
            self.port.try_enqueue_fresh(now, slot, packet)
        } else {
            Err(packet)
        };
        let verdict = match left {
            Ok(()) => {
                self.promised = true;
                self.fresh += 1;
                Enqueue::Queued
            }
            Err(packet) => self.port.enqueue_at(now, slot, packet, &mut self.drops),
        };
        assert_eq!(verdict, expected);
    }

    /// The time of a fresh packet, for which the clock is not read.
    fn tell(&self, packet: &mut P) {
        if packet.meta.enqueued == Port::<Fifo>::NO_TIME {
            packet.meta.enqueued = Nanos(self.now);
        }
    }

    /// Whether a packet came.
    fn get(&mut self) -> bool {
        self.promised = false;
        let expected = self.model.dequeue(self.now);
        let mut got = self
            .port
            .dequeue(Nanos(self.now), &mut self.child, &mut self.drops);
        if let Dequeue::Packet(packet, _) = &mut got {
            self.tell(packet);
        }
        assert_eq!(got, expected, "at {}", self.now);
        self.wait = match got {
            Dequeue::Wait(time) => {
                assert!(time.0 > self.now, "to wait until {time} at {}", self.now);
                Some(time.0)
            }
            _ => None,
        };
        let came = matches!(got, Dequeue::Packet(..));
        self.sent += u64::from(came);
        came
    }

    /// A child is grafted, or no longer, which makes no difference as long as it is empty.
    fn graft(&mut self, grafted: bool) {
        if self.promised {
            self.get();
        }
        self.port.set_grafted(grafted);
    }

    fn apply(&mut self, op: &Op) {
        if self.promised && matches!(op, Op::Wait { .. } | Op::Sleep { .. }) {
            self.get();
        }
        match op {
            Op::Put { band, len, segs } => self.put(*band, *len, *segs),
            Op::Flood { band, len, count } => (0..*count).for_each(|_| self.put(*band, *len, 1)),
            Op::ChildPut { len, refused } => {
                self.graft(true);
                let packet = self.packet(*len, 1);
                self.port.child_offered(packet.meta);
                if *refused {
                    self.port.child_refused(packet.meta);
                } else {
                    self.child.packets.push_back(packet.clone());
                }
                self.model.child_put(packet, *refused);
            }
            Op::ChildThrottled(throttled) => {
                self.child.throttled = *throttled;
                self.model.child.throttled = *throttled;
                if self.child.packets.is_empty() {
                    self.graft(!*throttled);
                }
            }
            Op::Get => drop(self.get()),
            Op::Drain => while self.get() {},
            Op::Wait { off } => {
                if let Some(time) = self.wait {
                    self.now = self.now.max(time.saturating_add_signed(*off));
                    self.get();
                }
            }
            Op::Follow { times } => {
                for _ in 0..*times {
                    self.get();
                    self.now = self.wait.unwrap_or(self.now);
                }
            }
            Op::Sleep { percent } => {
                let link = Some(self.model.link_rate()).filter(|&link| link != 0);
                let token_time = 84 * 20 * 1_000_000_000 / link.unwrap_or(LINKS[3]);
                self.now += token_time * percent / 100;
            }
            Op::Change(config) => {
                // A token rate may not suit the device.
                if let Ok(resolved) = config.validate(self.device) {
                    self.model.change(config, self.now);
                    self.port
                        .change(config, &resolved, Nanos(self.now), &mut self.drops);
                }
            }
            Op::Speed(speed) => {
                self.device = speed.or(self.device);
                self.model.note_link_speed(self.now, speed.unwrap_or(0));
                self.port.note_link_speed(Nanos(self.now), *speed);
            }
            Op::Reset => {
                self.model.reset();
                self.port.reset(&mut self.drops);
            }
        }
        let mut drops: Vec<_> = self.drops.0.drain(..).collect();
        drops.iter_mut().for_each(|(packet, ..)| self.tell(packet));
        let expected: Vec<_> = self.model.drops.drain(..).collect();
        assert_eq!(drops, expected);
    }

    fn compare_counters(&self) {
        for band in (0..Band::COUNT).filter_map(Band::from_index) {
            let (ours, expected) = (self.port.stats(band), self.model.stats(band));
            assert_eq!(ours, expected, "{band}");
            let child: u64 = match band {
                Band::Data => self
                    .child
                    .packets
                    .iter()
                    .map(|p| u64::from(p.meta.segs))
                    .sum(),
                _ => 0,
            };
            let known = ours.sent_packets + ours.queued_packets + ours.dropped() + ours.refused;
            assert_eq!(ours.offered_packets, known + child, "{band}: conservation");
        }
        assert_eq!(*self.port.port_stats(), self.model.port_stats);
        let empty = (0..Band::COUNT)
            .filter_map(Band::from_index)
            .all(|band| self.model.packets(band) == 0);
        assert_eq!(self.port.is_empty(), empty);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 800,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_operations_give_what_the_model_gives(
        config in config(),
        device in device(),
        ops in prop::collection::vec(op(), 1..250),
    ) {
        let mut pair = Pair::new(&config, device);
        for op in &ops {
            pair.apply(op);
        }
        pair.compare_counters();
    }
}

#[test]
fn a_long_run_gives_what_the_model_gives() {
    let mut runner = TestRunner::deterministic();
    let (op, config, device) = (op(), config(), device());
    for _ in 0..5 {
        let mut pair = {
            let device = device.new_tree(&mut runner).unwrap().current();
            Pair::new(&config.new_tree(&mut runner).unwrap().current(), device)
        };
        for n in 0..20_000 {
            pair.apply(&op.new_tree(&mut runner).unwrap().current());
            if n % 1000 == 0 {
                pair.compare_counters();
            }
        }
        pair.compare_counters();
        assert!(pair.sent > 4000, "only {} packets were sent", pair.sent);
        assert!(pair.fresh > 300, "only {} packets were fresh", pair.fresh);
        let excess = pair.model.port_stats.signal_excess;
        assert!(excess > 100, "only {excess} signals were excess");
    }
}
