// SPDX-License-Identifier: GPL-2.0
//! Which sockets have which ports, and which of them a message is for.
//!
//! A socket's [`Name`] is what messages find it by: its port, its local address, its device and, if
//! it is connected, its peer. There are few kinds of names that can fit a message, and each is
//! looked up by itself, from the most to the least specific one; so a message costs O(log n)
//! however many sockets have its port, and so does asking whether a port is free.
//!
//! Sockets with equal names (`SO_REUSEPORT`) are a group. Its members have places from 0 on, so
//! that a hash of the sender names one of them.
//!
//! Memory is had ahead: [`Rooms`] is what one socket takes, and is enough for it to move as often
//! as it likes.

use super::host::is_ipv4;

/// No particular address.
const ANY: [u8; 16] = [0; 16];
const ANY_IPV4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];

/// A sorted map, each of whose operations takes O(log n).
pub trait Sorted<K: Copy, V: Copy> {
    /// Memory for one entry.
    type Room;
    /// The first entry whose key is at least this one.
    fn at_least(&self, key: &K) -> Option<(K, V)>;
    /// The last entry whose key is at most this one.
    fn at_most(&self, key: &K) -> Option<(K, V)>;
    /// The entry with this key.
    fn get(&self, key: &K) -> Option<&V>;
    /// The same, to be changed.
    fn get_mut(&mut self, key: &K) -> Option<&mut V>;
    /// Puts an entry there, and gives back what was there before, if there was anything.
    fn put(&mut self, room: Self::Room, key: K, value: V) -> Option<Self::Room>;
    /// Takes an entry out.
    fn take(&mut self, key: &K) -> Option<(Self::Room, V)>;
}

/// Makes sorted maps.
pub trait Maps {
    /// A map.
    type Of<K: Ord + Copy, V: Copy>: Sorted<K, V>;
    /// An empty one.
    fn map<K: Ord + Copy, V: Copy>() -> Self::Of<K, V>;
    /// Memory for an entry of such a map; `None` if there is none.
    fn room<K: Ord + Copy, V: Copy>() -> Option<RoomOf<Self, K, V>>;
}

type RoomOf<M, K, V> = <<M as Maps>::Of<K, V> as Sorted<K, V>>::Room;

/// Which addresses a socket serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// All, of IPv4 and IPv6.
    Dual,
    V4,
    V6,
}

/// A socket's peer, as it is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// IPv4 as `::ffff:a.b.c.d`.
    pub ip: [u8; 16],
    /// Its port.
    pub port: u16,
    /// The interface of a link-local address; otherwise 0.
    pub scope: u32,
}

/// What a message finds a socket by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    port: u16,
    kind: Kind,
    device: u32,
    /// All zero: any of the kind.
    local: [u8; 16],
    peer: Option<Peer>,
}

/// What names are counted by: whether they say a device and a peer, and how much of an address.
type Shape = [[[u32; 3]; 2]; 2];

impl Name {
    /// The name of a socket. `local` all zero is any address, unless `v6only` any of IPv6;
    /// `::ffff:0.0.0.0` is any of IPv4. `device` 0 is any.
    pub fn new(port: u16, local: [u8; 16], v6only: bool, device: u32, peer: Option<Peer>) -> Self {
        let (kind, local) = if local == ANY {
            (if v6only { Kind::V6 } else { Kind::Dual }, ANY)
        } else if local == ANY_IPV4 {
            (Kind::V4, ANY)
        } else {
            (kind_of(&local), local)
        };
        Self {
            port,
            kind,
            device,
            local,
            peer,
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn shape<'a>(&self, counts: &'a mut Shape) -> &'a mut u32 {
        let [of_any, of_one] = counts;
        let of_device = if self.device == 0 { of_any } else { of_one };
        let [unconnected, connected] = of_device;
        let [dual, any, one] = if self.peer.is_none() {
            unconnected
        } else {
            connected
        };
        match (self.kind, self.local == ANY) {
            (Kind::Dual, _) => dual,
            (_, true) => any,
            (_, false) => one,
        }
    }

