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
//! ExpressPass (section 2.2) drops what arrives last, and asks for a little jitter between tokens
//! for fairness; `core/tests/transport_feedback.rs` compares the two. The option `token-drop last`
//! has it so.

use crate::port::classify::{ethertype, ipv4_carried, ipv6_carried, untagged, Carried};

/// What packets of one flow have in common: addresses and ports. Each message of the transport has
/// a source port of its own, but for one in 16384.
///
/// 0: unknown; never [`Flow::MAX`].
pub type Flow = u64;

/// So many packets of a full queue are looked at, from its head on.
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

/// So many of the tokens that were queued last are remembered: two polls of a device. Who comes a
/// poll at a time would else seem to have more than one that is always there.
pub const KEPT: usize = 128;

/// Whose the tokens are that a queue took last. Of those that wait alone, eight as a rule, most
/// flows would be seen to have one, whatever their rates.
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    /// Names of flows.
    flows: [Name; KEPT],
    /// By a part of the name: how many there are.
    counts: [u8; PARTS],
    /// The place of the oldest.
    next: usize,
    /// How many had been queued, ever, when they were looked at last.
    came: u64,
}

/// A short name of a flow; 0 is nobody's. Two flows have the same one in 65535 times.
type Name = u16;

const PARTS: usize = 128;

fn name(flow: Flow) -> Name {
    ((flow % 0xffff) as Name).wrapping_add(1)
}

impl Recent {
    /// Of no token.
    pub const NONE: Self = Self {
        flows: [0; KEPT],
        counts: [0; PARTS],
        next: 0,
        came: 0,
    };

    /// Tokens may have been queued since that nobody looked at: notes those that are still there,
    /// of which `queued` are the first, by their flows. There are `waiting` packets in the queue,
    /// and `came` have been queued, ever.
    pub fn look(&mut self, queued: &[Flow], waiting: u64, came: u64) {
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
    }

    /// Is there nothing to [look](Recent::look) at, after `came` were queued?
    pub fn is_current(&self, came: u64) -> bool {
        self.came == came
    }

    /// A packet of this flow that stands for so many tokens was queued, after which `came` have
    /// been.
    pub fn queued(&mut self, flow: Flow, tokens: u32, came: u64) {
        for _ in 0..tokens.min(KEPT as u32) {
            self.note(flow);
        }
        self.came = came;
    }

    /// Which of the packets at the head of a full queue goes when one of the flow `new` arrives, by
    /// their flows: the oldest of the flow that has most of what was queued last. `None`: the new
    /// one, of a flow that has more than any other would. If one goes, tell [`Recent::gone`].
    pub fn displaced(&self, queued: &[Flow], new: Flow) -> Option<usize> {
        let new = name(new);
        let mut most = self.count(new);
        let mut place = None;
        let mut index: usize = 0;
        for &flow in queued.iter().take(LOOKS) {
            let flow = name(flow);
            // No flow has more than all with this part of their names.
            let at_most = self.counts.get(part(flow)).copied().unwrap_or(0);
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

    /// A token of this flow was [displaced](Recent::displaced): it counts as one that was never
    /// queued. (Of one that stood for several the others are forgotten in time.) Without it `came`
    /// have been.
    pub fn gone(&mut self, flow: Flow, came: u64) {
        let flow = name(flow);
        let (later, earlier) = self.flows.split_at_mut(self.next.min(KEPT));
        let mut all = later.iter_mut().rev().chain(earlier.iter_mut().rev());
        if let Some(one) = all.find(|one| **one == flow) {
            *one = 0;
            self.take(flow);
        }
        self.came = came;
    }

    fn note(&mut self, flow: Flow) {
        let flow = name(flow);
        if let Some(oldest) = self.flows.get_mut(self.next) {
            let before = core::mem::replace(oldest, flow);
            if before != 0 {
                self.take(before);
            }
        }
        if let Some(count) = self.counts.get_mut(part(flow)) {
            *count = count.wrapping_add(1);
        }
        self.next = self.next.wrapping_add(1) % KEPT;
    }

    /// One less of a flow.
    fn take(&mut self, flow: Name) {
        if let Some(count) = self.counts.get_mut(part(flow)) {
            *count = count.wrapping_sub(1);
        }
    }

    /// How many of a flow there are.
    fn count(&self, flow: Name) -> u8 {
        let equal = |count: u8, other: &Name| count.wrapping_add(u8::from(*other == flow));
        self.flows.iter().fold(0, equal)
    }
}

fn part(flow: Name) -> usize {
    usize::from(flow) % PARTS
}

const _: () = assert!(KEPT < 256);

#[cfg(test)]
mod tests;
