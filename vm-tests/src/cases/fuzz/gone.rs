// SPDX-License-Identifier: GPL-2.0
//! The end of a round: nothing of it is left, within the time that the transport promises.
//!
//! The promise is about messages: those of a closed socket end when their receivers have taken
//! nothing for some times `timeout` (docs/sockets.md, "The end"). It is none about packets. One
//! that waits in a queue holds its socket, which holds its namespace with that very queue, as UDP's
//! packets do; and a port may be as slow as 1 kbit/s, by which a queue takes hours. So the queues
//! are emptied first. From then on nobody takes anything, as no socket is open, and the time is
//! known.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use turnstile_core::transport::config::Config;

use crate::netns::Netns;
use crate::raw_netlink::{Tc, ROOT};
use crate::rng::Rng;
use crate::topology::Net;

use super::qdiscs::DEVICES;
use super::settings;

/// A message whose socket is closed ends after so many times `timeout` without progress.
const TIMEOUTS: u64 = 6;
/// Beyond that: a packet may wait for a neighbour's address for some seconds, and what is freed
/// goes after grace periods.
const SLACK: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// The transport, and qdiscs.
const MODULES: [&str; 2] = ["turnstile", "sch_turnstile"];

/// How long sockets may be there that are closed, while packets do not wait.
fn patience() -> Duration {
    // The hosts have one timeout; namespaces that threads make have the usual one.
    let timeout = settings::LONGEST.max(Config::DEFAULT.timeout);
    Duration::from_nanos(TIMEOUTS * timeout) + SLACK
}

/// Takes a round's hosts down after all sockets were closed, and waits until nothing is left; how
/// long that took.
pub(super) fn all_gone(net: Net, rng: &mut Rng) -> Result<Duration> {
    let began = Instant::now();
    let off = rng.one_in(2);
    for host in &net.hosts {
        empty(&host.ns, off).with_context(|| format!("queues of {}", host.ns.name()))?;
    }
    // The hosts stay until then, to be asked what there is; each socket would hold its own anyway.
    if !wait(&MODULES[..1], patience()) {
        bail!(
            "{} {:?} after the last socket was closed\n{}",
            used(&MODULES),
            patience(),
            evidence(&net)
        );
    }
    drop(net);
    ensure!(
        wait(&MODULES, SLACK),
        "{} {SLACK:?} after the namespaces' end, without a socket in them",
        used(&MODULES)
    );
    Ok(began.elapsed())
}

/// Waits until none of the modules is in use.
fn wait(modules: &[&str], patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while modules.iter().any(|module| references(module) != 0) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

/// How many hold the module; 0 also while it is not loaded.
fn references(module: &str) -> u64 {
    let count = std::fs::read_to_string(format!("/sys/module/{module}/refcnt"));
    count.map_or(0, |count| count.trim().parse().unwrap_or(0))
}

fn used(modules: &[&str]) -> String {
    let each: Vec<_> = modules
        .iter()
        .map(|module| format!("{} hold {module}", references(module)))
        .collect();
    each.join(", ")
}

/// Drops what waits in a host's queues: with its qdiscs, or by switching the devices off, by which
/// qdiscs are left for the namespace's end, and messages for their timeouts.
fn empty(ns: &Netns, off: bool) -> Result<()> {
    for device in DEVICES {
        // Some come and go.
        let Ok(mut tc) = Tc::open(ns, device) else {
            continue;
        };
        if off {
            ns.ip(&format!("link set {device} down"))?;
        } else {
            // There may be none.
            tc.delete(ROOT)?;
        }
        for qdisc in tc.qdiscs()? {
            let waiting = qdisc.stats.qlen;
            ensure!(
                waiting == 0,
                "{waiting} packets wait in {} {:x} of {device}, switched off: {off}",
                qdisc.kind,
                qdisc.handle
            );
        }
    }
    Ok(())
}

/// What the hosts know of what is left.
fn evidence(net: &Net) -> String {
    let mut text = String::from(
        "  A socket that is in no list of sockets has no message: packets that wait somewhere hold \
         it, or it is in a namespace that a thread has made.\n",
    );
    for host in &net.hosts {
        for line in [
            "turnstile sockets",
            "turnstile flows",
            "turnstile transport show",
            "cat /proc/net/protocols",
            "tc -s qdisc",
        ] {
            text += &format!("  {}: {line}\n", host.ns.name());
            let said = host.ns.try_run(line);
            let said =
                said.map_or_else(|error| error.to_string(), |said| said.stdout + &said.stderr);
            for line in said.lines().filter(|line| is_of_interest(line)) {
                text += &format!("    {line}\n");
            }
        }
    }
    text
}

/// Of protocols, only the transport's count.
fn is_of_interest(line: &str) -> bool {
    let is_protocol = line.ends_with(" y") || line.ends_with(" n");
    !is_protocol || line.starts_with("TURNSTILE")
}
