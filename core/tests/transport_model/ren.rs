// SPDX-License-Identifier: GPL-2.0
//! REN end to end: the real endpoints over the real marker (REN sections 3 to 5).

use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Config as PortConfig, Expiry, Tokens};
use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;

use super::crossing::assert_clean;
use super::topology::{dumbbell, star, PAPERS};
use super::*;

const G10: u64 = 1_250_000_000;
/// A grant's way to the sender and its packet's way back, ns (REN section 5.2).
const RTT: u64 = 48_000;
/// Full frames that the link carries in it.
const BDP: u64 = RTT * G10 / (FRAME * 1_000_000_000);
const FRAME: u64 = 1538;
/// Bytes of data that a port has room for where that does not matter.
const BUFFER: u32 = 1_514_000;
/// Longer than anything lasts here.
const ENDLESS: u32 = 64 << 20;
const BEGIN: u64 = 2_000_000;

fn link() -> Link {
    let wire = |bytes: u64| bytes * 1_000_000_000 / G10;
    Link {
        rate: G10,
        delay: (RTT - 3 * (wire(FRAME) + wire(84))) / 6,
        ..Link::default()
    }
}

fn config() -> Config {
    Config {
        policy: uapi::POLICY_REN,
        base_rtt: RTT,
        ..Config::DEFAULT
    }
}

/// A switch's port as `tc-configs/ren-port.sh` makes it, with a marker or without.
fn port(marks: bool, buffer: u32) -> PortConfig {
    PortConfig {
        tokens: Tokens::Share(200_000_000),
        token_limit: 1024,
        token_expiry: Expiry::Off,
        data_limit: buffer,
        ren: marks.then_some(Nanos(RTT)),
        ..PAPERS
    }
}

fn pairs(seed: u64, pairs: usize, marks: bool, buffer: u32) -> Network {
    let mut network = dumbbell(seed, &config(), pairs, link());
    network.configure_node(0, port(marks, buffer));
    network.configure_node(1, port(marks, buffer));
    for host in 0..2 * pairs {
        network.configure_node(2 + 2 * host + 1, port(marks, buffer));
    }
    network
}

fn sum(network: &Network, hosts: usize, counter: Counter) -> u64 {
    let stats = |host| network.endpoint(host).stats().get(counter);
    (0..hosts).map(stats).sum()
}

/// Packets of data that the link's port has dropped, and the most that have waited there.
fn waited(network: &Network) -> (u64, u64) {
    let data = network.nodes[0].port.stats(Band::Data);
    (data.over_limit, data.max_packets)
}

/// A port without a marker always reports room. Without a cap of their own, messages would double
/// their rate until the port drops most of their packets, and even a single one would stall.
#[test]
fn without_marks_no_more_is_under_way_than_the_link_carries() {
    // What is acknowledged at once.
    const BATCH: u64 = 16;
    for count in 1..=4 {
        let mut network = pairs(count as u64, count, false, BUFFER);
        network.registry.window = RTT;
        for flow in 0..count {
            network.send_at(BEGIN, flow, count + flow, ENDLESS);
        }
        let rounds = 100;
        network.run_until(BEGIN + rounds * RTT);
        let (dropped, most) = waited(&network);
        println!("{count} messages: at most {most} packets wait");
        assert_eq!(dropped, 0);
        assert!(most <= count as u64 * (BDP + BATCH));
        let held = sum(&network, count, Counter::GrantHeld);
        assert!(held > rounds, "{held}");
        // All of the link, from the second round on.
        let link = (rounds - 2) * BDP * 1450;
        let received = network.registry.bytes;
        assert!(received >= link, "{received} B of {link}");
    }
}

/// Four messages share a link that is slower than the hosts': their packets wait for many round
/// trips, and are taken for lost meanwhile. The grants sent for that draw further packets, which
/// add to those under way, but only up to a bound.
#[test]
fn what_waits_for_long_is_not_taken_for_lost_for_ever() {
    const COUNT: usize = 4;
    let mut network = pairs(1, COUNT, false, 4 * BUFFER);
    network.slow_down(0, G10 / 4);
    for flow in 0..COUNT {
        network.send_at(BEGIN, flow, COUNT + flow, ENDLESS);
    }
    network.run_until(BEGIN + 400 * RTT);
    let (dropped, most) = waited(&network);
    println!("at most {most} packets wait");
    assert_eq!(dropped, 0);
    assert!(most <= COUNT as u64 * (2 * BDP + 16), "{most}");
}

