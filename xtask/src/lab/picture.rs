// SPDX-License-Identifier: GPL-2.0
//! Draws an experiment's plots into one picture, two side by side.

use anyhow::{anyhow, Result};
use turnstile_plot::{color, steps, upwards, Axis, Color, Key, Layer, Panel, Picture, Row};
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
    let colors = Colors::of(findings);
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
                panels: pair.iter().map(|plot| panel(plot, &colors)).collect(),
                ..Row::default()
            })
            .collect(),
        ..Picture::default()
    };
    picture.svg().map_err(|why| anyhow!(why))
}

/// A colour for each curve's name, the same in all plots.
struct Colors<'a>(Vec<&'a str>);

impl<'a> Colors<'a> {
    fn of(findings: &'a Findings) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for series in findings.plots.iter().flat_map(|plot| &plot.series) {
            if !names.contains(&series.name.as_str()) {
                names.push(&series.name);
            }
        }
        Self(names)
    }

    /// That of a plot's `n`th curve. With more names than colours, a plot begins anew.
    fn color(&self, name: &str, n: usize) -> Color {
        let place = self.0.iter().position(|known| *known == name);
        match place {
            Some(place) if self.0.len() <= color::SERIES.len() => color::series(place),
            _ => color::series(n),
        }
    }
}

fn panel(plot: &Plot, colors: &Colors<'_>) -> Panel {
    let all = || plot.series.iter().flat_map(|series| &series.points);
    let right = all().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max);
    let heights = plot.levels.iter().map(|(_, height)| *height);
    let span = upwards(all().map(|(_, y)| *y).chain(heights));
    let levels = plot.levels.iter();
    let mut layers: Vec<Layer> = levels
        .map(|(name, height)| Layer::Level(*height, name.clone()))
        .collect();
    for (n, series) in plot.series.iter().enumerate() {
        let (points, color) = (&series.points, colors.color(&series.name, n));
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
            .map(|(n, series)| Key::new(&series.name, colors.color(&series.name, n)))
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
    fn a_curve_has_one_colour_in_all_plots() {
        let findings = example();
        let colors = Colors::of(&findings);
        assert_eq!(colors.0, ["one", "two"]);
        assert_eq!(colors.color("two", 0), color::SERIES[1]);
        let many = Colors(vec!["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(many.color("g", 0), color::SERIES[0]);
    }

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
