// SPDX-License-Identifier: GPL-2.0
//! One host sends long messages to several at once. Each of these paces its tokens by itself, and
//! knows nothing of the others: what they ask for together is more than the sender's link carries.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::Outgoing;
use turnstile_core::transport::stats::Counter;
use turnstile_workload::figures::jain;

use super::topology::{host_port, PAPERS};
use super::*;

/// bytes/s of the sender's link.
const RATE: u64 = 1_250_000_000;
/// ns: when messages begin; how long it takes until all have settled, and what is counted then.
const BEGIN: u64 = 2_000_000;
const SETTLED: u64 = 20_000_000;
const SPAN: u64 = 60_000_000;

/// Host 0, and so many others, whose links are so many times as fast as its own.
fn hosts(receivers: usize, times: u64, seed: u64) -> Network {
    let mut network = Network::new(seed, Box::new(|from, to| vec![2 * from, 2 * to + 1]));
    for host in 0..=receivers {
        let rate = if host == 0 { RATE } else { times * RATE };
        let link = Link {
            rate,
            delay: 5_000,
            ..Link::default()
        };
        let config = Config::DEFAULT.validate(Some(rate)).unwrap();
        network.host(&config, false);
        network.node(host_port(), link);
        network.node(PAPERS, link);
    }
    network
}

/// Tokens that the receivers sent, packets that came, and bytes of data that the sender sent.
fn counts(network: &Network, receivers: usize) -> [f64; 3] {
    let sum = |counter| -> u64 {
        let each = (1..=receivers).map(|it| network.stats(it).get(counter));
        each.sum()
    };
    let bytes = network.nodes[0].data_bytes;
    [sum(Counter::TokenSent), sum(Counter::DataReceived), bytes].map(|count| count as f64)
}

/// Tokens for each packet, the part of the link that data has, and Jain's index of what the
/// receivers got.
fn settled(receivers: usize, times: u64, seed: u64) -> (f64, f64, f64) {
    let mut network = hosts(receivers, times, seed);
    for to in 1..=receivers {
        network.send_at(BEGIN, 0, to, 200_000_000);
    }
    let parts = |network: &Network| -> Vec<f64> {
        let all = network.registry.messages.iter();
        all.map(|it| f64::from(it.received)).collect()
    };
    network.run_until(BEGIN + SETTLED);
    let (before, had) = (counts(&network, receivers), parts(&network));
    network.run_until(BEGIN + SETTLED + SPAN);
    let (after, has) = (counts(&network, receivers), parts(&network));
    let got: Vec<f64> = has.iter().zip(had).map(|(has, had)| has - had).collect();
    let [tokens, packets, bytes] = [0, 1, 2].map(|at| after[at] - before[at]);
    let used = bytes * 1e9 / (RATE * SPAN) as f64;
    (tokens / packets, used, jain(&got, got.len()))
}

/// 84 of 1622 bytes are left for tokens, whether these are many or not: data has 94.82 %. The
/// receivers' own feedback had 1.17 to 11.7 tokens for each packet.
#[test]
fn a_sender_s_receivers_ask_for_no_more_than_its_link_carries() {
    for times in [1, 4] {
        for (receivers, most, least) in [
            (1, 1.05, 0.948),
            (2, 1.05, 0.948),
            (8, 1.05, 0.948),
            (16, 1.05, 0.948),
            (32, 1.05, 0.948),
            (128, 1.08, 0.94),
        ] {
            for seed in 1..=2 {
                let (tokens, used, fair) = settled(receivers, times, seed);
                println!(
                    "{receivers} receivers, {times} times as fast, seed {seed}: {tokens:.4} \
                     tokens, {used:.4} of the link, Jain {fair:.4}"
                );
                assert!(tokens <= most, "{tokens:.4} tokens");
                assert!(used >= least, "{used:.4} of the link");
                assert!(fair >= 0.99, "{fair:.4}");
            }
        }
    }
}

