// SPDX-License-Identifier: GPL-2.0
//! Ports at the bottom of trees of three and four levels. A port that drops tells all its parents;
//! whatever they are, they must go on to ask it for packets.
//!
//! A parent such as hfsc looks at its child's length before it hands a packet on, and puts its
//! class to rest when it hears that the child is empty. If it hears so while the packet is on its
//! way in, the class rests for good: from then on the child never was empty.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_core::header::PORT as UDP_PORT;
use turnstile_core::port::uapi::{class, option, EXPIRY_OFF};

use super::PORT;
use crate::cases::port::accounting::random::{any_child, any_options};
use crate::cases::support::ledger::{settle, Settled};
use crate::cases::support::load::{Load, Mix};
use crate::harness::Ctx;
use crate::raw_netlink::{attribute_u32, attribute_u64, Request, Stats, Tc, ROOT};
use crate::rng::Rng;
use crate::topology::{Builder, Net};
use crate::traffic::{Flow, Packet, Sink, Source};

/// A qdisc with one child that our traffic goes to, and where there are classes, another class
/// beside that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cases) enum Kind {
    HfscLs,
    HfscSc,
    Htb,
    Drr,
    Ets,
    Prio,
    Tbf,
    Netem,
    /// The data class of another port. Not among [`Kind::STOCK`].
    Port,
}

impl Kind {
    pub(in crate::cases) const STOCK: [Self; 8] = [
        Self::HfscLs,
        Self::HfscSc,
        Self::Htb,
        Self::Drr,
        Self::Ets,
        Self::Prio,
        Self::Tbf,
        Self::Netem,
    ];

    /// The minor number of the class that the next level hangs on.
    fn class(self) -> u32 {
        match self {
            Self::Tbf | Self::Netem => 1,
            _ => 2,
        }
    }

    /// Whether class 3 is there for what names it.
    fn has_sibling(self) -> bool {
        !matches!(self, Self::Tbf | Self::Netem | Self::Port)
    }

    /// Lines for `tc -batch`. `on`: "root" or "parent 1:2".
    fn setup(self, on: &str, handle: u32) -> String {
        let add = format!("qdisc add dev eth0 {on} handle {handle:x}: ");
        let class = |minor: u32, words: &str| {
            format!("class add dev eth0 parent {handle:x}: classid {handle:x}:{minor} {words}\n")
        };
        let all_to_2 = format!(
            "filter add dev eth0 parent {handle:x}: protocol all matchall classid {handle:x}:2\n"
        );
        let with = |words: &str, class_words: &str| {
            format!(
                "{add}{words}\n{}{}",
                class(2, class_words),
                class(3, class_words)
            )
        };
        match self {
            Self::HfscLs => with("hfsc default 2", "hfsc ls rate 200mbit"),
            Self::HfscSc => with("hfsc default 2", "hfsc sc rate 200mbit"),
            Self::Htb => with("htb default 2", "htb rate 200mbit burst 64k cburst 64k"),
            Self::Drr => with("drr", "drr quantum 1600") + &all_to_2,
            Self::Ets => format!("{add}ets bands 3 quanta 1600 1600 1600\n{all_to_2}"),
            Self::Prio => format!("{add}prio\n{all_to_2}"),
            Self::Tbf => format!("{add}tbf rate 200mbit burst 80kb limit 1mb\n"),
            Self::Netem => format!("{add}netem delay 50us limit 1000\n"),
            Self::Port => format!("{add}turnstile\n{all_to_2}"),
        }
    }
}

/// The handle of the level `depth` from the top, which is 0.
fn handle(depth: usize) -> u32 {
    (depth as u32 + 1) << 16
}

/// Lines for `tc -batch` that make these levels, from the root down, and on the lowest `leaf`.
pub(in crate::cases) fn setup(levels: &[Kind], leaf: &str) -> String {
    let mut on = "root".to_owned();
    let mut lines = String::new();
    for (depth, kind) in levels.iter().enumerate() {
        let major = handle(depth) >> 16;
        lines += &kind.setup(&on, major);
        on = format!("parent {major:x}:{}", kind.class());
    }
    lines + &format!("qdisc add dev eth0 {on} handle 10: {leaf}\n")
}

/// Slow, with room for one token, which expires before the next comes.
const TIGHT: &str = "turnstile link 2mbit tokens 5% token-limit 1 token-expiry 1ms jitter 0";

/// The tests under one grandparent.
pub(super) fn run(ctx: &mut Ctx, top: Kind) -> Result<()> {
    let net = Builder::pair().build()?;
    for middle in Kind::STOCK {
        one(ctx, &net, &[top, middle])?;
        let lower = *ctx.rng.pick(&Kind::STOCK);
        one(ctx, &net, &[top, middle, lower])?;
    }
    one(ctx, &net, &[top, Kind::Port])?;
    let lower = *ctx.rng.pick(&Kind::STOCK);
    one(ctx, &net, &[top, Kind::Port, lower])?;
    one(ctx, &net, &[top])
}

