// SPDX-License-Identifier: GPL-2.0
//! Whom an endpoint believes to have the address that packets come from.
//!
//! Anybody can send a packet with another's address. So a peer is a *stranger* until something has
//! come from it that only its address could have received: the answer to a token, whose number and
//! timestamp are secret ([`Endpoint::stamp`]); a SYNC that echoes a CHALLENGE; or anything with the
//! cookie of a message that goes out to it. All that is sent to a stranger because of what came
//! from it passes [`Endpoint::send_back`], which sends at most three times the bytes that came (as
//! RFC 9000, section 8); and nothing of a stranger's message is delivered or remembered.

use super::*;
use crate::transport::wire::{Challenge, Data, Sync, Token, PATIENCE_UNIT};

/// A CHALLENGE is of a time of 2^33 ns, 8.6 s, and is right in the one after, too.
const EPOCH_BITS: u32 = 33;
/// Bits of a secret timestamp that are a hash.
const STAMP_BITS: u32 = 28;
/// Bytes on the link that one CHALLENGE is reckoned as: sixteen times what it takes.
const CHALLENGE_WIRE: u32 = 16 * 86;
/// So many may leave at once.
const CHALLENGE_BURST: u64 = 64;
/// So many tokens of a message may prove its sender's address.
const STAMPED: u16 = 256;

