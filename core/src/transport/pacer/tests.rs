// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::transport::config::Config;
use crate::transport::testing::Std;

/// 10 Gbit/s, and the time of a token and of a full packet on it, ns.
const LINK: u64 = 1_250_000_000;
const TOKEN: u64 = 1298;
const PACKET: u64 = 1230;
const RTT: Nanos = Nanos(50_000);

struct Test {
    pacer: Pacer<Std>,
    places: Places<Std>,
    rng: Rng,
    now: Nanos,
}

impl Test {
    fn new() -> Self {
        let mut test = Self {
            pacer: Pacer::NEW,
            places: Places::new(),
            rng: Rng::new(1),
            now: Nanos::SECOND,
        };
        let config = Config {
            link: LINK,
            ..Config::DEFAULT
        };
        let speed = config.validate(None).unwrap().speed;
        test.pacer.start(&speed, Nanos::ZERO);
        assert!(test.pacer.reserve(0) && test.places.reserve(0));
        test
    }

    /// A message wants all tokens, for so long: how many it got.
    fn busy(&mut self, time: u64) -> u64 {
        let end = self.now + Nanos(time);
        let mut count = 0;
        self.pacer.want(&mut self.places, self.now, 0, self.now);
        self.pacer.ready(&mut self.places, 0, Key::LAST);
        while let Some(next) = self.pacer.next().filter(|next| *next < end) {
            self.now = self.now.max(next);
            assert!(self.pacer.first(self.now).is_some());
            let interval = 1_328_743;
            self.pacer
                .charge(self.now, (84, 1), interval, &mut self.rng, 0);
            count += 1;
        }
        self.now = end;
        count
    }

    /// Nobody wants any.
    fn idle(&mut self, time: u64) {
        self.pacer.drop(&mut self.places, 0);
        self.now += Nanos(time);
    }

    /// Full packets come at once.
    fn unasked(&mut self, packets: u64) {
        for _ in 0..packets {
            self.pacer.spend(self.now, Nanos(PACKET), RTT);
        }
    }
}

#[test]
fn what_comes_unasked_on_a_busy_link_is_asked_for_less() {
    let mut test = Test::new();
    let full = test.busy(1_000_000);
    assert!(full.abs_diff(1_000_000 / TOKEN) <= 1, "{full}");
    test.unasked(20);
    let less = test.busy(1_000_000);
    // Each of the two counts may be one off.
    assert!((full - less).abs_diff(20 * PACKET / TOKEN) <= 2, "{less}");
    assert!(test.busy(1_000_000).abs_diff(full) <= 1);
}

/// What is under way was asked for a round trip ago: then nobody was.
#[test]
fn on_an_idle_link_it_is_in_nobodys_way() {
    for packets in [1, 20, 40] {
        let mut test = Test::new();
        test.busy(200_000);
        test.idle(1_000_000);
        test.unasked(packets);
        let count = test.busy(200_000);
        assert!(count.abs_diff(200_000 / TOKEN) <= 1, "{packets}: {count}");
    }
    // Beyond what an idle link carries in a round trip it is.
    let mut test = Test::new();
    test.idle(1_000_000);
    test.unasked(40 + 30);
    let count = test.busy(200_000);
    let late = (70 * PACKET - RTT.0) / TOKEN;
    assert!(count.abs_diff(200_000 / TOKEN - late) <= 2, "{count}");
}

/// A row of packets may be spent at once.
#[test]
fn what_comes_together_takes_what_it_takes_one_by_one() {
    for idle in [0, 500, 40_000, 3_000_000] {
        for busy in [0, 20_000] {
            let (mut one_by_one, mut together) = (Test::new(), Test::new());
            for test in [&mut one_by_one, &mut together] {
                test.busy(busy);
                test.idle(idle);
                test.pacer.save(Nanos(busy / 8));
            }
            let now = one_by_one.now;
            for packets in [1, 7, 8, 60] {
                for _ in 0..packets {
                    one_by_one.pacer.spend(now, Nanos(PACKET), RTT);
                }
                together.pacer.spend(now, Nanos(packets * PACKET), RTT);
                let [one, other] = [&one_by_one, &together].map(|test| {
                    let it = &test.pacer;
                    (it.saved, it.unused, it.owed, it.looked)
                });
                assert_eq!(one, other, "{idle} {busy} {packets}");
            }
        }
    }
}

/// The link was idle, but that is a while ago: as long as a round trip, nothing of it is left.
#[test]
fn unused_time_is_gone_a_round_trip_later() {
    for (ago, left) in [(0, 50_000), (20_000, 30_000), (50_000, 0), (100_000, 0)] {
        let mut test = Test::new();
        test.unasked(0);
        test.idle(1_000_000);
        test.pacer.spend(test.now, Nanos::ZERO, RTT);
        test.busy(ago);
        test.pacer.spend(test.now, Nanos::ZERO, RTT);
        let unused = test.pacer.unused.0;
        assert!(unused.abs_diff(left) <= 2 * TOKEN, "{ago}: {unused}");
    }
}

/// However much comes, tokens have half of the link, and no more than two round trips are owed.
#[test]
fn tokens_keep_half_of_the_link() {
    let mut test = Test::new();
    test.busy(100_000);
    test.unasked(100_000);
    let count = test.busy(150_000);
    assert!(count.abs_diff(75_000 / TOKEN) <= 1, "{count}");
    let rest = test.busy(200_000);
    let owed = 25_000 / TOKEN;
    assert!(rest.abs_diff(200_000 / TOKEN - owed) <= 1, "{rest}");
}

/// What is owed is paid by time in which nothing is asked for, too.
#[test]
fn idle_time_pays() {
    let mut test = Test::new();
    test.busy(100_000);
    test.unasked(40);
    test.idle(1_000_000);
    let count = test.busy(200_000);
    assert!(count.abs_diff(200_000 / TOKEN) <= 1, "{count}");
}
