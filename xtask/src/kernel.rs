// SPDX-License-Identifier: GPL-2.0
//! A stock Debian kernel: its image to boot, and a tree to build modules for it with.
//!
//! Debian's headers packages lack the outputs of the kernel's `rust/` folder. They are made once,
//! from the source of the same version, with Debian's configuration, its `Module.symvers`, its BTF
//! and its compilers: every Rust symbol comes out with the name that the stock kernel exports. No
//! kernel is built.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};

use crate::bed::Bed;
use crate::cache::{key, write_whole, Cache};
use crate::chroot::{Chroot, Entry};
use crate::progress::{Step, Ui};
use crate::versions::{kernels, order, Kernel};

/// Names a kernel series or version to take instead of the chosen one.
pub(crate) const KERNEL_ENV: &str = "TURNSTILE_KERNEL";
/// Raised when a tree made by an older xtask will not do.
const VERSION: &str = "1";

/// Where a kernel's folder is shown in the chroot; the build tree's makefiles hold this path.
pub(crate) const IN_CHROOT: &str = "/kernel";
/// Where the source of a kernel that is built here is shown; its build tree's makefiles hold this
/// path.
pub(crate) const SOURCE_IN_CHROOT: &str = "/linux";

/// Downloads the packages of one kernel: `SERIES VERSION PACKAGE_VERSION [IMAGE_PACKAGE]...`, in
/// the work folder.
const DOWNLOAD: &str = r#"
series=$1 version=$2 pkg=$3; shift 3
cd /kernel
mkdir -p debs
cd debs
apt-get download -q "linux-headers-$version-amd64=$pkg" "linux-source-$series=$pkg" "$@"
"#;

/// Unpacks what was downloaded. Of the source only what configuring, preparing and compiling
/// modules reads: a sixth. Of the modules those of the network and what they may need.
const UNPACK: &str = r#"
series=$1 release=$2
cd /kernel
mkdir headers src image
dpkg-deb --fsys-tarfile debs/linux-headers-*.deb |
    tar -x -C headers --strip-components=4 --wildcards './usr/src/*'
p=linux-source-$series
dpkg-deb --fsys-tarfile debs/linux-source-*.deb |
    tar -xO --wildcards './usr/src/*.tar.xz' | xz -T0 -dc |
    tar -x -C src --strip-components=1 --no-same-owner \
    --wildcards --wildcards-match-slash --anchored \
    --exclude="$p/drivers/*.[cS]" --exclude="$p/sound/*.[chS]" --exclude="$p/fs/*.c" \
    --exclude="$p/net/*.c" --exclude="$p/mm/*.c" --exclude="$p/crypto/*.c" \
    --exclude="$p/drivers/gpu/*.h" --exclude="$p/drivers/net/*.h" \
    --exclude="$p/drivers/media/*.h" --exclude="$p/drivers/staging/*.h" \
    --exclude="$p/drivers/scsi/*.h" --exclude="$p/drivers/infiniband/*.h" \
    --exclude="$p/Documentation/*.[!K]*" --exclude="$p/tools/perf/*" \
    --exclude="$p/tools/testing/*.[!K]*" --exclude="$p/arch/[!ux]*/*.[chS]" \
    --exclude="$p/arch/*.dts" --exclude="$p/arch/*.dtsi"
