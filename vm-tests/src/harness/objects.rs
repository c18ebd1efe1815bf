// SPDX-License-Identifier: GPL-2.0
//! Counts the kernel's objects: what was lost speaks in no log.
//!
//! After every case the harness compares the counts with those before it. A test of many cycles
//! compares by itself, and more strictly: whatever is lost in each cycle shows as at least one
//! object per cycle.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};

use super::case::Ctx;
use crate::clock;

/// Objects of a cache that a case may leave behind: the kernel keeps a few of everything that it
/// has once used.
const KEPT: u64 = 48;
/// The same for the general caches where the machine's own work goes on beside the case: they are
/// everyone's.
const KEPT_BY_ALL: u64 = 200;
/// Objects of a general cache that a module keeps while it is loaded, for its files in sysfs above
/// all. Some 20 were seen.
const KEPT_BY_MODULE: u64 = 64;
/// Packets that each processor keeps at hand where several take turns (NAPI_SKB_CACHE_SIZE in
/// net/core/skbuff.c, and room for it to grow): which of them a case runs on, and so what it fills,
/// is chance.
const KEPT_BY_CPU: u64 = 128;
/// How often a number that is too high is looked at again: RCU frees in batches, some seconds
/// later.
const PATIENT: u32 = 8;
/// How long the kernel tries to send what closed TCP connections have left (`tcp_orphan_retries`:
/// 8 times, the last one two minutes after the first). In virtual time it costs nothing to wait.
const ORPHANS: Duration = Duration::from_secs(200);
/// How often they are counted until what was freed is gone.
const PAUSE: Duration = Duration::from_millis(100);

/// Caches that a qdisc, its packets, filters and the modules' own data come from. (Those with `cg`
/// are for what counts to memory cgroups, as the transport's sockets and tables do.)
fn matters(name: &str) -> bool {
    name.starts_with("skbuff") || name.starts_with("kmalloc-")
}

/// Objects that a case has left behind.
#[derive(Debug)]
pub(super) struct Lost {
    /// Of which caches, and how many there were before and after.
    pub(super) what: String,
    /// How many of the one of which most were left.
    pub(super) most: u64,
}

/// How many objects are in use, by cache, and what memory is free.
#[derive(Debug)]
pub struct Objects {
    counts: BTreeMap<String, u64>,
    available_kb: u64,
    /// Modules that are loaded.
    modules: u64,
}

