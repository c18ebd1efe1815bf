// SPDX-License-Identifier: GPL-2.0
//! Sealed packets, with ChaCha20-Poly1305 (RFC 8439) of the kernel's library, and what their keys
//! are made with.

use crate::{
    bindings,
    net::Net,
    transport::{Arrival, Transport},
};
use kernel::error::{to_result, Result};

/// Bytes of a key.
pub const KEY: usize = bindings::KNT_KEY as usize;
/// Bytes of the label, with which a sealed packet ends. The tag is before it.
pub const LABEL: usize = bindings::KNT_LABEL as usize;

/// How a packet is sealed, or to be opened.
pub struct Seal(bindings::knt_seal);

impl Seal {
    /// With this key, of which no two packets may have the same nonce. `nonce` is the low 64 bits,
    /// the others are 0. `label` is authenticated with the packet's header, and readable.
    pub fn new(key: &[u8; KEY], nonce: u64, label: [u8; LABEL]) -> Self {
        Self(bindings::knt_seal {
            key: *key,
            nonce,
            label,
        })
    }

    pub(crate) fn as_raw(&self) -> *const bindings::knt_seal {
        &self.0
    }
}

/// HMAC-SHA256 (RFC 2104).
pub fn hmac(key: &[u8], data: &[u8]) -> [u8; KEY] {
    let mut mac = [0; KEY];
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    // SAFETY: there are as many bytes as is said, and room for the result.
    unsafe {
        bindings::knt_hmac(
            key.as_ptr(),
            len(key),
            data.as_ptr(),
            len(data),
            mac.as_mut_ptr(),
        );
    }
    mac
}

/// Reads the key of type `logon` with this serial number, which the caller has to find in its own
/// keyrings. Sleeps.
///
/// # Errors
/// `ENOKEY`: there is none; `EINVAL`: it is of another type; `EACCES`: the caller's keyrings do not
/// have it, or not under its description; `EKEYREVOKED`, `EKEYEXPIRED`; `EMSGSIZE`: it does not
/// have [`KEY`] bytes.
pub fn key<T: Transport>(_net: &mut Net<'_, T>, serial: u32) -> Result<[u8; KEY]> {
    let mut key = [0; KEY];
    // SAFETY: there is room for as many bytes.
    to_result(unsafe { bindings::knt_key_read(serial, key.as_mut_ptr(), KEY as u32) })?;
    Ok(key)
}

impl Arrival<'_> {
    /// The label of a sealed packet: its last bytes. `None`: it is too short.
    pub fn label(&self) -> Option<[u8; LABEL]> {
        let mut label = [0; LABEL];
        // SAFETY: the packet lives, and there is room for as many bytes.
        let has =
            unsafe { bindings::knt_skb_tail(self.as_raw(), label.as_mut_ptr(), LABEL as u32) };
        has.then_some(label)
    }

    /// Opens a sealed packet with a header of so many bytes: its payload is readable then, and tag
    /// and label are gone. `false`: its seal is not right, or there is no memory. [`Arrival::head`]
    /// is empty afterwards.
    pub fn open(&mut self, header: usize, seal: &Seal) -> bool {
        let head = self.take_head();
        let Some(head) = head.get(..header) else {
            return false;
        };
        let Ok(len) = u32::try_from(head.len()) else {
            return false;
        };
        // SAFETY: the packet is as it came in. The header is in it or on the caller's stack, and is
        // copied before anything moves.
        unsafe { bindings::knt_skb_open(self.as_raw(), head.as_ptr(), len, seal.as_raw()) }
    }
}
