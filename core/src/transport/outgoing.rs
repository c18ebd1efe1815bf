// SPDX-License-Identifier: GPL-2.0
//! An outgoing message: what to send next, and when its receiver has been silent for too long.
//!
//! Once its SYNC is answered the sender is passive: each valid token draws one packet. It keeps two
//! sets of bytes: those that a RESEND named, which go first, and those retransmitted lately, which
//! are not sent once more within a round trip (TOP section 4.4).

use core::num::NonZeroU32;

use super::again::Again;
use super::endpoint::{shorter, WITH_SYNC};
use super::fan::Drew;
use super::host::{Address, Direction, Info, Outgoing, Unreachable};
use super::incoming::ACK_PACKETS;
use super::links::SHARED;
use super::ranges::Ranges;
use super::seal::SEAL_LEN;
use super::seen::Seen;
use super::shares::Shared;
use super::wire::{Cookie, Span, Sync, MAX_LENGTH, MAX_PATIENCE as MOST_PATIENCE, PATIENCE_UNIT};
use crate::units::Nanos;

/// The part of a message that goes into the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// It was sent before.
    pub(crate) again: bool,
}

/// Why a valid token sends nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// The application has not written more.
    Unwritten,
    /// The peer's window is full.
    Window,
    /// All has been sent, and no loss has been named.
    Sent,
}

/// An outgoing message. `O` is the user's data for it.
pub(crate) struct Out<O> {
    pub(crate) user: O,
    pub(crate) cookie: Cookie,
    pub(crate) number: u64,
    /// Its index in the table of peers.
    pub(crate) peer: u32,
    /// Where it counts among the messages that go out.
    pub(crate) shared: Shared,
    pub(crate) to: Address,
    source: u16,
    destination: u16,
    /// The length, once it is known.
    pub(crate) length: Option<u32>,
    /// The SYNC told the length.
    told: bool,
    /// Bytes below this are written.
    pub(crate) available: u32,
    /// Bytes below this were sent.
    pub(crate) sent: u32,
    /// Before it began again, bytes below this were.
    sent_before: u32,
    /// Bytes below this were acknowledged.
    pub(crate) received: u32,
    /// The peer's window: it wants bytes below this.
    pub(crate) window: u32,
    pub(crate) mss: u32,
    deadline: Option<Nanos>,
    coflow: u32,
    priority: Option<u8>,
    /// Its socket was closed: nobody is told how it ends.
    pub(crate) orphan: bool,
    /// Its part in its peer's sum.
    pub(crate) unacknowledged: u32,
    /// Unscheduled bytes, as the SYNC announces them.
    pub(crate) unscheduled: u32,
    /// Unscheduled bytes that are not sent yet.
    pub(crate) burst: u32,
    /// Bytes on the wire that count among what its peer allows without tokens, until so much of it
    /// has come.
    pub(crate) allowed: u32,
    /// Clocked by grants.
    pub(crate) ren: bool,
    /// Paced here, by a law: see `endpoint/rates.rs`.
    pub(crate) paced: bool,
    /// REN, or paced: the link that grants or ACKs come by, and bytes that it carries in a round
    /// trip.
    pub(crate) link: u32,
    pub(crate) line: u32,
    named: Ranges<16>,
    resent: Ranges<16>,
    resent_since: Nanos,
    /// How much may be sent again.
    again: Again,
    seen: Seen,
    /// When the peer last had more of the message, or wanted more.
    progress: Nanos,
    /// How often the first bytes that are missing were sent again since, and since when; and how
    /// many bytes the last time.
    tries: u32,
    /// Of one that is paced: how often its last packet was sent again since more came.
    silent: u8,
    /// How many ACKs in a row have said that so much has come, which is less than others did
    /// before, and since when.
    behind: u8,
    behind_at: u32,
    behind_since: Nanos,
    tried_since: Nanos,
    tried: u32,
    /// The shortest packets that these were sent in vain with, as was found out.
    vain: u32,
    /// What routers said of the peer, since it was last heard of.
    pub(crate) soft: Option<Unreachable>,
    /// What the last CHALLENGE said, or else the peer's last ticket.
    pub(crate) echo: u64,
    /// It need not be shown once more before.
    shown_until: Nanos,
    shown_for: Nanos,
    /// How long the peer may be silent, as its SYNC has told it. The option may be changed later.
    timeout: Nanos,
    /// The peer knows the message, as its answer says.
    pub(crate) open: bool,
    /// The peer has answered anything, if only that it does not know the message, or wants a proof.
    pub(crate) answered: bool,
    /// A token came when no data was written.
    pub(crate) starved: bool,
    /// When the peer was last told how much is written, and up to where that was.
    told_at: Nanos,
    told_to: u32,
    /// So many tokens in a row did.
    idle: u32,
    /// The last question was not answered.
    unanswered: bool,
    /// Its packets are sealed.
    pub(crate) sealed: bool,
    began: Nanos,
    heard: Nanos,
    /// When a SYNC, probe or FIN was last sent, except those that answer a token for which there
    /// was no data.
    asked: Nanos,
    /// When data was last sent.
    spoke: Nanos,
    /// After this silence it probes again.
    patience: Nanos,
    /// How often it probed before the peer answered.
    syncs: u32,
    /// When a token for which there was no data was last answered by a signal.
    complained: Option<Nanos>,
    rtt: Option<Nanos>,
    pub(crate) token_priority: u8,
    /// When its last tokens came, and what DATA that answers the last one says at most of what is
    /// written behind it; 0: all of that (`fan.rs`).
    pub(crate) drew: Drew,
    pub(crate) says: u8,
    /// The peer was last told of fewer packets than were written: it hears of more with each.
    withheld: bool,
    pub(crate) tokens: u64,
    pub(crate) tokens_invalid: u64,
    pub(crate) packets: u64,
    pub(crate) repeated: u64,
}

