// SPDX-License-Identifier: GPL-2.0
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;

use super::*;

const COOKIE: Cookie = Cookie(0x0123_4567_89ab_cdef);

/// A payload of `payload` bytes follows.
fn bytes(packet: &Packet, payload: usize) -> Vec<u8> {
    let mut buffer = [0xee; MAX_HEADER];
    let len = packet.write(&mut buffer);
    assert!(buffer[len..].iter().all(|&byte| byte == 0xee));
    let mut bytes = buffer[..len].to_vec();
    bytes.resize(len + payload, 0x55);
    bytes
}

fn payload(packet: &Packet) -> usize {
    match packet {
        Packet::Data(data) => data.len as usize,
        Packet::First(first) => first.data.len as usize,
        _ => 0,
    }
}

fn parse_all(bytes: &[u8]) -> Result<Packet, Malformed> {
    parse(bytes, bytes.len())
}

fn spans(of: &[(u32, u32)]) -> Spans {
    let mut spans = Spans::EMPTY;
    for &(start, end) in of {
        assert!(spans.push(start, end));
    }
    spans
}

fn a_sync() -> Sync {
    Sync {
        cookie: COOKIE,
        source: 40_000,
        destination: 7,
        length: Some(1_000_000),
        deadline: 250,
        coflow: 9,
        unscheduled: 2900,
        mss: 1450,
        patience: 100,
        echo: 0x0102_0304_0506_0708,
        priority: Some(3),
        probe: false,
        acked: false,
        ren: false,
        paced: false,
    }
}

fn a_data() -> Data {
    Data {
        cookie: COOKIE,
        token: 0xfffe,
        timestamp: 0xdead_beef,
        offset: 1450,
        len: 1450,
        flags: 0,
        more: 0,
    }
}

/// A SYNC with its data.
fn a_first() -> First {
    First {
        sync: Sync {
            length: Some(100),
            unscheduled: 100,
            ..a_sync()
        },
        data: Data {
            token: 0,
            timestamp: 0,
            offset: 0,
            len: 100,
            flags: header::FLAG_UNASKED | header::FLAG_SHORT,
            more: 1,
            ..a_data()
        },
        prompt: false,
        delivered: Delivered::NONE,
    }
}

/// So many messages that are complete.
fn delivered(len: usize) -> Delivered {
    let mut list = Delivered::NONE;
    for n in 0..len {
        assert!(list.push(Cookie(COOKIE.0 + n as u64)));
    }
    if len != 0 {
        list.allowance = 0x1234;
    }
    assert_eq!((list.len(), list.is_empty()), (len, len == 0));
    list
}

/// So many messages.
fn a_list(len: usize) -> Cookies {
    let mut list = Cookies::new(COOKIE);
    for n in 1..len {
        assert!(list.push(Cookie(n as u64)));
    }
    assert_eq!(list.len(), len);
    list
}

/// One of each type.
fn samples() -> [Packet; 8] {
    [
        Packet::Sync(a_sync()),
        Packet::Token(Token {
            cookie: COOKIE,
            sequence: 0xfffe,
            timestamp: 0xdead_beef,
            priority: 5,
            grant: None,
            worth: 1,
        }),
        Packet::Data(a_data()),
        Packet::Resend(Resend {
            cookie: COOKIE,
            spans: spans(&[(0, 1450), (2900, 5800)]),
        }),
        Packet::Fin(Fin {
            cookie: COOKIE,
            length: 1_000_000,
        }),
        Packet::Ack(Ack {
            cookie: COOKIE,
            received: 2900,
            window: 65_536,
            allowance: 1000,
            last: true,
            mark: rate::Mark::None,
            notify: false,
        }),
        Packet::Reset(Reset {
            cookie: COOKIE,
            code: ResetCode::NoSocket,
        }),
        Packet::Challenge(Challenge {
            cookie: COOKIE,
            echo: 0x1122_3344_5566_7788,
            ticket: false,
        }),
    ]
}

