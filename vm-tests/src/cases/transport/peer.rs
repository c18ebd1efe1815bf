// SPDX-License-Identifier: GPL-2.0
//! A host that makes its packets itself, with messages of one packet each.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{bail, Result};
use turnstile_core::header::{FLAG_UNASKED, PORT as UDP_PORT};
use turnstile_core::transport::wire::{
    self, Cookie, Data, Delivered, First, Packet, Sync, MAX_HEADER,
};

use super::support::addresses;
use crate::topology::Host;

/// Bytes of each of its messages, unless said otherwise.
pub(super) const LEN: u32 = 1000;

/// A host that makes its packets itself.
pub(super) struct Peer {
    socket: UdpSocket,
    there: SocketAddr,
}

impl Peer {
    pub(super) fn new(host: &Host, v6: bool, there: SocketAddr) -> Result<Self> {
        let ip = addresses(host)[usize::from(v6)].ip();
        let socket = host.ns.enter(|| Ok(UdpSocket::bind((ip, UDP_PORT))?))?;
        socket.set_read_timeout(Some(Duration::from_millis(10)))?;
        let there = SocketAddr::new(there.ip(), UDP_PORT);
        Ok(Self { socket, there })
    }

    pub(super) fn push(&self, packet: &Packet, payload: u32) -> Result<()> {
        self.socket.send_to(&bytes(packet, payload), self.there)?;
        Ok(())
    }

    /// The cookie of the next message that comes in one packet, other than these.
    pub(super) fn other_than(&self, known: &[Cookie]) -> Result<Cookie> {
        let mut buffer = [0; 2048];
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            let Ok(len) = self.socket.recv(&mut buffer) else {
                continue;
            };
            match wire::parse(&buffer[..len], len) {
                Ok(Packet::First(it)) if !known.contains(&it.sync.cookie) => {
                    return Ok(it.sync.cookie);
                }
                _ => {}
            }
        }
        bail!("no message came")
    }

    /// A message to a port, in one packet.
    pub(super) fn first(&self, cookie: u64, port: u16, echo: u64) -> Result<()> {
        self.push(&first(sync(cookie, port, echo)), LEN)
    }

    /// Begins a message, answers the CHALLENGE, is given a ticket, and sends the message.
    pub(super) fn ticket(&self, cookie: u64, port: u16) -> Result<u64> {
        self.push(&Packet::Sync(sync(cookie, port, 0)), 0)?;
        let mut buffer = [0; 2048];
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            let Ok(len) = self.socket.recv(&mut buffer) else {
                continue;
            };
            match wire::parse(&buffer[..len], len) {
                Ok(Packet::Challenge(it)) if it.ticket => {
                    self.first(cookie, port, it.echo)?;
                    return Ok(it.echo);
                }
                Ok(Packet::Challenge(it)) => {
                    self.push(&Packet::Sync(sync(cookie, port, it.echo)), 0)?;
                }
                _ => {}
            }
        }
        bail!("it was given no ticket")
    }
}

/// The SYNC of such a message.
pub(super) fn sync(cookie: u64, port: u16, echo: u64) -> Sync {
    Sync {
        cookie: Cookie(cookie),
        source: 9,
        destination: port,
        length: Some(LEN),
        deadline: 0,
        coflow: 0,
        unscheduled: LEN,
        mss: 1400,
        priority: None,
        probe: false,
        acked: false,
        ren: false,
        patience: 100,
        echo,
        paced: false,
    }
}

/// All of a message with its SYNC.
pub(super) fn first(sync: Sync) -> Packet {
    let data = Data {
        cookie: sync.cookie,
        token: 0,
        timestamp: 0,
        offset: 0,
        len: sync.unscheduled,
        flags: FLAG_UNASKED,
        more: 1,
    };
    Packet::First(First {
        sync,
        data,
        prompt: true,
        delivered: Delivered::NONE,
    })
}

/// A packet as it is behind UDP's header.
pub(super) fn bytes(packet: &Packet, payload: u32) -> Vec<u8> {
    let mut header = [0; MAX_HEADER];
    let len = packet.write(&mut header);
    let mut bytes = header[..len].to_vec();
    bytes.resize(len + payload as usize, 0x5a);
    bytes
}
