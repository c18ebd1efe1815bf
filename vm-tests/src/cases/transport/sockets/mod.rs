// SPDX-License-Identifier: GPL-2.0
//! The transport's sockets as sock_diag and `turnstile sockets` list them: whose they are, what is
//! in their queues, and how they are ended by somebody else.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use serde_json::Value;
use socket2::{Domain, SockAddr};
use turnstile_socket::{SendOptions, Socket};

use super::content::content;
use super::support::{
    addresses, delivered, joined, nothing_more, pair, read_once, receiver, refused, send_once,
    sender, socket, unbound, PORT,
};
use crate::cmd::json;
use crate::harness::{Case, Ctx};
use crate::limits::more_files;
use crate::netns::Netns;

mod diag;

use diag::{Diag, Entry, AF_INET, AF_INET6, ALL};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/sockets/owner", owner),
    Case::new("transport/sockets/queues", queues),
    Case::new("transport/sockets/acknowledged-late", acknowledged_late).timeout_s(120),
    Case::new("transport/sockets/closing", closing),
    Case::new("transport/sockets/namespaces", namespaces),
    // As many sockets make the kernel keep some objects for good.
    Case::new("transport/sockets/thousands", thousands)
        .timeout_s(180)
        .crowded(),
    Case::new("transport/sockets/rights", rights),
    Case::new("transport/sockets/filter", filter),
    Case::new("transport/sockets/exact", exact),
    Case::new("transport/sockets/destroy", destroy),
    Case::new("transport/sockets/command", command),
];

const USER: u32 = 1000;

/// What `turnstile -j sockets` says.
fn listed(ns: &Netns, flags: &str) -> Result<Vec<Value>> {
    let said = json(&ns.run(&format!("turnstile -j sockets {flags}"))?)?;
    Ok(said.as_array().context("no array")?.clone())
}

/// The only one of them.
fn only(ns: &Netns, flags: &str) -> Result<Value> {
    let mut found = listed(ns, flags)?;
    ensure!(found.len() == 1, "sockets {flags}: {found:?}");
    Ok(found.remove(0))
}

/// That members of a socket are these.
fn has(what: &str, found: &Value, wanted: &[(&str, Value)]) -> Result<()> {
    for (key, value) in wanted {
        ensure!(
            found[*key] == *value,
            "{what}: {key} is {}, not {value}: {found}",
            found[*key]
        );
    }
    Ok(())
}

fn inode(socket: &impl AsFd) -> Result<u64> {
    let path = format!("/proc/self/fd/{}", socket.as_fd().as_raw_fd());
    Ok(std::fs::metadata(path)?.ino())
}

/// `SO_COOKIE`.
fn cookie(socket: &impl AsFd) -> Result<u64> {
    let mut cookie = 0_u64;
    let mut len = 8;
    let fd = socket.as_fd().as_raw_fd();
    let to = std::ptr::from_mut(&mut cookie).cast();
    // SAFETY: the kernel writes at most `len` bytes, for which there is room.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, 57, to, &mut len) };
    ensure!(done == 0, "SO_COOKIE: {}", std::io::Error::last_os_error());
    Ok(cookie)
}

/// What a thread does as another user, without any rights.
fn as_user<R: Send>(ns: &Netns, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    ns.enter(|| {
        // SAFETY: it changes only this thread, which ends; the library's call would change all.
        let done = unsafe { libc::syscall(libc::SYS_setresuid, USER, USER, USER) };
        ensure!(done == 0, "setresuid");
        work()
    })
}

