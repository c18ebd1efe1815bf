// SPDX-License-Identifier: GPL-2.0
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use super::*;

std::thread_local! {
    static STEPS: Cell<u32> = const { Cell::new(0) };
}

/// Counts look-ups, each of which is O(log n).
fn step() {
    STEPS.with(|steps| steps.set(steps.get() + 1));
}

fn steps<T>(what: impl FnOnce() -> T) -> (T, u32) {
    STEPS.with(|steps| steps.set(0));
    let result = what();
    (result, STEPS.with(Cell::get))
}

struct Std;

impl<K: Ord + Copy, V: Copy> Sorted<K, V> for BTreeMap<K, V> {
    type Room = ();
    fn at_least(&self, key: &K) -> Option<(K, V)> {
        step();
        self.range(key..).next().map(|(key, value)| (*key, *value))
    }
    fn at_most(&self, key: &K) -> Option<(K, V)> {
        step();
        let last = self.range(..=key).next_back();
        last.map(|(key, value)| (*key, *value))
    }
    fn get(&self, key: &K) -> Option<&V> {
        step();
        BTreeMap::get(self, key)
    }
    fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        step();
        BTreeMap::get_mut(self, key)
    }
    fn put(&mut self, (): (), key: K, value: V) -> Option<()> {
        step();
        self.insert(key, value).map(drop)
    }
    fn take(&mut self, key: &K) -> Option<((), V)> {
        step();
        self.remove(key).map(|value| ((), value))
    }
}

impl Maps for Std {
    type Of<K: Ord + Copy, V: Copy> = BTreeMap<K, V>;
    fn map<K: Ord + Copy, V: Copy>() -> BTreeMap<K, V> {
        BTreeMap::new()
    }
    fn room<K: Ord + Copy, V: Copy>() -> Option<()> {
        Some(())
    }
}

type Index = Ports<Std>;

fn rooms() -> Rooms<Std> {
    Rooms::new().unwrap()
}

fn v4(last: u8) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last]
}

fn v6(last: u8) -> [u8; 16] {
    [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]
}

fn many(number: u32) -> [u8; 16] {
    let mut ip = v6(0);
    ip[12..].copy_from_slice(&number.to_be_bytes());
    ip
}

fn peer(ip: [u8; 16], port: u16) -> Peer {
    Peer { ip, port, scope: 0 }
}

const FROM: Peer = Peer {
    ip: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99],
    port: 7,
    scope: 0,
};

/// A random number generator: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}

/// A socket, as a scan of all sees it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    handle: u64,
    port: u16,
    local: [u8; 16],
    v6only: bool,
    device: u32,
    peer: Option<Peer>,
    owner: Owner,
}

impl Seen {
    fn name(&self) -> Name {
        Name::new(self.port, self.local, self.v6only, self.device, self.peer)
    }

    fn serves(&self, ip: &[u8; 16]) -> bool {
        let is_v4 = ip.starts_with(&ANY_IPV4[..12]);
        if self.local == ANY {
            !self.v6only || !is_v4
        } else if self.local == ANY_IPV4 {
            is_v4
        } else {
            self.local == *ip
        }
    }

    fn collides(&self, other: &Seen) -> bool {
        let shares = self.owner == other.owner && self.owner != Owner::Alone;
        let devices = self.device == 0 || other.device == 0 || self.device == other.device;
        let addresses = self.serves(&other.local) || other.serves(&self.local);
        self.port == other.port && devices && addresses && !shares
    }

    /// How well it fits; 0: not at all.
    fn fits(&self, port: u16, from: &Peer, to: &[u8; 16], device: u32) -> u32 {
        let connected = self.peer.is_none_or(|peer| {
            (peer.ip, peer.port) == (from.ip, from.port)
                && (peer.scope == 0 || peer.scope == from.scope)
        });
        let device_fits = self.device == 0 || self.device == device;
        if self.port != port || !connected || !device_fits || !self.serves(to) {
            return 0;
        }
        let wild = self.local == ANY || self.local == ANY_IPV4;
        let dual = self.local == ANY && !self.v6only;
        1 + u32::from(!dual)
            + 2 * u32::from(!wild)
            + 8 * self.peer.map_or(0, |peer| {
                1 + u32::from(peer.scope != 0 && peer.scope == from.scope)
            })
            + 32 * u32::from(self.device != 0)
    }
}

