// SPDX-License-Identifier: GPL-2.0
use super::*;
use std::string::ToString;
use std::vec::Vec;

fn config(priorities: u8, unscheduled: u32) -> Config {
    Config {
        priorities,
        unscheduled,
        ..Config::DEFAULT
    }
}

#[test]
fn class_numbers_are_as_documented() {
    assert_eq!(Band::Signal.minor(), 1);
    assert_eq!(Band::Data.minor(), 2);
    assert_eq!(Band::Unscheduled.minor(), 3);
    assert_eq!(Band::Token(0).minor(), 0x10);
    assert_eq!(Band::Token(7).minor(), 0x17);
    assert_eq!(Band::Token(8).minor(), 0x17);
    assert_eq!(Band::Token(200).minor(), 0x17);
}

#[test]
fn a_port_has_the_classes_that_it_is_configured_for() {
    let has = |config: &Config| -> Vec<u8> {
        (0..=255)
            .filter(|&minor| Band::from_minor(minor, config).is_some())
            .collect()
    };
    assert_eq!(
        has(&config(8, 1)),
        [1, 2, 3, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17]
    );
    assert_eq!(has(&config(1, 0)), [1, 2, 0x10]);
    assert_eq!(has(&config(3, 7)), [1, 2, 3, 0x10, 0x11, 0x12]);
}

#[test]
fn numbers_names_and_indices_lead_back() {
    let full = config(8, 1);
    let bands: Vec<Band> = Band::all(&full).collect();
    assert_eq!(bands.len(), Band::COUNT);
    for (index, band) in bands.iter().enumerate() {
        assert_eq!(band.index(), index);
        assert_eq!(Band::from_index(index), Some(*band));
        assert_eq!(Band::from_minor(band.minor(), &full), Some(*band));
        assert_eq!(Band::from_name(&band.to_string()), Some(*band));
    }
    assert_eq!(Band::from_index(Band::COUNT), None);
    assert_eq!(Band::Token(200).index(), Band::COUNT - 1);
}

#[test]
fn all_goes_by_class_number_and_leaves_out_what_is_not_there() {
    let minors = |config| Band::all(&config).map(Band::minor).collect::<Vec<_>>();
    assert_eq!(minors(config(2, 0)), [1, 2, 0x10, 0x11]);
    assert_eq!(minors(config(1, 1)), [1, 2, 3, 0x10]);
}

#[test]
fn names_are_as_documented() {
    let names: Vec<_> = Band::all(&config(2, 1))
        .map(|band| band.to_string())
        .collect();
    assert_eq!(names, ["signal", "data", "unscheduled", "token0", "token1"]);
    for wrong in [
        "",
        "token",
        "token8",
        "token10",
        "Token1",
        "data ",
        "tokens",
        "token\u{b2}",
    ] {
        assert_eq!(Band::from_name(wrong), None, "{wrong}");
    }
}
