// SPDX-License-Identifier: GPL-2.0
//! The model network: events, links, and the ports of hosts and switches.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::iter::{once, repeat};

use turnstile_core::header::{FLAG_REN, FLAG_SHORT, FLAG_UNASKED};
use turnstile_core::port::band::Band;
use turnstile_core::port::config::Config as PortConfig;
use turnstile_core::port::flows::{Flow, LOOKS};
use turnstile_core::port::marker::field::{ecn, Label, Place};
use turnstile_core::port::{Dequeue, Hold, Port, Slot};
use turnstile_core::queue::{DropCause, Meta, NoChild, Packet as PortPacket, Queue, Sink};
use turnstile_core::transport::config::Resolved;
use turnstile_core::transport::endpoint::Endpoint;
use turnstile_core::transport::host::{Address, Class, InId, OutId, Outgoing, Owner, Sealing};
use turnstile_core::transport::seal::Psk;
use turnstile_core::transport::stats::Stats;
use turnstile_core::transport::wire::{self, Packet};
use turnstile_core::units::Nanos;

use crate::cipher;
use crate::host::{self, address, Io, Message, Out, Payload, Policy, Registry, Sent, Std};

mod applications;
mod processor;

use processor::Processors;

/// A packet under way.
#[derive(Clone)]
pub(crate) struct Flying {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) v6: bool,
    pub(crate) packet: Packet,
    pub(crate) payload: Option<Payload>,
    /// Its bytes, if it is sealed: what comes is what they say.
    pub(crate) sealed: Option<Vec<u8>>,
    pub(crate) class: Class,
    pub(crate) ecn: u8,
    hop: usize,
    meta: Meta,
    /// By which processor.
    sent_on: usize,
}

/// Says what becomes of each packet.
type Fates = dyn FnMut(&Flying) -> Fate;

/// What becomes of a packet.
pub(crate) enum Fate {
    Comes,
    Lost,
    /// It comes so much later: what is asked once more then.
    Late(u64),
    /// And once more so much later, of which it is asked as well.
    Again(u64),
}

impl PortPacket for Flying {
    fn meta(&self) -> Meta {
        self.meta
    }
    fn set_enqueued(&mut self, now: Nanos) {
        self.meta.enqueued = now;
    }
    fn label(&self, _: bool) -> Option<Label> {
        let ren = match &self.packet {
            Packet::Data(data) => data.flags & FLAG_REN != 0,
            _ => false,
        };
        Some(Label {
            place: Place::default(),
            ecn: self.ecn,
            ren,
        })
    }
    fn flow(&self, _: bool) -> Flow {
        self.packet.cookie().0 ^ self.from as u64
    }
    fn set_ecn(&mut self, _: bool, _: Place, ecn: u8) -> bool {
        self.ecn = ecn;
        true
    }
}

#[derive(Default)]
pub(crate) struct Fifo(VecDeque<Flying>);

impl Queue for Fifo {
    const EMPTY: Self = Self(VecDeque::new());
    type Packet = Flying;
    fn push(&mut self, packet: Flying) {
        self.0.push_back(packet);
    }
    fn pop(&mut self) -> Option<Flying> {
        self.0.pop_front()
    }
    fn front(&self) -> Option<Meta> {
        self.0.front().map(|packet| packet.meta)
    }
    fn set_front_enqueued(&mut self, now: Nanos) {
        if let Some(front) = self.0.front_mut() {
            front.set_enqueued(now);
        }
    }
    fn flows(&mut self, ethernet: bool, flows: &mut [Flow; LOOKS]) -> usize {
        for (flow, packet) in flows.iter_mut().zip(&self.0) {
            *flow = packet.flow(ethernet);
        }
        self.0.len().min(LOOKS)
    }
    fn remove(&mut self, place: usize) -> Option<Flying> {
        self.0.remove(place)
    }
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What a port drops.
#[derive(Default)]
struct Dropped(Vec<Flying>);

impl Sink<Flying> for Dropped {
    fn dropped(&mut self, packet: Flying, _: Band, _: DropCause) {
        self.0.push(packet);
    }
}

/// A link's impairments, in parts per million and ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    pub(crate) rate: u64,
    pub(crate) delay: u64,
    pub(crate) loss: u64,
    pub(crate) repeat: u64,
    /// So many packets are delayed by up to `late` more.
    pub(crate) reorder: u64,
    pub(crate) late: u64,
    /// Longer IP packets vanish, bytes; 0: none.
    pub(crate) mtu: u32,
    /// The sender's adapter sends all that it has at once each so many ns, in order; 0: at once.
    pub(crate) waits: u64,
}

