// SPDX-License-Identifier: GPL-2.0
//! Priority flow control: the port hears what pauses its device receives, and obeys them; and it
//! keeps the ledger of what came in by its device, for which it pauses the other end.
//!
//! Frames are heard before anybody else has them, since bridges drop them. They are heard without
//! the port's lock, and looked at when a packet is to leave; what ends a pause has the port asked
//! for packets.
//!
//! The ledger is charged by the ports that hold the packets, with their own locks held. So it is
//! behind the listener's lock, which is always the inner one, and a frame that is owed is made by
//! the port itself when it is asked for a packet.

use crate::{packet::new_epoch, port::now};
use kernel::prelude::*;
use knet::{Device, HeaderBuffer, LastWord, Listener, Medium, Tally};
use turnstile_core::{
    pfc::frame::{Frame, Refused, ETHERTYPE},
    pfc::ledger::{self, Debt},
    pfc::pause::{self, Pauses, Progress, State},
    pfc::PRIORITIES,
    port::config::{Allowance, Config, Pfc, Resolved},
    port::hold::Heard,
    units::Nanos,
};

/// What a port hears of the next switch, and what it tells it. In memory of its own: it would be
/// much for a stack.
pub(crate) struct Ear(KBox<Inner>);

pub(crate) type Ledger = ledger::Ledger<Tally>;

struct Inner {
    pauses: Pauses,
    /// Frames that said nothing: spoofed, malformed or of another kind.
    refused: u64,
    ledger: Ledger,
    /// What the ledger was opened with last, while others are paused.
    allowance: Option<Allowance>,
    /// The link is up.
    up: bool,
}

/// Where a port's device is in what pauses are about.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    /// The longest frame, in bytes.
    frame: u32,
    /// What those that come in may be merged into.
    merged: u32,
    /// It can carry control frames.
    pub(crate) ethernet: bool,
    /// Its frames leave by other devices.
    pub(crate) stacked: bool,
    /// It carries any.
    up: bool,
}

impl Link {
    pub(crate) fn of(device: &Device<'_>) -> Self {
        Self {
            frame: device.frame_bytes(),
            merged: device.merged_bytes(),
            ethernet: device.medium() == Medium::Ethernet,
            stacked: device.is_stacked(),
            up: device.is_up(),
        }
    }
}

/// What is counted of both.
#[derive(Default)]
pub(crate) struct Counts {
    /// Of pauses that were heard.
    pub(crate) heard: pause::Counters,
    /// The same of each priority, if data has some.
    pub(crate) of_priorities: Option<[pause::PartCounters; PRIORITIES as usize]>,
    pub(crate) refused: u64,
    /// Of pauses that were sent, while others are paused: what is allowed, what is held, and what
    /// was counted.
    pub(crate) sent: Option<(AsItIs, ledger::Counters)>,
}

/// What may wait of what came in by the device, and what does.
pub(crate) struct AsItIs {
    pub(crate) xoff: u64,
    pub(crate) xon: u64,
    pub(crate) headroom: u64,
    pub(crate) held: u64,
}

/// What is owed to the other end.
pub(crate) struct Owed {
    /// The frame that leaves before all else.
    pub(crate) debt: Option<Debt>,
    /// When to look again.
    pub(crate) next: Option<Nanos>,
}

impl Ear {
    /// For a port with this configuration, on a link as it is now.
    #[inline(never)]
    pub(crate) fn new(
        pfc: &Pfc,
        config: &Config,
        resolved: &Resolved,
        link: Link,
        tally: Option<Tally>,
    ) -> Result<Self> {
        let inner = Inner {
            pauses: Pauses::new(pfc.data, resolved.link_rate, pfc.watchdog),
            refused: 0,
            ledger: Ledger::new(pfc.data),
            allowance: None,
            up: link.up,
        };
        let mut ear = Self(KBox::new(inner, GFP_KERNEL)?);
        ear.set(config, resolved, link, tally);
        Ok(ear)
    }

