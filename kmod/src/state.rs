// SPDX-License-Identifier: GPL-2.0
//! What a network namespace keeps: the endpoint and the sockets. All of it is behind the
//! namespace's lock.

use core::cell::Cell;

use crate::buffer::Given;
use crate::host::{Found, Surroundings};
use crate::incoming::Kept;
use crate::memory::Kernel;
use crate::outgoing::Outgoing;
use crate::settings::Settings;
use crate::socket::Socket;
use crate::sockets::Sockets;
use kernel::prelude::*;
use knet_transport::{
    now, random, times, Arrival, Device, Locked, Net, Opening, Origin, Outbox, Path, Refused, Skb,
    SockAddress, Verdict,
};
use turnstile_core::header::PORT;
use turnstile_core::transport::budget::Standing;
use turnstile_core::transport::config::{Clock, Resolved};
use turnstile_core::transport::endpoint::{Endpoint, Opening as Sealed};
use turnstile_core::transport::host::{Address, OutId, Owner, Unreachable};
use turnstile_core::transport::seal::Label;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::{self, Delivered, First, Malformed, Packet};
use turnstile_core::units::Nanos;

/// The transport. The root of the crate says what it does (`impl Transport`).
pub(crate) struct Turnstile;

/// The endpoint, with what the sockets keep for each message.
pub(crate) type Messages = Endpoint<Kernel, Outgoing, Kept>;

/// What a network namespace keeps.
pub(crate) struct State {
    pub(crate) endpoint: Messages,
    pub(crate) sockets: Sockets,
    pub(crate) settings: Settings,
}

impl State {
    /// With the default configuration.
    ///
    /// It is larger than a kernel stack can hold beside others: all of it is made where it stays.
    pub(crate) fn new(net: &mut Opening<'_>) -> Option<KBox<Self>> {
        let settings = Settings::new(net.is_initial()).ok()?;
        let state = init!(Self {
            endpoint: Messages::NEW,
            sockets: Sockets::new(),
            settings,
        });
        let mut state = KBox::init(state, GFP_KERNEL_ACCOUNT).ok()?;
        state.set_up(net).then_some(state)
    }

    #[inline(never)]
    fn set_up(&mut self, net: &mut Opening<'_>) -> bool {
        match self.settings.resolve(net.fastest()) {
            Ok(resolved) => {
                if !self.settings.initial {
                    self.endpoint.grow_ahead();
                }
                let seed = [random(), random(), random()];
                self.endpoint.start(Nanos(now()), &resolved, seed)
            }
            Err(_) => false,
        }
    }

    /// When the timer is to fire, ns.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        if self.sockets.has_promotable() {
            // At once, and after whatever else waits for the CPU and the lock.
            return Some(0);
        }
        let endpoint = self.endpoint.next_timer().map_or(u64::MAX, |at| at.0);
        let waiting = self.sockets.waiting.next().unwrap_or(u64::MAX);
        let next = endpoint.min(waiting);
        (next != u64::MAX).then_some(next)
    }

    /// The endpoint, and what it needs for a call.
    pub(crate) fn split<'a>(
        &'a mut self,
        outbox: &'a mut Outbox,
        now: u64,
    ) -> (&'a mut Messages, Surroundings<'a>) {
        let config = self.endpoint.config();
        let surroundings = Surroundings {
            dscp: config.dscp,
            receive_memory: config.receive_memory.saturating_mul(2),
            sockets: &mut self.sockets,
            events: &mut self.settings.events,
            outbox,
            now,
            device: 0,
            slave: 0,
            found: None,
            unheard: None,
            drawn: None,
            heard: Cell::new(None),
        };
        (&mut self.endpoint, surroundings)
    }
}

/// The time, and the low 32 bits of the expiry clock, ns.
pub(crate) fn clocks(config: &Resolved) -> (u64, u32) {
    let (now, wall) = times(config.clock == Clock::Tai);
    (now, wall as u32)
}

/// The timer fires.
pub(crate) fn timer(state: &mut Locked<'_, Turnstile>) {
    let (state, outbox) = state.parts();
    let (now, clock) = clocks(state.endpoint.config());
    let (endpoint, mut surroundings) = state.split(outbox, now);
    endpoint.timer(Nanos(now), clock, &mut surroundings);
    state.settle(now, outbox);
}

