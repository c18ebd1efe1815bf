// SPDX-License-Identifier: GPL-2.0
//! The endpoint's [`Host`]: messages to and from the sockets, and packets out.

use core::cell::Cell;

use crate::errno::of_failure;
use crate::events::Events;
use crate::incoming::{Incoming, Kept};
use crate::keys::Choice;
use crate::memory::atomic;
use crate::outgoing::Outgoing;
use crate::ports;
use crate::socket::Socket;
use crate::sockets::Sockets;
use kernel::prelude::*;
use knet_transport::{Came, Departure, Outbox, Path, Report, Segments, Skb, SockAddress, Tie};
use turnstile_core::port::marker::field::ecn::{ECT_0, NOT_ECT};
use turnstile_core::transport::budget::{Place, Standing};
use turnstile_core::transport::config::Dscp;
use turnstile_core::transport::host::{
    Address, Class, Event, Failure, Host, InId, Least, OutId, Owner, Refusal, Sender, Slice,
};
use turnstile_core::transport::seal::{Key, Psk, Seal};
use turnstile_core::transport::wire::{self, Cookie, Delivered, ResetCode, Run, Sync};

/// The namespace's sockets and its way out, while the endpoint works.
pub(crate) struct Surroundings<'a> {
    pub(crate) sockets: &'a mut Sockets,
    pub(crate) events: &'a mut Events,
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) dscp: Dscp,
    /// By how much receive buffers may have grown, in the kernel's way of counting.
    pub(crate) receive_memory: u32,
    /// ns.
    pub(crate) now: u64,
    /// The device that the packet came by that is being worked on; the VRF, if that is in one, and
    /// then the device in it.
    pub(crate) device: u32,
    pub(crate) slave: u32,
    /// The socket that was asked whether it may have the packet.
    pub(crate) found: Option<Found>,
    /// Of the messages that the packet says are complete, those whose sockets may not have it.
    pub(crate) unheard: Option<&'a Delivered>,
    /// The first random number that the endpoint gets.
    pub(crate) drawn: Option<u64>,
    /// Whether anybody listens, once that was asked.
    pub(crate) heard: Cell<Option<bool>>,
}

/// A socket that may have a packet.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) handle: u64,
    /// It is the one that [`Surroundings::find`] finds for the message that the packet opens: there
    /// was none before, and nobody has had the lock since.
    pub(crate) listens: bool,
}

impl Surroundings<'_> {
    /// The VRF that the packet came by; 0: none.
    fn vrf(&self) -> u32 {
        if self.slave != 0 {
            self.device
        } else {
            0
        }
    }

    fn socket(&mut self, handle: u64) -> Option<&mut Socket> {
        self.sockets.get_mut(handle)
    }

    /// Puts a packet into the outbox.
    #[inline]
    #[allow(clippy::too_many_arguments)] // facts of one packet
    fn depart(
        &mut self,
        owner: Owner<'_, Outgoing, Kept>,
        to: &Address,
        class: Class,
        ren: bool,
        header: &[u8],
        payload: Option<Slice<'_, Outgoing>>,
        seal: Option<&knet_transport::Seal>,
    ) {
        let dscp = match class {
            Class::Signal => self.dscp.signal,
            Class::Token(_) => self.dscp.token,
            Class::Data | Class::Paced => self.dscp.data,
            Class::Unscheduled => self.dscp.unscheduled,
        };
        // ECN is Not-ECT, also for REN: its marks are not those of RFC 3168, and ports write them
        // into packets that say REN. What is paced here asks for marks.
        let _ = ren;
        let ecn = match class {
            Class::Paced => ECT_0,
            _ => NOT_ECT,
        };
        let (handle, tie) = self.tie(owner);
        self.outbox.add(&Departure {
            to: path(to),
            socket: self.sockets.get(handle).map(|socket| &*socket.sock),
            tie,
            head: header,
            payload: payload
                .as_ref()
                .map(|slice| (&slice.message.written, slice.offset, slice.len)),
            port: wire::source_port(header),
            tos: dscp << 2 | ecn,
            seal,
            counts: class == Class::Paced,
        });
    }

    /// The socket whose a packet is, and what it is tied to.
    fn tie(&self, owner: Owner<'_, Outgoing, Kept>) -> (u64, Tie) {
        let (handle, device, tie) = match owner {
            Owner::Out(message) => (message.socket, message.device, message.tie),
            // The socket's own device is one of its VRF's, if it has both.
            Owner::In(message) if message.tie.device != 0 => (message.socket, 0, message.tie),
            Owner::In(message) => (message.socket, message.vrf, message.tie),
            // What answers a packet of a VRF stays in it.
            Owner::Nobody => (0, self.vrf(), Tie::default()),
            Owner::Ended(handle) => (handle, 0, Tie::default()),
        };
        let device = if device != 0 { device } else { tie.device };
        (handle, Tie { device, ..tie })
    }

    /// The socket for a message of `from` to a port of the address `to`.
    pub(crate) fn find(&self, from: &SockAddress, to: &[u8; 16], port: u16) -> Option<u64> {
        let from = ports::peer(from);
        // A socket may be bound to the device in the VRF or to the VRF.
        let devices = [self.slave, self.device];
        self.sockets.ports.find(port, &from, to, &devices)
    }
}

