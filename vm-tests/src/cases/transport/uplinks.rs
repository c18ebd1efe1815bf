// SPDX-License-Identifier: GPL-2.0
//! Hosts with two uplinks: each has the tokens of its own speed.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{ensure, Result};
use serde_json::{json, Value};
use turnstile_socket::SendOptions;

use super::content;
use super::support::{delivered, joined, load, receive, sender, socket, PORT};
use crate::clock;
use crate::cmd::json as parsed;
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/uplinks/equal", |ctx| both_full(ctx, [1, 1]))
        .needs(&[Need::VirtualTime, Need::Speed])
        .timeout_s(120),
    Case::new("transport/uplinks/unequal", |ctx| both_full(ctx, [1, 4]))
        .needs(&[Need::VirtualTime, Need::Speed, Need::Module("bonding")])
        .timeout_s(120),
    Case::new("transport/uplinks/shown", shown).needs(&[Need::Module("bonding")]),
];

/// What a veth reports, bytes/s.
const VETH: u64 = 1_250_000_000;

/// Host `up0`, and `up1` and `up2` at the ends of its uplinks.
struct Bed {
    host: Netns,
    far: [Netns; 2],
}

impl Bed {
    /// The links are as fast as so many veths: more than one are a bond.
    fn new(veths: [u32; 2]) -> Result<Self> {
        load()?;
        let host = Netns::create("up0")?;
        let far = [Netns::create("up1")?, Netns::create("up2")?];
        for (number, (far, veths)) in (1..).zip(far.iter().zip(veths)) {
            let dev = format!("dev{number}");
            if veths == 1 {
                host.ip(&format!(
                    "link add {dev} type veth peer name {dev} netns {}",
                    far.name()
                ))?;
            } else {
                for ns in [&host, far] {
                    ns.ip(&format!(
                        "link add {dev} type bond mode balance-rr miimon 10"
                    ))?;
                }
                for veth in 0..veths {
                    host.ip(&format!(
                        "link add s{veth} type veth peer name s{veth} netns {}",
                        far.name()
                    ))?;
                    for ns in [&host, far] {
                        ns.ip(&format!("link set s{veth} master {dev}"))?;
                    }
                }
            }
            for (ns, end) in [(&host, 1), (far, 2)] {
                ns.ip(&format!("address add 10.9.{number}.{end}/24 dev {dev}"))?;
                ns.ip(&format!("link set {dev} up"))?;
            }
        }
        for (far, to) in far.iter().zip(Self::addresses()) {
            far.run(&format!("ping -c 1 -W 5 {}", to.ip()))?;
        }
        Ok(Self { host, far })
    }

    /// Where the host is reached by each link.
    fn addresses() -> [SocketAddr; 2] {
        [1, 2].map(|number| (Ipv4Addr::new(10, 9, number, 1), PORT).into())
    }

    /// The host's links: name, speed, messages.
    fn links(&self) -> Result<Vec<(String, u64, u64)>> {
        let all = parsed(&self.host.run("turnstile -j flows --links")?)?;
        let all = all.as_array().cloned().unwrap_or_default();
        let number = |link: &Value, key: &str| link[key].as_u64().unwrap_or(u64::MAX);
        let name = |link: &Value| link["name"].as_str().unwrap_or("?").to_owned();
        Ok(all
            .iter()
            .map(|link| (name(link), number(link, "rate"), number(link, "incoming")))
            .collect())
    }
}

