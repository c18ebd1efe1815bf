// SPDX-License-Identifier: GPL-2.0
//! Who goes first, and what that costs the others, to the nanosecond.

use anyhow::{ensure, Result};
use turnstile_core::port::uapi::{option, ORDER_DATA_FIRST, ORDER_TOKENS_FIRST};

use super::bench::{Bench, Kind, Sender};
use super::exact::{words, Pace, FRAME, GBIT, MBIT, SHARE, TOKEN};
use crate::harness::Ctx;
use crate::raw_netlink::attribute_u32;
use crate::traffic::{Packet, Tapped};

/// ns between tokens at `tokens 84mbit`.
const INTERVAL: u64 = 8000;

/// Tokens of higher priority that arrive at any moment leave at the very next release: they wait
/// for no more than the token in service, and nobody's release moves.
pub(super) fn higher_priority(ctx: &mut Ctx) -> Result<()> {
    const ROUNDS: usize = 150;
    for order in ["tokens-first", "data-first"] {
        let mut bench = Bench::port(&format!(
            "link 10gbit tokens 84mbit priorities 8 token-limit 1024 token-expiry off order {order}"
        ))?;
        let mut low = bench.sender(Kind::token(7))?;
        let mut high = (0..7)
            .map(|priority| bench.sender(Kind::token(priority)))
            .collect::<Result<Vec<Sender>>>()?;
        // What arrives: when, and of which priority.
        let mut arriving = Vec::new();
        let start = bench.soon();
        bench.wait_until(start)?;
        low.send(1000)?;
        let mut release = 0;
        for round in 0..ROUNDS {
            release += ctx.rng.range(1..=4);
            // Just after a release, just before one, and anywhere between; not at one, where order
            // at one instant would count.
            let phase = match round % 4 {
                0 => 1,
                1 => INTERVAL - 1,
                _ => ctx.rng.range(2..=INTERVAL - 2),
            };
            let at = start + release * INTERVAL + phase;
            bench.wait_until(at)?;
            for _ in 0..ctx.rng.range(1..=3) {
                let priority = ctx.rng.index(high.len());
                high[priority].send(1)?;
                arriving.push((at, priority));
            }
        }
        let arrivals = bench.arrivals_after(1100 * INTERVAL)?;
        let want = strict(start, 1000, &arriving);
        ensure!(
            arrivals.len() == want.len(),
            "{} of {} tokens came",
            arrivals.len(),
            want.len()
        );
        for (number, (came, (at, priority))) in arrivals.iter().zip(&want).enumerate() {
            ensure!(
                came.at == *at && came.stream == Packet::Token(*priority as u8).stream(),
                "{order}: release {number} gave stream {:#x} after {} ns, instead of priority \
                 {priority} after {} ns",
                came.stream,
                came.at - start,
                at - start
            );
        }
        ctx.note(format!(
            "{order}: {} tokens of priority 0 to 6 overtook a backlog, each at the next release or \
             after its betters",
            arriving.len()
        ));
    }
    Ok(())
}

/// Strict priority by the book: `low` tokens of priority 7 at `start`, and others that arrive, one
/// release per interval.
fn strict(start: u64, low: usize, arriving: &[(u64, usize)]) -> Vec<(u64, usize)> {
    let mut queued = [0_usize; 8];
    queued[7] = low;
    let mut next = arriving.iter().peekable();
    let mut releases = Vec::new();
    let mut at = start;
    while releases.len() < low + arriving.len() {
        while let Some((_, priority)) = next.next_if(|(when, _)| *when <= at) {
            queued[*priority] += 1;
        }
        if let Some(priority) = queued.iter().position(|count| *count > 0) {
            queued[priority] -= 1;
            releases.push((at, priority));
        }
        at += INTERVAL;
    }
    releases
}

