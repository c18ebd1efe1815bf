// SPDX-License-Identifier: GPL-2.0
//! The transport's sockets, as sock_diag(7) lists them: whose they are, and what is in their
//! queues.
//!
//! | module | what is there |
//! |---|---|
//! | here | a socket, and which ones are wanted |
//! | [`wire`] | both as bytes |
//! | [`show`] | a socket as text and as JSON |
//! | [`client`] | asking the kernel |

pub mod client;
pub mod show;
pub mod wire;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

pub use client::Sockets;

/// What a socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has no port.
    Unbound,
    /// It has a port, and receives from anybody.
    Bound,
    /// It has a peer.
    Connected,
    /// It is closed, and has messages under way.
    Closing,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Unbound, Self::Bound, Self::Connected, Self::Closing];

    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unbound => "unbound",
            Self::Bound => "bound",
            Self::Connected => "connected",
            Self::Closing => "closing",
        }
    }
}

/// How much memory a socket has, bytes as the kernel counts them: `struct inet_diag_meminfo` and
/// `INET_DIAG_SKMEMINFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// Of what came.
    pub receive: u32,
    /// `SO_RCVBUF`.
    pub receive_buffer: u32,
    /// Of what is sent.
    pub send: u32,
    /// `SO_SNDBUF`.
    pub send_buffer: u32,
    /// Had ahead.
    pub ahead: u32,
}

/// A socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    /// Of `AF_INET6`.
    pub ipv6: bool,
    /// What it is.
    pub state: State,
    /// The address that it is bound to; unspecified: any.
    pub local: IpAddr,
    /// Its port; 0: none.
    pub local_port: u16,
    /// Its peer's address; unspecified: none.
    pub peer: IpAddr,
    /// Its peer's port; 0: none.
    pub peer_port: u16,
    /// Index of the device that it is bound to; 0: none.
    pub device: u32,
    /// Whose it is.
    pub uid: u32,
    /// Its file's; 0: it is closed.
    pub inode: u32,
    /// Tells it from all others that there were.
    pub cookie: u64,
    /// Bytes that can be read: of whole messages, and of one that streams.
    pub readable: u32,
    /// Bytes that no receiver has acknowledged.
    pub unacknowledged: u32,
    /// Messages that are complete and not read.
    pub whole: u32,
    /// Messages that still come in.
    pub incoming: u32,
    /// Messages that go out.
    pub outgoing: u32,
    /// `SO_MARK`; `None`: whoever asks may not know.
    pub mark: Option<u32>,
    /// Its cgroup.
    pub cgroup: Option<u64>,
    /// Its memory, if that was asked for.
    pub memory: Option<Memory>,
}

/// Which sockets are wanted; by default all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only of `AF_INET6`, or only of `AF_INET`.
    pub ipv6: Option<bool>,
    /// Only in one of these states; none: in any.
    pub states: Vec<State>,
    /// Only with this port; 0: with any.
    pub port: u16,
    /// Only connected to this port; 0: to any, or to none.
    pub peer_port: u16,
    /// Their memory, too.
    pub memory: bool,
}

impl Filter {
    fn wants(&self, state: State) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}