/// A SYNC that has its data with it is sent so often; then, without.
const FIRST_TRIES: u32 = 4;
/// The longest time between two SYNCs or probes.
const MAX_PATIENCE: Nanos = Nanos::SECOND;
/// After so many tokens in a row that found nothing written, the receiver is told that there is
/// nothing. An application that writes piece by piece is given no fewer: the receiver of a message
/// of which nothing comes pauses about then (`SILENT_TOKENS`).
const IDLE_TOKENS: u32 = 32;
/// While more and more is written, and nothing can be sent, the peer is told of it so often in a
/// round trip.
const TOLD_PART: u64 = 8;
/// Packets: a message that is shorter is not held back (`fan.rs`).
const LONG: u32 = 255;
/// In each `timeout` a peer is asked at least so often: otherwise one that is there, but has
/// nothing to say, would be given up.
const ASKED_IN_TIMEOUT: u64 = 8;

/// The first missing bytes were sent again so often, and at least for so many times `rto`, before
/// packets of that length count as too long for the path. Where one packet of five is lost, that is
/// one loss in fifteen thousand; a mistake costs no more than short packets for a while.
const TRIES: u32 = 6;
const TRIES_RTO: u64 = 10;
/// After so many ACKs in a row that say the same, and less than one before them, and so long, the
/// receiver has restarted. What overtook them is never as much later, or others come between them.
const BEHIND: u8 = 8;
const BEHIND_FOR: Nanos = Nanos(500_000_000);
/// A message that is open to its peer fails when nothing more of it has come for so many times
/// `timeout`. It may have to wait for its turn at a busy receiver.
pub(crate) const STALLED_TIMEOUTS: u64 = 30;
/// One whose socket is closed fails after so many, also if the peer wants no more of it.
pub(crate) const ORPHAN_TIMEOUTS: u64 = 6;

/// What to do when a message's timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Nothing before this time.
    Later(Nanos),
    /// Probe the peer, with [`Out::sync`] or a FIN; the timer fires again at this time.
    Ask(Nanos),
    /// The peer was silent for too long.
    Dead,
}

impl<O> Out<O> {
    #[allow(clippy::too_many_arguments)] // each is needed once, here
    pub(crate) fn new(
        user: O,
        cookie: Cookie,
        number: u64,
        peer: u32,
        to: &Address,
        what: &Outgoing,
        now: Nanos,
        rto: Nanos,
        timeout: Nanos,
    ) -> Self {
        Self {
            user,
            cookie,
            number,
            peer,
            shared: Shared::NOWHERE,
            to: *to,
            source: what.source,
            destination: what.destination,
            length: what.length,
            told: what.length.is_some(),
            available: what.available,
            sent: 0,
            sent_before: 0,
            received: 0,
            window: MAX_LENGTH,
            mss: u32::from(what.mss),
            deadline: what.deadline.map(|time| now + time),
            coflow: what.coflow,
            priority: what.priority,
            orphan: false,
            unacknowledged: 0,
            unscheduled: 0,
            burst: 0,
            allowed: 0,
            ren: false,
            paced: false,
            link: SHARED,
            line: 0,
            named: Ranges::new(),
            resent: Ranges::new(),
            resent_since: Nanos::ZERO,
            again: Again::new(rto),
            seen: Seen::new(),
            progress: now,
            tries: 0,
            silent: 0,
            behind: 0,
            behind_at: 0,
            behind_since: now,
            tried_since: now,
            tried: 0,
            vain: u32::MAX,
            soft: None,
            echo: 0,
            shown_until: Nanos::ZERO,
            shown_for: Nanos::ZERO,
            timeout,
            open: false,
            answered: false,
            starved: false,
            told_at: now,
            told_to: 0,
            idle: 0,
            unanswered: false,
            sealed: false,
            began: now,
            heard: now,
            asked: now,
            spoke: now,
            patience: rto,
            syncs: 0,
            complained: None,
            rtt: None,
            token_priority: what.priority.unwrap_or(0),
            drew: Drew::NEVER,
            says: 0,
            withheld: false,
            tokens: 0,
            tokens_invalid: 0,
            packets: 0,
            repeated: 0,
        }
    }

