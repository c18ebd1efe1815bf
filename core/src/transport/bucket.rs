// SPDX-License-Identifier: GPL-2.0
//! How many packets may leave that answer what belongs to no message.
//!
//! None is longer than what it answers. All of a kind take a sixteenth of their link at most, as
//! those who know us need the rest; and no link or kind takes from another one. What counts are the
//! bytes of their frames.

use super::links::LINKS;
use crate::units::Nanos;

/// A kind of answers may take this part of its link.
const PART: u32 = 16;
/// Bytes of a link that Ethernet adds to an IP packet: its header, the checksum, the preamble and
/// the gap; and the shortest IP packet that is not padded.
const FRAME: u32 = 14 + 4 + 20;
const SHORTEST: u32 = 46;

/// Bytes of a link in whose time one answer may leave, an IP packet of `ip` bytes.
pub(crate) const fn share(ip: u32) -> u32 {
    let ip = if ip < SHORTEST { SHORTEST } else { ip };
    ip.saturating_add(FRAME).saturating_mul(PART)
}

/// So many of a kind may leave at once by a link.
pub(crate) const BURST: u64 = 256;

/// What is answered.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A stranger's SYNC for which there is no place, by a CHALLENGE.
    Challenge,
    /// A SYNC that is refused, of a sender that has proved its address.
    Known,
    /// A SYNC that is refused, of a stranger.
    Stranger,
    /// A FIN or a probe: it claims to be of a message to this host.
    Incoming,
    /// A token or a CHALLENGE: it claims to be of a message from this host.
    Outgoing,
}

const KINDS: usize = 5;

/// When the next answer of each kind could leave by each link, at its rate.
pub(crate) struct Buckets([[Nanos; KINDS]; LINKS]);

impl Buckets {
    /// Full ones.
    pub(crate) const NEW: Self = Self([[Nanos::ZERO; KINDS]; LINKS]);

    /// Whether another one may leave, after which the link has to rest for an interval.
    pub(crate) fn take(&mut self, now: Nanos, link: u32, kind: Kind, interval: Nanos) -> bool {
        let kinds = self.0.get_mut(link as usize);
        let Some(next) = kinds.and_then(|it| it.get_mut(kind as usize)) else {
            return false;
        };
        // One more than the last that may leave now.
        let ahead = interval.0.saturating_mul(BURST.saturating_sub(1));
        if *next > now + Nanos(ahead) {
            return false;
        }
        *next = (*next).max(now) + interval;
        true
    }
}
