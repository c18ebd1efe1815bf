// SPDX-License-Identifier: GPL-2.0
//! A machine that is not a switch: tokens come in bursts, as polls hand them over, and leave late.
//!
//! Here timers are never late. What makes the port late is what is above it: a `tbf` with a `prio`,
//! in whose first band now and then a train of super-packets is put that takes the `tbf` 50 us. The
//! port is not asked meanwhile, neither at the times that it said nor when something arrives;
//! trains begin at random, so that tokens are late by 0 to 50 us.

use anyhow::{ensure, Result};
use turnstile_core::port::uapi::{band_stat, port_stat};

use super::bench::{Bench, Kind, Sender, PORT, TOKEN0};
use super::exact::{words, Pace, GBIT, MBIT, SHARE, TOKEN};
use super::scaled;
use crate::harness::Ctx;

/// bit/s.
const LINKS: [u64; 5] = [100 * MBIT, GBIT, 10 * GBIT, 25 * GBIT, 100 * GBIT];
/// Up to what one poll of a network device hands over.
const BURSTS: [u64; 4] = [1, 8, 32, 64];
/// ns: how late the port is served at most.
const LATE: u64 = 50_000;

/// bit/s of what is above the port: faster than it.
const ABOVE: u64 = 200 * GBIT;
/// Packets in one of the super-packets that hold the port up; they are 60560 bytes.
const SEGMENTS: usize = 40;
/// 2422.4 ns each, but for the first if the bucket of 64 KiB above the port is full.
const TRAIN: u64 = LATE * ABOVE / 8_000_000_000 / (SEGMENTS as u64 * 1514);
/// ns: long enough for a dozen trains.
const LEAST: u64 = 3_000_000;

/// What holds the port up.
struct Trains {
    sender: Sender,
    /// When the next one comes.
    next: u64,
    /// No more after this.
    until: u64,
    /// ns between two, at most.
    apart: u64,
    count: u64,
}

impl Trains {
    /// Sends what is due by `at`, and waits until then.
    fn up_to(&mut self, bench: &Bench, ctx: &mut Ctx, at: u64) -> Result<()> {
        while self.next < at && self.next < self.until {
            bench.wait_until(self.next)?;
            self.sender.send(TRAIN * SEGMENTS as u64)?;
            self.count += 1;
            self.next += ctx.rng.range(2 * LATE..=self.apart);
        }
        bench.wait_until(at)
    }
}

/// Puts a port with these options below what may hold it up.
fn below(bench: &mut Bench, options: &str) -> Result<()> {
    bench.replace_below(
        &[
            &format!(
                "root handle 8: tbf rate {} burst 64kb limit 1gb",
                words(ABOVE)
            ),
            "parent 8:1 handle 9: prio",
        ],
        "9:2",
        options,
    )
}

/// What became of tokens.
struct Outcome {
    offered: u64,
    sent: u64,
    most: u64,
    longest: u64,
    forfeited: u64,
    trains: u64,
}

impl Outcome {
    fn part(&self) -> f64 {
        self.sent as f64 / self.offered as f64
    }
}

