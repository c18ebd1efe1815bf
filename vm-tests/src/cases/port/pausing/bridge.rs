// SPDX-License-Identifier: GPL-2.0
//! A bridge whose third port is held up, frame by frame: which pauses leave by the first, and what
//! becomes of them when something goes away.

use anyhow::{ensure, Context, Result};
use turnstile_core::pfc::frame::{Frame as Pause, ETHERTYPE};
use turnstile_core::port::uapi::class;

use crate::cases::port::churn::unload;
use crate::harness::Ctx;
use crate::netns::Netns;
use crate::stats::{self, Counters};
use crate::tool::Tool;
use crate::topology::{Builder, Net};
use crate::traffic::frame::{Frame, TPID_C};
use crate::traffic::{RawSocket, VirtioNetHeader};

/// Bytes of a datagram's payload, and what that takes on the wire over IPv4 and over IPv6.
const PAYLOAD: usize = 1000;
const WIRE: [u64; 2] = [1066, 1086];
const LONG: u16 = u16::MAX;
/// The priority of data.
const DATA: u8 = 3;
/// Nine and a half frames, and two and a half.
const XOFF: u64 = 10_200;
const XON: u64 = 2700;
const PORT: &str = "link 100mbit unscheduled off pfc data 3 watchdog 60s";
const PAUSES: &str = "xoff 10200 xon 2700 headroom 20kb";
/// Longer than a frame takes to come, if nothing holds it up.
const SOON: i64 = 50;

/// Three hosts on a bridge, all ports of which pause who sends too much.
pub(super) struct Bench {
    net: Net,
    /// Sends, and is paused.
    first: RawSocket,
    /// Receives, and pauses.
    third: RawSocket,
}

impl Bench {
    fn new() -> Result<Self> {
        Self::with(&format!("{PORT} {PAUSES}"))
    }

    /// All ports have these options.
    pub(super) fn with(options: &str) -> Result<Self> {
        let net = Builder::bridged(3).build()?;
        let first = RawSocket::open(&net.hosts[0].ns, "eth0")?;
        let third = RawSocket::open(&net.hosts[2].ns, "eth0")?;
        let bench = Self { net, first, third };
        bench.forwards()?;
        for dev in ["p1", "p2", "p3"] {
            Tool::Tc.port(bench.switch()?, "add", dev, options)?;
        }
        Ok(bench)
    }

    /// Waits until the bridge forwards: it begins some time after a link is up.
    fn forwards(&self) -> Result<()> {
        for _ in 0..100 {
            self.send(false, 1)?;
            if self.received()? > 0 {
                return Ok(());
            }
        }
        anyhow::bail!("the bridge does not forward")
    }

    pub(super) fn switch(&self) -> Result<&Netns> {
        self.net.switch.as_ref().context("no switch")
    }

    pub(super) fn change(&self, dev: &str, options: &str) -> Result<()> {
        Tool::Turnstile.port(self.switch()?, "change", dev, options)
    }

    /// The third host holds the switch up, or lets it go.
    fn hold(&self, quanta: u16) -> Result<()> {
        self.says(&Pause::one(DATA, quanta))
    }

    /// The third host says so.
    pub(super) fn says(&self, frame: &Pause) -> Result<()> {
        let frame = frame.write([2, 0, 0, 0, 0, 3]);
        ensure!(self.third.send(&frame)?, "a pause was dropped on its way");
        Ok(())
    }

    /// The first host sends so many datagrams to the third.
    pub(super) fn send(&self, v6: bool, count: u16) -> Result<()> {
        self.send_as(v6, count, |frame| frame)
    }

    /// The same, of a VLAN.
    fn send_tagged(&self, v6: bool, count: u16) -> Result<()> {
        self.send_as(v6, count, |frame| frame.tagged(TPID_C, TAG))
    }

