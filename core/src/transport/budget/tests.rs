// SPDX-License-Identifier: GPL-2.0
extern crate std;
use super::*;
use crate::transport::jitter::Rng;
use std::collections::BTreeMap;

/// A peer that has stalled.
const STALLED: u32 = 5000;

/// A socket with messages, as the kernel module keeps them.
#[derive(Default)]
struct Socket {
    budget: Budget,
    next: u64,
    messages: BTreeMap<u64, Message>,
    /// Of those that wait, and of those that share.
    rounds: [Rounds; 2],
    /// What each peer has in each, and in which round its first message has its turn.
    turns: [BTreeMap<u32, (Turns, u64)>; 2],
}

#[derive(Clone, Copy)]
struct Message {
    place: Place,
    length: Option<u32>,
    /// The window, or what it is charged for.
    bytes: u32,
    /// Memory that it takes.
    held: u32,
    standing: Standing,
    /// Its sender, 256 of which are a network.
    peer: u32,
    complete: bool,
}

impl Message {
    fn proved(&self) -> bool {
        self.standing != Standing::Stranger
    }
}

impl Socket {
    /// What a peer has.
    fn has(&self, peer: u32) -> Has {
        let known = || self.messages.values().filter(|of| of.proved());
        let charged = |of: &Message| self.budget.charged(of.place, of.bytes);
        let spare = known().filter(|of| of.place == Place::Spare && of.standing == Standing::Known);
        Has {
            peer: known().filter(|of| of.peer == peer).map(charged).sum(),
            net: spare
                .filter(|of| of.peer / 256 == peer / 256)
                .map(charged)
                .sum(),
            stalled: peer == STALLED,
        }
    }

    /// A message that is in no queue, or is to be in this one, joins it.
    fn join(&mut self, number: u64, place: Place) {
        if !matches!(place, Place::Waiting | Place::Shared) {
            return;
        }
        let peer = self.messages[&number].peer;
        let mut others = self.messages.iter().filter(|(at, of)| {
            **at != number && of.peer == peer && of.place == place && of.proved()
        });
        if others.next().is_none() {
            let queue = usize::from(place == Place::Shared);
            let (turns, round) = self.turns[queue].entry(peer).or_default();
            *round = self.rounds[queue].join(turns);
        }
    }

    /// A message has had its turn.
    fn reach(&mut self, number: u64, place: Place) {
        let queue = usize::from(place == Place::Shared);
        let peer = self.messages[&number].peer;
        let (turns, round) = self.turns[queue].get_mut(&peer).unwrap();
        *round = self.rounds[queue].reach(*round, turns);
        if place == Place::Shared {
            *round = self.rounds[queue].pass(turns);
        }
    }

    fn waiter(&self, number: u64) -> Waiter {
        self.waiter_with(number, self.has(self.messages[&number].peer))
    }

    fn waiter_with(&self, number: u64, has: Has) -> Waiter {
        let of = self.messages[&number];
        let length = of.length.filter(|_| of.place == Place::Waiting);
        let window = if of.standing == Standing::Known {
            of.bytes
        } else {
            0
        };
        Waiter {
            number,
            bytes: length.unwrap_or(window),
            has,
        }
    }

    /// The first of those that have this place.
    fn first(&self, place: Place) -> Option<Waiter> {
        let waits = |of: &Message| of.place == place && of.proved();
        let all = self.messages.iter().filter(|(_, of)| waits(of));
        let mut first = BTreeMap::new();
        for (number, of) in all {
            first.entry(of.peer).or_insert(*number);
        }
        let turns = &self.turns[usize::from(place == Place::Shared)];
        let order = |(peer, number): &(u32, u64)| (*peer == STALLED, turns[peer].1, *number);
        let first = first.into_iter().min_by_key(order);
        first.map(|it| self.waiter(it.1))
    }

    /// The first in the order in which those wait that need room: those that may have a part of
    /// what is spare before others, the shortest first.
    fn shortest(&self) -> Option<Waiter> {
        let waits = |of: &Message| of.place == Place::Waiting && of.proved();
        let all = self.messages.iter().filter(|(_, of)| waits(of));
        let mut known = BTreeMap::new();
        let all = all.map(|(number, of)| {
            let has = *known.entry(of.peer).or_insert_with(|| self.has(of.peer));
            self.waiter_with(*number, has)
        });
        all.min_by_key(|it| (self.budget.class(it.bytes, it.has), it.bytes))
    }

    fn open(&mut self, length: Option<u32>) -> Place {
        self.open_as(length, true)
    }

