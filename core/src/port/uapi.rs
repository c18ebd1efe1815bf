// SPDX-License-Identifier: GPL-2.0
//! The numbers that the kernel and userspace must agree on: netlink attributes, class ids and
//! what the attributes' values mean. `docs/netlink.md` describes them for other programs.
//!
//! The kernel's qdisc, the `turnstile` command and the tc plugin all take them from here, so that
//! there is one place to change and nothing to keep in step. A number, once released, is never
//! given a new meaning.

/// The qdisc kind, as in `tc qdisc add dev swp1 root turnstile`.
pub const KIND: &str = "turnstile";

/// The qdisc kind of ports for each transmit queue of a device, which share its link:
/// `tc qdisc add dev eth0 root turnstile_mq`. Options and statistics are a port's.
pub const KIND_MQ: &str = "turnstile_mq";

/// Attributes inside `TCA_OPTIONS` of the qdisc (`tc qdisc add|replace|change`, and its dump).
///
/// All integers are in host byte order, as everywhere in rtnetlink.
pub mod option {
    /// Padding for 64-bit attributes; carries nothing.
    pub const PAD: u16 = 1;
    /// `u64`, bytes/s: the rate that the whole port is shaped to. 0: unshaped, at the speed that
    /// the device reports, as soon as it does.
    pub const LINK_RATE64: u16 = 2;
    /// `u32`, parts per billion of the link: the token group's rate, in tokens of 84 bytes; those
    /// beyond count at the link's rate. Excludes [`TOKEN_RATE64`].
    pub const TOKEN_SHARE: u16 = 3;
    /// `u64`, bytes/s on the wire: the token group's rate. Excludes [`TOKEN_SHARE`].
    pub const TOKEN_RATE64: u16 = 4;
    /// `u32`: number of token priorities.
    pub const PRIORITIES: u16 = 5;
    /// `u32`, packets: cap of each token queue.
    pub const TOKEN_LIMIT: u16 = 6;
    /// `u64`, ns: a token that has waited longer is dropped. [`super::EXPIRY_OFF`],
    /// [`super::EXPIRY_AUTO`].
    pub const TOKEN_EXPIRY: u16 = 7;
    /// `u32`: [`super::ORDER_TOKENS_FIRST`] or [`super::ORDER_DATA_FIRST`].
    pub const ORDER: u16 = 8;
    /// `u32`, packets: cap of the unscheduled band; 0: no such band.
    pub const UNSCHEDULED: u16 = 9;
    /// `u32`, bytes: cap of the data band's own FIFO.
    pub const DATA_LIMIT: u16 = 10;
    /// `u32`, packets: cap of the signal band.
    pub const SIGNAL_LIMIT: u16 = 11;
    /// 64 bytes, one per DSCP: the minor number of the class that it goes to.
    pub const DSCP_MAP: u16 = 12;
    /// `u32`: split GSO super-packets before they are queued. [`super::SPLIT_GSO_NO`],
    /// [`super::SPLIT_GSO_ALL`], [`super::SPLIT_GSO_AUTO`].
    pub const SPLIT_GSO: u16 = 13;
    /// `u32`, bytes added to each packet for what the wire carries beside it.
    pub const OVERHEAD: u16 = 14;
    /// `u32`, bytes: the least that a packet occupies on the wire, overhead included.
    pub const MPU: u16 = 15;
    /// `u32`, parts per billion of the link: at what the data band's phantom queue drains; 0: there
    /// is none. Excludes [`PHANTOM_RATE64`].
    pub const PHANTOM_SHARE: u16 = 16;
    /// `u64`, bytes/s on the wire: the same. Excludes [`PHANTOM_SHARE`].
    pub const PHANTOM_RATE64: u16 = 17;
    /// `u32`, bytes: packets that find more in the phantom queue are marked.
    pub const PHANTOM_MARK: u16 = 18;
    /// `u64`, ns: the sampling period of the data band's REN marker; 0: there is none.
    pub const REN_PERIOD: u16 = 19;
    /// `u64`, ns: how late the machine's timers and softirqs may be; floors what tokens may wait.
    /// 0: no floors.
    pub const JITTER: u16 = 20;
    /// `u32`, parts per billion of the link: what signals may take before others; more of them are
    /// data. [`super::SIGNAL_SHARE_OFF`].
    pub const SIGNAL_SHARE: u16 = 21;
    /// `u32`: [`super::TOKEN_DROP_FAIR`] or [`super::TOKEN_DROP_LAST`].
    pub const TOKEN_DROP: u16 = 22;
    /// `u32`, a bit for each priority: those whose pauses (PFC) hold up data; [`super::PFC_OFF`],
    /// [`super::PFC_PAUSE`].
    pub const PFC_DATA: u16 = 23;
    /// `u64`, ns: how long a pause may last until data is dropped. Only with [`PFC_DATA`].
    pub const PFC_WATCHDOG: u16 = 24;
    /// `u32`, bytes: with as many or more of data waiting the port is congested, for TCD's marker;
    /// [`super::TCD_OFF`].
    pub const TCD_THRESHOLD: u16 = 25;
    /// `u64`, ns: how long the port sends without a pause until TCD's marker takes it for no longer
    /// undetermined; [`super::TCD_MAX_ON_AUTO`], [`super::TCD_MAX_ON_OFF`]. Only with
    /// [`TCD_THRESHOLD`].
    pub const TCD_MAX_ON: u16 = 26;
    /// `u32`, bytes on the wire: how much all ports hold of what came in by the device, until it is
    /// paused; [`super::PFC_XOFF_OFF`], [`super::PFC_AUTO`]. Only with [`PFC_DATA`].
    pub const PFC_XOFF: u16 = 27;
    /// `u32`, bytes on the wire: with no more held such a pause ends; [`super::PFC_AUTO`]. This and
    /// what follows only with [`PFC_XOFF`].
    pub const PFC_XON: u16 = 28;
    /// `u32`, bytes on the wire: room for what comes after a pause was decided;
    /// [`super::PFC_AUTO`].
    pub const PFC_HEADROOM: u16 = 29;
    /// `u64`, ns: how long a bit takes to the other end of the link.
    pub const PFC_DELAY: u16 = 30;
    /// `u64`, ns: how long a super-packet may hold the link, with [`super::SPLIT_GSO_AUTO`];
    /// [`super::GSO_HOLD_AUTO`].
    pub const GSO_HOLD: u16 = 31;
    /// `u32`, in 1/256: how much of what is free in [`PFC_BUFFER`] may be held until the other end
    /// is paused; [`super::PFC_ALPHA_OFF`].
    pub const PFC_ALPHA: u16 = 32;
    /// `u32`, bytes on the wire: what all ports of the namespace with [`PFC_ALPHA`] share. Only
    /// with that.
    pub const PFC_BUFFER: u16 = 33;
    /// The highest attribute number in use.
    pub const MAX: u16 = 33;
}

