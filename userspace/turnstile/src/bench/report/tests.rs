// SPDX-License-Identifier: GPL-2.0
//! Reports of runs that were made up.

use super::*;
use crate::bench::plan::Job;

const US: Duration = Duration::from_micros(1);

/// Messages that take twice their ideal time at 10 Gbit/s and 10 us.
pub(crate) fn run(sizes: &[u64]) -> Run {
    let sample = |(at, size): (usize, &u64)| Sample {
        job: Job {
            at: Duration::ZERO,
            size: *size,
            to: 0,
            round: at as u32 / 2,
        },
        began: US * at as u32,
        took: Ok(Duration::from_nanos(2 * (10_000 + size * 4 / 5))),
    };
    let samples: Vec<Sample> = sizes.iter().enumerate().map(sample).collect();
    let lasted = samples.iter().filter_map(end).max().unwrap();
    Run { samples, lasted }
}

pub(crate) const IDEAL: Ideal = Ideal {
    link: 1_250_000_000,
    base_rtt: Duration::from_micros(10),
};

#[test]
fn nearest_ranks() {
    let values: Vec<u32> = (1..=200).collect();
    for (percent, value) in [
        (0.0, 1),
        (0.5, 1),
        (50.0, 100),
        (99.0, 198),
        (99.9, 200),
        (100.0, 200),
    ] {
        assert_eq!(percentile(&values, percent), value, "{percent}");
    }
    assert_eq!(percentile(&[7], 50.0), 7);
}

#[test]
fn four_digits() {
    assert_eq!(brief_time(Duration::from_nanos(7)), "7.000ns");
    assert_eq!(brief_time(Duration::from_nanos(123_456)), "123.5us");
    assert_eq!(brief_time(Duration::ZERO), "0.000ns");
    assert_eq!(brief_rate(1_250_000_000), "10.00gbit");
}

#[test]
fn a_table() {
    let run = run(&[1000, 1000, 2_000_000]);
    let report = Report::new(&run, Pattern::Fixed, Some(IDEAL), json!({}));
    assert_eq!(
        report.text(),
        "3 messages, 2002000 bytes in 3.222ms: 4.971gbit\n\
         size     messages     mean      p50      p95      p99      max  slowdown   p50   p99\n\
         < 10 kB         2  21.60us  21.60us  21.60us  21.60us  21.60us      2.00  2.00  2.00\n\
         1-10 MB         1  3.220ms  3.220ms  3.220ms  3.220ms  3.220ms      2.00  2.00  2.00\n\
         all             3  1.088ms  21.60us  3.220ms  3.220ms  3.220ms      2.00  2.00  2.00\n"
    );
    assert!(report.failures().is_empty());
    let plain = Report::new(&run, Pattern::Fixed, None, json!({})).text();
    assert!(!plain.contains("slowdown"), "{plain}");
}

#[test]
fn failures_by_their_cause() {
    let mut run = run(&[1000; 6]);
    for (at, why) in [(0, "dead"), (1, "lost"), (3, "lost"), (5, "lost")] {
        run.samples[at].took = Err(why.to_owned());
    }
    let report = Report::new(&run, Pattern::Fixed, None, json!({}));
    assert_eq!(report.failures(), [("lost", 3), ("dead", 1)]);
    assert!(report.text().starts_with("2 messages, "));
    for sample in &mut run.samples {
        sample.took = Err("dead".to_owned());
    }
    let report = Report::new(&run, Pattern::Fixed, None, json!({}));
    assert_eq!(report.text(), "");
    assert_eq!(report.json(false)["failed"], 6);
}

#[test]
fn as_json_with_rounds_and_failures() {
    let mut run = run(&[1000, 1000, 1000, 1000]);
    run.samples[3].took = Err("lost".to_owned());
    let report = Report::new(&run, Pattern::Incast, Some(IDEAL), json!({"seed": 1}));
    assert_eq!(report.failures(), [("lost", 1)]);
    let value = report.json(true);
    assert_eq!(
        (&value["seed"], &value["messages"], &value["failed"]),
        (&json!(1), &json!(4), &json!(1))
    );
    assert_eq!(value["failures"], json!([{"cause": "lost", "messages": 1}]));
    // The first round only: 1 us later, and 21.6 us long.
    assert_eq!(value["rounds"], json!([22_600]));
    assert_eq!(value["classes"][0]["time"]["p50"], 21_600);
    let slowdown = value["classes"][0]["slowdown"]["mean"].as_f64().unwrap();
    assert!((slowdown - 2.0).abs() < 1e-9, "{slowdown}");
    assert_eq!(value["classes"][1]["to"], Value::Null);
    assert_eq!(value["samples"][3]["error"], "lost");
    assert!(report.json(false).get("samples").is_none());
}
