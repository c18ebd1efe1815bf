// SPDX-License-Identifier: GPL-2.0
//! Sockets: what the namespace keeps for each, and their lives.

use crate::budget::{Budget, Place};
use crate::errno;
use crate::incoming::{Incoming, Reading};
use crate::memory::ATOMIC;
use crate::outgoing::Open;
use crate::ports::{self, Ports};
use crate::state::State;
use crate::Turnstile;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};
use knet_transport::{now, random, Busy, Caller, Net, Queue, Ready, Sock, SockRef, Timeout, View};
use turnstile_core::transport::host::{InId, OutId};
use turnstile_core::transport::uapi::sockopt;
use turnstile_core::units::Nanos;

/// A send buffer is never taken to be smaller.
const LEAST_SEND: u32 = 16 << 10;

/// A socket.
pub(crate) struct Socket {
    /// The kernel's side of it.
    pub(crate) sock: SockRef,
    /// It is closed, and here only until what it has to send is delivered.
    pub(crate) closed: bool,
    port: u16,
    /// Whether `recvmsg` tells of the message.
    pub(crate) info: bool,
    /// Whether deliveries are reported.
    pub(crate) completions: bool,
    /// The priority of its messages, unless they say one.
    pub(crate) priority: Option<u8>,

    /// Bytes of the send buffer that are taken.
    pub(crate) queued: u32,
    /// Somebody waits for room.
    pub(crate) full: bool,
    /// The messages that go out, by number.
    pub(crate) sending: RBTree<u32, OutId>,
    /// The message that further calls append to.
    pub(crate) open: Option<Open>,
    /// The last message that failed, and its errno.
    pub(crate) failed: Option<(u32, u32)>,
    /// The next message to send has this number.
    pub(crate) next_outgoing: u32,

    /// How the receive buffer is shared.
    pub(crate) budget: Budget,
    /// The messages that come in, by number.
    pub(crate) coming: RBTree<u64, InId>,
    /// Those of them that share, in the order in which they become exclusive.
    pub(crate) waiting: RBTree<u64, InId>,
    /// Those that are complete, in the order in which they can be read.
    pub(crate) done: RBTree<u64, Incoming>,
    /// The one that is being read.
    pub(crate) reading: Option<Reading>,
    /// The next message to come has this number.
    pub(crate) next_incoming: u64,
    next_order: u64,
    /// In the list of those of which a message may become exclusive; the next one in it.
    promotable: Option<Option<u64>>,
}

impl Socket {
    fn new(sock: SockRef) -> Self {
        Self {
            sock,
            closed: false,
            port: 0,
            info: false,
            completions: false,
            priority: None,
            queued: 0,
            full: false,
            sending: RBTree::new(),
            open: None,
            failed: None,
            next_outgoing: 0,
            budget: Budget::new(),
            coming: RBTree::new(),
            waiting: RBTree::new(),
            done: RBTree::new(),
            reading: None,
            next_incoming: 0,
            next_order: 0,
            promotable: None,
        }
    }

    /// The send buffer's size and how much of it is free. Half of what the kernel counts is for
    /// bytes of messages.
    pub(crate) fn room(&self) -> (u32, u32) {
        let size = (self.sock.view().send_buffer / 2).max(LEAST_SEND);
        (size, size.saturating_sub(self.queued))
    }

    /// Bytes of the send buffer are free again.
    pub(crate) fn freed(&mut self, bytes: u32) {
        self.queued = self.queued.saturating_sub(bytes);
        if self.full {
            let (size, free) = self.room();
            if free >= size / 4 {
                self.full = false;
                self.sock.writable();
            }
        }
    }

    fn take_order(&mut self) -> u64 {
        let order = self.next_order;
        self.next_order = order.wrapping_add(1);
        order
    }

    /// More of a message can be read, perhaps.
    pub(crate) fn notice(&mut self, message: &mut Incoming) {
        if message.place == Place::Exclusive && message.has_more() {
            if message.order.is_none() {
                message.order = Some(self.take_order());
            }
            self.sock.readable();
        }
    }