/// Whose a socket is, where it is, and who has it open: of both families, bound and connected.
fn owner(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (ns, there) = (&net.hosts[0].ns, addresses(&net.hosts[1]));
    let dev = "eth0";
    for (to, family) in there.into_iter().zip(["inet", "inet6"]) {
        let v6 = to.is_ipv6();
        let own = unbound(ns, Domain::for_address(to))?;
        let theirs = as_user(ns, || unbound_here(Domain::for_address(to)))?;
        own.bind(&SockAddr::from(addresses(&net.hosts[0])[usize::from(v6)]))?;
        own.set_mark(0x1234)?;
        own.bind_device(Some(dev.as_bytes()))?;
        theirs.connect(&SockAddr::from(to))?;
        let port = theirs.local_addr()?.as_socket().context("no port")?.port();

        let found = only(ns, "--state bound")?;
        let local = addresses(&net.hosts[0])[usize::from(v6)];
        let wanted = [
            ("state", "bound".into()),
            ("family", family.into()),
            ("uid", 0.into()),
            ("inode", inode(&own)?.into()),
            ("cookie", cookie(&own)?.into()),
            ("mark", 0x1234.into()),
            ("device", dev.into()),
            ("local-address", local.ip().to_string().into()),
            ("local-port", PORT.into()),
            ("recv-q", 0.into()),
            ("send-q", 0.into()),
        ];
        has("own", &found, &wanted)?;
        ensure!(found["peer-port"].is_null(), "{found}");
        let process = &found["processes"][0];
        ensure!(
            process["pid"] == std::process::id() && process["fd"] == own.as_raw_fd(),
            "{found}"
        );
        ensure!(process["name"].is_string(), "{found}");

        let found = only(ns, "--state connected")?;
        let wanted = [
            ("family", family.into()),
            ("uid", USER.into()),
            ("inode", inode(&theirs)?.into()),
            ("local-address", local.ip().to_string().into()),
            ("local-port", port.into()),
            ("peer-address", to.ip().to_string().into()),
            ("peer-port", to.port().into()),
        ];
        has("theirs", &found, &wanted)?;
        ensure!(found["cgroup"].as_u64() > Some(0), "{found}");
        ensure!(found["memory"].is_null(), "{found}");
        let found = only(ns, "-m --state connected")?;
        let buffer = theirs.recv_buffer_size()?;
        ensure!(found["memory"]["receive-buffer"] == buffer, "{found}");
    }
    Ok(())
}

/// A socket that is bound to nothing, in the calling thread's namespace.
fn unbound_here(domain: Domain) -> Result<socket2::Socket> {
    let protocol = socket2::Protocol::from(i32::from(
        turnstile_core::transport::uapi::IPPROTO_TURNSTILE,
    ));
    let kind = socket2::Type::from(libc::SOCK_RDM);
    Ok(socket2::Socket::new(domain, kind, Some(protocol))?)
}

/// The queues, in messages and in bytes: recv-q, whole, incoming.
fn receives(ns: &Netns, at: &str, bytes: u32, whole: u32, incoming: u32) -> Result<()> {
    let found = only(ns, &format!("--port {PORT}"))?;
    let wanted = [
        ("recv-q", bytes.into()),
        ("whole", whole.into()),
        ("incoming", incoming.into()),
    ];
    has(at, &found, &wanted)
}

/// The same of a sender: send-q, outgoing.
fn sends(ns: &Netns, at: &str, bytes: u32, outgoing: u32) -> Result<Value> {
    let found = only(ns, "")?;
    let wanted = [("send-q", bytes.into()), ("outgoing", outgoing.into())];
    has(at, &found, &wanted)?;
    Ok(found)
}

