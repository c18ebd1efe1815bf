// SPDX-License-Identifier: GPL-2.0
//! Where the kernel's functions are.

use std::fmt::Write as _;
use std::fs;

use anyhow::{ensure, Context, Result};

/// The kernel's functions and those of modules: lines of `/proc/kallsyms`, without the letter that
/// says what they are.
pub(super) fn all() -> Result<String> {
    let path = "/proc/kallsyms";
    let text = fs::read_to_string(path).with_context(|| format!("reading {path}"))?;
    let functions = functions(&text);
    ensure!(!functions.is_empty(), "{path} tells no addresses");
    Ok(functions)
}

fn functions(text: &str) -> String {
    let mut functions = String::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        if let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) =
            (words.next(), words.next(), words.next())
        {
            if address.bytes().any(|digit| digit != b'0') {
                // Writing to a string cannot fail.
                let _ = writeln!(functions, "{address} {}", name.replace('\t', " "));
            }
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::functions;

    #[test]
    fn functions_are_told_with_their_module() {
        let text = "ffffffff81000000 T _stext\nffffffff82000000 D data\n\
                    ffffffffc0000000 t knt_send\t[turnstile]\n0000000000000000 t hidden\n";
        assert_eq!(
            functions(text),
            "ffffffff81000000 _stext\nffffffffc0000000 knt_send [turnstile]\n"
        );
    }
}
