// SPDX-License-Identifier: GPL-2.0
//! Sockets for those who list them.

use crate::ports;
use crate::state::{State, Turnstile};
use knet_transport::{Listed, Locked, SockName};
use turnstile_core::transport::ports::Name;

/// A position in the list of those with a name: which places it says, from here on those of
/// sockets that serve IPv6 alone.
const IPV6_ONLY: u64 = 1 << 32;

/// The first socket from a position on: of all, or of those with this name.
pub(crate) fn next(
    state: &mut Locked<'_, Turnstile>,
    name: Option<&SockName>,
    from: u64,
) -> Option<Listed> {
    let (state, _) = state.parts();
    let (handle, next) = match name {
        None => {
            let handle = state.sockets.at_least(from)?;
            (handle, handle.saturating_add(1))
        }
        Some(name) => state.named(name, from)?,
    };
    let queues = state.queues(handle);
    let socket = state.sockets.get(handle)?;
    Some(Listed {
        sock: socket.sock.hold(),
        handle,
        next,
        queues,
        closing: socket.closed,
    })
}

impl State {
    /// The first socket with this name from a position on, and where to go on. Who asks does not
    /// know whether it serves IPv6 alone, so those that do come after those that do not.
    fn named(&self, name: &SockName, from: u64) -> Option<(u64, u64)> {
        let peer = name.peer.as_ref().map(ports::peer);
        let at = |v6only, place| {
            let name = Name::new(name.local.port, name.local.ip, v6only, name.device, peer);
            self.sockets.ports.member(&name, place)
        };
        if from < IPV6_ONLY {
            if let Some(handle) = at(false, from as u32) {
                return Some((handle, from.saturating_add(1)));
            }
        }
        let from = from.max(IPV6_ONLY);
        let handle = at(true, from as u32)?;
        Some((handle, from.saturating_add(1)))
    }
}
