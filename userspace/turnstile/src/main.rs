// SPDX-License-Identifier: GPL-2.0
//! The `turnstile` command. `cli` says what can be typed, `show` how ports are printed, `man`
//! writes the man pages; `pacer` does the same for pacers; `transport` configures and watches the
//! transport, `sockets` lists its sockets, `message` sends and receives, `bench` measures.
//!
//! `failure` has the exit codes, `diagnosis` finds out what is behind the kernel's short answers,
//! `complete` completes words for shells.
#![forbid(unsafe_code)]

mod bench;
mod cli;
mod complete;
mod diagnosis;
mod failure;
mod keys;
mod man;
mod message;
mod netns;
mod pacer;
mod show;
mod sockets;
mod table;
mod transport;
mod value;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use turnstile_netlink::client::Ports;
use turnstile_netlink::error::Error;
use turnstile_netlink::parse;
use turnstile_netlink::place::Place;

use cli::{Cli, Command, Page, PortCommand};
use diagnosis::Machine;
use failure::{Failure, DONE, USAGE};

fn main() -> ExitCode {
    complete::answer_the_shell();
    let cli = match Cli::try_parse_from(cli::flags_first(std::env::args_os().collect())) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // Help and version are no errors.
            let code = if error.use_stderr() { USAGE } else { DONE };
            return ExitCode::from(code);
        }
    };
    match run(&cli) {
        Ok(()) => ExitCode::from(DONE),
        Err(failure) => {
            if failure.code() != DONE {
                say(&words(&failure));
            }
            ExitCode::from(failure.code())
        }
    }
}

/// Tells the user something that is no output.
pub(crate) fn say(what: &str) {
    let _ = writeln!(io::stderr(), "turnstile: {what}");
}

/// What the user is told of a failure.
fn words(failure: &Failure) -> String {
    match failure {
        Failure::Usage(why) | Failure::Kernel(why) => why.clone(),
        Failure::Obstacle(what, why) => format!("{why}: {}", Machine::this().explain(*what)),
        Failure::Output(error) => format!("cannot write: {error}"),
    }
}

fn run(cli: &Cli) -> Result<(), Failure> {
    match &cli.command {
        Command::Port(command) => port(cli, command),
        Command::Pacer(command) => pacer::run(cli, command),
        Command::Transport(command) => transport::configure(cli, command),
        Command::Flows(flows) => transport::flows(cli, flows),
        Command::Sockets(wanted) => sockets::sockets(cli, wanted),
        Command::Stats(stats) => transport::stats(cli, stats),
        Command::Events(events) => transport::events(cli, events),
        Command::Send(send) => message::send(cli, send),
        Command::Recv(recv) => message::recv(cli, recv),
        Command::Bench(command) => bench::bench(cli, command),
        Command::Completions { shell } => Ok(io::stdout().write_all(&complete::script(*shell)?)?),
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
            let words = target.words();
            if words.iter().any(|word| word == "help") {
                let help = turnstile_netlink::Options::help();
                return Ok(io::stdout().write_all(help.as_bytes())?);
            }
            let (place, words) = Place::parse(&words)?;
            let options = parse(words)?;
            with_ports(cli, async |ports| match command {
                PortCommand::Add(_) => ports.add(&place, &options).await,
                PortCommand::Replace(_) => ports.replace(&place, &options).await,
                _ => ports.change(&place, &options).await,
            })
        }
        PortCommand::Del(spot) => {
            let place = spot.place()?;
            with_ports(cli, async |ports| ports.del(&place).await)
        }
        PortCommand::Show(only) => {
            let dev = only.dev()?;
            let ports = with_ports(cli, async |ports| ports.show(dev, cli.stats).await)?;
            if ports.is_empty() {
                say_none(cli, "ports", dev);
            }
            let shown = show::ports(&ports, cli);
            Ok(io::stdout().write_all(shown.as_bytes())?)
        }
    }
}

/// Says that a list is empty, of a device or of the namespace; in JSON, `[]` says so.
pub(crate) fn say_none(cli: &Cli, what: &str, dev: Option<&str>) {
    if cli.json {
        return;
    }
    let place = match (dev, &cli.netns) {
        (Some(dev), _) => format!("on {dev}"),
        (None, Some(name)) => format!("in network namespace {name}"),
        (None, None) => "in this network namespace".to_owned(),
    };
    say(&format!("no Turnstile {what} {place}"));
}

/// Enters the network namespace that was asked for, with this thread and those that it starts
/// later.
fn enter(cli: &Cli) -> Result<(), Failure> {
    match &cli.netns {
        Some(name) => netns::enter(name),
        None => Ok(()),
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
