// SPDX-License-Identifier: GPL-2.0
//! The cipher of sealed packets, over a packet's bytes. In the model a payload is not its bytes but
//! what says which they are; that is encrypted.

use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;
use hmac::Mac;
use turnstile_core::transport::seal::{key_id, Key, Label, Psk, Seal, LABEL_LEN, TAG_LEN};

use crate::host::Payload;

/// HMAC-SHA256.
pub(crate) fn mac(key: &[u8], data: &[u8]) -> Option<Key> {
    let mut mac = <hmac::Hmac<sha2::Sha256> as Mac>::new_from_slice(key).ok()?;
    mac.update(data);
    Some(mac.finalize().into_bytes().into())
}

/// A key, by a number.
pub(crate) fn psk(number: u8) -> Psk {
    let key = [number; 32];
    let id = key_id(mac, &key).expect("there is a mac");
    Psk { id, key }
}

/// Bytes of an encrypted payload here.
const PAYLOAD: usize = 16;

fn cipher(key: &Key, nonce: u64) -> (ChaCha20Poly1305, [u8; 12]) {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&nonce.to_le_bytes());
    (ChaCha20Poly1305::new(key.into()), bytes)
}

/// A sealed packet: its header, what is encrypted, the tag and the label.
pub(crate) fn seal(header: &[u8], payload: Option<Payload>, seal: &Seal) -> Vec<u8> {
    let label = seal.label.write();
    let mut text = Vec::new();
    if let Some(payload) = payload {
        text.extend((payload.message as u64).to_be_bytes());
        text.extend(payload.offset.to_be_bytes());
        text.extend(payload.len.to_be_bytes());
    }
    let (cipher, nonce) = cipher(&seal.key, seal.label.nonce());
    let aad = [header, &label[..]].concat();
    let tag = cipher
        .encrypt_in_place_detached(&nonce.into(), &aad, &mut text)
        .expect("short enough");
    [header, &text, &tag, &label].concat()
}

/// The label of a sealed packet.
pub(crate) fn label(bytes: &[u8]) -> Option<Label> {
    Label::read(bytes.last_chunk::<LABEL_LEN>()?)
}

/// Opens one with a header of so many bytes. `None`: its seal is not right.
pub(crate) fn open(bytes: &[u8], header: usize, key: &Key) -> Option<Option<Payload>> {
    let (rest, label) = bytes.split_last_chunk::<LABEL_LEN>()?;
    let (rest, tag) = rest.split_last_chunk::<TAG_LEN>()?;
    let (head, text) = rest.split_at_checked(header)?;
    let nonce = Label::read(label)?.nonce();
    let (cipher, nonce) = cipher(key, nonce);
    let mut text = text.to_vec();
    let aad = [head, &label[..]].concat();
    cipher
        .decrypt_in_place_detached(&nonce.into(), &aad, &mut text, tag.into())
        .ok()?;
    let number = |from: usize, to: usize| -> u64 {
        text[from..to]
            .iter()
            .fold(0, |all, &byte| (all << 8) | u64::from(byte))
    };
    Some((text.len() == PAYLOAD).then(|| Payload {
        message: number(0, 8) as usize,
        offset: number(8, 12) as u32,
        len: number(12, 16) as u32,
    }))
}
