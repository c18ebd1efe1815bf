// SPDX-License-Identifier: GPL-2.0
//! A port under traffic of every kind, and thousands of random operations on it. Afterwards,
//! everything adds up.

use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::{class, option, port_stat, SPLIT_GSO_ALL};

use crate::cases::port::trees::deep::{self, Kind};
use crate::cases::support::ledger::{settle_with, Counter, Ledger};
use crate::cases::support::load::{Load, Mix};
use crate::harness::Ctx;
use crate::netns::Netns;
use crate::raw_netlink::kinds::{fifo, netem, prio, tbf, Netem};
use crate::raw_netlink::{
    attribute, attribute_u32, attribute_u64, turnstile, Answer, Object, Request, Tc, ROOT,
};
use crate::rng::Rng;
use crate::topology::{Builder, Net};

/// Where the port is.
pub(super) struct Place {
    /// What makes it, for `tc -batch`.
    pub(super) setup: &'static str,
    /// Instead of that, so many qdiscs of any kinds above the port.
    pub(super) levels: usize,
    /// The handles of the ports whose packets leave the device.
    pub(super) ports: &'static [u32],
    /// Ports behind these.
    pub(super) inner: &'static [u32],
    /// A parent looks at packets before it takes them. It may have done so with one of the port's
    /// packets, which then is no longer in its queue.
    pub(super) peeks: bool,
    /// Graft children on the data class.
    pub(super) children: bool,
    /// Take the link down and up: all queues are reset.
    pub(super) downs: bool,
    /// Transmit queues of the device.
    pub(super) queues: u32,
    /// The ports are of one group, which is at the root: options are changed there.
    pub(super) group: bool,
}

/// The most segments of a super-packet that are sent here.
const SEGMENTS: u64 = 201;

/// No parent here looks at a packet longer than this before it takes it.
const LOOK: Duration = Duration::from_millis(200);

/// The port below [`Place::levels`].
const LEAF: &str = "turnstile link 50mbit";

/// The handle of what is at the root, where that is a group.
const GROUP: u32 = 0x1_0000;

/// How many operations.
const OPERATIONS: u32 = 500;
/// How many of them between resets.
const RESET_EVERY: u32 = 90;

pub(super) fn run(ctx: &mut Ctx, place: &Place) -> Result<()> {
    let seed = ctx.seed;
    run_seeded(ctx, place).with_context(|| format!("seed {seed}"))
}

fn run_seeded(ctx: &mut Ctx, place: &Place) -> Result<()> {
    let net = Builder::pair().queues(place.queues).build()?;
    let ns = &net.hosts[0].ns;
    // Addresses outlive the link.
    ns.sysctl("net/ipv6/conf/eth0/keep_addr_on_down", "1")?;
    let counter = Counter::install(&net.hosts[1].ns)?;
    if place.levels == 0 {
        ns.run_with("tc -batch -", place.setup)?;
    } else {
        let levels: Vec<_> = (0..place.levels)
            .map(|_| *ctx.rng.pick(&Kind::STOCK))
            .collect();
        ctx.note(format!("{levels:?}"));
        ns.run_with("tc -batch -", &deep::setup(&levels, LEAF))
            .with_context(|| format!("{levels:?}"))?;
    }

    let all: Vec<u32> = [place.ports, place.inner].concat();
    let seed = ctx.rng.range(0..=u64::MAX);
    let mut work = Work {
        net: &net,
        place,
        tc: Tc::open(ns, "eth0")?,
        start: counter.read()?,
        counter,
        load: None,
        ledgers: all.iter().map(|port| (*port, Ledger::default())).collect(),
        ports: all,
        down: false,
        whole: None,
        counts: Counts::default(),
    };
    work.load = Some(work.start_load(seed)?);
    for number in 0..OPERATIONS {
        let time_for_a_reset = place.downs && number % RESET_EVERY == RESET_EVERY - 1;
        if time_for_a_reset && !work.down {
            work.link_down(&mut ctx.rng)
        } else {
            work.step(&mut ctx.rng)
        }
        .with_context(|| format!("operation {number}"))?;
    }
    let sent = work.balance()?;
    ctx.note(format!("{:?}; {sent} packets sent", work.counts));
    ensure!(sent > 300, "only {sent} packets were sent");
    work.counts.check(place)?;
    delete_under_traffic(&net, &mut work.tc, seed)
}

