// SPDX-License-Identifier: GPL-2.0
//! Priority flow control: a port obeys the pause frames that its device receives, and says by TCD's
//! marks what it makes of them.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_core::header::PORT;
use turnstile_core::pfc::frame::{Frame as Pause, DESTINATION};
use turnstile_core::port::uapi::class;

use super::marking::frames::{datagram, ecn};
use crate::harness::{Case, Ctx, Need, MUCH_WORK};
use crate::stats::{self, Counters};
use crate::tool::Tool;
use crate::topology::{Builder, Net};
use crate::traffic::{Packet, RawSocket};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("pauses/data-waits", data_waits),
    Case::new("pauses/live-change", live_change),
    Case::new("pauses/watchdog", watchdog),
    Case::new("pauses/kinds", kinds),
    Case::new("pauses/again-and-again", again_and_again).needs(&[Need::VirtualTime]),
    Case::new("pauses/hostile", |ctx| hostile(ctx, 2000)).timeout_s(120),
    Case::new("pauses/hostile-many", |ctx| hostile(ctx, 100_000))
        .timeout_s(300)
        .needs(MUCH_WORK),
    Case::new("pauses/deleted-while-paused", |ctx| deleted(ctx, 60)).timeout_s(120),
    Case::new("pauses/deleted-many", |ctx| deleted(ctx, 500))
        .timeout_s(600)
        .needs(MUCH_WORK),
    Case::new("pauses/bridged", bridged),
    Case::new("pauses/child", child),
    Case::new("pauses/tcd-marks", tcd_marks),
];

const DEV: &str = "eth0";
/// The longest pause: 335 ms at 100 Mbit/s, in quanta.
const LONG: u16 = u16::MAX;
/// Longer than a frame takes to come, if nothing holds it up.
const SOON: i64 = 50;

/// Two hosts: the first sends by a port, the second pauses it.
struct Bench {
    net: Net,
    host: RawSocket,
    next: RawSocket,
}

impl Bench {
    fn new(options: &str) -> Result<Self> {
        let net = Builder::pair().build()?;
        Tool::Tc.port(&net.hosts[0].ns, "add", DEV, options)?;
        let host = RawSocket::open(&net.hosts[0].ns, DEV)?;
        let next = RawSocket::open(&net.hosts[1].ns, DEV)?;
        Ok(Self { net, host, next })
    }

    fn change(&self, verb: &str, options: &str) -> Result<()> {
        Tool::Turnstile.port(&self.net.hosts[0].ns, verb, DEV, options)
    }

    /// The next switch says so.
    fn pause(&self, frame: &Pause) -> Result<()> {
        self.raw(&frame.write([2, 0, 0, 0, 0, 9]))
    }

    fn raw(&self, frame: &[u8]) -> Result<()> {
        ensure!(self.next.send(frame)?, "a frame was dropped on its way");
        Ok(())
    }

    /// Sends a datagram to this port number.
    fn send(&self, number: u16, ecn: u8) -> Result<()> {
        self.host
            .send(&datagram(false, 0, ecn, number, &[7; 1000]))?;
        Ok(())
    }

    /// A token, which no pause holds up.
    fn token(&self) -> Result<()> {
        let token = Packet::Token(0).header();
        self.host.send(&datagram(false, 0, 0, PORT, &token))?;
        Ok(())
    }

    /// Which of what was sent comes within some time: port number and ECN field.
    fn comes(&self, patience_ms: i64) -> Result<Option<(u16, u8)>> {
        while let Some(frame) = self.next.receive(patience_ms)? {
            let bytes = &frame.bytes;
            if frame.outgoing || bytes.len() < 42 || bytes[12..14] != [8, 0] || bytes[23] != 17 {
                continue;
            }
            let number = u16::from_be_bytes([bytes[36], bytes[37]]);
            return Ok(Some((number, ecn(bytes, 0))));
        }
        Ok(None)
    }

    /// These come, in this order, and nothing else.
    fn expect(&self, numbers: &[u16]) -> Result<()> {
        for number in numbers {
            let came = self.comes(10_000)?;
            let came = came.context("nothing came")?.0;
            ensure!(came == *number, "{came} came and not {number}");
        }
        self.nothing()
    }

    fn nothing(&self) -> Result<()> {
        let came = self.comes(SOON)?;
        ensure!(came.is_none(), "{came:?} came");
        Ok(())
    }

    fn data(&self) -> Result<Counters> {
        let mut classes = stats::classes(&self.net.hosts[0].ns, DEV)?;
        let data = classes.remove(&format!("1:{}", class::DATA));
        let data = data.context("no data class")?;
        data.check()?;
        Ok(data)
    }
}

