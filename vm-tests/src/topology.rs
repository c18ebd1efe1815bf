// SPDX-License-Identifier: GPL-2.0
//! Networks of namespaces and veth.
//!
//! For tests of what a port does, [`Builder`]: links that take no time. For timing and experiments,
//! [`Plan`]: star, dumbbell, leaf-spine, parking lot or any other graph, of links with an exact
//! rate, delay and buffer.
//!
//! [`Builder`] has three shapes: [`Builder::pair`], two hosts on one link; [`Builder::bridged`],
//! hosts on a switch that is a Linux bridge; [`Builder::routed`], hosts on a switch that routes. A
//! switch's device towards host i is `p{i}`, counted from 1; a host's device is `eth0`. Addresses,
//! neighbours and forwarding entries are set beforehand, so that nothing travels but what a test
//! sends.

mod fabric;
mod link;
mod plan;

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::{ensure, Result};

use crate::cmd::run_here;
use crate::netns::Netns;

pub use fabric::{v6, Fabric, Node, Port};
pub use link::{Link, Shaper};
pub use plan::{NodeId, Plan};

/// A host.
#[derive(Debug)]
pub struct Host {
    /// Its namespace.
    pub ns: Netns,
    /// IPv4 address of eth0.
    pub v4: Ipv4Addr,
    /// IPv6 address of eth0.
    pub v6: Ipv6Addr,
    /// Ethernet address of eth0.
    pub mac: String,
}

/// A network.
#[derive(Debug)]
pub struct Net {
    /// The hosts, numbered from 1 in names and addresses.
    pub hosts: Vec<Host>,
    /// The switch; in a pair there is none.
    pub switch: Option<Netns>,
}

