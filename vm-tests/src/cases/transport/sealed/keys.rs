// SPDX-License-Identifier: GPL-2.0
//! The keys themselves: they come and go while messages are under way, are whoever's they are, and
//! are shown to nobody.

use std::fmt::Write as _;
use std::io::Read as _;
use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use std::{fs, io};

use anyhow::{bail, ensure, Context, Result};
use nix::sched::{unshare, CloneFlags};
use nix::sys::wait::waitpid;
use nix::unistd::{fork, setgroups, setresgid, setresuid, ForkResult, Gid, Uid};
use turnstile_core::transport::uapi::{command, SOL_TURNSTILE};
use turnstile_core::transport::wire;
use turnstile_socket::{Security, SendOptions, Socket};

use super::{add_key, count, datagrams, errno, exchange, psk, revoke, seal_all};
use crate::cases::fuzz::faults::{Faults, Notices};
use crate::cases::transport::content;
use crate::cases::transport::support::{
    addresses, configure, configure_all, delivered, hosts, nothing_more, pair, read_once, receiver,
    refused, same, sender, socket, PORT,
};
use crate::cmd::run_here;
use crate::harness::Ctx;
use crate::pcap::Capture;
use crate::raw_netlink::{Generic, GenericRequest};
use crate::topology::{Builder, Net};

