// SPDX-License-Identifier: GPL-2.0
//! All messages of a host, or of a network namespace: both directions, their timers, and the pacer
//! of the tokens.
//!
//! [`Endpoint`] is handed packets and times, and calls its user's [`Host`]. After every call,
//! [`Endpoint::next_timer`] says when [`Endpoint::timer`] is to be called. No call takes unbounded
//! time: where there is more to do, the next timer is due at once.
//!
//! `now` is a monotonic clock; `clock` is the low 32 bits of the expiry clock in ns, on which hosts
//! should agree if tokens expire.
//!
//! # Who may do what
//!
//! A packet counts if its cookie and the address that it came from are those of a message. Cookies
//! are 64 random bits, so that somebody who does not see the packets cannot draw data out, put data
//! in, or end a message. What anybody can do is send SYNCs: messages of which nothing else has come
//! are few (`max-half-open`; when there are more, a random one is dropped), are given few tokens,
//! and as many messages from one address as `max-per-peer` allows.

use super::config::Resolved;
use super::heap::Heap;
use super::host::{Address, Class, Event, Host, InId, Info, Limit, Memory, OutId, PeerInfo, Slice};
use super::incoming::In;
use super::index::Index;
use super::jitter::Rng;
use super::outgoing::Out;
use super::pacer::Pacer;
use super::paged::Paged;
use super::peers::{Coflows, Peers};
use super::remembered::Remembered;
use super::slab::Slab;
use super::stats::{Counter, Stats};
use super::wire::{Ack, Cookie, Malformed, Packet, Reset, ResetCode, DATA_LEN, MAX_HEADER};
use crate::port::config::TOKEN_WIRE_LEN;
use crate::units::Nanos;

mod closing;
mod opening;
mod pacing;
mod receiving;
mod sending;
mod timing;

/// Bytes on the wire by which an IPv6 token is longer than an IPv4 one, which is as short as
/// Ethernet allows.
const IPV6_MORE: u32 = 20;
/// Bytes on the wire of an IPv4 packet of data besides its payload: Ethernet, IPv4, UDP, our
/// header; preamble, FCS and gap.
const DATA_OVERHEAD: u32 = 14 + 20 + 8 + DATA_LEN as u32 + 24;
/// RESETs that may be sent in a row, and then one each [`RESET_INTERVAL`].
const RESET_BURST: u32 = 64;
const RESET_INTERVAL: Nanos = Nanos::MILLISECOND;

/// See the module's documentation. `O` and `I` are what the user keeps for each outgoing and
/// incoming message.
pub struct Endpoint<M: Memory, O, I> {
    config: Resolved,
    stats: Stats,
    seed: u64,
    rng: Rng,
    numbers: u64,
    outs: Slab<M, Out<O>>,
    out_index: Index<M>,
    out_timers: Heap<M, Nanos>,
    ins: Slab<M, In<I>>,
    in_index: Index<M>,
    in_timers: Heap<M, Nanos>,
    pacer: Pacer<M>,
    peers: Peers<M>,
    coflows: Coflows<M>,
    remembered: Remembered<M>,
    /// The indices of half-open messages, in no order.
    half_open: Paged<M, u32>,
    half_len: u32,
    /// Until when the silent senders have had their turn to be asked.
    asked: Nanos,
    resets: u32,
    resets_at: Nanos,
    /// When each limit may be told of again.
    limited: [Nanos; 6],
}

