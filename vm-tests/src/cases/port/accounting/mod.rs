// SPDX-License-Identifier: GPL-2.0
//! Packets in = packets out + drops by cause, queue lengths return to zero, in every place that a
//! port can have and whatever is done to it meanwhile.

mod children;
mod doubled;
mod peeked;
pub(super) mod random;
mod trains;
mod trimmed;

use random::Place;

use crate::harness::{Case, Ctx};

macro_rules! place {
    ($name:literal, $place:expr) => {
        Case::new(concat!("accounting/", $name), |ctx: &mut Ctx| {
            random::run(ctx, &$place)
        })
    };
}

pub(in crate::cases) const CASES: &[Case] = &[
    place!("root", ROOT),
    place!("root-no-child", ROOT_NO_CHILD),
    place!("nested", NESTED),
    place!("mq", MQ),
    place!("queues", GROUP),
    place!("prio", PRIO),
    place!("htb", HTB),
    place!("tbf", TBF),
    place!("hfsc", HFSC),
    place!("drr", DRR),
    place!("ets", ETS),
    place!("qfq", QFQ),
    place!("red", RED),
    place!("netem", NETEM),
    place!("three-levels", THREE_LEVELS),
    place!("four-levels", FOUR_LEVELS),
    Case::new("accounting/children", children::run),
    Case::new("accounting/doubled", doubled::run),
    Case::new("accounting/peeked", peeked::run),
    Case::new("accounting/trains", trains::run),
    Case::new("accounting/trimmed", trimmed::run),
];

/// The port's handle, where there is one.
const PORT: u32 = 0x10_0000;

const ROOT: Place = Place {
    setup: "qdisc add dev eth0 root handle 10: turnstile link 50mbit\n",
    levels: 0,
    ports: &[PORT],
    inner: &[],
    peeks: false,
    children: true,
    downs: true,
    queues: 1,
    group: false,
};

const ROOT_NO_CHILD: Place = Place {
    children: false,
    ..ROOT
};

const NESTED: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: turnstile link 100mbit\n\
            qdisc add dev eth0 parent 1:2 handle 10: turnstile link 50mbit\n",
    ports: &[0x1_0000],
    inner: &[PORT],
    ..ROOT
};

const MQ: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: mq\n\
            qdisc add dev eth0 parent 1:1 handle 11: turnstile link 50mbit\n\
            qdisc add dev eth0 parent 1:2 handle 12: turnstile\n\
            qdisc add dev eth0 parent 1:3 handle 13: turnstile link 20mbit no-split-gso\n\
            qdisc add dev eth0 parent 1:4 handle 14: turnstile\n",
    ports: &[0x11_0000, 0x12_0000, 0x13_0000, 0x14_0000],
    queues: 4,
    ..ROOT
};

/// The kernel gives the ports of the first group on a device these handles.
const GROUP: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: turnstile_mq link 50mbit\n",
    ports: &[0x9001_0000, 0x9002_0000, 0x9003_0000, 0x9004_0000],
    queues: 4,
    group: true,
    ..ROOT
};

const PRIO: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: prio\n\
            filter add dev eth0 parent 1: protocol all matchall classid 1:2\n\
            qdisc add dev eth0 parent 1:2 handle 10: turnstile link 50mbit\n",
    ..ROOT
};

const HTB: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: htb default 2\n\
            class add dev eth0 parent 1: classid 1:2 htb rate 100mbit burst 64k cburst 64k\n\
            qdisc add dev eth0 parent 1:2 handle 10: turnstile link 50mbit\n",
    ..ROOT
};

const TBF: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: tbf rate 100mbit burst 80kb limit 1mb\n\
            qdisc add dev eth0 parent 1:1 handle 10: turnstile link 50mbit\n",
    peeks: true,
    // With resets, what was sent could not be known exactly.
    downs: false,
    ..ROOT
};

const HFSC: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: hfsc default 2\n\
            class add dev eth0 parent 1: classid 1:2 hfsc sc rate 100mbit ul rate 100mbit\n\
            qdisc add dev eth0 parent 1:2 handle 10: turnstile link 50mbit\n",
    peeks: true,
    // After a reset, an hfsc class with a real-time curve that had packets never sends again,
    // whatever its child: seen with 7.2.12 and a pfifo, too. Its reset forgets the tree of such
    // classes, but not that they are in it.
    downs: false,
    ..ROOT
};

const DRR: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: drr\n\
            class add dev eth0 parent 1: classid 1:2 drr quantum 1600\n\
            filter add dev eth0 parent 1: protocol all matchall classid 1:2\n\
            qdisc add dev eth0 parent 1:2 handle 10: turnstile link 50mbit\n",
    peeks: true,
    ..ROOT
};

const ETS: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: ets bands 3 quanta 1600 1600 1600\n\
            filter add dev eth0 parent 1: protocol all matchall classid 1:2\n\
            qdisc add dev eth0 parent 1:2 handle 10: turnstile link 50mbit\n",
    peeks: true,
    ..ROOT
};

const QFQ: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: qfq\n\
            class add dev eth0 parent 1: classid 1:2 qfq weight 10 maxpkt 2000\n\
            filter add dev eth0 parent 1: protocol all matchall classid 1:2\n\
            qdisc add dev eth0 parent 1:2 handle 10: turnstile link 50mbit\n",
    peeks: true,
    ..ROOT
};

const RED: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: red limit 400000 min 30000 max 90000 avpkt 1000 \
            burst 55 bandwidth 100mbit\n\
            qdisc add dev eth0 parent 1:1 handle 10: turnstile link 50mbit\n",
    ..ROOT
};

const NETEM: Place = Place {
    setup: "qdisc add dev eth0 root handle 1: netem delay 1ms limit 2000\n\
            qdisc add dev eth0 parent 1:1 handle 10: turnstile link 50mbit\n",
    ..ROOT
};

const THREE_LEVELS: Place = Place {
    setup: "",
    levels: 2,
    peeks: true,
    // There may be an hfsc among them: see `HFSC`.
    downs: false,
    ..ROOT
};

const FOUR_LEVELS: Place = Place {
    levels: 3,
    ..THREE_LEVELS
};
