// SPDX-License-Identifier: GPL-2.0
//! Shared by the HULL experiments: the testbed of section 5.2, its four schemes, and the queueing
//! delay at the congested port.

use anyhow::Result;
use turnstile_core::pacer::uapi::stat;
use turnstile_test_protocol::lab::SetUpLines;
use turnstile_workload::figures::{mean, percentile};

use super::Lab;
use crate::raw_netlink::Tc;
use crate::recorder::Passage;
use crate::scenario::Carrier;
use crate::topology::{Fabric, Link, Plan};
use crate::traffic::messages::Transport;

/// bit/s of each link.
pub(super) const RATE: u64 = 1_000_000_000;
/// Propagation delay of a link, ns. Hosts take no time here, but did in the testbed: the links'
/// delay includes it, so that a request of [`REQUEST`] bytes and an answer of 1 KB on the idle
/// network together take the 160 us of HULL section 6.2.1.
const DELAY: u64 = 35_200;
/// Bytes of a request's frame, as tc counts: headers with timestamps, and 16 bytes of payload.
const REQUEST: usize = 82;
/// Buffer of the congested port, bytes: a port of the testbed's switch "can grab up to ~700KB"
/// (section 6.2.2).
const BUFFER: u32 = 700_000;
/// Buffer of a sender's own port, bytes. TCP fills less.
const HOST_BUFFER: u32 = 4_000_000;
/// The shortest retransmission timeout: the kernel's own, us.
const RTO: u32 = 200_000;
/// The shortest frame that is more than an acknowledgement, bytes.
const DATA: usize = 100;
/// Sampling interval of the port, ns.
const LOOK: u64 = 10_000;
/// The pacer's handle, `2:`.
const PACER: u32 = 2 << 16;
/// The switch.
pub(super) const SWITCH: &str = "s1";

/// Notes for readers of the report.
pub(super) const TESTBED: &str = "links of 1 Gbit/s around a switch; 160 us for a request and an \
                                  answer of 1 KB on the idle network, as the paper's testbed had \
                                  at least. The \
     receiver's port holds 700 KB. TCP hands super-packets to the senders' devices, which segment \
     them (LSO), the pacer's before it paces; TCP has the kernel's own \
     parameters but for windows that limit nothing";

/// The marking of the congested port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marks {
    /// Nothing: it drops what does not fit.
    None,
    /// Packets that find so many bytes queued.
    Queue(u32),
    /// By a phantom queue: drain in percent of the link, threshold in bytes.
    Phantom(u32, u32),
}

/// A scheme to compare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheme {
    pub(super) name: &'static str,
    title: &'static str,
    control: &'static str,
    marks: Marks,
    pacer: bool,
}

pub(super) const TCP: Scheme = Scheme {
    name: "tcp-drop-tail",
    title: "TCP cubic, drop tail",
    control: "cubic",
    marks: Marks::None,
    pacer: false,
};
pub(super) const DCTCP_30K: Scheme = Scheme {
    name: "dctcp-30k",
    title: "DCTCP, marked above 30 KB",
    control: "dctcp",
    marks: Marks::Queue(30_000),
    pacer: false,
};
pub(super) const DCTCP_6K_PACER: Scheme = Scheme {
    name: "dctcp-6k-pacer",
    title: "DCTCP, marked above 6 KB, and the pacer",
    control: "dctcp",
    marks: Marks::Queue(6_000),
    pacer: true,
};
pub(super) const HULL: Scheme = Scheme {
    name: "hull",
    title: "DCTCP, a phantom queue that drains at 95 % and marks above 1 KB, and the pacer",
    control: "dctcp",
    marks: Marks::Phantom(95, 1_000),
    pacer: true,
};
/// HULL's marks without its pacer, to show what the pacer adds.
pub(super) const UNPACED: Scheme = Scheme {
    name: "phantom-unpaced",
    title: "DCTCP and the phantom queue, but no pacer",
    pacer: false,
    ..HULL
};
/// The four of fig. 8 and table 4.
pub(super) const SCHEMES: [Scheme; 4] = [TCP, DCTCP_30K, DCTCP_6K_PACER, HULL];

impl Scheme {
    /// Of the port to the receiver.
    fn port(&self) -> Vec<String> {
        let root = format!(
            "qdisc add dev DEV root handle 1: turnstile link {RATE}bit jitter 0 data-limit {BUFFER}"
        );
        let all = "filter add dev DEV parent 1: protocol all matchall classid 1:2".to_owned();
        match self.marks {
            Marks::None => vec![root, all],
            Marks::Queue(least) => vec![
                root,
                all,
                // The two thresholds are adjacent, so that RED marks deterministically; the average
                // follows the queue closely.
                format!(
                    "qdisc add dev DEV parent 1:2 handle 2: red limit {BUFFER} min {least} max {} \
                     avpkt 1514 burst {} \
                     probability 1 bandwidth {RATE}bit ecn",
                    least + 1,
                    least.div_ceil(1514)
                ),
            ],
            // As tc-configs/hull-port.sh.
            Marks::Phantom(drain, mark) => {
                vec![
                    format!("{root} unscheduled off phantom drain {drain}% mark {mark}b"),
                    all,
                ]
            }
        }
    }

