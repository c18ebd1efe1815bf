// SPDX-License-Identifier: GPL-2.0
//! Messages of rtnetlink to and from the kernel.
//!
//! `netlink-packet-route` knows neither this kind nor its options: it hands unknown ones over as
//! one attribute that holds the whole nest, and leaves `NLA_F_NESTED` out when it writes one, which
//! the kernel refuses. So options go out as an attribute of no special type.

use netlink_packet_core::{DefaultNla, Nla};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption, TcStats2, TcXstats};
use turnstile_core::port::band::Band;
use turnstile_core::port::uapi;

use crate::attr::{Malformed, NESTED};
use crate::place::{Id, Place};
use crate::stats::{ClassStats, MarkerStats, PortStats};
use crate::wire::decode_class_band;
use crate::Options;

const TCA_OPTIONS: u16 = 2;
const TCA_STATS_PKT64: u16 = 8;

/// What the kernel counts for every qdisc and class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Bytes sent.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped.
    pub drops: u32,
    /// Times that shaping held packets back.
    pub overlimits: u32,
    /// Packets that the device gave back.
    pub requeues: u32,
    /// Bytes queued.
    pub backlog: u32,
    /// Packets queued.
    pub qlen: u32,
}

/// A port as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The device's number.
    pub index: i32,
    /// The device's name.
    pub dev: String,
    /// The port's own id.
    pub handle: Id,
    /// The class that it hangs below, or [`Id::ROOT`].
    pub parent: Id,
    /// It stands for the ports of the device's transmit queues: kind `turnstile_mq`. Each of those
    /// is a port of its own beside it, and a class.
    pub queues: bool,
    /// All options in force.
    pub options: Options,
    /// What the kernel counts for every qdisc.
    pub counters: Counters,
    /// What this one counts.
    pub stats: PortStats,
    /// Its classes; empty unless they were asked for.
    pub classes: Vec<Class>,
}

/// A class of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its id.
    pub id: Id,
    /// What it holds; `None` if the kernel does not say.
    pub band: Option<Band>,
    /// The child qdisc grafted on it.
    pub leaf: Option<Id>,
    /// What the kernel counts for every class.
    pub counters: Counters,
    /// What this one counts.
    pub stats: ClassStats,
    /// What its markers count.
    pub markers: MarkerStats,
}

fn handle(id: Id) -> TcHandle {
    id.0.into()
}

fn id(handle: TcHandle) -> Id {
    Id::new(handle.major, handle.minor)
}

/// A message about the qdisc of this kind at this place. `options`: what is inside `TCA_OPTIONS`.
pub(crate) fn request(index: i32, place: &Place, kind: &str, options: Option<&[u8]>) -> TcMessage {
    let mut message = TcMessage::with_index(index);
    message.header.parent = handle(place.parent);
    if let Some(own) = place.handle {
        message.header.handle = handle(own);
    }
    message.attributes.push(TcAttribute::Kind(kind.to_owned()));
    if let Some(options) = options {
        let nest = DefaultNla::new(TCA_OPTIONS | NESTED, options.to_vec());
        message.attributes.push(TcAttribute::Other(nest));
    }
    message
}

/// The payload of an attribute of unknown type.
fn payload(attribute: &DefaultNla) -> Vec<u8> {
    let mut bytes = vec![0; attribute.value_len()];
    attribute.emit_value(&mut bytes);
    bytes
}

/// What is in a message about a port or class, besides its header.
#[derive(Default)]
struct Parts {
    kind: String,
    options: Vec<u8>,
    own: Vec<u8>,
    counters: Counters,
}

impl Parts {
    fn new(message: &TcMessage) -> Self {
        let mut parts = Self::default();
        for attribute in &message.attributes {
            match attribute {
                TcAttribute::Kind(kind) => parts.kind.clone_from(kind),
                TcAttribute::Options(options) => {
                    if let [TcOption::Other(nest)] = options.as_slice() {
                        parts.options = payload(nest);
                    }
                }
                TcAttribute::Stats2(stats) => stats.iter().for_each(|stat| parts.count(stat)),
                TcAttribute::Xstats(TcXstats::Other(own)) => parts.own.clone_from(own),
                _ => {}
            }
        }
        parts
    }