    fn send_as(&self, v6: bool, count: u16, change: fn(Frame) -> Frame) -> Result<()> {
        let host = &self.net.hosts[2];
        for number in 0..count {
            let payload = [number as u8; PAYLOAD];
            let frame = match v6 {
                true => Frame::udp6(host.v6, 10, 9, &payload),
                false => Frame::udp4(host.v4, 10, 9, &payload),
            };
            let frame = change(frame.to_mac([2, 0, 0, 0, 0, 3])).bytes();
            ensure!(self.first.send(&frame)?, "a frame was dropped on its way");
        }
        Ok(())
    }

    /// For how many quanta the next pause frame that comes to the first host says, and that it
    /// names nothing but data.
    fn pause(&self, patience_ms: i64) -> Result<Option<u16>> {
        let Some(said) = self.control(patience_ms)? else {
            return Ok(None);
        };
        for other in (0..8).filter(|other| *other != DATA) {
            ensure!(said.says(other).is_none(), "{said:?}");
        }
        Ok(said.says(DATA))
    }

    /// The next pause frame that comes to the first host, from the switch's port.
    pub(super) fn control(&self, patience_ms: i64) -> Result<Option<Pause>> {
        while let Some(frame) = self.first.receive(patience_ms)? {
            let bytes = &frame.bytes;
            if frame.outgoing || bytes.len() < 18 || bytes[12..14] != ETHERTYPE.to_be_bytes() {
                continue;
            }
            ensure!(bytes.len() == 60, "{} bytes", bytes.len());
            ensure!(
                bytes[6..12] == [2, 0, 0, 0, 1, 1],
                "from {:x?}",
                &bytes[6..12]
            );
            let to = bytes[..6].try_into()?;
            let said = Pause::parse(&to, &bytes[14..]);
            let Ok(said) = said else {
                anyhow::bail!("{said:?}");
            };
            return Ok(Some(said));
        }
        Ok(None)
    }

    fn expect(&self, quanta: Option<u16>) -> Result<()> {
        let patience = if quanta.is_some() { 5000 } else { SOON };
        let came = self.pause(patience)?;
        ensure!(came == quanta, "{came:?} came and not {quanta:?}");
        Ok(())
    }

    /// How many datagrams come to the third host.
    pub(super) fn received(&self) -> Result<u64> {
        let mut count = 0;
        while let Some(frame) = self.third.receive(SOON)? {
            let is_data = matches!(frame.bytes[12..14], [8, 0] | [0x86, 0xdd]);
            count += u64::from(!frame.outgoing && is_data && frame.bytes.len() > PAYLOAD);
        }
        Ok(count)
    }

    pub(super) fn data(&self, dev: &str) -> Result<Counters> {
        let mut classes = stats::classes(self.switch()?, dev)?;
        let data = classes.remove(&format!("1:{}", class::DATA));
        let data = data.context("no data class")?;
        data.check()?;
        stats::check_port(self.switch()?, dev, "1:")?;
        Ok(data)
    }

    /// The bridge goes, and another one takes its place.
    fn new_bridge(&self) -> Result<()> {
        let switch = self.switch()?;
        switch.ip("link del br0")?;
        switch.ip("link add br0 up type bridge forward_delay 0 mcast_snooping 0")?;
        for dev in ["p1", "p2", "p3"] {
            switch.ip(&format!("link set {dev} master br0"))?;
        }
        Ok(())
    }

    /// What is held of what the first host sent.
    fn held(&self) -> Result<u64> {
        Ok(self.data("p1")?.get("pfc-held"))
    }

    /// The first host is paused, with ten frames in the switch.
    fn fill(&self) -> Result<()> {
        self.hold(LONG)?;
        self.send(false, 10)?;
        self.expect(Some(LONG))
    }
}

