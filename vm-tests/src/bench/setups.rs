// SPDX-License-Identifier: GPL-2.0
//! What is measured: Turnstile's port in several configurations, and stock qdiscs with the same
//! packets.

use super::meter::DEV;
use super::packets::{self, PacketSet, BANDS, DSCPS, FIRST_PORT};

/// Where all of them go.
pub(super) const ROOT: &str = "root handle 1:";
/// Eight bands: signal, six token priorities, data. Half of the device's 400 Gbit/s is for tokens,
/// so that none waits for its release; and a token may take longer than it would on a real link of
/// that speed, where an instruction takes less than a nanosecond.
const PORT: &str = "priorities 6 unscheduled off tokens 50% token-expiry 1ms";
/// The minor numbers of these bands.
const PORT_MINORS: [u32; BANDS] = [0x1, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x2];
/// The minor numbers of a stock qdisc's bands.
const STOCK_MINORS: [u32; BANDS] = [1, 2, 3, 4, 5, 6, 7, 8];

/// One thing to measure.
#[derive(Clone, Debug)]
pub(super) struct SetUp {
    /// Tells it from the others; what gates ask for.
    pub(super) name: &'static str,
    /// The root qdisc's.
    pub(super) kind: &'static str,
    /// For people.
    pub(super) title: &'static str,
    /// Lines for `tc`.
    pub(super) commands: Vec<String>,
    /// What is sent.
    pub(super) packets: PacketSet,
    /// The classes that the packets are for, in equal parts.
    pub(super) classes: Vec<String>,
    /// It is set up so many times, and the cheapest counts.
    pub(super) times: u32,
}

/// Flower keeps its filters in a hash table whose key is drawn with each set-up: for each two that
/// are in one chain there the mean packet takes 15 instructions more. In a third of all tables some
/// are; hardly ever in so many tables in turn.
const TABLES: u32 = 8;

impl SetUp {
    fn new(
        name: &'static str,
        kind: &'static str,
        title: &'static str,
        options: &str,
        packets: PacketSet,
    ) -> Self {
        Self {
            name,
            kind,
            title,
            commands: vec![format!("qdisc add dev {DEV} {ROOT} {kind} {options}")],
            packets,
            classes: Vec::new(),
            times: 1,
        }
    }

    /// The eight flower filters, as [`filters`].
    fn with_flower(mut self, minors: [u32; BANDS]) -> Self {
        self.times = TABLES;
        self.and(filters(minors, |udp_port| {
            format!("flower ip_proto udp dst_port {udp_port}")
        }))
    }

    fn and(mut self, commands: impl IntoIterator<Item = String>) -> Self {
        self.commands.extend(commands);
        self
    }

    /// Checks afterwards that classes `handle:minor` got all packets.
    fn spread(mut self, handle: u32, minors: &[u32]) -> Self {
        self.classes = minors
            .iter()
            .map(|minor| format!("{handle}:{minor:x}"))
            .collect();
        self
    }
}

fn port(name: &'static str, title: &'static str, options: &str, packets: PacketSet) -> SetUp {
    SetUp::new(name, "turnstile", title, options, packets).spread(1, &PORT_MINORS)
}

/// One filter for each of the classes: the packets of [`packets::flows`].
fn filters(minors: [u32; BANDS], of: impl Fn(u16) -> String) -> Vec<String> {
    (FIRST_PORT..)
        .zip(minors)
        .map(|(udp_port, minor)| {
            let rule = of(udp_port);
            format!("filter add dev {DEV} parent 1: protocol ip prio 1 {rule} classid 1:{minor:x}")
        })
        .collect()
}

fn u32_filters(minors: [u32; BANDS]) -> Vec<String> {
    filters(minors, |udp_port| {
        format!("u32 match ip dport {udp_port} 0xffff")
    })
}

/// All of them, in the order of the table.
pub(super) fn all() -> Vec<SetUp> {
    let mut all = turnstile();
    all.extend(stock());
    all
}