/// Offers tokens at 90 % of their rate, in bursts.
fn offer(
    ctx: &mut Ctx,
    bench: &mut Bench,
    options: &str,
    link: u64,
    burst: u64,
    late: bool,
) -> Result<Outcome> {
    below(bench, &format!("link {} {options}", words(link)))?;
    let mut tokens = bench.sender(Kind::token(0))?;
    let mut sender = bench.sender(Kind::data().stream(0x77).supers(SEGMENTS))?;
    sender.priority(6)?;
    let pace = Pace::share(link, SHARE);
    // The time of a burst's tokens and a ninth more.
    let span = |bursts: u64| pace.after(bursts * burst * TOKEN * 10).div_ceil(9);
    let bursts = (scaled(6000) / burst).max(40).max(LEAST / span(1));
    let start = bench.soon();
    let end = start + span(bursts);
    let mut trains = Trains {
        sender,
        next: if late { start + 1 } else { u64::MAX },
        until: end,
        apart: (4 * LATE).max((end - start) / 40),
        count: 0,
    };
    for number in 0..bursts {
        trains.up_to(bench, ctx, start + span(number))?;
        tokens.send(burst)?;
    }
    bench.arrivals_after(pace.after(100 * TOKEN) + 100 * LATE)?;
    let class = bench.stats(TOKEN0)?;
    let port = bench.stats(PORT)?;
    let outcome = Outcome {
        offered: class.app(band_stat::OFFERED_PACKETS),
        sent: class.packets,
        most: class.app(band_stat::MAX_PACKETS),
        longest: class.app(band_stat::SOJOURN_MAX),
        forfeited: port.app(port_stat::SLACK_FORFEITED),
        trains: trains.count,
    };
    ensure!(
        outcome.offered == bursts * burst,
        "{} of {} tokens came to the port",
        outcome.offered,
        bursts * burst
    );
    let dropped = class.app(band_stat::OVER_LIMIT) + class.app(band_stat::EXPIRED);
    ensure!(
        outcome.sent + dropped == outcome.offered,
        "{} sent, {dropped} dropped of {}",
        outcome.sent,
        outcome.offered
    );
    Ok(outcome)
}

/// With the defaults, tokens at 90 % of their rate are sent, however they come and however late the
/// port is served.
pub(super) fn sent(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::bare()?;
    for link in LINKS {
        for burst in BURSTS {
            for late in [false, true] {
                let outcome = offer(ctx, &mut bench, "", link, burst, late)?;
                let what = format!(
                    "link {}, bursts of {burst}{}",
                    words(link),
                    if late { ", late" } else { "" }
                );
                ctx.note(format!(
                    "{what}: {:.2} % of {} tokens sent, {} queued at most, {} ns the longest wait, \
                     held up {} times",
                    outcome.part() * 100.0,
                    outcome.offered,
                    outcome.most,
                    outcome.longest,
                    outcome.trains
                ));
                ensure!(
                    outcome.part() >= 0.99,
                    "{what}: only {} of {} were sent",
                    outcome.sent,
                    outcome.offered
                );
                ensure!(
                    outcome.forfeited == 0,
                    "{what}: {} ns were not made up for",
                    outcome.forfeited
                );
                ensure!(
                    !late || outcome.trains > 5 && outcome.longest > LATE / 2,
                    "{what}: nothing was late"
                );
            }
        }
    }
    Ok(())
}

/// What the option is for: with the papers' limits, which `jitter 0` leaves alone, most of what
/// comes in bursts is dropped.
pub(super) fn exact_limits(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::bare()?;
    for link in LINKS {
        for burst in BURSTS {
            let outcome = offer(ctx, &mut bench, "jitter 0", link, burst, false)?;
            ctx.note(format!(
                "link {}, bursts of {burst}, jitter 0: {:.2} % of {} tokens sent, {} queued at \
                 most, {} ns the longest wait",
                words(link),
                outcome.part() * 100.0,
                outcome.offered,
                outcome.most,
                outcome.longest
            ));
            // The first of a burst leaves at once, eight wait.
            let fit = burst.min(9);
            let bursts = outcome.offered / burst;
            ensure!(
                outcome.sent == bursts * fit && outcome.most <= 8,
                "{} of bursts of {burst} were sent, {} queued",
                outcome.sent,
                outcome.most
            );
        }
    }
    Ok(())
}