#[test]
fn lengths_are_the_documented_ones() {
    let lengths = samples().map(|packet| bytes(&packet, 0).len());
    assert_eq!(lengths, [44, 18, 22, 32, 16, 22, 16, 20]);
    assert_eq!(MAX_HEADER, 144);
    assert_eq!(MAX_LENGTH, 1_073_741_823);
    // An IPv4 token is a minimum Ethernet frame: 14 + 20 + 8 + 18 + 4 = 64, and 84 with preamble
    // and gap.
    assert_eq!(14 + 20 + 8 + TOKEN_LEN + 4 + 20, 84);
    assert_eq!(mss(1500, false), Some(1450));
    assert_eq!(mss(1500, true), Some(1430));
    assert_eq!(mss(305, false), None);
    assert_eq!(mss(306, false), Some(256));
    assert_eq!(mss(65_535, false), Some(MAX_MSS));
    assert_eq!(mss(u32::MAX, true), Some(MAX_MSS));
    assert_eq!(mss(0, true), None);
}

#[test]
fn fields_are_where_they_are_documented() {
    let hex = |packet: &Packet| -> std::string::String {
        use std::fmt::Write as _;
        bytes(packet, 0)
            .iter()
            .fold(Default::default(), |mut all, byte| {
                let _ = write!(all, "{byte:02x}");
                all
            })
    };
    let expected = [
        "110304000123456789abcdef9c400007000f4240000000fa0000000900000b5405aa00640102030405060708",
        "120500000123456789abcdeffffedeadbeef",
        "130000000123456789abcdeffffedeadbeef000005aa",
        "140000000123456789abcdef0002000000000000000005aa00000b54000016a8",
        "150000000123456789abcdef000f4240",
        "160040000123456789abcdef00000b540001000003e8",
        "170000000123456789abcdef00010000",
        "180000000123456789abcdef1122334455667788",
    ];
    for (packet, expected) in samples().iter().zip(expected) {
        assert_eq!(hex(packet), expected, "{packet:?}");
    }
}

#[test]
fn every_flag_and_mark_has_its_bit() {
    let flags = |packet| bytes(&packet, 0)[2];
    let sync = Sync {
        priority: None,
        ..a_sync()
    };
    assert_eq!(flags(Packet::Sync(sync)), 0);
    let unknown = Sync {
        length: None,
        unscheduled: 0,
        ..sync
    };
    assert_eq!(flags(Packet::Sync(unknown)), 0b10);
    assert_eq!(flags(Packet::Sync(a_sync())), 0b100);
    assert_eq!(
        flags(Packet::Sync(Sync {
            probe: true,
            ..sync
        })),
        0b1000
    );
    assert_eq!(
        flags(Packet::Sync(Sync {
            acked: true,
            ..sync
        })),
        0b0100_0000
    );
    assert_eq!(flags(Packet::Sync(Sync { ren: true, ..sync })), 0b1000_0000);
    assert_eq!(
        flags(Packet::Sync(Sync {
            paced: true,
            ..sync
        })),
        0b0001_0000
    );
    for (mark, bits) in [(Mark::Under, 0), (Mark::Full, 1), (Mark::Over, 2)] {
        let token = Packet::Token(Token {
            cookie: COOKIE,
            sequence: 0,
            timestamp: 0,
            priority: 0,
            grant: Some(mark),
            worth: 1,
        });
        assert_eq!(flags(token), 0b1000 | (bits << 4));
        assert_eq!(parse_all(&bytes(&token, 0)), Ok(token));
    }
}

#[test]
fn what_is_written_is_read_and_no_cut_of_it_is() {
    for packet in samples() {
        let bytes = bytes(&packet, payload(&packet));
        assert_eq!(parse_all(&bytes), Ok(packet));
        // Only the headers are at hand.
        let head = &bytes[..bytes.len().min(MAX_HEADER)];
        assert_eq!(parse(head, bytes.len()), Ok(packet));
        // A cut of the datagram.
        let shortest = match packet {
            Packet::Data(_) => DATA_LEN + 1,
            _ => bytes.len(),
        };
        for len in 0..shortest {
            assert_eq!(parse(&bytes, len), Err(Malformed::Size), "{packet:?} {len}");
            assert_eq!(parse(&bytes[..len], len), Err(Malformed::Size));
        }
        // A cut of what is at hand.
        for len in 0..bytes.len() - payload(&packet) {
            let cut = parse(&bytes[..len], bytes.len());
            assert_eq!(cut, Err(Malformed::Size), "{packet:?} {len}");
        }
        // Nothing may follow, but payload.
        let mut longer = bytes.clone();
        longer.push(0);
        match (packet, parse_all(&longer)) {
            (Packet::Data(data), Ok(Packet::Data(more))) => assert_eq!(more.len, data.len + 1),
            (_, longer) => assert_eq!(longer, Err(Malformed::Size)),
        }
    }
}

