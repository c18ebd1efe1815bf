// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask mutants`: puts small faults into the code, one at a time, and sees whether a test
//! notices.
//!
//! [cargo-mutants](https://mutants.rs) makes the faults and judges them. What it lacks for a
//! workspace as large as this one:
//!
//! - *A sample.* All faults would take a day. Here a seed says which are taken; the same seed takes
//!   the same ones, but for those of lines that have changed ([`sample`]).
//! - *Two passes.* Unit tests are quick and find most faults. What survives them meets the package's
//!   other tests, of those the ones about its folder ([`OTHER_TESTS`]).
//! - *Copies that stay.* Each job has a copy of the checkout in the cache, where it compiles
//!   nothing twice, whatever becomes of the run ([`copy`]).
//! - *Equivalent mutants*, which no test can notice, are known by name ([`EQUIVALENT`]).

mod copy;
mod sample;
mod score;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use self::sample::Mutant;
use self::score::Score;
use crate::env::Env;
use crate::progress::last_lines;

/// The version that is installed.
const VERSION: &str = "26.0.0";
/// The packages of a run that names none, by their folders.
const PACKAGES: &[&str] = &["core", "userspace/netlink"];
/// A test that takes longer with a fault in it hangs, which counts as noticed.
const UNIT_SECONDS: &str = "120";
const OTHER_SECONDS: &str = "400";
/// How often running jobs are looked at, and how often a log that is no terminal hears of them.
const POLL: Duration = Duration::from_millis(200);
const HEARTBEAT: Duration = Duration::from_secs(20);
/// Mutants that behave as the original does, without line and column; a line each.
const EQUIVALENT: &str = include_str!("equivalent.txt");

/// Which of a package's tests beside the unit tests are about a folder, the first that fits; as
/// cargo's `--test` takes them. Of other packages it is all.
const OTHER_TESTS: &[(&str, &[&str])] = &[
    ("core/src/transport", &["transport_*"]),
    ("core/src/pacer", &["pacer_model"]),
    (
        "core/src/port",
        &[
            "port_*",
            "batched",
            "shares",
            "drift",
            "classify_fuzz",
            "markers",
        ],
    ),
    (
        "core/src",
        &[
            "port_*",
            "batched",
            "shares",
            "drift",
            "markers",
            "pacer_model",
            "transport_wire_*",
        ],
    ),
];

/// What the user asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Only mutants of this file or folder, as core/src/port; may be given more than once [default:
    /// core and userspace/netlink]
    #[arg(long = "in", value_name = "FILE|FOLDER")]
    within: Vec<String>,
    /// How many mutants; 0: all
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// Which of them
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many at a time; each has a copy of the checkout and a processor
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Say which mutants it would be, and end
    #[arg(long)]
    list: bool,
}

/// What became of mutants, by name.
type Outcomes = BTreeMap<String, Outcome>;

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// A test failed, or hung.
    Caught,
    /// No test did.
    Missed,
    /// It does not compile, or it is the original under another name.
    Void,
}

