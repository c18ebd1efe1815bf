// SPDX-License-Identifier: GPL-2.0
//! The `turnstile` command and the examples of the crate, as a user runs them.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use turnstile_socket::SendOptions;

use super::content::content;
use super::support::{any, joined, same, socket, Pair, PATIENCE, PORT};
use crate::cmd::json;
use crate::harness::Ctx;
use crate::netns::Netns;

/// A program that runs until it is no longer needed.
pub(super) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    pub(super) fn start(ns: &Netns, line: &str) -> Result<Self> {
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().context("no program")?);
        command.args(words).stdout(Stdio::piped());
        let mut child = ns.start(&mut command)?;
        let out = child.stdout.take().context("no output")?;
        Ok(Self {
            child,
            out: BufReader::new(out),
        })
    }

    pub(super) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// All that it still says, and that it ended well.
    fn finish(mut self) -> Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.out.read_to_end(&mut rest)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}");
        Ok(rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a socket is bound to the port: a message to it is delivered.
fn wait_for_receiver(pair: &Pair, to: SocketAddr) -> Result<()> {
    let prober = socket(pair.sender(), any(to))?;
    prober.set_completions(true)?;
    for _ in 0..500 {
        prober.send_to(b"?", to, &SendOptions::default())?;
        let end = prober.wait_completion(Some(PATIENCE))?;
        if end.context("no answer at all")?.outcome.is_ok() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    anyhow::bail!("nobody listens on {to}")
}

/// Files, standard input and zeroes, of known and of unknown length.
pub(super) fn send_and_recv(ctx: &mut Ctx) -> Result<()> {
    let pair = Pair::new()?;
    for ipv6 in [false, true] {
        let to = pair.to(ipv6);
        let data = content(ctx.seed, 3_000_001);
        let path = std::env::temp_dir().join("message");
        std::fs::write(&path, &data)?;
        let from = path.display();
        for (what, flags) in [
            (format!("{from}"), "--priority 2 --deadline 5ms"),
            (format!("{from}"), "--unknown-size --coflow 7"),
            ("-".to_owned(), ""),
        ] {
            let receiver =
                Running::start(pair.receiver(), &format!("turnstile recv {PORT} --count 2"))?;
            wait_for_receiver(&pair, to)?;
            // Read meanwhile: the message is longer than the receive buffer's half, and than a
            // pipe.
            let receiving = std::thread::spawn(move || receiver.finish());
            let line = format!("turnstile send {to} {what} {flags}");
            let said = if what == "-" {
                let from = path.clone();
                pair.sender().enter(|| {
                    let mut words = line.split_whitespace().skip(1);
                    let mut child = Command::new("turnstile")
                        .args(&mut words)
                        .stdin(std::fs::File::open(from)?)
                        .stdout(Stdio::piped())
                        .spawn()?;
                    let mut said = String::new();
                    child
                        .stdout
                        .take()
                        .context("no output")?
                        .read_to_string(&mut said)?;
                    ensure!(child.wait()?.success(), "{line}");
                    Ok(said)
                })?
            } else {
                pair.sender().run(&line)?
            };
            let wanted = format!("message 0 to {to} length {} delivered after ", data.len());
            ensure!(said.starts_with(&wanted), "{line}: {said}");
            let got = joined(receiving).with_context(|| line.clone())?;
            // The question whether anybody listens came first.
            same(&line, got.get(1..).unwrap_or_default(), &data)?;
        }
    }
    Ok(())
}

/// Files whose size says nothing of what is in them: those of procfs have none, and those of sysfs
/// have a page.
pub(super) fn files_without_a_length(_: &mut Ctx) -> Result<()> {
    let pair = Pair::new()?;
    for ipv6 in [false, true] {
        let to = pair.to(ipv6);
        for (path, says) in [
            ("/proc/version", 0),
            ("/sys/module/turnstile/initstate", 4096),
        ] {
            let data = std::fs::read(path)?;
            let size = std::fs::metadata(path)?.len();
            ensure!(
                size == says && size != data.len() as u64,
                "{path} says {size}, and has {}",
                data.len()
            );
            let receiver =
                Running::start(pair.receiver(), &format!("turnstile recv {PORT} --count 2"))?;
            wait_for_receiver(&pair, to)?;
            let said = pair.sender().run(&format!("turnstile send {to} {path}"))?;
            let wanted = format!("message 0 to {to} length {} delivered after ", data.len());
            ensure!(said.starts_with(&wanted), "{path}: {said}");
            // The question whether anybody listens came first.
            let got = receiver.finish()?;
            same(path, got.get(1..).unwrap_or_default(), &data)?;
        }
        let refused = pair
            .sender()
            .try_run(&format!("turnstile send {to} /dev/null"))?
            .failure()?;
        ensure!(refused.contains("length: 0 is not in "), "{refused}");
    }
    Ok(())
}

/// Several at once, reported as JSON at both ends; and what does not work, in words.
pub(super) fn reports(_: &mut Ctx) -> Result<()> {
    let pair = Pair::new()?;
    let to = pair.to(false);
    let mut receiver = Running::start(
        pair.receiver(),
        &format!("turnstile -j recv {PORT} --count 4"),
    )?;
    wait_for_receiver(&pair, to)?;
    ensure!(
        json(&receiver.line()?)?["length"] == 1,
        "the question came first"
    );
    let said = pair
        .sender()
        .run(&format!("turnstile -j send {to} --size 100kb --count 3"))?;
    let ends: Vec<Value> = said.lines().map(json).collect::<Result<_>>()?;
    ensure!(ends.len() == 3, "{said}");
    for end in ends {
        ensure!(
            end["length"] == 102_400 && end["elapsed"].as_u64() > Some(0),
            "{end}"
        );
    }
    for _ in 0..3 {
        let message = json(&receiver.line()?)?;
        let from = message["from"].as_str().unwrap_or_default();
        ensure!(
            message["length"] == 102_400 && from.starts_with("10."),
            "{message}"
        );
    }
    receiver.finish()?;

    let failed = |line: &str| pair.sender().try_run(line)?.failure();
    let refused = failed(&format!("turnstile send {to} --size 1"))?;
    ensure!(
        refused.contains(&format!(
            "message 0 to {to} was not delivered: Connection refused"
        )),
        "{refused}"
    );
    let taken = socket(pair.receiver(), to)?;
    let error = pair
        .receiver()
        .try_run(&format!("turnstile recv {to}"))?
        .failure()?;
    ensure!(
        error.contains("cannot bind: Address already in use"),
        "{error}"
    );
    drop(taken);
    Ok(())
}

/// Every pattern over the transport and over TCP; a seed gives the same messages.
pub(super) fn bench(ctx: &mut Ctx) -> Result<()> {
    let pair = Pair::new()?;
    let to = pair.to(false);
    for (over, flags) in [("turnstile", ""), ("tcp", "--over tcp")] {
        let mut server = Running::start(
            pair.receiver(),
            &format!("turnstile bench server {PORT} {flags}"),
        )?;
        let listening = server.line()?;
        ensure!(
            listening == format!("listening on [::]:{PORT}"),
            "{listening}"
        );
        for (load, messages) in [
            ("--pattern fixed --sizes 10kb --count 20 --parallel 2", 20),
            ("--pattern incast --sizes 10kb --count 3 --parallel 8", 24),
            (
                "--pattern poisson --sizes imc10 --count 30 --link 100mbit --load 50%",
                30,
            ),
        ] {
            let line = format!("turnstile -j bench client {to} {flags} {load} --samples --seed 5");
            let report = json(&pair.sender().run(&line)?)?;
            ensure!(
                report["messages"] == messages && report["failed"] == 0,
                "{line}: {report}"
            );
            let all = &report["classes"]
                .as_array()
                .and_then(|all| all.last().cloned())
                .unwrap_or_default();
            ensure!(all["messages"] == messages, "{line}: {report}");
            let sizes = |report: &Value| -> Vec<u64> {
                let samples = report["samples"].as_array().into_iter().flatten();
                samples
                    .filter_map(|sample| sample["length"].as_u64())
                    .collect()
            };
            let again = json(&pair.sender().run(&line)?)?;
            ensure!(
                sizes(&report) == sizes(&again),
                "the same seed gave other sizes"
            );
            ctx.note(format!("{over} {load}: p50 {} ns", all["time"]["p50"]));
        }
    }
    let line = format!("turnstile bench client {to} --count 2 --sizes 1kb");
    let nobody = pair.sender().try_run(&line)?.failure()?;
    ensure!(
        nobody.contains("2 of 2 messages were not delivered:\n  2: not delivered to")
            && !nobody.contains("0 messages"),
        "{nobody}"
    );
    Ok(())
}

/// The crate's examples run, and end well.
pub(super) fn examples(_: &mut Ctx) -> Result<()> {
    let pair = Pair::new()?;
    for address in ["127.0.0.1", "::1"] {
        for line in ["hello", "pieces", "async_echo"] {
            let line = format!("/usr/share/turnstile/examples/{line} {address}");
            let said = pair.sender().run(&line)?;
            ensure!(!said.is_empty(), "{line} said nothing");
        }
    }
    Ok(())
}
