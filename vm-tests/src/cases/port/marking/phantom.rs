// SPDX-License-Identifier: GPL-2.0
//! The phantom queue: whom it marks and whom not, super-packets, live change, counters, children,
//! and TCP that heeds it.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use serde_json::Value;
use turnstile_core::header::{FLAG_REN, PORT};

use super::frames::{datagram, ecn, ren_payload, with_ecn};
use super::{data, next, Probe, COLD, DEV, HOT};
use crate::cases::support::load::tcp_super_packet;
use crate::harness::{Case, Ctx};
use crate::netns::Netns;
use crate::stats;
use crate::tool::Tool;
use crate::topology::Builder;
use crate::traffic::{bulk, Packet, RawSocket};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("marking/phantom-code-points", code_points),
    Case::new("marking/phantom-threshold", threshold),
    Case::new("marking/phantom-super-packets", super_packets),
    Case::new("marking/phantom-live-change", live_change),
    Case::new("marking/phantom-two-ports", two_ports),
    Case::new("marking/phantom-with-a-child", with_a_child),
    Case::new("marking/phantom-data-band-only", data_band_only),
    Case::new("marking/phantom-ren-flows", ren_flows),
    Case::new("marking/phantom-counters", counters),
    Case::new("marking/phantom-tcp", tcp).timeout_s(120),
];

/// CE on ECT(0) and ECT(1); Not-ECT and CE stay. IPv4 and IPv6, behind VLAN tags.
fn code_points(_: &mut Ctx) -> Result<()> {
    let probe = Probe::new(HOT)?;
    probe.heat()?;
    for (words, hot) in [(HOT, true), (COLD, false), ("phantom off", false)] {
        probe.change(Tool::Turnstile, words)?;
        for v6 in [false, true] {
            for tags in 0..=2 {
                for field in 0..=3 {
                    let frame = datagram(v6, tags, field, 9, &[0x5a; 100]);
                    let expected = match field {
                        1 | 2 if hot => with_ecn(frame.clone(), tags, 3),
                        _ => frame.clone(),
                    };
                    let left = probe.pass(&frame)?;
                    ensure!(
                        left == expected,
                        "{words}: IPv6 {v6}, {tags} tags, ECN {field} left as ECN {}: {left:02x?}",
                        ecn(&left, tags)
                    );
                }
            }
        }
    }
    Ok(())
}

/// Above the threshold, and not before: at 1 % of the link next to nothing drains while a burst
/// leaves.
fn threshold(ctx: &mut Ctx) -> Result<()> {
    const WIRE: u64 = 1538;
    for (mark, first) in [(0, 1), (3 * WIRE + WIRE / 2, 4), (9 * WIRE + WIRE / 2, 10)] {
        // Slow: what drains while a busy machine does something else is not half a packet.
        let probe = Probe::new(&format!("link 1mbit phantom drain 1% mark {mark}b"))?;
        let frame = datagram(false, 0, 2, 9, &[0; 1472]);
        // Queued as one, since the link is busy meanwhile.
        for _ in 0..14 {
            probe.put(&frame)?;
        }
        let left: Vec<u8> = (0..14)
            .map(|_| probe.leaves().map(|frame| ecn(&frame, 0)))
            .collect::<Result<_>>()?;
        ctx.note(format!("mark {mark}: {left:?}"));
        let expected: Vec<u8> = (0..14).map(|n| if n < first { 2 } else { 3 }).collect();
        ensure!(left == expected, "mark {mark}: {left:?}, not {expected:?}");
        let data = probe.data()?;
        let (now, max) = (data.get("phantom-backlog"), data.get("phantom-max"));
        ensure!(
            now <= max && max <= 14 * WIRE && max > 13 * WIRE,
            "{now} bytes queued, at most {max}"
        );
    }
    Ok(())
}