/// When a packet came, by both clocks.
#[derive(Clone, Copy)]
struct At {
    now: Nanos,
    clock: u32,
}

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// An endpoint without messages, which has to be [started](Self::start) before anything else.
    ///
    /// It is large: a kernel has this constant copied to where it is to be, and starts it there.
    /// Its stack has no room for one that is returned or moved.
    pub const NEW: Self = Self {
        config: Resolved::NONE,
        stats: Stats::new(),
        seed: 0,
        rng: Rng::new(0),
        numbers: 0,
        outs: Slab::new(),
        out_index: Index::new(),
        out_timers: Heap::new(),
        ins: Slab::new(),
        in_index: Index::new(),
        in_timers: Heap::new(),
        pacer: Pacer::NEW,
        peers: Peers::new(),
        coflows: Coflows::new(),
        remembered: Remembered::new(),
        half_open: Paged::new(),
        half_len: 0,
        asked: Nanos::ZERO,
        resets: RESET_BURST,
        resets_at: Nanos::ZERO,
        limited: [Nanos::ZERO; 6],
    };

    /// An endpoint that is started. `None`: no memory.
    pub fn new(now: Nanos, config: &Resolved, seed: u64) -> Option<Self> {
        let mut endpoint = Self::NEW;
        endpoint.start(now, config, seed).then_some(endpoint)
    }

    /// Begins, once. `seed` is random: with it, the order of its tables cannot be foreseen.
    /// `false`: no memory.
    pub fn start(&mut self, now: Nanos, config: &Resolved, seed: u64) -> bool {
        self.config = *config;
        self.seed = seed;
        self.rng = Rng::new(mix(seed));
        self.pacer.start(config.token_rate, TOKEN_WIRE_LEN, now);
        self.resets_at = now;
        // The first of each, so that a packet can be looked up.
        self.out_index.reserve(0) && self.in_index.reserve(0) && self.remembered.reserve(1)
    }

    /// Another configuration, from now on.
    pub fn configure<H: Host<O, I>>(&mut self, now: Nanos, config: &Resolved, host: &mut H) {
        // Messages' own rates follow at their next update: they are shares.
        self.config = *config;
        self.pacer.set_rate(config.token_rate, TOKEN_WIRE_LEN, now);
        host.event(&Event::Configured);
    }

    /// The configuration in force.
    pub fn config(&self) -> &Resolved {
        &self.config
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Something came that is no packet of the transport. Counts it.
    pub fn malformed(&mut self, why: Malformed) {
        self.stats.count(Counter::malformed(why));
    }

    /// Counts a datagram that is none of the transport's, or could not even be read.
    pub fn refused(&mut self, why: Counter) {
        self.stats.count(why);
    }

    /// What the user keeps for a message.
    pub fn out_mut(&mut self, id: OutId) -> Option<&mut O> {
        let index = self.out_at(id)?;
        Some(&mut self.outs.get_mut(index)?.user)
    }

    /// What the user keeps for a message.
    pub fn in_mut(&mut self, id: InId) -> Option<&mut I> {
        let index = self.in_at(id)?;
        Some(&mut self.ins.get_mut(index)?.user)
    }

    /// The first outgoing message from index `from` on, and the index to go on from. Takes a time
    /// that grows with the most messages there ever were at once, as do the following: for dumps.
    pub fn outgoing(&self, now: Nanos, from: u32) -> Option<(u32, OutId, Info, &O)> {
        let index = self.outs.next(from)?;
        let out = self.outs.get(index)?;
        let next = index.saturating_add(1);
        Some((next, self.out_id(index), out.info(now), &out.user))
    }

    /// The first incoming message from index `from` on, and the index to go on from.
    pub fn incoming(&self, now: Nanos, from: u32) -> Option<(u32, InId, Info, &I)> {
        let index = self.ins.next(from)?;
        let message = self.ins.get(index)?;
        let info = self.in_info(now, message);
        let next = index.saturating_add(1);
        Some((next, self.in_id(index), info, &message.user))
    }

    /// The first peer from index `from` on, and the index to go on from.
    pub fn peers(&self, from: u32) -> Option<(u32, PeerInfo)> {
        let index = self.peers.all.next(from)?;
        let peer = self.peers.all.get(index)?;
        let info = PeerInfo {
            address: peer.address,
            incoming: peer.incoming,
            outgoing: peer.outgoing,
            missing: peer.missing,
            unacknowledged: peer.unacknowledged,
            rtt: (peer.rtt != Nanos::MAX).then_some(peer.rtt),
        };
        Some((index.saturating_add(1), info))
    }

    /// How many messages go out, come in, and are remembered.
    pub fn counts(&self) -> (u32, u32, u32) {
        (self.outs.len(), self.ins.len(), self.remembered.len())
    }

    /// A packet came. `ecn`: the two bits of its IP header. `payload`: what it came in; it is
    /// dropped if it is not for [`Host::data`].
    #[allow(clippy::too_many_arguments)] // facts of one packet
    pub fn packet<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        clock: u32,
        from: &Address,
        ecn: u8,
        packet: &Packet,
        payload: H::Payload,
        host: &mut H,
    ) {
        let at = At { now, clock };
        match packet {
            Packet::Sync(sync) => self.on_sync(at, from, sync, host),
            Packet::Token(token) => self.on_token(at, from, token, host),
            Packet::Data(data) => self.on_data(at, from, ecn, data, payload, host),
            Packet::Resend(resend) => self.on_resend(at, from, resend),
            Packet::Fin(fin) => self.on_fin(at, from, fin, host),
            Packet::Ack(ack) => self.on_ack(at, from, ack, host),
            Packet::Reset(reset) => self.on_reset(at, from, reset, host),
        }
        // What came may have made a token due: whoever sends by timers that are late is clocked by
        // the data that comes.
        self.pace(at, host);
    }

    fn hash(&self, cookie: Cookie) -> u32 {
        (mix(cookie.0 ^ self.seed) >> 32) as u32
    }

    fn hash_address(&self, address: &Address) -> u32 {
        let mut hash = self.seed ^ u64::from(address.scope);
        for bytes in [&address.ip, &address.local] {
            for half in bytes.chunks_exact(8) {
                let half = half
                    .first_chunk::<8>()
                    .map_or(0, |h| u64::from_le_bytes(*h));
                hash = mix(hash ^ half);
            }
        }
        (hash >> 32) as u32
    }

    fn out_id(&self, index: u32) -> OutId {
        OutId {
            index,
            generation: self.outs.generation(index),
        }
    }

    fn in_id(&self, index: u32) -> InId {
        InId {
            index,
            generation: self.ins.generation(index),
        }
    }

    fn out_at(&self, id: OutId) -> Option<u32> {
        self.outs.is(id.index, id.generation).then_some(id.index)
    }

    fn in_at(&self, id: InId) -> Option<u32> {
        self.ins.is(id.index, id.generation).then_some(id.index)
    }

    /// The outgoing message of a packet. `Err`: whether there is one with another address.
    fn find_out(&self, cookie: Cookie, from: &Address) -> Result<u32, bool> {
        let mut other = false;
        let found = self.out_index.find(self.hash(cookie), |index| {
            let out = self.outs.get(index).filter(|out| out.cookie == cookie);
            let same = out.is_some_and(|out| out.to == *from);
            other |= out.is_some() && !same;
            same
        });
        found.ok_or(other)
    }

    /// The incoming message of a packet. `Err`: whether there is one with another address.
    fn find_in(&self, cookie: Cookie, from: &Address) -> Result<u32, bool> {
        let mut other = false;
        let found = self.in_index.find(self.hash(cookie), |index| {
            let message = self.ins.get(index).filter(|it| it.cookie == cookie);
            let same = message.is_some_and(|it| it.from == *from);
            other |= message.is_some() && !same;
            same
        });
        found.ok_or(other)
    }

    /// Counts a signal for no message.
    fn stray(&mut self, other: bool) {
        self.stats.count(if other {
            Counter::SignalAddress
        } else {
            Counter::SignalUnknown
        });
    }

    /// Tells of a limit, at most once a second.
    fn limit<H: Host<O, I>>(&mut self, now: Nanos, limit: Limit, host: &mut H) {
        if let Some(next) = self.limited.get_mut(limit as usize) {
            if now >= *next {
                *next = now + Nanos::SECOND;
                host.event(&Event::Limited(limit));
            }
        }
    }

    /// Sends an ACK.
    fn ack<H: Host<O, I>>(&mut self, to: &Address, ack: Ack, host: &mut H) {
        self.stats.count(Counter::AckSent);
        signal(host, to, &Packet::Ack(ack));
    }

    /// Sends a RESET to whom it may concern, unless many were sent lately.
    fn reset<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        to: &Address,
        cookie: Cookie,
        code: ResetCode,
        host: &mut H,
    ) {
        let passed = (now - self.resets_at).0 / RESET_INTERVAL.0;
        if passed != 0 {
            let passed = u32::try_from(passed).unwrap_or(u32::MAX);
            self.resets = self.resets.saturating_add(passed).min(RESET_BURST);
            self.resets_at = now;
        }
        let Some(left) = self.resets.checked_sub(1) else {
            self.stats.count(Counter::ResetSuppressed);
            return;
        };
        self.resets = left;
        self.tell_reset(to, cookie, code, host);
    }

    /// Sends a RESET for a message that there was.
    fn tell_reset<H: Host<O, I>>(
        &mut self,
        to: &Address,
        cookie: Cookie,
        code: ResetCode,
        host: &mut H,
    ) {
        self.stats.count(Counter::reset_sent(code));
        signal(host, to, &Packet::Reset(Reset { cookie, code }));
    }
}

/// Sends a signal.
fn signal<O, I, H: Host<O, I>>(host: &mut H, to: &Address, packet: &Packet) {
    transmit(host, to, Class::Signal, false, packet, None);
}

/// Sends a packet.
fn transmit<O, I, H: Host<O, I>>(
    host: &mut H,
    to: &Address,
    class: Class,
    ren: bool,
    packet: &Packet,
    payload: Option<Slice<'_, O>>,
) {
    let mut buffer = [0; MAX_HEADER];
    let len = packet.write(&mut buffer);
    let header = buffer.get(..len).unwrap_or(&buffer);
    host.transmit(to, class, ren, header, payload);
}

/// Bytes of a token on the wire.
#[inline]
fn token_wire_len(to: &Address) -> u32 {
    if to.is_ipv4() {
        TOKEN_WIRE_LEN
    } else {
        TOKEN_WIRE_LEN + IPV6_MORE
    }
}

/// What a packet of data occupies of the wire besides its payload.
#[inline]
fn data_overhead(to: &Address) -> u32 {
    if to.is_ipv4() {
        DATA_OVERHEAD
    } else {
        DATA_OVERHEAD + IPV6_MORE
    }
}

/// Spreads all bits over all bits (the finalizer of splitmix64).
#[inline]
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
