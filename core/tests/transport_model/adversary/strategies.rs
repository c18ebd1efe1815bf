// SPDX-License-Identifier: GPL-2.0
//! The attacks that were found by running them, each beside honest messages.

use turnstile_core::transport::wire::*;

use super::super::network::Flying;
use super::actions::{data, sync, whole, Attack, Forge};
use super::*;

fn load(seed: u64) -> Load {
    Load {
        seed,
        messages: 20,
        longest: 50_000,
        span: 10_000_000,
        config: Config::DEFAULT,
    }
}

/// Each turn does the same.
struct Each<F>(F);

impl<F: FnMut(&mut Forge<'_>, &[Flying])> Attack for Each<F> {
    fn turn(&mut self, forge: &mut Forge<'_>, seen: &[Flying]) {
        (self.0)(forge, seen);
    }
}

/// SYNCs of one cookie from everywhere.
#[test]
fn equal_cookies_from_many_addresses() {
    let mut attack = Each(|forge: &mut Forge<'_>, _: &[Flying]| {
        for _ in 0..20 {
            let from = GHOSTS + forge.below(60_000) as usize;
            forge.send(from, 0, Packet::Sync(sync(7, 1_000_000)));
        }
    });
    for seed in 0..4 {
        check(&load(seed), &mut attack, Sight::Own);
    }
}

/// One SYNC, and one with data behind it, as an address that never answers: how much is sent there?
#[test]
fn one_sync_draws_no_more_than_three_times_its_bytes() {
    for ren in [false, true] {
        // Without data, with some behind it, and with all of it in the packet.
        for how in 0..3 {
            let mut done = false;
            let mut attack = Each(|forge: &mut Forge<'_>, _: &[Flying]| {
                if !std::mem::replace(&mut done, true) {
                    let opening = Sync {
                        ren,
                        ..sync(7, 1_000_000)
                    };
                    if how == 2 {
                        return forge.send(GHOSTS, 0, whole(7, 1 + 999 * u32::from(ren)));
                    }
                    forge.send(GHOSTS, 0, Packet::Sync(opening));
                    if how == 1 {
                        forge.send(GHOSTS, 0, Packet::Data(data(7, 0, 1)));
                    }
                }
            });
            let load = Load {
                span: 20_000_000_000,
                messages: 2,
                ..load(1)
            };
            check(&load, &mut attack, Sight::Own);
        }
    }
}

/// Whole messages in a packet each, from addresses that are nobody's or another host's.
#[test]
fn forged_messages_in_a_packet() {
    let mut next = 0_u64;
    let mut attack = Each(|forge: &mut Forge<'_>, _: &[Flying]| {
        for n in 0..20 {
            next += 1;
            let from = match n {
                0 => 1,
                _ => GHOSTS + forge.below(60_000) as usize,
            };
            let len = 1 + forge.below(1000) as u32;
            forge.send(from, 0, whole(next, len));
        }
    });
    for seed in 0..4 {
        check(&load(seed), &mut attack, Sight::Own);
    }
}

/// Whole messages from addresses that are nobody's.
#[test]
fn forged_messages_that_are_complete() {
    let mut next = 0_u64;
    let mut attack = Each(|forge: &mut Forge<'_>, _: &[Flying]| {
        for _ in 0..4 {
            next += 1;
            let from = GHOSTS + (next % 60_000) as usize;
            let opening = Sync {
                unscheduled: 100,
                ..sync(next, 100)
            };
            forge.send(from, 0, Packet::Sync(opening));
            forge.send(from, 0, Packet::Data(data(next, 0, 100)));
        }
    });
    let load = Load {
        config: Config {
            max_remembered: 4096,
            unscheduled: 8,
            ..Config::DEFAULT
        },
        ..load(2)
    };
    check(&load, &mut attack, Sight::Own);
}

/// A peer that answers tokens, and so has proved its address, completes messages and never confirms
/// their ends.
#[test]
fn a_peer_that_never_confirms() {
    let mut next = 0_u64;
    let mut attack = Each(|forge: &mut Forge<'_>, seen: &[Flying]| {
        for packet in seen {
            if let Packet::Token(token) = packet.packet {
                let answer = Data {
                    token: token.sequence,
                    timestamp: token.timestamp,
                    flags: 0,
                    ..data(token.cookie.0, 0, 100)
                };
                forge.send(OWN, packet.from, Packet::Data(answer));
            }
        }
        for _ in 0..2 {
            next += 1;
            forge.send(OWN, 0, Packet::Sync(sync(next, 100)));
        }
    });
    let load = Load {
        config: Config {
            max_remembered: 1024,
            ..Config::DEFAULT
        },
        ..load(3)
    };
    check(&load, &mut attack, Sight::Own);
}

/// In the name of an honest host, which the other one knows: SYNCs of long and short messages, and
/// whole messages. It takes that host's own for what they are.
#[test]
fn in_the_name_of_a_host_that_is_known() {
    for (each, length) in [(50, 1000), (4, 1000), (1, 100), (1, 1_000_000)] {
        for whole in [false, true] {
            let mut turn = 0_u64;
            let mut attack = Each(|forge: &mut Forge<'_>, _: &[Flying]| {
                turn += 1;
                if turn % each != 0 {
                    return;
                }
                let cookie = (1 << 40) | turn;
                let first = if whole { length.min(1000) } else { 0 };
                let opening = Sync {
                    unscheduled: first,
                    patience: MAX_PATIENCE,
                    ..sync(cookie, length)
                };
                forge.send(1, 0, Packet::Sync(opening));
                if whole {
                    forge.send(1, 0, Packet::Data(data(cookie, 0, first)));
                }
            });
            let load = Load {
                span: 1_000_000_000,
                config: Config {
                    unscheduled: 8,
                    ..Config::DEFAULT
                },
                ..load(each)
            };
            check(&load, &mut attack, Sight::Own);
        }
    }
}

/// One on the path sends everything that it sees again, at once and later.
#[test]
fn all_packets_are_replayed() {
    let mut old: Vec<Flying> = Vec::new();
    let mut attack = Each(|forge: &mut Forge<'_>, seen: &[Flying]| {
        for packet in seen {
            forge.replay(packet);
        }
        old.extend_from_slice(seen);
        if !old.is_empty() {
            let at = forge.below(old.len() as u64) as usize;
            forge.replay(&old[at].clone());
        }
    });
    for seed in 0..4 {
        check(&load(seed), &mut attack, Sight::OnPath);
    }
}

/// Long messages of which the sender, which has proved its address, sends a byte now and then.
#[test]
fn a_peer_that_dribbles() {
    let mut turn = 0_u64;
    let mut attack = Each(|forge: &mut Forge<'_>, seen: &[Flying]| {
        if turn % 50 == 0 {
            forge.send(OWN, 0, Packet::Sync(sync(turn, 100_000)));
        }
        turn += 1;
        for packet in seen.iter().take(1) {
            if let Packet::Token(token) = packet.packet {
                let answer = Data {
                    token: token.sequence,
                    timestamp: token.timestamp,
                    flags: 0,
                    ..data(token.cookie.0, (turn % 1000) as u32, 1)
                };
                forge.send(OWN, packet.from, Packet::Data(answer));
            }
        }
    });
    check(&load(4), &mut attack, Sight::Own);
}
