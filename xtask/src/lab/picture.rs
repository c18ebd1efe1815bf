// SPDX-License-Identifier: GPL-2.0
//! Draws an experiment's plots into one picture, two side by side.

use anyhow::{anyhow, Result};
use turnstile_plot::{color, steps, upwards, Axis, Key, Layer, Panel, Picture, Row};
use turnstile_test_protocol::lab::{Findings, Plot, Style};

/// Height of a row of plots, px.
const ROW: u32 = 360;
/// So many points of a line, and no more, are dots too.
const DOTS: usize = 12;

/// The picture, as the text of an SVG file.
///
/// # Errors
/// The figures cannot be drawn.
pub(super) fn draw(findings: &Findings) -> Result<String> {
    let picture = Picture {
        title: findings.title.clone(),
        below: format!(
            "{}, in virtual time on {}. {}",
            findings.name, findings.kernel, findings.source
        ),
        rows: findings
            .plots
            .chunks(2)
            .map(|pair| Row {
                height: ROW,
                panels: pair.iter().map(panel).collect(),
                ..Row::default()
            })
            .collect(),
        ..Picture::default()
    };
    picture.svg().map_err(|why| anyhow!(why))
}

fn panel(plot: &Plot) -> Panel {
    let all = || plot.series.iter().flat_map(|series| &series.points);
    let right = all().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max);
    let heights = plot.levels.iter().map(|(_, height)| *height);
    let span = upwards(all().map(|(_, y)| *y).chain(heights));
    let levels = plot.levels.iter();
    let mut layers: Vec<Layer> = levels
        .map(|(name, height)| Layer::Level(*height, name.clone()))
        .collect();
    for (n, series) in plot.series.iter().enumerate() {
        let (points, color) = (&series.points, color::series(n));
        if plot.style == Style::Line && points.len() <= DOTS {
            layers.push(Layer::Dots(points.clone(), 4, color));
        }
        let line = match plot.style {
            Style::Line => points.clone(),
            Style::Steps => steps(points, right),
        };
        if line.len() > 1 {
            layers.push(Layer::Line(line, color));
        }
    }
    let keys = plot.series.iter().enumerate();
    Panel {
        title: plot.title.clone(),
        legend: keys
            .map(|(n, series)| Key::new(&series.name, color::series(n)))
            .collect(),
        x: Axis::linear(&plot.x, (0.0, right), 10),
        y: Axis::linear(&plot.y, span, 7).grid(),
        layers,
        ..Panel::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::example;
    use super::*;

    #[test]
    fn the_picture_names_curves_axes_and_levels() {
        let svg = draw(&example()).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["what it is", "time, us", "tokens", "limit", "two"] {
            assert!(svg.contains(text), "{text} is not in the picture");
        }
        assert_eq!(draw(&example()).unwrap(), svg);
    }
}
