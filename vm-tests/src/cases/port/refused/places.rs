// SPDX-License-Identifier: GPL-2.0
//! What cannot be where: classes that are the port's own, children on the wrong class, filters on a
//! class, a second port in the same place.

use anyhow::{ensure, Context, Result};

use super::{check_words, Bench, Verdicts, PORT};
use crate::cmd::Output;
use crate::harness::Ctx;
use crate::raw_netlink::{turnstile, Answer, Request, Tc, ROOT};

/// A command that must fail.
struct Row {
    /// Commands before it, and after it to undo them.
    setup: &'static [&'static str],
    undo: &'static [&'static str],
    command: &'static str,
    says: &'static [&'static str],
}

const fn row(command: &'static str, says: &'static [&'static str]) -> Row {
    Row {
        setup: &[],
        undo: &[],
        command,
        says,
    }
}

/// What tc's plugin says of classes, and what the kernel does.
const NO_OPTIONS: &[&str] = &["turnstile: classes cannot be added, changed or deleted"];
const FIXED: &[&str] = &[
    "turnstile: the port makes its classes",
    "priorities",
    "unscheduled",
];

const REFUSED: &[Row] = &[
    // Classes.
    row(
        "tc class add dev eth0 parent 1: classid 1:20 turnstile",
        NO_OPTIONS,
    ),
    row(
        "tc class add dev eth0 parent 1: classid 1:4 turnstile",
        NO_OPTIONS,
    ),
    row(
        "tc class change dev eth0 parent 1: classid 1:10 turnstile",
        NO_OPTIONS,
    ),
    row(
        "tc class replace dev eth0 parent 1: classid 1:2 turnstile",
        NO_OPTIONS,
    ),
    row("tc class del dev eth0 classid 1:1", FIXED),
    row("tc class del dev eth0 classid 1:2", FIXED),
    row("tc class del dev eth0 classid 1:3", FIXED),
    row("tc class del dev eth0 classid 1:10", FIXED),
    row("tc class del dev eth0 classid 1:99", &["No such file"]),
    // Children.
    row(
        "tc qdisc add dev eth0 parent 1:1 pfifo",
        &["turnstile: class :1 takes no child qdisc", "data class :2"],
    ),
    row(
        "tc qdisc add dev eth0 parent 1:3 pfifo",
        &["turnstile: class :3 takes no child qdisc", "data class :2"],
    ),
    row(
        "tc qdisc add dev eth0 parent 1:10 pfifo",
        &["turnstile: class :10 takes no child qdisc", "data class :2"],
    ),
    row(
        "tc qdisc replace dev eth0 parent 1:15 fq_codel",
        &["turnstile: class :15 takes no child qdisc", "data class :2"],
    ),
    row(
        "tc qdisc add dev eth0 parent 1:16 pfifo",
        &["class not found"],
    ),
    row(
        "tc qdisc add dev eth0 parent 1:99 pfifo",
        &["class not found"],
    ),
    row(
        "tc qdisc add dev eth0 parent 1:102 pfifo",
        &["class not found"],
    ),
    row(
        "tc qdisc add dev eth0 parent 2:2 pfifo",
        &["Failed to find specified qdisc"],
    ),
    row("tc qdisc add dev eth0 parent 1:2 noqueue", &["noqueue"]),
    row(
        "tc qdisc add dev eth0 parent 1:2 turnstile priorities 9",
        &["priorities", "9", "1..8"],
    ),
    row("tc qdisc del dev eth0 parent 1:2", &["qdisc"]),
    row("tc qdisc del dev eth0 parent 1:1", &["qdisc"]),
    row("tc qdisc del dev eth0 parent 1:99", &["class not found"]),
    row(
        "tc qdisc replace dev eth0 parent 1:2 handle 1: turnstile",
        &["Cannot move an existing qdisc"],
    ),
    Row {
        setup: &["tc qdisc add dev eth0 parent 1:2 handle 7: pfifo limit 9"],
        undo: &["tc qdisc del dev eth0 parent 1:2"],
        ..row(
            "tc qdisc replace dev eth0 root handle 7: pfifo",
            &["Cannot move an existing qdisc"],
        )
    },
    Row {
        setup: &["tc qdisc add dev eth0 parent 1:2 handle 7: pfifo limit 9"],
        undo: &["tc qdisc del dev eth0 parent 1:2"],
        ..row(
            "tc qdisc add dev eth0 parent 1:2 handle 7: pfifo",
            &["Exclusivity flag on"],
        )
    },
    // Filters.
    row(
        "tc filter add dev eth0 parent 1:99 protocol all prio 1 matchall classid 1:1",
        &["class doesn't exist"],
    ),
    row(
        "tc filter add dev eth0 parent 1:2 protocol all prio 1 matchall classid 1:1",
        &["turnstile: ", "class :2", "filter"],
    ),
    row(
        "tc filter add dev eth0 parent 2: protocol all prio 1 matchall classid 1:1",
        &["Parent Qdisc doesn't exist"],
    ),
    Row {
        setup: &["tc filter add dev eth0 parent 1: protocol all prio 7 matchall classid 1:15"],
        undo: &["tc filter del dev eth0 parent 1: protocol all prio 7"],
        ..row(
            "tc qdisc change dev eth0 root handle 1: turnstile priorities 5",
            &["turnstile: class :15 would go", "filters name it"],
        )
    },
    Row {
        setup: &["tc filter add dev eth0 parent 1: protocol all prio 7 matchall classid 1:3"],
        undo: &["tc filter del dev eth0 parent 1: protocol all prio 7"],
        ..row(
            "tc qdisc replace dev eth0 root handle 1: turnstile unscheduled off",
            &["turnstile: class :3 would go", "filters name it"],
        )
    },
    Row {
        setup: &[
            "tc filter add dev eth0 parent 1: protocol ip prio 7 flower ip_proto udp classid 1:14",
        ],
        undo: &["tc filter del dev eth0 parent 1: protocol ip prio 7"],
        ..row(
            "turnstile port change eth0 root handle 1: priorities 4 mpu 200",
            &["eth0: class :14 would go", "filters name it"],
        )
    },
    // A port in the place of something else.
    row(
        "tc qdisc add dev eth0 root handle 1: turnstile",
        &["Exclusivity flag on"],
    ),
    row(
        "tc qdisc add dev eth0 root handle 2: turnstile",
        &["NLM_F_REPLACE needed"],
    ),
    row(
        "turnstile port add eth0 root handle 1: priorities 2",
        &["eth0", "already has a root qdisc"],
    ),
    row(
        "tc qdisc change dev eth0 root handle 1: pfifo limit 10",
        &["must match existing qdisc"],
    ),
    row(
        "tc qdisc change dev spare root turnstile priorities 2",
        &["Qdisc not found"],
    ),
    row(
        "turnstile port change spare root priorities 2",
        &["spare", "no port here"],
    ),
    row(
        "turnstile port change spare root handle 1: priorities 2",
        &["spare", "no port here"],
    ),
    row("turnstile port del spare root", &["spare"]),
    row("turnstile port add nosuch root", &["nosuch"]),
    Row {
        setup: &["tc qdisc add dev spare root handle 5: pfifo limit 9"],
        undo: &["tc qdisc del dev spare root"],
        ..row(
            "tc qdisc change dev spare root handle 5: turnstile priorities 2",
            &["must match existing qdisc"],
        )
    },
    Row {
        setup: &["tc qdisc add dev spare root handle 5: pfifo limit 9"],
        undo: &["tc qdisc del dev spare root"],
        ..row(
            "turnstile port change spare root handle 5: priorities 2",
            &["spare", "must match existing qdisc"],
        )
    },
];

/// What is next to it and allowed.
const ALLOWED: &[&str] = &[
    "tc qdisc add dev eth0 parent 1:2 handle 7: pfifo limit 9",
    "tc qdisc change dev eth0 parent 1:2 handle 7: pfifo limit 10",
    "tc qdisc replace dev eth0 parent 1:2 handle 8: fq_codel",
    "tc qdisc replace dev eth0 parent 1:2 handle 9: turnstile link 1gbit",
    "tc qdisc add dev eth0 parent 9:2 handle a: pfifo",
    "tc qdisc del dev eth0 parent 1:2",
    "tc filter add dev eth0 parent 1: protocol all prio 7 matchall classid 1:15",
    "tc qdisc change dev eth0 root handle 1: turnstile priorities 7",
    "tc filter del dev eth0 parent 1: protocol all prio 7",
    "tc qdisc change dev eth0 root handle 1: turnstile priorities 5 unscheduled off",
    "tc qdisc replace dev eth0 root handle 1: turnstile priorities 6 unscheduled 1",
    "turnstile port replace eth0 root handle 1: mpu 100",
    "tc qdisc replace dev eth0 root handle 2: turnstile",
    "tc qdisc replace dev eth0 root handle 3: pfifo",
    "tc qdisc replace dev eth0 root handle 1: turnstile",
];

/// Names a request, makes it, and says what the refusal must say.
type Raw = (
    &'static str,
    fn(&mut Tc) -> Result<Answer>,
    &'static [&'static str],
);

