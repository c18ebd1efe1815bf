// SPDX-License-Identifier: GPL-2.0
//! What the peers of a send buffer have of it.

use crate::memory::runs_out_after;
use crate::room::Peers;
use crate::{peer, SockAddress};
use proptest::prelude::*;

/// Two networks, and several ports of each host.
const PEERS: [u16; 5] = [0, 1, 2, 256, 257];
const PORTS: u16 = 3;

#[derive(Clone, Debug)]
enum Step {
    /// A message to a peer takes so many bytes; with so much memory.
    Begin(SockAddress, u32, Option<u32>),
    /// One of those under way has so many more.
    More(usize, u32),
    /// It has so many less.
    Less(usize, u32),
    /// It ends.
    End(usize),
}

fn any_peer() -> impl Strategy<Value = SockAddress> {
    let peers = prop::sample::select(PEERS.to_vec());
    (peers, 0..PORTS).prop_map(|(number, port)| SockAddress {
        port,
        ..peer(number)
    })
}

fn step() -> impl Strategy<Value = Step> {
    let memory = prop::option::weighted(0.2, 0_u32..4);
    prop_oneof![
        3 => (any_peer(), 1_u32..5000, memory).prop_map(|(to, bytes, memory)| {
            Step::Begin(to, bytes, memory)
        }),
        1 => (0_usize..8, 0_u32..5000).prop_map(|(at, bytes)| Step::More(at, bytes)),
        1 => (0_usize..8, 0_u32..5000).prop_map(|(at, bytes)| Step::Less(at, bytes)),
        3 => (0_usize..8).prop_map(Step::End),
    ]
}

proptest! {
    /// Whoever is named in whatever order, and without memory: sums are those of the messages.
    #[test]
    fn sums_are_those_of_the_messages(
        steps in prop::collection::vec((step(), any_peer()), 1..200),
    ) {
        let mut peers = Peers::new();
        let mut messages: Vec<(SockAddress, u32)> = Vec::new();
        for (step, asked) in steps {
            match step {
                Step::Begin(to, bytes, memory) => {
                    runs_out_after(memory.unwrap_or(u32::MAX));
                    if peers.prepare(&to).is_ok() {
                        peers.more(&to, bytes);
                        messages.push((to, bytes));
                    }
                    runs_out_after(u32::MAX);
                }
                Step::More(at, bytes) => {
                    if let Some((to, has)) = messages.get_mut(at) {
                        peers.more(to, bytes);
                        *has += bytes;
                    }
                }
                Step::Less(at, bytes) => {
                    if let Some((to, has)) = messages.get_mut(at) {
                        // Each keeps a byte until it ends.
                        let bytes = bytes.min(*has - 1);
                        prop_assert!(!peers.less(to, bytes));
                        *has -= bytes;
                    }
                }
                Step::End(at) => {
                    if at < messages.len() {
                        let (to, bytes) = messages.swap_remove(at);
                        let last = messages.iter().all(|(other, _)| *other != to);
                        prop_assert_eq!(peers.less(&to, bytes), last);
                    }
                }
            }
            let sum = |is: &dyn Fn(&SockAddress) -> bool| {
                let of = messages.iter().filter(|(to, _)| is(to));
                of.map(|(_, bytes)| bytes).sum::<u32>()
            };
            let expected = [
                sum(&|to| *to == asked),
                sum(&|to| to.ip == asked.ip),
                sum(&|to| to.ip[..15] == asked.ip[..15]),
            ];
            prop_assert_eq!(peers.of(&asked), expected);
        }
    }
}
