// SPDX-License-Identifier: GPL-2.0
//! The policies in which senders pace, `dcqcn` and `timely`, over ports that mark: marks arrive,
//! are told, and heeded.

use anyhow::{ensure, Context, Result};
use turnstile_core::pfc::frame::Frame as Pause;
use turnstile_socket::SendOptions;

use super::content::{self, Ledger};
use super::support::{
    addresses, configure_all, counters, delivered, hosts, nothing_more, receive_all, receiver,
    sender,
};
use crate::cmd::json;
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::stats;
use crate::tool::Tool;
use crate::topology::{Builder, Net};
use crate::traffic::RawSocket;

const VIRTUAL_CABLE: &[Need] = &[Need::VirtualTime, Need::Module("sch_netem")];

pub(in crate::cases) const CASES: &[Case] = &[
    // Rates follow round-trip times and marks, which are the machine's elsewhere.
    Case::new("transport/rates/dcqcn-ipv4", |ctx| marked(ctx, DCQCN, 0))
        .needs(VIRTUAL_CABLE)
        .timeout_s(120),
    Case::new("transport/rates/dcqcn-ipv6", |ctx| marked(ctx, DCQCN, 1))
        .needs(VIRTUAL_CABLE)
        .timeout_s(120),
    Case::new("transport/rates/timely-ipv4", |ctx| marked(ctx, TIMELY, 0))
        .needs(VIRTUAL_CABLE)
        .timeout_s(120),
    Case::new("transport/rates/timely-ipv6", |ctx| marked(ctx, TIMELY, 1))
        .needs(VIRTUAL_CABLE)
        .timeout_s(120),
    Case::new("transport/rates/loss", loss)
        .needs(&[Need::Module("sch_netem")])
        .timeout_s(120),
    Case::new("transport/rates/undetermined", undetermined).timeout_s(120),
    Case::new("transport/rates/change-under-way", change)
        .needs(&[Need::Module("sch_netem")])
        .timeout_s(120),
];

/// The hosts are faster than the switch's port. A full packet takes 0.6 ms there, and four wait for
/// less than `timely-low`.
const LINK: &str = "link 50mbit base-rtt 5ms rto 40ms minimum-rate 500kbit";
const DCQCN: &str = "policy dcqcn dcqcn-timer 5ms dcqcn-alpha-timer 5ms cnp-interval 4ms \
                     dcqcn-additive 1mbit";
const TIMELY: &str = "policy timely timely-low 5ms timely-high 60ms timely-min-rtt 4ms \
                      timely-additive 500kbit";
/// From ten packets on the port marks.
const PORT: &str = "link 20mbit tcd threshold 15kb data-limit 4mb";
/// Messages that are sent at once, and bytes of each.
const COUNT: u64 = 4;
const LEN: usize = 300_000;

/// A cable of some length: what it holds has left its host. Without one a packet has not before the
/// receiver has it, as all of this is one machine, and a message waits for that.
const CABLE: &str = "netem limit 10000 delay 10us";

/// Two hosts at a switch, whose port to the receiver marks. `cable` is what is behind each host.
fn path(policy: &str, cable: &str) -> Result<Net> {
    let net = hosts(&Builder::bridged(2).without_offloads())?;
    configure_all(&net, &format!("{LINK} {policy}"))?;
    for host in &net.hosts {
        host.ns.tc(&format!("qdisc add dev eth0 root {cable}"))?;
    }
    let (switch, dev) = net.port_to(1);
    Tool::Tc.port(switch, "add", &dev, PORT)?;
    Ok(net)
}

/// What the port's data class counts.
fn data(net: &Net) -> Result<stats::Counters> {
    let (switch, dev) = net.port_to(1);
    let class = stats::classes(switch, &dev)?.remove("1:2");
    class.context("no data class")
}

/// Rates that a host says that its messages have, bytes/s.
fn rates(ns: &Netns) -> Result<Vec<u64>> {
    let all = json(&ns.run("turnstile -j flows")?)?;
    let all = all.as_array().context("no list")?;
    Ok(all.iter().filter_map(|it| it["rate"].as_u64()).collect())
}

/// Sends messages at once, and reads them: each is there once, and intact. `meanwhile` is called
/// when some of the last one has come.
fn send(net: &Net, family: usize, first: u64, meanwhile: &dyn Fn() -> Result<()>) -> Result<()> {
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let mut ledger = Ledger::of((first..first + COUNT).map(|number| (number, LEN)));
    let address = addresses(&net.hosts[1])[family];
    for number in first..first + COUNT {
        let bytes = content::content(number, LEN);
        from.send_to(&bytes, address, &SendOptions::default())?;
    }
    std::thread::sleep(std::time::Duration::from_millis(60));
    meanwhile()?;
    receive_all(&to, &mut ledger)?;
    delivered(&from, COUNT as u32)?;
    nothing_more(&to)
}

