// SPDX-License-Identifier: GPL-2.0
//! A port that has link and token group in common with others: see [`Common`].
//!
//! It queues, drops and counts as any port. What is different is who says what leaves: the port
//! makes an [`Offer`] of what is at the head of its bands, and sends what it is granted. A child of
//! the data band is asked for a packet in advance, so that its length is known when it is offered;
//! that one waits in the port's own queue.

use core::ops::DerefMut;

use super::common::{Claimed, Common, Grant, Head, Member, Offer, Token};
use super::line::{Backlogged, Slot};
use super::{Dequeue, Port};
use crate::port::config::Order;
use crate::queue::{Meta, Packet, Queue, Sink};
use crate::stats::add;
use crate::units::Nanos;

impl<Q: Queue> Port<Q> {
    /// From now on link and group are in common with others.
    pub fn join(&mut self) {
        self.member = true;
        self.link = None;
        self.settle(Self::NO_TIME);
        self.note_detour();
    }

    /// Has it link and group in common with others? Then [`Port::serve`] says what leaves.
    #[inline]
    pub fn is_member(&self) -> bool {
        self.member
    }

    /// Of a member: is the data band's child, if it has one, to be asked for a packet in advance?
    #[inline]
    pub fn wants_more(&self) -> bool {
        self.grafted && !self.backlogged.has(Backlogged::ALL_DATA)
    }

    /// That is this one. The child has given it away, and it counts as if the child had not had it.
    pub fn pull(&mut self, now: Nanos, packet: Q::Packet) {
        let meta = packet.meta();
        if self.is_fresh() {
            self.settle(now);
        }
        let line = self.line_mut(Slot::DATA);
        line.aside.child_returned(&meta);
        line.push(now, packet, &meta);
        self.backlogged.set(Slot::DATA.bit());
    }

    /// What a member gives now. `child` says how many packets the data band's child has, beside
    /// that which was [pulled](Port::pull); `claim` asks [`Common::claim`], and does what that says
    /// of timers.
    pub fn serve(
        &mut self,
        now: Nanos,
        child: u64,
        sink: &mut impl Sink<Q::Packet>,
        claim: impl FnOnce(&Offer) -> Claimed,
    ) -> Dequeue<Q::Packet> {
        if self.is_fresh() {
            self.settle(now);
        }
        self.drop_expired_heads(now, sink);
        if self.resolved.shaped {
            self.serve_shaped(now, child, claim)
        } else {
            self.serve_tokens(now, claim)
        }
    }

    /// [`Port::serve`] where all that leaves is charged to the link.
    fn serve_shaped(
        &mut self,
        now: Nanos,
        child: u64,
        claim: impl FnOnce(&Offer) -> Claimed,
    ) -> Dequeue<Q::Packet> {
        let offer = self.offer(child);
        if offer.is_empty() && !self.known {
            return Dequeue::Empty;
        }
        let claimed = self.ask(&offer, claim);
        let slot = match claimed.grant {
            Some(Grant::Signal) => Some(Slot::SIGNAL),
            Some(Grant::Token) => self.first_token(),
            Some(Grant::Data) => self.first_data(),
            Some(Grant::Unscheduled) => Some(Slot::UNSCHEDULED),
            None => None,
        };
        match slot.and_then(|slot| self.take_granted(now, slot)) {
            Some(dequeued) => dequeued,
            None if offer.is_empty() => Dequeue::Empty,
            None => {
                let rest = offer.signal.or(offer.data).or(offer.unscheduled);
                let waits = match rest {
                    Some(_) => &mut self.stats.link_waits,
                    None => &mut self.stats.token_waits,
                };
                add(waits, 1);
                Dequeue::Wait(claimed.wait)
            }
        }
    }

    /// [`Port::serve`] where only tokens are charged to something: what leaves beside them is as in
    /// any port.
    fn serve_tokens(
        &mut self,
        now: Nanos,
        claim: impl FnOnce(&Offer) -> Claimed,
    ) -> Dequeue<Q::Packet> {
        if let Some(signal) = self.take_granted(now, Slot::SIGNAL) {
            return signal;
        }
        let mut wait = None;
        if self.backlogged.tokens() || self.known {
            let data = self.first_data();
            match data.filter(|_| self.order == Order::DataFirst && !self.passed) {
                Some(slot) => {
                    self.passed = self.backlogged.tokens() && self.group.ready(now);
                    if let Some(data) = self.take_granted(now, slot) {
                        return data;
                    }
                }
                None => {
                    let offer = Offer {
                        token: self.token(),
                        since: self.group.next(),
                        ..Offer::default()
                    };
                    let claimed = self.ask(&offer, claim);
                    let slot = claimed.grant.and_then(|_| self.first_token());
                    if let Some(token) = slot.and_then(|slot| self.take_granted(now, slot)) {
                        let waits = self.backlogged.tokens() && self.group.ready(now);
                        self.passed = self.passed && waits;
                        return token;
                    }
                    wait = offer.token.map(|_| claimed.wait);
                    self.passed = false;
                }
            }
        }
        let rest = self.first_data().or(Some(Slot::UNSCHEDULED));
        if let Some(packet) = rest.and_then(|slot| self.take_granted(now, slot)) {
            return packet;
        }
        match wait {
            Some(time) => {
                add(&mut self.stats.token_waits, 1);
                Dequeue::Wait(time)
            }
            None => Dequeue::Empty,
        }
    }