/// Split, each segment is judged for itself; whole, a super-packet is marked if its last segment
/// would be.
fn super_packets(ctx: &mut Ctx) -> Result<()> {
    const MSS: u16 = 1000;
    const SEGMENTS: usize = 6;
    for v6 in [false, true] {
        let headers = if v6 { 74 } else { 54 };
        let wire = usize::from(MSS) + headers + 24;
        let (header, frame) = {
            let to = Builder::pair().build()?;
            let payload = vec![0x5a; usize::from(MSS) * SEGMENTS];
            tcp_super_packet(to.hosts[1].v4, to.hosts[1].v6, v6, MSS, &payload)
        };
        let frame = with_ecn(frame, 0, 1);
        // 1 % drains meanwhile: the fifth segment finds not quite four.
        for (words, mark, expected) in [
            ("split-gso", 3 * wire + wire / 2, vec![1, 1, 1, 1, 3, 3]),
            ("split-gso", 0, vec![1, 3, 3, 3, 3, 3]),
            ("no-split-gso", 4 * wire + wire / 2, vec![3]),
            ("no-split-gso", 5 * wire, vec![1]),
        ] {
            let net = Builder::pair().build()?;
            let ns = &net.hosts[0].ns;
            let options = format!("link 1mbit {words} phantom drain 1% mark {mark}b");
            Tool::Tc.port(ns, "add", DEV, &options)?;
            let socket = RawSocket::open_gso(ns, DEV)?;
            let tap = RawSocket::open(ns, DEV)?;
            ensure!(socket.send_gso(header, &frame)?, "the port dropped it");
            let left: Vec<Vec<u8>> = expected
                .iter()
                .map(|_| next(&tap, true))
                .collect::<Result<_>>()?;
            let fields: Vec<u8> = left.iter().map(|frame| ecn(frame, 0)).collect();
            ctx.note(format!("IPv6 {v6}, {words}: {fields:?}"));
            ensure!(
                fields == expected,
                "IPv6 {v6}, {options}: {fields:?}, not {expected:?}"
            );
            for frame in &left {
                ensure!(
                    *frame == with_ecn(frame.clone(), 0, ecn(frame, 0)),
                    "IPv6 {v6}, {words}: the checksum is wrong: {frame:02x?}"
                );
            }
            let counted = data(ns, DEV)?;
            let marked = match words {
                "split-gso" => expected.iter().filter(|field| **field == 3).count(),
                _ if expected == [3] => SEGMENTS,
                _ => 0,
            };
            ensure!(
                counted.get("phantom-marked") == marked as u64
                    && counted.get("phantom-markable") == SEGMENTS as u64,
                "{options}: {}",
                counted.json
            );
        }
    }
    Ok(())
}

/// On, off, another threshold, another rate, while packets pass; a refused change leaves all as it
/// was.
fn live_change(_: &mut Ctx) -> Result<()> {
    for tool in Tool::ALL {
        let probe = Probe::new("link 10mbit")?;
        let marks = |probe: &Probe| -> Result<bool> {
            let frame = datagram(false, 0, 2, 9, &[0; 100]);
            Ok(ecn(&probe.pass(&frame)?, 0) == 3)
        };
        ensure!(!marks(&probe)?, "marked without a marker");
        ensure!(
            !probe.data()?.json.to_string().contains("phantom"),
            "a port that never had a phantom queue counts for it"
        );
        probe.change(tool, "phantom drain 1% mark 0")?;
        probe.heat()?;
        ensure!(marks(&probe)?, "not marked");
        probe.change(tool, "phantom mark 1gb")?;
        ensure!(!marks(&probe)?, "marked below the threshold");
        probe.change(tool, "phantom mark 1kb priorities 3")?;
        ensure!(marks(&probe)?, "not marked, though it was not emptied");
        let options = tool.show_json(probe.ns(), DEV)?["options"].clone();
        let refused = tool.try_port(probe.ns(), "change", DEV, "root", "phantom drain 20mbit")?;
        refused.failure().context("more than the link")?;
        ensure!(
            tool.show_json(probe.ns(), DEV)?["options"] == options && marks(&probe)?,
            "a refused change changed something"
        );
        let before = probe.data()?;
        probe.change(tool, "phantom off")?;
        ensure!(!marks(&probe)?, "marked when off");
        let after = probe.data()?;
        ensure!(
            after.get("phantom-marked") == before.get("phantom-marked")
                && after.get("phantom-seen") == before.get("phantom-seen"),
            "counters moved, or went: {} became {}",
            before.json,
            after.json
        );
        // Of a queue that is off, nothing is left.
        probe.change(tool, "phantom drain 1% mark 0")?;
        ensure!(!marks(&probe)?, "what was queued before it was turned off");
    }
    Ok(())
}

