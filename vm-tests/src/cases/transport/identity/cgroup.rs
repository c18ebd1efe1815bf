// SPDX-License-Identifier: GPL-2.0
//! A control group, or a device, with BPF programs, loaded by bpf(2) itself: no library is needed
//! for programs of a few instructions.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use nix::mount::{mount, MsFlags};

/// Where the unified hierarchy is looked for.
const ROOT: &str = "/sys/fs/cgroup";

/// Where a program is attached: `enum bpf_attach_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(in crate::cases) enum Hook {
    Ingress = 0,
    Egress = 1,
    Bind4 = 8,
    Bind6 = 9,
    Connect4 = 10,
    Connect6 = 11,
    PostBind4 = 12,
    PostBind6 = 13,
    Sendmsg4 = 14,
    Sendmsg6 = 15,
    Recvmsg4 = 19,
    Recvmsg6 = 20,
}

impl Hook {
    /// `enum bpf_prog_type`.
    fn kind(self) -> u32 {
        match self {
            Self::Ingress | Self::Egress => 8,
            Self::PostBind4 | Self::PostBind6 => 9,
            _ => 18,
        }
    }
}

/// An instruction: `struct bpf_insn` (code, registers, offset, immediate value).
pub(in crate::cases) type Insn = (u8, u8, i16, i32);

/// Says no.
pub(in crate::cases) const DENY: &[Insn] = &[(0xb7, 0, 0, 0), (0x95, 0, 0, 0)];

/// Says yes, and makes `user_port` of the address this port.
pub(in crate::cases) fn port(port: u16) -> Vec<Insn> {
    vec![
        (0xb7, 2, 0, i32::from(port.to_be())),
        // *(u32 *)(r1 + offsetof(struct bpf_sock_addr, user_port)) = r2
        (0x63, 0x21, 24, 0),
        (0xb7, 0, 0, 1),
        (0x95, 0, 0, 0),
    ]
}

/// A group of its own below the root, which is removed with this.
#[derive(Debug)]
pub(in crate::cases) struct Cgroup {
    path: PathBuf,
    folder: fs::File,
}

/// How many were made by this process.
static MADE: AtomicU32 = AtomicU32::new(0);

impl Cgroup {
    pub(in crate::cases) fn new(name: &str) -> Result<Self> {
        if !Path::new(ROOT).join("cgroup.procs").exists() {
            const NONE: Option<&str> = None;
            fs::create_dir_all(ROOT)?;
            mount(NONE, ROOT, Some("cgroup2"), MsFlags::empty(), NONE)
                .with_context(|| format!("mounting cgroup2 at {ROOT}"))?;
        }
        // One of the same name may not be gone yet: it is busy until its last process is.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = Path::new(ROOT).join(format!("{name}-{}-{number}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        let folder = fs::File::open(&path)?;
        Ok(Self { path, folder })
    }

    /// Does `work` as a member. What it makes stays in the group, above all sockets.
    pub(in crate::cases) fn within<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.join()?;
        let result = work();
        Self::leave()?;
        result
    }

    /// Makes the process a member.
    pub(in crate::cases) fn join(&self) -> Result<()> {
        move_to(&self.path)
    }

    /// Makes the process a member of none but the root.
    pub(in crate::cases) fn leave() -> Result<()> {
        move_to(Path::new(ROOT))
    }

    /// Its folder.
    pub(in crate::cases) fn path(&self) -> &Path {
        &self.path
    }

    /// Attaches a program, until the result is dropped.
    pub(in crate::cases) fn attach(&self, hook: Hook, program: &[Insn]) -> Result<Attached> {
        let program = load(hook, program).with_context(|| format!("a program for {hook:?}"))?;
        let attached = Attached {
            folder: self.folder.try_clone()?,
            hook,
            program,
        };
        attached
            .call(8)
            .with_context(|| format!("attaching to {hook:?}"))?;
        Ok(attached)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = move_to(Path::new(ROOT));
        let _ = fs::remove_dir(&self.path);
    }
}