/// [`option::SPLIT_GSO`]: super-packets stay whole.
pub const SPLIT_GSO_NO: u32 = 0;
/// [`option::SPLIT_GSO`]: into wire packets.
pub const SPLIT_GSO_ALL: u32 = 1;
/// [`option::SPLIT_GSO`]: into pieces that hold the link for no longer than [`option::GSO_HOLD`].
pub const SPLIT_GSO_AUTO: u32 = 2;
/// [`option::GSO_HOLD`]: as long as [`option::JITTER`].
pub const GSO_HOLD_AUTO: u64 = u64::MAX;

/// [`option::PFC_DATA`]: the port obeys no pauses.
pub const PFC_OFF: u32 = 0;
/// [`option::PFC_DATA`]: pauses of the whole link (802.3x), and none of priorities.
pub const PFC_PAUSE: u32 = 256;
/// [`option::PFC_ALPHA`]: `xoff` is a number of bytes.
pub const PFC_ALPHA_OFF: u32 = 0;
/// [`option::PFC_XOFF`]: nobody is paused.
pub const PFC_XOFF_OFF: u32 = 0;
/// [`option::PFC_XOFF`], [`option::PFC_XON`] and [`option::PFC_HEADROOM`]: worked out from the
/// link.
pub const PFC_AUTO: u32 = u32::MAX;
/// [`option::TCD_THRESHOLD`]: no TCD marker.
pub const TCD_OFF: u32 = 0;
/// [`option::TCD_MAX_ON`]: by the ON-OFF model.
pub const TCD_MAX_ON_AUTO: u64 = 0;
/// [`option::TCD_MAX_ON`]: no notice is taken of pauses.
pub const TCD_MAX_ON_OFF: u64 = u64::MAX;

