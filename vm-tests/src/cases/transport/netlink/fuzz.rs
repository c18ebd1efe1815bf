// SPDX-License-Identifier: GPL-2.0
//! Mutations of a good request: the kernel may accept or refuse, but never half.

use anyhow::{ensure, Context, Result};
use turnstile_core::transport::uapi::{command, config, FAMILY};

use super::Bench;
use crate::harness::Ctx;
use crate::raw_netlink::{attribute, GenericRequest, NESTED};
use crate::rng::Rng;

/// How many messages are sent.
const ROUNDS: u32 = 6000;
/// How many of them may be requests of any kind.
const WILD: u32 = 3000;

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new()?;
    let good = attributes(&mut bench)?;
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let message = mutated(&mut ctx.rng, &good);
        let before = bench.config()?;
        let answer = bench.set(&message)?;
        let after = bench.config()?;
        let explain = || {
            format!(
                "seed {}, round {round}: {answer:?} to {message:02x?}",
                ctx.seed
            )
        };
        if answer.errno != 0 {
            refused += 1;
            ensure!(
                [libc::EINVAL, libc::ENOKEY].contains(&answer.errno)
                    && answer.text.starts_with(FAMILY),
                "refused without a word: {}",
                explain()
            );
            ensure!(after == before, "the refusal left a trace: {}", explain());
            continue;
        }
        accepted += 1;
        // Whatever was accepted must be something that can be asked for.
        let shown = attributes(&mut bench)?;
        bench
            .set(&shown)?
            .success()
            .with_context(|| format!("what is shown is not accepted: {}", explain()))?;
        ensure!(
            bench.config()? == after,
            "what is shown makes another configuration: {}",
            explain()
        );
    }
    ctx.note(format!("{accepted} accepted, {refused} refused"));
    ensure!(
        accepted > ROUNDS / 50 && refused > ROUNDS / 4,
        "{accepted} accepted and {refused} refused: the mutations are too tame or too wild"
    );
    wild(ctx, &mut bench, &good)?;
    // And after all of it the family still does what it is told.
    bench
        .set(&good)?
        .success()
        .context("the first configuration")?;
    ensure!(
        attributes(&mut bench)? == good,
        "the first configuration does not come back"
    );
    Ok(())
}

/// Any command, flags, version: nothing that a request can be must stop the family from answering
/// the next one.
fn wild(ctx: &mut Ctx, bench: &mut Bench, good: &[u8]) -> Result<()> {
    for _ in 0..WILD {
        let rng = &mut ctx.rng;
        let attributes = if rng.one_in(3) {
            Vec::new()
        } else {
            mutated(rng, good)
        };
        let mut request = GenericRequest::new(rng.range(0..=8) as u8, &attributes);
        request.version = rng.range(0..=255) as u8;
        if rng.one_in(4) {
            request.reserved = rng.range(0..=0xffff) as u16;
        }
        // Acknowledged in any case, so that there is an end to what comes.
        request.flags |= match rng.range(0..=3) {
            0 => rng.range(0..=0xffff) as u16,
            1 => 0x300,
            _ => 0,
        };
        bench.request(&request)?;
    }
    bench.family.read(command::TRANSPORT_GET)?;
    Ok(())
}

/// The configuration as attributes.
fn attributes(bench: &mut Bench) -> Result<Vec<u8>> {
    let each = bench.config()?;
    Ok(each
        .iter()
        .flat_map(|(number, content)| attribute(*number, content))
        .collect())
}

/// A good request with a few things wrong.
fn mutated(rng: &mut Rng, good: &[u8]) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..rng.range(1..=3) {
        mutate(rng, &mut bytes);
    }
    bytes.truncate(4000);
    bytes
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        bytes.resize(rng.index(9), 0);
        rng.fill(bytes);
        return;
    }
    let at = rng.index(bytes.len());
    // Attributes start at multiples of four.
    let start = at & !3;
    match rng.range(0..=7) {
        0 => bytes[at] ^= 1 << rng.range(0..=7),
        1 => bytes[at] = rng.range(0..=255) as u8,
        2 => bytes.truncate(at),
        3 => {
            bytes.drain(start..(start + 4).min(bytes.len()));
        }
        4 => {
            let mut noise = vec![0; rng.index(40)];
            rng.fill(&mut noise);
            bytes.splice(start..start, noise);
        }
        // A part of it again, somewhere else.
        5 => {
            let end = (start + 4 + rng.index(24)).min(bytes.len());
            let part = bytes[start..end].to_vec();
            let to = rng.index(bytes.len()) & !3;
            bytes.splice(to..to, part);
        }
        // A whole attribute with any number and any length.
        6 => {
            let mut content = vec![0; *rng.pick(&[0, 1, 3, 4, 5, 8, 9, 64])];
            if !rng.one_in(3) {
                rng.fill(&mut content);
            }
            let number = rng.range(0..=u64::from(config::MAX) + 2) as u16;
            let flags = *rng.pick(&[0, 0, 0, NESTED, 0x4000]);
            bytes.splice(start..start, attribute(number | flags, &content));
        }
        // One attribute only, with a small value.
        _ => {
            let number = rng.range(1..=u64::from(config::MAX)) as u16;
            let wide = [
                config::LINK_RATE64,
                config::UPDATE_PERIOD,
                config::BASE_RTT,
                config::TOKEN_EXPIRY,
                config::TIMEOUT,
                config::RTO,
            ];
            let bits = rng.range(0..=33);
            let value = rng.range(0..=1 << bits);
            *bytes = if wide.contains(&number) {
                attribute(number, &value.to_ne_bytes())
            } else {
                attribute(number, &(value as u32).to_ne_bytes())
            };
        }
    }
}
