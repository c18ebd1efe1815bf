// SPDX-License-Identifier: GPL-2.0
//! Timers: retransmissions, probes, and timeouts.

use super::*;
use crate::transport::host::Failure;
use crate::transport::links::SHARED;
use crate::transport::outgoing::Due;
use crate::transport::wire::Mark;

/// At most so many timers of each kind are handled in one call.
const TIMERS: u32 = 32;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// Does what is due: sends tokens, repeats signals, gives up silent peers. To be called at
    /// [`Endpoint::next_timer`]; at any other time it is harmless.
    pub fn timer<H: Host<O, I>>(&mut self, now: Nanos, clock: u32, host: &mut H) {
        let link = SHARED;
        let at = At { now, clock, link };
        self.pace(at, host);
        for _ in 0..TIMERS {
            match self.in_timers.first() {
                Some((due, index)) if due <= now => self.on_in_timer(at, index, host),
                _ => break,
            }
        }
        for _ in 0..TIMERS {
            match self.out_timers.first() {
                Some((due, index)) if due <= now => self.on_out_timer(now, index, host),
                _ => break,
            }
        }
        for _ in 0..TIMERS {
            if !self.remembered.forget(now) {
                break;
            }
            self.made_room(now);
        }
        self.drop_orphans(now, host);
        self.shrink(now);
        self.pace(at, host);
    }

    /// When to call [`Endpoint::timer`] next. A time in the past means at once.
    pub fn next_timer(&self) -> Option<Nanos> {
        let first = |heap: &Heap<M, Nanos>| heap.first().map_or(Nanos::MAX, |(at, _)| at);
        let or_never = |at: Option<Nanos>| at.unwrap_or(Nanos::MAX);
        let next = first(&self.in_timers)
            .min(first(&self.out_timers))
            .min(or_never(self.remembered.next()))
            .min(or_never(self.links.next()))
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

    fn on_in_timer<H: Host<O, I>>(&mut self, at: At, index: u32, host: &mut H) {
        self.in_timers.remove(index);
        let (base, rto) = (self.config.base_rtt, self.config.rto);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let unanswered = message.is_unanswered(at.now);
        if at.now >= message.heard + self.config.timeout {
            self.tell_sender_reset(index, ResetCode::Unknown, host);
            return self.in_failed(at.now, index, Failure::TimedOut, host);
        }
        if at.now >= message.progress.next() {
            let least = host.is_wanted(&message.user);
            let facts = message.facts();
            let timeout = self.config.timeout;
            if !message.progress.look(at.now, timeout, &facts, least) {
                self.tell_sender_reset(index, ResetCode::Closed, host);
                return self.in_failed(at.now, index, Failure::TimedOut, host);
            }
        }
        if unanswered {
            self.challenge(at.now, index, host);
        }
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let (spans, given_up) = message.clock(at.now, base, rto, &mut self.asked);
        self.stats.add(Counter::TokenGivenUp, given_up.into());
        let grant = message.is_grant_due(at.now);
        let open = message.proven && message.missing() != 0;
        if let Some(spans) = spans {
            self.send_resend(index, spans, host);
        }
        if grant {
            if open {
                // Without an ACK the sender takes the data for still under way, and the last ACK
                // may be lost, too.
                self.in_ack(index, host);
            }
            self.grant(at, index, Mark::Full, host);
        }
        self.update(at.now, index);
        self.schedule(at.now, index);
        self.arm(at.now, index);
    }

    fn on_out_timer<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        // Read before what follows, which may set the timer.
        let due = match self.outs.get_mut(index) {
            Some(out) => out.due(now),
            None => return self.out_timers.remove(index),
        };
        match due {
            Due::Later(next) => self.out_timers.set(index, next),
            Due::Dead => {
                let soft = self.outs.get(index).and_then(|out| out.soft);
                let why = soft.map_or(Failure::TimedOut, Failure::Unreachable);
                return self.out_done(now, index, Err(why), host);
            }
            Due::Ask(next) => {
                self.out_timers.set(index, next);
                self.ask(now, index, host);
            }
        }
        self.burst(now, index, host);
    }
}
