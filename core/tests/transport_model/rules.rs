// SPDX-License-Identifier: GPL-2.0
//! TOP's rules: priorities, expiry of tokens at the sender, unscheduled packets, unknown lengths.
//! And the failures of messages.

use turnstile_core::port::band::Band;
use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::Failure;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;
use turnstile_core::transport::wire::ResetCode;

use super::crossing::{assert_clean, Kind};
use super::host::Policy;
use super::topology::{dumbbell, star, PAPERS};
use super::*;

const G10: u64 = 1_250_000_000;
const BEGIN: u64 = 2_000_000;

fn link() -> Link {
    Link {
        rate: G10,
        delay: 8_000,
        ..Link::default()
    }
}

fn took(network: &Network, message: usize) -> u64 {
    let message = &network.registry.messages[message];
    message.delivered.expect("it is delivered") - message.began
}

/// A message of 50 packets alone and beside long ones that saturate the same link: ns.
fn beside_load(config: &Config, kind: Kind, load: bool) -> u64 {
    let mut network = dumbbell(1, config, 4, link());
    if load {
        for pair in 0..3 {
            network.send_at(BEGIN, pair, 4 + pair, 100_000_000);
        }
    }
    let length = 50 * 1450;
    let mut what = network.plain(length);
    if kind == Kind::UnknownSize {
        what.length = None;
    }
    // To the host that a long one goes to, so that hosts' own order counts, too.
    let message = network.send_as(6_000_000, 3, 4, length, what);
    network.run_until(12_000_000);
    for node in &network.nodes {
        assert_eq!(node.port.stats(Band::Data).over_limit, 0);
    }
    took(&network, message)
}

/// The goal: under a saturating load of low priority a message of high priority takes at most 1.2
/// times its time alone.
#[test]
fn a_short_message_hardly_notices_long_ones() {
    let config = Config::DEFAULT;
    for kind in [Kind::Plain, Kind::UnknownSize] {
        let alone = beside_load(&config, kind, false);
        let beside = beside_load(&config, kind, true);
        println!("{kind:?}: alone {alone} ns, beside load {beside} ns");
        assert!(beside * 10 <= alone * 12, "{kind:?}: {alone} {beside}");
    }
    // Without priorities it waits for its share, so the result above is due to the policy.
    let policy = uapi::POLICY_EXPRESSPASS;
    let config = Config { policy, ..config };
    let alone = beside_load(&config, Kind::Plain, false);
    let beside = beside_load(&config, Kind::Plain, true);
    println!("expresspass: alone {alone} ns, beside load {beside} ns");
    assert!(beside * 2 > alone * 3);
}

/// Tokens wait long at a port behind others of higher priority, since ports have no expiry here;
/// then all leave at once. Returns the longest data queue before their receiver, bytes.
fn after_a_wait(token_expiry: u64) -> u64 {
    let config = Config {
        schedule: uapi::SCHEDULE_LAS,
        // Hardly any feedback: unanswered tokens halve the rate at most.
        min_rate: 500_000_000,
        token_expiry,
        ..Config::DEFAULT
    };
    let mut network = star(1, &config, 4, link(), false);
    let patient = turnstile_core::port::config::Config {
        token_limit: 1000,
        token_expiry: turnstile_core::port::config::Expiry::Off,
        ..PAPERS
    };
    for host in 0..4 {
        network.configure_node(2 * host + 1, patient);
    }
    let mut low = network.plain(40_000_000);
    low.priority = Some(5);
    network.send_as(BEGIN, 1, 0, 40_000_000, low);
    network.send_as(BEGIN, 2, 0, 40_000_000, low);
    let mut high = network.plain(3_000_000);
    high.priority = Some(0);
    network.send_as(BEGIN + 500_000, 1, 3, 3_000_000, high);
    network.run_until(12_000_000);
    let expired = network.endpoint(1).stats().get(Counter::TokenExpired);
    assert_eq!(expired > 50, token_expiry != 0, "{expired}");
    network.nodes[1].port.stats(Band::Data).max_bytes
}

