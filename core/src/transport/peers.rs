// SPDX-License-Identifier: GPL-2.0
//! What is known of each peer: sums over its messages, the ticket that it has given us, and what
//! each may send unasked; and sums over the messages of each coflow.

use super::allowance::Allowances;
use super::heap::Heap;
use super::hint::Hint;
use super::host::{Address, Memory};
use super::index::Index;
use super::maybe::MaybeIndex;
use super::net::Net;
use super::siphash::Key;
use super::slab::Slab;
use super::tally::Tally;
use super::turns::Own;
use crate::units::Nanos;

/// The most peers without a message whose tickets are kept.
pub(crate) const MOST_IDLE: u32 = 16_384;
/// How many of these may be of one network, /24 or /64.
pub(crate) const MOST_IDLE_OF_NET: u32 = MOST_IDLE / 4;

/// A peer.
///
/// With its generation it takes 128 bytes, a power of two, and 64 of them a chunk of the slab.
pub(crate) struct Peer {
    pub(crate) address: Address,
    pub(crate) incoming: u32,
    /// How many of these are half open: a quarter of `max_per_peer` at most.
    pub(crate) half_open: u16,
    /// Of how many only a ticket has shown whose they are.
    pub(crate) unanswered: u16,
    /// The turns of those that are silent.
    pub(crate) turns: Own,
    pub(crate) outgoing: u32,
    pub(crate) missing: u64,
    pub(crate) unacknowledged: u64,
    /// The shortest round trip of its messages, or of those that it had last.
    rtt: Trip,
    lag: Lag,
    /// Whether no token of its messages was lost for some time, as the last of them saw it.
    calm: bool,
    /// Packets to it carry no more bytes than this until then: see `endpoint/paths.rs`.
    pub(crate) most: u16,
    pub(crate) most_until: Nanos,
    /// What shows it that we have our address, and until when, or up to a second less.
    ticket: u64,
    ticket_until: Second,
    /// Of which time the ticket was that it was last offered, modulo 255 and one more: that of
    /// another one comes before 20 hours are over. 0: it was offered none.
    offered: u8,
    /// Since it had no message for the first time: its network's index.
    net: MaybeIndex,
}

impl Peer {
    /// The shortest round trip of its messages, once it was measured.
    pub(crate) fn rtt(&self) -> Option<Nanos> {
        self.rtt.present()
    }

    /// A message's round trip was measured: its shortest one, and this one.
    pub(crate) fn measured(&mut self, now: Nanos, least: Nanos, sample: Nanos) {
        let before = self.rtt.present().unwrap_or(Nanos::MAX);
        self.rtt = Trip::new(before.min(least));
        self.lag.learn(Lag::new(now, sample));
    }
}

/// A second or so of the time since the machine began, in half the room of [`Nanos`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Second(u32);

impl Second {
    fn of(time: Nanos) -> Self {
        Self(u32::try_from(time.0.wrapping_shr(30)).unwrap_or(u32::MAX))
    }

    fn begins(self) -> Nanos {
        Nanos(u64::from(self.0).wrapping_shl(30))
    }
}

/// A round trip, ns, and whether it is one of former messages, in one word: there is one of these
/// for each peer. None is longer than 2 s.
#[derive(Clone, Copy, Debug)]
struct Trip(u32);

impl Trip {
    /// Of former ones.
    const FORMER: u32 = 1 << 31;
    /// Never measured.
    const NONE: Self = Self(u32::MAX);

    fn new(rtt: Nanos) -> Self {
        let rtt = u32::try_from(rtt.0).unwrap_or(u32::MAX);
        Self(rtt.min(Self::FORMER - 1))
    }

    /// Its messages are over.
    fn outlived(self) -> Self {
        Self(self.0 | Self::FORMER)
    }

    fn present(self) -> Option<Nanos> {
        (self.0 < Self::FORMER).then_some(Nanos(self.0.into()))
    }

    fn last(self) -> Option<Nanos> {
        let known = self.0 != Self::NONE.0;
        known.then_some(Nanos((self.0 & !Self::FORMER).into()))
    }
}

/// The newest token of a peer's messages that was answered: when it was sent, and when its answer
/// came.
///
/// Tokens wait at a sender that is slower than its link, and are answered in the order in which
/// they came, whichever of its messages they are for. So none that was sent later is late before as
/// much time has passed.
///
/// Both are in steps of about a us, and so repeat after 73 minutes.
#[derive(Clone, Copy, Debug)]
struct Lag {
    sent: u32,
    came: u32,
}

