// SPDX-License-Identifier: GPL-2.0
//! How messages end.
//!
//! A message takes more than half a kilobyte of memory, and the kernel's stack is small. So one
//! that ends is removed in place, and only the user's data of it is moved.

use core::num::NonZeroU32;

use super::sending::WITH_SYNC;
use super::trust::ECHO_KEPT;
use super::*;
use crate::transport::host::{Failure, Unreachable};
use crate::transport::rate::Mark;
use crate::transport::waiting::{ack_wait, CONFIRM_WAIT};
use crate::transport::wire::{Cookies, Delivered};

/// So many messages without a socket are given up in one call.
const ORPHANS: u32 = 32;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// Aborts an outgoing message with a RESET. [`Host::out_done`] is not called. `None`: the
    /// message has ended already.
    pub fn abort<H: Host<O, I>>(&mut self, now: Nanos, id: OutId, host: &mut H) -> Option<O> {
        let index = self.out_at(id)?;
        self.leave_out(now, index);
        self.stats.count(Counter::OutAborted);
        let out = self.outs.get(index)?;
        let (cookie, code) = (out.cookie, ResetCode::Aborted);
        self.stats.count(Counter::reset_sent(code));
        self.signal(index, &Packet::Reset(Reset { cookie, code }), host);
        self.tell_out_failed(now, index, Failure::Reset(ResetCode::Aborted), host);
        self.forget_sealed_out(index);
        self.end_flow(index);
        self.outs.remove_part(index, |out| out.user)
    }

    /// The socket of an outgoing message was closed: nobody can end it any more. If there are too
    /// many of these now, some are given up: then [`Host::out_done`] is called for each. Without an
    /// end it never could be delivered: such a one is to be [aborted](Self::abort).
    pub fn orphan<H: Host<O, I>>(&mut self, now: Nanos, id: OutId, host: &mut H) {
        let Some(index) = self.out_at(id) else {
            return;
        };
        let Some(out) = self.outs.get_mut(index).filter(|out| !out.orphan) else {
            return;
        };
        out.closed(now);
        self.stats.count(Counter::OutOrphaned);
        let user = out.shared.user();
        self.orphans.join(index, user, now, out.unacknowledged);
        self.drop_orphans(now, ORPHANS, host);
    }

    /// The message to be given up because there are too many without a socket.
    pub(super) fn excess_orphan(&self) -> Option<u32> {
        let Resolved {
            max_orphans,
            orphan_buffer,
            ..
        } = self.config;
        self.orphans.excess(max_orphans, orphan_buffer)
    }

    /// Gives up some of the messages without a socket, if there are too many, but no more than so
    /// many: a packet for each. How many.
    pub(super) fn drop_orphans<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        most: u32,
        host: &mut H,
    ) -> u32 {
        let mut count = 0_u32;
        while count < most.min(ORPHANS) {
            let Some(index) = self.excess_orphan() else {
                break;
            };
            let id = self.out_id(index);
            self.stats.count(Counter::OrphanLimit);
            match self.abort(now, id, host) {
                Some(user) => {
                    let why = Failure::Reset(ResetCode::Aborted);
                    host.out_done(id, user, Err(why));
                }
                None => break,
            }
            count = count.saturating_add(1);
        }
        count
    }

    /// Ends an incoming message with a RESET because its socket was closed. [`Host::in_failed`] is
    /// not called. `None`: the message has ended already.
    pub fn refuse<H: Host<O, I>>(&mut self, now: Nanos, id: InId, host: &mut H) -> Option<I> {
        let index = self.in_at(id)?;
        self.tell_sender_reset(index, ResetCode::Closed, host);
        self.leave_in(now, index);
        self.stats.count(Counter::InClosed);
        self.tell_in_failed(now, index, Failure::Reset(ResetCode::Closed), host);
        self.forget_sealed_in(index);
        self.ins.remove_part(index, |message| message.user)
    }

    /// Ends some message with a RESET, calling [`Host::out_done`] or [`Host::in_failed`]. `false`:
    /// none is left.
    pub fn clear<H: Host<O, I>>(&mut self, now: Nanos, host: &mut H) -> bool {
        if let Some(index) = self.outs.next(0) {
            let id = self.out_id(index);
            if let Some(user) = self.abort(now, id, host) {
                host.out_done(id, user, Err(Failure::Reset(ResetCode::Aborted)));
            }
            return true;
        }
        if let Some(index) = self.ins.next(0) {
            let id = self.in_id(index);
            if let Some(user) = self.refuse(now, id, host) {
                host.in_failed(id, user, Failure::Reset(ResetCode::Closed));
            }
            return true;
        }
        let ever = Nanos(u64::MAX - 1);
        self.deliver_due(ever, 1, host) != 0 || self.confirm_due(ever, 1, host) != 0
    }

    /// Tells the receiver of a message that it is known here that it has all of it: at once, or
    /// [later](crate::transport::waiting).
    // Not inlined, as it needs much of the stack.
    #[inline(never)]
    pub(super) fn confirm<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let Some(out) = self.outs.get(index) else {
            return;
        };
        let Some(owner) = host.ended(&out.user).filter(|_| !out.sealed) else {
            self.stats.count(Counter::AckSent);
            let ack = final_ack(out.cookie, out.received, 0);
            return self.signal(index, &ack, host);
        };
        let of = (owner, out.to);
        let (due, one) = (now + CONFIRM_WAIT, Cookies::new(out.cookie));
        if let Some(full) = self.confirms.add(due, out.peer, &of, &one) {
            self.send_confirms(full, host);
        }
    }

    /// Tells the sender of a message of which all has come so: at once, or
    /// [later](crate::transport::waiting).
    #[inline(never)]
    fn tell_sender_done<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        allowance: u16,
        host: &mut H,
    ) {
        let Some(message) = self.ins.get(index) else {
            return;
        };
        let (cookie, length) = (message.cookie, message.received);
        let owner = match self.may_tell_later && !message.sealed {
            true => host.received(&message.user),
            false => None,
        };
        let Some(owner) = owner else {
            self.stats.count(Counter::AckSent);
            let ack = final_ack(cookie, length, allowance);
            self.signal_back(index, Class::Signal, &ack, host);
            return;
        };
        let due = now + ack_wait(self.config.rto);
        let of = (owner, message.from);
        let more = data_overhead(&of.1).saturating_add(WITH_SYNC);
        let one = Riders::one(cookie, length, more, allowance);
        if let Some(full) = self.delivered.add(due, message.peer, &of, &one) {
            self.send_delivered(full, host);
        }
    }

    /// Sends the acknowledgements that are due by now, to so many senders at most. How many.
    // Not inlined, as a list is large.
    #[inline(never)]
    pub(super) fn deliver_due<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        most: u32,
        host: &mut H,
    ) -> u32 {
        let mut count = 0_u32;
        while count < most {
            let Some(due) = self.delivered.take_due(now) else {
                break;
            };
            self.send_delivered(due, host);
            count = count.saturating_add(1);
        }
        count
    }

    #[inline(never)]
    fn send_delivered<H: Host<O, I>>(&mut self, due: ((u64, Address), Riders), host: &mut H) {
        let ((owner, to), riders) = due;
        self.stats.count(Counter::AckSent);
        let (owner, packet) = (Owner::Ended(owner), Packet::Delivered(riders.delivered));
        transmit(host, owner, &to, Class::Signal, false, &packet, None, None);
    }

    /// Acknowledgements for the peer of a message that goes out, if they fit into `room` bytes:
    /// they leave with it.
    pub(super) fn take_riders<H: Host<O, I>>(
        &mut self,
        index: u32,
        room: u32,
        host: &mut H,
    ) -> Delivered {
        let none = Delivered::NONE;
        if self.delivered.next() == Nanos::MAX {
            return none;
        }
        let Some(out) = self.outs.get(index) else {
            return none;
        };
        let Some(owner) = host.ended(&out.user) else {
            return none;
        };
        let of = (owner, out.to);
        let fits = |riders: &Riders| riders.delivered.riding_len() as u32 <= room;
        if !self.delivered.get(out.peer, &of).is_some_and(fits) {
            return none;
        }
        let taken = self.delivered.take(out.peer, &of);
        taken.map_or(none, |(_, riders)| riders.delivered)
    }

    /// There will be no such owner ([`Host::received`], [`Host::ended`]) any more: what is still to
    /// be told as his is told now. Later it would be nobody's, and firewalls refuse that.
    pub fn leave<H: Host<O, I>>(&mut self, owner: u64, host: &mut H) {
        while let Some(waits) = self.delivered.take_of(owner) {
            self.send_delivered(waits, host);
        }
        while let Some(waits) = self.confirms.take_of(owner) {
            self.send_confirms(waits, host);
        }
    }

    /// Sends what waits for the peer of a message that goes out in more than one packet.
    #[inline(never)]
    pub(super) fn deliver_before<H: Host<O, I>>(&mut self, index: u32, host: &mut H) {
        if self.delivered.next() == Nanos::MAX {
            return;
        }
        let Some(out) = self.outs.get(index) else {
            return;
        };
        if let Some(owner) = host.ended(&out.user) {
            if let Some(waits) = self.delivered.take(out.peer, &(owner, out.to)) {
                self.send_delivered(waits, host);
            }
        }
    }

    /// The receiver of some messages has all of them.
    #[inline(never)]
    pub(super) fn on_delivered<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        delivered: &Delivered,
        host: &mut H,
    ) {
        for &cookie in delivered.cookies() {
            let index = match self.find_out(cookie, from) {
                Ok(index) => index,
                Err(other) => {
                    self.stray(other);
                    continue;
                }
            };
            let out = self.outs.get(index).filter(|_| host.hears(cookie));
            let Some(out) = out else {
                continue;
            };
            if out.sealed {
                self.stats.count(Counter::SealMissing);
            } else if let Some(length) = out.length {
                let ack = final_ack_of(cookie, length, delivered.allowance);
                self.acknowledged(at, index, &ack, host);
            } else {
                self.stats.count(Counter::SignalContradiction);
            }
        }
    }

    /// Sends what is to be confirmed by now, to so many receivers at most. How many.
    // Not inlined, as a list is large.
    #[inline(never)]
    pub(super) fn confirm_due<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        most: u32,
        host: &mut H,
    ) -> u32 {
        let mut count = 0_u32;
        while count < most {
            let Some(due) = self.confirms.take_due(now) else {
                break;
            };
            self.send_confirms(due, host);
            count = count.saturating_add(1);
        }
        count
    }

    #[inline(never)]
    fn send_confirms<H: Host<O, I>>(&mut self, due: ((u64, Address), Cookies), host: &mut H) {
        let ((owner, to), cookies) = due;
        self.stats.count(Counter::AckSent);
        let (owner, class, packet) = (Owner::Ended(owner), Class::Signal, Packet::Confirm(cookies));
        transmit(host, owner, &to, class, false, &packet, None, None);
    }

    // Not inlined, so that what it needs of the stack is not needed for each packet.
    #[inline(never)]
    pub(super) fn on_reset<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        reset: &Reset,
        host: &mut H,
    ) {
        let code = reset.code;
        self.stats.count(Counter::reset_received(code));
        let (mut found, mut other) = (false, false);
        if code != ResetCode::Aborted {
            match self.find_out(reset.cookie, from) {
                Ok(index) => {
                    found = true;
                    self.on_out_reset(at.now, index, code, host);
                }
                Err(wrong) => other |= wrong,
            }
        }
        if matches!(
            code,
            ResetCode::Aborted | ResetCode::Unknown | ResetCode::Protocol
        ) {
            if let Some(index) = self.find_in(reset.cookie, from) {
                found = true;
                self.in_failed(at.now, index, Failure::Reset(code), host);
            }
        }
        if !found {
            self.stray(other);
        }
    }

    /// Removes an outgoing message from all tables but the slab.
    fn leave_out(&mut self, now: Nanos, index: u32) {
        self.made_room(now);
        let Some(out) = self.outs.get(index) else {
            return;
        };
        self.out_index.remove(index);
        self.out_timers.remove(index);
        // Before its user may lose his number.
        if out.orphan {
            self.orphans.leave(index);
        }
        self.shares.leave(out.shared);
        if let Some(ours) = self.peers.allowances.ours(out.peer) {
            ours.give_back(out.allowed);
        }
        if let Some(peer) = self.peers.all.get_mut(out.peer) {
            peer.outgoing = peer.outgoing.saturating_sub(1);
            let left = out.unacknowledged;
            peer.unacknowledged = peer.unacknowledged.saturating_sub(left.into());
        }
        self.peers.tidy(now, out.peer, &self.key);
    }

    pub(super) fn out_done<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        result: Result<(), Failure>,
        host: &mut H,
    ) {
        let id = self.out_id(index);
        self.leave_out(now, index);
        let Some(out) = self.outs.get(index) else {
            return;
        };
        match result {
            Ok(()) => {
                self.stats.count(Counter::OutDelivered);
                let bytes = u64::from(out.received);
                self.stats.add(Counter::OutDeliveredBytes, bytes);
                if host.listens() {
                    self.tell_out_delivered(now, index, host);
                }
            }
            Err(failure) => {
                self.stats.count(match failure {
                    Failure::TimedOut | Failure::Stalled => Counter::OutTimeout,
                    Failure::Unreachable(Unreachable::Port) => Counter::OutRefused,
                    Failure::Unreachable(_) => Counter::OutTimeout,
                    Failure::Reset(ResetCode::NoSocket) => Counter::OutRefused,
                    Failure::Reset(ResetCode::TooLong) => Counter::OutTooLong,
                    Failure::Reset(ResetCode::Protocol) => Counter::OutProtocol,
                    Failure::Reset(_) => Counter::OutReset,
                });
                self.tell_out_failed(now, index, failure, host);
            }
        }
        self.forget_sealed_out(index);
        self.end_flow(index);
        if let Some(user) = self.outs.remove_part(index, |out| out.user) {
            host.out_done(id, user, result);
        }
    }

    /// Removes an incoming message from all tables but the slab.
    fn leave_in(&mut self, now: Nanos, index: u32) {
        self.give_turn_back(index);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let (peer, missing, link) = (message.peer, message.noted_missing, message.link);
        let (coflow, remaining) = (message.coflow_entry.get(), message.noted_remaining);
        let half_open = u16::from(message.half_open);
        let unanswered = u16::from(message.unanswered);
        let net = message.net.take();
        let tokens = message.ledger.take();
        self.in_index.remove(index);
        self.in_timers.remove(index);
        self.links.leave(link, index);
        self.half_open = self.half_open.saturating_sub(half_open.into());
        if let Some(net) = net {
            self.in_nets.leave(net);
        }
        self.made_room(now);
        self.count_tokens(tokens);
        if let Some(peer) = self.peers.all.get_mut(peer) {
            peer.incoming = peer.incoming.saturating_sub(1);
            peer.half_open = peer.half_open.saturating_sub(half_open);
            peer.unanswered = peer.unanswered.saturating_sub(unanswered);
            peer.missing = peer.missing.saturating_sub(missing.into());
        }
        self.peers.tidy(now, peer, &self.key);
        if let Some(coflow) = coflow {
            self.coflows.change(coflow, remaining.into(), 0);
            self.coflows.leave(coflow);
        }
    }

    /// Completes a message of which all data has arrived.
    pub(super) fn in_done<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let id = self.in_id(index);
        let hash = self.in_index.hash_of(index);
        // Before the peer may be forgotten.
        let allowance = self.allow(now, index);
        self.leave_in(now, index);
        let Some(message) = self.ins.get(index) else {
            return;
        };
        let (length, cookie, from) = (message.received, message.cookie, message.from);
        let sealed = message.sealed;
        let packets = match NonZeroU32::new(message.mss) {
            // Up to the next whole packet.
            Some(mss) => (length / mss).saturating_add(u32::from(length % mss != 0)),
            None => length,
        };
        // A sealed SYNC that echoed a CHALLENGE would begin it once more for as long.
        let keeps = sealed && message.echoed;
        let mut until = now + Self::remember_for(message.patience);
        if keeps {
            until = until.max(now + ECHO_KEPT);
        }
        if self.lengths.note(packets) {
            self.learn();
        }
        self.stats.count(Counter::InDelivered);
        self.stats.add(Counter::InDeliveredBytes, length.into());
        self.remembered
            .insert(&self.key, hash, cookie, &from, length, until);
        if sealed {
            self.remembered.was_sealed(hash, cookie, &from, keeps);
        }
        self.tell_sender_done(now, index, allowance, host);
        if host.listens() {
            self.tell_in_delivered(now, index, host);
        }
        self.forget_sealed_in(index);
        if let Some(user) = self.ins.remove_part(index, |message| message.user) {
            host.in_done(id, user);
        }
    }

    /// Says once more that a message is complete which is only remembered. A limit for all together
    /// would be used up by one, and others be told that what was delivered has failed.
    pub(super) fn old_ack<H: Host<O, I>>(
        &mut self,
        to: &Address,
        cookie: Cookie,
        length: u32,
        host: &mut H,
    ) {
        self.stats.count(Counter::AckSent);
        self.answer_stray(to, &final_ack(cookie, length, 0), host);
    }

    pub(super) fn in_failed<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        why: Failure,
        host: &mut H,
    ) {
        let id = self.in_id(index);
        if self.ins.get(index).is_none() {
            return;
        }
        self.ends_unanswered(now, index);
        self.leave_in(now, index);
        self.stats.count(match why {
            Failure::TimedOut | Failure::Stalled | Failure::Unreachable(_) => Counter::InTimeout,
            Failure::Reset(ResetCode::Aborted | ResetCode::Unknown) => Counter::InAborted,
            Failure::Reset(_) => Counter::InProtocol,
        });
        self.tell_in_failed(now, index, why, host);
        self.forget_sealed_in(index);
        if let Some(user) = self.ins.remove_part(index, |message| message.user) {
            host.in_failed(id, user, why);
        }
    }

    // An event takes some two hundred bytes. Each is made in a function of its own, to keep it off
    // the stack of others. Those of messages that begin and are delivered are called only if
    // somebody listens.

    #[inline(never)]
    pub(super) fn tell_out_opened<H: Host<O, I>>(&self, now: Nanos, index: u32, host: &mut H) {
        if let Some(out) = self.outs.get(index) {
            host.event(&Event::Opened(self.out_info(now, index, out)));
        }
    }

    #[inline(never)]
    fn tell_out_delivered<H: Host<O, I>>(&self, now: Nanos, index: u32, host: &mut H) {
        if let Some(out) = self.outs.get(index) {
            host.event(&Event::Delivered(self.out_info(now, index, out)));
        }
    }

    #[inline(never)]
    fn tell_out_failed<H: Host<O, I>>(&self, now: Nanos, index: u32, why: Failure, host: &mut H) {
        let out = self.outs.get(index).filter(|_| host.listens());
        if let Some(out) = out {
            host.event(&Event::Failed(self.out_info(now, index, out), why));
        }
    }

    #[inline(never)]
    pub(super) fn tell_in_opened<H: Host<O, I>>(&self, now: Nanos, index: u32, host: &mut H) {
        if let Some(message) = self.ins.get(index) {
            host.event(&Event::Opened(self.in_info(now, message)));
        }
    }

    #[inline(never)]
    fn tell_in_delivered<H: Host<O, I>>(&self, now: Nanos, index: u32, host: &mut H) {
        if let Some(message) = self.ins.get(index) {
            host.event(&Event::Delivered(self.in_info(now, message)));
        }
    }

    #[inline(never)]
    fn tell_in_failed<H: Host<O, I>>(&self, now: Nanos, index: u32, why: Failure, host: &mut H) {
        let message = self.ins.get(index).filter(|_| host.listens());
        if let Some(message) = message {
            host.event(&Event::Failed(self.in_info(now, message), why));
        }
    }

    /// The facts of an outgoing message.
    pub(super) fn out_info(&self, now: Nanos, index: u32, out: &Out<O>) -> Info {
        let rate = self.rate_of(index);
        Info {
            rate,
            ..out.info(now)
        }
    }

    /// The facts of an incoming message.
    pub(super) fn in_info(&self, now: Nanos, message: &In<I>) -> Info {
        let all = self.links.speed(message.link).token_rate.bytes_per_sec();
        let ppb = u64::from(message.credit.rate());
        // Below 2^42 x 10^9 / 10^9, thousands and the rest apart.
        let rate = (all / 1_000_000_000)
            .saturating_mul(ppb)
            .saturating_add((all % 1_000_000_000).saturating_mul(ppb) / 1_000_000_000);
        message.info(now, if message.paced { 0 } else { rate })
    }
}

/// A final ACK: the receiver's says that the message is complete, the sender's that it knows.
pub(super) fn final_ack(cookie: Cookie, length: u32, allowance: u16) -> Packet {
    Packet::Ack(final_ack_of(cookie, length, allowance))
}

fn final_ack_of(cookie: Cookie, length: u32, allowance: u16) -> Ack {
    Ack {
        cookie,
        received: length,
        window: length,
        allowance,
        last: true,
        mark: Mark::None,
        notify: false,
    }
}