/// Runs a sample, and shows the score and who survived; `true` always: a low score is no failure.
///
/// # Errors
/// cargo-mutants cannot be had, there are no such mutants, or tests fail without any.
pub(crate) fn command(env: &Env, options: &Options) -> Result<bool> {
    let began = Instant::now();
    let tool = install(env)?;
    let mutants = choose(env, &tool, options)?;
    if options.list {
        for mutant in &mutants {
            env.ui.result(&mutant.name);
        }
        return Ok(true);
    }
    let root = env.built("mutants")?;
    let jobs = usize::from(options.jobs).min(mutants.len());
    let copies = (0..jobs)
        .map(|job| copy::refresh(&env.src, &root.join(format!("copy-{job}"))))
        .collect::<Result<Vec<PathBuf>>>()?;
    let mut outcomes = Outcomes::new();
    let mut rest: Vec<Mutant> = Vec::new();
    for mutant in mutants.iter().cloned() {
        if sample::is_equivalent(&mutant, EQUIVALENT) {
            outcomes.insert(mutant.name, Outcome::Void);
        } else {
            rest.push(mutant);
        }
    }
    for (package, chosen) in sample::by(&rest, |mutant| mutant.package.clone()) {
        let unit = ["--lib"].map(str::to_owned);
        let what = format!("unit tests of {package}");
        let run = Pass {
            env,
            tool: &tool,
            copies: &copies,
            package: &package,
            what: &what,
        };
        outcomes.extend(run.all(&chosen, &unit, UNIT_SECONDS, true)?);
        let missed: Vec<Mutant> = chosen
            .into_iter()
            .filter(|mutant| outcomes.get(&mutant.name) == Some(&Outcome::Missed))
            .collect();
        for (tests, missed) in sample::by(&missed, |mutant| other_tests(&mutant.file)) {
            let what = format!("{} of {package}", tests.join(" "));
            let run = Pass { what: &what, ..run };
            outcomes.extend(run.all(&missed, &tests, OTHER_SECONDS, false)?);
        }
    }
    let score = Score::of(&mutants, &outcomes);
    env.ui.result(score.table());
    for name in &score.survivors {
        env.ui.result(format!("survived: {name}"));
    }
    env.ui.result(format!(
        "{} of {} caught (seed {}), {:.0} s",
        score.caught(),
        score.judged(),
        options.seed,
        began.elapsed().as_secs_f64()
    ));
    Ok(true)
}

/// What the tests beside the unit tests of a file are, as arguments of `cargo test`.
fn other_tests(file: &str) -> Vec<String> {
    let of = OTHER_TESTS
        .iter()
        .find(|(folder, _)| sample::is_in(file, folder));
    match of {
        Some((_, tests)) => tests.iter().map(|test| format!("--test={test}")).collect(),
        None => vec!["--tests".to_owned()],
    }
}

/// cargo-mutants, compiled into the cache the first time.
fn install(env: &Env) -> Result<PathBuf> {
    let folder = env.cache.folder("cargo-mutants", VERSION, |part| {
        let mut step = env.ui.step("cargo-mutants", "cargo-mutants, once")?;
        // What it does is wait for compilers: it need not be fast itself.
        step.run(
            env.host_cargo(&["install", "cargo-mutants", "--version", VERSION, "--locked"])
                .args(["--debug", "--root"])
                .arg(part),
        )?;
        step.done();
        Ok(())
    })?;
    Ok(folder.join("bin").join("cargo-mutants"))
}

/// The mutants that were asked for.
fn choose(env: &Env, tool: &Path, options: &Options) -> Result<Vec<Mutant>> {
    let within: Vec<&str> = options
        .within
        .iter()
        .map(|one| one.trim_end_matches('/'))
        .collect();
    let folders = match within.is_empty() {
        true => PACKAGES.iter().map(|folder| (*folder).to_owned()).collect(),
        false => packages_of(&env.src, &within)?,
    };
    let mut all = Vec::new();
    for folder in folders {
        let package = package_name(&env.src.join(&folder))?;
        let mut step = env
            .ui
            .step("mutants-list", &format!("mutants of {package}"))?;
        let list = step.output(&mut mutants_in(
            env,
            tool,
            &env.src,
            &["--list", "-p", &package],
        ))?;
        step.done();
        all.extend(
            list.lines()
                .filter_map(|line| Mutant::parse(line, &package)),
        );
    }
    if !within.is_empty() {
        all.retain(|mutant| within.iter().any(|one| sample::is_in(&mutant.file, one)));
    }
    if all.is_empty() {
        bail!("there are no mutants in {}", within.join(", "));
    }
    Ok(sample::choose(all, options.seed, options.count))
}

