// SPDX-License-Identifier: GPL-2.0
//! Paced UDP senders.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use nix::sys::socket::{setsockopt, sockopt};
use turnstile_core::header::PORT;

use super::packet::{wire_length, Packet, Stamp, MIN_PAYLOAD, MTU_PAYLOAD};
use crate::clock;
use crate::netns::Netns;

/// A stream of equal packets at a constant rate.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The stream's number, by which a sink identifies it.
    pub stream: u16,
    /// What each packet is.
    pub packet: Packet,
    /// Where they go. Port [`PORT`] makes them Turnstile packets.
    pub to: SocketAddr,
    /// Bytes of UDP payload, at least [`MIN_PAYLOAD`].
    pub payload: usize,
    /// Packets per second; infinite: as fast as the socket takes them.
    pub rate: f64,
    /// When it begins, after the source's start.
    pub from: Duration,
    /// When it ends, after the source's start.
    pub until: Duration,
    /// It also ends after so many packets.
    pub limit: u64,
    /// IP's differentiated-services code point.
    pub dscp: u8,
    /// ECN's two bits.
    pub ecn: u8,
    /// `SO_PRIORITY`: becomes `skb->priority` on the sender's own devices.
    pub priority: u32,
    /// Segments per send: more than 1 makes the kernel build UDP GSO super-packets.
    pub segments: usize,
}

impl Flow {
    /// A flow of 100 packets per second, of the usual size for what they are, without end.
    pub fn new(stream: u16, packet: Packet, to: impl Into<std::net::IpAddr>) -> Self {
        let payload = match packet {
            Packet::Token(_) | Packet::Signal => MIN_PAYLOAD,
            _ => MTU_PAYLOAD,
        };
        Self {
            stream,
            packet,
            to: SocketAddr::new(to.into(), PORT),
            payload,
            rate: 100.0,
            from: Duration::ZERO,
            until: Duration::MAX,
            limit: u64::MAX,
            dscp: 0,
            ecn: 0,
            priority: 0,
            segments: 1,
        }
    }

    /// At so many packets per second.
    pub fn packets_per_s(self, rate: f64) -> Self {
        Self { rate, ..self }
    }

    /// At so many bits per second on the wire.
    pub fn bits_per_s(self, rate: f64) -> Self {
        let bits = self.wire_length() * 8;
        Self {
            rate: rate / bits as f64,
            ..self
        }
    }

    /// During this time after the source's start.
    pub fn window(self, from: Duration, until: Duration) -> Self {
        Self {
            from,
            until,
            ..self
        }
    }

    /// So many packets, as fast as the socket takes them.
    pub fn burst(self, limit: u64) -> Self {
        Self {
            limit,
            rate: f64::INFINITY,
            ..self
        }
    }

    /// With so many bytes of UDP payload, at least [`MIN_PAYLOAD`].
    pub fn payload(self, payload: usize) -> Self {
        Self {
            payload: payload.max(MIN_PAYLOAD),
            ..self
        }
    }

    /// Bytes that one packet occupies on the wire.
    pub fn wire_length(&self) -> usize {
        wire_length(self.payload, self.to.is_ipv6())
    }

    /// How many packets it should send before `end`.
    pub fn intended(&self, end: Duration) -> u64 {
        let seconds = end.min(self.until).saturating_sub(self.from).as_secs_f64();
        ((seconds * self.rate) as u64).min(self.limit)
    }
}

/// What a flow has sent.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// The flow's number.
    pub stream: u16,
    /// Packets (segments of a super-packet count each).
    pub packets: u64,
    /// Bytes of these on the wire.
    pub wire_bytes: u64,
    /// Sends that the kernel refused: no buffer, or the local queue dropped it.
    pub refused: u64,
}

/// A thread that sends flows.
#[derive(Debug)]
pub struct Source {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Sent>>>,
}

impl Source {
    /// Starts sending from inside `ns` when the monotonic clock shows `start`.
    ///
    /// Sending follows an absolute schedule: a sender that was late, because the machine is slow,
    /// sends what is due at once.
    pub fn start(ns: &Netns, flows: Vec<Flow>, start: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Self {
            stop,
            thread: ns.spawn(move || send(flows, start, &stopped)),
        }
    }

    /// Waits until all flows have ended.
    ///
    /// # Errors
    /// When a socket could not be made or used.
    pub fn wait(self) -> Result<Vec<Sent>> {
        self.thread
            .join()
            .map_err(|_| anyhow!("a source panicked"))?
    }

