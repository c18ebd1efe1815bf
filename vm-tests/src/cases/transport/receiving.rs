// SPDX-License-Identifier: GPL-2.0
//! What a receiver is promised, whoever sends to it: its buffer holds no more than it is large, a
//! read is of one message, and nobody's message keeps it from reading those of others.

use std::io::{self, IoSliceMut, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use nix::cmsg_space;
use nix::sys::socket::{recvmsg, ControlMessageOwned, MsgFlags, SockaddrStorage};
use turnstile_core::header::PORT as UDP_PORT;
use turnstile_core::transport::wire::{self, Cookie, Data, Packet, Sync, MAX_HEADER};
use turnstile_socket::{Lost, SendOptions, Socket};

use super::content;
use super::support::{
    addresses, as_v6, delivered, hosts, nothing_more, pair, read_once, receiver, refused,
    send_once, sender, PATIENCE, PORT,
};
use crate::harness::{Case, Ctx, Need};
use crate::topology::Builder;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/receiving/buffer-bounds-short-ones", bounded)
        .needs(&[Need::VirtualTime, Need::Speed])
        .timeout_s(180),
    Case::new("transport/receiving/wait-all-is-of-one", wait_all),
    Case::new("transport/receiving/end-within-a-call", ends_within),
    Case::new("transport/receiving/failed-half-way", failed_half_way),
    Case::new("transport/receiving/stalled-blocks-nobody", |ctx| {
        stalled(ctx, true)
    })
    .needs(&[Need::VirtualTime])
    .timeout_s(300),
    Case::new(
        "transport/receiving/stalled-blocks-no-plain-reader",
        |ctx| stalled(ctx, false),
    )
    .needs(&[Need::VirtualTime])
    .timeout_s(300),
    Case::new("transport/receiving/reserved-and-stalled", reserved).timeout_s(180),
    Case::new("transport/receiving/by-number", by_number),
    Case::new("transport/receiving/lost-reports-are-counted", lost_reports),
];

/// `SO_MEMINFO`, of which the first is `sk_rmem_alloc`, the second `sk_rcvbuf`.
fn memory(socket: &Socket) -> Result<[u32; 9]> {
    const SO_MEMINFO: libc::c_int = 55;
    let mut words = [0_u32; 9];
    let mut len = size_of_val(&words) as libc::socklen_t;
    // SAFETY: there is room for what is asked for, whose length is passed.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &mut len,
        )
    };
    ensure!(result == 0, "SO_MEMINFO: {}", io::Error::last_os_error());
    Ok(words)
}

/// 30 000 messages of 4000 bytes to a buffer of 128 KiB that nobody reads: it holds what it is
/// large, the rest waits where it was sent, and all comes when it is read.
fn bounded(ctx: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 30_000;
    const LEN: usize = 4000;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    let buffer = to.recv_buffer_size()? as u32;
    ensure!(buffer == 128 << 10, "a buffer of {buffer} bytes");
    let from = sender(&net.hosts[0].ns)?;
    from.set_completions(false)?;
    from.set_send_buffer_size(100 << 10)?;
    let there = addresses(&net.hosts[1])[0];
    std::thread::scope(|scope| -> Result<()> {
        let from = &from;
        let sending = scope.spawn(move || -> Result<()> {
            for number in 0..COUNT {
                let bytes = content::content(number, LEN);
                from.send_to(&bytes, there, &SendOptions::default())
                    .with_context(|| format!("message {number}"))?;
            }
            Ok(())
        });
        let mut most = 0;
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(10));
            most = most.max(memory(&to)?[0]);
        }
        ctx.note(format!("{most} of {buffer} bytes are held"));
        ensure!(
            most <= buffer,
            "{most} bytes are held by a buffer of {buffer}"
        );
        ensure!(
            most >= buffer / 4,
            "only {most} of {buffer} bytes were used"
        );
        ensure!(!sending.is_finished(), "all was taken, and nobody read");
        ensure!(
            memory(from)?[3] > LEN as u32,
            "nothing waits at the sender: {:?}",
            memory(from)?
        );
        let numbers = (0..COUNT).map(|number| (number, LEN));
        let mut ledger = content::Ledger::of(numbers);
        while ledger.missing() > 0 {
            let left = ledger.missing();
            let message = to
                .recv_message(1 << 20)
                .with_context(|| format!("{left} messages have not come"))?;
            ledger.arrived(&message.data)?;
            if left % 1000 == 0 {
                let held = memory(&to)?[0];
                ensure!(held <= buffer, "{held} bytes are held while it is read");
            }
        }
        ledger.complete()?;
        sending
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    nothing_more(&to)?;
    let held = memory(&to)?[0];
    ensure!(held == 0, "{held} bytes are held, and all was read");
    Ok(())
}

