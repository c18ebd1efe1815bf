// SPDX-License-Identifier: GPL-2.0
//! The state machine of the transport for one host or network namespace: all messages of both
//! directions, their timers, and the pacers of the tokens.
//!
//! [`Endpoint`] gets packets and times, and calls its user's [`Host`]. After every call,
//! [`Endpoint::next_timer`] says when to call [`Endpoint::timer`]. Every call takes bounded time:
//! if more remains to be done, the next timer is due at once.
//!
//! `now` is a monotonic clock, which goes on while the host is suspended; `clock` is the low 32
//! bits of the expiry clock in ns, on which hosts should agree if tokens expire.
//!
//! # What forged packets can do
//!
//! A packet is accepted if its cookie and its source address are those of a message. Cookies are 64
//! random bits, so that an attacker who does not see the packets cannot draw data, inject data, or
//! end a message. Anybody can send SYNCs, with any address. So messages of strangers are half open
//! until the address is proved (`endpoint/trust.rs`): they are bounded (`max-half-open`; beyond it
//! a SYNC is answered with a CHALLENGE, and nothing is kept), draw at most three times the bytes
//! that came, and are not delivered. One address can open `max-per-peer` messages.

use core::cell::Cell;

use super::bucket::{self, Buckets, Kind};
use super::config::Resolved;
use super::early::Early;
use super::heap::Heap;
use super::hint::Hint;
use super::host::{
    Address, Class, Event, Host, InId, Info, Limit, LinkInfo, Memory, OutId, Owner, PeerInfo,
    Sealing, Slice,
};
use super::incoming::In;
use super::index::Index;
use super::jitter::Rng;
use super::links::Links;
use super::maybe::Maybe;
use super::orphans::Orphans;
use super::outgoing::Out;
use super::paged::Paged;
use super::peers::{Coflows, Peers};
use super::policy::Lengths;
use super::rate::flow::{Flow, Laws};
use super::rate::lately::{self, Lately};
use super::remembered::Remembered;
use super::seal::{Seal, Sealed, SEAL_LEN};
use super::shares::Shares;
use super::siphash::Key;
use super::slab::Slab;
use super::stalls::Stalls;
use super::stats::{Counter, Stats};
use super::tally::Tally;
use super::turns::{Order, Turns};
use super::vain::Vain;
use super::waiting::{Riders, Waiting};
use super::wire::{
    self, Ack, Cookie, Cookies, Malformed, Packet, Reset, ResetCode, DATA_LEN, FIRST_LEN,
    FIRST_MOST, MAX_HEADER, SHORT_HEADER,
};
use crate::header::FLAGS;
use crate::port::config::{FRAME_WIRE_LEN, TOKEN_WIRE_LEN};
use crate::units::Nanos;

mod closing;
mod growing;
mod opening;
mod pacing;
mod paths;
mod rates;
mod receiving;
mod runs;
mod sealing;
mod sending;
mod shrinking;
mod timing;
mod trains;
mod trust;

use pacing::TOKENS;

pub(super) use paths::shorter;
pub use sealing::Opening;
pub(super) use sending::WITH_SYNC;

