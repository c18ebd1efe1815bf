// SPDX-License-Identifier: GPL-2.0
//! The endpoint's user in the model: it checks that each byte of a message comes once, and
//! completion only when all have come.

use std::cell::Cell;
use std::collections::HashMap;

use turnstile_core::transport::host::*;
use turnstile_core::transport::seal::{self, Psk, Seal};
use turnstile_core::transport::wire::{self, Cookie, Packet, ResetCode, Sync};

use crate::cipher;

/// Memory for endpoints.
pub(crate) enum Std {}

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that this thread's endpoints have asked for, ever.
pub(crate) fn bytes_allocated() -> usize {
    ALLOCATED.get()
}

impl Memory for Std {
    type Chunk<T> = Vec<T>;
    fn chunk<T>(len: usize, fill: impl FnMut(usize) -> T) -> Option<Vec<T>> {
        ALLOCATED.set(ALLOCATED.get() + len * size_of::<T>());
        Some((0..len).map(fill).collect())
    }
}

/// Host `n`'s address, as another host sees it.
pub(crate) fn address(n: usize, local: usize, v6: bool) -> Address {
    let of = |n: usize| {
        let mut ip = [0; 16];
        if v6 {
            (ip[0], ip[1]) = (0xfd, 0x77);
        } else {
            (ip[10], ip[11], ip[12]) = (0xff, 0xff, 10);
        }
        (ip[14], ip[15]) = ((n >> 8) as u8, n as u8);
        ip
    };
    Address {
        ip: of(n),
        local: of(local),
        scope: 0,
    }
}

/// The number of a host with such an address.
pub(crate) fn number(ip: &[u8; 16]) -> usize {
    usize::from(u16::from_be_bytes([ip[14], ip[15]]))
}

/// The test's view of a message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) to: usize,
    pub(crate) length: u32,
    pub(crate) began: u64,
    /// When it was delivered to the receiver.
    pub(crate) delivered: Option<u64>,
    /// The result that the sender was told, and when.
    pub(crate) result: Option<(u64, Result<(), Failure>)>,
    pub(crate) failed_in: Option<Failure>,
    /// Bytes that have come.
    pub(crate) received: u32,
    /// Tokens' worth of data that came: of each of the network's windows.
    pub(crate) bytes_by: Vec<u32>,
    /// What is not written at first is written no sooner.
    pub(crate) held: u64,
    /// When something was written last.
    pub(crate) written: u64,
}

/// The number that an attacker's messages from its own address have.
pub(crate) const RIVAL: usize = usize::MAX - 1;

/// All messages of a test.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) messages: Vec<Message>,
    /// For rates over time: the width of the windows, ns; 0: none are kept.
    pub(crate) window: u64,
    /// Bytes of data that came to any host.
    pub(crate) bytes: u64,
    /// Bytes that were taken of an attacker with an address of its own.
    pub(crate) rival: u64,
    /// Messages of an attacker that were delivered.
    pub(crate) forged: u64,
}

/// The user's data for an outgoing message: its number.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) message: usize,
    pub(crate) acked: u32,
}

/// The user's data for an incoming message.
#[derive(Debug)]
pub(crate) struct In {
    cookie: Cookie,
    /// Known when the first data comes.
    message: Option<usize>,
    length: Option<u32>,
    /// Which bytes have come: starts and ends.
    ranges: Vec<(u32, u32)>,
    contiguous: u32,
    pub(crate) window: u32,
}

/// A part of a message in a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    pub(crate) message: usize,
    pub(crate) offset: u32,
    pub(crate) len: u32,
}

/// A packet that the endpoint wants sent.
pub(crate) struct Sent {
    pub(crate) to: Address,
    pub(crate) class: Class,
    pub(crate) packet: Packet,
    pub(crate) header: usize,
    pub(crate) payload: Option<Payload>,
    /// Its bytes, if it is sealed.
    pub(crate) sealed: Option<Vec<u8>>,
}

/// A message's packets in its host's own port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Below {
    pub(crate) packets: u32,
    /// The endpoint waits for one to leave.
    pub(crate) wanted: Option<OutId>,
}

/// The user of one host's endpoint.
pub(crate) struct Io<'a> {
    pub(crate) now: u64,
    pub(crate) random: &'a mut u64,
    pub(crate) registry: &'a mut Registry,
    pub(crate) sent: Vec<Sent>,
    /// By message.
    pub(crate) below: &'a mut HashMap<usize, Below>,
    /// Bytes that may come of a message before it is read.
    pub(crate) window: u32,
    /// Messages of which some bytes could be read, and up to where.
    pub(crate) readable: Vec<(InId, u32)>,
    pub(crate) ports: &'a HashMap<u16, Policy>,
    /// Fails one in so many [`Host::data`]; 0: none.
    pub(crate) no_memory: u64,
    /// What [`Host::is_wanted`] says of each message.
    pub(crate) wanted: Option<u32>,
    /// The message that the packet that is handled was said to belong to.
    pub(crate) asked: Option<Cookie>,
    /// The host's keys: the first is sent with.
    pub(crate) keys: &'a [Psk],
    /// Whether messages are to be sealed.
    pub(crate) sealing: Sealing,
}