/// One call with MSG_WAITALL gets bytes of one message: one that is closed half way does not go on
/// with the next one, and what became of it is told once.
fn wait_all(_: &mut Ctx) -> Result<()> {
    const HALF: usize = 200_000;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let there = addresses(&net.hosts[1])[0];
    let first = sender(&net.hosts[0].ns)?;
    let second = sender(&net.hosts[0].ns)?;
    let bytes = content::content(1, HALF);
    let sent = send_once(&first, &bytes, Some(as_v6(there)), &[], libc::MSG_MORE)?;
    ensure!(sent == HALF, "{sent} bytes were taken");
    std::thread::scope(|scope| -> Result<()> {
        let reading = scope.spawn(|| read_once(&to, 3 * HALF / 2, libc::MSG_WAITALL));
        std::thread::sleep(Duration::from_millis(200));
        ensure!(!reading.is_finished(), "it did not wait for all");
        second.send_to(&content::content(2, 1000), there, &SendOptions::default())?;
        delivered(&second, 1)?;
        first.set_linger(Some(Duration::ZERO))?;
        drop(first);
        let read = reading
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        content::check(1, 0, &read.data).context("the first one")?;
        ensure!(
            !read.end && read.data.len() < HALF && read.data.len() > HALF / 2,
            "{} of {HALF} bytes, MSG_EOR {}",
            read.data.len(),
            read.end
        );
        Ok(())
    })?;
    refused("the rest of it", read_once(&to, 10, 0), libc::ECONNRESET)?;
    let read = read_once(&to, 3000, libc::MSG_WAITALL)?;
    content::check(2, 0, &read.data).context("the second one")?;
    ensure!(read.end && read.data.len() == 1000, "{read:?}");
    nothing_more(&to)
}

/// A call reads the beginning of a message while nobody knows how long it will be, and then its
/// end: it tells the length.
fn ends_within(_: &mut Ctx) -> Result<()> {
    const HALF: usize = 200_000;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    for (number, there) in (1..).zip(addresses(&net.hosts[1])) {
        let from = sender(&net.hosts[0].ns)?;
        let bytes = content::content(number, 2 * HALF);
        let there = Some(as_v6(there));
        let sent = send_once(&from, &bytes[..HALF], there, &[], libc::MSG_MORE)?;
        ensure!(sent == HALF, "{sent} bytes were taken");
        std::thread::scope(|scope| -> Result<()> {
            let reading = scope.spawn(|| length_told(&to, 3 * HALF));
            std::thread::sleep(Duration::from_millis(200));
            ensure!(!reading.is_finished(), "it did not wait for all");
            send_once(&from, &bytes[HALF..], there, &[], 0)?;
            let (read, told) = reading
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            ensure!(
                read == 2 * HALF && told == Some(2 * HALF as u64),
                "{read} of {} bytes, and the length {told:?} was told",
                2 * HALF
            );
            Ok(())
        })?;
        delivered(&from, 1)?;
    }
    nothing_more(&to)
}

/// What one call with MSG_WAITALL reads, up to the end of a message, and the length in its
/// TURNSTILE_INFO.
fn length_told(socket: &Socket, len: usize) -> Result<(usize, Option<u64>)> {
    let mut data = vec![0; len];
    let mut buffers = [IoSliceMut::new(&mut data)];
    let mut space = cmsg_space!([u64; 4]);
    let message = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut buffers,
        Some(&mut space),
        MsgFlags::MSG_WAITALL,
    )?;
    ensure!(message.flags.contains(MsgFlags::MSG_EOR), "no end");
    let mut told = None;
    for item in message.cmsgs()? {
        let ControlMessageOwned::Unknown(item) = item else {
            bail!("{item:?}");
        };
        let length = item.data_bytes.get(8..16).context("a short item")?;
        told = Some(u64::from_ne_bytes(length.try_into()?));
    }
    Ok((message.bytes, told))
}

