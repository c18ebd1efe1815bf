// SPDX-License-Identifier: GPL-2.0
//! Serialization of packets.

use core::mem;

use super::{header, Cookie, Data, Packet, Sync};
#[cfg(doc)]
use super::{FIRST_MOST, MAX_HEADER, SHORT_HEADER};

impl Packet {
    /// Writes the packet, without a DATA's payload, to the start of `to`, and returns its length:
    /// at most [`MAX_HEADER`], of a [`First`](Packet::First) at most [`FIRST_MOST`], and of all
    /// but that, a RESEND and a list [`SHORT_HEADER`].
    ///
    /// Fields that are out of range are written as they are; the other end refuses them.
    #[inline]
    pub fn write<const N: usize>(&self, to: &mut [u8; N]) -> usize {
        let mut out = Writer { rest: to, len: 0 };
        out.put(self.header().write());
        let Cookie(cookie) = self.cookie();
        out.put(cookie.to_be_bytes());
        match self {
            Self::Sync(p) => out.sync(p),
            Self::Token(p) => {
                out.put(p.sequence.to_be_bytes());
                out.put(p.timestamp.to_be_bytes());
            }
            Self::Data(p) => out.data(p),
            Self::First(p) => {
                out.data(&p.data);
                let prompt = if p.prompt { header::FLAG_PROBE } else { 0 };
                out.put([p.sync.priority_byte(), p.sync.flags() | prompt]);
                out.sync(&p.sync);
                if !p.delivered.is_empty() {
                    out.put(p.delivered.allowance.to_be_bytes());
                    // At most MAX_DELIVERED.
                    out.put([p.delivered.len() as u8, 0]);
                    for Cookie(cookie) in p.delivered.cookies() {
                        out.put(cookie.to_be_bytes());
                    }
                }
            }
            Self::Delivered(p) => {
                for Cookie(cookie) in p.cookies().iter().skip(1) {
                    out.put(cookie.to_be_bytes());
                }
                out.put(p.allowance.to_be_bytes());
            }
            Self::Confirm(p) => {
                for Cookie(cookie) in p.others() {
                    out.put(cookie.to_be_bytes());
                }
            }
            Self::Resend(p) => {
                // At most MAX_SPANS.
                out.put((p.spans.len() as u16).to_be_bytes());
                out.put([0; 2]);
                for span in &p.spans {
                    out.put(span.start.to_be_bytes());
                    out.put(span.end.to_be_bytes());
                }
            }
            Self::Fin(p) => out.put(p.length.to_be_bytes()),
            Self::Ack(p) => {
                out.put(p.received.to_be_bytes());
                out.put(p.window.to_be_bytes());
                out.put(p.allowance.to_be_bytes());
            }
            Self::Reset(p) => {
                out.put((p.code as u16).to_be_bytes());
                out.put([0; 2]);
            }
            Self::Challenge(p) => out.put(p.echo.to_be_bytes()),
        }
        out.len
    }
}

struct Writer<'a> {
    rest: &'a mut [u8],
    len: usize,
}

impl Writer<'_> {
    /// What follows the cookie.
    #[inline]
    fn sync(&mut self, p: &Sync) {
        self.put(p.source.to_be_bytes());
        self.put(p.destination.to_be_bytes());
        self.put(p.length.unwrap_or(0).to_be_bytes());
        self.put(p.deadline.to_be_bytes());
        self.put(p.coflow.to_be_bytes());
        self.put(p.unscheduled.to_be_bytes());
        self.put(p.mss.to_be_bytes());
        self.put(p.patience.to_be_bytes());
        self.put(p.echo.to_be_bytes());
    }

    /// What follows the cookie.
    #[inline]
    fn data(&mut self, p: &Data) {
        self.put(p.token.to_be_bytes());
        self.put(p.timestamp.to_be_bytes());
        self.put(p.offset.to_be_bytes());
    }

    /// Bytes that do not fit are left out; all packets fit.
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some((head, tail)) = mem::take(&mut self.rest).split_first_chunk_mut::<N>() {
            *head = bytes;
            self.rest = tail;
            self.len = self.len.wrapping_add(N);
        }
    }
}
