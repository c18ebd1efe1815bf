// SPDX-License-Identifier: GPL-2.0
//! Single messages on an idle link.

use turnstile_core::transport::config::Config;

use super::topology::star;
use super::*;

/// 10 Gbit/s, and 10 us each way.
fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 5_000,
        ..Link::default()
    }
}

fn alone(length: u32, v6: bool) -> u64 {
    alone_over(link(), 1, length, v6)
}

fn alone_over(link: Link, seed: u64, length: u32, v6: bool) -> u64 {
    let mut network = star(seed, &Config::DEFAULT, 2, link, v6);
    network.acquaint([(0, 1), (1, 0)]);
    let begin = network.now + 1_000_000;
    let it = network.send_at(begin, 0, 1, length);
    network.run_to_the_end(begin + 1_000_000_000);
    network.registry.messages[it].delivered.unwrap() - begin
}

/// A request of 100 B and its answer, and 100 KB, begin at once: nothing waits for a token. 10 MB
/// take what tokens leave of the link (94.8 %), less the receiver's acknowledgements (0.3 %): over
/// 8.95 ms that is not to be had.
#[test]
fn alone_a_message_takes_little_more_than_the_wire() {
    for v6 in [false, true] {
        for length in [100, 1000, 10_000, 100_000, 1_000_000, 10_000_000] {
            println!("IPv6 {v6}, {length} B: {} ns", alone(length, v6));
        }
    }
    // The switch sends each packet on when it has all of it.
    let hop = (100 + 22 + 66) * 1_000_000_000 / link().rate;
    assert!(2 * (alone(100, false) - hop) <= 20_600);
    assert!(2 * (alone(100, true) - hop) <= 20_600);
    assert!(alone(100_000, false) <= 102_000);
    assert!(alone(10_000_000, false) <= 8_990_000);
    // Its tokens are 20 bytes longer: 93.7 %.
    assert!(alone(10_000_000, true) <= 9_230_000);
}

/// README: two links that lose some packets of any kind each, and a message that is alone.
#[test]
fn lossy_links_slow_down_a_message_that_is_alone() {
    let whole = alone(100_000_000, false);
    for (loss, bound) in [(5_000, 1.08), (10_000, 1.25), (25_000, 2.0)] {
        for seed in 1..=3 {
            let link = Link { loss, ..link() };
            let took = alone_over(link, seed, 100_000_000, false) as f64 / whole as f64;
            println!("{} % each, seed {seed}: {took:.3}", loss as f64 / 1e4);
            assert!(took < bound, "{loss} per million, seed {seed}: {took:.3}");
        }
    }
}
