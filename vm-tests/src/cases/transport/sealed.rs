// SPDX-License-Identifier: GPL-2.0
//! Sealed messages on real sockets: they arrive, what is on the wire cannot be read, and who does
//! not have the key draws nothing.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use turnstile_core::transport::wire;
use turnstile_socket::{Security, SendOptions, Socket};

use super::content;
use super::support::{
    addresses, configure, configure_all, delivered, hosts, nothing_more, pair, receiver, sender,
    POLICIES,
};
use crate::cmd::json;
use crate::harness::{Case, Ctx, Need, MUCH_WORK};
use crate::netns::Netns;
use crate::pcap::{Capture, Captured};
use crate::topology::{Builder, Net};

mod attacks;
mod keys;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/sealed/unreadable", unreadable).timeout_s(120),
    Case::new("transport/sealed/bad-path", bad_path)
        .needs(&[Need::Module("sch_netem")])
        .timeout_s(120),
    Case::new("transport/sealed/strangers", strangers),
    Case::new("transport/sealed/rotation", rotation).timeout_s(120),
    Case::new("transport/sealed/sockets", sockets),
    Case::new("transport/sealed/refused", refused),
    Case::new("transport/sealed/on-path", attacks::on_path)
        .needs(MUCH_WORK)
        .timeout_s(300),
    Case::new("transport/sealed/downgrade", attacks::downgrade),
    Case::new("transport/sealed/keys-go", keys::going).timeout_s(120),
    Case::new("transport/sealed/two-keys", keys::two),
    Case::new("transport/sealed/same-name", keys::same_name),
    Case::new("transport/sealed/secret", keys::secret),
    Case::new("transport/sealed/user-namespaces", keys::user_namespaces),
    Case::new("transport/sealed/no-memory", keys::no_memory).timeout_s(120),
];

/// A new key of this type in the test's session keyring: its serial number.
fn add_key(kind: &str, name: &str, secret: &[u8]) -> Result<u32> {
    let (kind, name) = (format!("{kind}\0"), format!("{name}\0"));
    const SESSION: libc::c_long = -3;
    // SAFETY: both names end with 0, and there are as many bytes as is said.
    let serial = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            kind.as_ptr(),
            name.as_ptr(),
            secret.as_ptr(),
            secret.len(),
            SESSION,
        )
    };
    if serial < 0 {
        return Err(io::Error::last_os_error()).with_context(|| format!("adding the key {name}"));
    }
    u32::try_from(serial).context("a serial number")
}

/// Takes a key away from everybody.
fn revoke(serial: u32) -> Result<()> {
    const REVOKE: libc::c_long = 3;
    // SAFETY: numbers alone.
    let done = unsafe { libc::syscall(libc::SYS_keyctl, REVOKE, libc::c_long::from(serial)) };
    ensure!(done == 0, "{}", io::Error::last_os_error());
    Ok(())
}

/// A key of 32 such bytes.
pub(in crate::cases) fn psk(name: &str, byte: u8) -> Result<u32> {
    add_key("logon", &format!("turnstile:{name}"), &[byte; 32])
}

fn seal_all(net: &Net, key: u32) -> Result<()> {
    configure_all(net, &format!("security psk key {key}"))
}

fn count(ns: &Netns, name: &str) -> Result<u64> {
    let all = json(&ns.run("turnstile -j stats")?)?;
    let counter = all.get(name).and_then(|value| value.as_u64());
    counter.with_context(|| format!("no counter {name}"))
}

/// The transport's datagrams that a device saw, and whether it sent them.
fn datagrams(captured: &Captured) -> Result<Vec<(bool, Vec<u8>)>> {
    let mut all = Vec::new();
    for packet in captured.of("eth0")? {
        let bytes = &packet.bytes;
        let udp = match bytes.get(12..14) {
            Some([0x08, 0x00]) if bytes.get(23) == Some(&17) => 34,
            Some([0x86, 0xdd]) if bytes.get(20) == Some(&17) => 54,
            _ => continue,
        };
        let length = bytes.get(udp + 4..udp + 6).context("a short frame")?;
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        let datagram = bytes.get(udp + 8..udp + length).context("a short frame")?;
        all.push((packet.sent, datagram.to_vec()));
    }
    Ok(all)
}

