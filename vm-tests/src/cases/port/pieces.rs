// SPDX-License-Identifier: GPL-2.0
//! Super-packets that are cut into shorter ones: what comes of them is what would have come of the
//! whole, to the byte. How long each holds the link, `timing/gso-pieces` shows.

mod wire;

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};
use turnstile_core::port::uapi::{band_stat, class, port_stat};

use self::wire::{check_frames, Super};
use crate::cases::support::ledger::{check_class, describe, settle_with, Counter, Settled};
use crate::harness::{Case, Ctx};
use crate::raw_netlink::Tc;
use crate::topology::{Builder, Net};
use crate::traffic::RawSocket;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("gso/pieces/alike", alike),
    Case::new("gso/pieces/tcp", tcp),
    Case::new("gso/pieces/live", live),
    Case::new("gso/pieces/odd", odd),
    Case::new("gso/pieces/child", child),
    Case::new("gso/pieces/unknown-speed", unknown_speed),
];

const PORT: u32 = 0x1_0000;
const DATA: u32 = PORT | class::DATA as u32;

/// A host with a port on a link that splits nothing and sums nothing up: so its kernel does.
struct Bench {
    net: Net,
    tc: Tc,
}

impl Bench {
    fn new(options: &str) -> Result<Self> {
        let net = Builder::pair().without_offloads().build()?;
        let ns = &net.hosts[0].ns;
        ns.tc(&format!(
            "qdisc add dev eth0 root handle 1: turnstile {options}"
        ))?;
        let tc = Tc::open(ns, "eth0")?;
        Ok(Self { net, tc })
    }

    fn change(&self, options: &str) -> Result<()> {
        let ns = &self.net.hosts[0].ns;
        ns.tc(&format!(
            "qdisc change dev eth0 root handle 1: turnstile {options}"
        ))
        .map(drop)
    }

    fn stat(&mut self, number: u16) -> Result<u64> {
        Ok(self.tc.get(PORT)?.stats.app(number))
    }

    /// Splits and pieces so far.
    fn cut(&mut self) -> Result<(u64, u64)> {
        Ok((
            self.stat(port_stat::GSO_SPLITS)?,
            self.stat(port_stat::GSO_PIECES)?,
        ))
    }

    /// Sends a super-packet, and gives the frames of it that the peer's device got.
    fn frames_of(&self, one: &Super) -> Result<Vec<Vec<u8>>> {
        let tap = RawSocket::open(&self.net.hosts[1].ns, "eth0")?;
        let socket = RawSocket::open_gso(&self.net.hosts[0].ns, "eth0")?;
        ensure!(
            socket.send_gso(one.header(), &one.frame())?,
            "the port dropped {one:?}"
        );
        let mut frames = Vec::new();
        while frames.len() < one.segments() {
            let frame = tap.receive(2000)?;
            let frame = frame.with_context(|| {
                format!(
                    "{} of {} frames came: {one:?}",
                    frames.len(),
                    one.segments()
                )
            })?;
            if !frame.outgoing && one.is_mine(&frame.bytes) {
                frames.push(one.retagged(frame.bytes));
            }
        }
        Ok(frames)
    }
}

/// The frames on the wire are the same whether a super-packet is split, cut into pieces or left
/// whole, and they are right: numbers, lengths, flags, sums and contents.
fn alike(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new("split-gso")?;
    let mut most = 0;
    for one in Super::all() {
        bench.change("link 1gbit split-gso")?;
        let single = bench.frames_of(&one)?;
        check_frames(&one, &single)?;
        bench.change("no-split-gso")?;
        let whole = bench.frames_of(&one)?;
        ensure!(whole == single, "{one:?}: whole and split differ");
        // From two segments to all but two: the last one is short.
        for fitting in [2, 3, 4, 7, one.segments() as u64 - 2] {
            // In ns, at 1 Gbit/s: 8 for each byte.
            let hold = (fitting + 1) * one.wire() * 8 - 1;
            bench.change(&format!("split-gso auto gso-hold {hold}ns"))?;
            let before = bench.cut()?;
            let pieces = bench.frames_of(&one)?;
            let after = bench.cut()?;
            let expected = (one.segments() as u64).div_ceil(fitting);
            most = most.max(expected);
            ensure!(
                (after.0 - before.0, after.1 - before.1) == (1, expected),
                "{one:?} with room for {fitting}: {before:?} splits and pieces became {after:?}, \
                 {expected} pieces are right"
            );
            let differs = single.iter().zip(&pieces).position(|(a, b)| a != b);
            ensure!(
                pieces == single,
                "{one:?} in {expected} pieces: frame {differs:?} differs: {:02x?} instead of \
                 {:02x?}",
                differs.map(|at| &pieces[at][..74.min(pieces[at].len())]),
                differs.map(|at| &single[at][..74.min(single[at].len())])
            );
        }
    }
    let (settled, _) = {
        let counter = Counter::install(&bench.net.hosts[1].ns)?;
        settle_with(&mut bench.tc, &[PORT], &counter)?
    };
    settled.check(PORT)?;
    ctx.note(format!("up to {most} pieces, each as the whole"));
    Ok(())
}

