// SPDX-License-Identifier: GPL-2.0
//! Turnstile's transport under incast (TOP section 5.3).

use anyhow::Result;
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded};
use super::{Experiment, Lab};
use crate::scenario::incast::{
    bound, build, configure, ideal, run as measure, BUFFER, DELAY, PACKETS,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "incast-transport",
    title: "n hosts send 50 packets each to one host at the same time, with Turnstile's transport",
    source: "TOP section 5.3 and fig. 12 (n flows of 50 packets into one server: no incast \
             problem, that is the ideal time); ExpressPass section 2.1 (the bound)",
    run,
};

/// Hosts that send.
const SENDERS: [usize; 4] = [8, 32, 64, 128];
/// The set-ups to compare.
const WAYS: [(&str, &str); 4] = [
    (
        "expresspass",
        "policy expresspass link 10gbit base-rtt 20us",
    ),
    (
        "top",
        "policy top link 10gbit base-rtt 20us unscheduled off",
    ),
    (
        "top, unscheduled",
        "policy top link 10gbit base-rtt 20us unscheduled 64",
    ),
    ("by default", "unscheduled auto"),
];
/// What a port may have to hold of what is sent without tokens, bytes: `unscheduled-buffer`.
const ALLOWED: u64 = 128_000;

fn run(lab: &mut Lab) -> Result<()> {
    let fabric = build(SENDERS[SENDERS.len() - 1])?;
    let mut time_plot = Plot::new("last message done", "senders", "us", Style::Line);
    let mut queue_plot = Plot::new("longest data queue", "senders", "kB", Style::Line)
        .level("bound", bound() as f64 / 1e3);
    for (name, words) in WAYS {
        let mut table = Table::new(
            &format!("{name}: turnstile transport set {words}"),
            &[
                "senders",
                "last message done, us",
                "paper (ideal)",
                "times ideal",
                "median message, us",
                "data packets dropped",
                "paper",
                "longest data queue, kB",
                "bound",
                "unscheduled packets dropped",
                "tokens dropped",
            ],
        );
        let (mut times, mut queues) = (Vec::new(), Vec::new());
        let transport = configure(&fabric, words)?;
        for senders in SENDERS {
            lab.progress(&format!("{name}, {senders} senders"));
            let outcome = measure(&fabric, transport, senders)?;
            let last = outcome.times.last().copied().unwrap_or(0) as f64;
            let median = outcome.times[outcome.times.len() / 2] as f64;
            let seen = &outcome.seen;
            table.row(vec![
                senders.into(),
                number(last / 1e3, 1),
                number(ideal(senders) / 1e3, 1),
                number(last / ideal(senders), 3),
                number(median / 1e3, 1),
                seen.data_drops.into(),
                0.into(),
                number(seen.longest as f64 / 1e3, 1),
                number(bound() as f64 / 1e3, 1),
                seen.unscheduled_drops.into(),
                seen.token_drops.into(),
            ]);
            times.push((senders as f64, rounded(last / 1e3, 1)));
            queues.push((senders as f64, seen.longest as f64 / 1e3));
            lab.claim(
                format!("{name}, {senders} senders: no data packet is dropped"),
                seen.data_drops == 0,
            );
            let bound = match name {
                "by default" => ALLOWED,
                _ => bound(),
            };
            lab.claim(
                format!("{name}, {senders} senders: the data queue stays within {bound} bytes"),
                seen.longest <= bound,
            );
            // Unscheduled packets suffer the incast: that is why they have the last band.
            if !words.contains("unscheduled 64") {
                lab.claim(
                    format!("{name}, {senders} senders: done within 10 % of the ideal time"),
                    last <= 1.1 * ideal(senders),
                );
            }
        }
        time_plot.series(name, times);
        queue_plot.series(name, queues);
        lab.report.tables.push(table);
    }
    time_plot.series(
        "ideal",
        SENDERS
            .iter()
            .map(|&n| (n as f64, rounded(ideal(n) / 1e3, 1)))
            .collect(),
    );
    lab.report.plots.extend([time_plot, queue_plot]);
    lab.report.notes.push(format!(
        "links of 10 Gbit/s and {} us, a buffer of {} packets. Ideal: {PACKETS} full packets of \
         each sender at the link's whole rate, from the first moment on, and one way \
         through the switch; the tokens' share (5.18 %) and the round trip before the first packet \
         are not in it",
        DELAY / 1000,
        BUFFER / 1514,
    ));
    lab.report.notes.push(
        "bound: the packets of all tokens that can pass in the longest time that a token can wait, \
         8 at the receiver's port and 8 at the switch's, and one packet. By default the senders' \
         first bytes come unasked, each host's within its part of 128 kB"
            .into(),
    );
    Ok(())
}
