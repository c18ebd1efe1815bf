// SPDX-License-Identifier: GPL-2.0
//! Peers that fall silent or come back without memory: both ends of a message learn of it, and in
//! time.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket};

use super::content;
use super::support::{
    addresses, as_v6, configure, configure_all, hosts, nothing_more, pair, read_once, receiver,
    refused, sender, PATIENCE, POLICIES,
};
use crate::clock;
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::suspend::suspend;
use crate::topology::{Builder, Net};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/dead/never-there", never_there).timeout_s(120),
    Case::new("transport/dead/link-down", link_down).timeout_s(120),
    Case::new("transport/dead/one-way", one_way).timeout_s(120),
    Case::new("transport/dead/namespace-gone", namespace_gone).timeout_s(120),
    Case::new("transport/dead/silent-application", silent_application).timeout_s(120),
    Case::new("transport/dead/rebooted", rebooted).timeout_s(120),
    Case::new("transport/dead/rebooted-without-sockets", rebooted_alone).timeout_s(120),
    Case::new("transport/dead/others-are-served", others_are_served).timeout_s(120),
    Case::new("transport/dead/nobody-runs-it", nobody_runs_it).timeout_s(120),
    Case::new("transport/dead/no-way", no_way).timeout_s(120),
    Case::new("transport/dead/comes-back-in-time", comes_back).timeout_s(120),
    Case::new("transport/dead/suspended", suspended)
        .timeout_s(120)
        .needs(&[Need::Suspend]),
];

/// What is configured as `timeout`.
const TIMEOUT: Duration = Duration::from_millis(600);
/// How much later than that it may be told, where time is simulated: a peer is asked at least so
/// often, and its answer may have been the last that came.
const SLACK: Duration = Duration::from_millis(50);

fn set_timeout(net: &Net) -> Result<()> {
    configure_all(net, "timeout 600ms")
}

/// That a failure came in time: not before `timeout`, and where time is simulated also not much
/// later.
fn in_time(what: &str, took: Duration) -> Result<()> {
    ensure!(took >= TIMEOUT, "{what} after {took:?} of {TIMEOUT:?}");
    ensure!(
        !clock::is_simulated() || took <= TIMEOUT + SLACK,
        "{what} after {took:?}, {TIMEOUT:?} was to be the time"
    );
    Ok(())
}

/// The errno by which message 0 fails.
fn failure(from: &Socket) -> Result<std::io::Error> {
    let done = from
        .wait_completion(Some(PATIENCE))?
        .context("nothing was reported")?;
    done.outcome
        .err()
        .with_context(|| format!("message {} is reported as delivered", done.number))
}

/// Reads what is left of a message until it fails.
fn read_to_failure(to: &Socket) -> Result<std::io::Error> {
    loop {
        match read_once(to, 1 << 20, 0) {
            Ok(read) => ensure!(!read.end && !read.data.is_empty(), "the message has an end"),
            Err(error) => return Ok(error),
        }
    }
}

/// What [`begin`] reads: more than the buffer holds, so that the sender has heard of what came.
const READ: u64 = 200_000;

/// A message so long that it is under way, of which the first [`READ`] bytes were read.
fn begin(from: &Socket, to: &Socket, there: std::net::SocketAddr) -> Result<()> {
    to.set_recv_buffer_size(64 << 10)?;
    from.send_to(
        &content::content(1, 1_000_000),
        there,
        &SendOptions::default(),
    )?;
    read_up_to(to, 0, READ)
}

/// Reads bytes `at..end` of message 1.
fn read_up_to(to: &Socket, mut at: u64, end: u64) -> Result<()> {
    while at < end {
        let read = read_once(to, (end - at).min(100_000) as usize, 0)?;
        content::check(1, at, &read.data)?;
        at += read.data.len() as u64;
    }
    Ok(())
}

/// Nobody has the address.
fn never_there(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    set_timeout(&net)?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    for there in addresses(&net.hosts[1]) {
        let from = sender(&net.hosts[0].ns)?;
        let began = Instant::now();
        from.send_to(&content::content(1, 5000), there, &SendOptions::default())?;
        refused("nobody", Err::<(), _>(failure(&from)?), libc::ETIMEDOUT)?;
        let took = began.elapsed();
        ctx.note(format!("{there}: {took:?}"));
        in_time("nobody", took)?;
        ensure!(from.outgoing_queued()? == 0, "bytes wait for nobody");
    }
    Ok(())
}

