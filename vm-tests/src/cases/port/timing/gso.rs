// SPDX-License-Identifier: GPL-2.0
//! Super-packets leave when the packets that they stand for would.

use anyhow::{ensure, Result};

use super::bench::{all_times, Bench, Kind};
use super::exact::{check_schedule, words, Pace, FRAME, GBIT, TOKEN};
use crate::harness::Ctx;
use crate::traffic::Tapped;

/// The same packets, handed over one by one, as super-packets that the port splits, and as
/// super-packets that it sends whole: each leaves at the same nanosecond, a whole one at that of
/// its first packet.
pub(super) fn alike(ctx: &mut Ctx) -> Result<()> {
    const SEGMENTS: usize = 10;
    /// The last super-packet is shorter.
    const COUNT: u64 = 12 * SEGMENTS as u64 + 7;
    let link = Pace::bits(40 * GBIT);
    let mut bench = Bench::bare()?;
    // Full frames, others, and those of fewer bytes than the least that counts.
    for kind in [
        Kind::data(),
        Kind::data().v6(),
        Kind::data().payload(700),
        Kind::data().payload(30).stream(9),
    ] {
        for options in [
            "",
            "overhead 40 mpu 150",
            "overhead 0 mpu 0",
            "order data-first",
        ] {
            let mut run = |kind: Kind, words: &str| -> Result<(u64, Vec<Tapped>)> {
                bench.replace(&format!("link 40gbit {options} {words} data-limit 10mb"))?;
                let mut sender = bench.sender(kind)?;
                let start = bench.soon();
                bench.wait_until(start)?;
                sender.send(COUNT)?;
                let arrivals = bench.arrivals_after(link.after(2000 * COUNT))?;
                Ok((start, arrivals))
            };
            let offsets = |(start, arrivals): &(u64, Vec<Tapped>)| -> Vec<(u32, i64)> {
                let offset = |one: &Tapped| (one.sequence, one.at as i64 - *start as i64);
                arrivals.iter().map(offset).collect()
            };
            let what = format!("{kind:?}, `{options}`");
            let single = run(kind, "")?;
            ensure!(
                single.1.len() as u64 == COUNT,
                "{what}: {} of {COUNT} came",
                single.1.len()
            );
            let single_times = offsets(&single);
            let split = run(kind.supers(SEGMENTS), "split-gso")?;
            ensure!(
                offsets(&split) == single_times,
                "{what}: split super-packets left at other times than single packets: {:?} instead \
                 of {:?}",
                offsets(&split),
                single_times
            );
            let whole = run(kind.supers(SEGMENTS), "no-split-gso")?;
            let firsts: Vec<(u32, i64)> = single_times.iter().copied().step_by(SEGMENTS).collect();
            ensure!(
                offsets(&whole) == firsts,
                "{what}: whole super-packets left at other times than their first packets: {:?} \
                 instead of {:?}",
                offsets(&whole),
                firsts
            );
            // And these times are right, not only alike.
            let (overhead, mpu) = match options {
                "overhead 40 mpu 150" => (40, 150),
                "overhead 0 mpu 0" => (0, 0),
                _ => (24, 84),
            };
            let wire = (kind.len() + overhead).max(mpu);
            let departures = all_times(&single.1);
            check_schedule(
                &what,
                &departures,
                std::iter::repeat_n(wire, departures.len()),
                link,
            )?;
        }
    }
    ctx.note("single packets, split and whole super-packets leave at the same instants");
    Ok(())
}

/// Tokens, too: a super-packet of tokens is as many tokens, each at its own time.
pub(super) fn tokens(_: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 100;
    let mut runs = Vec::new();
    let mut bench = Bench::bare()?;
    for (segments, words) in [
        (1, ""),
        (10, "split-gso"),
        (64, "split-gso"),
        (1, "no-split-gso"),
    ] {
        bench.replace(&format!(
            "link 100gbit {words} token-limit 200 token-expiry off"
        ))?;
        let mut sender = bench.sender(Kind::token(0).supers(segments))?;
        let start = bench.soon();
        bench.wait_until(start)?;
        sender.send(COUNT)?;
        let arrivals = bench.arrivals_after(1_000_000)?;
        let offsets: Vec<(u32, u64)> = arrivals
            .iter()
            .map(|one| (one.sequence, one.at - start))
            .collect();
        ensure!(
            offsets.len() as u64 == COUNT,
            "{} of {COUNT} tokens came",
            offsets.len()
        );
        runs.push(offsets);
    }
    ensure!(
        runs.iter().all(|run| *run == runs[0]),
        "super-packets of tokens are spaced otherwise than tokens: {runs:?}"
    );
    Ok(())
}