    fn count(&mut self, stat: &TcStats2) {
        let counters = &mut self.counters;
        match stat {
            TcStats2::Basic(basic) => {
                counters.bytes = basic.bytes;
                counters.packets = counters.packets.max(basic.packets.into());
            }
            TcStats2::Queue(queue) => {
                counters.drops = queue.drops;
                counters.overlimits = queue.overlimits;
                counters.requeues = queue.requeues;
                counters.backlog = queue.backlog;
                counters.qlen = queue.qlen;
            }
            // Sent beside the 32-bit count when that has overflowed.
            TcStats2::Other(other) if other.kind() == TCA_STATS_PKT64 => {
                if let Some(bytes) = payload(other).first_chunk() {
                    counters.packets = u64::from_ne_bytes(*bytes);
                }
            }
            _ => {}
        }
    }
}

/// A qdisc as the kernel reports it, with its own part as it came.
pub(crate) struct Found {
    pub(crate) index: i32,
    pub(crate) dev: String,
    pub(crate) handle: Id,
    pub(crate) parent: Id,
    /// What is inside `TCA_OPTIONS`.
    pub(crate) options: Vec<u8>,
    pub(crate) counters: Counters,
    /// What is inside `TCA_XSTATS`.
    pub(crate) own: Vec<u8>,
}

/// The qdisc in a message; `None` if it is of another kind. `dev` remains to be filled in.
pub(crate) fn found(message: &TcMessage, kind: &str) -> Option<Found> {
    let parts = Parts::new(message);
    (parts.kind == kind).then(|| Found {
        index: message.header.index,
        dev: String::new(),
        handle: id(message.header.handle),
        parent: id(message.header.parent),
        options: parts.options,
        counters: parts.counters,
        own: parts.own,
    })
}

/// The port in a message; `None` if it is about a qdisc of another kind. `dev` and `classes` remain
/// to be filled in.
pub(crate) fn port(message: &TcMessage) -> Result<Option<Port>, Malformed> {
    let parts = Parts::new(message);
    if parts.kind != uapi::KIND && parts.kind != uapi::KIND_MQ {
        return Ok(None);
    }
    Ok(Some(Port {
        index: message.header.index,
        dev: String::new(),
        handle: id(message.header.handle),
        parent: id(message.header.parent),
        queues: parts.kind == uapi::KIND_MQ,
        options: Options::decode(&parts.options)?,
        counters: parts.counters,
        stats: PortStats::decode(&parts.own)?,
        classes: Vec::new(),
    }))
}

/// The kind and the id of the qdisc in a message, if it hangs at this place and was put there by
/// somebody.
///
/// The qdisc that every device begins with has no id, and gives way to any other.
pub(crate) fn occupant(message: &TcMessage, index: i32, parent: Id) -> Option<(String, Id)> {
    let header = &message.header;
    let there = header.index == index && id(header.parent) == parent && header.handle.major != 0;
    there.then(|| (Parts::new(message).kind, id(header.handle)))
}

