// SPDX-License-Identifier: GPL-2.0
use std::vec::Vec;

use super::*;
use crate::transport::testing::Std;

const KEY: Key = Key::new([7, 8]);
const ALL: u32 = 4096;

struct Places {
    shares: Shares<Std>,
    taken: Vec<Shared>,
}

impl Places {
    fn new() -> Self {
        Self {
            shares: Shares::new(),
            taken: Vec::new(),
        }
    }

    fn begin(&mut self, user: u32, peer: u32) -> bool {
        let free = ALL - self.taken.len() as u32;
        if !self.shares.may_begin(&KEY, user, Some(peer), free) {
            return false;
        }
        self.taken.push(self.shares.join(&KEY, user, peer).unwrap());
        true
    }

    fn fill(&mut self, user: u32, peer: u32) -> u32 {
        let mut count = 0;
        while self.begin(user, peer) {
            count += 1;
        }
        count
    }
}

#[test]
fn a_peer_takes_a_quarter_and_a_user_half() {
    let mut places = Places::new();
    assert_eq!(places.fill(0, 1), ALL / 4);
    assert!(places.begin(0, 2), "another peer of the same user");
    assert!(places.begin(1, 1), "another user at the same peer");
    let mut others = 0;
    for peer in 2..1000 {
        others += places.fill(0, peer);
    }
    assert!(ALL / 4 + 1 + others <= ALL / 2);
    assert!(places.fill(1, 1) > 500, "half is left for others");
}

#[test]
fn a_user_with_nothing_always_finds_a_place() {
    let mut places = Places::new();
    for user in 0..8 {
        for peer in 0..16 {
            places.fill(user, peer);
        }
    }
    assert!(places.begin(100, 0));
}

/// Who was there first has no more in the end: dead peers of one user come to have the same.
#[test]
fn peers_that_want_all_come_to_have_alike() {
    const PEERS: usize = 20;
    let mut places = Places::new();
    let mut of: Vec<Vec<Shared>> = (0..PEERS).map(|_| Vec::new()).collect();
    for round in 0..200_000 {
        // One message ends, that of the peer whose turn it is, and all want its place.
        let peer = round % PEERS;
        if let Some(shared) = of[peer].pop() {
            places.shares.leave(shared);
        }
        for wants in 0..PEERS {
            let wants = (wants + round) % PEERS;
            let taken: usize = of.iter().map(Vec::len).sum();
            let free = ALL - taken as u32;
            if places.shares.may_begin(&KEY, 0, Some(wants as u32), free) {
                of[wants].push(places.shares.join(&KEY, 0, wants as u32).unwrap());
            }
        }
    }
    let (least, most) = of
        .iter()
        .map(Vec::len)
        .fold((usize::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
    assert!(least + 3 >= most && least > 90, "{least}..{most}");
}

#[test]
fn little_is_kept_of_those_who_have_nothing() {
    let mut places = Places::new();
    for user in 0..10 {
        places.fill(user, user);
    }
    assert!(places.shares.len() >= 20);
    for shared in places.taken.drain(..) {
        places.shares.leave(shared);
    }
    // But for one user and one peer, unless they are at the table's end.
    assert!(places.shares.len() <= 2);
    let shared = places.shares.join(&KEY, 1, 1).unwrap();
    places.shares.leave(shared);
    assert_eq!(places.shares.len(), 2);
}
