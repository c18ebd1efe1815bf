// SPDX-License-Identifier: GPL-2.0
//! Policies in which senders pace: DCQCN and TIMELY over ports that mark, and pause.

use turnstile_core::pfc::scope::Scope;
use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Config as PortConfig, MaxOn, Pfc, Tcd};
use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi;

use super::crossing::assert_clean;
use super::topology::{dumbbell, host_port, star, PAPERS};
use super::*;

const G10: u64 = 1_250_000_000;
const BEGIN: u64 = 2_000_000;
/// Longer than anything lasts here.
const ENDLESS: u32 = 512 << 20;
const MS: u64 = 1_000_000;
const LAWS: [(&str, u32); 2] = [
    ("dcqcn", uapi::POLICY_DCQCN),
    ("timely", uapi::POLICY_TIMELY),
];

fn link() -> Link {
    Link {
        rate: G10,
        delay: 2_000,
        ..Link::default()
    }
}

fn config(policy: u32) -> Config {
    Config {
        policy,
        ..Config::DEFAULT
    }
}

/// A port that marks CE from so many bytes on, and drops nothing.
fn marking(threshold: u32) -> PortConfig {
    PortConfig {
        data_limit: 64 << 20,
        tcd: Some(Tcd {
            threshold,
            max_on: MaxOn::Time(Nanos(50_000)),
        }),
        ..PAPERS
    }
}

fn counter(network: &Network, host: usize, counter: Counter) -> u64 {
    network.endpoint(host).stats().get(counter)
}

/// `count` pairs share one link.
fn pairs(seed: u64, config: &Config, count: usize) -> Network {
    let mut network = dumbbell(seed, config, count, link());
    for node in 0..2 + 4 * count {
        network.configure_node(node, marking(100 * 1024));
    }
    for host in 0..2 * count {
        network.set_window(host, u32::MAX >> 2, 0);
    }
    network
}

/// Bytes that came of each message from window `from` to `to`.
fn came(network: &Network, from: usize, to: usize) -> Vec<u64> {
    let of = |by: &Vec<u32>| by.iter().take(to).skip(from).copied().map(u64::from).sum();
    let all = &network.registry.messages;
    all.iter().map(|message| of(&message.bytes_by)).collect()
}

/// Jain's index.
fn fairness(all: &[u64]) -> f64 {
    let sum: f64 = all.iter().map(|&x| x as f64).sum();
    let squares: f64 = all.iter().map(|&x| (x as f64).powi(2)).sum();
    sum * sum / (squares * all.len() as f64)
}

/// Gbit/s of what came of each message in so many windows of 10 ms.
fn rates(came: &[u64], windows: u64) -> Vec<f64> {
    let of = |bytes: &u64| *bytes as f64 * 8.0 / (windows as f64 * 10.0 * MS as f64);
    came.iter().map(of).collect()
}

/// Messages that begin one after the other share a link alike, keep it busy, and nothing is lost.
/// TIMELY has no one rate at which it rests (*ECN or Delay*, CoNEXT 2016, section 4.3).
#[test]
fn messages_share_a_link_and_keep_it_busy() {
    for (name, policy, [fair, busy]) in [
        ("dcqcn", uapi::POLICY_DCQCN, [0.99, 0.94]),
        ("timely", uapi::POLICY_TIMELY, [0.8, 0.9]),
    ] {
        for count in [2, 4, 8] {
            let mut network = pairs(count as u64, &config(policy), count);
            network.registry.window = 10 * MS;
            for pair in 0..count {
                let begins = BEGIN + pair as u64 * 200_000;
                network.send_at(begins, pair, count + pair, ENDLESS);
            }
            network.run_until(200 * MS);
            let came = came(&network, 10, 20);
            let (jain, sum) = (fairness(&came), came.iter().sum::<u64>());
            // 1450 of 1538 bytes are payload.
            let used = sum as f64 / (0.1 * G10 as f64 * 1450.0 / 1538.0);
            let data = network.nodes[0].port.stats(Band::Data);
            println!(
                "{name}, {count}: fairness {jain:.4}, {used:.3} of the link, at most {} bytes \
                 wait, {:.2?} Gbit/s",
                data.max_bytes,
                rates(&came, 10)
            );
            assert!(
                jain >= fair && used >= busy,
                "{name}, {count}: {jain} {used}"
            );
            assert_eq!(data.over_limit, 0);
            let sum = |which| {
                (0..2 * count)
                    .map(|host| counter(&network, host, which))
                    .sum::<u64>()
            };
            assert_eq!(sum(Counter::TokenSent), 0);
            assert_eq!(sum(Counter::RateHeld), 0);
            // Few are under way.
            let (told, heard) = (sum(Counter::NotifySent), sum(Counter::NotifyReceived));
            assert!(told > 0 && told - heard <= count as u64, "{told} {heard}");
            // At most one in 50 us of each message.
            assert!(told <= count as u64 * 200 * MS / 50_000, "{told}");
        }
    }
}

