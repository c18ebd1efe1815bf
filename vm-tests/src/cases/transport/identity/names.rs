// SPDX-License-Identifier: GPL-2.0
//! A message's name may have been used before, for another port: the socket that it goes to is the
//! one whose filter was asked.

use std::net::SocketAddr;

use anyhow::{ensure, Result};
use socket2::Domain;
use turnstile_core::transport::wire::Packet;

use super::filters::{attach, detach, REFUSE};
use super::{comes, receiver, Kind};
use crate::cases::transport::peer::{sync, Peer, LEN};
use crate::cases::transport::support::{addresses, pair, PORT};
use crate::harness::Ctx;
use crate::netns::Netns;

/// Somebody who has heard a message's name sends a SYNC of it to another port. The message itself
/// goes to a socket whose filter refuses it: that one is asked, not the other port's.
pub(super) fn reused(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns: &Netns = &net.hosts[1].ns;
    let sent = [0x5a; LEN as usize];
    for v6 in [false, true] {
        let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
        let there = addresses(&net.hosts[1])[usize::from(v6)];
        let to = receiver(ns, Kind::Turnstile, domain)?;
        let other = super::open_in(ns, Kind::Turnstile, domain)?;
        other.bind(&SocketAddr::new(super::any(domain), PORT + 1).into())?;
        let peer = Peer::new(&net.hosts[0], v6, there)?;
        let ticket = peer.ticket(1, PORT)?;
        comes("the first one", &to, Some(&sent))?;
        // Without anything else it is delivered at once.
        peer.first(2, PORT, ticket)?;
        comes("one with a ticket", &to, Some(&sent))?;
        attach(&to, REFUSE)?;
        peer.push(&Packet::Sync(sync(3, PORT + 1, 0)), 0)?;
        for _ in 0..3 {
            peer.first(3, PORT, ticket)?;
            comes("through a filter that refuses all", &to, None)?;
        }
        comes("to the other port", &other, None)?;
        detach(&to)?;
        // What the forged SYNC began is gone by then, or goes now; a sender repeats its own.
        let mut came = 0;
        for _ in 0..3 {
            peer.first(3, PORT, ticket)?;
            came += u32::from(super::next(&to)?.is_some());
        }
        ensure!(came == 1, "IPv6 {v6}: it came {came} times without filter");
        comes("to the other port, at last", &other, None)?;
    }
    Ok(())
}
