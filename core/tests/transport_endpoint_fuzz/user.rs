// SPDX-License-Identifier: GPL-2.0
//! The endpoint's user, which checks every call.

use std::collections::HashMap;

use turnstile_core::transport::host::*;
use turnstile_core::transport::wire::*;

use crate::common::Rng;
use crate::packets::Learnt;

pub(crate) enum Std {}

impl Memory for Std {
    type Chunk<T> = Vec<T>;
    fn chunk<T>(len: usize, fill: impl FnMut(usize) -> T) -> Option<Vec<T>> {
        Some((0..len).map(fill).collect())
    }
}

pub(crate) fn peer(n: u8) -> Address {
    let mut address = Address::default();
    (address.ip[10], address.ip[11], address.ip[15]) = (0xff, 0xff, n);
    (address.local[10], address.local[11], address.local[15]) = (0xff, 0xff, 99);
    address
}

pub(crate) struct Out {
    pub(crate) available: u32,
    pub(crate) acked: u32,
}

/// Bytes that were handed over, as starts and ends.
pub(crate) struct In {
    told: Vec<(u32, u32)>,
    pub(crate) window: u32,
    length: Option<u32>,
}

/// The endpoint's user. It keeps the cookies that it sees, as the peers do.
pub(crate) struct Io {
    pub(crate) rng: Rng,
    pub(crate) cookies: Vec<(Cookie, Address)>,
    learnt: HashMap<Cookie, Learnt>,
    pub(crate) sent: u32,
    pub(crate) sent_data: u64,
    pub(crate) taken: u64,
    pub(crate) ended: u64,
    window: u32,
}

impl Io {
    pub(crate) fn new(seed: u64, window: u32) -> Self {
        Self {
            rng: Rng(seed),
            cookies: Vec::new(),
            learnt: HashMap::new(),
            sent: 0,
            sent_data: 0,
            taken: 0,
            ended: 0,
            window,
        }
    }

    /// What is known of a message.
    pub(crate) fn learnt(&self, cookie: Cookie) -> Learnt {
        self.learnt.get(&cookie).copied().unwrap_or_default()
    }

    fn remember(&mut self, cookie: Cookie, from: Address) {
        if self.cookies.len() < 32 {
            self.cookies.push((cookie, from));
        } else {
            let place = self.rng.below(32) as usize;
            let (old, _) = core::mem::replace(&mut self.cookies[place], (cookie, from));
            self.learnt.remove(&old);
        }
    }
}

impl Host<Out, In> for Io {
    type Payload = ();
    type Whole = ();

    fn random(&mut self) -> u64 {
        self.rng.next()
    }

    fn transmit(
        &mut self,
        _: Owner<'_, Out, In>,
        to: &Address,
        _: Class,
        _: bool,
        header: &[u8],
        payload: Option<Slice<'_, Out>>,
    ) {
        let len = payload.as_ref().map_or(0, |slice| slice.len as usize);
        let packet = parse(header, header.len() + len).expect("what is sent is well-formed");
        self.sent += 1;
        match (packet, payload) {
            (Packet::Data(data), Some(slice)) => {
                assert_eq!((data.offset, data.len), (slice.offset, slice.len));
                assert!(slice.offset >= slice.message.acked);
                assert!(slice.offset + slice.len <= slice.message.available);
                self.sent_data += 1;
            }
            (Packet::First(first), Some(slice)) => {
                assert_eq!((0, first.data.len), (slice.offset, slice.len));
                assert_eq!(
                    (slice.message.acked, slice.message.available),
                    (0, slice.len)
                );
                self.sent_data += 1;
                self.remember(first.sync.cookie, *to);
            }
            (Packet::Sync(sync), None) => self.remember(sync.cookie, *to),
            (Packet::Token(token), None) => {
                let known = self.learnt.entry(token.cookie).or_default();
                known.token = Some((token.sequence, token.timestamp));
            }
            (Packet::Challenge(challenge), None) => {
                // Also of a message that was not taken.
                if !self.learnt.contains_key(&challenge.cookie) {
                    self.remember(challenge.cookie, *to);
                }
                self.learnt.entry(challenge.cookie).or_default().echo = challenge.echo;
            }
            (_, payload) => assert!(payload.is_none()),
        }
    }

    fn open(
        &mut self,
        from: &Address,
        sync: &Sync,
        _: InId,
        _: Sender,
    ) -> Result<(In, u32), Refusal> {
        match self.rng.below(16) {
            0 => return Err(Refusal::Ignore),
            1 => return Err(Refusal::Reset(ResetCode::NoSocket)),
            _ => {}
        }
        self.remember(sync.cookie, *from);
        let message = In {
            told: Vec::new(),
            window: self.window,
            length: sync.length,
        };
        Ok((message, self.window))
    }

    fn data(
        &mut self,
        _: InId,
        message: &mut In,
        offset: u32,
        _: (u32, u32),
        len: u32,
        (): (),
    ) -> bool {
        if self.rng.below(32) == 0 {
            return false;
        }
        let (start, end) = (offset, offset + len);
        assert!(
            len != 0 && end <= message.window && message.length.is_none_or(|length| end <= length)
        );
        assert!(
            message
                .told
                .iter()
                .all(|told| told.1 <= start || end <= told.0),
            "told twice"
        );
        message.told.push((start, end));
        message.told.sort_unstable();
        message.told.dedup_by(|next, before| {
            let joined = next.0 == before.1;
            if joined {
                before.1 = next.1;
            }
            joined
        });
        self.taken += u64::from(len);
        true
    }

    fn in_length(&mut self, _: InId, message: &mut In, length: u32) {
        assert_eq!(message.length.replace(length), None);
        assert!(message.told.last().is_none_or(|last| last.1 <= length));
    }

    fn in_progress(&mut self, _: InId, message: &mut In, contiguous: u32) {
        assert_eq!(message.told[0], (0, contiguous));
    }

    fn in_done(&mut self, _: InId, message: In) {
        assert_eq!(message.told, [(0, message.length.unwrap())]);
        self.ended += 1;
    }

    fn in_failed(&mut self, _: InId, _: In, _: Failure) {
        self.ended += 1;
    }

    fn out_acked(&mut self, _: OutId, message: &mut Out, received: u32) {
        assert!(received > message.acked && received <= message.available);
        message.acked = received;
    }

    fn out_done(&mut self, _: OutId, _: Out, _: Result<(), Failure>) {
        self.ended += 1;
    }

    fn listens(&self) -> bool {
        true
    }

    fn event(&mut self, _: &Event) {}
}
