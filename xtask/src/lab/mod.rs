// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask lab`: experiments in virtual time. The guest measures (`vm-tests/src/lab`); here
//! its findings become a table and a picture, and two runs are compared.

#[cfg(test)]
mod example;
mod picture;
mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use crate::bed::Bed;
use crate::determinism::{difference, on_a_busy_machine, output};
use crate::env::{checkout, Env, OUT};
use crate::follow;
use crate::guest::{Limits, Nobody};
use crate::report::Report;
use crate::session::{Built, Session};
use turnstile_test_protocol::lab::Findings;
use turnstile_test_protocol::run::{Mode, RunConfig};

/// The longest an experiment may take.
const LIMITS: Limits = Limits {
    // Half of that, on a machine that has nothing else to do.
    overall: Duration::from_secs(40 * 60),
    // An experiment speaks before each of its parts, and in long ones.
    silence: Duration::from_secs(8 * 60),
};

/// Where the findings go.
const OUT_FOLDER: &str = "out/lab";

/// What the user asked for.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Experiments to run; `list` prints their names, `all` runs all
    #[arg(value_name = "NAME", default_value = "list")]
    names: Vec<String>,
    /// Measure nothing: show the figures of an earlier run again, from its JSON
    #[arg(long, value_name = "FILE", conflicts_with_all = ["names", "twice", "seed"])]
    from: Option<PathBuf>,
    /// Run each again, on a machine kept busy, and compare every byte
    #[arg(long)]
    twice: bool,
    /// Seed of all that is random in them
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Experiments that take half a minute or more: a run of all tests does each once. `cargo xtask
/// test lab` and `cargo xtask lab all --twice` repeat them too.
const LONG: &[&str] = &[
    "convergence",
    "fairness",
    "parking-lot",
    "two-way",
    "loads",
    "incast-transport",
    "hull-static",
    "hull-dynamic",
    "ren-burst",
];

/// They take minutes each, and are run by name.
const BY_NAME: &[&str] = &[
    "loads-sockets",
    "loads-web-search",
    "loads-data-mining",
    "loads-hadoop",
    "loads-cache-followers",
    "two-way-long",
    "tcd-fairness",
    "tcd-fairness-timely",
    "tcd-victim",
    "tcd-workloads",
];

/// All that a run left, by file.
type Files = BTreeMap<String, Vec<u8>>;

/// Runs experiments; `false` if something that is claimed does not hold, or two runs differ.
///
/// # Errors
/// What is needed cannot be had or compiled, or there is no such experiment.
pub(crate) fn run(options: &Options) -> Result<bool> {
    if let Some(file) = &options.from {
        return again(file);
    }
    let env = &Env::open()?;
    let lock = env.lock()?;
    let (session, built) = Session::prepare_and_build(env, Bed::Virtual)?;
    drop(lock);
    let known = list(env, &session, &built)?;
    let names = match options.names.as_slice() {
        [word] if word == "list" => {
            for (name, title) in &known {
                env.ui.result(format!("{name:<18} {title}"));
            }
            return Ok(true);
        }
        [word] if word == "all" => known.into_iter().map(|(name, _)| name).collect(),
        names => chosen(names, &known)?,
    };
    let report = Report::new(env.ui.clone());
    let (twice, seed) = (options.twice, options.seed);
    experiments(env, &session, &built, &names, twice, seed, &report);
    Ok(report.end())
}

/// An experiment of a run of all tests.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    name: String,
    /// Again on a busy machine, and the same bytes.
    twice: bool,
}

