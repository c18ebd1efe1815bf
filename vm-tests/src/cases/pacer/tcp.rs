// SPDX-License-Identifier: GPL-2.0
//! The kernel's own TCP, whose packets are marked on the way.

use anyhow::{ensure, Result};
use turnstile_core::pacer::uapi::stat;

use super::bench::{marked_link, DEV};
use crate::harness::Ctx;
use crate::raw_netlink::Tc;
use crate::traffic::bulk;

/// A switch marks one packet in five; the acknowledgements that say so associate the flow, and its
/// super-packets are split and paced. All bytes arrive.
pub(super) fn with_marks(ctx: &mut Ctx) -> Result<()> {
    const BYTES: u64 = 4_000_000;
    let net = marked_link()?;
    let [host, peer] = &net.hosts[..] else {
        anyhow::bail!("not two hosts")
    };
    host.ns.run(&format!(
        "turnstile pacer add {DEV} root handle 1: initial-rate 1gbit associate 100% idle 60s limit \
         10mb"
    ))?;
    let mut tc = Tc::open(&host.ns, DEV)?;
    for to in [peer.v4.into(), peer.v6.into()] {
        let before = tc.get(0x1_0000)?.stats;
        let took = bulk(&host.ns, &peer.ns, to, BYTES)?;
        let after = tc.get(0x1_0000)?.stats;
        let grown = |number| after.app(number) - before.app(number);
        ctx.note(format!(
            "{to}: {} ms; {} echoes, {} flows associated; {} packets paced and {} passed by; \
             waited {} ns on average; rate {} B/s",
            took.as_millis(),
            grown(stat::ECHOES),
            grown(stat::ASSOCIATED),
            grown(stat::PACED_SENT),
            grown(stat::PASS_SENT),
            after.app(stat::DELAY_MEAN),
            after.app(stat::RATE64),
        ));
        ensure!(
            grown(stat::ECHOES) > 0 && grown(stat::ASSOCIATED) == 1,
            "{to}: {after:?}"
        );
        // All but what left before the first mark came back.
        ensure!(
            grown(stat::PACED_SENT) > BYTES / 1460 / 2,
            "{to}: only {} packets were paced",
            grown(stat::PACED_SENT)
        );
    }
    Ok(())
}
