// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

/// Bytes a second in a Gbit/s.
const GBIT: u64 = 125_000_000;
/// Of 1 Gbit/s, in ns.
const QUANTUM: u64 = 512;

fn rate(gbit: u64) -> Rate {
    Rate::from_bytes_per_sec(gbit * GBIT).unwrap()
}

/// Of a priority on a link of 1 Gbit/s.
fn pauses(priority: u8) -> Pauses {
    Pauses::new(Scope::one(priority), rate(1), WATCHDOG)
}

fn paused(until: u64) -> State {
    State::Paused {
        until: Nanos(until),
    }
}

#[test]
fn a_pause_lasts_its_quanta() {
    let mut pauses = pauses(3);
    assert_eq!(pauses.next_change(Nanos(0)), None);
    pauses.heard(Nanos(1), &Frame::one(2, 2));
    assert_eq!(pauses.state(Nanos(1)), State::Open);
    pauses.heard(Nanos(1000), &Frame::one(3, 2));
    for (now, expected) in [
        (1000, paused(2024)),
        (2023, paused(2024)),
        (2024, State::Open),
    ] {
        assert_eq!(pauses.state(Nanos(now)), expected, "{now}");
    }
    assert_eq!(pauses.next_change(Nanos(1000)), Some(Nanos(2024)));
    assert_eq!(pauses.next_change(Nanos(2024)), None);
    assert_eq!(pauses.last_pause_began(), Some(Nanos(1000)));
    assert_eq!(pauses.last_pause_ended(Nanos(2023)), None);
    assert_eq!(pauses.last_pause_ended(Nanos(2024)), Some(Nanos(2024)));
}

/// On links where a quantum is no whole number of nanoseconds, it is up to one more.
#[test]
fn a_pause_is_rounded_up() {
    for (gbit, quanta, time) in [(10, 1, 52), (10, 5, 256), (25, 25, 512), (40, 3, 39)] {
        let mut pauses = Pauses::new(Scope::one(0), rate(gbit), WATCHDOG);
        pauses.heard(Nanos(7), &Frame::one(0, quanta));
        assert_eq!(pauses.state(Nanos(7)), paused(7 + time));
    }
}

/// IEEE 802.3 clause 31B.3.3: a later frame sets the timer, to less too.
#[test]
fn later_frames_refresh_shorten_and_end() {
    let mut pauses = pauses(1);
    pauses.heard(Nanos(0), &Frame::one(1, 1000));
    pauses.heard(Nanos(100), &Frame::one(1, 2000));
    let until = 100 + 2000 * QUANTUM;
    assert_eq!(pauses.state(Nanos(100)), paused(until));
    pauses.heard(Nanos(200), &Frame::one(1, 1));
    assert_eq!(pauses.state(Nanos(200)), paused(200 + QUANTUM));
    pauses.heard(Nanos(300), &Frame::one(1, 0));
    assert_eq!(pauses.state(Nanos(300)), State::Open);
    assert_eq!(pauses.last_pause_ended(Nanos(300)), Some(Nanos(300)));
    pauses.heard(Nanos(400), &Frame::one(1, 0));
    let expected = Counters {
        paused: 3,
        resumed: 2,
        pauses: 1,
        time: Nanos(300),
        longest: Nanos(300),
        ..Counters::EMPTY
    };
    assert_eq!(pauses.counters(Nanos(1_000_000)), expected);
    // Another one, and what is said of the one before.
    pauses.heard(Nanos(500), &Frame::one(1, 1));
    assert_eq!(pauses.last_pause_began(), Some(Nanos(500)));
    assert_eq!(pauses.last_pause_ended(Nanos(501)), Some(Nanos(300)));
    assert_eq!(pauses.counters(Nanos(501)).time, Nanos(301));
    assert_eq!(pauses.counters(Nanos(501)).longest, Nanos(300));
    assert_eq!(pauses.counters(Nanos(5000)).time, Nanos(812));
    assert_eq!(pauses.counters(Nanos(5000)).longest, Nanos(512));
}

