// SPDX-License-Identifier: GPL-2.0
//! Draws slowdowns, or completion times, over sizes: each message a dot, median and 99th percentile
//! as lines.

use std::error::Error;

use plotters::prelude::*;

use super::report::{percentile, Ideal};
use super::run::Run;

const SIZE: (u32, u32) = (900, 560);
/// More dots than that only hide each other.
const DOTS: usize = 4000;
/// Steps of sizes that a decade is divided into.
const STEPS: f64 = 4.0;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
// From a palette that colour-blind readers tell apart.
const MEDIAN: RGBColor = RGBColor(0, 84, 140);
const TAIL: RGBColor = RGBColor(190, 68, 2);

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
    let mut svg = String::new();
    paint(&points, y, title, &mut svg).map_err(|error| format!("cannot draw: {error}"))?;
    Ok(svg)
}

/// The powers of ten around all values.
fn decades(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (least, most) = values.fold((f64::MAX, 0f64), |(least, most), value| {
        (least.min(value), most.max(value))
    });
    let (low, high) = (least.log10().floor(), (most * 1.01).log10().ceil());
    10f64.powf(low)..10f64.powf(high.max(low + 1.0))
}

fn paint(
    points: &[(f64, f64)],
    y: &str,
    title: &str,
    svg: &mut String,
) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let text = |size: u32| (FONT, size).into_font().color(&INK);
    let mut chart = ChartBuilder::on(&root)
        .caption(title, text(18))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(
            decades(points.iter().map(|point| point.0)).log_scale(),
            decades(points.iter().map(|point| point.1)).log_scale(),
        )?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(INK.mix(0.12))
        .axis_style(INK.mix(0.5))
        .label_style(text(14))
        .axis_desc_style(text(14))
        .x_desc("message length, bytes")
        .y_desc(y)
        .draw()?;
    let every = points.len().div_ceil(DOTS);
    let dots = points.iter().step_by(every);
    chart.draw_series(dots.map(|point| Circle::new(*point, 2, INK.mix(0.15).filled())))?;
    for (percent, name, color) in [(50.0, "median", MEDIAN), (99.0, "99th percentile", TAIL)] {
        let line = line(points, percent);
        chart.draw_series(
            line.iter()
                .map(|point| Circle::new(*point, 3, color.filled())),
        )?;
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| {
                PathElement::new(vec![(x, y), (x + 18, y)], color.stroke_width(2))
            });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(text(14))
        .background_style(WHITE.mix(0.8))
        .draw()?;
    root.present()?;
    Ok(())
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
