// SPDX-License-Identifier: GPL-2.0
//! Attributes to a configuration, and back.

use crate::errno::in_use;
use crate::keys::{self, Held, Slots};
use crate::state::Turnstile;
use core::fmt::{self, Display};
use kernel::prelude::*;
use knet_transport::{
    attr::{self, Nest, Policy, Rule, Value as Attr},
    now, Control, Device, Extack, Locked, Reply,
};
use turnstile_core::{
    options::{Given, Kind, Opt, Problem, Table, Value},
    transport::config::{Config, Resolved, OPTIONS},
    transport::uapi::{self as uapi, config as number},
    units::Nanos,
};

/// What `transport-set` takes: every option, and what a reader of the configuration gets beside
/// them.
const POLICY: Policy = Policy {
    who: uapi::FAMILY,
    rules: &rules(),
    outside,
};

const REPORTED: &[Opt] = <Config as Table>::REPORTED;

const fn rules() -> [Rule; OPTIONS.len() + REPORTED.len() + 1] {
    let pad = Rule {
        number: Config::PAD,
        name: "pad",
        kind: attr::Kind::Pad,
        range: (0, 0),
        words: &[],
    };
    let mut rules = [pad; OPTIONS.len() + REPORTED.len() + 1];
    let mut i = 0;
    while i < OPTIONS.len() {
        rules[i] = rule(&OPTIONS[i], OPTIONS[i].form.ends());
        i += 1;
    }
    let mut j = 0;
    while j < REPORTED.len() {
        // It is refused whatever it is.
        rules[i + j] = rule(&REPORTED[j], (0, u64::MAX));
        j += 1;
    }
    rules
}

const fn rule(row: &Opt, range: (u64, u64)) -> Rule {
    Rule {
        number: row.number,
        name: row.name,
        kind: match row.kind {
            Kind::U32 => attr::Kind::U32,
            Kind::U64 => attr::Kind::U64,
            Kind::Map => attr::Kind::Bytes(64),
        },
        range,
        words: row.form.words(),
    }
}

fn outside(number: u16, value: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match Config::option(number) {
        Some(row) => row.refuse(Problem::Not(value, row.form)).fmt(f),
        None => Ok(()),
    }
}

fn refuse(extack: &mut Extack, what: impl Display) -> Error {
    extack.refuse(EINVAL, format_args!("{}: {what}", uapi::FAMILY))
}

// A configuration is some three hundred bytes, and so is what it comes to: each function has one of
// them at most.

/// `transport-get`.
pub(super) fn get(net: &mut Control<'_, Turnstile>, message: &mut Reply) -> Result {
    let (config, link) = match net.lock() {
        Some(state) => (
            state.settings.config,
            Some(state.endpoint.config().speed.link),
        ),
        // Nobody has used the namespace yet, and reading is no use.
        None => (Config::DEFAULT, None),
    };
    let link = match link {
        Some(link) => link,
        None => link_of(&config, net.fastest())?,
    };
    config.each(|number, value| match value {
        Value::U32(value) => message.u32(number, value),
        Value::U64(value) => message.u64(number, value, number::PAD),
        Value::Map(map) => message.bytes(number, &map),
    })?;
    message.u64(number::LINK_IN_FORCE, link, number::PAD)
}

/// The link rate that the configuration comes to, in bytes/s.
#[inline(never)]
fn link_of(config: &Config, device: Option<u64>) -> Result<u64> {
    match config.validate(device) {
        Ok(resolved) => Ok(resolved.speed.link),
        Err(_) => Err(EINVAL),
    }
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
    let serials = check(net, attrs, device, extack)?;
    let slots = read_keys(net, serials, extack)?;
    net.open().map_err(|error| {
        let what = match error {
            error if error == in_use() => "another program has the UDP port",
            _ => "the UDP port cannot be opened",
        };
        extack.refuse(error, format_args!("{}: {what}", uapi::FAMILY))
    })?;
    // Another request may have come in between.
    change(net, attrs, device, slots, extack)
}

#[inline(never)]
fn check(
    net: &mut Control<'_, Turnstile>,
    attrs: Nest<'_>,
    device: Option<u64>,
    extack: &mut Extack,
) -> Result<[u32; 3]> {
    let initial = net.is_initial();
    let mut config = net
        .lock()
        .map_or(Config::DEFAULT, |state| state.settings.config);
    changed(&mut config, attrs, device, initial, extack)?;
    Ok(keys::serials(&config))
}

/// The keys with these serial numbers. Those that are in force are not read again: who changes
/// something else need not have them.
#[inline(never)]
fn read_keys(
    net: &mut Control<'_, Turnstile>,
    serials: [u32; 3],
    extack: &mut Extack,
) -> Result<Slots> {
    const NAMES: [&str; 3] = ["key", "accept-key", "accept-key-2"];
    let mut slots = [const { None }; 3];
    for ((slot, serial), name) in slots.iter_mut().zip(serials).zip(NAMES) {
        if serial == 0 {
            continue;
        }
        let known = net.lock().and_then(|state| {
            let slots = state.sockets.keys.slots.iter().flatten();
            slots.clone().find(|held| held.serial == serial).cloned()
        });
        *slot = Some(match known {
            Some(held) => held,
            None => Held::read(net, serial).map_err(|error| {
                let why = keys::why(error);
                extack.refuse(
                    error,
                    format_args!("{}: {name} {serial}: {why}", uapi::FAMILY),
                )
            })?,
        });
    }
    Ok(slots)
}

