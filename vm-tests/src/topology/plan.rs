// SPDX-License-Identifier: GPL-2.0
//! What a fabric is to be made of, and the shapes that the papers use.

use std::net::Ipv4Addr;

use anyhow::{ensure, Context, Result};

use super::link::Link;

/// A host or switch of a [`Plan`], by its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) usize);

/// A host or a switch that is to be made.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) name: String,
    /// Of hosts.
    pub(super) address: Option<Ipv4Addr>,
}

/// Nodes and links between them. [`Plan::build`] makes them.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub(super) nodes: Vec<Planned>,
    pub(super) links: Vec<(NodeId, NodeId, Link)>,
    hosts: u32,
}

impl Plan {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a host: `h1`, `h2`, … with addresses from 10.0.0.1 on.
    pub fn host(&mut self) -> NodeId {
        self.hosts += 1;
        let first = u32::from(Ipv4Addr::new(10, 0, 0, 0));
        self.node(
            format!("h{}", self.hosts),
            Some(Ipv4Addr::from(first + self.hosts)),
        )
    }

    /// Adds a switch of this name, of at most 8 characters; hosts are called `h` and a number.
    pub fn switch(&mut self, name: &str) -> NodeId {
        self.node(name.to_owned(), None)
    }

    fn node(&mut self, name: String, address: Option<Ipv4Addr>) -> NodeId {
        self.nodes.push(Planned { name, address });
        NodeId(self.nodes.len() - 1)
    }

    /// Joins two nodes. A host has one link.
    pub fn link(&mut self, a: NodeId, b: NodeId, link: Link) {
        self.links.push((a, b, link));
    }

    /// Hosts `h1` and `h2` on one link.
    pub fn pair(link: Link) -> Self {
        let mut plan = Self::new();
        let (a, b) = (plan.host(), plan.host());
        plan.link(a, b, link);
        plan
    }

    /// `hosts` around the switch `s1`.
    pub fn star(hosts: usize, link: Link) -> Self {
        let mut plan = Self::new();
        let switch = plan.switch("s1");
        for _ in 0..hosts {
            let host = plan.host();
            plan.link(host, switch, link);
        }
        plan
    }

    /// `pairs` hosts on switch `s1`, as many on switch `s2`, and one link between. Hosts of the
    /// left come first: number i talks to number `pairs` + i.
    pub fn dumbbell(pairs: usize, edge: Link, middle: Link) -> Self {
        let mut plan = Self::new();
        let sides = [plan.switch("s1"), plan.switch("s2")];
        plan.link(sides[0], sides[1], middle);
        for side in sides {
            for _ in 0..pairs {
                let host = plan.host();
                plan.link(host, side, edge);
            }
        }
        plan
    }

    /// Switches `l1`, `l2`, … with `hosts` each, all joined to each of the switches `s1`, `s2`, ….
    /// Hosts come leaf by leaf.
    pub fn leaf_spine(leaves: usize, spines: usize, hosts: usize, edge: Link, core: Link) -> Self {
        let mut plan = Self::new();
        let spines: Vec<NodeId> = (1..=spines)
            .map(|n| plan.switch(&format!("s{n}")))
            .collect();
        for leaf in 1..=leaves {
            let leaf = plan.switch(&format!("l{leaf}"));
            for spine in &spines {
                plan.link(leaf, *spine, core);
            }
            for _ in 0..hosts {
                let host = plan.host();
                plan.link(host, leaf, edge);
            }
        }
        plan
    }

    /// A chain of switches `s1` … with `bottlenecks` links between them. Hosts 1 and 2 are at its
    /// ends; then come, for each bottleneck, a host before and a host behind it, whose traffic
    /// crosses that link alone (ExpressPass fig. 2).
    pub fn parking_lot(bottlenecks: usize, edge: Link, core: Link) -> Self {
        let mut plan = Self::new();
        let switches: Vec<NodeId> = (1..=bottlenecks + 1)
            .map(|n| plan.switch(&format!("s{n}")))
            .collect();
        for pair in switches.windows(2) {
            plan.link(pair[0], pair[1], core);
        }
        let mut attach = |switch: NodeId| {
            let host = plan.host();
            plan.link(host, switch, edge);
        };
        attach(switches[0]);
        attach(switches[bottlenecks]);
        for pair in switches.windows(2) {
            attach(pair[0]);
            attach(pair[1]);
        }
        plan
    }