/// A message that fails while one call reads it in several steps: what is there is handed out, and
/// the failure is told by the next call, whatever else has come.
fn failed_half_way(_: &mut Ctx) -> Result<()> {
    const HALF: usize = 300_000;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let there = addresses(&net.hosts[1])[1];
    for round in 0..5 {
        let first = sender(&net.hosts[0].ns)?;
        let second = sender(&net.hosts[0].ns)?;
        let mut writer = first.begin(there, &SendOptions::default())?;
        writer.write_all(&content::content(1, HALF))?;
        writer.flush()?;
        // A part is read; the rest is there.
        let read = read_once(&to, 1000, 0)?;
        content::check(1, 0, &read.data)?;
        std::thread::sleep(Duration::from_millis(100));
        second.send_to(&content::content(2, 1000), there, &SendOptions::default())?;
        delivered(&second, 1)?;
        drop(writer);
        first.set_linger(Some(Duration::ZERO))?;
        drop(first);
        std::thread::sleep(Duration::from_millis(50));
        refused("the rest of it", read_once(&to, HALF, 0), libc::ECONNRESET)
            .with_context(|| format!("round {round}"))?;
        let read = read_once(&to, 3000, 0)?;
        content::check(2, 0, &read.data).context("the second one")?;
        ensure!(read.end && read.data.len() == 1000, "{read:?}");
    }
    nothing_more(&to)
}

/// Somebody who begins messages and does not go on with them.
struct Forger {
    socket: UdpSocket,
    to: SocketAddr,
    next: u64,
}

impl Forger {
    fn new(net: &crate::topology::Net) -> Result<Self> {
        let host = &net.hosts[2];
        let local = SocketAddr::from((host.v4, UDP_PORT));
        Ok(Self {
            socket: host.ns.enter(|| Ok(UdpSocket::bind(local)?))?,
            to: SocketAddr::from((net.hosts[1].v4, UDP_PORT)),
            next: 1,
        })
    }

    fn push(&self, packet: &Packet, payload: usize) -> Result<()> {
        let mut header = [0; MAX_HEADER];
        let len = packet.write(&mut header);
        let mut bytes = header[..len].to_vec();
        bytes.resize(len + payload, 0x5a);
        self.socket.send_to(&bytes, self.to)?;
        Ok(())
    }