/// Data of several priorities is paused while any of them is, until the latest end.
#[test]
fn the_latest_end_counts() {
    let mut pauses = Pauses::new(Scope::Priorities(0b0110_0001), rate(1), WATCHDOG);
    pauses.heard(Nanos(0), &Frame::Pause { quanta: 10 });
    let mut quanta = [0xffff; 8];
    (quanta[0], quanta[5], quanta[6]) = (0, 0, 100);
    let frame = |enabled| Frame::Pfc { enabled, quanta };
    // Of others.
    pauses.heard(Nanos(50), &frame(0b1001_1110));
    assert_eq!(pauses.state(Nanos(50)), paused(5120));
    // One of them goes on, two are over.
    pauses.heard(Nanos(100), &frame(0b0110_0000));
    assert_eq!(pauses.state(Nanos(100)), paused(100 + 51_200));
    // That one is over, and one that nobody spoke of goes on.
    pauses.heard(Nanos(200), &Frame::one(6, 0));
    assert_eq!(pauses.state(Nanos(200)), paused(5120));
    pauses.heard(Nanos(300), &Frame::one(0, 0));
    assert_eq!(pauses.state(Nanos(300)), State::Open);
    let counted = pauses.counters(Nanos(400));
    assert_eq!((counted.paused, counted.resumed, counted.pauses), (2, 2, 1));
    assert_eq!(counted.time, Nanos(300));
    // None of them is paused by what the others are told.
    pauses.speak_of(Nanos(500), Scope::Priorities(0b1000_0000));
    pauses.heard(Nanos(500), &Frame::one(6, 9));
    assert_eq!(pauses.state(Nanos(500)), State::Open);
}

/// A port that is paused as a whole hears nothing of priorities.
#[test]
fn a_link_has_no_priorities() {
    let mut pauses = Pauses::new(Scope::Link, rate(1), WATCHDOG);
    for priority in 0..8 {
        pauses.heard(Nanos(0), &Frame::one(priority, 9));
    }
    assert_eq!(pauses.counters(Nanos(1)), Counters::EMPTY);
    pauses.heard(Nanos(10), &Frame::Pause { quanta: 1 });
    assert_eq!(pauses.state(Nanos(20)), paused(522));
    pauses.heard(Nanos(30), &Frame::one(0, 0));
    assert_eq!(pauses.state(Nanos(30)), paused(522));
    pauses.heard(Nanos(40), &Frame::Pause { quanta: 0 });
    assert_eq!(pauses.state(Nanos(40)), State::Open);
}

const MOVED: Progress = Progress {
    moved: true,
    waits_since: Some(Nanos(0)),
};

fn waits(since: u64) -> Progress {
    Progress {
        moved: false,
        waits_since: Some(Nanos(since)),
    }
}

/// Somebody pauses again and again, each time for less than the watchdog's time, and leaves no time
/// for a packet: that is one pause to the watchdog, which counts the paused time alone.
#[test]
fn breaks_that_nothing_can_use_are_none() {
    let mut pauses = Pauses::new(Scope::one(0), rate(1), Nanos(2000));
    for (at, until) in [(0, 1536), (1600, 3136)] {
        pauses.heard(Nanos(at), &Frame::one(0, 3));
        pauses.note(Nanos(at + 1), &waits(0));
        assert_eq!(pauses.state(Nanos(at + 1)), paused(until));
        if at != 0 {
            // 464 of the second and 1536 of the first.
            assert_eq!(pauses.state(Nanos(2063)), paused(until));
            assert_eq!(pauses.state(Nanos(2064)), State::Watchdog);
        }
        pauses.note(Nanos(until), &waits(0));
        assert_eq!(pauses.state(Nanos(until)), State::Open);
    }
    // It goes on being one, and counts once.
    pauses.heard(Nanos(4000), &Frame::one(0, 3));
    assert_eq!(pauses.state(Nanos(4000)), State::Watchdog);
    assert_eq!(pauses.counters(Nanos(4000)).storms, 1);
    assert_eq!(pauses.counters(Nanos(4000)).pauses, 3);
    // Until something leaves.
    pauses.note(Nanos(6000), &MOVED);
    pauses.heard(Nanos(6000), &Frame::one(0, 3));
    assert_eq!(pauses.state(Nanos(6000)), paused(7536));
}

/// A packet that leaves, or none that waits, and the watchdog begins anew; also if that is told
/// when the next pause is there.
#[test]
fn a_break_that_could_be_used_is_one() {
    for (told, progress, storms) in [
        (1550, MOVED, false),
        (1700, MOVED, false),
        (1550, waits(1540), false),
        (1700, waits(1540), false),
        (1700, waits(1650), false),
        (
            1550,
            Progress {
                moved: false,
                waits_since: None,
            },
            false,
        ),
        (1550, waits(1535), true),
        (1700, waits(1535), true),
    ] {
        let mut pauses = Pauses::new(Scope::one(0), rate(1), Nanos(2000));
        pauses.heard(Nanos(0), &Frame::one(0, 3));
        if told < 1600 {
            pauses.note(Nanos(told), &progress);
        }
        pauses.heard(Nanos(1600), &Frame::one(0, 3));
        if told > 1600 {
            pauses.note(Nanos(told), &progress);
        }
        assert_eq!(
            pauses.state(Nanos(2100)) == State::Watchdog,
            storms,
            "{told} {progress:?}"
        );
        // A pause that is too long by itself is, whatever was before.
        pauses.heard(Nanos(2200), &Frame::one(0, 9));
        assert_eq!(pauses.state(Nanos(3600)), State::Watchdog);
        pauses.note(Nanos(3600), &MOVED);
        assert_eq!(pauses.state(Nanos(3600)), State::Watchdog);
        assert_eq!(pauses.counters(Nanos(3600)).storms, 1);
    }
}

