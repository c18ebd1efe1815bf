// SPDX-License-Identifier: GPL-2.0
//! The one table of options: what the grammar accepts, and what help texts, man pages and errors
//! say about it.

use turnstile_core::port::config::limits::{self, Range};

/// Which option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the table has the meaning of each")]
pub enum Key {
    Link,
    Tokens,
    Priorities,
    TokenLimit,
    TokenExpiry,
    Order,
    Unscheduled,
    DataLimit,
    SignalLimit,
    Dscp,
    SplitGso,
    Overhead,
    Mpu,
    Jitter,
    Phantom,
    Ren,
}

/// One option.
#[derive(Debug)]
pub struct Info {
    /// Which.
    pub key: Key,
    /// The word, which is also the key in JSON.
    pub name: &'static str,
    /// What follows the word; empty: nothing, and `no-` before the word gives the opposite.
    pub value: &'static str,
    /// The allowed numbers, where they are numbers.
    pub range: Option<Range>,
    /// What holds if the option is not given.
    pub default: &'static str,
    /// What it does: sentences, in plain text.
    pub about: &'static str,
    /// Where rule and default come from.
    pub source: &'static str,
}

impl Info {
    /// As in a synopsis: `[ link RATE|auto ]`.
    pub fn synopsis(&self) -> String {
        match self.value {
            "" => format!("[ {0} | no-{0} ]", self.name),
            value => format!("[ {} {value} ]", self.name),
        }
    }

    /// The allowed values in short: `1kbit..800gbit or auto`. Empty where the synopsis says it all.
    pub fn range(&self) -> String {
        let Some(range) = self.range else {
            return String::new();
        };
        let range = range.to_string();
        match self.key {
            Key::Link => format!("{range} or auto"),
            Key::Tokens => format!("{range} of the link, as a percentage or as a rate"),
            Key::TokenExpiry => format!("{range}, auto or off"),
            Key::Unscheduled => format!("{range} packets or off"),
            Key::TokenLimit | Key::SignalLimit => format!("{range} packets"),
            Key::DataLimit | Key::Overhead | Key::Mpu => format!("{range} bytes"),
            Key::Phantom => format!(
                "drain {range} of the link, as a percentage or as a rate; mark {} bytes",
                limits::PHANTOM_MARK
            ),
            _ => range,
        }
    }
}

