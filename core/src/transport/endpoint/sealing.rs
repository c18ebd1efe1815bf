// SPDX-License-Identifier: GPL-2.0
//! Sealed messages: which key a packet is sealed with, and what a packet that is sealed may do.
//!
//! All that comes sealed is opened by the user, with what [`Endpoint::opening`] says, and handed to
//! [`Endpoint::opened`] only if the seal is right. So nobody without the key draws a byte, or
//! changes anything but a counter.
//!
//! A message's sender draws a random number when it begins, and puts it into each of its packets,
//! as the receiver does with one of its own. SYNC, FIN and the last ACK can be opened with the
//! pre-shared key and what is in them, so that they find a receiver that knows nothing of the
//! message, or no longer; they are numbered, and a receiver that knows the message takes each once.
//! Where the receiver knows nothing, they may be old ones that somebody sends again. What an old
//! one begins is never delivered: that takes a packet that was made with the receiver's number.
//!
//! The sender believes a receiver's number that it does not know only if it was chosen for a later
//! packet than the last one was. So nobody can bring back what an earlier receiver said.

use super::*;
use crate::transport::seal::{self, Came, Kind, Label, NUMBERS};

/// A sealed packet of a message that is not here. Its keys are 0 when it was handled.
#[derive(Clone, Copy)]
pub(super) struct Current {
    root: seal::Key,
    first: seal::Key,
    label: Option<Label>,
}

impl Current {
    pub(super) const NONE: Self = Self {
        root: [0; seal::KEY_LEN],
        first: [0; seal::KEY_LEN],
        label: None,
    };

    #[inline]
    pub(super) fn is_some(&self) -> bool {
        self.label.is_some()
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> [seal::Key; 2] {
        [self.root, self.first]
    }
}

/// How a sealed packet is to be opened.
pub struct Opening {
    /// The cipher's key.
    pub key: seal::Key,
    /// What came behind the packet.
    pub label: Label,
    /// Of a packet of no message that is here: what its keys follow from.
    root: seal::Key,
    of: Of,
}

#[derive(Clone, Copy)]
enum Of {
    In(InId),
    Out(OutId),
    Nothing,
}

/// Whether such packets are sealed like this. No other end may have sent them.
fn fits(packet: &Packet, kind: Kind) -> bool {
    match packet {
        Packet::Sync(_) | Packet::Fin(_) => kind == Kind::First,
        Packet::Token(_) | Packet::Resend(_) | Packet::Challenge(_) => kind == Kind::Receiver,
        Packet::Data(_) => kind != Kind::Receiver,
        Packet::Ack(ack) if ack.last => kind != Kind::Sender,
        // As in `on_ack`.
        Packet::Ack(ack) if ack.window < ack.received => kind == Kind::Sender,
        Packet::Ack(_) => kind == Kind::Receiver,
        Packet::Reset(reset) if reset.code == ResetCode::Aborted => kind != Kind::Receiver,
        Packet::Reset(_) => true,
        // As the parser says.
        Packet::First(_) | Packet::Confirm(_) | Packet::Delivered(_) => false,
    }
}

/// Whether it is to be opened without knowing the message.
fn is_alone(packet: &Packet) -> bool {
    match packet {
        Packet::Sync(_) | Packet::Fin(_) => true,
        Packet::Ack(ack) => ack.last,
        _ => false,
    }
}

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// Whether a packet that is not sealed may not be taken.
    #[cold]
    #[inline(never)]
    pub(super) fn should_be_sealed<H: Host<O, I>>(
        &self,
        from: &Address,
        packet: &Packet,
        host: &H,
    ) -> bool {
        let cookie = packet.cookie();
        let out = self.find_out(cookie, from).ok();
        if let Some(out) = out.and_then(|index| self.outs.get(index)) {
            return out.sealed;
        }
        let found = self.find_in(cookie, from);
        if let Some(message) = found.and_then(|index| self.ins.get(index)) {
            return message.sealed;
        }
        let hash = self.hash_in(cookie, from);
        if let Some(sealed) = self.remembered.sealed(hash, cookie, from) {
            return sealed;
        }
        match (self.sealing, packet) {
            (Sealing::Off, _) => false,
            (_, Packet::Sync(sync)) => !host.may_begin(from, sync, None),
            (_, Packet::First(first)) => !host.may_begin(from, &first.sync, None),
            // What it says of sealed ones is not believed.
            (_, Packet::Confirm(_) | Packet::Delivered(_)) => false,
            (sealing, _) => sealing == Sealing::All,
        }
    }

