// SPDX-License-Identifier: GPL-2.0
//! Invariants of the port, checked from the outside without a model: order, conservation, strict
//! priority, expiry, caps, no early release, and no packet that waits without a reason.

mod common;

use std::collections::{HashSet, VecDeque};

use common::{Drops, FakeChild, Fifo, PerByte, Rng, P, PAPERS};
use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Config, Expiry, Order, Tokens};
use turnstile_core::port::{Dequeue, Enqueue, Port};
use turnstile_core::queue::{DropCause, NoChild};
use turnstile_core::units::Nanos;

/// How far the bytes sent are ahead of a rate, in the worst of all intervals that end now.
struct Ahead {
    per: PerByte,
    by: u128,
    cost: u128,
    last: u64,
    worst: u128,
}

impl Ahead {
    fn new(per: PerByte) -> Self {
        Self {
            per,
            by: 0,
            cost: 0,
            last: 0,
            worst: 0,
        }
    }

    fn sent(&mut self, now: u64, len: u32) {
        let passed = u128::from(now - self.last) * self.per.bytes;
        self.by = (self.by + self.cost).saturating_sub(passed);
        self.worst = self.worst.max(self.by);
        self.cost = u128::from(len) * self.per.ns;
        self.last = now;
    }

    /// How far ahead it is, in ns, rounded down.
    fn now_ns(&self, now: u64) -> u64 {
        let passed = u128::from(now - self.last) * self.per.bytes;
        ((self.by + self.cost).saturating_sub(passed) / self.per.bytes) as u64
    }

    /// In ns, rounded down.
    fn worst_ns(&self) -> u64 {
        (self.worst / self.per.bytes) as u64
    }
}

/// A port with all of its answers checked.
struct Watched {
    port: Port<Fifo>,
    config: Config,
    expiry: u64,
    now: u64,
    next_id: u64,
    /// What should be queued, by band: id, arrival, segments, length.
    queued: Vec<VecDeque<(u64, u64, u64, u64)>>,
    offered: Vec<u64>,
    sent: Vec<u64>,
    dropped: Vec<u64>,
    drops: Drops,
    link: Ahead,
    tokens: Ahead,
    /// Signals that were not excess, at their share.
    signals: Ahead,
    /// The ids of those that were: they may go before other data.
    excess: HashSet<u64>,
}

impl Watched {
    fn new(config: Config) -> Self {
        let link = config.link.unwrap_or(1_250_000_000);
        let resolved = config.validate(Some(link)).unwrap();
        let tokens = match config.tokens {
            Tokens::Share(ppb) => PerByte::of_share(link, ppb),
            Tokens::Rate(rate) => PerByte::of_rate(rate),
        };
        Self {
            port: Port::new(&config, &resolved, Nanos::ZERO),
            config,
            expiry: match config.token_expiry {
                Expiry::Auto => tokens
                    .duration(84 * 8)
                    .max(PerByte::of_rate(link).duration(8 * 1622)),
                Expiry::Off => u64::MAX,
                Expiry::After(time) => time.0,
            },
            now: 0,
            next_id: 0,
            queued: vec![VecDeque::new(); Band::COUNT],
            offered: vec![0; Band::COUNT],
            sent: vec![0; Band::COUNT],
            dropped: vec![0; Band::COUNT],
            drops: Drops::default(),
            link: Ahead::new(PerByte::of_rate(link)),
            tokens: Ahead::new(tokens),
            signals: Ahead::new(PerByte::of_share(link, config.signal_share)),
            excess: HashSet::new(),
        }
    }

    /// Packets and bytes that should be queued.
    fn load(&self, band: Band) -> (u64, u64) {
        let queue = self.queued[band.index()].iter();
        queue.fold((0, 0), |(packets, bytes), entry| {
            (packets + entry.2, bytes + entry.3)
        })
    }

    fn within_cap(&self, band: Band, (packets, bytes): (u64, u64)) -> bool {
        match band {
            Band::Signal => packets <= self.config.signal_limit.into(),
            Band::Token(_) => packets <= self.config.token_limit.into(),
            Band::Data => bytes <= self.config.data_limit.into(),
            Band::Unscheduled => packets <= self.config.unscheduled.into(),
        }
    }

