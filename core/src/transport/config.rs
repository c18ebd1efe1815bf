// SPDX-License-Identifier: GPL-2.0
//! The options of a namespace's transport: the table of them, and what they come to.

use crate::header;
use crate::options::{limits, options, Given, Opt, Problem, Range, Refusal, Table, Unit};
use crate::transport::uapi::{self as uapi, config as number};
use crate::units::Nanos;

use super::policy::PriorityFunction;

mod resolved;

pub use resolved::{Clock, Dscp, Feedback, Policy, Resolved, Schedule, Speed, Unscheduled, Worth};

/// The link rate, bytes/s, where neither the user nor a device says one: 10 Gbit/s.
pub const USUAL_LINK: u64 = 1_250_000_000;

const WHOLE: u64 = 1_000_000_000;
const US: u64 = 1000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

const fn count(min: u64, max: u64, things: &'static str) -> Opt {
    Opt::number(Range::new(min, max, Unit::Count(things)))
}

const fn messages(max: u64) -> Opt {
    count(1, max, "messages")
}

const fn shares(min: u64, max: u64) -> Opt {
    Opt::number(Range::new(min, max, Unit::Share))
}

const fn times(min: u64, max: u64) -> Range {
    Range::new(min, max, Unit::Time)
}

const BUFFER: Opt = Opt::number(Range::new(1 << 16, 1 << 30, Unit::Size));
const CODE: Opt = Opt::number(limits::DSCP);
const SERIAL: Opt = Opt::number_or(Range::new(1, (1 << 31) - 1, Unit::Count("")), &[("off", 0)]);

