// SPDX-License-Identifier: GPL-2.0
//! Messages, peers, links and events as text and as JSON, by one set of calls.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;

use turnstile_core::options::Table;
use turnstile_core::transport::config::Config;
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::uapi::stat;

use super::record::{Direction, Event, Link, Message, Peer};
use crate::print::Printer;
use crate::units;

/// An address with a port, as it is typed.
pub fn address(ip: Option<IpAddr>, port: u16) -> String {
    match ip {
        Some(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        Some(IpAddr::V4(ip)) => format!("{ip}:{port}"),
        None => format!("?:{port}"),
    }
}

fn direction(message: &Message) -> &'static str {
    match message.direction {
        Some(Direction::In) => "in",
        Some(Direction::Out) => "out",
        None => "?",
    }
}

/// Shows a number if it is there.
fn maybe<T: fmt::Display + Copy>(
    key: &str,
    value: Option<T>,
    shown: impl Fn(T) -> String,
    to: &mut dyn Printer,
) {
    if let Some(value) = value {
        to.number(key, &value, format_args!("{key} {} ", shown(value)));
    }
}

fn count(key: &str, value: u64, to: &mut dyn Printer) {
    to.number(key, &value, format_args!("{key} {value} "));
}

/// Shows a message: in text as one line of names and values.
pub fn print_message(message: &Message, to: &mut dyn Printer) {
    let (way, peer) = (direction(message), address(message.peer, message.peer_port));
    let arrow = if way == "in" { "from" } else { "to" };
    count("number", message.number, to);
    to.string("direction", way, format_args!("{way} "));
    to.number(
        "local-port",
        &message.local_port,
        format_args!("port {} ", message.local_port),
    );
    to.string("peer", &peer, format_args!("{arrow} {peer} "));
    to.text(format_args!("{} ", progress(message)));
    if let Some(length) = message.length {
        to.number("length", &length, format_args!(""));
    }
    to.number("received", &message.received, format_args!(""));
    count("window", message.window, to);
    maybe("priority", message.priority, |p| p.to_string(), to);
    maybe("rate", message.rate, units::rate_decimal, to);
    maybe("rtt", message.rtt, units::time_decimal, to);
    count("tokens", message.tokens, to);
    count("tokens-lost", message.tokens_lost, to);
    count("packets", message.packets, to);
    count("repeated", message.repeated, to);
    maybe("coflow", message.coflow, |c| c.to_string(), to);
    maybe("deadline", message.deadline, units::time_decimal, to);
    maybe("age", Some(message.age), units::time_decimal, to);
}

/// How much of it is there: `250000/1000000`, `250000/?` while the length is not known.
pub fn progress(message: &Message) -> String {
    match message.length {
        Some(length) => format!("{}/{length}", message.received),
        None => format!("{}/?", message.received),
    }
}

/// Shows an event: in text as one line.
pub fn print_event(event: &Event, to: &mut dyn Printer) {
    let kind = event.kind.name();
    to.string("event", kind, format_args!("{kind} "));
    if let Some(errno) = event.error {
        let why = i32::try_from(errno).map(io::Error::from_raw_os_error);
        let why = why.map_or_else(|_| errno.to_string(), |error| error.to_string());
        to.number("errno", &errno, format_args!("({why}) "));
        to.string("error", &why, format_args!(""));
    }
    if let Some(limit) = event.limit {
        let name = Config::option(limit).map_or("memory", |option| option.name);
        to.string("limit", name, format_args!("{name} "));
    }
    if event.lost != 0 {
        let lost = event.lost;
        to.number(
            "lost",
            &lost,
            format_args!("({lost} events before it are lost) "),
        );
    }
    // What happened to the transport as a whole has no message.
    if event.message.direction.is_some() {
        print_message(&event.message, to);
    }
}

/// The counters that are known: name, attribute number, and what it counts.
pub fn counters() -> impl Iterator<Item = (String, u16, &'static str)> {
    Counter::ALL.iter().map(|counter| {
        let number = stat::FIRST + *counter as u16;
        (
            counter.name().replace('_', "-"),
            number,
            counter.doc().trim(),
        )
    })
}

/// Shows counters: in JSON all, in text as lines those that are not 0, or all.
///
/// `values` are attribute numbers and values. A counter that is not known here has its number for a
/// name.
pub fn print_counters(values: &[(u16, u64)], all: bool, to: &mut dyn Printer) {
    let names: BTreeMap<u16, String> = counters().map(|(name, number, _)| (number, name)).collect();
    for (number, value) in values {
        let name = names.get(number).cloned();
        let name = name.unwrap_or_else(|| format!("counter-{number}"));
        if all || *value != 0 {
            to.number(&name, value, format_args!("{name} {value}\n"));
        } else {
            to.number(&name, value, format_args!(""));
        }
    }
}

/// Shows a peer: in text as one line.
pub fn print_peer(peer: &Peer, to: &mut dyn Printer) {
    let address = peer
        .address
        .map_or_else(|| "?".to_owned(), |ip| ip.to_string());
    to.string("address", &address, format_args!("{address} "));
    count("incoming", peer.incoming.into(), to);
    count("outgoing", peer.outgoing.into(), to);
    count("missing", peer.missing, to);
    count("unacknowledged", peer.unacknowledged, to);
    maybe("rtt", peer.rtt, units::time_decimal, to);
}

