// SPDX-License-Identifier: GPL-2.0
//! An incoming message: what has come, what is missing, and whether it should get another token.

use core::num::{NonZeroU32, NonZeroU64};

use super::config::{Resolved, Speed};
use super::feedback::Credit;
use super::gaps::{Gaps, RANGES};
use super::host::{Address, Direction, Info};
use super::jitter::{Due, NANO};
use super::ledger::Ledger;
use super::links::SHARED;
use super::maybe::{Maybe, MaybeIndex};
use super::pacer::Jitter;
use super::progress::{Facts, Progress};
use super::ranges::{Range, Ranges};
use super::rate::dcqcn::Notifier;
use super::rate::Mark;
use super::turns::{Order, Turn};
use super::wire::{Cookie, Run, Spans, Sync, MAX_LENGTH};
use crate::units::Nanos;

/// No more tokens are outstanding than the link carries packets in so many of the shortest round
/// trips. A token that was lost is so for up to two round trips, and queues make them longer.
const TRIPS: u64 = 4;
/// For so many round trips the shortest one counts as such, and no longer than for so long: the way
/// may have become a longer one.
const TRIPS_KEPT: u64 = 32;
const TRIP_KEPT: Nanos = Nanos(4 * Nanos::SECOND.0);
/// The most unanswered tokens of a half-open message per `rto`, while many messages are half open.
/// (Otherwise a stranger gets three times the bytes that came.)
const CROWDED_TOKENS: u32 = 1;
/// A message that had so many tokens, and of which nothing new came since, comes after others.
const VAIN_TOKENS: u32 = 8;
/// A token is for no more packets than such a part of those that came, and of those that its rate
/// asks for in a round trip.
const TRAIN_PART: u64 = 4;
/// By default one is, unless no token of the message was lost in so many periods: where others'
/// tokens meet its own, their data does, too.
const CALM_PERIODS: u8 = 12;
/// And unless nothing came for such a part of `rto`: what is asked of a sender that is away at
/// times comes late, and the more of it the less is known of what was lost. (One that is merely
/// slow has as long round trips, but something comes all the time.)
const AWAY_PART: u64 = 2;
/// After so many unanswered tokens in a row the sender counts as silent: all that is missing is
/// named, and the message pauses. Where many messages meet, half of all tokens are lost, but not
/// this many in a row.
const SILENT_TOKENS: u32 = 32;
/// The same after so many round-trip times in a row in which tokens were given up and nothing came:
/// a short message gets few tokens at once, and where others' tokens go first only this tells.
const SILENT_ROUNDS: u32 = 16;
/// Probes of a silent sender back off to one per so many times `rto`. A sender that had nothing to
/// send, and then has, may have to wait for one.
const LONGEST_PAUSE: u32 = 4;
/// See [`longest_look`]: so many times `rto`.
const LONGEST_LOOK: u64 = 8;
/// But while few are silent one probe follows another after two round-trip times, or such a part of
/// the time since anything came, if that is more: its tokens may have been outranked by those of
/// other receivers, and may be taken again at any time.
const BRIEF_PART: u64 = 40;
/// Silent senders are probed in turn, a quarter of `rto` apart. Probes to thousands at once would
/// be more than a host can answer, and answers that come too late cause more probes.
const ASKED_APART: u64 = 4;
/// Where tokens may have been outranked it is so many round-trip times, and so many tokens of the
/// link, of which a slow one can carry few.
const ASKED_APART_RTT: u64 = 2;
const ASKED_APART_TOKENS: u64 = 64;
/// So many times a half-open message gets its tokens again after one `rto`, and then after twice
/// the time each (exponential backoff): where hundreds of messages meet at a port, some lose all of
/// their first tokens.
const EAGER_ROUNDS: u32 = 4;
/// This backoff ends at so many times `rto`.
const LONGEST_HALF_OPEN: u32 = 64;
/// So many packets, and no more than one in [`TWO`] that says something else, tell that a sender
/// shares its link with many. Of one whose application writes piece by piece that may be a
/// mistake, which has no effect as long as no token is lost.
const ONES: u8 = 16;
const MOST_ONES: u8 = 32;
const TWO: u8 = 4;
/// An ACK is sent once so many full packets have come.
pub(crate) const ACK_PACKETS: u32 = 16;

