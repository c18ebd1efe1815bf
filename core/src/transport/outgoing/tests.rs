// SPDX-License-Identifier: GPL-2.0
use std::vec::Vec;

use super::*;

const BASE: Nanos = Nanos(1000);

fn out(length: Option<u32>, available: u32) -> Out<()> {
    let what = Outgoing {
        source: 1,
        destination: 2,
        length,
        deadline: Some(Nanos(5_000_000)),
        coflow: 0,
        priority: None,
        mss: 1000,
        available,
        user: 0,
    };
    let address = Address::default();
    Out::new(
        (),
        Cookie(1),
        0,
        0,
        &address,
        &what,
        Nanos(100),
        Nanos(2000),
        Nanos::SECOND,
    )
}

fn piece(offset: u32, len: u32, again: bool) -> Result<Piece, Nothing> {
    Ok(Piece { offset, len, again })
}

fn span(start: u32, end: u32) -> Span {
    Span { start, end }
}

#[test]
fn full_packets_go_out_and_what_is_left() {
    let mut out = out(Some(2500), 2500);
    let now = Nanos(200);
    assert_eq!(out.next(now, u32::MAX), piece(0, 1000, false));
    assert_eq!(out.next(now, u32::MAX), piece(1000, 1000, false));
    assert_eq!(out.next(now, u32::MAX), piece(2000, 500, false));
    assert_eq!(out.next(now, u32::MAX), Err(Nothing::Sent));
}

/// Losses are named one by one as they are noticed, more than there is room for, and then those
/// before them that were lost once more: what the message waits for goes first.
#[test]
fn what_is_missing_first_has_room() {
    let mut out = out(Some(100_000), 100_000);
    for _ in 0..100 {
        out.next(Nanos(200), u32::MAX).unwrap();
    }
    for number in 0..20 {
        let start = 20_000 + number * 2000;
        out.name(Nanos(300), &[span(start, start + 1000)], BASE, None);
    }
    let first = [span(3000, 4000), span(9000, 11_000), span(20_000, 21_000)];
    assert_eq!(out.name(Nanos(5000), &first, BASE, None), (0, true));
    for offset in [3000, 9000, 10_000, 20_000] {
        assert_eq!(out.next(Nanos(5001), u32::MAX), piece(offset, 1000, true));
    }
    // Of one whose receiver is silent, too.
    let mut out = self::out(Some(100_000), 100_000);
    (out.paced, out.open) = (true, true);
    for _ in 0..100 {
        out.next(Nanos(200), u32::MAX).unwrap();
    }
    for number in 0..16 {
        let start = 20_000 + number * 2000;
        out.name(Nanos(300), &[span(start, start + 1000)], BASE, None);
    }
    out.repeat_last();
    out.repeat_last();
    assert_eq!(out.next(Nanos(5001), u32::MAX), piece(0, 1000, true));
}

#[test]
fn what_was_named_goes_first_and_once_in_a_round_trip() {
    let mut out = out(Some(10_000), 10_000);
    for _ in 0..5 {
        out.next(Nanos(200), u32::MAX).unwrap();
    }
    // Bytes that were never sent follow in order.
    let named = [span(1000, 2500), span(4000, 9000)];
    assert_eq!(out.name(Nanos(300), &named, BASE, None), (0, true));
    let pieces: Vec<_> = (0..4).map(|_| out.next(Nanos(300), u32::MAX)).collect();
    let wanted = [
        piece(1000, 1000, true),
        piece(2000, 500, true),
        piece(4000, 1000, true),
        piece(5000, 1000, false),
    ];
    assert_eq!(pieces, wanted);
    assert_eq!(out.name(Nanos(1299), &named, BASE, None), (2, true));
    // The span is scheduled already: naming it once more is no news.
    assert_eq!(out.name(Nanos(1299), &named, BASE, None), (2, false));
    // Of the second span, the part sent in between.
    assert_eq!(out.next(Nanos(1299), u32::MAX), piece(5000, 1000, true));
    assert_eq!(out.next(Nanos(1299), u32::MAX), piece(6000, 1000, false));
    assert_eq!(out.name(Nanos(1300), &named[..1], BASE, None), (0, true));
    assert_eq!(out.next(Nanos(1300), u32::MAX), piece(1000, 1000, true));
    // Bytes acknowledged in the meantime have arrived.
    assert!(out.acknowledged(Nanos(200), 2500, 10_000));
    assert_eq!(out.next(Nanos(1300), u32::MAX), piece(7000, 1000, false));
}

