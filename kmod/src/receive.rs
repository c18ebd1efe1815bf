// SPDX-License-Identifier: GPL-2.0
//! `recvmsg`.

use crate::errno;
use crate::incoming::{Incoming, Kept, Where};
use crate::socket::Socket;
use crate::sockets::Sockets;
use crate::state::{Messages, State, Turnstile};
use kernel::prelude::*;
use knet_transport::{
    now, Caller, Net, Outbox, Parts, Queues, ReceiveFlags, Receiving, SockAddress, Timeout,
};
use turnstile_core::transport::budget::Place;
use turnstile_core::units::Nanos;

/// What there is of the message that is being read.
struct Piece {
    from: SockAddress,
    local: [u8; 16],
    device: u32,
    number: u64,
    length: Option<u32>,
    offset: u32,
    age: u64,
    info: bool,
}

/// What there is to read.
enum Found {
    /// Nothing yet.
    Nothing,
    /// Nothing any more of the message that the call has begun with.
    Gone,
    /// This; its packets are in the parts.
    Piece(Piece),
}

/// What a call asks for.
#[derive(Clone, Copy)]
struct Wish {
    /// The message that it has begun with: it goes on with no other.
    within: Option<u64>,
    /// Bytes beyond what was read.
    ahead: u32,
    /// Bytes.
    len: u32,
    /// They are not taken.
    peek: bool,
}

/// Receives up to `len` bytes of one message; returns how many.
pub(crate) fn receive(
    net: &mut Net<'_, Turnstile>,
    sock: Caller<'_>,
    message: &mut Receiving<'_>,
    len: usize,
    flags: ReceiveFlags,
) -> Result<u32> {
    if flags.reports {
        return message.take_report(net, len).map(|()| 0);
    }
    let mut info = None;
    let read = read(net, sock, message, len, flags, &mut info)?;
    if let Some(info) = info {
        message.put_info(net, info);
    }
    Ok(read)
}

/// Reads. `info`: of what was read, as far as it is known at the end of the call, if the socket
/// asks for that.
fn read(
    net: &mut Net<'_, Turnstile>,
    sock: Caller<'_>,
    message: &mut Receiving<'_>,
    len: usize,
    flags: ReceiveFlags,
    info: &mut Option<[u64; 4]>,
) -> Result<u32> {
    tell_error(net, sock)?;
    let handle = sock.handle();
    let len = u32::try_from(len).unwrap_or(u32::MAX >> 1);
    let mut timeout = sock.timeout(false, flags.dont_wait);
    let mut done = 0u32;
    let mut within = None;
    // By reference: it is large.
    let mut parts = Parts::new();
    loop {
        // What was read is freed without the lock.
        parts.clear();
        let wish = Wish {
            within,
            ahead: if flags.peek { done } else { 0 },
            len: len.saturating_sub(done),
            peek: flags.peek,
        };
        // Before it is looked at what there is.
        let seen = sock.news();
        let piece = match find_piece(net, handle, &wish, &mut parts)? {
            Found::Piece(piece) => piece,
            // It failed, which the next call is told; or another thread has read its end.
            Found::Gone => return Ok(done),
            Found::Nothing => {
                if done != 0 && (!flags.wait_all || flags.peek) {
                    return Ok(done);
                }
                if sock.no_receive() || !wait(net, sock, &mut timeout, seen, done)? {
                    return Ok(done);
                }
                continue;
            }
        };
        within = Some(piece.number);
        if done == 0 {
            message.set_source(piece.from);
        }
        let copied = match parts.copy_to(net, message) {
            Ok(copied) => copied,
            Err(error) if done == 0 => return Err(error),
            Err(_) => return Ok(done),
        };
        if done == 0 {
            message.put_local(net, piece.local, piece.device);
        }
        let length = piece.length.map_or(u64::MAX, u64::from);
        match info {
            // The end may have become known since the call began.
            Some(told) => told[1] = length,
            None if piece.info => {
                *info = Some([piece.number, length, piece.offset.into(), piece.age]);
            }
            None => {}
        }
        done = done.saturating_add(copied);
        let ended = if flags.peek {
            piece.length == Some(piece.offset.saturating_add(copied))
        } else {
            let read = {
                let mut state = net.lock().ok_or(ENODEV)?;
                let (state, outbox) = state.parts();
                state.consume(handle, piece.number, copied, outbox)
            };
            // What was read is freed without the lock.
            read.is_some()
        };
        if ended {
            message.set_end();
            return Ok(done);
        }
        if done >= len {
            return Ok(done);
        }
    }
}