/// Data waits until the pause is over, or is said to be; other priorities' pauses are nothing to
/// it, and tokens go on. At 100 Mbit/s a quantum is 5.12 us.
fn data_waits(ctx: &mut Ctx) -> Result<()> {
    let bench = Bench::new("link 100mbit pfc data 3")?;
    bench.pause(&Pause::one(2, LONG))?;
    bench.send(9, 0)?;
    bench.expect(&[9])?;
    bench.pause(&Pause::one(3, LONG))?;
    bench.send(10, 0)?;
    bench.nothing()?;
    bench.token()?;
    bench.expect(&[PORT])?;
    // It is over when the frame says so.
    bench.pause(&Pause::one(3, 0))?;
    bench.expect(&[10])?;
    // Or when a later one says that it is shorter, without another word.
    bench.pause(&Pause::one(3, LONG))?;
    bench.send(12, 0)?;
    bench.pause(&Pause::one(3, 1))?;
    let began = std::time::Instant::now();
    let came = bench.comes(10_000)?;
    ensure!(came == Some((12, 0)), "{came:?}");
    ensure!(
        began.elapsed() < Duration::from_millis(200),
        "{:?}",
        began.elapsed()
    );
    // Of the whole link, for 102.4 ms. Nobody ends it.
    bench.pause(&Pause::Pause { quanta: 20_000 })?;
    bench.send(11, 0)?;
    bench.nothing()?;
    bench.expect(&[11])?;
    let data = bench.data()?;
    let of = |key| data.get(key);
    ctx.note(data.json.to_string());
    ensure!(
        [of("pfc-paused"), of("pfc-resumed"), of("pfc-pauses")] == [4, 1, 3],
        "{}",
        data.json
    );
    // 100 ms and more, a quantum and the time between two frames, and 102.4 ms exactly.
    let (all, longest) = (of("pfc-time"), of("pfc-longest"));
    ensure!(all >= 100_000_000 + 5120 + 102_400_000, "{}", data.json);
    ensure!(
        all - longest <= 50_000_000 + 5120 + 102_400_000,
        "{}",
        data.json
    );
    ensure!(
        of("pfc-storms") + of("pfc-refused") + of("stormed") == 0,
        "{}",
        data.json
    );
    ensure!(of("sojourn-max") >= 50_000_000, "{}", data.json);
    Ok(())
}

/// Turned on, moved to another priority and turned off under way.
fn live_change(_: &mut Ctx) -> Result<()> {
    // On a slow machine a change takes longer than the default watchdog waits.
    let obey = |priority: u8| format!("pfc data {priority} watchdog 60s");
    let bench = Bench::new("link 100mbit")?;
    bench.pause(&Pause::one(0, LONG))?;
    bench.send(9, 0)?;
    bench
        .expect(&[9])
        .with_context(|| format!("step 1: {:?}", bench.data().map(|it| it.json)))?;
    bench.change("change", &obey(0))?;
    bench.pause(&Pause::one(0, LONG))?;
    bench.send(10, 0)?;
    bench.nothing()?;
    // What waits goes when pauses are no longer obeyed.
    bench.change("change", "pfc off")?;
    bench
        .expect(&[10])
        .with_context(|| format!("step 2: {:?}", bench.data().map(|it| it.json)))?;
    bench.change("change", &obey(1))?;
    bench.pause(&Pause::one(1, LONG))?;
    bench.send(11, 0)?;
    bench.nothing()?;
    bench.change("change", &obey(2))?;
    bench
        .expect(&[11])
        .with_context(|| format!("step 3: {:?}", bench.data().map(|it| it.json)))?;
    let json = bench.data()?.json.to_string();
    ensure!(json.contains("pfc-paused"), "{json}");
    bench.change("change", "pfc off")?;
    let json = bench.data()?.json.to_string();
    ensure!(!json.contains("pfc-paused"), "{json}");
    Ok(())
}

/// A pause that does not end: data is dropped and counted, and goes again when the pause is over.
fn watchdog(_: &mut Ctx) -> Result<()> {
    let bench = Bench::new("link 100mbit pfc data 0 watchdog 100ms")?;
    bench.pause(&Pause::one(0, LONG))?;
    bench.send(9, 0)?;
    std::thread::sleep(Duration::from_millis(150));
    bench.pause(&Pause::one(0, LONG))?;
    bench.send(10, 0)?;
    bench.token()?;
    bench.expect(&[PORT])?;
    let data = bench.data()?;
    ensure!(data.get("stormed") >= 2, "{}", data.json);
    ensure!(data.get("pfc-storms") == 1, "{}", data.json);
    bench.pause(&Pause::one(0, 0))?;
    bench.send(11, 0)?;
    bench.expect(&[11])
}

