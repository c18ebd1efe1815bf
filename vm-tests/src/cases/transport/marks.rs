// SPDX-License-Identifier: GPL-2.0
//! The transport's policy `ren` over ports with REN's marker: marks arrive, grants carry them back,
//! and senders heed them.

use std::collections::BTreeMap;

use anyhow::{ensure, Context, Result};
use serde_json::Value;
use turnstile_socket::SendOptions;

use super::content::{self, Ledger};
use super::support::{
    addresses, configure_all, delivered, hosts, nothing_more, receive_all, receiver, sender,
};
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::stats;
use crate::tool::Tool;
use crate::topology::{Builder, Net};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/marks/two-ports-ipv4", |ctx| two_ports(ctx, 0)).timeout_s(120),
    Case::new("transport/marks/two-ports-ipv6", |ctx| two_ports(ctx, 1)).timeout_s(120),
    Case::new("transport/marks/loss", loss)
        .needs(&[Need::Module("sch_netem")])
        .timeout_s(120),
    Case::new("transport/marks/no-marker", no_marker).timeout_s(120),
];

/// What the ports of `tc-configs/ren-port.sh` have beside rate and period.
const GRANTS: &str =
    "tokens 20% priorities 1 token-limit 1024 token-expiry off jitter 0 order tokens-first \
     unscheduled off";
/// The hosts' link is what their own ports have; a round trip on it is short, but for what waits.
/// 20 full packets are sent at first.
const HOSTS: &str = "policy ren link 50mbit base-rtt 5ms";
/// The first port of the path, at the sender, is faster than the second, at the switch.
const FIRST: &str = "link 50mbit";
const SECOND: &str = "link 20mbit";
const MARKER: &str = "ren period 5ms";
/// Packets of a message that may be under way: twice what the link carries in `base-rtt`, and what
/// is acknowledged at once.
const UNDER_WAY: u64 = 2 * 20 + 16;
/// Messages that are sent at once, and bytes of each.
const COUNT: u64 = 4;
const LEN: usize = 150_000;

/// Two hosts at a switch, with a port at the sender and one at the switch, behind which is the
/// receiver.
fn path(marker: &str) -> Result<Net> {
    let net = hosts(&Builder::bridged(2).without_offloads())?;
    configure_all(&net, HOSTS)?;
    for ((ns, dev), link) in ports(&net).into_iter().zip([FIRST, SECOND]) {
        Tool::Tc.port(ns, "add", &dev, &format!("{link} {GRANTS} {marker}"))?;
    }
    Ok(net)
}

fn ports(net: &Net) -> [(&Netns, String); 2] {
    [(&net.hosts[0].ns, "eth0".to_owned()), net.port_to(1)]
}

/// What the data classes of both ports count.
fn data(net: &Net) -> Result<[stats::Counters; 2]> {
    let [first, second] = ports(net).map(|(ns, dev)| {
        let class = stats::classes(ns, &dev)?.remove("1:2");
        class.context("no data class")
    });
    Ok([first?, second?])
}

/// The transport's counters of a host.
fn counters(ns: &Netns) -> Result<BTreeMap<String, u64>> {
    let text = ns.run("turnstile -j stats")?;
    let all: BTreeMap<String, Value> = serde_json::from_str(&text).context(text)?;
    let numbers = all.into_iter();
    Ok(numbers
        .filter_map(|(name, value)| Some((name, value.as_u64()?)))
        .collect())
}

/// Sends messages at once, and reads them: each is there once, and intact.
fn send(net: &Net, family: usize, first: u64) -> Result<()> {
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    let mut ledger = Ledger::of((first..first + COUNT).map(|number| (number, LEN)));
    let address = addresses(&net.hosts[1])[family];
    for number in first..first + COUNT {
        let bytes = content::content(number, LEN);
        from.send_to(&bytes, address, &SendOptions::default())?;
    }
    receive_all(&to, &mut ledger)?;
    delivered(&from, COUNT as u32)?;
    nothing_more(&to)
}

/// What grants said, and what the sender did.
fn heeded(ctx: &mut Ctx, net: &Net) -> Result<[u64; 3]> {
    let sender = counters(&net.hosts[0].ns)?;
    let of = |name: &str| sender.get(name).copied().unwrap_or(0);
    let [first, second] = data(net)?;
    let names = ["ren-under", "ren-full", "ren-over", "ren-kept"];
    let marks = |port: &stats::Counters| names.map(|name| port.get(name));
    ctx.note(format!(
        "{names:?}: {:?} at the sender, {:?} at the switch; {} grants: {} over, {} under, {} held, \
         {} idle",
        marks(&first),
        marks(&second),
        of("grant-received"),
        of("grant-over"),
        of("grant-under"),
        of("grant-held"),
        of("token-idle"),
    ));
    Ok(["grant-over", "grant-under", "grant-held"].map(of))
}

