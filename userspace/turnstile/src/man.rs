// SPDX-License-Identifier: GPL-2.0
//! The man pages. What they have in common comes from the tables behind grammar and statistics.

use clap_mangen::roff::{bold, italic, roman, Inline, Roff};
use turnstile_core::options::Table;
use turnstile_core::port::config::Config;
use turnstile_netlink::options::Options;
use turnstile_netlink::stats::{ClassStats, MarkerStats, PortStats};

mod command;
mod ends;
mod pacer;
mod synopsis;

pub(crate) use command::turnstile;
pub(crate) use pacer::tc_turnstile_pacer;

/// tc-turnstile(8).
pub(crate) fn tc_turnstile() -> String {
    let mut page = page("TC-TURNSTILE");
    section(
        &mut page,
        "NAME",
        "turnstile \\- token-prioritized queueing for receiver-driven transports",
    );
    let of_options = Options::<Config>::synopsis();
    synopsis::of_tc(&mut page, "turnstile", of_options.into_iter());
    section(
        &mut page,
        "DESCRIPTION",
        "In a receiver-driven transport a data packet is sent only when a token from its receiver \
         arrives. Whoever forwards the tokens so decides what data there will be, and when. \
         turnstile does that on every port: tokens wait in strict-priority queues that share one \
         rate, such that the data they release fits the link they will come back over, and tokens \
         that waited too long are dropped rather than sent to no use. An idle token group saves up \
         nothing beyond one token.",
    );
    section(
        &mut page,
        "CLASSES",
        "A port has one class per band. They come and go with its options and cannot be added or \
         deleted. For handle 1: they are, from first to last to be sent (with order data-first, \
         data goes before the tokens):",
    );
    for (class, about) in [
        (
            "1:1 signal",
            "Connection set-up, acknowledgements and resend requests; ARP, neighbour \
            discovery, routing and other control. Not shaped with the tokens, but bounded by \
            signal-share: those beyond it are data.",
        ),
        (
            "1:10 to 1:17 token0 to token7",
            "Tokens by priority, 0 the highest. All together are \
            shaped to the token rate. Each queue has a cap, and tokens expire.",
        ),
        (
            "1:2 data",
            "Data that tokens released, and all other traffic. A child qdisc may be \
            attached here: tc qdisc add dev DEV parent 1:2 fq_codel.",
        ),
        (
            "1:3 unscheduled",
            "Packets sent in the first round trip without a token. Sent only when \
            there is nothing else.",
        ),
    ] {
        tagged(&mut page, vec![bold(class)], about);
    }
    section(
        &mut page,
        "SEVERAL QUEUES",
        "A device with several transmit queues has one lock for all with one port at its root. \
         The kind turnstile_mq, with the same options, gives each queue a port of its own, and all \
         of them one link, one rate of tokens and one share of signals: a queue that is alone has \
         all of the link, those that are busy share it by bytes, and a token that is due goes \
         before data of any queue. The limits of queues (token-limit, data-limit, signal-limit, \
         unscheduled) are each port's. Its classes are the queues, 1:1 the first; the ports of the \
         queues have handles of their own, which tc class show has, and so filters and child \
         qdiscs. SO_PRIORITY names classes by the handle of turnstile_mq. Options are changed \
         there, for all ports at once, and ports cannot be replaced one by one. phantom, ren, tcd \
         and pfc are for one port alone.",
    );
    section(
        &mut page,
        "CLASSIFICATION",
        "The first of these that names a class counts: the packet's priority (SO_PRIORITY, or \
         skbedit priority) if it is a class id of the port; filters attached to the port (tc \
         filter add dev DEV parent 1: ... classid 1:10); the packet's headers: link-layer and \
         network control is signal, a Turnstile header (UDP port 29813) says itself what the \
         packet is; the dscp map; else it is data.",
    );
    options(&mut page);
    statistics(&mut page);
    page.control("SH", ["EXAMPLES"]);
    example(
        &mut page,
        "A switch port of a device that knows its speed:",
        &["tc qdisc add dev swp1 root handle 1: turnstile"],
    );
    example(
        &mut page,
        "A veth device, which holds nothing back by itself, with fq_codel for the data:",
        &[
            "tc qdisc add dev veth0 root handle 1: turnstile link 1gbit",
            "tc qdisc add dev veth0 parent 1:2 fq_codel",
        ],
    );
    example(&mut page, "Credits of ExpressPass, which are not told apart by priority, recognized \
        by their UDP port:", &[
        "tc qdisc add dev swp1 root handle 1: turnstile priorities 1",
        "tc filter add dev swp1 parent 1: protocol ip flower ip_proto udp dst_port 5001 classid \
         1:10",
    ]);
    example(
        &mut page,
        "A host's card with several transmit queues:",
        &["tc qdisc add dev eth0 root handle 1: turnstile_mq tokens 10% unscheduled off"],
    );
    example(
        &mut page,
        "What every class did so far:",
        &["tc -s class show dev swp1"],
    );
    section(
        &mut page,
        "FILES",
        "q_turnstile.so in tc's library folder, or in $TC_LIB_DIR, teaches tc these words. Without \
         it tc can only delete the qdisc.",
    );
    section(
        &mut page,
        "SEE ALSO",
        "turnstile(8), tc-turnstile_pacer(8), tc(8), tc-fq_codel(8), tc-flower(8)",
    );
    page.render()
}

