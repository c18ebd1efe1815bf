// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::transport::config::Config;

/// 10 Gbit/s: a token is due each 1.3 us.
struct Model {
    config: Resolved,
    fan: Fan,
    rng: Rng,
    now: u64,
}

const TRIP: u64 = 20_000;

impl Model {
    fn new() -> Self {
        Self {
            config: Config::DEFAULT.validate(Some(1_250_000_000)).unwrap(),
            fan: Fan::NEW,
            rng: Rng::new(1),
            now: 1_000_000,
        }
    }

    /// For so long a token comes each `apart` ns, of one message after the other; so many in a
    /// hundred are lost, each of these before one that comes.
    fn go(&mut self, time: u64, apart: u64, drew_in: &mut [u32], percent: u32, class: u8) {
        let (end, mut owed, mut turn) = (self.now + time, 0, 0);
        while self.now < end {
            owed += percent;
            let lost = owed / (100 - percent);
            owed %= 100 - percent;
            let came = Came {
                tokens: 1,
                lost,
                wire_len: 84,
                priority: class,
                held: true,
                rtt: Nanos(TRIP),
            };
            let speed = self.config.speed;
            let message = turn % drew_in.len();
            let drew_in = &mut drew_in[message];
            self.fan
                .came(Nanos(self.now), &self.config, &speed, &came, drew_in);
            self.now += apart;
            turn += 1;
        }
    }

    /// The mean of what is said in many packets, less the one that it begins with.
    fn says(&mut self, class: u8) -> f64 {
        const PACKETS: u32 = 10_000;
        let each = (0..PACKETS).map(|_| self.fan.more(&mut self.rng, class, Nanos(TRIP)));
        let sum: u32 = each.map(u32::from).sum();
        f64::from(sum) / f64::from(PACKETS) - 1.0
    }
}

const MS: u64 = 1_000_000;

#[test]
fn nothing_is_held_back_without_loss_or_while_there_is_room() {
    let mut model = Model::new();
    let mut drew_in = [u32::MAX; 4];
    model.go(MS, 1298, &mut drew_in, 0, 3);
    assert_eq!(model.fan.more(&mut model.rng, 3, Nanos(TRIP)), 0);
    // Half of the link.
    model.go(MS, 2596, &mut drew_in, 30, 3);
    assert_eq!(model.fan.more(&mut model.rng, 3, Nanos(TRIP)), 0);
    // On a path that is longer than the options say.
    model.config.base_rtt = Nanos(TRIP / 5);
    model.go(MS, 1298, &mut drew_in, 30, 3);
    assert_eq!(model.fan.more(&mut model.rng, 3, Nanos(TRIP)), 0);
}

#[test]
fn each_message_has_its_part_of_the_window() {
    let mut model = Model::new();
    let mut drew_in = [u32::MAX; 4];
    // A round without the window, and one in which it settles.
    model.go(500_000, 1298, &mut drew_in, 30, 3);
    let before = model.fan.window;
    // Two round trips.
    assert!((model.says(3) - 2.0 * 15.4 / 4.0).abs() < 0.2);
    // Other priorities have it for themselves.
    assert!((model.says(2) - 2.0 * 15.4).abs() < 0.4);
    // If much is lost it becomes less, but not at once; if nothing is it grows slowly.
    model.go(180_000, 1298, &mut drew_in, 30, 3);
    assert_eq!(model.fan.window, before * 3 / 4);
    model.go(MS, 1298, &mut drew_in, 0, 3);
    let before = model.fan.window;
    model.go(180_000, 1298, &mut drew_in, 0, 3);
    let grown = model.fan.window as f64 / before as f64;
    assert!(grown > 1.0 && grown < 1.01, "{grown}");
    // No message has less than one.
    model.go(20 * MS, 1298, &mut drew_in, 50, 3);
    assert!((model.says(3) - 1.0).abs() < 1e-9);
    assert_eq!(model.fan.window, 4 * u64::from(PARTS));
    // If less than the link carries comes, there is more for each, and soon all.
    model.go(400_000, 2596, &mut drew_in, 0, 3);
    assert!(model.says(3) > 1.9);
    model.go(4 * MS, 2596, &mut drew_in, 0, 3);
    assert_eq!(model.fan.more(&mut model.rng, 3, Nanos(TRIP)), 0);
}

#[test]
fn what_is_outranked_says_nothing() {
    let mut model = Model::new();
    let (mut first, mut others) = ([u32::MAX; 2], [u32::MAX; 2]);
    for _ in 0..100 {
        model.go(20_000, 1298, &mut first, 0, 2);
        model.go(2_600, 1298, &mut others, 90, 5);
    }
    assert!(!model.fan.holds);
}

#[test]
fn a_flood_does_not_last_for_a_round() {
    let mut model = Model::new();
    let mut drew_in = [u32::MAX; 32];
    model.go(1, 1298, &mut drew_in, 0, 3);
    let begin = model.now;
    while !model.fan.holds {
        model.go(1298, 1298, &mut drew_in, 90, 3);
    }
    let took = model.now - begin;
    assert!(took < 3 * TRIP, "{took}");
}

#[test]
fn no_values_are_too_much() {
    let mut model = Model::new();
    let speed = model.config.speed;
    for now in [0, 1, u64::MAX / 2, u64::MAX] {
        for (tokens, lost) in [(u32::MAX, u32::MAX), (1, u32::MAX), (u32::MAX, 0), (0, 0)] {
            for rtt in [0, u64::MAX] {
                let came = Came {
                    tokens,
                    lost,
                    wire_len: u32::MAX,
                    priority: 255,
                    held: true,
                    rtt: Nanos(rtt),
                };
                let mut drew_in = 0;
                for priority in [0, 7, 8, 255] {
                    let came = Came { priority, ..came };
                    model
                        .fan
                        .came(Nanos(now), &model.config, &speed, &came, &mut drew_in);
                    model.fan.more(&mut model.rng, priority, Nanos(rtt));
                }
            }
        }
    }
}

/// What waits may ask with a few tokens, and has the window soon when nothing goes before it.
#[test]
fn who_waits_has_little_of_the_window() {
    let mut model = Model::new();
    let (mut first, mut others) = ([u32::MAX; 4], [u32::MAX; 4]);
    model.go(500_000, 1298, &mut others, 30, 3);
    assert!((model.says(3) - 2.0 * 15.4 / 4.0).abs() < 0.3);
    for _ in 0..20 {
        model.go(20_000, 1298, &mut first, 3, 2);
        model.go(1298, 1298, &mut others[..1], 0, 3);
    }
    let window = model.fan.window as f64 / f64::from(PARTS);
    assert!((model.says(2) - window / 4.0).abs() < 0.3);
    // At 5 % of the tokens: of a window of 31 two, and at most four and two for each that came.
    let waits = model.says(3);
    assert!(waits < 20.0 && waits < window * 0.75, "{waits}");
    // More that have waited come: none is told that the window is its own.
    model.go(40_000, 1298, &mut others, 0, 3);
    assert!(
        (model.says(3) - window / 4.0).abs() < 0.3,
        "{}",
        model.says(3)
    );
}

#[test]
fn two_links_and_no_more_are_remembered() {
    let mut drew = Drew::NEVER;
    *drew.by(3) = 10;
    *drew.by(4) = 20;
    assert_eq!((*drew.by(3), *drew.by(4)), (10, 20));
    assert_eq!(*drew.by(5), u32::MAX);
    assert_eq!(*drew.by(4), 20);
    assert_eq!(*drew.by(3), u32::MAX);
}
