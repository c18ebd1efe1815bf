// SPDX-License-Identifier: GPL-2.0
//! Types for messages: options for sending, facts about received ones, and completions.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZeroU32;
use std::time::Duration;

use turnstile_core::transport::uapi::{self as uapi, ancillary as number};

use crate::ancillary::{self, Item};
use crate::Error;

/// The longest message, in bytes.
pub const MAX_LENGTH: u64 = (1 << 30) - 1;
/// The highest priority number, which is the lowest priority.
pub const MAX_PRIORITY: u8 = 7;

pub(crate) const LEVEL: i32 = uapi::SOL_TURNSTILE as i32;

/// Options of a message. The default leaves everything to the receiver's policy.
///
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Duration;
/// use turnstile_socket::SendOptions;
///
/// let urgent = SendOptions { deadline: Some(Duration::from_millis(5)), ..SendOptions::default() };
/// let coflow = NonZeroU32::new(17);
/// let shuffle = SendOptions { coflow, priority: Some(3), ..SendOptions::default() };
/// # let _ = (urgent, shuffle);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendOptions {
    /// Bytes, 1 to [`MAX_LENGTH`]: the length of a message that is written in pieces. If the
    /// receiver knows it, it can schedule by it. `send` needs no length: it takes that of the data.
    pub length: Option<u64>,
    /// The time from now until the message should have arrived.
    pub deadline: Option<Duration>,
    /// The coflow that the message belongs to.
    pub coflow: Option<NonZeroU32>,
    /// Priority of the message's tokens, 0 (highest) to 7, instead of the one that the receiver's
    /// policy gives.
    pub priority: Option<u8>,
    /// Tell the receiver the length only at the end, even if it is known here.
    pub unknown_size: bool,
}

impl SendOptions {
    /// Checks the ranges, and returns the ancillary data.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut to = Vec::new();
        if let Some(length) = self.length {
            check_length(length)?;
            ancillary::put(&mut to, LEVEL, number::LENGTH as i32, &length.to_ne_bytes());
        }
        if let Some(deadline) = self.deadline {
            let ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
            ancillary::put(&mut to, LEVEL, number::DEADLINE as i32, &ns.to_ne_bytes());
        }
        if let Some(coflow) = self.coflow {
            let coflow = coflow.get().to_ne_bytes();
            ancillary::put(&mut to, LEVEL, number::COFLOW as i32, &coflow);
        }
        if let Some(priority) = self.priority {
            if priority > MAX_PRIORITY {
                return Err(Error::Invalid {
                    field: "priority",
                    value: priority.into(),
                    range: "0..7",
                });
            }
            let priority = u32::from(priority).to_ne_bytes();
            ancillary::put(&mut to, LEVEL, number::PRIORITY as i32, &priority);
        }
        if self.unknown_size {
            let one = 1u32.to_ne_bytes();
            ancillary::put(&mut to, LEVEL, number::UNKNOWN_SIZE as i32, &one);
        }
        Ok(to)
    }
}

/// Refuses lengths out of range.
pub(crate) fn check_length(length: u64) -> Result<(), Error> {
    if (1..=MAX_LENGTH).contains(&length) {
        return Ok(());
    }
    Err(Error::Invalid {
        field: "length",
        value: length,
        range: "1..1073741823 bytes",
    })
}

/// Facts about a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Info {
    /// The message's number on this socket, counted in order of arrival.
    pub number: u64,
    /// Its length in bytes; `None`: the sender has not told it yet.
    pub length: Option<u64>,
    /// Offset in the message of the bytes that were read.
    pub offset: u64,
    /// Time since its first packet came.
    pub elapsed: Duration,
}

impl Info {
    /// Parses it from ancillary data.
    pub(crate) fn decode(control: &[u8]) -> Option<Self> {
        let payload = ancillary::items(control)
            .find(|item| item.level == LEVEL && item.kind == number::INFO as i32)?
            .payload;
        let field = |at: usize| {
            let bytes = payload.get(at * 8..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*bytes))
        };
        Some(Self {
            number: field(0)?,
            length: field(1).filter(|length| *length != u64::MAX),
            offset: field(2)?,
            elapsed: Duration::from_nanos(field(3)?),
        })
    }
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes that were read; at least one.
    pub len: usize,
    /// The message's sender.
    pub from: SocketAddr,
    /// Whether these were the message's last bytes.
    pub end_of_message: bool,
    /// More about the message, unless `set_receive_info(false)` was called.
    pub info: Option<Info>,
}

impl Received {
    /// Whether these are a message's first bytes, as far as is known.
    pub(crate) fn begins(&self) -> bool {
        self.info.is_none_or(|info| info.offset == 0)
    }
}

/// A whole message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Its sender.
    pub from: SocketAddr,
    /// More about it, as of its last read, unless `set_receive_info(false)` was called.
    pub info: Option<Info>,
}

