// SPDX-License-Identifier: GPL-2.0
//! Where packets pass the markers.

use super::line::Slot;
use super::Port;
use crate::queue::{Meta, Queue};
use crate::units::Nanos;

impl<Q: Queue> Port<Q> {
    /// A packet was taken from its queue, to be sent.
    #[inline]
    pub(super) fn pass_markers(
        &mut self,
        now: Nanos,
        slot: Slot,
        packet: &mut Q::Packet,
        meta: &Meta,
    ) {
        if self.markers.any() {
            self.pass_those_on(now, slot, packet, meta);
        }
    }

    /// [`Port::pass_markers`] if there are any.
    #[inline(never)]
    fn pass_those_on(&mut self, now: Nanos, slot: Slot, packet: &mut Q::Packet, meta: &Meta) {
        if slot == Slot::DATA {
            self.markers.data_leaves(now, packet, meta);
        }
    }
}
