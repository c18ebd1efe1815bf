// SPDX-License-Identifier: GPL-2.0
//! The primitives' own vectors, and ours.

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;
use hmac::Mac;
use proptest::prelude::*;
use std::collections::HashSet;
use std::string::String;
use std::vec::Vec;

use super::*;

/// HMAC-SHA256, as a host has it.
#[allow(clippy::unnecessary_wraps)] // as hosts have it
pub(crate) fn mac(key: &[u8], data: &[u8]) -> Option<Key> {
    let mut mac = <hmac::Hmac<sha2::Sha256> as Mac>::new_from_slice(key).unwrap();
    mac.update(data);
    Some(mac.finalize().into_bytes().into())
}

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

/// RFC 5869, test case 1: extract and one block of expand are the two uses of HMAC here.
#[test]
fn rfc_5869() {
    let salt = hex("000102030405060708090a0b0c");
    let secret = mac(&salt, &[0x0b; 22]).unwrap();
    assert_eq!(
        secret.to_vec(),
        hex("077709362c2e32df0ddc3f0dc47bba63 90b6c73bb50f9c3122ec844ad7c2b3e5")
    );
    let mut info = hex("f0f1f2f3f4f5f6f7f8f9");
    info.push(1);
    assert_eq!(
        mac(&secret, &info).unwrap().to_vec(),
        hex("3cb25f25faacd57a90434f64d0362f2a 2d2d0a90cf1a5a4c5db02d56ecc4c5bf")
    );
}

/// RFC 8439, section 2.8.2: the cipher that the tests use is the one that is meant.
#[test]
fn rfc_8439() {
    let key: Vec<u8> = (0x80..0xa0).collect();
    let nonce = hex("070000004041424344454647");
    let mut text = b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip \
                     for the future, sunscreen would be it."
        .to_vec();
    let cipher = ChaCha20Poly1305::new_from_slice(&key).unwrap();
    let tag = cipher
        .encrypt_in_place_detached(
            nonce[..].into(),
            &hex("50515253c0c1c2c3c4c5c6c7"),
            &mut text,
        )
        .unwrap();
    assert_eq!(text[..16], hex("d31a8d34648e60db7b86afbc53ef7ec2"));
    assert_eq!(tag.to_vec(), hex("1ae10b594f09e26a7e902ecbd0600691"));
}

#[test]
fn a_label_is_written_in_one_way() {
    for kind in [Kind::First, Kind::Sender, Kind::Receiver] {
        let label = Label {
            word: 0x0102_0304,
            kind,
            number: NUMBERS - 2,
            random: 0x1122_3344_5566_7788,
        };
        assert_eq!(Label::read(&label.write()), Some(label));
    }
    let mut bytes = [0; LABEL_LEN];
    bytes[4] = 0xc0;
    assert_eq!(Label::read(&bytes), None);
}

fn end(last: u8, peer: u8) -> Address {
    let mut address = Address::default();
    for (ip, last) in [(&mut address.local, last), (&mut address.ip, peer)] {
        ip[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, last]);
    }
    address
}

/// Both ends come to the same keys, and nobody else does: other addresses, numbers, roles.
#[test]
fn keys_are_for_one_purpose() {
    let psk = [7; KEY_LEN];
    let root_of = |cookie, random| root(mac, &psk, Cookie(cookie), random).unwrap();
    let one = root_of(1, 2);
    let mut keys = HashSet::new();
    assert!(keys.insert(one));
    assert!(keys.insert(root_of(1, 3)));
    assert!(keys.insert(root_of(2, 2)));
    let (sender, receiver) = (end(1, 2), end(2, 1));
    for kind in [Kind::First, Kind::Sender, Kind::Receiver] {
        for random in [0, 5] {
            let ours = expand(mac, &one, kind, random, &sender, true).unwrap();
            let theirs = expand(mac, &one, kind, random, &receiver, false).unwrap();
            assert_eq!(ours, theirs);
            assert!(keys.insert(ours));
            // A message the other way between the same hosts.
            let back = expand(mac, &one, kind, random, &sender, false).unwrap();
            assert!(keys.insert(back));
        }
    }
    let other = expand(mac, &one, Kind::First, 0, &end(1, 3), true).unwrap();
    assert!(keys.insert(other));
}

