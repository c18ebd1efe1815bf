// SPDX-License-Identifier: GPL-2.0
//! Whose token goes when a token queue is full: one of the flow that has had most lately.
//!
//! Dropping what arrives last favours who sends most, and who sends evenly: each time a token has
//! left there is one place, and a flow that asks for the whole link is the one to find it. One with
//! a low rate mostly finds the queue full, and the feedback lowers its rate further. A flow over
//! several links meets that at each of them, and is left with a hundredth of what it should have.
//! Here a flow that has no more than its share of what was queued last loses nothing to one that
//! has more, wherever its share is asked for; who asks for more loses that. Who changes ports with
//! each token has many flows, of one token each, and is as one that sends evenly. It is the
//! *longest queue drop* of shared buffers; but as a port may hold few tokens, those that have left
//! count, too.
//!
//! ExpressPass (section 3.1) drops what arrives last, and asks for a little jitter between tokens
//! for fairness; `core/tests/transport_feedback.rs` compares the two. The option `token-drop last`
//! has it so.

use crate::port::classify::{ethertype, ipv4_carried, ipv6_carried, untagged, Carried};

/// What packets of one flow have in common: addresses and ports. Each message of the transport has
/// a source port of its own, but for one in 16384.
///
/// 0: unknown; never [`Flow::MAX`].
pub type Flow = u64;

/// So many packets of a full queue are looked at, from its head on, and of those that were queued
/// last so many are remembered.
pub const LOOKS: usize = 32;

/// The flow of a packet. The last two arguments are those of
/// [`classify`](crate::port::classify::classify); `key` is secret, so that nobody can choose ports
/// and addresses by which his tokens count as another's.
pub fn of(key: u64, protocol: u16, network: &[u8]) -> Flow {
    ends(protocol, network).map_or(0, |(addresses, carried)| {
        let words = addresses.chunks(8).map(word);
        let ports = mix(key ^ u64::from(carried.ports()));
        let flow = words.fold(ports, |flow, word| mix(flow ^ word));
        // 0 is for who has none.
        flow.clamp(1, Flow::MAX - 1)
    })
}

/// The addresses of an IP packet, and what it carries.
fn ends(protocol: u16, network: &[u8]) -> Option<(&[u8], Carried<'_>)> {
    let (protocol, packet) = untagged(protocol, network)?;
    match protocol {
        ethertype::IPV4 => Some((packet.get(12..20)?, ipv4_carried(packet)?)),
        ethertype::IPV6 => Some((packet.get(8..40)?, ipv6_carried(packet)?)),
        _ => None,
    }
}

/// Up to eight bytes as a number.
fn word(bytes: &[u8]) -> u64 {
    let shifted = |word: u64, byte: &u8| (word << 8) | u64::from(*byte);
    bytes.iter().fold(0, shifted)
}

/// The high half of the product depends on all bits, and so does the low one then.
#[inline]
fn mix(word: u64) -> u64 {
    let product = u128::from(word ^ 0x243f_6a88_85a3_08d3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (product as u64) ^ (product >> 64) as u64
}

/// Whose the tokens are that a queue took last. Of a queue of eight alone most flows would be seen
/// to have one token, whatever their rates.
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    flows: [Flow; LOOKS],
    /// The place of the oldest.
    next: usize,
    /// How many had been queued, ever, when they were looked at last.
    came: u64,
}

impl Recent {
    /// Of no token.
    pub const NONE: Self = Self {
        flows: [NOBODY; LOOKS],
        next: 0,
        came: 0,
    };

    /// Which of the packets at the head of a full queue goes when one of the flow `new` arrives, by
    /// their flows: the oldest of the flow that has most of what was queued last. `None`: the new
    /// one, of a flow that has more than any other would.
    ///
    /// There are `waiting` packets in the queue, and `came` have been queued, ever. If one goes,
    /// tell [`Recent::gone`].
    pub fn displaced(
        &mut self,
        queued: &[Flow],
        waiting: u64,
        came: u64,
        new: Flow,
    ) -> Option<usize> {
        let fresh = match waiting > LOOKS as u64 {
            // The latest cannot be seen.
            true => queued.len(),
            false => usize::try_from(came.wrapping_sub(self.came)).unwrap_or(usize::MAX),
        };
        let seen = queued.len().saturating_sub(fresh);
        for &flow in queued.get(seen..).unwrap_or(&[]) {
            self.note(flow);
        }
        self.came = came;
        let place = self.most(queued, new);
        if let Some(&flow) = place.and_then(|place| queued.get(place)) {
            // As if it had never been queued.
            let (later, earlier) = self.flows.split_at_mut(self.next.min(LOOKS));
            let mut all = later.iter_mut().rev().chain(earlier.iter_mut().rev());
            if let Some(one) = all.find(|one| **one == flow) {
                *one = NOBODY;
            }
        }
        place
    }

    /// The packet that [`Recent::displaced`] told of has gone; without it, `came` have been queued.
    pub fn gone(&mut self, came: u64) {
        self.came = came;
    }

    fn note(&mut self, flow: Flow) {
        if let Some(oldest) = self.flows.get_mut(self.next) {
            *oldest = flow;
        }
        self.next = self.next.wrapping_add(1) % LOOKS;
    }

    /// The place of the oldest packet of the flow that has most, if it has more than `new`.
    fn most(&self, queued: &[Flow], new: Flow) -> Option<usize> {
        // Of flows by some of their bits: no flow has more.
        const BITS: usize = 64;
        let mut at_most = [0_u8; BITS];
        for &flow in &self.flows {
            if let Some(count) = at_most.get_mut(flow as usize % BITS) {
                *count = count.wrapping_add(1);
            }
        }
        let mut most = self.count(new);
        let mut place = None;
        let mut index: usize = 0;
        for &flow in queued {
            let at_most = at_most.get(flow as usize % BITS).copied().unwrap_or(0);
            if at_most > most && flow != new {
                let has = self.count(flow);
                if has > most {
                    (most, place) = (has, Some(index));
                }
            }
            index = index.wrapping_add(1);
        }
        place
    }

    /// How many of a flow there are.
    fn count(&self, flow: Flow) -> u8 {
        let equal = |count: u8, other: &Flow| count.wrapping_add(u8::from(*other == flow));
        self.flows.iter().fold(0, equal)
    }
}

/// No flow has this number.
const NOBODY: Flow = Flow::MAX;

#[cfg(test)]
mod tests;