/// Packets of a message that has waited for that have left.
pub(crate) fn left(state: &mut Locked<'_, Turnstile>, name: u64, still: u32) {
    let id = OutId {
        index: name as u32,
        generation: (name >> 32) as u32,
    };
    let (state, outbox) = state.parts();
    let now = now();
    let (endpoint, mut surroundings) = state.split(outbox, now);
    endpoint.left(Nanos(now), id, still, &mut surroundings);
    state.settle(now, outbox);
}

/// A packet came.
pub(crate) fn packet(net: &mut Net<'_, Turnstile>, arrival: Arrival<'_>) {
    let (head, len) = (arrival.head(), arrival.len as usize);
    // Looked at where it is: it is large.
    match &wire::parse(head, len) {
        Ok(packet) => deliver(net, arrival, packet, None),
        Err(_) if wire::is_sealed(head, len) => sealed(net, arrival),
        Err(why) => malformed(net, *why),
    }
}

#[cold]
fn malformed(net: &mut Net<'_, Turnstile>, why: Malformed) {
    if let Some(mut state) = net.lock() {
        state.endpoint.malformed(why);
    }
}

/// A packet that is sealed. It is opened without the lock.
#[inline(never)]
fn sealed(net: &mut Net<'_, Turnstile>, mut arrival: Arrival<'_>) {
    let packet = match wire::parse_sealed(arrival.head(), arrival.len as usize) {
        Ok(packet) => packet,
        Err(why) => return malformed(net, why),
    };
    let label = arrival.label();
    let label = label.and_then(|label| Label::read(&label));
    let Some(opening) = opening(net, &arrival, &packet, label) else {
        return;
    };
    if open(&mut arrival, &packet, &opening) {
        deliver(net, arrival, &packet, Some(&opening));
    } else if let Some(mut state) = net.lock() {
        state.endpoint.not_opened();
    }
}

/// How a sealed packet is to be opened.
#[inline(never)]
fn opening(
    net: &mut Net<'_, Turnstile>,
    arrival: &Arrival<'_>,
    packet: &Packet,
    label: Option<Label>,
) -> Option<Sealed> {
    let mut state = net.lock()?;
    let (state, outbox) = state.parts();
    let Some(label) = label else {
        state.endpoint.not_opened();
        return None;
    };
    let from = address(&arrival.origin.from);
    let (endpoint, mut surroundings) = state.split(outbox, 0);
    (surroundings.device, surroundings.slave) = (arrival.origin.device, arrival.origin.slave);
    endpoint.opening(&from, packet, &label, &surroundings)
}

#[inline(never)]
fn open(arrival: &mut Arrival<'_>, packet: &Packet, opening: &Sealed) -> bool {
    let header = match packet {
        Packet::Data(_) => wire::DATA_LEN,
        other => other.bytes() as usize,
    };
    let label = &opening.label;
    let seal = knet_transport::Seal::new(&opening.key, label.nonce(), label.write());
    arrival.open(header, &seal)
}

