// SPDX-License-Identifier: GPL-2.0

use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const MEMBERS: u32 = 5;

#[derive(Clone, Copy, Debug)]
enum Step {
    Stand(u32, usize, u8),
    TakeOut(u32, usize),
    Turn(u32, usize),
}

fn step() -> impl Strategy<Value = Step> {
    // One that is none of the members, too.
    let who = 0..=MEMBERS;
    prop_oneof![
        (who.clone(), 0..4_usize, 0..8_u8).prop_map(|(who, kind, p)| Step::Stand(who, kind, p)),
        (who.clone(), 0..4_usize).prop_map(|(who, kind)| Step::TakeOut(who, kind)),
        (who, 0..4_usize).prop_map(|(who, kind)| Step::Turn(who, kind)),
    ]
}

proptest! {
    /// The rings are lists in the order in which members came, each with a list of its own in the
    /// model.
    #[test]
    fn they_are_lists(steps in prop::collection::vec(step(), 1..200)) {
        let mut rings = Rings::new(vec![Member::ABSENT; MEMBERS as usize]);
        let mut model: [Vec<u32>; RINGS] = Default::default();
        for step in steps {
            match step {
                Step::Stand(who, kind, priority) => {
                    let kind = Kind::ALL[kind];
                    let ring = usize::from(kind.ring(priority));
                    let new = who < MEMBERS && !model[ring].contains(&who);
                    prop_assert_eq!(rings.stand(who, kind, priority), new);
                    if new {
                        take_out(&mut model, who, kind);
                        model[ring].push(who);
                    }
                }
                Step::TakeOut(who, kind) => {
                    rings.take_out(who, Kind::ALL[kind]);
                    take_out(&mut model, who, Kind::ALL[kind]);
                }
                Step::Turn(who, kind) => {
                    let kind = Kind::ALL[kind];
                    let list = all(kind)
                        .find(|&ring| model[ring].contains(&who))
                        .filter(|&ring| model[ring].last() != Some(&who));
                    prop_assert_eq!(rings.turn(who, kind), list.is_some());
                    if let Some(ring) = list {
                        model[ring].retain(|&other| other != who);
                        model[ring].push(who);
                    }
                }
            }
            for kind in Kind::ALL {
                let first = all(kind).find_map(|ring| model[ring].first().copied());
                prop_assert_eq!(rings.head(kind), first);
                prop_assert_eq!(rings.have(kind), first.is_some());
            }
            for who in 0..MEMBERS {
                let known = model.iter().any(|list| list.contains(&who));
                prop_assert_eq!(rings.knows(who), known);
            }
            prop_assert_eq!(rings.are_empty(), model.iter().all(Vec::is_empty));
        }
    }
}

/// The rings of a kind.
fn all(kind: Kind) -> std::ops::RangeInclusive<usize> {
    match kind {
        Kind::Token => usize::from(kind.ring(0))..=usize::from(kind.ring(7)),
        kind => usize::from(kind.ring(0))..=usize::from(kind.ring(0)),
    }
}

fn take_out(model: &mut [Vec<u32>; RINGS], who: u32, kind: Kind) {
    for ring in all(kind) {
        model[ring].retain(|&other| other != who);
    }
}
