// SPDX-License-Identifier: GPL-2.0
//! How messages begin to come in, and the bound on half-open ones.

use super::sending::base_payload;
use super::timing::in_order;
use super::trust::{net, Proof};
use super::*;
use crate::transport::allowance::UNIT;
use crate::transport::config::{Policy, Unscheduled};
use crate::transport::feedback::Credit;
use crate::transport::host::{Failure, Refusal, Sender};
use crate::transport::wire::{Sync, SYNC_LEN};
use crate::units::Rate;

/// A message comes soon if the link carries it in so many round trips.
const SOON: u32 = 4;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// `alone`: its data has not come with it, and what is next is to be seen to.
    // Not inlined, so that what it needs of the stack is not needed for each packet.
    #[inline(never)]
    pub(super) fn on_sync<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        sync: &Sync,
        alone: bool,
        host: &mut H,
    ) {
        self.stats.count(Counter::SyncReceived);
        let hash = self.hash_in(sync.cookie, from);
        let (mut shown, mut first) = (None, None);
        if let Some(index) = self.look_up_in(hash, sync.cookie, from) {
            self.stats.count(Counter::SyncRepeated);
            let (other, differs) = self.is_in_doubt(index, sync);
            let proof = match differs {
                true => self.proof(at.now, from, sync),
                false => Proof::None,
            };
            if differs && proof == Proof::None {
                return self.challenge_stranger(at, from, sync, host);
            }
            if !other {
                self.move_to(at, index);
                return self.on_sync_again(at.now, index, sync, host);
            }
            // Whom the forged one's tokens were sent to takes the right one's for new if they
            // follow them.
            first = self.ins.get(index).map(|it| it.ledger.next());
            let why = Failure::Reset(ResetCode::Unknown);
            self.in_failed(at.now, index, why, host);
            shown = Some(proof);
        }
        if let Some(length) = self.remembered.length(hash, sync.cookie, from) {
            self.stats.count(Counter::SyncRepeated);
            return self.old_ack(from, sync.cookie, length, host);
        }
        if sync.probe && shown.is_none() {
            let (what, code) = (Kind::Incoming, ResetCode::Unknown);
            return self.reset(at, from, what, sync.cookie, code, host);
        }
        let peer = self.peers.find(&self.key, from);
        let (incoming, half_open) = peer
            .and_then(|peer| self.peers.all.get(peer))
            .map_or((0, 0), |peer| (peer.incoming, u32::from(peer.half_open)));
        let under_way = self.ins.len();
        let proof = shown.unwrap_or_else(|| self.proof(at.now, from, sync));
        let to_remember = self.remembered.len().saturating_add(under_way);
        let most = self.config.max_remembered;
        // Others' forged ones take nothing of what those get that can show who they are.
        let mine = match proof {
            Proof::None => incoming,
            _ => incoming.saturating_sub(half_open),
        };
        let has_share = self.remembered.has_share(&self.key, from, mine, most);
        let refused = if !self.has_place(from, proof) {
            Some((Counter::SyncLimitIncoming, Limit::Incoming))
        } else if incoming >= self.config.max_per_peer {
            Some((Counter::SyncLimitPeer, Limit::PerPeer))
        } else if to_remember >= most {
            Some((Counter::SyncLimitRemembered, Limit::Remembered))
        } else if proof != Proof::None && !has_share {
            Some((Counter::SyncLimitShare, Limit::Remembered))
        } else {
            None
        };
        if let Some((counter, limit)) = refused {
            self.stats.count(counter);
            return self.limit(at.now, limit, host);
        }
        if proof == Proof::None && (self.is_half_open_enough(half_open) || !has_share) {
            // Whoever it is in truth keeps nobody out who can answer.
            self.limit(at.now, Limit::HalfOpen, host);
            self.stats.count(Counter::HalfOpenChallenged);
            return self.challenge_stranger(at, from, sync, host);
        }
        let Some((index, peer)) = self.room_for_in(at, from) else {
            self.stats.count(Counter::SyncNoMemory);
            return self.limit(at.now, Limit::Memory, host);
        };
        let wished = (sync.ren, sync.priority);
        let sync = &self.granted(sync);
        if wished != (sync.ren, sync.priority) {
            self.stats.count(Counter::SyncWishIgnored);
        }
        // A sealed one may be an old one that somebody sends again, whatever it shows.
        let proved = proof != Proof::None && !self.current.is_some();
        let sender = Sender {
            proved,
            stalled: self.stalled_before(at.now, from),
        };
        let opened = host.open(from, sync, self.in_id(index), sender);
        let (user, window) = match opened {
            Ok(opened) => opened,
            Err(refusal) => {
                self.peers.tidy(at.now, peer, &self.key);
                self.stats.count(Counter::SyncRefused);
                if let Refusal::Reset(code) = refusal {
                    let what = match proof {
                        Proof::None => Kind::Stranger,
                        _ => Kind::Known,
                    };
                    self.reset(at, from, what, sync.cookie, code, host);
                }
                return;
            }
        };
        let opened = (user, window, proof, first, wished);
        self.begin(at, from, sync, (index, peer, hash), opened, host);
        if alone {
            self.ask_for_early(at.now, (index, peer), sync.cookie, host);
            self.schedule(at.now, index);
            self.arm(at.now, index);
        }
    }

    /// A message has begun of which data came before, and was not kept: asks for that. Not one
    /// whose sender has not shown its address, nor what a sender paces.
    fn ask_for_early<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        (index, peer): (u32, u32),
        cookie: Cookie,
        host: &mut H,
    ) {
        let Some((end, bytes)) = self.early.take(peer, cookie) else {
            return;
        };
        let message = self.ins.get_mut(index);
        let message = message.filter(|it| it.is_believed() && !it.ren && !it.paced);
        if let Some(spans) = message.and_then(|it| it.was_overtaken(now, end, bytes)) {
            self.send_resend(now, index, spans, host);
        }
    }

    /// Whether a SYNC is of another message than the one that a message began with, or differs in
    /// anything: then one of the two is forged, and who shows its address first is right.
    fn is_in_doubt(&self, index: u32, sync: &Sync) -> (bool, bool) {
        let message = self.ins.get(index).filter(|it| !it.sure);
        message.map_or((false, false), |it| it.differs(sync))
    }

    /// How many more messages may come in.
    fn places(&self) -> u32 {
        self.config.max_incoming.saturating_sub(self.ins.len())
    }

    /// Whether another message may come in from there. Of those that have proved where they come
    /// from a network may have four times as many as there are places left: alone four fifths of
    /// all, and there is always one left for others.
    fn has_place(&self, from: &Address, proof: Proof) -> bool {
        match proof {
            Proof::None => self.places() != 0,
            _ => self.in_nets.count(&self.key, net(from)) < self.places().saturating_mul(4),
        }
    }

    /// Whether so many messages are half open, of one address or in all, that there are no more.
    /// They never take more than half of the places that others have left, nor all of the room that
    /// is made ahead; and of one address's places a quarter.
    fn is_half_open_enough(&self, of_peer: u32) -> bool {
        let most = self.most_half_open();
        let all = self.config.max_per_peer;
        let of_each = (most.min(all) / 4).max(1).min(all / 2);
        self.half_open >= most.min(self.places()) || of_peer >= of_each || self.is_room_scarce()
    }

    /// How many messages of strangers there may be: they do not take all places of others.
    fn most_half_open(&self) -> u32 {
        let others = self.config.max_incoming.min(self.config.max_remembered);
        self.config.max_half_open.min(others / 2)
    }

    /// A SYNC without what its sender may not choose here.
    fn granted(&self, sync: &Sync) -> Sync {
        let mut sync = *sync;
        sync.ren &= self.config.policy == Policy::Ren;
        sync.priority = sync.priority.filter(|_| self.config.sender_priority);
        sync
    }

    /// Reserves memory for another message from this peer, also for remembering it later. Returns
    /// the indices of message and peer.
    fn room_for_in(&mut self, at: At, from: &Address) -> Option<(u32, u32)> {
        if self.ahead.is_some() {
            self.peers.make_room();
        }
        if !self.is_prepared() {
            return None;
        }
        let (index, _) = self.ins.vacant()?;
        let remembered = self.remembered.len().saturating_add(self.ins.len());
        let fits = self.in_index.reserve(index)
            && self.in_timers.reserve(index)
            && self.in_nets.reserve(index)
            && self.links.reserve(at.link, index)
            && self.remembered.reserve(remembered.saturating_add(1))
            && self.room_for_sealed(index);
        if !fits {
            return None;
        }
        Some((index, self.peers.get(at.now, &self.key, from)?))
    }

    fn begin<H: Host<O, I>>(
        &mut self,
        At { now, link, .. }: At,
        from: &Address,
        sync: &Sync,
        (index, peer, hash): (u32, u32, u32),
        (user, window, proof, first, wished): (I, u32, Proof, Option<u16>, (bool, Option<u8>)),
        host: &mut H,
    ) {
        let number = self.next_number();
        let credit = Credit::new(&self.config);
        let rtt = self.config.base_rtt;
        let times = (rtt, self.config.rto, self.config.timeout);
        // Unscheduled packets follow the SYNC at once. So they have arrived soon after the link
        // could have carried them, headers included, or are lost.
        let whole = sync.unscheduled.saturating_add(sync.unscheduled / 8);
        let rate = self.links.speed(link).link_rate;
        let until = now + self.unscheduled_late(rate) + rate.duration(whole);
        let first = first.unwrap_or_else(|| self.secret(number, sync.cookie, from) as u16);
        self.insert_in(
            user, number, peer, from, sync, window, now, times, until, credit, first,
        );
        self.begin_sealed(index, from, host);
        let free = self.free_bytes(sync, from, link);
        let half_open = proof == Proof::None;
        let mut narrow = false;
        if let Some(message) = self.ins.get_mut(index) {
            message.grant = sync.ren.then_some(now + rtt).into();
            message.set_calm(self.peers.is_calm(now, peer));
            message.trip = self.peers.trip(peer).unwrap_or(Nanos::MAX);
            // On a way that is far longer than `base-rtt` all of its tokens would be late at first.
            if let Some(far) = self.peers.former_trip(peer).filter(|it| *it > rtt + rtt) {
                (message.trip, message.rtt) = (far, Maybe::some(far));
                message.expect_until(now + far);
            }
            message.link = link;
            message.half_open = half_open;
            message.sure = !half_open || message.sealed;
            message.wished = wished;
            message.ticketed = proof == Proof::Ticket;
            message.echoed = proof == Proof::Echo;
            // A sealed SYNC may be an old one that somebody sends again.
            message.proven = !half_open && message.fresh;
            message.announce(free);
            let whole = message.length.unwrap_or(u32::MAX);
            // Nothing else tells a sender that waits for no tokens that it may go on.
            let waits = free < whole || sync.unscheduled == 0;
            narrow = message.window < whole || message.paced && message.proven && waits;
        }
        if self.ins.get(index).is_some_and(|message| message.proven) {
            // What its sender has announced is about to come.
            self.links.unasked(link, now);
        }
        self.count_proven(index);
        self.links.join(link);
        self.half_open = self.half_open.saturating_add(half_open.into());
        if matches!(proof, Proof::Ticket | Proof::OldTicket) {
            self.bound(now, index);
        }
        self.credit(now, index, from, SYNC_LEN as u32);
        if !half_open {
            // It counts among those that send.
            self.allow(now, index);
        }
        self.in_index.insert(hash, index);
        self.last_in.set(index);
        if let Some(peer) = self.peers.all.get_mut(peer) {
            peer.incoming = peer.incoming.saturating_add(1);
            peer.half_open = peer.half_open.saturating_add(half_open.into());
        }
        self.note_progress(index);
        self.stats.count(Counter::InOpened);
        if host.listens() {
            self.tell_in_opened(now, index, host);
        }
        if self.ins.get(index).is_some_and(|message| message.proven) {
            self.give_ticket(now, index, host);
        }
        if narrow {
            self.in_ack(now, index, host);
        }
        if self.is_asked_at_once(index, link) {
            // Before its tokens, so that the answer comes before the data.
            self.challenge(now, index, host);
        }
    }

    /// Whether a stranger is asked for a SYNC that shows its address before anything else of its
    /// message comes: there is no window for that, or all of it comes in a few round trips, or may,
    /// at the end of which nobody should have to wait for the answer.
    fn is_asked_at_once(&self, index: u32, link: u32) -> bool {
        let Some(message) = self.ins.get(index).filter(|message| !message.sure) else {
            return false;
        };
        let soon = self.config.base_bytes(self.links.speed(link));
        let soon = soon.saturating_mul(SOON);
        let short = message.length.is_none_or(|length| length <= soon);
        // No token shows the address of one that wants none.
        message.window == 0 || short || message.paced
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
        times: (Nanos, Nanos, Nanos),
        until: Nanos,
        credit: Credit,
        first: u16,
    ) {
        self.ins.insert_with(|| {
            In::new(
                user, number, peer, from, sync, window, now, times, until, credit, first,
            )
        });
    }

    /// How late unscheduled packets may be: a port queues at most one of those that go after all
    /// else, but those that a receiver allows wait with data.
    fn unscheduled_late(&self, rate: Rate) -> Nanos {
        match self.config.unscheduled {
            Unscheduled::Packets(_) => Nanos(self.config.base_rtt.0 / 4),
            Unscheduled::Auto => {
                self.config.base_rtt + rate.duration(self.config.unscheduled_buffer)
            }
        }
    }

    /// What a message's peer may send without tokens from now on, in units of 64 bytes on the wire.
    /// Nobody else's part shrinks for one that has not proved its address.
    pub(super) fn allow(&mut self, now: Nanos, index: u32) -> u16 {
        let Some(message) = self.ins.get(index).filter(|it| !it.half_open) else {
            return 0;
        };
        if self.config.unscheduled != Unscheduled::Auto {
            return 0;
        }
        let most = self.config.base_bytes(self.links.speed(message.link));
        let budget = self.config.unscheduled_buffer;
        let bytes = self
            .peers
            .allowances
            .promise(now, message.peer, budget, most);
        u16::try_from(bytes / UNIT).unwrap_or(u16::MAX)
    }

    /// How many bytes of a message may come without tokens: what its sender announces, and would
    /// send by the options here. With REN that is what the link carries in a round trip.
    fn free_bytes(&self, sync: &Sync, from: &Address, link: u32) -> u32 {
        if sync.ren || sync.paced {
            let speed = self.links.speed(link);
            return base_payload(self.config.base_bytes(speed), sync.mss.into(), from);
        }
        let most = match self.config.unscheduled {
            Unscheduled::Packets(packets) => packets.saturating_mul(sync.mss.into()),
            Unscheduled::Auto => self.config.base_bytes(self.links.speed(link)),
        };
        sync.unscheduled.min(most)
    }

    /// Answers a SYNC of a message that is known: a probe, or a repetition because no answer has
    /// arrived yet.
    fn on_sync_again<H: Host<O, I>>(&mut self, now: Nanos, index: u32, sync: &Sync, host: &mut H) {
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        message.heard = now;
        message.may_be_written(false);
        let from = message.from;
        // That of a sealed one counts when it is opened.
        let (proven, link) = (message.proven, message.link);
        self.credit(now, index, &from, SYNC_LEN as u32);
        let message = self.ins.get(index);
        let strange = message.is_some_and(|it| it.is_bounded() && !it.sealed || !it.sure);
        let shown = if strange {
            self.proof(now, &from, sync)
        } else {
            Proof::None
        };
        if let Some(message) = self.ins.get_mut(index) {
            // What shows that a sealed one is new shows that it echoes one.
            message.echoed |= shown == Proof::Echo || message.sealed && sync.echo != 0;
        }
        match shown {
            Proof::Ticket | Proof::OldTicket if !proven => self.bound(now, index),
            Proof::Echo => self.shown(now, index),
            _ => {}
        }
        let mut first = false;
        let lost = sync.acked && self.ins.get(index).is_some_and(|it| it.acked == 0);
        if lost && (shown != Proof::None || self.proof(now, &from, sync) != Proof::None) {
            // It was acknowledged before the endpoint forgot it: what began it here is old.
            self.tell_sender_reset(index, ResetCode::Unknown, host);
            return self.in_failed(now, index, Failure::Reset(ResetCode::Unknown), host);
        }
        if shown != Proof::None {
            let announced = self.free_bytes(&self.granted(sync), &from, link);
            let message = self.ins.get_mut(index);
            first = message.is_some_and(|it| it.correct(now, sync, announced));
            let ended = match proven {
                true => first && self.hand_over(now, index, host),
                false => self.believe(now, index, host),
            };
            if ended {
                return;
            }
        }
        self.challenge_again(now, index, host);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let (proven, believed) = (message.proven, message.is_believed());
        // For one that has shown it there was no memory: it shows it again with the next SYNC.
        if !believed && shown == Proof::None && !(message.sealed && message.fresh) {
            self.challenge(now, index, host);
        }
        if !proven {
            self.schedule(now, index);
            return self.arm(now, index);
        }
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        // One that was asked for is no question about data that may be lost.
        if sync.probe && !first {
            let base = self.config.base_rtt;
            let lag = self.peers.lag(now, message.peer);
            message.may_be_lost(now, base, lag);
            self.probed(now, index);
        }
        self.in_ack(now, index, host);
        self.schedule(now, index);
        self.arm(now, index);
    }

    /// The sender asks whether its data has come. Where many are silent that says nothing.
    fn probed(&mut self, now: Nanos, index: u32) {
        let rto = self.config.rto;
        let message = self.ins.get_mut(index);
        let Some((message, order)) = in_order(message, &mut self.turns, &mut self.peers) else {
            return;
        };
        if order.are_many(now, rto) {
            message.asked();
        } else {
            self.give_turn_back(index);
            if let Some(message) = self.ins.get_mut(index) {
                message.awake();
            }
        }
    }

    /// Acknowledges the data that has arrived, and tells the window.
    pub(super) fn in_ack<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let allowance = self.allow(now, index);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        let closed = message.missing() == 0;
        message.told = message.window;
        if message.ren && closed && message.missing() != 0 {
            message.grant = Maybe::some(Nanos(0));
        }
        // What came may be forged as long as nobody knows whose it is, or to another port: the
        // right bytes may have to come once more.
        message.acked = match message.is_believed() {
            true => message.ranges.contiguous(),
            false => 0,
        };
        let (mark, notify) = message.take_mark();
        let ack = Ack {
            cookie: message.cookie,
            received: message.acked,
            window: message.told,
            allowance,
            last: false,
            mark,
            notify,
        };
        if self.send_back(index, Class::Signal, &Packet::Ack(ack), host) {
            self.stats.count(Counter::AckSent);
            if notify {
                self.stats.count(Counter::NotifySent);
            }
        }
    }

    /// Whether so many messages are half open that each gets fewer tokens.
    pub(super) fn is_crowded(&self) -> bool {
        self.half_open > self.most_half_open() / 4
    }
}