/// [`band_stat::TCD_STATE`]: not congested.
pub const TCD_NOT_CONGESTED: u64 = 0;
/// [`band_stat::TCD_STATE`]: congested.
pub const TCD_CONGESTED: u64 = 1;
/// [`band_stat::TCD_STATE`]: undetermined.
pub const TCD_UNDETERMINED: u64 = 2;

/// [`option::PHANTOM_SHARE`]: no phantom queue.
pub const PHANTOM_OFF: u32 = 0;

/// [`port_stat::GSO_WHOLE`]: however long.
pub const GSO_WHOLE_ALL: u64 = u32::MAX as u64;

/// [`option::SIGNAL_SHARE`]: all signals go first.
pub const SIGNAL_SHARE_OFF: u32 = 0;

/// [`option::REN_PERIOD`]: no REN marker.
pub const REN_OFF: u64 = 0;

/// [`option::TOKEN_EXPIRY`]: tokens never expire.
pub const EXPIRY_OFF: u64 = 0;
/// [`option::TOKEN_EXPIRY`]: eight pacing intervals, or full frames with their tokens if that is
/// longer (TOP section 3.1, R2).
pub const EXPIRY_AUTO: u64 = u64::MAX;

/// [`option::ORDER`]: signal, tokens, data, unscheduled (TOP fig. 3b).
pub const ORDER_TOKENS_FIRST: u32 = 0;
/// [`option::ORDER`]: signal, data, tokens, unscheduled (TOP fig. 3a).
pub const ORDER_DATA_FIRST: u32 = 1;

/// [`option::TOKEN_DROP`]: a full token queue drops one of the flow that has most.
pub const TOKEN_DROP_FAIR: u32 = 0;
/// [`option::TOKEN_DROP`]: a full token queue drops the one that arrives.
pub const TOKEN_DROP_LAST: u32 = 1;

/// Attributes inside `TCA_XSTATS` of the qdisc. All are `u64`.
pub mod port_stat {
    /// Padding for 64-bit attributes; carries nothing.
    pub const PAD: u16 = 1;
    /// bytes/s: the link rate in force, set or reported by the device. 0: unresolved, the device
    /// has reported none yet.
    pub const LINK_RATE64: u16 = 2;
    /// bytes/s, rounded down: the token group's rate in force. 0: tokens are not paced, since the
    /// link is unresolved.
    pub const TOKEN_RATE64: u16 = 3;
    /// ns: the token expiry in force; 0: off, or what `auto` comes to while the link is unresolved.
    pub const TOKEN_EXPIRY: u16 = 4;
    /// Times a dequeue found packets but the link still busy with the one before.
    pub const LINK_WAITS: u16 = 5;
    /// Times a dequeue found tokens, and nothing else to send, before the group's next release.
    pub const TOKEN_WAITS: u16 = 6;
    /// Packets that a filter's action dropped.
    pub const FILTER_DROPS: u16 = 7;
    /// Packets whose filter named a class that the port does not have; the other rules placed them.
    pub const FILTER_MISSES: u16 = 8;
    /// GSO super-packets split, into wire packets or into pieces.
    pub const GSO_SPLITS: u16 = 9;
    /// GSO super-packets dropped because they could not be split.
    pub const GSO_DROPS: u16 = 10;
    /// Packets: the cap of each token queue in force.
    pub const TOKEN_LIMIT: u16 = 11;
    /// ns: the slack in force, the lateness that the token group makes up for.
    pub const TOKEN_SLACK: u16 = 12;
    /// Times the token group was served later than its slack, and did not make up for all of it.
    pub const SLACK_FORFEITS: u16 = 13;
    /// ns: the lateness beyond the slack, in all.
    pub const SLACK_FORFEITED: u16 = 14;
    /// Packets: signals beyond their share of the link, which went to the data class and count
    /// there.
    pub const SIGNAL_EXCESS: u16 = 15;
    /// ns: the `max-on` of TCD's marker in force. 0: there is no such marker, it takes no notice of
    /// pauses, or what auto comes to is not known while the link is unresolved.
    pub const TCD_MAX_ON: u16 = 16;
    /// Pieces that GSO super-packets were cut into where that was not into wire packets.
    pub const GSO_PIECES: u16 = 17;
    /// Bytes on the wire: super-packets of data that are no longer stay whole, pieces of longer
    /// ones are no longer. 0: all are split into wire packets. [`super::GSO_WHOLE_ALL`].
    pub const GSO_WHOLE: u16 = 18;
    /// The highest attribute number in use.
    pub const MAX: u16 = 18;
}

