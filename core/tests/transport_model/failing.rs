// SPDX-License-Identifier: GPL-2.0
//! What cannot be delivered: others are not held up by it, and the sender is told.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::{Failure, Outgoing, Unreachable};
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;
use turnstile_core::transport::wire::{Ack, Cookie, Packet};

use super::crossing::assert_clean;
use super::host::address;
use super::topology::star;
use super::*;

const BEGIN: u64 = 2_000_000;

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 8_000,
        ..Link::default()
    }
}

/// 1000 messages a second to a dead peer, by one user; the same user and another one send to a live
/// peer meanwhile: none of those is refused, and all arrive.
#[test]
fn a_dead_peer_does_not_stop_who_sends_to_others() {
    const SECONDS: u64 = 30;
    let mut network = star(1, &Config::DEFAULT, 3, link(), false);
    network.kill(1);
    let (mut refused, mut good) = (0, Vec::new());
    for i in 0..SECONDS * 1000 {
        network.run_until(BEGIN + i * 1_000_000);
        let what = network.plain(1000);
        refused += u64::from(network.try_send(0, 1, what).is_none());
        if i % 10 == 0 {
            for user in [0, 7] {
                let what = Outgoing { user, ..what };
                good.push(network.try_send(0, 2, what).expect("there is a place"));
            }
        }
    }
    let end = network.now + 20_000_000_000;
    network.run_until(end);
    assert!(refused > SECONDS * 500, "the dead peer's are: {refused}");
    for number in good {
        let message = &network.registry.messages[number];
        let (at, result) = message.result.expect("it ends");
        assert_eq!(result, Ok(()));
        assert!(at - message.began < 1_000_000);
    }
    assert_eq!(network.endpoint(0).counts(), (0, 0, 0));
    assert!(network.endpoint(0).peers(0).is_none());
}

/// A path carries shorter packets than the hosts' devices, and says nothing: the messages arrive,
/// the second one without losing time.
#[test]
fn a_path_that_swallows_long_packets_is_found_out() {
    for policy in [uapi::POLICY_TOP, uapi::POLICY_EXPRESSPASS, uapi::POLICY_REN] {
        for (v6, mtu, steps) in [(false, 1400, 1), (false, 600, 2), (true, 1280, 1)] {
            let config = Config {
                policy,
                ..Config::DEFAULT
            };
            let mut network = star(3, &config, 2, link(), v6);
            network.set_mtu(0, mtu);
            let first = network.send_at(BEGIN, 0, 1, 1_000_000);
            network.run_to_the_end(9_000_000_000);
            let it = &network.registry.messages[first];
            let (at, result) = it.result.expect("it ends");
            assert_eq!(result, Ok(()), "{policy} {mtu}");
            println!("{policy} {mtu}: the first took {} us", (at - BEGIN) / 1000);
            let stats = network.endpoint(0).stats();
            assert_eq!(stats.get(Counter::PathNarrowed), steps);
            let begin = network.now;
            let second = network.send_at(begin, 0, 1, 1_000_000);
            network.run_to_the_end(begin + 1_000_000_000);
            let took = network.registry.messages[second].result.unwrap().0 - begin;
            println!("the second {} us", took / 1000);
            assert!(took < 10_000_000, "{took}");
            let stats = network.endpoint(0).stats();
            assert_eq!(stats.get(Counter::PathNarrowed), steps);
            assert_clean(&mut network, 2);
        }
    }
}

/// What was learnt of a path is tried again later: when it carries long packets again, they are
/// sent.
#[test]
fn a_path_that_is_good_again_is_found_out() {
    let mut network = star(3, &Config::DEFAULT, 2, link(), false);
    network.set_mtu(0, 1400);
    network.send_at(BEGIN, 0, 1, 100_000);
    network.run_to_the_end(9_000_000_000);
    network.set_mtu(0, 0);
    let begin = network.now + 11_000_000_000;
    network.run_until(begin);
    let before = network.endpoint(0).stats().get(Counter::DataSent);
    network.send_at(begin, 0, 1, 1450 * 100);
    network.run_to_the_end(begin + 1_000_000_000);
    let sent = network.endpoint(0).stats().get(Counter::DataSent) - before;
    assert!((100..110).contains(&sent), "{sent} packets for 100");
    assert_clean(&mut network, 2);
}

