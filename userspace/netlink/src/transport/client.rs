// SPDX-License-Identifier: GPL-2.0
//! Asking the kernel, over generic netlink.
//!
//! Calls wait for the kernel's answer, which it gives at once. The network namespace is that of the thread that connects.

use std::io;

use neli::consts::nl::{NlmF, Nlmsg};
use neli::consts::socket::NlFamily;
use neli::err::SocketError;
use neli::nl::{NlPayload, NlmsghdrBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::types::Buffer;
use neli::utils::Groups;
use turnstile_core::uapi::transport::{command, FAMILY, FAMILY_VERSION, GROUP_EVENTS};

use super::record::{Event, Message, Peer};
use super::settings::Settings;
use crate::attr::{self, attributes, Malformed};

/// Numbers of the controller, which knows the families (`linux/genetlink.h`).
mod ctrl {
    pub(super) const ID: u16 = 0x10;
    pub(super) const VERSION: u8 = 2;
    pub(super) const GETFAMILY: u8 = 3;
    pub(super) const FAMILY_ID: u16 = 1;
    pub(super) const FAMILY_NAME: u16 = 2;
    pub(super) const MCAST_GROUPS: u16 = 7;
    pub(super) const GROUP_NAME: u16 = 1;
    pub(super) const GROUP_ID: u16 = 2;
}

/// Command, version, and two bytes that are not used.
const GENERIC_HEADER: usize = 4;
/// `NLMSGERR_ATTR_MSG`.
const EXTACK_MESSAGE: u16 = 1;
// Numbers of asm-generic/errno.h.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const ENOBUFS: i32 = 105;

/// Errors of [`Client`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No netlink socket.
    #[error("cannot open a netlink socket: {0}")]
    Socket(#[source] SocketError),
    /// The family is not there.
    #[error("the turnstile transport is not loaded (modprobe turnstile)")]
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
    let hint = (*errno == EPERM).then_some("needs CAP_NET_ADMIN in the network namespace");
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

impl From<SocketError> for Error {
    fn from(error: SocketError) -> Self {
        match &error {
            SocketError::Io(io) if io.raw_os_error() == Some(ENOBUFS) => Self::Overrun,
            _ => Self::Protocol(error.to_string()),
        }
    }
}

/// A socket that answers come from; tests have one of their own.
trait Kernel {
    /// Sends a request to `family`, and gives what the answers have after the generic header.
    fn ask(
        &mut self,
        family: u16,
        command: u8,
        version: u8,
        attributes: &[u8],
        dump: bool,
    ) -> Result<Vec<Vec<u8>>, Error>;
}

/// A netlink socket.
struct Wire {
    socket: NlSocketHandle,
    sequence: u32,
}

impl Wire {
    fn open() -> Result<Self, Error> {
        let socket = NlSocketHandle::connect(NlFamily::Generic, None, Groups::empty())
            .map_err(Error::Socket)?;
        // The kernel's words with every error.
        socket.enable_ext_ack(true).map_err(Error::Socket)?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }
}

impl Kernel for Wire {
    fn ask(
        &mut self,
        family: u16,
        command: u8,
        version: u8,
        attributes: &[u8],
        dump: bool,
    ) -> Result<Vec<Vec<u8>>, Error> {
        self.sequence = self.sequence.wrapping_add(1);
        let flags = if dump { NlmF::DUMP } else { NlmF::ACK };
        let payload = [&[command, version, 0, 0], attributes].concat();
        let request = NlmsghdrBuilder::default()
            .nl_type(family)
            .nl_flags(NlmF::REQUEST | flags)
            .nl_seq(self.sequence)
            .nl_payload(NlPayload::Payload(Buffer::from(payload)))
            .build()
            .map_err(|error| Error::Protocol(error.to_string()))?;
        self.socket.send(&request)?;
        let mut answers = Vec::new();
        loop {
            let (messages, _) = self.socket.recv::<u16, Buffer>()?;
            for message in messages {
                let message = message?;
                if *message.nl_seq() != self.sequence {
                    continue;
                }
                let done = *message.nl_type() == u16::from(Nlmsg::Done);
                match message.nl_payload() {
                    NlPayload::Payload(payload) => answers.push(body(payload.as_ref())?),
                    NlPayload::Ack(_) | NlPayload::Empty => return Ok(answers),
                    NlPayload::DumpExtAck(end) if *end.error() == 0 => return Ok(answers),
                    NlPayload::DumpExtAck(end) => {
                        return Err(refused(*end.error(), end.ext_ack().iter()))
                    }
                    NlPayload::Err(error) => {
                        return Err(refused(*error.error(), error.ext_ack().iter()))
                    }
                }
                if done {
                    return Ok(answers);
                }
            }
        }
    }
}

fn refused<'a>(
    code: i32,
    mut words: impl Iterator<Item = &'a neli::genl::Nlattr<neli::consts::nl::NlmsgerrAttr, Buffer>>,
) -> Error {
    let message = words.find(|word| u16::from(word.nla_type()) == EXTACK_MESSAGE);
    Error::Refused {
        errno: code.saturating_abs(),
        message: message.map(|word| {
            let text = word.nla_payload().as_ref();
            let text = text.strip_suffix(&[0]).unwrap_or(text);
            String::from_utf8_lossy(text).into_owned()
        }),
    }
}

/// What follows the generic header.
fn body(payload: &[u8]) -> Result<Vec<u8>, Error> {
    payload
        .get(GENERIC_HEADER..)
        .map(<[u8]>::to_vec)
        .ok_or_else(|| Error::Protocol("an answer is cut off".to_owned()))
}

/// The family, and its group of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Family {
    id: u16,
    events: Option<u32>,
}

