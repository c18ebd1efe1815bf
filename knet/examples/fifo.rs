// SPDX-License-Identifier: GPL-2.0
//! `knet_fifo.ko`: a whole qdisc, a FIFO of at most 100 packets. After `insmod`:
//!
//!     tc qdisc add dev eth0 root knet_fifo

#![forbid(unsafe_code)]

use kernel::prelude::*;
use knet::{
    attr::Nest, Arriving, Configuring, Dequeued, Dequeuing, DropReason, Enqueued, Enqueuing,
    Extack, Kind, Leaving, Message, Qdisc, Registration, Resetting, Skb, SkbQueue,
};

module! {
    type: Module,
    name: "knet_fifo",
    authors: ["The Turnstile authors"],
    description: "A FIFO, to show how a qdisc is written with knet",
    license: "GPL",
}

static FIFO: Kind<Fifo> = Kind::new();

struct Module {
    _fifo: Registration,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let _fifo = FIFO.register()?;
        Ok(Module { _fifo })
    }
}

const LIMIT: u32 = 100;

struct Fifo {
    packets: SkbQueue,
    room: u32,
}

#[vtable]
impl Qdisc for Fifo {
    const KIND: &'static str = "knet_fifo";
    // Nothing is read without the lock, nobody listens, and there is nothing to know of packets
    // that are not just queued or sent.
    type Shared = ();
    type Listener = ();
    type EnqueueHint = ();
    type DequeueHint = ();

    fn new<'a>(
        _on: &'a mut Configuring<'_, Self>,
        _options: Option<Nest<'a>>,
        _extack: &'a mut Extack,
    ) -> Result<impl Init<Self, Error>> {
        Ok(try_init!(Self { packets: SkbQueue::new(), room: LIMIT }? Error))
    }

    fn change(_: &mut Configuring<'_, Self>, _: Option<Nest<'_>>, _: &mut Extack) -> Result {
        Ok(())
    }

    fn enqueue(skb: Skb, mut arriving: Arriving<'_, Self>) -> Enqueued {
        let (this, _) = arriving.qdisc();
        let Some(room) = this.room.checked_sub(1) else {
            return arriving.slow(skb, ());
        };
        let len = skb.packet_len();
        this.room = room;
        this.packets.push(skb);
        arriving.queued(len)
    }

    fn enqueue_slow(skb: Skb, (): (), on: &mut Enqueuing<'_, Self>) {
        on.report().refuse(skb, DropReason::OverLimit);
    }

    fn dequeue(mut leaving: Leaving<'_, Self>) -> Dequeued {
        let this = leaving.qdisc();
        let Some(skb) = this.packets.pop() else {
            return leaving.empty();
        };
        let len = skb.packet_len();
        this.room = this.room.saturating_add(1);
        leaving.with(skb, len)
    }

    fn dequeue_slow((): (), _on: &mut Dequeuing<'_, Self>) -> Option<Skb> {
        None
    }

    fn reset(&mut self, on: &mut Resetting<'_, Self>) {
        while let Some(skb) = self.packets.pop() {
            knet::drop_queued(skb, on.rtnl());
        }
        self.room = LIMIT;
    }

    fn dump(&mut self, _message: &mut Message) -> Result {
        Ok(())
    }
}
