// SPDX-License-Identifier: GPL-2.0
//! Requests whose bytes do not make sense, or not at first sight.

use anyhow::{ensure, Context, Result};
use turnstile_core::port::uapi::option;

use super::{Bench, Verdicts, PORT};
use crate::harness::Ctx;
use crate::raw_netlink::{
    attribute, attribute_of_length, attribute_u32, attribute_u64, Request, NESTED, TCA_KIND,
    TCA_OPTIONS,
};

/// `NLA_F_NET_BYTEORDER`.
const NET_BYTE_ORDER: u16 = 0x4000;

/// What goes inside `TCA_OPTIONS`, and what the refusal must say.
fn refused() -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    let good = attribute_u32(option::MPU, 100);
    let after = |bytes: &[u8]| [&good[..], bytes].concat();
    let mpu = |len: usize, content: &[u8]| attribute_of_length(option::MPU, content, len);
    vec![
        ("one stray byte", vec![1], &["1 stray bytes"]),
        ("two stray bytes", vec![4, 0], &["2 stray bytes"]),
        ("three stray bytes", vec![4, 0, 15], &["3 stray bytes"]),
        (
            "a stray byte after an option",
            after(&[0]),
            &["1 stray bytes"],
        ),
        ("a header cut in half", after(&[8, 0]), &["2 stray bytes"]),
        (
            "length 0",
            mpu(0, &[0; 4]),
            &["attribute 15", "length 0 ", "4..8"],
        ),
        (
            "length 3",
            mpu(3, &[0; 4]),
            &["attribute 15", "length 3 ", "4..8"],
        ),
        (
            "length one beyond the nest",
            mpu(9, &[0; 4]),
            &["attribute 15", "length 9 ", "4..8"],
        ),
        (
            "length far beyond the nest",
            mpu(0xffff, &[0; 4]),
            &["attribute 15", "length 65535 ", "4..8"],
        ),
        (
            "a second length beyond the nest",
            after(&mpu(12, &[0; 4])),
            &["attribute 15", "length 12 ", "4..8"],
        ),
        (
            "a header that claims a payload",
            mpu(8, &[]),
            &["attribute 15", "length 8 ", "4..4"],
        ),
        (
            "u32 of no bytes",
            attribute(option::MPU, &[]),
            &["mpu: 0 bytes, not 4"],
        ),
        (
            "u32 of 1 byte",
            attribute(option::PRIORITIES, &[4]),
            &["priorities: 1 bytes, not 4"],
        ),
        (
            "u32 of 3 bytes",
            attribute(option::OVERHEAD, &[4, 0, 0]),
            &["overhead: 3 bytes, not 4"],
        ),
        (
            "u32 of 5 bytes",
            attribute(option::ORDER, &[0; 5]),
            &["order: 5 bytes, not 4"],
        ),
        (
            "u32 of 8 bytes",
            attribute_u64(option::PRIORITIES, 4),
            &["priorities: 8 bytes, not 4"],
        ),
        (
            "share of 8 bytes",
            attribute_u64(option::TOKEN_SHARE, 50_000_000),
            &["tokens: 8 bytes, not 4"],
        ),
        (
            "token-limit of 8 bytes",
            attribute_u64(option::TOKEN_LIMIT, 8),
            &["token-limit: 8 bytes, not 4"],
        ),
        (
            "unscheduled of 2 bytes",
            attribute(option::UNSCHEDULED, &[1, 0]),
            &["unscheduled: 2 bytes, not 4"],
        ),
        (
            "data-limit of 8 bytes",
            attribute_u64(option::DATA_LIMIT, 5000),
            &["data-limit: 8 bytes, not 4"],
        ),
        (
            "signal-limit of 2 bytes",
            attribute(option::SIGNAL_LIMIT, &[8, 0]),
            &["signal-limit: 2 bytes, not 4"],
        ),
        (
            "split-gso of 1 byte",
            attribute(option::SPLIT_GSO, &[1]),
            &["split-gso: 1 bytes, not 4"],
        ),
        (
            "gso-hold of 4 bytes",
            attribute_u32(option::GSO_HOLD, 1000),
            &["gso-hold: 4 bytes, not 8"],
        ),
        (
            "split-gso as a flag",
            attribute(option::SPLIT_GSO, &[]),
            &["split-gso: 0 bytes, not 4"],
        ),
        (
            "u64 of 4 bytes",
            attribute_u32(option::LINK_RATE64, 125_000),
            &["link: 4 bytes, not 8"],
        ),
        (
            "u64 of 7 bytes",
            attribute(option::TOKEN_EXPIRY, &[0; 7]),
            &["token-expiry: 7 bytes, not 8"],
        ),
        (
            "u64 of 16 bytes",
            attribute(option::TOKEN_RATE64, &[0; 16]),
            &["tokens: 16 bytes, not 8"],
        ),
        (
            "map of 0 bytes",
            attribute(option::DSCP_MAP, &[]),
            &["dscp: 0 bytes, not 64"],
        ),
        (
            "map of 63 bytes",
            attribute(option::DSCP_MAP, &[2; 63]),
            &["dscp: 63 bytes, not 64"],
        ),
        (
            "map of 65 bytes",
            attribute(option::DSCP_MAP, &[2; 65]),
            &["dscp: 65 bytes, not 64"],
        ),
        (
            "map of 64 KiB",
            attribute(option::DSCP_MAP, &vec![2; 65_000]),
            &["dscp: 65000 bytes, not 64"],
        ),
        ("attribute 0", attribute_u32(0, 0), &["unknown attribute 0"]),
        (
            "an attribute beyond the last",
            attribute_u32(option::MAX + 1, 0),
            &["unknown attribute 34"],
        ),
        (
            "the highest number",
            attribute_u32(0x3fff, 0),
            &["unknown attribute 16383"],
        ),
        (
            "an unknown one after a good one",
            after(&attribute(99, &[])),
            &["unknown attribute 99"],
        ),
        ("given twice", after(&good), &["mpu: given twice"]),
        (
            "given twice, flagged",
            after(&attribute_u32(option::MPU | NESTED, 100)),
            &["mpu: given twice"],
        ),
        (
            "map given twice",
            attribute(option::DSCP_MAP, &[2; 64]).repeat(2),
            &["dscp: given twice"],
        ),
        // Its eight bytes, taken for a rate, are above all rates.
        (
            "a nest inside the nest",
            attribute(TCA_OPTIONS | NESTED, &good),
            &["link", "1kbit..800gbit"],
        ),
    ]
}