options! {
    /// How a namespace's transport is configured. Each field is an attribute's value.
    ///
    /// The fields are as the user gave them; [`Config::validate`] says whether they are allowed.
    /// [`Config::DEFAULT`] is what a new namespace has.
    pub struct Config;

    /// How messages share the tokens, and where tokens come from. top: the receiver paces tokens
    /// with priorities, and the schedule says which message comes first; the choice for mixed
    /// loads. expresspass: the same with one priority, all messages alike; for comparison, and for
    /// ports with one queue of tokens. ren: the receiver grants a packet for each one that comes,
    /// at rates that marks of the ports steer; it needs ports with ren on. dcqcn: there are no
    /// tokens; the sender paces each message, and slows down when its receiver tells of marks; it
    /// needs ports that mark, and drop nothing. timely: the same by the round-trip times of what is
    /// sent, without marks. Each side's policy is for what it sends: what comes without tokens is
    /// taken with any, and with these two a receiver gives tokens to others as with expresspass.
    policy: u32 = uapi::POLICY_TOP, POLICY "policy"
        Opt::choice(&["expresspass", "top", "ren", "dcqcn", "timely"]);

    /// The speed of the links that tokens are for: each device that data comes by has its own, and
    /// its own tokens. auto: what the device reports; those that report none share one link, as
    /// fast as the fastest device that is up, 10 Gbit/s if none reports any. Set it, for all
    /// devices alike, where paths are slower than the devices, or devices report nothing: too high,
    /// and tokens queue up and expire in the ports; too low, and the rest of the link stays
    /// idle.
    link: u64 = 0, LINK_RATE64 "link"
        Opt::number_or(limits::LINK, &[("auto", 0)]);

    /// The rate of a link's tokens together, of the link. It should be that of the ports' tokens.
    /// It is what tokens of 84 bytes have: longer ones, over IPv6 or sealed, ask for no more, and
    /// what they are longer takes its time at the link's rate beside.
    /// Raise it if packets are smaller than full frames; too high, and data queues up.
    token_share: u32 = 51_787_916, TOKEN_SHARE "token-share"
        Opt::number(limits::TOKENS)
            .from("84 / (84 + 1538): one minimum-size token for each full-size frame \
                   (ExpressPass section 2.1)");

    /// How a message's rate of tokens follows the tokens that were lost. weighted: towards the
    /// greatest rate by a weight that grows while little is lost, with a target for the loss; for
    /// networks where several links are busy. midpoint: ExpressPass's first algorithm, halfway to
    /// the greatest rate, or down to what came; simpler, and less even. ranked: as weighted, but a
    /// message all of whose tokens are lost has been outranked by others: it goes on asking now and
    /// then, and has the rate that it had at once when a token is answered; and a sender whose link
    /// is full tells the receivers of its long messages how many tokens each may have under way.
    /// auto: ranked with policy top, otherwise weighted.
    feedback: u32 = uapi::FEEDBACK_AUTO, FEEDBACK "feedback"
        Opt::choice(&["midpoint", "weighted", "ranked", "auto"])
            .from("midpoint: ExpressPass, algorithm 1");

    /// A message's rate at first, of the rate of all tokens. With all of it, messages that share a
    /// port are alike after the first loss, and a short message is not held up; less wastes fewer
    /// tokens where many messages begin at once, and takes longer to fill a link.
    initial_rate: u32 = 1_000_000_000, INITIAL_RATE "initial-rate" shares(10_000, WHOLE);

    /// A message's rate is never lower than this, of the rate of all tokens, unless its sender says
    /// that it shares its link with many (feedback ranked). It must not be above initial-rate.
    /// Lower it where many times more messages than its inverse share a link, and each of them has
    /// a sender and a receiver of its own: they waste tokens. With less, a message takes longer to
    /// find out that the link is free again.
    min_rate: u32 = 15_000_000, MIN_RATE "min-rate" shares(10_000, WHOLE);

    /// The loss of tokens that the feedback aims at. More fills links better whose users come and
    /// go, and wastes more tokens.
    target_loss: u32 = 100_000_000, TARGET_LOSS "target-loss" shares(0, WHOLE / 2);

    /// The weight of the greatest rate at first, with feedback weighted. More reaches the greatest
    /// rate sooner, and overshoots further. It must not be below weight-min, or above weight-max.
    weight_initial: u32 = 62_500_000, WEIGHT_INITIAL "weight-initial" shares(100_000, WHOLE);

    /// The least weight, which is what brings messages of different rates together. More does so
    /// sooner, and loses more tokens when all is even.
    weight_min: u32 = 50_000_000, WEIGHT_MIN "weight-min" shares(100_000, WHOLE);

    /// The greatest weight. More takes a link that became free sooner.
    weight_max: u32 = 500_000_000, WEIGHT_MAX "weight-max" shares(100_000, WHOLE);

    /// How large a part of the interval between a message's tokens a token may be anywhere in, and
    /// with dcqcn and timely a packet. It keeps senders from falling into step, which would lose
    /// one of them all its tokens, or have one's packets marked more often than others'. Less is
    /// for measurements.
    jitter: u32 = 1_000_000_000, JITTER "jitter" shares(0, WHOLE);

    /// How often a message's rate is worked out anew. rtt: once in its round-trip time. A fixed
    /// time is for paths whose round trips cannot be measured well; shorter than the round trip,
    /// and the rate answers twice to the same loss.
    update_period: u64 = 0, UPDATE_PERIOD "update-period"
        Opt::number_or(times(US, S), &[("rtt", 0)]);

    /// The round-trip time before one was measured. With policy ren a message sends what the link
    /// carries in it at first, and has about twice that under way at most. Set it to the longest
    /// round trip of the idle network: longer, and more data is sent on trust; shorter, and long
    /// messages cannot fill the link.
    base_rtt: u64 = 50 * US, BASE_RTT "base-rtt" Opt::number(times(US, S));

    /// How long a token may take from the receiver to the sender; one that took longer sends
    /// nothing. off: they do not expire. It keeps late tokens from drawing data that nobody has
    /// planned for, and needs clocks that agree to within this time (see clock).
    token_expiry: u64 = 0, TOKEN_EXPIRY "token-expiry"
        Opt::number_or(times(US, S), &[("off", 0)]);

    /// The clock that tokens are stamped with. tai is what PTP disciplines. It only counts with
    /// token-expiry, and must be the same on all hosts.
    clock: u32 = uapi::CLOCK_REALTIME, CLOCK "clock" Opt::choice(&["realtime", "tai"]);

    /// Number of token priorities, K of TOP's priority function. Not more than the ports have:
    /// tokens of lower priorities share the ports' last queue. auto: eight, between which lengths
    /// are divided by the load that each carries, as learned from the messages that came, less for
    /// the higher ones; with schedule edf each is for two octaves. priority-packets, priority-a and
    /// priority-b have no effect then.
    priorities: u32 = 0, PRIORITIES "priorities"
        Opt::number_or(limits::PRIORITIES, &[("auto", 0)]);

    /// The longest usual message, p of TOP's priority function. Messages of no more are spread over
    /// the priorities; what is longer has the last one. Set it to what your messages are, so that
    /// neither all are alike nor all priorities but the first few empty.
    priority_packets: u32 = 20_000, PRIORITY_PACKETS "priority-packets"
        count(2, 1 << 22, "packets");

    /// a of TOP's priority function, in thousandths. It moves where priorities begin: more gives
    /// the same message a lower priority.
    priority_a: u32 = 1000, PRIORITY_A "priority-a" count(1, 1_000_000, "thousandths");

    /// b of TOP's priority function, in thousandths of a packet. It moves the shortest messages to
    /// lower priorities.
    priority_b: u32 = 0, PRIORITY_B "priority-b" count(0, 1_000_000_000, "thousandths");

    /// Which message comes first with policy top, and what its priority is taken from. srpt: the
    /// shortest remaining, for the shortest mean completion time; it needs lengths that are known.
    /// las: the one that got least so far, for lengths that are not. edf: the earliest deadline.
    /// coflow: the coflow with least remaining.
    schedule: u32 = uapi::SCHEDULE_SRPT, SCHEDULE "schedule"
        Opt::choice(&["srpt", "las", "edf", "coflow"]);

    /// What is sent of a message at once, without tokens, with policy top. It saves a message the
    /// round trip that its first token takes. auto: its first bytes, up to what its receiver
    /// allows; the allowances of all its senders together fit into unscheduled-buffer, and to a
    /// host that has told none in the last second goes one message of a single short packet; of all
    /// its messages together no more than its own link carries in two base-rtt waits at its own
    /// port. A number: all of a message of no more packets, marked for a port's lowest band, as
    /// data where it has none; on busy links such packets are dropped, and sent again for tokens.
    /// Of what comes without tokens a receiver takes as much as it would send, or allow, by its own
    /// option. With dcqcn and timely: what is sent before the receiver has answered; auto: to a
    /// host that has answered in the last minutes what the link carries in base-rtt, to another one
    /// a message of a single short packet; a number: no more packets than these.
    unscheduled: u32 = uapi::UNSCHEDULED_AUTO, UNSCHEDULED "unscheduled"
        Opt::number_or(
            Range::new(1, 1024, Unit::Count("packets")),
            &[("off", 0), ("auto", uapi::UNSCHEDULED_AUTO as u64)],
        )
        .from("a number: m of TOP section 4.4");

    /// How many messages may come in at once. Each takes memory here; what is beyond waits at its
    /// sender, and asks again. The messages of one /24 or /48 may have four fifths. At most 4096
    /// outside of the initial user namespace.
    max_incoming: u32 = 4096, MAX_INCOMING "max-incoming" messages(65_536);

    /// How many messages may go out at once. Each takes memory. One user alone may have half of
    /// them, and a quarter to one peer; a program that begins one more waits until others have
    /// ended. At most 4096 outside of the initial user namespace.
    max_outgoing: u32 = 4096, MAX_OUTGOING "max-outgoing" messages(65_536);

    /// How many messages may come in from one address at once, so that one sender cannot take the
    /// places of all. A quarter of them may be such that have not shown that they come from there.
    /// At most 1024 outside of the initial user namespace.
    max_per_peer: u32 = 1024, MAX_PER_PEER "max-per-peer" messages(65_536);

    /// How many messages there may be from senders that have not proved their address, at most
    /// half of max-incoming. It bounds what forged SYNCs can take; a sender whose SYNC is one too
    /// many is asked for the proof first, which takes a round trip. At most 1024 outside of the
    /// initial user namespace.
    max_half_open: u32 = 1024, MAX_HALF_OPEN "max-half-open" messages(65_536);

    /// How many finished messages are remembered, so that none is delivered twice. While as many
    /// are, no message comes in: raise it where more end within a few timeouts. Half of them may be
    /// such whose sender has not confirmed the end: an eighth of all from one address, and from one
    /// /24 or /48 as many as are left of that half. At most 65536 outside of the initial user
    /// namespace.
    max_remembered: u32 = 65_536, MAX_REMEMBERED "max-remembered" messages(1 << 20);

    /// How long a peer may be silent before its messages fail. Longer survives longer outages, and
    /// tells programs later.
    timeout: u64 = 10 * S, TIMEOUT "timeout" Opt::number(times(100 * MS, 3600 * S));

    /// After this time a SYNC that nobody answered is repeated for the first time; then it doubles.
    /// Not longer than the timeout. Set it to a few round trips: shorter repeats for nothing,
    /// longer waits after a loss. The end of a message of one packet may be told so much later: a
    /// sixteenth of it.
    rto: u64 = 2 * MS, RTO "rto" Opt::number(times(200 * US, S));

    /// A socket's send buffer at first; programs can set their own (SO_SNDBUF). More lets a program
    /// run further ahead of the network.
    send_buffer: u32 = 16 << 20, SEND_BUFFER "send-buffer" BUFFER;

    /// A socket's receive buffer at first; programs can set their own (SO_RCVBUF). It grows if it
    /// has to, up to receive-buffer-max.
    receive_buffer: u32 = 4 << 20, RECEIVE_BUFFER "receive-buffer" BUFFER;

    /// DSCP of SYNC, RESEND, FIN, ACK and RESET, which a port takes for signals. Change these four
    /// to fit the plan of a network whose switches sort by DSCP.
    dscp_signal: u32 = 48, DSCP_SIGNAL "dscp-signal"
        CODE.from("network control (RFC 4594)");

    /// DSCP of tokens, which are small, paced and wanted early.
    dscp_token: u32 = 46, DSCP_TOKEN "dscp-token"
        CODE.from("expedited forwarding (RFC 3246)");

    /// DSCP of data.
    dscp_data: u32 = 0, DSCP_DATA "dscp-data" CODE.from("none in particular");

    /// DSCP of unscheduled data, which should go after all else.
    dscp_unscheduled: u32 = 1, DSCP_UNSCHEDULED "dscp-unscheduled"
        CODE.from("lower effort than all others (RFC 8622)");

    /// How much less loss a message aims at the more of the token rate it has: target-loss divided
    /// by 1 + this x its part of the rate, with feedback weighted. 0: all aim at the same, as in
    /// ExpressPass; then few messages share a link unfairly where ports drop the token that arrives
    /// last, as other makers' do, and Turnstile's with token-drop last. More is fairer there.
    fairness: u32 = 3, FAIRNESS "fairness" count(0, 64, "");

    /// What becomes of the priority that a message's sender asks for (TURNSTILE_PRIORITY). ignore:
    /// this host's policy decides alone. use: the sender's choice comes before the policy, with
    /// policy top; only where all senders are trusted, as anybody could take the first place.
    sender_priority: u32 = uapi::SENDER_PRIORITY_IGNORE, SENDER_PRIORITY "sender-priority"
        Opt::choice(&["ignore", "use"]);

    /// How many messages under way there may be whose socket was closed. Nobody can end them: when
    /// there is one too many, the user who has most loses the one of which its receiver has not
    /// taken anything for longest. Raise it where programs begin more messages than this and end at
    /// once.
    max_orphans: u32 = 2048, MAX_ORPHANS "max-orphans" messages(65_536);

    /// How many bytes these may have together that are not acknowledged, each message counting 1
    /// KiB more; beyond it the user who has most of them loses the one that stood still longest.
    /// Raise it where much is sent by programs that end at once; less bounds what receivers that
    /// take nothing can hold.
    orphan_buffer: u32 = 256 << 20, ORPHAN_BUFFER "orphan-buffer" BUFFER;

    /// Whether messages are sealed: encrypted and authenticated with a key that both ends have.
    /// psk: all are, both ways, and what is not sealed is dropped without an answer; needs a key.
    /// off: none, and sealed ones are dropped; sockets may have keys of their own (TURNSTILE_KEY).
    security: u32 = uapi::SECURITY_OFF, SECURITY "security" Opt::choice(&["off", "psk"]);

    /// The key that messages are sealed with: the serial number of a key of type logon with 32
    /// bytes, in a keyring of who sets this (keyctl add logon turnstile:NAME ...). It is read once,
    /// then; an updated key is put in force under another number.
    key: u32 = 0, KEY "key" SERIAL;

    /// Another key that messages may come with. To change keys without loss, add the new key here
    /// on all hosts, then make it the key and this the old one, and then turn this off.
    accept_key: u32 = 0, ACCEPT_KEY "accept-key" SERIAL;

    /// One more of these.
    accept_key_2: u32 = 0, ACCEPT_KEY_2 "accept-key-2" SERIAL;

    /// How large a socket's receive buffer becomes, unless the program has set it: twice its size
    /// each time that what is under way to it does not fit, and half as large when no more than a
    /// sixteenth of it is used. Messages of up to half of this come in while others are being read;
    /// less holds up long ones. receive-buffer counts, if that is more.
    receive_buffer_max: u32 = 128 << 20, RECEIVE_BUFFER_MAX "receive-buffer-max" BUFFER;

    /// By how much the receive buffers of all sockets together may have grown. It bounds what
    /// programs that do not read may keep in memory; what is sent to them waits at its senders. A
    /// socket may have as much of it as it leaves, and all of a user's twice as much.
    receive_memory: u32 = 512 << 20, RECEIVE_MEMORY "receive-memory" BUFFER;

    /// How many bytes all senders together may have under way to this host without tokens, with
    /// unscheduled auto: what the buffer of the port on the way to it holds, which is where they
    /// meet. Each of those that sent lately may have an equal part. More saves longer messages a
    /// round trip; too much, and ports drop data when many begin at once. Of what a receiver
    /// allows this host, it takes no more than this either.
    unscheduled_buffer: u32 = 125 << 10, UNSCHEDULED_BUFFER "unscheduled-buffer"
        Opt::number(Range::new(4 << 10, 4 << 20, Unit::Size));

    /// Whether ports tell of a third state, undetermined (ports with tcd on): they mark that others
    /// hold their queues up, and not what they send. With dcqcn and timely a message whose packets
    /// have that mark keeps its rate, and one that meets congestion is cut harder. off: it counts
    /// as no mark. Turn it on where all ports on the way have tcd on, and pause each other.
    tcd: u32 = uapi::TCD_OFF, TCD "tcd"
        Opt::choice(&["off", "on"]).from("Congestion Detection in Lossless Networks, section 5.2");

    /// With dcqcn and timely: no message is slower than this, or its link if that is slower. More
    /// is sooner back at what a link carries; less lets more messages meet at a port without loss.
    minimum_rate: u64 = 1_250_000, MINIMUM_RATE64 "minimum-rate"
        Opt::number(limits::LINK).from("IEEE 802.1Q, rpgMinRate");

    /// Of a message that comes without tokens its sender is notified of marks at most once in this
    /// time (DCQCN's CNP interval); it counts with any policy, since the sender's decides. Longer
    /// saves packets, and senders react later. It should be less than dcqcn-alpha-timer.
    cnp_interval: u64 = 50 * US, CNP_INTERVAL "cnp-interval"
        Opt::number(times(US, S)).from("DCQCN section 3.1");

    /// g of dcqcn: how far one notification moves alpha, which says how congested the path was
    /// lately. More forgets faster, and cuts harder.
    dcqcn_g: u32 = 3_906_250, DCQCN_G "dcqcn-g"
        shares(1, WHOLE).from("1/256: DCQCN figure 14");

    /// K of dcqcn: after so long without a notification alpha decays. Longer remembers congestion
    /// for longer.
    dcqcn_alpha_timer: u64 = 55 * US, DCQCN_ALPHA_TIMER "dcqcn-alpha-timer"
        Opt::number(times(US, S)).from("DCQCN section 3.1");

    /// T of dcqcn: after so long without a notification the rate goes up a step. Longer is slower
    /// to take what others leave, and marks less.
    dcqcn_timer: u64 = 55 * US, DCQCN_TIMER "dcqcn-timer"
        Opt::number(times(US, S)).from("DCQCN section 5");

    /// B of dcqcn: after so many bytes the rate goes up a step, too. Less makes fast messages
    /// faster.
    dcqcn_byte_counter: u64 = 10_000_000, DCQCN_BYTE_COUNTER "dcqcn-byte-counter"
        Opt::number(Range::new(1 << 16, 1 << 40, Unit::Size)).from("DCQCN figure 14");

    /// F of dcqcn: so many steps halve the way back to the rate before the cut; others raise that
    /// rate, too. Fewer take more than was had before sooner.
    dcqcn_recovery_steps: u32 = 5, DCQCN_RECOVERY_STEPS "dcqcn-recovery-steps"
        count(1, 100, "steps").from("DCQCN section 3.1");

    /// R_AI of dcqcn: by so much a step of additive increase goes up. More is faster to take what
    /// is free, and makes longer queues where many messages meet.
    dcqcn_additive: u64 = 5_000_000, DCQCN_ADDITIVE64 "dcqcn-additive"
        Opt::number(limits::LINK).from("DCQCN figure 14");

    /// R_HAI of dcqcn: the same in hyper increase, once more with each step.
    dcqcn_hyper: u64 = 6_250_000, DCQCN_HYPER64 "dcqcn-hyper"
        Opt::number(limits::LINK).from("QCN");

    /// How much harder dcqcn cuts with tcd on, in thousandths. More makes room sooner for those
    /// that are not to blame. A first cut is by half of this: 2000 and more leave no more than
    /// minimum-rate, from which a message is slow to come back.
    dcqcn_tcd_cut: u32 = 1500, DCQCN_TCD_CUT "dcqcn-tcd-cut"
        count(1000, 4000, "thousandths").from("ours; TCD has no number for DCQCN");

    /// T_low of timely: below this round-trip time the rate goes up whatever the gradient is. It
    /// has to be more than that of the idle network, and must not be above timely-high.
    timely_low: u64 = 50 * US, TIMELY_LOW "timely-low"
        Opt::number(times(US, S)).from("TIMELY section 4.3");

    /// T_high of timely: above this round-trip time the rate goes down whatever the gradient is.
    /// Less bounds queues more closely.
    timely_high: u64 = 500 * US, TIMELY_HIGH "timely-high"
        Opt::number(times(US, S)).from("TIMELY section 4.3");

    /// minRTT of timely, which the gradient is divided by. Less reacts harder to what changes.
    timely_min_rtt: u64 = 20 * US, TIMELY_MIN_RTT "timely-min-rtt"
        Opt::number(times(US, S)).from("TIMELY section 4.3");

    /// alpha of timely, in thousandths: the weight of the newest difference of two round-trip times
    /// in the gradient. More reacts sooner, and shares less evenly.
    timely_weight: u32 = 125, TIMELY_WEIGHT "timely-weight"
        count(1, 1000, "thousandths")
            .from("TIMELY says no number; ECN or Delay (CoNEXT 2016) has 875");

    /// beta of timely, in thousandths: more cuts harder.
    timely_beta: u32 = 800, TIMELY_BETA "timely-beta"
        count(1, 4000, "thousandths").from("TIMELY section 4.3");

    /// delta of timely: by so much a segment raises the rate. More is faster to take what is free,
    /// and makes longer queues where many messages meet.
    timely_additive: u64 = 1_250_000, TIMELY_ADDITIVE64 "timely-additive"
        Opt::number(limits::LINK).from("TIMELY section 4.3");

    /// With timely: after so many segments in a row whose gradient is negative the rate goes up
    /// faster. Fewer take sooner what others leave.
    timely_hyper_after: u32 = 5, TIMELY_HYPER_AFTER "timely-hyper-after"
        count(1, 255, "segments").from("TIMELY section 4.3");

    /// N of timely: how many times faster.
    timely_hyper_factor: u32 = 5, TIMELY_HYPER_FACTOR "timely-hyper-factor"
        count(1, 255, "times").from("TIMELY section 4.3");

    /// beta of timely with tcd on, in thousandths.
    timely_tcd_beta: u32 = 1600, TIMELY_TCD_BETA "timely-tcd-beta"
        count(1, 4000, "thousandths")
            .from("Congestion Detection in Lossless Networks, section 5.2.3");

    /// The most that one segment takes of the rate with timely, in thousandths. 1000 is algorithm
    /// 1, which has no limit: one step of the round-trip time then leaves the lowest rate.
    timely_max_cut: u32 = 500, TIMELY_MAX_CUT "timely-max-cut"
        count(1, 1000, "thousandths").from("the code that TIMELY's authors published");

    /// How many packets a token is for at most. What it draws passes the sender, qdiscs and the
    /// receiver as one, and there are fewer tokens, so that more of them cost less work for each
    /// byte. They come in a row: data queues in ports may be longer by as many packets. auto: with
    /// policy top as many as the link carries in 10 us, which is one up to 2.4 Gbit/s and 8 from 10
    /// Gbit/s on, while one message alone wants tokens, none of its own are lost, its sender is
    /// never silent for half of rto, and nothing has come without tokens for twenty base-rtt;
    /// otherwise one, as in the papers, since others may need the room of ports, and for ten
    /// seconds after data that it asked for so was lost. It is one as long as a sender has not
    /// shown its address, and no more than a quarter of the packets that came of the message, or
    /// that its rate asks for in a round trip. Ports read it from the header: what filters, or a
    /// DSCP alone, make a token is one to them, so that too much passes where several messages
    /// meet, and data is dropped: set 1 there. More than 8 only where ports have a token-limit of
    /// at least twice as many: a token that does not fit is dropped. All hosts of a network should
    /// have the same: who asks for one at a time gets more of a shared port than who always asks
    /// for 8.
    worth: u32 = 0, WORTH "worth"
        Opt::number_or(
            Range::new(1, header::MAX_WORTH as u64, Unit::Count("packets")),
            &[("auto", 0)],
        );

    reported {
        /// The link rate in force.
        u64, LINK_IN_FORCE "link-in-force" Opt::number(limits::LINK);
    }
}

