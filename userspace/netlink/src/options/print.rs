// SPDX-License-Identifier: GPL-2.0
//! Printing, as text that can be typed back and as JSON, by one set of calls.
//!
//! A [`Printer`] shows a value either as text or as JSON. The plugin has one over tc's own print
//! functions, this crate one for text ([`Text`]) and one for JSON ([`crate::json::Json`]).

use std::fmt;

use turnstile_core::port::config::{Drain, Expiry, Order, Tokens};

use crate::{dscp, units, Link, Options, Phantom};

/// Shows values. Each call gives the key and value for JSON, and the words that text shows instead,
/// which end in a space.
pub trait Printer {
    /// Text that JSON does not have.
    fn text(&mut self, shown: fmt::Arguments<'_>);
    /// A string.
    fn string(&mut self, key: &str, value: &str, shown: fmt::Arguments<'_>);
    /// A number: `value` shows as a decimal.
    fn number(&mut self, key: &str, value: &dyn fmt::Display, shown: fmt::Arguments<'_>);
    /// Yes or no.
    fn boolean(&mut self, key: &str, value: bool, shown: fmt::Arguments<'_>);
    /// Begins an object of JSON.
    fn open(&mut self, key: &str);
    /// Ends it.
    fn close(&mut self);
}

/// Collects text.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// The text, without the space after its last word.
    pub fn finish(self) -> String {
        self.0.trim_end().to_owned()
    }
}

impl Printer for Text {
    fn text(&mut self, shown: fmt::Arguments<'_>) {
        self.0 += &shown.to_string();
    }

    fn string(&mut self, _: &str, _: &str, shown: fmt::Arguments<'_>) {
        self.text(shown);
    }

    fn number(&mut self, _: &str, _: &dyn fmt::Display, shown: fmt::Arguments<'_>) {
        self.text(shown);
    }

    fn boolean(&mut self, _: &str, _: bool, shown: fmt::Arguments<'_>) {
        self.text(shown);
    }

    fn open(&mut self, _: &str) {}

    fn close(&mut self) {}
}

/// Shows the options that are given, as [`crate::parse`] reads them.
pub fn print_options(options: &Options, to: &mut dyn Printer) {
    match options.link {
        Some(Link::Auto) => to.string("link", "auto", format_args!("link auto ")),
        Some(Link::Rate(rate)) => {
            to.number("link", &rate, format_args!("link {} ", units::rate(rate)))
        }
        None => {}
    }
    if let Some(tokens) = options.tokens {
        to.open("tokens");
        match tokens {
            Tokens::Share(ppb) => to.number(
                "share",
                &units::share(ppb),
                format_args!("tokens {} ", units::percent(ppb)),
            ),
            Tokens::Rate(rate) => {
                to.number("rate", &rate, format_args!("tokens {} ", units::rate(rate)))
            }
        }
        to.close();
    }
    count("priorities", options.priorities, to);
    count("token-limit", options.token_limit, to);
    match options.token_expiry {
        Some(Expiry::Auto) => to.string("token-expiry", "auto", format_args!("token-expiry auto ")),
        Some(Expiry::Off) => to.string("token-expiry", "off", format_args!("token-expiry off ")),
        Some(Expiry::After(time)) => {
            to.number(
                "token-expiry",
                &time.0,
                format_args!("token-expiry {} ", units::time(time.0)),
            );
        }
        None => {}
    }
    if let Some(order) = options.order {
        let word = match order {
            Order::TokensFirst => "tokens-first",
            Order::DataFirst => "data-first",
        };
        to.string("order", word, format_args!("order {word} "));
    }
    match options.unscheduled {
        Some(0) => to.string("unscheduled", "off", format_args!("unscheduled off ")),
        packets => count("unscheduled", packets, to),
    }
    if let Some(bytes) = options.data_limit {
        to.number(
            "data-limit",
            &bytes,
            format_args!("data-limit {} ", units::size(bytes.into())),
        );
    }
    count("signal-limit", options.signal_limit, to);
    if let Some(map) = options.dscp {
        to.open("dscp");
        to.text(format_args!("dscp {} ", dscp::print(&map)));
        for (code, band) in dscp::entries(&map) {
            to.string(&code.to_string(), &band.to_string(), format_args!(""));
        }
        to.close();
    }
    if let Some(on) = options.split_gso {
        to.boolean(
            "split-gso",
            on,
            format_args!("{}split-gso ", if on { "" } else { "no-" }),
        );
    }
    count("overhead", options.overhead, to);
    count("mpu", options.mpu, to);
    if let Some(jitter) = options.jitter {
        let time = units::time(jitter.0);
        to.number("jitter", &jitter.0, format_args!("jitter {time} "));
    }
    match options.phantom {
        Some(Phantom::Off) => to.string("phantom", "off", format_args!("phantom off ")),
        Some(Phantom::On { drain, mark }) => {
            to.open("phantom");
            to.text(format_args!("phantom "));
            match drain {
                Some(Drain::Share(ppb)) => {
                    to.open("drain");
                    let percent = units::percent(ppb);
                    to.number(
                        "share",
                        &units::share(ppb),
                        format_args!("drain {percent} "),
                    );
                    to.close();
                }
                Some(Drain::Rate(rate)) => {
                    to.open("drain");
                    to.number("rate", &rate, format_args!("drain {} ", units::rate(rate)));
                    to.close();
                }
                None => {}
            }
            if let Some(bytes) = mark {
                to.number(
                    "mark",
                    &bytes,
                    format_args!("mark {} ", units::size(bytes.into())),
                );
            }
            to.close();
        }
        None => {}
    }
    match options.ren {
        Some(None) => to.string("ren", "off", format_args!("ren off ")),
        Some(Some(period)) => {
            to.open("ren");
            let time = units::time(period.0);
            to.number("period", &period.0, format_args!("ren period {time} "));
            to.close();
        }
        None => {}
    }
}

fn count(key: &str, value: Option<u32>, to: &mut dyn Printer) {
    if let Some(value) = value {
        to.number(key, &value, format_args!("{key} {value} "));
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::default();
        print_options(self, &mut text);
        f.write_str(&text.finish())
    }
}
