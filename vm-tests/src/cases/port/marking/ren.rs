// SPDX-License-Identifier: GPL-2.0
//! REN's marks: which packets get which, that they are only ever raised, and that only REN flows
//! have them.

use std::time::Duration;

use anyhow::{ensure, Result};

use super::frames::{datagram, ecn, ren_datagram, with_ecn};
use super::{data, next, Probe, DEV};
use crate::harness::{Case, Ctx, MUCH_WORK};
use crate::netns::Netns;
use crate::stats::{self, Counters};
use crate::tool::Tool;
use crate::topology::Builder;
use crate::traffic::RawSocket;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("marking/ren-queue", queue),
    Case::new("marking/ren-gaps", gaps),
    Case::new("marking/ren-only-raised", only_raised),
    Case::new("marking/ren-two-ports", two_ports),
    Case::new("marking/ren-other-flows", other_flows),
    Case::new("marking/ren-with-a-child", with_a_child),
    Case::new("marking/ren-live-change", live_change).needs(MUCH_WORK),
];

/// A link on which a full frame takes 123 ms, so that lateness of the machine's is no gap, and a
/// period of eight of them.
const SLOW: &str = "link 100kbit ren period 1s";
const FRAME: Duration = Duration::from_micros(123_040);
/// Payload of a full frame.
const FULL: usize = 1472;
/// For so long the link is idle before a test, so that its first frame begins a period, and finds
/// room for one.
const IDLE: Duration = Duration::from_millis(2500);

/// A full frame of a REN flow that comes with this mark; over IPv6 and with tags as long as
/// without.
fn frame(v6: bool, tags: usize, mark: u8) -> Vec<u8> {
    let headers = 4 * tags + if v6 { 20 } else { 0 };
    ren_datagram(v6, tags, mark, FULL - headers)
}

/// Sends frames at once, and says with which marks they leave; nothing else may change.
fn marks(probe: &Probe, frames: &[Vec<u8>], tags: usize) -> Result<Vec<u8>> {
    for frame in frames {
        probe.put(frame)?;
    }
    frames
        .iter()
        .map(|frame| {
            let left = probe.leaves()?;
            let mark = ecn(&left, tags);
            ensure!(
                left == with_ecn(frame.clone(), tags, mark),
                "{frame:02x?} left as {left:02x?}"
            );
            Ok(mark)
        })
        .collect()
}

fn check_counters(counters: &Counters, expected: [u64; 5]) -> Result<()> {
    let keys = ["ren-seen", "ren-under", "ren-full", "ren-over", "ren-kept"];
    let found = keys.map(|key| counters.get(key));
    ensure!(
        found == expected,
        "{keys:?} are {found:?}, not {expected:?}: {}",
        counters.json
    );
    Ok(())
}

/// Six at once: the first goes and finds room for one; then four wait, less the one that would have
/// fit: three are too many. When one less waits and two are marked, enough are.
const BURST: [u8; 6] = [0, 2, 2, 1, 1, 1];

fn queue(ctx: &mut Ctx) -> Result<()> {
    for (v6, tags) in [(false, 0), (true, 0), (false, 1), (true, 2)] {
        let probe = Probe::new(SLOW)?;
        std::thread::sleep(IDLE);
        let left = marks(&probe, &vec![frame(v6, tags, 0); 6], tags)?;
        ctx.note(format!("IPv6 {v6}, {tags} tags: {left:?}"));
        ensure!(left == BURST, "IPv6 {v6}, {tags} tags: {left:?}");
        let data = probe.data()?;
        check_counters(&data, [6, 1, 3, 2, 0])?;
        ensure!(
            (1..=2).contains(&data.get("ren-periods")) && data.get("unwritable") == 0,
            "{}",
            data.json
        );
    }
    Ok(())
}

/// After a gap of two frames, so many packets are left as they are, and then no more.
fn gaps(ctx: &mut Ctx) -> Result<()> {
    let probe = Probe::new(SLOW)?;
    std::thread::sleep(IDLE);
    let mut left = marks(&probe, &[frame(false, 0, 0)], 0)?;
    // It is on the link for a frame's time.
    std::thread::sleep(FRAME.mul_f64(3.3));
    left.extend(marks(&probe, &vec![frame(true, 0, 0); 4], 0)?);
    ctx.note(format!("{left:?}"));
    // ti is 1, then 3. The first of the four goes at once, and finds nothing behind it; behind the
    // next are two, one and none.
    ensure!(left == [0, 0, 1, 1, 0], "{left:?}");
    check_counters(&probe.data()?, [5, 3, 2, 0, 0])
}

/// What an earlier port marked stays, if it is as high.
fn only_raised(_: &mut Ctx) -> Result<()> {
    let probe = Probe::new(SLOW)?;
    std::thread::sleep(IDLE);
    let frames: Vec<_> = [1, 0, 3, 2, 0, 0]
        .iter()
        .map(|mark| frame(false, 0, *mark))
        .collect();
    let left = marks(&probe, &frames, 0)?;
    // The first would have been left under-utilized; as it is not, the last one is.
    ensure!(left == [1, 2, 3, 2, 1, 0], "{left:?}");
    check_counters(&probe.data()?, [6, 1, 1, 1, 3])
}

