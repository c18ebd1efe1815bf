// SPDX-License-Identifier: GPL-2.0
//! The share of signals, to the nanosecond.

use anyhow::{ensure, Result};
use turnstile_core::port::uapi::port_stat;

use super::bench::{all_times, Bench, Kind, PORT};
use super::exact::{check_times, Pace, FRAME, GBIT, TOKEN};
use crate::harness::Ctx;
use crate::traffic::{Packet, Tapped};

/// What is bought at once, and its time at 5 % of 10 Gbit/s.
const CHUNK: u64 = 4096;
const CHUNK_NS: u64 = CHUNK * 16;
/// Signals of 84 bytes in 64 KiB; 16 bytes are left.
const AT_ONCE: u64 = 780;

/// Where signals stay below their share, nothing leaves at another time than without one: at
/// random moments, in bursts, in each order, shaped or not.
pub(super) fn below_the_share(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::bare()?;
    for options in ["link 10gbit", "link 10gbit order data-first", ""] {
        // The same load twice.
        let load: Vec<(u64, u64, u64, u64)> = (0..300)
            .map(|_| {
                let mut below = |most| ctx.rng.range(0..=most);
                (1000 + below(100_000), below(30), below(4), below(3))
            })
            .collect();
        let mut came = Vec::new();
        for share in ["", "signal-share off", "signal-share 100%"] {
            bench.replace(&format!(
                "{options} token-expiry off token-limit 1024 {share}"
            ))?;
            let mut signals = bench.sender(Kind::signal())?;
            let mut data = bench.sender(Kind::data())?;
            let mut tokens = bench.sender(Kind::token(1).v6())?;
            let start = bench.soon();
            let mut at = start;
            for (sleep, some_signals, some_data, some_tokens) in &load {
                at += sleep;
                bench.wait_until(at)?;
                tokens.send(*some_tokens)?;
                data.send(*some_data)?;
                signals.send(*some_signals)?;
            }
            let arrivals = bench.arrivals_after(10_000_000)?;
            let seen = |one: &Tapped| (one.at - start, one.stream, one.sequence);
            came.push(arrivals.iter().map(seen).collect::<Vec<_>>());
        }
        let sent: u64 = load.iter().map(|(_, a, b, c)| a + b + c).sum();
        ensure!(
            came[0].len() as u64 == sent && came[0] == came[1] && came[0] == came[2],
            "`{options}`: of {sent} packets {} came with a share, {} without, {} with all, or not \
             at the same times",
            came[0].len(),
            came[1].len(),
            came[2].len()
        );
    }
    Ok(())
}

/// Of a flood 64 KiB are signals, and what is beyond is data that goes before other data. Then
/// there is one chunk whenever its time has come, and not a nanosecond before.
pub(super) fn beyond_the_share(_: &mut Ctx) -> Result<()> {
    const FLOOD: u64 = 1000;
    const FRAMES: u64 = 3;
    let link = Pace::bits(10 * GBIT);
    for order in ["tokens-first", "data-first"] {
        let mut bench = Bench::port(&format!("link 10gbit order {order} data-limit 100mb"))?;
        let mut signals = bench.sender(Kind::signal())?;
        let mut data = bench.sender(Kind::data())?;
        let start = bench.soon();
        bench.wait_until(start)?;
        data.send(FRAMES)?;
        signals.send(FLOOD)?;
        // Behind them all, so that who comes later has somebody to overtake.
        data.send(100)?;
        // The first chunk's time, and the one before.
        bench.wait_until(start + CHUNK_NS - 1)?;
        signals.send(1)?;
        bench.wait_until(start + CHUNK_NS)?;
        signals.send(60)?;
        let arrivals = bench.arrivals_after(10_000_000)?;
        let streams: Vec<u16> = arrivals.iter().map(|one| one.stream).collect();
        let mut want = vec![Packet::Data.stream()];
        let put = |want: &mut Vec<u16>, packet: Packet, count: u64| {
            want.extend((0..count).map(|_| packet.stream()));
        };
        // Excess goes before other data, too.
        put(&mut want, Packet::Signal, FLOOD);
        // Until then frames leave, up to the one that is on the wire; 16 and 4096 bytes are 48
        // signals and 80 bytes, and the others of the 61 are excess.
        let before = FRAME + TOKEN * FLOOD;
        let frames = (0..).take_while(|n| link.after(before + n * FRAME) < CHUNK_NS);
        let frames = frames.count() as u64;
        put(&mut want, Packet::Data, frames);
        put(&mut want, Packet::Signal, 61);
        put(&mut want, Packet::Data, FRAMES - 1 + 100 - frames);
        let wrong = streams
            .iter()
            .zip(&want)
            .position(|(came, want)| came != want);
        ensure!(
            streams == want,
            "{order}: {} of {} packets, the first that is wrong is {wrong:?}",
            streams.len(),
            want.len()
        );
        let excess = bench.stats(PORT)?.app(port_stat::SIGNAL_EXCESS);
        let expected = FLOOD - AT_ONCE + 1 + 60 - 48;
        ensure!(
            excess == expected,
            "{order}: {excess} of {expected} are excess"
        );
        // The link was never idle.
        let mut bytes = 0;
        let times: Vec<u64> = want
            .iter()
            .map(|stream| {
                let at = link.after(bytes);
                bytes += if *stream == Packet::Data.stream() {
                    FRAME
                } else {
                    TOKEN
                };
                at
            })
            .collect();
        check_times(order, start, &all_times(&arrivals), &times)?;
    }
    Ok(())
}