/// Sends messages of these lengths over both versions of IP.
fn exchange(net: &Net, lengths: &[usize]) -> Result<()> {
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let mut sent = 0;
    for there in addresses(&net.hosts[1]) {
        for len in lengths {
            let number = sent.into();
            let data = content::content(number, *len);
            from.send_to(&data, there, &SendOptions::default())?;
            sent += 1;
            let came = to.recv_message(*len)?;
            content::check(number, 0, &came.data)?;
        }
    }
    delivered(&from, sent)?;
    nothing_more(&to)
}

const LENGTHS: [usize; 6] = [8, 1417, 1418, 1419, 5000, 200_000];

/// Parts of what [`exchange`] sends, one of which is in any 31 bytes in a row.
fn parts() -> HashSet<[u8; 16]> {
    let mut parts = HashSet::new();
    for number in 0..2 * LENGTHS.len() {
        let data = content::content(number as u64, LENGTHS[number % LENGTHS.len()]);
        parts.extend(data.chunks_exact(16).filter_map(|part| part.first_chunk()));
    }
    parts
}

fn is_readable(datagram: &[u8], parts: &HashSet<[u8; 16]>) -> bool {
    let mut windows = datagram.windows(16);
    windows.any(|window| {
        window
            .first_chunk()
            .is_some_and(|part| parts.contains(part))
    })
}

/// What host 2's device sees of the messages.
fn watched(net: &Net) -> Result<Vec<Vec<u8>>> {
    let capture = Capture::keeping(&net.hosts[1].ns, Some("eth0"), 10_000)?;
    exchange(net, &LENGTHS)?;
    let seen = datagrams(&capture.finish()?)?;
    ensure!(seen.len() > 300, "{} packets were seen", seen.len());
    Ok(seen.into_iter().map(|(_, datagram)| datagram).collect())
}

/// Messages of all lengths arrive with each policy; and of what is sent nothing is on the wire, but
/// what is sealed.
fn unreadable(ctx: &mut Ctx) -> Result<()> {
    // Each packet is seen by itself.
    let net = hosts(&Builder::pair().without_offloads())?;
    let parts = parts();
    // As a check of the check.
    let readable = watched(&net)?;
    let count_of = readable
        .iter()
        .filter(|one| is_readable(one, &parts))
        .count();
    ensure!(
        count_of > 280,
        "{count_of} of those that are not sealed can be read"
    );
    seal_all(&net, psk("one", 1)?)?;
    for policy in POLICIES {
        for unscheduled in ["off", "20"] {
            configure_all(&net, &format!("policy {policy} unscheduled {unscheduled}"))?;
            let seen = watched(&net)?;
            for datagram in &seen {
                ensure!(
                    wire::is_sealed(datagram, datagram.len()),
                    "not sealed: {datagram:02x?}"
                );
                ensure!(!is_readable(datagram, &parts), "content: {datagram:02x?}");
            }
            ctx.note(format!(
                "{policy}, unscheduled {unscheduled}: {} packets",
                seen.len()
            ));
        }
    }
    // And over the loopback device, whose packets are longer.
    let ns = &net.hosts[0].ns;
    let (to, from) = (receiver(ns)?, sender(ns)?);
    let data = content::content(1, 300_000);
    from.send_to(&data, addresses(&net.hosts[0])[0], &SendOptions::default())?;
    content::check(1, 0, &to.recv_message(data.len())?.data)?;
    delivered(&from, 1)?;
    for host in &net.hosts {
        for name in ["seal-wrong", "seal-missing", "seal-key"] {
            ensure!(count(&host.ns, name)? == 0, "{name} counts");
        }
    }
    Ok(())
}

/// Loss, repetition and reordering do what they do to others.
fn bad_path(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    seal_all(&net, psk("one", 1)?)?;
    for host in &net.hosts {
        let seed = ctx.rng.range(1..=u64::MAX);
        host.ns.tc(&format!(
            "qdisc add dev eth0 root netem limit 100000 delay 1ms 1ms loss 3% duplicate 5% \
             corrupt 1% reorder 10% seed {seed}"
        ))?;
    }
    for policy in POLICIES {
        configure_all(&net, &format!("policy {policy}"))?;
        exchange(&net, &[100, 3000, 100_000])?;
    }
    Ok(())
}