impl Net {
    /// Where packets to host `index` (from 0) leave their last queue: the namespace and its device.
    pub fn port_to(&self, index: usize) -> (&Netns, String) {
        match &self.switch {
            Some(switch) => (switch, format!("p{}", index + 1)),
            // In a pair the other host sends.
            None => (&self.hosts[1 - index].ns, "eth0".into()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Pair,
    Bridged,
    Routed,
}

/// How a network is to be made.
#[derive(Clone, Debug)]
pub struct Builder {
    shape: Shape,
    hosts: usize,
    mtu: u32,
    queues: u32,
    offloads: bool,
    static_neighbours: bool,
}

impl Builder {
    fn new(shape: Shape, hosts: usize) -> Self {
        Self {
            shape,
            hosts,
            mtu: 1500,
            queues: 1,
            offloads: true,
            static_neighbours: true,
        }
    }

    /// Two hosts on one link.
    pub fn pair() -> Self {
        Self::new(Shape::Pair, 2)
    }

    /// `hosts` (at most 200) on a bridge; all in one subnet.
    pub fn bridged(hosts: usize) -> Self {
        Self::new(Shape::Bridged, hosts)
    }

    /// `hosts` (at most 200) on a router; each in a subnet of its own.
    pub fn routed(hosts: usize) -> Self {
        Self::new(Shape::Routed, hosts)
    }

    /// MTU of all links; 1500 unless set.
    pub fn mtu(self, mtu: u32) -> Self {
        Self { mtu, ..self }
    }

    /// Transmit and receive queues of all devices; 1 unless set.
    pub fn queues(self, queues: u32) -> Self {
        Self { queues, ..self }
    }

    /// Without segmentation and checksum offloads: every packet is a wire packet from the start.
    pub fn without_offloads(self) -> Self {
        Self {
            offloads: false,
            ..self
        }
    }

    /// With ARP and neighbour discovery as in life.
    pub fn dynamic_neighbours(self) -> Self {
        Self {
            static_neighbours: false,
            ..self
        }
    }

    /// Makes the network.
    ///
    /// # Errors
    /// When a device or address cannot be made: names taken, no root, no veth or bridge in the
    /// kernel.
    pub fn build(&self) -> Result<Net> {
        ensure!(
            (1..=200).contains(&self.hosts),
            "{} hosts: not in 1..200",
            self.hosts
        );
        let switch = match self.shape {
            Shape::Pair => None,
            Shape::Bridged | Shape::Routed => Some(Netns::create("sw")?),
        };
        let hosts = (1..=self.hosts)
            .map(|number| self.host(number))
            .collect::<Result<Vec<_>>>()?;
        if let (Some(switch), Shape::Bridged) = (&switch, self.shape) {
            // A switch's own ports do not speak.
            switch.sysctl("net/ipv6/conf/default/disable_ipv6", "1")?;
            switch.sysctl("net/ipv6/conf/all/disable_ipv6", "1")?;
        }
        self.link(&hosts)?;
        if let Some(switch) = &switch {
            switch.ip_batch(&self.switch_lines(&hosts))?;
            match self.shape {
                Shape::Routed => {
                    switch.sysctl("net/ipv4/ip_forward", "1")?;
                    switch.sysctl("net/ipv6/conf/all/forwarding", "1")?;
                }
                _ if self.static_neighbours => {
                    let mut entries = String::new();
                    for (number, host) in (1..).zip(&hosts) {
                        writeln!(
                            entries,
                            "fdb replace {} dev p{number} master static",
                            host.mac
                        )?;
                    }
                    switch.run_with("bridge -batch -", &entries)?;
                }
                _ => {}
            }
        }
        for number in 1..=self.hosts {
            hosts[number - 1]
                .ns
                .ip_batch(&self.host_lines(number, &hosts))?;
        }
        let net = Net { hosts, switch };
        if !self.offloads {
            Self::switch_offloads_off(&net)?;
        }
        Ok(net)
    }

    fn host(&self, number: usize) -> Result<Host> {
        // At most 200, as checked.
        let byte = number as u8;
        let word = number as u16;
        let (v4, v6) = match self.shape {
            Shape::Pair | Shape::Bridged => (
                Ipv4Addr::new(10, 0, 0, byte),
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, word),
            ),
            Shape::Routed => (
                Ipv4Addr::new(10, 0, byte, 1),
                Ipv6Addr::new(0xfd00, 0, 0, word, 0, 0, 0, 1),
            ),
        };
        Ok(Host {
            ns: Netns::create(&format!("h{number}"))?,
            v4,
            v6,
            mac: mac(number),
        })
    }

    /// The veth pairs.
    fn link(&self, hosts: &[Host]) -> Result<()> {
        let queues = format!("numtxqueues {0} numrxqueues {0}", self.queues);
        let mtu = self.mtu;
        let mut lines = String::new();
        if self.shape == Shape::Pair {
            writeln!(
                lines,
                "link add eth0 netns h1 address {} mtu {mtu} {queues} type veth \
                 peer name eth0 netns h2 address {} mtu {mtu} {queues}",
                hosts[0].mac, hosts[1].mac
            )?;
        } else {
            for (number, host) in (1..).zip(hosts) {
                writeln!(
                    lines,
                    "link add p{number} netns sw address {} mtu {mtu} {queues} type veth \
                     peer name eth0 netns h{number} address {} mtu {mtu} {queues}",
                    router_mac(number),
                    host.mac
                )?;
            }
        }
        run_here("ip -batch -", &lines)?.success().map(drop)
    }

    fn switch_lines(&self, hosts: &[Host]) -> Vec<String> {
        let mut lines = Vec::new();
        if self.shape == Shape::Bridged {
            lines.push(format!(
                "link add br0 mtu {} type bridge forward_delay 0 mcast_snooping 0",
                self.mtu
            ));
            lines.push("link set br0 up".into());
        }
        for (number, host) in (1..).zip(hosts) {
            if self.shape == Shape::Bridged {
                lines.push(format!("link set p{number} master br0 up"));
                continue;
            }
            lines.push(format!("link set p{number} up"));
            lines.push(format!("addr add 10.0.{number}.254/24 dev p{number}"));
            lines.push(format!(
                "addr add fd00:0:0:{number:x}::fe/64 dev p{number} nodad"
            ));
            if self.static_neighbours {
                lines.push(format!(
                    "neigh add {} lladdr {} dev p{number} nud permanent",
                    host.v4, host.mac
                ));
                lines.push(format!(
                    "neigh add {} lladdr {} dev p{number} nud permanent",
                    host.v6, host.mac
                ));
            }
        }
        lines
    }

    fn host_lines(&self, number: usize, hosts: &[Host]) -> Vec<String> {
        let me = &hosts[number - 1];
        let mut lines = vec![
            "link set eth0 up".into(),
            format!("addr add {}/24 dev eth0", me.v4),
            format!("addr add {}/64 dev eth0 nodad", me.v6),
        ];
        let mut neighbours: Vec<(String, String)> = Vec::new();
        if self.shape == Shape::Routed {
            let (gateway4, gateway6) = (
                format!("10.0.{number}.254"),
                format!("fd00:0:0:{number:x}::fe"),
            );
            lines.push(format!("route add default via {gateway4}"));
            lines.push(format!("route add ::/0 via {gateway6}"));
            neighbours.extend([
                (gateway4, router_mac(number)),
                (gateway6, router_mac(number)),
            ]);
        } else {
            for host in hosts.iter().filter(|host| host.v4 != me.v4) {
                neighbours.push((host.v4.to_string(), host.mac.clone()));
                neighbours.push((host.v6.to_string(), host.mac.clone()));
            }
        }
        if self.static_neighbours {
            lines.extend(neighbours.iter().map(|(address, mac)| {
                format!("neigh add {address} lladdr {mac} dev eth0 nud permanent")
            }));
        }
        lines
    }

    fn switch_offloads_off(net: &Net) -> Result<()> {
        const OFF: &str = "tx off rx off sg off tso off gso off gro off";
        for host in &net.hosts {
            host.ns.run(&format!("ethtool -K eth0 {OFF}"))?;
        }
        if let Some(switch) = &net.switch {
            for number in 1..=net.hosts.len() {
                switch.run(&format!("ethtool -K p{number} {OFF}"))?;
            }
        }
        Ok(())
    }
}

/// Ethernet address of a host.
fn mac(number: usize) -> String {
    format!("02:00:00:00:00:{number:02x}")
}

/// Ethernet address of the switch's device towards a host.
fn router_mac(number: usize) -> String {
    format!("02:00:00:00:01:{number:02x}")
}
