// SPDX-License-Identifier: GPL-2.0
//! What a transport has to say.

use crate::{
    bindings,
    buffer::Skb,
    genl::Opening,
    message::{ReceiveFlags, Receiving, Sending, SockAddress},
    net::{Locked, Net},
    sock::{Caller, LockedSock, Sock, SockRef, Timeout},
};
use core::{ffi::CStr, marker::PhantomData, ptr::NonNull};
use kernel::{alloc::KBox, error::Result};

/// A peer as seen from a local address. IPv4 addresses are mapped (`::ffff:a.b.c.d`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The peer.
    pub ip: [u8; 16],
    /// The local address.
    pub local: [u8; 16],
    /// The device's index, if the peer's address is of that device's link only; 0 otherwise.
    pub scope: u32,
}

impl Path {
    pub(crate) fn from_raw(path: &bindings::knt_path) -> Self {
        Self {
            ip: path.ip,
            local: path.local,
            scope: path.scope,
        }
    }
}

/// Where a packet came from, and by what.
#[derive(Clone, Copy)]
pub struct Origin {
    /// Where from and where to.
    pub from: Path,
    /// Index of the device that it came in by; of the VRF, if the device is in one.
    pub device: u32,
    /// Index of the device in the VRF; 0: it is in none.
    pub slave: u32,
    /// The UDP port that it came from: the transport's, or one of [`Numbers::source_port`].
    pub port: u16,
    /// The device's index; with a VRF, that of the device below, which has a speed.
    pub link: u32,
    /// The ECN field of IP's header.
    pub ecn: u8,
}

impl Origin {
    fn from_raw(raw: &bindings::knt_arrival) -> Self {
        Self {
            from: Path::from_raw(&raw.from),
            device: raw.device,
            slave: raw.slave,
            port: raw.port,
            link: raw.link,
            ecn: raw.ecn,
        }
    }
}

/// A packet that came in.
pub struct Arrival<'a> {
    /// Where from.
    pub origin: Origin,
    /// How many bytes there are behind UDP's header.
    pub len: u32,
    pub(crate) head: &'a [u8],
    pub(crate) skb: Skb,
}

impl<'a> Arrival<'a> {
    /// # Safety
    ///
    /// `raw` says the truth of `skb`, and its `head_len` bytes at `head` are valid for `'a`, or as
    /// long as `skb`, if they are in that.
    pub(crate) unsafe fn from_raw(raw: &bindings::knt_arrival, skb: Skb) -> Self {
        Self {
            origin: Origin::from_raw(raw),
            // SAFETY: the caller says how many bytes there are. If they are in the packet they live
            // as long as this value: whoever takes `skb` out of it cannot get at them any more.
            head: unsafe { core::slice::from_raw_parts(raw.head, raw.head_len as usize) },
            len: raw.len,
            skb,
        }
    }

    /// The first bytes behind UDP's header, at most [`Numbers::header`]; of [`Numbers::payload`]
    /// perhaps only its header.
    pub fn head(&self) -> &[u8] {
        self.head
    }

    pub(crate) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.skb.as_raw()
    }

    /// The first bytes, for who moves them.
    pub(crate) fn take_head(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.head)
    }

    /// The packet, which begins behind UDP's header. Its first bytes may be in it, and cannot be
    /// looked at any more.
    pub fn into_skb(self) -> Skb {
        self.skb.take();
        self.skb
    }

    /// Whether a socket may have it, by the device that the socket is bound to, or was when the
    /// packet's message began (`bound`, 0: none), its cgroup's programs, the security module,
    /// and its filter. `locked`: the caller has a lock under which no program of an application
    /// should run; the answer may then be [`Verdict::AskUnlocked`]. With any other answer
    /// [`Arrival::head`] is empty afterwards.
    pub fn admitted(&mut self, sock: &Sock, bound: u32, locked: bool) -> Verdict {
        // A program may move what there is to be read.
        let head = core::mem::take(&mut self.head);
        let verdict = admitted(&self.skb, &self.origin, sock, bound, locked);
        if verdict == Verdict::AskUnlocked {
            // None has run.
            self.head = head;
        }
        verdict
    }
}

/// Whether a socket may have a packet that is as it came in, or would have to be asked without a
/// lock.
fn admitted(skb: &Skb, origin: &Origin, sock: &Sock, bound: u32, locked: bool) -> Verdict {
    let (device, slave) = (origin.device, origin.slave);
    // SAFETY: both live.
    let verdict = unsafe {
        bindings::knt_sock_admits(sock.as_raw(), skb.as_raw(), bound, device, slave, locked)
    };
    match verdict {
        bindings::knt_verdict_KNT_PASSES => Verdict::Passes,
        bindings::knt_verdict_KNT_ASK_UNLOCKED => Verdict::AskUnlocked,
        _ => Verdict::Refused,
    }
}

