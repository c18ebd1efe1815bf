// SPDX-License-Identifier: GPL-2.0
//! Incoming messages: packets from their senders, and calls of the user.

use super::trains::Came;
use super::trust::{may_have_token, ANSWERS, GUESSES};
use super::*;
use crate::transport::config::Policy;
use crate::transport::host::Failure;
use crate::transport::incoming::ACK_PACKETS;
use crate::transport::ledger::Answer;
use crate::transport::rate;
use crate::transport::wire::{
    Cookies, Data, Fin, First, Mark, Resend, Spans, Token, ACK_LEN, DATA_LEN, FIN_LEN, FIRST_LEN,
    MAX_LENGTH, SYNC_LEN,
};

/// A sample of the round-trip time above this is ignored: the clock was set.
pub(super) const MAX_RTT: Nanos = Nanos(2 * Nanos::SECOND.0);

impl<M: Memory, O, I> Endpoint<M, O, I> {
    pub(super) fn on_data<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        ecn: u8,
        data: &Data,
        payload: H::Payload,
        host: &mut H,
    ) {
        self.stats.count(if data.is_unasked() {
            Counter::UnscheduledReceived
        } else {
            Counter::DataReceived
        });
        self.stats.add(Counter::DataReceivedBytes, data.len.into());
        let index = match self.find_in(data.cookie, from) {
            Some(index) => index,
            None => return self.data_for_none(from, data, host),
        };
        let bytes = data.len.saturating_add(DATA_LEN as u32);
        self.credit(at.now, index, from, bytes);
        self.take_data(at, index, ecn, data, DATA_LEN as u32, payload, host);
    }

    /// A message's SYNC came with all of its data.
    // Not inlined, so that what it needs of the stack is not needed for each packet.
    #[inline(never)]
    pub(super) fn on_first<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        ecn: u8,
        first: &First,
        payload: H::Payload,
        host: &mut H,
    ) {
        let data = &first.data;
        self.stats.count(Counter::UnscheduledReceived);
        self.stats.add(Counter::DataReceivedBytes, data.len.into());
        self.on_sync(at, from, &first.sync, false, host);
        let Some(index) = self.find_in(data.cookie, from) else {
            // One that was delivered has been acknowledged once more; others were refused.
            let hash = self.hash_in(data.cookie, from);
            let delivered = self.remembered.length(hash, data.cookie, from).is_some();
            return self.stats.count(match delivered {
                true => Counter::DataDuplicate,
                false => Counter::DataUnknown,
            });
        };
        let known = self.ins.get(index);
        if known.is_some_and(|message| message.differs(&first.sync).0) {
            // Of a message that it contradicts, and of which it shows nothing, it is no part.
            return self.stats.count(Counter::DataUnknown);
        }
        let head = FIRST_LEN.saturating_add(first.delivered.riding_len()) as u32;
        let rest = head.saturating_sub(SYNC_LEN as u32);
        self.credit_more(index, rest.saturating_add(data.len));
        let id = self.in_id(index);
        self.may_tell_later = !first.prompt;
        self.take_data(at, index, ecn, data, head, payload, host);
        self.may_tell_later = false;
        // Mostly it has ended.
        if let Some(index) = self.in_at(id) {
            self.schedule(at.now, index);
            self.arm(at.now, index);
        }
    }

    /// The sender of some messages knows that they are complete.
    #[inline(never)]
    pub(super) fn on_confirm(&mut self, now: Nanos, from: &Address, cookies: &Cookies) {
        self.stats.count(Counter::AckReceived);
        self.confirmed(now, from, cookies.first());
        for &cookie in cookies.others() {
            self.confirmed(now, from, cookie);
        }
    }

    fn confirmed(&mut self, now: Nanos, from: &Address, cookie: Cookie) {
        let hash = self.hash_in(cookie, from);
        if self.guards != 0 && self.remembered.sealed(hash, cookie, from) == Some(true) {
            return self.stats.count(Counter::SealMissing);
        }
        if !self.remembered.confirm(hash, cookie, from, now) {
            self.stray(false);
        }
    }

    /// DATA of a message, of which `head` bytes are before the payload.
    #[allow(clippy::too_many_arguments)] // facts of one packet
    fn take_data<H: Host<O, I>>(
        &mut self,
        at: At,
        index: u32,
        ecn: u8,
        data: &Data,
        head: u32,
        payload: H::Payload,
        host: &mut H,
    ) {
        self.move_to(at, index);
        let id = self.in_id(index);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        if data.len > message.mss {
            // The tokens' rate would be that of the link, and the data's a multiple of it.
            return self.stats.count(Counter::DataTooLong);
        }
        message.has_come(at.now, self.config.rto);
        let mut notify = false;
        if message.paced {
            let interval = self.config.dcqcn.notify_interval;
            let mark = rate::Mark::from_ecn(ecn);
            notify = message.marked(at.now, interval, mark);
            match mark {
                rate::Mark::None => {}
                rate::Mark::Undetermined => self.stats.count(Counter::EcnUndetermined),
                rate::Mark::Congested => self.stats.count(Counter::EcnCongested),
            }
        }
        let end = data.end();
        if message.length.is_some_and(|length| end > length) {
            self.stats.count(Counter::DataBeyondLength);
            if self.asks_if_unsure(at.now, index, host) {
                return;
            }
            self.tell_sender_reset(index, ResetCode::Protocol, host);
            return self.in_failed(at.now, index, Failure::Reset(ResetCode::Protocol), host);
        }
        if data.asked() && !message.proven {
            if self.is_answer(index, data) && self.believe(at.now, index, host) {
                return self.stats.count(Counter::DataDuplicate);
            }
            if !self.ins.get(index).is_some_and(|message| message.proven) {
                // A stranger that claims to answer a token, and did not see one.
                return self.stats.count(Counter::DataUnasked);
            }
        }
        let token = self.on_answer(at, index, data);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        if message.turn.is_taken() {
            self.give_turn_back(index);
        }
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        message.awake();
        let contiguous = message.ranges.contiguous();
        if end > message.told {
            // Nobody asked for it: the sender does not know the window.
            self.in_ack(at.now, index, host);
        }
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        if end > message.told {
            self.stats.count(Counter::DataBeyondWindow);
        } else if message.ranges.missing(data.offset, end).is_none() {
            message.repeated = message.repeated.saturating_add(1);
            message.not_calm();
            self.stats.count(Counter::DataDuplicate);
        } else if !message.may_take(token.is_some_and(|token| message.was_sent(token)), end) {
            self.stats.count(Counter::DataUnasked);
        } else if let Some(new) = message.take(data.offset, end) {
            let skip = new.start.saturating_sub(data.offset);
            let len = new.end.saturating_sub(new.start);
            let skip = (head, skip);
            if !host.data(id, &mut message.user, new.start, skip, len, payload) {
                message.put_back(new);
                message.had_no_room(at.now, self.config.base_rtt, self.config.rto);
                self.stats.count(Counter::DataNoMemory);
            } else {
                message.said(end, data.more);
                if token.is_none() {
                    let lag = self.peers.lag(at.now, message.peer);
                    message.came_unasked(at.now, self.config.base_rtt, lag);
                    if message.proven {
                        // Anybody can send what nobody asked for.
                        self.links.unasked(at.link, at.now);
                    }
                }
                if message.bore_fruit() && self.config.policy == Policy::Top {
                    // It has its rank again.
                    let (link, at) = (message.link, message.next_token);
                    if self.links.holds(link, index) {
                        self.links.wait(link, index, at);
                    }
                }
            }
        } else {
            self.stats.count(Counter::DataNoPlace);
        }
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let clock = message.clocked_by(token);
        message.gaps.came(at.now, &message.ranges, clock);
        let came = Came {
            contiguous,
            ecn,
            notify,
        };
        if self.train.is_some() && message.may_be_put_off() {
            return self.put_off(at, index, came, host);
        }
        self.go_on(at, index, &came, host);
    }

    /// What follows from data that came.
    pub(super) fn go_on<H: Host<O, I>>(&mut self, at: At, index: u32, came: &Came, host: &mut H) {
        let id = self.in_id(index);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let now_contiguous = message.ranges.contiguous();
        let believed = message.is_believed();
        if now_contiguous > came.contiguous && believed {
            host.in_progress(id, &mut message.user, now_contiguous);
        }
        if message.is_complete() {
            return self.complete(at.now, index, host);
        }
        let batch = message.mss.saturating_mul(ACK_PACKETS);
        let owes = message.proven && (!message.sure || message.gone);
        // Its application may wait for room in the send buffer.
        let batch = match message.has_all_written() {
            true => 1,
            false => batch,
        };
        // What its sender may send unasked to us is in use until it hears that this has come,
        // however long the rest waits for tokens.
        let allowed =
            came.contiguous < message.announced() && message.announced() <= now_contiguous;
        let new = now_contiguous.saturating_sub(message.acked);
        let ends = match message.paced {
            true => message.ends_segment(now_contiguous) || batch == 1 && new != 0,
            false => new >= batch,
        };
        let acknowledge = believed && (ends || came.notify || allowed && new != 0);
        let ren = message.ren;
        let spans = message.resend(at.now, self.config.base_rtt);
        if acknowledge {
            self.in_ack(at.now, index, host);
        }
        if owes {
            self.challenge(at.now, index, host);
        }
        if let Some(spans) = spans {
            self.send_resend(at.now, index, spans, host);
        }
        if ren {
            let mark = match came.ecn & 3 {
                0 => Mark::Under,
                1 => Mark::Full,
                _ => Mark::Over,
            };
            self.grant(at, index, mark, host);
        }
        self.note_progress(index);
        self.update(at.now, index);
        self.schedule(at.now, index);
        self.arm(at.now, index);
    }

    /// All of a message has come. It is delivered when a SYNC has shown whose it is.
    fn complete<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        if self.ins.get(index).is_some_and(In::is_believed) {
            return self.in_done(now, index, host);
        }
        self.challenge(now, index, host);
        self.note_progress(index);
        self.schedule(now, index);
        self.arm(now, index);
    }

    /// Asks for a SYNC that shows the address, if none has come: nothing is delivered before, and
    /// what contradicts what the message began with is right if that was forged.
    fn asks_if_unsure<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) -> bool {
        let unsure = self.ins.get(index).is_some_and(|it| !it.sure);
        if unsure {
            self.challenge(now, index, host);
        }
        unsure
    }

    // Not inlined: rare, and not to be looked up for each packet.
    #[inline(never)]
    fn data_for_none<H: Host<O, I>>(&mut self, from: &Address, data: &Data, host: &mut H) {
        let cookie = data.cookie;
        let hash = self.hash_in(cookie, from);
        if let Some(length) = self.remembered.length(hash, cookie, from) {
            self.stats.count(Counter::DataDuplicate);
            return self.old_ack(from, cookie, length, host);
        }
        // It may have overtaken its SYNC, so no RESET; a sender whose message is gone will probe.
        self.stats.count(Counter::DataUnknown);
        if data.is_unasked() {
            if let Some(peer) = self.peers.find(&self.key, from) {
                self.early.note(peer, cookie, (data.offset, data.len));
            }
        }
    }

    /// Records which token a DATA answers. Returns the token's number, if there is one.
    pub(super) fn on_answer(&mut self, at: At, index: u32, data: &Data) -> Option<u16> {
        let message = self.ins.get_mut(index)?;
        if !data.asked() {
            if message.ren {
                message.waited(at.now, self.config.base_rtt);
            }
            return None;
        }
        let answer = message.ledger.answer(data.token);
        if message.unanswered {
            if answer == Answer::Unasked {
                message.guesses = message.guesses.saturating_add(1);
            } else if message.guesses < GUESSES {
                message.answers = message.answers.saturating_add(1);
                if message.answers >= ANSWERS {
                    self.answered(index);
                }
            }
        }
        let message = self.ins.get_mut(index)?;
        // Late answers are samples, too: they show best that round trips have become longer. One
        // that nobody waits for may have been given up too soon, with more tokens since than are
        // remembered: or no answer would ever be in time on a path that is so much longer than it
        // was.
        let base = self.config.base_rtt;
        let sent = message.sent_at(data.token, data.timestamp);
        let rtt = Nanos(at.clock.wrapping_sub(sent).into());
        let counts = match answer {
            Answer::Unasked => message.proven && rtt > message.rtt(base),
            Answer::New | Answer::Late => true,
        };
        if counts && rtt <= MAX_RTT {
            message.measured(at.now, rtt, base);
            let (whose, least) = (message.peer, message.least_rtt);
            if let Some(peer) = self.peers.all.get_mut(whose) {
                peer.measured(at.now, least, rtt);
            }
            message.look_soon(at.now, base, self.peers.lag(at.now, whose));
        }
        Some(data.token)
    }

    /// Names what is missing.
    pub(super) fn send_resend<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        spans: Spans,
        host: &mut H,
    ) {
        let Some(message) = self.ins.get(index) else {
            return;
        };
        let cookie = message.cookie;
        if message.had_trains() {
            self.links.lost(message.link, now);
        }
        let resend = Packet::Resend(Resend { cookie, spans });
        if self.send_back(index, Class::Signal, &resend, host) {
            self.stats.count(Counter::ResendSent);
        }
    }

    /// Sends a grant, if the message has anything left to grant.
    pub(super) fn grant<H: Host<O, I>>(&mut self, at: At, index: u32, mark: Mark, host: &mut H) {
        let (base, rto) = (self.config.base_rtt, self.config.rto);
        let crowded = self.is_crowded();
        let free = self.ins.get(index).is_some_and(may_have_token);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let rtt = message.rtt(base);
        let paused = at.now < message.pause;
        let allowed = free && !paused && message.is_allowed(crowded) && !message.ledger.is_full();
        // A stranger may have another one when something comes from it, or after a while.
        let next = if allowed { rtt } else { rtt.max(rto) };
        if message.missing() == 0 {
            // Until it has a window: nothing would be asked for.
            message.grant = Maybe::NONE;
            return;
        }
        message.grant = Maybe::some(at.now + next);
        if !allowed {
            return;
        }
        if mark == Mark::Under {
            // For two packets.
            message.asked_for = message.asked_for.saturating_add(1);
        }
        let mut token = Token {
            cookie: message.cookie,
            sequence: message.token(at.now, rtt),
            timestamp: at.clock,
            priority: 0,
            grant: Some(mark),
            worth: 1,
        };
        self.stamp_token(at, index, &mut token);
        self.stats.count(Counter::GrantSent);
        self.send_back(index, Class::Token(0), &Packet::Token(token), host);
    }

    /// Updates the sums of a message's peer and coflow.
    pub(super) fn note_progress(&mut self, index: u32) {
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let left = message
            .length
            .map(|length| length.saturating_sub(message.received));
        let after = left.unwrap_or(0);
        let before = core::mem::replace(&mut message.noted_missing, after);
        if let Some(peer) = self.peers.all.get_mut(message.peer) {
            let rest = peer.missing.saturating_sub(before.into());
            peer.missing = rest.saturating_add(after.into());
        }
        if let Some(coflow) = message.coflow_entry.get() {
            let after = left.unwrap_or(message.received);
            let before = core::mem::replace(&mut message.noted_remaining, after);
            self.coflows.change(coflow, before.into(), after.into());
        }
    }

    // Not inlined, so that what it needs of the stack is not needed for each packet.
    #[inline(never)]
    pub(super) fn on_fin<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        fin: &Fin,
        host: &mut H,
    ) {
        self.stats.count(Counter::FinReceived);
        let index = match self.find_in(fin.cookie, from) {
            Some(index) => index,
            None => {
                let hash = self.hash_in(fin.cookie, from);
                if let Some(length) = self.remembered.length(hash, fin.cookie, from) {
                    return self.old_ack(from, fin.cookie, length, host);
                }
                self.stray(false);
                let (what, code) = (Kind::Incoming, ResetCode::Unknown);
                return self.reset(at, from, what, fin.cookie, code, host);
            }
        };
        let id = self.in_id(index);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        message.heard = at.now;
        self.credit(at.now, index, from, FIN_LEN as u32);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let contradicts = match message.length {
            Some(length) => length != fin.length,
            None => fin.length < message.ranges.end(),
        };
        if contradicts {
            self.stats.count(Counter::SignalContradiction);
            if self.asks_if_unsure(at.now, index, host) {
                return;
            }
            self.tell_sender_reset(index, ResetCode::Protocol, host);
            return self.in_failed(at.now, index, Failure::Reset(ResetCode::Protocol), host);
        }
        self.give_turn_back(index);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        message.awake();
        if message.length.is_none() && !message.sure {
            // It may be forged, and would cut the message short. The right one follows the SYNC.
            self.challenge(at.now, index, host);
            self.schedule(at.now, index);
            return self.arm(at.now, index);
        }
        message.may_be_written(true);
        if message.length.is_none() {
            message.length = Some(fin.length);
            host.in_length(id, &mut message.user, fin.length);
        }
        if message.is_complete() {
            return self.complete(at.now, index, host);
        }
        // What is under way of one that its sender paces would be sent again: a FIN overtakes it.
        if !message.paced {
            let limit = message.limit();
            message.gaps.all_sent(at.now, limit);
        }
        self.challenge_again(at.now, index, host);
        self.in_ack(at.now, index, host);
        self.asks_if_unsure(at.now, index, host);
        self.note_progress(index);
        self.schedule(at.now, index);
        self.arm(at.now, index);
    }

    /// The sender has sent all that there is for now: an ACK of its own.
    pub(super) fn on_idle<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        ack: &Ack,
        host: &mut H,
    ) {
        let base = self.config.base_rtt;
        if let Some(from) = self.ins.get(index).map(|message| message.from) {
            self.credit(now, index, &from, ACK_LEN as u32);
        }
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        message.heard = now;
        if ack.received > message.limit() {
            return self.stats.count(Counter::SignalContradiction);
        }
        self.challenge_again(now, index, host);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        if ack.allowance == 0 {
            let lag = self.peers.lag(now, message.peer);
            message.idle(now, (base, lag), ack.received);
            self.in_ack(now, index, host);
        } else {
            message.has_more(ack.received, ack.allowance.into());
            self.give_turn_back(index);
        }
        self.asks_if_unsure(now, index, host);
        self.schedule(now, index);
        self.arm(now, index);
    }

    /// Others may wait for this message to be read: asks whether it [is urgent](Host::is_urgent).
    pub fn hurry<H: Host<O, I>>(&mut self, now: Nanos, id: InId, host: &mut H) {
        let Some(index) = self.in_at(id) else {
            return;
        };
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let urgent = host.is_urgent(&message.user);
        if core::mem::replace(&mut message.urgent, urgent) == urgent {
            return;
        }
        if urgent {
            // It may have been silent only because others' tokens went before its own.
            message.asked();
            message.next_token = message.next_token.min(now);
        }
        self.rank_again(index);
        self.schedule(now, index);
        self.arm(now, index);
    }

    /// Tokens may be given for bytes below `window`; what is less than before is not believed.
    /// `false`: there is no such message any more.
    pub fn window<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        id: InId,
        window: u32,
        host: &mut H,
    ) -> bool {
        let Some(index) = self.in_at(id) else {
            return false;
        };
        let Some(message) = self.ins.get_mut(index) else {
            return false;
        };
        message.window = message.window.max(window.min(MAX_LENGTH));
        let urgent = host.is_urgent(&message.user);
        let rises = urgent && !core::mem::replace(&mut message.urgent, urgent);
        // Tell the sender at the latest when half of the window is left, unless it knows of all the
        // window that the message needs.
        let all = message.told >= message.length.unwrap_or(MAX_LENGTH);
        let left = message.told.saturating_sub(message.received);
        let room = message.window.saturating_sub(message.received);
        if !all && message.window > message.told && left <= room / 2 {
            let was_closed = message.missing() == 0;
            if was_closed {
                message.awake();
                self.give_turn_back(index);
            }
            self.in_ack(now, index, host);
            self.schedule(now, index);
            self.arm(now, index);
        }
        if rises {
            self.rank_again(index);
        }
        true
    }
}
