// SPDX-License-Identifier: GPL-2.0
//! Keys by their description, where the kernel wants a serial number.

use std::fs;

use crate::failure::Failure;

/// Options whose value is a key.
const OPTIONS: [&str; 3] = ["key", "accept-key", "accept-key-2"];

/// The words with numbers for the keys that are given by their description, as `turnstile:NAME`.
pub(crate) fn numbered(words: &[String]) -> Result<Vec<String>, Failure> {
    let mut all = words.to_vec();
    for place in 1..all.len() {
        let (option, value) = (&all[place - 1], &all[place]);
        if OPTIONS.contains(&option.as_str()) && value.contains(':') {
            let keys = fs::read_to_string("/proc/keys")?;
            let found = find(&keys, value);
            let serial = found.map_err(|why| Failure::Usage(format!("{option}: {why}")))?;
            all[place] = serial.to_string();
        }
    }
    Ok(all)
}

/// The serial number of the key of type `logon` with this description, in what `/proc/keys` says:
/// the keys that the reader may see.
fn find(keys: &str, description: &str) -> Result<u32, String> {
    let serials = keys.lines().filter_map(|line| {
        // Serial number, flags, references, time, rights, user, group, type, description: length.
        let mut fields = line.split_whitespace();
        let serial = u32::from_str_radix(fields.next()?, 16).ok()?;
        let is_valid = !fields.next()?.contains(['R', 'D', 'N']);
        let kind = fields.nth(5)?;
        let (name, _) = fields.next()?.rsplit_once(':')?;
        (is_valid && kind == "logon" && name == description).then_some(serial)
    });
    match serials.collect::<Vec<_>>()[..] {
        [serial] => Ok(serial),
        [] => Err(format!(
            "no key {description} of type logon; keyctl show lists yours"
        )),
        _ => Err(format!(
            "several keys {description}: give the number of one"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::find;

    const KEYS: &str = "\
0c0bc1f3 I--Q---     1 perm 3f010000     0     0 logon     turnstile:prod: 32
1c0bc1f3 I--Q---     1 perm 3f010000     0     0 user      turnstile:user: 32
2c0bc1f3 IR-Q---     1 perm 3f010000     0     0 logon     turnstile:gone: 32
3c0bc1f3 I--Q---     1 perm 3f010000     0     0 logon     turnstile:two: 32
3c0bc1f4 I--Q---     1 perm 3f010000  1000     0 logon     turnstile:two: 32
";

    #[test]
    fn a_key_is_found_by_its_description() {
        assert_eq!(find(KEYS, "turnstile:prod"), Ok(0x0c0b_c1f3));
        for (name, says) in [
            ("turnstile:user", "no key turnstile:user"),
            ("turnstile:gone", "no key turnstile:gone"),
            ("turnstile:two", "several keys turnstile:two"),
        ] {
            let said = find(KEYS, name).unwrap_err();
            assert!(said.starts_with(says), "{said}");
        }
    }
}
