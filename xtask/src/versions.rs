// SPDX-License-Identifier: GPL-2.0
//! Which of the suite's kernels to take, from what apt lists.

use std::cmp::Ordering;
use std::collections::HashMap;

/// The kernel series the project is tested with, most wanted first.
pub(crate) const TESTED: &[&str] = &["7.2"];
/// The series the modules are built for in every test run.
pub(crate) const BUILT: &[&str] = &["7.2", "7.3"];

/// A kernel for which modules can be built: its headers and the source of the same version are to
/// be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The version in package names, as `7.2.12+deb13`.
    pub version: String,
    /// The version of the packages, as `7.2.12-1~bpo13+1`.
    pub package_version: String,
    /// The packages that hold its image and modules; empty if it cannot be booted because one is
    /// missing.
    pub image: Vec<String>,
}

impl Kernel {
    /// The first two numbers, as `7.2`: what names the source package.
    pub(crate) fn series(&self) -> &str {
        series(&self.version)
    }

    /// What `uname -r` prints on it.
    pub(crate) fn release(&self) -> String {
        format!("{}-amd64", self.version)
    }

    /// Whether it has all packages that booting takes.
    pub(crate) fn boots(&self) -> bool {
        !self.image.is_empty()
    }
}

fn series(version: &str) -> &str {
    let mut dots = version.match_indices('.').map(|(at, _)| at);
    let end = dots.nth(1).unwrap_or(version.len());
    &version[..end]
}

/// The kernels in the output of `apt-cache madison` over all `linux-…` packages, newest first.
pub(crate) fn kernels(madison: &str) -> Vec<Kernel> {
    let mut versions: HashMap<&str, Vec<&str>> = HashMap::new();
    for line in madison.lines() {
        let mut fields = line.split('|').map(str::trim);
        if let (Some(name), Some(version)) = (fields.next(), fields.next()) {
            versions.entry(name).or_default().push(version);
        }
    }
    let has = |name: String| versions.contains_key(name.as_str()).then_some(name);
    let image = |version: &str| -> Vec<String> {
        // Since 7.1 the image comes in three packages and linux-image is only a name for them.
        let parts =
            ["binary", "modules", "base"].map(|p| has(format!("linux-{p}-{version}-amd64")));
        match parts {
            [Some(binary), Some(modules), base] => [Some(binary), Some(modules), base]
                .into_iter()
                .flatten()
                .collect(),
            [_, Some(_), _] => Vec::new(),
            _ => ["-unsigned", ""]
                .into_iter()
                .find_map(|suffix| has(format!("linux-image-{version}-amd64{suffix}")))
                .into_iter()
                .collect(),
        }
    };
    let mut found: Vec<Kernel> = versions
        .iter()
        .filter_map(|(name, package_versions)| {
            let version = name
                .strip_prefix("linux-headers-")?
                .strip_suffix("-amd64")?;
            // A dash would be a flavour (cloud, rt), a missing number a package that only depends
            // on another.
            if version.contains('-') || !version.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            let sources = versions.get(format!("linux-source-{}", series(version)).as_str())?;
            let package_version = package_versions.iter().find(|v| sources.contains(v))?;
            Some(Kernel {
                version: version.to_owned(),
                package_version: (*package_version).to_owned(),
                image: image(version),
            })
        })
        .collect();
    found.sort_by(|a, b| compare(&b.version, &a.version));
    found
}

/// Orders versions by their numbers, so that 7.2.12 comes after 7.2.9.
fn compare(a: &str, b: &str) -> Ordering {
    fn numbers(v: &str) -> impl Iterator<Item = u64> + '_ {
        v.split(|c: char| !c.is_ascii_digit())
            .filter_map(|n| n.parse().ok())
    }
    numbers(a).cmp(numbers(b)).then_with(|| a.cmp(b))
}