/// Five DCQCN flows on a link of 40 Gbit/s whose port marks all from 20 kB on: the shares of the
/// least and of the greatest, of a fifth of what all have from 100 to 300 ms, and how often the one
/// that is told of marks most often is told, of how often the others are in the mean.
fn at_a_threshold(seed: u64, jitter: u32) -> ([f64; 2], f64) {
    const COUNT: usize = 5;
    let link = Link {
        rate: 5_000_000_000,
        delay: 1_000,
        ..Link::default()
    };
    let config = Config {
        tcd: 1,
        jitter,
        ..config(uapi::POLICY_DCQCN)
    };
    let mut network = dumbbell(seed, &config, COUNT, link);
    for node in 0..2 + 4 * COUNT {
        network.configure_node(node, marking(20_000));
    }
    for host in 0..2 * COUNT {
        network.set_window(host, u32::MAX >> 2, 0);
    }
    network.registry.window = 10 * MS;
    for pair in 0..COUNT {
        let begins = BEGIN + if pair == 0 { 0 } else { MS };
        network.send_at(begins, pair, COUNT + pair, ENDLESS);
    }
    network.run_until(300 * MS);
    let came = came(&network, 10, 30);
    let told = (0..COUNT).map(|host| counter(&network, host, Counter::NotifyReceived));
    let told: Vec<u64> = told.collect();
    println!(
        "seed {seed}, jitter {jitter}: {:.2?} Gbit/s, told {told:?} times",
        rates(&came, 20)
    );
    let fair = came.iter().sum::<u64>() as f64 / COUNT as f64;
    let share = |bytes: Option<&u64>| *bytes.unwrap() as f64 / fair;
    let most = *told.iter().max().unwrap();
    let others = (told.iter().sum::<u64>() - most) as f64 / (COUNT - 1) as f64;
    let shares = [share(came.iter().min()), share(came.iter().max())];
    (shares, most as f64 / others)
}

/// A queue that just reaches the threshold marks a packet or two, and whose they are decides who is
/// cut. Where packets are sent as regularly as clocks, they are one flow's each time: it is cut 29
/// times where others are cut 28 times, and has 0.93 of its share for ever. With jitter it is one
/// and then another, and over 200 ms all have their share within 8 %.
#[test]
fn with_jitter_no_flow_is_the_one_that_is_marked() {
    let (shares, told) = at_a_threshold(1, 0);
    assert!(shares[0] < 0.95 && told > 1.03, "{shares:?} {told}");
    for seed in 1..=3 {
        let (shares, told) = at_a_threshold(seed, Config::DEFAULT.jitter);
        assert!(
            shares[0] >= 0.92 && shares[1] <= 1.08 && told < 1.05,
            "seed {seed}: {shares:?} {told}"
        );
    }
}

/// One that comes to a link that another one has all of gets its half.
#[test]
fn a_second_message_gets_its_half() {
    for (name, policy) in LAWS {
        let mut network = pairs(9, &config(policy), 2);
        network.registry.window = 10 * MS;
        network.send_at(BEGIN, 0, 2, ENDLESS);
        network.send_at(50 * MS, 1, 3, ENDLESS);
        network.run_until(130 * MS);
        let alone = rates(&came(&network, 1, 5), 4);
        let both = rates(&came(&network, 9, 13), 4);
        println!("{name}: {alone:.2?}, then {both:.2?} Gbit/s");
        assert!(alone[0] > 9.0 && alone[1] == 0.0, "{name}: {alone:?}");
        assert!(both.iter().all(|rate| *rate > 3.5), "{name}: {both:?}");
    }
}