/// An incoming message. `I` is the user's data for it.
pub(crate) struct In<I> {
    pub(crate) user: I,
    pub(crate) cookie: Cookie,
    pub(crate) number: u64,
    /// Its index in the table of peers.
    pub(crate) peer: u32,
    /// Where it counts among the networks.
    pub(crate) net: MaybeIndex,
    /// Its index in the table of coflows, if it has one.
    pub(crate) coflow_entry: MaybeIndex,
    pub(crate) from: Address,
    /// The link that it comes by.
    pub(crate) link: u32,
    source: u16,
    destination: u16,
    pub(crate) length: Option<u32>,
    /// Its SYNC told the length, not a FIN.
    told_length: bool,
    pub(crate) mss: u32,
    /// The window: the user has room for bytes below this.
    pub(crate) window: u32,
    /// The window that the sender was told. Data beyond it is dropped.
    pub(crate) told: u32,
    /// The sender was told that all bytes below this have come.
    pub(crate) acked: u32,
    pub(crate) ranges: Ranges<RANGES>,
    /// The sender has written the bytes below this, as its DATA and ACKs say; at least so many, and
    /// at most a packet less. The last ACK that said so was sent behind the bytes below `worded`.
    pub(crate) written: u32,
    worded: u32,
    /// How often its sender has said lately that one packet is written, and that it so shares its
    /// link with many.
    ones: u8,
    shares: bool,
    /// Bytes.
    pub(crate) received: u32,
    pub(crate) gaps: Gaps,
    pub(crate) ledger: Ledger,
    /// The next tokens' numbers at the last two ticks, and when these were.
    marks: [(u16, Nanos); 2],
    /// The next tick, at which old tokens are given up; while any are outstanding.
    tick: Maybe,
    /// Data came since the last tick.
    busy: bool,
    /// Unanswered tokens in a row.
    silent: u32,
    /// Ticks in a row that gave up tokens and saw no answer.
    silent_rounds: u32,
    /// The sender has said that it has nothing to send.
    idle: bool,
    /// It has ever said so.
    rested: bool,
    /// How often it was silent in a row.
    silences: u32,
    /// No token before this.
    pub(crate) pause: Nanos,
    /// How many pauses in a row there were because there was no memory for what came.
    full: u8,
    /// Bytes below this are sent without tokens, and expected until then.
    unscheduled: u32,
    /// The same as it was at first: what may come without tokens.
    announced: u32,
    unscheduled_until: Nanos,
    pub(crate) ren: bool,
    /// Its sender paces it and wants no tokens.
    pub(crate) paced: bool,
    /// Of one that its sender paces: the worst mark of the data that came since the last ACK; what
    /// the next one is to notify of; and when there may be another notification.
    mark: Mark,
    notice: Mark,
    notifier: Notifier,
    /// REN: when to send a grant if nothing comes.
    pub(crate) grant: Maybe,
    /// Something of it has shown that its sender has the address that it claims.
    pub(crate) proven: bool,
    /// It counts as half open: nothing has shown that yet, and its SYNC had no ticket either.
    pub(crate) half_open: bool,
    /// Its sender has a ticket that is good for a while.
    pub(crate) ticketed: bool,
    /// Only a ticket has shown it so far: nothing of it has answered what was sent to its sender.
    pub(crate) unanswered: bool,
    /// When its sender last showed its address, and whether that is so long ago that it may be
    /// gone.
    pub(crate) there: Nanos,
    pub(crate) gone: bool,
    /// Bytes of IP packets that may be sent for it while it [is bounded](Self::is_bounded).
    pub(crate) room: u32,
    /// How much of it claimed to answer a token and did not; and while it is `unanswered`, how much
    /// of it did.
    pub(crate) guesses: u8,
    pub(crate) answers: u8,
    /// Its packets are sealed.
    pub(crate) sealed: bool,
    /// A SYNC that showed its sender's address has said what is known of it, or a sealed one has.
    /// Others may be forged, whatever shows the address: nothing is delivered or acknowledged.
    pub(crate) sure: bool,
    /// What its SYNC wished for: REN's grants and a priority, whether it is granted or not.
    pub(crate) wished: (bool, Option<u8>),
    /// It was asked for a SYNC that shows its address before this, and is not again.
    pub(crate) challenged: Nanos,
    /// A SYNC of it has echoed a CHALLENGE.
    pub(crate) echoed: bool,
    /// Of one that is sealed: something was sealed with the number that was drawn for it here, so
    /// that this is no repetition of an old one. Of others always set.
    pub(crate) fresh: bool,
    /// How long its sender tries, as its SYNC says.
    pub(crate) patience: u16,
    /// The first token's number, and how many tokens had a secret timestamp instead of the time.
    first_token: u16,
    secret: u16,
    /// When the first and the last of these were sent, by the expiry clock.
    sent_first: u32,
    sent_last: u32,
    /// Packets that tokens and grants have asked for, and packets with something new that came for
    /// them.
    pub(crate) asked_for: u32,
    taken: u32,
    /// How many had been asked for when something new came last.
    fruitful: u32,
    /// While [it is vain](Self::is_vain): when it may try again in its place, and whether it may
    /// now.
    again: Maybe,
    pub(crate) trying: bool,
    /// Others wait for it to be read.
    pub(crate) urgent: bool,
    /// While half open, only tokens from this one on count, and it moves on then.
    half_base: u16,
    half_until: Nanos,
    /// How many times that was.
    half_rounds: u32,
    pub(crate) began: Nanos,
    pub(crate) heard: Nanos,
    /// When data came last.
    pub(crate) came: Nanos,
    /// How it goes on, for those who wait for it.
    pub(crate) progress: Progress,
    pub(crate) deadline: Maybe,
    pub(crate) coflow: u32,
    pub(crate) wish: Option<u8>,
    pub(crate) priority: u8,
    pub(crate) rtt: Maybe,
    pub(crate) least_rtt: Nanos,
    /// The shortest one lately, or at first its peer's; until then, as the way may have become
    /// another.
    pub(crate) trip: Nanos,
    trip_until: Nanos,
    /// The most that one of its tokens stood for, and what the last one did.
    worth: u8,
    last_worth: u8,
    /// So many periods in a row no token was lost.
    calm: u8,
    // Counts of packets: 2^32 of them are more than any message has. A message is large, and made
    // on the stack.
    pub(crate) tokens: u32,
    pub(crate) tokens_lost: u32,
    pub(crate) packets: u32,
    pub(crate) repeated: u32,
    /// When the intervals of its tokens begin, and when within the present one its next token is
    /// due.
    pub(crate) due: Due,
    pub(crate) next_token: Nanos,
    pub(crate) jitter: Jitter,
    /// Its turn to be asked, if it is silent.
    pub(crate) turn: Turn,
    /// Its part in the sums of its peer and its coflow.
    pub(crate) noted_missing: u32,
    pub(crate) noted_remaining: u32,
    pub(crate) credit: Credit,
    /// When the rate was updated last.
    pub(crate) updated: Nanos,
}

