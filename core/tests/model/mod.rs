// SPDX-License-Identifier: GPL-2.0
//! A straightforward model of the port: no bit tricks, no caches, 128-bit fractions.

use std::collections::{HashMap, VecDeque};

use turnstile_core::port::band::Band;
use turnstile_core::port::config::{Config, Expiry, Order, TokenDrop, Tokens};
use turnstile_core::port::{Dequeue, Enqueue};
use turnstile_core::queue::DropCause;
use turnstile_core::stats::{BandStats, PortStats};
use turnstile_core::units::Nanos;

use crate::common::{FakeChild, PerByte, P};

/// When the next packet may leave: at exactly `at / per.bytes` ns.
#[derive(Clone, Debug)]
struct Schedule {
    per: PerByte,
    at: u128,
    slack: u64,
    /// Of a packet's bytes those from 84 to 168 count at this rate, if there is one.
    beyond: Option<PerByte>,
}

impl Schedule {
    fn new(per: PerByte, slack: u64, now: u64) -> Self {
        Self {
            per,
            at: u128::from(now) * per.bytes,
            slack,
            beyond: None,
        }
    }

    fn next(&self) -> u64 {
        self.at.div_ceil(self.per.bytes) as u64
    }

    fn not_before(&mut self, time: u64) {
        if self.next() < time {
            self.at = u128::from(time) * self.per.bytes;
        }
    }

    /// The lateness beyond the slack.
    fn charge(&mut self, now: u64, len: u32, segs: u32) -> u64 {
        let least = now.saturating_sub(self.slack);
        let forfeited = least.saturating_sub(self.next());
        self.not_before(least);
        let mut len = u128::from(len);
        if let Some(beyond) = self.beyond {
            let segs = u128::from(segs);
            let longer = len.clamp(84 * segs, 168 * segs) - 84 * segs;
            len -= longer;
            self.at += (longer * beyond.ns * self.per.bytes).div_ceil(beyond.bytes);
        }
        self.at += len * self.per.ns;
        forfeited
    }

    fn change(&mut self, per: PerByte, slack: u64, now: u64, len: u64) {
        self.slack = slack;
        if per != self.per {
            let next = self.next().min(now + per.duration(len));
            self.per = per;
            self.at = u128::from(next) * per.bytes;
        }
    }
}

/// The values that follow from a configuration.
struct Rates {
    link: PerByte,
    tokens: PerByte,
    /// What signals may take, if that is bounded.
    signals: Option<PerByte>,
}

impl Rates {
    /// The lateness that the group makes up for.
    fn lag(&self, jitter: u64) -> u64 {
        let papers = self.tokens.duration(8 * 84);
        papers.max(self.link.duration(2 * 1538 + 84)) + jitter
    }

    /// `jitter`'s floors of the token limit and of the expiry.
    fn floors(&self, jitter: u64) -> (u64, u64) {
        if jitter == 0 {
            return (0, 0);
        }
        // Tokens of 84 bytes whose time is begun within the jitter, and a poll's 64. Without a rate
        // there are none: all leave at once.
        let due = u128::from(jitter) * self.tokens.bytes;
        let begun = due.checked_div(84 * self.tokens.ns).unwrap_or(0) + 1;
        let limit = (64 + begun).min(4096) as u64;
        (limit, self.tokens.duration(limit * 104) + self.lag(jitter))
    }
}

fn rates(config: &Config, device: u64) -> Rates {
    let link = config.link.unwrap_or(device);
    if link == 0 {
        // The link's speed is unknown, so no share can be taken of it.
        let tokens = match config.tokens {
            Tokens::Share(_) => PerByte::NONE,
            Tokens::Rate(rate) => PerByte::of_rate(rate),
        };
        return Rates {
            link: PerByte::NONE,
            tokens,
            signals: None,
        };
    }
    let tokens = match config.tokens {
        Tokens::Share(ppb) => PerByte::of_share(link, ppb),
        Tokens::Rate(rate) => PerByte::of_rate(rate.clamp(link.div_ceil(10_000), link / 2)),
    };
    Rates {
        link: PerByte::of_rate(link),
        tokens,
        signals: match config.signal_share {
            0 | 1_000_000_000 => None,
            ppb => Some(PerByte::of_share(link, ppb)),
        },
    }
}

/// What signals may take.
struct Signals {
    /// Of what was bought by the schedule, what was not used yet.
    credit: u64,
    bought: Schedule,
}

