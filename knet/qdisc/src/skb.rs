// SPDX-License-Identifier: GPL-2.0
//! Packets: an owned `sk_buff`, and a FIFO of them.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h).
//!
//! Inside a qdisc an skb has exactly one owner at a time: the caller gives it to `enqueue`, the
//! qdisc keeps it, `dequeue` gives it away. [`Skb`] models that: it is moved, never shared, and
//! freed when dropped.
//!
//! A packet may be kept for longer than its device lives. So nothing here follows `skb->dev`, and
//! what does goes by way of the qdisc, which first sees that the packet is its own device's:
//! [`Enqueuing`](crate::Enqueuing) classifies, splits and gives to children, and packets of other
//! devices that a `dequeue` gives are dropped.

use crate::{bindings, device::Medium};
use core::{
    marker::PhantomData,
    mem::{self, ManuallyDrop},
    ptr::NonNull,
};
use kernel::transmute::{AsBytes, FromBytes};

/// An owned packet. Maps to C's `struct sk_buff *` whose owner is this value.
///
/// # Invariants
///
/// Points to a valid `sk_buff` that nobody else frees, and that is on no list.
#[repr(transparent)]
pub struct Skb(NonNull<bindings::sk_buff>);

// SAFETY: an skb is not tied to the CPU or the task that made it.
unsafe impl Send for Skb {}

/// Bytes that a qdisc may keep with each packet it holds (`QDISC_CB_PRIV_LEN`).
pub const PRIVATE_LEN: usize = 20;

/// The headers of a packet from where its first EtherType points.
pub struct Headers<'a> {
    /// EtherType in host byte order: the first one of the frame, 802.1Q tags that are in the frame
    /// included.
    pub protocol: u16,
    /// What follows that EtherType, possibly cut short.
    pub bytes: &'a [u8],
    /// Destination MAC address, on Ethernet devices.
    pub destination: Option<[u8; 6]>,
}

/// Room for headers that are not in the packet's linear part; see [`Skb::headers`].
pub type HeaderBuffer = [u8; 160];

const ETH_HLEN: usize = 14;