/// A message comes by each link, both at once, and each as fast as its link carries it. With one
/// pacer for both, two equal links had half of their speed, and of two others the slow one had
/// tokens at the fast one's speed.
fn both_full(ctx: &mut Ctx, veths: [u32; 2]) -> Result<()> {
    const LEN: usize = 4_000_000;
    let bed = Bed::new(veths)?;
    let start = clock::monotonic() + 10_000_000;
    let mut threads = Vec::new();
    for ((far, to), veths) in bed.far.iter().zip(Bed::addresses()).zip(veths) {
        let len = LEN * veths as usize;
        let receiver = socket(&bed.host, to)?;
        let from = sender(far)?;
        let sending = std::thread::spawn(move || {
            let data = content::content(1, len);
            clock::sleep_until(start);
            from.send_to(&data, to, &SendOptions::default())?;
            delivered(&from, 1)
        });
        let receiving = std::thread::spawn(move || {
            let (_, messages) = joined(receive(receiver, 1))?;
            let took = clock::monotonic() - start;
            content::check(1, 0, &messages[0].data)?;
            Ok(took)
        });
        threads.push((sending, receiving, len, VETH * u64::from(veths)));
    }
    for (sending, receiving, len, rate) in threads {
        let took = joined(receiving)? as f64;
        joined(sending)?;
        // In packets of 1450 bytes of 1538 on the wire, and a token of 84 for each.
        let ideal = len as f64 / 1450.0 * 1622.0 / rate as f64 * 1e9;
        ctx.note(format!(
            "{rate} B/s: {took} ns for {len} bytes, ideal {ideal:.0}"
        ));
        ensure!(
            (0.95..1.1).contains(&(took / ideal)),
            "{rate} B/s: {took} ns for {len} bytes instead of {ideal:.0}"
        );
    }
    Ok(())
}

/// `turnstile flows --links`: each device's own speed, live; loopback has none.
fn shown(_: &mut Ctx) -> Result<()> {
    let bed = Bed::new([1, 2])?;
    ensure!(bed.links()?.is_empty(), "links that nobody uses");
    let to = socket(&bed.host, ("::", PORT))?;
    let one = |from: &Netns, address: SocketAddr| -> Result<()> {
        let from = sender(from)?;
        from.send_to(&content::content(1, 9000), address, &SendOptions::default())?;
        content::check(1, 0, &to.recv_message(9000)?.data)?;
        delivered(&from, 1)
    };
    let expect = |what: &[(&str, u64)], when: &str| -> Result<()> {
        let expected: Vec<_> = what
            .iter()
            .map(|(name, rate)| ((*name).to_owned(), *rate, 0))
            .collect();
        let mut links = Vec::new();
        // What devices say is asked for in the background.
        for _ in 0..400 {
            links = bed.links()?;
            if links == expected {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        anyhow::bail!("{when}: {links:?} instead of {expected:?}")
    };
    let [first, second] = Bed::addresses();
    one(&bed.host, (Ipv4Addr::LOCALHOST, PORT).into())?;
    expect(&[("", 2 * VETH)], "loopback only")?;
    // A message of a host to an address of its own comes by loopback, too.
    one(&bed.host, first)?;
    expect(&[("", 2 * VETH)], "to its own address")?;
    one(&bed.far[1], second)?;
    one(&bed.far[0], first)?;
    let both = [("", 2 * VETH), ("dev2", 2 * VETH), ("dev1", VETH)];
    expect(&both, "a message by each")?;
    bed.host.run("turnstile transport set link 1gbit")?;
    let set = both.map(|(name, _)| (name, 125_000_000));
    expect(&set, "link 1gbit")?;
    bed.host.run("turnstile transport set link auto")?;
    expect(&both, "link auto")?;
    bed.host.ip("link set dev2 down")?;
    expect(&[("", VETH), ("dev1", VETH)], "dev2 is down")?;
    bed.host.ip("link set s1 nomaster")?;
    bed.host.ip("link set dev2 up")?;
    one(&bed.far[0], first)?;
    let text = bed.host.run("turnstile flows --links")?;
    let lines: Vec<&str> = text.lines().collect();
    let rest = "rate 10gbit token-rate 517.87916mbit incoming 0";
    let all = [format!("others {rest}"), format!("dev1 {rest}")];
    ensure!(lines == all, "{text}");
    let object = parsed(&bed.host.run("turnstile -j flows --links")?)?;
    let keys = json!({"name": "", "rate": VETH, "token-rate": 64_734_895, "incoming": 0});
    ensure!(object[0] == keys, "{object}");
    Ok(())
}