impl Lag {
    const STEP: u32 = 10;
    const NONE: Self = Self { sent: 0, came: 0 };

    fn steps(time: Nanos) -> u32 {
        time.0.wrapping_shr(Self::STEP) as u32
    }

    fn new(now: Nanos, sample: Nanos) -> Self {
        Self {
            sent: Self::steps(now - sample),
            came: Self::steps(now),
        }
    }

    fn of(self) -> u32 {
        self.came.wrapping_sub(self.sent)
    }

    /// Of a token that was sent before the newest nothing is learnt: its answer was overtaken, or
    /// is a copy. Unless that is longer ago than any round trip.
    fn learn(&mut self, next: Self) {
        let ago = next.came.wrapping_sub(self.came);
        let newer = next.sent.wrapping_sub(self.sent) < 1 << 31;
        if newer || ago > Self::steps(LONGEST) {
            *self = next;
        }
    }

    /// Whether an answer came a second ago or later.
    fn is_of(self, now: Nanos) -> bool {
        Self::steps(now).wrapping_sub(self.came) <= Self::steps(Nanos::SECOND)
    }

    /// That time. It says nothing any more when nothing has been answered for twice as long.
    fn get(self, now: Nanos) -> Nanos {
        let ago = Self::steps(now).wrapping_sub(self.came);
        let of = self.of().min(Self::steps(AWAY));
        match ago / 2 <= of {
            true => Nanos(u64::from(of).wrapping_shl(Self::STEP)),
            false => Nanos::ZERO,
        }
    }
}

/// Who takes longer than this was away, and is no slower when it comes back.
const AWAY: Nanos = Nanos(200_000_000);
/// No round trip is longer.
const LONGEST: Nanos = Nanos(4 * Nanos::SECOND.0);

/// A coflow: messages that belong together.
pub(crate) struct Coflow {
    number: u32,
    members: u32,
    /// Bytes: see [`Facts::coflow`](super::policy::Facts::coflow).
    pub(crate) remaining: u64,
}

/// What the keyed hash is used for, see `endpoint::purpose`.
const PURPOSE: u8 = 3;

fn hash(key: &Key, address: &Address) -> u32 {
    (key.hash_address(0, address, PURPOSE) >> 32) as u32
}

/// The peers of messages under way, and those that have given us tickets.
pub(crate) struct Peers<M: Memory> {
    pub(crate) all: Slab<M, Peer>,
    index: Index<M>,
    last: Hint,
    /// Those without messages, and until when what is known of them is good for anything.
    idle: Heap<M, Nanos>,
    nets: Tally<M>,
    /// What each may send unasked, and we to it.
    pub(crate) allowances: Allowances<M>,
    /// For how many [`Peers::reserve`] has made room.
    room: u32,
}

impl<M: Memory> Peers<M> {
    pub(crate) const fn new() -> Self {
        Self {
            all: Slab::new(),
            index: Index::new(),
            last: Hint::new(),
            idle: Heap::new(),
            nets: Tally::new(),
            allowances: Allowances::new(),
            room: 0,
        }
    }

    /// The index of a peer.
    pub(crate) fn find(&self, key: &Key, address: &Address) -> Option<u32> {
        let is = |index| {
            let peer = self.all.get(index);
            peer.is_some_and(|peer| peer.address == *address)
        };
        let find = || self.index.find(hash(key, address), is);
        self.last.or_find(is, find)
    }

    /// The index of a peer, which is added if it is new. `None`: no memory. A peer without messages
    /// has to be [dropped](Peers::tidy).
    pub(crate) fn get(&mut self, now: Nanos, key: &Key, address: &Address) -> Option<u32> {
        if let Some(index) = self.find(key, address) {
            self.rouse(now, index);
            return Some(index);
        }
        let (index, _) = self.all.vacant()?;
        let fits = self.index.reserve(index) && self.idle.reserve(index);
        if !(fits && self.allowances.reserve(index)) {
            return None;
        }
        let index = self.all.insert(Peer {
            address: *address,
            incoming: 0,
            half_open: 0,
            unanswered: 0,
            turns: Own::NEW,
            outgoing: 0,
            missing: 0,
            unacknowledged: 0,
            rtt: Trip::NONE,
            lag: Lag::NONE,
            calm: false,
            most: u16::MAX,
            most_until: Nanos::ZERO,
            ticket: 0,
            offered: 0,
            ticket_until: Second(0),
            net: MaybeIndex::NONE,
        })?;
        self.index.insert(hash(key, address), index);
        self.allowances.begin(index);
        Some(index)
    }

