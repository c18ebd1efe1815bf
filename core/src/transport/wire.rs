// SPDX-License-Identifier: GPL-2.0
//! The transport's wire format: its packets in the payload of UDP datagrams.
//!
//! `docs/wire-format.md` describes each field. All numbers are big-endian. [`parse`] takes
//! untrusted bytes: all fields of a packet that it accepts are in range, and writing the packet
//! gives the same bytes again. Each packet has one encoding, so a bit that this version does not
//! know makes it malformed.
//!
//! A data packet's payload is not part of [`Packet`]: its user has it in a buffer, from
//! [`DATA_LEN`] on.

use core::fmt;

use crate::header::{self, Header, Type};
use crate::transport::rate;

/// The longest message, bytes: 2^30 - 1.
pub const MAX_LENGTH: u32 = (1 << 30) - 1;
/// The longest packet without payload: a RESEND of [`MAX_SPANS`].
pub const MAX_HEADER: usize = RESEND_LEN + MAX_SPANS * SPAN_LEN;
/// The longest of those that are neither a RESEND, nor a DATA with its SYNC, nor a list of
/// messages: a SYNC.
pub const SHORT_HEADER: usize = SYNC_LEN;
/// How many spans a RESEND can name.
pub const MAX_SPANS: usize = 16;
/// The least [`Sync::mss`]. With less, tokens would take too large a part of the link.
pub const MIN_MSS: u16 = 256;
/// The greatest [`Sync::mss`]: what an IPv4 packet can carry.
pub const MAX_MSS: u16 = 65_535 - 28 - DATA_LEN as u16;
/// The lowest token priority; 0 is the highest.
pub const MAX_PRIORITY: u8 = 7;

/// Bytes of a SYNC.
pub const SYNC_LEN: usize = 44;
/// Bytes of a TOKEN.
pub const TOKEN_LEN: usize = 18;
/// Bytes of a DATA before its payload.
pub const DATA_LEN: usize = 22;
/// Bytes of a DATA with its SYNC before its payload.
pub const FIRST_LEN: usize = DATA_LEN + 2 + SYNC_LEN - header::LEN - COOKIE_LEN;
/// Bytes before the payload of a DATA with its SYNC, and with as many messages as it can list.
pub const FIRST_MOST: usize = FIRST_LEN + 4 + MAX_DELIVERED * COOKIE_LEN;
/// Bytes of a [`Cookie`].
pub const COOKIE_LEN: usize = 8;
/// How many messages an ACK can list.
pub const MAX_COOKIES: usize = 16;
/// Bytes of a RESEND before its spans.
pub const RESEND_LEN: usize = 16;
/// Bytes of each [`Span`].
pub const SPAN_LEN: usize = 8;
/// Bytes of a FIN.
pub const FIN_LEN: usize = 16;
/// Bytes of an ACK.
pub const ACK_LEN: usize = 22;
/// Bytes of a RESET.
pub const RESET_LEN: usize = 16;
/// Bytes of a CHALLENGE.
pub const CHALLENGE_LEN: usize = 20;

/// The greatest [`Sync::patience`]: an hour.
pub const MAX_PATIENCE: u16 = 36_000;
/// ms: the unit of [`Sync::patience`].
pub const PATIENCE_UNIT: u64 = 100;

/// How many bytes of a message fit in a packet of `mtu` bytes, IP header included. `None` if that
/// is less than [`MIN_MSS`].
#[inline]
pub const fn mss(mtu: u32, ipv6: bool) -> Option<u16> {
    let headers = if ipv6 { 40 } else { 20 } + 8 + DATA_LEN as u32;
    let payload = mtu.saturating_sub(headers);
    if payload < MIN_MSS as u32 {
        None
    } else if payload > MAX_MSS as u32 {
        Some(MAX_MSS)
    } else {
        Some(payload as u16)
    }
}

/// A message's name at both ends, besides the peer's address: random, chosen by the sender, and
/// unknown to an attacker who does not see the packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cookie(
    /// All 64 bits are random.
    pub u64,
);

/// The first of the UDP ports that packets come from, when they do not come from
/// [`PORT`](crate::header::PORT).
pub const FIRST_SOURCE_PORT: u16 = 49_152;
/// How many such ports there are, to 65535: a power of two.
const SOURCE_PORTS: u64 = 1 << 14;

impl Cookie {
    /// The UDP port that a message's packets come from, of both ends: so that messages spread over
    /// paths and queues, and those of one go by one path.
    pub const fn source_port(self) -> u16 {
        // The low bits, mixed with all others: the top of a product with 2^64 / golden ratio.
        let mixed = self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        FIRST_SOURCE_PORT.wrapping_add((mixed & (SOURCE_PORTS - 1)) as u16)
    }
}

