// SPDX-License-Identifier: GPL-2.0
//! A change with less room than before: exactly what has no room any more is dropped, and is
//! dropped as that.

use std::collections::BTreeMap;

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::{band_stat, class, option};

use super::PORT;
use crate::cases::support::ledger::{check_class, describe, settle};
use crate::clock;
use crate::harness::Ctx;
use crate::raw_netlink::{attribute_u32, attribute_u64, Object, Tc, ROOT};
use crate::topology::Builder;
use crate::traffic::{Flow, Packet, Source};

/// Bytes of payload of all packets here, and their length without what only the wire carries.
const PAYLOAD: usize = 200;
const LENGTH: u32 = 14 + 20 + 8 + PAYLOAD as u32;

/// Classes, and what is put into them.
const SENT: &[(u8, Packet, u64)] = &[
    (class::SIGNAL, Packet::Signal, 12),
    (class::DATA, Packet::Data, 20),
    (class::UNSCHEDULED, Packet::Unscheduled, 8),
    (class::TOKENS + 1, Packet::Token(1), 10),
    (class::TOKENS + 2, Packet::Token(2), 3),
    (class::TOKENS + 7, Packet::Token(7), 4),
];

/// An option, its value, and how many packets of which classes it leaves.
type Step = (u16, u32, &'static [(u8, u64)]);

const STEPS: &[Step] = &[
    (option::SIGNAL_LIMIT, 5, &[(class::SIGNAL, 5)]),
    // Nine and a half packets.
    (option::DATA_LIMIT, LENGTH * 19 / 2, &[(class::DATA, 9)]),
    (option::UNSCHEDULED, 3, &[(class::UNSCHEDULED, 3)]),
    (option::TOKEN_LIMIT, 4, &[(class::TOKENS + 1, 4)]),
    (
        option::PRIORITIES,
        2,
        &[(class::TOKENS + 2, 0), (class::TOKENS + 7, 0)],
    ),
    (option::UNSCHEDULED, 0, &[(class::UNSCHEDULED, 0)]),
];

pub(super) fn run(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let to = net.hosts[1].v4;
    let mut tc = Tc::open(ns, "eth0")?;
    ns.tc(
        "qdisc add dev eth0 root handle 10: turnstile link 1kbit tokens 50% priorities 8 \
         token-limit 100 unscheduled 100 token-expiry off jitter 0",
    )?;
    // The link is busy with this one for ten seconds: nothing of what follows leaves.
    let first = Flow::new(9, Packet::Signal, to).payload(1400).burst(1);
    Source::start(ns, vec![first], clock::monotonic()).wait()?;
    let flows = SENT
        .iter()
        .map(|(_, packet, count)| Flow::new(1, *packet, to).payload(PAYLOAD).burst(*count))
        .collect();
    Source::start(ns, flows, clock::monotonic()).wait()?;
    let mut held: BTreeMap<u8, u64> = SENT
        .iter()
        .map(|(minor, _, count)| (*minor, *count))
        .collect();
    holds(&mut tc, &held)?;
    for (number, value, left) in STEPS {
        tc.change_port(PORT, &attribute_u32(*number, *value))?
            .success()
            .with_context(|| format!("option {number} to {value}"))?;
        held.extend(left.iter().copied());
        holds(&mut tc, &held).with_context(|| format!("after option {number} to {value}"))?;
    }
    // All classes again, with what they counted; and a link on which all that is left goes.
    let all = [
        attribute_u64(option::LINK_RATE64, 0),
        attribute_u32(option::PRIORITIES, 8),
        attribute_u32(option::UNSCHEDULED, 100),
    ];
    tc.change_port(PORT, &all.concat())?.success()?;
    let settled = settle(&mut tc, &[PORT])?;
    settled.check(PORT)?;
    for (minor, _, count) in SENT {
        let found = settled.class(PORT | u32::from(*minor))?;
        let gone = count - held.get(minor).copied().unwrap_or(0);
        ensure!(
            (gone..=gone + slack(*minor)).contains(&found.stats.app(band_stat::TRIMMED)),
            "{gone} packets had to go: {}",
            describe(found)
        );
    }
    tc.delete(ROOT)?.success()
}

/// A word between neighbours is a signal, too.
fn slack(minor: u8) -> u64 {
    if minor == class::SIGNAL {
        3
    } else {
        0
    }
}

/// Whether the classes hold so many packets, and the port their sum.
fn holds(tc: &mut Tc, held: &BTreeMap<u8, u64>) -> Result<()> {
    let port = tc.get(PORT)?;
    let classes = tc.classes_of(PORT)?;
    let held_by = |object: &Object| {
        (
            u64::from(object.stats.qlen),
            u64::from(object.stats.backlog),
        )
    };
    for class in &classes {
        check_class(class)?;
        let minor = u8::try_from(class.handle & 0xffff)?;
        let count = held.get(&minor).copied().unwrap_or(0);
        let slack = slack(minor);
        ensure!(
            (count..=count + slack).contains(&held_by(class).0)
                && (slack > 0 || held_by(class).1 == count * u64::from(LENGTH)),
            "{count} packets should be here: {}",
            describe(class)
        );
    }
    let sum = classes
        .iter()
        .map(held_by)
        .fold((0, 0), |sum, (packets, bytes)| {
            (sum.0 + packets, sum.1 + bytes)
        });
    ensure!(
        held_by(&port) == sum,
        "the port holds {:?}, its classes {sum:?}",
        held_by(&port)
    );
    Ok(())
}
