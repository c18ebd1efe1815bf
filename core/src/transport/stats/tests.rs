// SPDX-License-Identifier: GPL-2.0
use std::collections::HashSet;
use std::vec::Vec;

use super::*;

#[test]
fn each_counter_has_its_number_a_name_of_its_own_and_a_text() {
    let mut names = HashSet::new();
    for (n, &counter) in Counter::ALL.iter().enumerate() {
        assert_eq!(counter as usize, n);
        assert!(names.insert(counter.name()), "{counter:?}");
        let plain = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(counter.name().chars().all(plain), "{counter:?}");
        assert!(counter.doc().trim().ends_with('.'), "{counter:?}");
    }
    assert_eq!(Counter::ALL.len(), COUNTERS);
}

#[test]
fn each_counts_for_itself() {
    let mut stats = Stats::new();
    for (n, &counter) in (1_u64..).zip(Counter::ALL) {
        stats.count(counter);
        stats.add(counter, n);
    }
    let seen: Vec<_> = stats.iter().collect();
    assert_eq!(seen.len(), COUNTERS);
    for (n, (counter, value)) in (1_u64..).zip(seen) {
        assert_eq!((value, stats.get(counter)), (n + 1, n + 1), "{counter:?}");
    }
}

#[test]
fn causes_have_the_counters_of_their_names() {
    for field in Malformed::ALL {
        let name = Counter::malformed(field).name();
        assert_eq!(name.strip_prefix("malformed_"), Some(field.cause()));
    }
    for code in ResetCode::ALL {
        let sent = Counter::reset_sent(code).name().strip_prefix("reset_sent_");
        let received = Counter::reset_received(code).name();
        assert_eq!(sent, received.strip_prefix("reset_received_"));
        assert!(sent.is_some());
    }
    let resets: HashSet<_> = ResetCode::ALL.map(Counter::reset_sent).into();
    assert_eq!(resets.len(), 6);
}