/// All options, in the order in which they are printed.
pub const OPTIONS: &[Info] = &[
    Info {
        key: Key::Link,
        name: "link",
        value: "RATE|auto",
        range: Some(limits::LINK),
        default: "auto",
        about: "Shape the whole port to this rate, counted in bytes on the wire (see overhead and mpu). \
                With auto the port is not shaped, and shares are taken of the speed that the device reports, also if that \
                changes: when the link comes up, when a bond or team gets or loses a port. A speed that is no longer reported stays in force. \
                While there is none the port is unresolved, which its statistics say: bands go in their order, but tokens are \
                not paced by a share, do not expire by auto, and no marker works that needs the speed. \
                Devices that never report one, such as dummies, ifb and most tunnels, need a rate; so does veth if it is to be a \
                link, since its 10 Gbit/s hold nothing back.",
        source: "every band of a switch port shares its link (TOP fig. 3)",
    },
    Info {
        key: Key::Tokens,
        name: "tokens",
        value: "PERCENT|RATE",
        range: Some(limits::TOKENS),
        default: "5.1787916%",
        about: "Rate of the token group: all token priorities together release one token per pacing interval, \
                and an idle group saves up no more than that one. A percentage of the link follows when the link's \
                rate changes; it is kept in parts per billion.",
        source: "84 / (84 + 1538): one minimum-size token for each full-size frame (ExpressPass section 2.1)",
    },
    Info {
        key: Key::Priorities,
        name: "priorities",
        value: "N",
        range: Some(limits::PRIORITIES),
        default: "6",
        about: "Number of token queues, served in strict priority. Tokens of a lower priority than the last queue's go to the last queue.",
        source: "eight hardware queues, less one for signals and one for data (TOP fig. 3)",
    },
    Info {
        key: Key::TokenLimit,
        name: "token-limit",
        value: "PACKETS",
        range: Some(limits::TOKEN_LIMIT),
        default: "8",
        about: "Cap of each token queue. A token that finds its queue full is dropped, unless an expired one makes room. \
                With jitter a queue may hold more.",
        source: "TOP section 4.3: 8 tokens per queue, as in ExpressPass",
    },
    Info {
        key: Key::TokenExpiry,
        name: "token-expiry",
        value: "TIME|auto|off",
        range: Some(limits::TOKEN_EXPIRY),
        default: "auto",
        about: "Drop a token that has waited longer: the data it would release could no longer arrive in its slot. \
                auto: eight pacing intervals (of 84 bytes at the token rate), or eight full frames with their tokens on the link \
                if that is longer; at the default share it is the same. off: never. With jitter a token may wait longer.",
        source: "TOP section 3.1, rule R2; eight pacing times per hop: section 4.3",
    },
    Info {
        key: Key::Order,
        name: "order",
        value: "tokens-first|data-first",
        range: None,
        default: "tokens-first",
        about: "Whether tokens go before data or after. After means that a token which is due lets one data packet pass, and no \
                more, so that data which fills the link leaves tokens their share. Signals are always first and unscheduled \
                packets last.",
        source: "TOP fig. 3b (tokens-first) and fig. 3a (data-first)",
    },
    Info {
        key: Key::Unscheduled,
        name: "unscheduled",
        value: "PACKETS|off",
        range: Some(limits::UNSCHEDULED),
        default: "1",
        about: "Cap of the unscheduled band, for packets sent in the first round trip without a token. \
                off: no such band; its packets are data.",
        source: "TOP section 4.4: exactly one full-length packet",
    },
    Info {
        key: Key::DataLimit,
        name: "data-limit",
        value: "BYTES",
        range: Some(limits::DATA_LIMIT),
        default: "transmit queue length (1000 if 0) x (MTU + link-layer header)",
        about: "Cap of the data band's own queue. It does not count for a child qdisc grafted on the data class.",
        source: "as tc-bfifo(8)",
    },
    Info {
        key: Key::SignalLimit,
        name: "signal-limit",
        value: "PACKETS",
        range: Some(limits::SIGNAL_LIMIT),
        default: "1000",
        about: "Cap of the signal band.",
        source: "as tc-pfifo(8) with the usual transmit queue length",
    },
    Info {
        key: Key::Dscp,
        name: "dscp",
        value: "MAP|default|none",
        range: None,
        default: "CS6=signal,CS7=signal",
        about: "Class of packets that neither their socket priority, nor a filter, nor their headers gave to one: \
                CODE=BAND[,CODE=BAND...]. A CODE is 0..63 or a name (CS0..CS7, AF11..AF43, EF, LE), a BAND is signal, data, \
                unscheduled or token0..token7. Codes that are not named are data. The map replaces the one in force as a whole. \
                none: all are data.",
        source: "network control traffic (RFC 4594 section 3.2)",
    },
    Info {
        key: Key::SplitGso,
        name: "split-gso",
        value: "",
        range: None,
        default: "split-gso",
        about: "Split GSO super-packets into the packets that go over the wire before they are queued. \
                With no-split-gso they stay whole and count as the packets that they stand for.",
        source: "as tc-cake(8)",
    },
    Info {
        key: Key::Overhead,
        name: "overhead",
        value: "BYTES",
        range: Some(limits::OVERHEAD),
        default: "24",
        about: "Bytes that each packet takes on the wire beside what the kernel counts.",
        source: "Ethernet: frame check sequence 4, preamble 8, inter-packet gap 12 (IEEE 802.3)",
    },
    Info {
        key: Key::Mpu,
        name: "mpu",
        value: "BYTES",
        range: Some(limits::MPU),
        default: "84",
        about: "The least that a packet occupies on the wire, overhead included.",
        source: "Ethernet: minimum frame 64, preamble 8, inter-packet gap 12 (IEEE 802.3)",
    },
    Info {
        key: Key::Jitter,
        name: "jitter",
        value: "TIME",
        range: Some(limits::JITTER),
        default: "50us",
        about: "How late this machine may be: interrupts that are held back, softirqs and timers that wait. Tokens then come in bursts and \
                leave late; so that none is lost which came at less than the tokens' rate, the port lets each token queue hold \
                at least 64 tokens (what one poll of a device hands over) and those that fall due within TIME, does not let a token expire \
                before such a queue could have been sent, and makes up for lateness of eight intervals (of two frames and a token, if that is \
                longer) and TIME. TIME is for tokens that come late and for leaving late, together. A smaller token-limit or token-expiry is raised to that: statistics have what is in force. \
                0: none of this, for machines that are never late and for the papers' bounds on queues.",
        source: "one poll: NAPI's budget; 0: TOP section 4.3 counts eight intervals of jitter",
    },
    Info {
        key: Key::Phantom,
        name: "phantom",
        value: "{ drain PERCENT|RATE mark BYTES | off }",
        range: Some(limits::PHANTOM_DRAIN),
        default: "off",
        about: "Phantom queue of the data band: a counter that each data packet which leaves raises by its bytes on the wire, and that \
                drains at a percentage of the link or at a rate. A packet that finds more than mark bytes in it is marked \
                Congestion Experienced if its ECN field says ECT(0) or ECT(1); no packet is held up or dropped, and packets of REN flows \
                are not marked. To be used with a congestion control that heeds marks by their number, such as dctcp: data then stays below the \
                drain rate, and the queue empty. The rest of the link is for what is no data, tokens included. \
                Of a queue that is on, drain or mark can be changed alone.",
        source: "HULL sections 2 and 6: drain 95% and mark 1kb at 1 Gbit/s; the higher the drain rate, the lower the mark",
    },
    Info {
        key: Key::Ren,
        name: "ren",
        value: "{ period TIME | off }",
        range: Some(limits::REN_PERIOD),
        default: "off",
        about: "REN's marks on the data band. In each sampling period the port compares how many packets wait with how many more would have fit; \
                so many packets of REN flows are marked over-utilized or left under-utilized, all others are marked fully utilized, and a mark is \
                only ever raised. REN flows are those of transports with policy ren (see turnstile(8)); no other packet is touched. \
                The period should be the longest round trip of an idle network, and the same on all ports of a path.",
        source: "REN section 3.2; its testbed of 10 Gbit/s has a round trip and a period of 48us (section 5.2)",
    },
];

