// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask test`: everything that can be looked at, first without and then in the guest.
//!
//! Two lines of work run side by side, since the kernel's tree has long stretches that one
//! processor works on alone: the cargo line (unit tests, programs of the guest, lints) and the
//! kernel line (chroot, trees, modules). Then the guests run in two lines: that on the stock
//! kernel, for which a clock is running, and beside it, with less priority, those in virtual time,
//! one after the other, and the experiments. When the first is over both lines share what is left.

use std::collections::VecDeque;
use std::sync::{mpsc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{anyhow, bail, Context, Result};
use rustix::process::setpriority_process;

use crate::bed::Bed;
use crate::bench;
use crate::chroot::Chroot;
use crate::detectors;
use crate::determinism;
use crate::env::{Env, OUT};
use crate::follow;
use crate::guest::{Limits, Machine};
use crate::guest_build::{self, GuestPrograms};
use crate::host_checks;
use crate::kernel_build;
use crate::lab;
use crate::modules;
use crate::qemu::Accelerator;
use crate::report::Report;
use crate::session::{Built, Session};
use turnstile_test_protocol::run::{Mode, RunConfig, Take};

/// Words that stand, where cases are named, for what needs boots of its own: planted faults, a run
/// that is compared with itself, the experiments, the cost of a packet.
const DETECTORS: &str = "detectors";
const DETERMINISM: &str = "determinism";
const LAB: &str = "lab";
const BENCH: &str = "bench";
/// Seed of the experiments, as that of `cargo xtask lab`: the tables are the same.
const LAB_SEED: u64 = 1;
/// The longest a run of the guest may take, unless the user says otherwise. Others run beside it.
pub(crate) const GUEST_SECONDS: u64 = 60 * 60;
/// The longest a guest may be silent: longer than any of its cases may take.
const SILENCE: Duration = Duration::from_secs(10 * 60);
/// The nice value of guests beside one that a clock is running for: enough that it hardly notices
/// them.
const NICE: i32 = 10;
/// Factor on the guest's time limits when its processor is emulated: they are for machines that do
/// work.
const EMULATED: f64 = 3.0;
/// The same where the emulated kernel has detectors, too.
const EMULATED_DETECTORS: f64 = 15.0;

/// What the user asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Run only the guest cases whose names contain one of these; nothing that runs on the host.
    /// `detectors`: plant faults; `determinism`: the same run twice; `lab`: the experiments, twice;
    /// `bench`: the cost of a packet
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
    /// Print the names of the guest cases
    #[arg(long)]
    pub list: bool,
    /// Kernels to run the guest on, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "BED",
        default_value = "all"
    )]
    pub(crate) bed: Vec<Bed>,
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
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub repeat: u64,
    /// The longest one run of the guest may take
    #[arg(long, value_name = "SECONDS", default_value_t = GUEST_SECONDS)]
    pub timeout: u64,
}

impl Options {
    /// What a bed takes of the cases. In a run of all beds each case runs on one in virtual time,
    /// with sanitizers unless they make it too slow: there it goes the same way, to the
    /// nanosecond. On an emulated processor a case takes ten times as long, and a third of them
    /// run, others with another seed.
    fn take(&self, bed: Bed, machine: Machine) -> Take {
        let beds = Bed::chosen(&self.bed);
        let all = Bed::chosen(&[Bed::All])
            .iter()
            .all(|bed| beds.contains(bed));
        let emulated = machine == Machine::Qemu(Accelerator::Tcg);
        match bed {
            _ if !all || !self.filter.is_empty() => Take::All,
            Bed::Virtual => Take::Fast,
            Bed::Vm if emulated => Take::Third,
            _ => Take::All,
        }
    }
}

/// A bed, and what is compiled for it.
pub(crate) type Ready = (Session, Built);

/// Runs the tests; `false` if one failed.
///
/// # Errors
/// With a filter or `--list`: what is needed cannot be had or compiled. Otherwise that is a failed
/// case.
pub(crate) fn run(env: &Env, options: &Options) -> Result<bool> {
    let began = Instant::now();
    let lock = env.lock()?;
    let beds = Bed::chosen(&options.bed);
    if options.list {
        let chroot = env.chroot()?;
        env.fetch_crates()?;
        let programs = guest_build::build(env, &chroot)?;
        print!("{}", list(env, &chroot, &programs, &options.filter)?);
        return Ok(true);
    }
    let report = Report::new(env.ui.clone());
    if !options.filter.is_empty() {
        let ready = only_guests(env, &beds, options)?;
        drop(lock);
        guests(env, &ready, options, &report);
        return Ok(report.end());
    }
    let ready = prepare(env, &beds, options, &report);
    drop(lock);
    match ready {
        Err(error) => report.case("set-up", began.elapsed(), &Err(error)),
        Ok(_) if options.host => {}
        Ok(_) if options.fail_fast && report.totals().1 > 0 => {
            report.skipped("guests", "a check on the host failed");
        }
        Ok(ready) => {
            guests(env, &ready, options, &report);
            if Bed::chosen(&[Bed::All])
                .iter()
                .all(|bed| beds.contains(bed))
            {
                report.each_case_ran();
            }
        }
    }
    env.ui
        .say(format!("tested in {:.0} s", began.elapsed().as_secs_f64()));
    Ok(report.end())
}

