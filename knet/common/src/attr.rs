// SPDX-License-Identifier: GPL-2.0
//! Reading netlink attributes, with a policy.
//!
//! The kernel has checked that the nest as a whole lies inside the message, and nothing more. A
//! [`Policy`] says what may be in it, in which range; [`parse`] refuses everything else with a
//! message that names the attribute, the value and what is allowed, which the C policies cannot do.

use crate::extack::Extack;
use core::fmt;
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
    /// The lowest and the highest number that it may be (`NLA_POLICY_FULL_RANGE`).
    pub range: (u64, u64),
    /// Words of numbers outside the range that it may be, too.
    pub words: &'static [(&'static str, u64)],
}

impl Rule {
    /// Whether it may be this number.
    fn allows(&self, number: u64) -> bool {
        let (min, max) = self.range;
        (min <= number && number <= max) || self.words.iter().any(|(_, word)| *word == number)
    }
}

/// What a request may carry. Maps to C's `struct nla_policy[]`.
pub struct Policy {
    /// Whose refusals these are: messages begin with it.
    pub who: &'static str,
    /// At most 64.
    pub rules: &'static [Rule],
    /// Words the refusal of an attribute's number that its rule does not allow: only whoever has
    /// the options knows in what unit users think of it.
    pub outside: fn(u16, u64, &mut fmt::Formatter<'_>) -> fmt::Result,
}

/// [`Policy::outside`] for a number.
struct Outside<'a>(&'a Policy, u16, u64);

impl fmt::Display for Outside<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0.outside)(self.1, self.2, f)
    }
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
/// says, given twice, out of its rule's range or without a rule; else what `each` returns. The
/// answer also says where in the request the attribute is.
pub fn parse<'a>(
    nest: Nest<'a>,
    policy: &Policy,
    extack: &mut Extack,
    mut each: impl FnMut(u16, Value<'a>, &mut Extack) -> Result,
) -> Result {
    let mut rest = nest.0;
    let mut seen: u64 = 0;
    while !rest.is_empty() {
        let at = rest;
        if let Err(error) = next(&mut rest, &mut seen, policy, extack, &mut each) {
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
    policy: &Policy,
    extack: &mut Extack,
    each: &mut impl FnMut(u16, Value<'a>, &mut Extack) -> Result,
) -> Result {
    let Policy { who, rules, .. } = policy;
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
    let outside = match value {
        Value::U32(value) if !rule.allows(value.into()) => u64::from(value),
        Value::U64(value) if !rule.allows(value) => value,
        _ => return each(number, value, extack),
    };
    let outside = Outside(policy, number, outside);
    Err(extack.refuse(EINVAL, format_args!("{who}: {outside}")))
}
