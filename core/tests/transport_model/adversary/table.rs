// SPDX-License-Identifier: GPL-2.0
//! The attackers' table in `docs/security.md`, as these attacks come out today.

use turnstile_core::header::{FLAG_UNASKED, FLAG_UNSCHEDULED};
use turnstile_core::transport::uapi;
use turnstile_core::transport::wire::*;

use super::super::network::Flying;
use super::actions::{data, sync, Attack, Forge};
use super::*;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/security.md");
/// Between these lines of it.
const BEGIN_LINE: &str = "<!-- the attackers' table -->\n";
const END_LINE: &str = "<!-- end of the attackers' table -->\n";

/// An attack: what it is, what it did before, how, and for how many ns.
struct Row {
    what: &'static str,
    before: &'static str,
    turn: Turn,
    span: u64,
    /// The options of both hosts.
    unscheduled: u32,
    policy: u32,
}

/// What an attacker does in a turn, of which it is told the number.
type Turn = fn(&mut Forge<'_>, &[Flying], u64);

struct Turns(Turn, u64);

impl Attack for Turns {
    fn turn(&mut self, forge: &mut Forge<'_>, seen: &[Flying]) {
        (self.0)(forge, seen, self.1);
        self.1 += 1;
    }
}

fn one_sync(forge: &mut Forge<'_>, _: &[Flying], turn: u64) {
    if turn == 0 {
        forge.send(GHOSTS, 0, Packet::Sync(sync(7, 1_000_000)));
    }
}

fn one_with_data(forge: &mut Forge<'_>, _: &[Flying], turn: u64) {
    if turn == 0 {
        let opening = Sync {
            ren: true,
            ..sync(7, 1_000_000)
        };
        forge.send(GHOSTS, 0, Packet::Sync(opening));
        forge.send(GHOSTS, 0, Packet::Data(data(7, 0, 1)));
    }
}

/// The same of one that its sender paces: of that nothing need be asked for.
fn one_paced_with_data(forge: &mut Forge<'_>, _: &[Flying], turn: u64) {
    let opening = Sync {
        paced: true,
        ..sync(7, 1_000_000)
    };
    match turn {
        0 => forge.send(GHOSTS, 0, Packet::Sync(opening)),
        _ => {
            let part = Data {
                flags: FLAG_UNASKED,
                ..data(7, turn as u32 % 600 * 1450, 1450)
            };
            forge.send(GHOSTS, 0, Packet::Data(part));
        }
    }
}

fn equal_cookies(forge: &mut Forge<'_>, _: &[Flying], _: u64) {
    for _ in 0..6 {
        let from = GHOSTS + forge.below(60_000) as usize;
        forge.send(from, 0, Packet::Sync(sync(7, 1_000_000)));
    }
}

/// Whole messages, 13 333 in a second: one in 75 us.
fn whole_messages(forge: &mut Forge<'_>, _: &[Flying], turn: u64) {
    if turn * 10 / 75 == (turn + 1) * 10 / 75 {
        return;
    }
    let from = GHOSTS + (turn % 60_000) as usize;
    let opening = Sync {
        unscheduled: 100,
        ..sync(turn, 100)
    };
    forge.send(from, 0, Packet::Sync(opening));
    let all = Data {
        flags: FLAG_UNSCHEDULED,
        ..data(turn, 0, 100)
    };
    forge.send(from, 0, Packet::Data(all));
}

/// 25 000 in a second, in the name of the other honest host.
fn in_an_honest_name(forge: &mut Forge<'_>, _: &[Flying], turn: u64) {
    if turn % 4 == 0 {
        forge.send(1, 0, Packet::Sync(sync((1 << 40) | turn, 1000)));
    }
}

fn whole_in_an_honest_name(forge: &mut Forge<'_>, _: &[Flying], turn: u64) {
    if turn % 10 != 0 {
        return;
    }
    let opening = Sync {
        unscheduled: 1,
        patience: MAX_PATIENCE,
        ..sync((1 << 40) | turn, 1)
    };
    forge.send(1, 0, Packet::Sync(opening));
    forge.send(1, 0, Packet::Data(data((1 << 40) | turn, 0, 1)));
}

fn replay(forge: &mut Forge<'_>, seen: &[Flying], _: u64) {
    for packet in seen {
        forge.replay(packet);
    }
}

const ROWS: &[Row] = &[
    Row {
        what: "one forged SYNC, never answered, 20 s",
        before: "64 kB in 10 s for 64 bytes",
        turn: one_sync,
        span: 20_000_000_000,
        unscheduled: 0,
        policy: uapi::POLICY_TOP,
    },
    Row {
        what: "one forged SYNC that asks for grants, and a byte of data, 20 s",
        before: "534 kB for 115 bytes",
        turn: one_with_data,
        span: 20_000_000_000,
        unscheduled: 0,
        policy: uapi::POLICY_REN,
    },
    Row {
        what: "one forged SYNC that says that its sender paces it, and data without end, 1 s",
        before: "nothing: there were none",
        turn: one_paced_with_data,
        span: 1_000_000_000,
        unscheduled: 0,
        policy: uapi::POLICY_TOP,
    },
    Row {
        what: "600 000 SYNCs of one cookie in a second, from 60 000 addresses",
        before: "426 us of the receiver's time for each pair of packets",
        turn: equal_cookies,
        span: 1_000_000_000,
        unscheduled: 0,
        policy: uapi::POLICY_TOP,
    },
    Row {
        what: "13 333 whole messages in a second from 60 000 addresses, 10 s",
        before: "no honest message was taken after 9.8 s",
        turn: whole_messages,
        span: 10_000_000_000,
        unscheduled: 8,
        policy: uapi::POLICY_TOP,
    },
    Row {
        what: "25 000 SYNCs in a second in the name of one of the hosts, 20 s",
        before: "106 of 200 messages of that host failed",
        turn: in_an_honest_name,
        span: 20_000_000_000,
        unscheduled: 0,
        policy: uapi::POLICY_TOP,
    },
    Row {
        what: "10 000 whole messages in a second in the name of one of the hosts, 10 s",
        before: "delivered as its own; none of that host was taken for an hour",
        turn: whole_in_an_honest_name,
        span: 10_000_000_000,
        unscheduled: 8,
        policy: uapi::POLICY_TOP,
    },
    Row {
        what: "everything again at once, by one on the path, 0.1 s",
        before: "not tried",
        turn: replay,
        span: 100_000_000,
        unscheduled: 0,
        policy: uapi::POLICY_TOP,
    },
];

/// The table's lines.
fn rows() -> String {
    let mut text = String::from(
        "| attack on two hosts that send each other 40 messages | before | honest messages that \
         arrived | their times together, of those without it | bytes that each forged byte drew, \
         at most |\n|---|---|---|---|---|\n",
    );
    for row in ROWS {
        let load = Load {
            seed: 1,
            messages: 20,
            longest: 50_000,
            span: row.span,
            config: Config {
                unscheduled: row.unscheduled,
                policy: row.policy,
                ..Config::DEFAULT
            },
        };
        let sight = if row.turn as usize == replay as Turn as usize {
            Sight::OnPath
        } else {
            Sight::Own
        };
        let (alone, attacked) = check(&load, &mut Turns(row.turn, 0), sight);
        let times = attacked.total as f64 / alone.total as f64;
        let drawn = match sight {
            Sight::Own => attacked.reflected.max(attacked.drawn),
            // These are of honest messages: what was sent besides.
            Sight::OnPath => attacked.sent.saturating_sub(alone.sent) * 100 / attacked.injected,
        };
        assert!(drawn <= 300, "{}: {attacked:?}", row.what);
        text += &format!(
            "| {} | {} | 40 of 40 | {times:.2} | {}.{:02} |\n",
            row.what,
            row.before,
            drawn / 100,
            drawn % 100
        );
    }
    text
}

#[test]
fn the_attackers_table_is_as_it_comes_out() {
    let rows = rows();
    let docs = std::fs::read_to_string(DOCS).expect("docs/security.md");
    let (head, rest) = docs.split_once(BEGIN_LINE).expect("where the table begins");
    let (old, tail) = rest.split_once(END_LINE).expect("where the table ends");
    if std::env::var_os("UPDATE").is_some() {
        let new = format!("{head}{BEGIN_LINE}\n{rows}\n{END_LINE}{tail}");
        std::fs::write(DOCS, new).expect("docs/security.md can be written");
    } else {
        assert_eq!(old.trim(), rows.trim(), "UPDATE=1 writes it");
    }
}