/// What the guests need, and that there are cases of these names.
///
/// # Errors
/// It cannot be had or compiled, or there is no such case.
pub(crate) fn only_guests(env: &Env, beds: &[Bed], options: &Options) -> Result<Vec<Ready>> {
    let chroot = env.chroot()?;
    env.fetch_crates()?;
    let programs = guest_build::build(env, &chroot)?;
    list(env, &chroot, &programs, &cases_of(&options.filter))?;
    let stock = Session::prepare(env, chroot, false)?;
    beds.iter()
        .map(|bed| {
            let session = stock.on(env, *bed)?;
            let built = session.build(env, &programs)?;
            Ok((session, built))
        })
        .collect()
}

/// Whether what needs boots of its own is asked for.
fn wants(options: &Options, word: &str) -> bool {
    options.filter.is_empty() || options.filter.iter().any(|name| name == word)
}

/// The names of cases among the words of a filter.
fn cases_of(filter: &[String]) -> Vec<String> {
    filter
        .iter()
        .filter(|name| ![DETECTORS, DETERMINISM, LAB, BENCH].contains(&name.as_str()))
        .cloned()
        .collect()
}

/// All checks on the host, and what the guests need.
fn prepare(env: &Env, beds: &[Bed], options: &Options, report: &Report) -> Result<Vec<Ready>> {
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
        let kernel_line = || -> Result<Vec<Session>> {
            let chroot = env.chroot()?;
            let _ = chroot_to_cargo_line.send(chroot.clone());
            let stock = Session::prepare(env, chroot.clone(), false)?;
            host_checks::module(env, &chroot, &stock.tree, report)
                .context("there is no module to test")?;
            host_checks::module_sources(env, &chroot, &stock.tree, report);
            host_checks::other_kernels(env, &chroot, &stock.tree, report);
            if options.host {
                return Ok(Vec::new());
            }
            if beds.iter().any(|bed| bed.recipe().is_some()) {
                kernel_build::source(env, &chroot, &stock.tree.kernel)?;
            }
            side_by_side(beds, |bed| stock.on(env, *bed))
        };
        let sessions = kernel_line();
        // Lets the other line go if the chroot was never sent.
        drop(chroot_to_cargo_line);
        let programs = cargo_line
            .join()
            .map_err(|_| anyhow!("a thread panicked"))?;
        let (sessions, programs) = (sessions?, programs?);
        let built = side_by_side(&sessions, |session| session.build(env, &programs))?;
        sessions
            .into_iter()
            .zip(built)
            .map(|(session, built)| {
                let bed = session.tree.bed;
                // Those for the stock kernel were looked at when they were built.
                if bed == Bed::Vm {
                    host_checks::installation(env, &session, &built, report);
                } else {
                    for module in &built.modules {
                        let chroot = &session.chroot;
                        host_checks::small_frames(env, chroot, bed.name(), report, module);
                    }
                }
                Ok((session, built))
            })
            .collect()
    })
}

