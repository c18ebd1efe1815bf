// SPDX-License-Identifier: GPL-2.0
//! The transport's numbers: sockets and generic netlink.
//!
//! `docs/sockets.md` and `docs/netlink/turnstile.yaml` describe them for other programs.

/// The protocol number for `socket(2)`: `socket(AF_INET, SOCK_RDM, 259)`. Not a number of IANA's;
/// nothing on the wire has it.
pub const IPPROTO_TURNSTILE: u16 = 259;
/// Level of socket options and ancillary data: the UDP port's number, which no other level has.
pub const SOL_TURNSTILE: u32 = 29813;

/// Options of level [`SOL_TURNSTILE`]. They are `int` unless they say otherwise.
pub mod sockopt {
    /// 1 or 2: each `recvmsg` carries [`super::ancillary::INFO`], and long messages are read while
    /// they come; 2: pieces of several messages may alternate.
    pub const RECVINFO: u32 = 1;
    /// 0 or 1: each delivered message is reported on the error queue.
    pub const COMPLETIONS: u32 = 2;
    /// -1..7: priority of the socket's messages; -1: as the receiver's policy says.
    pub const DEFAULT_PRIORITY: u32 = 3;
    /// `u64`, only written: reads are of the message of this number until it ends; `u64::MAX`: of
    /// any.
    pub const READ: u32 = 4;
    /// `u64`, only written: the message of this number is thrown away.
    pub const DISCARD: u32 = 5;
    /// `int`: the socket's messages are sealed with the key of this serial number, both ways; 0: as
    /// the namespace's are; -1: they are not sealed.
    pub const KEY: u32 = 6;
    /// `int`: another key that messages to the socket may come with, if it has one of its own; 0:
    /// none.
    pub const ACCEPT_KEY: u32 = 7;
    /// `u32`, only read: the number that the socket's next message will have.
    pub const NUMBER: u32 = 8;
    /// `int`, only read. 1: a message is open on the socket, and the next call goes on with it.
    pub const OPEN: u32 = 9;
}

/// Ancillary data of level [`SOL_TURNSTILE`].
pub mod ancillary {
    /// `u64`, bytes: the length of the message that this call begins, of which it may hold only a
    /// part.
    pub const LENGTH: u32 = 1;
    /// `u64`, ns from now: when the message should be there.
    pub const DEADLINE: u32 = 2;
    /// `u32`, not 0: the coflow that the message belongs to.
    pub const COFLOW: u32 = 3;
    /// `u32`, 0..7: the priority of the message's tokens, whatever the policy says.
    pub const PRIORITY: u32 = 4;
    /// `u32`, 0 or 1: the receiver is not told the length before the end.
    pub const UNKNOWN_SIZE: u32 = 5;
    /// On `recvmsg`: [`INFO_LEN`] bytes, four `u64`: the message's number on the socket, its length
    /// (`u64::MAX`: not known yet), the offset of what was read, and ns since its first packet
    /// came.
    pub const INFO: u32 = 6;
    /// The length of [`INFO`].
    pub const INFO_LEN: usize = 32;
}

/// `ee_origin` of the messages' ends on the error queue (`struct sock_extended_err`).
pub const EE_ORIGIN: u8 = 8;
/// `ee_type`: the message was delivered; `ee_info` is the time it took in us.
pub const EE_DELIVERED: u8 = 1;
/// `ee_type`: the message failed; `ee_errno` says why.
pub const EE_FAILED: u8 = 2;
/// `ee_type`: there was no room for `ee_info` reports; `ee_data` of them were of failures, the last
/// of them with `ee_errno`.
pub const EE_LOST: u8 = 3;

/// The generic netlink family.
pub const FAMILY: &str = "turnstile";
/// The family's version.
pub const FAMILY_VERSION: u8 = 1;
/// The multicast group of [`command::EVENT`].
pub const GROUP_EVENTS: &str = "events";

/// Commands of the family.
pub mod command {
    /// Reads the configuration.
    pub const TRANSPORT_GET: u8 = 1;
    /// Changes what is given of the configuration; needs `CAP_NET_ADMIN` in the network namespace.
    pub const TRANSPORT_SET: u8 = 2;
    /// Dumps the messages under way.
    pub const MESSAGE_GET: u8 = 3;
    /// Dumps the peers of messages under way.
    pub const PEER_GET: u8 = 4;
    /// Reads the counters.
    pub const STATS_GET: u8 = 5;
    /// Multicast to [`super::GROUP_EVENTS`].
    pub const EVENT: u8 = 6;
    /// Dumps the links that messages come in by, for each of which tokens are paced.
    pub const LINK_GET: u8 = 7;
}

