// SPDX-License-Identifier: GPL-2.0
//! The interface between an endpoint and its user: addresses, ids, the traits that the user
//! implements, and facts about messages.

use super::seal::{self, Psk, Seal};
use super::wire::{Cookie, ResetCode, Run, Sync};
use crate::units::Nanos;

/// A peer, as seen from a local address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Address {
    /// The peer's address; IPv4 as `::ffff:a.b.c.d`.
    pub ip: [u8; 16],
    /// The local address; IPv4 as `::ffff:a.b.c.d`.
    pub local: [u8; 16],
    /// The interface of a link-local address (`fe80::/10`); otherwise 0.
    pub scope: u32,
}

impl Address {
    /// None: all zero.
    pub(crate) const NONE: Self = Self {
        ip: [0; 16],
        local: [0; 16],
        scope: 0,
    };

    /// That of no packet.
    pub(crate) const NOBODY: Self = Self {
        scope: u32::MAX,
        ..Self::NONE
    };

    /// Whether packets to it go by IPv4.
    #[inline]
    pub const fn is_ipv4(&self) -> bool {
        is_ipv4(self.ip)
    }
}

/// Whether an address is one of IPv4, which is mapped.
#[inline]
pub(crate) const fn is_ipv4(ip: [u8; 16]) -> bool {
    // Byte by byte it takes a dozen comparisons.
    u128::from_be_bytes(ip) >> 32 == 0xffff
}

/// Storage: arrays of fixed length. The kernel module allocates them in atomic context, tests use a
/// `Vec`.
pub trait Memory {
    /// An array.
    type Chunk<T>: AsRef<[T]> + AsMut<[T]>;
    /// An array of `len` items, the `i`-th being `fill(i)`. `None` if there is no memory.
    ///
    /// No array takes more than [`CHUNK_BYTES`], unless a single item does.
    fn chunk<T>(len: usize, fill: impl FnMut(usize) -> T) -> Option<Self::Chunk<T>>;
}

/// The most bytes that are allocated at once: two of the kernel's usual pages.
pub const CHUNK_BYTES: usize = 8192;

/// An outgoing message. Ids are reused after 2^32 messages, so that one of a message that has ended
/// is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutId {
    /// Its place among the messages under way; small numbers are used first.
    pub index: u32,
    /// Which of the messages that had this index.
    pub generation: u32,
}

/// An incoming message. As [`OutId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InId {
    /// Its place among the messages under way; small numbers are used first.
    pub index: u32,
    /// Which of the messages that had this index.
    pub generation: u32,
}

/// A packet's class: which band of a port it goes to, and which DSCP it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// SYNC, RESEND, FIN, ACK, RESET.
    Signal,
    /// A token of this priority, 0 being the highest, or a grant.
    Token(u8),
    /// Data for a token or a grant.
    Data,
    /// Data without a token.
    Unscheduled,
    /// Data that its sender paces: as [`Class::Data`], but with ECT(0) in its ECN field, so that
    /// ports may mark it.
    Paced,
}

/// The part of an outgoing message that goes into one packet.
#[derive(Debug)]
pub struct Slice<'a, O> {
    /// The user's data of the message.
    pub message: &'a O,
    /// Bytes of the message before it.
    pub offset: u32,
    /// Bytes, 1..=mss. All of them have been announced as written.
    pub len: u32,
}

/// Whose a packet is: the user's data of the message that it belongs to.
#[derive(Debug)]
pub enum Owner<'a, O, I> {
    /// The sender's of an outgoing message.
    Out(&'a O),
    /// The receiver's of an incoming message.
    In(&'a I),
    /// Nobody's: it answers a packet of a message that is not known, or no longer.
    Nobody,
    /// Of outgoing messages that have ended, as [`Host::ended`] said.
    Ended(u64),
}

/// What is known of the sender of a message that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The SYNC shows that it is where it says; if not, it may be anybody until
    /// [`Host::in_proven`].
    pub proved: bool,
    /// A message of it was given up some minutes ago, or less, because it did not go on while
    /// others waited.
    pub stalled: bool,
}

/// How many bytes of a message should come, while others wait for what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Least {
    /// In all of `timeout`.
    pub bytes: u32,
    /// And some between any two looks. Not if all that others wait for is more than they need.
    pub always: bool,
}

