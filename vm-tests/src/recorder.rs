// SPDX-License-Identifier: GPL-2.0
//! Records who waited in a queue, from when until when, and so its length over time.
//!
//! A [`Recorder`] captures on all devices of a switch and puts together what came in and what went
//! out by one device. That tells each packet's wait, whatever queue it was, and costs the queue
//! nothing. In virtual time a packet is queued at the instant in which it arrives, so that all of
//! it is exact; elsewhere the time that the kernel takes to forward is in it, too.
//!
//! What came in and never went out was dropped. When is not known, so that it counts as dropped on
//! arrival.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::Ipv4Addr;

use anyhow::Result;
use turnstile_core::header::{self, Type};

use crate::netns::Netns;
use crate::pcap::{self, Capture, Captured};
use crate::traffic::{Packet, MPU, OVERHEAD};

/// A packet that came to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// What it is.
    pub packet: Packet,
    /// Where it is from.
    pub from: Ipv4Addr,
    /// Wall clock on arrival, ns.
    pub came: u64,
    /// Wall clock when it was sent, ns; `None` when it was dropped.
    pub left: Option<u64>,
    /// Bytes of the frame, as tc counts.
    pub bytes: usize,
    /// Whether it left with ECN's mark that it did not have before.
    pub marked: bool,
    /// ECN's two bits, as it left, or as it came if it was dropped.
    pub ecn: u8,
    /// The same, as it came.
    pub before: u8,
    /// Of UDP or TCP: the port that it is from.
    pub port: u16,
}

impl Passage {
    /// How long it waited, ns; `None` when it was dropped.
    pub fn wait(&self) -> Option<u64> {
        self.left.map(|left| left.saturating_sub(self.came))
    }

    /// Bytes on the wire.
    pub fn wire_bytes(&self) -> usize {
        (self.bytes + OVERHEAD).max(MPU)
    }
}

/// ECN's code point of what met congestion.
const CE: u8 = 3;

/// What [`lengths`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes of frames, as tc counts.
    Bytes,
}

/// Captures at a switch.
#[derive(Debug)]
pub struct Recorder(Capture);

impl Recorder {
    /// Starts to record at `switch`.
    ///
    /// # Errors
    /// Without root.
    pub fn start(switch: &Netns) -> Result<Self> {
        Capture::start(switch, None).map(Self)
    }

    /// Ends, once nothing has come for a moment.
    ///
    /// # Errors
    /// When packets were lost because they came faster than they were read, or receiving failed.
    pub fn finish(self) -> Result<Captured> {
        self.0.finish()
    }
}

/// What a packet keeps on its way through a switch, which changes time to live, ECN and checksum.
/// IPv4 with an identification is told from all others of its sender but for 65536 before; those
/// that are alike leave in the order in which they came.
type Identity = Vec<u8>;

/// The queue of device `dev`, given what was captured at its switch: all packets to the addresses
/// `behind` it, in the order of arrival.
///
/// # Errors
/// When nothing was captured from such a device.
pub fn passages(
    captured: &Captured,
    dev: &str,
    behind: &BTreeSet<Ipv4Addr>,
) -> Result<Vec<Passage>> {
    let dev = captured.device(dev)?;
    let mut all = Vec::new();
    let mut waiting: HashMap<Identity, VecDeque<usize>> = HashMap::new();
    for packet in &captured.packets {
        let Some((seen, identity)) = read(packet) else {
            continue;
        };
        if !behind.contains(&seen.to) {
            continue;
        }
        if !packet.sent {
            waiting.entry(identity).or_default().push_back(all.len());
            all.push(Passage {
                packet: seen.packet,
                from: seen.from,
                came: packet.at,
                left: None,
                bytes: packet.length,
                marked: seen.ecn == CE,
                ecn: seen.ecn,
                before: seen.ecn,
                port: seen.port,
            });
        } else if packet.device == dev {
            let first = waiting.get_mut(&identity).and_then(VecDeque::pop_front);
            // What was on its way when the recording began is not counted.
            if let Some(index) = first {
                all[index].left = Some(packet.at);
                // Until here it told how the packet came.
                all[index].marked = seen.ecn == CE && !all[index].marked;
                all[index].ecn = seen.ecn;
            }
        }
    }
    for passage in all.iter_mut().filter(|passage| passage.left.is_none()) {
        passage.marked = false;
    }
    Ok(all)
}

/// What a captured packet is, as a port classifies it; `None` for all but IPv4.
pub fn what(packet: &pcap::Packet) -> Option<Packet> {
    read(packet).map(|(seen, _)| seen.packet)
}

/// What is read of a packet.
struct Seen {
    from: Ipv4Addr,
    to: Ipv4Addr,
    packet: Packet,
    ecn: u8,
    port: u16,
}

/// IPv4 only; `None` for all else.
fn read(packet: &pcap::Packet) -> Option<(Seen, Identity)> {
    let bytes = &packet.bytes;
    if bytes.get(12..14)? != [8, 0] {
        return None;
    }
    let ip = bytes.get(14..)?;
    let address = |at: usize| Some(Ipv4Addr::from(*ip.get(at..)?.first_chunk::<4>()?));
    let header_length = usize::from(ip.first()? & 0xf) * 4;
    let upper = ip.get(header_length..)?;
    let seen = Seen {
        from: address(12)?,
        to: address(16)?,
        packet: kind(*ip.get(9)?, upper),
        ecn: ip.get(1)? & 3,
        port: upper
            .first_chunk()
            .map_or(0, |port| u16::from_be_bytes(*port)),
    };
    let mut identity = ip.to_vec();
    for changed in [1, 8, 10, 11] {
        *identity.get_mut(changed)? = 0;
    }
    Some((seen, identity))
}

