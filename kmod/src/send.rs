// SPDX-License-Identifier: GPL-2.0
//! `sendmsg`.

use crate::errno;
use crate::outgoing::{Open, Outgoing, OVERHEAD};
use crate::room::{Part, Share};
use crate::state::{address, State, Turnstile};
use kernel::prelude::*;
use knet_transport::{
    now, random, Caller, Net, Outbox, Path, SendOptions, Sending, SockAddress, Tie, Timeout,
    Writer, Written,
};
use turnstile_core::transport::host::{self, OutId, SendError};
use turnstile_core::transport::wire::{mss, Cookie, MAX_LENGTH};
use turnstile_core::units::Nanos;

/// ms: after so long without memory a socket tries again, though nothing of it was delivered. TCP
/// waits for up to 200.
const SCARCE_MS: u32 = 100;

/// ms: after so long whoever was refused a place, or room for a whole message, is told that there
/// may be some: there may be for another peer, or a shorter message.
const AGAIN_MS: u32 = 100;

/// The most that is copied before some of it is sent.
const CHUNK: u32 = 256 << 10;
/// The longest packets, whatever the MTU: one must fit into the fragments of a packet buffer.
const MAX_MSS: u16 = 32 << 10;

/// The same, of a message that is sealed: each packet is in one piece of memory.
const MAX_SEALED: u16 = 8 << 10;

/// A call.
struct Call<'a, 'n> {
    net: &'a mut Net<'n, Turnstile>,
    sock: Caller<'a>,
    timeout: Timeout,
    len: u32,
    done: u32,
    more: bool,
    /// It may not wait, and is a message: all of it is taken or nothing, if it could have room.
    whole: bool,
    /// The call fails as the message has.
    told: bool,
    /// It may wait, and has a message for itself: if its time is over before all of it is taken,
    /// none is sent.
    alone: bool,
}

/// The message of a call.
struct Going {
    writer: Writer,
    /// What it appends to, until the message begins.
    data: Option<Written>,
    to: SockAddress,
    /// The peer has only a part of the send buffer.
    shares: bool,
    /// What its bytes are of.
    part: Part,
    length: Option<u32>,
    written: u32,
    stage: Stage,
}

impl Going {
    /// The peer of whose part of the send buffer it takes.
    fn peer(&self) -> Option<SockAddress> {
        self.shares.then_some(self.to)
    }

    fn share(&self) -> Share {
        Share {
            to: self.peer(),
            part: self.part,
        }
    }
}

/// Room for bytes of a message.
#[derive(Clone, Copy)]
struct Room {
    bytes: u32,
    /// All that the call has are taken at once.
    whole: bool,
    /// They are of what is beside the send buffer.
    beside: bool,
}

enum Stage {
    /// The peer has not heard of it.
    New(Beginning),
    /// It is under way, with this number on the socket.
    Begun(OutId, u32),
}

#[derive(Clone, Copy)]
struct Beginning {
    path: Path,
    tie: Tie,
    /// What the message's cookie is made of, and so its UDP port.
    drawn: u64,
    device: u32,
    source: u16,
    mss: u16,
    /// The receiver is not told the length.
    hidden: bool,
    deadline: Option<u64>,
    coflow: u32,
    /// What the call asks for, not the socket.
    priority: Option<u8>,
}

/// Sends `len` bytes; returns how many were taken.
pub(crate) fn send(
    net: &mut Net<'_, Turnstile>,
    sock: Caller<'_>,
    message: &mut Sending<'_>,
    len: usize,
) -> Result<u32> {
    let options = message.options()?;
    if let Err(error) = sock.take_error() {
        // This was told now, if it was why the open message failed.
        drop(take_failed(net, sock)?);
        return Err(error);
    }
    if sock.no_send() {
        return Err(EPIPE);
    }
    if len == 0 {
        return Err(EINVAL);
    }
    let len = u32::try_from(len)
        .ok()
        .filter(|len| *len <= MAX_LENGTH)
        .ok_or_else(errno::too_long)?;
    let timeout = sock.timeout(true, options.dont_wait);
    let one = !options.more && options.length.is_none();
    let mut call = Call {
        net,
        sock,
        timeout,
        len,
        done: 0,
        more: options.more,
        whole: options.dont_wait && one,
        told: false,
        alone: false,
    };
    let mut going = match call.resume(&options)? {
        Some(going) => going,
        None => {
            call.alone = one && !timeout.is_over();
            call.begin(&options)?
        }
    };
    let result = call.run(message, &mut going);
    if call.alone && result == Err(EAGAIN) {
        call.done = 0;
        call.abort(&going)?;
        return Err(EAGAIN);
    }
    let keep = call.finish(going, &result);
    match result {
        Err(error) if call.done == 0 => Err(error),
        _ => keep.map(|()| call.done),
    }
}

