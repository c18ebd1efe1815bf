// SPDX-License-Identifier: GPL-2.0
//! The link goes from one queue to another: who was alone, who has tokens, and who comes late.

use super::*;

const JITTER: u64 = 50_000;

fn conf() -> Config {
    Config {
        jitter: Nanos(JITTER),
        ..shaped()
    }
}

/// Bytes of data that each of the queues sent from one time to another, us.
fn shares(group: &Group, from: u64, to: u64) -> Vec<u64> {
    let mut sent = vec![0; group.ports.len()];
    for &(at, queue, _, band) in &group.left {
        if band == Band::Data && (from * 1000..to * 1000).contains(&at) {
            sent[queue] += 1538;
        }
    }
    sent
}

fn fill(group: &mut Group, queue: usize, id: &mut u64) {
    while group.ports[queue].data_bytes() < 200_000 {
        group.put_sized(queue, Band::Data, *id as _, 1514, 1);
        *id += 1;
    }
}

fn assert_equal(shares: &[u64], what: &str) {
    let most = shares.iter().max().copied().unwrap_or(0);
    let least = shares.iter().min().copied().unwrap_or(0);
    assert!(least * 100 >= most * 98, "{what}: {shares:?}");
}

/// What a queue sent while it was alone it owes nobody.
#[test]
fn who_was_alone_goes_on_beside_others() {
    let mut group = Group::new(2, conf());
    let mut id = 0;
    for at in (0..20_000_000).step_by(2_000) {
        group.run(at);
        fill(&mut group, 0, &mut id);
        if at >= 10_000_000 {
            fill(&mut group, 1, &mut id);
        }
    }
    for from in (10_000..20_000).step_by(2_000) {
        assert_equal(&shares(&group, from, from + 2_000), "together");
    }
}

/// A token now and then does not make a queue a newcomer to the ring of data.
#[test]
fn tokens_do_not_renew_a_turn_of_data() {
    for tokens in [[true, false], [true, true]] {
        let mut group = Group::new(2, conf());
        let mut id = 0;
        for at in (0..10_000_000_u64).step_by(2_000) {
            group.run(at);
            for (queue, has) in tokens.into_iter().enumerate() {
                fill(&mut group, queue, &mut id);
                if has && at % 20_000 == 0 {
                    group.put(queue, Band::Token(0), id as _);
                    id += 1;
                }
            }
        }
        assert_equal(&shares(&group, 0, 5_000), "first half");
        assert_equal(&shares(&group, 5_000, 10_000), "second half");
    }
}

/// Tokens and data stand in all queues, and every timer is late: whoever is there uses the link
/// meanwhile, so that it carries what it would from one port, nearly.
#[test]
fn the_link_is_busy_while_the_next_queue_is_late() {
    for queues in [1, 2, 4] {
        for late in [0, 1_000, 2_000, 5_000, 20_000] {
            let config = Config {
                token_limit: 1024,
                token_expiry: Expiry::Off,
                ..conf()
            };
            let mut group = Group::new(queues, config);
            group.late = vec![late; queues];
            for id in 0..1000 {
                for queue in 0..queues {
                    let now = group.now;
                    for (band, id, len) in
                        [(Band::Token(0), id, 60), (Band::Data, 10_000 + id, 1514)]
                    {
                        let packet = Bench::packet(id, len, 1);
                        let _ = group.ports[queue].enqueue(now, band, packet, &mut group.drops);
                    }
                }
            }
            for queue in 0..queues {
                group.ask(queue);
            }
            group.run(1_000_000);
            let all = group.left.len() as u64;
            let data = shares(&group, 0, u64::MAX / 1000).iter().sum::<u64>() / 1538;
            let tokens = all - data;
            // In 1 ms.
            let due = 10_000_000 / 8 / 1622;
            let what =
                std::format!("{queues} queues, {late} ns late: {tokens} tokens, {data} packets");
            assert!(tokens * 100 >= due * 98 && data * 100 >= due * 98, "{what}");
        }
    }
}
