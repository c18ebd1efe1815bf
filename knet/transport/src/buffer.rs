// SPDX-License-Identifier: GPL-2.0
//! Messages in memory: what an application wrote, and what came from the network. Both count to a socket.

use crate::{bindings, message::Message, sock::Sock};
use core::ptr::NonNull;
use kernel::error::{to_result, Error, Result};

/// What an application wrote of a message. A copy is another reference to the same.
///
/// It keeps its socket, and counts to its memory.
pub struct Written(NonNull<bindings::knt_out>);

// SAFETY: the C side has references counted atomically, and an xarray with a lock of its own for the pages. Only
// `append` and `release` change it: the first needs an exclusive reference to the writer's handle, and frees nothing; the
// second frees pages that lie below what was appended, from which nothing is read any more.
unsafe impl Send for Written {}
// SAFETY: as above.
unsafe impl Sync for Written {}

impl Written {
    pub(crate) fn as_raw(&self) -> *mut bindings::knt_out {
        self.0.as_ptr()
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // SAFETY: the reference is given back.
        unsafe { bindings::knt_out_put(self.as_raw()) }
    }
}

/// The one that appends to a [`Written`].
pub struct Writer(Written);

impl Writer {
    /// For a message of `length` bytes, all of which come at once; 0: not so. Sleeps.
    ///
    /// # Errors
    /// `ENOBUFS`: no memory, or more than the socket may have.
    pub fn new(sock: &Sock, length: u32) -> Result<Self> {
        // SAFETY: the socket lives.
        let out = unsafe { bindings::knt_out_new(sock.as_raw(), length) };
        Ok(Self(Written(NonNull::new(out).ok_or_else(no_room)?)))
    }

    /// Another reference, to send from.
    pub fn written(&self) -> Written {
        // SAFETY: this reference keeps it alive.
        unsafe { bindings::knt_out_get(self.0.as_raw()) };
        Written(self.0 .0)
    }

    /// Appends up to `len` bytes of what the application gives; returns how many. Sleeps.
    ///
    /// # Errors
    /// `EFAULT`; `ENOBUFS`: no memory, or more than the socket may have.
    pub fn append(&mut self, message: &mut Message<'_>, len: u32) -> Result<u32> {
        // SAFETY: both live; the exclusive reference makes this the only writer.
        let done = unsafe { bindings::knt_out_write(self.0.as_raw(), message.as_raw(), len) };
        u32::try_from(done).map_err(|_| Error::from_errno(done))
    }
}

/// Frees what lies below `below`, from which nothing is to be sent any more. Not to be called by two at once, which an exclusive reference to
/// the one [`Written`] of a message prevents.
pub fn release(written: &mut Written, below: u32) {
    // SAFETY: it lives. The writer is above `below`: what is acknowledged was written.
    unsafe { bindings::knt_out_release(written.as_raw(), below) }
}

/// A packet that came.
pub struct Skb(NonNull<bindings::sk_buff>);

// SAFETY: a packet belongs to whoever has it, wherever that is.
unsafe impl Send for Skb {}

impl Skb {
    /// # Safety
    ///
    /// The packet becomes the new value's.
    pub(crate) unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        Self(skb)
    }
}

impl Drop for Skb {
    fn drop(&mut self) {
        // SAFETY: ours.
        unsafe { bindings::knt_skb_free(self.0.as_ptr()) }
    }
}

/// What came of a message, by offset. The ranges are disjoint.
#[derive(Default)]
pub struct Segments(bindings::knt_segments);

// SAFETY: the packets belong to it alone, but for references that readers have, who only read.
unsafe impl Send for Segments {}

impl Segments {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps bytes `offset..offset + len` of the message: those of `skb` from the `skip`-th on. They count to `sock`. `false`: there is no
    /// memory, or the socket may have no more.
    pub fn insert(&mut self, sock: &Sock, skb: Skb, offset: u32, skip: u32, len: u32) -> bool {
        let raw = skb.0.as_ptr();
        core::mem::forget(skb);
        // SAFETY: the packet is given away, and the socket lives.
        unsafe { bindings::knt_segments_insert(&mut self.0, sock.as_raw(), raw, offset, skip, len) }
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> u32 {
        self.0.truesize
    }

    /// What there is from `offset` on without a gap, up to `len` bytes and as many packets as [`Parts`] hold.
    pub fn gather(&self, offset: u32, len: u32) -> Parts {
        let mut parts = Parts::default();
        // SAFETY: there is room for as many parts as are asked for.
        parts.count = unsafe {
            bindings::knt_segments_gather(
                &self.0,
                offset,
                len,
                parts.parts.as_mut_ptr(),
                PARTS as u32,
            )
        };
        parts
    }

    /// Frees the packets of which all lies below `below`.
    pub fn consume(&mut self, below: u32) {
        // SAFETY: it lives.
        unsafe { bindings::knt_segments_consume(&mut self.0, below) }
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        self.consume(u32::MAX);
    }
}

const PARTS: usize = 32;

/// Packets of a message that follow each other, for copying without a lock. They stay alive meanwhile.
#[derive(Default)]
pub struct Parts {
    parts: [bindings::knt_part; PARTS],
    count: u32,
}

impl Parts {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Copies all to the application; returns how many bytes. Sleeps.
    ///
    /// # Errors
    /// `EFAULT`, if nothing could be copied.
    pub fn copy_to(&self, message: &mut Message<'_>) -> Result<u32> {
        let mut done = 0u32;
        for part in self.parts.iter().take(self.count as usize) {
            // SAFETY: the part has a reference to its packet.
            match to_result(unsafe { bindings::knt_part_copy(part, message.as_raw()) }) {
                Ok(()) => done = done.saturating_add(part.len),
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        for part in self.parts.iter().take(self.count as usize) {
            // SAFETY: the reference is given back.
            unsafe { bindings::knt_skb_free(part.skb) }
        }
    }
}

/// `ENOBUFS`.
fn no_room() -> Error {
    Error::from_errno(-105)
}
