// SPDX-License-Identifier: GPL-2.0
//! What can be typed.

mod anywhere;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use turnstile_netlink::options::help::wrap;
use turnstile_netlink::place::Place;
use turnstile_netlink::{GrammarError, Options};

use crate::bench::BenchCommand;
use crate::complete::{self, Shell};
use crate::failure::EXIT_CODES;
use crate::message::{Recv, Send};
use crate::pacer::PacerCommand;
use crate::sockets::Wanted;
use crate::transport::{Events, Flows, Stats, TransportCommand};

pub(crate) use anywhere::flags_first;

/// Configures, shows and uses Turnstile: ports (the qdisc "turnstile": priority queues for the
/// tokens of receiver-driven transports), host pacers (the qdisc "turnstile_pacer"), and the
/// transport, which carries messages as fast as their receiver lets them come.
#[derive(Debug, Parser)]
#[command(
    name = "turnstile",
    version,
    after_help = after_help()
)]
pub(crate) struct Cli {
    /// Print JSON
    #[arg(short, long, global = true)]
    pub(crate) json: bool,
    /// Spread JSON over lines
    #[arg(short, long, global = true)]
    pub(crate) pretty: bool,
    /// Show statistics of ports and their classes, or of pacers (port show, pacer show)
    #[arg(short, long, global = true)]
    pub(crate) stats: bool,
    /// Show the rates and times that the options come to (port show)
    #[arg(short, long, global = true)]
    pub(crate) details: bool,
    /// Work in this network namespace (see ip-netns(8))
    #[arg(short, long, global = true, value_name = "NAME",
        add = ArgValueCandidates::new(complete::namespaces))]
    pub(crate) netns: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Add, change, show and delete ports
    #[command(subcommand)]
    Port(PortCommand),
    /// Add, change, show and delete host pacers
    #[command(subcommand)]
    Pacer(PacerCommand),
    /// Configure and show the transport of a network namespace
    #[command(subcommand)]
    Transport(TransportCommand),
    /// Show the messages that are under way, their peers, or the links that they come in by
    Flows(Flows),
    /// Show the transport's sockets: whose they are, and what is in their queues
    Sockets(Wanted),
    /// Show the transport's counters
    Stats(Stats),
    /// Print what happens to messages, as it happens
    Events(Events),
    /// Send messages: a file, standard input, or a given number of zero bytes
    Send(Send),
    /// Receive messages, and write them to standard output
    Recv(Recv),
    /// Measure how long messages take, over the transport or over TCP
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print a man page
    Man {
        /// Which page
        #[arg(value_enum, default_value_t = Page::Turnstile)]
        page: Page,
    },
}

/// A man page.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Page {
    /// turnstile(8): this command
    Turnstile,
    /// tc-turnstile(8): the same with tc
    TcTurnstile,
    /// tc-turnstile_pacer(8): the pacer with tc
    #[value(name = "tc-turnstile_pacer")]
    TcTurnstilePacer,
}

/// What to do with ports. An alias that clap showed would be completed in the place of the name:
/// help has it in words.
#[derive(Debug, Subcommand)]
pub(crate) enum PortCommand {
    /// Add a port to a device that has no queueing discipline there
    #[command(after_long_help = options(), after_help = OPTIONS_IN_HELP)]
    Add(Target),
    /// Add a port in the place of what is there, or change the port that is there
    #[command(after_long_help = options(), after_help = OPTIONS_IN_HELP)]
    Replace(Target),
    /// Set options of a port; those not given, and what is queued, stay
    #[command(after_long_help = options(), after_help = OPTIONS_IN_HELP)]
    Change(Target),
    /// Delete a port [alias: delete]
    #[command(alias = "delete")]
    Del(Spot),
    /// Show ports as they can be typed back [alias: list]
    #[command(alias = "list")]
    Show(Only),
}

/// What the short help of commands with options ends with.
pub(crate) const OPTIONS_IN_HELP: &str = "--help shows the options.";

/// Which port or pacer, and words for it.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The device; tc's word dev may stand before it
    #[arg(value_name = "DEV", add = ArgValueCompleter::new(complete::device_or_place))]
    dev: String,
    /// [root | parent CLASSID] [handle HANDLE], then options
    #[arg(value_name = "WORDS", trailing_var_arg = true, allow_hyphen_values = true,
        add = ArgValueCompleter::new(complete::words))]
    words: Vec<String>,
}

impl Target {
    /// All words in the order in which they were typed.
    pub(crate) fn words(&self) -> Vec<String> {
        std::iter::once(&self.dev)
            .chain(&self.words)
            .cloned()
            .collect()
    }
}

/// Which port or pacer, and nothing else.
#[derive(Debug, Args)]
pub(crate) struct Spot {
    /// The device; tc's word dev may stand before it
    #[arg(value_name = "DEV", add = ArgValueCompleter::new(complete::device_or_place))]
    dev: String,
    /// [root | parent CLASSID] [handle HANDLE]
    #[arg(value_name = "PLACE", trailing_var_arg = true, allow_hyphen_values = true,
        add = ArgValueCompleter::new(complete::words))]
    words: Vec<String>,
}

