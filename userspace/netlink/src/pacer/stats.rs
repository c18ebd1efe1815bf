// SPDX-License-Identifier: GPL-2.0
//! What a pacer counts: its `TCA_XSTATS`.

use turnstile_core::pacer::uapi::stat;

use crate::attr::{attributes, Malformed};
use crate::print::Printer;
use crate::stats::{print_fields, statistics, Unit};

statistics! {
    /// Statistics of a pacer, in packets as they go over the wire. At any time, of either kind,
    /// packets offered are packets sent, queued, over limit, and lost.
    Stats from stat {
        /// bytes/s, rounded down: the token bucket's rate now.
        rate: RATE64, "rate", Rate;
        /// How often the rate was worked out anew.
        updates: UPDATES, "updates", Count;
        /// Flows that are associated now.
        flows: FLOWS, "flows", Count;
        /// The most flows that were associated at once.
        max_flows: MAX_FLOWS, "max-flows", Count;
        /// Acknowledgements with ECN-Echo that were seen.
        echoes: ECHOES, "echoes", Count;
        /// Flows that such an acknowledgement associated.
        associated: ASSOCIATED, "associated", Count;
        /// Flows that were to be associated when the table was full.
        table_full: TABLE_FULL, "table-full", Count;
        /// Associations that ended because the flow was idle.
        aged: AGED, "aged", Count;
        /// Packets that passed by the bucket: offered.
        pass_offered: PASS_OFFERED, "pass-offered", Count;
        /// Packets that passed by: sent.
        pass_sent: PASS_SENT, "pass-sent", Count;
        /// Packets that pass by: now queued.
        pass_queued: PASS_QUEUED, "pass-queued", Count;
        /// Packets that were to pass by, dropped because their queue was at its cap.
        pass_over_limit: PASS_OVER_LIMIT, "pass-over-limit", Count;
        /// Packets that were to pass by, dropped by a change, a reset, or a child qdisc.
        pass_lost: PASS_LOST, "pass-lost", Count;
        /// Packets for the bucket: offered.
        paced_offered: PACED_OFFERED, "paced-offered", Count;
        /// Packets for the bucket: sent.
        paced_sent: PACED_SENT, "paced-sent", Count;
        /// Packets that wait for tokens now.
        paced_queued: PACED_QUEUED, "paced-queued", Count;
        /// Packets for the bucket, dropped because the queue was at its cap.
        paced_over_limit: PACED_OVER_LIMIT, "paced-over-limit", Count;
        /// Packets for the bucket, dropped by a change or a reset.
        paced_lost: PACED_LOST, "paced-lost", Count;
        /// Bytes on the wire of what waits for tokens now.
        backlog: BACKLOG, "bucket-backlog", Count;
        /// The most bytes that waited for tokens at once, as tc counts them.
        max_backlog: MAX_BACKLOG, "max-backlog", Count;
        /// ns: mean time that packets waited for tokens.
        delay_mean: DELAY_MEAN, "delay-mean", Time;
        /// ns: the longest such time.
        delay_max: DELAY_MAX, "delay-max", Time;
        /// Times a dequeue found packets, but not the tokens for them.
        waits: WAITS, "waits", Count;
        /// Packets that a filter's action dropped.
        filter_drops: FILTER_DROPS, "filter-drops", Count;
        /// Packets whose filter named a class that the pacer does not have.
        filter_misses: FILTER_MISSES, "filter-misses", Count;
        /// GSO super-packets split into wire packets.
        gso_splits: GSO_SPLITS, "gso-splits", Count;
    }
}

/// Shows a pacer's statistics.
pub fn print_stats(stats: &Stats, indent: &str, to: &mut dyn Printer) {
    print_fields(&stats.fields(), 4, indent, to);
}