/// All experiments but those that are [run by name](BY_NAME), the longest first. They are done
/// twice; or, if not `whole`, of the [`LONG`] ones a third, by the run's seed, once.
///
/// # Errors
/// The guest's program does not tell what experiments there are.
pub(crate) fn parts(
    env: &Env,
    session: &Session,
    built: &Built,
    whole: bool,
    seed: u64,
    report: &Report,
) -> Result<Vec<Part>> {
    let known = list(env, session, built)?;
    let mut special = LONG.iter().chain(BY_NAME);
    if let Some(gone) = special.find(|special| !known.iter().any(|(name, _)| name == *special)) {
        bail!("{gone} is no experiment any more: take it out of LONG and BY_NAME");
    }
    let names = known.into_iter().map(|(name, _)| name);
    let names = names.filter(|name| !BY_NAME.contains(&name.as_str()));
    let (long, short): (Vec<_>, Vec<_>) = names.partition(|name| LONG.contains(&name.as_str()));
    let numbered = (seed % 3..).zip(long);
    let (long, others): (Vec<_>, Vec<_>) = numbered.partition(|(at, _)| whole || at % 3 == 0);
    let name = |(_, name): (u64, String)| name;
    let long = long.into_iter().map(name);
    if !others.is_empty() {
        let others: Vec<_> = others.into_iter().map(name).collect();
        let why = format!("cargo xtask test lab has {}", others.join(", "));
        report.skipped("lab: two thirds of the long ones", &why);
    }
    let why = format!("cargo xtask lab NAME: {}", BY_NAME.join(", "));
    report.skipped("lab: what takes minutes", &why);
    let part = |twice| move |name| Part { name, twice };
    let long = long.map(part(whole));
    Ok(long.chain(short.into_iter().map(part(true))).collect())
}

/// Does one of the [`parts`]; each claim and each comparison is a case of `report`.
pub(crate) fn one(
    env: &Env,
    (session, built): (&Session, &Built),
    seed: u64,
    part: Part,
    report: &Report,
) {
    experiments(env, session, built, &[part.name], part.twice, seed, report);
}

fn experiments(
    env: &Env,
    session: &Session,
    built: &Built,
    names: &[String],
    twice: bool,
    seed: u64,
    report: &Report,
) {
    for name in names {
        let began = Instant::now();
        if let Err(error) = experiment(env, session, built, name, twice, seed, report) {
            report.case(&format!("lab: {name}"), began.elapsed(), &Err(error));
        }
    }
}

/// Shows an earlier run's findings; `false` if something that is claimed does not hold.
fn again(file: &Path) -> Result<bool> {
    let json = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let findings = read(&json).with_context(|| file.display().to_string())?;
    let out = checkout().join(OUT_FOLDER);
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let name = findings.name.clone();
    let files = with_views(&name, Files::from([(format!("{name}.json"), json)]))?;
    print!("{}", show(&name, &files, &out)?);
    Ok(findings.claims.iter().all(|claim| claim.holds))
}

