// SPDX-License-Identifier: GPL-2.0
//! A change in the middle of a stream: what was scheduled stays where it may, what follows has the
//! new rate, and no packet is early, late or lost on the way.

use anyhow::{ensure, Result};
use turnstile_core::port::uapi::{option, ORDER_DATA_FIRST, ORDER_TOKENS_FIRST};

use super::bench::{all_times, Bench, Change, Kind};
use super::exact::{check_schedule, check_times, Pace, FRAME, GBIT, MBIT, SHARE, TOKEN};
use crate::harness::Ctx;
use crate::raw_netlink::{attribute_u32, attribute_u64};

fn link(rate: u64) -> Vec<u8> {
    attribute_u64(option::LINK_RATE64, rate / 8)
}

fn token_rate(rate: u64) -> Vec<u8> {
    attribute_u64(option::TOKEN_RATE64, rate / 8)
}

fn token_share(ppb: u32) -> Vec<u8> {
    attribute_u32(option::TOKEN_SHARE, ppb)
}

/// The rate changes between two departures, at several moments. The packet that is next leaves at
/// the old rate's time, or at the new rate's from the change on if that is sooner; the others
/// follow at the new rate.
pub(super) fn rate(ctx: &mut Ctx) -> Result<()> {
    let ten = Pace::share(10 * GBIT, SHARE);
    let tokens = [
        (
            "tokens 1%",
            token_share(10_000_000),
            Pace::share(10 * GBIT, 10_000_000),
        ),
        (
            "tokens 50%",
            token_share(500_000_000),
            Pace::share(10 * GBIT, 500_000_000),
        ),
        (
            "tokens 84mbit",
            token_rate(84 * MBIT),
            Pace::bits(84 * MBIT),
        ),
        ("link 1gbit", link(GBIT), Pace::share(GBIT, SHARE)),
        (
            "link 400gbit",
            link(400 * GBIT),
            Pace::share(400 * GBIT, SHARE),
        ),
        (
            "link 25gbit",
            link(25 * GBIT),
            Pace::share(25 * GBIT, SHARE),
        ),
    ];
    let ten_frames = Pace::bits(10 * GBIT);
    let frames = [
        ("link 1gbit", link(GBIT), Pace::bits(GBIT)),
        ("link 100gbit", link(100 * GBIT), Pace::bits(100 * GBIT)),
        ("link 11gbit", link(11 * GBIT), Pace::bits(11 * GBIT)),
        // For frames alone nothing happens.
        ("tokens 1%", token_share(10_000_000), ten_frames),
    ];
    let mut bench = Bench::bare()?;
    for (name, options, new) in tokens {
        turn(&mut bench, Kind::token(0), name, &options, TOKEN, ten, new)?;
    }
    for (name, options, new) in frames {
        turn(
            &mut bench,
            Kind::data(),
            name,
            &options,
            FRAME,
            ten_frames,
            new,
        )?;
    }
    ctx.note(
        "the packet after a change leaves by the old schedule or the new, whichever is sooner",
    );
    Ok(())
}

/// One stream of equal packets of `wire` bytes, with a change after the 40th at several moments of
/// the gap.
fn turn(
    bench: &mut Bench,
    kind: Kind,
    name: &str,
    options: &[u8],
    wire: u64,
    old: Pace,
    new: Pace,
) -> Result<()> {
    const COUNT: u64 = 100;
    const BEFORE: u64 = 40;
    for tenths in [1, 5, 9] {
        bench.replace("link 10gbit token-limit 200 token-expiry off data-limit 10mb")?;
        let mut sender = bench.sender(kind)?;
        let start = bench.soon();
        bench.wait_until(start)?;
        sender.send(COUNT)?;
        let last = start + old.after((BEFORE - 1) * wire);
        let due = start + old.after(BEFORE * wire);
        bench.wait_until(last + (due - last) * tenths / 10)?;
        let Change {
            not_before,
            not_after,
        } = bench.change(options)?;
        ensure!(
            not_after < due,
            "the change took from {not_before} to {not_after}, beyond the next departure at {due}"
        );
        let longest = old.after(COUNT * wire).max(new.after(COUNT * wire));
        let departures = all_times(&bench.arrivals_after(2 * longest)?);
        let what = format!("{kind:?}, `{name}` when {tenths}/10 of a gap are over");
        ensure!(
            departures.len() as u64 == COUNT,
            "{what}: {} of {COUNT} packets came",
            departures.len()
        );
        let lens = || std::iter::repeat_n(wire, departures.len());
        if new == old {
            check_schedule(&what, &departures, lens(), old)?;
            continue;
        }
        let (head, tail) = departures.split_at(usize::try_from(BEFORE)?);
        check_schedule(&what, head, lens(), old)?;
        let sooner = |changed: u64| due.min(changed + new.after(wire));
        let allowed = sooner(not_before)..=sooner(not_after);
        ensure!(
            allowed.contains(&tail[0]),
            "{what}: the next packet left {} ns after the last one of the old rate, instead of \
             {:?}",
            tail[0] - last,
            (allowed.start() - last, allowed.end() - last)
        );
        check_schedule(&what, tail, lens(), new)?;
    }
    Ok(())
}

