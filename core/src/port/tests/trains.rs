// SPDX-License-Identifier: GPL-2.0
//! Tokens that stand for several: each takes the time of so many, at the tokens' share and on the
//! link, and counts as so many.

use super::*;

impl Bench {
    /// A minimum frame that stands for `worth` tokens.
    fn put_worth(&mut self, priority: u8, id: u32, worth: u32) -> Enqueue {
        let P(id, meta) = Self::packet(id, 60, 1);
        let meta = Meta {
            wire_len: meta.wire_len * worth,
            segs: worth,
            ..meta
        };
        let slot = self.port.slot(Band::Token(priority));
        match worth {
            1 => self
                .port
                .enqueue_at(self.now, slot, P(id, meta), &mut self.drops),
            _ => self
                .port
                .enqueue_train(self.now, slot, P(id, meta), &mut self.drops),
        }
    }

    /// When a token that is waiting leaves.
    fn leaves(&mut self) -> Nanos {
        loop {
            match self.get() {
                Dequeue::Wait(at) => self.now = Nanos(at.0 + 1_000_000),
                Dequeue::Packet(..) => return self.now,
                Dequeue::Empty => panic!("it has expired"),
            }
        }
    }
}

/// The next token leaves as many intervals later: with a link rate and without, in the fast forms
/// and behind others.
#[test]
fn it_takes_the_time_of_as_many_tokens() {
    let shaped = Config {
        link: Some(10 * GBIT),
        ..Config::DEFAULT
    };
    for config in [Config::DEFAULT, shaped] {
        for worth in [1, 2, 8, 64] {
            let config = Config {
                token_expiry: Expiry::Off,
                ..config
            };
            let mut b = Bench::new(config);
            b.put_worth(0, 1, worth);
            b.put_worth(0, 2, 1);
            let first = b.leaves();
            let second = b.leaves();
            // 84 bytes at 84/1622 of 10 Gbit/s.
            let interval = 1297.6 * f64::from(worth);
            let took = (second - first).0 as f64;
            assert!(
                (took - interval).abs() <= 1.0,
                "{worth}: {took}, not {interval}"
            );
            // One that is alone, with a token of the usual length before it.
            b.now += Nanos(1_000_000);
            b.put_worth(0, 3, worth);
            let alone = b.leaves();
            assert_eq!(alone, b.now, "{worth}");
            b.put_worth(0, 4, 1);
            let took = (b.leaves() - alone).0 as f64;
            assert!(
                (took - interval).abs() <= 1.0,
                "{worth}: {took}, not {interval}"
            );
        }
    }
}

/// Each of those that it stands for counts against the queue's cap, of which the last seven may be
/// beyond; and none when it has left, or expired.
#[test]
fn all_of_them_count_against_the_cap() {
    let config = Config {
        token_expiry: Expiry::After(Nanos(100_000)),
        token_drop: TokenDrop::Last,
        ..Config::DEFAULT
    };
    let fill = |b: &mut Bench, worth| {
        (0_u32..)
            .find(|id| b.put_worth(0, *id, worth) == Enqueue::Dropped)
            .unwrap()
            * worth
    };
    let most = fill(&mut Bench::new(config), 1);
    let mut b = Bench::new(config);
    for worth in [1, 3, 8, 64, 1] {
        let all = fill(&mut b, worth);
        let beyond = if worth <= 8 { worth - 1 } else { 0 };
        assert!(
            all <= most + beyond && all + worth > most,
            "{all} of {most}"
        );
        let stats = b.port.stats(Band::Token(0));
        let (packets, bytes) = (u64::from(all), u64::from(all / worth) * 60);
        assert_eq!((stats.queued_packets, stats.queued_bytes), (packets, bytes));
        // One leaves, and as many may come.
        b.leaves();
        assert_eq!(b.put_worth(0, 100, worth), Enqueue::Queued);
        // The rest expires.
        b.now += Nanos(1_000_000);
        assert_eq!(b.get(), Dequeue::Empty);
    }
}

/// Data has of the link what it has beside as many single ones.
#[test]
fn it_leaves_data_what_single_ones_leave() {
    let config = Config {
        link: Some(10 * GBIT),
        token_expiry: Expiry::Off,
        ..Config::DEFAULT
    };
    let mut b = Bench::new(config);
    let begin = b.now;
    let (mut tokens, mut frames, mut id) = (0_u64, 0_u64, 0);
    while b.now < begin + Nanos(10_000_000) {
        if b.port.stats(Band::Token(0)).queued_packets < 9 {
            b.put_worth(0, id, 8);
        }
        if b.port.stats(Band::Data).queued_packets < 2 {
            b.put(Band::Data, id);
        }
        id += 1;
        match b.get() {
            Dequeue::Wait(at) => b.now = Nanos(at.0 + 1_000_000),
            Dequeue::Packet(_, Band::Data) => frames += 1,
            Dequeue::Packet(..) => tokens += 1,
            Dequeue::Empty => panic!("nothing is queued"),
        }
    }
    // 10 ms of 1297.6 ns for each eighth; and 1538 bytes for each frame of what they leave.
    assert!(tokens.abs_diff(963) <= 2, "{tokens}");
    let all = 12_500_000 - tokens * 8 * 84;
    assert!(frames.abs_diff(all / 1538) <= 2, "{frames}");
}

/// One that is for more than the cap comes in if one would, but not if it is for more than eight: a
/// single frame does not keep others from the queue for longer.
#[test]
fn one_for_more_than_the_cap_is_for_no_more_than_eight() {
    let config = Config {
        token_limit: 4,
        token_drop: TokenDrop::Last,
        jitter: Nanos(0),
        ..Config::DEFAULT
    };
    let mut b = Bench::new(config);
    assert_eq!(b.put_worth(0, 0, 64), Enqueue::Dropped);
    assert_eq!(b.put_worth(0, 0, 9), Enqueue::Dropped);
    assert_eq!(b.put_worth(0, 1, 8), Enqueue::Queued);
    assert_eq!(b.put_worth(0, 2, 1), Enqueue::Dropped);
    assert_eq!(b.put_worth(0, 2, 8), Enqueue::Dropped);
    b.leaves();
    assert_eq!(b.put_worth(0, 3, 1), Enqueue::Queued);
    assert_eq!(b.put_worth(0, 4, 8), Enqueue::Queued);
    assert_eq!(b.put_worth(0, 5, 1), Enqueue::Dropped);
}

/// Beside a flow of tokens that stand for several, one of single ones that asks for half of the
/// share loses next to nothing, and of two that ask for all each has about half: a flow has as much
/// as it is tokens, not packets.
#[test]
fn who_sends_trains_has_no_more_of_a_queue() {
    for worth in [1, 2, 4, 8] {
        for asks in [2, 1] {
            let mut b = Bench::new(Config::DEFAULT);
            let interval = b.port.resolved().interval.0;
            let (mut single, mut all) = (0_u32, 0_u32);
            for tick in 0..20_000_u64 {
                b.now = Nanos(1_000_000 + tick * interval);
                if tick % u64::from(worth) == 0 {
                    b.put_worth(0, 1000, worth);
                }
                if tick % asks == 0 {
                    all += 1;
                    b.put_worth(0, 2000, 1);
                }
                while let Dequeue::Packet(id, _) = b.get() {
                    single += u32::from(id == 2000);
                }
            }
            let least = if asks == 2 {
                all * 9 / 10
            } else {
                all * 4 / 10
            };
            assert!(single >= least, "{worth}, 1/{asks}: {single} of {all}");
        }
    }
}