impl<I> In<I> {
    #[allow(clippy::too_many_arguments)] // each is needed once, here
    pub(crate) fn new(
        user: I,
        number: u64,
        peer: u32,
        from: &Address,
        sync: &Sync,
        window: u32,
        now: Nanos,
        (base_rtt, rto, timeout): (Nanos, Nanos, Nanos),
        unscheduled_until: Nanos,
        credit: Credit,
        first_token: u16,
    ) -> Self {
        let window = window.min(MAX_LENGTH);
        Self {
            user,
            cookie: sync.cookie,
            number,
            peer,
            net: MaybeIndex::NONE,
            coflow_entry: MaybeIndex::NONE,
            from: *from,
            link: SHARED,
            source: sync.source,
            destination: sync.destination,
            length: sync.length,
            told_length: sync.length.is_some(),
            mss: u32::from(sync.mss),
            window,
            told: window,
            acked: 0,
            ranges: Ranges::new(),
            written: u32::MAX,
            worded: 0,
            ones: 0,
            shares: false,
            received: 0,
            gaps: Gaps::default(),
            ledger: Ledger::new(first_token),
            marks: [(0, now); 2],
            tick: Maybe::NONE,
            busy: false,
            silent: 0,
            silent_rounds: 0,
            idle: false,
            rested: false,
            silences: 0,
            pause: Nanos::ZERO,
            full: 0,
            // That of what its sender paces waits in queues for who knows how long.
            unscheduled: if sync.paced {
                0
            } else {
                sync.unscheduled.min(window)
            },
            announced: sync.unscheduled,
            unscheduled_until,
            ren: sync.ren,
            paced: sync.paced,
            mark: Mark::None,
            notice: Mark::None,
            notifier: Notifier::NEW,
            grant: Maybe::NONE,
            proven: false,
            half_open: false,
            ticketed: false,
            unanswered: false,
            there: now,
            gone: false,
            room: 0,
            guesses: 0,
            answers: 0,
            sealed: false,
            sure: false,
            wished: (sync.ren, sync.priority),
            challenged: Nanos::ZERO,
            echoed: false,
            fresh: true,
            patience: sync.patience,
            first_token,
            secret: 0,
            sent_first: 0,
            sent_last: 0,
            asked_for: 0,
            taken: 0,
            fruitful: 0,
            again: Maybe::NONE,
            trying: false,
            urgent: false,
            half_base: first_token,
            half_until: now + rto.min(base_rtt + base_rtt),
            half_rounds: 0,
            began: now,
            heard: now,
            came: now,
            progress: Progress::new(now, timeout),
            deadline: deadline(now, sync),
            coflow: sync.coflow,
            wish: sync.priority,
            priority: sync.priority.unwrap_or(0),
            rtt: Maybe::NONE,
            least_rtt: Nanos::MAX,
            trip: Nanos::MAX,
            trip_until: now,
            worth: 1,
            last_worth: 1,
            calm: 0,
            tokens: 0,
            tokens_lost: 0,
            packets: 0,
            repeated: 0,
            credit,
            due: Due::new(now),
            next_token: now,
            jitter: Jitter::default(),
            turn: Turn::NONE,
            noted_missing: 0,
            noted_remaining: 0,
            updated: now,
        }
    }

    /// Whether its sender's address and what it begins with are known: it may be delivered.
    #[inline]
    pub(crate) fn is_believed(&self) -> bool {
        self.proven && self.sure
    }

    /// Whether what is sent because of it is bounded: nobody may be there any more, or ever was.
    #[inline]
    pub(crate) fn is_bounded(&self) -> bool {
        !self.proven || self.should_show()
    }

    /// Whether its sender should show its address once more, though something has proved it:
    /// nothing but a ticket has, or it is long ago.
    #[inline]
    pub(crate) fn should_show(&self) -> bool {
        self.unanswered || self.gone
    }

    /// The window that the sender knows: tokens may be given for bytes below it.
    #[inline]
    pub(crate) fn limit(&self) -> u32 {
        self.told.min(self.length.unwrap_or(MAX_LENGTH))
    }

    /// Bytes that are missing below [`In::limit`].
    #[inline]
    pub(crate) fn missing(&self) -> u32 {
        self.limit().saturating_sub(self.received)
    }

