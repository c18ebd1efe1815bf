// SPDX-License-Identifier: GPL-2.0
//! Which message gets the next token, and when.

use super::*;
use crate::transport::jitter::{Due, NANO};
use crate::transport::policy::{standing, Facts, Key, Standing};
use crate::transport::wire::Token;

/// Tokens that are sent in one call.
const TOKENS: u32 = 32;
/// Further messages that are looked at in one call.
const LOOKS: u32 = 128;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    pub(super) fn next_number(&mut self) -> u64 {
        let number = self.numbers;
        self.numbers = self.numbers.wrapping_add(1);
        number
    }

    /// Tells the pacer whether a message wants a token.
    pub(super) fn schedule(&mut self, now: Nanos, index: u32) {
        let crowded = self.is_crowded();
        let free = self
            .ins
            .get(index)
            .is_some_and(|it| self.may_have_token(it));
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        if !(free && message.wants(now, crowded)) {
            self.pacer.drop(index);
        } else if !self.pacer.holds(index) {
            if message.next_token < now {
                // Time in which it wanted no token is not made up for.
                message.due = Due::new(now);
                message.next_token = now;
            }
            self.pacer.want(now, index, message.next_token);
        }
    }

    /// A message's rank by the policy.
    fn standing(&self, now: Nanos, message: &In<I>) -> Standing {
        let facts = Facts {
            length: message.length,
            received: message.received,
            mss: u16::try_from(message.mss).unwrap_or(u16::MAX),
            deadline: message.deadline,
            coflow: message
                .coflow_entry
                .and_then(|entry| self.coflows.remaining(entry)),
            wish: message.wish,
            due: message.next_token,
        };
        let mut standing = standing(&self.config, now, &facts);
        if !message.proven && self.is_crowded() {
            // Messages of which data has come go first: a flood of SYNCs must not take their
            // tokens, whatever priority it claims.
            standing.key = Key::LAST;
        }
        standing
    }

    /// Sends tokens that are due.
    pub(super) fn pace<H: Host<O, I>>(&mut self, at: At, host: &mut H) {
        let (mut tokens, mut looks) = (0_u32, 0_u32);
        while tokens < TOKENS && looks < LOOKS {
            looks = looks.saturating_add(1);
            if let Some(index) = self.pacer.due(at.now) {
                match self.ins.get(index) {
                    Some(message) => {
                        let standing = self.standing(at.now, message);
                        self.pacer.ready(index, standing.key);
                    }
                    None => self.pacer.drop(index),
                }
                continue;
            }
            let Some((key, index)) = self.pacer.first(at.now) else {
                return;
            };
            let crowded = self.is_crowded();
            let wants = |it: &&In<I>| it.wants(at.now, crowded) && self.may_have_token(it);
            let Some(message) = self.ins.get(index).filter(wants) else {
                self.pacer.drop(index);
                continue;
            };
            let standing = self.standing(at.now, message);
            if standing.key > key {
                // Its rank has fallen since.
                self.pacer.ready(index, standing.key);
                continue;
            }
            self.send_token(at, index, standing.priority, host);
            tokens = tokens.saturating_add(1);
        }
    }

    fn send_token<H: Host<O, I>>(&mut self, at: At, index: u32, priority: u8, host: &mut H) {
        let base = self.config.base_rtt;
        let slack = self.pacer.slack();
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let to = message.from;
        let rtt = message.rtt(base);
        message.priority = priority;
        let mut token = Token {
            cookie: message.cookie,
            sequence: message.token(at.now, rtt),
            timestamp: at.clock,
            priority,
            grant: None,
        };
        let wire_len = token_wire_len(&to);
        let interval = message.credit.interval(&self.config, wire_len);
        let jitter = self.config.jitter;
        message.due.advance(at.now, interval, slack);
        let late = message.jitter.next(&mut self.rng, interval, jitter);
        message.next_token = message.due.at() + late;
        let time = self.config.token_time;
        self.pacer
            .charge(at.now, wire_len, time, &mut self.rng, jitter);
        // It waits again, unless it wants no more tokens; the pacer does not become idle in
        // between.
        self.pacer.wait(index, message.next_token);
        self.stats.count(Counter::TokenSent);
        self.stamp_token(at, index, &mut token);
        self.send_back(index, Class::Token(priority), &Packet::Token(token), host);
        self.schedule(at.now, index);
        self.arm(at.now, index);
    }

    pub(super) fn count_tokens(&mut self, (answered, lost): (u32, u32)) {
        self.stats.add(Counter::TokenAnswered, answered.into());
        self.stats.add(Counter::TokenLost, lost.into());
    }

    /// Updates a message's rate from the fate of its tokens, once per period.
    pub(super) fn update(&mut self, now: Nanos, index: u32) {
        let config = &self.config;
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let period = config.update_period.unwrap_or(message.rtt(config.base_rtt));
        if now - message.updated < period {
            return;
        }
        let (answered, lost) = message.ledger.take();
        if answered == 0 && lost == 0 {
            return;
        }
        message.updated = now;
        message.tokens_lost = message.tokens_lost.saturating_add(lost.into());
        let period = crate::transport::feedback::Period { answered, lost };
        // It may have been changed since.
        message.credit.configure(config);
        message.credit.update(config, &period);
        let interval = message
            .credit
            .interval(config, token_wire_len(&message.from));
        message.due.hasten(now, interval);
        message.next_token = message
            .next_token
            .min(message.due.at() + Nanos(interval / NANO));
        let at = message.next_token;
        self.pacer.hasten(index, at);
        self.count_tokens((answered, lost));
    }
}
