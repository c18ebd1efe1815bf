// SPDX-License-Identifier: GPL-2.0
//! Values of options that are more than a number.

use crate::options::{number, Field, Given, Kind, Problem, Refusal, Share, Value};
use crate::pfc::ingress::Alpha;
use crate::pfc::scope::Scope;
use crate::port::uapi::{self, class, option};
use crate::units::Nanos;

/// The token group's rate.
pub type Tokens = Share;

/// At what rate a phantom queue drains.
pub type Drain = Share;

/// A phantom queue; see [`crate::port::marker::phantom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phantom {
    /// The rate at which it drains.
    pub drain: Drain,
    /// Bytes: packets that find more in it are marked.
    pub mark: u32,
}

/// [`uapi::PHANTOM_OFF`]: no queue, as an attribute has it.
const OFF: Drain = Drain::Share(uapi::PHANTOM_OFF);

impl Field for Option<Phantom> {
    const KIND: Kind = Kind::U32;

    fn get(&self, number: u16) -> Option<Value> {
        match (self, number) {
            (Some(phantom), option::PHANTOM_MARK) => Some(Value::U32(phantom.mark)),
            (None, option::PHANTOM_MARK) => None,
            (phantom, _) => phantom.map_or(OFF, |phantom| phantom.drain).get(number),
        }
    }

    /// What is not on is made one with a part missing, which `settle` completes or refuses.
    fn set(&mut self, number: u16, value: Value) -> bool {
        let phantom = self.get_or_insert(Phantom {
            drain: OFF,
            mark: 0,
        });
        match number {
            option::PHANTOM_MARK => phantom.mark.set(number, value),
            _ => phantom.drain.set(number, value),
        }
    }
}

/// Makes a phantom queue of what a request says of its parts: what is on and not given stays, what
/// is off needs both. `before` is as it was.
pub(super) fn settle(
    phantom: &mut Option<Phantom>,
    before: bool,
    given: Given,
) -> Result<(), Refusal> {
    let drain = given.has(option::PHANTOM_SHARE) || given.has(option::PHANTOM_RATE64);
    let mark = given.has(option::PHANTOM_MARK);
    let off = phantom.is_some_and(|phantom| phantom.drain == OFF);
    let said = match (drain, mark, before) {
        (true, true, _) if off => ("phantom mark", "the phantom queue is off"),
        (true, false, false) if !off => ("phantom drain", "needs phantom mark, too"),
        (false, true, false) => ("phantom mark", "needs phantom drain, too"),
        _ => {
            if off {
                *phantom = None;
            }
            return Ok(());
        }
    };
    Err(Refusal {
        option: said.0,
        what: Problem::Said(said.1),
    })
}

/// Which pauses the port obeys, and which it sends; see [`crate::port::hold`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// Which pauses are about data.
    pub data: Scope,
    /// How long a pause may last until data is dropped.
    pub watchdog: Nanos,
    /// When others are paused, if they are.
    pub generate: Option<Generate>,
}

/// When others are paused; see [`crate::pfc::ledger`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generate {
    /// With more bytes held the other end is paused.
    pub xoff: Room,
    /// With no more bytes held the pause ends.
    pub xon: Room,
    /// Room for what comes after a pause was decided.
    pub headroom: Room,
    /// One way to the other end.
    pub delay: Delay,
    /// If `xoff` is a part of what is free in a buffer.
    pub share: Option<Dynamic>,
}

/// A dynamic threshold; see [`crate::pfc::ingress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dynamic {
    /// So much of what is free may be held.
    pub alpha: Alpha,
    /// Bytes that all such ports of the namespace share.
    pub buffer: u32,
}

number!(Alpha, U32, |field| field.0.into(), |value| value
    .try_into()
    .ok()
    .map(Alpha));

number!(
    Scope,
    U32,
    |field| match field {
        Scope::Link => uapi::PFC_PAUSE,
        Scope::Priorities(mask) => mask.into(),
    },
    |value| match value {
        uapi::PFC_PAUSE => Some(Scope::Link),
        mask => mask.try_into().ok().map(Scope::Priorities),
    }
);

/// A time of less than 4 s: configurations are on small stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay(u32);

impl Delay {
    /// So many ns.
    pub const fn ns(ns: u32) -> Self {
        Self(ns)
    }

    /// The same time.
    pub fn time(self) -> Nanos {
        Nanos(self.0.into())
    }
}

number!(Delay, U64, |field| field.0.into(), |value| value
    .try_into()
    .ok()
    .map(Delay));