    /// The SYNC to send now; a probe, once the peer has answered.
    pub(crate) fn sync(&mut self, now: Nanos) -> Sync {
        self.asked = now;
        self.syncs = self.syncs.saturating_add(1);
        // At least 1: 0 is no deadline.
        let deadline = self.deadline.map_or(0, |at| ((at - now).0 / 1000).max(1));
        Sync {
            cookie: self.cookie,
            source: self.source,
            destination: self.destination,
            length: if self.told { self.length } else { None },
            deadline: u32::try_from(deadline).unwrap_or(u32::MAX),
            coflow: self.coflow,
            unscheduled: self.unscheduled,
            mss: u16::try_from(self.mss).unwrap_or(u16::MAX),
            patience: patience_of(self.timeout),
            echo: self.echo,
            priority: self.priority,
            probe: self.open,
            acked: self.received != 0,
            ren: self.ren,
            paced: self.paced,
        }
    }

    /// The receiver is told something that is to be followed by tokens.
    pub(crate) fn asked_at(&mut self, now: Nanos) {
        self.asked = now;
        (self.told_at, self.told_to) = (now, self.available);
    }

    /// The length to tell in a FIN.
    pub(crate) fn fin(&self) -> Option<u32> {
        if self.told {
            None
        } else {
            self.length
        }
    }

    /// More is written, or the end is known. `false` if that contradicts earlier values.
    pub(crate) fn written(&mut self, now: Nanos, available: u32, end: bool) -> bool {
        let most = self.length.unwrap_or(MAX_LENGTH);
        if available > most || available < self.available {
            return false;
        }
        if self.received == self.available && available > self.available {
            // Until now there was nothing that could have come.
            self.progress = now;
        }
        self.available = available;
        if end && self.length.is_none() {
            if available == 0 {
                return false;
            }
            self.length = Some(available);
        }
        true
    }

    /// The peer has sent something, so it is alive and knows of the message. `news`: it was more
    /// than an answer to a probe.
    pub(crate) fn heard(&mut self, now: Nanos, news: bool, rto: Nanos) {
        if !self.open {
            self.open = true;
            if self.syncs == 1 {
                // Unambiguous (Karn).
                self.rtt = Some(now - self.began);
            }
            self.patience = rto;
        }
        if news {
            // In steps: where answers take longer than `rto`, several probes would otherwise follow
            // each.
            self.patience = rto.max(Nanos(self.patience.0 / 2));
        }
        self.heard = now;
        self.answered = true;
        self.soft = None;
    }

    /// The peer wants a proof of our address. It is alive, but need not know the message. `false`:
    /// it was shown this one a moment ago: a round trip, which doubles up to half of `rto`, as what
    /// was shown may be lost. A peer that finds it wrong, and asks again at once, is not to draw
    /// packets as fast as it can ask.
    pub(crate) fn challenged(&mut self, now: Nanos, echo: u64, rto: Nanos, rtt: Nanos) -> bool {
        let again = echo == self.echo;
        let shown = again && now < self.shown_until;
        if !shown {
            let doubled = if again {
                self.shown_for + self.shown_for
            } else {
                rtt
            };
            self.shown_for = doubled.min(Nanos(rto.0 / 2));
            self.shown_until = now + self.shown_for;
        }
        // No sample of the round trip: a CHALLENGE overtakes data, of which nothing is known yet.
        (self.echo, self.heard, self.soft) = (echo, now, None);
        self.answered = true;
        !shown
    }

