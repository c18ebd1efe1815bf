// SPDX-License-Identifier: GPL-2.0
//! The ready configurations of `tc-configs/`, each run as a person would, with traffic through it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use serde_json::{json, Value};
use turnstile_socket::{SendOptions, Socket};

use crate::cmd::{self, run_here};
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::stats;
use crate::topology::{Builder, Net};
use crate::traffic::{Flow, Packet, Sink, Source};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("tc-configs/top-switch-port-a", top_a),
    Case::new("tc-configs/top-switch-port-b", top_b),
    Case::new("tc-configs/expresspass-port", expresspass),
    Case::new("tc-configs/hull-port", hull),
    Case::new("tc-configs/ren-port", ren),
    Case::new("tc-configs/ren-host", ren_host),
    Case::new("tc-configs/bridge-switch", bridge_switch),
    // The headroom is enough for machines that are late by no more than `jitter`.
    Case::new("tc-configs/lossless-switch", lossless_switch).needs(&[Need::VirtualTime]),
    Case::new("tc-configs/host-nic-root", host_nic_root),
    Case::new("tc-configs/host-nic-mq", host_nic_mq),
    Case::new("tc-configs/hull-host", hull_host),
    Case::new("tc-configs/usage", usage),
];

/// Where the guest has them.
const FOLDER: &str = "/tc-configs";

/// The options of every port of a device, as tc shows them.
fn ports(ns: &Netns, dev: &str) -> Result<Vec<Value>> {
    let list = ns.tc_json(&format!("qdisc show dev {dev}"))?;
    let list = list.as_array().context("tc printed no list")?;
    Ok(list
        .iter()
        .filter(|qdisc| qdisc["kind"] == "turnstile")
        .map(|qdisc| qdisc["options"].clone())
        .collect())
}

/// That the port has these options, whatever others it has.
fn check(ns: &Netns, dev: &str, expected: &Value) -> Result<()> {
    let ports = ports(ns, dev)?;
    ensure!(ports.len() == 1, "{} ports on {dev}", ports.len());
    for (key, value) in expected.as_object().context("an object")? {
        ensure!(
            ports[0][key] == *value,
            "{dev}: {key} is {}, not {value}",
            ports[0][key]
        );
    }
    Ok(())
}

/// How many tokens of a kind are sent. On ports of 10 Gbit/s a token expires after 10 us, and an
/// emulated machine may be slower than that to send one.
const TOKENS: u64 = 20;
/// How many other packets of a kind are sent.
const OTHERS: u64 = 5;

/// Packets of every kind from one host to another; gives how many arrived of each.
fn traffic(net: &Net, from: usize, to: usize) -> Result<BTreeMap<u16, u64>> {
    let kinds = [
        Packet::Signal,
        Packet::Data,
        Packet::Unscheduled,
        Packet::Other,
        Packet::Token(0),
        Packet::Token(7),
    ];
    let sink = Sink::start(&net.hosts[to].ns)?;
    let flows = kinds.map(|kind| {
        let (limit, rate) = match kind {
            Packet::Token(_) => (TOKENS, 80.0),
            _ => (OTHERS, 20.0),
        };
        Flow {
            limit,
            ..Flow::new(kind.stream(), kind, net.hosts[to].v4).packets_per_s(rate)
        }
    });
    Source::run(&net.hosts[from].ns, flows.into())?;
    std::thread::sleep(Duration::from_millis(100));
    Ok(sink
        .finish()?
        .iter()
        .map(|(stream, received)| (*stream, received.packets))
        .collect())
}

/// That all of [`traffic`] arrives, but for tokens that expired on the way.
fn passes(net: &Net, from: usize, to: usize) -> Result<()> {
    let received = traffic(net, from, to)?;
    let arrived = |kind: Packet| received.get(&kind.stream()).copied().unwrap_or(0);
    let others = [
        Packet::Signal,
        Packet::Data,
        Packet::Unscheduled,
        Packet::Other,
    ];
    ensure!(
        received.len() == 6
            && others.into_iter().all(|kind| arrived(kind) == OTHERS)
            && [0, 7]
                .into_iter()
                .all(|p| (1..=TOKENS).contains(&arrived(Packet::Token(p)))),
        "{TOKENS} tokens of each priority and {OTHERS} of each other kind were sent: {received:?}"
    );
    Ok(())
}

/// What the classes of a port were offered.
fn offered(ns: &Netns, dev: &str, class: &str) -> Result<u64> {
    let classes = stats::classes(ns, dev)?;
    Ok(classes
        .get(class)
        .with_context(|| format!("no class {class}"))?
        .get("offered-packets"))
}