/// An output port and its link.
pub(crate) struct Node {
    pub(crate) port: Port<Fifo>,
    link: Link,
    timer: u64,
    /// Bytes of data that it has sent.
    pub(crate) data_bytes: u64,
    pub(crate) lost: u64,
    /// Bytes that came by the link's other direction, and no token had asked for.
    owed: u32,
}

struct HostState {
    endpoint: Endpoint<Std, Out, host::In>,
    random: u64,
    timer: u64,
    /// The processor that has set it.
    timer_on: usize,
    v6: bool,
    window: u32,
    /// The application reads received bytes after this time, ns.
    read_delay: u64,
    no_memory: u64,
    /// What others wait for.
    wanted: Option<u32>,
    ports: HashMap<u16, Policy>,
    below: HashMap<usize, host::Below>,
    keys: Vec<Psk>,
    sealing: Sealing,
    /// It neither sends nor receives any more.
    dead: bool,
    /// It is suspended until then, ns.
    asleep: u64,
}

enum Event {
    Timer(usize),
    Kick(usize),
    Arrive(Box<Flying>),
    Read(usize, InId, u32),
    Send(usize, usize, Outgoing),
    Write(usize, OutId, u32, bool),
    /// Of a message of a host.
    Left(usize, usize, OutId),
    /// A processor has time for the next one.
    Free(usize),
}

/// The number by which a host knows the device that this port sends to.
pub(crate) fn device(node: &usize) -> u32 {
    *node as u32 + 1
}

/// Where packets go: the ports on the way from one host to another.
pub(crate) type Route = Box<dyn Fn(usize, usize) -> Vec<usize>>;

/// A port on the way; and that which sends by the other direction of the link that packets come to
/// it by, where the way back has as many links.
type Hop = (usize, Option<usize>);

/// Sees packets that arrive.
pub(crate) type Tap = Box<dyn FnMut(u64, &Flying)>;

/// See the module's documentation.
pub(crate) struct Network {
    pub(crate) now: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Option<Event>>,
    free: Vec<usize>,
    count: u64,
    hosts: Vec<HostState>,
    pub(crate) nodes: Vec<Node>,
    route: Route,
    routes: HashMap<(usize, usize), Vec<Hop>>,
    pub(crate) registry: Registry,
    random: u64,
    pub(crate) handled: u64,
    /// Called for each packet that arrives at a host.
    pub(crate) tap: Option<Tap>,
    /// Of the packets that arrive at a host, those are lost for which this says so.
    pub(crate) hole: Option<fn(&Packet) -> bool>,
    /// What becomes of each packet at its end.
    pub(crate) fate: Option<Box<Fates>>,
    /// Bytes of IP packets from and to each address that is no host's.
    strangers: HashMap<usize, (u64, u64)>,
    /// Bytes of IP packets of messages that were forged in a host's name, from and to it.
    named: HashMap<(usize, wire::Cookie), (u64, u64)>,
    /// The most that came of these: see [`Network::reflected`] and [`Network::drawn`].
    reflected: u64,
    drawn: u64,
    /// Bytes of IP packets that endpoints sent, and of those that came from none.
    pub(crate) sent: u64,
    pub(crate) injected: u64,
    /// Packets to this host wait in their senders, and not in their ports: who has its address on
    /// the link is not known.
    pub(crate) nowhere: Option<usize>,
    processors: Processors,
}

