// SPDX-License-Identifier: GPL-2.0
use super::*;

const ALL: [Type; 8] = [
    Type::Sync,
    Type::Token,
    Type::Data,
    Type::Resend,
    Type::Fin,
    Type::Ack,
    Type::Reset,
    Type::Challenge,
];

#[test]
fn the_port_spells_tu() {
    assert_eq!(PORT.to_be_bytes(), *b"tu");
}

#[test]
fn bytes_are_as_documented() {
    let token = Header {
        kind: Type::Token,
        priority: 5,
        flags: 0,
        beyond: 0,
    };
    assert_eq!(token.write(), [0x12, 5, 0, 0]);
    let data = Header {
        kind: Type::Data,
        priority: 0,
        flags: FLAG_UNSCHEDULED,
        beyond: 0,
    };
    assert_eq!(data.write(), [0x13, 0, 1, 0]);
    let numbers = ALL.map(|kind| kind as u8);
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn what_is_written_is_read() {
    for kind in ALL {
        for priority in [0, 7, 255] {
            for flags in [0, 1, 255] {
                let header = Header {
                    kind,
                    priority,
                    flags,
                    beyond: 0,
                };
                assert_eq!(parse(&header.write()), Some(header));
            }
        }
    }
}

#[test]
fn exactly_the_valid_first_bytes_are_accepted() {
    for first in 0..=255_u8 {
        let valid = (0x11..=0x18).contains(&first);
        assert_eq!(parse(&[first, 0, 0, 0]).is_some(), valid, "{first:#x}");
    }
}

#[test]
fn reserved_and_short_are_refused_and_more_is_ignored() {
    assert_eq!(parse(&[0x11, 0, 0, 1]), None);
    assert_eq!(parse(&[0x11, 0, 0]), None);
    assert_eq!(parse(&[]), None);
    assert!(parse(&[0x11, 0, 0, 0, 99]).is_some());
}

#[test]
fn a_token_says_how_many_it_stands_for() {
    for beyond in 0..=255_u8 {
        let token = parse(&[0x12, 5, 0, beyond]);
        assert_eq!(token.is_some(), beyond < 64, "{beyond}");
        if let Some(token) = token {
            assert_eq!(token.write(), [0x12, 5, 0, beyond]);
            assert_eq!(token.worth(), beyond + 1);
        }
        for kind in ALL.into_iter().filter(|kind| *kind != Type::Token) {
            let first = kind.first_byte();
            assert_eq!(
                parse(&[first, 0, 0, beyond]).is_some(),
                beyond == 0,
                "{first}"
            );
        }
    }
}

#[test]
fn only_data_is_unscheduled() {
    for kind in ALL {
        let header = Header {
            kind,
            priority: 0,
            flags: FLAG_UNSCHEDULED,
            beyond: 0,
        };
        assert_eq!(header.is_unscheduled(), kind == Type::Data);
        let header = Header {
            kind,
            priority: 0,
            flags: !FLAG_UNSCHEDULED,
            beyond: 0,
        };
        assert!(!header.is_unscheduled());
    }
}
