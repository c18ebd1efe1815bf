// SPDX-License-Identifier: GPL-2.0
//! A long stream of tokens is spaced as the configuration says, at every link speed.

use anyhow::{ensure, Result};
use serde::Serialize;

use super::bench::{all_times, times, Bench, Kind};
use super::exact::{check_schedule, words, Pace, Spacing, FRAME, GBIT, MBIT, SHARE, TOKEN};
use crate::harness::Ctx;

/// What a link's tokens came to, for the table.
#[derive(Serialize)]
struct Row {
    link_bits_per_s: u64,
    tokens: u64,
    ideal_gap_ns: f64,
    shortest_gap_ns: u64,
    longest_gap_ns: u64,
    largest_deviation_ns: f64,
    mean_gap_ns: f64,
    error_of_mean: f64,
}

impl Row {
    fn new(link: u64, spacing: &Spacing) -> Self {
        Self {
            link_bits_per_s: link,
            tokens: spacing.gaps + 1,
            ideal_gap_ns: spacing.ideal,
            shortest_gap_ns: spacing.min,
            longest_gap_ns: spacing.max,
            largest_deviation_ns: spacing.deviation(),
            mean_gap_ns: spacing.mean,
            error_of_mean: spacing.error(),
        }
    }

    fn line(&self) -> String {
        format!(
            "link {}: {} tokens, ideal gap {} ns, gaps {}..{}, largest deviation {:.2} ns, error \
             of the mean {:.1e}",
            words(self.link_bits_per_s),
            self.tokens,
            self.ideal_gap_ns,
            self.shortest_gap_ns,
            self.longest_gap_ns,
            self.largest_deviation_ns,
            self.error_of_mean
        )
    }
}

/// Sends `count` tokens so that there are always some queued, and gives their departures.
///
/// A refill is one instant, and every 896 tokens; the queue holds 1024.
fn stream(bench: &mut Bench, kind: Kind, count: u64, pace: Pace) -> Result<Vec<u64>> {
    const REFILL: u64 = 896;
    const RESERVE: u64 = 64;
    let mut sender = bench.sender(kind)?;
    let start = bench.soon();
    let mut departures = Vec::with_capacity(usize::try_from(count)?);
    bench.wait_until(start)?;
    while sender.sent() < count {
        sender.send(REFILL.min(count - sender.sent()))?;
        // Half a gap beside a departure, where no departure can be doubtful.
        let until = start + pace.after((sender.sent() - RESERVE.min(sender.sent())) * kind.wire())
            - pace.after(kind.wire()) / 2;
        bench.wait_until(until)?;
        departures.extend(times(&bench.arrivals()?, kind)?);
    }
    departures.extend(times(
        &bench.arrivals_after(pace.after((RESERVE + 1) * kind.wire()))?,
        kind,
    )?);
    ensure!(
        departures.len() as u64 == count,
        "{} of {count} tokens came",
        departures.len()
    );
    ensure!(
        departures[0] == start,
        "the first token left {} ns late",
        departures[0] as i64 - start as i64
    );
    Ok(departures)
}

/// Every gap is within 1 ns of the ideal, the mean within 1e-6 of it, and no token is early or late
/// by a nanosecond at the end of a million.
pub(super) fn tokens(ctx: &mut Ctx) -> Result<()> {
    let count = super::scaled(1_000_000);
    let mut rows = Vec::new();
    let mut bench = Bench::bare()?;
    for (link, count) in [
        (MBIT, count / 100),
        (GBIT, count),
        (10 * GBIT, count),
        (25 * GBIT, count),
        (40 * GBIT, count),
        (100 * GBIT, count),
        (200 * GBIT, count),
        (400 * GBIT, count),
    ] {
        let what = format!("link {}", words(link));
        bench.replace(&format!("{what} token-limit 1024 token-expiry off"))?;
        let pace = Pace::share(link, SHARE);
        let departures = stream(&mut bench, Kind::token(0).supers(64), count, pace)?;
        // The goal is 84 bytes in the time of 1622; the port keeps the share in billionths.
        let ideal = Pace::bits(link).ns(TOKEN + FRAME);
        let spacing = Spacing::of(&departures, ideal)?;
        let row = Row::new(link, &spacing);
        ctx.note(row.line());
        // Fewer than a million may be off by the nanosecond that the last one is rounded up by.
        spacing.check(&what, (1.0 / ideal / spacing.gaps as f64).max(1e-6))?;
        let lens = std::iter::repeat_n(TOKEN, departures.len());
        check_schedule(&what, &departures, lens, pace)?;
        rows.push(row);
    }
    ctx.file("timing-spacing.json", &serde_json::to_string_pretty(&rows)?);
    Ok(())
}

