// SPDX-License-Identifier: GPL-2.0
//! What the hosts' applications do, and what a test sees and changes of hosts and ports.

use super::*;

impl Network {
    /// The most bytes that were ever sent to an address that is no host's for each hundred bytes
    /// that had come from it; `u64::MAX`: some were sent to one from which none had come.
    pub(crate) fn reflected(&self) -> u64 {
        self.reflected
    }

    /// The most bytes that a host was ever sent of a message that was [forged](Self::forged) in its
    /// name, for each hundred bytes of it that were forged. The host's own answers to these are not
    /// counted as bytes from it.
    pub(crate) fn drawn(&self) -> u64 {
        self.drawn
    }

    /// A packet of a message that an attacker begins in the name of a host is to be injected.
    pub(crate) fn forged(&mut self, from: usize, to: usize, packet: &Packet) {
        let bytes = self.ip_bytes(to, packet);
        let counted = self.named.entry((from, packet.cookie())).or_default();
        counted.0 += bytes;
    }

    /// Bytes of the IP packet, at a host that it comes to.
    fn ip_bytes(&self, to: usize, packet: &Packet) -> u64 {
        let ip = if self.hosts[to].v6 { 40 } else { 20 };
        u64::from(ip + 8 + packet.bytes())
    }

    /// A packet that does not come from an endpoint arrives.
    pub(crate) fn inject(
        &mut self,
        from: usize,
        to: usize,
        packet: Packet,
        payload: Option<Payload>,
    ) {
        let bytes = self.ip_bytes(to, &packet);
        self.injected += bytes;
        if from >= self.hosts.len() {
            self.strangers.entry(from).or_default().0 += bytes;
        }
        let from = address(from, to, self.hosts[to].v6);
        self.with(to, |endpoint, io, now, clock| {
            ask(endpoint, io, &from, &packet);
            endpoint.packet(Nanos(now), clock, &from, 0, 0, &packet, payload, io);
        });
    }

    /// A message of `length` bytes begins at `at`: its number.
    pub(crate) fn send_at(&mut self, at: u64, from: usize, to: usize, length: u32) -> usize {
        let what = self.plain(length);
        self.send_as(at, from, to, length, what)
    }

    /// Hosts that will have messages for others have had some before, so that they are no
    /// strangers. To be called before anything else; it takes less than a millisecond.
    pub(crate) fn acquaint(&mut self, pairs: impl IntoIterator<Item = (usize, usize)>) {
        for (from, to) in pairs {
            self.send_at(self.now, from, to, 1);
        }
        self.run_until(self.now + 900_000);
        for message in self.registry.messages.drain(..) {
            assert!(matches!(message.result, Some((_, Ok(())))));
        }
    }

    /// What an ordinary message is sent with.
    pub(crate) fn plain(&self, length: u32) -> Outgoing {
        Outgoing {
            source: 1,
            destination: 2,
            length: Some(length),
            deadline: None,
            coflow: 0,
            priority: None,
            mss: 1450,
            available: length,
            user: 0,
        }
    }

    /// A message begins now, if there is a place for it: its number.
    pub(crate) fn try_send(&mut self, from: usize, to: usize, what: Outgoing) -> Option<usize> {
        let number = self.registry.messages.len();
        let v6 = self.hosts[from].v6;
        let out = Out {
            message: number,
            acked: 0,
        };
        let there = address(to, from, v6);
        let sent = self.with(from, |endpoint, io, now, _| {
            let user = what.user;
            let may = endpoint.may_send(user, Some(&there));
            let sent = endpoint.send(Nanos(now), &there, &what, out, io).is_ok();
            assert_eq!(may, sent, "what is promised is kept");
            sent
        });
        sent.then(|| {
            self.registry.messages.push(Message {
                to,
                length: what.length.unwrap_or(what.available),
                began: self.now,
                delivered: None,
                result: None,
                failed_in: None,
                received: 0,
                bytes_by: Vec::new(),
                held: 0,
                written: 0,
            });
            number
        })
    }

    /// A message begins at `at`. What is not available at first is written bit by bit.
    pub(crate) fn send_as(
        &mut self,
        at: u64,
        from: usize,
        to: usize,
        length: u32,
        what: Outgoing,
    ) -> usize {
        let number = self.registry.messages.len();
        self.registry.messages.push(Message {
            to,
            length,
            began: at,
            delivered: None,
            result: None,
            failed_in: None,
            received: 0,
            bytes_by: Vec::new(),
            held: 0,
            written: 0,
        });
        self.at(at.max(self.now), Event::Send(from, number, what));
        number
    }

    /// What is not written of a message at first is not written before this time.
    pub(crate) fn hold(&mut self, number: usize, until: u64) {
        self.registry.messages[number].held = until;
    }

    pub(super) fn send(&mut self, from: usize, number: usize, what: Outgoing) {
        let message = &self.registry.messages[number];
        let (to, length) = (message.to, message.length);
        let v6 = self.hosts[from].v6;
        let to = address(to, from, v6);
        let out = Out {
            message: number,
            acked: 0,
        };
        let what = Outgoing {
            mss: if v6 { what.mss.min(1430) } else { what.mss },
            ..what
        };
        let id = self.with(from, |endpoint, io, now, _| {
            endpoint
                .send(Nanos(now), &to, &what, out, io)
                .expect("a message can be sent")
        });
        if what.available < length || what.length.is_none() {
            self.at(
                self.now,
                Event::Write(from, id, what.available, length == what.available),
            );
        }
    }

