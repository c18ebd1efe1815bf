// SPDX-License-Identifier: GPL-2.0
//! Messages that wait for room in a receive buffer, in the order in which they have turns.

use crate::charges::Charges;
use crate::memory::atomic;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use knet_transport::SockAddress;
use turnstile_core::transport::budget::{self, Budget, Class, Place, Rounds};
use turnstile_core::transport::host::InId;

/// So many messages that are not where they belong in an order are put there in one call.
const REORDERED: u32 = 8;

/// A message that waits.
pub(crate) struct Queued {
    pub(crate) id: InId,
    pub(crate) from: SockAddress,
    /// Its length, or its window if it shares.
    pub(crate) bytes: u32,
    /// It shares, and still has strangers' room.
    pub(crate) former: bool,
    /// Where it is in the order of turns: a class, and a round in that.
    turn: (Class, u32),
    /// In which class it is in the order of lengths, if it is in that.
    class: Class,
}

/// Messages by a class, something that is less for those that are first in it, and their numbers.
type Order = RBTree<(Class, u32, u64), ()>;

/// Those that wait for the same.
pub(crate) struct Queue {
    /// [`Place::Waiting`] or [`Place::Shared`].
    place: Place,
    all: RBTree<u64, Queued>,
    turns: Order,
    /// The shortest first, if they wait for a reservation.
    lengths: Order,
    rounds: Rounds,
}

impl Queue {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            all: RBTree::new(),
            turns: Order::new(),
            lengths: Order::new(),
            rounds: Rounds::NEW,
        }
    }

    fn has_lengths(&self) -> bool {
        self.place == Place::Waiting
    }

    /// Another one waits, of a sender that is charged for it. No memory: an error, and it does not.
    pub(crate) fn join(
        &mut self,
        number: u64,
        (id, from, bytes): (InId, &SockAddress, u32),
        budget: &Budget,
        charges: &mut Charges,
    ) -> Result {
        let has = charges.has(from);
        let before = charges.joins_queue(from, self.place);
        let queued = Queued {
            id,
            from: *from,
            bytes,
            former: false,
            turn: (Budget::turn(has), self.rounds.of(before)),
            class: budget.class(bytes, has),
        };
        let joined = self.insert(number, queued);
        joined.inspect_err(|_| charges.leaves_queue(from, self.place))
    }

    fn insert(&mut self, number: u64, queued: Queued) -> Result {
        let turn = (queued.turn.0, queued.turn.1, number);
        let length = (queued.class, queued.bytes, number);
        self.all.try_create_and_insert(number, queued, atomic())?;
        let mut ordered = self.turns.try_create_and_insert(turn, (), atomic());
        if ordered.is_ok() && self.has_lengths() {
            ordered = self.lengths.try_create_and_insert(length, (), atomic());
        }
        if ordered.is_err() {
            self.remove(number);
        }
        ordered.map(drop)
    }

    fn remove(&mut self, number: u64) -> Option<Queued> {
        let queued = self.all.remove_node(&number)?.to_key_value().1;
        self.turns.remove(&(queued.turn.0, queued.turn.1, number));
        if self.has_lengths() {
            self.lengths.remove(&(queued.class, queued.bytes, number));
        }
        Some(queued)
    }

    /// It does not wait here any more. `None`: it did not.
    pub(crate) fn leave(&mut self, number: u64, charges: &mut Charges) -> Option<Queued> {
        let queued = self.remove(number)?;
        charges.leaves_queue(&queued.from, self.place);
        Some(queued)
    }

    /// As [`Queue::leave`], when it has had its turn.
    pub(crate) fn take_turn(&mut self, number: u64, charges: &mut Charges) -> Option<Queued> {
        let queued = self.leave(number, charges)?;
        self.rounds.reach(queued.turn.1);
        Some(queued)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Queued> {
        self.all.get(&number)
    }

    /// It has others' room, or still strangers'.
    pub(crate) fn set_former(&mut self, number: u64, former: bool) {
        if let Some(queued) = self.all.get_mut(&number) {
            queued.former = former;
        }
    }

    /// The one whose turn is next, as far as it is known: see [`Queue::next_turn`].
    pub(crate) fn turn(&self, charges: &Charges) -> Option<budget::Waiter> {
        let number = self.turns.cursor_front()?.current().0 .2;
        self.waiter(number, charges)
    }

    /// The one whose turn is next. `None`: none waits. Whether its sender has stalled may have
    /// changed: then it is put where it belongs. `Err`: this is to be asked again.
    pub(crate) fn next_turn(&mut self, charges: &Charges) -> Result<Option<budget::Waiter>, ()> {
        let class = |it: &Queued| Budget::turn(charges.has(&it.from));
        let first = first_of(&mut self.turns, &mut self.all, class, |it| &mut it.turn.0)?;
        Ok(first.and_then(|number| self.waiter(number, charges)))
    }

    /// The one that gets room first by its length. Its class depends on what its sender has, which
    /// may have changed: as [`Queue::next_turn`].
    pub(crate) fn shortest(
        &mut self,
        budget: &Budget,
        charges: &Charges,
    ) -> Result<Option<budget::Waiter>, ()> {
        let class = |it: &Queued| budget.class(it.bytes, charges.has(&it.from));
        let first = first_of(&mut self.lengths, &mut self.all, class, |it| &mut it.class)?;
        Ok(first.and_then(|number| self.waiter(number, charges)))
    }

    fn waiter(&self, number: u64, charges: &Charges) -> Option<budget::Waiter> {
        let queued = self.all.get(&number)?;
        Some(budget::Waiter {
            number,
            bytes: if queued.former { 0 } else { queued.bytes },
            has: charges.has(&queued.from),
        })
    }
}

/// The first of an order whose class is still the one that it is in there; others are put where
/// they belong, some of them at a time.
fn first_of(
    order: &mut Order,
    all: &mut RBTree<u64, Queued>,
    class: impl Fn(&Queued) -> Class,
    known: impl Fn(&mut Queued) -> &mut Class,
) -> Result<Option<u64>, ()> {
    for _ in 0..REORDERED {
        let Some((before, within, number)) = order.cursor_front().map(|it| *it.current().0) else {
            return Ok(None);
        };
        let Some(queued) = all.get_mut(&number) else {
            return Ok(None);
        };
        let now = class(queued);
        if now == before {
            return Ok(Some(number));
        }
        *known(queued) = now;
        if let Some(node) = order.remove_node(&(before, within, number)) {
            let node = node.into_reservation().into_node((now, within, number), ());
            drop(order.insert(node));
        }
    }
    Err(())
}
