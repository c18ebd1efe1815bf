// SPDX-License-Identifier: GPL-2.0
//! From the C side's operations table to the [`Transport`] trait.

use crate::{
    bindings,
    buffer::Skb,
    genl::Opening,
    message::{ReceiveFlags, Receiving, Sending, SockAddress},
    net::Net,
    sock::{Caller, LockedSock, Sock, Timeout},
    transport::{
        Arrival, Path, Refused, SockName, SockQueue, Train, Transport, Unreachable, Whole,
    },
};
use core::{
    marker::{PhantomData, PhantomPinned},
    ptr::{self, NonNull},
};
use kernel::{
    error::to_result,
    ffi::{c_int, c_long, c_void},
    prelude::*,
};
use pin_init::pin_init_from_closure;

/// The transport is registered while this lives, which is as long as the module.
///
/// The kernel's tables then refer to the module and to `T`, and sockets and namespaces to the
/// tables. So it can only be a part of the module's own value, in place: that cannot be forgotten
/// or moved, and is dropped when nothing uses the module any more, or when its `init` fails, before
/// which nothing of `T` is called. Should it be dropped at another time by whatever means, the
/// transport stays, and the module with it.
///
/// ```
/// #[pin_data]
/// struct Module {
///     #[pin]
///     transport: Registration<MyTransport>,
/// }
///
/// impl kernel::InPlaceModule for Module {
///     fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
///         try_pin_init!(Self {
///             transport <- Registration::new(),
///         })
///     }
/// }
/// ```
#[pin_data(PinnedDrop)]
pub struct Registration<T: Transport> {
    #[pin]
    _pinned: PhantomPinned,
    _transport: PhantomData<fn() -> T>,
    // It must have a place, so that C can tell whether that is the module's.
    _place: u8,
}

impl<T: Transport> Registration<T> {
    /// Makes the protocol known.
    ///
    /// # Errors
    /// `EINVAL` if its place is not in the module's own data; `EBUSY` if there is one already;
    /// those of the kernel's registration functions.
    pub fn new() -> impl PinInit<Self, Error> {
        let init = |slot: *mut Self| -> Result {
            // SAFETY: the table is static, and all of its functions are for the same transport.
            to_result(unsafe { bindings::knt_register(&Table::<T>::OPS, slot.cast()) })?;
            let value = Self {
                _pinned: PhantomPinned,
                _transport: PhantomData,
                _place: 0,
            };
            // SAFETY: `slot` is valid for a write, as `PinInit` promises.
            unsafe { slot.write(value) };
            Ok(())
        };
        // SAFETY: the value is initialised if the closure says `Ok`, and does not need to be
        // cleaned up otherwise.
        unsafe { pin_init_from_closure(init) }
    }
}

#[pinned_drop]
impl<T: Transport> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: registered by `new`. C does it only if nothing uses the module.
        unsafe { bindings::knt_unregister() }
    }
}

struct Table<T>(PhantomData<T>);

impl<T: Transport> Table<T> {
    const NUMBERS: bindings::knt_numbers = {
        let numbers = T::NUMBERS;
        let ancillary = numbers.ancillary;
        let mut types = [0; bindings::KNT_CMSGS as usize];
        types[bindings::KNT_CMSG_LENGTH as usize] = ancillary.length;
        types[bindings::KNT_CMSG_DEADLINE as usize] = ancillary.deadline;
        types[bindings::KNT_CMSG_COFLOW as usize] = ancillary.coflow;
        types[bindings::KNT_CMSG_PRIORITY as usize] = ancillary.priority;
        types[bindings::KNT_CMSG_UNKNOWN_SIZE as usize] = ancillary.unknown_size;
        types[bindings::KNT_CMSG_INFO as usize] = ancillary.info;
        let payload = numbers.payload;
        assert!(numbers.header <= bindings::KNT_MAX_HEADER);
        // So many bytes are compared.
        assert!(payload.header >= 4 && payload.header <= numbers.header);
        bindings::knt_numbers {
            name: numbers.names[0].to_bytes_with_nul().as_ptr().cast(),
            name6: numbers.names[1].to_bytes_with_nul().as_ptr().cast(),
            header: numbers.header,
            payload_header: payload.header,
            payload_first: payload.first,
            payload_mask: payload.mask,
            udp_port: numbers.udp_port,
            source_port: numbers.source_port,
            protocol: numbers.protocol,
            level: numbers.level,
            ancillary: types,
            ee_origin: numbers.report.origin,
            ee_delivered: numbers.report.delivered,
            ee_failed: numbers.report.failed,
            ee_lost: numbers.report.lost,
        }
    };

