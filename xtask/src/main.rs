// SPDX-License-Identifier: GPL-2.0
//! `cargo xtask`: the host side of every job. Sets up what is missing, builds, boots, tests,
//! demonstrates.
//!
//! Everything but mmdebstrap and cargo comes from a Debian chroot in the cache folder, so that the
//! machine hardly matters. The modules, in the order in which a run goes through them: [`cache`],
//! [`chroot`], [`kernel`] and [`kernel_build`], [`modules`], [`guest_build`], [`image`], [`guest`]
//! with [`qemu`] and [`uml`]; [`mod@test`], [`fuzz`], [`lab`], [`mod@bench`] and [`demo`] put them
//! to use.
//! [`mutants`] needs none of them.

mod bed;
mod bench;
mod cache;
mod check_ko;
mod chroot;
mod columns;
#[path = "../../vm-tests/src/complaints.rs"]
mod complaints;
mod cpio;
mod demo;
mod detectors;
mod determinism;
mod env;
mod events;
mod export;
mod follow;
mod frames;
mod fuzz;
mod guest;
mod guest_build;
mod host_checks;
mod image;
mod kernel;
mod kernel_build;
mod lab;
mod log_scan;
mod modules;
mod mutants;
mod progress;
mod qemu;
mod report;
mod session;
mod tables;
mod test;
mod uml;
mod versions;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::bed::Bed;
use crate::env::Env;
use crate::session::Session;

const AFTER_HELP: &str = "\
Environment:
  TURNSTILE_CACHE    cache folder [default: $XDG_CACHE_HOME/turnstile or ~/.cache/turnstile]
  TURNSTILE_MIRROR   URL of the Debian mirror, ending in /debian
                     [default: the one this machine's apt uses]
  TURNSTILE_KERNEL   kernel series or version, as 7.2 or 7.2.12+deb13
                     [default: the newest that is tested]

Needs root, apt (Debian or alike), and network for the first run. What is made is kept in the cache
folder.";

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Builds, tests and demonstrates Turnstile in a VM with \
                                         Debian's stock kernel", after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Job,
}

#[derive(Debug, Subcommand)]
enum Job {
    /// Make what the other commands need: Debian chroot, kernel, build tree. They do it by
    /// themselves when needed
    Setup {
        /// Look for a newer kernel than the one chosen before
        #[arg(long)]
        refresh: bool,
        /// Kernels to make ready
        #[arg(long, value_enum, value_delimiter = ',', default_value = "vm")]
        bed: Vec<Bed>,
    },
    /// Compile the kernel modules and the programs, and lay them out in out/KERNEL-RELEASE with a
    /// script that installs them
    Build {
        /// Kernel series or version to build the modules for, as 7.3; it need not be one that can
        /// be booted
        #[arg(long, value_name = "VERSION")]
        kernel: Option<String>,
    },
    /// Show what the port and the transport do, beside what stock parts do: tables here, pictures
    /// in out/demo.svg and out/demo-messages.svg
    Demo(demo::Options),
    /// Count instructions per packet, Turnstile's and those of the stock qdiscs, and per message,
    /// Turnstile's and those of TCP and UDP. The last line is `N passed, N failed`
    Bench(bench::Options),
    /// Make random system calls on all that the modules can be reached by, under KASAN and lockdep,
    /// run after run. The last line is `N passed, N failed`
    Fuzz(fuzz::Options),
    /// Put faults into the code, one at a time, and see whether a test notices. Score by folder,
    /// and those that none noticed
    Mutants(mutants::Options),
    /// Run experiments in virtual time: a paper's figure or table on the real kernel code; tables,
    /// pictures and captures go to out/lab
    Lab(lab::Options),
    /// Run the tests: on the host, then in the guest. The last line is `N passed, N failed`
    Test(test::Options),
    /// A shell in the guest; `exit` switches it off, Ctrl-A X kills it
    Vm,
    /// Remove what was built from this checkout
    Clean {
        /// Remove the whole cache folder: chroot, kernels, and what was built from all checkouts
        #[arg(long)]
        all: bool,
    },
}

fn main() -> ExitCode {
    let began = Instant::now();
    match run(Cli::parse().command, began) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does the job; `false` if something that was looked at is not as it should be.
fn run(job: Job, began: Instant) -> Result<bool> {
    match job {
        Job::Setup { refresh, bed } => {
            let env = Env::open()?;
            let lock = env.lock()?;
            let stock = Session::prepare(&env, env.chroot()?, refresh)?;
            for bed in Bed::chosen(&bed) {
                stock.on(&env, bed)?;
            }
            drop(lock);
            say_time(&env, "set up", began);
        }
        Job::Build { kernel } => {
            let env = Env::open()?;
            let _lock = env.lock()?;
            session::build(&env, kernel.as_deref())?;
            say_time(&env, "built", began);
        }
        Job::Demo(options) => return demo::run(&options),
        Job::Bench(options) => return bench::command(&Env::open()?, &options),
        Job::Fuzz(options) => return fuzz::run(&Env::open()?, &options),
        Job::Mutants(options) => return mutants::command(&Env::open()?, &options),
        Job::Lab(options) => return lab::run(&options),
        Job::Test(options) => return test::run(&Env::open()?, &options),
        Job::Vm => {
            let env = Env::open()?;
            session::shell(&env)?;
        }
        Job::Clean { all } => clean(all)?,
    }
    Ok(true)
}

fn clean(all: bool) -> Result<()> {
    chroot::check_machine()?;
    if all {
        let (root, was) = cache::remove_all()?;
        let done = if was { "removed" } else { "nothing at" };
        println!("{done} {}", root.display());
        return Ok(());
    }
    let env = Env::open()?;
    let _lock = env.lock()?;
    for path in [env.built.clone(), env.src.join("out")] {
        if path.exists() {
            cache::remove_tree(&path)?;
            println!("removed {}", path.display());
        }
    }
    Ok(())
}

fn say_time(env: &Env, what: &str, began: Instant) {
    env.ui
        .say(format!("{what} in {:.0} s", began.elapsed().as_secs_f64()));
}
