// SPDX-License-Identifier: GPL-2.0
//! Paths that lose, reorder, repeat, delay and corrupt packets, in both directions: every message
//! arrives whole and once.

use anyhow::{Context, Result};
use turnstile_socket::SendOptions;

use super::content::{self, Ledger};
use super::support::{
    addresses, configure_all, delivered, nothing_more, pair, receive_all, receiver, sender,
    POLICIES,
};
use crate::harness::{Case, Ctx, Need};
use crate::topology::Net;

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