/// That a packet says whose it is: what a socket's owner is asked for goes by that.
fn owned(owner: &Owner<'_, Out, In>, packet: &Packet, payload: Option<&Slice<'_, Out>>) {
    match (owner, packet) {
        (Owner::Out(out), Packet::Data(_) | Packet::First(_)) => {
            assert_eq!(payload.map(|p| p.message.message), Some(out.message));
        }
        (Owner::Out(_), Packet::Sync(_) | Packet::Fin(_) | Packet::Ack(_) | Packet::Reset(_)) => {}
        (Owner::Out(_), Packet::Challenge(it)) => assert!(it.ticket),
        (
            Owner::In(message),
            Packet::Token(_)
            | Packet::Resend(_)
            | Packet::Ack(_)
            | Packet::Reset(_)
            | Packet::Challenge(_),
        ) => assert_eq!(message.cookie, packet.cookie()),
        // Of what is known no longer.
        (Owner::Nobody, Packet::Reset(_) | Packet::Challenge(_)) => {}
        (Owner::Ended(_), Packet::Confirm(_) | Packet::Delivered(_)) => {}
        (Owner::Nobody, Packet::Ack(ack)) => assert!(ack.last, "of a message that is known"),
        (owner, packet) => panic!("{packet:?} of {owner:?}"),
    }
}

impl In {
    pub(crate) fn cookie(&self) -> Cookie {
        self.cookie
    }
}

/// How a listening port treats messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Policy {
    Refuse(ResetCode),
    Ignore,
}

