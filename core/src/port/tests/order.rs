// SPDX-License-Identifier: GPL-2.0
//! Which band goes first, and when.

use super::*;

#[test]
fn bands_go_in_order() {
    let mut b = Bench::new(PAPERS);
    b.put(Band::Unscheduled, 5);
    b.put(Band::Data, 4);
    b.put(Band::Token(5), 3);
    b.put(Band::Token(2), 2);
    b.put(Band::Signal, 1);
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Signal));
    assert_eq!(b.get(), Dequeue::Packet(2, Band::Token(2)));
    // The second token is not due, and does not hold up the others.
    assert_eq!(b.get(), Dequeue::Packet(4, Band::Data));
    assert_eq!(b.get(), Dequeue::Packet(5, Band::Unscheduled));
    assert_eq!(b.get(), Dequeue::Wait(Nanos(1298)));
    b.at(1298);
    assert_eq!(b.get(), Dequeue::Packet(3, Band::Token(5)));
    assert_eq!(b.get(), Dequeue::Empty);
    assert_eq!(
        b.port.port_stats(),
        &PortStats {
            link_waits: 0,
            token_waits: 1,
            ..PortStats::default()
        }
    );
}

#[test]
fn an_empty_port_has_nothing() {
    let mut b = Bench::new(shaped());
    assert_eq!(b.get(), Dequeue::Empty);
    assert!(b.port.is_empty());
    b.put(Band::Signal, 1);
    assert!(!b.port.is_empty());
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Signal));
    assert_eq!(b.get(), Dequeue::Empty);
    assert_eq!(*b.port.port_stats(), PortStats::default());
}

#[test]
fn tokens_leave_one_per_interval() {
    let mut b = Bench::new(PAPERS);
    b.put_all(Band::Token(0), 0..8);
    let out = b.run(10_000);
    // k x 1297.600004 (5.1787916 % is a little less than 84 / 1622), rounded up.
    let expected: Vec<_> = [0, 1298, 2596, 3893, 5191, 6489, 7786, 9084]
        .into_iter()
        .zip(0..)
        .collect();
    assert_eq!(out, expected);
}

#[test]
fn an_idle_group_earns_one_token() {
    let mut b = Bench::new(PAPERS);
    b.put(Band::Token(0), 0);
    assert_eq!(b.run(0), [(0, 0)]);
    b.at(1_000_000);
    b.put_all(Band::Token(1), 1..4);
    assert_eq!(
        b.run(1_010_000),
        [(1_000_000, 1), (1_001_298, 2), (1_002_596, 3)]
    );
}

#[test]
fn a_late_group_makes_up_for_eight_intervals() {
    let config = Config {
        token_expiry: Expiry::Off,
        token_limit: 100,
        ..PAPERS
    };
    let mut b = Bench::new(config);
    b.put_all(Band::Token(0), 0..30);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Token(0)));
    b.at(1_000_000);
    let burst = b.run(1_000_000).len();
    assert_eq!(burst, 9);
}

#[test]
fn the_link_is_busy_while_a_packet_is_sent() {
    let mut b = Bench::new(shaped());
    b.put_all(Band::Data, 0..3);
    assert_eq!(b.run(10_000), [(0, 0), (1231, 1), (2461, 2)]);
    // Even a signal waits for the link; an unshaped port leaves that to the device.
    b.put(Band::Signal, 3);
    assert_eq!(b.run(10_000), [(3692, 3)]);
    let mut b = Bench::new(PAPERS);
    b.put_all(Band::Data, 0..3);
    assert_eq!(b.run(10_000), [(0, 0), (0, 1), (0, 2)]);
}

#[test]
fn an_idle_link_earns_nothing() {
    let mut b = Bench::new(shaped());
    b.put(Band::Data, 0);
    b.run(0);
    b.at(500_000);
    b.put_all(Band::Data, 1..3);
    assert_eq!(b.run(600_000), [(500_000, 1), (501_231, 2)]);
}

