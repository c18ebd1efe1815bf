// SPDX-License-Identifier: GPL-2.0
//! `q_turnstile.so`: with it in its library folder, stock tc parses, prints and JSON-prints the turnstile qdisc.
//!
//! tc loads `q_KIND.so` on first sight of a qdisc kind and looks for the variable `KIND_qdisc_util`, a table of functions
//! (`ffi::QdiscUtil`, the same from iproute2 6.1 to 7.1). What the functions do is in here, by way of `turnstile_netlink`;
//! how they are called from C, and call tc's own, is in `ffi`.
//!
//! tc finds the folder by `TC_LIB_DIR`, else it is the one that it was built with (on Debian
//! `/usr/lib/x86_64-linux-gnu/tc`).

mod ffi;

use turnstile_core::uapi::KIND;
use turnstile_netlink::print::{print_options, Printer};
use turnstile_netlink::stats::{print_class_stats, print_port_stats, Stats};
use turnstile_netlink::wire::decode_class_band;
use turnstile_netlink::{parse, table, Options};

use ffi::{Printing, Request};

/// What a callback gives back: `Err` is shown to the user, and makes tc give up.
type Outcome = Result<(), String>;

/// What precedes lines of statistics: tc's own lines begin with one space.
const INDENT: &str = "  ";

fn explain() -> String {
    format!(
        "Usage: ... {KIND} OPTIONS\n\n{}See tc-turnstile(8).",
        table::help()
    )
}

/// `tc qdisc add|change|replace … turnstile WORDS`
fn parse_qdisc(words: &[String], request: &mut Request) -> Outcome {
    if words.iter().any(|word| word == "help") {
        return Err(explain());
    }
    let options = parse(words).map_err(|error| format!("{KIND}: {error}"))?;
    request.put_options(&options.encode())
}

/// `tc class add|change|replace|del … turnstile WORDS`
fn parse_class() -> Outcome {
    Err(format!(
        "{KIND}: classes cannot be added, changed or deleted: a port has one for each of its bands. \
         Options belong to the port: tc qdisc change ... {KIND} help"
    ))
}

/// `tc qdisc show`
fn print_qdisc(options: &[u8], to: &mut Printing) -> Outcome {
    let options = Options::decode(options).map_err(|error| format!("{KIND}: {error}"))?;
    print_options(&options, to);
    Ok(())
}

/// `tc class show`
fn print_class(options: &[u8], to: &mut Printing) -> Outcome {
    if let Some(band) = decode_class_band(options).map_err(|error| format!("{KIND}: {error}"))? {
        to.string("band", &band.to_string(), format_args!("band {band} "));
    }
    Ok(())
}

/// `tc -s qdisc show` and `tc -s class show`
fn print_stats(stats: &[u8], to: &mut Printing) -> Outcome {
    match Stats::decode(stats).map_err(|error| format!("{KIND}: {error}"))? {
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
