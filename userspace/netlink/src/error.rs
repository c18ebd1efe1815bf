// SPDX-License-Identifier: GPL-2.0
//! What can go wrong between here and the kernel, in words for the person who typed the command.

use std::io;

use netlink_packet_core::ErrorMessage;
use turnstile_core::port::uapi;

use crate::attr::{attributes, Malformed};
use crate::place::Id;

/// Errors of [`crate::client::Ports`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No netlink socket.
    #[error("cannot open a netlink socket: {0}")]
    Socket(#[source] io::Error),
    /// The connection's task is gone, or the kernel sent something unexpected.
    #[error("netlink: {0}")]
    Connection(String),
    /// There is no such device.
    #[error("no such device: \"{0}\"")]
    NoDevice(String),
    /// There is none to change.
    #[error("{dev}: there is no {what} here")]
    Missing {
        /// The device.
        dev: String,
        /// What was looked for.
        what: Subject,
    },
    /// There is a qdisc of another kind.
    #[error(
        "{dev}: the qdisc there is {kind}, not a {what}; use replace to put a {what} in its place"
    )]
    OtherKind {
        /// The device.
        dev: String,
        /// The kind that it has.
        kind: String,
        /// What was looked for.
        what: Subject,
    },
    /// What the kernel sent makes no sense.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The kernel refused.
    #[error("{dev}: {refusal}")]
    Refused {
        /// The device.
        dev: String,
        /// Why.
        refusal: Refusal,
    },
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A port, kind `turnstile`.
    Port,
    /// The ports of a device's transmit queues, kind `turnstile_mq`.
    Queues,
    /// A host pacer, kind `turnstile_pacer`.
    Pacer,
}

impl Subject {
    /// The qdisc's kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Port => uapi::KIND,
            Self::Queues => uapi::KIND_MQ,
            Self::Pacer => turnstile_core::pacer::uapi::KIND,
        }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Port => "port",
            Self::Queues => "port for each queue",
            Self::Pacer => "pacer",
        })
    }
}

/// What was asked of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A new port.
    Add,
    /// A new port in the place of whatever was there.
    Replace,
    /// Other options for a port.
    Change,
    /// A port's end.
    Del,
    /// A list.
    Show,
}

/// Why the kernel refused. `Display` is one line: the kernel's own words if it gave any, else what
/// its error code means here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The error code, positive.
    pub errno: i32,
    /// The kernel's words (`NLMSGERR_ATTR_MSG`).
    pub message: Option<String>,
    /// What was asked.
    pub request: Request,
    /// About what.
    pub what: Subject,
    /// For whom.
    pub parent: Id,
}

// Numbers of asm-generic/errno-base.h, the same on every architecture.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;

/// What EPERM means, to ports, pacers and the transport alike.
pub(crate) const NOT_ROOT: &str =
    "not permitted: be root, or have CAP_NET_ADMIN in the network namespace";

const NLMSGERR_ATTR_MSG: u16 = 1;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;

impl Refusal {
    /// From an `NLMSG_ERROR` with these header flags.
    pub fn new(
        error: &ErrorMessage,
        flags: u16,
        request: Request,
        what: Subject,
        parent: Id,
    ) -> Self {
        Self {
            errno: error.raw_code().saturating_abs(),
            message: message(&error.header, flags),
            request,
            what,
            parent,
        }
    }

    /// From the code at the end of a list that the kernel could not finish.
    pub fn at_end(code: i32, request: Request, what: Subject, parent: Id) -> Self {
        Self {
            errno: code.saturating_abs(),
            message: None,
            request,
            what,
            parent,
        }
    }

    /// Whether the kernel does not know the qdisc's kind: its module is not there.
    pub fn is_unknown_kind(&self) -> bool {
        self.errno == ENOENT
            && match (self.message.as_deref(), self.request) {
                (Some(message), _) => message.contains("kind is unknown"),
                (None, Request::Add | Request::Replace) => true,
                _ => false,
            }
    }

    /// What the answer means here, if it does not say so itself.
    fn hint(&self) -> Option<String> {
        let says = |part: &str| {
            self.message
                .as_deref()
                .is_some_and(|message| message.contains(part))
        };
        let what = self.what;
        if self.is_unknown_kind() {
            return Some(format!("the kernel has no {} qdisc", what.kind()));
        }
        Some(match (self.errno, self.request) {
            (EPERM, _) => NOT_ROOT.to_owned(),
            (EINVAL, Request::Change | Request::Del) if says("must match existing") => {
                format!("the qdisc there is not a {what}")
            }
            (EEXIST, Request::Change) => format!("the {what} there has another handle"),
            (ENOENT, Request::Change | Request::Del) => format!("there is no {what} here"),
            (EEXIST, Request::Add) if self.parent == Id::ROOT => {
                "already has a root qdisc; use replace".to_owned()
            }
            (EEXIST, Request::Add) => "already has a qdisc there; use replace".to_owned(),
            _ => return None,
        })
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The kernel's part of the project begins its messages with the kind, which the reader
        // knows.
        let message = self.message.as_deref().map(|m| {
            m.strip_prefix(self.what.kind())
                .and_then(|m| m.strip_prefix(": "))
                .unwrap_or(m)
                .trim_end_matches('.')
        });
        match (message, self.hint()) {
            (Some(message), Some(hint)) => write!(f, "{message} ({hint})"),
            (Some(message), None) => f.write_str(message),
            (None, Some(hint)) => f.write_str(&hint),
            (None, None) => io::Error::from_raw_os_error(self.errno).fmt(f),
        }
    }
}

