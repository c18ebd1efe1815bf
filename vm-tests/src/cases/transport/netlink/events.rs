// SPDX-License-Identifier: GPL-2.0
//! Events: each once, to whoever listens, and what cannot be told is counted.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_core::transport::uapi::{
    command, config, message as attr, DIRECTION_IN, DIRECTION_OUT, EVENT_CONFIGURED,
    EVENT_DELIVERED, EVENT_FAILED, EVENT_LIMITED, EVENT_OPENED, FAMILY, GROUP_EVENTS,
};
use turnstile_socket::{SendOptions, Socket};

use super::{bytes, Attr};
use crate::harness::Ctx;
use crate::netns::Netns;
use crate::raw_netlink::{Generic, GenericRequest, Reply};
use crate::topology::Builder;

const PORT: u16 = 4000;
/// When nothing has come for so long, nothing more comes.
const QUIET: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(30);

fn listener(ns: &Netns) -> Result<Generic> {
    let mut family = Generic::open(ns, FAMILY)?;
    family.listen(GROUP_EVENTS)?;
    Ok(family)
}

fn configure(family: &mut Generic, options: &[Attr]) -> Result<()> {
    let attributes = bytes(options);
    let request = GenericRequest::new(command::TRANSPORT_SET, &attributes);
    family.request(&request)?.1.success()
}

/// All events of a while. None may be lost.
fn events(family: &mut Generic) -> Result<Vec<Reply>> {
    let events: Option<Vec<Reply>> = family.events(QUIET)?.into_iter().collect();
    let events = events.context("the socket's buffer was too small")?;
    for event in &events {
        ensure!(
            event.command == command::EVENT && !event.attributes.contains_key(&attr::LOST),
            "{event:?}"
        );
    }
    Ok(events)
}

fn kinds(events: &[Reply]) -> Vec<Option<u64>> {
    let kinds = events.iter().map(|event| event.number(attr::EVENT));
    kinds.collect()
}

