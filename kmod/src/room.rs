// SPDX-License-Identifier: GPL-2.0
//! A socket's send buffer: what each of its peers has of it, and who waits for more.

use crate::memory::atomic;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use knet_transport::SockAddress;
use turnstile_core::transport::net::Net;
use turnstile_core::transport::room::left;

/// An address, its scope, and a port or [`ALL`] of them; or a network and [`NET`].
type Key = (u128, u32, u32);

/// Instead of a port: all peers of the address.
const ALL: u32 = u32::MAX;
/// All of the network.
const NET: u32 = u32::MAX - 1;

/// The bytes of a send buffer that its peers have.
pub(crate) struct Peers {
    /// All that have any.
    all: RBTree<Key, u32>,
    /// The latest peer, and what it has, all of its address, and all of its network: mostly the
    /// next one is the same, and nothing is looked for then. They have places in the tree, also if
    /// they have nothing, but what is noted there is old.
    last: Option<(SockAddress, [u32; 3])>,
}

fn keys(to: &SockAddress) -> [Key; 3] {
    let ip = u128::from_be_bytes(to.ip);
    [
        (ip, to.scope, to.port.into()),
        (ip, to.scope, ALL),
        (Net::of_ip(to.ip, 24, 48).number(), to.scope, NET),
    ]
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self {
            all: RBTree::new(),
            last: None,
        }
    }

    /// What a peer has, all of its address, and all of its network.
    pub(crate) fn of(&self, to: &SockAddress) -> [u32; 3] {
        match &self.last {
            Some((last, has)) if last == to => *has,
            _ => self.of_another(to),
        }
    }

    /// The same of another one than the latest, which may share address or network with it.
    #[inline(never)]
    fn of_another(&self, to: &SockAddress) -> [u32; 3] {
        keys(to).map(|key| {
            let last = self.last.iter();
            let mut last = last.flat_map(|(last, has)| keys(last).into_iter().zip(*has));
            match last.find(|(at, _)| *at == key) {
                Some((_, has)) => has,
                None => self.all.get(&key).copied().unwrap_or(0),
            }
        })
    }

    /// There will be a message to a peer: then [`Peers::more`] finds its place. No memory: an
    /// error.
    pub(crate) fn prepare(&mut self, to: &SockAddress) -> Result {
        if self.last.is_some_and(|(last, _)| last == *to) {
            return Ok(());
        }
        self.put_back();
        for key in keys(to) {
            if self.all.get(&key).is_none() {
                if let Err(error) = self.all.try_create_and_insert(key, 0, atomic()) {
                    self.has(to);
                    self.put_back();
                    return Err(error);
                }
            }
        }
        self.has(to);
        Ok(())
    }

    /// A peer has more.
    pub(crate) fn more(&mut self, to: &SockAddress, bytes: u32) {
        if let Some(has) = self.of_mut(to) {
            *has = has.map(|has| has.saturating_add(bytes));
        }
    }

    /// A peer has less. `true`: nothing any more.
    pub(crate) fn less(&mut self, to: &SockAddress, bytes: u32) -> bool {
        let Some(has) = self.of_mut(to) else {
            return false;
        };
        *has = has.map(|has| has.saturating_sub(bytes));
        let [peer, _, _] = *has;
        peer == 0
    }

    /// What a peer has, its address and its network, which is the latest now. `None`: it has
    /// nothing.
    fn of_mut(&mut self, to: &SockAddress) -> Option<&mut [u32; 3]> {
        if self.last.is_none_or(|(last, _)| last != *to) {
            self.put_back();
            let [peer, _, _] = keys(to);
            self.all.get(&peer)?;
            self.has(to);
        }
        self.last.as_mut().map(|(_, has)| has)
    }

    /// What a peer has is looked for once.
    fn has(&mut self, to: &SockAddress) {
        let has = keys(to).map(|key| self.all.get(&key).copied().unwrap_or(0));
        self.last = Some((*to, has));
    }

    /// What the latest peer has is noted in the tree, and which has nothing is forgotten.
    #[inline(never)]
    fn put_back(&mut self) {
        let Some((last, has)) = self.last.take() else {
            return;
        };
        for (key, has) in keys(&last).into_iter().zip(has) {
            if has == 0 {
                self.all.remove(&key);
            } else if let Some(at) = self.all.get_mut(&key) {
                *at = has;
            }
        }
    }
}

