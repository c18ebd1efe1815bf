// SPDX-License-Identifier: GPL-2.0
//! Draws the demonstration: per set-up, what each class received over time. On the left the whole
//! link, on the right its token group alone, against the share that is meant for it.

use anyhow::{anyhow, Result};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::demo::rate;
use crate::demo_data::{is_token, Demo, SetUp};

/// Width of the picture, px.
const WIDTH: u32 = 1200;
/// Height of a set-up's row, px.
const ROW: u32 = 300;
/// Height of the title above, px.
const HEAD: u32 = 84;
/// Height of the legend below, px.
const FOOT: u32 = 92;
/// How far the token group's axis reaches, as a multiple of its target.
const GROUP_AXIS: f64 = 4.4;
/// How far the link's axis reaches, as a multiple of the link.
const LINK_AXIS: f64 = 1.2;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
const FAINT: RGBColor = RGBColor(120, 120, 120);
const TARGET: RGBColor = RGBColor(0, 0, 0);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The picture, as the text of an SVG file.
///
/// # Errors
/// The figures cannot be drawn.
pub(crate) fn draw(demo: &Demo) -> Result<String> {
    let rows = u32::try_from(demo.setups.len())?;
    let mut svg = String::new();
    paint(demo, &mut svg, HEAD + rows * ROW + FOOT)
        .map_err(|e| anyhow!("cannot draw the picture: {e}"))?;
    Ok(svg)
}

fn paint(demo: &Demo, svg: &mut String, height: u32) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, rest) = root.split_vertically(HEAD);
    let (rows, foot) = rest.split_vertically(height - HEAD - FOOT);
    let classes = Classes::of(demo);
    title(demo, &head)?;
    for (n, (area, set_up)) in rows
        .split_evenly((demo.setups.len(), 1))
        .iter()
        .zip(&demo.setups)
        .enumerate()
    {
        row(demo, set_up, n + 1, &classes, area)?;
    }
    legend(demo, &classes, &foot)?;
    root.present()?;
    Ok(())
}

fn title(demo: &Demo, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let style = |size: u32, color: RGBColor| (FONT, size).into_font().color(&color);
    area.draw_text(
        &format!(
            "Who gets the link: {} ways to configure one port of {}",
            demo.setups.len(),
            rate(demo.link_bit_s)
        ),
        &style(24, INK),
        (24, 16),
    )?;
    area.draw_text(
        &format!(
            "The same load on each, in network namespaces on the stock kernel {}. Rates on the wire, as received; \
             areas are stacked.",
            demo.kernel
        ),
        &style(15, FAINT),
        (24, 50),
    )?;
    Ok(())
}

fn row(
    demo: &Demo,
    set_up: &SetUp,
    number: usize,
    classes: &Classes<'_>,
    area: &Area<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (caption, panels) = area.split_vertically(30);
    let bold = (FONT, 18).into_font().style(FontStyle::Bold).color(&INK);
    caption.draw_text(&format!("{number}. {}", set_up.title), &bold, (24, 6))?;
    let (left, right) = panels.split_horizontally(WIDTH / 2);
    let link = demo.link_bit_s;
    let target = demo.target();

    let mut chart = panel(demo, &left, link * LINK_AXIS, "whole link")?;
    phases(demo, &mut chart, link * LINK_AXIS)?;
    stack(
        &mut chart,
        set_up,
        &classes.upwards(|_| true),
        link * LINK_AXIS,
    )?;
    level(&mut chart, demo.duration_s, link, "link")?;

    let mut chart = panel(demo, &right, target * GROUP_AXIS, "token group alone")?;
    phases(demo, &mut chart, target * GROUP_AXIS)?;
    stack(
        &mut chart,
        set_up,
        &classes.upwards(is_token),
        target * GROUP_AXIS,
    )?;
    let text = format!("target {:.2} %", demo.token_share_percent);
    level(&mut chart, demo.duration_s, target, &text)?;
    Ok(())
}