/// What there is to read of what a call wishes.
// Not inlined, so that it takes no stack while the call copies and waits.
#[inline(never)]
fn find_piece(
    net: &mut Net<'_, Turnstile>,
    handle: u64,
    wish: &Wish,
    parts: &mut Parts,
) -> Result<Found> {
    let mut state = net.look().ok_or(ENODEV)?;
    state.endpoint.prepare();
    let found = state.piece(handle, wish, parts);
    found.map_err(errno::error)
}

/// Tells why a message to the peer has failed. Not in the midst of one that comes: who reads that
/// would take it for its end, so it is told afterwards, or by `send`.
fn tell_error(net: &mut Net<'_, Turnstile>, sock: Caller<'_>) -> Result {
    if !sock.has_error() {
        return Ok(());
    }
    let within = net
        .look()
        .is_some_and(|mut state| state.is_within(sock.handle()));
    match within && !sock.no_receive() {
        true => Ok(()),
        false => sock.take_error(),
    }
}

/// Waits for news since there were so many. `false`: the call ends, with what it has.
// Not inlined: it needs no stack while the call reads.
#[inline(never)]
fn wait(
    net: &mut Net<'_, Turnstile>,
    sock: Caller<'_>,
    timeout: &mut Timeout,
    seen: u32,
    done: u32,
) -> Result<bool> {
    match sock.wait_for_news(net, timeout, seen) {
        // A failed message to the peer ends the call, as it would have before waiting.
        Ok(()) if done == 0 => tell_error(net, sock).map(|()| true),
        Ok(()) => Ok(true),
        Err(error) if done == 0 => Err(error),
        Err(_) => Ok(false),
    }
}

/// The message of a number.
fn find<'a>(
    endpoint: &'a mut Messages,
    socket: &'a mut Socket,
    number: u64,
) -> Option<&'a mut Incoming> {
    let held = match *socket.messages.get(&number)? {
        Where::Coming(id) => endpoint.in_mut(id)?,
        Where::Done(order) => socket.done.get_mut(&order)?.as_mut()?,
    };
    Some(held)
}

/// The message that streams, if it can be read; and its place in the order.
fn streaming(endpoint: &mut Messages, socket: &mut Socket) -> Option<(u64, u64)> {
    let number = socket.buffer.budget.exclusive()?;
    let Where::Coming(id) = *socket.messages.get(&number)? else {
        return None;
    };
    let message = endpoint.in_mut(id)?;
    if !socket.is_ripe(message) {
        return None;
    }
    let order = match message.order {
        Some(order) => order,
        None => socket.take_order(),
    };
    message.order = Some(order);
    Some((order, number))
}

/// Chooses what is read next: what is being read, as long as there is more of it; otherwise what
/// could be read first. What is there of it may be nothing.
fn choose(endpoint: &mut Messages, socket: &mut Socket) -> Option<u64> {
    if let Some(only) = socket.only {
        socket.reading = Some(only);
        return Some(only);
    }
    if let Some(number) = socket.reading {
        let alternate = socket.alternate;
        if let Some(message) = find(endpoint, socket, number) {
            if message.begun && (message.has_more() || !alternate) {
                return Some(number);
            }
            if !message.has_more() {
                // It has its turn again when more has come.
                message.order = None;
            }
        }
        socket.reading = None;
    }
    let streams = streaming(endpoint, socket);
    let whole = socket.done.cursor_front().and_then(|first| {
        let (order, message) = first.current();
        Some((*order, message.as_ref()?.number))
    });
    let first = match (streams, whole) {
        (Some(streams), Some(whole)) => streams.min(whole),
        (streams, whole) => streams.or(whole)?,
    };
    socket.reading = Some(first.1);
    socket.reading
}

impl State {
    fn reader(&mut self, handle: u64) -> Option<(&mut Messages, &mut Socket)> {
        let Self {
            endpoint, sockets, ..
        } = self;
        let sockets: &mut Sockets = sockets;
        Some((endpoint, sockets.get_mut(handle)?))
    }

