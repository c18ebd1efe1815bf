// SPDX-License-Identifier: GPL-2.0
//! What the port does with packets under overload.
//!
//! Everything is a ratio within one run: an emulated machine may be slow, and then all classes are.
//! The link is slow, too, so that a machine which stands still for tens of milliseconds now and
//! then does not look like a port that does: a pacing interval is 13 ms, a token expires after 104
//! ms, and the port makes up for as much lateness.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{ensure, Result};

use crate::cases::support::{within, Bottleneck, TOKEN_SHARE};
use crate::clock;
use crate::harness::{Case, Ctx, Need};
use crate::tool::Tool;
use crate::traffic::{Flow, Packet, Sink, Source};

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("behaviour/strict-priority", strict_priority),
    Case::new("behaviour/group-share-tokens-first", |ctx| {
        group_share(ctx, "tokens-first")
    }),
    Case::new("behaviour/group-share-data-first", |ctx| {
        group_share(ctx, "data-first")
    }),
    Case::new("behaviour/order", order),
    Case::new("behaviour/idle-group-takes-nothing", idle_group),
    Case::new("behaviour/idle-group-saves-no-burst", no_burst),
    Case::new("behaviour/expiry", expiry),
    Case::new("behaviour/token-limit", token_limit),
    Case::new("behaviour/bursts", bursts).timeout_s(120),
    Case::new("behaviour/overload-that-lasts", overload)
        .needs(&[Need::VirtualTime])
        .timeout_s(120),
    Case::new("behaviour/unscheduled-holds-one", unscheduled_holds_one),
    Case::new("behaviour/unscheduled-off", unscheduled_off),
    Case::new("behaviour/signals-first", signals_first),
    Case::new("behaviour/data-limit", data_limit),
    Case::new("behaviour/rate-changes-live", rate_changes_live),
    Case::new("behaviour/change-keeps-what-is-queued", change_keeps),
];

/// bit/s.
const LINK: f64 = 1e6;
/// bit/s of the token group at the default share.
const GROUP: f64 = LINK * TOKEN_SHARE;

/// ns that a data packet of 1538 bytes takes on the link.
const PACKET: f64 = 1538.0 * 8.0 / LINK * 1e9;

/// Six priorities at 0.4 of the group's rate each: the first two get all, the third what is left,
/// the others nothing.
fn strict_priority(ctx: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    for (tool, order) in [(Tool::Tc, "tokens-first"), (Tool::Turnstile, "data-first")] {
        // Deep queues, so that senders that were held up lose nothing.
        let options = format!("link 1mbit order {order} token-limit 100 token-expiry off");
        let offered = 0.4 * GROUP;
        let mut flows: Vec<Flow> = (0..6)
            .map(|priority| bottleneck.flow(Packet::Token(priority)).bits_per_s(offered))
            .collect();
        flows.push(bottleneck.flow(Packet::Data).bits_per_s(1.2 * LINK));
        let outcome = bottleneck.run(ctx, tool, &options, &flows, 4.0)?;
        let parts: Vec<_> = (0..6)
            .map(|priority| outcome.steady_rate(Packet::Token(priority)) / offered)
            .collect();
        ctx.note(format!(
            "{order}: rate of what was offered, by priority: {parts:.3?}"
        ));
        within("token0", parts[0], 0.96, 1.04)?;
        within("token1", parts[1], 0.94, 1.06)?;
        within("token2", parts[2], 0.35, 0.65)?;
        for (priority, part) in parts.iter().enumerate().skip(3) {
            within(&format!("token{priority}"), *part, 0.0, 0.02)?;
        }
    }
    Ok(())
}

