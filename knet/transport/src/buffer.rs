// SPDX-License-Identifier: GPL-2.0
//! Messages in memory: what an application wrote, and what came from the network. Both count to a
//! socket.

use crate::{
    bindings,
    message::{Receiving, Sending},
    net::{Net, Outbox},
    sock::Sock,
    transport::{Came, Transport},
};
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Range;
use core::ptr::NonNull;
use kernel::error::{Error, Result};

/// What an application wrote of a message. There is one for each [`Writer`].
///
/// It keeps its socket, and counts to its memory.
pub struct Written(NonNull<bindings::knt_out>);

// SAFETY: the C side has references counted atomically, and an xarray with a lock of its own for
// the pages. Only `append` and `release` change it. The first needs an exclusive reference to the
// one writer, and frees nothing. The second needs one to the one `Written`, so that nobody reads
// meanwhile, and C lets it free only what lies below what was appended, which nobody can read
// later, whenever that is done. The writer still looks at entries of what lies there, which are the
// xarray's, and never at the pages that they name.
unsafe impl Send for Written {}
// SAFETY: as above.
unsafe impl Sync for Written {}

impl Written {
    pub(crate) fn as_raw(&self) -> *mut bindings::knt_out {
        self.0.as_ptr()
    }
}

impl Drop for Written {
    /// Frees all if it is the last. With the namespace's lock only little: see
    /// [`Outbox::free_written`].
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
    pub fn new<T: Transport>(
        _net: &mut Net<'_, T>,
        sock: &Sock,
        length: u32,
    ) -> Result<(Self, Written)> {
        // SAFETY: the socket lives.
        let out = unsafe { bindings::knt_out_new(sock.as_raw(), length) };
        let out = NonNull::new(out).ok_or_else(no_room)?;
        // SAFETY: the reference that was made with it keeps it alive.
        unsafe { bindings::knt_out_get(out.as_ptr()) };
        Ok((Self(Written(out)), Written(out)))
    }

    /// Appends up to `len` bytes of what the application gives; returns how many. Sleeps.
    ///
    /// # Errors
    /// `EFAULT`; `ENOBUFS`: no memory, or more than the socket may have, or than 4 GiB in all.
    pub fn append<T: Transport>(
        &mut self,
        _net: &mut Net<'_, T>,
        message: &mut Sending<'_>,
        len: u32,
    ) -> Result<u32> {
        // SAFETY: both live; the exclusive reference makes this the only writer, and the call is a
        // `sendmsg`.
        let done = unsafe { bindings::knt_out_write(self.0.as_raw(), message.as_raw(), len) };
        u32::try_from(done).map_err(|_| Error::from_errno(done))
    }
}

/// A packet that came.
pub struct Skb(NonNull<bindings::sk_buff>);

// SAFETY: a packet belongs to whoever has it, wherever that is: C has taken its device, route and
// socket off it.
unsafe impl Send for Skb {}

impl Skb {
    /// # Safety
    ///
    /// The packet becomes the new value's.
    pub(crate) unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        Self(skb)
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    /// The packet is the caller's.
    pub(crate) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).as_raw()
    }

    /// Leaves what may be kept of a packet that came in as it is, once.
    pub(crate) fn take(&self) {
        // SAFETY: ours.
        unsafe { bindings::knt_skb_take(self.0.as_ptr()) }
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

    /// Keeps bytes `offset..offset + len` of the message: those of `skb` from the `skip`-th on.
    /// They count to `sock`, and all of the message takes at most `most` bytes of memory: pieces
    /// are joined as far as that needs it. What came for the socket takes at most `promised`
    /// bytes, or what its receive buffer has. `false`: there is no memory, or no more may be taken.
    pub fn insert(
        &mut self,
        sock: &Sock,
        skb: Skb,
        Range { start, end }: Range<u32>,
        skip: u32,
        most: u32,
        promised: u32,
    ) -> bool {
        let raw = skb.0.as_ptr();
        core::mem::forget(skb);
        let len = end.saturating_sub(start);
        let sk = sock.as_raw();
        let segments = &mut self.0;
        // SAFETY: the packet is given away, and the socket lives.
        unsafe {
            bindings::knt_segments_insert(segments, sk, raw, start, skip, len, most, promised)
        }
    }

    /// The same for the payloads of a super-packet's packets, all of them, each behind a header of
    /// `head` bytes, and each but the last of `each` bytes. `Err`: it is none of these, or cannot
    /// be kept as it is; nothing has changed.
    #[allow(clippy::too_many_arguments)] // facts of one packet
    pub fn insert_whole<'a>(
        &mut self,
        sock: &Sock,
        came: Came<'a>,
        Range { start, end }: Range<u32>,
        (head, each): (u32, u32),
        most: u32,
        promised: u32,
    ) -> core::result::Result<(), Came<'a>> {
        let raw = came.skb.as_raw();
        let len = end.saturating_sub(start);
        let sk = sock.as_raw();
        let segments = &mut self.0;
        // SAFETY: the packet and the socket live.
        let taken = unsafe {
            bindings::knt_segments_insert_whole(
                segments, sk, raw, start, head, each, len, most, promised,
            )
        };
        if !taken {
            return Err(came);
        }
        // It is among the segments.
        core::mem::forget(came);
        Ok(())
    }

    /// Bytes of memory that it takes.
    pub fn truesize(&self) -> u32 {
        self.0.truesize
    }

    /// Puts into `parts`, instead of what is there, what there is from `offset` on without a gap,
    /// up to `len` bytes and as many packets as there is room for.
    pub fn gather(&self, offset: u32, len: u32, parts: &mut Parts) {
        parts.clear();
        // SAFETY: there is room for as many parts as are asked for.
        parts.count = unsafe {
            bindings::knt_segments_gather(
                &self.0,
                offset,
                len,
                parts.parts.as_mut_ptr().cast(),
                PARTS as u32,
            )
        };
    }

    /// Frees the packets of which all lies below `below`.
    pub fn consume(&mut self, below: u32) {
        // SAFETY: it lives.
        unsafe { bindings::knt_segments_consume(&mut self.0, below) }
    }
}

