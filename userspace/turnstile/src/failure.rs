// SPDX-License-Identifier: GPL-2.0
//! Why the command ends without success.

use std::io;

use turnstile_netlink::error::Error;
use turnstile_netlink::{transport, GrammarError};

/// Why the command ends without success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was typed makes no sense.
    Usage(String),
    /// The kernel refused, or could not be asked; a message was not delivered; a file cannot be
    /// read.
    Kernel(String),
    /// Nobody reads what is printed.
    Output(io::Error),
}

impl From<GrammarError> for Failure {
    fn from(error: GrammarError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Kernel(error.to_string())
    }
}

impl From<transport::Error> for Failure {
    fn from(error: transport::Error) -> Self {
        Self::Kernel(error.to_string())
    }
}

impl From<turnstile_socket::Error> for Failure {
    fn from(error: turnstile_socket::Error) -> Self {
        match error {
            turnstile_socket::Error::Invalid { .. } => Self::Usage(error.to_string()),
            _ => Self::Kernel(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}
