// SPDX-License-Identifier: GPL-2.0
//! Ports deep in trees of other qdiscs.

pub(super) mod deep;
pub(in crate::cases) mod expired;

use deep::Kind;

use crate::harness::{Case, Ctx};

macro_rules! deep {
    ($name:literal, $kind:expr) => {
        Case::new(concat!("trees/deep-", $name), |ctx: &mut Ctx| {
            deep::run(ctx, $kind)
        })
        .timeout_s(240)
    };
}

pub(in crate::cases) const CASES: &[Case] = &[
    deep!("hfsc-ls", Kind::HfscLs),
    deep!("hfsc-sc", Kind::HfscSc),
    deep!("htb", Kind::Htb),
    deep!("drr", Kind::Drr),
    deep!("ets", Kind::Ets),
    deep!("prio", Kind::Prio),
    deep!("tbf", Kind::Tbf),
    deep!("netem", Kind::Netem),
];

/// The port's handle.
const PORT: u32 = 0x10_0000;