    /// Whether all bytes have come.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.length == Some(self.received)
    }

    /// The round-trip time, as far as it is known, but at least half of `base`. Without that bound,
    /// on a link with next to no delay, any wait would exceed it and all tokens under way would
    /// count as lost.
    #[inline]
    pub(crate) fn rtt(&self, base: Nanos) -> Nanos {
        self.rtt
            .get()
            .map_or(base, |rtt| rtt.max(Nanos(base.0 / 2)))
    }

    /// Data for which nothing came in the meantime is late: after a round trip, and after two of
    /// the latest one of its peer (`lag`).
    fn is_late_after(&self, base: Nanos, lag: Nanos) -> Nanos {
        self.rtt(base).max(lag + lag)
    }

    /// Unscheduled bytes under way.
    fn unscheduled_left(&self, now: Nanos) -> u32 {
        if now >= self.unscheduled_until {
            return 0;
        }
        self.unscheduled.saturating_sub(self.received)
    }

    /// Something came that no token had asked for. What its sender has announced follows, or is
    /// lost if nothing more comes for a round trip: a sender whose processor is slow, or that waits
    /// its turn at a port, takes longer than the link would.
    pub(crate) fn came_unasked(&mut self, now: Nanos, base: Nanos, lag: Nanos) {
        if self.unscheduled_left(now) != 0 {
            self.expect_until(now + self.is_late_after(base, lag));
        }
    }

    /// So many of its bytes, the last of which ends there, came before its SYNC and were not kept:
    /// they are to be asked for, and do not come by themselves. Returns what to name.
    pub(crate) fn was_overtaken(&mut self, now: Nanos, end: u32, bytes: u32) -> Option<Spans> {
        self.unscheduled = self.unscheduled.saturating_sub(bytes);
        let (end, next) = (end.min(self.limit()), self.ledger.next());
        self.gaps.name_all(now, &self.ranges, end, next)
    }

    /// What was announced is not late before this.
    pub(crate) fn expect_until(&mut self, until: Nanos) {
        self.unscheduled_until = self.unscheduled_until.max(until);
    }

    /// Whether it should get another token, regardless of rates. Tokens that stand for several are
    /// not sent one by one as each packet comes.
    #[inline]
    pub(crate) fn wants(&self, now: Nanos, base: Nanos, speed: &Speed, crowded: bool) -> bool {
        self.wants_more(now, (base, speed), crowded, self.last_worth)
    }

    /// The same for a token that stands for so many, or for one more of these.
    pub(crate) fn wants_more(
        &self,
        now: Nanos,
        (base, speed): (Nanos, &Speed),
        crowded: bool,
        worth: u8,
    ) -> bool {
        if self.ren || self.paced || self.idle || now < self.pause || self.ledger.is_full() {
            return false;
        }
        let outstanding = self.ledger.outstanding();
        if self.has_tokens_enough(base, speed, worth) {
            return false;
        }
        let under_way = u64::from(outstanding)
            .saturating_mul(self.mss.into())
            .saturating_add(self.unscheduled_left(now).into());
        // A token that finds nothing is wasted, and its time on the link with it.
        let written = self.written.saturating_sub(self.received);
        if under_way >= u64::from(self.missing().min(written)) {
            return false;
        }
        if (self.silences != 0 || self.full != 0) && outstanding >= 1 {
            return false;
        }
        self.is_allowed(crowded)
    }

    /// How many packets its next token may be for. A sender that has not shown its address, or may
    /// be gone, is asked for one at a time; so is one that is silent, or of which nothing has come.
    /// With what comes there may be more, as whatever else waits at a port waits for all of them.
    /// `one`: the interval of its own rate, of which there are several of these in a round trip:
    /// else its rate would follow the fate of a single one.
    pub(crate) fn most_worth(&self, config: &Resolved, speed: &Speed, one: u64) -> u8 {
        let alone = self.is_bounded() || self.silences != 0 || self.full != 0 || self.is_vain();
        let trip = self.rtt(config.base_rtt).0.saturating_mul(NANO);
        let trip = NonZeroU64::new(one).map_or(0, |one| trip / one);
        let most = u64::from(self.packets).min(trip) / TRAIN_PART;
        let most = u8::try_from(most).unwrap_or(u8::MAX);
        match alone || config.worth.is_auto() && !self.is_calm() {
            true => 1,
            false => config.worth.most(speed, self.mss).min(most).max(1),
        }
    }

    /// Whether it makes no difference if what follows from data is looked at when more has come.
    #[inline]
    pub(crate) fn may_be_put_off(&self) -> bool {
        !self.ren && !self.paced && !self.is_complete() && self.is_believed()
    }

    /// Whether any of its tokens stood for several.
    pub(crate) fn had_trains(&self) -> bool {
        self.worth > 1
    }

    /// Whether no token of it was lost for some time, and its sender was there.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm >= CALM_PERIODS
    }

    /// As the one before it was.
    pub(crate) fn set_calm(&mut self, calm: bool) {
        self.calm = if calm { CALM_PERIODS } else { 0 };
    }

    /// What it sent came twice.
    pub(crate) fn not_calm(&mut self) {
        self.calm = 0;
    }

    /// Whether its sender is away, as far as anybody can tell at `now`.
    pub(crate) fn is_calm_until(&mut self, now: Nanos, rto: Nanos) {
        if now - self.came >= Nanos(rto.0 / AWAY_PART) {
            self.calm = 0;
        }
    }

    /// A packet of data has come.
    #[inline]
    pub(crate) fn has_come(&mut self, now: Nanos, rto: Nanos) {
        self.is_calm_until(now, rto);
        (self.heard, self.came) = (now, now);
        self.packets = self.packets.saturating_add(1);
    }

    /// So many of its tokens were lost in a period.
    pub(crate) fn noted_loss(&mut self, lost: u32) {
        self.calm = match lost {
            0 => self.calm.saturating_add(1),
            _ => 0,
        };
    }

    /// Whether another token or grant may be sent: where many messages are half open, each gets
    /// few.
    pub(crate) fn is_allowed(&self, crowded: bool) -> bool {
        let sent = self.ledger.next().wrapping_sub(self.half_base);
        self.proven || !crowded || u32::from(sent) < CROWDED_TOKENS
    }

    /// Data that ends at `end` says how much is written behind it
    /// ([`Data::more`](super::wire::Data::more)).
    #[inline]
    pub(crate) fn said(&mut self, end: u32, more: u8) {
        self.ones = match more {
            2 => self.ones.saturating_add(1).min(MOST_ONES),
            // As well as one, if its part is between the two.
            3 => self.ones.saturating_sub(TWO),
            _ => 0,
        };
        self.shares = self.ones >= ONES || self.shares && self.ones != 0;
        let Some(packets) = more.checked_sub(1) else {
            self.written = u32::MAX;
            return;
        };
        let written = end.saturating_add(u32::from(packets).saturating_mul(self.mss));
        if end >= self.ranges.end() && end > self.worded {
            self.written = written;
        } else if written > self.written {
            // An older word, of which at least so much is true.
            self.written = written;
        }
    }

    /// Whether its sender shares its link with so many that it is to have one token under way at
    /// most (`fan.rs`).
    #[inline]
    pub(crate) fn shares_link(&self) -> bool {
        self.shares
    }

    /// The rate of one token in the shortest round trip, of so many wire bytes, in billionths.
    pub(crate) fn one_in_trip(&self, base: Nanos, speed: &Speed, wire_len: u32) -> u32 {
        let token = speed.time_of_token(wire_len) / NANO;
        let trip = self.shortest_trip(base).0;
        // Round trips are at most a second.
        let part = token.min(trip).saturating_mul(1_000_000_000);
        let part = NonZeroU64::new(trip).map_or(u64::MAX, |trip| part / trip);
        u32::try_from(part).unwrap_or(u32::MAX)
    }

    /// The shortest round trip lately, or the usual one.
    pub(crate) fn shortest_trip(&self, base: Nanos) -> Nanos {
        match self.trip {
            Nanos::MAX => base,
            trip => trip,
        }
    }

    /// Data came of one that shares its sender's link: when the next token is due. By what its
    /// interval is longer than the shortest round trip it waits now, behind the data: so tokens
    /// come to the port as evenly as data leaves it, and later while others wait there.
    pub(crate) fn waits(&mut self, now: Nanos, base: Nanos, one: u64) {
        self.next_token = now + (Nanos(one / NANO) - self.shortest_trip(base));
        self.due = Due::new(self.next_token);
    }

    /// Whether nothing that the sender has written is missing.
    #[inline]
    pub(crate) fn has_all_written(&self) -> bool {
        self.idle || self.received >= self.written
    }

    /// What the sender has written is not known, or is all.
    pub(crate) fn may_be_written(&mut self, all: bool) {
        self.written = u32::MAX;
        if all {
            self.worded = u32::MAX;
        }
    }

    /// The sender says that it has sent all bytes below `sent`, and written so many packets more.
    /// Tokens under way may still find these.
    pub(crate) fn has_more(&mut self, sent: u32, packets: u32) {
        self.worded = self.worded.max(sent);
        let written = sent.saturating_add(packets.saturating_mul(self.mss));
        self.written = match self.written {
            u32::MAX => written,
            before => before.max(written),
        };
        self.asked();
    }

    /// Records that a token is sent that stands for `worth`.
    pub(crate) fn sent_token(&mut self, worth: u8) {
        self.worth = self.worth.max(worth);
        self.last_worth = worth;
    }

    /// The time until its next token, of its last one: as many of its rate's intervals as that
    /// stood for. Of one that is urgent the other half is others'.
    pub(crate) fn interval(&self, one: u64) -> u64 {
        let times = if self.urgent { 2 } else { 1 };
        one.saturating_mul(self.last_worth.into())
            .saturating_mul(times)
    }

    /// Records that one of the tokens that a packet stands for is sent. Returns its number.
    pub(crate) fn token(&mut self, now: Nanos, rtt: Nanos) -> u16 {
        if self.tick == Maybe::NONE {
            self.tick = Maybe::some(now + rtt);
            let next = self.ledger.next();
            self.marks = [(next, now); 2];
        }
        self.tokens = self.tokens.saturating_add(1);
        self.asked_for = self.asked_for.saturating_add(1);
        self.ledger.send()
    }

    /// The ports, of sender and receiver.
    pub(crate) fn ports(&self) -> (u16, u16) {
        (self.source, self.destination)
    }

    /// Whether a SYNC is of another message than the one that this began with, and whether it
    /// differs in anything that decides what its sender may send. An honest sender's are all of one
    /// message, but its packets may become shorter.
    pub(crate) fn differs(&self, sync: &Sync) -> (bool, bool) {
        let other = self.ports() != (sync.source, sync.destination)
            || self.told_length != sync.length.is_some()
            || sync.length.is_some() && self.length != sync.length
            || self.coflow != sync.coflow
            || self.paced != sync.paced
            || self.wished != (sync.ren, sync.priority);
        (other, other || self.mss != u32::from(sync.mss))
    }

    /// A SYNC that shows its sender's address counts for what it says, in place of that which the
    /// message began with. `false`: another one has done so before.
    pub(crate) fn correct(&mut self, now: Nanos, sync: &Sync, announced: u32) -> bool {
        if core::mem::replace(&mut self.sure, true) {
            return false;
        }
        self.mss = u32::from(sync.mss);
        self.patience = sync.patience;
        self.deadline = deadline(now, sync);
        self.announced = announced;
        true
    }

    /// A token was sent with a secret timestamp.
    pub(crate) fn stamped(&mut self, clock: u32) {
        if self.secret == 0 {
            self.sent_first = clock;
        }
        self.sent_last = clock;
        self.secret = self.secret.saturating_add(1);
    }

    /// When a token was sent by the expiry clock, as the answer to it says. Those with a secret
    /// timestamp were sent evenly between the first and the last of them, or nearly so.
    pub(crate) fn sent_at(&self, sequence: u16, timestamp: u32) -> u32 {
        let number = sequence.wrapping_sub(self.first_token);
        // Numbers come again after 2^16.
        if number >= self.secret || self.tokens > 1 << 15 {
            return timestamp;
        }
        let all = u64::from(self.sent_last.wrapping_sub(self.sent_first));
        let part = match NonZeroU64::new(self.secret.wrapping_sub(1).into()) {
            Some(intervals) => all.saturating_mul(number.into()) / intervals,
            None => 0,
        };
        self.sent_first.wrapping_add(part as u32)
    }

    /// Bytes: what its sender sends without tokens.
    pub(crate) fn announced(&self) -> u32 {
        self.announced
    }

    /// Whether a packet with new data may be taken: `asked`, it answers a token that was sent;
    /// otherwise it must be within what its sender announced. Tokens that were taken for lost are
    /// answered late, and in any order; so what counts is that there are no more answers than
    /// tokens.
    ///
    /// What a sender paces nobody asks for: it may be all that there is room for, once the sender
    /// has proved its address.
    pub(crate) fn may_take(&mut self, asked: bool, end: u32) -> bool {
        if self.paced {
            return self.proven || end <= self.announced;
        }
        if asked && self.taken < self.asked_for {
            self.taken = self.taken.saturating_add(1);
            return true;
        }
        end <= self.announced
    }

    /// Whether the packets of a run may be taken as if nobody had to look at each of them. Of those
    /// that answer tokens all are the newest that were answered, in a row, and their times are
    /// known by what they echo.
    pub(crate) fn may_take_run(&self, run: &Run) -> bool {
        let packets = run.packets;
        if !run.data.asked() {
            return run.data.end() <= self.announced;
        }
        let last = run.data.token.wrapping_add(packets.saturating_sub(1));
        let told = |token| self.sent_at(token, run.data.timestamp) == run.data.timestamp;
        self.proven
            && !self.unanswered
            && self.ledger.is_next(run.data.token, packets)
            && self.was_sent(run.data.token)
            && self.was_sent(last)
            && told(run.data.token)
            && told(last)
            && u32::from(packets) <= self.asked_for.saturating_sub(self.taken)
    }

    /// One that answers tokens was taken. Returns how long these were under way, by the expiry
    /// clock.
    pub(crate) fn took(&mut self, clock: u32, run: &Run) -> Nanos {
        self.ledger.answer_next(run.data.token, run.packets);
        self.taken = self.taken.saturating_add(run.packets.into());
        Nanos(clock.wrapping_sub(run.data.timestamp).into())
    }

    /// Bytes below this are those that its sender's last word of what is written was about.
    pub(crate) fn worded(&self) -> u32 {
        self.worded
    }

    /// Whether a token with this number has been sent.
    pub(crate) fn was_sent(&self, sequence: u16) -> bool {
        let ago = self.ledger.next().wrapping_sub(sequence);
        ago != 0 && u32::from(ago) <= self.tokens.min(1 << 15)
    }

    /// The sender may send so many bytes without tokens.
    pub(crate) fn announce(&mut self, bytes: u32) {
        self.announced = bytes;
        self.unscheduled = self.unscheduled.min(bytes);
    }

    /// Something new has come, and there was memory for it. Returns whether it was
    /// [vain](Self::is_vain) before.
    pub(crate) fn bore_fruit(&mut self) -> bool {
        let vain = self.is_vain();
        self.fruitful = self.asked_for;
        if self.full != 0 {
            (self.full, self.pause) = (0, Nanos::ZERO);
        }
        vain
    }

    /// Whether so many tokens in a row have drawn nothing new that others go first: who claims a
    /// short message and does not send it must not keep them waiting.
    pub(crate) fn is_vain(&self) -> bool {
        self.asked_for.wrapping_sub(self.fruitful) >= self.times(VAIN_TOKENS)
    }

    /// So many tokens, if each stands for one; of those that stand for more, as many of these.
    fn times(&self, tokens: u32) -> u32 {
        tokens.saturating_mul(self.worth.into())
    }

    /// It got a token, or has its turn to try again. Until the next time it comes after others if
    /// it is vain.
    ///
    /// It is not put off for good: its tokens may have been outranked in a port, and while longer
    /// messages of its host have all tokens it would never learn that they would be taken now.
    pub(crate) fn tried(
        &mut self,
        now: Nanos,
        (base_rtt, rto): (Nanos, Nanos),
        speed: &Speed,
        order: &mut Order<'_>,
    ) {
        let waits = self.again.get().is_some_and(|again| now < again);
        if !self.is_vain() || waits {
            return;
        }
        let next = now + self.rtt(base_rtt).max(self.silent_part(now, rto));
        let turn = self.take_turn(now, asked_apart(base_rtt, speed), order);
        self.again = Maybe::some(next.max(turn));
    }

    /// Its turn to be asked, among all that are silent.
    fn take_turn(&mut self, now: Nanos, apart: Nanos, order: &mut Order<'_>) -> Nanos {
        order.take(&mut self.turn, now, apart, !self.proven)
    }

    /// A part of the time since anything came, and at most the longest pause.
    fn silent_part(&self, now: Nanos, rto: Nanos) -> Nanos {
        let longest = rto.0.saturating_mul(LONGEST_PAUSE.into());
        Nanos(((now - self.came).0 / BRIEF_PART).min(longest))
    }

    /// Whether it is vain, and has its turn to try again.
    pub(crate) fn may_try(&self, now: Nanos) -> bool {
        self.is_vain() && self.again.get().is_some_and(|again| now >= again)
    }

    /// Takes a sample of the round-trip time.
    pub(crate) fn measured(&mut self, now: Nanos, sample: Nanos, base: Nanos) {
        // Before it there is only what former messages of its peer had.
        let first = self.least_rtt == Nanos::MAX && !self.ren;
        self.least_rtt = self.least_rtt.min(sample);
        if sample < self.trip || now >= self.trip_until {
            let kept = Nanos(self.rtt(base).0.saturating_mul(TRIPS_KEPT));
            (self.trip, self.trip_until) = (sample, now + kept.min(TRIP_KEPT));
        }
        self.rtt = Maybe::some(match self.rtt.get().filter(|_| !first) {
            None => sample,
            // RFC 6298.
            Some(rtt) => Nanos((rtt - Nanos(rtt.0 / 8)).0.saturating_add(sample.0 / 8)),
        });
    }

    /// Round trips may have become much shorter: tokens are looked at after two.
    pub(crate) fn look_soon(&mut self, now: Nanos, base: Nanos, lag: Nanos) {
        let rtt = self.rtt(base).max(lag);
        let soon = now + rtt + rtt;
        if self.tick.get().is_some_and(|tick| tick > soon) {
            self.tick = Maybe::some(soon);
        }
    }

    /// Whether as many tokens are outstanding as there may be: what the link carries in a few of
    /// the shortest round trips. Those that wait longer wait for a processor, and more would not
    /// help it. For one that stands for several there is room for all of these.
    fn has_tokens_enough(&self, base: Nanos, speed: &Speed, worth: u8) -> bool {
        let trip = match self.trip {
            Nanos::MAX => base,
            trip => trip.max(Nanos(base.0 / 2)),
        };
        let most = u64::from(speed.bytes_in(trip)).saturating_add(self.mss.into());
        let under_way = u64::from(self.ledger.outstanding()).saturating_mul(self.mss.into());
        let most = most.saturating_mul(TRIPS);
        let beyond = u64::from(worth.saturating_sub(1)).saturating_mul(self.mss.into());
        under_way >= most.saturating_sub(beyond.min(most / 2))
    }

    /// Its place among messages of which as much is missing: older ones go first, and those that
    /// began within an eighth of a ms do so in any order. Where all hosts send to all others at
    /// once, receivers that followed the order in which messages came would all choose the same
    /// sender.
    pub(crate) fn lot(&self) -> u64 {
        let age = self.began.0.wrapping_shr(17).wrapping_shl(16);
        age | (self.cookie.0 & 0xffff)
    }

    /// REN: data came that was sent with the SYNC. No grant has been answered yet, so only its age
    /// tells how long packets wait on their way.
    pub(crate) fn waited(&mut self, now: Nanos, base: Nanos) {
        let age = now - self.began;
        // Unless the sender's application took its time.
        if self.least_rtt == Nanos::MAX && age > self.rtt(base) && !self.rested {
            self.rtt = Maybe::some(age);
        }
    }

    /// The sender shows that it is alive and has more to send. Its turn is given back by who calls.
    pub(crate) fn awake(&mut self) {
        self.busy = true;
        self.idle = false;
        self.silent = 0;
        self.silent_rounds = 0;
        self.silences = 0;
        if self.full == 0 {
            self.pause = Nanos::ZERO;
        }
    }

    /// There is no memory for what came. It is asked for again after a pause, twice as long each
    /// time, and by one token at a time: without, the same bytes would come at the link's rate
    /// until there is memory.
    pub(crate) fn had_no_room(&mut self, now: Nanos, base_rtt: Nanos, rto: Nanos) {
        // What was under way meanwhile says nothing new.
        if now >= self.pause {
            let longest = Nanos(rto.0.saturating_mul(LONGEST_PAUSE.into()));
            let times = 1_u64.wrapping_shl(self.full.into());
            let pause = Nanos(self.rtt(base_rtt).0.saturating_mul(times));
            self.pause = now + pause.min(longest);
            self.full = self.full.saturating_add(1).min(16);
        }
    }

    /// The sender may have sent everything. What is then missing was lost; but not while data still
    /// comes, which signals overtake in queues.
    ///
    /// Not of what a sender paces: nobody knows how long that waits, behind a port's pause perhaps.
    /// Its sender repeats the last packet instead, which overtakes nothing ([`Out::repeat_last`]).
    ///
    /// [`Out::repeat_last`]: super::outgoing::Out::repeat_last
    pub(crate) fn may_be_lost(&mut self, now: Nanos, base_rtt: Nanos, lag: Nanos) {
        if !self.paced && now - self.came >= self.is_late_after(base_rtt, lag) {
            self.gaps.all_sent(now, self.limit());
        }
    }

    /// The sender probes: a pause ends, and it gets a token at once. `silences` stays, as a probe
    /// does not show that the sender answers tokens.
    pub(crate) fn asked(&mut self) {
        self.idle = false;
        self.pause = Nanos::ZERO;
    }

    /// The sender says that it has sent all bytes below `sent`, and has no more for now. If they
    /// have come, it is given no token until it asks. An older word than the last data is ignored.
    pub(crate) fn idle(&mut self, now: Nanos, (base_rtt, lag): (Nanos, Nanos), sent: u32) {
        if sent < self.ranges.end() || self.worded != 0 && sent <= self.worded {
            return;
        }
        if sent == self.received {
            (self.idle, self.rested) = (true, true);
            (self.silent, self.silent_rounds, self.silences) = (0, 0, 0);
        } else if !self.paced && now - self.came >= self.is_late_after(base_rtt, lag) {
            self.gaps.all_sent(now, sent);
        }
    }

    /// Data has come of a message that its sender paces, marked so. Whether its sender is to be
    /// notified now: at most once in `interval`.
    pub(crate) fn marked(&mut self, now: Nanos, interval: Nanos, mark: Mark) -> bool {
        self.mark = self.mark.max(mark);
        match self.notifier.heard(interval, now, mark) {
            Some(mark) => {
                self.notice = mark;
                true
            }
            None => false,
        }
    }

    /// What the next ACK says of marks, and whether it is a notification.
    pub(crate) fn take_mark(&mut self) -> (Mark, bool) {
        let mark = core::mem::take(&mut self.mark);
        match core::mem::take(&mut self.notice) {
            Mark::None => (mark, false),
            notice => (notice, true),
        }
    }

    /// Whether so many bytes from the first on end another of the segments that its sender times,
    /// which are as long as what one ACK covers. An ACK between two ends puts off none.
    pub(crate) fn ends_segment(&self, contiguous: u32) -> bool {
        let segment = NonZeroU32::new(self.mss.saturating_mul(ACK_PACKETS));
        segment.is_some_and(|segment| contiguous / segment > self.acked / segment)
    }

    /// What DATA counts as when gaps are looked for: the token that it answers, or of what a sender
    /// paces the packet's number.
    pub(crate) fn clocked_by(&self, token: Option<u16>) -> Option<u16> {
        match self.paced {
            true => Some(self.packets as u16),
            false => token,
        }
    }

    /// No SYNC has shown whose it is, and what was sent to it may be lost.
    fn is_round_over(&self, now: Nanos) -> bool {
        !self.is_believed() && now >= self.half_until
    }

    /// Such a one is to be asked for a SYNC: again and again, but where many messages are half open
    /// only once of those of which no token was answered, until they send a SYNC by themselves.
    pub(crate) fn is_unanswered(&self, now: Nanos, crowded: bool) -> bool {
        (!crowded || self.proven || self.half_rounds == 0) && self.is_round_over(now)
    }

    /// Its sender answers tokens, and no SYNC has come for so long that shows its address: nothing
    /// of it can be delivered.
    pub(crate) fn owes_proof(&self, now: Nanos, timeout: Nanos) -> bool {
        self.proven && !self.sure && now >= self.began + timeout
    }

    /// A grant is due for which nothing need have come.
    pub(crate) fn is_grant_due(&self, now: Nanos) -> bool {
        let due = self.grant.get().is_some_and(|grant| now >= grant);
        due && now >= self.pause && !self.idle
    }

    /// The first new part of `start..end`, which is in the set now.
    pub(crate) fn take(&mut self, start: u32, end: u32) -> Option<Range> {
        let new = self.ranges.missing(start, end)?;
        if !self.ranges.insert(new.start, new.end) {
            return None;
        }
        self.received = self
            .received
            .saturating_add(new.end.saturating_sub(new.start));
        Some(new)
    }

    /// Undoes the last addition: there was no memory for the data.
    pub(crate) fn put_back(&mut self, range: Range) {
        if self.ranges.remove(range.start, range.end) {
            let len = range.end.saturating_sub(range.start);
            self.received = self.received.saturating_sub(len);
        }
    }

    /// The gaps that a RESEND should name now.
    pub(crate) fn resend(&mut self, now: Nanos, base_rtt: Nanos) -> Option<Spans> {
        if self.paced && now < self.pause {
            // There was no memory for what came. Nothing else keeps it from being sent at once.
            return None;
        }
        let rtt = self.rtt(base_rtt);
        let tolerance = self.ledger.tolerance();
        let next = match self.paced {
            true => (self.packets as u16).wrapping_add(1),
            false => self.ledger.next(),
        };
        self.gaps.name(now, &self.ranges, rtt, tolerance, next)
    }

    /// Handles the timer: returns a RESEND if one is due, and how many tokens were given up as too
    /// old. `ranked`: others' tokens may go before all of its own. `lag`: how long the
    /// newest token took of any message of its peer that was answered.
    pub(crate) fn clock(
        &mut self,
        now: Nanos,
        base_rtt: Nanos,
        rto: Nanos,
        (ranked, speed): (bool, &Speed),
        lag: Nanos,
        order: &mut Order<'_>,
    ) -> (Option<Spans>, u32) {
        order.pass(&mut self.turn, now);
        let rtt = self.rtt(base_rtt).max(lag);
        let apart = match ranked {
            true => asked_apart(base_rtt, speed),
            false => Nanos(rto.0 / ASKED_APART),
        };
        let (mut all, mut late, mut given_up) = (false, None, 0);
        let ticks = self.tick.get().is_some_and(|tick| now >= tick);
        let [(old, since), recent] = self.marks;
        if ticks && self.unscheduled_left(now) != 0 {
            // What answers tokens waits behind what was sent before.
            self.tick = Maybe::some(now + rtt);
        } else if ticks && now - since < lag + lag && self.ledger.outstanding() != 0 {
            // The sender has not come to them yet, unless it is faster again by then.
            let until = since + lag + lag;
            self.tick = Maybe::some(until.min(now + self.rtt(base_rtt).max(longest_look(rto))));
        } else if ticks {
            let lost = self.ledger.give_up(old);
            given_up = lost;
            self.marks = [recent, (self.ledger.next(), now)];
            if self.busy {
                (self.silent, self.silent_rounds) = (0, 0);
            } else {
                self.silent = self.silent.saturating_add(lost);
                let round = u32::from(lost != 0);
                self.silent_rounds = self.silent_rounds.saturating_add(round);
            }
            self.busy = false;
            let next = now + rtt.min(self.rtt(base_rtt).max(longest_look(rto)));
            self.tick = (self.ledger.outstanding() != 0).then_some(next).into();
            let long = self.silent_rounds >= SILENT_ROUNDS;
            let silent = if ranked {
                long
            } else {
                self.silent >= self.times(SILENT_TOKENS) || long && order.are_many(now, rto)
            };
            let silent = silent || self.silences != 0 && lost != 0;
            // One that has nothing to send is not silent.
            all = silent && !self.has_all_written();
        }
        if self.unscheduled != 0 && now >= self.unscheduled_until {
            if self.received < self.unscheduled {
                late = Some(self.unscheduled);
                self.gaps.all_sent(now, self.unscheduled);
            }
            self.unscheduled = 0;
        }
        if self.is_round_over(now) {
            self.half_base = self.ledger.next();
            self.half_rounds = self.half_rounds.saturating_add(1);
            let doubled = self.half_rounds.saturating_sub(EAGER_ROUNDS).min(16);
            let times = 1_u32.wrapping_shl(doubled).min(LONGEST_HALF_OPEN);
            self.half_until = now + Nanos(rto.0.saturating_mul(times.into()));
            if doubled != 0 {
                self.half_until = self.half_until.max(self.take_turn(now, apart, order));
            }
        }
        if all && (self.silent != 0 || self.silences != 0) {
            (self.silent, self.silent_rounds) = (0, 0);
            self.silences = self.silences.saturating_add(1).min(16);
            let longest = Nanos(rto.0.saturating_mul(LONGEST_PAUSE.into()));
            let longest = if ranked && !order.are_many(now, rto) {
                // Two round trips have passed since the last one was sent.
                self.silent_part(now, rto) - rtt - rtt
            } else {
                longest
            };
            let times = 1_u64.wrapping_shl(self.silences);
            let pause = Nanos(rtt.0.saturating_mul(times)).min(longest);
            self.pause = (now + pause).max(self.take_turn(now, apart, order));
        }
        let named = if all { Some(self.limit()) } else { late };
        if let Some(limit) = named {
            let next = self.ledger.next();
            let spans = self.gaps.name_all(now, &self.ranges, limit, next);
            return (spans, given_up);
        }
        (self.resend(now, base_rtt), given_up)
    }

    /// What [`Progress::look`] wants to know. `starved`: so much was sent because of it that its
    /// sender gets no token before it has answered.
    pub(crate) fn facts(&self, starved: bool) -> Facts {
        Facts {
            received: self.received,
            tokens: self.tokens,
            // A stranger is asked too rarely for its silence to show; and one of which all has come
            // owes a SYNC that shows its address.
            idle: self.has_all_written()
                || self.paced
                || !self.proven
                || starved
                || !self.sure && self.missing() == 0,
            closed: self.is_believed() && self.missing() == 0,
        }
    }

    /// When to call [`In::clock`].
    pub(crate) fn next_clock(&self, now: Nanos, base_rtt: Nanos) -> Nanos {
        let mut next = self.tick.get().unwrap_or(Nanos::MAX);
        // A stranger's message may have come as a whole, and is not delivered.
        if self.missing() != 0 || !self.is_believed() {
            next = next.min(self.progress.next());
        }
        if let Some(due) = self.gaps.due(self.rtt(base_rtt)) {
            next = next.min(match self.paced {
                // Nothing is named before.
                true => due.max(self.pause),
                false => due,
            });
        }
        if self.unscheduled != 0 {
            next = next.min(self.unscheduled_until);
        }
        if !self.is_believed() {
            next = next.min(self.half_until);
        }
        if self.is_vain() && self.missing() != 0 {
            next = next.min(self.again.get().unwrap_or(Nanos::MAX));
        }
        if self.pause > now {
            next = next.min(self.pause);
        }
        if let Some(grant) = self.grant.get().filter(|_| !self.idle) {
            next = next.min(grant.max(self.pause));
        }
        next
    }

    /// The facts. `rate`: bytes/s of tokens.
    pub(crate) fn info(&self, now: Nanos, rate: u64) -> Info {
        Info {
            direction: Direction::In,
            peer: self.from,
            local_port: self.destination,
            peer_port: self.source,
            number: self.number,
            length: self.length,
            received: self.received,
            window: self.window,
            priority: self.priority,
            rate,
            rtt: self.rtt.get(),
            tokens: self.tokens.into(),
            tokens_lost: self.tokens_lost.into(),
            packets: self.packets.into(),
            repeated: self.repeated.into(),
            age: now - self.began,
            coflow: self.coflow,
            deadline: self.deadline.get().map(|at| at - now),
        }
    }
}

/// However slow the sender was, its tokens are looked at again after this: by then another message
/// may have shown that it no longer is.
pub(crate) fn longest_look(rto: Nanos) -> Nanos {
    Nanos(rto.0.saturating_mul(LONGEST_LOOK))
}

/// By when a message should have arrived, as its SYNC says.
fn deadline(now: Nanos, sync: &Sync) -> Maybe {
    let after = Nanos(u64::from(sync.deadline).saturating_mul(1000));
    (sync.deadline != 0).then(|| now + after).into()
}

/// The time between two turns of senders whose tokens may have been outranked.
fn asked_apart(base_rtt: Nanos, speed: &Speed) -> Nanos {
    let tokens = speed.token_time.saturating_mul(ASKED_APART_TOKENS) / NANO;
    Nanos(base_rtt.0.saturating_mul(ASKED_APART_RTT).max(tokens))
}
