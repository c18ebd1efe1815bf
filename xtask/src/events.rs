// SPDX-License-Identifier: GPL-2.0
//! The lines that the guest writes on its second serial port.

/// Puts lines together from the pieces in which they arrive.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Takes bytes; returns the lines they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        self.partial.extend_from_slice(bytes);
        let Some(end) = self.partial.iter().rposition(|b| *b == b'\n') else {
            return Vec::new();
        };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        String::from_utf8_lossy(&whole)
            .lines()
            .map(|line| line.trim_end_matches('\r').to_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_however_they_arrive() {
        let mut lines = Lines::default();
        assert!(lines.push(b"{\"event\":").is_empty());
        assert_eq!(lines.push(b"\"done\"}\r\n{\"a"), ["{\"event\":\"done\"}"]);
        assert_eq!(lines.push(b"\":1}\n\n"), ["{\"a\":1}", ""]);
    }
}
