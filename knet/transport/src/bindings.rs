// SPDX-License-Identifier: GPL-2.0
//! What bindgen reads from `c/knet_transport.h`. The kernel's own structures are opaque in it.

// Some lints are newer than the oldest compiler.
#![allow(unknown_lints, unnecessary_transmutes)]
#![allow(
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks
)]
#![allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    improper_ctypes,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_qualifications
)]

use kernel::ffi;

// Blocklisted in bindgen, as in the kernel's own bindings.
type __kernel_size_t = usize;
type __kernel_ssize_t = isize;
type __kernel_ptrdiff_t = isize;

include!(concat!(
    env!("KNET_GENERATED"),
    "/transport/bindings_generated.rs"
));