    const OPS: bindings::knt_ops = bindings::knt_ops {
        numbers: Self::NUMBERS,
        net_open: Some(net_open::<T>),
        net_close: Some(net_close::<T>),
        timer: Some(timer::<T>),
        packet: Some(packet::<T>),
        train: Some(train::<T>),
        whole: Some(whole::<T>),
        refused: Some(refused::<T>),
        undelivered: Some(undelivered::<T>),
        quoted: Some(quoted::<T>),
        left: Some(left::<T>),
        path_mtu: Some(path_mtu::<T>),
        sock_open: Some(sock_open::<T>),
        sock_close: Some(sock_close::<T>),
        sock_bind: Some(sock_bind::<T>),
        sock_unbind: Some(sock_unbind::<T>),
        sock_moved: Some(sock_moved::<T>),
        sock_shutdown: Some(sock_shutdown::<T>),
        send: Some(send::<T>),
        receive: Some(receive::<T>),
        poll: Some(poll::<T>),
        set_option: Some(set_option::<T>),
        sock_resized: Some(sock_resized::<T>),
        get_option: Some(get_option::<T>),
        queued: Some(queued::<T>),
        sock_list: Some(sock_list::<T>),
        sock_abort: Some(sock_abort::<T>),
    };
}

/// # Safety
///
/// - C guarantees: `tn` is a namespace that has no state yet. Process context, with its
///   `open_lock`; nothing else of it is called meanwhile.
/// - Rust gives the state, made with `KBox::into_raw`, or null; C gives it back by
///   `net_close` once.
unsafe extern "C" fn net_open<T: Transport>(tn: *mut bindings::knt_net) -> *mut c_void {
    // SAFETY: the namespace lives while it is being opened.
    match T::open(&mut unsafe { Opening::from_raw(tn) }) {
        Some(state) => KBox::into_raw(state).cast(),
        None => ptr::null_mut(),
    }
}

/// # Safety
///
/// - C guarantees: `state` is what `net_open` gave. Nothing of the namespace runs any more, or it
///   was never opened: this is the last call.
/// - Rust frees it, and keeps no reference to it.
unsafe extern "C" fn net_close<T: Transport>(state: *mut c_void) {
    // SAFETY: made by `net_open`, and given back once.
    drop(unsafe { KBox::<T::State>::from_raw(state.cast()) });
}

/// # Safety
///
/// - C guarantees: `tn` is an open namespace, and stays so during the call. A softirq, or bottom
///   halves off; without the namespace's lock.
/// - Rust takes the lock itself, does not sleep, and has released it on return.
unsafe extern "C" fn timer<T: Transport>(tn: *mut bindings::knt_net) {
    // SAFETY: the timer is cancelled before the namespace ends.
    let mut net = unsafe { Net::<T>::from_raw(tn) };
    if let Some(mut state) = net.lock() {
        T::timer(&mut state);
    };
}

/// # Safety
///
/// - C guarantees: `tn` is an open namespace, and stays so during the call. `arrival` and the bytes
///   that it points to are valid until the return, the bytes at most as long as `skb`. `skb` is
///   owned by nobody else, and as UDP had it: it begins with UDP's header, which is not in pages.
///   Bottom halves are off; without the namespace's lock.
/// - Rust takes `skb` in any case, keeps nothing of `arrival`, and does not sleep.
unsafe extern "C" fn packet<T: Transport>(
    tn: *mut bindings::knt_net,
    arrival: *const bindings::knt_arrival,
    skb: *mut bindings::sk_buff,
) {
    let Some(skb) = NonNull::new(skb) else {
        return;
    };
    // SAFETY: the caller gives the packet away.
    let skb = unsafe { Skb::from_raw(skb) };
    // SAFETY: the caller's, for the time of the call: the bytes are in the packet or on the
    // caller's stack.
    let arrival = unsafe { Arrival::from_raw(&*arrival, skb) };
    // SAFETY: no packets come in any more when the namespace ends.
    let mut net = unsafe { Net::<T>::from_raw(tn) };
    T::packet(&mut net, arrival);
}

