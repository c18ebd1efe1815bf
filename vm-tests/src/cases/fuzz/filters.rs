// SPDX-License-Identifier: GPL-2.0
//! Programs that look at a socket's packets.

use crate::rng::Rng;

use super::sockets::Sockets;

/// Attaches a classic BPF program to a socket, or takes it off.
pub(super) fn attach(rng: &mut Rng, sockets: &Sockets) {
    let Some(fd) = sockets.pick(rng) else {
        return;
    };
    let verdict = *rng.pick(&[0_u32, 1, 8, 30, 100, u32::MAX]);
    let offset = *rng.pick(&[0_u32, 8, 12, 2000]);
    let load = libc::sock_filter {
        code: 0x20, // ld word
        jt: 0,
        jf: 0,
        k: offset,
    };
    let give = libc::sock_filter {
        code: 0x06, // ret
        jt: 0,
        jf: 0,
        k: verdict,
    };
    let mut program = if rng.one_in(2) {
        vec![load, give]
    } else {
        vec![give]
    };
    if rng.one_in(10) {
        // A jump out of the program.
        program.insert(
            0,
            libc::sock_filter {
                code: 0x05,
                jt: 0,
                jf: 0,
                k: 100,
            },
        );
    }
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    let option = *rng.pick(&[
        libc::SO_ATTACH_FILTER,
        libc::SO_ATTACH_FILTER,
        libc::SO_DETACH_FILTER,
        libc::SO_LOCK_FILTER,
        libc::SO_ATTACH_REUSEPORT_CBPF,
    ]);
    let len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the program is there for as long as the call.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            option,
            (&raw const program).cast(),
            len,
        )
    };
}