/// Many messages of one host have turns on its link: its own port has nothing to queue, and they
/// are alike.
#[test]
fn messages_of_one_host_have_turns_on_its_link() {
    const COUNT: usize = 20;
    for (name, policy) in LAWS {
        let mut network = pairs(3, &config(policy), 1);
        network.registry.window = 10 * MS;
        for _ in 0..COUNT {
            network.send_at(BEGIN, 0, 1, ENDLESS);
        }
        network.run_until(40 * MS);
        let came = came(&network, 1, 4);
        let sum: f64 = rates(&came, 3).iter().sum();
        let own = network.nodes[2].port.stats(Band::Data);
        println!(
            "{name}: {sum:.2} Gbit/s, fairness {:.3}, at most {} packets at the host's port",
            fairness(&came),
            own.max_packets
        );
        assert!(
            sum > 8.0 && fairness(&came) > 0.95,
            "{name}: {sum} {came:?}"
        );
        // One of each may be sent before its link's turns are known, at the beginning.
        assert!(
            own.max_packets <= 16 + COUNT as u64,
            "{name}: {}",
            own.max_packets
        );
    }
}

/// What a message at half of the link's rate comes to in 20 ms, of the rate that it had, if the
/// next switch pauses the link for 100 us in each ms. `knows`: its port knows what the pauses do to
/// its queue; otherwise it takes them for congestion.
fn paused(policy: u32, tcd: bool, knows: bool) -> (f64, u64, u64) {
    let config = Config {
        tcd: u32::from(tcd),
        link: G10 / 2,
        ..config(policy)
    };
    let mut network = pairs(4, &config, 1);
    let port = PortConfig {
        pfc: Some(Pfc {
            data: Scope::one(0),
            watchdog: Nanos(200 * MS),
            generate: None,
        }),
        tcd: Some(Tcd {
            threshold: 10_000,
            max_on: match knows {
                true => MaxOn::Time(Nanos(400_000)),
                false => MaxOn::Off,
            },
        }),
        ..marking(0)
    };
    network.configure_node(0, port);
    network.send_at(BEGIN, 0, 1, ENDLESS);
    network.run_until(BEGIN + MS);
    let rate = |network: &Network| {
        let (_, _, info, _) = network.endpoint(0).outgoing(Nanos(network.now), 0).unwrap();
        info.rate as f64
    };
    let before = rate(&network);
    for _ in 0..20 {
        network.pause(0, true);
        network.run_until(network.now + 100_000);
        network.pause(0, false);
        network.run_until(network.now + 900_000);
    }
    let held = counter(&network, 0, Counter::RateHeld);
    let undetermined = counter(&network, 1, Counter::EcnUndetermined);
    (rate(&network) / before, held, undetermined)
}

#[test]
fn an_undetermined_message_keeps_its_rate_with_tcd() {
    for (name, policy) in LAWS {
        let (with, held, undetermined) = paused(policy, true, true);
        // DCQCN goes by marks alone: it is the port that has to know.
        let (without, none, _) = paused(policy, false, policy == uapi::POLICY_TIMELY);
        println!("{name}: {with:.2} of its rate with tcd, {without:.2} without; held {held} times");
        assert!(
            undetermined > 100,
            "{name}: {undetermined} packets were marked UE"
        );
        assert!(with >= 0.99, "{name}: {with}");
        assert!(without < 0.8, "{name}: {without}");
        assert_eq!(none, 0);
        // One that was never cut has nothing to hold.
        assert_eq!(held > 0, policy == uapi::POLICY_TIMELY, "{name}: {held}");
    }
}

/// A DCQCN message that is on its way back up stays where it is while all that it meets is
/// undetermined; without TCD it goes on.
#[test]
fn dcqcn_does_not_rise_while_ports_cannot_tell() {
    let rise = |tcd| {
        let config = Config {
            tcd,
            ..config(uapi::POLICY_DCQCN)
        };
        let mut network = pairs(5, &config, 2);
        for pair in 0..2 {
            network.send_at(BEGIN, pair, 2 + pair, ENDLESS);
        }
        network.run_until(30 * MS);
        // From now on the port is always between two pauses, and its queue stays short.
        let port = PortConfig {
            pfc: Some(Pfc {
                data: Scope::one(0),
                watchdog: Nanos(200 * MS),
                generate: None,
            }),
            tcd: Some(Tcd {
                threshold: 1 << 29,
                max_on: MaxOn::Time(Nanos(1000 * MS)),
            }),
            ..marking(0)
        };
        network.configure_node(0, port);
        network.pause(0, true);
        network.pause(0, false);
        network.run_until(31 * MS);
        let rate = |network: &Network| {
            let (_, _, info, _) = network.endpoint(0).outgoing(Nanos(network.now), 0).unwrap();
            info.rate
        };
        let before = rate(&network);
        network.run_until(33 * MS);
        (
            rate(&network) as f64 / before as f64,
            counter(&network, 0, Counter::RateHeld),
        )
    };
    let ((with, held), (without, none)) = (rise(1), rise(0));
    println!(
        "{with:.3} times as fast after 2 ms with tcd, {without:.3} without; held {held} times"
    );
    assert!(with < 1.05 && without > with, "{with} {without}");
    assert!(held > 20 && none == 0, "{held} {none}");
}