#[test]
fn expiry_at_the_sender_bounds_the_data_queue() {
    let without = after_a_wait(0);
    // Twice the way through an empty network, and a queue of tokens.
    let with = after_a_wait(60_000);
    println!("at most {without} B of data queued without expiry, {with} B with");
    // Without, as many wait as may be outstanding: a few round trips of the link, of each message.
    assert!(without > 100_000 && with < 40 * 1514, "{without} {with}");
}

#[test]
fn unscheduled_packets_save_a_round_trip() {
    let config = Config {
        unscheduled: 8,
        ..Config::DEFAULT
    };
    for (length, unscheduled) in [(5 * 1450, 5), (8 * 1450, 8), (8 * 1450 + 1, 0)] {
        let mut network = star(1, &config, 2, link(), false);
        network.acquaint([(0, 1)]);
        let before = network.endpoint(0).stats().get(Counter::UnscheduledSent);
        let message = network.send_at(BEGIN, 0, 1, length);
        network.run_to_the_end(1_000_000_000);
        let stats = network.endpoint(0).stats();
        let sent = stats.get(Counter::UnscheduledSent) - before;
        assert_eq!(sent, unscheduled);
        // Half a round trip is 16 us; with tokens it takes three times as long.
        assert_eq!(took(&network, message) < 35_000, unscheduled != 0);
        assert_clean(&mut network, 2);
    }
    // Of a length that is not told, none.
    let mut network = star(1, &config, 2, link(), false);
    let mut what = network.plain(1000);
    what.length = None;
    network.send_as(BEGIN, 0, 1, 1000, what);
    network.run_to_the_end(1_000_000_000);
    let stats = network.endpoint(0).stats();
    assert_eq!(stats.get(Counter::UnscheduledSent), 0);
    // One behind the SYNC that shows a stranger's address, and one for the token.
    assert_eq!(stats.get(Counter::FinSent), 2);
    assert_clean(&mut network, 2);
}

/// Unscheduled packets are dropped where they meet, do not harm scheduled data, and their messages
/// still arrive.
#[test]
fn unscheduled_packets_that_meet_are_sent_again_with_tokens() {
    let config = Config {
        unscheduled: 8,
        ..Config::DEFAULT
    };
    let mut network = star(1, &config, 17, link(), false);
    for sender in 1..=16 {
        network.send_at(BEGIN, sender, 0, 8 * 1450);
        network.send_at(BEGIN, sender, 0, 100 * 1450);
    }
    network.run_to_the_end(1_000_000_000);
    let port = &network.nodes[1].port;
    let dropped = port.stats(Band::Unscheduled).over_limit;
    assert!(dropped > 50, "{dropped}");
    assert_eq!(port.stats(Band::Data).over_limit, 0);
    let resent: u64 = (1..=16)
        .map(|host| network.endpoint(host).stats().get(Counter::DataResent))
        .sum();
    println!("{dropped} unscheduled packets dropped, {resent} sent again");
    assert_eq!(resent, dropped);
    assert_clean(&mut network, 17);
}

/// Delayed packets at a message's end do not deliver it twice: repeated SYNCs are answered and open
/// nothing.
#[test]
fn what_was_delivered_is_remembered() {
    let link = Link {
        repeat: 500_000,
        reorder: 500_000,
        late: 3_000_000,
        ..link()
    };
    let config = Config {
        unscheduled: 8,
        ..Config::DEFAULT
    };
    let mut network = star(5, &config, 2, link, false);
    for i in 0..200 {
        network.send_at(BEGIN + i * 10_000, 0, 1, 1 + 37 * i as u32);
    }
    network.run_to_the_end(10_000_000_000);
    assert!(network.endpoint(1).stats().get(Counter::SyncRepeated) > 50);
    assert_clean(&mut network, 2);
}

