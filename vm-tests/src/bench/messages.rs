// SPDX-License-Identifier: GPL-2.0
//! What messages cost, both ends and the way between them: two namespaces on one link, without
//! qdiscs, one processor for all. The shipped settings; beside Turnstile TCP and UDP, as they come.
//!
//! While both ends wait, a thread of the lowest class counts how often it goes round. What is left
//! of the clock's instructions when its rounds are taken off, whatever interrupted it, is what the
//! messages cost.
//!
//! What a byte of a long message costs as it comes depends on how the two ends take turns on the
//! one processor, which any change of the code can move by a fifth. At a rate that the processor
//! has time for, each packet is dealt with when it comes, and the figure is that of the code alone.

use std::io::{Error, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket};
use turnstile_test_protocol::bench::Messages;

use crate::cmd::run_here;
use crate::topology::{Builder, Net};

const PORT: u16 = 5000;
/// Requests and their answers, of this length each, and how many of them in a batch.
const PAIRS: [(&str, usize, u64); 2] = [("100 B", 100, 200), ("10 KB", 10_000, 60)];
/// Batches, of which the median counts: in single ones tables grow, or other things have to be done
/// that are done now and then, and cost some hundredths.
const BATCHES: usize = 15;
/// Before that, for what is set up once.
const WARM_UP: u64 = 20;
/// Bytes of one long message, and what the ends exchange before.
const BULK: usize = 8 << 20;
const BULK_WARM_UP: usize = 1 << 20;
/// The rate of the one that is paced, bit/s.
const PACE: u32 = 100_000_000;
/// Long enough for everything that is going to happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// Goes round when nobody else wants the processor.
struct Idler<'a> {
    rounds: &'a AtomicU64,
    /// Rounds and nanoseconds of the calibration.
    rate: (u64, u64),
}

impl Idler<'_> {
    /// Instructions that `work` takes.
    fn instructions(&self, work: impl FnOnce() -> Result<()>) -> Result<u64> {
        let (began, before) = (Instant::now(), self.rounds.load(Ordering::Relaxed));
        work()?;
        let took = began.elapsed().as_nanos() as u64;
        let rounds = self.rounds.load(Ordering::Relaxed) - before;
        let (per, nanos) = self.rate;
        Ok(took.saturating_sub((rounds as u128 * nanos as u128 / per as u128) as u64))
    }
}

/// Two ends that send each other messages.
trait Ends: Sync {
    /// Sends a message from the first to the second.
    fn ask(&self, data: &[u8]) -> Result<()>;
    /// The second receives it.
    fn asked(&self, data: &mut [u8]) -> Result<()>;
    /// The second answers.
    fn reply(&self, data: &[u8]) -> Result<()>;
    /// The first receives that.
    fn replied(&self, data: &mut [u8]) -> Result<()>;
    /// No more is sent than so much from now on, bit/s.
    fn pace(&self, rate: u32) -> Result<()>;
}

/// Messages.
struct Turnstile<'a> {
    net: &'a Net,
    ends: [Socket; 2],
    to: [SocketAddr; 2],
}

impl<'a> Turnstile<'a> {
    fn new(net: &'a Net) -> Result<Self> {
        let [near, far] = [0, 1].map(|end| SocketAddr::from((net.hosts[end].v4, PORT)));
        let socket = |end: usize, at| -> Result<Socket> {
            let socket = net.hosts[end].ns.enter(|| Ok(Socket::bind(at)?))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.set_write_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        Ok(Self {
            net,
            ends: [socket(0, near)?, socket(1, far)?],
            to: [far, near],
        })
    }

    fn send(&self, end: usize, data: &[u8]) -> Result<()> {
        self.ends[end].send_to(data, self.to[end], &SendOptions::default())?;
        Ok(())
    }

    fn receive(&self, end: usize, data: &mut [u8]) -> Result<()> {
        let mut have = 0;
        while have < data.len() {
            have += self.ends[end].recv(&mut data[have..])?.len;
        }
        Ok(())
    }
}

impl Ends for Turnstile<'_> {
    fn ask(&self, data: &[u8]) -> Result<()> {
        self.send(0, data)
    }
    fn asked(&self, data: &mut [u8]) -> Result<()> {
        self.receive(1, data)
    }
    fn reply(&self, data: &[u8]) -> Result<()> {
        self.send(1, data)
    }
    fn replied(&self, data: &mut [u8]) -> Result<()> {
        self.receive(0, data)
    }
    fn pace(&self, rate: u32) -> Result<()> {
        let command = format!("turnstile transport set link {rate}bit");
        let mut hosts = self.net.hosts.iter();
        hosts.try_for_each(|host| host.ns.run(&command).map(drop))
    }
}

