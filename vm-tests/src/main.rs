// SPDX-License-Identifier: GPL-2.0
//! `vm-tests`: runs the test cases, or the demonstration, inside the guest.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use vm_tests::cases;
use vm_tests::events::{Event, Events};
use vm_tests::harness::{run_all, run_here, Case, Options, CLEANUP};
use vm_tests::planted;

use turnstile_test_protocol::bench::QUICK;
use turnstile_test_protocol::run::Take;

const USAGE: &str = "\
usage: vm-tests [--seed N] [--timeout-scale F] [--take PART] [NAME…]
                                        run the cases whose names contain a NAME; without, all;
                                        --take fast: those that need a kernel without sanitizers;
                                        --take third: those that need what this bed alone has,
                                        and a third of the others, by the seed
       vm-tests --list [NAME…]          print their names
       vm-tests --demo                  run the demonstration
       vm-tests --lab NAME              run an experiment (in virtual time)
       vm-tests --lab-list              print their names and titles
       vm-tests --planted [NAME…]       run the cases that commit a fault and must fail
       vm-tests --bench [quick]         count instructions per packet; for a guest made for it
       vm-tests --bench-profile ROW     the same of one row of messages, instruction by instruction
       vm-tests --bench-list            print the rows' names
       vm-tests --in-this-process NAME  run one case without time limit or checks afterwards";

enum Job {
    Run,
    Planted,
    List,
    Demo,
    Bench,
    BenchProfile,
    BenchList,
    Lab,
    LabList,
    Here(String),
}

fn main() -> ExitCode {
    match work() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<bool> {
    let mut job = Job::Run;
    let mut options = Options {
        seed: 1,
        timeout_scale: 1.0,
        cleanup: CLEANUP,
        lockdep: true,
    };
    let mut names = Vec::new();
    let mut take = Take::All;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || {
            arguments
                .next()
                .with_context(|| format!("{argument} needs a value\n{USAGE}"))
        };
        match argument.as_str() {
            "--list" => job = Job::List,
            "--take" => take = value()?.parse().map_err(anyhow::Error::msg)?,
            "--demo" => job = Job::Demo,
            "--lab" => job = Job::Lab,
            "--lab-list" => job = Job::LabList,
            "--planted" => job = Job::Planted,
            "--bench" => job = Job::Bench,
            "--bench-profile" => job = Job::BenchProfile,
            "--bench-list" => job = Job::BenchList,
            "--in-this-process" => job = Job::Here(value()?),
            "--seed" => options.seed = value()?.parse().context("--seed takes a number")?,
            "--timeout-scale" => {
                options.timeout_scale =
                    value()?.parse().context("--timeout-scale takes a number")?;
            }
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(true);
            }
            flag if flag.starts_with('-') => bail!("{flag}: unknown\n{USAGE}"),
            name => names.push(name.to_owned()),
        }
    }
    match job {
        Job::Run => {
            let mut all = cases::all();
            all.retain(|case| case.is_taken(take, options.seed));
            reported(run(all, &names, options))
        }
        Job::Planted => {
            // What is left behind there stays.
            options.cleanup = Duration::from_secs(2);
            options.lockdep = false;
            reported(run(planted::CASES.iter().collect(), &names, options))
        }
        Job::List => {
            for case in chosen(cases::all(), &names)? {
                println!("{}", case.name);
            }
            Ok(true)
        }
        Job::Demo => reported(vm_tests::demo::run()),
        Job::Bench => reported(vm_tests::bench::run(names.iter().any(|name| name == QUICK))),
        Job::BenchProfile => reported(profile(&names)),
        Job::BenchList => {
            for name in vm_tests::bench::rows() {
                println!("{name}");
            }
            Ok(true)
        }
        Job::LabList => {
            for experiment in vm_tests::lab::EXPERIMENTS {
                println!("{}\t{}", experiment.name, experiment.title);
            }
            Ok(true)
        }
        Job::Lab => reported(experiment(&names, options.seed)),
        Job::Here(name) => {
            let case = cases::all()
                .into_iter()
                .chain(planted::CASES)
                .find(|case| case.name == name)
                .with_context(|| format!("no case {name}"))?;
            run_here(case, options.seed).map(|()| true)
        }
    }
}

/// Tells the host, which waits for a last word, that a whole run failed.
fn reported(result: Result<bool>) -> Result<bool> {
    if let Err(error) = &result {
        let events = Events::from_env();
        events.send(&Event::Fail {
            case: "vm-tests".into(),
            ms: 0,
            why: format!("{error:#}"),
        });
        events.send(&Event::Done {
            passed: 0,
            failed: 1,
        });
    }
    result
}

/// Runs the one row that is named.
fn profile(names: &[String]) -> Result<bool> {
    match names {
        [name] => vm_tests::bench::profile(name),
        _ => bail!("--bench-profile takes the name of one row"),
    }
}

/// Runs the one experiment that is named.
fn experiment(names: &[String], seed: u64) -> Result<bool> {
    match names {
        [name] => vm_tests::lab::run(name, seed),
        _ => bail!("--lab takes the name of one experiment"),
    }
}

fn run(all: Vec<&'static Case>, names: &[String], options: Options) -> Result<bool> {
    run_all(&chosen(all, names)?, options)
}

/// The cases whose names contain one of `names`.
fn chosen(mut all: Vec<&'static Case>, names: &[String]) -> Result<Vec<&'static Case>> {
    for name in names {
        if !all.iter().any(|case| case.name.contains(name.as_str())) {
            bail!("no case's name contains {name}; vm-tests --list prints them");
        }
    }
    all.retain(|case| {
        let named = |name: &String| match case.by_name {
            true => case.name == name,
            false => case.name.contains(name.as_str()),
        };
        names.iter().any(named) || names.is_empty() && !case.by_name
    });
    Ok(all)
}