    /// A message is not under way any more.
    pub(crate) fn forget(&mut self, message: &Incoming) {
        self.coming.remove(&message.number);
        if message.place == Place::Shared {
            self.waiting.remove(&message.number);
        }
    }

    /// A message is complete.
    pub(crate) fn complete(&mut self, mut message: Incoming) {
        self.forget(&message);
        if message.place == Place::Shared {
            let length = message.reserved();
            self.budget.settle(message.window, length);
            message.place = Place::Reserved;
        }
        let being_read = matches!(&self.reading,
            Some(Reading::Coming(_, number)) if *number == message.number);
        if being_read {
            self.reading = Some(Reading::Whole(message));
        } else if let Some(slot) = message.slot.take() {
            let order = match message.order {
                Some(order) => order,
                None => self.take_order(),
            };
            drop(self.done.insert(slot.into_node(order, message)));
        }
        self.sock.readable();
    }

    /// The first of the messages that share, which does so no longer.
    pub(crate) fn take_waiting(&mut self) -> Option<(u64, InId)> {
        let (_, node) = self.waiting.cursor_front_mut()?.remove_current();
        Some(node.to_key_value())
    }

    /// That message becomes exclusive; it may be this far ahead of what was read.
    pub(crate) fn promoted(&mut self, number: u64, message: &mut Incoming) -> u32 {
        let ahead = self.budget.promote(number, message.window);
        message.place = Place::Exclusive;
        self.notice(message);
        ahead
    }
}

