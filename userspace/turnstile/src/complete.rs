// SPDX-License-Identifier: GPL-2.0
//! Completes words for shells: commands and flags, and what depends on the machine or on the words
//! before: devices, network namespaces, options and their values.
//!
//! The script that `turnstile completions` prints has the shell ask this program, by an environment
//! variable, at every Tab.

use std::ffi::{OsStr, OsString};
use std::io;

use clap::{CommandFactory, ValueEnum};
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, CompletionCandidate};
use turnstile_netlink::options::Entry;
use turnstile_netlink::{pacer, port, transport};

use crate::cli::Cli;

/// By which the shell asks.
const VARIABLE: &str = "TURNSTILE_COMPLETE";
const NAME: &str = "turnstile";

/// A shell.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    Powershell,
}

/// Ends the program if it is the shell that asks.
pub(crate) fn answer_the_shell() {
    CompleteEnv::with_factory(Cli::command)
        .var(VARIABLE)
        .bin(NAME)
        .complete();
}

/// What a shell needs to ask.
pub(crate) fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let name = crate::bench::typed(shell);
    let shells = Shells::builtins();
    let shell = shells
        .completer(&name)
        .ok_or_else(|| io::Error::other(format!("no completions for {name}")))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
    Ok(script)
}

/// The words before the one that is completed.
fn before() -> Vec<String> {
    let args = std::env::args_os().skip_while(|arg| arg != "--").skip(1);
    let mut words: Vec<OsString> = args.collect();
    // Shells whose index is not told complete the last word.
    let index = std::env::var("_CLAP_COMPLETE_INDEX");
    let index = index.ok().and_then(|index| index.parse().ok());
    words.truncate(index.unwrap_or(words.len().saturating_sub(1)));
    words
        .into_iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// The value of a flag that was typed before.
fn value_of<'a>(flags: [&str; 2], words: &'a [String]) -> Option<&'a str> {
    let at = words
        .iter()
        .position(|word| flags.contains(&word.as_str()))?;
    words.get(at + 1).map(String::as_str)
}

fn entries(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Names of network namespaces.
pub(crate) fn namespaces() -> Vec<CompletionCandidate> {
    entries("/run/netns")
        .into_iter()
        .map(CompletionCandidate::new)
        .collect()
}

/// Names of devices, of the namespace that was named before.
fn devices(before: &[String]) -> Vec<String> {
    if let Some(name) = value_of(["-n", "--netns"], before) {
        // Of one that cannot be entered nothing is known.
        if crate::netns::enter(name).is_err() {
            return Vec::new();
        }
    }
    let list = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    list.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .collect()
}

fn beginning(current: &OsStr, found: impl IntoIterator<Item = Found>) -> Vec<CompletionCandidate> {
    let begun = current.to_string_lossy();
    found
        .into_iter()
        .filter(|found| found.word.starts_with(begun.as_ref()))
        .map(|found| CompletionCandidate::new(found.word).help(found.about.map(Into::into)))
        .collect()
}

/// A device, or tc's words for a place.
pub(crate) fn device_or_place(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning(current, devices(&before()).into_iter().map(Found::bare))
}

/// The words of a port, a pacer or the transport.
pub(crate) fn words(current: &OsStr) -> Vec<CompletionCandidate> {
    let before = before();
    let last = before.last().map_or("", String::as_str);
    if ["-n", "--netns"].contains(&last) {
        return beginning(current, entries("/run/netns").into_iter().map(Found::bare));
    }
    if last == "dev" {
        return device_or_place(current);
    }
    beginning(current, next(&before))
}

/// A word that may follow, and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    word: String,
    about: Option<String>,
}

impl Found {
    fn bare(word: impl Into<String>) -> Self {
        Self {
            word: word.into(),
            about: None,
        }
    }
}

/// The options of a port, a pacer or the transport, and whether a place comes before them.
fn options(before: &[String]) -> (Vec<Entry>, bool) {
    let has = |word: &str| before.iter().any(|typed| typed == word);
    if ["del", "delete"].into_iter().any(has) {
        (Vec::new(), true)
    } else if has("transport") {
        (transport::Settings::entries(), false)
    } else if has("pacer") {
        (pacer::Options::entries(), true)
    } else {
        (port::Options::entries(), true)
    }
}

