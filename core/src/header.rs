// SPDX-License-Identifier: GPL-2.0
//! The first four bytes of a Turnstile packet, all that a port needs to classify it.
//!
//! Turnstile packets are UDP datagrams to [`PORT`]. Their payload starts with
//!
//! | byte | content |
//! |---|---|
//! | 0 | version (high four bits, [`VERSION`]) and type (low four bits, [`Type`]) |
//! | 1 | priority: on tokens, 0 is the highest. On data a number, which ports ignore |
//! | 2 | flags, see [`FLAG_UNSCHEDULED`] and the others. A port looks at those of data only |
//! | 3 | on tokens: for how many packets beyond one, 0 to 63; else reserved, 0 |
//!
//! The fields after them are in [`transport::wire`](crate::transport::wire).

/// The UDP destination port: 0x7475, "tu".
pub const PORT: u16 = 29813;
/// The version of the wire format.
pub const VERSION: u8 = 1;
/// How many bytes [`parse`] needs.
pub const LEN: usize = 4;
/// The most packets that a token is for.
pub const MAX_WORTH: u8 = 64;
/// Where the flags are.
pub const FLAGS: usize = 2;
/// On [`Type::Data`]: sent without a token, in the first round trip.
pub const FLAG_UNSCHEDULED: u8 = 1 << 0;
/// On [`Type::Data`]: sent without a token, since the receiver allows so much. Ports put it into
/// the data band; the link that it came by has less time for what tokens ask for.
pub const FLAG_UNASKED: u8 = 1 << 1;
/// On [`Type::Data`]: the message's SYNC is in the packet, before the payload.
pub const FLAG_FIRST: u8 = 1 << 2;
/// On [`Type::Data`]: of a short message. Ports put it into the data band, before other data as
/// long as that is not for long.
pub const FLAG_SHORT: u8 = 1 << 3;
/// On [`Type::Sync`]: the message's length is not known yet.
pub const FLAG_UNKNOWN_SIZE: u8 = 1 << 1;
/// On [`Type::Sync`]: the priority byte is the application's choice, and overrides the receiver's
/// policy.
pub const FLAG_PRIORITY: u8 = 1 << 2;
/// On [`Type::Sync`]: a probe, which asks a silent receiver for an acknowledgement.
pub const FLAG_PROBE: u8 = 1 << 3;
/// On [`Type::Sync`]: the sender paces the message's data itself, and wants no tokens.
pub const FLAG_PACED: u8 = 1 << 4;
/// On [`Type::Sync`]: some of the message was acknowledged. A receiver that has acknowledged none
/// of it has lost that part.
pub const FLAG_ACKED: u8 = 1 << 6;
/// On [`Type::Token`]: a grant. It answers exactly one data packet, and has that packet's mark in
/// [`MARK_MASK`] (REN).
pub const FLAG_GRANT: u8 = 1 << 3;
/// On a [`FLAG_GRANT`]: the shift of the mark, which is 0 to 2.
pub const MARK_SHIFT: u32 = 4;
/// On a [`FLAG_GRANT`]: the mark's bits.
pub const MARK_MASK: u8 = 3 << MARK_SHIFT;
/// On [`Type::Challenge`]: its number is a ticket, for later messages.
pub const FLAG_TICKET: u8 = 1 << 4;
/// On [`Type::Ack`]: from the receiver: the message is complete; from the sender: it knows that.
pub const FLAG_FINAL: u8 = 1 << 6;
/// On [`Type::Ack`] with [`FLAG_FINAL`]: it says so of several messages, whose cookies are all that
/// there is. From the sender, but for [`FLAG_DELIVERED`].
pub const FLAG_LIST: u8 = 1 << 3;
/// On [`Type::Ack`] with [`FLAG_LIST`]: it comes from the receiver, and lists messages that are
/// complete. On [`Type::Data`] with [`FLAG_FIRST`]: the same list is in the packet, of messages of
/// the other direction.
pub const FLAG_DELIVERED: u8 = 1 << 4;
/// On [`Type::Ack`]: how the worst of the data that came was marked, as its ECN field says it: 0
/// not at all, 1 undetermined, 3 congestion; not 2.
pub const ECN_MASK: u8 = 3;
/// On [`Type::Ack`]: it is a notification of that mark (DCQCN's CNP).
pub const FLAG_NOTIFY: u8 = 1 << 2;
/// On [`Type::Sync`] and [`Type::Data`]: of a message that grants clock (REN); ports may mark the
/// packet's ECN field. Ports put such data into the data band.
pub const FLAG_REN: u8 = 1 << 7;

