// SPDX-License-Identifier: GPL-2.0
//! One Turnstile socket for each host, as a server has: it sends to all others and receives from
//! all. All that is set on it is `TURNSTILE_RECVINFO 2`, by which pieces of a message that is too
//! long for its buffer alternate with whole ones.
//!
//! A thread for each host reads. A thread for each message waits until it is due and sends it in
//! one call. The first bytes of a message are its place in the list, so that its reader knows it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use socket2::SockRef;
use turnstile_socket::Socket;

use super::{Alone, Done, Message, Place};
use crate::clock;
use crate::topology::v6;

/// The port of each.
const PORT: u16 = 7000;
/// Bytes that are read at once.
const READ: usize = 1 << 20;
/// Bytes of a message's place in the list.
const INDEX: usize = 8;
/// A thread needs little.
const STACK: usize = 128 << 10;

/// A socket for each host.
#[derive(Debug)]
pub struct Hosts {
    sockets: Vec<Socket>,
    addresses: Vec<IpAddr>,
}

/// What was read of a message.
#[derive(Default)]
struct Reading {
    /// Its first bytes, which say which it is.
    head: Vec<u8>,
    came: u64,
}

/// The state of a run.
struct Run<'a> {
    messages: &'a [Message],
    start: u64,
    deadline: u64,
    took: Mutex<Vec<Option<u64>>>,
    failed: AtomicBool,
}

impl Hosts {
    /// The shortest message, bytes: the application tells them apart by a number in them.
    pub const LEAST: u64 = INDEX as u64;