#[test]
fn a_sync_with_its_data_is_one_packet() {
    let packet = Packet::First(a_first());
    let head = packet.header_len();
    assert_eq!(head, 56);
    let bytes = bytes(&packet, 100);
    assert_eq!(
        (bytes.len(), packet.bytes()),
        (head + 100, head as u32 + 100)
    );
    assert_eq!(parse_all(&bytes), Ok(packet));
    // Ports take it for what it is to them.
    let header = header::parse(&bytes).unwrap();
    assert!(header.is_unasked() && header.is_short() && !header.is_unscheduled());
    // The SYNC, but for what it shares with the DATA.
    let sync = self::bytes(&Packet::Sync(a_first().sync), 0);
    assert_eq!((&bytes[22..24], &bytes[24..56]), (&sync[1..3], &sync[12..]));
    for len in 0..bytes.len() {
        // With less payload the length is wrong.
        let why = if len > head {
            Malformed::Length
        } else {
            Malformed::Size
        };
        assert_eq!(parse(&bytes, len), Err(why), "{len}");
    }
    for len in 0..head {
        assert_eq!(
            parse(&bytes[..len], bytes.len()),
            Err(Malformed::Size),
            "{len}"
        );
    }
    for (at, to, why) in [
        (1, 0, Malformed::Priority),
        (1, 2, Malformed::Priority),
        // Without UNASKED, with UNSCHEDULED, with REN, sealed.
        (2, 0x04, Malformed::Flags),
        (2, 0x07, Malformed::Flags),
        (2, 0x86, Malformed::Flags),
        (2, 0x26, Malformed::Flags),
        (13, 1, Malformed::Token),
        (17, 1, Malformed::Token),
        (21, 1, Malformed::Offset),
        (22, 8, Malformed::Priority),
        // Of unknown length, paced, acknowledged in part, REN, sealed.
        (23, 0x06, Malformed::Flags),
        (23, 0x14, Malformed::Flags),
        (23, 0x24, Malformed::Flags),
        (23, 0x44, Malformed::Flags),
        (23, 0x84, Malformed::Flags),
        (23, 0x00, Malformed::Priority),
        (31, 101, Malformed::Length),
        (43, 99, Malformed::Unscheduled),
    ] {
        let mut wrong = bytes.clone();
        wrong[at] = to;
        assert_eq!(parse_all(&wrong), Err(why), "{at} {to}");
    }
    for at in [24, 26] {
        let mut wrong = bytes.clone();
        wrong[at..at + 2].fill(0);
        assert_eq!(parse_all(&wrong), Err(Malformed::Port));
    }
}

/// With it may come that others are complete, and that its sender waits.
#[test]
fn acks_ride_on_a_sync_with_its_data() {
    for (count, prompt) in [(1, false), (2, true), (MAX_DELIVERED, false)] {
        let packet = Packet::First(First {
            prompt,
            delivered: delivered(count),
            ..a_first()
        });
        let head = packet.header_len();
        assert_eq!(head, FIRST_LEN + 4 + 8 * count);
        assert!(head <= FIRST_MOST);
        let bytes = bytes(&packet, 100);
        assert_eq!(bytes.len(), packet.bytes() as usize);
        assert_eq!(parse_all(&bytes), Ok(packet));
        // Byte for byte.
        assert_eq!(bytes[2], 0x1e);
        assert_eq!(bytes[23] & header::FLAG_PROBE != 0, prompt);
        assert_eq!(bytes[56..60], [0x12, 0x34, count as u8, 0]);
        assert_eq!(bytes[60..68], COOKIE.0.to_be_bytes());
        for len in 0..bytes.len() {
            let why = match len > head {
                true => Malformed::Length,
                false => Malformed::Size,
            };
            assert_eq!(parse(&bytes, len), Err(why), "{len}");
        }
        for (at, to, why) in [
            (58, 0, Malformed::Count),
            (58, MAX_DELIVERED as u8 + 1, Malformed::Count),
            (59, 1, Malformed::Reserved),
            // Without what says that they are there they are payload.
            (2, 0x0e, Malformed::Length),
        ] {
            let mut wrong = bytes.clone();
            wrong[at] = to;
            assert_eq!(parse_all(&wrong), Err(why), "{at} {to}");
        }
    }
}