/// Frames that are spoofed, cut short or of another kind do nothing but count.
fn hostile(ctx: &mut Ctx, frames: u64) -> Result<()> {
    let bench = Bench::new("link 100mbit pfc data 0")?;
    let rng = &mut ctx.rng;
    let right = Pause::one(0, LONG).write([2, 0, 0, 0, 0, 9]);
    let mut refused = 0;
    for _ in 0..frames {
        let mut frame = right.to_vec();
        match rng.range(0..=4) {
            // To somebody else, whom the device takes for all the same.
            0 => frame[..6].copy_from_slice(&[0xff; 6]),
            1 => frame[5] ^= 1 << rng.index(4),
            2 => frame.truncate(14 + rng.index(18)),
            3 => frame[16] = 1 + rng.index(255) as u8,
            _ => {
                let opcode = rng.range(0..=0xffff) as u16;
                let opcode = if matches!(opcode, 1 | 0x101) {
                    2
                } else {
                    opcode
                };
                frame[14..16].copy_from_slice(&opcode.to_be_bytes());
            }
        }
        refused += u64::from(bench.next.send(&frame)?);
    }
    bench.send(9, 0)?;
    bench.expect(&[9])?;
    let data = bench.data()?;
    ctx.note(format!("{refused} frames, {}", data.json));
    ensure!(
        data.get("pfc-paused") + data.get("pfc-resumed") == 0,
        "{}",
        data.json
    );
    ensure!(data.get("pfc-refused") == refused, "{}", data.json);
    ensure!(right[..6] == DESTINATION, "the one that is right");
    Ok(())
}

/// Data of two priorities is held while either is; data of the whole link by nothing else.
fn kinds(_: &mut Ctx) -> Result<()> {
    let bench = Bench::new("link 100mbit pfc data 3,4 watchdog 60s")?;
    bench.pause(&Pause::one(4, LONG))?;
    bench.pause(&Pause::one(3, 1))?;
    bench.send(9, 0)?;
    bench.nothing()?;
    bench.pause(&Pause::one(4, 0))?;
    bench.expect(&[9])?;
    bench.change("change", "pfc data pause")?;
    for priority in 0..8 {
        bench.pause(&Pause::one(priority, LONG))?;
    }
    bench.send(10, 0)?;
    bench.expect(&[10])?;
    bench.pause(&Pause::Pause { quanta: LONG })?;
    bench.send(11, 0)?;
    bench.pause(&Pause::one(0, 0))?;
    bench.nothing()?;
    bench.pause(&Pause::Pause { quanta: 0 })?;
    bench.expect(&[11])
}

/// Pauses that leave no time for a packet between two of them are one to the watchdog; those that
/// do are not.
fn again_and_again(ctx: &mut Ctx) -> Result<()> {
    let bench = Bench::new("link 100mbit pfc data 0 watchdog 200ms")?;
    // 61.44 ms each, of which only the last one is over before the next begins.
    let pause = || bench.pause(&Pause::one(0, 12_000));
    for number in 0..6 {
        pause()?;
        bench.send(number, 0)?;
        let came = bench.comes(10_000)?.context("nothing came")?.0;
        ensure!(came == number, "{came} came");
        // In the nanosecond in which a pause ends another one continues it.
        std::thread::sleep(Duration::from_millis(1));
    }
    let data = bench.data()?;
    ensure!(data.get("pfc-pauses") == 6, "{}", data.json);
    ensure!(data.get("pfc-time") > 300_000_000, "{}", data.json);
    ensure!(
        data.get("pfc-storms") + data.get("stormed") == 0,
        "{}",
        data.json
    );
    // A child that gives nothing for half a second, in any break.
    let ns = &bench.net.hosts[0].ns;
    let child = "tbf rate 8kbit burst 1600 limit 100kb";
    ns.tc(&format!("qdisc add dev {DEV} parent 1:2 {child}"))?;
    bench.send(100, 0)?;
    bench.send(101, 0)?;
    bench.expect(&[100])?;
    for _ in 0..5 {
        pause()?;
        std::thread::sleep(Duration::from_millis(70));
    }
    let data = bench.data()?;
    ctx.note(data.json.to_string());
    ensure!(data.get("pfc-pauses") == 11, "{}", data.json);
    ensure!(data.get("pfc-storms") == 1, "{}", data.json);
    bench.expect(&[101])
}

