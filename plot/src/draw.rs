// SPDX-License-Identifier: GPL-2.0
//! Draws a picture as SVG.

use std::error::Error;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::Shift;
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, Circle, DashedLineSeries, DrawingArea, FontStyle,
    IntoDrawingArea, IntoFont, PathElement, Polygon, RGBColor, Rectangle, SVGBackend, Text,
    TextStyle, BLACK, WHITE,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::Color as _;

use crate::color::{FAINT, INK};
use crate::{decimal, Axis, Color, Key, Layer, Mark, Panel, Picture, Place, Row};

/// Width of every picture, px.
const WIDTH: u32 = 1200;
/// From its left and right edges to what is written, px.
const MARGIN: i32 = 24;
/// Height of the title and of what is below it, px.
const HEAD: u32 = 78;
/// Height of a line of a legend, px.
const KEYS: u32 = 24;
/// Height of a caption, px.
const CAPTION: u32 = 28;
/// Height of the words at the end, px.
const FOOT: u32 = 34;
/// Room for the labels of a horizontal and a vertical axis, px.
const LABELS: (u32, u32) = (42, 72);
/// Wide enough for a letter of a label in any sans-serif font, px.
const LETTER: i32 = 8;
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Coordinate, Coordinate>>;
type Drawn = Result<(), Box<dyn Error>>;

/// An axis as plotters sees it: linear, with labels where they are wanted.
struct Coordinate {
    inner: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Coordinate {
    fn of(axis: &Axis) -> Self {
        let (low, high) = axis.ends();
        let ticks = axis.ticks().into_iter().map(|tick| axis.place(tick));
        Self {
            inner: (low..high).into(),
            ticks: ticks.collect(),
        }
    }
}

impl Ranged for Coordinate {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.inner.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.inner.range()
    }
}

impl From<Color> for RGBColor {
    fn from(Color(red, green, blue): Color) -> Self {
        Self(red, green, blue)
    }
}

impl Color {
    fn rgb(self) -> RGBColor {
        self.into()
    }
}

fn text(size: u32, color: Color) -> TextStyle<'static> {
    (FONT, size).into_font().color(&color.rgb())
}

fn bold(size: u32) -> TextStyle<'static> {
    let font = (FONT, size).into_font().style(FontStyle::Bold);
    font.color(&INK.rgb())
}

impl Picture {
    /// The text of an SVG file.
    ///
    /// # Errors
    /// Something cannot be drawn.
    pub fn svg(&self) -> Result<String, String> {
        let mut svg = String::new();
        self.paint(&mut svg)
            .map_err(|error| format!("cannot draw the picture: {error}"))?;
        Ok(svg)
    }

    fn paint(&self, svg: &mut String) -> Drawn {
        let keys = height(&self.legend, WIDTH as i32);
        let rows: u32 = self.rows.iter().map(|row| row.height).sum();
        let foot = if self.foot.is_empty() { 0 } else { FOOT };
        let size = (WIDTH, HEAD + keys + rows + foot);
        let root = SVGBackend::with_string(svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, rest) = root.split_vertically(HEAD);
        // A long title is still to be read to its end.
        let size = match self.title.chars().count() {
            0..=85 => 24,
            _ => 19,
        };
        head.draw_text(&self.title, &text(size, INK), (MARGIN, 16))?;
        head.draw_text(&shortened(&self.below, 170), &text(14, FAINT), (MARGIN, 50))?;
        let (legend, mut rest) = rest.split_vertically(keys);
        draw_keys(&self.legend, WIDTH as i32, &legend)?;
        for row in &self.rows {
            let (area, below) = rest.split_vertically(row.height);
            row.paint(&area)?;
            rest = below;
        }
        rest.draw_text(&self.foot, &text(14, FAINT), (MARGIN, 8))?;
        root.present()?;
        Ok(())
    }
}

impl Row {
    fn paint(&self, area: &Area<'_>) -> Drawn {
        let height = if self.caption.is_empty() { 0 } else { CAPTION };
        let (caption, mut rest) = area.split_vertically(height);
        if height > 0 {
            caption.draw_text(&self.caption, &bold(18), (MARGIN, 6))?;
        }
        let all: u32 = self.panels.iter().map(|panel| panel.weight.max(1)).sum();
        for panel in &self.panels {
            let width = WIDTH * panel.weight.max(1) / all;
            let (area, right) = rest.split_horizontally(width);
            panel.paint(&area, width)?;
            rest = right;
        }
        Ok(())
    }
}