/// A mark survives a second port that would not mark, and is not counted twice by one that would.
fn two_ports(_: &mut Ctx) -> Result<()> {
    let net = Builder::bridged(2).build()?;
    let (switch, dev) = net.port_to(1);
    let ns = &net.hosts[0].ns;
    Tool::Tc.port(ns, "add", DEV, HOT)?;
    let socket = RawSocket::open(ns, DEV)?;
    let tap = RawSocket::open(&net.hosts[1].ns, DEV)?;
    let send = |v6, field| -> Result<u8> {
        let mut frame = datagram(v6, 0, field, 9, &[0; 1200]);
        frame[..6].fill(0xff);
        ensure!(socket.send(&frame)?, "the frame was not sent");
        let left = next(&tap, false)?;
        ensure!(
            left == with_ecn(frame, 0, ecn(&left, 0)),
            "more than the field changed: {left:02x?}"
        );
        Ok(ecn(&left, 0))
    };
    // The first fills the queue.
    send(false, 0)?;
    for words in [COLD, HOT] {
        Tool::Tc.port(switch, "replace", &dev, words)?;
        send(false, 0)?;
        let before = data(switch, &dev)?;
        for v6 in [false, true] {
            let fields = [send(v6, 0)?, send(v6, 1)?, send(v6, 2)?, send(v6, 3)?];
            ensure!(fields == [0, 3, 3, 3], "{words}, IPv6 {v6}: {fields:?}");
        }
        let after = data(switch, &dev)?;
        let grown = |key| after.get(key) - before.get(key);
        ensure!(
            grown("phantom-seen") == 8
                && grown("phantom-markable") == 0
                && grown("phantom-marked") == 0,
            "the second port counts {}",
            after.json
        );
    }
    Ok(())
}

/// A child on the data class makes no difference.
fn with_a_child(_: &mut Ctx) -> Result<()> {
    let probe = Probe::new(HOT)?;
    for child in ["pfifo", "fq_codel", "turnstile link 5mbit"] {
        let ns = probe.ns();
        ns.tc(&format!(
            "qdisc replace dev {DEV} parent 1:2 handle 2: {child}"
        ))?;
        probe.heat()?;
        for v6 in [false, true] {
            for (field, expected) in [(0, 0), (1, 3), (2, 3), (3, 3)] {
                let left = probe.pass(&datagram(v6, 1, field, 9, &[0; 900]))?;
                ensure!(
                    ecn(&left, 1) == expected,
                    "{child}: ECN {field} left as {}",
                    ecn(&left, 1)
                );
            }
        }
        stats::check_port(ns, DEV, "1:")?;
        ns.tc(&format!("qdisc del dev {DEV} parent 1:2"))?;
    }
    Ok(())
}

/// Signals, tokens and unscheduled packets are neither counted nor marked.
fn data_band_only(_: &mut Ctx) -> Result<()> {
    let probe = Probe::new(HOT)?;
    probe.heat()?;
    let before = probe.data()?;
    for packet in [Packet::Signal, Packet::Token(0), Packet::Unscheduled] {
        for field in [1, 2] {
            let mut payload = packet.header().to_vec();
            payload.resize(40, 0);
            let left = probe.pass(&datagram(false, 0, field, PORT, &payload))?;
            ensure!(
                ecn(&left, 0) == field,
                "{packet:?} left as ECN {}",
                ecn(&left, 0)
            );
        }
    }
    let grown = probe.grown(&before)?;
    ensure!(grown["phantom-seen"] == 0, "{grown:?}");
    Ok(())
}

/// In a REN flow the field has another meaning: it counts for the queue, and is not touched.
fn ren_flows(_: &mut Ctx) -> Result<()> {
    let probe = Probe::new(HOT)?;
    probe.heat()?;
    let before = probe.data()?;
    for v6 in [false, true] {
        for tags in [0, 1] {
            for field in 0..=3 {
                let mut payload = ren_payload(400);
                let frame = datagram(v6, tags, field, PORT, &payload);
                let left = probe.pass(&frame)?;
                ensure!(left == frame, "ECN {field} became {}", ecn(&left, tags));
                // The same without the flag is marked.
                payload[2] &= !FLAG_REN;
                let frame = datagram(v6, tags, field, PORT, &payload);
                let expected = match field {
                    1 | 2 => with_ecn(frame.clone(), tags, 3),
                    _ => frame.clone(),
                };
                let left = probe.pass(&frame)?;
                ensure!(left == expected, "ECN {field} became {}", ecn(&left, tags));
            }
        }
    }
    let grown = probe.grown(&before)?;
    ensure!(
        grown["phantom-seen"] == 32
            && grown["phantom-markable"] == 8
            && grown["phantom-marked"] == 8,
        "{grown:?}"
    );
    Ok(())
}

