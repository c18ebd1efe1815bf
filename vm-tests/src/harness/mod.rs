// SPDX-License-Identifier: GPL-2.0
//! Runs the cases: each in a process, namespaces and time limit of its own, and looks afterwards at
//! what the kernel said and at what was left behind.

mod case;
mod child;
pub mod kmsg;
mod leftovers;
mod objects;
mod runner;

pub use case::{Case, Ctx, Need, MUCH_WORK};
pub use child::{isolate, run_here};
pub use objects::Objects;
pub(crate) use runner::is_sanitized;
pub use runner::{run_all, Options, CLEANUP, SIGNATURE_MARKER, SIGNED_MODULE};
