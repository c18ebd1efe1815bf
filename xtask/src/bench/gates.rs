// SPDX-License-Identifier: GPL-2.0
//! What the figures must be like.

use super::before::{reference, BEFORE, MESSAGES_BEFORE, RATIOS};
use turnstile_test_protocol::bench::{Boot, Costs, Messages, Waits};

/// How far a figure of two boots may differ, instructions; or [`TOLERANCE_PART`] of it, if that is
/// more.
const TOLERANCE: f64 = 1.0;
/// As a part of the figure.
const TOLERANCE_PART: f64 = 0.001;
/// The goal for a port of 8 bands that takes the class from `skb->priority`, called directly.
const GOAL_CLASS_ID: f64 = 220.0;
/// The goal for one that reads it from the packet's header.
const GOAL_HEADER: f64 = 280.0;
/// The goal for one with a link rate.
const GOAL_SHAPED: f64 = 270.0;
/// The goal for the whole transmit path through a port with a link rate, less what the path costs
/// without a queue.
const GOAL_SHAPED_PATH: f64 = 620.0;
/// By what part a message may cost more than before.
const MESSAGE_MORE: f64 = 0.02;
/// The same of long messages as they come: how their two ends take turns on the one processor moves
/// them, also from one run to the next.
const TURNS_MORE: f64 = 0.1;
const BY_TURNS: [&str; 2] = ["1MB", "bulk"];
/// The same of long messages at a pace: TCP's own figure moves by 2 % from one run to the next.
const PACED_MORE: f64 = 0.05;
const PACED: &str = "bulk-paced";
/// What a random number may cost: a tenth of what it does while the kernel's pool is not ready.
const RANDOM_NUMBER: u64 = 400;

const CLASS_ID: &str = "turnstile/class-id";
const HEADER: &str = "turnstile/header";
const SHAPED: &str = "turnstile/shaped";
const SHAPED_DATA: &str = "turnstile/shaped-data";
const PRIO: &str = "prio";
const TBF_PRIO: &str = "tbf+prio";

/// One thing that must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gate {
    /// What must hold.
    pub(super) name: &'static str,
    /// The figures; as an error, those that are not as they should be.
    pub(super) verdict: Result<String, String>,
}

/// All gates over the boots of a run, of which there is at least one. That boots agree is asked
/// where there are several.
pub(super) fn judge(boots: &[Boot]) -> Vec<Gate> {
    let mut gates = vec![
        Gate {
            name: "all set-ups were measured",
            verdict: complete(boots),
        },
        Gate {
            name: "the clock counts instructions, and random numbers are cheap",
            verdict: ruler(boots),
        },
        Gate {
            name: "no port waited, no token expired",
            verdict: waits(boots),
        },
        Gate {
            name: "8 bands, class id: at most half of tbf with a prio child",
            verdict: at_most(boots, CLASS_ID, TBF_PRIO, 0.5),
        },
        Gate {
            name: "8 bands, header: at most prio alone",
            verdict: at_most(boots, HEADER, PRIO, 1.0),
        },
        Gate {
            name: "8 bands, class id: at most 220",
            verdict: below(direct(boots, CLASS_ID), GOAL_CLASS_ID),
        },
        Gate {
            name: "8 bands, header: at most 280",
            verdict: below(direct(boots, HEADER), GOAL_HEADER),
        },
        Gate {
            name: "8 bands, shaped link: at most 270",
            verdict: below(direct(boots, SHAPED), GOAL_SHAPED),
        },
        Gate {
            name: "8 bands, shaped link, the whole path: at most 620",
            verdict: below(path(boots, SHAPED), GOAL_SHAPED_PATH),
        },
        Gate {
            name: "data, shaped link, the whole path: at most 620",
            verdict: below(path(boots, SHAPED_DATA), GOAL_SHAPED_PATH),
        },
        Gate {
            name: "no port costs more than before",
            verdict: no_more_than_before(boots),
        },
        Gate {
            name: "no message costs 2 % more than before",
            verdict: messages(boots),
        },
        Gate {
            name: "no message costs 2 % more of TCP's than before",
            verdict: ratios(boots),
        },
    ];
    if let [first, others @ ..] = boots {
        if !others.is_empty() {
            gates.push(Gate {
                name: "a second boot gives the same, within 1 instruction or 0.1 %",
                verdict: agree(first, others),
            });
        }
    }
    gates
}

