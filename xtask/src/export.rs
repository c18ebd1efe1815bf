// SPDX-License-Identifier: GPL-2.0
//! `out/KERNEL-RELEASE`: what was built, as a machine that runs that kernel wants it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

use crate::cache::remove_tree;
use crate::chroot::Chroot;
use crate::env::{Env, OUT, SRC};
use crate::guest_build::GuestPrograms;
use crate::kernel::KernelTree;

/// Copies everything to its place when it is run on the machine that is to have it.
const INSTALL: &str = include_str!("../install.sh");

/// The pages and completions that the `turnstile` command makes itself.
const DOCUMENTS: &str = "
for page in turnstile tc-turnstile tc-turnstile_pacer; do
    \"$1\"/turnstile man $page > \"$2\"/$page.8
done
for shell in bash zsh fish; do
    \"$1\"/turnstile completions $shell > \"$2\"/turnstile.$shell
done
";

/// Modules without what debuggers read, most of their bytes, and compressed as the kernel's own
/// are: the commands of its scripts/Makefile.modinst.
const MODULES: &str = r#"
cd /out
strip --strip-debug -- *.ko
case $1 in
xz) xz --check=crc32 --lzma2=dict=1MiB -- *.ko ;;
zst) zstd -q --rm -- *.ko ;;
gz) gzip -9n -- *.ko ;;
esac
"#;

/// Lays out a folder for a kernel, in place of one from before; returns it.
///
/// # Errors
/// A file cannot be written, or the `turnstile` command does not run.
pub(crate) fn export(
    env: &Env,
    chroot: &Chroot,
    tree: &KernelTree,
    modules: &[PathBuf],
    programs: &GuestPrograms,
) -> Result<PathBuf> {
    let out = env.src.join("out").join(&tree.release);
    if out.exists() {
        remove_tree(&out)?;
    }
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    for module in modules {
        copy(module, &out.join(module.file_name().unwrap_or_default()))?;
    }
    copy(&programs.path("turnstile"), &out.join("turnstile"))?;
    copy(
        &programs.path("libq_turnstile.so"),
        &out.join("q_turnstile.so"),
    )?;
    copy(
        &env.src.join("docs/turnstile.lua"),
        &out.join("turnstile.lua"),
    )?;
    let script = out.join("install.sh");
    fs::write(&script, INSTALL).with_context(|| format!("cannot write {}", script.display()))?;
    let mut step = env.ui.step("documents", "man pages and completions")?;
    let entry = chroot.enter().bind(programs.dir(), SRC).bind_rw(&out, OUT);
    step.run(&mut entry.script(DOCUMENTS, [SRC, OUT]))?;
    step.done();
    let config = tree.path.join("build/.config");
    let config =
        fs::read_to_string(&config).with_context(|| format!("cannot read {}", config.display()))?;
    let mut step = env.ui.step("modules-small", "modules, compressed")?;
    let entry = chroot.enter().bind_rw(&out, OUT);
    step.run(&mut entry.script(MODULES, [compression(&config)]))?;
    step.done();
    Ok(out)
}

/// The suffix of the kernel's own modules: empty where they are not compressed.
fn compression(config: &str) -> &'static str {
    let set = |name: &str| {
        let line = format!("CONFIG_MODULE_COMPRESS_{name}=y");
        config.lines().any(|l| l == line)
    };
    match (set("XZ"), set("ZSTD"), set("GZIP")) {
        (true, ..) => "xz",
        (_, true, _) => "zst",
        (.., true) => "gz",
        _ => "",
    }
}

/// Installs the folder `out` of [`export`] into an empty one, looks at what is there, and takes it
/// away again.
///
/// # Errors
/// Something is missing, cannot be read by kmod, or stays.
pub(crate) fn check(env: &Env, chroot: &Chroot, release: &str, out: &Path) -> Result<()> {
    let mut step = env.ui.step("install", "installing into a folder")?;
    let entry = chroot.enter().bind(out, OUT);
    step.run(&mut entry.script(CHECK, [OUT, release]))?;
    step.done();
    if fs::metadata(out.join("install.sh")).is_err() {
        bail!("{} is not there any more", out.display());
    }
    Ok(())
}

/// `FOLDER RELEASE`.
const CHECK: &str = r#"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir "$root"
# The folder's name says for which kernel it is.
cp -r "$1" "$work/$2"
sh "$work/$2/install.sh" DESTDIR="$root"
for module in sch_turnstile turnstile; do
    file=$(echo "$root/lib/modules/$2/updates/$module".ko*)
    magic=$(modinfo -F vermagic "$file")
    [ "${magic%% *}" = "$2" ] || { echo "error: $file is for $magic"; exit 1; }
    [ "$(modinfo -F name "$file")" = $module ]
    [ "$(stat -c %s "$file")" -lt 1000000 ] || { echo "error: $file is large"; exit 1; }