/// The kernels to try in turn, and why the first is the first.
///
/// `wanted` is a series (`7.3`) or a version (`7.2.12+deb13`) that the user named. `boot` leaves
/// out those that cannot be booted.
pub(crate) fn order(all: &[Kernel], wanted: Option<&str>, boot: bool) -> (Vec<Kernel>, String) {
    let fit = |kernel: &&Kernel| !boot || kernel.boots();
    if let Some(wanted) = wanted {
        let matches =
            |k: &&Kernel| k.series() == wanted || k.version == wanted || k.release() == wanted;
        let list = all.iter().filter(fit).filter(matches).cloned().collect();
        return (list, format!("{wanted} was asked for"));
    }
    let (tested, others): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(fit)
        .cloned()
        .partition(|k| TESTED.contains(&k.series()));
    let why = if tested.is_empty() {
        format!(
            "the newest with Rust; of the series the project is tested with ({}) none is to be had",
            TESTED.join(", ")
        )
    } else {
        format!(
            "the newest of the series the project is tested with ({})",
            TESTED.join(", ")
        )
    };
    (tested.into_iter().chain(others).collect(), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn madison(rows: &[(&str, &str)]) -> String {
        const REST: &str = "http://mirror.example/debian trixie-backports/main amd64 Packages";
        let line = |(name, version): &(&str, &str)| format!("{name:>40} | {version} | {REST}\n");
        rows.iter().map(line).collect::<Vec<_>>().concat()
    }

    /// As the suite stood when this was written: 7.3 has no image, 6.19 no headers, 6.12 the old
    /// layout.
    fn suite() -> String {
        let mut rows = vec![
            ("linux-source-7.2", "7.2.12-1~bpo13+1"),
            ("linux-source-7.2", "7.2.9-1~bpo13+1"),
            ("linux-source-7.3", "7.3.4-1~bpo13+1"),
            ("linux-source-6.12", "6.12.107-1"),
            ("linux-headers-7.2.12+deb13-amd64", "7.2.12-1~bpo13+1"),
            ("linux-headers-7.2.12+deb13-cloud-amd64", "7.2.12-1~bpo13+1"),
            ("linux-headers-7.2.9+deb13-amd64", "7.2.9-1~bpo13+1"),
            ("linux-headers-7.2.11+deb13-amd64", "7.2.11-1~bpo13+1"),
            ("linux-headers-7.3.4+deb13-amd64", "7.3.4-1~bpo13+1"),
            ("linux-headers-6.12.107+deb13-amd64", "6.12.107-1"),
            ("linux-headers-amd64", "7.2.12-1~bpo13+1"),
            ("linux-modules-7.3.4+deb13-amd64", "7.3.4-1~bpo13+1"),
            ("linux-base-7.3.4+deb13-amd64", "7.3.4-1~bpo13+1"),
            ("linux-image-6.12.107+deb13-amd64", "6.12.107-1"),
            ("linux-image-6.12.107+deb13-amd64-unsigned", "6.12.107-1"),
            ("linux-binary-6.19.14+deb13-amd64", "6.19.14-1~bpo13+1"),
        ];
        for part in [
            "linux-binary-7.2.12+deb13-amd64",
            "linux-modules-7.2.12+deb13-amd64",
            "linux-base-7.2.12+deb13-amd64",
            "linux-image-7.2.12+deb13-amd64",
            "linux-binary-7.2.9+deb13-amd64",
            "linux-modules-7.2.9+deb13-amd64",
        ] {
            rows.push((part, "7.2.x"));
        }
        madison(&rows)
    }

    #[test]
    fn only_complete_kernels_count_and_they_are_ordered_by_number() {
        let all = kernels(&suite());
        let names: Vec<_> = all.iter().map(|k| k.version.as_str()).collect();
        // 7.2.11 has no source of its version.
        assert_eq!(
            names,
            [
                "7.3.4+deb13",
                "7.2.12+deb13",
                "7.2.9+deb13",
                "6.12.107+deb13"
            ]
        );
        assert!(!all[0].boots(), "modules alone do not boot");
        assert_eq!(all[1].image.len(), 3);
        assert_eq!(all[2].image.len(), 2, "the base package may be missing");
        assert_eq!(all[3].image, ["linux-image-6.12.107+deb13-amd64-unsigned"]);
        assert_eq!(all[1].release(), "7.2.12+deb13-amd64");
    }

    #[test]
    fn the_tested_series_comes_first_though_a_newer_one_is_there() {
        let all = kernels(&suite());
        let (list, why) = order(&all, None, true);
        assert_eq!(list[0].version, "7.2.12+deb13");
        assert!(why.contains("tested with"), "{why}");
        // Not only to boot, the tested series still wins.
        assert_eq!(order(&all, None, false).0[0].version, "7.2.12+deb13");
    }

    #[test]
    fn without_the_tested_series_the_newest_that_boots_is_tried() {
        let all: Vec<_> = kernels(&suite())
            .into_iter()
            .filter(|k| k.series() != "7.2")
            .collect();
        let (list, why) = order(&all, None, true);
        assert_eq!(list[0].version, "6.12.107+deb13");
        assert!(why.contains("none is to be had"), "{why}");
        assert_eq!(order(&all, None, false).0[0].version, "7.3.4+deb13");
    }

    #[test]
    fn a_series_a_version_or_a_release_can_be_asked_for() {
        let all = kernels(&suite());
        for wanted in ["7.2.9+deb13", "7.2.9+deb13-amd64"] {
            assert_eq!(order(&all, Some(wanted), true).0[0].version, "7.2.9+deb13");
        }
        assert_eq!(order(&all, Some("7.3"), false).0.len(), 1);
        assert!(order(&all, Some("7.3"), true).0.is_empty());
        assert!(order(&all, Some("9.9"), false).0.is_empty());
    }
}