/// The machine is suspended for longer than `timeout` while messages wait for a peer that is not
/// there: they are given up when it wakes up, and not sent for the rest of the time that was left.
/// The peer may have forgotten by then what it had of them.
fn suspended(ctx: &mut Ctx) -> Result<()> {
    const SECONDS: u32 = 12;
    let net = pair()?;
    configure_all(&net, "timeout 10s")?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    let mut senders = Vec::new();
    for there in addresses(&net.hosts[1]) {
        let from = sender(&net.hosts[0].ns)?;
        from.send_to(&content::content(1, 5000), there, &SendOptions::default())?;
        senders.push(from);
    }
    let before = (clock::monotonic(), clock::boottime());
    suspend(SECONDS)?;
    let awake = clock::boottime() - before.1;
    let stood = awake.saturating_sub(clock::monotonic() - before.0);
    let stood = Duration::from_nanos(stood);
    ctx.note(format!("the monotonic clock stood still for {stood:?}"));
    ensure!(
        stood > Duration::from_secs(10),
        "the machine was suspended for {stood:?}"
    );
    let began = clock::monotonic();
    for from in &senders {
        refused("nobody", Err::<(), _>(failure(from)?), libc::ETIMEDOUT)?;
    }
    let took = Duration::from_nanos(clock::monotonic() - began);
    ctx.note(format!("given up {took:?} after that"));
    ensure!(
        took < Duration::from_secs(4),
        "given up {took:?} after the machine woke up"
    );
    Ok(())
}

/// The link goes down in the middle: the sender is told, and who reads the message too; the
/// reader's socket is good afterwards.
fn link_down(ctx: &mut Ctx) -> Result<()> {
    for policy in POLICIES {
        let net = pair()?;
        configure_all(&net, &format!("timeout 600ms policy {policy}"))?;
        let to = receiver(&net.hosts[1].ns)?;
        let from = sender(&net.hosts[0].ns)?;
        begin(&from, &to, addresses(&net.hosts[1])[0])?;
        net.hosts[1].ns.ip("link set eth0 down")?;
        let began = Instant::now();
        // What the reader takes lets no more come.
        let error = read_to_failure(&to)?;
        let there = began.elapsed();
        refused("the reader", Err::<(), _>(error), libc::ETIMEDOUT)?;
        refused("the sender", Err::<(), _>(failure(&from)?), libc::ETIMEDOUT)?;
        let here = began.elapsed();
        ctx.note(format!(
            "{policy}: reader after {there:?}, sender after {here:?}"
        ));
        if clock::is_simulated() {
            // Each hears nothing from the moment on at which the other last spoke, which was a
            // little before.
            for (what, took) in [("the reader", there), ("the sender", here)] {
                ensure!(
                    took <= TIMEOUT + SLACK && took + SLACK >= TIMEOUT,
                    "{policy}: {what} after {took:?}"
                );
            }
        }
        net.hosts[1].ns.ip("link set eth0 up")?;
        from.send_to(
            b"again",
            addresses(&net.hosts[1])[0],
            &SendOptions::default(),
        )?;
        let came = read_once(&to, 100, 0)?;
        ensure!(came.data == b"again" && came.end, "{came:?}");
        nothing_more(&to)?;
    }
    Ok(())
}

/// Only one direction is lost: also then both are told.
fn one_way(_: &mut Ctx) -> Result<()> {
    for deaf in 0..2 {
        let net = pair()?;
        set_timeout(&net)?;
        let to = receiver(&net.hosts[1].ns)?;
        let from = sender(&net.hosts[0].ns)?;
        begin(&from, &to, addresses(&net.hosts[1])[1])?;
        net.hosts[1 - deaf]
            .ns
            .tc("qdisc add dev eth0 root netem loss 100%")?;
        let reader = read_to_failure(&to)?;
        let sender = failure(&from)?;
        // Whoever gives up first says so; where that can be heard, the other one has it from there.
        let known = [libc::ETIMEDOUT, libc::ECONNRESET];
        for (what, error) in [("reader", &reader), ("sender", &sender)] {
            ensure!(
                error
                    .raw_os_error()
                    .is_some_and(|errno| known.contains(&errno)),
                "host {deaf} hears nothing: the {what} is told {error}"
            );
        }
        let timed_out = |error: &std::io::Error| error.raw_os_error() == Some(libc::ETIMEDOUT);
        ensure!(
            timed_out(&reader) || timed_out(&sender),
            "nobody noticed the silence: {reader}, {sender}"
        );
    }
    Ok(())
}

