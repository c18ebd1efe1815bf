// SPDX-License-Identifier: GPL-2.0
//! What a network namespace keeps: the endpoint and the sockets. All of it is behind the
//! namespace's lock.

use crate::host::Surroundings;
use crate::incoming::Incoming;
use crate::memory::Kernel;
use crate::outgoing::Outgoing;
use crate::settings::Settings;
use crate::socket::Sockets;
use kernel::prelude::*;
use knet_transport::{now, random, wall_clock, Arrival, Locked, Opening, Outbox, Refused};
use turnstile_core::transport::config::{Clock, Resolved};
use turnstile_core::transport::endpoint::Endpoint;
use turnstile_core::transport::host::Address;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire;
use turnstile_core::units::Nanos;

/// The transport. The root of the crate says what it does (`impl Transport`).
pub(crate) struct Turnstile;

/// The endpoint, with what the sockets keep for each message.
pub(crate) type Messages = Endpoint<Kernel, Outgoing, Incoming>;

/// What a network namespace keeps.
pub(crate) struct State {
    pub(crate) endpoint: Messages,
    pub(crate) sockets: Sockets,
    pub(crate) settings: Settings,
}

impl State {
    /// With the default configuration.
    ///
    /// It is larger than a kernel stack can hold beside others: all of it is made where it stays.
    pub(crate) fn new(net: &mut Opening<'_>) -> Option<KBox<Self>> {
        let settings = Settings::new().ok()?;
        let state = init!(Self {
            endpoint: Messages::NEW,
            sockets: Sockets::new(),
            settings,
        });
        let mut state = KBox::init(state, GFP_KERNEL).ok()?;
        state.set_up(net).then_some(state)
    }

    #[inline(never)]
    fn set_up(&mut self, net: &mut Opening<'_>) -> bool {
        match self.settings.resolve(net.fastest()) {
            Ok(resolved) => {
                let seed = [random(), random(), random()];
                self.endpoint.start(Nanos(now()), &resolved, seed)
            }
            Err(_) => false,
        }
    }

    /// When the timer is to fire, ns.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.endpoint.next_timer().map(|at| at.0)
    }

    /// The endpoint, and what it needs for a call.
    pub(crate) fn split<'a>(
        &'a mut self,
        outbox: &'a mut Outbox,
        now: u64,
    ) -> (&'a mut Messages, Surroundings<'a>) {
        let surroundings = Surroundings {
            dscp: self.endpoint.config().dscp,
            sockets: &mut self.sockets,
            events: &mut self.settings.events,
            outbox,
            now,
            device: 0,
        };
        (&mut self.endpoint, surroundings)
    }
}

/// Low 32 bits of the expiry clock, ns.
fn clock(config: &Resolved) -> u32 {
    wall_clock(config.clock == Clock::Tai) as u32
}

/// The timer fires.
pub(crate) fn timer(state: &mut Locked<'_, Turnstile>) {
    let (state, outbox) = state.parts();
    let clock = clock(state.endpoint.config());
    let now = now();
    let (endpoint, mut surroundings) = state.split(outbox, now);
    endpoint.timer(Nanos(now), clock, &mut surroundings);
    state.settle(outbox);
}

/// A packet came.
pub(crate) fn packet(state: &mut Locked<'_, Turnstile>, arrival: Arrival<'_>) {
    let (state, outbox) = state.parts();
    let packet = match wire::parse(arrival.head(), arrival.len as usize) {
        Ok(packet) => packet,
        Err(why) => return state.endpoint.malformed(why),
    };
    let from = Address {
        ip: arrival.from.ip,
        local: arrival.from.local,
        scope: arrival.from.scope,
    };
    let clock = clock(state.endpoint.config());
    let now = now();
    let (endpoint, mut surroundings) = state.split(outbox, now);
    surroundings.device = arrival.device;
    endpoint.packet(
        Nanos(now),
        clock,
        &from,
        arrival.ecn,
        &packet,
        arrival.into_skb(),
        &mut surroundings,
    );
    state.settle(outbox);
}

/// A datagram came that is not for the transport, or could not be read.
pub(crate) fn refused(state: &mut Locked<'_, Turnstile>, why: Refused) {
    state.endpoint.refused(match why {
        Refused::Port => Counter::RefusedPort,
        Refused::Address => Counter::RefusedAddress,
        Refused::Unreadable => Counter::Unreadable,
    });
}

impl State {
    /// Gives windows to messages whose turn has come, after the endpoint was called.
    pub(crate) fn settle(&mut self, outbox: &mut Outbox) {
        while let Some(handle) = self.sockets.take_promotable() {
            self.promote(handle, outbox);
        }
    }

    /// Makes the first message that waits at a socket the exclusive one, if there is room.
    pub(crate) fn promote(&mut self, handle: u64, outbox: &mut Outbox) {
        let now = now();
        let Some(socket) = self.sockets.get_mut(handle) else {
            return;
        };
        if !socket.budget.may_promote() {
            return;
        }
        let Some((number, id)) = socket.take_waiting() else {
            return;
        };
        let Some(message) = self.endpoint.in_mut(id) else {
            return;
        };
        let ahead = socket.promoted(number, message);
        let window = message.read.saturating_add(ahead);
        message.window = message.window.max(window);
        let window = message.window;
        let (endpoint, mut surroundings) = self.split(outbox, now);
        endpoint.window(Nanos(now), id, window, &mut surroundings);
    }
}
