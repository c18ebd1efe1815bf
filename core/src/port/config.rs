// SPDX-License-Identifier: GPL-2.0
//! The options of a port: defaults, ranges, and what they come to on a given link.
//!
//! The kernel module and the command line check with [`Config::validate`] and [`limits`] alike, so
//! that a person reads the same words from both.

use core::fmt;

use crate::port::band::Band;
use crate::port::uapi::{self, class};
use crate::units::{Nanos, Rate};

pub mod limits;

/// The token group's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// Parts per billion of the link.
    Share(u32),
    /// bytes/s on the wire.
    Rate(u64),
}

/// At what rate a phantom queue drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// Parts per billion of the link.
    Share(u32),
    /// bytes/s on the wire.
    Rate(u64),
}

/// A phantom queue; see [`crate::port::marker::phantom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phantom {
    /// The rate at which it drains.
    pub drain: Drain,
    /// Bytes: packets that find more in it are marked.
    pub mark: u32,
}

/// When a waiting token is no longer worth sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// After [`EXPIRY_INTERVALS`].
    Auto,
    /// Never.
    Off,
    /// When it has waited longer than this.
    After(Nanos),
}

impl Expiry {
    /// From [`uapi::option::TOKEN_EXPIRY`].
    pub const fn from_attr(ns: u64) -> Self {
        match ns {
            uapi::EXPIRY_OFF => Self::Off,
            uapi::EXPIRY_AUTO => Self::Auto,
            ns => Self::After(Nanos(ns)),
        }
    }

    /// For [`uapi::option::TOKEN_EXPIRY`].
    pub const fn to_attr(self) -> u64 {
        match self {
            Self::Off => uapi::EXPIRY_OFF,
            Self::Auto => uapi::EXPIRY_AUTO,
            Self::After(time) => time.0,
        }
    }
}

/// Which of tokens and data goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// TOP fig. 3b.
    TokensFirst,
    /// TOP fig. 3a.
    DataFirst,
}

impl Order {
    /// From [`uapi::option::ORDER`]; `None` if it is no order.
    pub const fn from_attr(order: u32) -> Option<Self> {
        match order {
            uapi::ORDER_TOKENS_FIRST => Some(Self::TokensFirst),
            uapi::ORDER_DATA_FIRST => Some(Self::DataFirst),
            _ => None,
        }
    }

    /// For [`uapi::option::ORDER`].
    pub const fn to_attr(self) -> u32 {
        match self {
            Self::TokensFirst => uapi::ORDER_TOKENS_FIRST,
            Self::DataFirst => uapi::ORDER_DATA_FIRST,
        }
    }
}

/// For each DSCP the minor number of the class (see [`class`]) that its packets go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DscpMap(
    /// Indexed by the code point.
    pub [u8; 64],
);

impl DscpMap {
    /// All packets are data.
    pub const NONE: Self = Self([class::DATA; 64]);

    /// CS6 and CS7, network control (RFC 4594), are signals; all others are data.
    pub const DEFAULT: Self = {
        let mut map = Self::NONE;
        map.0[48] = class::SIGNAL;
        map.0[56] = class::SIGNAL;
        map
    };

    /// The class of `code`, of which the low six bits count.
    #[inline]
    pub const fn get(&self, code: u8) -> u8 {
        self.0[(code & 63) as usize]
    }
}

/// How a port is configured.
///
/// The fields are as the user gave them; [`Config::validate`] says whether they are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// bytes/s: the rate that the whole port is shaped to. `None`: unshaped, at the device's speed,
    /// if that is known.
    pub link: Option<u64>,
    /// The token group's rate.
    pub tokens: Tokens,
    /// Number of token priorities.
    pub priorities: u8,
    /// Packets: cap of each token queue.
    pub token_limit: u32,
    /// When a token is dropped.
    pub token_expiry: Expiry,
    /// Which of tokens and data goes first.
    pub order: Order,
    /// Packets: cap of the unscheduled band. 0: no such band, its packets are data.
    pub unscheduled: u32,
    /// Bytes: cap of the data band's own queue.
    pub data_limit: u32,
    /// Packets: cap of the signal band.
    pub signal_limit: u32,
    /// Where packets go that nothing else classified.
    pub dscp: DscpMap,
    /// Split super-packets into wire packets before they are queued.
    pub split_gso: bool,
    /// Bytes added to each packet for what the wire carries beside it.
    pub overhead: u32,
    /// Bytes: the least that a packet occupies on the wire.
    pub mpu: u32,
    /// How late this machine's timers and softirqs may be. Unless it is zero, it floors the token
    /// queues' limit, the expiry and the group's slack: see `Lateness` in `config.rs`.
    pub jitter: Nanos,
    /// The data band's phantom queue.
    pub phantom: Option<Phantom>,
    /// The sampling period of the data band's REN marker, if there is one.
    pub ren: Option<Nanos>,
}