/// The byte at this place of a stream.
fn byte(at: u64) -> u8 {
    (at * 7 / 5 % 251) as u8
}

/// Streams over both protocols, whose receiver sums up and looks at each byte itself.
fn tcp(ctx: &mut Ctx) -> Result<()> {
    const BYTES: u64 = 4_000_000;
    const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));
    let net = Builder::pair().build()?;
    let [from, to] = &net.hosts[..] else {
        anyhow::bail!("not a pair")
    };
    // The device neither splits nor sums up, but TCP makes super-packets.
    from.ns.run("ethtool -K eth0 tx off tso off")?;
    to.ns.run("ethtool -K eth0 rx off gro off")?;
    from.ns
        .tc("qdisc add dev eth0 root handle 1: turnstile link 1gbit")?;
    let mut tc = Tc::open(&from.ns, "eth0")?;
    let counter = Counter::install(&to.ns)?;
    for address in [IpAddr::from(to.v4), to.v6.into()] {
        let (before, arrived) = settle_with(&mut tc, &[PORT], &counter)?;
        let listener = to
            .ns
            .enter(|| TcpListener::bind((address, 0)).context("listening"))?;
        let target = listener.local_addr().context("the listener's address")?;
        let reader = to.ns.spawn(move || {
            let (mut stream, _) = listener.accept().context("accepting")?;
            stream.set_read_timeout(PATIENCE).context("a time limit")?;
            let mut buffer = vec![0; 65536];
            let mut got = 0_u64;
            loop {
                let len = stream.read(&mut buffer).context("reading")?;
                if len == 0 {
                    return Ok(got);
                }
                for one in &buffer[..len] {
                    ensure!(*one == byte(got), "byte {got} of a stream is wrong");
                    got += 1;
                }
            }
        });
        from.ns.enter(|| {
            let mut stream = TcpStream::connect(target).context("connecting")?;
            stream.set_write_timeout(PATIENCE).context("a time limit")?;
            let all: Vec<u8> = (0..BYTES).map(byte).collect();
            stream.write_all(&all).context("writing")
        })?;
        let got = reader
            .join()
            .map_err(|_| anyhow!("the reader panicked"))??;
        ensure!(got == BYTES, "{got} of {BYTES} bytes arrived");
        let (after, arrived_then) = settle_with(&mut tc, &[PORT], &counter)?;
        after.check(PORT)?;
        let grown = |number| -> Result<u64> {
            Ok(after.qdisc(PORT)?.stats.app(number) - before.qdisc(PORT)?.stats.app(number))
        };
        let (splits, pieces) = (grown(port_stat::GSO_SPLITS)?, grown(port_stat::GSO_PIECES)?);
        let sent = after.qdisc(PORT)?.stats.packets - before.qdisc(PORT)?.stats.packets;
        ctx.note(format!(
            "{address}: {sent} packets, of {splits} super-packets {pieces} pieces"
        ));
        ensure!(
            splits > 20 && pieces >= 2 * splits,
            "{splits} super-packets were cut into {pieces} pieces"
        );
        ensure!(
            arrived_then.0 - arrived.0 == sent,
            "sent {sent}, arrived {}",
            arrived_then.0 - arrived.0
        );
        let errors = to
            .ns
            .run("nstat -asz TcpInCsumErrors TcpInErrs IpInHdrErrors")?;
        let wrong = errors
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .any(|value| value.parse::<u64>().is_ok_and(|value| value != 0));
        ensure!(!wrong, "{errors}");
    }
    Ok(())
}

