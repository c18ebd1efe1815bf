// SPDX-License-Identifier: GPL-2.0
//! Idle time earns nothing: neither the group nor a shaped link may send a burst after it.

use anyhow::Result;

use super::bench::{all_times, Bench, Kind};
use super::exact::{check_times, Pace, FRAME, GBIT, SHARE, TOKEN};
use crate::harness::Ctx;

/// How long nothing is sent, in ns after the last packet's time is over: not yet, just, for long.
const PAUSES: [i64; 9] = [-3, -1, 0, 1, 2, 300, 10_000, 3_000_000, 2_000_000_000];

/// After a pause, tokens and frames are spaced from the first one on: two packets never leave
/// together.
pub(super) fn no_burst(ctx: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 12;
    let link = Pace::bits(10 * GBIT);
    let group = Pace::share(10 * GBIT, SHARE);
    let mut bench = Bench::bare()?;
    for (options, kind, pace, wire) in [
        ("link 10gbit", Kind::token(0), group, TOKEN),
        ("", Kind::token(0), group, TOKEN),
        ("link 10gbit order data-first", Kind::token(0), group, TOKEN),
        ("link 10gbit", Kind::data(), link, FRAME),
        ("link 10gbit", Kind::signal(), link, TOKEN),
        (
            "link 10gbit",
            Kind::token(1).v6(),
            Pace::tokens(10 * GBIT, SHARE, 104),
            104,
        ),
    ] {
        bench.replace(&format!(
            "{options} token-limit 64 token-expiry off signal-limit 64"
        ))?;
        let mut sender = bench.sender(kind)?;
        for pause in PAUSES {
            let start = bench.soon();
            bench.wait_until(start)?;
            sender.send(COUNT)?;
            // The exact end of the last packet's time is no whole ns: it counts if the queue was
            // never idle.
            let end = pace.after(COUNT * wire);
            let again = end.saturating_add_signed(pause);
            bench.wait_until(start + again)?;
            sender.send(COUNT)?;
            let arrivals = bench.arrivals_after(pace.after((COUNT + 2) * wire))?;
            let want: Vec<u64> = (0..2 * COUNT)
                .map(|n| {
                    if n < COUNT {
                        pace.after(n * wire)
                    } else if pause <= 0 {
                        // The schedule goes on.
                        pace.after(n * wire)
                    } else {
                        again + pace.after((n - COUNT) * wire)
                    }
                })
                .collect();
            check_times(
                &format!("`{options}`, {kind:?}, pause {pause} ns"),
                start,
                &all_times(&arrivals),
                &want,
            )?;
            // So that rounds do not touch.
            bench.arrivals_after(10_000)?;
        }
    }
    ctx.note(format!(
        "pauses of {PAUSES:?} ns: no packet left early after them"
    ));
    Ok(())
}

/// A shaped link is idle, too, while tokens wait for their time: frames that come then are spaced.
pub(super) fn link_between_tokens(_: &mut Ctx) -> Result<()> {
    // A token every 672 us, a frame every 1230.4 ns.
    let mut bench =
        Bench::port("link 10gbit tokens 1mbit token-limit 64 token-expiry off data-limit 1mb")?;
    let link = Pace::bits(10 * GBIT);
    let mut tokens = bench.sender(Kind::token(0))?;
    let mut data = bench.sender(Kind::data())?;
    let start = bench.soon();
    bench.wait_until(start)?;
    tokens.send(3)?;
    let burst = 300_000;
    bench.wait_until(start + burst)?;
    data.send(6)?;
    // And just before a token's time, so that frames and tokens are on the wire one after the
    // other.
    let late = 672_000 - 100;
    bench.wait_until(start + late)?;
    data.send(3)?;
    let arrivals = bench.arrivals_after(3_000_000)?;
    let mut want = vec![0];
    want.extend((0..6).map(|n| burst + link.after(n * FRAME)));
    // The token's time comes while the first of the three is sent.
    want.extend(
        [0, FRAME, FRAME + TOKEN, 2 * FRAME + TOKEN].map(|before| late + link.after(before)),
    );
    want.push(2 * 672_000);
    check_times("frames between tokens", start, &all_times(&arrivals), &want)
}