/// Short and long ones of four pairs over a link that loses one packet of a hundred.
#[test]
fn all_arrive_where_one_of_a_hundred_is_lost() {
    for (name, policy) in LAWS {
        let mut network = pairs(6, &config(policy), 4);
        network.set_loss(0, 10_000);
        network.set_loss(1, 10_000);
        for number in 0..80_u64 {
            let pair = (number % 4) as usize;
            let length = 1 + (number * number * 79) as u32;
            network.send_at(BEGIN + number * 50_000, pair, 4 + pair, length);
        }
        network.run_to_the_end(10_000 * MS);
        let took = network.now - BEGIN;
        let resent: u64 = (0..4)
            .map(|host| counter(&network, host, Counter::DataResent))
            .sum();
        let sent: u64 = (0..4)
            .map(|host| counter(&network, host, Counter::UnscheduledSent))
            .sum();
        println!(
            "{name}: {} ms; {resent} of {sent} packets were sent again",
            took / MS
        );
        // Little is sent again for nothing, but for probes of messages that wait in queues.
        assert!(
            resent > 0 && resent * 8 < sent,
            "{name}: {resent} of {sent}"
        );
        assert_clean(&mut network, 8);
    }
}

const POLICIES: [u32; 5] = [
    uapi::POLICY_EXPRESSPASS,
    uapi::POLICY_TOP,
    uapi::POLICY_REN,
    uapi::POLICY_DCQCN,
    uapi::POLICY_TIMELY,
];

/// Hosts with all policies, and messages from each to each.
#[test]
fn hosts_with_other_policies_understand_each_other() {
    for v6 in [false, true] {
        let mut network = star(7, &Config::DEFAULT, POLICIES.len(), link(), v6);
        for (host, policy) in POLICIES.into_iter().enumerate() {
            let resolved = config(policy).validate(Some(G10)).unwrap();
            network.configure(host, &resolved);
        }
        for number in 0..100 {
            let (from, to) = (number % 5, (number / 5) % 5);
            let length = 1 + (number * number * 97) as u32;
            network.send_at(BEGIN + number as u64 * 20_000, from, to, length);
        }
        network.run_to_the_end(10_000 * MS);
        for (host, policy) in POLICIES.into_iter().enumerate() {
            let paces = policy >= uapi::POLICY_DCQCN;
            let drew = counter(&network, host, Counter::TokenValid);
            assert_eq!(drew == 0, paces, "{policy}: {drew} tokens were answered");
            // To those who ask for them it gives some.
            assert!(counter(&network, host, Counter::TokenSent) > 0);
        }
        assert_clean(&mut network, POLICIES.len());
    }
}

/// The policy of all hosts changes again and again while messages are under way.
#[test]
fn policies_change_under_way() {
    let mut network = pairs(8, &config(uapi::POLICY_DCQCN), 4);
    network.set_loss(0, 10_000);
    for number in 0..60_u64 {
        let pair = (number % 4) as usize;
        let length = 1 + (number * number * 400) as u32;
        network.send_at(BEGIN + number * 50_000, pair, 4 + pair, length);
    }
    for round in 0..40 {
        network.run_until(BEGIN + round * 100_000);
        let policy = POLICIES[(round * 3 % 5) as usize];
        let resolved = config(policy).validate(Some(G10)).unwrap();
        for host in 0..8 {
            network.configure(host, &resolved);
        }
    }
    network.run_to_the_end(10_000 * MS);
    assert_clean(&mut network, 8);
}

/// A message whose receiver reads slowly goes as far as that has said, and no further.
#[test]
fn a_window_stops_what_is_paced() {
    for (name, policy) in LAWS {
        let mut network = pairs(9, &config(policy), 1);
        network.set_window(1, 200_000, 500_000);
        network.send_at(BEGIN, 0, 1, 3_000_000);
        network.run_to_the_end(10_000 * MS);
        let beyond = counter(&network, 1, Counter::DataBeyondWindow);
        println!("{name}: {beyond} packets were beyond the window");
        // What is sent before the receiver has said anything is less than the window.
        assert_eq!(beyond, 0, "{name}");
        assert_clean(&mut network, 2);
    }
}

