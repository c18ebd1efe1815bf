// SPDX-License-Identifier: GPL-2.0
//! Which mutants are taken.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// A mutant, by what cargo-mutants calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    /// `core/src/shaper.rs:12:5: replace Shaper::ready -> bool with true`.
    pub(super) name: String,
    /// Its file, from the checkout's root.
    pub(super) file: String,
    /// What is done to it.
    pub(super) what: String,
    /// The package.
    pub(super) package: String,
}

impl Mutant {
    /// Of a line of `cargo mutants --list`.
    pub(super) fn parse(line: &str, package: &str) -> Option<Self> {
        let (place, what) = line.split_once(": ")?;
        let (file, _) = place.split_once(':')?;
        Some(Self {
            name: line.to_owned(),
            file: file.to_owned(),
            what: what.to_owned(),
            package: package.to_owned(),
        })
    }
}

/// Is the file this one, or in this folder? The tests of a module are in its folder, and the module
/// itself in a file beside it: both belong to it.
pub(super) fn is_in(file: &str, within: &str) -> bool {
    match file.strip_prefix(within) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

/// Is it known to behave as the original does?
pub(super) fn is_equivalent(mutant: &Mutant, known: &str) -> bool {
    let name = format!("{}: {}", mutant.file, mutant.what);
    known.lines().any(|line| line == name)
}

/// `count` of them, in their order; all if `count` is 0. Each is taken or not by its own name, and
/// not by its line: what is inserted above it changes nothing.
pub(super) fn choose(mut all: Vec<Mutant>, seed: u64, count: usize) -> Vec<Mutant> {
    all.dedup_by(|a, b| a.name == b.name);
    if count == 0 || count >= all.len() {
        return all;
    }
    let mut drawn: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(at, mutant)| {
            let mut hash = Sha256::new();
            hash.update(seed.to_le_bytes());
            hash.update(&mutant.file);
            hash.update([0]);
            hash.update(&mutant.what);
            (hash.finalize(), at)
        })
        .collect();
    drawn.sort_unstable();
    drawn.truncate(count);
    let mut taken: Vec<usize> = drawn.into_iter().map(|(_, at)| at).collect();
    taken.sort_unstable();
    let mut taken = taken.into_iter().peekable();
    let mut at = 0;
    all.retain(|_| {
        let is_taken = taken.next_if_eq(&at).is_some();
        at += 1;
        is_taken
    });
    all
}

/// Groups, by what they have in common.
pub(super) fn by<K: Ord>(
    mutants: &[Mutant],
    key: impl Fn(&Mutant) -> K,
) -> BTreeMap<K, Vec<Mutant>> {
    let mut groups: BTreeMap<K, Vec<Mutant>> = BTreeMap::new();
    for mutant in mutants {
        groups.entry(key(mutant)).or_default().push(mutant.clone());
    }
    groups
}

/// A regular expression that matches the names of these, and no others.
pub(super) fn pattern(mutants: &[&Mutant]) -> String {
    let names: Vec<String> = mutants.iter().map(|mutant| escape(&mutant.name)).collect();
    format!("^(?:{})$", names.join("|"))
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if r"\.+*?()|[]{}^$#&-~/".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(line: usize, what: &str) -> Mutant {
        Mutant::parse(&format!("core/src/a.rs:{line}:5: {what}"), "core").unwrap()
    }

    fn many() -> Vec<Mutant> {
        (0..200)
            .map(|n| mutant(n, &format!("replace f{n} -> u32 with 0")))
            .collect()
    }

    #[test]
    fn a_line_is_read() {
        let mutant = mutant(12, "replace < with <= in f");
        assert_eq!(mutant.file, "core/src/a.rs");
        assert_eq!(mutant.what, "replace < with <= in f");
        assert_eq!(Mutant::parse("Found 12 mutants", "core"), None);
    }

    #[test]
    fn a_seed_takes_the_same_again_and_another_takes_others() {
        let one = choose(many(), 1, 20);
        assert_eq!(one.len(), 20);
        assert_eq!(one, choose(many(), 1, 20));
        assert_ne!(one, choose(many(), 2, 20));
        assert_eq!(choose(many(), 1, 0).len(), 200);
        assert_eq!(choose(many(), 1, 500).len(), 200);
        // Fewer are some of them.
        assert!(choose(many(), 1, 10)
            .iter()
            .all(|mutant| one.contains(mutant)));
    }

    #[test]
    fn lines_that_move_change_nothing() {
        let mut moved = many();
        for (n, mutant) in moved.iter_mut().enumerate() {
            mutant.name = format!("core/src/a.rs:{}:5: {}", n + 7, mutant.what);
        }
        let what = |mutants: Vec<Mutant>| mutants.into_iter().map(|m| m.what).collect::<Vec<_>>();
        assert_eq!(what(choose(moved, 1, 20)), what(choose(many(), 1, 20)));
    }

    #[test]
    fn files_are_in_folders_and_not_in_what_begins_alike() {
        assert!(is_in("core/src/port/line.rs", "core/src/port"));
        assert!(is_in("core/src/port.rs", "core/src/port.rs"));
        assert!(!is_in("core/src/port.rs", "core/src/port"));
        assert!(!is_in("core/src/portable/a.rs", "core/src/port"));
    }

    #[test]
    fn equivalent_ones_are_known_wherever_they_are() {
        let known = "# why\ncore/src/a.rs: replace < with <= in f\n";
        assert!(is_equivalent(&mutant(3, "replace < with <= in f"), known));
        assert!(!is_equivalent(&mutant(3, "replace < with > in f"), known));
    }

    #[test]
    fn a_pattern_has_nothing_but_the_names() {
        let a = mutant(1, "replace f -> Option<u32> with Some(0)");
        assert_eq!(
            pattern(&[&a]),
            r"^(?:core\/src\/a\.rs:1:5: replace f \-> Option<u32> with Some\(0\))$"
        );
    }
}