/// The same from the first to the last packet of messages of so many bytes: tokens for each
/// packet, and the last message's and the mean time, as times of the payload's.
fn whole(receivers: usize, times: u64, length: impl Fn(u32) -> u32) -> (f64, f64, f64) {
    let mut network = hosts(receivers, times, 1);
    let mut all = 0;
    for to in 1..=receivers {
        let length = length(to as u32);
        network.send_at(BEGIN, 0, to, length);
        all += u64::from(length);
    }
    network.run_to_the_end(BEGIN + 10_000_000_000);
    let payload = (all * 1_000_000_000 / RATE) as f64;
    let each = network.registry.messages.iter();
    let took: Vec<f64> = each
        .map(|it| (it.delivered.expect("it is delivered") - BEGIN) as f64 / payload)
        .collect();
    let [tokens, packets, _] = counts(&network, receivers);
    let last = took.iter().copied().fold(0.0, f64::max);
    let mean = took.iter().sum::<f64>() / receivers as f64;
    println!(
        "{receivers} receivers, {times} times as fast: {:.4} tokens, the last after {last:.4} of \
         the payload's time, the mean {mean:.4}",
        tokens / packets
    );
    (tokens / packets, last, mean)
}

/// With what the first round trips waste, when nobody knows anything, and what is lost when
/// messages end. That is more where they are many, and shorter. No bulk takes longer for it, and
/// those that are shorter are still over before others.
#[test]
fn from_the_first_packet_to_the_last_there_are_few_tokens_more() {
    for (receivers, times, bound) in [
        (1, 4, 1.05),
        (2, 1, 1.05),
        (8, 1, 1.05),
        (8, 4, 1.06),
        (32, 1, 1.13),
        (32, 4, 1.16),
    ] {
        let length = 256_000_000 / receivers as u32;
        let (tokens, last, _) = whole(receivers, times, |_| length);
        assert!(tokens <= bound, "{tokens:.4} tokens");
        assert!(last <= 1.13, "{last:.4}");
    }
    let (tokens, last, mean) = whole(8, 1, |number| number * 4_000_000);
    assert!(tokens <= 1.08, "{tokens:.4} tokens");
    assert!(last <= 1.14, "{last:.4}");
    // The shortest first: in its ports' eighths of what is left, not in the order of all bytes.
    assert!(mean <= 0.58, "{mean:.4}");
}

/// The writers of every other message keep so many bytes ahead of what is sent. Tokens for each
/// packet once all have settled, and the part of the link that data has.
fn by_pieces(receivers: usize, times: u64, ahead: u32) -> (f64, f64) {
    const LENGTH: u32 = 200_000_000;
    const LOOK: u64 = 20_000;
    let mut network = hosts(receivers, times, 1);
    network.run_until(BEGIN);
    for to in 1..=receivers {
        let plain = network.plain(LENGTH);
        let available = if to % 2 == 0 { ahead } else { LENGTH };
        let what = Outgoing { available, ..plain };
        network.try_send(0, to, what).expect("there is a place");
    }
    let mut before = [0.0; 3];
    while network.now < BEGIN + SETTLED + SPAN {
        if network.now == BEGIN + SETTLED {
            before = counts(&network, receivers);
        }
        network.run_until(network.now + LOOK);
        network.with(0, |endpoint, io, now, _| {
            let mut from = 0;
            while let Some((next, id, info, out)) = endpoint.outgoing(nanos(now), from) {
                if out.message % 2 == 1 {
                    let available = info.window.saturating_add(ahead).min(LENGTH);
                    endpoint.written(nanos(now), id, available, available == LENGTH, io);
                }
                from = next;
            }
        });
    }
    let after = counts(&network, receivers);
    let [tokens, packets, bytes] = [0, 1, 2].map(|at| after[at] - before[at]);
    (tokens / packets, bytes * 1e9 / (RATE * SPAN) as f64)
}

/// Words of what is written besides, each for more than may be under way, had 1.28 to 2 tokens for
/// each packet, and a tenth of the link unused; what is never far ahead had 1.7 to 14.5.
#[test]
fn who_writes_by_pieces_draws_no_more_tokens_than_who_has_written_all() {
    for times in [1, 4] {
        for receivers in [8, 32] {
            // 69 packets, and more than a word tells.
            for ahead in [100_000, 500_000] {
                let (tokens, used) = by_pieces(receivers, times, ahead);
                println!(
                    "{receivers} receivers, {times} times as fast, {ahead} bytes ahead: \
                     {tokens:.4} tokens, {used:.4} of the link"
                );
                assert!(tokens <= 1.05, "{tokens:.4} tokens");
                assert!(used >= 0.948, "{used:.4} of the link");
            }
        }
    }
}