/// What a statistic counts in; see [`crate::stats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number of something.
    Count,
    /// bytes/s.
    Rate,
    /// ns.
    Time,
    /// ns, where 0 stands for `off`.
    TimeOrOff,
}

/// The words that start an option, in one line for errors.
pub fn names() -> String {
    let mut names = Vec::new();
    for info in OPTIONS {
        names.push(info.name.to_owned());
        if info.value.is_empty() {
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
    entries.collect::<String>() + HELP_UNITS
}

/// The last line of `help`.
pub(crate) const HELP_UNITS: &str =
    "Rates, times and sizes have tc's units: 10gbit, 100mbps (bytes), 20us, 64kb; see tc(8).\n";

/// One option in `help`. `range`: what is allowed; empty if there is nothing to say.
pub(crate) fn entry(synopsis: &str, about: &str, range: &str, default: &str) -> String {
    let range = match range {
        "" => String::new(),
        range => format!("{range}; "),
    };
    let mut text = format!("  {synopsis}\n");
    for line in wrap(&format!("{about} ({range}default: {default})"), 88) {
        text += &format!("        {line}\n");
    }
    text
}

/// `text` in lines of at most `width` characters, broken between words.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnstile_core::port::config::Config;

    #[test]
    fn defaults_are_the_ones_in_force() {
        let words: Vec<String> = OPTIONS
            .iter()
            .filter(|info| info.key != Key::DataLimit)
            .flat_map(|info| match info.value {
                "" => vec![info.default.to_owned()],
                _ => vec![info.name.to_owned(), info.default.to_owned()],
            })
            .collect();
        let options = crate::parse(&words).unwrap();
        let config = Config::DEFAULT;
        assert_eq!(options.tokens, Some(config.tokens));
        assert_eq!(options.priorities, Some(u32::from(config.priorities)));
        assert_eq!(options.token_limit, Some(config.token_limit));
        assert_eq!(options.token_expiry, Some(config.token_expiry));
        assert_eq!(options.order, Some(config.order));
        assert_eq!(options.unscheduled, Some(config.unscheduled));
        assert_eq!(options.signal_limit, Some(config.signal_limit));
        assert_eq!(options.dscp, Some(config.dscp));
        assert_eq!(options.split_gso, Some(config.split_gso));
        assert_eq!(options.overhead, Some(config.overhead));
        assert_eq!(options.mpu, Some(config.mpu));
        assert_eq!(options.jitter, Some(config.jitter));
        assert_eq!(options.link, Some(crate::Link::Auto));
        assert_eq!(options.phantom, Some(crate::Phantom::Off));
        assert_eq!(config.phantom, None);
        assert_eq!(options.ren, Some(None));
        assert_eq!(config.ren, None);
    }

    #[test]
    fn help_names_every_option() {
        let help = help();
        for info in OPTIONS {
            assert!(help.contains(&info.synopsis()));
        }
        assert!(help.lines().all(|line| line.chars().count() <= 100));
    }
}