/// A host's whole namespace is deleted.
fn namespace_gone(_: &mut Ctx) -> Result<()> {
    for gone in 0..2 {
        let mut net = hosts(&Builder::bridged(2))?;
        set_timeout(&net)?;
        let there = addresses(&net.hosts[1])[0];
        let to = receiver(&net.hosts[1].ns)?;
        let from = sender(&net.hosts[0].ns)?;
        begin(&from, &to, there)?;
        // The last socket keeps a namespace alive, as it does everywhere: it goes first, and with
        // it what it knows, but its host has no link any more by which to say so.
        let name = net.hosts[gone].ns.name().to_owned();
        net.hosts[gone].ns.ip("link del eth0")?;
        drop(net.hosts.remove(gone));
        let error = if gone == 0 {
            drop(from);
            let error = read_to_failure(&to)?;
            nothing_more(&to)?;
            error
        } else {
            drop(to);
            failure(&from)?
        };
        refused(
            &format!("{name} is gone"),
            Err::<(), _>(error),
            libc::ETIMEDOUT,
        )?;
    }
    Ok(())
}

/// An application that does not read is not a dead peer: its kernel answers.
fn silent_application(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    configure_all(&net, "timeout 200ms")?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    begin(&from, &to, addresses(&net.hosts[1])[0])?;
    // And a sender that has an open message and writes nothing is none either.
    let idle = sender(&net.hosts[0].ns)?;
    let there = as_v6(addresses(&net.hosts[1])[1]);
    super::support::send_once(&idle, b"idle", Some(there), &[], libc::MSG_MORE)?;
    std::thread::sleep(Duration::from_millis(1000));
    ensure!(
        from.completion()?.is_none() && idle.completion()?.is_none(),
        "a message was given up"
    );
    read_up_to(&to, READ, 1_000_000)?;
    super::support::send_once(&idle, b" no more", Some(there), &[], 0)?;
    // What was there before the end is handed out first, since nobody knew the length.
    let came = to.recv_message(100)?;
    ensure!(came.data == b"idle no more", "{came:?}");
    super::support::delivered(&from, 1)?;
    super::support::delivered(&idle, 1)
}

/// Host 2 once more, at the same address, with a memory of its own.
fn reboot(net: &mut Net) -> Result<()> {
    net.hosts[1].ns.ip("link del eth0")?;
    let old = net.hosts.remove(1);
    let (v4, v6, mac) = (old.v4, old.v6, old.mac.clone());
    drop(old);
    let ns = Netns::create("h2")?;
    let switch = net.switch.as_ref().context("no switch")?;
    switch.ip(&format!(
        "link add p2 type veth peer name eth0 netns h2 address {mac}"
    ))?;
    switch.ip("link set p2 master br0 up")?;
    let first = &net.hosts[0];
    ns.ip_batch(&[
        "link set eth0 up".into(),
        format!("addr add {v4}/24 dev eth0"),
        format!("addr add {v6}/64 dev eth0 nodad"),
        format!(
            "neigh add {} lladdr {} dev eth0 nud permanent",
            first.v4, first.mac
        ),
        format!(
            "neigh add {} lladdr {} dev eth0 nud permanent",
            first.v6, first.mac
        ),
    ])?;
    net.hosts.push(crate::topology::Host { ns, v4, v6, mac });
    Ok(())
}

/// A peer that has forgotten the message says so: no waiting for the timeout.
fn rebooted(_: &mut Ctx) -> Result<()> {
    let mut net = hosts(&Builder::bridged(2))?;
    // Longer than this case may take.
    configure(&net.hosts[0].ns, "timeout 600s")?;
    let there = addresses(&net.hosts[1])[0];
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    begin(&from, &to, there)?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    drop(to);
    reboot(&mut net)?;
    let to = receiver(&net.hosts[1].ns)?;
    refused(
        "a peer without memory",
        Err::<(), _>(failure(&from)?),
        libc::ECONNRESET,
    )?;
    from.send_to(b"new", there, &SendOptions::default())?;
    ensure!(read_once(&to, 100, 0)?.data == b"new", "another came");
    nothing_more(&to)
}

