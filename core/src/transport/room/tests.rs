// SPDX-License-Identifier: GPL-2.0
//! Tests of who may have how much of a send buffer.

use super::{left, promised, BESIDE_PART};
use proptest::prelude::*;
use std::vec::Vec;

/// Takes all that a peer may have, one byte at a time; returns what it has.
fn greedy(free: &mut u32, host: &mut u32, net: &mut u32) -> u32 {
    let mut peer = 0;
    while left(*free, peer, *host, *net) != 0 {
        (*free, peer, *host, *net) = (*free - 1, peer + 1, *host + 1, *net + 1);
    }
    peer
}

#[test]
fn a_peer_leaves_as_much_as_it_takes() {
    let mut free = 6000;
    for has in [3000, 1500, 750] {
        assert_eq!(greedy(&mut free, &mut 0, &mut 0), has);
    }
}

#[test]
fn an_address_with_many_ports_leaves_a_third() {
    let (mut free, mut host, mut net) = (6000, 0, 0);
    assert_eq!(greedy(&mut free, &mut host, &mut net), 3000);
    // A byte is lost where thirds are rounded.
    assert!((999..=1000).contains(&greedy(&mut free, &mut host, &mut net)));
    assert!(greedy(&mut free, &mut host, &mut net) <= 1);
    assert!(greedy(&mut free, &mut 0, &mut net) >= 400);
    assert!(greedy(&mut free, &mut 0, &mut 0) >= 600);
}

#[test]
fn a_network_with_many_addresses_leaves_a_fifth() {
    let (mut free, mut net, mut least) = (6_000_000, 0, 0);
    for _ in 0..12 {
        // Each leaves something to the next one.
        let more = greedy(&mut free, &mut 0, &mut net);
        assert!(more >= least / 4, "{more} after {least}");
        least = more;
    }
    for _ in 0..1000 {
        greedy(&mut free, &mut 0, &mut net);
    }
    assert!((1_200_000..1_201_000).contains(&free), "{free}");
    let more = greedy(&mut free, &mut 0, &mut 0);
    assert!(more.abs_diff(free) <= 1, "{more} of a fifth, {free} left");
}

#[test]
fn what_is_taken_at_once_is_what_could_be_taken_byte_by_byte() {
    for (free, peer, host, net) in [
        (6000, 0, 0, 0),
        (4000, 1000, 2000, 2000),
        (4000, 1000, 2000, 15_000),
        (10, 20, 20, 20),
        (0, 0, 0, 0),
    ] {
        let more = left(free, peer, host, net);
        assert!(more <= free);
        assert!(more == 0 || peer + more <= free - more);
        assert!(more == 0 || host + more <= 2 * (free - more));
        assert!(more == 0 || net + more <= 4 * (free - more));
    }
    assert_eq!(left(u32::MAX, 0, 0, 0), u32::MAX / 2);
    assert_eq!(left(0, u32::MAX, u32::MAX, u32::MAX), 0);
}

/// A message that is written to a socket.
#[derive(Clone)]
struct Message {
    peer: usize,
    begun: bool,
    written: u32,
    delivered: u32,
    /// Of those under way, these are beside the buffer.
    beside: u32,
}

/// A socket that is not connected, and who writes messages of the same length to it; what the
/// receivers want of them is taken at once.
struct Socket {
    size: u32,
    length: u32,
    window: u32,
    messages: Vec<Message>,
}

const OVERHEAD: u32 = 1024;

impl Socket {
    fn charged(&self, which: impl Fn(&Message) -> bool) -> u32 {
        let has =
            |message: &&Message| message.begun && message.delivered < self.length && which(message);
        let of =
            |message: &Message| OVERHEAD + message.written - message.delivered - message.beside;
        self.messages.iter().filter(has).map(of).sum()
    }

    fn queued(&self) -> u32 {
        self.charged(|_| true)
    }

    fn beside(&self, which: impl Fn(&Message) -> bool) -> u32 {
        let all = self.messages.iter().filter(|message| which(message));
        all.map(|message| message.beside).sum()
    }

    /// The message that a receiver reads, before all others to it: the first that began.
    fn read(&self, peer: usize) -> Option<usize> {
        let is = |message: &Message| {
            message.peer == peer && message.begun && message.delivered < self.length
        };
        self.messages.iter().position(is)
    }