/// Attributes of [`command::TRANSPORT_GET`] and [`command::TRANSPORT_SET`].
pub mod config {
    /// Padding for 64-bit attributes; carries nothing.
    pub const PAD: u16 = 1;
    /// `u32`: [`super::POLICY_EXPRESSPASS`], …
    pub const POLICY: u16 = 2;
    /// `u64`, bytes/s: the speed of each device's link, which tokens are for; 0: what the device
    /// reports; those that report none share one as fast as the fastest device that is up, 10
    /// Gbit/s if none reports any.
    pub const LINK_RATE64: u16 = 3;
    /// `u32`, parts per billion of the link: the rate of all tokens together.
    pub const TOKEN_SHARE: u16 = 4;
    /// `u32`: [`super::FEEDBACK_MIDPOINT`], …
    pub const FEEDBACK: u16 = 5;
    /// `u32`, parts per billion of the token rate: a message's rate at first.
    pub const INITIAL_RATE: u16 = 6;
    /// `u32`, parts per billion of the token rate: a message's rate is never lower.
    pub const MIN_RATE: u16 = 7;
    /// `u32`, parts per billion: the credit loss that the feedback aims at.
    pub const TARGET_LOSS: u16 = 8;
    /// `u32`, parts per billion: w at first (`weighted`).
    pub const WEIGHT_INITIAL: u16 = 9;
    /// `u32`, parts per billion: the least w.
    pub const WEIGHT_MIN: u16 = 10;
    /// `u32`, parts per billion: the greatest w.
    pub const WEIGHT_MAX: u16 = 11;
    /// `u32`, parts per billion of the interval between a message's tokens: how far it is varied.
    pub const JITTER: u16 = 12;
    /// `u64`, ns between updates of the rate; 0: the message's round-trip time.
    pub const UPDATE_PERIOD: u16 = 13;
    /// `u64`, ns: the round-trip time before one was measured; also how much REN sends at first.
    pub const BASE_RTT: u16 = 14;
    /// `u64`, ns: a token that took longer to come sends nothing; 0: off.
    pub const TOKEN_EXPIRY: u16 = 15;
    /// `u32`: [`super::CLOCK_REALTIME`], …
    pub const CLOCK: u16 = 16;
    /// `u32`: number of token priorities, K.
    pub const PRIORITIES: u16 = 17;
    /// `u32`, packets: p of TOP's priority function.
    pub const PRIORITY_PACKETS: u16 = 18;
    /// `u32`, thousandths: a of TOP's priority function.
    pub const PRIORITY_A: u16 = 19;
    /// `u32`, thousandths of a packet: b of TOP's priority function.
    pub const PRIORITY_B: u16 = 20;
    /// `u32`: [`super::SCHEDULE_SRPT`], …
    pub const SCHEDULE: u16 = 21;
    /// `u32`, packets: m of TOP section 4.4; 0: none are sent; [`super::UNSCHEDULED_AUTO`].
    pub const UNSCHEDULED: u16 = 22;
    /// `u32`: messages that may come in at once.
    pub const MAX_INCOMING: u16 = 23;
    /// `u32`: messages that may go out at once.
    pub const MAX_OUTGOING: u16 = 24;
    /// `u32`: messages that may come in from one address at once.
    pub const MAX_PER_PEER: u16 = 25;
    /// `u32`: messages of which nothing has come but the SYNC.
    pub const MAX_HALF_OPEN: u16 = 26;
    /// `u32`: finished messages that are remembered.
    pub const MAX_REMEMBERED: u16 = 27;
    /// `u64`, ns: how long a peer may be silent.
    pub const TIMEOUT: u16 = 28;
    /// `u64`, ns: after it a SYNC is repeated for the first time.
    pub const RTO: u16 = 29;
    /// `u32`, bytes: a socket's send buffer at first.
    pub const SEND_BUFFER: u16 = 30;
    /// `u32`, bytes: a socket's receive buffer at first.
    pub const RECEIVE_BUFFER: u16 = 31;
    /// `u32`, 0..63: DSCP of signals.
    pub const DSCP_SIGNAL: u16 = 32;
    /// `u32`, 0..63: DSCP of tokens.
    pub const DSCP_TOKEN: u16 = 33;
    /// `u32`, 0..63: DSCP of data.
    pub const DSCP_DATA: u16 = 34;
    /// `u32`, 0..63: DSCP of unscheduled data.
    pub const DSCP_UNSCHEDULED: u16 = 35;
    /// `u32`, 0..64: a message with all of the token rate aims at a loss so many times and once
    /// more smaller (`weighted`).
    pub const FAIRNESS: u16 = 36;
    /// `u64`, bytes/s, only read: the link rate in force.
    pub const LINK_IN_FORCE: u16 = 37;
    /// `u32`: [`super::SENDER_PRIORITY_IGNORE`], …
    pub const SENDER_PRIORITY: u16 = 38;
    /// `u32`: messages under way whose socket was closed.
    pub const MAX_ORPHANS: u16 = 39;
    /// `u32`, bytes of these together that are not acknowledged.
    pub const ORPHAN_BUFFER: u16 = 40;
    /// `u32`: [`super::SECURITY_OFF`], …
    pub const SECURITY: u16 = 41;
    /// `u32`, serial number of a key of type `logon`: what messages are sealed with; 0: none.
    pub const KEY: u16 = 42;
    /// `u32`, the same: another key that messages may come with.
    pub const ACCEPT_KEY: u16 = 43;
    /// `u32`, the same: one more.
    pub const ACCEPT_KEY_2: u16 = 44;
    /// `u32`, bytes: how large a socket's receive buffer becomes.
    pub const RECEIVE_BUFFER_MAX: u16 = 45;
    /// `u32`, bytes: by how much the receive buffers of all sockets may have grown.
    pub const RECEIVE_MEMORY: u16 = 46;
    /// `u32`, bytes: what all senders together may have under way to a host without tokens.
    pub const UNSCHEDULED_BUFFER: u16 = 47;
    /// `u32`: [`super::TCD_OFF`] or [`super::TCD_ON`].
    pub const TCD: u16 = 48;
    /// `u64`, bytes/s: a message that its sender paces is never slower.
    pub const MINIMUM_RATE64: u16 = 49;
    /// `u64`, ns: between two notifications of marks of a message.
    pub const CNP_INTERVAL: u16 = 50;
    /// `u32`, parts per billion: DCQCN's g.
    pub const DCQCN_G: u16 = 51;
    /// `u64`, ns: DCQCN's K.
    pub const DCQCN_ALPHA_TIMER: u16 = 52;
    /// `u64`, ns: DCQCN's T.
    pub const DCQCN_TIMER: u16 = 53;
    /// `u64`, bytes: DCQCN's B.
    pub const DCQCN_BYTE_COUNTER: u16 = 54;
    /// `u32`: DCQCN's F.
    pub const DCQCN_RECOVERY_STEPS: u16 = 55;
    /// `u64`, bytes/s: DCQCN's R_AI.
    pub const DCQCN_ADDITIVE64: u16 = 56;
    /// `u64`, bytes/s: DCQCN's R_HAI.
    pub const DCQCN_HYPER64: u16 = 57;
    /// `u32`, thousandths: how much harder DCQCN cuts with TCD.
    pub const DCQCN_TCD_CUT: u16 = 58;
    /// `u64`, ns: TIMELY's T_low.
    pub const TIMELY_LOW: u16 = 59;
    /// `u64`, ns: TIMELY's T_high.
    pub const TIMELY_HIGH: u16 = 60;
    /// `u64`, ns: TIMELY's minRTT, which scales the gradient.
    pub const TIMELY_MIN_RTT: u16 = 61;
    /// `u32`, thousandths: TIMELY's alpha, the weight of the newest difference.
    pub const TIMELY_WEIGHT: u16 = 62;
    /// `u32`, thousandths: TIMELY's beta.
    pub const TIMELY_BETA: u16 = 63;
    /// `u64`, bytes/s: TIMELY's delta.
    pub const TIMELY_ADDITIVE64: u16 = 64;
    /// `u32`, segments: TIMELY's HAI begins with so many in a row.
    pub const TIMELY_HYPER_AFTER: u16 = 65;
    /// `u32`: TIMELY's N in HAI.
    pub const TIMELY_HYPER_FACTOR: u16 = 66;
    /// `u32`, thousandths: TIMELY's beta with TCD.
    pub const TIMELY_TCD_BETA: u16 = 67;
    /// `u32`, thousandths: the most that TIMELY's rate falls by at once.
    pub const TIMELY_MAX_CUT: u16 = 68;
    /// `u32`: how many packets a token is for at most; 0: as many as suits the link.
    pub const WORTH: u16 = 69;
    /// The highest attribute number in use.
    pub const MAX: u16 = 69;
}

