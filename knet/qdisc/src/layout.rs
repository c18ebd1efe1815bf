// SPDX-License-Identifier: GPL-2.0
//! Proof, at compile time, that bindgen's layouts are those of the kernel that the module is for.
//!
//! With MODVERSIONS off nothing checks structure layouts when a module is loaded. The assertions
//! are made from the kernel's own BTF by `knet/qdisc/layout.sh`; a structure that bindgen
//! understood otherwise, or headers that do not belong to the kernel, stop the build.

use crate::bindings;

include!(concat!(
    env!("KNET_GENERATED"),
    "/qdisc/layout_generated.rs"
));
