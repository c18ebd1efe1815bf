// SPDX-License-Identifier: GPL-2.0
//! What a healthy kernel does not say: one list for the guest, which reads the kernel's records one
//! by one while cases run, and for the host (`xtask`, which includes this file), which reads the
//! whole console afterwards.

/// What to look for.
pub(crate) struct Pattern {
    pub(crate) text: &'static str,
    /// Counts only on a line that the kernel wrote: the word is an ordinary one in a program's
    /// output.
    pub(crate) kernel_only: bool,
}

const fn any(text: &'static str) -> Pattern {
    Pattern {
        text,
        kernel_only: false,
    }
}

const fn kernel(text: &'static str) -> Pattern {
    Pattern {
        text,
        kernel_only: true,
    }
}

pub(crate) const PATTERNS: &[Pattern] = &[
    kernel("WARNING:"),
    any("BUG:"),
    any("Oops"),
    any("kernel BUG at"),
    any("Kernel panic"),
    any("rust_kernel: panicked"),
    any("------------[ cut here ]------------"),
    any("KASAN"),
    any("KCSAN"),
    any("UBSAN"),
    any("general protection fault"),
    any("unable to handle"),
    any("Call Trace"),
    any("scheduling while atomic"),
    any("sleeping function called from invalid context"),
    any("unregister_netdevice: waiting"),
    any("rcu: INFO"),
    any("INFO: rcu"),
    any("rcu_sched self-detected"),
    any("detected stalls on CPUs"),
    any("detected expedited stalls"),
    any("suspicious RCU usage"),
    any("soft lockup"),
    any("hard LOCKUP"),
    any("INFO: task"),
    any("blocked for more than"),
    any("list_add corruption"),
    any("list_del corruption"),
    any("Out of memory:"),
    any("invoked oom-killer"),
    any("page allocation failure"),
    any("Tainted: G      D"),
    kernel("INFO: trying to register non-static key"),
    kernel("refcount_t:"),
    kernel("leak"),
    kernel("segfault at"),
    kernel("Unknown symbol"),
    kernel("disagrees about version of symbol"),
];

/// Parts of lines that match a pattern and mean nothing: the kernel's remarks about the (emulated)
/// processor.
const HARMLESS: &[&str] = &[
    "RETBleed: WARNING",
    "Spectre V2 : WARNING",
    "leaves CPU vulnerable",
    "data leaks possible",
    "Vulnerable: ",
];

/// What a line complains of, if anything. `by_kernel`: the part of it that the kernel wrote, if
/// any.
pub(crate) fn complaint(line: &str, by_kernel: Option<&str>) -> Option<&'static str> {
    if HARMLESS.iter().any(|part| line.contains(part)) {
        return None;
    }
    PATTERNS
        .iter()
        .find(|p| {
            if p.kernel_only {
                by_kernel.is_some_and(|text| text.contains(p.text))
            } else {
                line.contains(p.text)
            }
        })
        .map(|p| p.text)
        .or_else(|| {
            // Lockdep: "possible irq lock inversion dependency detected" and its kin.
            let text = by_kernel?;
            (text.contains("possible ") && text.contains("detected"))
                .then_some("possible … detected")
        })
}

/// What the kernel says before the trace of an allocation that fails because a test wants it to
/// (`/proc/self/fail-nth`).
pub(crate) const INJECTED: &str = "FAULT_INJECTION: forcing a failure";
/// Lines after it in which such a trace, and what is said of the failure, mean nothing. A fault
/// that shows meanwhile has a line of its own that says what it is.
const TRACE: u32 = 100;
/// What they are known by.
const OF_INJECTED: &[&str] = &["Call Trace", "page allocation failure"];

/// Reads a log from line to line.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// How many lines may still belong to a failure that was wanted.
    injected: u32,
}

impl Reader {
    /// As [`complaint`], of the next line.
    pub(crate) fn complaint(
        &mut self,
        line: &str,
        by_kernel: Option<&str>,
    ) -> Option<&'static str> {
        if line.contains(INJECTED) {
            self.injected = TRACE;
            return None;
        }
        let wanted = self.injected > 0;
        self.injected = self.injected.saturating_sub(1);
        complaint(line, by_kernel).filter(|what| !(wanted && OF_INJECTED.contains(what)))
    }
}