/// The class in a message; `None` if it is a class of another kind of qdisc.
pub(crate) fn class(message: &TcMessage) -> Result<Option<Class>, Malformed> {
    let parts = Parts::new(message);
    if parts.kind != uapi::KIND {
        return Ok(None);
    }
    Ok(Some(Class {
        id: id(message.header.handle),
        band: decode_class_band(&parts.options)?,
        leaf: Some(Id(message.header.info)).filter(|leaf| leaf.0 != 0),
        counters: parts.counters,
        stats: ClassStats::decode(&parts.own)?,
        markers: MarkerStats::decode(&parts.own)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{put, put_u32};
    use crate::parse;
    use netlink_packet_core::{Emitable, Parseable};

    fn bytes_of(message: &TcMessage) -> Vec<u8> {
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    }

    #[test]
    fn request_as_the_kernel_wants_it() {
        let options = parse(&["mpu", "64"]).unwrap();
        let place = Place {
            dev: "swp1".into(),
            parent: Id::new(1, 2),
            handle: Some(Id::new(7, 0)),
            queues: false,
        };
        let bytes = bytes_of(&request(3, &place, uapi::KIND, Some(&options.encode())));
        let mut expected = vec![0; 4];
        for word in [3u32, 0x7_0000, 0x1_0002, 0] {
            expected.extend(word.to_ne_bytes());
        }
        put(&mut expected, 1, b"turnstile\0");
        put(&mut expected, TCA_OPTIONS | NESTED, &options.encode());
        assert_eq!(bytes, expected);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn request_as_documented() {
        let text = include_str!("../../../docs/netlink.md");
        let example = text.split("```").nth(1).unwrap();
        // Hex first, then words, two spaces or more apart.
        let hex = |line: &str| {
            let line = line
                .split("TCA_")
                .next()
                .unwrap()
                .split("LINK_")
                .next()
                .unwrap();
            let line = line.split("PRIORITIES").next().unwrap().to_owned();
            let byte = |word: &str| u8::from_str_radix(word, 16).unwrap();
            line.split_whitespace().map(byte).collect::<Vec<_>>()
        };
        let documented: Vec<u8> = example.lines().flat_map(hex).collect();
        let options = parse(&["link", "10gbit", "priorities", "2"]).unwrap();
        let bytes = bytes_of(&request(
            3,
            &Place::root("swp1"),
            uapi::KIND,
            Some(&options.encode()),
        ));
        assert_eq!(bytes[20..], documented);
    }

    /// A dump as the kernel writes it.
    fn dump(kind: &str, options: &[u8], own: &[u8], pkt64: bool) -> TcMessage {
        let mut bytes = vec![0; 4];
        for word in [3u32, 0x1_0000, u32::MAX, 0x9_0000] {
            bytes.extend(word.to_ne_bytes());
        }
        put(&mut bytes, 1, &[kind.as_bytes(), &[0]].concat());
        put(&mut bytes, TCA_OPTIONS, options);
        let mut stats = Vec::new();
        let mut basic = 1500u64.to_ne_bytes().to_vec();
        basic.extend(7u32.to_ne_bytes());
        basic.extend([0; 4]);
        put(&mut stats, 1, &basic);
        let queue: Vec<u8> = [1u32, 2, 3, 4, 5]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        put(&mut stats, 3, &queue);
        if pkt64 {
            put(&mut stats, TCA_STATS_PKT64, &(1u64 << 33).to_ne_bytes());
        }
        put(&mut bytes, 7 | NESTED, &stats);
        put(&mut bytes, 4, own);
        TcMessage::parse(bytes.as_slice()).unwrap()
    }

    #[test]
    fn port_of_a_dump() {
        let options = parse(&["link", "1gbit", "dscp", "none"]).unwrap();
        let stats = PortStats {
            gso_splits: 5,
            ..PortStats::default()
        };
        let port = port(&dump(
            "turnstile",
            &options.encode(),
            &stats.encode(),
            false,
        ))
        .unwrap()
        .unwrap();
        assert_eq!(
            (port.index, port.handle, port.parent),
            (3, Id::new(1, 0), Id::ROOT)
        );
        assert_eq!(port.options, options);
        assert_eq!(
            port.options.get(uapi::option::LINK_RATE64),
            Some(125_000_000)
        );
        assert_eq!(port.stats, stats);
        let counters = Counters {
            bytes: 1500,
            packets: 7,
            qlen: 1,
            backlog: 2,
            drops: 3,
            requeues: 4,
            overlimits: 5,
        };
        assert_eq!(port.counters, counters);
    }

    #[test]
    fn ports_of_queues_of_a_dump() {
        let options = parse(&["tokens", "4%"]).unwrap();
        let dump = dump("turnstile_mq", &options.encode(), &[], false);
        let port = port(&dump).unwrap().unwrap();
        assert!(port.queues);
        assert_eq!(port.options, options);
        assert_eq!(class(&dump), Ok(None), "its classes are no bands");
    }

    #[test]
    fn class_of_a_dump() {
        let mut options = Vec::new();
        put_u32(&mut options, uapi::CLASS_BAND, uapi::class::DATA.into());
        let stats = ClassStats {
            child: 2,
            ..ClassStats::default()
        };
        let class = class(&dump("turnstile", &options, &stats.encode(), true))
            .unwrap()
            .unwrap();
        assert_eq!(
            (class.band, class.leaf),
            (Some(Band::Data), Some(Id::new(9, 0)))
        );
        assert_eq!((class.stats, class.counters.packets), (stats, 1 << 33));
    }

    #[test]
    fn who_is_there() {
        let there = dump("prio", &[], &[], false);
        assert_eq!(
            occupant(&there, 3, Id::ROOT),
            Some(("prio".to_owned(), Id::new(1, 0)))
        );
        assert_eq!(occupant(&there, 4, Id::ROOT), None);
        assert_eq!(occupant(&there, 3, Id::new(1, 1)), None);
        let mut default = there;
        default.header.handle = TcHandle::UNSPEC;
        assert_eq!(occupant(&default, 3, Id::ROOT), None);
    }

    #[test]
    fn others_are_passed_over() {
        assert_eq!(port(&dump("pfifo", &[1, 2, 3], &[9], false)), Ok(None));
        assert_eq!(class(&dump("prio", &[], &[], false)), Ok(None));
        assert!(port(&dump("turnstile", &[9, 0, 1, 0], &[], false)).is_err());
    }
}