    fn open_as(&mut self, length: Option<u32>, proved: bool) -> Place {
        self.open_by(0, length, proved)
    }

    fn open_by(&mut self, peer: u32, length: Option<u32>, proved: bool) -> Place {
        let number = self.next;
        self.next += 1;
        let turn = self.first(Place::Waiting);
        let has = proved.then(|| self.has(peer));
        let (place, bytes) = self.budget.admit(number, length, turn, has);
        let message = Message {
            place,
            length,
            bytes,
            held: 0,
            standing: match proved {
                true => Standing::Known,
                false => Standing::Stranger,
            },
            peer,
            complete: false,
        };
        self.messages.insert(number, message);
        self.join(number, place);
        place
    }

    fn prove(&mut self, number: u64) {
        let of = self.messages[&number];
        if !of.proved() {
            self.join(number, of.place);
            let (turn, has) = (self.first(Place::Waiting), self.has(of.peer));
            let after = self.budget.prove(of.place, of.bytes, turn, has);
            let of = self.messages.get_mut(&number).unwrap();
            (of.place, of.standing) = after;
        }
    }

    fn give(&mut self) {
        loop {
            let shortest = self.shortest();
            let turn = self.first(Place::Waiting);
            let sharing = self.first(Place::Shared);
            match self.budget.next(shortest, turn, sharing) {
                Next::None => return,
                Next::Reserve(it, place) => {
                    self.budget.reserve(it.bytes, place, turn == Some(it));
                    if turn == Some(it) {
                        self.reach(it.number, Place::Waiting);
                    }
                    let of = self.messages.get_mut(&it.number).unwrap();
                    (of.place, of.bytes) = (place, it.bytes);
                }
                Next::Stream(it) => {
                    self.budget.stream(turn == Some(it));
                    self.join(it.number, Place::Shared);
                    let of = self.messages.get_mut(&it.number).unwrap();
                    (of.place, of.bytes) = (Place::Shared, 0);
                }
                Next::Promote => {
                    let number = sharing.unwrap().number;
                    self.reach(number, Place::Shared);
                    let of = self.messages.get_mut(&number).unwrap();
                    let ahead = self.budget.promote(number, of.bytes, of.standing);
                    (of.place, of.bytes) = (Place::Exclusive, ahead);
                    of.standing = Standing::Known;
                }
            }
        }
    }

    /// All that has room, is proved and can be complete is so. It takes some of the memory that
    /// it may take.
    fn complete(&mut self, rng: &mut Rng) {
        for of in self.messages.values_mut() {
            if of.complete || !of.proved() {
                continue;
            }
            let most = self.budget.memory(of.place, of.bytes);
            of.held = (rng.next_u64() % u64::from(most + 1)) as u32;
            match of.place {
                Place::Reserved | Place::Spare | Place::Exclusive => of.complete = true,
                Place::Shared
                    if of.length.is_none() && of.bytes != 0 && rng.next_u64() % 2 == 0 =>
                {
                    let length = 1 + (rng.next_u64() % u64::from(of.bytes)) as u32;
                    of.bytes = self.budget.settle(of.bytes, length, of.held, of.standing);
                    (of.place, of.length) = (Place::Reserved, Some(length));
                    of.complete = true;
                }
                _ => {}
            }
        }
    }

    /// Something happens.
    fn step(&mut self, rng: &mut Rng, total: u64, resize: impl FnOnce(&mut Self, &mut Rng)) {
        let at = |rng: &mut Rng, of: &Self| {
            let at = rng.next_u64() % (of.messages.len().max(1) as u64);
            of.messages.keys().nth(at as usize).copied()
        };
        match rng.next_u64() % 11 {
            0..=3 => {
                let length = (rng.next_u64() % 4 != 0).then(|| {
                    let most = 1 << (rng.next_u64() % (2 + u64::from(total.ilog2())));
                    1 + (rng.next_u64() % most) as u32
                });
                let peer = match rng.next_u64() % 8 {
                    0 => STALLED,
                    _ => (rng.next_u64() % 600) as u32,
                };
                self.open_by(peer, length, rng.next_u64() % 2 == 0);
            }
            4 => self.complete(rng),
            5 | 6 => {
                if let Some(number) = at(rng, self) {
                    self.prove(number);
                    self.give();
                }
            }
            7 => {
                resize(self, rng);
                self.give();
            }
            _ => {
                // One is read, or fails.
                if let Some(number) = at(rng, self) {
                    self.leave(number);
                    self.give();
                }
            }
        }
    }

