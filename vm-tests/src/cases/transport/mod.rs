// SPDX-License-Identifier: GPL-2.0
//! The transport: messages between two hosts on a plain link, through `turnstile.ko`'s sockets.

use crate::harness::Case;

pub(super) mod below;
pub(super) mod churn;
pub(super) mod closed;
mod content;
pub(super) mod crowded;
pub(super) mod dead;
pub(super) mod ends;
pub(super) mod errors;
pub(super) mod forged;
pub(super) mod growing;
pub(super) mod held;
pub(super) mod hostile;
pub(super) mod identity;
pub(super) mod kernel;
pub(super) mod many;
pub(super) mod marks;
pub(super) mod memory;
pub(super) mod names;
pub(super) mod netlink;
pub(super) mod options;
pub(super) mod outage;
pub(super) mod packets;
pub(super) mod pages;
pub(super) mod path;
pub(super) mod paused;
mod peer;
pub(super) mod port;
pub(super) mod programs;
pub(super) mod rates;
pub(super) mod reading;
pub(super) mod receiving;
pub(super) mod reports;
pub(super) mod sealed;
mod settings;
pub(super) mod sharing;
pub(super) mod sizes;
mod smoke;
pub(super) mod sockets;
pub(super) mod streaming;
mod support;
pub(super) mod timing;
pub(super) mod tokens;
mod tools;
pub(super) mod trains;
pub(super) mod turns;
pub(super) mod unasked;
pub(super) mod uplinks;
mod watch;
pub(super) mod zerocopy;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/smoke-ipv4", |ctx| smoke::sizes(ctx, false)),
    Case::new("transport/smoke-ipv6", |ctx| smoke::sizes(ctx, true)),
    Case::new("transport/smoke-loopback", smoke::loopback),
    Case::new("transport/smoke-pieces", smoke::pieces),
    Case::new("transport/smoke-many", smoke::many),
    Case::new("transport/smoke-errors", smoke::errors),
    Case::new("transport/smoke-close", smoke::close),
    Case::new("transport/command-settings", settings::there_and_back),
    Case::new("transport/command-refused", settings::refused),
    Case::new("transport/command-send-recv", tools::send_and_recv).timeout_s(120),
    Case::new("transport/command-files", tools::files_without_a_length),
    Case::new("transport/command-reports", tools::reports),
    Case::new("transport/command-watch", watch::a_message),
    Case::new("transport/command-bench", tools::bench).timeout_s(120),
    Case::new("transport/examples", tools::examples).timeout_s(120),
];
