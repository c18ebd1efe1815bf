// SPDX-License-Identifier: GPL-2.0
//! Draws an experiment's plots into one picture, two side by side.

use anyhow::{anyhow, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::data::{Findings, Plot, Series, Style};

/// Width of the picture, px.
const WIDTH: u32 = 1280;
/// Height of a row of plots, px.
const ROW: u32 = 360;
/// Height of the title, px.
const HEAD: u32 = 84;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
const FAINT: RGBColor = RGBColor(120, 120, 120);
/// Okabe and Ito's, which colour-blind readers tell apart. The first curve is ours.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The picture, as the text of an SVG file.
///
/// # Errors
/// The figures cannot be drawn.
pub(crate) fn draw(findings: &Findings) -> Result<String> {
    let rows = u32::try_from(findings.plots.len().div_ceil(2))?;
    let mut svg = String::new();
    paint(findings, &mut svg, rows).map_err(|e| anyhow!("cannot draw the picture: {e}"))?;
    Ok(svg)
}

fn paint(findings: &Findings, svg: &mut String, rows: u32) -> Drawn {
    let root = SVGBackend::with_string(svg, (WIDTH, HEAD + rows * ROW)).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, rest) = root.split_vertically(HEAD);
    let style = |size: u32, color: RGBColor| (FONT, size).into_font().color(&color);
    head.draw_text(&findings.title, &style(24, INK), (24, 16))?;
    let below = format!(
        "{}, in virtual time on {}. {}",
        findings.name, findings.kernel, findings.source
    );
    head.draw_text(&shortened(&below, 170), &style(14, FAINT), (24, 50))?;
    if rows > 0 {
        let areas = rest.split_evenly((rows as usize, 2));
        for (plot, area) in findings.plots.iter().zip(&areas) {
            panel(plot, area)?;
        }
    }
    root.present()?;
    Ok(())
}

/// At most so many characters.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let cut: String = text.chars().take(most - 1).collect();
    format!("{}…", cut.trim_end())
}

/// What an axis spans: all of the values, with a little room above, from 0 unless some are below
/// it.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    for value in values {
        low = low.min(value);
        high = high.max(value);
    }
    if high - low <= 0.0 {
        high = low + 1.0;
    }
    let room = (high - low) * 0.08;
    (if low < 0.0 { low - room } else { 0.0 }, high + room)
}

fn panel(plot: &Plot, area: &Area<'_>) -> Drawn {
    let all = || plot.series.iter().flat_map(|series| &series.points);
    let right = all().map(|(x, _)| *x).fold(f64::MIN_POSITIVE, f64::max);
    let (low, high) = span(
        all()
            .map(|(_, y)| *y)
            .chain(plot.levels.iter().map(|(_, height)| *height)),
    );
    let (caption, body) = area.split_vertically(52);
    let bold = (FONT, 16).into_font().style(FontStyle::Bold).color(&INK);
    caption.draw_text(&plot.title, &bold, (24, 6))?;
    legend(plot, &caption)?;
    let mut chart = ChartBuilder::on(&body)
        .margin_left(12)
        .margin_right(24)
        .margin_top(4)
        .x_label_area_size(42)
        .y_label_area_size(72)
        .build_cartesian_2d(0.0..right, low..high)?;
    let small = (FONT, 13).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(INK.mix(0.10))
        .axis_style(INK.mix(0.5))
        .label_style(small.clone())
        .axis_desc_style(small.clone())
        .x_labels(10)
        .y_labels(7)
        .x_label_formatter(&|x| decimal(*x))
        .y_label_formatter(&|y| decimal(*y))
        .x_desc(&plot.x)
        .y_desc(&plot.y)
        .draw()?;
    for (name, height) in &plot.levels {
        chart.draw_series(DashedLineSeries::new(
            [(0.0, *height), (right, *height)],
            7,
            5,
            INK.stroke_width(2),
        ))?;
        let text = small.clone().pos(Pos::new(HPos::Right, VPos::Bottom));
        chart.draw_series([Text::new(name.clone(), (right * 0.995, *height), text)])?;
    }
    for (series, color) in plot.series.iter().zip(COLORS.iter().cycle()) {
        let path = path(series, plot.style, right);
        if plot.style == Style::Line && series.points.len() <= 12 {
            let points = series.points.iter();
            chart.draw_series(points.map(|point| Circle::new(*point, 4, color.filled())))?;
        }
        if path.len() > 1 {
            chart.draw_series([PathElement::new(path, color.stroke_width(2))])?;
        }
    }
    Ok(())
}

/// The points to be joined by lines.
fn path(series: &Series, style: Style, right: f64) -> Vec<(f64, f64)> {
    if style == Style::Line {
        return series.points.clone();
    }
    let ends = series.points.iter().skip(1).map(|(x, _)| *x).chain([right]);
    let stretches = series.points.iter().zip(ends);
    stretches
        .flat_map(|(&(x, y), end)| [(x, y), (end.max(x), y)])
        .collect()
}

fn legend(plot: &Plot, area: &Area<'_>) -> Drawn {
    let font = (FONT, 13).into_font().color(&INK);
    let mut x = 24;
    for (series, color) in plot.series.iter().zip(COLORS.iter().cycle()) {
        area.draw(&Rectangle::new([(x, 34), (x + 16, 40)], color.filled()))?;
        area.draw_text(&series.name, &font, (x + 21, 29))?;
        // Wide enough for a letter in any sans-serif font.
        x += 34 + 7 * i32::try_from(series.name.chars().count())?;
    }
    Ok(())
}

/// At most three decimals, and none that say nothing.
fn decimal(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::example;
    use super::*;

    #[test]
    fn steps_hold_until_the_next_point() {
        let series = &example().plots[0].series[0];
        assert_eq!(
            path(series, Style::Steps, 4.0),
            [
                (0.0, 1.0),
                (1.0, 1.0),
                (1.0, 3.0),
                (2.0, 3.0),
                (2.0, 0.0),
                (4.0, 0.0)
            ]
        );
        assert_eq!(path(series, Style::Line, 4.0).len(), 3);
    }

    #[test]
    fn axes_hold_all_values() {
        assert_eq!(span([0.0, 100.0].into_iter()), (0.0, 108.0));
        let (low, high) = span([-50.0, 50.0].into_iter());
        assert!(low < -50.0 && high > 50.0);
        assert_eq!(span([].into_iter()).0, 0.0);
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

    #[test]
    fn long_lines_are_cut() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcd", 3), "ab…");
    }
}