impl Family {
    fn find(kernel: &mut impl Kernel) -> Result<Self, Error> {
        let mut name = Vec::new();
        attr::put(
            &mut name,
            ctrl::FAMILY_NAME,
            &[FAMILY.as_bytes(), &[0]].concat(),
        );
        let asked = kernel.ask(ctrl::ID, ctrl::GETFAMILY, ctrl::VERSION, &name, false);
        let answers = match asked {
            Err(Error::Refused { errno: ENOENT, .. }) => return Err(Error::NotLoaded),
            answers => answers?,
        };
        let mut family = Self {
            id: 0,
            events: None,
        };
        for attribute in attributes(answers.first().map_or(&[], Vec::as_slice)) {
            let attribute = attribute?;
            match attribute.number {
                ctrl::FAMILY_ID => family.id = attribute.u16("family-id")?,
                ctrl::MCAST_GROUPS => family.events = group(attribute.payload)?,
                _ => {}
            }
        }
        match family.id {
            0 => Err(Error::Protocol("a family without a number".to_owned())),
            _ => Ok(family),
        }
    }
}

/// The number of the group of events, in a list of groups.
fn group(list: &[u8]) -> Result<Option<u32>, Malformed> {
    for group in attributes(list) {
        let (mut name, mut id) = (None, None);
        for attribute in attributes(group?.payload) {
            let attribute = attribute?;
            match attribute.number {
                ctrl::GROUP_NAME => name = Some(attribute.payload),
                ctrl::GROUP_ID => id = Some(attribute.u32("group-id")?),
                _ => {}
            }
        }
        if name.is_some_and(|name| name.strip_suffix(&[0]) == Some(GROUP_EVENTS.as_bytes())) {
            return Ok(id);
        }
    }
    Ok(None)
}

/// A connection to the transport of a network namespace.
///
/// ```no_run
/// use turnstile_netlink::transport::{Client, Settings};
///
/// let mut transport = Client::connect()?;
/// transport.set(&Settings::parse(&["policy", "top", "unscheduled", "1"])?)?;
/// println!("{}", transport.settings()?);
/// for message in transport.messages()? {
///     println!("{message:?}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Client {
    wire: Wire,
    family: Family,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("family", &self.family)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Opens the connection.
    ///
    /// # Errors
    /// [`Error::NotLoaded`], [`Error::Socket`].
    pub fn connect() -> Result<Self, Error> {
        let mut wire = Wire::open()?;
        let family = Family::find(&mut wire)?;
        Ok(Self { wire, family })
    }

    /// The configuration.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Malformed`].
    pub fn settings(&mut self) -> Result<Settings, Error> {
        settings(&mut self.wire, self.family)
    }

    /// Changes what is given of the configuration; all of it, or nothing.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn set(&mut self, settings: &Settings) -> Result<(), Error> {
        set(&mut self.wire, self.family, settings)
    }

    /// The messages under way. They go on meanwhile: a message that begins or ends during the call may or may not be among them.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Malformed`].
    pub fn messages(&mut self) -> Result<Vec<Message>, Error> {
        let id = self.family;
        list(&mut self.wire, id, command::MESSAGE_GET, Message::decode)
    }

    /// The peers of messages under way.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Malformed`].
    pub fn peers(&mut self) -> Result<Vec<Peer>, Error> {
        let id = self.family;
        list(&mut self.wire, id, command::PEER_GET, Peer::decode)
    }

    /// The counters: attribute numbers and values.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Malformed`].
    pub fn counters(&mut self) -> Result<Vec<(u16, u64)>, Error> {
        counters(&mut self.wire, self.family)
    }

    /// From now on, events can be read. Those of all messages under way: at high rates, some are lost ([`Error::Overrun`]).
    ///
    /// # Errors
    /// [`Error::Socket`], [`Error::Protocol`] if the kernel knows no such group.
    pub fn events(&self) -> Result<Events, Error> {
        let group = self
            .family
            .events
            .ok_or_else(|| Error::Protocol("the transport has no events".to_owned()))?;
        let socket = NlSocketHandle::connect(NlFamily::Generic, None, Groups::empty())
            .map_err(Error::Socket)?;
        // A larger buffer is only better; the kernel limits it.
        let _ = socket.set_recv_buffer_size(4 << 20);
        socket
            .add_mcast_membership(Groups::new_groups(&[group]))
            .map_err(Error::Socket)?;
        Ok(Events {
            socket,
            family: self.family.id,
        })
    }
}