    /// Whoever reads what is there gets everything that is proved; strangers' go by time.
    fn drain(&mut self, rng: &mut Rng, seed: u64) {
        let strangers = self.messages.iter().filter(|of| !of.1.proved());
        for number in strangers.map(|of| *of.0).collect::<std::vec::Vec<_>>() {
            self.leave(number);
        }
        let mut rounds = 0;
        while !self.messages.is_empty() {
            let before = self.messages.len();
            self.give();
            self.complete(rng);
            let done = self.messages.iter().filter(|of| of.1.complete);
            for number in done.map(|of| *of.0).collect::<std::vec::Vec<_>>() {
                self.leave(number);
            }
            self.give();
            rounds += 1;
            assert!(
                self.messages.len() < before,
                "seed {seed}, round {rounds}: {before} messages wait for ever"
            );
        }
        assert_eq!(self.budget.used(), 0, "seed {seed}");
        assert_eq!(self.budget.strange, 0, "seed {seed}");
    }

    fn leave(&mut self, number: u64) {
        let of = self.messages.remove(&number).unwrap();
        self.budget.leave(of.place, of.bytes, of.standing);
    }

    fn check(&self) {
        let all = || self.messages.iter();
        let exclusive = all().filter(|of| of.1.place == Place::Exclusive);
        assert!(exclusive.clone().count() <= 1);
        assert_eq!(
            exclusive.map(|of| *of.0).next(),
            self.budget.exclusive(),
            "who is exclusive"
        );
        let charged = |of: &Message| u64::from(self.budget.charged(of.place, of.bytes));
        let sum: u64 = all().map(|of| charged(of.1)).sum();
        assert_eq!(sum, u64::from(self.budget.used()), "bytes are charged");
        for (number, of) in all() {
            let most = 2 * charged(of);
            assert!(
                u64::from(of.held) <= most,
                "{} of {most} bytes of memory are held by {number}",
                of.held
            );
        }
        let strange = all().filter(|of| of.1.standing != Standing::Known);
        let strange = strange.map(|of| charged(of.1));
        let strange: u64 = strange.sum();
        assert_eq!(strange, u64::from(self.budget.strange), "of strangers");
        assert!(
            self.budget.used() <= self.budget.total(),
            "{} bytes are charged to a buffer of {}",
            self.budget.used(),
            self.budget.total()
        );
    }
}

#[test]
fn short_messages_that_nobody_reads_fill_the_buffer_and_no_more() {
    let mut socket = Socket::default();
    socket.budget.resize(128 << 10);
    let mut rng = Rng::new(1);
    for _ in 0..3000 {
        socket.open(Some(4000));
        socket.give();
        socket.complete(&mut rng);
        socket.check();
    }
    let whole = socket.messages.values().filter(|of| of.complete).count();
    // Beside an eighth, which is for strangers, and one of the rest, which is for shorter ones.
    assert_eq!(whole, (49 << 10) / (4000 + 1024));
    // And all comes when it is read.
    let mut read = 0;
    while let Some((number, _)) = socket.messages.iter().find(|of| of.1.complete) {
        let number = *number;
        socket.leave(number);
        read += 1;
        socket.give();
        socket.complete(&mut rng);
    }
    assert_eq!(read, 3000);
    assert_eq!(socket.budget.used(), 0);
}

#[test]
fn messages_of_unknown_length_that_nobody_reads_fill_the_buffer_and_no_more() {
    let mut socket = Socket::default();
    socket.budget.resize(128 << 10);
    let mut rng = Rng::new(2);
    for _ in 0..1000 {
        socket.open(None);
        socket.give();
        socket.complete(&mut rng);
        socket.check();
    }
}

#[test]
fn random_operations_keep_to_the_buffer_and_forget_nobody() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut socket = Socket::default();
        socket.budget.resize(1 << (15 + seed % 6));
        let total = u64::from(socket.budget.total());
        for _ in 0..400 {
            socket.step(&mut rng, total, |socket, rng| {
                // As others take of what all may have, or the application sets it.
                if seed % 2 == 0 {
                    let first = socket.budget.first * 2;
                    let now = socket.budget.total() * 2;
                    socket
                        .budget
                        .grows(now, first, first << (rng.next_u64() % 5));
                }
            });
            socket.check();
        }
        socket.drain(&mut rng, seed);
    }
}