/// A peer whose transport nobody uses after the reboot: it may say nothing.
fn rebooted_alone(_: &mut Ctx) -> Result<()> {
    let mut net = hosts(&Builder::bridged(2))?;
    set_timeout(&net)?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    begin(&from, &to, addresses(&net.hosts[1])[0])?;
    net.hosts[1].ns.ip("link set eth0 down")?;
    drop(to);
    reboot(&mut net)?;
    let error = failure(&from)?;
    let known = [libc::ETIMEDOUT, libc::ECONNRESET, libc::ECONNREFUSED];
    ensure!(
        error
            .raw_os_error()
            .is_some_and(|errno| known.contains(&errno)),
        "{error}"
    );
    Ok(())
}

/// A link that is down for less than the timeout costs nothing but time.
fn comes_back(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    configure_all(&net, "timeout 30s")?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    begin(&from, &to, addresses(&net.hosts[1])[0])?;
    for device in 0..2 {
        net.hosts[device]
            .ns
            .tc("qdisc add dev eth0 root netem loss 100%")?;
    }
    std::thread::sleep(Duration::from_millis(700));
    for device in 0..2 {
        net.hosts[device].ns.tc("qdisc del dev eth0 root")?;
    }
    read_up_to(&to, READ, 1_000_000)?;
    super::support::delivered(&from, 1)?;
    nothing_more(&to)
}

/// 1000 messages a second to a dead peer: on the same socket and on another one, all messages to a
/// living peer are taken and arrive.
fn others_are_served(ctx: &mut Ctx) -> Result<()> {
    const MESSAGES: u32 = 3000;
    let net = hosts(&Builder::bridged(3))?;
    let dead = as_v6(addresses(&net.hosts[1])[0]);
    let live = addresses(&net.hosts[2])[0];
    net.hosts[1].ns.ip("link set eth0 down")?;
    let to = receiver(&net.hosts[2].ns)?;
    let both = sender(&net.hosts[0].ns)?;
    let other = sender(&net.hosts[0].ns)?;
    let mut refused = 0;
    let mut good = 0;
    for number in 0..MESSAGES {
        match super::support::send_once(&both, &[1; 500], Some(dead), &[], libc::MSG_DONTWAIT) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => refused += 1,
            Err(error) => return Err(error).context("to the dead peer"),
        }
        if number % 10 == 0 {
            for from in [&both, &other] {
                let sent = super::support::send_once(
                    from,
                    &[2; 500],
                    Some(as_v6(live)),
                    &[],
                    libc::MSG_DONTWAIT,
                );
                sent.with_context(|| format!("message {number} to the living peer"))?;
                good += 1;
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    ctx.note(format!("{refused} of {MESSAGES} to the dead peer refused"));
    ensure!(refused > 0, "the dead peer has all places");
    for number in 0..good {
        let came = to
            .recv_message(500)
            .with_context(|| format!("{number} of {good} came"))?;
        ensure!(came.data == [2; 500], "something else came");
    }
    nothing_more(&to)
}

/// The peer's kernel has no transport, and says so by ICMP: the sender knows at once.
fn nobody_runs_it(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    for there in addresses(&net.hosts[1]) {
        let from = sender(&net.hosts[0].ns)?;
        let began = Instant::now();
        from.send_to(&content::content(1, 5000), there, &SendOptions::default())?;
        let error = failure(&from)?;
        refused("nobody", Err::<(), _>(error), libc::ECONNREFUSED)?;
        let took = began.elapsed();
        ensure!(
            !clock::is_simulated() || took < Duration::from_millis(100),
            "{there}: only after {took:?}"
        );
    }
    Ok(())
}

/// A router says that there is no way to the peer: that may pass, but is what is told in the end.
fn no_way(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    configure(&net.hosts[0].ns, "timeout 600ms")?;
    let [router, host] = [&net.hosts[1].ns, &net.hosts[0].ns];
    router.ip("route add unreachable 10.99.0.0/16")?;
    router.run("sysctl -w net.ipv4.ip_forward=1")?;
    host.ip(&format!("route add 10.99.0.0/16 via {}", net.hosts[1].v4))?;
    let from = sender(host)?;
    let there = std::net::SocketAddr::from(([10, 99, 0, 1], super::support::PORT));
    let began = Instant::now();
    from.send_to(&content::content(1, 5000), there, &SendOptions::default())?;
    refused("no way", Err::<(), _>(failure(&from)?), libc::EHOSTUNREACH)?;
    in_time("no way", began.elapsed())
}
