// SPDX-License-Identifier: GPL-2.0
//! The links that messages come in by, each with a [`Pacer`] of its own.
//!
//! Tokens call for data, and what they must not overfill is the link that the data arrives by. A
//! host with one pacer for all of its devices would pace tokens for a slow one far too fast, and
//! leave half of two equal ones unused. So each device has a link, with the tokens' share of its
//! own speed, and a message belongs to the link that its latest DATA came by (at first: its SYNC).
//!
//! Link 0, [`SHARED`], is for all devices that say no speed (loopback, tunnels), and for those
//! beyond [`LINKS`]. It is as fast as the host's fastest device.

use core::cmp::Ordering;

use super::below::Below;
use super::config::{Resolved, Speed};
use super::fan::{Came, Drew, Fan};
use super::heap::Places;
use super::host::{LinkInfo, Memory};
use super::jitter::{Due, Rng, NANO};
use super::line::{Line, Whose};
use super::pacer::Pacer;
use super::policy::Key;
use super::wakes::{Wakes, NEVER};
use crate::units::{Nanos, Rate};

/// How many links there are, with the shared one. Only calls that set them up look at all.
pub(crate) const LINKS: usize = 32;
/// The link of devices that have none of their own.
pub(crate) const SHARED: u32 = 0;

struct Link<M: Memory> {
    /// What the device said, bytes/s. Of the shared link: 0.
    device_rate: u64,
    speed: Speed,
    pacer: Pacer<M>,
    /// How many messages belong to it. Its place is not given away before these have left.
    members: u32,
    /// Until when what goes out by it and is paced by its senders takes all of its time.
    taken: Due,
    /// Who waits for that.
    line: Line<M>,
    /// How many packets of each message may be below, and how long they are in the mean.
    below: Below,
    length: u32,
    /// Packets that are paced here have numbers, which wrap: that of the next one, and the last one
    /// that is known to have left the host's own queues.
    next: u32,
    left: u32,
    /// The tokens that come by it for what goes out.
    fan: Fan,
}

impl<M: Memory> Link<M> {
    const NEW: Self = Self {
        device_rate: 0,
        speed: Speed::NONE,
        pacer: Pacer::NEW,
        members: 0,
        taken: Due::new(Nanos::ZERO),
        line: Line::NEW,
        below: Below::NEW,
        length: 0,
        next: 0,
        left: u32::MAX,
        fan: Fan::NEW,
    };
}

/// See the module's documentation. The links' numbers are below [`LINKS`]; of others nothing is
/// known, and calls do nothing.
pub(crate) struct Links<M: Memory> {
    all: [Link<M>; LINKS],
    /// By link: its device; 0: none.
    devices: [u32; LINKS],
    /// Devices that have a link, ascending, and the link; `bound` of them.
    by_device: [(u32, u32); LINKS],
    bound: usize,
    /// When each pacer next has something to do.
    wakes: Wakes,
    /// When each link has time for the next of what waits for it.
    sends: Wakes,
    /// Links from this one on were never used.
    used: usize,
    places: Places<M>,
    /// The same of messages that go out and are paced here.
    out_places: Places<M>,
}

impl<M: Memory> Links<M> {
    /// Links that have to be [started](Self::start).
    pub(crate) const NEW: Self = Self {
        all: [const { Link::NEW }; LINKS],
        devices: [0; LINKS],
        by_device: [(0, SHARED); LINKS],
        bound: 0,
        wakes: Wakes::NEW,
        sends: Wakes::NEW,
        used: 0,
        places: Places::new(),
        out_places: Places::new(),
    };

    /// Starts the shared link.
    pub(crate) fn start(&mut self, config: &Resolved, now: Nanos) {
        self.begin(SHARED as usize, 0, config, now);
    }

    fn begin(&mut self, link: usize, device_rate: u64, config: &Resolved, now: Nanos) {
        let Some(it) = self.all.get_mut(link) else {
            return;
        };
        it.device_rate = device_rate;
        it.speed = config.speed_of(device_rate);
        it.pacer.start(&it.speed, now);
        self.used = self.used.max(link.saturating_add(1));
        self.wakes.cover(self.used);
        self.sends.cover(self.used);
    }

    /// Changes all links' speeds to what the configuration says from now on.
    pub(crate) fn configure(&mut self, config: &Resolved, now: Nanos) {
        for link in 0..self.used {
            if let Some(it) = self.all.get_mut(link) {
                let speed = config.speed_of(it.device_rate);
                if speed != it.speed {
                    it.taken = Due::new(now);
                }
                it.speed = speed;
                it.pacer.set_speed(&it.speed, now);
            }
            self.woken(link as u32);
            self.freed(link as u32);
        }
    }