fn top_a(_: &mut Ctx) -> Result<()> {
    let net = Builder::bridged(2).build()?;
    let (switch, dev) = net.port_to(1);
    switch.run(&format!("{FOLDER}/top-switch-port-a.sh {dev} 2mbit"))?;
    let expected = json!({
        "link": 250_000, "tokens": {"share": 0.05}, "priorities": 6, "token-limit": 8,
        "token-expiry": "auto",
        "jitter": 0, "order": "data-first", "unscheduled": "off",
    });
    check(switch, &dev, &expected)?;
    passes(&net, 0, 1)?;
    // Data, unscheduled and other packets.
    ensure!(
        offered(switch, &dev, "1:2")? == 3 * OTHERS,
        "data was offered {}",
        offered(switch, &dev, "1:2")?
    );
    ensure!(
        offered(switch, &dev, "1:15")? == TOKENS,
        "the lowest priority was offered {}",
        offered(switch, &dev, "1:15")?
    );
    // Again: the same port.
    switch.run(&format!("{FOLDER}/top-switch-port-a.sh {dev} 2mbit"))?;
    check(switch, &dev, &expected)
}

fn top_b(_: &mut Ctx) -> Result<()> {
    let net = Builder::bridged(2).build()?;
    let (switch, dev) = net.port_to(1);
    let expected = |priorities: u32, unscheduled: Value| {
        json!({
            "tokens": {"share": 0.05}, "priorities": priorities, "token-limit": 8,
            "token-expiry": "auto",
            "jitter": 0,
            "order": "tokens-first", "unscheduled": unscheduled,
        })
    };
    switch.run(&format!("{FOLDER}/top-switch-port-b.sh {dev} 2mbit"))?;
    check(switch, &dev, &expected(6, json!("off")))?;
    passes(&net, 0, 1)?;
    switch.run(&format!(
        "{FOLDER}/top-switch-port-b.sh {dev} 2mbit unscheduled"
    ))?;
    check(switch, &dev, &expected(5, json!(1)))?;
    passes(&net, 0, 1)?;
    ensure!(
        offered(switch, &dev, "1:3")? == OTHERS,
        "unscheduled was offered {}",
        offered(switch, &dev, "1:3")?
    );
    switch
        .run(&format!("{FOLDER}/top-switch-port-b.sh {dev} 2mbit twice"))
        .err()
        .context("a wrong third word was accepted")
        .map(drop)
}

fn expresspass(_: &mut Ctx) -> Result<()> {
    let net = Builder::routed(2).build()?;
    let (switch, dev) = net.port_to(1);
    for (words, limit) in [("", 8), ("16", 16)] {
        switch.run(&format!("{FOLDER}/expresspass-port.sh {dev} 2mbit {words}"))?;
        let expected = json!({
            "tokens": {"share": 0.051787916}, "priorities": 1, "token-limit": limit,
            "token-expiry": "off",
            "jitter": 0,
            "unscheduled": "off",
        });
        check(switch, &dev, &expected)?;
    }
    passes(&net, 0, 1)?;
    ensure!(
        offered(switch, &dev, "1:10")? == 2 * TOKENS,
        "credits offered: {}",
        offered(switch, &dev, "1:10")?
    );
    Ok(())
}

/// A counter of the data class's.
fn counted(ns: &Netns, dev: &str, key: &str) -> Result<u64> {
    let classes = stats::classes(ns, dev)?;
    Ok(classes.get("1:2").context("no data class")?.get(key))
}

fn hull(_: &mut Ctx) -> Result<()> {
    let net = Builder::bridged(2).build()?;
    let (switch, dev) = net.port_to(1);
    for (words, drain, mark) in [("", json!(0.95), 1024), ("90% 6kb", json!(0.9), 6144)] {
        switch.run(&format!("{FOLDER}/hull-port.sh {dev} 2mbit {words}"))?;
        let phantom = json!({"drain": {"share": drain}, "mark": mark});
        let expected = json!({"link": 250_000, "unscheduled": "off", "phantom": phantom});
        check(switch, &dev, &expected)?;
    }
    passes(&net, 0, 1)?;
    let seen = counted(switch, &dev, "phantom-seen")?;
    ensure!(seen == 3 * OTHERS, "the phantom queue saw {seen} packets");
    Ok(())
}

fn ren(_: &mut Ctx) -> Result<()> {
    let net = Builder::routed(2).build()?;
    let (switch, dev) = net.port_to(1);
    for (words, period) in [("", 48_000), ("100us", 100_000)] {
        switch.run(&format!("{FOLDER}/ren-port.sh {dev} 2mbit {words}"))?;
        let expected = json!({
            "link": 250_000, "tokens": {"share": 0.2}, "priorities": 1, "token-expiry": "off",
            "jitter": 0,
            "ren": {"period": period},
        });
        check(switch, &dev, &expected)?;
    }
    passes(&net, 0, 1)?;
    let seen = counted(switch, &dev, "ren-seen")?;
    ensure!(seen == 0, "{seen} packets of no REN flow");
    let periods = counted(switch, &dev, "ren-periods")?;
    ensure!(periods > 10, "only {periods} sampling periods");
    Ok(())
}

