// SPDX-License-Identifier: GPL-2.0
//! A link with a peer that sends, obeys pauses and is as bad as the standard allows, and a port of
//! ours that holds what comes and asks for pauses. All that is between is real: the bytes of the
//! control frames, [`Pauses`] at the peer, [`Ingress`] here.
//!
//! Time is in ticks of 10 ps, of which a byte takes a whole number on the links that are tested.

use crate::pfc::frame::{Frame, DESTINATION};
use crate::pfc::headroom::{Headroom, FRAME_WIRE_LEN};
use crate::pfc::ingress::{Counters, Fits, Ingress, Limits, Pool, Send, Xoff};
use crate::pfc::pause::{Pauses, State};
use crate::pfc::scope::Scope;
use crate::units::{Nanos, Rate};
use std::collections::VecDeque;
use std::vec::Vec;

const NEVER: u64 = u64::MAX;
const TICKS_PER_NANO: u64 = 100;
pub(super) const PRIORITY: u8 = 3;
/// The shortest frame on the wire.
pub(super) const SHORTEST: u32 = 84;

/// splitmix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 to `most`.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        self.next() % (most + 1)
    }

    fn one_in(&mut self, parts: u64) -> bool {
        self.next() % parts == 0
    }
}

/// What the worst case's peer sends until it obeys, again and again: frames until the threshold is
/// reached exactly, one that does not fit, such as fill the link exactly until the last moment in
/// which one may begin, and the longest then.
fn worst(model: &Headroom, byte: u64, before: u32) -> Vec<u32> {
    let flown = (2 * model.delay.0 + model.late.0) * TICKS_PER_NANO / byte;
    let most = model.theirs;
    let mut fill = u64::from(model.ours + FRAME_WIRE_LEN + 64 * model.response) + flown;
    let mut frames = std::vec![most; before as usize + 1];
    while fill > 0 {
        let len = fill.min(most.into()) as u32;
        // What is left has to be a frame, too.
        let short = fill > u64::from(len) && fill - u64::from(len) < SHORTEST.into();
        let len = if short { len - SHORTEST } else { len };
        frames.push(len);
        fill -= u64::from(len);
    }
    frames.push(most);
    frames
}

/// How the peer, our other traffic and what empties our buffer behave.
pub(super) enum Adversary {
    /// As [`worst`] has it, with so many frames below the threshold.
    Worst(u32),
    /// Anything that the model allows, by chance.
    Any(Random),
}

/// What came of it.
pub(super) struct Outcome {
    pub(super) counters: Counters,
    /// The most that was held beyond the threshold.
    pub(super) beyond: u64,
    pub(super) refused_to_begin: u64,
}

pub(super) struct Wire {
    model: Headroom,
    /// Ticks of a byte.
    byte: u64,
    xoff: u64,
    adversary: Adversary,
    // The peer.
    cycle: Vec<u32>,
    at: usize,
    link_free: u64,
    next_start: u64,
    pauses: Pauses,
    waited: u64,
    /// Control frames, and when the peer heeds them.
    heeded: VecDeque<(u64, Frame)>,
    /// Frames, and when they have come.
    flying: VecDeque<(u64, u32)>,
    // We.
    ingress: Ingress,
    pool: Pool,
    held: VecDeque<u32>,
    next_leave: u64,
    sends: Option<Send>,
    next_send: u64,
    busy_until: u64,
    last_heeded: u64,
}

impl Wire {
    /// `headroom` bytes beyond `xoff`.
    pub(super) fn new(model: Headroom, xoff: u64, headroom: u64, adversary: Adversary) -> Self {
        let xon = match &adversary {
            Adversary::Worst(_) => 0,
            Adversary::Any(_) => xoff - u64::from(model.theirs),
        };
        let limits = Limits {
            xoff: Xoff::Fixed { xoff, xon },
            headroom,
        };
        let byte = 100_000_000_000 / model.rate.bytes_per_sec();
        assert_eq!(byte * model.rate.bytes_per_sec(), 100_000_000_000);
        let cycle = match &adversary {
            Adversary::Worst(before) => worst(&model, byte, *before),
            Adversary::Any(_) => Vec::new(),
        };
        Self {
            byte,
            xoff,
            adversary,
            cycle,
            at: 0,
            link_free: 0,
            next_start: 0,
            pauses: Pauses::new(Scope::one(PRIORITY), model.rate, Nanos::MAX),
            waited: 0,
            heeded: VecDeque::new(),
            flying: VecDeque::new(),
            ingress: Ingress::new(limits, &model.rate),
            pool: Pool::new(xoff),
            held: VecDeque::new(),
            next_leave: NEVER,
            sends: None,
            next_send: NEVER,
            busy_until: 0,
            last_heeded: 0,
            model,
        }
    }

    /// Until so many frames were sent, or one was dropped.
    pub(super) fn run(mut self, frames: u64) -> Outcome {
        let (mut sent, mut beyond) = (0, 0);
        while sent < frames && self.ingress.counters().drops == 0 {
            let comes = self.flying.front().map_or(NEVER, |it| it.0);
            let heeds = self.heeded.front().map_or(NEVER, |it| it.0);
            let refresh = self.ingress.refresh_at();
            let refresh = refresh.map_or(NEVER, |at| at.0 * TICKS_PER_NANO);
            let now = comes
                .min(heeds)
                .min(refresh)
                .min(self.next_start)
                .min(self.next_leave)
                .min(self.next_send);
            assert_ne!(now, NEVER, "nothing goes on");
            // What comes is counted before anything leaves, and a frame that may begin begins.
            if now == comes {
                self.come(now);
                beyond = beyond.max(self.ingress.held().saturating_sub(self.xoff));
            } else if now == self.next_start {
                sent += u64::from(self.start(now));
            } else if now == self.next_send {
                self.send(now);
            } else if now == heeds {
                self.heed(now);
            } else if now == refresh {
                let send = self.ingress.refresh(nanos(now));
                self.decide(now, send);
            } else {
                self.leave(now);
            }
        }
        Outcome {
            counters: self.ingress.counters(),
            beyond,
            refused_to_begin: self.waited,
        }
    }

