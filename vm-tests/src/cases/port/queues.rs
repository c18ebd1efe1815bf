// SPDX-License-Identifier: GPL-2.0
//! `turnstile_mq`: a port for each transmit queue, and one link for all.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;
use turnstile_core::port::uapi::{band_stat, class, port_stat};

use crate::cases::support::ledger::{check_class, describe, settle, settle_with, Counter};
use crate::cases::support::load::{Load, Mix};
use crate::clock;
use crate::cmd;
use crate::harness::{Case, Ctx};
use crate::netns::Netns;
use crate::raw_netlink::Tc;
use crate::topology::{Builder, Host, Net};
use crate::traffic::{Flow, Packet, Received, Sink, Source};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("queues/one-link", one_link),
    Case::new("queues/one-flow", one_flow),
    Case::new("queues/one-budget", one_budget),
    Case::new("queues/strict", strict),
    Case::new("queues/options", options),
    Case::new("queues/refused", refused),
    Case::new("queues/classes", classes),
    Case::new("queues/come-and-go", come_and_go).timeout_s(120),
    Case::new("queues/channels", channels),
];

const QUEUES: u32 = 4;
const ROOT: u32 = 0x1_0000;
/// So many that no queue is left out by chance.
const FLOWS: u16 = 48;

/// How a group is made, changed or deleted.
#[derive(Clone, Copy, Debug)]
enum Tool {
    Tc,
    Turnstile,
}

impl Tool {
    fn line(self, verb: &str, options: &str) -> String {
        match (self, verb) {
            (Self::Tc, "del") => "tc qdisc del dev eth0 root".to_owned(),
            (Self::Tc, verb) => {
                format!("tc qdisc {verb} dev eth0 root handle 1: turnstile_mq {options}")
            }
            (Self::Turnstile, "add" | "replace") => {
                format!("turnstile port {verb} eth0 root handle 1: queues {options}")
            }
            (Self::Turnstile, verb) => format!("turnstile port {verb} eth0 {options}"),
        }
    }
}

fn made(options: &str) -> Result<Net> {
    let net = Builder::pair().queues(QUEUES).build()?;
    net.hosts[0].ns.run(&Tool::Tc.line("add", options))?;
    Ok(net)
}

/// The handles of the queues' ports, in the order of the queues.
fn ports(tc: &mut Tc) -> Result<Vec<u32>> {
    let qdiscs = tc.qdiscs()?;
    let ports: Vec<u32> = (1..=QUEUES)
        .filter_map(|queue| {
            let port = qdiscs.iter().find(|qdisc| qdisc.parent == ROOT | queue)?;
            (port.kind == "turnstile").then_some(port.handle)
        })
        .collect();
    ensure!(
        ports.len() == QUEUES as usize && ports.iter().all(|port| *port != 0),
        "{QUEUES} queues have {} ports: {ports:x?}",
        ports.len()
    );
    Ok(ports)
}

fn address(host: &Host, stream: u16) -> IpAddr {
    match stream % 2 {
        0 => host.v4.into(),
        _ => host.v6.into(),
    }
}

/// Full frames of so many flows, of which each sends so many.
fn bulk(host: &Host, flows: u16, each: u64) -> Vec<Flow> {
    (0..flows)
        .map(|stream| {
            Flow::new(stream, Packet::Data, address(host, stream))
                .payload(1400)
                .burst(each)
        })
        .collect()
}