impl Spot {
    pub(crate) fn place(&self) -> Result<Place, GrammarError> {
        let words: Vec<&String> = std::iter::once(&self.dev).chain(&self.words).collect();
        match Place::parse(&words)? {
            (place, []) => Ok(place),
            (_, [word, ..]) => Err(GrammarError::new(
                &format!("unknown word \"{word}\""),
                "what may follow is root, parent and handle",
            )),
        }
    }
}

/// Of which device.
#[derive(Debug, Args)]
pub(crate) struct Only {
    /// Only of this device; tc's word dev may stand before it
    #[arg(value_name = "DEV", num_args = 0..=2,
        add = ArgValueCompleter::new(complete::device_or_place))]
    dev: Vec<String>,
}

impl Only {
    pub(crate) fn dev(&self) -> Result<Option<&str>, GrammarError> {
        match self.dev.as_slice() {
            [] => Ok(None),
            [word] if word == "dev" => Err(GrammarError::new("dev", "needs a value")),
            [dev] => Ok(Some(dev)),
            [word, dev, ..] if word == "dev" => Ok(Some(dev)),
            [_, word, ..] => Err(GrammarError::new(
                &format!("unknown word \"{word}\""),
                "what may follow is the name of one device",
            )),
        }
    }
}

fn after_help() -> String {
    let mut text = "Exit codes:\n".to_owned();
    for (code, meaning) in EXIT_CODES {
        let lines = wrap(meaning, 90).join("\n     ");
        text += &format!("  {code}  {lines}\n");
    }
    text + "\nSee turnstile(8); tc-turnstile(8) and tc-turnstile_pacer(8) do the same with tc."
}

fn options() -> String {
    format!(
        "With queues before the options, each transmit queue of the device has a port, and all \
         share its link (kind turnstile_mq).\n\nOptions of the port:\n{}",
        Options::help()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_before_and_words_behind() {
        let line =
            "turnstile -s port --json add -n ns1 swp1 root handle 1: link 10gbit priorities -1";
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        assert!(cli.stats && cli.json && !cli.pretty);
        assert_eq!(cli.netns.as_deref(), Some("ns1"));
        let Command::Port(PortCommand::Add(target)) = cli.command else {
            panic!("{:?}", cli.command)
        };
        assert_eq!(
            target.words().join(" "),
            "swp1 root handle 1: link 10gbit priorities -1"
        );
        let cli = Cli::try_parse_from(["turnstile", "port", "show", "-jps"]).unwrap();
        assert!(cli.json && cli.pretty && cli.stats);
        assert!(matches!(
            cli.command,
            Command::Port(PortCommand::Show(only)) if only.dev() == Ok(None)
        ));
    }

    #[test]
    fn one_device_with_and_without_dev() {
        let show = |words: &str| {
            let line = format!("turnstile port show {words}");
            let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
            let Command::Port(PortCommand::Show(only)) = cli.command else {
                panic!("{:?}", cli.command)
            };
            only.dev()
                .map(|dev| dev.map(str::to_owned))
                .map_err(|error| error.to_string())
        };
        for words in ["lo", "dev lo"] {
            assert_eq!(show(words), Ok(Some("lo".to_owned())));
        }
        assert_eq!(show("dev"), Err("dev: needs a value".to_owned()));
        assert!(show("lo eth0")
            .unwrap_err()
            .contains("unknown word \"eth0\""));
    }

    #[test]
    fn ports_and_pacers_are_helped_alike() {
        let mut command = Cli::command();
        command.build();
        let mut help = |path: &[&str]| {
            let mut found = &mut command;
            for name in path {
                found = found.find_subcommand_mut(name).unwrap();
            }
            found.render_help().to_string()
        };
        for verb in ["add", "replace", "change", "del", "show"] {
            let alike = help(&["port", verb]).replace("port", "pacer");
            // The lines about flags name both.
            let bare = |text: &str| text.lines().take(4).collect::<Vec<_>>().join("\n");
            assert_eq!(bare(&alike), bare(&help(&["pacer", verb])), "{verb}");
        }
    }

    #[test]
    fn help_has_the_exit_codes() {
        let help = Cli::command().render_help().to_string();
        for (code, meaning) in EXIT_CODES {
            let first = meaning.split_whitespace().next().unwrap();
            assert!(help.contains(&format!("{code}  {first}")), "{help}");
        }
    }

    #[test]
    fn long_help_has_the_options() {
        let mut command = Cli::command();
        let port = command.find_subcommand_mut("port").unwrap();
        let help = port
            .find_subcommand_mut("add")
            .unwrap()
            .render_long_help()
            .to_string();
        assert!(help.contains("[ token-expiry TIME|auto|off ]"), "{help}");
    }
}
