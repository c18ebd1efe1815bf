// SPDX-License-Identifier: GPL-2.0
//! The control frames that pause a link or some of its priorities (IEEE 802.3 Annexes 31A, 31B and
//! 31D).
//!
//! All numbers are in network byte order:
//!
//! | byte | content |
//! |---|---|
//! | 0 | destination, [`DESTINATION`], which no bridge forwards |
//! | 6 | source |
//! | 12 | [`ETHERTYPE`] |
//! | 14 | opcode |
//! | 16 | [`PAUSE`]: for how many quanta. [`PFC`]: 0, and the class-enable vector: a bit for each priority |
//! | 18 | [`PFC`]: for how many quanta, for each priority |
//!
//! The rest of the 60 bytes that Ethernet wants is 0 (the frame check sequence is the device's). A
//! reader does not look at it, and takes shorter frames if they have all that is said: devices that
//! are no Ethernet, such as veth, do not pad.

/// The Ethernet type of MAC control (IEEE 802.3 clause 31.4.1.3).
pub const ETHERTYPE: u16 = 0x8808;
/// Where control frames go to, a multicast address (IEEE 802.3 clause 31B.1, 802.1Q table 8-1).
pub const DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
/// The opcode of a pause of the whole link (IEEE 802.3 table 31A-1).
pub const PAUSE: u16 = 0x0001;
/// The opcode of pauses by priority (IEEE 802.3 table 31A-1).
pub const PFC: u16 = 0x0101;
/// Bytes of a frame that is written, without the frame check sequence.
pub const LEN: usize = 60;

/// What a control frame asks for. A quantum is the time of 512 bits on the link; with 0 quanta the
/// pause is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The whole link is to be silent (IEEE 802.3 Annex 31B).
    Pause {
        /// For so many quanta, 0 to 65535.
        quanta: u16,
    },
    /// Some priorities are to be silent, or may send again (IEEE 802.3 Annex 31D).
    Pfc {
        /// Which priorities are spoken of: bit 0 is priority 0.
        enabled: u8,
        /// For how many quanta each, 0 to 65535. It counts only where the bit is set.
        quanta: [u16; 8],
    },
}

/// Why a frame is none. A port counts each cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// It does not go to [`DESTINATION`].
    Address,
    /// It ends before all is said.
    Short,
    /// Its opcode is neither [`PAUSE`] nor [`PFC`]. The standard has others, which mean nothing to
    /// a port (IEEE 802.3 table 31A-1).
    Opcode,
    /// The high byte of the class-enable vector is not 0 (IEEE 802.3 clause 31D.2).
    Reserved,
}

impl Frame {
    /// A PFC frame that speaks of one priority, 0 to 7. With another it speaks of none.
    pub fn one(priority: u8, quanta: u16) -> Self {
        let mut all = [0; 8];
        let mut enabled = 0;
        if let Some(its) = all.get_mut(usize::from(priority)) {
            *its = quanta;
            enabled = 1 << (priority & 7);
        }
        Self::Pfc {
            enabled,
            quanta: all,
        }
    }

    /// What the frame says of a priority: for how many quanta it is to be silent. `None` if
    /// nothing.
    #[inline]
    pub fn says(&self, priority: u8) -> Option<u16> {
        match self {
            Self::Pause { quanta } if priority < super::PRIORITIES => Some(*quanta),
            Self::Pause { .. } => None,
            Self::Pfc { enabled, quanta } => quanta
                .get(usize::from(priority))
                .copied()
                .filter(|_| enabled & (1 << (priority & 7)) != 0),
        }
    }

    /// Reads a frame: where it goes to, and what follows the Ethernet type.
    ///
    /// # Errors
    ///
    /// Why it asks for nothing. Nothing is done then.
    pub fn parse(destination: &[u8; 6], payload: &[u8]) -> Result<Self, Refused> {
        if *destination != DESTINATION {
            return Err(Refused::Address);
        }
        let (&opcode, rest) = payload.split_first_chunk::<2>().ok_or(Refused::Short)?;
        let opcode = u16::from_be_bytes(opcode);
        if opcode != PAUSE && opcode != PFC {
            return Err(Refused::Opcode);
        }
        let (&first, rest) = rest.split_first_chunk::<2>().ok_or(Refused::Short)?;
        if opcode == PAUSE {
            let quanta = u16::from_be_bytes(first);
            return Ok(Self::Pause { quanta });
        }
        let times = rest.first_chunk::<16>().ok_or(Refused::Short)?;
        let [0, enabled] = first else {
            return Err(Refused::Reserved);
        };
        let mut quanta = [0; 8];
        for (its, bytes) in quanta.iter_mut().zip(times.chunks_exact(2)) {
            if let Some(&bytes) = bytes.first_chunk::<2>() {
                *its = u16::from_be_bytes(bytes);
            }
        }
        Ok(Self::Pfc { enabled, quanta })
    }

    /// The frame on the wire, from its destination on: 60 bytes, padded with zeros.
    pub fn write(&self, source: [u8; 6]) -> [u8; LEN] {
        let mut frame = [0; LEN];
        let mut rest = frame.iter_mut();
        let mut put = |bytes: &[u8]| {
            // In this order: a byte of the frame is taken only if there is one to put there.
            for (from, to) in bytes.iter().zip(rest.by_ref()) {
                *to = *from;
            }
        };
        put(&DESTINATION);
        put(&source);
        put(&ETHERTYPE.to_be_bytes());
        match self {
            Self::Pause { quanta } => {
                put(&PAUSE.to_be_bytes());
                put(&quanta.to_be_bytes());
            }
            Self::Pfc { enabled, quanta } => {
                put(&PFC.to_be_bytes());
                put(&[0, *enabled]);
                for its in quanta {
                    put(&its.to_be_bytes());
                }
            }
        }
        frame
    }
}

#[cfg(test)]
mod tests;
