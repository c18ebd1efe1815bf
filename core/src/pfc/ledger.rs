// SPDX-License-Identifier: GPL-2.0
//! What all ports of a switch hold of what came in by one device, and the control frame that is
//! owed to the other end of its link.
//!
//! The ledger belongs to the port that sends by the device. Any port that queues a packet of it
//! [charges](Ledger::charge) the ledger, and [gives back](Ledger::give_back) when the packet
//! leaves, on the wire or dropped. What these decide is a *debt*: the one control frame that is to
//! leave by the device before all else. Only the device's own port can send it, so whoever makes a
//! debt has that port asked for packets.
//!
//! # Epochs
//!
//! A ledger that is closed forgets what it holds, and a packet that was charged before must not
//! give back to the next one. So each time that a ledger is opened is an *epoch*, with a number
//! that no other ledger ever has; a packet remembers the epoch that it was charged in. Whatever
//! goes away under way, port, device or bridge, nothing is given back twice or to somebody else.

use core::ops::Deref;
use core::sync::atomic::AtomicU64;

use super::frame::Frame;
use super::ingress::{self, Common, Fits, Ingress, Limits, Pool, Send, Xoff};
use super::scope::Scope;
use crate::units::{Nanos, Rate};

/// What has become of a packet's charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// The packet has room, and remembers this epoch.
    Held(u64),
    /// It has, and because of it the other end is to pause from now on.
    Asking(u64),
    /// There is no room: it is to be dropped.
    Full,
}

/// A control frame that is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debt {
    /// What it says.
    pub frame: Frame,
    /// It is a pause, of this, and not the end of one.
    pauses: Option<Scope>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pauses, drops and the most that was held.
    pub ingress: ingress::Counters,
    /// Control frames that left.
    pub sent: u64,
    /// How long the other end was to be silent in all, from each decision to the next, up to now.
    pub time: Nanos,
    /// The longest of these times, up to now.
    pub longest: Nanos,
}

/// See the module's documentation. `S` is a handle of what several ledgers count together: the
/// bytes in a pool that they share, if their thresholds are parts of it.
#[derive(Clone, Debug)]
pub struct Ledger<S> {
    /// What frames name.
    scope: Scope,
    /// The number of the epoch, while there is one.
    epoch: Option<u64>,
    ingress: Ingress,
    /// The ingress has it for itself: as much as it may hold before a pause.
    pool: Pool,
    /// Instead of that, with a dynamic threshold.
    common: Option<Common<S>>,
    debt: Option<Debt>,
    /// What lets go of a scope that frames do not name any more. It leaves first.
    parting: Option<Debt>,
    /// The frame that left last was a pause, of this.
    silent: Option<Scope>,
    /// When the pause in progress was decided.
    began: Option<Nanos>,
    /// Without the pause in progress.
    counters: Counters,
}

/// With the ingress and the pool that it uses.
macro_rules! pooled {
    ($ledger:ident, |$ingress:ident, $pool:ident| $work:expr) => {{
        let $ingress = &mut $ledger.ingress;
        match &mut $ledger.common {
            Some($pool) => $work,
            None => {
                let $pool = &mut $ledger.pool;
                $work
            }
        }
    }};
}

/// Nothing is held, and nothing has room.
const NOTHING: Limits = Limits {
    xoff: Xoff::Fixed { xoff: 0, xon: 0 },
    headroom: 0,
};

impl<S: Deref<Target = AtomicU64>> Ledger<S> {
    /// A closed ledger, for whose packets the other end has these pauses.
    pub fn new(scope: Scope) -> Self {
        Self {
            scope,
            epoch: None,
            ingress: Ingress::new(NOTHING, &Rate::UNLIMITED),
            pool: Pool::new(0),
            common: None,
            debt: None,
            parting: None,
            silent: None,
            began: None,
            counters: Counters::default(),
        }
    }

    /// Packets are charged from now on, by these limits, on a link of this rate. `epoch` is a new
    /// number, and counts if the ledger was closed. `true`: there is a debt. Of a threshold that
    /// follows a pool, [`share`](Self::share) has said of which.
    pub fn open(&mut self, now: Nanos, epoch: u64, limits: Limits, rate: &Rate) -> bool {
        self.epoch.get_or_insert(epoch);
        if let Xoff::Fixed { xoff, .. } = limits.xoff {
            if let Some(mut common) = self.common.take() {
                self.ingress.pass(&mut common, &mut self.pool);
            }
            self.pool.set(xoff);
        }
        self.ingress.set(limits, rate);
        let send = pooled!(self, |ingress, pool| ingress.check(pool));
        self.owe(now, send)
    }

    /// What is held is in this pool from now on, which others share. It is of so many bytes.
    pub fn share(&mut self, size: u64, used: S) {
        match &mut self.common {
            Some(common) => common.set(size),
            None => {
                let common = self.common.insert(Common::new(size, used));
                self.ingress.pass(&mut self.pool, common);
            }
        }
    }

    /// No packet is charged any more, and none of those that were gives back. `true`: there is a
    /// debt, since the other end is still silent.
    pub fn close(&mut self, now: Nanos) -> bool {
        self.epoch = None;
        let (_, send) = pooled!(self, |ingress, pool| ingress.forget(pool));
        self.owe(now, send)
    }