    /// How to open a sealed packet. `None`: it is not to be taken, and was counted.
    #[inline(never)]
    pub fn opening<H: Host<O, I>>(
        &mut self,
        from: &Address,
        packet: &Packet,
        label: &Label,
        host: &H,
    ) -> Option<Opening> {
        let found = match label.kind {
            _ if !fits(packet, label.kind) => Err(Counter::SealWrong),
            Kind::Receiver => self.opening_of_out(from, packet, label, host),
            Kind::First | Kind::Sender => self.opening_of_in(from, packet, label, host),
        };
        found.map_err(|why| self.stats.count(why)).ok()
    }

    /// A packet whose seal was not right.
    pub fn not_opened(&mut self) {
        self.stats.count(Counter::SealWrong);
    }

    fn opening_of_out<H: Host<O, I>>(
        &self,
        from: &Address,
        packet: &Packet,
        label: &Label,
        host: &H,
    ) -> Result<Opening, Counter> {
        let index = self.find_out(packet.cookie(), from).ok();
        let index = index.filter(|&index| self.outs.get(index).is_some_and(|out| out.sealed));
        let index = index.ok_or(Counter::SealUnknown)?;
        let sealed = self.out_sealed.get(index).ok_or(Counter::SealUnknown)?;
        let key = if sealed.their_random == Some(label.random) {
            if !sealed.came.is_new(label.number) {
                return Err(Counter::SealReplayed);
            }
            sealed.theirs
        } else {
            if !is_later(sealed, label) {
                return Err(Counter::SealReplayed);
            }
            let mac = |key: &[u8], data: &[u8]| host.hmac(key, data);
            seal::expand(mac, &sealed.root, Kind::Receiver, label.random, from, true)
                .ok_or(Counter::SealKey)?
        };
        Ok(Opening {
            key,
            label: *label,
            root: [0; seal::KEY_LEN],
            of: Of::Out(self.out_id(index)),
        })
    }

    fn opening_of_in<H: Host<O, I>>(
        &self,
        from: &Address,
        packet: &Packet,
        label: &Label,
        host: &H,
    ) -> Result<Opening, Counter> {
        if let Some(index) = self.find_in(packet.cookie(), from) {
            let is_sealed = self.ins.get(index).is_some_and(|message| message.sealed);
            let sealed = self.in_sealed.get(index).filter(|_| is_sealed);
            let sealed = sealed.ok_or(Counter::SealWrong)?;
            if sealed.their_random != Some(label.random) {
                return Err(Counter::SealWrong);
            }
            if !sealed.came.is_new(label.number) {
                return Err(Counter::SealReplayed);
            }
            return Ok(Opening {
                key: match label.kind {
                    Kind::First => sealed.first,
                    Kind::Sender | Kind::Receiver => sealed.theirs,
                },
                label: *label,
                root: [0; seal::KEY_LEN],
                of: Of::In(self.in_id(index)),
            });
        }
        if !is_alone(packet) {
            return Err(Counter::SealUnknown);
        }
        let psk = host.key_to_open(label.word).ok_or(Counter::SealKey)?;
        let mac = |key: &[u8], data: &[u8]| host.hmac(key, data);
        let root = seal::root(mac, &psk.key, packet.cookie(), label.random);
        let root = root.ok_or(Counter::SealKey)?;
        let key = seal::expand(mac, &root, Kind::First, 0, from, false);
        Ok(Opening {
            key: key.ok_or(Counter::SealKey)?,
            label: *label,
            root,
            of: Of::Nothing,
        })
    }

