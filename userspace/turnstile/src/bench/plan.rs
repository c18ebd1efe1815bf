// SPDX-License-Identifier: GPL-2.0
//! Which messages are sent, when and to whom: decided beforehand, so that a seed says it all.

use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;

use super::sizes::Sizes;

/// How messages follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pattern {
    /// The next one when one is done, with --parallel of them under way
    Fixed,
    /// Rounds of --parallel messages at once; the next round when all of one are done
    Incast,
    /// At random times, as many as make up --load of --link, whether or not earlier ones are done
    Poisson,
}

/// What the plan is made from.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) pattern: Pattern,
    pub(crate) sizes: Sizes,
    /// Messages; of an incast, rounds.
    pub(crate) count: u32,
    pub(crate) parallel: u32,
    /// bytes/s that are offered (`Poisson`).
    pub(crate) rate: f64,
    /// Number of receivers.
    pub(crate) receivers: usize,
    pub(crate) seed: u64,
}

/// A message to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    /// When, from the beginning; only `Poisson` says it.
    pub(crate) at: Duration,
    /// Bytes.
    pub(crate) size: u64,
    /// Which receiver.
    pub(crate) to: usize,
    /// Which round; only `Incast` has more than one.
    pub(crate) round: u32,
}

/// All messages of a load, in the order of their times.
pub(crate) fn plan(load: &Load) -> Vec<Job> {
    let mut rng = Rng::with_seed(load.seed);
    let mut jobs = Vec::new();
    let mut at = 0.0;
    let per_round = match load.pattern {
        Pattern::Incast => load.parallel,
        _ => 1,
    };
    for round in 0..load.count {
        for n in 0..per_round {
            let size = load.sizes.draw(&mut rng);
            let (mut to, mut when, mut of) = (n as usize % load.receivers, Duration::ZERO, round);
            match load.pattern {
                Pattern::Incast => {}
                Pattern::Fixed => {
                    to = round as usize % load.receivers;
                    of = 0;
                }
                Pattern::Poisson => {
                    to = rng.usize(..load.receivers);
                    of = 0;
                    // Exponential times between arrivals; `f64` gives less than 1.
                    at -= (1.0 - rng.f64()).ln() * load.sizes.mean() / load.rate;
                    when = Duration::from_secs_f64(at);
                }
            }
            jobs.push(Job {
                at: when,
                size,
                to,
                round: of,
            });
        }
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(pattern: Pattern) -> Load {
        Load {
            pattern,
            sizes: "web-search".parse().unwrap(),
            count: 20_000,
            parallel: 4,
            rate: 0.6 * 1.25e9,
            receivers: 3,
            seed: 7,
        }
    }

    #[test]
    fn a_seed_says_it_all() {
        for pattern in [Pattern::Fixed, Pattern::Incast, Pattern::Poisson] {
            let one = plan(&load(pattern));
            assert_eq!(one, plan(&load(pattern)));
            let other = Load {
                seed: 8,
                ..load(pattern)
            };
            assert_ne!(one, plan(&other));
        }
    }

    #[test]
    fn poisson_arrivals_make_up_the_load() {
        let jobs = plan(&load(Pattern::Poisson));
        let seconds = jobs.last().unwrap().at.as_secs_f64();
        let bytes: u64 = jobs.iter().map(|job| job.size).sum();
        let rate = bytes as f64 / seconds;
        assert!((rate / 7.5e8 - 1.0).abs() < 0.05, "{rate}");
        assert!(jobs.windows(2).all(|pair| pair[0].at <= pair[1].at));
        // The spread of exponential times is their mean.
        let gaps: Vec<f64> = jobs
            .windows(2)
            .map(|p| (p[1].at - p[0].at).as_secs_f64())
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05);
        for to in 0..3 {
            let share = jobs.iter().filter(|job| job.to == to).count() as f64 / jobs.len() as f64;
            assert!((share - 1.0 / 3.0).abs() < 0.02, "{to}: {share}");
        }
    }

    #[test]
    fn rounds_of_an_incast() {
        let jobs = plan(&Load {
            count: 2,
            receivers: 1,
            ..load(Pattern::Incast)
        });
        let rounds: Vec<u32> = jobs.iter().map(|job| job.round).collect();
        assert_eq!(rounds, [0, 0, 0, 0, 1, 1, 1, 1]);
        assert!(jobs.iter().all(|job| job.to == 0 && job.at.is_zero()));
    }
}
