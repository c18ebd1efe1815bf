// SPDX-License-Identifier: GPL-2.0
//! The transport's counters: messages, packets by type, and one for each cause of a loss or
//! refusal.

use super::wire::{Malformed, ResetCode};

/// Makes numbers, names and descriptions of the counters from one list.
macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $counter:ident = $name:literal,)+) => {
        /// A counter. Its attribute's number is [`FIRST`](crate::transport::uapi::stat::FIRST) more
        /// than its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Counter {
            $($(#[doc = $doc])+ $counter,)+
        }

        impl Counter {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$counter,)+];

            /// The name as it is shown: lower case, with underscores.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$counter => $name,)+
                }
            }

            /// What it counts.
            pub const fn doc(self) -> &'static str {
                match self {
                    $(Self::$counter => concat!($($doc),+),)+
                }
            }
        }

        const COUNTERS: usize = [$(Counter::$counter,)+].len();
    };
}

counters! {
    /// Messages that began to go out.
    OutOpened = "out_opened",
    /// Messages that were delivered and confirmed.
    OutDelivered = "out_delivered",
    /// Bytes of these.
    OutDeliveredBytes = "out_delivered_bytes",
    /// Messages going out that failed: the peer was silent, or took nothing, for too long.
    OutTimeout = "out_timeout",
    /// Messages going out that failed: nobody listened.
    OutRefused = "out_refused",
    /// Messages going out that failed: the receiver closed, or knew them no longer.
    OutReset = "out_reset",
    /// Messages going out that failed: the receiver takes none so long.
    OutTooLong = "out_too_long",
    /// Messages going out that failed: the peer saw or made a mistake.
    OutProtocol = "out_protocol",
    /// Messages going out that were given up here.
    OutAborted = "out_aborted",
    /// Times that there was no place for a message: its caller waits, or gets EAGAIN.
    OutLimit = "out_limit",
    /// Messages that were not begun: no memory.
    OutNoMemory = "out_no_memory",

    /// Messages that began to come in.
    InOpened = "in_opened",
    /// Messages that came in whole.
    InDelivered = "in_delivered",
    /// Bytes of these.
    InDeliveredBytes = "in_delivered_bytes",
    /// Messages coming in that failed: the peer was silent for the timeout.
    InTimeout = "in_timeout",
    /// Messages coming in that failed: the sender gave them up.
    InAborted = "in_aborted",
    /// Messages coming in that failed: what came contradicted itself, or the sender said so.
    InProtocol = "in_protocol",
    /// Messages coming in that were refused here when they had begun.
    InClosed = "in_closed",

    /// SYNCs sent, also repeated ones.
    SyncSent = "sync_sent",
    /// Of these: asking a receiver that is silent.
    ProbeSent = "probe_sent",
    /// Tokens sent, grants not counted.
    TokenSent = "token_sent",
    /// Grants sent.
    GrantSent = "grant_sent",
    /// DATA sent for a token or a grant.
    DataSent = "data_sent",
    /// DATA sent without a token.
    UnscheduledSent = "unscheduled_sent",
    /// Payload bytes of all DATA sent.
    DataSentBytes = "data_sent_bytes",
    /// DATA of all these that had been sent before.
    DataResent = "data_resent",
    /// RESENDs sent.
    ResendSent = "resend_sent",
    /// FINs sent, also repeated ones.
    FinSent = "fin_sent",
    /// ACKs sent, final ones too; one for several messages is one, what rides on data none.
    AckSent = "ack_sent",
    /// RESETs sent: nobody listens.
    ResetSentNoSocket = "reset_sent_no_socket",
    /// RESETs sent: given up by the sender.
    ResetSentAborted = "reset_sent_aborted",
    /// RESETs sent: closed by the receiver.
    ResetSentClosed = "reset_sent_closed",
    /// RESETs sent: no such message.
    ResetSentUnknown = "reset_sent_unknown",
    /// RESETs sent: too long.
    ResetSentTooLong = "reset_sent_too_long",
    /// RESETs sent: protocol error.
    ResetSentProtocol = "reset_sent_protocol",
    /// RESETs not sent, because so many were.
    ResetSuppressed = "reset_suppressed",

    /// SYNCs received, also repeated ones.
    SyncReceived = "sync_received",
    /// Tokens received, grants not counted.
    TokenReceived = "token_received",
    /// Grants received.
    GrantReceived = "grant_received",
    /// DATA received for a token or a grant.
    DataReceived = "data_received",
    /// DATA received that was sent without a token.
    UnscheduledReceived = "unscheduled_received",
    /// Payload bytes of all DATA received.
    DataReceivedBytes = "data_received_bytes",
    /// RESENDs received.
    ResendReceived = "resend_received",
    /// FINs received.
    FinReceived = "fin_received",
    /// ACKs received, counted as those sent.
    AckReceived = "ack_received",
    /// RESETs received: nobody listens.
    ResetReceivedNoSocket = "reset_received_no_socket",
    /// RESETs received: given up by the sender.
    ResetReceivedAborted = "reset_received_aborted",
    /// RESETs received: closed by the receiver.
    ResetReceivedClosed = "reset_received_closed",
    /// RESETs received: no such message.
    ResetReceivedUnknown = "reset_received_unknown",
    /// RESETs received: too long.
    ResetReceivedTooLong = "reset_received_too_long",
    /// RESETs received: protocol error.
    ResetReceivedProtocol = "reset_received_protocol",

    /// Tokens and grants that were answered with data here.
    TokenValid = "token_valid",
    /// Tokens that sent nothing: no message has that cookie.
    TokenUnknown = "token_unknown",
    /// Tokens that sent nothing: the cookie is right, the address is not.
    TokenAddress = "token_address",
    /// Tokens that sent nothing: the sequence number came before, or is too old to tell.
    TokenDuplicate = "token_duplicate",
    /// Tokens that sent nothing: they were under way for too long.
    TokenExpired = "token_expired",
    /// Tokens that sent nothing: all was sent, or the application has written no more.
    TokenIdle = "token_idle",
    /// Tokens that sent nothing: all was received, or the message was given up.
    TokenClosed = "token_closed",
    /// Grants that sent nothing, because the path is over its rate.
    GrantOver = "grant_over",
    /// Grants that sent twice, because the path is under its rate.
    GrantUnder = "grant_under",

    /// Tokens sent from here that data came for.
    TokenAnswered = "token_answered",
    /// Tokens sent from here that were taken for lost, because later ones were answered.
    TokenLost = "token_lost",
    /// Tokens sent from here that were given up, because they were not answered for long.
    TokenGivenUp = "token_given_up",

    /// DATA that was not taken: no message has that cookie.
    DataUnknown = "data_unknown",
    /// DATA that was not taken: it answers no token, and the SYNC did not announce it.
    DataUnasked = "data_unasked",
    /// DATA that was not taken: all of it was there.
    DataDuplicate = "data_duplicate",
    /// DATA that was not taken: it ends beyond the message.
    DataBeyondLength = "data_beyond_length",
    /// DATA that was not taken: it ends beyond the window.
    DataBeyondWindow = "data_beyond_window",
    /// DATA that was not taken: no memory.
    DataNoMemory = "data_no_memory",

    /// Signals that were for no message: ACK, FIN, RESEND, RESET.
    SignalUnknown = "signal_unknown",
    /// Signals whose cookie is right, and the address is not.
    SignalAddress = "signal_address",
    /// Signals that contradicted what was known.
    SignalContradiction = "signal_contradiction",
    /// Parts that a RESEND named and that were not sent again, because they had been within a
    /// round-trip time.
    ResendTooSoon = "resend_too_soon",

    /// SYNCs that were not taken: too many messages are coming in.
    SyncLimitIncoming = "sync_limit_incoming",
    /// SYNCs that were not taken: too many messages are coming in from this peer.
    SyncLimitPeer = "sync_limit_peer",
    /// SYNCs that were not taken: too many finished messages are to be remembered.
    SyncLimitRemembered = "sync_limit_remembered",
    /// SYNCs of strangers that were answered with a CHALLENGE and not taken, because too many
    /// messages are half open.
    HalfOpenChallenged = "half_open_challenged",
    /// SYNCs that were not taken: no memory.
    SyncNoMemory = "sync_no_memory",
    /// SYNCs that were not taken: the socket would not.
    SyncRefused = "sync_refused",
    /// SYNCs of messages that are there or were finished.
    SyncRepeated = "sync_repeated",

    /// Malformed: not as long as its type says.
    MalformedSize = "malformed_size",
    /// Malformed: another version.
    MalformedVersion = "malformed_version",
    /// Malformed: no known type.
    MalformedType = "malformed_type",
    /// Malformed: a reserved field is not 0.
    MalformedReserved = "malformed_reserved",
    /// Malformed: flags.
    MalformedFlags = "malformed_flags",
    /// Malformed: priority.
    MalformedPriority = "malformed_priority",
    /// Malformed: a port is 0.
    MalformedPort = "malformed_port",
    /// Malformed: the message's length.
    MalformedLength = "malformed_length",
    /// Malformed: what was sent unscheduled.
    MalformedUnscheduled = "malformed_unscheduled",
    /// Malformed: the full length of DATA.
    MalformedMss = "malformed_mss",
    /// Malformed: unscheduled data that names a token.
    MalformedToken = "malformed_token",
    /// Malformed: data beyond the longest message.
    MalformedOffset = "malformed_offset",
    /// Malformed: number of spans.
    MalformedCount = "malformed_count",
    /// Malformed: a span.
    MalformedSpan = "malformed_span",
    /// Malformed: more received than the longest message.
    MalformedReceived = "malformed_received",
    /// Malformed: a window beyond the longest message.
    MalformedWindow = "malformed_window",
    /// Malformed: no known reason for a reset.
    MalformedCode = "malformed_code",
    /// UDP datagrams that were not taken: their headers could not be had, for want of memory.
    Unreadable = "unreadable",
    /// Grants that did not send, or not twice, what their mark says: as much is under way as the
    /// link carries.
    GrantHeld = "grant_held",
    /// UDP datagrams that were not taken: their source port is not that of their
    /// message.
    RefusedPort = "refused_port",
    /// UDP datagrams that were not taken: they are for a broadcast or multicast address, or come
    /// from nobody's address.
    RefusedAddress = "refused_address",
    /// UDP datagrams that were not taken: the socket that they are for is bound to another device,
    /// or its filter, its cgroup's programs or the security module refuse them.
    RefusedFilter = "refused_filter",
    /// Times that shorter packets are tried on a path, as longer ones do not get through.
    PathNarrowed = "path_narrowed",
    /// ICMP errors about packets of messages under way.
    UnreachableReceived = "unreachable_received",
    /// ICMP errors that belong to no message under way, or say less than its peer did.
    UnreachableIgnored = "unreachable_ignored",
    /// Malformed: how long the sender tries.
    MalformedPatience = "malformed_patience",
    /// Malformed: a CHALLENGE without a number.
    MalformedEcho = "malformed_echo",
    /// CHALLENGEs sent: to strangers, for a proof of their address.
    ChallengeSent = "challenge_sent",
    /// CHALLENGEs not sent, because so many were.
    ChallengeSuppressed = "challenge_suppressed",
    /// CHALLENGEs received.
    ChallengeReceived = "challenge_received",
    /// SYNCs that came with the right answer to a CHALLENGE.
    EchoReceived = "echo_received",
    /// SYNCs with an answer that is wrong, or too old.
    EchoWrong = "echo_wrong",
    /// Messages whose sender proved its address after they had begun; those that begin with a
    /// ticket are in `ticket_valid`.
    SenderProven = "sender_proven",
    /// Packets that were not sent, because the sender of their message has not proved its address,
    /// and three times the bytes that came of the message had been sent to it.
    Unproven = "unproven",
    /// SYNCs that were not taken: too many finished messages of this peer, or of its network, are
    /// to be remembered.
    SyncLimitShare = "sync_limit_share",
    /// SYNCs whose wish for a priority was ignored, or for grants, because of the configuration.
    SyncWishIgnored = "sync_wish_ignored",
    /// Messages going out whose socket was closed before they were delivered.
    OutOrphaned = "out_orphaned",
    /// Of these: given up because there were too many, or they had too many bytes.
    OrphanLimit = "orphan_limit",
    /// Sealed packets that were not taken: their seal is not right.
    SealWrong = "seal_wrong",
    /// Sealed packets that were not taken: they came before, or are too old to tell.
    SealReplayed = "seal_replayed",
    /// Sealed packets that were not taken: of no sealed message that is known.
    SealUnknown = "seal_unknown",
    /// Sealed packets that were not taken: nobody here has their key.
    SealKey = "seal_key",
    /// Packets that were not taken: they are not sealed, and should be.
    SealMissing = "seal_missing",
    /// DATA that was not taken: longer than its SYNC says packets are. A token is for one of that
    /// length.
    DataTooLong = "data_too_long",
    /// Tickets sent: to peers that have proved their address, for their next messages.
    TicketSent = "ticket_sent",
    /// Tickets received.
    TicketReceived = "ticket_received",
    /// SYNCs of new messages that came with a ticket that is right.
    TicketValid = "ticket_valid",
    /// DATA that was not taken: so much before it is missing in so many places that its own is not
    /// kept. It is asked for again.
    DataNoPlace = "data_no_place",
    /// ACKs sent that notify the sender of marks (DCQCN's CNPs).
    NotifySent = "notify_sent",
    /// ACKs received that notify of marks.
    NotifyReceived = "notify_received",
    /// DATA received that its sender paces, and that a port has marked CE: it is congested.
    EcnCongested = "ecn_congested",
    /// The same, marked UE: the port cannot tell.
    EcnUndetermined = "ecn_undetermined",
    /// Times that a message kept its rate because of UE, with tcd on.
    RateHeld = "rate_held",
    /// Tokens sent that are for several packets, each as one; in `token_sent` they count as many as
    /// they stand for.
    TrainSent = "train_sent",
    /// The same received; also in `token_received`.
    TrainReceived = "train_received",
}