fn one(ctx: &mut Ctx, net: &Net, levels: &[Kind]) -> Result<()> {
    let seed = ctx.seed;
    chain(&mut ctx.rng, net, levels).with_context(|| format!("{levels:?}, seed {seed}"))
}

fn chain(rng: &mut Rng, net: &Net, levels: &[Kind]) -> Result<()> {
    let ns = &net.hosts[0].ns;
    ns.run_with("tc -batch -", &setup(levels, TIGHT))?;
    let mut tree = Tree {
        net,
        levels,
        tc: Tc::open(ns, "eth0")?,
        began: Vec::new(),
    };
    tree.begin()?;
    tree.expire().context("tokens that expire")?;
    tree.evict().context("a child with room for one packet")?;
    tree.shake(rng).context("random operations")?;
    tree.tc.delete(ROOT)?.success()
}

struct Tree<'a> {
    net: &'a Net,
    levels: &'a [Kind],
    tc: Tc,
    /// What each level had sent and dropped when the tree was whole, the port's last.
    began: Vec<Stats>,
}

impl Tree<'_> {
    /// The device sends packets of its own, also while the tree is only half there: what these were
    /// counted as is not counted.
    fn begin(&mut self) -> Result<()> {
        let settled = self.settle()?;
        let levels = (0..self.levels.len()).map(handle).chain([PORT]);
        self.began = levels
            .map(|level| Ok(settled.qdisc(level)?.stats.clone()))
            .collect::<Result<_>>()?;
        Ok(())
    }

    /// Each token finds one in its place that has expired.
    fn expire(&mut self) -> Result<()> {
        let to = self.net.hosts[1].v4;
        let tokens = Flow::new(1, Packet::Token(0), to).packets_per_s(400.0);
        let tokens = Flow {
            limit: 16,
            ..tokens
        };
        Source::run(&self.net.hosts[0].ns, vec![tokens])?;
        let settled = self.prove()?;
        self.check_drops(&settled)
    }

    /// Each datagram finds another in the child, which is dropped instead, or with it.
    fn evict(&mut self) -> Result<()> {
        const FQ_CODEL_LIMIT: u16 = 2;
        let data = PORT | u32::from(class::DATA);
        let options = attribute_u32(FQ_CODEL_LIMIT, 1);
        self.tc
            .qdisc(Request::AddQdisc, data, 0, "fq_codel", &options)?
            .success()?;
        self.change(&[attribute_u64(option::LINK_RATE64, 250_000)])?;
        let to = self.net.hosts[1].v4;
        let sockets = self.net.hosts[0].ns.enter(|| {
            let open = || -> Result<UdpSocket> {
                let socket = UdpSocket::bind("0.0.0.0:0").context("a socket")?;
                socket.connect((to, UDP_PORT)).context("its peer")?;
                Ok(socket)
            };
            Ok([open()?, open()?])
        })?;
        let header = Packet::Data.header();
        // The fattest flow loses its oldest packets, until half of its bytes are gone: here another
        // flow's packet goes, and there both the packet and the one before.
        for (socket, len) in [(0, 1400), (0, 1400), (1, 40), (0, 1400), (1, 40), (1, 1400)]
            .into_iter()
            .cycle()
            .take(24)
        {
            let mut payload = vec![0; len];
            payload[..header.len()].copy_from_slice(&header);
            // A drop may be reported.
            let _ = sockets[socket].send(&payload);
            std::thread::sleep(Duration::from_millis(1));
        }
        self.settle()?;
        self.prove().map(drop)
    }

    /// Changes, grafts and filters under traffic.
    fn shake(&mut self, rng: &mut Rng) -> Result<()> {
        let data = PORT | u32::from(class::DATA);
        let mix = Mix {
            tcp: false,
            ..Mix::all(&[PORT])
        };
        let load = Load::start(self.net, &mix, rng.range(0..=u64::MAX))?;
        for _ in 0..16 {
            match rng.range(0..=9) {
                0..=3 => self.tc.change_port(PORT, &any_options(rng)).map(drop)?,
                4 | 5 => {
                    let (kind, options) = any_child(rng);
                    self.tc
                        .qdisc(Request::ReplaceQdisc, data, 0, kind, &options)?
                        .success()?;
                }
                6 => self.tc.delete(data).map(drop)?,
                7 => {
                    let class = *rng.pick(&[None, Some(PORT | 0x10), Some(data)]);
                    self.tc.add_matchall(PORT, 1, class).map(drop)?;
                }
                8 => self.tc.delete_filters(PORT).map(drop)?,
                _ => {}
            }
            std::thread::sleep(Duration::from_micros(rng.range(100..=4000)));
        }
        load.ask_to_stop();
        self.hurry()?;
        load.stop()?;
        self.prove().map(drop)
    }

    fn change(&mut self, options: &[Vec<u8>]) -> Result<()> {
        self.tc.change_port(PORT, &options.concat())?.success()
    }

    /// All that is queued leaves soon, and no token expires any more.
    fn hurry(&mut self) -> Result<()> {
        self.change(&[
            attribute_u64(option::LINK_RATE64, 0),
            attribute_u32(option::TOKEN_SHARE, 500_000_000),
            attribute_u64(option::TOKEN_EXPIRY, EXPIRY_OFF),
            attribute_u32(option::TOKEN_LIMIT, 100),
            attribute_u32(option::PRIORITIES, 8),
            attribute_u32(option::UNSCHEDULED, 1),
            attribute_u32(option::SIGNAL_LIMIT, 1000),
            attribute_u32(option::DATA_LIMIT, 1_000_000),
        ])
    }

    /// Waits until all levels are empty, by their own counters.
    fn settle(&mut self) -> Result<Settled> {
        let settled = settle(&mut self.tc, &[PORT])?;
        settled.check(PORT)?;
        Ok(settled)
    }

    /// What is queued drains, what is offered then arrives, and the counters add up at all levels.
    fn prove(&mut self) -> Result<Settled> {
        /// Packets of each flow.
        const EACH: u64 = 10;
        self.hurry()?;
        self.settle()?;
        let data = PORT | u32::from(class::DATA);
        // Children and filters may have been left that drop.
        self.tc.delete(data).map(drop)?;
        self.tc.delete_filters(PORT).map(drop)?;
        let to = &self.net.hosts[1];
        let sink = Sink::start(&to.ns)?;
        let mut flows = vec![
            Flow::new(1, Packet::Token(0), to.v4),
            Flow::new(2, Packet::Data, to.v4),
            Flow::new(3, Packet::Signal, to.v6),
        ];
        if self.levels[0].has_sibling() {
            flows.push(Flow {
                priority: handle(0) | 3,
                ..Flow::new(4, Packet::Other, to.v4)
            });
        }
        let streams = flows.len() as u16;
        let flows = flows.into_iter().map(|flow| Flow {
            limit: EACH,
            rate: 500.0,
            ..flow
        });
        Source::run(&self.net.hosts[0].ns, flows.collect())?;
        let settled = self.settle().context("after a few packets more")?;
        let got = sink.finish()?;
        for stream in 1..=streams {
            let arrived = got.get(&stream).map_or(0, |stream| stream.packets);
            ensure!(
                arrived == EACH,
                "{arrived} of {EACH} packets of flow {stream} arrived"
            );
        }
        self.check_sent(&settled)?;
        Ok(settled)
    }

    /// Each level has sent what the one below has.
    fn check_sent(&self, settled: &Settled) -> Result<()> {
        for depth in (0..self.levels.len()).rev() {
            let (upper, lower) = self.pair(settled, depth)?;
            // What goes through the other class comes from no qdisc of ours.
            let fits = if depth == 0 {
                upper.packets >= lower.packets && upper.bytes >= lower.bytes
            } else {
                (upper.packets, upper.bytes) == (lower.packets, lower.bytes)
            };
            ensure!(
                fits,
                "level {depth} has sent {} packets, {} bytes, the one below {}, {}",
                upper.packets,
                upper.bytes,
                lower.packets,
                lower.bytes
            );
        }
        Ok(())
    }

    /// What the port drops its parents count, once each.
    fn check_drops(&self, settled: &Settled) -> Result<()> {
        for depth in 0..self.levels.len() {
            let (upper, lower) = self.pair(settled, depth)?;
            ensure!(
                upper.drops == lower.drops,
                "level {depth} has dropped {} packets, the one below {}",
                upper.drops,
                lower.drops
            );
        }
        let drops = settled.qdisc(PORT)?.stats.drops;
        ensure!(drops >= 4, "only {drops} tokens expired");
        Ok(())
    }

    /// What a level and the one below have sent and dropped since the tree was whole.
    fn pair(&self, settled: &Settled, depth: usize) -> Result<(Stats, Stats)> {
        Ok((self.since(settled, depth)?, self.since(settled, depth + 1)?))
    }

    fn since(&self, settled: &Settled, depth: usize) -> Result<Stats> {
        let level = if depth == self.levels.len() {
            PORT
        } else {
            handle(depth)
        };
        let now = &settled.qdisc(level)?.stats;
        let began = self.began.get(depth).context("the tree was not begun")?;
        Ok(Stats {
            packets: now.packets - began.packets,
            bytes: now.bytes - began.bytes,
            drops: now.drops - began.drops,
            ..now.clone()
        })
    }
}
