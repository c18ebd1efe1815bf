// SPDX-License-Identifier: GPL-2.0
//! MSG_ZEROCOPY.

use std::net::SocketAddr;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use rustix::event::PollFlags;
use turnstile_socket::Socket;

use super::super::content::{check, content};
use super::super::sealed::psk;
use super::super::support::{
    addresses, configure, configure_all, hosts, nothing_more, pair, receiver, refused, same,
    send_once, socket, wait_for, POLICIES, PORT,
};
use super::calls::{all_returned, file, is_set, lend, lender, returned, sendfile, set, Returned};
use crate::harness::Ctx;
use crate::netns::Netns;
use crate::topology::Builder;

/// From so many bytes on pages are lent.
const LEAST: usize = 64 << 10;

/// SO_ZEROCOPY is 0 or 1, and without it the flag says nothing.
pub(super) fn option(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let there = addresses(&net.hosts[1]);
    let to = receiver(&net.hosts[1].ns)?;
    for local in ["0.0.0.0:0", "[::]:0"] {
        let from = socket(&net.hosts[0].ns, local)?;
        from.connect(there[usize::from(local != "0.0.0.0:0")])?;
        ensure!(is_set(&from)? == 0, "set at first");
        for value in [-1, 2] {
            refused("SO_ZEROCOPY", set(&from, value), libc::EINVAL)?;
        }
        let data = content(1, 2 * LEAST);
        lend(&from, &data, 0)?;
        same("not lent", &to.recv_message(data.len())?.data, &data)?;
        set(&from, 1)?;
        ensure!(is_set(&from)? == 1, "not set");
        lend(&from, &data, 0)?;
        same("lent", &to.recv_message(data.len())?.data, &data)?;
        // The first one has no number.
        all_returned(&from, 0, 1)?;
        set(&from, 0)?;
        lend(&from, &data, 0)?;
        same("not lent", &to.recv_message(data.len())?.data, &data)?;
        ensure!(returned(&from)?.is_none(), "a report of no call");
    }
    Ok(())
}

/// Each call that has sent something is told once when its pages are free, by its number; calls
/// that failed have none. Of short ones the data was copied, and one report tells of several.
pub(super) fn reports(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    for there in addresses(&net.hosts[1]) {
        let from = lender(&net.hosts[0].ns, there)?;
        let short = content(1, LEAST - 1);
        for len in [1, 100, 2049, LEAST - 1, 1] {
            lend(&from, &short[..len], 0)?;
            ensure!(to.recv_message(len)?.data == short[..len], "{len} bytes");
        }
        refused("nothing", lend(&from, &[], 0), libc::EINVAL)?;
        let report = returned(&from)?.context("no report")?;
        let want = Returned {
            first: 0,
            last: 4,
            copied: true,
        };
        ensure!(report == want, "{report:?}");
        ensure!(returned(&from)?.is_none(), "another report");
        let long = content(2, 5 << 20);
        let mut number = 5;
        for len in [LEAST, LEAST + 1, 1 << 20, 5 << 20] {
            // Not from the beginning of a page.
            for data in [&long[..len], &long[len % 4096 / 2..len]] {
                lend(&from, data, 0)?;
                let came = to.recv_message(data.len())?;
                same("lent", &came.data, data)?;
                number += 1;
            }
        }
        let reports = all_returned(&from, 5, number)?;
        ctx.note(format!("{reports:?}"));
    }
    nothing_more(&to)
}

/// Where nobody on the machine gets the packets, nothing is copied. The pages are lent until the
/// message has failed.
pub(super) fn not_copied(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let ns = &net.hosts[0].ns;
    ns.ip("link add dum0 type dummy")?;
    ns.ip("link set dum0 up")?;
    ns.ip("addr add 192.0.2.1/24 dev dum0")?;
    ns.ip("neigh add 192.0.2.2 lladdr 02:00:00:00:00:99 dev dum0")?;
    configure(ns, "timeout 2s")?;
    let from = lender(ns, ([192, 0, 2, 2], PORT).into())?;
    let data = content(1, 1 << 20);
    lend(&from, &data, 0)?;
    ensure!(returned(&from)?.is_none(), "reported at once");
    // Why the message failed is told as well.
    let mut report = None;
    for _ in 0..400 {
        std::thread::sleep(Duration::from_millis(50));
        report = returned(&from).unwrap_or(None).or(report);
        if report.is_some() {
            break;
        }
    }
    let report = report.context("no report")?;
    ctx.note(format!("{report:?}"));
    ensure!(
        report.first == 0 && report.last == 0 && !report.copied,
        "{report:?}"
    );
    Ok(())
}

/// As long as the receiver has not taken all of it, a message keeps its pages.
pub(super) fn when_delivered(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(128 << 10)?;
    let from = lender(&net.hosts[0].ns, addresses(&net.hosts[1])[0])?;
    let data = content(1, 1 << 20);
    lend(&from, &data, 0)?;
    std::thread::sleep(Duration::from_millis(300));
    ensure!(returned(&from)?.is_none(), "reported, and not delivered");
    let came = to.recv_message(data.len())?;
    same("lent", &came.data, &data)?;
    all_returned(&from, 0, 1)?;
    Ok(())
}