/// The application makes the buffer larger and smaller. What it was promised before stays, so that
/// it may have more in it than its size for a while.
#[test]
fn a_buffer_of_any_sizes_forgets_nobody() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut socket = Socket::default();
        socket.budget.resize(1 << (15 + seed % 6));
        for _ in 0..400 {
            socket.step(&mut rng, 1 << 20, |socket, rng| {
                let size = 1 << (15 + rng.next_u64() % 6);
                match rng.next_u64() % 2 {
                    0 => socket.budget.resize(size),
                    _ => socket
                        .budget
                        .grows(size, size, size << (rng.next_u64() % 4)),
                }
            });
        }
        socket.drain(&mut rng, seed);
    }
}

/// The first in the order of those that wait may be longer than there ever is room for.
#[test]
fn one_that_never_fits_keeps_nobody_waiting() {
    let mut socket = Socket::default();
    socket.budget.resize(512 << 10);
    let total = socket.budget.total();
    assert_eq!(socket.open(Some(total / 2)), Place::Reserved);
    while socket.open_by(1, Some(1), true) != Place::Waiting {}
    while socket.open_by(STALLED, Some(714), true) != Place::Waiting {}
    let short = socket.next - 1;
    let long = socket.next;
    assert_eq!(socket.open(Some(100_000)), Place::Waiting);
    socket.budget.resize(128 << 10);
    for number in 0..short {
        socket.leave(number);
    }
    socket.give();
    assert_eq!(socket.place(short), Place::Reserved);
    assert_eq!(socket.place(long), Place::Exclusive);
}

impl Socket {
    fn place(&self, number: u64) -> Place {
        self.messages[&number].place
    }
}

#[test]
fn the_shortest_that_waits_is_next() {
    let mut socket = Socket::default();
    socket.budget.resize(128 << 10);
    assert_eq!(socket.open(Some(30_000)), Place::Reserved);
    assert_eq!(socket.open(Some(26_000)), Place::Waiting);
    assert_eq!(socket.open(Some(18_000)), Place::Reserved);
    assert_eq!(socket.open(Some(16_000)), Place::Waiting);
    // There is room for a short one however many long ones wait.
    assert_eq!(socket.open(Some(100)), Place::Spare);
    assert_eq!(socket.open(None), Place::Shared);
    socket.leave(2);
    socket.give();
    assert_eq!(socket.place(3), Place::Reserved);
    assert_eq!(socket.place(1), Place::Waiting);
    socket.leave(0);
    socket.give();
    assert_eq!(socket.place(1), Place::Reserved);
    assert_eq!(socket.place(5), Place::Shared);
    socket.leave(1);
    socket.give();
    assert_eq!(socket.place(5), Place::Exclusive);
    socket.leave(3);
    // A quarter is left for those that are reserved.
    assert_eq!(socket.open(Some(10_000)), Place::Reserved);
    assert_eq!(socket.open(Some(10_000)), Place::Waiting);
}

#[test]
fn short_messages_find_room_beside_any_number_of_long_ones() {
    let mut socket = Socket::default();
    socket.budget.resize(1 << 20);
    let total = socket.budget.total();
    for part in [2, 3, 4, 8, 16, 32, 64, 128] {
        for _ in 0..200 {
            socket.open(Some(total / part));
        }
    }
    for peer in [1, 1, 1, 2, 300] {
        assert_eq!(socket.open_by(peer, Some(1000), true), Place::Spare);
    }
    socket.check();
}

#[test]
fn nobody_waits_for_more_than_some_others() {
    let mut socket = Socket::default();
    socket.budget.resize(128 << 10);
    for _ in 0..2 {
        socket.open(Some(30_000));
    }
    assert_eq!(socket.place(1), Place::Waiting);
    let mut passed = 0;
    // There are always some of 10 000 bytes that are not read, so that it never finds room.
    while socket.place(1) == Place::Waiting {
        if socket.open(Some(10_000)) == Place::Reserved {
            passed += 1;
        }
        assert!(passed <= TURN, "{passed} have passed");
        let done = socket.messages.iter();
        let done = done.clone().find(|it| it.1.place == Place::Reserved);
        let oldest = *done.unwrap().0;
        if socket.messages.len() > 4 {
            socket.leave(oldest);
            socket.give();
        }
    }
    assert!(passed >= TURN / 2, "{passed}");
}

