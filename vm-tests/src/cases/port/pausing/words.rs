// SPDX-License-Identifier: GPL-2.0
//! What may be said of pauses that a port sends, what is shown, and what is refused where.

use anyhow::{ensure, Result};
use serde_json::json;

use crate::harness::Ctx;
use crate::stats;
use crate::tool::Tool;
use crate::topology::Builder;

/// Both tools say and show all of it, and take what they show.
pub(super) fn options(_: &mut Ctx) -> Result<()> {
    let rows = [
        (
            "xoff auto",
            json!({"xoff": "auto", "xon": "auto", "headroom": "auto", "delay": 500,
                "alpha": "off"}),
            "xoff auto xon auto headroom auto delay 500ns alpha off",
        ),
        (
            "xoff 1 xon 0 headroom 0 delay 0",
            json!({"xoff": 1, "xon": 0, "headroom": 0, "delay": 0, "alpha": "off"}),
            "xoff 1b xon 0b headroom 0b delay 0ns alpha off",
        ),
        (
            "headroom 1gb xoff 1gb xon 1mb delay 10ms",
            json!({"xoff": 1 << 30, "xon": 1 << 20, "headroom": 1 << 30, "delay": 10_000_000,
                "alpha": "off"}),
            "xoff 1gb xon 1mb headroom 1gb delay 10ms alpha off",
        ),
        (
            "xoff auto alpha 1/8 buffer 12mb",
            json!({"xoff": "auto", "xon": "auto", "headroom": "auto", "delay": 500,
                "alpha": 0.125, "buffer": 12 << 20}),
            "delay 500ns alpha 1/8 buffer 12mb",
        ),
    ];
    for tool in Tool::ALL {
        for (words, shown, text) in &rows {
            let net = Builder::pair().build()?;
            let ns = &net.hosts[0].ns;
            let words = format!("unscheduled off pfc data 5 watchdog 1s {words}");
            tool.port(ns, "add", "eth0", &words)?;
            let mut expected = shown.clone();
            expected["data"] = json!("5");
            expected["watchdog"] = json!(1_000_000_000);
            let said = tool.show_json(ns, "eth0")?;
            ensure!(said["options"]["pfc"] == expected, "{words}: {said}");
            let said = tool.show(ns, "eth0")?;
            ensure!(said.contains("pfc data 5 watchdog 1s xoff"), "{said}");
            ensure!(said.contains(text), "{words}: {said}");
            // Of one that is on, parts may be changed; and it is turned off.
            tool.port(ns, "change", "eth0", "pfc delay 7us")?;
            let said = tool.show_json(ns, "eth0")?;
            ensure!(said["options"]["pfc"]["delay"] == 7000, "{said}");
            ensure!(said["options"]["pfc"]["xoff"] == expected["xoff"], "{said}");
            tool.port(ns, "change", "eth0", "pfc xoff off")?;
            let said = tool.show_json(ns, "eth0")?;
            let off = json!({"data": "5", "watchdog": 1_000_000_000, "xoff": "off"});
            ensure!(said["options"]["pfc"] == off, "{said}");
        }
    }
    Ok(())
}