    /// Ends all flows.
    ///
    /// # Errors
    /// As [`Source::wait`].
    pub fn stop(self) -> Result<Vec<Sent>> {
        self.stop.store(true, Ordering::Relaxed);
        self.wait()
    }

    /// Sends flows from inside `ns` now and waits until they have ended.
    ///
    /// # Errors
    /// As [`Source::wait`].
    pub fn run(ns: &Netns, flows: Vec<Flow>) -> Result<Vec<Sent>> {
        Self::start(ns, flows, clock::monotonic()).wait()
    }
}

/// A flow on its way.
struct Running {
    flow: Flow,
    socket: UdpSocket,
    payload: Vec<u8>,
    sequence: u32,
    sent: Sent,
    /// The monotonic clock at its first packet.
    begin: u64,
    /// At its end.
    end: u64,
}

impl Running {
    fn new(flow: Flow, start: u64) -> Result<Self> {
        let any: SocketAddr = if flow.to.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any).context("binding a source's socket")?;
        socket
            .connect(flow.to)
            .with_context(|| format!("connecting to {}", flow.to))?;
        let tos = libc::c_int::from((flow.dscp << 2) | flow.ecn);
        match flow.to {
            SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4Tos, &tos),
            SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6TClass, &tos),
        }
        .context("setting the code point")?;
        let priority = libc::c_int::try_from(flow.priority).context("SO_PRIORITY")?;
        // After IP_TOS, which sets the priority too.
        setsockopt(&socket, sockopt::Priority, &priority).context("setting SO_PRIORITY")?;
        // Packets in this host's own queue count against the socket's buffer, and must not hold up
        // the source.
        setsockopt(&socket, sockopt::SndBufForce, &(8 << 20)).context("setting SO_SNDBUFFORCE")?;
        if flow.segments > 1 {
            let size = libc::c_int::try_from(flow.payload).context("UDP_SEGMENT")?;
            setsockopt(&socket, sockopt::UdpGsoSegment, &size).context("setting UDP_SEGMENT")?;
        }
        Ok(Self {
            payload: vec![0; flow.payload * flow.segments],
            sequence: 0,
            sent: Sent {
                stream: flow.stream,
                ..Sent::default()
            },
            begin: start.saturating_add(clock::nanos(flow.from)),
            end: start.saturating_add(clock::nanos(flow.until)),
            flow,
            socket,
        })
    }

    /// When the next packet is due; `None` at the end.
    fn due(&self) -> Option<u64> {
        let done = self.sent.packets + self.sent.refused;
        if done >= self.flow.limit {
            return None;
        }
        let at = self
            .begin
            .saturating_add((done as f64 / self.flow.rate * 1e9) as u64);
        (at < self.end).then_some(at)
    }

    fn send(&mut self) -> Result<()> {
        let segments = self.flow.segments;
        for segment in self.payload.chunks_exact_mut(self.flow.payload) {
            let stamp = Stamp {
                stream: self.flow.stream,
                sequence: self.sequence,
                sent_at: clock::realtime(),
            };
            stamp.write(self.flow.packet, segment);
            self.sequence = self.sequence.wrapping_add(1);
        }
        match self.socket.send(&self.payload) {
            Ok(_) => {
                self.sent.packets += segments as u64;
                self.sent.wire_bytes += (segments * self.flow.wire_length()) as u64;
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                self.sent.refused += segments as u64;
            }
            // An ICMP error for an earlier packet, because no sink listens: to be ignored. This
            // packet was not sent and is still due.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                self.sequence = self.sequence.wrapping_sub(segments as u32);
            }
            Err(error) => {
                return Err(error).with_context(|| format!("sending to {}", self.flow.to))
            }
        }
        Ok(())
    }
}

fn send(flows: Vec<Flow>, start: u64, stop: &AtomicBool) -> Result<Vec<Sent>> {
    /// Long sleeps are split so that a stop is noticed.
    const GLANCE: u64 = 50_000_000;
    clock::exact_timers();
    let mut running = flows
        .into_iter()
        .map(|flow| Running::new(flow, start))
        .collect::<Result<Vec<_>>>()?;
    while !stop.load(Ordering::Relaxed) {
        let Some((at, next)) = running
            .iter_mut()
            .filter_map(|flow| Some((flow.due()?, flow)))
            .min_by_key(|(at, _)| *at)
        else {
            break;
        };
        let now = clock::monotonic();
        if at <= now {
            next.send()?;
        } else {
            clock::sleep_until(at.min(now + GLANCE));
        }
    }
    Ok(running.into_iter().map(|flow| flow.sent).collect())
}
