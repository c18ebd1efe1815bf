// SPDX-License-Identifier: GPL-2.0
//! What can go wrong between here and the kernel, in words for the person who typed the command.

use std::io;

use neli::err::SocketError;

use crate::attr::Malformed;
use crate::error::NOT_ROOT;

// Numbers of asm-generic/errno.h.
const EPERM: i32 = 1;
const ENOBUFS: i32 = 105;

/// Errors of [`Client`](super::Client).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No netlink socket.
    #[error("cannot open a netlink socket: {0}")]
    Socket(#[source] SocketError),
    /// The family is not there.
    #[error("the kernel has no turnstile transport")]
    NotLoaded,
    /// What the kernel sent makes no sense.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The answer does not end as answers do.
    #[error("netlink: {0}")]
    Protocol(String),
    /// Events came faster than they were read, and some are lost.
    #[error("events came faster than they were read, and some are lost")]
    Overrun,
    /// The kernel refused.
    #[error("{}", refusal(.errno, .message.as_deref()))]
    Refused {
        /// The error code, positive.
        errno: i32,
        /// The kernel's words.
        message: Option<String>,
    },
}

/// The kernel's words if it gave any, else what its error code means.
fn refusal(errno: &i32, message: Option<&str>) -> String {
    let hint = (*errno == EPERM).then_some(NOT_ROOT);
    // The kernel's part of the project begins its messages with its name, which the reader knows.
    let message = message.map(|m| {
        m.strip_prefix("turnstile: ")
            .unwrap_or(m)
            .trim_end_matches('.')
    });
    match (message, hint) {
        (Some(message), Some(hint)) => format!("{message} ({hint})"),
        (Some(message), None) => message.to_owned(),
        (None, Some(hint)) => hint.to_owned(),
        (None, None) => io::Error::from_raw_os_error(*errno).to_string(),
    }
}

impl Error {
    pub(in crate::transport) fn protocol(error: impl std::fmt::Display) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<SocketError> for Error {
    fn from(error: SocketError) -> Self {
        match &error {
            SocketError::Io(io) if io.raw_os_error() == Some(ENOBUFS) => Self::Overrun,
            _ => Self::Protocol(error.to_string()),
        }
    }
}
