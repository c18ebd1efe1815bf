// SPDX-License-Identifier: GPL-2.0
//! Every option: its default, and that it is what it was set to.

use anyhow::{ensure, Context, Result};
use turnstile_core::options::{Kind, Table};
use turnstile_core::transport::config::{Config, OPTIONS};
use turnstile_core::transport::uapi::{command, config, SCHEDULE_EDF};
use turnstile_core::transport::uapi::{POLICY_DCQCN, POLICY_REN, POLICY_TIMELY};

use super::Attr::{self, U32, U64};
use super::Bench;
use crate::cases::support::Verdicts;
use crate::harness::Ctx;

/// What a namespace begins with. Written out: it is what the documentation says, not what the code
/// says.
const DEFAULTS: &[Attr] = &[
    U32(config::POLICY, 1),
    U64(config::LINK_RATE64, 0),
    U32(config::TOKEN_SHARE, 51_787_916),
    U32(config::FEEDBACK, 3),
    U32(config::INITIAL_RATE, 1_000_000_000),
    U32(config::MIN_RATE, 15_000_000),
    U32(config::TARGET_LOSS, 100_000_000),
    U32(config::WEIGHT_INITIAL, 62_500_000),
    U32(config::WEIGHT_MIN, 50_000_000),
    U32(config::WEIGHT_MAX, 500_000_000),
    U32(config::JITTER, 1_000_000_000),
    U64(config::UPDATE_PERIOD, 0),
    U64(config::BASE_RTT, 50_000),
    U64(config::TOKEN_EXPIRY, 0),
    U32(config::CLOCK, 0),
    U32(config::PRIORITIES, 0),
    U32(config::PRIORITY_PACKETS, 20_000),
    U32(config::PRIORITY_A, 1000),
    U32(config::PRIORITY_B, 0),
    U32(config::SCHEDULE, 0),
    U32(config::UNSCHEDULED, u32::MAX),
    U32(config::MAX_INCOMING, 4096),
    U32(config::MAX_OUTGOING, 4096),
    U32(config::MAX_PER_PEER, 1024),
    U32(config::MAX_HALF_OPEN, 1024),
    U32(config::MAX_REMEMBERED, 65_536),
    U64(config::TIMEOUT, 10_000_000_000),
    U64(config::RTO, 2_000_000),
    U32(config::SEND_BUFFER, 16 << 20),
    U32(config::RECEIVE_BUFFER, 4 << 20),
    U32(config::DSCP_SIGNAL, 48),
    U32(config::DSCP_TOKEN, 46),
    U32(config::DSCP_DATA, 0),
    U32(config::DSCP_UNSCHEDULED, 1),
    U32(config::FAIRNESS, 3),
    U32(config::SENDER_PRIORITY, 0),
    U32(config::MAX_ORPHANS, 2048),
    U32(config::ORPHAN_BUFFER, 256 << 20),
    U32(config::SECURITY, 0),
    U32(config::KEY, 0),
    U32(config::ACCEPT_KEY, 0),
    U32(config::ACCEPT_KEY_2, 0),
    U32(config::RECEIVE_BUFFER_MAX, 128 << 20),
    U32(config::RECEIVE_MEMORY, 512 << 20),
    U32(config::UNSCHEDULED_BUFFER, 128_000),
    U32(config::TCD, 0),
    U64(config::MINIMUM_RATE64, 1_250_000),
    U64(config::CNP_INTERVAL, 50_000),
    U32(config::DCQCN_G, 3_906_250),
    U64(config::DCQCN_ALPHA_TIMER, 55_000),
    U64(config::DCQCN_TIMER, 55_000),
    U64(config::DCQCN_BYTE_COUNTER, 10_000_000),
    U32(config::DCQCN_RECOVERY_STEPS, 5),
    U64(config::DCQCN_ADDITIVE64, 5_000_000),
    U64(config::DCQCN_HYPER64, 6_250_000),
    U32(config::DCQCN_TCD_CUT, 1500),
    U64(config::TIMELY_LOW, 50_000),
    U64(config::TIMELY_HIGH, 500_000),
    U64(config::TIMELY_MIN_RTT, 20_000),
    U32(config::TIMELY_WEIGHT, 125),
    U32(config::TIMELY_BETA, 800),
    U64(config::TIMELY_ADDITIVE64, 1_250_000),
    U32(config::TIMELY_HYPER_AFTER, 5),
    U32(config::TIMELY_HYPER_FACTOR, 5),
    U32(config::TIMELY_TCD_BETA, 1600),
    U32(config::TIMELY_MAX_CUT, 500),
    U32(config::WORTH, 0),
];

