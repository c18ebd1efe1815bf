// SPDX-License-Identifier: GPL-2.0
//! Tokens go only to who answers them: nearly one for each packet that is asked for, on all
//! processors and on one.

use std::net::SocketAddr;
use std::thread;

use anyhow::{anyhow, ensure, Context, Result};
use nix::sched::{sched_setaffinity, CpuSet};
use nix::unistd::Pid;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi::{command, stat, FAMILY};
use turnstile_socket::SendOptions;

use super::support::{addresses, pair, receiver, sender, PATIENCE};
use crate::clock;
use crate::harness::{Case, Ctx};
use crate::raw_netlink::Generic;
use crate::topology::Net;

pub(in crate::cases) const CASES: &[Case] =
    &[Case::new("transport/tokens/for-who-answers", for_who_answers).timeout_s(180)];

/// Bytes of a message, and how many there are.
const LOADS: [(usize, usize); 3] = [(64 << 10, 64), (1 << 20, 8), (8 << 20, 2)];
/// Tokens in vain, for each packet of data.
const VAIN: f64 = 0.05;
/// The part of the packets that may come twice.
const TWICE: f64 = 0.02;

fn for_who_answers(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    for one in [false, true] {
        for there in addresses(&net.hosts[1]) {
            for (len, count) in LOADS {
                let on = if one {
                    "one processor"
                } else {
                    "all processors"
                };
                let name = format!("{count} messages of {len} bytes to {}, {on}", there.ip());
                let [tokens, asked, unasked, twice] =
                    tokens(&net, there, (len, count), one).context(name.clone())?;
                let all = (asked + unasked) as f64;
                let vain = tokens.saturating_sub(asked) as f64 / all;
                let twice = twice as f64 / all;
                let what = format!(
                    "{name}: {tokens} tokens for {asked} packets, {unasked} without: {vain:.3} of \
                     all in vain, {twice:.3} came twice"
                );
                ctx.note(what.clone());
                // Where time goes by itself, an emulated processor may stand still for any number
                // of round trips, as the host's do other things, too: that is noted. The model has
                // bounds for it (`starved`).
                let bounded = clock::is_simulated();
                ensure!(!bounded || vain <= VAIN && twice <= TWICE, "{what}");
            }
        }
    }
    Ok(())
}

/// Tokens that were sent, packets that came for one and without, and packets that came twice, of
/// messages one after the other.
fn tokens(
    net: &Net,
    there: SocketAddr,
    (len, count): (usize, usize),
    one: bool,
) -> Result<[u64; 4]> {
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let mut family = Generic::open(&net.hosts[1].ns, FAMILY)?;
    let mut counts = || -> Result<[u64; 4]> {
        let reply = family.read(command::STATS_GET)?;
        let count = |counter: Counter| {
            reply
                .number(stat::FIRST + counter as u16)
                .with_context(|| format!("no counter {}", counter.name()))
        };
        Ok([
            count(Counter::TokenSent)?,
            count(Counter::DataReceived)?,
            count(Counter::UnscheduledReceived)?,
            count(Counter::DataDuplicate)?,
        ])
    };
    let before = counts()?;
    thread::scope(|scope| {
        let reads = scope.spawn(|| -> Result<()> {
            if one {
                stay()?;
            }
            for _ in 0..count {
                ensure!(to.recv_message(len)?.data.len() == len, "not whole");
            }
            Ok(())
        });
        if one {
            // In a thread of its own, which ends: the next load is on all processors again.
            let writes = scope.spawn(|| stay().and_then(|()| write(&from, there, len, count)));
            writes
                .join()
                .map_err(|_| anyhow!("the writer panicked"))??;
        } else {
            write(&from, there, len, count)?;
        }
        reads.join().map_err(|_| anyhow!("the reader panicked"))?
    })?;
    let after = counts()?;
    Ok([0, 1, 2, 3].map(|it| after[it] - before[it]))
}

fn write(
    from: &turnstile_socket::Socket,
    there: SocketAddr,
    len: usize,
    count: usize,
) -> Result<()> {
    let bytes = vec![7; len];
    for _ in 0..count {
        from.send_to(&bytes, there, &SendOptions::default())?;
    }
    for _ in 0..count {
        let done = from.wait_completion(Some(PATIENCE))?;
        done.context("not delivered")?.outcome?;
    }
    Ok(())
}

/// The calling thread runs on the first processor from now on, and so does what it sends.
fn stay() -> Result<()> {
    let mut set = CpuSet::new();
    set.set(0)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}
