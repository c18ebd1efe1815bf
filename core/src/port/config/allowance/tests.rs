// SPDX-License-Identifier: GPL-2.0
use super::*;
use crate::options::{Given, Table, Value};
use crate::pfc::ingress::Alpha;
use crate::pfc::scope::Scope;
use crate::port::config::{Delay, Pfc, Room};
use crate::port::uapi::{self, option as number};
use crate::units::Nanos;
use std::string::{String, ToString};

const GBIT: u64 = 125_000_000;
/// A full frame with a VLAN tag; it takes 1542 bytes on the wire.
const FRAME: u32 = 1518;

const GENERATE: Generate = Generate {
    xoff: Room::AUTO,
    xon: Room::AUTO,
    headroom: Room::AUTO,
    delay: Delay::ns(1000),
    share: None,
};

fn config(generate: Generate) -> Config {
    Config {
        pfc: Some(Pfc {
            data: Scope::one(0),
            watchdog: Nanos(200_000_000),
            generate: Some(generate),
        }),
        unscheduled: 0,
        jitter: Nanos::ZERO,
        ..Config::DEFAULT
    }
}

fn allowance(config: &Config, speed: Option<u64>) -> Allowance {
    let resolved = config.validate(speed).unwrap();
    config.allowance(&resolved, FRAME, 0).unwrap()
}

#[test]
fn auto_is_what_can_come() {
    // Three frames, the pause, two quanta, and 2 us at 1 Gbit/s.
    let headroom = 3 * 1542 + 84 + 2 * 64 + 250;
    let auto = allowance(&config(GENERATE), Some(GBIT));
    assert_eq!(auto.headroom, headroom);
    assert_eq!((auto.xoff, auto.xon), (headroom + 2 * 1542, headroom));
    // Both ends may be late by the jitter.
    let late = Config {
        jitter: Nanos(10_000),
        ..config(GENERATE)
    };
    let late = allowance(&late, Some(GBIT));
    assert_eq!(late.headroom, headroom + 2500);
    // The rate of `link` counts, if it is given.
    let shaped = Config {
        link: Some(GBIT),
        ..config(GENERATE)
    };
    assert_eq!(allowance(&shaped, Some(100 * GBIT)), auto);
}

#[test]
fn what_is_given_is_taken() {
    let given = Generate {
        xoff: Room::bytes(9000),
        xon: Room::bytes(0),
        headroom: Room::bytes(0),
        ..GENERATE
    };
    let expected = Allowance {
        xoff: 9000,
        xon: 0,
        headroom: 0,
        share: None,
    };
    assert_eq!(allowance(&config(given), Some(GBIT)), expected);
    let high = Generate {
        xon: Room::bytes(1_000_000),
        ..GENERATE
    };
    let high = allowance(&config(high), Some(GBIT));
    assert_eq!((high.xon, high.xoff), (1_000_000, 1_003_084));
    let low = Generate {
        xoff: Room::bytes(1),
        ..GENERATE
    };
    assert_eq!(allowance(&config(low), Some(GBIT)).xon, 0);
}

/// Half of a megabyte, and two frames less.
#[test]
fn a_part_of_a_buffer_is_what_is_free_of_it() {
    let share = Dynamic {
        alpha: Alpha::HALF,
        buffer: 1 << 20,
    };
    let shared = Generate {
        share: Some(share),
        ..GENERATE
    };
    let shared = allowance(&config(shared), Some(GBIT));
    assert_eq!((shared.xoff, shared.xon), (1 << 19, (1 << 19) - 2 * 1542));
    let fixed = allowance(&config(GENERATE), Some(GBIT));
    assert_eq!(shared.headroom, fixed.headroom);
    let xoff = Xoff::Share {
        alpha: Alpha::HALF,
        gap: 2 * 1542,
    };
    assert_eq!(shared.limits().xoff, xoff);
}

