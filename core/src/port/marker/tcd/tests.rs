// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::prelude::*;

mod waited;

const THRESHOLD: u64 = 100_000;
const MAX_ON: Nanos = Nanos(34_000);
/// A twentieth of what 40 Gbit/s carry in that time.
const RISE: u64 = 8500;
const LAW: Law = Law {
    threshold: THRESHOLD,
    max_on: Some(MAX_ON),
    rise: RISE,
};

/// A marker and what it counts.
struct Port {
    tcd: Tcd,
    counters: Counters,
}

impl Port {
    fn new() -> Self {
        Self {
            tcd: Tcd::new(LAW, false, Nanos(0)),
            counters: Counters::EMPTY,
        }
    }

    fn pause(&mut self, now: u64) {
        self.tcd.pause(Nanos(now), &mut self.counters);
    }

    fn resume(&mut self, now: u64, queue: u64) {
        self.tcd.resume(Nanos(now), queue);
    }

    fn judge(&mut self, now: u64, queue: u64) -> State {
        self.tcd.judge(Nanos(now), queue, &mut self.counters)
    }

    fn times(&self) -> [u64; 3] {
        let Counters {
            not_congested,
            congested,
            undetermined,
            ..
        } = self.counters;
        [not_congested, congested, undetermined]
    }
}

#[test]
fn without_pauses_the_queue_decides() {
    let mut port = Port::new();
    assert_eq!(port.judge(10, THRESHOLD - 1), State::NotCongested);
    assert_eq!(port.judge(20, THRESHOLD), State::Congested);
    assert_eq!(port.judge(50, THRESHOLD), State::Congested);
    assert_eq!(port.judge(60, THRESHOLD - 1), State::NotCongested);
    assert_eq!(port.times(), [20, 40, 0]);
    assert_eq!((port.counters.congestions, port.counters.pauses), (1, 0));
}

/// With `max-on off`, pauses are no excuse; and a change is seen at once.
#[test]
fn without_max_on_the_queue_decides_in_spite_of_pauses() {
    let mut port = Port::new();
    port.pause(0);
    port.resume(10, 2 * THRESHOLD);
    assert_eq!(port.judge(20, 2 * THRESHOLD), State::Undetermined);
    let off = Law {
        max_on: None,
        ..LAW
    };
    port.tcd.set(off, Nanos(25), &mut port.counters);
    // It falls, and is long all the same.
    assert_eq!(port.judge(30, THRESHOLD), State::Congested);
    port.pause(40);
    assert_eq!(port.tcd.state(), State::Congested);
    port.resume(50, THRESHOLD);
    assert_eq!(port.judge(60, THRESHOLD - 1), State::NotCongested);
    port.pause(70);
    assert_eq!(port.counters.pauses, 1);
    port.tcd.set(LAW, Nanos(80), &mut port.counters);
    assert_eq!(port.tcd.state(), State::Undetermined);
    assert_eq!(port.counters.pauses, 2);
}

#[test]
fn a_pause_makes_it_undetermined_until_an_on_period_is_long() {
    let mut port = Port::new();
    port.judge(0, THRESHOLD);
    assert_eq!(port.tcd.state(), State::Congested);
    port.pause(100);
    assert_eq!(port.judge(200, 5 * THRESHOLD), State::Undetermined);
    port.resume(1000, 5 * THRESHOLD);
    assert_eq!(port.judge(1000 + MAX_ON.0, 0), State::Undetermined);
    assert_eq!(port.judge(1001 + MAX_ON.0, 0), State::NotCongested);
    assert_eq!(port.times(), [1, 100, 900 + MAX_ON.0]);
    // A later pause ends the wait for it, as does one that only lasts.
    port.pause(100_000);
    port.pause(100_001);
    port.resume(100_002, 0);
    port.pause(100_003);
    assert_eq!(port.judge(900_000, 2 * THRESHOLD), State::Undetermined);
    assert_eq!(port.counters.pauses, 2);
}

/// The port, and the state after a pause, with these queues as `max-on` has passed once more.
fn after(queues: &[u64]) -> (Port, State) {
    let mut port = Port::new();
    port.pause(0);
    port.resume(0, 10 * THRESHOLD);
    let mut now = 0;
    let mut state = State::Undetermined;
    for &queue in queues {
        now += MAX_ON.0 + 1;
        state = port.judge(now, queue);
    }
    (port, state)
}

