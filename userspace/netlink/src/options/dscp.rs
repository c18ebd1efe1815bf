// SPDX-License-Identifier: GPL-2.0
//! DSCP maps as words: `CS6=signal,46=token0`.

use turnstile_core::options::dscp::{Code, NAMES};
use turnstile_core::options::limits;
use turnstile_core::port::band::Band;
use turnstile_core::port::config::DscpMap;

/// The code point of this name or number.
pub(super) fn code(text: &str) -> Result<u8, String> {
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
pub fn entries(map: &[u8; 64]) -> impl Iterator<Item = (u8, Band)> + '_ {
    (0u8..)
        .zip(*map)
        .filter_map(|(code, minor)| Some((code, Band::from_any_minor(minor)?)))
        .filter(|(_, band)| *band != Band::Data)
}

/// Whether each code has a band that some port has.
pub(super) fn is_map(map: &[u8; 64]) -> bool {
    map.iter()
        .all(|minor| Band::from_any_minor(*minor).is_some())
}

/// The map as [`parse`] reads it back.
pub fn print(map: &[u8; 64]) -> String {
    let entries: Vec<_> = entries(map)
        .map(|(code, band)| format!("{}={band}", Code(code.into())))
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
        assert_eq!(print(&DscpMap::DEFAULT.0), "CS6=signal,CS7=signal");
        assert_eq!(print(&DscpMap::NONE.0), "none");
        assert_eq!(parse("none"), Ok(DscpMap::NONE));
        assert_eq!(parse("0=data"), Ok(DscpMap::NONE));
        let map = parse("ef=token0,af43=token7,le=unscheduled,3=token1,63=signal").unwrap();
        assert_eq!(
            print(&map.0),
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
            assert_eq!(code(&Code(number.into()).to_string()), Ok(number));
        }
    }
}