/// A slow port and a fast one in a path, in either order: the slow one's marks arrive.
fn two_ports(ctx: &mut Ctx) -> Result<()> {
    const FAST: &str = "link 1gbit ren period 1s";
    for (first, second) in [(SLOW, FAST), (FAST, SLOW)] {
        let net = Builder::bridged(2).build()?;
        let (switch, dev) = net.port_to(1);
        let ns = &net.hosts[0].ns;
        Tool::Tc.port(ns, "add", DEV, first)?;
        Tool::Tc.port(switch, "add", &dev, second)?;
        let socket = RawSocket::open(ns, DEV)?;
        let tap = RawSocket::open(&net.hosts[1].ns, DEV)?;
        std::thread::sleep(IDLE);
        let mut sent = frame(false, 0, 0);
        sent[..6].fill(0xff);
        for _ in 0..6 {
            ensure!(socket.send(&sent)?, "the frame was not sent");
            // To the slow port it is one burst, to the fast one they are single packets.
            std::thread::sleep(Duration::from_millis(1));
        }
        let left: Vec<u8> = (0..6)
            .map(|_| next(&tap, false).map(|frame| ecn(&frame, 0)))
            .collect::<Result<_>>()?;
        ctx.note(format!("{first}, then {second}: {left:?}"));
        ensure!(left == BURST, "{first}, then {second}: {left:?}");
        let raised = |ns: &Netns, dev: &str| -> Result<u64> {
            let data = data(ns, dev)?;
            Ok(data.get("ren-full") + data.get("ren-over"))
        };
        let (mine, other) = match first {
            SLOW => (raised(ns, DEV)?, raised(switch, &dev)?),
            _ => (raised(switch, &dev)?, raised(ns, DEV)?),
        };
        ensure!(
            (mine, other) == (5, 0),
            "the slow port raised {mine}, the fast one {other}"
        );
    }
    Ok(())
}

/// Packets that are not of REN flows wait and take time as others do, but their ECN field is RFC
/// 3168's.
fn other_flows(_: &mut Ctx) -> Result<()> {
    let probe = Probe::new("link 10mbit ren period 100ms")?;
    for v6 in [false, true] {
        for tags in 0..=2 {
            for field in 0..=3 {
                let frame = datagram(v6, tags, field, 9, &[0x5a; 600]);
                for _ in 0..3 {
                    probe.put(&frame)?;
                }
                for _ in 0..3 {
                    let left = probe.leaves()?;
                    ensure!(left == frame, "ECN {field} became {}", ecn(&left, tags));
                }
            }
        }
    }
    check_counters(&probe.data()?, [0; 5])?;
    // Beside a phantom queue, each marks its own.
    probe.change(Tool::Tc, "phantom drain 1% mark 0")?;
    probe.heat()?;
    let left = probe.pass(&datagram(false, 0, 2, 9, &[0; 600]))?;
    ensure!(ecn(&left, 0) == 3, "ECN {}", ecn(&left, 0));
    let sent = ren_datagram(false, 0, 2, 600);
    let left = probe.pass(&sent)?;
    ensure!(left == sent, "a mark was lost: {left:02x?}");
    check_counters(&probe.data()?, [1, 0, 0, 0, 1])
}

/// What waits in a child counts as the port's own queue does.
fn with_a_child(_: &mut Ctx) -> Result<()> {
    let probe = Probe::new(SLOW)?;
    let ns = probe.ns();
    ns.tc(&format!("qdisc add dev {DEV} parent 1:2 handle 2: pfifo"))?;
    std::thread::sleep(IDLE);
    let left = marks(&probe, &vec![frame(true, 1, 0); 6], 1)?;
    ensure!(left == BURST, "{left:?}");
    stats::check_port(ns, DEV, "1:")
}

/// On, off and on again, with another period; a refused change leaves it as it was.
fn live_change(_: &mut Ctx) -> Result<()> {
    for tool in Tool::ALL {
        let probe = Probe::new("link 100kbit")?;
        let burst = |probe: &Probe| -> Result<Vec<u8>> {
            std::thread::sleep(IDLE);
            marks(probe, &vec![frame(false, 0, 0); 6], 0)
        };
        ensure!(burst(&probe)? == [0; 6], "marked without a marker");
        probe.change(tool, "ren period 900ms")?;
        ensure!(burst(&probe)? == BURST, "not marked");
        let refused = tool.try_port(probe.ns(), "change", DEV, "root", "ren period 2s")?;
        refused.failure()?;
        probe.change(tool, "ren period 1s priorities 3")?;
        let shown = tool.show_json(probe.ns(), DEV)?;
        ensure!(
            shown["options"]["ren"]["period"] == 1_000_000_000_u64,
            "{shown}"
        );
        ensure!(burst(&probe)? == BURST, "not marked after a change");
        let before = probe.data()?;
        probe.change(tool, "ren off")?;
        ensure!(burst(&probe)? == [0; 6], "marked when off");
        ensure!(
            probe.data()?.get("ren-seen") == before.get("ren-seen"),
            "counted when off"
        );
    }
    Ok(())
}
