// SPDX-License-Identifier: GPL-2.0
//! What the user sees while a step runs, and where the step's own output goes.
//!
//! On a terminal a step is a spinner with the seconds so far and the last line its program wrote.
//! Elsewhere (a CI log) it is a line at the start, one every [`HEARTBEAT`], and one at the end, so
//! that a log never stands still. The programs' output goes to one file per step in the cache's
//! `logs` folder; a failure shows that file's last lines.

use std::fs::File;
use std::io::{IsTerminal, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The longest silence of a running step in a log that is not a terminal.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(50);
/// Lines of a step's output shown when it fails.
const TAIL_LINES: usize = 20;

/// The place where all steps report.
#[derive(Clone, Debug)]
pub(crate) struct Ui {
    bars: MultiProgress,
    terminal: bool,
    log_dir: PathBuf,
}

impl Ui {
    /// Reports to standard error; the steps' output goes to files in `log_dir`, which must exist.
    pub(crate) fn new(log_dir: PathBuf) -> Self {
        Self {
            bars: MultiProgress::new(),
            terminal: std::io::stderr().is_terminal(),
            log_dir,
        }
    }

    /// Prints one line of information, above any running spinner.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        if self.terminal {
            self.bars.suspend(|| eprintln!("{}", text.as_ref()));
        } else {
            eprintln!("{}", text.as_ref());
        }
    }

    /// Prints one line of result to standard output, above any running spinner.
    pub(crate) fn result(&self, text: impl AsRef<str>) {
        if self.terminal {
            self.bars.suspend(|| println!("{}", text.as_ref()));
        } else {
            println!("{}", text.as_ref());
        }
    }

    /// Begins to wait for something.
    pub(crate) fn waiting(&self, what: &str) -> Waiting {
        let now = Instant::now();
        Waiting {
            bar: self.spinner(what),
            what: what.to_owned(),
            since: now,
            spoke: now,
        }
    }

    fn spinner(&self, what: &str) -> Option<ProgressBar> {
        self.terminal.then(|| {
            let bar = self.bars.add(ProgressBar::new_spinner());
            bar.set_style(
                ProgressStyle::with_template("{spinner} {prefix} {elapsed:>4}  {wide_msg:.dim}")
                    .expect("the template is a constant"),
            );
            bar.set_prefix(what.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        })
    }

    /// Begins a step. `name` also names its log file; `what` tells the user what is being done.
    pub(crate) fn step(&self, name: &str, what: &str) -> Result<Step> {
        let log_path = self.log_dir.join(format!("{name}.log"));
        let log = File::create(&log_path)
            .with_context(|| format!("cannot write {}", log_path.display()))?;
        let bar = self.spinner(what);
        if bar.is_none() {
            eprintln!("  .. {what}");
        }
        let now = Instant::now();
        Ok(Step {
            what: what.to_owned(),
            log_path,
            log,
            bar,
            ui: self.clone(),
            began: now,
            spoke: now,
        })
    }
}

/// A spinner for something that is followed by other means than its output.
#[derive(Debug)]
pub(crate) struct Waiting {
    bar: Option<ProgressBar>,
    what: String,
    since: Instant,
    spoke: Instant,
}

impl Waiting {
    /// Says what is being waited for now.
    pub(crate) fn set(&mut self, what: &str) {
        self.what = what.to_owned();
        self.since = Instant::now();
        self.spoke = self.since;
        if let Some(bar) = &self.bar {
            bar.set_prefix(self.what.clone());
            bar.reset_elapsed();
        }
    }