/// On all but [`Type::Token`]: sealed, see [`transport::seal`](crate::transport::seal).
pub const FLAG_SEALED: u8 = 1 << 5;
/// On [`Type::Token`]: sealed.
pub const FLAG_SEALED_TOKEN: u8 = 1 << 6;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Type {
    /// Opens a message.
    Sync = 1,
    /// Lets the sender send a full-length packet, or several.
    Token = 2,
    /// A part of a message.
    Data = 3,
    /// Names what is missing.
    Resend = 4,
    /// Tells the length of a message that was opened without.
    Fin = 5,
    /// Acknowledges.
    Ack = 6,
    /// Ends a message that cannot be delivered.
    Reset = 7,
    /// Asks a sender to prove its address, or gives it a ticket.
    Challenge = 8,
}

impl Type {
    /// The first byte of such a packet.
    #[inline]
    pub const fn first_byte(self) -> u8 {
        (VERSION << 4) | self as u8
    }

    /// The flag that says that such a packet is sealed.
    #[inline]
    pub const fn sealed(self) -> u8 {
        match self {
            Self::Token => FLAG_SEALED_TOKEN,
            _ => FLAG_SEALED,
        }
    }

    #[inline]
    const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Sync,
            2 => Self::Token,
            3 => Self::Data,
            4 => Self::Resend,
            5 => Self::Fin,
            6 => Self::Ack,
            7 => Self::Reset,
            8 => Self::Challenge,
            _ => return None,
        })
    }
}

/// The first bytes of a Turnstile packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the packet is for.
    pub kind: Type,
    /// Of a token: 0 is the highest.
    pub priority: u8,
    /// [`FLAG_UNSCHEDULED`] and others.
    pub flags: u8,
    /// Of a token: how many packets it lets the sender send beyond one, below [`MAX_WORTH`]. Of
    /// others 0.
    pub beyond: u8,
}

impl Header {
    /// How many tokens it counts as, 1 to [`MAX_WORTH`].
    #[inline]
    pub const fn worth(&self) -> u8 {
        self.beyond.saturating_add(1)
    }

    /// A data packet that was sent without a token.
    #[inline]
    pub const fn is_unscheduled(&self) -> bool {
        matches!(self.kind, Type::Data) && self.flags & FLAG_UNSCHEDULED != 0
    }

    /// A data packet that no token asked for, and that goes with those that one did.
    #[inline]
    pub const fn is_unasked(&self) -> bool {
        matches!(self.kind, Type::Data) && self.flags & FLAG_UNASKED != 0
    }

    /// A data packet of a short message.
    #[inline]
    pub const fn is_short(&self) -> bool {
        matches!(self.kind, Type::Data) && self.flags & FLAG_SHORT != 0
    }

    /// The bytes on the wire.
    #[inline]
    pub const fn write(&self) -> [u8; LEN] {
        [
            self.kind.first_byte(),
            self.priority,
            self.flags,
            self.beyond,
        ]
    }
}

/// The header at the start of a UDP payload. `None` if it is short, of another version, of no known
/// type, or its last byte is not 0, or for a token not below [`MAX_WORTH`].
#[inline]
pub fn parse(payload: &[u8]) -> Option<Header> {
    let &[first, priority, flags, beyond] = payload.first_chunk::<LEN>()?;
    if first >> 4 != VERSION {
        return None;
    }
    let kind = Type::from_bits(first & 0xf)?;
    if beyond != 0 && (kind != Type::Token || beyond >= MAX_WORTH) {
        return None;
    }
    Some(Header {
        kind,
        priority,
        flags,
        beyond,
    })
}

#[cfg(test)]
mod tests;
