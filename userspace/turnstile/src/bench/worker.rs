// SPDX-License-Identifier: GPL-2.0
//! Sends one message at a time, and tells how long it took until the receiver had it: over the
//! transport, or over TCP.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Type};
use turnstile_socket::{SendOptions, Socket};

use super::Over;
use crate::message::socket_for;

/// What is written at once.
pub(super) const PIECE: usize = 256 * 1024;
/// The length of a message, in front of it over TCP.
pub(super) const PREFIX: usize = 8;

/// Sends messages, one at a time.
pub(super) enum Worker {
    /// Over the transport.
    Turnstile {
        /// One for each IP version that was needed.
        sockets: HashMap<bool, Socket>,
        /// What all messages have in common.
        options: SendOptions,
        zeroes: Vec<u8>,
    },
    /// Over TCP.
    Tcp {
        /// One for each receiver that was needed.
        connections: HashMap<SocketAddr, TcpStream>,
        /// The congestion control; empty: the system's.
        congestion: String,
        /// A connection for each message.
        fresh: bool,
        piece: Vec<u8>,
    },
}

impl Worker {
    pub(super) fn new(over: &Over) -> Self {
        match over {
            Over::Turnstile(options) => Self::Turnstile {
                sockets: HashMap::new(),
                options: *options,
                zeroes: vec![0; PIECE],
            },
            Over::Tcp { congestion, fresh } => Self::Tcp {
                connections: HashMap::new(),
                congestion: congestion.clone(),
                fresh: *fresh,
                piece: vec![0; PREFIX + PIECE],
            },
        }
    }

    /// Makes sure that `to` can be sent to, outside of what is measured.
    pub(super) fn prepare(&mut self, to: SocketAddr) -> Result<(), String> {
        match self {
            Self::Turnstile { sockets, .. } => {
                if let std::collections::hash_map::Entry::Vacant(place) =
                    sockets.entry(to.is_ipv4())
                {
                    let socket = socket_for(to).map_err(|error| error.to_string())?;
                    socket
                        .set_completions(true)
                        .map_err(|error| format!("cannot set up the socket: {error}"))?;
                    place.insert(socket);
                }
            }
            Self::Tcp { fresh: true, .. } => {}
            Self::Tcp {
                connections,
                congestion,
                ..
            } => {
                if let std::collections::hash_map::Entry::Vacant(place) = connections.entry(to) {
                    place.insert(connect(to, congestion)?);
                }
            }
        }
        Ok(())
    }

    /// Sends a message of `size` zeroes, waits until the receiver has it, and tells how long that
    /// took.
    pub(super) fn send(&mut self, to: SocketAddr, size: u64) -> Result<Duration, String> {
        let began = Instant::now();
        let outcome = match self {
            Self::Turnstile {
                sockets,
                options,
                zeroes,
            } => {
                let socket = sockets.get(&to.is_ipv4()).ok_or("not prepared")?;
                send_message(socket, to, size, options, zeroes)
            }
            Self::Tcp {
                connections,
                congestion,
                fresh,
                piece,
            } => {
                if *fresh {
                    connections.insert(to, connect(to, congestion)?);
                }
                let connection = connections.get_mut(&to).ok_or("not prepared")?;
                send_stream(connection, size, piece)
                    .map_err(|error| format!("tcp to {to}: {error}"))
            }
        };
        let took = began.elapsed();
        if outcome.is_err() {
            // What is left of a message that failed belongs to no other.
            self.forget(to);
        }
        outcome.map(|()| took)
    }

    fn forget(&mut self, to: SocketAddr) {
        match self {
            Self::Turnstile { sockets, .. } => drop(sockets.remove(&to.is_ipv4())),
            Self::Tcp { connections, .. } => drop(connections.remove(&to)),
        }
    }
}

fn send_message(
    socket: &Socket,
    to: SocketAddr,
    size: u64,
    options: &SendOptions,
    zeroes: &[u8],
) -> Result<(), String> {
    let words = |error: turnstile_socket::Error| error.to_string();
    let number = match usize::try_from(size)
        .ok()
        .and_then(|size| zeroes.get(..size))
    {
        Some(data) => socket.send_to(data, to, options).map_err(words)?,
        None => {
            let options = SendOptions {
                length: Some(size),
                ..*options
            };
            let mut writer = socket.begin(to, &options).map_err(words)?;
            let mut left = size;
            while left > 0 {
                let len = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
                writer
                    .write_all(&zeroes[..len])
                    .map_err(|error| format!("cannot send: {error}"))?;
                left -= len as u64;
            }
            writer.finish().map_err(words)?
        }
    };
    loop {
        // The kernel gives up a silent peer by itself.
        match socket.wait_completion(None).map_err(words)? {
            Some(done) if done.number == number => {
                return done
                    .outcome
                    .map_err(|error| format!("not delivered to {to}: {error}"))
            }
            _ => {}
        }
    }
}

fn connect(to: SocketAddr, congestion: &str) -> Result<TcpStream, String> {
    let failed = |error: std::io::Error| format!("cannot connect to {to}: {error}");
    let socket = socket2::Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))
        .map_err(failed)?;
    control(&socket, congestion)?;
    socket.set_tcp_nodelay(true).map_err(failed)?;
    socket.connect(&to.into()).map_err(failed)?;
    Ok(socket.into())
}

/// Chooses the congestion control of a TCP socket.
pub(super) fn control(socket: &socket2::Socket, congestion: &str) -> Result<(), String> {
    if congestion.is_empty() {
        return Ok(());
    }
    socket
        .set_tcp_congestion(congestion.as_bytes())
        .map_err(|error| {
            format!(
                "congestion: the kernel does not take \"{congestion}\" ({error}; see \
                net.ipv4.tcp_allowed_congestion_control)"
            )
        })
}

fn send_stream(
    connection: &mut (impl Read + Write),
    size: u64,
    piece: &mut [u8],
) -> std::io::Result<()> {
    piece[..PREFIX].copy_from_slice(&size.to_be_bytes());
    let first = usize::try_from(size).map_or(PIECE, |size| size.min(PIECE));
    connection.write_all(&piece[..PREFIX + first])?;
    let mut left = size - first as u64;
    while left > 0 {
        let len = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
        connection.write_all(&piece[PREFIX..PREFIX + len])?;
        left -= len as u64;
    }
    // The receiver says so when it has all of it.
    connection.read_exact(&mut [0])
}