impl Signals {
    fn new(per: PerByte, now: u64) -> Self {
        Self {
            credit: 0,
            bought: Schedule::new(per, 0, now),
        }
    }

    fn change(&mut self, per: PerByte, jitter: u64, now: u64) {
        if per != self.bought.per {
            let most = per.duration(60 << 10) + jitter + per.duration(16 << 10);
            let next = self.bought.next().min(now + most);
            self.bought = Schedule::new(per, 0, next);
        }
    }

    fn take(&mut self, now: u64, len: u64, jitter: u64) -> bool {
        if self.credit < len {
            self.bought.not_before(now);
            let ahead = self.bought.next() - now;
            if ahead > self.bought.per.duration(60 << 10) + jitter {
                return false;
            }
            let more = len.max(4 << 10);
            self.bought.at += u128::from(more) * self.bought.per.ns;
            self.credit += more;
        }
        self.credit -= len;
        true
    }
}

/// Data that goes before other data.
#[derive(Default)]
struct Early {
    queue: VecDeque<P>,
    /// Bytes that went or may go before.
    ahead: u64,
    /// Bytes that have left the other data's queue, ever, and when that was looked at last.
    went: u64,
    seen: u64,
    /// By the last digits of a flow: how many of these will have left when those have that found no
    /// place here.
    turned: HashMap<u64, u64>,
}

/// What is known of a token queue.
#[derive(Clone)]
struct Recent {
    /// Whose tokens were queued last; of those that were dropped then, none.
    flows: VecDeque<Option<u64>>,
    /// How many came since.
    came: u64,
    /// Each token that comes is looked at.
    watched: bool,
    lent: u64,
    /// When the last one came that was looked at, and how many came close together.
    at: u64,
    row: u64,
    /// ns: of bursts, and for which none came, as far as not forgotten.
    bursts: u64,
    gap: u64,
}

impl Recent {
    fn note(&mut self, flow: u64) {
        self.flows.pop_front();
        self.flows.push_back(Some(flow));
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            flows: vec![None; 128].into(),
            came: 0,
            watched: false,
            lent: 0,
            at: 0,
            row: 0,
            bursts: 0,
            gap: 0,
        }
    }
}

pub(crate) struct Model {
    config: Config,
    /// The last speed that the device reported, bytes/s; 0: none.
    device: u64,
    queues: Vec<VecDeque<P>>,
    early: Early,
    recent: Vec<Recent>,
    link: Option<Schedule>,
    group: Schedule,
    /// `None`: no bound.
    signals: Option<Signals>,
    /// The last packet was data, and a token was due.
    passed: bool,
    idle: bool,
    pub(crate) child: FakeChild,
    pub(crate) stats: Vec<BandStats>,
    pub(crate) port_stats: PortStats,
    pub(crate) drops: Vec<(P, Band, DropCause)>,
}

fn bands() -> impl Iterator<Item = Band> {
    (0..Band::COUNT).filter_map(Band::from_index)
}

fn tokens() -> impl Iterator<Item = Band> {
    (0..8).map(Band::Token)
}

impl Model {
    pub(crate) fn new(config: &Config, device: u64, now: u64) -> Self {
        let rates = rates(config, device);
        let mut model = Self {
            config: *config,
            device,
            queues: vec![VecDeque::new(); Band::COUNT],
            early: Early::default(),
            recent: vec![Recent::default(); Band::COUNT],
            link: None,
            group: Schedule::new(rates.tokens, 0, now),
            signals: None,
            passed: false,
            idle: true,
            child: FakeChild::default(),
            stats: vec![BandStats::default(); Band::COUNT],
            port_stats: PortStats::default(),
            drops: Vec::new(),
        };
        model.set_rates(now);
        model
    }

    fn set_rates(&mut self, now: u64) {
        let rates = rates(&self.config, self.device);
        let lag = rates.lag(self.config.jitter.0);
        for recent in &mut self.recent {
            recent.watched = false;
            recent.lent = rates.floors(self.config.jitter.0).0;
        }
        self.group.change(rates.tokens, lag, now, 84);
        self.group.beyond = match self.config.tokens {
            Tokens::Share(_) => Some(rates.link),
            Tokens::Rate(_) => None,
        };
        self.signals = match (self.signals.take(), rates.signals) {
            (_, None) => None,
            (None, Some(per)) => Some(Signals::new(per, now)),
            (Some(mut signals), Some(per)) => {
                signals.change(per, self.config.jitter.0, now);
                Some(signals)
            }
        };
        let slack = rates.link.duration(8 * 1538).max(1_000_000);
        let slack = slack.max(self.config.jitter.0);
        if self.config.link.is_none() {
            self.link = None;
        } else if let Some(link) = &mut self.link {
            link.change(rates.link, slack, now, 1538);
        } else {
            self.link = Some(Schedule::new(rates.link, slack, now));
            self.idle = true;
        }
    }