/// A pause at xoff, its end at xon, and a drop where the headroom ends; counters tell of all.
pub(super) fn thresholds(ctx: &mut Ctx) -> Result<()> {
    for v6 in [false, true] {
        let bench = Bench::new()?;
        let wire = WIRE[usize::from(v6)];
        bench.hold(LONG)?;
        let fit = XOFF / wire;
        bench.send(v6, fit as u16)?;
        bench.expect(None)?;
        ensure!(bench.held()? == fit * wire, "{} held", bench.held()?);
        bench.send(v6, 1)?;
        bench.expect(Some(LONG))?;
        // What comes all the same has room, as much as there is.
        let room = (20 << 10) / wire;
        bench.send(v6, room as u16 - 1)?;
        bench.expect(None)?;
        bench.send(v6, 2)?;
        let first = bench.data("p1")?;
        ctx.note(first.json.to_string());
        ensure!(
            first.get("pfc-held") == (fit + room) * wire,
            "{}",
            first.json
        );
        ensure!(
            first.get("pfc-most-headroom") == room * wire,
            "{}",
            first.json
        );
        ensure!(first.get("pfc-no-headroom") == 2, "{}", first.json);
        let third = bench.data("p3")?;
        ensure!(third.get("over-limit") == 2, "{}", third.json);
        bench.hold(0)?;
        ensure!(bench.received()? == fit + room, "not all came");
        bench.expect(Some(0))?;
        bench.expect(None)?;
        let first = bench.data("p1")?;
        ensure!(first.get("pfc-held") == 0, "{}", first.json);
        let counts = ["pfc-sent", "pfc-asked", "pfc-ended", "pfc-refreshed"];
        let counts = counts.map(|key| first.get(key));
        ensure!(counts == [2, 1, 1, 0], "{}", first.json);
        let (time, longest) = (first.get("pfc-asked-time"), first.get("pfc-asked-longest"));
        ensure!(
            time == longest && time >= SOON as u64 * 1_000_000,
            "{}",
            first.json
        );
        // Nobody else was paused.
        let second = bench.data("p2")?;
        ensure!(second.get("pfc-sent") == 0, "{}", second.json);
        let limits = ["pfc-xoff", "pfc-xon", "pfc-headroom"].map(|key| second.get(key));
        ensure!(limits == [XOFF, XON, 20 << 10], "{}", second.json);
    }
    Ok(())
}

/// A pause that lasts is asked for again, before it ends by itself: at 100 Mbit/s after 168 ms.
pub(super) fn refreshed(_: &mut Ctx) -> Result<()> {
    let bench = Bench::new()?;
    bench.fill()?;
    for _ in 0..4 {
        // The switch's own pause must not end either.
        bench.hold(LONG)?;
        let came = bench.pause(300)?;
        ensure!(came == Some(LONG), "{came:?}");
    }
    let first = bench.data("p1")?;
    ensure!(first.get("pfc-refreshed") >= 4, "{}", first.json);
    ensure!(first.get("pfc-asked") == 1, "{}", first.json);
    bench.hold(0)?;
    bench.expect(Some(0))?;
    bench.expect(None)
}

/// A pause leaves while the port's own data is held, and before the packets that wait there.
pub(super) fn while_held(_: &mut Ctx) -> Result<()> {
    let bench = Bench::new()?;
    // The first host holds the switch up, too.
    let frame = Pause::one(DATA, LONG).write([2, 0, 0, 0, 0, 1]);
    ensure!(bench.first.send(&frame)?, "a pause was dropped on its way");
    let host = &bench.net.hosts[0];
    let back = Frame::udp4(host.v4, 10, 9, &[0; PAYLOAD]).to_mac([2, 0, 0, 0, 0, 1]);
    // A bridge learns from the source where a host is.
    let mut back = back.bytes();
    back[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 3]);
    ensure!(bench.third.send(&back)?, "dropped");
    bench.fill()?;
    let waits = bench.data("p1")?;
    ensure!(waits.get("queued") == 1, "{}", waits.json);
    bench.hold(0)?;
    bench.expect(Some(0))?;
    let waits = bench.data("p1")?;
    ensure!(waits.get("queued") == 1, "{}", waits.json);
    Ok(())
}