/// # Safety
///
/// - C guarantees: as for `packet`, but that `train` is a list of packets, linked by `next`, of
///   each of which `arrival` says the truth but for what its first bytes and its length are. All of
///   a packet's first bytes are in itself.
/// - Rust takes all of them in any case, keeps nothing of `arrival`, and does not sleep.
unsafe extern "C" fn train<T: Transport>(
    tn: *mut bindings::knt_net,
    arrival: *const bindings::knt_arrival,
    train: *mut bindings::sk_buff,
) {
    // SAFETY: the caller gives the packets away, and says the truth of them.
    let train = unsafe { Train::from_raw(&*arrival, train) };
    // SAFETY: no packets come in any more when the namespace ends.
    let mut net = unsafe { Net::<T>::from_raw(tn) };
    T::train(&mut net, train);
}

/// # Safety
///
/// - C guarantees: as for `packet`, but that `arrival` says nothing of the packet's first bytes and
///   its length, and that `skb` is a super-packet.
/// - Rust takes `skb`, and what it returns is C's: that, or nothing, or another one that came so.
///   It keeps nothing of `arrival`, and does not sleep.
unsafe extern "C" fn whole<T: Transport>(
    tn: *mut bindings::knt_net,
    arrival: *const bindings::knt_arrival,
    skb: *mut bindings::sk_buff,
    size: u32,
) -> *mut bindings::sk_buff {
    let Some(skb) = NonNull::new(skb) else {
        return core::ptr::null_mut();
    };
    // SAFETY: the caller gives the packet away.
    let skb = unsafe { Skb::from_raw(skb) };
    // SAFETY: the caller's, for the time of the call.
    let mut whole = Whole::new(unsafe { &*arrival }, skb, size);
    // SAFETY: no packets come in any more when the namespace ends.
    let mut net = unsafe { Net::<T>::from_raw(tn) };
    T::whole(&mut net, &mut whole);
    whole.into_raw()
}

/// # Safety
///
/// - C guarantees: as for `packet`; the datagram is still C's.
/// - Rust only notes it, and does not sleep.
unsafe extern "C" fn refused<T: Transport>(tn: *mut bindings::knt_net, why: u32) {
    let why = match why {
        bindings::knt_refused_KNT_REFUSED_PORT => Refused::Port,
        bindings::knt_refused_KNT_REFUSED_ADDRESS => Refused::Address,
        _ => Refused::Unreadable,
    };
    // SAFETY: no packets come in any more when the namespace ends.
    let mut net = unsafe { Net::<T>::from_raw(tn) };
    if let Some(mut state) = net.lock() {
        T::refused(&mut state, why);
    };
}

/// # Safety
///
/// - C guarantees: `tn` is an open namespace, and stays so during the call; `to` and the `len`
///   bytes at `head` are valid until the return. Bottom halves are off; without the namespace's
///   lock.
/// - Rust keeps nothing of both, and does not sleep.
unsafe extern "C" fn quoted<T: Transport>(
    tn: *mut bindings::knt_net,
    to: *const bindings::knt_path,
    port: u16,
    head: *const u8,
    len: u32,
) -> bool {
    // SAFETY: the caller's, for the time of the call.
    let to = Path::from_raw(unsafe { &*to });
    // SAFETY: the caller says how many bytes there are.
    let head = unsafe { core::slice::from_raw_parts(head, len as usize) };
    // SAFETY: no packets come in any more when the namespace ends.
    let mut net = unsafe { Net::<T>::from_raw(tn) };
    let Some(mut state) = net.lock() else {
        return false;
    };
    T::quoted(&mut state, to, port, head)
}

