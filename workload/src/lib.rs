// SPDX-License-Identifier: GPL-2.0
//! The workloads that the papers are evaluated with, and the figures that are taken of a run:
//! written once, for `turnstile bench`, the experiments and the simulations of the core's tests.

pub mod figures;
pub mod sizes;
