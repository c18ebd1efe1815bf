// SPDX-License-Identifier: GPL-2.0
//! `TCA_OPTIONS` to a configuration, and back.

use core::fmt::Display;
use kernel::prelude::*;
use knet::{
    attr::{self, Kind, Nest, Rule, Value},
    Extack, Message,
};
use turnstile_core::{
    port::config::{
        limits::{self, Range, Unit},
        Config, Drain, DscpMap, Expiry, Order, Phantom, Tokens,
    },
    port::uapi::{self, option},
    units::Nanos,
};

const RULES: &[Rule] = &[
    Rule {
        number: option::PAD,
        name: "pad",
        kind: Kind::Pad,
    },
    Rule {
        number: option::LINK_RATE64,
        name: "link",
        kind: Kind::U64,
    },
    Rule {
        number: option::TOKEN_SHARE,
        name: "tokens",
        kind: Kind::U32,
    },
    Rule {
        number: option::TOKEN_RATE64,
        name: "tokens",
        kind: Kind::U64,
    },
    Rule {
        number: option::PRIORITIES,
        name: "priorities",
        kind: Kind::U32,
    },
    Rule {
        number: option::TOKEN_LIMIT,
        name: "token-limit",
        kind: Kind::U32,
    },
    Rule {
        number: option::TOKEN_EXPIRY,
        name: "token-expiry",
        kind: Kind::U64,
    },
    Rule {
        number: option::ORDER,
        name: "order",
        kind: Kind::U32,
    },
    Rule {
        number: option::UNSCHEDULED,
        name: "unscheduled",
        kind: Kind::U32,
    },
    Rule {
        number: option::DATA_LIMIT,
        name: "data-limit",
        kind: Kind::U32,
    },
    Rule {
        number: option::SIGNAL_LIMIT,
        name: "signal-limit",
        kind: Kind::U32,
    },
    Rule {
        number: option::DSCP_MAP,
        name: "dscp",
        kind: Kind::Bytes(64),
    },
    Rule {
        number: option::SPLIT_GSO,
        name: "split-gso",
        kind: Kind::U32,
    },
    Rule {
        number: option::OVERHEAD,
        name: "overhead",
        kind: Kind::U32,
    },
    Rule {
        number: option::MPU,
        name: "mpu",
        kind: Kind::U32,
    },
    Rule {
        number: option::PHANTOM_SHARE,
        name: "phantom drain",
        kind: Kind::U32,
    },
    Rule {
        number: option::PHANTOM_RATE64,
        name: "phantom drain",
        kind: Kind::U64,
    },
    Rule {
        number: option::PHANTOM_MARK,
        name: "phantom mark",
        kind: Kind::U32,
    },
    Rule {
        number: option::REN_PERIOD,
        name: "ren period",
        kind: Kind::U64,
    },
    Rule {
        number: option::JITTER,
        name: "jitter",
        kind: Kind::U64,
    },
];

/// An attribute that is on or off, or one of two.
const FLAG: Range = Range {
    min: 0,
    max: 1,
    unit: Unit::Number,
};

/// Refuses a request: the kernel shows `what` to whoever made it.
pub(crate) fn refuse(extack: &mut Extack, what: impl Display) -> Error {
    extack.refuse(EINVAL, format_args!("{}: {what}", uapi::KIND))
}

/// What fits a byte or not is decided by the range, not by a cast.
fn ranged(name: &str, value: u32, range: Range, extack: &mut Extack) -> Result<u32> {
    if range.contains(value.into()) {
        return Ok(value);
    }
    Err(refuse(
        extack,
        format_args!("{name}: {value} is not in {range}"),
    ))
}

/// What a request says of the phantom queue.
#[derive(Default)]
struct Phantoms {
    /// Outer `None`: nothing; inner: turn it off.
    drain: Option<Option<Drain>>,
    mark: Option<u32>,
}

impl Phantoms {
    fn set_drain(&mut self, drain: Option<Drain>, extack: &mut Extack) -> Result {
        match self.drain.replace(drain) {
            Some(_) => Err(refuse(extack, "phantom drain: both a share and a rate")),
            None => Ok(()),
        }
    }

    /// What it comes to: a part that is not given stays.
    fn apply(self, phantom: &mut Option<Phantom>, extack: &mut Extack) -> Result {
        *phantom = match (self.drain, self.mark, *phantom) {
            (None, None, now) => now,
            (Some(None), None, _) => None,
            (Some(None), Some(_), _) => {
                return Err(refuse(extack, "phantom mark: the phantom queue is off"));
            }
            (Some(Some(drain)), Some(mark), _) => Some(Phantom { drain, mark }),
            (Some(Some(drain)), None, Some(now)) => Some(Phantom { drain, ..now }),
            (None, Some(mark), Some(now)) => Some(Phantom { mark, ..now }),
            (Some(Some(_)), None, None) => {
                return Err(refuse(extack, "phantom drain: needs phantom mark, too"));
            }
            (None, Some(_), None) => {
                return Err(refuse(extack, "phantom mark: needs phantom drain, too"));
            }
        };
        Ok(())
    }
}

