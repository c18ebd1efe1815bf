// SPDX-License-Identifier: GPL-2.0
//! How a socket's receive buffer is shared by the messages that come in.
//!
//! A message is *charged* for the bytes that it may hold, and [`OVERHEAD`] beside them, from when
//! it is given room until it was read. All charges together never exceed the buffer, whatever
//! comes and whether or not anybody reads: what does not fit waits at its sender, with a window of
//! 0, which costs no room here.
//!
//! A message that takes no more than half of the buffer is given room for all of its length, so
//! that it can be complete without anybody reading: it is [*reserved*](Place::Reserved). Others
//! *stream*: the first of them has half of the buffer for itself, the
//! [*exclusive*](Place::Exclusive) one, and is handed out while it comes; those behind it
//! [*share*](Place::Shared) a quarter, so that their first bytes are under way. While messages
//! stream, reservations have a quarter.
//!
//! What waits is given room in the order in which it came ([`Budget::next`]): nothing that came
//! later takes the room that the oldest one waits for. Room becomes free when whole messages are
//! read, when the exclusive one ends, and when one that makes no progress is given up, so that
//! nothing waits for ever.

/// Bytes that are counted for each message beside its own.
pub const OVERHEAD: u32 = 1024;
/// A buffer is never taken to be smaller, bytes.
pub const LEAST: u32 = 16 << 10;

/// What room a message has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// None: it waits, and its length is known and small enough to be reserved.
    Waiting,
    /// All of its length is reserved.
    Reserved,
    /// Part of the shared quarter, perhaps nothing: it waits to be exclusive.
    Shared,
    /// Half of the buffer.
    Exclusive,
}

/// A message that waits, as [`Budget::next`] wants to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its number; smaller ones came earlier.
    pub number: u64,
    /// Bytes: of one that is [`Place::Waiting`] its length, of one that shares its window.
    pub bytes: u32,
}

/// Who is given room next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nobody.
    None,
    /// The first of those that are [`Place::Waiting`]; see [`Budget::reserve`].
    Reserve,
    /// The first of those that share; see [`Budget::promote`].
    Promote,
}

/// A socket's receive buffer.
#[derive(Debug)]
pub struct Budget {
    total: u32,
    reserved: u32,
    shared: u32,
    /// The number of the exclusive message, and what it is charged.
    exclusive: Option<(u64, u32)>,
    /// How many share.
    sharing: u32,
    /// How many wait for a reservation.
    waiting: u32,
}

const fn charge(bytes: u32) -> u32 {
    bytes.saturating_add(OVERHEAD)
}

