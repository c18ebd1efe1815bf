// SPDX-License-Identifier: GPL-2.0
//! The one table of a pacer's options: what the grammar accepts, what the attributes are, and what
//! help texts, man pages and errors say of it.

use turnstile_core::pacer::config::limits;
use turnstile_core::pacer::uapi::option;
use turnstile_core::port::config::limits::{Range, Unit};

use crate::table::entry;

/// Which option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the table has the meaning of each")]
pub enum Key {
    Interval,
    Eta,
    Beta,
    Associate,
    Idle,
    Flows,
    Bucket,
    Limit,
    PassLimit,
    InitialRate,
    SplitGso,
    Overhead,
    Mpu,
}

/// What kind of value an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// ns.
    Time,
    /// Parts per billion.
    Percent,
    /// bytes/s; 0 is `auto`.
    RateOrAuto,
    /// Bytes, shown with a unit.
    Size,
    /// Bytes, so few that they are shown without a unit.
    Bytes,
    /// A whole number.
    Number,
    /// No value: the word alone, or with `no-` before it.
    Flag,
}

impl Form {
    /// What stands for the value in a synopsis.
    pub fn placeholder(self) -> &'static str {
        match self {
            Self::Time => "TIME",
            Self::Percent => "PERCENT",
            Self::RateOrAuto => "RATE|auto",
            Self::Size | Self::Bytes => "BYTES",
            Self::Number => "N",
            Self::Flag => "",
        }
    }

    /// Is the attribute a `u64`? Otherwise it is a `u32`.
    pub(super) fn is_u64(self) -> bool {
        matches!(self, Self::Time | Self::RateOrAuto)
    }
}

/// One option.
#[derive(Debug)]
pub struct Info {
    /// Which.
    pub key: Key,
    /// The number of its attribute.
    pub number: u16,
    /// The word, which is also the key in JSON.
    pub name: &'static str,
    /// What follows the word.
    pub form: Form,
    /// The allowed numbers.
    pub range: Range,
    /// What holds if the option is not given.
    pub default: &'static str,
    /// What it does: sentences, in plain text.
    pub about: &'static str,
    /// Where rule and default come from.
    pub source: &'static str,
}

impl Info {
    /// As in a synopsis: `[ eta PERCENT ]`.
    pub fn synopsis(&self) -> String {
        match self.form {
            Form::Flag => format!("[ {0} | no-{0} ]", self.name),
            form => format!("[ {} {} ]", self.name, form.placeholder()),
        }
    }

    /// The allowed values in short: `1us..1s`. Empty where the synopsis says it all.
    pub fn range(&self) -> String {
        match self.form {
            Form::Flag => String::new(),
            Form::RateOrAuto => format!("{} or auto", self.range),
            Form::Size | Form::Bytes => format!("{} bytes", self.range),
            _ => self.range.to_string(),
        }
    }
}

const FLAG: Range = Range {
    min: 0,
    max: 1,
    unit: Unit::Number,
};