fn settings(kernel: &mut impl Kernel, family: Family) -> Result<Settings, Error> {
    let answers = kernel.ask(
        family.id,
        command::TRANSPORT_GET,
        FAMILY_VERSION,
        &[],
        false,
    )?;
    Ok(Settings::decode(
        answers.first().map_or(&[], Vec::as_slice),
    )?)
}

fn set(kernel: &mut impl Kernel, family: Family, settings: &Settings) -> Result<(), Error> {
    let attributes = settings.encode();
    kernel
        .ask(
            family.id,
            command::TRANSPORT_SET,
            FAMILY_VERSION,
            &attributes,
            false,
        )
        .map(drop)
}

fn list<T>(
    kernel: &mut impl Kernel,
    family: Family,
    command: u8,
    decode: impl Fn(&[u8]) -> Result<T, Malformed>,
) -> Result<Vec<T>, Error> {
    let answers = kernel.ask(family.id, command, FAMILY_VERSION, &[], true)?;
    let records: Result<Vec<T>, Malformed> = answers.iter().map(|bytes| decode(bytes)).collect();
    Ok(records?)
}

fn counters(kernel: &mut impl Kernel, family: Family) -> Result<Vec<(u16, u64)>, Error> {
    let answers = kernel.ask(family.id, command::STATS_GET, FAMILY_VERSION, &[], false)?;
    let mut counters = Vec::new();
    for attribute in attributes(answers.first().map_or(&[], Vec::as_slice)) {
        let attribute = attribute?;
        if attribute.number != turnstile_core::uapi::transport::stat::PAD {
            counters.push((attribute.number, attribute.u64("counter")?));
        }
    }
    Ok(counters)
}

