// SPDX-License-Identifier: GPL-2.0
//! Messages, peers and events as the kernel reports them.

use std::net::{IpAddr, Ipv6Addr};

use neli::attr::Attribute as _;
use neli::genl::Nlattr;
use neli::types::Buffer;
use neli::FromBytes;
use turnstile_core::transport::uapi::{self as uapi, link as l, message as m, peer as p};

use super::client::Attributes;
use crate::attr::Malformed;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It comes in.
    In,
    /// It goes out.
    Out,
}

/// A message under way. What the kernel did not say is `None` or 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// Which way it goes.
    pub direction: Option<Direction>,
    /// The other end.
    pub peer: Option<IpAddr>,
    /// The local port.
    pub local_port: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// A number that no other message of the namespace has.
    pub number: u64,
    /// Bytes; `None` while it is not known.
    pub length: Option<u64>,
    /// Bytes: out: acknowledged; in: received.
    pub received: u64,
    /// Bytes: out: sent at least once; in: below which tokens may be given.
    pub window: u64,
    /// Priority of its tokens.
    pub priority: Option<u32>,
    /// bytes/s: of tokens (in), of the message if it is paced here (out).
    pub rate: Option<u64>,
    /// ns: the smoothed round-trip time (in, and of what is paced here).
    pub rtt: Option<u64>,
    /// Tokens sent (in), tokens that were valid (out).
    pub tokens: u64,
    /// Tokens taken for lost (in), tokens that were not valid (out).
    pub tokens_lost: u64,
    /// Data packets received (in), sent (out).
    pub packets: u64,
    /// Data packets that came again (in), were sent again (out).
    pub repeated: u64,
    /// ns since it began.
    pub age: u64,
    /// The coflow, if it has one.
    pub coflow: Option<u32>,
    /// ns from now until the deadline, if it has one; 0: over.
    pub deadline: Option<u64>,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A message began.
    Opened,
    /// A message was delivered.
    Delivered,
    /// A message failed.
    Failed,
    /// The configuration was changed.
    Configured,
    /// A limit was met; at most one a second for each cause.
    Limited,
    /// Something that this version does not know.
    Other(u32),
}

/// Something that happened, and to which message, if it was one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// The errno of what failed.
    pub error: Option<u32>,
    /// The limit that was met, as the attribute of the configuration that sets it; 0: memory.
    pub limit: Option<u16>,
    /// Events before this one that the kernel could not tell, because there were too many at once.
    pub lost: u64,
    /// The message.
    pub message: Message,
}

/// A peer of messages under way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    /// Its address.
    pub address: Option<IpAddr>,
    /// Messages that come in from it.
    pub incoming: u32,
    /// Messages that go out to it.
    pub outgoing: u32,
    /// Bytes that are missing of what comes in.
    pub missing: u64,
    /// Bytes not acknowledged of what goes out.
    pub unacknowledged: u64,
    /// ns: the least round-trip time among its messages.
    pub rtt: Option<u64>,
}

/// A link that messages come in by.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// Its device's index; `None`: all devices without a speed share it, or its device is gone.
    pub device: Option<u32>,
    /// Bytes/s: the link rate in force.
    pub rate: u64,
    /// Bytes/s: the rate of all tokens for it.
    pub token_rate: u64,
    /// Messages that come in by it.
    pub incoming: u32,
}

impl EventKind {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::Configured => "configured",
            Self::Limited => "limited",
            Self::Other(_) => "other",
        }
    }

    fn from_number(number: u32) -> Self {
        match number {
            uapi::EVENT_OPENED => Self::Opened,
            uapi::EVENT_DELIVERED => Self::Delivered,
            uapi::EVENT_FAILED => Self::Failed,
            uapi::EVENT_CONFIGURED => Self::Configured,
            uapi::EVENT_LIMITED => Self::Limited,
            other => Self::Other(other),
        }
    }
}

/// An attribute.
type Attribute = Nlattr<u16, Buffer>;

/// The error that an attribute's payload means nothing.
fn malformed(attribute: &Attribute, name: &'static str) -> Malformed {
    Malformed::Value {
        name,
        bytes: attribute.nla_payload().as_ref().to_vec(),
    }
}

/// The payload, an integer or an array of bytes. `name` goes into the error.
pub(super) fn number<T: FromBytes>(
    attribute: &Attribute,
    name: &'static str,
) -> Result<T, Malformed> {
    attribute
        .get_payload_as()
        .map_err(|_| malformed(attribute, name))
}

/// An address of 16 bytes.
fn address(attribute: &Attribute, name: &'static str) -> Result<IpAddr, Malformed> {
    let bytes: [u8; 16] = number(attribute, name)?;
    Ok(Ipv6Addr::from(bytes).to_canonical())
}

