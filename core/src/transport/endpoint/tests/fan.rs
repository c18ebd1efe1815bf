// SPDX-License-Identifier: GPL-2.0
//! What a sender whose link is full says of long messages (`fan.rs`), and what counts for that.

use std::vec;

use super::*;
use crate::transport::wire::Token;

/// A token is due each 1.3 us.
const RATE: u64 = 1_250_000_000;
const APART: u64 = 1298;
const NEAR: Nanos = Nanos(20_000);
/// Packets: more than anything here takes, and so few that nobody is held back.
const LONG: u32 = 100_000;
const SHORT: u32 = 200;
/// So many short messages follow each other.
const MANY: usize = 4;

/// A message that goes out.
struct Sent {
    to: Address,
    cookie: Cookie,
    /// The number of its next token.
    next: u16,
    owed: u32,
}

struct Model {
    endpoint: Messages,
    io: Io,
    now: Nanos,
    all: Vec<Sent>,
}

impl Model {
    fn new() -> Self {
        let (endpoint, io) = new(&Config::DEFAULT.validate(Some(RATE)).unwrap());
        Self {
            endpoint,
            io,
            now: NOW,
            all: Vec::new(),
        }
    }

    /// A message begins, and is asked for after so long.
    fn send(&mut self, packets: u32, rtt: Nanos) {
        let to = host(self.all.len() as u32 + 1, false);
        let what = Outgoing {
            source: 1,
            destination: 2,
            length: Some(packets * 1450),
            deadline: None,
            coflow: 0,
            priority: None,
            mss: 1450,
            available: packets * 1450,
            user: 0,
        };
        let sent = self.endpoint.send(self.now, &to, &what, (), &mut self.io);
        sent.unwrap();
        let cookie = self.io.take()[0].cookie();
        self.all.push(Sent {
            to,
            cookie,
            next: 0,
            owed: 0,
        });
        self.now += rtt;
        self.token(self.all.len() - 1, 0, 0);
    }

    /// A token comes by a device, for one of the messages; so many in a hundred of its are lost.
    /// What the answer says is written behind it, if there is one.
    fn token(&mut self, which: usize, percent: u32, device: u32) -> Option<u8> {
        let it = &mut self.all[which];
        it.owed += percent;
        it.next += (it.owed / (100 - percent)) as u16;
        it.owed %= 100 - percent;
        let token = Packet::Token(Token {
            cookie: it.cookie,
            sequence: it.next,
            timestamp: 0,
            priority: 3,
            grant: None,
            worth: 1,
        });
        it.next += 1;
        let (now, to) = (self.now, it.to);
        self.endpoint
            .packet(now, now.0 as u32, &to, device, 0, &token, (), &mut self.io);
        self.io.take().iter().find_map(|packet| match packet {
            Packet::Data(data) => Some(data.more),
            _ => None,
        })
    }

    /// So many tokens come one after the other, of these messages in turn. What the answers of the
    /// last half say, by the place of a message among them.
    fn go(&mut self, turns: &[usize], tokens: usize, percent: u32) -> Vec<Vec<u8>> {
        let mut said = vec![Vec::new(); turns.len()];
        for number in 0..tokens {
            self.now += Nanos(APART);
            let place = number % turns.len();
            let more = self.token(turns[place], percent, 0);
            said[place].extend(more.filter(|_| number >= tokens / 2));
        }
        said
    }
}

/// Of 20 us and 1.3 us for each, 31 are under way in two round trips.
fn is_told(said: &[u8], messages: u8) -> bool {
    let most = 31 / messages + 3;
    !said.is_empty() && said.iter().all(|more| (2..=most).contains(more))
}