/// A program in its place.
#[derive(Debug)]
pub(in crate::cases) struct Attached {
    folder: fs::File,
    hook: Hook,
    program: OwnedFd,
}

impl Attached {
    /// `BPF_PROG_ATTACH` or `BPF_PROG_DETACH`.
    fn call(&self, command: i32) -> io::Result<RawFd> {
        let words = [
            self.folder.as_raw_fd() as u32,
            self.program.as_raw_fd() as u32,
            self.hook as u32,
            0,
        ];
        let attributes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
        bpf(command, &attributes)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.call(9);
    }
}

fn move_to(group: &Path) -> Result<()> {
    let file = group.join("cgroup.procs");
    fs::write(&file, std::process::id().to_string())
        .with_context(|| format!("writing to {}", file.display()))
}

/// A program for a socket (`SO_ATTACH_BPF`) that gives this number.
pub(in crate::cases) fn load_filter(verdict: i32) -> io::Result<OwnedFd> {
    /// `BPF_PROG_TYPE_SOCKET_FILTER`.
    const FILTER: u32 = 1;
    load_as(FILTER, 0, &[(0xb7, 0, 0, verdict), (0x95, 0, 0, 0)])
}

/// An XDP program on a device of this namespace, by its index, that lets all pass, in as many
/// pieces as it is. It goes when this is dropped. `generic`: the kernel's, not the driver's.
pub(in crate::cases) fn pass_all(device: u32, generic: bool) -> io::Result<OwnedFd> {
    /// `BPF_PROG_TYPE_XDP`, `BPF_XDP`, `BPF_F_XDP_HAS_FRAGS`, `BPF_LINK_CREATE`.
    const KIND: u32 = 6;
    const PLACE: u32 = 37;
    const FRAGS: u32 = 1 << 5;
    const LINK: i32 = 28;
    let program = load_with(KIND, PLACE, FRAGS, &[(0xb7, 0, 0, 2), (0x95, 0, 0, 0)])?;
    // `XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`.
    let mode = if generic { 2 } else { 4 };
    let words = [program.as_raw_fd() as u32, device, PLACE, mode];
    let attributes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    let fd = bpf(LINK, &attributes)?;
    // SAFETY: bpf(2) has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn load(hook: Hook, program: &[Insn]) -> io::Result<OwnedFd> {
    load_as(hook.kind(), hook as u32, program)
}

fn load_as(kind: u32, place: u32, program: &[Insn]) -> io::Result<OwnedFd> {
    load_with(kind, place, 0, program)
}

fn load_with(kind: u32, place: u32, flags: u32, program: &[Insn]) -> io::Result<OwnedFd> {
    let code: Vec<u8> = program
        .iter()
        .flat_map(|(code, registers, offset, value)| {
            let mut insn = vec![*code, *registers];
            insn.extend(offset.to_ne_bytes());
            insn.extend(value.to_ne_bytes());
            insn
        })
        .collect();
    let license = c"GPL";
    let mut attributes = Vec::new();
    attributes.extend(kind.to_ne_bytes());
    attributes.extend((program.len() as u32).to_ne_bytes());
    attributes.extend((code.as_ptr() as u64).to_ne_bytes());
    attributes.extend((license.as_ptr() as u64).to_ne_bytes());
    // No log; no version, name, device.
    attributes.resize(44, 0);
    attributes.extend(flags.to_ne_bytes());
    attributes.resize(68, 0);
    attributes.extend(place.to_ne_bytes());
    let fd = bpf(5, &attributes)?;
    // SAFETY: bpf(2) has just made it, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf(command: i32, attributes: &[u8]) -> io::Result<RawFd> {
    // SAFETY: the kernel reads as many bytes as it is told, which is as many as there are; what
    // they point to lives during the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            attributes.as_ptr(),
            attributes.len(),
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as RawFd)
}