    /// Whether [`Peers::reserve`] has made room for so many more peers.
    pub(crate) fn has_room(&self, more: u32) -> bool {
        self.room >= self.all.len().saturating_add(more)
    }

    /// Makes room for a few peers, of so many more for which there is to be room, with no more than
    /// so many `chunks`. `false`: it needs more, or there is no memory.
    pub(crate) fn reserve(&mut self, more: u32, few: u32, chunks: &mut u32) -> bool {
        let all = self.all.len();
        let next = self.room.max(all).saturating_add(few);
        let last = next.min(all.saturating_add(more));
        let fits = self.all.reserve_some(last, chunks)
            && self.index.reserve_some(last, chunks)
            && self.idle.reserve_some(last, chunks)
            && self.allowances.reserve_some(last, chunks)
            && self.nets.reserve_some(last, chunks);
        if fits {
            self.room = self.room.max(last);
        }
        fits
    }

    /// Whether there is much more room than needed.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.all.is_large(self.room)
    }

    /// Gives back some of it. `false`: it cannot.
    pub(crate) fn shrink(&mut self) -> bool {
        let shrunk = self.all.shrink(self.room);
        let room = self.all.room();
        self.index.shrink(room);
        self.idle.shrink(room);
        self.allowances.shrink(room);
        self.nets.shrink(self.room);
        shrunk
    }

    /// How many more peers fit, of those that room was made for. Those without messages make way.
    pub(crate) fn room(&self) -> u32 {
        let with_messages = self.all.len().saturating_sub(self.idle.len());
        self.room.saturating_sub(with_messages)
    }

    /// A peer that was idle has a message.
    fn rouse(&mut self, now: Nanos, index: u32) {
        let Some(until) = self.idle.key(index) else {
            return;
        };
        self.idle.remove(index);
        self.all.show(index, true);
        let Some(peer) = self.all.get_mut(index) else {
            return;
        };
        peer.rtt = peer.rtt.outlived();
        if until <= now {
            if let Some(net) = peer.net.take() {
                self.nets.leave(net);
            }
        }
    }

    /// The shortest round trip of a peer's messages, once it was measured.
    pub(crate) fn trip(&self, index: u32) -> Option<Nanos> {
        self.all.get(index)?.rtt()
    }

    /// Whether no token for a peer was lost for some time, and it has answered some lately.
    pub(crate) fn is_calm(&self, now: Nanos, index: u32) -> bool {
        let peer = self.all.get(index);
        peer.is_some_and(|peer| peer.calm && peer.lag.is_of(now))
    }

    /// As a message of the peer's has it now.
    pub(crate) fn set_calm(&mut self, index: u32, calm: bool) {
        if let Some(peer) = self.all.get_mut(index) {
            peer.calm = calm;
        }
    }

    /// How long a peer has taken lately to answer tokens, or 0.
    pub(crate) fn lag(&self, now: Nanos, index: u32) -> Nanos {
        let peer = self.all.get(index);
        peer.map_or(Nanos::ZERO, |peer| peer.lag.get(now))
    }

    /// The same, or that of the messages that it had last.
    pub(crate) fn former_trip(&self, index: u32) -> Option<Nanos> {
        self.all.get(index)?.rtt.last()
    }

    /// The ticket to show to a peer; 0: there is none.
    pub(crate) fn ticket(&self, now: Nanos, index: u32) -> u64 {
        let peer = self
            .all
            .get(index)
            .filter(|it| it.ticket_until.begins() > now);
        peer.map_or(0, |peer| peer.ticket)
    }

    /// A peer has given us a ticket that is good until then.
    pub(crate) fn keep_ticket(&mut self, index: u32, ticket: u64, until: Nanos) {
        if let Some(peer) = self.all.get_mut(index) {
            (peer.ticket, peer.ticket_until) = (ticket, Second::of(until));
        }
    }

    /// Whether a peer was not offered the ticket of a time. It is offered it now.
    pub(crate) fn offers(&mut self, index: u32, time: u64) -> bool {
        let peer = self.all.get_mut(index);
        let time = ((time % 255) as u8).saturating_add(1);
        peer.is_some_and(|peer| core::mem::replace(&mut peer.offered, time) != time)
    }

    /// If a peer has no messages, it is dropped, or noted as idle if it has given us a ticket, or
    /// either may send something without tokens.
    pub(crate) fn tidy(&mut self, now: Nanos, index: u32, key: &Key) {
        let Some(peer) = self.all.get(index) else {
            return;
        };
        if peer.incoming != 0 || peer.outgoing != 0 || self.idle.key(index).is_some() {
            return;
        }
        let joined = peer.net.get();
        let until = peer.ticket_until.begins().max(self.allowances.until(index));
        self.expire(now);
        if until <= now {
            return self.remove(index);
        }
        let mut net = None;
        if joined.is_none() {
            let of = self
                .all
                .get(index)
                .map(|peer| Net::of(&peer.address, 24, 64));
            net = of.filter(|net| self.nets.count(key, *net) < MOST_IDLE_OF_NET);
            if net.is_none() {
                return self.remove(index);
            }
        }
        if self.idle.len() >= MOST_IDLE {
            self.make_way();
        }
        let joined = joined.or_else(|| self.nets.join(key, net?));
        match self.all.get_mut(index) {
            Some(peer) if joined.is_some() => peer.net = joined.into(),
            _ => return self.remove(index),
        }
        self.all.show(index, false);
        self.idle.set(index, until);
    }

    /// Drops peers without messages of which nothing holds any more: more than one becomes idle in
    /// a call.
    fn expire(&mut self, now: Nanos) {
        for _ in 0..2 {
            match self.idle.first() {
                Some((until, old)) if until <= now => self.remove(old),
                _ => return,
            }
        }
    }

    /// Drops the peer without messages of which what is known ends first.
    fn make_way(&mut self) {
        if let Some((_, old)) = self.idle.first() {
            self.remove(old);
        }
    }

    /// There is to be room for one more peer, of what [`Peers::reserve`] has made.
    pub(crate) fn make_room(&mut self) {
        if self.all.len() >= self.room {
            self.make_way();
        }
    }

    fn remove(&mut self, index: u32) {
        self.allowances.end(index);
        self.idle.remove(index);
        self.index.remove(index);
        let net = self.all.remove(index).and_then(|peer| peer.net.get());
        if let Some(net) = net {
            self.nets.leave(net);
        }
    }
}

