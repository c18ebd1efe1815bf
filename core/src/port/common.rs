// SPDX-License-Identifier: GPL-2.0
//! What the ports of a device's transmit queues have in common: the link, the token group, the
//! share of signals.
//!
//! Each queue has a [`Port`](super::Port) of its own, with its own lock, on its own processor: a
//! *member*. What they share is here, behind one lock that is held for a few steps, whatever the
//! number of members. [`Common::claim`] is all that a dequeue does with it: the member says what is
//! at the head of its queues (an [`Offer`]), and learns which of them may leave, or when to come
//! back. A packet that may leave is charged at once. So over all queues, and to the nanosecond,
//! there is one schedule of the link and one of the group, as in a port that is alone.
//!
//! # Whose turn it is
//!
//! Members that have something to send stand in *rings*: one for signals, one for tokens of each
//! priority, one for data, one for unscheduled packets. A member is in each ring that it has a
//! packet for, of those for tokens in that of its best one. The first ring that may be served, in
//! the order of a port's bands, is whose turn it is; and in a ring it is the member's at its head.
//! So precedence is strict between queues: a token that is due goes before data of any queue, and
//! before tokens of a lower priority. In the ring of data, turns are by bytes (deficit round
//! robin): a member stays at the head until it has sent as much as a super-packet may have, or a
//! full frame, and so bytes are shared equally among those that are busy, whatever their packets'
//! lengths. In the others they are by packets.
//!
//! A member that is alone is always at the head: it has all of the link.
//!
//! # Who comes when
//!
//! Only a member itself can send its packets, so whoever finds that it is another one's turn leaves
//! the link to it. That one may be late, and may not come at all: the driver has stopped its queue.
//! So once the link has been free and nobody used it, whoever is there may, with its own packet for
//! that ring or for one behind it, until the link's schedule is made up for. Who was late keeps its
//! place for [`grace`](Common::set), the machine's jitter, from the time on at which it was to
//! come. Then it has lost it, until it comes: with its first packet, whoever's turn that is, as it
//! would otherwise never have any where it is as late each time; but not while a token waits, nor
//! if the link is then busy for longer than the jitter. Thus
//!
//! - data of other queues delays a token by one packet, which is being sent when the token is due,
//!   if the token's own processor is late, by one more when it comes, and by the jitter if a queue
//!   that has lost its turn came just before;
//! - a member that does not come delays nobody for longer than until the next one comes.
//!
//! Who waits and is not next would have to look again and again. Instead whoever takes a turn says
//! who is next (a [`Kick`]), and when; its caller sets that member's timer. Who waits has a timer
//! of its own all the same, for the time when the one before it has surely lost its place.
//!
//! # Idle and late
//!
//! As in a port that is alone: the link is idle while nobody is in a ring for it, the group while
//! nobody is in one of tokens. Idle time earns nothing, lateness is made up for within the slack.
//!
//! # Without a shaped link
//!
//! Then a device's queues are the hardware's to serve, and a port need ask nobody for anything but
//! tokens, and for signals once in 4 KiB.

mod rings;

use core::ops::DerefMut;

pub use self::rings::Member;
use self::rings::{Kind, Rings, TOKEN_RINGS};
use super::arrivals::{Arrivals, Coming};
use super::link_slack;
use super::signals::Policer;
use crate::port::config::{Config, Order, Resolved, FRAME_WIRE_LEN, TOKEN_WIRE_LEN, WHOLE_ALL};
use crate::queue::Framing;
use crate::shaper::Shaper;
use crate::units::{Nanos, Rate};

/// Bytes of data that a member may send in a row where super-packets of any length stay whole.
const LONGEST_TURN: u32 = 1 << 16;
/// So many that have lost their places are passed over at once.
const LOOKS: u32 = 8;
/// The least time after which somebody looks again whose turn it was not.
const LOOK_AGAIN: Nanos = Nanos(1_000);

/// The packet that a member has at the head of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes on the wire.
    pub wire_len: u32,
    /// There are others behind it.
    pub more: bool,
}

/// The token that a member would send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its priority.
    pub priority: u8,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// Wire packets.
    pub segs: u32,
    /// The priority of the one behind it, if there is one.
    pub then: Option<u8>,
}