    /// What this socket keeps others from.
    fn claims(&self) -> [Claim; 4] {
        let claim = |device, local| Claim {
            port: self.port,
            kind: self.kind,
            device,
            local,
        };
        [
            claim(None, None),
            claim(None, Some(self.local)),
            claim(Some(self.device), None),
            claim(Some(self.device), Some(self.local)),
        ]
    }
}

fn kind_of(ip: &[u8; 16]) -> Kind {
    if is_ipv4(*ip) {
        Kind::V4
    } else {
        Kind::V6
    }
}

/// A set of addresses of a port that a socket is in; `None`: whichever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    port: u16,
    kind: Kind,
    device: Option<u32>,
    local: Option<[u8; 16]>,
}

/// Who shares ports with whom: nobody, or the sockets of one user that say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// It wants its addresses for itself.
    Alone,
    /// `SO_REUSEPORT`, and the user.
    Shares(u32),
}

/// Of the sockets of a name, the one at a place.
type Member = (Name, u32);
type Claimed = (Claim, Owner, u64);

#[derive(Clone, Copy)]
struct Place {
    name: Name,
    owner: Owner,
    place: u32,
}

/// The memory that one socket takes.
pub struct Rooms<M: Maps> {
    shape: RoomOf<M, u16, Shape>,
    socket: RoomOf<M, u64, Place>,
    member: RoomOf<M, Member, u64>,
    claims: [RoomOf<M, Claimed, ()>; 4],
}

impl<M: Maps> Rooms<M> {
    /// `None`: no memory.
    pub fn new() -> Option<Self> {
        Some(Self {
            shape: M::room::<u16, Shape>()?,
            socket: M::room::<u64, Place>()?,
            member: M::room::<Member, u64>()?,
            claims: [
                M::room::<Claimed, ()>()?,
                M::room::<Claimed, ()>()?,
                M::room::<Claimed, ()>()?,
                M::room::<Claimed, ()>()?,
            ],
        })
    }
}

/// The sockets that have ports, by their handles.
pub struct Ports<M: Maps> {
    /// By port: how many sockets there are, by what their names say.
    shapes: M::Of<u16, Shape>,
    /// By handle.
    sockets: M::Of<u64, Place>,
    members: M::Of<Member, u64>,
    claims: M::Of<Claimed, ()>,
    secret: u64,
}

impl<M: Maps> Ports<M> {
    /// No ports. The secret keeps senders from choosing among sockets of the same name.
    pub fn new(secret: u64) -> Self {
        Self {
            secret,
            shapes: M::map(),
            sockets: M::map(),
            members: M::map(),
            claims: M::map(),
        }
    }

    /// Whether no other socket stands in the way of one with this name.
    pub fn is_free(&self, name: &Name, owner: Owner) -> bool {
        if self.shapes.get(&name.port).is_none() {
            return true;
        }
        let wildcard = name.local == ANY;
        let kinds: &[(Kind, Option<[u8; 16]>)] = match (name.kind, wildcard) {
            (Kind::Dual, _) => &[(Kind::Dual, None), (Kind::V4, None), (Kind::V6, None)],
            (kind, true) => &[(Kind::Dual, None), (kind, None)],
            (kind, false) => &[
                (Kind::Dual, None),
                (kind, Some(ANY)),
                (kind, Some(name.local)),
            ],
        };
        let devices: &[Option<u32>] = match name.device {
            0 => &[None],
            device => &[Some(0), Some(device)],
        };
        !kinds.iter().any(|(kind, local)| {
            devices.iter().any(|device| {
                let claim = Claim {
                    port: name.port,
                    kind: *kind,
                    device: *device,
                    local: *local,
                };
                self.is_claimed(claim, owner)
            })
        })
    }

