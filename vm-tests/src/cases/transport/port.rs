// SPDX-License-Identifier: GPL-2.0
//! The transport over Turnstile's own ports: what it sends is in the classes that it is meant for.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket};

use super::content;
use super::support::{addresses, configure_all, delivered, hosts, nothing_more, receiver, sender};
use crate::clock;
use crate::harness::{Case, Ctx};
use crate::netns::Netns;
use crate::stats::{self, Counters};
use crate::tool::Tool;
use crate::topology::{Builder, Net};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/port/classes", classes),
    Case::new("transport/port/unscheduled", unscheduled),
    Case::new("transport/port/at-the-host", at_the_host),
];

/// The classes of the port to host `index` (from 0), once the last acknowledgements are through.
fn at(net: &Net, index: usize) -> Result<BTreeMap<String, Counters>> {
    let (switch, dev) = net.port_to(index);
    settled(switch, &dev)
}

fn settled(ns: &Netns, dev: &str) -> Result<BTreeMap<String, Counters>> {
    let sent = |classes: &BTreeMap<String, Counters>| {
        let each = classes.values();
        each.map(|class| (class.packets, class.get("offered-packets")))
            .collect::<Vec<_>>()
    };
    let mut before = stats::classes(ns, dev)?;
    for _ in 0..200 {
        std::thread::sleep(Duration::from_millis(5));
        let now = stats::classes(ns, dev)?;
        // A packet may come between the port's answer and its classes'.
        if sent(&now) == sent(&before) && stats::check_port(ns, dev, "1:").is_ok() {
            return Ok(now);
        }
        before = now;
    }
    anyhow::bail!("packets keep coming: {before:?}")
}

/// By how much a class was offered more.
fn grown(
    before: &BTreeMap<String, Counters>,
    after: &BTreeMap<String, Counters>,
    class: &str,
) -> Result<u64> {
    let offered = |classes: &BTreeMap<String, Counters>| -> Result<u64> {
        let class = classes
            .get(class)
            .with_context(|| format!("no class {class}"))?;
        Ok(class.get("offered-packets"))
    };
    Ok(offered(after)? - offered(before)?)
}

/// Hosts on a switch whose ports are Turnstile's.
fn switched(options: &str) -> Result<Net> {
    let net = hosts(&Builder::bridged(2).without_offloads())?;
    for index in 0..2 {
        let (switch, dev) = net.port_to(index);
        Tool::Tc.port(switch, "add", &dev, options)?;
    }
    Ok(net)
}

/// Sends one message and waits until both ends have done with it.
fn one(net: &Net, from: &Socket, to: &Socket, len: usize, options: &SendOptions) -> Result<()> {
    from.send_to(
        &content::content(1, len),
        addresses(&net.hosts[1])[0],
        options,
    )?;
    let came = to.recv_message(len)?;
    content::check(1, 0, &came.data)?;
    let done = from
        .wait_completion(Some(super::support::PATIENCE))?
        .context("nothing was reported")?;
    done.outcome.context("a message failed")
}

