// SPDX-License-Identifier: GPL-2.0
//! The load of HULL section 6.2, and the prediction of its model (section 3.2).

use std::collections::VecDeque;

use super::hull::RATE;
use crate::rng::Rng;
use crate::traffic::messages::Message;

/// Bytes of a long answer.
pub(super) const LARGE: u64 = 10_000_000;
/// Of a short one.
pub(super) const SMALL: u64 = 1_000;
/// Long answers.
const COUNT: usize = 16;
/// Short ones for each of them.
const SHORT: usize = 40;
/// Number of draws, of which the most typical is used.
const DRAWS: usize = 2_000;

/// ns that a long answer fills the link: 1448 of 1538 bytes of a full packet are payload.
fn work() -> f64 {
    let wire = LARGE + LARGE.div_ceil(1448) * 90;
    wire as f64 * 8e9 / RATE as f64
}

/// Eq. 3: the slowdown of a long flow by headroom. `gamma` is the part of the link that the flows
/// get together, `rho` the load.
pub(super) fn slowdown(gamma: f64, rho: f64) -> f64 {
    (1.0 - rho) / (gamma - rho)
}

/// The requests.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) messages: Vec<Message>,
    /// ns from the beginning until requests end.
    pub(super) span: u64,
    /// When the long ones are requested, ns, ascending.
    arrivals: Vec<f64>,
}

impl Load {
    pub(super) const NOTE: &'static str =
        "requests are Poisson, each to a random one of 9 servers \
                                           with 16 connections each, that are up beforehand; load: \
                                           of the link, by the wire bytes of \
         what is 10 MB long. There are 40 requests for 1 KB to each for 10 MB in place of 4, so \
         that a 99th percentile is one: they are a 250th of the bytes. As so few long ones can \
         have \
         any mean, the arrivals are, of 2000 draws, those for which ideal sharing (section 3.2) \
         gives the mean nearest to that of endless ones, eq. 1; every scheme has the same. \
         A request's own way, which is idle, is added to each time";

    /// At `percent` of the link, from `servers` to the host behind them.
    pub(super) fn draw(rng: &mut Rng, servers: usize, percent: u32) -> Self {
        let rho = f64::from(percent) / 100.0;
        let span = COUNT as f64 * work() / rho;
        let mut best: Option<(f64, Vec<f64>)> = None;
        for _ in 0..DRAWS {
            // Poisson arrivals of which the number is known are uniform.
            let mut arrivals: Vec<f64> = (0..COUNT)
                .map(|_| rng.range(0..=span as u64) as f64)
                .collect();
            arrivals.sort_by(f64::total_cmp);
            let off = (shared(&arrivals, work(), 1.0) * (1.0 - rho) / work() - 1.0).abs();
            if best.as_ref().is_none_or(|(least, _)| off < *least) {
                best = Some((off, arrivals));
            }
        }
        let (_, arrivals) = best.unwrap_or_default();
        let mut messages: Vec<Message> = arrivals
            .iter()
            .map(|at| Message::new(rng.index(servers), servers, LARGE).at(*at as u64))
            .collect();
        let at: Vec<u64> = (0..COUNT * SHORT)
            .map(|_| rng.range(0..=span as u64))
            .collect();
        messages.extend(
            at.into_iter()
                .map(|at| Message::new(rng.index(servers), servers, SMALL).at(at)),
        );
        Self {
            messages,
            span: span as u64,
            arrivals,
        }
    }

    /// How many are long.
    pub(super) fn large(&self) -> usize {
        self.arrivals.len()
    }

    /// The mean time of the long ones, ns, if they shared `gamma` of the link ideally.
    pub(super) fn shared(&self, gamma: f64) -> f64 {
        shared(&self.arrivals, work(), gamma)
    }
}

/// Section 3.2's model, processor sharing: all present jobs get the same. Returns the mean time of
/// jobs of `work` each, at total speed 1.
fn shared(arrivals: &[f64], work: f64, speed: f64) -> f64 {
    let mut coming = arrivals.iter().copied().peekable();
    // Arrival and remaining work; all need the same, so that the first is done first.
    let mut there: VecDeque<(f64, f64)> = VecDeque::new();
    let (mut now, mut total) = (0.0, 0.0);
    loop {
        let each = speed / there.len().max(1) as f64;
        let end = there.front().map(|(_, left)| now + left / each);
        let next = match (coming.peek(), end) {
            (Some(&at), Some(end)) => at.min(end),
            (Some(&at), None) => at,
            (None, Some(end)) => end,
            (None, None) => break,
        };
        for (_, left) in &mut there {
            *left -= (next - now) * each;
        }
        now = next;
        if coming.next_if(|at| *at <= now).is_some() {
            there.push_back((now, work));
        } else if let Some((came, _)) = there.pop_front() {
            total += now - came;
        }
    }
    total / arrivals.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharing_is_equal() {
        assert_eq!(shared(&[0.0], 10.0, 1.0), 10.0);
        assert_eq!(shared(&[0.0], 10.0, 0.5), 20.0);
        // Alone for 5, shared for 10, alone for 5: 15 each.
        assert_eq!(shared(&[0.0, 5.0], 10.0, 1.0), 15.0);
        assert_eq!(shared(&[0.0, 50.0], 10.0, 1.0), 10.0);
    }

    #[test]
    fn eq_3_has_the_papers_examples() {
        for (rho, expected) in [(0.2, 1.33), (0.4, 1.5), (0.6, 2.0)] {
            assert!((slowdown(0.8, rho) - expected).abs() < 0.005);
        }
    }

    #[test]
    fn the_load_is_typical() {
        let mut rng = Rng::new(1, "load");
        for percent in [20, 40, 60] {
            let rho = f64::from(percent) / 100.0;
            let load = Load::draw(&mut rng, 9, percent);
            let bits: f64 = load.large() as f64 * work();
            assert!((bits / load.span as f64 - rho).abs() < 1e-3);
            assert!((load.shared(1.0) * (1.0 - rho) / work() - 1.0).abs() < 0.02);
            assert_eq!(load.messages.len(), COUNT * (SHORT + 1));
        }
    }
}
