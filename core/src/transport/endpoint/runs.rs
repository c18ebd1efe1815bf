// SPDX-License-Identifier: GPL-2.0
//! A row of DATA that a token for several draws, or that came as one: the usual case of a long
//! message, in order, with nothing missing. All else is looked at packet by packet.

use super::pacing::TOKENS;
use super::receiving::MAX_RTT;
use super::sending::is_late;
use super::trains::Came;
use super::*;
use crate::header::{FLAG_SHORT, FLAG_UNASKED};
use crate::transport::config::{Policy, Unscheduled};
use crate::transport::wire::{Data, Run, Token, DATA_LEN};

impl<M: Memory, O, I> Endpoint<M, O, I> {
    /// Handles [a row of DATA](Run) that came as one, not sealed: what follows is what would if its
    /// packets had come one by one at the same time, and been
    /// [looked at together](Endpoint::begin_train). `Err`, and nothing has changed: they have to be
    /// handed over so.
    #[allow(clippy::too_many_arguments)] // facts of one row
    pub fn run<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        clock: u32,
        from: &Address,
        device: u32,
        run: &Run,
        payload: H::Whole,
        host: &mut H,
    ) -> Result<(), H::Whole> {
        let link = self.links.of(device);
        let at = At { now, clock, link };
        let data = &run.data;
        let index = match self.guards {
            0 => self.find_in(data.cookie, from),
            _ => None,
        };
        let Some(index) = index.filter(|&index| self.takes_run(at, index, run)) else {
            return Err(payload);
        };
        let id = self.in_id(index);
        let Some(message) = self.ins.get_mut(index) else {
            return Err(payload);
        };
        let user = &mut message.user;
        host.data_of_run(id, user, run, payload)?;
        self.count_run(at, from, run);
        self.credit_run(at.now, index, from, run);
        self.answer_run(at, index, run);
        let Some(message) = self.ins.get_mut(index) else {
            return Ok(());
        };
        let came = Came {
            contiguous: message.ranges.contiguous(),
            // Only of what its sender paces or grants are for.
            ecn: 0,
            notify: false,
        };
        // Behind the first packet more is expected, unless that was all that was announced.
        let second = data.offset.saturating_add(run.each);
        message.take(data.offset, second);
        if !data.asked() {
            let lag = self.peers.lag(at.now, message.peer);
            message.came_unasked(at.now, self.config.base_rtt, lag);
            if message.proven {
                self.links.unasked(at.link, at.now);
            }
        }
        message.take(second, data.end());
        message.said(data.end(), data.more);
        if message.bore_fruit() && self.config.policy == Policy::Top {
            let (link, at) = (message.link, message.next_token);
            if self.links.holds(link, index) {
                self.links.wait(link, index, at);
            }
        }
        let token = data.asked().then_some(data.token);
        message.gaps.came(at.now, &message.ranges, token);
        self.go_on(at, index, &came, host);
        self.pace(at, TOKENS, host);
        Ok(())
    }

    /// Answers a token for several with packets in a row, as far as that is all there is to it;
    /// returns how many of the tokens are done with. What is left has to be looked at one by one.
    pub(super) fn draw_run<H: Host<O, I>>(
        &mut self,
        at: At,
        index: u32,
        token: &Token,
        host: &mut H,
    ) -> u16 {
        let expiry = self.config.token_expiry;
        if token.grant.is_some() || expiry.is_some_and(|limit| is_late(at.clock, token, limit)) {
            return 0;
        }
        let Some(out) = self.outs.get(index) else {
            return 0;
        };
        let most = self.most_of(at.now, out.peer);
        let Some(out) = self.outs.get_mut(index) else {
            return 0;
        };
        if !out.are_new(token.sequence, token.worth) {
            return 0;
        }
        let Some((offset, len)) = out.next_run(at.now, most, token.worth) else {
            return 0;
        };
        let packets = out.packets_of(len);
        for number in 0..packets {
            let sequence = token.sequence.wrapping_add(number);
            out.accept(at.now, sequence, number == 0);
        }
        out.token_priority = token.priority;
        out.tokens = out.tokens.saturating_add(packets.into());
        self.stats.add(Counter::TokenValid, packets.into());
        self.send_run(at.now, index, (offset, len), Some(token), host);
        packets
    }

    /// Sends up to so many packets in a row of what the receiver allows without tokens; how many.
    /// What ports take for unscheduled is sent one by one.
    pub(super) fn burst_run<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        (most, packets): (u32, u32),
        host: &mut H,
    ) -> u32 {
        let Some(out) = self.outs.get_mut(index).filter(|out| out.allowed != 0) else {
            return 0;
        };
        let packets = packets.min(out.packets_of(out.burst).into());
        let packets = u8::try_from(packets).unwrap_or(u8::MAX);
        if packets < 2 {
            return 0;
        }
        let Some((offset, len)) = out.next_run(now, most, packets) else {
            return 0;
        };
        out.burst = out.burst.saturating_sub(len);
        let packets = out.packets_of(len).into();
        self.send_run(now, index, (offset, len), None, host);
        packets
    }

    /// Sends DATA in a row: these bytes, which answer the token and those behind it.
    fn send_run<H: Host<O, I>>(
        &mut self,
        now: Nanos,
        index: u32,
        (offset, len): (u32, u32),
        token: Option<&Token>,
        host: &mut H,
    ) {
        let Some(out) = self.outs.get_mut(index) else {
            return;
        };
        let packets = out.packets_of(len);
        out.packets = out.packets.saturating_add(packets.into());
        let sent = match token {
            Some(_) => Counter::DataSent,
            None => Counter::UnscheduledSent,
        };
        self.stats.add(sent, packets.into());
        self.stats.add(Counter::DataSentBytes, len.into());
        let auto = self.config.unscheduled == Unscheduled::Auto;
        let short = auto && out.is_short(self.config.unscheduled_buffer);
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let run = Run {
            data: Data {
                cookie: out.cookie,
                token: token.map_or(0, |token| token.sequence),
                timestamp: token.map_or(0, |token| token.timestamp),
                offset,
                len,
                flags: flag(token.is_none(), FLAG_UNASKED) | flag(short, FLAG_SHORT),
                more: out.more(now, offset.saturating_add(len)),
            },
            packets,
            each: out.mss.min(len),
        };
        host.transmit_run(&out.user, &out.to, &run);
    }

    /// Whether all that follows from each packet of a run is what is usual.
    fn takes_run(&self, at: At, index: u32, run: &Run) -> bool {
        let Some(message) = self.ins.get(index) else {
            return false;
        };
        let (data, limit) = (&run.data, message.limit());
        // Nothing is missing before it, and nothing behind it has come.
        let there = &message.ranges;
        let follows = there.end() == data.offset && there.contiguous() == data.offset;
        let usual = message.link == at.link && !message.ren && !message.paced && !message.sealed;
        let fits = run.each <= message.mss && data.end() <= limit && data.end() > message.worded();
        follows && usual && fits && message.may_take_run(run)
    }

    /// What counts packets, and the link's bytes.
    fn count_run(&mut self, at: At, from: &Address, run: &Run) {
        self.stats.add(
            match run.data.is_unasked() {
                true => Counter::UnscheduledReceived,
                false => Counter::DataReceived,
            },
            run.packets.into(),
        );
        self.stats
            .add(Counter::DataReceivedBytes, run.data.len.into());
        let last = run.packets.saturating_sub(1);
        let full = Packet::Data(Data {
            len: run.each,
            ..run.data
        });
        let unasked = unasked_len(from, &full);
        if unasked != 0 {
            let (base, packets) = (self.config.base_rtt, last.into());
            self.links.spend(at.link, at.now, (unasked, packets), base);
        } else if run.each.saturating_add(data_overhead(from)) < FRAME_WIRE_LEN {
            // Those that are as long as what a token asks for change nothing.
            for _ in 0..last {
                self.count_bytes(at, from, &full);
            }
        }
        let last = Packet::Data(Data {
            len: run.last(),
            ..run.data
        });
        self.count_bytes(at, from, &last);
    }

    /// What its sender's address may be sent for it.
    fn credit_run(&mut self, now: Nanos, index: u32, from: &Address, run: &Run) {
        let behind = u32::from(run.packets.saturating_sub(1));
        let each = run.each.saturating_add(DATA_LEN as u32);
        self.credit(now, index, from, each);
        let rest = run.data.len.saturating_sub(run.each);
        let heads = behind.saturating_mul(trust::ip_len(from).saturating_add(DATA_LEN as u32));
        self.credit_more(index, rest.saturating_add(heads));
    }

    /// The tokens that it answers, and that its sender is there.
    fn answer_run(&mut self, at: At, index: u32, run: &Run) {
        let (rto, base) = (self.config.rto, self.config.base_rtt);
        let Some(message) = self.ins.get_mut(index) else {
            return;
        };
        message.has_come(at.now, rto);
        if run.data.asked() {
            let rtt = message.took(at.clock, run);
            if rtt <= MAX_RTT {
                for _ in 0..run.packets {
                    message.measured(at.now, rtt, base);
                }
                let (whose, least) = (message.peer, message.least_rtt);
                if let Some(peer) = self.peers.all.get_mut(whose) {
                    peer.measured(at.now, least, rtt);
                }
                message.look_soon(at.now, base, self.peers.lag(at.now, whose));
            }
        }
        message.packets = message
            .packets
            .saturating_add(run.packets.saturating_sub(1).into());
        message.awake();
        self.give_turn_back(index);
    }
}
