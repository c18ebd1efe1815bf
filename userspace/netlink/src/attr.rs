// SPDX-License-Identifier: GPL-2.0
//! Netlink attributes as bytes: just enough to write and read the qdisc's nests, and the
//! transport's messages.
//!
//! An attribute is a `u16` length (header included), a `u16` number, the payload, and padding to a
//! multiple of four; integers are in host byte order.

/// Flag in an attribute's number: the payload is attributes again. The kernel's strict parser wants
/// it.
pub const NESTED: u16 = 1 << 15;
/// The bits of an attribute's number that are the number.
const NUMBER: u16 = !(3 << 14);
/// Bytes before the payload.
const HEADER: usize = 4;

/// The kernel sent bytes that do not make sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// An attribute's length leads out of the message.
    #[error("netlink: the attributes are cut off at byte {0}")]
    Truncated(usize),
    /// An attribute is too short for its type, or its value means nothing.
    #[error("netlink: attribute {name} has no meaning: {bytes:?}")]
    Value {
        /// The attribute.
        name: &'static str,
        /// Its payload.
        bytes: Vec<u8>,
    },
}

/// Appends attribute `number` with this payload.
///
/// # Panics
/// If the payload does not fit an attribute (65531 bytes).
pub fn put(to: &mut Vec<u8>, number: u16, payload: &[u8]) {
    let length = u16::try_from(HEADER + payload.len()).expect("a payload that fits an attribute");
    to.extend_from_slice(&length.to_ne_bytes());
    to.extend_from_slice(&number.to_ne_bytes());
    to.extend_from_slice(payload);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// Appends a `u32` attribute.
pub fn put_u32(to: &mut Vec<u8>, number: u16, value: u32) {
    put(to, number, &value.to_ne_bytes());
}

/// Appends a `u64` attribute.
pub fn put_u64(to: &mut Vec<u8>, number: u16, value: u64) {
    put(to, number, &value.to_ne_bytes());
}

/// One attribute: its number (without flags) and payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The number.
    pub number: u16,
    /// The payload.
    pub payload: &'a [u8],
}

impl Attribute<'_> {
    /// The payload as `u32`. `name` goes into the error.
    pub fn u32(&self, name: &'static str) -> Result<u32, Malformed> {
        let bytes = self
            .payload
            .first_chunk()
            .ok_or_else(|| self.malformed(name))?;
        Ok(u32::from_ne_bytes(*bytes))
    }

    /// The payload as `u64`. `name` goes into the error.
    pub fn u64(&self, name: &'static str) -> Result<u64, Malformed> {
        let bytes = self
            .payload
            .first_chunk()
            .ok_or_else(|| self.malformed(name))?;
        Ok(u64::from_ne_bytes(*bytes))
    }

    /// The error that this attribute's payload means nothing.
    pub fn malformed(&self, name: &'static str) -> Malformed {
        Malformed::Value {
            name,
            bytes: self.payload.to_vec(),
        }
    }
}

/// Goes through the attributes in `bytes`; ends after the first error.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Result<Attribute<'_>, Malformed>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = bytes.get(at..).filter(|left| !left.is_empty())?;
        let found = take(left);
        match found {
            Some((_, length)) => at += length.next_multiple_of(4),
            None => {
                let failed = at;
                at = bytes.len();
                return Some(Err(Malformed::Truncated(failed)));
            }
        }
        found.map(|(attribute, _)| Ok(attribute))
    })
}

/// The first attribute of `bytes`, and its length without padding.
fn take(bytes: &[u8]) -> Option<(Attribute<'_>, usize)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let number = u16::from_ne_bytes(*rest.first_chunk()?) & NUMBER;
    let length = usize::from(u16::from_ne_bytes(*length));
    Some((
        Attribute {
            number,
            payload: bytes.get(HEADER..length)?,
        },
        length,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn layout() {
        let mut bytes = Vec::new();
        put(&mut bytes, 3 | NESTED, &[1, 2, 3, 4, 5]);
        put_u32(&mut bytes, 4, 7);
        assert_eq!(bytes.len(), 12 + 8);
        assert_eq!(
            bytes[..4],
            [9u16.to_ne_bytes(), 0x8003u16.to_ne_bytes()].concat()
        );
        let read: Vec<_> = attributes(&bytes).map(Result::unwrap).collect();
        assert_eq!(
            read[0],
            Attribute {
                number: 3,
                payload: &[1, 2, 3, 4, 5]
            }
        );
        assert_eq!(read[1].u32("x"), Ok(7));
        assert_eq!(
            read[1].u64("x"),
            Err(Malformed::Value {
                name: "x",
                bytes: 7u32.to_ne_bytes().to_vec()
            })
        );
    }

    #[test]
    fn cut_off_anywhere() {
        let mut bytes = Vec::new();
        put_u64(&mut bytes, 1, 1);
        for end in 1..bytes.len() {
            assert_eq!(
                attributes(&bytes[..end]).collect::<Vec<_>>(),
                [Err(Malformed::Truncated(0))]
            );
        }
        // A length below the header's own.
        assert_eq!(
            attributes(&[3, 0, 1, 0]).collect::<Vec<_>>(),
            [Err(Malformed::Truncated(0))]
        );
    }

    fn written() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
        let payload = prop::collection::vec(any::<u8>(), 0..40);
        prop::collection::vec((1u16..0x3fff, payload), 0..20)
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes: Vec<u8>) {
            prop_assert!(attributes(&bytes).count() <= bytes.len() / HEADER + 1);
        }

        #[test]
        fn reads_what_was_written(written in written()) {
            let mut bytes = Vec::new();
            for (number, payload) in &written {
                put(&mut bytes, *number, payload);
            }
            let read = attributes(&bytes).map(|a| a.map(|a| (a.number, a.payload.to_vec())));
            let read: Vec<_> = read.map(Result::unwrap).collect();
            prop_assert_eq!(read, written);
        }
    }
}