/// The policy that an option is for, if it is refused with others.
fn policy_of(option: u16) -> Option<u32> {
    match option {
        config::TCD | config::MINIMUM_RATE64 => Some(POLICY_DCQCN),
        config::DCQCN_G..=config::DCQCN_TCD_CUT => Some(POLICY_DCQCN),
        config::TIMELY_LOW..=config::TIMELY_MAX_CUT => Some(POLICY_TIMELY),
        _ => None,
    }
}

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new()?;
    let mut verdicts = Verdicts::default();
    let shown = bench.config()?;
    ensure!(
        shown.len() == DEFAULTS.len() && OPTIONS.len() == DEFAULTS.len(),
        "{} options are shown, {} are tested",
        shown.len(),
        DEFAULTS.len()
    );
    for default in DEFAULTS {
        let verdict = match shown.get(&default.number()) {
            Some(content) if *content == default.content() => Ok(()),
            other => Err(anyhow::anyhow!("{other:?} by default")),
        };
        verdicts.row(&format!("{default:?}"), verdict);
    }
    let key = super::super::sealed::psk("options", 1)?;
    // One at a time, to an end of its range that is not the default.
    for option in OPTIONS {
        let default = Config::DEFAULT
            .get(option.number)
            .and_then(|value| value.number());
        let default = default.context("a number")?;
        let (least, most) = option.form.ends();
        for value in [least, most] {
            // These must be in order, and the least is set before the greatest.
            let value = match option.number {
                config::WEIGHT_INITIAL => value.clamp(100_000_000, 200_000_000),
                config::WEIGHT_MIN => value.min(50_000_000),
                config::WEIGHT_MAX => value.max(300_000_000),
                config::INITIAL_RATE => value.max(500_000_000),
                config::MIN_RATE => value.min(400_000_000),
                config::RTO => value.min(90_000_000),
                config::TIMELY_LOW => value.min(400_000),
                config::TIMELY_HIGH => value.max(600_000),
                // Any number in the range is taken, if there is such a key.
                config::KEY | config::ACCEPT_KEY | config::ACCEPT_KEY_2 => key.into(),
                _ => value,
            };
            let attr = match option.kind {
                Kind::U64 => U64(option.number, value),
                _ => U32(option.number, u32::try_from(value).context("a range")?),
            };
            let accepted = match (option.number, policy_of(option.number)) {
                (config::SECURITY, _) => bench.accepted(&[attr, U32(config::KEY, key)]),
                (_, None) => bench.accepted(&[attr]),
                (_, Some(policy)) => {
                    let accepted = bench.accepted(&[U32(config::POLICY, policy), attr]);
                    // Those of a policy are as at first with another one.
                    bench.accepted(&[U32(config::POLICY, 0), default_of(option.number)?])?;
                    accepted
                }
            };
            verdicts.row(
                &format!("{} {value} (default {default})", option.name),
                accepted,
            );
        }
    }
    verdicts.row("all at once, as at first", bench.accepted(DEFAULTS));
    verdicts.row("nothing at all", bench.accepted(&[]));
    verdicts.row("several at once", several(&mut bench));
    verdicts.row("the link in force", link_in_force(&mut bench));
    ctx.note(format!("{} rows", verdicts.rows));
    verdicts.finish()
}

/// What an option is at first.
fn default_of(option: u16) -> Result<Attr> {
    let default = DEFAULTS.iter().find(|it| it.number() == option);
    default.copied().context("an option without a default")
}

/// What depends on each other may come in any order: only the result counts.
fn several(bench: &mut Bench) -> Result<()> {
    bench.accepted(&[
        U32(config::WEIGHT_MIN, 600_000_000),
        U32(config::WEIGHT_MAX, 700_000_000),
        U32(config::POLICY, POLICY_REN),
        U32(config::SCHEDULE, SCHEDULE_EDF),
        U32(config::WEIGHT_INITIAL, 650_000_000),
    ])?;
    bench.accepted(DEFAULTS)
}

/// The rate that the user set, that of the fastest device that is up, or 10 Gbit/s.
fn link_in_force(bench: &mut Bench) -> Result<()> {
    const VETH: u64 = 10_000 * 125_000;
    let expect = |bench: &mut Bench, rate: u64, when: &str| {
        let reply = bench.family.read(command::TRANSPORT_GET)?;
        let shown = reply.number(config::LINK_IN_FORCE);
        ensure!(shown == Some(rate), "{shown:?} instead of {rate}: {when}");
        Ok(())
    };
    expect(bench, 1_250_000_000, "no device but lo")?;
    bench.accepted(&[U64(config::LINK_RATE64, 125_000_000)])?;
    expect(bench, 125_000_000, "1 Gbit/s was asked for")?;
    bench.accepted(&[U64(config::LINK_RATE64, 0)])?;
    bench.ns.ip("link add v0 type veth peer name v1")?;
    bench.ns.ip("link set v0 up")?;
    bench.ns.ip("link set v1 up")?;
    expect(bench, VETH, "a veth pair is up")
}