/// The sockets of a namespace, by handle. Handles are not used again.
pub(crate) struct Sockets {
    all: RBTree<u64, Socket>,
    /// Their ports.
    pub(crate) ports: Ports,
    next: u64,
    promotable: Option<u64>,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        Self {
            all: RBTree::new(),
            ports: Ports::new(),
            next: 1,
            promotable: None,
        }
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&Socket> {
        self.all.get(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut Socket> {
        self.all.get_mut(&handle)
    }

    pub(crate) fn remove(&mut self, handle: u64) {
        drop(self.all.remove(&handle));
    }

    /// A message of this socket may perhaps become exclusive.
    pub(crate) fn mark_promotable(&mut self, handle: u64) {
        let next = self.promotable;
        if let Some(socket) = self.get_mut(handle) {
            if socket.promotable.is_none() {
                socket.promotable = Some(next);
                self.promotable = Some(handle);
            }
        }
    }

    /// One of the sockets that were marked.
    pub(crate) fn take_promotable(&mut self) -> Option<u64> {
        let handle = self.promotable?;
        // A socket that is gone ends the list: those behind it are looked at when something of
        // theirs is read.
        self.promotable = self
            .get_mut(handle)
            .and_then(|socket| socket.promotable.take())
            .flatten();
        Some(handle)
    }

    /// Whether no other socket that has this port stands in the way.
    fn is_free(&self, port: u16, view: &View) -> bool {
        let mut next = 0;
        while let Some(handle) = self.ports.next(port, next) {
            next = handle.saturating_add(1);
            let collides = self
                .get(handle)
                .is_some_and(|other| ports::collide(view, &other.sock.view()));
            if collides {
                return false;
            }
        }
        true
    }
}

/// A socket is made.
pub(crate) fn open(net: &mut Net<'_, Turnstile>, sock: &Sock) -> Result {
    let mut state = net.lock().ok_or(ENODEV)?;
    let config = state.endpoint.config();
    let (send, receive) = (config.send_buffer, config.receive_buffer);
    let handle = state.sockets.next;
    let place = RBTreeNodeReservation::new(ATOMIC)?;
    drop(
        state
            .sockets
            .all
            .insert(place.into_node(handle, Socket::new(sock.hold()))),
    );
    state.sockets.next = handle.wrapping_add(1);
    sock.set_handle(handle);
    // Twice, as if the application had set them.
    sock.set_buffers(send.saturating_mul(2), receive.saturating_mul(2));
    Ok(())
}

/// A socket is closed.
pub(crate) fn close(
    net: &mut Net<'_, Turnstile>,
    sock: Caller<'_>,
    abort: bool,
    mut linger: Timeout,
) {
    let handle = sock.handle();
    if handle == 0 {
        return;
    }
    if let Some(mut state) = net.lock() {
        let (state, outbox) = state.parts();
        let mut port = 0;
        if let Some(socket) = state.sockets.get_mut(handle) {
            socket.closed = true;
            port = socket.port;
        }
        state.sockets.ports.remove(port, handle);
        state.refuse_all(handle, outbox);
        state.abort(handle, abort, outbox);
    }
    let is_empty = |net: &mut Net<'_, Turnstile>| match net.lock() {
        Some(state) => state
            .sockets
            .get(handle)
            .is_none_or(|socket| socket.sending.is_empty()),
        None => true,
    };
    // When the time is over, the rest is sent after the socket was closed.
    let _ = sock.wait(net, &mut linger, is_empty);
    sock.set_handle(0);
    if let Some(mut state) = net.lock() {
        let mut gone = None;
        if let Some(socket) = state.sockets.get_mut(handle) {
            if socket.sending.is_empty() {
                gone = state.sockets.all.remove_node(&handle);
            }
        }
        // What was not read is freed without the lock.
        drop(state);
        drop(gone);
    }
}

/// Gives a socket a port.
pub(crate) fn bind(net: &mut Net<'_, Turnstile>, sock: Busy<'_>, port: u16) -> Result<u16> {
    let handle = sock.handle();
    let view = sock.view();
    let mut state = net.lock().ok_or(ENODEV)?;
    let sockets = &mut state.sockets;
    let port = if port != 0 {
        Some(port).filter(|port| sockets.is_free(*port, &view))
    } else {
        ports::chosen(random()).find(|port| sockets.is_free(*port, &view))
    };
    let port = port.ok_or_else(errno::in_use)?;
    sockets.ports.add(port, handle)?;
    match sockets.get_mut(handle) {
        Some(socket) => socket.port = port,
        None => sockets.ports.remove(port, handle),
    }
    Ok(port)
}

/// Takes a socket's port away.
pub(crate) fn unbind(net: &mut Net<'_, Turnstile>, sock: Busy<'_>) {
    let handle = sock.handle();
    if let Some(mut state) = net.lock() {
        if let Some(socket) = state.sockets.get_mut(handle) {
            let port = core::mem::take(&mut socket.port);
            state.sockets.ports.remove(port, handle);
        }
    }
}

/// A socket is shut down: if for reading, what comes is refused.
pub(crate) fn shutdown(net: &mut Net<'_, Turnstile>, sock: Busy<'_>) {
    if !sock.view().no_receive {
        return;
    }
    if let Some(mut state) = net.lock() {
        let (state, outbox) = state.parts();
        state.refuse_all(sock.handle(), outbox);
    }
}

/// What could be done without waiting.
pub(crate) fn poll(net: &mut Net<'_, Turnstile>, sock: &Sock) -> Ready {
    let Some(mut state) = net.lock() else {
        return Ready::default();
    };
    let state = &mut *state;
    let readable = state.readable(sock.handle()) != 0;
    let Some(socket) = state.sockets.get_mut(sock.handle()) else {
        return Ready::default();
    };
    let (size, free) = socket.room();
    let writable = free >= size / 4;
    socket.full |= !writable;
    Ready { readable, writable }
}

/// Sets an option.
pub(crate) fn set_option(
    net: &mut Net<'_, Turnstile>,
    sock: Busy<'_>,
    option: u32,
    value: i32,
) -> Result {
    let mut state = net.lock().ok_or(ENODEV)?;
    let socket = state.sockets.get_mut(sock.handle()).ok_or(ENODEV)?;
    let switch = match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EINVAL),
    };
    match option {
        sockopt::RECVINFO => socket.info = switch?,
        sockopt::COMPLETIONS => socket.completions = switch?,
        sockopt::DEFAULT_PRIORITY => {
            socket.priority = match value {
                -1 => None,
                0..=7 => Some(value as u8),
                _ => return Err(EINVAL),
            }
        }
        _ => return Err(errno::no_option()),
    }
    Ok(())
}

