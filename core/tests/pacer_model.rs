// SPDX-License-Identifier: GPL-2.0
//! The host pacer against a model: under random operations with random options, all verdicts,
//! times, packets and rates agree.
//!
//! The model is equation 4 and a token bucket in 128-bit integers, interval by interval.

mod common;

use common::{Fifo, P};
use proptest::prelude::*;
use std::collections::VecDeque;
use turnstile_core::pacer::config::Config;
use turnstile_core::pacer::{HostPacer, Lane, Next};
use turnstile_core::units::Nanos;

const BILLION: i128 = 1_000_000_000;
/// 1/256 byte/s.
const UNIT: i128 = 256;
/// Tokens in 1/256 bytes/s x ns.
const BYTE: i128 = UNIT * BILLION;
const MAX_RATE: i128 = ((1 << 42) - 1) * UNIT;

struct Model {
    config: Config,
    rate: i128,
    /// Carried from one interval to the next: of eta x M_r / T_r, in 1/T_r, and of eta x R_tb, in
    /// 10^-9.
    carry_in: i128,
    carry_out: i128,
    tokens: i128,
    clock: i128,
    /// When the present interval ends.
    end: i128,
    arrived: i128,
    queues: [VecDeque<P>; 2],
    paced_last: bool,
    updates: u64,
}

impl Model {
    fn new(config: Config, now: u64) -> Self {
        Model {
            config,
            rate: i128::from(config.initial_rate.unwrap()) * UNIT,
            carry_in: 0,
            carry_out: 0,
            tokens: i128::from(config.bucket) * BYTE,
            clock: now.into(),
            end: i128::from(now) + i128::from(config.interval.0),
            arrived: 0,
            queues: [VecDeque::new(), VecDeque::new()],
            paced_last: false,
            updates: 0,
        }
    }

    fn backlog(&self) -> i128 {
        self.queues[1]
            .iter()
            .map(|p| i128::from(p.meta.wire_len))
            .sum()
    }

    fn bytes(&self, lane: Lane) -> u64 {
        self.queues[lane as usize]
            .iter()
            .map(|p| u64::from(p.meta.len))
            .sum()
    }

    fn flow(&mut self, until: i128) {
        let full = i128::from(self.config.bucket) * BYTE;
        self.tokens = full.min(self.tokens + self.rate * (until - self.clock));
        self.clock = until;
    }

    /// (1 - eta)^times of the rate: binary powers of a fraction of 2^62, rounded down.
    fn decay(&self, times: i128) -> i128 {
        let one = 1_i128 << 62;
        let mut power = one - i128::from(self.config.eta) * one / BILLION;
        let (mut rate, mut times) = (self.rate, times);
        while times > 0 {
            if times % 2 == 1 {
                rate = rate * power / one;
            }
            power = power * power / one;
            times /= 2;
        }
        rate
    }

    fn advance(&mut self, now: u64) {
        let now = i128::from(now);
        let (eta, interval) = (
            i128::from(self.config.eta),
            i128::from(self.config.interval.0),
        );
        while now >= self.end {
            self.flow(self.end);
            let backlog = self.backlog();
            if backlog == 0 && self.arrived == 0 {
                let times = (now - self.end) / interval + 1;
                let rate = self.decay(times);
                // The sum over the intervals after the first: a geometric series.
                let sum = (self.rate - rate) * BILLION / eta - self.rate;
                let full = i128::from(self.config.bucket) * BYTE;
                self.tokens = full.min(self.tokens + sum.max(0) * interval);
                self.clock += (times - 1) * interval;
                self.end = self.clock + interval;
                (self.rate, self.carry_in, self.carry_out) = (rate, 0, 0);
                self.updates += times as u64;
                break;
            }
            let gain = eta * self.arrived * UNIT + self.carry_in;
            let loss = eta * self.rate + self.carry_out;
            let push = i128::from(self.config.beta) * backlog * UNIT;
            self.rate = MAX_RATE.min(self.rate - loss / BILLION + gain / interval + push);
            (self.carry_in, self.carry_out) = (gain % interval, loss % BILLION);
            self.arrived = 0;
            self.end += interval;
            self.updates += 1;
        }
        self.flow(now);
    }

    fn put(&mut self, now: u64, lane: Lane, mut packet: P) -> bool {
        self.advance(now);
        self.arrived += i128::from(packet.meta.wire_len);
        let limit = match lane {
            Lane::Pass => self.config.pass_limit,
            Lane::Paced => self.config.limit,
        };
        packet.meta.enqueued = Nanos(now);
        let room = self.bytes(lane) + u64::from(packet.meta.len) <= limit.into();
        if room {
            self.queues[lane as usize].push_back(packet);
        }
        room
    }

