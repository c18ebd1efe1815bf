// SPDX-License-Identifier: GPL-2.0
//! Packet sockets: frames sent and captured as they are.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    bind, recvfrom, send, setsockopt, socket, sockopt, AddressFamily, LinkAddr, MsgFlags, SockFlag,
    SockProtocol, SockType,
};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::netns::Netns;

/// Frames to send carry a `virtio_net_hdr`: the way to hand the kernel any GSO packet.
#[derive(Clone, Copy, Debug)]
struct PacketVnetHdr;

nix::setsockopt_impl!(
    PacketVnetHdr,
    libc::SOL_PACKET,
    libc::PACKET_VNET_HDR,
    libc::c_int,
    sockopt::SetStruct<libc::c_int>
);

/// `struct virtio_net_hdr`: says how a super-packet is to be cut and summed.
#[derive(Clone, Copy, Debug, Default)]
pub struct VirtioNetHeader {
    /// 1: the checksum is still to be made.
    pub flags: u8,
    /// 1 TCPv4, 3 UDP fragments, 4 TCPv6, 5 UDP segments.
    pub gso_type: u8,
    /// Bytes of all headers.
    pub header_len: u16,
    /// Bytes of payload per segment.
    pub gso_size: u16,
    /// Where the checksum starts.
    pub sum_start: u16,
    /// Where it is put, from there.
    pub sum_offset: u16,
}

impl VirtioNetHeader {
    fn bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[0] = self.flags;
        bytes[1] = self.gso_type;
        for (at, value) in [
            (2, self.header_len),
            (4, self.gso_size),
            (6, self.sum_start),
            (8, self.sum_offset),
        ] {
            // Byte order of the machine, as the kernel reads it.
            bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }
}

/// A frame that was captured.
#[derive(Clone, Debug)]
pub struct Captured {
    /// From the Ethernet header on.
    pub bytes: Vec<u8>,
    /// Whether this machine sent it.
    pub outgoing: bool,
}

/// A packet socket on one device.
#[derive(Debug)]
pub struct RawSocket {
    socket: OwnedFd,
    vnet_header: bool,
}

impl RawSocket {
    /// On device `dev` of `ns`.
    ///
    /// # Errors
    /// When there is no such device, or without root.
    pub fn open(ns: &Netns, dev: &str) -> Result<Self> {
        Self::with(ns, dev, false)
    }

    /// As [`RawSocket::open`], for frames that are GSO super-packets.
    ///
    /// # Errors
    /// As [`RawSocket::open`].
    pub fn open_gso(ns: &Netns, dev: &str) -> Result<Self> {
        Self::with(ns, dev, true)
    }

    fn with(ns: &Netns, dev: &str, vnet_header: bool) -> Result<Self> {
        let socket = open(ns, dev)?;
        if vnet_header {
            setsockopt(&socket, PacketVnetHdr, &1).context("setting PACKET_VNET_HDR")?;
        }
        setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20)).context("setting SO_RCVBUFFORCE")?;
        // A frame is sent when it is given to the socket, and not when those before it have left a
        // queue.
        setsockopt(&socket, sockopt::SndBufForce, &(32 << 20)).context("setting SO_SNDBUFFORCE")?;
        Ok(Self {
            socket,
            vnet_header,
        })
    }

    /// `SO_PRIORITY`: becomes `skb->priority` of the frames sent from now on.
    ///
    /// # Errors
    /// When it exceeds 31 bits.
    pub fn set_priority(&self, priority: u32) -> Result<()> {
        let priority = libc::c_int::try_from(priority).context("SO_PRIORITY")?;
        setsockopt(&self.socket, sockopt::Priority, &priority).context("setting SO_PRIORITY")
    }

    /// Sends one frame through the device's qdisc. `Ok(false)`: the qdisc dropped it.
    ///
    /// # Errors
    /// When the kernel refuses the frame itself.
    pub fn send(&self, frame: &[u8]) -> Result<bool> {
        if self.vnet_header {
            return self.send_gso(VirtioNetHeader::default(), frame);
        }
        self.send_bytes(frame)
    }

    /// Sends one super-packet; for sockets of [`RawSocket::open_gso`].
    ///
    /// # Errors
    /// As [`RawSocket::send`].
    pub fn send_gso(&self, header: VirtioNetHeader, frame: &[u8]) -> Result<bool> {
        self.send_bytes(&[&header.bytes()[..], frame].concat())
    }

    fn send_bytes(&self, bytes: &[u8]) -> Result<bool> {
        match send(self.socket.as_raw_fd(), bytes, MsgFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::ENOBUFS) => Ok(false),
            Err(error) => {
                Err(error).with_context(|| format!("sending a frame of {} bytes", bytes.len()))
            }
        }
    }

    /// The next frame, sent or received by the device; `None` when none comes for `patience_ms`.
    ///
    /// # Errors
    /// When receiving fails: the device went down.
    pub fn receive(&self, patience_ms: i64) -> Result<Option<Captured>> {
        const PACKET_OUTGOING: u8 = 4;
        setsockopt(
            &self.socket,
            sockopt::ReceiveTimeout,
            &TimeVal::milliseconds(patience_ms.max(1)),
        )
        .context("setting SO_RCVTIMEO")?;
        let mut buffer = vec![0; 65536];
        loop {
            match recvfrom::<LinkAddr>(self.socket.as_raw_fd(), &mut buffer) {
                Ok((len, from)) => {
                    let outgoing = from.is_some_and(|from| from.pkttype() == PACKET_OUTGOING);
                    return Ok(Some(Captured {
                        bytes: buffer[..len].to_vec(),
                        outgoing,
                    }));
                }
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error).context("receiving a frame"),
            }
        }
    }
}

/// A packet socket bound to device `dev` of `ns`.
pub(super) fn open(ns: &Netns, dev: &str) -> Result<OwnedFd> {
    ns.enter(|| {
        let address: LinkAddr = getifaddrs()
            .context("listing devices")?
            .filter(|device| device.interface_name == dev)
            .find_map(|device| device.address?.as_link_addr().copied())
            .with_context(|| format!("no device {dev} in namespace {}", ns.name()))?;
        let socket = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::EthAll,
        )
        .context("making a packet socket")?;
        bind(socket.as_raw_fd(), &address)
            .with_context(|| format!("binding a packet socket to {dev}"))?;
        Ok(socket)
    })
}
