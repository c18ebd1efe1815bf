// SPDX-License-Identifier: GPL-2.0
//! Networks of exact links: hosts and routing switches as namespaces.
//!
//! Every node is a namespace; its device towards node X is called X. Switches route (IPv4, and IPv6
//! if it is [added](Fabric::add_ipv6)), over all shortest ways alike: several next hops are chosen
//! by a hash of addresses and ports. Neighbours, routes and addresses are set beforehand, so that
//! nothing travels but what is sent, and devices do not segment: every packet is a wire packet.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result};

use super::link::Link;
use super::plan::{NodeId, Plan};
use crate::cmd::run_here;
use crate::netns::Netns;

/// The next hop of every route. It is no address of anybody: each device knows it by the Ethernet
/// address of its peer.
const NEXT_HOP: &str = "169.254.0.1";
const NEXT_HOP_V6: &str = "fe80::1";

/// The IPv6 address of the host that has this IPv4 address, once [`Fabric::add_ipv6`] was called.
pub fn v6(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets().map(u16::from);
    Ipv6Addr::new(0xfd00, 0, 0, 0, a, b, c, d)
}

/// A host or a switch.
#[derive(Debug)]
pub struct Node {
    /// Its namespace.
    pub ns: Netns,
    /// Of hosts.
    address: Option<Ipv4Addr>,
}

/// A device that sends onto a link.
#[derive(Clone, Debug)]
pub struct Port {
    /// The node that it belongs to.
    pub node: String,
    /// Its name: that of the node at the other end.
    pub dev: String,
    /// The link.
    pub link: Link,
    /// Whether the node is a host.
    pub of_host: bool,
}

/// A network that is up.
#[derive(Debug)]
pub struct Fabric {
    plan: Plan,
    nodes: Vec<Node>,
    hosts: Vec<usize>,
    /// Where the delays are. Kept for as long as the network is.
    _wire: Netns,
}