fn turnstile() -> Vec<SetUp> {
    let by_id = || packets::class_ids(1, PORT_MINORS);
    let map = ["signal".to_owned()]
        .into_iter()
        .chain((0..6).map(|n| format!("token{n}")))
        .zip(DSCPS)
        .map(|(class, dscp)| format!("{dscp}={class}"))
        .collect::<Vec<_>>()
        .join(",");
    vec![
        port("turnstile/class-id", "8 bands, class id", PORT, by_id()),
        port(
            "turnstile/header",
            "8 bands, header",
            PORT,
            packets::headers(),
        ),
        port(
            "turnstile/header-ipv6",
            "8 bands, header, IPv6",
            PORT,
            packets::headers_v6(),
        ),
        port(
            "turnstile/header-vlan",
            "8 bands, header, VLAN tag",
            PORT,
            packets::headers_tagged(),
        ),
        port(
            "turnstile/dscp",
            "8 bands, DSCP",
            &format!("{PORT} dscp {map}"),
            packets::dscps(),
        ),
        port(
            "turnstile/u32",
            "8 bands, 8 u32 filters",
            PORT,
            packets::flows(),
        )
        .and(u32_filters(PORT_MINORS)),
        port(
            "turnstile/flower",
            "8 bands, 8 flower filters",
            PORT,
            packets::flows(),
        )
        .with_flower(PORT_MINORS),
        port(
            "turnstile/shaped",
            "8 bands, class id, shaped link",
            &format!("link 400gbit {PORT}"),
            by_id(),
        ),
        port(
            "turnstile/shaped-data",
            "only data, shaped link",
            "link 400gbit",
            packets::flows(),
        )
        .spread(1, &[2]),
        port(
            "turnstile/data-first",
            "8 bands, class id, data first",
            &format!("{PORT} order data-first"),
            by_id(),
        ),
        port(
            "turnstile/data",
            "defaults, only data",
            "",
            packets::flows(),
        )
        .spread(1, &[2]),
        port(
            "turnstile/fq_codel",
            "only data, with fq_codel",
            "",
            packets::flows(),
        )
        .and([format!("qdisc add dev {DEV} parent 1:2 fq_codel")])
        .spread(1, &[2]),
        port(
            "turnstile/split",
            "super-packets, split",
            "split-gso",
            packets::super_packet(),
        )
        .spread(1, &[2]),
        port(
            "turnstile/whole",
            "super-packets, defaults",
            "",
            packets::super_packet(),
        )
        .spread(1, &[2]),
    ]
}

fn stock() -> Vec<SetUp> {
    let by_id = |handle| packets::class_ids(handle, STOCK_MINORS);
    let htb_class = |minor| {
        format!(
            "class add dev {DEV} parent 1: classid 1:{minor} htb rate 50gbit ceil 400gbit \
                 quantum 1514"
        )
    };
    vec![
        SetUp::new("pfifo", "pfifo", "", "limit 1000", packets::flows()),
        SetUp::new("pfifo_fast", "pfifo_fast", "", "", packets::flows()),
        SetUp::new("prio", "prio", "8 bands, class id", "bands 8", by_id(1))
            .spread(1, &STOCK_MINORS),
        SetUp::new(
            "prio/u32",
            "prio",
            "8 bands, 8 u32 filters",
            "bands 8",
            packets::flows(),
        )
        .and(u32_filters(STOCK_MINORS))
        .spread(1, &STOCK_MINORS),
        SetUp::new(
            "prio/flower",
            "prio",
            "8 bands, 8 flower filters",
            "bands 8",
            packets::flows(),
        )
        .with_flower(STOCK_MINORS)
        .spread(1, &STOCK_MINORS),
        SetUp::new(
            "tbf",
            "tbf",
            "",
            "rate 400gbit burst 1mb limit 1mb",
            packets::flows(),
        ),
        SetUp::new(
            "tbf+prio",
            "tbf",
            "prio child, 8 bands, class id",
            "rate 400gbit burst 1mb limit 1mb",
            by_id(2),
        )
        .and([format!(
            "qdisc add dev {DEV} parent 1:1 handle 2: prio bands 8"
        )])
        .spread(2, &STOCK_MINORS),
        SetUp::new("htb", "htb", "8 classes, class id", "", by_id(1))
            .and(STOCK_MINORS.map(htb_class))
            .spread(1, &STOCK_MINORS),
        SetUp::new(
            "ets/strict",
            "ets",
            "8 strict bands, class id",
            "strict 8",
            by_id(1),
        )
        .spread(1, &STOCK_MINORS),
        SetUp::new(
            "ets/quanta",
            "ets",
            "8 bands that share, class id",
            "quanta 1514 1514 1514 1514 1514 1514 1514 1514",
            by_id(1),
        )
        .spread(1, &STOCK_MINORS),
        SetUp::new("fq", "fq", "", "", packets::flows()),
        SetUp::new("fq_codel", "fq_codel", "", "", packets::flows()),
        SetUp::new("cake", "cake", "", "", packets::flows()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_commands_name_the_device() {
        let all = all();
        let mut names: Vec<_> = all.iter().map(|set_up| set_up.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for set_up in &all {
            assert!(set_up.commands.iter().all(|line| line.contains(DEV)));
            assert!(!set_up.packets.lines.is_empty(), "{}", set_up.name);
        }
    }

    #[test]
    fn each_packet_of_a_flow_has_a_filter() {
        let filters = u32_filters(PORT_MINORS);
        assert!(filters[0].ends_with("u32 match ip dport 1001 0xffff classid 1:1"));
        assert!(filters[7].ends_with("u32 match ip dport 1008 0xffff classid 1:2"));
    }
}
