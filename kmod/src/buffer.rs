// SPDX-License-Identifier: GPL-2.0
//! A socket's receive buffer: what the messages in it have of it, and which ones wait for room.

use crate::charges::Charges;
use crate::incoming::Incoming;
use crate::queue::{Queue, Queued};
use kernel::prelude::*;
use knet_transport::SockAddress;
use turnstile_core::transport::budget::{self, Budget, Next, Place, Standing};
use turnstile_core::transport::host::{InId, Sender};

/// A message is short if it is no longer than this part of the buffer.
const SHORT_PART: u32 = 16;

/// What became of an attempt to give room.
pub(crate) enum Given {
    /// There is none for who waits, or nobody waits.
    Nothing,
    /// It is to be tried again.
    Again,
    /// To this message: its place, and the bytes ahead of what was read that it may have.
    Room(InId, Place, u32),
}

/// A receive buffer.
pub(crate) struct Buffer {
    /// How it is shared.
    pub(crate) budget: Budget,
    /// What each sender has of it.
    pub(crate) charges: Charges,
    /// Those that wait to be reserved.
    waiting: Queue,
    /// Those that share, and wait to be exclusive.
    sharing: Queue,
    /// Its size at first and at most, unless the application sets one.
    pub(crate) first: u32,
    pub(crate) most: u32,
    /// How much of what all sockets may have it has, bytes in the kernel's way of counting, and
    /// which user that counts to, as far as there was memory to note it.
    pub(crate) grown: u32,
    pub(crate) noted: u32,
    pub(crate) user: u32,
    /// It would grow if others had not taken what all may have.
    pub(crate) stunted: bool,
}

impl Buffer {
    pub(crate) fn new(first: u32, most: u32) -> Self {
        Self {
            budget: Budget::new(),
            charges: Charges::new(),
            waiting: Queue::new(Place::Waiting),
            sharing: Queue::new(Place::Shared),
            first,
            most,
            grown: 0,
            noted: 0,
            user: 0,
            stunted: false,
        }
    }

    /// A message begins: its place, and how much of it may come. `None`: no memory. For whose
    /// sender has [stalled](Sender::stalled) the buffer does not grow: what is not short streams.
    pub(crate) fn admit(
        &mut self,
        number: u64,
        id: InId,
        from: &SockAddress,
        length: Option<u32>,
        sender: &Sender,
    ) -> Option<(Place, u32)> {
        let length = match sender.stalled {
            true => length.filter(|&length| length <= self.budget.total() / SHORT_PART),
            false => length,
        };
        let turn = self.waiting.turn(&self.charges);
        if !sender.proved {
            return Some(self.budget.admit(number, length, turn, None));
        }
        let has = self.charges.join(from, sender.stalled).ok()?;
        let (place, window) = self.budget.admit(number, length, turn, Some(has));
        let bytes = length.filter(|_| place == Place::Waiting).unwrap_or(window);
        if self.wait(number, id, from, place, bytes).is_err() {
            self.budget.leave(place, window, Standing::Known);
            self.charges.leave(from, place, 0);
            return None;
        }
        let charged = self.budget.charged(place, window);
        self.charges.more(from, place, charged);
        Some((place, window))
    }

    /// The sender of a message has proved its address: it may have more room from now on. No
    /// memory: an error, and nothing has changed.
    // Not inlined, so that other packets need no stack for it.
    #[inline(never)]
    pub(crate) fn prove(&mut self, id: InId, message: &mut Incoming) -> Result {
        let (number, from) = (message.number, message.from);
        let turn = self.waiting.turn(&self.charges);
        // It may have done so since.
        let stalled = message.stalled || self.charges.has(&from).stalled;
        let has = self.charges.join(&from, stalled)?;
        let bytes = match message.place {
            Place::Waiting => message.length.unwrap_or(0),
            _ => message.window,
        };
        self.wait(number, id, &from, message.place, bytes)
            .inspect_err(|_| self.charges.leave(&from, Place::Waiting, 0))?;
        let bytes = message.charged();
        let (place, standing) = self.budget.prove(message.place, bytes, turn, has);
        self.sharing
            .set_former(number, standing == Standing::Former);
        (message.place, message.standing) = (place, standing);
        let charged = self.budget.charged(place, bytes);
        self.charges.more(&from, place, charged);
        Ok(())
    }

    /// A message was given up because it did not go on: see [`Has::stalled`](budget::Has::stalled).
    pub(crate) fn stalled(&mut self, from: &SockAddress) {
        self.charges.stalled(from);
    }