    pub(crate) fn link_rate(&self) -> u64 {
        self.config.link.unwrap_or(self.device)
    }

    fn expiry(&self) -> u64 {
        let rates = rates(&self.config, self.device);
        let (_, least) = rates.floors(self.config.jitter.0);
        match self.config.token_expiry {
            Expiry::Auto if self.link_rate() == 0 => u64::MAX,
            Expiry::Auto => {
                let frames = rates.link.duration(8 * 1622);
                rates.tokens.duration(8 * 84).max(frames).max(least)
            }
            Expiry::Off => u64::MAX,
            Expiry::After(time) => time.0.max(least),
        }
    }

    fn queue(&mut self, band: Band) -> &mut VecDeque<P> {
        &mut self.queues[band.index()]
    }

    /// What a band holds.
    fn held(&self, band: Band) -> impl Iterator<Item = &P> {
        let early = self.early.queue.iter().filter(move |_| band == Band::Data);
        self.queues[band.index()].iter().chain(early)
    }

    pub(crate) fn packets(&self, band: Band) -> u64 {
        self.held(band).map(|p| u64::from(p.meta.segs)).sum()
    }

    pub(crate) fn bytes(&self, band: Band) -> u64 {
        self.held(band).map(|p| u64::from(p.meta.len)).sum()
    }

    /// Whether a band has room for so much.
    fn allowed(&self, band: Band, packets: u64, bytes: u64) -> bool {
        let config = &self.config;
        match band {
            Band::Signal => packets <= config.signal_limit.into(),
            Band::Token(p) if p < config.priorities => {
                let lent = self.recent[band.index()].lent;
                packets <= lent.max(config.token_limit.into())
            }
            Band::Data => bytes <= config.data_limit.into(),
            Band::Unscheduled => packets <= config.unscheduled.into(),
            Band::Token(_) => packets == 0,
        }
    }

    fn drop_head(&mut self, band: Band, cause: DropCause) {
        let packet = self.queue(band).pop_front().unwrap();
        if band == Band::Data {
            self.early.went += u64::from(packet.meta.len);
        }
        self.count_drop(&packet, band, cause);
        self.drops.push((packet, band, cause));
    }

    fn drop_early(&mut self, cause: DropCause) {
        let packet = self.early.queue.pop_front().unwrap();
        self.count_drop(&packet, Band::Data, cause);
        self.drops.push((packet, Band::Data, cause));
    }

    /// Whether so many bytes of a short message's data go before other data: no more than have gone
    /// of that meanwhile, and 64 KiB, and none while some of its flow are there.
    fn goes_early(&mut self, len: u64, flow: u64) -> bool {
        let other = &self.queues[Band::Data.index()];
        let queued: u64 = other.iter().map(|p| u64::from(p.meta.len)).sum();
        let held: u64 = self.early.queue.iter().map(|p| u64::from(p.meta.len)).sum();
        let waits = !self.queues[Band::Data.index()].is_empty();
        let early = &mut self.early;
        early.ahead = match waits {
            true => early.ahead.saturating_sub(early.went - early.seen),
            false => held,
        };
        early.seen = early.went;
        let turned = early.turned.entry(flow % 64).or_default();
        let behind = waits && *turned > early.went;
        let goes = early.ahead + len <= 65_536 && !behind;
        match goes {
            true => early.ahead += len,
            false => *turned = early.went + queued + len,
        }
        goes
    }

    fn count_drop(&mut self, packet: &P, band: Band, cause: DropCause) {
        let stats = &mut self.stats[band.index()];
        *match cause {
            DropCause::OverLimit | DropCause::Displaced => &mut stats.over_limit,
            DropCause::Expired => &mut stats.expired,
            DropCause::Trimmed => &mut stats.trimmed,
            DropCause::Purged => &mut stats.purged,
            DropCause::Stormed => &mut stats.stormed,
        } += u64::from(packet.meta.segs);
        stats.dropped_bytes += u64::from(packet.meta.len);
    }

    fn head_expired(&self, band: Band, now: u64) -> bool {
        let head = self.queues[band.index()].front();
        head.is_some_and(|p| now - p.meta.enqueued.0 > self.expiry())
    }