/// More tokens than may leave, more data than the link carries, and a port that is served late: the
/// group has its share, and nearly so where tokens also wait for super-packets: both together may
/// be later than `jitter` makes up for.
pub(super) fn share(ctx: &mut Ctx) -> Result<()> {
    /// Room and patience without end, but the papers' slack.
    const PATIENT: &str = "jitter 0 token-limit 1024 token-expiry off";
    let mut bench = Bench::bare()?;
    for link in LINKS {
        for order in ["tokens-first", "data-first"] {
            for options in ["split-gso", "", "jitter 0", PATIENT] {
                let what = format!("link {} order {order} {options}", words(link));
                let got = overload(ctx, &mut bench, &what, link)?;
                ctx.note(format!(
                    "{what}: tokens have {:.3} % of their share; {} ns forfeited in {} times",
                    got.share * 100.0,
                    got.forfeited,
                    got.forfeits
                ));
                // 47 us are more than eight intervals from 10 Gbit/s on.
                let too_late = link >= 10 * GBIT;
                let right = match options {
                    // Of 64 tokens, in whose time 32 may leave, eight or nine fit.
                    "jitter 0" => got.share < 0.4,
                    PATIENT if too_late => got.share < 0.99 && got.forfeits > 5,
                    "" if got.forfeits > 0 => too_late && got.share > 0.95,
                    _ => (got.share - 1.0).abs() <= 0.001 && got.forfeits == 0,
                };
                ensure!(
                    right,
                    "{what}: {} of the share, {} ns forfeited",
                    got.share,
                    got.forfeited
                );
            }
        }
    }
    Ok(())
}

struct Overload {
    /// Of the group's share of the link.
    share: f64,
    forfeits: u64,
    forfeited: u64,
}

fn overload(ctx: &mut Ctx, bench: &mut Bench, options: &str, link: u64) -> Result<Overload> {
    const BURST: u64 = 64;
    below(bench, &format!("{options} data-limit 1gb"))?;
    let kind = Kind::token(0);
    let mut tokens = bench.sender(kind)?;
    let mut data = bench.sender(Kind::data().supers(SEGMENTS))?;
    let mut sender = bench.sender(Kind::data().stream(0x77).supers(SEGMENTS))?;
    sender.priority(6)?;
    let pace = Pace::share(link, SHARE);
    // At least so many that the last one, which may wait for a frame, does not count.
    let count = scaled(40_000).max(4_000).max(LEAST / pace.after(TOKEN));
    let start = bench.soon();
    let end = start + pace.after(count * TOKEN);
    let quiet = 10 * LATE;
    let mut trains = Trains {
        sender,
        next: start + 1,
        until: end.saturating_sub(quiet),
        apart: (4 * LATE).max((end - start) / 40),
        count: 0,
    };
    bench.wait_until(start)?;
    // In the time of a burst the link carries 32 frames and their tokens: with these, and 40 with
    // each burst, there are always some.
    data.send(10 * SEGMENTS as u64)?;
    // Half as long as the tokens' time.
    let mut number = 0;
    let mut came = Vec::new();
    loop {
        let at = start + pace.after(number * BURST * TOKEN) / 2 + 1;
        if at >= end {
            break;
        }
        trains.up_to(bench, ctx, at)?;
        tokens.send(BURST)?;
        data.send(SEGMENTS as u64)?;
        number += 1;
        if number % 64 == 0 {
            came.extend(bench.arrivals()?);
        }
    }
    bench.wait_until(end)?;
    came.extend(bench.arrivals()?);
    // Tokens are missing where they expired: only those that came count.
    let came: Vec<u64> = came
        .iter()
        .filter(|arrival| arrival.stream == kind.packet().stream())
        .map(|arrival| arrival.at)
        .collect();
    // From when the first one could have left: what holds it up is made up for like any other
    // lateness.
    let Some(last) = came.last() else {
        anyhow::bail!("no token came")
    };
    let bytes = (came.len() as u64 - 1) * TOKEN;
    let port = bench.stats(PORT)?;
    ensure!(trains.count > 5, "nothing was late");
    Ok(Overload {
        share: pace.ns(bytes) / (last - start) as f64,
        forfeits: port.app(port_stat::SLACK_FORFEITS),
        forfeited: port.app(port_stat::SLACK_FORFEITED),
    })
}