/// What the endpoint needs from its user: randomness, sending, and a place for messages. `O` and
/// `I` are the user's data for each outgoing and incoming message.
///
/// All methods are called with the endpoint borrowed: they must not sleep or call the endpoint, and
/// should be short.
pub trait Host<O, I> {
    /// The buffer of a received data packet: the kernel's socket buffer.
    type Payload;
    /// The buffer of several that came as one.
    type Whole;

    /// 64 unpredictable random bits.
    fn random(&mut self) -> u64;

    /// Sends a packet of `owner`: `header`, then the data of `payload` if there is any. `ren`: the
    /// packet belongs to a REN flow, and ports may mark its ECN field. Failures need not be
    /// reported: to the endpoint the packet is lost.
    #[allow(clippy::too_many_arguments)] // facts of one packet
    fn transmit(
        &mut self,
        owner: Owner<'_, O, I>,
        to: &Address,
        class: Class,
        ren: bool,
        header: &[u8],
        payload: Option<Slice<'_, O>>,
    );

    /// As [`Host::transmit`], of a row of DATA of an outgoing message, whose payload is that of all
    /// together: each packet has its [own header](Run::head).
    fn transmit_run(&mut self, message: &O, to: &Address, run: &Run) {
        for number in 0..run.packets {
            let (offset, len) = run.bytes(number, number.saturating_add(1));
            let payload = Some(Slice {
                message,
                offset,
                len,
            });
            let (owner, head) = (Owner::Out(message), run.head(number));
            self.transmit(owner, to, Class::Data, false, &head, payload);
        }
    }

    /// Whether fewer than `most` packets of this message that were sent as [`Class::Paced`] are
    /// still in the host's own queues. If not, [`Endpoint::left`](super::endpoint::Endpoint::left)
    /// is to be called once one has left, by whatever way: sent, or dropped. It is asked before
    /// each such packet, and with the link, a small number, that this will go by. A host that
    /// cannot tell has room for all.
    fn has_room_below(&mut self, id: OutId, message: &O, link: u32, most: u32) -> bool {
        let _ = (id, message, link, most);
        true
    }

    /// How many such packets of all messages are there that were said to go by this link.
    fn below(&self, link: u32) -> u32 {
        let _ = link;
        0
    }

    /// As [`Host::transmit`], of a sealed packet: DATA's payload is to be encrypted, and a tag and
    /// a label follow (`seal`). What a host without the cipher cannot seal is not sent.
    #[allow(clippy::too_many_arguments)] // facts of one packet
    fn transmit_sealed(
        &mut self,
        owner: Owner<'_, O, I>,
        to: &Address,
        class: Class,
        ren: bool,
        header: &[u8],
        payload: Option<Slice<'_, O>>,
        seal: &Seal,
    ) {
        let _ = (owner, to, class, ren, header, payload, seal);
    }

    /// As whose a last packet of this message may be sent when it has ended
    /// ([`Owner::Ended`]). `None`: only its own packets go the way that it goes.
    fn ended(&self, message: &O) -> Option<u64> {
        let _ = message;
        Some(0)
    }

    /// As whose the acknowledgement of an incoming message may be sent when that has ended, maybe
    /// with others', or with a message of the same one: what [`Host::ended`] says of that. `None`:
    /// it leaves at once, as the message's own.
    fn received(&self, message: &I) -> Option<u64> {
        let _ = message;
        Some(0)
    }

    /// Whether the application waits to hear of the message's end: then its receiver is asked not
    /// to wait with it.
    fn is_awaited(&self, message: &O) -> bool {
        let _ = message;
        false
    }

    /// Whether it may be heard that a message that goes out is complete, which came with something
    /// else. Its owner may refuse packets that others take.
    fn hears(&self, cookie: Cookie) -> bool {
        let _ = cookie;
        true
    }

    /// HMAC-SHA256 of `data` with `key`. `None`: it has none, and seals nothing.
    fn hmac(&self, key: &[u8], data: &[u8]) -> Option<seal::Key> {
        let _ = (key, data);
        None
    }

    /// The key to seal an outgoing message with; `None`: it is not sealed.
    fn key_to_send(&self, message: &O) -> Option<Psk> {
        let _ = message;
        None
    }

    /// The key of this id; `None`: it is not known, or no longer.
    fn key_to_open(&self, id: u32) -> Option<Psk> {
        let _ = id;
        None
    }

    /// Whether a SYNC that is sealed with the key of this id, or not at all, may begin a message.
    /// Its sender learns nothing if it may not.
    fn may_begin(&self, from: &Address, sync: &Sync, key: Option<u32>) -> bool {
        let _ = (from, sync, key);
        true
    }

