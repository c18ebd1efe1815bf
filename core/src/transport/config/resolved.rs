// SPDX-License-Identifier: GPL-2.0
//! What a valid configuration comes to.

use core::num::NonZeroU32;

use super::*;
use crate::port::config::TOKEN_WIRE_LEN;
use crate::transport::rate::{dcqcn, timely, Kind};
use crate::units::Rate;

/// How messages share the tokens, and where tokens come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// One priority, all messages alike.
    ExpressPass,
    /// Tokens have priorities, and a [`Schedule`] says which messages come first.
    Top,
    /// A grant for each data packet.
    Ren,
    /// No tokens for what is sent, which is paced by a law of the sender's. What comes may get
    /// tokens, as under [`Policy::ExpressPass`].
    Paced(Kind),
}

impl Policy {
    /// The law by which senders pace what they send.
    #[inline]
    pub const fn law(self) -> Option<Kind> {
        match self {
            Self::Paced(kind) => Some(kind),
            Self::ExpressPass | Self::Top | Self::Ren => None,
        }
    }
}

/// How a message's rate follows the tokens that were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feedback {
    /// ExpressPass, algorithm 1.
    Midpoint,
    /// With a weight and a target loss.
    Weighted,
    /// The same, for ports that send the tokens of higher priorities first.
    Ranked,
}

/// The clock that tokens are stamped with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_REALTIME`.
    Realtime,
    /// `CLOCK_TAI`.
    Tai,
}

/// Which message comes first under [`Policy::Top`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Shortest remaining.
    Srpt,
    /// Least attained service.
    Las,
    /// Earliest deadline.
    Edf,
    /// The coflow with least remaining.
    Coflow,
}

/// What is sent without tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unscheduled {
    /// Messages of no more packets; 0: none.
    Packets(u32),
    /// As much of each as its receiver allows.
    Auto,
}

/// Code points by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp {
    /// Of signals.
    pub signal: u8,
    /// Of tokens.
    pub token: u8,
    /// Of data.
    pub data: u8,
    /// Of unscheduled data.
    pub unscheduled: u8,
}

/// How fast a link is, and the tokens for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// Bytes/s: the link rate in force.
    pub link: u64,
    /// The same rate, exactly.
    pub link_rate: Rate,
    /// The rate of all tokens together, in wire bytes.
    pub token_rate: Rate,
    /// 2^-20 ns: how long a byte takes on the link, rounded down.
    pub byte_time: u64,
    /// 2^-10 ns: how long a token of 84 wire bytes takes at the token rate, rounded up.
    pub token_time: u64,
}

/// How many packets a token is for at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// As many as the link carries in 10 us, and eight at most.
    Auto,
    /// So many.
    Packets(u8),
}

/// With [`Worth::Auto`] what one token draws takes no longer than this on the link, unless it is a
/// single packet. Others wait for it, and ports hold it: of an interval of a hundred packets, which
/// a port of 128 KiB and one with a jitter of 50 us have room for, it is a part.
const TRAIN_TIME: Nanos = Nanos(10_000);
/// And it is for no more packets than these: for so many there is room in the queues of all ports.
const MAX_AUTO: u8 = 8;

impl Worth {
    /// As many as suits.
    pub(crate) fn is_auto(self) -> bool {
        self == Self::Auto
    }

    /// The same for a link of that speed and packets of so many bytes of payload.
    pub(crate) fn most(self, speed: &Speed, mss: u32) -> u8 {
        match self {
            Self::Packets(packets) => packets,
            Self::Auto => {
                let packet = NonZeroU32::new(mss.saturating_add(PACKET_OVERHEAD));
                let packets = packet.map_or(1, |packet| speed.bytes_in(TRAIN_TIME) / packet);
                u8::try_from(packets).unwrap_or(MAX_AUTO).clamp(1, MAX_AUTO)
            }
        }
    }
}

/// Bytes of a packet beside its payload, over IPv4: 8 + 20 + 14, and 24 of its frame.
const PACKET_OVERHEAD: u32 = crate::transport::wire::DATA_LEN as u32 + 66;

impl Speed {
    /// No speed: no token is held back.
    pub(crate) const NONE: Self = Self {
        link: 1,
        link_rate: Rate::UNLIMITED,
        token_rate: Rate::UNLIMITED,
        byte_time: 0,
        token_time: 0,
    };

