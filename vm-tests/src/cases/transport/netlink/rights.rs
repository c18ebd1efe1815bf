// SPDX-License-Identifier: GPL-2.0
//! Who may do what, and where.

use anyhow::{ensure, Context, Result};
use caps::{CapSet, Capability};
use turnstile_core::header::PORT;
use turnstile_core::transport::uapi::{command, config, FAMILY};

use super::{bytes, Attr, Bench};
use crate::harness::Ctx;
use crate::netns::Netns;
use crate::raw_netlink::{Generic, GenericRequest};

/// Without `CAP_NET_ADMIN` everything can be read and nothing changed.
pub(super) fn run(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new()?;
    let before = bench.config()?;
    let attributes = bytes(&[Attr::U32(config::PRIORITIES, 2)]);
    bench.ns.enter(|| {
        let mut other = Generic::open_here(FAMILY)?;
        // Of this thread, which ends here.
        caps::drop(None, CapSet::Effective, Capability::CAP_NET_ADMIN)
            .context("dropping CAP_NET_ADMIN")?;
        let (_, answer) =
            other.request(&GenericRequest::new(command::TRANSPORT_SET, &attributes))?;
        ensure!(answer.errno == libc::EPERM, "without the right: {answer:?}");
        // Even if nothing would change.
        let (_, answer) = other.request(&GenericRequest::new(command::TRANSPORT_SET, &[]))?;
        ensure!(answer.errno == libc::EPERM, "without the right: {answer:?}");
        other.read(command::TRANSPORT_GET)?;
        other.read(command::STATS_GET)?;
        other.dump(command::MESSAGE_GET)?;
        other.dump(command::PEER_GET)?;
        Ok(())
    })?;
    ensure!(bench.config()? == before, "it was changed all the same");
    bench.set(&attributes)?.success()
}

/// Where another program has the transport's UDP port there is nothing to configure, and that is
/// said.
pub(super) fn port_in_use(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new()?;
    let any = std::net::Ipv4Addr::UNSPECIFIED;
    let other = bench
        .ns
        .enter(|| std::net::UdpSocket::bind((any, PORT)).context("binding the UDP port"))?;
    let before = bench.config()?;
    let attributes = bytes(&[Attr::U32(config::PRIORITIES, 2)]);
    let answer = bench.set(&attributes)?;
    ensure!(
        answer.errno == libc::EADDRINUSE
            && answer.text == "turnstile: another program has the UDP port",
        "{answer:?}"
    );
    ensure!(bench.config()? == before, "it was changed all the same");
    drop(other);
    bench.set(&attributes)?.success()
}

/// What is changed in one namespace is not changed in another.
pub(super) fn namespaces(_: &mut Ctx) -> Result<()> {
    let mut a = Bench::new()?;
    let other = Netns::create("b")?;
    let mut b = Bench {
        family: Generic::open(&other, FAMILY)?,
        ns: other,
    };
    let first = b.config()?;
    ensure!(a.config()? == first, "two new namespaces differ");
    a.accepted(&[
        Attr::U32(config::POLICY, 2),
        Attr::U32(config::MAX_INCOMING, 1),
    ])?;
    ensure!(b.config()? == first, "set in a, it is in b");
    b.accepted(&[Attr::U32(config::MAX_INCOMING, 2)])?;
    let shown = a.family.read(command::TRANSPORT_GET)?;
    ensure!(
        shown.number(config::MAX_INCOMING) == Some(1),
        "set in b, it is in a: {shown:?}"
    );
    // A namespace that is gone leaves nothing to the next one of its name.
    drop(b);
    let again = Netns::create("b")?;
    let mut b = Bench {
        family: Generic::open(&again, FAMILY)?,
        ns: again,
    };
    ensure!(b.config()? == first, "a new namespace is not new");
    Ok(())
}
