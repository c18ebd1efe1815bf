// SPDX-License-Identifier: GPL-2.0
//! Pages that are lent instead of copied: sendfile(), splice() and MSG_ZEROCOPY.

mod calls;
mod lent;
mod limits;
mod lossy;
mod out;
mod spliced;

pub(super) use lent::unharmed;

use crate::harness::{Case, Need};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/zerocopy/sendfile", spliced::sendfile),
    Case::new(
        "transport/zerocopy/sendfile-by-reference",
        spliced::by_reference,
    ),
    Case::new("transport/zerocopy/past-the-end", spliced::past_the_end),
    Case::new("transport/zerocopy/pieces", spliced::pieces).timeout_s(120),
    Case::new("transport/zerocopy/splice-out", out::messages).timeout_s(120),
    Case::new(
        "transport/zerocopy/splice-out-by-reference",
        out::by_reference,
    ),
    Case::new("transport/zerocopy/option", lent::option),
    Case::new("transport/zerocopy/reports", lent::reports),
    Case::new("transport/zerocopy/not-copied", lent::not_copied),
    Case::new("transport/zerocopy/when-delivered", lent::when_delivered),
    Case::new("transport/zerocopy/in-calls", lent::in_calls),
    Case::new("transport/zerocopy/changed", lent::changed),
    Case::new("transport/zerocopy/ways", lent::ways),
    Case::new("transport/zerocopy/closed", limits::closed),
    Case::new("transport/zerocopy/killed", limits::killed),
    Case::new("transport/zerocopy/lossy", lossy::lossy)
        .needs(&[Need::Module("sch_netem")])
        .timeout_s(180),
    Case::new("transport/zerocopy/locked-memory", limits::locked_memory),
    // The first memory cgroup makes the kernel keep some objects for good.
    Case::new("transport/zerocopy/full-group", limits::full_group)
        .timeout_s(120)
        .crowded(),
];