    /// The round-trip time, as far as it is known here. The answer to a SYNC does not say how long
    /// data waits, which tokens see to elsewhere.
    pub(crate) fn rtt(&self, base: Nanos) -> Nanos {
        match self.rtt {
            Some(rtt) if self.paced => rtt.max(base),
            rtt => rtt.unwrap_or(base),
        }
    }

    /// Records a token's number. `true` if it is new. Only the `first` of those that a packet
    /// stands for says that its receiver has begun once more: one packet is no sign of that.
    pub(crate) fn accept(&mut self, now: Nanos, sequence: u16, first: bool) -> bool {
        let early = self.received == 0;
        self.seen.accept(now, sequence) || first && self.seen.begins_again(now, sequence, early)
    }

    /// Whether these tokens, so many in a row, are all newer than those that came before.
    pub(crate) fn are_new(&self, sequence: u16, count: u8) -> bool {
        self.seen.are_next(sequence, count)
    }

    /// REN: whether a grant may draw a packet; `more`: a second one, which adds to the data under
    /// way.
    ///
    /// REN relies on the ports to mark when there is no room. Past a port without a marker the rate
    /// of a message would double until most of its packets are dropped. So there is a cap: a
    /// message needs no more under way than its host's link carries in a round trip. The
    /// unacknowledged bytes may exceed that by what one ACK covers, and by as much again while a
    /// loss is not repaired, or while packets that are queued for longer than the round trips seen
    /// so far count as lost: grants for those add to the data under way, too.
    pub(crate) fn may_send(&mut self, now: Nanos, more: bool) -> bool {
        let under_way = self.sent.saturating_sub(self.received);
        let batch = self.mss.saturating_mul(ACK_PACKETS);
        let times = if more { 1 } else { 2 };
        let most = self.line.saturating_mul(times).saturating_add(batch);
        // Retransmissions are always allowed.
        under_way < most || !more && self.may_repeat(now)
    }

    /// Of one that is paced: whether there is anything to send, and it may be. No more than
    /// `most` bytes are under way, and none but the first before the peer has answered. What a peer
    /// names is sent in any case.
    #[inline]
    pub(crate) fn may_go_on(&mut self, now: Nanos, most: u32) -> bool {
        let limit = self.available.min(self.window);
        let limit = match self.open {
            true => limit.min(self.received.saturating_add(most)),
            false => limit.min(self.line),
        };
        self.may_repeat(now) || self.sent < limit && self.may_begin_again(now)
    }

    /// Bytes that were sent and are not acknowledged.
    fn flight(&self) -> u32 {
        self.sent_ever().saturating_sub(self.received)
    }

    /// Whether anything that was named may be sent again now.
    #[inline]
    fn may_repeat(&mut self, now: Nanos) -> bool {
        !self.named.is_empty() && self.again.may(now, self.flight(), self.mss)
    }

    /// Whether what follows may be sent now: before the message began again it was sent as well.
    #[inline]
    fn may_begin_again(&mut self, now: Nanos) -> bool {
        self.sent >= self.sent_before || self.again.may(now, self.flight(), self.mss)
    }

    /// When more may be sent again, if that is what it waits for.
    pub(crate) fn held_until(&self, now: Nanos) -> Option<Nanos> {
        let waits = !self.named.is_empty() || self.sent < self.sent_before;
        self.again.held_until().filter(|at| waits && *at > now)
    }

    /// Of one that is paced, and whose receiver is silent: the last packet that was sent is to be
    /// sent again, if it is not known to have come. Unlike a question it overtakes nothing: when it
    /// arrives, what is missing before it is lost, and is named.
    ///
    /// From the second time in a row on the first packet that is missing goes, too: if that never
    /// gets through it is too long for the path, and nothing else may have been lost.
    pub(crate) fn repeat_last(&mut self) {
        let start = self.sent.saturating_sub(self.mss).max(self.received);
        if self.paced && self.open && start < self.sent {
            self.silent = self.silent.saturating_add(1);
            self.is_missing(start, self.sent);
            if self.silent > 1 {
                let end = self.received.saturating_add(self.mss).min(self.sent);
                self.is_missing(self.received, end);
            }
        }
    }

    /// Takes a sample of the round-trip time, of one that is paced. A queue that becomes longer
    /// counts at once, or what waits in it would be sent again.
    pub(crate) fn measured(&mut self, sample: Nanos) {
        self.rtt = Some(match self.rtt {
            None => sample,
            // RFC 6298.
            Some(rtt) => Nanos((rtt - Nanos(rtt.0 / 8)).0.saturating_add(sample.0 / 8)).max(sample),
        });
    }