    /// Of a link of so many bytes/s, of which tokens have so many billionths. `None` if there is no
    /// such rate.
    fn new(link: u64, token_share: u32) -> Option<Self> {
        // Devices may be faster than anything that rates can be made of.
        let link = link.clamp(limits::LINK.min, Rate::MAX_BYTES_PER_SEC);
        let token_rate = Rate::from_share(link, token_share)?;
        Some(Self {
            link,
            link_rate: Rate::from_bytes_per_sec(link)?,
            token_rate,
            // A link has at least a byte per second.
            byte_time: (S << 20).checked_div(link)?,
            token_time: token_rate.duration(TOKEN_WIRE_LEN << 10).0,
        })
    }

    /// How long a token of so many wire bytes takes, in 2^-10 ns, rounded up: 84 of them at the
    /// token rate, and those beyond at the link's, since a longer token asks for no more.
    #[inline]
    pub(crate) fn time_of_token(&self, wire_len: u32) -> u64 {
        let longer = wire_len.saturating_sub(TOKEN_WIRE_LEN);
        if longer == 0 {
            return self.token_time;
        }
        let more = self.link_rate.duration(longer.saturating_mul(1 << 10));
        self.token_time.saturating_add(more.0)
    }

    /// How long so many bytes take on the link, or a little less.
    #[inline]
    pub(crate) fn time_of(&self, bytes: u32) -> Nanos {
        // 2^50 for each byte at most.
        Nanos(u64::from(bytes).saturating_mul(self.byte_time) >> 20)
    }

    /// Bytes on the link in `time`, which is at most a second. At least 1.
    pub fn bytes_in(&self, time: Nanos) -> u32 {
        // Seconds' worth and the rest apart: neither outgrows 64 bits.
        let (whole, part) = (self.link / S, self.link % S);
        let bytes = whole
            .saturating_mul(time.0)
            .saturating_add(part.saturating_mul(time.0) / S);
        u32::try_from(bytes.max(1)).unwrap_or(u32::MAX)
    }
}

/// What a valid [`Config`] comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// See [`Config::policy`].
    pub policy: Policy,
    /// DCQCN, for messages that are paced by it.
    pub dcqcn: dcqcn::Config,
    /// TIMELY, for messages that are paced by it.
    pub timely: timely::Config,
    /// See [`Config::schedule`].
    pub schedule: Schedule,
    /// The speed of links whose own is not known.
    pub speed: Speed,
    /// [`Config::link`] is set: all links have this speed, whatever their devices say.
    pub is_link_set: bool,
    /// Parts per billion: the tokens' share of each link.
    pub token_share: u32,
    /// See [`Config::feedback`].
    pub feedback: Feedback,
    /// Parts per billion of the token rate: a message's rate at first.
    pub initial_rate: u32,
    /// Parts per billion of the token rate: a message's rate is never lower. Not 0, not above
    /// `initial_rate`.
    pub min_rate: u32,
    /// Parts per billion.
    pub target_loss: u32,
    /// Parts per billion.
    pub weight_initial: u32,
    /// Parts per billion.
    pub weight_min: u32,
    /// Parts per billion.
    pub weight_max: u32,
    /// At most 64.
    pub fairness: u32,
    /// Parts per billion of the interval between a message's tokens.
    pub jitter: u32,
    /// Between updates of a message's rate; `None`: its round-trip time.
    pub update_period: Option<Nanos>,
    /// The round-trip time before one was measured.
    pub base_rtt: Nanos,
    /// A token that took longer sends nothing; `None`: they do not expire. At most a second, so
    /// that 32 bits of ns suffice.
    pub token_expiry: Option<Nanos>,
    /// See [`Config::clock`].
    pub clock: Clock,
    /// TOP's priority function. Under [`Policy::ExpressPass`] and [`Policy::Ren`], it has one
    /// priority.
    pub priority: PriorityFunction,
    /// The lengths of messages decide about it.
    pub learns_lengths: bool,
    /// What may be sent without tokens: nothing but under [`Policy::Top`].
    pub unscheduled: Unscheduled,
    /// The same of what senders pace: what is sent before an answer.
    pub first_flight: Unscheduled,
    /// Bytes on the wire: what all senders together may send so.
    pub unscheduled_buffer: u32,
    /// How many packets a token is for at most.
    pub worth: Worth,
    /// See [`Config::max_incoming`].
    pub max_incoming: u32,
    /// See [`Config::max_outgoing`].
    pub max_outgoing: u32,
    /// See [`Config::max_per_peer`].
    pub max_per_peer: u32,
    /// See [`Config::max_half_open`].
    pub max_half_open: u32,
    /// See [`Config::max_remembered`].
    pub max_remembered: u32,
    /// How long a peer may be silent.
    pub timeout: Nanos,
    /// After it a SYNC is repeated for the first time; at most `timeout`.
    pub rto: Nanos,
    /// Bytes: a socket's send buffer at first.
    pub send_buffer: u32,
    /// Bytes: a socket's receive buffer at first.
    pub receive_buffer: u32,
    /// How large it may become, bytes.
    pub receive_buffer_max: u32,
    /// By how much all may have grown together, bytes.
    pub receive_memory: u32,
    /// See [`Config::max_orphans`].
    pub max_orphans: u32,
    /// See [`Config::orphan_buffer`].
    pub orphan_buffer: u32,
    /// Whether the priority that a sender asks for counts.
    pub sender_priority: bool,
    /// Code points by class.
    pub dscp: Dscp,
}

