// SPDX-License-Identifier: GPL-2.0
//! The guest's file system: one archive in memory, since the stock kernel has every disk driver as
//! a module.
//!
//! The large part (tools, the stock kernel's modules) depends on the chroot and the kernel only and
//! is cached. What a run adds (our module, our programs, what to do) follows in a second archive in
//! the same file.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use turnstile_test_protocol::run::{RunConfig, PATH};

use crate::cache::key;
use crate::chroot::Chroot;
use crate::cpio::Archive;
use crate::env::{Env, OUT};
use crate::guest_build::GuestPrograms;
use crate::kernel::{KernelTree, IN_CHROOT};
use crate::progress::Step;
use crate::session::{Built, Session};

/// The image's name in the folder of a run. It goes into the guest's command line, and so does not
/// change.
pub(crate) const IMAGE: &str = "image.cpio";
/// Raised when an image made by an older xtask will not do.
const VERSION: &str = "1";

/// The chroot's programs that the guest gets; where it has none of a name, busybox serves.
const PROGRAMS: &[&str] = &[
    "dash", "ip", "tc", "bridge", "ss", "nstat", "rtmon", "ping", "arping", "jq", "iperf3",
    "tcpdump", "ethtool", "kmod", "ps", "free", "pgrep", "pkill", "sysctl", "vmstat", "slabtop",
    "top", "nft", "wg", "busybox",
];
/// Names under which kmod is called.
const KMOD_NAMES: &[&str] = &["modprobe", "insmod", "rmmod", "lsmod", "modinfo", "depmod"];
/// Folders of the stock kernel's modules that the guest gets whole.
const MODULE_FOLDERS: &[&str] = &[
    "kernel/net/sched/",
    "kernel/net/bridge/",
    "kernel/net/8021q/",
    "kernel/net/packet/",
];
/// Further modules, where the kernel has them; each comes with what it needs.
const MODULES: &[&str] = &[
    "veth",
    "dummy",
    "ifb",
    "tun",
    "tap",
    "vxlan",
    "geneve",
    "gre",
    "ip_gre",
    "ipip",
    "sit",
    "ip6_tunnel",
    "macvlan",
    "ipvlan",
    "vrf",
    "bonding",
    "team",
    "netdevsim",
    "nlmon",
    "stp",
    "llc",
    "inet_diag",
    "tcp_diag",
    "udp_diag",
    "raw_diag",
    "unix_diag",
    "netlink_diag",
    "af_packet",
    "af_packet_diag",
    "pktgen",
    "tcp_dctcp",
    "tcp_bbr",
    "nf_tables",
    "nft_ct",
    "nft_nat",
    "nft_masq",
    "nft_chain_nat",
    "nft_reject_inet",
    "nf_conntrack",
    "nf_nat",
    "wireguard",
    "esp4",
    "esp6",
    "xfrm_user",
    "gcm",
    "ccm",
    "aesni_intel",
    "seqiv",
    "echainiv",
];

/// Prints what to copy: `bin NAME FILE`, `lib NAME FILE`, `applet NAME`.
const LIST: &str = r#"
for name in "$@"; do
    path=$(command -v "$name") || { echo "error: the chroot has no $name" >&2; exit 1; }
    real=$(readlink -f "$path")
    echo "bin $name $real"
    # A static program has none.
    ldd "$real" 2>/dev/null | grep -o '/[^ ]*' | while read -r lib; do
        echo "lib $lib $(readlink -f "$lib")"
    done
done
# Loaded by name when a thread is cancelled: iperf3 ends that way.
lib=/usr/lib/x86_64-linux-gnu/libgcc_s.so.1
echo "lib $lib $(readlink -f $lib)"
busybox --list | while read -r name; do echo "applet $name"; done
"#;

/// Unpacks the modules that the file `/out/list` names.
const UNPACK: &str = r#"
from=/kernel/image/lib/modules/$1
to=/out/lib/modules/$1
while read -r path; do
    plain=${path%.xz}; plain=${plain%.zst}
    mkdir -p "$to/${plain%/*}"
    case $path in
    *.xz) xz -dc "$from/$path" > "$to/$plain" ;;
    *.zst) zstd -qdc "$from/$path" > "$to/$plain" ;;
    *) cp "$from/$path" "$to/$plain" ;;
    esac
done < /out/list
for f in modules.order modules.builtin modules.builtin.modinfo; do
    [ ! -e "$from/$f" ] || cp "$from/$f" "$to/"
done
"#;

/// Makes a run's modules ready.
const PREPARE: &str = r#"
strip --strip-debug "/out/lib/modules/$1/updates/"*.ko
depmod -b /out "$1"
"#;

/// The part of the image that does not change from run to run.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    dir: PathBuf,
}

