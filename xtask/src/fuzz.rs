// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask fuzz`: the guest's random system calls, run after run with one seed after the
//! other, for as long as the user says. One run is the case that `cargo xtask test` has, so that a
//! run that failed is repeated by its seed.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::bed::Bed;
use crate::env::Env;
use crate::report::Report;
use crate::test;

/// The case.
const CASE: &str = "fuzz/system-calls";
/// The longest that one run may take.
const RUN_SECONDS: u64 = 60 * 60;

/// What the user asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// How long: no run begins later
    #[arg(
        long,
        value_name = "N",
        default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    minutes: u64,
    /// Seed of the first run; each further one has the next [default: another one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Kernel to run on, `sanitize` or `virtual`: the case needs virtual time
    #[arg(long, value_enum, value_name = "BED", default_value = "sanitize")]
    bed: Bed,
}

/// Runs the case until the time is over or it fails; `false` if it failed.
///
/// # Errors
/// What is needed cannot be had or compiled.
pub(crate) fn run(env: &Env, options: &Options) -> Result<bool> {
    let cases = test::Options {
        filter: vec![CASE.to_owned()],
        list: false,
        bed: vec![options.bed],
        host: false,
        fail_fast: false,
        seed: options.seed,
        repeat: 1,
        timeout: RUN_SECONDS,
    };
    let lock = env.lock()?;
    let ready = test::only_guests(env, &cases.bed, &cases)?;
    drop(lock);
    let report = Report::new(env.ui.clone());
    let first = options.seed.unwrap_or_else(test::random_seed);
    let (began, most) = (Instant::now(), Duration::from_secs(options.minutes * 60));
    let mut runs = 0;
    while began.elapsed() < most && report.totals().1 == 0 {
        let seed = first.wrapping_add(runs);
        let cases = test::Options {
            seed: Some(seed),
            ..cases.clone()
        };
        test::guests(env, &ready, &cases, &report);
        runs += 1;
        let minutes = began.elapsed().as_secs() / 60;
        env.ui.say(format!(
            "{runs} runs, {minutes} of {} minutes",
            options.minutes
        ));
        if report.totals().1 > 0 {
            env.ui.say(format!(
                "again: cargo xtask test --bed {} --seed {seed} {CASE}",
                options.bed
            ));
        }
    }
    Ok(report.end())
}
