// SPDX-License-Identifier: GPL-2.0
//! How messages are read: in pieces, without taking them, or not at all.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use rustix::event::PollFlags;
use turnstile_socket::SendOptions;

use super::content;
use super::support::{
    addresses, as_v6, delivered, item, nothing_more, pair, read_once, ready, receiver, refused,
    send_once, sender, wait_for, PORT,
};
use crate::harness::{Case, Ctx};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/reading/pieces", pieces),
    Case::new("transport/reading/peek", peek),
    Case::new("transport/reading/peek-all", peek_all),
    Case::new("transport/reading/facts", facts),
    Case::new("transport/reading/no-data", no_data),
    Case::new("transport/reading/one-to-its-end", one_to_its_end),
    Case::new("transport/reading/time-limits", time_limits),
    Case::new("transport/reading/poll", poll_tells),
];

/// Short reads cut nothing off, long ones do not reach into the next message, and MSG_EOR stands at
/// the end only.
fn pieces(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let source = SocketSource::of(&net, &from)?;
    const LEN: usize = 5000;
    let pieces = [1, 3, 1449, 1450, 1451, LEN - 1, LEN, LEN + 1, 100_000];
    for piece in pieces {
        for _ in 0..2 {
            from.send_to(
                &content::content(4, LEN),
                source.there,
                &SendOptions::default(),
            )?;
        }
        for _ in 0..2 {
            let mut at = 0;
            while at < LEN {
                // The first bytes one by one would take thousands of calls.
                let ask = if at > 100 { piece.max(997) } else { piece };
                let read = read_once(&to, ask, 0)?;
                let want = ask.min(LEN - at);
                ensure!(
                    read.data.len() == want,
                    "{} of {want} bytes in reads of {ask} at {at}",
                    read.data.len()
                );
                content::check(4, at as u64, &read.data)?;
                at += want;
                ensure!(
                    read.end == (at == LEN),
                    "MSG_EOR is {} at {at} of {LEN}",
                    read.end
                );
                ensure!(
                    read.from == Some(source.here),
                    "from {:?}, not {}",
                    read.from,
                    source.here
                );
            }
        }
    }
    nothing_more(&to)?;
    delivered(&from, 2 * pieces.len() as u32)
}

/// All of a message of a thousand packets is looked at in one call, and then read in one. The
/// module complains, on kernels that look for such things, if it walks past many of them with the
/// namespace's lock.
fn peek_all(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 1_500_000;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    for there in addresses(&net.hosts[1]) {
        from.send_to(&content::content(6, LEN), there, &SendOptions::default())?;
        for flags in [
            libc::MSG_PEEK,
            libc::MSG_PEEK | libc::MSG_WAITALL,
            libc::MSG_WAITALL,
        ] {
            let seen = read_once(&to, LEN + 1, flags)?;
            ensure!(
                seen.data.len() == LEN && seen.end,
                "{} bytes, MSG_EOR {}, with {flags:#x}",
                seen.data.len(),
                seen.end
            );
            content::check(6, 0, &seen.data)?;
        }
    }
    delivered(&from, 2)
}

/// Where a message goes to, and where its receiver sees it come from.
struct SocketSource {
    there: std::net::SocketAddr,
    here: std::net::SocketAddr,
}

impl SocketSource {
    fn of(net: &crate::topology::Net, from: &turnstile_socket::Socket) -> Result<Self> {
        let mut here = as_v6(addresses(&net.hosts[0])[0]);
        here.set_port(from.local_addr()?.port());
        Ok(Self {
            there: addresses(&net.hosts[1])[0],
            here,
        })
    }
}