/// Half of the receivers are further away, but not so far that nothing is said to them. When all
/// parts were alike, and so in tokens, these had 0.38 Gbit/s each and the others 1.85.
#[test]
fn receivers_further_away_have_nearly_as_much() {
    const EACH: usize = 4;
    for away in [20_000, 40_000, 60_000] {
        let mut network = hosts(2 * EACH, 1, 1);
        for to in EACH + 1..=2 * EACH {
            for node in [2 * to, 2 * to + 1] {
                network.move_away(node, away);
            }
        }
        for to in 1..=2 * EACH {
            network.send_at(BEGIN, 0, to, 400_000_000);
        }
        let received = |network: &Network| -> Vec<u32> {
            let all = network.registry.messages.iter();
            all.map(|it| it.received).collect()
        };
        network.run_until(BEGIN + SETTLED);
        let before = received(&network);
        network.run_until(BEGIN + SETTLED + SPAN);
        let after = received(&network);
        let of = |range: std::ops::Range<usize>| -> f64 {
            range.map(|at| f64::from(after[at] - before[at])).sum()
        };
        let (near, far) = (of(0..EACH), of(EACH..2 * EACH));
        let used = (near + far) * 1e9 / (RATE * SPAN) as f64;
        println!(
            "{away} ns: {:.3} of the near ones', {used:.3} of the link",
            far / near
        );
        assert!(far >= near * 0.7, "{:.3}", far / near);
        assert!(used >= 0.86, "{used:.3} of the link");
    }
}

/// All but one of the receivers have links of a hundredth of the sender's, and a part of its window
/// like the one that could take all that they leave. When the window had an end regardless of how
/// many there were, a third of the sender's link was unused with 16 and with 32 of them.
#[test]
fn receivers_on_slow_links_leave_the_rest_to_others() {
    const SLOW: u64 = RATE / 100;
    for slow in [8, 16, 32] {
        let all = slow + 1;
        let mut network = hosts(all, 1, 1);
        for to in 2..=all {
            network.slow_down(2 * to, SLOW);
            network.slow_down(2 * to + 1, SLOW);
            network.configure(to, &Config::DEFAULT.validate(Some(SLOW)).unwrap());
        }
        for to in 1..=all {
            network.send_at(BEGIN, 0, to, 200_000_000);
        }
        network.run_until(BEGIN + SETTLED);
        let before = counts(&network, all);
        network.run_until(BEGIN + SETTLED + SPAN);
        let after = counts(&network, all);
        let [tokens, packets, bytes] = [0, 1, 2].map(|at| after[at] - before[at]);
        let (tokens, used) = (tokens / packets, bytes * 1e9 / (RATE * SPAN) as f64);
        println!("{slow} slow receivers: {tokens:.4} tokens, {used:.4} of the link");
        assert!(tokens <= 1.05, "{tokens:.4} tokens");
        assert!(used >= 0.93, "{used:.4} of the link");
    }
}

/// What was lost while its path was gone says nothing of how many share the sender's link: of 32
/// one was asked for a sixth of its part 40 ms after that, and for all of it after 160.
#[test]
fn a_receiver_that_was_cut_off_has_its_part_soon_again() {
    const RECEIVERS: usize = 32;
    const MS: u64 = 1_000_000;
    let mut network = hosts(RECEIVERS, 1, 1);
    for to in 1..=RECEIVERS {
        network.send_at(BEGIN, 0, to, 200_000_000);
    }
    network.run_until(BEGIN + SETTLED);
    network.set_loss(2, 1_000_000);
    network.run_until(network.now + 40 * MS);
    network.set_loss(2, 0);
    network.run_until(network.now + 5 * MS);
    let parts = |network: &Network| -> Vec<u32> {
        let all = network.registry.messages.iter();
        all.map(|it| it.received).collect()
    };
    let before = parts(&network);
    network.run_until(network.now + 20 * MS);
    let after = parts(&network);
    let got: Vec<u32> = after
        .iter()
        .zip(before)
        .map(|(has, had)| has - had)
        .collect();
    let mean = got.iter().sum::<u32>() / got.len() as u32;
    let part = f64::from(got[0]) / f64::from(mean);
    println!("it has {part:.3} of the others'");
    assert!(part >= 0.9, "{part:.3}");
}
