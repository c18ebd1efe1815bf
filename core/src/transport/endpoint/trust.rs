// SPDX-License-Identifier: GPL-2.0
//! Which messages an endpoint believes to be of the address that their packets come from.
//!
//! Anybody can send a packet with another's address. So a message is a *stranger's* until something
//! of it has come that only its sender's address could have received: the answer to a token, whose
//! number and timestamp are secret ([`Endpoint::stamp`]); a SYNC that echoes a CHALLENGE; a SYNC
//! with a *ticket*. All that is sent because of a stranger's message passes
//! [`Endpoint::send_back`], which sends at most three times the bytes that came of it (as RFC 9000,
//! section 8); and nothing of it is delivered or remembered. Nor is it before a SYNC has shown the
//! address ([`In::is_believed`]): the answer to a token says nothing of the length and the ports
//! that the message began with.
//!
//! A ticket (as the token of RFC 9000, section 8.1.3, and the cookie of RFC 7413) is sent to each
//! sender that has proved its address and showed none. The sender keeps it, and shows it in the
//! SYNCs of later messages. The receiver keeps nothing: it can work out which ticket an address
//! has. So one message's proof is no proof for what else comes in the name of the same address. A
//! receiver is given a ticket as well, when it has answered: it may want to send something back.
//! Until something answers what is sent because of a ticket, it is bounded ([`Endpoint::bound`]):
//! the address may be another host's by now. So it is once more when something comes of a message
//! whose sender has shown nothing for [`GONE`].

use super::*;
use crate::header::{FLAG_UNASKED, FLAG_UNSCHEDULED};
use crate::transport::net::Net;
use crate::transport::wire::{Challenge, Data, Fin, Sync, Token, PATIENCE_UNIT};

/// A CHALLENGE is of a time of 2^33 ns, 8.6 s, and is right in the one after, too.
const EPOCH_BITS: u32 = 33;
/// So long at most.
pub(super) const ECHO_KEPT: Nanos = Nanos(2 << EPOCH_BITS);
/// A ticket is of a time of 2^38 ns, 275 s, and is right in the one after, too.
pub(super) const TICKET_BITS: u32 = 38;
/// So long any ticket is right after it was sent.
pub(super) const TICKET_KEPT: Nanos = Nanos(1 << TICKET_BITS);
/// Bits of a secret timestamp that are a hash.
const STAMP_BITS: u32 = 28;
/// So many answers to tokens show that who has a ticket sees what is sent to its address. They have
/// numbers of 16 bits, some 200 of which are awaited at once: of 64 guesses one is right for each
/// twentieth message, and four for one of 20 000.
pub(super) const ANSWERS: u8 = 4;
/// After so many wrong answers to tokens no answer proves anything, only an echo does.
pub(super) const GUESSES: u8 = 64;
/// So many bytes of IP packets are sent for the first message with a ticket of an address, until
/// something answers some of them; for the second half of it, for the third a third, and so on.
/// With what comes of it that is some 240 tokens over IPv4, and 170 over IPv6.
const TICKET_ROOM: u32 = 16 * 1024;
/// A sender that has not shown its address for so long may be gone: what answers tokens may be
/// guessed. It is asked once more, and until it has answered it is bounded as a stranger is.
const GONE: Nanos = Nanos(4 * Nanos::SECOND.0);
/// To an address that is not proved, at most so many times as much is sent as came from it.
const TIMES: u32 = 3;

/// What a SYNC shows of its sender's address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// Nothing.
    None,
    /// It has a ticket that will soon be too old.
    OldTicket,
    /// It has a ticket.
    Ticket,
    /// It echoes a CHALLENGE.
    Echo,
}

/// Bytes of IP and UDP headers.
#[inline]
pub(super) fn ip_len(address: &Address) -> u32 {
    if address.is_ipv4() {
        28
    } else {
        48
    }
}

/// Bytes by which a message's packets are longer for being sealed.
#[inline]
fn seal_len<I>(message: &In<I>) -> u32 {
    if message.sealed {
        SEAL_LEN as u32
    } else {
        0
    }
}

/// Of which time a ticket is that is given now.
fn time_of(now: Nanos) -> u64 {
    now.0 >> TICKET_BITS
}

/// The network that a sender counts to.
pub(super) fn net(from: &Address) -> Net {
    Net::of(from, 24, 48)
}

