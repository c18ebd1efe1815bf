// SPDX-License-Identifier: GPL-2.0
//! The options of a port: the table of them, and what they come to on a given link.

use crate::options::{limits, options, Form, Given, Opt, Range, Refusal, Table, Unit};
use crate::pfc::ingress::Alpha;
use crate::port::uapi::{self, option as number};
use crate::units::Nanos;

mod allowance;
mod resolved;
mod values;

pub use allowance::Allowance;

pub(crate) use resolved::beyond_token;
pub use resolved::{
    Resolved, EXPIRY_INTERVALS, FRAME_WIRE_LEN, MAX_LIMIT_FLOOR, POLL_PACKETS,
    TOKEN_SLACK_INTERVALS, TOKEN_WIRE_LEN, TOKEN_WIRE_LEN_V6, WHOLE_ALL,
};
pub use values::{
    Delay, Drain, DscpMap, Dynamic, Expiry, Generate, GsoHold, MaxOn, Order, Pfc, Phantom, Room,
    SplitGso, Tcd, TokenDrop, Tokens,
};

const PACKETS: Unit = Unit::Count("packets");

options! {
    /// How a port is configured.
    ///
    /// The fields are as the user gave them; [`Config::validate`] says whether they are allowed.
    /// [`Config::DEFAULT`] is what `tc qdisc add dev … root turnstile` gives, but for `data_limit`:
    /// the qdisc takes that from the device.
    pub struct Config;

    /// The rate that the whole port is shaped to, counted in bytes on the wire (see overhead and
    /// mpu). With auto the port is not shaped, and percentages are of the speed that the device
    /// reports, also when that changes: when the link comes up, when a bond or team gets or loses a
    /// port. A speed that is no longer reported stays in force. While there is none the port is
    /// unresolved, which its statistics say: bands go in their order, but tokens are not paced by a
    /// percentage and do not expire by auto, and no marker works that needs the speed. Set a rate
    /// on devices that never report a speed, such as dummy, ifb and most tunnels, and on veth if it
    /// is to be a link, since its 10 Gbit/s hold nothing back. Everything then waits for that rate,
    /// even if the device could send faster.
    link: Option<u64> = None, LINK_RATE64 "link"
        Opt::number_or(limits::LINK, &[("auto", 0)])
            .from("every band of a switch port shares its link (TOP fig. 3)");

    /// The rate of all tokens together: the port releases one token per pacing interval, and while
    /// none wait it saves up no more than that one. Each token draws a data packet over the link
    /// the other way, so that this decides how much of that link data can fill. A percentage is of
    /// this port's link, and follows it; it is kept to a ten-millionth of a percent, and is what
    /// tokens of 84 bytes have: longer ones, over IPv6 or sealed, ask for no more, and what they
    /// are longer, up to 168 bytes, takes its time at the link's rate beside. A rate is that of all
    /// bytes. Raise it if packets are smaller than full frames and the link the other way stays
    /// idle; too high, and data queues up there. Lower it to leave room for traffic that needs no
    /// tokens.
    tokens: Tokens = Tokens::Share(51_787_916), TOKEN_SHARE | TOKEN_RATE64 "tokens"
        Opt::part(limits::TOKENS)
            .from("84 / (84 + 1538): one minimum-size token for each full-size frame \
                   (ExpressPass section 2.1)");

    /// Number of token queues, served in strict priority. Tokens of a lower priority than the last
    /// queue's go to the last queue: with fewer than a transport uses, as receivers use eight by
    /// default, the longest messages take tokens from each other. With 1 all tokens are alike.
    priorities: u8 = 8, PRIORITIES "priorities"
        Opt::number(limits::PRIORITIES)
            .from("as many as receivers use; the paper's switch has six: eight hardware queues, \
                   less one for signals and one for data (TOP fig. 3)");

    /// How many tokens each token queue holds. Where one finds its queue full an expired one makes
    /// room, or else one is dropped (token-drop); its data is then not sent, and a later token asks
    /// for it. More loses fewer tokens of senders that burst, and lets data arrive in larger
    /// bursts. With jitter a queue may hold more for a while.
    token_limit: u32 = 8, TOKEN_LIMIT "token-limit"
        Opt::number(Range::new(1, 1024, PACKETS))
            .from("TOP section 4.3: 8 tokens per queue, as in ExpressPass");

    /// How long a token may wait. One that has waited longer is dropped, since the data that it
    /// would draw could no longer arrive in its slot. auto: eight pacing intervals (of 84 bytes at
    /// the rate of tokens), or eight full frames with their tokens on the link if that is longer;
    /// at the default rate it is the same. off: never; then low priorities may draw data late, when
    /// others have taken its place. With jitter a token may wait longer.
    token_expiry: Expiry = Expiry::Auto, TOKEN_EXPIRY "token-expiry"
        Opt::number_or(
            Range::new(1, 10_000_000_000, Unit::Time),
            &[("auto", uapi::EXPIRY_AUTO), ("off", uapi::EXPIRY_OFF)],
        ).from("TOP section 3.1, rule R2; eight pacing times per hop: section 4.3");

    /// Which token goes when one arrives at a full token queue. fair: of the flow (addresses and
    /// ports) that has most of the last 128 that were queued, the oldest. Who asks for no more than
    /// its part of the link then loses nothing, and a flow over several links gets what others get.
    /// last: the one that arrives, as in the papers; flows over several links starve.
    token_drop: TokenDrop = TokenDrop::Fair, TOKEN_DROP "token-drop"
        Opt::choice(&["fair", "last"])
            .from("longest queue drop, as shared buffers have it; ExpressPass section 2.2 (last)");

    /// Whether tokens go before data or after it. With data-first, a token that is due lets one
    /// data packet pass, and no more, so that data which fills the link leaves tokens their share:
    /// data waits less, and tokens wait for a frame more. Signals are always first and unscheduled
    /// packets last.
    order: Order = Order::TokensFirst, ORDER "order"
        Opt::choice(&["tokens-first", "data-first"])
            .from("TOP fig. 3b (tokens-first) and fig. 3a (data-first)");

    /// How many packets the unscheduled band holds: packets sent in the first round trip without a
    /// token, which go when there is nothing else. More lets more short messages arrive at once,
    /// and makes the worst wait of a queue longer. off: no such band; its packets are data.
    unscheduled: u32 = 1, UNSCHEDULED "unscheduled"
        Opt::number_or(Range::new(1, 1024, PACKETS), &[("off", 0)])
            .from("TOP section 4.4: exactly one full-length packet");

    /// How many bytes the data band's own queue holds, as bfifo does. It does not count for a child
    /// qdisc on the data class. Raise it if data that tokens drew is dropped; lower it to bound how
    /// long other traffic may wait here.
    data_limit: u32 = 1514 * 1000, DATA_LIMIT "data-limit"
        Opt::number(limits::QUEUE)
            .usually("transmit queue length (1000 if 0) x (MTU + link-layer header)")
            .from("as tc-bfifo(8)");

    /// How many packets the signal band holds. Signals go first, so that few ever wait; the limit
    /// is for what floods the port.
    signal_limit: u32 = 1000, SIGNAL_LIMIT "signal-limit"
        Opt::number(Range::new(1, 100_000, PACKETS))
            .from("as tc-pfifo(8) with the usual transmit queue length");

    /// What signals may take of the link before all others. Signals beyond it are data from then
    /// on, and count as such: they go with what no token asked for, before other data within
    /// bounds; none is dropped for that, but they may come late and out of order. 64 KiB may come
    /// at once, and what falls due within jitter. The default is far more than signals take where
    /// all behave, and keeps the rest of the link for others where somebody floods the port with
    /// packets that say they are signals; honest ones are data too, then. Frames that bridges keep
    /// to themselves (LACP, STP, LLDP) have 16 KiB beyond. off and 100%: no bound, for networks
    /// where nobody else can send. While the link's speed is not known there is none.
    signal_share: u32 = 50_000_000, SIGNAL_SHARE "signal-share"
        Opt::number_or(limits::SIGNALS, &[("off", uapi::SIGNAL_SHARE_OFF as u64)])
            .from("signals take 0.32 % of a link whose data goes both ways; TOP and ExpressPass \
                   have no bound");

    /// The class of packets that neither their socket priority, nor a filter, nor their headers
    /// gave to one, by their DSCP: CODE=BAND[,CODE=BAND...]. A CODE is 0..63 or a name (CS0..CS7,
    /// AF11..AF43, EF, LE), a BAND is signal, data, unscheduled or token0..token7. Codes that are
    /// not named are data. The map replaces the one in force as a whole. none: all are data. Use it
    /// for transports that mark their packets and have no Turnstile header; whoever may send such a
    /// code gets that class.
    dscp: DscpMap = DscpMap::DEFAULT, DSCP_MAP "dscp"
        Opt::of(Form::Map)
            .from("network control traffic (RFC 4594 section 3.2)");

    /// Whether super-packets (GSO) are split before they are queued. With split-gso alone all are,
    /// into the packets that go over the wire. With no-split-gso none is, which saves processor
    /// time, but a whole one cannot be interrupted: others wait for up to 64 KB. They count as the
    /// packets that they stand for. auto: those of data stay whole where they hold the link for no
    /// longer than gso-hold, and are cut into pieces of up to that length elsewhere: fewer and
    /// longer ones the faster the link is, single packets on one so slow that two packets take
    /// longer. The link's speed is that of link, or else the device's; while that is not known they
    /// stay whole. In other classes, in ports that mark (phantom, ren, tcd) or obey pauses (pfc),
    /// which count by packets, and of what cannot be cut into pieces (tunnels, SCTP, lists of
    /// packets from receive offload), auto means single packets as well.
    split_gso: SplitGso = SplitGso::Auto, SPLIT_GSO "split-gso"
        Opt::of(Form::Flag(&[("auto", uapi::SPLIT_GSO_AUTO as u64)]))
            .from("as tc-cake(8), which splits all up to 1 Gbit/s");

    /// How long a super-packet of data, or a piece of one, may hold the link with split-gso auto:
    /// what a token or a signal waits for at most. With data-first a token waits for two, so that
    /// each holds the link for half of it. auto: the time of jitter, which tokens are made up for
    /// anyway. Longer costs less processor time. What it is longer than jitter raises what tokens
    /// may wait, as jitter would. None is longer than an eighth of data-limit, as a full queue
    /// drops all of it.
    gso_hold: GsoHold = GsoHold::AUTO, GSO_HOLD "gso-hold"
        Opt::number_or(
            Range::new(0, 1_000_000_000, Unit::Time),
            &[("auto", uapi::GSO_HOLD_AUTO)],
        );

    /// Bytes that each packet takes on the wire beside what the kernel counts. The default is
    /// Ethernet's. Set it to what the link adds, such as a tunnel's headers below this device; too
    /// low, and the port sends more than the link carries.
    overhead: u32 = 24, OVERHEAD "overhead"
        Opt::number(limits::OVERHEAD)
            .from("Ethernet: frame check sequence 4, preamble 8, inter-packet gap 12 (IEEE 802.3)");

    /// The least that a packet takes on the wire, overhead included. The default is Ethernet's; 0
    /// for links that do not pad short packets.
    mpu: u32 = 84, MPU "mpu"
        Opt::number(limits::MPU)
            .from("Ethernet: minimum frame 64, preamble 8, inter-packet gap 12 (IEEE 802.3)");

    /// How late this machine may be: interrupts that are held back, softirqs and timers that wait.
    /// Tokens then come in bursts and leave late. So that none is lost which came at less than the
    /// tokens' rate, the port lets each token queue hold at least 64 tokens (what one poll of a
    /// device hands over) and those that fall due within TIME, does not let a token expire before
    /// such a queue could have been sent, and makes up for lateness of eight intervals (of two
    /// frames and a token, if that is longer) and TIME. What is beyond token-limit is for bursts,
    /// long ones or close together, and for lateness: tokens that come evenly find no room there,
    /// however many they are. TIME is for tokens that come late and for leaving late, together. A
    /// smaller token-limit or token-expiry is raised to that: statistics have what is in force.
    /// Raise it where tokens are lost on an otherwise idle path; larger queues and bursts are what
    /// it costs. With 0 nothing is raised: for machines that are never late, and for the papers'
    /// bounds on queues.
    jitter: Nanos = Nanos(50_000), JITTER "jitter"
        Opt::number(Range::new(0, 10_000_000, Unit::Time))
            .from("one poll: NAPI's budget; 0: TOP section 4.3 counts eight intervals of jitter");

    /// Phantom queue of the data band: a counter that each data packet which leaves raises by its
    /// bytes on the wire, and that drains at a percentage of the link or at a rate. A packet that
    /// finds more than mark bytes in it is marked Congestion Experienced if its ECN field says
    /// ECT(0) or ECT(1); no packet is held up or dropped, and packets of REN flows are not marked.
    /// Use it with a congestion control that heeds marks by their number, such as dctcp: data then
    /// stays below the drain rate, and the queue empty. The rest of the link is the price; it is
    /// for what is no data, tokens included. Of a queue that is on, drain or mark can be changed
    /// alone.
    phantom: Option<Phantom> = None, PHANTOM_SHARE | PHANTOM_RATE64 "phantom drain"
        Opt::part_or(limits::DRAIN, &[("off", uapi::PHANTOM_OFF as u64)])
            .from("HULL sections 2 and 6: drain 95% and mark 1kb at 1 Gbit/s; the higher the \
                   drain rate, the lower the mark");

    /// The sampling period of REN's marks on the data band. In each period the port compares how
    /// many packets wait with how many more would have fit; so many packets of REN flows are marked
    /// over-utilized or left under-utilized, all others are marked fully utilized, and a mark is
    /// only ever raised. REN flows are those of transports with policy ren (see turnstile(8)); no
    /// other packet is touched. Turn it on where such transports run. The period should be the
    /// longest round trip of an idle network, and the same on all ports of a path: shorter, and
    /// flows answer to noise; longer, and they answer late.
    ren: Option<Nanos> = None, REN_PERIOD "ren period"
        Opt::number_or(Range::new(1_000, 1_000_000_000, Unit::Time), &[("off", uapi::REN_OFF)])
            .from("REN section 3.2; its testbed of 10 Gbit/s has a round trip and a period of 48us \
                   (section 5.2)");

    /// Flow control: pause frames that the device receives hold up data and unscheduled packets,
    /// until the latest end of what they say. With priorities, such as 3 or 3,4: frames that name
    /// any of them (PFC, IEEE 802.1Qbb), and those that pause the whole link (802.3x). With pause:
    /// only the latter, for a neighbour that knows no priorities. Tokens and signals go on. A pause
    /// lasts as long as the frame says, to the nanosecond, and ends when a later one says so. Turn
    /// it on where the next switch pauses its links and the device's hardware does not obey by
    /// itself; devices that do take such frames for themselves. Data needs room here meanwhile: see
    /// data-limit. What a child qdisc on the data class holds is held as well, but no watchdog
    /// drops it. While the link's speed is not known a pause takes no time; it is timed at the rate
    /// of link, if that is given.
    pfc: Option<Pfc> = None, PFC_DATA "pfc data"
        Opt::number_or(
            Range::new(1, 255, Unit::Priorities),
            &[("off", uapi::PFC_OFF as u64), ("pause", uapi::PFC_PAUSE as u64)],
        ).from("IEEE 802.1Qbb; 802.3 annex 31B");

    /// TCD's marks on the data band, which tell congestion from pauses: packets that leave a port
    /// with this many bytes of data or more waiting are marked Congestion Experienced (CE), unless
    /// the next switch has paused the link lately. Then nobody can say what the queue comes from,
    /// and they are marked undetermined (UE, the code point of ECT(1)). Packets whose transport
    /// knows no ECN are not touched, nor is CE ever taken back. Use it with pfc, and a congestion
    /// control that takes UE for no congestion; not in a network with L4S, which has another
    /// meaning for ECT(1).
    tcd: Option<Tcd> = None, TCD_THRESHOLD "tcd threshold"
        Opt::number_or(Range::new(1, 1 << 30, Unit::Size), &[("off", uapi::TCD_OFF as u64)])
            .from("Congestion Detection in Lossless Networks (SIGCOMM 2021)");

    also {
        /// How long data may be paused without a packet of it leaving, pauses that come again
        /// before one has left together. From then on until the pause ends, data is dropped instead
        /// of held, as switches do against deadlock and faulty cards.
        pfc: Nanos, PFC_WATCHDOG "pfc watchdog"
            Opt::number(Range::new(1_000_000, 60_000_000_000, Unit::Time))
                .usually("200ms");

        /// The port pauses others, too: data that came in by this device and waits in ports of the
        /// same network namespace counts (bytes on the wire), and with more than this the other end
        /// of this device's link is sent a pause of all that data is, before all else, and so often
        /// again that it does not end by itself. Ports count what came in by devices whose ports
        /// have this; such data is not bounded by data-limit. Give it to all ports of a bridge or
        /// router whose neighbours obey, and nothing is dropped between them. Only at the root of
        /// an Ethernet device, without a child on the data class, with unscheduled off and not with
        /// no-split-gso. It counts for packets whose way in was this device, or a VLAN on it; not
        /// by a bond or a VRF, nor routed by a bridge. One that is flooded counts for each port
        /// that it waits in. Pauses are counted in bit times of link, which has to be what the
        /// device and the other end really have. auto: what comes in a round trip and two full
        /// frames, so that the link is not idle after a pause. Less pauses earlier; more takes
        /// memory.
        pfc: Room, PFC_XOFF "pfc xoff"
            Opt::number_or(
                Range::new(1, 1 << 30, Unit::Size),
                &[("off", uapi::PFC_XOFF_OFF as u64), ("auto", uapi::PFC_AUTO as u64)],
            ).usually("off");

        /// A pause that the port has sent ends when no more than this is held. auto: two full
        /// frames less than xoff. More, and pauses are short and many.
        pfc: Room, PFC_XON "pfc xon"
            Opt::number_or(
                Range::new(0, 1 << 30, Unit::Size),
                &[("auto", uapi::PFC_AUTO as u64)],
            ).usually("auto");

        /// Room beyond xoff, for what still comes when a pause was decided. What finds none is
        /// dropped. auto: as much as can come, by the link's rate, its delay, the MTU, what IEEE
        /// 802.3 lets the other end take, jitter at both ends, and what generic receive offload
        /// merges while it is on (ethtool -K DEV gro off needs less); statistics have what that is.
        pfc: Room, PFC_HEADROOM "pfc headroom"
            Opt::number_or(
                Range::new(0, 1 << 30, Unit::Size),
                &[("auto", uapi::PFC_AUTO as u64)],
            ).usually("auto")
            .from("IEEE 802.1Qbb annex O");

        /// How long a bit takes to the other end of the link: 5 ns for each meter of cable. For
        /// what is auto.
        pfc: Delay, PFC_DELAY "pfc delay"
            Opt::number(Range::new(0, 10_000_000, Unit::Time))
                .usually("500ns")
                .from("100 m, the longest that IEEE 802.1Qbb reckons with");

        /// The threshold follows what is free, as in switches with a shared buffer: the other end
        /// is paused with more than alpha times what is free of buffer, and the pause ends at two
        /// full frames less. With 1/2 one busy neighbour may have a third of the buffer, two a
        /// quarter each. xoff and xon are auto then; the headroom comes on top of the buffer. More
        /// lets one neighbour take more; less keeps more free for others.
        pfc: Alpha, PFC_ALPHA "pfc alpha"
            Opt::number_or(
                Range::new(4, 2048, Unit::Ratio),
                &[("off", uapi::PFC_ALPHA_OFF as u64)],
            ).usually("off")
            .from("Choudhury and Hahne, Dynamic Queue Length Thresholds (1998)");

        /// What all ports of the network namespace with alpha share, in bytes on the wire. Give the
        /// same to all: each port goes by its own.
        pfc: u32, PFC_BUFFER "pfc buffer"
            Opt::number(Range::new(1600, 1 << 30, Unit::Size));

        /// How long the port sends without a pause until it is no longer undetermined. auto: by the
        /// ON-OFF model with a congestion degree of 5 %, for a next switch that pauses this port as
        /// this one pauses others (pfc xoff, xon and delay), or with thresholds that are two full
        /// frames apart, 100 m away, and that is as late as headroom counts (jitter at both ends).
        /// Full frames are of 1538 bytes on the wire: where the MTU is larger, give a time.
        /// Shorter, and victims are called congested between two
        /// pauses; longer, and congestion is seen late by as much. off: no notice is taken of
        /// pauses, and ports mark CE by their queue's length alone, as with ECN.
        tcd: MaxOn, TCD_MAX_ON "tcd max-on"
            Opt::number_or(
                Range::new(100, 1_000_000_000, Unit::Time),
                &[("auto", uapi::TCD_MAX_ON_AUTO), ("off", uapi::TCD_MAX_ON_OFF)],
            );

        /// Packets that find more than this in the phantom queue are marked. Less keeps the queue
        /// shorter, and marks flows that would have fit.
        phantom: Option<Phantom>, PHANTOM_MARK "phantom mark"
            Opt::number(Range::new(0, 1 << 30, Unit::Size));
    }
}

/// Which groups of options are on; see [`Config::groups`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    phantom: bool,
    pfc: bool,
    tcd: bool,
}

/// All options.
pub const OPTIONS: &[Opt] = <Config as Table>::OPTIONS;

impl Config {
    /// Which of the options that come in groups are on. It is small where all of a configuration
    /// would be much for the kernel's stack.
    #[must_use]
    pub const fn groups(&self) -> Groups {
        Groups {
            phantom: self.phantom.is_some(),
            pfc: self.pfc.is_some(),
            tcd: self.tcd.is_some(),
        }
    }

    /// Completes a configuration that took a request's attributes one by one: see [`Table::take`].
    /// `before` says what was on before them.
    ///
    /// # Errors
    ///
    /// What does not go together in the request.
    pub fn settle(&mut self, before: Groups, given: Given) -> Result<(), Refusal> {
        values::settle(&mut self.phantom, before.phantom, given)?;
        values::settle_pfc(&mut self.pfc, before.pfc, given)?;
        values::settle_tcd(&mut self.tcd, before.tcd, given)
    }
}

#[cfg(test)]
mod tests;
