// SPDX-License-Identifier: GPL-2.0
//! Figures of a boot for tests.

use super::before::{reference, RATIOS};
use turnstile_test_protocol::bench::{Boot, Messages, Ruler, SetUp, Sums, Unit, Waits};

/// Packets of each measurement in the examples.
const PACKETS: u64 = 8000;

/// A set-up with these costs in whole instructions: enqueue, dequeue, empty dequeue, transmit
/// path.
fn set_up(name: &str, kind: &str, title: &str, costs: [u64; 4]) -> SetUp {
    let sums = |enqueue: u64, out: u64, empty: u64, out_calls: u64| Sums {
        packets: PACKETS,
        enqueue: enqueue * PACKETS,
        out: out * PACKETS,
        empty: empty * PACKETS,
        out_calls,
        ..Sums::default()
    };
    let [enqueue, dequeue, empty, xmit] = costs;
    SetUp {
        name: name.into(),
        kind: kind.into(),
        title: title.into(),
        packets: "8 bands".into(),
        commands: vec![format!("tc qdisc add dev bench0 root {kind}")],
        direct: sums(enqueue, dequeue, empty, PACKETS),
        xmit: sums(xmit, 0, 0, 0),
        noqueue: sums(300, 0, 0, 0),
        waits: Waits::default(),
    }
}

/// Messages that cost less than before, and what gates allow of TCP's.
fn messages() -> Vec<Messages> {
    let row = |transport: &str, load: &str, unit, instructions| Messages {
        transport: transport.into(),
        load: load.into(),
        title: format!("the load {load}"),
        unit,
        instructions,
        messages: 10,
        bytes: 1000,
        packets: 20,
    };
    let mut all = Vec::new();
    for &(load, ratio) in RATIOS {
        // As in the guest.
        let unit = if load.contains("bulk") {
            Unit::Byte
        } else {
            Unit::Message
        };
        let tcp = match unit {
            Unit::Byte => 1000,
            Unit::Message => 50_000,
        };
        all.push(row(
            "turnstile",
            load,
            unit,
            (f64::from(tcp) * ratio) as u64,
        ));
        all.push(row(reference(load), load, unit, tcp as u64));
    }
    all.push(row("udp", "100B", Unit::Message, 40_000));
    all
}

/// A boot that passes all gates.
pub(super) fn example() -> Boot {
    let setups = vec![
        set_up(
            "turnstile/class-id",
            "turnstile",
            "8 bands, class id",
            [110, 60, 40, 800],
        ),
        set_up(
            "turnstile/header",
            "turnstile",
            "8 bands, header",
            [170, 60, 40, 800],
        ),
        set_up(
            "turnstile/shaped",
            "turnstile",
            "8 bands, shaped link",
            [110, 110, 40, 900],
        ),
        set_up(
            "turnstile/shaped-data",
            "turnstile",
            "data, shaped link",
            [110, 110, 40, 900],
        ),
        set_up("pfifo", "pfifo", "", [40, 50, 10, 450]),
        set_up("prio", "prio", "8 bands, class id", [120, 200, 120, 800]),
        set_up("tbf+prio", "tbf", "prio child", [200, 300, 180, 1100]),
    ];
    Boot {
        kernel: "7.2.12+deb13-amd64".into(),
        ruler: Ruler {
            nops_100: 100,
            random_64: 9000,
            ktime_get: 48,
            clock_10000: 10_048,
        },
        planned: setups.iter().map(|s| s.name.clone()).collect(),
        setups,
        messages: messages(),
    }
}

/// Changes what one set-up's dequeue costs, by a number of instructions.
pub(super) fn plant_in_dequeue(boot: &mut Boot, name: &str, instructions: f64) {
    let set_up = boot.setups.iter_mut().find(|s| s.name == name).unwrap();
    let sum = set_up.direct.out as f64 + instructions * PACKETS as f64;
    set_up.direct.out = sum as u64;
}

/// Changes what one set-up's enqueue costs, by a number of instructions.
pub(super) fn plant(boot: &mut Boot, name: &str, instructions: f64) {
    let set_up = boot.setups.iter_mut().find(|s| s.name == name).unwrap();
    let sum = set_up.direct.enqueue as f64 + instructions * PACKETS as f64;
    set_up.direct.enqueue = sum as u64;
}