impl Objects {
    /// Looks until the numbers no longer fall: what is freed after a grace period, or kept for a
    /// while by a processor, is not lost.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn settled() -> Result<Self> {
        let mut best = Self::now()?;
        let mut quiet = 0;
        for _ in 0..40 {
            if quiet == 4 {
                break;
            }
            std::thread::sleep(Duration::from_millis(150));
            let now = Self::now()?;
            let mut fell = false;
            for (name, count) in now.counts {
                let lowest = best.counts.entry(name).or_insert(count);
                // A few come and go all the time.
                fell |= count + 8 < *lowest;
                *lowest = count.min(*lowest);
            }
            best.available_kb = best.available_kb.max(now.available_kb);
            quiet = if fell { 0 } else { quiet + 1 };
        }
        Ok(best)
    }

    /// Looks, as it is now.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(super) fn now() -> Result<Self> {
        let counts = Self::counts()?;
        let meminfo = std::fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
        let available_kb = meminfo
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .context("no MemAvailable")?;
        Ok(Self {
            counts,
            available_kb,
            modules: modules()?,
        })
    }

    fn counts() -> Result<BTreeMap<String, u64>> {
        shrink()?;
        let table = std::fs::read_to_string("/proc/slabinfo").context("reading /proc/slabinfo")?;
        let mut counts = BTreeMap::new();
        // name active_objs num_objs …, after two lines of heading.
        for line in table.lines().skip(2) {
            let mut words = line.split_whitespace();
            let (Some(name), Some(active)) = (words.next(), words.next()) else {
                continue;
            };
            if !matters(name) {
                continue;
            }
            let active: u64 = active.parse().context("a count in /proc/slabinfo")?;
            counts.insert(name.to_owned(), active);
        }
        ensure!(
            counts.keys().any(|name| name.starts_with("skbuff_head")),
            "no packets among the caches: {:?}",
            counts.keys()
        );
        Ok(counts)
    }

    /// What there is more of than at `self`'s time, once it has had time to go; `None` if no more
    /// than the kernel keeps.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(super) fn growth(&self, patience: Duration) -> Result<Option<Lost>> {
        let begin = Instant::now();
        // A TCP connection that was closed with bytes to send, and whose peer is gone with its
        // namespace, keeps them until it has tried long enough.
        let longest = match clock::is_simulated() {
            true => patience.max(ORPHANS),
            false => patience,
        };
        let loaded = modules()?.saturating_sub(self.modules);
        loop {
            let (mut grown, mut most) = (Vec::new(), 0);
            for (name, now) in Self::counts()? {
                let before = self.counts.get(&name).copied().unwrap_or(0);
                if now > before + kept(&name, loaded) {
                    grown.push(format!("{name} {before} -> {now}"));
                    most = most.max(now - before);
                }
            }
            if grown.is_empty() {
                return Ok(None);
            }
            if begin.elapsed() >= longest {
                return Ok(Some(Lost {
                    what: format!("lost objects: {}", grown.join(", ")),
                    most,
                }));
            }
            std::thread::sleep(match begin.elapsed() < patience {
                true => PAUSE,
                false => 10 * PAUSE,
            });
        }
    }

    /// By how many objects the cache that grew most has grown.
    fn most_grown(&self, after: &Self) -> u64 {
        let grown = after.counts.iter().map(|(name, count)| {
            let before = self.counts.get(name).copied().unwrap_or(0);
            count.saturating_sub(before)
        });
        grown.max().unwrap_or(0)
    }

    /// Compares with now, after so many cycles.
    ///
    /// # Errors
    /// There is more of something.
    pub fn compare(&self, ctx: &Ctx, cycles: u32) -> Result<()> {
        /// Processors keep free pages for themselves, some MiB of them: this is for what is lost in
        /// large pieces.
        const SLACK_KB: u64 = 16 << 10;
        // One lost object in ten cycles would show, if there are many.
        let allowed = u64::from(cycles / 10).max(20);
        let mut after = Self::settled()?;
        for _ in 0..PATIENT {
            if self.most_grown(&after) <= allowed {
                break;
            }
            std::thread::sleep(PAUSE);
            after = Self::settled()?;
        }
        let mut grown: Vec<_> = after
            .counts
            .iter()
            .map(|(name, count)| {
                let before = self.counts.get(name).copied().unwrap_or(0);
                (count.saturating_sub(before), name, before, *count)
            })
            .collect();
        grown.sort_unstable_by(|a, b| b.cmp(a));
        let most: Vec<_> = grown
            .iter()
            .take(3)
            .map(|(_, name, before, after)| format!("{name} {before} -> {after}"))
            .collect();
        ctx.note(format!(
            "after {cycles} cycles: {}; available {} -> {} KiB",
            most.join(", "),
            self.available_kb,
            after.available_kb
        ));
        let lost: Vec<_> = grown
            .iter()
            .filter(|(growth, ..)| *growth > allowed)
            .map(|(growth, name, ..)| format!("{growth} objects of {name}"))
            .collect();
        ensure!(
            lost.is_empty(),
            "after {cycles} cycles there are more: {}",
            lost.join(", ")
        );
        ensure!(
            after.available_kb + SLACK_KB >= self.available_kb,
            "available memory fell from {} to {} KiB",
            self.available_kb,
            after.available_kb
        );
        Ok(())
    }
}

/// How many objects of a cache may be left behind by a case during which so many modules were
/// `loaded`.
fn kept(cache: &str, loaded: u64) -> u64 {
    let general = cache.starts_with("kmalloc-");
    let own = match (clock::is_simulated(), general) {
        (true, _) => KEPT,
        (false, true) => KEPT_BY_ALL,
        (false, false) => {
            let cpus = std::thread::available_parallelism().map_or(1, usize::from);
            KEPT + KEPT_BY_CPU * cpus as u64
        }
    };
    if general {
        own + KEPT_BY_MODULE * loaded
    } else {
        own
    }
}

/// How many modules are loaded.
fn modules() -> Result<u64> {
    let table = std::fs::read_to_string("/proc/modules").context("reading /proc/modules")?;
    Ok(table.lines().count() as u64)
}

/// Has the caches give back what is empty, and what processors and KASAN keep for themselves: only
/// then the numbers are exact.
fn shrink() -> Result<()> {
    // Kept open: each opening leaves an object of kmalloc-64 behind for a grace period, and there
    // are dozens of caches. Counting must not change what it counts.
    static FILES: OnceLock<Vec<File>> = OnceLock::new();
    for mut file in FILES.get_or_init(shrink_files) {
        file.write_all(b"1").context("shrinking a cache")?;
    }
    Ok(())
}

/// The files that make a cache shrink, where the kernel has them.
fn shrink_files() -> Vec<File> {
    let caches = std::fs::read_dir("/sys/kernel/slab");
    caches
        .into_iter()
        .flatten()
        .flatten()
        .filter(|cache| matters(&cache.file_name().to_string_lossy()))
        .filter_map(|cache| {
            let file = cache.path().join("shrink");
            OpenOptions::new().write(true).open(file).ok()
        })
        .collect()
}
