// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask test`: everything that can be looked at, first without and then in the guest.
//!
//! Two lines of work run side by side, since the kernel's tree has long stretches that one processor works on alone:
//! the cargo line (unit tests, programs of the guest, lints) and the kernel line (chroot, trees, modules). The guest
//! has the machine for itself.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{anyhow, bail, Result};

use crate::chroot::Chroot;
use crate::env::{Env, OUT};
use crate::follow;
use crate::guest_build::{self, GuestPrograms};
use crate::host_checks;
use crate::image::RunConfig;
use crate::qemu::{Accelerator, Limits};
use crate::report::Report;
use crate::session::{Built, Session};

/// The longest a run of the guest may take, unless the user says otherwise.
pub(crate) const GUEST_SECONDS: u64 = 40 * 60;
/// The longest a guest may be silent: longer than any of its cases may take.
const SILENCE: Duration = Duration::from_secs(10 * 60);
/// Factor on the guest's time limits when its processor is emulated: they are for machines that do work.
const EMULATED: f64 = 3.0;

/// What the user asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Run only the guest cases whose names contain one of these; nothing that runs on the host
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Print the names of the guest cases
    #[arg(long)]
    pub list: bool,
    /// Run only what runs on the host
    #[arg(long, conflicts_with_all = ["filter", "list"])]
    pub(crate) host: bool,
    /// Do not boot the guest when a check on the host has failed
    #[arg(long)]
    pub fail_fast: bool,
    /// Seed of the randomized tests [default: another one each time; it is printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// How often to run the guest, each time with the next seed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub repeat: u64,
    /// The longest one run of the guest may take
    #[arg(long, value_name = "SECONDS", default_value_t = GUEST_SECONDS)]
    pub timeout: u64,
}

/// Runs the tests; `false` if one failed.
///
/// # Errors
/// With a filter or `--list`: what is needed cannot be had or compiled. Otherwise that is a failed case.
pub(crate) fn run(env: &Env, options: &Options) -> Result<bool> {
    let began = Instant::now();
    let lock = env.lock()?;
    if options.list || !options.filter.is_empty() {
        let (session, built) = Session::prepare_and_build(env)?;
        let names = list(env, &session.chroot, &built.programs, &options.filter)?;
        if options.list {
            print!("{names}");
            return Ok(true);
        }
        drop(lock);
        let report = Report::new(env.ui.clone());
        guest(env, &session, &built, options, &report)?;
        return Ok(report.end());
    }
    let report = Report::new(env.ui.clone());
    let ready = prepare(env, &report);
    drop(lock);
    match ready {
        Err(error) => report.case("set-up", began.elapsed(), &Err(error)),
        Ok(_) if options.host => {}
        Ok(_) if options.fail_fast && report.totals().1 > 0 => {
            report.skipped("guest", "a check on the host failed");
        }
        Ok((session, built)) => {
            if let Err(error) = guest(env, &session, &built, options, &report) {
                report.case("guest", began.elapsed(), &Err(error));
            }
        }
    }
    env.ui
        .say(format!("tested in {:.0} s", began.elapsed().as_secs_f64()));
    Ok(report.end())
}

/// All checks on the host, and what the guest needs.
fn prepare(env: &Env, report: &Report) -> Result<(Session, Built)> {
    let (chroot_to_cargo_line, chroot) = mpsc::channel::<Chroot>();
    std::thread::scope(|scope| {
        let cargo_line = scope.spawn(move || -> Result<GuestPrograms> {
            env.fetch_crates()?;
            host_checks::unit_tests(env, report);
            // Without a chroot the other line has failed, and says why.
            let chroot = chroot.recv().map_err(|_| anyhow!("there is no chroot"))?;
            let programs = guest_build::build(env, &chroot);
            host_checks::lints(env, &chroot, report);
            programs
        });
        let kernel_line = || -> Result<(Session, Option<PathBuf>)> {
            let chroot = env.chroot()?;
            let _ = chroot_to_cargo_line.send(chroot.clone());
            let session = Session::with_chroot(env, chroot.clone(), false)?;
            let module = host_checks::module(env, &chroot, &session.tree, report);
            host_checks::module_sources(env, &chroot, &session.tree, report);
            host_checks::other_kernels(env, &chroot, &session.tree, report);
            Ok((session, module))
        };
        let kernel_side = kernel_line();
        // Lets the other line go if the chroot was never sent.
        drop(chroot_to_cargo_line);
        let programs = cargo_line
            .join()
            .map_err(|_| anyhow!("a thread panicked"))?;
        let (session, module) = kernel_side?;
        let Some(module) = module else {
            bail!("there is no module to test");
        };
        let built = Built {
            module,
            programs: programs?,
        };
        Ok((session, built))
    })
}

/// The names of the guest's cases that match, one a line.
fn list(env: &Env, chroot: &Chroot, programs: &GuestPrograms, filter: &[String]) -> Result<String> {
    let folder = programs.path("");
    let args = ["--list".to_owned()]
        .into_iter()
        .chain(filter.iter().cloned());
    let out = env
        .enter(chroot, &folder)
        .command(&format!("{OUT}/vm-tests"), args)
        .output()?;
    if !out.status.success() {
        bail!("{}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

fn guest(
    env: &Env,
    session: &Session,
    built: &Built,
    options: &Options,
    report: &Report,
) -> Result<()> {
    let first = options.seed.unwrap_or_else(random_seed);
    for seed in (0..options.repeat).map(|n| first.wrapping_add(n)) {
        env.ui
            .say(format!("seed {seed} (--seed {seed} repeats this run)"));
        let config = RunConfig {
            mode: "test".into(),
            filter: options.filter.join(","),
            seed,
            timeout_scale: match session.accelerator(env)? {
                Accelerator::Kvm => 1.0,
                Accelerator::Tcg => EMULATED,
            },
        };
        let limits = Limits {
            overall: Duration::from_secs(options.timeout),
            silence: SILENCE,
        };
        session.boot(env, built, &config, |guest| {
            follow::run(
                env,
                guest,
                "test",
                limits,
                &env.src.join("out/test"),
                report,
            )
        })?;
    }
    Ok(())
}

/// A seed that is short enough to be typed.
fn random_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos());
    u64::try_from(now % 1_000_000).unwrap_or(0)
}