/// Packets that came together, by the same way from the same port.
///
/// # Invariants
///
/// `list` is a list of packets, linked by `next`, which are this value's; `arrival` says the truth
/// of each but for `head`, `head_len` and `len`.
pub struct Train<'a> {
    arrival: bindings::knt_arrival,
    list: *mut bindings::sk_buff,
    _arrival: PhantomData<&'a ()>,
}

impl Train<'_> {
    /// # Safety
    ///
    /// As the type's invariant says, and the packets become the new value's.
    pub(crate) unsafe fn from_raw(
        arrival: &bindings::knt_arrival,
        list: *mut bindings::sk_buff,
    ) -> Self {
        Self {
            arrival: *arrival,
            list,
            _arrival: PhantomData,
        }
    }
}

impl<'a> Iterator for Train<'a> {
    type Item = Arrival<'a>;

    fn next(&mut self) -> Option<Arrival<'a>> {
        // SAFETY: by the type's invariant. C takes the first one off the list.
        let skb = unsafe { bindings::knt_train_next(&mut self.list, &mut self.arrival) };
        // SAFETY: it is nobody else's any more.
        let skb = unsafe { Skb::from_raw(NonNull::new(skb)?) };
        // SAFETY: C has noted where its first bytes are, all of them in the packet.
        Some(unsafe { Arrival::from_raw(&self.arrival, skb) })
    }
}

impl Drop for Train<'_> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

/// A super-packet that came: packets of one length but for the last, by the same way.
pub struct Whole<'a> {
    /// Where from.
    pub origin: Origin,
    raw: bindings::knt_whole,
    came: Option<Came<'a>>,
}

/// A packet, or several, as UDP had it, and for as long as UDP would have it.
pub struct Came<'a> {
    pub(crate) skb: Skb,
    _call: PhantomData<&'a ()>,
}

impl<'a> Whole<'a> {
    /// `arrival` says where `skb` came from, which begins with UDP's header, and whose packets have
    /// `size` bytes each behind that, but for the last. For the time of the call that it came by.
    pub(crate) fn new(arrival: &bindings::knt_arrival, skb: Skb, size: u32) -> Self {
        Self {
            origin: Origin::from_raw(arrival),
            // SAFETY: it lives.
            raw: unsafe { bindings::knt_whole_begin(skb.as_raw(), size) },
            came: Some(Came {
                skb,
                _call: PhantomData,
            }),
        }
    }

    /// The next packet's first bytes, and how long it is behind UDP's header. `None`: that was all,
    /// or it has fewer bytes, or the super-packet is [taken](Self::take).
    pub fn next<const N: usize>(&mut self, head: &mut [u8; N]) -> Option<u32> {
        self.came.as_ref()?;
        // SAFETY: the packet that `raw` is of is here. There is room for `N` bytes.
        let len = unsafe { bindings::knt_whole_next(&mut self.raw, head.as_mut_ptr(), N as u32) };
        (len != 0).then_some(len)
    }

    /// Whether a socket may have all of it: see [`Arrival::admitted`], with a lock.
    pub fn admitted(&self, sock: &Sock, bound: u32) -> Verdict {
        match &self.came {
            Some(came) => admitted(&came.skb, &self.origin, sock, bound, true),
            None => Verdict::Refused,
        }
    }

    /// The super-packet.
    pub fn take(&mut self) -> Option<Came<'a>> {
        self.came.take()
    }

    /// Nobody wants it as it is. Another one is dropped.
    pub fn put_back(&mut self, came: Came<'_>) {
        let skb = came.skb;
        // It came in this call: none lives longer than the call that it came in.
        let same = skb.as_raw() == self.raw.skb;
        self.came = same.then_some(Came {
            skb,
            _call: PhantomData,
        });
    }

    /// What is left of it: C's again.
    pub(crate) fn into_raw(self) -> *mut bindings::sk_buff {
        match self.came {
            Some(came) => came.skb.into_raw(),
            None => core::ptr::null_mut(),
        }
    }
}

/// What a socket says of a packet for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may have it.
    Passes,
    /// It may not.
    Refused,
    /// Programs have to be asked, without a lock.
    AskUnlocked,
}

/// Why a datagram is not one for the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is from no port of the transport's.
    Port,
    /// It is for a broadcast or multicast address, or from nobody's address.
    Address,
    /// Its headers cannot be had.
    Unreadable,
}

/// What ICMP says of a packet that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// Nobody has the UDP port.
    Port,
    /// There is no way to the host.
    Host,
    /// There is no way to its network.
    Network,
    /// It may not be reached.
    Prohibited,
}