/// Bytes of a connection, as many as are expected.
struct Tcp([TcpStream; 2]);

impl Tcp {
    fn new(net: &Net) -> Result<Self> {
        let to = SocketAddr::from((net.hosts[1].v4, PORT));
        let listener = net.hosts[1].ns.enter(|| Ok(TcpListener::bind(to)?))?;
        let near = net.hosts[0].ns.enter(|| Ok(TcpStream::connect(to)?))?;
        let (far, _) = listener.accept()?;
        for end in [&near, &far] {
            end.set_nodelay(true)?;
            end.set_read_timeout(Some(PATIENCE))?;
        }
        Ok(Self([near, far]))
    }
}

impl Ends for Tcp {
    fn ask(&self, data: &[u8]) -> Result<()> {
        Ok((&self.0[0]).write_all(data)?)
    }
    fn asked(&self, data: &mut [u8]) -> Result<()> {
        Ok((&self.0[1]).read_exact(data)?)
    }
    fn reply(&self, data: &[u8]) -> Result<()> {
        Ok((&self.0[1]).write_all(data)?)
    }
    fn replied(&self, data: &mut [u8]) -> Result<()> {
        Ok((&self.0[0]).read_exact(data)?)
    }
    fn pace(&self, rate: u32) -> Result<()> {
        let bytes = rate / 8;
        for end in &self.0 {
            // SAFETY: the socket is open, and the option's value is of the length that is told.
            let set = unsafe {
                libc::setsockopt(
                    end.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_MAX_PACING_RATE,
                    (&raw const bytes).cast(),
                    size_of_val(&bytes) as libc::socklen_t,
                )
            };
            ensure!(set == 0, "SO_MAX_PACING_RATE: {}", Error::last_os_error());
        }
        Ok(())
    }
}

/// Datagrams of a packet each, as many as a message needs. Nobody makes sure that they arrive.
struct Udp([UdpSocket; 2]);

/// Bytes of one.
const DATAGRAM: usize = 1472;

