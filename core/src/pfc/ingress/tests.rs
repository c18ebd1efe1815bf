// SPDX-License-Identifier: GPL-2.0
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec::Vec;

fn gigabit() -> Rate {
    Rate::from_bytes_per_sec(125_000_000).unwrap()
}

const FIXED: Limits = Limits {
    xoff: Xoff::Fixed {
        xoff: 5000,
        xon: 2000,
    },
    headroom: 3000,
};

const NOW: Nanos = Nanos(1000);
const PAUSE: Option<Send> = Some(Send::PAUSE);
const END: Option<Send> = Some(Send::END);

#[test]
fn a_pause_goes_when_a_frame_does_not_fit_and_ends_at_xon() {
    let mut pool = Pool::new(10_000);
    let mut ingress = Ingress::new(FIXED, &gigabit());
    for held in 1..=5 {
        assert_eq!(ingress.arrive(NOW, 1000, &mut pool), (Fits::Pool, None));
        assert_eq!((ingress.held(), pool.used()), (held * 1000, held * 1000));
    }
    assert_eq!(ingress.arrive(NOW, 1, &mut pool), (Fits::Headroom, PAUSE));
    assert_eq!(ingress.arrive(NOW, 2999, &mut pool), (Fits::Headroom, None));
    assert_eq!(ingress.arrive(NOW, 1, &mut pool), (Fits::No, None));
    assert_eq!((ingress.held(), pool.used()), (8000, 5000));
    // The headroom empties first, and takes what comes meanwhile.
    assert_eq!(ingress.leave(4000, &mut pool), None);
    assert_eq!((ingress.held(), pool.used()), (4000, 4000));
    assert_eq!(ingress.arrive(NOW, 500, &mut pool), (Fits::Headroom, None));
    assert_eq!(ingress.leave(2499, &mut pool), None);
    assert_eq!(ingress.leave(1, &mut pool), END);
    assert_eq!((ingress.held(), ingress.in_headroom()), (2000, 0));
    assert_eq!(ingress.leave(2000, &mut pool), None);
    assert_eq!(pool, Pool::new(10_000));
    let expected = Counters {
        pauses: 1,
        ends: 1,
        drops: 1,
        dropped_bytes: 1,
        most: 8000,
        most_headroom: 3000,
        ..Counters::default()
    };
    assert_eq!(ingress.counters(), expected);
}

/// Half of the time of the frame that went before: 65535 quanta of 512 ns.
#[test]
fn a_pause_is_refreshed_in_time() {
    const HALF: u64 = 16_776_960;
    let mut pool = Pool::new(10_000);
    let mut ingress = Ingress::new(FIXED, &gigabit());
    assert_eq!(ingress.refresh_at(), None);
    assert_eq!(ingress.refresh(Nanos::MAX), None);
    assert_eq!(ingress.arrive(NOW, 3000, &mut pool), (Fits::Pool, None));
    assert_eq!(
        ingress.arrive(NOW, 3000, &mut pool),
        (Fits::Headroom, PAUSE)
    );
    assert_eq!(ingress.refresh_at(), Some(Nanos(1000 + HALF)));
    assert_eq!(ingress.refresh(Nanos(999 + HALF)), None);
    // A little late.
    assert_eq!(ingress.refresh(Nanos(1005 + HALF)), PAUSE);
    assert_eq!(ingress.refresh_at(), Some(Nanos(1005 + 2 * HALF)));
    assert_eq!(ingress.counters().refreshes, 1);
    assert_eq!(ingress.leave(4000, &mut pool), END);
    assert_eq!(ingress.refresh_at(), None);
    // A link of no rate has pauses of no length.
    let mut ingress = Ingress::new(FIXED, &Rate::UNLIMITED);
    let _ = ingress.arrive(NOW, 3000, &mut pool);
    assert_eq!(
        ingress.arrive(NOW, 3000, &mut pool),
        (Fits::Headroom, PAUSE)
    );
    assert_eq!(ingress.refresh_at(), None);
    assert_eq!(ingress.refresh(Nanos::MAX), None);
}

/// Choudhury and Hahne: of a pool of b bytes n queues get alpha b / (1 + n alpha) each.
#[test]
fn a_pool_is_shared_as_published() {
    for (alpha, count) in [
        (Alpha::ONE, 1),
        (Alpha::ONE, 2),
        (Alpha::ONE, 7),
        (Alpha::HALF, 1),
        (Alpha::HALF, 4),
        (Alpha(512), 3),
        (Alpha(16), 5),
    ] {
        let limits = Limits {
            xoff: Xoff::Share { alpha, gap: 0 },
            headroom: 1 << 30,
        };
        let mut pool = Pool::new(1_000_000);
        let mut all: Vec<_> = (0..count)
            .map(|_| Ingress::new(limits, &gigabit()))
            .collect();
        for _ in 0..100_000 {
            for ingress in &mut all {
                let _ = ingress.arrive(NOW, 10, &mut pool);
            }
        }
        let alpha = u64::from(alpha.0);
        let each = 1_000_000 * alpha / (256 + alpha * count);
        for ingress in &all {
            let pooled = ingress.held() - ingress.in_headroom();
            assert!(pooled.abs_diff(each) <= 20, "{pooled} of {each}");
            assert!(ingress.is_paused());
        }
    }
}