    /// A peer begins a message. Returns the user's data for it, and its first window in bytes.
    fn open(
        &mut self,
        from: &Address,
        sync: &Sync,
        id: InId,
        sender: Sender,
    ) -> Result<(I, u32), Refusal>;

    /// The sender of a message has proved its address, perhaps once more. `false`: there is no
    /// memory to note it, and it has to prove it again.
    fn in_proven(&mut self, id: InId, message: &mut I) -> bool {
        let _ = (id, message);
        true
    }

    /// New bytes of a message, `offset..offset + len`: those of `payload` behind the packet's
    /// header and some data, which are as long as `skip` says. Each byte is handed over once.
    /// `false`: no memory; the bytes count as lost.
    fn data(
        &mut self,
        id: InId,
        message: &mut I,
        offset: u32,
        skip: (u32, u32),
        len: u32,
        payload: Self::Payload,
    ) -> bool;

    /// The same for a row of packets that came as one, all of whose bytes are new: `payload` has
    /// each of them from its header on. `Err`: it cannot be kept so; the packets are handed over
    /// one by one then.
    fn data_of_run(
        &mut self,
        id: InId,
        message: &mut I,
        run: &Run,
        payload: Self::Whole,
    ) -> Result<(), Self::Whole> {
        let _ = (id, message, run);
        Err(payload)
    }

    /// An incoming message of unknown length has this length.
    fn in_length(&mut self, id: InId, message: &mut I, length: u32);

    /// All bytes below `contiguous` have come; the value only grows.
    fn in_progress(&mut self, id: InId, message: &mut I, contiguous: u32);

    /// Whether others wait for what this message holds, or for it to be read. Then it returns how
    /// many bytes of the message should come in `timeout`; one that does not go on is given up,
    /// with [`Failure::Stalled`], and its sender is told [`ResetCode::Closed`].
    fn is_wanted(&mut self, message: &I) -> Option<Least> {
        let _ = message;
        None
    }

    /// Whether others are there as a whole, and are read only after this one. Then it has every
    /// other of the host's tokens, of the highest priority, until it is no longer so: it may be the
    /// one with most left, and others' tokens would go before its own for as long as they come.
    fn is_urgent(&mut self, message: &I) -> bool {
        let _ = message;
        false
    }

    /// A message is complete, and no longer the endpoint's.
    fn in_done(&mut self, id: InId, message: I);

    /// A message failed and will not be completed.
    fn in_failed(&mut self, id: InId, message: I, why: Failure);

    /// The peer has all bytes below `received`: they can be freed.
    fn out_acked(&mut self, id: OutId, message: &mut O, received: u32);

    /// The peer has all that was written of a message, and room for more.
    fn out_drained(&mut self, message: &mut O) {
        let _ = message;
    }

    /// A message was delivered, or failed.
    fn out_done(&mut self, id: OutId, message: O, result: Result<(), Failure>);

    /// Whether anybody listens to events: others are not made, as that takes time.
    fn listens(&self) -> bool;

    /// An event for listeners.
    fn event(&mut self, event: &Event);
}

/// What packets that are not sealed may do. Those of messages that began unsealed are taken in any
/// case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// Everything.
    Off,
    /// What [`Host::may_begin`] says; what belongs to no message is answered.
    Some,
    /// The same; but what belongs to no message draws nothing.
    All,
}

/// How a message is refused by [`Host::open`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sender is told.
    Reset(ResetCode),
    /// There is no room now: the SYNC is ignored, and the sender will repeat it.
    Ignore,
}

/// Why a message failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The peer was silent for the time-out (`ETIMEDOUT`).
    TimedOut,
    /// The peer did not go on while others waited: see [`Host::is_wanted`] (`ETIMEDOUT`). Only for
    /// incoming ones.
    Stalled,
    /// The peer ended it; see [`ResetCode`] for the errno.
    Reset(ResetCode),
    /// The peer was silent, and this was said of the way to it. Only for outgoing ones.
    Unreachable(Unreachable),
}

/// What ICMP says of a packet that could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreachable {
    /// Nobody there has the transport's UDP port (`ECONNREFUSED`).
    Port,
    /// There is no way to the host, or it is down (`EHOSTUNREACH`).
    Host,
    /// There is no way to its network (`ENETUNREACH`).
    Network,
    /// A router does not let it pass (`EACCES`).
    Prohibited,
}

