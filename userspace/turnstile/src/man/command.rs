// SPDX-License-Identifier: GPL-2.0
//! turnstile(8). What commands and flags there are, comes from what can be typed.

use clap::{Arg, Command, CommandFactory};
use clap_mangen::roff::{bold, italic, roman, Roff};
use turnstile_core::transport::config::Config;
use turnstile_netlink::transport::show::counters;

use super::{
    each_option, ends, example, options, page, section, statistics, synopsis, tagged, text,
};
use crate::cli::Cli;

/// The page.
pub(crate) fn turnstile() -> String {
    let mut page = page("TURNSTILE");
    section(
        &mut page,
        "NAME",
        "turnstile \\- token-prioritized network ports, and a transport that sends when tokens \
         come",
    );
    let mut command = Cli::command();
    command.build();
    synopsis::of_command(&mut page, &command);
    section(
        &mut page,
        "DESCRIPTION",
        "A port is the queueing discipline of kind turnstile on a network device. It sends signals \
         first, releases the packets called tokens from strict-priority queues at one common rate, \
         gives data what the link has left, and drops tokens that waited too long to be of use. \
         tc-turnstile(8) describes it. This command configures ports over netlink, with the words \
         that tc(8) would take, and needs neither tc nor its plugin.",
    );
    text(
        &mut page,
        "A pacer is the queueing discipline of kind turnstile_pacer on a host's network device. It \
         spaces out the packets of large TCP flows that meet congestion, and lets all others pass. \
         tc-turnstile_pacer(8) describes it, its options and its statistics; pacer show -s prints \
         the latter.",
    );
    text(
        &mut page,
        "The transport carries messages of up to 1 GiB between hosts. A receiver says with tokens \
         when a sender may send a packet, and so whose message comes first and how fast. Programs \
         use it by sockets of type SOCK_RDM and protocol 259; this command configures it in a \
         network namespace, shows what is under way, sends and receives, and measures. It needs \
         the module turnstile.",
    );
    commands(&mut page, &command);
    flags(&mut page, &command);
    for path in [
        &["flows"] as &[&str],
        &["sockets"],
        &["stats"],
        &["events"],
        &["send"],
        &["recv"],
        &["bench", "server"],
        &["bench", "client"],
    ] {
        of_command(&mut page, &command, path);
    }
    workloads(&mut page);
    transport(&mut page);
    options(&mut page);
    statistics(&mut page);
    examples(&mut page);
    ends::exit_status(&mut page);
    ends::diagnostics(&mut page);
    ends::completion(&mut page);
    section(
        &mut page,
        "SEE ALSO",
        "tc-turnstile(8), tc-turnstile_pacer(8), tc(8), ip-netns(8)",
    );
    page.render()
}

/// All commands, with those below them.
fn commands(page: &mut Roff, command: &Command) {
    page.control("SH", ["COMMANDS"]);
    for top in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help")
    {
        let below: Vec<_> = top
            .get_subcommands()
            .filter(|sub| sub.get_name() != "help")
            .collect();
        if below.is_empty() {
            about(page, top.get_name(), top);
        }
        for sub in below {
            about(page, &format!("{} {}", top.get_name(), sub.get_name()), sub);
        }
    }
    text(
        page,
        "Without root and parent, the device's root is meant. CLASSID is MAJOR:MINOR and HANDLE is \
         MAJOR:, in hex. A line that port show prints can be typed back after turnstile port add, \
         less its first word, and one of pacer show after turnstile pacer add; one that transport \
         show prints, after turnstile transport set, less its first word.",
    );
}

fn about(page: &mut Roff, name: &str, command: &Command) {
    let about = command.get_about().map(ToString::to_string);
    tagged(
        page,
        vec![bold(name)],
        &format!("{}.", about.unwrap_or_default()),
    );
}

/// What begins an entry for a flag or an argument.
fn head(page: &mut Roff, flag: &Arg) {
    let names = match (flag.get_short(), flag.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        _ => String::new(),
    };
    let value = flag
        .get_value_names()
        .filter(|_| flag.get_action().takes_values())
        .map(|names| names.join(" "));
    let mut words = Vec::new();
    if !names.is_empty() {
        words.push(bold(names));
    }
    if let Some(value) = value {
        if !words.is_empty() {
            words.push(roman(" "));
        }
        words.push(italic(value));
    }
    let mut body = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let choices: Vec<String> = flag
        .get_possible_values()
        .iter()
        .filter(|_| flag.get_action().takes_values())
        .map(|value| match value.get_help() {
            Some(help) => format!("{} ({help})", value.get_name()),
            None => value.get_name().to_owned(),
        })
        .collect();
    if !choices.is_empty() {
        body += &format!(": {}", choices.join(", "));
    }
    let defaults: Vec<_> = flag
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if !(defaults.is_empty() || flag.is_hide_default_value_set())
        && flag.get_action().takes_values()
    {
        body += &format!(". Default: {}", defaults.join(" "));
    }
    tagged(page, words, &format!("{body}."));
}

/// Flags of all commands.
fn flags(page: &mut Roff, command: &Command) {
    page.control("SH", ["FLAGS"]);
    for flag in command.get_arguments().filter(|flag| flag.is_global_set()) {
        head(page, flag);
    }
    text(
        page,
        "They may stand anywhere, also among the words of a port, a pacer or the transport.",
    );
}