#[test]
fn a_dead_peer_ends_in_a_time_out_at_both_sides() {
    let config = Config {
        timeout: 1_000_000_000,
        ..Config::DEFAULT
    };
    // A host dies before it hears anything, and in the middle of a message.
    for (dies, receiver) in [(0, true), (4_000_000, true), (4_000_000, false)] {
        let mut network = star(1, &config, 2, link(), false);
        let message = network.send_at(BEGIN, 0, 1, 10_000_000);
        network.run_until(dies);
        network.kill(usize::from(receiver));
        network.run_until(10_000_000_000);
        let it = &network.registry.messages[message];
        if receiver {
            let (at, result) = it.result.expect("it ends");
            assert_eq!(result, Err(Failure::TimedOut));
            let from = BEGIN.max(dies);
            assert!(
                at >= from + 999_000_000 && at <= from + 1_001_000_000,
                "{at}"
            );
        } else {
            assert_eq!(it.failed_in, Some(Failure::TimedOut));
        }
        let alive = usize::from(!receiver);
        assert_eq!(network.endpoint(alive).counts(), (0, 0, 0));
        assert_eq!(network.endpoint(alive).next_timer(), None);
    }
}

#[test]
fn a_receiver_that_will_not_says_why() {
    for code in [ResetCode::NoSocket, ResetCode::TooLong] {
        let mut network = star(1, &Config::DEFAULT, 2, link(), false);
        network.set_port(1, 2, Policy::Refuse(code));
        let message = network.send_at(BEGIN, 0, 1, 10_000);
        network.run_until(1_000_000_000);
        let (at, result) = network.registry.messages[message].result.unwrap();
        assert_eq!(result, Err(Failure::Reset(code)));
        assert!(at < BEGIN + 50_000);
    }
    // A receiver without room is sent the SYNC again until it has some.
    let mut network = star(1, &Config::DEFAULT, 2, link(), false);
    network.set_port(1, 2, Policy::Ignore);
    network.send_at(BEGIN, 0, 1, 10_000);
    network.run_until(500_000_000);
    network.clear_ports(1);
    network.run_to_the_end(3_000_000_000);
    assert_clean(&mut network, 2);
}

#[test]
fn who_ends_a_message_tells_the_other() {
    // The sender.
    let mut network = star(1, &Config::DEFAULT, 2, link(), false);
    let message = network.send_at(BEGIN, 0, 1, 10_000_000);
    network.run_until(4_000_000);
    network.with(0, |endpoint, io, now, _| {
        let (_, id, ..) = endpoint.outgoing(nanos(now), 0).unwrap();
        assert!(endpoint.abort(nanos(now), id, io).is_some());
        assert!(endpoint.abort(nanos(now), id, io).is_none());
    });
    network.run_until(30_000_000);
    let it = &network.registry.messages[message];
    assert_eq!(it.failed_in, Some(Failure::Reset(ResetCode::Aborted)));
    assert_eq!(network.endpoint(1).counts(), (0, 0, 0));
    // The receiver.
    let mut network = star(1, &Config::DEFAULT, 2, link(), false);
    let message = network.send_at(BEGIN, 0, 1, 10_000_000);
    network.run_until(4_000_000);
    network.with(1, |endpoint, io, now, _| {
        let (_, id, ..) = endpoint.incoming(nanos(now), 0).unwrap();
        assert!(endpoint.refuse(nanos(now), id, io).is_some());
        assert!(endpoint.refuse(nanos(now), id, io).is_none());
    });
    network.run_until(30_000_000);
    let (_, result) = network.registry.messages[message].result.unwrap();
    assert_eq!(result, Err(Failure::Reset(ResetCode::Closed)));
    assert_eq!(network.endpoint(0).counts(), (0, 0, 0));
}

/// The host's port has room for unscheduled packets.
#[test]
fn a_hosts_own_port_drops_nothing() {
    let config = Config {
        unscheduled: 64,
        ..Config::DEFAULT
    };
    let mut network = star(1, &config, 2, link(), false);
    for i in 0..10 {
        network.send_at(BEGIN + i * 1_000_000, 0, 1, 64 * 1450);
    }
    network.run_to_the_end(1_000_000_000);
    let data = network.nodes[0].port.stats(Band::Data);
    assert_eq!((data.offered_packets, data.over_limit), (640, 0));
    let stats = network.endpoint(0).stats();
    assert_eq!(stats.get(Counter::UnscheduledSent), 640);
    assert_eq!(stats.get(Counter::DataResent), 0);
    assert_clean(&mut network, 2);
}

