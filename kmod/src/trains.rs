// SPDX-License-Identifier: GPL-2.0
//! Packets that came together: data of one message, as a rule, which the endpoint takes with one
//! taking of the lock and one reading of the clock.

use crate::state::{
    address, clocks, destination, found_by, is_named, packet, speed, State, Turnstile, Way,
};
use knet_transport::{Arrival, Device, Net, Outbox, Train, Verdict, Whole};
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::{self, Packet, Row};
use turnstile_core::units::Nanos;

/// The row of data that a super-packet is; `None`: something else, or packets that do not follow
/// one another.
fn row(whole: &mut Whole<'_>) -> Option<Row> {
    let mut head = [0; wire::DATA_LEN];
    let len = whole.next(&mut head)?;
    let mut row = Row::new(&head, len as usize)?;
    while let Some(len) = whole.next(&mut head) {
        if !row.push(&head, len as usize) {
            return None;
        }
    }
    Some(row)
}

/// A super-packet came: of a message that comes in order it is taken as it is, without a look at
/// each of its packets.
pub(crate) fn whole(net: &mut Net<'_, Turnstile>, whole: &mut Whole<'_>) {
    let Some(row) = row(whole) else {
        return;
    };
    let Some(mut locked) = net.lock() else {
        return;
    };
    let (origin, packet) = (whole.origin, Packet::Data(row.run().data));
    let from = address(&origin.from);
    let Some((handle, bound)) = destination(&mut locked, &from, &origin, &packet) else {
        return;
    };
    let Some(socket) = locked.sockets.get(handle) else {
        return;
    };
    let bound = bound.unwrap_or_else(|| socket.sock.tie().device);
    if !is_named(&origin, &packet) || whole.admitted(&socket.sock, bound) != Verdict::Passes {
        return;
    }
    let device = speed(&locked, origin.link);
    let (state, outbox) = locked.parts();
    let (now, clock) = clocks(state.endpoint.config());
    let (endpoint, mut surroundings) = state.split(outbox, now);
    (surroundings.device, surroundings.slave) = (origin.device, origin.slave);
    surroundings.found = Some(found_by((handle, Some(bound))));
    let at = Nanos(now);
    if let Device::Speed(rate) = device {
        endpoint.set_link(at, origin.link, rate);
    }
    if let Some(came) = whole.take() {
        let (link, host) = (origin.link, &mut surroundings);
        if let Err(came) = endpoint.run(at, clock, &from, link, row.run(), came, host) {
            whole.put_back(came);
        }
    }
    state.settle(now, outbox);
}

/// Packets came together.
pub(crate) fn train(net: &mut Net<'_, Turnstile>, mut train: Train<'_>) {
    let mut next = train.next();
    while let Some(arrival) = next.take() {
        if let Some(alone) = run(net, arrival, &mut train) {
            packet(net, alone);
            next = train.next();
        }
    }
}

/// Takes data that came together. Gives back the first packet that is to be looked at alone: it is
/// something else, or sealed, or programs have to be asked, which should not be with a lock.
#[inline(never)]
fn run<'a>(
    net: &mut Net<'_, Turnstile>,
    first: Arrival<'a>,
    train: &mut Train<'a>,
) -> Option<Arrival<'a>> {
    let mut locked = net.lock()?;
    let (state, _) = locked.parts();
    let at = clocks(state.endpoint.config());
    state.endpoint.begin_train();
    // All have come the same way.
    let origin = first.origin;
    let link = origin.link;
    let from = address(&origin.from);
    let device = speed(&locked, link);
    let mut next = Some(first);
    let mut alone = None;
    while let Some(mut arrival) = next {
        // Looked at where it is: it is large.
        let parsed = &wire::parse(arrival.head(), arrival.len as usize);
        let Ok(packet @ Packet::Data(_)) = parsed else {
            alone = Some(arrival);
            break;
        };
        let named = is_named(&origin, packet);
        let destined = destination(&mut locked, &from, &origin, packet);
        let (state, outbox) = locked.parts();
        let (mut verdict, mut found) = (Verdict::Passes, None);
        if let (true, Some((handle, bound))) = (named, destined) {
            if let Some(socket) = state.sockets.get(handle) {
                let bound = bound.unwrap_or_else(|| socket.sock.tie().device);
                verdict = arrival.admitted(&socket.sock, bound, true);
                found = destined.map(found_by);
            }
        }
        match verdict {
            Verdict::AskUnlocked => {
                alone = Some(arrival);
                break;
            }
            Verdict::Refused => state.endpoint.refused(Counter::RefusedFilter),
            Verdict::Passes if !named => state.endpoint.refused(Counter::RefusedPort),
            Verdict::Passes => {
                let way = Way::of(&origin, found);
                let skb = arrival.into_skb();
                state.take(outbox, at, (&from, &way, device), (packet, None), skb);
            }
        }
        next = train.next();
    }
    let (state, outbox) = locked.parts();
    end(state, outbox, at, link);
    alone
}

/// The train has ended. On a stack of its own: what ends a train is not on it while data is taken.
#[inline(never)]
fn end(state: &mut State, outbox: &mut Outbox, (now, clock): (u64, u32), link: u32) {
    let (endpoint, mut surroundings) = state.split(outbox, now);
    endpoint.end_train(Nanos(now), clock, link, &mut surroundings);
    state.settle(now, outbox);
}
