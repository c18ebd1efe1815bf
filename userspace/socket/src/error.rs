// SPDX-License-Identifier: GPL-2.0
//! The sockets' error type.

use std::io;

/// What [`Error::Kernel`] was doing when there was no socket yet. `EADDRINUSE` then means that
/// another program has the UDP port of the transport.
pub const OPENING: &str = "open a socket";

/// Errors of the sockets.
///
/// It converts into an [`io::Error`] of the matching kind, so that `?` works in functions that
/// return those.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no such sockets.
    #[error("the kernel has no turnstile transport")]
    NotLoaded,
    /// A value out of range, which the kernel would refuse.
    #[error("{field}: {value} is not in {range}")]
    Invalid {
        /// The option or argument.
        field: &'static str,
        /// The value.
        value: u64,
        /// The allowed values.
        range: &'static str,
    },
    /// More was written than was announced.
    #[error("the message was announced with {length} bytes, and {written} are written")]
    TooMuch {
        /// What was announced.
        length: u64,
        /// The total that would have been written.
        written: u64,
    },
    /// A writer was finished before all announced bytes were written.
    #[error("the message was announced with {length} bytes, and only {written} are written")]
    TooLittle {
        /// What was announced.
        length: u64,
        /// What was written.
        written: u64,
    },
    /// A message is longer than the caller's limit.
    #[error("a message from {from} is longer than {limit} bytes")]
    TooLong {
        /// Its sender.
        from: std::net::SocketAddr,
        /// The caller's limit.
        limit: usize,
    },
    /// A message was begun on this socket and its writer dropped before the end. It can be neither
    /// continued nor withdrawn; closing the socket aborts it.
    #[error("a message was left unfinished on this socket; close it")]
    Abandoned,
    /// Reads of this socket may be of several messages in turn: each has to be put together by its
    /// number.
    #[error("reads of this socket are interleaved: read with recv")]
    Interleaved,
    /// The socket does not receive any more.
    #[error("the socket was shut down")]
    Shutdown,
    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    Kernel {
        /// The call.
        doing: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Error {
    /// From the kernel's answer.
    pub(crate) fn kernel(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Kernel { doing, source }
    }

    /// From an error of `socket(2)`: several of them mean that the kernel does not know the
    /// protocol.
    pub(crate) fn open(source: io::Error) -> Self {
        match source.raw_os_error() {
            // EINVAL: protocol numbers above the kernel's last one.
            Some(
                libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT | libc::EAFNOSUPPORT | libc::EINVAL,
            ) => Self::NotLoaded,
            _ => Self::Kernel {
                doing: OPENING,
                source,
            },
        }
    }

    /// The kind of the [`io::Error`] that this converts into.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::NotLoaded => io::ErrorKind::Unsupported,
            Self::Invalid { .. }
            | Self::TooMuch { .. }
            | Self::TooLittle { .. }
            | Self::Interleaved => io::ErrorKind::InvalidInput,
            Self::TooLong { .. } => io::ErrorKind::InvalidData,
            Self::Abandoned => io::ErrorKind::BrokenPipe,
            Self::Shutdown => io::ErrorKind::UnexpectedEof,
            Self::Kernel { source, .. } => source.kind(),
        }
    }

    /// The kernel's error number, if a system call failed.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Kernel { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        match error {
            // Callers compare numbers; the words are the kernel's own.
            Error::Kernel { source, .. } => source,
            error => Self::new(error.kind(), error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_the_transport() {
        for errno in [
            libc::EPROTONOSUPPORT,
            libc::ESOCKTNOSUPPORT,
            libc::EAFNOSUPPORT,
            libc::EINVAL,
        ] {
            let error = Error::open(io::Error::from_raw_os_error(errno));
            assert_eq!(error.to_string(), "the kernel has no turnstile transport");
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        }
        let other = Error::open(io::Error::from_raw_os_error(libc::EMFILE));
        assert_eq!(other.errno(), Some(libc::EMFILE));
    }

    #[test]
    fn numbers_survive() {
        let error = Error::kernel("send")(io::Error::from_raw_os_error(libc::EMSGSIZE));
        assert!(error.to_string().starts_with("cannot send: "));
        assert_eq!(io::Error::from(error).raw_os_error(), Some(libc::EMSGSIZE));
        let error = io::Error::from(Error::Abandoned);
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(error.to_string(), Error::Abandoned.to_string());
    }
}
