// SPDX-License-Identifier: GPL-2.0
//! The transport: messages between two hosts on a plain link, through `turnstile.ko`'s sockets.

use std::net::{IpAddr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, ensure, Context, Result};
use turnstile_socket::{Message, SendOptions, Socket};

use crate::harness::{Case, Ctx};
use crate::netns::Netns;
use crate::topology::{Builder, Net};

mod churn;
mod content;
mod dead;
mod ends;
mod errors;
mod kernel;
mod many;
mod marks;
mod names;
mod options;
mod packets;
mod path;
mod port;
mod reading;
mod reports;
mod settings;
mod sizes;
mod smoke;
mod streaming;
mod support;
mod tools;
mod watch;

pub(super) const CASES: &[Case] = &[
    Case::new("transport/smoke-ipv4", |ctx| smoke::sizes(ctx, false)),
    Case::new("transport/smoke-ipv6", |ctx| smoke::sizes(ctx, true)),
    Case::new("transport/smoke-loopback", smoke::loopback),
    Case::new("transport/smoke-pieces", smoke::pieces),
    Case::new("transport/smoke-many", smoke::many),
    Case::new("transport/smoke-errors", smoke::errors),
    Case::new("transport/smoke-close", smoke::close),
    Case::new("transport/command-settings", settings::there_and_back),
    Case::new("transport/command-refused", settings::refused),
    Case::new("transport/command-send-recv", tools::send_and_recv).timeout_s(120),
    Case::new("transport/command-reports", tools::reports),
    Case::new("transport/command-watch", watch::a_message),
    Case::new("transport/command-bench", tools::bench).timeout_s(120),
    Case::new("transport/examples", tools::examples).timeout_s(120),
];

/// The themes that have files of their own.
pub(super) fn themes() -> impl Iterator<Item = &'static [Case]> {
    [
        sizes::CASES,
        reading::CASES,
        streaming::CASES,
        errors::CASES,
        options::CASES,
        ends::CASES,
        names::CASES,
        reports::CASES,
        many::CASES,
        marks::CASES,
        path::CASES,
        packets::CASES,
        port::CASES,
        dead::CASES,
        churn::CASES,
        kernel::CASES,
    ]
    .into_iter()
}

/// The port that receivers listen on.
const PORT: u16 = 4000;
/// How long a call may wait: far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Two hosts with a link between them.
struct Pair {
    net: Net,
}

impl Pair {
    fn new() -> Result<Self> {
        Ok(Self {
            net: Builder::pair().build()?,
        })
    }

    /// Where the messages come from.
    fn sender(&self) -> &Netns {
        &self.net.hosts[0].ns
    }

    /// Where they go.
    fn receiver(&self) -> &Netns {
        &self.net.hosts[1].ns
    }

    /// The receiver's address.
    fn to(&self, ipv6: bool) -> SocketAddr {
        let host = &self.net.hosts[1];
        let ip: IpAddr = if ipv6 { host.v6.into() } else { host.v4.into() };
        SocketAddr::new(ip, PORT)
    }
}

/// A socket in a namespace, which waits for [`PATIENCE`].
fn socket(ns: &Netns, local: SocketAddr) -> Result<Socket> {
    let socket = ns.enter(|| Socket::bind(local).context("binding"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Any address of the family of `like`, and a port that the kernel chooses.
fn any(like: SocketAddr) -> SocketAddr {
    let ip: IpAddr = match like {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

/// Bytes that are not the same anywhere else: what was mixed up, lost or doubled shows.
fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut data = vec![0; len];
    rng.fill(&mut data);
    data
}

/// Receives messages in a thread of its own.
fn receive(socket: Socket, count: usize) -> JoinHandle<Result<(Socket, Vec<Message>)>> {
    std::thread::spawn(move || {
        let mut messages = Vec::new();
        for i in 0..count {
            let message = socket
                .recv_message(1 << 30)
                .with_context(|| format!("receiving message {i}"))?;
            messages.push(message);
        }
        Ok((socket, messages))
    })
}

fn joined<T>(thread: JoinHandle<Result<T>>) -> Result<T> {
    thread.join().map_err(|_| anyhow!("a thread panicked"))?
}

/// Fails if two messages differ, and says where.
fn same(what: &str, got: &[u8], sent: &[u8]) -> Result<()> {
    ensure!(
        got.len() == sent.len(),
        "{what}: {} of {} bytes came",
        got.len(),
        sent.len()
    );
    let differs = got.iter().zip(sent).position(|(got, sent)| got != sent);
    ensure!(
        differs.is_none(),
        "{what}: differs from byte {}",
        differs.unwrap_or(0)
    );
    Ok(())
}

fn options() -> SendOptions {
    SendOptions::default()
}