/// With more tokens than the group may send and more data than the link carries, tokens get their
/// share and no more.
fn group_share(ctx: &mut Ctx, order: &str) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    // At 20 %, four tokens fall due while a frame is sent.
    for (tool, words, share) in [
        (Tool::Tc, "", TOKEN_SHARE),
        (Tool::Turnstile, "tokens 20%", 0.2),
    ] {
        // Deep queues, so that there are always tokens to send.
        let options = format!("link 1mbit order {order} {words} token-limit 100 token-expiry off");
        let flows = [
            bottleneck
                .flow(Packet::Token(0))
                .bits_per_s(0.7 * share * LINK),
            bottleneck
                .flow(Packet::Token(3))
                .bits_per_s(0.7 * share * LINK),
            bottleneck.flow(Packet::Data).bits_per_s(1.2 * LINK),
        ];
        let outcome = bottleneck.run(ctx, tool, &options, &flows, 4.0)?;
        let tokens: f64 = (0..8)
            .map(|priority| outcome.steady_rate(Packet::Token(priority)))
            .sum();
        let (tokens, data) = (tokens / LINK, outcome.steady_rate(Packet::Data) / LINK);
        ctx.note(format!(
            "{order}: tokens {:.3} % of the link, share {:.3} %; data {:.2} %",
            tokens * 100.0,
            share * 100.0,
            data * 100.0
        ));
        // Where time goes by itself the processor is away now and then, and nothing is sent.
        let [least_tokens, least_data] = match clock::is_simulated() {
            true => [0.97, 0.96],
            false => [0.9, 0.9],
        };
        within(
            "the tokens' part of their share",
            tokens / share,
            least_tokens,
            1.02,
        )?;
        within(
            "data's part of what is left",
            data / (1.0 - share),
            least_data,
            1.02,
        )?;
    }
    Ok(())
}

/// On a link slow enough to see single packets: tokens first, a due token waits for the rest of a
/// data packet; data first, it lets one more pass.
fn order(ctx: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    let mut means = Vec::new();
    for (tool, order) in [(Tool::Turnstile, "tokens-first"), (Tool::Tc, "data-first")] {
        let outcome = bottleneck.run(
            ctx,
            tool,
            &format!("link 1mbit order {order}"),
            &[
                bottleneck.flow(Packet::Token(0)).bits_per_s(0.3 * GROUP),
                bottleneck.flow(Packet::Data).bits_per_s(1.2 * LINK),
            ],
            3.0,
        )?;
        let class = outcome.class("1:10")?;
        within(
            &format!("{order}: tokens sent"),
            outcome.sent_part("1:10")?,
            0.98,
            1.0,
        )?;
        means.push(class.get("sojourn-mean") as f64);
    }
    ctx.note(format!(
        "mean sojourn of tokens: tokens first {:.0} us, data first {:.0} us",
        means[0] / 1e3,
        means[1] / 1e3
    ));
    within("tokens first, in data packets", means[0] / PACKET, 0.1, 1.1)?;
    within(
        "data first, in data packets more",
        (means[1] - means[0]) / PACKET,
        0.4,
        1.4,
    )
}

/// Without tokens, data has the link.
fn idle_group(ctx: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    for (tool, order) in [(Tool::Tc, "tokens-first"), (Tool::Turnstile, "data-first")] {
        let outcome = bottleneck.run(
            ctx,
            tool,
            &format!("link 1mbit order {order}"),
            &[bottleneck.flow(Packet::Data).bits_per_s(1.2 * LINK)],
            3.0,
        )?;
        let of_link = outcome.steady_rate(Packet::Data) / LINK;
        ctx.note(format!(
            "{order}: data alone gets {:.2} % of the link",
            of_link * 100.0
        ));
        within("data's part of the link", of_link, 0.97, 1.01)?;
    }
    Ok(())
}