    /// Notes whose the tokens are that were queued since that was done last.
    fn look_at_flows(&mut self, band: Band) {
        let first: Vec<u64> = self.queue(band).iter().take(32).map(|p| p.flow).collect();
        let waiting = self.packets(band);
        let recent = &mut self.recent[band.index()];
        let fresh = match waiting {
            _ if recent.came == 0 => 0,
            ..=32 => recent.came as usize,
            _ => first.len(),
        };
        for flow in &first[first.len().saturating_sub(fresh)..] {
            recent.note(*flow);
        }
        recent.came = 0;
    }

    /// Drops the oldest packet, of the first 32, of the flow that has most of the last 128 that
    /// were queued, if that is more than the flow of the arriving one has; of flows that have as
    /// many, of the one whose is oldest.
    fn displace(&mut self, band: Band, arriving: u64) {
        self.look_at_flows(band);
        let first: Vec<u64> = self.queue(band).iter().take(32).map(|p| p.flow).collect();
        let mut oldest: Vec<(usize, u64)> = Vec::new();
        for (place, flow) in first.iter().enumerate() {
            if oldest.iter().all(|(_, known)| known != flow) {
                oldest.push((place, *flow));
            }
        }
        let flows = &mut self.recent[band.index()].flows;
        let count = |flow: u64| flows.iter().filter(|other| **other == Some(flow)).count();
        // The first of the greatest: the last one by reversed places.
        let most = oldest
            .iter()
            .rev()
            .max_by_key(|(_, flow)| count(*flow))
            .copied();
        // Where the arriving one's has as many as the greatest, others' are not more.
        if let Some((place, flow)) = most.filter(|(_, flow)| count(*flow) > count(arriving)) {
            assert_ne!(flow, arriving);
            let mut latest = flows.iter_mut().rev();
            let one = latest.find(|one| **one == Some(flow)).unwrap();
            *one = None;
            let packet = self.queue(band).remove(place).unwrap();
            self.count_drop(&packet, band, DropCause::Displaced);
            self.drops.push((packet, band, DropCause::Displaced));
        }
    }

    /// By how much the group is late.
    fn late(&self, now: u64) -> u64 {
        match self.no_tokens() {
            true => 0,
            false => now.saturating_sub(self.group.next()),
        }
    }

    /// A token comes: what is to be known of how they come.
    fn note_arrival(&mut self, now: u64, band: Band, more: u64) {
        let rates = rates(&self.config, self.device);
        let queued = self.packets(band);
        let late = self.late(now);
        let all = rates.tokens.duration(84 * queued);
        let interval = rates.tokens.duration(84);
        let limit = u64::from(self.config.token_limit);
        let most = rates.floors(self.config.jitter.0).0.max(limit);
        let most = rates.tokens.duration(84 * most);
        let head = self.queue(band).front().map(|head| head.meta.enqueued.0);
        let recent = &mut self.recent[band.index()];
        // Nobody looks while there is room.
        if !recent.watched && queued + more <= limit {
            return;
        }
        let elapsed = now - recent.at;
        recent.at = now;
        recent.gap = recent.gap.saturating_sub(elapsed / 2);
        recent.bursts = recent.bursts.saturating_sub(elapsed / 4);
        match head {
            _ if recent.watched => {
                recent.gap = recent.gap.max(elapsed);
                recent.row = if 4 * elapsed < interval {
                    recent.row + 1
                } else {
                    0
                };
                recent.bursts += match recent.row {
                    ..12 => 0,
                    12 => 12 * interval,
                    _ => interval,
                };
            }
            Some(head) => {
                let burst = 4 * (now - head) < all;
                recent.row = if burst { 12 } else { 0 };
                recent.bursts += if burst { all } else { 0 };
            }
            None => {}
        }
        recent.gap = recent.gap.min(most);
        recent.bursts = recent.bursts.min(most);
        if queued + more <= limit && all <= late {
            recent.watched = false;
        }
    }

    /// How many packets a token queue has room for, `more` than there are.
    fn lend(&mut self, now: u64, band: Band, more: u64) {
        let config = self.config;
        let rates = rates(&config, self.device);
        let queued = self.packets(band);
        let late = self.late(now);
        let limit = u64::from(config.token_limit);
        let most = rates.floors(config.jitter.0).0.max(limit);
        let recent = &mut self.recent[band.index()];
        if queued + more > limit {
            let row = if recent.row < 12 { recent.row } else { 0 };
            let time = recent.bursts + rates.tokens.duration(84 * row) + recent.gap + late;
            let due = u128::from(time) * rates.tokens.bytes / (84 * rates.tokens.ns).max(1);
            recent.lent = match rates.tokens.ns {
                0 => most,
                _ => (limit + due as u64).min(most).max(queued),
            };
            recent.watched = true;
        }
    }

