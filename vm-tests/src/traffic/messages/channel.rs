// SPDX-License-Identifier: GPL-2.0
//! Channels: sockets that carry one message after the other between two hosts.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use nix::errno::Errno;
use nix::sys::socket::{recvmsg, send, setsockopt, sockopt, MsgFlags};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use turnstile_core::transport::uapi::{sockopt as option, IPPROTO_TURNSTILE, SOL_TURNSTILE};

use super::{Place, Transport};

/// How many bytes must be there before a reader is woken.
#[derive(Clone, Copy)]
struct ReceiveLowWater;

nix::setsockopt_impl!(
    ReceiveLowWater,
    libc::SOL_SOCKET,
    libc::SO_RCVLOWAT,
    libc::c_int,
    sockopt::SetStruct<'_, libc::c_int>
);

const LEVEL: libc::c_int = SOL_TURNSTILE as libc::c_int;
const DEFAULT_PRIORITY: libc::c_int = option::DEFAULT_PRIORITY as libc::c_int;

/// Priority of the messages that a socket sends; -1: as the policy says.
#[derive(Clone, Copy)]
struct Priority;

nix::setsockopt_impl!(
    Priority,
    LEVEL,
    DEFAULT_PRIORITY,
    libc::c_int,
    sockopt::SetStruct<'_, libc::c_int>
);

/// A TCP reader is woken for so many bytes, or the rest of a message, and not for each packet
/// (SO_RCVLOWAT).
const GULP: u64 = 128 << 10;

/// A channel from one host to another.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) transport: Transport,
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) sender: OwnedFd,
    pub(super) receiver: OwnedFd,
    low_water: u64,
    priority: Option<u8>,
}

impl Channel {
    /// So many, between two of the `places`.
    pub(super) fn open(
        transport: Transport,
        places: &[Place<'_>],
        (from, to): (usize, usize),
        count: usize,
    ) -> Result<Vec<Self>> {
        let (near, far) = (places[from], places[to]);
        let sockets = match transport {
            Transport::Tcp => tcp(near, far, count),
            Transport::Turnstile => turnstile(near, far, count),
        };
        Ok(sockets
            .with_context(|| format!("sockets from {} to {}", near.address, far.address))?
            .into_iter()
            .map(|(sender, receiver)| Self {
                transport,
                from,
                to,
                sender,
                receiver,
                low_water: 1,
                priority: None,
            })
            .collect())
    }

    /// Makes ready for a message.
    pub(super) fn prepare(&mut self, bytes: u64, priority: Option<u8>) -> Result<()> {
        match self.transport {
            Transport::Tcp => self.wake_at(bytes),
            Transport::Turnstile if priority == self.priority => Ok(()),
            Transport::Turnstile => {
                let value = priority.map_or(-1, libc::c_int::from);
                setsockopt(&self.sender, Priority, &value).context("setting the priority")?;
                self.priority = priority;
                Ok(())
            }
        }
    }

    /// Sends what is left of a message, `bytes`; 0: not now.
    pub(super) fn send(&self, bytes: &[u8]) -> Result<u64> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        match send(self.sender.as_raw_fd(), bytes, flags) {
            Ok(sent) => Ok(sent as u64),
            Err(Errno::EAGAIN) => Ok(0),
            Err(errno) => Err(errno).context("sending"),
        }
    }

    /// Reads of the message, of which `left` are missing; 0: nothing is there.
    pub(super) fn receive(&mut self, left: u64, buffer: &mut [u8]) -> Result<u64> {
        let flags = MsgFlags::MSG_DONTWAIT;
        let mut most = buffer.len();
        if self.transport == Transport::Tcp {
            // What comes behind it would belong to another message.
            most = most.min(usize::try_from(left).unwrap_or(most));
        }
        let mut slices = [std::io::IoSliceMut::new(&mut buffer[..most])];
        let receiver = self.receiver.as_raw_fd();
        let (read, flags) = match recvmsg::<()>(receiver, &mut slices, None, flags) {
            Ok(message) => (message.bytes as u64, message.flags),
            Err(Errno::EAGAIN) => return Ok(0),
            Err(errno) => return Err(errno).context("receiving"),
        };
        if read == 0 {
            bail!("{left} bytes of a message are missing: its sender has closed");
        }
        ensure!(
            read <= left,
            "{read} bytes came where {left} of a message were missing"
        );
        match self.transport {
            Transport::Tcp => self.wake_at(left - read)?,
            Transport::Turnstile => {
                let end = flags.contains(MsgFlags::MSG_EOR);
                ensure!(
                    end == (read == left),
                    "{left} bytes were missing, {read} came, and the message's end {} told",
                    if end { "is" } else { "is not" }
                );
            }
        }
        Ok(read)
    }

