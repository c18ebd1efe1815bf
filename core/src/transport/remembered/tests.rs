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
    chunks_left(0);
    let ms = Nanos::MILLISECOND.0;
    for (address_byte, until) in [(1, 1000), (2, 300), (3, 100)] {
        all.insert(7, Cookie(5), &address(address_byte), 9, Nanos(until * ms));
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
