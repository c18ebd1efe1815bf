// SPDX-License-Identifier: GPL-2.0
//! Ports as text and as JSON.

use std::fmt::Write;

use serde_json::{json, Value};
use turnstile_core::port::uapi;
use turnstile_netlink::json::Json;
use turnstile_netlink::message::{Class, Counters, Port};
use turnstile_netlink::place::Id;
use turnstile_netlink::print::{print_options, Printer, Text};
use turnstile_netlink::stats::{print_class_stats, print_marker_stats, print_port_stats};
use turnstile_netlink::units;

use crate::cli::Cli;
use crate::table::{self, Layout};

/// The whole output of `port show`.
pub(crate) fn ports(ports: &[Port], cli: &Cli) -> String {
    if !cli.json {
        return ports.iter().map(|port| text(port, cli)).collect();
    }
    let list = Value::Array(ports.iter().map(|port| object(port, cli)).collect());
    if cli.pretty {
        format!("{list:#}\n")
    } else {
        format!("{list}\n")
    }
}

/// The place as it is typed: `root` or `parent 1:2`.
pub(crate) fn place(parent: Id) -> String {
    match parent {
        Id::ROOT => "root".to_owned(),
        parent => format!("parent {parent}"),
    }
}

fn text(port: &Port, cli: &Cli) -> String {
    let queues = if port.queues { "queues " } else { "" };
    let mut out = format!(
        "port {} {} handle {} {queues}{}\n",
        port.dev,
        place(port.parent),
        port.handle,
        port.options
    );
    if cli.details {
        let expiry = match port.stats.token_expiry {
            0 => "off".to_owned(),
            ns => units::time_decimal(ns),
        };
        let (link, tokens) = (port.stats.link_in_force(), port.stats.tokens_in_force());
        let _ = writeln!(
            out,
            "  in force: link {link} tokens {tokens} token-limit {} token-expiry {expiry} \
             token-slack {}",
            port.stats.token_limit,
            units::time_decimal(port.stats.token_slack)
        );
    }
    if cli.stats {
        out += &counters_text(&port.counters);
        let mut stats = Text::default();
        print_port_stats(&port.stats, "  ", &mut stats);
        out += &stats.finish();
        out.push('\n');
        // What its classes are, the ports of the queues, is told of each of these.
        if !port.queues {
            out += &class_table(&port.classes);
        }
    }
    out
}

/// What the kernel counts for every qdisc, in two lines.
pub(crate) fn counters_text(counters: &Counters) -> String {
    let Counters {
        bytes,
        packets,
        drops,
        overlimits,
        requeues,
        backlog,
        qlen,
    } = counters;
    format!(
        "  sent {bytes} bytes {packets} packets, dropped {drops}, overlimits {overlimits}, \
         requeues {requeues}\n  backlog {backlog} bytes {qlen} packets\n"
    )
}