/// What a member has to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// A signal.
    pub signal: Option<Head>,
    /// A token.
    pub token: Option<Token>,
    /// Since when the member has tokens.
    pub since: Nanos,
    /// Data.
    pub data: Option<Head>,
    /// An unscheduled packet.
    pub unscheduled: Option<Head>,
}

/// What a member may send now: the head of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The signal.
    Signal,
    /// The token.
    Token,
    /// The data.
    Data,
    /// The unscheduled packet.
    Unscheduled,
}

/// A member's timer is to be set to this time: it is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kick {
    /// The member.
    pub member: u32,
    /// When it is to ask for a packet.
    pub at: Nanos,
}

/// The answer to an [`Offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// What leaves now.
    pub grant: Option<Grant>,
    /// If nothing does: when to ask again. [`Nanos::MAX`]: when there is something to offer.
    pub wait: Nanos,
    /// Somebody may say before that that it is this member's turn: whoever sets the timer has to do
    /// so before anybody else can claim.
    pub kicked: bool,
    /// When the group's next token may leave.
    pub next: Nanos,
    /// By how much the group was later than its slack.
    pub forfeited: Nanos,
    /// The member stands in a ring.
    pub known: bool,
    /// Who is next.
    pub kicks: [Option<Kick>; 2],
}

/// What the ports of a device's queues share. See the module's documentation.
#[derive(Debug)]
pub struct Common<M> {
    rings: Rings<M>,
    link: Option<Shaper>,
    group: Shaper,
    order: Order,
    /// With data first: data went while a token was due.
    passed: bool,
    /// How long a turn is kept for who does not come.
    grace: Nanos,
    /// Bytes of data in a row.
    turn: u32,
    /// After what time somebody looks again whose turn it was not.
    patience: Nanos,
    signals: Policer,
    arrivals: Arrivals,
    link_rate: Rate,
    /// How many tokens have left ever, and their bytes on the wire.
    sent: [u64; 2],
}

impl<M: DerefMut<Target = [Member]>> Common<M> {
    /// Of these members, which are [`Member::ABSENT`], one for each queue. Set it up with
    /// [`Common::begin`] where it stays: it is large.
    #[inline(always)]
    pub fn new(members: M) -> Self {
        Self {
            rings: Rings::new(members),
            link: None,
            group: Shaper::EMPTY,
            order: Order::TokensFirst,
            passed: false,
            grace: Nanos::ZERO,
            turn: FRAME_WIRE_LEN,
            patience: LOOK_AGAIN,
            signals: Policer::OFF,
            arrivals: Arrivals::NONE,
            link_rate: Rate::UNLIMITED,
            sent: [0; 2],
        }
    }

    /// Sets it up, where it is. `resolved` is what `config` comes to.
    pub fn begin(&mut self, config: &Config, resolved: &Resolved, now: Nanos) {
        self.group.begin(resolved.token_rate, Nanos::ZERO, now);
        self.set(config, resolved, now);
    }

    /// Another configuration, or speed of the device, from now on. `resolved` is what `config`
    /// comes to. Rates change without losing the schedule. Afterwards all members have to ask.
    pub fn set(&mut self, config: &Config, resolved: &Resolved, now: Nanos) {
        self.order = config.order;
        self.grace = config.jitter;
        self.link_rate = resolved.link_rate;
        self.group.set_beyond(&resolved.token_beyond);
        self.group
            .set_rate(resolved.token_rate, resolved.slack, now, TOKEN_WIRE_LEN);
        let slack = link_slack(resolved.link_rate, config.jitter);
        self.link = match self.link.take() {
            _ if !resolved.shaped => None,
            None => Some(Shaper::new(resolved.link_rate, slack, now)),
            Some(mut link) => {
                link.set_rate(resolved.link_rate, slack, now, FRAME_WIRE_LEN);
                Some(link)
            }
        };
        self.signals.set(resolved.signal_rate, config.jitter, now);
        self.turn = match resolved.whole {
            WHOLE_ALL => LONGEST_TURN,
            whole => whole.max(FRAME_WIRE_LEN),
        };
        let turn = match self.link {
            Some(_) => resolved.link_rate.duration(self.turn),
            None => resolved.interval,
        };
        self.patience = (self.grace + turn).max(LOOK_AGAIN);
    }

