// SPDX-License-Identifier: GPL-2.0
//! Messages that are written and read piece by piece, of known and unknown length, and who waits
//! for whom.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};
use rustix::event::PollFlags;
use socket2::Domain;
use turnstile_socket::{SendOptions, Socket};

use super::content::{self, Ledger};
use super::support::{
    addresses, configure_all, delivered, item, joined, nothing_more, pair, read_once, ready,
    receive_all, receiver, refused, send_once, sender, unbound, wait_for, PORT,
};
use crate::harness::{Case, Ctx, MUCH_WORK};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/streaming/unknown-length", unknown_length),
    Case::new("transport/streaming/hidden-length", hidden_length),
    Case::new("transport/streaming/byte-by-byte", byte_by_byte),
    Case::new("transport/streaming/before-the-end", before_the_end),
    Case::new("transport/streaming/slow-reader", slow_reader),
    Case::new("transport/streaming/blocked-sender", blocked_sender),
    Case::new("transport/streaming/signal-of-room", signal_of_room),
    Case::new("transport/streaming/passed-by-short-ones", passed_by),
    Case::new(
        "transport/streaming/passed-in-the-send-buffer",
        passed_at_the_sender,
    )
    .needs(MUCH_WORK),
    Case::new("transport/streaming/beside-each-other", beside_each_other),
];

/// What is asked for; the kernel doubles it.
const BUFFER: usize = 64 << 10;

