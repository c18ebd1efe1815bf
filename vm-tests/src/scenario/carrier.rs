// SPDX-License-Identifier: GPL-2.0
//! Transports to compare, with their configuration.

use anyhow::{Context, Result};

use crate::cmd::run_here;
use crate::topology::Fabric;
use crate::traffic::messages::Transport;

/// A transport with its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// TCP with this congestion control, and its shortest retransmission timeout in us.
    Tcp(&'static str, u32),
    /// Turnstile: `turnstile transport set` with these words at each host.
    Turnstile(String),
}

impl Carrier {
    /// Configures all hosts for it.
    ///
    /// # Errors
    /// When something is refused.
    pub fn configure(&self, fabric: &Fabric) -> Result<Transport> {
        if let Self::Turnstile(_) = self {
            run_here("modprobe turnstile", "")?.success()?;
        }
        for host in 0..fabric.hosts() {
            let ns = fabric.host(host);
            match self {
                Self::Tcp(control, rto) => {
                    // As an attribute of the route: the namespace's sysctl refuses algorithms that
                    // the machine does not allow to all users. It also turns on ECN, where the
                    // congestion control needs it.
                    fabric.tune_route(host, &format!("congctl {control}"))?;
                    ns.sysctl("net/ipv4/tcp_rto_min_us", &rto.to_string())?;
                    ns.sysctl("net/ipv4/tcp_no_metrics_save", "1")?;
                    // Large enough that windows limit nothing.
                    ns.sysctl("net/ipv4/tcp_rmem", "4096 2097152 33554432")?;
                    ns.sysctl("net/ipv4/tcp_wmem", "4096 262144 33554432")?;
                }
                Self::Turnstile(words) if words.is_empty() => {}
                Self::Turnstile(words) => {
                    ns.run(&format!("turnstile transport set {words}"))
                        .context("configuring the transport")?;
                }
            }
        }
        Ok(match self {
            Self::Tcp(..) => Transport::Tcp,
            Self::Turnstile(_) => Transport::Turnstile,
        })
    }
}
