// SPDX-License-Identifier: GPL-2.0
//! Refused: error[E0423]: cannot initialize a tuple struct which contains private fields
//!
//! Nobody but knet says that RTNL is held.

use core::marker::PhantomData;
use knet::Rtnl;

pub fn make() -> Rtnl<'static> {
    Rtnl(PhantomData)
}
