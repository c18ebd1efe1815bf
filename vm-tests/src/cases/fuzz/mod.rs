// SPDX-License-Identifier: GPL-2.0
//! Random system calls on everything that the modules can be reached by: sockets, packets, generic
//! netlink, rtnetlink, `/proc`, namespaces, devices, BPF programs. In the manner of syzkaller; for
//! which `docs/fuzz/turnstile.txt` describes the same surface.
//!
//! The kernel may refuse whatever it likes. What counts is that it reports nothing (KASAN, lockdep,
//! a leak: the harness looks), that everything can be taken down afterwards, and that messages
//! cross the same module then.

mod control;
mod filters;
mod packets;
mod sockets;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket};

use crate::cmd::run_here;
use crate::harness::{Case, Ctx};
use crate::netns::Netns;
use crate::rng::Rng;
use crate::topology::{Builder, Net};

pub(in crate::cases) const CASES: &[Case] =
    &[Case::new("fuzz/system-calls", system_calls).timeout_s(3000)];

/// Calls of each thread before the machine is taken down and set up anew.
const CALLS: u32 = 4000;
/// How often.
const ROUNDS: u32 = 10;
/// Threads, half of them in either namespace.
const THREADS: usize = 4;

/// What a thread has to work with.
struct Thread {
    rng: Rng,
    sockets: sockets::Sockets,
    control: control::Control,
    faults: Faults,
}

fn system_calls(ctx: &mut Ctx) -> Result<()> {
    run_here("modprobe turnstile", "")?.success()?;
    run_here("modprobe sch_turnstile", "")?.success()?;
    for round in 0..ROUNDS {
        let net = Builder::pair().build()?;
        let seed = ctx.rng.range(0..=u64::MAX);
        one_round(&net, seed).with_context(|| format!("round {round}"))?;
        works().with_context(|| format!("after round {round}"))?;
    }
    Ok(())
}

fn one_round(net: &Net, seed: u64) -> Result<()> {
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let side = thread % 2;
                scope.spawn(move || {
                    net.hosts[side].ns.enter(|| {
                        let mut it = Thread {
                            rng: Rng::new(seed, &format!("thread {thread}")),
                            sockets: sockets::Sockets::default(),
                            control: control::Control::open(&net.hosts[side])?,
                            faults: Faults::open(),
                        };
                        for _ in 0..CALLS {
                            it.call();
                        }
                        Ok(())
                    })
                })
            })
            .collect();
        for thread in threads {
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(())
    })
}

impl Thread {
    fn call(&mut self) {
        let fails = self.rng.one_in(8);
        if fails {
            self.faults.arm(self.rng.range(1..=12));
        }
        match self.rng.index(100) {
            0..70 => self.sockets.call(&mut self.rng),
            70..80 => packets::send(&mut self.rng),
            80..86 => filters::attach(&mut self.rng, &self.sockets),
            _ => self.control.call(&mut self.rng),
        }
        if fails {
            self.faults.disarm();
        }
        if self.rng.one_in(500) {
            std::thread::sleep(Duration::from_millis(self.rng.range(1..=300)));
        }
    }
}

/// Lets the n-th allocation of this thread's next calls fail, where the kernel can.
struct Faults(Option<std::fs::File>);

impl Faults {
    fn open() -> Self {
        let path = "/proc/thread-self/fail-nth";
        Self(std::fs::File::options().write(true).open(path).ok())
    }

    fn write(&self, n: u64) {
        use std::io::Write;
        if let Some(mut file) = self.0.as_ref() {
            // A refusal means only that nothing fails.
            let _ = file.write(format!("{n}").as_bytes());
        }
    }

    fn arm(&self, n: u64) {
        self.write(n);
    }

    fn disarm(&self) {
        self.write(0);
    }
}

/// That messages cross between two sockets of a new namespace.
fn works() -> Result<()> {
    let ns = Netns::create("fuzz-after")?;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 4001));
    let (receiver, sender) = ns.enter(|| Ok((Socket::bind(to)?, Socket::bind("127.0.0.1:0")?)))?;
    receiver.set_read_timeout(Some(Duration::from_secs(20)))?;
    sender.send_to(b"still here", to, &SendOptions::default())?;
    let got = receiver.recv_message(100).context("a message afterwards")?;
    ensure!(got.data == b"still here", "{:?} came", got.data);
    Ok(())
}
