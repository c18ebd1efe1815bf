// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0277]: `PhantomPinned` cannot be unpinned
//!
//! What is moved away could be forgotten, and what was registered would stay without its module.

use kernel::prelude::*;
use knet_transport::{Registration, Transport};

pub fn away<T: Transport>(place: Pin<&mut Registration<T>>) -> &mut Registration<T> {
    place.get_mut()
}
