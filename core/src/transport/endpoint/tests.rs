// SPDX-License-Identifier: GPL-2.0
//! An endpoint alone: its packets are looked at one by one.

use std::vec::Vec;

use super::*;
use crate::transport::config::{Config, Unscheduled};
use crate::transport::host::{Failure, Least, Outgoing, Refusal, Sender};
use crate::transport::seal;
use crate::transport::testing::Std;
use crate::transport::wire::{self, Data, Run, Sync};

mod answers;
mod fan;
mod first;
mod floods;
mod former;
mod growing;
mod limits;
mod orphans;
mod paths;
mod proofs;
mod rates;
mod riding;
mod runs;
mod sealed;
mod sending;
mod shrinking;
mod stalled;
mod steps;
mod tokens;
mod trains;
mod trust;
mod unasked;
mod waiting;

/// The length of what the user has of an incoming message.
type Messages = Endpoint<Std, (), u32>;

/// The user: it takes everything, and notes what the endpoint does.
#[derive(Default)]
struct Io {
    random: u64,
    sent: Vec<(Address, Packet, u32)>,
    delivered: Vec<InId>,
    failed: Vec<Failure>,
    progress: u32,
    /// There is no memory for what comes.
    full: bool,
    out_failed: Vec<Failure>,
    /// What of outgoing messages was told to have arrived.
    acked: Vec<u32>,
    /// Messages are sealed, with a key that the peers have, too.
    sealed: bool,
    /// There is no memory to note that a sender has proved its address.
    unproven: bool,
    /// What was known of the sender of the last message.
    stalled: bool,
    /// Others wait for what messages hold, and so many bytes of each should come.
    wanted: Option<u32>,
    /// Others wait for messages of which an odd number of bytes has come.
    urgent: bool,
    /// Paced packets that have not left the host's queues; `None`: it cannot tell.
    below: Option<u32>,
    /// Whether a message waits for that.
    waits: Option<OutId>,
    /// Applications wait for the ends of messages.
    awaited: bool,
    /// Messages of which it is not to be heard that they are complete.
    unheard: Vec<Cookie>,
    /// Sealed packets sent.
    sent_sealed: Vec<(Packet, Seal)>,
}

impl Io {
    /// Packets sent since the last call.
    fn take(&mut self) -> Vec<Packet> {
        self.sent.drain(..).map(|(_, packet, _)| packet).collect()
    }
}

