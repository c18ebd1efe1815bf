// SPDX-License-Identifier: GPL-2.0
//! The engine: sends messages when they are due, reads them as they come, and measures the time.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};

use super::channel::Channel;
use super::{Alone, Done, Message, Place, Transport};
use crate::clock;

/// Bytes that are read at once.
const READ: usize = 1 << 20;
/// ns.
const MS: u64 = 1_000_000;
/// The timer's token among epoll's events.
const TIMER: u64 = u64::MAX;

/// A message under way.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Its place in the list.
    message: usize,
    /// Bytes that no socket has taken yet.
    unsent: u64,
    /// Bytes that have not been read.
    unread: u64,
}

/// A channel and what it carries.
#[derive(Debug)]
struct Slot {
    channel: Channel,
    job: Option<Job>,
    /// Whether epoll waits for its sender.
    blocked: bool,
}

/// Sockets between hosts, for messages.
#[derive(Debug)]
pub struct Messages {
    epoll: Epoll,
    timer: TimerFd,
    /// `None`: a channel that was given up.
    slots: Vec<Option<Slot>>,
    /// Idle channels, by their hosts. The last used is used first: its estimates of the network are
    /// the freshest.
    idle: BTreeMap<(usize, usize), Vec<usize>>,
    /// Messages that wait for a channel.
    waiting: BTreeMap<(usize, usize), VecDeque<usize>>,
    /// How often to say that time passes, ns, to whoever takes silence for a fault.
    tells: Option<u64>,
    /// Of zeros, as long as the longest message.
    zeros: Vec<u8>,
    buffer: Vec<u8>,
}

/// The state of a run.
struct Run<'a> {
    messages: &'a [Message],
    /// The monotonic clock at its start.
    start: u64,
    done: Vec<Done>,
    left: usize,
}

impl Messages {
    /// Opens `channels` for each of the pairs of `places`: so many messages a pair can have under
    /// way at once.
    ///
    /// # Errors
    /// When there is no such socket, or no connection comes about.
    pub fn open(
        transport: Transport,
        places: &[Place<'_>],
        pairs: &[(usize, usize)],
        channels: usize,
    ) -> Result<Self> {
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)
            .context("making a timer")?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("making an epoll")?;
        let event = EpollEvent::new(EpollFlags::EPOLLIN, TIMER);
        epoll
            .add(timer.as_fd(), event)
            .context("watching a timer")?;
        let mut all = Self {
            epoll,
            timer,
            slots: Vec::new(),
            idle: BTreeMap::new(),
            waiting: BTreeMap::new(),
            tells: None,
            zeros: Vec::new(),
            buffer: vec![0; READ],
        };
        for &pair in pairs {
            for channel in Channel::open(transport, places, pair, channels)? {
                let index = all.slots.len();
                let event = EpollEvent::new(EpollFlags::EPOLLIN, receiving(index));
                all.epoll
                    .add(&channel.receiver, event)
                    .context("watching a socket")?;
                all.slots.push(Some(Slot {
                    channel,
                    job: None,
                    blocked: false,
                }));
                all.idle.entry(pair).or_default().push(index);
            }
        }
        Ok(all)
    }

    /// Runs say on the terminal that so much time has passed, again and again.
    pub fn tell_every(&mut self, time: Duration) {
        self.tells = Some(clock::nanos(time));
    }

