// SPDX-License-Identifier: GPL-2.0
use super::*;
use std::vec::Vec;

fn said(scope: Scope, frame: &Frame) -> Vec<(usize, u16)> {
    let all = scope.said_by(frame).enumerate();
    all.filter_map(|(at, said)| Some((at, said?))).collect()
}

#[test]
fn frames_name_what_is_paused_and_nothing_else() {
    assert_eq!(Scope::Link.frame(9), Frame::Pause { quanta: 9 });
    for priority in 0..8 {
        assert_eq!(Scope::one(priority).frame(7), Frame::one(priority, 7));
    }
    assert_eq!(Scope::one(8), Scope::Priorities(0));
    let two = Frame::Pfc {
        enabled: 0b1_1000,
        quanta: [0, 0, 0, 5, 5, 0, 0, 0],
    };
    assert_eq!(Scope::Priorities(0b1_1000).frame(5), two);
}

/// Pauses of priorities are none of a link that has none; those of the link are of all.
#[test]
fn who_has_priorities_hears_both_kinds() {
    let link = Frame::Pause { quanta: 3 };
    let some = Frame::Pfc {
        enabled: 0b0110,
        quanta: [1, 2, 0, 4, 5, 6, 7, 8],
    };
    assert_eq!(said(Scope::Link, &link), [(0, 3)]);
    assert_eq!(said(Scope::Link, &some), []);
    let scope = Scope::Priorities(0b1100);
    assert_eq!(said(scope, &link), [(2, 3), (3, 3)]);
    assert_eq!(said(scope, &some), [(2, 0)]);
    assert_eq!(said(Scope::Priorities(0), &link), []);
}