/// What `auto` comes to is shown, and follows the link's rate, delay and MTU.
pub(super) fn headroom(_: &mut Ctx) -> Result<()> {
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let options = "link 1gbit unscheduled off jitter 0 pfc data 0 xoff auto delay 1us";
    Tool::Tc.port(ns, "add", "eth0", options)?;
    let shown = || -> Result<[u64; 3]> {
        let classes = stats::classes(ns, "eth0")?;
        Ok(["pfc-xoff", "pfc-xon", "pfc-headroom"].map(|key| classes["1:2"].get(key)))
    };
    // Three frames of 1542 bytes on the wire, the pause, two quanta, and 2 us.
    let room = 3 * 1542 + 84 + 128 + 250;
    ensure!(shown()? == [room + 2 * 1542, room, room], "{:?}", shown()?);
    Tool::Tc.port(ns, "change", "eth0", "pfc delay 3us")?;
    ensure!(shown()?[2] == room + 500, "{:?}", shown()?);
    Tool::Tc.port(ns, "change", "eth0", "jitter 10us")?;
    ensure!(shown()?[2] == room + 500 + 2500, "{:?}", shown()?);
    Tool::Tc.port(ns, "change", "eth0", "link 10gbit jitter 0")?;
    // 60 quanta at 10 Gbit/s.
    let room = 3 * 1542 + 84 + 60 * 64 + 7500;
    ensure!(shown()?[2] == room, "{:?}", shown()?);
    ns.ip("link set eth0 mtu 9000")?;
    // It is noted after the change.
    let longer = room + 3 * 7500;
    for _ in 0..100 {
        if shown()?[2] == longer {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    ensure!(shown()?[2] == longer, "{:?}", shown()?);
    // What is merged needs room for all of it.
    let merged = shown()?[2];
    ns.run("ethtool -K eth0 gro on")?;
    for _ in 0..100 {
        if shown()?[2] > merged {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let more = shown()?[2] - merged;
    // 64 KB in segments of 536 bytes, less the one frame of 9 KB that has room anyway.
    ensure!((71_000..72_500).contains(&more), "{more}");
    ensure!(shown()?[0] == merged + 2 * (1542 + 7500), "{:?}", shown()?);
    // Nobody knows how long a pause lasts on a link without a speed.
    ns.ip("link add dummy0 up type dummy")?;
    let options = "unscheduled off pfc data 0 xoff 10kb";
    Tool::Turnstile.port(ns, "add", "dummy0", options)?;
    let classes = stats::classes(ns, "dummy0")?;
    ensure!(
        classes["1:2"].get("pfc-xoff") == 0,
        "{}",
        classes["1:2"].json
    );
    Ok(())
}

/// Where pauses cannot work, or data would be dropped, that is said.
pub(super) fn refused(_: &mut Ctx) -> Result<()> {
    const ON: &str = "unscheduled off pfc data 0 xoff auto";
    let root = "root handle 1:";
    let net = Builder::pair().build()?;
    let ns = &net.hosts[0].ns;
    let check = |tool: Tool, verb, dev, place, words: &str, says: &[&str]| -> Result<()> {
        let said = tool.try_port(ns, verb, dev, place, words)?.failure()?;
        for part in says {
            ensure!(said.contains(part), "{tool:?} {verb} {words}: {said}");
        }
        Ok(())
    };
    for tool in Tool::ALL {
        for (words, says) in [
            (
                "pfc data 0 xoff auto",
                ["pfc xoff", "needs unscheduled off"],
            ),
            (
                "unscheduled off no-split-gso pfc data 0 xoff auto",
                ["pfc xoff", "not with no-split-gso"],
            ),
            (
                "unscheduled off pfc data 0 xoff 2kb xon 3kb",
                ["pfc xon: 3kb is above", "pfc xoff, 2kb"],
            ),
            ("pfc xoff auto", ["pfc xoff", "needs pfc data, too"]),
            ("pfc data 0 xon 5kb", ["pfc xon", "needs pfc xoff, too"]),
            ("pfc data 0 xoff 2gb", ["xoff", "1b..1gb, off or auto"]),
            ("pfc data 0 headroom 2gb", ["headroom", "0b..1gb or auto"]),
            ("pfc data 0 delay 11ms", ["delay", "0ns..10ms"]),
            ("pfc data 8", ["data", "0..7 or a list of them"]),
            (
                "pfc data 0 xoff off alpha 1 buffer 1mb",
                ["pfc alpha", "pfc xoff is off"],
            ),
            (
                "pfc data 0 alpha 1 buffer 1mb",
                ["pfc alpha", "needs pfc xoff, too"],
            ),
            (
                "pfc data 0 xoff auto alpha 1",
                ["pfc alpha", "needs pfc buffer, too"],
            ),
            (
                "pfc data 0 xoff auto alpha 9 buffer 1mb",
                ["alpha", "1/64..8 or off"],
            ),
            (
                "unscheduled off pfc data 0 xoff 9kb alpha 1 buffer 1mb",
                ["pfc alpha", "needs pfc xoff auto and xon auto"],
            ),
        ] {
            check(tool, "add", "eth0", root, words, &says)?;
        }
        // A child that may drop, either way round.
        tool.port(ns, "add", "eth0", ON)?;
        let said = ns.try_run("tc qdisc add dev eth0 parent 1:2 fq_codel")?;
        let said = said.failure()?;
        ensure!(said.contains("takes no child with pfc xoff"), "{said}");
        tool.port(ns, "change", "eth0", "pfc xoff off")?;
        ns.tc("qdisc add dev eth0 parent 1:2 fq_codel")?;
        let says = ["pfc xoff", "class :2 has a child qdisc"];
        check(tool, "change", "eth0", root, "pfc xoff auto", &says)?;
        ns.tc("qdisc del dev eth0 parent 1:2")?;
        tool.port(ns, "change", "eth0", "pfc xoff auto")?;
        tool.delete(ns, "eth0")?;
        // Below parents, which do not ask when nothing is queued.
        let says = ["pfc xoff", "only for a device's root qdisc"];
        for parent in ["prio", "drr"] {
            ns.tc(&format!("qdisc add dev eth0 root handle 9: {parent}"))?;
            if parent == "drr" {
                ns.tc("class add dev eth0 parent 9: classid 9:1 drr")?;
            }
            check(tool, "add", "eth0", "parent 9:1 handle 1:", ON, &says)?;
            ns.tc("qdisc del dev eth0 root")?;
        }
        check(tool, "add", "lo", root, ON, &["pfc xoff", "no Ethernet"])?;
    }
    Ok(())
}