/// The vectors of `docs/security.md`.
#[test]
fn the_documented_keys() {
    let key: Key = core::array::from_fn(|i| i as u8);
    assert_eq!(key_id(mac, &key), Some(0x3f4a_8279));
    let cookie = Cookie(0x0123_4567_89ab_cdef);
    let root = root(mac, &key, cookie, 0x1111_1111_1111_1111).unwrap();
    let of = |kind, random| expand(mac, &root, kind, random, &end(1, 2), true).unwrap();
    let shown = |key: Key| {
        let bytes: Vec<String> = key.iter().map(|b| std::format!("{b:02x}")).collect();
        bytes.concat()
    };
    let all = [
        shown(root),
        shown(of(Kind::First, 0)),
        shown(of(Kind::Sender, 0x2222_2222_2222_2222)),
        shown(of(Kind::Receiver, 0x2222_2222_2222_2222)),
    ];
    let docs = include_str!("../../../../docs/security.md");
    for key in all {
        assert!(docs.contains(&key), "not in docs/security.md: {key}");
    }
}

/// The sealed packet of `docs/wire-format.md`.
#[test]
fn the_documented_packet() {
    use crate::transport::wire::{is_sealed, parse_sealed, Ack, Packet};

    let docs = include_str!("../../../../docs/wire-format.md");
    let (_, rest) = docs.split_once("```hex SEALED\n").unwrap();
    let bytes = hex(rest.split_once("```").unwrap().0);
    assert!(is_sealed(&bytes, bytes.len()));
    let packet = Packet::Ack(Ack {
        cookie: Cookie(0x0123_4567_89ab_cdef),
        received: 2900,
        window: 65_536,
        allowance: 1000,
        last: true,
        mark: crate::transport::rate::Mark::None,
        notify: false,
    });
    assert_eq!(parse_sealed(&bytes, bytes.len()), Ok(packet));
    let (rest, label) = bytes.split_last_chunk::<LABEL_LEN>().unwrap();
    let (header, tag) = rest.split_last_chunk::<TAG_LEN>().unwrap();
    let read = Label::read(label).unwrap();
    let expected = Label {
        word: 0,
        kind: Kind::Receiver,
        number: 5,
        random: 0x2222_2222_2222_2222,
    };
    assert_eq!(read, expected);
    let psk: Key = core::array::from_fn(|i| i as u8);
    let root = root(mac, &psk, packet.cookie(), 0x1111_1111_1111_1111).unwrap();
    let key = expand(mac, &root, read.kind, read.random, &end(1, 2), true).unwrap();
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&read.nonce().to_le_bytes());
    let known = [header, &label[..]].concat();
    ChaCha20Poly1305::new(&key.into())
        .decrypt_in_place_detached(&nonce.into(), &known, &mut [], tag.into())
        .expect("the tag is right");
}

proptest! {
    /// Against a set of all numbers: each once, unless too old.
    #[test]
    fn each_number_is_taken_once(
        steps in prop::collection::vec((0_u8..8, 0_i64..1500), 1..400),
    ) {
        let mut came = Came::NONE;
        let mut all = HashSet::new();
        let mut next: i64 = 0;
        for (what, step) in steps {
            let number = match what {
                0 => next - 1 - step,
                1 => next + step,
                2 => next - 1,
                _ => next + step % 3,
            };
            if number < 0 {
                continue;
            }
            let wanted = number >= next - i64::from(WINDOW) && !all.contains(&number);
            prop_assert_eq!(came.is_new(number as u32), wanted);
            prop_assert_eq!(came.accept(number as u32), wanted, "{} {}", number, next);
            if wanted {
                all.insert(number);
                next = next.max(number + 1);
            }
        }
    }
}
