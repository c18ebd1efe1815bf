// SPDX-License-Identifier: GPL-2.0
//! Captures packets with nanosecond timestamps, and writes them as tcpdump and Wireshark read them.
//!
//! The kernel stamps a packet when a device receives it, and when a device is handed it to send:
//! behind its queue. The reader sleeps in the socket.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{anyhow, ensure, Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{
    bind, getsockopt, recvmsg, setsockopt, socket, sockopt, AddressFamily, ControlMessageOwned,
    LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::clock;
use crate::netns::Netns;

/// How many bytes of each packet are kept unless said otherwise: headers, and a source's stamp.
pub const SNAP: usize = 96;

/// Bytes that the socket may hold until they are read.
const BUFFER: usize = 256 << 20;

/// Reading it sets it back to 0.
#[derive(Clone, Copy, Debug)]
struct PacketStatistics;

nix::getsockopt_impl!(
    PacketStatistics,
    libc::SOL_PACKET,
    libc::PACKET_STATISTICS,
    libc::tpacket_stats,
    sockopt::GetStruct<libc::tpacket_stats>
);

/// A packet as a device saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// ns of the wall clock.
    pub at: u64,
    /// The device's index in its namespace.
    pub device: usize,
    /// Sent by the device, and not received.
    pub sent: bool,
    /// Bytes of the whole frame, from the Ethernet header on.
    pub length: usize,
    /// The first of these bytes.
    pub bytes: Vec<u8>,
}

/// What was captured, in the order in which it happened.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// The packets.
    pub packets: Vec<Packet>,
    /// The namespace's devices by index.
    pub devices: BTreeMap<usize, String>,
}

impl Captured {
    /// The index of a device.
    ///
    /// # Errors
    /// When there was none of that name.
    pub fn device(&self, name: &str) -> Result<usize> {
        self.devices
            .iter()
            .find(|(_, device)| *device == name)
            .map(|(index, _)| *index)
            .with_context(|| format!("no device {name} was captured from"))
    }

    /// What one device sent and received.
    ///
    /// # Errors
    /// When there was none of that name.
    pub fn of<'a>(&'a self, name: &str) -> Result<impl Iterator<Item = &'a Packet>> {
        let device = self.device(name)?;
        Ok(self.packets.iter().filter(move |p| p.device == device))
    }

    /// What one device sent: for how long it was in the queue is no longer in it.
    ///
    /// # Errors
    /// When there was none of that name.
    pub fn sent_by<'a>(&'a self, name: &str) -> Result<impl Iterator<Item = &'a Packet>> {
        Ok(self.of(name)?.filter(|packet| packet.sent))
    }
}

/// A thread that captures.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Vec<Packet>>>,
    devices: BTreeMap<usize, String>,
}

impl Capture {
    /// Captures on all devices of `ns`, or on one, from now on; keeps [`SNAP`] bytes of each
    /// packet.
    ///
    /// # Errors
    /// When there is no such device, or without root.
    pub fn start(ns: &Netns, device: Option<&str>) -> Result<Self> {
        Self::keeping(ns, device, SNAP)
    }

    /// As [`Capture::start`], and keeps `snap` bytes of each packet.
    ///
    /// # Errors
    /// As [`Capture::start`].
    pub fn keeping(ns: &Netns, device: Option<&str>, snap: usize) -> Result<Self> {
        let (socket, devices) = ns.enter(|| {
            let devices = devices()?;
            let socket = open(&devices, device)
                .with_context(|| format!("capturing in namespace {}", ns.name()))?;
            Ok((socket, devices))
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        // A socket stays in the namespace it was made in, whichever thread reads it.
        let thread = std::thread::spawn(move || receive(&socket, snap, &stopped));
        Ok(Self {
            stop,
            thread,
            devices,
        })
    }

    /// Ends, once nothing has come for a moment, and gives what has come.
    ///
    /// # Errors
    /// When packets were lost because they came faster than they were read, or receiving failed.
    pub fn finish(self) -> Result<Captured> {
        self.stop.store(true, Ordering::Relaxed);
        let packets = self
            .thread
            .join()
            .map_err(|_| anyhow!("a capture panicked"))??;
        Ok(Captured {
            packets,
            devices: self.devices,
        })
    }
}

/// The devices of the calling thread's namespace by their indices.
fn devices() -> Result<BTreeMap<usize, String>> {
    let list = nix::net::if_::if_nameindex().context("listing devices")?;
    Ok(list
        .iter()
        .map(|device| {
            (
                device.index() as usize,
                device.name().to_string_lossy().into_owned(),
            )
        })
        .collect())
}

fn open(devices: &BTreeMap<usize, String>, device: Option<&str>) -> Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::EthAll,
    )
    .context("making a packet socket")?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).context("setting SO_TIMESTAMPNS")?;
    setsockopt(&socket, sockopt::RcvBufForce, &BUFFER).context("setting SO_RCVBUFFORCE")?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(50))
        .context("setting SO_RCVTIMEO")?;
    if let Some(name) = device {
        ensure!(
            devices.values().any(|device| device == name),
            "no device {name}"
        );
        let address = nix::ifaddrs::getifaddrs()
            .context("listing devices")?
            .filter(|device| device.interface_name == name)
            .find_map(|device| device.address?.as_link_addr().copied())
            .with_context(|| format!("device {name} has no address"))?;
        bind(socket.as_raw_fd(), &address).with_context(|| format!("binding to {name}"))?;
    }
    Ok(socket)
}