    /// The device's own link, if it has one.
    #[inline]
    pub(crate) fn own(&self, device: u32) -> Option<u32> {
        let (mut from, mut to) = (0_usize, self.bound);
        while from < to {
            step!();
            let middle = from.saturating_add(to) / 2;
            let &(other, link) = self.by_device.get(middle)?;
            match other.cmp(&device) {
                Ordering::Equal => return Some(link),
                Ordering::Less => from = middle.saturating_add(1),
                Ordering::Greater => to = middle,
            }
        }
        None
    }

    /// Lists a device that is not listed, in its place.
    fn list(&mut self, device: u32, link: u32) {
        let mut at = self.bound;
        while let Some(&before) = self.by_device.get(at.wrapping_sub(1)) {
            step!();
            if before.0 < device {
                break;
            }
            if let Some(place) = self.by_device.get_mut(at) {
                *place = before;
            }
            at = at.saturating_sub(1);
        }
        if let Some(place) = self.by_device.get_mut(at) {
            *place = (device, link);
            self.bound = self.bound.saturating_add(1);
        }
    }

    /// A link has no device any more.
    fn unlist(&mut self, link: u32) {
        let mut kept = 0_usize;
        // Not with `position` and its like, here and below: their counters may overflow.
        for at in 0..self.bound {
            step!();
            match (
                self.by_device.get(at).copied(),
                self.by_device.get_mut(kept),
            ) {
                (Some(it), Some(place)) if it.1 != link => *place = it,
                _ => continue,
            }
            kept = kept.saturating_add(1);
        }
        self.bound = kept;
    }

    /// The link for what comes by the device.
    #[inline]
    pub(crate) fn of(&self, device: u32) -> u32 {
        self.own(device).unwrap_or(SHARED)
    }

    /// The device has this speed, bytes/s, from now on; it gets a link of its own, if there is
    /// one that no message belongs to.
    pub(crate) fn set(&mut self, config: &Resolved, now: Nanos, device: u32, rate: u64) {
        if device == 0 || rate == 0 {
            return;
        }
        if let Some(link) = self.own(device) {
            let Some(it) = self.all.get_mut(link as usize) else {
                return;
            };
            it.device_rate = rate;
            let speed = config.speed_of(rate);
            if speed != it.speed {
                it.speed = speed;
                // What others wait for was reckoned with the old one.
                it.taken = Due::new(now);
                it.pacer.set_speed(&speed, now);
                self.woken(link);
                self.freed(link);
            }
            return;
        }
        // One that has no device is better than one whose device may send again.
        let free = |link: &usize| {
            step!();
            self.all.get(*link).is_some_and(|it| it.members == 0)
        };
        let own = (SHARED as usize).saturating_add(1)..LINKS;
        let unbound = |link: &usize| free(link) && self.devices.get(*link) == Some(&0);
        let Some(link) = own.clone().find(unbound).or_else(|| own.clone().find(free)) else {
            return;
        };
        if let Some(it) = self.devices.get_mut(link) {
            *it = device;
        }
        self.unlist(link as u32);
        self.list(device, link as u32);
        self.begin(link, rate, config, now);
    }

    /// The device is gone. Messages that belong to its link stay there until data for them comes by
    /// another device, or they end.
    pub(crate) fn gone(&mut self, device: u32) {
        let Some(link) = self.own(device) else {
            return;
        };
        if let Some(it) = self.devices.get_mut(link as usize) {
            *it = 0;
        }
        self.unlist(link);
    }

    /// A token came by the link, and drew data of a message that goes out. `drew`: when that had
    /// its last ones.
    pub(crate) fn drew(
        &mut self,
        link: u32,
        now: Nanos,
        config: &Resolved,
        came: &Came,
        drew: &mut Drew,
    ) {
        if let Some(it) = self.all.get_mut(link as usize) {
            it.fan.came(now, config, &it.speed, came, drew.by(link));
        }
    }

    /// What DATA of a long message that answers a token that came by the link is to say of what is
    /// written behind it ([`Fan::more`]).
    pub(crate) fn says(&mut self, link: u32, priority: u8, rtt: Nanos, rng: &mut Rng) -> u8 {
        let it = self.all.get_mut(link as usize);
        it.map_or(0, |it| it.fan.more(rng, priority, rtt))
    }

    /// The speed of a link.
    #[inline]
    pub(crate) fn speed(&self, link: u32) -> &Speed {
        match self.all.get(link as usize) {
            Some(link) => &link.speed,
            None => &Speed::NONE,
        }
    }

