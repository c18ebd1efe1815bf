// SPDX-License-Identifier: GPL-2.0
//! Sealed packets: what follows them, the keys that they are sealed with, and which of them came
//! before.
//!
//! `docs/security.md` says what is promised to whom, and why the keys are made like this;
//! `docs/wire-format.md` has the bytes. A sealed packet is the packet as it would be, with
//! [`FLAG_SEALED`](crate::header::FLAG_SEALED) among its flags, and then [`SEAL_LEN`] bytes: the
//! tag of ChaCha20-Poly1305 (RFC 8439), and a [`Label`]. DATA's payload is encrypted; all else is
//! readable, and authenticated together with it: header and label, in this order.
//!
//! The endpoint makes keys and numbers here. The cipher itself is the host's: it has the buffers.

use core::fmt;

use super::host::Address;
use super::wire::Cookie;

/// Bytes by which a sealed packet is longer.
pub const SEAL_LEN: usize = LABEL_LEN + TAG_LEN;
/// Bytes of a [`Label`], which is last.
pub const LABEL_LEN: usize = 16;
/// Bytes of the tag.
pub const TAG_LEN: usize = 16;
/// Bytes of each key.
pub const KEY_LEN: usize = 32;

/// A key.
pub type Key = [u8; KEY_LEN];

/// A key that both ends were given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Psk {
    /// What packets call it: [`key_id`].
    pub id: u32,
    /// The secret.
    pub key: Key,
}

/// Hides it: it is a secret.
impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Psk({:08x})", self.id)
    }
}

/// Who sealed a packet, and with which of the message's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The message's sender, with the key that follows from its own random numbers alone.
    First = 0,
    /// The message's sender, with the key that follows from both ends' random numbers.
    Sender = 1,
    /// The message's receiver, with such a key.
    Receiver = 2,
}

/// The readable part of a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// From the sender: the pre-shared key's id. From the receiver: the number of the sender's
    /// packet that `random` was chosen for.
    pub word: u32,
    /// Who sealed it.
    pub kind: Kind,
    /// Counts what this end has sealed of the message; below [`NUMBERS`]. It is the nonce.
    pub number: u32,
    /// The random number of the end that sealed it.
    pub random: u64,
}

/// A message has no more packets of one end than this.
pub const NUMBERS: u32 = 1 << 30;

impl Label {
    /// The bytes on the wire.
    pub fn write(&self) -> [u8; LABEL_LEN] {
        let number = ((self.kind as u32) << 30) | (self.number & (NUMBERS - 1));
        let mut bytes = [0; LABEL_LEN];
        put(&mut bytes, 0, &self.word.to_be_bytes());
        put(&mut bytes, 4, &number.to_be_bytes());
        put(&mut bytes, 8, &self.random.to_be_bytes());
        bytes
    }

    /// From the wire. `None`: nobody seals like this.
    pub fn read(bytes: &[u8; LABEL_LEN]) -> Option<Self> {
        let (head, random) = bytes.split_last_chunk::<8>()?;
        let (word, number) = head.split_first_chunk::<4>()?;
        let number = u32::from_be_bytes(*number.first_chunk::<4>()?);
        Some(Self {
            word: u32::from_be_bytes(*word),
            kind: match number >> 30 {
                0 => Kind::First,
                1 => Kind::Sender,
                2 => Kind::Receiver,
                _ => return None,
            },
            number: number & (NUMBERS - 1),
            random: u64::from_be_bytes(*random),
        })
    }

    /// The low 64 bits of the cipher's nonce, little-endian as the cipher has them; the 32 before
    /// them are 0.
    pub const fn nonce(&self) -> u64 {
        self.number as u64
    }
}

/// How one packet is to be sealed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// The cipher's key.
    pub key: Key,
    /// What to write behind the packet.
    pub label: Label,
}

/// Hides the key.
impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seal({:?})", self.label)
    }
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    let to = to.get_mut(at..).unwrap_or_default();
    for (to, from) in to.iter_mut().zip(bytes) {
        *to = *from;
    }
}

/// What packets call a pre-shared key: four bytes that tell nothing of it. Both ends work it out,
/// so that nobody has to agree on names.
///
/// `mac` is HMAC-SHA256 of bytes (the second) with a key (the first); `None`: the host has none.
pub fn key_id(mac: impl Fn(&[u8], &[u8]) -> Option<Key>, key: &Key) -> Option<u32> {
    let secret = mac(b"turnstile1 keyid", key)?;
    let id = mac(&secret, &[1])?;
    Some(u32::from_be_bytes(*id.first_chunk::<4>()?))
}