/// What may follow the words before.
fn next(before: &[String]) -> Vec<Found> {
    let (options, with_place) = options(before);
    let find = |word: &String| {
        let name = word.strip_prefix("no-").unwrap_or(word);
        options.iter().find(|option| option.name == name)
    };
    let mut found = Vec::new();
    let last = before.iter().enumerate().rev();
    let last = last.filter_map(|(at, word)| Some((at, find(word)?))).next();
    if let Some((at, option)) = last {
        let since = &before[at + 1..];
        let words = option.words();
        let is_part = |word: &String| words.iter().any(|part| part == word);
        match since {
            [] if !option.value().is_empty() => {
                return words.into_iter().map(Found::bare).collect();
            }
            // A flag, which may have a word.
            [] if before[at] == option.name => {
                found.extend(words.iter().copied().map(Found::bare));
            }
            // A part waits for its value, which no list has.
            [.., word] if option.is_group() && is_part(word) && word != "off" => return found,
            _ if option.is_group() && !since.iter().any(|word| word == "off") => {
                let more = words.iter().filter(|part| **part != "off");
                let more = more.filter(|part| !since.iter().any(|word| word == *part));
                found.extend(more.copied().map(Found::bare));
            }
            _ => {}
        }
    } else if with_place {
        match before.last().map(String::as_str) {
            Some("parent" | "handle") => return found,
            _ => {
                let place = ["root", "parent", "handle", "dev", "queues"];
                // Of a port that is to be, or to be another.
                let port = !options.is_empty() && before.iter().any(|typed| typed == "port");
                let new = place
                    .iter()
                    .filter(|word| port || **word != "queues")
                    .filter(|word| !before.iter().any(|b| b == *word));
                found.extend(new.copied().map(Found::bare));
            }
        }
    }
    for option in &options {
        if before
            .iter()
            .any(|word| find(word).is_some_and(|o| o.name == option.name))
        {
            continue;
        }
        let about = Some(option.value()).filter(|value| !value.is_empty());
        let is_flag = about.is_none();
        found.push(Found {
            word: option.name.to_owned(),
            about,
        });
        if is_flag {
            found.push(Found::bare(format!("no-{}", option.name)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> Vec<String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        next(&words).into_iter().map(|found| found.word).collect()
    }

    #[test]
    fn option_words_that_were_not_typed_yet() {
        let words = after("turnstile port add lo");
        for word in [
            "root",
            "handle",
            "queues",
            "link",
            "token-expiry",
            "split-gso",
            "no-split-gso",
        ] {
            assert!(words.iter().any(|w| w == word), "{word}: {words:?}");
        }
        let words = after("turnstile port add lo root link 1gbit no-split-gso");
        for word in ["root", "link", "split-gso", "no-split-gso"] {
            assert!(!words.iter().any(|w| w == word), "{word}: {words:?}");
        }
        assert!(after("turnstile pacer add lo").iter().any(|w| w == "beta"));
        let words = after("turnstile transport set");
        assert!(words.iter().any(|w| w == "policy"), "{words:?}");
        assert!(!words.iter().any(|w| w == "root"), "{words:?}");
        assert_eq!(
            after("turnstile port del lo root"),
            ["parent", "handle", "dev"]
        );
    }

    #[test]
    fn values_that_are_words() {
        assert_eq!(after("turnstile port add lo link"), ["auto"]);
        assert_eq!(
            after("turnstile port add lo order"),
            ["tokens-first", "data-first"]
        );
        assert_eq!(
            after("turnstile port add lo phantom"),
            ["drain", "mark", "off"]
        );
        let words = after("turnstile port add lo split-gso");
        assert_eq!(&words[..2], ["auto", "link"]);
        let words = after("turnstile port add lo no-split-gso");
        assert_eq!(words[0], "link");
        assert!(after("turnstile port add lo phantom drain").is_empty());
        let words = after("turnstile port add lo phantom drain 95%");
        assert_eq!(&words[..2], ["mark", "link"]);
        assert!(after("turnstile port add lo priorities").is_empty());
        assert!(after("turnstile port add lo handle").is_empty());
        let words = after("turnstile transport set policy");
        assert!(words.iter().any(|w| w == "top"), "{words:?}");
    }
}