    /// The first link from `from` on that has a device or messages, or is the shared one; and the
    /// number to continue from.
    pub(crate) fn info(&self, from: u32) -> Option<(u32, LinkInfo)> {
        for at in from as usize..self.used {
            let (link, device) = (self.all.get(at)?, *self.devices.get(at)?);
            if at != SHARED as usize && device == 0 && link.members == 0 {
                continue;
            }
            let info = LinkInfo {
                device,
                rate: link.speed.link,
                token_rate: link.speed.token_rate.bytes_per_sec(),
                incoming: link.members,
            };
            return Some(((at as u32).saturating_add(1), info));
        }
        None
    }

    /// Makes room for messages up to this index, on whichever link that is in use, with no more
    /// than so many `chunks`. `false`: it needs more, or there is no memory.
    pub(crate) fn prepare(&mut self, index: u32, chunks: &mut u32) -> bool {
        let mut used = self.all.iter_mut().take(self.used);
        self.places.reserve_some(index, chunks)
            && used.all(|link| link.pacer.reserve_some(index, chunks))
    }

    /// Gives back some of the room beyond `keep` messages.
    pub(crate) fn shrink(&mut self, keep: u32) {
        self.places.shrink(keep);
        for link in self.all.iter_mut().take(self.used) {
            link.pacer.shrink(link.members);
        }
    }

    /// The same for `outs` messages that go out.
    pub(crate) fn shrink_outs(&mut self, outs: u32) {
        self.out_places.shrink(outs);
        for link in self.all.iter_mut().take(self.used) {
            link.line.shrink();
        }
    }

    /// Gives back some of the room beyond `keep` peers.
    pub(crate) fn shrink_peers(&mut self, keep: u32) {
        for link in self.all.iter_mut().take(self.used) {
            link.line.shrink_peers(keep);
        }
    }

    /// Makes room for another message with this index, in this link. `false` if there is no memory.
    pub(crate) fn reserve(&mut self, link: u32, index: u32) -> bool {
        let all = &mut self.all;
        let room = |it: &mut Link<M>| it.pacer.reserve(it.members);
        self.places.reserve(index) && all.get_mut(link as usize).is_some_and(room)
    }

    /// A message for which there is room belongs to the link.
    pub(crate) fn join(&mut self, link: u32) {
        if let Some(it) = self.all.get_mut(link as usize) {
            it.members = it.members.saturating_add(1);
        }
    }

    /// A message leaves its link, and wants no token there.
    pub(crate) fn leave(&mut self, link: u32, index: u32) {
        self.drop(link, index);
        if let Some(it) = self.all.get_mut(link as usize) {
            it.members = it.members.saturating_sub(1);
        }
    }

    /// A link whose pacer has something to do now: the one that waits longest.
    #[inline]
    pub(crate) fn due(&self, now: Nanos) -> Option<u32> {
        let (at, link) = self.wakes.first();
        (at <= now && at != NEVER).then_some(link)
    }

    /// When any pacer next has something to do.
    #[inline]
    pub(crate) fn next(&self) -> Option<Nanos> {
        let (at, _) = self.wakes.first();
        (at != NEVER).then_some(at)
    }

    #[inline]
    fn woken(&mut self, link: u32) {
        let next = self.all.get(link as usize).and_then(|it| it.pacer.next());
        self.wakes.set(link, next.unwrap_or(NEVER));
    }

    /// Calls the link's pacer, and notes when it next has something to do.
    #[inline]
    fn with(&mut self, link: u32, call: impl FnOnce(&mut Pacer<M>, &mut Places<M>)) {
        if let Some(it) = self.all.get_mut(link as usize) {
            call(&mut it.pacer, &mut self.places);
            self.woken(link);
        }
    }

    fn pacer(&self, link: u32) -> Option<&Pacer<M>> {
        Some(&self.all.get(link as usize)?.pacer)
    }

    /// Makes room for a message with this index, to this peer, that goes out by the link and is
    /// paced here. `false`: no memory.
    pub(crate) fn reserve_out(&mut self, link: u32, index: u32, peer: u32) -> bool {
        let all = &mut self.all;
        let line = all.get_mut(link as usize).map(|it| &mut it.line);
        self.out_places.reserve(index) && line.is_some_and(|line| line.reserve(peer))
    }

    /// A message for which there is room goes out by the link.
    pub(crate) fn join_out(&mut self, link: u32) {
        if let Some(it) = self.all.get_mut(link as usize) {
            it.line.senders = it.line.senders.saturating_add(1);
        }
    }