/// Bytes on the wire by which an IPv6 token is longer than an IPv4 one, which is as short as
/// Ethernet allows.
const IPV6_MORE: u32 = 20;
/// Bytes on the wire of an IPv4 packet of data besides its payload: Ethernet, IPv4, UDP, our
/// header; preamble, FCS and gap.
const DATA_OVERHEAD: u32 = 14 + 20 + 8 + DATA_LEN as u32 + 24;
/// See the module's documentation. `O` and `I` are the user's data for each outgoing and incoming
/// message.
pub struct Endpoint<M: Memory, O, I> {
    config: Resolved,
    /// Of messages that have come.
    lengths: Lengths,
    stats: Stats,
    key: Key,
    rng: Rng,
    numbers: u64,
    outs: Slab<M, Out<O>>,
    out_index: Index<M>,
    last_out: Hint,
    out_timers: Heap<M, Nanos>,
    /// The host's own link is busy until then with what was sent without tokens, to all peers.
    unasked_until: Nanos,
    ins: Slab<M, In<I>>,
    in_index: Index<M>,
    last_in: Hint,
    /// Of which cookie and address the last hash was, and that: a packet that begins a message is
    /// looked for several times.
    last_hash: Cell<(u64, Address, u32)>,
    in_timers: Heap<M, Nanos>,
    /// How many incoming messages each network has.
    in_nets: Tally<M>,
    links: Links<M>,
    peers: Peers<M>,
    shares: Shares<M>,
    /// What was learnt of paths.
    paths: paths::Paths<M>,
    coflows: Coflows<M>,
    /// Outgoing messages whose socket is closed.
    orphans: Orphans<M>,
    remembered: Remembered<M>,
    /// Ends of outgoing messages that their receivers are to be told.
    confirms: Waiting<Cookies>,
    /// Incoming messages whose senders are to be told that they are complete.
    delivered: Waiting<Riders>,
    /// If the message ends that a packet came of, its sender may be told later.
    may_tell_later: bool,
    /// Data that came before its SYNC.
    early: Early,
    /// How many incoming messages are half open.
    half_open: u32,
    /// What is kept for sealed messages, by the message's index.
    out_sealed: Paged<M, Sealed>,
    /// What is kept for messages that are paced here, by the message's index; how many of each peer
    /// send, by the peer's index; to how many peers any is sent; and the laws that they go by.
    flows: Paged<M, Option<Flow>>,
    lately: Paged<M, lately::Peer>,
    peers_lately: Lately,
    laws: Laws,
    in_sealed: Paged<M, Sealed>,
    /// How many messages are sealed, and one more if there is anything that may come sealed: as
    /// long as this is 0, nobody looks whether a packet should be.
    guards: u32,
    /// What packets that are not sealed may do.
    sealing: Sealing,
    /// The lower half of the last number that was drawn for a sealed message; 0: none was.
    drawn: u32,
    /// The sealed packet that is handled, if it belongs to no message here.
    current: sealing::Current,
    /// What there is room for, if the tables grow only [ahead](Self::prepare).
    ahead: Option<growing::Room>,
    /// When silent senders have their turns to be asked.
    turns: Turns,
    /// The ticket that was worked out last: its time, and whose it is. Mostly the next one is the
    /// same.
    last_ticket: Cell<(u64, Address, u64)>,
    /// Messages with tickets that ended unanswered.
    vain: Vain,
    /// Messages that were given up because they did not go on.
    stalled: Stalls,
    /// How many answers may leave to what belongs to no message.
    answers: Buckets,
    /// When the next step of [shrinking](shrinking) may be, and whether one is needed.
    shrunk: Nanos,
    large: bool,
    /// When an event about each limit may be sent again.
    limited: [Nanos; 6],
    /// Packets come that came together.
    train: Option<trains::Train>,
}