/// How many pacing intervals the token group may make up for when it was served late (TOP section
/// 4.3).
pub const TOKEN_SLACK_INTERVALS: u32 = 8;
/// How many packets one poll of a network device hands over at most (NAPI's budget): tokens come in
/// such bursts.
pub const POLL_PACKETS: u32 = 64;
/// Packets: [`Config::jitter`] raises the limit of a token queue to no more than this.
pub const MAX_LIMIT_FLOOR: u32 = 4096;
/// For how many pacing intervals, or full frames with their tokens if that is longer, a token is
/// worth sending unless the user says otherwise (TOP section 3.1, R2: 8 packet transmission times).
/// At the default share the two are the same. With a larger share intervals are shorter, but a
/// token still has to wait for frames.
pub const EXPIRY_INTERVALS: u32 = 8;
/// Bytes that a token occupies on the wire: a minimum Ethernet frame (ExpressPass section 2.1).
pub const TOKEN_WIRE_LEN: u32 = 84;
/// Bytes that a token over IPv6 occupies on the wire.
pub const TOKEN_WIRE_LEN_V6: u32 = 104;
/// Bytes that a full-length frame occupies on the wire (ExpressPass section 2.1).
pub const FRAME_WIRE_LEN: u32 = 1538;

impl Config {
    /// What `tc qdisc add dev … root turnstile` gives, but for `data_limit`: the qdisc takes that
    /// from the device.
    pub const DEFAULT: Self = Self {
        link: None,
        // 84 / (84 + 1538): one token for each full-length packet (ExpressPass section 2.1).
        tokens: Tokens::Share(51_787_916),
        // TOP fig. 3: eight queues, less signals and data.
        priorities: 6,
        // TOP section 4.3, after ExpressPass.
        token_limit: 8,
        token_expiry: Expiry::Auto,
        order: Order::TokensFirst,
        // TOP section 4.4.
        unscheduled: 1,
        data_limit: 1514 * 1000,
        // As a pfifo.
        signal_limit: 1000,
        dscp: DscpMap::DEFAULT,
        split_gso: true,
        // Ethernet: frame check sequence 4, preamble 8, inter-packet gap 12.
        overhead: 24,
        // Ethernet: minimum frame 64, preamble 8, inter-packet gap 12.
        mpu: 84,
        // Interrupt moderation and a late softirq on an ordinary machine.
        jitter: Nanos(50_000),
        phantom: None,
        ren: None,
    };

    /// Checks every option, and works out what they come to.
    ///
    /// `device_speed` is in bytes/s; it counts where [`Config::link`] is not given. Without either
    /// the port is [unresolved](Resolved::is_unresolved), and a rate is refused only if no link at
    /// all has it as a share.
    pub fn validate(&self, device_speed: Option<u64>) -> Result<Resolved, Invalid> {
        if let Some(link) = self.link {
            within("link", link, limits::LINK)?;
        }
        if let Tokens::Share(ppb) = self.tokens {
            within("tokens", ppb.into(), limits::TOKENS)?;
        }
        within("priorities", self.priorities.into(), limits::PRIORITIES)?;
        within("token-limit", self.token_limit.into(), limits::TOKEN_LIMIT)?;
        if let Expiry::After(time) = self.token_expiry {
            within("token-expiry", time.0, limits::TOKEN_EXPIRY)?;
        }
        if self.unscheduled != 0 {
            within("unscheduled", self.unscheduled.into(), limits::UNSCHEDULED)?;
        }
        within("data-limit", self.data_limit.into(), limits::DATA_LIMIT)?;
        within(
            "signal-limit",
            self.signal_limit.into(),
            limits::SIGNAL_LIMIT,
        )?;
        within("overhead", self.overhead.into(), limits::OVERHEAD)?;
        within("mpu", self.mpu.into(), limits::MPU)?;
        within("jitter", self.jitter.0, limits::JITTER)?;
        self.validate_dscp()?;
        if let Some(phantom) = &self.phantom {
            if let Drain::Share(ppb) = phantom.drain {
                within("phantom drain", ppb.into(), limits::PHANTOM_DRAIN)?;
            }
            within("phantom mark", phantom.mark.into(), limits::PHANTOM_MARK)?;
        }
        if let Some(period) = self.ren {
            within("ren period", period.0, limits::REN_PERIOD)?;
        }

        let link = self.link.or(device_speed).filter(|&link| link != 0);
        // Of an unknown link the slowest and the fastest that there may be.
        let (slowest, fastest) = match link.map(usable) {
            Some(link) => (link, link),
            None => (limits::LINK.min, Rate::MAX_BYTES_PER_SEC),
        };
        if let Tokens::Rate(rate) = self.tokens {
            if !(token_range(slowest).0..=token_range(fastest).1).contains(&rate) {
                return Err(not_a_share("tokens", rate, limits::TOKENS));
            }
        }
        if let Some(Phantom {
            drain: Drain::Rate(rate),
            ..
        }) = self.phantom
        {
            if !(drain_range(slowest).0..=drain_range(fastest).1).contains(&rate) {
                return Err(not_a_share("phantom drain", rate, limits::PHANTOM_DRAIN));
            }
        }
        match link {
            Some(link) => self.resolve(usable(link)),
            None => self.unresolved(),
        }
        // Not reached: all that makes a rate of nothing is out of the ranges above.
        .ok_or(Invalid {
            option: "link",
            what: Problem::OutOfRange {
                value: link.unwrap_or(0),
                range: limits::LINK,
            },
        })
    }