impl Network {
    pub(crate) fn new(seed: u64, route: Route) -> Self {
        Self {
            now: 1_000_000,
            events: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            count: 0,
            hosts: Vec::new(),
            nodes: Vec::new(),
            route,
            routes: HashMap::new(),
            registry: Registry::default(),
            random: seed,
            handled: 0,
            tap: None,
            hole: None,
            fate: None,
            strangers: HashMap::new(),
            named: HashMap::new(),
            reflected: 0,
            drawn: 0,
            sent: 0,
            injected: 0,
            nowhere: None,
            processors: Processors::default(),
        }
    }

    /// Another host: its number.
    pub(crate) fn host(&mut self, config: &Resolved, v6: bool) -> usize {
        let seed = host::next(&mut self.random);
        let endpoint = Endpoint::new(Nanos(self.now), config, [seed, !seed, seed]).unwrap();
        self.hosts.push(HostState {
            endpoint,
            random: host::next(&mut self.random),
            timer: u64::MAX,
            timer_on: 0,
            v6,
            window: 4 << 20,
            read_delay: 0,
            no_memory: 0,
            wanted: None,
            ports: HashMap::new(),
            below: HashMap::new(),
            keys: Vec::new(),
            sealing: Sealing::Off,
            dead: false,
            asleep: 0,
        });
        self.hosts.len() - 1
    }

    /// A host forgets everything.
    pub(crate) fn reboot(&mut self, host: usize, config: &Resolved) {
        let seed = host::next(&mut self.random);
        let state = &mut self.hosts[host];
        state.endpoint = Endpoint::new(Nanos(self.now), config, [seed, !seed, seed]).unwrap();
    }

    /// Another port: its number.
    pub(crate) fn node(&mut self, config: PortConfig, link: Link) -> usize {
        let config = PortConfig {
            link: Some(link.rate),
            ..config
        };
        let resolved = config.validate(None).unwrap();
        self.nodes.push(Node {
            port: Port::new(&config, &resolved, Nanos(self.now)),
            link,
            timer: u64::MAX,
            data_bytes: 0,
            lost: 0,
            owed: 0,
        });
        self.nodes.len() - 1
    }

    /// The function that says where packets go says something else from now on.
    pub(crate) fn reroute(&mut self) {
        self.routes.clear();
    }