fn receive(socket: &OwnedFd, snap: usize, stop: &AtomicBool) -> Result<Vec<Packet>> {
    const PACKET_OUTGOING: u8 = 4;
    let mut packets = Vec::new();
    let mut buffer = vec![0; snap];
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    loop {
        let mut slices = [IoSliceMut::new(&mut buffer)];
        let received = recvmsg::<LinkAddr>(
            socket.as_raw_fd(),
            &mut slices,
            Some(&mut control),
            // The whole length is told, although less is copied.
            MsgFlags::MSG_TRUNC,
        );
        let (length, at, from) = match received {
            Ok(message) => {
                let stamp = message.cmsgs().ok().and_then(|mut all| {
                    all.find_map(|one| match one {
                        ControlMessageOwned::ScmTimestampns(at) => {
                            u64::try_from(at.num_nanoseconds()).ok()
                        }
                        _ => None,
                    })
                });
                (
                    message.bytes,
                    stamp.unwrap_or_else(clock::realtime),
                    message.address,
                )
            }
            Err(Errno::EAGAIN) if stop.load(Ordering::Relaxed) => break,
            Err(Errno::EAGAIN | Errno::EINTR) => continue,
            Err(error) => return Err(error).context("capturing"),
        };
        packets.push(Packet {
            at,
            device: from.map_or(0, |from| from.ifindex()),
            sent: from.is_some_and(|from| from.pkttype() == PACKET_OUTGOING),
            length,
            bytes: buffer[..length.min(snap)].to_vec(),
        });
    }
    let statistics = getsockopt(socket, PacketStatistics).context("reading PACKET_STATISTICS")?;
    ensure!(
        statistics.tp_drops == 0,
        "{} of {} packets were lost while capturing",
        statistics.tp_drops,
        statistics.tp_packets
    );
    Ok(packets)
}

/// Writes packets as a pcap file: Ethernet, nanoseconds (magic 0xa1b23c4d), this machine's byte
/// order.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write<'a>(
    out: &mut impl Write,
    packets: impl IntoIterator<Item = &'a Packet>,
) -> io::Result<()> {
    const MAGIC: u32 = 0xa1b2_3c4d;
    const ETHERNET: u32 = 1;
    const LONGEST: u32 = 1 << 18;
    out.write_all(&MAGIC.to_ne_bytes())?;
    // Version 2.4.
    out.write_all(&2_u16.to_ne_bytes())?;
    out.write_all(&4_u16.to_ne_bytes())?;
    // Time zone and accuracy are 0 in every file there is.
    for field in [0, 0, LONGEST, ETHERNET] {
        out.write_all(&field.to_ne_bytes())?;
    }
    for packet in packets {
        let field = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        for value in [
            field(packet.at / 1_000_000_000),
            field(packet.at % 1_000_000_000),
            field(packet.bytes.len() as u64),
            field(packet.length as u64),
        ] {
            out.write_all(&value.to_ne_bytes())?;
        }
        out.write_all(&packet.bytes)?;
    }
    Ok(())
}

/// As [`write()`], into memory.
pub fn file<'a>(packets: impl IntoIterator<Item = &'a Packet>) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Memory takes everything.
    let _ = write(&mut bytes, packets);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_header_and_a_record_per_packet() {
        let packet = Packet {
            at: 1_767_225_600_123_456_789,
            device: 2,
            sent: true,
            length: 1514,
            bytes: vec![7; 96],
        };
        let bytes = file([&packet, &packet]);
        assert_eq!(bytes.len(), 24 + 2 * (16 + 96));
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(word(0), 0xa1b2_3c4d);
        assert_eq!(word(20), 1);
        assert_eq!(
            [24, 28, 32, 36].map(word),
            [1_767_225_600, 123_456_789, 96, 1514]
        );
    }
}
