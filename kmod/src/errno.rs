// SPDX-License-Identifier: GPL-2.0
//! Errors that the kernel crate has no names for, and what failures are to an application.

use kernel::prelude::*;
use turnstile_core::transport::host::{Failure, Unreachable};
use turnstile_core::transport::wire::ResetCode;

const EACCES: u32 = 13;
const EPROTO: u32 = 71;
const EDESTADDRREQ: u32 = 89;
const EMSGSIZE: u32 = 90;
const ENOPROTOOPT: u32 = 92;
const EADDRINUSE: u32 = 98;
const ECONNRESET: u32 = 104;
const ENETUNREACH: u32 = 101;
const ENOBUFS: u32 = 105;
const ETIMEDOUT: u32 = 110;
const ECONNREFUSED: u32 = 111;
const EHOSTUNREACH: u32 = 113;
const ENOKEY: u32 = 126;

/// The error of an errno.
pub(crate) fn error(errno: u32) -> Error {
    Error::from_errno(i32::try_from(errno).map_or(0, i32::wrapping_neg))
}

/// There is no destination.
pub(crate) fn no_destination() -> Error {
    error(EDESTADDRREQ)
}

/// A message is too long.
pub(crate) fn too_long() -> Error {
    error(EMSGSIZE)
}

/// There is no such option.
pub(crate) fn no_option() -> Error {
    error(ENOPROTOOPT)
}

/// The port is another socket's.
pub(crate) fn in_use() -> Error {
    error(EADDRINUSE)
}

/// There is no room or no memory.
pub(crate) fn no_room() -> Error {
    error(ENOBUFS)
}

/// There is no such key.
pub(crate) fn no_key() -> Error {
    error(ENOKEY)
}

/// It is not the caller's.
pub(crate) fn not_allowed() -> Error {
    error(EACCES)
}

/// The message was ended by the peer.
pub(crate) fn reset() -> Error {
    error(ECONNRESET)
}

/// The errno of a message's failure.
pub(crate) fn of_failure(failure: Failure) -> u32 {
    match failure {
        Failure::TimedOut | Failure::Stalled => ETIMEDOUT,
        Failure::Unreachable(what) => match what {
            Unreachable::Port => ECONNREFUSED,
            Unreachable::Host => EHOSTUNREACH,
            Unreachable::Network => ENETUNREACH,
            Unreachable::Prohibited => EACCES,
        },
        Failure::Reset(code) => match code {
            ResetCode::NoSocket => ECONNREFUSED,
            ResetCode::Aborted | ResetCode::Closed | ResetCode::Unknown => ECONNRESET,
            ResetCode::TooLong => EMSGSIZE,
            ResetCode::Protocol => EPROTO,
        },
    }
}