    /// Whether all of its data fits into a packet with its SYNC, if others have `most` bytes.
    pub(crate) fn fits_with_sync(&self, most: u32) -> bool {
        let plain = !(self.sealed || self.ren || self.paced);
        let whole = self.length == Some(self.available);
        plain && whole && self.available.saturating_add(WITH_SYNC) <= most
    }

    /// Its SYNC and all of its data are sent, in one packet. Returns whether the data was sent
    /// before.
    pub(crate) fn sent_first(&mut self, now: Nanos) -> bool {
        let again = self.sent != 0;
        (self.sent, self.burst, self.spoke) = (self.available, 0, now);
        (self.told_at, self.told_to) = (now, self.available);
        self.packets = self.packets.saturating_add(1);
        self.repeated = self.repeated.saturating_add(again.into());
        again
    }

    /// Whether its data is to be sent again with its SYNC, with which it was sent: a receiver that
    /// is known to be there, and has not answered, has neither. Only a few times, as what is
    /// silent for longer is gone, or has no room for it.
    pub(crate) fn may_repeat_first(&self) -> bool {
        let whole = self.sent == self.available && self.length == Some(self.sent);
        whole && !self.answered && self.echo != 0 && self.syncs <= FIRST_TRIES
    }

    /// Chooses the part for the next packet, of at most `most` bytes.
    pub(crate) fn next(&mut self, now: Nanos, most: u32) -> Result<Piece, Nothing> {
        let next = self.take_next(now, most.min(self.mss));
        if next.is_ok() {
            self.spoke = now;
        }
        self.idle = match next {
            Err(Nothing::Unwritten) => self.idle.saturating_add(1),
            _ => 0,
        };
        next
    }

    fn take_next(&mut self, now: Nanos, most: u32) -> Result<Piece, Nothing> {
        let repeats = self.may_repeat(now);
        if let Some(range) = self.named.first().filter(|_| repeats) {
            let len = range.end.saturating_sub(range.start).min(most);
            let end = range.start.saturating_add(len);
            // Removing from the front needs no further range.
            self.named.remove(range.start, end);
            self.again.sent(len);
            if range.start == self.received {
                self.tried = len;
                if self.tries == 0 {
                    self.tried_since = now;
                }
                self.tries = self.tries.saturating_add(1);
            }
            if self.resent.is_empty() && !self.paced {
                self.resent_since = now;
            }
            if !self.resent.insert(range.start, end) {
                // Without room the set forgets, and a packet may be sent again too early, if the
                // peer asks for it.
                self.resent.clear();
            }
            return Ok(Piece {
                offset: range.start,
                len,
                again: true,
            });
        }
        let limit = self.available.min(self.window);
        if self.sent < limit && self.may_begin_again(now) {
            let piece = Piece {
                offset: self.sent,
                len: limit.saturating_sub(self.sent).min(most),
                again: false,
            };
            if self.sent < self.sent_before {
                self.again.sent(piece.len);
            }
            self.sent = self.sent.saturating_add(piece.len);
            return Ok(piece);
        }
        Err(if self.available > self.sent {
            Nothing::Window
        } else if self.length == Some(self.available) {
            Nothing::Sent
        } else {
            self.starved = true;
            Nothing::Unwritten
        })
    }

    /// [`Out::next`] for up to so many packets in a row: their offset, and all of their bytes. All
    /// but the last have `mss` bytes. `None`, and nothing has changed: the next packet has to be
    /// looked at by itself.
    pub(crate) fn next_run(&mut self, now: Nanos, most: u32, packets: u8) -> Option<(u32, u32)> {
        let limit = self.available.min(self.window);
        let usual = !self.ren && !self.paced && !self.sealed && self.mss <= most;
        let again = self.sent < self.sent_before || !self.named.is_empty();
        if !usual || again || self.sent >= limit || !self.may_begin_again(now) {
            return None;
        }
        let offset = self.sent;
        let all = self.mss.saturating_mul(packets.into());
        let len = limit.saturating_sub(offset).min(all);
        self.sent = offset.saturating_add(len);
        (self.spoke, self.idle) = (now, 0);
        Some((offset, len))
    }

    /// How many packets so many bytes are in, of which all but the last are full.
    pub(crate) fn packets_of(&self, bytes: u32) -> u16 {
        let mss = NonZeroU32::new(self.mss).unwrap_or(NonZeroU32::MIN);
        // Not `div_ceil`: its sum is checked in the kernel, and panics.
        let packets = (bytes / mss).saturating_add(u32::from(bytes % mss != 0));
        u16::try_from(packets).unwrap_or(u16::MAX)
    }