    fn at(&mut self, time: u64, event: Event) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                self.slots.len() - 1
            }
        };
        self.count += 1;
        self.events.push(Reverse((time, self.count, slot)));
    }

    fn chance(&mut self, per_million: u64) -> bool {
        per_million != 0 && host::next(&mut self.random) % 1_000_000 < per_million
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        host::next(&mut self.random) % n
    }

    /// At this host others wait for each message, of which so much should come in `timeout`.
    pub(crate) fn want(&mut self, host: usize, least: u32) {
        self.hosts[host].wanted = Some(least);
    }

    /// Calls a function on a host's endpoint, and sends the packets that it gives.
    pub(crate) fn with<R>(
        &mut self,
        host: usize,
        what: impl FnOnce(&mut Endpoint<Std, Out, host::In>, &mut Io<'_>, u64, u32) -> R,
    ) -> R {
        let now = self.now;
        let state = &mut self.hosts[host];
        let clock = now as u32;
        let mut io = Io {
            now,
            random: &mut state.random,
            registry: &mut self.registry,
            sent: Vec::new(),
            below: &mut state.below,
            window: state.window,
            readable: Vec::new(),
            ports: &state.ports,
            keys: &state.keys,
            sealing: state.sealing,
            no_memory: state.no_memory,
            asked: None,
            wanted: state.wanted,
        };
        let result = what(&mut state.endpoint, &mut io, now, clock);
        let (sent, readable) = (io.sent, io.readable);
        let timer = state
            .endpoint
            .next_timer()
            .map_or(u64::MAX, |t| t.0.max(now));
        let (dead, delay, v6) = (state.dead, state.read_delay, state.v6);
        if timer < state.timer && !dead {
            (state.timer, state.timer_on) = (timer, self.processors.at);
            self.at(timer, Event::Timer(host));
        }
        for (id, contiguous) in readable {
            self.at(now + delay, Event::Read(host, id, contiguous));
        }
        for sent in sent {
            if !dead {
                self.transmit(host, v6, sent);
            }
        }
        result
    }

    fn transmit(&mut self, from: usize, v6: bool, sent: Sent) {
        let payload = sent.payload.map_or(0, |p| p.len) as usize;
        let ip = if v6 { 40 } else { 20 };
        let len = (14 + ip + 8 + sent.header + payload) as u32;
        // To ports a token that stands for several is so many.
        let worth = match &sent.packet {
            Packet::Token(token) => u32::from(token.worth),
            _ => 1,
        };
        let meta = Meta {
            len,
            wire_len: (len + 24).max(84) * worth,
            segs: worth,
            enqueued: Nanos(self.now),
        };
        let to = host::number(&sent.to.ip);
        self.sent += u64::from(len) - 14;
        self.processors.sends();
        let (counted, most) = if to >= self.hosts.len() {
            (
                Some(self.strangers.entry(to).or_default()),
                &mut self.reflected,
            )
        } else {
            let named = self.named.get_mut(&(to, sent.packet.cookie()));
            (named, &mut self.drawn)
        };
        if let Some((came, went)) = counted {
            *went += u64::from(len) - 14;
            let ratio = (*went * 100).checked_div(*came).unwrap_or(u64::MAX);
            *most = ratio.max(*most);
        }
        let flying = Flying {
            from,
            to,
            v6,
            packet: sent.packet,
            payload: sent.payload,
            sealed: sent.sealed,
            class: sent.class,
            ecn: match sent.class {
                Class::Paced => ecn::ECT_0,
                _ => ecn::NOT_ECT,
            },
            hop: 0,
            meta,
            sent_on: self.processors.at,
        };
        if self.nowhere != Some(to) {
            self.forward(flying);
        }
    }

    /// To the next port, or to the host.
    fn forward(&mut self, packet: Flying) {
        let key = (packet.from, packet.to);
        let route = self.routes.entry(key).or_insert_with(|| {
            // Packets to a host that does not exist get no further than the sender's own port.
            let known = key.1 < self.hosts.len();
            let to = key.1.min(self.hosts.len() - 1);
            let mut route = (self.route)(key.0, to);
            let mut back = (self.route)(to, key.0);
            back.resize(
                if back.len() == route.len() {
                    back.len()
                } else {
                    0
                },
                0,
            );
            route.truncate(if known { usize::MAX } else { 1 });
            let from = once(None).chain(back.into_iter().rev().map(Some));
            let from = from.chain(repeat(None));
            route.into_iter().zip(from).collect()
        });
        match route.get(packet.hop) {
            None => {
                self.gone(&packet);
                self.arrive(packet);
            }
            Some(&(node, came_by)) => {
                let band = match packet.class {
                    Class::Signal => Band::Signal,
                    Class::Token(priority) => Band::Token(priority),
                    Class::Data | Class::Paced => Band::Data,
                    Class::Unscheduled => Band::Unscheduled,
                };
                let flags = match &packet.packet {
                    Packet::Data(_) | Packet::First(_) => packet.packet.header().flags,
                    _ => 0,
                };
                let Node { port, owed, .. } = &mut self.nodes[node];
                let slot = match port.slot(band) {
                    Slot::DATA => match (flags & FLAG_UNASKED != 0, flags & FLAG_SHORT != 0) {
                        (true, true) => Slot::UNASKED,
                        (true, false) => Slot::UNASKED_LONG,
                        (false, true) => Slot::SHORT,
                        (false, false) => Slot::DATA,
                    },
                    slot => slot,
                };
                if slot.is_token() && *owed != 0 {
                    *owed -= port.give_way(Nanos(self.now), *owed, slot);
                }
                let wire_len = packet.meta.wire_len;
                let mut dropped = Dropped::default();
                if slot.is_token() && packet.meta.segs != 1 {
                    port.enqueue_train(Nanos(self.now), slot, packet, &mut dropped);
                } else {
                    port.enqueue_at(Nanos(self.now), slot, packet, &mut dropped);
                }
                self.lose(dropped);
                if matches!(slot, Slot::UNASKED | Slot::UNASKED_LONG | Slot::UNPAID) {
                    if let Some(other) = came_by {
                        self.nodes[other].owed += wire_len;
                    }
                }
                self.kick(node);
            }
        }
    }

    fn kick(&mut self, node: usize) {
        loop {
            let now = self.now;
            let it = &mut self.nodes[node];
            let mut dropped = Dropped::default();
            let next = it.port.dequeue(Nanos(now), &mut NoChild, &mut dropped);
            self.lose(dropped);
            let it = &mut self.nodes[node];
            match next {
                Dequeue::Packet(packet, band) => {
                    if matches!(band, Band::Data | Band::Unscheduled) {
                        it.data_bytes += u64::from(packet.meta.wire_len);
                    }
                    self.carry(node, packet);
                }
                Dequeue::Wait(at) => {
                    if at.0 < it.timer {
                        it.timer = at.0;
                        self.at(at.0, Event::Kick(node));
                    }
                    return;
                }
                Dequeue::Empty => return,
            }
        }
    }

    /// A port has dropped packets.
    fn lose(&mut self, dropped: Dropped) {
        for packet in dropped.0 {
            self.gone(&packet);
        }
    }

    /// A packet has left a port, by whatever way. If it was its host's own, the host is told.
    fn gone(&mut self, packet: &Flying) {
        let (Class::Paced, 0, Some(payload)) = (packet.class, packet.hop, &packet.payload) else {
            return;
        };
        let below = self.hosts[packet.from].below.get_mut(&payload.message);
        let Some(below) = below else { return };
        below.packets -= 1;
        if let Some(id) = below.wanted.take() {
            let left = Event::Left(packet.from, payload.message, id);
            self.at(self.now, left);
        }
    }

    fn carry(&mut self, node: usize, mut packet: Flying) {
        self.gone(&packet);
        let link = self.nodes[node].link;
        packet.hop += 1;
        let long = link.mtu != 0 && packet.meta.len > link.mtu + 14;
        if long || self.chance(link.loss) {
            self.nodes[node].lost += 1;
            return;
        }
        let line = u64::from(packet.meta.wire_len) * 1_000_000_000 / link.rate;
        let mut copies = 1 + u64::from(self.chance(link.repeat));
        while copies > 0 {
            let late = if self.chance(link.reorder) {
                self.below(link.late + 1)
            } else {
                0
            };
            let leaves = match link.waits {
                0 => self.now,
                waits => self.now.next_multiple_of(waits),
            };
            let at = leaves + line + link.delay + late;
            self.at(at, Event::Arrive(Box::new(packet.clone())));
            copies -= 1;
        }
    }

    fn arrive(&mut self, packet: Flying) {
        if let Some(tap) = &mut self.tap {
            tap(self.now, &packet);
        }
        if self.hole.is_some_and(|hole| hole(&packet.packet)) {
            return;
        }
        if let Some(fate) = &mut self.fate {
            match fate(&packet) {
                Fate::Comes => {}
                Fate::Lost => return,
                Fate::Late(by) => return self.at(self.now + by, Event::Arrive(Box::new(packet))),
                Fate::Again(after) => {
                    let again = Event::Arrive(Box::new(packet.clone()));
                    self.at(self.now + after, again);
                }
            }
        }
        if self.hosts.get(packet.to).is_none_or(|host| host.dead) {
            return;
        }
        let from = address(packet.from, packet.to, packet.v6);
        let route = self.routes.get(&(packet.from, packet.to));
        let device = route
            .and_then(|route| route.last())
            .map_or(0, |(node, _)| device(node));
        if let Some(bytes) = &packet.sealed {
            self.open(packet.to, &from, device, packet.ecn, bytes);
            return;
        }
        self.with(packet.to, |endpoint, io, now, clock| {
            ask(endpoint, io, &from, &packet.packet);
            endpoint.packet(
                Nanos(now),
                clock,
                &from,
                device,
                packet.ecn,
                &packet.packet,
                packet.payload,
                io,
            );
        });
    }

    /// A sealed packet arrives. Returns how many packets it draws at once.
    pub(crate) fn open(
        &mut self,
        to: usize,
        from: &Address,
        device: u32,
        ecn: u8,
        bytes: &[u8],
    ) -> usize {
        self.with(to, |endpoint, io, now, clock| {
            let before = io.sent.len();
            // In the model a payload takes no bytes of its own but these, whatever its length.
            let header = bytes.len().min(wire::MAX_HEADER);
            if !wire::is_sealed(bytes, bytes.len()) {
                match wire::parse(&bytes[..header], bytes.len()) {
                    Ok(packet) => {
                        endpoint.packet(Nanos(now), clock, from, device, ecn, &packet, None, io)
                    }
                    Err(why) => endpoint.malformed(why),
                }
                return io.sent.len() - before;
            }
            let packet = match wire::parse_sealed(&bytes[..header], bytes.len()) {
                Ok(packet) => packet,
                Err(why) => {
                    endpoint.malformed(why);
                    return 0;
                }
            };
            let head = packet.write(&mut [0; wire::MAX_HEADER]);
            let Some(label) = cipher::label(bytes) else {
                endpoint.not_opened();
                return 0;
            };
            let Some(opening) = endpoint.opening(from, &packet, &label, io) else {
                return 0;
            };
            let Some(payload) = cipher::open(bytes, head, &opening.key) else {
                endpoint.not_opened();
                return 0;
            };
            let mut packet = packet;
            if let (Packet::Data(data), Some(payload)) = (&mut packet, &payload) {
                data.len = payload.len;
            }
            ask(endpoint, io, from, &packet);
            let (now, opening) = (Nanos(now), &opening);
            endpoint.opened(now, clock, from, device, ecn, &packet, payload, opening, io);
            io.sent.len() - before
        })
    }

    /// A packet of an attacker's, as if it were under way.
    pub(crate) fn flying(&self, from: usize, to: usize, v6: bool, packet: &Packet) -> Flying {
        Flying {
            from,
            to,
            v6,
            packet: *packet,
            payload: None,
            sealed: None,
            class: Class::Signal,
            ecn: 0,
            hop: 0,
            meta: Meta::default(),
            sent_on: 0,
        }
    }

    /// A host seals with the first of these keys, and opens with all; without any, it does neither.
    pub(crate) fn set_keys(&mut self, host: usize, keys: &[Psk]) {
        self.hosts[host].sealing = match keys {
            [] => Sealing::Off,
            _ => Sealing::All,
        };
        self.hosts[host].keys = keys.to_vec();
        let sealing = self.hosts[host].sealing;
        self.hosts[host].endpoint.set_sealing(sealing);
    }

    /// A host seals nothing from now on, but would open what comes sealed.
    pub(crate) fn seal_some(&mut self, host: usize) {
        self.hosts[host].sealing = Sealing::Some;
        self.hosts[host].endpoint.set_sealing(Sealing::Some);
    }

    /// A host's counters.
    pub(crate) fn stats(&self, host: usize) -> &Stats {
        self.hosts[host].endpoint.stats()
    }

    /// A host is suspended until then, while time goes on. What comes meanwhile is kept, and
    /// handled when it wakes up; its timers are late, and later than that.
    pub(crate) fn sleep(&mut self, host: usize, until: u64) {
        self.hosts[host].asleep = until;
    }

    /// When an event of a host that is asleep is handled.
    fn put_off(&mut self, event: &Event) -> Option<u64> {
        let (host, more) = match event {
            Event::Timer(host) => (*host, 1000),
            Event::Arrive(packet) => {
                let hops = self.routes.get(&(packet.from, packet.to)).map(Vec::len);
                if hops != Some(packet.hop) {
                    return None;
                }
                (packet.to, 0)
            }
            Event::Read(host, ..)
            | Event::Send(host, ..)
            | Event::Write(host, ..)
            | Event::Left(host, ..) => (*host, 0),
            Event::Kick(_) | Event::Free(_) => return None,
        };
        let state = self.hosts.get_mut(host)?;
        if state.asleep <= self.now {
            return None;
        }
        let until = state.asleep + more;
        if matches!(event, Event::Timer(_)) && state.timer == self.now {
            state.timer = until;
        }
        Some(until)
    }

    /// Runs until `end`, or until no event is left. Returns whether one is.
    pub(crate) fn run_until(&mut self, end: u64) -> bool {
        while let Some(&Reverse((time, _, slot))) = self.events.peek() {
            if time > end {
                self.now = end;
                return true;
            }
            self.events.pop();
            self.now = time;
            self.handled += 1;
            self.free.push(slot);
            let event = self.slots[slot].take().unwrap();
            if let Some(until) = self.put_off(&event) {
                self.at(until, event);
                continue;
            }
            self.take(event);
        }
        false
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Timer(host) => {
                if self.hosts[host].timer == self.now {
                    self.hosts[host].timer = u64::MAX;
                    if !self.hosts[host].dead {
                        self.with(host, |endpoint, io, now, clock| {
                            endpoint.timer(Nanos(now), clock, io);
                        });
                    }
                }
            }
            Event::Kick(node) => {
                if self.nodes[node].timer == self.now {
                    self.nodes[node].timer = u64::MAX;
                    self.kick(node);
                }
            }
            Event::Arrive(packet) => self.forward(*packet),
            Event::Read(host, id, contiguous) => self.read(host, id, contiguous),
            Event::Send(host, number, what) => self.send(host, number, what),
            Event::Write(host, id, available, end) => self.write(host, id, available, end),
            Event::Left(host, message, id) => self.left(host, message, id),
            Event::Free(host) => self.is_free(host),
        }
    }

    /// Some of a message's packets have left its host's port, which has waited for that.
    fn left(&mut self, host: usize, message: usize, id: OutId) {
        let below = self.hosts[host].below.get(&message);
        let still = below.map_or(0, |below| below.packets);
        if !self.hosts[host].dead {
            self.with(host, |endpoint, io, now, _| {
                endpoint.left(Nanos(now), id, still, io);
            });
        }
    }

    /// Runs until all messages have ended at both sides, or `end`.
    pub(crate) fn run_to_the_end(&mut self, end: u64) {
        let mut from = 0;
        while from < self.registry.messages.len() && self.now < end {
            if self.registry.messages[from].result.is_some() {
                from += 1;
            } else {
                let step = self.now + 50_000;
                if !self.run_until(step.min(end)) {
                    break;
                }
            }
        }
    }
}

/// Notes which message a packet is said to belong to, before the endpoint gets it.
fn ask(endpoint: &Endpoint<Std, Out, host::In>, io: &mut Io<'_>, from: &Address, packet: &Packet) {
    io.asked = match endpoint.owner(from, packet) {
        Owner::In(message) => Some(message.cookie()),
        // Who is to have its SYNC is asked, and so for what comes with it.
        Owner::Nobody if matches!(packet, Packet::First(_)) => Some(packet.cookie()),
        Owner::Out(_) | Owner::Nobody | Owner::Ended(_) => None,
    };
}
