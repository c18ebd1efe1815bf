// SPDX-License-Identifier: GPL-2.0
//! Draws the demonstration's second part: each message as a dot, by its length and the time it
//! took, and slowdowns by length.

use anyhow::{anyhow, Result};
use turnstile_plot::{color, logarithmic, Axis, Key, Layer, Panel, Picture, Place, Row};
use turnstile_test_protocol::messages::Messages;

use super::tables::rate;

/// Height of the panels, px.
const HEIGHT: u32 = 420;

/// The picture, as the text of an SVG file.
///
/// # Errors
/// The figures cannot be drawn.
pub(super) fn draw(messages: &Messages) -> Result<String> {
    let keys = (0..).zip(&messages.ways).map(|(n, way)| {
        let text = format!(
            "{} ({} data packets dropped, longest queue {:.1} kB)",
            way.title,
            way.data_drops,
            way.longest_queue_bytes as f64 / 1e3
        );
        Key::new(text, color::series(n))
    });
    let picture = Picture {
        title: "How long messages take: the same messages with each transport".into(),
        below: format!(
            "{} hosts over two switches on the stock kernel, links of {}, round trip {} ms, {} kB \
             in a port, {} % load of the link in the middle.",
            messages.hosts,
            rate(messages.link_bit_s as f64),
            messages.rtt_ms,
            messages.buffer_bytes as f64 / 1e3,
            messages.load_percent
        ),
        legend: keys.collect(),
        rows: vec![Row {
            height: HEIGHT,
            panels: vec![dots(messages), bars(messages)],
            ..Row::default()
        }],
        ..Picture::default()
    };
    picture.svg().map_err(|why| anyhow!(why))
}

fn dots(messages: &Messages) -> Panel {
    let points = |way: usize| {
        let points = messages.ways[way].points.iter();
        points
            .map(|(bytes, ms)| (*bytes as f64 / 1e3, *ms))
            .collect::<Vec<_>>()
    };
    let ways = 0..messages.ways.len();
    let all: Vec<(f64, f64)> = ways.clone().flat_map(points).collect();
    let lengths = logarithmic(all.iter().map(|point| point.0));
    let times = logarithmic(all.iter().map(|point| point.1));
    Panel {
        weight: 7,
        x: Axis::log("message's length, kB", lengths),
        y: Axis::log("from asking to the last byte read, ms", times),
        // Ours last, so that no other hides it.
        layers: ways
            .rev()
            .map(|way| Layer::Dots(points(way), 4, color::series(way)))
            .collect(),
        ..Panel::default()
    }
}

/// Mean slowdowns by length, and the 99th percentile as a whisker.
fn bars(messages: &Messages) -> Panel {
    let names = messages.ways.first().map_or(&[][..], |way| &way.classes);
    let names: Vec<(f64, String)> = (0..)
        .zip(names)
        .map(|(index, class)| (f64::from(index) + 0.5, class.class.clone()))
        .collect();
    let classes = messages.ways.iter().flat_map(|way| &way.classes);
    let top = classes
        .map(|class| class.slowdown_p99.max(class.slowdown_mean))
        .fold(1.0, f64::max);
    let width = 0.7 / messages.ways.len().max(1) as f64;
    let mut layers = Vec::new();
    for (number, way) in messages.ways.iter().enumerate() {
        for (index, class) in way.classes.iter().enumerate() {
            let (mean, tail) = (class.slowdown_mean, class.slowdown_p99);
            let left = index as f64 + 0.15 + number as f64 * width;
            let middle = left + width * 0.45;
            let color = color::series(number);
            let words = format!("{mean:.1}");
            layers.extend([
                Layer::Bar([(left, 0.0), (left + width * 0.9, mean)], color),
                Layer::Line(vec![(middle, mean), (middle, tail)], color),
                Layer::Words(words, (middle, tail.max(mean)), Place::Above),
            ]);
        }
    }
    let what = "times the time alone: mean, and 99 %";
    Panel {
        weight: 5,
        x: Axis::words((0.0, names.len().max(1) as f64), names),
        y: Axis::linear(what, (0.0, top * 1.15), 8).grid(),
        layers,
        ..Panel::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::tests::example;
    use super::*;

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
}
