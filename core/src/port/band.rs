// SPDX-License-Identifier: GPL-2.0
//! The bands of a port, which are its classes: names, class numbers, dense indices.

use core::fmt;

use crate::options::limits;
use crate::port::config::Config;
use crate::port::uapi::class;

/// Where a packet is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Band {
    /// Signals and control traffic: first, unshaped but for the link.
    Signal,
    /// Tokens of one priority, 0 the highest. All priorities share one shaper.
    Token(u8),
    /// Scheduled data and all other traffic.
    Data,
    /// Opportunistic packets of the first round trip: last.
    Unscheduled,
}

impl Band {
    /// How many bands there can be: signal, data, unscheduled and 8 token priorities.
    pub const COUNT: usize = 11;
    /// How many token priorities there can be.
    pub const MAX_PRIORITIES: u8 = 8;

    /// The highest minor number of a class.
    pub const LAST_MINOR: u8 = Self::Token(Self::MAX_PRIORITIES - 1).minor();

    /// The minor number of the band's class. A token priority beyond the last possible one counts
    /// as that.
    #[inline]
    pub const fn minor(self) -> u8 {
        match self {
            Self::Signal => class::SIGNAL,
            Self::Data => class::DATA,
            Self::Unscheduled => class::UNSCHEDULED,
            // TOKENS is 0x10: no carry.
            Self::Token(priority) => class::TOKENS | top(priority),
        }
    }

    /// The band of a class, if a port of this configuration has it.
    #[inline]
    pub fn from_minor(minor: u8, config: &Config) -> Option<Self> {
        Self::from_any_minor(minor).filter(|band| band.exists(config))
    }

    /// The band of a class that some port may have.
    #[inline]
    pub const fn from_any_minor(minor: u8) -> Option<Self> {
        match minor {
            class::SIGNAL => Some(Self::Signal),
            class::DATA => Some(Self::Data),
            class::UNSCHEDULED => Some(Self::Unscheduled),
            _ => {
                let priority = minor ^ class::TOKENS;
                if priority < Self::MAX_PRIORITIES {
                    Some(Self::Token(priority))
                } else {
                    None
                }
            }
        }
    }

    /// Whether a port of this configuration has the band.
    #[inline]
    pub const fn exists(self, config: &Config) -> bool {
        match self {
            Self::Signal | Self::Data => true,
            Self::Unscheduled => config.unscheduled != 0,
            Self::Token(priority) => priority < config.priorities,
        }
    }

    /// A number below [`Band::COUNT`], for tables: signal 0, data 1, unscheduled 2, token priority
    /// p 3 + p.
    #[inline]
    pub const fn index(self) -> usize {
        match self {
            Self::Signal => 0,
            Self::Data => 1,
            Self::Unscheduled => 2,
            Self::Token(priority) => 3_usize.wrapping_add(top(priority) as usize),
        }
    }

    /// The band with this [`Band::index`].
    pub const fn from_index(index: usize) -> Option<Self> {
        match index {
            0 => Some(Self::Signal),
            1 => Some(Self::Data),
            2 => Some(Self::Unscheduled),
            3..Self::COUNT => Some(Self::Token(index.wrapping_sub(3) as u8)),
            _ => None,
        }
    }

    /// The bands of a port of this configuration, by class number.
    pub fn all(config: &Config) -> impl Iterator<Item = Self> + Clone {
        let config = *config;
        (0..Self::COUNT)
            .filter_map(Self::from_index)
            .filter(move |band| band.exists(&config))
    }

    /// The band of this name: `signal`, `data`, `unscheduled`, `token0` to `token7`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.as_bytes() {
            b"signal" => Some(Self::Signal),
            b"data" => Some(Self::Data),
            b"unscheduled" => Some(Self::Unscheduled),
            [b't', b'o', b'k', b'e', b'n', digit @ b'0'..=b'7'] => Some(Self::Token(digit & 7)),
            _ => None,
        }
    }
}

/// `priority`, or the last possible one.
#[inline]
const fn top(priority: u8) -> u8 {
    if priority < limits::PRIORITIES.max as u8 {
        priority
    } else {
        limits::PRIORITIES.max as u8 - 1
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal => f.pad("signal"),
            Self::Data => f.pad("data"),
            Self::Unscheduled => f.pad("unscheduled"),
            Self::Token(priority) => write!(f, "token{priority}"),
        }
    }
}

#[cfg(test)]
mod tests;
