// SPDX-License-Identifier: GPL-2.0
//! Parents that look at a token and take it later, if at all: it expires as any other, and what is
//! counted stays right at all levels.
//!
//! netem takes from its child what it sends at once, and drr, ets and qfq take what they look at:
//! here are those that wait, and what lets them see through.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::{band_stat, class, option, EXPIRY_OFF};

use super::PORT;
use crate::cases::support::ledger::{describe, settle, Settled};
use crate::harness::Ctx;
use crate::raw_netlink::{attribute_u64, Tc, ROOT};
use crate::topology::{Builder, Net};
use crate::traffic::{Flow, Packet, Sink, Source};

const HFSC_LS: &str = "hfsc default 2\n\
    class add dev eth0 parent 1: classid 1:2 hfsc ls rate 4800bit ul rate 4800bit\n";
const HFSC_RT: &str = "hfsc default 2\n\
    class add dev eth0 parent 1: classid 1:2 hfsc rt rate 4800bit\n";
const HFSC_SC: &str = "hfsc default 2\n\
    class add dev eth0 parent 1: classid 1:2 hfsc sc rate 4800bit ul rate 4800bit\n";
const TBF: &str = "tbf rate 4800bit burst 200 limit 100kb\n";
const PRIO: &str = "prio\n\
    filter add dev eth0 parent 2: protocol all matchall classid 2:2\n";
const RED: &str = "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 bandwidth 100mbit\n";

/// A qdisc, `2:`, and its class that the port hangs on.
type Below = (&'static str, &'static str);

/// The root, `1:`, with the class that the next one hangs on, and perhaps another, `2:`, between
/// this and the port. Each lets a token of 60 bytes pass every 100 ms.
const PARENTS: &[(&str, &str, Option<Below>)] = &[
    (HFSC_LS, "1:2", None),
    (HFSC_RT, "1:2", None),
    (HFSC_SC, "1:2", None),
    (TBF, "1:1", None),
    (TBF, "1:1", Some((PRIO, "2:2"))),
    (TBF, "1:1", Some((RED, "2:1"))),
    (HFSC_LS, "1:2", Some((PRIO, "2:2"))),
    (HFSC_RT, "1:2", Some((PRIO, "2:2"))),
    (HFSC_SC, "1:2", Some((RED, "2:1"))),
];

/// Tokens are sent every so often, and are too old after four times that.
const EVERY: Duration = Duration::from_millis(5);
const EXPIRY: Duration = Duration::from_millis(20);
/// A token that left after its expiry would be as old as this at least.
const HELD: Duration = Duration::from_millis(90);
const TOKENS: u64 = 300;
/// Tokens that are sent afterwards, and do not expire.
const LAST: u64 = 5;

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    for &(root, on, below) in PARENTS {
        let kind = |lines: &'static str| lines.split_whitespace().next().unwrap_or(lines);
        let what = format!("{}, {:?}", kind(root), below.map(|(lines, _)| kind(lines)));
        let note = one(&net, root, on, below).context(what.clone())?;
        ctx.note(format!("{what}: {note}"));
    }
    Ok(())
}

fn one(net: &Net, root: &str, on: &str, below: Option<Below>) -> Result<String> {
    let ns = &net.hosts[0].ns;
    let mut lines = format!("qdisc add dev eth0 root handle 1: {root}");
    let mut parent = on;
    let mut levels = vec![0x1_0000];
    if let Some((middle, on)) = below {
        lines += &format!("qdisc add dev eth0 parent {parent} handle 2: {middle}");
        parent = on;
        levels.push(0x2_0000);
    }
    lines += &format!(
        "qdisc add dev eth0 parent {parent} handle 10: \
         turnstile link 10mbit tokens 50% token-expiry 20ms jitter 0\n"
    );
    ns.run_with("tc -batch -", &lines)?;
    let mut tc = Tc::open(ns, "eth0")?;
    // The device sends packets of its own, also while the tree is only half there.
    let began = settle(&mut tc, &[PORT])?;

    let (arrived, oldest) = send(net, TOKENS)?;
    let settled = settle(&mut tc, &[PORT])?;
    check_levels(&began, &settled, &levels)?;
    let token = settled.class(PORT | u32::from(class::TOKENS))?;
    ensure!(
        oldest <= EXPIRY + (HELD - EXPIRY) / 2,
        "a token left after {oldest:?}: {}",
        describe(token)
    );
    let expired = token.stats.app(band_stat::EXPIRED);
    let dropped = expired + token.stats.app(band_stat::OVER_LIMIT);
    ensure!(
        // The device's own first packets need their time, too.
        arrived >= 5 && expired >= 50 && arrived + dropped == TOKENS,
        "{arrived} tokens arrived: {}",
        describe(token)
    );

    // What is offered still arrives.
    tc.change_port(PORT, &attribute_u64(option::TOKEN_EXPIRY, EXPIRY_OFF))?
        .success()?;
    let (last, _) = send(net, LAST)?;
    ensure!(last == LAST, "{last} of the last {LAST} tokens arrived");
    check_levels(&began, &settle(&mut tc, &[PORT])?, &levels)?;
    tc.delete(ROOT)?.success()?;
    Ok(format!(
        "{arrived} of {TOKENS} arrived, the oldest after {oldest:?}"
    ))
}

/// Sends so many tokens. How many arrived, and the longest time it took one?
fn send(net: &Net, count: u64) -> Result<(u64, Duration)> {
    let sink = Sink::start(&net.hosts[1].ns)?;
    let flow = Flow {
        limit: count,
        ..Flow::new(1, Packet::Token(0), net.hosts[1].v4).packets_per_s(1.0 / EVERY.as_secs_f64())
    };
    Source::run(&net.hosts[0].ns, vec![flow])?;
    settle(&mut Tc::open(&net.hosts[0].ns, "eth0")?, &[PORT])?;
    let got = sink.finish()?;
    let got = got.get(&1).context("no token arrived")?;
    Ok((got.packets, Duration::from_nanos(got.latency_max)))
}

/// All levels are empty, and have sent what the port has since the tree was whole, and dropped as
/// many packets.
fn check_levels(began: &Settled, settled: &Settled, levels: &[u32]) -> Result<()> {
    settled.check(PORT)?;
    let counted = |level: u32| -> Result<(u64, u64, u32)> {
        let (then, now) = (&began.qdisc(level)?.stats, &settled.qdisc(level)?.stats);
        Ok((
            now.packets - then.packets,
            now.bytes - then.bytes,
            now.drops - then.drops,
        ))
    };
    let port = counted(PORT)?;
    for &level in levels {
        let level_counted = counted(level)?;
        ensure!(
            level_counted == port,
            "{:x}: has sent and dropped {level_counted:?}, the port {port:?}",
            level >> 16
        );
    }
    Ok(())
}
