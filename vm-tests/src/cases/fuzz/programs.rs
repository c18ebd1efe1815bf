// SPDX-License-Identifier: GPL-2.0
//! Control groups that the sockets are of, and programs that look at their packets and calls.

use std::fs;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use crate::cases::transport::identity::cgroup::{load_filter, port, Attached, Cgroup, Hook, DENY};
use crate::rng::Rng;

use super::hand::Hand;
use super::sockets;

/// Programs that are attached at a time.
const MOST: usize = 3;

const HOOKS: &[Hook] = &[
    Hook::Ingress,
    Hook::Egress,
    Hook::Bind4,
    Hook::Bind6,
    Hook::Connect4,
    Hook::Connect6,
    Hook::PostBind4,
    Hook::PostBind6,
    Hook::Sendmsg4,
    Hook::Sendmsg6,
    Hook::Recvmsg4,
    Hook::Recvmsg6,
];

/// The groups of a round.
pub(super) struct Groups {
    // Programs go before their groups do.
    attached: Mutex<Vec<Attached>>,
    groups: [Cgroup; 2],
}

impl Groups {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            attached: Mutex::default(),
            groups: [Cgroup::new("fuzz-a")?, Cgroup::new("fuzz-b")?],
        })
    }

    fn attach(&self, hook: Hook, program: Program, rng: &mut Rng) -> bool {
        let group = &self.groups[rng.index(2)];
        let code = match program {
            Program::Deny => DENY.to_vec(),
            Program::Allow => vec![(0xb7, 0, 0, 1), (0x95, 0, 0, 0)],
            Program::Port => port(4000 + rng.range(0..=5) as u16),
        };
        let made = group.attach(hook, &code);
        let done = made.is_ok();
        let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        attached.extend(made.ok());
        let gone = (attached.len() > MOST).then(|| attached.remove(0));
        drop(attached);
        drop(gone);
        done
    }

    fn detach(&self, rng: &mut Rng) -> bool {
        let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = match attached.len() {
            0 => None,
            len => Some(attached.swap_remove(rng.index(len))),
        };
        drop(attached);
        gone.is_some()
    }
}

#[derive(Clone, Copy, Debug)]
enum Program {
    Deny,
    Allow,
    /// Changes the address's port.
    Port,
}

/// Does something with groups or programs.
pub(super) fn call(hand: &mut Hand<'_>) {
    match hand.rng.index(12) {
        0 | 1 => attach(hand),
        2 | 3 => {
            hand.about_to("a program is detached".into());
            let done = hand.shared.groups.detach(&mut hand.rng);
            hand.tally.count("a group's program detached", done);
        }
        4 | 5 => join(hand),
        6 => limit(hand),
        7 => passing_group(hand),
        _ => filter(hand),
    }
}

fn attach(hand: &mut Hand<'_>) {
    let rng = &mut hand.rng;
    let hook = *rng.pick(HOOKS);
    let program = match rng.index(6) {
        0 => Program::Deny,
        1 | 2 => Program::Port,
        _ => Program::Allow,
    };
    hand.about_to(format!("{program:?} at {hook:?}"));
    let done = hand.shared.groups.attach(hook, program, &mut hand.rng);
    hand.tally.count("a group's program attached", done);
}

/// All threads go to a group, or leave it: what they make is its.
fn join(hand: &mut Hand<'_>) {
    let which = hand.rng.index(3);
    hand.about_to(format!("to group {which}"));
    let moved = match hand.shared.groups.groups.get(which) {
        Some(group) => group.join(),
        None => Cgroup::leave(),
    };
    hand.tally.count("another group", moved.is_ok());
}

/// `memory.high` of a group: its members are slowed down. (What is above `memory.max` is killed,
/// and the case with it.)
fn limit(hand: &mut Hand<'_>) {
    let group = &hand.shared.groups.groups[hand.rng.index(2)];
    let control = group.path().with_file_name("cgroup.subtree_control");
    // It may have been done.
    let _ = fs::write(control, "+memory");
    let file = group.path().join("memory.high");
    hand.about_to(format!("{}", file.display()));
    let low = hand.rng.range(0..=1 << 22).to_string();
    let done = fs::write(&file, low).is_ok();
    std::thread::sleep(std::time::Duration::from_micros(hand.rng.range(1..=2000)));
    let again = fs::write(&file, "max").is_ok();
    hand.tally.count("a limit of memory", done && again);
}

/// A group that goes while a socket is its.
fn passing_group(hand: &mut Hand<'_>) {
    hand.about_to("a group that goes".into());
    let Ok(group) = Cgroup::new(&format!("fuzz-{}", hand.rng.range(0..=9999))) else {
        return hand
            .tally
            .count("a group that goes before its sockets", false);
    };
    let made = group.within(|| {
        for _ in 0..3 {
            sockets::open(hand);
        }
        Ok(())
    });
    drop(group);
    hand.tally
        .count("a group that goes before its sockets", made.is_ok());
}

/// A program for one socket: classic BPF, or eBPF.
fn filter(hand: &mut Hand<'_>) {
    let Some(socket) = hand.shared.pick(&mut hand.rng) else {
        return;
    };
    let verdict = *hand.rng.pick(&[0, 8, u32::MAX, u32::MAX, u32::MAX]);
    hand.about_to(format!("a filter of {} says {verdict}", socket.raw()));
    let (level, rng) = (libc::SOL_SOCKET, &mut hand.rng);
    let (what, done) = match rng.index(8) {
        0..3 => {
            let done = classic(socket.raw(), rng, verdict, libc::SO_ATTACH_FILTER);
            ("a socket's filter attached", done)
        }
        3 => {
            let done = load_filter(verdict as i32).is_ok_and(|program| {
                let fd = program.as_raw_fd().to_ne_bytes();
                sockets::set_option(&socket.fd, level, libc::SO_ATTACH_BPF, &fd)
            });
            ("a socket's eBPF filter attached", done)
        }
        4 => {
            let option = *rng.pick(&[libc::SO_LOCK_FILTER, libc::SO_ATTACH_REUSEPORT_CBPF]);
            let done = classic(socket.raw(), rng, verdict, option);
            ("a filter locked, or one for groups", done)
        }
        _ => {
            let zero = 0_i32.to_ne_bytes();
            let done = sockets::set_option(&socket.fd, level, libc::SO_DETACH_FILTER, &zero);
            ("a socket's filter detached", done)
        }
    };
    hand.tally.count(what, done);
}

fn classic(fd: i32, rng: &mut Rng, verdict: u32, option: i32) -> bool {
    let offset = *rng.pick(&[0_u32, 8, 12, 2000]);
    let insn = |code: u16, k: u32| libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    };
    // Return a number; at times load a word before.
    let mut program = vec![insn(0x06, verdict)];
    if rng.one_in(2) {
        program.insert(0, insn(0x20, offset));
    }
    if rng.one_in(10) {
        // A jump out of the program.
        program.insert(0, insn(0x05, 100));
    }
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let place = (&raw const program).cast();
    // SAFETY: the program is there for as long as the call.
    unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, option, place, len) == 0 }
}
