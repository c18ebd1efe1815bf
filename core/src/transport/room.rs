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
    let of_host = if of_host < of_net { of_host } else { of_net };
    if of_peer < of_host {
        of_peer
    } else {
        of_host
    }
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

#[cfg(test)]
mod tests {
    use super::left;

    /// Takes all that a peer may have, one byte at a time; returns what it has.
    fn greedy(free: &mut u32, host: &mut u32, net: &mut u32) -> u32 {
        let mut peer = 0;
        while left(*free, peer, *host, *net) != 0 {
            (*free, peer, *host, *net) = (*free - 1, peer + 1, *host + 1, *net + 1);
        }
        peer
    }

    #[test]
    fn a_peer_leaves_as_much_as_it_takes() {
        let mut free = 6000;
        for has in [3000, 1500, 750] {
            assert_eq!(greedy(&mut free, &mut 0, &mut 0), has);
        }
    }

    #[test]
    fn an_address_with_many_ports_leaves_a_third() {
        let (mut free, mut host, mut net) = (6000, 0, 0);
        assert_eq!(greedy(&mut free, &mut host, &mut net), 3000);
        // A byte is lost where thirds are rounded.
        assert!((999..=1000).contains(&greedy(&mut free, &mut host, &mut net)));
        assert!(greedy(&mut free, &mut host, &mut net) <= 1);
        assert!(greedy(&mut free, &mut 0, &mut net) >= 400);
        assert!(greedy(&mut free, &mut 0, &mut 0) >= 600);
    }

    #[test]
    fn a_network_with_many_addresses_leaves_a_fifth() {
        let (mut free, mut net, mut least) = (6_000_000, 0, 0);
        for _ in 0..12 {
            // Each leaves something to the next one.
            let more = greedy(&mut free, &mut 0, &mut net);
            assert!(more >= least / 4, "{more} after {least}");
            least = more;
        }
        for _ in 0..1000 {
            greedy(&mut free, &mut 0, &mut net);
        }
        assert!((1_200_000..1_201_000).contains(&free), "{free}");
        let more = greedy(&mut free, &mut 0, &mut 0);
        assert!(more.abs_diff(free) <= 1, "{more} of a fifth, {free} left");
    }

    #[test]
    fn what_is_taken_at_once_is_what_could_be_taken_byte_by_byte() {
        for (free, peer, host, net) in [
            (6000, 0, 0, 0),
            (4000, 1000, 2000, 2000),
            (4000, 1000, 2000, 15_000),
            (10, 20, 20, 20),
            (0, 0, 0, 0),
        ] {
            let more = left(free, peer, host, net);
            assert!(more <= free);
            assert!(more == 0 || peer + more <= free - more);
            assert!(more == 0 || host + more <= 2 * (free - more));
            assert!(more == 0 || net + more <= 4 * (free - more));
        }
        assert_eq!(left(u32::MAX, 0, 0, 0), u32::MAX / 2);
        assert_eq!(left(0, u32::MAX, u32::MAX, u32::MAX), 0);
    }
}