/// One message, which must not arrive: the sender is told so after its time-out, and the receiver
/// sends nothing.
fn lost(net: &Net, counter: &str) -> Result<()> {
    let to = receiver(&net.hosts[1].ns)?;
    for there in addresses(&net.hosts[1]) {
        let from = sender(&net.hosts[0].ns)?;
        let before = count(&net.hosts[1].ns, counter)?;
        let capture = Capture::keeping(&net.hosts[1].ns, Some("eth0"), 10_000)?;
        from.send_to(&content::content(1, 5000), there, &SendOptions::default())?;
        let done = from
            .wait_completion(Some(Duration::from_secs(10)))?
            .context("no report")?;
        match done.outcome {
            Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => {}
            other => bail!("{other:?} instead of ETIMEDOUT"),
        }
        let seen = datagrams(&capture.finish()?)?;
        ensure!(!seen.is_empty(), "nothing was sent");
        let answers = seen.iter().filter(|(sent, _)| *sent).count();
        ensure!(answers == 0, "{answers} packets were drawn");
        ensure!(
            count(&net.hosts[1].ns, counter)? > before,
            "{counter} does not count: {}",
            net.hosts[1].ns.run("turnstile stats")?
        );
    }
    nothing_more(&to)
}

/// Ends that do not have the same key, or of which one does not seal.
fn strangers(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (one, two) = (psk("one", 1)?, psk("two", 2)?);
    configure_all(&net, "timeout 500ms rto 1ms")?;
    let [sender, receiver] = [&net.hosts[0].ns, &net.hosts[1].ns];
    configure(sender, &format!("security psk key {two}"))?;
    configure(receiver, &format!("security psk key {one}"))?;
    lost(&net, "seal-key").context("another key")?;
    configure(sender, "security off")?;
    lost(&net, "seal-missing").context("no key")?;
    configure(receiver, "security off")?;
    configure(sender, &format!("security psk key {one}"))?;
    lost(&net, "seal-key").context("a receiver that does not seal")?;
    configure_all(&net, "security off")?;
    exchange(&net, &[100, 10_000])
}

/// Keys change while messages are under way in both directions: none is lost.
fn rotation(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (one, two) = (psk("one", 1)?, psk("two", 2)?);
    seal_all(&net, one)?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let steps = [
        format!("accept-key {two}"),
        format!("key {two} accept-key {one}"),
        "accept-key off".to_owned(),
    ];
    let mut sent = 0;
    let mut batch = |count: u32| -> Result<()> {
        for _ in 0..count {
            let there = addresses(&net.hosts[1])[sent as usize % 2];
            let data = content::content(sent.into(), 60_000);
            from.send_to(&data, there, &SendOptions::default())?;
            sent += 1;
        }
        Ok(())
    };
    for step in steps {
        for host in [1, 0] {
            batch(6)?;
            configure(&net.hosts[host].ns, &step)?;
        }
        // What has the old key has come before that is taken away.
        for _ in 0..12 {
            to.recv_message(60_000)?;
        }
    }
    delivered(&from, sent)?;
    nothing_more(&to)?;
    for host in &net.hosts {
        ensure!(count(&host.ns, "seal-key")? == 0, "a key was missed");
        ensure!(count(&host.ns, "out-timeout")? == 0, "a message was lost");
    }
    Ok(())
}

