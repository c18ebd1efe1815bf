// SPDX-License-Identifier: GPL-2.0
//! Paths that lose, reorder, repeat, delay and corrupt packets, in both directions: every message
//! arrives whole and once.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use turnstile_socket::SendOptions;

use super::content::{self, Ledger};
use super::support::{
    addresses, configure_all, delivered, hosts, nothing_more, pair, read_once, receive_all,
    receiver, sender, POLICIES,
};
use crate::harness::{Case, Ctx, Need};
use crate::topology::{Builder, Net};

const NEEDS: &[Need] = &[Need::Module("sch_netem")];

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/path/loss-1", |ctx| bad(ctx, "loss 1%")).needs(NEEDS),
    Case::new("transport/path/loss-5", |ctx| bad(ctx, "loss 5%")).needs(NEEDS),
    Case::new("transport/path/reordering", |ctx| {
        bad(ctx, "delay 2ms reorder 25% 50%")
    })
    .needs(NEEDS),
    Case::new("transport/path/jitter", |ctx| bad(ctx, "delay 2ms 2ms")).needs(NEEDS),
    Case::new("transport/path/duplicates", |ctx| bad(ctx, "duplicate 30%")).needs(NEEDS),
    Case::new("transport/path/corruption", |ctx| bad(ctx, "corrupt 3%")).needs(NEEDS),
    Case::new("transport/path/all-of-it", |ctx| {
        bad(
            ctx,
            "delay 1ms 1ms loss 5% duplicate 5% corrupt 1% reorder 10%",
        )
    })
    .needs(NEEDS)
    .timeout_s(120),
    Case::new("transport/path/only-one-way", only_one_way).needs(NEEDS),
    Case::new("transport/path/black-hole", black_hole).timeout_s(120),
    Case::new("transport/path/route-shrinks", route_shrinks).timeout_s(120),
    Case::new("transport/path/way-in-closes-ipv4", |ctx| {
        way_in_closes(ctx, 0)
    }),
    Case::new("transport/path/way-in-closes-ipv6", |ctx| {
        way_in_closes(ctx, 1)
    }),
];

/// Has all devices do `words` to what they send.
fn spoil(ctx: &mut Ctx, net: &Net, words: &[&str]) -> Result<()> {
    for (host, words) in net.hosts.iter().zip(words) {
        if !words.is_empty() {
            let seed = ctx.rng.range(1..=u64::MAX);
            host.ns.tc(&format!(
                "qdisc add dev eth0 root netem limit 100000 {words} seed {seed}"
            ))?;
        }
    }
    Ok(())
}

/// Messages of 8 bytes to 100 kB, most of them short.
fn mixture(ctx: &mut Ctx, first: u64, count: u64) -> Vec<(u64, usize)> {
    (first..first + count)
        .map(|number| {
            let longest = *ctx.rng.pick(&[100, 3000, 20_000, 100_000]);
            (number, ctx.rng.range(content::MIN..=longest) as usize)
        })
        .collect()
}

/// The same in both directions.
fn bad(ctx: &mut Ctx, words: &str) -> Result<()> {
    let net = pair()?;
    spoil(ctx, &net, &[words, words])?;
    each_policy(ctx, &net, 24)
}

/// Tokens and acknowledgements are lost, or data is; the other way is good.
fn only_one_way(ctx: &mut Ctx) -> Result<()> {
    for words in [["loss 20%", ""], ["", "loss 20%"]] {
        let net = pair()?;
        spoil(ctx, &net, &words)?;
        each_policy(ctx, &net, 8).with_context(|| format!("{words:?}"))?;
    }
    Ok(())
}

