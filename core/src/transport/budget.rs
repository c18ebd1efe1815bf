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
//! Short messages find room beside long ones: each must leave four times as much free as it takes,
//! or an eighth of the buffer (`spare`). That is by message, not by peer, so that one peer with
//! many of them can leave nothing (docs/security.md, "What does not hold yet"). What waits is given
//! room in the order of its length, the shortest first, and now and then the one that has waited
//! longest: after `TURN` others nothing that came later takes the room that it waits for
//! ([`Budget::next`]), but what finds room in the [eighth](Place::Spare) that it leaves to others.
//! Room becomes free when whole messages are read, when the exclusive one ends, and when one that
//! makes no progress is given up, so that nothing waits for ever.
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
            // Once it has proved its address, it would have passed the one whose turn it is.
            let whole = length.is_some_and(|length| !self.streams(length));
            return match whole && self.is_turn_due(oldest) {
                true => (Place::Waiting, 0),
                false => self.admit_stranger(length),
            };
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
            _ => self.take(place, charged),
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