impl Resolved {
    /// What an endpoint has before it is started: no message is begun, and none taken.
    pub(crate) const NONE: Self = Self {
        policy: Policy::ExpressPass,
        dcqcn: dcqcn::Config::DEFAULT,
        timely: timely::Config::DEFAULT,
        schedule: Schedule::Srpt,
        speed: Speed::NONE,
        is_link_set: false,
        token_share: 0,
        feedback: Feedback::Midpoint,
        initial_rate: 1,
        min_rate: 1,
        target_loss: 0,
        weight_initial: 0,
        weight_min: 0,
        weight_max: 0,
        fairness: 0,
        jitter: 0,
        update_period: None,
        base_rtt: Nanos::ZERO,
        token_expiry: None,
        clock: Clock::Realtime,
        priority: PriorityFunction::ONE,
        learns_lengths: false,
        unscheduled: Unscheduled::Packets(0),
        first_flight: Unscheduled::Packets(0),
        unscheduled_buffer: 0,
        worth: Worth::Packets(1),
        max_incoming: 0,
        max_outgoing: 0,
        max_per_peer: 0,
        max_half_open: 0,
        max_remembered: 0,
        timeout: Nanos::ZERO,
        rto: Nanos::ZERO,
        send_buffer: 0,
        receive_buffer: 0,
        receive_buffer_max: 0,
        receive_memory: 0,
        max_orphans: 0,
        orphan_buffer: 0,
        sender_priority: false,
        dscp: Dscp {
            signal: 0,
            token: 0,
            data: 0,
            unscheduled: 0,
        },
    };

    /// The speed of a link whose device has this rate, bytes/s.
    pub fn speed_of(&self, device_rate: u64) -> Speed {
        if self.is_link_set || device_rate == 0 {
            return self.speed;
        }
        Speed::new(device_rate, self.token_share).unwrap_or(self.speed)
    }

    /// Bytes on a link in the round-trip time before one was measured: what REN sends at first. At
    /// least 1.
    pub fn base_bytes(&self, speed: &Speed) -> u32 {
        speed.bytes_in(self.base_rtt)
    }
}