/// MSG_PEEK shows and takes nothing.
fn peek(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[1];
    from.send_to(&content::content(5, 4000), there, &SendOptions::default())?;
    for (len, want) in [(10, 10), (4000, 4000), (9000, 4000), (10, 10)] {
        let seen = read_once(&to, len, libc::MSG_PEEK)?;
        content::check(5, 0, &seen.data)?;
        ensure!(
            seen.data.len() == want && seen.end == (want == 4000),
            "{} of {want} bytes, MSG_EOR {}",
            seen.data.len(),
            seen.end
        );
    }
    ensure!(
        to.incoming_queued()? == 4000,
        "{} bytes are to be read",
        to.incoming_queued()?
    );
    let read = read_once(&to, 1000, 0)?;
    content::check(5, 0, &read.data)?;
    // From where the last read ended.
    let seen = read_once(&to, 9000, libc::MSG_PEEK)?;
    content::check(5, 1000, &seen.data)?;
    ensure!(
        seen.data.len() == 3000 && seen.end,
        "{} bytes",
        seen.data.len()
    );
    ensure!(
        to.incoming_queued()? == 3000,
        "{} bytes are to be read",
        to.incoming_queued()?
    );
    let read = read_once(&to, 9000, 0)?;
    content::check(5, 1000, &read.data)?;
    let nothing = read_once(&to, 10, libc::MSG_PEEK | libc::MSG_DONTWAIT);
    refused("a look at nothing", nothing, libc::EAGAIN)
}

/// TURNSTILE_INFO: numbers count up, lengths, offsets and times are right.
fn facts(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[0];
    let mut buffer = vec![0; 3000];
    for number in 0..5 {
        let before = Instant::now();
        let len = 100 + 2000 * number as usize;
        from.send_to(
            &content::content(number, len),
            there,
            &SendOptions::default(),
        )?;
        delivered_one(&from, number)?;
        std::thread::sleep(Duration::from_millis(3));
        let mut at = 0;
        loop {
            let read = to.recv(&mut buffer)?;
            let info = read.info.context("no TURNSTILE_INFO")?;
            let age = before.elapsed();
            ensure!(
                (info.number, info.length, info.offset) == (number, Some(len as u64), at),
                "{info:?} of message {number}, {len} bytes, at {at}"
            );
            ensure!(
                (Duration::from_millis(3)..=age).contains(&info.elapsed),
                "{info:?}, {age:?} after it was sent"
            );
            at += read.len as u64;
            if read.end_of_message {
                break;
            }
        }
        ensure!(at == len as u64, "{at} of {len} bytes");
    }
    to.set_receive_info(false)?;
    from.send_to(b"x", there, &SendOptions::default())?;
    let info = to.recv(&mut buffer)?.info;
    ensure!(info.is_none(), "{info:?}, which was switched off");
    Ok(())
}

/// Waits for the report of one message.
fn delivered_one(from: &turnstile_socket::Socket, number: u64) -> Result<()> {
    let done = from
        .wait_completion(Some(super::support::PATIENCE))?
        .context("nothing was reported")?;
    ensure!(u64::from(done.number) == number, "{done:?}");
    done.outcome.context("a message failed")
}

/// Calls that may not wait, by flag and by file status, and calls that have nothing to fill.
fn no_data(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    refused(
        "MSG_DONTWAIT",
        read_once(&to, 10, libc::MSG_DONTWAIT),
        libc::EAGAIN,
    )?;
    to.set_nonblocking(true)?;
    refused("O_NONBLOCK", read_once(&to, 10, 0), libc::EAGAIN)?;
    ensure!(
        to.incoming_queued()? == 0 && to.outgoing_queued()? == 0,
        "an idle socket holds something"
    );
    let nothing = read_once(&to, 10, libc::MSG_ERRQUEUE);
    refused("an empty error queue", nothing, libc::EAGAIN)?;
    let from = sender(&net.hosts[0].ns)?;
    from.send_to(
        b"12345",
        addresses(&net.hosts[1])[0],
        &SendOptions::default(),
    )?;
    wait_for(&to, PollFlags::IN)?;
    let read = read_once(&to, 10, 0)?;
    ensure!(read.data == b"12345" && read.end, "{read:?}");
    Ok(())
}

