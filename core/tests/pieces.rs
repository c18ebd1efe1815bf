// SPDX-License-Identifier: GPL-2.0
//! How long tokens wait for super-packets: for no longer than `gso-hold` where these are cut, to
//! the nanosecond.

mod common;

use common::{Drops, Fifo, Rng, P};
use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Config, Expiry, GsoHold, Order, SplitGso};
use turnstile_core::port::cut::Cut;
use turnstile_core::port::{Dequeue, Enqueue, Port, Slot};
use turnstile_core::queue::{Meta, NoChild};
use turnstile_core::units::Nanos;

const GBIT: u64 = 125_000_000;
const HEADERS: u32 = 14 + 20 + 32;

/// What a run came to.
struct Run {
    /// When each token left.
    tokens: Vec<u64>,
    /// The longest time that something of data held the link.
    held: u64,
    /// Bytes of data that left, on the wire.
    data: u64,
    /// Of data, how many were super-packets.
    supers: u64,
}

/// A shaped port that always has data waiting, if `busy`, and gets tokens at these times.
struct Bench {
    port: Port<Fifo>,
    rng: Rng,
    drops: Drops,
    next_id: u64,
    waiting: u32,
}

impl Bench {
    /// Hands over a super-packet as the module does.
    fn offer(&mut self, now: u64) {
        let payload = 1 + self.rng.below(65_000) as u32;
        let mss = [536, 1000, 1448][self.rng.below(3) as usize];
        let mut left = payload;
        let segs = payload.div_ceil(mss);
        let len = |payload: u32| payload + HEADERS * payload.div_ceil(mss);
        let wire_len = self.port.framing().wire_len(len(payload), segs);
        let meta = Meta {
            len: len(payload),
            wire_len,
            segs,
            ..Meta::default()
        };
        let cut = match segs {
            1 => Cut::Whole,
            _ => self.port.cut(Slot::DATA, &meta, || Some(HEADERS + mss)),
        };
        let each = match cut {
            Cut::Whole => segs,
            Cut::Pieces(each) => each,
            Cut::Single => 1,
        };
        while left != 0 {
            let part = left.min(mss * each);
            left -= part;
            let packet = P::new(self.next_id, len(part), part.div_ceil(mss), 24, 84);
            self.next_id += 1;
            let now = Nanos(now);
            let queued = self.port.enqueue(now, Band::Data, packet, &mut self.drops);
            assert_eq!(queued, Enqueue::Queued);
            self.waiting += 1;
        }
    }
}

fn run(config: &Config, busy: bool, tokens: &[u64]) -> Run {
    let resolved = config.validate(None).unwrap();
    let mut b = Bench {
        port: Port::new(config, &resolved, Nanos::ZERO),
        rng: Rng(7),
        drops: Drops::default(),
        next_id: tokens.len() as u64,
        waiting: 0,
    };
    let mut run = Run {
        tokens: Vec::new(),
        held: 0,
        data: 0,
        supers: 0,
    };
    let mut coming = tokens.iter().copied().zip(0..).peekable();
    let mut now = 0;
    while run.tokens.len() < tokens.len() {
        while busy && b.waiting < 4 {
            b.offer(now);
        }
        while let Some((_, id)) = coming.next_if(|(at, _)| *at <= now) {
            let token = P::new(id, 60, 1, 24, 84);
            let queued = b
                .port
                .enqueue(Nanos(now), Band::Token(0), token, &mut b.drops);
            assert_eq!(queued, Enqueue::Queued);
        }
        let wake = match b.port.dequeue(Nanos(now), &mut NoChild, &mut b.drops) {
            Dequeue::Packet(packet, Band::Token(_)) => {
                assert_eq!(packet.id, run.tokens.len() as u64);
                run.tokens.push(now);
                continue;
            }
            Dequeue::Packet(packet, _) => {
                b.waiting -= 1;
                let time = resolved.link_rate.duration(packet.meta.wire_len).0;
                run.held = run.held.max(time);
                run.data += u64::from(packet.meta.wire_len);
                run.supers += u64::from(packet.meta.segs > 1);
                continue;
            }
            Dequeue::Wait(at) => Some(at.0),
            Dequeue::Empty => None,
        };
        let arrival = coming.peek().map(|(at, _)| *at);
        let next = wake.into_iter().chain(arrival).min().unwrap();
        assert!(next > now);
        now = next;
    }
    assert!(b.drops.0.is_empty());
    run
}

