// SPDX-License-Identifier: GPL-2.0
//! Messages that their senders pace: policies `dcqcn` and `timely`.
//!
//! There are no tokens. The SYNC says that its sender paces the message
//! ([`FLAG_PACED`](crate::header::FLAG_PACED)); DATA follows at the rate that a law allows
//! ([`rate`](crate::transport::rate)), as far as the receiver's window goes, marked as unasked
//! and with ECT(0), which ports turn into CE or UE. The receiver acknowledges each *segment* of 16
//! full packets as it is complete. Each of its ACKs says how the worst of the data since the last
//! one was marked; and once in `cnp-interval` at most, what was marked draws an ACK at once which
//! is a notification (DCQCN's CNP). DCQCN goes by notifications, TIMELY by how long segments take
//! and by the marks of their ACKs. The receiver does the same for both, so that it need not know
//! which it is, and the sender may change it under way.
//!
//! # A flow is a message
//!
//! The papers' flow is a queue pair of RDMA: it has one UDP source port, so one path, and a window
//! and losses of its own. Here that is a message: each has its own source port, and hosts with many
//! messages between them use many paths. A mark is about a path, and to slow down all messages to a
//! host because one path is congested would be wrong. What such a rate cannot learn is learnt anew
//! by each message, as by each flow of the papers' simulations, which have a queue pair of its own.
//! DCQCN begins at the link's rate. So that many messages of one host do not fill its own port, all
//! of them have turns on its link, as queue pairs have at a network card: one that is due while the
//! link is taken by others' packets waits for its turn, which peers have first, and then the
//! messages of each, those that have just begun before others (`line.rs`,
//! [`Endpoint::take_turns`]).
//!
//! The turns are on a link that is never paused, at its whole speed. While it is paused, or others
//! take it, packets wait in the host's own queues. Of each message no more than a few do
//! ([`below`](crate::transport::below)); it goes on as they leave. By then all that is there has
//! the link first, and only then the next turn comes. So a message that begins has no more before
//! it than a few packets of each, and then its turns.
//!
//! # In step
//!
//! The papers' senders pace packets as evenly as they can. A port that marks all from a length on,
//! as TCD's does, marks a packet or two when the queue gets there, and whose they are decides who
//! is cut. With exact clocks these are one flow's more often than others', for ever: of five on one
//! link it is cut eight times where others are cut seven times, and has three quarters of its share
//! (model test `paced`). So a packet is anywhere in its interval, as tokens are (`jitter`).
//!
//! # Whose policy rules
//!
//! The sender's, for what it sends. A receiver takes what is paced with any policy of its own: it
//! is bounded by the window, which there is memory for; until the sender has proved its address, by
//! what the link carries in a round trip, as with REN. What takes the link's time from tokens is
//! counted as all is that comes unasked. A token for such a message draws nothing.
//!
//! # Without an answer
//!
//! Until its receiver has answered, of a message no more is sent than the link carries in
//! `base-rtt`, and nothing but a short packet to a host that has not answered anything lately, or
//! with `unscheduled off` to any ([`Endpoint::first_flight`]). The SYNC announces as much, and a
//! receiver answers one that announces nothing at once. Later no more is under way than the link
//! carries in `rto`, after which a sender would ask whether anybody is there. The papers have no
//! such bound, as a queue pair is set up first, and its network drops nothing.

use super::*;
use crate::transport::allowance;
use crate::transport::config::Unscheduled;
use crate::transport::incoming::ACK_PACKETS;
use crate::transport::line::Whose;
use crate::transport::links::SHARED;
use crate::transport::outgoing::Piece;
use crate::transport::rate::flow::{Flow, Turn};
use crate::transport::rate::lately::Sent;
use crate::transport::rate::Kind;

/// A message has just begun until it has sent what its host's link carries in so many `base-rtt`:
/// what is shorter is over before a law has cut its rate twice.
const YOUNG: u32 = 4;

