// SPDX-License-Identifier: GPL-2.0
//! tc-turnstile_pacer(8).

use clap_mangen::roff::{bold, Roff};
use turnstile_core::pacer::config::Config;
use turnstile_netlink::options::Options;
use turnstile_netlink::pacer::Stats;

use super::{each_option, example, page, section, synopsis, tagged};

/// The page.
pub(crate) fn tc_turnstile_pacer() -> String {
    let mut page = page("TC-TURNSTILE_PACER");
    section(
        &mut page,
        "NAME",
        "turnstile_pacer \\- spaces out the packets of large flows that meet congestion",
    );
    let of_options = Options::<Config>::synopsis();
    synopsis::of_tc(&mut page, "turnstile_pacer", of_options.into_iter());
    section(
        &mut page,
        "DESCRIPTION",
        "Where switches mark packets before a queue forms, as with the phantom queue of HULL, \
         bursts are taken for congestion: those of network cards that segment what they are given, \
         and those of TCP. turnstile_pacer is HULL's host pacer. It listens to the \
         acknowledgements that the device receives. One with ECN-Echo has its flow paced with a \
         certain probability: its packets go through a token bucket whose rate follows what the \
         host sends. All other packets pass by at once. A flow that has been idle for a while is \
         paced no more. It is meant for hosts that use DCTCP.",
    );
    section(
        &mut page,
        "CLASSES",
        "There are two, which cannot be added or deleted. For handle 1: they are",
    );
    for (class, about) in [
        (
            "1:1",
            "What passes by. A child qdisc may be attached here, such as a port: tc qdisc add \
            dev DEV parent 1:1 turnstile.",
        ),
        ("1:2", "What is paced."),
    ] {
        tagged(&mut page, vec![bold(class)], about);
    }
    section(
        &mut page,
        "CLASSIFICATION",
        "A filter that names a class (tc filter add dev DEV parent 1: ... classid 1:2) has the \
         last word. Without one, packets of TCP flows that are associated are paced, over IPv4 and \
         IPv6, and all others pass by, fragments included. Flows whose ends have agreed on \
         accurate ECN (RFC 9768) cannot be told from others, and their acknowledgements mean \
         something else: do not use it with sysctl net.ipv4.tcp_ecn at 3 or above.",
    );
    options(&mut page);
    section(
        &mut page,
        "STATISTICS",
        "Beside what tc counts for every qdisc and class, a pacer reports these. In JSON, rates \
         are in bytes/s and times in ns.",
    );
    for (name, about) in Stats::ABOUT {
        tagged(&mut page, vec![bold(*name)], about.trim());
    }
    page.control("SH", ["EXAMPLES"]);
    example(
        &mut page,
        "A host with 10 Gbit/s and round trips of 20 us, with the numbers of HULL's simulations:",
        &[
            "sysctl net.ipv4.tcp_congestion_control=dctcp",
            "tc qdisc add dev eth0 root handle 1: turnstile_pacer interval 7.2us beta 375 idle 1ms",
        ],
    );
    example(
        &mut page,
        "Below the data class of a port:",
        &[
            "tc qdisc add dev eth0 root handle 1: turnstile",
            "tc qdisc add dev eth0 parent 1:2 handle 2: turnstile_pacer",
        ],
    );
    example(
        &mut page,
        "A backup that is always paced:",
        &["tc filter add dev eth0 parent 1: protocol ip flower ip_proto tcp dst_port 873 classid \
            1:2"],
    );
    section(
        &mut page,
        "NOTES",
        "Acknowledgements have to come in by the device that the pacer is on. On a device with \
         several transmit queues, a pacer at the root puts them under one lock; below the classes \
         of mq, each of them hears all acknowledgements.",
    );
    section(
        &mut page,
        "FILES",
        "q_turnstile_pacer.so in tc's library folder, or in $TC_LIB_DIR, teaches tc these words. \
         Without it tc can only delete the qdisc.",
    );
    section(
        &mut page,
        "SEE ALSO",
        "turnstile(8), tc-turnstile(8), tc(8), tc-fq(8)",
    );
    page.render()
}

fn options(page: &mut Roff) {
    section(
        page,
        "OPTIONS",
        "Rates, times and sizes have the units of tc(8). A change sets only the options that are \
         given; what is queued, and which flows are paced, stays.",
    );
    each_option::<Config>(page);
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnstile_netlink::pacer::Options;

    #[test]
    fn page_is_whole() {
        let page = tc_turnstile_pacer();
        for entry in Options::entries() {
            let name = entry.name.replace('-', "\\-");
            assert!(
                page.contains(&format!("\\fB{name}\\fR")),
                "{name} is not in\n{page}"
            );
        }
        for (name, _) in Stats::ABOUT {
            assert!(page.contains(&name.replace('-', "\\-")), "{name}");
        }
        for part in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "CLASSES",
            "STATISTICS",
            "EXAMPLES",
        ] {
            assert!(page.contains(&format!(".SH {part}\n")), "{part}");
        }
    }
}
