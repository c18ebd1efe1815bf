// SPDX-License-Identifier: GPL-2.0
//! Where packets pass the markers: on their way out of a port, one by one.

use super::line::Slot;
use super::Port;
use crate::port::band::Band;
use crate::queue::{Meta, Queue};
use crate::units::Nanos;

impl<Q: Queue> Port<Q> {
    /// A packet was taken from its queue, to be sent. `child`: how many packets the child holds.
    #[inline]
    pub(super) fn pass_markers(
        &mut self,
        now: Nanos,
        slot: Slot,
        packet: &mut Q::Packet,
        meta: &Meta,
        child: u64,
    ) {
        if self.markers.any() {
            self.pass_those_on(now, slot, packet, meta, child);
        }
    }

    /// [`Port::pass_markers`] if there are any.
    #[inline(never)]
    fn pass_those_on(
        &mut self,
        now: Nanos,
        slot: Slot,
        packet: &mut Q::Packet,
        meta: &Meta,
        child: u64,
    ) {
        if slot.is_data() {
            let queued = self.queued(Band::Data);
            let queue = (queued.packets.saturating_add(child), queued.bytes);
            self.markers.data_leaves(now, packet, meta, queue);
        } else {
            self.markers.other_leaves(now, meta);
        }
    }
}