/// Takes away the message that is open on the socket, if it has failed.
fn take_failed(net: &mut Net<'_, Turnstile>, sock: Caller<'_>) -> Result<Option<Open>> {
    let mut state = net.look().ok_or(ENODEV)?;
    let state = &mut *state;
    let socket = state.sockets.get_mut(sock.handle()).ok_or(ENODEV)?;
    let endpoint = &mut state.endpoint;
    let open = &mut socket.open;
    Ok(open.take_if(|open| endpoint.out_mut(open.id).is_none()))
}

impl Call<'_, '_> {
    /// The message that is open on the socket, if there is one.
    fn resume(&mut self, options: &SendOptions) -> Result<Option<Going>> {
        let mut state = self.net.look().ok_or(ENODEV)?;
        let socket = state.sockets.get_mut(self.sock.handle()).ok_or(ENODEV)?;
        let Some(open) = &socket.open else {
            return Ok(None);
        };
        let elsewhere = options.to.is_some_and(|to| to != open.to);
        if elsewhere || options.begins() {
            drop(state);
            // This is no part of it: of one that has failed, nothing is to come.
            return match take_failed(self.net, self.sock)? {
                Some(_) => Ok(None),
                None => Err(EINVAL),
            };
        }
        let left = open
            .length
            .unwrap_or(MAX_LENGTH)
            .saturating_sub(open.written);
        if self.len > left {
            return Err(errno::too_long());
        }
        Ok(socket.open.take().map(|open| Going {
            writer: open.writer,
            data: None,
            to: open.to,
            shares: open.shares,
            part: Part::Buffer,
            length: open.length,
            written: open.written,
            stage: Stage::Begun(open.id, open.number),
        }))
    }

    /// A new message.
    fn begin(&mut self, options: &SendOptions) -> Result<Going> {
        let peer = self.sock.peer();
        let to = options.to.or(peer).ok_or_else(errno::no_destination)?;
        let length = match options.length {
            Some(length) => Some(
                u32::try_from(length)
                    .ok()
                    .filter(|length| *length <= MAX_LENGTH && *length >= self.len)
                    .ok_or_else(errno::too_long)?,
            ),
            None => (!self.more).then_some(self.len),
        };
        self.sock.autobind(self.net)?;
        let drawn = random();
        let port = Cookie(drawn).source_port();
        let (path, tie, mtu) = self.sock.route(self.net, &to, &options.wish, port)?;
        let ipv6 = !address(&path).is_ipv4();
        let mss = mss(mtu, ipv6).ok_or_else(errno::too_long)?.min(MAX_MSS);
        let at_once = length.filter(|length| *length == self.len).unwrap_or(0);
        let (writer, data) = loop {
            match Writer::new(self.net, &self.sock, at_once) {
                Err(error) if error == errno::no_room() => self.wait_for_memory()?,
                writer => break writer?,
            }
        };
        Ok(Going {
            writer,
            data: Some(data),
            to,
            shares: peer != Some(to),
            part: Part::Buffer,
            length,
            written: 0,
            stage: Stage::New(Beginning {
                path,
                tie,
                drawn,
                device: options.wish.device,
                source: self.sock.port(),
                mss,
                hidden: options.unknown_size == Some(true),
                deadline: options.deadline,
                coflow: options.coflow.unwrap_or(0),
                priority: options.priority,
            }),
        })
    }

