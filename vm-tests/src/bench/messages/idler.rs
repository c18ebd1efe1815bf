// SPDX-License-Identifier: GPL-2.0
//! What work costs while others idle, and marks for whoever counts each instruction.
//!
//! While all wait, a thread of the lowest class counts how often it goes round. What is left of the
//! clock's instructions when its rounds are taken off, whatever interrupted it, is what the work
//! costs.
//!
//! The plugin of `cargo xtask bench --profile` (`beds/count/count.c`) looks for three instructions
//! that do nothing: here counting begins, here it ends, and a block with this one is idle.

use std::arch::asm;
use std::io::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};

/// Instructions of a round: those of [`go_round`], each a nanosecond.
const ROUND: u64 = 4;
/// How long it has to be calm, and how often that is tried.
const TRIAL: Duration = Duration::from_millis(100);
const TRIALS: u32 = 50;

/// Goes round when nobody else wants the processor.
#[derive(Debug)]
pub(super) struct Idler<'a> {
    rounds: &'a AtomicU64,
    /// Whether work is marked.
    marks: bool,
}

impl Idler<'_> {
    /// Instructions that `work` takes.
    pub(super) fn instructions(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<u64> {
        let (began, before) = (Instant::now(), self.rounds.load(Ordering::Relaxed));
        if self.marks {
            // SAFETY: the instruction has no effect.
            unsafe { asm!(".byte 0x0f, 0x1f, 0x80", ".long 0x54530001") };
        }
        work()?;
        if self.marks {
            // SAFETY: as above.
            unsafe { asm!(".byte 0x0f, 0x1f, 0x80", ".long 0x54530002") };
        }
        let took = began.elapsed().as_nanos() as u64;
        let rounds = self.rounds.load(Ordering::Relaxed) - before;
        Ok(took.saturating_sub(rounds * ROUND))
    }
}

/// The rounds: one block of instructions, which a plugin can tell from all others.
fn go_round(rounds: &AtomicU64, stop: &AtomicBool) {
    // SAFETY: both live as long as the loop, and are read and written as atomics are.
    unsafe {
        asm!(
            "2:",
            "lock inc qword ptr [{rounds}]",
            ".byte 0x0f, 0x1f, 0x80",
            ".long 0x54530003",
            "cmp byte ptr [{stop}], 0",
            "je 2b",
            rounds = in(reg) rounds.as_ptr(),
            stop = in(reg) stop.as_ptr(),
            options(nostack),
        );
    }
}

/// Waits until nobody but the idler runs: what a boot has left to do, and modules that were just
/// loaded, may take the processor for a while.
fn calm(rounds: &AtomicU64) -> Result<()> {
    for _ in 0..TRIALS {
        let (began, before) = (Instant::now(), rounds.load(Ordering::Relaxed));
        thread::sleep(TRIAL);
        let idle = (rounds.load(Ordering::Relaxed) - before) * ROUND;
        let took = began.elapsed().as_nanos() as u64;
        // Ticks are no more than this.
        if took.abs_diff(idle) < took / 200 {
            return Ok(());
        }
        println!("bench: the idler had {idle} of {took} ns");
    }
    bail!("the thread that counts does not run undisturbed")
}

/// From now on neither this thread nor those that it starts take the processor from each other when
/// they are woken, only from the idler. Else the scheduler would decide by what was before whether
/// a message's receiver goes first or its sender goes on, and a message of TCP would take a tenth
/// more in one boot than in another.
fn stand_back() -> Result<()> {
    set_policy(libc::SCHED_BATCH).context("SCHED_BATCH")
}

fn set_policy(policy: libc::c_int) -> Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters live until the call returns; the call is for this thread.
    let set = unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
    ensure!(set == 0, "{}", Error::last_os_error());
    Ok(())
}

/// Does `work` with an idler.
///
/// # Errors
/// Those of the work; or nobody goes round.
pub(super) fn with_idler<R>(marks: bool, work: impl FnOnce(&Idler<'_>) -> Result<R>) -> Result<R> {
    let (rounds, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            // Without it nobody goes round, which is noticed.
            if set_policy(libc::SCHED_IDLE).is_ok() {
                go_round(&rounds, &stop);
            }
        });
        let done = (|| {
            stand_back()?;
            calm(&rounds)?;
            work(&Idler {
                rounds: &rounds,
                marks,
            })
        })();
        stop.store(true, Ordering::Relaxed);
        done
    })
}
