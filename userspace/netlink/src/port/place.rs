// SPDX-License-Identifier: GPL-2.0
//! Where a port is: device, parent and handle, in tc's notation.

use std::fmt;

use crate::grammar::GrammarError;

/// The id of a qdisc (minor 0) or a class: `1:`, `1:10`, in hex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u32);

impl Id {
    /// The parent of a device's root qdisc: `TC_H_ROOT`.
    pub const ROOT: Self = Self(u32::MAX);

    /// The class `minor` of the qdisc `major`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self(((major as u32) << 16) | minor as u32)
    }

    /// The qdisc's part.
    pub const fn major(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// The class's part; 0: the qdisc itself.
    pub const fn minor(self) -> u16 {
        self.0 as u16
    }

    /// Reads `MAJOR:MINOR`, where either may be left out, in hex.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |text: &str| match text {
            "" => Some(0),
            _ if text.bytes().all(|b| b.is_ascii_hexdigit()) => u16::from_str_radix(text, 16).ok(),
            _ => None,
        };
        let (major, minor) = text.split_once(':')?;
        match (hex(major)?, hex(minor)?) {
            (0, 0) => None,
            (major, minor) => Some(Self::new(major, minor)),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self, self.major(), self.minor()) {
            (Self::ROOT, ..) => f.write_str("root"),
            (_, major, 0) => write!(f, "{major:x}:"),
            (_, 0, minor) => write!(f, ":{minor:x}"),
            (_, major, minor) => write!(f, "{major:x}:{minor:x}"),
        }
    }
}

/// Where a port is, or is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The device.
    pub dev: String,
    /// The class to hang below, or [`Id::ROOT`].
    pub parent: Id,
    /// The port's own id; `None`: any.
    pub handle: Option<Id>,
}

impl Place {
    /// The root of `dev`.
    pub fn root(dev: impl Into<String>) -> Self {
        Self {
            dev: dev.into(),
            parent: Id::ROOT,
            handle: None,
        }
    }

    /// Reads `[root | parent CLASSID] [handle HANDLE]` from the start of `words`, and gives what
    /// follows.
    ///
    /// Without `root` and `parent`, it is the root.
    pub fn parse<'a, W: AsRef<str>>(
        dev: &str,
        mut words: &'a [W],
    ) -> Result<(Self, &'a [W]), GrammarError> {
        let (mut parent, mut handle) = (None, None);
        loop {
            let (word, taken) = match words {
                [word, ..] if word.as_ref() == "root" => ("root", 1),
                [word, ..] if word.as_ref() == "parent" => ("parent", 2),
                [word, ..] if word.as_ref() == "handle" => ("handle", 2),
                _ => break,
            };
            let value = words.get(1).map_or("", AsRef::as_ref);
            let (slot, id) = match word {
                "root" => (&mut parent, Some(Id::ROOT)),
                "parent" => (&mut parent, Id::parse(value)),
                _ => (&mut handle, Id::parse(value).filter(|id| id.minor() == 0)),
            };
            let id = id.ok_or_else(|| match word {
                _ if words.len() < taken => GrammarError::new(word, "needs a value"),
                "parent" => GrammarError::new(
                    word,
                    format!("\"{value}\" is not a class id (MAJOR:MINOR in hex, as 1:10)"),
                ),
                _ => GrammarError::new(
                    word,
                    format!("\"{value}\" is not a qdisc handle (MAJOR: in hex, as 1:)"),
                ),
            })?;
            if slot.replace(id).is_some() {
                return Err(GrammarError::new(word, "the place is given twice"));
            }
            words = &words[taken..];
        }
        let parent = parent.unwrap_or(Id::ROOT);
        Ok((
            Self {
                dev: dev.to_owned(),
                parent,
                handle,
            },
            words,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        for (text, id) in [
            ("1:", Id(0x1_0000)),
            ("1:10", Id(0x1_0010)),
            ("8001:", Id(0x8001_0000)),
            (":3", Id(3)),
        ] {
            assert_eq!(Id::parse(text), Some(id));
            assert_eq!(id.to_string(), text);
        }
        for text in ["", ":", "0:", "1", "1:10:", "10000:", "+1:", "g:", "1: "] {
            assert_eq!(Id::parse(text), None, "{text}");
        }
        assert_eq!(Id::ROOT.to_string(), "root");
    }

    #[test]
    fn places() {
        let parse = |text: &str| {
            let words: Vec<&str> = text.split_whitespace().collect();
            Place::parse("swp1", &words)
                .map(|(place, rest)| (place, rest.join(" ")))
                .map_err(|e| e.to_string())
        };
        let root = Place::root("swp1");
        assert_eq!(parse(""), Ok((root.clone(), String::new())));
        assert_eq!(
            parse("link 1gbit"),
            Ok((root.clone(), "link 1gbit".to_owned()))
        );
        let named = Place {
            handle: Some(Id(0x1_0000)),
            ..root.clone()
        };
        assert_eq!(
            parse("root handle 1: link 1gbit"),
            Ok((named.clone(), "link 1gbit".to_owned()))
        );
        assert_eq!(parse("handle 1: root"), Ok((named, String::new())));
        let below = Place {
            parent: Id(0x1_0002),
            ..root
        };
        assert_eq!(parse("parent 1:2 mpu 64"), Ok((below, "mpu 64".to_owned())));
        for (text, error) in [
            ("root parent 1:2", "parent: the place is given twice"),
            ("handle 1: handle 2:", "handle: the place is given twice"),
            ("parent", "parent: needs a value"),
            (
                "parent x",
                "parent: \"x\" is not a class id (MAJOR:MINOR in hex, as 1:10)",
            ),
            (
                "handle 1:2",
                "handle: \"1:2\" is not a qdisc handle (MAJOR: in hex, as 1:)",
            ),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
    }
}