/// The folders of the packages that these files and folders are in.
fn packages_of(src: &Path, within: &[&str]) -> Result<Vec<String>> {
    let mut folders = Vec::new();
    for one in within {
        if !src.join(one).exists() {
            bail!("--in {one}: there is no such file or folder in the checkout");
        }
        let mut folder = Path::new(one);
        while !src.join(folder).join("Cargo.toml").exists() {
            folder = folder.parent().unwrap_or(Path::new(""));
        }
        let folder = folder.to_string_lossy().into_owned();
        if folder.is_empty() {
            bail!("--in {one}: this is in no package");
        }
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    Ok(folders)
}

/// The `name` in a package's manifest.
fn package_name(folder: &Path) -> Result<String> {
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    text.lines()
        .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
        .map(str::to_owned)
        .with_context(|| format!("no name in {}", manifest.display()))
}

/// cargo-mutants over a copy of the checkout.
fn mutants_in(env: &Env, tool: &Path, checkout: &Path, args: &[&str]) -> Command {
    // For its variables.
    let mut command = Command::new(tool);
    for (name, value) in env.host_cargo(&[]).get_envs() {
        if value.is_none() {
            command.env_remove(name);
        }
    }
    command
        .arg("mutants")
        .arg("--dir")
        .arg(checkout)
        .args(["--colors", "never"])
        .args(args);
    command
}

/// Mutants of a package that meet certain tests.
#[derive(Clone, Copy)]
struct Pass<'a> {
    env: &'a Env,
    tool: &'a Path,
    copies: &'a [PathBuf],
    package: &'a str,
    what: &'a str,
}

impl Pass<'_> {
    /// Has each copy judge a part of the mutants. With `baseline` the tests are first run without
    /// any.
    fn all(
        self,
        mutants: &[Mutant],
        tests: &[String],
        seconds: &str,
        baseline: bool,
    ) -> Result<Outcomes> {
        let mut jobs = Vec::new();
        for (number, copy) in self.copies.iter().enumerate() {
            let part = mutants.iter().skip(number).step_by(self.copies.len());
            let part: Vec<&Mutant> = part.collect();
            if !part.is_empty() {
                jobs.push(self.start(copy, number, &part, tests, seconds, baseline)?);
            }
        }
        let mut outcomes = Outcomes::new();
        let mut progress = Progress::new(self, mutants.len());
        loop {
            outcomes.clear();
            let mut running = false;
            for job in &mut jobs {
                // What is read after the job has ended is all.
                let ended = job.child.try_wait()?;
                read(&job.out, &mut outcomes);
                match ended {
                    None => running = true,
                    Some(status) => job.check(status.code())?,
                }
            }
            if !running {
                break;
            }
            progress.show(&outcomes);
            std::thread::sleep(POLL);
        }
        if outcomes.len() < mutants.len() {
            bail!(
                "{}: cargo-mutants judged {} of {} mutants",
                self.what,
                outcomes.len(),
                mutants.len()
            );
        }
        progress.done(&outcomes);
        Ok(outcomes)
    }

    fn start(
        self,
        copy: &Path,
        number: usize,
        part: &[&Mutant],
        tests: &[String],
        seconds: &str,
        baseline: bool,
    ) -> Result<Job> {
        let out = copy.with_extension("out");
        if out.exists() {
            fs::remove_dir_all(&out).with_context(|| format!("removing {}", out.display()))?;
        }
        fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;
        let log = self.env.cache.logs().join(format!("mutants-{number}.log"));
        let to = fs::File::create(&log).with_context(|| format!("writing {}", log.display()))?;
        let names = sample::pattern(part);
        let baseline = if baseline { "run" } else { "skip" };
        let mut command = mutants_in(self.env, self.tool, copy, &["--in-place", "--no-times"]);
        command
            .args([
                "-p",
                self.package,
                "--profile",
                "mutants",
                "--cap-lints",
                "true",
            ])
            .args(["--baseline", baseline, "--timeout", seconds])
            .args([
                "--build-timeout",
                "600",
                "--no-shuffle",
                "--re",
                &names,
                "--output",
            ])
            .arg(&out)
            .arg("--")
            .args(tests)
            // A processor for each job.
            .env("CARGO_BUILD_JOBS", "1")
            .env("RUST_TEST_THREADS", "1")
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .stdout(to.try_clone()?)
            .stderr(to);
        let child = command.spawn().context("cannot start cargo-mutants")?;
        Ok(Job { child, out, log })
    }
}

/// A running cargo-mutants; ended if it is dropped while it runs.
struct Job {
    child: Child,
    out: PathBuf,
    log: PathBuf,
}