/// Bytes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room(u32);

impl Room {
    /// Nobody is paused, whatever is held. Only for [`Generate::xoff`] of a request.
    const OFF: Self = Self(uapi::PFC_XOFF_OFF);
    /// By what the link is.
    pub const AUTO: Self = Self(uapi::PFC_AUTO);

    /// So many bytes, at most 2^30.
    pub const fn bytes(bytes: u32) -> Self {
        Self(bytes)
    }

    /// How many; `None` if that depends on the link.
    pub fn given(self) -> Option<u32> {
        (self != Self::AUTO).then_some(self.0)
    }
}

number!(Room, U32, |field| field.0, |value| Some(Room(value)));

impl Pfc {
    /// [`uapi::PFC_OFF`]: no pauses are about data. Only of a request.
    const OFF: Scope = Scope::Priorities(uapi::PFC_OFF as u8);
    /// What a request makes of a port that obeyed no pauses.
    const BEGIN: Self = Self {
        data: Self::OFF,
        watchdog: Nanos(200_000_000),
        generate: None,
    };
}

impl Generate {
    /// What a request makes of a port that paused nobody.
    const BEGIN: Self = Self {
        xoff: Room::OFF,
        xon: Room::AUTO,
        headroom: Room::AUTO,
        delay: Delay::ns(500),
        share: None,
    };
}

impl Dynamic {
    /// What a request makes of a port whose threshold was fixed.
    const BEGIN: Self = Self {
        alpha: Alpha(uapi::PFC_ALPHA_OFF as u16),
        buffer: 0,
    };
}

impl Field for Option<Pfc> {
    const KIND: Kind = Kind::U32;

    fn get(&self, number: u16) -> Option<Value> {
        let Some(pfc) = self else {
            return (number == option::PFC_DATA).then_some(Value::U32(uapi::PFC_OFF));
        };
        match (number, &pfc.generate) {
            (option::PFC_DATA, _) => pfc.data.get(number),
            (option::PFC_WATCHDOG, _) => pfc.watchdog.get(number),
            (option::PFC_XOFF, Some(generate)) => generate.xoff.get(number),
            (option::PFC_XOFF, None) => Room::OFF.get(number),
            (option::PFC_XON, Some(generate)) => generate.xon.get(number),
            (option::PFC_HEADROOM, Some(generate)) => generate.headroom.get(number),
            (option::PFC_DELAY, Some(generate)) => generate.delay.get(number),
            (option::PFC_ALPHA, Some(generate)) => {
                let share = generate.share.unwrap_or(Dynamic::BEGIN);
                share.alpha.get(number)
            }
            (option::PFC_BUFFER, Some(generate)) => generate.share?.buffer.get(number),
            _ => None,
        }
    }

    /// As for [`Phantom`]: `settle_pfc` completes or refuses it.
    fn set(&mut self, number: u16, value: Value) -> bool {
        let pfc = self.get_or_insert(Pfc::BEGIN);
        match number {
            option::PFC_DATA => return pfc.data.set(number, value),
            option::PFC_WATCHDOG => return pfc.watchdog.set(number, value),
            _ => {}
        }
        let generate = pfc.generate.get_or_insert(Generate::BEGIN);
        match number {
            option::PFC_XOFF => generate.xoff.set(number, value),
            option::PFC_XON => generate.xon.set(number, value),
            option::PFC_HEADROOM => generate.headroom.set(number, value),
            option::PFC_DELAY => generate.delay.set(number, value),
            _ => {
                let share = generate.share.get_or_insert(Dynamic::BEGIN);
                match number {
                    option::PFC_ALPHA => share.alpha.set(number, value),
                    _ => share.buffer.set(number, value),
                }
            }
        }
    }
}