/// A packet's time of arrival, by both clocks, and the link that it came by.
#[derive(Clone, Copy)]
struct At {
    now: Nanos,
    clock: u32,
    link: u32,
}

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// An endpoint without messages, which has to be [started](Self::start) before anything else.
    ///
    /// It is large: the kernel module copies this constant into place and starts it there, since
    /// the stack has no room for one that is returned or moved.
    // Each use has cells of its own, as is meant.
    #[allow(clippy::declare_interior_mutable_const)]
    pub const NEW: Self = Self {
        config: Resolved::NONE,
        lengths: Lengths::new(),
        stats: Stats::new(),
        key: Key::new([0; 2]),
        rng: Rng::new(0),
        numbers: 0,
        outs: Slab::new(),
        out_index: Index::new(),
        last_out: Hint::new(),
        out_timers: Heap::new(),
        unasked_until: Nanos::ZERO,
        ins: Slab::new(),
        in_index: Index::new(),
        last_in: Hint::new(),
        last_hash: Cell::new((0, Address::NOBODY, 0)),
        in_timers: Heap::new(),
        in_nets: Tally::new(),
        links: Links::NEW,
        peers: Peers::new(),
        shares: Shares::new(),
        paths: paths::Paths::new(),
        coflows: Coflows::new(),
        orphans: Orphans::new(),
        remembered: Remembered::new(),
        confirms: Waiting::NEW,
        delivered: Waiting::NEW,
        may_tell_later: false,
        early: Early::NEW,
        half_open: 0,
        out_sealed: Paged::new(),
        flows: Paged::new(),
        lately: Paged::new(),
        peers_lately: Lately::NONE,
        laws: Laws::NONE,
        in_sealed: Paged::new(),
        guards: 0,
        sealing: Sealing::Off,
        drawn: 0,
        current: sealing::Current::NONE,
        ahead: None,
        turns: Turns::NEW,
        last_ticket: Cell::new((u64::MAX, Address::NONE, 0)),
        vain: Vain::NEW,
        stalled: Stalls::NEW,
        answers: Buckets::NEW,
        shrunk: Nanos::ZERO,
        large: false,
        limited: [Nanos::ZERO; 6],
        train: None,
    };

    /// An endpoint that is started. `None`: no memory.
    pub fn new(now: Nanos, config: &Resolved, seed: [u64; 3]) -> Option<Self> {
        let mut endpoint = Self::NEW;
        endpoint.start(now, config, seed).then_some(endpoint)
    }

    /// Starts the endpoint, once. `seed` is random and secret: nobody can make entries of the
    /// tables collide, or forge what proves an address. `false`: no memory.
    pub fn start(&mut self, now: Nanos, config: &Resolved, seed: [u64; 3]) -> bool {
        self.config = *config;
        // The key is not used for random numbers, of which something can be seen.
        let [key @ .., random] = seed;
        self.key = Key::new(key);
        self.rng = Rng::new(mix(random));
        self.links.start(config, now);
        // The first chunk of each table, so that look-ups work.
        self.out_index.reserve(0) && self.in_index.reserve(0) && self.remembered.reserve(1)
    }

    /// Changes the configuration from now on.
    pub fn configure<H: Host<O, I>>(&mut self, now: Nanos, config: &Resolved, host: &mut H) {
        // Messages' own rates follow at their next update: they are shares, or go by laws.
        self.config = *config;
        self.laws.change();
        self.learn();
        self.links.configure(config, now);
        host.event(&Event::Configured);
    }

    /// Priorities follow from the lengths of the messages that came, if they are to.
    fn learn(&mut self) {
        if self.config.learns_lengths {
            self.config.priority = self.lengths.priorities();
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> &Resolved {
        &self.config
    }

    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Counts a datagram that is no packet of the transport.
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

    /// How many bytes more than were written of a message its receiver has room for, as far as it
    /// has said.
    pub fn promised(&self, id: OutId) -> u32 {
        let out = self.out_at(id).and_then(|index| self.outs.get(index));
        out.map_or(0, Out::promised)
    }

    /// What the user keeps for a message.
    pub fn in_mut(&mut self, id: InId) -> Option<&mut I> {
        let index = self.in_at(id)?;
        Some(&mut self.ins.get_mut(index)?.user)
    }

    /// The first outgoing message from index `from` on, and the index to continue from. For dumps:
    /// this and the following take time in proportion to the most messages there ever were at once.
    pub fn outgoing(&self, now: Nanos, from: u32) -> Option<(u32, OutId, Info, &O)> {
        let index = self.outs.next(from)?;
        let out = self.outs.get(index)?;
        let next = index.saturating_add(1);
        let info = self.out_info(now, index, out);
        Some((next, self.out_id(index), info, &out.user))
    }

    /// The first incoming message from index `from` on, and the index to continue from.
    pub fn incoming(&self, now: Nanos, from: u32) -> Option<(u32, InId, Info, &I)> {
        let index = self.ins.next(from)?;
        let message = self.ins.get(index)?;
        let info = self.in_info(now, message);
        let next = index.saturating_add(1);
        Some((next, self.in_id(index), info, &message.user))
    }

    /// The first peer from index `from` on, and the index to continue from.
    pub fn peers(&self, from: u32) -> Option<(u32, PeerInfo)> {
        let index = self.peers.all.next(from)?;
        let peer = self.peers.all.get(index)?;
        let info = PeerInfo {
            address: peer.address,
            incoming: peer.incoming,
            outgoing: peer.outgoing,
            missing: peer.missing,
            unacknowledged: peer.unacknowledged,
            rtt: peer.rtt(),
        };
        Some((index.saturating_add(1), info))
    }

    /// The first link from number `from` on, and the number to continue from. The first of all is
    /// the one that devices without a speed share.
    pub fn links(&self, from: u32) -> Option<(u32, LinkInfo)> {
        self.links.info(from)
    }

    /// Whether the device has a link of its own.
    #[inline]
    pub fn has_link(&self, device: u32) -> bool {
        self.links.own(device).is_some()
    }

    /// The device has this speed, in bytes/s, from now on. `device` is the host's number for it,
    /// not 0; a rate of 0 says nothing. If it has no link yet it gets one, as long as there is one
    /// of the 31 that no message belongs to; so a host may tell of a device when first a packet
    /// comes by it.
    pub fn set_link(&mut self, now: Nanos, device: u32, rate: u64) {
        self.links.set(&self.config, now, device, rate);
    }

    /// The device is gone, and another one may have its number.
    pub fn link_gone(&mut self, device: u32) {
        self.links.gone(device);
    }

    /// How many messages go out, come in, and are remembered.
    pub fn counts(&self) -> (u32, u32, u32) {
        (self.outs.len(), self.ins.len(), self.remembered.len())
    }

    /// How many messages go out whose socket was closed, and their bytes that are not acknowledged,
    /// 1 KiB more for each.
    pub fn orphans(&self) -> (u32, u64) {
        self.orphans.totals()
    }

    /// Whose message a received packet belongs to: what [`Endpoint::packet`] would look at. For who
    /// has to ask the owner first whether it may come in at all.
    pub fn owner(&self, from: &Address, packet: &Packet) -> Owner<'_, O, I> {
        let (cookie, out_first) = match packet {
            Packet::Sync(sync) => (sync.cookie, false),
            Packet::Data(data) => (data.cookie, false),
            Packet::Fin(fin) => (fin.cookie, false),
            Packet::Token(token) => (token.cookie, true),
            Packet::Resend(resend) => (resend.cookie, true),
            Packet::Challenge(challenge) => (challenge.cookie, true),
            // As in `on_ack`: a sender says so that it is idle.
            Packet::Ack(ack) => (ack.cookie, ack.last || ack.window >= ack.received),
            Packet::Reset(reset) => (reset.cookie, reset.code != ResetCode::Aborted),
            Packet::First(first) => (first.sync.cookie, false),
            Packet::Delivered(delivered) => (delivered.first(), true),
            // They are no message's any more.
            Packet::Confirm(_) => return Owner::Nobody,
        };
        let out = || {
            let out = self.outs.get(self.find_out(cookie, from).ok()?)?;
            Some(Owner::Out(&out.user))
        };
        let incoming = || {
            let message = self.ins.get(self.find_in(cookie, from)?)?;
            Some(Owner::In(&message.user))
        };
        let found = match packet {
            Packet::Reset(_) if out_first => out().or_else(incoming),
            Packet::Challenge(it) if it.ticket => out().or_else(incoming),
            _ if out_first => out(),
            _ => incoming(),
        };
        found.unwrap_or(Owner::Nobody)
    }

    /// A message that goes out to this peer. For who has to ask its owner, as above, of packets
    /// that are [for several](Packet::delivered); [`Host::hears`] says what he answered.
    pub fn outgoing_to(&self, to: &Address, cookie: Cookie) -> Option<&O> {
        let index = self.find_out(cookie, to).ok()?;
        self.outs.get(index).map(|out| &out.user)
    }

    /// Handles a received packet. `device`: the host's number for what it came by; one that
    /// [`Endpoint::set_link`] was not told of has no link of its own. `ecn`: the two bits of its IP
    /// header. `payload`: the buffer that it came in, which is dropped unless it goes to
    /// [`Host::data`].
    // Not inlined: its caller has a header and an address on the stack.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)] // facts of one packet
    pub fn packet<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        clock: u32,
        from: &Address,
        device: u32,
        ecn: u8,
        packet: &Packet,
        payload: H::Payload,
        host: &mut H,
    ) {
        if self.guards != 0 && self.should_be_sealed(from, packet, host) {
            return self.stats.count(Counter::SealMissing);
        }
        self.handle(now, clock, from, device, ecn, packet, payload, host);
    }

    /// Handles a packet that may have come.
    #[inline]
    #[allow(clippy::too_many_arguments)] // facts of one packet
    fn handle<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        clock: u32,
        from: &Address,
        device: u32,
        ecn: u8,
        packet: &Packet,
        payload: H::Payload,
        host: &mut H,
    ) {
        let link = self.links.of(device);
        let at = At { now, clock, link };
        self.count_bytes(at, from, packet);
        match packet {
            Packet::Sync(sync) => self.on_sync(at, from, sync, true, host),
            Packet::First(first) => {
                if !first.delivered.is_empty() {
                    self.on_delivered(at, from, &first.delivered, host);
                }
                self.on_first(at, from, ecn, first, payload, host);
            }
            Packet::Delivered(delivered) => {
                self.stats.count(Counter::AckReceived);
                self.on_delivered(at, from, delivered, host);
            }
            Packet::Confirm(cookies) => self.on_confirm(now, from, cookies),
            Packet::Token(token) => self.on_token(at, from, token, host),
            Packet::Data(data) => self.on_data(at, from, ecn, data, payload, host),
            Packet::Resend(resend) => self.on_resend(at, from, resend, host),
            Packet::Fin(fin) => self.on_fin(at, from, fin, host),
            Packet::Ack(ack) => self.on_ack(at, from, ack, host),
            Packet::Reset(reset) => self.on_reset(at, from, reset, host),
            Packet::Challenge(challenge) => match self.find_out(challenge.cookie, from) {
                Ok(index) if self.is_over(now, index) => self.stray(false),
                _ => self.on_challenge(at, from, challenge, host),
            },
        }
        if self.train.is_none() {
            // Send tokens that are due by now: where timers are late, arriving data clocks them.
            self.pace(at, TOKENS, host);
        }
    }

    /// What a packet that came means for the link's tokens.
    #[inline]
    fn count_bytes(&mut self, at: At, from: &Address, packet: &Packet) {
        let unasked = unasked_len(from, packet);
        if unasked != 0 {
            self.links
                .spend(at.link, at.now, (unasked, 1), self.config.base_rtt);
        } else if let Packet::Data(data) = packet {
            let wire_len = data.len.saturating_add(data_overhead(from));
            self.links
                .save(at.link, FRAME_WIRE_LEN.saturating_sub(wire_len));
        }
    }

    /// The place of an incoming message in the tables. Its sender has chosen the cookie, and claims
    /// an address: all of it counts.
    fn hash_in(&self, cookie: Cookie, from: &Address) -> u32 {
        let (of, whose, hash) = self.last_hash.get();
        if of == cookie.0 && whose == *from {
            return hash;
        }
        let hash = (self.keyed(cookie.0, from, purpose::MESSAGE) >> 32) as u32;
        self.last_hash.set((cookie.0, *from, hash));
        hash
    }

    /// The place of an outgoing message. Its cookie is our own random number: no two agree, and
    /// nobody else chooses how many are in one place, so that it needs no key. The address is
    /// compared.
    fn hash_out(cookie: Cookie) -> u32 {
        (mix(cookie.0) >> 32) as u32
    }

    /// A hash of a number and an address that nobody else can work out.
    fn keyed(&self, number: u64, address: &Address, purpose: u8) -> u64 {
        self.key.hash_address(number, address, purpose)
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

    /// The outgoing message that a packet belongs to. `Err`: whether its cookie is right and its
    /// address is not.
    fn find_out(&self, cookie: Cookie, from: &Address) -> Result<u32, bool> {
        let mut other = false;
        let is = |index| {
            let out = self.outs.get(index).filter(|out| out.cookie == cookie);
            out.is_some_and(|out| out.to == *from)
        };
        let find = || {
            self.out_index.find(Self::hash_out(cookie), |index| {
                let same = is(index);
                let out = self.outs.get(index);
                other |= !same && out.is_some_and(|out| out.cookie == cookie);
                same
            })
        };
        self.last_out.or_find(is, find).ok_or(other)
    }

    /// Whether an outgoing message's time is [over](Out::is_over).
    fn is_over(&self, now: Nanos, index: u32) -> bool {
        self.outs.get(index).is_some_and(|out| out.is_over(now))
    }

    /// The incoming message that a packet belongs to.
    fn find_in(&self, cookie: Cookie, from: &Address) -> Option<u32> {
        let find = || self.look_up_in(self.hash_in(cookie, from), cookie, from);
        let is = |index| self.is_in(index, cookie, from);
        self.last_in.or_find(is, find)
    }

    /// The same, with its [hash](Self::hash_in).
    fn look_up_in(&self, hash: u32, cookie: Cookie, from: &Address) -> Option<u32> {
        self.in_index
            .find(hash, |index| self.is_in(index, cookie, from))
    }

    #[inline]
    fn is_in(&self, index: u32, cookie: Cookie, from: &Address) -> bool {
        let message = self.ins.get(index);
        message.is_some_and(|it| it.cookie == cookie && it.from == *from)
    }

    /// Counts a signal that belongs to no message.
    fn stray(&mut self, other: bool) {
        self.stats.count(if other {
            Counter::SignalAddress
        } else {
            Counter::SignalUnknown
        });
    }

    /// Sends an event about a limit, at most once a second.
    fn limit<H: Host<O, I>>(&mut self, now: Nanos, limit: Limit, host: &mut H) {
        if let Some(next) = self.limited.get_mut(limit as usize) {
            if now >= *next {
                *next = now + Nanos::SECOND;
                host.event(&Event::Limited(limit));
            }
        }
    }

    /// Whether another answer may leave to what belongs to no message: a packet of so many bytes,
    /// sealed if what it answers was.
    fn may_answer(&mut self, at: At, to: &Address, what: Kind, packet: usize) -> bool {
        let seal = if self.current.is_some() { SEAL_LEN } else { 0 };
        let ip = (packet as u32).saturating_add(seal as u32);
        let share = bucket::share(ip.saturating_add(trust::ip_len(to)));
        let interval = self.links.speed(at.link).link_rate.duration(share);
        self.answers.take(at.now, at.link, what, interval)
    }

    /// Answers a packet of no known message with a RESET, up to a limit on their rate.
    fn reset<H: Host<O, I>>(
        &mut self,
        at: At,
        to: &Address,
        what: Kind,
        cookie: Cookie,
        code: ResetCode,
        host: &mut H,
    ) {
        if !self.may_answer(at, to, what, wire::RESET_LEN) {
            return self.stats.count(Counter::ResetSuppressed);
        }
        self.stats.count(Counter::reset_sent(code));
        self.answer_stray(to, &Packet::Reset(Reset { cookie, code }), host);
    }

    /// Tells the sender of an incoming message that it ends.
    fn tell_sender_reset<H: Host<O, I>>(&mut self, index: u32, code: ResetCode, host: &mut H) {
        let Some(cookie) = self.ins.get(index).map(|message| message.cookie) else {
            return;
        };
        let reset = Packet::Reset(Reset { cookie, code });
        if self.send_back(index, Class::Signal, &reset, host) {
            self.stats.count(Counter::reset_sent(code));
        }
    }
}

