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
//! Among the messages of a peer one that has just begun goes before those that have sent more: it
//! is soon over, and they wait for it as long as it has waited for them otherwise. It takes the
//! peer's turn, and leaves its own to the one that had it. That is no matter for other peers; and
//! after some turns in a row ([`AT_ONCE`]) one is the others', so that they go on whatever begins.
//!
//! A peer has a number on each link. With one for all, who is sent to by two links in turn would be
//! new to each of them every time, and so before all others.

use super::heap::{Nodes, Places};
use super::host::Memory;
use super::paged::{unlimited, Paged};

/// So many turns in a row a peer's messages that have just begun take from its others.
const AT_ONCE: u8 = 7;
/// The index of no message.
const NOBODY: u32 = u32::MAX;

/// What a link knows of a peer.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// What its next packet counts from.
    next: u64,
    /// A message of it that waits and has just begun, or [`NOBODY`].
    young: u32,
    /// How many turns such ones have taken in a row.
    taken: u8,
}

impl Own {
    const NEW: Self = Self {
        next: 0,
        young: NOBODY,
        taken: 0,
    };
}

/// A message that waits, or is about to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whose {
    pub(crate) index: u32,
    /// The peer's index.
    pub(crate) peer: u32,
    /// It has just begun.
    pub(crate) young: bool,
}

/// The messages that wait for one link.
pub(crate) struct Line<M: Memory> {
    waiting: Nodes<M, u64>,
    /// The number of the packet that was sent last.
    at: u64,
    /// By the peer's index.
    owns: Paged<M, Own>,
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
            && self.owns.reserve(peer, || Own::NEW)
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
        let Some(own) = self.owns.get_mut(peer) else {
            return self.at;
        };
        let number = self.at.max(own.next);
        own.next = number.saturating_add(wire_len.into());
        number
    }

    /// A packet is sent for which nobody waits.
    #[inline]
    pub(crate) fn pass(&mut self, peer: u32, wire_len: u32) {
        self.at = self.number(peer, wire_len);
    }

    /// A message waits with a packet of so many bytes.
    pub(crate) fn wait(&mut self, places: &mut Places<M>, whose: Whose, wire_len: u32) {
        let number = self.number(whose.peer, wire_len);
        self.waiting.set(places, whose.index, number);
        let own = self.owns.get_mut(whose.peer).filter(|_| whose.young);
        if let Some(own) = own.filter(|own| own.young == NOBODY) {
            own.young = whose.index;
        }
    }

    /// The next message waits no longer: its index. `peer`: whose a message is.
    pub(crate) fn take(
        &mut self,
        places: &mut Places<M>,
        peer: impl Fn(u32) -> Option<u32>,
    ) -> Option<u32> {
        let (number, index) = self.waiting.first()?;
        let mut next = index;
        if let Some(own) = peer(index).and_then(|peer| self.owns.get_mut(peer)) {
            if own.young == NOBODY || own.young == index || own.taken >= AT_ONCE {
                own.taken = 0;
            } else {
                next = own.young;
                own.taken = own.taken.saturating_add(1);
            }
            if own.young == next {
                own.young = NOBODY;
            }
        }
        let later = self.waiting.key(places, next);
        self.waiting.remove(places, next);
        if let Some(later) = later.filter(|_| next != index) {
            self.waiting.set(places, index, later);
        }
        self.at = number;
        Some(next)
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
            if let Some(own) = self.owns.get_mut(peer) {
                own.next = own.next.saturating_sub(wire_len.into());
                if own.young == index {
                    own.young = NOBODY;
                }
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

    /// A message that has sent much, by its index and its peer's.
    fn old((index, peer): (u32, u32)) -> Whose {
        Whose {
            index,
            peer,
            young: false,
        }
    }

    /// Messages with these indices, to these peers, wait.
    fn waiting(all: &[u32]) -> (Line<Std>, Places<Std>) {
        let (mut line, mut places) = (Line::<Std>::NEW, Places::new());
        for whose in (0..).zip(all.iter().copied()) {
            assert!(places.reserve(whose.0) && line.reserve(whose.1));
            line.senders += 1;
            line.wait(&mut places, old(whose), LEN);
        }
        (line, places)
    }

    fn take(line: &mut Line<Std>, places: &mut Places<Std>, of: &[u32]) -> u32 {
        line.take(places, |index| of.get(index as usize).copied())
            .unwrap()
    }

    /// Lets so many packets go, of messages that wait again at once: how many of each.
    fn run(line: &mut Line<Std>, places: &mut Places<Std>, of: &[u32], count: u32) -> Vec<u32> {
        let mut sent = std::vec![0; of.len()];
        for _ in 0..count {
            let index = take(line, places, of);
            sent[index as usize] += 1;
            line.wait(places, old((index, of[index as usize])), LEN);
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
        line.wait(&mut places, old((100, 1)), LEN);
        let first = [0; 2].map(|_| take(&mut line, &mut places, &[0; 100]));
        assert!(first.contains(&100), "{first:?}");
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
            lines[link].wait(&mut places, old((index, peer)), LEN);
        }
        let mut sent = [0_u32; 3];
        for turn in 0..2000 {
            let index = take(&mut lines[turn % 2], &mut places, &[0, 0, 1]);
            sent[index as usize] += 1;
            let (peer, link) = all[index as usize];
            lines[link].wait(&mut places, old((index, peer)), LEN);
        }
        assert!(sent[0].abs_diff(sent[2]) <= 2, "{sent:?}");
    }

    /// Who has just begun has the peer's turns, of which every eighth is the others'; another peer
    /// has as many as before.
    #[test]
    fn who_has_just_begun_goes_before_others_of_its_peer() {
        let of = [0, 0, 0, 1, 0];
        let (mut line, mut places) = waiting(&of[..4]);
        assert!(places.reserve(4));
        line.senders += 1;
        let young = Whose {
            young: true,
            ..old((4, 0))
        };
        line.wait(&mut places, young, LEN);
        let mut sent = [0_u32; 5];
        for _ in 0..1600 {
            let index = take(&mut line, &mut places, &of);
            sent[index as usize] += 1;
            let whose = match index {
                4 => young,
                _ => old((index, of[index as usize])),
            };
            line.wait(&mut places, whose, LEN);
        }
        assert!(sent[3].abs_diff(800) <= 4, "{sent:?}");
        assert!(sent[4].abs_diff(700) <= 4, "{sent:?}");
        let others: u32 = sent[..3].iter().sum();
        assert!(others.abs_diff(100) <= 4, "{sent:?}");
        // It ends while it waits.
        line.leave(&mut places, (4, 0), LEN);
        let sent = run(&mut line, &mut places, &of[..4], 600);
        assert!(sent[..3].iter().all(|it| it.abs_diff(100) <= 2), "{sent:?}");
    }
}