    /// Begins one, with a packet of data if there is to be one.
    fn begin(&mut self, length: Option<u32>, data: u32) -> Result<()> {
        let cookie = Cookie(self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.next += 1;
        let sync = Sync {
            cookie,
            source: 9,
            destination: PORT,
            length,
            deadline: 0,
            coflow: 0,
            unscheduled: 0,
            mss: 1450,
            priority: None,
            probe: false,
            acked: false,
            ren: false,
            patience: 100,
            echo: 0,
            paced: false,
        };
        self.push(&Packet::Sync(sync), 0)?;
        if data != 0 {
            let packet = Packet::Data(Data {
                cookie,
                token: 0,
                timestamp: 0,
                offset: 0,
                len: data,
                flags: 0,
                more: 0,
            });
            let mut header = [0; MAX_HEADER];
            let len = packet.write(&mut header);
            ensure!(
                wire::parse(&header[..len], len + data as usize).is_ok(),
                "a packet that cannot be read"
            );
            self.push(&packet, data as usize)?;
        }
        Ok(())
    }
}

/// Reads as a server does, and tells of each whole message of the honest ones; returns how many
/// failures it was told of.
fn serve(to: &Socket, count: u64, told: &mpsc::Sender<u64>) -> Result<u64> {
    let (mut whole, mut failures) = (0, 0);
    while whole < count {
        match read_once(to, 1 << 20, 0) {
            Ok(read) if read.end && read.data.len() == HONEST => {
                content::check(whole, 0, &read.data)?;
                told.send(whole)?;
                whole += 1;
            }
            Ok(read) if read.end => bail!("a message of {} bytes", read.data.len()),
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => failures += 1,
            Err(error) => return Err(error).context("a read"),
        }
    }
    Ok(failures)
}

/// Bytes of an honest message.
const HONEST: usize = 500;

/// Eleven forged messages in a minute, each a SYNC and one packet, to a server whose 60 honest
/// messages each arrive and are read within two seconds.
fn stalled(ctx: &mut Ctx, info: bool) -> Result<()> {
    const COUNT: u64 = 60;
    let net = hosts(&Builder::bridged(3))?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_receive_info(info)?;
    to.set_recv_buffer_size(64 << 10)?;
    let from = sender(&net.hosts[0].ns)?;
    let mut forger = Forger::new(&net)?;
    let there = addresses(&net.hosts[1])[0];
    let (told, heard) = mpsc::channel();
    std::thread::scope(|scope| -> Result<()> {
        let to = &to;
        let serving = scope.spawn(move || serve(to, COUNT, &told));
        let mut longest = Duration::ZERO;
        for number in 0..COUNT {
            if number % 6 == 0 {
                // Of a length that is not told, or that does not fit.
                forger.begin((number % 12 == 0).then_some(1 << 20), 1450)?;
            }
            std::thread::sleep(Duration::from_millis(100));
            let began = Instant::now();
            let bytes = content::content(number, HONEST);
            from.send_to(&bytes, there, &SendOptions::default())?;
            let read = heard
                .recv_timeout(Duration::from_secs(2))
                .with_context(|| format!("message {number} was not read"))?;
            ensure!(read == number, "message {read} in place of {number}");
            longest = longest.max(began.elapsed());
            std::thread::sleep(Duration::from_secs(1).saturating_sub(began.elapsed()));
        }
        let failures = serving
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        ctx.note(format!(
            "the longest took {longest:?}; {failures} failures were told"
        ));
        // Who does not ask for numbers never sees a part of so short a beginning.
        ensure!(info || failures == 0, "{failures} failures");
        ensure!(
            info || longest < Duration::from_millis(500),
            "one took {longest:?}"
        );
        Ok(())
    })?;
    delivered(&from, COUNT as u32)
}

/// Forged messages that take all of the buffer's room and never come: those who wait for it get it
/// within two seconds.
fn reserved(ctx: &mut Ctx) -> Result<()> {
    let net = hosts(&Builder::bridged(3))?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    let from = sender(&net.hosts[0].ns)?;
    let mut forger = Forger::new(&net)?;
    let there = addresses(&net.hosts[1])[0];
    let mut longest = Duration::ZERO;
    for number in 0..10 {
        for _ in 0..3 {
            forger.begin(Some(31_000), if number % 2 == 0 { 1450 } else { 0 })?;
        }
        std::thread::sleep(Duration::from_millis(100));
        let began = Instant::now();
        let len = 20_000;
        from.send_to(
            &content::content(number, len),
            there,
            &SendOptions::default(),
        )?;
        let came = to.recv_message(1 << 20)?;
        content::check(number, 0, &came.data)?;
        ensure!(came.data.len() == len, "{} bytes", came.data.len());
        longest = longest.max(began.elapsed());
    }
    ctx.note(format!("the longest took {longest:?}"));
    ensure!(longest < Duration::from_secs(2), "one took {longest:?}");
    delivered(&from, 10)
}

/// Pieces of several messages in turn, each with its number; reading one of them only; throwing one
/// away.
fn by_number(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 1 << 20;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    to.set_recv_buffer_size(64 << 10)?;
    to.set_interleaved(true)?;
    let whole = to.recv_message(1);
    ensure!(
        matches!(whole, Err(turnstile_socket::Error::Interleaved)),
        "a whole message: {whole:?}"
    );
    let there = addresses(&net.hosts[1])[0];
    let long = sender(&net.hosts[0].ns)?;
    let options = SendOptions {
        length: Some(LEN as u64),
        ..SendOptions::default()
    };
    let mut writer = long.begin(there, &options)?;
    writer.write_all(&content::content(1, 10_000))?;
    let mut buffer = vec![0; 100_000];
    let first = to.recv(&mut buffer)?;
    let info = first.info.context("no TURNSTILE_INFO")?;
    content::check(1, 0, &buffer[..first.len])?;
    let mut at = first.len;
    while at < 10_000 {
        let read = to.recv(&mut buffer)?;
        content::check(1, at as u64, &buffer[..read.len])?;
        at += read.len;
    }
    // It stands still, and others are read.
    let other = sender(&net.hosts[0].ns)?;
    for number in 2..5 {
        other.send_to(
            &content::content(number, 700),
            there,
            &SendOptions::default(),
        )?;
        let read = to.recv(&mut buffer)?;
        content::check(number, 0, &buffer[..read.len])?;
        ensure!(
            read.end_of_message && read.info.is_some_and(|other| other.number != info.number),
            "{read:?}"
        );
    }
    // Only the long one is wanted, and there is nothing of it.
    to.read_only(Some(info.number))?;
    other.send_to(&content::content(5, 700), there, &SendOptions::default())?;
    delivered(&other, 4)?;
    refused(
        "a read of the long one",
        read_once(&to, 10, libc::MSG_DONTWAIT),
        libc::EAGAIN,
    )?;
    writer.write_all(&content::content(1, 12_000)[10_000..])?;
    let read = to.recv(&mut buffer)?;
    content::check(1, at as u64, &buffer[..read.len])?;
    ensure!(
        read.info
            .is_some_and(|it| (it.number, it.offset) == (info.number, at as u64)),
        "{read:?}"
    );
    to.read_only(None)?;
    let read = read_once(&to, 10_000, 0)?;
    ensure!(!read.data.is_empty(), "nothing is there");
    // Thrown away, and its sender is told.
    to.discard(info.number)?;
    refused("once more", to.discard(info.number), libc::ENOENT)?;
    refused(
        "and to read it",
        to.read_only(Some(info.number)),
        libc::ENOENT,
    )?;
    let done = long
        .wait_completion(Some(PATIENCE))?
        .context("the sender was not told")?;
    refused("the long one", done.outcome, libc::ECONNRESET)?;
    drop(writer);
    // A whole one, which nobody has read.
    other.send_to(&content::content(6, 700), there, &SendOptions::default())?;
    let done = other
        .wait_completion(Some(PATIENCE))?
        .context("no report")?;
    done.outcome.context("not delivered")?;
    let mut numbers = Vec::new();
    while let Ok(read) = peeked(&to) {
        numbers.push(read);
        to.discard(read)?;
    }
    ensure!(!numbers.is_empty(), "it was not there");
    nothing_more(&to)?;
    // An int is no number.
    let int = set_int(&to, 4);
    refused("an int", int, libc::EINVAL)
}

/// The number of the message that is next.
fn peeked(to: &Socket) -> Result<u64> {
    use nix::sys::socket::{recvmsg, MsgFlags, SockaddrStorage};
    let mut data = [0; 10];
    let mut control = vec![0_u8; 256];
    let mut buffers = [IoSliceMut::new(&mut data)];
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    let fd = to.as_fd().as_raw_fd();
    let message = recvmsg::<SockaddrStorage>(fd, &mut buffers, Some(&mut control), flags)?;
    ensure!(message.bytes != 0, "nothing");
    // The header of ancillary data, then four u64.
    let number = control.get(16..24).context("no ancillary data")?;
    Ok(u64::from_ne_bytes(number.try_into()?))
}

/// Sets an option of the transport to an int.
fn set_int(to: &Socket, option: libc::c_int) -> io::Result<()> {
    let value: libc::c_int = 1;
    // SAFETY: the value is an int, its length is passed, and it outlives the call.
    let result = unsafe {
        libc::setsockopt(
            to.as_fd().as_raw_fd(),
            turnstile_core::transport::uapi::SOL_TURNSTILE as libc::c_int,
            option,
            std::ptr::from_ref(&value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Nobody reads the error queue: it takes no more than its part, and what is lost is counted, those
/// of failures apart.
fn lost_reports(ctx: &mut Ctx) -> Result<()> {
    const EACH: u32 = 200;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    from.set_recv_buffer_size(16 << 10)?;
    let there = addresses(&net.hosts[1])[0];
    let nobody = SocketAddr::new(there.ip(), PORT + 1);
    for number in 0..EACH {
        from.send_to(
            &content::content(number.into(), 100),
            there,
            &SendOptions::default(),
        )?;
        to.recv_message(100)?;
    }
    std::thread::sleep(Duration::from_millis(100));
    for _ in 0..EACH {
        from.send_to(b"nobody", nobody, &SendOptions::default())?;
    }
    std::thread::sleep(Duration::from_secs(2));
    ensure!(from.outgoing_queued()? == 0, "some are still under way");
    let (held, buffer) = (memory(&from)?[0], memory(&from)?[1]);
    ensure!(held <= buffer, "{held} bytes of reports in {buffer}");
    let (mut good, mut bad) = (0, 0);
    let mut lost = Vec::new();
    loop {
        match from.completion() {
            Ok(Some(done)) if done.outcome.is_ok() => good += 1,
            Ok(Some(_)) => bad += 1,
            Ok(None) => break,
            Err(error) => {
                let error = io::Error::from(error);
                let found = error.get_ref().and_then(|it| it.downcast_ref::<Lost>());
                let found = *found.with_context(|| format!("{error}"))?;
                lost.push(found);
            }
        }
    }
    ctx.note(format!("{good} delivered, {bad} failed, {lost:?}"));
    ensure!(good > 0 && bad > 0, "{good} delivered, {bad} failed");
    // Some before the first failure, some after the last that there was room for.
    ensure!((1..=3).contains(&lost.len()), "{lost:?}");
    let all: u32 = lost.iter().map(|lost| lost.completions).sum();
    let failures: u32 = lost.iter().map(|lost| lost.failures).sum();
    ensure!(
        good + bad + all == 2 * EACH && bad + failures == EACH,
        "{good} delivered, {bad} failed, {lost:?}"
    );
    for lost in lost.iter().filter(|lost| lost.failures != 0) {
        ensure!(
            lost.errno == libc::ECONNREFUSED && lost.to.is_some_and(|to| to.port() == PORT + 1),
            "{lost:?}"
        );
    }
    // And it goes on.
    from.send_to(b"x", there, &SendOptions::default())?;
    let done = from.wait_completion(Some(PATIENCE))?.context("no report")?;
    done.outcome.context("not delivered")
}