/// Nobody is there: no more is sent than the link carries in a round trip, and then in `rto`.
#[test]
fn what_nobody_answers_is_little() {
    for (name, policy) in LAWS {
        let mut network = pairs(10, &config(policy), 1);
        network.acquaint([(0, 1)]);
        let before = counter(&network, 0, Counter::UnscheduledSent);
        network.hole = Some(|_| true);
        network.send_at(BEGIN, 0, 1, ENDLESS);
        network.run_until(1000 * MS);
        let sent = counter(&network, 0, Counter::UnscheduledSent) - before;
        // 62.5 KB, in full packets.
        assert_eq!(sent, 62_500 / 1538, "{name}");
        // It is gone later.
        let mut network = pairs(10, &config(policy), 1);
        network.send_at(BEGIN, 0, 1, ENDLESS);
        network.run_until(BEGIN + 20 * MS);
        network.hole = Some(|_| true);
        let before = counter(&network, 0, Counter::UnscheduledSent);
        network.run_until(BEGIN + 1000 * MS);
        let sent = counter(&network, 0, Counter::UnscheduledSent) - before;
        println!("{name}: {sent} packets");
        assert!(
            sent * 1450 <= 2 * MS * G10 / (1000 * MS) + 12 * 1450,
            "{name}: {sent}"
        );
    }
}

/// A window that is less than what is sent before the first ACK, of a message that comes all the
/// same.
#[test]
fn a_window_may_be_less_than_the_first_flight() {
    for (name, policy) in LAWS {
        for (rate, window) in [(G10, 5_000), (10 * G10, 212_992)] {
            let link = Link {
                rate,
                delay: 8_000,
                ..Link::default()
            };
            let mut network = dumbbell(1, &config(policy), 1, link);
            network.acquaint([(0, 1)]);
            network.set_window(1, window, 20_000);
            network.send_at(BEGIN, 0, 1, 3_000_000);
            network.run_to_the_end(1000 * MS);
            let beyond = counter(&network, 1, Counter::DataBeyondWindow);
            println!("{name}: {beyond} packets were beyond the window");
            assert!(beyond > 0, "{name}: there was no such packet");
            assert_clean(&mut network, 2);
        }
    }
}

/// A message sends at the rate that it says, also at the lowest one.
#[test]
fn a_message_keeps_to_its_rate() {
    for (name, policy) in LAWS {
        // Segments that take longer than T_high.
        let link = Link {
            delay: 200_000,
            ..link()
        };
        let mut network = dumbbell(1, &config(policy), 1, link);
        for host in 0..2 {
            network.set_window(host, u32::MAX >> 2, 0);
        }
        network.send_at(BEGIN, 0, 1, ENDLESS);
        network.run_until(300 * MS);
        let sent = |network: &Network| counter(network, 0, Counter::UnscheduledSent);
        let before = sent(&network);
        let mut said = 0;
        for tenth in 1..=1000 {
            network.run_until(300 * MS + tenth * 100_000);
            said += network
                .endpoint(0)
                .outgoing(Nanos(network.now), 0)
                .map_or(0, |it| it.2.rate)
                / 1000;
        }
        // In a tenth of a second.
        let bytes = (sent(&network) - before) * 1538 * 10;
        println!("{name}: says {said} bytes/s, sends {bytes}");
        assert!(bytes <= said + said / 10, "{name}: {bytes} of {said}");
        assert!(bytes >= said / 2, "{name}: {bytes} of {said}");
    }
}

/// What others have taken of a slow link is not waited for once it is faster.
#[test]
fn a_link_that_becomes_faster_is_free() {
    for (name, policy) in LAWS {
        let mut network = star(1, &config(policy), 3, link(), false);
        network.acquaint([(0, 1), (0, 2)]);
        network.configure(0, &config(policy).validate(Some(1_250_000)).unwrap());
        for _ in 0..1000 {
            network.send_at(2 * MS, 0, 2, 100);
        }
        network.run_until(3 * MS);
        network.configure(0, &config(policy).validate(Some(G10)).unwrap());
        let last = network.registry.messages.len();
        network.send_at(4 * MS, 0, 1, 1000);
        network.run_until(5 * MS);
        let came = network.registry.messages[last].delivered.is_some();
        assert!(came, "{name}: it waits for what was");
    }
}