fn panel<'a, 'b>(
    demo: &Demo,
    area: &'a Area<'b>,
    top: f64,
    what: &str,
) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>> {
    let mut chart = ChartBuilder::on(area)
        .margin_left(12)
        .margin_right(24)
        .margin_top(4)
        .x_label_area_size(42)
        .y_label_area_size(66)
        .build_cartesian_2d(0.0..demo.duration_s, 0.0..top / 1e6)?;
    let small = (FONT, 14).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(INK.mix(0.10))
        .axis_style(INK.mix(0.5))
        .label_style(small.clone())
        .axis_desc_style(small)
        .x_labels(14)
        .y_labels(6)
        .x_label_formatter(&|t| format!("{t:.0}"))
        .y_label_formatter(&|r| decimal(*r))
        .x_desc("time, s")
        .y_desc(format!("{what}, Mbit/s"))
        .draw()?;
    Ok(chart)
}

/// At most two decimals, and none that say nothing.
fn decimal(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The parts of the load's story: a thin line where one begins, and its number above.
fn phases(
    demo: &Demo,
    chart: &mut Chart<'_, '_>,
    top: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let top = top / 1e6;
    let font = (FONT, 13).into_font().color(&FAINT);
    let centred = font.pos(Pos::new(HPos::Center, VPos::Top));
    for (letter, phase) in ('a'..).zip(&demo.phases) {
        if phase.from > 0.0 {
            chart.draw_series([PathElement::new(
                vec![(phase.from, 0.0), (phase.from, top)],
                INK.mix(0.25),
            )])?;
        }
        let middle = (phase.from + phase.until.min(demo.duration_s)) / 2.0;
        chart.draw_series([Text::new(
            letter.to_string(),
            (middle, top * 0.99),
            centred.clone(),
        )])?;
    }
    Ok(())
}

/// The classes' rates, each on top of those before it. A sample is a mean over its interval, so
/// areas have steps.
fn stack(
    chart: &mut Chart<'_, '_>,
    set_up: &SetUp,
    classes: &[(&str, RGBColor)],
    top: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let Some(width) = set_up.interval() else {
        return Ok(());
    };
    let top = top / 1e6;
    let mut floor = vec![0.0; set_up.samples.len()];
    for (name, color) in classes {
        let ceiling: Vec<f64> = floor
            .iter()
            .zip(&set_up.samples)
            .map(|(below, sample)| below + sample.rate(name) / 1e6)
            .collect();
        let edge = |heights: &[f64]| -> Vec<(f64, f64)> {
            set_up
                .samples
                .iter()
                .zip(heights)
                .flat_map(|(s, height)| {
                    let height = height.min(top);
                    [(s.t - width / 2.0, height), (s.t + width / 2.0, height)]
                })
                .collect()
        };
        let mut outline = edge(&ceiling);
        outline.extend(edge(&floor).into_iter().rev());
        chart.draw_series([Polygon::new(outline, color.filled())])?;
        floor = ceiling;
    }
    Ok(())
}

/// A dashed line across, with its meaning above its right end.
fn level(
    chart: &mut Chart<'_, '_>,
    until: f64,
    height: f64,
    text: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let height = height / 1e6;
    chart.draw_series(DashedLineSeries::new(
        [(0.0, height), (until, height)],
        7,
        5,
        TARGET.stroke_width(2),
    ))?;
    let font = (FONT, 14).into_font().color(&TARGET);
    let right = font.pos(Pos::new(HPos::Right, VPos::Bottom));
    chart.draw_series([Text::new(
        text.to_owned(),
        (until * 0.995, height * 1.01),
        right,
    )])?;
    Ok(())
}

fn legend(
    demo: &Demo,
    classes: &Classes<'_>,
    area: &Area<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let font = (FONT, 15).into_font().color(&INK);
    let mut x = 24;
    for (name, color) in &classes.0 {
        area.draw(&Rectangle::new([(x, 8), (x + 18, 24)], color.filled()))?;
        area.draw(&Rectangle::new([(x, 8), (x + 18, 24)], INK.mix(0.4)))?;
        area.draw_text(name, &font, (x + 25, 8))?;
        // Wide enough for a letter in any sans-serif font.
        x += 52 + 9 * i32::try_from(name.len())?;
    }
    let story: Vec<String> = ('a'..)
        .zip(&demo.phases)
        .map(|(letter, phase)| format!("{letter}: {}", phase.what))
        .collect();
    let small = (FONT, 14).into_font().color(&FAINT);
    area.draw_text(&story.join("  ·  "), &small, (24, 40))?;
    Ok(())
}

/// The classes that something was offered to in any set-up, highest first, each with its colour.
#[derive(Debug)]
struct Classes<'d>(Vec<(&'d str, RGBColor)>);