    /// Whether a socket of somebody else has such an address.
    fn is_claimed(&self, claim: Claim, owner: Owner) -> bool {
        let first = self.claims.at_least(&(claim, Owner::Alone, 0));
        let last = || {
            self.claims
                .at_most(&(claim, Owner::Shares(u32::MAX), u64::MAX))
        };
        let others = |found: Option<(Claimed, ())>| {
            found.is_some_and(|((at, of, _), ())| {
                at == claim && (owner == Owner::Alone || of != owner)
            })
        };
        others(first) || others(last())
    }

    /// A socket has this name now, which was [free](Ports::is_free). It has had none.
    pub fn add(&mut self, rooms: Rooms<M>, handle: u64, name: Name, owner: Owner) {
        let Rooms {
            shape,
            socket,
            member,
            claims,
        } = rooms;
        match self.shapes.get_mut(&name.port) {
            Some(counts) => increase(&name, counts),
            None => {
                let mut counts = Shape::default();
                increase(&name, &mut counts);
                self.shapes.put(shape, name.port, counts);
            }
        }
        let place = self.members_of(&name);
        self.members.put(member, (name, place), handle);
        for (claim, room) in name.claims().into_iter().zip(claims) {
            self.claims.put(room, (claim, owner, handle), ());
        }
        let place = Place { name, owner, place };
        self.sockets.put(socket, handle, place);
    }

    /// A socket has another name now, on the same port. Nobody is asked whether it is free, as for
    /// UDP: who connects takes nobody's messages but its peer's.
    pub fn rename(&mut self, handle: u64, name: Name) {
        let Some(&place) = self.sockets.get(&handle) else {
            return;
        };
        if place.name == name || place.name.port != name.port {
            return;
        }
        if let Some(counts) = self.shapes.get_mut(&name.port) {
            let count = place.name.shape(counts);
            *count = count.saturating_sub(1);
            increase(&name, counts);
        }
        let claims = place.name.claims().into_iter().zip(name.claims());
        for (old, new) in claims {
            if let Some((room, ())) = self.claims.take(&(old, place.owner, handle)) {
                self.claims.put(room, (new, place.owner, handle), ());
            }
        }
        if let Some(room) = self.leave(&place) {
            let at = self.members_of(&name);
            self.members.put(room, (name, at), handle);
            if let Some(place) = self.sockets.get_mut(&handle) {
                place.name = name;
                place.place = at;
            }
        }
    }

    /// A socket has no port any more.
    pub fn remove(&mut self, handle: u64) {
        let Some((_, place)) = self.sockets.take(&handle) else {
            return;
        };
        let mut empty = false;
        if let Some(counts) = self.shapes.get_mut(&place.name.port) {
            let count = place.name.shape(counts);
            *count = count.saturating_sub(1);
            empty = counts.iter().flatten().flatten().all(|count| *count == 0);
        }
        if empty {
            self.shapes.take(&place.name.port);
        }
        for claim in place.name.claims() {
            self.claims.take(&(claim, place.owner, handle));
        }
        self.leave(&place);
    }

    /// Takes a socket out of those of its name; the last of them takes its place.
    fn leave(&mut self, place: &Place) -> Option<RoomOf<M, Member, u64>> {
        let last = self.members_of(&place.name).saturating_sub(1);
        let (room, moved) = self.members.take(&(place.name, last))?;
        if last != place.place {
            if let Some(at) = self.members.get_mut(&(place.name, place.place)) {
                *at = moved;
            }
            if let Some(other) = self.sockets.get_mut(&moved) {
                other.place = place.place;
            }
        }
        Some(room)
    }

    /// How many sockets have a name.
    fn members_of(&self, name: &Name) -> u32 {
        match self.members.at_most(&(*name, u32::MAX)) {
            Some(((at, place), _)) if at == *name => place.saturating_add(1),
            _ => 0,
        }
    }

