// SPDX-License-Identifier: GPL-2.0
//! `turnstile transport`, `flows`, `stats` and `events`.

use std::io::{self, Write};
use std::time::Duration;

use clap::{Args, Subcommand};
use clap_complete::ArgValueCompleter;
use nix::net::if_::if_indextoname;
use serde_json::Value;
use turnstile_netlink::json::Json;
use turnstile_netlink::print::{print_options, Printer, Text};
use turnstile_netlink::transport::show::{
    print_counters, print_event, print_link, print_message, print_peer,
};
use turnstile_netlink::transport::{Client, Error, Settings};

use crate::cli::{Cli, OPTIONS_IN_HELP};
use crate::complete;
use crate::failure::Failure;
use crate::{enter, keys, say, value};

/// What to do with the transport.
#[derive(Debug, Subcommand)]
pub(crate) enum TransportCommand {
    /// Set options; those not given, and messages under way, stay
    #[command(after_long_help = options(), after_help = OPTIONS_IN_HELP)]
    Set {
        /// Options of the transport, each followed by its value
        #[arg(value_name = "OPTION VALUE", required = true, trailing_var_arg = true,
            allow_hyphen_values = true, add = ArgValueCompleter::new(complete::words))]
        words: Vec<String>,
    },
    /// Show the options as they can be typed back [alias: list]
    #[command(alias = "list")]
    Show,
}

/// Which flows, and how often.
#[derive(Debug, Args)]
pub(crate) struct Flows {
    /// Show the peers instead of the messages
    #[arg(long)]
    peers: bool,
    /// Show the links that messages come in by, for each of which tokens are paced
    #[arg(long, conflicts_with = "peers")]
    links: bool,
    /// Show them again and again, this long apart [default: 1s], until interrupted
    #[arg(short, long, value_name = "TIME", value_parser = value::time, num_args = 0..=1,
        default_missing_value = "1s")]
    watch: Option<Duration>,
}

/// Which counters.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Show counters that are 0, too
    #[arg(short, long)]
    all: bool,
}

/// How many events.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// End after so many events
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
}

fn options() -> String {
    format!("Options of the transport:\n{}", Settings::help())
}

/// Something that is shown, as text or as JSON.
pub(crate) fn shown(cli: &Cli, print: impl Fn(&mut dyn Printer)) -> Shown {
    if cli.json {
        let mut to = Json::default();
        print(&mut to);
        Shown::Json(to.finish())
    } else {
        let mut to = Text::default();
        print(&mut to);
        Shown::Text(to.finish())
    }
}

/// The one or the other.
pub(crate) enum Shown {
    Text(String),
    Json(Value),
}

/// JSON on one line, or spread over lines.
pub(crate) fn json(value: &Value, cli: &Cli) -> String {
    if cli.pretty {
        format!("{value:#}\n")
    } else {
        format!("{value}\n")
    }
}

/// A list: lines, or an array.
pub(crate) fn list(cli: &Cli, items: impl Iterator<Item = Shown>) -> String {
    let (mut text, mut array) = (String::new(), Vec::new());
    for item in items {
        match item {
            Shown::Text(line) => {
                text += &line;
                text.push('\n');
            }
            Shown::Json(value) => array.push(value),
        }
    }
    if cli.json {
        json(&Value::Array(array), cli)
    } else {
        text
    }
}

fn one(cli: &Cli, item: Shown) -> String {
    match item {
        Shown::Text(text) if text.is_empty() => text,
        Shown::Text(text) => text + "\n",
        Shown::Json(value) => json(&value, cli),
    }
}

