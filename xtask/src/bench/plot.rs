// SPDX-License-Identifier: GPL-2.0
//! Draws the figures: two bars for each set-up, and marks for what the gates allow.

use std::error::Error;

use anyhow::{anyhow, Result};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figures::{Boot, SetUp};
use super::gates::limit;

/// Width of the picture, px.
const WIDTH: u32 = 1200;
/// Height of a set-up's row, px.
const ROW: u32 = 34;
/// Height of the title above, px.
const HEAD: u32 = 116;
/// Height of the axis below, px.
const FOOT: u32 = 52;
/// Room for the set-ups' names, px.
const NAMES: u32 = 320;
/// Room for the figures to the right of the longest bar, as a part of it.
const ROOM: f64 = 0.1;
/// Between a bar and its figures, as a part of the longest bar.
const GAP: f64 = 0.006;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(34, 34, 34);
const FAINT: RGBColor = RGBColor(120, 120, 120);
/// The parts of a direct call: enqueue, dequeue, empty dequeue. Ours are orange, others' blue; from
/// palettes that colour-blind readers tell apart.
const OURS: [RGBColor; 3] = [
    RGBColor(190, 68, 2),
    RGBColor(246, 134, 30),
    RGBColor(254, 206, 101),
];
const OTHERS: [RGBColor; 3] = [
    RGBColor(0, 84, 140),
    RGBColor(66, 150, 205),
    RGBColor(170, 212, 240),
];
const XMIT: RGBColor = RGBColor(190, 190, 190);
const LIMIT: RGBColor = RGBColor(0, 0, 0);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// The picture, as the text of an SVG file.
///
/// # Errors
/// The figures cannot be drawn.
pub(super) fn draw(boot: &Boot) -> Result<String> {
    let rows = u32::try_from(boot.setups.len())?;
    let mut svg = String::new();
    paint(boot, &mut svg, HEAD + rows * ROW + FOOT)
        .map_err(|error| anyhow!("cannot draw the picture: {error}"))?;
    Ok(svg)
}

fn paint(boot: &Boot, svg: &mut String, height: u32) -> Result<(), Box<dyn Error>> {
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, rest) = root.split_vertically(HEAD);
    title(boot, &head)?;
    let longest = boot
        .setups
        .iter()
        .map(SetUp::costs)
        .map(|costs| costs.direct.max(costs.xmit_minus_noqueue))
        .fold(1.0, f64::max);
    let rows = boot.setups.len() as f64;
    let mut chart = ChartBuilder::on(&rest)
        .margin_right(24)
        .x_label_area_size(FOOT)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(0.0..longest * (1.0 + ROOM), 0.0..rows)?;
    let small = (FONT, 14).into_font().color(&INK);
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .light_line_style(WHITE)
        .bold_line_style(INK.mix(0.10))
        .axis_style(INK.mix(0.5))
        .label_style(small.clone())
        .axis_desc_style(small)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .x_desc("instructions per packet")
        .draw()?;
    for (n, set_up) in boot.setups.iter().enumerate() {
        let top = rows - n as f64;
        row(set_up, &mut chart, top, longest * GAP)?;
        if let Some(limit) = limit(boot, &set_up.name) {
            let line = vec![(limit, top - 0.04), (limit, top - 0.66)];
            chart.draw_series([PathElement::new(line, LIMIT.stroke_width(3))])?;
        }
    }
    names(boot, &rest)?;
    root.present()?;
    Ok(())
}

fn title(boot: &Boot, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    let style = |size: u32, color: RGBColor| (FONT, size).into_font().color(&color);
    area.draw_text(
        "What a packet costs: Turnstile's port and the stock qdiscs",
        &style(24, INK),
        (24, 16),
    )?;
    area.draw_text(
        &format!(
            "Instructions of the stock kernel {}, counted by QEMU. Means over the bands or flows in turn.",
            boot.kernel
        ),
        &style(15, FAINT),
        (24, 50),
    )?;
    let font = style(15, INK);
    let box_at = |x: i32, color: RGBColor| Rectangle::new([(x, 82), (x + 18, 98)], color.filled());
    let mut x = 24;
    for (n, name) in ["enqueue", "dequeue", "empty dequeue"].iter().enumerate() {
        area.draw(&box_at(x, OURS[n]))?;
        area.draw(&box_at(x + 20, OTHERS[n]))?;
        area.draw_text(name, &font, (x + 46, 83))?;
        // Wide enough for a letter in any sans-serif font.
        x += 72 + 9 * i32::try_from(name.len())?;
    }
    area.draw(&box_at(x, XMIT))?;
    let text = "whole transmit path less that without a queue";
    area.draw_text(text, &font, (x + 26, 83))?;
    x += 52 + 8 * i32::try_from(text.len())?;
    let mark = vec![(x, 80), (x, 100)];
    area.draw(&PathElement::new(mark, LIMIT.stroke_width(3)))?;
    area.draw_text("what a gate allows a direct call", &font, (x + 12, 83))?;
    Ok(())
}

/// The bars of one set-up, the upper end of whose row is `top`.
fn row(
    set_up: &SetUp,
    chart: &mut Chart<'_, '_>,
    top: f64,
    gap: f64,
) -> Result<(), Box<dyn Error>> {
    let costs = set_up.costs();
    let colors = if set_up.is_ours() { OURS } else { OTHERS };
    let mut from = 0.0;
    for (cost, color) in [costs.enqueue, costs.dequeue, costs.empty_dequeue]
        .into_iter()
        .zip(colors)
    {
        chart.draw_series([Rectangle::new(
            [(from, top - 0.12), (from + cost, top - 0.58)],
            color.filled(),
        )])?;
        from += cost;
    }
    let xmit = costs.xmit_minus_noqueue.max(0.0);
    chart.draw_series([Rectangle::new(
        [(0.0, top - 0.62), (xmit, top - 0.86)],
        XMIT.filled(),
    )])?;
    let font = (FONT, 13).into_font().color(&INK);
    let right = font.pos(Pos::new(HPos::Left, VPos::Center));
    let end = from.max(xmit);
    chart.draw_series([Text::new(
        format!("{from:.0} | {xmit:.0}"),
        (end + gap, top - 0.5),
        right,
    )])?;
    Ok(())
}

/// The set-ups' names, at the left of their rows.
fn names(boot: &Boot, area: &Area<'_>) -> Result<(), Box<dyn Error>> {
    let font = (FONT, 15).into_font().color(&INK);
    let right = font.pos(Pos::new(HPos::Right, VPos::Center));
    let mut y = i32::try_from(ROW / 2)?;
    for set_up in &boot.setups {
        area.draw_text(&set_up.label(), &right, (i32::try_from(NAMES - 12)?, y))?;
        y += i32::try_from(ROW)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::example;
    use super::draw;

    #[test]
    fn the_picture_names_every_set_up_and_its_figures() {
        let svg = draw(&example()).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "turnstile: 8 bands, class id",
            "pfifo",
            "210 | 500",
            "100 | 150",
            "what a gate allows",
            "instructions per packet",
        ] {
            assert!(svg.contains(text), "{text} is not in the picture");
        }
        // The legend's mark and one for each of the three configurations that have gates.
        assert_eq!(svg.matches("stroke-width=\"3\"").count(), 4);
    }
}