/// The kernel's words in an `NLMSG_ERROR`: `payload` is what follows its error code.
///
/// That is the header of the refused request, the rest of the request unless that is capped, and
/// attributes.
fn message(payload: &[u8], flags: u16) -> Option<String> {
    if flags & NLM_F_ACK_TLVS == 0 {
        return None;
    }
    let (length, _) = payload.split_first_chunk()?;
    let echoed = match flags & NLM_F_CAPPED {
        0 => usize::try_from(u32::from_ne_bytes(*length))
            .ok()?
            .next_multiple_of(4),
        _ => 16,
    };
    let text = attributes(payload.get(echoed..)?)
        .map_while(Result::ok)
        .find(|attribute| attribute.number == NLMSGERR_ATTR_MSG)?
        .payload;
    Some(String::from_utf8_lossy(text.strip_suffix(&[0]).unwrap_or(text)).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::put;
    use proptest::prelude::*;

    fn extack(echoed: usize, text: &str) -> Vec<u8> {
        let mut bytes = vec![0; echoed];
        bytes[..4].copy_from_slice(&(echoed as u32).to_ne_bytes());
        put(&mut bytes, 2, &20u32.to_ne_bytes());
        put(
            &mut bytes,
            NLMSGERR_ATTR_MSG,
            &[text.as_bytes(), &[0]].concat(),
        );
        bytes
    }

    #[test]
    fn words_of_the_kernel() {
        let bytes = extack(16, "turnstile: priorities: 9 is not in 1..8");
        let found = message(&bytes, NLM_F_ACK_TLVS | NLM_F_CAPPED);
        assert_eq!(
            found.as_deref(),
            Some("turnstile: priorities: 9 is not in 1..8")
        );
        assert_eq!(
            message(&extack(36, "no"), NLM_F_ACK_TLVS).as_deref(),
            Some("no")
        );
        assert_eq!(message(&bytes, NLM_F_CAPPED), None);
        assert_eq!(message(&[], NLM_F_ACK_TLVS), None);
    }

    #[test]
    fn one_line_each() {
        let show = |errno, message: Option<&str>, request| {
            let parent = Id::ROOT;
            Refusal {
                errno,
                message: message.map(str::to_owned),
                request,
                what: Subject::Port,
                parent,
            }
            .to_string()
        };
        for (errno, message, request, line) in [
            (
                22,
                Some("turnstile: mpu: 300 is not in 0..256"),
                Request::Add,
                "mpu: 300 is not in 0..256",
            ),
            (22, None, Request::Add, "Invalid argument (os error 22)"),
            (EPERM, None, Request::Add, NOT_ROOT),
            (
                ENOENT,
                None,
                Request::Add,
                "the kernel has no turnstile qdisc",
            ),
            (
                ENOENT,
                Some("Specified qdisc kind is unknown."),
                Request::Replace,
                "Specified qdisc kind is unknown (the kernel has no turnstile qdisc)",
            ),
            (
                ENOENT,
                Some("Failed to find specified qdisc"),
                Request::Add,
                "Failed to find specified qdisc",
            ),
            (
                EEXIST,
                Some("Exclusivity flag on, cannot modify"),
                Request::Add,
                "Exclusivity flag on, cannot modify (already has a root qdisc; use replace)",
            ),
            (ENOENT, None, Request::Del, "there is no port here"),
            (
                EINVAL,
                Some("Invalid qdisc name: must match existing qdisc"),
                Request::Del,
                "Invalid qdisc name: must match existing qdisc (the qdisc there is not a port)",
            ),
        ] {
            assert_eq!(show(errno, message, request), line);
        }
    }

    #[test]
    fn ports_of_queues_are_called_so() {
        let refusal = Refusal {
            errno: 22,
            message: Some("turnstile_mq: mpu: 300 is not in 0..256".to_owned()),
            request: Request::Add,
            what: Subject::Queues,
            parent: Id::ROOT,
        };
        assert_eq!(refusal.to_string(), "mpu: 300 is not in 0..256");
        let missing = Refusal {
            errno: ENOENT,
            message: None,
            request: Request::Del,
            ..refusal
        };
        let expected = "there is no port for each queue here";
        assert_eq!(missing.to_string(), expected);
    }

    #[test]
    fn a_pacer_is_called_one() {
        let refusal = |errno, message: Option<&str>, request| Refusal {
            errno,
            message: message.map(str::to_owned),
            request,
            what: Subject::Pacer,
            parent: Id::ROOT,
        };
        let range = "turnstile_pacer: beta: 0 is not in 1..1000000";
        let refused = refusal(22, Some(range), Request::Add);
        assert_eq!(refused.to_string(), "beta: 0 is not in 1..1000000");
        let missing = refusal(ENOENT, None, Request::Change);
        assert_eq!(missing.to_string(), "there is no pacer here");
        let unknown = refusal(ENOENT, None, Request::Add);
        let expected = "the kernel has no turnstile_pacer qdisc";
        assert_eq!(unknown.to_string(), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(bytes: Vec<u8>, flags: u16) {
            let _ = message(&bytes, flags);
        }
    }
}
