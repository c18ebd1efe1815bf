// SPDX-License-Identifier: GPL-2.0
//! Which message gets the next token, and when.

use super::timing::in_order;
use super::trust::may_have_token;
use super::*;
use crate::transport::config::{Feedback, Policy, Resolved, Speed};
use crate::transport::incoming::longest_look;
use crate::transport::jitter::{Due, NANO};
use crate::transport::policy::{standing, Facts, Key, Standing};
use crate::transport::wire::Token;

/// Tokens that are sent in one call.
pub(super) const TOKENS: u32 = 32;
/// By default tokens stand for several if one message alone wants any, and nothing has come unasked
/// for so many round trips: that has all the room of ports, and what comes in a row as well would
/// be too much.
const QUIET_TRIPS: u64 = 20;
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
        let free = self.ins.get(index).is_some_and(may_have_token);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let link = message.link;
        let speed = self.links.speed(link);
        if !(free && message.wants(now, self.config.base_rtt, speed, crowded)) {
            self.links.drop(link, index);
        } else if !self.links.holds(link, index) {
            if message.came == now && shares_link(&self.config, message) {
                let wire_len = token_wire_len(&message.from, message.sealed);
                let one = message.credit.interval(speed, wire_len);
                message.waits(now, self.config.base_rtt, one);
            }
            if message.next_token < now {
                // Time in which it wanted no token is not made up for.
                message.due = Due::new(now);
                message.next_token = now;
            }
            self.links.want(link, now, index, message.next_token);
        }
    }

    /// A message's rank by the policy.
    fn standing(&self, now: Nanos, message: &In<I>) -> Standing {
        let facts = Facts {
            length: message.length,
            received: message.received,
            mss: u16::try_from(message.mss).unwrap_or(u16::MAX),
            deadline: message.deadline.get(),
            coflow: message
                .coflow_entry
                .get()
                .and_then(|entry| self.coflows.remaining(entry)),
            wish: message.wish,
            due: message.next_token,
            lot: message.lot(),
        };
        let mut standing = standing(&self.config, self.links.speed(message.link), now, &facts);
        let ranked = self.config.policy == Policy::Top;
        if ranked && message.urgent && message.proven {
            (standing.key, standing.priority) = (Key::FIRST, 0);
        } else if ranked && message.is_vain() && !message.trying
            || !message.proven && self.is_crowded()
        {
            // Messages of which data has come go first: a flood of SYNCs must not take their
            // tokens, whatever priority it claims.
            standing.key = Key::LAST;
        }
        standing
    }

    /// Sends tokens that are due, but no more than so many. How many it sent.
    pub(super) fn pace<H: Host<O, I>>(&mut self, at: At, most: u32, host: &mut H) -> u32 {
        let (mut tokens, mut looks) = (0_u32, 0_u32);
        while tokens < most && looks < LOOKS {
            looks = looks.saturating_add(1);
            let Some(link) = self.links.due(at.now) else {
                break;
            };
            if let Some(index) = self.links.due_message(link, at.now) {
                match self.ins.get(index) {
                    Some(message) => {
                        let standing = self.standing(at.now, message);
                        self.links.ready(link, index, standing.key);
                    }
                    None => self.links.drop(link, index),
                }
                continue;
            }
            let Some((key, index)) = self.links.first(link, at.now) else {
                break;
            };
            let crowded = self.is_crowded();
            let (base, speed) = (self.config.base_rtt, self.links.speed(link));
            let wants = |it: &&In<I>| it.wants(at.now, base, speed, crowded) && may_have_token(it);
            let Some(message) = self.ins.get(index).filter(wants) else {
                self.links.drop(link, index);
                continue;
            };
            let standing = self.standing(at.now, message);
            if standing.key > key {
                // Its rank has fallen since.
                self.links.ready(link, index, standing.key);
                continue;
            }
            self.send_token(at, index, standing.priority, host);
            tokens = tokens.saturating_add(1);
        }
        tokens
    }

    fn send_token<H: Host<O, I>>(&mut self, at: At, index: u32, priority: u8, host: &mut H) {
        let (base, rto) = (self.config.base_rtt, self.config.rto);
        let crowded = self.is_crowded();
        let whose = self.ins.get(index).map_or(u32::MAX, |message| message.peer);
        let lag = self.peers.lag(at.now, whose);
        let message = self.ins.get_mut(index);
        let Some((message, mut order)) = in_order(message, &mut self.turns, &mut self.peers) else {
            return;
        };
        let link = message.link;
        let wire_len = token_wire_len(&message.from, message.sealed);
        let one = message.credit.interval(self.links.speed(link), wire_len);
        let quiet = Nanos(base.0.saturating_mul(QUIET_TRIPS));
        message.is_calm_until(at.now, rto);
        let alone = self.links.is_quiet(link, at.now, quiet) && self.links.is_alone(link);
        let most = match alone || !self.config.worth.is_auto() {
            true => message.most_worth(&self.config, self.links.speed(link), one),
            false => 1,
        };
        let slack = self.links.slack(link);
        let rtt = message.rtt(base).max(lag.min(longest_look(rto)));
        message.priority = priority;
        message.trying = false;
        let speed = self.links.speed(link);
        let sequence = message.token(at.now, rtt);
        let mut worth = 1_u8;
        while worth < most && message.wants_more(at.now, (base, speed), crowded, 1) {
            message.token(at.now, rtt);
            worth = worth.saturating_add(1);
        }
        message.sent_token(worth);
        let mut token = Token {
            cookie: message.cookie,
            sequence,
            timestamp: at.clock,
            priority,
            grant: None,
            worth,
        };
        if self.config.policy == Policy::Top {
            message.tried(at.now, (base, rto), speed, &mut order);
        }
        let jitter = self.config.jitter;
        message.due.advance(at.now, message.interval(one), slack);
        // Of one that stands for several as much as of others: more than that the pacer does not
        // make up for.
        let late = message.jitter.next(&mut self.rng, one, jitter);
        message.next_token = message.due.at() + late;
        self.links
            .charge(link, at.now, (wire_len, worth), &mut self.rng, jitter);
        // It waits again, unless it wants no more tokens; the pacer does not become idle in
        // between.
        self.links.wait(link, index, message.next_token);
        self.stats.add(Counter::TokenSent, worth.into());
        if worth > 1 {
            self.stats.count(Counter::TrainSent);
        }
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
        message.noted_loss(lost);
        self.peers.set_calm(message.peer, message.is_calm());
        message.tokens_lost = message.tokens_lost.saturating_add(lost);
        let period = crate::transport::feedback::Period { answered, lost };
        let speed = self.links.speed(message.link);
        let shares = shares_link(config, message);
        if !shares {
            message.credit.is_unshared();
        }
        // It may have been changed since.
        message.credit.configure(config);
        match shares {
            true => {
                let wire_len = token_wire_len(&message.from, message.sealed);
                let one = message.one_in_trip(config.base_rtt, speed, wire_len);
                message.credit.update_shared(config, &period, one);
            }
            false => message.credit.update(config, &period),
        }
        hasten(now, message, speed);
        let (link, at) = (message.link, message.next_token);
        self.links.hasten(link, index, at);
        self.count_tokens((answered, lost));
    }

    /// A packet of a message came by this link: from now on its tokens are paced there. Without
    /// memory it stays where it was.
    #[inline]
    pub(super) fn move_to(&mut self, at: At, index: u32) {
        if self.ins.get(index).is_some_and(|it| it.link != at.link) {
            self.moved(at, index);
        }
    }

    #[cold]
    fn moved(&mut self, at: At, index: u32) {
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        if !self.links.reserve(at.link, index) {
            return;
        }
        self.links.leave(message.link, index);
        self.links.join(at.link);
        message.link = at.link;
        // Its rate is a share of another link's.
        let speed = self.links.speed(at.link);
        hasten(at.now, message, speed);
        self.schedule(at.now, index);
    }
}

/// Whether it goes by its sender's word that others have tokens there. The papers' feedback does
/// not.
fn shares_link<I>(config: &Resolved, message: &In<I>) -> bool {
    message.shares_link() && config.feedback == Feedback::Ranked
}

/// The message's rate may be a higher one since: its next token is due within its interval of now.
fn hasten<I>(now: Nanos, message: &mut In<I>, speed: &Speed) {
    let wire_len = token_wire_len(&message.from, message.sealed);
    let interval = message.interval(message.credit.interval(speed, wire_len));
    message.due.hasten(now, interval);
    let latest = message.due.at() + Nanos(interval / NANO);
    message.next_token = message.next_token.min(latest);
}
