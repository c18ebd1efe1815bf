// SPDX-License-Identifier: GPL-2.0
//! What is measured: loads, and the transports that each is put on.

use turnstile_test_protocol::bench::Unit;

/// Who carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// Turnstile, with the shipped settings.
    Turnstile,
    /// TCP, as it comes: the devices take super-packets.
    Tcp,
    /// TCP over devices without offloads: each packet passes the kernel alone, as Turnstile's do.
    TcpPlain,
    /// Datagrams of one packet each.
    Udp,
    /// Datagrams of one packet each, of which one call sends or receives many (`UDP_SEGMENT`,
    /// `UDP_GRO`).
    UdpGso,
}

/// All of them, in the order of the table.
const TRANSPORTS: [Transport; 5] = [
    Transport::Turnstile,
    Transport::Tcp,
    Transport::TcpPlain,
    Transport::Udp,
    Transport::UdpGso,
];

impl Transport {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Turnstile => "turnstile",
            Self::Tcp => "tcp",
            Self::TcpPlain => "tcp-plain",
            Self::Udp => "udp",
            Self::UdpGso => "udp-gso",
        }
    }

    fn is_udp(self) -> bool {
        matches!(self, Self::Udp | Self::UdpGso)
    }
}

/// In what way messages follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Requests and their answers, one at a time.
    Pairs,
    /// One message and a short answer; at [`super::PACE`], or as it comes.
    Bulk {
        /// Whether it has a rate.
        paced: bool,
    },
    /// Messages in one direction, so many of them at most sent and not yet read, over so many
    /// pairs of sockets in turn.
    OneWay {
        /// How many may be under way.
        under_way: u32,
        /// How many pairs there are.
        sockets: u16,
    },
}

/// What is at the root of either host's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// Nothing.
    None,
    /// A port.
    Port,
    /// A port for each of four queues, which share a link that has time for all.
    Queues,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) shape: Shape,
    /// Bytes of a message.
    pub(super) len: usize,
    /// Messages, or pairs of them, of a batch.
    pub(super) count: u32,
    /// Batches, of which the median counts: in single ones tables grow, or other things have to be
    /// done that are done now and then, and cost some hundredths.
    pub(super) batches: usize,
    /// Over IPv6.
    pub(super) v6: bool,
    /// What it goes through on either host.
    pub(super) root: Root,
}

impl Load {
    const fn pairs(name: &'static str, title: &'static str, len: usize, count: u32) -> Self {
        Self {
            name,
            title,
            shape: Shape::Pairs,
            len,
            count,
            batches: 5,
            v6: false,
            root: Root::None,
        }
    }

    const fn bulk(name: &'static str, title: &'static str, paced: bool) -> Self {
        Self {
            shape: Shape::Bulk { paced },
            batches: 1,
            ..Self::pairs(name, title, 8 << 20, 1)
        }
    }

    const fn one_way(
        name: &'static str,
        title: &'static str,
        len: usize,
        under_way: u32,
        sockets: u16,
    ) -> Self {
        let count = match sockets as u32 {
            many @ 1000.. => many,
            _ => 1000,
        };
        Self {
            shape: Shape::OneWay { under_way, sockets },
            batches: 3,
            ..Self::pairs(name, title, len, count)
        }
    }

    const fn often(self) -> Self {
        Self {
            batches: 15,
            ..self
        }
    }

    const fn v6(self) -> Self {
        Self { v6: true, ..self }
    }

    const fn through(self, root: Root) -> Self {
        Self { root, ..self }
    }

    /// The pairs of sockets that it takes.
    pub(super) fn sockets(&self) -> u16 {
        match self.shape {
            Shape::OneWay { sockets, .. } => sockets,
            _ => 1,
        }
    }

    pub(super) fn unit(&self) -> Unit {
        match self.shape {
            Shape::Bulk { .. } => Unit::Byte,
            _ => Unit::Message,
        }
    }

    /// Messages and bytes of a batch.
    pub(super) fn amount(&self) -> (u64, u64) {
        let messages = match self.shape {
            Shape::Pairs => 2 * u64::from(self.count),
            _ => u64::from(self.count),
        };
        (messages, messages * self.len as u64)
    }
}

