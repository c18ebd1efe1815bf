// SPDX-License-Identifier: GPL-2.0
//! `turnstile send` and `turnstile recv`.

use std::fs::File;
use std::io::{self, Cursor, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use turnstile_netlink::units;
use turnstile_socket::{Completion, SendOptions, Socket};

use crate::cli::Cli;
use crate::failure::Failure;
use crate::transport::json as as_json;
use crate::{enter, value};

/// What is written or read at once.
const PIECE: usize = 256 * 1024;

/// What to send, and to whom.
#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Receiver's address and port
    #[arg(
        value_name = "ADDR:PORT",
        value_parser = value::address,
        help = "Receiver: 10.0.0.2:5000, [fd00::2]:5000"
    )]
    to: SocketAddr,
    /// File whose contents are the message; - for standard input
    #[arg(default_value = "-", conflicts_with = "size")]
    file: PathBuf,
    /// Send so many zero bytes, instead of a file
    #[arg(long, value_name = "BYTES", value_parser = value::length)]
    size: Option<u64>,
    /// Send the message so many times
    #[arg(short, long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Do not tell the receiver the length before the end
    #[arg(long)]
    unknown_size: bool,
    /// Time within which the message should arrive, as 5ms
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    deadline: Option<Duration>,
    /// Number of the coflow that the message belongs to, 1 to 4294967295
    #[arg(long, value_name = "N")]
    coflow: Option<NonZeroU32>,
    /// Priority of the message's tokens, 0 (first) to 7, whatever the receiver's policy says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=7))]
    priority: Option<u8>,
}

/// What to receive.
#[derive(Debug, Args)]
pub(crate) struct Recv {
    /// Where to listen: a port on all addresses, or one address and a port
    #[arg(value_name = "[ADDR:]PORT", value_parser = value::listen)]
    at: SocketAddr,
    /// End after so many messages
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Write a line about each message instead of the message
    #[arg(long)]
    discard: bool,
}

/// A socket that any address of `peer`'s IP version can be reached from.
pub(crate) fn socket_for(peer: SocketAddr) -> Result<Socket, turnstile_socket::Error> {
    let any = match peer.ip() {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Socket::bind((any, 0))
}

/// `turnstile send`.
pub(crate) fn send(cli: &Cli, send: &Send) -> Result<(), Failure> {
    let from_stdin = send.size.is_none() && send.file.as_os_str() == "-";
    if from_stdin && send.count > 1 {
        return Err(Failure::Usage(
            "--count: standard input can be sent once only; give a file or --size".to_owned(),
        ));
    }
    enter(cli)?;
    let socket = socket_for(send.to)?;
    socket
        .set_completions(true)
        .map_err(|error| Failure::Kernel(error.to_string()))?;
    let mut sizes = Vec::new();
    let mut reported = 0;
    for _ in 0..send.count {
        sizes.push(send_one(send, &socket, from_stdin)?);
        while let Some(done) = socket.completion()? {
            report(cli, send.to, &sizes, done)?;
            reported += 1;
        }
    }
    while reported < send.count {
        // The kernel gives up a silent peer by itself.
        if let Some(done) = socket.wait_completion(None)? {
            report(cli, send.to, &sizes, done)?;
            reported += 1;
        }
    }
    Ok(())
}

/// Where the bytes of a message come from, and how many they are, if that is known.
fn source(send: &Send, from_stdin: bool) -> Result<(Box<dyn Read>, Option<u64>), Failure> {
    if let Some(size) = send.size {
        return Ok((Box::new(io::repeat(0).take(size)), Some(size)));
    }
    if from_stdin {
        return Ok((Box::new(io::stdin()), None));
    }
    let path = send.file.display();
    let failed = |error: io::Error| Failure::Kernel(format!("cannot read {path}: {error}"));
    let file = File::open(&send.file).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    let size = facts.len();
    // What a pipe or a device will give is not known, nor what a file of procfs has.
    if !facts.is_file() || size == 0 {
        return Ok((Box::new(file), None));
    }
    // A file of sysfs has a page by its size, and less in it.
    let mut first = Vec::new();
    let most = size.min(PIECE as u64);
    let beginning = Read::take(&file, most).read_to_end(&mut first);
    let len = beginning.map_err(failed)? as u64;
    let first = Cursor::new(first);
    if len < most {
        return Ok((Box::new(first), Some(len)));
    }
    Ok((Box::new(first.chain(file)), Some(size)))
}

/// Sends a message, and gives its length.
fn send_one(send: &Send, socket: &Socket, from_stdin: bool) -> Result<u64, Failure> {
    let (mut from, length) = source(send, from_stdin)?;
    let options = SendOptions {
        length,
        deadline: send.deadline,
        coflow: send.coflow,
        priority: send.priority,
        unknown_size: send.unknown_size,
    };
    let failed = |error: io::Error| Failure::Kernel(format!("cannot send: {error}"));
    let mut writer = socket.begin(send.to, &options)?;
    let mut piece = vec![0; PIECE];
    loop {
        let len = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::Kernel(format!("cannot read: {error}"))),
        };
        writer.write_all(&piece[..len]).map_err(failed)?;
    }
    let written = writer.written();
    writer.finish()?;
    Ok(written)
}