    /// Handles a packet whose seal was right, as [`Endpoint::packet`] does others. DATA's payload
    /// is readable by now.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)] // facts of one packet
    pub fn opened<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        clock: u32,
        from: &Address,
        device: u32,
        ecn: u8,
        packet: &Packet,
        payload: H::Payload,
        opening: &Opening,
        host: &mut H,
    ) {
        let taken = match opening.of {
            Of::In(id) => self.in_opened(now, id, packet, &opening.label, host),
            Of::Out(id) => self.out_opened(id, from, opening, host),
            Of::Nothing => self.alone_opened(from, packet, opening, host),
        };
        if taken {
            self.handle(now, clock, from, device, ecn, packet, payload, host);
        }
        self.current = Current::NONE;
    }

    /// Notes a packet of a message that comes in. `false`: that was all.
    #[inline(never)]
    fn in_opened<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        id: InId,
        packet: &Packet,
        label: &Label,
        host: &mut H,
    ) -> bool {
        let index = self.in_at(id);
        let Some(index) = index.filter(|&index| self.take_number_in(index, label)) else {
            self.stats.count(Counter::SealReplayed);
            return false;
        };
        let drawn = self.in_sealed.get(index).map(|sealed| sealed.random);
        let fresh = match packet {
            _ if label.kind == Kind::Sender => true,
            Packet::Sync(sync) => Some(sync.echo) == drawn,
            _ => false,
        };
        let Some(message) = self.ins.get_mut(index).filter(|_| fresh) else {
            return true;
        };
        message.fresh = true;
        !self.believe(now, index, host)
    }

    fn take_number_in(&mut self, index: u32, label: &Label) -> bool {
        let sealed = self.in_sealed.get_mut(index);
        sealed.is_some_and(|sealed| sealed.came.accept(label.number))
    }

    /// Notes a packet of a message that goes out.
    #[inline(never)]
    fn out_opened<H: Host<O, I>>(
        &mut self,
        id: OutId,
        from: &Address,
        opening: &Opening,
        host: &H,
    ) -> bool {
        let label = &opening.label;
        let index = self.out_at(id);
        let sealed = index.and_then(|index| self.out_sealed.get_mut(index));
        let taken = sealed.is_some_and(|sealed| {
            if sealed.their_random != Some(label.random) {
                let mac = |key: &[u8], data: &[u8]| host.hmac(key, data);
                let ours = seal::expand(mac, &sealed.root, Kind::Sender, label.random, from, true);
                let Some(ours) = ours.filter(|_| is_later(sealed, label)) else {
                    return false;
                };
                (sealed.ours, sealed.theirs) = (ours, opening.key);
                sealed.their_random = Some(label.random);
                sealed.answered = label.word;
                sealed.came = Came::NONE;
            }
            sealed.came.accept(label.number)
        });
        if !taken {
            self.stats.count(Counter::SealReplayed);
        }
        taken
    }

    /// Notes a packet of a message that is not here.
    #[inline(never)]
    fn alone_opened<H: Host<O, I>>(
        &mut self,
        from: &Address,
        packet: &Packet,
        opening: &Opening,
        host: &H,
    ) -> bool {
        if self.find_in(packet.cookie(), from).is_some() {
            // It began meanwhile, and has taken this number or will.
            self.stats.count(Counter::SealReplayed);
            return false;
        }
        let label = opening.label;
        if let Packet::Sync(sync) = packet {
            if !host.may_begin(from, sync, Some(label.word)) {
                self.stats.count(Counter::SealKey);
                return false;
            }
        }
        self.current = Current {
            root: opening.root,
            first: opening.key,
            label: Some(label),
        };
        true
    }

    /// A number for a message that nobody has had before. The lower half is counted up, so that
    /// none comes twice before 2^32 others. The upper half is random each time: a machine that is
    /// restored from a snapshot, or cloned, goes on from the same count, and would seal other
    /// packets with the same keys and numbers.
    pub(super) fn draw<H: Host<O, I>>(&mut self, host: &mut H) -> u64 {
        let random = host.random();
        if self.drawn == 0 {
            self.drawn = random as u32;
        }
        // 0 is none.
        self.drawn = self.drawn.wrapping_add(1).max(1);
        (random & !0xffff_ffff) | u64::from(self.drawn)
    }

    /// Reserves what the message would need that the packet being handled begins.
    pub(super) fn room_for_sealed(&mut self, index: u32) -> bool {
        !self.current.is_some()
            || (self.ahead.is_none() || self.sealing != Sealing::Off)
                && self.in_sealed.reserve(index, || Sealed::NONE)
    }

    /// A message has begun to come in; if its SYNC was sealed, it is.
    #[inline(never)]
    pub(super) fn begin_sealed<H: Host<O, I>>(&mut self, index: u32, from: &Address, host: &mut H) {
        let Some(label) = self.current.label.take() else {
            return;
        };
        let random = self.draw(host);
        let mac = |key: &[u8], data: &[u8]| host.hmac(key, data);
        let key = |kind| seal::expand(mac, &self.current.root, kind, random, from, false);
        let keys = key(Kind::Receiver).zip(key(Kind::Sender));
        if let Some(message) = self.ins.get_mut(index) {
            (message.sealed, message.fresh) = (true, false);
            self.guards = self.guards.saturating_add(1);
        }
        let sealed = self.in_sealed.get_mut(index);
        let Some(((ours, theirs), sealed)) = keys.zip(sealed) else {
            // Without keys nothing is opened.
            return;
        };
        sealed.root = self.current.root;
        sealed.first = self.current.first;
        (sealed.ours, sealed.theirs) = (ours, theirs);
        sealed.word = label.number;
        sealed.next = 0;
        sealed.random = random;
        sealed.their_random = Some(label.random);
        sealed.answered = 0;
        sealed.came = Came::NONE;
        sealed.came.accept(label.number);
    }

    /// A message begins to go out: whether it is to be sealed. `None`: there is no memory.
    #[inline(never)]
    pub(super) fn begin_to_seal<H: Host<O, I>>(
        &mut self,
        index: u32,
        to: &Address,
        cookie: Cookie,
        message: &O,
        host: &mut H,
    ) -> Option<bool> {
        if self.sealing == Sealing::Off {
            return Some(false);
        }
        let Some(psk) = host.key_to_send(message) else {
            return Some(false);
        };
        let random = self.draw(host);
        if !self.out_sealed.reserve(index, || Sealed::NONE) {
            return None;
        }
        let mac = |key: &[u8], data: &[u8]| host.hmac(key, data);
        let root = seal::root(mac, &psk.key, cookie, random)?;
        let first = seal::expand(mac, &root, Kind::First, 0, to, true)?;
        let sealed = self.out_sealed.get_mut(index)?;
        (sealed.root, sealed.first, sealed.word) = (root, first, psk.id);
        (sealed.random, sealed.next) = (random, 0);
        (sealed.their_random, sealed.answered) = (None, 0);
        sealed.came = Came::NONE;
        Some(true)
    }

    /// A message goes out sealed, after [`Self::begin_to_seal`].
    pub(super) fn is_to_be_sealed(&mut self, index: u32) {
        if let Some(out) = self.outs.get_mut(index) {
            out.sealed = true;
            self.guards = self.guards.saturating_add(1);
        }
    }

    /// A message that goes out ends: its keys are gone.
    pub(super) fn forget_sealed_out(&mut self, index: u32) {
        if self.outs.get(index).is_some_and(|out| out.sealed) {
            self.guards = self.guards.saturating_sub(1);
            if let Some(sealed) = self.out_sealed.get_mut(index) {
                *sealed = Sealed::NONE;
            }
        }
    }

    /// A message that comes in ends: its keys are gone.
    pub(super) fn forget_sealed_in(&mut self, index: u32) {
        if self.ins.get(index).is_some_and(|message| message.sealed) {
            self.guards = self.guards.saturating_sub(1);
            if let Some(sealed) = self.in_sealed.get_mut(index) {
                *sealed = Sealed::NONE;
            }
        }
    }

    #[inline(never)]
    fn seal_by_receiver(&mut self, index: u32) -> Option<Seal> {
        let sealed = self.in_sealed.get_mut(index)?;
        let label = Label {
            word: sealed.word,
            kind: Kind::Receiver,
            number: next_number(sealed)?,
            random: sealed.random,
        };
        let key = sealed.ours;
        Some(Seal { key, label })
    }

    /// Sends a signal of an outgoing message.
    pub(super) fn signal<H: Host<O, I>>(&mut self, index: u32, packet: &Packet, host: &mut H) {
        let Some(out) = self.outs.get(index) else {
            return;
        };
        if out.sealed {
            return self.signal_sealed(index, packet, host);
        }
        let owner = Owner::Out(&out.user);
        transmit(
            host,
            owner,
            &out.to,
            Class::Signal,
            false,
            packet,
            None,
            None,
        );
    }

    #[inline(never)]
    fn signal_sealed<H: Host<O, I>>(&mut self, index: u32, packet: &Packet, host: &mut H) {
        let mut packet = *packet;
        if let Packet::Sync(sync) = &mut packet {
            // Where it is of use, the receiver's number: which proves both address and key.
            let sealed = self.out_sealed.get(index);
            sync.echo = sealed.and_then(|it| it.their_random).unwrap_or(0);
        }
        let seal = seal_by_sender(&mut self.out_sealed, index, &packet);
        let (Some(out), Some(seal)) = (self.outs.get(index), seal) else {
            return;
        };
        let (owner, class) = (Owner::Out(&out.user), Class::Signal);
        transmit(
            host,
            owner,
            &out.to,
            class,
            false,
            &packet,
            None,
            Some(&seal),
        );
    }

    /// Sends a packet to an incoming message's sender. `false`: it must not be sent.
    pub(super) fn signal_back<H: Host<O, I>>(
        &mut self,
        index: u32,
        class: Class,
        packet: &Packet,
        host: &mut H,
    ) -> bool {
        let Some(message) = self.ins.get(index) else {
            return false;
        };
        if message.sealed {
            return self.signal_back_sealed(index, class, packet, host);
        }
        let (owner, to) = (Owner::In(&message.user), &message.from);
        transmit(host, owner, to, class, false, packet, None, None);
        true
    }

    #[inline(never)]
    fn signal_back_sealed<H: Host<O, I>>(
        &mut self,
        index: u32,
        class: Class,
        packet: &Packet,
        host: &mut H,
    ) -> bool {
        let seal = self.seal_by_receiver(index);
        let Some((message, seal)) = self.ins.get(index).zip(seal) else {
            return false;
        };
        let (owner, to) = (Owner::In(&message.user), &message.from);
        transmit(host, owner, to, class, false, packet, None, Some(&seal));
        true
    }

    /// Answers a packet of a message that is not here, sealed if that was.
    pub(super) fn answer_stray<H: Host<O, I>>(
        &mut self,
        to: &Address,
        packet: &Packet,
        host: &mut H,
    ) {
        if self.current.is_some() {
            return self.answer_sealed(to, packet, host);
        }
        let (owner, class) = (Owner::Nobody, Class::Signal);
        transmit(host, owner, to, class, false, packet, None, None);
    }

    #[inline(never)]
    fn answer_sealed<H: Host<O, I>>(&mut self, to: &Address, packet: &Packet, host: &mut H) {
        let Some(came) = self.current.label else {
            return;
        };
        // The number of a CHALLENGE is one that is known again when it comes back, and the same for
        // all CHALLENGEs that are the same. Others have one that is never used again.
        let random = match packet {
            Packet::Challenge(challenge) => challenge.echo,
            _ => self.draw(host),
        };
        let mac = |key: &[u8], data: &[u8]| host.hmac(key, data);
        let key = seal::expand(mac, &self.current.root, Kind::Receiver, random, to, false);
        let Some(key) = key else {
            return;
        };
        let number = came.number;
        let label = Label {
            word: number,
            kind: Kind::Receiver,
            number,
            random,
        };
        let seal = Seal { key, label };
        let (owner, class) = (Owner::Nobody, Class::Signal);
        transmit(host, owner, to, class, false, packet, None, Some(&seal));
    }
}

/// How to seal a packet of an outgoing message. `None`: it must not be sent, since all numbers were
/// used.
#[inline(never)]
pub(super) fn seal_by_sender<M: Memory>(
    table: &mut Paged<M, Sealed>,
    index: u32,
    packet: &Packet,
) -> Option<Seal> {
    let sealed = table.get_mut(index)?;
    let number = next_number(sealed)?;
    let (key, kind) = if is_alone(packet) || sealed.their_random.is_none() {
        (sealed.first, Kind::First)
    } else {
        (sealed.ours, Kind::Sender)
    };
    let label = Label {
        word: sealed.word,
        kind,
        number,
        random: sealed.random,
    };
    Some(Seal { key, label })
}

/// Whether a receiver's number that is not known was chosen for a packet that was sent, and later
/// than the one that the known number was chosen for.
fn is_later(sealed: &Sealed, label: &Label) -> bool {
    let later = sealed.their_random.is_none() || label.word > sealed.answered;
    later && label.word < sealed.next
}

fn next_number(sealed: &mut Sealed) -> Option<u32> {
    let number = sealed.next;
    if number >= NUMBERS {
        return None;
    }
    sealed.next = number.saturating_add(1);
    Some(number)
}