/// Shows a link, whose device has this name: in text as one line.
pub fn print_link(link: &Link, name: Option<&str>, to: &mut dyn Printer) {
    if let Some(device) = link.device {
        to.number("device", &device, format_args!(""));
    }
    match (name, link.device) {
        (Some(name), _) => to.string("name", name, format_args!("{name} ")),
        (None, Some(device)) => to.string("name", "", format_args!("device {device} ")),
        (None, None) => to.string("name", "", format_args!("others ")),
    }
    let mut rate = |key: &str, value: u64| {
        let shown = units::rate_decimal(value);
        to.number(key, &value, format_args!("{key} {shown} "));
    };
    rate("rate", link.rate);
    rate("token-rate", link.token_rate);
    count("incoming", link.incoming.into(), to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::print::Text;
    use crate::transport::record::tests::{outgoing, read};
    use crate::transport::record::EventKind;
    use serde_json::json;
    use turnstile_core::transport::uapi::config;

    #[test]
    fn a_message_as_a_line_and_as_json() {
        let mut message = Message::decode(&read(&outgoing())).unwrap();
        let mut text = Text::default();
        print_message(&message, &mut text);
        assert_eq!(
            text.finish(),
            "number 7 out port 40000 to 10.0.0.2:5000 250000/1000000 window 300000 tokens 210 \
             tokens-lost 1 \
             packets 210 repeated 2 coflow 3 age 1.5ms"
        );
        message.direction = Some(Direction::In);
        message.length = None;
        message.rate = Some(62_500_000);
        message.peer = Some("fd00::1".parse().unwrap());
        let mut text = Text::default();
        print_message(&message, &mut text);
        let text = text.finish();
        assert!(
            text.starts_with("number 7 in port 40000 from [fd00::1]:5000 250000/? window"),
            "{text}"
        );
        assert!(text.contains(" rate 500mbit "), "{text}");
        let mut to = Json::default();
        print_message(&message, &mut to);
        let value = to.finish();
        assert_eq!(
            (&value["rate"], &value["received"]),
            (&json!(62_500_000), &json!(250_000))
        );
        assert_eq!(value["peer"], "[fd00::1]:5000");
        assert!(value.get("length").is_none() && value.get("priority").is_none());
    }

    #[test]
    fn events() {
        let mut event = Event {
            kind: EventKind::Failed,
            error: Some(110),
            limit: None,
            lost: 0,
            message: Message::decode(&read(&outgoing())).unwrap(),
        };
        let mut text = Text::default();
        print_event(&event, &mut text);
        let text = text.finish();
        assert!(
            text.starts_with("failed (Connection timed out (os error 110)) number 7 out"),
            "{text}"
        );
        event = Event {
            kind: EventKind::Configured,
            error: None,
            limit: None,
            lost: 0,
            message: Message::default(),
        };
        let mut text = Text::default();
        print_event(&event, &mut text);
        assert_eq!(text.finish(), "configured");
        event = Event {
            kind: EventKind::Limited,
            limit: Some(config::MAX_PER_PEER),
            lost: 3,
            ..event
        };
        let mut text = Text::default();
        print_event(&event, &mut text);
        assert_eq!(
            text.finish(),
            "limited max-per-peer (3 events before it are lost)"
        );
    }

    #[test]
    fn counters_by_name() {
        let values = [(stat::FIRST, 3), (stat::FIRST + 1, 0), (4000, 1)];
        let shown = |all| {
            let mut text = Text::default();
            print_counters(&values, all, &mut text);
            text.finish()
        };
        assert_eq!(shown(false), "out-opened 3\ncounter-4000 1");
        assert_eq!(shown(true), "out-opened 3\nout-delivered 0\ncounter-4000 1");
        let mut to = Json::default();
        print_counters(&values, false, &mut to);
        assert_eq!(
            to.finish(),
            json!({"out-opened": 3, "out-delivered": 0, "counter-4000": 1})
        );
    }

    #[test]
    fn a_link() {
        let mut link = Link {
            device: Some(3),
            rate: 1_250_000_000,
            token_rate: 64_734_895,
            incoming: 2,
        };
        let text = |link: &Link, name| {
            let mut text = Text::default();
            print_link(link, name, &mut text);
            text.finish()
        };
        let rest = "rate 10gbit token-rate 517.87916mbit incoming 2";
        assert_eq!(text(&link, Some("eth0")), format!("eth0 {rest}"));
        assert_eq!(text(&link, None), format!("device 3 {rest}"));
        let mut object = Json::default();
        print_link(&link, Some("eth0"), &mut object);
        assert_eq!(
            object.finish(),
            json!({"device": 3, "name": "eth0", "rate": 1_250_000_000_u64,
                   "token-rate": 64_734_895, "incoming": 2})
        );
        link.device = None;
        assert_eq!(text(&link, None), format!("others {rest}"));
    }

    #[test]
    fn a_peer() {
        let peer = Peer {
            address: Some("10.0.0.2".parse().unwrap()),
            incoming: 3,
            missing: 9,
            rtt: Some(48_000),
            ..Peer::default()
        };
        let mut text = Text::default();
        print_peer(&peer, &mut text);
        assert_eq!(
            text.finish(),
            "10.0.0.2 incoming 3 outgoing 0 missing 9 unacknowledged 0 rtt 48us"
        );
    }
}