    fn validate_dscp(&self) -> Result<(), Invalid> {
        for (code, &minor) in (0_u8..).zip(self.dscp.0.iter()) {
            let what = match Band::from_any_minor(minor) {
                None => Problem::NoClass { code, minor },
                Some(band) if band.exists(self) => continue,
                Some(Band::Token(priority)) => Problem::NoPriority {
                    code,
                    priority,
                    priorities: self.priorities,
                },
                Some(_) => Problem::NoUnscheduled { code },
            };
            return Err(Invalid {
                option: "dscp",
                what,
            });
        }
        Ok(())
    }

    /// What a configuration that was valid comes to at another device speed, in bytes/s.
    ///
    /// Where [`Tokens::Rate`] or [`Drain::Rate`] is no longer an allowed share, it is the nearest
    /// that is. `None` if the speed is needed and 0.
    pub fn resolve_for_speed(&self, device_speed: u64) -> Option<Resolved> {
        let link = self.link.unwrap_or(device_speed);
        if link == 0 {
            None
        } else {
            self.resolve(usable(link))
        }
    }

    fn resolve(&self, link: u64) -> Option<Resolved> {
        let token_rate = match self.tokens {
            Tokens::Share(ppb) => Rate::from_share(link, ppb)?,
            Tokens::Rate(rate) => Rate::from_bytes_per_sec(clamp(rate, token_range(link)))?,
        };
        let link_rate = Rate::from_bytes_per_sec(link)?;
        let drain = match self.phantom.map(|phantom| phantom.drain) {
            Some(Drain::Share(ppb)) => Some(Rate::from_share(link, ppb)?),
            Some(Drain::Rate(rate)) => {
                Some(Rate::from_bytes_per_sec(clamp(rate, drain_range(link)))?)
            }
            None => None,
        };
        let lateness = Lateness::new(self.jitter, token_rate, link_rate);
        let expiry = match self.token_expiry {
            Expiry::Auto => {
                let frame_and_token = FRAME_WIRE_LEN + TOKEN_WIRE_LEN;
                Some(
                    token_rate
                        .duration(TOKEN_WIRE_LEN * EXPIRY_INTERVALS)
                        .max(link_rate.duration(frame_and_token * EXPIRY_INTERVALS)),
                )
            }
            Expiry::Off => None,
            Expiry::After(time) => Some(time),
        };
        Some(Resolved {
            drain,
            link,
            shaped: self.link.is_some(),
            link_rate,
            token_rate,
            interval: token_rate.duration(TOKEN_WIRE_LEN),
            token_limit: self.token_limit.max(lateness.limit),
            slack: lateness.slack,
            expiry: expiry.map(|time| time.max(lateness.expiry)),
        })
    }