#[test]
fn a_buffer_grows_for_those_who_need_it_and_no_further_than_it_may() {
    let mut socket = Socket::default();
    let grow = |socket: &mut Socket| {
        let now = socket.budget.total() * 2;
        socket.budget.grows(now, 128 << 10, 1 << 20);
    };
    grow(&mut socket);
    socket.budget.grows(128 << 10, 128 << 10, 1 << 20);
    assert_eq!(socket.open(Some(30_000)), Place::Reserved);
    assert_eq!(socket.budget.total(), 64 << 10);
    grow(&mut socket);
    assert_eq!(socket.open(Some(30_000)), Place::Reserved);
    assert_eq!(socket.budget.total(), 128 << 10);
    grow(&mut socket);
    // Longer than the buffer, and not than what it may be.
    assert_eq!(socket.open(Some(250_000)), Place::Reserved);
    assert_eq!(socket.budget.total(), 512 << 10);
    grow(&mut socket);
    assert_eq!(socket.open(Some(250_000)), Place::Waiting);
    assert_eq!(socket.open(Some(270_000)), Place::Shared);
    assert_eq!(socket.budget.total(), 512 << 10);
    for number in 0..3 {
        socket.leave(number);
    }
    // It has its first size until those that wait have it grow.
    assert_eq!(socket.budget.total(), 64 << 10);
    socket.give();
    socket.leave(3);
    socket.give();
    socket.leave(4);
    assert_eq!(socket.budget.total(), 64 << 10);
}

#[test]
fn a_buffer_that_shrinks_takes_nothing_until_enough_was_read() {
    let mut socket = Socket::default();
    socket.budget.resize(1 << 20);
    for _ in 0..10 {
        assert_eq!(socket.open(Some(35_000)), Place::Reserved);
    }
    socket.budget.resize(64 << 10);
    assert_eq!(socket.open(Some(100)), Place::Waiting);
    assert_eq!(socket.open(None), Place::Shared);
    assert_eq!(socket.messages[&11].bytes, 0);
    for number in 0..10 {
        assert_eq!(socket.place(10), Place::Waiting, "{number} were read");
        socket.leave(number);
        socket.give();
    }
    assert_eq!(socket.place(10), Place::Reserved);
}

/// The same is done with two sockets, and strangers come and go at one of them: nobody else
/// sees a difference.
#[test]
fn who_has_proved_nothing_takes_nothing_of_others() {
    for seed in 0..100 {
        let mut rng = Rng::new(seed);
        let mut sockets = [Socket::default(), Socket::default()];
        let total = 1_u32 << (15 + seed % 6);
        let most = total << (seed % 3);
        for socket in &mut sockets {
            socket.budget.grows(2 * total, 2 * total, 2 * most);
            // Strangers have numbers of their own, which say nothing about others.
            socket.next = 1 << 32;
        }
        let mut strangers = std::vec::Vec::new();
        let (mut known, mut next) = (std::vec::Vec::new(), 0);
        let length = |rng: &mut Rng| {
            let known = rng.next_u64() % 4 != 0;
            known.then(|| 1 + (rng.next_u64() % u64::from(most)) as u32 / 2)
        };
        for _ in 0..400 {
            let of = length(&mut rng);
            let at = rng.next_u64();
            let index = |len: usize| (at % len.max(1) as u64) as usize;
            match rng.next_u64() % 6 {
                0 | 1 => {
                    strangers.push(sockets[0].next);
                    sockets[0].open_as(of, false);
                }
                2 if !strangers.is_empty() => {
                    let number = strangers.swap_remove(index(strangers.len()));
                    sockets[0].leave(number);
                }
                3 | 4 => {
                    for socket in &mut sockets {
                        let others = core::mem::replace(&mut socket.next, next);
                        socket.open(of);
                        socket.next = others;
                    }
                    known.push(next);
                    next += 1;
                }
                _ if !known.is_empty() => {
                    let number = known.swap_remove(index(known.len()));
                    for socket in &mut sockets {
                        socket.leave(number);
                    }
                }
                _ => {}
            }
            for socket in &mut sockets {
                socket.give();
                socket.check();
            }
            for number in &known {
                let [with, without] = [0, 1].map(|at: usize| sockets[at].messages[number]);
                let seen = |of: Message| (of.place, of.bytes);
                assert_eq!(seen(with), seen(without), "seed {seed}, message {number}");
            }
            let total = |at: usize| sockets[at].budget.total();
            assert_eq!(total(0), total(1), "seed {seed}");
        }
    }
}