impl Message {
    /// From the attributes of an answer. What is not known is left out.
    pub(super) fn decode(attributes: &Attributes) -> Result<Self, Malformed> {
        let mut message = Self::default();
        for attribute in attributes.iter() {
            message.take(attribute)?;
        }
        Ok(message)
    }

    fn take(&mut self, a: &Attribute) -> Result<(), Malformed> {
        match *a.nla_type().nla_type() {
            m::DIRECTION => {
                self.direction = match number(a, "direction")? {
                    uapi::DIRECTION_IN => Some(Direction::In),
                    uapi::DIRECTION_OUT => Some(Direction::Out),
                    _ => return Err(malformed(a, "direction")),
                }
            }
            m::PEER => self.peer = Some(address(a, "peer")?),
            m::LOCAL_PORT => self.local_port = number(a, "local-port")?,
            m::PEER_PORT => self.peer_port = number(a, "peer-port")?,
            m::NUMBER => self.number = number(a, "number")?,
            m::LENGTH => self.length = Some(number(a, "length")?),
            m::RECEIVED => self.received = number(a, "received")?,
            m::WINDOW => self.window = number(a, "window")?,
            m::PRIORITY => self.priority = Some(number(a, "priority")?),
            m::RATE64 => self.rate = Some(number(a, "rate64")?),
            m::RTT => self.rtt = Some(number(a, "rtt")?),
            m::TOKENS => self.tokens = number(a, "tokens")?,
            m::TOKENS_LOST => self.tokens_lost = number(a, "tokens-lost")?,
            m::PACKETS => self.packets = number(a, "packets")?,
            m::REPEATED => self.repeated = number(a, "repeated")?,
            m::AGE => self.age = number(a, "age")?,
            m::COFLOW => self.coflow = Some(number(a, "coflow")?),
            m::DEADLINE => self.deadline = Some(number(a, "deadline")?),
            _ => {}
        }
        Ok(())
    }
}

impl Event {
    /// From the attributes of a notification. What is not known is left out.
    pub(super) fn decode(attributes: &Attributes) -> Result<Self, Malformed> {
        let mut event = Self {
            kind: EventKind::Other(u32::MAX),
            error: None,
            limit: None,
            lost: 0,
            message: Message::default(),
        };
        for attribute in attributes.iter() {
            match *attribute.nla_type().nla_type() {
                m::EVENT => event.kind = EventKind::from_number(number(attribute, "event")?),
                m::ERROR => event.error = Some(number(attribute, "error")?),
                m::LIMIT => event.limit = u16::try_from(number::<u32>(attribute, "limit")?).ok(),
                m::LOST => event.lost = number(attribute, "lost")?,
                _ => event.message.take(attribute)?,
            }
        }
        Ok(event)
    }
}

impl Peer {
    /// From the attributes of an answer. What is not known is left out.
    pub(super) fn decode(attributes: &Attributes) -> Result<Self, Malformed> {
        let mut peer = Self::default();
        for a in attributes.iter() {
            match *a.nla_type().nla_type() {
                p::ADDRESS => peer.address = Some(address(a, "address")?),
                p::INCOMING => peer.incoming = number(a, "incoming")?,
                p::OUTGOING => peer.outgoing = number(a, "outgoing")?,
                p::MISSING => peer.missing = number(a, "missing")?,
                p::UNACKNOWLEDGED => peer.unacknowledged = number(a, "unacknowledged")?,
                p::RTT => peer.rtt = Some(number(a, "rtt")?),
                _ => {}
            }
        }
        Ok(peer)
    }
}

