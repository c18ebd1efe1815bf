// SPDX-License-Identifier: GPL-2.0
//! `knet_hostile.ko`: a qdisc that does what it should not, in safe code: knet has to see to it
//! that no harm is done.
//!
//! All qdiscs of the kind, on all devices, share one queue, so that a packet may outlive its device
//! and be given away on another one. The registration is in a global place, where a live qdisc
//! drops or forgets it. What is wanted is said by the number of the attribute in `tc qdisc change`:
//! see [`wish`].

#![forbid(unsafe_code)]

use core::mem;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{Arc, SetOnce, SpinLock},
};
use knet::{
    attr::{self, Nest, Policy, Rule},
    Arriving, Configuring, Dequeued, Dequeuing, Enqueued, Enqueuing, Extack, Kind, Leaving, Medium,
    Message, Qdisc, Registration, Resetting, Skb, SkbQueue,
};

module! {
    type: Module,
    name: "knet_hostile",
    authors: ["The Turnstile authors"],
    description: "A qdisc that does what it should not",
    license: "GPL",
}

/// Numbers of attributes, each a `u32` that does not matter.
mod wish {
    /// Drop the registration.
    pub(super) const UNREGISTER: u16 = 1;
    /// Forget the registration.
    pub(super) const FORGET: u16 = 2;
    /// Register the kind again.
    pub(super) const REGISTER: u16 = 3;
    /// Give packets away from now on.
    pub(super) const GIVE: u16 = 4;
    /// Hold packets from now on.
    pub(super) const HOLD: u16 = 5;
    /// Let go of packets that arrive, and say nothing.
    pub(super) const LET_GO: u16 = 6;
}

static KIND: Kind<Hostile> = Kind::new();
static SHARED: SetOnce<Arc<SpinLock<All>>> = SetOnce::new();

struct All {
    packets: SkbQueue,
    registration: Option<Registration>,
    gives: bool,
    lets_go: bool,
}

fn all<R>(work: impl FnOnce(&mut All) -> R) -> Option<R> {
    SHARED.as_ref().map(|all| work(&mut all.lock()))
}

struct Module;

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let all = Arc::pin_init(
            new_spinlock!(All {
                packets: SkbQueue::new(),
                registration: Some(KIND.register()?),
                gives: false,
                lets_go: false,
            }),
            GFP_KERNEL,
        )?;
        SHARED.populate(all);
        Ok(Module)
    }
}

struct Hostile;

const fn rule(number: u16) -> Rule {
    Rule {
        number,
        name: "wish",
        kind: attr::Kind::U32,
        range: (0, u32::MAX as u64),
        words: &[],
    }
}

const POLICY: Policy = Policy {
    who: "knet_hostile",
    rules: &[rule(1), rule(2), rule(3), rule(4), rule(5), rule(6)],
    outside: |_, _, _| Ok(()),
};

#[vtable]
impl Qdisc for Hostile {
    const KIND: &'static str = "knet_hostile";
    type Shared = ();
    type Listener = ();
    type EnqueueHint = ();
    type DequeueHint = ();

    fn new<'a>(
        _on: &'a mut Configuring<'_, Self>,
        _options: Option<Nest<'a>>,
        _extack: &'a mut Extack,
    ) -> Result<impl Init<Self, Error>> {
        Ok(try_init!(Self {}? Error))
    }

    fn change(
        on: &mut Configuring<'_, Self>,
        options: Option<Nest<'_>>,
        extack: &mut Extack,
    ) -> Result {
        let Some(options) = options else {
            return Ok(());
        };
        let mut wanted = 0;
        attr::parse(options, &POLICY, extack, |number, _, _| {
            wanted = number;
            Ok(())
        })?;
        // What may sleep is done without the lock.
        let made = match wanted {
            wish::REGISTER => Some(KIND.register()?),
            _ => None,
        };
        let taken = on.lock(|_, _| {
            all(|all| match wanted {
                wish::GIVE => {
                    all.gives = true;
                    None
                }
                wish::HOLD => {
                    all.gives = false;
                    None
                }
                wish::LET_GO => {
                    all.lets_go = true;
                    None
                }
                _ => mem::replace(&mut all.registration, made),
            })
        });
        let registration = taken.flatten().flatten();
        match wanted {
            wish::FORGET => mem::forget(registration),
            wish::UNREGISTER => drop(registration),
            _ => {}
        }
        Ok(())
    }

    fn enqueue(mut skb: Skb, arriving: Arriving<'_, Self>) -> Enqueued {
        // Headers that begin where there is nothing, up to where a sum with their length wraps.
        for at in [
            skb.packet_len(),
            u32::MAX / 2,
            u32::MAX - 35,
            u32::MAX - 21,
            u32::MAX,
        ] {
            for ipv6 in [false, true] {
                if skb.set_ecn(Medium::Ethernet, at, ipv6, 3) {
                    return arriving.slow(skb, ());
                }
            }
        }
        if all(|all| all.lets_go) == Some(true) {
            return arriving.slow(skb, ());
        }
        let len = skb.packet_len();
        all(|all| all.packets.push(skb));
        arriving.queued(len)
    }

    fn enqueue_slow(_skb: Skb, (): (), _on: &mut Enqueuing<'_, Self>) {}

    fn dequeue(leaving: Leaving<'_, Self>) -> Dequeued {
        let next = all(|all| all.gives.then(|| all.packets.pop()).flatten());
        match next.flatten() {
            Some(skb) => {
                let len = skb.packet_len();
                leaving.with(skb, len)
            }
            None => leaving.empty(),
        }
    }

    fn dequeue_slow((): (), _on: &mut Dequeuing<'_, Self>) -> Option<Skb> {
        None
    }

    /// Keeps everything.
    fn reset(&mut self, _on: &mut Resetting<'_, Self>) {}

    fn dump(&mut self, _message: &mut Message) -> Result {
        Ok(())
    }
}