#[test]
fn nothing_goes_beyond_the_window_or_what_is_written() {
    let mut out = out(Some(10_000), 1500);
    out.next(Nanos(200), u32::MAX).unwrap();
    assert_eq!(out.next(Nanos(200), u32::MAX), piece(1000, 500, false));
    assert_eq!(out.next(Nanos(200), u32::MAX), Err(Nothing::Unwritten));
    assert!(out.starved);
    assert!(out.written(Nanos(200), 10_000, true) && !out.written(Nanos(200), 10_001, true));
    assert!(!out.written(Nanos(200), 9_999, true));
    assert!(out.acknowledged(Nanos(200), 1000, 2200));
    assert_eq!(out.next(Nanos(200), u32::MAX), piece(1500, 700, false));
    assert_eq!(out.next(Nanos(200), u32::MAX), Err(Nothing::Window));
    // Windows do not shrink, and bytes that were not sent cannot be acknowledged.
    assert!(!out.acknowledged(Nanos(200), 1000, 1500));
    assert_eq!(out.window, 2200);
    assert!(!out.acknowledged(Nanos(200), 2201, 9000));
    assert_eq!(out.window, 2200);
    assert!(out.acknowledged(Nanos(200), 2200, 9000));
    assert_eq!(out.next(Nanos(200), u32::MAX), piece(2200, 1000, false));
}

#[test]
fn a_length_that_was_not_told_is_told_by_fin() {
    let mut out = out(None, 0);
    assert_eq!(out.sync(Nanos(100)).length, None);
    assert!(out.written(Nanos(200), 500, false) && out.fin().is_none());
    assert!(out.written(Nanos(200), 700, true));
    assert_eq!((out.fin(), out.sync(Nanos(100)).length), (Some(700), None));
    assert!(!out.written(Nanos(200), 800, true), "it has ended");
}

#[test]
fn a_silent_peer_is_asked_ever_more_rarely_and_given_up() {
    let mut out = out(Some(1000), 1000);
    out.timeout = Nanos(80_000);
    assert_eq!(out.first_timer(), Nanos(2100));
    assert_eq!(out.due(Nanos(2099)), Due::Later(Nanos(2100)));
    assert_eq!(out.due(Nanos(2100)), Due::Ask(Nanos(6100)));
    assert!(!out.sync(Nanos(2100)).probe);
    assert_eq!(out.due(Nanos(6100)), Due::Ask(Nanos(14_100)));
    // An answer to a probe shows that the peer is alive, but does not reset the backoff.
    out.heard(Nanos(7000), false, Nanos(2000));
    assert!(out.sync(Nanos(7000)).probe);
    assert_eq!(out.due(Nanos(8000)), Due::Later(Nanos(9000)));
    assert_eq!(out.due(Nanos(9000)), Due::Ask(Nanos(13_000)));
    assert_eq!(out.due(Nanos(86_999)), Due::Ask(Nanos(87_000)));
    assert_eq!(out.due(Nanos(87_000)), Due::Dead);
}

#[test]
fn news_makes_it_ask_sooner_by_steps() {
    let mut out = out(Some(1000), 1000);
    out.heard(Nanos(100), true, Nanos(2000));
    // Backoff: 2, 4 and 8 us after each other.
    assert_eq!(out.due(Nanos(2100)), Due::Ask(Nanos(6100)));
    assert_eq!(out.due(Nanos(6100)), Due::Ask(Nanos(14_100)));
    for (at, next) in [(7000, 11_000), (8000, 10_000), (9000, 11_000)] {
        out.heard(Nanos(at), true, Nanos(2000));
        assert_eq!(out.due(Nanos(at)), Due::Later(Nanos(next)));
    }
}

#[test]
fn a_peer_that_answers_is_never_given_up() {
    let mut out = out(Some(1000), 1000);
    // Shorter than the longest patience, and than the first.
    for timeout in [Nanos(1000), Nanos(20_000), Nanos(500_000_000)] {
        let mut now = Nanos(100);
        out.timeout = timeout;
        out.heard(now, true, Nanos(2000));
        let mut asked = 0;
        while asked < 40 {
            match out.due(now) {
                Due::Later(next) => now = next,
                Due::Ask(next) => {
                    asked += 1;
                    // The peer only answers every fourth probe.
                    if asked % 4 == 3 {
                        out.heard(now, false, Nanos(2000));
                    }
                    now = next;
                }
                Due::Dead => panic!("given up at {now:?} after {asked} questions"),
            }
        }
    }
}

