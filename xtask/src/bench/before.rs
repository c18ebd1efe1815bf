// SPDX-License-Identifier: GPL-2.0
//! What ports cost before: none may come to cost more again.

/// For each set-up of ours its instructions per packet, called directly and by the whole transmit
/// path less what that costs without a queue: as the command measured them before a packet that
/// leaves at once needed one reading of the clock (docs/cost.md).
pub(super) const BEFORE: &[(&str, f64, f64)] = &[
    ("turnstile/class-id", 271.0, 582.0),
    ("turnstile/header", 338.0, 649.0),
    ("turnstile/header-ipv6", 343.0, 654.0),
    ("turnstile/header-vlan", 801.2, 1112.2),
    ("turnstile/dscp", 319.0, 630.0),
    ("turnstile/u32", 805.8, 1116.8),
    ("turnstile/flower", 1686.8, 2003.8),
    ("turnstile/shaped", 327.2, 638.2),
    ("turnstile/shaped-data", 356.0, 667.0),
    ("turnstile/data-first", 351.5, 662.5),
    ("turnstile/data", 299.0, 610.0),
    ("turnstile/fq_codel", 1106.0, 1417.0),
    ("turnstile/split", 2186.9, 3324.3),
];

/// Instructions of a message of ours before addresses were validated and memory was accounted, the
/// median of the same batches, and of a byte of a long one, as it comes and at 100 Mbit/s.
pub(super) const MESSAGES_BEFORE: &[(&str, f64)] = &[
    ("100B", 83_590.0),
    ("10KB", 245_860.0),
    ("bulk", 30.0),
    ("bulk-paced", 31.65),
];

/// What each load costs with Turnstile, in times of what it does with TCP in the same run, as last
/// measured; where TCP's own figure moves, in times of [another's](reference()). Who makes it
/// cheaper lowers the figure; nobody raises it, unless TCP has become cheaper: through a port by
/// half, when its super-packets began to stay whole.
pub(super) const RATIOS: &[(&str, f64)] = &[
    ("100B", 2.240),
    ("10KB", 2.747),
    ("1MB", 6.727),
    ("bulk", 5.417),
    ("bulk-paced", 6.494),
    ("100B-v6", 2.224),
    ("10KB-v6", 2.626),
    ("bulk-paced-v6", 2.464),
    ("100B-port", 2.267),
    ("10KB-port", 2.682),
    ("bulk-paced-port", 6.508),
    ("one-way-100B", 1.556),
    ("one-way-100B-x1000", 3.280),
    ("one-way-10KB", 2.374),
    ("one-way-10KB-x1000", 4.023),
    ("100-sockets", 1.992),
    ("100-sockets-x1000", 2.855),
    ("4000-sockets", 2.087),
    ("4000-sockets-x1000", 2.906),
];

/// What a load is compared with.
pub(super) fn reference(load: &str) -> &'static str {
    match load {
        // TCP took 3.10, 3.03 and 2.34 instructions for a byte in three builds of ours, whose own
        // figure was the same within 2 %; without offloads it moved by 2 %, too.
        "bulk-paced-v6" => "tcp-plain",
        _ => "tcp",
    }
}