/// As a port classifies it.
fn kind(protocol: u8, upper: &[u8]) -> Packet {
    const UDP: u8 = 17;
    let to_us = protocol == UDP && upper.get(2..4) == Some(&header::PORT.to_be_bytes()[..]);
    let header = upper.get(8..).filter(|_| to_us).and_then(header::parse);
    match header {
        None => Packet::Other,
        Some(header) if header.is_unscheduled() => Packet::Unscheduled,
        Some(header) => match header.kind {
            Type::Token => Packet::Token(header.priority),
            Type::Data => Packet::Data,
            _ => Packet::Signal,
        },
    }
}

/// The queue's length over time: at each instant in which it changed, what it was after all that
/// happened in that instant.
///
/// `counts` says which packets are looked at.
pub fn lengths(
    passages: &[Passage],
    unit: Unit,
    counts: impl Fn(&Passage) -> bool,
) -> Vec<(u64, u64)> {
    let mut changes: BTreeMap<u64, i64> = BTreeMap::new();
    for passage in passages.iter().filter(|passage| counts(passage)) {
        if let Some(left) = passage.left {
            let amount = match unit {
                Unit::Packets => 1,
                Unit::Bytes => passage.bytes as i64,
            };
            *changes.entry(passage.came).or_default() += amount;
            *changes.entry(left).or_default() -= amount;
        }
    }
    let mut length = 0;
    changes
        .into_iter()
        .map(|(at, change)| {
            length += change;
            // Clocks that are not exact may let a packet leave before it came.
            (at, u64::try_from(length).unwrap_or(0))
        })
        .collect()
}

/// The greatest length.
pub fn longest(lengths: &[(u64, u64)]) -> u64 {
    lengths.iter().map(|(_, length)| *length).max().unwrap_or(0)
}

/// The mean length over `from..until` (wall clock, ns).
pub fn mean(lengths: &[(u64, u64)], from: u64, until: u64) -> f64 {
    let mut area = 0.0;
    let (mut since, mut length) = (from, 0);
    for &(at, next) in lengths {
        let at = at.clamp(from, until);
        area += (at - since) as f64 * length as f64;
        (since, length) = (at, next);
    }
    area += until.saturating_sub(since) as f64 * length as f64;
    area / (until.saturating_sub(from)).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::frame::Frame;

    const TO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn packet(at: u64, device: usize, sent: bool, number: u8, ttl: u8, tos: u8) -> pcap::Packet {
        let payload = [0x12, 3, 0, 0, number];
        let bytes = Frame::udp4(TO, 0, header::PORT, &payload)
            .with_byte(8, ttl)
            .with_byte(1, tos)
            .bytes();
        pcap::Packet {
            at,
            device,
            sent,
            length: bytes.len(),
            bytes,
        }
    }

    fn captured() -> Captured {
        Captured {
            packets: vec![
                packet(100, 1, false, 1, 64, 2),
                packet(100, 1, false, 2, 64, 3),
                packet(100, 2, true, 1, 63, 2),
                packet(150, 1, false, 3, 64, 0),
                packet(200, 2, true, 2, 63, 3),
                packet(250, 1, false, 4, 64, 2),
                packet(300, 2, true, 4, 63, 3),
            ],
            devices: BTreeMap::from([(1, "in".into()), (2, "out".into())]),
        }
    }

    #[test]
    fn packets_are_found_again_behind_the_queue() {
        let all = passages(&captured(), "out", &BTreeSet::from([TO])).unwrap();
        let waits: Vec<_> = all.iter().map(Passage::wait).collect();
        assert_eq!(waits, [Some(0), Some(100), None, Some(50)]);
        assert_eq!(all[0].packet, Packet::Token(3));
        assert_eq!(all[0].wire_bytes(), 84);
        // Marked here is only what came without the mark.
        assert_eq!(
            all.iter().map(|p| p.marked).collect::<Vec<_>>(),
            [false, false, false, true]
        );
        assert!(passages(&captured(), "other", &BTreeSet::from([TO])).is_err());
        let nobody = passages(&captured(), "out", &BTreeSet::new()).unwrap();
        assert!(nobody.is_empty());
    }

    #[test]
    fn lengths_are_those_after_each_instant() {
        let all = passages(&captured(), "out", &BTreeSet::from([TO])).unwrap();
        let packets = lengths(&all, Unit::Packets, |_| true);
        assert_eq!(packets, [(100, 1), (200, 0), (250, 1), (300, 0)]);
        let bytes = lengths(&all, Unit::Bytes, |_| true);
        assert_eq!(longest(&bytes), 60);
        assert!((mean(&packets, 100, 300) - 0.75).abs() < 1e-9);
        assert!((mean(&packets, 0, 400) - 0.375).abs() < 1e-9);
    }
}
