// SPDX-License-Identifier: GPL-2.0
//! What is learnt of paths: how long packets may be that get through, and that a peer cannot be
//! reached.
//!
//! A path may carry only packets that are shorter than the route says, without anybody telling (a
//! "black hole"): the peer answers signals, and no full-length packet ever comes. So when the first
//! missing bytes of a message were sent in vain for a while, its packets become shorter, in the
//! steps of [`shorter`] (packetization layer path MTU discovery, RFC 4821 and 8899, downwards). The
//! peer's other messages follow at once. It is remembered for a time that doubles whenever it is
//! found again; after it full-length packets are tried once more.

use super::*;
use crate::transport::host::{Failure, Unreachable};
use crate::transport::paged::Paged;
use crate::transport::wire;

/// How many peers' paths are remembered after their last message.
pub(super) const PATHS: u32 = 64;
/// For how long at first, and at most.
pub(super) const KEPT: Nanos = Nanos(10 * Nanos::SECOND.0);
const KEPT_DOUBLINGS: u32 = 6;

/// The longest payload of a peer's packets that got through lately.
#[derive(Clone, Copy, Default)]
pub(super) struct Learnt {
    address: Address,
    most: u16,
    pub(super) until: Nanos,
    /// How often it was learnt before.
    times: u32,
}

/// Paths that carry only shorter packets than their routes say.
pub(super) type Paths<M> = Paged<M, Learnt>;

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// A peer's slot.
    pub(super) fn path(&self, to: &Address) -> u32 {
        (self.keyed(0, to, purpose::PATH) >> 32) as u32 % PATHS
    }

    /// A peer has its first message: what is known of its path counts.
    pub(super) fn recall_path(&mut self, now: Nanos, peer: u32, to: &Address) {
        if self.paths.len() == 0 {
            return;
        }
        let slot = self.path(to);
        let learnt = self.paths.get(slot).copied().unwrap_or_default();
        if learnt.until > now && learnt.address == *to {
            if let Some(peer) = self.peers.all.get_mut(peer) {
                (peer.most, peer.most_until) = (learnt.most, learnt.until);
            }
        }
    }

    /// The longest payload of the packets of a message.
    #[inline]
    pub(super) fn most_of(&self, now: Nanos, peer: u32) -> u32 {
        match self.peers.all.get(peer) {
            Some(peer) if now < peer.most_until => peer.most.into(),
            _ => u32::MAX,
        }
    }

    /// The first missing bytes of a message do not come in packets of this payload.
    pub(super) fn narrow(&mut self, now: Nanos, index: u32, tried: u32) {
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        let Some(most) = shorter(tried, out.to.is_ipv4()) else {
            return;
        };
        out.narrowed(now);
        let (to, peer) = (out.to, out.peer);
        self.stats.count(Counter::PathNarrowed);
        let slot = self.path(&to);
        self.paths.reserve(slot, Learnt::default);
        let mut until = now + KEPT;
        if let Some(learnt) = self.paths.get_mut(slot) {
            let known = learnt.address == to;
            // Steps down in a row are one finding.
            let again = known && learnt.until <= now;
            learnt.times = match (known, again) {
                (true, true) => learnt.times.saturating_add(1).min(KEPT_DOUBLINGS),
                (true, false) => learnt.times,
                (false, _) => 0,
            };
            until = now + Nanos(KEPT.0.wrapping_shl(learnt.times.min(KEPT_DOUBLINGS)));
            (learnt.address, learnt.most, learnt.until) = (to, most, until);
        }
        if let Some(peer) = self.peers.all.get_mut(peer) {
            (peer.most, peer.most_until) = (most, until);
        }
    }

    /// The route to a peer has become narrower than a packet to it: its MTU in bytes. What goes to
    /// it from now on fits.
    pub fn path_mtu(&mut self, now: Nanos, to: &Address, mtu: u32) {
        let Some(most) = wire::mss(mtu, !to.is_ipv4()) else {
            return;
        };
        let found = self.peers.find(&self.key, to);
        if let Some(peer) = found.and_then(|index| self.peers.all.get_mut(index)) {
            let known = if now < peer.most_until {
                peer.most
            } else {
                u16::MAX
            };
            peer.most = known.min(most);
            peer.most_until = peer.most_until.max(now + KEPT);
        }
    }

    /// Whether a message with this cookie goes to a peer, or comes from it.
    pub fn has_message(&self, peer: &Address, cookie: Cookie) -> bool {
        self.find_out(cookie, peer).is_ok() || self.find_in(cookie, peer).is_some()
    }

    /// A router or the peer's host says that a packet of a message to `to` could not be delivered.
    ///
    /// Whoever saw none of the message's packets does not know its cookie, and moves nothing.
    /// [`Unreachable::Port`] ends a message of which the peer has not answered anything: nobody
    /// runs the transport there. All else may pass: it is reported if the peer is not heard of
    /// until the time-out. Nobody seals ICMP, so that a sealed message is not ended by it.
    pub fn unreachable<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        to: &Address,
        cookie: Cookie,
        what: Unreachable,
        host: &mut H,
    ) {
        let found = self.find_out(cookie, to).ok();
        let waits = found
            .and_then(|index| Some((index, self.outs.get_mut(index)?)))
            .filter(|(_, out)| what != Unreachable::Port || !(out.answered || out.sealed));
        let Some((index, out)) = waits else {
            return self.stats.count(Counter::UnreachableIgnored);
        };
        self.stats.count(Counter::UnreachableReceived);
        if what == Unreachable::Port {
            return self.out_done(now, index, Err(Failure::Unreachable(what)), host);
        }
        out.soft = Some(what);
    }
}

/// The next shorter payload to try: of IP packets of 1500, 1280 and, with IPv4, 576 bytes. IPv6 has
/// no path below 1280.
pub(in crate::transport) fn shorter(than: u32, ipv4: bool) -> Option<u16> {
    let sizes: &[u32] = if ipv4 {
        &[1500, 1280, 576]
    } else {
        &[1500, 1280]
    };
    sizes
        .iter()
        .filter_map(|&mtu| wire::mss(mtu, !ipv4))
        .find(|&size| u32::from(size) < than)
}