/// The root goes while packets come in.
fn delete_under_traffic(net: &Net, tc: &mut Tc, seed: u64) -> Result<()> {
    let load = Load::start(net, &Mix::all(&[]), seed)?;
    std::thread::sleep(Duration::from_millis(60));
    tc.delete(ROOT)?.success().context("deleting the root")?;
    std::thread::sleep(Duration::from_millis(20));
    load.stop()?;
    let left = tc.qdiscs()?;
    ensure!(
        left.iter()
            .all(|qdisc| qdisc.kind != turnstile_core::port::uapi::KIND),
        "the port outlives its parent: {left:x?}"
    );
    Ok(())
}

#[derive(Debug, Default)]
struct Counts {
    accepted: u32,
    refused: u32,
    grafts: u32,
    filters: u32,
    downs: u32,
    checks: u32,
}

impl Counts {
    /// Whether the run was about something.
    fn check(&self, place: &Place) -> Result<()> {
        ensure!(
            self.accepted > OPERATIONS / 16
                && self.checks > OPERATIONS / 60
                && (self.downs > 0 || !place.downs),
            "hardly anything was done: {self:?}"
        );
        ensure!(
            !place.children || self.grafts > 3,
            "hardly any child was grafted: {self:?}"
        );
        Ok(())
    }
}

struct Work<'a> {
    net: &'a Net,
    place: &'a Place,
    tc: Tc,
    counter: Counter<'a>,
    /// What the counter showed at first.
    start: (u64, u64),
    /// `None` while all is quiet.
    load: Option<Load>,
    ports: Vec<u32>,
    ledgers: Vec<(u32, Ledger)>,
    down: bool,
    /// When a port was last seen not to split super-packets.
    whole: Option<Instant>,
    counts: Counts,
}

