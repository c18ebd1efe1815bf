// SPDX-License-Identifier: GPL-2.0
//! Dumps of messages and peers: complete, and each message once, however many there are and
//! whatever comes and goes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use turnstile_core::transport::uapi::{
    command, config, message as attr, peer, DIRECTION_IN, DIRECTION_OUT, FAMILY,
};
use turnstile_socket::{SendOptions, Socket};

use super::{bytes, Attr};
use crate::harness::Ctx;
use crate::netns::Netns;
use crate::raw_netlink::{Generic, GenericRequest, Reply};
use crate::topology::{Builder, Net};

/// An address on the link that nobody has.
const NOBODY: Ipv4Addr = Ipv4Addr::new(10, 99, 99, 99);
const PORT: u16 = 4000;
/// How many messages are under way.
const MANY: usize = 3000;
/// Bytes of each.
const LEN: usize = 100;
/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two hosts, and the family in the first.
struct Two {
    net: Net,
    family: Generic,
}

impl Two {
    fn new(options: &[Attr]) -> Result<Self> {
        let net = Builder::pair().build()?;
        let mut families = Vec::new();
        for host in &net.hosts {
            let mut family = Generic::open(&host.ns, FAMILY)?;
            let options = bytes(options);
            family
                .request(&GenericRequest::new(command::TRANSPORT_SET, &options))?
                .1
                .success()?;
            families.push(family);
        }
        // Everything that is not on the link goes there all the same.
        net.hosts[0].ns.ip("route add 10.99.0.0/16 dev eth0")?;
        let family = families.swap_remove(0);
        Ok(Self { net, family })
    }

    fn ns(&self) -> &Netns {
        &self.net.hosts[0].ns
    }
}