/// Sends `count` messages at once, of which every other goes over IPv6, with each policy.
fn each_policy(ctx: &mut Ctx, net: &Net, count: u64) -> Result<()> {
    let to = receiver(&net.hosts[1].ns)?;
    for policy in POLICIES {
        configure_all(net, &format!("policy {policy}"))?;
        let from = sender(&net.hosts[0].ns)?;
        let list = mixture(ctx, 1, count);
        let mut ledger = Ledger::of(list.clone());
        let bytes: usize = list.iter().map(|(_, len)| len).sum();
        std::thread::scope(|scope| -> Result<()> {
            let sending = scope.spawn(|| -> Result<()> {
                for (number, len) in &list {
                    let address = addresses(&net.hosts[1])[(number % 2) as usize];
                    let bytes = content::content(*number, *len);
                    from.send_to(&bytes, address, &SendOptions::default())?;
                }
                delivered(&from, list.len() as u32)
            });
            receive_all(&to, &mut ledger)?;
            sending
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
        .with_context(|| format!("policy {policy}"))?;
        nothing_more(&to)?;
        ctx.note(format!("{policy}: {count} messages, {bytes} bytes"));
    }
    Ok(())
}

/// The receiver's end of the link drops packets of more than 1400 bytes, and says nothing: the
/// messages arrive in shorter ones.
fn black_hole(ctx: &mut Ctx) -> Result<()> {
    for policy in POLICIES {
        for v6 in 0..2 {
            let net = hosts(&Builder::pair().without_offloads())?;
            configure_all(&net, &format!("policy {policy}"))?;
            let to = receiver(&net.hosts[1].ns)?;
            let from = sender(&net.hosts[0].ns)?;
            net.hosts[1].ns.ip("link set eth0 mtu 1400")?;
            let mut ledger = Ledger::of([(1, 300_000), (2, 1000), (3, 300_000)]);
            let began = Instant::now();
            for (number, len) in [(1, 300_000), (2, 1000), (3, 300_000)] {
                from.send_to(
                    &content::content(number, len),
                    addresses(&net.hosts[1])[v6],
                    &SendOptions::default(),
                )?;
            }
            receive_all(&to, &mut ledger).with_context(|| format!("policy {policy}, IPv6 {v6}"))?;
            delivered(&from, 3)?;
            ctx.note(format!("{policy}, IPv6 {v6}: {:?}", began.elapsed()));
        }
    }
    Ok(())
}

/// The route's MTU falls in the middle of a message: what is under way then may be cut in pieces,
/// but packets that are made afterwards are shorter.
fn route_shrinks(ctx: &mut Ctx) -> Result<()> {
    for v6 in 0..2 {
        let net = hosts(&Builder::pair().without_offloads())?;
        let to = receiver(&net.hosts[1].ns)?;
        to.set_recv_buffer_size(64 << 10)?;
        let from = sender(&net.hosts[0].ns)?;
        let there = addresses(&net.hosts[1])[v6];
        let data = content::content(1, 1_000_000);
        from.send_to(&data, there, &SendOptions::default())?;
        let mut came = read_once(&to, 10_000, 0)?.data;
        let (family, net_of, file, counter) = if v6 == 0 {
            ("", format!("{}/32", net.hosts[1].v4), "snmp", "Ip:")
        } else {
            (
                "-6 ",
                format!("{}/128", net.hosts[1].v6),
                "snmp6",
                "Ip6FragCreates",
            )
        };
        net.hosts[0]
            .ns
            .ip(&format!("{family}route add {net_of} dev eth0 mtu 1300"))?;
        let before = fragments(&net, file, counter)?;
        while came.len() < data.len() {
            came.extend(read_once(&to, 100_000, 0)?.data);
        }
        super::support::same("the message", &came, &data)?;
        delivered(&from, 1)?;
        let made = fragments(&net, file, counter)? - before;
        ctx.note(format!("IPv6 {v6}: {made} fragments"));
        ensure!(made < 64, "{made} fragments of some 700 packets");
    }
    Ok(())
}

/// The route by which packets came before is kept, but for no longer than the kernel would choose
/// it again: when the host has the address no more, nothing arrives. A message that waits meanwhile
/// arrives when it has it again.
fn way_in_closes(ctx: &mut Ctx, v6: usize) -> Result<()> {
    const LEN: usize = 20_000;
    let net = pair()?;
    let there = &net.hosts[1];
    let to = receiver(&there.ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let address = addresses(there)[v6];
    let (own, family, nodad) = if v6 == 0 {
        (format!("{}/24", there.v4), "", "")
    } else {
        (format!("{}/64", there.v6), "-6 ", " nodad")
    };
    let mut number = 0;
    let mut arrives = |closed: bool| -> Result<()> {
        number += 1;
        let data = content::content(number, LEN);
        if closed {
            there.ns.ip(&format!("{family}addr del {own} dev eth0"))?;
        }
        from.send_to(&data, address, &SendOptions::default())?;
        if closed {
            std::thread::sleep(Duration::from_millis(100));
            nothing_more(&to)?;
            there
                .ns
                .ip(&format!("{family}addr add {own} dev eth0{nodad}"))?;
        }
        let came = to.recv_message(1 << 30)?;
        super::support::same(&format!("message {number}"), &came.data, &data)
    };
    for _ in 0..3 {
        for closed in [false, false, false, true] {
            arrives(closed)?;
        }
    }
    delivered(&from, number as u32)?;
    ctx.note(format!("{number} messages"));
    Ok(())
}

/// How many fragments a host has made.
fn fragments(net: &Net, file: &str, counter: &str) -> Result<i64> {
    let text = net.hosts[0].ns.run(&format!("cat /proc/net/{file}"))?;
    let mut lines = text.lines().filter(|line| line.starts_with(counter));
    let first = lines.next().context("no counter")?;
    let value = match lines.next() {
        None => first.split_whitespace().nth(1),
        Some(values) => first
            .split_whitespace()
            .zip(values.split_whitespace())
            .find(|(name, _)| *name == "FragCreates")
            .map(|(_, value)| value),
    };
    value.context("no value")?.parse().context("a number")
}
