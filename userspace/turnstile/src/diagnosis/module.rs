// SPDX-License-Identifier: GPL-2.0
//! Why a module is not there.

use std::path::Path;

use super::Machine;

/// CAP_SYS_MODULE.
const CAN_LOAD: u32 = 16;

/// How to have a signature that the kernel takes.
const SIGN: &str = "sign the module with a key of your own and enrol that key with \
                    mokutil --import KEY.der (docs/secure-boot.md)";

impl Machine {
    /// Why the module is not there, and what helps.
    pub(super) fn module(&self, name: &str) -> String {
        let release = self.release();
        if self.has(name) {
            return format!(
                "module {name} is loaded, so this may be another version of it than this command's"
            );
        }
        if !self.is_installed(name, &release) {
            return self.not_installed(name, &release);
        }
        if !self.capable(CAN_LOAD) {
            let refused = match self.enforcement() {
                Some(why) => format!("; {why}: if its signature is refused, {SIGN}"),
                None => String::new(),
            };
            return format!(
                "module {name} is installed for kernel {release} and not loaded: \
                 modprobe {name}, as root{refused}"
            );
        }
        // The kernel keeps to itself why it could not load it; modprobe says so.
        match (self.modprobe)(name) {
            Ok(()) if self.has(name) => format!(
                "module {name} was not loaded by itself (see kernel.modprobe in sysctl), and is \
                 now: try again"
            ),
            Ok(()) => format!("module {name} is on modprobe's blacklist (see modprobe.d(5))"),
            Err(said) => self.not_loaded(name, &release, &said),
        }
    }

    /// What modprobe's words come to.
    fn not_loaded(&self, name: &str, release: &str, said: &str) -> String {
        let says = |part: &str| said.contains(part);
        let locked = self.enforcement();
        // EKEYREJECTED and ENOKEY; a kernel that is locked down answers EPERM.
        if says("Key was rejected")
            || says("Required key not available")
            || (says("Operation not permitted") && locked.is_some())
        {
            let locked = locked.map_or_else(String::new, |why| format!("; {why}"));
            return format!(
                "the kernel refused the signature of module {name} ({said}{locked}): {SIGN}"
            );
        }
        if says("Exec format error") || says("Invalid module format") || says("Unknown symbol") {
            return format!(
                "module {name} was built for another kernel than {release} ({said}): {}",
                build(release)
            );
        }
        format!("modprobe {name}: {said}")
    }

    fn not_installed(&self, name: &str, release: &str) -> String {
        let mut others = self.other_kernels(name, release);
        others.sort();
        let others = match others.as_slice() {
            [] => String::new(),
            some => format!(" (there is one for {})", some.join(", ")),
        };
        format!(
            "no module {name} for kernel {release}{others}: {}",
            build(release)
        )
    }

    /// The module is in the kernel.
    fn has(&self, name: &str) -> bool {
        self.root.join("sys/module").join(name).exists()
    }

    /// modprobe would find it.
    fn is_installed(&self, name: &str, release: &str) -> bool {
        let list = self.read(&format!("lib/modules/{release}/modules.dep"));
        list.lines().any(|line| {
            let path = line.split_once(':').map_or(line, |(path, _)| path);
            let file = Path::new(path).file_name().and_then(|file| file.to_str());
            // NAME.ko, perhaps compressed.
            let stem = file.and_then(|file| file.split_once(".ko"));
            stem.is_some_and(|(stem, _)| stem == name)
        })
    }

    fn other_kernels(&self, name: &str, release: &str) -> Vec<String> {
        let folders = std::fs::read_dir(self.root.join("lib/modules"));
        folders
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|folder| folder.file_name().into_string().ok())
            .filter(|other| other != release && self.is_installed(name, other))
            .collect()
    }

    /// Why unsigned modules are refused, if they are.
    fn enforcement(&self) -> Option<String> {
        // "none [integrity] confidentiality": the one in brackets holds.
        let modes = self.read("sys/kernel/security/lockdown");
        let mode = modes.split(['[', ']']).nth(1).unwrap_or("none");
        if mode != "none" {
            return Some(format!(
                "the kernel is locked down ({mode}), as under secure boot"
            ));
        }
        let enforced = self.read("sys/module/module/parameters/sig_enforce");
        (enforced == "Y").then(|| "the kernel takes signed modules only (sig_enforce)".to_owned())
    }
}

/// How to get a module for this kernel.
fn build(release: &str) -> String {
    // Debian's releases are a version and a flavour, and versions are what can be asked for.
    let version = release.strip_suffix("-amd64").unwrap_or(release);
    let version = version.strip_suffix("-cloud").unwrap_or(version);
    format!("cargo xtask build --kernel {version}, then sh out/{release}/install.sh")
}