/// `gso-hold` and `split-gso` changed on a port that is in use.
fn live(_: &mut Ctx) -> Result<()> {
    let one = Super::all().swap_remove(0);
    let wire = one.wire();
    let segments = one.segments() as u64;
    let mut bench = Bench::new("link 1gbit")?;
    for (words, splits, pieces, whole) in [
        // 50 us, the jitter.
        ("jitter 50us", 1, segments.div_ceil(6250 / wire), 6250),
        ("gso-hold 0", 1, 0, 0),
        ("gso-hold 1us", 1, 0, 125),
        ("gso-hold 20us", 1, segments.div_ceil(2500 / wire), 2500),
        ("jitter 10us", 1, segments.div_ceil(2500 / wire), 2500),
        ("gso-hold 100ms", 0, 0, 1_514_000 / 8),
        (
            "data-limit 160kb",
            1,
            segments.div_ceil(20_480 / wire),
            20_480,
        ),
        ("data-limit 1514000", 0, 0, 1_514_000 / 8),
        ("split-gso", 1, 0, 0),
        ("no-split-gso", 0, 0, u64::from(u32::MAX)),
        ("split-gso auto", 0, 0, 1_514_000 / 8),
        ("gso-hold auto", 1, 0, 1250),
        ("jitter 40us", 1, segments.div_ceil(5000 / wire), 5000),
        ("order data-first", 1, segments.div_ceil(2500 / wire), 2500),
        (
            "order tokens-first",
            1,
            segments.div_ceil(5000 / wire),
            5000,
        ),
        ("pfc data 3", 1, 0, 0),
        ("pfc off", 1, segments.div_ceil(5000 / wire), 5000),
        ("phantom drain 95% mark 30kb", 1, 0, 0),
        ("phantom off", 1, segments.div_ceil(5000 / wire), 5000),
        // Unshaped, by the device's speed: 10 Gbit/s.
        ("link auto", 0, 0, 50_000),
        ("gso-hold 4us", 1, segments.div_ceil(5000 / wire), 5000),
    ] {
        bench.change(words)?;
        let before = bench.cut()?;
        let frames = bench.frames_of(&one)?;
        check_frames(&one, &frames).with_context(|| words.to_owned())?;
        let after = bench.cut()?;
        let grown = (after.0 - before.0, after.1 - before.1);
        ensure!(
            grown == (splits, pieces),
            "{words}: {grown:?} splits and pieces, not {:?}",
            (splits, pieces)
        );
        let shown = bench.stat(port_stat::GSO_WHOLE)?;
        ensure!(shown == whole, "{words}: {shown} bytes whole, not {whole}");
    }
    Ok(())
}

/// What cannot be cut is split, and what cannot be split is dropped, as without pieces.
fn odd(_: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new("link 1gbit")?;
    for one in Super::all() {
        // Its sum is made already, and would be wrong for a piece.
        let Some(summed) = one.summed() else {
            continue;
        };
        let before = bench.cut()?;
        let frames = bench.frames_of(&summed)?;
        check_frames(&one, &frames)?;
        let after = bench.cut()?;
        ensure!(
            (after.0 - before.0, after.1 - before.1) == (1, 0),
            "{summed:?}: {before:?} became {after:?}"
        );
    }
    let counter = Counter::install(&bench.net.hosts[1].ns)?;
    let socket = RawSocket::open_gso(&bench.net.hosts[0].ns, "eth0")?;
    let (before, _) = settle_with(&mut bench.tc, &[PORT], &counter)?;
    let mut sent = 0;
    for one in Super::all() {
        for spoilt in one.spoilt() {
            // The kernel refuses some by itself.
            if let Ok(taken) = socket.send_gso(one.header(), &spoilt) {
                ensure!(!taken, "the port took {one:?}, which cannot be split");
                sent += one.segments() as u64;
            }
        }
    }
    let (after, _) = settle_with(&mut bench.tc, &[PORT], &counter)?;
    after.check(PORT)?;
    let grown = |settled: &Settled, number| -> Result<u64> {
        Ok(settled.qdisc(PORT)?.stats.app(number) - before.qdisc(PORT)?.stats.app(number))
    };
    ensure!(
        sent > 0 && grown(&after, port_stat::GSO_DROPS)? == sent,
        "{} drops instead of {sent}",
        grown(&after, port_stat::GSO_DROPS)?
    );
    ensure!(
        grown(&after, port_stat::GSO_PIECES)? == 0 && grown(&after, port_stat::GSO_SPLITS)? == 0,
        "what cannot be split was"
    );
    Ok(())
}

