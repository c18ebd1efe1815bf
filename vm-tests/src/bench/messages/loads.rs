// SPDX-License-Identifier: GPL-2.0
//! The loads: what the two hosts do. Threads, sockets and memory are made before it is measured.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::thread::{self, Thread};
use std::time::Instant;

use anyhow::{bail, ensure, Result};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::ends::{At, Ends};
use super::PATIENCE;

/// What each byte is.
const BYTE: u8 = 0x5a;
/// Bytes that a host asks for at once: more than any of the kernel's packets has.
const BUFFER: usize = 1 << 18;
/// Sockets that one call tells of.
const EVENTS: usize = 64;

const NEAR: At = At { pair: 0, host: 0 };
const FAR: At = At { pair: 0, host: 1 };

/// Measures what it is given.
pub(super) type Meter<'a> = &'a dyn Fn(&mut dyn FnMut() -> Result<()>) -> Result<u64>;

/// Receives exactly so many bytes.
fn receive(ends: &dyn Ends, at: At, buffer: &mut [u8], len: usize) -> Result<()> {
    let mut have = 0;
    while have < len {
        let got = ends.receive(at, buffer)?;
        ensure!(got != 0, "nothing came");
        ensure!(buffer[..got].first() == Some(&BYTE), "another message");
        have += got;
    }
    ensure!(have == len, "{have} bytes came instead of {len}");
    Ok(())
}

/// Does `near` while another thread does `far`, which says when it is ready.
fn both(
    far: impl FnOnce(Sender<()>) -> Result<()> + Send,
    near: impl FnOnce() -> Result<u64>,
) -> Result<u64> {
    let (ready, is_ready) = channel();
    thread::scope(|scope| {
        let far = scope.spawn(|| far(ready));
        // Nobody is ready who has failed: then it is told below why.
        let spent = match is_ready.recv() {
            Ok(()) => near(),
            Err(_) => Ok(0),
        };
        let done = far
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.and(spent)
    })
}

/// Requests and answers of this length; what they cost.
pub(super) fn pairs(ends: &dyn Ends, len: usize, count: u32, meter: Meter<'_>) -> Result<u64> {
    let data = vec![BYTE; len];
    let mut buffer = vec![0; BUFFER];
    let answer = |ready: Sender<()>| -> Result<()> {
        let (data, mut buffer) = (vec![BYTE; len], vec![0; BUFFER]);
        ready.send(())?;
        (0..count).try_for_each(|_| {
            receive(ends, FAR, &mut buffer, len)?;
            ends.send(FAR, &data)
        })
    };
    both(answer, || {
        meter(&mut || {
            (0..count).try_for_each(|_| {
                ends.send(NEAR, &data)?;
                receive(ends, NEAR, &mut buffer, len)
            })
        })
    })
}

/// One message, and a short answer when it was read; what it costs.
pub(super) fn bulk(ends: &dyn Ends, len: usize, meter: Meter<'_>) -> Result<u64> {
    let data = vec![BYTE; len];
    let mut buffer = vec![0; BUFFER];
    let answer = |ready: Sender<()>| -> Result<()> {
        let mut buffer = vec![0; BUFFER];
        ready.send(())?;
        receive(ends, FAR, &mut buffer, len)?;
        ends.send(FAR, &[BYTE])
    };
    both(answer, || {
        meter(&mut || {
            ends.send(NEAR, &data)?;
            receive(ends, NEAR, &mut buffer, 1)
        })
    })
}

/// What the receiver has had, and who waits for how much of it.
struct Progress {
    had: AtomicU32,
    wanted: AtomicU32,
    sender: Thread,
}

impl Progress {
    /// The receiver has had so many.
    fn tell(&self, had: u32) {
        self.had.store(had, Ordering::SeqCst);
        if had >= self.wanted.load(Ordering::SeqCst) {
            self.wanted.store(u32::MAX, Ordering::SeqCst);
            self.sender.unpark();
        }
    }

    /// Waits until the receiver has had so many.
    fn wait(&self, wanted: u32) -> Result<()> {
        let began = Instant::now();
        self.wanted.store(wanted, Ordering::SeqCst);
        while self.had.load(Ordering::SeqCst) < wanted {
            ensure!(began.elapsed() < PATIENCE, "messages do not come");
            thread::park_timeout(PATIENCE);
        }
        Ok(())
    }
}

/// Messages in one direction, over all pairs of sockets in turn; what they cost.
pub(super) fn one_way(
    ends: &dyn Ends,
    len: usize,
    count: u32,
    under_way: u32,
    sockets: u16,
    meter: Meter<'_>,
) -> Result<u64> {
    let data = vec![BYTE; len];
    let progress = Progress {
        had: AtomicU32::new(0),
        wanted: AtomicU32::new(u32::MAX),
        sender: thread::current(),
    };
    let progress = &progress;
    both(
        move |ready| reader(ends, len, count, sockets, progress, &ready),
        || {
            meter(&mut || {
                for n in 0..count {
                    if n - progress.had.load(Ordering::SeqCst) >= under_way {
                        // Half of them: a sender that waits is not woken for each.
                        progress.wait(n - under_way / 2)?;
                    }
                    let pair = n as usize % usize::from(sockets);
                    ends.send(At { pair, host: 0 }, &data)?;
                }
                progress.wait(count)
            })
        },
    )
}

/// Reads whatever comes until it was so many messages.
fn reader(
    ends: &dyn Ends,
    len: usize,
    count: u32,
    sockets: u16,
    progress: &Progress,
    ready: &Sender<()>,
) -> Result<()> {
    let mut buffer = vec![0; BUFFER];
    let mut bytes = 0;
    let mut take = |pair| -> Result<u32> {
        bytes += ends.receive(At { pair, host: 1 }, &mut buffer)?;
        let had = (bytes / len) as u32;
        progress.tell(had);
        Ok(had)
    };
    if sockets == 1 {
        ready.send(())?;
        while take(0)? < count {}
        return Ok(());
    }
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for pair in 0..usize::from(sockets) {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, pair as u64);
        epoll.add(ends.fd(At { pair, host: 1 }), event)?;
    }
    ready.send(())?;
    let mut events = [EpollEvent::empty(); EVENTS];
    loop {
        let ready = epoll.wait(&mut events, EpollTimeout::try_from(PATIENCE)?)?;
        if ready == 0 {
            bail!("nothing came");
        }
        for event in &events[..ready] {
            if take(event.data() as usize)? >= count {
                return Ok(());
            }
        }
    }
}
