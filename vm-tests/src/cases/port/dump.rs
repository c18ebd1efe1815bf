// SPDX-License-Identifier: GPL-2.0
//! Where a dump has the statistics of ports and pacers.

use anyhow::{ensure, Result};

use crate::harness::{Case, Ctx, Need};
use crate::raw_netlink::Tc;
use crate::topology::Builder;

pub(in crate::cases) const CASES: &[Case] =
    &[Case::new("dump/statistics-place", statistics_place).needs(&[Need::Module("sch_fq")])];

const DEV: &str = "eth0";

/// A program that reads `TCA_STATS_APP` of every kind as fq's (`struct tc_fq_qd_stats`), as
/// collectors of qdisc statistics do, finds nothing of ours there, and fq's where it is fq's.
fn statistics_place(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    ns.tc(&format!(
        "qdisc add dev {DEV} root handle 1: turnstile link 100mbit"
    ))?;
    ns.tc(&format!(
        "qdisc add dev {DEV} parent 1:2 handle 2: turnstile_pacer"
    ))?;
    ns.tc(&format!("qdisc add dev {DEV} parent 2:1 handle 3: fq"))?;
    let mut dev = Tc::open(ns, DEV)?;
    let mut found = dev.qdiscs()?;
    found.extend(dev.classes_of(1 << 16)?);
    let kinds: Vec<_> = found.iter().map(|object| object.kind.as_str()).collect();
    ensure!(
        kinds.contains(&"turnstile_pacer") && kinds.contains(&"fq"),
        "{kinds:?}"
    );
    for object in &found {
        let (foreign, own) = (object.stats.foreign, object.stats.app.len());
        match object.kind.as_str() {
            "fq" => ensure!(foreign != 0, "fq: no statistics of its own"),
            kind => ensure!(
                foreign == 0 && own != 0,
                "{kind}: {foreign} bytes, {own} counters"
            ),
        }
    }
    Ok(())
}
