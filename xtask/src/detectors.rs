// SPDX-License-Identifier: GPL-2.0
//! Plants faults in a guest and sees that each is noticed: a detector that was never seen to work
//! may be off.
//!
//! The cases are `vm-tests/src/planted.rs`, the kernel modules `beds/faults/`. They run in boots of
//! their own, in which the guest's verdict must be "failed, for this reason", and the scan of the
//! kernel's log must find what the kernel said.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::bed::Bed;
use crate::env::Env;
use crate::guest::{Guest, Limits, Outcome, Watcher};
use crate::log_scan::complaint;
use crate::report::Report;
use crate::session::{Built, Session};
use turnstile_test_protocol::event::Event;
use turnstile_test_protocol::run::{Mode, RunConfig};

/// Where a fault can be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Everywhere,
    /// By a kernel with detectors.
    Detectors,
    /// Only with a simulated clock is it a fault of its own kind.
    Simulated,
}

impl Where {
    fn holds(self, bed: Bed) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Detectors => bed.has_detectors(),
            Self::Simulated => bed.is_simulated(),
        }
    }
}

/// Who has to notice, and how.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// Nothing is wrong: the case must pass.
    None,
    /// The case fails, and its reason contains this.
    Reason(&'static str),
    /// The case fails, and its reason as well as a line of the kernel's log contains this.
    Log(&'static str),
    /// The machine ends during the case, and one of the kernel's last lines contains one of these.
    Panic(&'static [&'static str]),
    /// The host ends the guest during the case, because it says nothing any more.
    Silence,
}

/// One fault.
#[derive(Clone, Copy, Debug)]
struct Fault {
    /// The case, below `planted/`.
    name: &'static str,
    place: Where,
    sign: Sign,
}

const fn fault(name: &'static str, place: Where, sign: Sign) -> Fault {
    Fault { name, place, sign }
}

/// All faults that leave the machine running, in the order of the cases: they share a boot. Then
/// those that end it.
const FAULTS: &[Fault] = &[
    fault("nothing", Where::Everywhere, Sign::None),
    fault("error", Where::Everywhere, Sign::Reason("planted")),
    fault(
        "panic",
        Where::Everywhere,
        Sign::Reason("panicked: planted"),
    ),
    fault("hang", Where::Everywhere, Sign::Reason("not done after")),
    fault(
        "process",
        Where::Everywhere,
        Sign::Reason("left processes running: sleep"),
    ),
    fault(
        "namespace",
        Where::Everywhere,
        Sign::Reason("left behind: Usage"),
    ),
    fault(
        "module-in-use",
        Where::Everywhere,
        Sign::Reason("1 to sch_turnstile"),
    ),
    fault("rcu", Where::Detectors, Sign::Log("suspicious RCU usage")),
    fault(
        "atomic-sleep",
        Where::Detectors,
        Sign::Log("sleeping function called from invalid context"),
    ),
    fault("warn", Where::Everywhere, Sign::Log("WARNING:")),
    fault("active-timer", Where::Detectors, Sign::Log("WARNING:")),
    fault(
        "lock-order",
        Where::Detectors,
        Sign::Log("possible circular locking dependency detected"),
    ),
    fault(
        "use-after-free",
        Where::Detectors,
        Sign::Log("KASAN: slab-use-after-free"),
    ),
    fault(
        "out-of-bounds",
        Where::Detectors,
        Sign::Log("KASAN: slab-out-of-bounds"),
    ),
    fault("leak", Where::Everywhere, Sign::Reason("lost objects: ")),
    fault(
        "bug",
        Where::Everywhere,
        Sign::Panic(&["kernel BUG at", "BUG: failure at"]),
    ),
    fault("spin", Where::Simulated, Sign::Silence),
];

/// How long the boots may take.
const LIMITS: Limits = Limits {
    overall: Duration::from_secs(10 * 60),
    silence: Duration::from_secs(3 * 60),
};
/// How long a guest that says nothing is left alone here. It boots in a second.
const SILENCE: Duration = Duration::from_secs(20);

/// Plants all faults that can be noticed on the session's bed; a case of `report` each.
///
/// # Errors
/// The guest cannot be booted.
pub(crate) fn run(
    env: &Env,
    session: &Session,
    built: &Built,
    timeout_scale: f64,
    report: &Report,
) -> Result<()> {
    let bed = session.tree.bed;
    let (stops, shared): (Vec<&Fault>, Vec<&Fault>) = FAULTS
        .iter()
        .filter(|fault| fault.place.holds(bed))
        .partition(|fault| matches!(fault.sign, Sign::Silence));
    for faults in [shared, stops] {
        if faults.is_empty() {
            continue;
        }
        let names: Vec<String> = faults
            .iter()
            .map(|f| format!("planted/{}", f.name))
            .collect();
        let config = RunConfig {
            mode: Mode::Planted,
            filter: names.join(","),
            seed: 1,
            timeout_scale,
            ..RunConfig::default()
        };
        let silent = matches!(faults[0].sign, Sign::Silence);
        let limits = Limits {
            silence: if silent { SILENCE } else { LIMITS.silence },
            ..LIMITS
        };
        let began = Instant::now();
        let seen = session.boot(env, built, &config, |guest| watch(env, guest, limits))?;
        for fault in faults {
            let verdict = seen.judge(fault);
            let name = format!("{bed}: detectors/{}", fault.name);
            match verdict {
                Ok(()) => report.passed(&name, began.elapsed(), 1),
                Err(why) => report.failed(&name, began.elapsed(), 1, &why),
            }
        }
    }
    Ok(())
}