/// A message from host to host, over a port that marks.
fn ren_host(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 200_000;
    // Before there are namespaces: those that are there already would be without the transport.
    run_here("modprobe turnstile", "")?.success()?;
    let net = Builder::bridged(2).without_offloads().build()?;
    for host in &net.hosts {
        for words in ["", "50mbit 5ms"] {
            host.ns.run(&format!("{FOLDER}/ren-host.sh eth0 {words}"))?;
        }
        let expected = json!({
            "link": 6_250_000, "tokens": {"share": 0.2}, "priorities": 1,
            "token-limit": 1024, "ren": "off",
        });
        check(&host.ns, "eth0", &expected)?;
        let transport = cmd::json(&host.ns.run("turnstile -j transport show")?)?;
        ensure!(
            transport["policy"] == "ren" && transport["base-rtt"] == 5_000_000,
            "{transport}"
        );
    }
    let (switch, dev) = net.port_to(1);
    switch.run(&format!("{FOLDER}/ren-port.sh {dev} 20mbit 5ms"))?;
    let [from, to] = &net.hosts[..] else {
        bail!("two hosts");
    };
    let receiver = to.ns.enter(|| Ok(Socket::bind("[::]:5000")?))?;
    receiver.set_read_timeout(Some(Duration::from_secs(30)))?;
    let sender = from.ns.enter(|| Ok(Socket::bind("[::]:0")?))?;
    for address in [IpAddr::from(to.v4), to.v6.into()] {
        let data = vec![7; LEN];
        sender.send_to(&data, (address, 5000), &SendOptions::default())?;
        let came = receiver.recv_message(LEN)?;
        ensure!(came.data == data, "{} bytes came", came.data.len());
    }
    let marked = counted(switch, &dev, "ren-full")? + counted(switch, &dev, "ren-over")?;
    ensure!(marked > 0, "of a host that sends faster nothing was marked");
    stats::check_port(&from.ns, "eth0", "1:")
}

fn bridge_switch(_: &mut Ctx) -> Result<()> {
    let net = Builder::bridged(3).build()?;
    let switch = net.port_to(0).0;
    // Without the bridge: the script makes its own.
    switch.ip("link del br0")?;
    for _ in 0..2 {
        switch.run(&format!("{FOLDER}/bridge-switch.sh br1 2mbit p1 p2 p3"))?;
        for dev in ["p1", "p2", "p3"] {
            check(
                switch,
                dev,
                &json!({"link": 250_000, "order": "tokens-first", "priorities": 8}),
            )?;
            ensure!(
                switch
                    .ip(&format!("link show dev {dev}"))?
                    .contains("master br1"),
                "{dev} is not in the bridge"
            );
        }
    }
    // A bridge made without further words waits before it forwards only if it speaks STP: it does
    // not.
    wait_for_forwarding(switch)?;
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        passes(&net, from, to)?;
    }
    Ok(())
}

/// Nothing is dropped of what a host that obeys sends twice as fast as the next one can take it.
fn lossless_switch(_: &mut Ctx) -> Result<()> {
    let net = Builder::bridged(3).build()?;
    let switch = net.port_to(0).0;
    switch.ip("link del br0")?;
    for _ in 0..2 {
        let line = "lossless-switch.sh br1 20mbit 500ns 3 p1 p2 p3";
        switch.run(&format!("{FOLDER}/{line}"))?;
        for dev in ["p1", "p2", "p3"] {
            let pfc = json!({
                "data": "3", "watchdog": 200_000_000, "alpha": "off",
                "xoff": "auto", "xon": "auto", "headroom": "auto", "delay": 500,
            });
            check(switch, dev, &json!({"link": 2_500_000, "pfc": pfc}))?;
        }
    }
    wait_for_forwarding(switch)?;
    for host in &net.hosts {
        let options = "turnstile link 20mbit pfc data 3";
        host.ns.tc(&format!("qdisc add dev eth0 root {options}"))?;
    }
    let sink = Sink::start(&net.hosts[2].ns)?;
    let flow = |stream| Flow::new(stream, Packet::Data, net.hosts[2].v4).burst(400);
    let start = crate::clock::monotonic();
    let first = Source::start(&net.hosts[0].ns, vec![flow(0)], start);
    let second = Source::start(&net.hosts[1].ns, vec![flow(1)], start);
    first.wait()?;
    second.wait()?;
    // As long as it takes on the slow link, and as long again.
    std::thread::sleep(Duration::from_millis(1000));
    let came = sink.finish()?;
    let data = stats::classes(switch, "p1")?.remove("1:2");
    let data = data.context("no data class")?;
    ensure!(data.get("pfc-asked") > 0, "{}", data.json);
    ensure!(came[&0].packets == 400, "{} came", came[&0].packets);
    ensure!(came[&1].packets == 400, "{} came", came[&1].packets);
    Ok(())
}

