// SPDX-License-Identifier: GPL-2.0
//! Whole receive buffers: what each sender is charged, and who has room after whom.

use crate::buffer::{Buffer, Given};
use crate::incoming::{Incoming, Segments};
use crate::memory::runs_out_after;
use crate::peer;
use proptest::prelude::*;
use std::collections::BTreeMap;
use turnstile_core::transport::budget::{Place, Standing};
use turnstile_core::transport::host::{InId, Sender};

const PEERS: [u16; 8] = [0, 1, 2, 3, 254, 255, 256, 257];

fn id(number: u64) -> InId {
    InId {
        index: number as u32,
        generation: 0,
    }
}

/// A socket's buffer, and all messages in it.
struct Socket {
    buffer: Buffer,
    all: BTreeMap<u64, Incoming>,
    next: u64,
}

impl Socket {
    fn new(first: u32, most: u32) -> Self {
        let mut buffer = Buffer::new(first, most);
        buffer.budget.grows(first, first, most);
        let all = BTreeMap::new();
        Self {
            buffer,
            all,
            next: 0,
        }
    }

    /// A message begins. `None`: no memory.
    fn open(&mut self, from: u16, length: Option<u32>, sender: Sender) -> Option<u64> {
        let number = self.next;
        let (place, window) =
            self.buffer
                .admit(number, id(number), &peer(from), length, &sender)?;
        self.next += 1;
        let standing = match sender.proved {
            true => Standing::Known,
            false => Standing::Stranger,
        };
        let message = Incoming {
            number,
            from: peer(from),
            segments: Segments(0),
            length,
            contiguous: 0,
            window,
            place,
            standing,
            stalled: sender.stalled,
            kept: 0,
        };
        self.all.insert(number, message);
        Some(number)
    }

    fn long(&mut self, from: u16) -> u64 {
        let sender = Sender {
            proved: true,
            stalled: false,
        };
        self.open(from, Some(100_000_000), sender).unwrap()
    }

    /// Gives room to one that waits.
    fn give(&mut self) -> Option<u64> {
        loop {
            match self.buffer.give_room() {
                Given::Nothing => return None,
                Given::Again => {}
                Given::Room(id, place, ahead) => {
                    let message = self.all.get_mut(&u64::from(id.index)).unwrap();
                    (message.place, message.standing) = (place, Standing::Known);
                    message.window = message.window.max(ahead);
                    return Some(id.index.into());
                }
            }
        }
    }

    fn leave(&mut self, number: u64) {
        let message = self.all.remove(&number).unwrap();
        self.buffer.leave(&message);
    }

    fn prove(&mut self, number: u64) {
        let mut message = self.all.remove(&number).unwrap();
        // Without memory it stays as it is.
        let _ = self.buffer.prove(id(number), &mut message);
        self.all.insert(number, message);
    }

    /// One that shares ends within its window.
    fn settle(&mut self, number: u64, length: u32, held: u32) {
        let message = self.all.get_mut(&number).unwrap();
        if message.length.is_none_or(|length| length > message.window) {
            let length = 1 + length % message.window;
            (message.length, message.contiguous) = (Some(length), length);
            message.segments = Segments(held);
            self.buffer.settle(message);
        }
    }

    /// The number of one of those that are so.
    fn some(&self, choice: u32, is: impl Fn(&Incoming) -> bool) -> Option<u64> {
        let all: Vec<_> = self.all.values().filter(|it| is(it)).collect();
        let at = (choice as usize).checked_rem(all.len())?;
        Some(all[at].number)
    }

    /// What each sender and network is charged is what its messages are.
    fn check(&self) {
        let (mut peers, mut nets, mut used) = (BTreeMap::new(), BTreeMap::new(), 0);
        for message in self.all.values() {
            let charged = self.buffer.budget.charged(message.place, message.charged());
            used += charged;
            if message.standing != Standing::Stranger {
                *peers.entry(message.from.ip).or_insert(0) += charged;
                if message.place == Place::Spare {
                    *nets.entry(message.from.ip[14]).or_insert(0) += charged;
                }
            }
        }
        assert_eq!(used, self.buffer.budget.used());
        for from in PEERS.map(peer) {
            let has = self.buffer.charges.has(&from);
            assert_eq!(has.peer, peers.get(&from.ip).copied().unwrap_or(0));
            assert_eq!(has.net, nets.get(&from.ip[14]).copied().unwrap_or(0));
        }
    }
}

