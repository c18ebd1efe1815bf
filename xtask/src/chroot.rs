// SPDX-License-Identifier: GPL-2.0
//! The Debian that everything is compiled in and that QEMU runs from, so that the machine itself
//! hardly matters.
//!
//! Commands are entered through their own mount and process namespaces: what is mounted for them
//! vanishes with them, and everything they started dies with xtask, however it ends.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{anyhow, bail, Context, Result};

use crate::cache::{key, Cache, GB};
use crate::progress::Ui;

/// The Debian release. Its own rustc built the kernels of its backports suite.
const SUITE: &str = "trixie";
/// Names another package mirror than the machine's own.
const MIRROR_ENV: &str = "TURNSTILE_MIRROR";
/// Free space for it, two kernels, and what is built from one checkout.
const SPACE: u64 = 6 * GB;
/// Raised when a chroot made by an older xtask will not do.
const VERSION: &str = "1";

/// What the chroot holds beside apt. Never installed with `-t trixie-backports`: that would bring a
/// newer rustc than the one that built the kernels, whose outputs would not fit.
const PACKAGES: &[&str] = &[
    // Kernel modules: C, Rust, bindings, BTF, and what the kernel's own build scripts call.
    "gcc-14",
    "gcc",
    "make",
    "libc6-dev",
    "rustc",
    "rust-src",
    "rust-clippy",
    "rustfmt",
    "bindgen",
    "clang",
    "libclang-dev",
    "lld",
    "llvm",
    "bc",
    "flex",
    "bison",
    "libelf-dev",
    "libssl-dev",
    "libdw-dev",
    "pahole",
    "perl",
    "python3",
    "rsync",
    "patch",
    "file",
    "xz-utils",
    "zstd",
    // The programs of the guest.
    "cargo",
    "pkg-config",
    "libmnl-dev",
    "ca-certificates",
    // What the guest is given, and the machine that runs it.
    "busybox-static",
    "dash",
    "kmod",
    "iproute2",
    "iputils-ping",
    "iputils-arping",
    "iperf3",
    "jq",
    "ethtool",
    "tcpdump",
    "procps",
    "nftables",
    "wireguard-tools",
    "cpio",
    "qemu-system-x86",
    "seabios",
];

/// Enters the chroot: `ROOT [SOURCE TARGET ro|rw]... -- COMMAND...`.
const ENTER: &str = r#"
set -e
umask 022
root=$1; shift
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
for f in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
    if [ -r "$f" ] && ! cmp -s "$f" "$root$f"; then
        mkdir -p "$root${f%/*}"
        new=$(mktemp "$root$f.XXXXXX")
        cp -L "$f" "$new"
        chmod 644 "$new"
        mv -f "$new" "$root$f"
    fi
done
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --bind "$1" "$root$2"
    [ "$3" = rw ] || mount -o remount,bind,ro "$root$2"
    shift 3
done
shift
exec chroot "$root" /usr/bin/env -i "$@"
"#;

/// A complete chroot in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Chroot {
    root: PathBuf,
    key: String,
}

impl Chroot {
    /// The chroot of these packages and this mirror; made first if need be.
    ///
    /// # Errors
    /// No mmdebstrap and no way to install it, no Debian mirror known, or a package that cannot be
    /// had; the text says which.
    pub(crate) fn prepare(cache: &Cache, ui: &Ui) -> Result<Self> {
        // Where packages come from does not change what they are: the mirror is not part of the
        // key.
        let key = key([VERSION, SUITE, &PACKAGES.join(" ")]);
        let root = cache.folder("chroot", &key, |part| {
            cache.check_space(SPACE)?;
            make(part, ui)
        })?;
        Ok(Self { root, key })
    }

    /// The hash of what made it; part of the key of all that is made with it.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Its root folder on the machine.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Begins a command to run inside.
    pub(crate) fn enter(&self) -> Entry {
        Entry {
            root: self.root.clone(),
            binds: Vec::new(),
            env: vec![
                // Not /usr/local or a home: the chroot's own cargo and rustc, never a rustup shim.
                "PATH=/usr/sbin:/usr/bin".into(),
                "HOME=/root".into(),
                "LC_ALL=C.UTF-8".into(),
                "TERM=dumb".into(),
            ],
        }
    }
}

/// A command inside the chroot, being put together.
#[derive(Debug)]
pub(crate) struct Entry {
    root: PathBuf,
    binds: Vec<(PathBuf, &'static str, &'static str)>,
    env: Vec<OsString>,
}