/// Sends a packet.
#[allow(clippy::too_many_arguments)] // facts of one packet
fn transmit<O, I, H: Host<O, I>>(
    host: &mut H,
    owner: Owner<'_, O, I>,
    to: &Address,
    class: Class,
    ren: bool,
    packet: &Packet,
    payload: Option<Slice<'_, O>>,
    seal: Option<&Seal>,
) {
    if let Some(seal) = seal {
        return transmit_sealed(host, owner, to, class, ren, packet, payload, seal);
    }
    if matches!(packet, Packet::Resend(_) | Packet::Confirm(_)) {
        return transmit_in::<MAX_HEADER, _, _, _>(host, owner, to, class, ren, packet, payload);
    }
    if matches!(packet, Packet::First(_)) {
        return transmit_in::<FIRST_MOST, _, _, _>(host, owner, to, class, ren, packet, payload);
    }
    transmit_in::<SHORT_HEADER, _, _, _>(host, owner, to, class, ren, packet, payload);
}

/// With so many bytes for the header: they have to be zeroed each time.
fn transmit_in<const N: usize, O, I, H: Host<O, I>>(
    host: &mut H,
    owner: Owner<'_, O, I>,
    to: &Address,
    class: Class,
    ren: bool,
    packet: &Packet,
    payload: Option<Slice<'_, O>>,
) {
    let mut buffer = [0; N];
    let len = packet.write(&mut buffer);
    let header = buffer.get(..len).unwrap_or(&buffer);
    host.transmit(owner, to, class, ren, header, payload);
}