/// Packets that carry a payload behind a short header.
#[derive(Clone, Copy)]
pub struct Payload {
    /// Their first four bytes, as a number in network byte order, under the mask.
    pub first: u32,
    /// Which bits of these tell.
    pub mask: u32,
    /// Bytes of their header, from 4 to [`Numbers::header`].
    pub header: u32,
}

/// What programs and peers know a transport by.
#[derive(Clone, Copy)]
pub struct Numbers {
    /// Its name in `/proc/net/protocols`: over IPv4, and over IPv6.
    pub names: [&'static CStr; 2],
    /// The longest header that it puts behind UDP's, at most 256 bytes.
    pub header: u32,
    /// The packets of which no more than their header may be looked at.
    pub payload: Payload,
    /// The UDP port that packets go to.
    pub udp_port: u16,
    /// They come from that port, or from one not below this.
    pub source_port: u16,
    /// Its number for `socket(2)`.
    pub protocol: u16,
    /// The level of its socket options and ancillary data.
    pub level: u32,
    /// Ancillary data of `sendmsg` and, the last, of `recvmsg`.
    pub ancillary: Ancillary,
    /// Its reports on the error queue (`struct sock_extended_err`).
    pub report: ReportNumbers,
}

/// Types of ancillary data.
#[derive(Clone, Copy)]
pub struct Ancillary {
    /// `u64`: the message's length.
    pub length: u32,
    /// `u64`, ns from now.
    pub deadline: u32,
    /// `u32`.
    pub coflow: u32,
    /// `u32`.
    pub priority: u32,
    /// `u32`: 0 or 1.
    pub unknown_size: u32,
    /// Four `u64`.
    pub info: u32,
}

/// What tells a transport's reports from others, and from each other.
#[derive(Clone, Copy)]
pub struct ReportNumbers {
    /// `ee_origin`.
    pub origin: u8,
    /// `ee_type` of a message that was delivered.
    pub delivered: u8,
    /// `ee_type` of a message that failed.
    pub failed: u8,
    /// `ee_type` of a report that others were lost.
    pub lost: u8,
}

/// What `poll` says beside errors.
#[derive(Clone, Copy, Default)]
pub struct Ready {
    /// There is something to read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// There is an error, and what is read next is more of a message of which some was read: that
    /// of another one is not told before its end.
    pub within: bool,
}

/// What `SIOCINQ` and `SIOCOUTQ` ask.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SockQueue {
    /// Bytes that can be read.
    In,
    /// Bytes that no receiver has acknowledged.
    Out,
}

/// What is in a socket's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Bytes that can be read.
    pub readable: u64,
    /// Bytes that no receiver has acknowledged.
    pub unacknowledged: u64,
    /// Messages that are complete and were not read.
    pub whole: u32,
    /// Messages that still come in.
    pub incoming: u32,
    /// Messages that go out.
    pub outgoing: u32,
}

/// Which sockets are listed: those that are bound, and connected, to exactly this.
#[derive(Clone, Copy)]
pub struct SockName {
    /// The address and port, as in a socket's [`View`](crate::View).
    pub local: SockAddress,
    /// Whom they are connected to.
    pub peer: Option<SockAddress>,
    /// Index of the device that they are bound to; 0: none.
    pub device: u32,
}

/// A socket in a list.
pub struct Listed {
    /// The socket.
    pub sock: SockRef,
    /// The number by which the state knows it, also when it is closed.
    pub handle: u64,
    /// Where the list goes on behind it: more than where it began.
    pub next: u64,
    /// What is in its queues.
    pub queues: Queues,
    /// It is closed, and has messages under way.
    pub closing: bool,
}

