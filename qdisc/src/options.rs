// SPDX-License-Identifier: GPL-2.0
//! `TCA_OPTIONS` to a configuration, and back, for every table of options.

use core::fmt::{self, Display};
use kernel::prelude::*;
use knet::{
    attr::{self, Nest, Policy, Rule},
    Extack, Message,
};
use turnstile_core::{
    options::{Given, Kind, Problem, Table, Value},
    pacer::{config as pacer, uapi as pacer_uapi},
    port::{config as port, uapi},
};

/// A configuration with a kind of qdisc.
pub(crate) trait Configured: Table {
    /// What a request may carry.
    const POLICY: Policy;
}

impl Configured for port::Config {
    const POLICY: Policy = Policy {
        who: uapi::KIND,
        rules: &rules::<Self, { count::<port::Config>() }>(),
        outside: outside::<Self>,
    };
}

impl Configured for pacer::Config {
    const POLICY: Policy = Policy {
        who: pacer_uapi::KIND,
        rules: &rules::<Self, { count::<pacer::Config>() }>(),
        outside: outside::<Self>,
    };
}

/// Refuses a request: the kernel shows `what` to whoever made it.
pub(crate) fn refuse<T: Configured>(extack: &mut Extack, what: impl Display) -> Error {
    refuse_as(&T::POLICY, extack, what)
}

/// [`refuse`] for another kind of qdisc with the same options.
pub(crate) fn refuse_as(policy: &Policy, extack: &mut Extack, what: impl Display) -> Error {
    extack.refuse(EINVAL, format_args!("{}: {what}", policy.who))
}

/// Changes `config` as the request says. What the request does not name stays.
///
/// # Errors
///
/// `EINVAL` with a message, for what is not in its range. Whether the result makes sense as a whole
/// is the configuration's to say.
pub(crate) fn apply<T: Configured>(
    config: &mut T,
    nest: Nest<'_>,
    extack: &mut Extack,
) -> Result<Given> {
    apply_as(&T::POLICY, config, nest, extack)
}

/// [`apply`] for another kind of qdisc with the same options.
///
/// # Errors
///
/// As for [`apply`].
pub(crate) fn apply_as<T: Configured>(
    policy: &Policy,
    config: &mut T,
    nest: Nest<'_>,
    extack: &mut Extack,
) -> Result<Given> {
    let mut given = Given::default();
    attr::parse(nest, policy, extack, |number, value, extack| {
        let value = match value {
            attr::Value::U32(value) => Value::U32(value),
            attr::Value::U64(value) => Value::U64(value),
            attr::Value::Bytes(bytes) => Value::Map(*bytes.first_chunk().ok_or(EINVAL)?),
        };
        config
            .take(&mut given, number, value)
            .map_err(|refusal| refuse_as(policy, extack, refusal))
    })?;
    Ok(given)
}

/// Writes what [`apply`] would need to make this configuration.
pub(crate) fn dump<T: Table>(config: &T, message: &mut Message) -> Result {
    config.each(|number, value| match value {
        Value::U32(value) => message.u32(number, value),
        Value::U64(value) => message.u64(number, value, T::PAD),
        Value::Map(map) => message.bytes(number, &map),
    })
}

fn outside<T: Table>(number: u16, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match T::option(number) {
        Some(row) => row.refuse(Problem::Not(value, row.form)).fmt(f),
        None => Ok(()),
    }
}

/// How many attributes the options have, and one for padding.
const fn count<T: Table>() -> usize {
    let (mut all, mut i) = (1, 0);
    while i < T::OPTIONS.len() {
        all += 1 + T::OPTIONS[i].rate.is_some() as usize;
        i += 1;
    }
    all
}

const fn rules<T: Table, const N: usize>() -> [Rule; N] {
    let pad = Rule {
        number: T::PAD,
        name: "pad",
        kind: attr::Kind::Pad,
        range: (0, 0),
        words: &[],
    };
    let (mut rules, mut at, mut i) = ([pad; N], 1, 0);
    while i < T::OPTIONS.len() {
        let row = &T::OPTIONS[i];
        rules[at] = Rule {
            number: row.number,
            name: row.name,
            kind: match row.kind {
                Kind::U32 => attr::Kind::U32,
                Kind::U64 => attr::Kind::U64,
                Kind::Map => attr::Kind::Bytes(64),
            },
            range: row.form.ends(),
            words: row.form.words(),
        };
        at += 1;
        if let Some(number) = row.rate {
            rules[at] = Rule {
                number,
                name: row.name,
                kind: attr::Kind::U64,
                // What of the link it comes to, is checked when the link is known.
                range: (0, u64::MAX),
                words: &[],
            };
            at += 1;
        }
        i += 1;
    }
    rules
}