    /// Drops must come from the head and have the right cause.
    fn note_drops(&mut self, arriving: Option<u64>) {
        for (packet, band, cause) in self.drops.0.drain(..) {
            let segs = u64::from(packet.meta.segs);
            self.dropped[band.index()] += segs;
            if cause == DropCause::OverLimit {
                assert_eq!(Some(packet.id), arriving);
                continue;
            }
            assert_eq!(cause, DropCause::Expired);
            let (id, arrived, ..) = self.queued[band.index()].pop_front().unwrap();
            assert_eq!(packet.id, id, "dropped out of order");
            assert!(matches!(band, Band::Token(_)) && self.now - arrived > self.expiry);
        }
    }

    /// Signals are excess only where they have nearly used up their burst, and then are data.
    fn band_of(&mut self, band: Band, wire_len: u32, segs: u64, excess: u64) -> Band {
        if excess != 0 {
            assert_eq!((band, excess), (Band::Signal, segs));
            let ahead = self.signals.now_ns(self.now);
            // Up to a chunk of what was bought may be left.
            let least = self.signals.per.duration(56 << 10);
            assert!(ahead + 1 >= least, "excess at {ahead} of {least} ns");
            return Band::Data;
        }
        if band == Band::Signal {
            self.signals.sent(self.now, wire_len);
        }
        band
    }

    fn put(&mut self, band: Band, len: u32, segs: u32) {
        self.next_id += 1;
        let id = self.next_id;
        let packet = P::new(id, len, segs, self.config.overhead, self.config.mpu);
        let wire_len = packet.meta.wire_len;
        let before = self.port.port_stats().signal_excess;
        let verdict = self
            .port
            .enqueue(Nanos(self.now), band, packet, &mut self.drops);
        let excess = self.port.port_stats().signal_excess - before;
        let band = self.band_of(band, wire_len, segs.into(), excess);
        if excess != 0 {
            self.excess.insert(id);
        }
        self.offered[band.index()] += u64::from(segs);
        self.note_drops(Some(id));
        let (packets, bytes) = self.load(band);
        let with_it = (packets + u64::from(segs), bytes + u64::from(len));
        let fits = self.within_cap(band, with_it);
        assert_eq!(verdict == Enqueue::Queued, fits, "{band}: {with_it:?}");
        if fits {
            let entry = (id, self.now, segs.into(), len.into());
            self.queued[band.index()].push_back(entry);
        } else if let Some(head) = self.queued[band.index()].front() {
            let expired = matches!(band, Band::Token(_)) && self.now - head.1 > self.expiry;
            assert!(!expired, "an expired token was kept and a new one dropped");
        }
    }

    /// Takes out the packet that comes out of a band: in the order in which they came, but that
    /// excess signals may go before other data.
    fn take(&mut self, band: Band, id: u64) -> (u64, u64, u64, u64) {
        let queue = &mut self.queued[band.index()];
        let place = queue.iter().position(|entry| entry.0 == id).unwrap();
        let mut before = queue.iter().take(place);
        let excess = &self.excess;
        let in_order = match excess.contains(&id) {
            true => band == Band::Data,
            false => before.all(|entry| excess.contains(&entry.0)),
        };
        assert!(in_order, "{band} out of order");
        queue.remove(place).unwrap()
    }

    fn valid_tokens(&self, below: u8) -> bool {
        (0..below).any(|p| {
            let queue = &self.queued[Band::Token(p).index()];
            queue.iter().any(|entry| self.now - entry.1 <= self.expiry)
        })
    }

    fn is_queued(&self, band: Band) -> bool {
        !self.queued[band.index()].is_empty()
    }

    fn get(&mut self) -> Dequeue<P> {
        let got = self
            .port
            .dequeue(Nanos(self.now), &mut NoChild, &mut self.drops);
        self.note_drops(None);
        match &got {
            Dequeue::Packet(packet, band) => {
                let (_, arrived, segs, len) = self.take(*band, packet.id);
                assert_eq!(
                    (packet.meta.segs.into(), packet.meta.len.into()),
                    (segs, len)
                );
                self.sent[band.index()] += segs;
                self.link.sent(self.now, packet.meta.wire_len);
                match *band {
                    Band::Signal => {}
                    Band::Token(p) => {
                        assert!(!self.is_queued(Band::Signal));
                        assert!(
                            !self.valid_tokens(p),
                            "a token overtook one of higher priority"
                        );
                        assert!(
                            self.now - arrived <= self.expiry,
                            "an expired token was sent"
                        );
                        self.tokens.sent(self.now, packet.meta.wire_len);
                    }
                    Band::Data => assert!(!self.is_queued(Band::Signal)),
                    Band::Unscheduled => {
                        assert!(!self.is_queued(Band::Signal) && !self.is_queued(Band::Data));
                    }
                }
            }
            Dequeue::Wait(time) => {
                assert!(time.0 > self.now);
                assert!(!self.port.is_empty());
            }
            Dequeue::Empty => {
                assert!(self.queued.iter().all(VecDeque::is_empty));
                assert!(self.port.is_empty());
            }
        }
        got
    }