impl Config {
    /// `None` if what is checked before was not.
    pub(super) fn resolve(&self, device_rate: Option<u64>) -> Option<Resolved> {
        let link = match (self.link, device_rate) {
            (0, Some(rate)) if rate != 0 => rate,
            (0, _) => USUAL_LINK,
            (link, _) => link,
        };
        let policy = match self.policy {
            uapi::POLICY_EXPRESSPASS => Policy::ExpressPass,
            uapi::POLICY_TOP => Policy::Top,
            uapi::POLICY_DCQCN => Policy::Paced(Kind::Dcqcn),
            uapi::POLICY_TIMELY => Policy::Paced(Kind::Timely),
            _ => Policy::Ren,
        };
        let top = policy == Policy::Top;
        let code = |value: u32| (value & 63) as u8;
        Some(Resolved {
            policy,
            dcqcn: self.dcqcn(),
            timely: self.timely(),
            schedule: match self.schedule {
                uapi::SCHEDULE_SRPT => Schedule::Srpt,
                uapi::SCHEDULE_LAS => Schedule::Las,
                uapi::SCHEDULE_EDF => Schedule::Edf,
                _ => Schedule::Coflow,
            },
            speed: Speed::new(link, self.token_share)?,
            is_link_set: self.link != 0,
            token_share: self.token_share,
            feedback: match self.feedback {
                uapi::FEEDBACK_MIDPOINT => Feedback::Midpoint,
                uapi::FEEDBACK_RANKED => Feedback::Ranked,
                uapi::FEEDBACK_AUTO if top => Feedback::Ranked,
                _ => Feedback::Weighted,
            },
            initial_rate: self.initial_rate,
            min_rate: self.min_rate,
            target_loss: self.target_loss,
            weight_initial: self.weight_initial,
            weight_min: self.weight_min,
            weight_max: self.weight_max,
            fairness: self.fairness,
            jitter: self.jitter,
            update_period: some(self.update_period),
            base_rtt: Nanos(self.base_rtt),
            token_expiry: some(self.token_expiry),
            clock: match self.clock {
                uapi::CLOCK_REALTIME => Clock::Realtime,
                _ => Clock::Tai,
            },
            priority: match self.priorities {
                0 if top => PriorityFunction::octaves(),
                priorities => PriorityFunction::new(
                    if top { priorities } else { 1 },
                    self.priority_packets,
                    self.priority_a,
                    self.priority_b,
                ),
            },
            learns_lengths: top && self.priorities == 0 && self.schedule != uapi::SCHEDULE_EDF,
            unscheduled: match self.unscheduled {
                uapi::UNSCHEDULED_AUTO if top => Unscheduled::Auto,
                packets => Unscheduled::Packets(if top { packets } else { 0 }),
            },
            first_flight: match self.unscheduled {
                uapi::UNSCHEDULED_AUTO => Unscheduled::Auto,
                packets => Unscheduled::Packets(packets),
            },
            unscheduled_buffer: self.unscheduled_buffer,
            worth: match u8::try_from(self.worth) {
                Ok(0) if top => Worth::Auto,
                Ok(packets) => Worth::Packets(packets.max(1)),
                Err(_) => Worth::Packets(header::MAX_WORTH),
            },
            max_incoming: self.max_incoming,
            max_outgoing: self.max_outgoing,
            max_per_peer: self.max_per_peer,
            max_half_open: self.max_half_open,
            max_remembered: self.max_remembered,
            timeout: Nanos(self.timeout),
            rto: Nanos(self.rto),
            send_buffer: self.send_buffer,
            receive_buffer: self.receive_buffer,
            receive_buffer_max: self.receive_buffer_max.max(self.receive_buffer),
            receive_memory: self.receive_memory,
            max_orphans: self.max_orphans,
            orphan_buffer: self.orphan_buffer,
            sender_priority: self.sender_priority == uapi::SENDER_PRIORITY_USE,
            dscp: Dscp {
                signal: code(self.dscp_signal),
                token: code(self.dscp_token),
                data: code(self.dscp_data),
                unscheduled: code(self.dscp_unscheduled),
            },
        })
    }
}

impl Config {
    fn dcqcn(&self) -> dcqcn::Config {
        dcqcn::Config {
            g: self.dcqcn_g,
            alpha_timer: Nanos(self.dcqcn_alpha_timer),
            timer: Nanos(self.dcqcn_timer),
            byte_counter: self.dcqcn_byte_counter,
            recovery_steps: u8::try_from(self.dcqcn_recovery_steps).unwrap_or(u8::MAX),
            additive: self.dcqcn_additive,
            hyper: self.dcqcn_hyper,
            minimum: self.minimum_rate,
            notify_interval: Nanos(self.cnp_interval),
            tcd: self.tcd == uapi::TCD_ON,
            tcd_cut: self.dcqcn_tcd_cut,
        }
    }

    fn timely(&self) -> timely::Config {
        timely::Config {
            t_low: Nanos(self.timely_low),
            t_high: Nanos(self.timely_high),
            min_rtt: Nanos(self.timely_min_rtt),
            weight: self.timely_weight,
            beta: self.timely_beta,
            additive: self.timely_additive,
            hyper_after: u8::try_from(self.timely_hyper_after).unwrap_or(u8::MAX),
            hyper_factor: u8::try_from(self.timely_hyper_factor).unwrap_or(u8::MAX),
            minimum: self.minimum_rate,
            tcd: self.tcd == uapi::TCD_ON,
            tcd_beta: self.timely_tcd_beta,
            max_cut: self.timely_max_cut,
        }
    }
}

/// 0 stands for none.
fn some(time: u64) -> Option<Nanos> {
    match time {
        0 => None,
        time => Some(Nanos(time)),
    }
}