/// Changes of other things leave the schedule alone, to the fraction of a nanosecond.
pub(super) fn of_other_things(_: &mut Ctx) -> Result<()> {
    let group = Pace::share(10 * GBIT, SHARE);
    let frames = Pace::bits(10 * GBIT);
    for (kind, pace, wire) in [
        (Kind::token(0), group, TOKEN),
        (Kind::data(), frames, FRAME),
    ] {
        let mut bench = Bench::port(
            "link 10gbit token-limit 300 token-expiry off data-limit 10mb priorities 4",
        )?;
        let mut sender = bench.sender(kind)?;
        let start = bench.soon();
        bench.wait_until(start)?;
        sender.send(200)?;
        for (number, options) in [
            attribute_u32(option::TOKEN_LIMIT, 250),
            attribute_u32(option::ORDER, ORDER_DATA_FIRST),
            attribute_u64(option::TOKEN_EXPIRY, 1_000_000_000),
            attribute_u32(option::PRIORITIES, 8),
            attribute_u32(option::SIGNAL_LIMIT, 7),
            attribute_u32(option::UNSCHEDULED, 0),
            attribute_u32(option::DATA_LIMIT, 1_000_000),
            attribute_u32(option::ORDER, ORDER_TOKENS_FIRST),
            link(10 * GBIT),
            token_share(SHARE as u32),
            attribute_u32(option::SPLIT_GSO, 0),
        ]
        .iter()
        .enumerate()
        {
            // Anywhere in gaps, and at a departure.
            let at = start + pace.after((10 * number as u64 + 5) * wire);
            bench.wait_until(at + pace.after(wire) * number as u64 / 11)?;
            bench.change(options)?;
        }
        let departures = all_times(&bench.arrivals_after(pace.after(210 * wire))?);
        ensure!(
            departures.len() == 200,
            "{} of 200 packets came",
            departures.len()
        );
        let what = format!("{kind:?} with changes of other things");
        check_schedule(&what, &departures, std::iter::repeat_n(wire, 200), pace)?;
    }
    Ok(())
}

/// `overhead` and `mpu` count for what comes after the change.
pub(super) fn framing(_: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 20;
    // A rate, which is one of all bytes of a token.
    let group = Pace::bits(517_879_160);
    let frames = Pace::bits(10 * GBIT);
    for (kind, pace) in [(Kind::token(0), group), (Kind::data(), frames)] {
        let mut bench = Bench::port(
            "link 10gbit tokens 517879160bit token-limit 300 token-expiry off data-limit 10mb",
        )?;
        let mut sender = bench.sender(kind)?;
        let (mut overhead, mut mpu) = (24, 84);
        let start = bench.soon();
        bench.wait_until(start)?;
        let mut lens = Vec::new();
        sender.send(COUNT)?;
        lens.extend([kind.len().saturating_add(overhead).max(mpu); COUNT as usize]);
        for (number, value) in [
            (option::OVERHEAD, 50),
            (option::MPU, 200),
            (option::OVERHEAD, 0),
            (option::MPU, 0),
            (option::OVERHEAD, 24),
        ] {
            // The last one has left, but its time is not over.
            let sum: u64 = lens.iter().sum();
            let last = lens.last().copied().unwrap_or(0);
            bench.wait_until(start + pace.after(sum - last / 2))?;
            bench.change(&attribute_u32(number, value))?;
            if number == option::MPU {
                mpu = value.into();
            } else {
                overhead = value.into();
            }
            sender.send(COUNT)?;
            lens.extend([kind.len().saturating_add(overhead).max(mpu); COUNT as usize]);
        }
        let departures = all_times(&bench.arrivals_after(pace.after(200 * FRAME))?);
        ensure!(
            departures.len() == lens.len() && departures[0] == start,
            "{} of {} packets came",
            departures.len(),
            lens.len()
        );
        check_schedule(
            &format!("{kind:?} with changes of overhead and mpu"),
            &departures,
            lens,
            pace,
        )?;
    }
    Ok(())
}

/// A link that was not shaped is, from the change on, and the other way round.
pub(super) fn shaped_or_not(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::port("data-limit 10mb")?;
    let mut data = bench.sender(Kind::data())?;
    let start = bench.soon();
    bench.wait_until(start)?;
    data.send(3)?;
    bench.wait_until(start + 10_000)?;
    let shaped = bench.change(&link(GBIT))?.not_after;
    bench.wait_until(start + 20_000)?;
    ensure!(shaped < start + 20_000, "the change took too long");
    data.send(6)?;
    // In the middle of the third one's time.
    bench.wait_until(start + 20_000 + 12_304 * 5 / 2)?;
    let Change {
        not_before,
        not_after,
    } = bench.change(&link(0))?;
    let arrivals = bench.arrivals_after(1_000_000)?;
    let departures = all_times(&arrivals);
    ensure!(
        departures.len() == 9,
        "{} of 9 frames came",
        departures.len()
    );
    check_times(
        "unshaped, then 1 Gbit/s",
        start,
        &departures[..6],
        &[0, 0, 0, 20_000, 20_000 + 12_304, 20_000 + 2 * 12_304],
    )?;
    // The rest leaves at the change, all at once.
    ensure!(
        (not_before..=not_after).contains(&departures[6]) && departures[6] == departures[8],
        "after `link auto` at {not_before}..{not_after} frames left at {:?}",
        &departures[6..]
    );
    Ok(())
}