    /// Whether it can be made.
    pub(super) fn check(&self) -> Result<()> {
        for (index, node) in self.nodes.iter().enumerate() {
            ensure!(
                node.name.len() <= 8 && !node.name.is_empty(),
                "node \"{}\": names have 1..8 characters",
                node.name
            );
            ensure!(
                !self.nodes[..index].iter().any(|n| n.name == node.name),
                "two nodes are called {}",
                node.name
            );
            let links = self.links_of(NodeId(index)).count();
            ensure!(
                node.address.is_none() || links == 1,
                "host {} has {links} links, not 1",
                node.name
            );
        }
        for (number, (a, b, link)) in self.links.iter().enumerate() {
            let names = || format!("{}-{}", self.nodes[a.0].name, self.nodes[b.0].name);
            ensure!(a != b, "link {} joins a node to itself", names());
            ensure!(
                link.rate >= 8 && link.rate % 8 == 0,
                "link {}: rate {} is not a multiple of 8 bit/s",
                names(),
                link.rate
            );
            let same = |(c, d, _): &(NodeId, NodeId, Link)| (c, d) == (a, b) || (c, d) == (b, a);
            ensure!(
                !self.links[..number].iter().any(same),
                "two links {}",
                names()
            );
        }
        Ok(())
    }

    /// The neighbours of a node, with their links, in the order in which they were joined.
    pub(super) fn links_of(&self, node: NodeId) -> impl Iterator<Item = (NodeId, Link)> + '_ {
        self.links.iter().filter_map(move |(a, b, link)| {
            if *a == node {
                Some((*b, *link))
            } else if *b == node {
                Some((*a, *link))
            } else {
                None
            }
        })
    }

    /// For each node, the neighbours that are nearest to `target`: where packets go next.
    ///
    /// # Errors
    /// When a node cannot reach it.
    pub(super) fn next_hops(&self, target: NodeId) -> Result<Vec<Vec<NodeId>>> {
        let mut distance = vec![usize::MAX; self.nodes.len()];
        distance[target.0] = 0;
        let mut reached = vec![target];
        let mut next = 0;
        while let Some(&node) = reached.get(next) {
            next += 1;
            for (neighbour, _) in self.links_of(node) {
                // A host forwards nothing.
                let ends = self.nodes[node.0].address.is_some() && node != target;
                if !ends && distance[neighbour.0] == usize::MAX {
                    distance[neighbour.0] = distance[node.0] + 1;
                    reached.push(neighbour);
                }
            }
        }
        (0..self.nodes.len())
            .map(|index| {
                let here = distance[index];
                ensure!(
                    here != usize::MAX,
                    "{} cannot reach {}",
                    self.nodes[index].name,
                    self.nodes[target.0].name
                );
                Ok(self
                    .links_of(NodeId(index))
                    .filter(|(node, _)| distance[node.0] < here)
                    .map(|(node, _)| node)
                    .collect())
            })
            .collect()
    }

    /// The node of that name.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn find(&self, name: &str) -> Result<NodeId> {
        let index = self.nodes.iter().position(|node| node.name == name);
        index
            .map(NodeId)
            .with_context(|| format!("no node is called {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = Link::new(8_000_000, 0);

    fn names(plan: &Plan, nodes: &[NodeId]) -> Vec<String> {
        nodes.iter().map(|n| plan.nodes[n.0].name.clone()).collect()
    }

    #[test]
    fn shapes_can_be_made_and_reach_everywhere() {
        let shapes = [
            (Plan::pair(LINK), 2, 1),
            (Plan::star(5, LINK), 6, 5),
            (Plan::dumbbell(3, LINK, LINK), 8, 7),
            (Plan::leaf_spine(3, 2, 4, LINK, LINK), 17, 18),
            (Plan::parking_lot(3, LINK, LINK), 12, 11),
        ];
        for (plan, nodes, links) in shapes {
            plan.check().unwrap();
            assert_eq!((plan.nodes.len(), plan.links.len()), (nodes, links));
            for target in 0..nodes {
                plan.next_hops(NodeId(target)).unwrap();
            }
        }
    }

    #[test]
    fn a_leaf_has_a_way_over_each_spine() {
        let plan = Plan::leaf_spine(2, 3, 1, LINK, LINK);
        let hops = plan.next_hops(plan.find("h2").unwrap()).unwrap();
        let from = |name: &str| names(&plan, &hops[plan.find(name).unwrap().0]);
        assert_eq!(from("l1"), ["s1", "s2", "s3"]);
        assert_eq!(from("s2"), ["l2"]);
        assert_eq!(from("h1"), ["l1"]);
        assert_eq!(from("l2"), ["h2"]);
        assert!(from("h2").is_empty());
    }

    #[test]
    fn what_cannot_be_made_is_named() {
        let mut plan = Plan::star(1, LINK);
        let lonely = plan.switch("s2");
        assert!(plan.next_hops(lonely).is_err());
        plan.switch("s2");
        assert!(plan.check().unwrap_err().to_string().contains("s2"));
        let mut plan = Plan::star(2, LINK);
        plan.link(NodeId(1), NodeId(2), LINK);
        assert!(plan.check().unwrap_err().to_string().contains("2 links"));
        let odd = Plan::star(1, Link::new(1001, 0));
        assert!(odd.check().unwrap_err().to_string().contains("1001"));
    }
}