/// What is merged comes to be counted in one go: it needs room for all of it but the one frame that
/// has room anyway.
#[test]
fn merged_packets_need_more_room() {
    let auto = allowance(&config(GENERATE), Some(GBIT));
    let resolved = config(GENERATE).validate(Some(GBIT)).unwrap();
    let of = |merged| {
        config(GENERATE)
            .allowance(&resolved, FRAME, merged)
            .unwrap()
    };
    assert_eq!(of(0), auto);
    // 123 segments of 536 bytes are 64 KB, and take 636 and Ethernet's 24 on the wire at most.
    let merged = of(65_536);
    let more = merged.headroom - auto.headroom;
    assert!((121 * (536 + 78)..124 * 660).contains(&more), "{more}");
    assert_eq!((merged.xoff, merged.xon), (auto.xoff, auto.xon));
    for merged in [1, 100_000, u32::MAX] {
        assert!(of(merged).headroom >= auto.headroom, "{merged}");
    }
    // Said is said.
    let given = Generate {
        headroom: Room::bytes(5),
        ..GENERATE
    };
    assert_eq!(
        config(given)
            .allowance(&resolved, FRAME, 65_536)
            .unwrap()
            .headroom,
        5
    );
}

#[test]
fn without_a_speed_nobody_is_paused() {
    assert!(allowance(&config(GENERATE), None).is_unresolved());
    let obeys = Config {
        pfc: config(GENERATE).pfc.map(|pfc| Pfc {
            generate: None,
            ..pfc
        }),
        ..config(GENERATE)
    };
    let resolved = obeys.validate(Some(GBIT)).unwrap();
    assert_eq!(obeys.allowance(&resolved, FRAME, 0), None);
    assert!(!obeys.generates() && config(GENERATE).generates());
}

/// The fastest link there may be has a headroom, and the longest frames and delay do not overflow.
#[test]
fn extremes_have_a_headroom() {
    let far = Generate {
        delay: Delay::ns(10_000_000),
        ..GENERATE
    };
    for speed in [125, GBIT / 100, 400 * GBIT, 800 * GBIT] {
        let resolved = config(far).validate(Some(speed)).unwrap();
        for frame in [60, u32::MAX] {
            let auto = config(far).allowance(&resolved, frame, 0).unwrap();
            assert!(auto.headroom > u64::from(speed != 125) * 200);
            assert!(auto.xon <= auto.xoff);
        }
    }
}

fn refusal(config: &Config) -> String {
    config.validate(Some(GBIT)).unwrap_err().to_string()
}

#[test]
fn what_would_drop_is_refused() {
    let unscheduled = Config {
        unscheduled: 1,
        ..config(GENERATE)
    };
    assert_eq!(
        refusal(&unscheduled),
        "pfc xoff: needs unscheduled off, whose packets are dropped"
    );
    let whole = Config {
        split_gso: SplitGso::No,
        ..config(GENERATE)
    };
    assert_eq!(
        refusal(&whole),
        "pfc xoff: not with no-split-gso: pauses would wait for 64 KB"
    );
    let share = Some(Dynamic {
        alpha: Alpha::ONE,
        buffer: 1 << 20,
    });
    for (xoff, xon) in [
        (Room::bytes(9000), Room::AUTO),
        (Room::AUTO, Room::bytes(0)),
    ] {
        let shared = Generate {
            xoff,
            xon,
            share,
            ..GENERATE
        };
        assert_eq!(
            refusal(&config(shared)),
            "pfc alpha: needs pfc xoff auto and xon auto, which follow from it"
        );
    }
    let above = Generate {
        xoff: Room::bytes(2048),
        xon: Room::bytes(3072),
        ..GENERATE
    };
    assert_eq!(
        refusal(&config(above)),
        "pfc xon: 3kb is above pfc xoff, 2kb"
    );
}

/// What a request makes of a port that was like this.
fn asked(before: &Config, request: &[(u16, Value)]) -> Result<Option<Pfc>, String> {
    let mut config = *before;
    let mut given = Given::default();
    for (number, value) in request {
        config
            .take(&mut given, *number, *value)
            .map_err(|refusal| refusal.to_string())?;
    }
    let settled = config.settle(before.groups(), given);
    settled.map(|()| config.pfc).map_err(|r| r.to_string())
}

