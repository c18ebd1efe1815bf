// SPDX-License-Identifier: GPL-2.0
//! DSCP maps as words: `CS6=signal,46=token0`.

use turnstile_core::port::band::Band;
use turnstile_core::port::config::{limits, DscpMap};

/// Names of code points: RFC 2474 (CS), 2597 (AF), 3246 (EF), 8622 (LE). The first name of a code
/// is the one printed.
const NAMES: &[(&str, u8)] = &[
    ("CS0", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

/// The code point's name, or its number.
fn name(code: u8) -> String {
    NAMES
        .iter()
        .find(|(_, known)| *known == code)
        .map_or_else(|| code.to_string(), |(name, _)| (*name).to_owned())
}

/// The code point of this name or number.
fn code(text: &str) -> Result<u8, String> {
    if let Some((_, code)) = NAMES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text))
    {
        return Ok(*code);
    }
    match text.parse::<u8>() {
        Ok(code)
            if limits::DSCP.contains(code.into()) && text.bytes().all(|b| b.is_ascii_digit()) =>
        {
            Ok(code)
        }
        _ => Err(format!(
            "\"{text}\" is not a code: {}, CS0..CS7, AF11..AF43, EF, LE",
            limits::DSCP
        )),
    }
}

/// Reads a map. The error says what is wrong, without naming the option.
pub fn parse(text: &str) -> Result<DscpMap, String> {
    match text {
        "default" => return Ok(DscpMap::DEFAULT),
        "none" => return Ok(DscpMap::NONE),
        _ => {}
    }
    let mut map = DscpMap::NONE;
    let mut seen = [false; 64];
    for part in text.split(',') {
        let (left, right) = part.split_once('=').ok_or_else(|| {
            format!("\"{part}\" is not CODE=BAND, and not \"default\" or \"none\"")
        })?;
        let code = code(left)?;
        let band = Band::from_name(right).ok_or_else(|| {
            format!("\"{right}\" is not a band: signal, data, unscheduled, token0..token7")
        })?;
        if std::mem::replace(&mut seen[usize::from(code)], true) {
            return Err(format!("\"{left}\" is given twice"));
        }
        map.0[usize::from(code)] = band.minor();
    }
    Ok(map)
}

/// The codes of `map` that are not data, with their bands.
///
/// A number that is no class, which the kernel never reports, counts as data.
pub fn entries(map: &DscpMap) -> impl Iterator<Item = (u8, Band)> + '_ {
    (0u8..)
        .zip(map.0)
        .filter_map(|(code, minor)| Some((code, Band::from_any_minor(minor)?)))
        .filter(|(_, band)| *band != Band::Data)
}

/// The map as [`parse`] reads it back.
pub fn print(map: &DscpMap) -> String {
    let entries: Vec<_> = entries(map)
        .map(|(code, band)| format!("{}={band}", name(code)))
        .collect();
    if entries.is_empty() {
        "none".to_owned()
    } else {
        entries.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        assert_eq!(parse("default"), Ok(DscpMap::DEFAULT));
        assert_eq!(parse("CS6=signal,56=signal"), Ok(DscpMap::DEFAULT));
        assert_eq!(print(&DscpMap::DEFAULT), "CS6=signal,CS7=signal");
        assert_eq!(print(&DscpMap::NONE), "none");
        assert_eq!(parse("none"), Ok(DscpMap::NONE));
        assert_eq!(parse("0=data"), Ok(DscpMap::NONE));
        let map = parse("ef=token0,af43=token7,le=unscheduled,3=token1,63=signal").unwrap();
        assert_eq!(
            print(&map),
            "LE=unscheduled,3=token1,AF43=token7,EF=token0,63=signal"
        );
    }

    #[test]
    fn refused() {
        for (text, error) in [
            ("", "\"\" is not CODE=BAND, and not \"default\" or \"none\""),
            (
                "CS6",
                "\"CS6\" is not CODE=BAND, and not \"default\" or \"none\"",
            ),
            (
                "CS6=signal,",
                "\"\" is not CODE=BAND, and not \"default\" or \"none\"",
            ),
            ("CS6=signal,48=data", "\"48\" is given twice"),
            (
                "64=signal",
                "\"64\" is not a code: 0..63, CS0..CS7, AF11..AF43, EF, LE",
            ),
            (
                "+1=signal",
                "\"+1\" is not a code: 0..63, CS0..CS7, AF11..AF43, EF, LE",
            ),
            (
                "CS8=signal",
                "\"CS8\" is not a code: 0..63, CS0..CS7, AF11..AF43, EF, LE",
            ),
            (
                "CS6=token8",
                "\"token8\" is not a band: signal, data, unscheduled, token0..token7",
            ),
            (
                "CS6=signal=data",
                "\"signal=data\" is not a band: signal, data, unscheduled, token0..token7",
            ),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn every_code_has_one_way_back() {
        for number in 0..64 {
            assert_eq!(code(&name(number)), Ok(number));
        }
    }
}
