// SPDX-License-Identifier: GPL-2.0
//! Completion as a shell does it: a bash that has read the script is asked what may follow.

use std::path::Path;
use std::process::Command;

/// What bash offers for the last word of `line`.
fn offered(line: &str) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_turnstile"));
    // As bash does it at Tab: the words, the number of the current one, and the function.
    let script = r#"
        source <(turnstile completions bash) || exit
        function=$(complete -p turnstile | sed 's/.*-F \([^ ]*\) .*/\1/')
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9 COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
        "$function" turnstile "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("bash")
        .args(["--norc", "-c", script, "bash"])
        .args(line.split(' '))
        .env("PATH", path)
        .output()
        .expect("bash is there");
    assert!(output.status.success(), "{line}: {output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.split_whitespace().map(str::to_owned).collect()
}

fn has(line: &str, words: &[&str]) {
    let offered = offered(line);
    for word in words {
        assert!(
            offered.iter().any(|offer| offer == word),
            "{line}: {word} is not in {offered:?}"
        );
    }
}

#[test]
fn commands_and_flags() {
    has("turnstile ", &["port", "transport", "bench", "--json"]);
    assert_eq!(offered("turnstile tran"), ["transport"]);
    has("turnstile port ", &["add", "show"]);
    has("turnstile flows --w", &["--watch"]);
    has("turnstile sockets --state c", &["connected", "closing"]);
    has("turnstile bench client --pattern ", &["incast", "poisson"]);
    has("turnstile completions ", &["bash", "zsh", "fish"]);
}

#[test]
fn devices() {
    has("turnstile port add ", &["lo"]);
    has("turnstile port add dev l", &["lo"]);
    has("turnstile port show l", &["lo"]);
    has("turnstile pacer del l", &["lo"]);
}

#[test]
fn options_and_their_values() {
    assert_eq!(offered("turnstile port add lo token-e"), ["token-expiry"]);
    has(
        "turnstile port add lo root ",
        &["handle", "link", "no-split-gso"],
    );
    has(
        "turnstile -j port change lo order ",
        &["tokens-first", "data-first"],
    );
    assert_eq!(offered("turnstile port add lo link a"), ["auto"]);
    assert_eq!(offered("turnstile pacer change lo be"), ["beta"]);
    has(
        "turnstile transport set policy ",
        &["top", "ren", "expresspass"],
    );
    // What was given is not offered again.
    let words = offered("turnstile port add lo link 1gbit ");
    assert!(!words.iter().any(|word| word == "link"), "{words:?}");
}

#[test]
fn namespaces() {
    let names: Vec<String> = std::fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    has("turnstile -n ", &names);
    has("turnstile port add lo -n ", &names);
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = Command::new(env!("CARGO_BIN_EXE_turnstile"))
            .args(["completions", shell])
            .output()
            .unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && script.contains("turnstile"),
            "{shell}: {script}"
        );
    }
}
