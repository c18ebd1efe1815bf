// SPDX-License-Identifier: GPL-2.0
//! How the peers of a socket share its send buffer.
//!
//! > A peer (an address and a port) may have as much as is left free, and all peers of one address
//! > together twice as much as is left free.
//!
//! As with the places for messages nobody has a fixed quota: what each may have grows with what the
//! others leave. All have twice the size of `SO_SNDBUF`, so that a peer that is alone may have that
//! size, as that of a connected socket; one that does not take what it is sent leaves as much,
//! whose half the next one may have. An address may have two thirds of all however many ports it
//! has, and a second port of it a sixth.

/// How many bytes a peer may have beside those that it has: `peer` it has, `host` all peers of its
/// address have, it among them, and `free` are free.
#[must_use]
pub const fn left(free: u32, peer: u32, host: u32) -> u32 {
    let of_peer = free.saturating_sub(peer) / 2;
    let of_host = (2 * free as u64).saturating_sub(host as u64) / 3;
    if (of_peer as u64) < of_host {
        of_peer
    } else {
        of_host as u32
    }
}

#[cfg(test)]
mod tests {
    use super::left;

    /// Takes all that a peer may have, one byte at a time; returns what it has.
    fn greedy(free: &mut u32, host: &mut u32) -> u32 {
        let mut peer = 0;
        while left(*free, peer, *host) != 0 {
            (*free, peer, *host) = (*free - 1, peer + 1, *host + 1);
        }
        peer
    }

    #[test]
    fn a_peer_leaves_as_much_as_it_takes() {
        let mut free = 6000;
        assert_eq!(greedy(&mut free, &mut 0), 3000);
        assert_eq!(greedy(&mut free, &mut 0), 1500);
        assert_eq!(greedy(&mut free, &mut 0), 750);
    }

    #[test]
    fn an_address_with_many_ports_leaves_a_third() {
        let (mut free, mut host) = (6000, 0);
        assert_eq!(greedy(&mut free, &mut host), 3000);
        // A byte is lost where thirds are rounded.
        assert!((999..=1000).contains(&greedy(&mut free, &mut host)));
        assert!(greedy(&mut free, &mut host) <= 1);
        assert!(greedy(&mut free, &mut 0) >= 1000);
    }

    #[test]
    fn what_is_taken_at_once_is_what_could_be_taken_byte_by_byte() {
        for (free, peer, host) in [(6000, 0, 0), (4000, 1000, 2000), (10, 20, 20), (0, 0, 0)] {
            let more = left(free, peer, host);
            assert!(more <= free);
            assert!(more == 0 || peer + more <= free - more);
            assert!(more == 0 || host + more <= 2 * (free - more));
        }
        assert_eq!(left(u32::MAX, 0, 0), u32::MAX / 2);
        assert_eq!(left(0, u32::MAX, u32::MAX), 0);
    }
}