/// Does the same for each: a kernel's build has long stretches that one processor works on alone.
///
/// # Errors
/// Of the first for which it cannot be done.
fn side_by_side<T: Sync, R: Send>(
    all: &[T],
    make: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    std::thread::scope(|scope| {
        let make = &make;
        let started: Vec<_> = all
            .iter()
            .map(|one| scope.spawn(move || make(one)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<R>>| {
            let ended = thread.join();
            ended.map_err(|_| anyhow!("a thread panicked"))?
        };
        // All of them end before the first error is told.
        let ended: Vec<_> = started.into_iter().map(join).collect();
        ended.into_iter().collect()
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

/// What one of the lines does next.
enum Job<'a> {
    /// The cases of a bed, and what else it is wanted for.
    Guest(&'a Ready),
    /// An experiment.
    Lab(&'a Ready, lab::Part),
}

/// What is left to do for both lines.
type Jobs<'a> = Mutex<VecDeque<Job<'a>>>;

/// Runs the guests, in two lines: what a clock is running for shares the machine with no more than
/// one other guest, and when it is over the two share what is left.
pub(crate) fn guests(env: &Env, ready: &[Ready], options: &Options, report: &Report) {
    let first = options.seed.unwrap_or_else(random_seed);
    for seed in (0..options.repeat).map(|n| first.wrapping_add(n)) {
        env.ui
            .say(format!("seed {seed} (--seed {seed} repeats this run)"));
        let ended = &|what: String, began: Instant, result: Result<()>| {
            if result.is_err() {
                report.case(&what, began.elapsed(), &result);
            }
        };
        let (simulated, clocked): (Vec<_>, Vec<_>) = ready
            .iter()
            .partition(|(session, _)| session.tree.bed.is_simulated());
        let mut jobs: VecDeque<Job<'_>> = simulated.into_iter().map(Job::Guest).collect();
        for bed in ready {
            if bed.0.tree.bed == Bed::Virtual && wants(options, LAB) {
                let began = Instant::now();
                let whole = !options.filter.is_empty();
                match lab::parts(env, &bed.0, &bed.1, whole, seed, report) {
                    Ok(parts) => jobs.extend(parts.into_iter().map(|part| Job::Lab(bed, part))),
                    Err(error) => ended("lab".into(), began, Err(error)),
                }
            }
        }
        let jobs: &Jobs<'_> = &Mutex::new(jobs);
        let one = &|(session, built): &Ready| {
            let began = Instant::now();
            let result = guest(env, session, built, options, seed, report);
            ended(format!("{}: guest", session.tree.bed), began, result);
        };
        let line = &|| loop {
            let job = jobs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            match job {
                None => return,
                Some(Job::Guest(ready)) => one(ready),
                Some(Job::Lab((session, built), part)) => {
                    lab::one(env, (session, built), LAB_SEED, part, report);
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                if !clocked.is_empty() {
                    let began = Instant::now();
                    let lowered = setpriority_process(None, NICE);
                    let lowered = lowered.context("cannot let the other guests go first");
                    ended("guests".into(), began, lowered);
                }
                line();
            });
            clocked.iter().copied().for_each(one);
            line();
        });
    }
}

fn guest(
    env: &Env,
    session: &Session,
    built: &Built,
    options: &Options,
    seed: u64,
    report: &Report,
) -> Result<()> {
    let bed = session.tree.bed;
    let timeout_scale = match session.machine(env)? {
        Machine::Qemu(Accelerator::Tcg) if bed.has_detectors() => EMULATED_DETECTORS,
        Machine::Qemu(Accelerator::Tcg | Accelerator::Counted | Accelerator::Profiled) => EMULATED,
        Machine::Qemu(Accelerator::Kvm) | Machine::Uml => 1.0,
    };
    let wants = |word| wants(options, word);
    let filter = cases_of(&options.filter);
    if options.filter.is_empty() || !filter.is_empty() {
        let config = RunConfig {
            mode: Mode::Test,
            filter: filter.join(","),
            take: options.take(bed, session.machine(env)?),
            seed,
            timeout_scale,
            ..RunConfig::default()
        };
        test_cases(env, session, built, &config, options, report)?;
    }
    if wants(DETECTORS) {
        let mut built = built.clone();
        built.extra = modules::faults(env, &session.chroot, &session.tree)?;
        if bed == Bed::Vm && !options.filter.is_empty() {
            host_checks::unsound(env, &session.chroot, &session.tree, report);
        }
        detectors::run(env, session, &built, timeout_scale, report)?;
    }
    if bed == Bed::Vm && wants(BENCH) {
        bench::run(env, session, built, bench::Extent::Quick, report)?;
    }
    if bed == Bed::Virtual && wants(DETERMINISM) {
        determinism::run(env, session, built, seed, report)?;
    }
    Ok(())
}

fn test_cases(
    env: &Env,
    session: &Session,
    built: &Built,
    config: &RunConfig,
    options: &Options,
    report: &Report,
) -> Result<()> {
    let limits = Limits {
        overall: Duration::from_secs(options.timeout),
        silence: SILENCE,
    };
    let files = env.src.join("out/test").join(session.tree.bed.name());
    session.boot(env, built, config, |guest| {
        follow::run(env, guest, "test", limits, &files, report)
    })
}

/// A seed that is short enough to be typed.
pub(crate) fn random_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos());
    u64::try_from(now % 1_000_000).unwrap_or(0)
}