/// What a window of the shared part costs. Without a window nothing can come, and nothing is held.
const fn share(window: u32) -> u32 {
    if window == 0 {
        0
    } else {
        charge(window)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget {
    /// Of the least size, with nothing in it.
    pub const fn new() -> Self {
        Self {
            total: LEAST,
            reserved: 0,
            shared: 0,
            exclusive: None,
            sharing: 0,
            waiting: 0,
        }
    }

    /// The buffer is that large, in the kernel's way of counting: half of it is for bytes of
    /// messages. What is in it stays, even if that is more.
    pub fn resize(&mut self, receive_buffer: u32) {
        self.total = (receive_buffer / 2).max(LEAST);
    }

    /// Bytes that all messages together may be charged.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Bytes that they are charged.
    pub fn used(&self) -> u32 {
        let exclusive = self.exclusive.map_or(0, |(_, charge)| charge);
        self.reserved
            .saturating_add(self.shared)
            .saturating_add(exclusive)
    }

    fn half(&self) -> u32 {
        self.total / 2
    }

    fn quarter(&self) -> u32 {
        self.total / 4
    }

    fn fits(&self, more: u32) -> bool {
        self.used().saturating_add(more) <= self.total
    }

    /// Whether a message of that length streams.
    fn streams(&self, length: Option<u32>) -> bool {
        length.is_none_or(|length| length > self.half())
    }

    /// Whether others wait for room.
    pub fn is_wanted(&self) -> bool {
        self.waiting != 0 || self.sharing != 0
    }

    /// A message begins. Returns its place, and how much of it may come.
    pub fn admit(&mut self, number: u64, length: Option<u32>) -> (Place, u32) {
        if let Some(length) = length.filter(|_| !self.streams(length)) {
            let charge = charge(length);
            let streams = self.exclusive.is_some() || self.sharing != 0;
            let crowded = streams && self.reserved.saturating_add(charge) > self.quarter();
            if self.waiting == 0 && !crowded && self.fits(charge) {
                self.reserved = self.reserved.saturating_add(charge);
                return (Place::Reserved, length);
            }
            self.waiting = self.waiting.saturating_add(1);
            return (Place::Waiting, 0);
        }
        if !self.is_wanted() && self.exclusive.is_none() && self.fits(self.half()) {
            let half = self.half();
            self.exclusive = Some((number, half));
            return (Place::Exclusive, self.ahead());
        }
        // What is left of the shared quarter and of the buffer, and nothing that others wait for.
        let left = self.quarter().saturating_sub(self.shared);
        let left = left.min(self.total.saturating_sub(self.used()));
        let mut window = (self.total / 16).min(left.saturating_sub(OVERHEAD));
        if self.waiting != 0 {
            window = 0;
        }
        self.shared = self.shared.saturating_add(share(window));
        self.sharing = self.sharing.saturating_add(1);
        (Place::Shared, window)
    }

    /// Who is given room next: the first of those that wait for a reservation, or the first of
    /// those that share.
    pub fn next(&self, waiting: Option<Waiter>, sharing: Option<Waiter>) -> Next {
        let waits_longer = match (waiting, sharing) {
            (Some(waiting), Some(sharing)) => waiting.number < sharing.number,
            (waiting, _) => waiting.is_some(),
        };
        if let Some(first) = waiting {
            let charge = charge(first.bytes);
            // While an older one waits for half of the buffer, others stay in their quarter.
            let limit = if waits_longer {
                self.total
            } else {
                self.quarter()
            };
            if self.reserved.saturating_add(charge) <= limit && self.fits(charge) {
                return Next::Reserve;
            }
        }
        match sharing {
            Some(first) if !waits_longer && self.exclusive.is_none() => {
                let more = self.half().saturating_sub(share(first.bytes));
                if self.fits(more) {
                    Next::Promote
                } else {
                    Next::None
                }
            }
            _ => Next::None,
        }
    }

    /// A message that waited is given all of its length.
    pub fn reserve(&mut self, length: u32) {
        self.waiting = self.waiting.saturating_sub(1);
        self.reserved = self.reserved.saturating_add(charge(length));
    }

    /// A message that had `window` of the shared part is exclusive. Returns how far ahead of what
    /// was read it may be, bytes.
    pub fn promote(&mut self, number: u64, window: u32) -> u32 {
        self.leave_shared(window);
        self.exclusive = Some((number, self.half()));
        self.ahead()
    }

    /// How far ahead of what was read the exclusive message may be, bytes.
    pub fn ahead(&self) -> u32 {
        let charge = self.exclusive.map_or(self.half(), |(_, charge)| charge);
        charge.saturating_sub(OVERHEAD)
    }

    fn leave_shared(&mut self, window: u32) {
        self.shared = self.shared.saturating_sub(share(window));
        self.sharing = self.sharing.saturating_sub(1);
    }

    /// A message that had `window` of the shared part is complete: what it takes, which is no more,
    /// is a reservation from now on.
    pub fn settle(&mut self, window: u32, length: u32) {
        self.leave_shared(window);
        self.reserved = self.reserved.saturating_add(charge(length.min(window)));
    }

    /// A message is read or gone. `bytes`: of one that is reserved its length, of one that shares
    /// its window.
    pub fn leave(&mut self, place: Place, bytes: u32) {
        match place {
            Place::Waiting => self.waiting = self.waiting.saturating_sub(1),
            Place::Reserved => self.reserved = self.reserved.saturating_sub(charge(bytes)),
            Place::Shared => self.leave_shared(bytes),
            Place::Exclusive => self.exclusive = None,
        }
    }

    /// The message that has half of the buffer.
    pub fn exclusive(&self) -> Option<u64> {
        self.exclusive.map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::transport::jitter::Rng;
    use std::collections::BTreeMap;

    /// A socket with messages, as the kernel module keeps them.
    #[derive(Default)]
    struct Socket {
        budget: Budget,
        next: u64,
        /// Place, length, window or length charged, whether it is complete.
        messages: BTreeMap<u64, (Place, Option<u32>, u32, bool)>,
    }

    impl Socket {
        fn first(&self, place: Place) -> Option<Waiter> {
            let (number, of) = self.messages.iter().find(|(_, of)| of.0 == place)?;
            let bytes = match place {
                Place::Waiting => of.1?,
                _ => of.2,
            };
            Some(Waiter {
                number: *number,
                bytes,
            })
        }

        fn open(&mut self, length: Option<u32>) -> Place {
            let number = self.next;
            self.next += 1;
            let (place, window) = self.budget.admit(number, length);
            self.messages.insert(number, (place, length, window, false));
            place
        }

        fn give(&mut self) {
            loop {
                let (waiting, sharing) = (self.first(Place::Waiting), self.first(Place::Shared));
                match self.budget.next(waiting, sharing) {
                    Next::None => return,
                    Next::Reserve => {
                        let first = waiting.unwrap();
                        self.budget.reserve(first.bytes);
                        let of = self.messages.get_mut(&first.number).unwrap();
                        (of.0, of.2) = (Place::Reserved, first.bytes);
                    }
                    Next::Promote => {
                        let first = sharing.unwrap();
                        let ahead = self.budget.promote(first.number, first.bytes);
                        let of = self.messages.get_mut(&first.number).unwrap();
                        (of.0, of.2) = (Place::Exclusive, ahead);
                    }
                }
            }
        }

        /// All that has room and can be complete is so.
        fn complete(&mut self, rng: &mut Rng) {
            for of in self.messages.values_mut().filter(|of| !of.3) {
                match of.0 {
                    Place::Reserved | Place::Exclusive => of.3 = true,
                    Place::Shared if of.1.is_none() && of.2 != 0 && rng.next_u64() % 2 == 0 => {
                        let length = 1 + (rng.next_u64() % u64::from(of.2)) as u32;
                        self.budget.settle(of.2, length);
                        *of = (Place::Reserved, Some(length), length, true);
                    }
                    _ => {}
                }
            }
        }

        fn leave(&mut self, number: u64) {
            let of = self.messages.remove(&number).unwrap();
            self.budget.leave(of.0, of.2);
        }

        fn check(&self) {
            let exclusive = self
                .messages
                .iter()
                .filter(|of| of.1 .0 == Place::Exclusive);
            assert!(exclusive.clone().count() <= 1);
            assert_eq!(
                exclusive.map(|of| *of.0).next(),
                self.budget.exclusive(),
                "who is exclusive"
            );
            let held: u64 = self
                .messages
                .values()
                .map(|of| match of.0 {
                    Place::Waiting => 0,
                    Place::Shared if of.2 == 0 => 0,
                    _ => u64::from(of.2) + u64::from(OVERHEAD),
                })
                .sum();
            assert!(
                held <= u64::from(self.budget.used()),
                "{held} bytes may be held, and {} are charged",
                self.budget.used()
            );
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
        let whole = socket.messages.values().filter(|of| of.3).count();
        assert_eq!(whole, (64 << 10) / (4000 + 1024));
        // And all comes when it is read.
        let mut read = 0;
        while let Some((number, _)) = socket.messages.iter().find(|of| of.1 .3) {
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
                match rng.next_u64() % 8 {
                    0..=3 => {
                        let length = (rng.next_u64() % 4 != 0).then(|| {
                            let most = 1 << (rng.next_u64() % (2 + u64::from(total.ilog2())));
                            1 + (rng.next_u64() % most) as u32
                        });
                        socket.open(length);
                    }
                    4 => socket.complete(&mut rng),
                    _ => {
                        // One is read, or fails.
                        let at = rng.next_u64() % (socket.messages.len().max(1) as u64);
                        if let Some(number) = socket.messages.keys().nth(at as usize).copied() {
                            socket.leave(number);
                            socket.give();
                        }
                    }
                }
                socket.check();
            }
            // Whoever reads what is there gets everything.
            let mut rounds = 0;
            while !socket.messages.is_empty() {
                socket.give();
                socket.complete(&mut rng);
                let before = socket.messages.len();
                let done: std::vec::Vec<_> = socket
                    .messages
                    .iter()
                    .filter(|of| of.1 .3)
                    .map(|of| *of.0)
                    .collect();
                for number in done {
                    socket.leave(number);
                }
                socket.give();
                rounds += 1;
                assert!(
                    socket.messages.len() < before,
                    "seed {seed}, round {rounds}: {before} messages wait for ever"
                );
            }
            assert_eq!(socket.budget.used(), 0, "seed {seed}");
        }
    }

    #[test]
    fn the_oldest_that_waits_is_next() {
        let mut socket = Socket::default();
        socket.budget.resize(128 << 10);
        assert_eq!(socket.open(Some(30_000)), Place::Reserved);
        assert_eq!(socket.open(Some(30_000)), Place::Reserved);
        assert_eq!(socket.open(Some(30_000)), Place::Waiting);
        // It would fit, and would take the room of the one before it.
        assert_eq!(socket.open(Some(100)), Place::Waiting);
        assert_eq!(socket.open(None), Place::Shared);
        socket.leave(0);
        socket.give();
        let place = |number: u64, socket: &Socket| socket.messages[&number].0;
        assert_eq!(place(2, &socket), Place::Reserved);
        assert_eq!(place(3, &socket), Place::Reserved);
        assert_eq!(place(4, &socket), Place::Shared);
        socket.leave(1);
        socket.give();
        assert_eq!(place(4, &socket), Place::Exclusive);
        socket.leave(2);
        // A quarter is left for those that are reserved.
        assert_eq!(socket.open(Some(10_000)), Place::Reserved);
        assert_eq!(socket.open(Some(10_000)), Place::Waiting);
    }

    #[test]
    fn a_buffer_that_shrinks_takes_nothing_until_enough_was_read() {
        let mut socket = Socket::default();
        socket.budget.resize(1 << 20);
        for _ in 0..10 {
            assert_eq!(socket.open(Some(40_000)), Place::Reserved);
        }
        socket.budget.resize(64 << 10);
        assert_eq!(socket.open(Some(100)), Place::Waiting);
        assert_eq!(socket.open(None), Place::Shared);
        assert_eq!(socket.messages[&11].2, 0);
        for number in 0..10 {
            assert_eq!(socket.messages[&10].0, Place::Waiting, "{number} were read");
            socket.leave(number);
            socket.give();
        }
        assert_eq!(socket.messages[&10].0, Place::Reserved);
    }
}
