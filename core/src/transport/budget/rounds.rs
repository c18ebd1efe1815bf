// SPDX-License-Identifier: GPL-2.0
//! In which order peers have turns: each with one message in a round, as the hosts of RFC 970 with
//! one packet, so that whoever has many messages waiting is in nobody's way with more than one.

/// A queue's rounds.
#[derive(Debug, Default)]
pub struct Rounds {
    now: u64,
}

/// A sender's turns in a queue: of its messages there the first has the next one.
#[derive(Debug, Default)]
pub struct Turns {
    round: u64,
}

impl Rounds {
    /// Nobody has had a turn.
    pub const NEW: Self = Self { now: 0 };

    /// A message joins the queue, in which its sender has no other one: in which round that has its
    /// turn. Of a round, who has waited longest is first.
    pub fn join(&self, sender: &mut Turns) -> u64 {
        sender.round = sender.round.max(self.now);
        sender.round
    }

    /// A message of this round has had its turn. Its sender's next one has it in the round that is
    /// returned, which is a later one, and so has whoever joins from now on: or a peer whose only
    /// message has had its turn would go before others' second ones for ever.
    pub fn reach(&mut self, round: u64, sender: &mut Turns) -> u64 {
        self.now = self.now.max(round.saturating_add(1));
        // Who has been passed over for rounds does not make up for them at others' cost.
        sender.round = sender.round.max(self.now);
        self.now
    }

    /// A message of a sender has what others wait for: those that join now go before its sender's
    /// next one, whose round is returned.
    pub fn pass(&self, sender: &mut Turns) -> u64 {
        sender.round = sender.round.max(self.now.saturating_add(1));
        sender.round
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::collections::{BTreeMap, BTreeSet};
    use std::vec::Vec;

    /// A queue, and what each peer has in it.
    #[derive(Default)]
    struct Queue {
        rounds: Rounds,
        first: BTreeSet<(u64, u32, char)>,
        peers: BTreeMap<char, (Turns, Vec<u32>)>,
        number: u32,
    }

    impl Queue {
        fn join(&mut self, peers: &str) {
            for peer in peers.chars() {
                let (turns, numbers) = self.peers.entry(peer).or_default();
                if numbers.is_empty() {
                    let round = self.rounds.join(turns);
                    self.first.insert((round, self.number, peer));
                }
                numbers.push(self.number);
                self.number += 1;
            }
        }

        /// The message that a peer's first one is followed by has its turn in this round.
        fn follow(&mut self, round: u64, peer: char) {
            let numbers = &mut self.peers.get_mut(&peer).unwrap().1;
            numbers.remove(0);
            if let Some(number) = numbers.first() {
                self.first.insert((round, *number, peer));
            }
        }

        /// Who has the next turn.
        fn turn(&mut self) -> char {
            let (round, _, peer) = self.first.pop_first().unwrap();
            let next = self
                .rounds
                .reach(round, &mut self.peers.get_mut(&peer).unwrap().0);
            self.follow(next, peer);
            peer
        }

        fn turns(&mut self, count: u32) -> Vec<char> {
            (0..count).map(|_| self.turn()).collect()
        }

        /// A peer ends all of its messages but the last.
        fn end_all_but_one(&mut self, peer: char) {
            while self.peers[&peer].1.len() > 1 {
                let first = *self.first.iter().find(|it| it.2 == peer).unwrap();
                self.first.remove(&first);
                self.follow(first.0, peer);
            }
        }
    }

    #[test]
    fn who_has_many_messages_has_one_turn_in_a_round() {
        let mut queue = Queue::default();
        queue.join("aaaaab");
        assert_eq!(queue.turns(3), ['a', 'b', 'a']);
        // Who comes now waits for one message of each other, and so does who comes back.
        queue.join("cb");
        assert_eq!(queue.turns(5), ['a', 'c', 'b', 'a', 'a']);
        // Who comes back each time does not keep the others from their turns.
        queue.join("aaab");
        let mut order = Vec::new();
        for _ in 0..6 {
            order.push(queue.turn());
            if order.last() == Some(&'b') {
                queue.join("b");
            }
        }
        assert_eq!(order, ['a', 'b', 'a', 'b', 'a', 'b']);
    }

    /// A peer joins with 100 messages, ends all but the last, and so on: so it would have 100 in
    /// one round, or would wait for 100 rounds, if each had its round when it comes.
    #[test]
    fn who_ends_messages_has_one_turn_in_a_round() {
        let mut queue = Queue::default();
        for _ in 0..100 {
            queue.join(&"a".repeat(100));
            queue.end_all_but_one('a');
        }
        queue.join(&"a".repeat(100));
        queue.join("b");
        for _ in 0..50 {
            assert_eq!(queue.turns(2), ['a', 'b']);
            queue.join("b");
        }
    }

    #[test]
    fn who_has_what_others_wait_for_has_had_a_turn() {
        let mut queue = Queue::default();
        let turns = &mut queue.peers.entry('a').or_default().0;
        // Any number of times while nobody waited.
        for _ in 0..100 {
            queue.rounds.pass(turns);
        }
        queue.join("aabbb");
        assert_eq!(queue.turns(5), ['b', 'a', 'b', 'a', 'b']);
    }
}
