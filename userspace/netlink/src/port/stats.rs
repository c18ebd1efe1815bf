// SPDX-License-Identifier: GPL-2.0
//! What the kernel counts: `TCA_XSTATS` of a port and of its classes.

use turnstile_core::pfc::PRIORITIES;
use turnstile_core::port::uapi::{band_stat, port_stat};

use crate::attr::{attributes, Malformed};
use crate::print::Printer;
use crate::units;

/// What a statistic counts in.
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

/// A struct of statistics, one `u64` each, with its decoding and printing.
macro_rules! statistics {
    ($(#[$doc:meta])* $name:ident from $module:ident {
        $($(#[doc = $about:literal])+ $field:ident: $number:ident, $key:literal, $unit:ident;)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $($(#[doc = $about])+ pub $field: u64,)*
        }

        impl $name {
            /// Name of each, and what it is.
            pub const ABOUT: &'static [(&'static str, &'static str)] =
                &[$(($key, concat!($($about),+)),)*];

            /// Reads `TCA_XSTATS`. What the kernel does not report is 0, what it reports beyond
            /// these is left out.
            pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
                let mut stats = Self::default();
                for attribute in attributes(bytes) {
                    let attribute = attribute?;
                    match attribute.number {
                        $($module::$number => stats.$field = attribute.u64($key)?,)*
                        _ => {}
                    }
                }
                Ok(stats)
            }

            /// The attributes that [`Self::decode`] reads.
            pub fn encode(&self) -> Vec<u8> {
                let mut to = Vec::new();
                $(crate::attr::put_u64(&mut to, $module::$number, self.$field);)*
                to
            }

            /// Name (which is the key in JSON), value and unit of each.
            pub fn fields(&self) -> Vec<(&'static str, u64, Unit)> {
                vec![$(($key, self.$field, Unit::$unit),)*]
            }
        }
    };
}

pub(crate) use statistics;

statistics! {
    /// Statistics of a port.
    PortStats from port_stat {
        /// bytes/s: the link rate in force, set or reported by the device. 0: unresolved, the
        /// device has reported none yet.
        link_rate: LINK_RATE64, "link-rate", Rate;
        /// bytes/s, rounded down: the token group's rate in force. 0: tokens are not paced, since
        /// the link is unresolved.
        token_rate: TOKEN_RATE64, "token-rate", Rate;
        /// ns: the token expiry in force; 0: off, or what auto comes to while the link is
        /// unresolved.
        token_expiry: TOKEN_EXPIRY, "token-expiry", TimeOrOff;
        /// Times a dequeue found packets but the link still busy with the one before.
        link_waits: LINK_WAITS, "link-waits", Count;
        /// Times a dequeue found tokens, and nothing else to send, before the group's next release.
        token_waits: TOKEN_WAITS, "token-waits", Count;
        /// Packets that a filter's action dropped.
        filter_drops: FILTER_DROPS, "filter-drops", Count;
        /// Packets whose filter named a class that the port does not have.
        filter_misses: FILTER_MISSES, "filter-misses", Count;
        /// GSO super-packets split, into wire packets or into pieces.
        gso_splits: GSO_SPLITS, "gso-splits", Count;
        /// GSO super-packets dropped because they could not be split.
        gso_drops: GSO_DROPS, "gso-drops", Count;
        /// The cap of each token queue in force.
        token_limit: TOKEN_LIMIT, "token-limit", Count;
        /// ns: the slack in force, the lateness that the token group makes up for.
        token_slack: TOKEN_SLACK, "token-slack", Time;
        /// Times the token group was served later than its slack, and did not make up for all of
        /// it.
        slack_forfeits: SLACK_FORFEITS, "slack-forfeits", Count;
        /// ns: the lateness beyond the slack, in all.
        slack_forfeited: SLACK_FORFEITED, "slack-forfeited", Time;
        /// Signals beyond their share of the link, which went to the data class and count there.
        signal_excess: SIGNAL_EXCESS, "signal-excess", Count;
        /// ns: how long TCD's marker takes a port for undetermined after a pause, as in force; 0:
        /// there is no such marker, it takes no notice of pauses, or what auto comes to while the
        /// link is unresolved.
        tcd_max_on: TCD_MAX_ON, "tcd-max-on", TimeOrOff;
        /// Pieces that GSO super-packets were cut into where that was not into wire packets.
        gso_pieces: GSO_PIECES, "gso-pieces", Count;
        /// Bytes on the wire, as in force: GSO super-packets of data that are no longer stay whole,
        /// and pieces of others are no longer. 0: all are split into wire packets; 4294967295: none
        /// is.
        gso_whole: GSO_WHOLE, "gso-whole", Count;
    }
}

statistics! {
    /// Statistics of a class. At any time `offered_packets` = sent + `queued` + the five kinds of
    /// drops.
    ClassStats from band_stat {
        /// Packets that classification gave to this class.
        offered_packets: OFFERED_PACKETS, "offered-packets", Count;
        /// Bytes of these packets.
        offered_bytes: OFFERED_BYTES, "offered-bytes", Count;
        /// Dropped on arrival: the queue was at its cap.
        over_limit: OVER_LIMIT, "over-limit", Count;
        /// Tokens dropped because they waited longer than the expiry.
        expired: EXPIRED, "expired", Count;
        /// Dropped by a `change` that lowered the cap or removed the class.
        trimmed: TRIMMED, "trimmed", Count;
        /// Dropped with the whole queue: device down, qdisc reset.
        purged: PURGED, "purged", Count;
        /// Dropped by the child qdisc (data class only).
        child: CHILD, "child", Count;
        /// Packets now queued.
        queued: QUEUED, "queued", Count;
        /// The most packets ever queued at once.
        max_packets: MAX_PACKETS, "max-packets", Count;
        /// The most bytes ever queued at once.
        max_bytes: MAX_BYTES, "max-bytes", Count;
        /// ns: mean time between arrival and release.
        sojourn_mean: SOJOURN_MEAN, "sojourn-mean", Time;
        /// ns: the longest such time.
        sojourn_max: SOJOURN_MAX, "sojourn-max", Time;
    }
}

statistics! {
    /// Statistics of a class's phantom queue.
    PhantomStats from band_stat {
        /// Packets that passed the phantom queue.
        seen: PHANTOM_SEEN, "phantom-seen", Count;
        /// Of these, packets that may be marked: ECT(0) or ECT(1), not of a REN flow.
        markable: PHANTOM_MARKABLE, "phantom-markable", Count;
        /// Of these, packets that were marked Congestion Experienced.
        marked: PHANTOM_MARKED, "phantom-marked", Count;
        /// Bytes now in the phantom queue.
        backlog: PHANTOM_BACKLOG, "phantom-backlog", Count;
        /// The most bytes ever in the phantom queue since it was turned on.
        max: PHANTOM_MAX, "phantom-max", Count;
    }
}

statistics! {
    /// Statistics of a class's REN marker.
    RenStats from band_stat {
        /// Packets of REN flows that passed REN's marker.
        seen: REN_SEEN, "ren-seen", Count;
        /// Of these, packets that were left under-utilized.
        under: REN_UNDER, "ren-under", Count;
        /// Packets that were raised to fully utilized.
        full: REN_FULL, "ren-full", Count;
        /// Packets that were raised to over-utilized.
        over: REN_OVER, "ren-over", Count;
        /// Packets that came with the mark that they would have got, or a higher one.
        kept: REN_KEPT, "ren-kept", Count;
        /// Sampling periods in which packets left.
        periods: REN_PERIODS, "ren-periods", Count;
    }
}

statistics! {
    /// Statistics of a class's TCD marker.
    TcdStats from band_stat {
        /// TCD's state now: 0 not congested, 1 congested, 2 undetermined.
        state: TCD_STATE, "tcd-state", Count;
        /// Packets that may be marked, and passed TCD's marker.
        seen: TCD_SEEN, "tcd-seen", Count;
        /// Of these, packets that left while the port was not congested.
        unmarked: TCD_UNMARKED, "tcd-unmarked", Count;
        /// Packets that were marked CE.
        ce: TCD_CE, "tcd-ce", Count;
        /// Packets that were marked UE.
        ue: TCD_UE, "tcd-ue", Count;
        /// Packets that came with the mark that they would have got, or with CE.
        kept: TCD_KEPT, "tcd-kept", Count;
        /// How often the port became congested.
        congestions: TCD_CONGESTIONS, "tcd-congestions", Count;
        /// How often the port became undetermined.
        pauses: TCD_PAUSES, "tcd-pauses", Count;
        /// ns: how long the port was not congested.
        not_congested: TCD_TIME_NOT_CONGESTED, "tcd-time-not-congested", Time;
        /// ns: how long the port was congested.
        congested: TCD_TIME_CONGESTED, "tcd-time-congested", Time;
        /// ns: how long the port was undetermined.
        undetermined: TCD_TIME_UNDETERMINED, "tcd-time-undetermined", Time;
    }
}

statistics! {
    /// What the next switch paused, and what that cost.
    PfcStats from band_stat {
        /// Packets that the watchdog dropped.
        stormed: STORMED, "stormed", Count;
        /// Frames that paused data, or refreshed its pause.
        paused: PFC_PAUSED, "pfc-paused", Count;
        /// Frames that said that data may go.
        resumed: PFC_RESUMED, "pfc-resumed", Count;
        /// Pauses of data: frames that refresh one another are one.
        pauses: PFC_PAUSES, "pfc-pauses", Count;
        /// ns: how long data was paused.
        time: PFC_TIME, "pfc-time", Time;
        /// ns: the longest pause.
        longest: PFC_LONGEST, "pfc-longest", Time;
        /// Pauses that were longer than the watchdog lets them be.
        storms: PFC_STORMS, "pfc-storms", Count;
        /// MAC control frames that said nothing: spoofed, malformed, or of another kind.
        refused: PFC_REFUSED, "pfc-refused", Count;
    }
}

/// What was heard of each priority, 0 to 7: frames that paused it or refreshed its pause, and ns of
/// all and of the longest pause. All 0 for those that are not data's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PriorityStats([[u64; 3]; PRIORITIES as usize]);

/// The attributes, and how each is named for each priority.
const OF_PRIORITIES: [(u16, [&str; PRIORITIES as usize], Unit); 3] = {
    macro_rules! names {
        ($what:literal) => {
            [
                concat!("pfc-0-", $what),
                concat!("pfc-1-", $what),
                concat!("pfc-2-", $what),
                concat!("pfc-3-", $what),
                concat!("pfc-4-", $what),
                concat!("pfc-5-", $what),
                concat!("pfc-6-", $what),
                concat!("pfc-7-", $what),
            ]
        };
    }
    [
        (
            band_stat::PFC_PRIORITY_PAUSED,
            names!("paused"),
            Unit::Count,
        ),
        (band_stat::PFC_PRIORITY_TIME, names!("time"), Unit::Time),
        (
            band_stat::PFC_PRIORITY_LONGEST,
            names!("longest"),
            Unit::Time,
        ),
    ]
};

impl PriorityStats {
    /// Name of each, and what it is.
    pub const ABOUT: &'static [(&'static str, &'static str)] = &[
        (
            "pfc-N-paused",
            "Frames that paused priority N, or refreshed its pause; this and the next two for each \
             priority of data of which one was heard.",
        ),
        ("pfc-N-time", "ns: how long priority N was paused."),
        ("pfc-N-longest", "ns: the longest pause of priority N."),
    ];

    /// Reads `TCA_XSTATS`; as of the others.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut stats = Self::default();
        for attribute in attributes(bytes) {
            let attribute = attribute?;
            for (which, (number, names, _)) in OF_PRIORITIES.iter().enumerate() {
                if attribute.number != *number {
                    continue;
                }
                let values = attribute.payload.chunks_exact(size_of::<u64>());
                if values.len() != names.len() || !values.remainder().is_empty() {
                    return Err(attribute.malformed(names[0]));
                }
                for (of, value) in stats.0.iter_mut().zip(values) {
                    let value = value.try_into().expect("as long as a u64");
                    of[which] = u64::from_ne_bytes(value);
                }
            }
        }
        Ok(stats)
    }

    /// Name (which is the key in JSON), value and unit of each, of priorities of which a pause was
    /// heard.
    pub fn fields(&self) -> Vec<(&'static str, u64, Unit)> {
        let heard = (0..).zip(&self.0).filter(|(_, [paused, ..])| *paused != 0);
        heard
            .flat_map(|(priority, values): (usize, _)| {
                let named =
                    move |((_, names, unit), value): (&(_, [&'static str; 8], Unit), &u64)| {
                        (names[priority], *value, *unit)
                    };
                OF_PRIORITIES.iter().zip(values).map(named)
            })
            .collect()
    }
}

statistics! {
    /// What the port asked the other end of its link for.
    PauserStats from band_stat {
        /// bytes on the wire: held of what came in by the device until it is paused; 0: unresolved.
        xoff: PFC_XOFF, "pfc-xoff", Count;
        /// bytes on the wire: with no more held the pause ends.
        xon: PFC_XON, "pfc-xon", Count;
        /// bytes on the wire: room for what comes after a pause was decided.
        headroom: PFC_HEADROOM, "pfc-headroom", Count;
        /// bytes on the wire: of what came in by the device, what waits in all ports now.
        held: PFC_HELD, "pfc-held", Count;
        /// bytes on the wire: the most that ever waited.
        most: PFC_MOST, "pfc-most", Count;
        /// bytes on the wire: the most that was ever in the headroom.
        most_headroom: PFC_MOST_HEADROOM, "pfc-most-headroom", Count;
        /// Packets that came in by the device and were dropped, since the headroom was full.
        no_headroom: PFC_NO_HEADROOM, "pfc-no-headroom", Count;
        /// Pause frames that left by the device, ends of pauses included.
        sent: PFC_SENT, "pfc-sent", Count;
        /// Pauses that the other end was asked for.
        asked: PFC_ASKED, "pfc-asked", Count;
        /// Of these, pauses that were ended.
        ended: PFC_ENDED, "pfc-ended", Count;
        /// How often a pause was asked for again, before it ended by itself.
        refreshed: PFC_REFRESHED, "pfc-refreshed", Count;
        /// ns: how long the other end was to be silent.
        asked_time: PFC_ASKED_TIME, "pfc-asked-time", Time;
        /// ns: the longest such pause.
        asked_longest: PFC_ASKED_LONGEST, "pfc-asked-longest", Time;
    }
}

statistics! {
    /// What all markers of a class have in common.
    MarkingStats from band_stat {
        /// Packets that went unmarked because their header could not be written to, for lack of
        /// memory.
        unwritable: UNWRITABLE, "unwritable", Count;
    }
}

/// Statistics of a class's markers, those that it has or had, and of its pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MarkerStats {
    /// The phantom queue.
    pub phantom: Option<PhantomStats>,
    /// REN's marker.
    pub ren: Option<RenStats>,
    /// TCD's marker.
    pub tcd: Option<TcdStats>,
    /// Pauses that were heard.
    pub pfc: Option<PfcStats>,
    /// The same of each priority.
    pub priorities: Option<PriorityStats>,
    /// Pauses that were sent.
    pub pauser: Option<PauserStats>,
    /// What is counted for any marker.
    pub marking: Option<MarkingStats>,
}