impl Work<'_> {
    fn ns(&self) -> &Netns {
        &self.net.hosts[0].ns
    }

    fn step(&mut self, rng: &mut Rng) -> Result<()> {
        if self.down && rng.one_in(3) {
            return self.up();
        }
        let which = rng.index(self.ledgers.len());
        let port = self.ledgers[which].0;
        match rng.range(0..=99) {
            0..=29 => self.change(rng, port),
            30..=44 if self.place.children && self.has_child_slot(port) => self.graft(rng, port),
            45..=49 if self.place.children && self.has_child_slot(port) => {
                // There may be none.
                self.tc.delete(port | u32::from(class::DATA)).map(drop)
            }
            50..=53 => self.attack_class(rng, port),
            54..=57 => self.filter(rng, port),
            58..=60 => self.tc.delete_filters(port).map(drop),
            63..=72 => {
                self.counts.checks += 1;
                self.check(which)
            }
            // Traffic needs time, too.
            73..=90 => {
                std::thread::sleep(Duration::from_micros(rng.range(100..=6000)));
                Ok(())
            }
            91..=93 => self.bad_change(rng, port),
            _ => self.check(which),
        }
    }

    fn change_port(&mut self, port: u32, options: &[u8]) -> Result<Answer> {
        if !self.place.group {
            return self.tc.change_port(port, options);
        }
        let kind = turnstile_core::port::uapi::KIND_MQ;
        self.tc
            .qdisc(Request::ChangeQdisc, ROOT, GROUP, kind, options)
    }

    /// In a nest of ports, the outer one's child is the inner one, which stays.
    fn has_child_slot(&self, port: u32) -> bool {
        self.place.inner.is_empty() || self.place.inner.contains(&port)
    }

    fn change(&mut self, rng: &mut Rng, port: u32) -> Result<()> {
        let config = self.tc.get(port)?;
        self.note_whole(&config)?;
        let answer = self.change_port(port, &any_options(rng))?;
        // A rate may be no share of the link, a filter or the DSCP map may name a class that would
        // go.
        if answer.errno == 0 {
            self.counts.accepted += 1;
        } else {
            self.counts.refused += 1;
        }
        Ok(())
    }

    fn bad_change(&mut self, rng: &mut Rng, port: u32) -> Result<()> {
        let bad = *rng.pick(&[
            (option::PRIORITIES, 9),
            (option::TOKEN_LIMIT, 0),
            (option::DATA_LIMIT, 1),
            (option::MPU, 1000),
        ]);
        let options = [any_options(rng), attribute_u32(bad.0, bad.1)].concat();
        let answer = self.change_port(port, &options)?;
        ensure!(answer.errno != 0, "option {bad:?} was accepted");
        self.counts.refused += 1;
        Ok(())
    }

    fn graft(&mut self, rng: &mut Rng, port: u32) -> Result<()> {
        let (kind, options) = any_child(rng);
        let parent = port | u32::from(class::DATA);
        let how = *rng.pick(&[
            Request::ReplaceQdisc,
            Request::ReplaceQdisc,
            Request::AddQdisc,
        ]);
        let answer = self.tc.qdisc(how, parent, 0, kind, &options)?;
        // `add` may meet a child of the same kind.
        if answer.errno == 0 {
            self.counts.grafts += 1;
        } else {
            ensure!(
                how == Request::AddQdisc && answer.errno == libc::EEXIST,
                "grafting {kind}: {answer:?}"
            );
        }
        Ok(())
    }

    fn attack_class(&mut self, rng: &mut Rng, port: u32) -> Result<()> {
        let minor = *rng.pick(&[1, 2, 3, 0x10, 0x13, 0x17, 0x20, 0]);
        let what = *rng.pick(&[
            Request::DeleteClass,
            Request::AddClass,
            Request::ChangeClass,
        ]);
        let answer = self.tc.request(what, port, port | minor, &turnstile(&[]))?;
        ensure!(
            answer.errno != 0,
            "{what:?} of class :{minor:x} was accepted"
        );
        let odd = port | *rng.pick(&[1, 3, 0x11, 0x18, 0x99]);
        let answer = self
            .tc
            .qdisc(Request::AddQdisc, odd, 0, "pfifo", &fifo(10))?;
        ensure!(answer.errno != 0, "a child on {odd:x} was accepted");
        self.counts.refused += 2;
        Ok(())
    }

    fn filter(&mut self, rng: &mut Rng, port: u32) -> Result<()> {
        let class = match rng.range(0..=9) {
            0 => None,
            // A class that is not there, of this port and of another.
            1 => Some(port | 0x18),
            2 => Some(0x7_0001),
            _ => Some(port | *rng.pick(&[1, 2, 3, 0x10, 0x11, 0x16])),
        };
        let priority = rng.range(1..=3) as u16;
        if self.tc.add_matchall(port, priority, class)?.errno == 0 {
            self.counts.filters += 1;
        }
        Ok(())
    }

    fn start_load(&self, seed: u64) -> Result<Load> {
        // A packet's priority names classes by the handle of the group.
        let named = if self.place.group {
            &[GROUP]
        } else {
            self.ports.as_slice()
        };
        Load::start(self.net, &Mix::all(named), seed)
    }

    /// Stops all traffic, waits until nothing is queued any more, and does the sums. Gives how many
    /// packets were sent since the beginning.
    fn balance(&mut self) -> Result<u64> {
        if let Some(load) = self.load.take() {
            load.ask_to_stop();
            self.hurry()?;
            load.stop()?;
        }
        let (settled, end) = settle_with(&mut self.tc, &self.ports, &self.counter)?;
        let mut sent = (0, 0);
        for port in &self.ports {
            let (packets, bytes) = settled.check(*port)?;
            if self.place.ports.contains(port) {
                sent = (sent.0 + packets, sent.1 + bytes);
            }
        }
        let arrived = (end.0 - self.start.0, end.1 - self.start.1);
        let lost = if self.place.peeks {
            // At most one super-packet for each time that the link went down.
            SEGMENTS * u64::from(self.counts.downs)
        } else {
            0
        };
        ensure!(
            (arrived.0..=arrived.0 + lost).contains(&sent.0),
            "{} packets sent, {} arrived",
            sent.0,
            arrived.0
        );
        // On the way in, the Ethernet header and up to two VLAN tags are not counted.
        ensure!(
            lost > 0 || (arrived.1 + 14 * sent.0..=arrived.1 + 22 * sent.0).contains(&sent.1),
            "{} bytes sent, {} arrived",
            sent.1,
            arrived.1
        );
        Ok(sent.0)
    }

    /// Takes the link down. That resets the counts of what is queued, right or wrong: they are
    /// checked before.
    fn link_down(&mut self, rng: &mut Rng) -> Result<()> {
        self.balance()?;
        let slow = attribute_u64(option::LINK_RATE64, 2_500_000);
        for port in self.ports.clone() {
            self.change_port(port, &slow)?.success()?;
        }
        self.load = Some(self.start_load(rng.range(0..=u64::MAX))?);
        std::thread::sleep(Duration::from_millis(15));
        self.down = true;
        self.counts.downs += 1;
        self.ns().ip("link set eth0 down").map(drop)
    }

    fn up(&mut self) -> Result<()> {
        self.down = false;
        let peer = &self.net.hosts[1];
        let neighbour = |address: String| {
            format!(
                "neigh replace {address} lladdr {} dev eth0 nud permanent",
                peer.mac
            )
        };
        // The link took the neighbours with it.
        self.ns().ip_batch(&[
            "link set eth0 up".into(),
            neighbour(peer.v4.to_string()),
            neighbour(peer.v6.to_string()),
        ])
    }

    fn note_whole(&mut self, config: &Object) -> Result<()> {
        if number(config, option::SPLIT_GSO)? != SPLIT_GSO_ALL {
            self.whole = Some(Instant::now());
        }
        Ok(())
    }

    /// What must hold at any moment.
    fn check(&mut self, which: usize) -> Result<()> {
        let (port, ledger) = &mut self.ledgers[which];
        ledger.check_running(&mut self.tc, *port)?;
        let port = *port;
        let config = self.tc.get(port)?;
        self.note_whole(&config)?;
        // The one packet that a parent may have looked at.
        let mut looked_at = match self.whole {
            _ if !self.place.peeks => 0,
            Some(seen) if seen.elapsed() < LOOK => SEGMENTS as u32,
            _ => 1,
        };
        for class in self.tc.classes_of(port)? {
            if check_caps(&class, &config, looked_at)? {
                looked_at = 0;
            }
            ensure!(
                self.place.children
                    || self.place.inner.contains(&port)
                    || !self.place.inner.is_empty()
                    || class
                        .stats
                        .app(turnstile_core::port::uapi::band_stat::CHILD)
                        == 0,
                "{} child drops without a child",
                class
                    .stats
                    .app(turnstile_core::port::uapi::band_stat::CHILD)
            );
        }
        Ok(())
    }

    /// Lets everything out that is queued. All classes are to be seen again, with what they counted
    /// before they went.
    fn hurry(&mut self) -> Result<()> {
        if self.down {
            self.up()?;
        }
        let fast = [
            attribute_u64(option::LINK_RATE64, 0),
            attribute_u32(option::TOKEN_SHARE, 500_000_000),
            attribute_u64(option::TOKEN_EXPIRY, 1_000_000),
            attribute_u32(option::PRIORITIES, 8),
            attribute_u32(option::UNSCHEDULED, 1),
        ]
        .concat();
        for port in self.ports.clone() {
            self.change_port(port, &fast)?
                .success()
                .context("a faster link")?;
        }
        Ok(())
    }
}