/// All options, in the order in which they are printed, which is that of [`Key`].
pub const OPTIONS: &[Info] = &[
    Info {
        key: Key::Interval,
        number: option::INTERVAL,
        name: "interval",
        form: Form::Time,
        range: limits::INTERVAL,
        default: "64us",
        about: "The bucket's rate R follows the traffic once in this time, T: R becomes (1 - eta) R + eta M / T + beta Q, with M bytes \
                that the host sent in the interval and Q bytes that wait for tokens, all on the wire. interval / eta should be a few round-trip times.",
        source: "T_r of HULL, equation 4 and section 6; the number is our choice (for 10 Gbit/s and round trips of 20 us, section 6.3 has 7.2us)",
    },
    Info {
        key: Key::Eta,
        number: option::ETA,
        name: "eta",
        form: Form::Percent,
        range: limits::ETA,
        default: "12.5%",
        about: "How much the newest interval counts for the rate.",
        source: "HULL, equation 4; 0.125 in section 6.3",
    },
    Info {
        key: Key::Beta,
        number: option::BETA,
        name: "beta",
        form: Form::Number,
        range: limits::BETA,
        default: "16",
        about: "How many bytes per second are added to the rate for each byte that waits, in each interval: more of it keeps the queue shorter, and \
                paces less.",
        source: "HULL, equation 4; 2^4 is the sweet spot of section 4.4, at 1 Gbit/s (for 10 Gbit/s, section 6.3 has 375)",
    },
    Info {
        key: Key::Associate,
        number: option::ASSOCIATE,
        name: "associate",
        form: Form::Percent,
        range: limits::ASSOCIATE,
        default: "12.5%",
        about: "Probability with which a TCP acknowledgement with ECN-Echo, received by the device, has its flow paced from then on. Flows of few packets \
                are thus unlikely to be paced.",
        source: "p_a of HULL, section 4.2: 1/8",
    },
    Info {
        key: Key::Idle,
        number: option::IDLE,
        name: "idle",
        form: Form::Time,
        range: limits::IDLE,
        default: "10ms",
        about: "A flow that has sent nothing, and for which no acknowledgement was drawn, for this long is paced no more.",
        source: "T_i of HULL, section 4.2; the number is our choice (section 6.3 has 1ms for round trips of 20 us)",
    },
    Info {
        key: Key::Flows,
        number: option::FLOWS,
        name: "flows",
        form: Form::Number,
        range: limits::FLOWS,
        default: "64",
        about: "The most flows that are paced at a time. Others pass by until there is room.",
        source: "HULL, section 5.1",
    },
    Info {
        key: Key::Bucket,
        number: option::BUCKET,
        name: "bucket",
        form: Form::Size,
        range: limits::BUCKET,
        default: "3kb",
        about: "How many bytes may leave at once after a pause. A longer packet leaves when the bucket is full, and is paid for before the next one leaves.",
        source: "HULL, section 5.1",
    },
    Info {
        key: Key::Limit,
        number: option::LIMIT,
        name: "limit",
        form: Form::Size,
        range: limits::LIMIT,
        default: "128kb",
        about: "Cap of what waits for tokens. A packet that finds no room is dropped.",
        source: "HULL, section 5.1",
    },
    Info {
        key: Key::PassLimit,
        number: option::PASS_LIMIT,
        name: "pass-limit",
        form: Form::Size,
        range: limits::PASS_LIMIT,
        default: "transmit queue length (1000 if 0) x (MTU + link-layer header)",
        about: "Cap of what passes by, where the device does not take it at once. It does not count for a child qdisc.",
        source: "as tc-bfifo(8)",
    },
    Info {
        key: Key::InitialRate,
        number: option::INITIAL_RATE64,
        name: "initial-rate",
        form: Form::RateOrAuto,
        range: limits::INITIAL_RATE,
        default: "auto",
        about: "The bucket's rate to begin with; another one, given with a change, holds from then on. auto: the speed that the device reports, \
                10gbit if it reports none.",
        source: "our choice: pacing begins when the rate has come down to what the host sends, after a few intervals / eta",
    },
    Info {
        key: Key::SplitGso,
        number: option::SPLIT_GSO,
        name: "split-gso",
        form: Form::Flag,
        range: FLAG,
        default: "split-gso",
        about: "Split GSO super-packets of paced flows into the packets that go over the wire, and pace each. What passes by always stays whole. \
                With no-split-gso each waits for a full bucket, and takes as many tokens as it has bytes on the wire.",
        source: "HULL, section 2.3: the pacer works after segmentation",
    },
    Info {
        key: Key::Overhead,
        number: option::OVERHEAD,
        name: "overhead",
        form: Form::Bytes,
        range: limits::OVERHEAD,
        default: "24",
        about: "Bytes that each packet takes on the wire beside what the kernel counts.",
        source: "Ethernet: frame check sequence 4, preamble 8, inter-packet gap 12 (IEEE 802.3)",
    },
    Info {
        key: Key::Mpu,
        number: option::MPU,
        name: "mpu",
        form: Form::Bytes,
        range: limits::MPU,
        default: "84",
        about: "The least that a packet occupies on the wire, overhead included.",
        source: "Ethernet: minimum frame 64, preamble 8, inter-packet gap 12 (IEEE 802.3)",
    },
];

/// The words that start an option, in one line for errors.
pub fn names() -> String {
    let mut names = Vec::new();
    for info in OPTIONS {
        names.push(info.name.to_owned());
        if info.form == Form::Flag {
            names.push(format!("no-{}", info.name));
        }
    }
    names.join(", ")
}

/// What a terminal shows for `help`: a line or two per option, at most 100 columns wide.
pub fn help() -> String {
    let entries = OPTIONS
        .iter()
        .map(|info| entry(&info.synopsis(), info.about, &info.range(), info.default));
    entries.collect::<String>() + crate::table::HELP_UNITS
}