    /// Sends messages, each at its time after the monotonic clock shows `start`, and waits until
    /// all have been read, at most until `patience` after the start. Messages that have not arrived
    /// by then are given up. The result is in the order of `messages`.
    ///
    /// # Errors
    /// When a socket fails, or there is no channel between two hosts.
    pub fn run(
        &mut self,
        messages: &[Message],
        start: u64,
        patience: Duration,
    ) -> Result<Vec<Done>> {
        clock::exact_timers();
        let longest = messages.iter().map(|m| m.bytes).max().unwrap_or(0);
        let longest = usize::try_from(longest).context("a message is longer than memory")?;
        if self.zeros.len() < longest {
            self.zeros = vec![0; longest];
        }
        let mut run = Run {
            messages,
            start,
            done: messages
                .iter()
                .map(|&message| Done {
                    message,
                    took: None,
                })
                .collect(),
            left: messages.len(),
        };
        let mut order: VecDeque<usize> = (0..messages.len()).collect();
        order
            .make_contiguous()
            .sort_by_key(|&index| messages[index].at);
        let deadline = start.saturating_add(clock::nanos(patience));
        let mut events = [EpollEvent::empty(); 128];
        let mut tells_at = self.tells.map(|every| start.saturating_add(every));
        while run.left > 0 {
            let mut wake = deadline;
            while let Some(&next) = order.front() {
                let due = start.saturating_add(messages[next].at);
                if due > clock::monotonic() {
                    wake = wake.min(due);
                    break;
                }
                order.pop_front();
                self.begin(&mut run, next)?;
            }
            let now = clock::monotonic();
            if now >= deadline {
                break;
            }
            if let Some(at) = tells_at.filter(|at| now >= *at) {
                println!(
                    "{} ms of at most {}",
                    (at - start) / MS,
                    patience.as_millis()
                );
                tells_at = self.tells.map(|every| at.saturating_add(every));
            }
            // An epoll's own timeout counts milliseconds.
            self.wake_at(wake)?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::NONE) {
                Err(nix::errno::Errno::EINTR) => 0,
                count => count.context("waiting for sockets")?,
            };
            for event in &events[..count] {
                match event.data() {
                    TIMER => {
                        self.timer.wait().context("reading a timer")?;
                    }
                    word if word % 2 == 0 => self.receive(&mut run, index_of(word))?,
                    word => self.send(&run, index_of(word))?,
                }
            }
        }
        self.give_up();
        Ok(run.done)
    }

    /// Measures the times of messages of these lengths on the idle network, one after the other
    /// with a pause between.
    ///
    /// # Errors
    /// As [`Messages::run`], and when one takes longer than `patience`.
    pub fn alone(
        &mut self,
        (from, to): (usize, usize),
        lengths: &[u64],
        pause: Duration,
        patience: Duration,
    ) -> Result<Alone> {
        let mut measured = Vec::new();
        for &bytes in lengths {
            let start = clock::monotonic() + clock::nanos(pause);
            let done = self.run(&[Message::new(from, to, bytes)], start, pause + patience)?;
            let took = done.first().and_then(|done| done.took);
            let took = took.with_context(|| {
                format!("{bytes} bytes did not arrive in {patience:?} on an idle network")
            })?;
            measured.push((bytes, took));
        }
        Ok(Alone::new(measured))
    }

    fn wake_at(&self, when: u64) -> Result<()> {
        let when = TimeSpec::nanoseconds(i64::try_from(when).unwrap_or(i64::MAX));
        self.timer
            .set(
                Expiration::OneShot(when),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )
            .context("setting a timer")
    }

    /// A message is due.
    fn begin(&mut self, run: &mut Run<'_>, message: usize) -> Result<()> {
        let pair = (run.messages[message].from, run.messages[message].to);
        let idle = self
            .idle
            .get_mut(&pair)
            .with_context(|| format!("there is no channel from host {} to {}", pair.0, pair.1))?;
        match idle.pop() {
            Some(index) => self.carry(run, index, message),
            None => {
                self.waiting.entry(pair).or_default().push_back(message);
                Ok(())
            }
        }
    }

    /// An idle channel gets a message.
    fn carry(&mut self, run: &Run<'_>, index: usize, message: usize) -> Result<()> {
        let Some(Some(slot)) = self.slots.get_mut(index) else {
            return Ok(());
        };
        let Message {
            bytes, priority, ..
        } = run.messages[message];
        slot.channel.prepare(bytes, priority)?;
        slot.job = Some(Job {
            message,
            unsent: bytes,
            unread: bytes,
        });
        self.send(run, index)
    }

    /// Writes as much as the socket takes.
    fn send(&mut self, run: &Run<'_>, index: usize) -> Result<()> {
        let Some(Some(slot)) = self.slots.get_mut(index) else {
            return Ok(());
        };
        let Some(job) = &mut slot.job else {
            return Ok(());
        };
        if job.unsent > 0 {
            // The slice is as long as the longest message. The socket takes the rest when epoll
            // says so.
            let sent = slot.channel.send(&self.zeros[..job.unsent as usize])?;
            job.unsent = job.unsent.checked_sub(sent).with_context(|| {
                format!(
                    "of {:?} more was sent than there is",
                    run.messages[job.message]
                )
            })?;
        }
        let blocked = job.unsent > 0;
        if blocked != slot.blocked {
            slot.blocked = blocked;
            let event = EpollEvent::new(EpollFlags::EPOLLOUT, sending(index));
            if blocked {
                self.epoll.add(&slot.channel.sender, event)
            } else {
                self.epoll.delete(&slot.channel.sender)
            }
            .context("watching a sender")?;
        }
        Ok(())
    }

    /// Reads what has come.
    fn receive(&mut self, run: &mut Run<'_>, index: usize) -> Result<()> {
        let Some(Some(slot)) = self.slots.get_mut(index) else {
            return Ok(());
        };
        let Some(job) = &mut slot.job else {
            let read = slot.channel.receive(0, &mut self.buffer)?;
            ensure!(read == 0, "{read} bytes came that nobody has sent");
            return Ok(());
        };
        // Only once: if there is more, epoll says so again. Reading until nothing is left would
        // cost a failing call, which virtual time charges for: at 100 Gbit/s the reader would never
        // come to rest.
        job.unread -= slot.channel.receive(job.unread, &mut self.buffer)?;
        if job.unread > 0 {
            return Ok(());
        }
        let message = job.message;
        let done = &mut run.done[message];
        let asked = run.start.saturating_add(done.message.at);
        done.took = Some(clock::monotonic().saturating_sub(asked));
        run.left -= 1;
        ensure!(
            job.unsent == 0,
            "{:?} was read before it was sent",
            done.message
        );
        slot.job = None;
        let pair = (slot.channel.from, slot.channel.to);
        match self.waiting.get_mut(&pair).and_then(VecDeque::pop_front) {
            Some(next) => self.carry(run, index, next),
            None => {
                self.idle.entry(pair).or_default().push(index);
                Ok(())
            }
        }
    }

    /// Closes channels with a message that did not arrive in time.
    fn give_up(&mut self) {
        self.waiting.clear();
        for slot in &mut self.slots {
            slot.take_if(|slot| slot.job.is_some());
        }
    }
}

const fn receiving(index: usize) -> u64 {
    index as u64 * 2
}

const fn sending(index: usize) -> u64 {
    index as u64 * 2 + 1
}

const fn index_of(word: u64) -> usize {
    (word / 2) as usize
}
