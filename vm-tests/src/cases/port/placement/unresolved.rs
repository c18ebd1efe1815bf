// SPDX-License-Identifier: GPL-2.0
//! Ports that do not know their link's speed: devices that report none, or not yet.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use nix::sched::{setns, CloneFlags};
use serde_json::Value;

use crate::cases::support::TOKEN_SHARE;
use crate::clock;
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::pcap::Capture;
use crate::stats;
use crate::tool::Tool;
use crate::traffic::{stamp_of, Flow, Packet, Source};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("placement/default-qdisc", default_qdisc)
        .needs(&[
            Need::Module("sch_turnstile"),
            Need::Module("ifb"),
            Need::Module("veth"),
            Need::Module("tun"),
            Need::Module("bonding"),
        ])
        .timeout_s(120),
    Case::new("placement/unresolved", unresolved).needs(&[Need::Module("dummy")]),
    Case::new("placement/unresolved-order", in_order).needs(&[Need::Module("dummy")]),
    Case::new("placement/bond", bond)
        .needs(&[Need::Module("bonding"), Need::Module("dummy")])
        .timeout_s(120),
    Case::new("placement/bond-failover", failover)
        .needs(&[Need::Module("bonding")])
        .timeout_s(120),
    Case::new("placement/team", team)
        .needs(&[Need::Module("team"), Need::Module("dummy")])
        .timeout_s(120),
    Case::new("placement/vlan-on-bond", stacked)
        .needs(&[
            Need::Module("bonding"),
            Need::Module("dummy"),
            Need::Module("8021q"),
        ])
        .timeout_s(120),
    Case::new("placement/link-churn", churn)
        .needs(&[
            Need::Module("bonding"),
            Need::Module("team"),
            Need::Module("dummy"),
        ])
        .timeout_s(180),
];

/// What a veth reports, bytes/s.
const VETH: u64 = 1_250_000_000;

/// The kernel's default qdisc, which is one for all namespaces and shows in the first one only. As
/// it was when this is dropped.
struct DefaultQdisc {
    before: String,
}

impl DefaultQdisc {
    const PLACE: &str = "/proc/sys/net/core/default_qdisc";

    fn set(kind: &str) -> Result<Self> {
        let before = Self::at_first(|| {
            let before = std::fs::read_to_string(Self::PLACE)?;
            Ok(before.trim().to_owned())
        })?;
        let guard = Self { before };
        Self::write(kind)?;
        Ok(guard)
    }

    fn write(kind: &str) -> Result<()> {
        Self::at_first(|| Ok(std::fs::write(Self::PLACE, kind)?))
            .with_context(|| format!("net.core.default_qdisc = {kind}"))
    }