/// The lowest limit that a set-up's direct calls have in a boot, if it has any.
pub(super) fn limit(boot: &Boot, name: &str) -> Option<f64> {
    let sum = |name| boot.set_up(name).map(|set_up| set_up.costs().direct);
    match name {
        CLASS_ID => Some(sum(TBF_PRIO).map_or(GOAL_CLASS_ID, |sum| GOAL_CLASS_ID.min(sum / 2.0))),
        HEADER => Some(sum(PRIO).map_or(GOAL_HEADER, |sum| GOAL_HEADER.min(sum))),
        SHAPED => Some(GOAL_SHAPED),
        _ => None,
    }
}

/// `Ok` with `detail` unless something is wrong. Two boots that are wrong in the same way are told
/// of once.
fn verdict(mut wrong: Vec<String>, detail: String) -> Result<String, String> {
    wrong.dedup();
    if wrong.is_empty() {
        Ok(detail)
    } else {
        Err(wrong.join("\n"))
    }
}

/// Every set-up that was planned is there, and each of its figures is one.
fn complete(boots: &[Boot]) -> Result<String, String> {
    let mut wrong = Vec::new();
    for boot in boots {
        for name in boot.planned.iter().map(String::as_str) {
            let Some(set_up) = boot.set_up(name) else {
                wrong.push(format!("{name} was not measured"));
                continue;
            };
            let costs = set_up.costs();
            for (what, cost) in costs.measured() {
                if !(cost.is_finite() && cost > 0.0) {
                    wrong.push(format!("{name}: {what} costs {cost:.1}"));
                }
            }
        }
    }
    let planned = boots.iter().map(|boot| boot.planned.len()).min();
    let planned = planned.unwrap_or(0);
    if planned == 0 {
        wrong.push("nothing was to be measured".into());
    }
    verdict(wrong, format!("{planned} set-ups"))
}

fn ruler(boots: &[Boot]) -> Result<String, String> {
    let mut wrong = Vec::new();
    let mut detail = String::new();
    for ruler in boots.iter().map(|boot| &boot.ruler) {
        if ruler.nops_100 != 100 {
            wrong.push(format!("100 instructions count as {}", ruler.nops_100));
        }
        let clock = ruler.clock_10000.saturating_sub(ruler.ktime_get);
        // Whole nanoseconds, and the loads and stores between.
        if !(10_000..=10_002).contains(&clock) {
            wrong.push(format!(
                "10000 instructions take {clock} ns of the kernel's clock"
            ));
        }
        let random = ruler.random_64 / 64;
        if random >= RANDOM_NUMBER {
            wrong.push(format!(
                "a random number costs {random} instructions: the pool is not ready"
            ));
        }
        detail = format!(
            "a random number {random}, a reading of the clock {}",
            ruler.ktime_get
        );
    }
    verdict(wrong, detail)
}

fn waits(boots: &[Boot]) -> Result<String, String> {
    let ports = || {
        boots
            .iter()
            .flat_map(|boot| boot.setups.iter().filter(|s| s.is_ours()))
    };
    let mut wrong: Vec<String> = ports()
        .filter(|port| port.waits != Waits::default())
        .map(|port| {
            let Waits {
                link_waits,
                token_waits,
                expired,
            } = port.waits;
            format!(
                "{}: {link_waits} waits for the link, {token_waits} for tokens' release, {expired} \
                 expired",
                port.name
            )
        })
        .collect();
    if ports().next().is_none() {
        wrong.push("no port was measured".into());
    }
    verdict(
        wrong,
        format!("{} configurations", ports().count() / boots.len().max(1)),
    )
}

/// What a set-up costs, called directly, in each boot.
fn direct(boots: &[Boot], name: &str) -> Result<Vec<f64>, String> {
    costs(boots, name, |costs| costs.direct)
}

/// What the transmit path through a set-up costs more than without a queue, in each boot.
fn path(boots: &[Boot], name: &str) -> Result<Vec<f64>, String> {
    costs(boots, name, |costs| costs.xmit_minus_noqueue)
}

fn costs(boots: &[Boot], name: &str, which: fn(Costs) -> f64) -> Result<Vec<f64>, String> {
    boots
        .iter()
        .map(|boot| match boot.set_up(name) {
            Some(set_up) => Ok(which(set_up.costs())),
            None => Err(format!("{name} was not measured")),
        })
        .collect()
}