/// As [`settle`]: of a port that obeys pauses the rest may be given alone, and of one that pauses
/// others all but `xoff`.
pub(super) fn settle_pfc(pfc: &mut Option<Pfc>, before: bool, given: Given) -> Result<(), Refusal> {
    const PARTS: [(u16, &str); 5] = [
        (option::PFC_ALPHA, "pfc alpha"),
        (option::PFC_BUFFER, "pfc buffer"),
        (option::PFC_XON, "pfc xon"),
        (option::PFC_HEADROOM, "pfc headroom"),
        (option::PFC_DELAY, "pfc delay"),
    ];
    const REST: [(u16, &str); 2] = [
        (option::PFC_WATCHDOG, "pfc watchdog"),
        (option::PFC_XOFF, "pfc xoff"),
    ];
    let named = |all: &[(u16, &'static str)]| {
        let mut all = all.iter();
        all.find(|(number, _)| given.has(*number))
            .map(|(_, name)| *name)
    };
    let refuse = |option, said| {
        let what = Problem::Said(said);
        Err(Refusal { option, what })
    };
    let part = named(&PARTS);
    let any = named(&REST).or(part);
    let off = pfc.is_some_and(|pfc| pfc.data == Pfc::OFF);
    match (given.has(option::PFC_DATA), any) {
        (true, Some(option)) if off => return refuse(option, "pfc is off"),
        (false, Some(option)) if !before => return refuse(option, "needs pfc data, too"),
        _ => {}
    }
    let Some(now) = pfc.as_mut().filter(|_| !off) else {
        *pfc = None;
        return Ok(());
    };
    if now
        .generate
        .is_some_and(|generate| generate.xoff == Room::OFF)
    {
        if let Some(option) = part {
            let said = if given.has(option::PFC_XOFF) {
                "pfc xoff is off"
            } else {
                "needs pfc xoff, too"
            };
            return refuse(option, said);
        }
        now.generate = None;
    }
    settle_share(now, given).map_err(|(option, said)| Refusal {
        option,
        what: Problem::Said(said),
    })
}

/// The same of a dynamic threshold, whose parts are on together.
fn settle_share(pfc: &mut Pfc, given: Given) -> Result<(), (&'static str, &'static str)> {
    let Some(share) = pfc.generate.as_mut().map(|generate| &mut generate.share) else {
        return Ok(());
    };
    match share {
        Some(on) if on.alpha == Dynamic::BEGIN.alpha => {
            let alpha = given.has(option::PFC_ALPHA);
            if given.has(option::PFC_BUFFER) {
                let said = if alpha {
                    "pfc alpha is off"
                } else {
                    "needs pfc alpha, too"
                };
                return Err(("pfc buffer", said));
            }
            *share = None;
            Ok(())
        }
        Some(on) if on.buffer == Dynamic::BEGIN.buffer => {
            Err(("pfc alpha", "needs pfc buffer, too"))
        }
        _ => Ok(()),
    }
}

/// How long an ON period may last; see [`crate::port::marker::tcd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxOn {
    /// By the ON-OFF model.
    Auto,
    /// So long.
    Time(Nanos),
    /// No notice is taken of pauses.
    Off,
}

number!(
    MaxOn,
    U64,
    |field| match field {
        Self::Auto => uapi::TCD_MAX_ON_AUTO,
        Self::Off => uapi::TCD_MAX_ON_OFF,
        Self::Time(time) => time.0,
    },
    |value| Some(match value {
        uapi::TCD_MAX_ON_AUTO => Self::Auto,
        uapi::TCD_MAX_ON_OFF => Self::Off,
        ns => Self::Time(Nanos(ns)),
    })
);

/// TCD's marker; see [`crate::port::marker::tcd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcd {
    /// Bytes: with as many or more the queue is long.
    pub threshold: u32,
    /// How long an ON period may last.
    pub max_on: MaxOn,
}

impl Field for Option<Tcd> {
    const KIND: Kind = Kind::U32;

    fn get(&self, number: u16) -> Option<Value> {
        match (self, number) {
            (Some(tcd), option::TCD_MAX_ON) => tcd.max_on.get(number),
            (None, option::TCD_MAX_ON) => None,
            (tcd, _) => Some(Value::U32(tcd.map_or(uapi::TCD_OFF, |tcd| tcd.threshold))),
        }
    }

    fn set(&mut self, number: u16, value: Value) -> bool {
        let tcd = self.get_or_insert(Tcd {
            threshold: uapi::TCD_OFF,
            max_on: MaxOn::Auto,
        });
        match number {
            option::TCD_MAX_ON => tcd.max_on.set(number, value),
            _ => tcd.threshold.set(number, value),
        }
    }
}

/// As [`settle`]: `max-on` may be given alone of a marker that is on, and is `auto` at first.
pub(super) fn settle_tcd(tcd: &mut Option<Tcd>, before: bool, given: Given) -> Result<(), Refusal> {
    let off = tcd.is_some_and(|tcd| tcd.threshold == uapi::TCD_OFF);
    let said = match (
        given.has(option::TCD_THRESHOLD),
        given.has(option::TCD_MAX_ON),
    ) {
        (true, true) if off => "tcd is off",
        (false, true) if !before => "needs tcd threshold, too",
        _ => {
            if off {
                *tcd = None;
            }
            return Ok(());
        }
    };
    Err(Refusal {
        option: "tcd max-on",
        what: Problem::Said(said),
    })
}