/// The most that may be asked for where the network namespace does not belong to the initial user
/// namespace, whose root anybody may be.
pub const CAPS: &[(u16, u64)] = &[
    (number::MAX_INCOMING, 4096),
    (number::MAX_OUTGOING, 4096),
    (number::MAX_PER_PEER, 1024),
    (number::MAX_HALF_OPEN, 1024),
    (number::MAX_REMEMBERED, 65_536),
];

/// All options, in the order of their numbers.
pub const OPTIONS: &[Opt] = <Config as Table>::OPTIONS;

impl Config {
    /// Checks every option, and works out what they come to.
    ///
    /// `device_rate` is the speed of the fastest device, in bytes/s; it counts where
    /// [`Config::link`] is 0, for devices whose own is not known. Without it, that is
    /// [`USUAL_LINK`].
    pub fn validate(&self, device_rate: Option<u64>) -> Result<Resolved, Refusal> {
        self.check()?;
        self.ordered(number::INITIAL_RATE, number::MIN_RATE, Problem::Below)?;
        self.ordered(number::WEIGHT_INITIAL, number::WEIGHT_MIN, Problem::Below)?;
        self.ordered(number::WEIGHT_MAX, number::WEIGHT_INITIAL, Problem::Below)?;
        self.ordered(number::RTO, number::TIMEOUT, Problem::Above)?;
        self.ordered(number::TIMELY_LOW, number::TIMELY_HIGH, Problem::Above)?;
        self.suits()?;
        if self.security == uapi::SECURITY_PSK && self.key == 0 {
            return Err(Refusal {
                option: "key",
                what: Problem::Said("security psk needs one, of 1..2147483647"),
            });
        }
        // All shares of all links are rates; but a fault in that must not be a panic.
        self.resolve(device_rate).ok_or(Refusal {
            option: "link",
            what: Problem::Said("no rate can be made of it"),
        })
    }

