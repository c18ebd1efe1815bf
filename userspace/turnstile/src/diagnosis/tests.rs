// SPDX-License-Identifier: GPL-2.0
//! Machines made of files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const RELEASE: &str = "7.2.12+deb13-amd64";
const ROOT: &str = "000001ffffffffff";
const NOBODY: &str = "0000000000000000";
const PORT_MODULE: Obstacle = Obstacle::NoModule("sch_turnstile");

/// A machine in a folder of its own.
struct Made {
    machine: Machine,
}

impl Made {
    fn new(capabilities: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("turnstile-machine-{}-{number}", std::process::id());
        let made = Self {
            machine: Machine {
                root: std::env::temp_dir().join(name),
                modprobe: Box::new(|name| panic!("modprobe {name} is not to be run")),
            },
        };
        made.file("proc/sys/kernel/osrelease", &format!("{RELEASE}\n"))
            .file(
                "proc/self/status",
                &format!("Name:\tx\nCapEff:\t{capabilities}\n"),
            )
            .file(&format!("lib/modules/{RELEASE}/modules.dep"), "")
    }

    fn file(self, path: &str, text: &str) -> Self {
        let path = self.machine.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn installed(self, release: &str, file: &str) -> Self {
        let list = format!("kernel/net/sched/sch_fq.ko.xz:\nupdates/{file}: kernel/x.ko\n");
        self.file(&format!("lib/modules/{release}/modules.dep"), &list)
    }

    fn modprobe(mut self, answer: Result<(), &'static str>) -> Self {
        self.machine.modprobe = Box::new(move |_| answer.map_err(str::to_owned));
        self
    }

    fn says(&self, obstacle: Obstacle) -> String {
        self.machine.explain(obstacle)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.machine.root);
    }
}

#[test]
fn no_module_for_this_kernel() {
    let says = Made::new(ROOT).says(PORT_MODULE);
    assert_eq!(
        says,
        "no module sch_turnstile for kernel 7.2.12+deb13-amd64: \
         cargo xtask build --kernel 7.2.12+deb13, then sh out/7.2.12+deb13-amd64/install.sh"
    );
    // The transport's module is another one, and so is a longer name.
    for file in ["turnstile.ko.xz", "sch_turnstile2.ko"] {
        let made = Made::new(ROOT).installed(RELEASE, file);
        assert!(made.says(PORT_MODULE).starts_with("no module "), "{file}");
    }
    let other = Made::new(ROOT).installed("7.2.9-amd64", "sch_turnstile.ko");
    let says = other.says(PORT_MODULE);
    assert!(says.contains(" (there is one for 7.2.9-amd64): "), "{says}");
}

#[test]
fn a_signature_that_is_refused() {
    let words = "could not insert 'sch_turnstile': Key was rejected by service";
    let made = Made::new(ROOT)
        .installed(RELEASE, "sch_turnstile.ko.xz")
        .file(
            "sys/kernel/security/lockdown",
            "none [integrity] confidentiality\n",
        )
        .modprobe(Err(words));
    let says = made.says(PORT_MODULE);
    for part in [
        "the kernel refused the signature of module sch_turnstile",
        words,
        "locked down (integrity)",
        "mokutil --import KEY.der",
        "docs/secure-boot.md",
    ] {
        assert!(says.contains(part), "{part}: {says}");
    }
    assert!(!says.contains("modprobe sch_turnstile"), "{says}");
    // Locked down, the kernel answers EPERM; otherwise that is something else.
    let words = "could not insert 'sch_turnstile': Operation not permitted";
    let made = Made::new(ROOT)
        .installed(RELEASE, "sch_turnstile.ko")
        .modprobe(Err(words));
    let says = made.says(PORT_MODULE);
    assert_eq!(says, format!("modprobe sch_turnstile: {words}"));
    let made = made.file("sys/module/module/parameters/sig_enforce", "Y\n");
    assert!(made.says(PORT_MODULE).contains("(sig_enforce)"));
}

#[test]
fn not_root() {
    let made = Made::new(NOBODY).installed(RELEASE, "turnstile.ko.zst");
    let says = made.says(Obstacle::NoModule("turnstile"));
    assert_eq!(
        says,
        "module turnstile is installed for kernel 7.2.12+deb13-amd64 and not loaded: \
         modprobe turnstile, as root"
    );
}

#[test]
fn other_ends_of_modprobe() {
    let installed = || Made::new(ROOT).installed(RELEASE, "sch_turnstile.ko");
    let format = installed().modprobe(Err("could not insert 'x': Exec format error"));
    assert!(format
        .says(PORT_MODULE)
        .contains("was built for another kernel than 7.2.12+deb13-amd64"));
    let blacklisted = installed().modprobe(Ok(()));
    assert!(blacklisted.says(PORT_MODULE).contains("blacklist"));
    let loaded = installed().file("sys/module/sch_turnstile/refcnt", "0\n");
    assert!(loaded
        .says(PORT_MODULE)
        .starts_with("module sch_turnstile is loaded, "));
}

const UDP_HEAD: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
                        retrnsmt   uid  timeout inode ref pointer drops\n";

fn udp(address: &str, inode: u64) -> String {
    format!(
        "{UDP_HEAD}  98: {address} 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000 \
         0 {inode} 2 000000006b0e5c4a 0\n"
    )
}

fn process(made: &Made, pid: u32, name: &str, link: &str) {
    let folder = made.machine.root.join(format!("proc/{pid}"));
    fs::create_dir_all(folder.join("fd")).unwrap();
    fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
    symlink("/dev/null", folder.join("fd/0")).unwrap();
    symlink(Path::new(link), folder.join("fd/7")).unwrap();
}

#[test]
fn who_has_the_udp_port() {
    let made = Made::new(ROOT)
        .file("proc/self/net/udp", &udp("00000000:7474", 12))
        .file(
            "proc/self/net/udp6",
            &udp("00000000000000000000000000000000:7475", 34),
        );
    process(&made, 41, "other", "socket:[12]");
    process(&made, 42, "nc", "socket:[34]");
    let says = made.says(Obstacle::PortTaken);
    assert!(
        says.contains("UDP port 29813, which the transport needs, is taken by nc (process 42)"),
        "{says}"
    );

    let made = made.file("proc/self/net/udp6", &udp("0:7475", 35));
    let says = made.says(Obstacle::PortTaken);
    assert!(says.contains("user 1000 that cannot be seen"), "{says}");
    let made = made.file("proc/self/net/udp6", &udp("0:7475", 0));
    let says = made.says(Obstacle::PortTaken);
    assert!(says.contains("taken by the kernel"), "{says}");
    let made = made.file("proc/self/net/udp6", UDP_HEAD);
    let says = made.says(Obstacle::PortTaken);
    assert!(says.ends_with("try again"), "{says}");
}
