// SPDX-License-Identifier: GPL-2.0
//! What a port's options come to on a link.

use super::*;
use crate::options::{limits, Problem, Range, Refusal, Table};
use crate::pfc::headroom::longest_response;
use crate::pfc::QUANTUM_BYTES;
use crate::port::band::Band;
use crate::port::marker::tcd;
use crate::shaper::Beyond;
use crate::units::Rate;

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

/// [`Resolved::whole`]: super-packets stay whole, however long they are.
pub const WHOLE_ALL: u32 = uapi::GSO_WHOLE_ALL as u32;
/// A super-packet is at most so many times shorter than what the data band's queue may hold, so
/// that a queue that is full drops no more at once.
const WHOLE_IN_QUEUE: u32 = 8;

/// [`Config::signal_share`]: all of the link, which is no bound.
const SIGNAL_SHARE_ALL: u32 = limits::SIGNALS.max as u32;

/// Bytes between the thresholds of a next switch that pauses this port: as switches are usually
/// configured.
const PAUSE_GAP: u32 = 2 * FRAME_WIRE_LEN;
/// What a pause waits for at the worst, bytes: a frame that is being sent there, itself, and one
/// that is being sent here. Beside that there is what the standard allows until a pause acts, and
/// what both ends may be late, as in [`Headroom`](crate::pfc::headroom::Headroom).
const PAUSE_LEN: u32 = 2 * FRAME_WIRE_LEN + TOKEN_WIRE_LEN;
/// Both ways over 100 m of cable.
const PAUSE_CABLE: Nanos = Nanos(1000);

impl Config {
    /// Checks every option, and works out what they come to.
    ///
    /// `device_speed` is in bytes/s; it counts where [`Config::link`] is not given. Without either
    /// the port is [unresolved](Resolved::is_unresolved), and a rate is refused only if no link at
    /// all has it as a share.
    pub fn validate(&self, device_speed: Option<u64>) -> Result<Resolved, Refusal> {
        self.check()?;
        self.validate_dscp()?;
        self.validate_pauses()?;
        let link = self.link.or(device_speed).filter(|&link| link != 0);
        let link = link.map(usable);
        if let Tokens::Rate(rate) = self.tokens {
            within("tokens", rate, limits::TOKENS, token_range, link)?;
        }
        if let Some(Phantom {
            drain: Drain::Rate(rate),
            ..
        }) = self.phantom
        {
            within("phantom drain", rate, limits::DRAIN, drain_range, link)?;
        }
        match link {
            Some(link) => self.resolve(link),
            None => self.unresolved(),
        }
        // Not reached: all that makes a rate of nothing is out of the ranges above.
        .ok_or(Refusal {
            option: "link",
            what: Problem::Said("no rate can be made of it"),
        })
    }

    /// Checks what ports of several queues cannot have in [common](crate::port::Common).
    ///
    /// # Errors
    ///
    /// What counts packets where all of a link's leave, or stops them there.
    pub fn validate_for_queues(&self) -> Result<(), Refusal> {
        let option = if self.phantom.is_some() {
            "phantom"
        } else if self.ren.is_some() {
            "ren"
        } else if self.tcd.is_some() {
            "tcd"
        } else if self.pfc.is_some() {
            "pfc"
        } else {
            return Ok(());
        };
        let what = Problem::Said("must be off with several queues; turnstile has it");
        Err(Refusal { option, what })
    }