    /// The socket at a place among those with exactly this name; their places begin at 0.
    pub fn member(&self, name: &Name, place: u32) -> Option<u64> {
        self.members.get(&(*name, place)).copied()
    }

    /// The socket for a message of `from` to a port of the address `to`. It counts as having come
    /// by `devices`, the closest first. Who is bound to a device comes first, then who is connected
    /// to the sender, then who is bound to the address, then who serves but one version of IP. Of
    /// several sockets of the same name it is always the same one for a sender, as long as there
    /// are the same sockets.
    pub fn find(&self, port: u16, from: &Peer, to: &[u8; 16], devices: &[u32]) -> Option<u64> {
        let [of_any, of_one] = self.shapes.get(&port)?;
        let bound = devices.iter().filter(|device| **device != 0);
        let mut name = Name {
            port,
            kind: Kind::Dual,
            device: 0,
            local: ANY,
            peer: None,
        };
        if of_one.iter().any(are_any) {
            for device in bound {
                name.device = *device;
                let found = self.find_at(of_one, &mut name, from, to);
                if found.is_some() {
                    return found;
                }
            }
        }
        name.device = 0;
        self.find_at(of_any, &mut name, from, to)
    }

    /// The same, of the sockets that are bound to the device that `name` says.
    fn find_at(
        &self,
        counts: &[[u32; 3]; 2],
        name: &mut Name,
        from: &Peer,
        to: &[u8; 16],
    ) -> Option<u64> {
        let [unconnected, connected] = counts;
        if are_any(connected) {
            name.peer = Some(*from);
            let mut found = self.find_of(connected, name, to, from);
            if found.is_none() && from.scope != 0 {
                name.peer = Some(Peer { scope: 0, ..*from });
                found = self.find_of(connected, name, to, from);
            }
            if found.is_some() {
                return found;
            }
        }
        name.peer = None;
        self.find_of(unconnected, name, to, from)
    }

    /// The same, of the sockets that are connected to the peer that `name` says.
    fn find_of(
        &self,
        counts: &[u32; 3],
        name: &mut Name,
        to: &[u8; 16],
        from: &Peer,
    ) -> Option<u64> {
        let [dual, any, one] = *counts;
        if one != 0 || any != 0 {
            name.kind = kind_of(to);
            if one != 0 {
                name.local = *to;
                let found = self.one_of(name, from);
                if found.is_some() {
                    return found;
                }
            }
            if any != 0 {
                name.local = ANY;
                let found = self.one_of(name, from);
                if found.is_some() {
                    return found;
                }
            }
        }
        if dual == 0 {
            return None;
        }
        (name.kind, name.local) = (Kind::Dual, ANY);
        self.one_of(name, from)
    }

    fn one_of(&self, name: &Name, from: &Peer) -> Option<u64> {
        let ((at, last), handle) = self.members.at_most(&(*name, u32::MAX))?;
        if at != *name {
            return None;
        }
        if last == 0 {
            return Some(handle);
        }
        let members = u64::from(last).saturating_add(1);
        let place = u64::from(spread(self.secret, from)).saturating_mul(members) >> 32;
        self.members.get(&(*name, place as u32)).copied()
    }
}

/// Whether there are any sockets of these.
#[inline]
fn are_any([dual, any, one]: &[u32; 3]) -> bool {
    dual | any | one != 0
}

fn increase(name: &Name, counts: &mut Shape) {
    let count = name.shape(counts);
    *count = count.saturating_add(1);
}

/// A number that is always the same for a peer, and nobody can tell who does not know the secret.
fn spread(secret: u64, peer: &Peer) -> u32 {
    let mut hash = secret ^ u64::from(peer.port);
    for part in peer.ip.chunks_exact(8) {
        let word = part
            .iter()
            .fold(0, |word, byte| (word << 8) | u64::from(*byte));
        hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^= hash >> 29;
    }
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(31) ^ secret;
    (hash.wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) as u32
}

#[cfg(test)]
mod tests;
