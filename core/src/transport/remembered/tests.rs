// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::transport::testing::{chunks_left, Std};

fn address(last: u8) -> Address {
    let mut address = Address::default();
    address.ip[15] = last;
    address
}

#[test]
fn is_known_by_cookie_and_address_until_its_time() {
    let mut all = Remembered::<Std>::new();
    assert!(all.reserve(3));
    // The tallies' memory is not reserved: without, a message is remembered and not counted.
    chunks_left(0);
    let key = Key::new([1, 2]);
    let ms = Nanos::MILLISECOND.0;
    for (address_byte, until) in [(1, 1000), (2, 300), (3, 100)] {
        all.insert(
            &key,
            7,
            Cookie(5),
            &address(address_byte),
            9,
            Nanos(until * ms),
        );
    }
    chunks_left(usize::MAX);
    assert_eq!(all.len(), 3);
    assert_eq!(all.length(7, Cookie(5), &address(2)), Some(9));
    assert_eq!(all.length(7, Cookie(6), &address(2)), None);
    assert_eq!(all.length(7, Cookie(5), &address(4)), None);
    assert_eq!(all.next(), Some(Nanos(100 * ms)));
    assert!(!all.forget(Nanos(99 * ms)));
    assert!(all.forget(Nanos(100 * ms)) && !all.forget(Nanos(100 * ms)));
    // Confirmed: 200 ms from then, but not longer than before.
    assert!(all.confirm(7, Cookie(5), &address(1), Nanos(200 * ms)));
    assert!(all.confirm(7, Cookie(5), &address(2), Nanos(200 * ms)));
    assert!(!all.confirm(7, Cookie(5), &address(3), Nanos(200 * ms)));
    assert!(all.forget(Nanos(300 * ms)) && !all.forget(Nanos(399 * ms)));
    assert_eq!(all.length(7, Cookie(5), &address(1)), Some(9));
    assert!(all.forget(Nanos(400 * ms)));
    assert_eq!((all.len(), all.next()), (0, None));
}

#[test]
fn senders_and_networks_have_their_shares() {
    let key = Key::new([1, 2]);
    let mut all = Remembered::<Std>::new();
    let mut address = address(1);
    address.ip[10..14].copy_from_slice(&[0xff, 0xff, 10, 1]);
    let add = |all: &mut Remembered<Std>, from: &Address, n: u64| {
        assert!(all.reserve(all.len() + 1));
        all.insert(&key, n as u32, Cookie(n), from, 9, Nanos::SECOND);
    };
    for n in 0..8 {
        assert!(all.has_share(&key, &address, 0, 64), "{n}");
        assert_eq!(all.has_share(&key, &address, 7, 64), n == 0);
        add(&mut all, &address, n);
    }
    assert!(!all.has_share(&key, &address, 0, 64));
    // Another address of the network, up to a quarter together.
    let mut other = address;
    other.ip[15] = 2;
    for n in 0..8 {
        assert!(all.has_share(&key, &other, 0, 64));
        add(&mut all, &other, 16 + n);
    }
    other.ip[15] = 3;
    assert!(!all.has_share(&key, &other, 0, 64));
    // Another network has as many as are left of the half.
    other.ip[14] = 1;
    for n in 0..8 {
        assert!(all.has_share(&key, &other, 0, 64));
        add(&mut all, &other, 32 + n);
    }
    assert!(!all.has_share(&key, &other, 0, 64));
    other.ip[14] = 2;
    assert!(all.has_share(&key, &other, 0, 64));
    // What is confirmed counts no longer.
    for n in 0..5 {
        assert!(!all.has_share(&key, &address, 0, 64));
        assert!(all.confirm(n as u32, Cookie(n), &address, Nanos::ZERO));
    }
    assert!(all.has_share(&key, &address, 0, 64));
    while all.forget(Nanos::SECOND) {}
    assert!(all.has_share(&key, &address, 0, 64));
}
