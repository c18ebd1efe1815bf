// SPDX-License-Identifier: GPL-2.0
//! From the C side's operations table to the [`Transport`] trait.

use crate::{
    bindings,
    net::Net,
    sock::Sock,
    transport::{Arrival, Path, Transport},
};
use core::{marker::PhantomData, ptr};
use kernel::{
    alloc::KBox,
    error::{to_result, Result},
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
        sock_bind: None,
        sock_unbind: None,
        sock_moved: None,
        sock_shutdown: None,
        send: None,
        receive: None,
        poll: None,
        set_option: None,
        get_option: None,
        queued: None,
    };
}

unsafe extern "C" fn net_open<T: Transport>(tn: *mut bindings::knt_net) -> *mut c_void {
    // SAFETY: the namespace lives while it is being opened.
    match T::open(unsafe { Net::from_raw(tn) }) {
        Some(state) => KBox::into_raw(state).cast(),
        None => ptr::null_mut(),
    }
}

unsafe extern "C" fn net_close<T: Transport>(state: *mut c_void) {
    // SAFETY: made by `net_open`, and given back once.
    drop(unsafe { KBox::<T::State>::from_raw(state.cast()) });
}

unsafe extern "C" fn timer<T: Transport>(tn: *mut bindings::knt_net) {
    // SAFETY: the timer is cancelled before the namespace ends.
    if let Some(mut state) = unsafe { Net::<T>::from_raw(tn) }.lock() {
        T::timer(&mut state);
    }
}

unsafe extern "C" fn packet<T: Transport>(
    tn: *mut bindings::knt_net,
    arrival: *const bindings::knt_arrival,
    skb: *mut bindings::sk_buff,
) {
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
        T::packet(&mut state, &arrival);
    }
    // SAFETY: ours to free.
    unsafe { bindings::knt_skb_free(skb) }
}

unsafe extern "C" fn sock_open<T: Transport>(sk: *mut bindings::sock) -> c_int {
    // SAFETY: the socket lives during the call.
    let sock = unsafe { Sock::from_raw(sk) };
    answer(T::sock_open(sock.net::<T>(), sock).map(|()| 0))
}

unsafe extern "C" fn sock_close<T: Transport>(
    sk: *mut bindings::sock,
    _linger: bool,
    _timeout: c_long,
) {
    // SAFETY: the socket lives during the call.
    let sock = unsafe { Sock::from_raw(sk) };
    T::sock_close(sock.net::<T>(), sock);
}

fn answer(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|e| e.to_errno())
}
