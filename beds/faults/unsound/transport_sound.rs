// SPDX-License-Identifier: GPL-2.0
//! Compiles
//!
//! What is right with the transport's knet: if this is refused, so may the others be, for some
//! other reason.

use kernel::prelude::*;
use knet_transport::{Arrival, Caller, Family, Net, News, Receiving, Sending, Timeout, Transport};

pub fn wait<T: Transport>(net: &mut Net<'_, T>, sock: Caller<'_>, timeout: &mut Timeout) -> Result {
    drop(net.lock());
    sock.autobind(net)?;
    sock.wait(net, timeout, |net| net.lock().is_none())
}

pub fn first(arrival: Arrival<'_>) -> Option<u8> {
    let first = arrival.head().first().copied();
    drop(arrival.into_skb());
    first
}

pub fn news<T: Family>(net: &mut News<'_, T>) -> Result {
    net.multicast(1, |event| event.u32(1, 2))
}

pub fn calls(sending: &mut Sending<'_>, receiving: &mut Receiving<'_>) {
    drop(sending.options());
    receiving.set_end();
}