/// The base image of a kernel; made first if need be.
///
/// # Errors
/// A program or a module that the guest needs is not there.
pub(crate) fn base(env: &Env, chroot: &Chroot, tree: &KernelTree) -> Result<Base> {
    let lists = [PROGRAMS, KMOD_NAMES, MODULE_FOLDERS, MODULES].map(|list| list.join(" "));
    let key = key([VERSION, chroot.key(), &tree.key(), LIST, UNPACK]
        .into_iter()
        .chain(lists.iter().map(String::as_str)));
    let name = format!("guest-{}", tree.kernel.version);
    let dir = env
        .cache
        .folder(&name, &key, |part| make(env, chroot, tree, part))?;
    Ok(Base { dir })
}

fn make(env: &Env, chroot: &Chroot, tree: &KernelTree, part: &Path) -> Result<()> {
    let mut step = env.ui.step(
        &format!("guest-base-{}", tree.bed),
        &format!("tools and modules of the guest on {}", tree.release),
    )?;
    if tree.source.is_some() {
        builtin_modules(tree, part)?;
    } else {
        stock_modules(chroot, tree, part, &mut step)?;
    }
    let files = step.output(&mut chroot.enter().script(LIST, PROGRAMS))?;
    let mut archive = Archive::new();
    tools(&mut archive, chroot.root(), &files)?;
    let modules = format!("lib/modules/{}", tree.release);
    archive.copy_tree(&format!("usr/{modules}"), &part.join(&modules))?;
    fs::write(part.join("base.cpio"), archive.finish())?;
    step.done();
    Ok(())
}

/// The stock kernel's modules that the guest gets.
fn stock_modules(chroot: &Chroot, tree: &KernelTree, part: &Path, step: &mut Step) -> Result<()> {
    let dep = fs::read_to_string(tree.modules_dir().join("modules.dep"))
        .context("the kernel's modules are not listed")?;
    let list = closure(&dep, MODULE_FOLDERS, MODULES);
    if !list.iter().any(|path| path.contains("/veth.ko")) {
        bail!("kernel {} has no veth module", tree.release);
    }
    fs::write(part.join("list"), list.join("\n") + "\n")?;
    step.run(
        &mut chroot
            .enter()
            .bind(&tree.path, IN_CHROOT)
            .bind_rw(part, OUT)
            .script(UNPACK, [&tree.release]),
    )
}

/// A kernel that was built here has no modules but ours. The lists of what is built in make
/// modprobe say yes to it.
fn builtin_modules(tree: &KernelTree, part: &Path) -> Result<()> {
    let folder = part.join("lib/modules").join(&tree.release);
    fs::create_dir_all(&folder)?;
    for name in ["modules.builtin", "modules.builtin.modinfo"] {
        fs::copy(tree.path.join("build").join(name), folder.join(name))
            .with_context(|| format!("the kernel's build left no {name}"))?;
    }
    fs::write(folder.join("modules.order"), "")?;
    Ok(())
}

/// The folders, programs and libraries of the guest.
fn tools(archive: &mut Archive, chroot: &Path, list: &str) -> Result<()> {
    for folder in [
        "proc",
        "sys",
        "dev",
        "run",
        "tmp",
        "root",
        "etc",
        "var",
        "usr/bin",
        "usr/lib",
        "usr/lib64",
    ] {
        archive.folder(folder);
    }
    for (name, target) in [
        ("usr/sbin", "bin"),
        ("bin", "usr/bin"),
        ("sbin", "usr/bin"),
        ("lib", "usr/lib"),
        ("lib64", "usr/lib64"),
        ("var/run", "/run"),
    ] {
        archive.folder_link(name, target);
    }
    archive.file("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\n");
    archive.file("etc/group", 0o644, b"root:x:0:\n");
    archive.file("etc/hosts", 0o644, b"127.0.0.1 localhost\n::1 localhost\n");
    // The chroot's links are relative or were resolved inside it.
    let source = |path: &str| chroot.join(path.trim_start_matches('/'));
    let mut taken = BTreeSet::new();
    for line in list.lines() {
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("bin"), Some(name), Some(file)) => {
                taken.insert(name.to_owned());
                archive.copy(&format!("usr/bin/{name}"), &source(file))?;
            }
            (Some("lib"), Some(name), Some(file)) => {
                let name = name.trim_start_matches('/');
                let name = name.strip_prefix("usr/").unwrap_or(name);
                if taken.insert(name.to_owned()) {
                    archive.copy(&format!("usr/{name}"), &source(file))?;
                }
            }
            (Some("applet"), Some(name), None) => {
                let other =
                    KMOD_NAMES.contains(&name) || matches!(name, "sh" | "ash" | "init" | "linuxrc");
                if !other && taken.insert(name.to_owned()) {
                    archive.link(&format!("usr/bin/{name}"), "busybox");
                }
            }
            _ => bail!("cannot read the list of the guest's files at \"{line}\""),
        }
    }
    // Not busybox's shell: it would run its own ip, tc and ping before those in PATH.
    archive.link("usr/bin/sh", "dash");
    for name in KMOD_NAMES {
        archive.link(&format!("usr/bin/{name}"), "kmod");
    }
    for folder in ["usr/share/iproute2", "usr/lib/x86_64-linux-gnu/tc"] {
        archive.copy_tree(folder, &chroot.join(folder))?;
    }
    Ok(())
}