#[test]
fn whose_link_is_full_says_how_many_tokens_may_be_under_way() {
    let mut model = Model::new();
    model.send(LONG, NEAR);
    model.send(LONG, NEAR);
    let said = model.go(&[0, 1], 1000, 30);
    assert!(is_told(&said[0], 2) && is_told(&said[1], 2), "{said:?}");
    // Nothing is lost, or the link is not full.
    for (percent, times) in [(0, 1), (30, 2)] {
        let mut model = Model::new();
        model.send(LONG, NEAR);
        for _ in 0..1000 {
            model.now += Nanos(APART * times);
            assert_eq!(model.token(0, percent, 0), Some(0));
        }
    }
}

/// A window for what is near would be too small for what is far.
#[test]
fn messages_on_far_paths_are_told_nothing() {
    let mut model = Model::new();
    for rtt in [20, 20, 20, 20, 1000] {
        model.send(LONG, Nanos(rtt * 1000));
    }
    let said = model.go(&[0, 1, 2, 3, 4], 2000, 30);
    for it in &said[..4] {
        assert!(is_told(it, 4), "{it:?}");
    }
    assert!(!said[4].is_empty() && said[4].iter().all(|&more| more == 0));
}

/// What cannot be held back would take the place of what is.
#[test]
fn nobody_is_held_back_beside_many_that_are_not() {
    for (far, short, held) in [
        (0, 0, true),
        (1, 0, true),
        (0, 1, true),
        (2, 0, false),
        (0, 2, false),
        (1, 1, false),
    ] {
        let mut model = Model::new();
        for _ in 0..4 {
            model.send(LONG, NEAR);
        }
        for _ in 0..far {
            model.send(LONG, Nanos(1_000_000));
        }
        for _ in 0..short * MANY {
            model.send(SHORT, NEAR);
        }
        let (mut turns, mut said) = (Vec::new(), Vec::new());
        // Each takes the places of one that is over.
        for number in 0..MANY {
            turns.truncate(0);
            turns.extend(0..4 + far);
            turns.extend((0..short).map(|it| 4 + far + number * short + it));
            said = model.go(&turns, (SHORT as usize - 1) * turns.len(), 30);
        }
        for it in &said[..4] {
            let ok = match held {
                true => is_told(it, 4),
                false => !it.is_empty() && it.iter().all(|&more| more == 0),
            };
            assert!(ok, "{far} {short}: {it:?}");
        }
    }
}

/// A receiver cannot make the link look full with tokens that take nothing of it.
#[test]
fn tokens_that_draw_nothing_do_not_count() {
    let mut model = Model::new();
    model.send(LONG, NEAR);
    model.send(LONG, NEAR);
    model.send(1, NEAR);
    // Half of what comes draws nothing.
    let said = model.go(&[0, 2, 1, 2], 4000, 30);
    assert!(said[1].is_empty() && said[3].is_empty());
    assert!(said[0].iter().chain(&said[2]).all(|&more| more == 0));
}

/// What is said by one link is of its own rounds, wherever a message had tokens besides.
#[test]
fn a_message_counts_once_in_a_round_of_each_of_its_links() {
    // The links' rounds have the same numbers, or others.
    for before in [0, 700] {
        let mut model = Model::new();
        for device in [1, 2] {
            model.endpoint.set_link(model.now, device, RATE);
        }
        for _ in 0..5 {
            model.send(LONG, NEAR);
        }
        for _ in 0..before {
            model.now += Nanos(APART);
            model.token(4, 0, 1);
        }
        let mut said = [Vec::new(), Vec::new()];
        for number in 0..1000 {
            model.now += Nanos(APART);
            for device in [1, 2] {
                let which = (number + device as usize) % 4;
                let more = model.token(which, 30, device);
                said[device as usize - 1].extend(more.filter(|_| number >= 500));
            }
        }
        for it in &said {
            assert!(is_told(it, 4), "{before}: {it:?}");
            // Not less than its part, either.
            let sum: u32 = it.iter().map(|&more| u32::from(more)).sum();
            assert!(sum >= 3 * it.len() as u32, "{before}: {it:?}");
        }
    }
}