/// The slower port's marks arrive, and so do the faster one's that are higher; each of them does
/// what it says.
fn two_ports(ctx: &mut Ctx, family: usize) -> Result<()> {
    let net = path(MARKER)?;
    send(&net, family, 1)?;
    let [over, under, held] = heeded(ctx, &net)?;
    let [first, second] = data(&net)?;
    let each = |name: &str| [first.get(name), second.get(name)];
    let [seen, passed] = each("ren-seen");
    ensure!(
        seen == passed,
        "{seen} packets of REN flows, and then {passed}"
    );
    ensure!(
        seen >= COUNT * (LEN / 1450) as u64,
        "{seen} packets of REN flows"
    );
    // Both have a queue: four messages begin at once with more than the link carries, and the
    // second is slower.
    let [at_first, at_second] = each("ren-over");
    ensure!(
        at_first > 0 && at_second > 0,
        "not over-utilized: {at_first}, {at_second}"
    );
    // What the first has raised, the second has not lowered.
    ensure!(second.get("ren-kept") > 0, "no mark was kept");
    ensure!(
        second.get("ren-under") <= first.get("ren-under"),
        "{} packets are left under-utilized, {} were",
        second.get("ren-under"),
        first.get("ren-under")
    );
    // A grant for each packet but the last of a message; some come when it is done.
    let marked = at_first + at_second;
    ensure!(
        (1..=marked).contains(&over) && 2 * over >= marked,
        "{over} grants said over-utilized, {marked} packets did"
    );
    let left = second.get("ren-under");
    ensure!(under + held <= left, "{under} and {held} of {left} packets");
    for (port, counters) in [("the sender's", &first), ("the switch's", &second)] {
        let drops = counters.drops_by_cause();
        ensure!(drops == 0, "{port} port dropped {drops} packets");
    }
    ports(&net)
        .iter()
        .try_for_each(|(ns, dev)| stats::check_port(ns, dev, "1:"))
}

/// Data, grants and all else are lost, and marks are heeded all the same.
fn loss(ctx: &mut Ctx) -> Result<()> {
    let net = path(MARKER)?;
    let seed = ctx.rng.range(1..=1_u64 << 32);
    let [(ns, dev), _] = ports(&net);
    ns.tc(&format!(
        "qdisc add dev {dev} parent 1:2 handle 2: netem limit 10000 loss 3% seed {seed}"
    ))?;
    net.hosts[1].ns.tc(&format!(
        "qdisc add dev eth0 root netem limit 10000 loss 3% seed {seed}"
    ))?;
    for family in 0..2 {
        send(&net, family, 1 + COUNT * family as u64)?;
    }
    let [over, ..] = heeded(ctx, &net)?;
    let sender = counters(&net.hosts[0].ns)?;
    let resent = sender.get("data-resent").copied().unwrap_or(0);
    ensure!(over > 0, "no grant said over-utilized");
    ensure!(resent > 0, "nothing was lost");
    Ok(())
}

/// Ports without a marker leave every packet as it was sent, under-utilized: not all grants that
/// say so draw two packets, or each message would double what it has under way for as long as it
/// lasts. What is under way waits for ten times as long as `base-rtt`, and is not taken for lost
/// for that.
fn no_marker(ctx: &mut Ctx) -> Result<()> {
    let net = path("")?;
    for family in 0..2 {
        send(&net, family, 1 + COUNT * family as u64)?;
    }
    let [over, under, held] = heeded(ctx, &net)?;
    ensure!(over == 0, "{over} grants said over-utilized");
    ensure!(under > 0 && held > 0, "{under} sent twice, {held} did not");
    let longest = data(&net)?.map(|port| port.get("max-packets"));
    let sender = counters(&net.hosts[0].ns)?;
    let [sent, again] =
        ["data-sent", "data-resent"].map(|name| sender.get(name).copied().unwrap_or(0));
    ctx.note(format!(
        "at most {longest:?} packets waited; {again} of {sent} were sent again"
    ));
    ensure!(
        again * 4 <= sent,
        "{again} of {sent} packets were sent again"
    );
    let most = COUNT * UNDER_WAY + again;
    ensure!(
        longest.iter().all(|packets| *packets <= most),
        "{longest:?} packets waited, of {most}"
    );
    Ok(())
}
