// SPDX-License-Identifier: GPL-2.0
//! The slow path of a dequeue, with the child's turn, for ports that obey pauses and for others.

use super::{child_holds, TurnstilePort, CHILD};
use crate::packet::{OnDequeue, PortPacket};
use crate::pauses::Owed;
use knet::{Dequeuing, Skb};
use turnstile_core::{
    pfc::frame,
    port::band::Band,
    port::{Dequeue, Step},
    queue::Packet,
    units::Nanos,
};

/// When a frame is owed and there is no memory for it: how long to wait.
const NO_MEMORY: Nanos = Nanos(10_000);

impl TurnstilePort {
    /// What leaves a port that obeys pauses: what they say comes first.
    #[inline(never)]
    pub(super) fn serve_unheld(
        now: Nanos,
        child: u64,
        on: &mut Dequeuing<'_, Self>,
    ) -> Option<Skb> {
        let progress = on.qdisc().0.port.progress(child);
        let said = on.listener(|ear| ear.says(now, &progress));
        let Some((heard, owed)) = said else {
            return Self::serve::<true>(now, child, on);
        };
        on.qdisc().0.port.obey(now, &heard);
        match owed {
            None => Self::serve::<true>(now, child, on),
            Some(owed) => Self::serve_owing(now, child, owed, on),
        }
    }

    /// What leaves a port that owes the other end a frame, or will.
    #[cold]
    #[inline(never)]
    fn serve_owing(
        now: Nanos,
        child: u64,
        owed: Owed,
        on: &mut Dequeuing<'_, Self>,
    ) -> Option<Skb> {
        let mut next = owed.next;
        if let Some(debt) = owed.debt {
            // Its source is the device's address, which knet writes.
            let again = match on.qdisc().0.port.control_waits(now) {
                Some(free) => free,
                None => match on.originate(&debt.frame.write([0; 6])) {
                    Some(skb) => {
                        let this = on.qdisc().0;
                        let wire_len = this.port.framing().wire_len(frame::LEN as u32, 1);
                        this.port.send_control(now, wire_len);
                        let owes = on.listener(|ear| {
                            ear.ledger().paid(&debt);
                            ear.ledger().is_busy()
                        });
                        on.qdisc().0.port.owes(owes == Some(true));
                        return Some(skb);
                    }
                    None => now + NO_MEMORY,
                },
            };
            next = Some(next.map_or(again, |next| next.min(again)));
        }
        let dequeued = Self::step::<true>(now, child, on);
        let Some(next) = next else {
            return Self::finish::<true>(dequeued, now, on);
        };
        match dequeued {
            Dequeue::Packet(..) => Self::finish::<true>(dequeued, now, on),
            Dequeue::Wait(time) => Self::finish::<true>(Dequeue::Wait(time.min(next)), now, on),
            Dequeue::Empty => {
                on.context().wake_at(next.0);
                None
            }
        }
    }

    /// What leaves, by the slow path. `HOLDS`: the port obeys pauses.
    #[inline(always)]
    pub(super) fn serve<const HOLDS: bool>(
        now: Nanos,
        child: u64,
        on: &mut Dequeuing<'_, Self>,
    ) -> Option<Skb> {
        let dequeued = Self::step::<HOLDS>(now, child, on);
        Self::finish::<HOLDS>(dequeued, now, on)
    }

    /// What the port and its child have to give.
    #[inline(always)]
    fn step<const HOLDS: bool>(
        now: Nanos,
        child: u64,
        on: &mut Dequeuing<'_, Self>,
    ) -> Dequeue<PortPacket> {
        let (this, report) = on.qdisc();
        let step = this
            .port
            .start_slow::<HOLDS>(now, child, &mut OnDequeue(report));
        match step {
            Step::Done(dequeued) => dequeued,
            Step::Ask(question) => {
                let packet = on.take(CHILD);
                let child = child_holds(on.context());
                let (this, report) = on.qdisc();
                // The child used the packet's private bytes, so its wire length is worked out
                // again.
                let packet = packet.map(|skb| PortPacket::new(skb, this.port.framing()));
                this.port
                    .end_slow::<HOLDS>(question, packet, child, &mut OnDequeue(report))
            }
        }
    }

    /// Gives that away, or waits for it.
    #[inline(always)]
    pub(super) fn finish<const HOLDS: bool>(
        dequeued: Dequeue<PortPacket>,
        now: Nanos,
        on: &mut Dequeuing<'_, Self>,
    ) -> Option<Skb> {
        match dequeued {
            Dequeue::Packet(packet, band) => {
                if on.is_peek() {
                    on.qdisc().0.peeked = Some((band, packet.meta()));
                }
                if HOLDS {
                    if let Some(charged) = packet.charged(band) {
                        on.qdisc()
                            .1
                            .listener_of(&packet.0, |ear| charged.give_back(now, ear));
                    } else if band == Band::Data {
                        let this = on.qdisc().0;
                        this.own = this.own.saturating_sub(packet.meta().len.into());
                    }
                }
                match band {
                    Band::Token(_) => Some(packet.alone()),
                    _ => Some(packet.0),
                }
            }
            Dequeue::Wait(time) => {
                let sch = on.context();
                sch.count_overlimit();
                sch.wake_at(time.0);
                None
            }
            Dequeue::Empty => None,
        }
    }
}