impl Entry {
    /// Shows the machine's folder `source` as `target`, read-only.
    pub(crate) fn bind(mut self, source: &Path, target: &'static str) -> Self {
        self.binds.push((source.to_owned(), target, "ro"));
        self
    }

    /// Shows the machine's folder `source` as `target`, for writing too.
    pub(crate) fn bind_rw(mut self, source: &Path, target: &'static str) -> Self {
        self.binds.push((source.to_owned(), target, "rw"));
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut pair = OsString::from(format!("{name}="));
        pair.push(value);
        self.env.push(pair);
        self
    }

    /// The machine's own proxy settings, for a command that goes to the network.
    pub(crate) fn network(mut self) -> Self {
        for name in ["http_proxy", "https_proxy", "no_proxy", "all_proxy"] {
            for name in [name.to_owned(), name.to_uppercase()] {
                if let Some(value) = std::env::var_os(&name) {
                    self = self.env(&name, value);
                }
            }
        }
        self
    }

    /// The command that runs `program` with `args` inside, in `/`.
    pub(crate) fn command<I, S>(self, program: &str, args: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = in_namespaces();
        command.args(["sh", "-c", ENTER, "enter"]).arg(&self.root);
        for (source, target, mode) in &self.binds {
            command.arg(source).arg(target).arg(mode);
        }
        command.arg("--").args(&self.env).arg(program).args(args);
        command
    }

    /// The command that runs a shell script inside; `$1` and so on are `args`.
    pub(crate) fn script<I, S>(self, script: &str, args: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = self.command("sh", ["-euc", script, "sh"]);
        command.args(args);
        command
    }
}

/// The prefix that gives a command its own mounts and processes and ends them all when xtask ends.
fn in_namespaces() -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "unshare", "--mount", "--pid"])
        .args(["--fork", "--kill-child=KILL", "--"]);
    command
}

fn make(part: &Path, ui: &Ui) -> Result<()> {
    let mirror = mirror()?;
    install_on_host(ui)?;
    let mut step = ui.step(
        "chroot",
        &format!("Debian {SUITE} with compilers, QEMU and tc"),
    )?;
    let settings = apt_settings(&apt_config());
    // mmdebstrap mounts /proc, /dev and /sys into its target: in a namespace of its own they cannot
    // be left behind.
    let mut command = in_namespaces();
    command.args([
        "sh",
        "-c",
        "umask 022; mount -t proc proc /proc; exec \"$@\"",
        "sh",
    ]);
    command.args([
        "mmdebstrap",
        "--mode=root",
        "--variant=apt",
        "--skip=check/qemu,check/empty",
    ]);
    for setting in &settings {
        command.arg(format!("--aptopt={setting}"));
    }
    if let Some(keyring) = keyring() {
        command.arg("--keyring").arg(keyring);
    }
    command.arg(format!("--include={}", PACKAGES.join(",")));
    command.arg(SUITE).arg(part);
    for suite in [SUITE.to_owned(), format!("{SUITE}-backports")] {
        command.arg(format!("deb {mirror} {suite} main"));
    }
    step.run(&mut command)
        .with_context(|| format!("cannot make a Debian {SUITE} from {mirror}"))?;
    step.done();
    Ok(())
}

/// The mirror this machine's apt uses for Debian, unless another is named.
fn mirror() -> Result<String> {
    if let Some(mirror) = std::env::var(MIRROR_ENV).ok().filter(|m| !m.is_empty()) {
        return Ok(mirror);
    }
    let out = Command::new("apt-get")
        .args(["indextargets", "--format", "$(REPO_URI)"])
        .output()
        .map_err(|_| {
            anyhow!(
                "no apt-get here: xtask needs a Debian-like machine (mmdebstrap works with apt)"
            )
        })?;
    debian_mirror(&String::from_utf8_lossy(&out.stdout)).ok_or_else(|| {
        anyhow!(
            "no Debian mirror in this machine's apt sources; set {MIRROR_ENV} to the URL of one \
             (it ends in /debian)"
        )
    })
}

fn debian_mirror(uris: &str) -> Option<String> {
    uris.lines()
        .map(|uri| uri.trim().trim_end_matches('/'))
        .find(|uri| uri.ends_with("/debian"))
        .map(str::to_owned)
}

fn keyring() -> Option<PathBuf> {
    ["gpg", "pgp"]
        .map(|ext| PathBuf::from(format!("/usr/share/keyrings/debian-archive-keyring.{ext}")))
        .into_iter()
        .find(|path| path.exists())
}

fn apt_config() -> String {
    Command::new("apt-config")
        .args(["dump", "Acquire"])
        .output()
        .map(|out| String::from_utf8_lossy(&out.stdout).into_owned())
        .unwrap_or_default()
}

