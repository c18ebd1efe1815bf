// SPDX-License-Identifier: GPL-2.0
//! How the peers of a socket share its send buffer.
//!
//! > A peer (an address and a port) may have as much as is left free, all peers of one address
//! > together twice as much, and all of one network (/24 or /48) four times as much. If several
//! > addresses of a network have some, each may have as much as it leaves of what that may have.
//!
//! As with the places for messages nobody has a fixed quota: what each may have grows with what the
//! others leave. All have twice the size of `SO_SNDBUF`, so that a peer that is alone may have that
//! size, as that of a connected socket; one that does not take what it is sent leaves as much,
//! whose half the next one may have. An address may have two thirds of all however many ports it
//! has, and a second port of it a sixth. A network leaves a fifth to other networks however many
//! addresses it has, and each address of it something to the next one.
//!
//! What the receive buffers of all sockets may grow by is shared alike, by sockets and their users.

/// How many bytes a peer may have beside those that it has: `peer` it has, `host` all peers of its
/// address have, and `net` all of its network, each with those before; and `free` are free.
#[must_use]
pub const fn left(free: u32, peer: u32, host: u32, net: u32) -> u32 {
    let of_peer = share(free, 1, peer);
    let of_host = share(free, 2, host);
    let of_net = share(free, 4, net);
    let of_net = if net > host {
        of_net.saturating_sub(host) / 2
    } else {
        of_net
    };
    smaller(of_peer, smaller(of_host, of_net))
}

/// How many more bytes may be taken of so many free ones by who may have so many times as much as
/// it leaves, and has some.
const fn share(free: u32, times: u64, has: u32) -> u32 {
    let most = times.saturating_mul(free as u64).saturating_sub(has as u64);
    // No more than is free.
    match most.checked_div(times.saturating_add(1)) {
        Some(more) => more as u32,
        None => 0,
    }
}

/// A part of a send buffer's size that is kept beside it: see [`promised`].
pub const BESIDE_PART: u32 = 4;

/// Bytes that a message may take though there are too few of the send buffer for others, so that
/// one whose receiver waits for more of it goes on whatever others have: they may all wait at the
/// same receiver for its end. The receiver has `promised` room for so many bytes that were not
/// written yet; so many bytes of the message are `under_way`. Its peer may take `free` ones of the
/// buffer, and of what is kept `beside` it, which is shared as the buffer is. `true`: they are of
/// these.
///
/// Half of what its peer has left there is for the next message. While some of it is under way it
/// takes no less than what its peer would have of the buffer, as there will be more when that has
/// come; when nothing is, any byte.
#[must_use]
pub const fn promised(free: u32, promised: u32, under_way: u32, beside: u32) -> (u32, bool) {
    let more = smaller(promised, beside.saturating_sub(beside / 2));
    if more > free {
        (more, true)
    } else if under_way == 0 {
        (smaller(promised, free), false)
    } else {
        (0, false)
    }
}

const fn smaller(a: u32, b: u32) -> u32 {
    if a < b {
        a
    } else {
        b
    }
}

#[cfg(test)]
mod tests;