    /// Bytes by which its packets are longer for being sealed.
    #[inline]
    pub(crate) fn seal_len(&self) -> u32 {
        if self.sealed {
            SEAL_LEN as u32
        } else {
            0
        }
    }

    /// How many packets are written of what follows these bytes.
    pub(crate) fn written_behind(&self, end: u32) -> u32 {
        self.packets_of(self.available.saturating_sub(end)).into()
    }

    /// Is it known to have no more bytes than this?
    pub(crate) fn is_short(&self, most: u32) -> bool {
        self.length.is_some_and(|length| length <= most)
    }

    /// What the packet that ends there tells of those that follow
    /// ([`Data::more`](super::wire::Data::more)). When all was sent that is written, the receiver
    /// gives no more tokens until it is told that there is more. An end that the SYNC did not tell
    /// counts as one: it is told when a token finds nothing else.
    pub(crate) fn more(&mut self, now: Nanos, end: u32) -> u8 {
        (self.told_at, self.told_to) = (now, self.available);
        self.starved = self.sent == self.available && self.length != Some(self.available);
        let untold = u32::from(self.fin().is_some());
        let packets = self.written_behind(end).saturating_add(untold);
        let all = u8::try_from(packets.saturating_add(1)).unwrap_or(0);
        self.withheld = self.says != 0 && self.is_long() && (all == 0 || all > self.says);
        match self.withheld {
            true => self.says,
            false => all,
        }
    }

    /// How many packets more are written, as an ACK says it: no more than DATA would.
    pub(crate) fn allowance(&mut self) -> u16 {
        let packets = self.written_behind(self.sent);
        let most = u32::from(self.says).saturating_sub(1);
        self.withheld = self.says != 0 && self.is_long() && packets > most;
        let packets = match self.withheld {
            true => most,
            false => packets,
        };
        u16::try_from(packets).unwrap_or(u16::MAX)
    }

    /// How many of its tokens before this one have not come.
    pub(crate) fn skipped(&self, sequence: u16) -> u32 {
        self.seen.skipped(sequence)
    }

    /// Whether it is told how much it may have under way: so long is it, or so much was written so
    /// far of one whose length is not known. What is shorter would be late for little.
    pub(crate) fn is_long(&self) -> bool {
        let bytes = self.length.unwrap_or(self.available);
        bytes >= self.mss.saturating_mul(LONG)
    }

    /// Whether more is written than the receiver knows of, and it is to be told now: it has been
    /// told that there is nothing, or so much once, a part of a round trip ago. Not if that was
    /// less than there was: it is told with each packet.
    pub(crate) fn is_unheard(&self, now: Nanos, base_rtt: Nanos) -> bool {
        let part = Nanos(self.rtt(base_rtt).0 / TOLD_PART);
        let since = self.available > self.told_to && now - self.told_at >= part && !self.withheld;
        let told = self.starved || since && !self.ren && self.sent != 0;
        self.open && told && !self.paced && self.available > self.sent
    }

    /// Whether the receiver should be told that there is nothing to send until more is written. One
    /// that does not answer that is asked whether it knows the message at all.
    pub(crate) fn is_idle(&self) -> bool {
        let nothing = self.sent == self.available && self.length != Some(self.available);
        let nothing = nothing && self.sent != 0;
        let told = self.idle >= IDLE_TOKENS || self.starved;
        nothing && self.named.is_empty() && told && !self.unanswered
    }

    /// More was written after a token found nothing, and the receiver is told that now. Should that
    /// be lost, it is told again no later than at the time that this returns.
    pub(crate) fn woken(&mut self, now: Nanos, rto: Nanos) -> Nanos {
        (self.starved, self.idle) = (false, 0);
        self.patience = rto;
        now + rto
    }

