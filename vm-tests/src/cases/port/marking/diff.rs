// SPDX-License-Identifier: GPL-2.0
//! A marker changes no byte but the ECN field and the checksum over it.

use anyhow::{ensure, Result};

use super::frames::{any, datagram, ecn, with_ecn};
use super::{next, Probe, HOT};
use crate::harness::Ctx;
use crate::tool::Tool;
use crate::topology::Builder;
use crate::traffic::RawSocket;

/// Random frames through a port that marks all that it may: each leaves as it came, or with the
/// mark that it should have.
pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    // With REN the link is so slow that it has no gap on any machine: a gap is room, and what meets
    // room is not marked.
    for (ren, frames) in [(false, 3000), (true, 1500)] {
        let probe = Probe::new(HOT)?;
        if ren {
            probe.change(Tool::Tc, "link 1mbit ren period 20ms")?;
        }
        // What follows keeps it hot.
        probe.heat()?;
        let before = probe.data()?;
        let (mut capable, mut raised, mut others) = (0_u64, 0_u64, 0_u64);
        for n in 0..frames {
            let sample = any(&mut ctx.rng);
            let field = if sample.ip {
                ecn(&sample.frame, sample.tags)
            } else {
                0
            };
            let left = probe.pass(&sample.frame)?;
            let expected = match field {
                // Which mark it is, depends on when it came.
                _ if sample.ren && ren => {
                    let mark = ecn(&left, sample.tags);
                    ensure!(mark >= field, "a mark was lowered from {field} to {mark}");
                    raised += u64::from(mark > field);
                    with_ecn(sample.frame.clone(), sample.tags, mark)
                }
                1 | 2 if !sample.ren => {
                    capable += 1;
                    with_ecn(sample.frame.clone(), sample.tags, 3)
                }
                _ => {
                    others += 1;
                    sample.frame.clone()
                }
            };
            ensure!(
                left == expected,
                "frame {n}, {} tags, ECN {field}:\n{:02x?}\nleft as\n{left:02x?}\ninstead \
                 of\n{expected:02x?}",
                sample.tags,
                sample.frame
            );
        }
        let grown = probe.grown(&before)?;
        ctx.note(format!(
            "of {frames} frames {capable} were marked as RFC 3168 says, {raised} as REN does"
        ));
        ensure!(
            capable > 300 && others > 300 && (raised > 20) == ren,
            "{capable} candidates, {raised} of REN flows, {others} others"
        );
        ensure!(
            grown["phantom-marked"] == capable && grown["phantom-markable"] == capable,
            "{capable} were marked: {grown:?}"
        );
        ensure!(grown["unwritable"] == 0, "{grown:?}");
        if ren {
            ensure!(
                grown["ren-full"] + grown["ren-over"] == raised && grown["ren-seen"] > 100,
                "{raised} were raised: {grown:?}"
            );
        }
    }
    Ok(())
}

/// A bridge hands the same bytes to all of its ports: one that marks does so to its own copy.
pub(super) fn copies(_: &mut Ctx) -> Result<()> {
    let net = Builder::bridged(3).build()?;
    let (switch, dev) = net.port_to(1);
    Tool::Tc.port(switch, "add", &dev, HOT)?;
    let socket = RawSocket::open(&net.hosts[0].ns, "eth0")?;
    let [marks, plain] = [1, 2].map(|host| RawSocket::open(&net.hosts[host].ns, "eth0"));
    let (marks, plain) = (marks?, plain?);
    let mut count = 0;
    for n in 0..60_usize {
        let (v6, field) = (n % 2 == 1, (n / 2 % 4) as u8);
        let payload = vec![n as u8; 1200];
        let mut frame = datagram(v6, 0, field, 9, &payload);
        // To everybody.
        frame[..6].fill(0xff);
        ensure!(socket.send(&frame)?, "the frame was not sent");
        let left = next(&marks, false)?;
        let other = next(&plain, false)?;
        ensure!(
            other == frame,
            "the copy for a port without a marker changed: {other:02x?}"
        );
        if left != frame {
            ensure!(
                left == with_ecn(frame.clone(), 0, 3),
                "marked as {left:02x?}"
            );
            count += 1;
        }
    }
    // All that are ECT but the first, perhaps.
    ensure!((29..=30).contains(&count), "{count} of 30 were marked");
    Ok(())
}