#[test]
fn a_long_queue_is_congestion_if_it_rises() {
    let after = |queues: &[u64]| after(queues).1;
    let long = 10 * THRESHOLD;
    assert_eq!(after(&[long + RISE]), State::Congested);
    assert_eq!(after(&[long + RISE - 1]), State::Undetermined);
    let fell = 9 * THRESHOLD;
    assert_eq!(after(&[fell, fell + RISE]), State::Congested);
    assert_eq!(after(&[fell, fell + RISE / 2]), State::Undetermined);
    assert_eq!(after(&[fell, 2 * THRESHOLD]), State::Undetermined);
    let drained = [fell, 2 * THRESHOLD, THRESHOLD - 1];
    assert_eq!(after(&drained), State::NotCongested);
    // By how much in that time counts, from the shortest that it was in it, and not since when.
    let slowly: [u64; 10] = std::array::from_fn(|n| long + n as u64 * RISE / 2);
    assert_eq!(after(&slowly), State::Undetermined);
    let mut port = Port::new();
    port.pause(0);
    port.resume(0, long);
    assert_eq!(port.judge(1000, fell), State::Undetermined);
    assert_eq!(port.judge(1001 + MAX_ON.0, fell + RISE), State::Congested);
}

/// What a pause held up at the switch before comes as fast as this port sends: its queue stays as
/// long as it is, but for packets that come just before or just after others leave.
#[test]
fn a_queue_that_stays_as_long_as_it_is_is_no_congestion() {
    let mut port = Port::new();
    port.pause(0);
    port.resume(0, 2 * THRESHOLD);
    for at in 0..100_000 {
        let queue = 2 * THRESHOLD - 1538 * (at % 3);
        assert_eq!(port.judge(at * 308, queue), State::Undetermined);
    }
    assert_eq!(port.counters.congestions, 0);
    assert_eq!(port.judge(31_000_000, 0), State::NotCongested);
}

/// The queue of an overloaded port rises no more once the links before it are paused.
#[test]
fn where_others_are_asked_for_pauses_a_long_queue_is_congestion() {
    let queues = |times: u32| {
        let (mut port, _) = after(&[9 * THRESHOLD]);
        (0..times).for_each(|_| port.tcd.asks());
        port.judge(2 * MAX_ON.0 + 3, 9 * THRESHOLD)
    };
    assert_eq!(queues(0), State::Undetermined);
    assert_eq!(queues(1), State::Undetermined);
    assert_eq!(queues(2), State::Congested);
    // Not before max-on has passed; not what was asked for until the pause was over; and a short
    // queue is none.
    let mut port = Port::new();
    port.tcd.asks();
    port.pause(0);
    port.tcd.asks();
    port.resume(0, 10 * THRESHOLD);
    port.tcd.asks();
    assert_eq!(
        port.judge(MAX_ON.0 + 1, 10 * THRESHOLD),
        State::Undetermined
    );
    port.tcd.asks();
    assert_eq!(
        port.judge(MAX_ON.0 + 2, 10 * THRESHOLD),
        State::Undetermined
    );
    assert_eq!(
        port.judge(2 * MAX_ON.0 + 2, THRESHOLD - 1),
        State::NotCongested
    );
    assert_eq!(port.judge(2 * MAX_ON.0 + 3, THRESHOLD), State::Congested);
    port.pause(1_000_000);
    port.resume(1_000_000, 10 * THRESHOLD);
    port.tcd.asks();
    let state = port.judge(1_000_001 + MAX_ON.0, 10 * THRESHOLD);
    assert_eq!(state, State::Undetermined);
}

/// An eighth too much, from two links that are paused in turn, so that the queue stays as long as
/// it is: congested within max-on, though it never rises.
#[test]
fn overloaded_is_seen_within_max_on() {
    let mut port = Port::new();
    port.pause(0);
    port.resume(0, 3 * THRESHOLD);
    let mut called = None;
    for at in (0..200_000).step_by(308) {
        if at % 15_400 == 0 {
            port.tcd.asks();
        }
        if port.judge(at, 3 * THRESHOLD) == State::Congested {
            called.get_or_insert(at);
        }
    }
    let called = called.unwrap();
    assert!(MAX_ON.0 < called && called <= MAX_ON.0 + 308, "{called}");
}

#[test]
fn a_rise_is_a_twentieth_of_what_the_link_carries() {
    let link = Rate::from_bytes_per_sec(5_000_000_000).unwrap();
    assert_eq!(rise(link, MAX_ON), RISE);
    assert_eq!(rise(link, Nanos::ZERO), 1);
    assert_eq!(rise(Rate::UNLIMITED, MAX_ON), 1);
    // What comes to the same: what lies between the thresholds, and what the link carries until a
    // pause acts.
    let auto = max_on(link, 3076, Nanos(1000));
    assert!(rise(link, auto).abs_diff(3076 + 5000) <= 1);
}

/// Nobody looks at an idle port; when somebody does, it was not undetermined all the time.
#[test]
fn an_empty_port_is_not_congested_when_its_time_is_over() {
    let mut port = Port::new();
    port.pause(0);
    port.resume(10, 3000);
    assert_eq!(port.judge(20, 1500), State::Undetermined);
    assert_eq!(port.judge(30, 0), State::Undetermined);
    // The next packets come as a burst.
    assert_eq!(port.judge(1_000_000, THRESHOLD), State::Congested);
    let end = 10 + MAX_ON.0;
    assert_eq!(port.times(), [1_000_000 - end, 0, end]);
}