/// Super-packets are charged as the packets that they are split into.
pub(super) fn super_packets(_: &mut Ctx) -> Result<()> {
    let bench = Bench::new()?;
    let socket = RawSocket::open_gso(&bench.net.hosts[0].ns, "eth0")?;
    let to = &bench.net.hosts[2];
    let frame = Frame::udp4(to.v4, 10, 9, &vec![7; 8 * PAYLOAD]);
    let header = VirtioNetHeader {
        flags: 1,
        gso_type: 5,
        header_len: 42,
        gso_size: PAYLOAD as u16,
        sum_start: 34,
        sum_offset: 6,
    };
    bench.hold(LONG)?;
    let frame = frame.to_mac([2, 0, 0, 0, 0, 3]).bytes();
    ensure!(socket.send_gso(header, &frame)?, "dropped");
    bench.expect(None)?;
    ensure!(bench.held()? == 8 * WIRE[0], "{} held", bench.held()?);
    ensure!(socket.send_gso(header, &frame)?, "dropped");
    bench.expect(Some(LONG))?;
    ensure!(bench.held()? == 16 * WIRE[0], "{} held", bench.held()?);
    bench.hold(0)?;
    bench.expect(Some(0))?;
    bench.received()?;
    ensure!(bench.held()? == 0, "{} held", bench.held()?);
    Ok(())
}

/// Whatever goes away while the first host is paused gives all back; and what stays goes on.
pub(super) fn gone(ctx: &mut Ctx) -> Result<()> {
    type Goes = fn(&Bench) -> Result<()>;
    const CASES: &[(&str, Goes)] = &[
        ("the port that holds", |bench| {
            bench.switch()?.tc("qdisc del dev p3 root").map(drop)
        }),
        ("its link", |bench| {
            bench.switch()?.ip("link set p3 down").map(drop)
        }),
        ("its device", |bench| {
            bench.switch()?.ip("link del p3").map(drop)
        }),
        ("pauses that it obeyed", |bench| {
            bench.change("p3", "pfc off")
        }),
        ("what it counted", |bench| {
            // What is charged stays charged until it leaves.
            bench.change("p3", "pfc xoff off data-limit 1600")?;
            bench.hold(0)
        }),
        ("the bridge", |bench| {
            bench.switch()?.ip("link del br0")?;
            bench.hold(0)
        }),
        ("pauses that it sends", |bench| {
            bench.change("p1", "pfc xoff off")
        }),
        ("the priority", |bench| bench.change("p1", "pfc data 4")),
        ("the port that pauses", |bench| {
            bench.switch()?.tc("qdisc del dev p1 root").map(drop)
        }),
        ("all pauses", |bench| bench.change("p1", "pfc off")),
        ("the port, for another one", |bench| {
            let switch = bench.switch()?;
            switch.tc("qdisc replace dev p1 root pfifo").map(drop)
        }),
    ];
    for (what, go) in CASES {
        ctx.note(*what);
        let bench = Bench::new()?;
        bench.fill()?;
        go(&bench).with_context(|| format!("{what} goes"))?;
        // A slow machine refreshes the pause before.
        let mut came = bench.pause(5000)?;
        for _ in 0..20 {
            if came == Some(LONG) {
                came = bench.pause(5000)?;
            }
        }
        ensure!(came == Some(0), "{what} goes: {came:?} came");
        if what.starts_with("the port") && *what != "the port that holds" {
            let options = format!("{PORT} {PAUSES}");
            Tool::Tc.port(bench.switch()?, "replace", "p1", &options)?;
        }
        // What was charged before gives nothing back to the one that is there now.
        if *what == "all pauses" || *what == "pauses that it sends" {
            bench.change("p1", &format!("pfc data 3 {PAUSES}"))?;
        }
        // Where the third host's link is gone, so is all that it held up.
        let _ = bench.hold(0);
        bench
            .expect(None)
            .with_context(|| format!("{what} is gone"))?;
        let first = bench.data("p1")?;
        ensure!(first.get("pfc-held") == 0, "{what} gone: {}", first.json);
    }
    Ok(())
}

/// The tag of [`Bench::send_tagged`].
const TAG: u16 = 10;