/// A packet came, and is what it says if it was opened.
#[inline]
fn deliver(
    net: &mut Net<'_, Turnstile>,
    mut arrival: Arrival<'_>,
    packet: &Packet,
    opening: Option<&Sealed>,
) {
    let Some(mut state) = net.lock() else {
        return;
    };
    let origin = arrival.origin;
    if !is_named(&origin, packet) {
        // Whoever has changed it would not know what to do with the answers.
        return state.endpoint.refused(Counter::RefusedPort);
    }
    let from = address(&origin.from);
    // The socket is asked before the sender is told that anything came.
    let (mut found, mut unheard) = (None, None);
    let mut destined = destination(&mut state, &from, &origin, packet);
    if let Some(list) = packet.delivered() {
        if !is_for_one(&state.endpoint, &from, list, destined) {
            drop(state);
            unheard = Some(ask_each(net, &mut arrival, &from, list));
            state = match net.lock() {
                Some(state) => state,
                None => return,
            };
            destined = match packet {
                // All of them were asked.
                Packet::Delivered(_) => None,
                _ => destination(&mut state, &from, &origin, packet),
            };
        }
    }
    let socket = destined.and_then(|(handle, _)| state.sockets.get(handle));
    if let (Some((handle, bound)), Some(socket)) = (destined, socket) {
        let bound = bound.unwrap_or_else(|| socket.sock.tie().device);
        let mut verdict = arrival.admitted(&socket.sock, bound, true);
        if verdict == Verdict::AskUnlocked {
            let sock = socket.sock.hold();
            drop(state);
            verdict = arrival.admitted(&sock, bound, false);
            state = match net.lock() {
                Some(state) => state,
                None => return,
            };
            destined = destination(&mut state, &from, &origin, packet);
            if destined.is_none_or(|(now, _)| now != handle) {
                // It is another one's by now, which was not asked. The sender will repeat it.
                verdict = Verdict::Refused;
            }
        }
        if verdict != Verdict::Passes {
            return state.endpoint.refused(Counter::RefusedFilter);
        }
        found = destined.map(found_by);
    }
    let mut way = Way::of(&origin, found);
    way.unheard = unheard.as_ref();
    accept(
        &mut state,
        &from,
        &way,
        (packet, opening),
        arrival.into_skb(),
    );
}

/// Whether all messages that a packet says are complete are those of the socket that it is for, and
/// bound as that is: then that is asked for all of it.
fn is_for_one(
    endpoint: &Messages,
    from: &Address,
    list: &Delivered,
    destined: Option<(u64, Option<u32>)>,
) -> bool {
    list.cookies().iter().all(|&cookie| {
        let Some(message) = endpoint.outgoing_to(from, cookie) else {
            return true;
        };
        let device = message.tie.device;
        destined.is_some_and(|(handle, bound)| {
            handle == message.socket && (device == 0 || bound == Some(device))
        })
    })
}

/// Asks the socket of each message that a packet says is complete, as for an ACK of its own. Which
/// of them may not have it.
#[inline(never)]
fn ask_each(
    net: &mut Net<'_, Turnstile>,
    arrival: &mut Arrival<'_>,
    from: &Address,
    list: &Delivered,
) -> Delivered {
    let mut unheard = Delivered::NONE;
    let mut last = None;
    for &cookie in list.cookies() {
        let (whose, verdict) = {
            let Some(state) = net.look() else {
                break;
            };
            let Some(message) = state.endpoint.outgoing_to(from, cookie) else {
                continue;
            };
            let whose @ (handle, bound) = (message.socket, message.tie.device);
            let Some(socket) = state.sockets.get(handle) else {
                continue;
            };
            let verdict = match last {
                Some((asked, verdict)) if asked == whose => verdict,
                _ => match arrival.admitted(&socket.sock, bound, true) {
                    Verdict::AskUnlocked => {
                        let sock = socket.sock.hold();
                        drop(state);
                        arrival.admitted(&sock, bound, false)
                    }
                    verdict => verdict,
                },
            };
            (whose, verdict)
        };
        last = Some((whose, verdict));
        if verdict != Verdict::Passes {
            unheard.push(cookie);
            if let Some(mut state) = net.look() {
                state.endpoint.refused(Counter::RefusedFilter);
            }
        }
    }
    unheard
}

/// Whether the UDP port that a packet came from is one that its message has. If not, somebody on
/// the way has changed it.
pub(crate) fn is_named(origin: &Origin, packet: &Packet) -> bool {
    origin.port == PORT || origin.port == packet.cookie().source_port()
}

/// A datagram came that is not for the transport, or could not be read.
pub(crate) fn refused(state: &mut Locked<'_, Turnstile>, why: Refused) {
    state.endpoint.refused(match why {
        Refused::Port => Counter::RefusedPort,
        Refused::Address => Counter::RefusedAddress,
        Refused::Unreadable => Counter::Unreadable,
    });
}

/// How a packet came.
pub(crate) struct Way<'a> {
    link: u32,
    device: u32,
    slave: u32,
    ecn: u8,
    /// The socket that may have it.
    found: Option<Found>,
    /// Of the messages that it says are complete, those whose sockets may not have it.
    unheard: Option<&'a Delivered>,
}