fn any_socket(random: &mut Random, handle: u64) -> Seen {
    let local = random.one_of(&[ANY, ANY, ANY_IPV4, v4(1), v4(2), v6(1), v6(2)]);
    Seen {
        handle,
        port: random.one_of(&[5000, 5000, 5000, 5001]),
        local,
        v6only: random.below(2) == 0,
        device: random.one_of(&[0, 0, 2, 3]),
        peer: None,
        owner: random.one_of(&[
            Owner::Alone,
            Owner::Alone,
            Owner::Shares(0),
            Owner::Shares(7),
        ]),
    }
}

#[test]
fn finds_and_frees_what_a_scan_of_all_sockets_does() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let mut index = Index::new(0x5ec2_e700_1234_5678);
    let mut all: Vec<Seen> = Vec::new();
    let mut handle = 0;
    let (mut bound, mut refused, mut found, mut shared) = (0, 0, 0, 0);
    for _ in 0..60_000 {
        match random.below(8) {
            0 | 1 => {
                handle += 1;
                let new = any_socket(&mut random, handle);
                let free = !all.iter().any(|other| new.collides(other));
                assert_eq!(index.is_free(&new.name(), new.owner), free, "{new:?}");
                if free {
                    index.add(rooms(), handle, new.name(), new.owner);
                    all.push(new);
                    bound += 1;
                } else {
                    refused += 1;
                }
            }
            2 if !all.is_empty() => {
                let at = random.below(all.len() as u64) as usize;
                index.remove(all.swap_remove(at).handle);
            }
            3 if !all.is_empty() => {
                let at = random.below(all.len() as u64) as usize;
                let socket = &mut all[at];
                socket.local = random.one_of(&[socket.local, ANY, v4(1), v6(1), v6(2)]);
                socket.device = random.one_of(&[socket.device, 0, 2]);
                let other = peer(random.one_of(&[v4(9), v6(9)]), random.one_of(&[1, 2]));
                let scoped = Peer { scope: 2, ..other };
                socket.peer = random.one_of(&[None, Some(other), Some(scoped)]);
                index.rename(socket.handle, socket.name());
            }
            _ => {
                let from = Peer {
                    ip: random.one_of(&[v4(9), v6(9)]),
                    port: random.one_of(&[1, 2]),
                    scope: random.one_of(&[0, 2]),
                };
                let to = random.one_of(&[v4(1), v4(2), v4(3), v6(1), v6(2), v6(3)]);
                let port = random.one_of(&[5000, 5001, 5002]);
                let device = random.one_of(&[2, 3, 4]);
                let score = |seen: &&Seen| seen.fits(port, &from, &to, device);
                let best = all.iter().max_by_key(score).filter(|seen| score(seen) != 0);
                let got = index.find(port, &from, &to, &[device]);
                let got = got.and_then(|handle| all.iter().find(|seen| seen.handle == handle));
                assert_eq!(
                    got.as_ref().map(score),
                    best.as_ref().map(score),
                    "{got:?}, {best:?}"
                );
                found += u32::from(got.is_some());
                shared += u32::from(got.is_some_and(|got| got.owner != Owner::Alone));
            }
        }
    }
    assert!(bound > 1000 && refused > 1000 && found > 1000 && shared > 1000);
    for socket in all {
        index.remove(socket.handle);
    }
    assert!(index.shapes.is_empty() && index.sockets.is_empty());
    assert!(index.members.is_empty() && index.claims.is_empty());
}

/// Sockets of every kind beside those that are many, so that nothing can be left out.
fn crowd(index: &mut Index, count: u32) {
    for number in 0..count {
        let name = Name::new(5000, many(number), false, 0, None);
        assert!(index.is_free(&name, Owner::Alone));
        index.add(rooms(), u64::from(number), name, Owner::Alone);
    }
    let mut handle = u64::from(count);
    for device in [0, 2, 3] {
        for connected in [false, true] {
            for local in [ANY, ANY_IPV4, v4(1)] {
                handle += 1;
                let other = connected.then(|| peer(v4(77), 1));
                let name = Name::new(5000, local, false, device, other);
                index.add(rooms(), handle, name, Owner::Alone);
            }
        }
    }
}

