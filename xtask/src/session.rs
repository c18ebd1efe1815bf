// SPDX-License-Identifier: GPL-2.0
//! From nothing to a guest that can be booted: the steps in their order, side by side where they do
//! not wait for each other.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{anyhow, Context, Result};
use turnstile_test_protocol::run::{Mode, RunConfig};

use crate::bed::Bed;
use crate::cache::remove_tree;
use crate::chroot::Chroot;
use crate::env::Env;
use crate::export::export;
use crate::guest::{Guest, Machine};
use crate::guest_build::{self, GuestPrograms};
use crate::image::{self, Base};
use crate::kernel::{self, KernelTree};
use crate::kernel_build;
use crate::modules;
use crate::qemu;

/// What every run of the guest on one bed needs and no change of the sources touches.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    /// The Debian that all is made in.
    pub chroot: Chroot,
    /// The kernel that is booted.
    pub tree: KernelTree,
    /// Tools and stock modules of the guest.
    pub base: Base,
}

/// What is compiled from the checkout for a run of the guest.
#[derive(Clone, Debug)]
pub(crate) struct Built {
    /// Our modules.
    pub modules: Vec<PathBuf>,
    /// Modules that only tests load.
    pub extra: Vec<PathBuf>,
    /// Our programs.
    pub programs: GuestPrograms,
}

impl Session {
    /// Sets up the stock kernel's. `refresh` looks for a newer kernel.
    ///
    /// # Errors
    /// Whatever cannot be had.
    pub(crate) fn prepare(env: &Env, chroot: Chroot, refresh: bool) -> Result<Self> {
        let tree = kernel::prepare(&env.cache, &chroot, &env.ui, None, true, refresh)?;
        let base = image::base(env, &chroot, &tree)?;
        Ok(Self { chroot, tree, base })
    }

    /// The same version of the kernel on another bed.
    ///
    /// # Errors
    /// Its kernel cannot be built.
    pub(crate) fn on(&self, env: &Env, bed: Bed) -> Result<Self> {
        if bed == self.tree.bed {
            return Ok(self.clone());
        }
        let tree = kernel_build::prepare(env, &self.chroot, &self.tree.kernel, bed)?;
        let base = image::base(env, &self.chroot, &tree)?;
        Ok(Self {
            chroot: self.chroot.clone(),
            tree,
            base,
        })
    }

    /// Compiles what a run on this bed needs; `programs` are the same on all.
    ///
    /// # Errors
    /// The compilers' messages.
    pub(crate) fn build(&self, env: &Env, programs: &GuestPrograms) -> Result<Built> {
        Ok(Built {
            modules: modules::build(env, &self.chroot, &self.tree)?,
            extra: modules::examples(env, &self.tree)?,
            programs: programs.clone(),
        })
    }

    /// Sets up a bed and compiles for it; the programs are compiled while the kernel's tree is
    /// made.
    ///
    /// # Errors
    /// Whatever cannot be had or compiled.
    pub(crate) fn prepare_and_build(env: &Env, bed: Bed) -> Result<(Self, Built)> {
        let chroot = env.chroot()?;
        env.fetch_crates()?;
        std::thread::scope(|scope| {
            let programs = scope.spawn(|| guest_build::build(env, &chroot));
            let session = Self::prepare(env, chroot.clone(), false).and_then(|s| s.on(env, bed));
            let programs = programs
                .join()
                .map_err(|_| anyhow!("a thread panicked"))??;
            let session = session?;
            let built = session.build(env, &programs)?;
            Ok((session, built))
        })
    }

    /// What runs the guest here.
    ///
    /// # Errors
    /// The cache cannot be written to.
    pub(crate) fn machine(&self, env: &Env) -> Result<Machine> {
        if self.tree.bed.is_simulated() {
            return Ok(Machine::Uml);
        }
        qemu::accelerator(env, &self.chroot, &self.tree).map(Machine::Qemu)
    }

    /// Writes the image of a run into a folder of its own, and decides what to run it on.
    ///
    /// # Errors
    /// The image cannot be made.
    pub(crate) fn boot<T>(
        &self,
        env: &Env,
        built: &Built,
        config: &RunConfig,
        run: impl FnOnce(&Guest<'_>) -> Result<T>,
    ) -> Result<T> {
        let machine = self.machine(env)?;
        let dir = RunDir::new(env, &format!("{}-{}", self.tree.bed, config.mode.word()))?;
        image::write(env, self, built, config, &dir.0)?;
        let guest = Guest {
            chroot: &self.chroot,
            tree: &self.tree,
            run: &dir.0,
            machine,
        };
        env.ui.say(format!(
            "booting {} {}",
            self.tree.release,
            machine.describe()
        ));
        run(&guest)
    }
}

/// Compiles everything, for the kernel that is booted or another one, and lays it out to be
/// installed; prints where it is.
///
/// # Errors
/// Whatever cannot be had or compiled.
pub(crate) fn build(env: &Env, wanted: Option<&str>) -> Result<()> {
    let (chroot, tree, modules, programs) = if let Some(wanted) = wanted {
        let chroot = env.chroot()?;
        let tree = kernel::prepare(&env.cache, &chroot, &env.ui, Some(wanted), false, false)?;
        let modules = modules::build(env, &chroot, &tree)?;
        env.fetch_crates()?;
        let programs = guest_build::build(env, &chroot)?;
        (chroot, tree, modules, programs)
    } else {
        let (session, built) = Session::prepare_and_build(env, Bed::Vm)?;
        (session.chroot, session.tree, built.modules, built.programs)
    };
    let out = export(env, &chroot, &tree, &modules, &programs)?;
    env.ui.result(out.display().to_string());
    Ok(())
}

/// A shell in the guest, on this terminal.
///
/// # Errors
/// Whatever cannot be had or compiled.
pub(crate) fn shell(env: &Env) -> Result<()> {
    let lock = env.lock()?;
    let (session, built) = Session::prepare_and_build(env, Bed::Vm)?;
    let config = RunConfig::of(Mode::Shell);
    session.boot(env, &built, &config, |guest| {
        drop(lock);
        env.ui
            .say("`exit` switches the guest off, Ctrl-A X kills it");
        guest.interact()
    })
}

/// The folder of one run of the guest; gone with it.
#[derive(Debug)]
struct RunDir(PathBuf);

impl RunDir {
    fn new(env: &Env, mode: &str) -> Result<Self> {
        remove_abandoned(&env.built)?;
        // Guests of one bed may run side by side.
        static RUNS: AtomicU32 = AtomicU32::new(1);
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let process = std::process::id();
        let path = env.built.join(format!("run-{process}-{mode}-{run}"));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // What cannot be removed now is removed by a later run.
        let _ = remove_tree(&self.0);
    }
}

/// Removes the folders of runs whose process is gone.
fn remove_abandoned(built: &Path) -> Result<()> {
    for entry in fs::read_dir(built).with_context(|| format!("cannot read {}", built.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let pid = name
            .strip_prefix("run-")
            .and_then(|rest| rest.split('-').next());
        if let Some(pid) = pid {
            if !Path::new("/proc").join(pid).exists() {
                remove_tree(&path)?;
            }
        }
    }
    Ok(())
}
