// SPDX-License-Identifier: GPL-2.0
//! Allocations that fail.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

/// How loud the kernel is on the console.
const PRINTK: &str = "/proc/sys/kernel/printk";

/// Shows notices on the console while it lives: that a failure was wanted is one, and who reads the
/// console knows by it that the trace behind it is no complaint.
pub(in crate::cases) struct Notices(String);

impl Notices {
    pub(in crate::cases) fn shown() -> Self {
        let before = std::fs::read_to_string(PRINTK).unwrap_or_default();
        // Without it the run fails: the traces are found.
        let _ = std::fs::write(PRINTK, "6");
        Self(before)
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        let _ = std::fs::write(PRINTK, &self.0);
    }
}

/// The calling thread's `fail-nth`: lets the n-th allocation of its next calls fail, where the
/// kernel can.
pub(in crate::cases) struct Faults(Option<File>);

impl Faults {
    pub(in crate::cases) fn open() -> Self {
        let path = "/proc/thread-self/fail-nth";
        Self(File::options().read(true).write(true).open(path).ok())
    }

    fn write(&self, n: u64) {
        if let Some(mut file) = self.0.as_ref() {
            // A refusal means only that nothing fails.
            let _ = file.write(n.to_string().as_bytes());
        }
    }

    /// Whether the kernel can.
    pub(in crate::cases) fn can(&self) -> bool {
        self.0.is_some()
    }

    /// From now on.
    pub(in crate::cases) fn arm(&self, n: u64) {
        self.write(n);
    }

    /// No longer; whether one has failed.
    pub(in crate::cases) fn disarm(&self) -> bool {
        let mut left = [0; 16];
        let failed = self
            .0
            .as_ref()
            .is_some_and(|file| file.read_at(&mut left, 0).is_ok() && left[0] == b'0');
        self.write(0);
        failed
    }
}