#[inline(never)]
fn change(
    net: &mut Control<'_, Turnstile>,
    attrs: Nest<'_>,
    device: Option<u64>,
    slots: Slots,
    extack: &mut Extack,
) -> Result {
    let mut state = net.lock().ok_or(ENODEV)?;
    store(&mut state, attrs, device, slots, extack)?;
    enforce(&mut state, device);
    links(&mut state);
    Ok(())
}

#[inline(never)]
fn store(
    state: &mut Locked<'_, Turnstile>,
    attrs: Nest<'_>,
    device: Option<u64>,
    slots: Slots,
    extack: &mut Extack,
) -> Result {
    let mut config = state.settings.config;
    let initial = state.settings.initial;
    changed(&mut config, attrs, device, initial, extack)?;
    put_keys(state, &config, slots, extack)?;
    state.settings.config = config;
    Ok(())
}

/// Works out what was stored, and was found to be valid.
#[inline(never)]
fn enforce(state: &mut Locked<'_, Turnstile>, device: Option<u64>) {
    if let Ok(resolved) = state.settings.resolve(device) {
        put_in_force(state, &resolved);
    }
}

#[inline(never)]
fn put_keys(
    state: &mut Locked<'_, Turnstile>,
    config: &Config,
    slots: Slots,
    extack: &mut Extack,
) -> Result {
    if !state.sockets.keys.configure(config, slots) {
        let what = "another request has changed the keys meanwhile";
        return Err(extack.refuse(EAGAIN, format_args!("{}: {what}", uapi::FAMILY)));
    }
    let sealing = state.sockets.keys.sealing();
    state.endpoint.set_sealing(sealing);
    state.endpoint.prepare();
    Ok(())
}

/// A device came up, went down or changed: the link may be another one, if the user has not said
/// which.
pub(super) fn link_changed(net: &mut Control<'_, Turnstile>) {
    let device = net.fastest();
    let Some(mut state) = net.lock() else {
        return;
    };
    renew(&mut state, device);
    links(&mut state);
}

/// What the configuration comes to with a device of this speed is put in force if it is new.
#[inline(never)]
fn renew(state: &mut Locked<'_, Turnstile>, device: Option<u64>) {
    if let Ok(resolved) = state.settings.resolve(device) {
        if resolved != *state.endpoint.config() {
            put_in_force(state, &resolved);
        }
    }
}

/// The devices were asked: tells the endpoint of those that it has links for. There are few of
/// them. Others it is told of when first a packet comes by them.
fn links(state: &mut Locked<'_, Turnstile>) {
    let mut next = 0;
    while let Some((after, link)) = state.endpoint.links(next) {
        next = after;
        let device = state.device(link.device);
        let endpoint = &mut state.endpoint;
        match device {
            _ if link.device == 0 => {}
            Device::Speed(rate) => endpoint.set_link(Nanos(now()), link.device, rate),
            Device::Gone => endpoint.link_gone(link.device),
            // Without a cable many do not say: it keeps the speed that it had.
            Device::Silent => {}
        }
    }
}

#[inline(never)]
fn put_in_force(state: &mut Locked<'_, Turnstile>, resolved: &Resolved) {
    let (state, outbox) = state.parts();
    let now = now();
    let (endpoint, mut surroundings) = state.split(outbox, now);
    // Which also tells those who listen to events.
    endpoint.configure(Nanos(now), resolved, &mut surroundings);
    state.sockets.waiting.place_came_free(now);
    state.settle(now, outbox);
}

fn changed(
    config: &mut Config,
    attrs: Nest<'_>,
    device: Option<u64>,
    initial: bool,
    extack: &mut Extack,
) -> Result {
    parse(config, attrs, extack)?;
    if !initial {
        let capped = config.within_caps();
        capped.map_err(|refusal| refuse(extack, refusal))?;
    }
    validate(config, device, extack)
}

#[inline(never)]
fn validate(config: &Config, device: Option<u64>, extack: &mut Extack) -> Result {
    let valid = config.validate(device).map(drop);
    valid.map_err(|refusal| refuse(extack, refusal))
}

#[inline(never)]
fn parse(config: &mut Config, attrs: Nest<'_>, extack: &mut Extack) -> Result {
    let mut given = Given::default();
    attr::parse(attrs, &POLICY, extack, |number, value, extack| {
        if let Some(row) = REPORTED.iter().find(|row| row.number == number) {
            let read = row.refuse(Problem::Said("can only be read"));
            return Err(refuse(extack, read));
        }
        let value = match value {
            Attr::U32(value) => Value::U32(value),
            Attr::U64(value) => Value::U64(value),
            Attr::Bytes(bytes) => Value::Map(*bytes.first_chunk().ok_or(EINVAL)?),
        };
        let taken = config.take(&mut given, number, value);
        taken.map_err(|refusal| refuse(extack, refusal))
    })?;
    config.settle(given);
    Ok(())
}