    /// Runs `work` in the first network namespace.
    fn at_first<R: Send>(work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        std::thread::scope(|scope| {
            let inside = || {
                let first = std::fs::File::open("/proc/1/ns/net")?;
                setns(first, CloneFlags::CLONE_NEWNET).context("entering the first namespace")?;
                work()
            };
            scope
                .spawn(inside)
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for DefaultQdisc {
    fn drop(&mut self) {
        // If it fails, a reference to the module stays, which the harness finds.
        let _ = Self::write(&self.before);
    }
}

/// The statistics of all ports of a device, from `tc -s -j`.
fn ports(ns: &Netns, dev: &str) -> Result<Vec<stats::Counters>> {
    let mut ports = stats::qdiscs(ns, dev)?;
    ports.retain(|qdisc| qdisc.json["kind"] == "turnstile");
    Ok(ports)
}

/// What a port says of itself, without its name for the kernel's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rates {
    link: u64,
    tokens: u64,
}

impl Rates {
    const UNRESOLVED: Self = Self { link: 0, tokens: 0 };

    /// Of a port with the default share of this link.
    fn of(link: u64) -> Self {
        Self {
            link,
            tokens: (link as f64 * TOKEN_SHARE) as u64,
        }
    }

    fn said_by(port: &stats::Counters) -> Self {
        Self {
            link: port.get("link-rate"),
            tokens: port.get("token-rate"),
        }
    }

    /// The share is kept in billionths, and rounded down.
    fn about(self, other: Self) -> bool {
        self.link == other.link && self.tokens.abs_diff(other.tokens) <= other.tokens / 10_000
    }
}

/// Waits until all ports of a device, of which there are `count`, say these rates; drivers look at
/// their ports' links when they have time.
fn settle(ns: &Netns, dev: &str, count: usize, wanted: Rates) -> Result<()> {
    let deadline = clock::monotonic() + 20_000_000_000;
    loop {
        let said: Vec<Rates> = ports(ns, dev)?.iter().map(Rates::said_by).collect();
        if said.len() == count && said.iter().all(|rates| rates.about(wanted)) {
            return Ok(());
        }
        if clock::monotonic() > deadline {
            bail!("{dev}: {count} ports should say {wanted:?}, and say {said:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The same for a while: nothing is to change.
fn stays(ns: &Netns, dev: &str, count: usize, wanted: Rates) -> Result<()> {
    settle(ns, dev, count, wanted)?;
    // Longer than a bond's monitor takes to see a change.
    std::thread::sleep(Duration::from_millis(200));
    settle(ns, dev, count, wanted).context("a while later")
}

/// Packets that all ports of a device have sent, and times that tokens were held back.
fn sent(ns: &Netns, dev: &str) -> Result<(u64, u64)> {
    let ports = ports(ns, dev)?;
    let waits = ports.iter().map(|port| port.get("token-waits")).sum();
    Ok((ports.iter().map(|port| port.packets).sum(), waits))
}

/// Waits until the ports have sent `count` packets more than `before`.
fn leave(ns: &Netns, dev: &str, before: u64, count: u64) -> Result<()> {
    let deadline = clock::monotonic() + 10_000_000_000;
    loop {
        let (now, _) = sent(ns, dev)?;
        if now >= before + count {
            return Ok(());
        }
        ensure!(
            clock::monotonic() < deadline,
            "{dev}: {} of {count} packets left",
            now - before
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends tokens and data out of a device that has an address, and looks whether all leave its
/// ports, and none is held back.
fn passes(ns: &Netns, dev: &str) -> Result<()> {
    let (before, waits) = sent(ns, dev)?;
    let to = Ipv4Addr::new(10, 77, 0, 2);
    let flows = [Packet::Token(0), Packet::Token(5), Packet::Data]
        .map(|packet| Flow::new(packet.stream(), packet, to).burst(50));
    Source::start(ns, flows.into(), clock::monotonic()).wait()?;
    leave(ns, dev, before, 150)?;
    ensure!(sent(ns, dev)?.1 == waits, "{dev}: tokens were held back");
    Ok(())
}

/// Gives a device an address, and its neighbour one.
fn address(ns: &Netns, dev: &str) -> Result<()> {
    ns.ip(&format!("addr add 10.77.0.1/24 dev {dev}"))?;
    neighbour(ns, dev)
}

/// Says where the neighbour is. A device that changes its own address, as a bond does with its
/// first slave, forgets it.
fn neighbour(ns: &Netns, dev: &str) -> Result<()> {
    ns.ip(&format!(
        "neigh replace 10.77.0.2 lladdr 02:00:00:00:00:02 dev {dev} nud permanent"
    ))
    .map(drop)
}

/// `s1` to `s{count}`, and at their other ends `p1` and so on, which are up.
fn veths(ns: &Netns, count: usize) -> Result<()> {
    for number in 1..=count {
        ns.ip(&format!("link add s{number} type veth peer name p{number}"))?;
        ns.ip(&format!("link set p{number} up"))?;
    }
    Ok(())
}

/// With `net.core.default_qdisc=turnstile` whatever takes a queue gets ports, and those that come
/// up without a speed get it later.
fn default_qdisc(ctx: &mut Ctx) -> Result<()> {
    let default = DefaultQdisc::set("turnstile")?;
    let ns = Netns::create("d1")?;
    let other = Netns::create("d2")?;

    // One queue, no speed; renamed, moved, taken down and up.
    ns.ip("link add ifb7 type ifb")?;
    ns.ip("link set ifb7 up")?;
    stays(&ns, "ifb7", 1, Rates::UNRESOLVED).context("ifb")?;
    address(&ns, "ifb7")?;
    passes(&ns, "ifb7")?;
    ns.ip("link set ifb7 down")?;
    ns.ip("link set ifb7 name ifb8")?;
    ns.ip("link set ifb8 up")?;
    settle(&ns, "ifb8", 1, Rates::UNRESOLVED).context("ifb with another name")?;
    ns.ip("link set ifb8 netns d2")?;
    other.ip("link set ifb8 up")?;
    settle(&other, "ifb8", 1, Rates::UNRESOLVED).context("ifb in another namespace")?;
    other.ip("link del ifb8")?;

    // Several queues: mq with a port on each.
    ns.ip("link add ifb9 numtxqueues 4 type ifb")?;
    ns.ip("link set ifb9 up")?;
    settle(&ns, "ifb9", 4, Rates::UNRESOLVED).context("ifb with four queues")?;
    address(&ns, "ifb9")?;
    passes(&ns, "ifb9")?;
    ns.ip("link del ifb9")?;

    // A device that says 10 Gbit/s until told otherwise.
    ns.ip("tuntap add dev tap9 mode tap")?;
    ns.ip("link set tap9 up")?;
    ensure!(
        ports(&ns, "tap9")?.len() == 1,
        "tap: {:?}",
        stats::qdiscs(&ns, "tap9")?
    );
    ns.run("ethtool -s tap9 speed 1000 duplex full")?;
    ns.ip("link set tap9 down")?;
    ns.ip("link set tap9 up")?;
    settle(&ns, "tap9", 1, Rates::of(VETH / 10)).context("tap")?;
    ns.ip("link del tap9")?;

    // veth and bond ask for no queue; who gives them mq gets a port on each queue, with the whole
    // device's speed.
    ns.ip("link add s9 numtxqueues 4 type veth peer name p9 numtxqueues 4")?;
    ns.ip("link set s9 up")?;
    ns.ip("link set p9 up")?;
    ensure!(ports(&ns, "s9")?.is_empty(), "veth takes no default qdisc");
    ns.tc("qdisc add dev s9 root handle 1: mq")?;
    settle(&ns, "s9", 4, Rates::of(VETH)).context("veth")?;
    address(&ns, "s9")?;
    passes_at_all(&ns, "s9")?;
    ns.ip("link del s9")?;

    ns.ip("link add bond9 numtxqueues 4 type bond mode balance-rr miimon 10")?;
    ns.ip("link set bond9 up")?;
    ns.tc("qdisc add dev bond9 root handle 1: mq")?;
    stays(&ns, "bond9", 4, Rates::UNRESOLVED).context("bond")?;
    veths(&ns, 1)?;
    ns.ip("link set s1 master bond9")?;
    settle(&ns, "bond9", 4, Rates::of(VETH)).context("bond with a slave")?;
    address(&ns, "bond9")?;
    passes_at_all(&ns, "bond9")?;
    drop(default);
    ns.ip("link add ifb6 type ifb")?;
    ns.ip("link set ifb6 up")?;
    ensure!(ports(&ns, "ifb6")?.is_empty(), "the default is as it was");
    ctx.note("ifb, tap, veth, bond");
    Ok(())
}

/// Data leaves a port that paces tokens.
fn passes_at_all(ns: &Netns, dev: &str) -> Result<()> {
    let (before, _) = sent(ns, dev)?;
    let to = Ipv4Addr::new(10, 77, 0, 2);
    let flow = Flow::new(1, Packet::Data, to).burst(50);
    Source::start(ns, vec![flow], clock::monotonic()).wait()?;
    leave(ns, dev, before, 50)
}

/// What a tool shows of the only port of a device, with all details.
fn details(ns: &Netns, dev: &str) -> Result<(String, Value)> {
    let text = ns.run(&format!("turnstile -s -d port show {dev}"))?;
    let json: Value =
        serde_json::from_str(&ns.run(&format!("turnstile -j -s -d port show {dev}"))?)?;
    Ok((text, json[0].clone()))
}

/// Both tools make such a port, say that it is unresolved, and can type back what they show;
/// options that need a speed wait for it, others are in force.
fn unresolved(_: &mut Ctx) -> Result<()> {
    let ns = Netns::create("u1")?;
    ns.ip("link add dum0 type dummy")?;
    ns.ip("link set dum0 up")?;
    address(&ns, "dum0")?;
    for tool in Tool::ALL {
        tool.port(&ns, "add", "dum0", "")?;
        let (text, json) = details(&ns, "dum0")?;
        for words in [
            "root handle 1: link auto tokens 5.1787916% ",
            "  in force: link unresolved tokens unpaced token-limit ",
            "  link unresolved token-rate unpaced token-expiry off\n",
        ] {
            ensure!(text.contains(words), "{tool:?}: {words:?} is not in {text}");
        }
        ensure!(
            json["options"]["link"] == "auto" && json["in-force"]["link"] == "unresolved",
            "{tool:?}: {json}"
        );
        let shown = ns.tc("-s qdisc show dev dum0")?;
        ensure!(
            shown.contains("link unresolved token-rate unpaced"),
            "{tool:?}: {shown}"
        );
        let shown = ns.tc_json("-s qdisc show dev dum0")?;
        ensure!(
            shown[0]["stats"]["link"] == "unresolved",
            "{tool:?}: {shown}"
        );
        passes(&ns, "dum0")?;

        // What is given as a rate or a time is in force.
        tool.port(
            &ns,
            "change",
            "dum0",
            "jitter 0 tokens 1mbit token-expiry 2ms phantom drain 900mbit mark 3000 ren period \
             48us",
        )?;
        let port = stats::qdisc(&ns, "dum0", "1:")?;
        ensure!(
            Rates::said_by(&port)
                == Rates {
                    link: 0,
                    tokens: 125_000
                }
                && port.get("token-expiry") == 2_000_000,
            "{tool:?}: {port:?}"
        );
        let (text, _) = details(&ns, "dum0")?;
        ensure!(
            text.contains("in force: link unresolved tokens 1mbit token-limit 8 token-expiry 2ms"),
            "{tool:?}: {text}"
        );
        // No link has this as a share.
        let said = tool
            .try_port(&ns, "change", "dum0", "root handle 1:", "tokens 100tbit")?
            .failure()?;
        ensure!(said.contains("tokens"), "{tool:?}: {said}");

        // With a link rate it is as any other; without, it does not know again.
        tool.port(
            &ns,
            "change",
            "dum0",
            "link 1gbit tokens 5% token-expiry auto",
        )?;
        let port = stats::qdisc(&ns, "dum0", "1:")?;
        ensure!(
            Rates::said_by(&port)
                == Rates {
                    link: 125_000_000,
                    tokens: 6_250_000
                }
                && port.json["stats"].get("link").is_none(),
            "{tool:?}: {port:?}"
        );
        // A rate that this link does not have as a share.
        tool.try_port(&ns, "change", "dum0", "root handle 1:", "tokens 600mbit")?
            .failure()?;
        tool.port(&ns, "change", "dum0", "link auto")?;
        settle(&ns, "dum0", 1, Rates::UNRESOLVED)?;
        passes(&ns, "dum0")?;
        stats::check_port(&ns, "dum0", "1:")?;
        tool.delete(&ns, "dum0")?;
    }
    Ok(())
}

/// Behind a bottleneck what waits in an unresolved port leaves in the order of its bands, tokens of
/// one band one after the other.
fn in_order(ctx: &mut Ctx) -> Result<()> {
    for (order, ranks) in [
        ("tokens-first", [0, 1, 2, 3, 4]),
        // A token that is due lets one packet of data pass, as in any port; and here all are due.
        ("data-first", [0, 2, 3, 1, 4]),
    ] {
        let ns = Netns::create(&format!("o{}", order.len()))?;
        ns.ip("link add dum0 type dummy")?;
        ns.ip("link set dum0 up")?;
        address(&ns, "dum0")?;
        // At first so slow that nothing but the first three leave until all is queued.
        let bottleneck = |verb: &str, rate: &str| {
            ns.tc(&format!(
                "qdisc {verb} dev dum0 root handle 1: tbf rate {rate} burst 1600 limit 1mb"
            ))
        };
        bottleneck("add", "8kbit")?;
        ns.tc(&format!(
            "qdisc add dev dum0 parent 1:1 handle 10: turnstile unscheduled 8 order {order}"
        ))?;
        let capture = Capture::start(&ns, Some("dum0"))?;
        let to = Ipv4Addr::new(10, 77, 0, 2);
        // The first keep the bottleneck busy. They are no data, of which the first passes tokens.
        let kinds = [
            (Packet::Signal, 3),
            (Packet::Unscheduled, 4),
            (Packet::Data, 4),
            (Packet::Token(5), 8),
            (Packet::Token(0), 8),
            (Packet::Signal, 4),
        ];
        let flows = kinds.map(|(packet, count)| {
            Flow::new(packet.stream(), packet, to)
                .payload(1000)
                .burst(count)
        });
        for flow in flows {
            Source::start(&ns, vec![flow], clock::monotonic()).wait()?;
        }
        bottleneck("change", "400kbit")?;
        let deadline = clock::monotonic() + 20_000_000_000;
        while ports(&ns, "dum0")?[0].packets < 31 && clock::monotonic() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let captured = capture.finish()?;
        let left: Vec<u16> = captured
            .sent_by("dum0")?
            .filter_map(|packet| stamp_of(packet.bytes.get(42..)?))
            .map(|stamp| stamp.stream)
            .collect();
        ensure!(
            left.len() == 31,
            "{order}: {} of 31 left: {left:x?}",
            left.len()
        );
        let rank = |stream: &u16| match *stream {
            0 => ranks[0],
            0x10 => ranks[1],
            0x15 => ranks[2],
            1 => ranks[3],
            2 => ranks[4],
            // There is nothing else.
            _ => u16::MAX,
        };
        ctx.note(format!("{order}: {left:x?}"));
        if order == "tokens-first" {
            ensure!(left.is_sorted_by_key(rank), "{order}: {left:x?}");
        } else {
            let data = left.iter().position(|&stream| stream == 1);
            let token = left.iter().position(|&stream| stream == 0x10);
            ensure!(data < token, "{order}: {left:x?}");
        }
        let port = &ports(&ns, "dum0")?[0];
        ensure!(
            Rates::said_by(port) == Rates::UNRESOLVED
                && port.get("token-waits") == 0
                && port.get("slack-forfeits") == 0,
            "{order}: {port:?}"
        );
        stats::check_port(&ns, "dum0", "10:")?;
    }
    Ok(())
}

/// What bonds and teams have in common: ports come, go and lose their links. `add` makes a device
/// without ports.
fn with_ports(ns: &Netns, dev: &str, add: &str) -> Result<()> {
    ns.ip(add)?;
    ns.ip(&format!("link set {dev} up"))?;
    ns.tc(&format!("qdisc add dev {dev} root handle 1: turnstile"))?;
    address(ns, dev)?;
    stays(ns, dev, 1, Rates::UNRESOLVED).context("without ports")?;

    // A port without a speed says nothing of the link. A dummy has a lock of its own, which its
    // events are called with.
    ns.ip("link add dum0 type dummy")?;
    ns.ip(&format!("link set dum0 master {dev}"))?;
    stays(ns, dev, 1, Rates::UNRESOLVED).context("with a port that reports no speed")?;
    ns.ip("link set dum0 down")?;
    ns.ip("link set dum0 up")?;
    ns.ip("link set dum0 nomaster")?;
    stays(ns, dev, 1, Rates::UNRESOLVED).context("without it")?;

    veths(ns, 3)?;
    ns.ip(&format!("link set s1 master {dev}"))?;
    settle(ns, dev, 1, Rates::of(VETH)).context("with one port")?;
    neighbour(ns, dev)?;
    passes_at_all(ns, dev)?;
    ns.ip(&format!("link set s2 master {dev}"))?;
    settle(ns, dev, 1, Rates::of(2 * VETH)).context("with two ports")?;
    ns.ip(&format!("link set dum0 master {dev}"))?;
    stays(ns, dev, 1, Rates::of(2 * VETH)).context("with two ports, and one without a speed")?;
    ns.ip(&format!("link set s3 master {dev}"))?;
    settle(ns, dev, 1, Rates::of(3 * VETH)).context("with three ports")?;

    // A port's link goes down, at either end, and comes back.
    ns.ip("link set p1 down")?;
    settle(ns, dev, 1, Rates::of(2 * VETH)).context("the first port's peer is down")?;
    ns.ip("link set s2 down")?;
    settle(ns, dev, 1, Rates::of(VETH)).context("the second port is down")?;
    ns.ip("link set p1 up")?;
    ns.ip("link set s2 up")?;
    settle(ns, dev, 1, Rates::of(3 * VETH)).context("all ports are up again")?;
    ns.ip("link set s3 nomaster")?;
    settle(ns, dev, 1, Rates::of(2 * VETH)).context("the third port was released")?;
    ns.ip("link del p2")?;
    settle(ns, dev, 1, Rates::of(VETH)).context("the second port was deleted")?;

    // Nothing that has a speed is left: the last one stays.
    ns.ip("link set p1 down")?;
    stays(ns, dev, 1, Rates::of(VETH)).context("no port's link is up")?;
    ns.ip("link set s1 nomaster")?;
    stays(ns, dev, 1, Rates::of(VETH)).context("no port is left")?;
    ns.ip(&format!("link set {dev} down"))?;
    ns.ip(&format!("link set {dev} up"))?;
    stays(ns, dev, 1, Rates::of(VETH)).context("down and up")?;
    // A change that asks for no other link keeps it, too; another port begins anew.
    ns.tc(&format!("qdisc change dev {dev} root turnstile link auto"))?;
    settle(ns, dev, 1, Rates::of(VETH))?;
    ns.tc(&format!("qdisc del dev {dev} root"))?;
    ns.tc(&format!(
        "qdisc add dev {dev} root handle 1: turnstile tokens 2gbit"
    ))?;
    settle(
        ns,
        dev,
        1,
        Rates {
            link: 0,
            tokens: 250_000_000,
        },
    )?;
    ns.ip("link set p1 up")?;
    ns.ip(&format!("link set s1 master {dev}"))?;
    settle(
        ns,
        dev,
        1,
        Rates {
            link: VETH,
            tokens: 250_000_000,
        },
    )
    .context("a token rate as given")?;
    // A port with a link rate of its own does not mind.
    ns.tc(&format!(
        "qdisc change dev {dev} root turnstile link 1gbit tokens 5.1787916%"
    ))?;
    ns.ip(&format!("link set s3 master {dev}"))?;
    stays(ns, dev, 1, Rates::of(125_000_000)).context("with a rate of its own")?;
    ns.tc(&format!("qdisc change dev {dev} root turnstile link auto"))?;
    settle(ns, dev, 1, Rates::of(2 * VETH)).context("and without")?;
    stats::check_port(ns, dev, "1:")?;
    ns.ip(&format!("link del {dev}")).map(drop)
}

fn bond(_: &mut Ctx) -> Result<()> {
    let ns = Netns::create("b1")?;
    with_ports(
        &ns,
        "bond9",
        "link add bond9 type bond mode balance-rr miimon 10",
    )
}

fn team(_: &mut Ctx) -> Result<()> {
    let ns = Netns::create("t1")?;
    with_ports(&ns, "team9", "link add team9 type team")
}

/// The link of a bond with a backup is that of the slave that is active.
fn failover(_: &mut Ctx) -> Result<()> {
    let ns = Netns::create("f1")?;
    veths(&ns, 3)?;
    // A slave that is twice as fast as the other.
    ns.ip("link add fast9 type bond mode balance-rr miimon 10")?;
    ns.ip("link set s2 master fast9")?;
    ns.ip("link set s3 master fast9")?;
    ns.ip("link add bond9 type bond mode active-backup miimon 10")?;
    ns.ip("link set s1 master bond9")?;
    ns.ip("link set fast9 master bond9")?;
    ns.ip("link set bond9 up")?;
    ns.tc("qdisc add dev bond9 root handle 1: turnstile")?;
    settle(&ns, "bond9", 1, Rates::of(VETH)).context("the first is active")?;
    ns.ip("link set p1 down")?;
    settle(&ns, "bond9", 1, Rates::of(2 * VETH)).context("the other took over")?;
    ns.ip("link set p1 up")?;
    stays(&ns, "bond9", 1, Rates::of(2 * VETH)).context("it stays active")?;
    ns.ip("link set bond9 type bond active_slave s1")?;
    settle(&ns, "bond9", 1, Rates::of(VETH)).context("the first was made active")?;
    ns.ip("link set bond9 type bond active_slave fast9")?;
    settle(&ns, "bond9", 1, Rates::of(2 * VETH)).context("the other was made active")?;
    // A slave of the active slave.
    ns.ip("link set p3 down")?;
    settle(&ns, "bond9", 1, Rates::of(VETH)).context("half of it is down")?;
    ns.ip("link set p3 up")?;
    settle(&ns, "bond9", 1, Rates::of(2 * VETH)).context("and up")?;
    ns.ip("link set fast9 nomaster")?;
    settle(&ns, "bond9", 1, Rates::of(VETH)).context("the active one was released")?;
    Ok(())
}

/// A device above a bond has the bond's speed, and one above a device with a lock of its own none.
fn stacked(_: &mut Ctx) -> Result<()> {
    let ns = Netns::create("v1")?;
    ns.ip("link add bond9 type bond mode balance-rr miimon 10")?;
    ns.ip("link set bond9 up")?;
    ns.ip("link add link bond9 name tag9 type vlan id 9")?;
    ns.ip("link set tag9 up")?;
    ns.tc("qdisc add dev tag9 root handle 1: turnstile")?;
    stays(&ns, "tag9", 1, Rates::UNRESOLVED)?;
    veths(&ns, 2)?;
    ns.ip("link set s1 master bond9")?;
    settle(&ns, "tag9", 1, Rates::of(VETH))?;
    ns.ip("link set s2 master bond9")?;
    settle(&ns, "tag9", 1, Rates::of(2 * VETH))?;
    ns.ip("link set p1 down")?;
    settle(&ns, "tag9", 1, Rates::of(VETH))?;
    // Asking a VLAN takes the lock of the device below it, which that device's events come with.
    ns.ip("link add dum0 type dummy")?;
    ns.ip("link add link dum0 name tag8 type vlan id 8")?;
    ns.tc("qdisc add dev tag8 root handle 1: turnstile")?;
    for _ in 0..3 {
        ns.ip("link set dum0 up")?;
        ns.ip("link set tag8 up")?;
        settle(&ns, "tag8", 1, Rates::UNRESOLVED)?;
        ns.ip("link set dum0 carrier off")?;
        ns.ip("link set dum0 carrier on")?;
        ns.ip("link set dum0 down")?;
    }
    // A bridge has the speed of its fastest port.
    ns.ip("link add br9 type bridge")?;
    ns.ip("link set br9 up")?;
    ns.tc("qdisc add dev br9 root handle 1: turnstile")?;
    stays(&ns, "br9", 1, Rates::UNRESOLVED)?;
    ns.ip("link add s3 type veth peer name p3")?;
    ns.ip("link set s3 up")?;
    ns.ip("link set p3 up")?;
    ns.ip("link set s3 master br9")?;
    settle(&ns, "br9", 1, Rates::of(VETH))
}

/// Ports on bonds and teams come and go while what is below them does.
fn churn(ctx: &mut Ctx) -> Result<()> {
    const ROUNDS: usize = 60;
    let ns = Netns::create("c1")?;
    ns.ip("link add bond9 type bond mode balance-rr miimon 10")?;
    ns.ip("link add team9 type team")?;
    ns.ip("link add dum0 type dummy")?;
    veths(&ns, 4)?;
    let uppers = ["bond9", "team9"];
    let lowers = ["s1", "s2", "s3", "s4", "dum0"];
    for _ in 0..ROUNDS {
        let mut lines = Vec::new();
        for _ in 0..8 {
            let (upper, lower) = (ctx.rng.pick(&uppers), ctx.rng.pick(&lowers));
            let number = ctx.rng.range(1..=4);
            match ctx.rng.range(0..=6) {
                0 | 1 => lines.extend([
                    format!("link set {lower} down"),
                    format!("link set {lower} master {upper}"),
                ]),
                2 => lines.push(format!("link set {lower} nomaster")),
                3 => lines.push(format!("link set {lower} down")),
                4 => lines.push(format!("link set p{number} down")),
                5 => lines.push(format!("link set p{number} up")),
                _ => lines.push(format!("link set {upper} up")),
            }
        }
        // Some make no sense at the moment.
        let _ = ns.run_with("ip -force -batch -", &(lines.join("\n") + "\n"));
        let upper = ctx.rng.pick(&uppers);
        let line = match ctx.rng.range(0..=4) {
            0 => format!("qdisc del dev {upper} root"),
            1 => format!("qdisc replace dev {upper} root handle 1: turnstile link 1gbit"),
            2 => format!("qdisc replace dev {upper} root handle 1: mq"),
            3 => format!("qdisc replace dev {upper} root handle 2: turnstile tokens 10mbit"),
            _ => format!("qdisc replace dev {upper} root handle 1: turnstile link auto"),
        };
        ns.try_run(&format!("tc {line}"))?;
    }
    for (upper, [first, second]) in uppers.into_iter().zip([[1, 2], [3, 4]]) {
        for number in [first, second] {
            ns.ip(&format!("link set s{number} nomaster"))?;
            ns.ip(&format!("link set s{number} down"))?;
            ns.ip(&format!("link set s{number} master {upper}"))?;
            ns.ip(&format!("link set s{number} up"))?;
            ns.ip(&format!("link set p{number} up"))?;
        }
    }
    for upper in uppers {
        ns.ip(&format!("link set {upper} up"))?;
        let _ = ns.tc(&format!("qdisc del dev {upper} root"));
        ns.tc(&format!("qdisc add dev {upper} root handle 1: turnstile"))?;
        settle(&ns, upper, 1, Rates::of(2 * VETH))?;
    }
    Ok(())
}