    fn validate_dscp(&self) -> Result<(), Refusal> {
        for (code, &minor) in (0_u8..).zip(self.dscp.0.iter()) {
            let what = match Band::from_any_minor(minor) {
                None => Problem::NoClass(code, minor),
                Some(band) if band.exists(self) => continue,
                Some(Band::Token(priority)) => Problem::NoPriority {
                    code,
                    priority,
                    priorities: self.priorities,
                },
                Some(_) => Problem::NoUnscheduled(code),
            };
            return Err(Refusal {
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
        let signal_rate = match self.signal_share {
            uapi::SIGNAL_SHARE_OFF | SIGNAL_SHARE_ALL.. => None,
            ppb => Some(Rate::from_share(link, ppb)?),
        };
        // A token that waits for a piece is as late as on a late machine.
        let whole = self.whole(link_rate);
        let late = match self.hold() {
            Some(hold) if whole != 0 => hold.max(self.jitter),
            _ => self.jitter,
        };
        let lateness = Lateness::new(late, token_rate, link_rate);
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
        let max_on = self.tcd.and_then(|tcd| match tcd.max_on {
            MaxOn::Auto => {
                let (gap, cable) = self.pauses_of_others(&link_rate);
                let response = QUANTUM_BYTES.saturating_mul(longest_response(&link_rate));
                let late = self.jitter + self.jitter;
                let delay = link_rate.duration(PAUSE_LEN.saturating_add(response)) + cable + late;
                Some(tcd::max_on(link_rate, gap, delay))
            }
            MaxOn::Time(time) => Some(time),
            MaxOn::Off => None,
        });
        Some(Resolved {
            max_on,
            drain,
            signal_rate,
            link,
            shaped: self.link.is_some(),
            link_rate,
            token_rate,
            token_beyond: self.token_beyond(link_rate),
            interval: token_rate.duration(TOKEN_WIRE_LEN),
            token_limit: self.token_limit.max(lateness.limit),
            slack: lateness.slack,
            expiry: expiry.map(|time| time.max(lateness.expiry)),
            whole,
        })
    }

    /// How long a super-packet may hold up tokens, if that decides whether it is cut.
    fn hold(&self) -> Option<Nanos> {
        let counts = self.phantom.is_some() || self.ren.is_some() || self.tcd.is_some();
        let auto = self.split_gso == SplitGso::Auto && !counts && self.pfc.is_none();
        auto.then_some(self.gso_hold.given().unwrap_or(self.jitter))
    }

    /// [`Resolved::whole`].
    fn whole(&self, link_rate: Rate) -> u32 {
        let hold = match self.hold() {
            Some(hold) => hold,
            None if self.split_gso == SplitGso::No => return WHOLE_ALL,
            None => return 0,
        };
        // With data first, a token waits for what is being sent, and for one more.
        let hold = match self.order {
            Order::TokensFirst => hold,
            Order::DataFirst => Nanos(hold.0 / 2),
        };
        let most = self.data_limit / WHOLE_IN_QUEUE;
        if hold == Nanos::ZERO {
            return 0;
        }
        if link_rate == Rate::UNLIMITED {
            return most;
        }
        let held = link_rate.bytes_of(link_rate.volume_in(hold));
        held.min(most.into()) as u32
    }

    /// What is known of how the next switch pauses this port: the bytes between its thresholds, and
    /// both ways to it. A port that pauses others is one of a fabric, whose ports are alike.
    fn pauses_of_others(&self, rate: &Rate) -> (u32, Nanos) {
        let Some(ours) = self.pfc.and_then(|pfc| pfc.generate) else {
            return (PAUSE_GAP, PAUSE_CABLE);
        };
        let gap = self.gap(&ours, rate, FRAME_WIRE_LEN);
        let gap = u32::try_from(gap).unwrap_or(u32::MAX);
        (gap, ours.delay.time() + ours.delay.time())
    }

    /// [`Resolved::token_beyond`].
    fn token_beyond(&self, link_rate: Rate) -> Beyond {
        match self.tokens {
            Tokens::Share(_) => beyond_token(link_rate),
            Tokens::Rate(_) => Beyond::NONE,
        }
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
        let max_on = match self.tcd.map(|tcd| tcd.max_on) {
            Some(MaxOn::Time(time)) => Some(time),
            Some(MaxOn::Auto | MaxOn::Off) | None => None,
        };
        Some(Resolved {
            max_on,
            drain,
            signal_rate: None,
            link: 0,
            shaped: false,
            link_rate: Rate::UNLIMITED,
            token_rate,
            token_beyond: self.token_beyond(Rate::UNLIMITED),
            interval: token_rate.duration(TOKEN_WIRE_LEN),
            token_limit: self.token_limit.max(lateness.limit),
            slack: lateness.slack,
            expiry: expiry.map(|time| time.max(lateness.expiry)),
            whole: self.whole(Rate::UNLIMITED),
        })
    }
}

/// Bytes: what a token is longer than 84 counts at the link's rate up to this length, so that
/// nobody takes much more of the link with packets that only look like tokens. The longest real
/// ones, sealed and over IPv6 with two VLAN tags, have 144.
const LONGEST_TOKEN: u32 = 2 * TOKEN_WIRE_LEN;

/// The bytes of a token that ask for nothing, on a link of this rate.
pub(crate) fn beyond_token(link_rate: Rate) -> Beyond {
    Beyond {
        from: TOKEN_WIRE_LEN,
        to: LONGEST_TOKEN,
        rate: link_rate,
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

/// Refuses a rate that is no allowed share of the link; of an unknown link, one that is none of the
/// slowest and the fastest that there may be.
fn within(
    option: &'static str,
    rate: u64,
    range: Range,
    of: fn(u64) -> (u64, u64),
    link: Option<u64>,
) -> Result<(), Refusal> {
    let (min, max) = match link {
        Some(link) => of(link),
        None => (of(limits::LINK.min).0, of(Rate::MAX_BYTES_PER_SEC).1),
    };
    if min <= rate && rate <= max {
        return Ok(());
    }
    let what = Problem::NotAShare {
        rate,
        range,
        allowed: link.map(|_| (min, max)),
    };
    Err(Refusal { option, what })
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
/// - A whole super-packet in service is waited for as long as it takes, too. That is part of J: by
///   default it takes no longer ([`GsoHold`]), and if it may, that time is what J stands for.
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
    /// What bytes of a token take their time at the link's rate instead of the token rate. A share
    /// is that of tokens of 84 bytes, which ask for a full frame each, and a longer one asks for
    /// no more; a rate is one of all bytes.
    pub token_beyond: Beyond,
    /// How long a token of 84 wire bytes takes at the token rate, rounded up.
    pub interval: Nanos,
    /// The rate at which the phantom queue drains, if there is one and the rate is known.
    pub drain: Option<Rate>,
    /// How long an ON period may last for TCD's marker, if that is on, takes notice of pauses, and
    /// this is known.
    pub max_on: Option<Nanos>,
    /// What signals may take before others, if that is bounded and the link's speed is known.
    pub signal_rate: Option<Rate>,
    /// A token that has waited longer is dropped; `None`: never. Where it follows from the rates,
    /// it is exact, and rounded up.
    pub expiry: Option<Nanos>,
    /// Packets: cap of each token queue.
    pub token_limit: u32,
    /// How much lateness the token group makes up for.
    pub slack: Nanos,
    /// Bytes on the wire: super-packets of data up to this length stay whole, and longer ones are
    /// cut into pieces up to it, see [`crate::port::cut`]. 0: all are split; [`WHOLE_ALL`]: none.
    pub whole: u32,
}

impl Resolved {
    /// What stands where nothing is configured yet.
    pub const EMPTY: Self = Self {
        link: 0,
        shaped: false,
        link_rate: Rate::UNLIMITED,
        token_rate: Rate::UNLIMITED,
        token_beyond: Beyond::NONE,
        interval: Nanos::ZERO,
        drain: None,
        max_on: None,
        signal_rate: None,
        expiry: None,
        token_limit: 0,
        slack: Nanos::ZERO,
        whole: WHOLE_ALL,
    };

    /// The link's speed is neither set nor reported by the device. It may become known:
    /// [`Config::resolve_for_speed`].
    pub fn is_unresolved(&self) -> bool {
        self.link == 0
    }
}
