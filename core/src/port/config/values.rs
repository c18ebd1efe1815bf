// SPDX-License-Identifier: GPL-2.0
//! Values of options that are more than a number.

use crate::options::{number, Field, Given, Kind, Problem, Refusal, Share, Value};
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
    before: Option<Phantom>,
    given: Given,
) -> Result<(), Refusal> {
    let drain = given.has(option::PHANTOM_SHARE) || given.has(option::PHANTOM_RATE64);
    let mark = given.has(option::PHANTOM_MARK);
    let off = phantom.is_some_and(|phantom| phantom.drain == OFF);
    let said = match (drain, mark, before) {
        (true, true, _) if off => ("phantom mark", "the phantom queue is off"),
        (true, false, None) if !off => ("phantom drain", "needs phantom mark, too"),
        (false, true, None) => ("phantom mark", "needs phantom drain, too"),
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