/// # Safety
///
/// - C guarantees: `tn` is an open namespace, and stays so during the call; `to` and the `len`
///   bytes at `head` are valid until the return. Bottom halves are off; without the namespace's
///   lock.
/// - Rust keeps nothing of both, and does not sleep.
unsafe extern "C" fn undelivered<T: Transport>(
    tn: *mut bindings::knt_net,
    to: *const bindings::knt_path,
    head: *const u8,
    len: u32,
    what: u32,
) {
    let what = match what {
        bindings::knt_unreachable_KNT_UNREACHABLE_PORT => Unreachable::Port,
        bindings::knt_unreachable_KNT_UNREACHABLE_NETWORK => Unreachable::Network,
        bindings::knt_unreachable_KNT_UNREACHABLE_PROHIBITED => Unreachable::Prohibited,
        _ => Unreachable::Host,
    };
    // SAFETY: the caller's, for the time of the call.
    let to = Path::from_raw(unsafe { &*to });
    // SAFETY: the caller says how many bytes there are.
    let head = unsafe { core::slice::from_raw_parts(head, len as usize) };
    // SAFETY: no packets come in any more when the namespace ends.
    let mut net = unsafe { Net::<T>::from_raw(tn) };
    if let Some(mut state) = net.lock() {
        T::unreachable(&mut state, to, head, what);
    };
}

/// # Safety
///
/// - C guarantees: `tn` is an open namespace, and stays so during the call. A softirq; without the
///   namespace's lock.
/// - Rust takes the lock itself, does not sleep, and has released it on return.
unsafe extern "C" fn left<T: Transport>(tn: *mut bindings::knt_net, name: u64, still: u32) {
    // SAFETY: the work that calls it is cancelled before the namespace ends.
    let mut net = unsafe { Net::<T>::from_raw(tn) };
    if let Some(mut state) = net.lock() {
        T::left(&mut state, name, still);
    };
}

/// # Safety
///
/// - C guarantees: `tn` is an open namespace, and stays so during the call, as does `to`. Any
///   context in which packets may be sent; without the namespace's lock.
/// - Rust keeps nothing of `to`, and does not sleep.
unsafe extern "C" fn path_mtu<T: Transport>(
    tn: *mut bindings::knt_net,
    to: *const bindings::knt_path,
    mtu: u32,
) {
    // SAFETY: the caller's, for the time of the call.
    let to = Path::from_raw(unsafe { &*to });
    // SAFETY: who sends packets has the namespace, which has no lock of another call then.
    let mut net = unsafe { Net::<T>::from_raw(tn) };
    if let Some(mut state) = net.lock() {
        T::path_mtu(&mut state, to, mtu);
    };
}