/// No figure of a set-up of ours is higher than it once was, but for the rounding of those.
fn no_more_than_before(boots: &[Boot]) -> Result<String, String> {
    let mut wrong = Vec::new();
    let mut least = f64::INFINITY;
    for boot in boots {
        for &(name, was_direct, was_path) in BEFORE {
            let Some(set_up) = boot.set_up(name) else {
                continue;
            };
            let costs = set_up.costs();
            let figures = [
                ("called directly", costs.direct, was_direct),
                ("by the whole path", costs.xmit_minus_noqueue, was_path),
            ];
            for (what, is, was) in figures {
                least = least.min(was - is);
                if is > was + 0.05 {
                    wrong.push(format!("{name} {what}: {is:.1}, was {was:.1}"));
                }
            }
        }
    }
    verdict(wrong, format!("{least:.1} instructions less at least"))
}

/// Each of the messages that were measured before costs at most little more in each boot.
fn messages(boots: &[Boot]) -> Result<String, String> {
    let mut wrong = Vec::new();
    let mut detail = Vec::new();
    for boot in boots {
        for &(load, was) in MESSAGES_BEFORE {
            let Some(is) = boot.row("turnstile", load).map(Messages::per_unit) else {
                wrong.push(format!("{load} was not measured"));
                continue;
            };
            let digits = if was < 1000.0 { 2 } else { 0 };
            let shown = format!("{load}: {is:.digits$}, was {was:.digits$}");
            if is > was * (1.0 + MESSAGE_MORE) {
                wrong.push(shown);
            } else {
                detail.push(shown);
            }
        }
    }
    detail.truncate(MESSAGES_BEFORE.len());
    verdict(wrong, detail.join("; "))
}

/// No load costs more, in times of TCP's in the same boot, than it did, but for a little. A quick
/// run has not all of them.
fn ratios(boots: &[Boot]) -> Result<String, String> {
    let mut wrong = Vec::new();
    let mut detail = Vec::new();
    for boot in boots {
        let mut compared = 0;
        for &(load, was) in RATIOS {
            let Some(ours) = boot.row("turnstile", load) else {
                continue;
            };
            let reference = reference(load);
            let Some(theirs) = boot.row(reference, load) else {
                wrong.push(format!("{load} was not measured with {reference}"));
                continue;
            };
            compared += 1;
            let is = ours.per_unit() / theirs.per_unit();
            let shown = format!("{load}: {is:.3}, was {was:.3}");
            let more = match load {
                _ if BY_TURNS.contains(&load) => TURNS_MORE,
                _ if load.starts_with(PACED) => PACED_MORE,
                _ => MESSAGE_MORE,
            };
            if is > was * (1.0 + more) {
                wrong.push(shown);
            } else {
                detail.push(shown);
            }
        }
        if compared == 0 {
            wrong.push("nothing was compared".into());
        }
    }
    detail.dedup();
    verdict(wrong, detail.join("; "))
}

/// In every boot, `ours` costs at most `part` of `theirs`.
fn at_most(boots: &[Boot], ours: &str, theirs: &str, part: f64) -> Result<String, String> {
    let (ours, theirs) = (direct(boots, ours)?, direct(boots, theirs)?);
    let shown = |ours: f64, limit: f64| format!("{ours:.1} of {limit:.1}");
    let limits = theirs.iter().map(|theirs| theirs * part);
    let pairs: Vec<(f64, f64)> = ours.into_iter().zip(limits).collect();
    let wrong = pairs.iter().filter(|(ours, limit)| ours > limit);
    let wrong = wrong.map(|(ours, limit)| shown(*ours, *limit)).collect();
    let first = pairs.first().map(|(ours, limit)| shown(*ours, *limit));
    verdict(wrong, first.unwrap_or_default())
}

/// Each of these is at most so many instructions.
fn below(costs: Result<Vec<f64>, String>, goal: f64) -> Result<String, String> {
    let costs = costs?;
    let wrong = costs.iter().filter(|cost| **cost > goal);
    let wrong = wrong.map(|cost| format!("{cost:.1} of {goal}")).collect();
    let first = costs.first().map(|cost| format!("{cost:.1} of {goal}"));
    verdict(wrong, first.unwrap_or_default())
}