/// `TC_H_INGRESS`.
const INGRESS: u32 = 0xffff_fff1;

/// What no tool can be talked into.
const RAW: &[Raw] = &[
    (
        "a port on the way in",
        |tc| tc.qdisc(Request::AddQdisc, INGRESS, 0xffff_0000, "turnstile", &[]),
        &["ingress"],
    ),
    (
        "a handle with a minor number",
        |tc| tc.qdisc(Request::ReplaceQdisc, ROOT, 0x1_0002, "turnstile", &[]),
        &["minor"],
    ),
    (
        "a new class",
        |tc| tc.request(Request::AddClass, PORT, 0x1_0020, &turnstile(&[])),
        FIXED,
    ),
    (
        "a class that some port may have",
        |tc| tc.request(Request::AddClass, PORT, 0x1_0017, &turnstile(&[])),
        FIXED,
    ),
    (
        "a class that is there",
        |tc| tc.request(Request::AddClass, PORT, 0x1_0010, &turnstile(&[])),
        &[],
    ),
    (
        "a change of a class",
        |tc| tc.request(Request::ChangeClass, PORT, 0x1_0010, &turnstile(&[])),
        FIXED,
    ),
    (
        "a class with the root's id",
        |tc| tc.request(Request::AddClass, PORT, u32::MAX, &[]),
        &[],
    ),
    (
        "a class without an id",
        |tc| tc.request(Request::AddClass, PORT, 0, &[]),
        &["turnstile: "],
    ),
    (
        "the port's own id as a class",
        |tc| tc.request(Request::DeleteClass, 0, PORT, &[]),
        &[],
    ),
    (
        "a class of another qdisc",
        |tc| tc.request(Request::ChangeClass, 0x2_0000, 0x1_0002, &[]),
        &[],
    ),
    (
        "a class whose number wraps to one that is there",
        |tc| tc.request(Request::DeleteClass, 0, 0x1_0102, &[]),
        &[],
    ),
    (
        "a child on a class whose number wraps",
        |tc| tc.qdisc(Request::AddQdisc, 0x1_0022, 0, "pfifo", &[]),
        &["class not found"],
    ),
    (
        "a child on the port itself",
        |tc| tc.qdisc(Request::AddQdisc, PORT, 0, "pfifo", &[]),
        &["class not found"],
    ),
];

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new("priorities 6")?;
    let mut verdicts = Verdicts::default();
    for row in REFUSED {
        let verdict = refused(&mut bench, row);
        verdicts.row(row.command, verdict);
    }
    for (name, request, says) in RAW {
        let verdict = refused_raw(&mut bench, *request, says);
        verdicts.row(name, verdict);
    }
    for command in ALLOWED {
        verdicts.row(command, bench.ns().run(command).map(drop));
    }
    ctx.note(format!("{} rows", verdicts.rows));
    verdicts.finish()
}

fn refused(bench: &mut Bench, row: &Row) -> Result<()> {
    for command in row.setup {
        bench.ns().run(command).context("set-up")?;
    }
    let verdict = fails(bench, row);
    for command in row.undo {
        bench.ns().run(command).context("undoing the set-up")?;
    }
    verdict
}

fn fails(bench: &mut Bench, row: &Row) -> Result<()> {
    let before = bench.state()?;
    let spare = bench.spare.netlink.qdiscs(bench.spare.ifindex)?;
    let said = bench.ns().try_run(row.command).and_then(Output::failure)?;
    check_words(&said, row.says)?;
    ensure!(
        bench.state()? == before && bench.spare.netlink.qdiscs(bench.spare.ifindex)? == spare,
        "the refused command left a trace"
    );
    Ok(())
}

fn refused_raw(
    bench: &mut Bench,
    request: fn(&mut Tc) -> Result<Answer>,
    says: &[&str],
) -> Result<()> {
    let before = bench.state()?;
    let answer = request(&mut bench.port)?;
    ensure!(answer.errno != 0, "accepted");
    check_words(&answer.text, says)?;
    ensure!(bench.state()? == before, "it left a trace");
    Ok(())
}
