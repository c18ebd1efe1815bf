// SPDX-License-Identifier: GPL-2.0
//! How messages end.

use super::*;
use crate::transport::host::Failure;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// Ends a message with a RESET. [`Host::out_done`] is not called. `None`: there is no such message any more.
    pub fn abort<H: Host<O, I>>(&mut self, now: Nanos, id: OutId, host: &mut H) -> Option<O> {
        let index = self.out_at(id)?;
        let out = self.remove_out(index)?;
        self.stats.count(Counter::OutAborted);
        self.tell_reset(&out.to, out.cookie, ResetCode::Aborted, host);
        let failure = Failure::Reset(ResetCode::Aborted);
        host.event(&Event::Failed(out.info(now), failure));
        Some(out.user)
    }

    /// Ends an incoming message with a RESET: its socket was closed. [`Host::in_failed`] is not called. `None`: there is no such message any more.
    pub fn refuse<H: Host<O, I>>(&mut self, now: Nanos, id: InId, host: &mut H) -> Option<I> {
        let index = self.in_at(id)?;
        let message = self.remove_in(index)?;
        self.stats.count(Counter::InClosed);
        self.tell_reset(&message.from, message.cookie, ResetCode::Closed, host);
        let failure = Failure::Reset(ResetCode::Closed);
        host.event(&Event::Failed(self.in_info(now, &message), failure));
        Some(message.user)
    }

    /// Ends a message, whichever, with a RESET, calling [`Host::out_done`] or [`Host::in_failed`]. `false`: there is none left.
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
        false
    }

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
            match self.find_in(reset.cookie, from) {
                Ok(index) => {
                    found = true;
                    self.in_failed(at.now, index, Failure::Reset(code), host);
                }
                Err(wrong) => other |= wrong,
            }
        }
        if !found {
            self.stray(other);
        }
    }

    fn remove_out(&mut self, index: u32) -> Option<Out<O>> {
        let out = self.outs.remove(index)?;
        self.out_index.remove(index);
        self.out_timers.remove(index);
        if let Some(peer) = self.peers.all.get_mut(out.peer) {
            peer.outgoing = peer.outgoing.saturating_sub(1);
            let left = out.unacknowledged;
            peer.unacknowledged = peer.unacknowledged.saturating_sub(left.into());
        }
        self.peers.tidy(out.peer);
        Some(out)
    }

    pub(super) fn out_done<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        result: Result<(), Failure>,
        host: &mut H,
    ) {
        let id = self.out_id(index);
        let Some(out) = self.remove_out(index) else {
            return;
        };
        let info = out.info(now);
        match result {
            Ok(()) => {
                self.stats.count(Counter::OutDelivered);
                let bytes = u64::from(out.received);
                self.stats.add(Counter::OutDeliveredBytes, bytes);
                host.event(&Event::Delivered(info));
            }
            Err(failure) => {
                self.stats.count(match failure {
                    Failure::TimedOut | Failure::Crowded => Counter::OutTimeout,
                    Failure::Reset(ResetCode::NoSocket) => Counter::OutRefused,
                    Failure::Reset(ResetCode::TooLong) => Counter::OutTooLong,
                    Failure::Reset(ResetCode::Protocol) => Counter::OutProtocol,
                    Failure::Reset(_) => Counter::OutReset,
                });
                host.event(&Event::Failed(info, failure));
            }
        }
        host.out_done(id, out.user, result);
    }

    /// Takes an incoming message out of all tables.
    fn remove_in(&mut self, index: u32) -> Option<In<I>> {
        self.no_longer_half_open(index);
        let mut message = self.ins.remove(index)?;
        self.in_index.remove(index);
        self.in_timers.remove(index);
        self.pacer.drop(index);
        self.count_tokens(message.ledger.take());
        if let Some(peer) = self.peers.all.get_mut(message.peer) {
            peer.incoming = peer.incoming.saturating_sub(1);
            peer.missing = peer.missing.saturating_sub(message.noted_missing.into());
        }
        self.peers.tidy(message.peer);
        if let Some(coflow) = message.coflow_entry {
            self.coflows
                .change(coflow, message.noted_remaining.into(), 0);
            self.coflows.leave(coflow);
        }
        Some(message)
    }

    /// A message has come whole.
    pub(super) fn in_done<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let id = self.in_id(index);
        let Some(message) = self.remove_in(index) else {
            return;
        };
        let length = message.received;
        let info = self.in_info(now, &message);
        self.stats.count(Counter::InDelivered);
        self.stats.add(Counter::InDeliveredBytes, length.into());
        let until = now + self.config.timeout + Nanos::SECOND;
        let hash = self.hash(message.cookie);
        self.remembered
            .insert(hash, message.cookie, &message.from, length, until);
        self.final_ack(&message.from, message.cookie, length, host);
        host.event(&Event::Delivered(info));
        host.in_done(id, message.user);
    }

    /// Tells the other side that all has come, or that this side knows.
    pub(super) fn final_ack<H: Host<O, I>>(
        &mut self,
        to: &Address,
        cookie: Cookie,
        length: u32,
        host: &mut H,
    ) {
        let ack = Ack {
            cookie,
            received: length,
            window: length,
            last: true,
        };
        self.ack(to, ack, host);
    }

    pub(super) fn in_failed<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        why: Failure,
        host: &mut H,
    ) {
        let id = self.in_id(index);
        let Some(message) = self.remove_in(index) else {
            return;
        };
        self.stats.count(match why {
            Failure::TimedOut => Counter::InTimeout,
            Failure::Crowded => Counter::HalfOpenDropped,
            Failure::Reset(ResetCode::Aborted | ResetCode::Unknown) => Counter::InAborted,
            Failure::Reset(_) => Counter::InProtocol,
        });
        host.event(&Event::Failed(self.in_info(now, &message), why));
        host.in_failed(id, message.user, why);
    }

    /// The facts of an incoming message.
    pub(super) fn in_info(&self, now: Nanos, message: &In<I>) -> Info {
        let all = self.config.token_rate.bytes_per_sec();
        let ppb = u64::from(message.credit.rate());
        // Below 2^42 x 10^9 / 10^9, thousands and the rest apart.
        let rate = (all / 1_000_000_000)
            .saturating_mul(ppb)
            .saturating_add((all % 1_000_000_000).saturating_mul(ppb) / 1_000_000_000);
        message.info(now, rate)
    }
}
