// SPDX-License-Identifier: GPL-2.0
//! Many messages that begin at once.

use turnstile_core::port::band::Band;
use turnstile_core::port::config::Config as PortConfig;
use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;

use super::crossing::assert_clean;
use super::topology::{host_port, star, PAPERS};
use super::*;

fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 5_000,
        ..Link::default()
    }
}

/// So many hosts begin so many messages each at once, all to one other; the shipped settings.
/// `known`: they have had messages for it before. How long it takes until the last has come, as a
/// multiple of what their payload takes at the link's rate. No packet of data is dropped.
fn at_once(hosts: usize, each: usize, length: u32, known: bool) -> f64 {
    let mut network = star(1, &Config::DEFAULT, hosts + 1, link(), false);
    if known {
        network.acquaint((1..=hosts).map(|host| (host, 0)));
        network.run_until(network.now + 10_000_000);
    }
    let begin = network.now + 1_000_000;
    for n in 0..hosts * each {
        network.send_at(begin, 1 + n % hosts, 0, length);
    }
    network.run_to_the_end(begin + 400_000_000_000);
    let all = network.registry.messages.iter();
    let last = all.map(|it| it.delivered.expect("it is delivered") - begin);
    let last = last.max().unwrap_or(0);
    for node in &network.nodes {
        assert_eq!(node.port.stats(Band::Data).over_limit, 0);
    }
    assert_clean(&mut network, hosts + 1);
    let payload = u64::from(length) * (hosts * each) as u64 * 1_000_000_000 / link().rate;
    let times = last as f64 / payload as f64;
    println!(
        "{hosts} hosts, {each} of {length} B each, known: {known}; the last after {} us, \
         {times:.3} of the payload's time",
        last / 1000
    );
    times
}

/// Tokens leave 94.8 % of the link for data, of which 94.3 % are payload: 1.12, but for the first
/// packets, which wait for no token.
#[test]
fn an_incast_takes_as_long_as_its_payload() {
    for hosts in [8, 32, 128, 512] {
        assert!(at_once(hosts, 1, 75_000, true) <= 1.14);
    }
    // Strangers prove their addresses first: a round trip or two.
    for hosts in [32, 128, 512] {
        assert!(at_once(hosts, 1, 75_000, false) <= 1.16);
    }
}

/// There are no more places than for 4096 messages (`max-incoming`), nor for 1024 of strangers
/// (`max-half-open`); the others are tried again while these go on.
#[test]
fn thousands_do_not_wait_for_each_other() {
    for known in [true, false] {
        for (hosts, each) in [(400, 10), (40, 100), (4, 1000)] {
            // A packet less full in seven: 1.03 times the headers.
            assert!(at_once(hosts, each, 10_000, known) <= 1.2);
        }
        assert!(at_once(40, 100, 75_000, known) <= 1.14);
    }
}

/// Two or eight hosts send short messages to one that they send bulk to, 10 % or 30 % of its link.
/// The slowdown of the short ones against the wire: mean, and most. No packet of data is dropped
/// by a switch's port that holds 128 kB.
fn beside_bulk(senders: usize, percent: u64, length: u32, bulk: u32) -> (f64, f64) {
    let mut network = Network::new(7, Box::new(|from, to| vec![2 * from, 2 * to + 1]));
    let config = Config::DEFAULT.validate(Some(link().rate)).unwrap();
    let port = PortConfig {
        data_limit: 128_000,
        ..PAPERS
    };
    for _ in 0..=senders {
        network.host(&config, false);
        network.node(host_port(), link());
        network.node(port, link());
    }
    network.acquaint((1..=senders).map(|host| (host, 0)));
    let mut at = network.now + 1_000_000;
    for host in 1..=senders {
        network.send_at(at, host, 0, bulk);
    }
    let first = network.registry.messages.len();
    let apart = u64::from(length) * 106 * 1_000_000_000 / link().rate / percent;
    for _ in 0..600 {
        at += network.below(2 * apart);
        let from = 1 + network.below(senders as u64) as usize;
        network.send_at(at, from, 0, length);
    }
    network.run_to_the_end(at + 10_000_000_000);
    let wire = u64::from(length) + u64::from(length.div_ceil(1450)) * 88;
    let ideal = wire * 1_000_000_000 / link().rate + 2 * link().delay + 1230;
    let short = network.registry.messages.iter().skip(first);
    let slow: Vec<f64> = short
        .map(|it| (it.delivered.expect("it is delivered") - it.began) as f64 / ideal as f64)
        .collect();
    let ports = network.nodes.iter().skip(1).step_by(2);
    let dropped: u64 = ports
        .map(|node| node.port.stats(Band::Data).over_limit)
        .sum();
    assert_eq!(dropped, 0);
    let mean = slow.iter().sum::<f64>() / slow.len() as f64;
    (mean, slow.iter().copied().fold(0.0, f64::max))
}

/// Tokens give way to what comes unasked as long as that lasts, and no queue stays: the time by
/// which tokens are late is not unused.
#[test]
fn short_messages_beside_bulk_have_no_queue_before_them() {
    for (senders, percent, length, bulk) in [
        (8, 10, 20_000, 10_000_000),
        (8, 30, 20_000, 10_000_000),
        (2, 30, 20_000, 40_000_000),
        (8, 30, 5_000, 10_000_000),
    ] {
        let (mean, most) = beside_bulk(senders, percent, length, bulk);
        println!("{senders} hosts, {length} B at {percent} %: {mean:.2}, {most:.1}");
        assert!(mean < 1.8 && most < 12.0, "{mean:.2}, {most:.1}");
    }
}