/// Of a message of several calls each has its pages back when these bytes were taken, before the
/// message ends.
pub(super) fn in_calls(ctx: &mut Ctx) -> Result<()> {
    const CALL: usize = 200_000;
    const CALLS: u32 = 12;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(128 << 10)?;
    let from = lender(&net.hosts[0].ns, addresses(&net.hosts[1])[1])?;
    let all = content(1, CALL * CALLS as usize + 8);
    let (mut next, mut read) = (0, 0);
    let mut piece = vec![0; 1 << 20];
    for call in 0..CALLS {
        let at = CALL * call as usize;
        lend(&from, &all[at..at + CALL], libc::MSG_MORE)?;
        // The last bytes are not handed out before it is known that they are not the end.
        while read < at + CALL - 1 {
            let came = to.recv(&mut piece)?;
            check(1, read as u64, &piece[..came.len])?;
            ensure!(!came.end_of_message, "ended after {read}");
            read += came.len;
        }
        while next < call {
            wait_for(&from, PollFlags::ERR)?;
            while let Some(report) = returned(&from)? {
                ctx.note(format!("after call {call}: {report:?}"));
                ensure!(report.first == next, "{report:?}, not {next}");
                next = report.last + 1;
            }
        }
    }
    send_once(&from, &all[CALL * CALLS as usize..], None, &[], 0)?;
    while read < all.len() {
        let came = to.recv(&mut piece)?;
        check(1, read as u64, &piece[..came.len])?;
        read += came.len;
    }
    if next < CALLS {
        all_returned(&from, next, CALLS)?;
    }
    nothing_more(&to)
}

/// Who writes to pages that are lent sends what he writes, or what was there, and no other harm is
/// done: also where checksums are made of it, and packets copied.
pub(super) fn changed(_: &mut Ctx) -> Result<()> {
    const WORDS: usize = (1 << 20) / 8;
    for builder in [Builder::pair(), Builder::pair().without_offloads()] {
        let net = hosts(&builder)?;
        let to = receiver(&net.hosts[1].ns)?;
        let from = lender(&net.hosts[0].ns, addresses(&net.hosts[1])[0])?;
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: these are the words' bytes, which only the kernel reads.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), WORDS * 8) };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| -> Result<()> {
            scope.spawn(|| {
                let mut value = 0_u64;
                while !done.load(Ordering::Relaxed) {
                    value = !value;
                    for word in &words {
                        word.store(value, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
            let result = (0..10).try_for_each(|number| {
                lend(&from, bytes, 0)?;
                let came = to.recv_message(WORDS * 8)?.data;
                ensure!(came.len() == WORDS * 8, "{} bytes", came.len());
                let other = came.iter().find(|byte| !matches!(**byte, 0 | 0xff));
                ensure!(other.is_none(), "message {number}: {other:?}");
                all_returned(&from, number, number + 1).map(drop)
            });
            done.store(true, Ordering::Relaxed);
            result
        })?;
    }
    Ok(())
}

/// With every policy, sealed, and on the same host; each once lent and once from a file.
pub(super) fn ways(ctx: &mut Ctx) -> Result<()> {
    const LEN: usize = 700_001;
    let net = pair()?;
    let data = content(1, LEN);
    let file = file(&data)?;
    let key = psk("zerocopy", 1)?;
    let sealed = format!("policy top security psk key {key}");
    let mut ways: Vec<String> = POLICIES.map(|policy| format!("policy {policy}")).into();
    ways.extend([sealed, "policy top security off".to_owned()]);
    for way in ways {
        configure_all(&net, &way)?;
        for host in [1, 0] {
            let to = receiver(&net.hosts[host].ns)?;
            for there in addresses(&net.hosts[host]) {
                let from = lender(&net.hosts[0].ns, there)?;
                lend(&from, &data, 0)?;
                let came = to.recv_message(LEN).context(way.clone())?;
                same(&way, &came.data, &data)?;
                sendfile(&from, &file, 0, LEN)?;
                let came = to.recv_message(LEN).context(way.clone())?;
                same(&way, &came.data, &data)?;
                let reports = all_returned(&from, 0, 1)?;
                ctx.note(format!("{way}, host {host}, {there}: {reports:?}"));
            }
            nothing_more(&to)?;
        }
    }
    Ok(())
}

/// What is lent comes to a host, and whatever is done to the packets on the way, nobody writes to
/// these pages.
pub(in crate::cases::transport) fn unharmed(
    ns: &Netns,
    to: &Socket,
    there: SocketAddr,
) -> Result<()> {
    const LEN: usize = 300_001;
    let data = content(1, LEN);
    let before = data.clone();
    let file = file(&data)?;
    let from = lender(ns, there)?;
    lend(&from, &data, 0)?;
    same("lent", &to.recv_message(LEN)?.data, &before)?;
    sendfile(&from, &file, 0, LEN)?;
    same("a file", &to.recv_message(LEN)?.data, &before)?;
    all_returned(&from, 0, 1)?;
    same("what was lent", &data, &before)?;
    let mut after = vec![0; LEN];
    file.read_exact_at(&mut after, 0)?;
    same("the file", &after, &before)
}
