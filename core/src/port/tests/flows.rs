// SPDX-License-Identifier: GPL-2.0
//! What a full token queue drops.

use super::*;

/// A flow that asks for ten times its share takes nothing from one that keeps to it.
#[test]
fn who_asks_for_less_than_its_share_loses_nothing() {
    let mut b = Bench::new(PAPERS);
    let interval = 1298;
    let (mut lost, mut sent) = ([0; 2], [0; 2]);
    for step in 1..4000_u64 {
        b.at(step * interval / 5);
        // A flow's share is a token in ten steps: the second asks for two thirds of that.
        b.put(Band::Token(0), 0);
        if step % 15 == 0 {
            b.put(Band::Token(0), 1000);
        }
        if let Dequeue::Packet(id, _) = b.get() {
            sent[id as usize / 1000] += 1;
        }
    }
    for (id, _, cause) in &b.drops {
        lost[*id as usize / 1000] += 1;
        assert!(matches!(cause, DropCause::Displaced | DropCause::OverLimit));
    }
    assert_eq!(lost[1], 0, "of {}", sent[1]);
    assert!(sent[1] >= 260 && sent[0] >= 530, "{sent:?}");
    let stats = b.port.stats(Band::Token(0));
    assert_eq!(stats.over_limit, b.drops.len() as u64);
    assert_eq!(
        stats.offered_packets,
        stats.sent_packets + stats.queued_packets + stats.over_limit
    );
    assert_eq!(stats.max_packets, PAPERS.token_limit.into());
}

/// Expired tokens go first, whoever they are of.
#[test]
fn what_has_expired_makes_room_before_others_do() {
    let mut b = Bench::new(Config {
        token_limit: 3,
        token_expiry: Expiry::After(Nanos(2000)),
        ..PAPERS
    });
    b.put(Band::Token(1), 1);
    b.at(1500);
    b.put(Band::Token(1), 2);
    b.put(Band::Token(1), 4);
    b.at(2500);
    b.put(Band::Token(1), 6);
    b.put(Band::Token(1), 1000);
    let token = Band::Token(1);
    assert_eq!(
        b.drops,
        [
            (1, token, DropCause::Expired),
            (2, token, DropCause::Displaced)
        ]
    );
}