/// On a busy link, a signal waits for the packet in service and nothing else; so does a token that
/// is due, and with data first for one data packet more.
pub(super) fn on_a_busy_link(ctx: &mut Ctx) -> Result<()> {
    /// A full frame's time.
    const SLOT: u64 = 12_304;
    /// A token's, or a signal's.
    const SHORT: u64 = 672;
    for (order, pass) in [("tokens-first", 0), ("data-first", 1)] {
        let mut bench = Bench::port(&format!(
            "link 1gbit order {order} token-expiry off data-limit 100mb"
        ))?;
        let mut data = bench.sender(Kind::data())?;
        let mut signal = bench.sender(Kind::signal())?;
        let mut token = bench.sender(Kind::token(3))?;
        let mut unscheduled = bench.sender(Kind::unscheduled())?;
        // The moments of arrival within a frame: the first, some, the last.
        let middle = ctx.rng.range(2..=SLOT - 2);
        for phase in [1, middle, SLOT - 1] {
            let start = bench.soon();
            bench.wait_until(start)?;
            unscheduled.send(1)?;
            data.send(10)?;
            // Within the third packet.
            bench.wait_until(start + 2 * SLOT + phase)?;
            token.send(1)?;
            signal.send(1)?;
            let arrivals = bench.arrivals_after(20 * SLOT)?;
            let mut want = vec![(0, Packet::Unscheduled)];
            let mut at = SLOT;
            let mut put = |packet, time| {
                want.push((at, packet));
                at += time;
            };
            for _ in 0..2 {
                put(Packet::Data, SLOT);
            }
            put(Packet::Signal, SHORT);
            for _ in 0..pass {
                put(Packet::Data, SLOT);
            }
            put(Packet::Token(3), SHORT);
            for _ in 0..8 - pass {
                put(Packet::Data, SLOT);
            }
            compare(
                &format!("{order}, {phase} ns into a frame"),
                start,
                &arrivals,
                &want,
            )?;
        }
    }
    Ok(())
}

/// The order changes while the link is busy: a token that comes after the change is treated by the
/// new order, one that waits already, too.
pub(super) fn changes(_: &mut Ctx) -> Result<()> {
    const SLOT: u64 = 12_304;
    const SHORT: u64 = 672;
    let order = |number| attribute_u32(option::ORDER, number);
    let mut bench =
        Bench::port("link 1gbit tokens 10% order tokens-first token-expiry off data-limit 100mb")?;
    let mut data = bench.sender(Kind::data())?;
    let mut token = bench.sender(Kind::token(3))?;
    let start = bench.soon();
    bench.wait_until(start)?;
    data.send(12)?;
    // While the first frame is sent, the third and so on; in each of them the token comes first.
    bench.wait_until(start + SLOT / 4)?;
    token.send(1)?;
    bench.wait_until(start + 2 * SLOT + SHORT + SLOT / 4)?;
    bench.change(&order(ORDER_DATA_FIRST))?;
    token.send(1)?;
    bench.wait_until(start + 5 * SLOT + 2 * SHORT + SLOT / 4)?;
    token.send(1)?;
    bench.change(&order(ORDER_TOKENS_FIRST))?;
    bench.wait_until(start + 7 * SLOT + 3 * SHORT + SLOT / 4)?;
    token.send(1)?;
    bench.change(&order(ORDER_DATA_FIRST))?;
    let arrivals = bench.arrivals_after(20 * SLOT)?;
    let (mut at, mut want) = (0, Vec::new());
    for frames in [1, 3, 2, 3, 3] {
        for _ in 0..frames {
            want.push((at, Packet::Data));
            at += SLOT;
        }
        want.push((at, Packet::Token(3)));
        at += SHORT;
    }
    // No token follows the last frames.
    want.pop();
    compare("orders in turn", start, &arrivals, &want)
}

