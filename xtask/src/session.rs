// SPDX-License-Identifier: GPL-2.0
//! From nothing to a guest that can be booted: the steps in their order, side by side where they do not wait for each
//! other.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, Context, Result};

use crate::cache::remove_tree;
use crate::chroot::Chroot;
use crate::env::Env;
use crate::export::export;
use crate::guest_build::{self, GuestPrograms};
use crate::image::{self, Base, RunConfig};
use crate::kernel::{self, KernelTree};
use crate::modules;
use crate::qemu::{accelerator, Accelerator, Guest};

/// What every run of the guest needs and no change of the sources touches.
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
    /// Our module.
    pub module: PathBuf,
    /// Our programs.
    pub programs: GuestPrograms,
}

impl Session {
    /// Sets all of it up. `refresh` looks for a newer kernel.
    ///
    /// # Errors
    /// Whatever cannot be had.
    pub(crate) fn prepare(env: &Env, refresh: bool) -> Result<Self> {
        let chroot = env.chroot()?;
        Self::with_chroot(env, chroot, refresh)
    }

    /// As [`Session::prepare`], in a chroot that is there.
    ///
    /// # Errors
    /// Whatever cannot be had.
    pub(crate) fn with_chroot(env: &Env, chroot: Chroot, refresh: bool) -> Result<Self> {
        let tree = kernel::prepare(&env.cache, &chroot, &env.ui, None, true, refresh)?;
        let base = image::base(env, &chroot, &tree)?;
        Ok(Self { chroot, tree, base })
    }

    /// Sets up and compiles; the programs are compiled while the kernel's tree is made.
    ///
    /// # Errors
    /// Whatever cannot be had or compiled.
    pub(crate) fn prepare_and_build(env: &Env) -> Result<(Self, Built)> {
        let chroot = env.chroot()?;
        env.fetch_crates()?;
        std::thread::scope(|scope| {
            let programs = scope.spawn(|| guest_build::build(env, &chroot));
            let session = Self::with_chroot(env, chroot.clone(), false);
            let module = session
                .as_ref()
                .ok()
                .map(|s| modules::build(env, &s.chroot, &s.tree));
            let programs = programs
                .join()
                .map_err(|_| anyhow!("a thread panicked"))??;
            let session = session?;
            let module = module.context("no module was built")??;
            Ok((session, Built { module, programs }))
        })
    }

    /// What the guest runs on here.
    ///
    /// # Errors
    /// The cache cannot be written to.
    pub(crate) fn accelerator(&self, env: &Env) -> Result<Accelerator> {
        accelerator(env, &self.chroot, &self.tree)
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
        let accelerator = self.accelerator(env)?;
        let dir = RunDir::new(env, &config.mode)?;
        image::write(env, self, built, config, &dir.0)?;
        let guest = Guest {
            chroot: &self.chroot,
            tree: &self.tree,
            run: &dir.0,
            accelerator,
        };
        env.ui.say(format!(
            "booting {} under {}",
            self.tree.kernel.release(),
            guest.accelerator.describe()
        ));
        run(&guest)
    }
}

/// Compiles everything, for the kernel that is booted or another one, and lays it out to be installed; prints where it is.
///
/// # Errors
/// Whatever cannot be had or compiled.
pub(crate) fn build(env: &Env, wanted: Option<&str>) -> Result<()> {
    let (chroot, tree, module, programs) = if let Some(wanted) = wanted {
        let chroot = env.chroot()?;
        let tree = kernel::prepare(&env.cache, &chroot, &env.ui, Some(wanted), false, false)?;
        let module = modules::build(env, &chroot, &tree)?;
        env.fetch_crates()?;
        let programs = guest_build::build(env, &chroot)?;
        (chroot, tree, module, programs)
    } else {
        let (session, built) = Session::prepare_and_build(env)?;
        (session.chroot, session.tree, built.module, built.programs)
    };
    let out = export(env, &chroot, &tree.kernel.release(), &module, &programs)?;
    env.ui.result(out.display().to_string());
    Ok(())
}

/// A shell in the guest, on this terminal.
///
/// # Errors
/// Whatever cannot be had or compiled.
pub(crate) fn shell(env: &Env) -> Result<()> {
    let lock = env.lock()?;
    let (session, built) = Session::prepare_and_build(env)?;
    let config = RunConfig {
        mode: "shell".into(),
        timeout_scale: 1.0,
        ..RunConfig::default()
    };
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
        let path = env.built.join(format!("run-{}-{mode}", std::process::id()));
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
