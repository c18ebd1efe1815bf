// SPDX-License-Identifier: GPL-2.0
//! The checks that need no guest: unit tests, formatting, lints, documentation, and a look into the
//! module.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;

use crate::check_ko;
use crate::chroot::Chroot;
use crate::columns;
use crate::env::Env;
use crate::export;
use crate::kernel::{self, KernelTree, NotOffered};
use crate::modules;
use crate::report::{reason, Report};
use crate::session::{Built, Session};

/// Runs the unit tests of all crates with the machine's cargo, which needs no set-up.
pub(crate) fn unit_tests(env: &Env, report: &Report) {
    const NAME: &str = "host: unit tests";
    let began = Instant::now();
    let run = || -> Result<(Result<()>, String)> {
        let mut step = env.ui.step("unit-tests", "unit tests")?;
        let result =
            step.run(&mut env.host_cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]));
        let log = std::fs::read_to_string(step.log_path())?;
        if result.is_ok() {
            step.done();
        }
        Ok((result, log))
    };
    let (result, log) = match run() {
        Ok(ended) => ended,
        Err(error) => return report.case(NAME, began.elapsed(), &Err(error)),
    };
    let (passed, failed) = totals(&log);
    if passed > 0 {
        report.passed(NAME, began.elapsed(), passed);
    }
    if let Err(error) = result {
        let names: Vec<&str> = log
            .lines()
            .filter(|line| line.starts_with("test ") && line.ends_with(" ... FAILED"))
            .collect();
        let why = format!("{}\n{}", names.join("\n"), reason(&error));
        // Without a count it is the compiler that failed.
        report.failed(NAME, began.elapsed(), failed.max(1), why.trim_start());
    }
}

/// Formatting, lints and documentation of all crates, with the compiler that builds the guest's
/// programs.
pub(crate) fn lints(env: &Env, chroot: &Chroot, report: &Report) {
    let checks: [(&str, &str, &[&str]); 3] = [
        ("host: formatting", "fmt", &["fmt", "--all", "--check"]),
        (
            "host: clippy",
            "clippy",
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--locked",
                "--keep-going",
                "--",
                "-D",
                "warnings",
            ],
        ),
        (
            "host: documentation",
            "doc",
            &["doc", "--workspace", "--no-deps", "--locked"],
        ),
    ];
    timed(report, "host: lines of at most 100 characters", || {
        columns::check(&env.src)
    });
    for (name, log, args) in checks {
        timed(report, name, || {
            let out = env.built(&format!("lints-{}", chroot.key()))?;
            let mut step = env.ui.step(log, name.trim_start_matches("host: "))?;
            step.run(&mut env.cargo(chroot, &out, args)?)?;
            step.done();
            Ok(())
        });
    }
}

/// The crates that only the kernel's build compiles, not cargo's.
const MODULE_CRATES: &[&str] = &[
    "knet/common/src/lib.rs",
    "knet/qdisc/src/lib.rs",
    "knet/transport/src/lib.rs",
    "qdisc/src/lib.rs",
    "kmod/src/lib.rs",
    "knet/examples/fifo.rs",
    "beds/faults/hostile.rs",
];

/// Builds the modules for a kernel and looks into them. Returns them if they were built.
pub(crate) fn module(
    env: &Env,
    chroot: &Chroot,
    tree: &KernelTree,
    report: &Report,
) -> Option<Vec<PathBuf>> {
    let release = &tree.release;
    let mut modules = None;
    timed(report, &format!("module: builds for {release}"), || {
        modules = Some(modules::build(env, chroot, tree)?);
        Ok(())
    });
    let examples = modules.iter().flat_map(|_| modules::examples(env, tree));
    let examples: Vec<PathBuf> = examples.flatten().collect();
    for module in modules.iter().flatten().chain(&examples) {
        inspect(env, chroot, tree, report, module);
    }
    modules
}

fn inspect(env: &Env, chroot: &Chroot, tree: &KernelTree, report: &Report, module: &Path) {
    let series = tree.kernel.series();
    let name = module.file_stem().unwrap_or_default().to_string_lossy();
    timed(
        report,
        &format!("module: refers to no Rust panic ({name}, {series})"),
        || check_ko::no_panic(env, chroot, module),
    );
    timed(
        report,
        &format!("module: needs only exported symbols ({name}, {series})"),
        || check_ko::only_exported(env, chroot, tree, module),
    );
    small_frames(env, chroot, series, report, module);
    timed(
        report,
        &format!("module: version magic is the kernel's ({name}, {series})"),
        || check_ko::vermagic(env, chroot, tree, module),
    );
    timed(
        report,
        &format!("module: says its version ({name}, {series})"),
        || check_ko::version(env, chroot, module),
    );
}

