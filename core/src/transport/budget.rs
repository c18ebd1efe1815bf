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
//! for this half, those that came later and are reserved have a quarter, the next part included.
//!
//! An eighth is [*spare*](Place::Spare): it is for short messages when all else is taken, by whole
//! messages that nobody reads or by others that hardly go on, or kept for one whose turn it is.
//! Whoever has much cannot take this, too: half of it is anybody's; of the rest a peer may have as
//! much as it leaves, less all that it has elsewhere in the buffer, and a network four times as
//! much as it leaves ([`Has`], [`left`]). So who has nothing finds room for a short message beside
//! any number of one peer's, or of one network's.
//!
//! What waits is given room in the order of its length, the shortest first, those before that may
//! have a part of what is spare; and now and then another one has its turn: after `TURN` others
//! nothing that came later takes the room that it waits for ([`Budget::next`]) but what is spare.
//! Peers have turns one after the other, each with the one of its messages that has waited longest
//! ([`Rounds`]), and those that have stalled have none before others. If what the peer itself has
//! is in the way, those that have much less need not wait. Messages become exclusive in the same
//! order. Room becomes free when whole messages are read, when the exclusive one ends, and when one
//! that makes no progress is given up, so that nothing waits for ever.
//!
//! Anybody can begin a message in another's name. So as long as its sender has not *proved* its
//! address a message has room in an eighth of the buffer's first size, which no other message has:
//! it takes nothing of others'. One that finds none there is asked for the proof at once, which
//! takes a round trip, and is in no queue before ([`Budget::prove`]). One that has room there and
//! proves the address keeps it until there is room elsewhere for it: to begin as a stranger gains
//! nothing.
//!
//! A buffer that the application has not set grows on demand, to twice its size each time, as far
//! as it is allowed to, and has its first size again when nothing is in it.

pub use self::place::{Class, Has, Next, Place, Standing, Waiter};
pub use self::rounds::{Rounds, Turns};

use super::room::left;

mod place;
mod rounds;

/// Bytes that are counted for each message beside its own.
pub const OVERHEAD: u32 = 1024;
/// A buffer is never taken to be smaller, bytes.
pub const LEAST: u32 = 16 << 10;

/// So many messages may be given room while the one whose turn is next is not.
const TURN: u32 = 64;
/// This part of what those may have who have proved their addresses is spare,
const SPARE_PART: u32 = 8;
/// and this part of it is anybody's,
const OPEN_PART: u32 = 2;
/// or all of it, if it is smaller than that.
const LEAST_SHARED: u32 = 4 << 10;
/// There a message leaves so many times as much free as it takes,
const SPARE: u32 = 4;
/// or this part.
const LEAST_SPARE: u32 = 8;
/// A buffer that has grown is smaller again when no more than this part of it is used.
const MUCH: u32 = 16;
/// One that needs no more than this part finds room where no more is used.
const AMPLE_PART: u32 = 8;
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
    /// How many were given room since the last turn, or since there is one to have it.
    passed: u32,
}

const fn charge(bytes: u32) -> u32 {
    bytes.saturating_add(OVERHEAD)
}

/// What a window of the shared part costs. Without a window nothing can come, and nothing is held:
/// no message is empty.
const fn share(window: u32) -> u32 {
    if window == 0 {
        0
    } else {
        charge(window)
    }
}

