// SPDX-License-Identifier: GPL-2.0
//! A shaped link: every packet takes its time on the wire, from the slowest link to the fastest.

use anyhow::{ensure, Result};

use super::bench::{all_times, Bench, Kind, Sender, VLAN};
use super::exact::{check_schedule, words, Pace, Spacing, FRAME, GBIT, MBIT, SHARE};
use crate::harness::Ctx;
use crate::traffic::MIN_PAYLOAD;

/// Full frames at all speeds.
pub(super) fn frames(ctx: &mut Ctx) -> Result<()> {
    const COUNT: u64 = 2000;
    let mut bench = Bench::bare()?;
    for link in [
        MBIT,
        10 * MBIT,
        GBIT,
        10 * GBIT,
        25 * GBIT,
        40 * GBIT,
        100 * GBIT,
        200 * GBIT,
        400 * GBIT,
        800 * GBIT,
    ] {
        let what = format!("link {}", words(link));
        bench.replace(&format!("{what} data-limit 100mb"))?;
        let mut sender = bench.sender(Kind::data())?;
        let pace = Pace::bits(link);
        let start = bench.soon();
        bench.wait_until(start)?;
        sender.send(COUNT)?;
        let departures = all_times(&bench.arrivals_after(pace.after((COUNT + 1) * FRAME))?);
        ensure!(
            departures.len() as u64 == COUNT && departures[0] == start,
            "{} of {COUNT} frames came",
            departures.len()
        );
        let spacing = Spacing::of(&departures, pace.ns(FRAME))?;
        check_schedule(
            &what,
            &departures,
            std::iter::repeat_n(FRAME, departures.len()),
            pace,
        )?;
        spacing.check(&what, 1.0 / spacing.ideal / (COUNT - 1) as f64)?;
        ctx.note(format!(
            "{what}: a frame every {:.3} ns, gaps {}..{}",
            spacing.ideal, spacing.min, spacing.max
        ));
    }
    Ok(())
}

/// Packets of random lengths, both protocols, whatever `overhead` and `mpu` say, with and without a
/// child qdisc.
pub(super) fn lengths(ctx: &mut Ctx) -> Result<()> {
    const COUNT: usize = 600;
    let mut bench = Bench::bare()?;
    for (overhead, mpu) in [(24, 84), (0, 0), (0, 256), (256, 0), (38, 100), (4, 64)] {
        for child in [false, true] {
            let link = *ctx.rng.pick(&[3 * MBIT, 7 * GBIT, 10 * GBIT, 400 * GBIT]);
            let options = format!("link {} overhead {overhead} mpu {mpu}", words(link));
            let what = format!("`{options}`, child {child}");
            bench.replace(&format!("{options} data-limit 100mb"))?;
            if child {
                bench.tc("qdisc add dev eth0 parent 1:2 pfifo limit 10000")?;
            }
            let mut kinds = Vec::new();
            let mut senders = Vec::new();
            for number in 0..12 {
                let payload = ctx.rng.range(MIN_PAYLOAD as u64..=1452) as usize;
                // The shortest, too.
                let payload = if number < 2 { MIN_PAYLOAD } else { payload };
                let kind = Kind::data().payload(payload).stream(number);
                let kind = if number % 2 == 1 { kind.v6() } else { kind };
                kinds.push(kind);
                senders.push(bench.sender(kind)?);
            }
            let order: Vec<usize> = (0..COUNT).map(|_| ctx.rng.index(senders.len())).collect();
            let start = bench.soon();
            bench.wait_until(start)?;
            for index in &order {
                senders[*index].send(1)?;
            }
            let lens: Vec<u64> = order
                .iter()
                .map(|index| (kinds[*index].len() + overhead).max(mpu))
                .collect();
            let pace = Pace::bits(link);
            let arrivals = bench.arrivals_after(pace.after(lens.iter().sum::<u64>()))?;
            ensure!(
                arrivals.len() == COUNT && arrivals[0].at == start,
                "{what}: {} of {COUNT} packets came",
                arrivals.len()
            );
            for (came, index) in arrivals.iter().zip(&order) {
                ensure!(
                    came.stream == *index as u16 && u64::from(came.len) == kinds[*index].len(),
                    "{what}: stream {} with {} bytes came where {index} should",
                    came.stream,
                    came.len
                );
            }
            check_schedule(&what, &all_times(&arrivals), lens, pace)?;
        }
    }
    Ok(())
}

/// Over a VLAN device, with the port on it and below it. A tag that the device is to insert is not
/// in the packet's length, neither for tc nor for the port; `overhead 28` makes up for it.
pub(super) fn vlan(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::vlan()?;
    let upper = format!("eth0.{VLAN}");
    for dev in ["eth0", upper.as_str()] {
        for (overhead, short, full) in [(24, 84, 1538), (28, 88, 1542)] {
            bench.replace_on(
                dev,
                &format!(
                    "link 25gbit overhead {overhead} token-limit 200 token-expiry off data-limit \
                     10mb"
                ),
            )?;
            for v6 in [false, true] {
                let (more, of) = if v6 {
                    (20, Kind::v6 as fn(Kind) -> Kind)
                } else {
                    (0, (|kind| kind) as fn(Kind) -> Kind)
                };
                let link = Pace::bits(25 * GBIT);
                let group = Pace::tokens(25 * GBIT, SHARE, short + more);
                for (kind, pace, wire) in [
                    (of(Kind::token(0)), group, short + more),
                    // A full frame stays one.
                    (of(Kind::data()), link, full),
                ] {
                    let what = format!("port on {dev}, overhead {overhead}, {kind:?}");
                    let mut sender: Sender = bench.sender(kind)?;
                    let start = bench.soon();
                    bench.wait_until(start)?;
                    sender.send(200)?;
                    let arrivals = bench.arrivals_after(pace.after(201 * wire))?;
                    ensure!(
                        arrivals.len() == 200 && arrivals[0].at == start,
                        "{what}: {} of 200 packets came",
                        arrivals.len()
                    );
                    let departures = all_times(&arrivals);
                    check_schedule(&what, &departures, std::iter::repeat_n(wire, 200), pace)?;
                }
            }
        }
        ctx.note(format!("port on {dev}: tagged packets are spaced exactly"));
    }
    Ok(())
}