#[test]
fn up_to_four_are_acknowledged_in_one_packet() {
    for count in 1..=MAX_DELIVERED {
        let packet = Packet::Delivered(delivered(count));
        let bytes = bytes(&packet, 0);
        assert_eq!(bytes.len(), 4 + 8 * count + 2);
        assert_eq!(bytes.len(), packet.bytes() as usize);
        assert_eq!(parse_all(&bytes), Ok(packet));
        assert_eq!(source_port(&bytes), COOKIE.source_port());
        for cut in 0..bytes.len() {
            let whole = cut % 8 == 6 && cut > 6;
            assert_eq!(parse(&bytes, cut).is_ok(), whole, "{cut}");
            assert_eq!(parse(&bytes[..cut], bytes.len()), Err(Malformed::Size));
        }
        for (at, to, why) in [
            (1, 1, Malformed::Priority),
            // Not final, marked, sealed.
            (2, 0x18, Malformed::Flags),
            (2, 0x59, Malformed::Flags),
            (2, 0x78, Malformed::Flags),
        ] {
            let mut wrong = bytes.clone();
            wrong[at] = to;
            assert_eq!(parse_all(&wrong), Err(why), "{at} {to}");
        }
    }
    let mut full = delivered(MAX_DELIVERED);
    assert!(!full.push(COOKIE));
    let mut longer = bytes(&Packet::Delivered(full), 0);
    longer.extend([0; 8]);
    assert_eq!(parse_all(&longer), Err(Malformed::Size));
    assert_eq!(std::format!("{full:?}"), "Delivered(4, 4660)");
}