/// A token that comes while a super-packet is being sent waits for the piece in service, and with
/// data first for one more; not longer than `gso-hold`.
pub(super) fn pieces(ctx: &mut Ctx) -> Result<()> {
    const SEGMENTS: u64 = 40;
    const ROUNDS: u64 = 12;
    let mut bench = Bench::bare()?;
    // ns, and how many segments a piece has: as many as fit, evenly.
    for (rate, hold, split, first, each) in [
        (GBIT, 50_000, "split-gso auto", false, 4),
        (GBIT, 50_000, "split-gso auto", true, 2),
        (GBIT, 12_304, "split-gso auto", false, 1),
        (GBIT, 24_608, "split-gso auto", false, 2),
        (10 * GBIT, 50_000, "split-gso auto", false, 40),
        (10 * GBIT, 50_000, "split-gso auto", true, 20),
        (10 * GBIT, 20_000, "split-gso auto", false, 14),
        (10 * GBIT, 20_000, "split-gso auto", true, 8),
        (GBIT, 50_000, "split-gso", false, 1),
        (GBIT, 50_000, "no-split-gso", false, 40),
    ] {
        let order = if first { "data-first" } else { "tokens-first" };
        let options = format!(
            "link {} order {order} {split} gso-hold {hold}ns token-expiry off data-limit 10mb",
            words(rate)
        );
        let link = Pace::bits(rate);
        let all = link.after(SEGMENTS * FRAME);
        let mut longest = 0;
        for kind in [Kind::data(), Kind::data().v6()] {
            bench.replace(&options)?;
            let mut data = bench.sender(kind.supers(SEGMENTS as usize))?;
            let mut tokens = bench.sender(Kind::token(0))?;
            for _ in 0..ROUNDS {
                let start = bench.soon();
                bench.wait_until(start)?;
                data.send(SEGMENTS)?;
                // At any time but when one piece ends and another begins.
                let end_of = |pieces: u64| link.after((pieces * each).min(SEGMENTS) * FRAME);
                let (asked, running) = loop {
                    let asked = ctx.rng.range(1000..=all - 10);
                    let running = (1..).find(|pieces| end_of(*pieces) + 2 >= asked);
                    let running = running.unwrap_or(1);
                    if end_of(running) > asked + 2 {
                        break (asked, running);
                    }
                };
                bench.wait_until(start + asked)?;
                tokens.send(1)?;
                let pieces = SEGMENTS.div_ceil(each);
                let before = (running + u64::from(first)).min(pieces);
                let mut expected = Vec::new();
                for piece in 0..pieces {
                    let token = if piece >= before { TOKEN } else { 0 };
                    let at = link.after((piece * each) * FRAME + token);
                    expected.push((kind.packet().stream(), start + at));
                }
                let left = end_of(before);
                let token = (Kind::token(0).packet().stream(), start + left);
                expected.insert(usize::try_from(before)?, token);
                longest = longest.max(left - asked);
                let came: Vec<(u16, u64)> = bench
                    .arrivals_after(2 * all)?
                    .iter()
                    .map(|one| (one.stream, one.at))
                    .collect();
                ensure!(
                    came == expected,
                    "{kind:?}, `{options}`, a token {asked} ns after {start}: {came:?} instead of \
                     {expected:?}"
                );
            }
        }
        let waits = format!("`{options}`: a token waited for up to {longest} ns");
        let unbounded = split == "no-split-gso";
        ensure!(unbounded == (longest > hold), "{waits}");
        ctx.note(waits);
    }
    Ok(())
}
