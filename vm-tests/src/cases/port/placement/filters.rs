// SPDX-License-Identifier: GPL-2.0
//! Which class a packet goes to, by `skb->priority` and by filters of every kind; and what becomes
//! of a packet that a filter's action takes.

use std::net::IpAddr;

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::{band_stat, class, port_stat};

use crate::cases::support::ledger::{check_class, describe, settle};
use crate::clock;
use crate::harness::Ctx;
use crate::raw_netlink::{Object, Stats, Tc, ROOT};
use crate::topology::{Builder, Net};
use crate::traffic::{Flow, Packet, Source};

const PORT: u32 = 0x1_0000;
const DATA: u32 = PORT | class::DATA as u32;
const SIGNAL: u32 = PORT | class::SIGNAL as u32;
const TOKEN1: u32 = PORT | 0x11;
const TOKEN2: u32 = PORT | 0x12;

/// How many packets each row sends.
const COUNT: u64 = 20;

/// Where the packets of a row are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// In this class.
    Class(u32),
    /// In this class, since the filter's class is not there.
    Missed(u32),
    /// Dropped by the filter's action, before any class.
    Dropped,
    /// Taken by the filter's action, and not a drop.
    Taken,
}

use Fate::{Class, Dropped, Missed, Taken};

/// A line for `tc`, the `skb->priority` of the packets, and what becomes of them: datagrams to port
/// 29813 that have no Turnstile header, which makes them data, or tokens of priority 2.
struct Row {
    filter: &'static str,
    priority: u32,
    packet: Packet,
    fate: Fate,
}

const fn row(filter: &'static str, fate: Fate) -> Row {
    Row {
        filter,
        priority: 0,
        packet: Packet::Other,
        fate,
    }
}

/// With `skb->priority` and without a filter.
const fn prioritized(priority: u32, fate: Fate) -> Row {
    Row {
        filter: "",
        priority,
        packet: Packet::Other,
        fate,
    }
}

