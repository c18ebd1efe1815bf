// SPDX-License-Identifier: GPL-2.0
//! `turnstile flows`, `stats` and `events`: what they show of a message that waits for its reader,
//! and of its end.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::tools::Running;
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};
use turnstile_socket::SendOptions;

use super::content::content;
use super::support::{any, joined, same, socket, Pair, PATIENCE, PORT};
use crate::cmd::json;
use crate::harness::Ctx;
use crate::netns::Netns;

/// Too much for the receiver's buffer: it stays under way until it is read.
const LEN: usize = 30_000_000;

fn list(ns: &Netns, what: &str) -> Result<Vec<Value>> {
    let value = json(&ns.run(&format!("turnstile -j {what}"))?)?;
    value
        .as_array()
        .cloned()
        .with_context(|| format!("{what}: {value}"))
}

/// The only element of a list.
fn only(ns: &Netns, what: &str) -> Result<Value> {
    let all = list(ns, what)?;
    ensure!(all.len() == 1, "{what}: {all:?}");
    Ok(all[0].clone())
}

/// Reads events until one of this kind comes.
fn event(events: &mut Running, kind: &str) -> Result<Value> {
    loop {
        let line = events.line()?;
        ensure!(!line.is_empty(), "the events ended before {kind:?}");
        let event = json(&line)?;
        if event["event"] == kind {
            return Ok(event);
        }
    }
}

/// Starts `turnstile events`, and changes the configuration until an event of that comes: from then
/// on, none is missed.
fn watch(ns: &Netns) -> Result<Running> {
    let mut events = Running::start(ns, "turnstile -j events")?;
    let seen = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| -> Result<()> {
            while !seen.load(Ordering::Relaxed) {
                ns.run("turnstile transport set rto 2ms")?;
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(())
        });
        let first = event(&mut events, "configured");
        seen.store(true, Ordering::Relaxed);
        joined_scoped(changing)?;
        first
    })?;
    Ok(events)
}

fn joined_scoped(thread: std::thread::ScopedJoinHandle<'_, Result<()>>) -> Result<()> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}

/// A message from its begin to its end.
pub(super) fn a_message(ctx: &mut Ctx) -> Result<()> {
    let pair = Pair::new()?;
    let to = pair.to(false);
    let receiver = socket(pair.receiver(), to)?;
    ensure!(
        list(pair.sender(), "flows")?.is_empty(),
        "messages before the first"
    );
    let mut events = watch(pair.sender())?;

    let sender = socket(pair.sender(), any(to))?;
    let data = content(ctx.seed, LEN);
    let sent = std::thread::spawn({
        let data = data.clone();
        move || -> Result<()> {
            sender.set_completions(true)?;
            sender.send_to(
                &data,
                to,
                &SendOptions {
                    coflow: std::num::NonZeroU32::new(7),
                    priority: Some(3),
                    ..SendOptions::default()
                },
            )?;
            let end = sender
                .wait_completion(Some(PATIENCE))?
                .context("not delivered in time")?;
            Ok(end.outcome?)
        }
    });
    let opened = event(&mut events, "opened")?;
    ensure!(
        opened["length"] == LEN && opened["direction"] == "out",
        "{opened}"
    );

    let out = only(pair.sender(), "flows")?;
    ensure!(
        out["direction"] == "out"
            && out["peer"] == to.to_string()
            && out["length"] == LEN
            && out["coflow"] == 7,
        "{out}"
    );
    ensure!(out["number"] == opened["number"], "{out} is not {opened}");
    let coming = only(pair.receiver(), "flows")?;
    ensure!(
        coming["direction"] == "in" && coming["local-port"] == PORT && coming["length"] == LEN,
        "{coming}"
    );
    ensure!(coming["received"].as_u64() < Some(LEN as u64), "{coming}");
    let text = pair.receiver().run("turnstile flows")?;
    ensure!(
        text.contains(&format!(" in port {PORT} from 10."))
            && text.contains(&format!("/{LEN} window ")),
        "{text}"
    );

    let peer = only(pair.sender(), "flows --peers")?;
    ensure!(
        peer["address"] == to.ip().to_string()
            && peer["outgoing"] == 1
            && peer["unacknowledged"].as_u64() > Some(0),
        "{peer}"
    );
    let peer = only(pair.receiver(), "flows --peers")?;
    ensure!(
        peer["incoming"] == 1 && peer["missing"].as_u64() > Some(0),
        "{peer}"
    );

    let message = receiver.recv_message(1 << 30)?;
    same("the message", &message.data, &data)?;
    joined(sent)?;
    let delivered = event(&mut events, "delivered")?;
    ensure!(
        delivered["number"] == opened["number"],
        "{delivered} is not {opened}"
    );
    ensure!(
        list(pair.sender(), "flows")?.is_empty(),
        "a message is left"
    );

    let counters = |ns: &Netns| json(&ns.run("turnstile -j stats")?);
    let (out, coming) = (counters(pair.sender())?, counters(pair.receiver())?);
    ensure!(
        out["out-opened"] == 1
            && out["out-delivered"] == 1
            && out["out-delivered-bytes"] == LEN
            && out["token-valid"].as_u64() > Some(0),
        "{out}"
    );
    ensure!(
        coming["in-delivered"] == 1 && coming["in-delivered-bytes"] == LEN,
        "{coming}"
    );
    let text = pair.receiver().run("turnstile stats")?;
    ensure!(
        text.contains("in-delivered 1\n") && !text.contains(" 0\n"),
        "{text}"
    );
    let all = pair.receiver().run("turnstile stats --all")?;
    ensure!(all.contains("out-opened 0\n"), "{all}");
    Ok(())
}