#[inline(never)]
#[allow(clippy::too_many_arguments)] // facts of one packet
fn transmit_sealed<O, I, H: Host<O, I>>(
    host: &mut H,
    owner: Owner<'_, O, I>,
    to: &Address,
    class: Class,
    ren: bool,
    packet: &Packet,
    payload: Option<Slice<'_, O>>,
    seal: &Seal,
) {
    let mut buffer = [0; MAX_HEADER];
    let len = packet.write(&mut buffer);
    if let Some(flags) = buffer.get_mut(FLAGS) {
        *flags |= packet.header().kind.sealed();
    }
    let header = buffer.get(..len).unwrap_or(&buffer);
    host.transmit_sealed(owner, to, class, ren, header, payload, seal);
}

/// Bytes of a message's token on the wire.
#[inline]
fn token_wire_len(other: &Address, sealed: bool) -> u32 {
    let sealed = if sealed { SEAL_LEN as u32 } else { 0 };
    if other.is_ipv4() {
        TOKEN_WIRE_LEN.saturating_add(sealed)
    } else {
        (TOKEN_WIRE_LEN + IPV6_MORE).saturating_add(sealed)
    }
}

/// Bytes on the wire of a packet of data besides its payload.
#[inline]
fn data_overhead(to: &Address) -> u32 {
    if to.is_ipv4() {
        DATA_OVERHEAD
    } else {
        DATA_OVERHEAD + IPV6_MORE
    }
}

/// Bytes on the wire of a packet that no token asked for, as none did for a token; 0 of others.
#[inline]
fn unasked_len(from: &Address, packet: &Packet) -> u32 {
    match packet {
        Packet::Data(data) if !data.is_unasked() => 0,
        _ => packet
            .bytes()
            .saturating_add(data_overhead(from))
            .saturating_sub(DATA_LEN as u32)
            .max(TOKEN_WIRE_LEN),
    }
}

/// Mixes the bits, so that each depends on all (the finalizer of splitmix64).
#[inline]
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What the keyed hash is used for.
mod purpose {
    pub(super) const MESSAGE: u8 = 1;
    pub(super) const PATH: u8 = 8;
    pub(super) const COFLOW: u8 = 4;
    pub(super) const TOKENS: u8 = 5;
    pub(super) const STAMP: u8 = 6;
    pub(super) const CHALLENGE: u8 = 7;
    pub(super) const TICKET: u8 = 9;
    pub(super) const VAIN: u8 = 10;
}

#[cfg(test)]
mod tests;
