// SPDX-License-Identifier: GPL-2.0
//! What turnstile(8) says of how the command ends: exit codes, what stands behind the kernel's
//! refusals; and of completion.

use clap_mangen::roff::{bold, Roff};

use super::{example, section, tagged, text};
use crate::failure::EXIT_CODES;

pub(super) fn exit_status(page: &mut Roff) {
    section(page, "EXIT STATUS", "As of tc(8) and ip(8).");
    for (code, meaning) in EXIT_CODES {
        let heading = vec![bold(code.to_string())];
        tagged(page, heading, &format!("{meaning}."));
    }
    text(
        page,
        "An error is one line that names the option, the value and what is allowed (bench client \
         adds one for each cause of failures). What the kernel refused, it left as it was. Lists \
         that are empty are called so on standard error; with --json, [] says so.",
    );
}

pub(super) fn diagnostics(page: &mut Roff) {
    section(
        page,
        "DIAGNOSTICS",
        "Behind some answers of the kernel this command looks for the reason:",
    );
    for (answer, about) in [
        (
            "no module ... for kernel ...",
            "None is installed for the kernel that runs. The line says how to build it, and for \
             which kernels there is one.",
        ),
        (
            "the kernel refused the signature of module ...",
            "Under secure boot, or with module.sig_enforce, the kernel loads modules only that are \
             signed with a key which it knows. docs/secure-boot.md has how to make one and enrol \
             it with mokutil(1).",
        ),
        (
            "module ... was built for another kernel",
            "Build it again for this one.",
        ),
        (
            "not permitted: be root, or have CAP_NET_ADMIN",
            "What changes a network namespace needs that capability in it; what shows it does not.",
        ),
        (
            "UDP port 29813 ... is taken by ...",
            "The transport opens this port when a network namespace first uses it, and needs it to \
             itself.",
        ),
    ] {
        tagged(page, vec![bold(answer)], about);
    }
}

pub(super) fn completion(page: &mut Roff) {
    section(
        page,
        "COMPLETION",
        "The script that turnstile completions prints has the shell ask this program at every Tab. \
         For a bash of one's own, in ~/.bashrc:",
    );
    example(page, "", &["source <(turnstile completions bash)"]);
}