/// What came and was not read, and what went and was not acknowledged, exactly.
fn queues(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (here, there) = (&net.hosts[0].ns, &net.hosts[1].ns);
    for to in addresses(&net.hosts[1]) {
        let receiver = socket(there, to)?;
        let from = sender(here)?;
        let first = content(1, 1000);
        from.send_to(&first, to, &SendOptions::default())?;
        from.send_to(&content(2, 50_000), to, &SendOptions::default())?;
        delivered(&from, 2)?;
        receives(there, "two messages", 51_000, 2, 0)?;
        sends(here, "all delivered", 0, 0)?;
        let read = read_once(&receiver, 100, 0)?;
        ensure!(read.data.len() == 100 && !read.end, "{read:?}");
        receives(there, "a part read", 50_900, 2, 0)?;
        let peeked = read_once(&receiver, 5000, libc::MSG_PEEK)?;
        ensure!(peeked.data.len() == 900, "{}", peeked.data.len());
        receives(there, "peeked", 50_900, 2, 0)?;
        ensure!(read_once(&receiver, 5000, 0)?.end, "the end of the first");
        receives(there, "one read", 50_000, 1, 0)?;

        // One that comes, and has no end yet, can be read but for its last byte.
        send_once(&from, &content(3, 4000), Some(to), &[], libc::MSG_MORE)?;
        wait_until(|| Ok(from.outgoing_queued()? == 0))?;
        receives(there, "one more begun", 53_999, 1, 1)?;
        sends(here, "one open", 0, 1)?;
        send_once(&from, &content(3, 1), Some(to), &[], 0)?;
        wait_until(|| Ok(only(here, "")?["outgoing"] == 0))?;
        receives(there, "it has ended", 54_001, 2, 0)?;
        for len in [50_000, 4001] {
            let message = receiver.recv_message(1 << 20)?;
            ensure!(message.data.len() == len, "{}", message.data.len());
        }
        receives(there, "all read", 0, 0, 0)?;

        // A long one can be read before its end.
        receiver.set_recv_buffer_size(64 << 10)?;
        let port = from.local_addr()?.port();
        let long = SendOptions::default();
        from.send_to(&content(4, 1_000_000), to, &long)?;
        wait_until(|| Ok(only(there, "")?["recv-q"] != 0))?;
        let found = only(there, "")?;
        let queued = found["recv-q"].as_u64().context("no queue")?;
        has(
            "streams",
            &found,
            &[("whole", 0.into()), ("incoming", 1.into())],
        )?;
        let can = receiver.incoming_queued()?;
        ensure!(can as u64 >= queued && queued > 10_000, "{can}: {found}");
        let found = only(here, &format!("--port {port}"))?;
        let left = found["send-q"].as_u64().context("no queue")?;
        ensure!(left > 0 && left <= 1_000_000, "{found}");
        ensure!(left == from.outgoing_queued()? as u64, "{found}");
        let message = receiver.recv_message(1 << 20)?;
        ensure!(message.data.len() == 1_000_000, "{}", message.data.len());
        receives(there, "the long one read", 0, 0, 0)?;
    }
    Ok(())
}

/// The receiver's signals are lost while a megabyte of a message arrives, and then one ACK covers
/// all of it: what was written is given back, though not with the lock held, and the rest follows.
fn acknowledged_late(_: &mut Ctx) -> Result<()> {
    const FIRST: usize = 1 << 20;
    for v6 in 0..2 {
        let net = pair()?;
        let here = &net.hosts[0].ns;
        let to = receiver(&net.hosts[1].ns)?;
        to.set_recv_buffer_size(16 << 20)?;
        let there = addresses(&net.hosts[1])[v6];
        // A stranger's message waits for a CHALLENGE, which passes; so does a RESEND, as two
        // processors reorder packets.
        let first = sender(here)?;
        first.send_to(b"known", there, &SendOptions::default())?;
        to.recv_message(100)?;
        delivered(&first, 1)?;
        drop(first);
        let from = sender(here)?;
        from.set_send_buffer_size(16 << 20)?;
        here.run("nft add table inet hole")?;
        here.run_with(
            "nft -f -",
            "table inet hole {\n chain in {\n  type filter hook input priority 0;\n  \
               ip dscp 48 @th,64,8 != { 0x14, 0x18 } drop\n  \
               ip6 dscp 48 @th,64,8 != { 0x14, 0x18 } drop\n }\n}\n",
        )?;
        let data = content(1, FIRST + 100_000);
        let (first, last) = data.split_at(FIRST);
        let mut writer = from.begin(there, &SendOptions::default())?;
        writer.write_all(first)?;
        writer.flush()?;
        let mut came = Vec::new();
        let mut buffer = vec![0; 1 << 20];
        // The writer keeps the last byte back, and the reader the one before.
        while came.len() + 2 < FIRST {
            let read = to.recv(&mut buffer)?;
            came.extend_from_slice(&buffer[..read.len]);
        }
        let held = only(here, "-m")?["memory"]["send"].as_u64();
        ensure!(held >= Some(FIRST as u64), "{held:?} B are held");
        let queued = from.outgoing_queued()?;
        ensure!(queued + 1 == FIRST, "{queued} B are not acknowledged");
        here.run("nft delete table inet hole")?;
        wait_until(|| Ok(from.outgoing_queued()? == 0))?;
        // But for the block that is written to next.
        wait_until(|| Ok(only(here, "-m")?["memory"]["send"].as_u64() < Some(64 << 10)))?;
        writer.write_all(last)?;
        writer.finish()?;
        while came.len() < data.len() {
            let read = to.recv(&mut buffer)?;
            came.extend_from_slice(&buffer[..read.len]);
        }
        ensure!(came == data, "other bytes came");
        delivered(&from, 1)?;
    }
    Ok(())
}

