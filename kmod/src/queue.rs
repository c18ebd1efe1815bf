// SPDX-License-Identifier: GPL-2.0
//! Messages that wait for room in a receive buffer, in the order in which they have turns.

use crate::charges::{peer, Charges, Key};
use crate::memory::atomic;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use knet_transport::SockAddress;
use turnstile_core::transport::budget::{self, Budget, Class, Place, Rounds};
use turnstile_core::transport::host::InId;

/// So many messages that are not where they belong in an order are put there in one call.
const REORDERED: u32 = 8;
/// So many of all that wait are looked at in one call, wherever they are in an order.
const LOOKS: u32 = 2;

/// A message that waits.
pub(crate) struct Queued {
    pub(crate) id: InId,
    pub(crate) from: SockAddress,
    /// Its length, or its window if it shares.
    pub(crate) bytes: u32,
    /// It shares, and still has strangers' room.
    pub(crate) former: bool,
    /// Where it is in the order of turns, if it is its sender's first: a class, and a round in
    /// that.
    turn: Option<(Class, u64)>,
    /// In which class it is in the order of lengths, if it is in that.
    class: Class,
}

/// Messages by a class, something that is less for those that are first in it, and their numbers.
type Order = RBTree<(Class, u64, u64), ()>;

/// Those that wait for the same.
pub(crate) struct Queue {
    /// [`Place::Waiting`] or [`Place::Shared`].
    place: Place,
    all: RBTree<u64, Queued>,
    /// Each sender's, those that came earlier first.
    by_sender: RBTree<(Key, u64), ()>,
    /// Of each sender one.
    turns: Order,
    /// The shortest first, if they wait for a reservation.
    lengths: Order,
    rounds: Rounds,
    /// The last of all that was looked at in each order.
    looked: [u64; 2],
}

