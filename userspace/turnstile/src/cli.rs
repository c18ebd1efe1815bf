// SPDX-License-Identifier: GPL-2.0
//! What can be typed.

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use turnstile_netlink::Options;

use crate::bench::BenchCommand;
use crate::message::{Recv, Send};
use crate::pacer::PacerCommand;
use crate::transport::{Events, Flows, Stats, TransportCommand};

/// Configures and shows Turnstile: ports (token-prioritized network queues, qdisc kind
/// "turnstile"), and the transport that sends messages when tokens come.
#[derive(Debug, Parser)]
#[command(
    name = "turnstile",
    version,
    after_help = "See turnstile(8); tc-turnstile(8) and tc-turnstile_pacer(8) do the same with tc."
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
    #[arg(short, long, global = true, value_name = "NAME")]
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
    /// Show the messages that are under way, or their peers
    Flows(Flows),
    /// Show the transport's counters
    Stats(Stats),
    /// Print what happens to messages, as it happens
    Events(Events),
    /// Send messages: a file, standard input, or bytes of a given number
    Send(Send),
    /// Receive messages, and write them to standard output
    Recv(Recv),
    /// Measure how long messages take, over the transport or over TCP
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
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

/// What to do with ports.
#[derive(Debug, Subcommand)]
pub(crate) enum PortCommand {
    /// Add a port to a device that has no queueing discipline there
    #[command(after_long_help = options(), after_help = "--help shows the options.")]
    Add(Target),
    /// Add a port in the place of what is there, or change the port that is there
    #[command(after_long_help = options(), after_help = "--help shows the options.")]
    Replace(Target),
    /// Set options of a port; those not given, and what is queued, stay
    #[command(after_long_help = options(), after_help = "--help shows the options.")]
    Change(Target),
    /// Delete a port
    #[command(visible_alias = "delete")]
    Del(Target),
    /// Show ports as they can be typed back
    #[command(visible_alias = "list")]
    Show {
        /// Only of this device
        dev: Option<String>,
    },
}

/// Which port or pacer, and words for it.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// The device
    pub(crate) dev: String,
    /// [root | parent CLASSID] [handle HANDLE], then options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

fn options() -> String {
    format!("Options of the port:\n{}", Options::help())
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
        assert_eq!(target.dev, "swp1");
        assert_eq!(
            target.words.join(" "),
            "root handle 1: link 10gbit priorities -1"
        );
        let cli = Cli::try_parse_from(["turnstile", "port", "show", "-jps"]).unwrap();
        assert!(cli.json && cli.pretty && cli.stats);
        assert!(matches!(
            cli.command,
            Command::Port(PortCommand::Show { dev: None })
        ));
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