#[test]
fn a_message_takes_as_many_lookups_among_16000_sockets_as_among_ten() {
    for count in [10, 100, 1000, 16_000, 100_000] {
        let mut index = Index::new(0x5ec2_e700_1234_5678);
        crowd(&mut index, count);
        for number in (0..count).step_by(7).chain(count..count + 50) {
            let link_local = Peer { scope: 2, ..FROM };
            for from in [FROM, link_local, peer(v4(77), 1)] {
                let (_, taken) = steps(|| index.find(5000, &from, &many(number), &[2, 3]));
                assert!(
                    taken <= 1 + 3 * 3 * 3,
                    "{taken} look-ups with {count} sockets"
                );
            }
        }
        let wanted = Name::new(5000, many(count), false, 0, None);
        let (_, taken) = steps(|| index.is_free(&wanted, Owner::Alone));
        assert!(taken <= 7, "{taken} look-ups with {count} sockets");
        let everything = Name::new(5000, ANY, false, 4, None);
        let (_, taken) = steps(|| index.is_free(&everything, Owner::Shares(1)));
        assert!(taken <= 13, "{taken} look-ups with {count} sockets");
        let moved = Name::new(5000, many(0), false, 0, Some(FROM));
        let ((), taken) = steps(|| index.rename(0, moved));
        assert!(taken <= 16, "{taken} look-ups with {count} sockets");
        let ((), taken) = steps(|| index.remove(1));
        assert!(taken <= 10, "{taken} look-ups with {count} sockets");
    }
}

#[test]
fn sockets_of_one_user_that_share_a_port_get_equal_parts_of_the_senders() {
    let mut index = Index::new(0x5ec2_e700_1234_5678);
    let name = Name::new(5000, ANY, false, 0, None);
    for handle in 0..1000 {
        assert!(index.is_free(&name, Owner::Shares(5)));
        index.add(rooms(), handle, name, Owner::Shares(5));
    }
    assert!(!index.is_free(&name, Owner::Alone));
    assert!(!index.is_free(&name, Owner::Shares(6)));
    // Leaving closes the gaps.
    for handle in (0..1000).filter(|handle| handle % 4 != 0) {
        index.remove(handle);
    }
    let mut got = BTreeMap::new();
    for sender in 0..25_000_u32 {
        let from = peer(many(sender / 100), (sender % 100) as u16);
        let (found, taken) = steps(|| index.find(5000, &from, &v6(1), &[1]));
        assert!(taken <= 3, "{taken} look-ups");
        let again = index.find(5000, &from, &v6(1), &[1]);
        assert_eq!(found, again);
        *got.entry(found.unwrap()).or_insert(0) += 1;
    }
    let members: BTreeSet<u64> = got.keys().copied().collect();
    assert_eq!(
        members,
        (0..1000).filter(|handle| handle % 4 == 0).collect()
    );
    assert!(
        got.values().all(|count| (50..=150).contains(count)),
        "{got:?}"
    );
}

#[test]
fn a_connected_sibling_takes_its_peers_messages_and_no_others() {
    let mut index = Index::new(0x5ec2_e700_1234_5678);
    let open = Name::new(5000, ANY, false, 0, None);
    index.add(rooms(), 1, open, Owner::Shares(5));
    index.add(rooms(), 2, open, Owner::Shares(5));
    index.rename(2, Name::new(5000, v6(1), false, 0, Some(FROM)));
    let find = |index: &Index, from: &Peer| index.find(5000, from, &v6(1), &[1]);
    assert_eq!(find(&index, &FROM), Some(2));
    for port in 8..50 {
        assert_eq!(find(&index, &Peer { port, ..FROM }), Some(1));
    }
    // It is connected no longer, and one of two.
    index.rename(2, open);
    let senders = (7..50).map(|port| Peer { port, ..FROM });
    let found: BTreeSet<_> = senders.map(|from| find(&index, &from)).collect();
    assert_eq!(found, [Some(1), Some(2)].into());
    index.remove(1);
    assert_eq!(find(&index, &FROM), Some(2));
    index.remove(2);
    assert_eq!(find(&index, &FROM), None);
    // Of no socket, and of one that is gone.
    index.remove(2);
    index.rename(2, open);
    assert_eq!(find(&index, &FROM), None);
}

#[test]
fn all_sockets_of_a_name_are_found_by_their_places() {
    let mut index = Index::new(0x5ec2_e700_1234_5678);
    let name = Name::new(5000, v6(1), false, 0, None);
    for handle in 1..=50 {
        index.add(rooms(), handle, name, Owner::Shares(5));
    }
    for handle in (1..=50).filter(|handle| handle % 3 == 0) {
        index.remove(handle);
    }
    index.add(
        rooms(),
        99,
        Name::new(5000, ANY, false, 0, None),
        Owner::Alone,
    );
    let (found, taken) = steps(|| {
        let members = (0..).map_while(|place| index.member(&name, place));
        members.collect::<BTreeSet<u64>>()
    });
    let left: BTreeSet<u64> = (1..=50).filter(|handle| handle % 3 != 0).collect();
    assert_eq!(found, left);
    assert_eq!(taken as usize, left.len() + 1, "a look-up for each");
    let other = Name::new(5001, v6(1), false, 0, None);
    assert_eq!(index.member(&other, 0), None);
}
