// SPDX-License-Identifier: GPL-2.0
//! A token expires at its exact instant, and an expired one costs nothing.

use anyhow::{ensure, Result};
use turnstile_core::port::uapi::{band_stat, option, EXPIRY_OFF};

use super::bench::{all_times, Bench, Kind, TOKEN0};
use super::exact::{check_times, Pace, FRAME, GBIT, MBIT, SHARE, TOKEN};
use crate::harness::Ctx;
use crate::raw_netlink::attribute_u64;

/// ns between tokens at `tokens 84mbit`.
const INTERVAL: u64 = 8000;

/// Tokens that wait for exactly the expiry are sent, those that wait for one nanosecond more are
/// not.
pub(super) fn instant(ctx: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 12;
    let mut bench = Bench::bare()?;
    for (words, pace) in [
        ("link 10gbit tokens 84mbit", Pace::bits(84 * MBIT)),
        ("tokens 84mbit order data-first", Pace::bits(84 * MBIT)),
        // Not a whole number of ns: a token leaves in the first one after its time.
        ("link 10gbit", Pace::share(10 * GBIT, SHARE)),
        ("link 400gbit", Pace::share(400 * GBIT, SHARE)),
    ] {
        for last in [1, 2, 7] {
            let wait = pace.after(last * TOKEN);
            for (expiry, sent) in [(wait - 1, last), (wait, last + 1), (wait + 1, last + 1)] {
                bench.replace(&format!("{words} token-limit 20 token-expiry {expiry}ns"))?;
                for v6 in [false, true] {
                    // The same length on the wire, so that the same tokens are sent.
                    let kind = Kind::token(2);
                    let kind = if v6 { kind.v6() } else { kind };
                    if v6 {
                        bench.change(&wire_84_for_v6())?;
                    }
                    let before = bench.stats(TOKEN0 + 2)?.app(band_stat::EXPIRED);
                    let mut sender = bench.sender(kind)?;
                    let start = bench.soon();
                    bench.wait_until(start)?;
                    sender.send(COUNT)?;
                    let arrivals = bench.arrivals_after(pace.after(COUNT * TOKEN))?;
                    let want: Vec<u64> = (0..sent).map(|n| pace.after(n * TOKEN)).collect();
                    let what = format!("{words}, expiry {expiry} ns");
                    check_times(&what, start, &all_times(&arrivals), &want)?;
                    let expired = bench.stats(TOKEN0 + 2)?.app(band_stat::EXPIRED) - before;
                    ensure!(
                        expired == COUNT - sent,
                        "{what}: {expired} expired, not {}",
                        COUNT - sent
                    );
                }
            }
        }
        ctx.note(format!(
            "`{words}`: a token is sent after exactly its expiry, and dropped 1 ns later"
        ));
    }
    Ok(())
}

/// `overhead 4`: 80 bytes of an IPv6 token are 84 on the wire.
fn wire_84_for_v6() -> Vec<u8> {
    crate::raw_netlink::attribute_u32(option::OVERHEAD, 4)
}

/// Expired tokens take none of the shaper's time: the next one that is not leaves when the first of
/// them would have.
pub(super) fn is_free(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::port("link 10gbit tokens 84mbit token-limit 64 token-expiry 20us")?;
    let mut senders = [0, 1, 3, 5]
        .into_iter()
        .map(|priority| bench.sender(Kind::token(priority)))
        .collect::<Result<Vec<_>>>()?;
    let start = bench.soon();
    bench.wait_until(start)?;
    // Waits of 0, 8 and 16 us; 13 more would leave after 24 us and later.
    senders[0].send(8)?;
    senders[1].send(8)?;
    bench.wait_until(start + 19_000)?;
    senders[2].send(1)?;
    // With the others gone, this one is next.
    bench.wait_until(start + 25_000)?;
    senders[3].send(1)?;
    let arrivals = bench.arrivals_after(100_000)?;
    check_times(
        "a token behind 13 that expired",
        start,
        &all_times(&arrivals),
        &[0, INTERVAL, 2 * INTERVAL, 3 * INTERVAL, 4 * INTERVAL],
    )?;
    ensure!(
        arrivals[3].stream == 0x13 && arrivals[4].stream == 0x15,
        "not these tokens came: {arrivals:?}"
    );
    // All expire, and the group is idle from the instant in which they were dropped.
    let start = bench.soon();
    bench.wait_until(start)?;
    senders[0].send(8)?;
    bench.wait_until(start + 24_001)?;
    senders[1].send(2)?;
    let arrivals = bench.arrivals_after(100_000)?;
    check_times(
        "tokens after all others have expired",
        start,
        &all_times(&arrivals),
        &[0, INTERVAL, 2 * INTERVAL, 24_001, 24_001 + INTERVAL],
    )
}