/// A pause that is refreshed for ever: 200 ms, then the watchdog.
#[test]
fn a_storm_is_a_pause_without_interruption() {
    let mut pauses = pauses(0);
    for n in 0..40 {
        pauses.heard(Nanos(n * 10_000_000), &Frame::one(0, u16::MAX));
    }
    // The last one was heard at 390 ms.
    let end = 390_000_000 + 33_553_920;
    for (now, expected) in [
        (390_000_000, State::Watchdog),
        (end - 1, State::Watchdog),
        (end, State::Open),
    ] {
        assert_eq!(pauses.state(Nanos(now)), expected);
    }
    let counted = pauses.counters(Nanos(end));
    assert_eq!((counted.storms, counted.pauses), (1, 1));
    assert_eq!((counted.time, counted.longest), (Nanos(end), Nanos(end)));
    // A nanosecond in which all could leave, and it has its time again.
    pauses.note(Nanos(end), &MOVED);
    pauses.heard(Nanos(end + 1), &Frame::one(0, u16::MAX));
    assert_eq!(pauses.state(Nanos(end + 1)), paused(end + 1 + 33_553_920));
    assert_eq!(pauses.counters(Nanos(end + 1)).pauses, 2);
}

#[test]
fn the_watchdog_comes_when_it_is_said() {
    let mut pauses = Pauses::new(Scope::one(5), rate(1), Nanos(1000));
    pauses.heard(Nanos(50), &Frame::one(5, 2));
    assert_eq!(pauses.next_change(Nanos(50)), Some(Nanos(1050)));
    assert_eq!(pauses.state(Nanos(1049)), paused(1074));
    assert_eq!(pauses.counters(Nanos(1049)).storms, 0);
    assert_eq!(pauses.state(Nanos(1050)), State::Watchdog);
    assert_eq!(pauses.counters(Nanos(1050)).storms, 1);
    assert_eq!(pauses.next_change(Nanos(1050)), Some(Nanos(1074)));
    assert_eq!(pauses.state(Nanos(1074)), State::Open);
    pauses.note(Nanos(1080), &MOVED);
    // A pause that is as long as its time, and no longer, is none.
    pauses.set(Nanos(1100), rate(1), Nanos(1024));
    pauses.heard(Nanos(2000), &Frame::one(5, 2));
    assert_eq!(pauses.next_change(Nanos(2000)), Some(Nanos(3024)));
    assert_eq!(pauses.counters(Nanos(9000)).storms, 1);
    // An end ends a storm.
    pauses.note(Nanos(9000), &MOVED);
    pauses.heard(Nanos(10_000), &Frame::one(5, 9));
    assert_eq!(pauses.state(Nanos(11_500)), State::Watchdog);
    pauses.heard(Nanos(11_500), &Frame::one(5, 0));
    assert_eq!(pauses.state(Nanos(11_500)), State::Open);
    assert_eq!(pauses.counters(Nanos(11_500)).storms, 2);
}

#[test]
fn a_change_keeps_pauses() {
    let mut pauses = Pauses::new(Scope::one(0), rate(1), Nanos::MAX);
    pauses.heard(Nanos(0), &Frame::one(0, 1000));
    pauses.set(Nanos(100_000), rate(10), Nanos(50_000));
    assert_eq!(pauses.state(Nanos(100_000)), State::Watchdog);
    // What was found stormed remains so.
    pauses.set(Nanos(100_000), rate(10), Nanos::MAX);
    assert_eq!(pauses.state(Nanos(511_999)), State::Watchdog);
    assert_eq!(pauses.state(Nanos(512_000)), State::Open);
    pauses.note(Nanos(512_000), &MOVED);
    pauses.heard(Nanos(600_000), &Frame::one(0, 1000));
    assert_eq!(pauses.state(Nanos(600_000)), paused(651_200));
    pauses.reset(Nanos(610_000));
    assert_eq!(pauses.state(Nanos(610_000)), State::Open);
    let counted = pauses.counters(Nanos(700_000));
    assert_eq!((counted.pauses, counted.storms), (2, 1));
    assert_eq!(counted.time, Nanos(522_000));
}