/// The initial burst is what the link carries in a round trip, headers included: a message alone is
/// never queued.
#[test]
fn the_first_round_is_at_the_links_rate() {
    let mut network = pairs(1, 1, true, BUFFER);
    network.send_at(BEGIN, 0, 1, ENDLESS);
    network.run_until(BEGIN + RTT / 2);
    assert_eq!(sum(&network, 1, Counter::DataSent), BDP);
    network.run_until(BEGIN + 50 * RTT);
    let marks = network.nodes[0].port.markers().stats().ren;
    println!("{marks:?}");
    assert_eq!(marks.over, 0);
    // One that leaves at once is counted.
    assert_eq!(waited(&network), (0, 1));
}

/// A lost grant is a packet that is not sent. The port sees the gap as free capacity, and other
/// grants draw two packets.
#[test]
fn lost_grants_are_made_up_for() {
    let took = |loss| {
        let mut network = pairs(loss, 1, true, BUFFER);
        network.set_loss(1, loss);
        let message = network.send_at(BEGIN, 0, 1, 20_000_000);
        network.run_to_the_end(1_000_000_000);
        assert_clean(&mut network, 2);
        // It was grants that were lost, and nothing is sent again for that.
        assert_eq!(sum(&network, 1, Counter::DataResent), 0);
        let delivered = network.registry.messages[message].delivered;
        delivered.expect("it is delivered") - BEGIN
    };
    let best = took(0);
    for (loss, most) in [(10_000, 105), (50_000, 110), (200_000, 140)] {
        let with = took(loss);
        println!("{loss} of a million are lost: {with} ns, without loss {best} ns");
        assert!(with * 100 <= best * most);
    }
}

/// All grants are lost for a while: then one is sent for each round trip in which nothing came, and
/// the number of packets doubles each time. The acknowledgements were lost, too: data that only
/// seems to be under way must not hold that up.
#[test]
fn a_message_gets_going_again() {
    let mut network = pairs(1, 1, true, BUFFER);
    network.registry.window = RTT;
    let message = network.send_at(BEGIN, 0, 1, 30_000_000);
    network.run_until(BEGIN + 10 * RTT);
    network.set_loss(1, 1_000_000);
    network.run_until(BEGIN + 14 * RTT);
    network.set_loss(1, 0);
    network.run_until(BEGIN + 60 * RTT);
    let rounds = &network.registry.messages[message].bytes_by;
    let packets: Vec<_> = rounds.iter().map(|bytes| bytes / 1450).collect();
    let first = (BEGIN / RTT) as usize + 14;
    println!("{:?}", &packets[first..]);
    let again = packets[first..].iter().position(|packets| *packets != 0);
    let again = first + again.expect("it goes on");
    // 1, 2, 4, 8, 16, nearly all, all.
    let full = packets[again..]
        .iter()
        .position(|packets| u64::from(*packets) >= BDP - 1);
    assert!(full.is_some_and(|rounds| rounds <= 7), "{full:?}");
}

/// So many messages that packets are queued for several round trips: the first ones answer no
/// grant, and their delay is the first measure of the path.
#[test]
fn what_waits_among_many_is_not_sent_twice() {
    for count in [16, 64] {
        for packets in [BDP as u32 / 2, 60, 200] {
            for marks in [true, false] {
                let mut network = pairs(count as u64, count, marks, 200 * BUFFER);
                for flow in 0..count {
                    network.send_at(BEGIN, flow, count + flow, packets * 1450);
                }
                network.run_to_the_end(1_000_000_000);
                let sent = sum(&network, count, Counter::DataSent);
                assert_eq!(sent, count as u64 * u64::from(packets));
                assert_clean(&mut network, 2 * count);
            }
        }
    }
}

/// Round trips of many times `base-rtt` are measured, though all grants are given up before they
/// are answered.
#[test]
fn a_round_trip_that_grows_is_measured() {
    const SLOW: u64 = 2_500_000;
    const COUNT: u64 = 4;
    const PACKETS: u64 = 104;
    let config = Config {
        policy: uapi::POLICY_REN,
        base_rtt: 5_000_000,
        link: 6_250_000,
        ..Config::DEFAULT
    };
    let link = Link {
        rate: config.link,
        delay: 1000,
        ..Link::default()
    };
    let mut network = star(1, &config, 2, link, false);
    for node in [0, 3] {
        network.configure_node(node, port(false, BUFFER));
    }
    network.slow_down(3, SLOW);
    for _ in 0..COUNT {
        network.send_at(BEGIN, 0, 1, PACKETS as u32 * 1450);
    }
    network.run_to_the_end(1_000_000_000);
    let again = sum(&network, 1, Counter::DataResent);
    let most = network.nodes[3].port.stats(Band::Data).max_packets;
    println!("{again} packets sent again, at most {most} wait");
    // One message's first packets wait for the others' before anything tells how long.
    assert!(again * 10 <= COUNT * PACKETS, "{again}");
    let under_way = 2 * config.base_rtt * config.link / 1_000_000_000 / FRAME + 16;
    assert!(most <= COUNT * under_way + again, "{most}");
    let took = network
        .registry
        .messages
        .iter()
        .map(|message| message.delivered.unwrap() - BEGIN);
    let ideal = (COUNT * PACKETS + again) * FRAME * 1_000_000_000 / SLOW;
    assert!(took.max().unwrap() * 100 <= ideal * 105);
}

