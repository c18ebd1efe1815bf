// SPDX-License-Identifier: GPL-2.0
//! `turnstile bench`: a server that takes messages, and a client that sends them as the papers'
//! workloads do, over the transport or over TCP.
//!
//! A message's time is from the call that sends it until its sender knows that the receiver has all
//! of it: the completion from the error queue, or over TCP an answer of one byte. Times are of
//! `CLOCK_MONOTONIC`, in virtual time too.

mod plan;
mod plot;
mod report;
mod run;
mod server;
mod sizes;
mod worker;

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use turnstile_socket::SendOptions;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::message::socket_for;
use crate::transport::json as as_json;
use crate::{enter, value};
use plan::{plan, Load, Pattern};
use report::{Ideal, Report};
use sizes::Sizes;

/// The server, or the client.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Receive what clients send, until interrupted
    Server(Server),
    /// Send messages, and report how long they took
    Client(Box<Client>),
}

/// What messages go over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// The transport
    Turnstile,
    /// TCP
    Tcp,
}

/// How messages go.
pub(crate) enum Over {
    /// Over the transport.
    Turnstile(SendOptions),
    /// Over TCP.
    Tcp {
        /// The congestion control; empty: the system's.
        congestion: String,
        /// A connection for each message.
        fresh: bool,
    },
}

/// Where to listen, and how.
#[derive(Debug, Args)]
pub(crate) struct Server {
    /// Where to listen: a port on all addresses, or one address and a port
    #[arg(value_name = "[ADDR:]PORT", value_parser = value::listen)]
    at: SocketAddr,
    /// What messages come over
    #[arg(long, value_enum, default_value_t = Protocol::Turnstile)]
    over: Protocol,
    /// TCP's congestion control, such as dctcp; without, the system's
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    congestion: String,
}

/// What to send, and how.
#[derive(Debug, Args)]
pub(crate) struct Client {
    /// Receivers, on each of which turnstile bench server runs
    #[arg(value_name = "ADDR:PORT", value_parser = value::address, required = true)]
    to: Vec<SocketAddr>,
    /// What messages go over
    #[arg(long, value_enum, default_value_t = Protocol::Turnstile)]
    over: Protocol,
    /// How messages follow each other
    #[arg(long, value_enum, default_value_t = Pattern::Fixed)]
    pattern: Pattern,
    /// Length of messages: bytes, web-search, data-mining, imc10, hadoop, cache-follower, or a file
    /// with lines of bytes and the share of messages that are no longer
    #[arg(long, value_name = "SIZES", default_value = "64kb")]
    sizes: Sizes,
    /// Messages to send; with incast, rounds
    #[arg(short, long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    count: u32,
    /// Messages under way at once; with poisson, no more than that [default: 1, 8 (incast) or 1024
    /// (poisson)]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16_384))]
    parallel: Option<u32>,
    /// With poisson: what is offered, as a share of --link
    #[arg(long, value_name = "PERCENT", default_value = "60%", value_parser = value::load)]
    load: f64,
    /// Rate of the link, for poisson and for slowdowns
    #[arg(long, value_name = "RATE", value_parser = value::rate)]
    link: Option<u64>,
    /// Round-trip time without any load; with it and --link, slowdowns are reported: times over
    /// size / link + base RTT
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    base_rtt: Option<Duration>,
    /// Another number gives other random sizes, times and receivers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Priority of all tokens, 0 (first) to 7, whatever the receiver's policy says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    priority: Option<u8>,
    /// Do not tell receivers the length before the end
    #[arg(long)]
    unknown_size: bool,
    /// Time within which each message should arrive, as 5ms
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    deadline: Option<Duration>,
    /// TCP's congestion control, such as dctcp; without, the system's
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    congestion: String,
    /// TCP: a new connection for each message, whose handshake counts; else connections are made
    /// beforehand and kept
    #[arg(long)]
    new_connections: bool,
    /// With --json: print how long each message took
    #[arg(long)]
    samples: bool,
    /// Draw slowdowns (or times) over sizes into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// `turnstile bench …`.
pub(crate) fn bench(cli: &Cli, command: &BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Server(server) => {
            only_tcp("congestion", !server.congestion.is_empty(), server.over)?;
            enter(cli)?;
            server::serve(server.over, server.at, &server.congestion)
        }
        BenchCommand::Client(client) => run_client(cli, client),
    }
}

/// Refuses flags that mean nothing to the transport.
fn only_tcp(flag: &str, given: bool, over: Protocol) -> Result<(), Failure> {
    if given && over != Protocol::Tcp {
        return Err(Failure::Usage(format!("--{flag}: only with --over tcp")));
    }
    Ok(())
}

impl Client {
    fn over(&self) -> Result<Over, Failure> {
        only_tcp("congestion", !self.congestion.is_empty(), self.over)?;
        only_tcp("new-connections", self.new_connections, self.over)?;
        let of_transport = self.priority.is_some() || self.unknown_size || self.deadline.is_some();
        Ok(match self.over {
            Protocol::Tcp if of_transport => {
                return Err(Failure::Usage(
                    "--priority, --unknown-size and --deadline: only with --over turnstile"
                        .to_owned(),
                ))
            }
            Protocol::Tcp => Over::Tcp {
                congestion: self.congestion.clone(),
                fresh: self.new_connections,
            },
            Protocol::Turnstile => Over::Turnstile(SendOptions {
                priority: self.priority,
                unknown_size: self.unknown_size,
                deadline: self.deadline,
                ..SendOptions::default()
            }),
        })
    }

