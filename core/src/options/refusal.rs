// SPDX-License-Identifier: GPL-2.0
//! Why a configuration is not accepted.

use core::fmt;

use super::dscp::Code;
use super::units::Rates;
use super::{Form, Range, Unit};

/// Why a configuration is refused. `Display` gives one line, which fits the kernel's extended
/// acknowledgement of 79 characters with the kind of qdisc or the family before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The option's name, as the user types it.
    pub option: &'static str,
    /// What is wrong with it.
    pub what: Problem,
}

/// What is wrong with an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The value is none of those that it may be.
    Not(u64, Form),
    /// A rate, in bytes/s, that is too low or too high for the link.
    NotAShare {
        /// What was given.
        rate: u64,
        /// The shares of the link that are allowed.
        range: Range,
        /// The least and the greatest rate that the link allows, if it is known.
        allowed: Option<(u64, u64)>,
    },
    /// It must not be less than another option, which is this.
    Below(u64, &'static str, u64, Unit),
    /// It must not be more than another option, which is this.
    Above(u64, &'static str, u64, Unit),
    /// The DSCP map gives a code point a number that is no class of any port.
    NoClass(u8, u8),
    /// The DSCP map gives a code point a token priority that the port does not have.
    NoPriority {
        /// The code point.
        code: u8,
        /// The priority.
        priority: u8,
        /// How many the port has.
        priorities: u8,
    },
    /// The DSCP map gives a code point to the unscheduled band, which the port does not have.
    NoUnscheduled(u8),
    /// It is above what namespaces outside of the initial user namespace may have.
    Capped(u64, u64),
    /// What does not go with the rest of the request.
    Said(&'static str),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.option, self.what)
    }
}

impl core::error::Error for Refusal {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Not(value, Form::Choice(words)) => {
                write!(f, "{value} is none of {}", Form::Choice(words))
            }
            Self::Not(value, form) => {
                let unit = form.range().map_or(Unit::Count(""), |range| range.unit);
                write!(f, "{} is not in {form}", unit.show(value))
            }
            Self::NotAShare {
                rate,
                range,
                allowed,
            } => {
                write!(f, "{} is not in ", Unit::Rate.show(rate))?;
                match allowed {
                    Some((min, max)) => write!(f, "{}", Rates(min, max)),
                    None => write!(f, "{range} of any link"),
                }
            }
            Self::Below(value, other, limit, unit) => {
                write!(
                    f,
                    "{} is below {other}, {}",
                    unit.show(value),
                    unit.show(limit)
                )
            }
            Self::Above(value, other, limit, unit) => {
                write!(
                    f,
                    "{} is above {other}, {}",
                    unit.show(value),
                    unit.show(limit)
                )
            }
            Self::NoClass(code, minor) => {
                write!(f, "{}: {minor} is not a class", Code(code.into()))
            }
            Self::NoPriority {
                code,
                priority,
                priorities,
            } => {
                write!(
                    f,
                    "{} goes to token{priority}, but there ",
                    Code(code.into())
                )?;
                match priorities {
                    1 => f.write_str("is 1 priority"),
                    _ => write!(f, "are {priorities} priorities"),
                }
            }
            Self::NoUnscheduled(code) => {
                let code = Code(code.into());
                write!(f, "{code} goes to unscheduled, which is off")
            }
            Self::Capped(value, cap) => {
                write!(f, "{value} is above {cap}, this user namespace's cap")
            }
            Self::Said(what) => f.write_str(what),
        }
    }
}