/// Writes the whole image of a run to `run/`[`IMAGE`].
///
/// # Errors
/// A part of it cannot be read, or the image cannot be written.
pub(crate) fn write(
    env: &Env,
    session: &Session,
    built: &Built,
    config: &RunConfig,
    run: &Path,
) -> Result<()> {
    let release = &session.tree.release;
    let mut archive = Archive::new();
    for (file, place) in GuestPrograms::FILES {
        archive.copy(place, &built.programs.path(file))?;
    }
    let configs = env.src.join("tc-configs");
    if configs.is_dir() {
        archive.copy_tree("tc-configs", &configs)?;
    }
    // depmod wants all modules in one tree; their files are shared with the cache, not copied.
    let tree_dir = format!("lib/modules/{release}");
    let all = run.join(&tree_dir);
    link_tree(&session.base.dir.join(&tree_dir), &all)?;
    fs::create_dir_all(all.join("updates"))?;
    let mut ours = Vec::new();
    for module in built.modules.iter().chain(&built.extra) {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        let ours_is = format!("updates/{name}");
        fs::copy(module, all.join(&ours_is))
            .with_context(|| format!("cannot copy {}", module.display()))?;
        ours.push(ours_is);
    }
    // Without debugging information, which would be most of it.
    let prepared = session
        .chroot
        .enter()
        .bind_rw(run, OUT)
        .script(PREPARE, [release])
        .output()?;
    if !prepared.status.success() {
        bail!(
            "depmod failed: {}",
            String::from_utf8_lossy(&prepared.stderr).trim()
        );
    }
    for ours in ours {
        archive.copy(&format!("usr/{tree_dir}/{ours}"), &all.join(&ours))?;
    }
    for entry in fs::read_dir(&all)? {
        let path = entry?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            archive.copy(&format!("usr/{tree_dir}/{name}"), &path)?;
        }
    }
    archive.file(
        PATH.trim_start_matches('/'),
        0o644,
        &serde_json::to_vec(config)?,
    );
    let image = run.join(IMAGE);
    let mut bytes =
        fs::read(session.base.dir.join("base.cpio")).context("cannot read the guest's tools")?;
    bytes.extend(archive.finish());
    fs::write(&image, bytes).with_context(|| format!("cannot write {}", image.display()))?;
    fs::remove_dir_all(run.join("lib"))?;
    Ok(())
}

fn link_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            link_tree(&path, &target)?;
        } else {
            fs::hard_link(&path, &target)
                .with_context(|| format!("cannot link {}", path.display()))?;
        }
    }
    Ok(())
}

/// The modules of the folders and names, and all they depend on, of a `modules.dep` text; sorted.
fn closure(modules_dep: &str, folders: &[&str], names: &[&str]) -> Vec<String> {
    let deps: HashMap<&str, Vec<&str>> = modules_dep
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(path, deps)| (path, deps.split_whitespace().collect()))
        .collect();
    let name = |path: &str| -> String {
        let file = path.rsplit('/').next().unwrap_or(path);
        file.split(".ko").next().unwrap_or(file).replace('-', "_")
    };
    let mut todo: Vec<&str> = deps
        .keys()
        .copied()
        .filter(|path| {
            folders.iter().any(|folder| path.starts_with(folder))
                || names.contains(&name(path).as_str())
        })
        .collect();
    let mut found = BTreeSet::new();
    while let Some(path) = todo.pop() {
        if found.insert(path.to_owned()) {
            todo.extend(deps.get(path).into_iter().flatten());
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::closure;

    #[test]
    fn modules_come_with_what_they_need() {
        let dep = "kernel/net/sched/sch_fq.ko.xz:\n\
                   kernel/net/sched/act_ct.ko.xz: kernel/net/nf_conntrack.ko.xz \
                   kernel/lib/crc.ko.xz\n\
                   kernel/net/nf_conntrack.ko.xz: kernel/net/defrag.ko.xz\n\
                   kernel/net/defrag.ko.xz:\n\
                   kernel/lib/crc.ko.xz:\n\
                   kernel/drivers/net/veth.ko.xz:\n\
                   kernel/drivers/net/ip-over-x.ko.xz:\n\
                   kernel/drivers/gpu/big.ko.xz:\n";
        let list = closure(
            dep,
            &["kernel/net/sched/"],
            &["veth", "ip_over_x", "absent"],
        );
        assert_eq!(
            list,
            [
                "kernel/drivers/net/ip-over-x.ko.xz",
                "kernel/drivers/net/veth.ko.xz",
                "kernel/lib/crc.ko.xz",
                "kernel/net/defrag.ko.xz",
                "kernel/net/nf_conntrack.ko.xz",
                "kernel/net/sched/act_ct.ko.xz",
                "kernel/net/sched/sch_fq.ko.xz",
            ]
        );
    }
}
