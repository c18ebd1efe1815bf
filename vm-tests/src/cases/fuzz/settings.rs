// SPDX-License-Identifier: GPL-2.0
//! Netlink attributes of options: values that are allowed, from the tables that the modules have
//! them from, and others.

use turnstile_core::options::{Form, Kind, Opt, Table};

use crate::raw_netlink::{attribute, NESTED};
use crate::rng::Rng;

/// The transport's option. What is under way when a round ends is waited for, several times as long
/// ([`super::gone`]); so there is a longest one, in ns, which is also the usual one here.
const TIMEOUT: &str = "timeout";
pub(super) const LONGEST: u64 = 1_000_000_000;
/// The bits of an attribute's type that are its number.
const NUMBER: u16 = 0x3fff;

/// A value that the option may have, as its attribute.
fn allowed(rng: &mut Rng, option: &Opt) -> Vec<u8> {
    let (min, mut max) = option.form.ends();
    if option.name == TIMEOUT {
        max = LONGEST;
    }
    let words = option.form.words();
    let value = match rng.index(5) {
        0 if !words.is_empty() => rng.pick(words).1,
        0 => min,
        1 => max,
        // Near the lower end, as sensible ones are.
        2 | 3 => {
            let bits = rng.range(0..=24);
            min.saturating_add(rng.range(0..=(max - min).min(1 << bits)))
        }
        _ => rng.range(min..=max),
    };
    match option.kind {
        _ if option.form == Form::Map => attribute(option.number, &[2; 64]),
        Kind::U64 => attribute(option.number, &value.to_ne_bytes()),
        _ => attribute(option.number, &(value as u32).to_ne_bytes()),
    }
}

/// Some options, all in their ranges.
pub(super) fn right<T: Table>(rng: &mut Rng) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..rng.range(1..=2) {
        let option = rng.pick::<Opt>(T::OPTIONS);
        all.extend(allowed(rng, option));
    }
    all
}

/// All options as they are when nothing is said, but for [`LONGEST`].
pub(super) fn usual<T: Table>() -> Vec<u8> {
    let mut all = Vec::new();
    for option in T::OPTIONS {
        let Some(value) = T::DEFAULT.read(option.number) else {
            continue;
        };
        let number = value.number().map(|number| {
            if option.name == TIMEOUT {
                LONGEST
            } else {
                number
            }
        });
        match (number, option.kind) {
            (Some(number), Kind::U64) => {
                all.extend(attribute(option.number, &number.to_ne_bytes()))
            }
            (Some(number), _) => {
                all.extend(attribute(option.number, &(number as u32).to_ne_bytes()));
            }
            _ => {}
        }
    }
    all
}

/// Attributes with something wrong: numbers, lengths, nests, bytes.
pub(super) fn wrong<T: Table>(rng: &mut Rng) -> Vec<u8> {
    let mut all = if rng.one_in(2) {
        usual::<T>()
    } else {
        right::<T>(rng)
    };
    for _ in 0..rng.range(1..=3) {
        if all.is_empty() {
            break;
        }
        let at = rng.index(all.len());
        let start = at & !3;
        match rng.index(6) {
            0 => all[at] ^= 1 << rng.range(0..=7),
            1 => all.truncate(at),
            2 => all = attribute(rng.range(0..=40) as u16 | NESTED, &all),
            3 => {
                let mut content = vec![0; *rng.pick(&[0, 1, 3, 5, 8, 9, 64, 2000])];
                rng.fill(&mut content);
                let kind = rng.range(0..=60) as u16;
                all.splice(start..start, attribute(kind, &content));
            }
            4 => all.rotate_left(start),
            _ => {
                let again = all[start..].to_vec();
                all.extend(again);
            }
        }
    }
    all.truncate(4000);
    tame::<T>(&mut all);
    all
}

/// Makes a [`TIMEOUT`] that would be taken, and is longer than [`LONGEST`], as long as that.
fn tame<T: Table>(all: &mut [u8]) {
    let Some(option) = T::OPTIONS.iter().find(|option| option.name == TIMEOUT) else {
        return;
    };
    let (_, most) = option.form.ends();
    let mut rest = all;
    while let Some(&[l0, l1, k0, k1]) = rest.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let Some(content) = rest.get_mut(4..length) else {
            break;
        };
        if u16::from_ne_bytes([k0, k1]) & NUMBER == option.number {
            if let Some(value) = content.first_chunk_mut() {
                if (LONGEST..=most).contains(&u64::from_ne_bytes(*value)) {
                    *value = LONGEST.to_ne_bytes();
                }
            }
        }
        let next = length.next_multiple_of(4);
        rest = rest.get_mut(next..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use turnstile_core::transport::config::Config;

    use super::*;
    use crate::raw_netlink::attributes_of;

    #[test]
    fn no_timeout_that_is_taken_is_longer_than_a_round_waits_for() {
        let option = Config::OPTIONS.iter().find(|option| option.name == TIMEOUT);
        let option = option.expect("the transport's option");
        let (_, most) = option.form.ends();
        let mut rng = Rng::new(1, "settings");
        let mut others = 0;
        for _ in 0..20_000 {
            let all = match rng.index(3) {
                0 => right::<Config>(&mut rng),
                1 => usual::<Config>(),
                _ => wrong::<Config>(&mut rng),
            };
            for (kind, content) in attributes_of(&all) {
                let Some(value) = content
                    .first_chunk()
                    .filter(|_| kind & NUMBER == option.number)
                else {
                    continue;
                };
                let value = u64::from_ne_bytes(*value);
                assert!(value <= LONGEST || value > most, "{value} ns");
                others += u32::from(value != LONGEST);
            }
        }
        assert!(others > 100, "only {others} others");
    }
}
