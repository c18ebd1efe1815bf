// SPDX-License-Identifier: GPL-2.0
//! The port: `sch_turnstile`.

pub(super) mod accounting;
pub(super) mod behaviour;
pub(super) mod churn;
pub(super) mod classify;
pub(super) mod dump;
pub(super) mod gso;
pub(super) mod marking;
pub(super) mod options;
pub(super) mod pauses;
pub(super) mod pausing;
pub(super) mod pieces;
pub(super) mod placement;
pub(super) mod queues;
pub(super) mod refused;
pub(super) mod sharing;
pub(super) mod signals;
pub(super) mod tc_configs;
pub(super) mod timing;
pub(super) mod trees;