    fn ticks(&self, bytes: u64) -> u64 {
        bytes * self.byte
    }

    /// The peer begins a frame, if it may.
    fn start(&mut self, now: u64) -> bool {
        match self.pauses.state(nanos(now)) {
            State::Paused { until } => {
                self.next_start = until.0 * TICKS_PER_NANO;
                self.waited += 1;
                return false;
            }
            State::Watchdog => panic!("there is no watchdog"),
            State::Open => {}
        }
        let (len, gap) = match &mut self.adversary {
            Adversary::Worst(_) => {
                let len = self.cycle[self.at];
                self.at = (self.at + 1) % self.cycle.len();
                (len, 0)
            }
            Adversary::Any(random) => {
                let spread = u64::from(self.model.theirs - SHORTEST);
                let len = match random.up_to(3) {
                    0 => SHORTEST + random.up_to(spread) as u32,
                    1 => SHORTEST,
                    _ => self.model.theirs,
                };
                let gap = if random.one_in(10) {
                    random.up_to(u64::from(self.model.theirs) * 4 * self.byte)
                } else {
                    0
                };
                (len, gap)
            }
        };
        self.link_free = now + self.ticks(len.into());
        self.next_start = self.link_free + gap;
        let delay = self.model.delay.0 * TICKS_PER_NANO;
        self.flying.push_back((self.link_free + delay, len));
        true
    }

    /// A frame has come.
    fn come(&mut self, now: u64) {
        let Some((_, len)) = self.flying.pop_front() else {
            return;
        };
        let (fits, send) = self.ingress.arrive(nanos(now), len, &mut self.pool);
        if fits != Fits::No {
            self.held.push_back(len);
        }
        let all = self.ticks(self.model.after_pause()) + 10_000_000;
        match &mut self.adversary {
            // Nothing leaves until all has come.
            Adversary::Worst(_) if send.is_some() => self.next_leave = now + all,
            Adversary::Worst(_) => {}
            Adversary::Any(_) if self.next_leave == NEVER => {
                self.next_leave = now + self.service();
            }
            Adversary::Any(_) => {}
        }
        self.decide(now, send);
    }

    /// How long the frame that is to leave next takes.
    fn service(&mut self) -> u64 {
        let frame = u64::from(self.model.theirs) * self.byte;
        let Adversary::Any(random) = &mut self.adversary else {
            return 0;
        };
        if random.one_in(50_000) {
            // Longer than a pause: it has to be refreshed.
            65_536 * 64 * self.byte * (1 + random.up_to(2))
        } else if random.one_in(100) {
            random.up_to(40 * frame)
        } else {
            random.up_to(3 * frame / 2)
        }
    }

    /// The frame that is first leaves our buffer.
    fn leave(&mut self, now: u64) {
        let Some(len) = self.held.pop_front() else {
            self.next_leave = NEVER;
            return;
        };
        let send = self.ingress.leave(len, &mut self.pool);
        self.next_leave = if self.held.is_empty() {
            NEVER
        } else {
            now + self.service()
        };
        self.decide(now, send);
    }

    /// A control frame has to go. Another frame is on the wire, of whatever length is worst.
    fn decide(&mut self, now: u64, send: Option<Send>) {
        let Some(send) = send else {
            return;
        };
        if self.sends.replace(send).is_none() {
            if self.busy_until <= now {
                let other = match &mut self.adversary {
                    Adversary::Worst(_) => self.model.ours.into(),
                    Adversary::Any(random) => random.up_to(self.model.ours.into()),
                };
                self.busy_until = now + self.ticks(other);
            }
            self.next_send = self.busy_until;
        }
    }

    /// The control frame leaves.
    fn send(&mut self, now: u64) {
        self.next_send = NEVER;
        let Some(send) = self.sends.take() else {
            return;
        };
        self.busy_until = now + self.ticks(FRAME_WIRE_LEN.into());
        let most = self.ticks(u64::from(self.model.response) * 64);
        let most = most + self.model.late.0 * TICKS_PER_NANO;
        let reaction = match &mut self.adversary {
            Adversary::Worst(_) => most,
            Adversary::Any(random) => random.up_to(most),
        };
        let at = self.busy_until + self.model.delay.0 * TICKS_PER_NANO + reaction;
        self.last_heeded = self.last_heeded.max(at);
        let bytes = Frame::one(PRIORITY, send.quanta).write([2; 6]);
        let frame = Frame::parse(&DESTINATION, &bytes[14..]).expect("a frame");
        self.heeded.push_back((self.last_heeded, frame));
    }

    /// The peer heeds a control frame.
    fn heed(&mut self, now: u64) {
        let Some((_, frame)) = self.heeded.pop_front() else {
            return;
        };
        self.pauses.heard(nanos(now), &frame);
        if self.pauses.state(nanos(now)) == State::Open && self.next_start > self.link_free {
            self.next_start = now.max(self.link_free);
        }
    }
}

fn nanos(ticks: u64) -> Nanos {
    Nanos(ticks / TICKS_PER_NANO)
}

/// Of so many Gbit/s.
pub(super) fn rate(gbit: u64) -> Rate {
    Rate::from_bytes_per_sec(gbit * 125_000_000).expect("a rate")
}
