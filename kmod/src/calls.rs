// SPDX-License-Identifier: GPL-2.0
//! A socket's life, and its calls but for [`send`](crate::send) and [`receive`](crate::receive).

use crate::errno;
use crate::incoming::{Kept, Where};
use crate::keys::{Choice, Held};
use crate::ports::{self, Rooms};
use crate::socket::Socket;
use crate::state::{State, Turnstile};
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use knet_transport::{
    now, random, Caller, LockedSock, Net, Outbox, Ready, Sock, SockQueue, Timeout,
};
use turnstile_core::transport::host::{InId, OutId};
use turnstile_core::transport::uapi::sockopt;
use turnstile_core::units::Nanos;

/// So many ports are tried at once, with the namespace's lock.
const TRIES: usize = 256;

/// So many messages of a closed socket are looked at with the lock held.
const ORPHANS: usize = 32;
/// So many messages are ended with the lock held.
const ABORTED: usize = 32;

/// A socket is made.
pub(crate) fn open(net: &mut Net<'_, Turnstile>, sock: &Sock) -> Result {
    let mut state = net.lock().ok_or(ENODEV)?;
    let config = state.endpoint.config();
    // Twice, as if the application had set them.
    let twice = |size: u32| size.saturating_mul(2);
    let (send, receive) = (twice(config.send_buffer), twice(config.receive_buffer));
    let most = twice(config.receive_buffer_max);
    state.sockets.add(sock, receive, most)?;
    sock.set_buffers(send, receive);
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
    let mut unread = RBTree::new();
    if let Some(mut state) = net.lock() {
        if let Some(socket) = state.sockets.get_mut(handle) {
            socket.closed = true;
            core::mem::swap(&mut unread, &mut socket.done);
            (socket.counted.whole, socket.counted.unread) = (0, 0);
        }
        state.sockets.no_longer_waits(handle);
        state.sockets.ports.remove(handle);
    }
    // Freed without the lock.
    drop(unread);
    refuse_all(net, handle);
    let mut messages = RBTree::new();
    if let Some(mut state) = net.lock() {
        // What was not read is known here still.
        if let Some(socket) = state.sockets.get_mut(handle) {
            core::mem::swap(&mut messages, &mut socket.messages);
        }
        // What it still sends keeps none of what all buffers may have.
        state.sockets.shrunk(handle);
    }
    drop(messages);
    abort_all(net, handle, abort);
    let is_empty = |net: &mut Net<'_, Turnstile>| match net.lock() {
        Some(state) => state
            .sockets
            .get(handle)
            .is_none_or(|socket| socket.sending.is_empty()),
        None => true,
    };
    // When the time is over, the rest is sent after the socket was closed.
    let _ = sock.wait(net, &mut linger, is_empty);
    orphan_all(net, handle);
    sock.set_handle(0);
    if let Some(mut state) = net.lock() {
        let mut gone = None;
        {
            let (state, outbox) = state.parts();
            let (endpoint, mut surroundings) = state.split(outbox, now());
            endpoint.leave(handle, &mut surroundings);
        }
        if let Some(socket) = state.sockets.get_mut(handle) {
            if socket.sending.is_empty() {
                gone = state.sockets.take(handle);
            }
        }
        // If it was the last one with keys, no packet is looked at for them.
        let sealing = state.sockets.keys.sealing();
        state.endpoint.set_sealing(sealing);
        // What was not read is freed without the lock.
        drop(state);
        drop(gone);
    }
}

/// Gives a socket a port.
pub(crate) fn bind(net: &mut Net<'_, Turnstile>, sock: LockedSock<'_>, port: u16) -> Result<u16> {
    let view = sock.view();
    let mut rooms = Some(Rooms::new().ok_or(ENOMEM)?);
    let mut any = ports::chosen(sock.chosen_ports(), random());
    loop {
        let mut state = net.lock().ok_or(ENODEV)?;
        let ports = &mut state.sockets.ports;
        let mut taken = None;
        let mut tried = 0_usize;
        let mut is_free = |port: u16| {
            tried = tried.saturating_add(1);
            let (name, owner) = ports::name(port, &view);
            let free = ports.is_free(&name, owner);
            taken = Some((name, owner)).filter(|_| free);
            free
        };
        if port != 0 {
            is_free(port);
        } else {
            any.by_ref().take(TRIES).find(|port| is_free(*port));
        }
        if let Some((name, owner)) = taken {
            if let Some(rooms) = rooms.take() {
                ports.add(rooms, sock.handle(), name, owner);
            }
            state.endpoint.prepare();
            return Ok(name.port());
        }
        if port != 0 || tried < TRIES {
            return Err(errno::in_use());
        }
    }
}