fn wait_until(mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..1000 {
        if ready()? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    anyhow::bail!("it does not happen")
}

/// Nothing passes to or from a host any more.
fn cut(ns: &Netns) -> Result<()> {
    ns.run("nft add table inet cut")?;
    ns.run_with(
        "nft -f -",
        "add chain inet cut in { type filter hook input priority 0; policy drop; }\n",
    )
    .map(drop)
}

/// A socket that is closed is listed, with its port, until all that it has sent is delivered.
fn closing(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (here, there) = (&net.hosts[0].ns, &net.hosts[1].ns);
    let to = addresses(&net.hosts[1])[0];
    let _receiver = socket(there, to)?;
    cut(there)?;
    let from = socket(here, "[::]:6000")?;
    for len in [1, 10_000] {
        from.send_to(&content(5, len), to, &SendOptions::default())?;
    }
    let open = sends(here, "nobody hears it", 10_001, 2)?;
    drop(from);
    let found = sends(here, "closed", 10_001, 2)?;
    let wanted = [
        ("state", "closing".into()),
        ("local-port", 6000.into()),
        ("inode", 0.into()),
        ("cookie", open["cookie"].clone()),
        ("uid", 0.into()),
    ];
    has("closed", &found, &wanted)?;
    ensure!(found["processes"] == Value::Array(vec![]), "{found}");
    ensure!(listed(here, "--state bound")?.is_empty(), "it is bound");
    // The port is free, and by its port the closed one is still found.
    let next = socket(here, "[::]:6000")?;
    ensure!(listed(here, "--port 6000")?.len() == 2, "the port's two");
    ensure!(
        listed(here, "--port 6000 --state closing")?.len() == 1,
        "the closed one"
    );
    // What is ended is gone at once, and nothing else is.
    only(here, "--state closing --kill")?;
    let left = only(here, "")?;
    has("left", &left, &[("inode", inode(&next)?.into())])?;
    nothing_more(&next)
}

/// Each namespace has its own sockets.
fn namespaces(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let mut sockets = Vec::new();
    for (host, port) in net.hosts.iter().zip([7001, 7002]) {
        sockets.push(socket(&host.ns, ("::", port))?);
    }
    for (host, port) in net.hosts.iter().zip([7001, 7002]) {
        let found = only(&host.ns, "")?;
        has("its own", &found, &[("local-port", port.into())])?;
    }
    // What is not there cannot be had or ended from elsewhere.
    let all = Diag::open(&net.hosts[0].ns)?.list(AF_INET6, ALL, 0, &[])?;
    let theirs = all.map_err(std::io::Error::from_raw_os_error)?.remove(0);
    let mut other = Diag::open(&net.hosts[1].ns)?;
    ensure!(
        other.get(&theirs)?.err() == Some(libc::ENOENT),
        "it was told"
    );
    ensure!(other.destroy(&theirs)? == libc::ENOENT, "it was ended");
    Ok(())
}

/// All of many, once, however many come and go meanwhile.
fn thousands(ctx: &mut Ctx) -> Result<()> {
    const STAY: usize = 5000;
    more_files(20_000)?;
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    let open = |count: usize| -> Result<Vec<socket2::Socket>> {
        ns.enter(|| (0..count).map(|_| unbound_here(Domain::IPV6)).collect())
    };
    // Those that go are among those that stay.
    let mut stay = Vec::new();
    let mut goes = Vec::new();
    for _ in 0..STAY / 50 {
        stay.extend(open(50)?);
        goes.extend(open(10)?);
    }
    let wanted: BTreeSet<u64> = stay.iter().map(inode).collect::<Result<_>>()?;
    let mut diag = Diag::open(ns)?;
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let churn = scope.spawn(|| -> Result<u32> {
            let mut rounds = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                goes.truncate(goes.len().saturating_sub(7));
                goes.extend(ns.enter(|| {
                    (0..7)
                        .map(|_| unbound_here(Domain::IPV6))
                        .collect::<Result<Vec<_>>>()
                })?);
                rounds += 1;
                std::thread::sleep(Duration::from_micros(50));
            }
            Ok(rounds)
        });
        let mut lists = || -> Result<()> {
            for round in 0..5 {
                let found = diag.list(AF_INET6, ALL, 0, &[])?;
                let found = found.map_err(std::io::Error::from_raw_os_error)?;
                let mut seen = BTreeMap::<u64, u32>::new();
                for entry in &found {
                    *seen.entry(entry.cookie()).or_default() += 1;
                }
                let twice = seen.values().filter(|count| **count > 1).count();
                ensure!(twice == 0, "round {round}: {twice} are there twice");
                let inodes: BTreeSet<u64> = found.iter().map(|entry| entry.inode).collect();
                let missing = wanted.difference(&inodes).count();
                ensure!(missing == 0, "round {round}: {missing} are missing");
                ensure!(diag.packets > 10, "in {} packets", diag.packets);
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        };
        let result = lists();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let rounds = churn
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        ctx.note(format!(
            "{rounds} rounds of opening and closing, {} packets",
            diag.packets
        ));
        result
    })?;
    let said = listed(ns, "-6")?;
    ensure!(said.len() >= STAY, "the command shows {}", said.len());
    Ok(())
}

