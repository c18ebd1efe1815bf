// SPDX-License-Identifier: GPL-2.0
//! The `turnstile` command. `cli` says what can be typed, `show` how ports are printed, `man`
//! writes the man pages; `pacer` does the same for pacers; `transport` configures and watches the
//! transport, `message` sends and receives, `bench` measures.
//!
//! Exit codes: 0, 1 if the kernel refused or could not be asked or a message was not delivered, 2
//! for words that make no sense.
#![forbid(unsafe_code)]

mod bench;
mod cli;
mod failure;
mod man;
mod message;
mod netns;
mod pacer;
mod show;
mod transport;
mod value;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use turnstile_netlink::client::Ports;
use turnstile_netlink::error::Error;
use turnstile_netlink::place::Place;
use turnstile_netlink::{parse, Options};

use cli::{Cli, Command, Page, PortCommand, Target};
use failure::Failure;

fn main() -> ExitCode {
    let (code, message) = match run(&Cli::parse()) {
        Ok(()) => return ExitCode::SUCCESS,
        // As with any program in a pipe: `turnstile port show | head -1`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => (1, format!("cannot write: {error}")),
        Err(Failure::Kernel(message)) => (1, message),
        Err(Failure::Usage(message)) => (2, message),
    };
    let _ = writeln!(io::stderr(), "turnstile: {message}");
    ExitCode::from(code)
}

fn run(cli: &Cli) -> Result<(), Failure> {
    match &cli.command {
        Command::Port(command) => port(cli, command),
        Command::Pacer(command) => pacer::run(cli, command),
        Command::Transport(command) => transport::configure(cli, command),
        Command::Flows(flows) => transport::flows(cli, flows),
        Command::Stats(stats) => transport::stats(cli, stats),
        Command::Events(events) => transport::events(cli, events),
        Command::Send(send) => message::send(cli, send),
        Command::Recv(recv) => message::recv(cli, recv),
        Command::Bench(command) => bench::bench(cli, command),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "turnstile", &mut script);
            Ok(io::stdout().write_all(&script)?)
        }
        Command::Man { page } => {
            let page = match page {
                Page::Turnstile => man::turnstile(),
                Page::TcTurnstile => man::tc_turnstile(),
                Page::TcTurnstilePacer => man::tc_turnstile_pacer(),
            };
            Ok(io::stdout().write_all(page.as_bytes())?)
        }
    }
}

/// Reads the words before anything else is done: what is mistyped needs no privileges to be told
/// so.
fn port(cli: &Cli, command: &PortCommand) -> Result<(), Failure> {
    match command {
        PortCommand::Add(target) | PortCommand::Replace(target) | PortCommand::Change(target) => {
            if target.words.iter().any(|word| word == "help") {
                return Ok(io::stdout().write_all(Options::help().as_bytes())?);
            }
            let (place, words) = Place::parse(&target.dev, &target.words)?;
            let options = parse(words)?;
            with_ports(cli, async |ports| match command {
                PortCommand::Add(_) => ports.add(&place, &options).await,
                PortCommand::Replace(_) => ports.replace(&place, &options).await,
                _ => ports.change(&place, &options).await,
            })
        }
        PortCommand::Del(Target { dev, words }) => {
            let place = bare_place(dev, words)?;
            with_ports(cli, async |ports| ports.del(&place).await)
        }
        PortCommand::Show { dev } => {
            let ports = with_ports(cli, async |ports| {
                ports.show(dev.as_deref(), cli.stats).await
            })?;
            let shown = show::ports(&ports, cli);
            Ok(io::stdout().write_all(shown.as_bytes())?)
        }
    }
}

/// Enters the network namespace that was asked for, with this thread and those that it starts
/// later.
fn enter(cli: &Cli) -> Result<(), Failure> {
    match &cli.netns {
        Some(name) => netns::enter(name).map_err(Failure::Kernel),
        None => Ok(()),
    }
}

/// A place, with no words behind it.
fn bare_place(dev: &str, words: &[String]) -> Result<Place, Failure> {
    match Place::parse(dev, words)? {
        (place, []) => Ok(place),
        (_, [word, ..]) => Err(Failure::Usage(format!(
            "unknown word \"{word}\"; what may follow is root, parent and handle"
        ))),
    }
}

/// Does something with the ports of the network namespace that was asked for.
fn with_ports<T>(
    cli: &Cli,
    work: impl AsyncFnOnce(&Ports) -> Result<T, Error>,
) -> Result<T, Failure> {
    with(cli, Ports::connect, work)
}

/// Does something over a connection to the kernel in the network namespace that was asked for.
fn with<C, T>(
    cli: &Cli,
    connect: impl FnOnce() -> Result<C, Error>,
    work: impl AsyncFnOnce(&C) -> Result<T, Error>,
) -> Result<T, Failure> {
    enter(cli)?;
    // One thread: the namespace is a thread's.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let runtime = runtime.map_err(|error| Failure::Kernel(format!("cannot start: {error}")))?;
    Ok(runtime.block_on(async { work(&connect()?).await })?)
}