    /// A message goes out by the link no more, and does not wait for it, with a packet of so many
    /// bytes.
    pub(crate) fn leave_out(&mut self, link: u32, whose: (u32, u32), wire_len: u32) {
        if let Some(line) = self.all.get_mut(link as usize).map(|it| &mut it.line) {
            line.senders = line.senders.saturating_sub(1);
            line.leave(&mut self.out_places, whose, wire_len);
        }
        self.freed(link);
    }

    /// When the link next has time for one that waits for it.
    fn freed(&mut self, link: u32) {
        let all = &self.all;
        let it = all.get(link as usize).filter(|it| !it.line.is_empty());
        self.sends.set(link, it.map_or(NEVER, |it| it.taken.at()));
    }

    /// Whether a packet of so many bytes on the wire, of a message that is paced here, may go out
    /// now: the link has time, and nobody waits. Otherwise the message waits for its turn.
    #[inline]
    pub(crate) fn may_go_out(
        &mut self,
        link: u32,
        now: Nanos,
        whose: Whose,
        wire_len: u32,
    ) -> bool {
        let Some(it) = self.all.get_mut(link as usize) else {
            return true;
        };
        if it.line.is_empty() && it.taken.at() <= now {
            it.line.pass(whose.peer, wire_len);
            self.occupy(link, now, wire_len);
            return true;
        }
        it.line.wait(&mut self.out_places, whose, wire_len);
        self.freed(link);
        false
    }

    /// When a message that waits next has its turn.
    #[inline]
    pub(crate) fn next_turn(&self) -> Option<Nanos> {
        let (at, _) = self.sends.first();
        (at != NEVER).then_some(at)
    }

    /// A message that has its turn now, and waits no more: its index. `peer`: whose a message is.
    pub(crate) fn take_turn(
        &mut self,
        now: Nanos,
        peer: impl Fn(u32) -> Option<u32>,
    ) -> Option<u32> {
        let (at, link) = self.sends.first();
        if at > now || at == NEVER {
            return None;
        }
        let it = self.all.get_mut(link as usize)?;
        let index = it.line.take(&mut self.out_places, peer);
        self.freed(link);
        index
    }

    /// Such a packet of so many bytes on the wire has the link's next time. Up to the slack of the
    /// link's pacer is made up for if nothing had it, as timers are late.
    #[inline]
    pub(crate) fn occupy(&mut self, link: u32, now: Nanos, wire_len: u32) {
        const UNITS: u64 = Nanos::SECOND.0.wrapping_mul(NANO);
        let slack = self.slack(link);
        if let Some(it) = self.all.get_mut(link as usize) {
            // Below 2^22 x 2^40.
            let units = u64::from(wire_len.min(Rate::MAX_LEN)).wrapping_mul(UNITS);
            let time = units.checked_div(it.speed.link).unwrap_or(0);
            it.taken.advance(now, time, slack);
        }
        self.freed(link);
    }

    /// How many packets of each message that goes out by the link and is paced here may be below.
    #[inline]
    pub(crate) fn most_below(&mut self, link: u32, now: Nanos) -> u32 {
        let it = self.all.get_mut(link as usize);
        it.map_or(u32::MAX, |it| it.below.most(now))
    }

    /// One that had so many below, and waited, has heard only when all of them were gone.
    pub(crate) fn idled(&mut self, link: u32, now: Nanos, had: u32) {
        if let Some(it) = self.all.get_mut(link as usize) {
            it.below.idled(now, had);
        }
    }

    /// A packet of so many bytes goes out by the link that is paced here. Its number.
    #[inline]
    pub(crate) fn hand_over(&mut self, link: u32, wire_len: u32) -> u32 {
        let Some(it) = self.all.get_mut(link as usize) else {
            return 0;
        };
        let part = it.length / 16;
        it.length = it.length.saturating_sub(part).saturating_add(wire_len / 16);
        let number = it.next;
        it.next = number.wrapping_add(1);
        number
    }

    /// The number of the last packet that is known to have left.
    pub(crate) fn last_left(&self, link: u32) -> u32 {
        self.all.get(link as usize).map_or(0, |it| it.left)
    }

    /// The packet with this number has left.
    #[inline]
    pub(crate) fn has_left(&mut self, link: u32, number: u32) {
        if let Some(it) = self.all.get_mut(link as usize) {
            let after = number.wrapping_sub(it.left);
            if after <= u32::MAX / 2 {
                it.left = number;
            }
        }
    }