done
"$root/usr/local/sbin/turnstile" --version
sh "$work/$2/install.sh" DESTDIR="$root" --uninstall
left=$(find "$root" -mindepth 1)
[ -z "$left" ] || { echo "error: left behind: $left"; exit 1; }
"#;

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::process::{Command, Output};

    use super::*;

    const RELEASE: &str = "7.2.0-test";
    const FILES: [&str; 12] = [
        "sch_turnstile.ko.xz",
        "turnstile.ko.xz",
        "turnstile",
        "q_turnstile.so",
        "turnstile.8",
        "tc-turnstile.8",
        "tc-turnstile_pacer.8",
        "turnstile.bash",
        "turnstile.zsh",
        "turnstile.fish",
        "turnstile.lua",
        "install.sh",
    ];

    /// A folder as [`export`] makes it, of empty files, and another to install into.
    struct Folders(PathBuf);

    impl Folders {
        fn new(name: &str) -> Self {
            let name = format!("turnstile install {name} {}", std::process::id());
            let folders = Self(std::env::temp_dir().join(name));
            let made = folders.0.join(RELEASE);
            fs::create_dir_all(&made).unwrap();
            fs::create_dir_all(folders.root()).unwrap();
            for file in FILES {
                let text = if file == "install.sh" { INSTALL } else { "" };
                fs::write(made.join(file), text).unwrap();
            }
            folders
        }

        fn root(&self) -> PathBuf {
            self.0.join("root")
        }

        fn run(&self, arguments: &[&str]) -> Output {
            let mut command = Command::new("sh");
            command.arg(self.0.join(RELEASE).join("install.sh"));
            command.args(arguments).env_clear();
            command.env("PATH", std::env::var_os("PATH").unwrap());
            command.env("DESTDIR", self.root()).output().unwrap()
        }

        /// All files and links below the root.
        fn installed(&self) -> BTreeSet<String> {
            let root = self.root();
            let mut found = BTreeSet::new();
            let mut folders = vec![root.clone()];
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    if path.is_dir() {
                        folders.push(path.clone());
                    }
                    let name = path.strip_prefix(&root).unwrap();
                    found.insert(name.to_str().unwrap().to_owned());
                }
            }
            found
        }
    }

    impl Drop for Folders {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_installed_goes_away_again() {
        let folders = Folders::new("there");
        let out = folders.run(&["PREFIX=/opt/turn stile"]);
        assert!(out.status.success(), "{out:?}");
        let installed = folders.installed();
        for file in [
            "lib/modules/7.2.0-test/updates/sch_turnstile.ko.xz",
            "lib/modules/7.2.0-test/updates/turnstile.ko.xz",
            "opt/turn stile/sbin/turnstile",
            "opt/turn stile/share/man/man8/tc-turnstile_pacer.8",
            "opt/turn stile/share/zsh/site-functions/_turnstile",
            "usr/lib/x86_64-linux-gnu/tc/q_turnstile_mq.so",
            "usr/lib/x86_64-linux-gnu/tc/q_turnstile_pacer.so",
            "usr/lib/x86_64-linux-gnu/wireshark/plugins/turnstile.lua",
        ] {
            assert!(installed.contains(file), "{file}: {installed:?}");
        }
        let out = folders.run(&["--uninstall", "PREFIX=/opt/turn stile"]);
        assert!(out.status.success(), "{out:?}");
        assert_eq!(folders.installed(), BTreeSet::new());
    }

    #[test]
    fn modules_of_an_earlier_installation_are_replaced() {
        let folders = Folders::new("earlier");
        let updates = folders.root().join("lib/modules/7.2.0-test/updates");
        fs::create_dir_all(&updates).unwrap();
        for name in ["turnstile.ko", "turnstile.ko.zst", "other.ko"] {
            fs::write(updates.join(name), "").unwrap();
        }
        assert!(folders.run(&[]).status.success());
        let modules = |folders: &Folders| {
            let all = folders.installed().into_iter();
            all.filter(|name| name.contains(".ko")).collect::<Vec<_>>()
        };
        let left = modules(&folders);
        assert_eq!(left.len(), 3, "{left:?}");
        assert!(folders.run(&["--uninstall"]).status.success());
        assert_eq!(
            modules(&folders),
            ["lib/modules/7.2.0-test/updates/other.ko"]
        );
    }

    #[test]
    fn what_is_not_known_changes_nothing() {
        let folders = Folders::new("unknown");
        for arguments in [
            &["--unistall"][..],
            &["PREFIX=/opt", "install"],
            &["PREFIX=relative"],
            &["DESTDIR=relative"],
        ] {
            let out = folders.run(arguments);
            assert_eq!(out.status.code(), Some(2), "{arguments:?}: {out:?}");
            let said = String::from_utf8_lossy(&out.stderr);
            assert!(said.contains("nothing was changed"), "{said}");
        }
        let out = folders.run(&["--help"]);
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && said.starts_with("usage: install.sh"));
        assert_eq!(folders.installed(), BTreeSet::new());
    }

    #[test]
    fn modules_are_compressed_as_the_kernels_own() {
        assert_eq!(compression("CONFIG_MODULE_COMPRESS_XZ=y\n"), "xz");
        assert_eq!(compression("CONFIG_MODULE_COMPRESS_ZSTD=y\n"), "zst");
        assert_eq!(compression("CONFIG_MODULE_COMPRESS_GZIP=y\n"), "gz");
        assert_eq!(compression("# CONFIG_MODULE_COMPRESS is not set\n"), "");
    }
}
