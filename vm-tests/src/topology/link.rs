// SPDX-License-Identifier: GPL-2.0
//! Links of an exact rate, delay and buffer.
//!
//! veth hands a packet over at once and has neither. A direction of a link is therefore made of two
//! parts:
//!
//! - On the sending device, the buffer and the rate: by default a Turnstile port whose filter puts
//!   every packet into the data class, which makes it a drop-tail FIFO of so many bytes in front of
//!   an exact shaper. It spaces packets by the exact time that they take, rounded up to a
//!   nanosecond, without drift.
//! - Behind it, in a namespace of its own (the *wire*), a `netem` that holds each packet for the
//!   time that it takes at the rate, as a store-and-forward switch does, and for the propagation
//!   delay. Since packets come spaced, netem's own rate never queues: it only adds, and its
//!   truncation to whole nanoseconds does not add up.
//!
//! A packet thus arrives (with its last bit) `wire length / rate + delay` after it left the queue:
//! to the nanosecond in virtual time, and as well as timers are on other beds.

use std::fmt::Write as _;

use crate::traffic::{MPU, OVERHEAD};

/// What queues and spaces packets at the sending end of each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shaper {
    /// A Turnstile port with all packets in its data class: exact.
    Exact,
    /// A stock `tbf` that may save up `burst` bytes. It counts whole nanoseconds per packet: 67
    /// instead of 67.2 for a token at 10 Gbit/s.
    Tbf {
        /// At least one frame on the wire; more where timers are late.
        burst: u32,
    },
    /// Nothing: the sender paces by itself. Rate and delay still count for how long a packet is on
    /// the wire.
    Off,
}

/// A link; both directions are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// bit/s on the wire (with preamble, frame check sequence and gap). A multiple of 8.
    pub rate: u64,
    /// Propagation delay in ns.
    pub delay: u64,
    /// What the sending device's queue holds: bytes of frames, at least 1600.
    pub buffer: u32,
    /// What keeps the rate.
    pub shaper: Shaper,
}

impl Link {
    /// A link of so many bit/s and ns, with an exact shaper in front of a buffer of 1 MB.
    pub const fn new(rate: u64, delay: u64) -> Self {
        Self {
            rate,
            delay,
            buffer: 1_000_000,
            shaper: Shaper::Exact,
        }
    }

    /// With a buffer of so many bytes.
    pub const fn buffer(self, buffer: u32) -> Self {
        Self { buffer, ..self }
    }

    /// With this shaper.
    pub const fn shaper(self, shaper: Shaper) -> Self {
        Self { shaper, ..self }
    }

    /// How long a frame of `bytes` (as tc counts: from the Ethernet header on, at least 60) is on
    /// its way once it has left the queue, ns.
    pub fn latency(&self, bytes: usize) -> u64 {
        self.serialisation(bytes) + self.delay
    }

    /// How long a frame occupies the link, in whole ns, as netem truncates it.
    fn serialisation(&self, bytes: usize) -> u64 {
        let wire = (bytes + OVERHEAD).max(MPU) as u64;
        (u128::from(wire) * 1_000_000_000 / u128::from(self.rate / 8)) as u64
    }

    /// Lines for `tc -batch` that make the queue of device `dev`.
    pub fn queue_lines(&self, dev: &str) -> String {
        let mut lines = String::new();
        // Writing to a String does not fail.
        let _ = match self.shaper {
            Shaper::Exact => writeln!(
                lines,
                "qdisc add dev {dev} root handle 1: turnstile link {}bit data-limit {}\n\
                 filter add dev {dev} parent 1: protocol all matchall classid 1:2",
                self.rate, self.buffer
            ),
            Shaper::Tbf { burst } => writeln!(
                lines,
                "qdisc add dev {dev} root handle 1: stab overhead {OVERHEAD} mpu {MPU} linklayer \
                 ethernet \
                 tbf rate {}bit burst {burst} limit {}",
                self.rate, self.buffer
            ),
            Shaper::Off => Ok(()),
        };
        lines
    }

    /// Lines for `tc -batch` in the wire's namespace: what comes in at `from` leaves by `to`,
    /// later.
    pub(super) fn wire_lines(&self, from: &str, to: &str) -> String {
        format!(
            "qdisc add dev {from} ingress\n\
             filter add dev {from} parent ffff: protocol all matchall action mirred egress \
             redirect dev {to}\n\
             qdisc add dev {to} root netem limit 10000000 delay {}ns rate {}bit {OVERHEAD}\n",
            self.delay, self.rate
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_serialisation_and_propagation() {
        let link = Link::new(10_000_000_000, 1000);
        // 1514 bytes are 1538 on the wire: 1230.4 ns.
        assert_eq!(link.latency(1514), 2230);
        assert_eq!(link.latency(60), 1067);
        assert_eq!(Link::new(400_000_000_000, 0).latency(60), 1);
    }

    #[test]
    fn lines_name_rate_and_buffer() {
        let link = Link::new(1_000_000, 5).buffer(3000);
        assert!(link
            .queue_lines("d")
            .contains("link 1000000bit data-limit 3000"));
        assert!(link
            .shaper(Shaper::Tbf { burst: 1600 })
            .queue_lines("d")
            .contains("tbf rate 1000000bit burst 1600 limit 3000"));
        assert_eq!(link.shaper(Shaper::Off).queue_lines("d"), "");
        assert!(link
            .wire_lines("a", "b")
            .contains("delay 5ns rate 1000000bit 24"));
    }
}