/// What is to be left free of a size by one that is charged so much.
fn spare(charge: u32, of: u32) -> u32 {
    charge.saturating_mul(SPARE).min(of / LEAST_SPARE)
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

    /// What is not needed any more is others', whatever strangers have: with nothing in it it is as
    /// large as at first, and grows again for those that wait. Until then it has room for several
    /// times what there is, so that it does not change its size with each message.
    fn shrink(&mut self) {
        if self.known() == 0 {
            self.total = self.first;
        }
        while self.total / 2 >= self.first && self.known() <= self.total / MUCH {
            self.total /= 2;
        }
    }

    /// Bytes that all messages together may be charged.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Whether it has its first size, and nothing waits or streams: nobody wants another size.
    pub fn is_at_rest(&self) -> bool {
        self.total == self.first && !self.is_wanted() && self.exclusive.is_none()
    }

    /// Whether a message of that length finds room whatever its size is by now, unless that was
    /// made smaller: little is in it, and nobody waits.
    pub fn is_ample(&self, length: Option<u32>) -> bool {
        let part = self.total / AMPLE_PART;
        length.is_some_and(|length| charge(length) <= part)
            && self.used() <= part
            && self.is_at_rest()
    }

    /// The same as [`Budget::total`] when the buffer has grown as far as it may.
    pub fn most(&self) -> u32 {
        self.most
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

    /// What of a buffer of that size is spare.
    fn spare_part(&self, total: u32) -> u32 {
        self.for_known(total) / SPARE_PART
    }

    /// What is not.
    fn main_part(&self, total: u32) -> u32 {
        let all = self.for_known(total);
        all.saturating_sub(self.spare_part(total))
    }

    /// What of it is taken.
    fn main_used(&self) -> u32 {
        self.known().saturating_sub(self.spared)
    }

    /// Whether so much more finds room beside what there is of those who are known.
    fn fits(&self, more: u32) -> bool {
        self.main_used().saturating_add(more) <= self.main_part(self.total)
    }

    /// Whether so much more could be reserved in a buffer of that size; `crowded`: while an older
    /// one waits for half of it.
    fn has_room(&self, total: u32, charge: u32, crowded: bool) -> bool {
        let all = self.main_part(total);
        let limit = if crowded {
            (total / 4).saturating_sub(self.spare_part(total))
        } else {
            all
        };
        self.reserved.saturating_add(charge) <= limit
            && self.main_used().saturating_add(charge) <= all
    }

    /// Makes room for a reservation, and has the buffer grow for it if it may.
    fn make_room(&mut self, charge: u32, crowded: bool, has: Has) -> bool {
        let mut total = self.total;
        while !self.has_room(total, charge, crowded) {
            if total >= self.most || has.stalled {
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

    /// Whether a message finds room in the spare part.
    fn has_spare(&self, charge: u32, has: Has) -> bool {
        let part = self.spare_part(self.total);
        // Where it is too small for several it is the first one's.
        let open = if part < LEAST_SHARED {
            part
        } else {
            part / OPEN_PART
        };
        let more = charge.saturating_add(spare(charge, open));
        let is_open = self.spared.saturating_add(more) <= open;
        let free = part.saturating_sub(self.spared);
        (is_open || charge <= left(free, has.peer, has.peer, has.net))
            && self.known().saturating_add(charge) <= self.for_known(self.total)
    }

    /// When a message of that length gets room: those that could have it in the spare part if no
    /// others had any go before those that could not.
    pub fn class(&self, length: u32, has: Has) -> Class {
        let part = self.spare_part(self.total);
        if has.stalled {
            Class::Last
        } else if charge(length) <= left(part, has.peer, has.peer, has.net) {
            Class::First
        } else {
            Class::Late
        }
    }

    /// Whether a message of that length streams.
    fn streams(&self, length: u32) -> bool {
        length > self.most / 2
    }

    /// Whether there will never be room for all of one that waits.
    fn never_fits(&self, it: &Waiter) -> bool {
        let streams_now = it.bytes > self.total / 2;
        self.streams(it.bytes) || it.has.stalled && streams_now
    }

    /// Whether others wait for room.
    pub fn is_wanted(&self) -> bool {
        self.waiting != 0 || self.sharing != 0
    }

    /// In which order peers have turns.
    pub fn turn(has: Has) -> Class {
        match has.stalled {
            true => Class::Last,
            false => Class::First,
        }
    }

    /// Whether the one whose turn is next is to have room before one whose sender has `other`. Not
    /// while it has to wait for the end of one that streams, which may never come.
    fn is_turn_due(&self, next: Option<Waiter>, other: Has) -> bool {
        let Some(next) = next.filter(|it| self.passed >= TURN && !it.has.stalled) else {
            return false;
        };
        let all = self.main_part(self.total);
        let beside = self.exclusive.map_or(0, |(_, charge)| charge);
        let needs = beside.saturating_add(charge(next.bytes));
        // It waits for the end of its sender's own ones, which may be slow: so does all that has
        // about as much, that sender's others before all.
        let by_itself = needs.saturating_add(next.has.peer) > all;
        let little = other.peer < next.has.peer / 2;
        needs <= all && !(by_itself && little)
    }

    /// A message begins. Returns its place, and how much of it may come. `turn`: of those that wait
    /// for a reservation the one whose turn is next. `has`: what its sender has, if that has proved
    /// its address. `None`: it has not, and the message is in no queue until [`Budget::prove`].
    pub fn admit(
        &mut self,
        number: u64,
        length: Option<u32>,
        turn: Option<Waiter>,
        has: Option<Has>,
    ) -> (Place, u32) {
        let Some(has) = has else {
            // Once it has proved its address, it would have passed the one whose turn it is; and
            // what its sender has is not known before.
            let whole = length.is_some_and(|length| !self.streams(length));
            let unknown = Has {
                peer: u32::MAX,
                ..Has::default()
            };
            return match whole && self.is_turn_due(turn, unknown) {
                true => (Place::Waiting, 0),
                false => self.admit_stranger(length),
            };
        };
        if let Some(length) = length.filter(|&length| !self.streams(length)) {
            let charge = charge(length);
            let due = self.is_turn_due(turn, has);
            let place = if !due && self.make_room(charge, self.sharing != 0, has) {
                Place::Reserved
            } else if self.has_spare(charge, has) {
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
        let rest = self.main_part(self.total);
        let left = left.min(rest.saturating_sub(self.main_used()));
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

    /// The sender of a message has proved its address. `bytes`: as in [`Budget::leave`]; `turn`
    /// and `has`: as in [`Budget::admit`]. One that waits or shares is in the queue from now on.
    /// Returns its place, and whose room it has: others', if there is some for it.
    pub fn prove(
        &mut self,
        place: Place,
        bytes: u32,
        turn: Option<Waiter>,
        has: Has,
    ) -> (Place, Standing) {
        let charged = self.charged(place, bytes);
        let moves_to = match place {
            Place::Waiting => {
                self.queue();
                return (place, Standing::Known);
            }
            Place::Shared => {
                self.sharing = self.sharing.saturating_add(1);
                let shared = self.shared.saturating_add(charged);
                let fits = shared <= self.total / SHARED_PART && self.fits(charged);
                fits.then_some(place)
            }
            _ if !self.is_turn_due(turn, has)
                && self.has_room(self.total, charged, self.sharing != 0) =>
            {
                Some(Place::Reserved)
            }
            _ if self.has_spare(charged, has) => Some(Place::Spare),
            _ => None,
        };
        let Some(to) = moves_to else {
            return (place, Standing::Former);
        };
        self.strange = self.strange.saturating_sub(charged);
        match to {
            Place::Shared => self.shared = self.shared.saturating_add(charged),
            _ => self.take(to, charged),
        }
        (to, Standing::Known)
    }

    /// Who is given room next: of those that wait for a reservation the shortest, or the one whose
    /// turn is next, or the first of those that share. All of them have proved their addresses.
    pub fn next(
        &mut self,
        shortest: Option<Waiter>,
        turn: Option<Waiter>,
        sharing: Option<Waiter>,
    ) -> Next {
        // The buffer may be smaller than when they came.
        for waiter in [turn, shortest] {
            if let Some(waiter) = waiter.filter(|waiter| self.never_fits(waiter)) {
                return Next::Stream(waiter);
            }
        }
        let waits_longer = match (turn, sharing) {
            (Some(turn), Some(sharing)) => turn.number < sharing.number,
            (turn, _) => turn.is_some(),
        };
        let due = self.is_turn_due(turn, shortest.map_or(Has::default(), |it| it.has));
        let chosen = shortest.filter(|_| !due).or(turn);
        if let Some(chosen) = chosen {
            // While an older one waits for half of the buffer, others stay in their quarter, but
            // for one whose turn it is: all others wait for it.
            let crowded = !waits_longer && !due;
            if self.make_room(charge(chosen.bytes), crowded, chosen.has) {
                return Next::Reserve(chosen, Place::Reserved);
            }
        }
        if let Some(short) = shortest.filter(|it| self.has_spare(charge(it.bytes), it.has)) {
            return Next::Reserve(short, Place::Spare);
        }
        match sharing {
            Some(first) if self.exclusive.is_none() => {
                let more = self.half().saturating_sub(share(first.bytes));
                // If nothing is reserved, those that share have more than a buffer that has become
                // smaller has room for: it is free when they have ended, and not before.
                let alone = self.reserved == 0 && self.spared == 0;
                if alone || !waits_longer && self.fits(more) {
                    Next::Promote
                } else {
                    Next::None
                }
            }
            _ => Next::None,
        }
    }

    /// A message that waited is given all of its length; `turn`: its turn was next.
    pub fn reserve(&mut self, length: u32, place: Place, turn: bool) {
        self.waiting = self.waiting.saturating_sub(1);
        self.take(place, charge(length));
        if turn {
            self.passed = 0;
        }
    }

    /// A message that waited streams: it shares, with a window of 0. `turn`: its turn was next.
    pub fn stream(&mut self, turn: bool) {
        self.waiting = self.waiting.saturating_sub(1);
        self.sharing = self.sharing.saturating_add(1);
        if turn {
            self.passed = 0;
        }
    }

    /// A message that had `window` of the shared part, or of strangers' room, is exclusive. Returns
    /// how far ahead of what was read it may be, bytes.
    pub fn promote(&mut self, number: u64, window: u32, standing: Standing) -> u32 {
        self.leave_shared(window, standing);
        self.exclusive = Some((number, self.half()));
        self.ahead()
    }

    /// How far ahead of what was read the exclusive message may be, bytes.
    pub fn ahead(&self) -> u32 {
        let charge = self.exclusive.map_or(self.half(), |(_, charge)| charge);
        charge.saturating_sub(OVERHEAD)
    }

    fn leave_shared(&mut self, window: u32, standing: Standing) {
        let of = match standing {
            Standing::Known => &mut self.shared,
            _ => &mut self.strange,
        };
        *of = of.saturating_sub(share(window));
        if standing != Standing::Stranger {
            self.sharing = self.sharing.saturating_sub(1);
        }
    }

    /// A message that had `window` of the shared part is complete: what it takes, which is no more,
    /// is a reservation from now on. `held`: so much memory, which may be more than its length
    /// stands for, if it came in small pieces. Returns for how many bytes it is charged.
    pub fn settle(&mut self, window: u32, length: u32, held: u32, standing: Standing) -> u32 {
        self.leave_shared(window, standing);
        let bytes = held.saturating_sub(held / 2).saturating_sub(OVERHEAD);
        let bytes = bytes.max(length).min(window);
        let of = match standing {
            Standing::Known => &mut self.reserved,
            _ => &mut self.strange,
        };
        *of = of.saturating_add(charge(bytes));
        bytes
    }

    /// A message is read or gone. `bytes`: of one that is reserved what it is charged for, of one
    /// that shares its window.
    pub fn leave(&mut self, place: Place, bytes: u32, standing: Standing) {
        let charged = self.charged(place, bytes);
        match place {
            Place::Shared => self.leave_shared(bytes, standing),
            _ if standing != Standing::Known => {
                self.strange = self.strange.saturating_sub(charged);
            }
            Place::Waiting => self.waiting = self.waiting.saturating_sub(1),
            Place::Reserved => self.reserved = self.reserved.saturating_sub(charged),
            Place::Spare => self.spared = self.spared.saturating_sub(charged),
            Place::Exclusive => self.exclusive = None,
        }
        self.shrink();
    }

    /// What a message is charged; `bytes`: as in [`Budget::leave`].
    pub fn charged(&self, place: Place, bytes: u32) -> u32 {
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

    /// Bytes of memory that was promised to all messages together.
    pub fn promised(&self) -> u32 {
        self.used().saturating_mul(2)
    }

    /// The message that has half of the buffer.
    pub fn exclusive(&self) -> Option<u64> {
        self.exclusive.map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests;