/// keyctl(2) with numbers alone.
fn keyctl(what: libc::c_long, first: libc::c_long, second: libc::c_long) -> io::Result<()> {
    // SAFETY: numbers alone; where a name would be, there is none.
    let done = unsafe { libc::syscall(libc::SYS_keyctl, what, first, second, 0, 0) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

const JOIN_SESSION: libc::c_long = 1;
const UNLINK: libc::c_long = 9;
const READ: libc::c_long = 11;
const SET_TIMEOUT: libc::c_long = 15;
const SESSION: libc::c_long = -3;

/// Does something while messages are under way, over both versions of IP: they arrive, sealed.
fn under_way(net: &Net, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    let from = sender(&net.hosts[0].ns)?;
    let data = content::content(7, 400_000);
    for there in addresses(&net.hosts[1]) {
        from.send_to(&data, there, &SendOptions::default())?;
    }
    let mut came = read_once(&to, 20_000, 0)?.data;
    meanwhile()?;
    let capture = Capture::keeping(&net.hosts[1].ns, Some("eth0"), 10_000)?;
    while came.len() < 2 * data.len() {
        came.extend(read_once(&to, 50_000, 0)?.data);
    }
    let (first, second) = came.split_at(data.len());
    same("the first message", first, &data)?;
    same("the second message", second, &data)?;
    delivered(&from, 2)?;
    nothing_more(&to)?;
    let seen = datagrams(&capture.finish()?)?;
    ensure!(seen.len() > 300, "{} packets", seen.len());
    for (_, datagram) in &seen {
        ensure!(
            wire::is_sealed(datagram, datagram.len()),
            "not sealed: {datagram:02x?}"
        );
    }
    Ok(())
}

/// Keys are revoked, expire, are unlinked: what is in force stays in force, and cannot be put in
/// force again. Seals are turned off, and messages under way keep theirs.
pub(super) fn going(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    type Away = fn(u32) -> Result<()>;
    let ways: [(&str, Away); 3] = [
        ("revoked", revoke),
        ("expired", |serial| {
            keyctl(SET_TIMEOUT, serial.into(), 1)?;
            std::thread::sleep(Duration::from_millis(2100));
            Ok(())
        }),
        ("unlinked", |serial| {
            keyctl(UNLINK, serial.into(), SESSION).context("unlinking a key")
        }),
    ];
    for (name, away) in ways {
        let key = psk(name, 1)?;
        seal_all(&net, key)?;
        under_way(&net, || away(key)).context(name)?;
        // The copy is in force, whatever else is set.
        configure_all(&net, "rto 3ms")?;
        exchange(&net, &[100, 10_000])?;
        let ns = &net.hosts[0].ns;
        configure(ns, "security off key off")?;
        let line = format!("turnstile transport set security psk key {key}");
        let said = ns.try_run(&line)?.failure()?;
        ensure!(said.contains(&format!("key {key}: ")), "{name}: {said}");
        configure_all(&net, "security off key off")?;
    }
    // All keys are taken away from both ends.
    seal_all(&net, psk("last", 1)?)?;
    under_way(&net, || configure_all(&net, "security off key off"))?;
    exchange(&net, &[100, 10_000])?;
    for host in &net.hosts {
        ensure!(count(&host.ns, "out-timeout")? == 0, "a message was lost");
    }
    Ok(())
}

/// A message to a host: whether it arrived.
fn arrives(net: &Net, from: usize, to: usize, v6: bool) -> Result<bool> {
    let socket = receiver(&net.hosts[to].ns)?;
    let sender = sender(&net.hosts[from].ns)?;
    let there = addresses(&net.hosts[to])[usize::from(v6)];
    sender.send_to(&content::content(3, 5000), there, &SendOptions::default())?;
    let done = sender.wait_completion(Some(Duration::from_secs(10)))?;
    match done.context("no report")?.outcome {
        Ok(()) => content::check(3, 0, &socket.recv_message(5000)?.data)?,
        Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => return Ok(false),
        Err(error) => bail!("{error} instead of ETIMEDOUT"),
    }
    nothing_more(&socket)?;
    Ok(true)
}

/// Namespaces of one machine with keys of their own; one of them has both.
pub(super) fn two(_: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::bridged(3))?;
    configure_all(&net, "timeout 500ms rto 1ms")?;
    let (one, two) = (psk("one", 1)?, psk("two", 2)?);
    let words = [
        format!("security psk key {one}"),
        format!("security psk key {two}"),
        format!("security psk key {one} accept-key {two}"),
    ];
    for (host, words) in net.hosts.iter().zip(words) {
        configure(&host.ns, &words)?;
    }
    for v6 in [false, true] {
        for (from, to, expected) in [
            (0, 2, true),
            (1, 2, true),
            (2, 0, true),
            (2, 1, false),
            (0, 1, false),
            (1, 0, false),
        ] {
            let before = count(&net.hosts[to].ns, "seal-key")?;
            let arrived = arrives(&net, from, to, v6)?;
            ensure!(arrived == expected, "from {from} to {to}: {arrived}");
            let counted = count(&net.hosts[to].ns, "seal-key")? > before;
            ensure!(counted != expected, "from {from} to {to}: {counted}");
        }
    }
    Ok(())
}

/// Two keys that packets call by the same name, 8fa672bb, in hexadecimal.
const TWINS: [&str; 2] = [
    "3873ecf4855ce373db4b7afc32fe5884d984d37a32c2c605065671d3eed825d4",
    "e13656baa26243dc7e4c8d1d28a5fca4d4d79e093cbb0b77247142e94848b1a7",
];

/// Two keys with one name: neither opens what the other has sealed, whoever has it.
pub(super) fn same_name(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    configure_all(&net, "timeout 500ms rto 1ms")?;
    let mut twins = Vec::new();
    for (number, text) in TWINS.iter().enumerate() {
        let bytes = (0..32).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16));
        let bytes = bytes.collect::<Result<Vec<u8>, _>>()?;
        twins.push(add_key(
            "logon",
            &format!("turnstile:twin{number}"),
            &bytes,
        )?);
    }
    let [here, there] = [&net.hosts[0].ns, &net.hosts[1].ns];
    // The namespaces have one key, and a socket the other.
    seal_all(&net, twins[0])?;
    let (to, from) = (receiver(there)?, sender(here)?);
    to.set_security(Security::Psk(twins[1]))?;
    for v6 in [false, true] {
        let address = addresses(&net.hosts[1])[usize::from(v6)];
        let before = count(there, "seal-key")?;
        from.send_to(&content::content(1, 5000), address, &SendOptions::default())?;
        let done = from.wait_completion(Some(Duration::from_secs(10)))?;
        let why = done.context("no report")?.outcome.err();
        let why = why.context("a message with another key arrived")?;
        refused("another key", Err::<(), _>(why), libc::ETIMEDOUT)?;
        ensure!(count(there, "seal-key")? > before, "it is not counted");
        nothing_more(&to)?;
    }
    // Of sockets, the second one is told.
    let other = socket(there, ("::", PORT + 1))?;
    let said = errno(other.set_security(Security::Psk(twins[0])));
    ensure!(said == Some(libc::EEXIST), "{said:?}");
    drop(to);
    other.set_security(Security::Psk(twins[0]))?;
    exchange(&net, &[100, 10_000])
}

/// Six bytes in a row of the secret, as they are or as text.
fn has_secret(bytes: &[u8], secret: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let text: String = text.chars().filter(|c| !" :,[]".contains(*c)).collect();
    secret.windows(6).any(|part| {
        let mut hex = String::new();
        let mut decimal = String::new();
        for byte in part {
            let _ = write!(hex, "{byte:02x}");
            let _ = write!(decimal, "{byte}");
        }
        let is_part = |window: &[u8]| window == part;
        bytes.windows(6).any(is_part) || text.contains(&hex) || text.contains(&decimal)
    })
}