/// What is behind `struct tcmsg`, and what the port's `mpu` is afterwards.
fn accepted() -> Vec<(&'static str, Vec<u8>, u32)> {
    let kind = attribute(TCA_KIND, b"turnstile\0");
    let nest = |options: &[u8]| [&kind[..], &attribute(TCA_OPTIONS | NESTED, options)].concat();
    let with = |options: &[&[u8]]| nest(&options.concat());
    let pad = attribute(option::PAD, &[]);
    let mpu = |mpu: u32| attribute_u32(option::MPU, mpu);
    vec![
        ("an option", with(&[&mpu(90)]), 90),
        ("no options at all", kind.clone(), 90),
        ("an empty nest", nest(&[]), 90),
        (
            "an empty nest without its flag",
            [&kind[..], &attribute(TCA_OPTIONS, &[])].concat(),
            90,
        ),
        ("no kind", attribute(TCA_OPTIONS | NESTED, &mpu(91)), 91),
        (
            "a nest without its flag",
            [&kind[..], &attribute(TCA_OPTIONS, &mpu(92))].concat(),
            92,
        ),
        ("padding", with(&[&pad, &mpu(93), &pad, &pad]), 93),
        (
            "padding with a payload",
            with(&[&attribute(option::PAD, &[9; 12]), &mpu(94)]),
            94,
        ),
        (
            "a nested flag on an option",
            with(&[&attribute_u32(option::MPU | NESTED, 95)]),
            95,
        ),
        (
            "a byte-order flag on an option",
            with(&[&attribute_u32(option::MPU | NET_BYTE_ORDER, 96)]),
            96,
        ),
        (
            "both flags",
            with(&[&attribute_u32(option::MPU | NESTED | NET_BYTE_ORDER, 97)]),
            97,
        ),
        (
            "the nest twice: the last one counts",
            [nest(&mpu(98)), attribute(TCA_OPTIONS | NESTED, &mpu(99))].concat(),
            99,
        ),
        (
            "an attribute that tc does not know",
            [nest(&mpu(100)), attribute(200, &[1, 2, 3])].concat(),
            100,
        ),
        // The kernel leaves out what does not fit the message: there are no options then.
        (
            "a nest that is longer than the message",
            [
                &kind[..],
                &attribute_of_length(TCA_OPTIONS | NESTED, &mpu(101), 40),
            ]
            .concat(),
            100,
        ),
        (
            "a nest of less than a header",
            [
                &kind[..],
                &attribute_of_length(TCA_OPTIONS | NESTED, &mpu(102), 3),
            ]
            .concat(),
            100,
        ),
    ]
}