/// After a second without tokens, a burst of them is still paced.
fn no_burst(ctx: &mut Ctx) -> Result<()> {
    const TOKENS: u64 = 32;
    let bottleneck = Bottleneck::new()?;
    // 84 bytes at 1 % of 20 Mbit/s: an interval of 3.36 ms.
    bottleneck.port(
        Tool::Tc,
        "link 20mbit tokens 1% token-limit 64 token-expiry off",
    )?;
    std::thread::sleep(Duration::from_secs(1));
    let sink = Sink::keeping_arrivals(&bottleneck.net.hosts[2].ns)?;
    Source::run(
        &bottleneck.net.hosts[0].ns,
        vec![bottleneck.flow(Packet::Token(0)).burst(TOKENS)],
    )?;
    std::thread::sleep(Duration::from_millis(200));
    let streams = sink.finish()?;
    let arrivals = &streams[&Packet::Token(0).stream()].arrivals;
    ensure!(
        arrivals.len() as u64 == TOKENS,
        "{} of {TOKENS} tokens arrived",
        arrivals.len()
    );
    let span = (arrivals[arrivals.len() - 1] - arrivals[0]) as f64;
    let intervals = span / 3.36e6;
    ctx.note(format!(
        "{TOKENS} tokens at once left over {intervals:.2} pacing intervals"
    ));
    within(
        "pacing intervals",
        intervals,
        TOKENS as f64 - 1.5,
        TOKENS as f64 + 10.0,
    )
}

/// A token that waits longer than the expiry is dropped; with expiry off, none is.
fn expiry(ctx: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    for (tool, words, limit) in [
        // 8 pacing intervals of 84 bytes at 1 Mbit/s x 5.1787916 %, which is 103808000.25 ns,
        // rounded up.
        (Tool::Tc, "token-expiry auto jitter 0", Some(103_808_001)),
        (
            Tool::Turnstile,
            "token-expiry 200ms jitter 0",
            Some(200_000_000),
        ),
        (Tool::Tc, "token-expiry off", None),
    ] {
        let outcome = bottleneck.run(
            ctx,
            tool,
            &format!("link 1mbit {words}"),
            &[
                bottleneck.flow(Packet::Token(0)).bits_per_s(0.9 * GROUP),
                bottleneck.flow(Packet::Token(5)).bits_per_s(1.0 * GROUP),
            ],
            4.0,
        )?;
        let class = outcome.class("1:15")?;
        let (expired, longest) = (class.get("expired"), class.get("sojourn-max"));
        ctx.note(format!(
            "{words}: {expired} expired, the longest wait of one sent was {} us",
            longest / 1000
        ));
        ensure!(
            class.packets > 0,
            "{words}: no token of the low priority was sent at all"
        );
        match limit {
            Some(limit) => {
                ensure!(expired > 0, "{words}: nothing expired");
                ensure!(
                    longest <= limit,
                    "{words}: a token was sent after {longest} ns"
                );
            }
            None => {
                ensure!(expired == 0, "{words}: {expired} expired");
                ensure!(
                    longest > 400_000_000,
                    "{words}: no token waited, {longest} ns at most"
                );
            }
        }
        within("token0", outcome.sent_part("1:10")?, 0.97, 1.0)?;
    }
    Ok(())
}

/// A token queue holds its limit and not one more.
fn token_limit(_: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    for (tool, limit) in [(Tool::Tc, 1), (Tool::Turnstile, 8), (Tool::Tc, 100)] {
        // An interval of 3.36 s: nothing but the first token leaves while we look.
        bottleneck.port(
            tool,
            &format!("link 2mbit tokens 0.01% token-limit {limit} token-expiry off jitter 0"),
        )?;
        Source::run(
            &bottleneck.net.hosts[0].ns,
            vec![bottleneck.flow(Packet::Token(2)).burst(200)],
        )?;
        bottleneck.wait_for("1:12", 200)?;
        let classes = bottleneck.classes()?;
        let class = &classes["1:12"];
        class.check()?;
        let figures = [
            class.get("offered-packets"),
            class.packets,
            class.get("queued"),
            class.get("over-limit"),
        ];
        ensure!(
            figures == [200, 1, limit, 199 - limit],
            "token-limit {limit}: offered, sent, queued, over limit {figures:?}"
        );
        ensure!(
            class.get("max-packets") == limit,
            "token-limit {limit}: {} queued at most",
            class.get("max-packets")
        );
    }
    Ok(())
}

