// SPDX-License-Identifier: GPL-2.0
//! The counters: all are there, and they count what happened.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi::{command, stat, FAMILY};
use turnstile_socket::{SendOptions, Socket};

use crate::harness::Ctx;
use crate::raw_netlink::{Generic, Reply};
use crate::topology::Builder;

const PORT: u16 = 4000;
const LEN: usize = 100_000;
const PATIENCE: Duration = Duration::from_secs(30);

fn value(reply: &Reply, counter: Counter) -> Result<u64> {
    reply
        .number(stat::FIRST + counter as u16)
        .with_context(|| format!("no counter {}", counter.name()))
}

pub(super) fn run(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let mut families = Vec::new();
    for host in &net.hosts {
        let mut family = Generic::open(&host.ns, FAMILY)?;
        let reply = family.read(command::STATS_GET)?;
        for &counter in Counter::ALL {
            let count = value(&reply, counter)?;
            ensure!(count == 0, "{}: {count} at first", counter.name());
        }
        let others = reply.attributes.len() - Counter::ALL.len();
        ensure!(
            others <= usize::from(reply.attributes.contains_key(&stat::PAD)),
            "{others} attributes are no counters"
        );
        families.push(family);
    }
    let to = SocketAddr::from((net.hosts[1].v4, PORT));
    let receiver = net.hosts[1].ns.enter(|| Ok(Socket::bind(to)?))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let sender = net.hosts[0].ns.enter(|| Ok(Socket::bind(any)?))?;
    sender.set_completions(true)?;
    for _ in 0..3 {
        sender.send_to(&vec![5; LEN], to, &SendOptions::default())?;
        receiver.recv_message(LEN)?;
        let done = sender.wait_completion(Some(PATIENCE))?;
        done.context("not delivered")?.outcome?;
    }
    let out = families[0].read(command::STATS_GET)?;
    let come = families[1].read(command::STATS_GET)?;
    for (reply, counter, expected) in [
        (&out, Counter::OutOpened, 3),
        (&out, Counter::OutDelivered, 3),
        (&out, Counter::OutDeliveredBytes, 3 * LEN as u64),
        (&out, Counter::InOpened, 0),
        (&come, Counter::InOpened, 3),
        (&come, Counter::InDelivered, 3),
        (&come, Counter::InDeliveredBytes, 3 * LEN as u64),
        (&come, Counter::OutOpened, 0),
        (&come, Counter::MalformedType, 0),
    ] {
        let count = value(reply, counter)?;
        ensure!(count == expected, "{}: {count}", counter.name());
    }
    // What one side sends the other receives.
    for (sent, received) in [
        (Counter::SyncSent, Counter::SyncReceived),
        (Counter::DataSent, Counter::DataReceived),
        (Counter::DataSentBytes, Counter::DataReceivedBytes),
    ] {
        let (sent, received) = (value(&out, sent)?, value(&come, received)?);
        ensure!(
            sent == received && sent > 0,
            "{sent} sent, {received} received"
        );
    }
    // 69 packets each, of which some went without a token.
    let unasked = (
        value(&out, Counter::UnscheduledSent)?,
        value(&come, Counter::UnscheduledReceived)?,
    );
    ensure!(
        unasked.0 == unasked.1 && (1..=3 * 69).contains(&unasked.0),
        "without tokens: {unasked:?}"
    );
    let tokens = (
        value(&come, Counter::TokenSent)?,
        value(&out, Counter::TokenReceived)?,
    );
    ensure!(
        tokens.0 == tokens.1 && tokens.0 >= 3 * 69 - unasked.0,
        "tokens: {tokens:?}, without: {unasked:?}"
    );
    Ok(())
}