impl MarkerStats {
    /// Reads them from a class's `TCA_XSTATS`.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut stats = Self::default();
        for attribute in attributes(bytes) {
            match attribute?.number {
                band_stat::PHANTOM_SEEN => stats.phantom = Some(PhantomStats::decode(bytes)?),
                band_stat::REN_SEEN => stats.ren = Some(RenStats::decode(bytes)?),
                band_stat::TCD_SEEN => stats.tcd = Some(TcdStats::decode(bytes)?),
                band_stat::PFC_PAUSED => stats.pfc = Some(PfcStats::decode(bytes)?),
                band_stat::PFC_PRIORITY_PAUSED => {
                    stats.priorities = Some(PriorityStats::decode(bytes)?);
                }
                band_stat::PFC_XOFF => stats.pauser = Some(PauserStats::decode(bytes)?),
                band_stat::UNWRITABLE => stats.marking = Some(MarkingStats::decode(bytes)?),
                _ => {}
            }
        }
        Ok(stats)
    }

    /// Name, value and unit of each, marker by marker. A class without markers has none.
    pub fn fields(&self) -> Vec<Vec<(&'static str, u64, Unit)>> {
        let phantom = self.phantom.map(|stats| stats.fields());
        let ren = self.ren.map(|stats| stats.fields());
        let marking = self.marking.map(|stats| stats.fields());
        let tcd = self.tcd.map(|stats| stats.fields());
        let pfc = self.pfc.map(|stats| stats.fields());
        let priorities = self.priorities.map(|stats| stats.fields());
        let priorities = priorities.filter(|fields| !fields.is_empty());
        let pauser = self.pauser.map(|stats| stats.fields());
        let all = [phantom, ren, tcd, marking, pfc, priorities, pauser];
        all.into_iter().flatten().collect()
    }

    /// Name of each, and what it is.
    pub fn about() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
        let markers = PhantomStats::ABOUT.iter().chain(RenStats::ABOUT);
        let markers = markers.chain(TcdStats::ABOUT).chain(MarkingStats::ABOUT);
        let heard = PfcStats::ABOUT.iter().chain(PriorityStats::ABOUT);
        markers.chain(heard).chain(PauserStats::ABOUT)
    }
}