    /// Bytes that can be read now; 1 if there is a failure to tell of.
    pub(crate) fn readable(&mut self, handle: u64) -> u32 {
        let Some((endpoint, socket)) = self.reader(handle) else {
            return 0;
        };
        if socket.failed_reading.is_some() {
            return 1;
        }
        choose(endpoint, socket)
            .and_then(|number| find(endpoint, socket, number))
            .map_or(0, |message| message.unread())
    }

    /// What is in a socket's queues: whole messages, and what there is of one that streams.
    pub(crate) fn queues(&mut self, handle: u64) -> Queues {
        let Some((endpoint, socket)) = self.reader(handle) else {
            return Queues::default();
        };
        let counted = socket.counted;
        let mut streamed = 0;
        if let Some(number) = socket.buffer.budget.exclusive() {
            if let Some(Where::Coming(id)) = socket.messages.get(&number) {
                let message = endpoint.in_mut(*id).filter(|it| socket.is_ripe(it));
                streamed = message.map_or(0, |message| message.unread());
            }
        }
        Queues {
            readable: counted.unread.saturating_add(streamed.into()),
            unacknowledged: socket.unacknowledged().into(),
            whole: counted.whole,
            incoming: counted.incoming,
            outgoing: counted.outgoing,
        }
    }

    /// Whether the next call reads more of a message of which some was read.
    pub(crate) fn is_within(&mut self, handle: u64) -> bool {
        let Some((endpoint, socket)) = self.reader(handle) else {
            return false;
        };
        let Some(number) = socket.only.or(socket.reading) else {
            return false;
        };
        find(endpoint, socket, number).is_some_and(|message| message.begun)
    }

    /// What there is to read. `Err`: the errno of a message that failed.
    #[inline(never)]
    fn piece(&mut self, handle: u64, wish: &Wish, parts: &mut Parts) -> Result<Found, u32> {
        let Some((endpoint, socket)) = self.reader(handle) else {
            return Ok(Found::Nothing);
        };
        let number = match wish.within {
            Some(number) => Some(number),
            None => {
                if let Some(errno) = socket.failed_reading.take() {
                    return Err(errno);
                }
                choose(endpoint, socket)
            }
        };
        let Some(number) = number else {
            return Ok(Found::Nothing);
        };
        let info = socket.info;
        let Some(message) = find(endpoint, socket, number) else {
            return Ok(Found::Gone);
        };
        let offset = message.read.saturating_add(wish.ahead);
        let there = message.readable().saturating_sub(offset);
        if there == 0 {
            return Ok(Found::Nothing);
        }
        message.begun |= !wish.peek;
        message.segments.gather(offset, wish.len.min(there), parts);
        Ok(Found::Piece(Piece {
            from: message.from,
            local: message.local,
            device: message.device,
            number,
            length: message.length,
            offset,
            // Who is not told need not know.
            age: match info {
                true => now().saturating_sub(message.began),
                false => 0,
            },
            info,
        }))
    }

    /// Bytes of a message were read. Returns the message if that was all of it.
    #[inline(never)]
    fn consume(
        &mut self,
        handle: u64,
        number: u64,
        bytes: u32,
        outbox: &mut Outbox,
    ) -> Option<Kept> {
        let (endpoint, socket) = self.reader(handle)?;
        let ahead = socket.buffer.budget.ahead();
        let at = *socket.messages.get(&number)?;
        let message = find(endpoint, socket, number)?;
        let unread = message.unread();
        message.read = message.read.saturating_add(bytes);
        let taken = unread.saturating_sub(message.unread());
        message.segments.consume(message.read);
        if !message.is_read() {
            let window = message.read.saturating_add(ahead);
            match (at, message.place) {
                (Where::Coming(id), Place::Exclusive) => {
                    message.window = message.window.max(window);
                    let window = message.window;
                    let now = now();
                    let (endpoint, mut surroundings) = self.split(outbox, now);
                    endpoint.window(Nanos(now), id, window, &mut surroundings);
                }
                (Where::Coming(_), _) => {}
                (Where::Done(_), _) => socket.counted.read(taken),
            }
            return None;
        }
        let Where::Done(order) = at else {
            return None;
        };
        socket.counted.read(taken);
        let message = socket.take_done(number, order);
        self.promote(handle, outbox);
        message
    }
}