    /// Opens them.
    ///
    /// # Errors
    /// When there is no such socket.
    pub fn open(places: &[Place<'_>]) -> Result<Self> {
        let addresses = places.iter().map(|place| place.address.into());
        Self::open_at(places, addresses.collect())
    }

    /// Opens them for IPv6.
    ///
    /// # Errors
    /// When there is no such socket, or no IPv6 ([`Fabric::add_ipv6`]).
    ///
    /// [`Fabric::add_ipv6`]: crate::topology::Fabric::add_ipv6
    pub fn open_v6(places: &[Place<'_>]) -> Result<Self> {
        let addresses = places.iter().map(|place| v6(place.address).into());
        Self::open_at(places, addresses.collect())
    }

    fn open_at(places: &[Place<'_>], addresses: Vec<IpAddr>) -> Result<Self> {
        let sockets = places.iter().zip(&addresses).map(|(place, &address)| {
            place.ns.enter(|| {
                let socket = Socket::bind((address, PORT)).context("binding")?;
                socket
                    .set_interleaved(true)
                    .context("setting TURNSTILE_RECVINFO")?;
                Ok(socket)
            })
        });
        Ok(Self {
            sockets: sockets.collect::<Result<_>>()?,
            addresses,
        })
    }

    /// Sends messages, each at its time after the monotonic clock shows `start`, and waits until
    /// all have been read, at most until `patience` after the start. The result is in the order of
    /// `messages`.
    ///
    /// # Errors
    /// When a socket fails, or a message comes twice.
    pub fn run(&self, messages: &[Message], start: u64, patience: Duration) -> Result<Vec<Done>> {
        clock::exact_timers();
        let run = Run {
            messages,
            start,
            deadline: start.saturating_add(clock::nanos(patience)),
            took: Mutex::new(vec![None; messages.len()]),
            failed: AtomicBool::new(false),
        };
        for socket in &self.sockets {
            // Whoever waits for ever would never be joined.
            socket
                .set_write_timeout(Some(patience))
                .context("setting SO_SNDTIMEO")?;
        }
        let longest = messages.iter().map(|m| m.bytes).max().unwrap_or(0);
        let longest = usize::try_from(longest).context("a message is longer than memory")?;
        let zeros = vec![0; longest];
        std::thread::scope(|scope| -> Result<()> {
            let mut threads = Vec::new();
            let thread = || std::thread::Builder::new().stack_size(STACK);
            for host in 0..self.sockets.len() {
                let expected = messages.iter().filter(|m| m.to == host).count();
                let run = &run;
                let work = move || self.read(run, host, expected);
                threads.push(thread().spawn_scoped(scope, work)?);
            }
            for index in 0..messages.len() {
                let (run, zeros) = (&run, &zeros);
                let work = move || self.send(run, index, zeros);
                threads.push(thread().spawn_scoped(scope, work)?);
            }
            let mut result = Ok(());
            for thread in threads {
                let ended = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                result = result.and(ended);
            }
            result
        })?;
        let took = run.took.into_inner().unwrap_or_default();
        let done = messages.iter().zip(took);
        Ok(done
            .map(|(&message, took)| Done { message, took })
            .collect())
    }

    /// Each of these pairs exchanges a message, so that the hosts know each other.
    ///
    /// # Errors
    /// As [`Hosts::run`], and when one does not arrive within some seconds.
    pub fn meet(&self, pairs: &[(usize, usize)]) -> Result<()> {
        const EACH_NS: u64 = 1_000_000;
        let greetings = (0..).zip(pairs);
        let greetings: Vec<_> = greetings
            .map(|(n, &(from, to))| Message::new(from, to, 100).at(n * EACH_NS))
            .collect();
        let done = self.run(&greetings, clock::monotonic(), Duration::from_secs(5))?;
        let arrived = done.iter().all(|done| done.took.is_some());
        ensure!(arrived, "hosts could not greet each other: {done:?}");
        Ok(())
    }

    /// As [`super::Messages::alone`].
    ///
    /// # Errors
    /// As [`Hosts::run`], and when one takes longer than `patience`.
    pub fn alone(
        &self,
        (from, to): (usize, usize),
        lengths: &[u64],
        pause: Duration,
        patience: Duration,
    ) -> Result<Alone> {
        let mut measured = Vec::new();
        for &bytes in lengths {
            let start = clock::monotonic() + clock::nanos(pause);
            let done = self.run(&[Message::new(from, to, bytes)], start, pause + patience)?;
            let took = done.first().and_then(|done| done.took);
            let took = took.with_context(|| {
                format!("{bytes} bytes did not arrive in {patience:?} on an idle network")
            })?;
            measured.push((bytes, took));
        }
        Ok(Alone::new(measured))
    }

    fn send(&self, run: &Run<'_>, index: usize, zeros: &[u8]) -> Result<()> {
        let message = run.messages[index];
        let bytes = usize::try_from(message.bytes)?;
        ensure!(bytes >= INDEX, "{message:?} has no room for its number");
        let head = (index as u64).to_le_bytes();
        let parts = [
            std::io::IoSlice::new(&head),
            std::io::IoSlice::new(&zeros[..bytes - INDEX]),
        ];
        let to = SocketAddr::from((self.addresses[message.to], PORT));
        let socket = &self.sockets[message.from];
        clock::sleep_until(run.start.saturating_add(message.at));
        // One that fails has not arrived.
        match SockRef::from(socket).send_to_vectored(&parts, &to.into()) {
            Ok(sent) => ensure!(sent == bytes, "{sent} bytes of {message:?} were taken"),
            Err(error) => println!("    {message:?}: {error}"),
        }
        Ok(())
    }

    /// Reads what comes to a host, until all has come or the time is over.
    fn read(&self, run: &Run<'_>, host: usize, expected: usize) -> Result<()> {
        let result = self.read_all(run, host, expected);
        if result.is_err() {
            run.failed.store(true, Ordering::Relaxed);
        }
        result.with_context(|| format!("reading at host {host}"))
    }

    fn read_all(&self, run: &Run<'_>, host: usize, expected: usize) -> Result<()> {
        const LOOK: Duration = Duration::from_millis(500);
        let socket = &self.sockets[host];
        socket
            .set_read_timeout(Some(LOOK))
            .context("setting SO_RCVTIMEO")?;
        let mut buffer = vec![0; READ];
        let mut came = 0;
        // The messages that are being read, by their numbers on the socket.
        let mut reading: HashMap<u64, Reading> = HashMap::new();
        while came < expected {
            if clock::monotonic() >= run.deadline || run.failed.load(Ordering::Relaxed) {
                break;
            }
            let read = match socket.recv(&mut buffer) {
                Ok(read) => read,
                Err(error) if matches!(error.errno(), Some(libc::EAGAIN | libc::EINTR)) => continue,
                Err(error) => return Err(error).context("receiving"),
            };
            let now = clock::monotonic();
            let info = read.info.context("a read without facts")?;
            let it = reading.entry(info.number).or_default();
            ensure!(info.offset == it.came, "{info:?} after {} bytes", it.came);
            let head = INDEX.saturating_sub(it.head.len()).min(read.len);
            it.head.extend_from_slice(&buffer[..head]);
            it.came += read.len as u64;
            if !read.end_of_message {
                continue;
            }
            let it = reading.remove(&info.number).unwrap_or_default();
            let index = self.index(run, host, &it.head)?;
            let message = run.messages[index];
            ensure!(
                it.came == message.bytes,
                "{} bytes of {message:?} came",
                it.came
            );
            came += 1;
            let mut took = match run.took.lock() {
                Ok(took) => took,
                Err(_) => bail!("another reader failed"),
            };
            ensure!(took[index].is_none(), "{message:?} came twice");
            took[index] = Some(now.saturating_sub(run.start.saturating_add(message.at)));
        }
        Ok(())
    }

    /// Which message begins so.
    fn index(&self, run: &Run<'_>, host: usize, bytes: &[u8]) -> Result<usize> {
        let head = bytes.first_chunk::<INDEX>();
        let head = head.with_context(|| format!("a message begins with {} bytes", bytes.len()))?;
        let index = usize::try_from(u64::from_le_bytes(*head))?;
        match run.messages.get(index) {
            Some(message) if message.to == host => Ok(index),
            _ => bail!("message {index} came, which nobody has sent to host {host}"),
        }
    }
}