/// The coflows of messages that come in.
pub(crate) struct Coflows<M: Memory> {
    all: Slab<M, Coflow>,
    index: Index<M>,
}

impl<M: Memory> Coflows<M> {
    pub(crate) const fn new() -> Self {
        Self {
            all: Slab::new(),
            index: Index::new(),
        }
    }

    /// Makes room for coflows up to this index, with no more than so many `chunks`. `false`: it
    /// needs more, or there is no memory.
    pub(crate) fn reserve(&mut self, index: u32, chunks: &mut u32) -> bool {
        self.all.reserve_some(index, chunks) && self.index.reserve_some(index, chunks)
    }

    /// Gives back some of the room beyond `keep` coflows.
    pub(crate) fn shrink(&mut self, keep: u32) {
        self.all.shrink(keep);
        self.index.shrink(self.all.room());
    }

    /// A message joins a coflow: the coflow's index. `None`: no memory.
    pub(crate) fn join(&mut self, hash: u32, number: u32) -> Option<u32> {
        let all = &self.all;
        let found = self.index.find(hash, |index| {
            all.get(index).is_some_and(|coflow| coflow.number == number)
        });
        if let Some(index) = found {
            let coflow = self.all.get_mut(index)?;
            coflow.members = coflow.members.saturating_add(1);
            return Some(index);
        }
        let (index, _) = self.all.vacant()?;
        if !self.index.reserve(index) {
            return None;
        }
        let index = self.all.insert(Coflow {
            number,
            members: 1,
            remaining: 0,
        })?;
        self.index.insert(hash, index);
        Some(index)
    }

    /// A message leaves.
    pub(crate) fn leave(&mut self, index: u32) {
        let Some(coflow) = self.all.get_mut(index) else {
            return;
        };
        coflow.members = coflow.members.saturating_sub(1);
        if coflow.members == 0 {
            self.index.remove(index);
            self.all.remove(index);
        }
    }

    /// The remaining bytes of a coflow.
    pub(crate) fn remaining(&self, index: u32) -> Option<u64> {
        self.all.get(index).map(|coflow| coflow.remaining)
    }

    /// Changes a message's part in the remaining bytes from `before` to `after`.
    pub(crate) fn change(&mut self, index: u32, before: u64, after: u64) {
        if let Some(coflow) = self.all.get_mut(index) {
            coflow.remaining = coflow
                .remaining
                .saturating_sub(before)
                .saturating_add(after);
        }
    }
}

// See there.
const _: () = assert!(size_of::<Option<Peer>>() <= 120);
