// SPDX-License-Identifier: GPL-2.0
//! Several ports with one link: what [`Common`] promises, in virtual time.

use super::*;
use crate::port::common::{Common, Member};
use crate::queue::NoChild;
use proptest::prelude::*;
use std::vec;

mod handover;
mod lone;
mod strict;
mod turns;

const START: u64 = 1_000_000;

/// What left: when (ns after the start), from which queue, which packet, of which band.
type Left = (u64, usize, u32, Band);

/// The ports of a device with several queues. Each has a timer, which fires when it was set to or
/// later by what `late` says.
struct Group {
    ports: Vec<Port<Fifo>>,
    common: Common<Vec<Member>>,
    children: Vec<VecDeque<P>>,
    timers: Vec<Option<Nanos>>,
    /// By queue: its driver takes nothing.
    stopped: Vec<bool>,
    /// By queue: by how much timers are late.
    late: Vec<u64>,
    drops: Vec<(u32, Band, DropCause)>,
    now: Nanos,
    left: Vec<Left>,
    /// How often somebody was asked for a packet and had none to give.
    vain: u64,
}

impl Group {
    fn new(queues: usize, config: Config) -> Self {
        let resolved = config.validate(Some(10 * GBIT)).unwrap();
        let now = Nanos(START);
        let members = vec![Member::ABSENT; queues];
        let port = || {
            let mut port = Port::new(&config, &resolved, now);
            port.join();
            port
        };
        let mut common = Common::new(members);
        common.begin(&config, &resolved, now);
        Self {
            ports: (0..queues).map(|_| port()).collect(),
            common,
            children: (0..queues).map(|_| VecDeque::new()).collect(),
            timers: vec![None; queues],
            stopped: vec![false; queues],
            late: vec![0; queues],
            drops: Vec::new(),
            now,
            left: Vec::new(),
            vain: 0,
        }
    }

    fn change(&mut self, config: Config) {
        let resolved = config.validate(Some(10 * GBIT)).unwrap();
        self.common.set(&config, &resolved, self.now);
        for queue in 0..self.ports.len() {
            self.ports[queue].change(&config, &resolved, self.now, &mut self.drops);
            self.timers[queue] = Some(self.now);
        }
    }

    /// A packet arrives, and the kernel asks the port for one.
    fn put(&mut self, queue: usize, band: Band, id: u32) -> Enqueue {
        let len = if matches!(band, Band::Data | Band::Unscheduled) {
            1514
        } else {
            60
        };
        self.put_sized(queue, band, id, len, 1)
    }

    fn put_sized(&mut self, queue: usize, band: Band, id: u32, len: u32, segs: u32) -> Enqueue {
        let packet = Bench::packet(id, len, segs);
        let put = self.ports[queue].enqueue(self.now, band, packet, &mut self.drops);
        self.ask(queue);
        put
    }

    /// The qdisc runs: the port is asked until it gives nothing.
    fn ask(&mut self, queue: usize) {
        while !self.stopped[queue] {
            let (port, common) = (&mut self.ports[queue], &mut self.common);
            let now = self.now;
            if port.wants_more() {
                if let Some(packet) = self.children[queue].pop_front() {
                    port.pull(now, packet);
                }
            }
            let mut kicks = [None; 2];
            let held = self.children[queue].len() as u64;
            let dequeued = port.serve(now, held, &mut self.drops, |offer| {
                let claimed = common.claim(now, queue as u32, offer);
                kicks = claimed.kicks;
                claimed
            });
            for kick in kicks.into_iter().flatten() {
                assert!(kick.at >= now && kick.member as usize != queue, "{kick:?}");
                let at = Nanos(kick.at.0 + self.late[kick.member as usize]);
                self.timers[kick.member as usize] = Some(at);
            }
            match dequeued {
                Dequeue::Packet(packet, band) => {
                    self.left.push((now.0 - START, queue, packet.0, band));
                    continue;
                }
                Dequeue::Wait(time) => {
                    assert!(time > now, "waits for {time} at {now}");
                    self.timers[queue] = Some(Nanos(time.0.saturating_add(self.late[queue])));
                }
                Dequeue::Empty => {}
            }
            self.vain += 1;
            return;
        }
    }

    /// Until `ns` after the start.
    fn run(&mut self, ns: u64) {
        let end = Nanos(START + ns);
        loop {
            let next = (0..self.ports.len())
                .filter_map(|queue| Some((self.timers[queue]?, queue)))
                .min();
            match next {
                Some((time, queue)) if time <= end => {
                    self.now = self.now.max(time);
                    self.timers[queue] = None;
                    self.ask(queue);
                }
                _ => break,
            }
        }
        self.now = self.now.max(end);
    }
}
