// SPDX-License-Identifier: GPL-2.0
//! Pauses of several priorities, pauses of the whole link, and thresholds that follow a buffer.

use anyhow::{ensure, Result};
use turnstile_core::pfc::frame::Frame as Pause;

use super::bridge::Bench;
use crate::harness::Ctx;

const LONG: u16 = u16::MAX;
/// Longer than a frame takes to come, if nothing holds it up.
const SOON: i64 = 50;
/// What a datagram of `Bench::send` takes on the wire.
const WIRE: u64 = 1066;

fn options(data: &str, rest: &str) -> String {
    format!("link 100mbit unscheduled off pfc data {data} watchdog 60s {rest}")
}

/// This one comes to the first host next; `None`: nothing does.
fn expect(bench: &Bench, frame: Option<&Pause>) -> Result<()> {
    let came = bench.control(if frame.is_some() { 5000 } else { SOON })?;
    ensure!(came.as_ref() == frame, "{came:?} came and not {frame:?}");
    Ok(())
}

/// One frame pauses all of data's priorities; data waits for the last of them.
pub(super) fn several(_: &mut Ctx) -> Result<()> {
    let bench = Bench::with(&options("3,4", "xoff 10200 xon 2700 headroom 20kb"))?;
    let both = |quanta| Pause::Pfc {
        enabled: 0b1_1000,
        quanta: [0, 0, 0, quanta, quanta, 0, 0, 0],
    };
    bench.says(&Pause::one(5, LONG))?;
    bench.send(false, 1)?;
    ensure!(bench.received()? == 1, "a priority that is not data's");
    bench.says(&Pause::one(3, LONG))?;
    bench.says(&Pause::one(4, LONG))?;
    bench.send(false, 10)?;
    expect(&bench, Some(&both(LONG)))?;
    bench.says(&Pause::one(3, 0))?;
    ensure!(bench.received()? == 0, "4 is paused still");
    bench.says(&Pause::one(4, 0))?;
    expect(&bench, Some(&both(0)))?;
    ensure!(bench.received()? == 10, "not all came");
    let third = bench.data("p3")?;
    let counts = ["pfc-paused", "pfc-resumed", "pfc-pauses"].map(|key| third.get(key));
    ensure!(counts == [2, 2, 1], "{}", third.json);
    let each = ["pfc-3-paused", "pfc-4-paused"].map(|key| third.get(key));
    ensure!(each == [1, 1], "{}", third.json);
    // The fourth was paused for longer, as all of data was.
    let [third_s, fourth_s, all] =
        ["pfc-3-time", "pfc-4-time", "pfc-time"].map(|key| third.get(key));
    let longest = third.get("pfc-4-longest");
    ensure!(third_s < fourth_s && fourth_s == longest, "{}", third.json);
    ensure!(fourth_s <= all, "{}", third.json);
    ensure!(!third.json.to_string().contains("pfc-5-"), "{}", third.json);
    // A frame of the whole link is about both.
    bench.says(&Pause::Pause { quanta: LONG })?;
    bench.send(false, 1)?;
    ensure!(bench.received()? == 0, "the link is paused");
    bench.says(&Pause::Pause { quanta: 0 })?;
    ensure!(bench.received()? == 1, "it is not any more");
    Ok(())
}

/// Without priorities (802.3x): frames of those are nothing to it, and it sends none. What it was
/// paused for before is ended as what it was.
pub(super) fn link(_: &mut Ctx) -> Result<()> {
    let bench = Bench::with(&options("pause", "xoff 10200 xon 2700 headroom 20kb"))?;
    let pause = |quanta| Pause::Pause { quanta };
    for priority in 0..8 {
        bench.says(&Pause::one(priority, LONG))?;
    }
    bench.send(false, 1)?;
    ensure!(bench.received()? == 1, "held by priorities");
    bench.says(&pause(LONG))?;
    bench.send(false, 10)?;
    expect(&bench, Some(&pause(LONG)))?;
    bench.says(&Pause::one(0, 0))?;
    ensure!(bench.received()? == 0, "ended by a priority");
    bench.change("p1", "pfc data 3")?;
    expect(&bench, Some(&pause(0)))?;
    bench.change("p1", "pfc data pause")?;
    bench.says(&pause(0))?;
    ensure!(bench.received()? == 10, "not all came");
    expect(&bench, None)?;
    let first = bench.data("p1")?;
    ensure!(first.get("pfc-held") == 0, "{}", first.json);
    // And on deletion.
    bench.says(&pause(LONG))?;
    bench.send(false, 10)?;
    expect(&bench, Some(&pause(LONG)))?;
    bench.switch()?.tc("qdisc del dev p1 root")?;
    expect(&bench, Some(&pause(0)))
}

/// Half of what is free in 32 KB: a single neighbour gets a third of it.
pub(super) fn shared(ctx: &mut Ctx) -> Result<()> {
    const BUFFER: u64 = 32 << 10;
    let dynamic = format!("xoff auto headroom 20kb alpha 1/2 buffer {BUFFER}b");
    let bench = Bench::with(&options("3", &dynamic))?;
    let first = bench.data("p1")?;
    ensure!(first.get("pfc-xoff") == BUFFER / 2, "{}", first.json);
    bench.says(&Pause::one(3, LONG))?;
    // So many that one more would be above half of what the others leave.
    let fit = (1..).find(|n| (n + 1) * WIRE > (BUFFER - n * WIRE) / 2);
    let fit = fit.unwrap_or_default();
    bench.send(false, fit as u16)?;
    expect(&bench, None)?;
    bench.send(false, 1)?;
    expect(&bench, Some(&Pause::one(3, LONG)))?;
    let first = bench.data("p1")?;
    ctx.note(first.json.to_string());
    ensure!(first.get("pfc-held") == (fit + 1) * WIRE, "{}", first.json);
    // The same is left for others.
    let left = (BUFFER - fit * WIRE) / 2;
    for dev in ["p1", "p2"] {
        let data = bench.data(dev)?;
        ensure!(data.get("pfc-xoff") == left, "{dev}: {}", data.json);
    }
    // Turned off and on again, nothing is left behind in the buffer.
    bench.change("p1", "pfc alpha off xoff 10200 xon 2700")?;
    let second = bench.data("p2")?;
    ensure!(second.get("pfc-xoff") == BUFFER / 2, "{}", second.json);
    let again = format!("pfc xoff auto xon auto alpha 1/2 buffer {BUFFER}b");
    bench.change("p1", &again)?;
    let second = bench.data("p2")?;
    ensure!(second.get("pfc-xoff") < BUFFER / 2, "{}", second.json);
    bench.says(&Pause::one(3, 0))?;
    ensure!(bench.received()? == fit + 1, "not all came");
    expect(&bench, Some(&Pause::one(3, 0)))?;
    expect(&bench, None)?;
    bench.says(&Pause::one(3, LONG))?;
    bench.send(false, fit as u16)?;
    bench.switch()?.tc("qdisc del dev p1 root")?;
    let second = bench.data("p2")?;
    ensure!(second.get("pfc-xoff") == BUFFER / 2, "{}", second.json);
    Ok(())
}
