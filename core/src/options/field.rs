// SPDX-License-Identifier: GPL-2.0
//! Fields of configurations as values of attributes.

use crate::units::Nanos;

/// What an attribute's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// A byte for each code point.
    Map,
}

/// An attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of 32 bits.
    U32(u32),
    /// Of 64 bits.
    U64(u64),
    /// A byte for each code point.
    Map([u8; 64]),
}

impl Value {
    /// What it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::U32(_) => Kind::U32,
            Self::U64(_) => Kind::U64,
            Self::Map(_) => Kind::Map,
        }
    }

    /// The number, whatever its width; `None` if it is none.
    pub const fn number(&self) -> Option<u64> {
        match self {
            Self::U32(value) => Some(*value as u64),
            Self::U64(value) => Some(*value),
            Self::Map(_) => None,
        }
    }
}

/// A field of a configuration. All but a few have one attribute, and do not look at its number.
pub trait Field {
    /// What the attribute is; of a [`Share`], the one of the share.
    const KIND: Kind;

    /// What its attribute `number` says; `None` if the field has nothing to say by that one.
    fn get(&self, number: u16) -> Option<Value>;

    /// Takes its attribute `number`. `false` if that means nothing; values that are in an option's
    /// range mean something.
    fn set(&mut self, number: u16, value: Value) -> bool;
}

/// A field that is one number in an attribute of this width.
macro_rules! number {
    ($type:ty, $width:ident, |$field:ident| $get:expr, |$value:ident| $set:expr) => {
        impl Field for $type {
            const KIND: Kind = Kind::$width;

            fn get(&self, _: u16) -> Option<Value> {
                let $field = *self;
                Some(Value::$width($get))
            }

            fn set(&mut self, _: u16, value: Value) -> bool {
                let Value::$width($value) = value else {
                    return false;
                };
                let new: Option<Self> = $set;
                match new {
                    Some(new) => *self = new,
                    None => return false,
                }
                true
            }
        }
    };
}
pub(crate) use number;

number!(u32, U32, |field| field, |value| Some(value));
number!(u64, U64, |field| field, |value| Some(value));
number!(u8, U32, |field| field.into(), |value| value.try_into().ok());
number!(bool, U32, |field| field.into(), |value| match value {
    0 | 1 => Some(value == 1),
    _ => None,
});
number!(Nanos, U64, |field| field.0, |value| Some(Nanos(value)));
// 0 has a word.
number!(Option<u64>, U64, |field| field.unwrap_or(0), |value| Some(
    (value != 0).then_some(value)
));
number!(
    Option<Nanos>,
    U64,
    |field| field.map_or(0, |time| time.0),
    |value| Some((value != 0).then_some(Nanos(value)))
);

/// A part of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Parts per billion of the link.
    Share(u32),
    /// bytes/s on the wire.
    Rate(u64),
}

impl Field for Share {
    const KIND: Kind = Kind::U32;

    fn get(&self, _: u16) -> Option<Value> {
        Some(match *self {
            Self::Share(ppb) => Value::U32(ppb),
            Self::Rate(rate) => Value::U64(rate),
        })
    }

    fn set(&mut self, _: u16, value: Value) -> bool {
        *self = match value {
            Value::U32(ppb) => Self::Share(ppb),
            Value::U64(rate) => Self::Rate(rate),
            Value::Map(_) => return false,
        };
        true
    }
}