/// Bytes that are kept beside a send buffer for a purpose, shared as it is.
pub(crate) struct Pool {
    taken: u32,
    peers: Peers,
}

/// What a message's bytes are of. Those that come whole need not wait behind what fills the
/// buffer.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Part {
    /// Of the send buffer.
    Buffer,
    /// Of what is spared for short messages.
    Short,
    /// Of what is spared for longer ones, which leave the short ones theirs.
    Longer,
}

/// Those of a socket.
pub(crate) struct Pools {
    short: Pool,
    longer: Pool,
    /// What is for messages whose receivers wait for more of them.
    pub(crate) beside: Pool,
}

impl Pools {
    pub(crate) fn new() -> Self {
        Self {
            short: Pool::new(),
            longer: Pool::new(),
            beside: Pool::new(),
        }
    }

    /// What is spared for messages of that part; `None`: nothing, they are of the buffer.
    pub(crate) fn spared(&mut self, part: Part) -> Option<&mut Pool> {
        match part {
            Part::Buffer => None,
            Part::Short => Some(&mut self.short),
            Part::Longer => Some(&mut self.longer),
        }
    }

    /// What all messages have of what is spared.
    pub(crate) fn taken_of_spared(&self) -> u32 {
        self.short.taken.saturating_add(self.longer.taken)
    }

    /// What is left for a peer's short messages, of so many bytes; or for longer ones.
    pub(crate) fn left_of_spared(&self, short: bool, all: u32, to: Option<&SockAddress>) -> u32 {
        match short {
            true => self.short.left(all, to),
            false => self.longer.left(all, to),
        }
    }
}

impl Pool {
    fn new() -> Self {
        Self {
            taken: 0,
            peers: Peers::new(),
        }
    }

    /// What all have of it.
    pub(crate) fn taken(&self) -> u32 {
        self.taken
    }

    /// What is left of so many bytes for a peer; `None`: for one that has all for itself.
    pub(crate) fn left(&self, all: u32, to: Option<&SockAddress>) -> u32 {
        let Some(to) = to else {
            return all.saturating_sub(self.taken);
        };
        let [peer, host, net] = self.peers.of(to);
        // As of the buffer, all together have twice as much.
        let free = all.saturating_mul(2).saturating_sub(self.taken);
        left(free, peer, host, net)
    }

    /// A peer takes bytes of it. No memory to note that: an error.
    pub(crate) fn take(&mut self, to: Option<&SockAddress>, bytes: u32) -> Result {
        if let Some(to) = to {
            self.peers.prepare(to)?;
            self.peers.more(to, bytes);
        }
        self.taken = self.taken.saturating_add(bytes);
        Ok(())
    }

    /// It has them no more.
    pub(crate) fn give_back(&mut self, to: Option<&SockAddress>, bytes: u32) {
        self.taken = self.taken.saturating_sub(bytes);
        if let Some(to) = to {
            self.peers.less(to, bytes);
        }
    }
}

/// What a message takes of a send buffer.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Share {
    /// The peer of whose part. `None`: a peer that has all for itself.
    pub(crate) to: Option<SockAddress>,
    /// What its bytes are of.
    pub(crate) part: Part,
}

/// Room that somebody waits for.
pub(crate) struct Wanted {
    /// Whom it is for. `None`: a peer that has all for itself.
    pub(crate) share: Option<SockAddress>,
    /// For any peer: several wait, for different ones.
    pub(crate) several: bool,
    /// Any that comes free.
    pub(crate) any: bool,
    /// Bytes; the fewest, if several wait.
    pub(crate) bytes: u32,
}

/// What a peer may have of a send buffer.
pub(crate) struct Room {
    /// If nothing for it were under way.
    pub(crate) most: u32,
    /// More than it has.
    pub(crate) free: u32,
}