/// Tokens of each priority are in its class, data is in the data class, and nothing else is in
/// either.
fn classes(ctx: &mut Ctx) -> Result<()> {
    const LEN: usize = 58_000;
    const PACKETS: u64 = LEN as u64 / 1450;
    let net = switched("priorities 8 link 200mbit")?;
    configure_all(
        &net,
        "policy top priorities 8 link 200mbit sender-priority use",
    )?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    for priority in 0..8 {
        let before = [at(&net, 0)?, at(&net, 1)?];
        let options = SendOptions {
            priority: Some(priority),
            ..SendOptions::default()
        };
        one(&net, &from, &to, LEN, &options)?;
        let after = [at(&net, 0)?, at(&net, 1)?];
        let mut counts = Vec::new();
        for other in 0..8 {
            let class = format!("1:1{other}");
            // Tokens go to the sender, and none goes the other way.
            let tokens = grown(&before[0], &after[0], &class)?;
            ensure!(
                grown(&before[1], &after[1], &class)? == 0,
                "tokens for the receiver"
            );
            if other == priority {
                ensure!(
                    tokens >= PACKETS,
                    "priority {priority}: {tokens} tokens for {PACKETS} packets"
                );
            } else {
                ensure!(
                    tokens == 0,
                    "priority {priority}: {tokens} tokens of priority {other}"
                );
            }
            counts.push(tokens);
        }
        let data = grown(&before[1], &after[1], "1:2")?;
        let back = grown(&before[0], &after[0], "1:2")?;
        let signals = [0, 1].map(|end| grown(&before[end], &after[end], "1:1"));
        let [to_sender, to_receiver] = signals;
        let (to_sender, to_receiver) = (to_sender?, to_receiver?);
        ctx.note(format!(
            "priority {priority}: {counts:?} tokens, {data} data, {to_receiver} and {to_sender} \
             signals"
        ));
        ensure!(
            (PACKETS..=PACKETS + PACKETS / 4).contains(&data),
            "{data} data packets for {PACKETS}"
        );
        ensure!(back == 0, "{back} data packets for the sender");
        ensure!(
            to_sender > 0 && to_receiver > 0,
            "no signals: {to_sender}, {to_receiver}"
        );
        ensure!(
            after[1]
                .get("1:2")
                .is_some_and(|class| class.drops_by_cause() == 0),
            "data was dropped"
        );
    }
    nothing_more(&to)
}

/// Short messages are sent at once, in the lowest class.
fn unscheduled(_: &mut Ctx) -> Result<()> {
    let net = switched("priorities 8 unscheduled 16 link 200mbit")?;
    configure_all(&net, "policy top unscheduled 4 link 200mbit")?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    for (len, packets) in [(1, 1), (1450, 1), (1451, 2), (5800, 4), (5801, 0)] {
        let before = at(&net, 1)?;
        one(&net, &from, &to, len, &SendOptions::default())?;
        let after = at(&net, 1)?;
        let at_once = grown(&before, &after, "1:3")?;
        let waited = grown(&before, &after, "1:2")?;
        ensure!(
            at_once == packets,
            "{len} bytes: {at_once} unscheduled packets, not {packets}"
        );
        // Where the machine is slow, the receiver may give tokens for what has come but was not
        // looked at.
        ensure!(
            match packets {
                0 => waited >= 5,
                packets => waited == 0 || !clock::is_simulated() && waited <= packets,
            },
            "{len} bytes: {waited} packets in the data class"
        );
    }
    // What nobody knows the length of waits for tokens.
    let before = at(&net, 1)?;
    let hidden = SendOptions {
        unknown_size: true,
        ..SendOptions::default()
    };
    one(&net, &from, &to, 1000, &hidden)?;
    let after = at(&net, 1)?;
    ensure!(
        grown(&before, &after, "1:3")? == 0 && grown(&before, &after, "1:2")? >= 1,
        "a message of unknown length was not scheduled"
    );
    delivered(&from, 0)?;
    nothing_more(&to)
}

/// A port on the host's own device, with super-packets or without.
fn at_the_host(_: &mut Ctx) -> Result<()> {
    for options in [
        "split-gso link 200mbit",
        "no-split-gso link 200mbit",
        "link 1gbit",
    ] {
        let net = hosts(&Builder::pair())?;
        configure_all(&net, "link 200mbit")?;
        for host in &net.hosts {
            Tool::Tc.port(&host.ns, "add", "eth0", options)?;
        }
        let to = receiver(&net.hosts[1].ns)?;
        let from = sender(&net.hosts[0].ns)?;
        for len in [1, 100_000, 1_000_000] {
            one(&net, &from, &to, len, &SendOptions::default())
                .with_context(|| format!("{options}: {len} bytes"))?;
        }
        settled(&net.hosts[1].ns, "eth0")?;
        let data = settled(&net.hosts[0].ns, "eth0")?;
        let data = data.get("1:2").context("no data class")?;
        ensure!(
            data.get("offered-packets") >= 1_100_000 / 1450,
            "{options}: {} data packets",
            data.get("offered-packets")
        );
    }
    Ok(())
}
