// SPDX-License-Identifier: GPL-2.0
//! Modules that are not there, and cannot be loaded by themselves.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::mount::{mount, umount, MsFlags};

use super::*;
use crate::harness::{SIGNATURE_MARKER, SIGNED_MODULE};

/// The kernel does not ask for modules while this is there.
struct NoModprobe(String);

const HELPER: &str = "/proc/sys/kernel/modprobe";

impl NoModprobe {
    fn new() -> Result<Self> {
        let before = std::fs::read_to_string(HELPER).context(HELPER)?;
        std::fs::write(HELPER, "/bin/false").context(HELPER)?;
        Ok(Self(before))
    }
}

impl Drop for NoModprobe {
    fn drop(&mut self) {
        // Written a moment ago: it can be written.
        let _ = std::fs::write(HELPER, self.0.trim());
    }
}

fn loaded(module: &str) -> bool {
    Path::new("/sys/module").join(module).exists()
}

/// What was used a moment ago is held a moment longer.
fn unload(module: &str) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let output = run_here(&format!("rmmod {module}"), "")?;
        if output.ok {
            return Ok(());
        }
        ensure!(Instant::now() < until, "{}", output.stderr);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What needs a module, and which.
const LINES: &[(&str, &str)] = &[
    ("port add lo", "sch_turnstile"),
    ("pacer add lo", "sch_turnstile"),
    ("transport set rto 1ms", "turnstile"),
    ("transport show", "turnstile"),
    ("flows", "turnstile"),
    ("sockets", "turnstile"),
    ("stats", "turnstile"),
    ("send 127.0.0.1:5000 --size 1", "turnstile"),
    ("recv 5000", "turnstile"),
    ("bench client 127.0.0.1:5000", "turnstile"),
    ("bench server 5000", "turnstile"),
];

/// `/lib/modules` of the kernel that runs.
fn folder() -> Result<PathBuf> {
    let release = run_here("uname -r", "")?.success()?;
    Ok(Path::new("/lib/modules").join(release.trim()))
}

/// Not installed for this kernel: how to build it. Installed, but not loaded when the kernel asked:
/// modprobe finds out why.
pub(super) fn no_module(_: &mut Ctx) -> Result<()> {
    let release = run_here("uname -r", "")?.success()?;
    let folder = folder()?;
    let _no_modprobe = NoModprobe::new()?;
    unload("sch_turnstile")?;
    unload("turnstile")?;

    // This process has mounts of its own.
    let nothing: Option<&str> = None;
    mount(
        Some("none"),
        folder.as_path(),
        Some("tmpfs"),
        MsFlags::empty(),
        nothing,
    )
    .context("mounts")?;
    for (line, module) in LINES {
        let said = failed(run_here(&format!("turnstile {line}"), "")?, 2)?;
        let why = format!("no module {module} for kernel {}", release.trim());
        says(&said, &[&why, "cargo xtask build --kernel "])?;
        for wrong in ["modprobe", "load ", "0 messages"] {
            ensure!(!said.contains(wrong), "{line}: {said}");
        }
    }
    umount(folder.as_path()).context("mounts")?;

    for (line, module) in [LINES[0], LINES[4]] {
        let said = failed(run_here(&format!("turnstile {line}"), "")?, 2)?;
        let why = format!("module {module} was not loaded by itself");
        says(&said, &[&why, "kernel.modprobe", "is now: try again"])?;
        ensure!(loaded(module), "{said}");
        run_here(&format!("turnstile {line}"), "")?.success()?;
    }
    run_here("turnstile port del lo", "")?.success().map(drop)
}

/// A signature that was made for another module, by a key that the kernel trusts.
pub(super) fn refused_signature(_: &mut Ctx) -> Result<()> {
    let folder = folder()?;
    let signed = std::fs::read(folder.join(SIGNED_MODULE)).context(SIGNED_MODULE)?;
    let signature = signature(&signed).context("a module without a signature")?;
    let ours = folder.join("updates/sch_turnstile.ko");
    let mut forged = std::fs::read(&ours).with_context(|| ours.display().to_string())?;
    forged.extend_from_slice(signature);
    let path = Path::new("/tmp/forged.ko");
    std::fs::write(path, forged).context("writing the module")?;

    let _no_modprobe = NoModprobe::new()?;
    unload("sch_turnstile")?;
    let nothing: Option<&str> = None;
    mount(
        Some(path),
        ours.as_path(),
        nothing,
        MsFlags::MS_BIND,
        nothing,
    )
    .context("mounts")?;
    let said = failed(run_here("turnstile port add lo", "")?, 2)?;
    says(
        &said,
        &[
            "the kernel refused the signature of module sch_turnstile",
            "Key was rejected by service",
            "mokutil --import",
            "docs/secure-boot.md",
        ],
    )?;
    ensure!(!said.contains("cargo"), "{said}");
    umount(ours.as_path()).context("mounts")?;
    ensure!(!loaded("sch_turnstile"), "the forged module was loaded");
    Ok(())
}

/// What `scripts/sign-file` appends: the signature, `struct module_signature` (which ends with the
/// signature's length), and a marker.
fn signature(module: &[u8]) -> Option<&[u8]> {
    const FIXED: usize = 12;
    let rest = module.strip_suffix(SIGNATURE_MARKER)?;
    let length = u32::from_be_bytes(*rest.last_chunk()?);
    let tail = usize::try_from(length).ok()? + FIXED + SIGNATURE_MARKER.len();
    module.get(module.len().checked_sub(tail)?..)
}