/// A REN sender does not know the window when it begins: data beyond the window is dropped, and
/// sent again later.
#[test]
fn a_burst_beyond_the_window_arrives() {
    let config = Config {
        policy: uapi::POLICY_REN,
        base_rtt: 1_000_000,
        ..Config::DEFAULT
    };
    let mut network = star(1, &config, 2, link(), false);
    network.set_window(1, 20_000, 50_000);
    network.send_at(BEGIN, 0, 1, 3_000_000);
    network.run_to_the_end(10_000_000_000);
    let beyond = network.endpoint(1).stats().get(Counter::DataBeyondWindow);
    assert!(beyond > 100, "{beyond}");
    assert_clean(&mut network, 2);
}

/// A change of the configuration takes effect at once, also for messages that were paced for a slow
/// link.
#[test]
fn a_faster_link_is_used_at_once() {
    let slow = Config {
        link: 1_250_000,
        ..Config::DEFAULT
    };
    let mut network = star(1, &slow, 2, link(), false);
    let message = network.send_at(BEGIN, 0, 1, 10_000_000);
    network.run_until(100_000_000);
    assert!(network.registry.messages[message].received < 200_000);
    let fast = Config::DEFAULT.validate(Some(G10)).unwrap();
    network.with(1, |endpoint, io, now, _| {
        endpoint.configure(nanos(now), &fast, io)
    });
    network.run_to_the_end(1_000_000_000);
    println!("{} ns", took(&network, message));
    assert!(took(&network, message) < 98_000_000 + 20_000_000);
    assert_clean(&mut network, 2);
}

/// Waiting messages cause few probes: neither side counts a probe as news.
#[test]
fn messages_that_wait_ask_ever_more_rarely() {
    // 100 Mbit/s, so that most wait for half a second; and a receive buffer that few fit into.
    let config = Config {
        link: 12_500_000,
        ..Config::DEFAULT
    };
    let slow = Link {
        rate: 12_500_000,
        loss: 10_000,
        ..link()
    };
    const COUNT: u64 = 300;
    let mut network = star(1, &config, 2, slow, false);
    network.set_window(1, 20_000, 1_000_000);
    for i in 0..COUNT {
        network.send_at(BEGIN + i * 1000, 0, 1, 10 + (i as u32 * 7919) % 40_000);
    }
    network.run_to_the_end(20_000_000_000);
    let sender = network.endpoint(0).stats();
    let asked = sender.get(Counter::ProbeSent) + sender.get(Counter::SyncSent);
    let named = network.endpoint(1).stats().get(Counter::ResendSent);
    println!(
        "{asked} SYNCs, {named} RESENDs in {} ms",
        network.now / 1_000_000
    );
    assert!(asked < COUNT * 20, "{asked} SYNCs");
    assert!(named < COUNT * 20, "{named} RESENDs");
    assert_clean(&mut network, 2);
}

/// A thousand messages whose senders fall silent are probed no more often than a host can answer,
/// and arrive when the senders are back.
#[test]
fn silent_senders_are_asked_one_after_the_other() {
    const COUNT: u64 = 1000;
    let mut network = star(1, &Config::DEFAULT, 2, link(), false);
    for i in 0..COUNT {
        network.send_at(BEGIN + i * 1000, 0, 1, 100_000);
    }
    network.run_until(10_000_000);
    network.set_loss(0, 1_000_000);
    let sent = |network: &mut Network| {
        let stats = network.endpoint(1).stats();
        stats.get(Counter::ResendSent) + stats.get(Counter::TokenSent)
    };
    // By now open messages are silent, and the probes of half-open ones have backed off.
    network.run_until(1_000_000_000);
    let before = sent(&mut network);
    network.run_until(3_000_000_000);
    let asked = sent(&mut network) - before;
    println!("{asked} tokens and RESENDs in 2 s");
    assert!(asked > 1000, "nobody is asked");
    assert!(asked < 50_000, "{asked}");
    network.set_loss(0, 0);
    network.run_to_the_end(6_000_000_000);
    assert_clean(&mut network, 2);
}
