// SPDX-License-Identifier: GPL-2.0
//! Which sockets have which ports. The transport's ports are its own, for each network namespace.

use crate::memory::ATOMIC;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use knet_transport::{SockAddress, View};

const ANY: [u8; 16] = [0; 16];
const ANY_IPV4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];

/// Ports that the kernel chooses from: as for UDP unless configured otherwise.
const FIRST_CHOSEN: u16 = 32_768;
/// How many there are, to 60999.
const CHOSEN: u16 = 28_232;

/// Ports, each with the handles of the sockets that have it.
pub(crate) struct Ports(RBTree<(u16, u64), ()>);

impl Ports {
    pub(crate) fn new() -> Self {
        Self(RBTree::new())
    }

    /// Notes that a socket has a port.
    pub(crate) fn add(&mut self, port: u16, handle: u64) -> Result {
        self.0
            .try_create_and_insert((port, handle), (), ATOMIC)
            .map(drop)
    }

    /// A socket has the port no longer.
    pub(crate) fn remove(&mut self, port: u16, handle: u64) {
        self.0.remove(&(port, handle));
    }

    /// The first socket of a port whose handle is at least `from`.
    pub(crate) fn next(&self, port: u16, from: u64) -> Option<u64> {
        let cursor = self.0.cursor_lower_bound(&(port, from))?;
        let ((at, handle), ()) = cursor.current();
        (*at == port).then_some(*handle)
    }
}

/// The ports that a socket without one may have, in the order in which to try them.
pub(crate) fn chosen(random: u64) -> impl Iterator<Item = u16> {
    let mut at = (random % u64::from(CHOSEN)) as u16;
    (0..CHOSEN).map(move |_| {
        let port = FIRST_CHOSEN.wrapping_add(at);
        at = at.wrapping_add(1);
        if at >= CHOSEN {
            at = 0;
        }
        port
    })
}

fn is_ipv4(ip: &[u8; 16]) -> bool {
    ip.starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
}

/// Whether a socket that is bound to `bound` serves the local address `ip`.
fn serves(bound: &[u8; 16], v6only: bool, ip: &[u8; 16]) -> bool {
    if *bound == ANY {
        !v6only || !is_ipv4(ip)
    } else if *bound == ANY_IPV4 {
        is_ipv4(ip)
    } else {
        bound == ip
    }
}

/// Whether two sockets cannot have the same port.
pub(crate) fn collide(a: &View, b: &View) -> bool {
    if a.device != 0 && b.device != 0 && a.device != b.device {
        return false;
    }
    serves(&a.local.ip, a.v6only, &b.local.ip) || serves(&b.local.ip, b.v6only, &a.local.ip)
}

/// How well a socket fits a message from `from` to the local address `to`, which came by `device`;
/// 0: not at all.
pub(crate) fn fits(view: &View, from: &SockAddress, to: &[u8; 16], device: u32) -> u32 {
    if !serves(&view.local.ip, view.v6only, to) || (view.device != 0 && view.device != device) {
        return 0;
    }
    let mut score = 1;
    if let Some(peer) = &view.peer {
        let scope = peer.scope == 0 || from.scope == 0 || peer.scope == from.scope;
        if peer.ip != from.ip || peer.port != from.port || !scope {
            return 0;
        }
        score |= 4;
    }
    if view.local.ip != ANY && view.local.ip != ANY_IPV4 {
        score |= 2;
    }
    if view.device != 0 {
        score |= 8;
    }
    score
}