/// Reads an option.
pub(crate) fn get_option(net: &mut Net<'_, Turnstile>, sock: &Sock, option: u32) -> Result<i32> {
    let state = net.lock().ok_or(ENODEV)?;
    let socket = state.sockets.get(sock.handle()).ok_or(ENODEV)?;
    match option {
        sockopt::RECVINFO => Ok(i32::from(socket.info)),
        sockopt::COMPLETIONS => Ok(i32::from(socket.completions)),
        sockopt::DEFAULT_PRIORITY => Ok(socket.priority.map_or(-1, i32::from)),
        _ => Err(errno::no_option()),
    }
}

/// How many bytes are in a queue.
pub(crate) fn queued(net: &mut Net<'_, Turnstile>, sock: &Sock, queue: Queue) -> u32 {
    let Some(mut state) = net.lock() else {
        return 0;
    };
    match queue {
        Queue::In => state.readable(sock.handle()),
        Queue::Out => state.unacknowledged(sock.handle()),
    }
}

impl State {
    /// Refuses what comes for a socket.
    fn refuse_all(&mut self, handle: u64, outbox: &mut knet_transport::Outbox) {
        let now = now();
        loop {
            let Some(socket) = self.sockets.get_mut(handle) else {
                return;
            };
            let Some(first) = socket.coming.cursor_front() else {
                return;
            };
            let (number, id) = (*first.current().0, *first.current().1);
            let (endpoint, mut surroundings) = self.split(outbox, now);
            let message = endpoint.refuse(Nanos(now), id, &mut surroundings);
            let Some(socket) = self.sockets.get_mut(handle) else {
                return;
            };
            socket.coming.remove(&number);
            socket.waiting.remove(&number);
            if let Some(message) = message {
                let window = message.window;
                socket
                    .budget
                    .leave(message.place, window, message.reserved());
            }
            let being_read =
                matches!(&socket.reading, Some(Reading::Coming(_, at)) if *at == number);
            if being_read {
                socket.reading = None;
            }
        }
    }

    /// Ends the message that is open on a socket, or all that it has to send.
    fn abort(&mut self, handle: u64, all: bool, outbox: &mut knet_transport::Outbox) {
        let now = now();
        loop {
            let Some(socket) = self.sockets.get_mut(handle) else {
                return;
            };
            let (number, id) = if let Some(open) = socket.open.take() {
                (open.number, open.id)
            } else if let Some(first) = socket.sending.cursor_front().filter(|_| all) {
                (*first.current().0, *first.current().1)
            } else {
                return;
            };
            self.abort_one(handle, number, id, now, outbox);
        }
    }

    /// Ends a message that goes out.
    pub(crate) fn abort_one(
        &mut self,
        handle: u64,
        number: u32,
        id: OutId,
        now: u64,
        outbox: &mut knet_transport::Outbox,
    ) {
        let (endpoint, mut surroundings) = self.split(outbox, now);
        let message = endpoint.abort(Nanos(now), id, &mut surroundings);
        if let Some(socket) = self.sockets.get_mut(handle) {
            socket.sending.remove(&number);
            if let Some(message) = message {
                socket.freed(message.charged);
            }
        }
    }

    /// Bytes that no receiver has acknowledged.
    fn unacknowledged(&mut self, handle: u64) -> u32 {
        let Self {
            endpoint, sockets, ..
        } = self;
        let Some(socket) = sockets.get(handle) else {
            return 0;
        };
        let overhead = crate::outgoing::OVERHEAD;
        let mut bytes = socket.queued;
        for id in socket.sending.values() {
            if endpoint.out_mut(*id).is_some() {
                bytes = bytes.saturating_sub(overhead);
            }
        }
        bytes
    }
}
