// SPDX-License-Identifier: GPL-2.0
//! Draws the figures: two bars for each set-up, and marks for what the gates allow.

use anyhow::{anyhow, Result};
use turnstile_plot::{
    color, logarithmic, Axis, Color, Key, Layer, Mark, Panel, Picture, Place, Row,
};
use turnstile_test_protocol::bench::{Boot, Messages, SetUp};

use super::gates::limit;

/// Height of a set-up's row, px.
const ROW: u32 = 34;
/// Height of the axis below, px.
const FOOT: u32 = 52;
/// Height of the bar of a transport, px, and of what is between loads.
const BAR: u32 = 11;
const BETWEEN: u32 = 12;
/// Room for the figures to the right of the longest bar, as a part of it.
const ROOM: f64 = 0.1;
/// Between a bar and its figures, as a part of the longest bar.
const GAP: f64 = 0.006;
/// The parts of a direct call: ours are warm, others' cold.
const PARTS: [&str; 3] = ["enqueue", "dequeue", "empty dequeue"];
const OURS: [Color; 3] = [color::WARM[2], color::WARM[4], color::WARM[6]];
const OTHERS: [Color; 3] = color::COLD;

/// The picture, as the text of an SVG file.
///
/// # Errors
/// The figures cannot be drawn.
pub(super) fn draw(boot: &Boot) -> Result<String> {
    let rows = u32::try_from(boot.setups.len())?;
    let parts = PARTS.iter().zip(OURS).zip(OTHERS);
    let mut legend: Vec<Key> = parts
        .map(|((name, ours), others)| Key {
            name: (*name).into(),
            mark: Mark::Boxes(vec![ours, others]),
        })
        .collect();
    let path = "whole transmit path less that without a queue";
    legend.push(Key::new(path, color::GRAY));
    legend.push(Key {
        name: "what a gate allows a direct call".into(),
        mark: Mark::Limit,
    });
    let mut rows = vec![Row {
        height: rows * ROW + FOOT,
        panels: vec![panel(boot)],
        ..Row::default()
    }];
    rows.extend(messages(&boot.messages)?);
    let picture = Picture {
        title: "What a packet costs: Turnstile's port and the stock qdiscs".into(),
        below: format!(
            "Instructions of the stock kernel {}, counted by QEMU. Means over the bands or flows \
             in turn.",
            boot.kernel
        ),
        legend,
        rows,
        ..Picture::default()
    };
    picture.svg().map_err(|why| anyhow!(why))
}

fn panel(boot: &Boot) -> Panel {
    let longest = boot
        .setups
        .iter()
        .map(SetUp::costs)
        .map(|costs| costs.direct.max(costs.xmit_minus_noqueue))
        .fold(1.0, f64::max);
    let rows = boot.setups.len() as f64;
    let (mut names, mut layers) = (Vec::new(), Vec::new());
    for (n, set_up) in boot.setups.iter().enumerate() {
        let top = rows - n as f64;
        names.push((top - 0.5, set_up.label()));
        row(set_up, &mut layers, top, longest * GAP);
        if let Some(limit) = limit(boot, &set_up.name) {
            layers.push(Layer::Limit([(limit, top - 0.04), (limit, top - 0.66)]));
        }
    }
    let across = (0.0, longest * (1.0 + ROOM));
    Panel {
        x: Axis::linear("instructions per packet", across, 12).grid(),
        y: Axis::words((0.0, rows), names),
        layers,
        ..Panel::default()
    }
}

/// What loads cost with each transport, in times of what they do with TCP.
fn messages(all: &[Messages]) -> Result<Option<Row>> {
    let mut transports: Vec<&str> = Vec::new();
    let mut loads: Vec<(&str, f64)> = Vec::new();
    for row in all {
        if !transports.contains(&row.transport.as_str()) {
            transports.push(&row.transport);
        }
    }
    for row in all.iter().filter(|row| row.transport == "tcp") {
        loads.push((&row.load, row.per_unit()));
    }
    if loads.is_empty() {
        return Ok(None);
    }
    let of = |load: &'_ str| -> Vec<&Messages> {
        let rows = all.iter().filter(|row| row.load == load);
        rows.collect()
    };
    let ratios = loads
        .iter()
        .flat_map(|(load, tcp)| of(load).into_iter().map(move |row| row.per_unit() / tcp));
    let (least, most) = logarithmic(ratios);
    let each = f64::from(transports.len() as u32 * BAR + BETWEEN);
    let (mut names, mut layers) = (Vec::new(), Vec::new());
    for (n, (load, tcp)) in loads.iter().enumerate() {
        let top = (loads.len() - n) as f64;
        let title = of(load).first().map(|row| row.title.clone());
        names.push((top - 0.5, title.unwrap_or_default()));
        for row in of(load) {
            let place = transports.iter().position(|it| *it == row.transport);
            let at = f64::from(BETWEEN / 2) + place.unwrap_or(0) as f64 * f64::from(BAR);
            let (above, below) = (top - at / each, top - (at + f64::from(BAR) - 1.0) / each);
            let ratio = row.per_unit() / tcp;
            let color = color::series(place.unwrap_or(0));
            layers.push(Layer::Bar([(1.0, above), (ratio, below)], color));
            let words = format!(
                "{:.*}",
                usize::from(row.per_unit() < 1000.0),
                row.per_unit()
            );
            layers.push(Layer::Words(
                words,
                (ratio.max(1.0) * 1.02, (above + below) / 2.0),
                Place::Right,
            ));
        }
    }
    let legend = transports.iter().enumerate();
    let panel = Panel {
        legend: legend
            .map(|(n, name)| Key::new(*name, color::series(n)))
            .collect(),
        x: Axis::log("times what TCP takes", (least.min(0.9), most * 1.3)),
        y: Axis::words((0.0, loads.len() as f64), names),
        layers,
        ..Panel::default()
    };
    Ok(Some(Row {
        height: u32::try_from(loads.len())? * (transports.len() as u32 * BAR + BETWEEN)
            + FOOT
            + ROW,
        caption: "Instructions of a message, or a byte of 8 MiB: both ends and the way between"
            .into(),
        panels: vec![panel],
    }))
}

/// The bars of one set-up, the upper end of whose row is `top`.
fn row(set_up: &SetUp, layers: &mut Vec<Layer>, top: f64, gap: f64) {
    let costs = set_up.costs();
    let colors = if set_up.is_ours() { OURS } else { OTHERS };
    let mut from = 0.0;
    let parts = [costs.enqueue, costs.dequeue, costs.empty_dequeue];
    for (cost, color) in parts.into_iter().zip(colors) {
        let corners = [(from, top - 0.12), (from + cost, top - 0.58)];
        layers.push(Layer::Bar(corners, color));
        from += cost;
    }
    let xmit = costs.xmit_minus_noqueue.max(0.0);
    let corners = [(0.0, top - 0.62), (xmit, top - 0.86)];
    layers.push(Layer::Bar(corners, color::GRAY));
    let words = format!("{from:.0} | {xmit:.0}");
    let end = (from.max(xmit) + gap, top - 0.5);
    layers.push(Layer::Words(words, end, Place::Right));
}

#[cfg(test)]
mod tests {
    use super::super::example::example;
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
            "times what TCP takes",
            "the load 100B",
            "udp",
        ] {
            assert!(svg.contains(text), "{text} is not in the picture");
        }
        // The legend's mark and one for each of the three configurations that have gates.
        assert_eq!(svg.matches("stroke-width=\"3\"").count(), 4);
    }
}
