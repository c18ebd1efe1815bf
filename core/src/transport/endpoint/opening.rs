// SPDX-License-Identifier: GPL-2.0
//! How messages begin to come in, and the bound on half-open ones.

use super::*;
use crate::transport::feedback::Credit;
use crate::transport::host::{Failure, Refusal};
use crate::transport::incoming::many_are_silent;
use crate::transport::wire::Sync;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    // Not inlined, so that what it needs of the stack is not needed for each packet.
    #[inline(never)]
    pub(super) fn on_sync<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        sync: &Sync,
        host: &mut H,
    ) {
        self.stats.count(Counter::SyncReceived);
        if let Ok(index) = self.find_in(sync.cookie, from) {
            self.stats.count(Counter::SyncRepeated);
            self.move_to(at, index);
            return self.on_sync_again(at.now, index, sync, host);
        }
        let hash = self.hash(sync.cookie);
        if let Some(length) = self.remembered.length(hash, sync.cookie, from) {
            self.stats.count(Counter::SyncRepeated);
            return self.old_ack(from, sync.cookie, length, host);
        }
        if sync.probe {
            return self.reset(at.now, from, sync.cookie, ResetCode::Unknown, host);
        }
        let address = self.hash_address(from);
        let peer = self.peers.find(address, from);
        let of_peer = peer.and_then(|peer| self.peers.all.get(peer));
        let under_way = self.ins.len();
        let to_remember = self.remembered.len().saturating_add(under_way);
        let refused = if under_way >= self.config.max_incoming {
            Some((Counter::SyncLimitIncoming, Limit::Incoming))
        } else if of_peer.is_some_and(|peer| peer.incoming >= self.config.max_per_peer) {
            Some((Counter::SyncLimitPeer, Limit::PerPeer))
        } else if to_remember >= self.config.max_remembered {
            Some((Counter::SyncLimitRemembered, Limit::Remembered))
        } else {
            None
        };
        if let Some((counter, limit)) = refused {
            self.stats.count(counter);
            return self.limit(at.now, limit, host);
        }
        while self.half_len >= self.config.max_half_open {
            self.limit(at.now, Limit::HalfOpen, host);
            if !self.drop_half_open(at.now, host) {
                break;
            }
        }
        let Some((index, peer)) = self.room_for_in(from, at.link) else {
            self.stats.count(Counter::SyncNoMemory);
            return self.limit(at.now, Limit::Memory, host);
        };
        let opened = host.open(from, sync, self.in_id(index));
        let (user, window) = match opened {
            Ok(opened) => opened,
            Err(refusal) => {
                self.peers.tidy(peer);
                self.stats.count(Counter::SyncRefused);
                if let Refusal::Reset(code) = refusal {
                    self.reset(at.now, from, sync.cookie, code, host);
                }
                return;
            }
        };
        self.begin(at, from, sync, (index, peer), (user, window), host);
    }

    /// Reserves memory for another message from this peer, also for remembering it later. Returns
    /// the indices of message and peer.
    fn room_for_in(&mut self, from: &Address, link: u32) -> Option<(u32, u32)> {
        if !self.is_prepared() {
            return None;
        }
        let (index, _) = self.ins.vacant()?;
        let remembered = self.remembered.len().saturating_add(self.ins.len());
        let fits = self.in_index.reserve(index)
            && self.in_timers.reserve(index)
            && self.links.reserve(link, index)
            && self.half_open.reserve(self.half_len, || 0)
            && self.remembered.reserve(remembered.saturating_add(1));
        if !fits {
            return None;
        }
        let hash = self.hash_address(from);
        Some((index, self.peers.get(hash, from)?))
    }

    fn begin<H: Host<O, I>>(
        &mut self,
        At { now, link, .. }: At,
        from: &Address,
        sync: &Sync,
        (index, peer): (u32, u32),
        (user, window): (I, u32),
        host: &mut H,
    ) {
        let number = self.next_number();
        let credit = Credit::new(&self.config);
        let (rtt, rto, timeout) = (self.config.base_rtt, self.config.rto, self.config.timeout);
        // Unscheduled packets follow the SYNC at once, and a port queues at most one of them. So
        // they have arrived a quarter of a round trip after the link could have carried them,
        // headers included, or are lost.
        let whole = sync.unscheduled.saturating_add(sync.unscheduled / 8);
        let until = now + Nanos(rtt.0 / 4) + self.links.speed(link).link_rate.duration(whole);
        // Without memory the message counts as having no coflow.
        let coflow = (sync.coflow != 0)
            .then(|| (mix(u64::from(sync.coflow) ^ self.seed) >> 32) as u32)
            .and_then(|hash| self.coflows.join(hash, sync.coflow));
        self.insert_in(
            user, number, peer, from, sync, window, now, rto, timeout, until, credit,
        );
        let mut narrow = false;
        if let Some(message) = self.ins.get_mut(index) {
            message.grant = sync.ren.then_some(now + rtt);
            message.coflow_entry = coflow;
            message.link = link;
            message.half_open = Some(self.half_len);
            narrow = message.window < message.length.unwrap_or(u32::MAX);
        }
        self.links.join(link);
        if let Some(place) = self.half_open.get_mut(self.half_len) {
            *place = index;
        }
        self.half_len = self.half_len.saturating_add(1);
        self.in_index.insert(self.hash(sync.cookie), index);
        if let Some(peer) = self.peers.all.get_mut(peer) {
            peer.incoming = peer.incoming.saturating_add(1);
        }
        self.note_progress(index);
        self.stats.count(Counter::InOpened);
        self.tell_in_opened(now, index, host);
        if narrow {
            self.in_ack(index, host);
        }
        self.schedule(now, index);
        self.arm(now, index);
    }

    /// Makes a message and puts it into the slab, in a function of its own: a message is large, and
    /// nothing else should share the stack with it.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)] // those of `In::new`
    fn insert_in(
        &mut self,
        user: I,
        number: u64,
        peer: u32,
        from: &Address,
        sync: &Sync,
        window: u32,
        now: Nanos,
        rto: Nanos,
        timeout: Nanos,
        until: Nanos,
        credit: Credit,
    ) {
        self.ins.insert(In::new(
            user, number, peer, from, sync, window, now, rto, timeout, until, credit,
        ));
    }

    /// Answers a SYNC of a message that is known: a probe, or a repetition because no answer has
    /// arrived yet.
    fn on_sync_again<H: Host<O, I>>(&mut self, now: Nanos, index: u32, sync: &Sync, host: &mut H) {
        let many_silent = many_are_silent(now, self.config.rto, self.asked);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        message.heard = now;
        if sync.probe {
            if many_silent {
                message.asked();
            } else {
                message.awake();
            }
            message.may_be_lost(now, self.config.base_rtt);
        }
        self.in_ack(index, host);
        self.schedule(now, index);
        self.arm(now, index);
    }

    /// Acknowledges the data that has arrived, and tells the window.
    pub(super) fn in_ack<H: Host<O, I>>(&mut self, index: u32, host: &mut H) {
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        message.told = message.window;
        message.acked = message.ranges.contiguous();
        let ack = Ack {
            cookie: message.cookie,
            received: message.acked,
            window: message.told,
            last: false,
        };
        self.stats.count(Counter::AckSent);
        signal(
            host,
            Owner::In(&message.user),
            &message.from,
            &Packet::Ack(ack),
        );
    }

    /// Whether so many messages are half open that each gets fewer tokens.
    pub(super) fn is_crowded(&self) -> bool {
        self.half_len > self.config.max_half_open / 4
    }

    fn drop_half_open<H: Host<O, I>>(&mut self, now: Nanos, host: &mut H) -> bool {
        // The high bits of a product: uniform, but for a negligible bias.
        let place = (host.random() >> 32).wrapping_mul(self.half_len.into()) >> 32;
        let place = u32::try_from(place).unwrap_or(0);
        let Some(&index) = self.half_open.get(place) else {
            return false;
        };
        let before = self.half_len;
        self.in_failed(now, index, Failure::Crowded, host);
        self.half_len < before
    }

    /// A message is half open no longer: something else than a SYNC has come, or it ends.
    pub(super) fn no_longer_half_open(&mut self, index: u32) {
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let Some(place) = message.half_open.take() else {
            return;
        };
        // The last one takes its place.
        self.half_len = self.half_len.saturating_sub(1);
        let Some(&last) = self.half_open.get(self.half_len) else {
            return;
        };
        if last != index {
            if let Some(slot) = self.half_open.get_mut(place) {
                *slot = last;
            }
            if let Some(message) = self.ins.get_mut(last) {
                message.half_open = Some(place);
            }
        }
    }
}