/// Section 6: where ON periods are far longer than max-on says, the port goes to and fro, once a
/// period; where they are far shorter, it is late by max-on at most.
#[test]
fn the_corner_cases_of_section_6() {
    let mut port = Port::new();
    let mut now = 0;
    for _ in 0..10 {
        port.pause(now);
        port.resume(now + 5000, 20_000);
        for at in 1..=100 {
            port.judge(now + 5000 + at * 10 * MAX_ON.0 / 100, 20_000);
        }
        now += 5000 + 10 * MAX_ON.0;
    }
    assert_eq!((port.counters.pauses, port.counters.congestions), (10, 0));
    let mut port = Port::new();
    for at in 0..100 {
        port.pause(at * 2000);
        port.resume(at * 2000 + 1000, 20_000);
        assert_eq!(port.judge(at * 2000 + 1500, 20_000), State::Undetermined);
    }
    let over = 99 * 2000 + 1000 + MAX_ON.0;
    assert_eq!(port.judge(over, 20_000), State::Undetermined);
    assert_eq!(port.judge(over + 1, 20_000), State::NotCongested);
    assert_eq!(port.counters.pauses, 1);
}

#[test]
fn max_on_is_that_of_the_on_off_model() {
    let link = Rate::from_bytes_per_sec(5_000_000_000).unwrap();
    // 3076 bytes take 615.2 ns at 40 Gbit/s.
    assert_eq!(max_on(link, 3076, Nanos(1000)), Nanos(12_304 + 20_000));
    assert_eq!(max_on(link, 0, Nanos::ZERO), Nanos::ZERO);
    let slow = Rate::from_bytes_per_sec(125).unwrap();
    assert!(max_on(slow, u32::MAX, Nanos::SECOND) > Nanos::SECOND);
}

/// The next switch, with a queue of its own: it pauses at xoff, and ends that at xon. ON periods
/// are never longer than `max_on`, if a twentieth or more is too much.
#[test]
fn no_on_period_is_longer_than_max_on() {
    let link = Rate::from_bytes_per_sec(5_000_000_000).unwrap();
    for (gap, delay, too_much) in [(3076, 1000, 20), (3076, 1000, 10), (20_000, 5000, 20)] {
        let bound = max_on(link, gap, Nanos(delay)).0;
        let (mut queue, mut paused, mut on) = (0.0, false, 0);
        let mut heard = std::collections::VecDeque::from([(0, false)]);
        let (mut stopped, mut longest) = (false, 0);
        for now in 0..2_000_000_u64 {
            // bytes per ns: 5 come, all but one in `too_much` go.
            let comes = if stopped { 0.0 } else { 5.0 };
            queue = f64::max(queue + comes - 5.0 * (1.0 - 1.0 / f64::from(too_much)), 0.0);
            let wants = if paused {
                queue > 100_000.0
            } else {
                queue >= 100_000.0 + f64::from(gap)
            };
            if wants != paused {
                paused = wants;
                heard.push_back((now + delay, wants));
            }
            if heard.front().is_some_and(|(at, _)| *at <= now) {
                let (_, stop) = heard.pop_front().unwrap();
                match stop {
                    true => longest = longest.max(now - on),
                    false => on = now,
                }
                // The first one is long, since the queue was empty.
                if !stop && longest > 2 * bound {
                    longest = 0;
                }
                stopped = stop;
            }
        }
        // The nanosecond by which a queue falls too far takes up to 20 to fill.
        assert!(longest > 0 && longest <= bound + 40, "{longest} of {bound}");
        if too_much == 20 {
            assert!(longest + bound / 50 > bound, "{longest} of {bound}");
        }
    }
}

proptest! {
    /// All time is in one state, and a port that is paused often enough is never congested.
    #[test]
    fn time_is_counted_once(
        steps in prop::collection::vec((0_u64..60_000, 0_u64..300_000, 0..4_u8), 1..200),
    ) {
        let mut port = Port::new();
        let (mut now, mut on) = (0, None);
        for (time, queue, what) in steps {
            now += time;
            match what {
                0 => { port.pause(now); on = None; }
                1 => { if port.tcd.paused { on = Some(now); } port.resume(now, queue); }
                _ => {
                    let state = port.judge(now, queue);
                    let lately = port.tcd.paused || on.is_some_and(|on| now <= on + MAX_ON.0);
                    prop_assert!(!lately || state == State::Undetermined);
                    prop_assert_eq!(port.times().iter().sum::<u64>(), now);
                    if state != State::Undetermined {
                        prop_assert_eq!(state == State::Congested, queue >= THRESHOLD);
                    }
                }
            }
        }
    }
}
