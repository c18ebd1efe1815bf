// SPDX-License-Identifier: GPL-2.0
//! Printing as JSON.

use std::fmt;

use serde_json::{Map, Number, Value};

use crate::print::Printer;

/// Collects an object of JSON.
#[derive(Debug, Default)]
pub struct Json {
    object: Map<String, Value>,
    /// The objects around it, each with the key under which the next inner one belongs into it.
    around: Vec<(Map<String, Value>, String)>,
}

impl Json {
    /// Adds a member that is made already.
    pub fn insert(&mut self, key: &str, value: Value) {
        self.object.insert(key.to_owned(), value);
    }

    /// The object.
    pub fn finish(mut self) -> Value {
        while !self.around.is_empty() {
            self.close();
        }
        Value::Object(self.object)
    }
}

impl Printer for Json {
    fn text(&mut self, _: fmt::Arguments<'_>) {}

    fn string(&mut self, key: &str, value: &str, _: fmt::Arguments<'_>) {
        self.insert(key, value.into());
    }

    fn number(&mut self, key: &str, value: &dyn fmt::Display, _: fmt::Arguments<'_>) {
        let text = value.to_string();
        // What does not read as a number stays a string, rather than spoil the whole.
        let value = text
            .parse::<Number>()
            .map_or(Value::String(text), Value::Number);
        self.insert(key, value);
    }

    fn boolean(&mut self, key: &str, value: bool, _: fmt::Arguments<'_>) {
        self.insert(key, value.into());
    }

    fn open(&mut self, key: &str) {
        self.around
            .push((std::mem::take(&mut self.object), key.to_owned()));
    }

    fn close(&mut self) {
        if let Some((outer, key)) = self.around.pop() {
            let inner = std::mem::replace(&mut self.object, outer);
            self.insert(&key, Value::Object(inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::print_options;
    use serde_json::json;

    fn as_json(text: &str) -> Value {
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut json = Json::default();
        print_options(&crate::parse(&words).unwrap(), &mut json);
        json.finish()
    }

    #[test]
    fn every_option() {
        let value = as_json(
            "link 10gbit tokens 5.1787916% priorities 6 token-limit 8 token-expiry auto \
             token-drop fair order tokens-first unscheduled 1 data-limit 1514000 \
             signal-limit 1000 signal-share 5% \
             dscp default split-gso gso-hold 40us overhead 24 mpu 84 jitter 50us",
        );
        assert_eq!(
            value.to_string(),
            concat!(
                r#"{"link":1250000000,"tokens":{"share":0.051787916},"priorities":6,"#,
                r#""token-limit":8,"token-expiry":"auto","token-drop":"fair","#,
                r#""order":"tokens-first","unscheduled":1,"#,
                r#""data-limit":1514000,"signal-limit":1000,"#,
                r#""signal-share":0.05,"#,
                r#""dscp":{"48":"signal","56":"signal"},"split-gso":true,"gso-hold":40000,"#,
                r#""overhead":24,"mpu":84,"jitter":50000}"#
            )
        );
    }

    #[test]
    fn a_flag_with_a_word() {
        assert_eq!(
            as_json("split-gso auto gso-hold auto"),
            json!({"split-gso": "auto", "gso-hold": "auto"})
        );
    }

    #[test]
    fn other_forms() {
        assert_eq!(
            as_json(
                "link auto tokens 1gbit token-expiry 5us unscheduled off dscp none no-split-gso"
            ),
            json!({
                "link": "auto", "tokens": {"rate": 125_000_000}, "token-expiry": 5000,
                "unscheduled": "off",
                "dscp": {}, "split-gso": false,
            })
        );
    }
}