impl Panel {
    fn paint(&self, area: &Area<'_>, width: u32) -> Drawn {
        let caption = if self.title.is_empty() { 0 } else { CAPTION };
        let (title, rest) = area.split_vertically(caption);
        if caption > 0 {
            title.draw_text(&self.title, &bold(16), (MARGIN, 6))?;
        }
        let (legend, body) = rest.split_vertically(height(&self.legend, width as i32));
        draw_keys(&self.legend, width as i32, &legend)?;
        let mut chart = ChartBuilder::on(&body)
            .margin_left(12)
            .margin_right(MARGIN)
            .margin_top(6)
            .x_label_area_size(LABELS.0)
            .y_label_area_size(LABELS.1.max(room_for_words(&self.y)))
            .build_cartesian_2d(Coordinate::of(&self.x), Coordinate::of(&self.y))?;
        let small = text(13, INK);
        let mut mesh = chart.configure_mesh();
        if !self.x.grid {
            mesh.disable_x_mesh();
        }
        if !self.y.grid {
            mesh.disable_y_mesh();
        }
        let label = |axis: &Axis, place: f64| {
            let value = if axis.log { 10_f64.powf(place) } else { place };
            decimal(value, axis.decimals)
        };
        mesh.light_line_style(WHITE)
            .bold_line_style(INK.rgb().mix(0.10))
            .axis_style(INK.rgb().mix(0.5))
            .label_style(small.clone())
            .axis_desc_style(small)
            .x_labels(self.x.ticks().len())
            .y_labels(self.y.ticks().len())
            .x_label_formatter(&|place| label(&self.x, *place))
            .y_label_formatter(&|place| label(&self.y, *place))
            .x_desc(&self.x.name)
            .y_desc(&self.y.name)
            .draw()?;
        for layer in &self.layers {
            self.draw(layer, &mut chart)?;
        }
        self.draw_words(&chart, &body)
    }

    /// A point, where it is drawn.
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.place(x), self.y.place(y))
    }

    fn path(&self, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
        points.iter().map(|point| self.at(*point)).collect()
    }

    fn draw(&self, layer: &Layer, chart: &mut Chart<'_, '_>) -> Drawn {
        match layer {
            Layer::Area(points, color) => {
                chart.draw_series([Polygon::new(self.path(points), color.rgb().filled())])?;
            }
            Layer::Line(points, color) => {
                let style = color.rgb().stroke_width(2);
                chart.draw_series([PathElement::new(self.path(points), style)])?;
            }
            Layer::Dots(points, radius, color) => {
                // Many dots show where they are dense, few show their colour.
                let opacity = if points.len() > 1000 { 0.15 } else { 0.7 };
                let style = color.rgb().mix(opacity).filled();
                let dots = self.path(points).into_iter();
                chart.draw_series(dots.map(|point| Circle::new(point, *radius, style)))?;
            }
            Layer::Bar(corners, color) => {
                let corners = corners.map(|corner| self.at(corner));
                chart.draw_series([Rectangle::new(corners, color.rgb().filled())])?;
            }
            Layer::Limit(ends) => {
                let style = BLACK.stroke_width(3);
                chart.draw_series([PathElement::new(self.path(ends), style)])?;
            }
            Layer::Change(x) => {
                let ends = [(*x, self.y.span.0), (*x, self.y.span.1)];
                let style = INK.rgb().mix(0.25);
                chart.draw_series([PathElement::new(self.path(&ends), style)])?;
            }
            Layer::Level(height, name) => {
                let (left, right) = self.x.span;
                let ends = self.path(&[(left, *height), (right, *height)]);
                let style = BLACK.stroke_width(2);
                chart.draw_series(DashedLineSeries::new(ends, 7, 5, style))?;
                let style = text(13, INK).pos(Pos::new(HPos::Right, VPos::Bottom));
                let end = self.at((right, *height));
                chart.draw_series([Text::new(name.clone(), end, style)])?;
            }
            Layer::Words(words, point, place) => {
                let (pos, color) = match place {
                    Place::Right => (Pos::new(HPos::Left, VPos::Center), INK),
                    Place::Above => (Pos::new(HPos::Center, VPos::Bottom), INK),
                    Place::Below => (Pos::new(HPos::Center, VPos::Top), FAINT),
                };
                let style = text(13, color).pos(pos);
                chart.draw_series([Text::new(words.clone(), self.at(*point), style)])?;
            }
        }
        Ok(())
    }

    /// The words along the axes: in the area's pixels, which the chart gives.
    fn draw_words(&self, chart: &Chart<'_, '_>, area: &Area<'_>) -> Drawn {
        let (left, top) = area.get_base_pixel();
        let place = |point| {
            let (x, y) = chart.backend_coord(&self.at(point));
            (x - left, y - top)
        };
        let below = text(13, INK).pos(Pos::new(HPos::Center, VPos::Top));
        for (x, words) in &self.x.words {
            let (x, y) = place((*x, self.y.span.0));
            area.draw_text(words, &below, (x, y + 10))?;
        }
        let before = text(14, INK).pos(Pos::new(HPos::Right, VPos::Center));
        for (y, words) in &self.y.words {
            let (x, y) = place((self.x.span.0, *y));
            area.draw_text(words, &before, (x - 12, y))?;
        }
        Ok(())
    }
}

