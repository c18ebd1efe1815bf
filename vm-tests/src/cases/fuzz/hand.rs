// SPDX-License-Identifier: GPL-2.0
//! What threads have in their hands: sockets that all of them use, and means of each one's own.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;

use crate::cases::transport::sealed::psk;
use crate::rng::Rng;
use crate::topology::Net;

use super::generic::Family;
use super::packets::Wire;
use super::programs::Groups;
use super::qdiscs::Devices;
use super::tally::Tally;
use super::values::Places;
use super::THREADS;

/// Sockets that all threads use, at once.
const MOST: usize = 64;
/// Calls that each thread remembers.
const REMEMBERED: usize = 25;

/// A socket of the transport. Who has it may use it, also when another thread has closed it for
/// the rest.
#[derive(Debug)]
pub(super) struct Shelved {
    pub(super) fd: OwnedFd,
    /// `AF_INET` or `AF_INET6`.
    pub(super) domain: i32,
}

impl Shelved {
    pub(super) fn raw(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

/// What all threads of a round have.
pub(super) struct Shared {
    shelf: Mutex<Vec<Arc<Shelved>>>,
    /// Numbers of messages that came.
    messages: Mutex<VecDeque<u64>>,
    calls: Vec<Mutex<VecDeque<String>>>,
    pub(super) groups: Groups,
    pub(super) places: Places,
    /// Keys of sealed messages.
    pub(super) keys: [u32; 2],
    /// All are to end.
    pub(super) stop: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn new(net: &Net) -> Result<Self> {
        Ok(Self {
            shelf: Mutex::default(),
            messages: Mutex::default(),
            calls: (0..THREADS).map(|_| Mutex::default()).collect(),
            groups: Groups::new()?,
            keys: [psk("fuzz-1", 1)?, psk("fuzz-2", 2)?],
            places: Places {
                v4: [net.hosts[0].v4, net.hosts[1].v4],
                v6: [net.hosts[0].v6, net.hosts[1].v6],
            },
            stop: AtomicBool::new(false),
        })
    }

    /// One of the sockets, if there is any.
    pub(super) fn pick(&self, rng: &mut Rng) -> Option<Arc<Shelved>> {
        let shelf = locked(&self.shelf);
        match shelf.len() {
            0 => None,
            len => Some(shelf[rng.index(len)].clone()),
        }
    }

    /// Puts a new one there; if there are many, one of them goes.
    pub(super) fn shelve(&self, rng: &mut Rng, socket: Shelved) {
        let mut shelf = locked(&self.shelf);
        let gone = (shelf.len() >= MOST).then(|| shelf.swap_remove(rng.index(MOST)));
        shelf.push(Arc::new(socket));
        drop(shelf);
        // Closed without the lock: that may take a while.
        drop(gone);
    }

    /// Takes one away.
    pub(super) fn unshelve(&self, rng: &mut Rng) -> bool {
        let mut shelf = locked(&self.shelf);
        let gone = match shelf.len() {
            0 => None,
            len => Some(shelf.swap_remove(rng.index(len))),
        };
        drop(shelf);
        gone.is_some()
    }

    /// A message of this number came.
    pub(super) fn came(&self, number: u64) {
        let mut messages = locked(&self.messages);
        messages.push_back(number);
        if messages.len() > 16 {
            messages.pop_front();
        }
    }

    /// The number of a message that came.
    pub(super) fn message(&self, rng: &mut Rng) -> Option<u64> {
        let messages = locked(&self.messages);
        match messages.len() {
            0 => None,
            len => Some(messages[rng.index(len)]),
        }
    }

    /// The last calls of each thread, the newest last.
    pub(super) fn last_calls(&self) -> String {
        let mut text = String::new();
        for (thread, calls) in self.calls.iter().enumerate() {
            for call in locked(calls).iter() {
                let _ = writeln!(text, "  thread {thread}: {call}");
            }
        }
        text
    }
}

/// What one thread has.
pub(super) struct Hand<'a> {
    number: usize,
    /// The host that it is in: 0 or 1.
    pub(super) side: usize,
    pub(super) rng: Rng,
    pub(super) tally: Tally,
    pub(super) shared: &'a Shared,
    pub(super) family: Family,
    pub(super) devices: Devices,
    pub(super) wire: Wire,
}

impl<'a> Hand<'a> {
    /// In the namespace that the calling thread is in.
    pub(super) fn new(number: usize, seed: u64, net: &Net, shared: &'a Shared) -> Result<Self> {
        let side = number % net.hosts.len();
        Ok(Self {
            number,
            side,
            rng: Rng::new(seed, &format!("thread {number}")),
            tally: Tally::default(),
            shared,
            family: Family::open()?,
            devices: Devices::open(&net.hosts[side])?,
            wire: Wire::open()?,
        })
    }

    /// Remembers a call that is made next.
    pub(super) fn about_to(&self, call: String) {
        let mut calls = locked(&self.shared.calls[self.number]);
        calls.push_back(call);
        if calls.len() > REMEMBERED {
            calls.pop_front();
        }
    }
}
