// SPDX-License-Identifier: GPL-2.0
//! What ICMP and routes say of the way to a peer.

use super::super::paths::{KEPT, PATHS};
use super::trust::send;
use super::*;
use crate::transport::host::Unreachable;
use crate::transport::wire::{Challenge, Token};

/// A message of 100 000 bytes to a host, and its cookie.
fn begun() -> (Messages, Io, Address, Cookie) {
    let (mut endpoint, mut io) = new(&config());
    let to = host(2, false);
    send(&mut endpoint, &to, &mut io).unwrap();
    let cookie = io.take()[0].cookie();
    (endpoint, io, to, cookie)
}

fn token(cookie: Cookie) -> Packet {
    Packet::Token(Token {
        cookie,
        sequence: 9,
        timestamp: 0,
        priority: 0,
        grant: None,
        worth: 1,
    })
}

/// Who did not see a message's packets does not know its cookie; and what is said of another
/// address is of another message.
#[test]
fn icmp_of_another_cookie_or_address_ends_nothing() {
    let (mut endpoint, mut io, to, cookie) = begun();
    let other = Cookie(cookie.0 ^ 1);
    endpoint.unreachable(NOW, &to, other, Unreachable::Port, &mut io);
    endpoint.unreachable(NOW, &host(3, false), cookie, Unreachable::Port, &mut io);
    assert!(io.out_failed.is_empty());
    endpoint.unreachable(NOW, &to, cookie, Unreachable::Port, &mut io);
    assert_eq!(io.out_failed, [Failure::Unreachable(Unreachable::Port)]);
}

/// Whoever has answered runs the transport, so a "port unreachable" is wrong: after a token, after
/// a CHALLENGE, and after a RESET that says that the message is not known (any longer).
#[test]
fn port_unreachable_after_an_answer_ends_nothing() {
    let challenge = |cookie| {
        Packet::Challenge(Challenge {
            cookie,
            echo: 77,
            ticket: false,
        })
    };
    let unknown = |cookie| {
        let code = ResetCode::Unknown;
        Packet::Reset(Reset { cookie, code })
    };
    type Answer = fn(Cookie) -> Packet;
    let answers: [(&str, &[Answer]); 4] = [
        ("a token", &[token]),
        ("a CHALLENGE", &[challenge]),
        ("a RESET", &[unknown]),
        ("a token and a RESET", &[token, unknown]),
    ];
    for (what, answers) in answers {
        let (mut endpoint, mut io, to, cookie) = begun();
        for answer in answers {
            endpoint.receive(NOW, &to, answer(cookie), &mut io);
        }
        endpoint.unreachable(NOW, &to, cookie, Unreachable::Port, &mut io);
        assert!(io.out_failed.is_empty(), "after {what}");
        assert_eq!(endpoint.stats().get(Counter::UnreachableIgnored), 1);
    }
}

/// A router says that a host cannot be reached, which then answers: the router's word is no longer
/// why the message fails.
#[test]
fn icmp_before_the_peer_was_heard_of_is_not_told() {
    let (mut endpoint, mut io, to, cookie) = begun();
    endpoint.unreachable(NOW, &to, cookie, Unreachable::Host, &mut io);
    endpoint.receive(NOW, &to, token(cookie), &mut io);
    let mut now = NOW;
    while io.out_failed.is_empty() {
        now = now.max(endpoint.next_timer().unwrap()) + Nanos(1000);
        endpoint.timer(now, now.0 as u32, &mut io);
    }
    assert_eq!(io.out_failed, [Failure::TimedOut]);
}

/// A route that is wider than the path that was learnt makes packets no longer.
#[test]
fn a_wide_route_does_not_widen_a_path_that_was_learnt() {
    let (mut endpoint, mut io, to, cookie) = begun();
    endpoint.path_mtu(NOW, &to, 600);
    endpoint.path_mtu(NOW, &to, 1400);
    endpoint.receive(NOW, &to, token(cookie), &mut io);
    let sent = io.take();
    let len = sent.iter().find_map(|it| match it {
        Packet::Data(data) => Some(data.len),
        _ => None,
    });
    assert!(len.is_some_and(|len| len <= 600 - 50), "{len:?}");
}