/// Each figure of the other boots is that of the first one, within the tolerance.
fn agree(first: &Boot, others: &[Boot]) -> Result<String, String> {
    let mut wrong = Vec::new();
    let mut most = 0.0_f64;
    for other in others {
        if first.planned != other.planned {
            wrong.push("the boots did not measure the same set-ups".to_owned());
        }
        for set_up in &first.setups {
            let Some(again) = other.set_up(&set_up.name) else {
                wrong.push(format!("{} was measured in one boot only", set_up.name));
                continue;
            };
            let pairs = set_up.costs().measured().into_iter();
            for ((what, a), (_, b)) in pairs.zip(again.costs().measured()) {
                let apart = (a - b).abs();
                most = most.max(apart);
                if apart > TOLERANCE.max(a.max(b) * TOLERANCE_PART) {
                    wrong.push(format!("{}: {what} costs {a:.3}, then {b:.3}", set_up.name));
                }
            }
        }
    }
    verdict(wrong, format!("{most:.3} instructions apart at most"))
}

#[cfg(test)]
mod tests {
    use super::super::example::{example, plant, plant_in_dequeue};
    use super::*;

    /// The names of the gates that fail.
    fn failing(boots: &[Boot]) -> Vec<&'static str> {
        judge(boots)
            .into_iter()
            .filter(|gate| gate.verdict.is_err())
            .map(|gate| gate.name)
            .collect()
    }

    /// Of gate names, those that contain one of `words`.
    fn expect(boots: &[Boot], words: &[&str]) {
        let failing = failing(boots);
        assert_eq!(failing.len(), words.len(), "{failing:?}, not {words:?}");
        for word in words {
            assert!(
                failing.iter().any(|name| name.contains(word)),
                "{failing:?}"
            );
        }
    }

    #[test]
    fn good_figures_pass() {
        expect(&[example()], &[]);
        expect(&[example(), example()], &[]);
        assert_eq!(judge(&[example()]).len(), 13);
        assert_eq!(judge(&[example(), example()]).len(), 14);
    }

    #[test]
    fn a_port_that_became_dear_fails() {
        // 210 + 10 = 220; half of tbf+prio is 340; before it was 271 and 338.
        let with = |name: &str, more: f64| {
            let mut boot = example();
            plant(&mut boot, name, more);
            boot
        };
        const BEFORE: &str = "than before";
        expect(&[with(CLASS_ID, 10.0)], &[]);
        expect(&[with(CLASS_ID, 10.125)], &["at most 220"]);
        expect(&[with(CLASS_ID, 61.0)], &["at most 220"]);
        expect(&[with(CLASS_ID, 61.125)], &["at most 220", BEFORE]);
        let dear = [with(CLASS_ID, 130.125)];
        expect(&dear, &["at most 220", "half of tbf", BEFORE]);
        expect(&[with(HEADER, 10.0)], &[]);
        expect(&[with(HEADER, 10.125)], &["at most 280"]);
        let dear = [with(HEADER, 171.0)];
        expect(&dear, &["at most 280", "prio alone", BEFORE]);
        expect(&[with(SHAPED, 10.0)], &[]);
        expect(&[with(SHAPED, 10.125)], &["shaped link: at most 270"]);
    }

    /// Changes one row of a boot.
    fn change(boot: &mut Boot, name: &str, change: impl Fn(&mut Messages)) {
        let mut rows = boot.messages.iter_mut();
        change(rows.find(|row| row.name() == name).unwrap());
    }

    #[test]
    fn a_message_that_became_dear_or_was_not_measured_fails() {
        // TCP's grows with it: the ratio stays.
        let with = |instructions: u64| {
            let mut boot = example();
            for name in ["turnstile/100B", "tcp/100B"] {
                change(&mut boot, name, |row| row.instructions = instructions);
            }
            [boot]
        };
        expect(&with(852_610), &[]);
        expect(&with(852_630), &["2 % more than before"]);
        let mut boots = [example()];
        change(&mut boots[0], "turnstile/100B", |row| {
            row.load = "other".into()
        });
        expect(&boots, &["2 % more than before"]);
        let mut boots = [example(), example()];
        for name in ["turnstile/10KB", "tcp/10KB"] {
            change(&mut boots[1], name, |row| row.instructions = 2_507_780);
        }
        expect(&boots, &["2 % more than before"]);
    }

    #[test]
    fn a_message_that_became_dearer_than_tcp_s_fails() {
        let times = |part: f64| {
            let mut boot = example();
            change(&mut boot, "tcp/100B", |row| {
                row.instructions = (row.instructions as f64 / part) as u64;
            });
            [boot]
        };
        expect(&times(1.0), &[]);
        expect(&times(1.019), &[]);
        expect(&times(1.021), &["of TCP's"]);
        // Neither with a second boot alone, nor without TCP's row.
        expect(&[example(), times(1.021)[0].clone()], &["of TCP's"]);
        let mut boots = [example()];
        boots[0].messages.retain(|row| row.name() != "tcp/100B");
        expect(&boots, &["of TCP's"]);
        boots[0].messages.retain(|row| row.transport != "turnstile");
        expect(&boots, &["of TCP's", "2 % more than before"]);
    }

    #[test]
    fn a_stock_qdisc_that_became_cheap_fails_the_ratio() {
        let mut boot = example();
        plant_in_dequeue(&mut boot, TBF_PRIO, -261.0);
        expect(&[boot.clone()], &["half of tbf"]);
        plant_in_dequeue(&mut boot, PRIO, -171.0);
        expect(&[boot], &["half of tbf", "prio alone"]);
    }

    #[test]
    fn a_second_boot_that_is_bad_fails_too() {
        let mut bad = example();
        plant(&mut bad, CLASS_ID, 140.0);
        expect(
            &[example(), bad],
            &["half of tbf", "at most 220", "than before", "second boot"],
        );
    }

    #[test]
    fn boots_that_differ_by_more_than_the_tolerance_fail() {
        let with = |more: f64| {
            let mut boot = example();
            plant(&mut boot, "pfifo", more);
            [example(), boot]
        };
        expect(&with(1.0), &[]);
        expect(&with(-1.0), &[]);
        expect(&with(1.125), &["second boot"]);
        // A thousandth, where that is more.
        let dear = |more: f64| {
            let mut boots = with(4960.0);
            plant(&mut boots[0], "pfifo", 4960.0 + more);
            boots
        };
        expect(&dear(4.875), &[]);
        expect(&dear(5.5), &["second boot"]);
    }

    #[test]
    fn a_wait_or_an_expired_token_fails() {
        for plant in [
            |waits: &mut Waits| waits.link_waits = 1,
            |waits: &mut Waits| waits.token_waits = 1,
            |waits: &mut Waits| waits.expired = 1,
        ] {
            let mut boot = example();
            plant(&mut boot.setups[1].waits);
            expect(&[example(), boot], &["no port waited"]);
        }
    }

    #[test]
    fn a_clock_that_does_not_count_fails() {
        let plants: [fn(&mut Boot); 5] = [
            |boot| boot.ruler.nops_100 = 101,
            |boot| boot.ruler.nops_100 = 99,
            |boot| boot.ruler.clock_10000 = 10_051,
            |boot| boot.ruler.clock_10000 = 10_047,
            // The pool is not seeded.
            |boot| boot.ruler.random_64 = 64 * 7800,
        ];
        for plant in plants {
            let mut boot = example();
            plant(&mut boot);
            expect(&[example(), boot], &["clock counts"]);
        }
    }

    #[test]
    fn what_was_not_measured_fails() {
        let mut boot = example();
        boot.setups.retain(|set_up| set_up.name != "pfifo");
        expect(&[boot.clone()], &["all set-ups"]);
        expect(&[example(), boot], &["all set-ups", "second boot"]);
        let mut boot = example();
        boot.setups.retain(|set_up| set_up.name != TBF_PRIO);
        expect(&[boot], &["all set-ups", "half of tbf"]);
        let mut boot = example();
        boot.setups.clear();
        boot.planned.clear();
        let failing = failing(&[boot]);
        assert_eq!(failing.len(), 9, "{failing:?}");
    }

    #[test]
    fn the_lowest_limit_is_shown() {
        let mut boot = example();
        assert_eq!(limit(&boot, CLASS_ID), Some(220.0));
        assert_eq!(limit(&boot, HEADER), Some(280.0));
        assert_eq!(limit(&boot, PRIO), None);
        plant_in_dequeue(&mut boot, TBF_PRIO, -280.0);
        assert_eq!(limit(&boot, CLASS_ID), Some(200.0));
    }

    #[test]
    fn a_figure_of_nothing_fails() {
        let mut boot = example();
        plant(&mut boot, "pfifo", -40.0);
        expect(&[boot], &["all set-ups"]);
    }
}