    fn check_counters(&self) {
        for band in (0..Band::COUNT).filter_map(Band::from_index) {
            let i = band.index();
            let stats = self.port.stats(band);
            let (packets, bytes) = self.load(band);
            assert_eq!(
                (stats.queued_packets, stats.queued_bytes),
                (packets, bytes),
                "{band}"
            );
            assert_eq!(stats.offered_packets, self.offered[i], "{band}");
            assert_eq!(stats.sent_packets, self.sent[i], "{band}");
            assert_eq!(stats.dropped(), self.dropped[i], "{band}");
            assert_eq!(
                self.offered[i],
                self.sent[i] + packets + self.dropped[i],
                "{band}"
            );
        }
    }
}

fn random_config(rng: &mut Rng) -> Config {
    let link = [12_500_000, 125_000_000, 1_250_000_000, 12_500_000_000][rng.below(4) as usize];
    let shaped = rng.below(3) != 0;
    Config {
        link: shaped.then_some(link),
        tokens: if rng.below(2) == 0 {
            Tokens::Share(51_787_916)
        } else {
            Tokens::Share((100_000 + rng.below(499_900_001)) as u32)
        },
        priorities: 8,
        token_limit: 1 + rng.below(20) as u32,
        token_expiry: match rng.below(3) {
            0 => Expiry::Auto,
            1 => Expiry::Off,
            _ => Expiry::After(Nanos(1 + rng.below(100_000))),
        },
        order: if rng.below(2) == 0 {
            Order::TokensFirst
        } else {
            Order::DataFirst
        },
        unscheduled: 1 + rng.below(3) as u32,
        data_limit: 1600 + rng.below(50_000) as u32,
        signal_limit: 1 + rng.below(10) as u32,
        ..PAPERS
    }
}

/// Random traffic above and below capacity. `late`: how late the port is asked at most, ns after
/// the time that it said.
fn random_traffic(rng: &mut Rng, late: u64, steps: u32) -> Watched {
    let mut port = Watched::new(random_config(rng));
    let frame = port.link.per.duration(1538);
    for _ in 0..steps {
        for _ in 0..rng.below(4) {
            let band = match rng.below(10) {
                0 => Band::Signal,
                1 => Band::Unscheduled,
                2..=4 => Band::Data,
                _ => Band::Token(rng.below(8) as u8),
            };
            let len = if matches!(band, Band::Token(_)) {
                60
            } else {
                60 + rng.below(1455) as u32
            };
            let segs = if rng.below(20) == 0 {
                1 + rng.below(4) as u32
            } else {
                1
            };
            port.put(band, len, segs);
        }
        match port.get() {
            Dequeue::Packet(..) => {}
            Dequeue::Wait(time) => {
                // Sometimes a packet arrives in the meantime.
                port.now += match rng.below(3) {
                    0 => rng.below(time.0 - port.now),
                    _ => time.0 - port.now + rng.below(late + 1),
                };
            }
            Dequeue::Empty => port.now += rng.below(20 * frame),
        }
    }
    port
}

#[test]
fn any_port_keeps_the_rules() {
    for seed in 0..120 {
        let mut rng = Rng(seed);
        let late = if seed % 2 == 0 { 0 } else { 100_000 };
        let port = random_traffic(&mut rng, late, 4000);
        port.check_counters();
        // No interval carries more than the rate, one packet, and lateness that is made up for: of
        // the timer, and of tokens that waited for other packets.
        let burst = port.signals.per.duration((64 + 4) << 10);
        assert!(port.signals.worst_ns() <= burst);
        let waits = PerByte::of_rate(port.port.resolved().link).duration(2 * 1538 + 84);
        let slack = port.tokens.per.duration(8 * 84).max(waits + 1);
        assert!(
            port.tokens.worst_ns() <= slack,
            "{}",
            port.tokens.worst_ns()
        );
        if port.config.link.is_some() {
            let slack = port.link.per.duration(8 * 1538).max(1_000_000);
            assert!(port.link.worst_ns() <= slack, "{}", port.link.worst_ns());
        }
    }
}