impl Way<'_> {
    pub(crate) fn of(origin: &Origin, found: Option<Found>) -> Self {
        Self {
            link: origin.link,
            device: origin.device,
            slave: origin.slave,
            ecn: origin.ecn,
            found,
            unheard: None,
        }
    }
}

/// A packet that its socket may have, and how it was opened if it was sealed.
fn accept(
    state: &mut Locked<'_, Turnstile>,
    from: &Address,
    way: &Way<'_>,
    (packet, opening): (&Packet, Option<&Sealed>),
    skb: Skb,
) {
    let device = speed(state, way.link);
    let (state, outbox) = state.parts();
    let at = clocks(state.endpoint.config());
    state.take(outbox, at, (from, way, device), (packet, opening), skb);
    state.settle(at.0, outbox);
}

/// What is known of a link that a packet came by, if the endpoint does not know it yet.
pub(crate) fn speed(state: &Locked<'_, Turnstile>, link: u32) -> Device {
    match state.endpoint.has_link(link) {
        true => Device::Silent,
        false => state.device(link),
    }
}

/// The socket that a packet is for, if there is one: that of its message, or the one that would
/// have it. And the device that it was bound to when the message began; `None`: that is now.
pub(crate) fn destination(
    state: &mut Locked<'_, Turnstile>,
    from: &Address,
    origin: &Origin,
    packet: &Packet,
) -> Option<(u64, Option<u32>)> {
    let (state, outbox) = state.parts();
    match (state.endpoint.owner(from, packet), packet) {
        (Owner::Out(message), _) => Some((message.socket, Some(message.tie.device))),
        (Owner::In(message), _) => Some((message.socket, Some(message.tie.device))),
        (Owner::Nobody, Packet::Sync(sync) | Packet::First(First { sync, .. })) if !sync.probe => {
            let (_, mut surroundings) = state.split(outbox, 0);
            (surroundings.device, surroundings.slave) = (origin.device, origin.slave);
            let sender = SockAddress {
                ip: from.ip,
                scope: from.scope,
                port: sync.source,
            };
            let found = surroundings.find(&sender, &from.local, sync.destination)?;
            Some((found, None))
        }
        (Owner::Nobody | Owner::Ended(_), _) => None,
    }
}

/// The socket that a packet was [destined](destination) for, and may have it.
pub(crate) fn found_by((handle, bound): (u64, Option<u32>)) -> Found {
    Found {
        handle,
        listens: bound.is_none(),
    }
}

/// Whether somebody quotes a packet of a message.
pub(crate) fn quoted(state: &mut Locked<'_, Turnstile>, to: Path, port: u16, head: &[u8]) -> bool {
    let cookie = head.get(4..).and_then(|rest| rest.first_chunk::<8>());
    let known = cookie.is_some_and(|cookie| {
        let cookie = wire::Cookie(u64::from_be_bytes(*cookie));
        port == cookie.source_port() && state.endpoint.has_message(&address(&to), cookie)
    });
    if !known {
        state.endpoint.refused(Counter::UnreachableIgnored);
    }
    known
}

/// A packet was not delivered, somebody says.
pub(crate) fn unreachable(
    state: &mut Locked<'_, Turnstile>,
    to: Path,
    head: &[u8],
    what: knet_transport::Unreachable,
) {
    use knet_transport::Unreachable as From;
    let (state, outbox) = state.parts();
    // Who is quoted too briefly is not believed: time tells.
    let Some(cookie) = head.get(4..).and_then(|rest| rest.first_chunk::<8>()) else {
        return;
    };
    let what = match what {
        From::Port => Unreachable::Port,
        From::Host => Unreachable::Host,
        From::Network => Unreachable::Network,
        From::Prohibited => Unreachable::Prohibited,
    };
    let cookie = wire::Cookie(u64::from_be_bytes(*cookie));
    let now = now();
    let to = address(&to);
    let (endpoint, mut surroundings) = state.split(outbox, now);
    endpoint.unreachable(Nanos(now), &to, cookie, what, &mut surroundings);
    state.settle(now, outbox);
}

