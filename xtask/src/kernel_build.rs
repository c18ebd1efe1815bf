// SPDX-License-Identifier: GPL-2.0
//! Builds the kernels of the beds that the distribution has none for: from its own source, with
//! `beds/`'s patch to arch/um and its configurations.
//!
//! One source tree serves all of them. Of it only what these kernels are made of is unpacked, and
//! of what a build leaves behind only what modules are built with is kept: the cache stays small.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

use crate::bed::{Bed, Recipe};
use crate::cache::key;
use crate::chroot::Chroot;
use crate::env::Env;
use crate::kernel::{jobs, KernelTree, IN_CHROOT, SOURCE_IN_CHROOT};
use crate::versions::Kernel;

/// Raised when a kernel built by an older xtask will not do.
const VERSION: &str = "1";

/// Downloads and unpacks the source: `SERIES PACKAGE_VERSION`. The list of what is left out was
/// checked against the dependency files of all builds.
const SOURCE: &str = r#"
cd /linux
apt-get download -q "linux-source-$1=$2"
p=linux-source-$1
dpkg-deb --fsys-tarfile linux-source-*.deb |
    tar -xO --wildcards './usr/src/*.tar.xz' | xz -T0 -dc |
    tar -x --strip-components=1 --no-same-owner \
    --wildcards --wildcards-match-slash --anchored \
    --exclude="$p/drivers/[!abcprtn]*/*.[chS]" --exclude="$p/drivers/net/[!btvw]*/*.[chS]" \
    --exclude="$p/drivers/net/w[!i]*/*.[chS]" --exclude="$p/drivers/net/wirel*/*.[chS]" \
    --exclude="$p/drivers/n[!e]*/*.[chS]" --exclude="$p/drivers/p[!cn]*/*.[chS]" \
    --exclude="$p/drivers/a[!c]*/*.[chS]" --exclude="$p/drivers/b[!a]*/*.[chS]" \
    --exclude="$p/drivers/r[!t]*/*.[chS]" --exclude="$p/drivers/t[!t]*/*.[chS]" \
    --exclude="$p/sound/*.[chS]" --exclude="$p/fs/[!dehknprst]*/*.[ch]" \
    --exclude="$p/Documentation/*.[!K]*" --exclude="$p/tools/perf/*" \
    --exclude="$p/tools/testing/*.[!K]*" --exclude="$p/arch/[!ux]*/*.[chS]" \
    --exclude="$p/arch/*.dts" --exclude="$p/arch/*.dtsi"
rm linux-source-*.deb
patch -p1 < /beds/virtual/arch-um.patch
"#;

/// Configures: `ARGUMENT_OF_MAKE...`. An option whose dependency is missing is left out silently,
/// RUST first of all.
const CONFIGURE: &str = r#"
make -C /linux O=/kernel/build "$@" KCONFIG_ALLCONFIG=/kernel/allconfig allnoconfig
cd /kernel/build
missing=$(grep '^CONFIG_' /kernel/allconfig | while read -r line; do
    grep -qxF -- "$line" .config || echo "    $line"
done
grep '^# CONFIG_.* is not set' /kernel/allconfig | while read -r _ name _; do
    ! grep -q "^$name=" .config || echo "    # $name is not set"
done)
if [ -n "$missing" ]; then
    echo "error: the kernel's configuration did not take:"
    echo "$missing"
    exit 1
fi
"#;

/// Builds: `TARGET ARGUMENT_OF_MAKE...`. The names and the date in the kernel are fixed: the same
/// source gives the same kernel, and that the same runs.
const BUILD: &str = r#"
target=$1; shift
nice make -C /linux O=/kernel/build "$@" "$target" modules
cd /kernel/build
cp include/config/kernel.release ..
mv "$target" ..
find . \( -path ./scripts -o -path ./tools \) -prune -o -type f \
    \( -name '*.o' -o -name '*.a' -o -name '.*.cmd' -o -name 'vmlinux*' -o -name '.tmp_*' \
    -o -name System.map \) -print0 | xargs -0 rm -f
"#;

