// SPDX-License-Identifier: GPL-2.0
//! Timers: retransmissions, probes, and timeouts.

use super::sending::BURST;
use super::trust::may_have_token;
use super::*;
use crate::transport::config::Feedback;
use crate::transport::host::Failure;
use crate::transport::links::SHARED;
use crate::transport::outgoing::Due;
use crate::transport::wire::Mark;

/// At most so many timers of each kind are handled in one call.
const TIMERS: u32 = 32;
/// Packets that are sent in one call: it is a softirq's, with the lock held.
const PACKETS: u32 = 64;
/// Of these, the messages that are given up for want of places have so many at least.
const GIVEN_UP: u32 = 8;
/// What one incoming message's timer sends at most: a CHALLENGE, a RESEND, an ACK, and a grant.
const OF_IN: u32 = 4;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// Does what is due: sends tokens, repeats signals, gives up silent peers. To be called at
    /// [`Endpoint::next_timer`]; at any other time it is harmless.
    pub fn timer<H: Host<O, I>>(&mut self, now: Nanos, clock: u32, host: &mut H) {
        let link = SHARED;
        let at = At { now, clock, link };
        let mut left = PACKETS.saturating_sub(GIVEN_UP);
        left = left.saturating_sub(self.pace(at, TOKENS, host));
        // What is not done is still due: the next call follows at once. Each kind has its part, so
        // that none waits for another for ever.
        let kept = left / 2;
        for _ in 0..TIMERS {
            match self.in_timers.first() {
                Some((due, index)) if due <= now && left >= kept.saturating_add(OF_IN) => {
                    left = left.saturating_sub(self.on_in_timer(at, index, host));
                }
                _ => break,
            }
        }
        left = left.saturating_sub(self.take_turns(now, left / 2, host));
        for _ in 0..TIMERS {
            match self.out_timers.first() {
                Some((due, index)) if due <= now && left > 1 => {
                    left = left.saturating_sub(self.on_out_timer(now, index, left, host));
                }
                _ => break,
            }
        }
        for _ in 0..TIMERS {
            if !self.remembered.forget(now) {
                break;
            }
            self.made_room(now);
        }
        left = left.saturating_sub(self.deliver_due(now, left, host));
        left = left.saturating_sub(self.confirm_due(now, left, host));
        left = left.saturating_add(GIVEN_UP);
        left = left.saturating_sub(self.drop_orphans(now, left, host));
        self.shrink(now);
        self.pace(at, left.min(TOKENS), host);
    }

    /// When to call [`Endpoint::timer`] next. A time in the past means at once.
    pub fn next_timer(&self) -> Option<Nanos> {
        let first = |heap: &Heap<M, Nanos>| heap.first().map_or(Nanos::MAX, |(at, _)| at);
        let or_never = |at: Option<Nanos>| at.unwrap_or(Nanos::MAX);
        let next = first(&self.in_timers)
            .min(first(&self.out_timers))
            .min(or_never(self.remembered.next()))
            .min(self.confirms.next())
            .min(self.delivered.next())
            .min(or_never(self.links.next()))
            .min(or_never(self.links.next_turn()))
            .min(or_never(self.next_shrink()));
        let next = match self.excess_orphan() {
            Some(_) => Nanos::ZERO,
            None => next,
        };
        (next != Nanos::MAX).then_some(next)
    }

    /// Moves a message's timer to an earlier time, if one is needed.
    pub(super) fn arm(&mut self, now: Nanos, index: u32) {
        let Some(message) = self.ins.get(index) else {
            return;
        };
        let dead = message.heard + self.config.timeout;
        let next = message.next_clock(now, self.config.base_rtt).min(dead);
        // Never to a later one: a timer that fires early is harmless, and data comes more often
        // than timers fire.
        if self.in_timers.key(index).is_none_or(|at| next < at) {
            self.in_timers.set(index, next);
        }
    }

    /// How many packets it sent, at most.
    fn on_in_timer<H: Host<O, I>>(&mut self, at: At, index: u32, host: &mut H) -> u32 {
        self.in_timers.remove(index);
        let (base, rto) = (self.config.base_rtt, self.config.rto);
        let crowded = self.is_crowded();
        let Some(message) = self.ins.get_mut(index) else {
            return 0;
        };
        let unanswered = message.is_unanswered(at.now, crowded);
        let dead = at.now >= message.heard + self.config.timeout;
        if dead || message.owes_proof(at.now, self.config.timeout) {
            self.tell_sender_reset(index, ResetCode::Unknown, host);
            self.in_failed(at.now, index, Failure::TimedOut, host);
            return 1;
        }
        if at.now >= message.progress.next() {
            let least = host.is_wanted(&message.user);
            let facts = message.facts(!may_have_token(message));
            let timeout = self.config.timeout;
            if !message.progress.look(at.now, timeout, &facts, least) {
                self.has_stalled(at.now, index);
                self.tell_sender_reset(index, ResetCode::Closed, host);
                self.in_failed(at.now, index, Failure::Stalled, host);
                return 1;
            }
        }
        let mut sent = 0_u32;
        if unanswered {
            self.challenge(at.now, index, host);
            sent = 1;
        }
        let Some(message) = self.ins.get_mut(index) else {
            return sent;
        };
        let ranked = self.config.feedback == Feedback::Ranked;
        let speed = self.links.speed(message.link);
        let urgent = host.is_urgent(&message.user);
        let rises = urgent && !core::mem::replace(&mut message.urgent, urgent);
        let lag = self.peers.lag(at.now, message.peer);
        let message = self.ins.get_mut(index);
        let Some((message, mut order)) = in_order(message, &mut self.turns, &mut self.peers) else {
            return sent;
        };
        let law = (ranked, speed);
        let (spans, given_up) = message.clock(at.now, base, rto, law, lag, &mut order);
        self.stats.add(Counter::TokenGivenUp, given_up.into());
        let grant = message.is_grant_due(at.now);
        let open = message.proven && message.missing() != 0;
        if let Some(spans) = spans {
            self.send_resend(at.now, index, spans, host);
            sent = sent.saturating_add(1);
        }
        if grant {
            if open {
                // Without an ACK the sender takes the data for still under way, and the last ACK
                // may be lost, too.
                self.in_ack(at.now, index, host);
                sent = sent.saturating_add(1);
            }
            self.grant(at, index, Mark::Full, host);
            sent = sent.saturating_add(1);
        }
        self.try_again(at.now, index);
        if rises {
            self.rank_again(index);
        }
        self.update(at.now, index);
        self.schedule(at.now, index);
        self.arm(at.now, index);
        sent
    }

    /// A message that has drawn nothing for long has its rank for one token, if it is its turn.
    fn try_again(&mut self, now: Nanos, index: u32) {
        let message = self.ins.get_mut(index).filter(|it| it.may_try(now));
        let Some((message, mut order)) = in_order(message, &mut self.turns, &mut self.peers) else {
            return;
        };
        let link = message.link;
        message.trying = true;
        let speed = self.links.speed(link);
        let times = (self.config.base_rtt, self.config.rto);
        message.tried(now, times, speed, &mut order);
        self.rank_again(index);
    }

    /// A message needs its turn to be asked no more.
    pub(super) fn give_turn_back(&mut self, index: u32) {
        let message = self.ins.get_mut(index).filter(|it| it.turn.is_taken());
        if let Some((message, mut order)) = in_order(message, &mut self.turns, &mut self.peers) {
            order.give_back(&mut message.turn);
        }
    }

    /// A message's rank has risen.
    pub(super) fn rank_again(&mut self, index: u32) {
        if let Some(message) = self.ins.get(index) {
            let (link, due) = (message.link, message.next_token);
            if self.links.holds(link, index) {
                self.links.wait(link, index, due);
            }
        }
    }

    /// It may send so many packets, 2 at least. How many it sent.
    fn on_out_timer<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        most: u32,
        host: &mut H,
    ) -> u32 {
        // Read before what follows, which may set the timer.
        let Some(out) = self.outs.get_mut(index) else {
            self.out_timers.remove(index);
            return 0;
        };
        let due = out.due(now);
        let mut sent = 0_u32;
        match due {
            Due::Later(next) => self.out_timers.set(index, next),
            Due::Dead => {
                let soft = self.outs.get(index).and_then(|out| out.soft);
                let why = soft.map_or(Failure::TimedOut, Failure::Unreachable);
                self.out_done(now, index, Err(why), host);
                return 0;
            }
            Due::Ask(next) => {
                self.out_timers.set(index, next);
                self.ask(now, index, host);
                self.asked_paced(now, index);
                if let Some(out) = self.outs.get_mut(index) {
                    out.repeat_last();
                }
                sent = 1;
            }
        }
        let most = most.saturating_sub(sent).min(BURST);
        let sent = sent.saturating_add(self.burst(now, index, most, host));
        sent.saturating_add(self.drive(now, index, most, host))
    }
}

/// A message, and the turns of its peer among those of all.
pub(super) fn in_order<'a, M: Memory, I>(
    message: Option<&'a mut In<I>>,
    all: &'a mut Turns,
    peers: &'a mut Peers<M>,
) -> Option<(&'a mut In<I>, Order<'a>)> {
    let message = message?;
    let own = &mut peers.all.get_mut(message.peer)?.turns;
    Some((message, Order { all, own }))
}