/// The UDP port that a packet with this header comes from; that of no message if it is too short.
pub fn source_port(header: &[u8]) -> u16 {
    let cookie = header.get(4..).and_then(|rest| rest.first_chunk::<8>());
    cookie.map_or(header::PORT, |bytes| {
        Cookie(u64::from_be_bytes(*bytes)).source_port()
    })
}

/// Hides it: it is a secret.
impl fmt::Debug for Cookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookie(..)")
    }
}

/// A packet, without a DATA's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// Opens a message.
    Sync(Sync),
    /// Lets the sender send a full-length packet, or several.
    Token(Token),
    /// A part of a message.
    Data(Data),
    /// Names what is missing.
    Resend(Resend),
    /// Tells the length of a message that was not known.
    Fin(Fin),
    /// Acknowledges.
    Ack(Ack),
    /// Ends a message that cannot be delivered.
    Reset(Reset),
    /// Asks for a proof of the sender's address, or gives it a ticket.
    Challenge(Challenge),
    /// SYNC and all data of a message, in one packet.
    First(First),
    /// Ends several messages. From the sender.
    Confirm(Cookies),
    /// Acknowledges several messages, at least one, that are complete. From the receiver.
    Delivered(Delivered),
}

/// Opens a message, or probes. From the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// The message.
    pub cookie: Cookie,
    /// The sender's port, not 0.
    pub source: u16,
    /// The receiver's port, not 0.
    pub destination: u16,
    /// Bytes, 1..=[`MAX_LENGTH`]; `None`: not known yet ([`header::FLAG_UNKNOWN_SIZE`]).
    pub length: Option<u32>,
    /// us from the sending of this packet until the message should have arrived; 0: no deadline.
    pub deadline: u32,
    /// The coflow that the message belongs to; 0: none.
    pub coflow: u32,
    /// Bytes, from the first on, that are sent without a token; at most `length`, 0 if that is not
    /// known.
    pub unscheduled: u32,
    /// Payload bytes of a full-length DATA, [`MIN_MSS`]..=[`MAX_MSS`].
    pub mss: u16,
    /// How long after it last heard of the receiver the sender tries, in units of 100 ms,
    /// 1..=[`MAX_PATIENCE`]. So long the receiver must remember the message.
    pub patience: u16,
    /// [`Challenge::echo`] of the last CHALLENGE, or else of the last ticket; 0: there was none.
    pub echo: u64,
    /// What the application wants its tokens' priority to be, 0..=[`MAX_PRIORITY`]
    /// ([`header::FLAG_PRIORITY`]).
    pub priority: Option<u8>,
    /// Asks for an ACK ([`header::FLAG_PROBE`]).
    pub probe: bool,
    /// Some of it was acknowledged ([`header::FLAG_ACKED`]).
    pub acked: bool,
    /// To be clocked by grants ([`header::FLAG_REN`]).
    pub ren: bool,
    /// The sender paces it itself ([`header::FLAG_PACED`]); not with `ren`.
    pub paced: bool,
}

/// Lets the sender send a full-length packet, or the rest if that is less, and as many more as it
/// stands for. From the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The message.
    pub cookie: Cookie,
    /// Counts the message's tokens from 0, wrapping.
    pub sequence: u16,
    /// Low 32 bits of the expiry clock, in ns, when it was sent.
    pub timestamp: u32,
    /// 0 is the highest, [`MAX_PRIORITY`] the lowest.
    pub priority: u8,
    /// `Some`: it answers one DATA, which arrived with this mark ([`header::FLAG_GRANT`]).
    pub grant: Option<Mark>,
    /// It stands for so many tokens, of the next `sequence`s, 1..=[`header::MAX_WORTH`]; a grant
    /// for 1.
    pub worth: u8,
}

/// How loaded the path of a REN data packet was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// Below the link's rate: two packets for this grant.
    Under = 0,
    /// At it: one.
    Full = 1,
    /// Above it: none.
    Over = 2,
}

/// A part of a message. From the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// The message.
    pub cookie: Cookie,
    /// [`Token::sequence`] of the token that it answers; 0 if unscheduled.
    pub token: u16,
    /// [`Token::timestamp`] of the token that it answers; 0 if unscheduled.
    pub timestamp: u32,
    /// Bytes of the message before the payload.
    pub offset: u32,
    /// Bytes of payload, not 0. `offset + len` is at most [`MAX_LENGTH`].
    pub len: u32,
    /// [`header::FLAG_UNSCHEDULED`], [`header::FLAG_UNASKED`], [`header::FLAG_SHORT`],
    /// [`header::FLAG_REN`].
    pub flags: u8,
    /// How many full-length packets of the message are written behind this one, in byte 1: one more
    /// than that; 0: not told, or 255 or more.
    pub more: u8,
}

