// SPDX-License-Identifier: GPL-2.0
//! Where the timing cases measure: a port on one end of a link, and a tap on the other that notes
//! when each packet comes.
//!
//! In simulated time nothing between them takes time, so a packet comes at the nanosecond in which
//! the port let it go. Everything is sent by the case's own thread, at instants that it sleeps
//! until: what is sent at one instant arrives at the port at that instant, in that order.
//! (`timing/bench` shows that this is so.)

use std::net::IpAddr;
use std::net::UdpSocket;

use anyhow::{ensure, Context, Result};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use crate::clock;
use crate::raw_netlink::{Stats, Tc};
use crate::tool::Tool;
use crate::topology::{Builder, Net};
use crate::traffic::{wire_length, Packet, Stamp, Tap, Tapped, MIN_PAYLOAD, MTU_PAYLOAD};

/// The port's handle.
pub(super) const PORT: u32 = 0x1_0000;
/// The class of tokens of priority 0; those of the others follow.
pub(super) const TOKEN0: u32 = PORT | turnstile_core::port::uapi::class::TOKENS as u32;

/// The VLAN of [`Bench::vlan`].
pub(super) const VLAN: u16 = 5;
/// Where frames go that no stack shall answer.
const NOBODY: &str = "02:00:00:00:00:99";

/// What a sender sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    packet: Packet,
    stream: u16,
    payload: usize,
    v6: bool,
    segments: usize,
}

impl Kind {
    /// The smallest tokens of this priority: 84 bytes on the wire.
    pub(super) fn token(priority: u8) -> Self {
        Self::of(Packet::Token(priority), MIN_PAYLOAD)
    }

    /// Full frames: 1538 bytes on the wire.
    pub(super) fn data() -> Self {
        Self::of(Packet::Data, MTU_PAYLOAD)
    }

    /// The smallest signals.
    pub(super) fn signal() -> Self {
        Self::of(Packet::Signal, MIN_PAYLOAD)
    }

    /// Unscheduled full frames.
    pub(super) fn unscheduled() -> Self {
        Self::of(Packet::Unscheduled, MTU_PAYLOAD)
    }

    fn of(packet: Packet, payload: usize) -> Self {
        Self {
            packet,
            stream: packet.stream(),
            payload,
            v6: false,
            segments: 1,
        }
    }

    /// Over IPv6: 20 bytes more. A full frame stays one.
    pub(super) fn v6(self) -> Self {
        Self {
            v6: true,
            payload: self.payload.min(MTU_PAYLOAD - 20),
            ..self
        }
    }

    /// With so many bytes of UDP payload, at least [`MIN_PAYLOAD`].
    pub(super) fn payload(self, payload: usize) -> Self {
        Self {
            payload: payload.max(MIN_PAYLOAD),
            ..self
        }
    }

    /// Handed to the port as super-packets of up to so many packets.
    pub(super) fn supers(self, segments: usize) -> Self {
        Self { segments, ..self }
    }

    /// As another stream, for a sender beside another of the same packets.
    pub(super) fn stream(self, stream: u16) -> Self {
        Self { stream, ..self }
    }

    /// What they are.
    pub(super) fn packet(&self) -> Packet {
        self.packet
    }

    /// Bytes of the frame, as tc counts it.
    pub(super) fn len(&self) -> u64 {
        (14 + if self.v6 { 40 } else { 20 } + 8 + self.payload) as u64
    }

    /// Bytes on the wire at the default `overhead` and `mpu`.
    pub(super) fn wire(&self) -> u64 {
        wire_length(self.payload, self.v6) as u64
    }
}