/// Attributes inside `TCA_XSTATS` of a class. All are `u64`.
///
/// Packets are wire packets: a GSO super-packet counts as the segments it stands for. At any time
/// `OFFERED = sent (TCA_STATS_BASIC) + queued + every drop below`.
///
/// The numbers continue well above [`port_stat`]'s: whoever prints `TCA_XSTATS` (tc hands it to
/// its plugin without saying whose it is) can tell the two apart.
pub mod band_stat {
    /// Padding for 64-bit attributes; carries nothing.
    pub const PAD: u16 = 1;
    /// Packets that classification gave to this class.
    pub const OFFERED_PACKETS: u16 = 32;
    /// Bytes of these packets.
    pub const OFFERED_BYTES: u16 = 33;
    /// Dropped on arrival: the queue was at its cap, or the headroom of who sent it was full
    /// ([`PFC_NO_HEADROOM`]).
    pub const OVER_LIMIT: u16 = 34;
    /// Tokens dropped because they waited longer than the expiry.
    pub const EXPIRED: u16 = 35;
    /// Dropped by a `change` that lowered the cap or removed the class.
    pub const TRIMMED: u16 = 36;
    /// Dropped with the whole queue: device down, qdisc reset.
    pub const PURGED: u16 = 37;
    /// Dropped by the child qdisc (data class only), on arrival or later.
    pub const CHILD: u16 = 38;
    /// Packets now queued.
    pub const QUEUED: u16 = 39;
    /// The most packets ever queued at once.
    pub const MAX_PACKETS: u16 = 40;
    /// The most bytes ever queued at once.
    pub const MAX_BYTES: u16 = 41;
    /// ns: mean time between arrival and release, over all packets sent from the port's own queue.
    pub const SOJOURN_MEAN: u16 = 42;
    /// ns: the longest such time.
    pub const SOJOURN_MAX: u16 = 43;
    /// Packets that passed the phantom queue. Only the data class has this and what follows, and
    /// only if it has or had the marker.
    pub const PHANTOM_SEEN: u16 = 44;
    /// Of these, packets that may be marked: ECT(0) or ECT(1), not of a REN flow.
    pub const PHANTOM_MARKABLE: u16 = 45;
    /// Of these, packets that were marked CE.
    pub const PHANTOM_MARKED: u16 = 46;
    /// Bytes now in the phantom queue.
    pub const PHANTOM_BACKLOG: u16 = 47;
    /// The most bytes ever in the phantom queue since it was turned on.
    pub const PHANTOM_MAX: u16 = 48;
    /// Packets that went unmarked because their header could not be written to, for lack of memory.
    pub const UNWRITABLE: u16 = 49;
    /// Packets of REN flows that passed REN's marker.
    pub const REN_SEEN: u16 = 50;
    /// Of these, packets that were left under-utilized.
    pub const REN_UNDER: u16 = 51;
    /// Packets that were raised to fully utilized.
    pub const REN_FULL: u16 = 52;
    /// Packets that were raised to over-utilized.
    pub const REN_OVER: u16 = 53;
    /// Packets that came with the mark that they would have got, or a higher one.
    pub const REN_KEPT: u16 = 54;
    /// Sampling periods in which packets left.
    pub const REN_PERIODS: u16 = 55;
    /// Packets that the watchdog of priority flow control dropped. Only the data class has this and
    /// what follows, and only while it obeys pauses, or if such packets were dropped.
    pub const STORMED: u16 = 56;
    /// Frames that paused data, or refreshed its pause.
    pub const PFC_PAUSED: u16 = 57;
    /// Frames that said that data may go.
    pub const PFC_RESUMED: u16 = 58;
    /// Pauses of data: frames that refresh one another are one.
    pub const PFC_PAUSES: u16 = 59;
    /// ns: how long data was paused.
    pub const PFC_TIME: u16 = 60;
    /// ns: the longest pause.
    pub const PFC_LONGEST: u16 = 61;
    /// Pauses that were longer than the watchdog lets them be.
    pub const PFC_STORMS: u16 = 62;
    /// MAC control frames that said nothing: spoofed, malformed, or of another kind.
    pub const PFC_REFUSED: u16 = 63;
    /// TCD's state now: [`super::TCD_NOT_CONGESTED`], [`super::TCD_CONGESTED`] or
    /// [`super::TCD_UNDETERMINED`]. Only the data class has this, and only while it has the marker;
    /// what follows stays when that is turned off.
    pub const TCD_STATE: u16 = 64;
    /// Packets that may be marked, and passed TCD's marker.
    pub const TCD_SEEN: u16 = 65;
    /// Of these, packets that left while the port was not congested.
    pub const TCD_UNMARKED: u16 = 66;
    /// Packets that were marked CE.
    pub const TCD_CE: u16 = 67;
    /// Packets that were marked UE.
    pub const TCD_UE: u16 = 68;
    /// Packets that came with the mark that they would have got, or with CE.
    pub const TCD_KEPT: u16 = 69;
    /// How often the port became congested.
    pub const TCD_CONGESTIONS: u16 = 70;
    /// How often the port became undetermined.
    pub const TCD_PAUSES: u16 = 71;
    /// ns: how long the port was not congested.
    pub const TCD_TIME_NOT_CONGESTED: u16 = 72;
    /// ns: how long the port was congested.
    pub const TCD_TIME_CONGESTED: u16 = 73;
    /// ns: how long the port was undetermined.
    pub const TCD_TIME_UNDETERMINED: u16 = 74;
    /// bytes on the wire: how much all ports may hold of what came in by the device until it is
    /// paused, as is in force. Only the data class has this and what follows, and only while the
    /// port pauses others. It and the next two are 0 while the link's speed is not known.
    pub const PFC_XOFF: u16 = 75;
    /// bytes on the wire: with no more held the pause ends, as is in force.
    pub const PFC_XON: u16 = 76;
    /// bytes on the wire: room for what comes after a pause was decided, as is in force.
    pub const PFC_HEADROOM: u16 = 77;
    /// bytes on the wire: of what came in by the device, what waits in all ports now.
    pub const PFC_HELD: u16 = 78;
    /// bytes on the wire: the most that ever waited.
    pub const PFC_MOST: u16 = 79;
    /// bytes on the wire: the most that was ever in the headroom.
    pub const PFC_MOST_HEADROOM: u16 = 80;
    /// Packets that came in by the device and were dropped, since the headroom was full. They count
    /// as [`OVER_LIMIT`] where they were to leave.
    pub const PFC_NO_HEADROOM: u16 = 81;
    /// Pause frames that left by the device, ends of pauses included.
    pub const PFC_SENT: u16 = 82;
    /// Pauses that the other end was asked for.
    pub const PFC_ASKED: u16 = 83;
    /// Of these, pauses that were ended.
    pub const PFC_ENDED: u16 = 84;
    /// How often a pause was asked for again, before it ended by itself.
    pub const PFC_REFRESHED: u16 = 85;
    /// ns: how long the other end was to be silent.
    pub const PFC_ASKED_TIME: u16 = 86;
    /// ns: the longest such pause.
    pub const PFC_ASKED_LONGEST: u16 = 87;
    /// Eight `u64`, one for each priority from 0 on: frames that paused it, or refreshed its pause.
    /// This and what follows only while data has priorities; of those that are not data's nothing
    /// is counted.
    pub const PFC_PRIORITY_PAUSED: u16 = 88;
    /// ns, eight `u64`: how long each priority was paused.
    pub const PFC_PRIORITY_TIME: u16 = 89;
    /// ns, eight `u64`: the longest pause of each priority.
    pub const PFC_PRIORITY_LONGEST: u16 = 90;
    /// The highest attribute number in use.
    pub const MAX: u16 = 90;
}

/// Attribute inside `TCA_OPTIONS` of a class dump: `u32`, the band's minor again (see [`class`]).
///
/// tc hands `TCA_OPTIONS` to its plugin without the class id, so the plugin learns the band's name
/// here.
pub const CLASS_BAND: u16 = 2;

/// Minor numbers of the classes: `1:1` is the signal class of the port `1:`.
///
/// The same numbers fill [`option::DSCP_MAP`].
pub mod class {
    /// Signals.
    pub const SIGNAL: u8 = 0x1;
    /// Data.
    pub const DATA: u8 = 0x2;
    /// Unscheduled packets.
    pub const UNSCHEDULED: u8 = 0x3;
    /// Token priority 0, the highest; priority p is `TOKENS + p` (tc prints minors in hex: `1:10`
    /// to `1:17`).
    pub const TOKENS: u8 = 0x10;
}
