// SPDX-License-Identifier: GPL-2.0
//! Receivers that count per stream and measure latency.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::net::{Ipv6Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{recvmsg, setsockopt, sockopt, ControlMessageOwned, MsgFlags};
use nix::sys::time::{TimeVal, TimeValLike};
use turnstile_core::header::PORT;

use super::packet::{stamp_of, wire_length};
use crate::clock;
use crate::netns::Netns;

/// The packets received of one stream.
#[derive(Clone, Debug)]
pub struct Received {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// Packets that came after one with a higher sequence number.
    pub reordered: u64,
    /// The shortest latency from the sender's socket to the receiver's device, ns.
    pub latency_min: u64,
    /// The longest.
    pub latency_max: u64,
    /// The sum of all, for the mean.
    pub latency_sum: u64,
    /// Wall clock at the first packet, ns.
    pub first: u64,
    /// Wall clock at the last packet, ns.
    pub last: u64,
    /// Wire bytes per bin of [`Sink::BIN`], by the wall clock's bin number.
    pub bins: BTreeMap<u64, u64>,
    /// The arrival times of each packet in ns, if the sink was asked to keep them.
    pub arrivals: Vec<u64>,
    highest: u32,
}

impl Default for Received {
    fn default() -> Self {
        Self {
            packets: 0,
            wire_bytes: 0,
            reordered: 0,
            latency_min: u64::MAX,
            latency_max: 0,
            latency_sum: 0,
            first: 0,
            last: 0,
            bins: BTreeMap::new(),
            arrivals: Vec::new(),
            highest: 0,
        }
    }
}

impl Received {
    /// Mean latency in ns; `None` when nothing came.
    pub fn latency_mean(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.latency_sum as f64 / self.packets as f64)
    }

    fn count(&mut self, sequence: u32, sent_at: u64, at: u64, wire: usize, keep: bool) {
        let latency = at.saturating_sub(sent_at);
        if self.packets == 0 {
            self.first = at;
        } else if sequence < self.highest {
            self.reordered += 1;
        }
        self.highest = self.highest.max(sequence);
        self.packets += 1;
        self.wire_bytes += wire as u64;
        self.latency_min = self.latency_min.min(latency);
        self.latency_max = self.latency_max.max(latency);
        self.latency_sum += latency;
        self.last = at;
        *self.bins.entry(at / clock::nanos(Sink::BIN)).or_default() += wire as u64;
        if keep {
            self.arrivals.push(at);
        }
    }
}

type Streams = BTreeMap<u16, Received>;

/// A thread that receives on [`PORT`], over IPv4 and IPv6.
#[derive(Debug)]
pub struct Sink {
    stop: Arc<AtomicBool>,
    streams: Arc<Mutex<Streams>>,
    thread: JoinHandle<Result<()>>,
}

impl Sink {
    /// Width of the bins of [`Received::bins`].
    pub const BIN: Duration = Duration::from_millis(100);

    /// Starts receiving inside `ns`; packets that arrive after the return are counted.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub fn start(ns: &Netns) -> Result<Self> {
        Self::with(ns, false)
    }

    /// As [`Sink::start`], and keeps every arrival time.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub fn keeping_arrivals(ns: &Netns) -> Result<Self> {
        Self::with(ns, true)
    }

    fn with(ns: &Netns, keep: bool) -> Result<Self> {
        let socket = ns.enter(open)?;
        let stop = Arc::new(AtomicBool::new(false));
        let streams = Arc::new(Mutex::new(Streams::new()));
        let (stopped, shared) = (Arc::clone(&stop), Arc::clone(&streams));
        // A socket stays in the namespace it was made in, whichever thread reads it.
        let thread = std::thread::spawn(move || receive(&socket, &stopped, &shared, keep));
        Ok(Self {
            stop,
            streams,
            thread,
        })
    }

    /// The packets received so far.
    pub fn so_far(&self) -> BTreeMap<u16, Received> {
        self.streams
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Stops once nothing has come for a moment, and returns what was received.
    ///
    /// # Errors
    /// When receiving failed.
    pub fn finish(self) -> Result<BTreeMap<u16, Received>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("a sink panicked"))??;
        Ok(std::mem::take(
            &mut *self.streams.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }
}

fn open() -> Result<UdpSocket> {
    let socket =
        UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT)).context("binding a sink's socket")?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).context("setting SO_TIMESTAMPNS")?;
    setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20)).context("setting SO_RCVBUFFORCE")?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(50))
        .context("setting SO_RCVTIMEO")?;
    Ok(socket)
}

fn receive(
    socket: &UdpSocket,
    stop: &AtomicBool,
    streams: &Mutex<Streams>,
    keep: bool,
) -> Result<()> {
    let mut buffer = [0; 65536];
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    loop {
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::empty();
        let (len, at, v6) = match recvmsg::<nix::sys::socket::SockaddrIn6>(
            socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            flags,
        ) {
            Ok(message) => {
                let stamped = message.cmsgs().ok().and_then(|mut all| {
                    all.find_map(|one| match one {
                        ControlMessageOwned::ScmTimestampns(at) => {
                            u64::try_from(at.num_nanoseconds()).ok()
                        }
                        _ => None,
                    })
                });
                let v6 = message
                    .address
                    .is_some_and(|from| from.ip().to_ipv4_mapped().is_none());
                (message.bytes, stamped.unwrap_or_else(clock::realtime), v6)
            }
            Err(Errno::EAGAIN) if stop.load(Ordering::Relaxed) => return Ok(()),
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(error) => return Err(error).context("receiving"),
        };
        let Some(stamp) = stamp_of(&buffer[..len]) else {
            continue;
        };
        let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = streams.entry(stamp.stream).or_default();
        stream.count(
            stamp.sequence,
            stamp.sent_at,
            at,
            wire_length(len, v6),
            keep,
        );
    }
}
