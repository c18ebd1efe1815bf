// SPDX-License-Identifier: GPL-2.0
//! Random system calls on everything that the modules can be reached by: sockets, packets, generic
//! netlink, rtnetlink, `/proc`, namespaces, devices, control groups, BPF programs. In the manner of
//! syzkaller; for which `docs/fuzz/turnstile.txt` describes the same surface.
//!
//! The kernel may refuse whatever it likes. What counts is that it reports nothing (KASAN, lockdep,
//! a leak: the harness looks), that everything can be taken down afterwards, and that messages
//! cross the same module then. A generator whose calls all fail would find nothing, so each kind of
//! call must succeed now and then ([`floors`]), and messages must be delivered.
//!
//! | module | what it calls |
//! |---|---|
//! | [`sockets`], [`values`] | sockets of the transport |
//! | [`packets`] | packets: of messages under way, changed ones, forged ones |
//! | [`generic`], [`settings`] | the generic netlink family |
//! | [`qdiscs`] | qdiscs, classes and filters |
//! | [`devices`] | devices that come and go |
//! | [`spaces`] | namespaces of the network and of users, `/proc`, modules |
//! | [`programs`] | control groups and BPF programs |
//!
//! [`hand`] is what a thread has in its hands, [`tally`] counts, [`faults`] lets allocations fail,
//! [`gone`] is the end of a round.

mod devices;
pub(in crate::cases) mod faults;
mod floors;
mod generic;
mod gone;
mod hand;
mod packets;
mod programs;
mod qdiscs;
mod settings;
mod sockets;
mod spaces;
mod tally;
mod values;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi::{command, stat, FAMILY};
use turnstile_socket::{SendOptions, Socket};

use crate::cmd::run_here;
use crate::events::{Event, Events};
use crate::harness::kmsg::Watch;
use crate::harness::{is_sanitized, Case, Ctx, Need};
use crate::netns::Netns;
use crate::raw_netlink::{Generic, GenericRequest};
use crate::rng::Rng;
use crate::topology::{Builder, Net};

use faults::{Faults, Notices};
use hand::{Hand, Shared};
use tally::Tally;

/// Waits cost nothing in virtual time, and calls come in the same order each time. With so many
/// kinds of objects the kernel keeps more of them than after other cases.
pub(in crate::cases) const CASES: &[Case] = &[Case::new("fuzz/system-calls", system_calls)
    .needs(&[Need::VirtualTime])
    .timeout_s(6000)
    .crowded()];

/// Calls of each thread in a round, before the machine is taken down and set up anew.
const CALLS: u32 = 2000;
/// Threads, half of them in either namespace.
const THREADS: usize = 4;
/// Calls of a thread between its looks at the kernel's log.
const LOOK: u32 = 50;

/// How many rounds where there are detectors, of about half a minute each, and elsewhere, of some
/// seconds.
const ROUNDS_SANITIZED: u32 = 5;
const ROUNDS: u32 = 4;

fn system_calls(ctx: &mut Ctx) -> Result<()> {
    run_here("modprobe turnstile", "")?.success()?;
    run_here("modprobe sch_turnstile", "")?.success()?;
    let _notices = Faults::open().can().then(Notices::shown);
    let events = Events::from_env();
    let mut tally = Tally::default();
    let mut longest = Duration::ZERO;
    let rounds = if is_sanitized() {
        ROUNDS_SANITIZED
    } else {
        ROUNDS
    };
    for round in 1..=rounds {
        let seed = ctx.rng.range(0..=u64::MAX);
        println!("    round {round} of {rounds}");
        let took = one_round(seed, &mut tally)
            .and_then(|took| works().context("afterwards").map(|()| took))
            .with_context(|| format!("seed {}, round {round}", ctx.seed))?;
        longest = longest.max(took);
        events.send(&Event::Progress {
            text: format!("round {round} of {rounds}: {}", tally.summary()),
        });
    }
    ctx.note(format!("nothing was left of a round after {longest:?}"));
    for line in tally.table() {
        ctx.note(line);
    }
    floors::check(&tally, u64::from(rounds))
}

/// Sets up two hosts, lets all threads call, and takes it down; how long the last socket stayed.
fn one_round(seed: u64, tally: &mut Tally) -> Result<Duration> {
    let net = Builder::pair().queues(2).build()?;
    for host in &net.hosts {
        let usual = settings::usual::<Config>();
        let set = GenericRequest::new(command::TRANSPORT_SET, &usual);
        let (_, answer) = Generic::open(&host.ns, FAMILY)?.request(&set)?;
        answer.success().context("the usual options")?;
    }
    let shared = Shared::new(&net)?;
    let result = std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (net, shared) = (&net, &shared);
                scope.spawn(move || {
                    let host = &net.hosts[number % net.hosts.len()];
                    let made = host.ns.enter(|| one_thread(number, seed, net, shared));
                    if made.is_err() {
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                    made
                })
            })
            .collect();
        // All are waited for before the first failure is told.
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        for tallied in ended {
            let tallied = tallied.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            tally.add(&tallied);
        }
        count_packets(&net, tally)
    });
    result.with_context(|| format!("the last calls:\n{}", shared.last_calls()))?;
    drop(shared);
    gone::all_gone(net, &mut Rng::new(seed, "the end"))
}

/// What one thread does.
fn one_thread(number: usize, seed: u64, net: &Net, shared: &Shared) -> Result<Tally> {
    let mut hand = Hand::new(number, seed, net, shared)?;
    let mut log = Watch::start()?;
    let faults = Faults::open();
    for call in 0..CALLS {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        one_call(&mut hand, &faults);
        if call % LOOK == 0 {
            let complaints = log.complaints()?;
            if !complaints.is_empty() {
                bail!("the kernel complained: {}", complaints.join(" | "));
            }
        }
    }
    Ok(hand.tally)
}

/// A call, or some that belong together.
fn one_call(hand: &mut Hand<'_>, faults: &Faults) {
    let fails = faults.can() && hand.rng.one_in(8);
    if fails {
        let nth = hand.rng.range(1..=6);
        faults.arm(nth);
    }
    match hand.rng.index(200) {
        0..130 => sockets::call(hand),
        130..150 => packets::call(hand),
        150..162 => generic::call(hand),
        162..182 => qdiscs::call(hand),
        182..188 => devices::call(hand),
        188..194 => programs::call(hand),
        _ => spaces::call(hand),
    }
    if fails {
        let happened = faults.disarm();
        hand.tally.count("an allocation that fails", happened);
    }
    match hand.rng.index(100) {
        // Others' turn; and time for timers, which stands still while threads only compute.
        0..20 => std::thread::yield_now(),
        20 => std::thread::sleep(Duration::from_micros(hand.rng.range(1..=20_000))),
        _ => {}
    }
}

/// Adds what the transport of both hosts has counted.
fn count_packets(net: &Net, tally: &mut Tally) -> Result<()> {
    for host in &net.hosts {
        let stats = Generic::open(&host.ns, FAMILY)?.read(command::STATS_GET)?;
        for (place, counter) in Counter::ALL.iter().enumerate() {
            let number = stat::FIRST + u16::try_from(place)?;
            tally.counter(counter.name(), stats.number(number).unwrap_or(0));
        }
    }
    Ok(())
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
