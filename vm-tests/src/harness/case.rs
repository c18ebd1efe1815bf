// SPDX-License-Identifier: GPL-2.0
//! A test case and what it is handed.

use std::time::Duration;

use anyhow::Result;
use turnstile_test_protocol::run::Take;

use crate::events::{Event, Events};
use crate::rng::Rng;

/// A case asks for nothing that any bed has: a kernel, the module, `tc`, namespaces and veth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// More than one CPU. Skipped where there is one only.
    Smp,
    /// A simulated clock. Skipped where time goes by itself.
    VirtualTime,
    /// A kernel that does not look at each access to memory. Skipped under KASAN, where it would
    /// take minutes.
    Speed,
    /// A kernel whose own modules are signed. Skipped where they are not.
    SignedModules,
    /// A machine that can be suspended, for a test. Skipped where it cannot.
    Suspend,
    /// A kernel module of the stock kernel, by name. The case fails where it cannot be loaded.
    Module(&'static str),
    /// A program in PATH. The case fails where it is missing.
    Program(&'static str),
}

/// Hundreds of commands, or as much work of another kind, for which an emulated machine takes the
/// better part of a minute: they run on the simulated beds, which need a few seconds.
pub const MUCH_WORK: &[Need] = &[Need::VirtualTime];

/// One test.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// `theme/what-is-shown`.
    pub name: &'static str,
    /// What must be there.
    pub needs: &'static [Need],
    /// It is killed, and has failed, after this time (times the bed's factor).
    pub timeout: Duration,
    /// See [`Case::keeps_once`].
    pub kept_once: u64,
    /// See [`Case::by_name`].
    pub by_name: bool,
    /// The test itself.
    pub run: fn(&mut Ctx) -> Result<()>,
}

impl Case {
    /// A case that needs nothing special and ends within a minute.
    pub const fn new(name: &'static str, run: fn(&mut Ctx) -> Result<()>) -> Self {
        Self {
            name,
            needs: &[],
            timeout: Duration::from_secs(60),
            kept_once: 0,
            by_name: false,
            run,
        }
    }

    /// With these needs.
    pub const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    /// With this time limit.
    pub const fn timeout_s(self, seconds: u64) -> Self {
        Self {
            timeout: Duration::from_secs(seconds),
            ..self
        }
    }

    /// With so many namespaces that the kernel may keep more than usual from the first time.
    pub const fn crowded(self) -> Self {
        self.keeps_once(128)
    }

    /// The kernel may keep so many objects of a cache from the first time that it does what the
    /// case asks for. If it leaves some it is run again, and then has to leave no more than any
    /// other.
    pub const fn keeps_once(self, objects: u64) -> Self {
        Self {
            kept_once: objects,
            ..self
        }
    }

    /// Whether a run that takes so much of the cases takes this one.
    pub fn is_taken(&self, take: Take, seed: u64) -> bool {
        match take {
            Take::All => true,
            Take::Fast => self.needs.contains(&Need::Speed),
            Take::Third => {
                let alone = |need: &Need| match need {
                    Need::Smp | Need::SignedModules | Need::Suspend | Need::Module(_) => true,
                    Need::VirtualTime | Need::Speed | Need::Program(_) => false,
                };
                // FNV-1a: a case stays where it is when others come.
                let hash = self
                    .name
                    .bytes()
                    .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
                    });
                self.needs.iter().any(alone) || hash % 3 == seed % 3
            }
        }
    }

    /// Run only by those who give its whole name: it takes long.
    pub const fn by_name(self) -> Self {
        Self {
            by_name: true,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_seeds_take_each_case() {
        let names = ["a/b", "a/c", "transport/smoke-ipv4", "gso/pieces"];
        for name in names {
            let case = Case::new(name, |_| Ok(()));
            let taken = |seed: &u64| case.is_taken(Take::Third, *seed);
            assert_eq!((5..8).filter(taken).count(), 1, "{name}");
            let only = case.needs(&[Need::Speed, Need::Smp]);
            assert_eq!(
                (5..8)
                    .filter(|seed| only.is_taken(Take::Third, *seed))
                    .count(),
                3
            );
            assert!(only.is_taken(Take::Fast, 1) && !case.is_taken(Take::Fast, 1));
        }
    }
}

/// What a running case is given.
#[derive(Debug)]
pub struct Ctx {
    /// Its name.
    pub name: &'static str,
    /// Random numbers of its own.
    pub rng: Rng,
    /// The seed they come from.
    pub seed: u64,
    events: Events,
}

impl Ctx {
    pub(super) fn new(name: &'static str, seed: u64) -> Self {
        Self {
            name,
            rng: Rng::new(seed, name),
            seed,
            events: Events::from_env(),
        }
    }

    /// Prints a remark to the log: a measured figure, a circumstance.
    pub fn note(&self, text: impl AsRef<str>) {
        println!("    {}: {}", self.name, text.as_ref());
    }

    /// Hands a file to the host.
    pub fn file(&self, name: &str, data: &str) {
        self.events.send(&Event::File {
            name: name.into(),
            data: data.into(),
        });
    }
}
