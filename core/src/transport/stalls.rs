// SPDX-License-Identifier: GPL-2.0
//! Who has stalled: senders of messages that were given up because they did not go on while others
//! waited, for some minutes.
//!
//! Peers without messages are forgotten, so this is a table of hashes. One that stalls may take
//! another one's place in it: to be forgotten is no harm to anybody, but that who is forgotten may
//! hold room once more until it is given up. That somebody else counts as having stalled takes that
//! all of both hashes is the same.

/// When so many hosts of a network have stalled all of it has: whoever has a network has as many
/// addresses as he likes, but one guest of it is not to be taken for all others.
const HOSTS: u32 = 4;

/// So many there are of each time, 1 KiB of them: a power of two.
const PLACES: usize = 512;

/// Those of the present time, and of the one before it.
pub(crate) struct Stalls {
    /// Of even and of odd times.
    marks: [[u16; PLACES]; 2],
    /// Which time the present one is.
    time: u64,
    /// Nobody has stalled yet.
    none: bool,
}

impl Stalls {
    pub(crate) const NEW: Self = Self {
        marks: [[0; PLACES]; 2],
        time: 0,
        none: true,
    };

    /// Whether nobody has, so that no hash is needed.
    pub(crate) fn is_empty(&self) -> bool {
        self.none
    }

    /// The place of a hash, and what is there if it has stalled: not 0.
    fn split(hash: u32) -> (usize, u16) {
        (hash as usize % PLACES, (hash >> 16) as u16 | 1)
    }

    /// Those of a time.
    fn of(&self, time: u64) -> &[u16; PLACES] {
        let [even, odd] = &self.marks;
        if time % 2 == 0 {
            even
        } else {
            odd
        }
    }

    fn of_mut(&mut self, time: u64) -> &mut [u16; PLACES] {
        let [even, odd] = &mut self.marks;
        if time % 2 == 0 {
            even
        } else {
            odd
        }
    }

    /// A sender has stalled: the hash of its address, and that of its network if addresses of that
    /// are one's own.
    pub(crate) fn note_host(&mut self, time: u64, host: u32, net: Option<u32>) {
        if let Some(net) = net.filter(|_| !self.has(time, host)) {
            let nth = (1..HOSTS).find(|nth| !self.has(time, nth_of(net, *nth)));
            self.note(time, nth_of(net, nth.unwrap_or(HOSTS)));
        }
        self.note(time, host);
    }

    /// Whether a sender has stalled, or so many of its network.
    pub(crate) fn has_host(&self, time: u64, host: u32, net: Option<u32>) -> bool {
        self.has(time, host) || net.is_some_and(|net| self.has(time, nth_of(net, HOSTS)))
    }

    /// A sender with this hash has stalled.
    fn note(&mut self, time: u64, hash: u32) {
        if time != self.time {
            let before = time.wrapping_sub(1);
            if before != self.time {
                self.of_mut(before).fill(0);
            }
            self.of_mut(time).fill(0);
        }
        (self.time, self.none) = (time, false);
        let (place, mark) = Self::split(hash);
        if let Some(at) = self.of_mut(time).get_mut(place) {
            *at = mark;
        }
    }

    /// Whether a sender with this hash has stalled in this time or in the one before it.
    fn has(&self, time: u64, hash: u32) -> bool {
        let (place, mark) = Self::split(hash);
        let is_in = |time| self.of(time).get(place) == Some(&mark);
        match time.wrapping_sub(self.time) {
            0 => is_in(time) || is_in(time.wrapping_sub(1)),
            1 => is_in(self.time),
            _ => false,
        }
    }
}

/// Where it is noted that so many hosts of a network have stalled.
fn nth_of(net: u32, nth: u32) -> u32 {
    // Odd: each has another one.
    net ^ nth.wrapping_mul(0x9e37_79b1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_stalled_when_several_of_it_have() {
        let mut stalls = Stalls::NEW;
        let hash = |n: u32| n.wrapping_mul(0x85eb_ca6b).rotate_left(11) ^ 0x1234_5678;
        let net = Some(0xdead_beef);
        for n in 0..HOSTS {
            assert!(
                !stalls.has_host(3, hash(100), net),
                "{n} hosts have stalled"
            );
            // Once or several times.
            for _ in 0..10 {
                stalls.note_host(3, hash(n), net);
            }
            assert!(stalls.has_host(3, hash(n), net));
        }
        assert!(stalls.has_host(3, hash(100), net) && stalls.has_host(4, hash(100), net));
        assert!(!stalls.has_host(5, hash(100), net));
        assert!(!stalls.has_host(3, hash(100), Some(5)) && !stalls.has_host(3, hash(100), None));
        // Where each address is somebody else's it is for nobody else.
        for n in 0..10 * HOSTS {
            stalls.note_host(3, hash(n), None);
        }
        assert!(!stalls.has_host(3, hash(1000), None));
    }

    #[test]
    fn who_has_stalled_is_known_in_this_time_and_the_next() {
        let mut stalls = Stalls::NEW;
        assert!(stalls.is_empty() && !stalls.has(0, 0));
        stalls.note(7, 5);
        assert!(!stalls.is_empty());
        let known = |stalls: &Stalls, hash| [6, 7, 8, 9].map(|time| stalls.has(time, hash));
        assert_eq!(known(&stalls, 5), [false, true, true, false]);
        assert_eq!(known(&stalls, 6), [false; 4]);
        // Another one's changes nothing.
        stalls.note(8, 6);
        assert_eq!(known(&stalls, 5), [false, false, true, false]);
        assert_eq!(known(&stalls, 6), [false, false, true, true]);
        stalls.note(10, 7);
        assert!(!stalls.has(10, 5) && !stalls.has(10, 6) && stalls.has(10, 7));
    }

    #[test]
    fn hardly_anybody_is_taken_for_another_one() {
        let mut stalls = Stalls::NEW;
        let hash = |n: u32| n.wrapping_mul(0x9e37_79b1).rotate_left(7);
        for n in 0..2000 {
            stalls.note(1, hash(n));
        }
        let others = (2000..12_000).filter(|n| stalls.has(1, hash(*n)));
        assert!(others.count() < 10);
        // The latest are known.
        let latest = (1900..2000).filter(|n| stalls.has(1, hash(*n)));
        assert!(latest.count() > 80);
    }
}