const MARK: u16 = 15;
const INFO: u16 = 2;

/// Who is nobody sees all sockets but their marks, and ends none, as with TCP.
fn rights(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    let own = socket(ns, "[::]:7001")?;
    let list = |diag: &mut Diag| -> Result<Entry> {
        let found = diag.list(AF_INET6, ALL, 7001, &[])?;
        let mut found = found.map_err(std::io::Error::from_raw_os_error)?;
        ensure!(found.len() == 1, "{found:?}");
        Ok(found.remove(0))
    };
    let seen = list(&mut Diag::open(ns)?)?;
    ensure!(seen.attribute(MARK) == Some(&[0; 4]), "root sees no mark");
    as_user(ns, || {
        let mut diag = Diag::here()?;
        let seen = list(&mut diag)?;
        ensure!(seen.attribute(MARK).is_none(), "a user sees a mark");
        ensure!(seen.inode == inode(&own)? && seen.uid == 0, "{seen:?}");
        ensure!(seen.attribute(INFO).is_some(), "{seen:?}");
        ensure!(diag.get(&seen)?.is_ok(), "a user may look");
        ensure!(diag.destroy(&seen)? == libc::EPERM, "a user ends sockets");
        // Marks cannot be found out by asking for them either: INET_DIAG_BC_MARK_COND.
        let code = [10, 12, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let asked = diag.list(AF_INET6, ALL, 0, &code)?;
        ensure!(asked.err() == Some(libc::EPERM), "by bytecode");
        Ok(())
    })?;
    nothing_more(&own)
}

/// An instruction of inet_diag's bytecode: how far to go if it holds, and if not; its operand is in
/// the next one.
fn instruction(code: u8, yes: u8, no: u16, operand: Option<u16>) -> Vec<u8> {
    let mut bytes = vec![code, yes];
    bytes.extend(no.to_ne_bytes());
    if let Some(operand) = operand {
        bytes.extend([0, 0]);
        bytes.extend(operand.to_ne_bytes());
    }
    bytes
}

/// By family, state, port, and the kernel's own bytecode.
fn filter(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    let to = addresses(&net.hosts[1]);
    let mut sockets = Vec::new();
    for port in 7000..7020_u16 {
        sockets.push(socket(ns, ("0.0.0.0", port))?);
        sockets.push(socket(ns, ("::", port + 100))?);
    }
    let connected = socket(ns, "0.0.0.0:7050")?;
    connected.connect(to[0])?;
    let portless = unbound(ns, Domain::IPV4)?;
    let count = |flags: &str| Ok::<_, anyhow::Error>(listed(ns, flags)?.len());
    for (flags, wanted) in [
        ("", 42),
        ("-4", 22),
        ("-6", 20),
        ("--state bound", 40),
        ("--state connected", 1),
        ("--state unbound", 1),
        ("--state unbound --state connected", 2),
        ("--state closing", 0),
        ("--port 7003", 1),
        ("-6 --port 7003", 0),
        ("--peer-port 5000", 1),
        ("--peer-port 5001", 0),
    ] {
        ensure!(count(flags)? == wanted, "{flags}: {}", count(flags)?);
    }
    // sport >= 7005 and sport <= 7009: INET_DIAG_BC_S_GE is 2, S_LE is 3.
    let code = [
        instruction(2, 8, 20, Some(7005)),
        instruction(3, 8, 12, Some(7009)),
    ]
    .concat();
    let mut diag = Diag::open(ns)?;
    let found = diag.list(AF_INET, ALL, 0, &code)?;
    let found = found.map_err(std::io::Error::from_raw_os_error)?;
    let ports: BTreeSet<u16> = found.iter().map(|entry| entry.port).collect();
    ensure!(ports == (7005..=7009).collect(), "{ports:?}");
    // By state alone: 1 is ESTABLISHED.
    let found = diag.list(AF_INET, 1 << 1, 0, &[])?;
    let found = found.map_err(std::io::Error::from_raw_os_error)?;
    ensure!(found.len() == 1 && found[0].state == 1, "{found:?}");
    drop(portless);
    ensure!(count("--state unbound")? == 0, "closed, and there");
    Ok(())
}

/// One socket is asked for by its addresses and its cookie.
fn exact(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    let to = addresses(&net.hosts[1]);
    let mut diag = Diag::open(ns)?;
    // Of each kind; several with one name, of which the cookie tells which.
    let own = addresses(&net.hosts[0]);
    let mut sockets = Vec::new();
    for local in ["0.0.0.0:7001", "[::]:7002"] {
        sockets.push(socket(ns, local)?);
    }
    for (local, to) in own.into_iter().zip(to) {
        let connected = socket(ns, SocketAddr::new(local.ip(), 7003))?;
        connected.connect(to)?;
        sockets.push(connected);
    }
    let only6 = unbound(ns, Domain::IPV6)?;
    only6.set_only_v6(true)?;
    only6.bind(&"[::]:7004".parse::<SocketAddr>()?.into())?;
    let shared: Vec<socket2::Socket> = (0..20)
        .map(|_| {
            let shared = unbound(ns, Domain::IPV4)?;
            shared.set_reuse_port(true)?;
            shared.bind(&"0.0.0.0:7005".parse::<SocketAddr>()?.into())?;
            Ok(shared)
        })
        .collect::<Result<_>>()?;
    let _portless = unbound(ns, Domain::IPV6)?;
    let mut all = Vec::new();
    for family in [AF_INET, AF_INET6] {
        let found = diag.list(family, ALL, 0, &[])?;
        all.extend(found.map_err(std::io::Error::from_raw_os_error)?);
    }
    ensure!(all.len() == 4 + 1 + shared.len() + 1, "{}", all.len());
    for entry in &all {
        let got = diag.get(entry)?;
        let got = got.map_err(std::io::Error::from_raw_os_error)?;
        ensure!(got.inode == entry.inode, "{got:?} is not {entry:?}");
        let gone = entry.with_cookie(entry.cookie() + 1_000_000);
        ensure!(
            diag.get(&gone)?.err() == Some(libc::ENOENT),
            "a wrong cookie"
        );
        let any = diag.get(&entry.with_cookie(u64::MAX))?;
        ensure!(any.is_ok(), "without a cookie: {entry:?}");
    }
    Ok(())
}

/// Who waits, who polls and who sends is told; peers too; the port is free, others are not touched.
fn destroy(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let (here, there) = (&net.hosts[0].ns, &net.hosts[1].ns);
    let both = addresses(&net.hosts[1]);
    for to in both {
        let victim = socket(there, to)?;
        let other = socket(there, SocketAddr::new(to.ip(), PORT + 1))?;
        let from = sender(here)?;
        // Whole, and half of one.
        from.send_to(b"whole", to, &SendOptions::default())?;
        delivered(&from, 1)?;
        send_once(&from, &content(1, 3000), Some(to), &[], libc::MSG_MORE)?;
        wait_until(|| Ok(from.outgoing_queued()? == 0))?;
        ensure!(
            listed(there, &format!("--port {PORT} -K"))?.len() == 1,
            "none was ended"
        );
        // The first call of any kind is told, then it is shut down.
        refused("reading", read_once(&victim, 100, 0), libc::ECONNABORTED)?;
        let read = read_once(&victim, 100, 0)?;
        ensure!(read.data == b"whole" && read.end, "{read:?}");
        let read = read_once(&victim, 100, 0)?;
        ensure!(read.data.is_empty(), "{read:?}");
        let sent = send_once(&victim, b"x", Some(to), &[], 0);
        refused("sending", sent, libc::EPIPE)?;
        // The peer's half message has failed.
        let end = from.wait_completion(Some(super::support::PATIENCE))?;
        let end = end.context("the sender is told nothing")?;
        ensure!(end.outcome.is_err(), "{end:?}");
        let rest = send_once(&from, b"rest", Some(to), &[], 0);
        refused("the rest of it", rest, libc::ECONNRESET)?;
        // Its port is free while it is open, and others go on.
        let next = socket(there, to)?;
        from.send_to(b"next", to, &SendOptions::default())?;
        ensure!(next.recv_message(100)?.data == b"next", "the next one");
        let beside = SocketAddr::new(to.ip(), PORT + 1);
        from.send_to(b"other", beside, &SendOptions::default())?;
        ensure!(other.recv_message(100)?.data == b"other", "the other one");
    }
    let to = both[0];
    // Who waits to read, and who waits for room.
    for sends in [false, true] {
        let receiver = socket(there, to)?;
        let waiting = socket(here, "[::]:7000")?;
        if sends {
            receiver.set_recv_buffer_size(16 << 10)?;
            waiting.set_send_buffer_size(64 << 10)?;
        }
        let thread = std::thread::spawn(move || -> Result<(Socket, Option<i32>)> {
            let result = if sends {
                send_once(&waiting, &vec![1; 2_000_000], Some(to), &[], 0)
            } else {
                read_once(&waiting, 100, 0).map(|read| read.data.len())
            };
            let errno = result.err().and_then(|error| error.raw_os_error());
            Ok((waiting, errno))
        });
        std::thread::sleep(Duration::from_millis(50));
        only(here, "--port 7000 --kill")?;
        let (waiting, errno) = joined(thread)?;
        // Who has sent a part of a message is told how much.
        let told = errno == Some(libc::ECONNABORTED);
        ensure!(told || sends && errno.is_none(), "sends {sends}: {errno:?}");
        let found = only(here, "")?;
        let wanted = [
            ("state", "unbound".into()),
            ("outgoing", 0.into()),
            ("send-q", 0.into()),
            ("inode", inode(&waiting)?.into()),
        ];
        has("what is ended", &found, &wanted)?;
    }
    Ok(())
}

/// What the command says besides, and how it ends.
fn command(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    let none = ns.try_run("turnstile sockets")?;
    ensure!(
        none.ok && none.stdout.is_empty() && none.stderr.contains("no such sockets"),
        "{none:?}"
    );
    ensure!(
        ns.run("turnstile -j sockets")?.trim() == "[]",
        "an empty array"
    );
    let own = socket(ns, "[::]:7001")?;
    let line = ns.run("turnstile sockets")?;
    let wanted = format!(
        "bound inet6 recv-q 0 send-q 0 local *:7001 whole 0 incoming 0 outgoing 0 uid 0 inode {} ",
        inode(&own)?
    );
    ensure!(line.starts_with(&wanted), "{line}");
    let process = format!(
        " pid {} fd {}\n",
        std::process::id(),
        own.as_fd().as_raw_fd()
    );
    ensure!(line.ends_with(&process), "{line}");
    for (flags, code, why) in [
        ("--kill", 1, "required"),
        ("--port 0", 1, "1..=65535"),
        ("-4 -6", 1, "cannot be used with"),
        ("--state listening", 1, "unbound, bound, connected, closing"),
    ] {
        let said = ns.try_run(&format!("turnstile sockets {flags}"))?;
        ensure!(said.code == Some(code), "{flags}: {said:?}");
        ensure!(said.failure()?.contains(why), "{flags}");
    }
    // Stock ss knows protocols by name, and has none for numbers.
    let stock = ns.try_run("ss -A turnstile")?;
    ensure!(!stock.ok, "ss knows turnstile");
    for flags in ["-a", "-ua", "-wa"] {
        let said = ns.run(&format!("ss -n {flags}"))?;
        ensure!(!said.contains(":7001"), "ss shows it: {said}");
    }
    nothing_more(&own)
}