/// A row per class, and a line per marker.
fn class_table(classes: &[Class]) -> String {
    let heads = [
        "class",
        "band",
        "offered",
        "sent",
        "over-limit",
        "expired",
        "trimmed",
        "purged",
        "child",
        "queued",
        "max-queued",
        "sojourn-mean",
        "sojourn-max",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(classes.iter().map(|class| {
        let stats = &class.stats;
        [
            class.id.to_string(),
            class
                .band
                .map_or_else(|| "?".to_owned(), |band| band.to_string()),
            stats.offered_packets.to_string(),
            class.counters.packets.to_string(),
            stats.over_limit.to_string(),
            stats.expired.to_string(),
            stats.trimmed.to_string(),
            stats.purged.to_string(),
            stats.child.to_string(),
            stats.queued.to_string(),
            stats.max_packets.to_string(),
            units::time_decimal(stats.sojourn_mean),
            units::time_decimal(stats.sojourn_max),
        ]
    }));
    let layout = Layout {
        indent: 2,
        gap: 1,
        names: 2,
    };
    let mut out = table::text(rows, layout);
    for class in classes {
        if !class.markers.fields().is_empty() {
            let mut stats = Text::default();
            print_marker_stats(&class.markers, &format!("  {} ", class.id), &mut stats);
            out += &stats.finish();
            out.push('\n');
        }
    }
    out
}

pub(crate) fn counters(counters: &Counters, json: &mut Json) {
    json.insert("bytes", counters.bytes.into());
    json.insert("packets", counters.packets.into());
    json.insert("drops", counters.drops.into());
    json.insert("overlimits", counters.overlimits.into());
    json.insert("requeues", counters.requeues.into());
    json.insert("backlog", counters.backlog.into());
    json.insert("qlen", counters.qlen.into());
}

fn object(port: &Port, cli: &Cli) -> Value {
    let mut json = Json::default();
    json.insert("dev", port.dev.as_str().into());
    let kind = if port.queues {
        uapi::KIND_MQ
    } else {
        uapi::KIND
    };
    json.insert("kind", kind.into());
    json.insert("handle", port.handle.to_string().into());
    match port.parent {
        Id::ROOT => json.insert("root", true.into()),
        parent => json.insert("parent", parent.to_string().into()),
    }
    json.open("options");
    print_options(&port.options, &mut json);
    json.close();
    if cli.details {
        let stats = &port.stats;
        let mut in_force = json!({
            "link-rate": stats.link_rate, "token-rate": stats.token_rate,
            "token-limit": stats.token_limit, "token-expiry": stats.token_expiry,
            "token-slack": stats.token_slack,
        });
        if stats.is_unresolved() {
            in_force["link"] = "unresolved".into();
        }
        json.insert("in-force", in_force);
    }
    if cli.stats {
        counters(&port.counters, &mut json);
        json.open("stats");
        print_port_stats(&port.stats, "", &mut json);
        json.close();
        json.insert(
            "classes",
            port.classes
                .iter()
                .map(|class| class_object(class, port.handle))
                .collect(),
        );
    }
    json.finish()
}

/// The same as an element of `tc -s -j class show`.
fn class_object(class: &Class, port: Id) -> Value {
    let mut json = Json::default();
    json.insert("class", uapi::KIND.into());
    json.insert("handle", class.id.to_string().into());
    json.insert("parent", port.to_string().into());
    if let Some(leaf) = class.leaf {
        json.insert("leaf", format!("{:#x}", leaf.major()).into());
    }
    if let Some(band) = class.band {
        json.insert("band", band.to_string().into());
    }
    json.open("stats");
    counters(&class.counters, &mut json);
    print_class_stats(&class.stats, &class.markers, "", &mut json);
    json.close();
    json.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use turnstile_core::port::band::Band;
    use turnstile_netlink::stats::{ClassStats, MarkerStats, PhantomStats, PortStats};
    use turnstile_netlink::{parse, place::Place};

    fn port() -> Port {
        Port {
            index: 2,
            dev: "swp1".to_owned(),
            handle: Id::new(1, 0),
            parent: Id::ROOT,
            queues: false,
            options: parse(&["link", "10gbit", "tokens", "5%", "split-gso"]).unwrap(),
            counters: Counters {
                bytes: 1500,
                packets: 1,
                drops: 3,
                ..Counters::default()
            },
            stats: PortStats {
                link_rate: 1_250_000_000,
                token_rate: 62_500_000,
                token_expiry: 10_752,
                token_limit: 8,
                token_slack: 10_752,
                slack_forfeits: 2,
                slack_forfeited: 1_500,
                ..PortStats::default()
            },
            classes: vec![
                Class {
                    id: Id::new(1, 2),
                    band: Some(Band::Data),
                    leaf: Some(Id::new(0x8002, 0)),
                    counters: Counters {
                        packets: 1,
                        ..Counters::default()
                    },
                    stats: ClassStats {
                        offered_packets: 4,
                        over_limit: 3,
                        sojourn_max: 1_000_000,
                        ..ClassStats::default()
                    },
                    markers: MarkerStats {
                        phantom: Some(PhantomStats {
                            seen: 4,
                            marked: 1,
                            ..PhantomStats::default()
                        }),
                        ..MarkerStats::default()
                    },
                },
                Class {
                    id: Id::new(1, 0x10),
                    band: Some(Band::Token(0)),
                    leaf: None,
                    counters: Counters::default(),
                    stats: ClassStats::default(),
                    markers: MarkerStats::default(),
                },
            ],
        }
    }

    fn shown(flags: &str) -> String {
        let cli = Cli::parse_from(format!("turnstile port show {flags}").split_whitespace());
        ports(&[port()], &cli)
    }

    #[test]
    fn text_can_be_typed_back() {
        let text = shown("");
        assert_eq!(
            text,
            "port swp1 root handle 1: link 10gbit tokens 5% split-gso\n"
        );
        let words: Vec<&str> = text.split_whitespace().skip(1).collect();
        let (place, rest) = Place::parse(&words).unwrap();
        assert_eq!(
            (place.parent, place.handle),
            (Id::ROOT, Some(port().handle))
        );
        assert_eq!(parse(rest).unwrap(), port().options);
        let below = Port {
            parent: Id::new(8, 1),
            ..port()
        };
        assert!(
            super::text(&below, &Cli::parse_from(["turnstile", "port", "show"]))
                .starts_with("port swp1 parent 8:1 handle 1: link")
        );
    }

    #[test]
    fn ports_of_queues_can_be_typed_back() {
        let group = Port {
            queues: true,
            ..port()
        };
        let cli = Cli::parse_from(["turnstile", "-s", "port", "show"]);
        let text = text(&group, &cli);
        let line = text.lines().next().unwrap();
        let options = "link 10gbit tokens 5% split-gso";
        assert_eq!(line, format!("port swp1 root handle 1: queues {options}"));
        assert!(!text.contains("class band"), "{text}");
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let (place, rest) = Place::parse(&words).unwrap();
        assert!(place.queues);
        assert_eq!(parse(rest).unwrap(), group.options);
        assert_eq!(object(&group, &cli)["kind"], "turnstile_mq");
    }

    #[test]
    fn text_of_statistics() {
        assert_eq!(
            shown("-s -d"),
            "\
port swp1 root handle 1: link 10gbit tokens 5% split-gso
  in force: link 10gbit tokens 500mbit token-limit 8 token-expiry 10.752us token-slack 10.752us
  sent 1500 bytes 1 packets, dropped 3, overlimits 0, requeues 0
  backlog 0 bytes 0 packets
  link-rate 10gbit token-rate 500mbit token-expiry 10.752us
  link-waits 0 token-waits 0 filter-drops 0
  filter-misses 0 gso-splits 0 gso-drops 0
  token-limit 8 token-slack 10.752us slack-forfeits 2
  slack-forfeited 1.5us signal-excess 0 tcd-max-on off
  gso-pieces 0 gso-whole 0
  class band   offered sent over-limit expired trimmed purged child queued max-queued \
               sojourn-mean sojourn-max
\x20 1:2   data         4    1          3       0       0      0     0      0          0 \
\x20        0ns         1ms
\x20 1:10  token0       0    0          0       0       0      0     0      0          0 \
\x20        0ns         0ns
\x20 1:2 phantom-seen 4 phantom-markable 0 phantom-marked 1 phantom-backlog 0 phantom-max 0
"
        );
    }

    #[test]
    fn a_link_without_a_speed_is_unresolved() {
        let port = Port {
            options: parse(&["link", "auto"]).unwrap(),
            stats: PortStats::default(),
            classes: Vec::new(),
            ..port()
        };
        let shown = |flags: &str| {
            let cli = Cli::parse_from(format!("turnstile port show {flags}").split_whitespace());
            ports(std::slice::from_ref(&port), &cli)
        };
        assert_eq!(shown(""), "port swp1 root handle 1: link auto\n");
        let text = shown("-s -d");
        for line in [
            "  in force: link unresolved tokens unpaced token-limit 0 token-expiry off ",
            "  link unresolved token-rate unpaced token-expiry off\n  link-waits 0 ",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let value: Value = serde_json::from_str(&shown("-j -s -d")).unwrap();
        assert_eq!(value[0]["options"]["link"], "auto");
        assert_eq!(value[0]["in-force"]["link"], "unresolved");
        assert_eq!(value[0]["stats"]["link"], "unresolved");
        assert_eq!(value[0]["stats"]["link-rate"], 0);
    }

    #[test]
    fn json_of_everything() {
        let value: Value = serde_json::from_str(&shown("-j -s -d")).unwrap();
        let port = &value[0];
        assert_eq!(port["dev"], "swp1");
        assert_eq!(port["root"], true);
        assert_eq!(
            port["options"],
            json!({"link": 1_250_000_000, "tokens": {"share": 0.05}, "split-gso": true})
        );
        assert_eq!(
            port["in-force"],
            json!({
                "link-rate": 1_250_000_000, "token-rate": 62_500_000, "token-limit": 8,
                "token-expiry": 10_752, "token-slack": 10_752,
            })
        );
        assert_eq!((&port["bytes"], &port["drops"]), (&json!(1500), &json!(3)));
        assert_eq!(port["stats"]["link-rate"], 1_250_000_000);
        let data = &port["classes"][0];
        assert_eq!(
            (&data["handle"], &data["parent"], &data["band"]),
            (&json!("1:2"), &json!("1:"), &json!("data"))
        );
        assert_eq!(
            (&data["leaf"], &data["stats"]["over-limit"]),
            (&json!("0x8002"), &json!(3))
        );
        assert_eq!(data["stats"]["packets"], 1);
        assert_eq!(data["stats"]["phantom-marked"], 1);
        assert!(port["classes"][1]["stats"].get("phantom-seen").is_none());
        let plain: Value = serde_json::from_str(&shown("--json --pretty")).unwrap();
        assert!(plain[0].get("stats").is_none() && plain[0].get("classes").is_none());
    }

    #[test]
    fn json_of_nothing() {
        let cli = Cli::parse_from(["turnstile", "-j", "port", "show"]);
        assert_eq!(ports(&[], &cli), "[]\n");
    }
}
