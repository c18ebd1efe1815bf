// SPDX-License-Identifier: GPL-2.0
//! The options of a pacer.

use crate::options::{limits, options, Form, Opt, Range, Refusal, Table, Unit};
use crate::pacer::uapi::option as number;
use crate::units::Nanos;

/// bytes/s: the rate to begin with where neither the user nor the device names one.
pub const FALLBACK_RATE: u64 = 1_250_000_000;

const fn times(min: u64, max: u64) -> Opt {
    Opt::number(Range::new(min, max, Unit::Time))
}

const fn shares(min: u64) -> Opt {
    Opt::number(Range::new(min, 1_000_000_000, Unit::Share))
}

options! {
    /// How a pacer is configured.
    ///
    /// The fields are as the user gave them; [`Config::validate`] says whether they are allowed.
    /// Symbols are those of HULL, equation 4. [`Config::DEFAULT`] is what
    /// `tc qdisc add dev … root turnstile_pacer` gives, but for `pass_limit`: the qdisc takes that
    /// from the device.
    ///
    /// T_r and T_i of HULL's testbed are in a table that our text of the paper lacks: 64 us and
    /// 10 ms are our choice. T_r / eta is 512 us, "on the order of a few RTTs" (section 6) in a
    /// datacenter where a round trip takes 100 to 200 us.
    pub struct Config;

    /// How often the bucket's rate R follows the traffic. After each interval T, R becomes
    /// (1 - eta) R + eta M / T + beta Q, with M bytes that the host sent in it and Q bytes that
    /// wait for tokens, all on the wire. interval / eta should be a few round-trip times: set it
    /// lower where these are shorter. Shorter follows bursts sooner, and paces less evenly.
    interval: Nanos = Nanos(64_000), INTERVAL "interval"
        times(1_000, 1_000_000_000)
            .from("T_r of HULL, equation 4 and section 6; the number is our choice (for 10 Gbit/s \
                   and round trips of 20 us, section 6.3 has 7.2us)");

    /// How much the newest interval counts for the rate. More follows the traffic sooner, and lets
    /// single bursts through.
    eta: u32 = 125_000_000, ETA "eta"
        shares(1_000_000).from("HULL, equation 4; 0.125 in section 6.3");

    /// How many bytes per second are added to the rate, in each interval, for each byte that waits.
    /// More keeps the queue shorter, and paces less. Raise it with the link's speed.
    beta: u32 = 16, BETA "beta"
        Opt::number(Range::new(1, 1_000_000, Unit::Count("")))
            .from("HULL, equation 4; 2^4 is the sweet spot of section 4.4, at 1 Gbit/s (for \
                   10 Gbit/s, section 6.3 has 375)");

    /// How likely a TCP acknowledgement with ECN-Echo, received by the device, is to have its flow
    /// paced from then on. Flows of few packets get few of them, and are seldom paced. More paces
    /// flows sooner, short ones included; with 0% none is.
    associate: u32 = 125_000_000, ASSOCIATE "associate"
        shares(0).from("p_a of HULL, section 4.2: 1/8");

    /// A flow that has sent nothing, and for which no acknowledgement was drawn, for this long is
    /// paced no more. Longer keeps slow flows paced, and their places taken.
    idle: Nanos = Nanos(10_000_000), IDLE "idle"
        times(10_000, 60_000_000_000)
            .from("T_i of HULL, section 4.2; the number is our choice (section 6.3 has 1ms for \
                   round trips of 20 us)");

    /// The most flows that are paced at a time. Others pass by until there is room. Raise it on
    /// hosts that send many large flows at once; each packet is then looked up among more.
    flows: u32 = 64, FLOWS "flows"
        Opt::number(Range::new(1, 4096, Unit::Count("flows"))).from("HULL, section 5.1");

    /// How many bytes may leave at once after a pause. A longer packet leaves when the bucket is
    /// full, and is paid for before the next one leaves. More needs fewer timers, and sends larger
    /// bursts.
    bucket: u32 = 3 * 1024, BUCKET "bucket"
        Opt::number(Range::new(64, 1 << 20, Unit::Size)).from("HULL, section 5.1");

    /// How many bytes may wait for tokens. A packet that finds no room is dropped. Raise it if
    /// over-limit drops are counted; packets then wait longer.
    limit: u32 = 128 * 1024, LIMIT "limit"
        Opt::number(limits::QUEUE).from("HULL, section 5.1");

    /// How many bytes of what passes by may wait, where the device does not take them at once. It
    /// does not count for a child qdisc.
    pass_limit: u32 = 1514 * 1000, PASS_LIMIT "pass-limit"
        Opt::number(limits::QUEUE)
            .usually("transmit queue length (1000 if 0) x (MTU + link-layer header)")
            .from("as tc-bfifo(8)");

    /// The bucket's rate to begin with; another one, given with a change, holds from then on. auto:
    /// the speed that the device reports, 10gbit if it reports none. Lower paces from the first
    /// packet, and holds up a host that begins with a burst.
    initial_rate: Option<u64> = None, INITIAL_RATE64 "initial-rate"
        Opt::number_or(limits::LINK, &[("auto", 0)])
            .from("our choice: pacing begins when the rate has come down to what the host sends, \
                   after a few intervals / eta");

    /// Whether super-packets (GSO) of paced flows are split into the packets that go over the wire,
    /// and each is paced. What passes by always stays whole. With no-split-gso each waits for a
    /// full bucket, and takes as many tokens as it has bytes on the wire: that saves processor
    /// time, and sends bursts of up to 64 KB.
    split_gso: bool = true, SPLIT_GSO "split-gso"
        Opt::of(Form::Flag(&[])).from("HULL, section 2.3: the pacer works after segmentation");

    /// Bytes that each packet takes on the wire beside what the kernel counts. The default is
    /// Ethernet's.
    overhead: u32 = 24, OVERHEAD "overhead"
        Opt::number(limits::OVERHEAD)
            .from("Ethernet: frame check sequence 4, preamble 8, inter-packet gap 12 (IEEE 802.3)");

    /// The least that a packet takes on the wire, overhead included. The default is Ethernet's.
    mpu: u32 = 84, MPU "mpu"
        Opt::number(limits::MPU)
            .from("Ethernet: minimum frame 64, preamble 8, inter-packet gap 12 (IEEE 802.3)");
}

/// All options.
pub const OPTIONS: &[Opt] = <Config as Table>::OPTIONS;

impl Config {
    /// Checks every option.
    ///
    /// # Errors
    ///
    /// The first one that is out of range.
    pub fn validate(&self) -> Result<(), Refusal> {
        self.check()
    }
}
