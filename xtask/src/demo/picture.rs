// SPDX-License-Identifier: GPL-2.0
//! Draws the demonstration: per set-up, what each class received over time. On the left the whole
//! link, on the right its token group alone, against the share that is meant for it.

use anyhow::{anyhow, Result};
use turnstile_plot::{color, Axis, Color, Key, Layer, Panel, Picture, Place, Row};
use turnstile_test_protocol::demo::{is_token, Demo, SetUp};

use super::tables::rate;

/// Height of a set-up's row, px.
const ROW: u32 = 300;
/// How far the token group's axis reaches, as a multiple of its target.
const GROUP_AXIS: f64 = 4.4;
/// How far the link's axis reaches, as a multiple of the link.
const LINK_AXIS: f64 = 1.2;
/// bit/s of a unit of the axes.
const MBIT: f64 = 1e6;

/// The picture, as the text of an SVG file.
///
/// # Errors
/// The figures cannot be drawn.
pub(super) fn draw(demo: &Demo) -> Result<String> {
    let classes = classes(demo);
    let story: Vec<String> = ('a'..)
        .zip(&demo.phases)
        .map(|(letter, phase)| format!("{letter}: {}", phase.what))
        .collect();
    let picture = Picture {
        title: format!(
            "Who gets the link: {} ways to configure one port of {}",
            demo.setups.len(),
            rate(demo.link())
        ),
        below: format!(
            "The same load on each, in network namespaces on the stock kernel {}. Rates on the \
             wire, as received; areas are stacked.",
            demo.kernel
        ),
        legend: classes
            .iter()
            .map(|(name, color)| Key::new(*name, *color))
            .collect(),
        rows: (1..)
            .zip(&demo.setups)
            .map(|(number, set_up)| row(demo, set_up, number, &classes))
            .collect(),
        foot: story.join("  ·  "),
    };
    picture.svg().map_err(|why| anyhow!(why))
}

fn row(demo: &Demo, set_up: &SetUp, number: usize, classes: &[(&str, Color)]) -> Row {
    let (link, target) = (demo.link(), demo.target());
    // The picture is stacked as the bands are: the highest on top.
    let upwards = |keep: fn(&str) -> bool| {
        let kept = classes.iter().rev().copied();
        kept.filter(|(name, _)| keep(name)).collect::<Vec<_>>()
    };
    let share = format!("target {:.2} %", demo.token_share_percent);
    Row {
        height: ROW,
        caption: format!("{number}. {}", set_up.title),
        panels: vec![
            panel(demo, "whole link", link * LINK_AXIS)
                .stacked(set_up, &upwards(|_| true))
                .level(link, "link".into()),
            panel(demo, "token group alone", target * GROUP_AXIS)
                .stacked(set_up, &upwards(is_token))
                .level(target, share),
        ]
        .into_iter()
        .map(|drawn| drawn.0)
        .collect(),
    }
}

/// A panel that is being drawn.
struct Drawing(Panel);

/// Axes up to `top` bit/s, and the parts of the load's story: a line where one begins, and its
/// letter above.
fn panel(demo: &Demo, what: &str, top: f64) -> Drawing {
    let top = top / MBIT;
    let mut layers = Vec::new();
    for (letter, phase) in ('a'..).zip(&demo.phases) {
        if phase.from > 0.0 {
            layers.push(Layer::Change(phase.from));
        }
        let middle = (phase.from + phase.until.min(demo.duration_s)) / 2.0;
        let at = (middle, top * 0.99);
        layers.push(Layer::Words(letter.to_string(), at, Place::Below));
    }
    Drawing(Panel {
        x: Axis::linear("time, s", (0.0, demo.duration_s), 14),
        y: Axis::linear(format!("{what}, Mbit/s"), (0.0, top), 6).grid(),
        layers,
        ..Panel::default()
    })
}

impl Drawing {
    /// The classes' rates, each on top of those before it. A sample is a mean over its interval, so
    /// areas have steps.
    fn stacked(mut self, set_up: &SetUp, classes: &[(&str, Color)]) -> Self {
        let Some(width) = set_up.interval() else {
            return self;
        };
        let (_, top) = self.0.y.span;
        let mut floor = vec![0.0; set_up.samples.len()];
        for (name, color) in classes {
            let ceiling: Vec<f64> = floor
                .iter()
                .zip(&set_up.samples)
                .map(|(below, sample)| below + sample.rate(name) / MBIT)
                .collect();
            let edge = |heights: &[f64]| -> Vec<(f64, f64)> {
                let samples = set_up.samples.iter().zip(heights);
                let ends = samples.flat_map(|(sample, height)| {
                    let height = height.min(top);
                    [-0.5, 0.5].map(|half| (sample.t + half * width, height))
                });
                ends.collect()
            };
            let mut outline = edge(&ceiling);
            outline.extend(edge(&floor).into_iter().rev());
            self.0.layers.push(Layer::Area(outline, *color));
            floor = ceiling;
        }
        self
    }

    fn level(mut self, bit_s: f64, name: String) -> Self {
        self.0.layers.push(Layer::Level(bit_s / MBIT, name));
        self
    }
}

/// The classes that something was offered to in any set-up, highest first, each with its colour.
/// The tokens' priorities are steps of one hue, the highest priority the darkest.
fn classes(demo: &Demo) -> Vec<(&str, Color)> {
    let used = |name: &str| {
        let mut all = demo.setups.iter().flat_map(|set_up| &set_up.classes);
        all.any(|class| class.name == name && class.offered > 0)
    };
    let names: Vec<&str> = demo
        .setups
        .first()
        .map_or(&[][..], |set_up| &set_up.classes)
        .iter()
        .map(|class| class.name.as_str())
        .filter(|name| used(name))
        .collect();
    let tokens = names.iter().filter(|name| is_token(name)).count();
    let mut token = 0;
    names
        .into_iter()
        .map(|name| {
            let color = match name {
                "signal" => color::INK,
                "data" => color::SERIES[5],
                "unscheduled" => color::SERIES[0],
                name if is_token(name) => {
                    token += 1;
                    color::warm(token - 1, tokens)
                }
                _ => color::GRAY,
            };
            (name, color)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tables::tests::example;
    use super::draw;

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
