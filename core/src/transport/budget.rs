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
//! [*share*](Place::Shared) an eighth, so that their first bytes are under way. While messages wait
//! for this half, those that came later and are reserved have a quarter.
//!
//! Short messages always find room, unless nobody reads: each must leave four times as much free as
//! it takes, or an eighth of the buffer (`spare`). What waits is given room in the order of its
//! length, the shortest first, and now and then the one that has waited longest: after `TURN`
//! others nothing that came later takes the room that it waits for ([`Budget::next`]), but what
//! finds room in the [eighth](Place::Spare) that it leaves to others. Room becomes free when whole
//! messages are read, when the exclusive one ends, and when one that makes no progress is given up,
//! so that nothing waits for ever.
//!
//! Anybody can begin a message in another's name. So as long as its sender has not *proved* its
//! address a message has room in an eighth of the buffer's first size, which no other message has:
//! it takes nothing of others'. One that finds none there is asked for the proof at once, which
//! takes a round trip, and is in no queue before ([`Budget::prove`]).
//!
//! A buffer that the application has not set grows on demand, to twice its size each time, as far
//! as it is allowed to, and has its first size again when nothing is in it.

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
    /// The same, of the eighth that others have when one's turn is due.
    Spare,
    /// Part of the shared eighth, perhaps nothing: it waits to be exclusive.
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
    /// This one of those that are [`Place::Waiting`], and its place; see [`Budget::reserve`].
    Reserve(Waiter, Place),
    /// This one of them is longer than half of what the buffer may be by now: it shares from now
    /// on, with a window of 0; see [`Budget::stream`].
    Stream(Waiter),
    /// The first of those that share; see [`Budget::promote`].
    Promote,
}

/// So many messages may be given room while the one that has waited longest is not.
const TURN: u32 = 64;
/// A message leaves so many times as much free as it takes,
const SPARE: u32 = 4;
/// or this part of the buffer.
const SPARE_PART: u32 = 8;
/// Those that share have this part of the buffer together,
const SHARED_PART: u32 = 8;
/// and each no more than this one.
const WINDOW_PART: u32 = 32;
/// What those have together whose senders have not proved their addresses: this part of the first
/// size.
const STRANGE_PART: u32 = 8;

/// A socket's receive buffer.
#[derive(Debug)]
pub struct Budget {
    total: u32,
    /// Its size while nothing is in it, and how far it may grow.
    first: u32,
    most: u32,
    reserved: u32,
    spared: u32,
    shared: u32,
    /// What those have, reserved or shared, whose senders have not proved their addresses.
    strange: u32,
    /// The number of the exclusive message, and what it is charged.
    exclusive: Option<(u64, u32)>,
    /// How many share and have proved their addresses.
    sharing: u32,
    /// How many of these wait for a reservation.
    waiting: u32,
    /// How many were given room since the one that has waited longest was the first to wait.
    passed: u32,
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

/// What is to be left free of a size by one that is charged so much.
fn spare(charge: u32, of: u32) -> u32 {
    charge.saturating_mul(SPARE).min(of / SPARE_PART)
}

/// In the kernel's way of counting half of a buffer is for bytes of messages.
const fn half_of(buffer: u32) -> u32 {
    if buffer / 2 < LEAST {
        LEAST
    } else {
        buffer / 2
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
            first: LEAST,
            most: LEAST,
            reserved: 0,
            spared: 0,
            shared: 0,
            strange: 0,
            exclusive: None,
            sharing: 0,
            waiting: 0,
            passed: 0,
        }
    }

    /// The buffer is that large, and stays so. Sizes are the kernel's: half of them is for bytes of
    /// messages. What is in it stays, even if that is more.
    pub fn resize(&mut self, receive_buffer: u32) {
        self.grows(receive_buffer, receive_buffer, receive_buffer);
    }

    /// The buffer is that large; `first` when it is empty, and `most` if it has to be, each in the
    /// kernel's way of counting.
    pub fn grows(&mut self, receive_buffer: u32, first: u32, most: u32) {
        self.total = half_of(receive_buffer);
        self.first = half_of(first).min(self.total);
        self.most = half_of(most).max(self.total);
        self.shrink();
    }