/// Says how a message ended. One that was not delivered ends the command.
fn report(cli: &Cli, to: SocketAddr, sizes: &[u64], done: Completion) -> Result<(), Failure> {
    let size = usize::try_from(done.number)
        .ok()
        .and_then(|at| sizes.get(at));
    // It may have ended before its length was noted.
    let size = size.or(sizes.last()).copied().unwrap_or(0);
    if let Err(error) = done.outcome {
        return Err(Failure::Kernel(format!(
            "message {} to {to} was not delivered: {error}",
            done.number
        )));
    }
    let ns = done.elapsed.map_or(0, |elapsed| elapsed.as_nanos());
    let line = if cli.json {
        let value = json!({
            "number": done.number, "to": to.to_string(), "length": size, "elapsed": ns as u64,
        });
        as_json(&value, cli)
    } else {
        let time = units::time_decimal(ns as u64);
        format!(
            "message {} to {to} length {size} delivered after {time}\n",
            done.number
        )
    };
    Ok(io::stdout().write_all(line.as_bytes())?)
}

/// `turnstile recv`.
pub(crate) fn recv(cli: &Cli, recv: &Recv) -> Result<(), Failure> {
    enter(cli)?;
    let socket = Socket::bind(recv.at)?;
    let describe = cli.json || recv.discard;
    let mut out = io::stdout();
    let mut left = recv.count.unwrap_or(u64::MAX);
    let mut piece = vec![0; PIECE];
    while left > 0 {
        left -= 1;
        let mut reader = socket.reader()?;
        let began = Instant::now();
        let mut length = 0u64;
        let outcome = loop {
            let len = match reader.read(&mut piece) {
                Ok(0) => break Ok(()),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => break Err(error),
            };
            length += len as u64;
            if !describe {
                out.write_all(&piece[..len])?;
            }
        };
        let from = reader.from();
        // A socket for both versions of IP has IPv4 addresses mapped.
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        if let Err(error) = outcome {
            // The next one may be better, unless what was written is spoilt by this one.
            let why = format!("a message from {from} broke off after {length} bytes: {error}");
            if !describe {
                return Err(Failure::Kernel(why));
            }
            let _ = writeln!(io::stderr(), "turnstile: {why}");
            continue;
        }
        let elapsed = reader
            .info()
            .map_or_else(|| began.elapsed(), |info| info.elapsed);
        let ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        if cli.json {
            let value = json!({"from": from.to_string(), "length": length, "elapsed": ns});
            out.write_all(as_json(&value, cli).as_bytes())?;
        } else if recv.discard {
            let time = units::time_decimal(ns);
            writeln!(out, "message from {from} length {length} within {time}")?;
        }
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use clap::Parser;

    fn parse(line: &str) -> Result<Send, String> {
        let cli = Cli::try_parse_from(line.split(' ')).map_err(|error| error.to_string())?;
        match cli.command {
            Command::Send(send) => Ok(send),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_of_send() {
        let send = parse(
            "turnstile send 10.0.0.2:5000 --size 1mb --count 3 --unknown-size --deadline 5ms \
             --coflow 9 --priority 7",
        )
        .unwrap();
        assert_eq!(send.to, "10.0.0.2:5000".parse().unwrap());
        assert_eq!(
            (send.size, send.count, send.unknown_size),
            (Some(1 << 20), 3, true)
        );
        assert_eq!(send.deadline, Some(Duration::from_millis(5)));
        assert_eq!((send.coflow, send.priority), (NonZeroU32::new(9), Some(7)));
        for (line, says) in [
            ("turnstile send 10.0.0.2", "not an address with a port"),
            (
                "turnstile send 10.0.0.2:1 --priority 8",
                "8 is not in 0..=7",
            ),
            ("turnstile send 10.0.0.2:1 --coflow 0", "--coflow"),
            (
                "turnstile send 10.0.0.2:1 --size 2gb",
                "not in 1b..1073741823b",
            ),
            ("turnstile send 10.0.0.2:1 --count 0", "0 is not in 1.."),
            (
                "turnstile send 10.0.0.2:1 file --size 1",
                "cannot be used with",
            ),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn lengths_of_sources() {
        let path = std::env::temp_dir().join(format!("turnstile-send-{}", std::process::id()));
        std::fs::write(&path, b"hello").unwrap();
        let line = |what: &str| parse(&format!("turnstile send 10.0.0.2:1 {what}")).unwrap();
        let of_file = source(&line(path.to_str().unwrap()), false).unwrap();
        assert_eq!(of_file.1, Some(5));
        for len in [PIECE - 1, PIECE, 2 * PIECE + 1] {
            let data: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            std::fs::write(&path, &data).unwrap();
            let (mut from, length) = source(&line(path.to_str().unwrap()), false).unwrap();
            let mut got = Vec::new();
            from.read_to_end(&mut got).unwrap();
            assert!(got == data && length == Some(len as u64), "{len}");
        }
        std::fs::remove_file(&path).unwrap();
        let (mut zeroes, length) = source(&line("--size 1000"), false).unwrap();
        let mut data = Vec::new();
        assert_eq!(
            zeroes.read_to_end(&mut data).unwrap() as u64,
            length.unwrap()
        );
        // Neither says what it gives, and a file of sysfs says too much.
        assert_eq!(source(&line("/dev/zero"), false).unwrap().1, None);
        assert_eq!(source(&line("/proc/version"), false).unwrap().1, None);
        let path = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
        if let Ok(data) = std::fs::read(path) {
            let (mut from, length) = source(&line(path), false).unwrap();
            let mut got = Vec::new();
            from.read_to_end(&mut got).unwrap();
            assert_eq!((got.len() as u64, &got), (length.unwrap(), &data));
        }
        assert!(matches!(
            source(&line("/nowhere/at/all"), false),
            Err(Failure::Kernel(why)) if why.starts_with("cannot read /nowhere/at/all: ")
        ));
    }
}