fn page(name: &str) -> Roff {
    let mut page = Roff::new();
    page.control(
        "TH",
        [
            name,
            "8",
            concat!("turnstile ", env!("CARGO_PKG_VERSION")),
            "Turnstile",
            "System administration",
        ],
    );
    // No hyphens that would break words to be typed, and no stretched spaces in examples.
    page.control("nh", []);
    page.control("ad", ["l"]);
    page
}

fn section(page: &mut Roff, name: &str, body: &str) {
    page.control("SH", [name]);
    // The dash of the NAME line has to reach whatis(1) as it is; Roff writes it itself.
    page.text([roman(body.replace("\\-", "-"))]);
}

fn text(page: &mut Roff, body: &str) {
    page.control("PP", []);
    page.text([roman(body)]);
}

fn tagged(page: &mut Roff, head: Vec<Inline>, body: &str) {
    page.control("TP", []);
    page.text(head);
    page.text([roman(body)]);
}

/// An option's allowed values, its default, and where they come from.
fn terms(page: &mut Roff, range: &str, default: &str, source: &str) {
    page.control("br", []);
    if !range.is_empty() {
        page.text([italic("Allowed: "), roman(format!("{range}."))]);
        page.control("br", []);
    }
    page.text([italic("Default: "), roman(format!("{default}."))]);
    if !source.is_empty() {
        page.control("br", []);
        page.text([italic("Source: "), roman(format!("{source}."))]);
    }
}

fn example(page: &mut Roff, about: &str, lines: &[&str]) {
    text(page, about);
    page.control("RS", ["4"]);
    page.control("nf", []);
    for line in lines {
        page.text([bold(*line)]);
    }
    page.control("fi", []);
    page.control("RE", []);
}

/// An entry for each option of a table.
fn each_option<T: Table>(page: &mut Roff) {
    for entry in Options::<T>::entries() {
        let name = entry.name;
        let head = match entry.value() {
            value if value.is_empty() => {
                vec![bold(name), roman(" | "), bold(format!("no-{name}"))]
            }
            value => vec![bold(name), roman(" "), italic(value)],
        };
        tagged(page, head, &entry.about());
        let default = Options::<T>::default_of(&entry);
        terms(page, &entry.allowed(), &default, entry.source());
    }
}

/// All options of a port.
fn options(page: &mut Roff) {
    section(
        page,
        "OPTIONS",
        "Rates, times and sizes have the units of tc(8): a rate is in bit, kbit, mbit, gbit or \
         tbit per second (kibit, ... by 1024), or in bytes with bps, kbps, ...; a time in s, ms, \
         us or ns; a size in b, kb, mb or gb (by 1024). Bare numbers are bit/s, us and bytes. A \
         change sets only the options that are given.",
    );
    each_option::<Config>(page);
}

/// All statistics of ports and classes.
fn statistics(page: &mut Roff) {
    section(
        page,
        "STATISTICS",
        "Beside what tc counts for every qdisc and class, a port reports these. In JSON, rates are \
         in bytes/s and times in ns.",
    );
    for (name, about) in PortStats::ABOUT {
        tagged(page, vec![bold(*name)], about.trim());
    }
    text(
        page,
        "A class reports these, in packets as they go over the wire. At any time, packets offered \
         are packets sent, plus queued, plus the drops by cause.",
    );
    for (name, about) in ClassStats::ABOUT {
        tagged(page, vec![bold(*name)], about.trim());
    }
    text(
        page,
        "The data class reports these of the markers that it has or had.",
    );
    for (name, about) in MarkerStats::about() {
        tagged(page, vec![bold(*name)], about.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole() {
        for (name, page) in [("TURNSTILE", turnstile()), ("TC-TURNSTILE", tc_turnstile())] {
            assert!(page.contains(&format!(".TH {name} 8 ")), "{page}");
            for entry in Options::<Config>::entries() {
                let name = entry.name.replace('-', "\\-");
                assert!(
                    page.contains(&format!("\\fB{name}\\fR")),
                    "{name} is not in\n{page}"
                );
            }
            for part in ["NAME", "SYNOPSIS", "DESCRIPTION", "STATISTICS", "EXAMPLES"] {
                assert!(
                    page.contains(&format!(".SH {part}\n")),
                    "{part} is not in\n{page}"
                );
            }
            for part in [
                "sojourn\\-max",
                "gso\\-drops",
                "phantom\\-marked",
                "0.01%..50% of the link",
            ] {
                assert!(page.contains(part), "{part} is not in\n{page}");
            }
        }
    }
}
