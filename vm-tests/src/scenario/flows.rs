// SPDX-License-Identifier: GPL-2.0
//! Endless messages over Turnstile's ports, and their packets as recorded at some of these.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{ensure, Result};
use turnstile_core::header;

use super::{Carrier, Queues, Seen, LEAD};
use crate::clock;
use crate::pcap::{Capture, Captured};
use crate::recorder;
use crate::topology::Fabric;
use crate::traffic::messages::{places, Message, Messages};
use crate::traffic::{Packet, MPU, OVERHEAD};

/// Bytes of a message that outlasts the measurement: alone, it fills 10 Gbit/s for 57 ms.
pub const ENDLESS: u64 = 64 << 20;

/// A message as packets on the wire name it: its sender and its cookie.
pub type Id = (Ipv4Addr, u64);

/// A data packet that passed a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// ns after the start.
    pub at: u64,
    /// Whose it is.
    pub id: Id,
    /// Bytes on the wire.
    pub wire: u64,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The data packets that left by each recorded port, by time.
    pub passed: Vec<Vec<Passed>>,
    /// What the ports saw.
    pub seen: Seen,
}

/// Sends messages for a time, with these options of the ports and of the transport, and records the
/// data packets that leave some ports (switch and device). Messages under way at the end are
/// aborted.
///
/// # Errors
/// When something is refused or a socket fails.
pub fn run(
    fabric: &Fabric,
    (ports, words): (&str, &str),
    messages: &[Message],
    record: &[(&str, &str)],
    span: Duration,
) -> Result<Outcome> {
    Queues::Tokens(ports.to_owned()).apply(fabric)?;
    let transport = Carrier::Turnstile(words.to_owned()).configure(fabric)?;
    let mut each: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for message in messages {
        *each.entry((message.from, message.to)).or_default() += 1;
    }
    let pairs: Vec<_> = each.keys().copied().collect();
    let channels = each.values().copied().max().unwrap_or(0);
    let places = places(fabric);
    let mut sockets = Messages::open(transport, &places, &pairs, channels)?;
    let captures = record
        .iter()
        .map(|(switch, dev)| Capture::start(&fabric.node(switch)?.ns, Some(dev)))
        .collect::<Result<Vec<_>>>()?;
    let start = clock::monotonic() + LEAD;
    let began = clock::realtime() + (start - clock::monotonic());
    sockets.run(messages, start, span)?;
    let passed = captures
        .into_iter()
        .zip(record)
        .map(|(capture, (_, dev))| data(&capture.finish()?, dev, began))
        .collect::<Result<_>>()?;
    Ok(Outcome {
        passed,
        seen: Seen::read(fabric)?,
    })
}

/// The data packets that device `dev` sent, by time; `began` is the start by the wall clock.
///
/// # Errors
/// When it was not recorded, or sent data that is too short to be of a message.
pub fn data(captured: &Captured, dev: &str, began: u64) -> Result<Vec<Passed>> {
    let mut passed = Vec::new();
    for packet in captured.sent_by(dev)? {
        let kind = recorder::what(packet);
        if !matches!(kind, Some(Packet::Data | Packet::Unscheduled)) {
            continue;
        }
        let id = id(&packet.bytes);
        ensure!(id.is_some(), "{dev} sent a data packet without a cookie");
        passed.extend(id.map(|id| Passed {
            at: packet.at.saturating_sub(began),
            id,
            wire: (packet.length + OVERHEAD).max(MPU) as u64,
        }));
    }
    Ok(passed)
}

/// The flow of a Turnstile packet over IPv4.
fn id(frame: &[u8]) -> Option<Id> {
    const ETHERNET: usize = 14;
    const UDP: usize = 8;
    let ip = frame.get(ETHERNET..)?;
    let from = Ipv4Addr::from(*ip.get(12..)?.first_chunk::<4>()?);
    let payload = usize::from(ip.first()? & 0xf) * 4 + UDP;
    let cookie = ip.get(payload + header::LEN..)?.first_chunk::<8>()?;
    Some((from, u64::from_be_bytes(*cookie)))
}

/// Wire bytes of each message in `from..until`, ns after the start. Those of which nothing passed
/// in that time are not in it.
pub fn bytes_by_message(passed: &[Passed], from: u64, until: u64) -> BTreeMap<Id, u64> {
    let mut bytes = BTreeMap::new();
    for packet in passed.iter().filter(|p| (from..until).contains(&p.at)) {
        *bytes.entry(packet.id).or_default() += packet.wire;
    }
    bytes
}

/// What passed in `from..until` (ns after the start), in bit/s on the wire.
pub fn rate(passed: &[Passed], from: u64, until: u64) -> f64 {
    let bytes: u64 = bytes_by_message(passed, from, until).values().sum();
    bytes as f64 * 8e9 / until.saturating_sub(from).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcap;
    use crate::traffic::frame::Frame;

    #[test]
    fn data_packets_are_told_by_sender_and_cookie() {
        let packet = |at, kind: u8, cookie: u64| {
            let mut payload = vec![0x10 | kind, 0, 0, 0];
            payload.extend(cookie.to_be_bytes());
            payload.extend([0; 1460]);
            let to = Ipv4Addr::new(10, 0, 0, 2);
            let bytes = Frame::udp4(to, 0, header::PORT, &payload).bytes();
            pcap::Packet {
                at,
                device: 1,
                sent: true,
                length: bytes.len(),
                bytes: bytes[..96].to_vec(),
            }
        };
        let (token, data_) = (header::Type::Token as u8, header::Type::Data as u8);
        let captured = Captured {
            packets: vec![
                packet(1000, data_, 7),
                packet(1100, token, 7),
                packet(1200, data_, 8),
            ],
            devices: BTreeMap::from([(1, "out".into())]),
        };
        let passed = data(&captured, "out", 900).unwrap();
        assert_eq!(
            passed
                .iter()
                .map(|p| (p.at, p.id.1, p.wire))
                .collect::<Vec<_>>(),
            [(100, 7, 1538), (300, 8, 1538)]
        );
        assert_eq!(bytes_by_message(&passed, 0, 300).len(), 1);
        assert_eq!(rate(&passed, 0, 400), 2.0 * 1538.0 * 8e9 / 400.0);
    }
}
