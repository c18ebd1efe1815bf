// SPDX-License-Identifier: GPL-2.0
//! Tagged packets, whether the tag is in the frame or beside it: their flows are found, and their
//! tags stay.

use anyhow::{ensure, Result};
use turnstile_core::pacer::uapi::stat;

use super::bench::{Bench, Flow, DEV, FULL};
use super::flows::STEADY;
use crate::harness::Ctx;
use crate::tool::Tool;
use crate::topology::Builder;

const COUNT: u32 = 12;

pub(super) fn tagged(_: &mut Ctx) -> Result<()> {
    for in_frame in [false, true] {
        for flow in [Flow::v4(71), Flow::v6(72)] {
            let net = Builder::pair().build()?;
            for host in &net.hosts {
                host.ns
                    .ip(&format!("link add link {DEV} name tagged type vlan id 7"))?;
                host.ns.ip("link set tagged up")?;
            }
            let mut bench = Bench::on(net)?;
            if in_frame {
                bench.tag(7);
            } else {
                // The device writes the tag.
                bench.through("tagged")?;
            }
            bench.pacer(Tool::Tc, "add", &format!("{STEADY} initial-rate 10mbit"))?;
            bench.associate(&[flow])?;
            let before = bench.stats()?;
            bench.capture_on("tagged")?;
            bench.send(flow, 0, COUNT, FULL - 4)?;
            // A super-packet's segments have the tag, too.
            ensure!(bench.send_super(flow, 5)?, "dropped");
            let came = bench.arrivals()?;
            let stats = bench.stats()?;
            let paced = stats.app(stat::PACED_SENT) - before.app(stat::PACED_SENT);
            ensure!(
                paced == u64::from(COUNT) + 5
                    && came.iter().filter(|one| one.flow == flow).count() as u64 == paced,
                "tag in the frame: {in_frame}; {paced} were paced; by the tagged device came \
                 {came:?}"
            );
            ensure!(stats.app(stat::GSO_SPLITS) == 1, "{stats:?}");
            bench.adds_up()?;
        }
    }
    Ok(())
}
