// SPDX-License-Identifier: GPL-2.0
//! Messages take the time that the links take, and all arrive.

use std::time::Duration;

use anyhow::{ensure, Context, Result};

use crate::clock;
use crate::harness::Ctx;
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::messages::{places, poisson, Message, Messages, Sizes, Transport};

/// Bytes that fit into one segment of TCP.
const SEGMENT: u64 = 1448;
/// How long all may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Reading the clock takes a nanosecond in virtual time, and a program reads it a few times.
const READING: u64 = 20;

/// Over TCP, both ways on one link.
pub(super) fn over_tcp(ctx: &mut Ctx) -> Result<()> {
    let rate = if clock::is_simulated() {
        10_000_000_000
    } else {
        20_000_000
    };
    let fabric = Plan::pair(Link::new(rate, 5_000)).build()?;
    let pairs = [(0, 1), (1, 0)];
    let mut sockets = Messages::open(Transport::Tcp, &places(&fabric), &pairs, 4)?;
    one_segment(ctx, &fabric, &mut sockets)?;
    let sizes = Sizes {
        name: "some",
        unit: 100,
        points: &[(1.0, 0.0), (30.0, 0.7), (500.0, 1.0)],
    };
    let messages = poisson(&mut ctx.rng, &sizes, &pairs, 150, 0.5 * rate as f64);
    let start = clock::monotonic() + 10_000_000;
    let done = sockets.run(&messages, start, PATIENCE)?;
    ensure!(done.len() == messages.len(), "{} of 150", done.len());
    for done in done {
        let took = done
            .took
            .with_context(|| format!("{:?} did not arrive", done.message))?;
        // Payload alone at the link's rate.
        let least = done.message.bytes * 8_000_000_000 / rate;
        ensure!(
            took >= least,
            "{:?} took {took} ns, less than the {least} of its bytes",
            done.message
        );
    }
    Ok(())
}

/// A message of one packet takes as long as that.
fn one_segment(ctx: &Ctx, fabric: &Fabric, sockets: &mut Messages) -> Result<()> {
    let start = clock::monotonic() + 50_000_000;
    let messages = [
        Message::new(0, 1, SEGMENT),
        Message::new(1, 0, SEGMENT).at(1_000_000),
    ];
    let done = sockets.run(&messages, start, PATIENCE)?;
    for done in done {
        let message = done.message;
        let took = done.took.context("one packet did not arrive")?;
        let least = fabric.latency(message.from, message.to, SEGMENT as usize + 66)?;
        ctx.note(format!("one packet took {took} ns, the link {least}"));
        ensure!(took >= least, "{took} ns is less than the link takes");
        ensure!(
            !clock::is_simulated() || took <= least + READING,
            "{took} ns is more than the {least} of the link"
        );
    }
    Ok(())
}
