// SPDX-License-Identifier: GPL-2.0
//! Who is next on a link, of the messages that go out by it and are paced by their senders.
//!
//! Peers have turns, and each peer's messages have theirs among these: who has a thousand messages
//! under way to one host keeps what goes to another one waiting for a packet, not for a thousand.
//! It is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996): a packet that has to wait
//! gets a number, that of the packet which the link sends, or what the peer's last one has and its
//! bytes, if that is more; the least number is first. A message has one packet waiting at most, and
//! those of a peer follow one another, so that they go round.
//!
//! A peer has a number on each link. With one for all, who is sent to by two links in turn would be
//! new to each of them every time, and so before all others.

use super::heap::{Nodes, Places};
use super::host::Memory;
use super::paged::{unlimited, Paged};

/// The messages that wait for one link.
pub(crate) struct Line<M: Memory> {
    waiting: Nodes<M, u64>,
    /// The number of the packet that was sent last.
    at: u64,
    /// What a peer's next packet counts from, by the peer's index.
    owns: Paged<M, u64>,
    /// How many messages go out by the link.
    pub(crate) senders: u32,
}

impl<M: Memory> Line<M> {
    pub(crate) const NEW: Self = Self {
        waiting: Nodes::new(),
        at: 0,
        owns: Paged::new(),
        senders: 0,
    };

    /// Makes room for one more, to this peer. `false`: no memory.
    pub(crate) fn reserve(&mut self, peer: u32) -> bool {
        self.waiting.reserve_some(self.senders, &mut unlimited())
            && self.owns.reserve(peer, u64::default)
    }

    /// Gives back some of the room.
    pub(crate) fn shrink(&mut self) {
        self.waiting.shrink(self.senders);
    }

    /// Gives back some of the room beyond `keep` peers.
    pub(crate) fn shrink_peers(&mut self, keep: u32) {
        while self.owns.shrink(keep) {}
    }

    /// Nobody waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.len() == 0
    }

    /// A packet's number.
    #[inline]
    fn number(&mut self, peer: u32, wire_len: u32) -> u64 {
        let Some(next) = self.owns.get_mut(peer) else {
            return self.at;
        };
        let number = self.at.max(*next);
        *next = number.saturating_add(wire_len.into());
        number
    }

    /// A packet is sent for which nobody waits.
    #[inline]
    pub(crate) fn pass(&mut self, peer: u32, wire_len: u32) {
        self.at = self.number(peer, wire_len);
    }

    /// A peer's message waits with a packet of so many bytes.
    pub(crate) fn wait(
        &mut self,
        places: &mut Places<M>,
        (index, peer): (u32, u32),
        wire_len: u32,
    ) {
        let number = self.number(peer, wire_len);
        self.waiting.set(places, index, number);
    }

    /// The next message waits no longer: its index.
    pub(crate) fn take(&mut self, places: &mut Places<M>) -> Option<u32> {
        let (number, index) = self.waiting.first()?;
        self.waiting.remove(places, index);
        self.at = number;
        Some(index)
    }

    /// A message that waited needs its turn no more; its peer's next ones come sooner.
    pub(crate) fn leave(
        &mut self,
        places: &mut Places<M>,
        (index, peer): (u32, u32),
        wire_len: u32,
    ) {
        if self.waiting.key(places, index).is_some() {
            self.waiting.remove(places, index);
            if let Some(next) = self.owns.get_mut(peer) {
                *next = next.saturating_sub(wire_len.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::transport::testing::Std;

    const LEN: u32 = 1000;

    /// Messages with these indices, to these peers, wait.
    fn waiting(all: &[u32]) -> (Line<Std>, Places<Std>) {
        let (mut line, mut places) = (Line::<Std>::NEW, Places::new());
        for whose in (0..).zip(all.iter().copied()) {
            assert!(places.reserve(whose.0) && line.reserve(whose.1));
            line.senders += 1;
            line.wait(&mut places, whose, LEN);
        }
        (line, places)
    }

    /// Lets so many packets go, of messages that wait again at once: how many of each.
    fn run(line: &mut Line<Std>, places: &mut Places<Std>, of: &[u32], count: u32) -> Vec<u32> {
        let mut sent = std::vec![0; of.len()];
        for _ in 0..count {
            let index = line.take(places).unwrap();
            sent[index as usize] += 1;
            line.wait(places, (index, of[index as usize]), LEN);
        }
        sent
    }

    #[test]
    fn peers_have_turns_and_their_messages_too() {
        // A hundred to one peer, one to another, and two to a third.
        let of: Vec<u32> = (0..103_u32).map(|i| i.saturating_sub(99).min(2)).collect();
        let (mut line, mut places) = waiting(&of);
        let sent = run(&mut line, &mut places, &of, 3000);
        let of_first: u32 = sent[..100].iter().sum();
        assert!(of_first.abs_diff(1000) <= 2, "{of_first}");
        assert!(
            sent[..100].iter().all(|it| (9..=11).contains(it)),
            "{sent:?}"
        );
        assert!(sent[100].abs_diff(1000) <= 2 && sent[101].abs_diff(500) <= 2);
    }

    #[test]
    fn who_comes_waits_for_a_packet_of_each() {
        let (mut line, mut places) = waiting(&[0; 100]);
        assert!(places.reserve(100) && line.reserve(1));
        line.senders += 1;
        run(&mut line, &mut places, &[0; 100], 5000);
        line.wait(&mut places, (100, 1), LEN);
        let first = [line.take(&mut places), line.take(&mut places)];
        assert!(first.contains(&Some(100)), "{first:?}");
        for index in 0..100 {
            line.leave(&mut places, (index, 0), LEN);
        }
        // What has left keeps its peer from nothing.
        let next = line.number(0, 0);
        assert!(line.is_empty() && next <= line.at + u64::from(LEN));
    }

    /// A peer that is sent to by two links in turn, as its ACKs come by both, has its turns on each
    /// of them as others have.
    #[test]
    fn who_uses_two_links_is_not_first_on_each() {
        let mut lines = [Line::<Std>::NEW, Line::<Std>::NEW];
        let mut places = Places::new();
        // Messages 0 and 1 are of the first peer, by either link; 2 is of another, by the first.
        let all = [(0, 0), (0, 1), (1, 0_usize)];
        for (index, (peer, link)) in (0..).zip(all) {
            assert!(places.reserve(index) && lines[link].reserve(peer));
            lines[link].senders += 1;
            lines[link].wait(&mut places, (index, peer), LEN);
        }
        let mut sent = [0_u32; 3];
        for turn in 0..2000 {
            let index = lines[turn % 2].take(&mut places).unwrap();
            sent[index as usize] += 1;
            let (peer, link) = all[index as usize];
            lines[link].wait(&mut places, (index, peer), LEN);
        }
        assert!(sent[0].abs_diff(sent[2]) <= 2, "{sent:?}");
    }
}