/// Nobody knows how long it will be; it has many times the length of the buffers.
fn unknown_length(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(BUFFER)?;
    for (number, address) in (1..).zip(addresses(&net.hosts[1])) {
        let from = sender(&net.hosts[0].ns)?;
        from.set_send_buffer_size(BUFFER)?;
        let len = ctx.rng.range(1_500_000..=2_500_000);
        std::thread::scope(|scope| -> Result<()> {
            let writer = scope.spawn(|| -> Result<()> {
                let mut writer = from.begin(address, &SendOptions::default())?;
                let mut piece = vec![0; 77_777];
                while writer.written() < len {
                    let left = piece.len().min((len - writer.written()) as usize);
                    content::fill(number, writer.written(), &mut piece[..left]);
                    writer.write_all(&piece[..left])?;
                }
                writer.finish()?;
                delivered(&from, 1)
            });
            let mut buffer = vec![0; 50_000];
            let mut at = 0;
            loop {
                let read = to.recv(&mut buffer).with_context(|| format!("at {at}"))?;
                content::check(number, at, &buffer[..read.len])?;
                let info = read.info.context("no TURNSTILE_INFO")?;
                ensure!(info.offset == at, "{info:?} at {at}");
                // As soon as the end is known, it is told; here the buffers do not reach that far
                // at first.
                ensure!(
                    at > 0 || info.length.is_none(),
                    "the length is known to the first read: {info:?}"
                );
                at += read.len as u64;
                if read.end_of_message {
                    ensure!(info.length == Some(len), "{info:?} at the end");
                    break;
                }
            }
            ensure!(at == len, "{at} of {len} bytes");
            writer
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
        .with_context(|| address.to_string())?;
    }
    nothing_more(&to)
}

/// The sender knows the length and does not tell; whole messages, long and short.
fn hidden_length(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let options = SendOptions {
        unknown_size: true,
        ..SendOptions::default()
    };
    let lengths = [8, 1450, 1451, 100_000];
    for (number, len) in (1..).zip(lengths) {
        from.send_to(
            &content::content(number, len),
            addresses(&net.hosts[1])[0],
            &options,
        )?;
        let came = to.recv_message(len)?;
        content::check(number, 0, &came.data)?;
        ensure!(came.data.len() == len, "{} of {len} bytes", came.data.len());
    }
    delivered(&from, lengths.len() as u32)?;
    nothing_more(&to)
}

/// Written one byte at a time, with MSG_MORE. And with a length that is told first.
fn byte_by_byte(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let address = super::support::as_v6(addresses(&net.hosts[1])[0]);
    let bytes = content::content(9, 300);
    let (last, first) = bytes.split_last().context("no bytes")?;
    for byte in first {
        let sent = send_once(&from, &[*byte], Some(address), &[], libc::MSG_MORE)?;
        ensure!(sent == 1, "{sent} bytes of one were sent");
    }
    // A call without bytes does nothing, not even end it.
    let empty = send_once(&from, &[], Some(address), &[], 0);
    refused("a call without bytes", empty, libc::EINVAL)?;
    send_once(&from, &[*last], Some(address), &[], 0)?;
    let came = to.recv_message(300)?;
    content::check(9, 0, &came.data)?;
    ensure!(came.data.len() == 300, "{} bytes", came.data.len());

    let length = item(1, &300u64.to_ne_bytes());
    let mut control = &length[..];
    for byte in &bytes {
        send_once(&from, &[*byte], Some(address), control, libc::MSG_MORE)?;
        control = &[];
    }
    // It has ended by itself: what comes now is another one.
    send_once(&from, &bytes[..20], Some(address), &[], 0)?;
    let mut lengths = [to.recv_message(300)?, to.recv_message(300)?].map(|m| m.data.len());
    lengths.sort_unstable();
    ensure!(lengths == [20, 300], "{lengths:?}");
    delivered(&from, 3)?;
    nothing_more(&to)
}

/// What is longer than half of the receive buffer is handed out while it arrives.
fn before_the_end(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(BUFFER)?;
    let from = sender(&net.hosts[0].ns)?;
    const LEN: usize = 1 << 20;
    let bytes = content::content(3, LEN);
    let options = SendOptions {
        length: Some(LEN as u64),
        ..SendOptions::default()
    };
    let mut writer = from.begin(addresses(&net.hosts[1])[1], &options)?;
    writer.write_all(&bytes[..LEN / 2])?;
    let mut got = Vec::new();
    let mut piece = vec![0; 10_000];
    // The other half is not even written.
    while got.len() < LEN / 2 {
        let read = to.recv(&mut piece)?;
        ensure!(
            !read.end_of_message,
            "the end was told after {} bytes",
            got.len()
        );
        got.extend_from_slice(&piece[..read.len]);
    }
    writer.write_all(&bytes[LEN / 2..])?;
    writer.finish()?;
    loop {
        let read = to.recv(&mut piece)?;
        got.extend_from_slice(&piece[..read.len]);
        if read.end_of_message {
            break;
        }
    }
    ensure!(got.len() == LEN, "{} of {LEN} bytes", got.len());
    content::check(3, 0, &got)?;
    delivered(&from, 1)
}

/// Waits until a socket's number has not changed for a while. `(number, whether it settled)`.
fn settled(socket: &Socket, read: impl Fn(&Socket) -> io::Result<usize>) -> Result<usize> {
    let mut before = read(socket)?;
    let mut same = 0;
    for _ in 0..400 {
        std::thread::sleep(Duration::from_millis(10));
        let now = read(socket)?;
        same = if now == before { same + 1 } else { 0 };
        if same == 12 {
            return Ok(now);
        }
        before = now;
    }
    anyhow::bail!("it keeps changing: {before}")
}

/// [`settled`], once there is something: a sender may need its time to begin.
fn filled(socket: &Socket) -> Result<usize> {
    for _ in 0..1000 {
        if socket.incoming_queued()? != 0 {
            return settled(socket, Socket::incoming_queued);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    anyhow::bail!("nothing comes")
}

/// A reader that does not read stops the sender, and neither side holds more than its buffer. Then
/// it reads, and all comes.
fn slow_reader(ctx: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(BUFFER)?;
    let from = sender(&net.hosts[0].ns)?;
    from.set_send_buffer_size(BUFFER)?;
    from.set_nonblocking(true)?;
    let (send_buffer, receive_buffer) = (from.send_buffer_size()?, to.recv_buffer_size()?);
    const LEN: usize = 3_000_000;
    let bytes = content::content(11, LEN);
    let length = item(1, &(LEN as u64).to_ne_bytes());
    let address = Some(super::support::as_v6(addresses(&net.hosts[1])[0]));
    let mut sent = 0;
    ensure!(
        ready(&from)?.contains(PollFlags::OUT),
        "an empty buffer has no room"
    );
    let push = |sent: &mut usize| -> Result<()> {
        loop {
            let control = if *sent == 0 { &length[..] } else { &[] };
            match send_once(&from, &bytes[*sent..], address, control, 0) {
                Ok(len) => *sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if *sent == LEN {
                return Ok(());
            }
        }
    };
    // The sender goes on whenever it may, until nothing moves any more.
    for _ in 0..4 {
        push(&mut sent)?;
        settled(&from, Socket::outgoing_queued)?;
    }
    let (waiting, there) = (from.outgoing_queued()?, to.incoming_queued()?);
    ctx.note(format!(
        "{sent} bytes were taken: {waiting} of {send_buffer} wait here, {there} of \
         {receive_buffer} there"
    ));
    ensure!(
        sent < LEN && sent <= send_buffer + receive_buffer,
        "{sent} bytes were taken by buffers of {send_buffer} and {receive_buffer}"
    );
    ensure!(
        waiting <= send_buffer,
        "{waiting} bytes wait in a buffer of {send_buffer}"
    );
    ensure!(
        there <= receive_buffer && there > 0,
        "{there} bytes are in a buffer of {receive_buffer}"
    );
    refused(
        "a call that may not wait",
        send_once(&from, &bytes[sent..], address, &[], 0),
        libc::EAGAIN,
    )?;
    ensure!(
        !ready(&from)?.contains(PollFlags::OUT),
        "POLLOUT without room"
    );

    let mut at = 0;
    let mut piece = vec![0; 100_000];
    while at < LEN as u64 {
        let read = to.recv(&mut piece).with_context(|| format!("at {at}"))?;
        content::check(11, at, &piece[..read.len])?;
        at += read.len as u64;
        ensure!(
            read.end_of_message == (at == LEN as u64),
            "the end is told at {at}"
        );
        if sent < LEN && to.incoming_queued()? == 0 {
            // What was read lets more come, and more be written.
            wait_for(&from, PollFlags::OUT)?;
            push(&mut sent)?;
        }
    }
    ensure!(sent == LEN, "{sent} of {LEN} bytes were sent");
    delivered(&from, 1)?;
    ensure!(
        from.outgoing_queued()? == 0,
        "{} bytes wait after the end",
        from.outgoing_queued()?
    );
    nothing_more(&to)
}

/// A call that may wait does so until there is room for all of its bytes.
fn blocked_sender(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(BUFFER)?;
    let from = sender(&net.hosts[0].ns)?;
    from.set_send_buffer_size(BUFFER)?;
    const LEN: usize = 2_000_000;
    let address = addresses(&net.hosts[1])[1];
    std::thread::scope(|scope| -> Result<()> {
        let writer = scope.spawn(|| -> Result<()> {
            let bytes = content::content(12, LEN);
            let sent = send_once(&from, &bytes, Some(address), &[], 0)?;
            ensure!(
                sent == LEN,
                "a call that may wait took {sent} of {LEN} bytes"
            );
            Ok(())
        });
        settled(&to, Socket::incoming_queued)?;
        ensure!(!writer.is_finished(), "it did not wait for the reader");
        let mut at = 0;
        while at < LEN as u64 {
            let read = read_once(&to, 30_000, 0)?;
            content::check(12, at, &read.data)?;
            at += read.data.len() as u64;
            ensure!(
                read.end == (at == LEN as u64),
                "the end is told at {at} of {LEN}"
            );
        }
        writer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    delivered(&from, 1)
}

/// A signal that this thread may get; `None`: none in time.
fn signal(within_ms: i64) -> Option<i32> {
    // SAFETY: the set is filled in by `sigemptyset`, and all live until the calls return.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGIO);
        let time = libc::timespec {
            tv_sec: within_ms / 1000,
            tv_nsec: within_ms % 1000 * 1_000_000,
        };
        let got = libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const time);
        (got > 0).then_some(got)
    }
}

/// Who was refused for want of room, and asked for signals, gets one when there is some; without
/// having called `poll`.
fn signal_of_room(_: &mut Ctx) -> Result<()> {
    const F_SETOWN_EX: i32 = 15;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(BUFFER)?;
    let from = sender(&net.hosts[0].ns)?;
    from.set_send_buffer_size(BUFFER)?;
    from.set_nonblocking(true)?;
    // SAFETY: the set and the owner (`struct f_owner_ex`: F_OWNER_TID, thread) live until the calls
    // return.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGIO);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let owner = [0, libc::gettid()];
        let fd = from.as_raw_fd();
        ensure!(
            libc::fcntl(fd, F_SETOWN_EX, owner.as_ptr()) == 0,
            "F_SETOWN_EX"
        );
        let flags = libc::O_ASYNC | libc::O_NONBLOCK;
        ensure!(libc::fcntl(fd, libc::F_SETFL, flags) == 0, "O_ASYNC");
    }
    let address = addresses(&net.hosts[1])[0];
    let mut writer = from.begin(address, &SendOptions::default())?;
    let piece = content::content(3, 4096);
    let mut fill = || -> Result<u64> {
        loop {
            match writer.write(&piece) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(writer.written());
                }
                Err(error) => return Err(error.into()),
            }
        }
    };
    fill()?;
    settled(&to, Socket::incoming_queued)?;
    // What was acknowledged meanwhile made room; the receiver's buffer is full now.
    while signal(100).is_some() {
        fill()?;
    }
    let full = fill()?;
    ensure!(signal(100).is_none(), "a signal, and no room");
    let mut got = None;
    while got.is_none() && to.incoming_queued()? != 0 {
        read_once(&to, 10_000, 0)?;
        got = signal(100);
    }
    let got = got.or_else(|| signal(5000));
    ensure!(got == Some(libc::SIGIO), "no signal");
    ensure!(fill()? > full, "no room after the signal");
    Ok(())
}

/// A long message that nobody reads holds up no short one on another socket, and one to another
/// port neither.
fn passed_by(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let address = addresses(&net.hosts[1]);
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(BUFFER)?;
    let other = super::support::socket(&net.hosts[1].ns, &format!("[::]:{}", PORT + 1))?;
    let from = sender(&net.hosts[0].ns)?;
    from.send_to(
        &content::content(1, 1 << 20),
        address[0],
        &SendOptions::default(),
    )?;
    filled(&to)?;
    for number in 2..20 {
        let mut address = address[(number % 2) as usize];
        address.set_port(PORT + 1);
        from.send_to(
            &content::content(number, 5000),
            address,
            &SendOptions::default(),
        )?;
        let came = other.recv_message(5000)?;
        content::check(number, 0, &came.data)?;
    }
    let came = to.recv_message(1 << 20)?;
    content::check(1, 0, &came.data)?;
    delivered(&from, 19)
}

/// Long messages to two receivers that do not read fill the send buffer, so that the first has more
/// than its part: short ones to it by the same socket are taken all the same, and come before it.
fn passed_at_the_sender(_: &mut Ctx) -> Result<()> {
    const LONG: usize = 16 << 20;
    let net = pair()?;
    for (family, domain) in [(0, Domain::IPV4), (1, Domain::IPV6)] {
        let there = addresses(&net.hosts[1])[family];
        let to = receiver(&net.hosts[1].ns)?;
        to.set_recv_buffer_size(256 << 10)?;
        let from = unbound(&net.hosts[0].ns, domain)?;
        let mut elsewhere = there;
        elsewhere.set_port(PORT + 1);
        let other = super::support::socket(&net.hosts[1].ns, &format!("[::]:{}", PORT + 1))?;
        other.set_recv_buffer_size(256 << 10)?;
        let mut long = Vec::new();
        for (it, there) in [(&to, there), (&other, elsewhere)] {
            let waits = from.try_clone()?;
            long.push(std::thread::spawn(move || {
                waits.send_to(&content::content(1, LONG), &there.into())
            }));
            // It has what it can have of both buffers, and waits.
            filled(it)?;
        }
        from.set_write_timeout(Some(Duration::from_secs(2)))?;
        // The first is one of some hundred packets, of which there is room for one or two.
        let lengths: Vec<(u64, usize)> = (2..20)
            .map(|number| (number, if number == 2 { 300_000 } else { 5000 }))
            .collect();
        for &(number, len) in &lengths {
            let sent = from.send_to(&content::content(number, len), &there.into());
            ensure!(
                sent.is_ok_and(|sent| sent == len),
                "{there}: message {number}"
            );
        }
        let mut ledger = Ledger::of(lengths.into_iter().chain([(1, LONG)]));
        let received = receive_all(&to, &mut ledger)
            .and_then(|()| receive_all(&other, &mut Ledger::of([(1, LONG)])));
        for long in long {
            let sent = long.join().map_err(|_| anyhow!("the thread panicked"))?;
            let sent = sent.with_context(|| format!("{there}: a long one"))?;
            ensure!(sent == LONG, "{there}: {sent} bytes of a long one");
        }
        received.with_context(|| there.to_string())?;
    }
    Ok(())
}

/// More long messages than the send buffer has room for, to one receiver, and to two that both fill
/// it. Each streams, and is read to its end before the others: what the others have of the send
/// buffer does not keep it from coming.
fn beside_each_other(_: &mut Ctx) -> Result<()> {
    // Where the processor is slow and shared, each wake-up of a dozen threads takes a while.
    const LONG: u64 = 128 << 10;
    const COUNT: u64 = 12;
    const ROUNDS: u64 = 8;
    let net = pair()?;
    // Who writes for a message that others wait for may stand still for two seconds, not for 0.3.
    configure_all(&net, "timeout 60s")?;
    for round in 0..ROUNDS {
        let there = addresses(&net.hosts[1])[round as usize % 2];
        let domain = Domain::for_address(there);
        let from = unbound(&net.hosts[0].ns, domain)?;
        from.set_send_buffer_size(64 << 10)?;
        let (mut to, mut long, mut readers) = (Vec::new(), Vec::new(), Vec::new());
        for port in 0..1 + round as u16 / 2 % 2 {
            let mut there = there;
            there.set_port(PORT + port);
            let socket =
                super::support::socket(&net.hosts[1].ns, &format!("[::]:{}", PORT + port))?;
            socket.set_recv_buffer_size(64 << 10)?;
            for number in 1..=COUNT {
                // Different lengths leave different rests of the buffer.
                let length = (LONG + 1009 * number * (round + 1)) as usize;
                let (from, number) = (from.try_clone()?, u64::from(port) * 100 + number);
                long.push(std::thread::spawn(move || -> Result<()> {
                    let sent = from.send_to(&content::content(number, length), &there.into());
                    let sent = sent.with_context(|| format!("{there}: message {number}"))?;
                    ensure!(sent == length, "{there}: {sent} of message {number}");
                    Ok(())
                }));
            }
            to.push(socket);
        }
        for (socket, port) in to.into_iter().zip(0..) {
            // They have what they can have of both buffers.
            filled(&socket)?;
            readers.push(std::thread::spawn(move || -> Result<()> {
                let length = |number| (LONG + 1009 * number * (round + 1)) as usize;
                let all = (1..=COUNT).map(|number| (port * 100 + number, length(number)));
                receive_all(&socket, &mut Ledger::of(all))
            }));
        }
        // Who reads says more than who writes, and knows it sooner.
        for thread in readers.into_iter().chain(long) {
            joined(thread).with_context(|| format!("round {round}, to {there}"))?;
        }
    }
    Ok(())
}