fn path(to: &Address) -> Path {
    Path {
        ip: to.ip,
        local: to.local,
        scope: to.scope,
    }
}

/// So many packets of a row are made at once.
const ROW: usize = 8;

impl<'a> Host<Outgoing, Kept> for Surroundings<'a> {
    type Payload = Skb;
    type Whole = Came<'a>;

    fn random(&mut self) -> u64 {
        self.drawn.take().unwrap_or_else(knet_transport::random)
    }

    #[inline]
    fn transmit(
        &mut self,
        owner: Owner<'_, Outgoing, Kept>,
        to: &Address,
        class: Class,
        ren: bool,
        header: &[u8],
        payload: Option<Slice<'_, Outgoing>>,
    ) {
        self.depart(owner, to, class, ren, header, payload, None);
    }

    fn transmit_run(&mut self, message: &Outgoing, to: &Address, run: &Run) {
        let (handle, tie) = self.tie(Owner::Out(message));
        let mut heads = [[0; wire::DATA_LEN]; ROW];
        let mut departure = Departure {
            to: path(to),
            socket: self.sockets.get(handle).map(|socket| &*socket.sock),
            tie,
            head: &[],
            payload: None,
            port: run.data.cookie.source_port(),
            tos: self.dscp.data << 2 | NOT_ECT,
            seal: None,
            counts: false,
        };
        let mut first = 0;
        while first < run.packets {
            let mut end = first;
            let mut made = 0_usize;
            for head in &mut heads {
                if end < run.packets {
                    *head = run.head(end);
                    (end, made) = (end.saturating_add(1), made.saturating_add(1));
                }
            }
            let (offset, len) = run.bytes(first, end);
            departure.payload = Some((&message.written, offset, len));
            let heads = heads.get(..made).unwrap_or(&heads);
            self.outbox.add_run(&departure, heads, run.each);
            first = end;
        }
    }

    // Not inlined: keys take room on the stack.
    #[inline(never)]
    fn transmit_sealed(
        &mut self,
        owner: Owner<'_, Outgoing, Kept>,
        to: &Address,
        class: Class,
        ren: bool,
        header: &[u8],
        payload: Option<Slice<'_, Outgoing>>,
        seal: &Seal,
    ) {
        let label = &seal.label;
        let seal = knet_transport::Seal::new(&seal.key, label.nonce(), label.write());
        self.depart(owner, to, class, ren, header, payload, Some(&seal));
    }

    fn has_room_below(&mut self, id: OutId, message: &Outgoing, link: u32, most: u32) -> bool {
        let name = u64::from(id.generation) << 32 | u64::from(id.index);
        self.outbox.has_room(&message.written, name, link, most)
    }

    fn below(&self, link: u32) -> u32 {
        self.outbox.below(link)
    }

    fn ended(&self, message: &Outgoing) -> Option<u64> {
        let any = message.device == 0 && message.tie == Tie::default();
        any.then_some(message.socket)
    }

    fn received(&self, message: &Kept) -> Option<u64> {
        let any = message.vrf == 0 && message.tie == Tie::default();
        any.then_some(message.socket)
    }

    fn is_awaited(&self, message: &Outgoing) -> bool {
        let socket = self.sockets.get(message.socket);
        socket.is_some_and(|socket| socket.completions)
    }

    fn hears(&self, cookie: Cookie) -> bool {
        let unheard = self.unheard;
        unheard.is_none_or(|unheard| !unheard.cookies().contains(&cookie))
    }

    fn hmac(&self, key: &[u8], data: &[u8]) -> Option<Key> {
        Some(knet_transport::hmac(key, data))
    }

    fn key_to_send(&self, message: &Outgoing) -> Option<Psk> {
        self.sockets.key(message.socket)
    }

    fn key_to_open(&self, id: u32) -> Option<Psk> {
        self.sockets.keys.find(id)
    }

