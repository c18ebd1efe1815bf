// SPDX-License-Identifier: GPL-2.0
//! How long messages are: all alike, as in the papers' traces, or as a file says.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use fastrand::Rng;
use turnstile_netlink::units;
use turnstile_socket::MAX_LENGTH;
use turnstile_workload::sizes::{at, mean, NAMED};

/// How long messages are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sizes {
    name: String,
    /// Bytes, and the share of messages that are no longer: both ascending, the last share is 1.
    points: Vec<(f64, f64)>,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Sizes {
    type Err = String;

    /// A size, a trace's name, or a file with lines of bytes and shares.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(trace) = NAMED.iter().find(|trace| trace.name == text) {
            let bytes = |(x, p): &(f64, f64)| (x * f64::from(trace.unit), *p);
            return Ok(Self {
                name: text.to_owned(),
                points: trace.points.iter().map(bytes).collect(),
            });
        }
        match units::parse_size(text) {
            Some(bytes) if (1..=MAX_LENGTH).contains(&bytes) => Ok(Self {
                name: units::size(bytes),
                points: vec![(bytes as f64, 0.0), (bytes as f64, 1.0)],
            }),
            Some(_) => Err(format!("not in 1b..{MAX_LENGTH}b")),
            None => Self::from_file(Path::new(text)),
        }
    }
}

impl Sizes {
    fn from_file(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            format!(
                "neither a size, nor one of {}, nor a file ({error})",
                NAMED.map(|trace| trace.name).join(", ")
            )
        })?;
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let at = at + 1;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let numbers: Vec<f64> = line
                .split_whitespace()
                .map_while(|word| word.parse().ok())
                .collect();
            let [bytes, share] = numbers[..] else {
                return Err(format!("line {at} is not a size in bytes and a share"));
            };
            if !(1.0..=MAX_LENGTH as f64).contains(&bytes) {
                return Err(format!("line {at}: {bytes} is not in 1..{MAX_LENGTH}"));
            }
            let (least, before) = points.last().copied().unwrap_or((1.0, 0.0));
            if bytes < least || share < before || share > 1.0 {
                return Err(format!(
                    "line {at}: sizes and shares must ascend, shares to 1"
                ));
            }
            points.push((bytes, share));
        }
        match points.last() {
            Some((_, 1.0)) => Ok(Self {
                name: path.display().to_string(),
                points,
            }),
            _ => Err("the last line\'s share is not 1".to_owned()),
        }
    }

    /// The mean, in bytes.
    pub(crate) fn mean(&self) -> f64 {
        mean(&self.points)
    }

    /// The length of a message.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        self.at(rng.f64())
    }

    /// The length that a share of all messages does not exceed.
    fn at(&self, share: f64) -> u64 {
        (at(&self.points, share).round() as u64).clamp(1, MAX_LENGTH)
    }
}

#[cfg(test)]
mod tests {
    use turnstile_workload::sizes::Trace;

    use super::*;

    fn sizes(text: &str) -> Sizes {
        text.parse().unwrap()
    }

    #[test]
    fn means_are_those_that_the_papers_state() {
        for (name, mean, tolerance) in [
            ("web-search", 1.65e6, 0.01),
            ("data-mining", 7.41e6, 0.01),
            ("64kb", 65536.0, 0.0),
        ] {
            let got = sizes(name).mean();
            assert!((got - mean).abs() <= mean * tolerance, "{name}: {got}");
        }
    }

    #[test]
    fn what_is_drawn_has_the_mean_and_the_shares() {
        for Trace { name, .. } in NAMED {
            let sizes = sizes(name);
            let mut rng = Rng::with_seed(1);
            let drawn: Vec<u64> = (0..400_000).map(|_| sizes.draw(&mut rng)).collect();
            let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
            assert!((mean / sizes.mean() - 1.0).abs() < 0.05, "{name}: {mean}");
            for (bytes, share) in &sizes.points[1..] {
                let below = drawn
                    .iter()
                    .filter(|size| **size as f64 <= bytes.round())
                    .count();
                let below = below as f64 / drawn.len() as f64;
                assert!((below - share).abs() < 0.005, "{name} {bytes}: {below}");
            }
        }
        assert_eq!(sizes("1kb").draw(&mut Rng::with_seed(1)), 1024);
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!(sizes("web-search").at(0.0), 8760);
        assert_eq!(sizes("web-search").at(1.0), 29_200_000);
        assert_eq!(sizes("imc10").at(0.55), 2190);
    }

    #[test]
    fn files() {
        let path = std::env::temp_dir().join(format!("turnstile-sizes-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().parse::<Sizes>()
        };
        let sizes = read("# two\n100 0.5\n\n300 1\n").unwrap();
        assert_eq!(
            (sizes.mean(), sizes.at(0.1), sizes.at(0.75)),
            (150.0, 100, 200)
        );
        for (text, says) in [
            ("100", "line 1 is not a size in bytes and a share"),
            ("100 0.5\nx 1", "line 2 is not"),
            ("0 1", "line 1: 0 is not in 1..1073741823"),
            ("100 0.5\n50 1", "line 2: sizes and shares must ascend"),
            ("100 0.5", "the last line's share is not 1"),
            ("", "the last line's share is not 1"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        std::fs::remove_file(&path).unwrap();
        let error = "web".parse::<Sizes>().unwrap_err();
        assert!(error.starts_with(
            "neither a size, nor one of web-search, data-mining, imc10, hadoop, cache-follower, \
             nor a file"
        ));
        assert_eq!(
            "2gb".parse::<Sizes>().unwrap_err(),
            "not in 1b..1073741823b"
        );
    }
}