#[test]
fn who_waits_for_more_than_there_ever_will_be_streams() {
    let mut socket = Socket::default();
    socket.budget.resize(512 << 10);
    for length in [100_000, 80_000, 120_000, 60_000] {
        socket.open(Some(length));
    }
    assert_eq!(socket.place(2), Place::Waiting);
    socket.budget.resize(128 << 10);
    for number in 0..2 {
        socket.leave(number);
        socket.give();
    }
    assert_eq!(socket.place(2), Place::Exclusive);
    assert_eq!(socket.open(Some(5000)), Place::Reserved);
    socket.leave(2);
    socket.give();
    assert_eq!(socket.place(3), Place::Exclusive);
}

#[test]
fn a_stream_without_end_closes_the_buffer_to_nobody_else() {
    for part in [3, 2] {
        let mut socket = Socket::default();
        socket.budget.resize(512 << 10);
        let total = socket.budget.total();
        assert_eq!(socket.open(None), Place::Exclusive);
        assert_eq!(socket.open(Some(total / part)), Place::Waiting);
        for _ in 0..1000 {
            let number = socket.next;
            let place = socket.open(Some(20_000));
            assert_ne!(place, Place::Waiting, "beside a {part}th that waits");
            socket.leave(number);
            socket.give();
        }
    }
}

/// A message whose turn it is gets room also while an older one waits for the end of a stream.
#[test]
fn a_turn_is_taken_beside_messages_that_stream() {
    for total in [128_u32 << 10, 2 << 20] {
        let mut socket = Socket::default();
        socket.budget.resize(2 * total);
        assert_eq!(socket.open(None), Place::Exclusive);
        assert_eq!(socket.open(None), Place::Shared);
        let waits = socket.next;
        assert_eq!(socket.open(Some(total / 5)), Place::Waiting);
        // Others come, of 4 % each, and are read at once.
        let mut passed = 0;
        while socket.place(waits) == Place::Waiting {
            let number = socket.next;
            socket.open_by(300, Some(total / 25), true);
            socket.check();
            socket.leave(number);
            socket.give();
            passed += 1;
            assert!(passed <= 2 * TURN, "{passed} have passed, of {total}");
        }
        assert_eq!(socket.place(waits), Place::Reserved);
        assert_eq!(socket.open_by(300, Some(total / 25), true), Place::Spare);
        socket.leave(waits);
        socket.give();
        assert_eq!(socket.open_by(300, Some(total / 10), true), Place::Reserved);
    }
}

/// Who has many messages that stream has one turn in each round, and none before others after it
/// has stalled.
#[test]
fn streams_have_turns_by_peers() {
    let mut socket = Socket::default();
    socket.budget.resize(2 << 20);
    for peer in [STALLED, STALLED, 1, 1, 1, 1, 300, 2, 1, 300] {
        socket.open_by(peer, None, true);
    }
    let mut order = std::vec::Vec::new();
    while let Some(number) = socket.budget.exclusive() {
        order.push(socket.messages[&number].peer);
        socket.check();
        socket.leave(number);
        socket.give();
    }
    let s = STALLED;
    assert_eq!(order, [s, 1, 300, 2, 1, 300, 1, 1, 1, s]);
}

/// The same of those that wait for a reservation: a peer whose messages go on slowly, one behind
/// the other, keeps others from room only while others' are read, and long ones for one message.
#[test]
fn turns_are_peers_turns() {
    let mut socket = Socket::default();
    socket.budget.resize(4 << 20);
    let total = socket.budget.total();
    let long = total / 2 - OVERHEAD;
    // One is there and hardly goes on, others of it wait; and one of another peer.
    let slow = socket.next;
    assert_eq!(socket.open_by(1, Some(long), true), Place::Reserved);
    for _ in 0..3 {
        assert_eq!(socket.open_by(1, Some(long), true), Place::Waiting);
    }
    let other = socket.next;
    assert_eq!(socket.open_by(2, Some(long), true), Place::Waiting);
    // Shorter ones of a third one come and are read at once: always, though turns are due.
    let shorter = |socket: &mut Socket, most: u32| {
        for n in 0..most {
            let number = socket.next;
            let place = socket.open_by(600, Some(total / 6), true);
            assert_eq!(place, Place::Reserved, "the {n}th");
            socket.leave(number);
            socket.give();
        }
    };
    shorter(&mut socket, 4 * TURN);
    socket.leave(slow);
    socket.give();
    // The oldest one has its turn, and then the other's.
    assert_eq!(socket.place(slow + 1), Place::Reserved);
    shorter(&mut socket, TURN);
    socket.leave(slow + 1);
    socket.give();
    assert_eq!(socket.place(other), Place::Reserved);
    socket.check();
}

