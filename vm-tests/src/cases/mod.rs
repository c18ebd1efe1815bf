// SPDX-License-Identifier: GPL-2.0
//! The test cases, one file per theme. To add a theme: a file with `pub(in crate::cases) const CASES`, its
//! `mod` line here, and its name in [`all`]. `README.md` shows a case.

use crate::harness::Case;

mod guest;
mod knet;
mod pacer;
mod port;
mod support;
mod tools;
mod transport;

/// Every case, in the order they are run.
const ALL: &[&[Case]] = &[
    guest::CASES,
    port::options::CASES,
    port::tc_configs::CASES,
    port::behaviour::CASES,
    port::classify::CASES,
    port::refused::CASES,
    port::placement::CASES,
    port::placement::unresolved::CASES,
    port::accounting::CASES,
    port::trees::CASES,
    port::trees::expired::CASES,
    port::churn::CASES,
    knet::CASES,
    port::gso::CASES,
    port::marking::CASES,
    port::marking::phantom::CASES,
    port::marking::ren::CASES,
    pacer::CASES,
    port::timing::CASES,
    transport::timing::CASES,
    tools::CASES,
    transport::netlink::CASES,
    transport::hostile::CASES,
    transport::CASES,
    transport::sizes::CASES,
    transport::reading::CASES,
    transport::streaming::CASES,
    transport::errors::CASES,
    transport::options::CASES,
    transport::ends::CASES,
    transport::names::CASES,
    transport::reports::CASES,
    transport::many::CASES,
    transport::marks::CASES,
    transport::path::CASES,
    transport::packets::CASES,
    transport::port::CASES,
    transport::dead::CASES,
    transport::churn::CASES,
];

/// Every case, in the order they are run.
pub fn all() -> Vec<&'static Case> {
    ALL.iter().copied().flatten().collect()
}