/// All of them, in the order of the table.
const LOADS: &[Load] = &[
    Load::pairs("100B", "100 B", 100, 200).often(),
    Load::pairs("10KB", "10 KB", 10_000, 60).often(),
    Load::pairs("1MB", "1 MB", 1_000_000, 2),
    Load::bulk("bulk", "8 MiB", false),
    Load::bulk("bulk-paced", "8 MiB, paced", true),
    Load::pairs("100B-v6", "100 B, IPv6", 100, 200).v6(),
    Load::pairs("10KB-v6", "10 KB, IPv6", 10_000, 60).v6(),
    Load::bulk("bulk-paced-v6", "8 MiB, paced, IPv6", true).v6(),
    Load::pairs("100B-port", "100 B, ports", 100, 200).through(Root::Port),
    Load::pairs("10KB-port", "10 KB, ports", 10_000, 60).through(Root::Port),
    Load::bulk("bulk-paced-port", "8 MiB, paced, ports", true).through(Root::Port),
    Load::pairs("10KB-queues", "10 KB, ports of four queues", 10_000, 60).through(Root::Queues),
    Load::bulk(
        "bulk-paced-queues",
        "8 MiB, paced, ports of four queues",
        true,
    )
    .through(Root::Queues),
    Load::one_way("one-way-100B", "100 B one way", 100, 1, 1),
    Load::one_way(
        "one-way-100B-x1000",
        "100 B one way, 1000 under way",
        100,
        1000,
        1,
    ),
    Load::one_way("one-way-10KB", "10 KB one way", 10_000, 1, 1),
    Load::one_way(
        "one-way-10KB-x1000",
        "10 KB one way, 1000 under way",
        10_000,
        1000,
        1,
    ),
    Load::one_way("100-sockets", "100 B one way, 100 sockets", 100, 1, 100),
    Load::one_way(
        "100-sockets-x1000",
        "the same, 1000 under way",
        100,
        1000,
        100,
    ),
    Load::one_way("4000-sockets", "100 B one way, 4000 sockets", 100, 1, 4000),
    Load::one_way(
        "4000-sockets-x1000",
        "the same, 1000 under way",
        100,
        1000,
        4000,
    ),
];

/// What a run measures that has to be quick.
const QUICK: &[&str] = &["100B", "10KB", "bulk", "bulk-paced", "100B-v6"];

/// A load on a transport.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) transport: Transport,
    pub(super) load: &'static Load,
}

impl Row {
    /// What `--profile` asks for.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.transport.name(), self.load.name)
    }

    fn is_quick(&self) -> bool {
        QUICK.contains(&self.load.name)
            && match self.transport {
                Transport::Turnstile | Transport::Tcp => true,
                Transport::TcpPlain | Transport::Udp | Transport::UdpGso => {
                    !self.load.v6 && self.load.shape != Shape::Bulk { paced: true }
                }
            }
    }
}

/// All rows; those of a quick run come first, so that they are measured after the same as there.
pub(super) fn all(quick: bool) -> Vec<Row> {
    let applies = |row: &Row| {
        // Nobody paces UDP; and what a port drops of it is gone.
        !row.transport.is_udp()
            || !(row.load.root != Root::None || row.load.shape == (Shape::Bulk { paced: true }))
    };
    let rows: Vec<Row> = TRANSPORTS
        .into_iter()
        .flat_map(|transport| LOADS.iter().map(move |load| Row { transport, load }))
        .filter(applies)
        .collect();
    let (first, others): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(Row::is_quick);
    if quick {
        first
    } else {
        first.into_iter().chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_a_quick_run_is_the_beginning_of_a_long_one() {
        let names = |quick| all(quick).iter().map(Row::name).collect::<Vec<_>>();
        let (quick, long) = (names(true), names(false));
        assert_eq!(long[..quick.len()], quick);
        assert!(long.len() > 3 * quick.len(), "{}", long.len());
        let mut sorted = long.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), long.len());
        for name in ["turnstile/100B", "tcp/bulk-paced", "udp-gso/10KB"] {
            assert!(quick.iter().any(|it| it == name), "{name}");
        }
        assert!(!long.iter().any(|name| name == "udp/bulk-paced"));
    }

    #[test]
    fn each_socket_has_a_message_in_a_batch() {
        for load in LOADS {
            assert!(load.count >= u32::from(load.sockets()) || load.sockets() == 1);
        }
        assert_eq!(LOADS[0].amount(), (400, 40_000));
    }
}
