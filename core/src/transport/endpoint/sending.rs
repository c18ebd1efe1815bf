// SPDX-License-Identifier: GPL-2.0
//! Outgoing messages: calls of the user, and packets from their receivers.

use core::num::NonZeroU32;

use super::*;
use crate::header::{FLAG_REN, FLAG_SHORT, FLAG_UNASKED, FLAG_UNSCHEDULED};
use crate::transport::allowance::{Allowance, UNIT};
use crate::transport::config::{Feedback, Policy, Unscheduled};
use crate::transport::endpoint::sealing::seal_by_sender;
use crate::transport::fan::{Came, Fan};
use crate::transport::host::{Failure, Outgoing, SendError};
use crate::transport::outgoing::{Nothing, Piece};
use crate::transport::rate;
use crate::transport::shares::Shared;
use crate::transport::wire::{
    Data, Fin, First, Mark, Resend, Sync, Token, MAX_LENGTH, MAX_MSS, MIN_MSS,
};

/// Bytes by which DATA is longer for having its SYNC with it.
pub(crate) const WITH_SYNC: u32 = (FIRST_LEN - DATA_LEN) as u32;
/// Packets that are sent without tokens in one call.
pub(super) const BURST: u32 = 32;
/// Of what is sent without tokens, to all peers together, no more waits at the host's own port than
/// its link carries in so many round trips: later messages ask for tokens, and are as soon.
const UNASKED_TRIPS: u64 = 2;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// Begins a message: sends its SYNC and its unscheduled packets. [`Endpoint::written`]
    /// announces data that is written later.
    // Not inlined: the caller's stack is short.
    #[inline(never)]
    pub fn send<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        to: &Address,
        what: &Outgoing,
        message: O,
        host: &mut H,
    ) -> Result<OutId, (SendError, O)> {
        let whole = what.length.unwrap_or(MAX_LENGTH);
        if whole == 0 || whole > MAX_LENGTH || what.available > whole {
            return Err((SendError::Length, message));
        }
        if !self.may_send(what.user, Some(to)) {
            self.no_place(now, host);
            return Err((SendError::TooMany, message));
        }
        let Some((index, peer, shared)) = self.room_for_out(now, to, what.user) else {
            self.stats.count(Counter::OutNoMemory);
            self.limit(now, Limit::Memory, host);
            return Err((SendError::NoMemory, message));
        };
        self.recall_path(now, peer, to);
        let most = u16::try_from(self.most_of(now, peer)).unwrap_or(MAX_MSS);
        let cookie = Cookie(host.random());
        let Some(sealed) = self.begin_to_seal(index, to, cookie, &message, host) else {
            self.shares.leave(shared);
            self.peers.tidy(now, peer, &self.key);
            self.stats.count(Counter::OutNoMemory);
            return Err((SendError::NoMemory, message));
        };
        let seal = if sealed { SEAL_LEN as u16 } else { 0 };
        let mss = what.mss.min(most).saturating_sub(seal);
        let what = Outgoing {
            mss: mss.clamp(MIN_MSS, MAX_MSS),
            ..*what
        };
        let law = self.config.policy.law();
        if law.is_some() && !self.room_for_flow(index, peer) {
            self.shares.leave(shared);
            self.peers.tidy(now, peer, &self.key);
            self.stats.count(Counter::OutNoMemory);
            return Err((SendError::NoMemory, message));
        }
        let number = self.next_number();
        let rto = rto(&self.config, self.config.base_rtt);
        self.insert_out(message, cookie, number, peer, to, &what, now, rto);
        if sealed {
            self.is_to_be_sealed(index);
        }
        if let Some(kind) = law {
            self.begin_flow(now, index, kind);
        }
        let mut sync = None;
        if let Some(out) = self.outs.get_mut(index) {
            out.shared = shared;
            out.echo = self.peers.ticket(now, peer);
            if self.config.policy == Policy::Ren {
                out.ren = true;
                let speed = self.links.speed(out.link);
                out.line = base_payload(self.config.base_bytes(speed), out.mss, to);
                out.burst = out.line;
            } else if !out.paced {
                let base = self.config.base_rtt;
                let most = Nanos(base.0.saturating_mul(UNASKED_TRIPS));
                let allowance = match self.unasked_until - now <= most {
                    true => self.peers.allowances.ours(peer),
                    false => None,
                };
                let (bytes, allowed) = unscheduled(&self.config, now, allowance, out);
                (out.unscheduled, out.burst, out.allowed) = (bytes, bytes, allowed);
                let time = self.links.speed(out.link).time_of(allowed);
                self.unasked_until = self.unasked_until.max(now) + time;
            }
            self.out_timers.set(index, out.first_timer());
            sync = Some(out.sync(now));
        }
        self.out_index.insert(Self::hash_out(cookie), index);
        self.last_out.set(index);
        if let Some(peer) = self.peers.all.get_mut(peer) {
            peer.outgoing = peer.outgoing.saturating_add(1);
        }
        self.note_unacknowledged(index);
        self.stats.count(Counter::OutOpened);
        self.stats.count(Counter::SyncSent);
        if let Some(sync) = sync {
            if !self.send_first(now, index, sync, host) {
                self.deliver_before(index, host);
                self.signal(index, &Packet::Sync(sync), host);
            }
        }
        if host.listens() {
            self.tell_out_opened(now, index, host);
        }
        self.burst(now, index, BURST, host);
        self.drive(now, index, BURST, host);
        // Its peer may have taken room for one that sends to us.
        self.prepare();
        Ok(self.out_id(index))
    }

    /// Sends a message's SYNC with all of its data, if both fit into a packet that its receiver
    /// allows. `false`: they do not.
    // Not inlined, as it needs much of the stack.
    #[inline(never)]
    fn send_first<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        sync: Sync,
        host: &mut H,
    ) -> bool {
        let Some(out) = self.outs.get(index) else {
            return false;
        };
        let len = out.unscheduled;
        let wire = len
            .saturating_add(data_overhead(&out.to))
            .saturating_add(WITH_SYNC);
        let most = self.most_of(now, out.peer).min(out.mss);
        if len != out.available || out.allowed < wire || !out.fits_with_sync(most) {
            return false;
        }
        let short = self.config.unscheduled == Unscheduled::Auto
            && out.is_short(self.config.unscheduled_buffer);
        // They are no part of what the receiver allows: packets of their own would be longer.
        let room = most.saturating_sub(len.saturating_add(WITH_SYNC));
        let delivered = self.take_riders(index, room, host);
        let Some(out) = self.outs.get_mut(index) else {
            return false;
        };
        let again = out.sent_first(now);
        let first = First {
            sync,
            // What was lost once is late.
            prompt: again || host.is_awaited(&out.user),
            delivered,
            data: Data {
                cookie: out.cookie,
                token: 0,
                timestamp: 0,
                offset: 0,
                len,
                flags: if short {
                    FLAG_UNASKED | FLAG_SHORT
                } else {
                    FLAG_UNASKED
                },
                more: 1,
            },
        };
        self.stats.count(Counter::UnscheduledSent);
        self.stats.add(Counter::DataSentBytes, len.into());
        if again {
            self.stats.count(Counter::DataResent);
        }
        let payload = Slice {
            message: &out.user,
            offset: 0,
            len,
        };
        transmit(
            host,
            Owner::Out(&out.user),
            &out.to,
            Class::Data,
            false,
            &Packet::First(first),
            Some(payload),
            None,
        );
        true
    }

    /// Makes a message and puts it into the slab, in a function of its own: a message is large, and
    /// nothing else should share the stack with it.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)] // those of `Out::new`
    fn insert_out(
        &mut self,
        message: O,
        cookie: Cookie,
        number: u64,
        peer: u32,
        to: &Address,
        what: &Outgoing,
        now: Nanos,
        rto: Nanos,
    ) {
        let timeout = self.config.timeout;
        self.outs
            .insert_with(|| Out::new(message, cookie, number, peer, to, what, now, rto, timeout));
    }

    /// Whether a user may begin another message to a peer; `None`: to one that has none of the
    /// user's. [`Outgoing::user`] has the rule.
    pub fn may_send(&self, user: u32, to: Option<&Address>) -> bool {
        let all = self.outs.len();
        let free = self.config.max_outgoing.saturating_sub(all);
        if all.saturating_mul(3) < free {
            // Also if all are this user's, and go to this peer.
            return true;
        }
        let peer = to.and_then(|to| self.peers.find(&self.key, to));
        self.shares.may_begin(&self.key, user, peer, free)
    }

    /// A message had to wait for a place, or was refused for want of one: counts it.
    pub fn no_place<H: Host<O, I>>(&mut self, now: Nanos, host: &mut H) {
        self.stats.count(Counter::OutLimit);
        self.limit(now, Limit::Outgoing, host);
    }

    /// Reserves memory for another message to this peer, and takes a place for it. Returns the
    /// indices of message and peer.
    fn room_for_out(&mut self, now: Nanos, to: &Address, user: u32) -> Option<(u32, u32, Shared)> {
        let (index, _) = self.outs.vacant()?;
        if !(self.out_index.reserve(index) && self.out_timers.reserve(index)) {
            return None;
        }
        let peer = self.peers.get(now, &self.key, to)?;
        if let Some(shared) = self.shares.join(&self.key, user, peer) {
            // Here, as nothing may be wanting when the socket is closed.
            if self.orphans.reserve(index, shared.user()) {
                return Some((index, peer, shared));
            }
            self.shares.leave(shared);
        }
        self.peers.tidy(now, peer, &self.key);
        None
    }

    /// More of a message is written: all bytes below `available`. `end`: that is all. Values that
    /// exceed the length given, or are less than before, are ignored. `false`: the message has
    /// ended.
    pub fn written<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        id: OutId,
        available: u32,
        end: bool,
        host: &mut H,
    ) -> bool {
        let Some(index) = self.out_at(id) else {
            return false;
        };
        let Some(out) = self.outs.get_mut(index) else {
            return false;
        };
        let knew = out.length.is_some();
        if !out.written(now, available, end) {
            return true;
        }
        let wake = out.is_unheard(now, self.config.base_rtt);
        let ended = out.open && !knew && out.length.is_some();
        let over = out.is_over(now);
        self.note_unacknowledged(index);
        if over {
            // It is not sent again, also if its timer is late.
            return true;
        }
        if wake || ended {
            if let Some(out) = self.outs.get_mut(index) {
                let rto = rto_of(&self.config, out);
                let again = out.woken(now, rto);
                self.out_timers.set(index, again);
            }
        }
        if ended {
            self.ask(now, index, host);
        } else if wake {
            self.tell_more(now, index, host);
        }
        self.burst(now, index, BURST, host);
        self.drive(now, index, BURST, host);
        true
    }

    /// Tells the receiver how much is written that it does not know of.
    fn tell_more<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let told = self
            .outs
            .get_mut(index)
            .filter(|out| !out.ren && out.sent != 0);
        let Some(out) = told else {
            return self.ask(now, index, host);
        };
        let ack = Ack {
            cookie: out.cookie,
            received: out.sent,
            window: 0,
            allowance: out.allowance(),
            last: false,
            mark: rate::Mark::None,
            notify: false,
        };
        out.asked_at(now);
        self.stats.count(Counter::AckSent);
        self.signal(index, &Packet::Ack(ack), host);
    }

    /// The receiver has answered for the first time: tells it what was written meanwhile.
    fn tell_unheard<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let base = self.config.base_rtt;
        let out = self.outs.get_mut(index);
        let Some(out) = out.filter(|out| out.is_unheard(now, base)) else {
            return;
        };
        let rto = rto_of(&self.config, out);
        let again = out.woken(now, rto);
        self.out_timers.set(index, again);
        self.tell_more(now, index, host);
    }

    /// Updates the sum of a message's peer.
    fn note_unacknowledged(&mut self, index: u32) {
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        let after = out.available.saturating_sub(out.received);
        let before = core::mem::replace(&mut out.unacknowledged, after);
        if let Some(peer) = self.peers.all.get_mut(out.peer) {
            let rest = peer.unacknowledged.saturating_sub(before.into());
            peer.unacknowledged = rest.saturating_add(after.into());
        }
    }

    /// Sends a FIN if there is something to tell, an ACK if there is nothing to send, and otherwise
    /// a SYNC; the peer answers each of them.
    pub(super) fn ask<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        let packet = match out.fin() {
            Some(length) if out.open => {
                self.stats.count(Counter::FinSent);
                Packet::Fin(Fin {
                    cookie: out.cookie,
                    length,
                })
            }
            _ if out.open && out.is_idle() => {
                self.stats.count(Counter::AckSent);
                Packet::Ack(Ack {
                    cookie: out.cookie,
                    received: out.sent,
                    window: 0,
                    allowance: 0,
                    last: false,
                    mark: rate::Mark::None,
                    notify: false,
                })
            }
            _ => {
                if out.echo == 0 {
                    // It may have come since.
                    out.echo = self.peers.ticket(now, out.peer);
                }
                self.stats.count(Counter::SyncSent);
                if out.open {
                    self.stats.count(Counter::ProbeSent);
                }
                let sync = out.sync(now);
                if out.may_repeat_first() && self.send_first(now, index, sync, host) {
                    return;
                }
                Packet::Sync(sync)
            }
        };
        self.signal(index, &packet, host);
    }

    /// Sends some of the unscheduled packets, but no more than so many. How many it sent.
    pub(super) fn burst<H: Host<O, I>>(
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
        let most = self.most_of(now, peer).saturating_sub(seal);
        loop {
            let Some(out) = self.outs.get_mut(index) else {
                return count;
            };
            if out.burst == 0 {
                return count;
            }
            if count == packets {
                // The rest follows at once, but in another call, which keeps each call short.
                self.out_timers.set(index, now);
                return count;
            }
            let row = self.burst_run(now, index, (most, packets.saturating_sub(count)), host);
            if row != 0 {
                count = count.saturating_add(row);
                continue;
            }
            let Some(out) = self.outs.get_mut(index) else {
                return count;
            };
            let Ok(piece) = out.next(now, most) else {
                return count;
            };
            out.burst = out.burst.saturating_sub(piece.len);
            self.transmit_piece(now, index, piece, None, host);
            count = count.saturating_add(1);
        }
    }

    /// Sends DATA.
    pub(super) fn transmit_piece<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        piece: Piece,
        token: Option<&Token>,
        host: &mut H,
    ) {
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        let more = match out.ren {
            true => 0,
            false => out.more(now, piece.offset.saturating_add(piece.len)),
        };
        // What the receiver allows is data, which ports take as such.
        let unasked = token.is_none() && !out.ren;
        let unscheduled = unasked && out.allowed == 0 && !out.paced;
        let short = !out.ren
            && !out.paced
            && self.config.unscheduled == Unscheduled::Auto
            && out.is_short(self.config.unscheduled_buffer);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let data = Data {
            cookie: out.cookie,
            token: token.map_or(0, |token| token.sequence),
            timestamp: token.map_or(0, |token| token.timestamp),
            offset: piece.offset,
            len: piece.len,
            flags: flag(unscheduled, FLAG_UNSCHEDULED)
                | flag(unasked && !unscheduled, FLAG_UNASKED)
                | flag(short, FLAG_SHORT)
                | flag(out.ren, FLAG_REN),
            more,
        };
        self.stats.count(match unasked {
            true => Counter::UnscheduledSent,
            false => Counter::DataSent,
        });
        let class = match (unscheduled, out.paced) {
            (true, _) => Class::Unscheduled,
            (false, true) => Class::Paced,
            (false, false) => Class::Data,
        };
        self.stats.add(Counter::DataSentBytes, piece.len.into());
        out.packets = out.packets.saturating_add(1);
        if piece.again {
            out.repeated = out.repeated.saturating_add(1);
            self.stats.count(Counter::DataResent);
        }
        let mut seal = None;
        if out.sealed {
            seal = seal_by_sender(&mut self.out_sealed, index, &Packet::Data(data));
            if seal.is_none() {
                return;
            }
        }
        let payload = Slice {
            message: &out.user,
            offset: piece.offset,
            len: piece.len,
        };
        transmit(
            host,
            Owner::Out(&out.user),
            &out.to,
            class,
            out.ren,
            &Packet::Data(data),
            Some(payload),
            seal.as_ref(),
        );
    }

    pub(super) fn on_token<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        token: &Token,
        host: &mut H,
    ) {
        match token.grant {
            Some(_) => self.stats.count(Counter::GrantReceived),
            None => self.stats.add(Counter::TokenReceived, token.worth.into()),
        }
        let index = match self.find_out(token.cookie, from) {
            Ok(index) => index,
            Err(true) => return self.stats.count(Counter::TokenAddress),
            Err(false) => {
                self.stats.count(Counter::TokenUnknown);
                let (what, code) = (Kind::Outgoing, ResetCode::Unknown);
                return self.reset(at, from, what, token.cookie, code, host);
            }
        };
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        if out.is_over(at.now) {
            return self.stats.count(Counter::TokenUnknown);
        }
        if out.paced {
            // It was told that none is wanted.
            return self.stats.count(Counter::TokenIdle);
        }
        let first = !out.open;
        out.heard(at.now, true, rto_of(&self.config, out));
        if out.ren && out.link != at.link {
            // Packets leave by the link that grants come by.
            out.link = at.link;
            let speed = self.links.speed(out.link);
            out.line = base_payload(self.config.base_bytes(speed), out.mss, from);
        }
        if token.worth > 1 {
            self.stats.count(Counter::TrainReceived);
        }
        let mut came = None;
        out.says = 0;
        // The papers' feedback is to find out by itself.
        if token.grant.is_none() && self.config.feedback == Feedback::Ranked {
            let rtt = out.rtt(self.config.base_rtt);
            let near = Fan::is_near(rtt, &self.config);
            came = Some(Came {
                tokens: 0,
                lost: out.skipped(token.sequence),
                wire_len: token_wire_len(from, out.sealed),
                priority: token.priority,
                held: near && out.is_long(),
                rtt,
            });
            if near {
                out.says = self.links.says(at.link, token.priority, rtt, &mut self.rng);
            }
        }
        let before = out.packets;
        let drawn = match token.worth {
            1 => 0,
            _ => self.draw_run(at, index, token, host),
        };
        for number in drawn..token.worth.into() {
            let token = Token {
                sequence: token.sequence.wrapping_add(number),
                ..*token
            };
            self.take_token(at, index, &token, number == 0, host);
        }
        if let Some((came, out)) = came.zip(self.outs.get_mut(index)) {
            // One that draws nothing takes nothing of the link.
            let drawn = out.packets.saturating_sub(before);
            let tokens = u32::try_from(drawn).unwrap_or(u32::MAX);
            let came = Came { tokens, ..came };
            if tokens != 0 {
                let drew = &mut out.drew;
                self.links.drew(at.link, at.now, &self.config, &came, drew);
            }
        }
        if first {
            // After the answer, which proves our own address.
            self.offer_ticket(at.now, index, host);
        }
    }

    /// One of the tokens that a packet stands for.
    fn take_token<H: Host<O, I>>(
        &mut self,
        at: At,
        index: u32,
        token: &Token,
        first: bool,
        host: &mut H,
    ) {
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        let expiry = self.config.token_expiry;
        let verdict = if !out.accept(at.now, token.sequence, first) {
            Err(Counter::TokenDuplicate)
        } else if expiry.is_some_and(|limit| is_late(at.clock, token, limit)) {
            Err(Counter::TokenExpired)
        } else {
            Ok(match token.grant {
                None | Some(Mark::Full) => 1,
                Some(Mark::Under) => 2,
                Some(Mark::Over) => 0,
            })
        };
        match verdict {
            Err(counter) => {
                out.tokens_invalid = out.tokens_invalid.saturating_add(1);
                self.stats.count(counter);
            }
            Ok(0) => self.stats.count(Counter::GrantOver),
            Ok(packets) => {
                out.token_priority = token.priority;
                self.answer(at, index, token, packets, host);
            }
        }
    }

    /// Answers a valid token with the given number of packets.
    fn answer<H: Host<O, I>>(
        &mut self,
        at: At,
        index: u32,
        token: &Token,
        packets: u32,
        host: &mut H,
    ) {
        let Some((peer, seal)) = self.outs.get(index).map(|out| (out.peer, out.seal_len())) else {
            return;
        };
        for number in 0..packets {
            let most = self.most_of(at.now, peer).saturating_sub(seal);
            let Some(out) = self.outs.get_mut(index) else {
                return;
            };
            if token.grant.is_some() && out.ren && !out.may_send(at.now, number != 0) {
                self.stats.count(Counter::GrantHeld);
                return;
            }
            match out.next(at.now, most) {
                Ok(piece) => {
                    self.shorten_if_stuck(at.now, index);
                    let Some(out) = self.outs.get_mut(index) else {
                        return;
                    };
                    if number == 0 {
                        out.tokens = out.tokens.saturating_add(1);
                        self.stats.count(Counter::TokenValid);
                    } else {
                        self.stats.count(Counter::GrantUnder);
                    }
                    self.transmit_piece(at.now, index, piece, Some(token), host);
                }
                Err(why) => {
                    if number == 0 {
                        out.tokens_invalid = out.tokens_invalid.saturating_add(1);
                        self.stats.count(Counter::TokenIdle);
                    }
                    // The receiver should know why nothing comes: it names what was lost, tells its
                    // window, or gives no more tokens until there is something to send.
                    let tell = why != Nothing::Unwritten || out.is_idle();
                    if tell && out.complain(at.now, self.config.base_rtt) {
                        self.ask(at.now, index, host);
                    }
                    return;
                }
            }
        }
    }

    pub(super) fn on_resend<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        resend: &Resend,
        host: &mut H,
    ) {
        self.stats.count(Counter::ResendReceived);
        let index = match self.find_out(resend.cookie, from) {
            Ok(index) => index,
            Err(other) => return self.stray(other),
        };
        if let Some(out) = self.outs.get_mut(index) {
            if out.is_over(at.now) {
                return self.stray(false);
            }
            let (spans, base) = (resend.spans.as_slice(), self.config.base_rtt);
            let flow = match out.paced {
                true => self.flows.get_mut(index).and_then(Option::as_mut),
                false => None,
            };
            let former = flow.map(|flow| &mut flow.resent);
            let (too_soon, news) = out.name(at.now, spans, base, former);
            out.heard(at.now, news, rto_of(&self.config, out));
            self.stats.add(Counter::ResendTooSoon, too_soon.into());
            self.tell_unheard(at.now, index, host);
            self.drive(at.now, index, BURST, host);
        }
    }

    // Not inlined, so that what it needs of the stack is not needed for each packet.
    #[inline(never)]
    pub(super) fn on_ack<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        ack: &Ack,
        host: &mut H,
    ) {
        self.stats.count(Counter::AckReceived);
        self.on_ack_of(at, from, ack, host);
    }

    fn on_ack_of<H: Host<O, I>>(&mut self, at: At, from: &Address, ack: &Ack, host: &mut H) {
        // A receiver's window is no less than what it has. Of a message from a host to itself both
        // ends are here.
        if !ack.last && ack.window < ack.received {
            return match self.find_in(ack.cookie, from) {
                Some(index) => self.on_idle(at.now, index, ack, host),
                None => self.stray(false),
            };
        }
        match self.find_out(ack.cookie, from) {
            Ok(index) => self.acknowledged(at, index, ack, host),
            Err(other) => {
                let hash = self.hash_in(ack.cookie, from);
                if !(ack.last && self.remembered.confirm(hash, ack.cookie, from, at.now)) {
                    self.stray(other);
                }
            }
        }
    }

    /// An ACK of an outgoing message came from its receiver.
    pub(super) fn acknowledged<H: Host<O, I>>(
        &mut self,
        at: At,
        index: u32,
        ack: &Ack,
        host: &mut H,
    ) {
        let id = self.out_id(index);
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        // That all was delivered can be told at any time.
        if out.is_over(at.now) && !ack.last {
            return self.stray(false);
        }
        if ack.received > out.sent_ever() || ack.last && out.length != Some(ack.received) {
            return self.stats.count(Counter::SignalContradiction);
        }
        if out.has_lost(at.now, ack.received, rto_of(&self.config, out)) {
            return self.on_out_reset(at.now, index, ResetCode::Unknown, host);
        }
        let (before, first, peer) = (out.received, !out.open, out.peer);
        let news = out.acknowledged(at.now, ack.received, ack.window);
        out.heard(at.now, news, rto_of(&self.config, out));
        if out.orphan {
            let taken = out.received.saturating_sub(before);
            if taken != 0 {
                self.orphans.progress(index, at.now, taken);
            }
        }
        if out.received > before && !ack.last {
            host.out_acked(id, &mut out.user, ack.received);
        }
        if news && out.received >= out.available && out.promised() != 0 {
            host.out_drained(&mut out.user);
        }
        self.allowed(at.now, index, peer, ack.allowance);
        self.note_unacknowledged(index);
        if first {
            self.offer_ticket(at.now, index, host);
            self.tell_unheard(at.now, index, host);
        }
        if ack.last {
            self.confirm(at.now, index, host);
            return self.out_done(at.now, index, Ok(()), host);
        }
        if self.outs.get(index).is_some_and(|out| out.paced) {
            self.on_ack_paced(at, index, ack, host);
        }
    }

    /// A receiver says what its peer may send without tokens; of that we take no more than we would
    /// allow all. What it has of this message is not under way any more.
    fn allowed(&mut self, now: Nanos, index: u32, peer: u32, units: u16) {
        let most = self.config.unscheduled_buffer / UNIT;
        let units = units.min(u16::try_from(most).unwrap_or(u16::MAX));
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        let come = out.received >= out.unscheduled;
        let back = if come {
            core::mem::take(&mut out.allowed)
        } else {
            0
        };
        if let Some(ours) = self.peers.allowances.ours(peer) {
            ours.told(now, units);
            ours.give_back(back);
        }
    }

    /// Handles a RESET from the receiver of a message.
    pub(super) fn on_out_reset<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        code: ResetCode,
        host: &mut H,
    ) {
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        if code == ResetCode::Unknown && !out.is_over(now) && out.restart() {
            // The receiver has dropped the SYNC of a half-open message. The SYNC is sent again when
            // a probe would be.
            return;
        }
        self.out_done(now, index, Err(Failure::Reset(code)), host);
    }
}

