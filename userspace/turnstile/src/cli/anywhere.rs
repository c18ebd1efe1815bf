// SPDX-License-Identifier: GPL-2.0
//! Flags may stand anywhere, also among a port's words: `turnstile port add swp1 mpu 0 -n ns1`.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// The arguments of the program, with the flags in front of the words of a command that takes
/// words. What no flag is known by, such as the -1 of `priorities -1`, stays where it is.
pub(crate) fn flags_first(args: Vec<OsString>) -> Vec<OsString> {
    let mut command = Cli::command();
    command.build();
    let mut left = args.into_iter();
    let mut front: Vec<OsString> = left.next().into_iter().collect();
    let mut current = &command;
    // As far as the last command's name.
    while !takes_words(current) {
        let Some(arg) = left.next() else {
            return front;
        };
        let value = arg
            .to_str()
            .is_some_and(|arg| flag(current, arg) == Some(Wants::Next));
        if let Some(sub) = arg.to_str().and_then(|name| current.find_subcommand(name)) {
            current = sub;
        }
        front.push(arg);
        if value {
            front.extend(left.next());
        }
    }
    let mut words = Vec::new();
    while let Some(arg) = left.next() {
        match arg.to_str().and_then(|arg| flag(current, arg)) {
            _ if arg == "--" => {
                words.push(arg);
                words.extend(left);
                break;
            }
            None => words.push(arg),
            Some(wants) => {
                front.push(arg);
                if wants == Wants::Next {
                    front.extend(left.next());
                }
            }
        }
    }
    front.extend(words);
    front
}

fn takes_words(command: &Command) -> bool {
    command.get_arguments().any(Arg::is_trailing_var_arg_set)
}

/// What a flag wants after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    Nothing,
    /// The next argument is its value.
    Next,
}

/// Whether an argument is a flag of the command, or several: `-js`.
fn flag(command: &Command, text: &str) -> Option<Wants> {
    let takes_value = |arg: &Arg| arg.get_action().takes_values();
    if let Some(long) = text.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, _)) => (name, true),
            None => (long, false),
        };
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(name))?;
        return match takes_value(arg) && !value {
            true => Some(Wants::Next),
            false => Some(Wants::Nothing),
        };
    }
    let mut letters = text
        .strip_prefix('-')
        .filter(|rest| !rest.is_empty())?
        .chars();
    while let Some(letter) = letters.next() {
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_short() == Some(letter))?;
        if takes_value(arg) {
            return match letters.as_str() {
                "" => Some(Wants::Next),
                _ => Some(Wants::Nothing),
            };
        }
    }
    Some(Wants::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(line: &str) -> String {
        let args = line.split(' ').map(OsString::from).collect();
        let args = flags_first(args);
        let args: Vec<String> = args
            .into_iter()
            .map(|arg| arg.into_string().unwrap())
            .collect();
        args.join(" ")
    }

    #[test]
    fn flags_among_words() {
        for (typed, meant) in [
            (
                "t port add lo link 1gbit -n ns1",
                "t port add -n ns1 lo link 1gbit",
            ),
            (
                "t port add dev lo -js mpu 0 --netns=b",
                "t port add -js --netns=b dev lo mpu 0",
            ),
            ("t port add lo -h", "t port add -h lo"),
            (
                "t -n a pacer change lo -nb beta 1",
                "t -n a pacer change -nb lo beta 1",
            ),
            (
                "t transport set rto 1ms --netns x",
                "t transport set --netns x rto 1ms",
            ),
            ("t port del lo root -n x", "t port del -n x lo root"),
            // What is no flag is a word, and so is all that follows --.
            ("t port add lo priorities -1", "t port add lo priorities -1"),
            ("t port add lo link -1gbit", "t port add lo link -1gbit"),
            ("t port add lo -- -n x", "t port add lo -- -n x"),
            ("t port add lo -x", "t port add lo -x"),
            // Of other commands clap sorts flags out itself.
            ("t flows --peers -n x", "t flows --peers -n x"),
            ("t -n port port show -j", "t -n port port show -j"),
            ("t", "t"),
        ] {
            assert_eq!(first(typed), meant);
        }
    }
}