/// What a message's keys follow from: HKDF-Extract (RFC 5869) of the pre-shared key, with the
/// sender's two random numbers as salt.
pub(crate) fn root(
    mac: impl Fn(&[u8], &[u8]) -> Option<Key>,
    psk: &Key,
    cookie: Cookie,
    random: u64,
) -> Option<Key> {
    let mut salt = [0; 16];
    put(&mut salt, 0, &cookie.0.to_be_bytes());
    put(&mut salt, 8, &random.to_be_bytes());
    mac(&salt, psk)
}

/// One of a message's keys: HKDF-Expand of its root. `random` is the receiver's number, 0 for
/// [`Kind::First`]; `peer` is the other end, `is_sender`: we are the message's sender.
pub(crate) fn expand(
    mac: impl Fn(&[u8], &[u8]) -> Option<Key>,
    root: &Key,
    kind: Kind,
    random: u64,
    peer: &Address,
    is_sender: bool,
) -> Option<Key> {
    let label = match kind {
        Kind::First => b"turnstile1 first",
        Kind::Sender => b"turnstile1 sends",
        Kind::Receiver => b"turnstile1 takes",
    };
    let (sender, receiver) = if is_sender {
        (&peer.local, &peer.ip)
    } else {
        (&peer.ip, &peer.local)
    };
    let mut info = [0; 57];
    put(&mut info, 0, label);
    put(&mut info, 16, &random.to_be_bytes());
    put(&mut info, 24, sender);
    put(&mut info, 40, receiver);
    // The number of the block, of which there is one.
    put(&mut info, 56, &[1]);
    mac(root, &info)
}

/// How far behind the highest number a packet may be.
pub(crate) const WINDOW: u32 = 1024;
const WORDS: usize = (WINDOW / 64) as usize;

/// The numbers of packets that came, of one end and with one of its random numbers.
#[derive(Clone, Copy)]
pub(crate) struct Came {
    /// All numbers from this one on are new.
    next: u32,
    /// Bit `n % WINDOW`: `n` came, for the `WINDOW` numbers before `next`.
    bits: [u64; WORDS],
}

impl Came {
    pub(crate) const NONE: Self = Self {
        next: 0,
        bits: [0; WORDS],
    };

    /// Whether a number has not come yet. One that is too old to tell counts as come.
    pub(crate) fn is_new(&self, number: u32) -> bool {
        number >= self.next || self.next.saturating_sub(number) <= WINDOW && !self.is_set(number)
    }

    /// Notes a number. `true` if it is new.
    pub(crate) fn accept(&mut self, number: u32) -> bool {
        if !self.is_new(number) {
            return false;
        }
        if number >= self.next {
            if number.saturating_sub(self.next) >= WINDOW {
                self.bits = [0; WORDS];
            } else {
                for between in self.next..number {
                    self.set(between, false);
                }
            }
            self.next = number.saturating_add(1);
        }
        self.set(number, true);
        true
    }

    fn is_set(&self, number: u32) -> bool {
        let word = self.bits.get((number % WINDOW / 64) as usize);
        word.is_some_and(|word| word & (1 << (number % 64)) != 0)
    }

    fn set(&mut self, number: u32, value: bool) {
        let bit = 1 << (number % 64);
        if let Some(word) = self.bits.get_mut((number % WINDOW / 64) as usize) {
            *word = if value { *word | bit } else { *word & !bit };
        }
    }
}

/// What is kept for a sealed message. It is beside the message, as most messages are not sealed.
#[derive(Clone, Copy)]
pub(crate) struct Sealed {
    /// What the keys follow from.
    pub(crate) root: Key,
    /// The key of [`Kind::First`].
    pub(crate) first: Key,
    /// The key of what we seal with both ends' numbers.
    pub(crate) ours: Key,
    /// The key of what the other end seals with both ends' numbers.
    pub(crate) theirs: Key,
    /// Of our labels.
    pub(crate) word: u32,
    /// The number of our next packet.
    pub(crate) next: u32,
    /// Our random number.
    pub(crate) random: u64,
    /// The other end's, if it is known.
    pub(crate) their_random: Option<u64>,
    /// Of a message that goes out: the `word` of the labels with `their_random`.
    pub(crate) answered: u32,
    /// What came from the other end.
    pub(crate) came: Came,
}

impl Sealed {
    /// Of no message.
    pub(crate) const NONE: Self = Self {
        root: [0; KEY_LEN],
        first: [0; KEY_LEN],
        ours: [0; KEY_LEN],
        theirs: [0; KEY_LEN],
        word: 0,
        next: 0,
        random: 0,
        their_random: None,
        answered: 0,
        came: Came::NONE,
    };
}

#[cfg(test)]
pub(crate) mod tests;