impl Job {
    /// # Errors
    /// It ended for another reason than that it was done.
    fn check(&self, code: Option<i32>) -> Result<()> {
        /// Its exit codes: all caught, some missed, some hung.
        const DONE: [i32; 3] = [0, 2, 3];
        if code.is_some_and(|code| DONE.contains(&code)) {
            return Ok(());
        }
        bail!(
            "cargo-mutants failed; its last words:\n    {}\n  whole log: {}",
            last_lines(&self.log, 12).join("\n    "),
            self.log.display()
        )
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // It may have ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What cargo-mutants has judged so far.
fn read(out: &Path, outcomes: &mut Outcomes) {
    for (list, outcome) in [
        ("caught", Outcome::Caught),
        ("timeout", Outcome::Caught),
        ("missed", Outcome::Missed),
        ("unviable", Outcome::Void),
    ] {
        let path = out.join("mutants.out").join(format!("{list}.txt"));
        // Not there before the first is judged.
        let text = fs::read_to_string(path).unwrap_or_default();
        outcomes.extend(text.lines().map(|name| (name.to_owned(), outcome)));
    }
}

/// Says how far it is.
struct Progress<'a> {
    pass: Pass<'a>,
    all: usize,
    began: Instant,
    spoke: Instant,
}

impl<'a> Progress<'a> {
    fn new(pass: Pass<'a>, all: usize) -> Self {
        let now = Instant::now();
        pass.env
            .ui
            .say(format!("  .. {}: {all} mutants", pass.what));
        Self {
            pass,
            all,
            began: now,
            spoke: now,
        }
    }

    fn line(&self, outcomes: &Outcomes) -> String {
        let missed = outcomes.values().filter(|one| **one == Outcome::Missed);
        format!(
            "{}: {} of {} mutants, {} survive",
            self.pass.what,
            outcomes.len(),
            self.all,
            missed.count()
        )
    }

    fn show(&mut self, outcomes: &Outcomes) {
        if self.spoke.elapsed() >= HEARTBEAT {
            self.spoke = Instant::now();
            let line = self.line(outcomes);
            let seconds = self.began.elapsed().as_secs_f64();
            self.pass
                .env
                .ui
                .say(format!("  .. {line} ({seconds:.0} s)"));
        }
    }

    fn done(self, outcomes: &Outcomes) {
        let line = self.line(outcomes);
        let seconds = self.began.elapsed().as_secs_f64();
        self.pass
            .env
            .ui
            .say(format!("  ok {line} ({seconds:.0} s)"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_of_a_file_are_those_of_its_folder() {
        let of = |file| other_tests(file);
        assert_eq!(of("core/src/transport/slab.rs"), ["--test=transport_*"]);
        assert_eq!(of("core/src/pacer.rs")[0], "--test=port_*");
        assert_eq!(of("core/src/port/line.rs").len(), 6);
        assert_eq!(of("core/src/shaper.rs").len(), 7);
        assert_eq!(of("userspace/netlink/src/attr.rs"), ["--tests"]);
    }

    #[test]
    fn files_and_folders_belong_to_their_packages() {
        let src = crate::env::checkout();
        let of = |within: &[&str]| packages_of(&src, within);
        assert_eq!(
            of(&["core/src/port", "core/src/shaper.rs", "userspace/netlink"]).unwrap(),
            ["core", "userspace/netlink"]
        );
        assert!(of(&["core/src/none.rs"])
            .unwrap_err()
            .to_string()
            .contains("no such file"));
        assert!(of(&["docs"])
            .unwrap_err()
            .to_string()
            .contains("in no package"));
        assert_eq!(package_name(&src.join("core")).unwrap(), "turnstile-core");
    }

    #[test]
    fn equivalent_mutants_are_of_files_that_exist() {
        let src = crate::env::checkout();
        for line in EQUIVALENT.lines().filter(|line| !line.starts_with('#')) {
            let (file, what) = line.split_once(": ").expect(line);
            assert!(src.join(file).is_file() && !what.is_empty(), "{line}");
        }
    }
}
