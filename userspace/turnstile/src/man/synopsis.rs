// SPDX-License-Identifier: GPL-2.0
//! SYNOPSIS of the pages: the command's from what clap takes, tc's from the tables of options.

use clap::builder::ValueRange;
use clap::{Arg, Command};
use clap_mangen::roff::{bold, roman, Roff};
use turnstile_netlink::place::Place;

/// More flags than these are not named one by one.
const FEW: usize = 3;

/// Of the command `turnstile`: a line for each command below it; those that take the same words
/// share one.
pub(super) fn of_command(page: &mut Roff, command: &Command) {
    page.control("SH", ["SYNOPSIS"]);
    for (names, arguments) in lines(command, "turnstile") {
        page.text([bold(names), roman(arguments)]);
        page.control("br", []);
    }
}

/// Of a qdisc's kind in tc.
pub(super) fn of_tc(page: &mut Roff, kind: &str, options: impl Iterator<Item = String>) {
    page.control("SH", ["SYNOPSIS"]);
    page.text([
        bold("tc qdisc add|replace|change"),
        roman(format!(" dev DEV {} ", Place::SYNOPSIS_OF_TC)),
        bold(kind),
    ]);
    for option in options {
        page.control("br", []);
        page.text([roman(option)]);
    }
}

/// Commands and what follows them.
fn lines(command: &Command, path: &str) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    for sub in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
    {
        let path = format!("{path} {}", sub.get_name());
        if sub.has_subcommands() {
            lines.extend(self::lines(sub, &path));
            continue;
        }
        let own = arguments(sub);
        match lines.last_mut() {
            // "port add|replace" goes on with "|change".
            Some((names, of)) if *of == own && takes_options(sub) => {
                *names += &format!("|{}", sub.get_name());
            }
            _ => lines.push((path, own)),
        }
    }
    lines
}

/// Whether the command's words are options of a port or a pacer.
fn takes_options(command: &Command) -> bool {
    command.get_positionals().any(|arg| name(arg) == "WORDS")
}

fn name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.join(" ")
}

fn arguments(command: &Command) -> String {
    let mut words: Vec<String> = command.get_positionals().map(positional).collect();
    let flags: Vec<&Arg> = command
        .get_opts()
        .chain(command.get_arguments().filter(|arg| is_switch(arg)))
        .filter(|arg| !arg.is_global_set())
        .collect();
    match flags.len() {
        0 => {}
        1..=FEW => words.extend(flags.into_iter().map(flag)),
        _ => words.push("[ FLAGS ]".to_owned()),
    }
    words
        .iter()
        .fold(String::new(), |text, word| text + " " + word)
}

/// A flag without a value, other than help.
fn is_switch(arg: &Arg) -> bool {
    arg.get_long().is_some() && !arg.get_action().takes_values() && arg.get_id() != "help"
}

fn positional(arg: &Arg) -> String {
    let name = name(arg);
    let range = arg.get_num_args().unwrap_or(ValueRange::SINGLE);
    let choices = arg.get_possible_values();
    let word = match name.as_str() {
        "PLACE" => return Place::SYNOPSIS.to_owned(),
        "WORDS" => return format!("{} [ OPTIONS ]", Place::SYNOPSIS),
        // tc's word may stand before it.
        "DEV" => "[dev] DEV".to_owned(),
        _ if !choices.is_empty() => {
            let names: Vec<&str> = choices.iter().map(|choice| choice.get_name()).collect();
            names.join(" | ")
        }
        _ if range.max_values() > 1 => format!("{name} ..."),
        _ => name,
    };
    match (arg.is_required_set(), choices.is_empty()) {
        (true, true) => word,
        (true, false) => format!("{{ {word} }}"),
        (false, _) => format!("[ {word} ]"),
    }
}

fn flag(arg: &Arg) -> String {
    let long = arg.get_long().unwrap_or_default();
    let range = arg.get_num_args().unwrap_or(ValueRange::SINGLE);
    match (arg.get_action().takes_values(), range.min_values()) {
        (false, _) => format!("[ --{long} ]"),
        (true, 0) => format!("[ --{long} [{}] ]", name(arg)),
        (true, _) => format!("[ --{long} {} ]", name(arg)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_command_once() {
        let mut command = Cli::command();
        command.build();
        let lines: Vec<String> = lines(&command, "turnstile")
            .into_iter()
            .map(|(names, arguments)| names + &arguments)
            .collect();
        assert_eq!(
            lines,
            [
                "turnstile port add|replace|change [dev] DEV [ root | parent CLASSID ] \
                 [ handle HANDLE ] [ OPTIONS ]",
                "turnstile port del [dev] DEV [ root | parent CLASSID ] [ handle HANDLE ]",
                "turnstile port show [ [dev] DEV ]",
                "turnstile pacer add|replace|change [dev] DEV [ root | parent CLASSID ] \
                 [ handle HANDLE ] [ OPTIONS ]",
                "turnstile pacer del [dev] DEV [ root | parent CLASSID ] [ handle HANDLE ]",
                "turnstile pacer show [ [dev] DEV ]",
                "turnstile transport set OPTION VALUE ...",
                "turnstile transport show",
                "turnstile flows [ --watch [TIME] ] [ --peers ] [ --links ]",
                "turnstile sockets [ FLAGS ]",
                "turnstile stats [ --all ]",
                "turnstile events [ --count N ]",
                "turnstile send ADDR:PORT [ FILE ] [ FLAGS ]",
                "turnstile recv [ADDR:]PORT [ --count N ] [ --discard ]",
                "turnstile bench server [ADDR:]PORT [ --over OVER ] [ --congestion NAME ]",
                "turnstile bench client ADDR:PORT ... [ FLAGS ]",
                "turnstile completions { bash | zsh | fish | elvish | powershell }",
                "turnstile man [ turnstile | tc-turnstile | tc-turnstile_pacer ]",
            ]
        );
    }
}
