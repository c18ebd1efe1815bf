// SPDX-License-Identifier: GPL-2.0
//! Which of several paths messages take, and what is between them: UDP's source ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use anyhow::{ensure, Context, Result};
use socket2::Domain;

use super::{comes, next, open_in, receiver, send, Kind};
use crate::cases::transport::support::{addresses, load, pair, PATIENCE, PORT};
use crate::harness::{Ctx, Need};
use crate::netns::Netns;
use crate::topology::{Link, Plan};

/// Of exact links.
pub(super) const NEEDS: &[Need] = &[
    Need::Module("sch_turnstile"),
    Need::Module("sch_ingress"),
    Need::Module("sch_netem"),
    Need::Module("cls_matchall"),
    Need::Module("act_mirred"),
];

/// Notes who sent from which UDP port what a switch forwards.
fn note(ns: &Netns) -> Result<()> {
    ns.run("nft add table ip t")?;
    ns.run_with(
        "nft -f -",
        "add set ip t seen { type ipv4_addr . inet_service; flags dynamic; size 4096; }\n\
         add chain ip t crossing { type filter hook forward priority 0; }\n\
         add rule ip t crossing udp dport 29813 add @seen { ip saddr . udp sport }\n",
    )
    .map(drop)
}

/// The ports that were noted, each with its senders.
fn noted(ns: &Netns) -> Result<BTreeMap<u16, BTreeSet<String>>> {
    let text = ns.run("nft -n list set ip t seen")?;
    let mut ports = BTreeMap::<u16, BTreeSet<String>>::new();
    let Some((_, elements)) = text.split_once("elements = {") else {
        return Ok(ports);
    };
    let elements = elements.split('}').next().unwrap_or_default();
    for element in elements.split(',') {
        let (who, port) = element.trim().split_once(" . ").context("no element")?;
        let port = port.trim().parse().with_context(|| element.to_owned())?;
        ports.entry(port).or_default().insert(who.to_owned());
    }
    Ok(ports)
}

/// Between two leaves with two spines, messages spread over both, and all packets of a message, of
/// both directions, go over the same.
pub(super) fn two_spines(_: &mut Ctx) -> Result<()> {
    const MESSAGES: usize = 24;
    load()?;
    let link = Link::new(10_000_000_000, 1000);
    let fabric = Plan::leaf_spine(2, 2, 1, link, link).build()?;
    let spines = [&fabric.node("s1")?.ns, &fabric.node("s2")?.ns];
    for spine in spines {
        note(spine)?;
    }
    let to = SocketAddr::from((fabric.address(1), PORT));
    let receiver = receiver(fabric.host(1), Kind::Turnstile, Domain::IPV4)?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let from = open_in(fabric.host(0), Kind::Turnstile, Domain::IPV4)?;
    let bytes = vec![3; 20_000];
    for _ in 0..MESSAGES {
        ensure!(send(&from, &bytes, to) == 0, "sending");
        comes("over a spine", &receiver, Some(&bytes))?;
    }
    let [first, second] = [noted(spines[0])?, noted(spines[1])?];
    // Ports are hashes: of so many, two are the same in one run of 60.
    let ports = first.len() + second.len();
    ensure!(
        (MESSAGES - 2..=MESSAGES).contains(&ports),
        "{MESSAGES} messages: {first:?}, {second:?}"
    );
    ensure!(
        !first.is_empty() && !second.is_empty(),
        "one spine: {first:?}, {second:?}"
    );
    for (port, senders) in first.iter().chain(&second) {
        ensure!(
            senders.len() == 2,
            "port {port}: only {senders:?} was seen there"
        );
    }
    Ok(())
}

/// Who translates the source port is told by a counter.
pub(super) fn translated(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let there = addresses(&net.hosts[1])[0];
    let ns = &net.hosts[0].ns;
    ns.run("nft add table ip n")?;
    ns.run_with(
        "nft -f -",
        "add chain ip n post { type nat hook postrouting priority 100; }\n\
         add rule ip n post udp dport 29813 masquerade to :50000-50001\n",
    )?;
    let receiver = receiver(&net.hosts[1].ns, Kind::Turnstile, Domain::IPV4)?;
    let from = open_in(ns, Kind::Turnstile, Domain::IPV4)?;
    ensure!(send(&from, b"translated", there) == 0, "sending");
    ensure!(next(&receiver)?.is_none(), "it came");
    let said = net.hosts[1].ns.run("turnstile stats")?;
    ensure!(
        said.contains("refused_port") || said.contains("refused-port"),
        "not counted: {said}"
    );
    Ok(())
}
