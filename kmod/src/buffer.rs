// SPDX-License-Identifier: GPL-2.0
//! A socket's receive buffer: what the messages in it have of it, and which ones wait for room.

use crate::charges::Charges;
use crate::incoming::Incoming;
use crate::memory::atomic;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use knet_transport::SockAddress;
use turnstile_core::transport::budget::{self, Budget, Class, Next, Place, Standing};
use turnstile_core::transport::host::{InId, Sender};

/// So many messages that are not where they belong in the order of those that wait are put there in
/// one call.
const REORDERED: u32 = 8;

/// A message is short if it is no longer than this part of the buffer.
const SHORT_PART: u32 = 16;

/// A message that waits.
struct Queued {
    id: InId,
    from: SockAddress,
    /// Its length, or its window if it shares.
    bytes: u32,
    /// Where it is in the order of those that wait.
    class: Class,
    /// It shares, and still has strangers' room.
    former: bool,
}

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
    charges: Charges,
    /// Those that wait to be reserved.
    waiting: RBTree<u64, Queued>,
    /// The same in the order in which they get room: by their classes and lengths.
    by_length: RBTree<(Class, u32, u64), ()>,
    /// Those that share, in the order in which they become exclusive.
    sharing: RBTree<u64, Queued>,
    /// Its size at first and at most, unless the application sets one.
    pub(crate) first: u32,
    pub(crate) most: u32,
    /// How much of what all sockets may have it has, bytes in the kernel's way of counting, and
    /// which user that counts to.
    pub(crate) grown: u32,
    pub(crate) user: u32,
    /// It would grow if others had not taken what all may have.
    pub(crate) stunted: bool,
}

impl Buffer {
    pub(crate) fn new(first: u32, most: u32) -> Self {
        Self {
            budget: Budget::new(),
            charges: Charges::new(),
            waiting: RBTree::new(),
            by_length: RBTree::new(),
            sharing: RBTree::new(),
            first,
            most,
            grown: 0,
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
        let oldest = self.first_of(&self.waiting);
        if !sender.proved {
            return Some(self.budget.admit(number, length, oldest, None));
        }
        let has = self.charges.join(from, sender.stalled).ok()?;
        let (place, window) = self.budget.admit(number, length, oldest, Some(has));
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
        let oldest = self.first_of(&self.waiting);
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
        let (place, standing) = self.budget.prove(message.place, bytes, oldest, has);
        if let Some(queued) = self.sharing.get_mut(&number) {
            queued.former = standing == Standing::Former;
        }
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
            Place::Waiting => drop(self.waits_no_more(*number)),
            Place::Shared => drop(self.sharing.remove(number)),
            Place::Reserved | Place::Spare | Place::Exclusive => {}
        }
        if *standing != Standing::Stranger {
            let charged = self.budget.charged(*place, message.charged());
            self.charges.leave(from, *place, charged);
        }
        self.budget.leave(*place, message.charged(), *standing);
    }

    /// A message that shares is complete: what it takes is a reservation from now on.
    pub(crate) fn settle(&mut self, message: &mut Incoming) {
        self.sharing.remove(&message.number);
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
        let queued = Queued {
            id,
            from: *from,
            bytes,
            class: Class::First,
            former: false,
        };
        match place {
            Place::Waiting => self.wait_for_room(number, queued),
            Place::Shared => {
                let place = self.sharing.try_create_and_insert(number, queued, atomic());
                place.map(drop)
            }
            Place::Reserved | Place::Spare | Place::Exclusive => Ok(()),
        }
    }

    fn wait_for_room(&mut self, number: u64, mut queued: Queued) -> Result {
        let has = self.charges.has(&queued.from);
        queued.class = self.budget.class(queued.bytes, has);
        let order = (queued.class, queued.bytes, number);
        self.waiting
            .try_create_and_insert(number, queued, atomic())?;
        let ordered = self.by_length.try_create_and_insert(order, (), atomic());
        if ordered.is_err() {
            self.waiting.remove(&number);
        }
        ordered.map(drop)
    }

    /// A message waits for room no more.
    fn waits_no_more(&mut self, number: u64) -> Option<Queued> {
        let queued = self.waiting.remove_node(&number)?.to_key_value().1;
        self.by_length.remove(&(queued.class, queued.bytes, number));
        Some(queued)
    }

    /// The message that gets room first of those that wait to be reserved. `None`: none waits.
    /// Its class depends on what its sender has, which may have changed: then it is put where it
    /// belongs. `Err`: this is to be asked again.
    fn first_in_order(&mut self) -> Result<Option<budget::Waiter>, ()> {
        for _ in 0..REORDERED {
            let Some((class, bytes, number)) =
                self.by_length.cursor_front().map(|it| *it.current().0)
            else {
                return Ok(None);
            };
            let Some(queued) = self.waiting.get_mut(&number) else {
                return Ok(None);
            };
            let has = self.charges.has(&queued.from);
            let now = self.budget.class(bytes, has);
            if now == class {
                return Ok(Some(budget::Waiter { number, bytes, has }));
            }
            queued.class = now;
            if let Some(node) = self.by_length.remove_node(&(class, bytes, number)) {
                let node = node.into_reservation().into_node((now, bytes, number), ());
                drop(self.by_length.insert(node));
            }
        }
        Err(())
    }

    /// Gives room to the message that waits for it, if there is some.
    pub(crate) fn give_room(&mut self) -> Given {
        let Ok(shortest) = self.first_in_order() else {
            return Given::Again;
        };
        let oldest = self.first_of(&self.waiting);
        let sharing = self.first_of(&self.sharing);
        let given = match self.budget.next(shortest, oldest, sharing) {
            Next::None => None,
            Next::Reserve(it, place) => self.reserve(it, place, oldest == Some(it)),
            Next::Stream(it) => self.stream(it, oldest == Some(it)),
            Next::Promote => self.promote(),
        };
        given.map_or(Given::Nothing, |(id, place, ahead)| {
            Given::Room(id, place, ahead)
        })
    }

    fn reserve(
        &mut self,
        it: budget::Waiter,
        place: Place,
        is_oldest: bool,
    ) -> Option<(InId, Place, u32)> {
        let Queued {
            id, from, bytes, ..
        } = self.waits_no_more(it.number)?;
        self.budget.reserve(bytes, place, is_oldest);
        let charged = self.budget.charged(place, bytes);
        self.charges.more(&from, place, charged);
        Some((id, place, bytes))
    }

    fn stream(&mut self, it: budget::Waiter, is_oldest: bool) -> Option<(InId, Place, u32)> {
        let waits = self.waiting.get(&it.number)?;
        let (id, from) = (waits.id, waits.from);
        // Without memory it goes on waiting, until somebody asks again.
        self.wait(it.number, id, &from, Place::Shared, 0).ok()?;
        self.waits_no_more(it.number)?;
        self.budget.stream(is_oldest);
        Some((id, Place::Shared, 0))
    }

    fn promote(&mut self) -> Option<(InId, Place, u32)> {
        let (_, node) = self.sharing.cursor_front_mut()?.remove_current();
        let (number, queued) = node.to_key_value();
        let Queued {
            id, from, bytes, ..
        } = queued;
        let standing = match queued.former {
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

    /// The first of a queue.
    fn first_of(&self, queue: &RBTree<u64, Queued>) -> Option<budget::Waiter> {
        let first = queue.cursor_front()?;
        let (number, queued) = first.current();
        Some(budget::Waiter {
            number: *number,
            bytes: if queued.former { 0 } else { queued.bytes },
            has: self.charges.has(&queued.from),
        })
    }
}