    pub(super) fn write(&mut self, host: usize, id: OutId, available: u32, end: bool) {
        let there = self.with(host, |endpoint, io, now, _| {
            endpoint.written(Nanos(now), id, available, end, io)
        });
        let number = self.with(host, |endpoint, _, _, _| {
            endpoint.out_mut(id).map(|out| out.message)
        });
        let Some(number) = number else { return };
        self.registry.messages[number].written = self.now;
        if !there || end {
            return;
        }
        let left = self.registry.messages[number].length - available;
        let more = (self.below(64_000) as u32 + 1).min(left);
        let pause = self.below(3) * self.below(200_000);
        let end = more == left;
        let held = self.registry.messages[number].held;
        self.at(
            (self.now + pause).max(held),
            Event::Write(host, id, available + more, end),
        );
    }

    pub(super) fn read(&mut self, host: usize, id: InId, contiguous: u32) {
        let window = contiguous.saturating_add(self.hosts[host].window);
        self.with(host, |endpoint, io, now, _| {
            if let Some(message) = endpoint.in_mut(id) {
                message.window = message.window.max(window);
                endpoint.window(Nanos(now), id, window, io);
            }
        });
    }

    pub(crate) fn endpoint(&self, host: usize) -> &Endpoint<Std, Out, host::In> {
        &self.hosts[host].endpoint
    }

    pub(crate) fn set_window(&mut self, host: usize, window: u32, read_delay: u64) {
        (self.hosts[host].window, self.hosts[host].read_delay) = (window, read_delay);
    }

    pub(crate) fn set_no_memory(&mut self, host: usize, one_in: u64) {
        self.hosts[host].no_memory = one_in;
    }

    pub(crate) fn set_port(&mut self, host: usize, port: u16, policy: Policy) {
        self.hosts[host].ports.insert(port, policy);
    }

    pub(crate) fn clear_ports(&mut self, host: usize) {
        self.hosts[host].ports.clear();
    }

    /// Another configuration of a port, but for its link.
    pub(crate) fn configure_node(&mut self, node: usize, config: PortConfig) {
        let it = &mut self.nodes[node];
        let config = PortConfig {
            link: Some(it.link.rate),
            ..config
        };
        let resolved = config.validate(None).unwrap();
        let mut dropped = Dropped::default();
        it.port
            .change(&config, &resolved, Nanos(self.now), &mut dropped);
        self.lose(dropped);
    }

    /// The next switch pauses what a port sends, or ends that.
    pub(crate) fn pause(&mut self, node: usize, paused: bool) {
        let hold = match paused {
            true => Hold::Until(Nanos::MAX),
            false => Hold::Open,
        };
        let now = Nanos(self.now);
        self.nodes[node].port.hold((now, now), hold);
        self.kick(node);
    }

    /// A host's transport is configured anew.
    pub(crate) fn configure(&mut self, host: usize, config: &Resolved) {
        self.with(host, |endpoint, io, now, _| {
            endpoint.configure(Nanos(now), config, io)
        });
    }

    /// A link loses so many packets from now on, parts per million.
    pub(crate) fn set_loss(&mut self, node: usize, loss: u64) {
        self.nodes[node].link.loss = loss;
    }

    /// A link delays so many packets, parts per million, by up to `late` ns.
    pub(crate) fn set_reorder(&mut self, node: usize, reorder: u64, late: u64) {
        (self.nodes[node].link.reorder, self.nodes[node].link.late) = (reorder, late);
    }

    /// A link has another delay from now on, ns.
    pub(crate) fn set_delay(&mut self, node: usize, delay: u64) {
        self.nodes[node].link.delay = delay;
    }

    /// A node's link is so long from now on, ns.
    pub(crate) fn move_away(&mut self, node: usize, delay: u64) {
        self.nodes[node].link.delay = delay;
    }

    /// A link carries so many bytes/s from now on.
    pub(crate) fn slow_down(&mut self, node: usize, rate: u64) {
        let it = &mut self.nodes[node];
        it.link.rate = rate;
        let config = PortConfig {
            link: Some(rate),
            ..*it.port.config()
        };
        let resolved = config.validate(None).unwrap();
        let mut dropped = Dropped::default();
        it.port
            .change(&config, &resolved, Nanos(self.now), &mut dropped);
        self.lose(dropped);
    }

    /// A link carries no longer IP packets from now on; 0: any.
    pub(crate) fn set_mtu(&mut self, node: usize, mtu: u32) {
        self.nodes[node].link.mtu = mtu;
    }

    /// A host's applications close their sockets.
    pub(crate) fn close(&mut self, host: usize) {
        let mut from = 0;
        while let Some((next, id)) = self.with(host, |endpoint, io, now, _| {
            let (next, id, ..) = endpoint.outgoing(Nanos(now), from)?;
            endpoint.orphan(Nanos(now), id, io);
            Some((next, id))
        }) {
            let _ = id;
            from = next;
        }
    }

    pub(crate) fn kill(&mut self, host: usize) {
        self.hosts[host].dead = true;
    }
}
