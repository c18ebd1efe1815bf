// SPDX-License-Identifier: GPL-2.0
//! A queue that is alone has what a port has that is alone, to the nanosecond.

use super::*;

/// A step of a load: what waits before it, and what comes.
#[derive(Clone, Debug)]
struct Step {
    wait: u64,
    band: Band,
    len: u32,
    segs: u32,
}

fn step() -> impl Strategy<Value = Step> {
    let band = prop_oneof![
        Just((Band::Signal, false)),
        (0..8_u8).prop_map(|p| (Band::Token(p), false)),
        (0..8_u8).prop_map(|p| (Band::Token(p), false)),
        Just((Band::Data, true)),
        Just((Band::Data, true)),
        Just((Band::Unscheduled, true)),
    ];
    let wait = prop_oneof![Just(0), 0..100_u64, 0..3_000_u64, 0..40_000_u64];
    (wait, band, 60..1514_u32, 1..40_u32).prop_map(|(wait, (band, long), len, segs)| Step {
        wait,
        band,
        len: if long {
            len * if band == Band::Data { segs } else { 1 }
        } else {
            60
        },
        segs: if band == Band::Data { segs } else { 1 },
    })
}

fn config() -> impl Strategy<Value = Config> {
    let order = prop_oneof![Just(Order::TokensFirst), Just(Order::DataFirst)];
    let jitter = prop_oneof![Just(0), Just(50_000_u64)];
    (order, any::<bool>(), jitter).prop_map(|(order, shaped, jitter)| Config {
        order,
        link: shaped.then_some(10 * GBIT),
        jitter: Nanos(jitter),
        // A token that has expired is gone sooner, as each dequeue looks, and the group then idle.
        token_expiry: Expiry::Off,
        ..Config::DEFAULT
    })
}

/// What left, when, and what was dropped.
type Outcome = (Vec<(u64, u32, Band)>, Vec<(u32, Band, DropCause)>);

/// The same load through a port that has no others.
fn alone(config: &Config, steps: &[Step]) -> Outcome {
    let mut b = Bench::new(*config);
    let mut timer: Option<Nanos> = None;
    let mut out = Vec::new();
    let mut serve = |b: &mut Bench, timer: &mut Option<Nanos>| loop {
        match b.port.dequeue(b.now, &mut NoChild, &mut b.drops) {
            Dequeue::Packet(packet, band) => out.push((b.now.0 - START, packet.0, band)),
            Dequeue::Wait(time) => {
                *timer = Some(time);
                return;
            }
            Dequeue::Empty => return,
        }
    };
    let mut at = START;
    for (id, step) in (0..)
        .zip(steps)
        .map(|(id, step)| (id, Some(step)))
        .chain([(0, None)])
    {
        at += step.map_or(1_000_000_000, |step| step.wait);
        while let Some(time) = timer.filter(|time| time.0 <= at) {
            b.now = b.now.max(time);
            timer = None;
            serve(&mut b, &mut timer);
        }
        b.now = Nanos(at);
        if let Some(step) = step {
            b.put_sized(step.band, id, step.len, step.segs);
            serve(&mut b, &mut timer);
        }
    }
    (out, b.drops)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_that_is_alone_is_a_port(
        config in config(),
        steps in prop::collection::vec(step(), 1..60),
        queues in 1..4_usize,
    ) {
        let (expected, drops) = alone(&config, &steps);
        let mut group = Group::new(queues, config);
        let mut at = 0;
        for (id, step) in (0..).zip(&steps) {
            at += step.wait;
            group.run(at);
            group.put_sized(queues - 1, step.band, id, step.len, step.segs);
        }
        group.run(at + 1_000_000_000);
        let left: Vec<_> = group.left.iter().map(|&(at, _, id, band)| (at, id, band)).collect();
        prop_assert_eq!(left, expected);
        prop_assert_eq!(group.drops, drops);
    }
}

/// Tokens that have waited for too long are dropped, and count as expired, in whichever queue.
#[test]
fn tokens_expire_in_every_queue() {
    let mut group = Group::new(2, shaped());
    group.put_sized(0, Band::Data, 0, 1514 * 40, 40);
    group.put(1, Band::Token(0), 1);
    group.put(1, Band::Token(3), 2);
    group.run(100_000);
    assert_eq!(group.left.len(), 1);
    let expired = |id, priority| (id, Band::Token(priority), DropCause::Expired);
    assert_eq!(group.drops, [expired(1, 0), expired(2, 3)]);
    assert!(group.ports[1].is_empty());
    group.put(1, Band::Token(0), 3);
    assert_eq!(group.left.last(), Some(&(100_000, 1, 3, Band::Token(0))));
}
