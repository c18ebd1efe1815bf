// SPDX-License-Identifier: GPL-2.0
//! Messages that must arrive whole and once, whatever others do meanwhile.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket};

use super::HONEST;
use crate::netns::Netns;

/// How long one of them may take. It would be milliseconds if the others did not keep the machine
/// busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends messages one after the other, and reads them at the other end.
pub(super) struct Honest {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<Served>>,
}

/// What became of them.
pub(super) struct Served {
    /// All were delivered, whole and once.
    pub(super) messages: u64,
    /// The longest that one took.
    pub(super) longest: Duration,
}

fn socket(ns: &Netns, local: &str) -> Result<Socket> {
    let socket = ns.enter(|| Ok(Socket::bind(local)?))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

impl Honest {
    /// From a namespace and an address there to the others.
    pub(super) fn start(
        (from, sender): (&Netns, IpAddr),
        (to, receiver): (&Netns, IpAddr),
    ) -> Result<Self> {
        let address = SocketAddr::from((receiver, HONEST));
        let receiver = socket(to, &format!("[::]:{HONEST}"))?;
        // Others may guess the port: what they send is not for it.
        receiver.connect((sender, HONEST))?;
        let sender = socket(from, &format!("[::]:{HONEST}"))?;
        sender.set_completions(true)?;
        let over = Arc::new(AtomicBool::new(false));
        let watch = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut served = Served {
                messages: 0,
                longest: Duration::ZERO,
            };
            let mut rng = fastrand::Rng::with_seed(7);
            while !watch.load(Ordering::Relaxed) {
                let began = Instant::now();
                let mut data = vec![0; rng.usize(1..30_000)];
                rng.fill(&mut data);
                one(&sender, &receiver, address, &data)
                    .with_context(|| format!("honest message {}", served.messages))?;
                served.messages += 1;
                served.longest = served.longest.max(began.elapsed());
                // The others are to have the machine most of the time.
                std::thread::sleep(Duration::from_millis(20));
            }
            receiver.set_read_timeout(Some(Duration::from_secs(1)))?;
            let more = receiver.recv_message(1 << 20);
            ensure!(more.is_err(), "a message came twice: {more:?}");
            Ok(served)
        });
        Ok(Self { over, thread })
    }

    /// Ends it. At least some must have been served.
    pub(super) fn finish(self) -> Result<Served> {
        self.over.store(true, Ordering::Relaxed);
        let served = self
            .thread
            .join()
            .map_err(|_| anyhow!("the honest thread panicked"))??;
        ensure!(
            served.messages >= 5,
            "only {} honest messages were served",
            served.messages
        );
        Ok(served)
    }

    /// Whether it has failed, and need not be waited for.
    pub(super) fn failed(&self) -> bool {
        self.thread.is_finished()
    }
}

fn one(sender: &Socket, receiver: &Socket, to: SocketAddr, data: &[u8]) -> Result<()> {
    sender.send_to(data, to, &SendOptions::default())?;
    let got = receiver.recv_message(1 << 20).context("receiving")?;
    ensure!(
        got.data == data,
        "{} bytes came, other than the {} that were sent",
        got.data.len(),
        data.len()
    );
    let done = sender
        .wait_completion(Some(PATIENCE))?
        .context("it is not known to be delivered")?;
    done.outcome.context("not delivered")
}