impl Counter {
    /// The counter of a malformed packet, by the field found wrong.
    pub const fn malformed(field: Malformed) -> Self {
        match field {
            Malformed::Size => Self::MalformedSize,
            Malformed::Version => Self::MalformedVersion,
            Malformed::Type => Self::MalformedType,
            Malformed::Reserved => Self::MalformedReserved,
            Malformed::Flags => Self::MalformedFlags,
            Malformed::Priority => Self::MalformedPriority,
            Malformed::Port => Self::MalformedPort,
            Malformed::Length => Self::MalformedLength,
            Malformed::Unscheduled => Self::MalformedUnscheduled,
            Malformed::Mss => Self::MalformedMss,
            Malformed::Token => Self::MalformedToken,
            Malformed::Offset => Self::MalformedOffset,
            Malformed::Count => Self::MalformedCount,
            Malformed::Span => Self::MalformedSpan,
            Malformed::Received => Self::MalformedReceived,
            Malformed::Window => Self::MalformedWindow,
            Malformed::Code => Self::MalformedCode,
            Malformed::Patience => Self::MalformedPatience,
            Malformed::Echo => Self::MalformedEcho,
        }
    }

    /// The counter of RESETs sent with this code.
    pub const fn reset_sent(code: ResetCode) -> Self {
        match code {
            ResetCode::NoSocket => Self::ResetSentNoSocket,
            ResetCode::Aborted => Self::ResetSentAborted,
            ResetCode::Closed => Self::ResetSentClosed,
            ResetCode::Unknown => Self::ResetSentUnknown,
            ResetCode::TooLong => Self::ResetSentTooLong,
            ResetCode::Protocol => Self::ResetSentProtocol,
        }
    }

    /// The counter of RESETs received with this code.
    pub const fn reset_received(code: ResetCode) -> Self {
        match code {
            ResetCode::NoSocket => Self::ResetReceivedNoSocket,
            ResetCode::Aborted => Self::ResetReceivedAborted,
            ResetCode::Closed => Self::ResetReceivedClosed,
            ResetCode::Unknown => Self::ResetReceivedUnknown,
            ResetCode::TooLong => Self::ResetReceivedTooLong,
            ResetCode::Protocol => Self::ResetReceivedProtocol,
        }
    }
}

/// All counters. They wrap, after centuries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats([u64; COUNTERS]);

impl Default for Stats {
    fn default() -> Self {
        Self::new()
    }
}

impl Stats {
    /// All 0.
    pub const fn new() -> Self {
        Self([0; COUNTERS])
    }

    /// Counts one.
    #[inline]
    pub fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts `more`.
    #[inline]
    pub fn add(&mut self, counter: Counter, more: u64) {
        if let Some(value) = self.0.get_mut(counter as usize) {
            *value = value.wrapping_add(more);
        }
    }

    /// How many.
    #[inline]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().copied().zip(self.0.iter().copied())
    }
}

#[cfg(test)]
mod tests;
