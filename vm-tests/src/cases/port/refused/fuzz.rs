// SPDX-License-Identifier: GPL-2.0
//! Mutations of a good request: the kernel may accept or refuse, but never half.

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::option;

use super::{Bench, PORT};
use crate::harness::Ctx;
use crate::raw_netlink::{attribute, turnstile, Request, NESTED, TCA_KIND, TCA_OPTIONS};
use crate::rng::Rng;

/// How many messages are sent.
const ROUNDS: u32 = 6000;

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new("priorities 8 dscp EF=token7,CS6=signal")?;
    let good = bench.port.get(PORT)?.options;
    ensure!(
        good.len() > 16 * 8,
        "the dump lacks options: {} bytes",
        good.len()
    );
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let message = mutated(&mut ctx.rng, &good);
        let before = bench.port.get(PORT)?.shape();
        let answer = bench
            .port
            .request(Request::ChangeQdisc, 0, PORT, &message)?;
        let after = bench.port.get(PORT)?.shape();
        let explain = || {
            format!(
                "seed {}, round {round}: {answer:?} to {message:02x?}",
                ctx.seed
            )
        };
        if answer.errno != 0 {
            refused += 1;
            ensure!(
                answer.text.starts_with("turnstile: "),
                "refused without a word of the port's: {}",
                explain()
            );
            ensure!(after == before, "the refusal left a trace: {}", explain());
            continue;
        }
        accepted += 1;
        // Whatever was accepted must be something that can be asked for.
        bench
            .port
            .request(Request::ChangeQdisc, 0, PORT, &turnstile(&after.options))?
            .success()
            .with_context(|| format!("what is dumped is not accepted: {}", explain()))?;
        let again = bench.port.get(PORT)?.shape();
        ensure!(
            again == after,
            "what is dumped makes another port: {}",
            explain()
        );
    }
    ctx.note(format!("{accepted} accepted, {refused} refused"));
    ensure!(
        accepted > ROUNDS / 50 && refused > ROUNDS / 4,
        "{accepted} accepted and {refused} refused: the mutations are too tame or too wild"
    );
    // And after all of it the port still does what it is told.
    bench
        .port
        .change_port(PORT, &good)?
        .success()
        .context("the first configuration")?;
    ensure!(
        bench.port.get(PORT)?.options == good,
        "the first configuration does not come back"
    );
    Ok(())
}

/// A good request with a few things wrong inside `TCA_OPTIONS`. The header of the nest stays, or
/// the kernel would read it as another request.
fn mutated(rng: &mut Rng, good: &[u8]) -> Vec<u8> {
    let mut options = good.to_vec();
    for _ in 0..rng.range(1..=3) {
        mutate(rng, &mut options);
    }
    options.truncate(4000);
    let kind = attribute(TCA_KIND, b"turnstile\0");
    [kind, attribute(TCA_OPTIONS | NESTED, &options)].concat()
}

fn mutate(rng: &mut Rng, options: &mut Vec<u8>) {
    if options.is_empty() {
        options.resize(rng.index(9), 0);
        rng.fill(options);
        return;
    }
    let at = rng.index(options.len());
    // Attributes start at multiples of four.
    let start = at & !3;
    match rng.range(0..=8) {
        0 => options[at] ^= 1 << rng.range(0..=7),
        1 => options[at] = rng.range(0..=255) as u8,
        2 => options.truncate(at),
        3 => {
            options.drain(start..(start + 4).min(options.len()));
        }
        4 => {
            let mut noise = vec![0; rng.index(40)];
            rng.fill(&mut noise);
            options.splice(start..start, noise);
        }
        // A part of it again, somewhere else.
        5 => {
            let end = (start + 4 + rng.index(24)).min(options.len());
            let part = options[start..end].to_vec();
            let to = rng.index(options.len()) & !3;
            options.splice(to..to, part);
        }
        // A whole attribute with any number and any length.
        6 => {
            let mut content = vec![0; *rng.pick(&[0, 1, 3, 4, 5, 8, 9, 64, 65])];
            if !rng.one_in(3) {
                rng.fill(&mut content);
            }
            let number = rng.range(0..=u64::from(option::MAX) + 2) as u16;
            let flags = *rng.pick(&[0, 0, 0, NESTED, 0x4000]);
            options.splice(start..start, attribute(number | flags, &content));
        }
        // One attribute only, with a small value.
        7 => {
            let number = rng.range(1..=u64::from(option::MAX)) as u16;
            let len = if matches!(
                number,
                option::LINK_RATE64
                    | option::TOKEN_RATE64
                    | option::TOKEN_EXPIRY
                    | option::PHANTOM_RATE64
                    | option::REN_PERIOD
                    | option::JITTER
                    | option::PFC_WATCHDOG
                    | option::TCD_MAX_ON
                    | option::PFC_DELAY
                    | option::GSO_HOLD
            ) {
                8
            } else {
                4
            };
            let value = rng.range(0..=2000).to_ne_bytes();
            *options = attribute(number, &value[..len]);
        }
        // Another order.
        _ => options.rotate_left(start),
    }
}