    /// What it comes to while nobody knows the link's speed: what follows from the speed is left
    /// out, and holds nothing back. Rates and times that were given as such are in force.
    fn unresolved(&self) -> Option<Resolved> {
        let token_rate = match self.tokens {
            Tokens::Share(_) => Rate::UNLIMITED,
            Tokens::Rate(rate) => Rate::from_bytes_per_sec(rate)?,
        };
        let drain = match self.phantom.map(|phantom| phantom.drain) {
            Some(Drain::Rate(rate)) => Some(Rate::from_bytes_per_sec(rate)?),
            Some(Drain::Share(_)) | None => None,
        };
        let lateness = Lateness::new(self.jitter, token_rate, Rate::UNLIMITED);
        let expiry = match self.token_expiry {
            Expiry::Auto | Expiry::Off => None,
            Expiry::After(time) => Some(time),
        };
        Some(Resolved {
            drain,
            link: 0,
            shaped: false,
            link_rate: Rate::UNLIMITED,
            token_rate,
            interval: token_rate.duration(TOKEN_WIRE_LEN),
            token_limit: self.token_limit.max(lateness.limit),
            slack: lateness.slack,
            expiry: expiry.map(|time| time.max(lateness.expiry)),
        })
    }
}

/// A link speed that rates can be made of. Devices may be faster than what a port can be shaped to.
fn usable(link: u64) -> u64 {
    link.clamp(limits::LINK.min, Rate::MAX_BYTES_PER_SEC)
}

/// The lowest and the highest token rate that are allowed shares of the link: 0.01 % and 50 %, in
/// whole bytes/s.
fn token_range(link: u64) -> (u64, u64) {
    let lowest = (link / 10_000).saturating_add(u64::from(link % 10_000 != 0));
    (lowest, link / 2)
}

/// The lowest and the highest rate at which a phantom queue on the link may drain: 1 % and all of
/// it.
fn drain_range(link: u64) -> (u64, u64) {
    let lowest = (link / 100).saturating_add(u64::from(link % 100 != 0));
    (lowest, link)
}

/// The rate in the range that is nearest to `rate`.
fn clamp(rate: u64, (lowest, highest): (u64, u64)) -> u64 {
    rate.max(lowest).min(highest)
}

fn not_a_share(option: &'static str, rate: u64, range: limits::Range) -> Invalid {
    Invalid {
        option,
        what: Problem::NotAShare { rate, range },
    }
}

#[inline]
pub(crate) fn within(
    option: &'static str,
    value: u64,
    range: limits::Range,
) -> Result<(), Invalid> {
    if range.contains(value) {
        Ok(())
    } else {
        Err(Invalid {
            option,
            what: Problem::OutOfRange { value, range },
        })
    }
}

/// What a port on a late machine needs, so that it drops none of the tokens that come at less than
/// their rate.
///
/// Papers count on switches, which serve each packet when it is due. Linux takes up to
/// [`POLL_PACKETS`] from a device at once, and serves them up to [`Config::jitter`] late. With
/// intervals of I, polls of N tokens and a jitter of J:
///
/// - A token that is due may have to wait for the frame in service and, with data first, for one
///   more: for two frames and a token. The papers' buffer bound counts eight intervals of jitter
///   (TOP section 4.3). The longer of the two is what the group makes up for anyway; J comes on
///   top. That is the *slack*: lateness within it moves no schedule.
/// - So the schedule lets N tokens go within N I of their arrival, and they have gone when it is
///   late by J at most. In J ceil(J / I) of them fall due: so many of the poll before may still be
///   there when the next one comes. The queue's *limit* is at least N + ceil(J / I).
/// - The last token of such a queue leaves when the others have, which takes as many intervals, and
///   the slack later. It is dropped for its age after that: that is what the *expiry* is at least.
///   Intervals are of tokens over IPv6 here, which are longer.
///
/// Without jitter, there is no such floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lateness {
    /// Packets: the least that a token queue holds.
    limit: u32,
    /// The least time after which a token is dropped.
    expiry: Nanos,
    /// How much lateness the token group makes up for.
    slack: Nanos,
}

impl Lateness {
    fn new(jitter: Nanos, token_rate: Rate, link_rate: Rate) -> Self {
        let slack = token_rate
            .duration(TOKEN_WIRE_LEN * TOKEN_SLACK_INTERVALS)
            .max(link_rate.duration(2 * FRAME_WIRE_LEN + TOKEN_WIRE_LEN))
            + jitter;
        if jitter == Nanos::ZERO {
            return Self {
                limit: 0,
                expiry: Nanos::ZERO,
                slack,
            };
        }
        // Whole tokens, and one more for a part of one. Without a rate none become due: all go at
        // once.
        let due = if token_rate == Rate::UNLIMITED {
            0
        } else {
            token_rate.bytes_of(token_rate.volume_in(jitter)) / u64::from(TOKEN_WIRE_LEN)
        };
        let limit = due
            .saturating_add(1)
            .saturating_add(POLL_PACKETS.into())
            .min(MAX_LIMIT_FLOOR.into()) as u32;
        Self {
            limit,
            // Below the longest length that is timed as it is: see the assertion.
            expiry: token_rate.duration(limit.saturating_mul(TOKEN_WIRE_LEN_V6)) + slack,
            slack,
        }
    }
}

