// SPDX-License-Identifier: GPL-2.0
//! Attributes to a configuration, and back.

use crate::errno::in_use;
use crate::state::Turnstile;
use core::fmt::Display;
use kernel::prelude::*;
use knet_transport::{
    attr::{self, Kind, Nest, Rule, Value as Attr},
    now, Control, Extack, Locked, Reply,
};
use turnstile_core::{
    transport::config::{Config, Opt, Resolved, Value, OPTIONS},
    transport::uapi::{self as uapi, config as number},
    units::Nanos,
};

/// What `transport-set` takes: every option, and what a reader of the configuration gets beside
/// them.
const RULES: &[Rule] = &rules();

const OTHERS: [Rule; 2] = [
    Rule {
        number: number::PAD,
        name: "pad",
        kind: Kind::Pad,
    },
    Rule {
        number: number::LINK_IN_FORCE,
        name: "link-in-force",
        kind: Kind::U64,
    },
];

const fn rules() -> [Rule; OPTIONS.len() + OTHERS.len()] {
    let [pad, in_force] = OTHERS;
    let mut rules = [pad; OPTIONS.len() + OTHERS.len()];
    let mut i = 0;
    while i < OPTIONS.len() {
        rules[i] = rule(&OPTIONS[i]);
        i += 1;
    }
    rules[i] = in_force;
    rules
}

const fn rule(option: &Opt) -> Rule {
    Rule {
        number: option.number,
        name: option.name,
        kind: match option.default {
            Value::U32(_) => Kind::U32,
            Value::U64(_) => Kind::U64,
        },
    }
}

fn refuse(extack: &mut Extack, what: impl Display) -> Error {
    extack.refuse(EINVAL, format_args!("{}: {what}", uapi::FAMILY))
}

/// `transport-get`.
pub(super) fn get(net: &mut Control<'_, Turnstile>, message: &mut Reply) -> Result {
    let (config, link) = match net.lock() {
        Some(state) => (state.settings.config, Some(state.endpoint.config().link)),
        // Nobody has used the namespace yet, and reading is no use.
        None => (Config::DEFAULT, None),
    };
    let link = match link {
        Some(link) => link,
        None => config.validate(net.fastest()).map_err(|_| EINVAL)?.link,
    };
    for option in OPTIONS {
        match config.get(option.number) {
            Some(Value::U32(value)) => message.u32(option.number, value)?,
            Some(Value::U64(value)) => message.u64(option.number, value, number::PAD)?,
            None => {}
        }
    }
    message.u64(number::LINK_IN_FORCE, link, number::PAD)
}

/// `transport-set`: what the request does not name stays, and all of it stays if anything is
/// refused.
pub(super) fn set(
    net: &mut Control<'_, Turnstile>,
    attrs: Nest<'_>,
    extack: &mut Extack,
) -> Result {
    let device = net.fastest();
    // A request that is refused opens no port.
    check(net, attrs, device, extack)?;
    net.open().map_err(|error| {
        let what = match error {
            error if error == in_use() => "another program has the UDP port",
            _ => "the UDP port cannot be opened",
        };
        extack.refuse(error, format_args!("{}: {what}", uapi::FAMILY))
    })?;
    // Another request may have come in between.
    change(net, attrs, device, extack)
}

// A configuration is some three hundred bytes, and so is what it comes to: each function has one of
// them at most.

#[inline(never)]
fn check(
    net: &mut Control<'_, Turnstile>,
    attrs: Nest<'_>,
    device: Option<u64>,
    extack: &mut Extack,
) -> Result {
    let mut config = net
        .lock()
        .map_or(Config::DEFAULT, |state| state.settings.config);
    changed(&mut config, attrs, device, extack).map(drop)
}

#[inline(never)]
fn change(
    net: &mut Control<'_, Turnstile>,
    attrs: Nest<'_>,
    device: Option<u64>,
    extack: &mut Extack,
) -> Result {
    let mut state = net.lock().ok_or(ENODEV)?;
    let mut config = state.settings.config;
    let resolved = changed(&mut config, attrs, device, extack)?;
    state.settings.config = config;
    put_in_force(&mut state, &resolved);
    Ok(())
}

/// A device came up, went down or changed: the link may be another one, if the user has not said
/// which.
pub(super) fn link_changed(net: &mut Control<'_, Turnstile>) {
    let device = net.fastest();
    let Some(mut state) = net.lock() else {
        return;
    };
    if let Ok(resolved) = state.settings.resolve(device) {
        if resolved != *state.endpoint.config() {
            put_in_force(&mut state, &resolved);
        }
    }
}

fn put_in_force(state: &mut Locked<'_, Turnstile>, resolved: &Resolved) {
    let (state, outbox) = state.parts();
    let now = now();
    let (endpoint, mut surroundings) = state.split(outbox, now);
    // Which also tells those who listen to events.
    endpoint.configure(Nanos(now), resolved, &mut surroundings);
    state.settle(outbox);
}

fn changed(
    config: &mut Config,
    attrs: Nest<'_>,
    device: Option<u64>,
    extack: &mut Extack,
) -> Result<Resolved> {
    parse(config, attrs, extack)?;
    config
        .validate(device)
        .map_err(|refusal| refuse(extack, refusal))
}

fn parse(config: &mut Config, attrs: Nest<'_>, extack: &mut Extack) -> Result {
    attr::parse(
        attrs,
        RULES,
        uapi::FAMILY,
        extack,
        |number, value, extack| {
            if number == number::LINK_IN_FORCE {
                return Err(refuse(extack, "link-in-force: can only be read"));
            }
            let _known = match value {
                Attr::U32(value) => config.set_u32(number, value),
                Attr::U64(value) => config.set_u64(number, value),
                // `RULES` has none.
                Attr::Bytes(_) => false,
            };
            Ok(())
        },
    )
}
