// SPDX-License-Identifier: GPL-2.0
//! Words as they are typed, and what comes back.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::*;
use crate::tool::Tool;

/// Exit codes are tc's: 1 for words, 2 for what the kernel refused.
pub(super) fn exit_codes(_: &mut Ctx) -> Result<()> {
    let ns = Netns::create("a")?;
    ns.ip("link add eth0 type veth peer name eth1")?;
    Tool::Turnstile.port(&ns, "add", "eth0", "")?;
    for (verb, dev, words, code) in [
        ("change", "eth0", "colour red", 1),
        ("change", "eth0", "priorities 9", 1),
        ("change", "eth0", "link", 1),
        ("change", "nosuch", "priorities 4", 1),
        // The kernel knows the link.
        ("change", "eth0", "tokens 5001mbit", 2),
        ("change", "eth0", "phantom mark 1kb", 2),
        ("add", "eth0", "", 2),
        ("change", "eth1", "", 2),
    ] {
        for tool in Tool::ALL {
            failed(ns.try_run(&tool.line(verb, dev, "root", words))?, code)?;
        }
    }
    for (line, code) in [
        ("port", 1),
        ("bogus", 1),
        ("--bogus", 1),
        ("port add eth0 dev eth0", 1),
        ("port del eth0 link 1gbit", 1),
        ("port del eth1", 2),
        ("port show nosuch", 1),
        ("pacer change eth0 beta 9", 2),
        ("-n nosuch port show", 1),
        ("transport set colour red", 1),
        ("send 10.0.0.1:5 --size 1 --deadline 5", 1),
        ("send 10.0.0.1:5 /no/such/file", 2),
        ("flows --watch 5", 1),
        ("recv 70000", 1),
        ("bench client 10.0.0.1:5 --load 60", 1),
    ] {
        let output = ns.try_run(&format!("turnstile {line}"))?;
        let usage = line == "port";
        // Without a command, help is shown: on standard error, since it was not asked for.
        let said = failed(output, code)?;
        ensure!(
            usage == said.contains("Usage: turnstile port"),
            "{line}: {said}"
        );
    }
    for line in ["--help", "port help", "--version", "port add eth0 help"] {
        let output = ns.try_run(&format!("turnstile {line}"))?;
        ensure!(
            output.code == Some(0) && output.stderr.is_empty(),
            "{output:?}"
        );
    }
    Ok(())
}

/// Flags among the words, and tc's `dev`.
pub(super) fn flags_anywhere(_: &mut Ctx) -> Result<()> {
    let (here, there) = (Netns::create("here")?, Netns::create("there")?);
    there.ip("link add eth0 type veth peer name eth1")?;
    let run = |line: &str| here.run(&format!("turnstile {line}"));
    run("port add dev eth0 link 10mbit -n there")?;
    run("port change root dev eth0 priorities 4 --netns=there")?;
    let shown = run("port show dev eth0 -n there -j")?;
    says(&shown, &["\"link\":1250000", "\"priorities\":4"])?;
    run("pacer replace eth1 handle 1: -nthere")?;
    says(&run("pacer show -n there")?, &["pacer eth1 root handle 1:"])?;
    run("port del dev eth0 root -n there")?;
    ensure!(!there.tc("qdisc show dev eth0")?.contains("turnstile"));
    Ok(())
}

/// Empty lists are called so, on standard error.
pub(super) fn nothing_to_say(_: &mut Ctx) -> Result<()> {
    let ns = Netns::create("a")?;
    for (line, says, json) in [
        (
            "port show",
            "no Turnstile ports in this network namespace",
            "[]\n",
        ),
        ("port show lo", "no Turnstile ports on lo", "[]\n"),
        (
            "pacer show",
            "no Turnstile pacers in this network namespace",
            "[]\n",
        ),
        (
            "-n a pacer show",
            "no Turnstile pacers in network namespace a",
            "[]\n",
        ),
        ("flows", "no messages are under way", "[]\n"),
        (
            "flows --peers",
            "no peers: no messages are under way",
            "[]\n",
        ),
        (
            "flows --links",
            "no links: nobody has used the transport in this network namespace yet",
            "[]\n",
        ),
        (
            "stats",
            "nobody has used the transport in this network namespace yet",
            ":0,",
        ),
    ] {
        let output = ns.try_run(&format!("turnstile {line}"))?;
        ensure!(output.ok && output.stdout.is_empty(), "{output:?}");
        self::says(&output.stderr, &[says])?;
        let output = ns.try_run(&format!("turnstile -j {line}"))?;
        ensure!(output.ok && output.stderr.is_empty(), "{output:?}");
        // Counters are all there, and 0.
        let same = output.stdout == json || (line == "stats" && output.stdout.contains(json));
        ensure!(same, "{output:?}");
    }
    Ok(())
}

/// Without rights: what to be.
pub(super) fn not_root(_: &mut Ctx) -> Result<()> {
    const NOBODY: u32 = 65_534;
    let ns = Netns::create("a")?;
    ns.ip("link add eth0 type veth peer name eth1")?;
    for line in ["port add eth0", "pacer add eth0", "transport set rto 1ms"] {
        let output = ns.enter(|| {
            let mut command = Command::new("turnstile");
            let command = command.args(line.split(' ')).uid(NOBODY).gid(NOBODY);
            command.output().context("starting turnstile")
        })?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(2),
            "{line}: {}: {said}",
            output.status
        );
        says(&said, &["not permitted: be root, or have CAP_NET_ADMIN"])?;
    }
    Ok(())
}