const ROWS: &[Row] = &[
    // Nothing but the packet itself.
    row("", Class(DATA)),
    Row {
        packet: Packet::Token(2),
        ..row("", Class(TOKEN2))
    },
    // skb->priority.
    prioritized(TOKEN1, Class(TOKEN1)),
    prioritized(SIGNAL, Class(SIGNAL)),
    prioritized(PORT | 3, Class(PORT | 3)),
    Row {
        packet: Packet::Token(2),
        ..prioritized(DATA, Class(DATA))
    },
    // Not a class of the port: of another qdisc, the port itself, missing, wrapping to one that is
    // there.
    prioritized(0x2_0011, Class(DATA)),
    prioritized(PORT, Class(DATA)),
    prioritized(PORT | 0x16, Class(DATA)),
    prioritized(PORT | 0x99, Class(DATA)),
    prioritized(PORT | 0x111, Class(DATA)),
    prioritized(0x11, Class(DATA)),
    prioritized(6, Class(DATA)),
    // Filters.
    row("protocol all matchall classid 1:11", Class(TOKEN1)),
    row("protocol all matchall flowid 1:11", Class(TOKEN1)),
    Row {
        packet: Packet::Token(2),
        ..row("protocol all matchall classid 1:2", Class(DATA))
    },
    row(
        "protocol ip flower ip_proto udp dst_port 29813 classid 1:11",
        Class(TOKEN1),
    ),
    row(
        "protocol ip flower ip_proto udp dst_port 29814 classid 1:11",
        Class(DATA),
    ),
    row("protocol ip flower ip_proto tcp classid 1:11", Class(DATA)),
    row(
        "protocol ip u32 match ip dport 29813 0xffff classid 1:11",
        Class(TOKEN1),
    ),
    row(
        "protocol ip u32 match ip dport 5 0xffff classid 1:11",
        Class(DATA),
    ),
    row(
        "protocol ip bpf bytecode '1,6 0 0 4294967295,' classid 1:11",
        Class(TOKEN1),
    ),
    // The program names the class itself.
    row(
        "protocol ip bpf bytecode '1,6 0 0 65553,' classid 1:1",
        Class(TOKEN1),
    ),
    row(
        "protocol ip bpf bytecode '1,6 0 0 0,' classid 1:11",
        Class(DATA),
    ),
    // IPv6 is none of this filter's business.
    row("protocol ipv6 matchall classid 1:11", Class(DATA)),
    // Before the filter comes skb->priority.
    Row {
        priority: SIGNAL,
        ..row("protocol all matchall classid 1:11", Class(SIGNAL))
    },
    // Unless it names nothing.
    Row {
        priority: PORT | 0x99,
        ..row("protocol all matchall classid 1:11", Class(TOKEN1))
    },
    // Classes that are not there: the other rules decide.
    row("protocol all matchall classid 1:99", Missed(DATA)),
    row("protocol all matchall classid 1:16", Missed(DATA)),
    row("protocol all matchall classid 1:111", Missed(DATA)),
    row("protocol all matchall classid 2:11", Missed(DATA)),
    Row {
        packet: Packet::Token(2),
        ..row("protocol all matchall classid 7:1", Missed(TOKEN2))
    },
    // A filter that names the port itself decides nothing either.
    row("protocol all matchall classid 1:", Missed(DATA)),
    // Actions.
    row(
        "protocol all matchall classid 1:11 action pass",
        Class(TOKEN1),
    ),
    row(
        "protocol ip flower ip_proto udp classid 1:11 action ok",
        Class(TOKEN1),
    ),
    // An action and no class: the other rules decide, and nothing was missed.
    row("protocol all matchall action pass", Class(DATA)),
    row("protocol ip u32 match u32 0 0 action ok", Class(DATA)),
    Row {
        packet: Packet::Token(2),
        ..row("protocol ip flower ip_proto udp action ok", Class(TOKEN2))
    },
    row(
        "protocol all matchall action skbedit priority 1:12",
        Class(DATA),
    ),
    row("protocol ip flower ip_proto udp action drop", Dropped),
    row("protocol all matchall classid 1:11 action drop", Dropped),
    row("protocol ip u32 match u32 0 0 action drop", Dropped),
    row(
        "protocol ip bpf bytecode '1,6 0 0 4294967295,' action drop",
        Dropped,
    ),
    row(
        "protocol all matchall action mirred egress redirect dev spare",
        Taken,
    ),
    // Goes on to the next filter, of which there is none.
    row(
        "protocol all matchall classid 1:11 action continue",
        Class(DATA),
    ),
    // The action changes what comes after the filters: nothing, since it is no filter.
    row(
        "protocol all matchall classid 1:11 action skbedit priority 1:12",
        Class(TOKEN1),
    ),
];

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    ns.ip_batch(&[
        "link add spare type veth peer name spare2".into(),
        "link set spare up".into(),
        "link set spare2 up".into(),
    ])?;
    ns.tc(
        "qdisc add dev eth0 root handle 1: turnstile priorities 6 token-limit 100 \
           unscheduled 100 token-expiry off",
    )?;
    let mut tc = Tc::open(ns, "eth0")?;
    let mut wrong = Vec::new();
    for row in ROWS {
        if let Err(error) = one(&net, &mut tc, row) {
            wrong.push(format!(
                "{:?} {:x} {:?}: {error:#}",
                row.filter, row.priority, row.packet
            ));
        }
    }
    ctx.note(format!("{} rows", ROWS.len()));
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The port goes with a filter that names its class.
    ns.tc("filter add dev eth0 parent 1: protocol all matchall classid 1:11")?;
    tc.delete(ROOT)?.success()
}

/// Where the kernel says why it drops packets.
const TRACE: &str = "/sys/kernel/tracing";

/// The filter's own reason for a drop is what is traced, as for other qdiscs.
pub(super) fn reasons(ctx: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let mut tc = Tc::open(ns, "eth0")?;
    for kind in ["prio", "turnstile", "turnstile_pacer"] {
        let spoken = reason(&net, &mut tc, kind).with_context(|| kind.to_owned())?;
        ctx.note(format!("{kind}: {spoken}"));
        ensure!(
            spoken == COUNT,
            "{kind}: {spoken} of {COUNT} packets were dropped for the filter's reason"
        );
    }
    Ok(())
}

