// SPDX-License-Identifier: GPL-2.0
//! Who waits for room, and in which order.

use crate::charges::Charges;
use crate::memory::runs_out_after;
use crate::peer;
use crate::queue::Queue;
use proptest::prelude::*;
use std::collections::BTreeMap;
use turnstile_core::transport::budget::{Budget, Place};
use turnstile_core::transport::host::InId;

/// Those that wait, whose senders' addresses are proved.
struct Waiting {
    queue: Queue,
    charges: Charges,
    budget: Budget,
    next: u64,
    /// The sender of each, and its length.
    all: BTreeMap<u64, (u16, u32)>,
}

impl Waiting {
    fn new(place: Place) -> Self {
        let mut budget = Budget::new();
        budget.resize(1 << 20);
        let (queue, charges) = (Queue::new(place), Charges::new());
        Self {
            queue,
            charges,
            budget,
            next: 1,
            all: BTreeMap::new(),
        }
    }

    /// A message comes. `None`: no memory.
    fn join(&mut self, from: u16, bytes: u32, stalled: bool) -> Option<u64> {
        self.charges.join(&peer(from), stalled).ok()?;
        let (number, id) = (
            self.next,
            InId {
                index: 0,
                generation: 0,
            },
        );
        let joined = self.queue.join(
            number,
            (id, &peer(from), bytes),
            &self.budget,
            &mut self.charges,
        );
        if joined.is_err() {
            self.charges.leave(&peer(from), Place::Waiting, 0);
            return None;
        }
        self.next += 1;
        self.all.insert(number, (from, bytes));
        Some(number)
    }

    /// It is gone.
    fn leave(&mut self, number: u64) {
        let (from, _) = self.all.remove(&number).unwrap();
        assert!(self.queue.leave(number).is_some());
        self.charges.leave(&peer(from), Place::Waiting, 0);
    }

    /// The one whose turn it is has it, and is gone.
    fn turn(&mut self) -> Option<(u64, u16)> {
        let waiter = loop {
            if let Ok(next) = self.queue.next_turn(&self.charges) {
                break next;
            }
        };
        let number = waiter?.number;
        self.queue.take_turn(number, &mut self.charges).unwrap();
        let (from, _) = self.all.remove(&number).unwrap();
        self.charges.leave(&peer(from), Place::Waiting, 0);
        Some((number, from))
    }

    /// The one that is first by its length has room, and is gone.
    fn shortest(&mut self) -> Option<u64> {
        let waiter = loop {
            if let Ok(next) = self.queue.shortest(&self.budget, &self.charges) {
                break next;
            }
        };
        let number = waiter?.number;
        self.leave(number);
        Some(number)
    }
}

/// After so many turns of others, with others always waiting, `number` has its own.
fn waits_for(waiting: &mut Waiting, number: u64, most: u32) -> u32 {
    for turns in 0..most {
        let (next, from) = waiting.turn().unwrap();
        if next == number {
            return turns;
        }
        waiting.join(from, 1000, false);
    }
    panic!("still waits after {most} turns of others");
}

/// It began to wait while its sender counted as stalled, and that does not any more.
#[test]
fn who_no_longer_counts_as_stalled_has_turns() {
    let mut waiting = Waiting::new(Place::Waiting);
    for from in 0..26 {
        waiting.join(from, 1000, false);
    }
    // One that does stall is before it among those that do.
    waiting.join(1000, 1000, true);
    let number = waiting.join(1001, 1000, true).unwrap();
    waiting.join(1001, 1000, false);
    assert!(waits_for(&mut waiting, number, 200) < 80);
}

/// The same by length.
#[test]
fn who_no_longer_counts_as_stalled_has_room() {
    let mut waiting = Waiting::new(Place::Waiting);
    for from in 0..26 {
        waiting.join(from, 1000, false);
    }
    waiting.join(1000, 100, true);
    let number = waiting.join(1001, 200, true).unwrap();
    waiting.join(1001, 5000, false);
    for _ in 0..100 {
        let next = waiting.shortest().unwrap();
        if next == number {
            return;
        }
        waiting.join(5, 1000, false);
    }
    panic!("still waits");
}

/// A peer joins with 100 messages, ends all but the last, and so on.
#[test]
fn who_ends_messages_has_one_turn_in_a_round() {
    let mut waiting = Waiting::new(Place::Shared);
    for _ in 0..100 {
        let numbers: Vec<_> = (0..100)
            .map(|_| waiting.join(1, 0, false).unwrap())
            .collect();
        numbers[..99]
            .iter()
            .for_each(|number| waiting.leave(*number));
    }
    waiting.join(2, 0, false);
    let mut order = Vec::new();
    for _ in 0..100 {
        let (_, from) = waiting.turn().unwrap();
        order.push(from);
        waiting.join(2, 0, false);
    }
    assert!(order.chunks(2).all(|two| two == [1, 2]), "{order:?}");
}

