// SPDX-License-Identifier: GPL-2.0
//! Pairs of sockets, one in either host, of each transport.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use anyhow::{bail, ensure, Result};
use nix::sys::socket::{setsockopt, sockopt};
use socket2::SockRef;
use turnstile_socket::{SendOptions, Socket};

use super::rows::{Row, Transport};
use super::PATIENCE;
use crate::topology::Net;

/// Port of the first pair; each further one has the next.
const PORT: u16 = 5000;
/// Bytes of a datagram: a full packet's, over IPv4 and IPv6.
const DATAGRAM: [usize; 2] = [1472, 1452];
/// Of those that one call sends.
const MOST_DATAGRAMS: usize = 44;
/// Room for all datagrams that are under way: nobody sends one again.
const UDP_BUFFER: usize = 64 << 20;

/// A socket: which pair's, and of which host.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) pair: usize,
    pub(super) host: usize,
}

/// Pairs of sockets.
pub(super) trait Ends: Sync {
    /// Sends a message to the other socket of the pair.
    fn send(&self, from: At, data: &[u8]) -> Result<()>;
    /// Receives a part of one, whose length it returns; 0 if there is none and the socket does not
    /// wait.
    fn receive(&self, at: At, buffer: &mut [u8]) -> Result<usize>;
    /// What to wait for at a socket.
    fn fd(&self, at: At) -> BorrowedFd<'_>;
    /// No more is sent than so much from now on, bit/s; without, as it comes.
    fn pace(&self, rate: Option<u32>) -> Result<()>;
}

/// The sockets of a row.
pub(super) fn open<'a>(net: &'a Net, row: &Row) -> Result<Box<dyn Ends + 'a>> {
    let pairs = row.load.sockets();
    let wait = pairs == 1;
    let address = |host: usize, pair: u16| {
        let host = &net.hosts[host];
        let ip = if row.load.v6 {
            IpAddr::from(host.v6)
        } else {
            host.v4.into()
        };
        SocketAddr::from((ip, PORT + pair))
    };
    Ok(match row.transport {
        Transport::Turnstile => Box::new(Turnstile::new(net, address, pairs, wait)?),
        Transport::Tcp | Transport::TcpPlain => Box::new(Tcp::new(net, address, pairs, wait)?),
        Transport::Udp | Transport::UdpGso => {
            let datagram = DATAGRAM[usize::from(row.load.v6)];
            let gso = (row.transport == Transport::UdpGso).then_some(datagram);
            let most = gso.map_or(datagram, |datagram| MOST_DATAGRAMS * datagram);
            Box::new(Udp {
                pairs: Udp::pairs(net, address, pairs, wait, gso)?,
                most,
            })
        }
    })
}

/// What was received, if anything was.
fn some(received: io::Result<usize>) -> Result<usize> {
    match received {
        Ok(0) => bail!("the other end is gone"),
        Ok(len) => Ok(len),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Messages.
struct Turnstile<'a> {
    net: &'a Net,
    pairs: Vec<[(Socket, SocketAddr); 2]>,
}

impl<'a> Turnstile<'a> {
    fn new(
        net: &'a Net,
        address: impl Fn(usize, u16) -> SocketAddr + Sync,
        pairs: u16,
        wait: bool,
    ) -> Result<Self> {
        let of_host = |host: usize| -> Result<Vec<(Socket, SocketAddr)>> {
            net.hosts[host].ns.enter(|| {
                let socket = |pair| -> Result<_> {
                    let socket = Socket::bind(address(host, pair))?;
                    socket.set_read_timeout(Some(PATIENCE))?;
                    socket.set_write_timeout(Some(PATIENCE))?;
                    if host == 1 && !wait {
                        socket.set_nonblocking(true)?;
                    }
                    Ok((socket, address(1 - host, pair)))
                };
                (0..pairs).map(socket).collect()
            })
        };
        let both = of_host(0)?.into_iter().zip(of_host(1)?);
        Ok(Self {
            net,
            pairs: both.map(|(near, far)| [near, far]).collect(),
        })
    }
}

impl Ends for Turnstile<'_> {
    fn send(&self, from: At, data: &[u8]) -> Result<()> {
        let (socket, to) = &self.pairs[from.pair][from.host];
        socket.send_to(data, *to, &SendOptions::default())?;
        Ok(())
    }

    fn receive(&self, at: At, buffer: &mut [u8]) -> Result<usize> {
        let received = self.pairs[at.pair][at.host].0.recv(buffer);
        some(received.map(|it| it.len).map_err(io::Error::from))
    }

    fn fd(&self, at: At) -> BorrowedFd<'_> {
        self.pairs[at.pair][at.host].0.as_fd()
    }

    fn pace(&self, rate: Option<u32>) -> Result<()> {
        let link = rate.map_or_else(|| "auto".to_owned(), |rate| format!("{rate}bit"));
        let command = format!("turnstile transport set link {link}");
        let mut hosts = self.net.hosts.iter();
        hosts.try_for_each(|host| host.ns.run(&command).map(drop))
    }
}

