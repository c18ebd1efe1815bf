// SPDX-License-Identifier: GPL-2.0
//! DATA in a row.

use super::{parse, Data, Packet, DATA_LEN, MAX_LENGTH};

/// Packets with DATA of one message in a row: each begins where the one before it ends, all but the
/// last are as long as the first, and they answer tokens in a row, or none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them, with what is not its own: [`Data::len`] is that of all together, and
    /// [`Data::more`] that of the last.
    pub data: Data,
    /// How many there are.
    pub packets: u16,
    /// Bytes of payload of the first.
    pub each: u32,
}

impl Run {
    /// One packet.
    #[must_use]
    pub const fn new(data: Data) -> Self {
        Self {
            data,
            packets: 1,
            each: data.len,
        }
    }

    /// Adds the next packet. `false`, and nothing has changed: it does not follow.
    #[inline]
    pub fn push(&mut self, next: &Data) -> bool {
        let Self {
            data,
            packets,
            each,
        } = self;
        let asked = data.asked();
        let token = match asked {
            true => data.token.wrapping_add(*packets),
            false => 0,
        };
        let follows = next.cookie == data.cookie
            && next.flags == data.flags
            && next.token == token
            && next.timestamp == data.timestamp
            && next.asked() == asked
            && next.offset == data.end()
            && next.len <= *each
            && data.len == each.saturating_mul((*packets).into())
            && *packets != u16::MAX;
        if follows {
            data.len = data.len.saturating_add(next.len);
            data.more = next.more;
            *packets = packets.saturating_add(1);
        }
        follows
    }

    /// The header of one of them, the first being number 0.
    #[inline]
    #[must_use]
    pub fn head(&self, number: u16) -> [u8; DATA_LEN] {
        let mut head = [0; DATA_LEN];
        let behind = self.packets.saturating_sub(1).saturating_sub(number);
        let data = Data {
            token: self.token(number),
            offset: self.begin(number),
            more: match self.data.more {
                // Unless it is too many to be told.
                0 => 0,
                last => u8::try_from(behind.saturating_add(last.into())).unwrap_or(0),
            },
            ..self.data
        };
        Packet::Data(data).write(&mut head);
        head
    }

    /// Where one of them begins; the end, if there are no more than so many.
    #[inline]
    fn begin(&self, number: u16) -> u32 {
        let before = self.each.saturating_mul(number.into());
        self.data.offset.saturating_add(before.min(self.data.len))
    }

    /// The bytes of those from `first` on, and before `end`: where they begin, and how many.
    #[inline]
    #[must_use]
    pub fn bytes(&self, first: u16, end: u16) -> (u32, u32) {
        let begin = self.begin(first);
        (begin, self.begin(end).saturating_sub(begin))
    }

    /// The token that one of them answers.
    #[inline]
    pub(crate) fn token(&self, number: u16) -> u16 {
        match self.data.asked() {
            true => self.data.token.wrapping_add(number),
            false => 0,
        }
    }

    /// Bytes of payload of the last.
    pub(crate) fn last(&self) -> u32 {
        let last = self.packets.saturating_sub(1);
        self.data.end().saturating_sub(self.begin(last))
    }
}

/// A run that is read packet by packet.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    run: Run,
    /// The header of the first.
    head: [u8; DATA_LEN],
}

impl Row {
    /// Begins with a packet of `len` bytes with this header. `None`: it is no DATA.
    #[must_use]
    pub fn new(head: &[u8; DATA_LEN], len: usize) -> Option<Self> {
        match parse(head, len) {
            Ok(Packet::Data(data)) => Some(Self {
                run: Run::new(data),
                head: *head,
            }),
            _ => None,
        }
    }

    /// Adds a packet of `len` bytes with this header. `false`: it is no DATA, or does not follow.
    #[inline]
    pub fn push(&mut self, head: &[u8; DATA_LEN], len: usize) -> bool {
        let payload = u32::try_from(len.saturating_sub(DATA_LEN)).unwrap_or(u32::MAX);
        let [_, more, ..] = *head;
        let next = Data {
            token: self.run.token(self.run.packets),
            offset: self.run.data.end(),
            len: payload,
            more,
            ..self.run.data
        };
        // What does not follow need not be understood.
        let mut expected = self.head;
        Self::patch(&mut expected, &next);
        let fits = payload != 0 && next.end() <= MAX_LENGTH;
        fits && are_same(&expected, head) && self.run.push(&next)
    }

    /// All of it.
    #[must_use]
    pub const fn run(&self) -> &Run {
        &self.run
    }

    /// Writes what is a packet's own.
    #[inline]
    fn patch(head: &mut [u8; DATA_LEN], data: &Data) {
        let [t0, t1] = data.token.to_be_bytes();
        let [o0, o1, o2, o3] = data.offset.to_be_bytes();
        let [.., token0, token1, _, _, _, _, offset0, offset1, offset2, offset3] = head;
        (*token0, *token1) = (t0, t1);
        (*offset0, *offset1, *offset2, *offset3) = (o0, o1, o2, o3);
        let [_, more, ..] = head;
        *more = data.more;
    }
}

/// Whether two headers are the same. In two parts, for which no function is called.
#[inline]
fn are_same(one: &[u8; DATA_LEN], other: &[u8; DATA_LEN]) -> bool {
    const _: () = assert!(DATA_LEN >= 16 && DATA_LEN <= 24);
    one.first_chunk::<16>() == other.first_chunk::<16>()
        && one.last_chunk::<8>() == other.last_chunk::<8>()
}

#[cfg(test)]
mod tests;