/// With jitter a queue has room for a burst, and no more than its limit where twice as many tokens
/// come as leave; then for a burst again.
fn overload(ctx: &mut Ctx) -> Result<()> {
    /// A poll, and what falls due in 10 ms.
    const ROOM: u64 = 64 + 8;
    /// Of the group, an interval of 1.2976 ms.
    const PER_S: f64 = 770.7;
    let bottleneck = Bottleneck::new()?;
    let class = || -> Result<_> {
        let classes = bottleneck.classes()?;
        classes["1:12"].check()?;
        Ok(["queued", "over-limit", "max-packets"].map(|name| classes["1:12"].get(name)))
    };
    for (tool, v6) in [(Tool::Tc, false), (Tool::Turnstile, true)] {
        bottleneck.port(tool, "link 10mbit token-expiry off jitter 10ms")?;
        let host = &bottleneck.net.hosts[2];
        let to: IpAddr = if v6 { host.v6.into() } else { host.v4.into() };
        let flow = || Flow::new(Packet::Token(2).stream(), Packet::Token(2), to);
        let ns = &bottleneck.net.hosts[0].ns;
        let mut lost = 0;
        for round in 0..3 {
            Source::run(ns, vec![flow().burst(ROOM)])?;
            let [queued, over, longest] = class()?;
            ensure!(
                queued >= ROOM - 1 && over == lost && longest <= ROOM,
                "round {round}: {queued} queued, {over} dropped, {longest} at most"
            );
            std::thread::sleep(Duration::from_millis(200));
            let all = flow().packets_per_s(2.0 * PER_S);
            Source::run(ns, vec![all.window(Duration::ZERO, Duration::from_secs(1))])?;
            let [queued, over, _] = class()?;
            ctx.note(format!(
                "round {round}: {queued} queued, {} dropped",
                over - lost
            ));
            ensure!(
                (7..=10).contains(&queued),
                "{queued} queued, and the limit is 8"
            );
            ensure!((over - lost).abs_diff(770) < 20, "{} dropped", over - lost);
            lost = over;
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    Ok(())
}

/// Tokens at 90 % of their rate, 16 at a time: the default jitter sends them, and without it the
/// queue is too short.
fn bursts(ctx: &mut Ctx) -> Result<()> {
    const BURST: u64 = 16;
    const BURSTS: u64 = 40;
    let bottleneck = Bottleneck::new()?;
    // An interval of 1.2976 ms: a machine whose timers are late by some hundred us loses nothing.
    let period = Duration::from_nanos(BURST * 1_297_600 * 10 / 9);
    let mut parts = Vec::new();
    for (tool, words) in [
        (Tool::Tc, "link 10mbit jitter 0"),
        (Tool::Turnstile, "link 10mbit"),
    ] {
        let flows: Vec<_> = (0..BURSTS)
            .map(|number| {
                let from = period * u32::try_from(number).unwrap_or(0);
                let flow = bottleneck.flow(Packet::Token(0)).burst(BURST);
                flow.window(from, Duration::MAX)
            })
            .collect();
        bottleneck.port(tool, words)?;
        Source::run(&bottleneck.net.hosts[0].ns, flows)?;
        bottleneck.wait_for("1:10", BURST * BURSTS)?;
        std::thread::sleep(Duration::from_millis(300));
        let class = &bottleneck.classes()?["1:10"];
        class.check()?;
        ensure!(class.get("queued") == 0, "tokens are queued");
        parts.push(class.packets as f64 / (BURST * BURSTS) as f64);
        ctx.note(format!(
            "`{words}`: {} of {} tokens sent, {} queued at most, {} us the longest wait",
            class.packets,
            BURST * BURSTS,
            class.get("max-packets"),
            class.get("sojourn-max") / 1000
        ));
    }
    within("sent with jitter 0", parts[0], 0.3, 0.75)?;
    within("sent by default", parts[1], 0.99, 1.0)
}

/// The unscheduled band holds one packet: under overload almost all are dropped, on a link with
/// room all pass.
fn unscheduled_holds_one(ctx: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    let unscheduled = bottleneck.flow(Packet::Unscheduled).bits_per_s(0.3 * LINK);
    let flows = [
        unscheduled.clone(),
        bottleneck.flow(Packet::Data).bits_per_s(1.2 * LINK),
    ];
    let outcome = bottleneck.run(ctx, Tool::Turnstile, "link 1mbit", &flows, 3.0)?;
    let class = outcome.class("1:3")?;
    let busy = outcome.sent_part("1:3")?;
    ensure!(
        class.get("max-packets") == 1,
        "{} were queued at once",
        class.get("max-packets")
    );
    let idle = bottleneck
        .run(ctx, Tool::Tc, "link 1mbit", &[unscheduled], 2.0)?
        .sent_part("1:3")?;
    ctx.note(format!(
        "sent of what was offered: {busy:.3} under overload, {idle:.3} alone"
    ));
    within("unscheduled under overload", busy, 0.0, 0.06)?;
    // A sender that was held up sends two at once, and one of them is dropped.
    within("unscheduled alone", idle, 0.6, 1.0)
}

/// Without the band its packets are data.
fn unscheduled_off(ctx: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    let outcome = bottleneck.run(
        ctx,
        Tool::Tc,
        "link 1mbit unscheduled off",
        &[bottleneck.flow(Packet::Unscheduled).burst(30)],
        0.5,
    )?;
    ensure!(
        !outcome.classes.contains_key("1:3"),
        "the class is still there"
    );
    ensure!(
        outcome.class("1:2")?.packets == 30,
        "the data class sent {}",
        outcome.class("1:2")?.packets
    );
    Ok(())
}

/// No signal is lost or waits for more than what is on the wire, whatever else is offered.
fn signals_first(ctx: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    let outcome = bottleneck.run(
        ctx,
        Tool::Tc,
        "link 1mbit",
        &[
            bottleneck.flow(Packet::Signal).bits_per_s(0.02 * LINK),
            bottleneck.flow(Packet::Token(0)).bits_per_s(3.0 * GROUP),
            bottleneck.flow(Packet::Data).bits_per_s(1.2 * LINK),
            bottleneck.flow(Packet::Unscheduled).bits_per_s(0.2 * LINK),
        ],
        3.0,
    )?;
    let class = outcome.class("1:1")?;
    let mean = class.get("sojourn-mean") as f64;
    ctx.note(format!(
        "mean sojourn of signals {:.0} us, of data {:.0} us",
        mean / 1e3,
        outcome.class("1:2")?.get("sojourn-mean") as f64 / 1e3
    ));
    within("signals sent", outcome.sent_part("1:1")?, 1.0, 1.0)?;
    within("mean sojourn in data packets", mean / PACKET, 0.0, 1.5)
}

/// The data queue holds its limit in bytes.
fn data_limit(_: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    // One packet takes 1.2 s.
    bottleneck.port(Tool::Tc, "link 10kbit data-limit 20000")?;
    Source::run(
        &bottleneck.net.hosts[0].ns,
        vec![bottleneck.flow(Packet::Data).burst(60)],
    )?;
    bottleneck.wait_for("1:2", 60)?;
    let class = &bottleneck.classes()?["1:2"];
    class.check()?;
    // 13 x 1514 = 19682.
    ensure!(
        class.get("queued") == 13,
        "{} packets are queued in 20000 bytes",
        class.get("queued")
    );
    ensure!(
        class.get("max-bytes") <= 20000,
        "{} bytes were queued",
        class.get("max-bytes")
    );
    Ok(())
}

/// `change link` takes effect on the running port, in the middle of a load.
fn rate_changes_live(ctx: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    let flows = [
        bottleneck.flow(Packet::Data).bits_per_s(1.2 * LINK),
        bottleneck.flow(Packet::Token(0)).bits_per_s(1.5 * GROUP),
    ];
    let deep = "token-limit 1000 token-expiry off data-limit 10mb";
    for tool in Tool::ALL {
        let before = bottleneck.run(ctx, tool, &format!("link 500kbit {deep}"), &flows, 3.0)?;
        let change = |switch: &_, dev: &str| tool.port(switch, "change", dev, "link 1mbit");
        let after = bottleneck.run_with(
            ctx,
            tool,
            &format!("link 500kbit {deep}"),
            &flows,
            3.0,
            &change,
        )?;
        let ratio = |kind| after.steady_rate(kind) / before.steady_rate(kind);
        let (data, tokens) = (ratio(Packet::Data), ratio(Packet::Token(0)));
        ctx.note(format!(
            "{tool:?}: twice the link's rate multiplies data by {data:.3}, tokens by {tokens:.3}"
        ));
        within("data", data, 1.9, 2.1)?;
        within("tokens", tokens, 1.9, 2.1)?;
    }
    Ok(())
}

/// `change` drops only what no longer fits.
fn change_keeps(_: &mut Ctx) -> Result<()> {
    let bottleneck = Bottleneck::new()?;
    let (switch, dev) = (bottleneck.switch(), bottleneck.dev());
    for tool in Tool::ALL {
        // Nothing but the first token and the first data packet leaves while we look.
        bottleneck.port(
            tool,
            "link 10kbit tokens 1% token-limit 20 token-expiry off jitter 0 priorities 4",
        )?;
        Source::run(
            &bottleneck.net.hosts[0].ns,
            vec![
                bottleneck.flow(Packet::Data).burst(10),
                bottleneck.flow(Packet::Token(1)).burst(12),
                bottleneck.flow(Packet::Token(3)).burst(5),
            ],
        )?;
        for (class, count) in [("1:2", 10), ("1:11", 12), ("1:13", 5)] {
            bottleneck.wait_for(class, count)?;
        }
        let queued =
            |class: &str| -> Result<u64> { Ok(bottleneck.classes()?[class].get("queued")) };
        let (data, token1, token3) = (queued("1:2")?, queued("1:11")?, queued("1:13")?);
        ensure!(
            data >= 8 && token1 >= 10 && token3 >= 4,
            "queued only {data}, {token1}, {token3}"
        );
        tool.port(
            switch,
            "change",
            &dev,
            "mpu 100 order data-first token-limit 6",
        )?;
        let classes = bottleneck.classes()?;
        // One may have left meanwhile.
        ensure!(
            data - classes["1:2"].get("queued") <= 1,
            "data was dropped by a change of other things"
        );
        ensure!(
            classes["1:11"].get("queued") == 6,
            "{} tokens are left",
            classes["1:11"].get("queued")
        );
        let trimmed = classes["1:11"].get("trimmed");
        ensure!(
            (token1 - 7..=token1 - 6).contains(&trimmed),
            "{trimmed} of {token1} tokens trimmed"
        );
        ensure!(
            token3 - classes["1:13"].get("queued") <= 1,
            "a shorter queue was trimmed, too"
        );
        tool.port(switch, "change", &dev, "priorities 2")?;
        let classes = bottleneck.classes()?;
        ensure!(
            !classes.contains_key("1:12") && !classes.contains_key("1:13"),
            "classes of dropped priorities are there"
        );
        ensure!(
            classes["1:11"].get("queued") >= 5,
            "the second priority lost its tokens"
        );
    }
    Ok(())
}