    fn needed(&self, packet: &P) -> i128 {
        i128::from(packet.meta.wire_len.min(self.config.bucket)) * BYTE
    }

    fn next(&mut self, now: u64) -> Next {
        let passing = !self.queues[0].is_empty();
        let Some(first) = self.queues[1].front() else {
            return if passing {
                Next::Now(Lane::Pass)
            } else {
                Next::Nothing
            };
        };
        let needed = self.needed(first);
        let came_before = |packet: &P| packet.meta.enqueued <= first.meta.enqueued;
        if passing && (self.paced_last || self.queues[0].front().is_some_and(came_before)) {
            return Next::Now(Lane::Pass);
        }
        self.advance(now);
        let due = self.tokens >= needed;
        match (passing, due) {
            (_, true) => Next::Now(Lane::Paced),
            (true, false) => Next::Now(Lane::Pass),
            (false, false) if self.rate == 0 => Next::Wait(Nanos(self.end as u64)),
            (false, false) => {
                let missing = needed - self.tokens;
                let time = self.clock + (missing + self.rate - 1) / self.rate;
                Next::Wait(Nanos(time.min(self.end) as u64))
            }
        }
    }

    fn get(&mut self, lane: Lane) -> P {
        self.paced_last = lane == Lane::Paced;
        let packet = self.queues[lane as usize].pop_front().unwrap();
        if lane == Lane::Paced {
            self.tokens -= i128::from(packet.meta.wire_len) * BYTE;
        }
        packet
    }