/// Who has stalled has no turn.
#[test]
fn who_has_stalled_has_no_turn() {
    let mut socket = Socket::default();
    socket.budget.resize(4 << 20);
    let total = socket.budget.total();
    let long = total / 2 - OVERHEAD;
    let first = socket.next;
    assert_eq!(socket.open_by(STALLED, Some(long), true), Place::Reserved);
    for _ in 0..3 {
        assert_eq!(socket.open_by(STALLED, Some(long), true), Place::Waiting);
    }
    for _ in 0..2 * TURN {
        let number = socket.next;
        assert_ne!(socket.open_by(1, Some(total / 8), true), Place::Waiting);
        socket.leave(number);
        socket.give();
    }
    // But what nobody else wants is for it, too.
    socket.leave(first);
    socket.give();
    assert_eq!(socket.place(first + 1), Place::Reserved);
}

/// Where little is used short messages find room, whoever they are from.
#[test]
fn an_ample_buffer_has_room() {
    let mut ample = 0;
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut socket = Socket::default();
        socket.budget.resize(1 << (15 + seed % 6));
        let total = socket.budget.total();
        for _ in 0..20 {
            let length = 1 + (rng.next_u64() % u64::from(total / 8)) as u32;
            let is_ample = socket.budget.is_ample(Some(length));
            let place = socket.open_by(rng.next_u64() as u32 % 3, Some(length), true);
            assert!(!is_ample || place == Place::Reserved, "{length} of {total}");
            ample += u32::from(is_ample);
            let at = rng.next_u64() % (socket.messages.len() as u64);
            let number = *socket.messages.keys().nth(at as usize).unwrap();
            if rng.next_u64() % 2 == 0 {
                socket.leave(number);
                socket.give();
            }
        }
        assert!(!socket.budget.is_ample(None));
    }
    assert!(ample > 200, "{ample}");
}

#[test]
fn a_buffer_does_not_grow_for_who_has_proved_nothing() {
    let mut socket = Socket::default();
    socket.budget.grows(128 << 10, 128 << 10, 8 << 20);
    for length in [Some(60_000), Some(500_000), Some(3 << 20), None] {
        socket.open_as(length, false);
        assert_eq!(socket.budget.total(), 64 << 10, "{length:?}");
    }
    assert_eq!(socket.place(1), Place::Waiting);
    // And grows as soon as it has.
    socket.prove(1);
    socket.give();
    assert_eq!(socket.place(1), Place::Reserved);
    assert_eq!(socket.budget.total(), 1 << 20);
}

#[test]
fn short_messages_find_room_while_a_turn_is_due() {
    for total in [16_u32 << 10, 64 << 10, 1 << 20] {
        let mut socket = Socket::default();
        socket.budget.resize(2 * total);
        socket.open(Some(total / 2));
        socket.open(Some(total / 2));
        assert_eq!(socket.place(1), Place::Waiting);
        // Of who has nothing up to a sixteenth, beside what strangers have.
        let long = (total / 19).saturating_sub(OVERHEAD).max(1);
        for len in [500, long].repeat(5000) {
            let number = socket.next;
            let place = socket.open_by(1, Some(len.min(long)), true);
            assert_ne!(place, Place::Waiting, "of {total}");
            socket.check();
            socket.leave(number);
            socket.give();
        }
        // None of them keeps the one that waits from its turn.
        for _ in 0..50 {
            socket.open(Some(500));
        }
        socket.leave(0);
        socket.give();
        assert_eq!(socket.place(1), Place::Reserved, "of {total}");
        socket.check();
    }
}

/// Those who begin as strangers, and prove their addresses then, pass nobody for ever.
#[test]
fn a_turn_comes_in_spite_of_strangers_who_prove_their_addresses() {
    let mut socket = Socket::default();
    socket.budget.resize(512 << 10);
    let total = socket.budget.total();
    // What is not read keeps more than half of the buffer full, and one that needs half waits.
    let mut unread = std::collections::VecDeque::new();
    for _ in 0..12 {
        unread.push_back(socket.next);
        assert_eq!(socket.open(Some(total / 20)), Place::Reserved);
    }
    let waits = socket.next;
    assert_eq!(socket.open(Some(total * 45 / 100)), Place::Waiting);
    let mut passed = 0;
    for _ in 0..200 {
        // One is read, and another one comes from a host without a ticket.
        let number = unread.pop_front().expect("some are not read");
        socket.leave(number);
        socket.give();
        if socket.place(waits) == Place::Reserved {
            break;
        }
        let number = socket.next;
        let place = socket.open_as(Some(total / 20), false);
        socket.prove(number);
        passed += u32::from(place == Place::Reserved);
        unread.push_back(number);
        socket.give();
        socket.check();
    }
    assert_eq!(socket.place(waits), Place::Reserved, "{passed} have passed");
    assert!(passed <= TURN, "{passed} have passed");
}

