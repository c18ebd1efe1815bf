// SPDX-License-Identifier: GPL-2.0
//! What a user meets at the prompt: the answers of the `turnstile` command that depend on the
//! machine.

use anyhow::{ensure, Context, Result};

use crate::cmd::{run_here, Output};
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;

mod missing;
mod taken;
mod words;

const PORT: &[Need] = &[Need::Module("sch_turnstile")];
const SIGNED: &[Need] = &[Need::SignedModules, Need::Module("sch_turnstile")];
const BOTH: &[Need] = &[Need::Module("sch_turnstile"), Need::Module("turnstile")];

pub(super) const CASES: &[Case] = &[
    Case::new("prompt/exit-codes", words::exit_codes).needs(PORT),
    Case::new("prompt/flags-anywhere", words::flags_anywhere).needs(PORT),
    Case::new("prompt/nothing-to-say", words::nothing_to_say).needs(BOTH),
    Case::new("prompt/not-root", words::not_root).needs(BOTH),
    Case::new("prompt/no-module", missing::no_module).needs(BOTH),
    Case::new("prompt/refused-signature", missing::refused_signature).needs(SIGNED),
    Case::new("prompt/udp-port-taken", taken::udp_port).needs(BOTH),
];

/// That a program failed with this code, and what it said.
fn failed(output: Output, code: i32) -> Result<String> {
    ensure!(
        output.code == Some(code),
        "`{}` ended with {:?}, not {code}: {}",
        output.line,
        output.code,
        output.stderr
    );
    ensure!(
        output.stdout.is_empty(),
        "`{}` failed, and printed {:?}",
        output.line,
        output.stdout
    );
    Ok(output.stderr)
}

/// That the text has all these parts.
fn says(text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "{part:?} is not in {text:?}");
    }
    Ok(())
}