impl Link {
    /// From the attributes of an answer. What is not known is left out.
    pub(super) fn decode(attributes: &Attributes) -> Result<Self, Malformed> {
        let mut link = Self::default();
        for a in attributes.iter() {
            match *a.nla_type().nla_type() {
                l::DEVICE => link.device = Some(number(a, "device")?),
                l::RATE => link.rate = number(a, "rate")?,
                l::TOKEN_RATE => link.token_rate = number(a, "token-rate")?,
                l::INCOMING => link.incoming = number(a, "incoming")?,
                _ => {}
            }
        }
        Ok(link)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::client::from_bytes;
    use super::*;
    use crate::attr::{put, put_u32, put_u64};
    use proptest::prelude::*;

    pub(crate) fn read(bytes: &[u8]) -> Attributes {
        from_bytes(bytes).unwrap()
    }

    /// The attributes of a message that goes out, as the kernel writes them.
    pub(crate) fn outgoing() -> Vec<u8> {
        let mut bytes = Vec::new();
        put_u32(&mut bytes, m::DIRECTION, uapi::DIRECTION_OUT);
        let peer = std::net::Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped();
        put(&mut bytes, m::PEER, &peer.octets());
        put(&mut bytes, m::LOCAL_PORT, &40_000u16.to_ne_bytes());
        put(&mut bytes, m::PEER_PORT, &5000u16.to_ne_bytes());
        put_u64(&mut bytes, m::NUMBER, 7);
        put_u64(&mut bytes, m::LENGTH, 1_000_000);
        put_u64(&mut bytes, m::RECEIVED, 250_000);
        put(&mut bytes, m::PAD, &[]);
        put_u64(&mut bytes, m::WINDOW, 300_000);
        put_u64(&mut bytes, m::TOKENS, 210);
        put_u64(&mut bytes, m::TOKENS_LOST, 1);
        put_u64(&mut bytes, m::PACKETS, 210);
        put_u64(&mut bytes, m::REPEATED, 2);
        put_u64(&mut bytes, m::AGE, 1_500_000);
        put_u32(&mut bytes, m::COFLOW, 3);
        bytes
    }

    #[test]
    fn a_message() {
        let message = Message::decode(&read(&outgoing())).unwrap();
        assert_eq!(
            message,
            Message {
                direction: Some(Direction::Out),
                peer: Some("10.0.0.2".parse().unwrap()),
                local_port: 40_000,
                peer_port: 5000,
                number: 7,
                length: Some(1_000_000),
                received: 250_000,
                window: 300_000,
                tokens: 210,
                tokens_lost: 1,
                packets: 210,
                repeated: 2,
                age: 1_500_000,
                coflow: Some(3),
                ..Message::default()
            }
        );
    }

    #[test]
    fn a_link() {
        let mut bytes = Vec::new();
        put_u64(&mut bytes, l::RATE, 125_000_000);
        put_u64(&mut bytes, l::TOKEN_RATE, 6_473_489);
        put_u32(&mut bytes, l::INCOMING, 2);
        let shared = Link::decode(&read(&bytes)).unwrap();
        let expected = Link {
            device: None,
            rate: 125_000_000,
            token_rate: 6_473_489,
            incoming: 2,
        };
        assert_eq!(shared, expected);
        put_u32(&mut bytes, l::DEVICE, 7);
        let own = Link::decode(&read(&bytes)).unwrap();
        assert_eq!((own.device, own.rate), (Some(7), 125_000_000));
    }

    #[test]
    fn an_event_and_a_peer() {
        let mut bytes = outgoing();
        put_u32(&mut bytes, m::EVENT, uapi::EVENT_FAILED);
        put_u32(&mut bytes, m::ERROR, 110);
        let event = Event::decode(&read(&bytes)).unwrap();
        assert_eq!((event.kind, event.error), (EventKind::Failed, Some(110)));
        assert_eq!(event.message, Message::decode(&read(&outgoing())).unwrap());
        assert_eq!((event.limit, event.lost), (None, 0));

        let mut bytes = Vec::new();
        put_u32(&mut bytes, m::EVENT, uapi::EVENT_LIMITED);
        put_u64(&mut bytes, m::LOST, 7);
        put_u32(&mut bytes, m::LIMIT, uapi::config::MAX_INCOMING.into());
        let event = Event::decode(&read(&bytes)).unwrap();
        assert_eq!(event.limit, Some(uapi::config::MAX_INCOMING));
        assert_eq!((event.kind, event.lost), (EventKind::Limited, 7));

        let mut bytes = Vec::new();
        let address: Ipv6Addr = "fd00::2".parse().unwrap();
        put(&mut bytes, p::ADDRESS, &address.octets());
        put_u32(&mut bytes, p::INCOMING, 2);
        put_u64(&mut bytes, p::MISSING, 9);
        put_u64(&mut bytes, p::RTT, 48_000);
        let peer = Peer::decode(&read(&bytes)).unwrap();
        assert_eq!(peer.address, Some(address.into()));
        assert_eq!(
            (peer.incoming, peer.outgoing, peer.missing, peer.rtt),
            (2, 0, 9, Some(48_000))
        );
    }

    #[test]
    fn nonsense_is_named() {
        let mut bytes = Vec::new();
        put(&mut bytes, m::PEER, &[10, 0, 0, 2]);
        let error = Message::decode(&read(&bytes)).unwrap_err().to_string();
        assert!(error.contains("attribute peer"), "{error}");
        let mut bytes = Vec::new();
        put_u32(&mut bytes, m::DIRECTION, 2);
        assert!(Message::decode(&read(&bytes)).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(bytes: Vec<u8>, end: prop::sample::Index) {
            let whole = outgoing();
            for bytes in [&bytes, &whole[..end.index(whole.len())]] {
                if let Ok(read) = from_bytes(bytes) {
                    let _ = (Message::decode(&read), Event::decode(&read), Peer::decode(&read));
                    let _ = Link::decode(&read);
                }
            }
        }
    }
}
