// SPDX-License-Identifier: GPL-2.0
//! Numbers of the host pacer, qdisc kind `turnstile_pacer`.

/// The qdisc kind, as in `tc qdisc add dev eth0 root turnstile_pacer`.
pub const KIND: &str = "turnstile_pacer";

/// Attributes inside `TCA_OPTIONS` of the qdisc (`tc qdisc add|replace|change`, and its dump).
pub mod option {
    /// Padding for 64-bit attributes; carries nothing.
    pub const PAD: u16 = 1;
    /// `u64`, ns: the rate follows the traffic once in this time (HULL's T_r).
    pub const INTERVAL: u16 = 2;
    /// `u32`, parts per billion: the weight of the newest sample (HULL's eta).
    pub const ETA: u16 = 3;
    /// `u32`, 1/s: how much the backlog adds to the rate (HULL's beta).
    pub const BETA: u16 = 4;
    /// `u32`, parts per billion: probability that an acknowledgement with ECN-Echo associates its
    /// flow (HULL's p_a).
    pub const ASSOCIATE: u16 = 5;
    /// `u64`, ns: a flow that sends nothing for this long is paced no more (HULL's T_i).
    pub const IDLE: u16 = 6;
    /// `u32`: the most flows that are paced at a time.
    pub const FLOWS: u16 = 7;
    /// `u32`, bytes: what the token bucket holds.
    pub const BUCKET: u16 = 8;
    /// `u32`, bytes: cap of what waits for tokens.
    pub const LIMIT: u16 = 9;
    /// `u32`, bytes: cap of what passes by, where the device does not take it at once.
    pub const PASS_LIMIT: u16 = 10;
    /// `u64`, bytes/s: the bucket's rate to begin with. 0: the speed that the device reports.
    pub const INITIAL_RATE64: u16 = 11;
    /// `u32`, 0 or 1: split GSO super-packets of paced flows into wire packets.
    pub const SPLIT_GSO: u16 = 12;
    /// `u32`, bytes added to each packet for what the wire carries beside it.
    pub const OVERHEAD: u16 = 13;
    /// `u32`, bytes: the least that a packet occupies on the wire, overhead included.
    pub const MPU: u16 = 14;
    /// The highest attribute number in use.
    pub const MAX: u16 = 14;
}

/// Attributes inside `TCA_XSTATS` of the qdisc. All are `u64`.
///
/// Packets are wire packets: a GSO super-packet counts as the segments it stands for. At any time,
/// of either kind, `OFFERED = SENT + QUEUED + OVER_LIMIT + LOST`.
pub mod stat {
    /// Padding for 64-bit attributes; carries nothing.
    pub const PAD: u16 = 1;
    /// bytes/s, rounded down: the token bucket's rate now.
    pub const RATE64: u16 = 2;
    /// How often the rate was worked out anew.
    pub const UPDATES: u16 = 3;
    /// Flows that are associated now.
    pub const FLOWS: u16 = 4;
    /// The most flows that were associated at once.
    pub const MAX_FLOWS: u16 = 5;
    /// Acknowledgements with ECN-Echo that were seen.
    pub const ECHOES: u16 = 6;
    /// Flows that such an acknowledgement associated.
    pub const ASSOCIATED: u16 = 7;
    /// Flows that were to be associated when the table was full.
    pub const TABLE_FULL: u16 = 8;
    /// Associations that ended because the flow was idle.
    pub const AGED: u16 = 9;
    /// Packets that passed by the bucket: offered.
    pub const PASS_OFFERED: u16 = 10;
    /// Packets that passed by: sent.
    pub const PASS_SENT: u16 = 11;
    /// Packets that pass by: now queued.
    pub const PASS_QUEUED: u16 = 12;
    /// Packets that were to pass by, and were dropped because their queue was at its cap.
    pub const PASS_OVER_LIMIT: u16 = 13;
    /// Packets that were to pass by, and were dropped otherwise: by a change, a reset, or a child
    /// qdisc.
    pub const PASS_LOST: u16 = 14;
    /// Packets for the bucket: offered.
    pub const PACED_OFFERED: u16 = 15;
    /// Packets for the bucket: sent.
    pub const PACED_SENT: u16 = 16;
    /// Packets that wait for tokens now.
    pub const PACED_QUEUED: u16 = 17;
    /// Packets for the bucket, dropped because the queue was at its cap.
    pub const PACED_OVER_LIMIT: u16 = 18;
    /// Packets for the bucket, dropped otherwise: by a change or a reset.
    pub const PACED_LOST: u16 = 19;
    /// Bytes on the wire of what waits for tokens now: eq. 4's Q_tb.
    pub const BACKLOG: u16 = 20;
    /// The most bytes that waited for tokens at once, as tc counts them.
    pub const MAX_BACKLOG: u16 = 21;
    /// ns: mean time that packets waited for tokens, over all that were sent.
    pub const DELAY_MEAN: u16 = 22;
    /// ns: the longest such time.
    pub const DELAY_MAX: u16 = 23;
    /// Times a dequeue found packets, but not the tokens for them.
    pub const WAITS: u16 = 24;
    /// Packets that a filter's action dropped.
    pub const FILTER_DROPS: u16 = 25;
    /// Packets whose filter named a class that the pacer does not have.
    pub const FILTER_MISSES: u16 = 26;
    /// GSO super-packets split into wire packets.
    pub const GSO_SPLITS: u16 = 27;
    /// The highest attribute number in use.
    pub const MAX: u16 = 27;
}

/// Minor numbers of the classes: `1:1` is what passes by the pacer `1:`.
pub mod class {
    /// What passes by. Takes a child qdisc.
    pub const PASS: u16 = 1;
    /// What waits for tokens.
    pub const PACED: u16 = 2;
}