/// A transport. There is one in a module.
pub trait Transport: Sized + 'static {
    /// What others know it by.
    const NUMBERS: Numbers;

    /// What a network namespace keeps, its sockets included.
    type State: Send + 'static;

    /// Makes a namespace's state; `None`: no memory. May sleep.
    fn open(net: &mut Opening<'_>) -> Option<KBox<Self::State>>;

    /// When [`Transport::timer`] is to be called, on [`now`](crate::now)'s clock.
    fn next_timer(state: &Self::State) -> Option<u64>;

    /// The time of [`Transport::next_timer`] has come.
    fn timer(state: &mut Locked<'_, Self>);

    /// A packet came in.
    fn packet(net: &mut Net<'_, Self>, arrival: Arrival<'_>);

    /// A super-packet came, from a UDP port and an address as a packet. It may be taken; if it is
    /// not, its packets come by [`Transport::train`] next.
    fn whole(net: &mut Net<'_, Self>, whole: &mut Whole<'_>);

    /// Packets came in together. A lock is taken once for all of them, if need be.
    fn train(net: &mut Net<'_, Self>, train: Train<'_>);

    /// A datagram came to the transport's port and was dropped.
    fn refused(state: &mut Locked<'_, Self>, why: Refused);

    /// Whether a packet to a path, from this UDP port, is of a message: its first bytes behind
    /// UDP's header, at most [`Numbers::header`], as ICMP quotes them. Of others nothing is
    /// believed.
    fn quoted(state: &mut Locked<'_, Self>, to: Path, port: u16, head: &[u8]) -> bool;

    /// A packet to `to` was not delivered, somebody says. `head`: its first bytes as they are
    /// quoted, perhaps none, and perhaps forged.
    fn unreachable(state: &mut Locked<'_, Self>, to: Path, head: &[u8], what: Unreachable);

    /// Packets have left of a message for which [`Outbox::has_room`](crate::Outbox::has_room) found
    /// none, and so many that count are still there. The message may have ended.
    fn left(state: &mut Locked<'_, Self>, name: u64, still: u32);

    /// A packet to `to` was longer than its route's MTU, bytes.
    fn path_mtu(state: &mut Locked<'_, Self>, to: Path, mtu: u32);

    /// A socket is made.
    ///
    /// # Errors
    /// Those of `socket(2)`.
    fn sock_open(net: &mut Net<'_, Self>, sock: &Sock) -> Result;

    /// A socket is closed. `abort`: what it has to send is dropped; otherwise it is waited for as
    /// long as `linger` says, and sent afterwards. Called again, with neither, when the socket is
    /// freed.
    fn sock_close(net: &mut Net<'_, Self>, sock: Caller<'_>, abort: bool, linger: Timeout);

    /// Gives a socket a port; 0: any. The socket's [`view`](Sock::view) has its address already.
    ///
    /// # Errors
    /// `EADDRINUSE`.
    fn sock_bind(net: &mut Net<'_, Self>, sock: LockedSock<'_>, port: u16) -> Result<u16>;

    /// Takes a socket's port away.
    fn sock_unbind(net: &mut Net<'_, Self>, sock: LockedSock<'_>);

    /// A bound socket's addresses or device are others now: it was connected, or is no longer, or
    /// was bound to a device.
    fn sock_moved(net: &mut Net<'_, Self>, sock: LockedSock<'_>);

    /// A socket is shut down; its [`view`](Sock::view) says how.
    fn sock_shutdown(net: &mut Net<'_, Self>, sock: LockedSock<'_>);

    /// `sendmsg` of `len` bytes; returns how many were taken.
    ///
    /// # Errors
    /// Those of `sendmsg(2)`.
    fn send(
        net: &mut Net<'_, Self>,
        sock: Caller<'_>,
        message: &mut Sending<'_>,
        len: usize,
    ) -> Result<u32>;

    /// `recvmsg` of up to `len` bytes; returns how many there were.
    ///
    /// # Errors
    /// Those of `recvmsg(2)`.
    fn receive(
        net: &mut Net<'_, Self>,
        sock: Caller<'_>,
        message: &mut Receiving<'_>,
        len: usize,
        flags: ReceiveFlags,
    ) -> Result<u32>;

    /// What could be done without waiting.
    fn poll(net: &mut Net<'_, Self>, sock: &Sock) -> Ready;

    /// Sets an option of the transport's level. `value`: its first four bytes as an `int`; `wide`:
    /// its first eight as a `u64`, if it has so many.
    ///
    /// # Errors
    /// `ENOPROTOOPT`, `EINVAL`.
    fn set_option(
        net: &mut Net<'_, Self>,
        sock: LockedSock<'_>,
        option: u32,
        value: i32,
        wide: Option<u64>,
    ) -> Result;

    /// Reads an option of the transport's level: an `int` from -1 on, or a `u32`.
    ///
    /// # Errors
    /// `ENOPROTOOPT`.
    fn get_option(net: &mut Net<'_, Self>, sock: &Sock, option: u32) -> Result<i64>;

    /// The size of the receive buffer has been set, or is no longer.
    fn sock_resized(net: &mut Net<'_, Self>, sock: LockedSock<'_>);

    /// How many bytes are in a queue.
    fn queued(net: &mut Net<'_, Self>, sock: &Sock, queue: SockQueue) -> u32;

    /// The first socket with this name, or of all, from a position on that is 0 at first. The order
    /// does not change: sockets that are there all the time are listed once.
    fn sock_next(
        state: &mut Locked<'_, Self>,
        name: Option<&SockName>,
        from: u64,
    ) -> Option<Listed>;

    /// A socket is ended by somebody else: all its messages under way fail. `handle` is that of
    /// [`Listed`]; the socket may be closed.
    fn sock_abort(net: &mut Net<'_, Self>, sock: LockedSock<'_>, handle: u64);
}