/// An option of the port.
fn number(config: &Object, option: u16) -> Result<u32> {
    let content = config.option(option).and_then(|bytes| bytes.first_chunk());
    let content = content.with_context(|| format!("no option {option} in the dump"))?;
    Ok(u32::from_ne_bytes(*content))
}

/// No class holds more than its cap, but for one packet of so many segments that a parent may have
/// looked at. Does it hold that one for certain?
fn check_caps(class: &Object, config: &Object, looked_at: u32) -> Result<bool> {
    let cap = match u8::try_from(class.handle & 0xffff)? {
        class::SIGNAL => number(config, option::SIGNAL_LIMIT)?,
        class::UNSCHEDULED => number(config, option::UNSCHEDULED)?,
        // A child has caps of its own.
        class::DATA => return Ok(false),
        // With jitter, a token queue may hold more: what is in force is a statistic.
        _ => number(config, option::TOKEN_LIMIT)?
            .max(u32::try_from(config.stats.app(port_stat::TOKEN_LIMIT))?),
    };
    ensure!(
        class.stats.qlen <= cap + looked_at,
        "class :{:x} holds {} packets, more than {cap} + {looked_at}",
        class.handle & 0xffff,
        class.stats.qlen
    );
    Ok(class.stats.qlen > cap)
}