/// A port with more of both than it can send shares the link exactly as its configuration says, in
/// which order ever: each departure is foretold.
pub(super) fn shares(ctx: &mut Ctx) -> Result<()> {
    const TENTH: u64 = 100_000_000;
    let mut bench = Bench::bare()?;
    for (link, options, group) in [
        (10 * GBIT, "", Pace::share(10 * GBIT, SHARE)),
        (GBIT, "tokens 1%", Pace::share(GBIT, TENTH / 10)),
        (100 * GBIT, "tokens 20%", Pace::share(100 * GBIT, 2 * TENTH)),
        (400 * GBIT, "tokens 50%", Pace::share(400 * GBIT, 5 * TENTH)),
        (MBIT, "", Pace::share(MBIT, SHARE)),
        (10 * GBIT, "tokens 123456789bit", Pace::bits(123_456_784)),
        (
            10 * GBIT,
            "overhead 40 mpu 128",
            Pace::tokens(10 * GBIT, SHARE, 128),
        ),
    ] {
        for order in ["tokens-first", "data-first"] {
            let (frame, token) = if options.starts_with("overhead") {
                (FRAME + 16, 128)
            } else {
                (FRAME, TOKEN)
            };
            let what = format!("link {} {options} order {order}", words(link));
            bench.replace(&format!(
                "{what} token-limit 1000 token-expiry off data-limit 1gb"
            ))?;
            let mut data = bench.sender(Kind::data())?;
            let mut tokens = bench.sender(Kind::token(0))?;
            let start = bench.soon();
            bench.wait_until(start)?;
            data.send(1500)?;
            tokens.send(1000)?;
            let want = both(link, group, frame, token, order == "data-first");
            let span = want.last().map_or(0, |(at, _)| *at);
            let arrivals = bench.arrivals_after(span + Pace::bits(link).after(4 * FRAME))?;
            // The end is not looked at: one of them has run out there.
            ensure!(arrivals.len() >= want.len(), "{what}: too little came");
            compare(&what, start, &arrivals[..want.len()], &want)?;
            let bytes = want
                .iter()
                .filter(|(_, packet)| *packet == Packet::Token(0))
                .count() as u64
                * token;
            let share = bytes as f64 / span as f64 * 8e9 / link as f64;
            let asked = group.bytes_per_ns() * 8e9 / link as f64;
            ctx.note(format!(
                "`{what}`: tokens {:.4} % of the link, configured {:.4} %; {} departures as \
                 foretold",
                share * 100.0,
                asked * 100.0,
                want.len()
            ));
            // In the span that was watched, by at most the tokens that fall due during two frames.
            ensure!(
                (share - asked).abs() * link as f64 / 8e9 * span as f64
                    <= 2.0 * (frame + token) as f64,
                "{what}: tokens have {share} of the link, not {asked}"
            );
        }
    }
    Ok(())
}

/// What leaves when, from the rules: the first packet is data; then tokens that are due go before
/// data, or (data first) after one data packet that passes them. Until one of them runs out.
fn both(link: u64, group: Pace, frame: u64, token: u64, data_first: bool) -> Vec<(u64, Packet)> {
    let link = Pace::bits(link);
    let (mut data_left, mut tokens_left) = (1500 - 1, 1000);
    let (mut sent, mut tokens) = (frame, 0);
    let mut passed = false;
    let mut all = vec![(0, Packet::Data)];
    while data_left > 0 && tokens_left > 0 {
        let at = link.after(sent);
        let due = group.after(tokens) <= at;
        if due && (passed || !data_first) {
            all.push((at, Packet::Token(0)));
            tokens += token;
            sent += token;
            tokens_left -= 1;
            // All that are due go, then data may pass again.
            passed = group.after(tokens) <= at;
        } else {
            all.push((at, Packet::Data));
            sent += frame;
            data_left -= 1;
            passed = due;
        }
    }
    all
}

fn compare(what: &str, start: u64, came: &[Tapped], want: &[(u64, Packet)]) -> Result<()> {
    for (number, (came, (at, packet))) in came.iter().zip(want).enumerate() {
        ensure!(
            came.at == start + at && came.stream == packet.stream(),
            "{what}: departure {number} was stream {:#x} after {} ns, instead of {packet:?} after \
             {at} ns",
            came.stream,
            came.at as i64 - start as i64
        );
    }
    ensure!(
        came.len() == want.len(),
        "{what}: {} of {} packets came",
        came.len(),
        want.len()
    );
    Ok(())
}

/// Without tokens data has all of the link, without data the tokens have their share: no gap and no
/// overlap.
pub(super) fn alone(_: &mut Ctx) -> Result<()> {
    for order in ["tokens-first", "data-first"] {
        let mut bench = Bench::port(&format!(
            "link 10gbit order {order} token-limit 200 token-expiry off data-limit 10mb"
        ))?;
        let link = Pace::bits(10 * GBIT);
        let group = Pace::share(10 * GBIT, SHARE);
        for (kind, pace, wire) in [
            (Kind::data(), link, FRAME),
            (Kind::token(5), group, TOKEN),
            (Kind::signal(), link, TOKEN),
        ] {
            let mut sender = bench.sender(kind)?;
            let start = bench.soon();
            bench.wait_until(start)?;
            sender.send(200)?;
            let arrivals = bench.arrivals_after(pace.after(201 * wire))?;
            let want: Vec<(u64, Packet)> = arrivals
                .iter()
                .enumerate()
                .map(|(n, _)| (pace.after(n as u64 * wire), kind.packet()))
                .collect();
            ensure!(
                arrivals.len() == 200,
                "{} of 200 packets came",
                arrivals.len()
            );
            compare(&format!("{order}, {kind:?} alone"), start, &arrivals, &want)?;
        }
    }
    Ok(())
}
