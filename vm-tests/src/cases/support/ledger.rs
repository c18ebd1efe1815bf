// SPDX-License-Identifier: GPL-2.0
//! What must add up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use turnstile_core::port::uapi::band_stat;

use crate::netns::Netns;
use crate::raw_netlink::{Object, Stats, Tc};

/// Why a class drops.
const CAUSES: [u16; 6] = [
    band_stat::OVER_LIMIT,
    band_stat::EXPIRED,
    band_stat::TRIMMED,
    band_stat::PURGED,
    band_stat::STORMED,
    band_stat::CHILD,
];
/// What counts time, and moves though nothing else does.
const CLOCKS: [u16; 5] = [
    band_stat::PFC_TIME,
    band_stat::PFC_LONGEST,
    band_stat::TCD_TIME_NOT_CONGESTED,
    band_stat::TCD_TIME_CONGESTED,
    band_stat::TCD_TIME_UNDETERMINED,
];

/// How a class stands, in a few words.
pub(in crate::cases) fn describe(class: &Object) -> String {
    let stats = &class.stats;
    format!(
        "class {:x}:{:x}: offered {} sent {} queued {} over-limit {} expired {} trimmed {} purged \
         {} child {} (qlen {} backlog {})",
        class.handle >> 16,
        class.handle & 0xffff,
        stats.app(band_stat::OFFERED_PACKETS),
        stats.packets,
        stats.app(band_stat::QUEUED),
        stats.app(band_stat::OVER_LIMIT),
        stats.app(band_stat::EXPIRED),
        stats.app(band_stat::TRIMMED),
        stats.app(band_stat::PURGED),
        stats.app(band_stat::CHILD),
        stats.qlen,
        stats.backlog,
    )
}

/// Packets that a class has dropped, whatever the cause.
pub(in crate::cases) fn dropped(stats: &Stats) -> u64 {
    CAUSES.iter().map(|cause| stats.app(*cause)).sum()
}

/// Whether every packet offered to the class was sent, is queued, or was dropped for a cause.
pub(in crate::cases) fn check_class(class: &Object) -> Result<()> {
    let stats = &class.stats;
    ensure!(!stats.app.is_empty(), "no statistics: {}", describe(class));
    let accounted = stats.packets + stats.app(band_stat::QUEUED) + dropped(stats);
    ensure!(
        stats.app(band_stat::OFFERED_PACKETS) == accounted,
        "{accounted} packets accounted for: {}",
        describe(class)
    );
    ensure!(
        u64::from(stats.drops) == dropped(stats),
        "drops {} in all: {}",
        stats.drops,
        describe(class)
    );
    ensure!(
        u64::from(stats.qlen) == stats.app(band_stat::QUEUED),
        "{}",
        describe(class)
    );
    Ok(())
}

/// Follows a port's classes while traffic goes on.
#[derive(Debug, Default)]
pub(in crate::cases) struct Ledger {
    last: BTreeMap<u32, Stats>,
}

impl Ledger {
    /// Reads the classes of the port once, and checks each, and that no counter has gone back.
    pub(in crate::cases) fn check_running(&mut self, tc: &mut Tc, port: u32) -> Result<()> {
        for class in tc.classes_of(port)? {
            check_class(&class)?;
            if let Some(last) = self.last.get(&class.handle) {
                let own = [band_stat::OFFERED_PACKETS, band_stat::OFFERED_BYTES];
                let back = own
                    .iter()
                    .chain(&CAUSES)
                    // What a child dropped is an estimate while it holds super-packets.
                    .filter(|number| **number != band_stat::CHILD)
                    .find(|number| class.stats.app(**number) < last.app(**number));
                ensure!(
                    back.is_none() && class.stats.packets >= last.packets,
                    "counter {back:?} went back: {}, before: {last:?}",
                    describe(&class)
                );
            }
            self.last.insert(class.handle, class.stats);
        }
        Ok(())
    }
}

/// How long a queue may take to drain.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long it may hold the same packets.
const STUCK: Duration = Duration::from_secs(3);

/// A device at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cases) struct Settled {
    qdiscs: Vec<Object>,
    classes: Vec<Object>,
}

impl Settled {
    fn read(tc: &mut Tc, ports: &[u32]) -> Result<Self> {
        let mut classes = Vec::new();
        for port in ports {
            classes.extend(tc.classes_of(*port)?);
        }
        for class in &mut classes {
            let app = &mut class.stats.app;
            app.retain(|number, _| !CLOCKS.contains(number));
        }
        Ok(Self {
            qdiscs: tc.qdiscs()?,
            classes,
        })
    }

    /// A class that was listed.
    pub(in crate::cases) fn class(&self, class: u32) -> Result<&Object> {
        self.classes
            .iter()
            .find(|found| found.handle == class)
            .with_context(|| format!("no class {:x}:{:x}", class >> 16, class & 0xffff))
    }