#[test]
fn extremes_do_no_harm() {
    for rate in [
        Rate::UNLIMITED,
        Rate::from_bytes_per_sec(1).unwrap(),
        Rate::from_bytes_per_sec(Rate::MAX_BYTES_PER_SEC).unwrap(),
    ] {
        for watchdog in [Nanos::ZERO, Nanos(1), Nanos::MAX] {
            let mut pauses = Pauses::new(Scope::one(0), rate, watchdog);
            for now in [0, u64::MAX, 5, 1, u64::MAX - 1, 0] {
                for quanta in [0, u16::MAX, 1] {
                    pauses.heard(Nanos(now), &Frame::Pause { quanta });
                    for at in [0, now, u64::MAX] {
                        pauses.state(Nanos(at));
                        pauses.next_change(Nanos(at));
                        pauses.counters(Nanos(at));
                        pauses.last_pause_ended(Nanos(at));
                    }
                }
                pauses.set(Nanos(now), rate, watchdog);
                pauses.note(Nanos(now), &waits(now));
            }
            pauses.reset(Nanos(3));
            assert_eq!(pauses.state(Nanos::MAX), State::Open);
        }
    }
}

/// What a priority is, nanosecond by nanosecond: slow, and without any cleverness.
#[derive(Default)]
struct Model {
    left: u64,
    /// How long the pause has been going on.
    row: u64,
    /// The same with those before since which nothing has left.
    stuck: u64,
    stormed: bool,
    began: Option<Nanos>,
    ended: Option<Nanos>,
    counters: Counters,
}

impl Model {
    fn hear(&mut self, now: u64, quanta: u16, watchdog: u64) {
        if quanta == 0 {
            self.counters.resumed += 1;
            self.left = 0;
        } else {
            // A pause that has just ended goes on.
            if self.left == 0 && (self.row == 0 || self.began.is_none()) {
                self.began = Some(Nanos(now));
                self.counters.pauses += 1;
            }
            self.counters.paused += 1;
            self.left = u64::from(quanta) * QUANTUM;
        }
        self.watch(watchdog);
    }

    fn watch(&mut self, watchdog: u64) {
        if self.left > 0 && self.stuck >= watchdog && !self.stormed {
            self.stormed = true;
            self.counters.storms += 1;
        }
    }

    /// Something has left before the pause in progress, if there is one.
    fn moved(&mut self, watchdog: u64) {
        self.stuck = if self.left == 0 { 0 } else { self.row };
        self.stormed &= self.left != 0 && self.row >= watchdog;
    }

