// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const SOURCE: [u8; 6] = [0x02, 0, 0, 0, 0, 0x2a];

fn read(frame: &[u8; LEN]) -> Result<Frame, Refused> {
    let destination = frame.first_chunk::<6>().unwrap();
    assert_eq!(frame[6..12], SOURCE);
    assert_eq!(frame[12..14], [0x88, 0x08]);
    Frame::parse(destination, &frame[14..])
}

/// Byte by byte as in IEEE 802.3, Annexes 31B and 31D.
#[test]
fn frames_are_as_in_the_standard() {
    let mut expected = [0; LEN];
    expected[..18].copy_from_slice(&[
        0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 0x2a, 0x88, 0x08, 0, 1, 0x12, 0x34,
    ]);
    let pause = Frame::Pause { quanta: 0x1234 };
    assert_eq!(pause.write(SOURCE), expected);
    assert_eq!(read(&expected), Ok(pause));

    let mut expected = [0; LEN];
    expected[..34].copy_from_slice(&[
        0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 0x2a, 0x88, 0x08, 1, 1, 0, 0x88, 0, 0, 0, 0, 0,
        0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ]);
    let pfc = Frame::Pfc {
        enabled: 0x88,
        quanta: [0, 0, 0, 0xffff, 0, 0, 0, 16],
    };
    assert_eq!(pfc.write(SOURCE), expected);
    assert_eq!(read(&expected), Ok(pfc));
    let says: Vec<_> = (0..10).map(|priority| pfc.says(priority)).collect();
    let none = None;
    let expected = [
        none,
        none,
        none,
        Some(0xffff),
        none,
        none,
        none,
        Some(16),
        none,
        none,
    ];
    assert_eq!(says, expected);
    let says: Vec<_> = (0..10)
        .filter_map(|priority| pause.says(priority))
        .collect();
    assert_eq!(says, [0x1234; 8]);
}

#[test]
fn each_refusal_has_its_cause() {
    let good = Frame::one(3, 7).write(SOURCE);
    let payload = &good[14..];
    for at in 0..6 {
        let mut other = DESTINATION;
        other[at] ^= 1;
        assert_eq!(Frame::parse(&other, payload), Err(Refused::Address));
    }
    for opcode in 0..=u16::MAX {
        let mut other = payload.to_vec();
        other[..2].copy_from_slice(&opcode.to_be_bytes());
        let is_known = opcode == PAUSE || opcode == PFC;
        let result = Frame::parse(&DESTINATION, &other);
        assert_eq!(result.is_ok(), is_known);
        assert!(is_known || result == Err(Refused::Opcode));
    }
    for high in 1..=255 {
        let mut other = payload.to_vec();
        other[2] = high;
        let result = Frame::parse(&DESTINATION, &other);
        assert_eq!(result, Err(Refused::Reserved));
    }
    for (opcode, needed) in [(PAUSE, 4), (PFC, 20)] {
        let mut other = payload.to_vec();
        other[..2].copy_from_slice(&opcode.to_be_bytes());
        for len in 0..other.len() {
            let result = Frame::parse(&DESTINATION, &other[..len]);
            let expected = if len < needed {
                Some(Refused::Short)
            } else {
                None
            };
            assert_eq!(result.err(), expected, "{opcode:#x} {len}");
        }
    }
}

#[test]
fn a_frame_may_speak_of_one_priority_or_of_none() {
    for priority in 0..8 {
        let frame = Frame::one(priority, 9);
        let says: Vec<_> = (0..8).filter(|&p| frame.says(p).is_some()).collect();
        assert_eq!(says, [priority]);
        assert_eq!(frame.says(priority), Some(9));
    }
    for priority in [8, 9, 16, 255] {
        let frame = Frame::one(priority, 9);
        assert!((0..=255).all(|p| frame.says(p).is_none()));
    }
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let pause = any::<u16>().prop_map(|quanta| Frame::Pause { quanta });
    let pfc = any::<(u8, [u16; 8])>().prop_map(|(enabled, quanta)| Frame::Pfc { enabled, quanta });
    prop_oneof![pause, pfc]
}

proptest! {
    /// Also with other padding, or with none.
    #[test]
    fn what_is_written_is_read(frame in any_frame(), padding: u8, cut in 0_usize..=26) {
        let mut bytes = frame.write(SOURCE);
        prop_assert_eq!(read(&bytes), Ok(frame));
        bytes[34..].fill(padding);
        prop_assert_eq!(Frame::parse(&DESTINATION, &bytes[14..LEN - cut]), Ok(frame));
    }

    /// Any bytes have an answer, and what is read says what is written of it.
    #[test]
    fn any_bytes_are_read_or_refused(
        payload: Vec<u8>,
        opcode in prop::sample::select(&[PAUSE, PFC][..]),
    ) {
        let _ = Frame::parse(&DESTINATION, &payload);
        let mut payload = payload;
        payload.splice(0..0, opcode.to_be_bytes());
        if let Ok(frame) = Frame::parse(&DESTINATION, &payload) {
            let written = frame.write(SOURCE);
            let len = if opcode == PAUSE { 4 } else { 20 };
            prop_assert_eq!(&written[14..14 + len], &payload[..len]);
        }
    }
}