    /// A qdisc that was listed.
    pub(in crate::cases) fn qdisc(&self, handle: u32) -> Result<&Object> {
        self.qdiscs
            .iter()
            .find(|found| found.handle == handle)
            .with_context(|| format!("no qdisc {:x}:", handle >> 16))
    }

    /// Checks a port: nothing queued, all accounted for, the port sent what its classes sent.
    /// Gives the sum of what the classes sent, in packets and bytes.
    pub(in crate::cases) fn check(&self, port: u32) -> Result<(u64, u64)> {
        let port = self.qdisc(port)?;
        let (mut packets, mut bytes) = (0, 0);
        for class in &self.classes {
            if class.handle & 0xffff_0000 != port.handle {
                continue;
            }
            check_class(class)?;
            ensure!(
                class.stats.qlen == 0 && class.stats.backlog == 0,
                "the port is empty, but not its {}",
                describe(class)
            );
            packets += class.stats.packets;
            bytes += class.stats.bytes;
        }
        ensure!(
            (port.stats.packets, port.stats.bytes) == (packets, bytes),
            "its classes sent {packets} packets {bytes} bytes: {}",
            describe_qdisc(port)
        );
        Ok((packets, bytes))
    }
}

/// Waits until nothing is queued on the device and nothing moves.
pub(in crate::cases) fn settle(tc: &mut Tc, ports: &[u32]) -> Result<Settled> {
    let began = Instant::now();
    let mut moved = Instant::now();
    let mut last = Settled::read(tc, ports)?;
    loop {
        std::thread::sleep(Duration::from_millis(30));
        let now = Settled::read(tc, ports)?;
        let holds = now
            .qdiscs
            .iter()
            .filter(|qdisc| qdisc.stats.qlen != 0 || qdisc.stats.backlog != 0);
        let holds: Vec<_> = holds.map(describe_qdisc).collect();
        let still = now == last;
        if still && holds.is_empty() {
            return Ok(now);
        }
        if !still {
            moved = Instant::now();
            last = now;
        }
        if moved.elapsed() > STUCK || began.elapsed() > PATIENCE {
            let classes: Vec<_> = last.classes.iter().map(describe).collect();
            bail!(
                "not empty {} ms after the last sender stopped: {}; {}",
                began.elapsed().as_millis(),
                holds.join(", "),
                classes.join("; ")
            );
        }
    }
}

/// How a qdisc stands.
pub(in crate::cases) fn describe_qdisc(qdisc: &Object) -> String {
    format!(
        "{} {:x}: sent {} packets {} bytes, qlen {} backlog {}",
        qdisc.kind,
        qdisc.handle >> 16,
        qdisc.stats.packets,
        qdisc.stats.bytes,
        qdisc.stats.qlen,
        qdisc.stats.backlog
    )
}

/// As [`settle`], and what the counter at the other end shows then. Neighbours may speak to each
/// other at any time: what is read belongs together if nothing has moved in between.
pub(in crate::cases) fn settle_with(
    tc: &mut Tc,
    ports: &[u32],
    counter: &Counter<'_>,
) -> Result<(Settled, (u64, u64))> {
    for _ in 0..20 {
        let settled = settle(tc, ports)?;
        let arrived = counter.read()?;
        if Settled::read(tc, ports)? == settled {
            return Ok((settled, arrived));
        }
    }
    bail!("packets keep coming after the last sender has stopped")
}

/// Counts what arrives on a device, segments of super-packets each, and ends UDP there.
#[derive(Debug)]
pub(in crate::cases) struct Counter<'a> {
    ns: &'a Netns,
}

impl<'a> Counter<'a> {
    /// On eth0 of `ns`.
    pub(in crate::cases) fn install(ns: &'a Netns) -> Result<Self> {
        ns.run_with(
            "tc -batch -",
            "qdisc add dev eth0 clsact\n\
             filter add dev eth0 ingress protocol all prio 1 matchall action continue\n\
             filter add dev eth0 ingress protocol ip prio 2 flower ip_proto udp action drop\n\
             filter add dev eth0 ingress protocol ipv6 prio 3 flower ip_proto udp action drop\n",
        )?;
        Ok(Self { ns })
    }

    /// Packets and bytes so far.
    pub(in crate::cases) fn read(&self) -> Result<(u64, u64)> {
        let all = self.ns.tc_json("-s filter show dev eth0 ingress")?;
        let filters = all.as_array().context("no list of filters")?;
        let stats = filters
            .iter()
            .filter(|filter| filter["kind"] == "matchall")
            .find_map(|filter| filter["options"]["actions"][0]["stats"].as_object())
            .with_context(|| format!("no counter in {all}"))?;
        let number = |key: &str| stats.get(key).and_then(serde_json::Value::as_u64);
        number("packets")
            .zip(number("bytes"))
            .with_context(|| format!("no counter in {all}"))
    }
}