    /// Another configuration, or another speed of the link. Of another priority nothing was heard.
    /// `tally`: what ports count together that share a buffer, if that may be new. `true`: the port
    /// has a frame to send.
    #[inline(never)]
    pub(crate) fn set(
        &mut self,
        config: &Config,
        resolved: &Resolved,
        link: Link,
        tally: Option<Tally>,
    ) -> bool {
        let Some(pfc) = &config.pfc else {
            return false;
        };
        let now = now();
        let inner = &mut *self.0;
        if pfc.data != inner.pauses.scope() {
            inner.pauses.speak_of(now, pfc.data);
            inner.ledger.close(now);
            inner.ledger.name(pfc.data);
        }
        inner.pauses.set(now, resolved.link_rate, pfc.watchdog);
        // A link that is down forgets what was said, at both ends.
        if !link.up {
            inner.pauses.reset(now);
        }
        let again = link.up && !inner.up && inner.ledger.repeat();
        inner.up = link.up;
        inner.allowance = config.allowance(resolved, link.frame, link.merged);
        let share = pfc.generate.and_then(|generate| generate.share);
        if let (Some(share), Some(tally)) = (share, tally) {
            inner.ledger.share(share.buffer.into(), tally);
        }
        let owes = match &inner.allowance {
            Some(allowance) if !allowance.is_unresolved() => {
                let limits = allowance.limits();
                let rate = &resolved.link_rate;
                inner.ledger.open(now, new_epoch(), limits, rate)
            }
            _ => inner.ledger.close(now),
        };
        again | owes
    }

    /// What pauses come to for data.
    pub(crate) fn heard_of_data(&self, now: Nanos) -> Heard {
        Heard::of(&self.0.pauses, now)
    }

    /// [`Ear::heard_of_data`], and what is owed. `progress`: what became of data meanwhile.
    #[inline]
    pub(crate) fn says(&mut self, now: Nanos, progress: &Progress) -> (Heard, Option<Owed>) {
        self.0.pauses.note(now, progress);
        let heard = self.heard_of_data(now);
        let inner = &mut *self.0;
        (heard, inner.ledger.is_busy().then(|| inner.owed(now)))
    }

    pub(crate) fn ledger(&mut self) -> &mut Ledger {
        &mut self.0.ledger
    }

    /// What was counted of data, and the frames that said nothing.
    #[inline(never)]
    pub(crate) fn count(&self, now: Nanos, to: &mut Counts) {
        let inner = &*self.0;
        to.heard = inner.pauses.counters(now);
        to.of_priorities = inner.pauses.of_priorities(now);
        to.refused = inner.refused;
        to.sent = inner
            .allowance
            .map(|allowance| (inner.as_it_is(allowance), inner.ledger.counters(now)));
    }
}

impl Inner {
    /// With a shared buffer the thresholds follow what is free in it.
    fn as_it_is(&self, allowance: Allowance) -> AsItIs {
        let gap = allowance.xoff.saturating_sub(allowance.xon);
        let xoff = match allowance.share {
            Some(_) => self.ledger.threshold(),
            None => allowance.xoff,
        };
        AsItIs {
            xoff,
            xon: xoff.saturating_sub(gap),
            headroom: allowance.headroom,
            held: self.ledger.held(),
        }
    }

    #[cold]
    #[inline(never)]
    fn owed(&mut self, now: Nanos) -> Owed {
        Owed {
            debt: self.ledger.debt(now),
            next: self.ledger.next(),
        }
    }
}

impl Listener for Ear {
    type News = Result<Frame, Refused>;

    #[inline]
    fn sift(packet: &knet::Heard<'_>) -> Option<Self::News> {
        if packet.protocol() != ETHERTYPE {
            return None;
        }
        let mut buffer: HeaderBuffer = [0; size_of::<HeaderBuffer>()];
        let (_, payload) = packet.network(&mut buffer);
        Some(Frame::parse(packet.destination()?, payload))
    }

    /// What ends a pause, or makes it shorter, gives the port packets to send.
    fn heard(&mut self, news: Self::News) -> bool {
        let inner = &mut *self.0;
        let Ok(frame) = news else {
            inner.refused = inner.refused.wrapping_add(1);
            return false;
        };
        let now = now();
        let before = inner.pauses.state(now);
        inner.pauses.heard(now, &frame);
        match (before, inner.pauses.state(now)) {
            (State::Open, _) => false,
            (_, State::Open) => true,
            (State::Paused { until: before }, State::Paused { until }) => until < before,
            _ => false,
        }
    }
    /// The other end must not be silent until its pause is over: nobody is there to repeat or end
    /// it.
    fn last_word(&mut self) -> Option<LastWord> {
        let frame = self.0.ledger.last_word(now())?;
        Some(frame.write([0; 6]))
    }
}
