// SPDX-License-Identifier: GPL-2.0
//! Another program has the transport's UDP port.

use std::net::UdpSocket;

use super::*;

/// Its name and number are told.
pub(super) fn udp_port(_: &mut Ctx) -> Result<()> {
    let name = std::fs::read_to_string("/proc/self/comm").context("comm")?;
    for (at, address) in ["0.0.0.0:29813", "[::]:29813"].iter().enumerate() {
        let ns = Netns::create(&format!("a{at}"))?;
        let taken = ns.enter(|| UdpSocket::bind(address).context("binding"))?;
        let holder = format!("taken by {} (process {})", name.trim(), std::process::id());
        for line in [
            "transport set rto 1ms",
            "send 127.0.0.1:5000 --size 1",
            "recv 5000",
            "bench client 127.0.0.1:5000",
        ] {
            let said = failed(ns.try_run(&format!("turnstile {line}"))?, 2)?;
            says(&said, &["UDP port 29813", &holder])?;
        }
        drop(taken);
        ns.run("turnstile transport set rto 1ms")?;
    }
    Ok(())
}