#[test]
fn a_link_with_nothing_but_tokens_to_come_is_idle() {
    // 1 Gbit/s, tokens at 0.01 %: 84 B every 6.72 ms.
    let config = Config {
        link: Some(GBIT),
        tokens: Tokens::Share(100_000),
        ..PAPERS
    };
    let mut b = Bench::new(config);
    b.put(Band::Token(0), 0);
    b.put(Band::Token(0), 1);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Token(0)));
    // Not when the link is free again, at 672 ns: there is nothing that could go then.
    assert_eq!(b.get(), Dequeue::Wait(Nanos(6_720_000)));
    assert_eq!(
        b.port.port_stats(),
        &PortStats {
            link_waits: 0,
            token_waits: 1,
            ..PortStats::default()
        }
    );
    b.at(600_000);
    b.put_all(Band::Data, 2..4);
    assert_eq!(b.run(1_000_000), [(600_000, 2), (612_304, 3)]);
}

#[test]
fn a_late_link_makes_up_for_a_millisecond_or_eight_frames() {
    let burst_after = |link, late: u64| {
        let mut b = Bench::new(Config {
            link: Some(link),
            data_limit: 1 << 30,
            ..PAPERS
        });
        b.put_all(Band::Data, 0..5000);
        b.get();
        b.get(); // finds the link busy: there is a backlog
        b.at(late);
        b.run(late).len()
    };
    assert_eq!(burst_after(10 * GBIT, 100_000_000), 813); // 10^6 / 1230.4, and one
    assert_eq!(burst_after(GBIT / 100, 10_000_000_000), 9); // 1.23 ms each
    assert_eq!(burst_after(10 * GBIT, 12_304), 10);
}

#[test]
fn data_first_lets_one_data_packet_pass_a_due_token() {
    let mut b = Bench::new(Config {
        order: Order::DataFirst,
        ..shaped()
    });
    b.put(Band::Token(0), 100);
    b.put_all(Band::Data, 0..3);
    b.put(Band::Token(0), 101);
    let out = b.run(100_000);
    assert_eq!(
        out,
        [(0, 0), (1231, 100), (1298, 1), (2528, 101), (2596, 2)]
    );
}

#[test]
fn data_first_lets_data_go_on_while_no_token_is_due() {
    let mut b = Bench::new(Config {
        order: Order::DataFirst,
        ..PAPERS
    });
    b.put_all(Band::Data, 0..4);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Data));
    b.put(Band::Token(0), 100);
    b.put(Band::Token(0), 101);
    // Packet 0 passed no token. Packet 1 does; then 101 is not due.
    assert_eq!(b.get(), Dequeue::Packet(1, Band::Data));
    assert_eq!(b.get(), Dequeue::Packet(100, Band::Token(0)));
    assert_eq!(b.get(), Dequeue::Packet(2, Band::Data));
    assert_eq!(b.get(), Dequeue::Packet(3, Band::Data));
    assert_eq!(b.get(), Dequeue::Wait(Nanos(1298)));
}

#[test]
fn a_signal_in_between_is_no_excuse_to_pass_twice() {
    let mut b = Bench::new(Config {
        order: Order::DataFirst,
        ..PAPERS
    });
    b.put(Band::Token(0), 100);
    b.put_all(Band::Data, 0..2);
    assert_eq!(b.get(), Dequeue::Packet(0, Band::Data));
    b.put(Band::Signal, 200);
    assert_eq!(b.get(), Dequeue::Packet(200, Band::Signal));
    assert_eq!(b.get(), Dequeue::Packet(100, Band::Token(0)));
}

#[test]
fn tokens_first_passes_data() {
    let mut b = Bench::new(shaped());
    b.put(Band::Data, 0);
    b.put(Band::Token(0), 100);
    assert_eq!(b.run(100_000), [(0, 100), (68, 0)]);
}