    /// Asks, and notes what is known by that.
    fn ask(&mut self, offer: &Offer, claim: impl FnOnce(&Offer) -> Claimed) -> Claimed {
        let claimed = claim(offer);
        self.known = claimed.known;
        // How late the group is, is asked where tokens come in.
        self.group.mirror(claimed.next);
        if claimed.forfeited != Nanos::ZERO {
            self.note_forfeit(claimed.forfeited);
        }
        claimed
    }

    /// What is at the head of the bands.
    fn offer(&self, child: u64) -> Offer {
        Offer {
            signal: self.head(Slot::SIGNAL, false),
            token: self.token(),
            since: self.group.next(),
            data: self.first_data().and_then(|slot| {
                let other = slot == Slot::EARLY && self.backlogged.has(Slot::DATA.bit());
                self.head(slot, other || child != 0)
            }),
            unscheduled: self.head(Slot::UNSCHEDULED, false),
        }
    }

    /// The head of a queue, if it has one. `more`: there is more behind it than that queue has.
    fn head(&self, slot: Slot, more: bool) -> Option<Head> {
        if !self.backlogged.has(slot.bit()) {
            return None;
        }
        let line = &self.lines[slot.index()];
        let Meta { wire_len, segs, .. } = line.queue.front()?;
        Some(Head {
            wire_len,
            more: more || line.queued().packets > segs.into(),
        })
    }

    /// The token that goes first.
    fn token(&self) -> Option<Token> {
        let slot = self.first_token()?;
        let line = &self.lines[slot.index()];
        let Meta { wire_len, segs, .. } = line.queue.front()?;
        let mut others = self.backlogged.queues();
        if line.queued().packets <= segs.into() {
            others.clear(slot.bit());
        }
        Some(Token {
            priority: slot.priority() as u8,
            wire_len,
            segs,
            then: others.token().map(|slot| slot.priority() as u8),
        })
    }

    fn first_token(&self) -> Option<Slot> {
        self.backlogged.token()
    }

    fn first_data(&self) -> Option<Slot> {
        [Slot::EARLY, Slot::DATA]
            .into_iter()
            .find(|slot| self.backlogged.has(slot.bit()))
    }

    /// The head of a queue leaves, if it has one.
    fn take_granted(&mut self, now: Nanos, slot: Slot) -> Option<Dequeue<Q::Packet>> {
        let line = &mut self.lines[slot.index()];
        let meta = line.queue.front()?;
        let packet = line.take_head(&meta)?;
        line.waited(now - meta.enqueued, &meta);
        if line.queue.is_empty() {
            self.backlogged.clear(slot.bit());
        }
        Some(Dequeue::Packet(packet, slot.band()))
    }

    /// Drops tokens that have expired, as long as one goes first.
    fn drop_expired_heads(&mut self, now: Nanos, sink: &mut impl Sink<Q::Packet>) {
        while let Some(slot) = self.first_token() {
            let head = self.lines[slot.index()].queue.front();
            match head {
                Some(head) if now - head.enqueued > self.expiry => {
                    self.drop_expired(now, slot, sink);
                }
                Some(_) => return,
                // Not so: the bit says that there is one.
                None => self.backlogged.clear(slot.bit()),
            }
        }
    }

    /// [`Port::give_way`] for a member.
    #[inline(never)]
    pub fn give_way_with<M: DerefMut<Target = [Member]>>(
        &mut self,
        now: Nanos,
        owed: u32,
        slot: Slot,
        common: &mut Common<M>,
    ) -> u32 {
        common.give_way(now, owed, self.is_high(slot))
    }

    /// [`Port::pay`] for a member.
    pub fn pay_with<M: DerefMut<Target = [Member]>>(
        &mut self,
        now: Nanos,
        meta: &Meta,
        kept: impl FnOnce() -> bool,
        common: &mut Common<M>,
    ) -> Slot {
        if self.signals.try_pay(meta.wire_len) {
            return Slot::SIGNAL;
        }
        match common.buy(now, meta.wire_len, kept) {
            Some(more) => {
                self.signals.credit(more);
                Slot::SIGNAL
            }
            None => {
                add(&mut self.stats.signal_excess, meta.segs);
                Slot::UNASKED
            }
        }
    }
}
