// SPDX-License-Identifier: GPL-2.0
//! The options of a namespace's transport: ranges, defaults, and what they come to.
//!
//! One table, [`OPTIONS`], is what the kernel module reads and writes attributes by, what the
//! command line takes words from, and what the documentation lists. [`Config::validate`] checks all
//! of it and gives [`Resolved`], which an endpoint runs by.

use core::fmt;

use crate::port::config::limits::{self, Range, Unit};
use crate::transport::uapi::{self as uapi, config as number};
use crate::units::Nanos;

use super::policy::PriorityFunction;

mod resolved;

pub use resolved::{Clock, Dscp, Feedback, Policy, Resolved, Schedule};

/// The link rate, bytes/s, where neither the user nor a device says one: 10 Gbit/s.
pub const USUAL_LINK: u64 = 1_250_000_000;

const fn range(min: u64, max: u64, unit: Unit) -> Range {
    Range { min, max, unit }
}

/// What an option may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these words; the value is the word's place.
    Choice(&'static [&'static str]),
    /// A number.
    Number(Range),
    /// A number, or 0, which has a word.
    NumberOr(Range, &'static str),
}

impl Values {
    /// Whether `value` is allowed.
    pub const fn contains(&self, value: u64) -> bool {
        match self {
            Self::Choice(words) => value < words.len() as u64,
            Self::Number(range) => range.contains(value),
            Self::NumberOr(range, _) => value == 0 || range.contains(value),
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Choice(words) => {
                let mut between = "";
                for word in *words {
                    write!(f, "{between}{word}")?;
                    between = "|";
                }
                Ok(())
            }
            Self::Number(range) => write!(f, "{range}"),
            Self::NumberOr(range, zero) => write!(f, "{range} or {zero}"),
        }
    }
}

/// An attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of 32 bits.
    U32(u32),
    /// Of 64 bits.
    U64(u64),
}

impl Value {
    /// The number, whatever its width.
    pub const fn get(self) -> u64 {
        match self {
            Self::U32(value) => value as u64,
            Self::U64(value) => value,
        }
    }
}

/// A row of [`OPTIONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opt {
    /// The attribute's number, of [`uapi::config`](number).
    pub number: u16,
    /// As the user types it.
    pub name: &'static str,
    /// What it means, in a line or two.
    pub doc: &'static str,
    /// What it may be.
    pub values: Values,
    /// Without the user's doing. Its variant is the attribute's width.
    pub default: Value,
}

trait Width: Copy {
    fn value(self) -> Value;
    fn set(&mut self, value: Value) -> bool;
}

impl Width for u32 {
    #[inline]
    fn value(self) -> Value {
        Value::U32(self)
    }
    #[inline]
    fn set(&mut self, value: Value) -> bool {
        match value {
            Value::U32(value) => {
                *self = value;
                true
            }
            Value::U64(_) => false,
        }
    }
}

impl Width for u64 {
    #[inline]
    fn value(self) -> Value {
        Value::U64(self)
    }
    #[inline]
    fn set(&mut self, value: Value) -> bool {
        match value {
            Value::U64(value) => {
                *self = value;
                true
            }
            Value::U32(_) => false,
        }
    }
}

macro_rules! value {
    (u32, $value:expr) => {
        Value::U32($value)
    };
    (u64, $value:expr) => {
        Value::U64($value)
    };
}

