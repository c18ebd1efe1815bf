// SPDX-License-Identifier: GPL-2.0
//! Sockets of the Turnstile transport.
//!
//! A socket sends and receives *messages* of 1 byte to 1 GiB - 1. Each arrives whole and once, or
//! not at all; their order is not kept. A message can be sent in one call, or
//! [written](MessageWriter) and [read](MessageReader) in pieces. A [`Completion`] tells how a
//! message ended.
//!
//! ```no_run
//! use turnstile_socket::{SendOptions, Socket};
//!
//! let socket = Socket::bind("[::]:5000")?;
//! loop {
//!     let message = socket.recv_message(1 << 20)?;
//!     socket.send_to(&message.data, message.from, &SendOptions::default())?;
//! }
//! # Ok::<(), turnstile_socket::Error>(())
//! ```
//!
//! The calls of [`Socket`] block; with the feature `tokio`, `tokio::Socket` is the same for tasks.
//! The folder `examples/` has complete programs. The kernel needs the module `turnstile`;
//! `docs/sockets.md` describes its interface for other languages.

mod ancillary;
mod error;
mod message;
mod options;
mod raw;
mod socket;
mod state;
mod stream;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use error::{Error, OPENING};
pub use message::{
    Completion, Info, Lost, Message, Received, Security, SendOptions, MAX_LENGTH, MAX_PRIORITY,
};
pub use socket::Socket;
pub use stream::{MessageReader, MessageWriter};