    fn change(&mut self, config: Config, now: u64) {
        self.advance(now);
        if config.initial_rate != self.config.initial_rate {
            self.rate = i128::from(config.initial_rate.unwrap()) * UNIT;
            (self.carry_in, self.carry_out) = (0, 0);
        }
        self.carry_in %= i128::from(config.interval.0);
        self.config = config;
        self.end = self
            .end
            .min(i128::from(now) + i128::from(config.interval.0));
        self.tokens = self.tokens.min(i128::from(config.bucket) * BYTE);
        for (queue, limit) in self
            .queues
            .iter_mut()
            .zip([config.pass_limit, config.limit])
        {
            let mut bytes = 0;
            queue.retain(|packet| {
                bytes += u64::from(packet.meta.len);
                bytes <= limit.into()
            });
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Put {
        lane: Lane,
        len: u32,
        segs: u32,
    },
    Drain,
    /// So many dequeues, each at the time that the last one asked for.
    Follow(usize),
    Sleep(u64),
    Look,
    Change(Box<Config>),
    Reset,
}

fn config() -> impl Strategy<Value = Config> {
    (
        prop_oneof![Just(64_000_u64), Just(7_200), 1_000_u64..10_000_000],
        prop_oneof![Just(125_000_000_u32), 1_000_000_u32..=1_000_000_000],
        prop_oneof![Just(16_u32), Just(375), 1_u32..10_000],
        prop_oneof![Just(3_072_u32), 64_u32..100_000],
        1_600_u32..300_000,
        1_600_u32..300_000,
        prop_oneof![
            Just(125_000_000_u64),
            Just(1_250_000_000),
            125_u64..100_000_000_000
        ],
    )
        .prop_map(
            |(interval, eta, beta, bucket, limit, pass_limit, rate)| Config {
                interval: Nanos(interval),
                eta,
                beta,
                bucket,
                limit,
                pass_limit,
                initial_rate: Some(rate),
                ..Config::DEFAULT
            },
        )
}

fn op() -> impl Strategy<Value = Op> {
    let lane = prop_oneof![2 => Just(Lane::Pass), 5 => Just(Lane::Paced)];
    let len = prop_oneof![
        Just((1_514_u32, 1_u32)),
        Just((65_226, 45)),
        (60_u32..1_514).prop_map(|len| (len, 1))
    ];
    prop_oneof![
        20 => (lane, len).prop_map(|(lane, (len, segs))| Op::Put { lane, len, segs }),
        5 => Just(Op::Drain),
        10 => (1_usize..30).prop_map(Op::Follow),
        6 => prop_oneof![0_u64..10_000, 0_u64..1_000_000, 0_u64..50_000_000].prop_map(Op::Sleep),
        2 => Just(Op::Look),
        1 => config().prop_map(|config| Op::Change(Box::new(config))),
        1 => Just(Op::Reset),
    ]
}

struct Both {
    pacer: HostPacer<Fifo>,
    model: Model,
    now: u64,
    next_id: u64,
}

impl Both {
    fn new(config: Config, now: u64) -> Self {
        Both {
            pacer: HostPacer::new(&config, None, Nanos(now)),
            model: Model::new(config, now),
            now,
            next_id: 0,
        }
    }

    /// Dequeues what may leave now. Returns when to ask again.
    fn drain(&mut self) -> Next {
        loop {
            let now = Nanos(self.now);
            let next = self.pacer.next(now, false);
            assert_eq!(next, self.model.next(self.now), "at {}", self.now);
            let Next::Now(lane) = next else {
                return next;
            };
            let packet = self.pacer.dequeue(now, lane);
            assert_eq!(packet, Some(self.model.get(lane)));
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Put { lane, len, segs } => {
                let packet = P::new(self.next_id, len, segs, 24, 84);
                self.next_id += 1;
                let taken = self.model.put(self.now, lane, packet.clone());
                self.pacer.arrive(Nanos(self.now), packet.meta.wire_len);
                assert_eq!(
                    self.pacer.enqueue(Nanos(self.now), lane, packet).is_ok(),
                    taken
                );
            }
            Op::Drain => {
                self.drain();
            }
            Op::Follow(times) => {
                for _ in 0..times {
                    match self.drain() {
                        Next::Wait(time) => {
                            assert!(time.0 > self.now);
                            self.now = time.0;
                        }
                        _ => break,
                    }
                }
            }
            // The model has no bound on the intervals that it catches up with while packets wait.
            Op::Sleep(time) if !self.model.queues[1].is_empty() => {
                self.now += time.min(self.model.config.interval.0 * 1_000);
                self.step(Op::Look);
            }
            Op::Sleep(time) => self.now += time,
            Op::Look => {
                self.model.advance(self.now);
                let expected = ((self.model.rate / UNIT) as u64, self.model.updates);
                assert_eq!(self.pacer.rate(Nanos(self.now)), expected);
            }
            Op::Change(config) => {
                self.model.change(*config, self.now);
                self.pacer.change(&config, None, Nanos(self.now), drop);
            }
            Op::Reset => {
                self.model.queues.iter_mut().for_each(VecDeque::clear);
                self.pacer.reset(drop);
            }
        }
        assert_eq!(i128::from(self.pacer.backlog()), self.model.backlog());
        for lane in [Lane::Pass, Lane::Paced] {
            let stats = self.pacer.stats(lane);
            assert_eq!(stats.queued_bytes, self.model.bytes(lane));
            let seen = stats.sent_packets + stats.queued_packets + stats.dropped();
            assert_eq!(stats.offered_packets, seen);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn as_the_model(
        config in config(),
        start in 0_u64..1 << 60,
        ops in prop::collection::vec(op(), 1..400),
    ) {
        let mut both = Both::new(config, start);
        for op in ops {
            both.step(op);
        }
    }
}

/// A flow is associated while its packets wait to pass by: later ones, through the bucket, do not
/// overtake them.
#[test]
fn what_came_before_leaves_before() {
    let config = Config {
        initial_rate: Some(125_000_000),
        ..Config::DEFAULT
    };
    let mut pacer = HostPacer::<Fifo>::new(&config, None, Nanos(0));
    let mut id = 0;
    let mut put = |pacer: &mut HostPacer<Fifo>, now: u64, lane: Lane| {
        let packet = P::new(id, 1_514, 1, 24, 84);
        id += 1;
        pacer.arrive(Nanos(now), packet.meta.wire_len);
        assert!(pacer.enqueue(Nanos(now), lane, packet).is_ok());
    };
    for now in 0..5 {
        put(&mut pacer, now, Lane::Pass);
    }
    put(&mut pacer, 4, Lane::Paced);
    put(&mut pacer, 6, Lane::Pass);
    let now = Nanos(10);
    let mut order = Vec::new();
    while let Next::Now(lane) = pacer.next(now, false) {
        order.push(pacer.dequeue(now, lane).unwrap().id);
    }
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
}

/// A sender that keeps the bucket busy for 10^6 packets, each of which leaves at the time that the
/// model gives.
#[test]
fn as_the_model_in_a_long_run() {
    let config = Config {
        initial_rate: Some(1_250_000_000),
        // Values that leave remainders in all divisions.
        interval: Nanos(7_193),
        eta: 123_456_789,
        beta: 377,
        ..Config::DEFAULT
    };
    let mut both = Both::new(config, 12_345);
    let mut random = 88_172_645_463_325_252_u64;
    for _ in 0..60_000 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (len, segs) = if random % 4 == 0 {
            (65_226, 45)
        } else {
            (1_514, 1)
        };
        let lane = if random % 5 == 0 {
            Lane::Pass
        } else {
            Lane::Paced
        };
        both.step(Op::Put { lane, len, segs });
        both.step(Op::Follow((random >> 32) as usize % 40));
        both.now += (random >> 40) % 20_000;
    }
    both.step(Op::Look);
    assert!(both.model.updates > 50_000, "{}", both.model.updates);
}