/// Makes the struct and the table of one list.
macro_rules! options {
    ($($(#[doc = $doc:literal])+ $field:ident: $width:ident = $default:expr, $number:ident $name:literal $values:expr;)+) => {
        /// How a namespace's transport is configured. Each field is an attribute's value.
        ///
        /// The fields are as the user gave them; [`Config::validate`] says whether they are
        /// allowed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Config {
            $($(#[doc = $doc])+ pub $field: $width,)+
        }

        impl Config {
            /// What a new namespace has.
            pub const DEFAULT: Self = Self { $($field: $default,)+ };

            /// The attribute `number`; `None` if that is none of the configuration's.
            pub fn get(&self, number: u16) -> Option<Value> {
                match number {
                    $(number::$number => Some(self.$field.value()),)+
                    _ => None,
                }
            }

            /// Sets the attribute `number`. `false` if that is none of the configuration's, or of
            /// another width. Whether the value is allowed, [`Config::validate`] says.
            pub fn set(&mut self, number: u16, value: Value) -> bool {
                match number {
                    $(number::$number => self.$field.set(value),)+
                    _ => false,
                }
            }
        }

        /// All options, in the order of their numbers.
        pub const OPTIONS: &[Opt] = &[$(Opt {
            number: number::$number,
            name: $name,
            doc: concat!($($doc),+),
            values: $values,
            default: value!($width, Config::DEFAULT.$field),
        },)+];
    };
}

const WHOLE: u64 = 1_000_000_000;
const US: u64 = 1000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const MAX_MESSAGES: u64 = 65_536;

const fn numbers(min: u64, max: u64) -> Values {
    Values::Number(range(min, max, Unit::Number))
}

const fn shares(min: u64, max: u64) -> Values {
    Values::Number(range(min, max, Unit::Share))
}

const fn times(min: u64, max: u64) -> Range {
    range(min, max, Unit::Time)
}

options! {
    /// How messages share the tokens, and where tokens come from.
    policy: u32 = uapi::POLICY_TOP, POLICY "policy" Values::Choice(&["expresspass", "top", "ren"]);
    /// bytes/s: the link that tokens are for; 0: the fastest device that is up and reports a speed,
    /// 10 Gbit/s if none does.
    link: u64 = 0, LINK_RATE64 "link" Values::NumberOr(limits::LINK, "auto");
    /// Parts per billion of the link: the rate of all tokens together. 84 / (84 + 1538)
    /// (ExpressPass section 2.1).
    token_share: u32 = 51_787_916, TOKEN_SHARE "token-share" Values::Number(limits::TOKENS);
    /// How a message's rate follows the tokens that were lost.
    feedback: u32 = uapi::FEEDBACK_WEIGHTED, FEEDBACK "feedback" Values::Choice(&["midpoint", "weighted"]);
    /// Parts per billion of the token rate: a message's rate at first. With all of it, messages
    /// that share a port are alike after the first loss.
    initial_rate: u32 = 1_000_000_000, INITIAL_RATE "initial-rate" shares(10_000, WHOLE);
    /// Parts per billion of the token rate: a message's rate is never lower.
    min_rate: u32 = 4_000_000, MIN_RATE "min-rate" shares(10_000, WHOLE);
    /// Parts per billion: the token loss that the feedback aims at.
    target_loss: u32 = 100_000_000, TARGET_LOSS "target-loss" shares(0, WHOLE / 2);
    /// Parts per billion: the weight of the greatest rate at first (`weighted`).
    weight_initial: u32 = 62_500_000, WEIGHT_INITIAL "weight-initial" shares(100_000, WHOLE);
    /// Parts per billion: the least weight, which is what brings messages of different rates
    /// together.
    weight_min: u32 = 50_000_000, WEIGHT_MIN "weight-min" shares(100_000, WHOLE);
    /// Parts per billion: the greatest weight.
    weight_max: u32 = 500_000_000, WEIGHT_MAX "weight-max" shares(100_000, WHOLE);
    /// Parts per billion of the interval between a message's tokens: how large a part of it a token
    /// may be anywhere in.
    jitter: u32 = 1_000_000_000, JITTER "jitter" shares(0, WHOLE);
    /// ns between updates of a message's rate; 0: its round-trip time.
    update_period: u64 = 0, UPDATE_PERIOD "update-period" Values::NumberOr(times(US, S), "rtt");
    /// ns: the round-trip time before one was measured; REN sends what the link carries in it at
    /// first, and has about twice that under way of a message at most.
    base_rtt: u64 = 50 * US, BASE_RTT "base-rtt" Values::Number(times(US, S));
    /// ns: a token that took longer from the receiver to the sender sends nothing; 0: they do not
    /// expire. Clocks must agree.
    token_expiry: u64 = 0, TOKEN_EXPIRY "token-expiry" Values::NumberOr(times(US, S), "off");
    /// The clock that tokens are stamped with.
    clock: u32 = uapi::CLOCK_REALTIME, CLOCK "clock" Values::Choice(&["realtime", "tai"]);
    /// Number of token priorities, K of TOP's priority function.
    priorities: u32 = 6, PRIORITIES "priorities" Values::Number(limits::PRIORITIES);
    /// Packets: p of TOP's priority function, the longest usual message.
    priority_packets: u32 = 20_000, PRIORITY_PACKETS "priority-packets" numbers(2, 1 << 22);
    /// Thousandths: a of TOP's priority function.
    priority_a: u32 = 1000, PRIORITY_A "priority-a" numbers(1, 1_000_000);
    /// Thousandths of a packet: b of TOP's priority function.
    priority_b: u32 = 0, PRIORITY_B "priority-b" numbers(0, 1_000_000_000);
    /// Which message comes first under `top`, and what its priority is taken from.
    schedule: u32 = uapi::SCHEDULE_SRPT, SCHEDULE "schedule" Values::Choice(&["srpt", "las", "edf", "coflow"]);
    /// Packets: messages of no more are sent at once, without tokens (`top`; m of TOP section 4.4):
    /// in a port's lowest band, as data where it has none; 0: none.
    unscheduled: u32 = 0, UNSCHEDULED "unscheduled" Values::NumberOr(range(1, 1024, Unit::Number), "off");
    /// Messages that may come in at once.
    max_incoming: u32 = 4096, MAX_INCOMING "max-incoming" numbers(1, MAX_MESSAGES);
    /// Messages that may go out at once.
    max_outgoing: u32 = 4096, MAX_OUTGOING "max-outgoing" numbers(1, MAX_MESSAGES);
    /// Messages that may come in from one address at once.
    max_per_peer: u32 = 1024, MAX_PER_PEER "max-per-peer" numbers(1, MAX_MESSAGES);
    /// Messages of which nothing has come but the SYNC.
    max_half_open: u32 = 1024, MAX_HALF_OPEN "max-half-open" numbers(1, MAX_MESSAGES);
    /// Finished messages that are remembered, so that none is delivered twice. While it is full, no
    /// message comes in.
    max_remembered: u32 = 65_536, MAX_REMEMBERED "max-remembered" numbers(1, 1 << 20);
    /// ns: how long a peer may be silent.
    timeout: u64 = 10 * S, TIMEOUT "timeout" Values::Number(times(100 * MS, 3600 * S));
    /// ns: after it a SYNC is repeated for the first time. Not longer than the timeout.
    rto: u64 = 2 * MS, RTO "rto" Values::Number(times(200 * US, S));
    /// Bytes: a socket's send buffer at first.
    send_buffer: u32 = 4 << 20, SEND_BUFFER "send-buffer" numbers(1 << 16, 1 << 30);
    /// Bytes: a socket's receive buffer at first.
    receive_buffer: u32 = 4 << 20, RECEIVE_BUFFER "receive-buffer" numbers(1 << 16, 1 << 30);
    /// DSCP of SYNC, RESEND, FIN, ACK and RESET: CS6, network control (RFC 4594); a port takes it
    /// for a signal.
    dscp_signal: u32 = 48, DSCP_SIGNAL "dscp-signal" Values::Number(limits::DSCP);
    /// DSCP of tokens: EF, small, paced and wanted early (RFC 3246).
    dscp_token: u32 = 46, DSCP_TOKEN "dscp-token" Values::Number(limits::DSCP);
    /// DSCP of data: none in particular.
    dscp_data: u32 = 0, DSCP_DATA "dscp-data" Values::Number(limits::DSCP);
    /// DSCP of unscheduled data: LE, lower effort than all others (RFC 8622).
    dscp_unscheduled: u32 = 1, DSCP_UNSCHEDULED "dscp-unscheduled" Values::Number(limits::DSCP);
    /// How much less loss a message aims at the more of the token rate it has: the target divided
    /// by 1 + this x its part of the rate (`weighted`). 0: all aim at the target, as in
    /// ExpressPass; then few messages share a link unfairly. More is fairer, and wastes more where
    /// messages cross several busy links.
    fairness: u32 = 3, FAIRNESS "fairness" numbers(0, 64);
}

/// The option of an attribute's number.
pub fn option(number: u16) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.number == number)
}

/// Why a configuration is refused. `Display` gives one line of at most 78 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The option's name, as the user types it.
    pub option: &'static str,
    /// What was given.
    pub value: u64,
    /// What is wrong with it.
    pub what: Problem,
}