/// One host begins a message of so many bytes to each of so many others at once. How long that
/// takes, as times of the payload's.
fn to_many(hosts: usize, length: u32, seed: u64) -> f64 {
    let mut network = star(seed, &Config::DEFAULT, hosts + 1, link(), false);
    network.acquaint((1..=hosts).map(|host| (0, host)));
    network.run_until(network.now + 10_000_000);
    let begin = network.now + 1_000_000;
    for host in 1..=hosts {
        network.send_at(begin, 0, host, length);
    }
    network.run_to_the_end(begin + 400_000_000_000);
    let all = network.registry.messages.iter();
    let last = all.map(|it| it.delivered.expect("it is delivered")).max();
    let took = last.unwrap_or(0) - begin;
    for node in &network.nodes {
        assert_eq!(node.port.stats(Band::Data).over_limit, 0);
    }
    let again = network.stats(0).get(Counter::DataResent);
    assert_clean(&mut network, hosts + 1);
    let payload = u64::from(length) * hosts as u64 * 1_000_000_000 / link().rate;
    let times = took as f64 / payload as f64;
    println!("{length} B to each of {hosts}: {times:.3} of the payload's time, {again} resent");
    times
}

/// What a host sends without tokens to many at once would fill its own port. Of short messages to
/// few, which take less than a millisecond, the mean of eight draws: these differ by a tenth; of
/// long ones that of four, which differ by a thirtieth.
#[test]
fn one_sends_to_many() {
    let mean = (1..=4)
        .map(|seed| to_many(30, 3_000_000, seed))
        .sum::<f64>()
        / 4.0;
    assert!(mean <= 1.18, "{mean:.3}");
    assert!(to_many(200, 30_000, 1) <= 1.2);
    let mean = (1..=8).map(|seed| to_many(30, 30_000, seed)).sum::<f64>() / 8.0;
    assert!(mean <= 1.31, "{mean:.3}");
}

/// 16 hosts send messages that are shorter than a packet to one another, at random: the SYNCs and
/// ACKs of most are more than signals may take, and no message overtakes its SYNC for that. The
/// mean slowdown of the later half against the wire.
#[test]
fn messages_shorter_than_a_packet_do_not_overtake_their_signals() {
    const HOSTS: u64 = 16;
    for (length, percent, bound) in [(200, 10, 1.1), (800, 30, 1.25), (1400, 50, 1.5)] {
        let mut network = star(6, &Config::DEFAULT, HOSTS as usize, link(), false);
        for host in 0..HOSTS as usize {
            network.configure_node(2 * host + 1, PortConfig::DEFAULT);
        }
        let all = 0..HOSTS as usize;
        network.acquaint(
            all.clone()
                .flat_map(|a| all.clone().map(move |b| (a, b)))
                .filter(|(a, b)| a != b),
        );
        let wire = u64::from(length) + 88;
        let apart = wire * 1_000_000_000 / link().rate * 100 / percent / HOSTS;
        let mut at = network.now + 10_000_000;
        let first = network.registry.messages.len();
        for _ in 0..16_000 {
            at += network.below(2 * apart);
            let from = network.below(HOSTS);
            let to = (from + 1 + network.below(HOSTS - 1)) % HOSTS;
            network.send_at(at, from as usize, to as usize, length);
        }
        network.run_to_the_end(at + 1_000_000_000);
        let later = network.registry.messages.iter().skip(first + 8000);
        let ideal = 2 * (wire * 1_000_000_000 / link().rate + link().delay);
        let sum: u64 = later
            .map(|it| it.delivered.expect("it is delivered") - it.began)
            .sum();
        let mean = sum as f64 / 8000.0 / ideal as f64;
        println!("{length} B at {percent} %: {mean:.3}");
        assert!(mean < bound);
    }
}

/// 16 hosts have sent one byte to each other. From then on what is shorter than two packets goes at
/// once, whoever it is for.
#[test]
fn after_one_meeting_all_may_begin_unasked() {
    const HOSTS: u64 = 16;
    let mut network = star(1, &Config::DEFAULT, HOSTS as usize, link(), false);
    let all = || 0..HOSTS as usize;
    let begin = network.now + 1_000_000;
    for (from, to) in all().flat_map(|a| all().map(move |b| (a, b))) {
        if from != to {
            network.send_at(begin, from, to, 1);
        }
    }
    network.run_until(begin + 10_000_000);
    let first = network.registry.messages.len();
    for n in 0..1000 {
        let from = network.below(HOSTS);
        let to = (from + 1 + network.below(HOSTS - 1)) % HOSTS;
        let at = begin + 20_000_000 + n * 20_000;
        network.send_at(at, from as usize, to as usize, 2000);
    }
    network.run_to_the_end(begin + 1_000_000_000);
    let later = network.registry.messages.iter().skip(first);
    let sum: u64 = later
        .map(|it| it.delivered.expect("it is delivered") - it.began)
        .sum();
    let ideal = (2000 + 2 * 88 + 1538) * 1_000_000_000 / link().rate + 2 * link().delay;
    let mean = sum as f64 / 1000.0 / ideal as f64;
    println!("{mean:.3} times the wire's time");
    assert!(mean < 1.1);
}
