// SPDX-License-Identifier: GPL-2.0
//! Processors that are slower than links. What comes while one is at work waits for its turn.
//!
//! There is one for each host, or some for all of them, as namespaces of one machine have: then a
//! packet is handled where it was sent, as Linux does without RPS, so that packets that were sent
//! by different ones overtake each other.

use std::collections::VecDeque;

use super::{Event, Network};

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Processors {
    all: Vec<Processor>,
    /// They are for all hosts.
    shared: bool,
    /// The one that is at work.
    pub(super) at: usize,
}

struct Processor {
    /// What each event of a host takes, and each packet that it sends, ns.
    cost: u64,
    /// After each so long it does something else for so long, ns; 0: never.
    away: (u64, u64),
    /// When it goes away the next time.
    leaves: u64,
    /// What is to be added for what is handled now, ns.
    owed: u64,
    busy: bool,
    /// Packets, timers, and what applications do: one after the other, as softirqs do, but for one
    /// of the others after so many.
    waiting: [VecDeque<Event>; 3],
    passed: u32,
}

/// Packets of one round (`netdev_budget`).
const BUDGET: u32 = 300;

impl Processor {
    fn new(cost: u64) -> Self {
        Self {
            cost,
            away: (0, 0),
            leaves: u64::MAX,
            owed: 0,
            busy: false,
            waiting: [const { VecDeque::new() }; 3],
            passed: 0,
        }
    }
}

impl Processors {
    /// A host sends a packet.
    pub(super) fn sends(&mut self) {
        if let Some(processor) = self.all.get_mut(self.at) {
            processor.owed += processor.cost;
        }
    }
}

impl Network {
    /// From now on all hosts share processors, which need so many ns for each event and for each
    /// packet that is sent.
    pub(crate) fn share_processors(&mut self, costs: &[u64]) {
        self.own_processors(costs);
        self.processors.shared = true;
    }

    /// The same of one processor for each host, in their order.
    pub(crate) fn own_processors(&mut self, costs: &[u64]) {
        self.processors.all = costs.iter().map(|cost| Processor::new(*cost)).collect();
    }

    /// Each processor does something else for so long now and then: the first one every so many ns,
    /// the others a tenth less often each.
    pub(crate) fn distract(&mut self, every: u64, lasts: u64) {
        let mut every = every;
        for processor in &mut self.processors.all {
            (processor.away, processor.leaves) = ((every, lasts), self.now + every);
            every += every / 10;
        }
    }

    /// The processor that handles it.
    fn handled_by(&self, event: &Event) -> Option<usize> {
        let (host, by) = match event {
            Event::Timer(host) => (*host, self.hosts[*host].timer_on),
            Event::Read(host, ..)
            | Event::Send(host, ..)
            | Event::Write(host, ..)
            | Event::Left(host, ..) => (*host, *host),
            Event::Arrive(packet) => {
                let route = self.routes.get(&(packet.from, packet.to))?;
                if route.len() != packet.hop {
                    return None;
                }
                (packet.to, packet.sent_on)
            }
            Event::Kick(_) | Event::Free(_) => return None,
        };
        let which = if self.processors.shared { by } else { host };
        Some(which % self.processors.all.len().max(1))
    }

    /// Handles an event, or has it wait for the processor.
    pub(super) fn take(&mut self, event: Event) {
        let by = self
            .handled_by(&event)
            .filter(|_| !self.processors.all.is_empty());
        let Some(by) = by else {
            return self.handle(event);
        };
        if let Event::Timer(host) = event {
            if self.hosts[host].timer != self.now {
                return;
            }
            // It is late already: nothing arms another one.
            self.hosts[host].timer = 0;
        }
        match self.processors.all.get_mut(by) {
            Some(processor) if processor.busy => {
                let kind = match event {
                    Event::Timer(_) => 1,
                    Event::Read(..) | Event::Send(..) | Event::Write(..) => 2,
                    _ => 0,
                };
                processor.waiting[kind].push_back(event);
            }
            _ => self.work(by, event),
        }
    }

    fn work(&mut self, by: usize, event: Event) {
        if let Event::Timer(host) = event {
            self.hosts[host].timer = self.now;
        }
        self.processors.at = by;
        self.handle(event);
        let now = self.now;
        if let Some(processor) = self.processors.all.get_mut(by) {
            processor.busy = true;
            let mut took = processor.cost + std::mem::take(&mut processor.owed);
            if now + took >= processor.leaves {
                let (every, lasts) = processor.away;
                took += lasts;
                processor.leaves = now + took + every;
            }
            self.at(now + took, Event::Free(by));
        }
    }

    /// A processor has done what it was at.
    pub(super) fn is_free(&mut self, by: usize) {
        let Some(processor) = self.processors.all.get_mut(by) else {
            return;
        };
        processor.busy = false;
        let [packets, rest @ ..] = &mut processor.waiting;
        let spent = processor.passed >= BUDGET;
        let other = match spent || packets.is_empty() {
            true => rest.iter_mut().find_map(VecDeque::pop_front),
            false => None,
        };
        processor.passed = if spent { 0 } else { processor.passed + 1 };
        let next = other.or_else(|| packets.pop_front());
        if let Some(event) = next {
            self.work(by, event);
        }
    }
}