/// What a socket says of its option of this number.
fn option(of: &impl AsFd, level: i32, number: i32) -> Option<Vec<u8>> {
    let mut bytes = vec![0_u8; 512];
    let mut len = bytes.len() as libc::socklen_t;
    // SAFETY: there is room for as many bytes as is said.
    let done = unsafe {
        libc::getsockopt(
            of.as_fd().as_raw_fd(),
            level,
            number,
            bytes.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    bytes.truncate(len as usize);
    (done == 0).then_some(bytes)
}

/// Whatever root asks, of a namespace and a socket that have a key: no answer has it.
pub(super) fn secret(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let secret: Vec<u8> = (0..32_u8).map(|i| i.wrapping_mul(57) ^ 0xa7).collect();
    let hex: Vec<String> = secret[8..16].iter().map(|it| format!("{it:02X}")).collect();
    ensure!(
        has_secret(&secret[3..20], &secret) && has_secret(hex.join(" ").as_bytes(), &secret),
        "the check finds nothing"
    );
    let key = add_key("logon", "turnstile:secret", &secret)?;
    seal_all(&net, key)?;
    let ns = &net.hosts[1].ns;
    let to = receiver(ns)?;
    to.set_security(Security::Psk(key))?;
    to.set_accept_key(Some(key))?;
    to.set_recv_buffer_size(64 << 10)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[0];
    from.send_to(
        &content::content(7, 400_000),
        there,
        &SendOptions::default(),
    )?;
    read_once(&to, 10_000, 0)?;
    let mut answers: Vec<(String, Vec<u8>)> = Vec::new();
    for line in [
        "turnstile transport show",
        "turnstile -j transport show",
        "turnstile -j stats --all",
        "turnstile -j flows",
        "turnstile -j flows --peers",
        "turnstile -j sockets",
    ] {
        answers.push((line.to_owned(), ns.run(line)?.into_bytes()));
    }
    let mut family = Generic::open(ns, "turnstile")?;
    let nothing = [];
    for number in command::TRANSPORT_GET..=command::LINK_GET {
        if number == command::TRANSPORT_SET {
            continue;
        }
        for dump in [false, true] {
            let mut request = GenericRequest::new(number, &nothing);
            if dump {
                request.flags |= libc::NLM_F_DUMP as u16;
            }
            let (replies, _) = family.request(&request)?;
            for reply in replies {
                for (kind, bytes) in reply.attributes {
                    answers.push((format!("attribute {kind} of command {number}"), bytes));
                }
            }
        }
    }
    for number in 0..256 {
        for level in [SOL_TURNSTILE as i32, libc::SOL_SOCKET, libc::SOL_IP] {
            if let Some(bytes) = option(&to, level, number) {
                answers.push((format!("option {number} of level {level}"), bytes));
            }
        }
    }
    ns.enter(|| {
        for file in fs::read_dir("/proc/thread-self/net")? {
            let path = file?.path();
            if let Ok(bytes) = fs::read(&path) {
                answers.push((path.display().to_string(), bytes));
            }
        }
        Ok(())
    })?;
    answers.push(("/proc/keys".to_owned(), fs::read("/proc/keys")?));
    for (what, bytes) in &answers {
        ensure!(!has_secret(bytes, &secret), "{what}: {bytes:02x?}");
    }
    ensure!(answers.len() > 100, "{} answers", answers.len());
    let kept = keyctl(READ, key.into(), 0);
    let kept = kept.err().and_then(|error| error.raw_os_error());
    ensure!(kept == Some(libc::EOPNOTSUPP), "keyctl read: {kept:?}");
    ctx.note(format!("{} answers", answers.len()));
    Ok(())
}

/// A user who is root of namespaces of his own: he has his own keys, and nobody else's.
pub(super) fn user_namespaces(_: &mut Ctx) -> Result<()> {
    crate::cases::transport::support::load()?;
    let others = [
        psk("of-root", 1)?,
        add_key("user", "turnstile:of-root", &[1; 32])?,
    ];
    let (mut here, mut there) = UnixStream::pair()?;
    // SAFETY: the child is this process with one thread, which does not return from here.
    let child = match unsafe { fork() }? {
        ForkResult::Child => {
            drop(here);
            let result = as_user(others);
            if let Err(error) = &result {
                let _ = io::Write::write_all(&mut there, format!("{error:#}").as_bytes());
            }
            // SAFETY: nothing of the parent is to be run at the child's end.
            unsafe { libc::_exit(i32::from(result.is_err())) }
        }
        ForkResult::Parent { child } => child,
    };
    drop(there);
    let mut said = String::new();
    here.read_to_string(&mut said)?;
    waitpid(child, None)?;
    ensure!(said.is_empty(), "{said}");
    Ok(())
}

fn as_user(others: [u32; 2]) -> Result<()> {
    const USER: u32 = 1000;
    setgroups(&[])?;
    let group = Gid::from_raw(USER);
    setresgid(group, group, group)?;
    let user = Uid::from_raw(USER);
    setresuid(user, user, user)?;
    nix::sys::prctl::set_dumpable(true)?;
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .context("making namespaces as a user")?;
    fs::write("/proc/self/setgroups", "deny").context("setgroups")?;
    fs::write("/proc/self/uid_map", format!("0 {USER} 1")).context("uid_map")?;
    fs::write("/proc/self/gid_map", format!("0 {USER} 1")).context("gid_map")?;
    // The keyring of the parent's session has root's keys, and is inherited.
    keyctl(JOIN_SESSION, 0, 0).context("a session keyring")?;
    run_here("ip link set lo up", "")?.success()?;
    let to = Socket::bind((Ipv6Addr::UNSPECIFIED, PORT))?;
    to.set_read_timeout(Some(Duration::from_secs(20)))?;
    for other in others {
        let said = errno(to.set_security(Security::Psk(other)));
        ensure!(said == Some(libc::EACCES), "another's key: {said:?}");
        let line = format!("turnstile transport set security psk key {other}");
        let said = run_here(&line, "")?.failure()?;
        ensure!(said.contains("in none of your keyrings"), "{said}");
    }
    let said = run_here("turnstile transport set key turnstile:of-root", "")?.failure()?;
    ensure!(said.contains("no key turnstile:of-root"), "{said}");
    psk("mine", 3)?;
    run_here(
        "turnstile transport set security psk key turnstile:mine",
        "",
    )?
    .success()?;
    let from = Socket::bind("[::]:0")?;
    from.set_completions(true)?;
    for ip in ["::1", "127.0.0.1"] {
        let there = SocketAddr::new(ip.parse()?, PORT);
        let data = content::content(1, 100_000);
        from.send_to(&data, there, &SendOptions::default())?;
        let came = to.recv_message(data.len())?;
        same("a message", &came.data, &data)?;
    }
    delivered(&from, 2)?;
    // A key of his own for a socket.
    let own = psk("socket", 4)?;
    to.set_security(Security::Psk(own))?;
    ensure!(to.security()? == Security::Psk(own), "what was set");
    Ok(())
}

/// Allocations fail, one after the other, while a socket takes a key and while it sends: it has the
/// key or has not, and what goes out is sealed.
pub(super) fn no_memory(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (one, two) = (psk("one", 1)?, psk("two", 2)?);
    seal_all(&net, one)?;
    let faults = Faults::open();
    let _notices = faults.can().then(Notices::shown);
    let most = if faults.can() { 60 } else { 2 };
    let to = receiver(&net.hosts[1].ns)?;
    let mut failures = 0;
    for n in 1..=most {
        faults.arm(n);
        let result = to.set_security(Security::Psk(two));
        let failed = faults.disarm();
        let now = to.security()?;
        match errno(result) {
            None => {
                ensure!(now == Security::Psk(two), "set, and {now:?}");
                faults.arm(n);
                let other = to.set_accept_key(Some(one));
                faults.disarm();
                ensure!([None, Some(libc::ENOMEM)].contains(&errno(other)), "{n}");
                to.set_security(Security::Namespace)?;
            }
            Some(libc::ENOMEM) => {
                failures += 1;
                ensure!(failed && now == Security::Namespace, "{n}: {now:?}");
            }
            other => bail!("{n}: {other:?}"),
        }
    }
    let capture = Capture::keeping(&net.hosts[1].ns, Some("eth0"), 10_000)?;
    let mut refused = 0;
    for v6 in [false, true] {
        let there = addresses(&net.hosts[1])[usize::from(v6)];
        for n in 1..=most {
            let from = sender(&net.hosts[0].ns)?;
            let data = content::content(n, 20_000);
            faults.arm(n);
            let result = from.send_to(&data, there, &SendOptions::default());
            faults.disarm();
            if let Err(error) = result {
                let why = error.to_string();
                ensure!(faults.can(), "{why}");
                refused += 1;
                continue;
            }
            let came = to.recv_message(data.len())?;
            content::check(n, 0, &came.data)?;
            delivered(&from, 1)?;
        }
    }
    nothing_more(&to)?;
    let seen = datagrams(&capture.finish()?)?;
    ensure!(seen.len() > 50, "{} packets", seen.len());
    for (_, datagram) in &seen {
        let sealed = wire::is_sealed(datagram, datagram.len());
        ensure!(sealed, "not sealed: {datagram:02x?}");
    }
    let of_all = failures > 0 && refused > 0;
    ensure!(of_all || !faults.can(), "{failures} {refused}");
    ctx.note(format!(
        "faults {}: {failures} keys and {refused} messages were refused",
        faults.can()
    ));
    Ok(())
}
