// SPDX-License-Identifier: GPL-2.0
//! What may follow an option's word.

use core::fmt;

use super::Range;

/// What an option may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The word alone means 1, with `no-` before it 0. One of these words may follow it, which
    /// stands for another value.
    Flag(&'static [(&'static str, u64)]),
    /// One of these words; the value is the word's place.
    Choice(&'static [&'static str]),
    /// A number, or a word that stands for a value outside the range.
    Number(Range, &'static [(&'static str, u64)]),
    /// A share of the link in this range, or a rate that comes to one, or a word that stands for a
    /// share outside the range. Rates have an attribute of their own.
    Part(Range, &'static [(&'static str, u64)]),
    /// A band for each code point.
    Map,
}

impl Form {
    /// The range, if it is numbers that are allowed.
    pub const fn range(&self) -> Option<Range> {
        match self {
            Self::Number(range, _) | Self::Part(range, _) => Some(*range),
            Self::Flag(_) | Self::Choice(_) | Self::Map => None,
        }
    }

    /// Words that stand for values, beside a [`Form::Choice`]'s.
    pub const fn words(&self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Flag(words) | Self::Number(_, words) | Self::Part(_, words) => words,
            Self::Choice(_) | Self::Map => &[],
        }
    }

    /// The least and the greatest of the values that need no word.
    pub const fn ends(&self) -> (u64, u64) {
        match self {
            Self::Flag(_) => (0, 1),
            Self::Choice(words) => (0, (words.len() as u64).saturating_sub(1)),
            Self::Number(range, _) | Self::Part(range, _) => (range.min, range.max),
            Self::Map => (0, u64::MAX),
        }
    }

    /// Whether `value` is allowed.
    pub fn contains(&self, value: u64) -> bool {
        let (min, max) = self.ends();
        (min <= value && value <= max) || self.words().iter().any(|(_, word)| *word == value)
    }
}

/// What is allowed: `1us..1s or off`, `tokens-first|data-first`.
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(words) => {
                f.write_str("0..1")?;
                or_words(f, words)
            }
            Self::Choice(words) => {
                let mut between = "";
                for word in *words {
                    write!(f, "{between}{word}")?;
                    between = "|";
                }
                Ok(())
            }
            Self::Number(range, words) | Self::Part(range, words) => {
                write!(f, "{range}")?;
                or_words(f, words)
            }
            Self::Map => Ok(()),
        }
    }
}

fn or_words(f: &mut fmt::Formatter<'_>, words: &[(&str, u64)]) -> fmt::Result {
    let mut left = words.len();
    for (word, _) in words {
        left = left.saturating_sub(1);
        write!(f, "{}{word}", if left == 0 { " or " } else { ", " })?;
    }
    Ok(())
}
