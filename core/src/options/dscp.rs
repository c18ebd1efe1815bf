// SPDX-License-Identifier: GPL-2.0
//! Names of code points: RFC 2474 (CS), 2597 (AF), 3246 (EF), 8622 (LE).

use core::fmt;

/// Each name with its code point.
pub const NAMES: &[(&str, u8)] = &[
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

/// A code point, shown as its name, or its number if it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(
    /// The number.
    pub u64,
);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, code)| u64::from(*code) == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}
