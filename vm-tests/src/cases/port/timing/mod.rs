// SPDX-License-Identifier: GPL-2.0
//! What leaves when, to the nanosecond, where the clock is simulated.
//!
//! Every expectation is worked out from the options by exact arithmetic ([`exact`]) or a few lines
//! that state the rule, never by `turnstile_core`. No tolerance but the one that is stated.

mod batched;
mod bench;
mod change;
mod exact;
mod expiry;
mod gso;
mod idle;
mod link;
mod order;
mod signals;
mod spacing;

use anyhow::{ensure, Result};

use self::bench::{all_times, Bench, Kind};
use crate::harness::{Case, Ctx, Need};

/// A case in simulated time, of which a minute is soon over.
const fn case(name: &'static str, run: fn(&mut Ctx) -> Result<()>) -> Case {
    Case::new(name, run)
        .needs(&[Need::VirtualTime])
        .timeout_s(1800)
}

pub(in crate::cases) const CASES: &[Case] = &[
    case("timing/bench", bench_is_exact),
    case("timing/spacing", spacing::tokens),
    case("timing/spacing-ways", spacing::ways),
    case("timing/expiry-instant", expiry::instant),
    case("timing/expiry-is-free", expiry::is_free),
    case("timing/expiry-makes-room", expiry::makes_room),
    case("timing/expiry-auto", expiry::auto),
    case("timing/expiry-changes", expiry::changes),
    case("timing/higher-priority", order::higher_priority),
    case("timing/busy-link", order::on_a_busy_link),
    case("timing/shares", order::shares),
    case("timing/alone", order::alone),
    case("timing/signals-below-share", signals::below_the_share),
    case("timing/signals-beyond-share", signals::beyond_the_share),
    case("timing/no-burst", idle::no_burst),
    case("timing/link-between-tokens", idle::link_between_tokens),
    case("timing/link-frames", link::frames),
    case("timing/link-lengths", link::lengths),
    case("timing/vlan", link::vlan),
    case("timing/gso-alike", gso::alike),
    case("timing/gso-tokens", gso::tokens),
    case("timing/gso-pieces", gso::pieces),
    case("timing/change-rate", change::rate),
    case("timing/change-of-other-things", change::of_other_things),
    case("timing/change-framing", change::framing),
    case("timing/change-order", order::changes),
    case("timing/change-shaped", change::shaped_or_not),
    case("timing/batched", batched::sent),
    case("timing/batched-exact-limits", batched::exact_limits),
    case("timing/batched-share", batched::share).needs(&[Need::VirtualTime, Need::Speed]),
];

/// So many where the kernel is as fast as it can be, a hundredth where it looks at each access to
/// memory.
fn scaled(count: u64) -> u64 {
    let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
    if line.contains("kasan") {
        count / 100
    } else {
        count
    }
}

/// What all others rely on: without a port, a packet comes at the instant for which it was asked.
fn bench_is_exact(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::bare()?;
    let mut short = bench.sender(Kind::token(0))?;
    let mut long = bench.sender(Kind::data().v6())?;
    let mut asked = Vec::new();
    let mut at = bench.soon();
    for _ in 0..200 {
        at += ctx.rng.range(1..=1_000_000);
        bench.wait_until(at)?;
        short.send(2)?;
        long.send(1)?;
        asked.extend([at; 3]);
    }
    let came = all_times(&bench.arrivals_after(1000)?);
    ensure!(came.len() == asked.len(), "{} of 600 came", came.len());
    for (came, asked) in came.iter().zip(&asked) {
        ensure!(
            came == asked,
            "a packet for {asked} came {} ns later: the clock of this bed is not exact",
            *came as i64 - *asked as i64
        );
    }
    Ok(())
}