/// # Safety
///
/// - C guarantees: `sk` is a socket that is being made, in an open namespace that it holds. Process
///   context, may sleep.
/// - Rust gives 0 or a negative errno. C calls `sock_close` later in either case.
unsafe extern "C" fn sock_open<T: Transport>(sk: *mut bindings::sock) -> c_int {
    // SAFETY: the socket lives during the call.
    let sock = unsafe { Sock::from_raw(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    answer(T::sock_open(&mut net, sock).map(|()| 0))
}

/// # Safety
///
/// The socket must live during the call that the value is for, and be `T`'s: `T` is the transport
/// that is registered. It is the only value of that call.
unsafe fn net_of<'a, T: Transport>(sk: *mut bindings::sock) -> Net<'a, T> {
    // SAFETY: the socket holds its namespace; the rest is promised by the caller.
    unsafe { Net::from_raw(bindings::knt_sock_net(sk)) }
}

/// # Safety
///
/// The caller has the socket's lock.
unsafe fn locked_sock<'a>(sk: *mut bindings::sock) -> LockedSock<'a> {
    // SAFETY: the socket lives during the call, which has its lock.
    unsafe { LockedSock::new(Sock::from_raw(sk)) }
}

/// # Safety
///
/// The caller has the socket's lock, and may lose it in between.
unsafe fn caller<'a>(sk: *mut bindings::sock) -> Caller<'a> {
    // SAFETY: the socket lives during the call, which has its lock.
    unsafe { Caller::new(Sock::from_raw(sk)) }
}

/// # Safety
///
/// - C guarantees: `sk` is a socket whose `sock_open` was called. Process context, with the
///   socket's lock. Called again with `abort` false and `linger` 0 before the socket is freed.
/// - Rust may release the lock while it waits, has it on return, and does no harm when
///   called twice.
unsafe extern "C" fn sock_close<T: Transport>(
    sk: *mut bindings::sock,
    abort: bool,
    linger: c_long,
) {
    // SAFETY: called with the lock.
    let sock = unsafe { caller(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    T::sock_close(&mut net, sock, abort, Timeout(linger));
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket without a port. Process context, with the socket's lock,
///   which is kept.
/// - Rust gives a port of 1 to 65535, or a negative errno; does not release the lock.
unsafe extern "C" fn sock_bind<T: Transport>(sk: *mut bindings::sock, port: u16) -> c_int {
    // SAFETY: called with the lock.
    let sock = unsafe { locked_sock(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    answer(T::sock_bind(&mut net, sock, port).map(c_int::from))
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket that has a port. Process context, with the socket's lock,
///   which is kept.
/// - Rust gives up the port; does not release the lock.
unsafe extern "C" fn sock_unbind<T: Transport>(sk: *mut bindings::sock) {
    // SAFETY: called with the lock.
    let sock = unsafe { locked_sock(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    T::sock_unbind(&mut net, sock);
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket with a port. Process context, with the socket's lock,
///   which is kept.
/// - Rust does not release the lock.
unsafe extern "C" fn sock_moved<T: Transport>(sk: *mut bindings::sock) {
    // SAFETY: called with the lock.
    let sock = unsafe { locked_sock(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    T::sock_moved(&mut net, sock);
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket, and its view says already how it is shut down. Process
///   context, with the socket's lock, which is kept.
/// - Rust does not release the lock.
unsafe extern "C" fn sock_shutdown<T: Transport>(sk: *mut bindings::sock, _how: c_int) {
    // SAFETY: called with the lock.
    let sock = unsafe { locked_sock(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    T::sock_shutdown(&mut net, sock);
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket, `msg` a `sendmsg`'s with `len` bytes. Process context,
///   with the socket's lock.
/// - Rust may release the lock while it waits, has it on return; gives no more than `len`,
///   or a negative errno; keeps nothing of `msg`.
unsafe extern "C" fn send<T: Transport>(
    sk: *mut bindings::sock,
    msg: *mut bindings::msghdr,
    len: usize,
) -> c_int {
    // SAFETY: called with the lock.
    let sock = unsafe { caller(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    // SAFETY: the call's.
    let Some(mut message) = (unsafe { Sending::from_raw(msg, &sock) }) else {
        return EINVAL.to_errno();
    };
    count(T::send(&mut net, sock, &mut message, len), len)
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket, `msg` a `recvmsg`'s with room for `len` bytes. Process
///   context, with the socket's lock.
/// - Rust may release the lock while it waits, has it on return; gives no more than `len`,
///   or a negative errno; keeps nothing of `msg`.
unsafe extern "C" fn receive<T: Transport>(
    sk: *mut bindings::sock,
    msg: *mut bindings::msghdr,
    len: usize,
    flags: c_int,
) -> c_int {
    // SAFETY: called with the lock.
    let sock = unsafe { caller(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    // SAFETY: the call's.
    let Some(mut message) = (unsafe { Receiving::from_raw(msg, &sock) }) else {
        return EINVAL.to_errno();
    };
    let flags = ReceiveFlags::new(flags);
    count(T::receive(&mut net, sock, &mut message, len, flags), len)
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket, and stays so during the call. Process context, without
///   the socket's lock.
/// - Rust does not sleep.
unsafe extern "C" fn poll<T: Transport>(sk: *mut bindings::sock) -> u32 {
    // SAFETY: the socket lives during the call.
    let sock = unsafe { Sock::from_raw(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    let ready = T::poll(&mut net, sock);
    let bit = |is: bool, bit| if is { bit } else { 0 };
    bit(ready.readable, bindings::KNT_READABLE)
        | bit(ready.writable, bindings::KNT_WRITABLE)
        | bit(ready.within, bindings::KNT_WITHIN)
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket. Process context, with the socket's lock, which is kept.
/// - Rust does not release the lock.
unsafe extern "C" fn sock_resized<T: Transport>(sk: *mut bindings::sock) {
    // SAFETY: called with the lock.
    let sock = unsafe { locked_sock(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    T::sock_resized(&mut net, sock);
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket. Process context, with the socket's lock, which is kept.
///   `wide` is null or valid during the call.
/// - Rust gives 0 or a negative errno; does not release the lock.
unsafe extern "C" fn set_option<T: Transport>(
    sk: *mut bindings::sock,
    option: c_int,
    value: c_int,
    wide: *const u64,
) -> c_int {
    // SAFETY: called with the lock.
    let sock = unsafe { locked_sock(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    // SAFETY: valid, if it is not null.
    let wide = unsafe { wide.as_ref() }.copied();
    answer(T::set_option(&mut net, sock, option as u32, value, wide).map(|()| 0))
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket, and stays so during the call. Process context, without
///   the socket's lock.
/// - Rust gives no value below -1 that is not an errno.
unsafe extern "C" fn get_option<T: Transport>(sk: *mut bindings::sock, option: c_int) -> i64 {
    // SAFETY: the socket lives during the call.
    let sock = unsafe { Sock::from_raw(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    match T::get_option(&mut net, sock, option as u32) {
        Ok(value) => value.max(-1),
        Err(error) => error.to_errno().into(),
    }
}

/// # Safety
///
/// - C guarantees: `sk` is an open socket, and stays so during the call; `which` is one of
///   `KNT_QUEUE_*`. Process context, without the socket's lock.
/// - Rust gives no negative number.
unsafe extern "C" fn queued<T: Transport>(sk: *mut bindings::sock, which: c_int) -> c_int {
    // SAFETY: the socket lives during the call.
    let sock = unsafe { Sock::from_raw(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    let queue = if which == bindings::KNT_QUEUE_IN as c_int {
        SockQueue::In
    } else {
        SockQueue::Out
    };
    let bytes = T::queued(&mut net, sock, queue);
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

/// # Safety
///
/// - C guarantees: `tn` is a namespace, and lives during the call. `name` is null or valid, and
///   there is room for `max` entries at `into`. Process context, without the namespace's lock.
/// - Rust writes as many entries as it says, at most `max`, each with a reference that C gives
///   back, and with positions that grow.
unsafe extern "C" fn sock_list<T: Transport>(
    tn: *mut bindings::knt_net,
    name: *const bindings::knt_sock_name,
    from: u64,
    into: *mut bindings::knt_listed,
    max: u32,
) -> u32 {
    // SAFETY: valid, if it is not null.
    let name = unsafe { name.as_ref() }.map(|name| SockName {
        local: SockAddress::from_raw(&name.local),
        peer: (name.peer.port != 0).then(|| SockAddress::from_raw(&name.peer)),
        device: name.device,
    });
    // SAFETY: the namespace lives during the call, which has no other value of it.
    let mut net = unsafe { Net::<T>::from_raw(tn) };
    let Some(mut state) = net.lock() else {
        return 0;
    };
    let mut from = from;
    let mut count = 0;
    while count < max {
        let Some(listed) = T::sock_next(&mut state, name.as_ref(), from) else {
            break;
        };
        // A transport whose list does not go on has no end.
        if listed.next <= from {
            break;
        }
        from = listed.next;
        let entry = bindings::knt_listed {
            sk: listed.sock.into_raw(),
            handle: listed.handle,
            next: listed.next,
            queues: bindings::knt_queues {
                readable: listed.queues.readable,
                unacknowledged: listed.queues.unacknowledged,
                whole: listed.queues.whole,
                incoming: listed.queues.incoming,
                outgoing: listed.queues.outgoing,
            },
            closing: listed.closing,
        };
        // SAFETY: there is room for `max` of them.
        unsafe { into.add(count as usize).write(entry) };
        count += 1;
    }
    count
}

/// # Safety
///
/// - C guarantees: `sk` is a socket whose `sock_open` was called, with a reference, and `handle` is
///   what was listed with it. Process context, with the socket's lock, which is kept.
/// - Rust does not release the lock, and does no harm to a socket that is closed.
unsafe extern "C" fn sock_abort<T: Transport>(sk: *mut bindings::sock, handle: u64) {
    // SAFETY: called with the lock.
    let sock = unsafe { locked_sock(sk) };
    // SAFETY: the socket lives during the call, and is `T`'s as its table is.
    let mut net = unsafe { net_of::<T>(sk) };
    T::sock_abort(&mut net, sock, handle);
}

fn answer(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|e| e.to_errno())
}

/// How many bytes of `len`: who called relies on that it is no more.
fn count(result: Result<u32>, len: usize) -> c_int {
    let most = c_int::try_from(len).unwrap_or(c_int::MAX);
    answer(result.map(|bytes| c_int::try_from(bytes).map_or(most, |bytes| bytes.min(most))))
}