    /// With nothing in it it is as large as at first, whatever strangers have.
    fn shrink(&mut self) {
        if self.known() == 0 && !self.is_wanted() {
            self.total = self.first;
        }
    }

    /// Bytes that all messages together may be charged.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Bytes that they are charged.
    pub fn used(&self) -> u32 {
        self.known().saturating_add(self.strange)
    }

    /// Those of senders that have proved their addresses.
    fn known(&self) -> u32 {
        let exclusive = self.exclusive.map_or(0, |(_, charge)| charge);
        self.reserved
            .saturating_add(self.spared)
            .saturating_add(self.shared)
            .saturating_add(exclusive)
    }

    fn half(&self) -> u32 {
        self.total / 2
    }

    /// What strangers may have.
    fn for_strangers(&self) -> u32 {
        self.first / STRANGE_PART
    }

    /// What others may have in a buffer of that size.
    fn for_known(&self, total: u32) -> u32 {
        total.saturating_sub(self.for_strangers())
    }

    /// Whether so much more finds room beside what there is of those who are known.
    fn fits(&self, more: u32) -> bool {
        self.known().saturating_add(more) <= self.for_known(self.total)
    }

    /// Whether so much more could be reserved in a buffer of that size; `crowded`: while an older
    /// one waits for half of it. What others have of the spare eighth keeps nobody out.
    fn has_room(&self, total: u32, charge: u32, crowded: bool) -> bool {
        let all = self.for_known(total);
        let limit = if crowded { total / 4 } else { all };
        let most = |used: u32, of: u32| {
            let more = charge.saturating_add(spare(charge, of));
            used.saturating_add(more) <= of
        };
        let known = self.known();
        most(self.reserved, limit)
            && most(known.saturating_sub(self.spared), all)
            && known.saturating_add(charge) <= all
    }

    /// Makes room for a reservation, and has the buffer grow for it if it may.
    fn make_room(&mut self, charge: u32, crowded: bool) -> bool {
        let mut total = self.total;
        while !self.has_room(total, charge, crowded) {
            if total >= self.most {
                return false;
            }
            total = total.saturating_mul(2).min(self.most);
        }
        self.total = total;
        true
    }

    /// Whether a stranger's message finds room.
    fn is_free_for_strangers(&self, charge: u32) -> bool {
        self.strange.saturating_add(charge) <= self.for_strangers()
            && self.used().saturating_add(charge) <= self.total
    }

    /// Whether a message finds room in the eighth that is left when another one's turn is due.
    fn has_spare(&self, charge: u32) -> bool {
        let part = self.for_known(self.total) / SPARE_PART;
        let more = charge.saturating_add(spare(charge, part));
        self.spared.saturating_add(more) <= part && self.fits(charge)
    }

    /// Whether a message of that length streams.
    fn streams(&self, length: u32) -> bool {
        length > self.most / 2
    }

    /// Whether others wait for room.
    pub fn is_wanted(&self) -> bool {
        self.waiting != 0 || self.sharing != 0
    }

    /// Whether the one that has waited longest is to have room before others. Not while it has to
    /// wait for the end of one that streams, which may never come.
    fn is_turn_due(&self, oldest: Option<Waiter>) -> bool {
        let Some(charge) = oldest.map(|oldest| charge(oldest.bytes)) else {
            return false;
        };
        let all = self.for_known(self.total);
        let beside = self.exclusive.map_or(0, |(_, charge)| charge);
        let needed = beside.saturating_add(charge);
        self.passed >= TURN && needed.saturating_add(spare(charge, all)) <= all
    }

