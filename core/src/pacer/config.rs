// SPDX-License-Identifier: GPL-2.0
//! The options of a pacer: defaults and ranges.

use crate::port::config::{within, Invalid};
use crate::units::Nanos;

/// The allowed values of each option.
pub mod limits {
    use crate::port::config::limits::{Range, Unit};

    const fn range(min: u64, max: u64, unit: Unit) -> Range {
        Range { min, max, unit }
    }

    /// ns.
    pub const INTERVAL: Range = range(1_000, 1_000_000_000, Unit::Time);
    /// Parts per billion.
    pub const ETA: Range = range(1_000_000, 1_000_000_000, Unit::Share);
    /// 1/s.
    pub const BETA: Range = range(1, 1_000_000, Unit::Number);
    /// Parts per billion.
    pub const ASSOCIATE: Range = range(0, 1_000_000_000, Unit::Share);
    /// ns.
    pub const IDLE: Range = range(10_000, 60_000_000_000, Unit::Time);
    /// Entries of the table.
    pub const FLOWS: Range = range(1, 4096, Unit::Number);
    /// Bytes.
    pub const BUCKET: Range = range(64, 1 << 20, Unit::Number);
    /// Bytes that wait for tokens.
    pub const LIMIT: Range = range(1600, 1 << 30, Unit::Number);
    /// Bytes that pass by.
    pub const PASS_LIMIT: Range = crate::port::config::limits::DATA_LIMIT;
    /// bytes/s. 0, which is outside, stands for the device's speed.
    pub const INITIAL_RATE: Range = crate::port::config::limits::LINK;
    /// Bytes per packet.
    pub const OVERHEAD: Range = crate::port::config::limits::OVERHEAD;
    /// Bytes.
    pub const MPU: Range = crate::port::config::limits::MPU;
}

/// bytes/s: the rate to begin with where neither the user nor the device names one.
pub const FALLBACK_RATE: u64 = 1_250_000_000;

/// How a pacer is configured.
///
/// The fields are as the user gave them; [`Config::validate`] says whether they are allowed.
/// Symbols are those of HULL, equation 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// T_r: the rate follows the traffic once in this time.
    pub interval: Nanos,
    /// eta, in parts per billion: the weight of the newest sample.
    pub eta: u32,
    /// beta, 1/s: how much the backlog adds to the rate.
    pub beta: u32,
    /// p_a, in parts per billion: probability that an acknowledgement with ECN-Echo associates its
    /// flow.
    pub associate: u32,
    /// T_i: a flow that sends nothing for this long is forgotten.
    pub idle: Nanos,
    /// The most flows that are associated at a time.
    pub flows: u32,
    /// Bytes: what the token bucket holds.
    pub bucket: u32,
    /// Bytes: cap of what waits for tokens.
    pub limit: u32,
    /// Bytes: cap of what passes by.
    pub pass_limit: u32,
    /// bytes/s: the rate to begin with. `None`: the device's speed.
    pub initial_rate: Option<u64>,
    /// Split super-packets of paced flows into wire packets.
    pub split_gso: bool,
    /// Bytes added to each packet for what the wire carries beside it.
    pub overhead: u32,
    /// Bytes: the least that a packet occupies on the wire.
    pub mpu: u32,
}

impl Config {
    /// What `tc qdisc add dev … root turnstile_pacer` gives, but for `pass_limit`: the qdisc takes
    /// that from the device.
    ///
    /// What HULL's text names is taken from it: p_a of 1/8 (section 4.2), eta of 0.125 (section
    /// 6.3, for the simulations), beta of 2^4, the "sweet spot" of section 4.4, a table of 64
    /// flows, a bucket of 3 KB and a queue of 128 KB (section 5.1). T_r and T_i of the testbed are
    /// in a table that our text of the paper lacks: 64 us and 10 ms are our choice. T_r / eta is
    /// 512 us, "on the order of a few RTTs" (section 6) in a datacenter where a round trip takes
    /// 100 to 200 us.
    pub const DEFAULT: Self = Self {
        interval: Nanos(64_000),
        eta: 125_000_000,
        beta: 16,
        associate: 125_000_000,
        idle: Nanos(10_000_000),
        flows: 64,
        bucket: 3 * 1024,
        limit: 128 * 1024,
        pass_limit: 1514 * 1000,
        initial_rate: None,
        split_gso: true,
        // Ethernet, as the port.
        overhead: 24,
        mpu: 84,
    };

    /// Checks every option.
    ///
    /// # Errors
    ///
    /// The first one that is out of range.
    pub fn validate(&self) -> Result<(), Invalid> {
        within("interval", self.interval.0, limits::INTERVAL)?;
        within("eta", self.eta.into(), limits::ETA)?;
        within("beta", self.beta.into(), limits::BETA)?;
        within("associate", self.associate.into(), limits::ASSOCIATE)?;
        within("idle", self.idle.0, limits::IDLE)?;
        within("flows", self.flows.into(), limits::FLOWS)?;
        within("bucket", self.bucket.into(), limits::BUCKET)?;
        within("limit", self.limit.into(), limits::LIMIT)?;
        within("pass-limit", self.pass_limit.into(), limits::PASS_LIMIT)?;
        if let Some(rate) = self.initial_rate {
            within("initial-rate", rate, limits::INITIAL_RATE)?;
        }
        within("overhead", self.overhead.into(), limits::OVERHEAD)?;
        within("mpu", self.mpu.into(), limits::MPU)
    }
}