/// Takes a socket's port away.
pub(crate) fn unbind(net: &mut Net<'_, Turnstile>, sock: LockedSock<'_>) {
    if let Some(mut state) = net.lock() {
        state.sockets.ports.remove(sock.handle());
    }
}

/// A socket that has a port has other addresses now.
pub(crate) fn moved(net: &mut Net<'_, Turnstile>, sock: LockedSock<'_>) {
    let view = sock.view();
    if let Some(mut state) = net.lock() {
        let (name, _) = ports::name(view.local.port, &view);
        state.sockets.ports.rename(sock.handle(), name);
    }
}

/// A socket is shut down: if for reading, what comes is refused.
pub(crate) fn shutdown(net: &mut Net<'_, Turnstile>, sock: LockedSock<'_>) {
    if !sock.no_receive() {
        return;
    }
    refuse_all(net, sock.handle());
}

/// Somebody else ends a socket, which may be closed: what comes is refused, what goes out ends.
/// What has come whole stays to be read: its sender knows that it has arrived.
pub(crate) fn destroy(net: &mut Net<'_, Turnstile>, handle: u64) {
    refuse_all(net, handle);
    let mut gone = None;
    if let Some(mut state) = net.lock() {
        state.sockets.no_longer_waits(handle);
    }
    abort_all(net, handle, true);
    if let Some(mut state) = net.lock() {
        let ended = |it: &Socket| it.closed && it.sending.is_empty();
        if state.sockets.get(handle).is_some_and(ended) {
            gone = state.sockets.take(handle);
        }
    }
    // Freed without the lock.
    drop(gone);
}

/// Refuses what comes for a socket, some of it each time that the lock is taken.
fn refuse_all(net: &mut Net<'_, Turnstile>, handle: u64) {
    let mut from = Some(0);
    while let Some(next) = from {
        let Some(mut state) = net.lock() else {
            return;
        };
        let (state, outbox) = state.parts();
        from = state.refuse_some(handle, next, outbox);
    }
}

/// Ends the message that is open on a socket, or all that it has to send, some of it each time that
/// the lock is taken.
fn abort_all(net: &mut Net<'_, Turnstile>, handle: u64, all: bool) {
    loop {
        let Some(mut state) = net.lock() else {
            return;
        };
        let (state, outbox) = state.parts();
        if !state.abort_some(handle, all, outbox) {
            return;
        }
    }
}

/// What a closed socket still sends is nobody's from now on, and may be given up.
fn orphan_all(net: &mut Net<'_, Turnstile>, handle: u64) {
    let mut from = Some(0);
    while let Some(next) = from {
        let Some(mut state) = net.lock() else {
            return;
        };
        let (state, outbox) = state.parts();
        from = state.orphan_some(handle, next, outbox);
    }
}

/// Throws a message away.
fn discard(net: &mut Net<'_, Turnstile>, handle: u64, number: u64) -> Result {
    let gone = {
        let mut state = net.lock().ok_or(ENODEV)?;
        let (state, outbox) = state.parts();
        state.discard(handle, number, outbox)
    };
    // Freed without the lock.
    gone.map(drop)
}

/// What could be done without waiting.
pub(crate) fn poll(net: &mut Net<'_, Turnstile>, sock: &Sock) -> Ready {
    let Some(mut state) = net.look() else {
        return Ready::default();
    };
    let state = &mut *state;
    state.endpoint.prepare();
    let readable = state.readable(sock.handle()) != 0;
    // It says nothing without an error.
    let within = sock.has_error() && state.is_within(sock.handle());
    let Some(socket) = state.sockets.get_mut(sock.handle()) else {
        return Ready::default();
    };
    let short = socket.is_short();
    let open = socket.open.as_ref().map(|open| (open.id, open.share()));
    let room = match &open {
        // The next call goes on with it, and needs no place for another.
        Some((open, share)) => {
            let charged = state.endpoint.out_mut(*open).map_or(0, |out| out.charged);
            let promised = state.endpoint.promised(*open);
            socket.has_room_to_go_on(share.as_ref(), promised, charged)
        }
        None if sock.is_connected() => socket.has_room_for(None),
        None => socket.has_room_for_any(),
    };
    let room = room && !short;
    let writable = match open {
        // One that has failed need not wait.
        Some((open, _)) => room || state.endpoint.out_mut(open).is_none(),
        None => room && state.has_place(sock),
    };
    Ready {
        readable,
        writable,
        within,
    }
}