    /// The other end has forgotten what it was told, since the link was down: a pause is due again.
    /// `true`: there is one.
    pub fn repeat(&mut self) -> bool {
        if self.ingress.is_paused() {
            self.debt = Some(self.frame(Send::PAUSE));
        }
        self.ingress.is_paused()
    }

    /// Frames name something else from now on. To be called while the ledger is closed. If the
    /// other end is silent, the end of that is owed, and nothing that is decided later takes its
    /// place: a frame of another scope would not end it.
    pub fn name(&mut self, scope: Scope) {
        self.scope = scope;
        self.part();
    }

    /// The end of a pause is owed if it is of what frames do not name any more.
    fn part(&mut self) {
        if let Some(old) = self.silent.filter(|old| *old != self.scope) {
            // What was decided of the same is in this.
            self.debt = self
                .debt
                .filter(|debt| debt.frame != old.frame(Send::END.quanta));
            self.parting = Some(Debt {
                frame: old.frame(Send::END.quanta),
                pauses: None,
            });
        }
    }

    /// It closes for good, and what it owes may never leave: the frame that lets the other end go,
    /// if that is silent.
    pub fn last_word(&mut self, now: Nanos) -> Option<Frame> {
        self.close(now);
        (self.debt, self.parting) = (None, None);
        let scope = self.silent.take()?;
        Some(scope.frame(Send::END.quanta))
    }

    /// Is there a debt, or will there be one if nothing happens?
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.owes() || self.ingress.is_paused()
    }

    #[inline]
    fn owes(&self) -> bool {
        self.debt.is_some() || self.parting.is_some()
    }

    /// A packet of so many bytes on the wire came in by the device, and is about to be queued.
    /// `None`: the ledger is closed. With it, whether there is a debt. Whoever pays it may not have
    /// heard of it, so each packet says so.
    pub fn charge(&mut self, now: Nanos, bytes: u32) -> Option<(Charge, bool)> {
        let epoch = self.epoch?;
        let (fits, send) = pooled!(self, |ingress, pool| ingress.arrive(now, bytes, pool));
        self.owe(now, send);
        let owes = self.owes() || self.next().is_some_and(|at| at <= now);
        let charge = match (fits, send) {
            (Fits::No, _) => Charge::Full,
            (Fits::Pool | Fits::Headroom, Some(_)) => Charge::Asking(epoch),
            (Fits::Pool | Fits::Headroom, None) => Charge::Held(epoch),
        };
        Some((charge, owes))
    }

    /// A packet that was charged in this epoch leaves. `None`: not to this ledger. Otherwise
    /// whether there is a debt that was not there before.
    pub fn give_back(&mut self, now: Nanos, epoch: u64, bytes: u32) -> Option<bool> {
        if self.epoch != Some(epoch) {
            return None;
        }
        let send = pooled!(self, |ingress, pool| ingress.leave(bytes, pool));
        Some(self.owe(now, send))
    }

    /// The frame that has to leave before all else, if there is one. Repeats a pause that is due
    /// for it.
    pub fn debt(&mut self, now: Nanos) -> Option<Debt> {
        if let Some(again) = self.ingress.refresh(now) {
            self.debt = Some(self.frame(again));
        }
        self.parting.or(self.debt)
    }

    /// When to ask for the [debt](Self::debt) if nobody says that there is one.
    pub fn next(&self) -> Option<Nanos> {
        self.ingress.refresh_at()
    }

    /// The frame has left. If another one was decided meanwhile, that one is still owed.
    pub fn paid(&mut self, debt: &Debt) {
        self.silent = debt.pauses;
        self.counters.sent = self.counters.sent.wrapping_add(1);
        for owed in [&mut self.parting, &mut self.debt] {
            if *owed == Some(*debt) {
                *owed = None;
                break;
            }
        }
        // It may be a pause that was on its way when the name changed.
        self.part();
    }

    /// With more than this held the other end is paused, as things are.
    pub fn threshold(&self) -> u64 {
        match &self.common {
            Some(common) => self.ingress.threshold(common),
            None => self.ingress.threshold(&self.pool),
        }
    }

    /// Bytes held now.
    pub fn held(&self) -> u64 {
        self.ingress.held()
    }

    /// What was counted up to now.
    pub fn counters(&self, now: Nanos) -> Counters {
        let mut counters = self.counters;
        counters.ingress = self.ingress.counters();
        if let Some(began) = self.began {
            counters.add(now - began);
        }
        counters
    }

    fn frame(&self, send: Send) -> Debt {
        Debt {
            frame: self.scope.frame(send.quanta),
            pauses: (send == Send::PAUSE).then_some(self.scope),
        }
    }

    /// A frame has to leave, perhaps.
    fn owe(&mut self, now: Nanos, send: Option<Send>) -> bool {
        let Some(send) = send else {
            return false;
        };
        self.debt = Some(self.frame(send));
        if send == Send::PAUSE {
            self.began = Some(now);
        } else if let Some(began) = self.began.take() {
            self.counters.add(now - began);
        }
        true
    }
}

impl Counters {
    /// Another pause is over.
    fn add(&mut self, time: Nanos) {
        self.time += time;
        self.longest = self.longest.max(time);
    }
}

#[cfg(test)]
mod tests;