    /// A RESEND names these. Returns how many parts are not sent again, because they were within a
    /// round trip; and whether anything is to be sent again that was not before: the peer names
    /// what it misses whenever it is asked, and that alone is no news.
    ///
    /// `former`: what was sent again before `resent` began, of one that is paced. Its losses are
    /// named one by one, so that what was sent again last would otherwise be forgotten together
    /// with the first.
    pub(crate) fn name(
        &mut self,
        now: Nanos,
        spans: &[Span],
        base_rtt: Nanos,
        mut former: Option<&mut Ranges<16>>,
    ) -> (u32, bool) {
        let (since, rtt) = (now - self.resent_since, self.rtt(base_rtt));
        self.again.trip(rtt);
        if since >= rtt {
            if let Some(former) = &mut former {
                **former = core::mem::replace(&mut self.resent, Ranges::new());
                if since >= rtt + rtt {
                    former.clear();
                }
                self.resent_since = now;
            }
            self.resent.clear();
        }
        let before = self.named.bytes();
        let mut earlier = false;
        for span in spans {
            // Bytes that were never sent follow in order; acknowledged ones have arrived.
            let (start, end) = (span.start.max(self.received), span.end.min(self.sent));
            earlier |= self.is_missing(start, end);
        }
        let mut too_soon = 0_u32;
        let former = former.as_ref().map_or(&[][..], |former| former.as_slice());
        for &range in self.resent.as_slice().iter().chain(former) {
            if self.named.overlaps(range.start, range.end) {
                too_soon = too_soon.saturating_add(1);
                self.named.remove(range.start, range.end);
            }
        }
        (too_soon, earlier || self.named.bytes() > before)
    }

    /// Notes that these bytes are to be sent again. Without room they are ignored, and the peer
    /// names them again. But if others lie behind them, those are: what is missing first is what
    /// the message waits for, and as long as it waits little may be sent again. Returns whether it
    /// was so.
    fn is_missing(&mut self, start: u32, end: u32) -> bool {
        if self.named.insert(start, end) {
            return false;
        }
        let Some(last) = self.named.last().filter(|last| last.start > start) else {
            return false;
        };
        self.named.remove(last.start, last.end);
        self.named.insert(start, end)
    }

    /// The peer does not know the message. If none of it was acknowledged, it begins again.
    pub(crate) fn restart(&mut self) -> bool {
        self.answered = true;
        if self.received != 0 {
            return false;
        }
        self.open = false;
        self.sent_before = self.sent_ever();
        self.sent = 0;
        self.named.clear();
        self.resent.clear();
        self.seen = Seen::new();
        self.window = MAX_LENGTH;
        (self.tries, self.vain, self.silent) = (0, u32::MAX, 0);
        true
    }

    /// Bytes below this were sent, if not since it began again, then before.
    pub(crate) fn sent_ever(&self) -> u32 {
        self.sent.max(self.sent_before)
    }

    /// Whether the receiver has restarted, and so lost what it acknowledged before: then it goes on
    /// to say that it has so much, as what it has lost is not sent again. Something that was under
    /// way has begun the message there once more.
    pub(crate) fn has_lost(&mut self, now: Nanos, received: u32, rto: Nanos) -> bool {
        if received >= self.received {
            self.behind = 0;
            return false;
        }
        if self.behind == 0 || self.behind_at != received {
            (self.behind, self.behind_at, self.behind_since) = (0, received, now);
        }
        self.behind = self.behind.saturating_add(1);
        let long = Nanos(rto.0.saturating_mul(BEHIND.into())).max(BEHIND_FOR);
        self.behind >= BEHIND && now - self.behind_since >= long
    }

    /// Handles an ACK. `true` if it has news. Contradictory values are ignored.
    pub(crate) fn acknowledged(&mut self, now: Nanos, received: u32, window: u32) -> bool {
        if received > self.sent_ever() {
            return false;
        }
        // What was sent before it began again has come in the end.
        self.sent = self.sent.max(received);
        // What was sent of a message that is paced before its window was known, and is beyond it,
        // was not taken.
        if self.paced && self.window == MAX_LENGTH && window < self.sent {
            self.sent = window.max(received);
        }
        // The first one may lower the window, which was not known before.
        let window = if self.window == MAX_LENGTH && window < MAX_LENGTH {
            window.max(received)
        } else {
            window.max(self.window)
        };
        let news = received > self.received || window != self.window;
        // To learn the first window is none: who forgets the message, and hears of it anew, would
        // otherwise put off its end for ever.
        if received > self.received || self.window < MAX_LENGTH && window > self.window {
            self.progress = now;
        }
        self.window = window;
        if received > self.received {
            (self.tries, self.vain, self.silent) = (0, u32::MAX, 0);
            let more = received.saturating_sub(self.received);
            self.again.acknowledged(more, self.flight(), self.mss);
            self.received = received;
            self.named.remove(0, received);
        }
        news
    }

    /// How many bytes more than were written the receiver has room for, as far as it has said: a
    /// token says so of a message whose length it knows, and otherwise only a window does.
    pub(crate) fn promised(&self) -> u32 {
        let most = match self.length {
            Some(length) => length.min(self.window),
            None if self.window < MAX_LENGTH => self.window,
            None => 0,
        };
        match self.open {
            true => most.saturating_sub(self.available),
            false => 0,
        }
    }