impl Udp {
    fn new(net: &Net) -> Result<Self> {
        let [near, far] = [0, 1].map(|end| SocketAddr::from((net.hosts[end].v4, PORT)));
        let socket = |end: usize, at: SocketAddr, to: SocketAddr| -> Result<UdpSocket> {
            let socket = net.hosts[end].ns.enter(|| Ok(UdpSocket::bind(at)?))?;
            socket.connect(to)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        Ok(Self([socket(0, near, far)?, socket(1, far, near)?]))
    }

    fn send(&self, end: usize, data: &[u8]) -> Result<()> {
        data.chunks(DATAGRAM).try_for_each(|datagram| {
            self.0[end].send(datagram)?;
            Ok(())
        })
    }

    fn receive(&self, end: usize, data: &mut [u8]) -> Result<()> {
        let mut have = 0;
        while have < data.len() {
            have += self.0[end].recv(&mut data[have..])?;
        }
        Ok(())
    }
}

impl Ends for Udp {
    fn ask(&self, data: &[u8]) -> Result<()> {
        self.send(0, data)
    }
    fn asked(&self, data: &mut [u8]) -> Result<()> {
        self.receive(1, data)
    }
    fn reply(&self, data: &[u8]) -> Result<()> {
        self.send(1, data)
    }
    fn replied(&self, data: &mut [u8]) -> Result<()> {
        self.receive(0, data)
    }
    fn pace(&self, _: u32) -> Result<()> {
        bail!("nobody paces UDP")
    }
}

/// Requests and answers of this length.
fn pairs(ends: &dyn Ends, len: usize, count: u64) -> Result<()> {
    thread::scope(|scope| {
        let server = scope.spawn(move || -> Result<()> {
            let mut data = vec![0; len];
            (0..count).try_for_each(|_| {
                ends.asked(&mut data)?;
                ends.reply(&data)
            })
        });
        let data = vec![0x5a; len];
        let mut back = vec![0; len];
        for _ in 0..count {
            ends.ask(&data)?;
            ends.replied(&mut back)?;
        }
        ensure!(back == data, "another answer");
        server
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// One message, and a short answer when it was read.
fn bulk(ends: &dyn Ends, len: usize) -> Result<()> {
    thread::scope(|scope| {
        let server = scope.spawn(move || -> Result<()> {
            let mut data = vec![0; 1 << 18];
            let mut left = len;
            while left != 0 {
                let part = left.min(data.len());
                ends.asked(&mut data[..part])?;
                left -= part;
            }
            ends.reply(&[1])
        });
        ends.ask(&vec![0x5a; len])?;
        ends.replied(&mut [0])?;
        server
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measure(idler: &Idler<'_>) -> Result<Vec<Messages>> {
    run_here("modprobe turnstile", "")?.success()?;
    let net = Builder::pair().build()?;
    let all: [(&str, Box<dyn Ends>); 3] = [
        ("turnstile", Box::new(Turnstile::new(&net)?)),
        ("tcp", Box::new(Tcp::new(&net)?)),
        ("udp", Box::new(Udp::new(&net)?)),
    ];
    let mut figures = Vec::new();
    for (transport, ends) in &all {
        for (what, len, count) in PAIRS {
            pairs(&**ends, len, WARM_UP)?;
            let batches: Result<Vec<u64>> = (0..BATCHES)
                .map(|_| idler.instructions(|| pairs(&**ends, len, count)))
                .collect();
            let mut batches = batches?;
            println!("bench: {transport}, {what}: {batches:?}");
            let (_, spent, _) = batches.select_nth_unstable(BATCHES / 2);
            let spent = *spent;
            figures.push(Messages {
                transport: (*transport).into(),
                what: what.into(),
                instructions: spent as f64 / (2 * count) as f64,
            });
        }
        // Nobody holds UDP back: it would lose most.
        if *transport == "udp" {
            continue;
        }
        for (what, pace) in [("byte of 8 MiB", None), ("the same, paced", Some(PACE))] {
            if let Some(rate) = pace {
                ends.pace(rate)?;
            }
            bulk(&**ends, BULK_WARM_UP)?;
            let spent = idler.instructions(|| bulk(&**ends, BULK))?;
            figures.push(Messages {
                transport: (*transport).into(),
                what: what.into(),
                instructions: spent as f64 / BULK as f64,
            });
        }
    }
    Ok(figures)
}

/// Measures all.
///
/// # Errors
/// Something could not be set up, or did not arrive.
pub(super) fn run() -> Result<Vec<Messages>> {
    let (rounds, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let param = libc::sched_param { sched_priority: 0 };
            // SAFETY: the parameters live until the call returns; the call is for this thread.
            let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) };
            if set == 0 {
                while !stop.load(Ordering::Relaxed) {
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let measured = (|| {
            thread::sleep(Duration::from_millis(10));
            let (began, before) = (Instant::now(), rounds.load(Ordering::Relaxed));
            thread::sleep(Duration::from_millis(100));
            let per = rounds.load(Ordering::Relaxed) - before;
            ensure!(per > 1000, "the thread that counts does not run");
            let rate = (per, began.elapsed().as_nanos() as u64);
            let rounds = &rounds;
            measure(&Idler { rounds, rate }).context("what messages cost")
        })();
        stop.store(true, Ordering::Relaxed);
        measured
    })
}