/// One planted message per complaint, as real kernels write them.
#[cfg(test)]
pub(crate) const PLANTED: &[&str] = &[
    "WARNING: CPU: 1 PID: 77 at net/sched/sch_generic.c:530 dev_watchdog+0x1",
    "WARNING: net/core/skbuff.c:1234 at skb_release+0x3, CPU#0: tc/99",
    "BUG: kernel NULL pointer dereference, address: 0000000000000010",
    "BUG: unable to handle page fault for address: ffff",
    "Oops: 0002 [#1] SMP NOPTI",
    "Oops: general protection fault, probably for non-canonical address",
    "kernel BUG at rust/helpers/bug.c:7!",
    "rust_kernel: panicked at core/src/port.rs:10:5:",
    "------------[ cut here ]------------",
    "BUG: KASAN: slab-use-after-free in turnstile_dequeue+0x1/0x2",
    "UBSAN: array-index-out-of-bounds in x.c:1:2",
    "Call Trace:",
    "BUG: scheduling while atomic: tc/99/0x00000201",
    "BUG: sleeping function called from invalid context at mm/slab.h:1",
    "WARNING: possible circular locking dependency detected",
    "WARNING: possible recursive locking detected",
    "WARNING: inconsistent lock state",
    "WARNING: suspicious RCU usage",
    "INFO: possible irq lock inversion dependency detected",
    "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
    "rcu: INFO: rcu_sched self-detected stall on CPU",
    "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [tc:99]",
    "INFO: task tc:99 blocked for more than 120 seconds.",
    "unregister_netdevice: waiting for veth0 to become free. Usage count = 2",
    "refcount_t: underflow; use-after-free.",
    "list_del corruption, ffff->next is LIST_POISON1",
    "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
    "Kernel panic - not syncing: Fatal exception in interrupt",
    "Out of memory: Killed process 99 (vm-tests)",
    "tc: page allocation failure: order:4",
    "vm-tests[99]: segfault at 0 ip 0000 sp 0000 error 4",
    "sch_turnstile: Unknown symbol foo (err -2)",
    "sch_turnstile: disagrees about version of symbol module_layout",
    "BUG: KCSAN: data-race in turnstile_enqueue / turnstile_dequeue",
    "watchdog: Watchdog detected hard LOCKUP on cpu 1",
    "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-... }",
    "list_add corruption. prev->next should be next",
    "tc invoked oom-killer: gfp_mask=0x40cc0(GFP_KERNEL|__GFP_COMP)",
    "INFO: trying to register non-static key.",
    "INFO: rcu_tasks detected stalls on tasks:",
    "CPU: 0 UID: 0 PID: 99 Comm: tc Tainted: G      D    OE       7.2.12 #1",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_has_a_planted_complaint() {
        for pattern in PATTERNS {
            let planted = PLANTED.iter().any(|line| line.contains(pattern.text));
            assert!(planted, "none planted for {}", pattern.text);
        }
    }

    #[test]
    fn every_planted_complaint_is_found() {
        for line in PLANTED {
            assert!(complaint(line, Some(line)).is_some(), "missed: {line}");
        }
    }

    #[test]
    fn a_failure_that_a_test_wants_is_no_complaint_and_hides_none() {
        let mut reader = Reader::default();
        let mut read = |line: &'static str| reader.complaint(line, Some(line));
        assert_eq!(read("FAULT_INJECTION: forcing a failure."), None);
        assert_eq!(read("name failslab, interval 1, probability 0"), None);
        assert_eq!(read("Call Trace:"), None);
        assert_eq!(read("vm-tests: page allocation failure: order:1"), None);
        assert!(read("BUG: KASAN: slab-use-after-free in x+0x1/0x2").is_some());
        for _ in 0..TRACE {
            assert_eq!(read(" [<60a1b2c3>] ? kmalloc+0x1/0x2"), None);
        }
        assert!(read("Call Trace:").is_some());
    }
}