#[test]
fn the_deadline_is_from_the_packet_on() {
    let mut out = out(Some(1000), 1000);
    assert_eq!(out.sync(Nanos(100)).deadline, 5000);
    assert_eq!(out.sync(Nanos(1_000_100)).deadline, 4000);
    // A deadline that is over differs from none.
    assert_eq!(out.sync(Nanos(9_000_000)).deadline, 1);
}

#[test]
fn it_begins_once_more_if_nothing_was_acknowledged() {
    let mut out = out(Some(2000), 2000);
    out.heard(Nanos(500), true, Nanos(2000));
    assert!(out.accept(Nanos(500), 0, true) && !out.accept(Nanos(500), 0, true));
    out.next(Nanos(500), u32::MAX).unwrap();
    assert!(out.restart());
    assert!(!out.sync(Nanos(600)).probe);
    assert!(out.accept(Nanos(600), 0, true));
    assert_eq!(out.next(Nanos(600), u32::MAX), piece(0, 1000, false));
    out.acknowledged(Nanos(200), 1000, 2000);
    assert!(!out.restart());
}

/// Of a message whose length nobody was told only a window says that there is room for more.
#[test]
fn what_no_window_tells_is_not_promised() {
    let mut out = out(None, 1000);
    out.heard(Nanos(300), true, Nanos(2000));
    assert_eq!(out.promised(), 0);
    assert!(out.acknowledged(Nanos(400), 0, 5000));
    assert_eq!(out.promised(), 4000);
}

#[test]
fn the_sync_says_how_long_the_sender_tries() {
    let ms = Nanos::MILLISECOND.0;
    for (timeout, units) in [(100, 1), (101, 2), (10_000, 100), (3_600_000, 36_000)] {
        let mut out = out(Some(1000), 1000);
        out.timeout = Nanos(timeout * ms);
        assert_eq!(out.sync(Nanos(200)).patience, units);
    }
}

/// Karn's rule: an answer to one of two SYNCs says nothing of the round trip.
#[test]
fn a_round_trip_is_measured_where_one_sync_was_answered() {
    for (syncs, rtt) in [(1, Nanos(600)), (2, BASE)] {
        let mut out = out(Some(10_000), 10_000);
        for _ in 0..syncs {
            out.sync(Nanos(100));
        }
        out.heard(Nanos(700), true, Nanos(2000));
        assert_eq!(out.rtt(BASE), rtt, "{syncs}");
    }
}

#[test]
fn shorter_packets_are_tried_when_the_first_missing_bytes_do_not_come() {
    let (rto, mut now) = (Nanos(1000), Nanos(5000));
    let mut out = out(Some(10_000), 10_000);
    out.next(now, u32::MAX).unwrap();
    out.next(now, u32::MAX).unwrap();
    for tried in 0..20 {
        // Only what is missing first counts: what comes after it is not acknowledged either way.
        let stuck = out.stuck(now, rto);
        let long = now >= Nanos(5000 + 1100 + 1000 * TRIES_RTO);
        let enough = tried > TRIES && long;
        assert_eq!(stuck, enough.then_some(1000), "{tried}");
        now += Nanos(1100);
        out.name(now, &[span(0, 2000)], BASE, None);
        out.next(now, u32::MAX).unwrap();
    }
    out.narrowed(now);
    assert_eq!(out.stuck(now, rto), None);
    out.name(now + Nanos(2000), &[span(0, 2000)], BASE, None);
    assert_eq!(out.next(now + Nanos(2000), 526), piece(0, 526, true));
    // Progress forgives.
    for _ in 0..20 {
        now += Nanos(2000);
        out.name(now, &[span(0, 2000)], BASE, None);
        out.next(now, 526).unwrap();
    }
    assert!(out.stuck(now, rto).is_some());
    assert!(out.acknowledged(now, 526, 20_000));
    assert_eq!(out.stuck(now, rto), None);
}