/// Both tools show the same counters, and they say what happened.
fn counters(_: &mut Ctx) -> Result<()> {
    let probe = Probe::new(COLD)?;
    probe.heat()?;
    probe.change(Tool::Tc, "phantom mark 0")?;
    let before = probe.data()?;
    for field in [0, 0, 0, 1, 1, 2, 3] {
        probe.pass(&datagram(field % 2 == 1, 0, field, 9, &[0; 500]))?;
    }
    let arp = crate::traffic::frame::Frame::new(0x8137, &[0; 60]).bytes();
    probe.pass(&arp)?;
    let grown = probe.grown(&before)?;
    for (key, count) in [
        ("phantom-seen", 8),
        ("phantom-markable", 3),
        ("phantom-marked", 3),
        ("unwritable", 0),
    ] {
        ensure!(grown[key] == count, "{key} is not {count}: {grown:?}");
    }
    // It drains at 12500 bytes a second: 40 frames of 1538 bytes take five.
    let data = probe.data()?;
    let (now, max) = (data.get("phantom-backlog"), data.get("phantom-max"));
    ensure!(
        max > 20_000 && now <= max,
        "{now} bytes queued, at most {max}"
    );
    std::thread::sleep(Duration::from_millis(200));
    let later = probe.data()?.get("phantom-backlog");
    ensure!(later + 2000 < now, "in 200 ms, {now} bytes became {later}");
    let port = Tool::Turnstile.show_json(probe.ns(), DEV)?;
    ensure!(port["options"]["phantom"]["mark"] == 0, "{port}");
    let shown = probe
        .ns()
        .run(&format!("turnstile -s -j port show {DEV}"))?;
    let shown: Value = crate::cmd::json(&shown)?;
    let classes = shown[0]["classes"].as_array().context("no classes")?;
    for class in classes {
        let stats = &class["stats"];
        if class["band"] == "data" {
            for key in [
                "phantom-seen",
                "phantom-markable",
                "phantom-marked",
                "phantom-max",
            ] {
                ensure!(
                    stats[key].as_u64() == Some(data.get(key)),
                    "tc and turnstile differ in {key}: {stats}"
                );
            }
        } else {
            ensure!(stats.get("phantom-seen").is_none(), "{class}");
        }
    }
    let text = probe.ns().run(&format!("turnstile -s port show {DEV}"))?;
    ensure!(text.contains("1:2 phantom-seen"), "{text}");
    Ok(())
}

/// A counter of the kernel's.
pub(super) fn netstat(ns: &Netns, name: &str) -> Result<u64> {
    let text = ns.run("cat /proc/net/netstat /proc/net/snmp")?;
    let lines: Vec<&str> = text.lines().collect();
    for pair in lines.chunks(2) {
        let [names, values] = pair else { continue };
        let at = names.split(' ').position(|word| word == name);
        if let Some(at) = at {
            let value = values.split(' ').nth(at).context("no value")?;
            return Ok(value.parse()?);
        }
    }
    anyhow::bail!("no counter {name}")
}

/// TCP with ECN through a port that marks: each mark arrives, no checksum is wrong, and nothing is
/// lost.
fn tcp(ctx: &mut Ctx) -> Result<()> {
    for words in ["split-gso", "no-split-gso"] {
        let net = Builder::pair().build()?;
        let [from, to] = &net.hosts[..] else {
            anyhow::bail!("not a pair")
        };
        for host in [from, to] {
            host.ns.sysctl("net/ipv4/tcp_ecn", "1")?;
        }
        let options = format!("link 50mbit {words} phantom drain 80% mark 10kb data-limit 10mb");
        Tool::Tc.port(&from.ns, "add", DEV, &options)?;
        bulk(&from.ns, &to.ns, to.v4.into(), 2_000_000)?;
        let arrived = netstat(&to.ns, "InCEPkts")?;
        let data = data(&from.ns, DEV)?;
        let marked = data.get("phantom-marked");
        ctx.note(format!(
            "{words}: {marked} of {} packets were marked, {arrived} arrived",
            data.get("phantom-seen")
        ));
        ensure!(marked > 10, "{marked} marked: {}", data.json);
        ensure!(
            marked == arrived,
            "{marked} packets were marked, {arrived} arrived"
        );
        ensure!(
            data.drops == 0 && data.get("unwritable") == 0,
            "{}",
            data.json
        );
        for counter in ["InHdrErrors", "InCsumErrors"] {
            let errors = netstat(&to.ns, counter)?;
            ensure!(errors == 0, "{errors} {counter}");
        }
        stats::check_port(&from.ns, DEV, "1:")?;
    }
    Ok(())
}
