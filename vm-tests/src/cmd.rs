// SPDX-License-Identifier: GPL-2.0
//! Runs `tc`, `ip` and other programs in a namespace, as a user would type them.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};
use serde_json::Value;

use crate::netns::Netns;

/// What a program said.
#[derive(Clone, Debug)]
pub struct Output {
    /// The line it was started with.
    pub line: String,
    /// Whether it exited with 0.
    pub ok: bool,
    /// Its exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Output {
    /// The standard output of a program that must succeed.
    ///
    /// # Errors
    /// Naming the line and what the program said, when it failed.
    pub fn success(self) -> Result<String> {
        if !self.ok {
            bail!(
                "`{}` failed: {}{}",
                self.line,
                self.stderr.trim_end(),
                self.stdout.trim_end()
            );
        }
        Ok(self.stdout)
    }

    /// Everything that a program said which must fail.
    ///
    /// # Errors
    /// When it succeeded.
    pub fn failure(self) -> Result<String> {
        if self.ok {
            bail!("`{}` was accepted", self.line);
        }
        Ok(format!("{}{}", self.stderr, self.stdout))
    }
}

/// Runs `line`, split at blanks, in the calling thread's namespace. Nothing is quoted or expanded.
///
/// # Errors
/// When the program cannot be started.
pub fn run_here(line: &str, input: &str) -> Result<Output> {
    let mut words = line.split_whitespace();
    let program = words.next().context("an empty command line")?;
    let mut child = Command::new(program)
        .args(words)
        .stdin(if input.is_empty() {
            Stdio::null()
        } else {
            Stdio::piped()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting `{line}`"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin
            .write_all(input.as_bytes())
            .with_context(|| format!("writing to `{line}`"))?;
    }
    let output = child
        .wait_with_output()
        .with_context(|| format!("running `{line}`"))?;
    Ok(Output {
        line: line.to_owned(),
        ok: output.status.success(),
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

impl Netns {
    /// Runs a command line inside, whether it succeeds or not.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn try_run(&self, line: &str) -> Result<Output> {
        self.enter(|| run_here(line, ""))
    }

    /// Runs a command line inside and gives its output.
    ///
    /// # Errors
    /// When it cannot be started or fails.
    pub fn run(&self, line: &str) -> Result<String> {
        self.try_run(line)?.success()
    }

    /// Runs a command line inside that reads `input`.
    ///
    /// # Errors
    /// When it cannot be started or fails.
    pub fn run_with(&self, line: &str, input: &str) -> Result<String> {
        self.enter(|| run_here(line, input))?.success()
    }

    /// `tc …`
    ///
    /// # Errors
    /// As [`Netns::run`].
    pub fn tc(&self, arguments: &str) -> Result<String> {
        self.run(&format!("tc {arguments}"))
    }

    /// `ip …`
    ///
    /// # Errors
    /// As [`Netns::run`].
    pub fn ip(&self, arguments: &str) -> Result<String> {
        self.run(&format!("ip {arguments}"))
    }

    /// Many lines for `ip` at once: one process instead of many.
    ///
    /// # Errors
    /// As [`Netns::run`]; names the first line that failed.
    pub fn ip_batch(&self, lines: &[String]) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.run_with("ip -batch -", &format!("{}\n", lines.join("\n")))
            .with_context(|| format!("in namespace {}: {}", self.name(), lines.join("; ")))
            .map(drop)
    }

    /// `tc -j …`, parsed.
    ///
    /// # Errors
    /// As [`Netns::run`], and when it does not print JSON.
    pub fn tc_json(&self, arguments: &str) -> Result<Value> {
        json(&self.run(&format!("tc -j {arguments}"))?)
            .with_context(|| format!("output of `tc -j {arguments}`"))
    }
}

/// Parses JSON; no output at all, as tc gives where there is nothing to list, is an empty list.
///
/// # Errors
/// When it is no JSON, quoting it.
pub fn json(text: &str) -> Result<Value> {
    if text.trim().is_empty() {
        return Ok(Value::Array(Vec::new()));
    }
    serde_json::from_str(text).with_context(|| format!("not JSON: {text}"))
}