/// A message that is handed out while it arrives is read to its end before others, though they are
/// complete.
fn one_to_its_end(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 1 << 20;
    const OTHERS: u64 = 10;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[0];
    std::thread::scope(|scope| -> Result<()> {
        let long = sender(&net.hosts[0].ns)?;
        let sending = scope.spawn(move || -> Result<()> {
            long.send_to(&content::content(1, LEN), there, &SendOptions::default())?;
            delivered(&long, 1)
        });
        let mut buffer = vec![0; 10_000];
        let first = to.recv(&mut buffer)?;
        content::check(1, 0, &buffer[..first.len])?;
        let mut at = first.len;
        for number in 2..2 + OTHERS {
            from.send_to(
                &content::content(number, 500),
                there,
                &SendOptions::default(),
            )?;
        }
        while at < LEN {
            let read = to.recv(&mut buffer)?;
            content::check(1, at as u64, &buffer[..read.len]).context("the long one")?;
            at += read.len;
            ensure!(
                read.end_of_message == (at == LEN),
                "the end is told at {at}"
            );
        }
        let others = (2..2 + OTHERS).map(|number| (number, 500));
        super::support::receive_all(&to, &mut content::Ledger::of(others))?;
        sending
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    delivered(&from, OTHERS as u32)?;
    nothing_more(&to)
}

/// SO_RCVTIMEO and SO_SNDTIMEO end the wait, not before their time.
fn time_limits(_: &mut Ctx) -> Result<()> {
    const LIMIT: Duration = Duration::from_millis(40);
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    to.set_read_timeout(Some(LIMIT))?;
    let began = Instant::now();
    refused("a read of nothing", read_once(&to, 10, 0), libc::EAGAIN)?;
    ensure!(began.elapsed() >= LIMIT, "it waited {:?}", began.elapsed());

    let from = sender(&net.hosts[0].ns)?;
    from.set_send_buffer_size(64 << 10)?;
    from.set_write_timeout(Some(LIMIT))?;
    const LEN: usize = 1_000_000;
    let bytes = content::content(6, LEN);
    let there = Some(as_v6(addresses(&net.hosts[1])[0]));
    let length = item(1, &(LEN as u64).to_ne_bytes());
    let began = Instant::now();
    // What fits is taken, as with any socket; then there is no room at all.
    let mut sent = 0;
    let error = loop {
        let control = if sent == 0 { &length[..] } else { &[] };
        match send_once(&from, &bytes[sent..], there, control, 0) {
            Ok(len) => sent += len,
            Err(error) => break error,
        }
        ensure!(sent < LEN, "nobody reads, and all was taken");
    };
    refused("a full buffer", Err::<(), _>(error), libc::EAGAIN)?;
    ensure!(began.elapsed() >= LIMIT, "it waited {:?}", began.elapsed());
    // The message is still open, and goes on.
    from.set_write_timeout(Some(super::support::PATIENCE))?;
    to.set_read_timeout(Some(super::support::PATIENCE))?;
    std::thread::scope(|scope| -> Result<()> {
        let rest = scope.spawn(|| send_once(&from, &bytes[sent..], there, &[], 0));
        let came = to.recv_message(LEN)?;
        content::check(6, 0, &came.data)?;
        ensure!(came.data.len() == LEN, "{} of {LEN} bytes", came.data.len());
        let len = rest
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        ensure!(sent + len == LEN, "{sent} + {len} bytes of {LEN}");
        Ok(())
    })
}

/// What `poll` says before, while and after there is something.
fn poll_tells(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let there = addresses(&net.hosts[1])[0];
    for socket in [&to, &from] {
        ensure!(
            ready(socket)? == PollFlags::OUT,
            "idle: {:?}",
            ready(socket)?
        );
    }
    from.send_to(&content::content(8, 3000), there, &SendOptions::default())?;
    wait_for(&to, PollFlags::IN)?;
    read_once(&to, 1000, 0)?;
    ensure!(ready(&to)?.contains(PollFlags::IN), "2000 bytes are left");
    read_once(&to, 2000, 0)?;
    ensure!(
        !ready(&to)?.contains(PollFlags::IN),
        "nothing is left, and poll says {:?}",
        ready(&to)?
    );
    // The report of the delivery.
    wait_for(&from, PollFlags::ERR)?;
    delivered(&from, 1)?;
    ensure!(
        ready(&from)? == PollFlags::OUT,
        "the report was taken: {:?}",
        ready(&from)?
    );
    let local = to.local_addr()?;
    ensure!(local.port() == PORT, "{local}");
    Ok(())
}