    /// Of a sender's device: it segments what TCP hands over (LSO), paces where the scheme says so,
    /// and sends at the link's rate.
    fn host(&self) -> Vec<String> {
        let mut lines = vec![
            format!(
                "qdisc add dev DEV root handle 1: turnstile link {RATE}bit jitter 0 data-limit \
                 {HOST_BUFFER}"
            ),
            "filter add dev DEV parent 1: protocol all matchall classid 1:2".into(),
        ];
        if self.pacer {
            // As tc-configs/hull-host.sh.
            lines.push(
                "qdisc add dev DEV parent 1:2 handle 2: turnstile_pacer interval 64us beta 16 idle \
                 10ms eta 12.5% associate 12.5%".into(),
            );
        }
        lines
    }

    /// Whether the port marks.
    pub(super) fn marks(&self) -> bool {
        self.marks != Marks::None
    }

    /// How long packets of the first sender waited for the pacer's tokens on average, us, if there
    /// is one.
    pub(super) fn paced(&self, fabric: &Fabric) -> Result<Option<f64>> {
        if !self.pacer {
            return Ok(None);
        }
        let pacer = Tc::open(fabric.host(0), SWITCH)?.get(PACER)?;
        Ok(Some(pacer.stats.app(stat::DELAY_MEAN) as f64 / 1e3))
    }

    /// Configures a network of [`build`] anew.
    pub(super) fn apply(&self, fabric: &Fabric) -> Result<Transport> {
        let receiver = receiver(fabric);
        for host in 0..fabric.hosts() - 1 {
            fabric.requeue(&format!("h{}", host + 1), SWITCH, &self.host())?;
        }
        fabric.requeue(SWITCH, &receiver, &self.port())?;
        Carrier::Tcp(self.control, RTO).configure(fabric)
    }

    /// For people.
    pub(super) fn report(&self, lab: &mut Lab) {
        let mut lines = self.port();
        lines.extend(self.host());
        lab.report.setups.push(SetUpLines {
            title: format!(
                "{}: {}; the receiver's port, and a sender's device",
                self.name, self.title
            ),
            lines,
        });
    }
}

/// `senders` and, as the last host, the receiver around a switch. The senders' cards segment.
pub(super) fn build(senders: usize) -> Result<Fabric> {
    let fabric = Plan::star(senders + 1, Link::new(RATE, DELAY).buffer(BUFFER)).build()?;
    for host in 0..senders {
        fabric
            .host(host)
            .run(&format!("ethtool -K {SWITCH} tx on sg on tso on gso on"))?;
    }
    Ok(fabric)
}

/// The receiver's name, and so that of the switch's device to it.
pub(super) fn receiver(fabric: &Fabric) -> String {
    format!("h{}", fabric.hosts())
}

/// How long a request is on its way to a server, ns.
pub(super) fn request(fabric: &Fabric) -> Result<u64> {
    fabric.latency(fabric.hosts() - 1, 0, REQUEST)
}

/// Times, by rising length.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits(Vec<f64>);

impl Waits {
    pub(super) fn new(mut waits: Vec<f64>) -> Self {
        waits.sort_by(f64::total_cmp);
        Self(waits)
    }

    pub(super) fn mean(&self) -> f64 {
        mean(&self.0)
    }

    pub(super) fn percentile(&self, percent: f64) -> f64 {
        percentile(&self.0, percent)
    }
}

/// The queueing delay that a packet would meet at the port, sampled every 10 us in `from..until`
/// (wall clock, ns), as the paper's probes do every ms (section 5.2).
pub(super) fn probed(passages: &[Passage], from: u64, until: u64) -> Waits {
    let mut queued = passages
        .iter()
        .filter_map(|p| {
            Some((
                p.came,
                p.left? + p.wire_bytes() as u64 * 8_000_000_000 / RATE,
            ))
        })
        .peekable();
    let mut free = 0;
    let mut waits = Vec::new();
    let mut now = from;
    while now < until {
        while let Some((_, done)) = queued.next_if(|(came, _)| *came <= now) {
            free = free.max(done);
        }
        waits.push(free.saturating_sub(now) as f64 / 1e3);
        now += LOOK;
    }
    Waits::new(waits)
}

/// The queueing delays of data packets that came to the port in `from..until` (wall clock, ns).
pub(super) fn of_data(passages: &[Passage], from: u64, until: u64) -> Waits {
    let waits = passages
        .iter()
        .filter(|p| p.bytes >= DATA && (from..until).contains(&p.came));
    Waits::new(waits.filter_map(|p| Some(p.wait()? as f64 / 1e3)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Packet;
    use std::net::Ipv4Addr;

    fn passage(came: u64, left: Option<u64>) -> Passage {
        Passage {
            packet: Packet::Other,
            from: Ipv4Addr::LOCALHOST,
            came,
            left,
            bytes: 1514,
            marked: false,
            ecn: 0,
            before: 0,
            port: 0,
        }
    }

    #[test]
    fn a_probe_waits_for_what_is_there_and_on_the_link() {
        let all = [
            passage(0, Some(0)),
            passage(0, None),
            passage(1_000, Some(12_304)),
        ];
        let waits = probed(&all, 0, 40_000);
        // At 0: the packet that just left; at 10 us: two are ahead, and the first has sent 10 us;
        // then what is left of the second.
        assert_eq!(waits.0, [0.0, 4.608, 12.304, 14.608]);
        assert_eq!(of_data(&all, 0, 2_000).0, [0.0, 11.304]);
    }
}