/// Events as they happen; see [`Client::events`].
pub struct Events {
    socket: NlSocketHandle,
    family: u16,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    /// Waits for the next ones.
    ///
    /// # Errors
    /// [`Error::Overrun`], after which one can go on; [`Error::Malformed`].
    pub fn wait(&mut self) -> Result<Vec<Event>, Error> {
        let (messages, _) = self.socket.recv::<u16, Buffer>()?;
        let mut events = Vec::new();
        for message in messages {
            let message = message?;
            if *message.nl_type() != self.family {
                continue;
            }
            if let NlPayload::Payload(payload) = message.nl_payload() {
                if payload.as_ref().first() == Some(&command::EVENT) {
                    events.push(Event::decode(&body(payload.as_ref())?)?);
                }
            }
        }
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::record;
    use turnstile_core::uapi::transport::{config, stat};

    /// Answers as it is told, and keeps what it was asked.
    struct Fake {
        answer: Option<Result<Vec<Vec<u8>>, Error>>,
        asked: Vec<(u16, u8, u8, Vec<u8>, bool)>,
    }

    impl Fake {
        fn new(answer: Result<Vec<Vec<u8>>, Error>) -> Self {
            Self {
                answer: Some(answer),
                asked: Vec::new(),
            }
        }
    }

    impl Kernel for Fake {
        fn ask(
            &mut self,
            family: u16,
            command: u8,
            version: u8,
            attributes: &[u8],
            dump: bool,
        ) -> Result<Vec<Vec<u8>>, Error> {
            self.asked
                .push((family, command, version, attributes.to_vec(), dump));
            self.answer.take().unwrap()
        }
    }

    const FAMILY_31: Family = Family {
        id: 31,
        events: None,
    };

    fn refused(errno: i32, message: Option<&str>) -> Error {
        Error::Refused {
            errno,
            message: message.map(str::to_owned),
        }
    }

    #[test]
    fn the_family_and_its_group() {
        let named = |name: &str, id: u32| {
            let mut bytes = Vec::new();
            attr::put_u32(&mut bytes, ctrl::GROUP_ID, id);
            attr::put(
                &mut bytes,
                ctrl::GROUP_NAME,
                &[name.as_bytes(), &[0]].concat(),
            );
            bytes
        };
        let mut groups = Vec::new();
        attr::put(&mut groups, 1, &named("other", 5));
        attr::put(&mut groups, 2, &named("events", 6));
        let mut answer = Vec::new();
        attr::put(&mut answer, ctrl::FAMILY_ID, &31u16.to_ne_bytes());
        attr::put(&mut answer, ctrl::MCAST_GROUPS, &groups);
        let mut kernel = Fake::new(Ok(vec![answer]));
        assert_eq!(
            Family::find(&mut kernel).unwrap(),
            Family {
                id: 31,
                events: Some(6)
            }
        );
        let mut name = Vec::new();
        attr::put(&mut name, 2, b"turnstile\0");
        assert_eq!(kernel.asked, [(0x10, 3, 2, name, false)]);
    }

    #[test]
    fn without_the_module() {
        let mut kernel = Fake::new(Err(refused(ENOENT, None)));
        let error = Family::find(&mut kernel).unwrap_err().to_string();
        assert_eq!(
            error,
            "the turnstile transport is not loaded (modprobe turnstile)"
        );
    }

    #[test]
    fn settings_there_and_back() {
        let words = ["policy", "top", "rto", "1ms"];
        let given = Settings::parse(&words).unwrap();
        let mut kernel = Fake::new(Ok(vec![]));
        set(&mut kernel, FAMILY_31, &given).unwrap();
        assert_eq!(kernel.asked, [(31, 2, 1, given.encode(), false)]);

        let mut answer = given.encode();
        attr::put_u64(&mut answer, config::LINK_IN_FORCE, 1_250_000_000);
        let mut kernel = Fake::new(Ok(vec![answer]));
        let shown = settings(&mut kernel, FAMILY_31).unwrap();
        assert_eq!(shown.to_string(), "policy top rto 1ms");
        assert_eq!(shown.link_in_force, Some(1_250_000_000));
        assert_eq!(kernel.asked, [(31, 1, 1, vec![], false)]);
    }

    #[test]
    fn lists_and_counters() {
        let outgoing = record::tests::outgoing();
        let mut kernel = Fake::new(Ok(vec![outgoing.clone(), outgoing]));
        let all = list(
            &mut kernel,
            FAMILY_31,
            command::MESSAGE_GET,
            Message::decode,
        );
        assert_eq!(all.unwrap().len(), 2);
        assert_eq!(kernel.asked, [(31, 3, 1, vec![], true)]);

        let mut answer = Vec::new();
        attr::put_u64(&mut answer, stat::FIRST, 7);
        attr::put(&mut answer, stat::PAD, &[]);
        attr::put_u64(&mut answer, stat::FIRST + 1, 9);
        let mut kernel = Fake::new(Ok(vec![answer]));
        assert_eq!(counters(&mut kernel, FAMILY_31).unwrap(), [(2, 7), (3, 9)]);
        let mut kernel = Fake::new(Ok(vec![vec![1, 2, 3]]));
        assert!(matches!(
            counters(&mut kernel, FAMILY_31),
            Err(Error::Malformed(_))
        ));
    }

    #[test]
    fn refusals_in_words() {
        let says = |error: Error| error.to_string();
        assert_eq!(
            says(refused(22, Some("turnstile: rto: 2s is above timeout, 1s"))),
            "rto: 2s is above timeout, 1s"
        );
        assert_eq!(
            says(refused(EPERM, None)),
            "needs CAP_NET_ADMIN in the network namespace"
        );
        assert_eq!(
            says(refused(EPERM, Some("no."))),
            "no (needs CAP_NET_ADMIN in the network namespace)"
        );
        assert!(says(refused(16, None)).contains("busy"));
    }

    /// The controller describes itself on every kernel: the whole way, with a family that is always there.
    #[test]
    fn a_real_kernel_answers() {
        let mut wire = Wire::open().unwrap();
        let mut name = Vec::new();
        attr::put(&mut name, ctrl::FAMILY_NAME, b"nlctrl\0");
        let answers = wire
            .ask(ctrl::ID, ctrl::GETFAMILY, ctrl::VERSION, &name, false)
            .unwrap();
        let id = attributes(&answers[0])
            .map(Result::unwrap)
            .find(|attribute| attribute.number == ctrl::FAMILY_ID);
        assert_eq!(id.unwrap().u16("id"), Ok(ctrl::ID));
        let all = wire
            .ask(ctrl::ID, ctrl::GETFAMILY, ctrl::VERSION, &[], true)
            .unwrap();
        assert!(!all.is_empty());
        // A name that is too long is refused by the kernel's policy.
        let mut name = Vec::new();
        attr::put(&mut name, ctrl::FAMILY_NAME, &[b'x'; 64]);
        let error = wire
            .ask(ctrl::ID, ctrl::GETFAMILY, ctrl::VERSION, &name, false)
            .unwrap_err();
        assert!(
            matches!(error, Error::Refused { errno, .. } if errno > 0),
            "{error:?}"
        );
    }
}