/// Bytes of IP and UDP headers.
#[inline]
fn ip_len(address: &Address) -> u32 {
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

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// A packet of an incoming message came.
    pub(super) fn credit(&mut self, index: u32, from: &Address, packet: u32) {
        let Some(message) = self.ins.get(index).filter(|message| !message.proven) else {
            return;
        };
        let bytes = packet
            .saturating_add(ip_len(from))
            .saturating_add(seal_len(message));
        let fresh = message.fresh;
        self.peers.credit(message.peer, bytes);
        if !fresh {
            self.credit_old(index, bytes);
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
        let Some(message) = self.ins.get(index) else {
            return false;
        };
        let to = message.from;
        if !message.proven {
            let bytes = packet
                .bytes()
                .saturating_add(ip_len(&to))
                .saturating_add(seal_len(message));
            let (fresh, peer) = (message.fresh, message.peer);
            let allowed = fresh || self.allows_old(index, bytes);
            if !(allowed && self.peers.spend(peer, bytes)) {
                self.stats.count(Counter::Unproven);
                return false;
            }
            if !fresh {
                self.spend_old(index, bytes);
            }
        }
        self.signal_back(index, class, packet, host)
    }

    /// Whether another token may be sent to a message's sender. To a stranger a CHALLENGE may
    /// always follow: tokens get lost where many meet, and signals do not.
    pub(super) fn may_have_token(&self, index: u32, message: &In<I>) -> bool {
        let token = wire::TOKEN_LEN as u32;
        let with_challenge = token.saturating_add(wire::CHALLENGE_LEN as u32);
        let each = ip_len(&message.from).saturating_add(seal_len(message));
        let bytes = with_challenge.saturating_add(each.saturating_mul(2));
        message.proven
            || self.peers.allows(message.peer, bytes)
                && (message.fresh || self.allows_old(index, bytes))
    }

    /// A peer has proved its address.
    pub(super) fn prove(&mut self, peer: u32) {
        let Some(peer) = self.peers.all.get_mut(peer).filter(|peer| !peer.proven) else {
            return;
        };
        peer.proven = true;
        // None of its messages is half open any longer. What follows for each of them, follows
        // when it is looked at next.
        self.half_open = self.half_open.saturating_sub(peer.incoming);
        self.stats.count(Counter::PeerProven);
    }

    /// Something came with the cookie of an outgoing message, which is a secret.
    pub(super) fn prove_receiver(&mut self, index: u32) {
        if let Some(out) = self.outs.get(index) {
            self.prove(out.peer);
        }
    }

    /// If a message's sender has proved its address meanwhile, the user may have what has come.
    /// `true`: that was all, and the message has ended.
    pub(super) fn believe<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) -> bool {
        let id = self.in_id(index);
        let Some(message) = self.ins.get_mut(index) else {
            return true;
        };
        if message.proven || !message.fresh || !self.peers.is_proven(message.peer) {
            return false;
        }
        message.proven = true;
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

    /// What the tokens' numbers and timestamps of a message follow from.
    pub(super) fn secret(&self, cookie: Cookie, from: &Address) -> u64 {
        self.keyed(cookie.0, from, purpose::TOKENS)
    }

    fn hash_token(&self, cookie: Cookie, from: &Address, sequence: u16) -> u32 {
        let secret = self.secret(cookie, from);
        let hash = self.key.hash([secret], purpose::STAMP, sequence.into());
        hash as u32 & ((1 << STAMP_BITS) - 1)
    }

    /// The timestamp of a token to a stranger. It is between a quarter and three quarters of a
    /// second ahead of the clock, so that it does not expire.
    pub(super) fn stamp(&self, clock: u32, cookie: Cookie, from: &Address, sequence: u16) -> u32 {
        let ahead = (clock >> STAMP_BITS).wrapping_add(2);
        ahead.wrapping_shl(STAMP_BITS) | self.hash_token(cookie, from, sequence)
    }

    /// Whether DATA answers a token that only the address that it comes from can have received.
    pub(super) fn is_answer(&self, message: &In<I>, data: &Data) -> bool {
        let early = data.token.wrapping_sub(message.first_token()) < STAMPED;
        let stamp = data.timestamp & ((1 << STAMP_BITS) - 1);
        early && stamp == self.hash_token(message.cookie, &message.from, data.token)
    }

    fn echo_of(&self, epoch: u64, from: &Address, cookie: Cookie, ports: (u16, u16)) -> u64 {
        let secret = self.keyed(cookie.0, from, purpose::CHALLENGE);
        let ports = (u32::from(ports.0) << 16) | u32::from(ports.1);
        self.key
            .hash([secret, epoch], purpose::CHALLENGE, ports)
            .max(1)
    }

    /// Whether a SYNC echoes a CHALLENGE that was sent not long ago.
    pub(super) fn is_echo(&mut self, now: Nanos, from: &Address, sync: &Sync) -> bool {
        if sync.echo == 0 {
            return false;
        }
        let (epoch, ports) = (now.0 >> EPOCH_BITS, (sync.source, sync.destination));
        let right = |epoch| sync.echo == self.echo_of(epoch, from, sync.cookie, ports);
        let right = right(epoch) || right(epoch.wrapping_sub(1));
        self.stats.count(if right {
            Counter::EchoReceived
        } else {
            Counter::EchoWrong
        });
        right
    }

    /// The CHALLENGE for a message.
    fn challenge_of(&self, now: Nanos, to: &Address, cookie: Cookie, ports: (u16, u16)) -> Packet {
        let echo = self.echo_of(now.0 >> EPOCH_BITS, to, cookie, ports);
        Packet::Challenge(Challenge { cookie, echo })
    }

    /// Answers a SYNC with a CHALLENGE, and keeps nothing of it. The answer is shorter. All such
    /// answers take a sixteenth of the link at most, as those who know us need the rest.
    pub(super) fn challenge_stranger<H: Host<O, I>>(
        &mut self,
        At { now, link, .. }: At,
        from: &Address,
        sync: &Sync,
        host: &mut H,
    ) {
        let interval = self.links.speed(link).link_rate.duration(CHALLENGE_WIRE);
        if self.challenged > now + Nanos(interval.0.saturating_mul(CHALLENGE_BURST)) {
            return self.stats.count(Counter::ChallengeSuppressed);
        }
        self.challenged = self.challenged.max(now) + interval;
        let ports = (sync.source, sync.destination);
        let challenge = self.challenge_of(now, from, sync.cookie, ports);
        self.stats.count(Counter::ChallengeSent);
        self.answer_stray(from, &challenge, host);
    }

    /// All of a stranger's message has come: asks for a proof.
    pub(super) fn challenge<H: Host<O, I>>(&mut self, now: Nanos, index: u32, host: &mut H) {
        let Some(message) = self.ins.get(index) else {
            return;
        };
        let (from, cookie) = (message.from, message.cookie);
        let challenge = self.challenge_of(now, &from, cookie, message.ports());
        if self.send_back(index, Class::Signal, &challenge, host) {
            self.stats.count(Counter::ChallengeSent);
        }
    }

    /// The receiver of a message wants a proof of our address.
    pub(super) fn on_challenge<H: Host<O, I>>(
        &mut self,
        at: At,
        from: &Address,
        challenge: &Challenge,
        host: &mut H,
    ) {
        self.stats.count(Counter::ChallengeReceived);
        let index = match self.find_out(challenge.cookie, from) {
            Ok(index) => index,
            Err(true) => return self.stray(true),
            Err(false) => {
                // Somebody has sent a SYNC in our name.
                self.stray(false);
                return self.reset(at.now, from, challenge.cookie, ResetCode::Unknown, host);
            }
        };
        self.prove_receiver(index);
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        out.challenged(at.now, challenge.echo);
        // It is no question about data that may be lost.
        let sync = Sync {
            probe: false,
            ..out.sync(at.now)
        };
        self.stats.count(Counter::SyncSent);
        self.signal(index, &Packet::Sync(sync), host);
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
        let from = message.from;
        token.timestamp = self.stamp(at.clock, token.cookie, &from, token.sequence);
        if let Some(message) = self.ins.get_mut(index) {
            message.stamped(at.clock);
        }
    }
}