rm debs/linux-headers-*.deb debs/linux-source-*.deb
for deb in debs/*.deb; do
    [ -e "$deb" ] || continue
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C image --wildcards --wildcards-match-slash \
        --exclude='*/kernel/drivers/[!np]*' --exclude='*/kernel/drivers/net/ethernet/*' \
        --exclude='*/kernel/drivers/net/wireless/*' --exclude='*/kernel/sound/*' \
        --exclude='*/kernel/fs/*'
done
rm -r debs
if [ -d image/lib ] && [ ! -L image/lib ]; then
    mkdir -p image/usr && mv image/lib image/usr/lib
fi
[ ! -d image/usr/lib ] || [ -e image/lib ] || ln -s usr/lib image/lib
if [ -d "image/lib/modules/$release" ]; then
    # Old layout: the image is in /boot.
    vmlinuz=image/lib/modules/$release/vmlinuz
    [ -e "$vmlinuz" ] || vmlinuz=image/boot/vmlinuz-$release
    # Uncompressed it boots in half the time: QEMU enters it directly, without the decompressor.
    sh src/scripts/extract-vmlinux "$vmlinuz" > vmlinux
    depmod -b image "$release"
fi
"#;

/// Makes the build tree. The compiler's full name keeps the configuration as it is, and
/// KERNELRELEASE makes the modules' version that of the stock kernel.
const PREPARE: &str = r#"
cd /kernel
mkdir build
cp headers/.config headers/Module.symvers build/
[ ! -e headers/vmlinux ] || cp headers/vmlinux build/
release=$1; shift
make -C src O=/kernel/build "$@" olddefconfig
if ! cmp headers/.config build/.config; then
    diff headers/.config build/.config || true
    echo "error: olddefconfig changed Debian's configuration:" \
        "these compilers are not the ones that built the kernel"
    exit 1
fi
make -C src O=/kernel/build "$@" modules_prepare
grep -F "\"$release\"" build/include/generated/utsrelease.h
rm -r headers
"#;

/// A kernel in the cache, complete: Debian's, or one that was built here from Debian's source.
#[derive(Clone, Debug)]
pub(crate) struct KernelTree {
    /// Which of Debian's it is, or was made from.
    pub kernel: Kernel,
    /// Its folder on the machine; [`IN_CHROOT`] inside.
    pub path: PathBuf,
    /// The bed that it is for.
    pub bed: Bed,
    /// What `uname -r` prints on it.
    pub release: String,
    /// Its source, if it was built here; [`SOURCE_IN_CHROOT`] inside.
    pub source: Option<PathBuf>,
}

impl KernelTree {
    /// A stock kernel in the folder `path`.
    fn stock(kernel: Kernel, path: PathBuf) -> Self {
        Self {
            release: kernel.release(),
            kernel,
            path,
            bed: Bed::Vm,
            source: None,
        }
    }

    /// Shows the kernel in the chroot.
    pub(crate) fn bind(&self, entry: Entry) -> Entry {
        let entry = entry.bind(&self.path, IN_CHROOT);
        match &self.source {
            Some(source) => entry.bind(source, SOURCE_IN_CHROOT),
            None => entry,
        }
    }

    /// The arguments of every `make` over it.
    pub(crate) fn make_args(&self) -> Vec<String> {
        match self.bed.recipe() {
            None => make_args(&self.release),
            Some(recipe) => recipe
                .args
                .iter()
                .map(|arg| (*arg).to_owned())
                .chain([jobs()])
                .collect(),
        }
    }

    /// The hash in its folder's name.
    pub(crate) fn key(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        name.rsplit('-').next().unwrap_or_default().to_owned()
    }

    /// The modules of the stock kernel, on the machine.
    pub(crate) fn modules_dir(&self) -> PathBuf {
        self.path.join("image/usr/lib/modules").join(&self.release)
    }
}

/// The argument that makes make use all processors.
pub(crate) fn jobs() -> String {
    let jobs = std::thread::available_parallelism().map_or(2, |n| n.get());
    format!("-j{jobs}")
}

/// The arguments of every `make` over a stock kernel of this release.
fn make_args(release: &str) -> Vec<String> {
    vec![
        "ARCH=x86".into(),
        "CROSS_COMPILE=x86_64-linux-gnu-".into(),
        "CC=x86_64-linux-gnu-gcc-14".into(),
        format!("KERNELRELEASE={release}"),
        jobs(),
    ]
}

/// Which kernel was chosen for a question, so that the next run takes the same one without the
/// network.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Choice {
    version: String,
    package_version: String,
    image: Vec<String>,
    why: String,
}

/// The kernel to build for, and to boot if `boot`; chosen, fetched and prepared first if need be.
///
/// `wanted` names a series or version. `refresh` looks for a newer one than was chosen before.
///
/// # Errors
/// None of the suite's kernels will do, or a package cannot be had; the text says which.
pub(crate) fn prepare(
    cache: &Cache,
    chroot: &Chroot,
    ui: &Ui,
    wanted: Option<&str>,
    boot: bool,
    refresh: bool,
) -> Result<KernelTree> {
    let env = std::env::var(KERNEL_ENV).ok().filter(|v| !v.is_empty());
    let wanted = wanted.or(env.as_deref());
    let question = format!(
        "{}-{}",
        wanted.unwrap_or("best"),
        if boot { "boot" } else { "build" }
    );
    let memo = cache
        .root()
        .join(format!("choice-{}.json", key([chroot.key(), &question])));
    if !refresh {
        if let Some((tree, why)) = remembered(cache, chroot, &memo) {
            ui.say(format!("kernel {} ({why})", tree.release));
            return Ok(tree);
        }
    }
    let (list, why) = choose(chroot, ui, wanted, boot)?;
    for kernel in &list {
        let log = format!("kernel-{}", kernel.version);
        let path = cache.folder(
            &format!("kernel-{}", kernel.version),
            &tree_key(chroot, kernel),
            |part| make(part, chroot, ui, kernel, &log),
        );
        let path = match path {
            Err(e) if e.is::<NoRust>() => {
                ui.say(format!(
                    "kernel {} is built without Rust: next",
                    kernel.release()
                ));
                continue;
            }
            path => path?,
        };
        let choice = Choice {
            version: kernel.version.clone(),
            package_version: kernel.package_version.clone(),
            image: kernel.image.clone(),
            why: why.clone(),
        };
        write_whole(&memo, &serde_json::to_vec(&choice)?)?;
        ui.say(format!("kernel {} ({why})", kernel.release()));
        return Ok(KernelTree::stock(kernel.clone(), path));
    }
    let kernel = wanted.map_or("kernel".into(), |w| format!("kernel {w}"));
    let what = if boot {
        "headers, source and image"
    } else {
        "headers and source"
    };
    Err(NotOffered(format!(
        "the mirror has no {kernel} with CONFIG_RUST=y, {what}"
    ))
    .into())
}

/// The mirror has no kernel as wanted.
#[derive(Debug)]
pub(crate) struct NotOffered(String);

impl std::fmt::Display for NotOffered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotOffered {}

fn tree_key(chroot: &Chroot, kernel: &Kernel) -> String {
    let packages = kernel.image.join(" ");
    key([
        VERSION,
        chroot.key(),
        &kernel.package_version,
        &packages,
        DOWNLOAD,
        UNPACK,
        PREPARE,
    ])
}

fn remembered(cache: &Cache, chroot: &Chroot, memo: &Path) -> Option<(KernelTree, String)> {
    let choice: Choice = serde_json::from_slice(&fs::read(memo).ok()?).ok()?;
    let kernel = Kernel {
        version: choice.version,
        package_version: choice.package_version,
        image: choice.image,
    };
    let path = cache.path_of(
        &format!("kernel-{}", kernel.version),
        &tree_key(chroot, &kernel),
    );
    path.exists()
        .then(|| (KernelTree::stock(kernel, path), choice.why))
}

fn choose(
    chroot: &Chroot,
    ui: &Ui,
    wanted: Option<&str>,
    boot: bool,
) -> Result<(Vec<Kernel>, String)> {
    let mut step = ui.step("kernel-list", "looking for the suite's kernels")?;
    // The pool moves: what was listed when the chroot was made may be gone.
    step.run(
        &mut chroot
            .enter()
            .network()
            .command("apt-get", ["update", "-q"]),
    )
    .context("no list of packages from the mirror")?;
    let script = "apt-cache madison $(apt-cache pkgnames linux- | \
        grep -E '^linux-(headers|binary|modules|base|image|source)-[0-9].*')";
    let madison = step.output(&mut chroot.enter().script(script, [""; 0]))?;
    step.done();
    let all = kernels(&madison);
    let (list, why) = order(&all, wanted, boot);
    for kernel in all.iter().filter(|k| boot && !k.boots()) {
        ui.say(format!(
            "kernel {} can be built for but not booted: the mirror has no image of it",
            kernel.release()
        ));
    }
    Ok((list, why))
}

/// The kernel was built without Rust support.
#[derive(Debug)]
struct NoRust;

impl std::fmt::Display for NoRust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the kernel's configuration lacks CONFIG_RUST=y")
    }
}

impl std::error::Error for NoRust {}

fn make(part: &Path, chroot: &Chroot, ui: &Ui, kernel: &Kernel, log: &str) -> Result<()> {
    let release = kernel.release();
    let enter = || chroot.enter().bind_rw(part, IN_CHROOT);
    // The headers are small: ask them about Rust before fetching the rest.
    let mut step = ui.step(log, &format!("packages of kernel {release}"))?;
    let mut args = vec![
        kernel.series().to_owned(),
        kernel.version.clone(),
        kernel.package_version.clone(),
    ];
    check_rust(&mut step, chroot, part, kernel)?;
    args.extend(kernel.image.iter().cloned());
    step.run(&mut enter().network().script(DOWNLOAD, &args))
        .with_context(|| format!("cannot download the packages of kernel {release}"))?;
    step.run(&mut enter().script(UNPACK, [kernel.series(), &release]))?;
    step.done();
    if kernel.boots() && fs::metadata(part.join("vmlinux")).map_or(0, |m| m.len()) == 0 {
        bail!("the packages of kernel {release} hold no image that can be unpacked");
    }
    let mut step = ui.step(
        &format!("{log}-tree"),
        &format!("build tree of kernel {release} (its Rust crates)"),
    )?;
    let args: Vec<String> = std::iter::once(release.clone())
        .chain(make_args(&release))
        .collect();
    step.run(&mut enter().script(PREPARE, &args))?;
    step.done();
    Ok(())
}

fn check_rust(step: &mut Step, chroot: &Chroot, part: &Path, kernel: &Kernel) -> Result<()> {
    let script = r#"
cd /kernel
apt-get download -q "linux-headers-$1-amd64=$2" >&2
dpkg-deb --fsys-tarfile linux-headers-*.deb |
    tar -xO --wildcards './usr/src/*/.config' | grep '^CONFIG_RUST=' || true
rm linux-headers-*.deb
"#;
    let mut command = chroot
        .enter()
        .bind_rw(part, IN_CHROOT)
        .network()
        .script(script, [&kernel.version, &kernel.package_version]);
    let answer = step
        .output(&mut command)
        .with_context(|| format!("cannot download the headers of kernel {}", kernel.release()))?;
    if answer.trim() == "CONFIG_RUST=y" {
        Ok(())
    } else {
        Err(NoRust.into())
    }
}
