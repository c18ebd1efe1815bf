// SPDX-License-Identifier: GPL-2.0
//! Values of flags: sizes, times, rates and addresses in the units of the rest. Errors name what is
//! allowed.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use turnstile_netlink::units;
use turnstile_socket::MAX_LENGTH;

/// A message's length: `64kb`.
pub(crate) fn length(text: &str) -> Result<u64, String> {
    match units::parse_size(text) {
        Some(bytes) if (1..=MAX_LENGTH).contains(&bytes) => Ok(bytes),
        Some(_) => Err(format!("not in 1b..{MAX_LENGTH}b")),
        None => Err("not a size (b, kb, mb, gb)".to_owned()),
    }
}

/// A time of at least a nanosecond and at most a day: `20us`. tc takes a bare number for
/// microseconds, which nobody expects of a flag: here it needs a unit.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    const DAY: u64 = 86_400_000_000_000;
    if text.parse::<f64>().is_ok() {
        return Err(format!(
            "needs a unit: {text}s, {text}ms, {text}us or {text}ns"
        ));
    }
    match units::parse_time(text) {
        Some(ns) if (1..=DAY).contains(&ns) => Ok(Duration::from_nanos(ns)),
        Some(_) => Err("not in 1ns..86400s".to_owned()),
        None => Err("not a time (s, ms, us, ns)".to_owned()),
    }
}

/// A rate in bytes/s: `10gbit`.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    let range = turnstile_core::options::limits::LINK;
    match units::parse_rate(text) {
        Some(rate) if range.contains(rate) => Ok(rate),
        Some(_) => Err(format!("not in {range}")),
        None => Err("not a rate (bit, kbit, mbit, gbit)".to_owned()),
    }
}

/// A share of a link, as a fraction: `60%`.
pub(crate) fn load(text: &str) -> Result<f64, String> {
    match units::parse_percent(text) {
        Some(ppb) if (1_000_000..=2_000_000_000).contains(&ppb) => Ok(ppb as f64 / 1e9),
        Some(_) => Err("not in 0.1%..200%".to_owned()),
        None => Err("not a percentage".to_owned()),
    }
}

/// An address and a port: `10.0.0.2:5000`, `[fd00::2]:5000`, `host:5000`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let mut found = text
        .to_socket_addrs()
        .map_err(|error| format!("not an address with a port, as in 10.0.0.2:5000 ({error})"))?;
    let found = found.next().ok_or("no address has that name")?;
    match found.port() {
        0 => Err("port 0 cannot be used: 1 to 65535".to_owned()),
        _ => Ok(found),
    }
}

/// Where to listen: a port alone means all addresses of both IP versions.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<u16>() {
        Ok(0) => Err("port 0 cannot be used: 1 to 65535".to_owned()),
        Ok(port) => Ok(SocketAddr::new(IpAddr::from([0u16; 8]), port)),
        Err(_) if text.contains(':') => address(text),
        Err(_) => Err("neither a port, 1 to 65535, nor an address with one".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(length("64kb"), Ok(65_536));
        assert_eq!(length("0"), Err("not in 1b..1073741823b".to_owned()));
        assert_eq!(length("1gb"), Err("not in 1b..1073741823b".to_owned()));
        assert_eq!(length("all"), Err("not a size (b, kb, mb, gb)".to_owned()));
        assert_eq!(time("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(time("0ns"), Err("not in 1ns..86400s".to_owned()));
        assert_eq!(time("5 s"), Err("not a time (s, ms, us, ns)".to_owned()));
        for bare in ["5", "0", "0.5", "1e3"] {
            let why = format!("needs a unit: {bare}s, {bare}ms, {bare}us or {bare}ns");
            assert_eq!(time(bare), Err(why));
        }
        assert_eq!(rate("10gbit"), Ok(1_250_000_000));
        assert_eq!(rate("1bit"), Err("not in 1kbit..800gbit".to_owned()));
        assert_eq!(load("60%"), Ok(0.6));
        assert_eq!(load("0.6"), Err("not a percentage".to_owned()));
        assert_eq!(load("300%"), Err("not in 0.1%..200%".to_owned()));
    }

    #[test]
    fn addresses() {
        assert_eq!(address("[::1]:7"), Ok("[::1]:7".parse().unwrap()));
        assert!(address("10.0.0.1")
            .unwrap_err()
            .starts_with("not an address with a port"));
        assert_eq!(
            address("10.0.0.1:0"),
            Err("port 0 cannot be used: 1 to 65535".to_owned())
        );
        assert_eq!(listen("5000"), Ok("[::]:5000".parse().unwrap()));
        assert_eq!(
            listen("10.0.0.1:5000"),
            Ok("10.0.0.1:5000".parse().unwrap())
        );
        assert!(listen("70000")
            .unwrap_err()
            .starts_with("neither a port, 1 to 65535, nor an address"));
        assert_eq!(
            listen("10.0.0.1:0"),
            Err("port 0 cannot be used: 1 to 65535".to_owned())
        );
        assert!(listen("nowhere:x")
            .unwrap_err()
            .starts_with("not an address with a port, as in 10.0.0.2:5000 ("));
    }
}