/// What the kernel says before the port is asked, with other attributes than its options.
fn refused_messages() -> Vec<(&'static str, Vec<u8>)> {
    let options = attribute(TCA_OPTIONS | NESTED, &attribute_u32(option::MPU, 103));
    let kind = |kind: &[u8]| [&attribute(TCA_KIND, kind)[..], &options].concat();
    vec![
        ("another kind", kind(b"pfifo\0")),
        ("the beginning of the kind", kind(b"turnstil\0")),
        ("more than the kind", kind(b"turnstiles\0")),
        ("an empty kind", kind(b"\0")),
        ("a kind that is too long", kind(&[b'x'; 40])),
    ]
}

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new("")?;
    let mut verdicts = Verdicts::default();
    for (name, options, says) in refused() {
        let says = [&["turnstile: "], says].concat();
        verdicts.row(name, bench.refused_raw(&options, &says));
    }
    for (name, message, mpu) in accepted() {
        let verdict = harmless(&mut bench, &message, mpu);
        verdicts.row(name, verdict);
    }
    for (name, message) in refused_messages() {
        let verdict = refused_message(&mut bench, &message);
        verdicts.row(name, verdict);
    }
    verdicts.row("where it is", place(&mut bench));
    ctx.note(format!("{} rows", verdicts.rows));
    verdicts.finish()
}

/// The refusal says where in the request the attribute is that it is about.
fn place(bench: &mut Bench) -> Result<()> {
    /// Netlink's header and `struct tcmsg`.
    const HEAD: usize = 16 + 20;
    let good = attribute_u32(option::MPU, 100);
    let options = [&good[..], &attribute_u32(option::MAX + 1, 0)].concat();
    let kind = attribute(TCA_KIND, b"turnstile\0");
    let message = [&kind[..], &attribute(TCA_OPTIONS | NESTED, &options)].concat();
    let answer = bench
        .port
        .request(Request::ChangeQdisc, 0, PORT, &message)?;
    let expected = HEAD + kind.len() + 4 + good.len();
    ensure!(
        answer.errno != 0 && answer.offset.map(|at| at as usize) == Some(expected),
        "{answer:?} instead of an offset of {expected}"
    );
    Ok(())
}

/// The kernel takes the message, and nothing changes but `mpu`.
fn harmless(bench: &mut Bench, message: &[u8], mpu: u32) -> Result<()> {
    let before = bench.port.get(PORT)?.shape();
    bench
        .port
        .request(Request::ChangeQdisc, 0, PORT, message)?
        .success()?;
    let mut after = bench.port.get(PORT)?.shape();
    let shown = after.option(option::MPU).unwrap_or_default();
    ensure!(
        shown == mpu.to_ne_bytes(),
        "mpu is {shown:?} instead of {mpu}"
    );
    // The dump has all options, each in its place.
    let changed = attribute_u32(option::MPU, mpu);
    let mut places = after.options.windows(changed.len());
    let value = 4 + places
        .position(|bytes| bytes == changed)
        .context("no mpu in the dump")?;
    after.options[value..value + 4].copy_from_slice(&before.options[value..value + 4]);
    ensure!(after == before, "more than mpu has changed");
    Ok(())
}

fn refused_message(bench: &mut Bench, message: &[u8]) -> Result<()> {
    let before = bench.state()?;
    let answer = bench.port.request(Request::ChangeQdisc, 0, PORT, message)?;
    ensure!(answer.errno != 0, "accepted");
    ensure!(!answer.text.is_empty(), "refused without a word");
    ensure!(bench.state()? == before, "it left a trace");
    Ok(())
}
