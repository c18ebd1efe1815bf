// SPDX-License-Identifier: GPL-2.0
//! What every command works with: the checkout, the cache, the chroot.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache::{Cache, SetupLock};
use crate::chroot::{check_machine, Chroot, Entry};
use crate::progress::Ui;

/// Where the checkout is shown in the chroot.
pub(crate) const SRC: &str = "/src";
/// Where a step's output folder is shown in the chroot.
pub(crate) const OUT: &str = "/out";
/// Where the machine's cargo home is shown in the chroot.
const CARGO: &str = "/cargo";
/// The programs in it.
const CARGO_BIN: &str = "/cargo/bin";

/// The checkout, the cache and the way to report.
#[derive(Debug)]
pub(crate) struct Env {
    /// The root of the checkout.
    pub src: PathBuf,
    /// The cache.
    pub cache: Cache,
    /// The way to report.
    pub ui: Ui,
    /// What was built from this checkout, in the cache.
    pub built: PathBuf,
}

impl Env {
    /// Checks the machine and opens the cache.
    ///
    /// # Errors
    /// One line that says what is missing.
    pub(crate) fn open() -> Result<Self> {
        check_machine()?;
        // What is made must be readable for the programs in the chroot whatever the user's mask is.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let cache = Cache::open()?;
        let src = checkout();
        let built = cache.checkout(&src)?;
        let ui = Ui::new(cache.logs());
        Ok(Self {
            src,
            cache,
            ui,
            built,
        })
    }

    /// Waits for other runs to end their set-up, and makes them wait for this one's.
    ///
    /// # Errors
    /// The lock file cannot be used.
    pub(crate) fn lock(&self) -> Result<SetupLock> {
        self.cache.lock(|| {
            self.ui
                .say("waiting for another xtask to finish its set-up")
        })
    }

    /// The chroot; made first if need be.
    ///
    /// # Errors
    /// Those of [`Chroot::prepare`].
    pub(crate) fn chroot(&self) -> Result<Chroot> {
        Chroot::prepare(&self.cache, &self.ui)
    }

    /// A folder of this name for what is built from the checkout.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn built(&self, name: &str) -> Result<PathBuf> {
        let path = self.built.join(name);
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }

    /// A command to be run in the chroot over the checkout, which it cannot write to, with output
    /// to `out`.
    pub(crate) fn enter(&self, chroot: &Chroot, out: &Path) -> Entry {
        chroot.enter().bind(&self.src, SRC).bind_rw(out, OUT)
    }

    /// A cargo command in the chroot, over the crates that the machine's cargo has fetched.
    ///
    /// # Errors
    /// There is no cargo home.
    pub(crate) fn cargo(&self, chroot: &Chroot, out: &Path, args: &[&str]) -> Result<Command> {
        let home = cargo_home().context("neither CARGO_HOME nor HOME is set")?;
        std::fs::create_dir_all(&home)
            .with_context(|| format!("cannot make {}", home.display()))?;
        let mut entry = self.enter(chroot, out).bind_rw(&home, CARGO);
        if home.join("bin").exists() {
            // cargo looks there for its subcommands first, and would find rustup's.
            entry = entry.bind(&self.built("empty")?, CARGO_BIN);
        }
        // Who compiles once only, as CI does, has nothing of what cargo keeps for the next time.
        if let Ok(incremental) = std::env::var("CARGO_INCREMENTAL") {
            entry = entry.env("CARGO_INCREMENTAL", incremental);
        }
        Ok(entry
            .env("CARGO_HOME", CARGO)
            .env("CARGO_TARGET_DIR", OUT)
            .env("CARGO_NET_OFFLINE", "true")
            .env("CARGO_TERM_COLOR", "never")
            // The machine's own cargo settings may name programs that are not in the chroot.
            .env("CARGO_BUILD_RUSTC_WRAPPER", "")
            .env("CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER", "")
            .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", "cc")
            .env("RUSTFLAGS", "")
            .env("RUSTDOCFLAGS", "-Dwarnings")
            .script("cd /src && exec cargo \"$@\"", args))
    }

    /// The machine's cargo, in the checkout.
    pub(crate) fn host_cargo(&self, args: &[&str]) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.current_dir(&self.src).args(args);
        // Those that cargo set for xtask are not meant for another cargo.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(name.as_ref());
            }
        }
        cargo
    }

    /// Has the machine's cargo fetch the crates of the lock file: it has the settings for its
    /// registry.
    ///
    /// # Errors
    /// A crate cannot be had, or the lock file does not fit.
    pub(crate) fn fetch_crates(&self) -> Result<()> {
        let mut step = self.ui.step("crates", "crates of the lock file")?;
        step.run(&mut self.host_cargo(&[
            "fetch",
            "--locked",
            "--target",
            "x86_64-unknown-linux-gnu",
        ]))?;
        step.done();
        Ok(())
    }
}

/// The root of the checkout that xtask was built from, whatever folder it is run in.
pub(crate) fn checkout() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

fn cargo_home() -> Option<PathBuf> {
    std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))
}
