// SPDX-License-Identifier: GPL-2.0
//! What a qdisc's filters say of a packet: the same for port and pacer.

use knet::{Classified, Enqueuing, Qdisc, Skb};

/// Major number of a class id or a handle (`TC_H_MAJ`).
const MAJOR: u32 = 0xffff_0000;

/// What filters did that no class counts.
#[derive(Default)]
pub(crate) struct FilterEvents {
    /// Packets, as on the wire, that an action wanted dropped.
    pub(crate) drops: u64,
    /// Packets for which filters named a class that there is not.
    pub(crate) misses: u64,
}

impl FilterEvents {
    /// The class does not exist.
    pub(crate) fn miss(&mut self) {
        self.misses = self.misses.wrapping_add(1);
    }
}

/// A qdisc whose filters name classes.
pub(crate) trait Filtered: Qdisc {
    fn filter_events(&mut self) -> &mut FilterEvents;
}

/// Asks the filters. `None`: the packet is gone, and counted. Otherwise the minor number of the
/// class that they name, if they name one; above all minor numbers if it is another qdisc's.
pub(crate) fn ask<T: Filtered>(
    mut skb: Skb,
    on: &mut Enqueuing<'_, T>,
) -> Option<(Skb, Option<u32>)> {
    let classified = on.classify(&mut skb);
    let handle = on.context().handle();
    let (this, report) = on.qdisc();
    match classified {
        // A filter with an action and no class matches, too.
        Classified::Unmatched | Classified::Class(0) => Some((skb, None)),
        Classified::Class(class) => {
            // Filters may leave out the major number.
            let ours = class & MAJOR == 0;
            let minor = if ours { class } else { class ^ handle };
            Some((skb, Some(minor)))
        }
        Classified::Stolen => {
            report.stolen(skb);
            None
        }
        Classified::Shot => {
            let dropped = &mut this.filter_events().drops;
            *dropped = dropped.wrapping_add(skb.segments().into());
            report.shot(skb);
            None
        }
    }
}