    /// The member has nothing any more.
    pub fn withdraw(&mut self, who: u32) {
        for kind in Kind::ALL {
            self.rings.take_out(who, kind);
        }
        self.rings.forgive(who);
    }

    /// The member was reset. When nobody has anything, what was sent when is forgotten.
    pub fn reset(&mut self, who: u32) {
        self.withdraw(who);
        if self.rings.are_empty() {
            self.passed = false;
            self.group.reset();
            self.signals.reset();
            if let Some(link) = &mut self.link {
                link.reset();
            }
        }
    }

    /// May one of the packets that `who` offers leave now? It is charged.
    ///
    /// A function of its own, so that a profile shows what is done with the lock.
    #[inline(never)]
    pub fn claim(&mut self, now: Nanos, who: u32, offer: &Offer) -> Claimed {
        let mut offer = *offer;
        if self.link.is_none() {
            (offer.signal, offer.data, offer.unscheduled) = (None, None, None);
        }
        self.arrive(now, &offer);
        self.stand(who, &offer);
        let granted = self.decide(now, who, &offer);
        let forfeited = match granted {
            Some(kind) => self.take(now, who, kind, &offer),
            None => Nanos::ZERO,
        };
        let (wait, kicked) = match granted {
            // It asks again at once.
            Some(_) => (now, false),
            None => self.wait(now, who, &offer),
        };
        self.rings.set_due(who, wait);
        Claimed {
            grant: granted.map(Kind::grant),
            wait,
            kicked,
            next: self.group.next(),
            forfeited,
            known: self.rings.knows(who),
            kicks: self.next(now, who),
        }
    }

    /// A token arrives at a member, and the link has carried `owed` bytes that nothing asked for;
    /// as [`Port::give_way`](super::Port::give_way). `high`: it is of the first half of the
    /// priorities.
    pub(super) fn give_way(&mut self, now: Nanos, owed: u32, high: bool) -> u32 {
        let (delay, settled) = self.arrivals.put_off(&Coming {
            now,
            owed,
            sent: self.sent,
            // They are counted as on the wire.
            framing: Framing::EMPTY,
            rate: self.link_rate,
            next: self.group.next(),
            high,
        });
        if delay != Nanos::ZERO {
            if !self.rings.have(Kind::Token) {
                self.group.arrive(now);
            }
            self.group.delay(delay);
            self.arrivals.delayed(self.group.next());
        }
        settled
    }

    /// Pays for a signal of `wire_len` bytes at a member. How much more was bought, which is the
    /// member's; `None`: it is excess.
    pub(super) fn buy(
        &mut self,
        now: Nanos,
        wire_len: u32,
        kept: impl FnOnce() -> bool,
    ) -> Option<u64> {
        self.signals.buy(now, wire_len, kept)
    }

    /// Whoever was idle until now begins no earlier.
    fn arrive(&mut self, now: Nanos, offer: &Offer) {
        let waited = self.rings.have(Kind::Token);
        if offer.token.is_some() && !waited {
            self.group.arrive(offer.since.min(now));
        }
        let Some(link) = &mut self.link else {
            return;
        };
        if self.rings.have_but_tokens() {
            return;
        }
        // As `Port::idle_until` has it.
        link.arrive(match waited || offer.token.is_some() {
            true => now.min(self.group.next()),
            false => now,
        });
    }

    /// The member stands where it has something to send, and nowhere else.
    fn stand(&mut self, who: u32, offer: &Offer) {
        let rings = [
            (Kind::Signal, offer.signal.map(|_| 0)),
            (Kind::Token, offer.token.map(|token| token.priority)),
            (Kind::Data, offer.data.map(|_| 0)),
            (Kind::Unscheduled, offer.unscheduled.map(|_| 0)),
        ];
        for (kind, priority) in rings {
            match priority {
                Some(priority) => {
                    // Only data has turns by bytes: who has a token now and then is no newcomer.
                    if self.rings.stand(who, kind, priority) && kind == Kind::Data {
                        self.rings.set_credit(who, self.turn.into());
                    }
                }
                None => self.rings.take_out(who, kind),
            }
        }
    }