const _: () = assert!(MAX_LIMIT_FLOOR * TOKEN_WIRE_LEN_V6 <= Rate::MAX_LEN);

/// What a valid [`Config`] comes to on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// bytes/s: the link's speed, set or reported by the device. 0: not known.
    pub link: u64,
    /// Whether the port is shaped to that speed.
    pub shaped: bool,
    /// The same speed, exactly. [`Rate::UNLIMITED`] while it is not known.
    pub link_rate: Rate,
    /// The token group's rate. [`Rate::UNLIMITED`] if it is a share of a link whose speed is not
    /// known.
    pub token_rate: Rate,
    /// How long a token of 84 wire bytes takes at the token rate, rounded up.
    pub interval: Nanos,
    /// The rate at which the phantom queue drains, if there is one and the rate is known.
    pub drain: Option<Rate>,
    /// A token that has waited longer is dropped; `None`: never. Where it follows from the rates,
    /// it is exact, and rounded up.
    pub expiry: Option<Nanos>,
    /// Packets: cap of each token queue.
    pub token_limit: u32,
    /// How much lateness the token group makes up for.
    pub slack: Nanos,
}

impl Resolved {
    /// What stands where nothing is configured yet.
    pub const EMPTY: Self = Self {
        link: 0,
        shaped: false,
        link_rate: Rate::UNLIMITED,
        token_rate: Rate::UNLIMITED,
        interval: Nanos::ZERO,
        drain: None,
        expiry: None,
        token_limit: 0,
        slack: Nanos::ZERO,
    };

    /// The link's speed is neither set nor reported by the device. It may become known:
    /// [`Config::resolve_for_speed`].
    pub fn is_unresolved(&self) -> bool {
        self.link == 0
    }
}

/// Why a configuration is refused. `Display` gives one line of at most 70 characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The option's name, as the user types it.
    pub option: &'static str,
    /// What is wrong with it.
    pub what: Problem,
}

/// What is wrong with an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Too low or too high.
    OutOfRange {
        /// What was given.
        value: u64,
        /// What is allowed.
        range: limits::Range,
    },
    /// A rate that is too low or too high for the link.
    NotAShare {
        /// bytes/s.
        rate: u64,
        /// The shares of the link that are allowed.
        range: limits::Range,
    },
    /// The DSCP map names a number that is no class of any port.
    NoClass {
        /// The code point.
        code: u8,
        /// The number.
        minor: u8,
    },
    /// The DSCP map names a token priority that the port does not have.
    NoPriority {
        /// The code point.
        code: u8,
        /// The priority.
        priority: u8,
        /// How many the port has.
        priorities: u8,
    },
    /// The DSCP map names the unscheduled band, which the port does not have.
    NoUnscheduled {
        /// The code point.
        code: u8,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.option, self.what)
    }
}

impl core::error::Error for Invalid {}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfRange { value, range } => match range.unit {
                limits::Unit::Number => write!(f, "{value} is not in {range}"),
                limits::Unit::Rate => write!(f, "{value} B/s is not in {range}"),
                limits::Unit::Share => write!(f, "{} is not in {range}", limits::Percent(value)),
                limits::Unit::Time => write!(f, "{value} ns is not in {range}"),
            },
            Self::NotAShare { rate, range } => {
                write!(f, "{rate} B/s is not in {range} of the link")
            }
            Self::NoClass { code, minor } => write!(f, "code {code}: {minor} is not a class"),
            Self::NoPriority {
                code,
                priority,
                priorities: 1,
            } => {
                write!(
                    f,
                    "code {code} goes to token{priority}, but there is 1 priority"
                )
            }
            Self::NoPriority {
                code,
                priority,
                priorities,
            } => write!(
                f,
                "code {code} goes to token{priority}, but there are {priorities} priorities"
            ),
            Self::NoUnscheduled { code } => {
                write!(f, "code {code} goes to unscheduled, which is off")
            }
        }
    }
}

#[cfg(test)]
mod tests;
