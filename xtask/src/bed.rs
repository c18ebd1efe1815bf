// SPDX-License-Identifier: GPL-2.0
//! The kernels that the same tests run on, and what each of them is made of and run by.
//! `beds/README.md` says why.

use clap::ValueEnum;

/// A kernel to run the tests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Bed {
    /// Debian's stock kernel in QEMU, several CPUs
    Vm,
    /// User-Mode Linux in virtual time: exact to the nanosecond, the same bytes from every run
    Virtual,
    /// The same with KASAN, lockdep and more
    Sanitize,
    /// KASAN, lockdep and more in QEMU, two CPUs: slow, so only where it is named
    SanitizeSmp,
    /// vm, virtual and sanitize
    All,
}

/// How a kernel is built from the distribution's source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    /// Files below `beds/` that make its configuration, in their order.
    pub(crate) configs: &'static [&'static str],
    /// Arguments of every `make` over it.
    pub(crate) args: &'static [&'static str],
    /// What make is asked for, and the kernel that comes out.
    pub(crate) target: &'static str,
}

impl Bed {
    /// Its name on the command line, in logs and in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Vm => "vm",
            Self::Virtual => "virtual",
            Self::Sanitize => "sanitize",
            Self::SanitizeSmp => "sanitize-smp",
            Self::All => "all",
        }
    }

    /// The beds that a list of them names, each once, in the order in which they are run.
    pub(crate) fn chosen(list: &[Self]) -> Vec<Self> {
        let mut beds: Vec<Self> = list
            .iter()
            .flat_map(|bed| match bed {
                Self::All => vec![Self::Vm, Self::Virtual, Self::Sanitize],
                bed => vec![*bed],
            })
            .collect();
        beds.sort_unstable();
        beds.dedup();
        beds
    }

    /// How its kernel is built; `None` for the stock kernel, which is not.
    pub(crate) fn recipe(self) -> Option<Recipe> {
        match self {
            Self::Vm | Self::All => None,
            Self::Virtual => Some(Recipe {
                configs: &["virtual/kernel.config", "guest.config"],
                args: &["ARCH=um"],
                target: "linux",
            }),
            Self::Sanitize => Some(Recipe {
                configs: &[
                    "sanitize/kernel.config",
                    "sanitize/detectors.config",
                    "guest.config",
                ],
                args: &["ARCH=um", "LLVM=1"],
                target: "linux",
            }),
            Self::SanitizeSmp => Some(Recipe {
                configs: &[
                    "sanitize/smp.config",
                    "sanitize/detectors.config",
                    "guest.config",
                ],
                args: &["ARCH=x86", "LLVM=1"],
                target: "vmlinux",
            }),
        }
    }

    /// Whether its kernel is a program of the host with a simulated clock.
    pub(crate) fn is_simulated(self) -> bool {
        matches!(self, Self::Virtual | Self::Sanitize)
    }

    /// Whether its kernel has the detectors of memory, locking and context errors.
    pub(crate) fn has_detectors(self) -> bool {
        matches!(self, Self::Sanitize | Self::SanitizeSmp)
    }
}

impl std::fmt::Display for Bed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_three_beds_and_none_is_run_twice() {
        let three = [Bed::Vm, Bed::Virtual, Bed::Sanitize];
        assert_eq!(Bed::chosen(&[Bed::All]), three);
        assert_eq!(Bed::chosen(&[Bed::Sanitize, Bed::All, Bed::Vm]), three);
        assert_eq!(
            Bed::chosen(&[Bed::SanitizeSmp, Bed::Virtual]),
            [Bed::Virtual, Bed::SanitizeSmp]
        );
    }

    #[test]
    fn every_bed_is_called_what_its_argument_is() {
        for bed in Bed::value_variants() {
            assert_eq!(
                bed.to_possible_value().map(|v| v.get_name().to_owned()),
                Some(bed.name().to_owned())
            );
        }
    }
}