    /// In what order bands are served now.
    fn order(&self) -> [Kind; 4] {
        match self.order == Order::DataFirst && !self.passed {
            true => [Kind::Signal, Kind::Data, Kind::Token, Kind::Unscheduled],
            false => [Kind::Signal, Kind::Token, Kind::Data, Kind::Unscheduled],
        }
    }

    /// Whose turn it is, if it is that of `who`: with what.
    fn decide(&mut self, now: Nanos, who: u32, offer: &Offer) -> Option<Kind> {
        if self.rings.has_missed(who) {
            if let Some(kind) = self.missed(now, who, offer) {
                return Some(kind);
            }
        }
        if self.link.as_ref().is_some_and(|link| !link.ready(now)) {
            return None;
        }
        // The link has been free for a while, and whose turn it is has not come.
        let behind = self.link.as_ref().is_some_and(|link| link.next() < now);
        for kind in self.order() {
            if kind == Kind::Token && !self.group.ready(now) {
                continue;
            }
            let mut looks: u32 = 0;
            while let Some(head) = self.rings.head(kind) {
                looks = looks.wrapping_add(1);
                if head == who {
                    if kind != Kind::Data || !self.gives_up(who) {
                        return Some(kind);
                    }
                } else if looks > LOOKS {
                    // Enough of them.
                    match offer.has(kind) {
                        true => return Some(kind),
                        false => break,
                    }
                } else if now > self.rings.due(head) + self.grace {
                    self.rings.miss(head, kind);
                    continue;
                } else if behind {
                    match offer.has(kind) {
                        true => return Some(kind),
                        false => break,
                    }
                } else {
                    return None;
                }
                if looks > LOOKS {
                    return Some(kind);
                }
            }
        }
        None
    }

    /// What the member may send because it did not come when it was its turn, if it is that. Not
    /// while a token waits, or if the link were busy for longer than the machine's jitter: it would
    /// add up.
    fn missed(&mut self, now: Nanos, who: u32, offer: &Offer) -> Option<Kind> {
        for kind in Kind::ALL {
            if !offer.has(kind) {
                self.rings.make_up(who, kind);
            }
        }
        if self.rings.have(Kind::Token) && self.group.next() < now {
            return None;
        }
        let most = self.grace.max(self.link_rate.duration(FRAME_WIRE_LEN));
        let free = self.link.as_ref().map_or(now, Shaper::next);
        let mut order = self.order().into_iter();
        order.find(|&kind| {
            let len = match kind {
                Kind::Token => offer.token.map_or(0, |token| token.wire_len),
                kind => offer.head(kind).map_or(0, |head| head.wire_len),
            };
            let may = offer.has(kind) && (kind != Kind::Token || self.group.ready(now));
            let ends = free + self.link_rate.duration(len);
            may && ends <= now + most && self.rings.make_up(who, kind)
        })
    }

    /// The member at the head of the ring of data has sent more than its turn, with a packet that
    /// was longer: then it lets others go first, if there are any.
    fn gives_up(&mut self, who: u32) -> bool {
        let credit = self.rings.credit(who);
        if credit > 0 || !self.rings.turn(who, Kind::Data) {
            return false;
        }
        self.rings
            .set_credit(who, credit.saturating_add(self.turn.into()));
        true
    }