/// A socket that sends packets of one kind. It is made beforehand, so that sending takes no time.
#[derive(Debug)]
pub(super) struct Sender {
    socket: UdpSocket,
    kind: Kind,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Sender {
    /// Hands `count` packets to the port, at this instant.
    pub(super) fn send(&mut self, count: u64) -> Result<()> {
        let mut left = usize::try_from(count).context("a count")?;
        while left > 0 {
            let now = left.min(self.kind.segments);
            self.buffer.resize(now * self.kind.payload, 0);
            for segment in self.buffer.chunks_exact_mut(self.kind.payload) {
                let stamp = Stamp {
                    stream: self.kind.stream,
                    sequence: self.sequence,
                    // Reading the clock takes time.
                    sent_at: 0,
                };
                stamp.write(self.kind.packet, segment);
                self.sequence = self.sequence.wrapping_add(1);
            }
            let sent = self
                .socket
                .send(&self.buffer)
                .with_context(|| format!("sending {:?}", self.kind))?;
            ensure!(sent == self.buffer.len(), "a datagram was cut");
            left -= now;
        }
        Ok(())
    }

    /// Its packets have this `skb->priority` from now on.
    pub(super) fn priority(&mut self, priority: i32) -> Result<()> {
        setsockopt(&self.socket, sockopt::Priority, &priority).context("setting SO_PRIORITY")
    }

    /// How many it has sent.
    pub(super) fn sent(&self) -> u64 {
        self.sequence.into()
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Bench {
    net: Net,
    dev: String,
    to4: IpAddr,
    to6: IpAddr,
    tap: Tap,
    timer: TimerFd,
    tc: Option<Tc>,
}

impl Bench {
    /// A link without a port.
    pub(super) fn bare() -> Result<Self> {
        Self::new(false)
    }

    /// A port with these options.
    pub(super) fn port(options: &str) -> Result<Self> {
        let mut bench = Self::bare()?;
        bench.replace(options)?;
        Ok(bench)
    }

    /// A link without a port; what is sent goes over a VLAN device above it. [`Bench::replace`]
    /// puts the port below, onto the device that is the link's end, [`Bench::replace_on`] wherever
    /// one likes.
    pub(super) fn vlan() -> Result<Self> {
        Self::new(true)
    }

    fn new(vlan: bool) -> Result<Self> {
        let net = Builder::pair().build()?;
        let ns = &net.hosts[0].ns;
        let peer = &net.hosts[1];
        let (mut to4, mut to6) = (IpAddr::from(peer.v4), IpAddr::from(peer.v6));
        let mut lines = Vec::new();
        let mut dev = "eth0".to_owned();
        if vlan {
            dev = format!("eth0.{VLAN}");
            to4 = "10.5.0.2".parse().context("an address")?;
            to6 = "fd05::2".parse().context("an address")?;
            lines.extend([
                format!("link add link eth0 name {dev} type vlan id {VLAN}"),
                format!("link set {dev} up"),
                format!("addr add 10.5.0.1/24 dev {dev}"),
                format!("addr add fd05::1/64 dev {dev} nodad"),
            ]);
        }
        for to in [to4, to6] {
            lines.push(format!(
                "neigh replace {to} lladdr {NOBODY} dev {dev} nud permanent"
            ));
        }
        ns.ip_batch(&lines)?;
        let mut bench = Self {
            tap: Tap::open(&peer.ns, "eth0")?,
            timer: TimerFd::new(ClockId::CLOCK_REALTIME, TimerFlags::TFD_CLOEXEC)
                .context("making a timer")?,
            net,
            dev: "eth0".into(),
            to4,
            to6,
            tc: None,
        };
        // What the kernel has to say about new devices, it says in the first seconds.
        bench.wait_until(bench.now() + 5_000_000_000)?;
        bench.tap.flush()?;
        Ok(bench)
    }

    /// Puts a new port with these options onto the link's end.
    pub(super) fn replace(&mut self, options: &str) -> Result<()> {
        self.replace_on("eth0", options)
    }

    /// Puts a new port with these options onto the device `dev`. It has the papers' limits as they
    /// are, unless the options say otherwise.
    pub(super) fn replace_on(&mut self, dev: &str, options: &str) -> Result<()> {
        let ns = &self.net.hosts[0].ns;
        let _ = ns.try_run(&format!("tc qdisc del dev {} root", self.dev))?;
        let exact = if options.contains("jitter") {
            ""
        } else {
            " jitter 0"
        };
        Tool::Tc.port(ns, "add", dev, &format!("{options}{exact}"))?;
        self.dev = dev.into();
        self.tc = Some(Tc::open(ns, dev)?);
        // What the port before has sent.
        self.tap.flush()
    }

    /// Puts a new port with exactly these options below others, given as `PLACE KIND OPTIONS`, onto
    /// the link's end.
    pub(super) fn replace_below(
        &mut self,
        above: &[&str],
        parent: &str,
        options: &str,
    ) -> Result<()> {
        let ns = &self.net.hosts[0].ns;
        let _ = ns.try_run(&format!("tc qdisc del dev {} root", self.dev))?;
        for qdisc in above {
            ns.tc(&format!("qdisc add dev eth0 {qdisc}"))?;
        }
        let place = format!("parent {parent} handle 1:");
        Tool::Tc
            .try_port(ns, "add", "eth0", &place, options)?
            .success()?;
        self.dev = "eth0".into();
        self.tc = Some(Tc::open(ns, "eth0")?);
        self.tap.flush()
    }

    /// `tc …`, at the port's end.
    pub(super) fn tc(&self, line: &str) -> Result<()> {
        self.net.hosts[0].ns.tc(line).map(drop)
    }

    /// Changes options of the port, given as netlink attributes: at one instant, which is returned.
    /// No program runs, and no time passes but what reading the clock costs.
    pub(super) fn change(&mut self, options: &[u8]) -> Result<Change> {
        let tc = self.tc.as_mut().context("there is no port")?;
        let not_before = clock::realtime();
        tc.change_port(PORT, options)?.success()?;
        Ok(Change {
            not_before,
            not_after: clock::realtime(),
        })
    }

    /// The counters of the port, or of one of its classes.
    pub(super) fn stats(&mut self, id: u32) -> Result<Stats> {
        let tc = self.tc.as_mut().context("there is no port")?;
        Ok(if id == PORT {
            tc.get(PORT)?.stats
        } else {
            tc.get_class(id)?.stats
        })
    }

    /// A sender of such packets.
    pub(super) fn sender(&self, kind: Kind) -> Result<Sender> {
        let to = if kind.v6 { self.to6 } else { self.to4 };
        let socket = self.net.hosts[0].ns.enter(|| {
            let any = if kind.v6 { "[::]:0" } else { "0.0.0.0:0" };
            let socket = UdpSocket::bind(any).context("binding a sender's socket")?;
            socket
                .connect((to, turnstile_core::header::PORT))
                .with_context(|| format!("connecting to {to}"))?;
            Ok(socket)
        })?;
        setsockopt(&socket, sockopt::SndBufForce, &(256 << 20))
            .context("setting SO_SNDBUFFORCE")?;
        if kind.segments > 1 {
            let size = libc::c_int::try_from(kind.payload).context("UDP_SEGMENT")?;
            setsockopt(&socket, sockopt::UdpGsoSegment, &size).context("setting UDP_SEGMENT")?;
        }
        Ok(Sender {
            socket,
            kind,
            sequence: 0,
            buffer: Vec::new(),
        })
    }

    /// The wall clock, which all times here are of. Reading it takes a nanosecond.
    pub(super) fn now(&self) -> u64 {
        clock::realtime()
    }

    /// An instant that is soon, in no whole microsecond: what the kernel does in its ticks may make
    /// the next thread a nanosecond late.
    pub(super) fn soon(&self) -> u64 {
        (self.now() + 1_000_000).next_multiple_of(1000) + 501
    }

    /// Sleeps until exactly `when`, an instant that must be to come.
    pub(super) fn wait_until(&self, when: u64) -> Result<()> {
        let when = TimeSpec::nanoseconds(i64::try_from(when).context("a time")?);
        // Not clock_nanosleep, which is allowed a nanosecond at least.
        self.timer
            .set(
                Expiration::OneShot(when),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )
            .and_then(|()| self.timer.wait())
            .context("sleeping")
    }

    /// What has come since the last call.
    pub(super) fn arrivals(&mut self) -> Result<Vec<Tapped>> {
        self.tap.read()
    }

    /// What has come when `ns` more have passed.
    pub(super) fn arrivals_after(&mut self, ns: u64) -> Result<Vec<Tapped>> {
        self.wait_until(self.now() + ns)?;
        self.arrivals()
    }
}

/// When a change took effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) not_before: u64,
    pub(super) not_after: u64,
}

/// When those of one stream came, in order; none must be missing and none overtaken.
pub(super) fn times(arrivals: &[Tapped], kind: Kind) -> Result<Vec<u64>> {
    let mut times = Vec::new();
    let mut next = None;
    for arrival in arrivals.iter().filter(|one| one.stream == kind.stream) {
        let wanted = next.unwrap_or(arrival.sequence);
        ensure!(
            arrival.sequence == wanted,
            "packet {} of {kind:?} came where {wanted} should",
            arrival.sequence
        );
        next = Some(arrival.sequence.wrapping_add(1));
        times.push(arrival.at);
    }
    Ok(times)
}

/// When all came, whatever they are.
pub(super) fn all_times(arrivals: &[Tapped]) -> Vec<u64> {
    arrivals.iter().map(|arrival| arrival.at).collect()
}
