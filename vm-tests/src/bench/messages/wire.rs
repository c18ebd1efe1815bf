// SPDX-License-Identifier: GPL-2.0
//! How many packets were on the wire, from what the hosts counted all the time: the kernel counts a
//! super-packet that arrives as the packets in it, by their ECN field.

use std::fs;

use anyhow::{Context, Result};

use crate::topology::Net;

/// Packets that the two hosts have received, of one version of IP.
pub(super) fn packets(net: &Net, v6: bool) -> Result<u64> {
    let mut all = 0;
    for host in &net.hosts {
        all += host.ns.enter(|| {
            // Of the calling thread: its namespace is not the process's.
            let file = if v6 { "snmp6" } else { "netstat" };
            let path = format!("/proc/thread-self/net/{file}");
            let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
            let counted = if v6 {
                of_snmp6(&text)
            } else {
                of_netstat(&text)
            };
            counted.with_context(|| format!("{path} does not count packets"))
        })?;
    }
    Ok(all)
}

/// Names of the four counters end so.
fn counts_packets(name: &str) -> bool {
    ["InNoECTPkts", "InECT1Pkts", "InECT0Pkts", "InCEPkts"]
        .iter()
        .any(|end| name.ends_with(end))
}

/// A line of names and one of figures.
fn of_netstat(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("IpExt:"));
    let (names, figures) = (lines.next()?, lines.next()?);
    let pairs = names.split_whitespace().zip(figures.split_whitespace());
    sum(pairs)
}

/// A line for each.
fn of_snmp6(text: &str) -> Option<u64> {
    sum(text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    }))
}

fn sum<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Option<u64> {
    let mut found = 0;
    let mut all = 0;
    for (_, figure) in pairs.filter(|(name, _)| counts_packets(name)) {
        found += 1;
        all += figure.parse::<u64>().ok()?;
    }
    (found == 4).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_counted_whatever_their_ecn_field() {
        let text = "TcpExt: SyncookiesSent\nTcpExt: 7\n\
                    IpExt: InOctets InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts\n\
                    IpExt: 9 1000 200 30 4\n";
        assert_eq!(of_netstat(text), Some(1234));
        assert_eq!(of_netstat("IpExt: InOctets\nIpExt: 9\n"), None);
        let text = "Ip6InReceives 9\nIp6InNoECTPkts 1000\nIp6InECT1Pkts 200\n\
                    Ip6InECT0Pkts 30\nIp6InCEPkts 4\n";
        assert_eq!(of_snmp6(text), Some(1234));
        assert_eq!(of_snmp6("Ip6InReceives 9\n"), None);
    }
}
