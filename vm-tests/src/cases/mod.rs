// SPDX-License-Identifier: GPL-2.0
//! The test cases, one file per theme. To add a theme: a file with `pub(in crate::cases) const
//! CASES`, its
//! `mod` line here, and its name in [`all`]. `README.md` shows a case.

use crate::harness::Case;

mod fuzz;
mod guest;
mod knet;
mod pacer;
mod port;
mod prompt;
mod support;
mod tools;
mod transport;

/// The cases of every file, in the order they are run.
const ALL: &[&[Case]] = &[
    guest::CASES,
    port::options::CASES,
    port::tc_configs::CASES,
    port::behaviour::CASES,
    port::sharing::CASES,
    port::signals::CASES,
    port::classify::CASES,
    port::dump::CASES,
    port::refused::CASES,
    port::placement::CASES,
    port::placement::unresolved::CASES,
    port::queues::CASES,
    port::accounting::CASES,
    port::trees::CASES,
    port::trees::expired::CASES,
    port::churn::CASES,
    knet::CASES,
    port::gso::CASES,
    port::pieces::CASES,
    port::pauses::CASES,
    port::pausing::CASES,
    port::marking::CASES,
    port::marking::dctcp::CASES,
    port::marking::phantom::CASES,
    port::marking::ren::CASES,
    pacer::CASES,
    port::timing::CASES,
    transport::timing::CASES,
    tools::CASES,
    prompt::CASES,
    transport::netlink::CASES,
    transport::hostile::CASES,
    transport::CASES,
    transport::sizes::CASES,
    transport::reading::CASES,
    transport::receiving::CASES,
    transport::held::CASES,
    transport::growing::CASES,
    transport::streaming::CASES,
    transport::kernel::CASES,
    transport::errors::CASES,
    transport::options::CASES,
    transport::ends::CASES,
    transport::names::CASES,
    transport::sharing::CASES,
    transport::memory::CASES,
    transport::reports::CASES,
    transport::many::CASES,
    transport::marks::CASES,
    transport::rates::CASES,
    transport::identity::CASES,
    transport::sockets::CASES,
    transport::below::CASES,
    transport::path::CASES,
    transport::paused::CASES,
    transport::packets::CASES,
    transport::pages::CASES,
    transport::sealed::CASES,
    transport::port::CASES,
    transport::uplinks::CASES,
    transport::dead::CASES,
    transport::closed::CASES,
    transport::forged::CASES,
    transport::outage::CASES,
    transport::churn::CASES,
    transport::crowded::CASES,
    transport::tokens::CASES,
    transport::turns::CASES,
    transport::trains::CASES,
    transport::unasked::CASES,
    transport::programs::CASES,
    transport::zerocopy::CASES,
    fuzz::CASES,
];

/// Every case, in the order they are run.
pub fn all() -> Vec<&'static Case> {
    ALL.iter().copied().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn theme(case: &Case) -> &str {
        case.name.rsplit_once('/').expect(case.name).0
    }

    #[test]
    fn names_are_unique_and_made_of_small_letters_digits_and_dashes() {
        let mut seen = BTreeSet::new();
        for case in all() {
            assert!(seen.insert(case.name), "{} is there twice", case.name);
            for part in case.name.split('/') {
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                assert!(!part.is_empty() && part.chars().all(plain), "{}", case.name);
            }
        }
    }

    #[test]
    fn a_file_has_one_theme() {
        for cases in ALL {
            for case in *cases {
                assert_eq!(theme(case), theme(&cases[0]), "{}", case.name);
            }
        }
    }
}