/// Writes the table and the picture into the folder `out`; returns the table.
fn show(name: &str, files: &Files, out: &Path) -> Result<String> {
    for suffix in ["txt", "svg"] {
        let file = format!("{name}.{suffix}");
        let path = out.join(&file);
        fs::write(&path, &files[&file])
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(String::from_utf8_lossy(&files[&format!("{name}.txt")]).into_owned())
}

/// Those of these names.
fn chosen(names: &[String], known: &[(String, String)]) -> Result<Vec<String>> {
    for name in names {
        if !known.iter().any(|(known, _)| known == name) {
            let known: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
            bail!(
                "NAME: \"{name}\" is not one of list, all, {}",
                known.join(", ")
            );
        }
    }
    Ok(names.to_vec())
}

/// Names and titles of all experiments, as the guest's program knows them.
fn list(env: &Env, session: &Session, built: &Built) -> Result<Vec<(String, String)>> {
    let out = env
        .enter(&session.chroot, &built.programs.path(""))
        .command(&format!("{OUT}/vm-tests"), ["--lab-list"])
        .output()?;
    if !out.status.success() {
        bail!("{}", String::from_utf8_lossy(&out.stderr).trim());
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    Ok(lines
        .map(|(name, title)| (name.to_owned(), title.to_owned()))
        .collect())
}

fn experiment(
    env: &Env,
    session: &Session,
    built: &Built,
    name: &str,
    twice: bool,
    seed: u64,
    report: &Report,
) -> Result<()> {
    let began = Instant::now();
    let out = env.src.join(OUT_FOLDER);
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    remove_old(&out, name)?;
    let config = RunConfig {
        mode: Mode::Lab,
        filter: name.into(),
        seed,
        timeout_scale: 1.0,
        ..RunConfig::default()
    };
    let first = session.boot(env, built, &config, |guest| {
        follow::run(env, guest, &format!("lab-{name}"), LIMITS, &out, report)?;
        output(guest.run)
    })?;
    let first = with_views(name, first)?;
    let text = show(name, &first, &out)?;
    env.ui.result(format!("\n{text}"));
    let findings = read(&first[&format!("{name}.json")])?;
    let broken: Vec<&str> = findings
        .claims
        .iter()
        .filter(|claim| !claim.holds)
        .map(|claim| claim.text.as_str())
        .collect();
    let case = format!("lab: {name}: what is claimed holds");
    if findings.claims.is_empty() {
        // A case that cannot fail would show nothing.
        report.skipped(&case, "it is a baseline and claims nothing");
    } else if broken.is_empty() {
        report.passed(&case, began.elapsed(), 1);
    } else {
        report.failed(&case, began.elapsed(), 1, &broken.join("\n"));
    }
    if twice {
        let began = Instant::now();
        let again = on_a_busy_machine(|| {
            session.boot(env, built, &config, |guest| {
                let outcome = guest.run(LIMITS, &mut Nobody)?;
                if let Some(why) = outcome.died {
                    bail!("{why}");
                }
                output(guest.run)
            })
        })?;
        compare(name, &first, &with_views(name, again)?, began, report);
    }
    env.ui.say(format!(
        "in {}: {name}.txt, {name}.svg, {name}.json and captures",
        out.display()
    ));
    Ok(())
}

/// A failed run must not show the figures of an earlier one.
fn remove_old(out: &Path, name: &str) -> Result<()> {
    for entry in fs::read_dir(out).with_context(|| format!("cannot read {}", out.display()))? {
        let path = entry?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let mine = file
            .strip_prefix(name)
            .is_some_and(|rest| rest.starts_with(['.', '-']));
        if mine {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Adds the table and the picture to what a run left.
fn with_views(name: &str, mut files: Files) -> Result<Files> {
    let json = files
        .get(&format!("{name}.json"))
        .context("the guest left no findings; its log says why")?;
    let findings = read(json)?;
    files.insert(format!("{name}.txt"), table::render(&findings).into_bytes());
    files.insert(
        format!("{name}.svg"),
        picture::draw(&findings)?.into_bytes(),
    );
    Ok(files)
}

fn read(json: &[u8]) -> Result<Findings> {
    serde_json::from_slice(json).context("not the findings of an experiment")
}

fn compare(name: &str, first: &Files, again: &Files, began: Instant, report: &Report) {
    let bytes: usize = first.values().map(Vec::len).sum();
    let case = format!(
        "lab: {name}: same bytes on a busy machine ({} files, {} kB)",
        first.len(),
        bytes / 1000
    );
    match difference(first, again) {
        None => report.passed(&case, began.elapsed(), 1),
        Some(why) => report.failed(&case, began.elapsed(), 1, &why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let known = [("a".to_owned(), "first".to_owned())];
        assert_eq!(chosen(&["a".into()], &known).unwrap(), ["a"]);
        let why = chosen(&["b".into()], &known).unwrap_err().to_string();
        assert!(
            why.contains("\"b\"") && why.contains("list, all, a"),
            "{why}"
        );
    }

    #[test]
    fn only_an_experiments_own_files_are_removed() {
        let out = std::env::temp_dir().join(format!("turnstile-lab-{}", std::process::id()));
        fs::create_dir_all(&out).unwrap();
        for file in ["share.txt", "share-one.pcap", "shares.txt", "incast.txt"] {
            fs::write(out.join(file), "x").unwrap();
        }
        remove_old(&out, "share").unwrap();
        let mut left: Vec<_> = fs::read_dir(&out)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        fs::remove_dir_all(&out).unwrap();
        assert_eq!(left, ["incast.txt", "shares.txt"]);
    }

    #[test]
    fn a_run_without_findings_is_an_error() {
        assert!(with_views("x", Files::new()).is_err());
    }
}
