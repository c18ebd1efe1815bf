// SPDX-License-Identifier: GPL-2.0
//! `turnstile pacer`: host pacers.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use clap::Subcommand;
use serde_json::Value;
use turnstile_core::pacer::uapi::KIND;
use turnstile_netlink::json::Json;
use turnstile_netlink::pacer::client::{Pacer, Pacers};
use turnstile_netlink::pacer::{print_options, print_stats, Options};
use turnstile_netlink::place::{Id, Place};
use turnstile_netlink::print::{Printer, Text};
use turnstile_netlink::GrammarError;

use crate::cli::{Cli, Only, Spot, Target, OPTIONS_IN_HELP};
use crate::failure::Failure;
use crate::show;

/// What to do with pacers.
#[derive(Debug, Subcommand)]
pub(crate) enum PacerCommand {
    /// Add a pacer to a device that has no queueing discipline there
    #[command(after_long_help = options(), after_help = OPTIONS_IN_HELP)]
    Add(Target),
    /// Add a pacer in the place of what is there, or change the pacer that is there
    #[command(after_long_help = options(), after_help = OPTIONS_IN_HELP)]
    Replace(Target),
    /// Set options of a pacer; those not given, and what is queued, stay
    #[command(after_long_help = options(), after_help = OPTIONS_IN_HELP)]
    Change(Target),
    /// Delete a pacer [alias: delete]
    #[command(alias = "delete")]
    Del(Spot),
    /// Show pacers as they can be typed back [alias: list]
    #[command(alias = "list")]
    Show(Only),
}

fn options() -> String {
    format!("Options of the pacer:\n{}", Options::help())
}

/// Reads the words before anything else is done: what is mistyped needs no privileges to be told
/// so.
pub(crate) fn run(cli: &Cli, command: &PacerCommand) -> Result<(), Failure> {
    match command {
        PacerCommand::Add(target)
        | PacerCommand::Replace(target)
        | PacerCommand::Change(target) => {
            let words = target.words();
            if words.iter().any(|word| word == "help") {
                return Ok(io::stdout().write_all(Options::help().as_bytes())?);
            }
            let (place, words) = Place::parse(&words)?;
            if place.queues {
                return Err(GrammarError::new("queues", "a pacer is for all of them").into());
            }
            let options = Options::parse(words)?;
            crate::with(cli, Pacers::connect, async |pacers| match command {
                PacerCommand::Add(_) => pacers.add(&place, &options).await,
                PacerCommand::Replace(_) => pacers.replace(&place, &options).await,
                _ => pacers.change(&place, &options).await,
            })
        }
        PacerCommand::Del(spot) => {
            let place = spot.place()?;
            crate::with(cli, Pacers::connect, async |pacers| {
                pacers.del(&place).await
            })
        }
        PacerCommand::Show(only) => {
            let dev = only.dev()?;
            let found = crate::with(cli, Pacers::connect, async |pacers| pacers.show(dev).await)?;
            if found.is_empty() {
                crate::say_none(cli, "pacers", dev);
            }
            Ok(io::stdout().write_all(pacers(&found, cli).as_bytes())?)
        }
    }
}

/// The whole output of `pacer show`.
fn pacers(pacers: &[Pacer], cli: &Cli) -> String {
    if !cli.json {
        return pacers.iter().map(|pacer| text(pacer, cli)).collect();
    }
    let list = Value::Array(pacers.iter().map(|pacer| object(pacer, cli)).collect());
    if cli.pretty {
        format!("{list:#}\n")
    } else {
        format!("{list}\n")
    }
}

fn text(pacer: &Pacer, cli: &Cli) -> String {
    let Pacer {
        dev,
        handle,
        options,
        ..
    } = pacer;
    let place = show::place(pacer.parent);
    let mut out = format!("pacer {dev} {place} handle {handle} {options}\n");
    if cli.stats {
        out += &show::counters_text(&pacer.counters);
        let mut stats = Text::default();
        print_stats(&pacer.stats, "  ", &mut stats);
        let _ = writeln!(out, "{}", stats.finish());
    }
    out
}

fn object(pacer: &Pacer, cli: &Cli) -> Value {
    let mut json = Json::default();
    json.insert("dev", pacer.dev.as_str().into());
    json.insert("kind", KIND.into());
    json.insert("handle", pacer.handle.to_string().into());
    match pacer.parent {
        Id::ROOT => json.insert("root", true.into()),
        parent => json.insert("parent", parent.to_string().into()),
    }
    json.open("options");
    print_options(&pacer.options, &mut json);
    json.close();
    if cli.stats {
        show::counters(&pacer.counters, &mut json);
        json.open("stats");
        print_stats(&pacer.stats, "", &mut json);
        json.close();
    }
    json.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;
    use turnstile_netlink::message::Counters;
    use turnstile_netlink::pacer::Stats;

    fn pacer() -> Pacer {
        Pacer {
            dev: "eth0".to_owned(),
            handle: Id::new(1, 0),
            parent: Id::ROOT,
            options: Options::parse(&["interval", "7200ns", "eta", "12.5%", "no-split-gso"])
                .unwrap(),
            counters: Counters {
                bytes: 1500,
                packets: 1,
                ..Counters::default()
            },
            stats: Stats {
                rate: 125_000_000,
                delay_max: 12_304,
                ..Stats::default()
            },
        }
    }

    fn shown(flags: &str) -> String {
        let cli = Cli::parse_from(format!("turnstile pacer show {flags}").split_whitespace());
        pacers(&[pacer()], &cli)
    }

    #[test]
    fn text_can_be_typed_back() {
        let text = shown("");
        assert_eq!(
            text,
            "pacer eth0 root handle 1: interval 7200ns eta 12.5% no-split-gso\n"
        );
        let words: Vec<&str> = text.split_whitespace().skip(1).collect();
        let (place, rest) = Place::parse(&words).unwrap();
        assert_eq!(place.handle, Some(pacer().handle));
        assert_eq!(Options::parse(rest).unwrap(), pacer().options);
    }

    #[test]
    fn statistics() {
        let text = shown("-s");
        assert!(
            text.contains("\n  sent 1500 bytes 1 packets, dropped 0"),
            "{text}"
        );
        assert!(text.contains("\n  rate 1gbit updates 0 "), "{text}");
        let value: Value = serde_json::from_str(&shown("-j -s")).unwrap();
        let pacer = &value[0];
        assert_eq!(
            (&pacer["dev"], &pacer["kind"]),
            (&json!("eth0"), &json!(KIND))
        );
        assert_eq!(
            pacer["options"],
            json!({"interval": 7200, "eta": 0.125, "split-gso": false})
        );
        assert_eq!(pacer["stats"]["rate"], 125_000_000);
        assert_eq!(pacer["stats"]["delay-max"], 12_304);
        assert_eq!(pacer["packets"], 1);
    }
}