/// The end of a message that was sent.
#[derive(Debug)]
pub struct Completion {
    /// The message's number, as `send` or `finish` returned it. Of a call that failed after its
    /// message began nobody was told the number.
    pub number: u32,
    /// Whether it was delivered, or why not.
    pub outcome: io::Result<()>,
    /// From the send to the final acknowledgement, in whole microseconds. `None` if it was not
    /// delivered.
    pub elapsed: Option<Duration>,
    /// The peer, if the kernel reports it.
    pub to: Option<SocketAddr>,
}

/// Completions that there was no room for, because nobody read them: an [`std::io::Error`] of
/// [`ErrorKind::Other`](std::io::ErrorKind::Other) has it inside. Calls after it return the
/// completions that came later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub completions: u32,
    /// How many of them were of messages that failed.
    pub failures: u32,
    /// The errno of the last of these; 0: there was none.
    pub errno: i32,
    /// Whom that message was for.
    pub to: Option<SocketAddr>,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            completions,
            failures,
            ..
        } = self;
        write!(
            f,
            "{completions} completions were lost, {failures} of them of messages that failed"
        )
    }
}

impl std::error::Error for Lost {}

impl Lost {
    /// Parses it from the error queue's ancillary data. `None`: that was something else.
    pub(crate) fn decode(control: &[u8]) -> Option<Self> {
        let lost = ancillary::items(control).find_map(|item| Extended::of(&item))?;
        (lost.kind == uapi::EE_LOST).then_some(Self {
            completions: lost.info,
            failures: lost.data,
            errno: lost.errno,
            to: lost.address.filter(|_| lost.errno != 0),
        })
    }
}

/// A `struct sock_extended_err` of the transport's.
struct Extended {
    errno: i32,
    kind: u8,
    info: u32,
    data: u32,
    address: Option<SocketAddr>,
}

impl Extended {
    fn of(item: &Item<'_>) -> Option<Self> {
        match (item.level, item.kind) {
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {}
            _ => return None,
        }
        let (error, offender) = item.payload.split_first_chunk::<EXTENDED_ERR>()?;
        let word = |at: usize| {
            error
                .get(at..)?
                .first_chunk()
                .map(|w| u32::from_ne_bytes(*w))
        };
        let errno = i32::try_from(word(0)?).unwrap_or(libc::EIO);
        (error[4] == uapi::EE_ORIGIN).then_some(Self {
            errno,
            kind: error[5],
            info: word(8)?,
            data: word(12)?,
            address: address(offender),
        })
    }
}

/// Length of `struct sock_extended_err`.
const EXTENDED_ERR: usize = 16;

impl Completion {
    /// Parses it from the error queue's ancillary data. `None`: that was something else.
    pub(crate) fn decode(control: &[u8]) -> Option<Self> {
        ancillary::items(control).find_map(|item| Self::from_item(&item))
    }

    fn from_item(item: &Item<'_>) -> Option<Self> {
        let done = Extended::of(item)?;
        let delivered = match done.kind {
            uapi::EE_DELIVERED => true,
            uapi::EE_FAILED => false,
            _ => return None,
        };
        Some(Self {
            number: done.data,
            outcome: if delivered {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(done.errno))
            },
            elapsed: delivered.then_some(Duration::from_micros(done.info.into())),
            to: done.address,
        })
    }
}

/// Parses a `struct sockaddr_in` or `sockaddr_in6`.
fn address(bytes: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let ip = rest.first_chunk::<4>()?;
            Some(SocketAddr::from((Ipv4Addr::from(*ip), port)))
        }
        libc::AF_INET6 => {
            let (flow, rest) = rest.split_first_chunk::<4>()?;
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            let scope = rest.first_chunk::<4>()?;
            Some(SocketAddr::V6(SocketAddrV6::new(
                Ipv6Addr::from(*ip),
                port,
                u32::from_be_bytes(*flow),
                u32::from_ne_bytes(*scope),
            )))
        }
        _ => None,
    }
}

/// How a socket's messages are sealed: encrypted, and authenticated with a key that both ends have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// As the network namespace's are.
    Namespace,
    /// They are not.
    Off,
    /// With the key of this serial number (`keyctl(1)`), of type `logon`, with 32 bytes.
    Psk(u32),
}