/// A peer that has streamed any number of messages while nobody else was there waits for no more
/// than one of another's.
#[test]
fn who_streamed_alone_waits_no_longer() {
    for alone in [0, 1, 100] {
        let mut socket = Socket::new(1 << 20, 1 << 20);
        for _ in 0..alone {
            let number = socket.long(1);
            assert_eq!(socket.all[&number].place, Place::Exclusive);
            socket.leave(number);
        }
        let mut now = socket.long(2);
        socket.long(2);
        let mine = socket.long(1);
        let mut before = 0;
        while now != mine {
            socket.long(2);
            socket.leave(now);
            now = socket.give().unwrap();
            before += u32::from(now != mine);
        }
        assert!(before <= 1, "after {alone}: {before}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Open(usize, Option<u32>, bool, bool),
    Prove(u32),
    Leave(u32),
    Settle(u32, u32, u32),
    Stalls(usize),
    Give(u32),
    Grow(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![
        1 => Just(None),
        1 => (1_u32..2000).prop_map(Some),
        1 => (1_u32..20_000).prop_map(Some),
        1 => (1_u32..200_000).prop_map(Some),
        1 => (1_u32..4 << 20).prop_map(Some),
    ];
    prop_oneof![
        4 => (0_usize..8, length, prop::bool::weighted(0.7), prop::bool::weighted(0.1))
            .prop_map(|(from, length, proved, stalled)| Step::Open(from, length, proved, stalled)),
        1 => any::<u32>().prop_map(Step::Prove),
        2 => any::<u32>().prop_map(Step::Leave),
        1 => (any::<u32>(), any::<u32>(), 0_u32..100_000)
            .prop_map(|(which, length, held)| Step::Settle(which, length, held)),
        1 => (0_usize..8).prop_map(Step::Stalls),
        1 => (0_u32..8).prop_map(Step::Give),
        1 => (0_u32..4).prop_map(Step::Grow),
    ]
}

proptest! {
    /// Whatever happens, with memory or without: sums are exact, and nobody waits for ever.
    #[test]
    fn sums_are_exact_and_nobody_is_forgotten(
        steps in prop::collection::vec((step(), prop::option::weighted(0.2, 0_u32..6)), 1..300),
        first in prop::sample::select(vec![16_u32 << 10, 64 << 10, 212_992, 1 << 20]),
    ) {
        let mut socket = Socket::new(first, first * 2);
        for (step, memory) in steps {
            runs_out_after(memory.unwrap_or(u32::MAX));
            match step {
                Step::Open(from, length, proved, stalled) => {
                    let sender = Sender { proved, stalled };
                    socket.open(PEERS[from], length, sender);
                }
                Step::Prove(choice) => {
                    let number = socket.some(choice, |it| it.standing == Standing::Stranger);
                    number.into_iter().for_each(|number| socket.prove(number));
                }
                Step::Leave(choice) => {
                    let number = socket.some(choice, |_| true);
                    number.into_iter().for_each(|number| socket.leave(number));
                }
                Step::Settle(choice, length, held) => {
                    let shares = |it: &Incoming| {
                        let known = it.standing != Standing::Stranger;
                        it.place == Place::Shared && known && it.window != 0
                    };
                    let number = socket.some(choice, shares);
                    number.into_iter().for_each(|number| socket.settle(number, length, held));
                }
                Step::Stalls(from) => socket.buffer.stalled(&peer(PEERS[from])),
                Step::Give(times) => (0..times).for_each(|_| {
                    socket.give();
                }),
                Step::Grow(times) => {
                    let budget = &mut socket.buffer.budget;
                    let now = budget.total().saturating_mul(2).max(first);
                    budget.grows(now, first, first << times);
                }
            }
            runs_out_after(u32::MAX);
            socket.check();
        }
        // All prove their addresses, and what has room is read, until nobody is left.
        while let Some(number) = socket.some(0, |it| it.standing == Standing::Stranger) {
            socket.prove(number);
        }
        while !socket.all.is_empty() {
            while socket.give().is_some() {}
            socket.check();
            let has_room = |it: &Incoming| !matches!(it.place, Place::Waiting | Place::Shared);
            let number = socket.some(0, has_room);
            prop_assert!(number.is_some(), "{} wait for ever", socket.all.len());
            while let Some(number) = socket.some(0, has_room) {
                socket.leave(number);
            }
        }
        prop_assert!(!socket.buffer.budget.is_wanted() && socket.buffer.budget.used() == 0);
    }
}