    /// TCP's reader is woken when so many have come, or [`GULP`].
    fn wake_at(&mut self, bytes: u64) -> Result<()> {
        let bytes = bytes.clamp(1, GULP);
        if bytes != self.low_water {
            // At most GULP.
            setsockopt(&self.receiver, ReceiveLowWater, &(bytes as libc::c_int))
                .context("setting SO_RCVLOWAT")?;
            self.low_water = bytes;
        }
        Ok(())
    }
}

impl Drop for Channel {
    /// Aborts it at once, with the data under way. A connection that was closed in order would
    /// outlive its network and retransmit for minutes.
    fn drop(&mut self) {
        for socket in [&self.sender, &self.receiver] {
            // On a connection that is closed it fails, and is not needed.
            let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
        }
    }
}

/// Sender and receiver of each.
type Pairs = Vec<(OwnedFd, OwnedFd)>;

fn tcp(near: Place<'_>, far: Place<'_>, count: usize) -> Result<Pairs> {
    let listener = far
        .ns
        .enter(|| TcpListener::bind((far.address, 0)).context("listening"))?;
    let address = listener.local_addr().context("the listener's address")?;
    near.ns.enter(|| {
        (0..count)
            .map(|_| {
                let sender = TcpStream::connect_timeout(&address, Duration::from_secs(10))
                    .context("connecting")?;
                sender.set_nodelay(true).context("setting TCP_NODELAY")?;
                let (receiver, _) = listener.accept().context("accepting")?;
                Ok((sender.into(), receiver.into()))
            })
            .collect()
    })
}

fn turnstile(near: Place<'_>, far: Place<'_>, count: usize) -> Result<Pairs> {
    let make = || {
        let protocol = Protocol::from(i32::from(IPPROTO_TURNSTILE));
        Socket::new(Domain::IPV4, Type::from(libc::SOCK_RDM), Some(protocol))
            .context("making a Turnstile socket")
    };
    let receivers: Vec<Socket> = far.ns.enter(|| {
        (0..count)
            .map(|_| {
                let receiver = make()?;
                let any = SocketAddr::from((far.address, 0));
                receiver.bind(&any.into()).context("binding")?;
                Ok(receiver)
            })
            .collect::<Result<_>>()
    })?;
    let pairs: Vec<(Socket, Socket)> = near.ns.enter(|| {
        receivers
            .into_iter()
            .map(|receiver| {
                let to = receiver.local_addr().context("the receiver's address")?;
                let sender = make()?;
                sender.connect(&to).context("connecting")?;
                Ok((sender, receiver))
            })
            .collect::<Result<_>>()
    })?;
    if let Some((sender, receiver)) = pairs.first() {
        meet(sender, receiver)?;
    }
    Ok(pairs
        .into_iter()
        .map(|(sender, receiver)| (sender.into(), receiver.into()))
        .collect())
}

/// Two hosts exchange a message, by which the receiver learns that the sender has its address: what
/// a handshake is for TCP.
fn meet(sender: &Socket, receiver: &Socket) -> Result<()> {
    let patience = Some(Duration::from_secs(10));
    receiver
        .set_read_timeout(patience)
        .context("setting SO_RCVTIMEO")?;
    sender.send(&[0]).context("sending the first message")?;
    let mut byte = [std::mem::MaybeUninit::uninit()];
    receiver.recv(&mut byte).context("the first message")?;
    receiver
        .set_read_timeout(None)
        .context("setting SO_RCVTIMEO")
}