impl<'d> Classes<'d> {
    fn of(demo: &'d Demo) -> Self {
        let used = |name: &str| {
            demo.setups
                .iter()
                .flat_map(|s| &s.classes)
                .any(|c| c.name == name && c.offered > 0)
        };
        let names: Vec<&str> = demo
            .setups
            .first()
            .map(|s| s.classes.as_slice())
            .unwrap_or_default()
            .iter()
            .map(|c| c.name.as_str())
            .filter(|name| used(name))
            .collect();
        let tokens = names.iter().filter(|name| is_token(name)).count();
        let mut token = 0;
        let colored = names.into_iter().map(|name| {
            let color = color(name, token, tokens);
            token += usize::from(is_token(name));
            (name, color)
        });
        Self(colored.collect())
    }

    /// Lowest first, so that the picture is stacked as the bands are: highest on top.
    fn upwards(&self, keep: fn(&str) -> bool) -> Vec<(&'d str, RGBColor)> {
        self.0
            .iter()
            .rev()
            .copied()
            .filter(|(name, _)| keep(name))
            .collect()
    }
}

/// One hue for each kind of class, from palettes that colour-blind readers tell apart. The tokens'
/// priorities are steps of one hue, the highest priority the darkest: this is the `token`th of
/// `tokens`.
fn color(class: &str, token: usize, tokens: usize) -> RGBColor {
    /// From ColorBrewer's YlOrBr.
    const TOKENS: [RGBColor; 8] = [
        RGBColor(92, 32, 4),
        RGBColor(140, 48, 4),
        RGBColor(190, 68, 2),
        RGBColor(226, 98, 14),
        RGBColor(246, 134, 30),
        RGBColor(254, 168, 58),
        RGBColor(254, 206, 101),
        RGBColor(254, 230, 160),
    ];
    match class {
        "signal" => RGBColor(40, 40, 40),
        "data" => RGBColor(86, 180, 233),
        "unscheduled" => RGBColor(0, 114, 178),
        name if is_token(name) => {
            // Few priorities are spread over the scale.
            let step = (TOKENS.len() - 1) * token / tokens.saturating_sub(1).max(1);
            TOKENS[step.min(TOKENS.len() - 1)]
        }
        _ => RGBColor(150, 150, 150),
    }
}

#[cfg(test)]
mod tests {
    use super::{decimal, draw};
    use crate::demo_data::tests::example;

    #[test]
    fn axis_labels_are_short() {
        assert_eq!(decimal(0.600_000_000_000_000_1), "0.6");
        assert_eq!(decimal(20.0), "20");
        assert_eq!(decimal(0.0), "0");
    }

    #[test]
    fn the_picture_has_a_row_per_set_up_and_names_every_class() {
        let svg = draw(&example()).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "1. turnstile: one shaper",
            "2. stock: one limiter each",
            "token1",
            "time, s",
            "target 5.18 %",
            "a: first",
        ] {
            assert!(svg.contains(text), "{text} is not in the picture");
        }
        // One area per class and panel: four on the left, two on the right, for each set-up.
        assert_eq!(svg.matches("<polygon").count(), 12);
    }
}
