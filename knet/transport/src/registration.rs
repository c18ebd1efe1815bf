// SPDX-License-Identifier: GPL-2.0
//! From the C side's operations table to the [`Transport`] trait.

use crate::{
    bindings,
    buffer::Skb,
    message::{Message, ReceiveFlags},
    net::Net,
    sock::{Busy, Sock, Timeout},
    transport::{Arrival, Path, Queue, Transport},
};
use core::{
    marker::PhantomData,
    ptr::{self, NonNull},
};
use kernel::{
    alloc::KBox,
    error::{code::EINVAL, to_result, Result},
    ffi::{c_int, c_long, c_void},
};

/// The transport is registered while this lives.
pub struct Registration<T: Transport>(PhantomData<T>);

// SAFETY: it holds nothing.
unsafe impl<T: Transport> Send for Registration<T> {}
// SAFETY: as above.
unsafe impl<T: Transport> Sync for Registration<T> {}

impl<T: Transport> Registration<T> {
    /// Makes the protocol known.
    ///
    /// # Errors
    /// Those of the kernel's registration functions.
    pub fn new() -> Result<Self> {
        // SAFETY: the table is static, and all of its functions are for the same transport.
        to_result(unsafe { bindings::knt_register(&Table::<T>::OPS) })?;
        Ok(Self(PhantomData))
    }
}

impl<T: Transport> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: registered by `new`; no socket is left, because each holds the module.
        unsafe { bindings::knt_unregister() }
    }
}

struct Table<T>(PhantomData<T>);

