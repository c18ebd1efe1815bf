// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::transport::host::Address;
use crate::transport::testing::{chunks_left, Std};

fn v4(last: [u8; 4]) -> Address {
    let mut address = Address::default();
    address.ip[10..12].fill(0xff);
    address.ip[12..].copy_from_slice(&last);
    address
}

#[test]
fn networks_are_prefixes_of_their_family() {
    let net = |last, bits| Net::of(&v4(last), bits, 64);
    assert_eq!(net([10, 1, 2, 3], 24), net([10, 1, 2, 200], 24));
    assert_ne!(net([10, 1, 2, 3], 24), net([10, 1, 3, 3], 24));
    assert_ne!(net([10, 1, 2, 3], 32), net([10, 1, 2, 4], 32));
    let mut v6 = Address::default();
    v6.ip[..2].copy_from_slice(&[0xfd, 0x77]);
    let mut other = v6;
    other.ip[15] = 9;
    assert_eq!(Net::of(&v6, 24, 64), Net::of(&other, 24, 64));
    assert_ne!(Net::of(&v6, 24, 128), Net::of(&other, 24, 128));
    other.ip[7] = 1;
    assert_ne!(Net::of(&v6, 24, 64), Net::of(&other, 24, 64));
    assert_eq!(Net::of(&v6, 24, 48), Net::of(&other, 24, 48));
}

#[test]
fn counts_each_network_and_forgets_empty_ones_but_one() {
    let key = Key::new([1, 2]);
    let mut tally = Tally::<Std>::new();
    let nets = [1_u8, 2].map(|n| Net::of(&v4([10, 0, n, 0]), 24, 64));
    let first = tally.join(&key, nets[0]).unwrap();
    assert_eq!(tally.join(&key, nets[0]), Some(first));
    let second = tally.join(&key, nets[1]).unwrap();
    assert_eq!(nets.map(|net| tally.count(&key, net)), [2, 1]);
    tally.leave(first);
    tally.leave(second);
    assert_eq!(nets.map(|net| tally.count(&key, net)), [1, 0]);
    // The last one that was emptied stays, and is the first to go.
    assert_eq!(tally.all.len(), 2);
    tally.leave(first);
    assert_eq!(nets.map(|net| tally.count(&key, net)), [0, 0]);
    assert_eq!(tally.all.len(), 1);
    assert_eq!(tally.join(&key, nets[0]), Some(first));
    assert_eq!(tally.join(&key, nets[1]), Some(second));
    assert_eq!(nets.map(|net| tally.count(&key, net)), [1, 1]);
    tally.leave(second);
    assert_eq!(tally.all.len(), 2);
    let mut without = Tally::<Std>::new();
    chunks_left(0);
    assert_eq!(without.join(&key, nets[0]), None);
    chunks_left(usize::MAX);
}
