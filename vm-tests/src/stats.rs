// SPDX-License-Identifier: GPL-2.0
//! Reads what `tc -s -j` says of a port and its classes.

use std::collections::BTreeMap;

use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;

use crate::netns::Netns;

/// Why a class drops, as its statistics name it.
pub const DROP_CAUSES: &[&str] = &[
    "over-limit",
    "expired",
    "trimmed",
    "purged",
    "stormed",
    "child",
];

/// The counters of one qdisc or class.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// `1:` of a qdisc, `1:10` of a class.
    pub handle: String,
    /// Sent packets, as tc counts them.
    pub packets: u64,
    /// Sent bytes.
    pub bytes: u64,
    /// Drops of all causes, as tc counts them.
    pub drops: u64,
    /// Packets in the queue.
    pub qlen: u64,
    /// Bytes in the queue.
    pub backlog: u64,
    /// All other numbers by their keys: `offered-packets`, `token-waits`, …
    pub extra: BTreeMap<String, u64>,
    /// All of it.
    pub json: Value,
}

impl Counters {
    fn parse(json: &Value) -> Result<Self> {
        let mut numbers = BTreeMap::new();
        collect(json, &mut numbers);
        let mut take = |key: &str| numbers.remove(key).unwrap_or(0);
        let (packets, bytes, drops) = (take("packets"), take("bytes"), take("drops"));
        let (qlen, backlog) = (take("qlen"), take("backlog"));
        let handle = json["handle"].as_str().context("no handle")?.to_owned();
        Ok(Self {
            handle,
            packets,
            bytes,
            drops,
            qlen,
            backlog,
            extra: numbers,
            json: json.clone(),
        })
    }

    /// A number by its key; 0 when tc does not print it.
    pub fn get(&self, key: &str) -> u64 {
        self.extra.get(key).copied().unwrap_or(0)
    }

    /// All drops by cause. A key that is not printed counts 0.
    pub fn drops_by_cause(&self) -> u64 {
        DROP_CAUSES.iter().map(|cause| self.get(cause)).sum()
    }

    /// Whether every packet that was offered is accounted for.
    ///
    /// # Errors
    /// With the figures, when it is not.
    pub fn check(&self) -> Result<()> {
        let (offered, queued) = (self.get("offered-packets"), self.get("queued"));
        ensure!(
            offered == self.packets + queued + self.drops_by_cause(),
            "class {}: offered {offered} != sent {} + queued {queued} + drops {}: {}",
            self.handle,
            self.packets,
            self.drops_by_cause(),
            self.json
        );
        Ok(())
    }
}

/// All whole numbers, wherever they are nested. The `options` of a qdisc are not statistics.
fn collect(json: &Value, numbers: &mut BTreeMap<String, u64>) {
    let Value::Object(members) = json else { return };
    for (key, value) in members {
        if let Some(number) = value.as_u64() {
            numbers.insert(key.clone(), number);
        } else if key != "options" {
            collect(value, numbers);
        }
    }
}

/// The statistics of all qdiscs of a device, as listed.
///
/// # Errors
/// When tc fails or prints something else.
pub fn qdiscs(ns: &Netns, dev: &str) -> Result<Vec<Counters>> {
    let list = ns.tc_json(&format!("-s qdisc show dev {dev}"))?;
    list.as_array()
        .context("tc printed no list")?
        .iter()
        .map(Counters::parse)
        .collect()
}

/// The statistics of one qdisc.
///
/// # Errors
/// As [`qdiscs`], and when there is no qdisc of that handle (`1:`).
pub fn qdisc(ns: &Netns, dev: &str, handle: &str) -> Result<Counters> {
    match qdiscs(ns, dev)?
        .into_iter()
        .find(|qdisc| qdisc.handle == handle)
    {
        Some(qdisc) => Ok(qdisc),
        None => bail!("no qdisc {handle} on {dev}"),
    }
}

/// The statistics of all classes of a device by their ids.
///
/// # Errors
/// When tc fails or prints something else.
pub fn classes(ns: &Netns, dev: &str) -> Result<BTreeMap<String, Counters>> {
    let list = ns.tc_json(&format!("-s class show dev {dev}"))?;
    let classes = list
        .as_array()
        .context("tc printed no list")?
        .iter()
        .map(Counters::parse);
    classes
        .map(|class| class.map(|class| (class.handle.clone(), class)))
        .collect()
}

/// Checks the port `handle` (`1:`) of a device and all of its classes: in every class, and in
/// their sum, what was offered was sent, is queued, or was dropped for a named cause.
///
/// A port and its classes are told in two answers. Should a packet come between them, as the
/// kernel's own do when a link comes up, they are asked for again.
///
/// # Errors
/// Naming the first sum that does not hold.
pub fn check_port(ns: &Netns, dev: &str, handle: &str) -> Result<()> {
    let (sent, of_classes) = sent(ns, dev, handle)?;
    ensure!(
        sent == of_classes,
        "port sent {sent}, its classes {of_classes}"
    );
    Ok(())
}

/// [`check_port`] where tokens stood for several packets: for its class such a token is so many,
/// and one for the port and its parents.
///
/// # Errors
/// Naming the first sum that does not hold.
pub fn check_port_of_trains(ns: &Netns, dev: &str, handle: &str) -> Result<()> {
    let (sent, of_classes) = sent(ns, dev, handle)?;
    ensure!(
        sent <= of_classes,
        "port sent {sent}, its classes only {of_classes}"
    );
    Ok(())
}

/// How many packets a port sent, and its classes, of which all other sums hold.
fn sent(ns: &Netns, dev: &str, handle: &str) -> Result<(u64, u64)> {
    const TRIES: u32 = 20;
    let mut port = qdisc(ns, dev, handle)?;
    let mut tries = 0;
    let classes = loop {
        let classes = classes(ns, dev)?;
        let again = qdisc(ns, dev, handle)?;
        if (again.packets, again.qlen) == (port.packets, port.qlen) || tries == TRIES {
            break classes;
        }
        port = again;
        tries += 1;
    };
    let mine: Vec<_> = classes
        .values()
        .filter(|class| class.handle.starts_with(handle))
        .collect();
    ensure!(!mine.is_empty(), "port {handle} of {dev} lists no classes");
    for class in &mine {
        class.check()?;
    }
    let sum = |field: fn(&Counters) -> u64| mine.iter().map(|class| field(class)).sum::<u64>();
    ensure!(
        port.qlen == sum(|class| class.get("queued")),
        "port holds {}, its classes {}",
        port.qlen,
        sum(|class| class.get("queued"))
    );
    Ok((port.packets, sum(|class| class.packets)))
}
