// SPDX-License-Identifier: GPL-2.0
//! What is different in a port that is one of several: it asks what they share.

use super::{child_holds, now, TurnstilePort, CHILD};
use crate::{
    group::Membership,
    packet::{OnDequeue, PortPacket},
};
use knet::{Context, Dequeuing, Skb};
use turnstile_core::{
    port::{Claimed, Dequeue, Offer, Slot},
    queue::Meta,
    units::Nanos,
};

impl TurnstilePort {
    /// What leaves such a port, by the slow path.
    #[inline(never)]
    pub(super) fn serve_together(now: Nanos, on: &mut Dequeuing<'_, Self>) -> Option<Skb> {
        if on.qdisc().0.port.wants_more() {
            if let Some(skb) = on.take(CHILD) {
                let port = &mut on.qdisc().0.port;
                let packet = PortPacket::new(skb, port.framing());
                port.pull(now, packet);
            }
        }
        let sch = on.context();
        let child = child_holds(sch);
        let (this, report) = on.qdisc();
        let Some(membership) = &this.membership else {
            return None;
        };
        let mut answer = None;
        let dequeued = this
            .port
            .serve(now, child, &mut OnDequeue(report), |offer| {
                let claimed = claim(membership, now, offer, sch);
                answer = Some(claimed);
                claimed
            });
        if answer.is_some_and(|it: Claimed| it.kicked) && matches!(dequeued, Dequeue::Wait(_)) {
            // The timer is set, and may have been set anew.
            sch.count_overlimit();
            return None;
        }
        Self::finish::<false>(dequeued, now, on)
    }

    /// The port was reset.
    pub(super) fn reset_shared(&self) {
        if let Some(Membership { shared, queue, .. }) = &self.membership {
            shared.with(|common| common.reset(*queue));
        }
    }

    /// Where a signal goes: [`Port::pay`](turnstile_core::port::Port::pay).
    pub(super) fn pay(&mut self, at: Nanos, meta: &Meta, kept: impl FnOnce() -> bool) -> Slot {
        match &self.membership {
            None => self.port.pay(at, meta, kept),
            Some(Membership { shared, .. }) => {
                let port = &mut self.port;
                shared.with(|common| port.pay_with(at, meta, kept, common))
            }
        }
    }

    /// A token comes: [`Port::give_way`](turnstile_core::port::Port::give_way).
    pub(super) fn put_off(&mut self, at: Nanos, owed: u32, slot: Slot) -> u32 {
        match &self.membership {
            None => self.port.give_way(at, owed, slot),
            Some(Membership { shared, .. }) => {
                let port = &mut self.port;
                shared.with(|common| port.give_way_with(at, owed, slot, common))
            }
        }
    }

    /// The device has another speed, in what is shared, too.
    pub(super) fn share_speed(&mut self) {
        if let Some(Membership { shared, .. }) = &self.membership {
            let (config, resolved) = (self.port.config(), self.port.resolved());
            shared.with(|common| common.set(config, resolved, now()));
        }
    }

    /// The class of a group's that the packet names, as [`Context::handle`] has it for a port that
    /// is alone.
    pub(super) fn named_by_group(&self, skb: &Skb) -> Option<Slot> {
        let Membership { handle, .. } = self.membership.as_ref()?;
        self.port.class_slot(skb.priority() ^ handle)
    }
}

/// Asks for what is offered. Timers that somebody else may set anew are set with the lock: later
/// they would be set back.
#[inline(never)]
fn claim(
    membership: &Membership,
    now: Nanos,
    offer: &Offer,
    sch: Context<'_, TurnstilePort>,
) -> Claimed {
    membership.shared.with(|common| {
        let claimed = common.claim(now, membership.queue, offer);
        if claimed.kicked {
            sch.wake_at(claimed.wait.0);
        }
        for kick in claimed.kicks.into_iter().flatten() {
            sch.wake_queue(kick.member, kick.at.0);
        }
        claimed
    })
}