/// Changes `config` as the request says. What the request does not name stays.
///
/// # Errors
///
/// `EINVAL` with a message, for what does not have the right form. Whether the result makes sense
/// as a whole is [`Config::validate`]'s to say.
pub(crate) fn apply(config: &mut Config, nest: Nest<'_>, extack: &mut Extack) -> Result {
    let mut tokens_given = false;
    let mut phantom = Phantoms::default();
    attr::parse(nest, RULES, uapi::KIND, extack, |number, value, extack| {
        if matches!(number, option::TOKEN_SHARE | option::TOKEN_RATE64)
            && core::mem::replace(&mut tokens_given, true)
        {
            return Err(refuse(extack, "tokens: both a share and a rate"));
        }
        match (number, value) {
            (option::LINK_RATE64, Value::U64(rate)) => config.link = (rate != 0).then_some(rate),
            (option::TOKEN_SHARE, Value::U32(share)) => config.tokens = Tokens::Share(share),
            (option::TOKEN_RATE64, Value::U64(rate)) => config.tokens = Tokens::Rate(rate),
            (option::PRIORITIES, Value::U32(n)) => {
                config.priorities = ranged("priorities", n, limits::PRIORITIES, extack)? as u8;
            }
            (option::TOKEN_LIMIT, Value::U32(n)) => config.token_limit = n,
            (option::TOKEN_EXPIRY, Value::U64(ns)) => config.token_expiry = Expiry::from_attr(ns),
            (option::ORDER, Value::U32(order)) => {
                config.order = Order::from_attr(order).ok_or_else(|| {
                    refuse(extack, format_args!("order: {order} is not in {FLAG}"))
                })?;
            }
            (option::UNSCHEDULED, Value::U32(n)) => config.unscheduled = n,
            (option::DATA_LIMIT, Value::U32(bytes)) => config.data_limit = bytes,
            (option::SIGNAL_LIMIT, Value::U32(n)) => config.signal_limit = n,
            (option::DSCP_MAP, Value::Bytes(map)) => {
                if let Some(map) = map.first_chunk() {
                    config.dscp = DscpMap(*map);
                }
            }
            (option::SPLIT_GSO, Value::U32(on)) => {
                config.split_gso = ranged("split-gso", on, FLAG, extack)? == 1;
            }
            (option::OVERHEAD, Value::U32(bytes)) => config.overhead = bytes,
            (option::MPU, Value::U32(bytes)) => config.mpu = bytes,
            (option::JITTER, Value::U64(ns)) => config.jitter = Nanos(ns),
            (option::PHANTOM_SHARE, Value::U32(share)) => {
                let drain = (share != uapi::PHANTOM_OFF).then_some(Drain::Share(share));
                phantom.set_drain(drain, extack)?;
            }
            (option::PHANTOM_RATE64, Value::U64(rate)) => {
                phantom.set_drain(Some(Drain::Rate(rate)), extack)?;
            }
            (option::PHANTOM_MARK, Value::U32(bytes)) => phantom.mark = Some(bytes),
            (option::REN_PERIOD, Value::U64(ns)) => {
                config.ren = (ns != uapi::REN_OFF).then_some(Nanos(ns));
            }
            // `RULES` names no others, and gives each its form.
            _ => {}
        }
        Ok(())
    })?;
    phantom.apply(&mut config.phantom, extack)
}

/// Writes what [`apply`] would need to make this configuration.
pub(crate) fn dump(config: &Config, message: &mut Message) -> Result {
    message.u64(option::LINK_RATE64, config.link.unwrap_or(0), option::PAD)?;
    match config.tokens {
        Tokens::Share(share) => message.u32(option::TOKEN_SHARE, share)?,
        Tokens::Rate(rate) => message.u64(option::TOKEN_RATE64, rate, option::PAD)?,
    }
    message.u32(option::PRIORITIES, config.priorities.into())?;
    message.u32(option::TOKEN_LIMIT, config.token_limit)?;
    message.u64(
        option::TOKEN_EXPIRY,
        config.token_expiry.to_attr(),
        option::PAD,
    )?;
    message.u32(option::ORDER, config.order.to_attr())?;
    message.u32(option::UNSCHEDULED, config.unscheduled)?;
    message.u32(option::DATA_LIMIT, config.data_limit)?;
    message.u32(option::SIGNAL_LIMIT, config.signal_limit)?;
    message.bytes(option::DSCP_MAP, &config.dscp.0)?;
    message.u32(option::SPLIT_GSO, config.split_gso.into())?;
    message.u32(option::OVERHEAD, config.overhead)?;
    message.u32(option::MPU, config.mpu)?;
    message.u64(option::JITTER, config.jitter.0, option::PAD)?;
    let period = config.ren.map_or(uapi::REN_OFF, |period| period.0);
    message.u64(option::REN_PERIOD, period, option::PAD)?;
    let Some(phantom) = config.phantom else {
        return message.u32(option::PHANTOM_SHARE, uapi::PHANTOM_OFF);
    };
    match phantom.drain {
        Drain::Share(share) => message.u32(option::PHANTOM_SHARE, share)?,
        Drain::Rate(rate) => message.u64(option::PHANTOM_RATE64, rate, option::PAD)?,
    }
    message.u32(option::PHANTOM_MARK, phantom.mark)
}