/// When a waiting token is no longer worth sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// After [`EXPIRY_INTERVALS`](super::EXPIRY_INTERVALS).
    Auto,
    /// Never.
    Off,
    /// When it has waited longer than this.
    After(Nanos),
}

impl Expiry {
    const fn to_attr(self) -> u64 {
        match self {
            Self::Off => uapi::EXPIRY_OFF,
            Self::Auto => uapi::EXPIRY_AUTO,
            Self::After(time) => time.0,
        }
    }
}

number!(Expiry, U64, |field| field.to_attr(), |value| Some(
    match value {
        uapi::EXPIRY_OFF => Self::Off,
        uapi::EXPIRY_AUTO => Self::Auto,
        ns => Self::After(Nanos(ns)),
    }
));

/// Which of tokens and data goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// TOP fig. 3b.
    TokensFirst = uapi::ORDER_TOKENS_FIRST as isize,
    /// TOP fig. 3a.
    DataFirst = uapi::ORDER_DATA_FIRST as isize,
}

number!(Order, U32, |field| field as u32, |value| match value {
    uapi::ORDER_TOKENS_FIRST => Some(Self::TokensFirst),
    uapi::ORDER_DATA_FIRST => Some(Self::DataFirst),
    _ => None,
});

/// Whether super-packets are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitGso {
    /// None is.
    No = uapi::SPLIT_GSO_NO as isize,
    /// All are, into wire packets.
    All = uapi::SPLIT_GSO_ALL as isize,
    /// Into what holds the link for no longer than [`GsoHold`]; see [`crate::port::cut`].
    Auto = uapi::SPLIT_GSO_AUTO as isize,
}

number!(SplitGso, U32, |field| field as u32, |value| match value {
    uapi::SPLIT_GSO_NO => Some(Self::No),
    uapi::SPLIT_GSO_ALL => Some(Self::All),
    uapi::SPLIT_GSO_AUTO => Some(Self::Auto),
    _ => None,
});

/// How long a super-packet may hold the link: less than 4 s, since configurations are on small
/// stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GsoHold(u32);

impl GsoHold {
    /// As long as the jitter.
    pub const AUTO: Self = Self(u32::MAX);

    /// So many ns.
    pub const fn ns(ns: u32) -> Self {
        Self(ns)
    }

    /// The same time; `None` if it is the jitter.
    pub fn given(self) -> Option<Nanos> {
        (self != Self::AUTO).then_some(Nanos(self.0.into()))
    }
}

number!(
    GsoHold,
    U64,
    |field| field.given().map_or(uapi::GSO_HOLD_AUTO, |time| time.0),
    |value| match value {
        uapi::GSO_HOLD_AUTO => Some(Self::AUTO),
        ns => ns.try_into().ok().map(Self),
    }
);

/// Which token a full token queue drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenDrop {
    /// One of the flow that has most of the last 128 queued: see [`flows`](crate::port::flows).
    Fair = uapi::TOKEN_DROP_FAIR as isize,
    /// The one that arrives.
    Last = uapi::TOKEN_DROP_LAST as isize,
}

number!(TokenDrop, U32, |field| field as u32, |value| match value {
    uapi::TOKEN_DROP_FAIR => Some(Self::Fair),
    uapi::TOKEN_DROP_LAST => Some(Self::Last),
    _ => None,
});

/// For each DSCP the minor number of the class (see [`class`]) that its packets go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DscpMap(
    /// Indexed by the code point.
    pub [u8; 64],
);

impl DscpMap {
    /// All packets are data.
    pub const NONE: Self = Self([class::DATA; 64]);

    /// CS6 and CS7, network control (RFC 4594), are signals; all others are data.
    pub const DEFAULT: Self = {
        let mut map = Self::NONE;
        map.0[48] = class::SIGNAL;
        map.0[56] = class::SIGNAL;
        map
    };

    /// The class of `code`, of which the low six bits count.
    #[inline]
    pub const fn get(&self, code: u8) -> u8 {
        self.0[(code & 63) as usize]
    }
}

impl Field for DscpMap {
    const KIND: Kind = Kind::Map;

    fn get(&self, _: u16) -> Option<Value> {
        Some(Value::Map(self.0))
    }

    fn set(&mut self, _: u16, value: Value) -> bool {
        let Value::Map(map) = value else {
            return false;
        };
        self.0 = map;
        true
    }
}
