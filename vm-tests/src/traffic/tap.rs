// SPDX-License-Identifier: GPL-2.0
//! A tap on a device: when each stamped packet came in, to the nanosecond, and how long it was.
//!
//! It has no thread and reads only on request, many packets per call, so that it costs little real
//! time and no virtual time.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{
    recvmmsg, setsockopt, sockopt, ControlMessageOwned, LinkAddr, MsgFlags, MultiHeaders,
};
use nix::sys::time::TimeValLike;

use super::packet::{stamp_of, Stamp};
use super::raw;
use crate::netns::Netns;

/// A packet that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// ns of the wall clock when the device received it.
    pub at: u64,
    /// Bytes of the frame, without a VLAN tag that the device has taken off. A super-packet is one
    /// long frame.
    pub len: u32,
    /// The sender's stream, from the (first) stamp.
    pub stream: u16,
    /// Its sequence number in the stream.
    pub sequence: u32,
}

/// A socket that gets a copy of all that a device receives.
#[derive(Debug)]
pub struct Tap {
    socket: OwnedFd,
    headers: Headers,
    /// [`Tap::BATCH`] times [`Tap::SNAP`] bytes.
    buffer: Vec<u8>,
}

/// The space that [`recvmmsg`] works in.
struct Headers(MultiHeaders<LinkAddr>);

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Headers")
    }
}

impl Tap {
    /// Packets per call.
    const BATCH: usize = 1024;
    /// Bytes that are kept of a packet: the stamp's end, behind Ethernet, two VLAN tags, IPv6 and
    /// UDP.
    const SNAP: usize = 96;

    /// On device `dev` of `ns`.
    ///
    /// # Errors
    /// When there is no such device, or without root.
    pub fn open(ns: &Netns, dev: &str) -> Result<Self> {
        let socket = raw::open(ns, dev)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)
            .context("setting SO_TIMESTAMPNS")?;
        setsockopt(&socket, sockopt::RcvBufForce, &(256 << 20))
            .context("setting SO_RCVBUFFORCE")?;
        let space = nix::cmsg_space!(nix::sys::time::TimeSpec);
        Ok(Self {
            socket,
            headers: Headers(MultiHeaders::preallocate(Self::BATCH, Some(space))),
            buffer: vec![0; Self::BATCH * Self::SNAP],
        })
    }

    /// Discards what has come until now.
    ///
    /// # Errors
    /// When receiving fails.
    pub fn flush(&mut self) -> Result<()> {
        self.each(|_, _, _| Ok(()))
    }

    /// What has come since the last call, in order. Frames that the device's own side sent are not
    /// among it.
    ///
    /// # Errors
    /// When receiving fails, or something came that no source sent.
    pub fn read(&mut self) -> Result<Vec<Tapped>> {
        let mut all = Vec::new();
        self.each(|at, len, frame| {
            let stamp = stamp_in(frame).with_context(|| {
                format!("a frame of {len} bytes came that no source sent: {frame:02x?}")
            })?;
            all.push(Tapped {
                at: at.context("a frame came without a timestamp")?,
                len: u32::try_from(len).context("a length")?,
                stream: stamp.stream,
                sequence: stamp.sequence,
            });
            Ok(())
        })?;
        Ok(all)
    }

    fn each(
        &mut self,
        mut work: impl FnMut(Option<u64>, usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        const OUTGOING: u8 = 4;
        loop {
            let mut slices: Vec<[IoSliceMut<'_>; 1]> = self
                .buffer
                .chunks_exact_mut(Self::SNAP)
                .map(|chunk| [IoSliceMut::new(chunk)])
                .collect();
            // With MSG_TRUNC the kernel tells the frame's length, not that of what is kept.
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
            let headers = &mut self.headers.0;
            let received = recvmmsg(
                self.socket.as_raw_fd(),
                headers,
                slices.iter_mut(),
                flags,
                None,
            );
            let messages = match received {
                Ok(messages) => messages,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(error) => return Err(error).context("receiving from a tap"),
            };
            let mut count = 0;
            for message in messages {
                count += 1;
                if message
                    .address
                    .is_some_and(|from| from.pkttype() == OUTGOING)
                {
                    continue;
                }
                let at = message.cmsgs().ok().and_then(|mut all| {
                    all.find_map(|one| match one {
                        ControlMessageOwned::ScmTimestampns(at) => {
                            u64::try_from(at.num_nanoseconds()).ok()
                        }
                        _ => None,
                    })
                });
                let frame = message.iovs().next().unwrap_or_default();
                work(at, message.bytes, frame)?;
            }
            ensure!(count > 0, "a tap received nothing at all");
            // Another call would find nothing, and in simulated time an error takes a microsecond.
            if count < Self::BATCH {
                return Ok(());
            }
        }
    }
}

/// The stamp in an Ethernet frame: UDP over IPv4 or IPv6, with or without VLAN tags.
fn stamp_in(frame: &[u8]) -> Option<Stamp> {
    const UDP: u8 = 17;
    let mut at = 12;
    loop {
        let kind = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        at += 2;
        let (protocol, len) = match kind {
            0x8100 | 0x88a8 => {
                at += 2;
                continue;
            }
            0x0800 => (9, usize::from(frame.get(at)? & 15) * 4),
            0x86dd => (6, 40),
            _ => return None,
        };
        if *frame.get(at + protocol)? != UDP {
            return None;
        }
        return stamp_of(frame.get(at + len + 8..)?);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::super::frame::{Frame, TPID_C, TPID_S};
    use super::super::{Packet, MIN_PAYLOAD};
    use super::*;

    #[test]
    fn stamps_are_found_in_frames() {
        let stamp = Stamp {
            stream: 7,
            sequence: 99,
            sent_at: 0,
        };
        let mut payload = [0; MIN_PAYLOAD];
        stamp.write(Packet::Token(1), &mut payload);
        let v4 = Frame::udp4(Ipv4Addr::LOCALHOST, 0, 1, &payload);
        let v6 = Frame::udp6(Ipv6Addr::LOCALHOST, 0, 1, &payload);
        for frame in [
            v4.clone(),
            v6.clone(),
            v4.tagged(TPID_C, 5),
            v6.tagged(TPID_C, 5).tagged(TPID_S, 6),
        ] {
            let bytes = frame.unpadded();
            assert!(bytes.len() <= Tap::SNAP);
            assert_eq!(stamp_in(&bytes), Some(stamp));
        }
        assert_eq!(stamp_in(&Frame::arp().bytes()), None);
        assert_eq!(stamp_in(&[]), None);
    }
}
