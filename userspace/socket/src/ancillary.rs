// SPDX-License-Identifier: GPL-2.0
//! Ancillary data (cmsg(3)) as bytes. The kernel copies it byte by byte, so that only offsets are
//! aligned, not the buffer.

/// `struct cmsghdr`: a `size_t` for the length, level and type.
const HEADER: usize = size_of::<usize>() + 8;

const fn aligned(len: usize) -> usize {
    len.next_multiple_of(size_of::<usize>())
}

/// Space that one item takes (`CMSG_SPACE`).
pub(crate) const fn space(len: usize) -> usize {
    aligned(HEADER) + aligned(len)
}

/// Appends an item.
pub(crate) fn put(to: &mut Vec<u8>, level: i32, kind: i32, payload: &[u8]) {
    to.extend((aligned(HEADER) + payload.len()).to_ne_bytes());
    to.extend(level.to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(payload);
    to.resize(aligned(to.len()), 0);
}

/// One item.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(crate) level: i32,
    pub(crate) kind: i32,
    pub(crate) payload: &'a [u8],
}

/// Iterates over the items that the kernel wrote, up to the first that is cut off.
pub(crate) fn items(mut bytes: &[u8]) -> impl Iterator<Item = Item<'_>> {
    std::iter::from_fn(move || {
        let (len, rest) = bytes.split_first_chunk::<{ size_of::<usize>() }>()?;
        let (level, rest) = rest.split_first_chunk::<4>()?;
        let (kind, _) = rest.split_first_chunk::<4>()?;
        let len = usize::from_ne_bytes(*len);
        let payload = bytes.get(aligned(HEADER)..len)?;
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
        Some(Item {
            level: i32::from_ne_bytes(*level),
            kind: i32::from_ne_bytes(*kind),
            payload,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written() {
        let mut bytes = Vec::new();
        put(&mut bytes, 29813, 1, &7u64.to_ne_bytes());
        put(&mut bytes, 29813, 3, &9u32.to_ne_bytes());
        put(&mut bytes, 0, 11, &[1, 2, 3]);
        assert_eq!(bytes.len(), space(8) + space(4) + space(3));
        let read: Vec<_> = items(&bytes)
            .map(|item| (item.level, item.kind, item.payload.to_vec()))
            .collect();
        assert_eq!(
            read,
            [
                (29813, 1, 7u64.to_ne_bytes().to_vec()),
                (29813, 3, 9u32.to_ne_bytes().to_vec()),
                (0, 11, vec![1, 2, 3])
            ]
        );
    }

    #[test]
    fn laid_out_as_the_c_library_says() {
        // SAFETY: both are pure arithmetic.
        let (space_of_8, len_of_5) = unsafe { (libc::CMSG_SPACE(8), libc::CMSG_LEN(5)) };
        assert_eq!(space(8), space_of_8 as usize);
        let mut bytes = Vec::new();
        put(&mut bytes, 1, 2, &[0; 5]);
        assert_eq!(
            bytes[..size_of::<usize>()],
            (len_of_5 as usize).to_ne_bytes()
        );
    }

    #[test]
    fn cut_off_anywhere_and_lengths_that_lie() {
        let mut bytes = Vec::new();
        put(&mut bytes, 1, 2, &[7; 9]);
        for end in 0..HEADER + 9 {
            assert_eq!(items(&bytes[..end]).count(), 0, "{end}");
        }
        for len in [0, 1, HEADER - 1, usize::MAX, usize::MAX - 7] {
            bytes[..size_of::<usize>()].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(items(&bytes).count(), 0, "{len}");
        }
    }
}