    fn no_tokens(&self) -> bool {
        tokens().all(|band| self.packets(band) == 0)
    }

    fn nothing_queued(&self) -> bool {
        let own = self.queues.iter().all(VecDeque::is_empty);
        own && self.early.queue.is_empty() && self.child.packets.is_empty()
    }

    /// Is it within the share of signals?
    fn signal_passes(&mut self, now: u64, packet: &P) -> bool {
        let jitter = self.config.jitter.0;
        let passes = match &mut self.signals {
            None => true,
            Some(signals) => signals.take(now, packet.meta.wire_len.into(), jitter),
        };
        if !passes {
            self.port_stats.signal_excess += u64::from(packet.meta.segs);
        }
        passes
    }

    /// `early`: data of a short message.
    pub(crate) fn enqueue(&mut self, now: u64, band: Band, mut packet: P, early: bool) -> Enqueue {
        let excess = band == Band::Signal && !self.signal_passes(now, &packet);
        // As what no token asked for.
        let early = early || excess;
        let band = match band {
            Band::Unscheduled if self.config.unscheduled == 0 => Band::Data,
            Band::Token(p) => Band::Token(p.min(self.config.priorities - 1)),
            Band::Signal if excess => Band::Data,
            band => band,
        };
        let (segs, len) = (u64::from(packet.meta.segs), u64::from(packet.meta.len));
        let early = early && self.goes_early(len, packet.flow);
        self.stats[band.index()].offered_packets += segs;
        self.stats[band.index()].offered_bytes += len;
        let fits =
            |model: &Self| model.allowed(band, model.packets(band) + segs, model.bytes(band) + len);
        let token = matches!(band, Band::Token(_));
        if token {
            self.note_arrival(now, band, segs);
            self.lend(now, band, segs);
        }
        let counts = token && self.recent[band.index()].watched;
        if !fits(self) && matches!(band, Band::Token(_)) {
            while self.head_expired(band, now) {
                self.drop_head(band, DropCause::Expired);
            }
            self.lend(now, band, segs);
        }
        let fair = self.config.token_drop == TokenDrop::Fair;
        if !fits(self) && fair && segs == 1 && token {
            self.displace(band, packet.flow);
        }
        if fair && counts {
            self.look_at_flows(band);
        }
        if !fits(self) {
            self.count_drop(&packet, band, DropCause::OverLimit);
            self.drops.push((packet, band, DropCause::OverLimit));
            return Enqueue::Dropped;
        }
        if matches!(band, Band::Token(_)) && self.no_tokens() {
            self.group.not_before(now);
        }
        packet.meta.enqueued = Nanos(now);
        let recent = &mut self.recent[band.index()];
        match fair && counts {
            true => recent.note(packet.flow),
            false => recent.came += segs,
        }
        match early {
            true => self.early.queue.push_back(packet),
            false => self.queue(band).push_back(packet),
        }
        let (packets, bytes) = (self.packets(band), self.bytes(band));
        let stats = &mut self.stats[band.index()];
        stats.max_packets = stats.max_packets.max(packets);
        stats.max_bytes = stats.max_bytes.max(bytes);
        Enqueue::Queued
    }

    pub(crate) fn child_put(&mut self, packet: P, refused: bool) {
        let stats = &mut self.stats[Band::Data.index()];
        stats.offered_packets += u64::from(packet.meta.segs);
        stats.offered_bytes += u64::from(packet.meta.len);
        if refused {
            stats.refused += u64::from(packet.meta.segs);
        } else {
            self.child.packets.push_back(packet);
        }
    }