    /// A message begins. Returns its place, and how much of it may come. `oldest`: of those that
    /// wait for a reservation the one that has waited longest. `proved`: so is its sender's
    /// address; if not, it is in no queue until [`Budget::prove`].
    pub fn admit(
        &mut self,
        number: u64,
        length: Option<u32>,
        oldest: Option<Waiter>,
        proved: bool,
    ) -> (Place, u32) {
        if !proved {
            return self.admit_stranger(length);
        }
        if let Some(length) = length.filter(|&length| !self.streams(length)) {
            let charge = charge(length);
            let due = self.is_turn_due(oldest);
            let place = if !due && self.make_room(charge, self.sharing != 0) {
                Place::Reserved
            } else if due && self.has_spare(charge) {
                Place::Spare
            } else {
                self.queue();
                return (Place::Waiting, 0);
            };
            self.take(place, charge);
            return (place, length);
        }
        if !self.is_wanted() && self.exclusive.is_none() && self.fits(self.half()) {
            let half = self.half();
            self.exclusive = Some((number, half));
            return (Place::Exclusive, self.ahead());
        }
        // What is left of the shared part and of the buffer, and nothing that others wait for.
        let left = (self.total / SHARED_PART).saturating_sub(self.shared);
        let left = left.min(self.for_known(self.total).saturating_sub(self.known()));
        let window = if self.waiting == 0 {
            self.window(left)
        } else {
            0
        };
        self.shared = self.shared.saturating_add(share(window));
        self.sharing = self.sharing.saturating_add(1);
        (Place::Shared, window)
    }

    fn admit_stranger(&mut self, length: Option<u32>) -> (Place, u32) {
        if let Some(length) = length.filter(|&length| !self.streams(length)) {
            if !self.is_free_for_strangers(charge(length)) {
                return (Place::Waiting, 0);
            }
            self.strange = self.strange.saturating_add(charge(length));
            return (Place::Reserved, length);
        }
        // Half of what is left, so that the next one has something.
        let left = self.for_strangers().saturating_sub(self.strange) / 2;
        let left = left.min(self.total.saturating_sub(self.used()));
        let window = self.window(left);
        self.strange = self.strange.saturating_add(share(window));
        (Place::Shared, window)
    }

    /// What one that shares may have, of so much.
    fn window(&self, left: u32) -> u32 {
        (self.total / WINDOW_PART).min(left.saturating_sub(OVERHEAD))
    }

    /// Another one waits for a reservation.
    fn queue(&mut self) {
        if self.waiting == 0 {
            self.passed = 0;
        }
        self.waiting = self.waiting.saturating_add(1);
    }

    fn take(&mut self, place: Place, charge: u32) {
        let of = match place {
            Place::Spare => &mut self.spared,
            _ => &mut self.reserved,
        };
        *of = of.saturating_add(charge);
        if self.waiting != 0 {
            self.passed = self.passed.saturating_add(1);
        }
    }

    /// The sender of a message has proved its address. `bytes`: as in [`Budget::leave`]. What it
    /// has is others' no more to take, and one that waits or shares is in the queue from now on.
    pub fn prove(&mut self, place: Place, bytes: u32) {
        let charged = self.charged(place, bytes);
        self.strange = self.strange.saturating_sub(charged);
        match place {
            Place::Waiting => self.queue(),
            Place::Shared => {
                self.shared = self.shared.saturating_add(charged);
                self.sharing = self.sharing.saturating_add(1);
            }
            _ => self.reserved = self.reserved.saturating_add(charged),
        }
    }