/// Bytes on the wire of a SYNC over IPv4: preamble, gap and all.
const SIGNAL_WIRE_LEN: u32 = 110;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// A message begins that is paced by a law of this kind. Room for it was made.
    #[inline(never)]
    pub(super) fn begin_flow(&mut self, now: Nanos, index: u32, kind: Kind) {
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        out.paced = true;
        self.links.join_out(out.link);
        self.links.occupy(out.link, now, SIGNAL_WIRE_LEN);
        let (line, whose) = (self.links.speed(out.link).link, out.peer);
        let left = self.links.last_left(out.link);
        let length = out.length.unwrap_or(0);
        let first = self.first_flight(now, index);
        if let Some(out) = self.outs.get_mut(index) {
            (out.line, out.unscheduled) = (first, first.min(length));
        }
        let span = span(&self.config);
        let of_peer = self.lately.get_mut(whose);
        if let Some((place, of_peer)) = self.flows.get_mut(index).zip(of_peer) {
            // Peers have turns, and its messages have theirs among these.
            self.peers_lately.note(now, span, &mut of_peer.sent);
            let peers = self.peers_lately.count(now, span);
            let messages = of_peer.messages.count(now, span).saturating_add(1);
            let others = peers.saturating_mul(messages).saturating_sub(1);
            let begins = (kind, line, others);
            let flow = place.insert(Flow::new(now, &mut self.laws, &self.config, begins));
            flow.turn_to(left);
            of_peer.messages.note(now, span, &mut flow.lately);
        }
    }

    /// How much of a message is sent before its receiver has answered.
    ///
    /// By `unscheduled auto` that is a round trip's to who has lately shown that it has its
    /// address: a ticket of its own, or an allowance that holds. To others goes what goes to them
    /// with any policy, one short packet: whoever has the address may not run the transport at all.
    fn first_flight(&mut self, now: Nanos, index: u32) -> u32 {
        let Some(out) = self.outs.get(index) else {
            return 0;
        };
        let wire = self.config.base_bytes(self.links.speed(out.link));
        let whole = sending::base_payload(wire, out.mss, &out.to);
        let known =
            || self.peers.ticket(now, out.peer) != 0 || self.peers.allowances.until(out.peer) > now;
        match self.config.first_flight {
            Unscheduled::Packets(packets) => whole.min(packets.saturating_mul(out.mss)),
            Unscheduled::Auto if known() => whole,
            Unscheduled::Auto => {
                let wire_len = |length: u32| length.saturating_add(wire_overhead(&out.to, 0));
                let length = out.length.filter(|it| wire_len(*it) <= allowance::LEAST);
                length.unwrap_or(0)
            }
        }
    }

    /// The receiver of a message has asked for our address, and so has shown its own.
    pub(super) fn met<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let Some(out) = self.outs.get_mut(index).filter(|out| out.paced) else {
            return;
        };
        let wire = self.config.base_bytes(self.links.speed(out.link));
        out.line = sending::base_payload(wire, out.mss, &out.to);
        self.drive(now, index, sending::BURST, host);
    }

    /// A message ends.
    #[inline]
    pub(super) fn end_flow(&mut self, index: u32) {
        if let Some(out) = self.outs.get(index).filter(|out| out.paced) {
            let (link, peer) = (out.link, out.peer);
            let wire_len = out
                .mss
                .saturating_add(wire_overhead(&out.to, out.seal_len()));
            if let Some(flow) = self.flows.get_mut(index).and_then(Option::take) {
                if let Some(of_peer) = self.lately.get_mut(peer) {
                    of_peer.messages.forget(flow.lately);
                    // A peer that nothing is sent to has no part of the link.
                    if of_peer.messages.is_none() {
                        let sent = core::mem::replace(&mut of_peer.sent, Sent::NEVER);
                        self.peers_lately.forget(sent);
                    }
                }
            }
            self.links.leave_out(link, (index, peer), wire_len);
        }
    }

    /// The rate of a message that goes out, bytes/s on the wire; 0 if nobody paces it here.
    pub(super) fn rate_of(&self, index: u32) -> u64 {
        let flow = self.flows.get(index).and_then(Option::as_ref);
        flow.map_or(0, |flow| flow.control.bytes_per_sec())
    }

    /// Comes back to a message at this time.
    fn drive_soon(&mut self, index: u32, at: Nanos) {
        if self.out_timers.key(index).is_none_or(|key| at < key) {
            self.out_timers.set(index, at);
        }
    }

    /// Sends what is due of a message that is paced, but no more than so many packets. How many it
    /// sent.
    #[inline]
    pub(super) fn drive<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        packets: u32,
        host: &mut H,
    ) -> u32 {
        match self.outs.get(index) {
            Some(out) if out.paced => self.drive_paced(now, index, packets, host),
            _ => 0,
        }
    }

    #[inline(never)]
    fn drive_paced<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        packets: u32,
        host: &mut H,
    ) -> u32 {
        let mut count = 0_u32;
        let Some((peer, seal)) = self.outs.get(index).map(|out| (out.peer, out.seal_len())) else {
            return count;
        };
        loop {
            let most = self.most_of(now, peer).saturating_sub(seal);
            let Some(out) = self.outs.get_mut(index) else {
                return count;
            };
            let most_under_way = self.links.speed(out.link).bytes_in(self.config.rto);
            if !out.may_go_on(now, most_under_way) {
                if let Some(at) = out.held_until(now) {
                    self.drive_soon(index, at);
                }
                return count;
            }
            if count >= packets {
                self.drive_soon(index, now);
                return count;
            }
            match self.turn(now, index, host) {
                Ok(()) => {}
                Err(Some(at)) => {
                    self.drive_soon(index, at);
                    return count;
                }
                Err(None) => return count,
            }
            let Some(Ok(piece)) = self.outs.get_mut(index).map(|out| out.next(now, most)) else {
                return count;
            };
            self.shorten_if_stuck(now, index);
            self.transmit_piece(now, index, piece, None, host);
            self.paid(now, index, piece);
            count = count.saturating_add(1);
        }
    }

    /// Packets of a message that do not get through may be too long for its path.
    #[inline]
    pub(super) fn shorten_if_stuck(&mut self, now: Nanos, index: u32) {
        let out = self.outs.get(index);
        if let Some(tried) = out.and_then(|out| out.stuck(now, self.config.rto)) {
            self.narrow(now, index, tried);
        }
    }

    /// Whether a message may send its next packet now. `Err`: when it is due by its rate; `None`:
    /// when what it has below has left ([`Endpoint::left`]), or when it has its turn on the host's
    /// link ([`Endpoint::take_turns`]).
    ///
    /// Only one that is due takes a place on the link. So each message has at most one, and those
    /// that wait go round.
    #[inline]
    fn turn<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        host: &mut H,
    ) -> Result<(), Option<Nanos>> {
        let id = self.out_id(index);
        let out = self.outs.get(index).ok_or(None)?;
        let flow = self.flows.get_mut(index).and_then(Option::as_mut);
        let flow = flow.ok_or(None)?;
        let wire_len = out
            .mss
            .saturating_add(wire_overhead(&out.to, out.seal_len()));
        let line = self.links.speed(out.link).link;
        let law = flow.law(&mut self.laws, &self.config, line, now);
        flow.control.advance(law, now);
        if flow.ready() > now {
            // Its rate may be higher by now, and will be when it next goes up.
            flow.hasten(now, flow.control.interval(wire_len));
            if flow.ready() > now {
                let next = flow.control.next(law).unwrap_or(Nanos::MAX);
                return Err(Some(flow.ready().min(next.max(now + Nanos(1)))));
            }
        }
        if flow.turn != Turn::Waits {
            let most = self.links.most_below(out.link, now);
            if !host.has_room_below(id, &out.user, out.link, most) {
                flow.below = most;
                // What is there has the link first, whoever's turn it is.
                self.links.is_late(out.link, now, host.below(out.link));
                return Err(None);
            }
            flow.below = 0;
            if let Some(number) = flow.last_left(most.saturating_sub(1)) {
                self.links.has_left(out.link, number);
            }
        }
        let may = match flow.turn {
            Turn::Waits => false,
            Turn::Has => {
                self.links.occupy(out.link, now, wire_len);
                true
            }
            Turn::None => {
                let speed = self.links.speed(out.link);
                let whose = Whose {
                    index,
                    peer: out.peer,
                    young: out.sent < self.config.base_bytes(speed).saturating_mul(YOUNG),
                };
                self.links.may_go_out(out.link, now, whose, wire_len)
            }
        };
        flow.turn = if may { Turn::None } else { Turn::Waits };
        may.then_some(()).ok_or(None)
    }

    /// Of a message for which there was no room below ([`Host::has_room_below`]) packets have left,
    /// and so many are still there.
    ///
    /// A call for each packet would be much. So the host counts, and calls only if a message waits.
    pub fn left<H: Host<O, I>>(&mut self, now: Nanos, id: OutId, still: u32, host: &mut H) {
        let Some(index) = self.out_at(id) else {
            return;
        };
        let (out, flow) = (self.outs.get(index), self.flows.get(index));
        let Some((out, flow)) = out.zip(flow.and_then(Option::as_ref)) else {
            return;
        };
        // If it went on before this came, it has looked for itself.
        if flow.below == 0 {
            return;
        }
        if let Some(number) = flow.last_left(still) {
            self.links.has_left(out.link, number);
        }
        match still {
            0 => self.links.idled(out.link, now, flow.below),
            _ => self.links.is_late(out.link, now, host.below(out.link)),
        }
        self.drive(now, index, sending::BURST, host);
    }

    /// Messages that have waited for it have their turns on the host's links now: they send no more
    /// than so many packets. How many they sent.
    pub(super) fn take_turns<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        packets: u32,
        host: &mut H,
    ) -> u32 {
        let mut sent = 0_u32;
        // One that has nothing to send any more leaves its turn to the next.
        for _ in 0..packets {
            if sent >= packets {
                break;
            }
            let outs = &self.outs;
            let peer = |index: u32| outs.get(index).map(|out| out.peer);
            let Some(index) = self.links.take_turn(now, peer) else {
                break;
            };
            self.set_turn(index, Turn::Has);
            let left = packets.saturating_sub(sent);
            sent = sent.saturating_add(self.drive(now, index, left, host));
            let flow = self.flows.get(index).and_then(Option::as_ref);
            if flow.is_some_and(|flow| flow.turn == Turn::Has) {
                self.set_turn(index, Turn::None);
            }
        }
        sent
    }

    /// A paced message's question takes the link's time as well: those of a thousand messages would
    /// otherwise wait at the host's port, before all data.
    #[inline]
    pub(super) fn asked_paced(&mut self, now: Nanos, index: u32) {
        if let Some(out) = self.outs.get(index).filter(|out| out.paced) {
            self.links.occupy(out.link, now, SIGNAL_WIRE_LEN);
        }
    }

    fn set_turn(&mut self, index: u32, turn: Turn) {
        if let Some(flow) = self.flows.get_mut(index).and_then(Option::as_mut) {
            flow.turn = turn;
        }
    }

    /// Makes room for a message that will be paced. `false`: no memory.
    pub(super) fn room_for_flow(&mut self, index: u32, peer: u32) -> bool {
        self.flows.reserve(index, || None)
            && self.lately.reserve(peer, || lately::Peer::NONE)
            && self.links.reserve_out(SHARED, index, peer)
    }

    /// A message's ACKs come by this link, and so its data leaves by it from now on. Without memory
    /// it stays where it was.
    #[cold]
    fn turn_to(&mut self, link: u32, index: u32) {
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        let (from, whose) = (out.link, (index, out.peer));
        if !self.links.reserve_out(link, index, out.peer) {
            return;
        }
        out.link = link;
        let wire_len = out
            .mss
            .saturating_add(wire_overhead(&out.to, out.seal_len()));
        self.links.leave_out(from, whose, wire_len);
        self.links.join_out(link);
        self.set_turn(index, Turn::None);
        let left = self.links.last_left(link);
        if let Some(flow) = self.flows.get_mut(index).and_then(Option::as_mut) {
            flow.turn_to(left);
        }
    }

    /// A packet of a message that is paced was sent: the next is due later.
    fn paid(&mut self, now: Nanos, index: u32, piece: Piece) {
        let Some(out) = self.outs.get(index) else {
            return;
        };
        let Some(flow) = self.flows.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        let (overhead, link) = (wire_overhead(&out.to, out.seal_len()), out.link);
        let wire_len = piece.len.saturating_add(overhead);
        let line = self.links.speed(link).link;
        let law = flow.law(&mut self.laws, &self.config, line, now);
        flow.control.sent(law, now, wire_len);
        flow.hand_over(self.links.hand_over(link, wire_len));
        if let Some(of_peer) = self.lately.get_mut(out.peer) {
            let span = span(&self.config);
            of_peer.messages.note(now, span, &mut flow.lately);
            self.peers_lately.note(now, span, &mut of_peer.sent);
        }
        let interval = flow.control.interval(wire_len);
        let part = self.rng.part(self.config.jitter);
        flow.paid(now, interval, part, self.links.slack(link));
        let end = piece.offset.saturating_add(piece.len);
        let segment = out.mss.saturating_mul(ACK_PACKETS);
        flow.sent(now, (piece.offset, end), segment, piece.again);
    }

    /// An ACK has come of a message that is paced, and was taken.
    #[inline(never)]
    pub(super) fn on_ack_paced<H: Host<O, I>>(
        &mut self,
        at: At,
        index: u32,
        ack: &Ack,
        host: &mut H,
    ) {
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        if out.link != at.link {
            self.turn_to(at.link, index);
        }
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        let line = self.links.speed(out.link).link;
        if let Some(flow) = self.flows.get_mut(index).and_then(Option::as_mut) {
            let law = flow.law(&mut self.laws, &self.config, line, at.now);
            let mut held = false;
            if ack.notify {
                self.stats.count(Counter::NotifyReceived);
                held = flow.control.notified(law, at.now, ack.mark);
            }
            flow.told(ack.mark);
            if let Some((rtt, mark)) = flow.acknowledged(at.now, out.received) {
                out.measured(rtt);
                held |= flow.control.completed(law, rtt, mark);
            }
            if held {
                self.stats.count(Counter::RateHeld);
            }
        }
        self.drive(at.now, index, sending::BURST, host);
    }
}

/// Who has sent nothing in the last two of these times stands still: a few round trips, and long
/// enough for some packets at the lowest rate.
#[inline]
fn span(config: &Resolved) -> Nanos {
    config.rto.max(Nanos(config.base_rtt.0.saturating_mul(4)))
}

/// Bytes on the wire of a message's packet of data besides its payload.
#[inline]
fn wire_overhead(to: &Address, seal: u32) -> u32 {
    data_overhead(to).saturating_add(seal)
}