/// Where one packet of ten is lost, one of a million is lost six times in a row, and is taken for
/// too long: less than one of a hundred thousand is.
#[test]
fn loss_alone_makes_no_packet_shorter() {
    let (mut narrowed, mut sent) = (0, 0);
    for seed in 0..40 {
        let link = Link {
            loss: 100_000,
            ..link()
        };
        let mut network = star(seed, &Config::DEFAULT, 4, link, false);
        for i in 0..100 {
            network.send_at(BEGIN + i * 10_000, (i % 3) as usize, 3, 200_000);
        }
        network.run_to_the_end(9_000_000_000);
        for host in 0..3 {
            let stats = network.endpoint(host).stats();
            narrowed += stats.get(Counter::PathNarrowed);
            sent += stats.get(Counter::DataSent);
        }
        assert_clean(&mut network, 4);
    }
    assert!(
        sent > 500_000 && narrowed * 100_000 < sent,
        "{narrowed} of {sent}"
    );
}

/// No data gets through at all, though the peer answers: the message fails after `timeout`.
#[test]
fn a_path_that_swallows_all_data_ends_in_a_time_out() {
    for policy in [uapi::POLICY_TOP, uapi::POLICY_EXPRESSPASS, uapi::POLICY_REN] {
        let config = Config {
            policy,
            ..Config::DEFAULT
        };
        let mut network = star(3, &config, 2, link(), false);
        network.set_mtu(0, 300);
        let message = network.send_at(BEGIN, 0, 1, 1_000_000);
        network.run_until(60_000_000_000);
        let it = &network.registry.messages[message];
        let (at, result) = it.result.expect("it ends");
        println!("{policy}: {} ms", (at - BEGIN) / 1_000_000);
        assert_eq!(result, Err(Failure::TimedOut));
        assert!(at > BEGIN + 10_000_000_000 && at < BEGIN + 20_000_000_000);
        assert_eq!(network.endpoint(0).counts(), (0, 0, 0));
    }
}

/// The application does not read for ten minutes. While the sender's socket is open, its message
/// waits; one whose socket was closed fails after six timeouts.
#[test]
fn a_closed_socket_does_not_wait_for_a_reader_for_ever() {
    for close in [false, true] {
        let mut network = star(3, &Config::DEFAULT, 2, link(), false);
        network.set_window(1, 20_000, 600_000_000_000);
        let message = network.send_at(BEGIN, 0, 1, 100_000);
        network.run_until(1_000_000_000);
        if close {
            network.close(0);
        }
        network.run_until(590_000_000_000);
        let result = network.registry.messages[message].result;
        if close {
            let (at, result) = result.expect("it is given up");
            assert_eq!(result, Err(Failure::TimedOut));
            assert!(at > 59_000_000_000 && at < 72_000_000_000, "{at}");
        } else {
            assert_eq!(result, None);
        }
    }
}

/// A peer that answers, but gives no tokens.
#[test]
fn a_peer_that_only_talks_ends_in_a_time_out() {
    let mut network = star(3, &Config::DEFAULT, 2, link(), false);
    let seen = std::rc::Rc::new(std::cell::Cell::new(None));
    let tap = seen.clone();
    network.tap = Some(Box::new(move |_, packet| {
        tap.set(Some(packet.packet.cookie()))
    }));
    network.kill(1);
    let message = network.send_at(BEGIN, 0, 1, 100_000);
    network.run_until(3_000_000);
    let cookie = seen.get().unwrap();
    let mut end = None;
    for second in 0..1000 {
        network.run_until(BEGIN + second * 1_000_000_000 + 2_000_000);
        let ack = Ack {
            cookie,
            received: 0,
            window: 100_000,
            allowance: 0,
            last: false,
            mark: turnstile_core::transport::rate::Mark::None,
            notify: false,
        };
        network.inject(1, 0, Packet::Ack(ack), None);
        if let Some((at, result)) = network.registry.messages[message].result {
            assert_eq!(result, Err(Failure::TimedOut));
            end = Some(at);
            break;
        }
    }
    let end = end.expect("it ends") / 1_000_000_000;
    assert!((300..305).contains(&end), "{end} s: 30 timeouts");
}