#[test]
fn a_pause_ends_when_others_leave_the_pool() {
    let limits = Limits {
        xoff: Xoff::Share {
            alpha: Alpha::HALF,
            gap: 1000,
        },
        headroom: 2000,
    };
    let mut pool = Pool::new(9000);
    let (mut one, mut other) = (
        Ingress::new(limits, &gigabit()),
        Ingress::new(limits, &gigabit()),
    );
    // Half of 9000, half of 6000.
    assert_eq!(one.arrive(NOW, 3000, &mut pool), (Fits::Pool, None));
    assert_eq!(other.threshold(&pool), 3000);
    assert_eq!(other.arrive(NOW, 3001, &mut pool), (Fits::No, None));
    assert_eq!(other.arrive(NOW, 2000, &mut pool), (Fits::Pool, None));
    assert_eq!(other.arrive(NOW, 500, &mut pool), (Fits::Headroom, PAUSE));
    assert_eq!(other.leave(500, &mut pool), None);
    assert_eq!(other.check(&pool), None);
    // Half of 7000 is more than 2000 and 1000.
    assert_eq!(one.leave(3000, &mut pool), None);
    assert_eq!(other.check(&pool), END);
    assert_eq!(other.check(&pool), None);
    // What holds nothing is not paused, though there is no pool.
    pool.set(0);
    assert_eq!(other.arrive(NOW, 100, &mut pool), (Fits::Headroom, PAUSE));
    assert_eq!(other.leave(2100, &mut pool), END);
    assert_eq!(pool.used(), 0);
}

/// Of what holds nothing nothing leaves that could end the pause.
#[test]
fn a_frame_that_fits_nowhere_pauses_nothing_that_is_empty() {
    let mut pool = Pool::new(10_000);
    let mut ingress = Ingress::new(FIXED, &gigabit());
    assert_eq!(ingress.arrive(NOW, 5001, &mut pool), (Fits::No, None));
    assert_eq!(ingress.counters().pauses, 0);
    // If it holds something, it is paused even if the frame is lost.
    let _ = ingress.arrive(NOW, 1000, &mut pool);
    assert_eq!(ingress.arrive(NOW, 5001, &mut pool), (Fits::No, PAUSE));
}

#[test]
fn all_is_given_back() {
    let mut pool = Pool::new(10_000);
    let mut ingress = Ingress::new(FIXED, &gigabit());
    assert_eq!(ingress.forget(&mut pool), (0, None));
    let _ = ingress.arrive(NOW, 3000, &mut pool);
    assert_eq!(ingress.forget(&mut pool), (3000, None));
    let _ = ingress.arrive(NOW, 4000, &mut pool);
    assert_eq!(
        ingress.arrive(NOW, 2500, &mut pool),
        (Fits::Headroom, PAUSE)
    );
    assert_eq!(ingress.forget(&mut pool), (6500, END));
    assert_eq!(pool, Pool::new(10_000));
    assert_eq!((ingress.held(), ingress.refresh_at()), (0, None));
    // What is said to leave nevertheless takes nothing of others.
    assert_eq!(ingress.leave(2500, &mut pool), None);
    assert_eq!(ingress.counters().strays, 2500);
}

#[test]
fn a_change_keeps_what_is_held() {
    let mut pool = Pool::new(10_000);
    let mut ingress = Ingress::new(FIXED, &gigabit());
    let _ = ingress.arrive(NOW, 5000, &mut pool);
    assert_eq!(
        ingress.arrive(NOW, 1000, &mut pool),
        (Fits::Headroom, PAUSE)
    );
    assert_eq!(ingress.leave(1500, &mut pool), None);
    let larger = Limits {
        xoff: Xoff::Fixed {
            xoff: 9000,
            xon: 7000,
        },
        headroom: 0,
    };
    ingress.set(larger, &gigabit());
    assert_eq!(ingress.check(&pool), END);
    assert_eq!((ingress.held(), pool.used()), (4500, 4500));
    let none = Limits {
        xoff: Xoff::Fixed { xoff: 0, xon: 0 },
        headroom: 0,
    };
    ingress.set(none, &gigabit());
    assert_eq!(ingress.arrive(NOW, 1, &mut pool), (Fits::No, PAUSE));
    assert_eq!(ingress.leave(4500, &mut pool), END);
}

