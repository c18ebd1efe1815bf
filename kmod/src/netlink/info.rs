// SPDX-License-Identifier: GPL-2.0
//! Facts about a message, as dumps and events give them.

use kernel::prelude::*;
use knet_transport::Reply;
use turnstile_core::{
    transport::host::{Direction, Info},
    transport::uapi::{self as uapi, message as attr},
};

/// The attributes of a message.
pub(super) fn write(info: &Info, message: &mut Reply) -> Result {
    let direction = match info.direction {
        Direction::In => uapi::DIRECTION_IN,
        Direction::Out => uapi::DIRECTION_OUT,
    };
    let long = |message: &mut Reply, number, value| message.u64(number, value, attr::PAD);
    message.u32(attr::DIRECTION, direction)?;
    message.bytes(attr::PEER, &info.peer.ip)?;
    message.u16(attr::LOCAL_PORT, info.local_port)?;
    message.u16(attr::PEER_PORT, info.peer_port)?;
    long(message, attr::NUMBER, info.number)?;
    if let Some(length) = info.length {
        long(message, attr::LENGTH, length.into())?;
    }
    long(message, attr::RECEIVED, info.received.into())?;
    long(message, attr::WINDOW, info.window.into())?;
    message.u32(attr::PRIORITY, info.priority.into())?;
    // Of what goes out, if it is paced here.
    if info.direction == Direction::In || info.rate != 0 {
        long(message, attr::RATE64, info.rate)?;
        if let Some(rtt) = info.rtt {
            long(message, attr::RTT, rtt.0)?;
        }
    }
    long(message, attr::TOKENS, info.tokens)?;
    long(message, attr::TOKENS_LOST, info.tokens_lost)?;
    long(message, attr::PACKETS, info.packets)?;
    long(message, attr::REPEATED, info.repeated)?;
    long(message, attr::AGE, info.age.0)?;
    if info.coflow != 0 {
        message.u32(attr::COFLOW, info.coflow)?;
    }
    if let Some(deadline) = info.deadline {
        long(message, attr::DEADLINE, deadline.0)?;
    }
    Ok(())
}