/// A host's port, node 0, passes on a pause of the next switch.
fn pausable() -> PortConfig {
    PortConfig {
        pfc: Some(Pfc {
            data: Scope::one(0),
            watchdog: Nanos(200 * MS),
            generate: None,
        }),
        data_limit: 64 << 20,
        ..host_port()
    }
}

/// A host whose link is paused has long messages under way, and begins a short one. How long after
/// the pause's end that has come, ns, and how many packets the port has when it ends.
fn behind_a_pause(policy: u32, long: usize, lasts: u64) -> (u64, u64) {
    let mut network = star(11, &config(policy), 1 + long + 1, link(), false);
    network.configure_node(0, pausable());
    for host in 0..=long + 1 {
        network.set_window(host, u32::MAX >> 2, 0);
    }
    network.acquaint([(0, long + 1)]);
    for to in 1..=long {
        network.send_at(BEGIN, 0, to, ENDLESS);
    }
    network.run_until(10 * MS);
    network.pause(0, true);
    network.run_until(10 * MS + lasts / 2);
    let short = network.registry.messages.len();
    network.send_at(network.now, 0, long + 1, 1000);
    network.run_until(10 * MS + lasts);
    let wait = network.nodes[0].port.queued(Band::Data).packets;
    network.pause(0, false);
    network.run_until(10 * MS + lasts + 50 * MS);
    let came = network.registry.messages[short].delivered;
    (came.unwrap() - 10 * MS - lasts, wait)
}

/// What a short message waits for after a pause is a few packets of each other message, however
/// long the pause was.
#[test]
fn a_short_message_goes_soon_after_a_pause() {
    for (name, policy) in LAWS {
        for long in [1, 4, 16] {
            for lasts in [100_000, 1_000_000, 10_000_000] {
                let (took, wait) = behind_a_pause(policy, long, lasts);
                println!(
                    "{name}, {long} long ones, {lasts} ns: {took} ns after it, {wait} packets"
                );
                let packets = 2 * long as u64 + 1;
                assert!(wait <= packets, "{name}: {wait} packets wait");
                // Those, and its own over the second link; twice 2 us of delay.
                let most = (packets + 2) * 1538 * 1000 * MS / G10 + 2 * 2_000;
                assert!(took <= most, "{name}: {took} ns of {most}");
            }
        }
    }
}

/// All messages go on after a pause, and are as fast as before. TIMELY would take it for a queue.
#[test]
fn all_go_on_after_a_pause() {
    go_on_after_a_pause(0);
}

/// What waits elsewhere in the host, such as for an address of the next hop, is not before what the
/// link carries.
#[test]
fn all_go_on_whatever_else_waits() {
    go_on_after_a_pause(100);
}

/// Beside so many messages whose packets go nowhere.
fn go_on_after_a_pause(nowhere: usize) {
    let mut network = star(12, &config(uapi::POLICY_DCQCN), 6, link(), false);
    network.configure_node(0, pausable());
    network.registry.window = MS;
    for to in 1..5 {
        network.set_window(to, u32::MAX >> 2, 0);
        network.send_at(BEGIN, 0, to, ENDLESS);
    }
    network.set_window(5, u32::MAX >> 2, 0);
    for _ in 0..nowhere {
        network.send_at(BEGIN, 0, 5, ENDLESS);
    }
    network.run_until(8 * MS);
    network.nowhere = Some(5);
    for round in 0..20 {
        network.run_until((10 + round) * MS);
        network.pause(0, true);
        network.run_until(network.now + 200_000);
        network.pause(0, false);
    }
    network.run_until(40 * MS);
    let sum = |from, to| came(&network, from, to).iter().sum::<u64>();
    let full = (MS as f64 / 1e9 * G10 as f64 * 1450.0 / 1538.0) as u64;
    let (during, after) = (sum(10, 29) / 19, sum(30, 39) / 9);
    let mut parts = came(&network, 10, 29);
    parts.truncate(4);
    println!("{during} and {after} of {full} bytes in a ms; {parts:?}");
    // Four of five parts of the time the link is open.
    assert!(during * 100 >= full * 79, "{during} of {full}");
    assert!(after * 100 >= full * 99, "{after} of {full}");
    assert!(fairness(&parts) > 0.999, "{parts:?}");
}