impl Skb {
    /// Takes ownership.
    ///
    /// # Safety
    ///
    /// `skb` must be valid, on no list, and the caller's to give away.
    pub(crate) unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: promised by the caller.
        Skb(skb)
    }

    /// Gives ownership to the C side.
    pub(crate) fn into_raw(self) -> NonNull<bindings::sk_buff> {
        let skb = self.0;
        mem::forget(self);
        skb
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *mut bindings::sk_buff {
        self.0.as_ptr()
    }

    /// A field that bindgen has no name for, by its offset in `knet.h`.
    #[inline]
    fn field<T>(&self, offset: u32) -> *mut T {
        self.as_ptr().wrapping_byte_add(offset as usize).cast()
    }

    #[inline]
    fn cb(&self) -> *mut bindings::qdisc_skb_cb {
        // SAFETY: by the type's invariant the skb is valid; this only computes the address of its
        // control block, which holds a `qdisc_skb_cb` while the packet is in the qdisc layer.
        unsafe { (&raw mut (*self.as_ptr()).cb).cast() }
    }

    /// Length in bytes as the qdisc layer counts it: with the headers of every segment that a GSO
    /// packet stands for, and after a size table (`tc stab`). C: `qdisc_pkt_len`.
    #[inline]
    pub fn packet_len(&self) -> u32 {
        // SAFETY: valid by the type's invariant.
        unsafe { (*self.cb()).pkt_len }
    }

    /// Number of wire packets this stands for, as the kernel counts them. C: `qdisc_pkt_segs`.
    #[inline]
    pub(crate) fn pkt_segs(&self) -> u32 {
        // SAFETY: valid by the type's invariant.
        unsafe { u32::from((*self.cb()).pkt_segs) }
    }

    /// Number of wire packets this stands for, at least 1.
    #[inline]
    pub fn segments(&self) -> u32 {
        self.pkt_segs().max(1)
    }

    /// Has this count as so many wire packets, until [`Skb::is_one`].
    #[inline]
    pub fn set_segments(&mut self, segments: u16) {
        // SAFETY: valid by the type's invariant, and borrowed exclusively.
        unsafe { (*self.cb()).pkt_segs = segments }
    }

    /// To whoever counts it from now on it is one wire packet again, unless it has segments. Before
    /// it leaves: parents believe the number.
    #[inline]
    pub fn is_one(&mut self) {
        // SAFETY: valid by the type's invariant, and borrowed exclusively.
        unsafe { bindings::knet_skb_is_one(self.as_ptr()) }
    }

    /// `SO_PRIORITY`, or what a filter or the forwarding path set.
    #[inline]
    pub fn priority(&self) -> u32 {
        // SAFETY: valid by the type's invariant. The field is a `__u32`, and any bytes make one.
        unsafe { *self.field(bindings::KNET_SKB_PRIORITY) }
    }

    /// Whether it came in by a device, and was not made here.
    #[inline]
    pub fn came_in(&self) -> bool {
        self.came_in_by() != 0
    }

    /// The number of the device that it came in by; 0 if it was made here. C: `skb_iif`.
    #[inline]
    pub(crate) fn came_in_by(&self) -> i32 {
        // SAFETY: valid by the type's invariant. The field is an `int`, and any bytes make one.
        unsafe { *self.field(bindings::KNET_SKB_IIF) }
    }

    /// Reads what [`Skb::set_private`] stored at byte `AT` of the private ones. Before that, or
    /// after another qdisc has held the packet, the value is arbitrary.
    #[inline]
    pub fn private<const AT: usize, T: FromBytes + Copy>(&self) -> T {
        const { assert!(AT + size_of::<T>() <= PRIVATE_LEN) };
        // SAFETY: `data` has `PRIVATE_LEN` initialised bytes, any bytes make a `T`.
        unsafe {
            (&raw const (*self.cb()).data)
                .byte_add(AT)
                .cast::<T>()
                .read_unaligned()
        }
    }

    /// Stores a value with the packet for as long as the qdisc holds it, from byte `AT` of the
    /// private ones on.
    #[inline]
    pub fn set_private<const AT: usize, T: AsBytes + Copy>(&mut self, value: T) {
        const { assert!(AT + size_of::<T>() <= PRIVATE_LEN) };
        // SAFETY: `data` has `PRIVATE_LEN` bytes, and we own the packet.
        unsafe {
            (&raw mut (*self.cb()).data)
                .byte_add(AT)
                .cast::<T>()
                .write_unaligned(value)
        }
    }

    #[inline]
    fn set_next(&mut self, next: *mut bindings::sk_buff) {
        // SAFETY: valid by the type's invariant. What is in the list is for the list to know.
        unsafe { *self.field(bindings::KNET_SKB_NEXT) = next }
    }

    /// What comes after it on a list.
    #[inline]
    fn next(&self) -> *mut bindings::sk_buff {
        // SAFETY: valid by the type's invariant.
        unsafe { *self.field(bindings::KNET_SKB_NEXT) }
    }

    /// Ends the packet's being on a list; what came after it.
    #[inline]
    fn unlink(&mut self) -> *mut bindings::sk_buff {
        let next = self.next();
        self.set_next(core::ptr::null_mut());
        next
    }

    /// The linear part of the packet, which may be only its beginning.
    #[inline]
    pub fn linear(&self) -> &[u8] {
        // SAFETY: valid by the type's invariant; `data` points to as many readable bytes, which
        // nobody changes while we borrow the packet.
        unsafe {
            let skb = self.as_ptr();
            let linear = (*skb).len.saturating_sub((*skb).data_len);
            core::slice::from_raw_parts((*skb).data, linear as usize)
        }
    }

    /// Which device the packet is on. It may be gone: only to be compared.
    #[inline]
    pub(crate) fn dev(&self) -> *mut bindings::net_device {
        // SAFETY: valid by the type's invariant.
        unsafe { *self.field(bindings::KNET_SKB_DEV) }
    }

    /// Where the frame's own headers begin: at its start on Ethernet devices, at the network header
    /// on others. `None`: nowhere in the packet.
    #[inline]
    fn headers_at(&self, medium: Medium) -> Option<u32> {
        if medium == Medium::Ethernet {
            return Some(0);
        }
        // SAFETY: valid by the type's invariant. Only addresses are computed.
        let offset = unsafe {
            let skb = self.as_ptr();
            let network: u16 = *self.field(bindings::KNET_SKB_NETWORK_HEADER);
            // C: skb_network_offset
            let network = (*skb).head.wrapping_add(network.into());
            network.addr().wrapping_sub((*skb).data.addr())
        };
        u32::try_from(offset).ok()
    }

    /// Writes the two bits of the ECN field of the IP header that begins `at` bytes behind where
    /// [`Headers::bytes`] do, and mends checksums. `medium`: as for [`Skb::headers`].
    ///
    /// `false`: there is no memory to make the header writable, or no such place, and the packet is
    /// as it was.
    pub fn set_ecn(&mut self, medium: Medium, at: u32, ipv6: bool, ecn: u8) -> bool {
        let Some(start) = self.headers_at(medium) else {
            return false;
        };
        let link = match medium {
            Medium::Ethernet => ETH_HLEN as u32,
            Medium::Other => 0,
        };
        let at = start.saturating_add(link).saturating_add(at);
        // SAFETY: valid by the type's invariant, and ours to write to; C checks that the header is
        // inside the packet.
        unsafe { bindings::knet_skb_set_ecn(self.as_ptr(), at, ipv6, ecn) }
    }

    /// The packet's headers. `medium`: what its device's frames begin with
    /// ([`Context::medium`](crate::Context::medium)). `buffer` is used only when they are not in
    /// the linear part.
    #[inline]
    pub fn headers<'a>(&'a self, medium: Medium, buffer: &'a mut HeaderBuffer) -> Headers<'a> {
        // SAFETY: valid by the type's invariant.
        let (protocol, len, linear) = unsafe {
            let skb = self.as_ptr();
            (
                u16::from_be(*self.field(bindings::KNET_SKB_PROTOCOL)),
                (*skb).len,
                (*skb).len.saturating_sub((*skb).data_len),
            )
        };
        let none = Headers {
            protocol,
            bytes: &[],
            destination: None,
        };
        let Some(offset) = self.headers_at(medium) else {
            return none;
        };
        let wanted = len.saturating_sub(offset).min(buffer.len() as u32);
        let bytes: &[u8] = if offset.saturating_add(wanted) <= linear {
            // SAFETY: `data` points to `linear` readable bytes, which nobody changes while we
            // borrow the packet.
            unsafe {
                core::slice::from_raw_parts(
                    (*self.as_ptr()).data.add(offset as usize),
                    wanted as usize,
                )
            }
        } else {
            // SAFETY: the buffer has room for `wanted` bytes, and the packet that many from
            // `offset`.
            let copied = unsafe {
                bindings::skb_copy_bits(
                    self.as_ptr(),
                    offset as i32,
                    buffer.as_mut_ptr().cast(),
                    wanted as i32,
                )
            };
            match buffer.get(..wanted as usize) {
                Some(bytes) if copied == 0 => bytes,
                _ => return none,
            }
        };
        if medium != Medium::Ethernet {
            return Headers {
                protocol,
                bytes,
                destination: None,
            };
        }
        let (Some(header), Some(rest)) = (bytes.first_chunk::<ETH_HLEN>(), bytes.get(ETH_HLEN..))
        else {
            return none;
        };
        let [d0, d1, d2, d3, d4, d5, .., p0, p1] = *header;
        Headers {
            protocol: u16::from_be_bytes([p0, p1]),
            bytes: rest,
            destination: Some([d0, d1, d2, d3, d4, d5]),
        }
    }

    /// How long each segment of a GSO super-packet is that [`Skb::cut`] can cut, but for the last
    /// one: in bytes, as [`Skb::packet_len`] counts them.
    #[inline]
    pub fn segment_len(&self) -> Option<u32> {
        // SAFETY: valid by the type's invariant. C only reads.
        let len = unsafe { bindings::knet_skb_segment_len(self.as_ptr()) };
        (len != 0).then_some(len)
    }

    /// Splits a GSO super-packet into the wire packets it stands for, each with its own length.
    /// A packet that cannot be split comes back as it was.
    ///
    /// # Safety
    ///
    /// The packet's device must be valid.
    pub(crate) unsafe fn split(self) -> Result<SkbQueue, Self> {
        // SAFETY: valid by the type's invariant; the original stays ours. C reads what the device
        // can do, which the caller allows.
        let first = NonNull::new(unsafe { bindings::knet_skb_segment(self.as_ptr()) });
        // SAFETY: `knet_skb_segment` gave us a list of valid packets. They have a qdisc control
        // block because segments inherit the original's.
        unsafe {
            self.replace_with(first, |segment| {
                (*segment.cb()).pkt_len = (*segment.as_ptr()).len;
                (*segment.cb()).pkt_segs = 1;
            })
        }
    }

    /// Cuts a GSO super-packet into shorter ones of `segments` wire packets each, the last one of
    /// what is left, each with its own length. A packet that cannot be cut so comes back as it was.
    ///
    /// # Safety
    ///
    /// The packet's device must be valid.
    pub(crate) unsafe fn cut(self, segments: u32) -> Result<SkbQueue, Self> {
        // SAFETY: valid by the type's invariant; the original stays ours. C writes only to what no
        // other packet has in common with it, whatever the number.
        let first = NonNull::new(unsafe { bindings::knet_skb_cut(self.as_ptr(), segments) });
        // SAFETY: `knet_skb_cut` gave us a list of valid packets, whose lengths it has noted.
        unsafe { self.replace_with(first, |_| ()) }
    }

    /// The packet is gone, and those of a list are there in its place, each after a call of `note`.
    /// Without a list it comes back.
    ///
    /// # Safety
    ///
    /// `next` must be the first of a list of valid packets, linked by `next`, which are the
    /// caller's to give away.
    #[inline]
    unsafe fn replace_with(
        self,
        mut next: Option<NonNull<bindings::sk_buff>>,
        mut note: impl FnMut(&mut Skb),
    ) -> Result<SkbQueue, Self> {
        if next.is_none() {
            return Err(self);
        }
        let mut list = SkbQueue::new();
        while let Some(part) = next {
            // SAFETY: promised by the caller; taking one off the list before anybody else has it
            // upholds the invariant.
            let mut part = unsafe { Skb::from_raw(part) };
            next = NonNull::new(part.unlink());
            note(&mut part);
            list.push(part);
        }
        // SAFETY: ours, and not used afterwards. Its parts were taken over, so this is no drop.
        unsafe { bindings::knet_skb_consume(self.into_raw().as_ptr()) };
        Ok(list)
    }
}