    /// A nanosecond passes; `now` is its beginning.
    fn pass(&mut self, now: u64, watchdog: u64) {
        if self.left == 0 {
            // That of a pause that ended at `now`.
            self.row = 0;
            return;
        }
        self.left -= 1;
        self.row += 1;
        self.stuck += 1;
        self.counters.time += Nanos(1);
        self.counters.longest = self.counters.longest.max(Nanos(self.row));
        if self.left == 0 {
            self.ended = Some(Nanos(now + 1));
        }
        self.watch(watchdog);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Against the model, at every nanosecond at which something may have changed and some others.
    #[test]
    fn as_a_model_that_counts_nanoseconds(
        watchdog in 0_u64..5000,
        frames in prop::collection::vec((1_u64..2000, 0_u16..6, any::<bool>()), 1..20),
    ) {
        let mut pauses = Pauses::new(Scope::one(2), rate(1), Nanos(watchdog));
        let mut model = Model::default();
        let mut now = 0;
        let mut changes = Vec::new();
        let mut last = State::Open;
        for (gap, quanta, moves) in frames.into_iter().chain([(5000, 0, true)]) {
            let mut announced = pauses.next_change(Nanos(now));
            for passed in 0..gap {
                if passed != 0 {
                    let is = pauses.state(Nanos(now));
                    let changed = (is == State::Open) != (last == State::Open)
                        || (is == State::Watchdog) != (last == State::Watchdog);
                    if changed {
                        changes.push(Nanos(now));
                    }
                    last = is;
                }
                let expected = match (model.left, model.stormed) {
                    (0, _) => State::Open,
                    (_, true) => State::Watchdog,
                    (left, false) => State::Paused { until: Nanos(now + left) },
                };
                prop_assert_eq!(pauses.state(Nanos(now)), expected, "{}", now);
                prop_assert_eq!(pauses.counters(Nanos(now)), model.counters, "{}", now);
                prop_assert_eq!(pauses.last_pause_began(), model.began);
                if moves && passed != 0 && passed == gap / 2 {
                    let first = changes.first().copied();
                    prop_assert_eq!(first, announced.filter(|at| at.0 <= now));
                    pauses.note(Nanos(now), &MOVED);
                    model.moved(watchdog);
                    changes.clear();
                    last = pauses.state(Nanos(now));
                    announced = pauses.next_change(Nanos(now));
                }
                model.pass(now, watchdog);
                now += 1;
            }
            // The first change is the one that was announced.
            let first = changes.first().copied();
            prop_assert_eq!(first, announced.filter(|at| at.0 < now));
            changes.clear();
            if model.left == 0 {
                prop_assert_eq!(pauses.last_pause_ended(Nanos(now)), model.ended);
            }
            pauses.heard(Nanos(now), &Frame::one(2, quanta));
            model.hear(now, quanta, watchdog);
            let ended = pauses.last_pause_ended(Nanos(now)) == Some(Nanos(now));
            if quanta == 0 && model.row > 0 && ended {
                model.ended = Some(Nanos(now));
            }
            last = pauses.state(Nanos(now));
        }
    }
}

/// What is counted of each priority: its own frames and times, whatever others are told meanwhile.
#[test]
fn each_priority_is_counted_by_itself() {
    let mut pauses = Pauses::new(Scope::Priorities(0b1_1000), rate(1), WATCHDOG);
    pauses.heard(Nanos(1000), &Frame::one(3, 2));
    pauses.heard(Nanos(1000), &Frame::one(5, 100));
    // Refreshed, and another one; and the end of it before its time.
    pauses.heard(Nanos(1500), &Frame::one(3, 2));
    pauses.heard(Nanos(2000), &Frame::one(4, 10));
    pauses.heard(Nanos(5000), &Frame::one(3, 1));
    pauses.heard(Nanos(5100), &Frame::one(4, 0));
    pauses.heard(Nanos(5200), &Frame::one(3, 0));
    let [a, b, c, third, fourth, fifth, ..] = pauses.of_priorities(Nanos(6000)).unwrap();
    let none = PartCounters::default();
    assert_eq!([a, b, c, fifth], [none; 4]);
    let first = 500 + 2 * QUANTUM;
    let counters = |paused, time, longest| PartCounters {
        paused,
        time: Nanos(time),
        longest: Nanos(longest),
    };
    assert_eq!(third, counters(3, first + 200, first));
    assert_eq!(fourth, counters(1, 3100, 3100));
    // While a pause is in progress, and of the whole link.
    pauses.heard(Nanos(7000), &Frame::Pause { quanta: 1000 });
    let [.., fourth, _, _, _] = pauses.of_priorities(Nanos(7100)).unwrap();
    assert_eq!(fourth, counters(2, 3200, 3100));
    pauses.reset(Nanos(7300));
    let [.., fourth, _, _, _] = pauses.of_priorities(Nanos(9000)).unwrap();
    assert_eq!(fourth, counters(2, 3400, 3100));
    // Other priorities, and a link that has none.
    pauses.speak_of(Nanos(9000), Scope::one(3));
    let [.., fourth, _, _, _] = pauses.of_priorities(Nanos(9000)).unwrap();
    assert_eq!(fourth, counters(2, 3400, 3100));
    pauses.speak_of(Nanos(9000), Scope::Link);
    assert_eq!(pauses.of_priorities(Nanos(9000)), None);
    pauses.heard(Nanos(9000), &Frame::Pause { quanta: 1 });
    pauses.speak_of(Nanos(9100), Scope::one(0));
    assert_eq!(pauses.of_priorities(Nanos(9200)), Some([none; 8]));
}

proptest! {
    /// Of data with one priority all of that is what is counted of data.
    #[test]
    fn one_priority_is_counted_as_data_is(
        frames in prop::collection::vec((0_u64..3000, 0_u8..3, 0_u16..8), 0..40),
        ends in 0_u64..10_000,
    ) {
        let mut pauses = pauses(1);
        let mut now = 1;
        for (later, priority, quanta) in frames {
            now += later;
            pauses.heard(Nanos(now), &Frame::one(priority, quanta));
        }
        now += ends;
        let all = pauses.counters(Nanos(now));
        let [_, one, ..] = pauses.of_priorities(Nanos(now)).unwrap();
        prop_assert_eq!(
            (one.paused, one.time, one.longest),
            (all.paused, all.time, all.longest)
        );
    }
}