    pub(crate) fn dequeue(&mut self, now: u64) -> Dequeue<P> {
        let nothing_queued = self.nothing_queued();
        let only_tokens = self.child.packets.is_empty()
            && [Band::Signal, Band::Data, Band::Unscheduled]
                .iter()
                .all(|b| self.packets(*b) == 0);
        let due_since = if self.no_tokens() {
            now
        } else {
            now.min(self.group.next())
        };
        if let Some(link) = &mut self.link {
            if self.idle {
                link.not_before(due_since);
            }
            if link.next() > now {
                if nothing_queued {
                    self.idle = true;
                    return Dequeue::Empty;
                }
                self.idle = only_tokens && self.group.next() > link.next();
                if self.idle {
                    self.port_stats.token_waits += 1;
                    return Dequeue::Wait(Nanos(self.group.next()));
                }
                self.port_stats.link_waits += 1;
                return Dequeue::Wait(Nanos(link.next()));
            }
        }
        let due = self.group.next() <= now;
        let mut order = vec![Band::Signal];
        order.extend(tokens().filter(|_| due));
        if self.config.order == Order::DataFirst && !self.passed {
            order.insert(1, Band::Data);
        } else {
            order.push(Band::Data);
        }
        order.push(Band::Unscheduled);
        for band in order {
            if let Some(packet) = self.take(band, now) {
                match band {
                    Band::Token(_) => {
                        self.passed &= self.group.next() <= now && !self.no_tokens();
                    }
                    Band::Data => self.passed = due && !self.no_tokens(),
                    _ => {}
                }
                if let Some(link) = &mut self.link {
                    link.charge(now, packet.meta.wire_len, packet.meta.segs);
                }
                self.idle = self.nothing_queued();
                return Dequeue::Packet(packet, band);
            }
        }
        self.idle = true;
        if self.no_tokens() {
            return Dequeue::Empty;
        }
        self.port_stats.token_waits += 1;
        Dequeue::Wait(Nanos(self.group.next()))
    }

    /// The packet of this band that leaves now.
    fn take(&mut self, band: Band, now: u64) -> Option<P> {
        if matches!(band, Band::Token(_)) {
            while self.head_expired(band, now) {
                self.drop_head(band, DropCause::Expired);
            }
        }
        let early = match band {
            Band::Data => self.early.queue.pop_front(),
            _ => None,
        };
        let own = early.or_else(|| {
            let packet = self.queue(band).pop_front();
            if let (Band::Data, Some(packet)) = (band, &packet) {
                self.early.went += u64::from(packet.meta.len);
            }
            packet
        });
        let is_own = own.is_some();
        let packet = match own {
            None if band == Band::Data && !self.child.throttled => self.child.packets.pop_front(),
            own => own,
        }?;
        let stats = &mut self.stats[band.index()];
        stats.sent_packets += u64::from(packet.meta.segs);
        stats.sent_bytes += u64::from(packet.meta.len);
        if is_own {
            let waited = now - packet.meta.enqueued.0;
            stats.sojourn_total += waited;
            stats.sojourn_count += 1;
            stats.sojourn_max = stats.sojourn_max.max(waited);
        }
        if matches!(band, Band::Token(_)) {
            let mut forfeited = self
                .group
                .charge(now, packet.meta.wire_len, packet.meta.segs);
            if self.group.per == PerByte::NONE {
                forfeited = 0;
            }
            self.port_stats.slack_forfeits += u64::from(forfeited != 0);
            self.port_stats.slack_forfeited += forfeited;
        }
        Some(packet)
    }

    pub(crate) fn change(&mut self, config: &Config, now: u64) {
        self.config = *config;
        self.set_rates(now);
        for band in bands() {
            while !self.allowed(band, self.packets(band), self.bytes(band))
                && !self.queue(band).is_empty()
            {
                self.drop_head(band, DropCause::Trimmed);
            }
        }
        while !self.allowed(Band::Data, 0, self.bytes(Band::Data)) {
            self.drop_early(DropCause::Trimmed);
        }
    }

    pub(crate) fn note_link_speed(&mut self, now: u64, speed: u64) {
        if speed != 0 {
            self.device = speed;
            self.set_rates(now);
        }
    }

    pub(crate) fn reset(&mut self) {
        for band in bands() {
            while !self.queue(band).is_empty() {
                self.drop_head(band, DropCause::Purged);
            }
        }
        while !self.early.queue.is_empty() {
            self.drop_early(DropCause::Purged);
        }
        self.idle = true;
        self.passed = false;
        self.group.at = 0;
        if let Some(signals) = &mut self.signals {
            *signals = Signals::new(signals.bought.per, 0);
        }
        if let Some(link) = &mut self.link {
            link.at = 0;
        }
    }

    /// The expected counters of a band.
    pub(crate) fn stats(&self, band: Band) -> BandStats {
        let (queued_packets, queued_bytes) = (self.packets(band), self.bytes(band));
        BandStats {
            queued_packets,
            queued_bytes,
            ..self.stats[band.index()]
        }
    }
}