/// What was learnt of a peer's path is not believed of another one that has the same slot.
#[test]
fn a_path_is_of_one_peer() {
    let (mut endpoint, mut io, to, _) = begun();
    let slot = endpoint.path(&to);
    let same = (3..100_000).map(|n| host(n, false));
    let other = { same }.find(|it| endpoint.path(it) == slot).unwrap();
    let index = endpoint.outs.next(0).unwrap();
    endpoint.narrow(NOW, index, 1450);
    // The message ends, and with it what the peer's entry knows.
    while endpoint.clear(NOW, &mut io) {}
    let mut most = |to: &Address| {
        send(&mut endpoint, to, &mut io).unwrap();
        let index = endpoint.outs.next(0).unwrap();
        let most = endpoint.most_of(NOW, endpoint.outs.get(index).unwrap().peer);
        while endpoint.clear(NOW, &mut io) {}
        most
    };
    assert_eq!(most(&other), u32::MAX);
    assert!(most(&to) < 1450);
}

/// For how long a path counts as narrow: twice as long each time that it is found again, up to 640
/// s; steps down in a row are one finding.
#[test]
fn what_is_found_again_is_kept_for_twice_as_long() {
    let (mut endpoint, _, to, _) = begun();
    let index = endpoint.outs.next(0).unwrap();
    let slot = endpoint.path(&to);
    let mut now = NOW;
    for seconds in [10, 20, 40, 80, 160, 320, 640, 640, 640] {
        for tried in [1450, 1230] {
            endpoint.narrow(now, index, tried);
            let until = endpoint.paths.get(slot).unwrap().until;
            assert_eq!((until - now).0, seconds * Nanos::SECOND.0, "{tried}");
        }
        now += Nanos((seconds + 1) * Nanos::SECOND.0);
    }
}

/// Peers' paths are kept apart: their slots are spread.
#[test]
fn peers_have_different_slots() {
    let (endpoint, ..) = begun();
    let slots: std::collections::BTreeSet<u32> =
        (0..1000).map(|n| endpoint.path(&host(n, false))).collect();
    assert_eq!(slots.len(), PATHS as usize);
}

/// What was learnt of a path that is over counts for nothing when its route is told, at that very
/// time as well.
#[test]
fn a_route_that_is_told_replaces_what_is_over() {
    for (later, most) in [(0, 552), (KEPT.0 - 1, 552), (KEPT.0, 1352)] {
        let (mut endpoint, _, to, _) = begun();
        let index = endpoint.outs.next(0).unwrap();
        let peer = endpoint.outs.get(index).unwrap().peer;
        endpoint.path_mtu(NOW, &to, 600);
        let narrow = endpoint.most_of(NOW, peer);
        let now = NOW + Nanos(later);
        endpoint.path_mtu(now, &to, 1400);
        let is = endpoint.most_of(now, peer);
        assert_eq!(is - narrow, most - 552, "{later} ns later");
    }
}

/// What is said of a message is heard by both of its ends.
#[test]
fn messages_are_known_at_either_end() {
    let (mut endpoint, mut io, to, cookie) = begun();
    assert!(endpoint.has_message(&to, cookie));
    assert!(!endpoint.has_message(&to, Cookie(cookie.0 ^ 1)));
    assert!(!endpoint.has_message(&host(3, false), cookie));
    let from = host(4, false);
    endpoint.receive(NOW, &from, Packet::Sync(sync(7, 1000)), &mut io);
    assert!(endpoint.has_message(&from, Cookie(7)));
    assert!(!endpoint.has_message(&to, Cookie(7)));
}
