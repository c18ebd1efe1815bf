// SPDX-License-Identifier: GPL-2.0
//! What part of a link sealed data takes, and data over IPv6: their tokens are longer.

use turnstile_core::transport::config::Config;

use super::cipher::psk;
use super::topology::{host_port, PAPERS};
use super::*;

/// bytes/s.
const RATE: u64 = 1_250_000_000;
const LENGTH: u32 = 20_000_000;
/// Bytes of the link that a full data frame takes.
const FRAME: u64 = 1538;

/// The part of the link, in tenths of a percent, that the data frames of one message take.
fn part(v6: bool, seal: bool) -> u64 {
    let mut network = Network::new(1, Box::new(|from, to| vec![2 * from, 2 * to + 1]));
    let resolved = Config::DEFAULT.validate(Some(RATE)).unwrap();
    let link = Link {
        rate: RATE,
        delay: 8_000,
        ..Link::default()
    };
    for _ in 0..2 {
        network.host(&resolved, v6);
        network.node(host_port(), link);
        network.node(PAPERS, link);
    }
    if seal {
        network.set_keys(0, &[psk(1)]);
        network.set_keys(1, &[psk(1)]);
    }
    let began = 2_000_000;
    let it = network.send_at(began, 0, 1, LENGTH);
    network.run_to_the_end(30_000_000_000);
    let took = network.registry.messages[it].delivered.unwrap() - began;
    let payload = if v6 { 1430 } else { 1450 } - if seal { 32 } else { 0 };
    let frames = u64::from(LENGTH).div_ceil(payload);
    frames * FRAME * 1000 / (took * RATE / 1_000_000_000)
}

/// The figures in docs/security.md, "What it costs".
#[test]
fn sealed_data_takes_its_part_of_the_link() {
    for (is_v6, seal, wanted) in [
        (false, false, 944),
        (false, true, 925),
        (true, false, 932),
        (true, true, 914),
    ] {
        let part = part(is_v6, seal);
        let what = format!("IPv6 {is_v6}, sealed {seal}: {part}");
        assert!(part.abs_diff(wanted) <= 3, "{what}");
    }
}