    fn may_begin(&self, from: &Address, sync: &Sync, key: Option<u32>) -> bool {
        let sender = SockAddress {
            ip: from.ip,
            scope: from.scope,
            port: sync.source,
        };
        let found = match self.found {
            Some(found) => Some(found.handle),
            None => self.find(&sender, &from.local, sync.destination),
        };
        let keys = &self.sockets.keys;
        match found.and_then(|handle| self.sockets.get(handle)) {
            Some(socket) => socket.choice.admits(keys, key),
            // Who has the namespace's key is told that nobody listens.
            None => Choice::Namespace.admits(keys, key),
        }
    }

    fn open(
        &mut self,
        from: &Address,
        sync: &Sync,
        id: InId,
        from_whom: Sender,
    ) -> Result<(Kept, u32), Refusal> {
        let sender = SockAddress {
            ip: from.ip,
            scope: from.scope,
            port: sync.source,
        };
        let handle = match self.found {
            Some(found) if found.listens => Some(found.handle),
            _ => self.find(&sender, &from.local, sync.destination),
        };
        let handle = handle.ok_or(Refusal::Reset(ResetCode::NoSocket))?;
        if self.found.is_some_and(|asked| asked.handle != handle) {
            // The socket that was asked is that of a forged one, which had the cookie, and another
            // port. It is gone by now: the sender will repeat it, and the right one is asked.
            return Err(Refusal::Ignore);
        }
        let now = self.now;
        let ample = |it: &Socket| it.buffer.budget.is_ample(sync.length);
        if !self.sockets.get(handle).is_some_and(ample) {
            self.sockets.measure(handle, self.receive_memory);
        }
        let socket = self
            .socket(handle)
            .ok_or(Refusal::Reset(ResetCode::NoSocket))?;
        if socket.sock.no_receive() {
            return Err(Refusal::Reset(ResetCode::Closed));
        }
        let held = KBox::<Incoming>::new_uninit(atomic()).map_err(|_| Refusal::Ignore)?;
        let slot = socket.slot().map_err(|_| Refusal::Ignore)?;
        let admitted = socket.admit(id, &sender, sync.length, &from_whom);
        let (number, place, window) = admitted.ok_or(Refusal::Ignore)?;
        let tie = socket.sock.tie();
        self.sockets.resize(handle);
        let message = held.write(Incoming {
            socket: handle,
            number,
            from: sender,
            local: from.local,
            device: if self.slave != 0 {
                self.slave
            } else {
                self.device
            },
            vrf: self.vrf(),
            tie,
            segments: Segments::new(),
            length: sync.length,
            contiguous: 0,
            read: 0,
            window,
            place,
            standing: match from_whom.proved {
                true => Standing::Known,
                false => Standing::Stranger,
            },
            stalled: from_whom.stalled,
            kept: 0,
            begun: false,
            began: now,
            order: None,
            slot: Some(slot),
        });
        Ok((message, window))
    }

    fn in_proven(&mut self, id: InId, message: &mut Kept) -> bool {
        if message.standing != Standing::Stranger {
            return true;
        }
        let handle = message.socket;
        let Some(socket) = self.sockets.get_mut(handle) else {
            return true;
        };
        if socket.buffer.prove(id, message).is_err() {
            return false;
        }
        if socket.buffer.budget.is_wanted() {
            self.sockets.mark_promotable(handle);
        }
        true
    }

    fn data(
        &mut self,
        _id: InId,
        message: &mut Kept,
        offset: u32,
        (head, skip): (u32, u32),
        len: u32,
        payload: Skb,
    ) -> bool {
        let end = offset.saturating_add(len);
        if end > message.window {
            return false;
        }
        let skip = skip.saturating_add(head);
        let Some(socket) = self.sockets.get(message.socket) else {
            return false;
        };
        let most = socket.buffer.budget.memory(message.place, message.window);
        let promised = socket.buffer.budget.promised();
        let segments = &mut message.segments;
        segments.insert(&socket.sock, payload, offset..end, skip, most, promised)
    }