/// Tokens that have expired make room for a new one in a full queue: not at the instant of their
/// expiry, but a nanosecond later.
pub(super) fn makes_room(_: &mut Ctx) -> Result<()> {
    const EXPIRY: u64 = 50_000;
    let mut bench = Bench::bare()?;
    for (late, refused) in [(0, 1), (1, 0)] {
        // An interval of 672 us.
        bench.replace("link 10gbit tokens 1mbit token-limit 3 token-expiry 50us")?;
        let mut sender = bench.sender(Kind::token(4))?;
        let start = bench.soon();
        bench.wait_until(start)?;
        sender.send(4)?;
        bench.wait_until(start + EXPIRY + late)?;
        sender.send(1)?;
        let stats = bench.stats(TOKEN0 + 4)?;
        let came = [
            stats.app(band_stat::OVER_LIMIT),
            stats.app(band_stat::EXPIRED),
            stats.app(band_stat::QUEUED),
            stats.packets,
        ];
        let want = [refused, 3 * (1 - refused), 3 * refused + 1 - refused, 1];
        ensure!(
            came == want,
            "{late} ns after the expiry: over limit, expired, queued, sent {came:?} instead of \
             {want:?}"
        );
        bench.arrivals_after(10_000_000)?;
    }
    Ok(())
}

/// `auto` is eight intervals, or eight full frames with their tokens if that is longer, rounded up.
pub(super) fn auto(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::bare()?;
    for (words, link, ppb) in [
        ("link 1mbit", MBIT, SHARE),
        ("link 10gbit", 10 * GBIT, SHARE),
        ("link 400gbit", 400 * GBIT, SHARE),
        ("link 10gbit tokens 1%", 10 * GBIT, 10_000_000),
        ("link 10gbit tokens 40%", 10 * GBIT, 400_000_000),
        ("", 10 * GBIT, SHARE),
    ] {
        let pace = Pace::share(link, ppb);
        let expiry = pace
            .after(8 * TOKEN)
            .max(Pace::bits(link).after(8 * (FRAME + TOKEN)));
        let want: Vec<u64> = (0..)
            .map(|n| pace.after(n * TOKEN))
            .take_while(|wait| *wait <= expiry)
            .collect();
        bench.replace(&format!("{words} token-limit 200"))?;
        let mut sender = bench.sender(Kind::token(0))?;
        let start = bench.soon();
        bench.wait_until(start)?;
        sender.send(200)?;
        let arrivals = bench.arrivals_after(4 * expiry)?;
        ctx.note(format!(
            "`{words}`: of 200 tokens at once {} are sent within {expiry} ns",
            arrivals.len()
        ));
        check_times(&format!("`{words}`"), start, &all_times(&arrivals), &want)?;
        ensure!(
            bench.stats(TOKEN0)?.app(band_stat::QUEUED) == 0,
            "`{words}`: tokens are still queued"
        );
    }
    Ok(())
}

/// A change of the expiry counts for what is queued.
pub(super) fn changes(_: &mut Ctx) -> Result<()> {
    let expiry = |ns| attribute_u64(option::TOKEN_EXPIRY, ns);
    let mut bench = Bench::port("link 10gbit tokens 84mbit token-limit 64 token-expiry off")?;
    let mut sender = bench.sender(Kind::token(0))?;
    for (first, then, want) in [
        // From never to just enough for the fourth token, and to a nanosecond less.
        (EXPIRY_OFF, 3 * INTERVAL, 4),
        (EXPIRY_OFF, 3 * INTERVAL - 1, 3),
        (5 * INTERVAL, 3 * INTERVAL, 4),
        // And longer: none is lost that the old one would have dropped later.
        (3 * INTERVAL, 6 * INTERVAL, 7),
        (3 * INTERVAL, EXPIRY_OFF, 10),
    ] {
        bench.change(&expiry(first))?;
        let start = bench.soon();
        bench.wait_until(start)?;
        sender.send(10)?;
        bench.wait_until(start + 2 * INTERVAL + INTERVAL / 2)?;
        bench.change(&expiry(then))?;
        let arrivals = bench.arrivals_after(20 * INTERVAL)?;
        let want: Vec<u64> = (0..want).map(|n| n * INTERVAL).collect();
        check_times(
            &format!("expiry {first} ns, then {then} ns (0: never)"),
            start,
            &all_times(&arrivals),
            &want,
        )?;
    }
    Ok(())
}
