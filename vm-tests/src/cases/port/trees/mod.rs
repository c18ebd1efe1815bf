// SPDX-License-Identifier: GPL-2.0
//! Ports deep in trees of other qdiscs.

pub(super) mod deep;
pub(in crate::cases) mod expired;

use deep::Kind;

use crate::harness::{Case, Ctx, MUCH_WORK};

macro_rules! deep {
    ($name:literal, $kind:expr, $needs:expr) => {
        Case::new(concat!("trees/deep-", $name), |ctx: &mut Ctx| {
            deep::run(ctx, $kind)
        })
        .needs($needs)
        .timeout_s(240)
    };
}

pub(in crate::cases) const CASES: &[Case] = &[
    deep!("hfsc-ls", Kind::HfscLs, &[]),
    deep!("hfsc-sc", Kind::HfscSc, MUCH_WORK),
    deep!("htb", Kind::Htb, &[]),
    deep!("drr", Kind::Drr, MUCH_WORK),
    deep!("ets", Kind::Ets, MUCH_WORK),
    deep!("prio", Kind::Prio, MUCH_WORK),
    deep!("tbf", Kind::Tbf, MUCH_WORK),
    deep!("netem", Kind::Netem, MUCH_WORK),
];

/// The port's handle.
const PORT: u32 = 0x10_0000;