/// Sends these, and gives what came: by stream.
fn send(net: &Net, flows: Vec<Flow>) -> Result<Vec<Received>> {
    let count: u64 = flows.iter().map(|flow| flow.limit).sum();
    let sink = Sink::start(&net.hosts[1].ns)?;
    Source::start(&net.hosts[0].ns, flows, clock::monotonic()).wait()?;
    let deadline = clock::monotonic() + 20_000_000_000;
    loop {
        let so_far: u64 = sink.so_far().values().map(|got| got.packets).sum();
        if so_far == count {
            return Ok(sink.finish()?.into_values().collect());
        }
        if clock::monotonic() > deadline {
            bail!("{so_far} of {count} packets arrived");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// bit/s on the wire from the first packet to the last.
fn rate(got: &[Received]) -> f64 {
    let first = got.iter().map(|got| got.first).min().unwrap_or(0);
    let last = got.iter().map(|got| got.last).max().unwrap_or(0);
    let bytes: u64 = got.iter().map(|got| got.wire_bytes).sum();
    bytes as f64 * 8e9 / (last.saturating_sub(first)).max(1) as f64
}

/// Flows in all queues have the link together, and no more; each queue had some, and all is
/// accounted for.
fn one_link(ctx: &mut Ctx) -> Result<()> {
    const LINK: f64 = 20e6;
    let net = made("link 20mbit data-limit 4mb")?;
    let ns = &net.hosts[0].ns;
    let got = send(&net, bulk(&net.hosts[1], FLOWS, 12))?;
    let rate = rate(&got);
    ctx.note(format!("{:.2} Mbit/s of {}", rate / 1e6, LINK / 1e6));
    // A busy machine is slower; it makes up for a millisecond.
    ensure!((0.5 * LINK..1.03 * LINK).contains(&rate), "{rate} bit/s");
    let mut tc = Tc::open(ns, "eth0")?;
    let ports = ports(&mut tc)?;
    let settled = settle(&mut tc, &ports)?;
    let mut sent = Vec::new();
    for port in &ports {
        sent.push(settled.check(*port)?.0);
    }
    ctx.note(format!("by queue: {sent:?}"));
    ensure!(sent.iter().all(|sent| *sent > 0), "{sent:?}");
    let root = settled.qdisc(ROOT)?;
    ensure!(
        root.stats.packets == sent.iter().sum::<u64>(),
        "{} packets are not {sent:?}",
        root.stats.packets
    );
    let waits =
        |qdisc: u32| -> Result<u64> { Ok(settled.qdisc(qdisc)?.stats.app(port_stat::LINK_WAITS)) };
    let mut sum = 0;
    for port in &ports {
        sum += waits(*port)?;
    }
    ensure!(
        waits(ROOT)? == sum && sum > 0,
        "{} link waits, ports {sum}",
        waits(ROOT)?
    );
    // A class is a queue, and has what all classes of its port have together.
    for (number, (port, sent)) in (1..).zip(ports.iter().zip(&sent)) {
        let queues = tc.classes_of(ROOT)?;
        let queue = queues.iter().find(|queue| queue.handle == ROOT | number);
        let queue = queue.with_context(|| format!("no class 1:{number:x}"))?;
        check_class(queue)?;
        ensure!(
            queue.stats.packets == *sent && queue.stats.app(band_stat::OFFERED_PACKETS) == *sent,
            "port {:x}: sent {sent}, its queue is {}",
            port >> 16,
            describe(queue)
        );
    }
    Ok(())
}

/// A flow, which is in one queue, has all of the link.
fn one_flow(ctx: &mut Ctx) -> Result<()> {
    const LINK: f64 = 10e6;
    let net = made("link 10mbit data-limit 4mb")?;
    let alone = rate(&send(&net, bulk(&net.hosts[1], 1, 300))?);
    net.hosts[0].ns.run("tc qdisc del dev eth0 root")?;
    net.hosts[0]
        .ns
        .run("tc qdisc add dev eth0 root handle 1: turnstile link 10mbit data-limit 4mb")?;
    let lone = rate(&send(&net, bulk(&net.hosts[1], 1, 300))?);
    ctx.note(format!(
        "{:.3} Mbit/s, a port alone {:.3}",
        alone / 1e6,
        lone / 1e6
    ));
    ensure!((0.6 * LINK..1.03 * LINK).contains(&alone), "{alone} bit/s");
    ensure!(alone >= 0.8 * lone, "{alone} bit/s, a port alone {lone}");
    Ok(())
}

/// Tokens of all queues have one rate, whether the link is shaped or not, and beside data that
/// fills it.
fn one_budget(ctx: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 20;
    for (options, data) in [
        ("tokens 1mbit", false),
        ("link 10mbit tokens 10%", false),
        ("link 10mbit tokens 10%", true),
    ] {
        let net = made(&format!(
            "{options} token-limit 1024 token-expiry off data-limit 4mb"
        ))?;
        let to = &net.hosts[1];
        let tokens = (0..FLOWS)
            .map(|stream| Flow::new(stream, Packet::Token((stream % 8) as u8), to.v4).burst(COUNT));
        let background = bulk(to, FLOWS, 10).into_iter().map(|flow| Flow {
            stream: 1000 + flow.stream,
            ..flow
        });
        let flows = match data {
            true => background.chain(tokens).collect(),
            false => tokens.collect(),
        };
        let got = send(&net, flows)?;
        let tokens: Vec<_> = got
            .into_iter()
            .filter(|got| got.wire_bytes == got.packets * 84)
            .collect();
        let rate = rate(&tokens);
        ctx.note(format!("{options}: {:.3} Mbit/s of tokens", rate / 1e6));
        ensure!((0.5e6..1.08e6).contains(&rate), "{options}: {rate} bit/s");
    }
    Ok(())
}

/// Data of other queues that fills the link delays a token by its own packet, and by what the
/// machine is late.
fn strict(ctx: &mut Ctx) -> Result<()> {
    const TOKENS: u64 = 40;
    // 1.2 ms for a full frame; and for up to eight tokens that come at once.
    let net = made("link 10mbit tokens 50% data-limit 4mb token-expiry off jitter 1ms split-gso")?;
    let ns = &net.hosts[0].ns;
    let to = &net.hosts[1];
    let sink = Sink::start(&to.ns)?;
    let second = Duration::from_secs(1);
    let mut flows: Vec<Flow> = bulk(to, FLOWS, 20);
    flows.extend((0..8).map(|stream| {
        let flow = Flow::new(1000 + stream, Packet::Token(0), address(to, stream));
        Flow {
            limit: TOKENS / 8,
            ..flow
                .packets_per_s(5.0 + f64::from(stream))
                .window(second / 10, second)
        }
    }));
    Source::start(ns, flows, clock::monotonic()).wait()?;
    let mut tc = Tc::open(ns, "eth0")?;
    let ports = ports(&mut tc)?;
    let settled = settle(&mut tc, &ports)?;
    let (mut sent, mut longest, mut data) = (0, 0, 0);
    for port in &ports {
        let tokens = settled.class(port | u32::from(class::TOKENS))?;
        check_class(tokens)?;
        sent += tokens.stats.packets;
        longest = longest.max(tokens.stats.app(band_stat::SOJOURN_MAX));
        let of_data = settled.class(port | u32::from(class::DATA))?;
        data = data.max(of_data.stats.app(band_stat::SOJOURN_MAX));
    }
    drop(sink.finish()?);
    ctx.note(format!(
        "{sent} tokens waited for {} us at most, data for {}",
        longest / 1000,
        data / 1000
    ));
    ensure!(sent >= TOKENS / 2, "{sent} tokens");
    // Where time goes by itself a processor may be late by any time, but not as late as data is.
    let most = match clock::is_simulated() {
        true => 1_231_000 + 8 * 135_000,
        false => data / 10,
    };
    ensure!(longest <= most, "a token waited for {longest} ns");
    Ok(())
}

/// What tc says of a qdisc, as JSON.
fn shown(ns: &Netns, kind: &str) -> Result<Vec<Value>> {
    let list = ns.tc_json("qdisc show dev eth0")?;
    let list = list.as_array().context("tc printed no list")?;
    let of_kind = list.iter().filter(|qdisc| qdisc["kind"] == kind);
    Ok(of_kind.map(|qdisc| qdisc["options"].clone()).collect())
}

/// Options are those of all ports, on add, on change and on replace, by both tools; and what is
/// shown can be typed back.
fn options(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().queues(QUEUES).build()?;
    let ns = &net.hosts[0].ns;
    for tool in [Tool::Tc, Tool::Turnstile] {
        let words = "link 10gbit tokens 4% priorities 3 token-limit 16 token-expiry off \
            token-drop last order data-first unscheduled 4 data-limit 200000b signal-limit 50 \
            signal-share 2% dscp EF=token1 split-gso overhead 38 mpu 64 jitter 20us";
        ns.run(&tool.line("add", words))?;
        let all = |expected: &[(&str, Value)]| -> Result<()> {
            let group = shown(ns, "turnstile_mq")?;
            let ports = shown(ns, "turnstile")?;
            ensure!(
                group.len() == 1 && ports.len() == QUEUES as usize,
                "{} groups, {} ports",
                group.len(),
                ports.len()
            );
            for port in &ports {
                ensure!(
                    *port == group[0],
                    "a port has {port}, the group {}",
                    group[0]
                );
            }
            for (key, value) in expected {
                ensure!(group[0][key] == *value, "{key} is {}", group[0][key]);
            }
            Ok(())
        };
        all(&[
            ("priorities", 3.into()),
            ("order", "data-first".into()),
            ("jitter", 20_000.into()),
            ("dscp", serde_json::json!({"46": "token1"})),
        ])?;
        ns.run(&tool.line("change", "priorities 5 link 5gbit"))?;
        all(&[
            ("priorities", 5.into()),
            ("link", 625_000_000.into()),
            ("token-limit", 16.into()),
        ])?;
        ns.run(&tool.line("replace", "token-limit 9"))?;
        all(&[("token-limit", 9.into()), ("priorities", 5.into())])?;
        // What turnstile shows of the group makes the same one.
        let text = ns.run("turnstile port show eth0")?;
        let line = text.lines().find(|line| line.contains(" root "));
        let line = line.with_context(|| text.clone())?.to_owned();
        ns.run(&tool.line("del", ""))?;
        let bare = ns.run("turnstile port show eth0")?;
        ensure!(bare.is_empty(), "deleted, and there is {bare}");
        let words = line.strip_prefix("port ").context("a line of a port")?;
        ns.run(&format!("turnstile port add {words}"))?;
        all(&[("token-limit", 9.into()), ("link", 625_000_000.into())])?;
        let json = cmd::json(&ns.run("turnstile -j -s port show eth0")?)?;
        ensure!(json[0]["kind"] == "turnstile_mq", "{}", json[0]);
        ensure!(json[0]["stats"]["link-rate"] == 625_000_000, "{}", json[0]);
        ns.run(&tool.line("del", ""))?;
    }
    Ok(())
}

/// What cannot be is refused, in words, and changes nothing.
fn refused(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().queues(QUEUES).build()?;
    let ns = &net.hosts[0].ns;
    let fails = |line: &str, parts: &[&str]| -> Result<()> {
        let said = ns.try_run(line)?.failure()?;
        for part in parts {
            ensure!(said.contains(part), "`{line}` said {said:?}, not {part:?}");
        }
        Ok(())
    };
    for tool in [Tool::Tc, Tool::Turnstile] {
        for (words, parts) in [
            ("priorities 9", &["priorities", "1..8"][..]),
            ("phantom drain 95% mark 1kb", &["phantom", "several queues"]),
            ("ren period 48us", &["ren", "several queues"]),
            ("tcd threshold 10kb", &["tcd", "several queues"]),
            ("pfc data 3", &["pfc", "several queues"]),
        ] {
            fails(&tool.line("add", words), parts)?;
        }
        ensure!(
            shown(ns, "turnstile_mq")?.is_empty(),
            "a refused one is there"
        );
    }
    ns.run("tc qdisc add dev eth0 root handle 1: turnstile_mq priorities 4")?;
    let mut tc = Tc::open(ns, "eth0")?;
    let port = format!("{:x}:", ports(&mut tc)?[1] >> 16);
    ns.run(&format!(
        "tc filter add dev eth0 parent {port} protocol ip prio 1 matchall classid {port}13"
    ))?;
    let before = ns.run("tc qdisc show dev eth0")?;
    for (line, parts) in [
        (
            "tc qdisc change dev eth0 root turnstile_mq tcd threshold 10kb",
            &["turnstile_mq: tcd", "several queues"][..],
        ),
        (
            "tc qdisc change dev eth0 root turnstile_mq priorities 2",
            &["turnstile_mq: class :13 would go, but filters name it"],
        ),
        (
            &format!("tc qdisc change dev eth0 parent 1:2 handle {port} turnstile priorities 2"),
            &["is one of turnstile_mq's"],
        ),
        (
            &format!("turnstile port change eth0 parent 1:2 handle {port} priorities 2"),
            &["is one of turnstile_mq's"],
        ),
        (
            "tc qdisc replace dev eth0 parent 1:2 handle 77: pfifo",
            &["each queue has its port"],
        ),
        (
            "tc qdisc del dev eth0 parent 1:2",
            &["each queue has its port"],
        ),
        (
            "tc class add dev eth0 parent 1: classid 1:9 turnstile_mq",
            &["classes cannot be"],
        ),
        (
            "turnstile port change eth0 parent 1:2 queues",
            &["queues: only at the root"],
        ),
        ("turnstile pacer add eth0 queues", &["queues"]),
    ] {
        fails(line, parts)?;
        let after = ns.run("tc qdisc show dev eth0")?;
        ensure!(after == before, "after `{line}`: {after}");
    }
    ns.run("tc qdisc del dev eth0 root")?;
    ns.run("tc qdisc add dev eth0 root handle 1: prio")?;
    fails(
        "tc qdisc add dev eth0 parent 1:1 turnstile_mq",
        &["turnstile_mq: only at the root of a device with several transmit queues"],
    )?;
    ns.ip("link add single0 numtxqueues 1 type dummy")?;
    fails(
        "tc qdisc add dev single0 root turnstile_mq",
        &["turnstile_mq: only at the root of a device with several transmit queues"],
    )
}

/// `SO_PRIORITY` names a class of the group wherever the packet is; a port has filters, and a child
/// on its data class.
fn classes(ctx: &mut Ctx) -> Result<()> {
    const EACH: u64 = 5;
    let net = made("link 1gbit token-limit 64 token-expiry off")?;
    let ns = &net.hosts[0].ns;
    let to = &net.hosts[1];
    let counter = Counter::install(&to.ns)?;
    let mut tc = Tc::open(ns, "eth0")?;
    let ports = ports(&mut tc)?;
    for port in &ports {
        let port = port >> 16;
        ns.run(&format!("tc qdisc add dev eth0 parent {port:x}:2 fq_codel"))?;
        ns.run(&format!(
            "tc filter add dev eth0 parent {port:x}: protocol ip prio 1 u32 match ip protocol 17 \
             0xff match ip tos 0x28 0xfc classid {port:x}:12"
        ))?;
    }
    let (_, start) = settle_with(&mut tc, &ports, &counter)?;
    let flows = (0..FLOWS).map(|stream| {
        let flow = Flow::new(stream, Packet::Other, to.v4)
            .payload(400)
            .burst(EACH);
        match stream % 3 {
            // Token 1, by the group's handle.
            0 => Flow {
                priority: ROOT | u32::from(class::TOKENS) | 1,
                ..flow
            },
            // Token 2, by a filter: DSCP 10.
            1 => Flow { dscp: 10, ..flow },
            _ => flow,
        }
    });
    Source::start(ns, flows.collect(), clock::monotonic()).wait()?;
    let (settled, end) = settle_with(&mut tc, &ports, &counter)?;
    let mut of = [0; 3];
    for port in &ports {
        settled.check(*port)?;
        let tokens = u32::from(class::TOKENS);
        for (sum, minor) in of
            .iter_mut()
            .zip([tokens | 1, tokens | 2, class::DATA.into()])
        {
            *sum += settled.class(port | minor)?.stats.packets;
        }
    }
    ctx.note(format!("token 1, token 2, data: {of:?}"));
    let each = u64::from(FLOWS) / 3 * EACH;
    ensure!(
        of[0] == each && of[1] == each && (each..each + 8).contains(&of[2]),
        "{of:?} packets, not {each} each"
    );
    let arrived = end.0 - start.0;
    ensure!(
        (3 * each..3 * each + 8).contains(&arrived),
        "{arrived} arrived"
    );
    Ok(())
}

/// Groups, ports and other qdiscs take each other's places while packets of all kinds pass; the
/// device goes down and comes up. Nothing is left, and nothing stands still.
fn come_and_go(ctx: &mut Ctx) -> Result<()> {
    let net = Builder::pair().queues(QUEUES).build()?;
    let ns = &net.hosts[0].ns;
    let load = Load::start(&net, &Mix::all(&[ROOT]), ctx.rng.range(0..=u64::MAX))?;
    let lines = [
        "tc qdisc replace dev eth0 root handle 1: turnstile_mq link 100mbit data-limit 100kb",
        "tc qdisc change dev eth0 root turnstile_mq link 1mbit priorities 2 order data-first",
        "tc qdisc change dev eth0 root turnstile_mq link auto unscheduled off",
        "tc qdisc change dev eth0 root turnstile_mq link 200mbit jitter 0 tokens 30%",
        "tc qdisc replace dev eth0 root handle 2: turnstile_mq link 300kbit",
        "tc qdisc replace dev eth0 root handle 3: mq",
        "tc qdisc replace dev eth0 root handle 1: turnstile_mq tokens 1mbit",
        "tc qdisc replace dev eth0 root handle 4: turnstile link 100mbit",
        "tc qdisc replace dev eth0 root handle 1: turnstile_mq link 50mbit",
        "ip link set eth0 down",
        "ip link set eth0 up",
        "tc qdisc del dev eth0 root",
    ];
    for line in lines {
        ns.run(line)?;
        std::thread::sleep(Duration::from_millis(20));
        ns.run("tc -s class show dev eth0")?;
    }
    ns.run("tc qdisc add dev eth0 root handle 1: turnstile_mq link 20mbit")?;
    std::thread::sleep(Duration::from_millis(100));
    let mut tc = Tc::open(ns, "eth0")?;
    let ports = ports(&mut tc)?;
    load.ask_to_stop();
    load.stop()?;
    ns.run("tc qdisc change dev eth0 root turnstile_mq link 1gbit")?;
    let settled = settle(&mut tc, &ports)?;
    for port in &ports {
        settled.check(*port)?;
    }
    let passed = settled.qdisc(ROOT)?.stats.packets;
    ctx.note(format!("{passed} packets passed the last one"));
    ensure!(passed > 20, "{passed} packets passed");
    Ok(())
}

/// Queues come into use and go out of it (`ethtool -L`): each has a port that can be found, also
/// one that was not in use when the ports were made, and a port keeps its handle and its children.
fn channels(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().queues(QUEUES).build()?;
    let ns = &net.hosts[0].ns;
    ns.run("ethtool -L eth0 tx 2")?;
    ns.run("tc qdisc add dev eth0 root handle 1: turnstile_mq link 20mbit")?;
    ns.run(&format!("ethtool -L eth0 tx {QUEUES}"))?;
    let mut tc = Tc::open(ns, "eth0")?;
    let all = ports(&mut tc)?;
    let mut different = all.clone();
    different.sort_unstable();
    different.dedup();
    ensure!(different.len() == all.len(), "handles: {all:x?}");
    for port in &all {
        let port = port >> 16;
        ns.run(&format!(
            "tc qdisc add dev eth0 parent {port:x}:2 pfifo limit 5"
        ))?;
    }
    for queues in [2, QUEUES, 1, QUEUES] {
        ns.run(&format!("ethtool -L eth0 tx {queues}"))?;
        // Drops of the children are told to the ports.
        let flows = bulk(&net.hosts[1], FLOWS, 20);
        Source::run(ns, flows)?;
        let now = ports(&mut tc)?;
        ensure!(
            now == all,
            "{queues} queues in use: {now:x?}, were {all:x?}"
        );
        let children = tc.qdiscs()?.into_iter().filter(|it| it.kind == "pfifo");
        let children = children.count();
        ensure!(children == all.len(), "{children} children");
    }
    ns.run("tc qdisc del dev eth0 root")?;
    Ok(())
}
