// SPDX-License-Identifier: GPL-2.0
//! Draws the demonstration's second part: each message as a dot, by its length and the time it
//! took, and slowdowns by length.

use anyhow::{anyhow, Result};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::demo::rate;
use crate::demo_messages::Messages;

/// Width of the picture, px.
const WIDTH: u32 = 1200;
/// Height of the panels, px.
const BODY: u32 = 420;
/// Height of the title above, px.
const HEAD: u32 = 84;
/// Height of the legend below, px.
const FOOT: u32 = 48;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
const FAINT: RGBColor = RGBColor(120, 120, 120);
/// Okabe and Ito's, which colour-blind readers tell apart. The first transport is ours.
const COLORS: [RGBColor; 4] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The picture, as the text of an SVG file.
///
/// # Errors
/// The figures cannot be drawn.
pub(crate) fn draw(messages: &Messages) -> Result<String> {
    let mut svg = String::new();
    paint(messages, &mut svg).map_err(|e| anyhow!("cannot draw the picture: {e}"))?;
    Ok(svg)
}

fn paint(messages: &Messages, svg: &mut String) -> Drawn {
    let root = SVGBackend::with_string(svg, (WIDTH, HEAD + BODY + FOOT)).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, rest) = root.split_vertically(HEAD);
    let (body, foot) = rest.split_vertically(BODY);
    let style = |size: u32, color: RGBColor| (FONT, size).into_font().color(&color);
    head.draw_text(
        "How long messages take: the same messages with each transport",
        &style(24, INK),
        (24, 16),
    )?;
    head.draw_text(
        &format!(
            "{} hosts over two switches on the stock kernel, links of {}, round trip {} ms, {} kB in a port, {} % load of the link in the middle.",
            messages.hosts,
            rate(messages.link_bit_s),
            messages.rtt_ms,
            messages.buffer_bytes as f64 / 1e3,
            messages.load_percent
        ),
        &style(15, FAINT),
        (24, 50),
    )?;
    let (left, right) = body.split_horizontally(WIDTH * 7 / 12);
    dots(messages, &left)?;
    bars(messages, &right)?;
    let mut x = 24;
    for (way, color) in messages.ways.iter().zip(COLORS.iter().cycle()) {
        foot.draw(&Rectangle::new([(x, 12), (x + 18, 28)], color.filled()))?;
        let text = format!(
            "{} ({} data packets dropped, longest queue {:.1} kB)",
            way.title,
            way.data_drops,
            way.longest_queue_bytes as f64 / 1e3
        );
        foot.draw_text(&text, &style(14, INK), (x + 25, 13))?;
        x += i32::try_from(WIDTH)? / 2;
    }
    root.present()?;
    Ok(())
}

/// What an axis of a logarithmic scale spans: the positive values, with a little room around.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|value| *value > 0.0) {
        low = low.min(value);
        high = high.max(value);
    }
    if high <= 0.0 {
        return (1.0, 10.0);
    }
    (low * 0.7, high * 1.4)
}

fn dots(messages: &Messages, area: &Area<'_>) -> Drawn {
    let all = || messages.ways.iter().flat_map(|way| &way.points);
    let (short, long) = span(all().map(|(bytes, _)| bytes / 1e3));
    let (fast, slow) = span(all().map(|(_, ms)| *ms));
    let mut chart = ChartBuilder::on(area)
        .margin_left(12)
        .margin_right(24)
        .margin_top(8)
        .x_label_area_size(42)
        .y_label_area_size(72)
        .build_cartesian_2d((short..long).log_scale(), (fast..slow).log_scale())?;
    let small = (FONT, 14).into_font().color(&INK);
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(INK.mix(0.10))
        .axis_style(INK.mix(0.5))
        .label_style(small.clone())
        .axis_desc_style(small)
        .x_label_formatter(&|x| decimal(*x))
        .y_label_formatter(&|y| decimal(*y))
        .x_desc("message's length, kB")
        .y_desc("from asking to the last byte read, ms")
        .draw()?;
    // Ours last, so that no other hides it.
    for (way, color) in messages.ways.iter().zip(COLORS).rev() {
        chart.draw_series(
            way.points
                .iter()
                .map(|(bytes, ms)| Circle::new((bytes / 1e3, *ms), 4, color.mix(0.7).filled())),
        )?;
    }
    Ok(())
}

/// Mean slowdowns by length, and the 99th percentile as a whisker.
fn bars(messages: &Messages, area: &Area<'_>) -> Drawn {
    let classes: Vec<&str> = messages.ways.first().map_or_else(Vec::new, |way| {
        way.classes.iter().map(|c| c.class.as_str()).collect()
    });
    let values = messages.ways.iter().flat_map(|way| &way.classes);
    let top = values
        .map(|c| c.slowdown_p99.max(c.slowdown_mean))
        .fold(1.0, f64::max)
        * 1.15;
    let mut chart = ChartBuilder::on(area)
        .margin_left(12)
        .margin_right(24)
        .margin_top(8)
        .x_label_area_size(42)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..classes.len().max(1) as f64, 0.0..top)?;
    let small = (FONT, 14).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .light_line_style(WHITE)
        .bold_line_style(INK.mix(0.10))
        .axis_style(INK.mix(0.5))
        .label_style(small.clone())
        .axis_desc_style(small.clone())
        .y_labels(8)
        .y_label_formatter(&|y| decimal(*y))
        .y_desc("times the time alone: mean, and 99 %")
        .draw()?;
    let width = 0.7 / messages.ways.len().max(1) as f64;
    for ((number, way), color) in (0..).zip(&messages.ways).zip(COLORS.iter().cycle()) {
        for (index, class) in (0..).zip(&way.classes) {
            let left = f64::from(index) + 0.15 + f64::from(number) * width;
            let right = left + width * 0.9;
            chart.draw_series([Rectangle::new(
                [(left, 0.0), (right, class.slowdown_mean)],
                color.filled(),
            )])?;
            let middle = (left + right) / 2.0;
            chart.draw_series([PathElement::new(
                vec![(middle, class.slowdown_mean), (middle, class.slowdown_p99)],
                color.stroke_width(2),
            )])?;
            let above = small.clone().pos(Pos::new(HPos::Center, VPos::Bottom));
            chart.draw_series([Text::new(
                format!("{:.1}", class.slowdown_mean),
                (middle, class.slowdown_p99.max(class.slowdown_mean)),
                above,
            )])?;
        }
    }
    // Names below the axis: in the area's pixels, which the chart gives.
    let names = small.pos(Pos::new(HPos::Center, VPos::Top));
    for (index, name) in (0..).zip(&classes) {
        let (x, y) = chart.backend_coord(&(f64::from(index) + 0.5, 0.0));
        let (left, top) = area.get_base_pixel();
        area.draw_text(name, &names, (x - left, y - top + 10))?;
    }
    Ok(())
}

/// At most two decimals, and none that say nothing.
fn decimal(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo_messages::tests::example;

    #[test]
    fn the_picture_has_a_dot_for_each_message_and_names_all() {
        let svg = draw(&example()).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "turnstile: messages",
            "stock: TCP",
            "short",
            "8 hosts",
            "7 data packets",
        ] {
            assert!(svg.contains(text), "{text} is not in the picture");
        }
        assert_eq!(svg.matches("<circle").count(), 6);
    }

    #[test]
    fn axes_hold_all_values() {
        let (low, high) = span([2.0, 300.0].into_iter());
        assert!(low < 2.0 && low > 0.0 && high > 300.0);
        assert_eq!(span([].into_iter()), (1.0, 10.0));
    }
}
