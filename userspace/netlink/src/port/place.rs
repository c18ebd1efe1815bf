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
    /// A port for each transmit queue of the device, which share its link: kind `turnstile_mq`.
    pub queues: bool,
}

impl Place {
    /// What follows the device here.
    pub const SYNOPSIS: &str = "[ root | parent CLASSID ] [ handle HANDLE ]";
    /// What follows it in tc, where nothing stands for root.
    pub const SYNOPSIS_OF_TC: &str = "( root | parent CLASSID ) [ handle HANDLE ]";

    /// The root of `dev`.
    pub fn root(dev: impl Into<String>) -> Self {
        Self {
            dev: dev.into(),
            parent: Id::ROOT,
            handle: None,
            queues: false,
        }
    }

    /// Reads `[dev] DEVICE [root | parent CLASSID] [handle HANDLE] [queues]` from the start of
    /// `words`, and gives what follows. The parts may come in any order if the device comes first
    /// or has `dev` before it, as in tc's `root dev swp1 handle 1:`.
    ///
    /// Without `root` and `parent`, it is the root.
    ///
    /// # Errors
    /// Values that are none, parts that are given twice, and no device at all.
    pub fn parse<W: AsRef<str>>(words: &[W]) -> Result<(Self, &[W]), GrammarError> {
        let (mut dev, mut parent, mut handle, mut queues) = (None, None, None, None);
        let mut left = words;
        while let Some((word, rest)) = left.split_first() {
            let keyword = match word.as_ref() {
                keyword @ ("dev" | "root" | "parent" | "handle" | "queues") => keyword,
                name if dev.is_none() => {
                    dev = Some(name.to_owned());
                    left = rest;
                    continue;
                }
                _ => break,
            };
            if keyword == "root" {
                once(keyword, &mut parent, Id::ROOT)?;
                left = rest;
                continue;
            }
            if keyword == "queues" {
                once(keyword, &mut queues, true)?;
                left = rest;
                continue;
            }
            let (value, rest) = rest
                .split_first()
                .ok_or_else(|| GrammarError::new(keyword, "needs a value"))?;
            let value = value.as_ref();
            let not = |what: &str| GrammarError::new(keyword, format!("\"{value}\" is not {what}"));
            match keyword {
                "dev" => once(keyword, &mut dev, value.to_owned())?,
                "parent" => {
                    let id = Id::parse(value)
                        .ok_or_else(|| not("a class id (MAJOR:MINOR in hex, as 1:10)"))?;
                    once(keyword, &mut parent, id)?;
                }
                _ => {
                    let id = Id::parse(value)
                        .filter(|id| id.minor() == 0)
                        .ok_or_else(|| not("a qdisc handle (MAJOR: in hex, as 1:)"))?;
                    once(keyword, &mut handle, id)?;
                }
            }
            left = rest;
        }
        let place = Self {
            dev: dev.ok_or_else(|| GrammarError::new("dev", "no device is given"))?,
            parent: parent.unwrap_or(Id::ROOT),
            handle,
            queues: queues.is_some(),
        };
        if place.queues && place.parent != Id::ROOT {
            return Err(GrammarError::new("queues", "only at the root"));
        }
        Ok((place, left))
    }
}

/// Sets what may be given once.
fn once<T>(keyword: &str, slot: &mut Option<T>, value: T) -> Result<(), GrammarError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(GrammarError::new(keyword, "the place is given twice")),
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
            Place::parse(&words)
                .map(|(place, rest)| (place, rest.join(" ")))
                .map_err(|e| e.to_string())
        };
        let root = Place::root("swp1");
        assert_eq!(parse("swp1"), Ok((root.clone(), String::new())));
        assert_eq!(
            parse("swp1 link 1gbit"),
            Ok((root.clone(), "link 1gbit".to_owned()))
        );
        let named = Place {
            handle: Some(Id(0x1_0000)),
            ..root.clone()
        };
        assert_eq!(
            parse("swp1 root handle 1: link 1gbit"),
            Ok((named.clone(), "link 1gbit".to_owned()))
        );
        assert_eq!(parse("swp1 handle 1: root"), Ok((named, String::new())));
        // As tc has them, and devices that are called like one of these words.
        for text in ["dev swp1", "root dev swp1", "dev swp1 root"] {
            assert_eq!(parse(text), Ok((root.clone(), String::new())), "{text}");
        }
        let named_root = Place::root("root");
        assert_eq!(
            parse("dev root mpu 64"),
            Ok((named_root, "mpu 64".to_owned()))
        );
        let below = Place {
            parent: Id(0x1_0002),
            ..root
        };
        assert_eq!(
            parse("swp1 parent 1:2 mpu 64"),
            Ok((below, "mpu 64".to_owned()))
        );
        let queues = Place {
            queues: true,
            ..Place::root("swp1")
        };
        for text in ["swp1 queues mpu 64", "swp1 root queues mpu 64"] {
            assert_eq!(parse(text), Ok((queues.clone(), "mpu 64".to_owned())));
        }
        for (text, error) in [
            ("swp1 queues queues", "queues: the place is given twice"),
            ("swp1 parent 1:2 queues", "queues: only at the root"),
            ("", "dev: no device is given"),
            ("root", "dev: no device is given"),
            ("dev", "dev: needs a value"),
            ("swp1 dev swp2", "dev: the place is given twice"),
            ("swp1 root parent 1:2", "parent: the place is given twice"),
            (
                "swp1 handle 1: handle 2:",
                "handle: the place is given twice",
            ),
            ("swp1 parent", "parent: needs a value"),
            (
                "swp1 parent x",
                "parent: \"x\" is not a class id (MAJOR:MINOR in hex, as 1:10)",
            ),
            (
                "swp1 handle 1:2",
                "handle: \"1:2\" is not a qdisc handle (MAJOR: in hex, as 1:)",
            ),
        ] {
            assert_eq!(parse(text), Err(error.to_owned()), "{text}");
        }
    }
}
