// SPDX-License-Identifier: GPL-2.0
//! Clocks and sleeping without busy-waiting.
//!
//! Nothing here polls: under virtual time a program that spins would stop the clock.

use std::sync::OnceLock;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{clock_gettime, clock_nanosleep, ClockId, ClockNanosleepFlags};

/// ns of the monotonic clock, for schedules.
pub fn monotonic() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// ns of the clock that goes on while the machine is suspended.
pub fn boottime() -> u64 {
    read(ClockId::CLOCK_BOOTTIME)
}

/// ns of the wall clock: the one that the kernel stamps received packets with.
pub fn realtime() -> u64 {
    read(ClockId::CLOCK_REALTIME)
}

fn read(clock: ClockId) -> u64 {
    // These clocks exist on every Linux, so that reading them cannot fail.
    clock_gettime(clock).map_or(0, |time| u64::try_from(time.num_nanoseconds()).unwrap_or(0))
}

/// Sleeps until the monotonic clock shows `when`; returns at once if it is past.
pub fn sleep_until(when: u64) {
    let when = TimeSpec::nanoseconds(i64::try_from(when).unwrap_or(i64::MAX));
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &when) == Err(Errno::EINTR) {}
}

/// Whether the machine's time is simulated: it stands still while anything runs, so that no program
/// is ever late.
pub fn is_simulated() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
        line.split_whitespace()
            .any(|word| word.starts_with("time-travel="))
    })
}

/// `duration` in ns, saturating.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Makes the calling thread's timers exact: by default they may be 50 us late.
pub fn exact_timers() {
    let _ = nix::sys::prctl::set_timerslack(1);
}