pub(crate) fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *random;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Host<Out, In> for Io<'_> {
    type Payload = Option<Payload>;
    type Whole = ();

    fn random(&mut self) -> u64 {
        next(self.random)
    }

    fn transmit(
        &mut self,
        owner: Owner<'_, Out, In>,
        to: &Address,
        class: Class,
        _: bool,
        header: &[u8],
        payload: Option<Slice<'_, Out>>,
    ) {
        let len = payload.as_ref().map_or(0, |p| p.len as usize);
        let packet = wire::parse(header, header.len() + len).expect("what is sent is well-formed");
        owned(&owner, &packet, payload.as_ref());
        if let (Class::Paced, Owner::Out(out)) = (class, &owner) {
            self.below.entry(out.message).or_default().packets += 1;
        }
        let payload = payload.map(|p| {
            assert!(
                p.offset >= p.message.acked,
                "what was acknowledged is not sent again"
            );
            Payload {
                message: p.message.message,
                offset: p.offset,
                len: p.len,
            }
        });
        self.sent.push(Sent {
            to: *to,
            class,
            packet,
            header: header.len(),
            payload,
            sealed: None,
        });
    }

    fn transmit_sealed(
        &mut self,
        owner: Owner<'_, Out, In>,
        to: &Address,
        class: Class,
        ren: bool,
        header: &[u8],
        payload: Option<Slice<'_, Out>>,
        seal: &Seal,
    ) {
        let sealed = |packet| wire::is_sealed(header, packet);
        let len = payload.as_ref().map_or(0, |p| p.len as usize) + seal::SEAL_LEN + header.len();
        assert!(sealed(len));
        let packet = wire::parse_sealed(header, len).expect("what is sent is well-formed");
        let mut plain = [0; wire::MAX_HEADER];
        let written = packet.write(&mut plain);
        self.transmit(owner, to, class, ren, &plain[..written], payload);
        let sent = self.sent.last_mut().expect("it was just sent");
        sent.sealed = Some(cipher::seal(header, sent.payload, seal));
        sent.header += seal::SEAL_LEN;
    }

    fn has_room_below(&mut self, id: OutId, message: &Out, _: u32, most: u32) -> bool {
        let below = self.below.entry(message.message).or_default();
        let room = below.packets < most;
        if !room {
            below.wanted = Some(id);
        }
        room
    }

    // A host of the model sends by one link.
    fn below(&self, _: u32) -> u32 {
        self.below.values().map(|below| below.packets).sum()
    }

    fn hmac(&self, key: &[u8], data: &[u8]) -> Option<seal::Key> {
        cipher::mac(key, data)
    }

    fn key_to_send(&self, _: &Out) -> Option<Psk> {
        self.keys
            .first()
            .copied()
            .filter(|_| self.sealing == Sealing::All)
    }

    fn key_to_open(&self, id: u32) -> Option<Psk> {
        self.keys.iter().find(|key| key.id == id).copied()
    }

    fn may_begin(&self, _: &Address, _: &Sync, key: Option<u32>) -> bool {
        self.sealing == Sealing::Some || key.is_some() == (self.sealing == Sealing::All)
    }

    fn open(&mut self, _: &Address, sync: &Sync, _: InId, _: Sender) -> Result<(In, u32), Refusal> {
        match self.ports.get(&sync.destination) {
            Some(Policy::Refuse(code)) => return Err(Refusal::Reset(*code)),
            Some(Policy::Ignore) => return Err(Refusal::Ignore),
            None => {}
        }
        let message = In {
            cookie: sync.cookie,
            message: None,
            length: sync.length,
            ranges: Vec::new(),
            contiguous: 0,
            window: self.window,
        };
        Ok((message, self.window))
    }

    fn data(
        &mut self,
        _: InId,
        message: &mut In,
        offset: u32,
        (_, skip): (u32, u32),
        len: u32,
        payload: Option<Payload>,
    ) -> bool {
        if self.no_memory != 0 && next(self.random) % self.no_memory == 0 {
            return false;
        }
        let payload = payload.expect("data has a payload");
        // Who may refuse it was asked.
        assert_eq!(self.asked, Some(message.cookie));
        assert_eq!(payload.offset + skip, offset);
        assert!(skip + len <= payload.len && len > 0);
        assert_eq!(
            *message.message.get_or_insert(payload.message),
            payload.message
        );
        let (start, end) = (offset, offset + len);
        assert!(end <= message.window, "beyond the window");
        let place = message.ranges.partition_point(|r| r.1 < start);
        let all = &mut message.ranges;
        let mut new = (start, end);
        while all.get(place).is_some_and(|r| r.0 <= end) {
            let old = all.remove(place);
            assert!(old.1 <= start || old.0 >= end, "told twice: {start}..{end}");
            new = (new.0.min(old.0), new.1.max(old.1));
        }
        all.insert(place, new);
        let window = self.registry.window;
        self.registry.bytes += u64::from(len);
        let Some(entry) = self.registry.messages.get_mut(payload.message) else {
            // Of a message that an attacker began.
            if payload.message == RIVAL {
                self.registry.rival += u64::from(len);
            }
            return true;
        };
        entry.received += len;
        if let Some(window) = self.now.checked_div(window) {
            let window = window as usize;
            if entry.bytes_by.len() <= window {
                entry.bytes_by.resize(window + 1, 0);
            }
            entry.bytes_by[window] += len;
        }
        true
    }

    fn in_length(&mut self, _: InId, message: &mut In, length: u32) {
        assert_eq!(message.length.replace(length), None);
    }

    fn in_progress(&mut self, id: InId, message: &mut In, contiguous: u32) {
        assert!(contiguous > message.contiguous);
        assert!(message.ranges[0].0 == 0 && message.ranges[0].1 == contiguous);
        message.contiguous = contiguous;
        self.readable.push((id, contiguous));
    }

    fn is_wanted(&mut self, _: &In) -> Option<Least> {
        let always = true;
        self.wanted.map(|bytes| Least { bytes, always })
    }

    fn in_done(&mut self, _: InId, message: In) {
        let number = message.message.expect("a message has bytes");
        let Some(entry) = self.registry.messages.get_mut(number) else {
            self.registry.forged += 1;
            return;
        };
        assert_eq!(message.ranges, [(0, entry.length)], "message {number}");
        assert_eq!(message.length, Some(entry.length));
        assert_eq!(entry.delivered.replace(self.now), None, "delivered twice");
    }

    fn in_failed(&mut self, _: InId, message: In, why: Failure) {
        let entry = message
            .message
            .and_then(|number| self.registry.messages.get_mut(number));
        if let Some(entry) = entry {
            entry.failed_in = Some(why);
        }
    }

    fn out_acked(&mut self, _: OutId, message: &mut Out, received: u32) {
        assert!(received > message.acked);
        message.acked = received;
    }

    fn out_done(&mut self, _: OutId, message: Out, result: Result<(), Failure>) {
        let entry = &mut self.registry.messages[message.message];
        if result.is_ok() {
            assert!(
                entry.delivered.is_some(),
                "said to be delivered, and is not"
            );
        }
        assert!(entry.result.replace((self.now, result)).is_none());
    }

    fn listens(&self) -> bool {
        true
    }

    fn event(&mut self, _: &Event) {}
}
