// SPDX-License-Identifier: GPL-2.0
//! `TCA_OPTIONS` to a pacer's configuration, and back.

use core::fmt::Display;
use kernel::prelude::*;
use knet::{
    attr::{self, Kind, Nest, Rule, Value},
    Extack, Message,
};
use turnstile_core::{
    pacer::config::Config,
    pacer::uapi::{option, KIND},
    units::Nanos,
};

const fn rule(number: u16, name: &'static str, kind: Kind) -> Rule {
    Rule { number, name, kind }
}

const RULES: &[Rule] = &[
    rule(option::PAD, "pad", Kind::Pad),
    rule(option::INTERVAL, "interval", Kind::U64),
    rule(option::ETA, "eta", Kind::U32),
    rule(option::BETA, "beta", Kind::U32),
    rule(option::ASSOCIATE, "associate", Kind::U32),
    rule(option::IDLE, "idle", Kind::U64),
    rule(option::FLOWS, "flows", Kind::U32),
    rule(option::BUCKET, "bucket", Kind::U32),
    rule(option::LIMIT, "limit", Kind::U32),
    rule(option::PASS_LIMIT, "pass-limit", Kind::U32),
    rule(option::INITIAL_RATE64, "initial-rate", Kind::U64),
    rule(option::SPLIT_GSO, "split-gso", Kind::U32),
    rule(option::OVERHEAD, "overhead", Kind::U32),
    rule(option::MPU, "mpu", Kind::U32),
];

fn refuse(extack: &mut Extack, what: impl Display) -> Error {
    extack.refuse(EINVAL, format_args!("{KIND}: {what}"))
}

/// Refuses what is out of range.
pub(super) fn check(config: &Config, extack: &mut Extack) -> Result {
    config.validate().map_err(|invalid| refuse(extack, invalid))
}

/// Changes `config` as the request says. What the request does not name stays.
///
/// # Errors
///
/// `EINVAL` with a message, for what does not have the right form. Ranges are [`check`]'s.
pub(super) fn apply(config: &mut Config, nest: Nest<'_>, extack: &mut Extack) -> Result {
    attr::parse(nest, RULES, KIND, extack, |number, value, extack| {
        match (number, value) {
            (option::INTERVAL, Value::U64(ns)) => config.interval = Nanos(ns),
            (option::ETA, Value::U32(ppb)) => config.eta = ppb,
            (option::BETA, Value::U32(beta)) => config.beta = beta,
            (option::ASSOCIATE, Value::U32(ppb)) => config.associate = ppb,
            (option::IDLE, Value::U64(ns)) => config.idle = Nanos(ns),
            (option::FLOWS, Value::U32(n)) => config.flows = n,
            (option::BUCKET, Value::U32(bytes)) => config.bucket = bytes,
            (option::LIMIT, Value::U32(bytes)) => config.limit = bytes,
            (option::PASS_LIMIT, Value::U32(bytes)) => config.pass_limit = bytes,
            (option::INITIAL_RATE64, Value::U64(rate)) => {
                config.initial_rate = (rate != 0).then_some(rate);
            }
            (option::SPLIT_GSO, Value::U32(on @ 0..=1)) => config.split_gso = on == 1,
            (option::SPLIT_GSO, Value::U32(on)) => {
                return Err(refuse(
                    extack,
                    format_args!("split-gso: {on} is not in 0..1"),
                ));
            }
            (option::OVERHEAD, Value::U32(bytes)) => config.overhead = bytes,
            (option::MPU, Value::U32(bytes)) => config.mpu = bytes,
            // `RULES` lets nothing else through.
            _ => {}
        }
        Ok(())
    })
}

/// Writes all options, so that they recreate the pacer.
pub(super) fn dump(config: &Config, message: &mut Message) -> Result {
    message.u64(option::INTERVAL, config.interval.0, option::PAD)?;
    message.u32(option::ETA, config.eta)?;
    message.u32(option::BETA, config.beta)?;
    message.u32(option::ASSOCIATE, config.associate)?;
    message.u64(option::IDLE, config.idle.0, option::PAD)?;
    message.u32(option::FLOWS, config.flows)?;
    message.u32(option::BUCKET, config.bucket)?;
    message.u32(option::LIMIT, config.limit)?;
    message.u32(option::PASS_LIMIT, config.pass_limit)?;
    message.u64(
        option::INITIAL_RATE64,
        config.initial_rate.unwrap_or(0),
        option::PAD,
    )?;
    message.u32(option::SPLIT_GSO, config.split_gso.into())?;
    message.u32(option::OVERHEAD, config.overhead)?;
    message.u32(option::MPU, config.mpu)
}