/// What the words along a vertical axis need, px.
fn room_for_words(axis: &Axis) -> u32 {
    let longest = axis.words.iter().map(|(_, words)| words.chars().count());
    (longest.max().unwrap_or(0) as i32 * LETTER + MARGIN) as u32
}

/// The width of a mark, px.
fn width(key: &Key) -> i32 {
    match &key.mark {
        Mark::Boxes(colors) => 20 * colors.len() as i32,
        Mark::Limit => 8,
    }
}

/// Where each key of a legend begins in so much width.
fn places(legend: &[Key], all: i32) -> Vec<(i32, i32)> {
    let (mut x, mut y) = (MARGIN, 4);
    let mut places = Vec::with_capacity(legend.len());
    for key in legend {
        let wide = width(key) + LETTER * key.name.chars().count() as i32 + MARGIN;
        if x > MARGIN && x + wide > all {
            (x, y) = (MARGIN, y + KEYS as i32);
        }
        places.push((x, y));
        x += wide;
    }
    places
}

fn height(legend: &[Key], all: i32) -> u32 {
    let last = places(legend, all).last().map(|(_, y)| *y as u32);
    last.map_or(0, |y| y + KEYS)
}

fn draw_keys(legend: &[Key], all: i32, area: &Area<'_>) -> Drawn {
    for (key, (x, y)) in legend.iter().zip(places(legend, all)) {
        match &key.mark {
            Mark::Boxes(colors) => {
                for (n, color) in (0..).zip(colors) {
                    let left = x + 20 * n;
                    let corners = [(left, y), (left + 16, y + 14)];
                    area.draw(&Rectangle::new(corners, color.rgb().filled()))?;
                }
            }
            Mark::Limit => {
                let ends = vec![(x, y - 2), (x, y + 16)];
                area.draw(&PathElement::new(ends, BLACK.stroke_width(3)))?;
            }
        }
        area.draw_text(&key.name, &text(14, INK), (x + width(key) + 4, y))?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_drawn() {
        let color = Color(1, 2, 3);
        let picture = Picture {
            title: "a title".into(),
            below: "on what".into(),
            legend: vec![
                Key::new("a curve", color),
                Key {
                    name: "a limit".into(),
                    mark: Mark::Limit,
                },
            ],
            rows: vec![Row {
                height: 300,
                caption: "a row".into(),
                panels: vec![Panel {
                    title: "a panel".into(),
                    x: Axis::log("time, s", (1.0, 100.0)),
                    y: Axis::words((0.0, 1.0), vec![(0.5, "half".into())]),
                    layers: vec![
                        Layer::Area(vec![(1.0, 0.0), (9.0, 0.0), (9.0, 1.0)], color),
                        Layer::Line(vec![(1.0, 0.0), (9.0, 1.0)], color),
                        Layer::Dots(vec![(1.0, 0.5), (3.0, 0.5)], 3, color),
                        Layer::Bar([(1.0, 0.0), (2.0, 1.0)], color),
                        Layer::Limit([(1.0, 0.0), (1.0, 1.0)]),
                        Layer::Change(5.0),
                        Layer::Level(0.7, "a level".into()),
                        Layer::Words("a word".into(), (2.0, 0.2), Place::Above),
                    ],
                    ..Panel::default()
                }],
            }],
            foot: "at the end".into(),
        };
        let svg = picture.svg().expect("drawn");
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "a title",
            "on what",
            "a curve",
            "a limit",
            "a row",
            "a panel",
            "time, s",
            "half",
            "a level",
            "a word",
            "at the end",
            "100",
        ] {
            assert!(svg.contains(text), "{text} is not in the picture");
        }
        assert_eq!(svg.matches("<circle").count(), 2);
        assert_eq!(svg.matches("<polygon").count(), 1);
        // The limit and its mark.
        assert_eq!(svg.matches("stroke-width=\"3\"").count(), 2);
        assert_eq!(picture.svg().expect("drawn"), svg);
    }

    #[test]
    fn a_legend_takes_as_many_lines_as_it_needs() {
        let keys = |count| vec![Key::new("twenty letters, or so", Color(0, 0, 0)); count];
        assert_eq!(height(&[], 1200), 0);
        assert_eq!(height(&keys(3), 1200), KEYS + 4);
        assert_eq!(height(&keys(9), 1200), 2 * KEYS + 4);
    }

    #[test]
    fn long_lines_are_cut() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("abcd", 3), "ab…");
    }
}