#[test]
fn without_lateness_nothing_leaves_before_its_time() {
    // Tokens alone on an unshaped port, dequeued at exactly the times that it asks for: none
    // earlier than the rate allows.
    for seed in 0..50 {
        let mut rng = Rng(seed);
        let config = Config {
            link: None,
            token_expiry: Expiry::Off,
            ..random_config(&mut rng)
        };
        let mut port = Watched::new(config);
        let mut wake = u64::MAX;
        for _ in 0..4000 {
            let arrival = port.now + rng.below(2 * port.tokens.per.duration(84));
            while wake <= arrival {
                port.now = wake;
                wake = drain(&mut port);
            }
            port.now = arrival;
            port.put(Band::Token(rng.below(8) as u8), 60, 1);
            wake = drain(&mut port);
        }
        assert_eq!(port.tokens.worst_ns(), 0);
        assert!(port.sent.iter().sum::<u64>() > 1000);
    }
}

#[test]
fn without_lateness_the_link_carries_no_two_packets_at_once() {
    for seed in 0..50 {
        let mut rng = Rng(seed);
        let config = random_config(&mut rng);
        let link = Some(config.link.unwrap_or(1_250_000_000));
        let mut port = Watched::new(Config { link, ..config });
        let mut wake = u64::MAX;
        for _ in 0..4000 {
            let arrival = port.now + rng.below(2 * port.link.per.duration(800));
            while wake <= arrival {
                port.now = wake;
                wake = drain(&mut port);
            }
            port.now = arrival;
            let band = [Band::Signal, Band::Data, Band::Token(3), Band::Unscheduled];
            port.put(band[rng.below(4) as usize], 60 + rng.below(1455) as u32, 1);
            wake = drain(&mut port);
        }
        assert_eq!(port.link.worst_ns(), 0);
    }
}

/// Dequeues what may leave now. Returns when to ask again.
fn drain(port: &mut Watched) -> u64 {
    loop {
        match port.get() {
            Dequeue::Packet(..) => {}
            Dequeue::Wait(time) => return time.0,
            Dequeue::Empty => return u64::MAX,
        }
    }
}

#[test]
fn to_wait_is_never_longer_than_needed() {
    // Before the time that it said a port gives nothing; at that time it gives a packet, unless
    // that expires.
    for seed in 0..60 {
        let mut rng = Rng(1000 + seed);
        let config = Config {
            token_expiry: Expiry::Off,
            ..random_config(&mut rng)
        };
        let mut port = Watched::new(config);
        for _ in 0..1500 {
            for _ in 0..rng.below(3) {
                let band = [Band::Signal, Band::Data, Band::Token(3), Band::Token(0)];
                port.put(band[rng.below(4) as usize], 60 + rng.below(1455) as u32, 1);
            }
            while let Dequeue::Wait(time) = port.get() {
                port.now = time.0 - 1;
                assert_eq!(port.get(), Dequeue::Wait(time));
                port.now = time.0;
                let got = port.get();
                // The link may have been free before the group was ready.
                assert!(matches!(got, Dequeue::Packet(..) | Dequeue::Wait(_)));
                if matches!(got, Dequeue::Packet(..)) {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_child_keeps_its_order_and_its_place() {
    let config = Config {
        link: Some(1_250_000_000),
        ..PAPERS
    };
    let resolved = config.validate(None).unwrap();
    let mut port = Port::<Fifo>::new(&config, &resolved, Nanos::ZERO);
    port.set_grafted(true);
    let (mut child, mut drops, mut rng) = (FakeChild::default(), Drops::default(), Rng(5));
    let (mut now, mut last, mut sent) = (Nanos::ZERO, 0, 0);
    for id in 1..20_000 {
        let packet = P::new(id, 60 + rng.below(1455) as u32, 1, 24, 84);
        port.child_offered(packet.meta);
        child.packets.push_back(packet);
        loop {
            match port.dequeue(now, &mut child, &mut drops) {
                Dequeue::Packet(packet, band) => {
                    assert_eq!((packet.id, band), (last + 1, Band::Data));
                    last = packet.id;
                    sent += 1;
                }
                Dequeue::Wait(time) if rng.below(3) != 0 => now = time,
                _ => break,
            }
        }
        now += Nanos(rng.below(1000));
    }
    let stats = port.stats(Band::Data);
    assert_eq!(stats.sent_packets, sent);
    assert_eq!(stats.offered_packets, sent + child.packets.len() as u64);
    assert!(sent > 10_000 && drops.0.is_empty());
}
