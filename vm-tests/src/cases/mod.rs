// SPDX-License-Identifier: GPL-2.0
//! The test cases, one file per theme. To add a theme: a file with `pub(super) const CASES`, its
//! `mod` line here, and its name in [`all`]. `README.md` shows a case.

use crate::harness::Case;

mod accounting;
mod behaviour;
mod churn;
mod classify;
mod family;
mod gso;
mod guest;
mod hostile;
mod knet;
mod marking;
mod options;
mod pacer;
mod placement;
mod prompt;
mod refused;
mod support;
mod tc_configs;
mod timing;
mod tools;
mod transport;

/// Every case, in the order they are run.
pub fn all() -> Vec<&'static Case> {
    [
        guest::CASES,
        options::CASES,
        tc_configs::CASES,
        behaviour::CASES,
        classify::CASES,
        refused::CASES,
        placement::CASES,
        placement::UNRESOLVED,
        accounting::CASES,
        accounting::expired::CASES,
        churn::CASES,
        knet::CASES,
        gso::CASES,
        marking::CASES,
        marking::PHANTOM,
        marking::REN,
        pacer::CASES,
        timing::CASES,
        timing::TRANSPORT,
        tools::CASES,
        prompt::CASES,
        family::CASES,
        hostile::CASES,
        transport::CASES,
    ]
    .into_iter()
    .chain(transport::themes())
    .flatten()
    .collect()
}