    fn parallel(&self) -> u32 {
        self.parallel.unwrap_or(match self.pattern {
            Pattern::Fixed => 1,
            Pattern::Incast => 8,
            Pattern::Poisson => 1024,
        })
    }

    fn load(&self) -> Result<Load, Failure> {
        let link = match (self.pattern, self.link) {
            (Pattern::Poisson, None) => {
                return Err(Failure::Usage(
                    "--link: --pattern poisson needs it, as in --link 10gbit".to_owned(),
                ))
            }
            (_, link) => link.unwrap_or(1),
        };
        Ok(Load {
            pattern: self.pattern,
            sizes: self.sizes.clone(),
            count: self.count,
            parallel: self.parallel(),
            rate: self.load * link as f64,
            receivers: self.to.len(),
            seed: self.seed,
        })
    }
}

/// A word as it is typed.
pub(crate) fn typed(value: impl ValueEnum) -> String {
    value
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

fn run_client(cli: &Cli, client: &Client) -> Result<(), Failure> {
    let over = client.over()?;
    let load = client.load()?;
    enter(cli)?;
    if let Over::Turnstile(_) = over {
        // Without the transport, all messages would fail for one reason: say it once.
        for ipv4 in [true, false] {
            if let Some(to) = client.to.iter().find(|to| to.is_ipv4() == ipv4) {
                socket_for(*to)?;
            }
        }
    }
    let jobs = plan(&load);
    // Shown only where standard error is a terminal.
    let bar = ProgressBar::new(jobs.len() as u64);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:40} {pos}/{len} messages, {per_sec}, {eta} left")
    {
        bar.set_style(style);
    }
    let most = load.parallel as usize;
    let done = run::run(client.pattern, &jobs, most, &over, &client.to, &bar);
    bar.finish_and_clear();

    let ideal = client.link.zip(client.base_rtt);
    let ideal = ideal.map(|(link, base_rtt)| Ideal { link, base_rtt });
    let (protocol, pattern) = (typed(client.over), typed(client.pattern));
    let about = json!({
        "over": protocol, "congestion": client.congestion, "pattern": pattern,
        "sizes": client.sizes.to_string(), "parallel": load.parallel,
        "load": client.load, "link": client.link, "seed": client.seed,
    });
    let report = Report::new(&done, client.pattern, ideal, about);
    let text = if cli.json {
        as_json(&report.json(client.samples), cli)
    } else {
        report.text()
    };
    io::stdout().write_all(text.as_bytes())?;
    let failures = report.failures();
    let failed: usize = failures.iter().map(|(_, count)| count).sum();
    // Nothing can be drawn of nothing.
    if let Some(path) = client.svg.as_ref().filter(|_| failed < jobs.len()) {
        let name = match client.congestion.as_str() {
            "" => protocol,
            congestion => format!("{protocol} ({congestion})"),
        };
        let title = format!("{} messages, {pattern}, over {name}", client.sizes);
        let svg = plot::draw(&done, ideal, &title).map_err(Failure::Kernel)?;
        std::fs::write(path, svg).map_err(|error| {
            Failure::Kernel(format!("cannot write {}: {error}", path.display()))
        })?;
    }
    if failures.is_empty() {
        return Ok(());
    }
    let mut why = format!("{failed} of {} messages were not delivered:", jobs.len());
    for (cause, count) in failures {
        why += &format!("\n  {count}: {cause}");
    }
    Err(Failure::Kernel(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use clap::Parser;

    fn client(flags: &str) -> Result<Client, String> {
        let line = format!("turnstile bench client 10.0.0.2:5000 {flags}");
        let cli =
            Cli::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())?;
        match cli.command {
            Command::Bench(BenchCommand::Client(client)) => Ok(*client),
            other => panic!("{other:?}"),
        }
    }

    fn refused(flags: &str) -> String {
        let client = match client(flags) {
            Ok(client) => client,
            Err(error) => return error,
        };
        let outcome = client
            .over()
            .map(drop)
            .and_then(|()| client.load().map(drop));
        match outcome {
            Err(Failure::Usage(why)) => why,
            other => panic!("{flags}: {other:?}"),
        }
    }

    #[test]
    fn flags() {
        let all = client(
            "10.0.0.3:5000 --pattern poisson --sizes web-search --load 80% --link 10gbit \
             --base-rtt 48us --seed 7 -c 1000",
        )
        .unwrap();
        let load = all.load().unwrap();
        assert_eq!((load.receivers, load.rate, load.parallel), (2, 1e9, 1024));
        match client("--priority 3").unwrap().over() {
            Ok(Over::Turnstile(options)) => assert_eq!(options.priority, Some(3)),
            _ => panic!("not over the transport"),
        }
    }

    #[test]
    fn flags_that_make_no_sense() {
        for (flags, says) in [
            ("--pattern poisson", "--link: --pattern poisson needs it"),
            ("--congestion dctcp", "--congestion: only with --over tcp"),
            (
                "--new-connections",
                "--new-connections: only with --over tcp",
            ),
            ("--over tcp --priority 1", "only with --over turnstile"),
            ("--sizes web", "neither a size, nor one of web-search"),
            ("--load 60", "not a percentage"),
            ("--link 1bit", "not in 1kbit..800gbit"),
            ("--count 0", "0 is not in 1..=10000000"),
            ("--parallel 99999", "99999 is not in 1..=16384"),
        ] {
            let error = refused(flags);
            assert!(error.contains(says), "{flags}: {error}");
        }
    }
}