/// Ports that are changed, emptied and deleted while they are paused and flooded with pauses.
fn deleted(ctx: &mut Ctx, cycles: u32) -> Result<()> {
    let bench = Bench::new("link 100mbit pfc data 0")?;
    let ns = &bench.net.hosts[0].ns;
    let rng = &mut ctx.rng;
    for cycle in 0..cycles {
        bench.pause(&Pause::one(0, LONG))?;
        for _ in 0..5 {
            bench.send(9, 2)?;
        }
        for _ in 0..20 {
            bench.pause(&Pause::one(0, rng.range(0..=0xffff) as u16))?;
        }
        match cycle % 4 {
            0 => bench.change("change", "pfc off")?,
            1 => ns.ip(&format!("link set {DEV} down")).map(drop)?,
            2 => bench.change("replace", "link 100mbit tcd threshold 3000 pfc data 0")?,
            _ => {}
        }
        ns.tc(&format!("qdisc del dev {DEV} root"))?;
        if cycle % 16 == 9 {
            crate::cases::port::churn::unload()?;
        }
        ns.ip(&format!("link set {DEV} up"))?;
        // That the device was down is told to whoever sends next.
        let _ = bench.send(8, 0);
        bench.change("add", "link 100mbit pfc data 0")?;
    }
    while bench.comes(SOON)?.is_some() {}
    bench.send(10, 0)?;
    bench.expect(&[10])
}

/// On a bridge's device, whose bridge drops such frames.
fn bridged(_: &mut Ctx) -> Result<()> {
    let bench = Bench::new("link 100mbit pfc data 0")?;
    let ns = &bench.net.hosts[0].ns;
    ns.ip("link add br0 type bridge")?;
    ns.ip(&format!("link set {DEV} master br0"))?;
    ns.ip("link set br0 up")?;
    bench.pause(&Pause::one(0, LONG))?;
    bench.send(9, 0)?;
    bench.nothing()?;
    bench.pause(&Pause::one(0, 0))?;
    bench.expect(&[9])
}

/// What a child qdisc holds is held, too.
fn child(_: &mut Ctx) -> Result<()> {
    let bench = Bench::new("link 100mbit pfc data 0")?;
    let ns = &bench.net.hosts[0].ns;
    ns.tc(&format!("qdisc add dev {DEV} parent 1:2 pfifo"))?;
    bench.pause(&Pause::one(0, LONG))?;
    bench.send(9, 0)?;
    bench.send(10, 0)?;
    bench.nothing()?;
    bench.token()?;
    bench.expect(&[PORT])?;
    bench.pause(&Pause::one(0, 0))?;
    bench.expect(&[9, 10])
}

/// Undetermined for `max-on` after a pause: UE. A long queue without pauses: CE. Whoever knows no
/// ECN is left alone, and CE stays.
fn tcd_marks(ctx: &mut Ctx) -> Result<()> {
    // A frame of 1042 bytes takes 85 ms.
    let bench = Bench::new("link 100kbit pfc data 0 tcd threshold 3000 max-on 600ms")?;
    let burst = |count: u16| (0..count).try_for_each(|at| bench.send(at, 2));
    let came = |count| {
        let all = (0..count).map(|_| bench.comes(10_000)?.context("nothing came"));
        all.map(|came| Ok(came?.1)).collect::<Result<Vec<u8>>>()
    };
    burst(6)?;
    let marks = came(6)?;
    // Five, four and three wait: 3000 bytes and more.
    ensure!(
        marks == [2, 3, 3, 2, 2, 2] || marks == [3, 3, 3, 2, 2, 2],
        "{marks:?}"
    );
    // 5.12 ms each.
    bench.pause(&Pause::one(0, 20))?;
    for (number, ecn) in [0, 1, 2, 3].into_iter().zip([0, 1, 2, 3]) {
        bench.send(number, ecn)?;
    }
    let marks = came(4)?;
    ensure!(marks == [0, 1, 1, 3], "{marks:?}");
    std::thread::sleep(Duration::from_millis(700));
    bench.send(4, 2)?;
    let marks = came(1)?;
    ensure!(marks == [2], "{marks:?}");
    let data = bench.data()?;
    ctx.note(data.json.to_string());
    ensure!(data.get("tcd-state") == 0, "{}", data.json);
    ensure!(
        [data.get("tcd-ue"), data.get("tcd-kept")] == [1, 2],
        "{}",
        data.json
    );
    ensure!(
        [data.get("tcd-pauses"), data.get("tcd-congestions")] == [1, 1],
        "{}",
        data.json
    );
    ensure!(
        data.get("tcd-time-undetermined") >= 600_000_000,
        "{}",
        data.json
    );
    Ok(())
}