/// A key's serial number as the kernel has it.
pub(crate) fn serial(key: u32) -> io::Result<i32> {
    match i32::try_from(key) {
        Ok(serial) if serial > 0 => Ok(serial),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        ancillary::put(&mut bytes, LEVEL, kind as i32, payload);
        bytes
    }

    #[test]
    fn options_as_ancillary_data() {
        assert_eq!(
            SendOptions::default().encode().unwrap(),
            Vec::<u8>::new(),
            "nothing said, nothing sent"
        );
        let all = SendOptions {
            length: Some(5),
            deadline: Some(Duration::from_micros(3)),
            coflow: NonZeroU32::new(9),
            priority: Some(7),
            unknown_size: true,
        };
        let expected = [
            item(1, &5u64.to_ne_bytes()),
            item(2, &3000u64.to_ne_bytes()),
            item(3, &9u32.to_ne_bytes()),
            item(4, &7u32.to_ne_bytes()),
            item(5, &1u32.to_ne_bytes()),
        ];
        assert_eq!(all.encode().unwrap(), expected.concat());
    }

    #[test]
    fn options_out_of_range() {
        let error = |options: SendOptions| options.encode().unwrap_err().to_string();
        let with_length = |length| SendOptions {
            length: Some(length),
            ..SendOptions::default()
        };
        assert_eq!(
            error(with_length(0)),
            "length: 0 is not in 1..1073741823 bytes"
        );
        assert_eq!(
            error(with_length(MAX_LENGTH + 1)),
            "length: 1073741824 is not in 1..1073741823 bytes"
        );
        assert!(with_length(MAX_LENGTH).encode().is_ok());
        assert_eq!(
            error(SendOptions {
                priority: Some(8),
                ..SendOptions::default()
            }),
            "priority: 8 is not in 0..7"
        );
    }

    #[test]
    fn facts_about_a_message() {
        let info = |fields: [u64; 4]| item(6, &fields.map(u64::to_ne_bytes).concat());
        assert_eq!(
            Info::decode(&info([1, 2, 3, 4])),
            Some(Info {
                number: 1,
                length: Some(2),
                offset: 3,
                elapsed: Duration::from_nanos(4)
            })
        );
        assert_eq!(
            Info::decode(&info([1, u64::MAX, 0, 4])).unwrap().length,
            None
        );
        assert_eq!(Info::decode(&item(6, &[0; 31])), None);
        assert_eq!(Info::decode(&[]), None);
    }

    fn extended(errno: u32, origin: u8, kind: u8, info: u32, data: u32, address: &[u8]) -> Vec<u8> {
        let mut payload = errno.to_ne_bytes().to_vec();
        payload.extend([origin, kind, 0, 0]);
        payload.extend(info.to_ne_bytes());
        payload.extend(data.to_ne_bytes());
        payload.extend(address);
        let mut bytes = Vec::new();
        ancillary::put(&mut bytes, libc::SOL_IP, libc::IP_RECVERR, &payload);
        bytes
    }

    #[test]
    fn completions() {
        let done = Completion::decode(&extended(0, 8, 1, 1500, 3, &[])).unwrap();
        assert_eq!(
            (done.number, done.elapsed, done.to),
            (3, Some(Duration::from_micros(1500)), None)
        );
        assert!(done.outcome.is_ok());

        let mut address = 2u16.to_ne_bytes().to_vec();
        address.extend([0x13, 0x88, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let errno = libc::ETIMEDOUT as u32;
        let failed = Completion::decode(&extended(errno, 8, 2, 0, 4, &address)).unwrap();
        assert_eq!(
            failed.outcome.unwrap_err().raw_os_error(),
            Some(libc::ETIMEDOUT)
        );
        assert_eq!(failed.to, Some("10.0.0.1:5000".parse().unwrap()));
        assert_eq!(failed.elapsed, None);

        let mut address = 10u16.to_ne_bytes().to_vec();
        address.extend([0, 9, 0, 0, 0, 0]);
        address.extend(Ipv6Addr::LOCALHOST.octets());
        address.extend(2u32.to_ne_bytes());
        let failed = Completion::decode(&extended(errno, 8, 2, 0, 5, &address)).unwrap();
        assert_eq!(failed.to, Some("[::1%2]:9".parse().unwrap()));
    }

    #[test]
    fn lost_completions() {
        let mut address = 2u16.to_ne_bytes().to_vec();
        address.extend([0x13, 0x88, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        let errno = libc::ETIMEDOUT as u32;
        let lost = extended(errno, 8, 3, 70, 2, &address);
        assert!(Completion::decode(&lost).is_none());
        let lost = Lost::decode(&lost).unwrap();
        assert_eq!((lost.completions, lost.failures), (70, 2));
        assert_eq!(lost.errno, libc::ETIMEDOUT);
        assert_eq!(lost.to, Some("10.0.0.1:5000".parse().unwrap()));
        assert_eq!(
            lost.to_string(),
            "70 completions were lost, 2 of them of messages that failed"
        );
        let none = Lost::decode(&extended(0, 8, 3, 70, 0, &address)).unwrap();
        assert_eq!(none.to, None);
        assert!(Lost::decode(&extended(errno, 8, 2, 0, 4, &address)).is_none());
    }

    #[test]
    fn what_is_no_completion() {
        // ICMP's origin, a type that is not known, and too short.
        assert!(Completion::decode(&extended(1, 2, 1, 0, 0, &[])).is_none());
        assert!(Completion::decode(&extended(0, 8, 9, 0, 0, &[])).is_none());
        assert!(Completion::decode(&item(11, &[0; 15])).is_none());
        assert!(Completion::decode(&[]).is_none());
    }
}