/// Statistics of either kind, as tc hands them to its plugin: without saying whose they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stats {
    /// A port's.
    Port(PortStats),
    /// A class's, and its markers'.
    Class(ClassStats, Box<MarkerStats>),
}

impl Stats {
    /// Tells the two apart by their attributes' numbers. Attributes of neither kind, or none, count
    /// as a port's.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        for attribute in attributes(bytes) {
            if (band_stat::OFFERED_PACKETS..=band_stat::MAX).contains(&attribute?.number) {
                let markers = Box::new(MarkerStats::decode(bytes)?);
                return Ok(Self::Class(ClassStats::decode(bytes)?, markers));
            }
        }
        PortStats::decode(bytes).map(Self::Port)
    }
}

/// Shows statistics: in JSON as members, in text as lines of `per_line`, each after `indent`.
///
/// Rates are in bytes/s and times in ns in JSON, and with their units in text.
pub fn print_fields(
    fields: &[(&'static str, u64, Unit)],
    per_line: usize,
    indent: &str,
    to: &mut dyn Printer,
) {
    for (at, (key, value, unit)) in fields.iter().enumerate() {
        let before = match (at, at % per_line) {
            (0, _) => indent.to_owned(),
            (_, 0) => format!("\n{indent}"),
            _ => " ".to_owned(),
        };
        to.number(
            key,
            value,
            format_args!("{before}{key} {}", shown(*value, *unit)),
        );
    }
}

/// A statistic as text.
pub fn shown(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Rate => units::rate_decimal(value),
        Unit::TimeOrOff if value == 0 => "off".to_owned(),
        Unit::Time | Unit::TimeOrOff => units::time_decimal(value),
        Unit::Count => value.to_string(),
    }
}

impl PortStats {
    /// The port does not know its link's speed: none was set, and the device has reported none yet.
    pub fn is_unresolved(&self) -> bool {
        self.link_rate == 0
    }

    /// The link rate in force, as text.
    pub fn link_in_force(&self) -> String {
        match self.is_unresolved() {
            true => "unresolved".to_owned(),
            false => shown(self.link_rate, Unit::Rate),
        }
    }

    /// The token rate in force, as text.
    pub fn tokens_in_force(&self) -> String {
        match self.is_unresolved() && self.token_rate == 0 {
            true => "unpaced".to_owned(),
            false => shown(self.token_rate, Unit::Rate),
        }
    }
}

/// Shows a port's statistics. That the link is unresolved has a member of its own in JSON, where a
/// rate of 0 would not say it to a person.
pub fn print_port_stats(stats: &PortStats, indent: &str, to: &mut dyn Printer) {
    let fields = stats.fields();
    if !stats.is_unresolved() {
        return print_fields(&fields, 3, indent, to);
    }
    to.string(
        "link",
        "unresolved",
        format_args!(
            "{indent}link unresolved token-rate {} token-expiry {}\n",
            stats.tokens_in_force(),
            shown(stats.token_expiry, Unit::TimeOrOff),
        ),
    );
    let (rates, counters) = fields.split_at(3);
    for (key, value, _) in rates {
        to.number(key, value, format_args!(""));
    }
    print_fields(counters, 3, indent, to);
}

/// Shows a class's statistics.
pub fn print_class_stats(
    stats: &ClassStats,
    markers: &MarkerStats,
    indent: &str,
    to: &mut dyn Printer,
) {
    print_fields(&stats.fields(), 7, indent, to);
    if !markers.fields().is_empty() {
        to.text(format_args!("\n"));
        print_marker_stats(markers, indent, to);
    }
}

/// Shows the statistics of a class's markers, a line for each.
pub fn print_marker_stats(markers: &MarkerStats, indent: &str, to: &mut dyn Printer) {
    for (at, fields) in markers.fields().iter().enumerate() {
        if at > 0 {
            to.text(format_args!("\n"));
        }
        print_fields(fields, 8, indent, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{put, put_u64};
    use crate::json::Json;
    use crate::print::Text;
    use proptest::prelude::*;

    #[test]
    fn told_apart() {
        let port = PortStats {
            link_rate: 1_250_000_000,
            gso_drops: 7,
            ..PortStats::default()
        };
        let class = ClassStats {
            expired: 3,
            sojourn_max: 10_368,
            ..ClassStats::default()
        };
        assert_eq!(Stats::decode(&port.encode()), Ok(Stats::Port(port)));
        let none = MarkerStats::default();
        assert_eq!(
            Stats::decode(&class.encode()),
            Ok(Stats::Class(class, Box::new(none)))
        );
        let phantom = PhantomStats {
            seen: 9,
            ..PhantomStats::default()
        };
        let both = [class.encode(), phantom.encode()].concat();
        let markers = MarkerStats {
            phantom: Some(phantom),
            ..none
        };
        assert_eq!(
            Stats::decode(&both),
            Ok(Stats::Class(class, Box::new(markers)))
        );
        assert_eq!(Stats::decode(&[]), Ok(Stats::Port(PortStats::default())));
        let mut newer = Vec::new();
        put_u64(&mut newer, 4000, 1);
        put(&mut newer, 1, &[]);
        assert_eq!(PortStats::decode(&newer), Ok(PortStats::default()));
    }

    #[test]
    fn priorities_have_names_of_their_own() {
        let of = |values: [(usize, u64); 2]| {
            let mut all = [0_u64; 8];
            for (priority, value) in values {
                all[priority] = value;
            }
            all.map(u64::to_ne_bytes).concat()
        };
        let mut bytes = Vec::new();
        put_u64(&mut bytes, band_stat::PFC_PAUSED, 3);
        put(
            &mut bytes,
            band_stat::PFC_PRIORITY_PAUSED,
            &of([(3, 2), (7, 1)]),
        );
        put(
            &mut bytes,
            band_stat::PFC_PRIORITY_TIME,
            &of([(3, 900), (7, 80)]),
        );
        put(
            &mut bytes,
            band_stat::PFC_PRIORITY_LONGEST,
            &of([(3, 600), (7, 80)]),
        );
        let stats = MarkerStats::decode(&bytes).unwrap();
        let fields = stats.priorities.unwrap().fields();
        assert_eq!(
            fields,
            [
                ("pfc-3-paused", 2, Unit::Count),
                ("pfc-3-time", 900, Unit::Time),
                ("pfc-3-longest", 600, Unit::Time),
                ("pfc-7-paused", 1, Unit::Count),
                ("pfc-7-time", 80, Unit::Time),
                ("pfc-7-longest", 80, Unit::Time),
            ]
        );
        assert!(stats.fields().contains(&fields));
        // Of none anything was heard: nothing is shown.
        let mut none = Vec::new();
        put(&mut none, band_stat::PFC_PRIORITY_PAUSED, &[0; 64]);
        assert!(MarkerStats::decode(&none).unwrap().fields().is_empty());
        for wrong in [0, 8, 63, 65, 72] {
            let mut bytes = Vec::new();
            put(&mut bytes, band_stat::PFC_PRIORITY_PAUSED, &vec![0; wrong]);
            assert!(MarkerStats::decode(&bytes).is_err(), "{wrong}");
        }
    }

    #[test]
    fn as_text() {
        let stats = PortStats {
            link_rate: 1_250_000_000,
            token_rate: 64_734_895,
            token_waits: 2,
            ..PortStats::default()
        };
        let mut text = Text::default();
        print_port_stats(&stats, "  ", &mut text);
        assert_eq!(
            text.finish(),
            "  link-rate 10gbit token-rate 517.87916mbit token-expiry off\n  \
             link-waits 0 token-waits 2 filter-drops 0\n  \
             filter-misses 0 gso-splits 0 gso-drops 0\n  \
             token-limit 0 token-slack 0ns slack-forfeits 0\n  slack-forfeited 0ns \
             signal-excess 0 tcd-max-on off\n  gso-pieces 0 gso-whole 0"
        );
    }

    #[test]
    fn an_unresolved_link_says_so() {
        let shown = |stats: &PortStats| {
            let mut text = Text::default();
            print_port_stats(stats, "  ", &mut text);
            let mut json = Json::default();
            print_port_stats(stats, "", &mut json);
            (text.finish(), json.finish())
        };
        let unknown = PortStats {
            token_waits: 2,
            ..PortStats::default()
        };
        let (text, json) = shown(&unknown);
        assert!(
            text.starts_with(
                "  link unresolved token-rate unpaced token-expiry off\n  \
                 link-waits 0 token-waits 2 filter-drops 0\n  filter-misses 0 "
            ),
            "{text}"
        );
        assert_eq!(json["link"], "unresolved");
        assert_eq!(
            (&json["link-rate"], &json["token-rate"]),
            (&0.into(), &0.into())
        );
        assert_eq!(
            (&json["token-waits"], &json["gso-drops"]),
            (&2.into(), &0.into())
        );
        let paced = PortStats {
            token_rate: 125_000,
            token_expiry: 1500,
            ..unknown
        };
        let (text, _) = shown(&paced);
        assert!(
            text.starts_with("  link unresolved token-rate 1mbit token-expiry 1.5us\n"),
            "{text}"
        );
        // A share of a slow link may be less than a byte per second.
        let slow = PortStats {
            link_rate: 125,
            ..PortStats::default()
        };
        let (text, json) = shown(&slow);
        assert!(
            text.starts_with("  link-rate 1kbit token-rate 0bit token-expiry off\n"),
            "{text}"
        );
        assert!(json.get("link").is_none());
    }

    #[test]
    fn markers_have_lines_of_their_own() {
        let stats = ClassStats::default();
        let text = |markers| {
            let mut text = Text::default();
            print_class_stats(&stats, &markers, "  ", &mut text);
            text.finish()
        };
        let plain = text(MarkerStats::default());
        assert_eq!(plain.lines().count(), 2);
        let markers = MarkerStats {
            phantom: Some(PhantomStats {
                seen: 10,
                markable: 7,
                marked: 3,
                backlog: 1001,
                max: 2048,
            }),
            ren: Some(RenStats {
                over: 5,
                ..RenStats::default()
            }),
            marking: Some(MarkingStats::default()),
            ..MarkerStats::default()
        };
        assert_eq!(
            text(markers),
            plain
                + "\n  phantom-seen 10 phantom-markable 7 phantom-marked 3 \
                   phantom-backlog 1001 phantom-max 2048\
                   \n  ren-seen 0 ren-under 0 ren-full 0 ren-over 5 ren-kept 0 ren-periods 0\
                   \n  unwritable 0"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(bytes: Vec<u8>, end: prop::sample::Index) {
            let _ = Stats::decode(&bytes);
            let whole = ClassStats::default().encode();
            let cut = end.index(whole.len());
            prop_assert_eq!(ClassStats::decode(&whole[..cut]).is_ok(), cut % 12 == 0);
        }
    }
}