#[test]
fn parts_go_together() {
    let off = Config::DEFAULT;
    let on = config(GENERATE);
    let obeys = Config {
        pfc: on.pfc.map(|pfc| Pfc {
            generate: None,
            ..pfc
        }),
        ..on
    };
    let data = |value| (number::PFC_DATA, Value::U32(value));
    let xoff = |value| (number::PFC_XOFF, Value::U32(value));
    let xon = (number::PFC_XON, Value::U32(7));
    let alpha = |value| (number::PFC_ALPHA, Value::U32(value));
    let buffer = (number::PFC_BUFFER, Value::U32(9000));
    let auto = xoff(uapi::PFC_AUTO);
    let begun = |delay| {
        let delay = Delay::ns(delay);
        on.pfc.map(|pfc| Pfc {
            generate: Some(Generate { delay, ..GENERATE }),
            ..pfc
        })
    };
    assert_eq!(asked(&off, &[auto, data(1)]), Ok(begun(500)));
    assert_eq!(asked(&obeys, &[auto]), Ok(begun(500)));
    // What is not given stays.
    assert_eq!(asked(&on, &[auto]), Ok(begun(1000)));
    assert_eq!(asked(&on, &[data(1)]), Ok(begun(1000)));
    assert_eq!(asked(&on, &[xoff(0)]), Ok(obeys.pfc));
    assert_eq!(asked(&on, &[data(0)]), Ok(None));
    assert_eq!(asked(&obeys, &[xoff(0)]), Ok(obeys.pfc));
    let changed = asked(&on, &[xon]).unwrap().unwrap().generate.unwrap();
    assert_eq!((changed.xon, changed.xoff), (Room::bytes(7), Room::AUTO));
    for (before, request, said) in [
        (&off, &[auto][..], "pfc xoff: needs pfc data, too"),
        (&off, &[xon], "pfc xon: needs pfc data, too"),
        (&on, &[data(0), auto], "pfc xoff: pfc is off"),
        (&on, &[data(0), xon], "pfc xon: pfc is off"),
        (&obeys, &[xon], "pfc xon: needs pfc xoff, too"),
        (&on, &[xoff(0), xon], "pfc xon: pfc xoff is off"),
        (&on, &[xoff(0), alpha(4)], "pfc alpha: pfc xoff is off"),
        (&obeys, &[alpha(4)], "pfc alpha: needs pfc xoff, too"),
        (&obeys, &[buffer], "pfc buffer: needs pfc xoff, too"),
        (&on, &[alpha(4)], "pfc alpha: needs pfc buffer, too"),
        (&on, &[buffer], "pfc buffer: needs pfc alpha, too"),
        (&on, &[alpha(0), buffer], "pfc buffer: pfc alpha is off"),
        (
            &on,
            &[alpha(3)],
            "pfc alpha: 0.01171875 is not in 1/64..8 or off",
        ),
        (
            &on,
            &[data(257)],
            "pfc data: 257 is not in 0..7 or a list of them, off or pause",
        ),
    ] {
        assert_eq!(asked(before, request), Err(said.to_string()));
    }
    let shared = |alpha| {
        on.pfc.map(|pfc| Pfc {
            generate: Some(Generate {
                share: Some(Dynamic {
                    alpha: Alpha(alpha),
                    buffer: 9000,
                }),
                ..GENERATE
            }),
            ..pfc
        })
    };
    assert_eq!(asked(&on, &[alpha(4), buffer]), Ok(shared(4)));
    let sharing = Config {
        pfc: shared(4),
        ..on
    };
    assert_eq!(asked(&sharing, &[alpha(8)]), Ok(shared(8)));
    assert_eq!(asked(&sharing, &[alpha(0)]), Ok(on.pfc));
    assert_eq!(asked(&sharing, &[auto]), Ok(shared(4)));
    for (word, scope) in [
        (uapi::PFC_PAUSE, Scope::Link),
        (0b1_1000, Scope::Priorities(0b1_1000)),
    ] {
        let data = asked(&off, &[data(word)]).unwrap().unwrap().data;
        assert_eq!(data, scope);
    }
    let long = asked(&on, &[xoff((1 << 30) + 1)]).unwrap_err();
    assert!(long.starts_with("pfc xoff: "), "{long}");
    assert!(long.ends_with(" is not in 1b..1gb, off or auto"), "{long}");
}