#[test]
fn extremes_do_no_harm() {
    assert_eq!(Alpha(u16::MAX).of(u64::MAX), u64::MAX);
    assert_eq!(Alpha(256).of(u64::MAX), u64::MAX);
    assert_eq!(Alpha(0).of(u64::MAX), 0);
    for free in [0, 1, 255, 256, 257, 1 << 40] {
        for alpha in [0, 1, 128, 256, 300, u16::MAX] {
            let exact = u128::from(free) * u128::from(alpha) / 256;
            assert_eq!(u128::from(Alpha(alpha).of(free)), exact);
        }
    }
    let limits = Limits {
        xoff: Xoff::Fixed {
            xoff: u64::MAX,
            xon: u64::MAX,
        },
        headroom: u64::MAX,
    };
    let mut pool = Pool::new(u64::MAX);
    let mut ingress = Ingress::new(limits, &gigabit());
    for _ in 0..1000 {
        let _ = ingress.arrive(Nanos::MAX, u32::MAX, &mut pool);
        pool.set(1 << 33);
        let _ = ingress.refresh(Nanos::MAX);
    }
    for _ in 0..2000 {
        let _ = ingress.leave(u32::MAX, &mut pool);
    }
    assert_eq!((ingress.held(), pool.used()), (0, 0));
}

/// What happens to one of several ingresses.
#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive(usize, u32),
    Leave(usize),
    Check(usize),
    Forget(usize),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..3_usize, 1..2000_u32).prop_map(|(which, bytes)| Event::Arrive(which, bytes)),
        5 => (0..3_usize).prop_map(Event::Leave),
        1 => (0..3_usize).prop_map(Event::Check),
        1 => (0..30_usize).prop_map(|n| if n < 3 { Event::Forget(n) } else { Event::Leave(n % 3) }),
    ]
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let fixed = (0..8000_u64, 0..8000_u64).prop_map(|(xoff, xon)| Xoff::Fixed {
        xoff,
        xon: xon.min(xoff),
    });
    let share = (1..1000_u16, 0..3000_u64).prop_map(|(alpha, gap)| Xoff::Share {
        alpha: Alpha(alpha),
        gap,
    });
    (prop_oneof![fixed, share], 0..6000_u64).prop_map(|(xoff, headroom)| Limits { xoff, headroom })
}

proptest! {
    /// Whatever happens, each byte is somewhere and once, no room holds more than it may, pauses
    /// and their ends take turns, and nothing that is empty is paused.
    #[test]
    fn the_books_balance(
        limits in prop::collection::vec(any_limits(), 3),
        size in 0..20_000_u64,
        events in prop::collection::vec(any_event(), 0..300),
    ) {
        let mut pool = Pool::new(size);
        let mut all: Vec<_> = limits.iter().map(|it| Ingress::new(*it, &gigabit())).collect();
        let mut held = std::vec![VecDeque::new(); 3];
        let mut said = [false; 3];
        for event in events {
            let (which, send) = match event {
                Event::Arrive(which, bytes) => {
                    let threshold = all[which].threshold(&pool);
                    let before = all[which].clone();
                    let (fits, send) = all[which].arrive(NOW, bytes, &mut pool);
                    let pooled = before.pooled + u64::from(bytes);
                    let has_room = !before.is_paused()
                        && pooled <= threshold
                        && pool.used() <= size
                        && (fits == Fits::Pool || pool.used() + u64::from(bytes) <= size);
                    prop_assert_eq!(fits == Fits::Pool, has_room);
                    let beyond = before.beyond + u64::from(bytes);
                    prop_assert_eq!(
                        fits == Fits::No,
                        !has_room && beyond > limits[which].headroom
                    );
                    if fits != Fits::No {
                        held[which].push_back(bytes);
                    }
                    (which, send)
                }
                Event::Leave(which) => match held[which].pop_front() {
                    Some(bytes) => (which, all[which].leave(bytes, &mut pool)),
                    None => continue,
                },
                Event::Check(which) => (which, all[which].check(&pool)),
                Event::Forget(which) => {
                    let (bytes, send) = all[which].forget(&mut pool);
                    let sum: u64 = held[which].drain(..).map(u64::from).sum();
                    prop_assert_eq!(bytes, sum);
                    (which, send)
                }
            };
            if let Some(send) = send {
                prop_assert_eq!(send == Send::PAUSE, !said[which]);
                said[which] = !said[which];
            }
            prop_assert_eq!(all[which].is_paused(), said[which]);
            let mut pooled = 0;
            for (which, ingress) in all.iter().enumerate() {
                let sum: u64 = held[which].iter().copied().map(u64::from).sum();
                prop_assert_eq!(ingress.held(), sum);
                prop_assert!(ingress.beyond <= limits[which].headroom);
                prop_assert!(ingress.held() != 0 || !ingress.is_paused());
                prop_assert_eq!(ingress.counters().strays, 0);
                pooled += ingress.pooled;
            }
            prop_assert_eq!(pool.used(), pooled);
            prop_assert!(pooled <= size);
        }
        for (ingress, held) in all.iter_mut().zip(&mut held) {
            for bytes in held.drain(..) {
                let _ = ingress.leave(bytes, &mut pool);
            }
            prop_assert!(!ingress.is_paused());
        }
        prop_assert_eq!(pool, Pool::new(size));
    }
}