/// Looks at how much stack the functions of a module take that was built for `kernel`: each
/// compiler and each configuration lays it out anew.
pub(crate) fn small_frames(
    env: &Env,
    chroot: &Chroot,
    kernel: &str,
    report: &Report,
    module: &Path,
) {
    let name = module.file_stem().unwrap_or_default().to_string_lossy();
    timed(
        report,
        &format!("module: no function takes much stack ({name}, {kernel})"),
        || check_ko::small_frames(env, chroot, module),
    );
}

/// Lays out what a machine with the stock kernel is to have, and installs it into a folder.
pub(crate) fn installation(env: &Env, session: &Session, built: &Built, report: &Report) {
    let (chroot, tree) = (&session.chroot, &session.tree);
    let name = format!(
        "install.sh: what it installs goes away again ({})",
        tree.release
    );
    timed(report, &name, || {
        let out = export::export(env, chroot, tree, &built.modules, &built.programs)?;
        export::check(env, chroot, &tree.release, &out)
    });
}

/// The modules that knet must make impossible; a case each.
pub(crate) fn unsound(env: &Env, chroot: &Chroot, tree: &KernelTree, report: &Report) {
    let began = Instant::now();
    match modules::unsound(env, chroot, tree) {
        Ok(results) => {
            for (name, result) in results {
                let what = match name.as_str() {
                    "sound" | "transport_sound" => {
                        format!("module: knet lets a sound module be ({name})")
                    }
                    name => format!("module: knet makes impossible: {name}"),
                };
                report.case(&what, began.elapsed(), &result);
            }
        }
        Err(error) => report.case("module: unsound ones", began.elapsed(), &Err(error)),
    }
}

/// What is looked at in the sources of the modules, once whatever the kernels are.
pub(crate) fn module_sources(env: &Env, chroot: &Chroot, tree: &KernelTree, report: &Report) {
    timed(report, "module: no unsafe code in qdisc/ and kmod/", || {
        check_ko::crates_are_safe(env)
    });
    timed(report, "module: formatting", || {
        let out = env.built(&format!("lints-{}", chroot.key()))?;
        let mut step = env.ui.step("fmt-modules", "formatting of the modules")?;
        let check = "cd /src && exec rustfmt --edition 2021 --check \"$@\"";
        step.run(&mut env.enter(chroot, &out).script(check, MODULE_CRATES))?;
        step.done();
        Ok(())
    });
    timed(report, "module: clippy", || {
        modules::clippy(env, chroot, tree)
    });
    unsound(env, chroot, tree, report);
}

/// Builds the modules for the other kernel series that they are to build for, where the mirror has
/// them.
pub(crate) fn other_kernels(env: &Env, chroot: &Chroot, booted: &KernelTree, report: &Report) {
    for series in crate::versions::BUILT {
        if *series == booted.kernel.series() {
            continue;
        }
        let began = Instant::now();
        match kernel::prepare(&env.cache, chroot, &env.ui, Some(series), false, false) {
            Ok(tree) => drop(module(env, chroot, &tree, report)),
            Err(error) if error.is::<NotOffered>() => {
                report.skipped(&format!("module: builds for {series}"), &reason(&error));
            }
            Err(error) => report.case(
                &format!("module: builds for {series}"),
                began.elapsed(),
                &Err(error),
            ),
        }
    }
}

fn timed(report: &Report, name: &str, check: impl FnOnce() -> Result<()>) {
    let began = Instant::now();
    let result = check();
    report.case(name, began.elapsed(), &result);
}

/// Passed and failed tests, from the summary lines of `cargo test`.
fn totals(log: &str) -> (usize, usize) {
    let mut sums = (0, 0);
    for line in log.lines().filter_map(|l| l.strip_prefix("test result: ")) {
        let number = |word: &str| {
            let (before, _) = line.split_once(word)?;
            before.rsplit(' ').find(|w| !w.is_empty())?.parse().ok()
        };
        sums.0 += number("passed;").unwrap_or(0);
        sums.1 += number("failed;").unwrap_or(0);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::totals;

    #[test]
    fn the_summaries_of_all_crates_are_added() {
        let log = "running 3 tests\n\
                   test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; \
                   finished in 0.00s\n\
                   test result: FAILED. 10 passed; 2 failed; 0 ignored; 0 measured; 0 filtered \
                   out\n";
        assert_eq!(totals(log), (13, 2));
        assert_eq!(totals("error[E0001]: no\n"), (0, 0));
    }
}
