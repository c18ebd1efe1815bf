// SPDX-License-Identifier: GPL-2.0
//! Precedence is strict between queues.

use super::*;

/// One packet: when it comes (ns after the start), where, and of which band.
type Coming = (u64, usize, Band);

fn coming(queues: usize) -> impl Strategy<Value = Vec<Coming>> {
    let band = prop_oneof![
        1 => Just(Band::Signal),
        4 => (0..8_u8).prop_map(Band::Token),
        8 => Just(Band::Data),
    ];
    let one = (0..60_000_u64, 0..queues, band);
    prop::collection::vec(one, 1..150).prop_map(|mut all| {
        all.sort_by_key(|&(at, queue, _)| (at, queue));
        all
    })
}

fn load(group: &mut Group, all: &[Coming]) {
    for (id, &(at, queue, band)) in (0..).zip(all) {
        group.run(at);
        group.put(queue, band, id);
    }
}

/// Who goes before whom.
fn rank(band: Band) -> u8 {
    match band {
        Band::Signal => 0,
        Band::Token(priority) => 1 + priority,
        Band::Data => 9,
        Band::Unscheduled => 10,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Timers that are exact: nothing leaves while what goes before it waits in any queue, and may
    /// go. And the link is never idle while anything waits.
    #[test]
    fn nothing_leaves_before_its_turn(
        queues in 1..6_usize,
        all in coming(5),
        jitter in prop_oneof![Just(0), Just(50_000_u64)],
    ) {
        let config = Config {
            jitter: Nanos(jitter),
            token_limit: 1000,
            token_expiry: Expiry::Off,
            ..shaped()
        };
        let place = |(at, queue, band)| (at, queue % queues, band);
        let all: Vec<_> = all.into_iter().map(place).collect();
        let mut group = Group::new(queues, config);
        load(&mut group, &all);
        group.run(10_000_000);
        prop_assert_eq!(group.left.len(), all.len());
        // Link and group by the exact times, in units of 1/(10 Gbit/s x share).
        let resolved = config.validate(Some(10 * GBIT)).unwrap();
        let mut link = Shaper::new(resolved.link_rate, Nanos::SECOND, Nanos(START));
        let mut tokens = Shaper::new(resolved.token_rate, Nanos::SECOND, Nanos(START));
        let mut waiting: Vec<(u64, Band, u32)> = Vec::new();
        let mut coming = (0..).zip(&all).map(|(id, &(at, _, band))| (at, band, id)).peekable();
        let mut held = 0;
        for &(at, _, id, band) in &group.left {
            while let Some(next) = coming.next_if(|next| next.0 <= at) {
                if matches!(next.1, Band::Token(_)) {
                    if held == 0 {
                        tokens.arrive(Nanos(START + next.0));
                    }
                    held += 1;
                }
                if waiting.iter().all(|it| matches!(it.1, Band::Token(_))) {
                    let free = waiting.first().map_or(next.0 + START, |_| tokens.next().0);
                    link.arrive(Nanos(free.min(next.0 + START)));
                }
                waiting.push(next);
            }
            let now = Nanos(START + at);
            let is_token = matches!(band, Band::Token(_));
            // The link may have become free a part of a ns before something came to it, which is
            // then not lost.
            prop_assert!(link.ready(now + Nanos(1)), "{at}: {id} before the link is free");
            prop_assert!(!is_token || tokens.ready(now), "{at}: {id} before its turn");
            let due = |it: &&(u64, Band, u32)| {
                !matches!(it.1, Band::Token(_)) || tokens.ready(now)
            };
            let waits = waiting.iter().filter(|it| it.0 < at).filter(due);
            let first = waits.map(|it| rank(it.1)).min();
            prop_assert!(
                first.is_none_or(|first| first >= rank(band)),
                "{at}: {id} of {band:?} leaves, while {first:?} waits"
            );
            waiting.retain(|it| it.2 != id);
            let wire_len = if is_token || band == Band::Signal { 84 } else { 1538 };
            link.charge(now, wire_len);
            if is_token {
                tokens.charge(now, wire_len);
                held -= 1;
            }
        }
    }

    /// A machine that is late by up to its jitter: a token waits for no more than its own lateness,
    /// for one packet when it is due, and one more when its processor comes.
    #[test]
    fn a_token_waits_for_one_packet_of_others(
        late in prop::collection::vec(0..20_000_u64, 3),
        at in 200_000..400_000_u64,
    ) {
        let config = Config { jitter: Nanos(20_000), ..shaped() };
        let mut group = Group::new(3, config);
        group.late = late.clone();
        for id in 0..400 {
            group.put(0, Band::Data, id);
            group.put(1, Band::Data, 1000 + id);
        }
        group.run(at);
        group.put(2, Band::Token(0), 7);
        group.run(10_000_000);
        let sent = group.left.iter().find(|left| left.2 == 7).unwrap().0;
        prop_assert!(
            sent <= at + late[2] + 20_000 + 2 * 1231,
            "{} after it came, its processor {} late",
            sent - at,
            late[2]
        );
    }
}

/// Data of other queues that fills the link: tokens of one queue get their share exactly, each when
/// it is due and at most one packet later.
#[test]
fn data_of_others_leaves_tokens_their_share() {
    for order in [Order::TokensFirst, Order::DataFirst] {
        let config = Config {
            order,
            token_limit: 1024,
            token_expiry: Expiry::Off,
            ..shaped()
        };
        let mut group = Group::new(4, config);
        for id in 0..1000 {
            group.put(3, Band::Token((id % 8) as u8), id);
            for queue in 0..3 {
                group.put(queue, Band::Data, 10_000 + id);
            }
        }
        group.run(1_000_000);
        let tokens: Vec<_> = group.left.iter().filter(|left| left.1 == 3).collect();
        // 84 of 1622 parts of 10 Gbit/s.
        let due = 1_000_000 * 10 / 12_976;
        assert!(
            (due - 1..=due + 1).contains(&(tokens.len() as u64)),
            "{} tokens, {due} due",
            tokens.len()
        );
        let bytes: u64 = tokens.len() as u64 * 84 + (group.left.len() - tokens.len()) as u64 * 1538;
        assert!(bytes >= 1_250_000 - 1538, "{bytes} bytes in a millisecond");
        assert!(bytes <= 1_250_000 + 1538, "{bytes} bytes in a millisecond");
        for (place, token) in (0_u64..).zip(&tokens) {
            let due = place * 12_976 / 10;
            let wait = token.0.saturating_sub(due);
            let most = if order == Order::DataFirst {
                2 * 1231
            } else {
                1231
            };
            assert!(wait <= most + 2, "{order:?}: token {place} is {wait} late");
        }
    }
}

/// Tokens of all queues have one budget, and the highest priority goes first wherever it is.
#[test]
fn priorities_are_strict_between_queues() {
    for link in [None, Some(10 * GBIT)] {
        let config = Config {
            link,
            token_limit: 1024,
            token_expiry: Expiry::Off,
            ..PAPERS
        };
        let mut group = Group::new(4, config);
        for id in 0..100 {
            for queue in 0..4 {
                group.put(queue, Band::Token(6 - 2 * queue as u8), id);
            }
        }
        group.run(10_000_000);
        assert_eq!(group.left.len(), 400);
        // The first one found nobody else.
        for (place, left) in (0..).zip(&group.left).skip(1) {
            let queue = 3 - (place - 1) / 100;
            assert_eq!(left.1, queue.max(0) as usize, "{place}: {left:?}");
            let due = (place as u64 * 12_976).div_ceil(10);
            assert!((due..=due + 1).contains(&left.0), "{place}: {left:?}");
        }
    }
}

/// A queue whose driver takes nothing delays the others by one grace, and no more.
#[test]
fn a_queue_that_is_stopped_holds_up_nobody() {
    let config = Config {
        jitter: Nanos(50_000),
        link: Some(10 * GBIT),
        token_limit: 1024,
        token_expiry: Expiry::Off,
        ..Config::DEFAULT
    };
    let mut group = Group::new(2, config);
    for id in 0..1000 {
        group.put(0, Band::Data, id);
        group.put(1, Band::Data, id);
        group.put(1, Band::Token(0), id);
    }
    group.run(100_000);
    group.stopped[1] = true;
    let before = group.left.len();
    group.run(1_100_000);
    let sent = group.left.len() - before;
    let all = 1_000_000 * 10 / 12_304;
    assert!(
        sent as u64 >= all - 2,
        "{sent} of {all} packets, the lost time made up for"
    );
    group.stopped[1] = false;
    group.ask(1);
    let now = group.left.last().unwrap().0;
    group.run(1_200_000);
    let token = group
        .left
        .iter()
        .find(|left| left.0 >= now && matches!(left.3, Band::Token(_)));
    assert!(token.unwrap().0 <= 1_100_000 + 2 * 1231, "{token:?}");
}