    /// One who writes a message looks for room, and takes it. Returns how much.
    fn write(&mut self, index: usize) -> u32 {
        let Message {
            peer,
            begun,
            written,
            delivered,
            ..
        } = self.messages[index].clone();
        let rest = self.length - written;
        let overhead = if begun { 0 } else { OVERHEAD };
        let (queued, has) = (self.queued(), self.charged(|other| other.peer == peer));
        let free = left(2 * self.size - queued.min(2 * self.size), has, has, has);
        let others = 2 * self.size - (queued - has).min(2 * self.size);
        let most = left(others, 0, 0, 0);
        let (mut room, mut beside) = (free.saturating_sub(overhead), false);
        if room < rest.min(most / 4).max(1) {
            room = 0;
            if begun && self.read(peer) == Some(index) {
                let wants = (delivered + self.window).min(self.length);
                let more = wants.saturating_sub(written);
                let all = 2 * (self.size / BESIDE_PART) - self.beside(|_| true);
                let has = self.beside(|other| other.peer == peer);
                let left = left(all, has, has, has);
                (room, beside) = promised(free, more, written - delivered, left);
                assert!(room <= more);
            }
        }
        let more = room.min(rest);
        if more != 0 {
            self.messages[index].beside += if beside { more } else { 0 };
            self.messages[index].begun = true;
            self.messages[index].written += more;
        }
        more
    }

    /// A receiver takes all it wants of what was written. Returns how much.
    fn deliver(&mut self, peer: usize) -> u32 {
        let Some(index) = self.read(peer) else {
            return 0;
        };
        let message = &mut self.messages[index];
        let more = message.written - message.delivered;
        (message.delivered, message.beside) = (message.delivered + more, 0);
        more
    }
}

proptest! {
    /// Whatever fills the buffer, and in which order whoever: some of a message that a receiver
    /// waits for can be written, until all is delivered; and the buffer is not much over its size.
    #[test]
    fn somebody_can_always_go_on(
        size in 16_384_u32..300_000,
        length in 1_u32..300_000,
        window in 2_000_u32..200_000,
        peers in 1_usize..6,
        count in 1_usize..16,
        order in prop::collection::vec(0_usize..1000, 1..200),
    ) {
        let message = |peer| Message { peer, begun: false, written: 0, delivered: 0, beside: 0 };
        let messages = (0..peers * count).map(|number| message(number % peers)).collect();
        let mut socket = Socket { size, length, window, messages };
        let all = socket.messages.len();
        // At random first, then whoever can.
        for turn in &order {
            socket.write(turn % all);
            if turn % 3 == 0 {
                socket.deliver(turn % peers);
            }
            let (queued, begun) = (socket.queued(), all as u32 * OVERHEAD);
            prop_assert!(queued <= size * 2 + begun, "{queued} of {size}");
            prop_assert!(socket.beside(|_| true) <= size / 2);
        }
        let mut idle = 0;
        while socket.messages.iter().any(|message| message.delivered < length) {
            let wrote: u32 = (0..all).map(|index| socket.write(index)).sum();
            let taken: u32 = (0..peers).map(|peer| socket.deliver(peer)).sum();
            idle = if wrote + taken == 0 { idle + 1 } else { 0 };
            prop_assert!(idle < 2, "nobody can go on: {} of {size} taken", socket.queued());
        }
    }
}

/// A receiver that asks for any number of messages and takes none has no more of what is beside the
/// buffer than is its part, and others have theirs: of a quarter of the buffer's size a first peer
/// has all, and of twice that the others have the other half.
#[test]
fn who_takes_nothing_leaves_others_what_is_beside_the_buffer() {
    let all = 2 * (1 << 20) / BESIDE_PART;
    let (mut has, mut count) = (0, 0);
    while let (more @ 1.., true) = promised(0, 1 << 20, 0, left(all - has, has, has, has)) {
        (has, count) = (has + more, count + 1);
    }
    assert!(count > 10 && has <= all / 2, "{count} messages have {has}");
    let other = promised(0, 1 << 20, 0, left(all - has, 0, 0, 0));
    assert!(other.1 && other.0 >= all / 8, "{other:?}");
}

#[test]
fn what_is_free_is_for_who_has_nothing_under_way() {
    // Free bytes that are too few for anybody else.
    assert_eq!(promised(32_700, 32_768, 0, 32_768), (32_700, false));
    assert_eq!(promised(32_700, 1000, 0, 32_768), (1000, false));
    // While some of it is under way it waits, unless there is more beside.
    assert_eq!(promised(32_700, 32_768, 1400, 32_768), (0, false));
    assert_eq!(promised(0, 65_536, 1400, 32_768), (16_384, true));
    assert_eq!(promised(0, 65_536, 0, 1), (1, true));
    assert_eq!(promised(0, 65_536, 0, 0), (0, false));
    assert_eq!(promised(32_700, 0, 0, 32_768), (0, false));
}
