// SPDX-License-Identifier: GPL-2.0
//! The pictures of `demo`, `lab`, `bench` and `turnstile bench`: one set of axes, colours and
//! legends.
//!
//! Who has figures describes a [`Picture`]: rows of [`Panel`]s, each with two [`Axis`] and
//! [`Layer`]s of what is drawn over them, the first at the bottom. [`Picture::svg`] draws it: a
//! heading, the legend below it, the panels. Whatever is measured comes in the units of the axes;
//! colours are those of [`color`].

mod axis;
pub mod color;
mod draw;

pub use axis::{logarithmic, upwards, Axis};
pub use color::Color;

/// A picture.
#[derive(Clone, Debug, Default)]
pub struct Picture {
    /// What it shows.
    pub title: String,
    /// On what, in smaller letters.
    pub below: String,
    /// What the colours mean in all panels.
    pub legend: Vec<Key>,
    /// From the top downwards.
    pub rows: Vec<Row>,
    /// What is said at the end, in small letters.
    pub foot: String,
}

/// Panels side by side.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// px, with the caption.
    pub height: u32,
    /// What all of them are about; empty for none.
    pub caption: String,
    /// From left to right.
    pub panels: Vec<Panel>,
}

/// A pair of axes and what is drawn over them.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// How wide it is, compared with those beside it.
    pub weight: u32,
    /// What it shows; empty where the axes say it.
    pub title: String,
    /// What the colours mean in this panel.
    pub legend: Vec<Key>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical one.
    pub y: Axis,
    /// The first is at the bottom.
    pub layers: Vec<Layer>,
}

/// Something that is drawn over the axes. Points are x and y in the axes' units.
#[derive(Clone, Debug)]
pub enum Layer {
    /// A filled polygon.
    Area(Vec<(f64, f64)>, Color),
    /// Points joined by straight lines.
    Line(Vec<(f64, f64)>, Color),
    /// Dots of this radius in px; seen through where there are many.
    Dots(Vec<(f64, f64)>, u32, Color),
    /// A box from one corner to the opposite one.
    Bar([(f64, f64); 2], Color),
    /// A thick line between two points: a limit.
    Limit([(f64, f64); 2]),
    /// A thin vertical line: something changes here.
    Change(f64),
    /// A dashed line across, and its meaning.
    Level(f64, String),
    /// Words.
    Words(String, (f64, f64), Place),
}

/// Where words are, seen from their point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On its right.
    Right,
    /// Above.
    Above,
    /// Below, faint.
    Below,
}

/// What a colour means.
#[derive(Clone, Debug)]
pub struct Key {
    /// In words.
    pub name: String,
    /// How it is drawn.
    pub mark: Mark,
}

/// A mark of the legend.
#[derive(Clone, Debug)]
pub enum Mark {
    /// Boxes of one or several colours.
    Boxes(Vec<Color>),
    /// That of [`Layer::Limit`].
    Limit,
}

impl Key {
    /// A colour and what it means.
    pub fn new(name: impl Into<String>, color: Color) -> Self {
        Self {
            name: name.into(),
            mark: Mark::Boxes(vec![color]),
        }
    }
}

/// At most so many decimals, and none that say nothing.
pub fn decimal(value: f64, most: usize) -> String {
    let text = format!("{value:.most$}");
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

/// What a series of values that each hold until the next point looks like; the last one holds until
/// `end`.
pub fn steps(points: &[(f64, f64)], end: f64) -> Vec<(f64, f64)> {
    let ends = points.iter().skip(1).map(|(x, _)| *x).chain([end]);
    let stretches = points.iter().zip(ends);
    stretches
        .flat_map(|(&(x, y), end)| [(x, y), (end.max(x), y)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(decimal(0.600_000_000_000_000_1, 2), "0.6");
        assert_eq!(decimal(20.0, 3), "20");
        assert_eq!(decimal(20.4, 0), "20");
        assert_eq!(decimal(0.0, 1), "0");
    }

    #[test]
    fn steps_hold_until_the_next_point() {
        assert_eq!(
            steps(&[(0.0, 1.0), (1.0, 3.0), (2.0, 0.0)], 4.0),
            [
                (0.0, 1.0),
                (1.0, 1.0),
                (1.0, 3.0),
                (2.0, 3.0),
                (2.0, 0.0),
                (4.0, 0.0)
            ]
        );
        assert!(steps(&[], 4.0).is_empty());
    }
}