/// A child on the data class gets pieces, and they are counted as the packets they stand for.
fn child(_: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 20;
    let mut bench = Bench::new("link 1gbit")?;
    let counter = Counter::install(&bench.net.hosts[1].ns)?;
    let socket = RawSocket::open_gso(&bench.net.hosts[0].ns, "eth0")?;
    for kind in ["fq_codel", "pfifo limit 1000"] {
        let ns = &bench.net.hosts[0].ns;
        ns.tc(&format!("qdisc add dev eth0 parent 1:2 handle 2: {kind}"))?;
        for one in Super::all() {
            let (before, _) = settle_with(&mut bench.tc, &[PORT], &counter)?;
            for _ in 0..COUNT {
                ensure!(
                    socket.send_gso(one.header(), &one.frame())?,
                    "{kind} dropped {one:?}"
                );
            }
            let (after, _) = settle_with(&mut bench.tc, &[PORT], &counter)?;
            after.check(PORT)?;
            let (data, data_before) = (after.class(DATA)?, before.class(DATA)?);
            check_class(data)?;
            let packets = COUNT * one.segments() as u64;
            let offered = |number| data.stats.app(number) - data_before.stats.app(number);
            ensure!(
                offered(band_stat::OFFERED_PACKETS) == packets
                    && offered(band_stat::OFFERED_BYTES) == COUNT * one.bytes()
                    && data.stats.packets - data_before.stats.packets == packets,
                "{kind}, {one:?}: {packets} packets of {} bytes: {}, {} bytes",
                COUNT * one.bytes(),
                describe(data),
                offered(band_stat::OFFERED_BYTES)
            );
            let pieces = after.qdisc(PORT)?.stats.app(port_stat::GSO_PIECES)
                - before.qdisc(PORT)?.stats.app(port_stat::GSO_PIECES);
            let expected = COUNT * (one.segments() as u64).div_ceil(6250 / one.wire());
            ensure!(
                pieces == expected,
                "{kind}, {one:?}: {pieces} pieces, not {expected}"
            );
        }
        bench.net.hosts[0].ns.tc("qdisc del dev eth0 parent 1:2")?;
    }
    Ok(())
}

/// On a device that reports no speed super-packets stay whole.
fn unknown_speed(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    ns.ip_batch(&[
        "link add dummy9 type dummy".into(),
        "link set dummy9 up".into(),
    ])?;
    ns.tc("qdisc add dev dummy9 root handle 1: turnstile")?;
    let mut tc = Tc::open(ns, "dummy9")?;
    let socket = RawSocket::open_gso(ns, "dummy9")?;
    for one in Super::all() {
        ensure!(
            socket.send_gso(one.header(), &one.frame())?,
            "it dropped {one:?}"
        );
    }
    let stats = tc.get(PORT)?.stats;
    let all = Super::all();
    let packets: usize = all.iter().map(Super::segments).sum();
    let data = tc.get_class(DATA)?.stats;
    ensure!(
        data.packets == packets as u64,
        "{} packets left, not {packets}",
        data.packets
    );
    ensure!(
        stats.app(port_stat::GSO_SPLITS) == 0 && stats.app(port_stat::GSO_WHOLE) == 1_514_000 / 8,
        "{} were split, {} bytes whole",
        stats.app(port_stat::GSO_SPLITS),
        stats.app(port_stat::GSO_WHOLE)
    );
    Ok(())
}
