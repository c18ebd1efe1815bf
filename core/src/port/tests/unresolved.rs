// SPDX-License-Identifier: GPL-2.0
//! A port that does not know its link's speed.

use super::*;
use crate::port::config::{Drain, Phantom};

fn unresolved(config: Config) -> Bench {
    let b = Bench::on(None, config);
    assert!(b.port.resolved().is_unresolved());
    b
}

/// Fills each band: tokens of priority 0 are numbers from 10, of priority 5 from 20.
fn fill(b: &mut Bench) {
    b.put(Band::Unscheduled, 40);
    b.put(Band::Data, 30);
    b.put(Band::Data, 31);
    b.put_all(Band::Token(5), 20..23);
    b.put_all(Band::Token(0), 10..18);
    b.put(Band::Signal, 0);
}

#[test]
fn all_go_at_once_in_the_order_of_the_bands() {
    let mut b = unresolved(Config::DEFAULT);
    fill(&mut b);
    let ids: Vec<_> = b.run(0).iter().map(|out| out.1).collect();
    assert_eq!(
        ids,
        [0, 10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 30, 31, 40]
    );
    assert_eq!(b.get(), Dequeue::Empty);
    let stats = b.port.port_stats();
    assert_eq!((stats.token_waits, stats.link_waits), (0, 0));
}

#[test]
fn with_data_first_tokens_let_one_data_packet_pass() {
    let mut b = unresolved(Config {
        order: Order::DataFirst,
        ..Config::DEFAULT
    });
    fill(&mut b);
    let ids: Vec<_> = b.run(0).iter().map(|out| out.1).collect();
    assert_eq!(
        ids,
        [0, 30, 10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 31, 40]
    );
}

#[test]
fn tokens_do_not_grow_old_by_themselves() {
    let mut b = unresolved(PAPERS);
    b.put(Band::Token(0), 0);
    b.at(3_600_000_000_000);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Token(0)));
    assert_eq!(b.port.port_stats().slack_forfeits, 0);
    let mut b = unresolved(Config {
        token_expiry: Expiry::After(Nanos(1000)),
        ..PAPERS
    });
    b.put(Band::Token(0), 0);
    b.at(1001);
    assert_eq!(b.get(), Dequeue::Empty);
    assert_eq!(b.drops, [(0, Band::Token(0), DropCause::Expired)]);
}

#[test]
fn limits_hold_all_the_same() {
    let mut b = unresolved(PAPERS);
    b.put_all(Band::Token(0), 0..8);
    assert_eq!(b.put(Band::Token(0), 8), Enqueue::Dropped);
    b.put(Band::Unscheduled, 9);
    assert_eq!(b.put(Band::Unscheduled, 10), Enqueue::Dropped);
}

#[test]
fn a_token_rate_that_is_given_is_kept() {
    let mut b = unresolved(Config {
        tokens: Tokens::Rate(84_000_000),
        ..PAPERS
    });
    b.put_all(Band::Token(0), 0..3);
    assert_eq!(b.run(5000), [(0, 0), (1000, 1), (2000, 2)]);
}

#[test]
fn a_speed_resolves_it() {
    let mut b = unresolved(PAPERS);
    b.put_all(Band::Token(0), 0..4);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Token(0)));
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Token(0)));
    b.port.note_link_speed(b.now, None);
    assert!(b.port.resolved().is_unresolved());
    b.port.note_link_speed(b.now, Some(GBIT));
    assert_eq!(b.port.resolved().link, GBIT);
    assert_eq!(b.run(20_000), [(0, 2), (12_977, 3)]);
    // It is not forgotten again.
    b.port.note_link_speed(b.now, None);
    b.port.note_link_speed(b.now, Some(0));
    assert_eq!(b.port.resolved().link, GBIT);
    // Eight frames with their tokens, by the share in billionths.
    assert_eq!(b.port.resolved().expiry, Some(Nanos(103_809)));
}

#[test]
fn a_change_makes_it_unresolved_or_resolves_it() {
    let mut b = Bench::new(Config {
        link: Some(125),
        ..PAPERS
    });
    b.put_all(Band::Token(0), 0..3);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Token(0)));
    assert_eq!(b.get(), Dequeue::Wait(Nanos(12_976_000_039)));
    let auto = PAPERS;
    let unknown = auto.validate(None).unwrap();
    b.port.change(&auto, &unknown, b.now, &mut b.drops);
    assert_eq!(b.run(0), [(0, 1), (0, 2)]);
    b.change(shaped());
    assert_eq!(b.port.resolved().link, 10 * GBIT);
}

#[test]
fn markers_that_need_the_speed_wait_for_it() {
    let phantom = |drain| Some(Phantom { drain, mark: 1000 });
    let mut b = unresolved(Config {
        phantom: phantom(Drain::Share(950_000_000)),
        ren: Some(Nanos(48_000)),
        ..PAPERS
    });
    assert!(!b.port.markers().any());
    b.port.note_link_speed(b.now, Some(GBIT));
    assert!(b.port.markers().phantom().is_some());
    assert!(b.port.markers().ren().is_some());
    let b = unresolved(Config {
        phantom: phantom(Drain::Rate(GBIT)),
        ..PAPERS
    });
    assert!(b.port.markers().phantom().is_some());
}
