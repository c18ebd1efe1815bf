// SPDX-License-Identifier: GPL-2.0

use super::*;
use crate::transport::wire::Cookie;

const FIRST: Data = Data {
    cookie: Cookie(7),
    token: u16::MAX,
    timestamp: 5,
    offset: 3000,
    len: 1000,
    flags: 0,
    more: 9,
};

fn next(number: u16) -> Data {
    Data {
        token: FIRST.token.wrapping_add(number),
        offset: FIRST.offset + 1000 * u32::from(number),
        more: 9 - number as u8,
        ..FIRST
    }
}

#[test]
fn what_follows_is_one_run() {
    let mut run = Run::new(FIRST);
    for number in 1..4 {
        assert!(run.push(&next(number)));
    }
    assert!(run.push(&Data { len: 10, ..next(4) }));
    let all = Data {
        len: 4010,
        more: 5,
        ..FIRST
    };
    assert_eq!((run.data, run.packets, run.each), (all, 5, 1000));
    assert_eq!(run.last(), 10);
    // Nothing follows one that is shorter.
    let after = Data {
        offset: all.end(),
        ..next(5)
    };
    assert!(!run.push(&after));
    assert_eq!(run.packets, 5);
}

#[test]
fn what_differs_is_none() {
    let differs: [fn(&mut Data); 8] = [
        |it| it.cookie = Cookie(8),
        |it| it.token = 1,
        |it| it.timestamp = 6,
        |it| it.offset += 1,
        |it| it.offset -= 1,
        |it| it.len = 1001,
        |it| it.flags = crate::header::FLAG_SHORT,
        |it| (it.token, it.timestamp) = (0, 0),
    ];
    for (number, change) in differs.iter().enumerate() {
        let mut run = Run::new(FIRST);
        let mut data = next(1);
        change(&mut data);
        assert!(!run.push(&data), "{number}");
        assert_eq!(run, Run::new(FIRST));
    }
    // The token behind the last is number 0, and answers one nevertheless.
    assert_eq!(next(1).token, 0);
    assert!(Run::new(FIRST).push(&next(1)));
}

/// What no token asked for is in a row with its like, and with nothing else.
#[test]
fn unasked_data_has_no_tokens() {
    let unasked = |number| Data {
        token: 0,
        timestamp: 0,
        ..next(number)
    };
    let mut run = Run::new(unasked(0));
    assert!(run.push(&unasked(1)));
    assert!(run.push(&unasked(2)));
    assert!(!run.push(&next(3)));
    let first = Data {
        token: 0,
        timestamp: 5,
        ..FIRST
    };
    let second = Data {
        token: 1,
        ..next(1)
    };
    assert!(Run::new(first).push(&second));
    assert!(!Run::new(unasked(0)).push(&Data {
        timestamp: 0,
        ..second
    }));
}

/// A row is what a run is, and its headers are those of its packets, whatever they are.
#[test]
fn a_row_is_read_as_it_is_written() {
    for (packets, last, more) in [(1, 1000, 1), (2, 7, 0), (8, 1000, 250), (64, 1, 255)] {
        let run = Run {
            data: Data {
                len: 1000 * (packets - 1) + last,
                more,
                ..FIRST
            },
            packets: packets as u16,
            each: if packets == 1 { last } else { 1000 },
        };
        let mut row: Option<Row> = None;
        for number in 0..packets {
            let head = run.head(number as u16);
            let len = if number + 1 == packets { last } else { 1000 };
            let all = DATA_LEN + len as usize;
            let Ok(Packet::Data(data)) = parse(&head, all) else {
                panic!("{number}");
            };
            assert_eq!(data.offset, FIRST.offset + 1000 * number);
            assert_eq!(data.token, run.token(number as u16));
            let behind = u32::from(more) + packets - 1 - number;
            let told = if more == 0 || behind > 255 { 0 } else { behind };
            assert_eq!(u32::from(data.more), told);
            match &mut row {
                None => row = Row::new(&head, all),
                Some(row) => assert!(row.push(&head, all), "{number}"),
            }
        }
        assert_eq!(row.unwrap().run(), &run);
    }
}

/// A row has nothing in it that would not have been parsed, or that a run would not have taken.
#[test]
fn a_row_takes_what_a_run_would() {
    let mut random = 1_u64;
    let mut next_random = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) as usize
    };
    let mut taken = 0;
    for _ in 0..200_000 {
        let first = Data {
            offset: if next_random() % 4 == 0 {
                MAX_LENGTH - 1500
            } else {
                3000
            },
            ..FIRST
        };
        let mut data = next(1);
        data.offset = first.end();
        let mut head = [0; DATA_LEN];
        Packet::Data(data).write(&mut head);
        let at = next_random() % DATA_LEN;
        head[at] = match next_random() % 3 {
            0 => head[at],
            1 => head[at] ^ (1 << (next_random() % 8)),
            _ => next_random() as u8,
        };
        let len = DATA_LEN + [0, 1, 500, 501, 1000, 1001][next_random() % 6];
        let mut begin = [0; DATA_LEN];
        Packet::Data(first).write(&mut begin);
        let mut row = Row::new(&begin, DATA_LEN + 1000).unwrap();
        let mut run = Run::new(first);
        let by_run = match parse(&head, len) {
            Ok(Packet::Data(data)) => run.push(&data),
            _ => false,
        };
        assert_eq!(row.push(&head, len), by_run);
        assert_eq!(row.run(), &run);
        taken += u32::from(by_run);
    }
    assert!(taken > 1000, "{taken}");
}