fn socket(ns: &Netns, local: &str) -> Result<Socket> {
    let socket = ns.enter(|| Socket::bind(local).with_context(|| format!("binding {local}")))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// For thousands of messages that nobody takes, and that do not give up meanwhile.
const PATIENT: &[Attr] = &[
    Attr::U64(config::TIMEOUT, 3_600_000_000_000),
    Attr::U64(config::RTO, 1_000_000_000),
    Attr::U32(config::SEND_BUFFER, 1 << 28),
    Attr::U32(config::UNSCHEDULED, 0),
    Attr::U32(config::MAX_OUTGOING, 65_536),
];

fn mapped(address: Ipv4Addr) -> Vec<u8> {
    address.to_ipv6_mapped().octets().to_vec()
}

/// Messages by their number.
fn by_number(replies: &[Reply]) -> Result<BTreeMap<u64, Reply>> {
    let mut found = BTreeMap::new();
    for reply in replies {
        ensure!(reply.command == command::MESSAGE_GET, "{reply:?}");
        let number = reply.number(attr::NUMBER).context("no number")?;
        let before = found.insert(number, reply.clone());
        ensure!(before.is_none(), "message {number} is listed twice");
    }
    Ok(found)
}

fn send_many(socket: &Socket, count: usize) -> Result<()> {
    let to = SocketAddr::from((NOBODY, PORT));
    for _ in 0..count {
        socket.send_to(&[7; LEN], to, &SendOptions::default())?;
    }
    Ok(())
}

/// Thousands of messages that nobody takes: all are listed, with all that is known of them.
pub(super) fn many(ctx: &mut Ctx) -> Result<()> {
    let mut two = Two::new(PATIENT)?;
    let none = two.family.dump(command::MESSAGE_GET)?.0;
    ensure!(none.is_empty(), "before the first message: {none:?}");
    let sender = socket(two.ns(), "0.0.0.0:3333")?;
    send_many(&sender, MANY)?;
    let (replies, parts) = two.family.dump(command::MESSAGE_GET)?;
    ctx.note(format!("{} messages in {parts} parts", replies.len()));
    ensure!(parts > 10, "{MANY} messages in {parts} parts");
    let found = by_number(&replies)?;
    ensure!(found.len() == MANY, "{} of {MANY} messages", found.len());
    for message in found.values() {
        let is = |number, value: u64| message.number(number) == Some(value);
        ensure!(
            is(attr::DIRECTION, DIRECTION_OUT.into())
                && message.attributes.get(&attr::PEER) == Some(&mapped(NOBODY))
                && is(attr::LOCAL_PORT, 3333)
                && is(attr::PEER_PORT, PORT.into())
                && is(attr::LENGTH, LEN as u64)
                && is(attr::RECEIVED, 0)
                && is(attr::PACKETS, 0)
                && message.number(attr::AGE).is_some_and(|age| age > 0)
                && !message.attributes.contains_key(&attr::RATE64)
                && !message.attributes.contains_key(&attr::COFLOW)
                && !message.attributes.contains_key(&attr::DEADLINE)
                && !message.interrupted,
            "{message:?}"
        );
    }
    let (peers, _) = two.family.dump(command::PEER_GET)?;
    ensure!(peers.len() == 1, "one peer: {peers:?}");
    let is = |number, value: usize| peers[0].number(number) == Some(value as u64);
    ensure!(
        peers[0].attributes.get(&peer::ADDRESS) == Some(&mapped(NOBODY))
            && is(peer::OUTGOING, MANY)
            && is(peer::INCOMING, 0)
            && is(peer::UNACKNOWLEDGED, MANY * LEN)
            && is(peer::MISSING, 0)
            && !peers[0].attributes.contains_key(&peer::RTT),
        "{peers:?}"
    );
    // Other namespaces know nothing of it.
    let mut other = Generic::open(&two.net.hosts[1].ns, FAMILY)?;
    ensure!(other.dump(command::MESSAGE_GET)?.0.is_empty(), "elsewhere");
    // Nor this one, when they are given up.
    sender.set_linger(Some(Duration::ZERO))?;
    drop(sender);
    let gone = two.family.dump(command::MESSAGE_GET)?.0;
    ensure!(gone.is_empty(), "{} messages of no socket", gone.len());
    ensure!(two.family.dump(command::PEER_GET)?.0.is_empty(), "a peer");
    Ok(())
}

/// While messages come and go, those that stay are listed once in each dump, and the reader is told
/// of the rest.
pub(super) fn churn(ctx: &mut Ctx) -> Result<()> {
    const STAY: usize = 700;
    let mut two = Two::new(PATIENT)?;
    let sender = socket(two.ns(), "0.0.0.0:0")?;
    // In the end nothing goes on in the background.
    sender.set_linger(Some(Duration::ZERO))?;
    // Those that stay are spread among places that become free.
    let others = socket(two.ns(), "0.0.0.0:0")?;
    others.set_linger(Some(Duration::ZERO))?;
    for _ in 0..STAY {
        send_many(&others, 1)?;
        send_many(&sender, 1)?;
    }
    drop(others);
    let stay: BTreeSet<u64> = by_number(&two.family.dump(command::MESSAGE_GET)?.0)?
        .into_keys()
        .collect();
    ensure!(stay.len() == STAY, "{} of {STAY} messages", stay.len());
    let over = AtomicBool::new(false);
    let ns = &two.net.hosts[0].ns;
    let family = &mut two.family;
    let (mut dumps, mut interrupted, mut most) = (0, 0, 0);
    std::thread::scope(|scope| -> Result<()> {
        let churning = scope.spawn(|| -> Result<u64> {
            let mut rounds = 0;
            while !over.load(Ordering::Relaxed) {
                let socket = socket(ns, "0.0.0.0:0")?;
                socket.set_linger(Some(Duration::ZERO))?;
                send_many(&socket, 40)?;
                rounds += 1;
            }
            Ok(rounds)
        });
        let end = Instant::now() + Duration::from_secs(5);
        let watched = (|| {
            while Instant::now() < end && !churning.is_finished() {
                let (replies, _) = family.dump(command::MESSAGE_GET)?;
                let found = by_number(&replies)?;
                let missing = stay.iter().filter(|number| !found.contains_key(number));
                let missing = missing.count();
                ensure!(missing == 0, "{missing} messages are not listed");
                dumps += 1;
                interrupted += u32::from(replies.iter().any(|reply| reply.interrupted));
                most = most.max(found.len());
                family.dump(command::PEER_GET)?;
            }
            Ok(())
        })();
        over.store(true, Ordering::Relaxed);
        let rounds = churning.join().expect("the churning thread")?;
        ctx.note(format!(
            "{dumps} dumps of up to {most} messages, {interrupted} of them interrupted, during \
             {rounds} rounds"
        ));
        watched
    })?;
    ensure!(
        interrupted > 0,
        "none of {dumps} dumps is said to be interrupted"
    );
    // In quiet times a dump is a picture of one moment.
    let (replies, _) = two.family.dump(command::MESSAGE_GET)?;
    ensure!(
        replies.len() == STAY && replies.iter().all(|reply| !reply.interrupted),
        "{} messages afterwards",
        replies.len()
    );
    Ok(())
}

/// A message that waits for its reader, seen from both sides.
pub(super) fn both_sides(_: &mut Ctx) -> Result<()> {
    const BIG: u64 = 8 << 20;
    let mut two = Two::new(&[
        Attr::U32(config::RECEIVE_BUFFER, 1 << 18),
        Attr::U32(config::RECEIVE_BUFFER_MAX, 1 << 18),
        Attr::U32(config::SEND_BUFFER, 1 << 24),
    ])?;
    let mut far = Generic::open(&two.net.hosts[1].ns, FAMILY)?;
    let _receiver = socket(&two.net.hosts[1].ns, &format!("[::]:{PORT}"))?;
    let sender = socket(two.ns(), "0.0.0.0:3333")?;
    let options = SendOptions {
        coflow: Some(9.try_into()?),
        deadline: Some(Duration::from_secs(1000)),
        ..SendOptions::default()
    };
    let to = SocketAddr::from((two.net.hosts[1].v4, PORT));
    sender.send_to(&vec![1; BIG as usize], to, &options)?;
    // Until the window is full.
    let end = Instant::now() + PATIENCE;
    let (mut out, mut come) = (None, None);
    while Instant::now() < end {
        let last = come.clone();
        (out, come) = (only(&mut two.family)?, only(&mut far)?);
        let received =
            |reply: &Option<Reply>| reply.as_ref().and_then(|r| r.number(attr::RECEIVED));
        if received(&come).is_some_and(|bytes| bytes > 0) && received(&come) == received(&last) {
            break;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    let (out, come) = (
        out.context("nothing goes out")?,
        come.context("nothing comes in")?,
    );
    for (message, direction, ports, address) in [
        (&out, DIRECTION_OUT, [3333, PORT], two.net.hosts[1].v4),
        (&come, DIRECTION_IN, [PORT, 3333], two.net.hosts[0].v4),
    ] {
        let is = |number, value: u64| message.number(number) == Some(value);
        let deadline = message.number(attr::DEADLINE);
        let number = |number| message.number(number).unwrap_or(0);
        ensure!(
            is(attr::DIRECTION, direction.into())
                && is(attr::LENGTH, BIG)
                && is(attr::LOCAL_PORT, ports[0].into())
                && is(attr::PEER_PORT, ports[1].into())
                && message.attributes.get(&attr::PEER) == Some(&mapped(address))
                && is(attr::COFLOW, 9)
                && deadline.is_some_and(|ns| (900_000_000_000..=1_000_000_000_000).contains(&ns))
                && (1..BIG).contains(&number(attr::RECEIVED))
                && (1..BIG).contains(&number(attr::WINDOW))
                && number(attr::RECEIVED) <= number(attr::WINDOW)
                && number(attr::TOKENS) >= number(attr::RECEIVED) / 1500
                && number(attr::PACKETS) > 0,
            "{message:?}"
        );
    }
    ensure!(
        come.number(attr::RATE64).is_some_and(|rate| rate > 0) && come.number(attr::RTT).is_some(),
        "{come:?}"
    );
    ensure!(
        !out.attributes.contains_key(&attr::RATE64) && !out.attributes.contains_key(&attr::RTT),
        "{out:?}"
    );
    // And peers.
    let (peers, _) = far.dump(command::PEER_GET)?;
    let received = come.number(attr::RECEIVED).unwrap_or(0);
    ensure!(
        peers.len() == 1
            && peers[0].number(peer::INCOMING) == Some(1)
            && peers[0].number(peer::OUTGOING) == Some(0)
            && peers[0].number(peer::MISSING) == Some(BIG - received)
            && peers[0].number(peer::RTT).is_some(),
        "{peers:?}, {received} bytes of {BIG} were received"
    );
    Ok(())
}

/// The one message that a namespace has, if it has any.
fn only(family: &mut Generic) -> Result<Option<Reply>> {
    let (mut replies, _) = family.dump(command::MESSAGE_GET)?;
    ensure!(replies.len() <= 1, "{replies:?}");
    Ok(replies.pop())
}
