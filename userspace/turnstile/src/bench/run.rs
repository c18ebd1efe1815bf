// SPDX-License-Identifier: GPL-2.0
//! Sends what is planned.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::plan::{Job, Pattern};
use super::worker::Worker;
use super::Over;

/// A message that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    /// What was planned.
    pub(crate) job: Job,
    /// When it began, from the beginning of the run.
    pub(crate) began: Duration,
    /// How long it took, or why it failed.
    pub(crate) took: Result<Duration, String>,
}

/// A run's messages, in the order of the plan.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) samples: Vec<Sample>,
    /// From the first message's begin to the last one's end.
    pub(crate) lasted: Duration,
}

/// What the threads share.
struct Shared<'a> {
    over: &'a Over,
    to: &'a [SocketAddr],
    start: Instant,
    bar: &'a ProgressBar,
    state: Mutex<State>,
    /// There is work, or none will come.
    work: Condvar,
    /// Something was done.
    done: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(usize, Job)>,
    idle: usize,
    threads: usize,
    /// Sent, by place in the plan.
    samples: Vec<Option<Sample>>,
    finished: usize,
    closed: bool,
}

impl Shared<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread: sends what is in the queue, until no more will come.
    fn work(&self) {
        let mut worker = Worker::new(self.over);
        let mut state = self.lock();
        loop {
            if let Some((at, job)) = state.queue.pop_front() {
                drop(state);
                let sample = self.send(&mut worker, job);
                state = self.lock();
                state.samples[at] = Some(sample);
                state.finished += 1;
                self.bar.inc(1);
                self.done.notify_all();
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    fn send(&self, worker: &mut Worker, job: Job) -> Sample {
        let to = self.to[job.to];
        let prepared = worker.prepare(to);
        let began = self.start.elapsed();
        let took = prepared.and_then(|()| worker.send(to, job.size));
        Sample { job, began, took }
    }

    /// Hands a message to a thread; to a new one, if all others have theirs and no more than `most`
    /// are there.
    fn hand_out<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        at: usize,
        job: Job,
        most: usize,
    ) {
        let mut state = self.lock();
        state.queue.push_back((at, job));
        if state.idle < state.queue.len() && state.threads < most {
            state.threads += 1;
            scope.spawn(|| self.work());
        }
        self.work.notify_one();
    }

    /// Waits until so many messages are done.
    fn wait(&self, finished: usize) {
        let mut state = self.lock();
        while state.finished < finished {
            state = self
                .done
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Sends all of `jobs`, with at most `most` messages under way at once.
pub(crate) fn run(
    pattern: Pattern,
    jobs: &[Job],
    most: usize,
    over: &Over,
    to: &[SocketAddr],
    bar: &ProgressBar,
) -> Run {
    let shared = Shared {
        over,
        to,
        start: Instant::now(),
        bar,
        state: Mutex::new(State {
            samples: vec![None; jobs.len()],
            ..State::default()
        }),
        work: Condvar::new(),
        done: Condvar::new(),
    };
    std::thread::scope(|scope| {
        for (at, job) in jobs.iter().enumerate() {
            match pattern {
                Pattern::Poisson => {
                    let early = job.at.saturating_sub(shared.start.elapsed());
                    if !early.is_zero() {
                        std::thread::sleep(early);
                    }
                }
                // A round begins when the one before it is done.
                Pattern::Incast if at > 0 && jobs[at - 1].round != job.round => shared.wait(at),
                _ => {}
            }
            shared.hand_out(scope, at, *job, most);
        }
        shared.wait(jobs.len());
        shared.lock().closed = true;
        shared.work.notify_all();
    });
    let state = shared
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let samples: Vec<Sample> = state.samples.into_iter().flatten().collect();
    let first = samples.iter().map(|sample| sample.began).min();
    let ends = samples.iter().map(|sample| {
        let took = sample.took.as_ref().copied().unwrap_or_default();
        sample.began + took
    });
    let last = ends.max().unwrap_or_default();
    Run {
        lasted: last.saturating_sub(first.unwrap_or_default()),
        samples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Arc;

    /// A server that counts how many messages it has at once, and keeps each for a while.
    fn server() -> (SocketAddr, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = most.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (mut connection, now, most) = (connection.unwrap(), now.clone(), most.clone());
                std::thread::spawn(move || {
                    let mut message = [0; 8 + 100];
                    while connection.read_exact(&mut message).is_ok() {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(20));
                        now.fetch_sub(1, Ordering::SeqCst);
                        connection.write_all(&[1]).unwrap();
                    }
                });
            }
        });
        (to, seen)
    }

    fn jobs(rounds: u32, each: u32) -> Vec<Job> {
        let job = |round| Job {
            at: Duration::ZERO,
            size: 100,
            to: 0,
            round,
        };
        (0..rounds)
            .flat_map(|round| (0..each).map(move |_| job(round)))
            .collect()
    }

    #[test]
    fn as_many_at_once_as_allowed_and_rounds_apart() {
        let over = Over::Tcp {
            congestion: String::new(),
            fresh: false,
        };
        let bar = ProgressBar::hidden();
        let (to, most) = server();
        let done = run(Pattern::Fixed, &jobs(1, 12), 3, &over, &[to], &bar);
        assert_eq!((done.samples.len(), most.load(Ordering::SeqCst)), (12, 3));
        assert!(done.samples.iter().all(|sample| sample.took.is_ok()));
        assert!(done.lasted >= Duration::from_millis(4 * 20));

        let (to, most) = server();
        let done = run(Pattern::Incast, &jobs(3, 4), 100, &over, &[to], &bar);
        assert_eq!(most.load(Ordering::SeqCst), 4);
        let end_of_first = done.samples[..4]
            .iter()
            .map(|s| s.began + *s.took.as_ref().unwrap())
            .max();
        assert!(done.samples[4..8]
            .iter()
            .all(|s| s.began >= end_of_first.unwrap() - Duration::from_millis(1)));
    }

    #[test]
    fn failures_are_kept() {
        let over = Over::Tcp {
            congestion: String::new(),
            fresh: false,
        };
        let nobody = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let done = run(
            Pattern::Fixed,
            &jobs(1, 2),
            1,
            &over,
            &[nobody],
            &ProgressBar::hidden(),
        );
        assert_eq!(done.samples.len(), 2);
        let why = done.samples[0].took.as_ref().unwrap_err();
        assert!(why.starts_with("cannot connect to 127.0.0.1:"), "{why}");
    }
}