/// The application has set the receive buffer, or does so no more: there may be room for messages
/// that wait, and what it had grown by may be others'.
pub(crate) fn resized(net: &mut Net<'_, Turnstile>, sock: LockedSock<'_>) {
    if let Some(mut state) = net.lock() {
        let (state, outbox) = state.parts();
        state.measure(sock.handle());
        state.promote(sock.handle(), outbox);
    }
}

/// Sets an option.
pub(crate) fn set_option(
    net: &mut Net<'_, Turnstile>,
    sock: LockedSock<'_>,
    option: u32,
    value: i32,
    wide: Option<u64>,
) -> Result {
    if option == sockopt::DISCARD {
        return discard(net, sock.handle(), wide.ok_or(EINVAL)?);
    }
    if matches!(option, sockopt::KEY | sockopt::ACCEPT_KEY) {
        return set_key(net, sock.handle(), option, value);
    }
    let mut state = net.lock().ok_or(ENODEV)?;
    let socket = state.sockets.get_mut(sock.handle()).ok_or(ENODEV)?;
    let switch = match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(EINVAL),
    };
    match option {
        sockopt::RECVINFO => {
            if !(0..=2).contains(&value) {
                return Err(EINVAL);
            }
            socket.info = value != 0;
            socket.alternate = value == 2;
        }
        sockopt::READ => {
            socket.only = match wide.ok_or(EINVAL)? {
                u64::MAX => None,
                number if socket.messages.get(&number).is_some() => Some(number),
                _ => return Err(ENOENT),
            }
        }
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

/// How the socket's messages are sealed. Messages under way keep the keys that they have.
#[inline(never)]
fn set_key(net: &mut Net<'_, Turnstile>, handle: u64, option: u32, value: i32) -> Result {
    let read = match value {
        0 | -1 => None,
        serial => {
            let serial = u32::try_from(serial).map_err(|_| EINVAL)?;
            Some(Held::read(net, serial)?)
        }
    };
    let mut state = net.lock().ok_or(ENODEV)?;
    let sockets = &mut state.sockets;
    let socket = sockets.get(handle).ok_or(ENODEV)?;
    let now = match &socket.choice {
        Choice::Own(own) => Some((own.held.clone(), own.other.clone())),
        _ => None,
    };
    match (option, read, now) {
        (sockopt::KEY, Some(held), now) => {
            sockets.take_keys(handle, held, now.and_then(|(_, other)| other))?;
        }
        (sockopt::KEY, None, _) if value == -1 => sockets.take_no_keys(handle),
        (sockopt::KEY, None, _) => sockets.give_up_keys(handle),
        (sockopt::ACCEPT_KEY, other, Some((held, _))) if value != -1 => {
            sockets.take_keys(handle, held, other)?;
        }
        _ => return Err(EINVAL),
    }
    let sealing = sockets.keys.sealing();
    state.endpoint.set_sealing(sealing);
    state.endpoint.prepare();
    Ok(())
}

/// Reads an option.
pub(crate) fn get_option(net: &mut Net<'_, Turnstile>, sock: &Sock, option: u32) -> Result<i64> {
    let state = net.lock().ok_or(ENODEV)?;
    let socket = state.sockets.get(sock.handle()).ok_or(ENODEV)?;
    match option {
        sockopt::RECVINFO => Ok(i64::from(socket.info) + i64::from(socket.alternate)),
        sockopt::COMPLETIONS => Ok(i64::from(socket.completions)),
        sockopt::DEFAULT_PRIORITY => Ok(socket.priority.map_or(-1, i64::from)),
        sockopt::KEY => Ok(match &socket.choice {
            Choice::Namespace => 0,
            Choice::Plain => -1,
            Choice::Own(own) => i64::from(own.held.serial),
        }),
        sockopt::ACCEPT_KEY => Ok(match &socket.choice {
            Choice::Own(own) => own.other.as_ref().map_or(0, |other| other.serial.into()),
            _ => 0,
        }),
        sockopt::NUMBER => Ok(socket.next_outgoing.into()),
        sockopt::OPEN => Ok(socket.open.is_some().into()),
        _ => Err(errno::no_option()),
    }
}

/// How many bytes are in a queue.
pub(crate) fn queued(net: &mut Net<'_, Turnstile>, sock: &Sock, queue: SockQueue) -> u32 {
    let Some(mut state) = net.lock() else {
        return 0;
    };
    match queue {
        SockQueue::In => state.readable(sock.handle()),
        SockQueue::Out => state
            .sockets
            .get(sock.handle())
            .map_or(0, Socket::unacknowledged),
    }
}

impl State {
    /// Whether a socket could begin a message: to its peer, if it is connected. If not, it is woken
    /// when it can.
    fn has_place(&mut self, sock: &Sock) -> bool {
        let (handle, user) = (sock.handle(), sock.user());
        let path = self.sockets.get(handle).and_then(|it| it.path);
        let to = path.and_then(|(peer, path)| (sock.view().peer == Some(peer)).then_some(path));
        let place = self.endpoint.may_send(user, to.as_ref());
        if !place {
            self.sockets.wait_for_place(handle, user, to);
        }
        place
    }

    /// Refuses some of what comes for a socket, from message `from` on. Returns where to go on.
    fn refuse_some(&mut self, handle: u64, from: u64, outbox: &mut Outbox) -> Option<u64> {
        const SOME: u32 = 32;
        let mut from = from;
        for _ in 0..SOME {
            let socket = self.sockets.get_mut(handle)?;
            let next = socket.messages.cursor_lower_bound(&from)?;
            let (number, at) = (*next.current().0, *next.current().1);
            from = number.saturating_add(1);
            if let Where::Coming(id) = at {
                self.refuse(handle, number, id, outbox);
            }
        }
        Some(from)
    }

    /// Refuses a message that comes in.
    fn refuse(&mut self, handle: u64, number: u64, id: InId, outbox: &mut Outbox) {
        let now = now();
        let (endpoint, mut surroundings) = self.split(outbox, now);
        let message = endpoint.refuse(Nanos(now), id, &mut surroundings);
        let Some(socket) = self.sockets.get_mut(handle) else {
            return;
        };
        match message {
            Some(message) => {
                socket.forget(&message);
                outbox.free(KBox::into_inner(message).segments);
            }
            None => socket.no_longer_comes(number),
        }
        self.sockets.resize(handle);
    }

    /// Throws a message away. Returns it, if it is complete.
    fn discard(&mut self, handle: u64, number: u64, outbox: &mut Outbox) -> Result<Option<Kept>> {
        let socket = self.sockets.get_mut(handle).ok_or(ENODEV)?;
        let gone = match *socket.messages.get(&number).ok_or(ENOENT)? {
            Where::Coming(id) => {
                self.refuse(handle, number, id, outbox);
                None
            }
            Where::Done(order) => socket.take_done(number, order),
        };
        self.promote(handle, outbox);
        Ok(gone)
    }

    /// Ends the message that is open on a socket, or some of all that it has to send. `false`: that
    /// was all.
    fn abort_some(&mut self, handle: u64, all: bool, outbox: &mut Outbox) -> bool {
        let now = now();
        for _ in 0..ABORTED {
            let Some(socket) = self.sockets.get_mut(handle) else {
                return false;
            };
            let (number, id) = if let Some(open) = socket.open.take() {
                outbox.free_writer(open.writer);
                (open.number, open.id)
            } else if let Some(first) = socket.sending.cursor_front().filter(|_| all) {
                (*first.current().0, *first.current().1)
            } else {
                return false;
            };
            self.abort_one(handle, number, id, now, outbox);
        }
        true
    }

    /// Tells the endpoint of some messages of a closed socket, from this number on. Returns the
    /// number to go on from.
    fn orphan_some(&mut self, handle: u64, from: u32, outbox: &mut Outbox) -> Option<u32> {
        let now = now();
        let mut next = from;
        for _ in 0..ORPHANS {
            let socket = self.sockets.get(handle)?;
            let (number, id) = {
                let cursor = socket.sending.cursor_lower_bound(&next)?;
                let (number, id) = cursor.current();
                (*number, *id)
            };
            let (endpoint, mut surroundings) = self.split(outbox, now);
            endpoint.orphan(Nanos(now), id, &mut surroundings);
            next = number.checked_add(1)?;
        }
        Some(next)
    }

    /// Ends a message that goes out.
    pub(crate) fn abort_one(
        &mut self,
        handle: u64,
        number: u32,
        id: OutId,
        now: u64,
        outbox: &mut Outbox,
    ) {
        let (endpoint, mut surroundings) = self.split(outbox, now);
        let message = endpoint.abort(Nanos(now), id, &mut surroundings);
        if let Some(socket) = self.sockets.get_mut(handle) {
            socket.end_sending(number);
            if let Some(message) = &message {
                socket.freed(&message.share(), message.charged, message.beside);
            }
        }
        if let Some(message) = message {
            outbox.free_written(message.written);
        }
        self.sockets.waiting.place_came_free(now);
    }
}