/// What is wrong with an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Not one of what it may be.
    Not(Values),
    /// It must not be less than another option, which is this.
    Below(&'static str, u64),
    /// It must not be more than another option, which is this.
    Above(&'static str, u64),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match option_named(self.option).map(|option| option.values) {
            Some(Values::Number(range) | Values::NumberOr(range, _)) => range.unit,
            _ => Unit::Number,
        };
        let shown = |value| Shown { value, unit };
        write!(f, "{}: {} is ", self.option, shown(self.value))?;
        match self.what {
            Problem::Not(Values::Choice(words)) => {
                write!(f, "none of {}", Values::Choice(words))
            }
            Problem::Not(values) => write!(f, "not in {values}"),
            Problem::Below(other, value) => write!(f, "below {other}, {}", shown(value)),
            Problem::Above(other, value) => write!(f, "above {other}, {}", shown(value)),
        }
    }
}

fn option_named(name: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.name == name)
}

/// A value in its unit. Rates are bytes/s.
struct Shown {
    value: u64,
    unit: Unit,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            Unit::Number => write!(f, "{}", self.value),
            Unit::Rate => write!(f, "{} B/s", self.value),
            Unit::Share => write!(f, "{}", limits::Percent(self.value)),
            Unit::Time => write!(f, "{}", limits::Time(self.value)),
        }
    }
}