/// Silence after which a peer is probed.
#[inline]
fn rto(config: &Resolved, rtt: Nanos) -> Nanos {
    config.rto.max(rtt + rtt)
}

#[inline]
fn rto_of<O>(config: &Resolved, out: &Out<O>) -> Nanos {
    rto(config, out.rtt(config.base_rtt))
}

/// How much of a message is sent without tokens: its bytes, and those on the wire that count among
/// what its peer allows.
fn unscheduled<O>(
    config: &Resolved,
    now: Nanos,
    allowance: Option<&mut Allowance>,
    out: &Out<O>,
) -> (u32, u32) {
    let Some(length) = out.length else {
        return (0, 0);
    };
    let packets = match config.unscheduled {
        Unscheduled::Packets(packets) => packets,
        Unscheduled::Auto => {
            let Some((allowance, mss)) = allowance.zip(NonZeroU32::new(out.mss)) else {
                return (0, 0);
            };
            let overhead = data_overhead(&out.to).saturating_add(out.seal_len());
            let short = config.unscheduled_buffer;
            let what = (length, out.available);
            if out.fits_with_sync(mss.get()) {
                let overhead = overhead.saturating_add(WITH_SYNC);
                let (bytes, allowed) = allowance.take(now, what, mss, overhead, short);
                if bytes != 0 {
                    return (bytes, allowed);
                }
            }
            return allowance.take(now, what, mss, overhead, short);
        }
    };
    if length == out.available && length <= packets.saturating_mul(out.mss) {
        return (length, 0);
    }
    (0, 0)
}

/// Payload of the full packets that fit into `wire` bytes on a link; at least that of one packet.
pub(super) fn base_payload(wire: u32, mss: u32, to: &Address) -> u32 {
    let packets = match NonZeroU32::new(mss.saturating_add(data_overhead(to))) {
        Some(packet) => wire / packet,
        None => 0,
    };
    packets.max(1).saturating_mul(mss)
}

/// Whether a token was under way for longer than `limit`, which is less than 2^31 ns. A timestamp
/// in the future has not expired: clocks differ a little.
pub(super) fn is_late(clock: u32, token: &Token, limit: Nanos) -> bool {
    let delay = clock.wrapping_sub(token.timestamp);
    delay < 1 << 31 && u64::from(delay) > limit.0
}
