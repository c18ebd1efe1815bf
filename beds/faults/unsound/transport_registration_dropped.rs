// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0277]: the `?` operator can only be applied to values that implement `Try`
//!
//! There is no registration outside of its place in the module, which could be dropped while
//! sockets live, or forgotten.

use kernel::prelude::*;
use knet_transport::{Registration, Transport};

pub fn early<T: Transport>() -> Result {
    drop(Registration::<T>::new()?);
    Ok(())
}