    /// A request has changed what was `given`. What is only for another policy than is in force
    /// then is as at first again, unless it was given: [`Config::validate`] refuses that. So
    /// nothing that has no effect is shown, and what is shown can be set.
    pub fn settle(&mut self, given: Given) {
        for row in OPTIONS {
            if !self.is_for_policy(row.number) && !given.has(row.number) {
                if let Some(value) = Self::DEFAULT.get(row.number) {
                    self.set(row.number, value);
                }
            }
        }
    }

    /// Whether an option has any effect with the policy.
    fn is_for_policy(&self, number: u16) -> bool {
        let (dcqcn, timely) = (
            self.policy == uapi::POLICY_DCQCN,
            self.policy == uapi::POLICY_TIMELY,
        );
        match number {
            number::TCD | number::MINIMUM_RATE64 => dcqcn || timely,
            number::DCQCN_G..=number::DCQCN_TCD_CUT => dcqcn,
            number::TIMELY_LOW..=number::TIMELY_MAX_CUT => timely,
            _ => true,
        }
    }

    /// Refuses the first option that is for another policy, and not what it is at first.
    fn suits(&self) -> Result<(), Refusal> {
        let unfit = |row: &&Opt| {
            !self.is_for_policy(row.number) && self.get(row.number) != Self::DEFAULT.get(row.number)
        };
        let Some(row) = OPTIONS.iter().find(unfit) else {
            return Ok(());
        };
        Err(row.refuse(Problem::Said(match row.number {
            number::DCQCN_G..=number::DCQCN_TCD_CUT => "only with policy dcqcn",
            number::TIMELY_LOW..=number::TIMELY_MAX_CUT => "only with policy timely",
            _ => "only with policy dcqcn or timely",
        })))
    }

