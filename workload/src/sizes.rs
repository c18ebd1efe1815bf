// SPDX-License-Identifier: GPL-2.0
//! How long messages are, by the papers' traces.
//!
//! The traces are those of pFabric's simulations (Alizadeh et al., SIGCOMM 2013), which pHost
//! (CoNEXT 2015, which TOP takes them from, section 5.1), ExpressPass and others run too: packets
//! of 1460 bytes, and the share of messages that are no longer. There is a second form of the web
//! search in circulation, rounded to whole kilobytes and from 0 on, whose mean is 1.71 MB; this one
//! has 1.67 MB and 7.47 MB (data mining), where ExpressPass (section 6.3) states 1.65 MB and
//! 7.41 MB.

/// Lengths, and the share of messages that are no longer: both ascend, and the last share is 1.
/// Between two points the shares are linear; two of the same length are a step.
pub type Points = [(f64, f64)];

/// Bytes of a packet of the traces.
pub const PACKET: u32 = 1460;

/// Web search: queries, short messages and background of a cluster of DCTCP's authors (Alizadeh et
/// al., SIGCOMM 2010, figure 4). In packets. Half are below 80 KB, and the longest tenth carries
/// nearly all.
pub const WEB_SEARCH: &Points = &[
    (6.0, 0.0),
    (6.0, 0.15),
    (13.0, 0.2),
    (19.0, 0.3),
    (33.0, 0.4),
    (53.0, 0.53),
    (133.0, 0.6),
    (667.0, 0.7),
    (1333.0, 0.8),
    (3333.0, 0.9),
    (6667.0, 0.97),
    (20_000.0, 1.0),
];

/// Data mining (Greenberg et al., VL2, SIGCOMM 2009, figure 2). In packets.
pub const DATA_MINING: &Points = &[
    (1.0, 0.0),
    (1.0, 0.5),
    (2.0, 0.6),
    (3.0, 0.7),
    (7.0, 0.8),
    (267.0, 0.9),
    (2107.0, 0.95),
    (66_667.0, 0.99),
    (666_667.0, 1.0),
];

/// Network traffic characteristics of data centers in the wild (Benson, Akella, Maltz; IMC 2010).
/// In packets.
pub const IMC10: &Points = &[
    (1.0, 0.0),
    (1.0, 0.5),
    (2.0, 0.6),
    (3.0, 0.7),
    (5.0, 0.75),
    (7.0, 0.8),
    (40.0, 0.8125),
    (72.0, 0.825),
    (137.0, 0.85),
    (267.0, 0.9),
    (1187.0, 0.95),
    (2107.0, 1.0),
];

/// A Hadoop cluster of Facebook's (Roy et al., Inside the Social Network's (Datacenter) Network,
/// SIGCOMM 2015, figure 6), as HPCC's authors have read it off (SIGCOMM 2019, section 5.1). In
/// bytes. Half are below 700 B.
pub const HADOOP: &Points = &[
    (1.0, 0.0),
    (100.0, 0.01),
    (200.0, 0.02),
    (300.0, 0.05),
    (350.0, 0.15),
    (400.0, 0.2),
    (500.0, 0.3),
    (600.0, 0.4),
    (700.0, 0.5),
    (1000.0, 0.6),
    (2000.0, 0.67),
    (7000.0, 0.7),
    (30_000.0, 0.72),
    (50_000.0, 0.82),
    (80_000.0, 0.87),
    (120_000.0, 0.9),
    (300_000.0, 0.95),
    (1_000_000.0, 0.975),
    (2_000_000.0, 0.99),
    (10_000_000.0, 1.0),
];

/// Cache followers of Facebook's (the same, figure 6): in packets, rounded, and with the tail that
/// simulations add to it. A third are of one packet, and those of 1 to 4 MB carry nearly all.
pub const CACHE_FOLLOWER: &Points = &[
    (1.0, 0.0),
    (1.0, 0.36),
    (2.0, 0.4),
    (7.0, 0.46),
    (13.0, 0.5),
    (67.0, 0.6),
    (133.0, 0.7),
    (667.0, 0.78),
    (1333.0, 0.8),
    (2000.0, 0.9),
    (2667.0, 0.99),
    (33_333.0, 1.0),
];

/// A trace.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// Its name.
    pub name: &'static str,
    /// The lengths, in units.
    pub points: &'static Points,
    /// Bytes of a unit: every message is a whole number of them.
    pub unit: u32,
}

const fn trace(name: &'static str, points: &'static Points, unit: u32) -> Trace {
    Trace { name, points, unit }
}

/// The traces by name.
pub const NAMED: [Trace; 5] = [
    trace("web-search", WEB_SEARCH, PACKET),
    trace("data-mining", DATA_MINING, PACKET),
    trace("imc10", IMC10, PACKET),
    trace("hadoop", HADOOP, 1),
    trace("cache-follower", CACHE_FOLLOWER, PACKET),
];

/// The length that a share of all messages does not exceed.
pub fn at(points: &Points, share: f64) -> f64 {
    match points.iter().position(|(_, upto)| *upto > share) {
        Some(0) => points[0].0,
        Some(next) => {
            let ((x0, p0), (x1, p1)) = (points[next - 1], points[next]);
            x0 + (x1 - x0) * (share - p0) / (p1 - p0)
        }
        None => points.last().map_or(0.0, |(x, _)| *x),
    }
}

/// The mean length.
pub fn mean(points: &Points) -> f64 {
    let first = points.first().map_or(0.0, |(x, p)| x * p);
    let rest = points.windows(2).map(|pair| {
        let ((x0, p0), (x1, p1)) = (pair[0], pair[1]);
        (p1 - p0) * (x0 + x1) / 2.0
    });
    first + rest.sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_that_the_papers_state() {
        for (points, paper) in [(WEB_SEARCH, 1.65e6), (DATA_MINING, 7.41e6)] {
            let got = mean(points) * f64::from(PACKET);
            assert!((got / paper - 1.0).abs() < 0.01, "{got}");
        }
    }

    #[test]
    fn traces_ascend_to_1() {
        for Trace { name, points, .. } in NAMED {
            assert_eq!(points.last().map(|point| point.1), Some(1.0), "{name}");
            let ascend = |pair: &[(f64, f64)]| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1;
            assert!(points.windows(2).all(ascend), "{name}");
        }
    }

    #[test]
    fn lengths_are_linear_between_points() {
        assert_eq!(at(WEB_SEARCH, 0.0), 6.0);
        assert_eq!(at(WEB_SEARCH, 0.14), 6.0);
        assert_eq!(at(WEB_SEARCH, 0.25), 16.0);
        assert_eq!(at(WEB_SEARCH, 1.0), 20_000.0);
        assert_eq!(at(&[(100.0, 0.5), (300.0, 1.0)], 0.1), 100.0);
        assert_eq!(mean(&[(100.0, 0.5), (300.0, 1.0)]), 150.0);
    }
}