pub(crate) fn write(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// `turnstile transport …`. Words are read before anything else is done: what is mistyped needs
/// no privileges to be told so.
pub(crate) fn configure(cli: &Cli, command: &TransportCommand) -> Result<(), Failure> {
    match command {
        TransportCommand::Set { words } => {
            if words.iter().any(|word| word == "help") {
                return write(&Settings::help());
            }
            let settings = Settings::parse(&keys::numbered(words)?)?;
            enter(cli)?;
            Ok(Client::connect()?.set(&settings)?)
        }
        TransportCommand::Show => {
            enter(cli)?;
            let settings = Client::connect()?.settings()?;
            let line = shown(cli, |to| {
                to.text(format_args!("transport "));
                print_options(&settings, to);
            });
            write(&one(cli, line))
        }
    }
}

/// `turnstile flows`.
pub(crate) fn flows(cli: &Cli, flows: &Flows) -> Result<(), Failure> {
    enter(cli)?;
    let mut client = Client::connect()?;
    let mut was_empty = false;
    loop {
        let text = if flows.peers {
            let peers = client.peers()?;
            let items = peers
                .iter()
                .map(|peer| shown(cli, |to| print_peer(peer, to)));
            list(cli, items)
        } else if flows.links {
            let links = client.links()?;
            let items = links.iter().map(|link| {
                let name = link.device.and_then(|index| if_indextoname(index).ok());
                let name = name.as_ref().and_then(|name| name.to_str().ok());
                shown(cli, |to| print_link(link, name, to))
            });
            list(cli, items)
        } else {
            let messages = client.messages()?;
            let items = messages
                .iter()
                .map(|message| shown(cli, |to| print_message(message, to)));
            list(cli, items)
        };
        write(&text)?;
        // Once, not every time that they are watched.
        if text.is_empty() && !was_empty {
            say(match flows {
                Flows { peers: true, .. } => "no peers: no messages are under way",
                Flows { links: true, .. } => {
                    "no links: nobody has used the transport in this network namespace yet"
                }
                _ => "no messages are under way",
            });
        }
        was_empty = text.is_empty();
        let Some(pause) = flows.watch else {
            return Ok(());
        };
        if !cli.json {
            // A blank line between one time and the next.
            write("\n")?;
        }
        std::thread::sleep(pause);
    }
}

/// `turnstile stats`.
pub(crate) fn stats(cli: &Cli, stats: &Stats) -> Result<(), Failure> {
    enter(cli)?;
    let counters = Client::connect()?.counters()?;
    let text = one(
        cli,
        shown(cli, |to| print_counters(&counters, stats.all, to)),
    );
    if text.is_empty() {
        say("all counters are 0: nobody has used the transport in this network namespace yet");
    }
    write(&text)
}

/// `turnstile events`. One line, or one object of JSON, for each.
pub(crate) fn events(cli: &Cli, wanted: &Events) -> Result<(), Failure> {
    enter(cli)?;
    let mut events = Client::connect()?.events()?;
    let mut left = wanted.count.unwrap_or(u64::MAX);
    while left > 0 {
        let some = match events.wait() {
            // The next ones are good.
            Err(error @ Error::Overrun) => {
                let _ = writeln!(io::stderr(), "turnstile: {error}");
                continue;
            }
            some => some?,
        };
        for event in some {
            if left > 0 {
                left -= 1;
                write(&one(cli, shown(cli, |to| print_event(&event, to))))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use turnstile_netlink::transport::Message;

    #[test]
    fn watched_in_every_spelling() {
        let watch = |flags: &str| {
            let line = format!("turnstile flows {flags}");
            match Cli::try_parse_from(line.split_whitespace())
                .unwrap()
                .command
            {
                crate::cli::Command::Flows(flows) => flows.watch.map(|pause| pause.as_millis()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(watch(""), None);
        for flags in ["--watch", "--watch --peers", "-w --links", "-w", "-w -j"] {
            assert_eq!(watch(flags), Some(1000), "{flags}");
        }
        for flags in ["--watch 20ms", "--watch=20ms", "-w 20ms", "-w20ms"] {
            assert_eq!(watch(flags), Some(20), "{flags}");
        }
    }

    #[test]
    fn lists_as_lines_and_as_json() {
        let messages = [Message::default(), Message::default()];
        let text = |flags: &str| {
            let cli = Cli::parse_from(format!("turnstile {flags} flows").split_whitespace());
            let items = messages
                .iter()
                .map(|message| shown(&cli, |to| print_message(message, to)));
            list(&cli, items)
        };
        assert_eq!(text("").lines().count(), 2);
        let value: Value = serde_json::from_str(&text("-j")).unwrap();
        assert_eq!(value.as_array().unwrap().len(), 2);
        assert!(text("-jp").lines().count() > 10);
    }

    #[test]
    fn settings_as_words() {
        let settings = Settings::parse(&["policy", "ren"]).unwrap();
        let cli = Cli::parse_from(["turnstile", "transport", "show"]);
        let line = shown(&cli, |to| {
            to.text(format_args!("transport "));
            print_options(&settings, to);
        });
        assert_eq!(one(&cli, line), "transport policy ren\n");
    }
}
