// SPDX-License-Identifier: GPL-2.0
//! In which order peers have turns: each with one message in a round, as the hosts of RFC 970 with
//! one packet, so that whoever has many messages waiting is in nobody's way with more than one.

/// A queue's rounds.
#[derive(Debug, Default)]
pub struct Rounds {
    now: u32,
}

impl Rounds {
    /// Nobody has had a turn.
    pub const NEW: Self = Self { now: 0 };

    /// In which round a message has its turn that joins the queue when so many of its sender's are
    /// in it. Of a round, who has waited longest is first.
    pub fn of(&self, queued: u32) -> u32 {
        self.now.saturating_add(queued)
    }

    /// A message of this round has had its turn: whoever joins from now on has his in a later one,
    /// or a peer whose only message has had its turn would go before others' second ones for ever.
    pub fn reach(&mut self, round: u32) {
        self.now = self.now.max(round.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::collections::{BTreeMap, BTreeSet};
    use std::vec::Vec;

    #[test]
    fn who_has_many_messages_has_one_turn_in_a_round() {
        let (mut rounds, mut queue) = (Rounds::NEW, BTreeSet::new());
        let mut queued = BTreeMap::<char, u32>::new();
        let mut number = 0;
        let mut join =
            |peers: &str, rounds: &Rounds, queue: &mut BTreeSet<_>, queued: &mut BTreeMap<_, _>| {
                for peer in peers.chars() {
                    let has = queued.entry(peer).or_insert(0);
                    queue.insert((rounds.of(*has), number, peer));
                    *has += 1;
                    number += 1;
                }
            };
        let turn = |rounds: &mut Rounds, queue: &mut BTreeSet<_>, queued: &mut BTreeMap<_, u32>| {
            let (round, _, peer) = queue.pop_first().unwrap();
            rounds.reach(round);
            *queued.get_mut(&peer).unwrap() -= 1;
            peer
        };
        join("aaaaab", &rounds, &mut queue, &mut queued);
        let mut order = Vec::new();
        for _ in 0..3 {
            order.push(turn(&mut rounds, &mut queue, &mut queued));
        }
        assert_eq!(order, ['a', 'b', 'a']);
        // Who comes now waits for one message of each other, and so does who comes back.
        join("cb", &rounds, &mut queue, &mut queued);
        order.clear();
        while !queue.is_empty() {
            order.push(turn(&mut rounds, &mut queue, &mut queued));
        }
        assert_eq!(order, ['a', 'c', 'b', 'a', 'a']);
        // Who comes back each time does not keep the others from their turns.
        join("aaab", &rounds, &mut queue, &mut queued);
        order.clear();
        for _ in 0..6 {
            order.push(turn(&mut rounds, &mut queue, &mut queued));
            if order.last() == Some(&'b') {
                join("b", &rounds, &mut queue, &mut queued);
            }
        }
        assert_eq!(order, ['a', 'b', 'a', 'b', 'a', 'b']);
    }
}