/// Why [`Endpoint::send`](super::endpoint::Endpoint::send) did not begin a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendError {
    /// The length is 0 or more than [`MAX_LENGTH`](super::wire::MAX_LENGTH) (`EMSGSIZE`), or less
    /// than what is already written.
    Length,
    /// There is no place for it now: see [`Outgoing::user`] (`EAGAIN`, or who calls waits).
    TooMany,
    /// No memory (`ENOMEM`).
    NoMemory,
}

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The local port.
    pub source: u16,
    /// The peer's port.
    pub destination: u16,
    /// Bytes; `None` if it is not known yet, or the peer is not to be told (TOP section 4.4,
    /// non-clairvoyant).
    pub length: Option<u32>,
    /// The time from now until it should have arrived.
    pub deadline: Option<Nanos>,
    /// The coflow that it belongs to; 0: none.
    pub coflow: u32,
    /// The priority of its tokens; `None`: as the receiver's policy says.
    pub priority: Option<u8>,
    /// Bytes of payload in a full-length packet; see [`wire::mss`](super::wire::mss).
    pub mss: u16,
    /// Bytes that are written already.
    pub available: u32,
    /// Whom it counts for: a number of a user. A message may begin while the user's messages, and
    /// twice those of them to the same peer, are together fewer than the places that are free of
    /// `max-outgoing`. So a user alone may have half of them, and a quarter to one peer.
    pub user: u32,
}

/// A message's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

/// A message under way. [`uapi::transport::message`](crate::transport::uapi::message) has an
/// attribute for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Which way it goes.
    pub direction: Direction,
    /// The peer.
    pub peer: Address,
    /// The local port.
    pub local_port: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// A number that no other message of the endpoint has.
    pub number: u64,
    /// Bytes, if known.
    pub length: Option<u32>,
    /// Bytes. Out: acknowledged; in: received.
    pub received: u32,
    /// Bytes. Out: sent at least once; in: the window, below which tokens may be given.
    pub window: u32,
    /// Priority of its tokens; out: that of the last one.
    pub priority: u8,
    /// bytes/s: in: the rate of its tokens; out: of a message that is paced here, its own, on the
    /// wire; otherwise 0.
    pub rate: u64,
    /// The smoothed round-trip time, once it was measured.
    pub rtt: Option<Nanos>,
    /// In: tokens sent; out: tokens that were valid.
    pub tokens: u64,
    /// In: tokens taken for lost; out: tokens that were invalid.
    pub tokens_lost: u64,
    /// Data packets: in: received; out: sent.
    pub packets: u64,
    /// Data packets: in: duplicates; out: retransmissions.
    pub repeated: u64,
    /// Time since it began.
    pub age: Nanos,
    /// The coflow; 0: none.
    pub coflow: u32,
    /// From now until the deadline; zero if it is over.
    pub deadline: Option<Nanos>,
}

/// A peer of messages under way. [`uapi::transport::peer`](crate::transport::uapi::peer) has an
/// attribute for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its address.
    pub address: Address,
    /// Messages that come in from it.
    pub incoming: u32,
    /// Messages that go out to it.
    pub outgoing: u32,
    /// Bytes still missing of incoming messages of known length.
    pub missing: u64,
    /// Bytes of outgoing messages that are written and not acknowledged.
    pub unacknowledged: u64,
    /// The least round-trip time among its messages; `None` if none was measured.
    pub rtt: Option<Nanos>,
}

/// A link that messages come in by. [`uapi::transport::link`](crate::transport::uapi::link) has an
/// attribute for each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The host's number for the device; 0: devices without a speed, which share this link, or one
    /// that is gone.
    pub device: u32,
    /// Bytes/s: the link rate in force.
    pub rate: u64,
    /// Bytes/s: the rate of all tokens for it, rounded down.
    pub token_rate: u64,
    /// Messages that come in by it.
    pub incoming: u32,
}

/// A limit of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// `max-incoming`.
    Incoming,
    /// `max-outgoing`.
    Outgoing,
    /// `max-per-peer`.
    PerPeer,
    /// `max-half-open`.
    HalfOpen,
    /// `max-remembered`.
    Remembered,
    /// Memory.
    Memory,
}

/// An event that listeners are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message began.
    Opened(Info),
    /// A message was delivered. In: complete; out: acknowledged.
    Delivered(Info),
    /// A message failed.
    Failed(Info, Failure),
    /// The configuration was changed.
    Configured,
    /// A limit was met. At most one event per second for each.
    Limited(Limit),
}