impl Drop for Segments {
    /// Frees all packets. With the namespace's lock only few: see [`Outbox::free`].
    fn drop(&mut self) {
        // SAFETY: it lives.
        unsafe { bindings::knt_segments_free(&mut self.0) }
    }
}

impl Outbox {
    /// Frees what came of a message when the namespace's lock is released.
    pub fn free(&mut self, mut segments: Segments) {
        // SAFETY: both live, and the packets are given away.
        unsafe { bindings::knt_segments_leave(&mut segments.0, &mut self.packets) }
    }

    /// Frees what was written of a message when the namespace's lock is released.
    pub fn free_written(&mut self, written: Written) {
        let written = ManuallyDrop::new(written);
        // SAFETY: both live, and the reference is given away.
        unsafe { bindings::knt_out_leave(written.as_raw(), &mut self.packets) }
    }

    /// Frees what lies below `below`, from which nothing is to be sent any more; what is not
    /// appended yet stays. Much is freed when the namespace's lock is released.
    pub fn release(&mut self, written: &mut Written, below: u32) {
        // SAFETY: both live, and nobody else reads or frees: there is one `Written`, and this is an
        // exclusive reference to it.
        unsafe { bindings::knt_out_release(written.as_raw(), below, &mut self.packets) }
    }

    /// Whether fewer than `most` packets of a message that count ([`Departure::counts`]) are on
    /// their way through this host by a `link`, a number below 32: in its queues, or with a device.
    /// If not, [`Transport::left`] is called with this name once one has left, or was dropped. It
    /// is to be asked before each packet that counts, and a message has the same name each time.
    /// There is room for what is another namespace's.
    ///
    /// [`Departure::counts`]: crate::Departure::counts
    pub fn has_room(&mut self, written: &Written, name: u64, link: u32, most: u32) -> bool {
        // SAFETY: both live, and whoever has the outbox has its namespace's lock.
        unsafe { bindings::knt_out_has_room(self.net, written.as_raw(), name, link, most) }
    }

    /// How many packets that count are on their way by a link, of all messages.
    pub fn below(&self, link: u32) -> u32 {
        // SAFETY: the namespace lives by the type's invariant.
        unsafe { bindings::knt_net_below(self.net, link) }
    }

    /// Frees what was written when the namespace's lock is released, by who appends to it.
    pub fn free_writer(&mut self, writer: Writer) {
        self.free_written(writer.0);
    }
}

const PARTS: usize = 32;

/// Packets of a message that follow each other, for copying without a lock. They stay alive
/// meanwhile.
pub struct Parts {
    parts: [MaybeUninit<bindings::knt_part>; PARTS],
    /// So many of them are filled in, at most all.
    count: u32,
}

impl Default for Parts {
    fn default() -> Self {
        Self::new()
    }
}

impl Parts {
    /// None.
    pub fn new() -> Self {
        Self {
            parts: [const { MaybeUninit::uninit() }; PARTS],
            count: 0,
        }
    }

    fn filled(&self) -> &[bindings::knt_part] {
        let count = (self.count as usize).min(PARTS);
        // SAFETY: so many were filled in by `gather`, and belong to `self`.
        unsafe { core::slice::from_raw_parts(self.parts.as_ptr().cast(), count) }
    }

    /// Lets go of all.
    pub fn clear(&mut self) {
        for part in self.filled() {
            // SAFETY: the reference is given back, and forgotten below.
            unsafe { bindings::knt_skb_free(part.skb) }
        }
        self.count = 0;
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Gives all to the application, or as much as it has room for; returns how many bytes. Sleeps.
    ///
    /// # Errors
    /// `EFAULT`, `EAGAIN` or `ENOBUFS`, if nothing could be given.
    pub fn copy_to<T: Transport>(
        &self,
        _net: &mut Net<'_, T>,
        message: &mut Receiving<'_>,
    ) -> Result<u32> {
        let mut done = 0u32;
        for part in self.filled() {
            // SAFETY: the part has a reference to its packet, and the call is a `recvmsg`, or what
            // is one to Rust.
            let copied = unsafe { bindings::knt_part_copy(part, message.as_raw()) };
            match u32::try_from(copied) {
                Ok(copied) => done = done.saturating_add(copied),
                Err(_) if done == 0 => return Err(Error::from_errno(copied)),
                Err(_) => break,
            }
            if u32::try_from(copied) != Ok(part.len) {
                break;
            }
        }
        Ok(done)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `ENOBUFS`.
fn no_room() -> Error {
    Error::from_errno(-105)
}