/// A packet was longer than its route's MTU.
pub(crate) fn path_mtu(state: &mut Locked<'_, Turnstile>, to: Path, mtu: u32) {
    let (state, _) = state.parts();
    state.endpoint.path_mtu(Nanos(now()), &address(&to), mtu);
}

/// A path as the endpoint names it.
pub(crate) fn address(path: &Path) -> Address {
    Address {
        ip: path.ip,
        local: path.local,
        scope: path.scope,
    }
}

impl State {
    /// The endpoint takes a packet.
    #[inline]
    pub(crate) fn take(
        &mut self,
        outbox: &mut Outbox,
        (now, clock): (u64, u32),
        (from, way, device): (&Address, &Way<'_>, Device),
        (packet, opening): (&Packet, Option<&Sealed>),
        skb: Skb,
    ) {
        let (endpoint, mut surroundings) = self.split(outbox, now);
        (surroundings.device, surroundings.slave) = (way.device, way.slave);
        surroundings.found = way.found;
        surroundings.unheard = way.unheard;
        if let Device::Speed(rate) = device {
            endpoint.set_link(Nanos(now), way.link, rate);
        }
        let (link, ecn, at, host) = (way.link, way.ecn, Nanos(now), &mut surroundings);
        match opening {
            None => endpoint.packet(at, clock, from, link, ecn, packet, skb, host),
            Some(opening) => {
                endpoint.opened(at, clock, from, link, ecn, packet, skb, opening, host);
            }
        }
    }

    /// Gives windows to messages whose turn has come, after the endpoint was called at `now`.
    pub(crate) fn settle(&mut self, now: u64, outbox: &mut Outbox) {
        for _ in 0..SETTLED {
            let Some(handle) = self.sockets.take_promotable() else {
                break;
            };
            self.promote(handle, outbox);
        }
        let endpoint = &self.endpoint;
        self.sockets
            .offer_places(now, |user, to| endpoint.may_send(user, to));
    }

    /// Gives room to messages that wait at a socket, if there is some, and the rank of those that
    /// are whole to what is read before them.
    // Not inlined, so that packets that give no room need no stack for it.
    #[inline(never)]
    pub(crate) fn promote(&mut self, handle: u64, outbox: &mut Outbox) {
        let waits = |socket: &Socket| socket.buffer.budget.is_wanted();
        if self.sockets.get(handle).is_some_and(waits) {
            self.measure(handle);
            self.give_room(handle, outbox);
        }
        self.sockets.resize(handle);
        let read = |socket: &Socket| socket.read_for_others();
        if let Some(id) = self.sockets.get(handle).and_then(read) {
            let now = now();
            let (endpoint, mut surroundings) = self.split(outbox, now);
            endpoint.hurry(Nanos(now), id, &mut surroundings);
        }
    }

    /// Looks how large a socket's receive buffer is, and may be.
    pub(crate) fn measure(&mut self, handle: u64) {
        let all = self.endpoint.config().receive_memory.saturating_mul(2);
        self.sockets.measure(handle, all);
    }

    fn give_room(&mut self, handle: u64, outbox: &mut Outbox) {
        let now = now();
        for _ in 0..PROMOTED {
            let Some(socket) = self.sockets.get_mut(handle) else {
                return;
            };
            let (id, place, ahead) = match socket.buffer.give_room() {
                Given::Nothing => return,
                Given::Again => continue,
                Given::Room(id, place, ahead) => (id, place, ahead),
            };
            let Some(message) = self.endpoint.in_mut(id) else {
                continue;
            };
            // What a stranger had it has given back by then.
            (message.place, message.standing) = (place, Standing::Known);
            let window = message.read.saturating_add(ahead);
            message.window = message.window.max(window);
            let window = message.window;
            socket.notice(message);
            let (endpoint, mut surroundings) = self.split(outbox, now);
            endpoint.window(Nanos(now), id, window, &mut surroundings);
        }
        // The rest follows after the next call, or by the timer.
        self.sockets.mark_promotable(handle);
    }
}

/// So many sockets are looked at after a call of the endpoint; others after the next.
const SETTLED: u32 = 8;
/// So many messages are given room at once.
const PROMOTED: u32 = 32;