fn errno(result: io::Result<()>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

/// Sockets with keys of their own, in namespaces that do not seal and in ones that do.
fn sockets(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    configure_all(&net, "timeout 500ms rto 1ms")?;
    let (one, two) = (psk("one", 1)?, psk("two", 2)?);
    let send = |from: &Socket, to: &Socket, there| -> Result<bool> {
        from.send_to(&content::content(1, 5000), there, &SendOptions::default())?;
        let done = from.wait_completion(Some(Duration::from_secs(10)))?;
        let arrived = done.context("no report")?.outcome.is_ok();
        if arrived {
            content::check(1, 0, &to.recv_message(5000)?.data)?;
        }
        nothing_more(to)?;
        Ok(arrived)
    };
    for there in addresses(&net.hosts[1]) {
        configure_all(&net, "security off")?;
        let to = receiver(&net.hosts[1].ns)?;
        let from = sender(&net.hosts[0].ns)?;
        ensure!(to.security()? == Security::Namespace, "by default");
        ensure!(send(&from, &to, there)?, "neither seals");
        to.set_security(Security::Psk(one))?;
        ensure!(to.security()? == Security::Psk(one), "what was set");
        ensure!(!send(&from, &to, there)?, "the receiver seals");
        from.set_security(Security::Psk(two))?;
        ensure!(!send(&from, &to, there)?, "with another key");
        to.set_accept_key(Some(two))?;
        ensure!(send(&from, &to, there)?, "with a key that it accepts");
        to.set_accept_key(None)?;
        from.set_security(Security::Psk(one))?;
        ensure!(send(&from, &to, there)?, "with its key");
        // The namespaces seal with another one.
        seal_all(&net, two)?;
        ensure!(send(&from, &to, there)?, "with the sockets' key");
        from.set_security(Security::Namespace)?;
        ensure!(!send(&from, &to, there)?, "with the namespace's");
        to.set_security(Security::Namespace)?;
        ensure!(send(&from, &to, there)?, "both with the namespaces'");
        from.set_security(Security::Off)?;
        ensure!(!send(&from, &to, there)?, "not sealed");
        to.set_security(Security::Off)?;
        ensure!(send(&from, &to, there)?, "neither, by the sockets");
        ensure!(to.security()? == Security::Off, "what was set");
        ensure!(
            errno(to.set_accept_key(Some(one))) == Some(libc::EINVAL),
            "no key of its own"
        );
        for (security, says) in [
            (Security::Psk(0x7fff_fff0), libc::ENOKEY),
            (
                Security::Psk(add_key("user", "turnstile:user", &[1; 32])?),
                libc::EINVAL,
            ),
            (
                Security::Psk(add_key("logon", "turnstile:short", &[1; 31])?),
                libc::EMSGSIZE,
            ),
        ] {
            let said = errno(to.set_security(security));
            ensure!(said == Some(says), "{security:?}: {said:?}");
            ensure!(to.security()? == Security::Off, "nothing changed");
        }
    }
    Ok(())
}

/// Keys that cannot be had are refused in words, and change nothing.
fn refused(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    let before = ns.run("turnstile transport show")?;
    let revoked = psk("revoked", 1)?;
    revoke(revoked)?;
    let user = add_key("user", "turnstile:user", &[1; 32])?;
    let long = add_key("logon", "turnstile:long", &[1; 33])?;
    let good = psk("good", 1)?;
    for (words, says) in [
        (
            "security psk".to_owned(),
            "key: security psk needs one, of 1..2147483647".to_owned(),
        ),
        (
            "security psk key 2147483647".to_owned(),
            "key 2147483647: there is no key of this number".to_owned(),
        ),
        (
            format!("accept-key {user}"),
            format!("accept-key {user}: a key of type logon"),
        ),
        (
            format!("key {long}"),
            format!("key {long}: the key has to have 32 bytes"),
        ),
        (format!("key {revoked}"), format!("key {revoked}: the key")),
        (
            "key turnstile:nobody".to_owned(),
            "key: no key turnstile:nobody".to_owned(),
        ),
    ] {
        let line = format!("turnstile transport set {words}");
        let said = ns.try_run(&line)?.failure()?;
        ensure!(said.contains(&says), "{line}: {said}");
        ensure!(
            ns.run("turnstile transport show")? == before,
            "{line} changed something"
        );
    }
    // By its name; and what is shown is its number, and no more.
    configure(ns, "security psk key turnstile:good")?;
    let shown = json(&ns.run("turnstile -j transport show")?)?;
    ensure!(
        shown["security"] == "psk" && shown["key"] == good,
        "{shown}"
    );
    Ok(())
}