/// Grants for which nothing is left to send cause no signals.
#[test]
fn nothing_is_sent_twice_where_nothing_is_lost() {
    for length in [1, 1450, 10 * 1450, 60 * 1450, 3_000_000] {
        for marks in [true, false] {
            let mut network = pairs(3, 2, marks, BUFFER);
            network.send_at(BEGIN, 0, 2, length);
            network.send_at(BEGIN, 1, 3, length);
            network.run_to_the_end(1_000_000_000);
            for counter in [Counter::DataResent, Counter::DataDuplicate] {
                assert_eq!(sum(&network, 4, counter), 0);
            }
            assert_clean(&mut network, 4);
        }
    }
}

/// The result of a burst. Times in us.
struct Burst {
    network: Network,
    /// Packets in the queue at the link, each us from when the burst begins.
    queue: Vec<u64>,
    /// Packets of the flow that was there before that have arrived.
    first: Vec<u64>,
    /// When the burst's flows stop.
    stops: usize,
}

/// A flow is alone on the link; `phase` ns into a sampling period so many others begin, last for 40
/// round trips, and stop.
fn burst(count: usize, phase: u64, buffer: u32) -> Burst {
    const STAYS: u64 = 40;
    let all = count + 1;
    let mut network = pairs(count as u64, all, true, buffer);
    network.acquaint((0..all).map(|flow| (flow, all + flow)));
    network.send_at(BEGIN, 0, all, ENDLESS);
    let begin = BEGIN + STAYS * RTT + phase;
    for flow in 1..all {
        network.send_at(begin, flow, all + flow, ENDLESS);
    }
    let (mut queue, mut first, mut stops) = (Vec::new(), Vec::new(), 0);
    for now in (begin..begin + 2 * STAYS * RTT).step_by(1000) {
        network.run_until(now);
        if now >= begin + STAYS * RTT && stops == 0 {
            stops = queue.len();
            for flow in 1..all {
                network.with(flow, |endpoint, io, now, _| {
                    let (_, id, ..) = endpoint.outgoing(nanos(now), 0).unwrap();
                    endpoint.abort(nanos(now), id, io);
                });
            }
        }
        queue.push(network.nodes[0].port.queued(Band::Data).packets);
        first.push(u64::from(network.registry.messages[0].received) / 1450);
    }
    Burst {
        network,
        queue,
        first,
        stops,
    }
}

/// Equations (1), (3) and (6): m flows leave m bandwidth-delay products in the queue of a link that
/// was full, which it carries in as many rounds; when they stop, the one that stays has the link
/// again after as many rounds as doubling takes. Whenever they come.
#[test]
fn bursts_come_and_go() {
    let round = RTT as usize / 1000;
    for count in 1..=4 {
        for phase in (0..RTT).step_by(6_000) {
            // And a packet that comes in the instant in which another leaves.
            let buffer = count as u64 * RTT * G10 / 1_000_000_000 + 1514;
            let burst = burst(count, phase, buffer as u32);
            let (dropped, most) = waited(&burst.network);
            let stay = &burst.queue[..burst.stops];
            let begins = stay.iter().position(|queue| *queue > 1).unwrap();
            let drained = stay.iter().rposition(|queue| *queue > 1).unwrap() + 1 - begins;
            let in_round = |at: usize| burst.first[at + round] - burst.first[at];
            let share = in_round(burst.stops - round);
            let mut rounds = 1;
            while share << rounds < BDP {
                rounds += 1;
            }
            // What was under way when they stopped leaves within half a round trip.
            let recovered = (burst.stops..)
                .find(|at| in_round(*at) * 100 >= BDP * 95)
                .unwrap()
                - burst.stops;
            println!(
                "{count} flows, {phase} ns: {most} packets wait, {drained} us; \
                 beside them {share}, {recovered} us"
            );
            assert_eq!(dropped, 0);
            assert!(most.abs_diff(count as u64 * BDP) <= 1);
            assert!(drained <= (count + 1) * round);
            assert!(recovered <= rounds * round + round * 3 / 4);
        }
    }
}