impl Drop for Skb {
    fn drop(&mut self) {
        // SAFETY: ours by the type's invariant, and not used afterwards.
        unsafe { bindings::knet_skb_free_later(self.as_ptr()) };
    }
}

/// A FIFO of packets, linked through the packets themselves: no allocation, no bound.
///
/// # Invariants
///
/// `head` is the first packet, which this owns, or null; each packet's `next` owns the one after
/// it, the last one's is null; `tail` is the last packet, and is only read while `head` is not
/// null.
pub struct SkbQueue {
    head: *mut bindings::sk_buff,
    tail: *mut bindings::sk_buff,
    _owns: PhantomData<Skb>,
}

// SAFETY: owns its packets, and `Skb` is `Send`.
unsafe impl Send for SkbQueue {}

impl SkbQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        SkbQueue {
            head: core::ptr::null_mut(),
            tail: core::ptr::null_mut(),
            _owns: PhantomData,
        }
    }

    /// Adds a packet at the end.
    #[inline]
    pub fn push(&mut self, mut skb: Skb) {
        skb.set_next(core::ptr::null_mut());
        let raw = skb.into_raw().as_ptr();
        if self.head.is_null() {
            self.head = raw;
        } else {
            // SAFETY: by the invariant `tail` is valid while there is a head. It owns the new
            // packet from here on.
            unsafe { ManuallyDrop::new(Skb(NonNull::new_unchecked(self.tail))).set_next(raw) };
        }
        self.tail = raw;
    }

    /// Takes the first packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Skb> {
        // SAFETY: by the invariant `head` is ours, and after this the packet is on no list.
        let mut first = unsafe { Skb::from_raw(NonNull::new(self.head)?) };
        self.head = first.unlink();
        Some(first)
    }

    /// The first packet.
    #[inline]
    pub fn front(&self) -> Option<&Skb> {
        let head: *const *mut bindings::sk_buff = &self.head;
        if self.head.is_null() {
            return None;
        }
        // SAFETY: `Skb` is a transparent pointer that is not null, and the borrow keeps the queue
        // as it is.
        Some(unsafe { &*head.cast::<Skb>() })
    }

    /// Stores a value with the first packet, as [`Skb::set_private`] does. `false`: there is none.
    #[inline]
    pub fn set_front_private<const AT: usize, T: AsBytes + Copy>(&mut self, value: T) -> bool {
        let Some(first) = NonNull::new(self.head) else {
            return false;
        };
        // SAFETY: by the invariant `head` is ours. It stays on the list: this value of it is never
        // dropped.
        let mut first = ManuallyDrop::new(unsafe { Skb::from_raw(first) });
        first.set_private::<AT, T>(value);
        true
    }

    /// Stores with each of the first `most` packets, as [`Skb::set_private`] does, what `note` says
    /// of it. From the head on.
    pub fn note_first<const AT: usize, T: AsBytes + Copy>(
        &mut self,
        most: usize,
        mut note: impl FnMut(&Skb) -> T,
    ) {
        let mut at = self.head;
        for _ in 0..most {
            let Some(packet) = NonNull::new(at) else {
                return;
            };
            // SAFETY: by the invariant all packets from `head` on are ours. It stays on the list:
            // this value of it is never dropped, and `note` gets no more than a look.
            let mut packet = ManuallyDrop::new(unsafe { Skb::from_raw(packet) });
            let value = note(&packet);
            packet.set_private::<AT, T>(value);
            at = packet.next();
        }
    }

    /// Takes the packet out that has so many before it, which is how many steps it takes.
    pub fn remove(&mut self, place: usize) -> Option<Skb> {
        let mut before: *mut bindings::sk_buff = core::ptr::null_mut();
        let mut at = NonNull::new(self.head)?;
        for _ in 0..place {
            before = at.as_ptr();
            // SAFETY: by the invariant all packets from `head` on are ours; this one is not
            // dropped.
            at = NonNull::new(ManuallyDrop::new(unsafe { Skb::from_raw(at) }).next())?;
        }
        // SAFETY: as above, and after this the packet is on no list: what comes before it, or the
        // queue, owns what comes after it.
        let mut packet = unsafe { Skb::from_raw(at) };
        let after = packet.unlink();
        match NonNull::new(before) {
            None => self.head = after,
            // SAFETY: as above.
            Some(before) => unsafe { ManuallyDrop::new(Skb::from_raw(before)).set_next(after) },
        }
        if after.is_null() {
            // Not read if that is null, for then there is no head.
            self.tail = before;
        }
        Some(packet)
    }

    /// Is nothing queued?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_null()
    }
}

impl Default for SkbQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SkbQueue {
    fn drop(&mut self) {
        // One by one: dropping only the head would forget the rest.
        while self.pop().is_some() {}
    }
}