/// Whether another token may be sent to a message's sender. To a stranger a CHALLENGE may
/// always follow: tokens get lost where many meet, and signals do not.
pub(super) fn may_have_token<I>(message: &In<I>) -> bool {
    let token = wire::TOKEN_LEN as u32;
    let with_challenge = token.saturating_add(wire::CHALLENGE_LEN as u32);
    let each = ip_len(&message.from).saturating_add(seal_len(message));
    let bytes = with_challenge.saturating_add(each.saturating_mul(2));
    !message.is_bounded() || bytes <= message.room
}

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// A packet of an incoming message came.
    pub(super) fn credit(&mut self, now: Nanos, index: u32, from: &Address, packet: u32) {
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        if !message.is_bounded() {
            if now - message.there < GONE || message.sealed {
                return;
            }
            message.gone = true;
            message.room = 0;
        }
        let bytes = packet
            .saturating_add(ip_len(from))
            .saturating_add(seal_len(message));
        // What does not fit is lost, and the next byte counts again.
        message.room = message.room.saturating_add(bytes.saturating_mul(TIMES));
    }

    /// More of a packet counts than has been [credited](Self::credit).
    pub(super) fn credit_more(&mut self, index: u32, bytes: u32) {
        let message = self.ins.get_mut(index).filter(|it| it.is_bounded());
        if let Some(message) = message {
            message.room = message.room.saturating_add(bytes.saturating_mul(TIMES));
        }
    }

    /// Sends a packet to the sender of an incoming message, unless it is a stranger that has been
    /// sent enough. Returns whether it was sent.
    pub(super) fn send_back<H: Host<O, I>>(
        &mut self,
        index: u32,
        class: Class,
        packet: &Packet,
        host: &mut H,
    ) -> bool {
        let Some(message) = self.ins.get_mut(index) else {
            return false;
        };
        if message.is_bounded() {
            let bytes = packet
                .bytes()
                .saturating_add(ip_len(&message.from))
                .saturating_add(seal_len(message));
            let Some(left) = message.room.checked_sub(bytes) else {
                self.stats.count(Counter::Unproven);
                return false;
            };
            message.room = left;
        }
        self.signal_back(index, class, packet, host)
    }

    /// A message's sender has proved its address. If a SYNC has done that the user may have what
    /// has come; `true`: that was all, and the message has ended.
    pub(super) fn believe<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) -> bool {
        let id = self.in_id(index);
        let Some(message) = self.ins.get_mut(index) else {
            return true;
        };
        if message.proven || !message.fresh || !host.in_proven(id, &mut message.user) {
            return false;
        }
        message.proven = true;
        self.give_turn_back(index);
        let Some(message) = self.ins.get_mut(index) else {
            return true;
        };
        if core::mem::take(&mut message.half_open) {
            self.half_open = self.half_open.saturating_sub(1);
            if let Some(peer) = self.peers.all.get_mut(message.peer) {
                peer.half_open = peer.half_open.saturating_sub(1);
            }
        }
        self.stats.count(Counter::SenderProven);
        self.give_ticket(now, index, host);
        self.count_proven(index);
        self.note_progress(index);
        if self.ins.get(index).is_some_and(|message| !message.sure) {
            // Only the answer to a token has.
            self.challenge(now, index, host);
        }
        self.hand_over(now, index, host)
    }

    /// The user may have what has come of a message, if it is [believed](In::is_believed) now.
    /// `true`: that was all, and the message has ended.
    pub(super) fn hand_over<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        host: &mut H,
    ) -> bool {
        let id = self.in_id(index);
        let message = self.ins.get_mut(index).filter(|it| it.is_believed());
        let Some(message) = message else {
            return false;
        };
        let contiguous = message.ranges.contiguous();
        if contiguous != 0 {
            host.in_progress(id, &mut message.user, contiguous);
        }
        let complete = message.is_complete();
        if complete {
            self.in_done(now, index, host);
        }
        complete
    }

    /// All that is known of a message is that its SYNC had a ticket: whoever got that may be
    /// elsewhere by now, and its address another's. A message so begun may have some tokens at
    /// once, and the others of the same peer that nothing has answered yet take from it, or that
    /// ended so.
    pub(super) fn bound(&mut self, now: Nanos, index: u32) {
        let Some(from) = self.ins.get(index).map(|it| it.from) else {
            return;
        };
        let ended = match self.vain.is_empty() {
            true => 0,
            false => self.vain.count(time_of(now), self.vain_of(&from)),
        };
        let Some(message) = self.ins.get_mut(index).filter(|it| !it.unanswered) else {
            return;
        };
        message.unanswered = true;
        if let Some(peer) = self.peers.all.get_mut(message.peer) {
            peer.unanswered = peer.unanswered.saturating_add(1);
            let nth = ended.saturating_add(peer.unanswered.into());
            let room = TICKET_ROOM.checked_div(nth).unwrap_or(0);
            message.room = message.room.saturating_add(room);
        }
    }

    /// Where an address's messages are counted that ended unanswered.
    fn vain_of(&self, from: &Address) -> u64 {
        self.keyed(0, from, purpose::VAIN)
    }

    /// Where an incoming message's sender counts if it stalls: its address, and its /64 if it has
    /// one.
    fn stalls_of(&self, from: &Address) -> (u32, Option<u32>) {
        let host = Net::of(from, 32, 128).hash(&self.key);
        let net = (!from.is_ipv4()).then(|| Net::of(from, 32, 64).hash(&self.key));
        (host, net)
    }

    /// A message is given up because it did not go on.
    #[cold]
    pub(super) fn has_stalled(&mut self, now: Nanos, index: u32) {
        // Whoever else's name a stranger has is not to blame.
        let message = self.ins.get(index).filter(|it| it.proven);
        if let Some(from) = message.map(|it| it.from) {
            let (host, net) = self.stalls_of(&from);
            self.stalled.note_host(time_of(now), host, net);
        }
    }

    /// Whether a message of a sender was given up so some minutes ago, or less; or messages of
    /// several of its /64.
    pub(super) fn stalled_before(&self, now: Nanos, from: &Address) -> bool {
        if self.stalled.is_empty() {
            return false;
        }
        let (host, net) = self.stalls_of(from);
        self.stalled.has_host(time_of(now), host, net)
    }

    /// A message fails. If only a ticket has shown whose it is, and it drew tokens, it still
    /// counts.
    pub(super) fn ends_unanswered(&mut self, now: Nanos, index: u32) {
        let message = self.ins.get(index);
        let message = message.filter(|it| it.unanswered && it.asked_for != 0);
        if let Some(from) = message.map(|it| it.from) {
            self.vain.note(time_of(now), self.vain_of(&from));
        }
    }

    /// The sender of a message has shown its address.
    pub(super) fn shown(&mut self, now: Nanos, index: u32) {
        if let Some(message) = self.ins.get_mut(index) {
            message.there = now;
            let gone = core::mem::take(&mut message.gone);
            if gone && message.ren && message.missing() != 0 {
                // One that was refused for want of room would be due much later.
                message.grant = Maybe::some(now);
            }
        }
        self.answered(index);
    }

    /// Something has answered what was sent because of a message with a ticket.
    pub(super) fn answered(&mut self, index: u32) {
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        if !core::mem::take(&mut message.unanswered) {
            return;
        }
        if let Some(peer) = self.peers.all.get_mut(message.peer) {
            peer.unanswered = peer.unanswered.saturating_sub(1);
        }
    }

    /// A message counts to its sender's network, and to its coflow, once it is known to be of it.
    pub(super) fn count_proven(&mut self, index: u32) {
        let Some(message) = self.ins.get_mut(index).filter(|it| it.proven) else {
            return;
        };
        message.net = self.in_nets.join(&self.key, net(&message.from)).into();
        if message.coflow != 0 {
            let hash = self.key.hash([], purpose::COFLOW, message.coflow);
            // Without memory it counts as having none.
            let joined = self.coflows.join((hash >> 32) as u32, message.coflow);
            message.coflow_entry = joined.into();
        }
    }

    /// What the tokens' numbers and timestamps of a message follow from. `number` is the message's
    /// own here: if it begins once more, answers to earlier tokens are wrong.
    pub(super) fn secret(&self, number: u64, cookie: Cookie, from: &Address) -> u64 {
        self.keyed(cookie.0 ^ number, from, purpose::TOKENS)
    }

    fn hash_token(&self, message: &In<I>, sequence: u16) -> u32 {
        let secret = self.secret(message.number, message.cookie, &message.from);
        let hash = self.key.hash([secret], purpose::STAMP, sequence.into());
        hash as u32 & ((1 << STAMP_BITS) - 1)
    }

    /// The timestamp of a token to a stranger. It is between a quarter and three quarters of a
    /// second ahead of the clock, so that it does not expire.
    fn stamp(&self, clock: u32, message: &In<I>, sequence: u16) -> u32 {
        let ahead = (clock >> STAMP_BITS).wrapping_add(2);
        ahead.wrapping_shl(STAMP_BITS) | self.hash_token(message, sequence)
    }

    /// Whether DATA answers a token that only the address that it comes from can have received.
    pub(super) fn is_answer(&mut self, index: u32, data: &Data) -> bool {
        let Some(message) = self.ins.get(index).filter(|it| it.guesses < GUESSES) else {
            return false;
        };
        let stamp = data.timestamp & ((1 << STAMP_BITS) - 1);
        let right = data.flags & (FLAG_UNSCHEDULED | FLAG_UNASKED) == 0
            && message.was_sent(data.token)
            && stamp == self.hash_token(message, data.token);
        if let Some(message) = self.ins.get_mut(index).filter(|_| !right) {
            message.guesses = message.guesses.saturating_add(1);
        }
        right
    }

    /// The ticket of an address.
    pub(super) fn ticket_of(&self, epoch: u64, from: &Address) -> u64 {
        let (of, whose, ticket) = self.last_ticket.get();
        if of == epoch && whose == *from {
            return ticket;
        }
        let ticket = self.keyed(epoch, from, purpose::TICKET).max(1);
        self.last_ticket.set((epoch, *from, ticket));
        ticket
    }

    /// Gives the sender of a message a ticket, unless it has one. One that is sealed needs none: it
    /// is no stranger's as soon as both ends have heard of each other, and not before.
    pub(super) fn give_ticket<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        if core::mem::replace(&mut message.ticketed, true) || message.sealed {
            return;
        }
        let (from, cookie) = (message.from, message.cookie);
        let challenge = Challenge {
            cookie,
            echo: self.ticket_of(time_of(now), &from),
            ticket: true,
        };
        if self.send_back(index, Class::Signal, &Packet::Challenge(challenge), host) {
            self.stats.count(Counter::TicketSent);
        }
    }

    /// What the SYNC of a message shows.
    pub(super) fn proof(&mut self, now: Nanos, from: &Address, sync: &Sync) -> Proof {
        if sync.echo == 0 {
            return Proof::None;
        }
        // A sealed SYNC may be an old one that somebody sends again, ticket and all.
        let epoch = time_of(now);
        let sealed = self.current.is_some();
        let recent = !sealed && sync.echo == self.ticket_of(epoch, from);
        if recent || !sealed && sync.echo == self.ticket_of(epoch.wrapping_sub(1), from) {
            self.stats.count(Counter::TicketValid);
            return if recent {
                Proof::Ticket
            } else {
                Proof::OldTicket
            };
        }
        if self.is_echo(now, from, sync) {
            Proof::Echo
        } else {
            Proof::None
        }
    }

    /// What a SYNC has to echo. It says nothing of the ports: those that the message began with may
    /// be forged.
    fn echo_of(&self, epoch: u64, from: &Address, cookie: Cookie) -> u64 {
        let secret = self.keyed(cookie.0, from, purpose::CHALLENGE);
        self.key.hash([secret, epoch], purpose::CHALLENGE, 0).max(1)
    }

    /// Whether a SYNC echoes a CHALLENGE that was sent not long ago.
    pub(super) fn is_echo(&mut self, now: Nanos, from: &Address, sync: &Sync) -> bool {
        if sync.echo == 0 {
            return false;
        }
        let epoch = now.0 >> EPOCH_BITS;
        let right = |epoch| sync.echo == self.echo_of(epoch, from, sync.cookie);
        let right = right(epoch) || right(epoch.wrapping_sub(1));
        self.stats.count(if right {
            Counter::EchoReceived
        } else {
            Counter::EchoWrong
        });
        right
    }

    /// The CHALLENGE for a message.
    fn challenge_of(&self, now: Nanos, to: &Address, cookie: Cookie) -> Packet {
        let echo = self.echo_of(now.0 >> EPOCH_BITS, to, cookie);
        Packet::Challenge(Challenge {
            cookie,
            echo,
            ticket: false,
        })
    }

    /// Answers a SYNC with a CHALLENGE, and keeps nothing of it.
    pub(super) fn challenge_stranger<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        sync: &Sync,
        host: &mut H,
    ) {
        if !self.may_answer(at, from, Kind::Challenge, wire::CHALLENGE_LEN) {
            return self.stats.count(Counter::ChallengeSuppressed);
        }
        let challenge = self.challenge_of(at.now, from, sync.cookie);
        self.stats.count(Counter::ChallengeSent);
        self.answer_stray(from, &challenge, host);
    }

    /// Asks the sender of a message to show its address once more, if it should.
    pub(super) fn challenge_again<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        if self.ins.get(index).is_some_and(In::should_show) {
            self.challenge(now, index, host);
        }
    }

    /// Asks a stranger for a SYNC that shows its address, once in a round trip.
    pub(super) fn challenge<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let message = self.ins.get(index).filter(|it| now >= it.challenged);
        let Some((from, cookie)) = message.map(|it| (it.from, it.cookie)) else {
            return;
        };
        let challenge = self.challenge_of(now, &from, cookie);
        if self.send_back(index, Class::Signal, &challenge, host) {
            self.stats.count(Counter::ChallengeSent);
            let base = self.config.base_rtt;
            if let Some(message) = self.ins.get_mut(index) {
                message.challenged = now + message.rtt(base);
            }
        }
    }

    /// The receiver of a message wants a proof of our address, or has had one.
    pub(super) fn on_challenge<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        challenge: &Challenge,
        host: &mut H,
    ) {
        if challenge.ticket {
            return self.on_ticket(at.now, from, challenge);
        }
        self.stats.count(Counter::ChallengeReceived);
        let index = match self.find_out(challenge.cookie, from) {
            Ok(index) => index,
            Err(true) => return self.stray(true),
            Err(false) => {
                // Somebody has sent a SYNC in our name.
                self.stray(false);
                let (what, code) = (Kind::Outgoing, ResetCode::Unknown);
                return self.reset(at, from, what, challenge.cookie, code, host);
            }
        };
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        let (rto, rtt) = (self.config.rto, out.rtt(self.config.base_rtt));
        if !out.challenged(at.now, challenge.echo, rto, rtt) {
            return;
        }
        // A receiver that has answered has the message, or had it before it began anew: then it is
        // to say so, as what was acknowledged would be missing.
        let sync = Sync {
            probe: out.open,
            ..out.sync(at.now)
        };
        self.stats.count(Counter::SyncSent);
        // A receiver believes no length that came before.
        let fin = out.fin().filter(|_| out.open);
        let cookie = out.cookie;
        self.signal(index, &Packet::Sync(sync), host);
        if let Some(length) = fin {
            self.stats.count(Counter::FinSent);
            self.signal(index, &Packet::Fin(Fin { cookie, length }), host);
        }
        self.offer_ticket(at.now, index, host);
        self.met(at.now, index, host);
    }

    fn on_ticket(&mut self, now: Nanos, from: &Address, ticket: &Challenge) {
        self.stats.count(Counter::TicketReceived);
        let (out, other) = match self.find_out(ticket.cookie, from) {
            Ok(index) => (self.outs.get(index), false),
            Err(other) => (None, other),
        };
        let incoming = || self.ins.get(self.find_in(ticket.cookie, from)?);
        let peer = match out {
            Some(out) => Some(out.peer),
            // A stranger could have us show others' tickets that are none.
            None => incoming().filter(|it| it.proven).map(|it| it.peer),
        };
        let until = now + TICKET_KEPT;
        match peer {
            Some(peer) => self.peers.keep_ticket(peer, ticket.echo, until),
            None if self.is_remembered(ticket.cookie, from) => {
                if let Some(peer) = self.peers.get(now, &self.key, from) {
                    self.peers.keep_ticket(peer, ticket.echo, until);
                    self.peers.tidy(now, peer, &self.key);
                }
            }
            // It may have come after the last ACK.
            None => self.stray(other),
        }
    }

    /// Whether a message is remembered, and there is room for its peer.
    fn is_remembered(&self, cookie: Cookie, from: &Address) -> bool {
        let hash = self.hash_in(cookie, from);
        let room = self.ahead.is_none() || self.peers.room() != 0;
        room && self.remembered.length(hash, cookie, from).is_some()
    }

    /// The receiver of a message has answered, so it is where it claims to be: gives it a ticket
    /// for what it will send to us, unless it has had one.
    pub(super) fn offer_ticket<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let epoch = time_of(now);
        let Some(out) = self.outs.get(index).filter(|out| !out.sealed) else {
            return;
        };
        let (peer, cookie, to) = (out.peer, out.cookie, out.to);
        if !self.peers.offers(peer, epoch) {
            return;
        }
        let echo = self.ticket_of(epoch, &to);
        let challenge = Challenge {
            cookie,
            echo,
            ticket: true,
        };
        self.stats.count(Counter::TicketSent);
        self.signal(index, &Packet::Challenge(challenge), host);
    }

    /// How long a finished message is remembered: as long as its sender tries.
    pub(super) fn remember_for(patience: u16) -> Nanos {
        let ms = u64::from(patience).saturating_mul(PATIENCE_UNIT);
        Nanos(ms.saturating_mul(Nanos::MILLISECOND.0)) + Nanos::SECOND
    }

    /// Fills in a token's timestamp, and notes it where it is a secret one.
    pub(super) fn stamp_token(&mut self, at: At, index: u32, token: &mut Token) {
        let Some(message) = self.ins.get(index).filter(|message| !message.proven) else {
            return;
        };
        token.timestamp = self.stamp(at.clock, message, token.sequence);
        if let Some(message) = self.ins.get_mut(index) {
            message.stamped(at.clock);
        }
    }
}
