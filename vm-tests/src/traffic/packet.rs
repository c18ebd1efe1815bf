// SPDX-License-Identifier: GPL-2.0
//! The contents of a source's packets.

use turnstile_core::header::{Header, Type, FLAG_UNSCHEDULED, LEN};

/// Bytes of the stamp that follows Turnstile's own.
pub const STAMP_LEN: usize = 14;
/// The least UDP payload. Over IPv4 it makes Ethernet's smallest frame: 60 bytes, 84 on the wire.
pub const MIN_PAYLOAD: usize = LEN + STAMP_LEN;
/// The UDP payload that fills a 1500-byte IPv4 packet.
pub const MTU_PAYLOAD: usize = 1472;

/// Ethernet's frame check sequence, preamble and inter-frame gap, as the port's default `overhead`.
pub const OVERHEAD: usize = 24;
/// The least that a frame occupies on the wire, as the port's default `mpu`.
pub const MPU: usize = 84;

/// The kinds of packet that a port tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packet {
    /// Goes to the signal class.
    Signal,
    /// A token of this priority, 0 the highest.
    Token(u8),
    /// A scheduled packet.
    Data,
    /// A packet sent without a token.
    Unscheduled,
    /// A datagram without Turnstile's header: other traffic.
    Other,
}

impl Packet {
    /// The first four payload bytes.
    pub fn header(self) -> [u8; LEN] {
        let (kind, priority, flags) = match self {
            Self::Signal => (Type::Sync, 0, 0),
            Self::Token(priority) => (Type::Token, priority, 0),
            Self::Data => (Type::Data, 0, 0),
            Self::Unscheduled => (Type::Data, 0, FLAG_UNSCHEDULED),
            Self::Other => return [0; LEN],
        };
        Header {
            kind,
            priority,
            flags,
            beyond: 0,
        }
        .write()
    }
}

impl Packet {
    /// The stream number of the flow of such packets, where there is one flow per kind.
    pub fn stream(self) -> u16 {
        match self {
            Self::Signal => 0,
            Self::Data => 1,
            Self::Unscheduled => 2,
            Self::Other => 3,
            Self::Token(priority) => 0x10 + u16::from(priority),
        }
    }
}

/// Identifies a packet in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The flow's number.
    pub stream: u16,
    /// Counts the flow's packets from 0.
    pub sequence: u32,
    /// ns of the wall clock when it was handed to the socket.
    pub sent_at: u64,
}

impl Stamp {
    /// Writes header and stamp to the start of `payload`, which has at least [`MIN_PAYLOAD`] bytes.
    pub fn write(&self, packet: Packet, payload: &mut [u8]) {
        payload[..LEN].copy_from_slice(&packet.header());
        payload[4..6].copy_from_slice(&self.stream.to_be_bytes());
        payload[6..10].copy_from_slice(&self.sequence.to_be_bytes());
        payload[10..18].copy_from_slice(&self.sent_at.to_be_bytes());
    }
}

/// The stamp in a UDP payload, if it is long enough to have one.
pub fn stamp_of(payload: &[u8]) -> Option<Stamp> {
    let stamp = payload.get(LEN..MIN_PAYLOAD)?;
    Some(Stamp {
        stream: u16::from_be_bytes(stamp[..2].try_into().ok()?),
        sequence: u32::from_be_bytes(stamp[2..6].try_into().ok()?),
        sent_at: u64::from_be_bytes(stamp[6..14].try_into().ok()?),
    })
}

/// Bytes on the wire of a UDP datagram with `payload` bytes over IPv4 or IPv6.
pub fn wire_length(payload: usize, v6: bool) -> usize {
    (14 + if v6 { 40 } else { 20 } + 8 + payload + OVERHEAD).max(MPU)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_come_back() {
        let stamp = Stamp {
            stream: 0xabcd,
            sequence: 0x0102_0304,
            sent_at: u64::MAX - 7,
        };
        let mut payload = [0; MIN_PAYLOAD];
        stamp.write(Packet::Token(5), &mut payload);
        assert_eq!(stamp_of(&payload), Some(stamp));
        assert_eq!(payload[..4], [0x12, 5, 0, 0]);
        assert_eq!(stamp_of(&payload[..17]), None);
    }

    #[test]
    fn wire_lengths_are_ethernets() {
        assert_eq!(wire_length(MIN_PAYLOAD, false), 84);
        assert_eq!(wire_length(MTU_PAYLOAD, false), 1538);
    }
}