/// A message's SYNC and its data, as a DATA ([`header::FLAG_FIRST`]): as if the one had come just
/// before the other. It is never sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct First {
    /// Begins the message: neither a probe, nor with REN, nor paced. The length is known, all of it
    /// is unscheduled, and nothing was acknowledged.
    pub sync: Sync,
    /// All of it: from its first byte on, [`header::FLAG_UNASKED`], with nothing behind it.
    pub data: Data,
    /// Its sender waits for an ACK ([`header::FLAG_PROBE`] of the SYNC).
    pub prompt: bool,
    /// Messages of the other direction that are complete ([`header::FLAG_DELIVERED`]).
    pub delivered: Delivered,
}

/// Names what is missing. From the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resend {
    /// The message.
    pub cookie: Cookie,
    /// At least one.
    pub spans: Spans,
}

/// Tells the length of a message that was opened without. From the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fin {
    /// The message.
    pub cookie: Cookie,
    /// Bytes, 1..=[`MAX_LENGTH`].
    pub length: u32,
}

/// Acknowledges. From the receiver; with `last` from both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The message.
    pub cookie: Cookie,
    /// Bytes: all before this one have arrived. At most [`MAX_LENGTH`].
    pub received: u32,
    /// Bytes: the window, tokens will be given for those before this one. At most [`MAX_LENGTH`].
    pub window: u32,
    /// From the receiver: how many bytes on the wire the sender may have under way to it without
    /// tokens, of all its messages, in units of 64. From the sender 0.
    pub allowance: u16,
    /// From the receiver: the message is complete; from the sender: it knows that, and the receiver
    /// may forget the message ([`header::FLAG_FINAL`]).
    pub last: bool,
    /// From the receiver, of a message that its sender paces: the worst mark of the data that came
    /// since the last ACK, or that is notified ([`header::ECN_MASK`]).
    pub mark: rate::Mark,
    /// It notifies the sender of the mark, of which there is one then ([`header::FLAG_NOTIFY`]).
    pub notify: bool,
}

/// Ends a message that cannot be delivered. From both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The message.
    pub cookie: Cookie,
    /// Why.
    pub code: ResetCode,
}

/// Asks a sender to prove that it has the address that its packets come from: by sending its SYNC
/// again, with this number. From the receiver. Or gives the other end a ticket, which proves the
/// same in the SYNCs of other messages. From both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Challenge {
    /// The message.
    pub cookie: Cookie,
    /// Not 0.
    pub echo: u64,
    /// It is a ticket ([`header::FLAG_TICKET`]), and no answer is wanted.
    pub ticket: bool,
}

/// Hides the number: it is a secret.
impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Challenge(..)")
    }
}

/// Why a message was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ResetCode {
    /// Nobody listens on the port (`ECONNREFUSED`).
    NoSocket = 1,
    /// The sender gave up the message (`ECONNRESET`).
    Aborted = 2,
    /// The receiving socket was closed (`ECONNRESET`).
    Closed = 3,
    /// There is no such message, or no longer.
    Unknown = 4,
    /// The receiver does not take messages of that length (`EMSGSIZE`).
    TooLong = 5,
    /// The packet contradicts earlier ones (`EPROTO`).
    Protocol = 6,
}

impl ResetCode {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::NoSocket,
        Self::Aborted,
        Self::Closed,
        Self::Unknown,
        Self::TooLong,
        Self::Protocol,
    ];

    /// From its number on the wire.
    #[inline]
    pub const fn from_wire(code: u16) -> Option<Self> {
        Some(match code {
            1 => Self::NoSocket,
            2 => Self::Aborted,
            3 => Self::Closed,
            4 => Self::Unknown,
            5 => Self::TooLong,
            6 => Self::Protocol,
            _ => return None,
        })
    }
}

impl Sync {
    #[inline]
    const fn priority_byte(&self) -> u8 {
        match self.priority {
            Some(priority) => priority,
            None => 0,
        }
    }

    #[inline]
    const fn flags(&self) -> u8 {
        flag(self.length.is_none(), header::FLAG_UNKNOWN_SIZE)
            | flag(self.priority.is_some(), header::FLAG_PRIORITY)
            | flag(self.probe, header::FLAG_PROBE)
            | flag(self.acked, header::FLAG_ACKED)
            | flag(self.ren, header::FLAG_REN)
            | flag(self.paced, header::FLAG_PACED)
    }
}

impl Data {
    /// Whether no token or grant asked for it. Of what comes under policy ren nobody can say that.
    #[inline]
    pub(crate) const fn is_unasked(&self) -> bool {
        !self.asked() && self.flags & header::FLAG_REN == 0
    }

    /// Whether it claims to answer a token.
    #[inline]
    pub(crate) const fn asked(&self) -> bool {
        self.token != 0 || self.timestamp != 0
    }

    /// The first byte of the message behind it.
    #[inline]
    pub(crate) const fn end(&self) -> u32 {
        self.offset.saturating_add(self.len)
    }
}