/// Arguments and flags of one command.
fn of_command(page: &mut Roff, command: &Command, path: &[&str]) {
    let found = path
        .iter()
        .try_fold(command, |command, name| command.find_subcommand(name));
    let Some(found) = found else {
        return;
    };
    section(
        page,
        &format!("FLAGS OF {}", path.join(" ").to_uppercase()),
        &found
            .get_about()
            .map(|about| format!("{about}."))
            .unwrap_or_default(),
    );
    for flag in found.get_arguments() {
        if !flag.is_global_set() && flag.get_id() != "help" {
            head(page, flag);
        }
    }
}

fn workloads(page: &mut Roff) {
    section(
        page,
        "WORKLOADS",
        "A message's time is from the call that sends it until its sender knows that the receiver \
         has all of it: the completion from the socket's error queue, or over TCP an answer of one \
         byte. The slowdown is that time over size / link + base RTT, in which no header is \
         counted. Percentiles are nearest ranks. A seed gives the same sizes, times and receivers \
         on every machine.",
    );
    for (name, body) in [
        (
            "web-search",
            "Of the DCTCP paper (SIGCOMM 2010, figure 4), mean 1.66 MB.",
        ),
        (
            "data-mining",
            "Of the VL2 paper (SIGCOMM 2009, figure 2), mean 7.47 MB.",
        ),
        ("imc10", "Of Benson, Akella and Maltz (IMC 2010)."),
        ("hadoop", "Of a Hadoop cluster (Roy et al., SIGCOMM 2015)."),
        ("cache-follower", "Of caches of the web (the same)."),
    ] {
        tagged(page, vec![bold(name)], body);
    }
    text(
        page,
        "The first three are the points that the simulations of pFabric (SIGCOMM 2013) and pHost \
         (CoNEXT 2015) draw from, linear in between, with packets of 1460 bytes.",
    );
}

/// All options of the transport.
fn transport(page: &mut Roff) {
    section(
        page,
        "OPTIONS OF THE TRANSPORT",
        "They hold for a network namespace. transport set changes those that are given, all or \
         none, at once and for messages under way. In JSON, rates are in bytes/s, times in ns, \
         shares fractions of one.",
    );
    each_option::<Config>(page);
    section(
        page,
        "COUNTERS OF THE TRANSPORT",
        "Since the network namespace was made.",
    );
    for (name, _, about) in counters() {
        tagged(page, vec![bold(name)], about);
    }
}

fn examples(page: &mut Roff) {
    page.control("SH", ["EXAMPLES"]);
    for (about, line) in [
        (
            "A switch port with two token priorities, tokens at 5 % of a 10 Gbit/s link:",
            "turnstile port add swp1 handle 1: link 10gbit tokens 5% priorities 2",
        ),
        (
            "Let data go before tokens, without loss of what is queued:",
            "turnstile port change swp1 order data-first",
        ),
        (
            "Which token queue drops most?",
            "turnstile -sj port show swp1 | jq '.[].classes | max_by(.stats.\"over-limit\") | \
             .band'",
        ),
        (
            "The same options for another port:",
            "turnstile port add swp2 $(turnstile port show swp1 | cut -d' ' -f3-)",
        ),
        (
            "Messages with the earliest deadline first, and tokens that expire (clocks must \
             agree):",
            "turnstile transport set policy top schedule edf token-expiry 20us",
        ),
        (
            "Back to the defaults of two options:",
            "turnstile transport set link auto rto 2ms",
        ),
        (
            "Which messages are under way, every 200 ms:",
            "turnstile flows --watch 200ms",
        ),
        (
            "Who has received what and does not read it?",
            "turnstile -j sockets | jq '.[] | select(.\"recv-q\" > 0) | .processes'",
        ),
        (
            "End what is connected to a port that nobody should use:",
            "turnstile sockets --peer-port 5000 --kill",
        ),
        (
            "Copy a file, with the highest priority:",
            "turnstile recv 5000 --count 1 > copy        # there\n\
             turnstile send 10.0.0.2:5000 file --priority 0",
        ),
        (
            "The web search workload at 60 % of a 10 Gbit/s link to two servers, and the same over \
             DCTCP:",
            "turnstile bench server 5000\nturnstile bench client 10.0.0.2:5000 10.0.0.3:5000 \
             --pattern poisson --sizes web-search --link 10gbit --base-rtt 48us -c 10000 --svg \
             top.svg\nturnstile bench server 5001 --over tcp --congestion dctcp\nturnstile bench \
             client 10.0.0.2:5001 10.0.0.3:5001 --over tcp --congestion dctcp --pattern poisson \
             --sizes web-search --link 10gbit --base-rtt 48us -c 10000",
        ),
    ] {
        let lines: Vec<&str> = line.lines().collect();
        example(page, about, &lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnstile_netlink::transport::Settings;

    #[test]
    fn every_command_flag_option_and_counter_is_there() {
        let page = turnstile();
        let has = |what: &str| {
            let escaped = what.replace('-', "\\-");
            assert!(page.contains(&escaped), "{what} is not in\n{page}");
        };
        for entry in Settings::entries() {
            has(&format!("\\fB{}\\fR \\fI{}\\fR", entry.name, entry.value()));
        }
        for (name, _, about) in counters() {
            has(&format!("\\fB{name}\\fR"));
            has(about.split_whitespace().next().unwrap());
        }
        for what in [
            "\\fBbench client\\fR",
            "\\fBflows\\fR",
            "\\fBsockets\\fR",
            "--base-rtt",
            "\\fITIME\\fR",
            "incast (Rounds of",
            "Default: 64kb.",
        ] {
            has(what);
        }
    }
}
