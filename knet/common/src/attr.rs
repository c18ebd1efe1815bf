// SPDX-License-Identifier: GPL-2.0
//! Reading netlink attributes, with a policy.
//!
//! The kernel has checked that the nest as a whole lies inside the message, and nothing more. A
//! policy ([`Rule`]s) says what may be in it; [`parse`] refuses everything else with a message that
//! names the attribute, which the C policies cannot do.

use crate::extack::Extack;
use kernel::error::{code::*, Result};

/// What an attribute must look like.
#[derive(Clone, Copy)]
pub enum Kind {
    /// `NLA_U32`
    U32,
    /// `NLA_U64`
    U64,
    /// `NLA_BINARY` of exactly so many bytes.
    Bytes(usize),
    /// Carries nothing; skipped (`NLA_PAD` of 64-bit attributes).
    Pad,
}

impl Kind {
    fn len(self) -> usize {
        match self {
            Kind::U32 => 4,
            Kind::U64 => 8,
            Kind::Bytes(len) => len,
            Kind::Pad => 0,
        }
    }
}

/// One attribute that a request may carry.
#[derive(Clone, Copy)]
pub struct Rule {
    /// `nla_type` without its flags.
    pub number: u16,
    /// What a person calls it; used in error messages.
    pub name: &'static str,
    /// Its form.
    pub kind: Kind,
}

/// An attribute's value, checked against its [`Rule`].
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// Of [`Kind::U32`].
    U32(u32),
    /// Of [`Kind::U64`].
    U64(u64),
    /// Of [`Kind::Bytes`].
    Bytes(&'a [u8]),
}

/// The content of a nested attribute, or all attributes of a message.
#[derive(Clone, Copy)]
pub struct Nest<'a>(&'a [u8]);

const HEADER: usize = 4;
/// The bits of an attribute's type that are its number (`NLA_TYPE_MASK`).
const TYPE_MASK: u16 = 0x3fff;

impl<'a> Nest<'a> {
    /// From what is behind the header.
    #[must_use]
    pub fn new(content: &'a [u8]) -> Self {
        Nest(content)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let [a, b] = *bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_ne_bytes([a, b]))
}

/// Calls `each` with the number and the value of every attribute in the nest.
///
/// # Errors
///
/// `EINVAL`, with a message, for an attribute that is cut short, of another length than its rule
/// says, given twice or not in `rules` (at most 64 of them); else what `each` returns. The answer
/// also says where in the request the attribute is.
pub fn parse<'a>(
    nest: Nest<'a>,
    rules: &[Rule],
    who: &str,
    extack: &mut Extack,
    mut each: impl FnMut(u16, Value<'a>, &mut Extack) -> Result,
) -> Result {
    let mut rest = nest.0;
    let mut seen: u64 = 0;
    while !rest.is_empty() {
        let at = rest;
        if let Err(error) = next(&mut rest, &mut seen, rules, who, extack, &mut each) {
            extack.blame(at);
            return Err(error);
        }
    }
    Ok(())
}

/// Takes the first attribute off `rest`.
fn next<'a>(
    rest: &mut &'a [u8],
    seen: &mut u64,
    rules: &[Rule],
    who: &str,
    extack: &mut Extack,
    each: &mut impl FnMut(u16, Value<'a>, &mut Extack) -> Result,
) -> Result {
    let (Some(len), Some(number)) = (u16_at(rest, 0), u16_at(rest, 2)) else {
        return Err(extack.refuse(
            EINVAL,
            format_args!("{who}: {} stray bytes after the last option", rest.len()),
        ));
    };
    let number = number & TYPE_MASK;
    let Some(payload) = rest.get(HEADER..usize::from(len)) else {
        return Err(extack.refuse(
            EINVAL,
            format_args!(
                "{who}: attribute {number}: length {len} is not in {HEADER}..{}",
                rest.len()
            ),
        ));
    };
    let aligned = usize::from(len).saturating_add(3) & !3;
    *rest = rest.get(aligned..).unwrap_or(&[]);

    let Some((index, rule)) = rules
        .iter()
        .enumerate()
        .find(|(_, rule)| rule.number == number)
    else {
        return Err(extack.refuse(EINVAL, format_args!("{who}: unknown attribute {number}")));
    };
    if matches!(rule.kind, Kind::Pad) {
        return Ok(());
    }
    let bit = 1u64.checked_shl(index as u32).unwrap_or(0);
    if *seen & bit != 0 {
        return Err(extack.refuse(EINVAL, format_args!("{who}: {}: given twice", rule.name)));
    }
    *seen |= bit;
    let value = match (rule.kind, payload) {
        (Kind::U32, &[a, b, c, d]) => Value::U32(u32::from_ne_bytes([a, b, c, d])),
        (Kind::U64, &[a, b, c, d, e, f, g, h]) => {
            Value::U64(u64::from_ne_bytes([a, b, c, d, e, f, g, h]))
        }
        (Kind::Bytes(want), bytes) if bytes.len() == want => Value::Bytes(bytes),
        (kind, bytes) => {
            return Err(extack.refuse(
                EINVAL,
                format_args!(
                    "{who}: {}: {} bytes, not {}",
                    rule.name,
                    bytes.len(),
                    kind.len()
                ),
            ));
        }
    };
    each(number, value, extack)
}