    /// The link may be later than was reckoned: there are packets in the host's own queues, so many
    /// of all messages ([`Host::below`]), and they have its next time.
    ///
    /// All but those that wait elsewhere, for a slow class or for the address of a next hop: they
    /// were handed over before others that have left.
    ///
    /// [`Host::below`]: super::host::Host::below
    pub(crate) fn is_late(&mut self, link: u32, now: Nanos, below: u32) {
        if let Some(it) = self.all.get_mut(link as usize) {
            let since = it.next.wrapping_sub(it.left).wrapping_sub(1);
            let packets = below.min(since);
            let until = now + it.speed.time_of(it.length.saturating_mul(packets));
            if it.taken.at() < until {
                it.taken = Due::new(until);
            }
        }
        self.freed(link);
    }

    // The rest are a pacer's own calls.

    pub(crate) fn slack(&self, link: u32) -> Nanos {
        self.pacer(link).map_or(Nanos::ZERO, Pacer::slack)
    }

    pub(crate) fn want(&mut self, link: u32, now: Nanos, index: u32, at: Nanos) {
        self.with(link, |pacer, places| pacer.want(places, now, index, at));
    }

    pub(crate) fn wait(&mut self, link: u32, index: u32, at: Nanos) {
        self.with(link, |pacer, places| pacer.wait(places, index, at));
    }

    pub(crate) fn hasten(&mut self, link: u32, index: u32, at: Nanos) {
        self.with(link, |pacer, places| pacer.hasten(places, index, at));
    }

    pub(crate) fn holds(&self, link: u32, index: u32) -> bool {
        self.pacer(link)
            .is_some_and(|pacer| pacer.holds(&self.places, index))
    }

    pub(crate) fn drop(&mut self, link: u32, index: u32) {
        self.with(link, |pacer, places| pacer.drop(places, index));
    }

    pub(crate) fn ready(&mut self, link: u32, index: u32, key: Key) {
        self.with(link, |pacer, places| pacer.ready(places, index, key));
    }

    pub(crate) fn due_message(&self, link: u32, now: Nanos) -> Option<u32> {
        self.pacer(link)?.due(now)
    }

    pub(crate) fn first(&self, link: u32, now: Nanos) -> Option<(Key, u32)> {
        self.pacer(link)?.first(now)
    }

    /// Packets of so many bytes came by the link, and so many of them, that no token had asked for.
    /// `rtt`: how long a token's packet takes to come.
    #[inline]
    pub(crate) fn spend(
        &mut self,
        link: u32,
        now: Nanos,
        (wire_len, packets): (u32, u32),
        rtt: Nanos,
    ) {
        if packets == 0 {
            return;
        }
        let each = self.speed(link).time_of(wire_len);
        // The pacer takes one after the other as it takes all of them.
        let time = Nanos(each.0.saturating_mul(packets.into()));
        self.with(link, |pacer, _| pacer.spend(now, time, rtt));
    }

    /// Data came by the link that no token had asked for, or is about to.
    #[inline]
    pub(crate) fn unasked(&mut self, link: u32, now: Nanos) {
        self.with(link, |pacer, _| pacer.unasked(now));
    }

    /// Data is missing of a message of the link's whose tokens stood for several.
    pub(crate) fn lost(&mut self, link: u32, now: Nanos) {
        self.with(link, |pacer, _| pacer.lost(now));
    }

    /// Whether no more than one message wants tokens for the link.
    pub(crate) fn is_alone(&self, link: u32) -> bool {
        self.pacer(link).is_none_or(|pacer| pacer.is_alone())
    }

    /// Whether all data that came by the link in `time` was asked for, and none was lost for long.
    pub(crate) fn is_quiet(&self, link: u32, now: Nanos, time: Nanos) -> bool {
        let it = self.all.get(link as usize);
        it.is_none_or(|it| it.pacer.is_quiet(now, time))
    }

    /// So many bytes of the link were not used that a token had asked for.
    #[inline]
    pub(crate) fn save(&mut self, link: u32, wire_len: u32) {
        if let Some(it) = self.all.get_mut(link as usize).filter(|_| wire_len != 0) {
            it.pacer.save(it.speed.time_of(wire_len));
        }
    }

    /// A token of `wire_len` bytes that stands for `worth` leaves by the link's pacer, and with a
    /// jitter of so many billionths.
    pub(crate) fn charge(
        &mut self,
        link: u32,
        now: Nanos,
        (wire_len, worth): (u32, u8),
        rng: &mut Rng,
        jitter: u32,
    ) {
        let time = self.speed(link).token_time;
        // Its time is that of its packet and of a token that comes by the same link. What comes is
        // counted for itself.
        self.save(link, wire_len.saturating_mul(worth.into()));
        self.with(link, |pacer, _| {
            pacer.charge(now, (wire_len, worth), time, rng, jitter);
        });
    }
}

#[cfg(test)]
mod tests;
