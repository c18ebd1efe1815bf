// SPDX-License-Identifier: GPL-2.0
//! Draws slowdowns, or completion times, over sizes: each message a dot, median and 99th percentile
//! as lines.

use turnstile_plot::{color, logarithmic, Axis, Color, Key, Layer, Panel, Picture, Row};
use turnstile_workload::figures::percentile;

use super::report::Ideal;
use super::run::Run;

/// Height of the panel, px.
const HEIGHT: u32 = 520;
/// More dots than that only hide each other.
const DOTS: usize = 4000;
/// Steps of sizes that a decade is divided into.
const STEPS: f64 = 4.0;
/// The lines: a percentile, its name and its colour.
const LINES: [(f64, &str, Color); 2] = [
    (50.0, "median", color::SERIES[0]),
    (99.0, "99th percentile", color::SERIES[1]),
];

/// A line of points, for each step of sizes that has messages.
fn line(points: &[(f64, f64)], percent: f64) -> Vec<(f64, f64)> {
    let step = |size: f64| (size.log10() * STEPS).floor() as i64;
    let mut steps: std::collections::BTreeMap<i64, Vec<(f64, f64)>> =
        std::collections::BTreeMap::new();
    for point in points {
        steps.entry(step(point.0)).or_default().push(*point);
    }
    let lines = steps.into_values().map(|mut points| {
        points.sort_unstable_by(|a, b| a.1.total_cmp(&b.1));
        let logs: f64 = points.iter().map(|(size, _)| size.log10()).sum();
        let size = 10f64.powf(logs / points.len() as f64);
        (size, percentile(&points, percent).1)
    });
    lines.collect()
}

/// The picture, as the text of an SVG file.
pub(crate) fn draw(run: &Run, ideal: Option<Ideal>, title: &str) -> Result<String, String> {
    let good = run.samples.iter().filter_map(|sample| {
        let took = *sample.took.as_ref().ok()?;
        let value = match ideal {
            Some(ideal) => ideal.slowdown(sample.job.size, took),
            None => took.as_secs_f64() * 1e6,
        };
        // What takes no time has no place on a logarithmic axis.
        (value > 0.0).then_some((sample.job.size as f64, value))
    });
    let points: Vec<(f64, f64)> = good.collect();
    if points.is_empty() {
        return Err("there is nothing to draw: no message was delivered".to_owned());
    }
    let y = if ideal.is_some() {
        "slowdown"
    } else {
        "completion time, us"
    };
    let spans = [
        logarithmic(points.iter().map(|point| point.0)),
        logarithmic(points.iter().map(|point| point.1)),
    ];
    let every = points.len().div_ceil(DOTS);
    let dots = points.iter().copied().step_by(every).collect();
    let mut layers = vec![Layer::Dots(dots, 2, color::GRAY)];
    for (percent, _, color) in LINES {
        let line = line(&points, percent);
        layers.push(Layer::Dots(line.clone(), 3, color));
        layers.push(Layer::Line(line, color));
    }
    let picture = Picture {
        title: title.to_owned(),
        legend: LINES.map(|(_, name, color)| Key::new(name, color)).into(),
        rows: vec![Row {
            height: HEIGHT,
            panels: vec![Panel {
                x: Axis::log("message length, bytes", spans[0]),
                y: Axis::log(y, spans[1]),
                layers,
                ..Panel::default()
            }],
            ..Row::default()
        }],
        ..Picture::default()
    };
    picture.svg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::{run, IDEAL};

    #[test]
    fn a_picture() {
        let run = run(&[1000, 2000, 50_000, 2_000_000]);
        let svg = draw(&run, Some(IDEAL), "web-search over turnstile").unwrap();
        for part in [
            "slowdown",
            "message length, bytes",
            "web-search over turnstile",
            "99th percentile",
        ] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(svg.matches("<circle").count() >= 4);
        assert!(draw(&run, None, "x")
            .unwrap()
            .contains("completion time, us"));
    }

    #[test]
    fn lines_of_percentiles() {
        let mut points: Vec<(f64, f64)> = (1..=100).map(|n| (1000.0, f64::from(n))).collect();
        points.push((1e6, 7.0));
        let medians = line(&points, 50.0);
        assert_eq!(medians.len(), 2);
        assert_eq!((medians[0].0.round(), medians[0].1), (1000.0, 50.0));
        assert_eq!(line(&points, 99.0)[0].1, 99.0);
    }

    #[test]
    fn nothing_to_draw() {
        let nothing = Run {
            samples: vec![],
            lasted: std::time::Duration::ZERO,
        };
        assert!(draw(&nothing, None, "x")
            .unwrap_err()
            .starts_with("there is nothing to draw"));
    }
}