mod cookies;
mod delivered;
mod read;
mod run;
mod spans;
mod write;

pub use cookies::Cookies;
pub use delivered::{Delivered, MAX_DELIVERED};
pub use read::{is_sealed, parse, parse_sealed, Malformed};
pub use run::{Row, Run};
pub use spans::{Span, Spans};

impl Packet {
    /// The message that the packet is for.
    #[inline]
    pub const fn cookie(&self) -> Cookie {
        match self {
            Self::Sync(p) => p.cookie,
            Self::Token(p) => p.cookie,
            Self::Data(p) => p.cookie,
            Self::Resend(p) => p.cookie,
            Self::Fin(p) => p.cookie,
            Self::Ack(p) => p.cookie,
            Self::Reset(p) => p.cookie,
            Self::Challenge(p) => p.cookie,
            Self::First(p) => p.sync.cookie,
            Self::Confirm(p) => p.first(),
            Self::Delivered(p) => p.first(),
        }
    }

    /// Messages that it says are complete, of those that say so of several.
    #[inline]
    pub const fn delivered(&self) -> Option<&Delivered> {
        match self {
            Self::First(p) if !p.delivered.is_empty() => Some(&p.delivered),
            Self::Delivered(p) => Some(p),
            _ => None,
        }
    }

    /// Bytes of it in a UDP datagram, payload included.
    #[inline]
    pub const fn bytes(&self) -> u32 {
        let len = match self {
            Self::Sync(_) => SYNC_LEN,
            Self::Token(_) => TOKEN_LEN,
            Self::Data(p) => return (DATA_LEN as u32).saturating_add(p.len),
            // At most MAX_SPANS.
            Self::Resend(p) => RESEND_LEN.saturating_add(p.spans.len().saturating_mul(SPAN_LEN)),
            Self::Fin(_) => FIN_LEN,
            Self::Ack(_) => ACK_LEN,
            Self::Reset(_) => RESET_LEN,
            Self::Challenge(_) => CHALLENGE_LEN,
            Self::First(p) => {
                let head = FIRST_LEN.saturating_add(p.delivered.riding_len());
                return (head as u32).saturating_add(p.data.len);
            }
            // At most MAX_COOKIES.
            Self::Confirm(p) => header::LEN.saturating_add(p.len().saturating_mul(COOKIE_LEN)),
            Self::Delivered(p) => p.list_len(),
        };
        len as u32
    }

    /// Bytes of it before the payload, which DATA alone has.
    #[inline]
    pub const fn header_len(&self) -> usize {
        match self {
            Self::Data(_) => DATA_LEN,
            Self::First(p) => FIRST_LEN.saturating_add(p.delivered.riding_len()),
            other => other.bytes() as usize,
        }
    }

    /// The first bytes, which ports look at.
    #[inline]
    pub const fn header(&self) -> Header {
        let (kind, priority, flags) = match self {
            Self::Sync(p) => (Type::Sync, p.priority_byte(), p.flags()),
            Self::Token(p) => (
                Type::Token,
                p.priority,
                match p.grant {
                    Some(mark) => header::FLAG_GRANT | ((mark as u8) << header::MARK_SHIFT),
                    None => 0,
                },
            ),
            Self::Data(p) => (Type::Data, p.more, p.flags),
            Self::Resend(_) => (Type::Resend, 0, 0),
            Self::Fin(_) => (Type::Fin, 0, 0),
            Self::Ack(p) => (
                Type::Ack,
                0,
                flag(p.last, header::FLAG_FINAL)
                    | flag(p.notify, header::FLAG_NOTIFY)
                    | p.mark.ecn(),
            ),
            Self::Reset(_) => (Type::Reset, 0, 0),
            Self::Challenge(p) => (Type::Challenge, 0, flag(p.ticket, header::FLAG_TICKET)),
            Self::First(p) => {
                let rides = flag(!p.delivered.is_empty(), header::FLAG_DELIVERED);
                let flags = p.data.flags | header::FLAG_FIRST | rides;
                (Type::Data, p.data.more, flags)
            }
            Self::Confirm(_) => (Type::Ack, 0, header::FLAG_FINAL | header::FLAG_LIST),
            Self::Delivered(_) => {
                let list = header::FLAG_FINAL | header::FLAG_LIST;
                (Type::Ack, 0, list | header::FLAG_DELIVERED)
            }
        };
        let beyond = match self {
            Self::Token(p) => p.worth.saturating_sub(1),
            _ => 0,
        };
        Header {
            kind,
            priority,
            flags,
            beyond,
        }
    }
}

#[inline]
const fn flag(on: bool, bit: u8) -> u8 {
    if on {
        bit
    } else {
        0
    }
}

#[cfg(test)]
mod tests;
