// SPDX-License-Identifier: GPL-2.0
//! Priority flow control: ports of a switch pause who sends more than they can pass on, and lose
//! nothing; what is allowed is as much as can come, and not a frame more.

mod bridge;
mod kinds;
mod load;
mod words;

use crate::harness::{Case, Ctx, Need, MUCH_WORK};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("pausing/options", words::options),
    Case::new("pausing/headroom", words::headroom),
    Case::new("pausing/refused", words::refused),
    // A pause is refreshed after 168 ms, which a slow machine takes for less.
    Case::new("pausing/thresholds", bridge::thresholds).needs(&[Need::VirtualTime]),
    Case::new("pausing/refreshed", bridge::refreshed).needs(&[Need::VirtualTime]),
    Case::new("pausing/while-held", bridge::while_held).needs(&[Need::VirtualTime]),
    Case::new("pausing/several", kinds::several).needs(&[Need::VirtualTime]),
    Case::new("pausing/link", kinds::link).needs(&[Need::VirtualTime]),
    Case::new("pausing/shared", kinds::shared).needs(&[Need::VirtualTime]),
    Case::new("pausing/vlan", bridge::vlan).needs(&[Need::VirtualTime, Need::Module("8021q")]),
    Case::new("pausing/super-packets", bridge::super_packets).needs(&[Need::VirtualTime]),
    Case::new("pausing/gone", bridge::gone).timeout_s(120),
    Case::new("pausing/churn", |ctx| bridge::churn(ctx, 60)).timeout_s(180),
    Case::new("pausing/churn-many", |ctx| bridge::churn(ctx, 500))
        .timeout_s(900)
        .needs(MUCH_WORK),
    Case::new("pausing/lossless", |ctx| {
        load::lossless(ctx, &[1, 10, 40, 100], 100_000)
    })
    .timeout_s(300)
    .needs(&[Need::VirtualTime, Need::Speed]),
    long("pausing/lossless-long-1gbit", |ctx| load::long(ctx, 1)),
    long("pausing/lossless-long-10gbit", |ctx| load::long(ctx, 10)),
    long("pausing/lossless-long-40gbit", |ctx| load::long(ctx, 40)),
    long("pausing/lossless-long-100gbit", |ctx| load::long(ctx, 100)),
    Case::new("pausing/tight", load::tight)
        .timeout_s(300)
        .needs(&[Need::VirtualTime, Need::Speed]),
];

/// What takes long: by its name only.
const fn long(name: &'static str, run: fn(&mut Ctx) -> anyhow::Result<()>) -> Case {
    Case::new(name, run)
        .timeout_s(3600)
        .needs(&[Need::VirtualTime, Need::Speed])
        .by_name()
}