    /// Who is given room next: of those that wait for a reservation the shortest, or the one that
    /// has waited longest, or the first of those that share. All of them have proved their
    /// addresses.
    pub fn next(
        &mut self,
        shortest: Option<Waiter>,
        oldest: Option<Waiter>,
        sharing: Option<Waiter>,
    ) -> Next {
        // The buffer may be smaller than when they came.
        if let Some(oldest) = oldest.filter(|oldest| self.streams(oldest.bytes)) {
            return Next::Stream(oldest);
        }
        let waits_longer = match (oldest, sharing) {
            (Some(oldest), Some(sharing)) => oldest.number < sharing.number,
            (oldest, _) => oldest.is_some(),
        };
        let due = self.is_turn_due(oldest);
        let chosen = shortest.filter(|_| !due).or(oldest);
        if let Some(chosen) = chosen {
            // While an older one waits for half of the buffer, others stay in their quarter.
            if self.make_room(charge(chosen.bytes), !waits_longer) {
                return Next::Reserve(chosen, Place::Reserved);
            }
        }
        if let Some(short) = shortest.filter(|it| due && self.has_spare(charge(it.bytes))) {
            return Next::Reserve(short, Place::Spare);
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

    /// A message that waited is given all of its length; `oldest`: it has waited longest.
    pub fn reserve(&mut self, length: u32, place: Place, oldest: bool) {
        self.waiting = self.waiting.saturating_sub(1);
        self.take(place, charge(length));
        if oldest {
            self.passed = 0;
        }
    }

    /// The message that has waited longest streams: it shares, with a window of 0.
    pub fn stream(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        self.sharing = self.sharing.saturating_add(1);
        self.passed = 0;
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
    /// is a reservation from now on. `held`: so much memory, which may be more than its length
    /// stands for, if it came in small pieces. Returns for how many bytes it is charged.
    pub fn settle(&mut self, window: u32, length: u32, held: u32) -> u32 {
        self.leave_shared(window);
        let bytes = held.saturating_sub(held / 2).saturating_sub(OVERHEAD);
        let bytes = bytes.max(length).min(window);
        self.reserved = self.reserved.saturating_add(charge(bytes));
        bytes
    }

    /// A message is read or gone. `bytes`: of one that is reserved what it is charged for, of one
    /// that shares its window.
    pub fn leave(&mut self, place: Place, bytes: u32, proved: bool) {
        let charged = self.charged(place, bytes);
        match place {
            _ if !proved => self.strange = self.strange.saturating_sub(charged),
            Place::Waiting => self.waiting = self.waiting.saturating_sub(1),
            Place::Reserved => self.reserved = self.reserved.saturating_sub(charged),
            Place::Spare => self.spared = self.spared.saturating_sub(charged),
            Place::Shared => self.leave_shared(bytes),
            Place::Exclusive => self.exclusive = None,
        }
        self.shrink();
    }

    /// What a message is charged; `bytes`: as in [`Budget::leave`].
    fn charged(&self, place: Place, bytes: u32) -> u32 {
        match place {
            Place::Waiting => 0,
            Place::Reserved | Place::Spare => charge(bytes),
            Place::Shared => share(bytes),
            Place::Exclusive => self.exclusive.map_or(0, |(_, charge)| charge),
        }
    }

    /// Bytes of memory that a message may take: twice what it is charged, as [`Budget::resize`]
    /// reckons. So together they never take more than the buffer, and what was given room finds
    /// memory, whatever pieces others come in.
    pub fn memory(&self, place: Place, window: u32) -> u32 {
        self.charged(place, window).saturating_mul(2)
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
        messages: BTreeMap<u64, Message>,
    }

    #[derive(Clone, Copy)]
    struct Message {
        place: Place,
        length: Option<u32>,
        /// The window, or what it is charged for.
        bytes: u32,
        /// Memory that it takes.
        held: u32,
        proved: bool,
        complete: bool,
    }

    impl Socket {
        fn waiters(&self, place: Place) -> impl Iterator<Item = Waiter> + '_ {
            let waits = move |of: &Message| of.place == place && of.proved;
            let waiters = self.messages.iter().filter(move |(_, of)| waits(of));
            waiters.map(|(&number, of)| {
                let length = of.length.filter(|_| of.place == Place::Waiting);
                let bytes = length.unwrap_or(of.bytes);
                Waiter { number, bytes }
            })
        }

        fn open(&mut self, length: Option<u32>) -> Place {
            self.open_as(length, true)
        }

        fn open_as(&mut self, length: Option<u32>, proved: bool) -> Place {
            let number = self.next;
            self.next += 1;
            let oldest = self.waiters(Place::Waiting).next();
            let (place, bytes) = self.budget.admit(number, length, oldest, proved);
            let message = Message {
                place,
                length,
                bytes,
                held: 0,
                proved,
                complete: false,
            };
            self.messages.insert(number, message);
            place
        }

        fn prove(&mut self, number: u64) {
            let of = self.messages.get_mut(&number).unwrap();
            if !core::mem::replace(&mut of.proved, true) {
                self.budget.prove(of.place, of.bytes);
            }
        }

        fn give(&mut self) {
            loop {
                let shortest = self.waiters(Place::Waiting).min_by_key(|it| it.bytes);
                let oldest = self.waiters(Place::Waiting).next();
                let sharing = self.waiters(Place::Shared).next();
                match self.budget.next(shortest, oldest, sharing) {
                    Next::None => return,
                    Next::Reserve(it, place) => {
                        let is_oldest = oldest.is_some_and(|oldest| oldest == it);
                        self.budget.reserve(it.bytes, place, is_oldest);
                        let of = self.messages.get_mut(&it.number).unwrap();
                        (of.place, of.bytes) = (place, it.bytes);
                    }
                    Next::Stream(it) => {
                        self.budget.stream();
                        let of = self.messages.get_mut(&it.number).unwrap();
                        (of.place, of.bytes) = (Place::Shared, 0);
                    }
                    Next::Promote => {
                        let first = sharing.unwrap();
                        let ahead = self.budget.promote(first.number, first.bytes);
                        let of = self.messages.get_mut(&first.number).unwrap();
                        (of.place, of.bytes) = (Place::Exclusive, ahead);
                    }
                }
            }
        }

        /// All that has room, is proved and can be complete is so. It takes some of the memory that
        /// it may take.
        fn complete(&mut self, rng: &mut Rng) {
            for of in self.messages.values_mut() {
                if of.complete || !of.proved {
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
                        of.bytes = self.budget.settle(of.bytes, length, of.held);
                        (of.place, of.length) = (Place::Reserved, Some(length));
                        of.complete = true;
                    }
                    _ => {}
                }
            }
        }

        fn leave(&mut self, number: u64) {
            let of = self.messages.remove(&number).unwrap();
            self.budget.leave(of.place, of.bytes, of.proved);
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
            let strange = all().filter(|of| !of.1.proved).map(|of| charged(of.1));
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
                match rng.next_u64() % 11 {
                    0..=3 => {
                        let length = (rng.next_u64() % 4 != 0).then(|| {
                            let most = 1 << (rng.next_u64() % (2 + u64::from(total.ilog2())));
                            1 + (rng.next_u64() % most) as u32
                        });
                        socket.open_as(length, rng.next_u64() % 2 == 0);
                    }
                    4 => socket.complete(&mut rng),
                    5 | 6 => {
                        let at = rng.next_u64() % (socket.messages.len().max(1) as u64);
                        if let Some(number) = socket.messages.keys().nth(at as usize).copied() {
                            socket.prove(number);
                            socket.give();
                        }
                    }
                    7 if seed % 2 == 0 => {
                        // As others take of what all may have, or the application sets it.
                        let first = socket.budget.first * 2;
                        let now = socket.budget.total() * 2;
                        let most = first << (rng.next_u64() % 5);
                        socket.budget.grows(now, first, most);
                        socket.give();
                    }
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
            // Whoever reads what is there gets everything that is proved; strangers' go by time.
            let strangers = socket.messages.iter().filter(|of| !of.1.proved);
            for number in strangers.map(|of| *of.0).collect::<std::vec::Vec<_>>() {
                socket.leave(number);
            }
            let mut rounds = 0;
            while !socket.messages.is_empty() {
                socket.give();
                socket.complete(&mut rng);
                let before = socket.messages.len();
                let done: std::vec::Vec<_> = socket
                    .messages
                    .iter()
                    .filter(|of| of.1.complete)
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
            assert_eq!(socket.budget.strange, 0, "seed {seed}");
        }
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
        assert_eq!(socket.open(Some(100)), Place::Reserved);
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
        for _ in 0..5 {
            assert_eq!(socket.open(Some(1000)), Place::Reserved);
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
        assert_eq!(socket.budget.total(), 512 << 10);
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
            // Up to an eighth, beside what strangers have.
            let long = (total / 11).saturating_sub(OVERHEAD).max(500);
            for len in [500, long].repeat(5000) {
                let number = socket.next;
                let place = socket.open(Some(len));
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
}
