// SPDX-License-Identifier: GPL-2.0
//! The host pacer, qdisc kind `turnstile_pacer`, on the real kernel: through its commands, with
//! real and with hand-made TCP.

mod bench;
mod children;
mod churn;
mod equation;
mod flows;
mod live;
mod options;
mod order;
mod places;
mod tcp;
mod vlan;

use crate::harness::{Case, Need, MUCH_WORK};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("pacer/options", options::every_option).needs(MUCH_WORK),
    Case::new("pacer/refused", options::refused),
    Case::new("pacer/passes-by", flows::passes_by),
    Case::new("pacer/associated", flows::associated),
    Case::new("pacer/no-echo", flows::no_echo),
    Case::new("pacer/probability", flows::probability),
    Case::new("pacer/aging", flows::aging),
    Case::new("pacer/bounded-table", flows::bounded),
    Case::new("pacer/gso", flows::super_packets),
    Case::new("pacer/equation", equation::is_followed).needs(&[Need::VirtualTime]),
    Case::new("pacer/takes-turns", flows::takes_turns),
    Case::new("pacer/change-live", live::change),
    Case::new("pacer/limit", live::limit),
    Case::new("pacer/delete-queued", live::delete),
    Case::new("pacer/places", places::beside_a_port).needs(&[Need::Module("cls_matchall")]),
    Case::new("pacer/classes", places::classes).needs(&[Need::Module("cls_matchall")]),
    Case::new("pacer/associated-in-order", order::when_associated),
    Case::new("pacer/idle-in-order", order::when_idle),
    Case::new("pacer/vlan", vlan::tagged).needs(&[Need::Module("8021q")]),
    Case::new("pacer/child-drops", children::drops_are_counted)
        .needs(&[Need::Module("sch_netem")])
        .timeout_s(180),
    Case::new("pacer/changed-under-load", churn::changed)
        .needs(&[Need::Module("sch_netem")])
        .timeout_s(240),
    Case::new("pacer/churn", churn::come_and_go)
        .needs(&[Need::Module("sch_netem"), Need::Module("cls_matchall")])
        .timeout_s(240),
    Case::new("pacer/tcp", tcp::with_marks)
        .needs(&[Need::Module("sch_netem")])
        .timeout_s(180),
];
