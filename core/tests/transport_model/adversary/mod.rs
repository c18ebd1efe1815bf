// SPDX-License-Identifier: GPL-2.0
//! Attackers beside honest hosts: what each can see and forge, and what must hold whatever it does.
//!
//! Hosts 0 and 1 are honest and send each other messages. Host 2's address is the attacker's: what
//! is sent to it, it sees. Addresses from [`GHOSTS`] on are nobody's. It can forge all addresses,
//! those of the honest hosts, too. One that is on the path sees all packets besides, but cannot
//! hold them back.
//!
//! After each run: every honest message was delivered, once, and the senders know; together they
//! took at most 1.25 times what they take without the attacker, besides what its own address had
//! sent of the messages that it began, and was asked for and did not send; the endpoints' tables
//! kept to the limits of their configuration; and no address that proved nothing was sent more than
//! three times the bytes that came from it.

mod actions;
mod random;
mod strategies;
mod table;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use turnstile_core::transport::config::Config;
use turnstile_core::transport::wire::Packet;

use super::host::bytes_allocated;
use super::network::Flying;
use super::topology::star;
use super::*;
use actions::Attack;

/// The first address that is nobody's.
pub(super) const GHOSTS: usize = 1000;
/// The attacker's own host.
pub(super) const OWN: usize = 2;
/// ns between an attacker's turns.
const TURN: u64 = 10_000;
/// bytes/s of each link.
const RATE: u64 = 1_250_000_000;
/// ns: when the honest messages and the attack begin.
const BEGIN: u64 = 2_000_000;

/// What an attacker is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// What is sent to its own address.
    Own,
    /// All that honest hosts send each other, too.
    OnPath,
}

/// An honest load: how many messages each way, of up to how many bytes, over how many ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) seed: u64,
    pub(super) messages: usize,
    pub(super) longest: u32,
    pub(super) span: u64,
    pub(super) config: Config,
}

/// What a run came to.
#[derive(Debug)]
pub(super) struct Outcome {
    /// ns: the honest messages' times, added up.
    pub(super) total: u64,
    /// The most bytes to a forged address for each byte from it, in hundredths; `u64::MAX`: bytes
    /// to one that sent none.
    pub(super) reflected: u64,
    /// The same of an honest host's address: what a message forged in its name drew.
    pub(super) drawn: u64,
    /// Bytes of IP packets that honest hosts sent, and that the attacker did.
    pub(super) sent: u64,
    pub(super) injected: u64,
    /// Bytes that honest hosts took of messages from the attacker's own address. They have a right
    /// to the link as others' have.
    pub(super) rival: u64,
    /// Tokens to the attacker's own address. One that is not answered costs the link a frame, as
    /// that of any peer whose data gets lost.
    pub(super) tokens: u64,
    /// Bytes of memory that the endpoints asked for.
    #[allow(dead_code)] // shown
    pub(super) allocated: usize,
    /// Forged packets.
    #[allow(dead_code)] // shown
    pub(super) forged: u64,
}

fn honest(load: &Load) -> Network {
    let link = Link {
        rate: RATE,
        delay: 8_000,
        ..Link::default()
    };
    let mut network = star(load.seed, &load.config, 3, link, load.seed % 2 == 1);
    network.kill(OWN);
    for i in 0..2 * load.messages {
        let at = BEGIN + network.below(load.span);
        let length = 1 + network.below(load.longest.into()) as u32;
        network.send_at(at, i % 2, 1 - i % 2, length);
    }
    network
}

/// Runs a load, with an attacker or without. Panics if an honest message is lost or comes twice.
pub(super) fn run(load: &Load, attack: Option<(&mut dyn Attack, Sight)>) -> Outcome {
    let mut network = honest(load);
    let before = bytes_allocated();
    let end = BEGIN + load.span;
    let mut forged = 0;
    let tokens: Rc<Cell<u64>> = Rc::default();
    if let Some((attacker, sight)) = attack {
        let seen: Rc<RefCell<Vec<Flying>>> = Rc::default();
        let tap = seen.clone();
        let given = tokens.clone();
        network.tap = Some(Box::new(move |_, packet: &Flying| {
            if packet.to == OWN && matches!(packet.packet, Packet::Token(_)) {
                given.set(given.get() + 1);
            }
            if packet.to == OWN || sight == Sight::OnPath {
                tap.borrow_mut().push(packet.clone());
            }
        }));
        let mut at = BEGIN;
        while at < end {
            network.run_until(at);
            let packets = seen.take();
            forged += actions::turn(&mut network, attacker, &packets);
            let most = load.config;
            for host in 0..2 {
                let (outgoing, incoming, remembered) = network.endpoint(host).counts();
                assert!(outgoing <= most.max_outgoing && incoming <= most.max_incoming);
                assert!(remembered <= most.max_remembered);
            }
            at += TURN;
        }
        network.tap = None;
    }
    network.run_to_the_end(end + 60_000_000_000);
    let mut total = 0;
    for (number, message) in network.registry.messages.iter().enumerate() {
        let delivered = message.delivered.unwrap_or_else(|| {
            panic!("honest message {number} was not delivered: {message:?}");
        });
        assert_eq!(
            message.result.map(|r| r.1),
            Some(Ok(())),
            "message {number}"
        );
        total += delivered - message.began;
    }
    Outcome {
        total,
        reflected: network.reflected(),
        drawn: network.drawn(),
        sent: network.sent,
        injected: network.injected,
        rival: network.registry.rival,
        tokens: tokens.get(),
        allocated: bytes_allocated() - before,
        forged,
    }
}

/// Runs a load with and without an attacker, and checks what must hold.
#[track_caller]
pub(super) fn check(load: &Load, attacker: &mut dyn Attack, sight: Sight) -> (Outcome, Outcome) {
    let alone = run(load, None);
    let attacked = run(load, Some((attacker, sight)));
    let times = attacked.total as f64 / alone.total as f64;
    // Frames of the attacker's own messages, and those that were not sent though tokens asked for
    // them: each goes to one of the hosts, and all honest messages to that host may wait for it.
    let rival = attacked.rival * 1622 / 1450 * 1_000_000_000 / RATE;
    let asked = attacked.tokens * 1622 * 1_000_000_000 / RATE;
    let waits = (rival + asked) * load.messages as u64;
    println!(
        "T {times:.3} alone {} attacked {}",
        alone.total, attacked.total
    );
    if std::env::var("TT").is_ok() {
        return (alone, attacked);
    }
    assert!(
        attacked.total.saturating_sub(waits) as f64 <= 1.25 * alone.total as f64,
        "honest messages took {times:.2} times as long: {attacked:?}, alone {alone:?}"
    );
    assert!(
        attacked.reflected <= 300,
        "{} bytes for each hundred forged ones",
        attacked.reflected
    );
    (alone, attacked)
}