    /// To be called often: speaks up in a log that would stand still otherwise.
    pub(crate) fn tick(&mut self) {
        if self.bar.is_none() && self.spoke.elapsed() >= HEARTBEAT {
            self.spoke = Instant::now();
            eprintln!(
                "  .. {} {:.0} s",
                self.what,
                self.since.elapsed().as_secs_f64()
            );
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A step that runs. Ends well with [`Step::done`]; dropped without it, it shows as failed.
#[derive(Debug)]
pub(crate) struct Step {
    what: String,
    log_path: PathBuf,
    log: File,
    bar: Option<ProgressBar>,
    ui: Ui,
    began: Instant,
    spoke: Instant,
}

impl Step {
    /// Runs a program to its end, with its output in the step's log.
    ///
    /// # Errors
    /// The program could not be started, or failed; the text holds the last lines of its output and
    /// the log's path.
    pub(crate) fn run(&mut self, command: &mut Command) -> Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(self.log.try_clone()?)
            .stderr(self.log.try_clone()?)
            .spawn()
            .with_context(|| format!("{}: cannot start {program}", self.what))?;
        loop {
            if let Some(status) = child.try_wait()? {
                if status.success() {
                    return Ok(());
                }
                bail!("{} failed ({status})\n{}", self.what, self.tail());
            }
            self.tick();
            std::thread::sleep(POLL);
        }
    }

    /// Runs a program and returns what it wrote to standard output; standard error goes to the
    /// step's log.
    ///
    /// # Errors
    /// As [`Step::run`].
    pub(crate) fn output(&mut self, command: &mut Command) -> Result<String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let out = command
            .stdin(Stdio::null())
            .stderr(self.log.try_clone()?)
            .output()
            .with_context(|| format!("{}: cannot start {program}", self.what))?;
        if !out.status.success() {
            bail!("{} failed ({})\n{}", self.what, out.status, self.tail());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Where the step's output is.
    pub(crate) fn log_path(&self) -> &Path {
        &self.log_path
    }

    /// Ends the step well; returns how long it took.
    pub(crate) fn done(mut self) -> Duration {
        let took = self.began.elapsed();
        self.finish(&format!("  ok {} ({:.1} s)", self.what, took.as_secs_f64()));
        self.what.clear();
        took
    }

    fn tick(&mut self) {
        if let Some(bar) = &self.bar {
            if let Some(line) = last_lines(&self.log_path, 1).pop() {
                bar.set_message(line);
            }
        } else if self.spoke.elapsed() >= HEARTBEAT {
            self.spoke = Instant::now();
            eprintln!(
                "  .. {} {:.0} s: {}",
                self.what,
                self.began.elapsed().as_secs_f64(),
                last_lines(&self.log_path, 1).pop().unwrap_or_default()
            );
        }
    }

    fn tail(&self) -> String {
        let text = std::fs::read(&self.log_path).unwrap_or_default();
        let lines = telling_lines(&String::from_utf8_lossy(&text));
        format!(
            "    {}\n  whole log: {}",
            lines.join("\n    "),
            self.log_path.display()
        )
    }

    fn finish(&mut self, text: &str) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        self.ui.say(text);
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if !self.what.is_empty() {
            let text = format!(
                "  !! {} ({:.1} s)",
                self.what,
                self.began.elapsed().as_secs_f64()
            );
            self.finish(&text);
        }
    }
}

/// The last `count` lines of a text file that are not empty; none if it cannot be read.
pub(crate) fn last_lines(path: &Path, count: usize) -> Vec<String> {
    /// More than any `count` of lines asked for here.
    const WINDOW: u64 = 64 * 1024;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(WINDOW)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> = text
        .split(['\n', '\r'])
        .map(|l| {
            l.chars()
                .filter(|c| !c.is_control() || *c == '\t')
                .collect::<String>()
        })
        .filter(|l| !l.trim().is_empty())
        .collect();
    lines.split_off(lines.len().saturating_sub(count))
}

/// The lines of a failed program's output that say why: those from its first error on, else the
/// last.
fn telling_lines(text: &str) -> Vec<String> {
    /// Compilers, apt and mmdebstrap, make.
    fn is_error(line: &str) -> bool {
        line.starts_with("error") || line.starts_with("E: ") || line.contains(": error: ")
    }
    let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = lines.len().saturating_sub(TAIL_LINES);
    let first = lines.iter().position(|l| is_error(l)).unwrap_or(last);
    let shown = lines.iter().skip(first).take(TAIL_LINES);
    shown.map(|&line| line.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{last_lines, telling_lines};

    #[test]
    fn the_first_error_is_shown_though_warnings_follow() {
        let warnings = "warning: one\n".repeat(50);
        let text = format!("{warnings}error[E0308]: mismatched types\n --> x.rs:1\n\n{warnings}");
        let lines = telling_lines(&text);
        assert_eq!(
            lines[..2],
            ["error[E0308]: mismatched types", " --> x.rs:1"]
        );
        assert_eq!(telling_lines(&warnings).len(), 20);
        assert_eq!(
            telling_lines("Get:1 x\nE: Unable to locate package y\n").len(),
            1
        );
    }

    #[test]
    fn last_lines_skips_blank_ones_and_splits_at_carriage_returns() {
        let path = std::env::temp_dir().join(format!("xtask-last-lines-{}", std::process::id()));
        std::fs::write(&path, "one\n\n10%\r20%\n\n").unwrap();
        assert_eq!(last_lines(&path, 2), ["10%", "20%"]);
        assert_eq!(last_lines(&path, 9).len(), 3);
        std::fs::remove_file(&path).unwrap();
        assert!(last_lines(&path, 1).is_empty());
    }
}