/// Bytes of a connection, as many as are expected.
struct Tcp(Vec<[TcpStream; 2]>);

impl Tcp {
    fn new(
        net: &Net,
        address: impl Fn(usize, u16) -> SocketAddr + Sync,
        pairs: u16,
        wait: bool,
    ) -> Result<Self> {
        let to = address(1, 0);
        let listener = net.hosts[1].ns.enter(|| Ok(TcpListener::bind(to)?))?;
        let connect = || -> Result<[TcpStream; 2]> {
            let near = TcpStream::connect(to)?;
            let (far, _) = listener.accept()?;
            for end in [&near, &far] {
                end.set_nodelay(true)?;
                end.set_read_timeout(Some(PATIENCE))?;
                // What is closed is gone at once: nothing is done later for it.
                SockRef::from(end).set_linger(Some(Duration::ZERO))?;
            }
            far.set_nonblocking(!wait)?;
            Ok([near, far])
        };
        let all = net.hosts[0]
            .ns
            .enter(|| (0..pairs).map(|_| connect()).collect())?;
        Ok(Self(all))
    }
}

impl Ends for Tcp {
    fn send(&self, from: At, data: &[u8]) -> Result<()> {
        Ok((&self.0[from.pair][from.host]).write_all(data)?)
    }

    fn receive(&self, at: At, buffer: &mut [u8]) -> Result<usize> {
        some((&self.0[at.pair][at.host]).read(buffer))
    }

    fn fd(&self, at: At) -> BorrowedFd<'_> {
        self.0[at.pair][at.host].as_fd()
    }

    fn pace(&self, rate: Option<u32>) -> Result<()> {
        let bytes = rate.map_or(u32::MAX, |rate| rate / 8);
        for end in self.0.iter().flatten() {
            // SAFETY: the socket is open, and the option's value is of the length that is told.
            let set = unsafe {
                libc::setsockopt(
                    end.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_MAX_PACING_RATE,
                    (&raw const bytes).cast(),
                    size_of_val(&bytes) as libc::socklen_t,
                )
            };
            ensure!(
                set == 0,
                "SO_MAX_PACING_RATE: {}",
                io::Error::last_os_error()
            );
        }
        Ok(())
    }
}

/// Datagrams of a packet each, as many as a message needs. Nobody makes sure that they arrive.
struct Udp {
    pairs: Vec<[UdpSocket; 2]>,
    /// Bytes that a call takes.
    most: usize,
}

impl Udp {
    /// `gso`: bytes of each of the datagrams that a call is to be cut into.
    fn pairs(
        net: &Net,
        address: impl Fn(usize, u16) -> SocketAddr + Sync,
        pairs: u16,
        wait: bool,
        gso: Option<usize>,
    ) -> Result<Vec<[UdpSocket; 2]>> {
        let of_host = |host: usize| -> Result<Vec<UdpSocket>> {
            net.hosts[host].ns.enter(|| {
                let socket = |pair| -> Result<_> {
                    let socket = UdpSocket::bind(address(host, pair))?;
                    socket.connect(address(1 - host, pair))?;
                    socket.set_read_timeout(Some(PATIENCE))?;
                    socket.set_nonblocking(host == 1 && !wait)?;
                    setsockopt(&socket, sockopt::RcvBufForce, &UDP_BUFFER)?;
                    if let Some(datagram) = gso {
                        setsockopt(&socket, sockopt::UdpGsoSegment, &(datagram as i32))?;
                        setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
                    }
                    Ok(socket)
                };
                (0..pairs).map(socket).collect()
            })
        };
        let both = of_host(0)?.into_iter().zip(of_host(1)?);
        Ok(both.map(|(near, far)| [near, far]).collect())
    }
}

impl Ends for Udp {
    fn send(&self, from: At, data: &[u8]) -> Result<()> {
        let socket = &self.pairs[from.pair][from.host];
        data.chunks(self.most).try_for_each(|part| {
            socket.send(part)?;
            Ok(())
        })
    }

    fn receive(&self, at: At, buffer: &mut [u8]) -> Result<usize> {
        some(self.pairs[at.pair][at.host].recv(buffer))
    }

    fn fd(&self, at: At) -> BorrowedFd<'_> {
        self.pairs[at.pair][at.host].as_fd()
    }

    fn pace(&self, _: Option<u32>) -> Result<()> {
        bail!("nobody paces UDP")
    }
}