/// Arrivals at 80 % of the tokens' rate, single ones and bursts.
fn arrivals(interval: u64, count: u64, seed: u64) -> Vec<u64> {
    let mut rng = Rng(seed);
    let mut at = 1000;
    let mut times = Vec::new();
    while (times.len() as u64) < count {
        let burst = [1, 1, 1, 5, 40][rng.below(5) as usize];
        times.extend(std::iter::repeat_n(at, burst));
        at += 1 + rng.below(2 * interval * 5 / 4 * burst as u64);
    }
    times
}

/// By how much the latest token left later than on a link with nothing else on it. One may also
/// leave sooner: while the one before it is held up, the group is not idle, and its schedule goes
/// on.
fn latest(with: &Run, without: &Run) -> u64 {
    let pairs = with.tokens.iter().zip(&without.tokens);
    pairs
        .map(|(with, without)| with.saturating_sub(*without))
        .max()
        .unwrap()
}

fn config(gbits: u64, order: Order) -> Config {
    Config {
        link: Some(gbits * GBIT),
        order,
        token_expiry: Expiry::Off,
        token_limit: 1024,
        ..Config::DEFAULT
    }
}

#[test]
fn a_token_waits_for_a_piece_at_most() {
    for (gbits, hold, seed) in [
        (1, GsoHold::AUTO, 1),
        (10, GsoHold::AUTO, 2),
        (25, GsoHold::AUTO, 3),
        (100, GsoHold::ns(3_333), 4),
        (10, GsoHold::ns(20_001), 5),
        (10, GsoHold::ns(150_000), 6),
    ] {
        for order in [Order::TokensFirst, Order::DataFirst] {
            let config = Config {
                gso_hold: hold,
                ..config(gbits, order)
            };
            let resolved = config.validate(None).unwrap();
            let tokens = arrivals(resolved.interval.0, 3000, seed);
            let (busy, idle) = (run(&config, true, &tokens), run(&config, false, &tokens));
            let hold = hold.given().unwrap_or(config.jitter).0;
            let what = format!("{gbits} Gbit/s, {hold} ns, {order:?}");
            let waited = latest(&busy, &idle);
            assert!(busy.supers > 100, "{what}: nothing stayed together");
            assert!(waited <= hold, "{what}: a token waited {waited} ns longer");
            // The bound is one that is met, or the link would be split further than it need be.
            let longest = 64_000 * 8 / gbits;
            assert!(
                waited * 3 > hold.min(longest) * 2,
                "{what}: at most {waited} ns"
            );
            assert!(busy.held <= hold);
            // And not one token lost its turn: what is late is made up for.
            assert_eq!(idle.tokens.len(), busy.tokens.len());
        }
    }
}

/// The same for who asks for it: it is the cutting that bounds the wait.
#[test]
fn a_token_waits_for_all_of_a_whole_one() {
    let config = Config {
        split_gso: SplitGso::No,
        ..config(1, Order::TokensFirst)
    };
    // Few: they lose turns, and more and more would wait.
    let tokens = arrivals(12_976, 300, 1);
    let (busy, idle) = (run(&config, true, &tokens), run(&config, false, &tokens));
    assert!(latest(&busy, &idle) > 400_000);
    let config = Config {
        split_gso: SplitGso::All,
        ..config
    };
    let busy = run(&config, true, &tokens);
    assert_eq!(busy.supers, 0);
    // A frame at 1 Gbit/s.
    assert!(latest(&busy, &idle) <= 12_304);
}
