// SPDX-License-Identifier: GPL-2.0
//! [`Options`] as the attributes inside `TCA_OPTIONS`, and back.

use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Drain, DscpMap, Expiry, Order, Tokens};
use turnstile_core::port::uapi::{self, option};
use turnstile_core::units::Nanos;

use crate::attr::{attributes, put, put_u32, put_u64, Attribute, Malformed};
use crate::{Link, Options, Phantom};

impl Options {
    /// The attributes, without the header of the nest around them.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        if let Some(link) = self.link {
            let rate = match link {
                Link::Auto => 0,
                Link::Rate(rate) => rate,
            };
            put_u64(&mut to, option::LINK_RATE64, rate);
        }
        match self.tokens {
            Some(Tokens::Share(ppb)) => put_u32(&mut to, option::TOKEN_SHARE, ppb),
            Some(Tokens::Rate(rate)) => put_u64(&mut to, option::TOKEN_RATE64, rate),
            None => {}
        }
        if let Some(expiry) = self.token_expiry {
            put_u64(&mut to, option::TOKEN_EXPIRY, expiry.to_attr());
        }
        for (number, value) in [
            (option::PRIORITIES, self.priorities),
            (option::TOKEN_LIMIT, self.token_limit),
            (option::ORDER, self.order.map(Order::to_attr)),
            (option::UNSCHEDULED, self.unscheduled),
            (option::DATA_LIMIT, self.data_limit),
            (option::SIGNAL_LIMIT, self.signal_limit),
            (option::SPLIT_GSO, self.split_gso.map(u32::from)),
            (option::OVERHEAD, self.overhead),
            (option::MPU, self.mpu),
        ] {
            if let Some(value) = value {
                put_u32(&mut to, number, value);
            }
        }
        if let Some(jitter) = self.jitter {
            put_u64(&mut to, option::JITTER, jitter.0);
        }
        if let Some(map) = self.dscp {
            put(&mut to, option::DSCP_MAP, &map.0);
        }
        if let Some(ren) = self.ren {
            let period = ren.map_or(uapi::REN_OFF, |period| period.0);
            put_u64(&mut to, option::REN_PERIOD, period);
        }
        match self.phantom {
            Some(Phantom::Off) => put_u32(&mut to, option::PHANTOM_SHARE, uapi::PHANTOM_OFF),
            Some(Phantom::On { drain, mark }) => {
                match drain {
                    Some(Drain::Share(ppb)) => put_u32(&mut to, option::PHANTOM_SHARE, ppb),
                    Some(Drain::Rate(rate)) => put_u64(&mut to, option::PHANTOM_RATE64, rate),
                    None => {}
                }
                if let Some(mark) = mark {
                    put_u32(&mut to, option::PHANTOM_MARK, mark);
                }
            }
            None => {}
        }
        to
    }

    /// Reads what [`Options::encode`] or the kernel's dump wrote. Attributes it does not know are
    /// left out.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut options = Self::default();
        for attribute in attributes(bytes) {
            options.take(attribute?)?;
        }
        Ok(options)
    }

    fn take(&mut self, attribute: Attribute<'_>) -> Result<(), Malformed> {
        match attribute.number {
            option::LINK_RATE64 => {
                self.link = Some(match attribute.u64("link")? {
                    0 => Link::Auto,
                    rate => Link::Rate(rate),
                });
            }
            option::TOKEN_SHARE => self.tokens = Some(Tokens::Share(attribute.u32("tokens")?)),
            option::TOKEN_RATE64 => self.tokens = Some(Tokens::Rate(attribute.u64("tokens")?)),
            option::PRIORITIES => self.priorities = Some(attribute.u32("priorities")?),
            option::TOKEN_LIMIT => self.token_limit = Some(attribute.u32("token-limit")?),
            option::TOKEN_EXPIRY => {
                self.token_expiry = Some(Expiry::from_attr(attribute.u64("token-expiry")?));
            }
            option::ORDER => {
                let order = Order::from_attr(attribute.u32("order")?);
                self.order = Some(order.ok_or_else(|| attribute.malformed("order"))?);
            }
            option::UNSCHEDULED => self.unscheduled = Some(attribute.u32("unscheduled")?),
            option::DATA_LIMIT => self.data_limit = Some(attribute.u32("data-limit")?),
            option::SIGNAL_LIMIT => self.signal_limit = Some(attribute.u32("signal-limit")?),
            option::DSCP_MAP => {
                let map: [u8; 64] = attribute
                    .payload
                    .try_into()
                    .map_err(|_| attribute.malformed("dscp"))?;
                if map
                    .iter()
                    .any(|minor| Band::from_any_minor(*minor).is_none())
                {
                    return Err(attribute.malformed("dscp"));
                }
                self.dscp = Some(DscpMap(map));
            }
            option::SPLIT_GSO => self.split_gso = Some(attribute.u32("split-gso")? != 0),
            option::OVERHEAD => self.overhead = Some(attribute.u32("overhead")?),
            option::MPU => self.mpu = Some(attribute.u32("mpu")?),
            option::JITTER => self.jitter = Some(Nanos(attribute.u64("jitter")?)),
            option::REN_PERIOD => {
                let ns = attribute.u64("ren period")?;
                self.ren = Some((ns != uapi::REN_OFF).then_some(Nanos(ns)));
            }
            option::PHANTOM_SHARE => match attribute.u32("phantom drain")? {
                uapi::PHANTOM_OFF => self.phantom = Some(Phantom::Off),
                ppb => self.phantom_part(|drain, _| *drain = Some(Drain::Share(ppb))),
            },
            option::PHANTOM_RATE64 => {
                let rate = attribute.u64("phantom drain")?;
                self.phantom_part(|drain, _| *drain = Some(Drain::Rate(rate)));
            }
            option::PHANTOM_MARK => {
                let bytes = attribute.u32("phantom mark")?;
                self.phantom_part(|_, mark| *mark = Some(bytes));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Options {
    /// Changes a part of a phantom queue that is on.
    fn phantom_part(&mut self, change: impl FnOnce(&mut Option<Drain>, &mut Option<u32>)) {
        let (mut drain, mut mark) = match self.phantom {
            Some(Phantom::On { drain, mark }) => (drain, mark),
            Some(Phantom::Off) | None => (None, None),
        };
        change(&mut drain, &mut mark);
        self.phantom = Some(Phantom::On { drain, mark });
    }
}

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
    use crate::port::testing::any_options;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_the_kernel() {
        let options = Options {
            link: Some(Link::Rate(0x0102)),
            priorities: Some(7),
            ..Options::default()
        };
        let mut expected = Vec::new();
        put(&mut expected, 2, &0x0102u64.to_ne_bytes());
        put(&mut expected, 5, &7u32.to_ne_bytes());
        assert_eq!(options.encode(), expected);
        assert!(Options::default().encode().is_empty());
    }

    /// docs/netlink.md is for programs that do not read Rust: its numbers have to be right.
    #[test]
    fn documented_numbers() {
        let text = include_str!("../../../../docs/netlink.md");
        let mut sections = text.split("\n## ");
        let mut section = |title: &str| sections.find(|part| part.starts_with(title)).unwrap();
        macro_rules! check {
            ($title:literal, $module:ident: $($name:ident)*) => {
                let rows = section($title).lines().filter(|row| row.starts_with("| ") && row.contains("| `"));
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
        check!("Options", option: PAD LINK_RATE64 TOKEN_SHARE TOKEN_RATE64 PRIORITIES TOKEN_LIMIT TOKEN_EXPIRY ORDER
            UNSCHEDULED DATA_LIMIT SIGNAL_LIMIT DSCP_MAP SPLIT_GSO OVERHEAD MPU
            PHANTOM_SHARE PHANTOM_RATE64 PHANTOM_MARK REN_PERIOD JITTER);
        assert!(section("Classes").contains(&format!("| {} | `CLASS_BAND` |", uapi::CLASS_BAND)));
        check!("Statistics of the port", port_stat: PAD LINK_RATE64 TOKEN_RATE64 TOKEN_EXPIRY LINK_WAITS TOKEN_WAITS
            FILTER_DROPS FILTER_MISSES GSO_SPLITS GSO_DROPS TOKEN_LIMIT TOKEN_SLACK SLACK_FORFEITS SLACK_FORFEITED);
        check!("Statistics of a class", band_stat: PAD OFFERED_PACKETS OFFERED_BYTES OVER_LIMIT EXPIRED TRIMMED PURGED CHILD
            QUEUED MAX_PACKETS MAX_BYTES SOJOURN_MEAN SOJOURN_MAX
            PHANTOM_SEEN PHANTOM_MARKABLE PHANTOM_MARKED PHANTOM_BACKLOG PHANTOM_MAX UNWRITABLE
            REN_SEEN REN_UNDER REN_FULL REN_OVER REN_KEPT REN_PERIODS);
    }

    #[test]
    fn a_newer_kernel_may_say_more() {
        let mut bytes = Vec::new();
        put(&mut bytes, option::MAX + 1, b"news");
        put_u32(&mut bytes, option::MPU, 64);
        assert_eq!(
            Options::decode(&bytes),
            Ok(Options {
                mpu: Some(64),
                ..Options::default()
            })
        );
    }

    #[test]
    fn nonsense_is_named() {
        let mut bytes = Vec::new();
        put_u32(&mut bytes, option::ORDER, 2);
        let error = Options::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("attribute order"), "{error}");
        for (number, name) in [
            (option::DSCP_MAP, "dscp"),
            (option::LINK_RATE64, "link"),
            (option::MPU, "mpu"),
            (option::JITTER, "jitter"),
        ] {
            let mut bytes = Vec::new();
            put(&mut bytes, number, &[1, 2]);
            assert_eq!(
                Options::decode(&bytes),
                Err(Malformed::Value {
                    name,
                    bytes: vec![1, 2]
                })
            );
        }
        let mut bytes = Vec::new();
        put(&mut bytes, option::DSCP_MAP, &[4; 64]);
        assert!(Options::decode(&bytes).is_err());
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
        fn decodes_what_was_encoded(options in any_options()) {
            prop_assert_eq!(Options::decode(&options.encode()), Ok(options));
        }

        #[test]
        fn cut_off_or_spoilt_bytes_do_no_harm(options in any_options(), end: prop::sample::Index, at: prop::sample::Index, with: u8) {
            let mut bytes = options.encode();
            bytes.truncate(end.index(bytes.len() + 1));
            let _ = Options::decode(&bytes);
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = with;
                let _ = (Options::decode(&bytes), decode_class_band(&bytes));
            }
        }

        #[test]
        fn any_bytes_do_no_harm(bytes: Vec<u8>) {
            let _ = (Options::decode(&bytes), decode_class_band(&bytes));
        }
    }
}