/// Without tokens all arrives, at rates that are shown; marks are told of and heeded.
fn marked(ctx: &mut Ctx, policy: &str, family: usize) -> Result<()> {
    let net = path(policy, CABLE)?;
    let (here, there) = (&net.hosts[0].ns, &net.hosts[1].ns);
    send(&net, family, 1, &|| {
        let rates = rates(here)?;
        // 500 kbit/s to 50 Mbit/s.
        ensure!(
            rates.len() == COUNT as usize
                && rates.iter().all(|it| (62_500..=6_250_000).contains(it)),
            "rates of what goes out: {rates:?}"
        );
        let shown = here.run("turnstile flows")?;
        ensure!(shown.contains("bit"), "{shown}");
        Ok(())
    })?;
    let (sent, came, port) = (counters(here)?, counters(there)?, data(&net)?);
    ctx.note(format!(
        "{} marked, {} told, {} heard; {} sent again; at most {} bytes waited",
        came["ecn-congested"],
        came["notify-sent"],
        sent["notify-received"],
        sent["data-resent"],
        port.get("max-bytes"),
    ));
    ensure!(
        came["token-sent"] == 0 && came["grant-sent"] == 0,
        "{came:?}"
    );
    ensure!(port.get("tcd-ce") > 0, "nothing was marked: {}", port.json);
    ensure!(
        came["ecn-congested"] == port.get("tcd-ce"),
        "{} marked, {} came",
        port.get("tcd-ce"),
        came["ecn-congested"]
    );
    ensure!(came["ecn-undetermined"] == 0, "{came:?}");
    ensure!(
        came["notify-sent"] > 0 && came["notify-sent"] == sent["notify-received"],
        "{} told, {} heard",
        came["notify-sent"],
        sent["notify-received"]
    );
    ensure!(came["notify-sent"] <= came["ecn-congested"], "{came:?}");
    ensure!(sent["rate-held"] == 0, "tcd is off: {sent:?}");
    // Nearly all of it would wait there if nobody heeded anything. TIMELY learns of a queue later.
    let most = COUNT * LEN as u64 * 2 / 3;
    ensure!(
        port.drops_by_cause() == 0 && port.get("max-bytes") < most,
        "{}",
        port.json
    );
    ensure!(rates(here)?.is_empty(), "messages are left");
    let (switch, dev) = net.port_to(1);
    stats::check_port(switch, &dev, "1:")
}

/// Data, ACKs and all else are lost.
fn loss(ctx: &mut Ctx) -> Result<()> {
    for policy in [DCQCN, TIMELY] {
        let seed = ctx.rng.range(1..=1_u64 << 32);
        let net = path(policy, &format!("{CABLE} loss 3% seed {seed}"))?;
        for family in 0..2 {
            send(&net, family, 1 + COUNT * family as u64, &|| Ok(()))?;
        }
        let sent = counters(&net.hosts[0].ns)?;
        ctx.note(format!("{} sent again", sent["data-resent"]));
        ensure!(sent["data-resent"] > 0, "nothing was lost");
    }
    Ok(())
}

/// The next switch pauses the sender's port, which can tell no congestion then: with tcd rates are
/// held, and without it nobody heeds such marks.
fn undetermined(ctx: &mut Ctx) -> Result<()> {
    let mut all = Vec::new();
    for (policy, tcd) in [
        (DCQCN, "off"),
        (DCQCN, "on"),
        (TIMELY, "off"),
        (TIMELY, "on"),
    ] {
        let net = hosts(&Builder::pair().without_offloads())?;
        // Beyond timely-high rates are cut whatever the mark is.
        let high = match policy == TIMELY {
            true => "timely-high 1s",
            false => "",
        };
        let policy = policy.replace("timely-high 60ms", high);
        configure_all(&net, &format!("{LINK} {policy} tcd {tcd}"))?;
        let here = &net.hosts[0].ns;
        // Slower than the hosts take it for: two packets of each message wait, and DCQCN is told of
        // that.
        let port = "link 20mbit pfc data 0 tcd threshold 5kb max-on 50ms data-limit 4mb";
        Tool::Tc.port(here, "add", "eth0", port)?;
        let next = RawSocket::open(&net.hosts[1].ns, "eth0")?;
        send(&net, 0, 1, &|| {
            for _ in 0..10 {
                // 512 quanta are 13 ms.
                let frame = Pause::one(0, 512).write([2, 0, 0, 0, 0, 9]);
                ensure!(next.send(&frame)?, "a frame was dropped on its way");
                std::thread::sleep(std::time::Duration::from_millis(40));
            }
            Ok(())
        })?;
        let (sent, came) = (counters(here)?, counters(&net.hosts[1].ns)?);
        let (ue, held) = (came["ecn-undetermined"], sent["rate-held"]);
        ctx.note(format!(
            "{policy} tcd {tcd}: {ue} undetermined, {held} held"
        ));
        ensure!(ue > 0, "no packet says undetermined: {came:?}");
        ensure!(
            (held > 0) == (tcd == "on"),
            "{policy} tcd {tcd}: held {held} times"
        );
        all.push(held);
    }
    Ok(())
}

/// The policy changes under way: to the other law, to tokens, and back.
fn change(_: &mut Ctx) -> Result<()> {
    for family in 0..2 {
        let net = path(DCQCN, CABLE)?;
        send(&net, family, 1, &|| {
            for policy in [TIMELY, "policy top", DCQCN, "policy ren", TIMELY] {
                configure_all(&net, policy)?;
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            Ok(())
        })?;
        configure_all(&net, "policy top")?;
        send(&net, family, 1 + COUNT, &|| Ok(()))?;
        let came = counters(&net.hosts[1].ns)?;
        ensure!(came["token-sent"] > 0, "{came:?}");
    }
    Ok(())
}