    fn data_of_run(
        &mut self,
        _id: InId,
        message: &mut Kept,
        run: &Run,
        came: Came<'a>,
    ) -> core::result::Result<(), Came<'a>> {
        let (start, end) = (
            run.data.offset,
            run.data.offset.saturating_add(run.data.len),
        );
        let socket = self.sockets.get(message.socket);
        let Some(socket) = socket.filter(|_| end <= message.window) else {
            return Err(came);
        };
        let most = socket.buffer.budget.memory(message.place, message.window);
        let promised = socket.buffer.budget.promised();
        let (segments, slices) = (&mut message.segments, (wire::DATA_LEN as u32, run.each));
        segments.insert_whole(&socket.sock, came, start..end, slices, most, promised)
    }

    fn in_length(&mut self, _id: InId, message: &mut Kept, length: u32) {
        message.length = Some(length);
    }

    fn in_progress(&mut self, _id: InId, message: &mut Kept, contiguous: u32) {
        message.contiguous = contiguous;
        // All others are read when they are complete.
        if message.place != Place::Exclusive {
            return;
        }
        if let Some(socket) = self.sockets.get_mut(message.socket) {
            socket.notice(message);
        }
    }

    fn is_wanted(&mut self, message: &Kept) -> Option<Least> {
        let socket = self.sockets.get(message.socket)?;
        // One that shares waits itself, and has an eighth with others; one that waits has nothing.
        let holds = !matches!(message.place, Place::Shared | Place::Waiting);
        let room = socket.buffer.budget.is_wanted() && holds;
        if room || socket.is_read_for_others(message) {
            return Some(message.least());
        }
        // Others are slower without what it has of what all buffers may grow by.
        let growth = holds && self.sockets.stunts_others(&socket.buffer);
        growth.then(|| message.least_slow())
    }

    fn is_urgent(&mut self, message: &Kept) -> bool {
        let socket = self.sockets.get(message.socket);
        socket.is_some_and(|socket| socket.is_read_for_others(message))
    }

    fn in_done(&mut self, _id: InId, mut message: Kept) {
        if let Some(length) = message.length {
            message.contiguous = length;
        }
        let handle = message.socket;
        if let Some(socket) = self.socket(handle) {
            socket.complete(message);
            // Others may have what it was given and did not need. Or it waits for another's end.
            if socket.buffer.budget.is_wanted() || socket.read_for_others().is_some() {
                self.sockets.mark_promotable(handle);
            }
        }
    }

    fn in_failed(&mut self, _id: InId, message: Kept, why: Failure) {
        let handle = message.socket;
        if let Some(socket) = self.socket(handle) {
            if why == Failure::Stalled && message.standing != Standing::Stranger {
                socket.buffer.stalled(&message.from);
            }
            socket.fail(&message, of_failure(why));
            if socket.buffer.budget.is_wanted() {
                self.sockets.mark_promotable(handle);
            } else {
                self.sockets.resize(handle);
            }
        }
        self.outbox.free(KBox::into_inner(message).segments);
    }

    fn out_acked(&mut self, _id: OutId, message: &mut Outgoing, received: u32) {
        let more = received.saturating_sub(message.acked);
        if more == 0 {
            return;
        }
        message.acked = received;
        self.outbox.release(&mut message.written, received);
        let freed = more.min(message.charged);
        message.charged = message.charged.saturating_sub(freed);
        // What others wait for first.
        let beside = freed.min(message.beside);
        message.beside = message.beside.saturating_sub(beside);
        if let Some(socket) = self.socket(message.socket) {
            socket.freed(&message.share(), freed, beside);
        }
    }

    fn out_drained(&mut self, message: &mut Outgoing) {
        if let Some(socket) = self.socket(message.socket) {
            socket.look_again();
        }
    }

    fn out_done(&mut self, _id: OutId, message: Outgoing, result: Result<(), Failure>) {
        let now = self.now;
        let (handle, share) = (message.socket, message.share());
        self.sockets.waiting.place_came_free(now);
        self.outbox.free_written(message.written);
        let Some(socket) = self.socket(handle) else {
            return;
        };
        let errno = match result {
            Ok(()) => 0,
            Err(failure) => of_failure(failure),
        };
        socket.end_sending(message.number);
        socket.freed(&share, message.charged, message.beside);
        if errno != 0 {
            socket.failed = Some((message.number, errno));
        }
        if errno != 0 || socket.completions {
            let elapsed = now.saturating_sub(message.began) / 1000;
            socket.sock.report(&Report {
                peer: message.to,
                error: errno,
                elapsed: u32::try_from(elapsed).unwrap_or(u32::MAX),
                number: message.number,
            });
        }
        if errno != 0 {
            if socket.sock.is_connected() {
                socket.sock.set_error(errno);
            }
            // Who waits for room in this very message need not wait.
            socket.sock.writable();
        }
        if socket.sending.is_empty() {
            // Who lingers waits for this.
            socket.sock.writable();
        }
        let gone = socket.closed && socket.sending.is_empty();
        if gone {
            self.sockets.remove(handle);
        }
    }

    fn listens(&self) -> bool {
        if let Some(heard) = self.heard.get() {
            return heard;
        }
        let heard = self.outbox.is_heard();
        self.heard.set(Some(heard));
        heard
    }

    fn event(&mut self, event: &Event) {
        self.events.note(self.outbox, event);
    }
}
