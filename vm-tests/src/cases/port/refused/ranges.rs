// SPDX-License-Identifier: GPL-2.0
//! Each attribute of each table just beyond its range: the kernel names it, the value and what is
//! allowed in the words of the table, and says where in the request it is.

use anyhow::{ensure, Result};
use turnstile_core::options::{Kind, Opt, Problem, Table};
use turnstile_core::{pacer, port};

use super::{Bench, Verdicts, PORT};
use crate::harness::Ctx;
use crate::raw_netlink::{attribute_u32, attribute_u64, Answer, Request, ROOT};

/// The refused values of a row: those beside its ends that have no word, and the greatest.
fn beyond(row: &Opt) -> Vec<u64> {
    let (min, max) = row.form.ends();
    let all = match row.kind {
        Kind::U32 => u64::from(u32::MAX),
        _ => u64::MAX,
    };
    let values = [min.checked_sub(1), max.checked_add(1), Some(all)];
    let values = values.into_iter().flatten();
    values.filter(|value| !row.form.contains(*value)).collect()
}

fn attribute(row: &Opt, value: u64) -> Vec<u8> {
    match row.kind {
        Kind::U32 => attribute_u32(row.number, u32::try_from(value).unwrap_or(u32::MAX)),
        _ => attribute_u64(row.number, value),
    }
}

/// Alone and behind an attribute that is fine.
fn refused(
    row: &Opt,
    value: u64,
    kind: &str,
    fine: &[u8],
    ask: &mut impl FnMut(&[u8]) -> Result<Answer>,
) -> Result<()> {
    let words = format!("{kind}: {}", row.refuse(Problem::Not(value, row.form)));
    let alone = ask(&attribute(row, value))?;
    let second = ask(&[fine, &attribute(row, value)].concat())?;
    for answer in [&alone, &second] {
        ensure!(answer.errno == libc::EINVAL, "{answer:?}");
        // The kernel's buffer takes no more.
        let words = words.get(..79).unwrap_or(&words);
        ensure!(answer.text == words, "{words:?}: {answer:?}");
    }
    let moved = alone.offset.map(|offset| offset + fine.len() as u32);
    ensure!(
        moved.is_some() && moved == second.offset,
        "{:?} and {:?} in requests",
        alone.offset,
        second.offset
    );
    Ok(())
}

fn all<T: Table>(
    verdicts: &mut Verdicts,
    kind: &str,
    fine: (u16, u32),
    mut ask: impl FnMut(&[u8]) -> Result<Answer>,
) {
    let attribute = attribute_u32(fine.0, fine.1);
    for row in T::OPTIONS.iter().filter(|row| row.number != fine.0) {
        // A map's bytes are looked at with the whole configuration.
        if row.kind == Kind::Map {
            continue;
        }
        for value in beyond(row) {
            verdicts.row(
                &format!("{kind} {} {value}", row.name),
                refused(row, value, kind, &attribute, &mut ask),
            );
        }
    }
}

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new("")?;
    let mut verdicts = Verdicts::default();
    let before = bench.state()?;
    let fine = (port::uapi::option::TOKEN_LIMIT, 9);
    all::<port::config::Config>(&mut verdicts, port::uapi::KIND, fine, |options| {
        bench.port.change_port(PORT, options)
    });
    let fine = (pacer::uapi::option::BETA, 9);
    let kind = pacer::uapi::KIND;
    all::<pacer::config::Config>(&mut verdicts, kind, fine, |options| {
        let spare = &mut bench.spare;
        spare.qdisc(Request::AddQdisc, ROOT, PORT, kind, options)
    });
    ensure!(bench.state()? == before, "a refused change left a trace");
    ensure!(
        verdicts.rows > 30,
        "only {} rows: the tables are not read",
        verdicts.rows
    );
    ctx.note(format!("{} rows", verdicts.rows));
    verdicts.finish()
}