/// The same for other shares and rates, other wire lengths, IPv6, both orders and an unshaped link.
pub(super) fn ways(ctx: &mut Ctx) -> Result<()> {
    let token = Kind::token(0);
    let rows: [(&str, Kind, Pace, u64); 13] = [
        (
            "link 10gbit tokens 1%",
            token,
            Pace::share(10 * GBIT, 10_000_000),
            84,
        ),
        (
            "link 10gbit tokens 50%",
            token,
            Pace::share(10 * GBIT, 500_000_000),
            84,
        ),
        (
            "link 10gbit tokens 33.3333333%",
            token,
            Pace::share(10 * GBIT, 333_333_333),
            84,
        ),
        (
            "link 10gbit tokens 77777777bit",
            token,
            Pace::bits(77_777_776),
            84,
        ),
        (
            "link 40gbit order data-first",
            token,
            Pace::share(40 * GBIT, SHARE),
            84,
        ),
        // At the speed that the device reports.
        ("", token, Pace::share(10 * GBIT, SHARE), 84),
        ("order data-first", token, Pace::share(10 * GBIT, SHARE), 84),
        (
            "link 100gbit",
            token.v6(),
            Pace::tokens(100 * GBIT, SHARE, 104),
            104,
        ),
        (
            "link 10gbit overhead 0 mpu 0",
            token,
            Pace::share(10 * GBIT, SHARE),
            60,
        ),
        (
            "link 10gbit overhead 256",
            token,
            Pace::tokens(10 * GBIT, SHARE, 316),
            316,
        ),
        (
            "link 10gbit mpu 256",
            token,
            Pace::tokens(10 * GBIT, SHARE, 256),
            256,
        ),
        (
            "link 10gbit",
            token.payload(100),
            Pace::tokens(10 * GBIT, SHARE, 166),
            166,
        ),
        // A rate is one of all bytes.
        (
            "link 10gbit tokens 518mbit",
            token.v6(),
            Pace::bits(518_000_000),
            104,
        ),
    ];
    let mut bench = Bench::bare()?;
    for (options, kind, pace, wire) in rows {
        bench.replace(&format!("{options} token-limit 1024 token-expiry off"))?;
        let mut sender = bench.sender(kind)?;
        let start = bench.soon();
        bench.wait_until(start)?;
        sender.send(1000)?;
        let arrivals = bench.arrivals_after(pace.after(wire * 1000))?;
        let departures = all_times(&arrivals);
        ensure!(
            departures.len() == 1000 && departures[0] == start,
            "{options}: {} of 1000 tokens came",
            departures.len()
        );
        let spacing = Spacing::of(&departures, pace.ns(wire))?;
        ctx.note(format!(
            "{options}: {wire} bytes every {:.4} ns, gaps {}..{}",
            spacing.ideal, spacing.min, spacing.max
        ));
        let what = format!("`{options}`");
        check_schedule(&what, &departures, std::iter::repeat_n(wire, 1000), pace)?;
        spacing.check(&what, 1.0 / spacing.ideal / 999.0)?;
    }
    Ok(())
}