    /// A message is read or gone.
    pub(crate) fn leave(&mut self, message: &Incoming) {
        let Incoming {
            number,
            from,
            place,
            standing,
            ..
        } = message;
        match place {
            Place::Waiting => drop(self.waiting.leave(*number)),
            Place::Shared => drop(self.sharing.leave(*number)),
            Place::Exclusive | Place::Reserved | Place::Spare => {}
        }
        if *standing != Standing::Stranger {
            let charged = self.budget.charged(*place, message.charged());
            self.charges.leave(from, *place, charged);
        }
        self.budget.leave(*place, message.charged(), *standing);
    }

    /// A message that shares is complete: what it takes is a reservation from now on.
    pub(crate) fn settle(&mut self, message: &mut Incoming) {
        self.sharing.leave(message.number);
        let length = message.length.unwrap_or(message.contiguous);
        let held = message.segments.truesize();
        let (window, standing) = (message.window, message.standing);
        let before = self.budget.charged(Place::Shared, window);
        message.kept = self.budget.settle(window, length, held, standing);
        message.place = Place::Reserved;
        let after = self.budget.charged(Place::Reserved, message.charged());
        self.charges.less(&message.from, before);
        self.charges.more(&message.from, Place::Reserved, after);
    }

    /// Puts a message into the queue that one with this place is in.
    fn wait(
        &mut self,
        number: u64,
        id: InId,
        from: &SockAddress,
        place: Place,
        bytes: u32,
    ) -> Result {
        let queue = match place {
            Place::Waiting => &mut self.waiting,
            Place::Shared => &mut self.sharing,
            Place::Exclusive => {
                // It has had its turn, and its sender's others have theirs after others'.
                self.sharing.pass(from, &mut self.charges);
                return Ok(());
            }
            Place::Reserved | Place::Spare => return Ok(()),
        };
        queue.join(number, (id, from, bytes), &self.budget, &mut self.charges)
    }

    /// Gives room to the message that waits for it, if there is some.
    pub(crate) fn give_room(&mut self) -> Given {
        let shortest = self.waiting.shortest(&self.budget, &self.charges);
        let turn = self.waiting.next_turn(&self.charges);
        let sharing = self.sharing.next_turn(&self.charges);
        let (Ok(shortest), Ok(turn), Ok(sharing)) = (shortest, turn, sharing) else {
            return Given::Again;
        };
        let given = match self.budget.next(shortest, turn, sharing) {
            Next::None => None,
            Next::Reserve(it, place) => self.reserve(it, place, turn == Some(it)),
            Next::Stream(it) => self.stream(it, turn == Some(it)),
            Next::Promote => sharing.and_then(|it| self.promote(it.number)),
        };
        given.map_or(Given::Nothing, |(id, place, ahead)| {
            Given::Room(id, place, ahead)
        })
    }

    fn reserve(
        &mut self,
        it: budget::Waiter,
        place: Place,
        is_turn: bool,
    ) -> Option<(InId, Place, u32)> {
        let Queued {
            id, from, bytes, ..
        } = match is_turn {
            true => self.waiting.take_turn(it.number, &mut self.charges),
            false => self.waiting.leave(it.number),
        }?;
        self.budget.reserve(bytes, place, is_turn);
        let charged = self.budget.charged(place, bytes);
        self.charges.more(&from, place, charged);
        Some((id, place, bytes))
    }

    fn stream(&mut self, it: budget::Waiter, is_turn: bool) -> Option<(InId, Place, u32)> {
        let waits = self.waiting.get(it.number)?;
        let (id, from) = (waits.id, waits.from);
        // Without memory it goes on waiting, until somebody asks again.
        self.wait(it.number, id, &from, Place::Shared, 0).ok()?;
        self.waiting.leave(it.number)?;
        self.budget.stream(is_turn);
        Some((id, Place::Shared, 0))
    }

    fn promote(&mut self, number: u64) -> Option<(InId, Place, u32)> {
        let Queued {
            id,
            from,
            bytes,
            former,
            ..
        } = self.sharing.take_turn(number, &mut self.charges)?;
        let standing = match former {
            true => Standing::Former,
            false => Standing::Known,
        };
        let before = self.budget.charged(Place::Shared, bytes);
        self.charges.less(&from, before);
        let ahead = self.budget.promote(number, bytes, standing);
        let after = self.budget.charged(Place::Exclusive, bytes);
        self.charges.more(&from, Place::Exclusive, after);
        Some((id, Place::Exclusive, ahead))
    }
}