fn socket(ns: &Netns, local: SocketAddr) -> Result<Socket> {
    let socket = ns.enter(|| Socket::bind(local).context("binding"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

fn any() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
}

/// A message, seen from both ends; one that fails; a change; a limit.
pub(super) fn run(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let (near, far) = (&net.hosts[0], &net.hosts[1]);
    let (mut here, mut there) = (listener(&near.ns)?, listener(&far.ns)?);
    // Events that come before an answer would be taken for none of it.
    let mut family = Generic::open(&near.ns, FAMILY)?;
    let to = SocketAddr::from((far.v4, PORT));
    let receiver = socket(&far.ns, to)?;
    let sender = socket(&near.ns, any())?;
    // In the end nothing goes on in the background.
    sender.set_linger(Some(Duration::ZERO))?;
    sender.send_to(b"hello", to, &SendOptions::default())?;
    ensure!(receiver.recv_message(100)?.data == b"hello", "not that");
    for (who, family, direction) in [
        ("sender", &mut here, DIRECTION_OUT),
        ("receiver", &mut there, DIRECTION_IN),
    ] {
        let events = events(family)?;
        let expected = [EVENT_OPENED, EVENT_DELIVERED].map(|kind| Some(kind.into()));
        ensure!(kinds(&events) == expected, "{who}: {events:?}");
        for event in &events {
            ensure!(
                event.number(attr::DIRECTION) == Some(direction.into())
                    && event.number(attr::LENGTH) == Some(5)
                    && event.number(attr::NUMBER) == events[0].number(attr::NUMBER)
                    && !event.attributes.contains_key(&attr::ERROR),
                "{who}: {event:?}"
            );
        }
        let received = events[1].number(attr::RECEIVED);
        ensure!(received == Some(5), "{who}: {received:?} bytes");
    }

    // Nobody listens on that port.
    let nowhere = SocketAddr::from((far.v4, PORT + 1));
    sender.send_to(b"?", nowhere, &SendOptions::default())?;
    let failed = events(&mut here)?;
    ensure!(
        kinds(&failed) == [Some(EVENT_OPENED.into()), Some(EVENT_FAILED.into())]
            && failed[1].number(attr::ERROR) == Some(libc::ECONNREFUSED as u64),
        "{failed:?}"
    );

    // A change is told here, and here only; one that is refused is not.
    configure(&mut family, &[Attr::U32(config::MAX_OUTGOING, 1)])?;
    let zero = configure(&mut family, &[Attr::U32(config::MAX_OUTGOING, 0)]);
    let said = zero.err().context("0 was accepted")?;
    ensure!(
        format!("{said:#}").contains("max-outgoing: 0 is not in 1..65536 messages"),
        "{said:#}"
    );
    let told = events(&mut here)?;
    ensure!(
        kinds(&told) == [Some(EVENT_CONFIGURED.into())],
        "after a change: {told:?}"
    );
    let elsewhere = events(&mut there)?;
    ensure!(elsewhere.is_empty(), "in another namespace: {elsewhere:?}");

    // A limit, once for many times that it is met.
    near.ns.ip("route add 10.99.0.0/16 dev eth0")?;
    let nobody = SocketAddr::from((Ipv4Addr::new(10, 99, 0, 1), PORT));
    sender.send_to(b"1", nobody, &SendOptions::default())?;
    sender.set_write_timeout(Some(Duration::from_millis(1)))?;
    for _ in 0..20 {
        let second = sender.send_to(b"2", nobody, &SendOptions::default());
        super::super::support::refused("the second of one", second, libc::EAGAIN)?;
    }
    let limited = events(&mut here)?;
    ensure!(
        kinds(&limited) == [Some(EVENT_OPENED.into()), Some(EVENT_LIMITED.into())]
            && limited[1].number(attr::LIMIT) == Some(config::MAX_OUTGOING.into()),
        "{limited:?}"
    );
    Ok(())
}

/// More at once than can be told: what is not told is counted by the kernel, and a listener that
/// does not read learns that it missed some.
pub(super) fn lost(ctx: &mut Ctx) -> Result<()> {
    const MANY: u64 = 3000;
    let net = Builder::pair().build()?;
    let near = &net.hosts[0];
    near.ns.ip("route add 10.99.0.0/16 dev eth0")?;
    let mut family = Generic::open(&near.ns, FAMILY)?;
    configure(
        &mut family,
        &[
            Attr::U64(config::TIMEOUT, 3_600_000_000_000),
            Attr::U32(config::MAX_OUTGOING, 65_536),
            Attr::U64(config::RTO, 1_000_000_000),
            Attr::U32(config::SEND_BUFFER, 1 << 28),
        ],
    )?;
    let mut ready = listener(&near.ns)?;
    ready.receive_buffer(32 << 20)?;
    let mut idle = listener(&near.ns)?;
    idle.receive_buffer(1 << 14)?;
    let sender = socket(&near.ns, any())?;
    // In the end nothing goes on in the background.
    sender.set_linger(Some(Duration::ZERO))?;
    let nobody = SocketAddr::from((Ipv4Addr::new(10, 99, 0, 1), PORT));
    for _ in 0..MANY {
        sender.send_to(&[1; 10], nobody, &SendOptions::default())?;
    }
    let (mut told, mut lost, mut before) = (0, 0, None);
    // What was lost last is told by the next event, whatever it is.
    for pass in 0..2 {
        for event in ready.events(QUIET)? {
            let event = event.context("the listener's buffer was too small")?;
            lost += event.number(attr::LOST).unwrap_or(0);
            if event.number(attr::EVENT) == Some(EVENT_OPENED.into()) {
                let number = event.number(attr::NUMBER);
                ensure!(number > before, "{number:?} is told after {before:?}");
                before = number;
                told += 1;
            }
        }
        if pass == 0 {
            configure(&mut family, &[])?;
        }
    }
    ctx.note(format!("{told} events were told, {lost} were not"));
    ensure!(told + lost == MANY, "{told} told, {lost} lost of {MANY}");
    let missed = idle.events(QUIET)?;
    ensure!(
        missed.iter().any(Option::is_none) && missed.iter().any(Option::is_some),
        "a listener that did not read was told of {} events and missed none",
        missed.len()
    );
    Ok(())
}