impl Plan {
    /// Makes the network.
    ///
    /// # Errors
    /// When it cannot be made: a host with several links, a node that cannot be reached, no root, a
    /// kernel without veth, netem, mirred, matchall or the module.
    pub fn build(self) -> Result<Fabric> {
        self.check()?;
        let wire = Netns::create("wire")?;
        let nodes = self
            .nodes
            .iter()
            .map(|node| {
                Ok(Node {
                    ns: Netns::create(&node.name)?,
                    address: node.address,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let hosts = (0..nodes.len())
            .filter(|&index| nodes[index].address.is_some())
            .collect();
        let fabric = Fabric {
            plan: self,
            nodes,
            hosts,
            _wire: wire,
        };
        fabric.make_links()?;
        let routes = fabric.routes(IpAddr::V4, NEXT_HOP)?;
        for (index, node) in fabric.nodes.iter().enumerate() {
            fabric.set_up(index, node, &routes[index])?;
        }
        Ok(fabric)
    }
}

impl Fabric {
    /// The hosts, in the order of the plan: `host(0)` is `h1`.
    pub fn host(&self, index: usize) -> &Netns {
        &self.nodes[self.hosts[index]].ns
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// The address of a host.
    pub fn address(&self, index: usize) -> Ipv4Addr {
        // Hosts are the nodes that have one.
        self.nodes[self.hosts[index]]
            .address
            .unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// A node by its name: `h1`, `s1`, ….
    ///
    /// # Errors
    /// When there is none.
    pub fn node(&self, name: &str) -> Result<&Node> {
        Ok(&self.nodes[self.plan.find(name)?.0])
    }

    /// The addresses of the hosts to which `node` has a way over its device `dev`: whose packets
    /// wait there.
    ///
    /// # Errors
    /// When there is no such node, or no such neighbour.
    pub fn hosts_behind(&self, node: &str, dev: &str) -> Result<BTreeSet<Ipv4Addr>> {
        let (node, next) = (self.plan.find(node)?, self.plan.find(dev)?);
        let mut behind = BTreeSet::new();
        for &host in &self.hosts {
            if self.plan.next_hops(NodeId(host))?[node.0].contains(&next) {
                behind.extend(self.nodes[host].address);
            }
        }
        Ok(behind)
    }

    /// How long a frame of `bytes` (from its Ethernet header on) is on its way from one host to
    /// another when it meets no other, ns.
    ///
    /// # Errors
    /// When there is no way.
    pub fn latency(&self, from: usize, to: usize, bytes: usize) -> Result<u64> {
        let hops = self.plan.next_hops(NodeId(self.hosts[to]))?;
        let mut here = self.hosts[from];
        let mut total = 0;
        while let Some(next) = hops[here].first() {
            let mut links = self.plan.links_of(NodeId(here));
            let (_, link) = links
                .find(|(node, _)| node == next)
                .context("a next hop is no neighbour")?;
            total += link.latency(bytes);
            here = next.0;
        }
        Ok(total)
    }

    fn name(&self, node: NodeId) -> &str {
        &self.plan.nodes[node.0].name
    }

    /// Devices and wires.
    fn make_links(&self) -> Result<()> {
        let (mut ip, mut tc) = (String::new(), String::new());
        let mut ends = Vec::new();
        for (number, (a, b, link)) in self.plan.links.iter().enumerate() {
            for (side, from, to) in [(0, a, b), (1, b, a)] {
                writeln!(
                    ip,
                    "link add {} netns {} address {} type veth peer name w{number}.{side} netns \
                     wire address {}",
                    self.name(*to),
                    self.name(*from),
                    mac(1, number, side),
                    mac(2, number, side),
                )?;
                ends.push(format!("link set w{number}.{side} up"));
            }
            let (left, right) = (format!("w{number}.0"), format!("w{number}.1"));
            tc += &link.wire_lines(&left, &right);
            tc += &link.wire_lines(&right, &left);
        }
        run_here("ip -batch -", &ip)?.success()?;
        self._wire
            .sysctl("net/ipv6/conf/default/disable_ipv6", "1")?;
        self._wire.sysctl("net/ipv6/conf/all/disable_ipv6", "1")?;
        self._wire.ip_batch(&ends)?;
        self._wire.run_with("tc -batch -", &tc).map(drop)
    }

    /// Gives hosts IPv6 addresses and switches the routes to them, as they have those of IPv4.
    ///
    /// # Errors
    /// When the kernel refuses them.
    pub fn add_ipv6(&self) -> Result<()> {
        let routes = self.routes(|address| IpAddr::V6(v6(address)), NEXT_HOP_V6)?;
        for (index, node) in self.nodes.iter().enumerate() {
            let ns = &node.ns;
            let is_switch = node.address.is_none();
            let mut ip = Vec::new();
            for conf in ["default", "all"] {
                let conf = format!("net/ipv6/conf/{conf}");
                // No address but ours, which would be told of.
                ns.sysctl(&format!("{conf}/addr_gen_mode"), "1")?;
                ns.sysctl(&format!("{conf}/accept_ra"), "0")?;
                ns.sysctl(&format!("{conf}/disable_ipv6"), "0")?;
            }
            for (number, side, dev) in self.devices(index) {
                ns.sysctl(&format!("net/ipv6/conf/{dev}/addr_gen_mode"), "1")?;
                ip.push(format!(
                    "neigh add {NEXT_HOP_V6} lladdr {} dev {dev} nud permanent",
                    mac(1, number, 1 - side)
                ));
                if let Some(address) = node.address {
                    ip.push(format!("addr add {}/128 dev {dev} nodad", v6(address)));
                    ip.push(format!(
                        "route add default via {NEXT_HOP_V6} dev {dev} onlink"
                    ));
                }
            }
            if is_switch {
                ns.sysctl("net/ipv6/conf/all/forwarding", "1")?;
                ns.sysctl("net/ipv6/fib_multipath_hash_policy", "1")?;
            }
            ip.extend_from_slice(&routes[index]);
            ns.ip_batch(&ip)?;
        }
        Ok(())
    }

    /// The links of a node: their numbers, which end it has, and its device there.
    fn devices(&self, index: usize) -> impl Iterator<Item = (usize, u8, &str)> {
        let links = self.plan.links.iter().enumerate();
        links.filter_map(move |(number, (a, b, _))| match index {
            index if index == a.0 => Some((number, 0, self.name(*b))),
            index if index == b.0 => Some((number, 1, self.name(*a))),
            _ => None,
        })
    }

    /// The routes of each node to the hosts' addresses, by a next hop.
    fn routes(&self, of: impl Fn(Ipv4Addr) -> IpAddr, next_hop: &str) -> Result<Vec<Vec<String>>> {
        let mut routes = vec![Vec::new(); self.nodes.len()];
        for &host in &self.hosts {
            let Some(address) = self.nodes[host].address.map(&of) else {
                continue;
            };
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let hops = self.plan.next_hops(NodeId(host))?;
            for (index, hops) in hops.iter().enumerate() {
                if self.nodes[index].address.is_some() {
                    continue;
                }
                let ways: Vec<String> = hops
                    .iter()
                    .map(|hop| format!("via {next_hop} dev {} onlink", self.name(*hop)))
                    .collect();
                routes[index].push(match ways.as_slice() {
                    [way] => format!("route add {address}/{bits} {way}"),
                    ways => {
                        format!(
                            "route add {address}/{bits} nexthop {}",
                            ways.join(" nexthop ")
                        )
                    }
                });
            }
        }
        Ok(routes)
    }

    /// Addresses, routes, neighbours and queues of one node.
    fn set_up(&self, index: usize, node: &Node, routes: &[String]) -> Result<()> {
        let ns = &node.ns;
        // Nobody speaks of their own accord.
        ns.sysctl("net/ipv6/conf/default/disable_ipv6", "1")?;
        ns.sysctl("net/ipv6/conf/all/disable_ipv6", "1")?;
        let (mut ip, mut tc) = (Vec::new(), String::new());
        for (number, (a, b, link)) in self.plan.links.iter().enumerate() {
            let (side, peer) = match index {
                index if index == a.0 => (0, b),
                index if index == b.0 => (1, a),
                _ => continue,
            };
            let dev = self.name(*peer);
            ip.push(format!("link set {dev} up"));
            ip.push(format!(
                "neigh add {NEXT_HOP} lladdr {} dev {dev} nud permanent",
                mac(1, number, 1 - side)
            ));
            if let Some(address) = node.address {
                ip.push(format!("addr add {address}/32 dev {dev}"));
                ip.push(format!("route add default via {NEXT_HOP} dev {dev} onlink"));
                ns.run(&format!(
                    "ethtool -K {dev} tx off rx off sg off tso off gso off gro off"
                ))?;
            }
            tc += &link.queue_lines(dev);
        }
        ip.extend_from_slice(routes);
        ns.ip_batch(&ip)?;
        if !tc.is_empty() {
            ns.run_with("tc -batch -", &tc)?;
        }
        if node.address.is_none() {
            ns.sysctl("net/ipv4/ip_forward", "1")?;
            // By addresses and ports. The seed is the kernel's own else, and ways differ from run
            // to run.
            ns.sysctl("net/ipv4/fib_multipath_hash_policy", "1")?;
            ns.sysctl("net/ipv4/fib_multipath_hash_seed", "1")?;
        }
        Ok(())
    }

    /// Gives a host's route further words of `ip route`: `congctl dctcp`, `initcwnd 20`, ….
    ///
    /// # Errors
    /// When they are refused.
    pub fn tune_route(&self, index: usize, words: &str) -> Result<()> {
        let node = NodeId(self.hosts[index]);
        let mut links = self.plan.links_of(node);
        let (peer, _) = links.next().context("a host without a link")?;
        let dev = self.name(peer);
        self.nodes[node.0]
            .ns
            .ip(&format!(
                "route change default via {NEXT_HOP} dev {dev} onlink {words}"
            ))
            .map(drop)
    }

    /// Takes away the queue of a node's device and makes another, by lines of tc
    /// (`qdisc add dev DEV …`) that name the device `DEV`.
    ///
    /// # Errors
    /// When there is no such device, or a line is refused.
    pub fn requeue(&self, node: &str, dev: &str, lines: &[String]) -> Result<()> {
        let ns = &self.node(node)?.ns;
        // There is none on a link without a shaper.
        let _ = ns.try_run(&format!("tc qdisc del dev {dev} root"))?;
        let mut text = String::new();
        for line in lines {
            text += &line.replace("DEV", dev);
            text.push('\n');
        }
        if text.is_empty() {
            return Ok(());
        }
        ns.run_with("tc -batch -", &text)
            .with_context(|| format!("the queue of {node} to {dev}: {text}"))
            .map(drop)
    }

    /// All devices that send onto a link, switch by switch and host by host.
    pub fn ports(&self) -> Vec<Port> {
        let mut ports = Vec::new();
        for (index, node) in self.plan.nodes.iter().enumerate() {
            for (peer, link) in self.plan.links_of(NodeId(index)) {
                ports.push(Port {
                    node: node.name.clone(),
                    dev: self.name(peer).to_owned(),
                    link,
                    of_host: node.address.is_some(),
                });
            }
        }
        ports
    }

    /// The link between two nodes.
    ///
    /// # Errors
    /// When there is none.
    pub fn link(&self, a: &str, b: &str) -> Result<Link> {
        let (a, b) = (self.plan.find(a)?, self.plan.find(b)?);
        let mut links = self.plan.links_of(a);
        links
            .find(|(node, _)| *node == b)
            .map(|(_, link)| link)
            .context("these nodes have no link")
    }
}

/// An Ethernet address: of a node's device (kind 1) or a wire's (kind 2), on either side of a link.
fn mac(kind: u8, link: usize, side: u8) -> String {
    format!(
        "02:00:{kind:02x}:{:02x}:{:02x}:{side:02x}",
        (link >> 8) & 0xff,
        link & 0xff
    )
}