/// Ports of a new bridge listen and learn for up to twice 15 s, and forward at once where STP is
/// off.
fn wait_for_forwarding(switch: &Netns) -> Result<()> {
    for _ in 0..100 {
        let links = switch.run("bridge link")?;
        if links
            .lines()
            .filter(|line| line.contains("state forwarding"))
            .count()
            == 3
        {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("the ports do not forward: {}", switch.run("bridge link")?)
}

fn host_nic_root(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    ns.run(&format!("{FOLDER}/host-nic.sh eth0"))?;
    check(
        ns,
        "eth0",
        &json!({"link": "auto", "priorities": 8, "unscheduled": "off", "order": "tokens-first",
            "tokens": {"share": 0.1}, "token-limit": 64, "token-expiry": "off", "jitter": 50_000}),
    )?;
    passes(&net, 0, 1)?;
    // As its comment says: a child that shares the data band among flows.
    ns.tc("qdisc add dev eth0 parent 1:2 fq_codel")?;
    passes(&net, 0, 1)?;
    stats::check_port(ns, "eth0", "1:")
}

fn host_nic_mq(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().queues(4).build()?;
    let ns = &net.hosts[0].ns;
    for _ in 0..2 {
        ns.run(&format!("{FOLDER}/host-nic.sh eth0 1gbit mq"))?;
        let root = ns.tc("qdisc show dev eth0 root")?;
        ensure!(root.contains("qdisc turnstile_mq 1: root"), "{root}");
        let ports = ports(ns, "eth0")?;
        ensure!(ports.len() == 4, "{} ports on four queues", ports.len());
        for port in &ports {
            ensure!(
                port["tokens"] == json!({"share": 0.1}),
                "tokens: {}",
                port["tokens"]
            );
            ensure!(port["link"] == 125_000_000, "link: {}", port["link"]);
            ensure!(
                port["unscheduled"] == "off",
                "unscheduled: {}",
                port["unscheduled"]
            );
        }
        passes(&net, 0, 1)?;
    }
    Ok(())
}

/// DCTCP's part is the machine's, not a namespace's; the pacer's is looked at, and that all passes.
fn hull_host(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    for (words, place, expected) in [
        (
            "",
            "root handle 1: ",
            json!({"interval": 64_000, "eta": 0.125, "beta": 16, "associate": 0.125,
            "idle": 10_000_000}),
        ),
        (
            "simulation 1gbit",
            "parent 1:2 handle 2: ",
            json!({"interval": 7_200, "eta": 0.125, "beta": 375, "associate": 0.125,
            "idle": 1_000_000}),
        ),
    ] {
        ns.run(&format!("{FOLDER}/hull-host.sh eth0 {words}"))?;
        let text = ns.run("turnstile pacer show eth0")?;
        ensure!(text.contains(place), "`{words}`: {text}");
        let pacer = cmd::json(&ns.run("turnstile -j pacer show eth0")?)?;
        for (key, value) in expected.as_object().context("an object")? {
            let found = &pacer[0]["options"][key];
            ensure!(found == value, "`{words}`: {key} is {found}, not {value}");
        }
        let ecn = ns.enter(|| Ok(std::fs::read_to_string("/proc/sys/net/ipv4/tcp_ecn")?))?;
        ensure!(ecn.trim() == "1", "tcp_ecn is {ecn}");
        passes(&net, 0, 1)?;
    }
    stats::check_port(ns, "eth0", "1:")
}

/// Called wrongly, each says how it is called, and changes nothing.
fn usage(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let before = ns.tc("qdisc show")?;
    let scripts: Vec<_> = std::fs::read_dir(FOLDER)
        .with_context(|| format!("reading {FOLDER}"))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sh"))
        .collect();
    ensure!(
        scripts.len() == 10,
        "{} scripts: test each of them",
        scripts.len()
    );
    for script in scripts {
        let output = ns.try_run(&script.to_string_lossy())?;
        ensure!(
            output.stderr.starts_with("usage: "),
            "{}: {}",
            script.display(),
            output.stderr
        );
        output.failure()?;
    }
    ensure!(ns.tc("qdisc show")? == before, "qdiscs changed");
    Ok(())
}