fn reason(net: &Net, tc: &mut Tc, kind: &str) -> Result<u64> {
    let ns = &net.hosts[0].ns;
    ns.tc(&format!("qdisc add dev eth0 root handle 1: {kind}"))?;
    // A loop: the only drop that comes with a reason of its own on all kernels here.
    ns.tc("filter add dev eth0 parent 1: protocol ip matchall action reclassify")?;
    let set = |file: &str, value: &str| {
        let path = format!("{TRACE}/{file}");
        std::fs::write(&path, value).with_context(|| path)
    };
    // The first event makes the kernel's buffer as large as this, for good. Some hundred pages, as
    // it would be without asking, would count as lost.
    set("buffer_size_kb", "32")?;
    set("trace", "")?;
    set("events/skb/kfree_skb/enable", "1")?;
    let flow = Flow::new(1, Packet::Token(0), net.hosts[1].v4).burst(COUNT);
    let sent = Source::start(ns, vec![flow], clock::monotonic()).wait();
    set("events/skb/kfree_skb/enable", "0")?;
    sent?;
    let trace = std::fs::read_to_string(format!("{TRACE}/trace")).context("reading the trace")?;
    set("trace", "")?;
    tc.delete(ROOT)?.success()?;
    let spoken = trace
        .lines()
        .filter(|line| line.contains("TC_RECLASSIFY_LOOP"));
    Ok(spoken.count() as u64)
}

/// The classes, and the port's own counters.
fn read(tc: &mut Tc) -> Result<(Vec<Object>, Stats)> {
    let settled = settle(tc, &[PORT])?;
    settled.check(PORT)?;
    Ok((tc.classes_of(PORT)?, settled.qdisc(PORT)?.stats.clone()))
}

fn one(net: &Net, tc: &mut Tc, row: &Row) -> Result<()> {
    let ns = &net.hosts[0].ns;
    if !row.filter.is_empty() {
        // Read as tc's own batch files are, for the quotes.
        let line = format!("filter add dev eth0 parent 1: prio 5 {}\n", row.filter);
        ns.run_with("tc -batch -", &line)?;
    }
    let before = read(tc)?;
    let flow = Flow {
        priority: row.priority,
        ..Flow::new(1, row.packet, IpAddr::from(net.hosts[1].v4))
            .payload(64)
            .burst(COUNT)
    };
    Source::start(ns, vec![flow], clock::monotonic()).wait()?;
    let after = read(tc)?;
    tc.delete_filters(PORT)?
        .success()
        .context("deleting the filters")?;

    let grown = |number| after.1.app(number) - before.1.app(number);
    let (misses, shots) = (
        grown(port_stat::FILTER_MISSES),
        grown(port_stat::FILTER_DROPS),
    );
    let drops = u64::from(after.1.drops - before.1.drops);
    let (want_misses, want_shots) = match row.fate {
        Class(_) | Taken => (0, 0),
        Missed(_) => (COUNT, 0),
        Dropped => (0, COUNT),
    };
    // A word between neighbours may be missed or shot, too.
    let about = |what: &str, is: u64, want: u64| -> Result<()> {
        let slack = if want == 0 { 0 } else { 4 };
        ensure!(
            (want..=want + slack).contains(&is),
            "{is} {what}, not {want}"
        );
        Ok(())
    };
    about("filter misses", misses, want_misses)?;
    about("filter drops", shots, want_shots)?;
    about("drops", drops, want_shots)?;
    for (old, new) in before.0.iter().zip(&after.0) {
        check_class(new)?;
        let offered =
            new.stats.app(band_stat::OFFERED_PACKETS) - old.stats.app(band_stat::OFFERED_PACKETS);
        let here = matches!(row.fate, Class(class) | Missed(class) if class == new.handle);
        // Signals may come at any time, and are put where the filter says.
        let range = if here { COUNT..=COUNT + 4 } else { 0..=4 };
        ensure!(
            range.contains(&offered),
            "{offered} packets came to the {}",
            describe(new)
        );
    }
    Ok(())
}