/// What comes in by a VLAN's device came in by the link below it.
pub(super) fn vlan(ctx: &mut Ctx) -> Result<()> {
    for v6 in [false, true] {
        let bench = Bench::new()?;
        let switch = bench.switch()?;
        switch.ip("link add br9 up type bridge forward_delay 0 mcast_snooping 0")?;
        for dev in ["p1", "p3"] {
            switch.ip(&format!("link set {dev} nomaster"))?;
            switch.ip(&format!(
                "link add link {dev} name {dev}.{TAG} type vlan id {TAG}"
            ))?;
            switch.ip(&format!("link set {dev}.{TAG} master br9 up"))?;
        }
        // The bridge forwards some time after a link is up.
        std::thread::sleep(std::time::Duration::from_millis(300));
        bench.hold(LONG)?;
        // Its tag is not in what it counts.
        let wire = WIRE[usize::from(v6)];
        let fit = XOFF / wire;
        bench.send_tagged(v6, fit as u16)?;
        bench.expect(None)?;
        let held = bench.held()?;
        ctx.note(format!("{}", bench.data("p3")?.json));
        ensure!(held == fit * wire, "{held} held");
        bench.send_tagged(v6, 1)?;
        bench.expect(Some(LONG))?;
        bench.hold(0)?;
        bench.expect(Some(0))?;
        bench.expect(None)?;
        let first = bench.data("p1")?;
        ensure!(first.get("pfc-held") == 0, "{}", first.json);
    }
    Ok(())
}

/// Ports come, go and change under a flood, while some are paused.
pub(super) fn churn(ctx: &mut Ctx, cycles: u32) -> Result<()> {
    let bench = Bench::new()?;
    let options = format!("{PORT} {PAUSES}");
    for cycle in 0..cycles {
        if ctx.rng.one_in(2) {
            bench.hold(ctx.rng.range(0..=0xffff) as u16)?;
        }
        let host = &bench.net.hosts[2];
        let frame = Frame::udp4(host.v4, 10, 9, &[0; PAYLOAD]).to_mac([2, 0, 0, 0, 0, 3]);
        for _ in 0..ctx.rng.range(1..=40) {
            let _ = bench.first.send(&frame.bytes())?;
        }
        let dev = *ctx.rng.pick(&["p1", "p3"]);
        let verb = match ctx.rng.range(0..=9) {
            0 => {
                bench.switch()?.tc(&format!("qdisc del dev {dev} root"))?;
                "add"
            }
            1 => {
                bench.change(dev, "pfc xoff off")?;
                "change"
            }
            2 => {
                bench.change(dev, "pfc off")?;
                "change"
            }
            3 => {
                bench.switch()?.ip(&format!("link set {dev} down"))?;
                bench.switch()?.ip(&format!("link set {dev} up"))?;
                "change"
            }
            4 => {
                bench
                    .switch()?
                    .ip(&format!("link set {dev} mtu {}", 1400 + cycle % 100))?;
                "change"
            }
            5 => {
                bench.change(dev, "pfc data 3 xoff 1600 xon 0 headroom 0")?;
                "change"
            }
            6 => {
                bench.change(dev, "link 10mbit")?;
                "change"
            }
            7 => {
                bench.new_bridge()?;
                "change"
            }
            8 if cycle % 4 == 0 => {
                for dev in ["p1", "p2", "p3"] {
                    let switch = bench.switch()?;
                    switch.tc(&format!("qdisc del dev {dev} root"))?;
                }
                unload()?;
                for dev in ["p1", "p2", "p3"] {
                    Tool::Tc.port(bench.switch()?, "add", dev, &options)?;
                }
                "change"
            }
            _ => "replace",
        };
        Tool::Tc.port(bench.switch()?, verb, dev, &options)?;
    }
    bench.hold(0)?;
    bench.received()?;
    bench.forwards()?;
    for dev in ["p1", "p3"] {
        let data = bench.data(dev)?;
        ensure!(data.get("pfc-held") == 0, "{dev}: {}", data.json);
        ensure!(data.get("queued") == 0, "{dev}: {}", data.json);
    }
    // All is as it was: who sends too much is paused, and let go.
    while bench.pause(SOON)?.is_some() {}
    bench
        .fill()
        .with_context(|| format!("{:?} {:?}", bench.data("p1"), bench.data("p3")))?;
    bench.hold(0)?;
    bench.expect(Some(0))
}
