// SPDX-License-Identifier: GPL-2.0
//! What the generator has to come to, so that a run means something.

use anyhow::{ensure, Result};

use super::tally::Tally;

/// What may fail each time: the kernel refuses it, or it takes chance.
const MAY_FAIL: &[&str] = &[
    "a class made or removed",
    "a module unloaded",
    "a request about qdiscs of any kind",
];
/// Calls of one kind after which one must have been done.
const MANY: u64 = 200;

/// Calls of these kinds that the kernel must do as asked, in each round on average: a fifth of what
/// was seen, or less.
const CALLS: &[(&str, u64)] = &[
    ("socket", 80),
    ("bind", 20),
    ("connect", 30),
    ("sendmsg", 100),
    ("sendmsg with ancillary data", 15),
    ("sendmsg with more to come", 30),
    ("recvmsg", 10),
    ("recvmsg to a message's end", 3),
    ("recvmsg of reports", 15),
    ("setsockopt of the transport's", 20),
    ("setsockopt of sockets and IP", 60),
    ("splice", 5),
    ("a socket sent over another", 10),
    ("a whole message", 10),
    ("a packet again", 40),
    ("a packet with something changed", 80),
    ("a forged packet", 200),
    ("a dump", 30),
    ("options that are allowed", 15),
    ("events", 8),
    ("a port at the root", 10),
    ("a pacer at the root", 8),
    ("a child", 2),
    ("a change", 5),
    ("a filter", 3),
    ("packets through a port", 15),
    ("packets through a pacer", 5),
    ("a device down", 8),
    ("a device made", 3),
    ("a device removed", 3),
    ("a group's program attached", 7),
    ("a socket's filter attached", 5),
    ("a group that goes before its sockets", 4),
    ("a namespace that ends", 6),
    ("a user namespace", 3),
];

/// How far counters of the transport must rise in each round on average.
const COUNTERS: &[(&str, u64)] = &[
    ("out_opened", 100),
    ("out_delivered", 15),
    ("in_opened", 20),
    ("in_delivered", 15),
    ("out_refused", 20),
    ("out_aborted", 10),
    ("token_valid", 1000),
    ("data_resent", 50),
    ("resend_received", 20),
    ("probe_sent", 20),
    ("refused_filter", 10),
    ("malformed_size", 5),
];

/// Refuses a tally of so many rounds that did not come to it.
pub(super) fn check(tally: &Tally, rounds: u64) -> Result<()> {
    for kind in tally.kinds().filter(|kind| !MAY_FAIL.contains(kind)) {
        let count = tally.of(kind);
        ensure!(
            count.tried < MANY || count.done > 0,
            "{kind}: never done as asked in {} calls",
            count.tried
        );
    }
    for (kind, least) in CALLS {
        let (done, least) = (tally.of(kind).done, least * rounds);
        ensure!(done >= least, "{kind}: done {done} times, not {least}");
    }
    for (counter, least) in COUNTERS {
        let (risen, least) = (tally.counted(counter), least * rounds);
        ensure!(risen >= least, "{counter}: {risen}, not {least}");
    }
    Ok(())
}