    /// The packet leaves. Returns the time that the group forfeits.
    fn take(&mut self, now: Nanos, who: u32, kind: Kind, offer: &Offer) -> Nanos {
        let due = self.rings.have(Kind::Token) && self.group.ready(now);
        let mut forfeited = Nanos::ZERO;
        let (wire_len, more) = match (kind, offer.token, offer.head(kind)) {
            (Kind::Token, Some(token), _) => {
                forfeited = match token.segs {
                    1 => self.group.charge(now, token.wire_len),
                    segs => self.group.charge_super(now, token.wire_len, segs),
                };
                self.sent[0] = self.sent[0].wrapping_add(token.segs.into());
                self.sent[1] = self.sent[1].wrapping_add(token.wire_len.into());
                self.rings.take_out(who, kind);
                if let Some(then) = token.then {
                    self.rings.stand(who, kind, then);
                }
                (token.wire_len, true)
            }
            (_, _, Some(head)) => (head.wire_len, head.more),
            // Nothing is granted that was not offered.
            _ => return forfeited,
        };
        if let Some(link) = &mut self.link {
            link.charge(now, wire_len);
        }
        match kind {
            Kind::Token => {
                let waits = self.rings.have(Kind::Token) && self.group.ready(now);
                self.passed = self.passed && waits;
            }
            Kind::Data => {
                self.passed = due;
                let credit = self.rings.credit(who).saturating_sub(wire_len.into());
                self.rings.set_credit(who, credit);
                if more && credit <= 0 {
                    // Who is alone owes nobody anything.
                    let owed = match self.rings.turn(who, kind) {
                        true => credit,
                        false => 0,
                    };
                    let turn = i64::from(self.turn);
                    self.rings.set_credit(who, owed.saturating_add(turn));
                }
            }
            Kind::Signal | Kind::Unscheduled => {
                self.rings.turn(who, kind);
            }
        }
        if !more {
            self.rings.take_out(who, kind);
        }
        forfeited
    }

    /// When the link is free, and when a token may leave.
    fn free(&self, now: Nanos) -> (Nanos, Nanos) {
        let free = self.link.as_ref().map_or(now, |link| link.next().max(now));
        (free, self.group.next().max(free))
    }

    /// Who is next but tokens, if these are not before it.
    fn next_but_tokens(&self, (free, due): (Nanos, Nanos)) -> Option<u32> {
        for kind in self.order() {
            match self.rings.head(kind) {
                Some(_) if kind == Kind::Token && due > free => {}
                Some(_) if kind == Kind::Token => return None,
                Some(head) => return Some(head),
                None => {}
            }
        }
        None
    }

    /// When the member is to ask again, and whether somebody else may say so before.
    fn wait(&self, now: Nanos, who: u32, offer: &Offer) -> (Nanos, bool) {
        let (free, due) = self.free(now);
        let mut first = Nanos::MAX;
        let mut last = Nanos::MAX;
        if offer.token.is_some() {
            match self.rings.head(Kind::Token) == Some(who) && due > now {
                true => first = due,
                false => last = due + self.patience,
            }
        }
        if offer.signal.or(offer.data).or(offer.unscheduled).is_some() {
            match self.next_but_tokens((free, due)) == Some(who) && free > now {
                true => first = first.min(free),
                false => last = last.min(free + self.patience),
            }
        }
        (first.min(last), last != Nanos::MAX)
    }

    /// Who has to be told that it is next, now that it is not the turn of `who`.
    fn next(&mut self, now: Nanos, who: u32) -> [Option<Kick>; 2] {
        let (free, due) = self.free(now);
        let token = self.rings.head(Kind::Token).map(|head| (head, due));
        let other = self.next_but_tokens((free, due)).map(|head| (head, free));
        [token, other].map(|next| {
            let (member, at) = next.filter(|&(member, _)| member != who)?;
            if self.rings.due(member) <= at {
                return None;
            }
            self.rings.set_due(member, at);
            Some(Kick { member, at })
        })
    }
}

impl Offer {
    /// Is nothing offered?
    pub(super) fn is_empty(&self) -> bool {
        let heads = self.signal.or(self.data).or(self.unscheduled);
        heads.is_none() && self.token.is_none()
    }

    fn head(&self, kind: Kind) -> Option<Head> {
        match kind {
            Kind::Signal => self.signal,
            Kind::Token => None,
            Kind::Data => self.data,
            Kind::Unscheduled => self.unscheduled,
        }
    }

    fn has(&self, kind: Kind) -> bool {
        match kind {
            Kind::Token => self.token.is_some(),
            kind => self.head(kind).is_some(),
        }
    }
}

impl Kind {
    fn grant(self) -> Grant {
        match self {
            Kind::Signal => Grant::Signal,
            Kind::Token => Grant::Token,
            Kind::Data => Grant::Data,
            Kind::Unscheduled => Grant::Unscheduled,
        }
    }
}

const _: () = assert!(TOKEN_RINGS == crate::port::band::Band::MAX_PRIORITIES as usize);
