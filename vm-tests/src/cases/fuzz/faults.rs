// SPDX-License-Identifier: GPL-2.0
//! Allocations that fail.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

/// The calling thread's `fail-nth`: lets the n-th allocation of its next calls fail, where the
/// kernel can.
pub(super) struct Faults(Option<File>);

impl Faults {
    pub(super) fn open() -> Self {
        let path = "/proc/thread-self/fail-nth";
        Self(File::options().read(true).write(true).open(path).ok())
    }

    fn write(&self, n: u64) {
        if let Some(mut file) = self.0.as_ref() {
            // A refusal means only that nothing fails.
            let _ = file.write(n.to_string().as_bytes());
        }
    }

    /// From now on.
    pub(super) fn arm(&self, n: u64) {
        self.write(n);
    }

    /// No longer; whether one has failed.
    pub(super) fn disarm(&self) -> bool {
        let mut left = [0; 16];
        let failed = self
            .0
            .as_ref()
            .is_some_and(|file| file.read_at(&mut left, 0).is_ok() && left[0] == b'0');
        self.write(0);
        failed
    }
}