#[test]
fn a_list_is_of_one_to_sixteen_messages() {
    for len in 1..=MAX_COOKIES {
        let packet = Packet::Confirm(a_list(len));
        let bytes = bytes(&packet, 0);
        assert_eq!(bytes.len(), 4 + 8 * len);
        assert_eq!(parse_all(&bytes), Ok(packet));
        for cut in 0..bytes.len() {
            let whole = cut % 8 == 4 && cut > 4;
            assert_eq!(parse(&bytes, cut).is_ok(), whole, "{cut}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut], bytes.len()), Err(Malformed::Size));
        }
        for (at, to, why) in [
            (1, 1, Malformed::Priority),
            (2, 0x08, Malformed::Flags),
            (2, 0x49, Malformed::Flags),
            (2, 0x68, Malformed::Flags),
        ] {
            let mut wrong = bytes.clone();
            wrong[at] = to;
            assert_eq!(parse_all(&wrong), Err(why), "{at} {to}");
        }
    }
    let mut list = a_list(MAX_COOKIES);
    assert!(!list.push(COOKIE));
    let mut longer = bytes(&Packet::Confirm(list), 0);
    longer.extend([0; 8]);
    assert_eq!(parse_all(&longer), Err(Malformed::Size));
    assert_eq!(std::format!("{list:?}"), "Cookies(16)");
}

/// What is neither is never sealed, whoever has the key.
#[test]
fn neither_is_sealed() {
    use crate::transport::seal::SEAL_LEN;
    for packet in [
        Packet::First(a_first()),
        Packet::Confirm(a_list(2)),
        Packet::Delivered(delivered(2)),
    ] {
        let mut bytes = bytes(&packet, payload(&packet) + SEAL_LEN);
        bytes[header::FLAGS] |= header::FLAG_SEALED;
        assert!(is_sealed(&bytes, bytes.len()));
        let read = parse_sealed(&bytes, bytes.len());
        assert_eq!(read, Err(Malformed::Flags), "{packet:?}");
    }
}

/// Sets the bytes at `at` of a sample's to `to`, and expects `why`.
#[track_caller]
fn wrong(sample: usize, at: usize, to: &[u8], why: Malformed) {
    let packet = samples()[sample];
    let mut bytes = bytes(&packet, payload(&packet));
    bytes[at..at + to.len()].copy_from_slice(to);
    assert_eq!(parse_all(&bytes), Err(why), "{packet:?}");
}

const SYNC: usize = 0;
const TOKEN: usize = 1;
const DATA: usize = 2;
const RESEND: usize = 3;
const FIN: usize = 4;
const ACK: usize = 5;
const RESET: usize = 6;
const CHALLENGE: usize = 7;
/// One more than the longest message.
const OVER: [u8; 4] = [0x40, 0, 0, 0];

#[test]
fn wrong_headers_are_refused() {
    for (sample, kind) in (SYNC..=CHALLENGE).zip(1_u8..) {
        wrong(sample, 0, &[kind], Malformed::Version);
        wrong(sample, 0, &[0x20 | kind], Malformed::Version);
        wrong(sample, 0, &[0x10], Malformed::Type);
        wrong(sample, 0, &[0x19], Malformed::Type);
        // A token has there for how many packets it is beyond one.
        let reserved = if sample == TOKEN { 64 } else { 1 };
        wrong(sample, 3, &[reserved], Malformed::Reserved);
        // Priorities up to 7 are on tokens, and on a SYNC that says so; DATA has a number there.
        if sample != DATA {
            wrong(sample, 1, &[8], Malformed::Priority);
        }
    }
    for sample in [RESEND, FIN, ACK, RESET, CHALLENGE] {
        wrong(sample, 1, &[1], Malformed::Priority);
    }
    wrong(SYNC, 1, &[1, 0], Malformed::Priority);
}

#[test]
fn unknown_flags_are_refused() {
    let known = [
        0b1101_1110,
        0b0011_1000,
        0b1000_1011,
        0,
        0,
        0b0100_0101,
        0,
        0b0001_0000,
    ];
    for (sample, known) in known.into_iter().enumerate() {
        for bit in (0..8).map(|bit| 1 << bit) {
            if known & bit == 0 {
                wrong(sample, 2, &[bit], Malformed::Flags);
            }
        }
    }
    // A mark without a grant, and a mark that there is not.
    wrong(TOKEN, 2, &[0x10], Malformed::Flags);
    wrong(TOKEN, 2, &[0x20], Malformed::Flags);
    wrong(TOKEN, 2, &[0x38], Malformed::Flags);
    // Two that clock a message; no mark that there is; a notification of none.
    wrong(SYNC, 2, &[0x90], Malformed::Flags);
    for bits in [2, 4, 6] {
        wrong(ACK, 2, &[bits], Malformed::Flags);
    }
}

#[test]
fn marks_are_the_fields_bits() {
    use rate::Mark::{Congested, None, Undetermined};
    for (ecn, mark) in [(0, None), (2, None), (1, Undetermined), (3, Congested)] {
        assert_eq!(rate::Mark::from_ecn(ecn), mark);
        // Nothing but the two bits counts.
        assert_eq!(rate::Mark::from_ecn(ecn | 0xfc), mark);
        assert_eq!(mark.ecn(), if mark == None { 0 } else { ecn });
        for notify in [false, true] {
            let ack = Ack {
                cookie: COOKIE,
                received: 1,
                window: 2,
                allowance: 3,
                last: false,
                mark,
                notify: notify && mark != None,
            };
            let mut bytes = [0; MAX_HEADER];
            let len = Packet::Ack(ack).write(&mut bytes);
            assert_eq!(parse(&bytes, len), Ok(Packet::Ack(ack)));
        }
    }
}

#[test]
fn wrong_fields_of_sync_are_refused() {
    wrong(SYNC, 12, &[0, 0], Malformed::Port);
    wrong(SYNC, 14, &[0, 0], Malformed::Port);
    wrong(SYNC, 16, &[0; 4], Malformed::Length);
    wrong(SYNC, 16, &OVER, Malformed::Length);
    // It says that it does not know.
    wrong(SYNC, 2, &[0b110], Malformed::Length);
    // One byte more than there are, and some although nobody knows how many there are.
    wrong(
        SYNC,
        28,
        &1_000_001_u32.to_be_bytes(),
        Malformed::Unscheduled,
    );
    let mut unknown = bytes(&Packet::Sync(a_sync()), 0);
    unknown[2] = 0b110;
    unknown[16..20].fill(0);
    assert_eq!(parse_all(&unknown), Err(Malformed::Unscheduled));
    unknown[28..32].fill(0);
    assert!(parse_all(&unknown).is_ok());
    wrong(SYNC, 32, &255_u16.to_be_bytes(), Malformed::Mss);
    wrong(SYNC, 32, &(MAX_MSS + 1).to_be_bytes(), Malformed::Mss);
    wrong(SYNC, 34, &[0, 0], Malformed::Patience);
    wrong(
        SYNC,
        34,
        &(MAX_PATIENCE + 1).to_be_bytes(),
        Malformed::Patience,
    );
}

#[test]
fn wrong_fields_of_the_others_are_refused() {
    // The token and the timestamp are both not 0 here.
    wrong(DATA, 2, &[1], Malformed::Token);
    for flags in [header::FLAG_UNSCHEDULED, header::FLAG_UNASKED] {
        let without = |token, timestamp| {
            let data = Data {
                token,
                timestamp,
                flags,
                ..a_data()
            };
            parse_all(&bytes(&Packet::Data(data), 1450)).map(|_| ())
        };
        assert_eq!(without(0, 0), Ok(()));
        assert_eq!(without(1, 0), Err(Malformed::Token));
        assert_eq!(without(0, 1), Err(Malformed::Token));
    }

    let last = MAX_LENGTH - 1450;
    wrong(DATA, 18, &(last + 1).to_be_bytes(), Malformed::Offset);
    wrong(DATA, 18, &u32::MAX.to_be_bytes(), Malformed::Offset);
    let data = Packet::Data(Data {
        offset: last,
        ..a_data()
    });
    assert_eq!(parse_all(&bytes(&data, 1450)), Ok(data));
    // More than a datagram can have: the length does not wrap.
    let head = bytes(&data, 0);
    for len in [65_536 + DATA_LEN, 65_537 + DATA_LEN, usize::MAX] {
        assert_eq!(parse(&head, len), Err(Malformed::Size));
    }

    wrong(RESEND, 12, &[0, 0], Malformed::Count);
    wrong(RESEND, 12, &[0, 17], Malformed::Count);
    wrong(RESEND, 12, &[0xff, 0xff], Malformed::Count);
    wrong(RESEND, 12, &[0, 1], Malformed::Size);
    wrong(RESEND, 12, &[0, 3], Malformed::Size);
    wrong(RESEND, 14, &[0, 1], Malformed::Reserved);
    wrong(RESEND, 20, &[0; 4], Malformed::Span);
    wrong(RESEND, 24, &1449_u32.to_be_bytes(), Malformed::Span);
    wrong(RESEND, 28, &2900_u32.to_be_bytes(), Malformed::Span);
    wrong(RESEND, 28, &OVER, Malformed::Span);

    wrong(FIN, 12, &[0; 4], Malformed::Length);
    wrong(FIN, 12, &OVER, Malformed::Length);
    wrong(ACK, 12, &OVER, Malformed::Received);
    wrong(ACK, 16, &OVER, Malformed::Window);
    wrong(RESET, 12, &[0, 0], Malformed::Code);
    wrong(RESET, 12, &[0, 7], Malformed::Code);
    wrong(CHALLENGE, 12, &[0; 8], Malformed::Echo);
    wrong(RESET, 12, &[1, 1], Malformed::Code);
    wrong(RESET, 14, &[0, 1], Malformed::Reserved);
}

#[test]
fn spans_are_ascending_and_disjoint() {
    let mut spans = Spans::EMPTY;
    assert!(spans.is_empty());
    assert!(!spans.push(5, 5) && !spans.push(5, 4) && !spans.push(0, MAX_LENGTH + 1));
    assert!(spans.push(10, 20));
    assert!(!spans.push(19, 30) && !spans.push(0, 5));
    for n in 1..16 {
        assert!(!spans.is_full());
        assert!(spans.push(10 + 10 * n, 20 + 10 * n));
    }
    assert!(spans.is_full() && spans.len() == 16);
    assert!(!spans.push(1000, 2000));
    assert_eq!(spans.iter().map(Span::len).sum::<u32>(), 160);
    let packet = Packet::Resend(Resend {
        cookie: COOKIE,
        spans,
    });
    let bytes = bytes(&packet, 0);
    assert_eq!(bytes.len(), MAX_HEADER);
    assert_eq!(parse_all(&bytes), Ok(packet));
}

#[test]
fn every_cause_and_code_has_a_name_of_its_own() {
    for (n, cause) in Malformed::ALL.into_iter().enumerate() {
        assert_eq!(cause as usize, n);
        let named = Malformed::ALL
            .iter()
            .filter(|other| other.cause() == cause.cause());
        assert_eq!(named.count(), 1, "{cause}");
    }
    for (n, code) in (1..).zip(ResetCode::ALL) {
        assert_eq!(code as u16, n);
        assert_eq!(ResetCode::from_wire(n), Some(code));
    }
}

#[test]
fn a_cookie_is_not_shown() {
    assert!(!std::format!("{:?} {COOKIE:x?}", samples()).contains("cdef"));
}

fn any_delivered(least: usize) -> impl Strategy<Value = Delivered> {
    let cookies = prop::collection::vec(any::<u64>(), least..=MAX_DELIVERED);
    (cookies, any::<u16>()).prop_map(|(cookies, allowance)| {
        let mut list = Delivered::NONE;
        for &cookie in &cookies {
            assert!(list.push(Cookie(cookie)));
            list.allowance = allowance;
        }
        list
    })
}

fn any_spans() -> impl Strategy<Value = Spans> {
    prop::collection::vec((0_u32..1 << 25, 1_u32..1 << 25), 1..=MAX_SPANS).prop_map(|parts| {
        let mut spans = Spans::EMPTY;
        let mut at = 0;
        for (gap, len) in parts {
            assert!(spans.push(at + gap, at + gap + len));
            at += gap + len;
        }
        spans
    })
}

/// Any packet that may be sent.
fn any_packet() -> impl Strategy<Value = Packet> {
    let length = || prop_oneof![1..=MAX_LENGTH, 1..=3000_u32, Just(MAX_LENGTH)];
    let below = || prop_oneof![0..=MAX_LENGTH, Just(0), Just(MAX_LENGTH)];
    let sync = (
        (any::<u64>(), 1..=u16::MAX, 1..=u16::MAX),
        (
            prop::option::of(length()),
            any::<u32>(),
            any::<u32>(),
            any::<u32>(),
        ),
        (
            (MIN_MSS..=MAX_MSS, 1..=MAX_PATIENCE, any::<u64>()),
            prop::option::of(0..=MAX_PRIORITY),
            any::<[bool; 3]>(),
        ),
    );
    let sync = sync.prop_map(
        |(
            (cookie, source, destination),
            (length, deadline, coflow, some),
            ((mss, patience, echo), priority, [probe, acked, ren]),
        )| {
            Packet::Sync(Sync {
                cookie: Cookie(cookie),
                source,
                destination,
                length,
                deadline,
                coflow,
                unscheduled: length.map_or(0, |length| some % (length + 1)),
                mss,
                patience,
                echo,
                priority,
                probe,
                acked,
                ren,
                paced: false,
            })
        },
    );
    let mark =
        prop::sample::select(&[None, Some(Mark::Under), Some(Mark::Full), Some(Mark::Over)][..]);
    let token = (
        any::<u64>(),
        any::<u16>(),
        any::<u32>(),
        0..=MAX_PRIORITY,
        mark,
        1..=header::MAX_WORTH,
    );
    let token = token.prop_map(|(cookie, sequence, timestamp, priority, grant, worth)| {
        Packet::Token(Token {
            cookie: Cookie(cookie),
            sequence,
            timestamp,
            priority,
            grant,
            // A grant is for one.
            worth: if grant.is_some() { 1 } else { worth },
        })
    });
    let data = (
        any::<u64>(),
        any::<u16>(),
        any::<u32>(),
        below(),
        1..=9000_u32,
        any::<[bool; 2]>(),
        any::<u8>(),
    );
    let data = data.prop_map(
        |(cookie, token, timestamp, offset, len, [unscheduled, ren], more)| {
            Packet::Data(Data {
                cookie: Cookie(cookie),
                token: if unscheduled { 0 } else { token },
                timestamp: if unscheduled { 0 } else { timestamp },
                offset: offset.min(MAX_LENGTH - len),
                len,
                flags: u8::from(unscheduled) | (u8::from(ren) << 7),
                more,
            })
        },
    );
    let first = (
        sync.clone(),
        1..=9000_u32,
        any::<[bool; 2]>(),
        any_delivered(0),
    );
    let first = first.prop_map(|(packet, len, [short, prompt], delivered)| {
        let Packet::Sync(sync) = packet else {
            unreachable!()
        };
        let short = if short { header::FLAG_SHORT } else { 0 };
        Packet::First(First {
            sync: Sync {
                length: Some(len),
                unscheduled: len,
                probe: false,
                acked: false,
                ren: false,
                ..sync
            },
            data: Data {
                cookie: sync.cookie,
                token: 0,
                timestamp: 0,
                offset: 0,
                len,
                flags: header::FLAG_UNASKED | short,
                more: 1,
            },
            prompt,
            delivered,
        })
    });
    let list = (
        any::<u64>(),
        prop::collection::vec(any::<u64>(), 0..MAX_COOKIES),
    );
    let list = list.prop_map(|(first, others)| {
        let mut list = Cookies::new(Cookie(first));
        assert!(others.iter().all(|&other| list.push(Cookie(other))));
        Packet::Confirm(list)
    });
    prop_oneof![
        sync,
        first,
        list,
        any_delivered(1).prop_map(Packet::Delivered),
        token,
        data,
        (any::<u64>(), any_spans()).prop_map(|(cookie, spans)| Packet::Resend(Resend {
            cookie: Cookie(cookie),
            spans
        })),
        (any::<u64>(), length()).prop_map(|(cookie, length)| Packet::Fin(Fin {
            cookie: Cookie(cookie),
            length
        })),
        (any::<u64>(), below(), below(), any::<bool>()).prop_map(
            |(cookie, received, window, last)| {
                Packet::Ack(Ack {
                    cookie: Cookie(cookie),
                    received,
                    window,
                    allowance: 0,
                    last,
                    mark: rate::Mark::None,
                    notify: false,
                })
            }
        ),
        (any::<u64>(), prop::sample::select(&ResetCode::ALL[..])).prop_map(|(cookie, code)| {
            Packet::Reset(Reset {
                cookie: Cookie(cookie),
                code,
            })
        }),
        (any::<u64>(), 1..=u64::MAX, any::<bool>()).prop_map(|(cookie, echo, ticket)| {
            Packet::Challenge(Challenge {
                cookie: Cookie(cookie),
                echo,
                ticket,
            })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_packet_is_read_as_it_was_written(packet in any_packet()) {
        let bytes = bytes(&packet, payload(&packet));
        prop_assert_eq!(parse_all(&bytes), Ok(packet));
        prop_assert_eq!(packet.header(), header::parse(&bytes).unwrap());
        prop_assert_eq!(packet.cookie().0.to_be_bytes(), &bytes[4..12]);
    }

    #[test]
    fn what_is_accepted_is_written_as_it_was_read(
        packet in any_packet(),
        at in 0_usize..48,
        to in any::<u8>(),
    ) {
        let mut all = bytes(&packet, payload(&packet));
        let len = all.len();
        all[at % len] = to;
        if let Ok(read) = parse_all(&all) {
            prop_assert_eq!(bytes(&read, 0), &all[..len - payload(&read)]);
        }
    }
}

#[test]
fn source_ports_are_evenly_used_and_those_of_the_header_that_was_written() {
    let mut seed = 7_u64;
    let mut used = [0_u32; 64];
    for _ in 0..64_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let cookie = Cookie(seed ^ (seed >> 29));
        let port = cookie.source_port();
        assert!(port >= FIRST_SOURCE_PORT);
        used[usize::from(port - FIRST_SOURCE_PORT) / 256] += 1;
        let mut header = [0; MAX_HEADER];
        let ack = Packet::Ack(Ack {
            cookie,
            received: 1,
            window: 1,
            allowance: 0,
            last: true,
            mark: rate::Mark::None,
            notify: false,
        });
        let len = ack.write(&mut header);
        assert_eq!(source_port(&header[..len]), port);
    }
    assert!(
        used.iter().all(|count| (850..1150).contains(count)),
        "{used:?}"
    );
    assert_eq!(source_port(&[0; 11]), header::PORT);
}