/// What was seen of a boot.
#[derive(Debug, Default)]
struct Seen {
    /// Why each case failed; `None`: it passed.
    ended: HashMap<String, Option<String>>,
    /// The case that began last.
    last: String,
    /// Lines that the scan of the log finds, by the case during which they were written.
    complaints: HashMap<String, Vec<String>>,
    /// Why the guest ended, if not by itself.
    died: Option<String>,
}

impl Seen {
    /// Whether the fault was noticed as it should be; if not, what was seen instead.
    fn judge(&self, fault: &Fault) -> Result<(), String> {
        let case = format!("planted/{}", fault.name);
        let complaints = self.complaints.get(&case).map_or(&[][..], Vec::as_slice);
        let ended = self.ended.get(&case);
        let reason = ended.and_then(Option::as_deref);
        let fine = match fault.sign {
            Sign::None => ended == Some(&None) && complaints.is_empty(),
            Sign::Reason(part) => reason.is_some_and(|why| why.contains(part)),
            Sign::Log(part) => {
                reason.is_some_and(|why| why.contains(part))
                    && complaints.iter().any(|line| line.contains(part))
            }
            Sign::Panic(parts) => {
                self.last == case
                    && self.died.is_some()
                    && complaints
                        .iter()
                        .any(|line| parts.iter().any(|part| line.contains(part)))
            }
            Sign::Silence => {
                self.last == case && self.died.as_ref().is_some_and(|why| why.contains("silent"))
            }
        };
        if fine {
            return Ok(());
        }
        Err(format!(
            "expected {:?}; the case ended {ended:?}, the log said {complaints:?}, the guest died: \
             {:?}",
            fault.sign, self.died
        ))
    }
}

impl Watcher for Seen {
    fn event(&mut self, event: Event) {
        match event {
            Event::Start { case } => self.last = case,
            Event::Pass { case, .. } => drop(self.ended.insert(case, None)),
            Event::Fail { case, why, .. } => drop(self.ended.insert(case, Some(why))),
            _ => {}
        }
    }

    // The log is read as a whole afterwards: the two serial ports do not tell what came first.
    fn complaint(&mut self, _: &str) {}

    fn tick(&mut self) {}
}

/// Sorts the complaints of a log by the case during which they were written, as the guest's own
/// lines tell.
fn by_case(log: &str) -> HashMap<String, Vec<String>> {
    let mut case = "";
    let mut sorted: HashMap<String, Vec<String>> = HashMap::new();
    for line in log.lines() {
        if let Some((_, name)) = line.split_once("start planted/") {
            case = name.trim();
        } else if complaint(line).is_some() {
            sorted
                .entry(format!("planted/{case}"))
                .or_default()
                .push(line.to_owned());
        }
    }
    sorted
}

fn watch(env: &Env, guest: &Guest<'_>, limits: Limits) -> Result<Seen> {
    let mut seen = Seen::default();
    let Outcome { died, .. } = guest.run(limits, &mut seen)?;
    seen.died = died;
    let text = std::fs::read(guest.console_path()).context("cannot read the guest's log")?;
    seen.complaints = by_case(&String::from_utf8_lossy(&text));
    let log = env
        .cache
        .logs()
        .join(format!("guest-{}-planted.log", guest.tree.bed));
    std::fs::write(&log, &text).with_context(|| format!("cannot write {}", log.display()))?;
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> &'static Fault {
        FAULTS.iter().find(|f| f.name == name).unwrap()
    }

    #[test]
    fn a_fault_that_nobody_notices_is_told() {
        let mut seen = Seen::default();
        for fault in FAULTS {
            let case = format!("planted/{}", fault.name);
            seen.event(Event::Start { case: case.clone() });
            seen.event(Event::Pass { case, ms: 1 });
        }
        for fault in FAULTS {
            let noticed = seen.judge(fault).is_ok();
            assert_eq!(noticed, matches!(fault.sign, Sign::None), "{}", fault.name);
        }
    }

    #[test]
    fn a_report_counts_only_if_the_guest_and_the_host_have_seen_it() {
        let case = "planted/warn".to_owned();
        let mut seen = Seen::default();
        seen.event(Event::Start { case: case.clone() });
        seen.event(Event::Fail {
            case,
            ms: 1,
            why: "the kernel complained: WARNING: x".into(),
        });
        assert!(seen.judge(of("warn")).is_err());
        seen.complaints =
            by_case("start planted/rcu\nstart planted/warn\r\n[    1.000000] WARNING: x\n");
        assert!(seen.judge(of("warn")).is_ok());
    }

    #[test]
    fn a_machine_that_ends_must_have_said_why() {
        let mut seen = Seen::default();
        seen.event(Event::Start {
            case: "planted/bug".into(),
        });
        seen.died = Some("its kernel stopped".into());
        assert!(seen.judge(of("bug")).is_err());
        seen.complaints = by_case("start planted/bug\nkernel BUG at rust/helpers/bug.c:7!\n");
        assert!(seen.judge(of("bug")).is_ok());
    }
}