impl Queue {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            all: RBTree::new(),
            by_sender: RBTree::new(),
            turns: Order::new(),
            lengths: Order::new(),
            rounds: Rounds::NEW,
            looked: [0; 2],
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
        let turn = match self.first_of(peer(from)) {
            Some(_) => None,
            None => {
                let turns = charges.turns(from, self.place);
                let round = turns.map_or(0, |turns| self.rounds.join(turns));
                Some((Budget::turn(has), round))
            }
        };
        let queued = Queued {
            id,
            from: *from,
            bytes,
            former: false,
            turn,
            class: budget.class(bytes, has),
        };
        self.insert(number, queued)
    }

    /// The first message of a sender.
    fn first_of(&self, sender: Key) -> Option<u64> {
        let cursor = self.by_sender.cursor_lower_bound(&(sender, 0))?;
        let (key, number) = *cursor.current().0;
        (key == sender).then_some(number)
    }

    fn insert(&mut self, number: u64, queued: Queued) -> Result {
        let (sender, turn) = (peer(&queued.from), queued.turn);
        let length = (queued.class, queued.bytes.into(), number);
        self.all.try_create_and_insert(number, queued, atomic())?;
        let mut inserted = self
            .by_sender
            .try_create_and_insert((sender, number), (), atomic())
            .map(drop);
        if let Some((class, round)) = turn.filter(|_| inserted.is_ok()) {
            let turn = (class, round, number);
            inserted = self
                .turns
                .try_create_and_insert(turn, (), atomic())
                .map(drop);
        }
        if inserted.is_ok() && self.has_lengths() {
            inserted = self
                .lengths
                .try_create_and_insert(length, (), atomic())
                .map(drop);
        }
        if inserted.is_err() {
            self.remove(number, |_| 0);
        }
        inserted
    }

    /// If it was its sender's first one, the next one of that has its turn in the round that
    /// `next` says, which gets the round of this one.
    fn remove(&mut self, number: u64, next: impl FnOnce(u64) -> u64) -> Option<Queued> {
        let queued = self.all.remove_node(&number)?.to_key_value().1;
        let sender = peer(&queued.from);
        self.by_sender.remove(&(sender, number));
        if self.has_lengths() {
            let length = (queued.class, queued.bytes.into(), number);
            self.lengths.remove(&length);
        }
        if let Some((class, round)) = queued.turn {
            let node = self.turns.remove_node(&(class, round, number));
            let round = next(round);
            let follower = self.first_of(sender);
            let follower = follower.and_then(|it| Some((it, self.all.get_mut(&it)?)));
            if let Some((node, (number, follower))) = node.zip(follower) {
                follower.turn = Some((class, round));
                let node = node.into_reservation();
                drop(
                    self.turns
                        .insert(node.into_node((class, round, number), ())),
                );
            }
        }
        Some(queued)
    }

    /// It does not wait here any more. `None`: it did not.
    pub(crate) fn leave(&mut self, number: u64) -> Option<Queued> {
        self.remove(number, |round| round)
    }

    /// As [`Queue::leave`], when it has its turn: from then on it is done with, or streams.
    pub(crate) fn take_turn(&mut self, number: u64, charges: &mut Charges) -> Option<Queued> {
        let from = self.all.get(&number)?.from;
        let streams = self.place == Place::Shared;
        let turns = charges.turns(&from, self.place);
        let mut rounds = core::mem::take(&mut self.rounds);
        let queued = self.remove(number, |round| match turns {
            Some(turns) => {
                let next = rounds.reach(round, turns);
                match streams {
                    true => rounds.pass(turns),
                    false => next,
                }
            }
            None => round,
        });
        self.rounds = rounds;
        queued
    }

    /// A message streams without having waited: its sender's others have their turns after others'.
    pub(crate) fn pass(&mut self, from: &SockAddress, charges: &mut Charges) {
        if let Some(turns) = charges.turns(from, self.place) {
            self.rounds.pass(turns);
        }
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
        let known = |it: &Queued| it.turn;
        let set = |it: &mut Queued, class| it.turn = it.turn.map(|(_, round)| (class, round));
        let [looked, _] = &mut self.looked;
        let mut ordered = Ordered {
            order: &mut self.turns,
            all: &mut self.all,
            class,
            known,
            set,
        };
        ordered.look(looked);
        let first = ordered.first()?;
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
        let known = |it: &Queued| Some((it.class, it.bytes.into()));
        let set = |it: &mut Queued, class| it.class = class;
        let [_, looked] = &mut self.looked;
        let order = &mut self.lengths;
        let mut ordered = Ordered {
            order,
            all: &mut self.all,
            class,
            known,
            set,
        };
        ordered.look(looked);
        let first = ordered.first()?;
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

/// An order by classes that may have changed since a message was put there.
struct Ordered<'a, C, K, S> {
    order: &'a mut Order,
    all: &'a mut RBTree<u64, Queued>,
    /// A message's class.
    class: C,
    /// Where it is in the order, if it is in it: its class as it was, and what is less for those
    /// that are first.
    known: K,
    /// It is in another class from now on.
    set: S,
}

impl<C, K, S> Ordered<'_, C, K, S>
where
    C: Fn(&Queued) -> Class,
    K: Fn(&Queued) -> Option<(Class, u64)>,
    S: Fn(&mut Queued, Class),
{
    /// The first whose class is still the one that it is in; others are put where they belong, some
    /// of them at a time.
    fn first(&mut self) -> Result<Option<u64>, ()> {
        for _ in 0..REORDERED {
            let Some(number) = self.order.cursor_front().map(|it| it.current().0 .2) else {
                return Ok(None);
            };
            if !self.put_in_place(number) {
                return Ok(Some(number));
            }
        }
        Err(())
    }

    /// Looks at the next ones of all that wait, whatever is before them: one that belongs further
    /// to the front would wait for ever for others that go before it there.
    fn look(&mut self, looked: &mut u64) {
        for _ in 0..LOOKS {
            let next = self.all.cursor_lower_bound(&looked.wrapping_add(1));
            let next = next.map(|it| *it.current().0);
            *looked = next.unwrap_or(0);
            if let Some(number) = next {
                self.put_in_place(number);
            }
        }
    }

    /// Whether it was not where it belongs.
    fn put_in_place(&mut self, number: u64) -> bool {
        let Some(queued) = self.all.get_mut(&number) else {
            return false;
        };
        let Some((before, within)) = (self.known)(queued) else {
            return false;
        };
        let now = (self.class)(queued);
        if now == before {
            return false;
        }
        (self.set)(queued, now);
        if let Some(node) = self.order.remove_node(&(before, within, number)) {
            let node = node.into_reservation().into_node((now, within, number), ());
            drop(self.order.insert(node));
        }
        true
    }
}