#[test]
fn who_answers_and_takes_nothing_is_given_up_in_the_end() {
    let timeout = Nanos(1_000_000);
    let after = |times: u64| Nanos(700 + times * timeout.0);
    let due = |out: &mut Out<()>, at: Nanos| {
        out.timeout = timeout;
        out.heard(at, false, Nanos(2000));
        out.due(at) == Due::Dead
    };
    // It wants more, and has none.
    let mut open = out(Some(10_000), 10_000);
    open.acknowledged(Nanos(600), 0, 8000);
    open.acknowledged(Nanos(700), 0, 9000);
    open.acknowledged(Nanos(800), 0, 9000);
    assert!(!due(&mut open, after(STALLED_TIMEOUTS) - Nanos(1)));
    assert!(due(&mut open, after(STALLED_TIMEOUTS)));
    // Sooner if nobody would be told.
    open.closed(Nanos(700));
    assert!(!due(&mut open, after(ORPHAN_TIMEOUTS) - Nanos(1)));
    assert!(due(&mut open, after(ORPHAN_TIMEOUTS)));
    // It wants no more: only who has closed the socket does not wait for that.
    let mut closed = out(Some(10_000), 10_000);
    closed.next(Nanos(200), u32::MAX).unwrap();
    closed.acknowledged(Nanos(700), 1000, 1000);
    assert!(!due(&mut closed, after(1000)));
    closed.closed(after(1000));
    assert!(!due(&mut closed, after(1000 + ORPHAN_TIMEOUTS) - Nanos(1)));
    assert!(due(&mut closed, after(1000 + ORPHAN_TIMEOUTS)));
    // Nothing is to be sent, until something is.
    let mut idle = out(None, 1000);
    idle.next(Nanos(200), u32::MAX).unwrap();
    idle.acknowledged(Nanos(700), 1000, 9000);
    assert!(!due(&mut idle, after(1000)));
    assert!(idle.written(after(1000), 2000, true));
    assert!(!due(&mut idle, after(1000 + STALLED_TIMEOUTS - 1)));
    assert!(due(&mut idle, after(1000 + STALLED_TIMEOUTS)));
}

#[test]
fn what_is_paced_is_sent_again_no_sooner_than_a_round_trip_after_the_last_time() {
    let mut out = out(Some(100_000), 100_000);
    out.paced = true;
    let mut former = Ranges::new();
    let mut now = Nanos(10_000_000);
    for _ in 0..60 {
        out.next(now, u32::MAX).unwrap();
    }
    // One loss after the other, a quarter of a round trip apart; all are named each time.
    let quarter = Nanos(BASE.0 / 4);
    let mut again = [0_u32; 20];
    for lost in 0..20_u32 {
        let spans: Vec<_> = (0..=lost)
            .map(|at| span(at * 2000, at * 2000 + 1000))
            .collect();
        // A RESEND names no more than so many.
        let first = spans.len().saturating_sub(16);
        out.name(now, &spans[first..], BASE, Some(&mut former));
        while !out.named.is_empty() {
            let piece = out.next(now, u32::MAX).unwrap();
            assert!(piece.again);
            again[(piece.offset / 2000) as usize] += 1;
        }
        now += quarter;
    }
    // Each at once, and again after one round trip or two: in four of them, not once a quarter.
    assert!(
        again[..12].iter().all(|count| (2..=4).contains(count)),
        "{again:?}"
    );
    assert!(
        again.iter().all(|count| (1..=4).contains(count)),
        "{again:?}"
    );
}

#[test]
fn a_receiver_that_says_for_long_that_it_has_less_has_lost_the_rest() {
    const RTO: Nanos = Nanos(2000);
    let begin = |received| {
        let mut out = out(Some(10_000), 10_000);
        while out.next(Nanos(200), u32::MAX).is_ok() {}
        out.acknowledged(Nanos(300), received, MAX_LENGTH - 1);
        out
    };
    let at = |n: u64| Nanos(1000 + n * RTO.0);
    // It has said so for half a second.
    let ms = |n: u64| Nanos(1000 + n * 1_000_000);
    let mut lost = begin(5000);
    let first = (0..1000).find(|n| lost.has_lost(ms(*n), 4000, RTO));
    assert_eq!(first, Some(500));
    // And not other things meanwhile.
    let mut late = begin(5000);
    assert!((0..5000).all(|n| !late.has_lost(ms(n), (n / 400) as u32, RTO)));
    // ACKs that were overtaken come at once, or others between them.
    let mut late = begin(5000);
    assert!((0..100).all(|_| !late.has_lost(at(0), 4000, RTO)));
    let mut late = begin(5000);
    assert!((0..100).all(|n| !late.has_lost(at(n), if n % 7 == 0 { 5000 } else { 4000 }, RTO)));
    // A few, however late.
    let mut late = begin(5000);
    assert!((0..7).all(|n| !late.has_lost(ms(1000 * n), 4000, RTO)));
    let mut none = begin(0);
    assert!((0..100).all(|n| !none.has_lost(at(n), 0, RTO)));
}