    /// Takes all bytes of the call, as room comes.
    fn run(&mut self, message: &mut Sending<'_>, going: &mut Going) -> Result {
        while self.done < self.len {
            let left = self.len.saturating_sub(self.done);
            let room = self.wait_for_room(going, left)?;
            let copied = self.copy(message, going, left, room)?;
            if copied == 0 {
                continue;
            }
            self.done = self.done.saturating_add(copied);
            going.written = going.written.saturating_add(copied);
            let mut result = self.commit(going, copied, room.beside);
            while let Ok(false) = result {
                // Another took the place while this call copied.
                let again = self.wait_for_room(going, copied);
                result = again.and_then(|room| self.commit(going, copied, room.beside));
            }
            if let Err(error) = result {
                self.told = matches!(going.stage, Stage::Begun(..));
                // What was copied goes nowhere.
                self.done = 0;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Copies some bytes, or all if there is room for all at once. None: there was no memory for
    /// some, and may be by now.
    fn copy(
        &mut self,
        message: &mut Sending<'_>,
        going: &mut Going,
        left: u32,
        room: Room,
    ) -> Result<u32> {
        let most = match room.whole {
            true => left,
            false => left.min(room.bytes).min(CHUNK),
        };
        let mut copied = 0u32;
        loop {
            let rest = most.saturating_sub(copied);
            match going.writer.append(self.net, message, rest) {
                Err(error) if error == errno::no_room() => self.wait_for_memory()?,
                more => copied = copied.saturating_add(more?),
            }
            if !room.whole || copied >= most {
                return Ok(copied);
            }
        }
    }

    /// There was no memory for what is to be sent. Waits until some of what the socket has is
    /// delivered, which frees memory, or for a while: its receiver may not take any, or have all,
    /// and others free memory, too. Without any, that is told.
    fn wait_for_memory(&mut self) -> Result {
        let handle = self.sock.handle();
        let is_scarce = |net: &mut Net<'_, Turnstile>, mark: bool| {
            let mut state = net.lock()?;
            let socket = state.sockets.get_mut(handle)?;
            if mark && socket.queued != 0 {
                socket.scarce =
                    now().saturating_add(u64::from(SCARCE_MS).saturating_mul(1_000_000));
            }
            Some(socket.is_scarce())
        };
        if is_scarce(self.net, true) != Some(true) {
            return Err(errno::no_room());
        }
        let sock = self.sock;
        // A little later, so that who is woken finds that it is over.
        sock.writable_later(SCARCE_MS.saturating_add(1));
        sock.wait(self.net, &mut self.timeout, |net| {
            sock.no_send() || is_scarce(net, false) != Some(true)
        })
    }

    /// How many bytes may be copied, at least 1. A message that has not begun waits for a place,
    /// too.
    fn wait_for_room(&mut self, going: &mut Going, left: u32) -> Result<Room> {
        let handle = self.sock.handle();
        let (overhead, whole) = match going.stage {
            Stage::New(_) => (OVERHEAD, self.whole),
            Stage::Begun(..) => (0, false),
        };
        let share = going.peer();
        // One that begins, and all of which is here.
        let all = matches!(going.stage, Stage::New(_)) && going.length == Some(left);
        let (mut failed, mut short, mut part) = (false, false, Part::Buffer);
        // Who is not connected may have another peer with a place, of which poll does not know.
        let any = !self.sock.is_connected();
        let path = match &going.stage {
            Stage::New(beginning) => Some(address(&beginning.path)),
            Stage::Begun(..) => None,
        };
        let mut result = Ok(Room {
            bytes: 0,
            whole,
            beside: false,
        });
        let sock = self.sock;
        sock.wait(self.net, &mut self.timeout, |net| {
            if sock.no_send() {
                // Who ended the socket has said why.
                result = Err(sock.take_error().err().unwrap_or(EPIPE));
                return true;
            }
            let Some(mut state) = net.lock() else {
                result = Err(ENODEV);
                return true;
            };
            let (state, outbox) = state.parts();
            let (mut promised, mut charged) = (0, 0);
            if let Stage::Begun(id, number) = going.stage {
                promised = state.endpoint.promised(id);
                match state.endpoint.out_mut(id) {
                    Some(message) => charged = message.charged,
                    None => {
                        failed = true;
                        result = Err(state.why_failed(handle, number));
                        return true;
                    }
                }
            }
            if let Some(to) = &path {
                let user = sock.user();
                let Some(socket) = state.sockets.get_mut(handle) else {
                    result = Err(ENODEV);
                    return true;
                };
                socket.path = Some((going.to, *to));
                if !state.endpoint.may_send(user, Some(to)) {
                    result = Err(EAGAIN);
                    short = any;
                    state.sockets.wait_for_place(handle, user, Some(*to));
                    let now = now();
                    let (endpoint, mut surroundings) = state.split(outbox, now);
                    endpoint.no_place(Nanos(now), &mut surroundings);
                    return false;
                }
            }
            let Some(socket) = state.sockets.get_mut(handle) else {
                result = Err(ENODEV);
                return true;
            };
            let needed = left.saturating_add(overhead);
            let whole = whole && needed <= socket.room().0;
            let room = socket.room_for(share.as_ref());
            let free = room.free.saturating_sub(overhead);
            let enough = match whole {
                true => left,
                false => left.min(room.most / 4).max(1),
            };
            let bytes = match whole && free < enough {
                true => 0,
                // A call that does not wait takes what there is.
                false => free,
            };
            result = Ok(Room {
                bytes,
                whole,
                beside: false,
            });
            short = free < enough;
            part = match short && all {
                true => socket.spared_for(share.as_ref(), left, overhead),
                false => Part::Buffer,
            };
            if part != Part::Buffer {
                short = false;
                result = Ok(Room {
                    bytes: left,
                    whole: true,
                    beside: false,
                });
            }
            if short && promised != 0 {
                let share = share.as_ref();
                let (bytes, beside) = socket.promised_room(share, promised, charged, free);
                if bytes != 0 {
                    short = false;
                    result = Ok(Room {
                        bytes: left.min(bytes),
                        whole: false,
                        beside,
                    });
                }
            }
            if short {
                socket.wants(share, enough.saturating_add(overhead));
                socket.wants_any(promised, charged);
            }
            !short
        })
        .or_else(|error| match result {
            Ok(room) if room.bytes != 0 => Ok(()),
            _ => Err(error),
        })
        .inspect_err(|error| {
            if *error == EAGAIN && overhead != 0 {
                self.try_again_later(short);
            }
        })?;
        if part != Part::Buffer {
            going.part = part;
        }
        if failed {
            // Whatever this call has given.
            self.told = true;
            self.done = 0;
        }
        result
    }

    /// A message could not begin. The socket may be good for another one.
    fn try_again_later(&mut self, short: bool) {
        let now = now();
        let later = {
            let Some(mut state) = self.net.lock() else {
                return;
            };
            let Some(socket) = state.sockets.get_mut(self.sock.handle()) else {
                return;
            };
            socket.short = short;
            let later = socket.again <= now;
            if later {
                let ns = u64::from(AGAIN_MS).saturating_mul(1_000_000);
                socket.again = now.saturating_add(ns);
            }
            later
        };
        if later {
            // A little later, so that who is woken finds that it is over.
            self.sock.writable_later(AGAIN_MS.saturating_add(1));
        }
    }

    /// Tells the endpoint of bytes that were copied. `false`: there is no place for the message.
    fn commit(&mut self, going: &mut Going, copied: u32, beside: bool) -> Result<bool> {
        let end = match going.length {
            Some(length) => going.written >= length,
            None => !self.more && self.done >= self.len,
        };
        let handle = self.sock.handle();
        let mut locked = self.net.lock().ok_or(ENODEV)?;
        let (state, outbox) = locked.parts();
        match going.stage {
            Stage::New(beginning) => {
                let user = self.sock.user();
                let begun = state.start(handle, user, going, &beginning, copied, outbox)?;
                let Some((id, number)) = begun else {
                    return Ok(false);
                };
                going.stage = Stage::Begun(id, number);
                if end && (beginning.hidden || going.length.is_none()) {
                    let none = (0, false);
                    state.append(handle, id, number, going.written, none, true, outbox)?;
                }
                let sent = locked.send();
                if sent.is_err() {
                    // What may not begin need not be tried until the time-out.
                    if let Some(mut state) = self.net.lock() {
                        let (state, outbox) = state.parts();
                        // There is no message, and no report, unless it has failed by now.
                        let unreported = state.endpoint.out_mut(id).is_some();
                        state.abort_one(handle, number, id, now(), outbox);
                        if let Some(socket) = state.sockets.get_mut(handle).filter(|_| unreported) {
                            socket.not_begun(number);
                        }
                    }
                }
                sent?;
            }
            Stage::Begun(id, number) => {
                let copied = (copied, beside);
                state.append(handle, id, number, going.written, copied, end, outbox)?;
            }
        }
        Ok(true)
    }

    /// A message is not sent: the time of the call is over.
    fn abort(&mut self, going: &Going) -> Result {
        if let Stage::Begun(id, number) = going.stage {
            let mut state = self.net.lock().ok_or(ENODEV)?;
            let (state, outbox) = state.parts();
            state.abort_one(self.sock.handle(), number, id, now(), outbox);
        }
        Ok(())
    }

    /// Keeps the message open on the socket, if it goes on.
    fn finish(&mut self, going: Going, result: &Result) -> Result {
        let Stage::Begun(id, number) = going.stage else {
            return Ok(());
        };
        let ended = match going.length {
            Some(length) => going.written >= length,
            None => !self.more && self.done >= self.len && result.is_ok(),
        };
        if ended {
            return Ok(());
        }
        let handle = self.sock.handle();
        let mut state = self.net.lock().ok_or(ENODEV)?;
        let (state, outbox) = state.parts();
        if state.endpoint.out_mut(id).is_none() && self.told {
            return Ok(());
        }
        // If it has failed after this call gave its part, the call that goes on with it is told.
        let Some(socket) = state.sockets.get_mut(handle) else {
            return Ok(());
        };
        if socket.open.is_none() {
            socket.open = Some(Open {
                writer: going.writer,
                id,
                number,
                to: going.to,
                shares: going.shares,
                length: going.length,
                written: going.written,
            });
        } else {
            // Another thread left one open meanwhile: which one a next call would go on with,
            // nobody could say.
            state.abort_one(handle, number, id, now(), outbox);
        }
        Ok(())
    }
}

impl State {
    fn why_failed(&self, handle: u64, number: u32) -> Error {
        let errno = self
            .sockets
            .get(handle)
            .and_then(|socket| socket.failed)
            .filter(|(failed, _)| *failed == number);
        match errno {
            Some((_, errno)) => errno::error(errno),
            None => errno::reset(),
        }
    }

    /// Begins a message with `available` bytes. `None`: there is no place for it.
    #[inline(never)]
    fn start(
        &mut self,
        handle: u64,
        user: u32,
        going: &mut Going,
        beginning: &Beginning,
        available: u32,
        outbox: &mut Outbox,
    ) -> Result<Option<(OutId, u32)>> {
        let now = now();
        let charged = available.saturating_add(OVERHEAD);
        let written = going.data.take().ok_or(ENODEV)?;
        let most = match self.sockets.key(handle) {
            Some(_) => MAX_SEALED,
            None => MAX_MSS,
        };
        let socket = self.sockets.get_mut(handle).ok_or(ENODEV)?;
        let number = socket.next_outgoing;
        let share = going.share();
        socket.begin_sending(number, &share)?;
        if let Err(error) = socket.take(&share, charged) {
            socket.end_sending(number);
            outbox.free_written(written);
            return Err(error);
        }
        let path = beginning.path;
        let what = host::Outgoing {
            source: beginning.source,
            destination: going.to.port,
            length: going.length.filter(|_| !beginning.hidden),
            deadline: beginning.deadline.map(Nanos),
            coflow: beginning.coflow,
            priority: beginning.priority.or(socket.priority),
            mss: beginning.mss.min(most),
            available,
            user,
        };
        let message = Outgoing {
            socket: handle,
            number,
            written,
            acked: 0,
            charged,
            beside: 0,
            began: now,
            to: going.to,
            shares: going.shares,
            part: going.part,
            device: beginning.device,
            tie: beginning.tie,
        };
        let to = address(&path);
        let (endpoint, mut surroundings) = self.split(outbox, now);
        // The first number that it draws is the cookie.
        surroundings.drawn = Some(beginning.drawn);
        let sent = endpoint.send(Nanos(now), &to, &what, message, &mut surroundings);
        let socket = self.sockets.get_mut(handle).ok_or(ENODEV)?;
        match sent {
            Ok(id) => {
                if let Some(place) = socket.sending.get_mut(&number) {
                    *place = id;
                }
                socket.next_outgoing = number.wrapping_add(1);
                Ok(Some((id, number)))
            }
            Err((why, message)) => {
                socket.end_sending(number);
                socket.freed(&share, charged, 0);
                match why {
                    SendError::TooMany => {
                        going.data = Some(message.written);
                        Ok(None)
                    }
                    SendError::Length | SendError::NoMemory => {
                        outbox.free_written(message.written);
                        Err(match why {
                            SendError::Length => errno::too_long(),
                            _ => errno::no_room(),
                        })
                    }
                }
            }
        }
    }

    /// More of a message was written, all bytes below `available`: so many were copied, which are
    /// of what is beside the send buffer, or not.
    #[allow(clippy::too_many_arguments)] // facts of one write
    fn append(
        &mut self,
        handle: u64,
        id: OutId,
        number: u32,
        available: u32,
        (copied, beside): (u32, bool),
        end: bool,
        outbox: &mut Outbox,
    ) -> Result {
        let Some(message) = self.endpoint.out_mut(id) else {
            return Err(self.why_failed(handle, number));
        };
        message.charged = message.charged.saturating_add(copied);
        let share = message.share();
        if let Some(socket) = self.sockets.get_mut(handle) {
            // Without memory to note where they are, they are in the buffer.
            if beside && socket.take_beside(&share, copied) {
                message.beside = message.beside.saturating_add(copied);
            } else {
                socket.take(&share, copied)?;
            }
        }
        let now = now();
        let (endpoint, mut surroundings) = self.split(outbox, now);
        endpoint.written(Nanos(now), id, available, end, &mut surroundings);
        Ok(())
    }
}