/// [`config::UNSCHEDULED`]: as much of each message as its receiver allows.
pub const UNSCHEDULED_AUTO: u32 = u32::MAX;
/// [`config::POLICY`]: ExpressPass. One priority, all messages alike.
pub const POLICY_EXPRESSPASS: u32 = 0;
/// [`config::POLICY`]: TOP. Tokens have priorities; [`config::SCHEDULE`] says which messages come
/// first.
pub const POLICY_TOP: u32 = 1;
/// [`config::POLICY`]: REN. A grant for each data packet.
pub const POLICY_REN: u32 = 2;
/// [`config::POLICY`]: DCQCN. Senders pace what they send; receivers notify them of marks.
pub const POLICY_DCQCN: u32 = 3;
/// [`config::POLICY`]: TIMELY. Senders pace what they send, by their round-trip times.
pub const POLICY_TIMELY: u32 = 4;

/// [`config::TCD`]: ports mark congestion, if anything.
pub const TCD_OFF: u32 = 0;
/// [`config::TCD`]: ports also mark that they cannot tell.
pub const TCD_ON: u32 = 1;

/// [`config::FEEDBACK`]: ExpressPass, algorithm 1: to the middle between the rate and the greatest
/// one, or down to what came.
pub const FEEDBACK_MIDPOINT: u32 = 0;
/// [`config::FEEDBACK`]: with a weight w and a target loss.
pub const FEEDBACK_WEIGHTED: u32 = 1;
/// The same: with a weight, and by turns with those whose tokens go first.
pub const FEEDBACK_RANKED: u32 = 2;
/// The same: [`FEEDBACK_RANKED`] with [`POLICY_TOP`], otherwise [`FEEDBACK_WEIGHTED`].
pub const FEEDBACK_AUTO: u32 = 3;