/// The kernel of a bed, of the version of the stock kernel `stock`; built first if need be.
///
/// # Errors
/// The source cannot be had, or the kernel cannot be configured or built.
pub(crate) fn prepare(env: &Env, chroot: &Chroot, stock: &Kernel, bed: Bed) -> Result<KernelTree> {
    let recipe = bed
        .recipe()
        .with_context(|| format!("the kernel of bed {bed} is not built here"))?;
    let source = source(env, chroot, stock)?;
    let config = config(env, &recipe)?;
    let source_name = source.file_name().unwrap_or_default().to_string_lossy();
    let key = key([
        VERSION,
        chroot.key(),
        &source_name,
        &config,
        &recipe.args.join(" "),
        recipe.target,
        CONFIGURE,
        BUILD,
    ]);
    let path = env.cache.folder(&format!("kernel-{bed}"), &key, |part| {
        make(env, chroot, &source, bed, &recipe, &config, part)
    })?;
    let release = fs::read_to_string(path.join("kernel.release"))
        .context("the kernel's release is not known")?;
    Ok(KernelTree {
        kernel: stock.clone(),
        path,
        bed,
        release: release.trim().to_owned(),
        source: Some(source),
    })
}

/// The files that make the bed's configuration, as one text.
fn config(env: &Env, recipe: &Recipe) -> Result<String> {
    let mut text = String::new();
    for file in recipe.configs {
        let path = env.src.join("beds").join(file);
        let file =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        text += &settings(&file);
    }
    Ok(text)
}

/// The lines that set something: what comments say makes no other kernel.
fn settings(file: &str) -> String {
    let set = |line: &&str| line.starts_with("CONFIG_") || line.starts_with("# CONFIG_");
    file.lines()
        .filter(set)
        .fold(String::new(), |text, line| text + line + "\n")
}

/// The source of the kernel's version, patched. Whoever builds several kernels side by side has it
/// made before.
///
/// # Errors
/// It cannot be had.
pub(crate) fn source(env: &Env, chroot: &Chroot, stock: &Kernel) -> Result<PathBuf> {
    let beds = env.src.join("beds");
    let patch = beds.join("virtual/arch-um.patch");
    let text = fs::read(&patch).with_context(|| format!("cannot read {}", patch.display()))?;
    let parts: [&[u8]; 4] = [
        VERSION.as_bytes(),
        stock.package_version.as_bytes(),
        SOURCE.as_bytes(),
        &text,
    ];
    env.cache
        .folder(&format!("source-{}", stock.version), &key(parts), |part| {
            let mut step = env.ui.step(
                "kernel-source",
                &format!("source of kernel {}", stock.version),
            )?;
            step.run(
                &mut chroot
                    .enter()
                    .bind(&beds, "/beds")
                    .bind_rw(part, SOURCE_IN_CHROOT)
                    .network()
                    .script(SOURCE, [stock.series(), &stock.package_version]),
            )
            .with_context(|| format!("no source of kernel {}", stock.version))?;
            step.done();
            Ok(())
        })
}

fn make(
    env: &Env,
    chroot: &Chroot,
    source: &Path,
    bed: Bed,
    recipe: &Recipe,
    config: &str,
    part: &Path,
) -> Result<()> {
    fs::create_dir(part.join("build")).context("cannot make the build folder")?;
    fs::write(part.join("allconfig"), config).context("cannot write the configuration")?;
    let enter = || {
        chroot
            .enter()
            .bind(source, SOURCE_IN_CHROOT)
            .bind_rw(part, IN_CHROOT)
            .env("KBUILD_BUILD_TIMESTAMP", "2026-01-01 00:00:00 UTC")
            .env("KBUILD_BUILD_USER", "turnstile")
            .env("KBUILD_BUILD_HOST", "turnstile")
            .env("KBUILD_BUILD_VERSION", "1")
    };
    let mut step = env.ui.step(
        &format!("kernel-{bed}"),
        &format!("kernel of bed {bed} (once, some minutes)"),
    )?;
    step.run(&mut enter().script(CONFIGURE, recipe.args))?;
    let args: Vec<String> = [recipe.target]
        .iter()
        .chain(recipe.args)
        .map(|arg| (*arg).to_owned())
        .chain([jobs()])
        .collect();
    step.run(&mut enter().script(BUILD, &args))?;
    step.done();
    if fs::metadata(part.join(recipe.target)).map_or(0, |m| m.len()) == 0 {
        bail!("the build of bed {bed}'s kernel made no {}", recipe.target);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::settings;

    #[test]
    fn comments_make_no_other_kernel() {
        let file = "# about it\nCONFIG_A=y\n\n# and\n# CONFIG_B is not set\n";
        assert_eq!(settings(file), "CONFIG_A=y\n# CONFIG_B is not set\n");
        assert_eq!(settings(&file.replace("about", "of")), settings(file));
    }
}
