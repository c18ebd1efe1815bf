// SPDX-License-Identifier: GPL-2.0
//! Finds the kernel's complaints in the guest's console log.

use crate::complaints;

/// A line of the log that should not be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Its number, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
}

/// What a line of the console complains of, if anything.
pub(crate) fn complaint(line: &str) -> Option<&'static str> {
    complaints::complaint(line, kernel_part(line))
}

/// Reads a console from line to line.
#[derive(Debug, Default)]
pub(crate) struct Reader(complaints::Reader);

impl Reader {
    /// As [`complaint`], of the next line; what is said of failures that a test wants is none.
    pub(crate) fn complaint(&mut self, line: &str) -> Option<&'static str> {
        self.0.complaint(line, kernel_part(line))
    }
}

/// All complaints of a log.
pub(crate) fn scan(log: &str) -> Vec<Finding> {
    let mut reader = Reader::default();
    log.lines()
        .enumerate()
        .filter(|(_, line)| reader.complaint(line).is_some())
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

/// What follows the kernel's time stamp, as `[    4.012345] `. A message can begin in the middle of
/// a program's line.
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

    #[test]
    fn every_planted_complaint_is_found() {
        for message in complaints::PLANTED {
            let line = format!("[   12.345678] {message}");
            assert!(complaint(&line).is_some(), "missed: {line}");
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
    fn a_failure_that_a_test_wants_is_no_finding() {
        let log = "\
[    9.000000] FAULT_INJECTION: forcing a failure.
[    9.000000] name failslab, interval 1, probability 0, space 0, times 0
[    9.000000] Call Trace:
[    9.000000] BUG: KASAN: slab-use-after-free in x+0x1/0x2
";
        let lines: Vec<usize> = scan(log).iter().map(|found| found.line).collect();
        assert_eq!(lines, [4]);
    }

    #[test]
    fn an_ordinary_log_is_clean() {
        let log = "\
[    0.000000] Linux version 7.2.12+deb13-amd64
[    0.000000] smpboot: Allowing 2 CPUs, 0 hotplug CPUs
[    0.010000] RETBleed: WARNING: Spectre v2 mitigation leaves CPU vulnerable
[    0.010000] CPU0: possible CPUs 2
[    3.100000] sch_turnstile: loading out-of-tree module taints kernel.
[    3.100000] sch_turnstile: module verification failed: signature missing - tainting kernel
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