/// [`config::SENDER_PRIORITY`]: what a sender wishes has no effect.
pub const SENDER_PRIORITY_IGNORE: u32 = 0;
/// [`config::SENDER_PRIORITY`]: what a sender wishes is done.
pub const SENDER_PRIORITY_USE: u32 = 1;

/// [`config::SECURITY`]: messages are not sealed.
pub const SECURITY_OFF: u32 = 0;
/// [`config::SECURITY`]: messages are sealed with a key that both ends have.
pub const SECURITY_PSK: u32 = 1;

/// [`config::CLOCK`]: `CLOCK_REALTIME`.
pub const CLOCK_REALTIME: u32 = 0;
/// [`config::CLOCK`]: `CLOCK_TAI`, what PTP disciplines.
pub const CLOCK_TAI: u32 = 1;

/// [`config::SCHEDULE`]: shortest remaining first; messages of unknown size by what has come of
/// them.
pub const SCHEDULE_SRPT: u32 = 0;
/// [`config::SCHEDULE`]: least attained service first.
pub const SCHEDULE_LAS: u32 = 1;
/// [`config::SCHEDULE`]: earliest deadline first; messages without one after all that have one.
pub const SCHEDULE_EDF: u32 = 2;
/// [`config::SCHEDULE`]: the coflow with least remaining first.
pub const SCHEDULE_COFLOW: u32 = 3;

