// SPDX-License-Identifier: GPL-2.0
//! `q_turnstile.so`: with it in its library folder, stock tc parses, prints and JSON-prints the
//! turnstile qdisc; as `q_turnstile_pacer.so`, the host pacer.
//!
//! As `q_turnstile_mq.so` it does the same for the ports of several transmit queues.
//!
//! tc loads `q_KIND.so` on first sight of a qdisc kind and looks for the variable
//! `KIND_qdisc_util`, a table of functions (`ffi::QdiscUtil`, the same from iproute2 6.1 to 7.1).
//! What the functions do is in here, by way of `turnstile_netlink`; how they are called from C, and
//! call tc's own, is in `ffi`.
//!
//! tc finds the folder by `TC_LIB_DIR`, else it is the one that it was built with (on Debian
//! `/usr/lib/x86_64-linux-gnu/tc`).

mod ffi;

use turnstile_core::port::uapi;
use turnstile_netlink::print::{print_options, Printer};
use turnstile_netlink::stats::{print_class_stats, print_port_stats, Stats};
use turnstile_netlink::wire::decode_class_band;
use turnstile_netlink::{pacer, parse, Options};

use ffi::{Printing, Request};

/// What a callback gives back: `Err` is shown to the user, and makes tc give up.
type Outcome = Result<(), String>;

/// What precedes lines of statistics: tc's own lines begin with one space.
const INDENT: &str = "  ";

/// What tc asks of a qdisc kind.
trait Kind {
    /// `tc qdisc add|change|replace … KIND WORDS`
    fn parse_qdisc(words: &[String], request: &mut Request) -> Outcome;
    /// `tc class add|change|replace|del … KIND WORDS`
    fn parse_class() -> Outcome;
    /// `tc qdisc show`
    fn print_qdisc(options: &[u8], to: &mut Printing) -> Outcome;
    /// `tc class show`
    fn print_class(options: &[u8], to: &mut Printing) -> Outcome;
    /// `tc -s qdisc show` and `tc -s class show`
    fn print_stats(stats: &[u8], to: &mut Printing) -> Outcome;
}

/// `page`: the kind that has a man page.
fn usage(kind: &str, help: &str, page: &str) -> String {
    format!("Usage: ... {kind} OPTIONS\n\n{help}See tc-{page}(8).")
}

fn asks_for_help(words: &[String]) -> bool {
    words.iter().any(|word| word == "help")
}

/// The options of a port, of either kind.
fn parse_options(kind: &str, words: &[String], request: &mut Request) -> Outcome {
    if asks_for_help(words) {
        return Err(usage(kind, &Options::help(), uapi::KIND));
    }
    let options = parse(words).map_err(|error| format!("{kind}: {error}"))?;
    request.put_options(&options.encode())
}

/// `turnstile`
struct Port;

impl Kind for Port {
    fn parse_qdisc(words: &[String], request: &mut Request) -> Outcome {
        parse_options(uapi::KIND, words, request)
    }

    fn parse_class() -> Outcome {
        const KIND: &str = uapi::KIND;
        Err(format!(
            "{KIND}: classes cannot be added, changed or deleted: a port has one for each of its \
             bands. Options belong to the port: tc qdisc change ... {KIND} help"
        ))
    }

    fn print_qdisc(options: &[u8], to: &mut Printing) -> Outcome {
        let options =
            Options::decode(options).map_err(|error| format!("{}: {error}", uapi::KIND))?;
        print_options(&options, to);
        Ok(())
    }

    fn print_class(options: &[u8], to: &mut Printing) -> Outcome {
        let band =
            decode_class_band(options).map_err(|error| format!("{}: {error}", uapi::KIND))?;
        if let Some(band) = band {
            to.string("band", &band.to_string(), format_args!("band {band} "));
        }
        Ok(())
    }

    fn print_stats(stats: &[u8], to: &mut Printing) -> Outcome {
        match Stats::decode(stats).map_err(|error| format!("{}: {error}", uapi::KIND))? {
            Stats::Port(stats) => {
                to.open("stats");
                print_port_stats(&stats, INDENT, to);
                to.close();
            }
            // tc has opened "stats" already.
            Stats::Class(stats, markers) => print_class_stats(&stats, &markers, INDENT, to),
        }
        Ok(())
    }
}

/// `turnstile_mq`
struct Queues;

impl Kind for Queues {
    fn parse_qdisc(words: &[String], request: &mut Request) -> Outcome {
        parse_options(uapi::KIND_MQ, words, request)
    }

    fn parse_class() -> Outcome {
        const KIND: &str = uapi::KIND_MQ;
        Err(format!(
            "{KIND}: classes cannot be added, changed or deleted: there is one for each transmit \
             queue. Options belong to the qdisc: tc qdisc change ... {KIND} help"
        ))
    }

    fn print_qdisc(options: &[u8], to: &mut Printing) -> Outcome {
        let options =
            Options::decode(options).map_err(|error| format!("{}: {error}", uapi::KIND_MQ))?;
        print_options(&options, to);
        Ok(())
    }

    /// tc prints the queue's number and its port's handle.
    fn print_class(_: &[u8], _: &mut Printing) -> Outcome {
        Ok(())
    }

    /// Those of all ports together, or of all classes of one.
    fn print_stats(stats: &[u8], to: &mut Printing) -> Outcome {
        Port::print_stats(stats, to)
    }
}

/// `turnstile_pacer`
struct Pacer;

impl Kind for Pacer {
    fn parse_qdisc(words: &[String], request: &mut Request) -> Outcome {
        const KIND: &str = turnstile_core::pacer::uapi::KIND;
        if asks_for_help(words) {
            return Err(usage(KIND, &pacer::Options::help(), KIND));
        }
        let options = pacer::Options::parse(words).map_err(|error| format!("{KIND}: {error}"))?;
        request.put_options(&options.encode())
    }

    fn parse_class() -> Outcome {
        const KIND: &str = turnstile_core::pacer::uapi::KIND;
        Err(format!(
            "{KIND}: classes cannot be added, changed or deleted: there are :1, what passes by, \
             and :2, what is paced. Options belong to the pacer: tc qdisc change ... {KIND} help"
        ))
    }

    fn print_qdisc(options: &[u8], to: &mut Printing) -> Outcome {
        let options = pacer::Options::decode(options)
            .map_err(|error| format!("{}: {error}", turnstile_core::pacer::uapi::KIND))?;
        print_options(&options, to);
        Ok(())
    }

    /// The class's id says it all.
    fn print_class(_: &[u8], _: &mut Printing) -> Outcome {
        Ok(())
    }

    /// A pacer's; its classes have none.
    fn print_stats(stats: &[u8], to: &mut Printing) -> Outcome {
        let stats = pacer::Stats::decode(stats)
            .map_err(|error| format!("{}: {error}", turnstile_core::pacer::uapi::KIND))?;
        to.open("stats");
        pacer::print_stats(&stats, INDENT, to);
        to.close();
        Ok(())
    }
}