/// One to four options, each valid for itself.
pub(in crate::cases) fn any_options(rng: &mut Rng) -> Vec<u8> {
    const MBIT: u64 = 125_000;
    let mut numbers: Vec<u16> = Vec::new();
    for _ in 0..rng.range(1..=4) {
        let number = rng.range(u64::from(option::LINK_RATE64)..=option::MAX.into()) as u16;
        // A share and a rate exclude each other.
        let number = if number == option::TOKEN_RATE64 && numbers.contains(&option::TOKEN_SHARE) {
            option::ORDER
        } else {
            number
        };
        // A phantom queue is on or off as a whole.
        let number = if number == option::PHANTOM_RATE64 || number == option::PHANTOM_MARK {
            option::PHANTOM_SHARE
        } else {
            number
        };
        // Alone these are refused where what they belong to is off.
        let number = match number {
            option::PFC_WATCHDOG => option::PFC_DATA,
            // They go with few others, and not with children: cases `pausing` have them.
            option::PFC_XOFF
            | option::PFC_XON
            | option::PFC_HEADROOM
            | option::PFC_DELAY
            | option::PFC_ALPHA
            | option::PFC_BUFFER => option::PFC_DATA,
            option::TCD_MAX_ON => option::TCD_THRESHOLD,
            number => number,
        };
        let both = number == option::TOKEN_SHARE && numbers.contains(&option::TOKEN_RATE64);
        if !both && !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers
        .iter()
        .map(|&number| match number {
            option::LINK_RATE64 => {
                attribute_u64(number, MBIT * *rng.pick(&[0, 2, 5, 20, 50, 100, 400]))
            }
            option::TOKEN_SHARE => attribute_u32(number, rng.range(1_000_000..=500_000_000) as u32),
            option::TOKEN_RATE64 => attribute_u64(number, MBIT * rng.range(1..=10)),
            option::PRIORITIES => attribute_u32(number, rng.range(1..=8) as u32),
            option::TOKEN_LIMIT => attribute_u32(number, *rng.pick(&[1, 2, 8, 30, 100])),
            option::TOKEN_EXPIRY => attribute_u64(
                number,
                *rng.pick(&[0, u64::MAX, 100_000, 3_000_000, 50_000_000]),
            ),
            option::ORDER | option::TOKEN_DROP => attribute_u32(number, rng.range(0..=1) as u32),
            option::SPLIT_GSO => attribute_u32(number, rng.range(0..=2) as u32),
            option::GSO_HOLD => attribute_u64(
                number,
                *rng.pick(&[0, u64::MAX, 30_000, 1_000_000, 20_000_000]),
            ),
            option::UNSCHEDULED => attribute_u32(number, *rng.pick(&[0, 1, 2, 20])),
            option::DATA_LIMIT => attribute_u32(number, rng.range(1600..=200_000) as u32),
            option::SIGNAL_LIMIT => attribute_u32(number, *rng.pick(&[1, 5, 50, 1000])),
            option::SIGNAL_SHARE => {
                attribute_u32(number, *rng.pick(&[0, 100_000, 50_000_000, 1_000_000_000]))
            }
            option::DSCP_MAP => {
                let mut map = [class::DATA; 64];
                for _ in 0..4 {
                    map[rng.index(64)] = *rng.pick(&[class::SIGNAL, class::TOKENS, class::DATA]);
                }
                attribute(number, &map)
            }
            option::JITTER => attribute_u64(number, *rng.pick(&[0, 50_000, 5_000_000])),
            option::REN_PERIOD => attribute_u64(number, *rng.pick(&[0, 48_000, 5_000_000])),
            option::PFC_DATA if rng.one_in(4) => attribute_u32(number, 0),
            option::PFC_DATA => [
                attribute_u32(number, *rng.pick(&[1, 0x80, 0b1_1000, 255, 256])),
                attribute_u64(
                    option::PFC_WATCHDOG,
                    *rng.pick(&[1_000_000, 200_000_000, 60_000_000_000]),
                ),
            ]
            .concat(),
            option::TCD_THRESHOLD => attribute_u32(number, *rng.pick(&[0, 1, 30_000])),
            option::PHANTOM_SHARE if rng.one_in(3) => attribute_u32(number, 0),
            option::PHANTOM_SHARE => [
                attribute_u32(number, rng.range(10_000_000..=1_000_000_000) as u32),
                attribute_u32(option::PHANTOM_MARK, *rng.pick(&[0, 1000, 30_000])),
            ]
            .concat(),
            _ => attribute_u32(number, rng.range(0..=256) as u32),
        })
        .collect::<Vec<_>>()
        .concat()
}

/// A child that drops, delays, reorders, splits or shapes.
pub(in crate::cases) fn any_child(rng: &mut Rng) -> (&'static str, Vec<u8>) {
    const FQ_CODEL_LIMIT: u16 = 2;
    let share = |percent: u64| u32::try_from(percent * u64::from(u32::MAX) / 100).unwrap_or(0);
    match rng.range(0..=12) {
        0 => ("pfifo", fifo(rng.range(1..=50) as u32)),
        1 => ("bfifo", fifo(rng.range(3000..=100_000) as u32)),
        2 => ("pfifo_head_drop", fifo(rng.range(1..=30) as u32)),
        3 => ("fq_codel", Vec::new()),
        4 => (
            "fq_codel",
            attribute_u32(FQ_CODEL_LIMIT, rng.range(1..=30) as u32),
        ),
        5 => (
            "tbf",
            tbf(rng.range(1_000_000..=5_000_000) as u32, 5000, 50_000),
        ),
        6 | 7 => {
            let options = netem(Netem {
                delay_ns: rng.range(0..=5_000_000),
                jitter_ns: rng.range(0..=1_000_000),
                limit: rng.range(10..=100) as u32,
                loss: share(rng.range(0..=20)),
                duplicate: 0,
            });
            ("netem", options)
        }
        8 => ("sfq", Vec::new()),
        9 => ("prio", prio()),
        10 => ("fq", Vec::new()),
        11 => ("cake", Vec::new()),
        _ => ("turnstile", attribute_u64(option::LINK_RATE64, 2_500_000)),
    }
}