/// Attributes of a [`command::MESSAGE_GET`] dump and of [`command::EVENT`].
pub mod message {
    /// Padding for 64-bit attributes; carries nothing.
    pub const PAD: u16 = 1;
    /// `u32`: [`super::DIRECTION_IN`] or [`super::DIRECTION_OUT`].
    pub const DIRECTION: u16 = 2;
    /// 16 bytes: the peer's address; IPv4 as `::ffff:a.b.c.d`.
    pub const PEER: u16 = 3;
    /// `u16`: the local port.
    pub const LOCAL_PORT: u16 = 4;
    /// `u16`: the peer's port.
    pub const PEER_PORT: u16 = 5;
    /// `u64`: a number that no other message of the namespace has while the namespace lives. (The
    /// cookie is a secret.)
    pub const NUMBER: u16 = 6;
    /// `u64`, bytes: the length; absent while it is not known.
    pub const LENGTH: u16 = 7;
    /// `u64`, bytes: out: acknowledged; in: received.
    pub const RECEIVED: u16 = 8;
    /// `u64`, bytes: out: sent at least once; in: below which tokens may be given.
    pub const WINDOW: u16 = 9;
    /// `u32`: priority of its tokens.
    pub const PRIORITY: u16 = 10;
    /// `u64`, bytes/s: in: the rate of its tokens; out: of a message that is paced here, its own,
    /// on the wire; absent of others.
    pub const RATE64: u16 = 11;
    /// `u64`, ns: the smoothed round-trip time (in, and of what is paced here).
    pub const RTT: u16 = 12;
    /// `u64`: tokens sent (in), tokens that were valid (out).
    pub const TOKENS: u16 = 13;
    /// `u64`: tokens taken for lost (in), tokens that were not valid (out).
    pub const TOKENS_LOST: u16 = 14;
    /// `u64`: data packets received (in), sent (out).
    pub const PACKETS: u16 = 15;
    /// `u64`: data packets that came again (in), were sent again (out).
    pub const REPEATED: u16 = 16;
    /// `u64`, ns since the message began.
    pub const AGE: u16 = 17;
    /// `u32`: the coflow, if it has one.
    pub const COFLOW: u16 = 18;
    /// `u64`, ns from now until the deadline, if it has one; 0: over.
    pub const DEADLINE: u16 = 19;
    /// `u32`, of [`super::command::EVENT`]: [`super::EVENT_OPENED`], …
    pub const EVENT: u16 = 20;
    /// `u32`, of [`super::EVENT_FAILED`]: the errno.
    pub const ERROR: u16 = 21;
    /// `u32`, of [`super::EVENT_LIMITED`]: the number of the attribute of [`super::config`] that
    /// sets the limit; 0: memory.
    pub const LIMIT: u16 = 22;
    // (What a listener itself was too slow for is not counted: it gets ENOBUFS.)
    /// `u64`, of [`super::command::EVENT`]: how many events before this one could not be told, so
    /// many came at once; absent if none.
    pub const LOST: u16 = 23;
    /// The highest attribute number in use.
    pub const MAX: u16 = 23;
}

/// [`message::DIRECTION`]: comes in.
pub const DIRECTION_IN: u32 = 0;
/// [`message::DIRECTION`]: goes out.
pub const DIRECTION_OUT: u32 = 1;

/// [`message::EVENT`]: a message began.
pub const EVENT_OPENED: u32 = 0;
/// [`message::EVENT`]: a message was delivered.
pub const EVENT_DELIVERED: u32 = 1;
/// [`message::EVENT`]: a message failed.
pub const EVENT_FAILED: u32 = 2;
/// [`message::EVENT`]: the configuration was changed.
pub const EVENT_CONFIGURED: u32 = 3;
/// [`message::EVENT`]: a limit was met; at most one a second for each cause.
pub const EVENT_LIMITED: u32 = 4;

/// Attributes of a [`command::PEER_GET`] dump.
pub mod peer {
    /// Padding for 64-bit attributes; carries nothing.
    pub const PAD: u16 = 1;
    /// 16 bytes: the address; IPv4 as `::ffff:a.b.c.d`.
    pub const ADDRESS: u16 = 2;
    /// `u32`: messages that come in from it.
    pub const INCOMING: u16 = 3;
    /// `u32`: messages that go out to it.
    pub const OUTGOING: u16 = 4;
    /// `u64`, bytes that are missing of what comes in.
    pub const MISSING: u16 = 5;
    /// `u64`, bytes not acknowledged of what goes out.
    pub const UNACKNOWLEDGED: u16 = 6;
    /// `u64`, ns: the least round-trip time among its messages; absent if none was measured.
    pub const RTT: u16 = 7;
    /// The highest attribute number in use.
    pub const MAX: u16 = 7;
}

/// Attributes of a [`command::LINK_GET`] dump.
pub mod link {
    /// Padding for 64-bit attributes; carries nothing.
    pub const PAD: u16 = 1;
    /// `u32`: the device's index; absent: the link that devices without a speed share, or that of
    /// a device that is gone.
    pub const DEVICE: u16 = 2;
    /// `u64`, bytes/s: the link rate in force.
    pub const RATE: u16 = 3;
    /// `u64`, bytes/s: the rate of all tokens for it together, rounded down.
    pub const TOKEN_RATE: u16 = 4;
    /// `u32`: messages that come in by it.
    pub const INCOMING: u16 = 5;
    /// The highest attribute number in use.
    pub const MAX: u16 = 5;
}

/// Attributes of [`command::STATS_GET`]. All are `u64`; those of `transport::stats` are listed
/// there, from [`FIRST`](stat::FIRST) on, in its order.
pub mod stat {
    /// Padding for 64-bit attributes; carries nothing.
    pub const PAD: u16 = 1;
    /// The first counter.
    pub const FIRST: u16 = 2;
}