/// One peer, or several of a network, with as many messages of any length as find room, which end
/// when they like: who has nothing has room for a short one, of the same network and of others.
#[test]
fn nobody_takes_all_of_a_buffer() {
    for (total, peers) in [
        (128_u32 << 10, 1),
        (128 << 10, 60),
        (2 << 20, 1),
        (2 << 20, 60),
    ] {
        for known in [true, false] {
            let mut socket = Socket::default();
            socket.budget.grows(2 * total, 2 * total, 4 * total);
            for round in 0..3 {
                for peer in 0..peers {
                    let mut length = total;
                    while length != 0 {
                        let number = socket.next;
                        let place = socket.open_by(peer, Some(length), known);
                        socket.prove(number);
                        socket.give();
                        socket.check();
                        if place == Place::Waiting {
                            socket.leave(number);
                            length = length * 3 / 4;
                        }
                    }
                }
                let used = socket.budget.used();
                let others: &[u32] = if peers == 1 {
                    &[1, 2, 300]
                } else {
                    &[300, 301]
                };
                for peer in others {
                    let number = socket.next;
                    let place = socket.open_by(*peer, Some(total / 256), true);
                    assert_ne!(
                        place,
                        Place::Waiting,
                        "{peer} beside {peers} of {total}, known {known}, round {round}: {used}"
                    );
                    socket.leave(number);
                }
                // Some end, and all is taken again.
                let some: std::vec::Vec<_> = socket.messages.keys().copied().step_by(3).collect();
                for number in some {
                    socket.leave(number);
                }
                socket.give();
                socket.check();
            }
        }
    }
}

/// Messages that wait do not keep those of others waiting that may have what is spare.
#[test]
fn who_waits_for_too_much_is_in_nobodys_way() {
    let mut socket = Socket::default();
    socket.budget.resize(1 << 20);
    let total = socket.budget.total();
    while socket.open_by(0, Some(total / 20), true) == Place::Reserved {}
    while socket.open_by(0, Some(1), true) != Place::Waiting {}
    // Others take what they may of the rest, and wait.
    let mut others = std::vec::Vec::new();
    for peer in [300, 600, 900] {
        loop {
            let number = socket.next;
            if socket.open_by(peer, Some(2000), true) == Place::Waiting {
                break;
            }
            others.push(number);
        }
    }
    let waits = socket.next - 1;
    for _ in 0..200 {
        assert_eq!(socket.open_by(0, Some(1), true), Place::Waiting);
    }
    for number in others {
        socket.leave(number);
        socket.give();
        socket.check();
    }
    assert_eq!(socket.place(waits), Place::Spare);
}

/// A buffer that has grown becomes smaller when little is in it.
#[test]
fn a_buffer_shrinks_when_little_is_in_it() {
    let mut socket = Socket::default();
    socket.budget.grows(128 << 10, 128 << 10, 16 << 20);
    assert_eq!(socket.open(Some(3 << 20)), Place::Reserved);
    assert_eq!(socket.open(Some(20_000)), Place::Reserved);
    let grown = socket.budget.total();
    assert!(grown >= 4 << 20, "{grown}");
    socket.leave(0);
    assert_eq!(socket.budget.total(), 256 << 10);
    socket.leave(1);
    assert_eq!(socket.budget.total(), 64 << 10);
}

/// A buffer does not grow for who has stalled, and he keeps nobody else waiting.
#[test]
fn who_has_stalled_makes_no_buffer_grow() {
    let mut socket = Socket::default();
    socket.budget.grows(128 << 10, 128 << 10, 16 << 20);
    assert_eq!(socket.open_by(1, Some(40_000), true), Place::Reserved);
    let grown = socket.budget.total();
    assert_eq!(socket.open_by(STALLED, Some(100_000), true), Place::Waiting);
    socket.give();
    assert_eq!(socket.place(1), Place::Shared);
    assert_eq!(socket.budget.total(), grown);
    assert_eq!(socket.open_by(1, Some(500_000), true), Place::Reserved);
    socket.leave(2);
    socket.leave(0);
    socket.give();
    assert_eq!(socket.place(1), Place::Exclusive);
    assert_eq!(socket.budget.total(), 64 << 10);
}
