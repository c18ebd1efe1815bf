// SPDX-License-Identifier: GPL-2.0
//! Hosts whose processors are slower than their link, or have other things to do: tokens are for
//! who answers them.

use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;

use super::topology::star;
use super::*;

/// As short as veth, 10 Gbit/s: a full packet takes 1.3 us.
fn link() -> Link {
    Link {
        rate: 1_250_000_000,
        delay: 500,
        ..Link::default()
    }
}

/// How long processors take for a packet, ns.
#[derive(Clone, Copy, Debug)]
enum Costs {
    /// Those that both hosts share.
    Shared(&'static [u64]),
    /// That of the sender, and that of the receiver.
    Own(&'static [u64]),
}

/// Tokens that drew nothing and packets that came twice, as parts of all packets, of so many
/// messages of so many bytes that are written so many ns apart; of strangers, and twice more.
fn wasted(
    costs: Costs,
    away: Option<(u64, u64)>,
    (length, count, apart): (u32, u64, u64),
) -> [(f64, f64); 3] {
    let mut network = star(1, &Config::DEFAULT, 2, link(), false);
    match costs {
        Costs::Shared(costs) => network.share_processors(costs),
        Costs::Own(costs) => network.own_processors(costs),
    }
    if let Some((every, lasts)) = away {
        network.distract(every, lasts);
    }
    [(); 3].map(|()| {
        let counts = |network: &Network| {
            [
                Counter::TokenSent,
                Counter::DataReceived,
                Counter::UnscheduledReceived,
                Counter::DataDuplicate,
            ]
            .map(|counter| network.stats(1).get(counter))
        };
        let before = counts(&network);
        let begin = network.now + 1_000_000;
        let first = network.registry.messages.len();
        for n in 0..count {
            network.send_at(begin + n * apart, 0, 1, length);
        }
        network.run_to_the_end(begin + 100_000_000_000);
        let all = &network.registry.messages[first..];
        assert!(all.iter().all(|it| it.delivered.is_some()));
        let after = counts(&network);
        let [tokens, data, unasked, twice] = [0, 1, 2, 3].map(|it| (after[it] - before[it]) as f64);
        let all = data + unasked;
        ((tokens - data) / all, twice / all)
    })
}

/// A sender that is 20 times slower than its receiver had 2.8 tokens for each packet, and sent a
/// third of its data twice. Of long messages none is wasted now, unless processors are away for
/// longer than anybody could know.
#[test]
fn whoever_is_slow_gets_no_token_twice() {
    // Bytes of a message, how many there are, and ns between two.
    const LOADS: [(u32, u64, u64); 5] = [
        (65_536, 64, 0),
        (65_536, 64, 1_000_000),
        (1 << 20, 8, 0),
        (1 << 20, 8, 2_000_000),
        (8 << 20, 2, 0),
    ];
    const COSTS: [Costs; 11] = [
        Costs::Shared(&[1_000]),
        Costs::Shared(&[20_000]),
        Costs::Shared(&[1_000, 1_000]),
        Costs::Shared(&[10_000, 10_000]),
        Costs::Shared(&[20_000, 30_000]),
        Costs::Own(&[5_000, 1_000]),
        Costs::Own(&[20_000, 1_000]),
        Costs::Own(&[50_000, 10_000]),
        Costs::Own(&[1_000, 20_000]),
        Costs::Own(&[1_000, 1_000]),
        Costs::Own(&[20_000, 20_000]),
    ];
    // Whether they are away now and then, and messages are long: the most tokens in vain, and
    // packets that come twice, of all packets.
    const BOUNDS: [((bool, bool), f64, f64); 4] = [
        ((false, true), 0.01, 0.001),
        ((true, true), 0.2, 0.05),
        ((false, false), 0.06, 0.12),
        ((true, false), 0.3, 0.15),
    ];
    const AWAY: [Option<(u64, u64)>; 4] = [
        None,
        Some((1_000_000, 200_000)),
        Some((5_000_000, 3_000_000)),
        Some((20_000_000, 8_000_000)),
    ];
    let mut most = BOUNDS.map(|(kind, ..)| (kind, 0.0_f64, 0.0_f64));
    for costs in COSTS {
        for away in AWAY {
            for load in LOADS {
                let each = wasted(costs, away, load);
                println!("{costs:?} ns, away {away:?}, {load:?}: {each:.3?}");
                let kind = (away.is_some(), load.0 >= 1 << 20);
                let its = most.iter_mut().find(|most| most.0 == kind).unwrap();
                for (tokens, twice) in each {
                    (its.1, its.2) = (its.1.max(tokens), its.2.max(twice));
                }
            }
        }
    }
    println!("away, long: {most:.3?}");
    for ((_, tokens, twice), (kind, most_tokens, most_twice)) in most.into_iter().zip(BOUNDS) {
        assert!(
            tokens <= most_tokens,
            "{kind:?}: {tokens:.3} tokens in vain"
        );
        assert!(twice <= most_twice, "{kind:?}: {twice:.3} come twice");
    }
}