    /// Checks the limits against [`CAPS`].
    ///
    /// # Errors
    /// The first option that is above its cap.
    pub fn within_caps(&self) -> Result<(), Refusal> {
        for (number, cap) in CAPS {
            let value = self.get(*number).and_then(|value| value.number());
            let (Some(row), Some(value)) = (Self::option(*number), value) else {
                continue;
            };
            if value > *cap {
                return Err(row.refuse(Problem::Capped(value, *cap)));
            }
        }
        Ok(())
    }

    /// Refuses `one` if it is `wrong` compared with `other`.
    fn ordered(
        &self,
        one: u16,
        other: u16,
        wrong: fn(u64, &'static str, u64, Unit) -> Problem,
    ) -> Result<(), Refusal> {
        let value = |number| self.get(number).and_then(|value| value.number());
        let (Some(row), Some(limit)) = (Self::option(one), Self::option(other)) else {
            return Ok(());
        };
        let (one, other) = (value(one).unwrap_or(0), value(other).unwrap_or(0));
        let unit = row.form.range().map_or(Unit::Count(""), |range| range.unit);
        let what = wrong(one, limit.name, other, unit);
        let is_wrong = match what {
            Problem::Below(..) => one < other,
            _ => one > other,
        };
        if is_wrong {
            return Err(row.refuse(what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