impl Config {
    /// [`Config::set`] for an attribute of 32 bits.
    pub fn set_u32(&mut self, number: u16, value: u32) -> bool {
        self.set(number, Value::U32(value))
    }

    /// [`Config::set`] for an attribute of 64 bits.
    pub fn set_u64(&mut self, number: u16, value: u64) -> bool {
        self.set(number, Value::U64(value))
    }

    /// Checks every option, and works out what they come to.
    ///
    /// `device_rate` is the speed of the fastest device, in bytes/s; it counts where
    /// [`Config::link`] is 0. Without it, that is [`USUAL_LINK`].
    pub fn validate(&self, device_rate: Option<u64>) -> Result<Resolved, Refusal> {
        for option in OPTIONS {
            let value = self.get(option.number).map_or(0, Value::get);
            if !option.values.contains(value) {
                return Err(Refusal {
                    option: option.name,
                    value,
                    what: Problem::Not(option.values),
                });
            }
        }
        self.ordered(number::INITIAL_RATE, number::MIN_RATE, Problem::Below)?;
        self.ordered(number::WEIGHT_INITIAL, number::WEIGHT_MIN, Problem::Below)?;
        self.ordered(number::WEIGHT_MAX, number::WEIGHT_INITIAL, Problem::Below)?;
        self.ordered(number::RTO, number::TIMEOUT, Problem::Above)?;
        match self.resolve(device_rate) {
            Some(resolved) => Ok(resolved),
            // All shares of all links are rates; but a fault in that must not be a panic.
            None => Err(Refusal {
                option: "link",
                value: self.link,
                what: Problem::Not(Values::NumberOr(limits::LINK, "auto")),
            }),
        }
    }

    /// Refuses `one` if it is `wrong` compared with `other`.
    fn ordered(
        &self,
        one: u16,
        other: u16,
        wrong: fn(&'static str, u64) -> Problem,
    ) -> Result<(), Refusal> {
        let value = |number| self.get(number).map_or(0, Value::get);
        let name = |number| option(number).map_or("", |option| option.name);
        let what = wrong(name(other), value(other));
        let is_wrong = match what {
            Problem::Below(..) => value(one) < value(other),
            _ => value(one) > value(other),
        };
        if is_wrong {
            return Err(Refusal {
                option: name(one),
                value: value(one),
                what,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
