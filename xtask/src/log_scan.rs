// SPDX-License-Identifier: GPL-2.0
//! Finds the kernel's complaints in the guest's console log.

/// What to look for, and what it means.
struct Pattern {
    text: &'static str,
    /// Counts only on a line that the kernel wrote: the word is an ordinary one in a program's output.
    kernel_only: bool,
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

const PATTERNS: &[Pattern] = &[
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
    any("rcu_sched self-detected"),
    any("detected stalls on CPUs"),
    any("detected expedited stalls"),
    any("suspicious RCU usage"),
    any("soft lockup"),
    any("hard LOCKUP"),
    any("blocked for more than"),
    any("list_add corruption"),
    any("list_del corruption"),
    any("Out of memory:"),
    any("invoked oom-killer"),
    any("page allocation failure"),
    kernel("INFO: trying to register non-static key"),
    kernel("refcount_t:"),
    kernel("leak"),
    kernel("segfault at"),
    kernel("Unknown symbol"),
    kernel("disagrees about version of symbol"),
];

/// Parts of lines that match a pattern and mean nothing: the kernel's remarks about the (emulated) processor.
const HARMLESS: &[&str] = &[
    "RETBleed: WARNING",
    "Spectre V2 : WARNING",
    "leaves CPU vulnerable",
    "data leaks possible",
    "Vulnerable: ",
];

/// A line of the log that should not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Its number, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

/// What a line complains of, if anything.
pub(crate) fn complaint(line: &str) -> Option<&'static str> {
    if HARMLESS.iter().any(|part| line.contains(part)) {
        return None;
    }
    let of_kernel = kernel_part(line);
    PATTERNS
        .iter()
        .find(|p| {
            if p.kernel_only {
                of_kernel.is_some_and(|text| text.contains(p.text))
            } else {
                line.contains(p.text)
            }
        })
        .map(|p| p.text)
        .or_else(|| {
            // Lockdep: "possible irq lock inversion dependency detected" and its kin.
            let text = of_kernel?;
            (text.contains("possible ") && text.contains("detected"))
                .then_some("possible … detected")
        })
}

/// All complaints of a log.
pub(crate) fn scan(log: &str) -> Vec<Finding> {
    log.lines()
        .enumerate()
        .filter(|(_, line)| complaint(line).is_some())
        .map(|(i, line)| Finding {
            line: i + 1,
            text: line.trim_end().to_owned(),
        })
        .collect()
}

/// Whether the line says that the kernel has stopped for good.
pub(crate) fn is_panic(line: &str) -> bool {
    line.contains("Kernel panic - not syncing")
}

/// What follows the kernel's time stamp, as `[    4.012345] `. A message can begin in the middle of a program's line.
fn kernel_part(line: &str) -> Option<&str> {
    line.match_indices('[').find_map(|(at, _)| {
        let (stamp, rest) = line[at + 1..].split_once(']')?;
        let (seconds, micros) = stamp.trim_start().split_once('.')?;
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        (digits(seconds) && digits(micros) && micros.len() == 6).then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One planted line per complaint, as real kernels print them.
    const PLANTED: &[&str] = &[
        "[   12.345678] WARNING: CPU: 1 PID: 77 at net/sched/sch_generic.c:530 dev_watchdog+0x1",
        "[   12.345678] WARNING: net/core/skbuff.c:1234 at skb_release+0x3, CPU#0: tc/99",
        "[   12.345678] BUG: kernel NULL pointer dereference, address: 0000000000000010",
        "[   12.345678] BUG: unable to handle page fault for address: ffff",
        "[   12.345678] Oops: 0002 [#1] SMP NOPTI",
        "[   12.345678] Oops: general protection fault, probably for non-canonical address",
        "[   12.345678] kernel BUG at rust/helpers/bug.c:7!",
        "[   12.345678] rust_kernel: panicked at core/src/port.rs:10:5:",
        "[   12.345678] ------------[ cut here ]------------",
        "[   12.345678] BUG: KASAN: slab-use-after-free in turnstile_dequeue+0x1/0x2",
        "[   12.345678] UBSAN: array-index-out-of-bounds in x.c:1:2",
        "[   12.345678] Call Trace:",
        "[   12.345678] BUG: scheduling while atomic: tc/99/0x00000201",
        "[   12.345678] BUG: sleeping function called from invalid context at mm/slab.h:1",
        "[   12.345678] WARNING: possible circular locking dependency detected",
        "[   12.345678] WARNING: possible recursive locking detected",
        "[   12.345678] WARNING: inconsistent lock state",
        "[   12.345678] WARNING: suspicious RCU usage",
        "[   12.345678] INFO: possible irq lock inversion dependency detected",
        "[   12.345678] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "[   12.345678] rcu: INFO: rcu_sched self-detected stall on CPU",
        "[   12.345678] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [tc:99]",
        "[   12.345678] INFO: task tc:99 blocked for more than 120 seconds.",
        "[   12.345678] unregister_netdevice: waiting for veth0 to become free. Usage count = 2",
        "[   12.345678] refcount_t: underflow; use-after-free.",
        "[   12.345678] list_del corruption, ffff->next is LIST_POISON1",
        "[   12.345678] kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
        "[   12.345678] Kernel panic - not syncing: Fatal exception in interrupt",
        "[   12.345678] Out of memory: Killed process 99 (vm-tests)",
        "[   12.345678] tc: page allocation failure: order:4",
        "[   12.345678] vm-tests[99]: segfault at 0 ip 0000 sp 0000 error 4",
        "[   12.345678] sch_turnstile: Unknown symbol foo (err -2)",
        "[   12.345678] sch_turnstile: disagrees about version of symbol module_layout",
        "[   12.345678] BUG: KCSAN: data-race in turnstile_enqueue / turnstile_dequeue",
        "[   12.345678] watchdog: Watchdog detected hard LOCKUP on cpu 1",
        "[   12.345678] rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-... }",
        "[   12.345678] list_add corruption. prev->next should be next",
        "[   12.345678] tc invoked oom-killer: gfp_mask=0x40cc0(GFP_KERNEL|__GFP_COMP)",
        "[   12.345678] INFO: trying to register non-static key.",
    ];

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
            assert!(complaint(line).is_some(), "missed: {line}");
            let log = format!("[    0.000000] Linux version 7.2\n{line}\nrunning\n");
            assert_eq!(scan(&log).len(), 1, "{line}");
            assert_eq!(scan(&log)[0].line, 2);
        }
    }

    #[test]
    fn a_complaint_in_the_middle_of_a_programs_line_is_found() {
        assert!(complaint("case add-del ...[   12.345678] refcount_t: underflow").is_some());
        assert!(complaint("half a line[   12.345678] WARNING: CPU: 0 PID: 1 at x").is_some());
    }

    #[test]
    fn an_ordinary_log_is_clean() {
        let log = "\
[    0.000000] Linux version 7.2.12+deb13-amd64
[    0.000000] smpboot: Allowing 2 CPUs, 0 hotplug CPUs
[    0.010000] RETBleed: WARNING: Spectre v2 mitigation leaves CPU vulnerable to RETBleed attacks, data leaks possible!
[    0.010000] CPU0: possible CPUs 2
[    3.100000] sch_turnstile: loading out-of-tree module taints kernel.
[    3.100000] sch_turnstile: module verification failed: signature and/or required key missing - tainting kernel
case fifty-loads-leak-nothing
Warning: a program's own
WARNING: iperf3 says so
it is possible that
Error: turnstile: priorities: 9 is not in 1..8.
[    9.000000] reboot: Power down
";
        assert_eq!(scan(log), []);
    }
}
