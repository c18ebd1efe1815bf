// SPDX-License-Identifier: GPL-2.0
//! Attributes of a port beside its options and statistics.

use turnstile_core::port::band::Band;
use turnstile_core::port::uapi;

use crate::attr::{attributes, Malformed};

/// The band of a class, from the attributes inside the class's `TCA_OPTIONS`.
///
/// `None`: the kernel does not say.
pub fn decode_class_band(bytes: &[u8]) -> Result<Option<Band>, Malformed> {
    let mut band = None;
    for attribute in attributes(bytes) {
        let attribute = attribute?;
        if attribute.number == uapi::CLASS_BAND {
            let minor = u8::try_from(attribute.u32("band")?).ok();
            let known = minor.and_then(Band::from_any_minor);
            band = Some(known.ok_or_else(|| attribute.malformed("band"))?);
        }
    }
    Ok(band)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::put_u32;
    use proptest::prelude::*;
    use turnstile_core::options::Kind;
    use turnstile_core::port::config::OPTIONS;

    /// docs/netlink.md is for programs that do not read Rust: its numbers have to be right.
    #[test]
    fn documented_numbers() {
        let text = include_str!("../../../../docs/netlink.md");
        let mut sections = text.split("\n## ");
        let mut section = |title: &str| sections.find(|part| part.starts_with(title)).unwrap();
        macro_rules! check {
            ($title:literal, $module:ident: $($name:ident)*) => {
                let rows = section($title).lines();
                let rows = rows.filter(|row| row.starts_with("| ") && row.contains("| `"));
                let rows: Vec<&str> = rows.collect();
                let mut wanted = 0;
                $(
                    let start = format!("| {} | `{}` |", uapi::$module::$name, stringify!($name));
                    assert!(rows.iter().any(|row| row.starts_with(&start)), "{start}");
                    wanted += 1;
                )*
                assert_eq!(rows.len(), wanted, "{}", $title);
                assert!(rows.last().unwrap().starts_with(&format!("| {} |", uapi::$module::MAX)));
            };
        }
        let options = section("Options");
        let mut numbers = vec![uapi::option::PAD];
        for row in OPTIONS {
            for (number, kind) in [(Some(row.number), row.kind), (row.rate, Kind::U64)] {
                let Some(number) = number else { continue };
                numbers.push(number);
                let start = format!("| {number} | `");
                let documented = options.lines().find(|line| line.starts_with(&start));
                let documented = documented.unwrap_or_else(|| panic!("no {start}"));
                let kind = match kind {
                    Kind::U32 => "| u32",
                    Kind::U64 => "| u64",
                    Kind::Map => "| 64 bytes",
                };
                assert!(documented.contains(kind), "{documented}");
                let word = format!("| `{}` |", row.name);
                assert!(documented.contains(&word), "{documented}");
                let range = row.form.range().filter(|_| number == row.number);
                if let Some(range) = range {
                    let allowed = format!("{}..{}", range.min, range.max);
                    assert!(documented.contains(&allowed), "{documented}");
                }
            }
        }
        numbers.sort();
        let all: Vec<u16> = (uapi::option::PAD..=uapi::option::MAX).collect();
        assert_eq!(numbers, all);
        assert!(section("Classes").contains(&format!("| {} | `CLASS_BAND` |", uapi::CLASS_BAND)));
        check!("Statistics of the port", port_stat: PAD
            LINK_RATE64 TOKEN_RATE64 TOKEN_EXPIRY LINK_WAITS TOKEN_WAITS
            FILTER_DROPS FILTER_MISSES GSO_SPLITS GSO_DROPS
            TOKEN_LIMIT TOKEN_SLACK SLACK_FORFEITS SLACK_FORFEITED SIGNAL_EXCESS TCD_MAX_ON
            GSO_PIECES GSO_WHOLE);
        check!("Statistics of a class", band_stat: PAD
            OFFERED_PACKETS OFFERED_BYTES OVER_LIMIT EXPIRED TRIMMED PURGED CHILD
            QUEUED MAX_PACKETS MAX_BYTES SOJOURN_MEAN SOJOURN_MAX
            PHANTOM_SEEN PHANTOM_MARKABLE PHANTOM_MARKED PHANTOM_BACKLOG PHANTOM_MAX UNWRITABLE
            REN_SEEN REN_UNDER REN_FULL REN_OVER REN_KEPT REN_PERIODS
            STORMED PFC_PAUSED PFC_RESUMED PFC_PAUSES PFC_TIME PFC_LONGEST PFC_STORMS PFC_REFUSED
            PFC_XOFF PFC_XON PFC_HEADROOM PFC_HELD PFC_MOST PFC_MOST_HEADROOM PFC_NO_HEADROOM
            PFC_SENT PFC_ASKED PFC_ENDED PFC_REFRESHED PFC_ASKED_TIME PFC_ASKED_LONGEST
            PFC_PRIORITY_PAUSED PFC_PRIORITY_TIME PFC_PRIORITY_LONGEST
            TCD_STATE TCD_SEEN TCD_UNMARKED TCD_CE TCD_UE TCD_KEPT TCD_CONGESTIONS TCD_PAUSES
            TCD_TIME_NOT_CONGESTED TCD_TIME_CONGESTED TCD_TIME_UNDETERMINED);
    }

    #[test]
    fn class_band() {
        let mut bytes = Vec::new();
        put_u32(&mut bytes, uapi::CLASS_BAND, 0x13);
        assert_eq!(decode_class_band(&bytes), Ok(Some(Band::Token(3))));
        assert_eq!(decode_class_band(&[]), Ok(None));
        for wrong in [4, 0x18, 0x110] {
            let mut bytes = Vec::new();
            put_u32(&mut bytes, uapi::CLASS_BAND, wrong);
            assert!(decode_class_band(&bytes).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_do_no_harm(bytes: Vec<u8>) {
            let _ = decode_class_band(&bytes);
        }
    }
}