/// The settings that decide whether this machine reaches its mirror (proxies, checks, retries),
/// from `apt-config dump`, and those that the chroot needs.
fn apt_settings(dump: &str) -> Vec<String> {
    const KEPT: &[&str] = &[
        "Acquire::http::",
        "Acquire::https::",
        "Acquire::Check-",
        "Acquire::Retries",
        "Acquire::ForceIPv",
        "Acquire::By-Hash",
    ];
    let kept = dump
        .lines()
        .filter(|line| KEPT.iter().any(|prefix| line.starts_with(prefix)))
        // A program that finds a proxy is the machine's own, and not in the chroot.
        .filter(|line| !line.contains("Auto") && !line.ends_with(" \"\";"))
        .map(str::to_owned);
    // apt's unprivileged user may not read the folders that packages are downloaded to.
    let own = [
        "APT::Install-Recommends \"false\"",
        "APT::Sandbox::User \"root\"",
        "Acquire::Languages \"none\"",
    ];
    own.into_iter().map(str::to_owned).chain(kept).collect()
}

/// The only package the machine itself must have, and Debian's keys.
fn install_on_host(ui: &Ui) -> Result<()> {
    let missing: Vec<&str> = [
        (on_path("mmdebstrap"), "mmdebstrap"),
        (keyring().is_some(), "debian-archive-keyring"),
    ]
    .into_iter()
    .filter_map(|(there, package)| (!there).then_some(package))
    .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !on_path("apt-get") {
        bail!("{} must be installed first", missing.join(" and "));
    }
    let mut step = ui.step(
        "host-packages",
        &format!("installing {}", missing.join(" ")),
    )?;
    let mut install = Command::new("apt-get");
    install
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "-y", "--no-install-recommends"])
        .args(&missing);
    // Lists may be missing or old on a fresh machine; they are fetched only when the packages are
    // not found.
    if step.run(&mut install).is_err() {
        step.run(Command::new("apt-get").arg("update"))?;
        step.run(&mut install)?;
    }
    step.done();
    Ok(())
}

/// Whether a program of this name is on the machine's PATH.
pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Says at once what would fail late: not root, not x86-64, no tool to make namespaces with.
///
/// # Errors
/// One line that names what is missing.
pub(crate) fn check_machine() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "xtask must run as root: it makes a Debian chroot and mounts into it (try: sudo -E \
               env \"PATH=$PATH\" cargo xtask …)"
        );
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("xtask needs an x86-64 Linux machine: the guest's kernel is Debian's amd64");
    }
    for program in ["setpriv", "unshare", "mount", "chroot", "cmp"] {
        if !on_path(program) {
            bail!("{program} is not on PATH (Debian: util-linux, mount, coreutils, diffutils)");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_machines_own_for_debian() {
        let uris = "http://mirror.example/debian-security/\n\
                    http://mirror.example/x/debian/\n\
                    http://other.example/debian\n";
        assert_eq!(
            debian_mirror(uris).as_deref(),
            Some("http://mirror.example/x/debian")
        );
        assert_eq!(debian_mirror("http://mirror.example/ubuntu/\n"), None);
    }

    #[test]
    fn proxies_and_checks_of_the_machine_are_kept() {
        let dump = "Acquire \"\";\nAcquire::http \"\";\nAcquire::http::Proxy \
                    \"http://proxy.example:3142\";\n\
                    Acquire::Check-Valid-Until \"false\";\nAcquire::http::Proxy-Auto-Detect \
                    \"/usr/bin/x\";\n\
                    Acquire::Changelogs::URI \"y\";\n";
        let settings = apt_settings(dump);
        assert!(
            settings.contains(&"Acquire::http::Proxy \"http://proxy.example:3142\";".to_owned())
        );
        assert!(settings.contains(&"Acquire::Check-Valid-Until \"false\";".to_owned()));
        assert!(!settings
            .iter()
            .any(|s| s.contains("Auto") || s.contains("Changelogs")));
    }

    #[test]
    fn a_command_is_wrapped_with_its_mounts_before_the_separator() {
        let chroot = Chroot {
            root: "/c".into(),
            key: String::new(),
        };
        let command = chroot
            .enter()
            .bind(Path::new("/a b"), "/src")
            .command("true", ["x"]);
        let args: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        let from = args.iter().position(|a| a == "enter").unwrap();
        assert_eq!(
            &args[from + 1..from + 6],
            ["/c", "/a b", "/src", "ro", "--"]
        );
        assert_eq!(&args[args.len() - 2..], ["true", "x"]);
    }
}
