// SPDX-License-Identifier: GPL-2.0
//! Packets of the transport that nobody's endpoint made, from the machine itself.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use turnstile_core::header::PORT;

use crate::rng::Rng;

/// One packet of a random kind to a random host of the two.
pub(super) fn send(rng: &mut Rng) {
    let domain = libc::AF_INET;
    // SAFETY: no memory is involved.
    let fd = unsafe {
        libc::socket(
            domain,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::IPPROTO_UDP,
        )
    };
    if fd < 0 {
        return;
    }
    // SAFETY: it is new, and nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    for _ in 0..rng.range(1..=4) {
        let payload = payload(rng);
        let mut packet = Vec::with_capacity(8 + payload.len());
        let source = if rng.one_in(10) { 1 } else { PORT };
        packet.extend_from_slice(&source.to_be_bytes());
        packet.extend_from_slice(&PORT.to_be_bytes());
        packet.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
        // No checksum.
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(&payload);
        // SAFETY: all zero is a valid address.
        let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        to.sin_family = libc::AF_INET as libc::sa_family_t;
        let ip = *rng.pick(&[[127, 0, 0, 1], [10, 0, 0, 1], [10, 0, 0, 2]]);
        to.sin_addr.s_addr = u32::from_ne_bytes(ip);
        // SAFETY: packet and address are there.
        unsafe {
            libc::sendto(
                fd.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                libc::MSG_DONTWAIT,
                (&raw const to).cast(),
                size_of::<libc::sockaddr_in>() as libc::socklen_t,
            )
        };
    }
}

/// Few cookies, so that packets belong together, and fields that are mostly in range.
fn payload(rng: &mut Rng) -> Vec<u8> {
    let kind = rng.range(0..=8) as u8;
    let mut bytes = vec![(1 << 4) | kind, rng.range(0..=7) as u8, 0, 0];
    if rng.one_in(4) {
        bytes[2] = 1 << rng.range(0..=7);
    }
    bytes.extend_from_slice(&rng.range(0..=7).to_be_bytes());
    let len = *rng.pick(&[16_usize, 18, 20, 20, 22, 36, 44, 24, 1400]);
    while bytes.len() < len {
        let field = match rng.index(4) {
            0 => 0,
            1 => 4000 + rng.range(0..=6) as u32,
            2 => rng.range(0..=u64::from(u32::MAX)) as u32,
            _ => rng.range(0..=3000) as u32,
        };
        if rng.one_in(2) {
            bytes.extend_from_slice(&(field as u16).to_be_bytes());
        } else {
            bytes.extend_from_slice(&field.to_be_bytes());
        }
    }
    bytes.truncate(len);
    bytes
}
