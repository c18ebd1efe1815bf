// SPDX-License-Identifier: GPL-2.0
//! All messages of a host, or of a network namespace: both directions, their timers, and the pacer of the tokens.
//!
//! [`Endpoint`] is handed packets and times, and calls its user's [`Host`]. After every call,
//! [`Endpoint::next_timer`] says when [`Endpoint::timer`] is to be called. No call takes unbounded time:
//! where there is more to do, the next timer is due at once.
//!
//! `now` is a monotonic clock; `clock` is the low 32 bits of the expiry clock in ns, which the hosts should agree on if tokens expire.

use super::config::Resolved;
use super::host::{Address, Host, InId, Info, Memory, OutId, Outgoing, PeerInfo, SendError};
use super::stats::Stats;
use super::wire::{Malformed, Packet};
use crate::units::Nanos;

/// See the module's documentation. `O` and `I` are what the user keeps for each outgoing and incoming message.
pub struct Endpoint<M: Memory, O, I> {
    _private: core::marker::PhantomData<(M::Chunk<O>, M::Chunk<I>)>,
}

/// SIGNATURES ONLY, for those who write against them; the bodies follow, and then the module is part of the crate.
impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// An endpoint without messages. `seed` is random, and keeps its tables' order unforeseeable. `None`: no memory.
    pub fn new(now: Nanos, config: &Resolved, seed: u64) -> Option<Self>;
    /// Another configuration, from now on.
    pub fn configure<H: Host<O, I>>(&mut self, now: Nanos, config: &Resolved, host: &mut H);
    /// The configuration in force.
    pub fn config(&self) -> &Resolved;

    /// Begins a message: sends its SYNC, and what goes unscheduled. If all is written (`available == length`, or `length` is `None`
    /// and [`Endpoint::written`] follows), nothing more is needed.
    pub fn send<H: Host<O, I>>(&mut self, now: Nanos, to: &Address, what: &Outgoing, message: O, host: &mut H) -> Result<OutId, (SendError, O)>;
    /// More of a message is written: all bytes below `available`. `end`: that was the last. Bytes beyond a length that was given, or after the end, are not taken.
    /// `false`: there is no such message any more.
    pub fn written<H: Host<O, I>>(&mut self, now: Nanos, id: OutId, available: u32, end: bool, host: &mut H) -> bool;
    /// Ends a message with a RESET. [`Host::out_done`] is not called.
    pub fn abort<H: Host<O, I>>(&mut self, now: Nanos, id: OutId, host: &mut H) -> Option<O>;

    /// Tokens may be given for bytes below `window` (never less than before). `false`: there is no such message any more.
    pub fn window<H: Host<O, I>>(&mut self, now: Nanos, id: InId, window: u32, host: &mut H) -> bool;
    /// Ends an incoming message with a RESET: the socket was closed. [`Host::in_failed`] is not called.
    pub fn refuse<H: Host<O, I>>(&mut self, now: Nanos, id: InId, host: &mut H) -> Option<I>;

    /// What the user keeps for a message.
    pub fn out_mut(&mut self, id: OutId) -> Option<&mut O>;
    /// What the user keeps for a message.
    pub fn in_mut(&mut self, id: InId) -> Option<&mut I>;

    /// A packet came. `ecn`: the two bits of its IP header. `payload`: what it came in; dropped if it is not for [`Host::data`].
    pub fn packet<H: Host<O, I>>(&mut self, now: Nanos, clock: u32, from: &Address, ecn: u8, packet: &Packet, payload: H::Payload, host: &mut H);
    /// Something came that is no packet of the transport. Counts it.
    pub fn malformed(&mut self, why: Malformed);

    /// Does what is due: sends tokens, repeats, gives up. Call it at [`Endpoint::next_timer`], or any time later or earlier.
    pub fn timer<H: Host<O, I>>(&mut self, now: Nanos, clock: u32, host: &mut H);
    /// When [`Endpoint::timer`] has something to do. In the past: at once.
    pub fn next_timer(&self) -> Option<Nanos>;
    /// Ends one message or more with a RESET, calling [`Host::out_done`] and [`Host::in_failed`]; `false` when there is none left.
    pub fn clear<H: Host<O, I>>(&mut self, now: Nanos, host: &mut H) -> bool;

    /// The counters.
    pub fn stats(&self) -> &Stats;
    /// The first outgoing message from index `from` on, and the index to go on from.
    pub fn outgoing(&self, now: Nanos, from: u32) -> Option<(u32, OutId, Info, &O)>;
    /// The first incoming message from index `from` on, and the index to go on from.
    pub fn incoming(&self, now: Nanos, from: u32) -> Option<(u32, InId, Info, &I)>;
    /// The first peer from index `from` on, and the index to go on from.
    pub fn peers(&self, from: u32) -> Option<(u32, PeerInfo)>;
}