/// ICMP errors: only who saw the packets can make them, and only while the peer has not answered
/// does one end a message.
#[test]
fn unreachable_is_believed_of_messages_nobody_answered() {
    let mut network = star(3, &Config::DEFAULT, 2, link(), false);
    let seen = std::rc::Rc::new(std::cell::Cell::new(None));
    let tap = seen.clone();
    network.tap = Some(Box::new(move |_, packet| {
        tap.set(Some(packet.packet.cookie()))
    }));
    let says = |network: &mut Network, from: usize, cookie, what| {
        let to = address(from, 0, false);
        network.with(0, |endpoint, io, now, _| {
            endpoint.unreachable(nanos(now), &to, cookie, what, io);
        });
    };
    // One that is under way: not.
    let message = network.send_at(BEGIN, 0, 1, 10_000_000);
    network.run_until(BEGIN + 1_000_000);
    let cookie = seen.get().unwrap();
    says(&mut network, 1, cookie, Unreachable::Port);
    assert_eq!(network.registry.messages[message].result, None);
    network.run_to_the_end(1_000_000_000);
    assert_eq!(network.registry.messages[message].result.unwrap().1, Ok(()));
    // One that nobody has answered: but only with its cookie and address.
    network.kill(1);
    let begin = network.now + 1_000_000_000;
    for what in [
        Unreachable::Port,
        Unreachable::Host,
        Unreachable::Prohibited,
    ] {
        let begin = network.now.max(begin);
        let message = network.send_at(begin, 0, 1, 1000);
        network.run_until(begin + 1_000_000);
        let cookie = seen.get().unwrap();
        says(&mut network, 1, Cookie(cookie.0 ^ 1), what);
        says(&mut network, 2, cookie, what);
        assert_eq!(network.registry.messages[message].result, None);
        says(&mut network, 1, cookie, what);
        let now = network.registry.messages[message].result.is_some();
        assert_eq!(now, what == Unreachable::Port, "{what:?} at once");
        network.run_until(begin + 11_000_000_000);
        let (_, result) = network.registry.messages[message].result.unwrap();
        assert_eq!(result, Err(Failure::Unreachable(what)));
    }
    let stats = network.endpoint(0).stats();
    assert_eq!(stats.get(Counter::UnreachableReceived), 3);
    assert_eq!(stats.get(Counter::UnreachableIgnored), 7);
}

/// The route to a peer becomes narrower in the middle of a message: its packets fit from then on.
#[test]
fn a_route_that_shrinks_makes_packets_fit() {
    let mut network = star(3, &Config::DEFAULT, 2, link(), false);
    let longest = std::rc::Rc::new(std::cell::Cell::new(0));
    let tap = longest.clone();
    network.tap = Some(Box::new(move |_, packet| {
        if let Packet::Data(data) = &packet.packet {
            tap.set(data.len.max(tap.get()));
        }
    }));
    network.send_at(BEGIN, 0, 1, 10_000_000);
    network.run_until(BEGIN + 1_000_000);
    assert_eq!(longest.get(), 1450);
    let to = address(1, 0, false);
    network.with(0, |endpoint, _, now, _| {
        endpoint.path_mtu(nanos(now), &to, 1300);
    });
    network.run_until(BEGIN + 1_100_000);
    longest.set(0);
    network.run_to_the_end(1_000_000_000);
    assert_eq!(longest.get(), 1250);
    assert_clean(&mut network, 2);
}