/// While a message streams, others that come go before its sender's next one.
#[test]
fn who_streams_comes_after_others() {
    let mut waiting = Waiting::new(Place::Shared);
    for _ in 0..5 {
        waiting.join(1, 0, false);
    }
    let mut order = vec![waiting.turn().unwrap().1];
    waiting.join(1, 0, false);
    waiting.join(2, 0, false);
    waiting.join(3, 0, false);
    order.extend((0..5).map(|_| waiting.turn().unwrap().1));
    assert_eq!(order, [1, 2, 3, 1, 1, 1]);
}

/// What there was no memory to note is taken off nobody.
#[test]
fn a_network_that_there_is_no_memory_for_has_no_message() {
    let mut charges = Charges::new();
    runs_out_after(0);
    assert!(charges.join(&peer(1), false).is_err());
    runs_out_after(1);
    assert!(charges.join(&peer(1), false).is_err());
    runs_out_after(2);
    assert!(charges.join(&peer(1), false).is_ok());
    // Nothing that is charged later needs memory.
    charges.more(&peer(1), Place::Spare, 1524);
    assert_eq!(charges.has(&peer(2)).net, 1524);
    runs_out_after(u32::MAX);
    charges.join(&peer(2), false).unwrap();
    charges.more(&peer(2), Place::Spare, 1000);
    charges.leave(&peer(1), Place::Spare, 1524);
    assert_eq!(
        (charges.has(&peer(1)).net, charges.has(&peer(1)).peer),
        (1000, 0)
    );
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Join(u16, u32, bool),
    Leave(usize),
    Turn,
    Shortest,
    NoMemory(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let from = prop_oneof![0_u16..4, 254_u16..260];
    prop_oneof![
        5 => (from, 1_u32..50_000, any::<bool>())
            .prop_map(|(from, bytes, stalled)| Step::Join(from, bytes, stalled)),
        2 => (0_usize..64).prop_map(Step::Leave),
        2 => Just(Step::Turn),
        2 => Just(Step::Shortest),
        1 => (0_u32..5).prop_map(Step::NoMemory),
    ]
}

proptest! {
    /// Nobody is forgotten, and whoever is next waits, whatever happens, and without memory.
    #[test]
    fn nobody_is_forgotten(steps in prop::collection::vec(step(), 0..300)) {
        let mut waiting = Waiting::new(Place::Waiting);
        for step in steps {
            match step {
                Step::Join(from, bytes, stalled) => drop(waiting.join(from, bytes, stalled)),
                Step::Leave(at) => {
                    let number = waiting.all.keys().nth(at).copied();
                    number.into_iter().for_each(|number| waiting.leave(number));
                }
                Step::Turn => {
                    let is_none = waiting.all.is_empty();
                    prop_assert_eq!(waiting.turn().is_none(), is_none);
                }
                Step::Shortest => {
                    let is_none = waiting.all.is_empty();
                    prop_assert_eq!(waiting.shortest().is_none(), is_none);
                }
                Step::NoMemory(left) => {
                    runs_out_after(left);
                    waiting.join(1, 10, false);
                    runs_out_after(u32::MAX);
                }
            }
        }
        // While a peer waits for its turn, no other has more than the rest of a round and one more.
        let peers: Vec<u16> = waiting.all.values().map(|it| it.0).collect();
        for from in &peers {
            waiting.join(*from, 1, false);
        }
        // Each has been looked at since nobody has stalled any more.
        for _ in 0..=waiting.all.len() {
            let _ = waiting.queue.next_turn(&waiting.charges);
        }
        let mut since = BTreeMap::<(u16, u16), u32>::new();
        while let Some((_, from)) = waiting.turn() {
            for (other, _) in waiting.all.values().filter(|it| it.0 != from) {
                since.entry((*other, from)).or_insert(0);
            }
            for ((waits, had), turns) in &mut since {
                match (*waits == from, *had == from) {
                    (true, _) => *turns = 0,
                    (_, true) => *turns += 1,
                    _ => {}
                }
                prop_assert!(*turns <= 2, "{had} had {turns} turns while {waits} waited");
            }
            since.retain(|(waits, _), _| waiting.all.values().any(|it| it.0 == *waits));
        }
    }
}