    /// Whether a signal may be sent because there was no data for a token: once per round trip.
    pub(crate) fn complain(&mut self, now: Nanos, base_rtt: Nanos) -> bool {
        let rtt = self.rtt(base_rtt);
        if self.complained.is_some_and(|at| now - at < rtt) {
            return false;
        }
        self.complained = Some(now);
        true
    }

    /// The first missing bytes were sent in vain for long enough: in packets of this payload.
    pub(crate) fn stuck(&self, now: Nanos, rto: Nanos) -> Option<u32> {
        let long = now - self.tried_since >= Nanos(rto.0.saturating_mul(TRIES_RTO));
        (self.tries > TRIES && long).then_some(self.tried)
    }

    /// Shorter packets are tried from now on.
    pub(crate) fn narrowed(&mut self, now: Nanos) {
        self.tries = 0;
        if self.tried < self.vain {
            // Longer ones that are tried once more are no progress.
            self.progress = now;
        }
        self.vain = self.vain.min(self.tried);
    }

    /// How long a peer that answers may go without wanting or having more of the message. `None`:
    /// for ever, as there is nothing to send, or it has said how much it wants.
    fn patience_for_progress(&self, timeout: Nanos) -> Option<Nanos> {
        let times = |count: u64| Nanos(timeout.0.saturating_mul(count));
        if self.received == self.available && self.length != Some(self.available) {
            return None;
        }
        if self.received >= self.window && !self.orphan {
            return None;
        }
        let tried = self.tried.min(self.vain);
        let least = shorter(tried, self.to.is_ipv4()).is_none();
        if self.tries > TRIES && least || self.again.is_fruitless() {
            return Some(timeout);
        }
        Some(times(if self.orphan {
            ORPHAN_TIMEOUTS
        } else {
            STALLED_TIMEOUTS
        }))
    }

    /// Whether its peer was silent for too long by now. Its timer is due then; but when a host
    /// wakes up, or is late, other things may come before that. Its receiver may have forgotten it,
    /// so that it must not be sent again for any of them.
    #[inline]
    pub(crate) fn is_over(&self, now: Nanos) -> bool {
        now >= self.heard + self.timeout
    }

    /// Handles the timer. After `Ask`, the next time is later.
    pub(crate) fn due(&mut self, now: Nanos) -> Due {
        let timeout = self.timeout;
        let dead = self.heard + timeout;
        let patience = self.patience_for_progress(timeout);
        let stalled = patience.is_some_and(|time| now >= self.progress + time);
        if self.is_over(now) || stalled {
            return Due::Dead;
        }
        let longest = MAX_PATIENCE.min(Nanos(timeout.0 / ASKED_IN_TIMEOUT));
        self.patience = self.patience.min(longest);
        // A peer whose tokens get lost is heard of all the time, and hears nothing.
        let ask =
            (self.heard.max(self.asked) + self.patience).min(self.spoke.max(self.asked) + longest);
        if now < ask {
            return Due::Later(ask.min(dead));
        }
        self.unanswered = self.heard < self.asked;
        self.asked = now;
        self.patience = (self.patience + self.patience).min(longest);
        Due::Ask((now + self.patience).min(dead))
    }

    /// Its socket is closed. The time for progress begins anew.
    pub(crate) fn closed(&mut self, now: Nanos) {
        self.orphan = true;
        self.progress = now;
    }

    /// When the timer fires first.
    pub(crate) fn first_timer(&self) -> Nanos {
        self.began + self.patience
    }

    /// The facts.
    pub(crate) fn info(&self, now: Nanos) -> Info {
        Info {
            direction: Direction::Out,
            peer: self.to,
            local_port: self.source,
            peer_port: self.destination,
            number: self.number,
            length: self.length,
            received: self.received,
            window: self.sent,
            priority: self.token_priority,
            rate: 0,
            rtt: self.rtt,
            tokens: self.tokens,
            tokens_lost: self.tokens_invalid,
            packets: self.packets,
            repeated: self.repeated,
            age: now - self.began,
            coflow: self.coflow,
            deadline: self.deadline.map(|at| at - now),
        }
    }
}

/// A timeout as a SYNC says it, rounded up.
fn patience_of(timeout: Nanos) -> u16 {
    let unit = PATIENCE_UNIT.saturating_mul(Nanos::MILLISECOND.0);
    let units = u16::try_from(timeout.0.max(1).div_ceil(unit)).unwrap_or(u16::MAX);
    // At least 1.
    units.min(MOST_PATIENCE)
}

#[cfg(test)]
mod tests;
