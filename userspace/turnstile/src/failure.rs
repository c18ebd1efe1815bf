// SPDX-License-Identifier: GPL-2.0
//! Why the command ends without success, and with which exit code.

use std::io;

use turnstile_netlink::error::Error;
use turnstile_netlink::{transport, GrammarError};

use crate::diagnosis::Obstacle;

/// Exit codes, which are those of tc(8) and ip(8). Help and man page print this table.
pub(crate) const EXIT_CODES: &[(u8, &str)] = &[
    (DONE, "done"),
    (
        USAGE,
        "the words make no sense, or name a device or a network namespace that is not there",
    ),
    (
        REFUSED,
        "the kernel refused, or could not be asked; a message was not delivered; a file could not \
         be read or written",
    ),
];

/// Success.
pub(crate) const DONE: u8 = 0;
/// What was typed makes no sense.
pub(crate) const USAGE: u8 = 1;
/// What was typed makes sense, and failed.
pub(crate) const REFUSED: u8 = 2;

/// Why the command ends without success.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was typed makes no sense.
    Usage(String),
    /// The kernel refused, or could not be asked; a message was not delivered; a file cannot be
    /// read.
    Kernel(String),
    /// The kernel refused for a reason that the machine can be searched for.
    Obstacle(Obstacle, String),
    /// Nobody reads what is printed.
    Output(io::Error),
}

impl Failure {
    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => USAGE,
            Self::Kernel(_) | Self::Obstacle(..) => REFUSED,
            // As with any program in a pipe: `turnstile port show | head -1`.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => DONE,
            Self::Output(_) => REFUSED,
        }
    }
}

impl From<GrammarError> for Failure {
    fn from(error: GrammarError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match &error {
            Error::NoDevice(_) => Self::Usage(text),
            Error::Refused { refusal, .. } if refusal.is_unknown_kind() => {
                Self::Obstacle(Obstacle::NoModule(QDISC_MODULE), text)
            }
            _ => Self::Kernel(text),
        }
    }
}

/// The module that has both qdiscs.
const QDISC_MODULE: &str = "sch_turnstile";
/// The module that has the transport.
const TRANSPORT_MODULE: &str = "turnstile";

impl From<transport::Error> for Failure {
    fn from(error: transport::Error) -> Self {
        let text = error.to_string();
        match error {
            transport::Error::NotLoaded => {
                Self::Obstacle(Obstacle::NoModule(TRANSPORT_MODULE), text)
            }
            transport::Error::Refused { errno, .. } if errno == libc::EADDRINUSE => {
                Self::Obstacle(Obstacle::PortTaken, text)
            }
            _ => Self::Kernel(text),
        }
    }
}

impl From<turnstile_socket::Error> for Failure {
    fn from(error: turnstile_socket::Error) -> Self {
        use turnstile_socket::Error as E;
        let text = error.to_string();
        match &error {
            E::Invalid { .. } => Self::Usage(text),
            E::NotLoaded => Self::Obstacle(Obstacle::NoModule(TRANSPORT_MODULE), text),
            // The namespace's first socket opens the UDP port.
            E::Kernel { doing, source }
                if *doing == turnstile_socket::OPENING
                    && source.raw_os_error() == Some(libc::EADDRINUSE) =>
            {
                Self::Obstacle(Obstacle::PortTaken, text)
            }
            _ => Self::Kernel(text),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnstile_netlink::error::{Refusal, Request, Subject};
    use turnstile_netlink::place::Id;

    fn refused(errno: i32, message: Option<&str>) -> Failure {
        let refusal = Refusal {
            errno,
            message: message.map(str::to_owned),
            request: Request::Add,
            what: Subject::Port,
            parent: Id::ROOT,
        };
        Failure::from(Error::Refused {
            dev: "eth0".to_owned(),
            refusal,
        })
    }

    #[test]
    fn codes_are_those_of_tc() {
        let word: Failure = turnstile_netlink::parse(&["link"]).unwrap_err().into();
        assert_eq!(word.code(), 1);
        assert_eq!(Failure::from(Error::NoDevice("eth9".to_owned())).code(), 1);
        let range = refused(libc::EINVAL, Some("turnstile: mpu: 300 is not in 0..256"));
        assert!(matches!(range, Failure::Kernel(_)));
        assert_eq!(range.code(), 2);
        assert_eq!(Failure::from(transport::Error::NotLoaded).code(), 2);
        let pipe = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(pipe.code(), 0);
        assert_eq!(Failure::from(io::Error::other("full")).code(), 2);
        let codes: Vec<u8> = EXIT_CODES.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, [0, 1, 2]);
    }

    #[test]
    fn what_the_machine_can_be_searched_for() {
        let unknown = refused(libc::ENOENT, Some("Specified qdisc kind is unknown."));
        assert!(
            matches!(
                unknown,
                Failure::Obstacle(Obstacle::NoModule("sch_turnstile"), _)
            ),
            "{unknown:?}"
        );
        let taken = turnstile_socket::Error::Kernel {
            doing: turnstile_socket::OPENING,
            source: io::Error::from_raw_os_error(libc::EADDRINUSE),
        };
        assert!(matches!(
            taken.into(),
            Failure::Obstacle(Obstacle::PortTaken, _)
        ));
        // Another socket of the transport has the address: no matter of the UDP port.
        let bind = turnstile_socket::Error::Kernel {
            doing: "bind",
            source: io::Error::from_raw_os_error(libc::EADDRINUSE),
        };
        assert!(matches!(bind.into(), Failure::Kernel(_)));
        let taken = transport::Error::Refused {
            errno: libc::EADDRINUSE,
            message: None,
        };
        assert!(matches!(
            taken.into(),
            Failure::Obstacle(Obstacle::PortTaken, _)
        ));
    }
}
