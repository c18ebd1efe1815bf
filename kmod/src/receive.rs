// SPDX-License-Identifier: GPL-2.0
//! `recvmsg`.

use crate::budget::Place;
use crate::errno;
use crate::incoming::{Incoming, Reading};
use crate::socket::{Socket, Sockets};
use crate::state::{Messages, State, Turnstile};
use kernel::prelude::*;
use knet_transport::{now, Caller, Net, Outbox, Parts, ReceiveFlags, Receiving, SockAddress};
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
    sock.take_error()?;
    let handle = sock.handle();
    let len = u32::try_from(len).unwrap_or(u32::MAX >> 1);
    let mut timeout = sock.timeout(false, flags.dont_wait);
    let mut done = 0u32;
    // By reference: it is large.
    let mut parts = Parts::new();
    loop {
        // What was read is freed without the lock.
        parts.clear();
        let left = len.saturating_sub(done);
        let piece = {
            let mut state = net.lock().ok_or(ENODEV)?;
            let ahead = if flags.peek { done } else { 0 };
            state.piece(handle, ahead, left, now(), &mut parts)
        };
        let Some(piece) = piece.or_else(|errno| match done {
            0 => Err(errno::error(errno)),
            _ => Ok(None),
        })?
        else {
            if done != 0 && (!flags.wait_all || flags.peek) {
                return Ok(done);
            }
            if sock.view().no_receive {
                return Ok(done);
            }
            let ready = |net: &mut Net<'_, Turnstile>| match net.lock() {
                Some(mut state) => {
                    state.readable(handle) != 0 || sock.has_error() || sock.view().no_receive
                }
                None => true,
            };
            match sock.wait(net, &mut timeout, ready) {
                // A failed message to the peer ends the call, as it would have before waiting.
                Ok(()) if done == 0 => {
                    sock.take_error()?;
                    continue;
                }
                Ok(()) if sock.has_error() => return Ok(done),
                Ok(()) => continue,
                Err(error) if done == 0 => return Err(error),
                Err(_) => return Ok(done),
            }
        };
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
        if done == 0 && piece.info {
            let length = piece.length.map_or(u64::MAX, u64::from);
            message.put_info(net, [piece.number, length, piece.offset.into(), piece.age]);
        }
        done = done.saturating_add(copied);
        let ended = if flags.peek {
            piece.length == Some(piece.offset.saturating_add(copied))
        } else {
            // What was read is freed without the lock.
            let read = {
                let mut state = net.lock().ok_or(ENODEV)?;
                let (state, outbox) = state.parts();
                state.consume(handle, copied, outbox)
            };
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

/// The message that is being read.
fn current<'a>(endpoint: &'a mut Messages, socket: &'a mut Socket) -> Option<&'a mut Incoming> {
    match socket.reading.as_mut()? {
        Reading::Coming(id, _) => endpoint.in_mut(*id),
        Reading::Whole(message) => Some(message),
        Reading::Failed(_) => None,
    }
}

/// Chooses what is read next, if nothing is being read: what could be read first.
fn choose(endpoint: &mut Messages, socket: &mut Socket) {
    if socket.reading.is_some() {
        return;
    }
    let streaming = socket.budget.exclusive().and_then(|number| {
        let id = *socket.coming.get(&number)?;
        let message = endpoint.in_mut(id)?;
        let order = message.order.filter(|_| message.has_more())?;
        Some((order, id, number))
    });
    let Some(first) = socket.done.cursor_front_mut() else {
        socket.reading = streaming.map(|(_, id, number)| Reading::Coming(id, number));
        return;
    };
    let order = *first.current().0;
    socket.reading = match streaming {
        Some((streams, id, number)) if streams < order => Some(Reading::Coming(id, number)),
        _ => {
            let (_, node) = first.remove_current();
            Some(Reading::Whole(node.to_key_value().1))
        }
    };
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
        choose(endpoint, socket);
        if let Some(Reading::Failed(_)) = socket.reading {
            return 1;
        }
        current(endpoint, socket)
            .map_or(0, |message| message.readable().saturating_sub(message.read))
    }

    /// What there is to read, `ahead` bytes further than what was read, up to `len` bytes. `Err`:
    /// the errno of a message that failed. Its packets are put into `parts`.
    #[inline(never)]
    fn piece(
        &mut self,
        handle: u64,
        ahead: u32,
        len: u32,
        now: u64,
        parts: &mut Parts,
    ) -> Result<Option<Piece>, u32> {
        let Some((endpoint, socket)) = self.reader(handle) else {
            return Ok(None);
        };
        choose(endpoint, socket);
        if let Some(Reading::Failed(errno)) = socket.reading {
            socket.reading = None;
            return Err(errno);
        }
        let info = socket.info;
        let Some(message) = current(endpoint, socket) else {
            return Ok(None);
        };
        let offset = message.read.saturating_add(ahead);
        let there = message.readable().saturating_sub(offset);
        if there == 0 {
            return Ok(None);
        }
        message.segments.gather(offset, len.min(there), parts);
        Ok(Some(Piece {
            from: message.from,
            local: message.local,
            device: message.device,
            number: message.number,
            length: message.length,
            offset,
            age: now.saturating_sub(message.began),
            info,
        }))
    }

    /// Bytes were read. Returns the message if that was all of it.
    #[inline(never)]
    fn consume(&mut self, handle: u64, bytes: u32, outbox: &mut Outbox) -> Option<Incoming> {
        let (endpoint, socket) = self.reader(handle)?;
        let ahead = socket.budget.ahead();
        let message = current(endpoint, socket)?;
        message.read = message.read.saturating_add(bytes);
        message.segments.consume(message.read);
        if !message.is_read() {
            if message.place == Place::Exclusive {
                let window = message.read.saturating_add(ahead);
                message.window = message.window.max(window);
                let window = message.window;
                if let Some(Reading::Coming(id, _)) = socket.reading {
                    let now = now();
                    let (endpoint, mut surroundings) = self.split(outbox, now);
                    endpoint.window(Nanos(now), id, window, &mut surroundings);
                }
            }
            return None;
        }
        let Some(Reading::Whole(message)) = socket.reading.take() else {
            return None;
        };
        socket
            .budget
            .leave(message.place, message.window, message.reserved());
        self.promote(handle, outbox);
        Some(message)
    }
}