impl Host<(), u32> for Io {
    type Payload = ();
    type Whole = ();
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 27)
    }
    fn transmit(
        &mut self,
        _: Owner<'_, (), u32>,
        to: &Address,
        class: Class,
        _: bool,
        header: &[u8],
        payload: Option<Slice<'_, ()>>,
    ) {
        let len = header.len() + payload.map_or(0, |slice| slice.len as usize);
        let packet = wire::parse(header, len).expect("what is sent is well-formed");
        let ip = if to.is_ipv4() { 28 } else { 48 };
        self.sent.push((*to, packet, len as u32 + ip));
        if let (Class::Paced, Some(below)) = (class, &mut self.below) {
            *below += 1;
        }
    }
    fn has_room_below(&mut self, id: OutId, (): &(), _: u32, most: u32) -> bool {
        let room = self.below.is_none_or(|below| below < most);
        if !room {
            self.waits = Some(id);
        }
        room
    }
    fn transmit_sealed(
        &mut self,
        _: Owner<'_, (), u32>,
        _: &Address,
        _: Class,
        _: bool,
        header: &[u8],
        payload: Option<Slice<'_, ()>>,
        seal: &Seal,
    ) {
        let payload = payload.map_or(0, |slice| slice.len as usize);
        let packet = wire::parse_sealed(header, header.len() + payload + SEAL_LEN);
        let packet = packet.expect("what is sent is well-formed");
        self.sent_sealed.push((packet, *seal));
    }
    fn is_awaited(&self, (): &()) -> bool {
        self.awaited
    }
    fn hears(&self, cookie: Cookie) -> bool {
        !self.unheard.contains(&cookie)
    }
    fn hmac(&self, key: &[u8], data: &[u8]) -> Option<seal::Key> {
        seal::tests::mac(key, data)
    }
    fn key_to_send(&self, (): &()) -> Option<seal::Psk> {
        self.sealed.then_some(sealed::PSK)
    }
    fn key_to_open(&self, id: u32) -> Option<seal::Psk> {
        (self.sealed && id == sealed::PSK.id).then_some(sealed::PSK)
    }
    fn open(
        &mut self,
        _: &Address,
        sync: &Sync,
        _: InId,
        sender: Sender,
    ) -> Result<(u32, u32), Refusal> {
        self.stalled = sender.stalled;
        match sync.destination {
            0 | 9 => Err(Refusal::Reset(ResetCode::NoSocket)),
            waiting::FULL => Ok((0, 0)),
            _ => Ok((0, 1 << 20)),
        }
    }
    fn in_proven(&mut self, _: InId, _: &mut u32) -> bool {
        !self.unproven
    }
    fn data(
        &mut self,
        _: InId,
        message: &mut u32,
        _: u32,
        _: (u32, u32),
        len: u32,
        (): (),
    ) -> bool {
        if self.full {
            return false;
        }
        *message += len;
        true
    }
    fn data_of_run(&mut self, _: InId, message: &mut u32, run: &Run, (): ()) -> Result<(), ()> {
        if self.full {
            return Err(());
        }
        *message += run.data.len;
        Ok(())
    }
    fn in_length(&mut self, _: InId, _: &mut u32, _: u32) {}
    fn in_progress(&mut self, _: InId, _: &mut u32, _: u32) {
        self.progress += 1;
    }
    fn is_wanted(&mut self, _: &u32) -> Option<Least> {
        let always = true;
        self.wanted.map(|bytes| Least { bytes, always })
    }
    fn is_urgent(&mut self, came: &u32) -> bool {
        self.urgent && came % 2 == 1
    }
    fn in_done(&mut self, id: InId, _: u32) {
        self.delivered.push(id);
    }
    fn in_failed(&mut self, _: InId, _: u32, why: Failure) {
        self.failed.push(why);
    }
    fn out_acked(&mut self, _: OutId, (): &mut (), received: u32) {
        self.acked.push(received);
    }
    fn out_done(&mut self, _: OutId, (): (), result: Result<(), Failure>) {
        if let Err(why) = result {
            self.out_failed.push(why);
        }
    }
    fn listens(&self) -> bool {
        true
    }

    fn event(&mut self, _: &Event) {}
}

/// Host `n`: 10.x.y.z, or fd77::n.
fn host(n: u32, v6: bool) -> Address {
    let mut address = Address::default();
    for (ip, n) in [(&mut address.ip, n), (&mut address.local, 0xff_ffff)] {
        let number = n.to_be_bytes();
        ip[12..].copy_from_slice(&number);
        if v6 {
            ip[..2].copy_from_slice(&[0xfd, 0x77]);
        } else {
            (ip[10], ip[11], ip[12]) = (0xff, 0xff, 10);
        }
    }
    address
}

fn config() -> Resolved {
    Config::DEFAULT.validate(None).unwrap()
}

const NOW: Nanos = Nanos(10_000_000_000);

fn new(config: &Resolved) -> (Messages, Io) {
    (
        Endpoint::new(NOW, config, [5, 6, 7]).unwrap(),
        Io::default(),
    )
}

fn sync(cookie: u64, length: u32) -> Sync {
    Sync {
        cookie: Cookie(cookie),
        source: 1,
        destination: 2,
        length: Some(length),
        deadline: 0,
        coflow: 0,
        unscheduled: 0,
        mss: 1450,
        patience: 100,
        echo: 0,
        priority: None,
        probe: false,
        acked: false,
        ren: false,
        paced: false,
    }
}

/// The answer to a token.
fn answer(token: &wire::Token, offset: u32, len: u32) -> Packet {
    Packet::Data(Data {
        cookie: token.cookie,
        token: token.sequence,
        timestamp: token.timestamp,
        offset,
        len,
        flags: 0,
        more: 0,
    })
}

impl Messages {
    fn receive(&mut self, now: Nanos, from: &Address, packet: Packet, io: &mut Io) {
        self.packet(now, now.0 as u32, from, 0, 0, &packet, (), io);
    }
}