impl<T: Transport> Table<T> {
    const OPS: bindings::knt_ops = bindings::knt_ops {
        net_open: Some(net_open::<T>),
        net_close: Some(net_close::<T>),
        timer: Some(timer::<T>),
        packet: Some(packet::<T>),
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
        get_option: Some(get_option::<T>),
        queued: Some(queued::<T>),
    };
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn net_open<T: Transport>(tn: *mut bindings::knt_net) -> *mut c_void {
    // SAFETY: the namespace lives while it is being opened.
    match T::open(unsafe { Net::from_raw(tn) }) {
        Some(state) => KBox::into_raw(state).cast(),
        None => ptr::null_mut(),
    }
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn net_close<T: Transport>(state: *mut c_void) {
    // SAFETY: made by `net_open`, and given back once.
    drop(unsafe { KBox::<T::State>::from_raw(state.cast()) });
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn timer<T: Transport>(tn: *mut bindings::knt_net) {
    // SAFETY: the timer is cancelled before the namespace ends.
    if let Some(mut state) = unsafe { Net::<T>::from_raw(tn) }.lock() {
        T::timer(&mut state);
    }
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
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
    // SAFETY: the caller's, for the time of the call.
    let arrival = unsafe { &*arrival };
    let arrival = Arrival {
        from: Path::from_raw(&arrival.from),
        // SAFETY: the caller says how many bytes there are.
        head: unsafe { core::slice::from_raw_parts(arrival.head, arrival.head_len as usize) },
        len: arrival.len,
        device: arrival.device,
        ecn: arrival.ecn,
    };
    // SAFETY: no packets come in any more when the namespace ends.
    if let Some(mut state) = unsafe { Net::<T>::from_raw(tn) }.lock() {
        T::packet(&mut state, &arrival, skb);
    }
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn sock_open<T: Transport>(sk: *mut bindings::sock) -> c_int {
    // SAFETY: the socket lives during the call.
    let sock = unsafe { Sock::from_raw(sk) };
    answer(T::sock_open(sock.net::<T>(), sock).map(|()| 0))
}

/// # Safety
///
/// The caller has the socket's lock.
unsafe fn busy<'a>(sk: *mut bindings::sock) -> Busy<'a> {
    // SAFETY: the socket lives during the call, which has its lock.
    unsafe { Busy::new(Sock::from_raw(sk)) }
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn sock_close<T: Transport>(
    sk: *mut bindings::sock,
    abort: bool,
    linger: c_long,
) {
    // SAFETY: called with the lock.
    let sock = unsafe { busy(sk) };
    T::sock_close(sock.net::<T>(), sock, abort, Timeout(linger));
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn sock_bind<T: Transport>(sk: *mut bindings::sock, port: u16) -> c_int {
    // SAFETY: called with the lock.
    let sock = unsafe { busy(sk) };
    answer(T::sock_bind(sock.net::<T>(), sock, port).map(c_int::from))
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn sock_unbind<T: Transport>(sk: *mut bindings::sock) {
    // SAFETY: called with the lock.
    let sock = unsafe { busy(sk) };
    T::sock_unbind(sock.net::<T>(), sock);
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn sock_moved<T: Transport>(sk: *mut bindings::sock) {
    // SAFETY: called with the lock.
    let sock = unsafe { busy(sk) };
    T::sock_moved(sock.net::<T>(), sock);
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn sock_shutdown<T: Transport>(sk: *mut bindings::sock, _how: c_int) {
    // SAFETY: called with the lock.
    let sock = unsafe { busy(sk) };
    T::sock_shutdown(sock.net::<T>(), sock);
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn send<T: Transport>(
    sk: *mut bindings::sock,
    msg: *mut bindings::msghdr,
    len: usize,
) -> c_int {
    // SAFETY: called with the lock.
    let sock = unsafe { busy(sk) };
    // SAFETY: the call's.
    let Some(mut message) = (unsafe { Message::from_raw(msg, &sock) }) else {
        return EINVAL.to_errno();
    };
    count(T::send(sock.net::<T>(), sock, &mut message, len))
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn receive<T: Transport>(
    sk: *mut bindings::sock,
    msg: *mut bindings::msghdr,
    len: usize,
    flags: c_int,
) -> c_int {
    // SAFETY: called with the lock.
    let sock = unsafe { busy(sk) };
    // SAFETY: the call's.
    let Some(mut message) = (unsafe { Message::from_raw(msg, &sock) }) else {
        return EINVAL.to_errno();
    };
    let flags = ReceiveFlags::new(flags);
    count(T::receive(sock.net::<T>(), sock, &mut message, len, flags))
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn poll<T: Transport>(sk: *mut bindings::sock) -> u32 {
    // SAFETY: the socket lives during the call.
    let sock = unsafe { Sock::from_raw(sk) };
    let ready = T::poll(sock.net::<T>(), sock);
    let bit = |is: bool, bit| if is { bit } else { 0 };
    bit(ready.readable, bindings::KNT_READABLE) | bit(ready.writable, bindings::KNT_WRITABLE)
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn set_option<T: Transport>(
    sk: *mut bindings::sock,
    option: c_int,
    value: c_int,
) -> c_int {
    // SAFETY: called with the lock.
    let sock = unsafe { busy(sk) };
    answer(T::set_option(sock.net::<T>(), sock, option as u32, value).map(|()| 0))
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn get_option<T: Transport>(sk: *mut bindings::sock, option: c_int) -> c_int {
    // SAFETY: the socket lives during the call.
    let sock = unsafe { Sock::from_raw(sk) };
    answer(T::get_option(sock.net::<T>(), sock, option as u32))
}

/// # Safety
///
/// Called by the C side only, as `struct knt_ops` says.
unsafe extern "C" fn queued<T: Transport>(sk: *mut bindings::sock, which: c_int) -> c_int {
    // SAFETY: the socket lives during the call.
    let sock = unsafe { Sock::from_raw(sk) };
    let queue = if which == bindings::KNT_QUEUE_IN as c_int {
        Queue::In
    } else {
        Queue::Out
    };
    let bytes = T::queued(sock.net::<T>(), sock, queue);
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

fn answer(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|e| e.to_errno())
}

fn count(result: Result<u32>) -> c_int {
    answer(result.map(|bytes| c_int::try_from(bytes).unwrap_or(c_int::MAX)))
}
