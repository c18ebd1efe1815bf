// SPDX-License-Identifier: GPL-2.0
//! The sockets of a namespace, and what they share.

use crate::buffer::Buffer;
use crate::keys::{Choice, Held, Keys, Own};
use crate::memory::atomic;
use crate::ports::Ports;
use crate::promotable::Promotable;
use crate::room::Pools;
use crate::socket::Socket;
use crate::waiting::Waiting;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation};
use knet_transport::{random, Sock};
use turnstile_core::transport::host::Sealing;
use turnstile_core::transport::room::left;
use turnstile_core::transport::seal::Psk;

/// The sockets of a namespace, by handle. Handles are not used again.
pub(crate) struct Sockets {
    all: RBTree<u64, Socket>,
    /// Their ports.
    pub(crate) ports: Ports,
    /// Those that wait for a place for a message.
    pub(crate) waiting: Waiting,
    /// The keys of sealed messages.
    pub(crate) keys: Keys,
    next: u64,
    /// Those of which a message may be given room.
    pub(crate) promotable: Promotable,
    /// By how much receive buffers have grown, bytes in the kernel's way of counting; and those of
    /// each user that has some.
    grown: u32,
    by_user: RBTree<u32, u32>,
    /// How many would grow, if there were more.
    stunted: u32,
}

/// A receive buffer, which is made on the stack.
// Not inlined, so that nothing else shares the stack with it.
#[inline(never)]
fn new_buffer(first: u32, most: u32) -> Result<KBox<Buffer>> {
    Ok(KBox::new(Buffer::new(first, most), atomic())?)
}

/// The same of what is kept beside a send buffer.
#[inline(never)]
fn new_pools() -> Result<KBox<Pools>> {
    Ok(KBox::new(Pools::new(), atomic())?)
}

impl Sockets {
    pub(crate) fn new() -> Self {
        Self {
            all: RBTree::new(),
            ports: Ports::new(random()),
            waiting: Waiting::default(),
            keys: Keys::new(),
            next: 1,
            promotable: Promotable::default(),
            grown: 0,
            by_user: RBTree::new(),
            stunted: 0,
        }
    }

    /// A socket is made, and gets its handle.
    /// Its receive buffer has the size `first`, and may have `most`.
    pub(crate) fn add(&mut self, sock: &Sock, first: u32, most: u32) -> Result {
        let handle = self.next;
        let place = RBTreeNodeReservation::new(atomic())?;
        let buffer = new_buffer(first, most)?;
        let socket = Socket::new(sock.hold(), buffer, new_pools()?);
        drop(self.all.insert(place.into_node(handle, socket)));
        self.next = handle.wrapping_add(1);
        sock.set_handle(handle);
        Ok(())
    }

    pub(crate) fn get(&self, handle: u64) -> Option<&Socket> {
        self.all.get(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: u64) -> Option<&mut Socket> {
        self.all.get_mut(&handle)
    }

    /// Tells a socket's budget how large the receive buffer is, and may be. `all`: what may be
    /// added to those of all sockets. A socket may have as much of it as it leaves, and all of a
    /// user's twice as much as they leave.
    pub(crate) fn measure(&mut self, handle: u64, all: u32) {
        let free = all.saturating_sub(self.grown);
        let Some(socket) = self.all.get_mut(&handle) else {
            return;
        };
        let now = socket.sock.receive_buffer();
        let buffer: &mut Buffer = &mut socket.buffer;
        if socket.sock.receive_is_set() {
            return buffer.budget.resize(now);
        }
        let more = match self.grown {
            0 => free / 2,
            _ => {
                let user = socket.sock.user();
                let user = self.by_user.get(&user).copied().unwrap_or(0);
                left(free, buffer.grown, user, user)
            }
        };
        let more = more.min(socket.sock.may_grow());
        let most = buffer.most.min(now.saturating_add(more));
        buffer.budget.grows(now, buffer.first, most);
    }

    /// Makes a socket's receive buffer as large as its budget wants it.
    pub(crate) fn resize(&mut self, handle: u64) {
        let Some(socket) = self.all.get_mut(&handle).filter(|it| !it.closed) else {
            return;
        };
        let (sock, buffer) = (&socket.sock, &socket.buffer);
        let budget = &buffer.budget;
        if buffer.grown == 0 && !buffer.stunted && budget.is_at_rest() {
            return;
        }
        let now = sock.receive_buffer();
        let is_set = sock.receive_is_set();
        let mut grown = 0;
        if !is_set {
            let wanted = budget.total().saturating_mul(2);
            if wanted != now {
                sock.resize_receive(now, wanted, buffer.first);
            }
            grown = wanted.saturating_sub(buffer.first);
        } else if buffer.grown != 0 {
            // What it had grown by is others', unless it keeps it (`SO_BUF_LOCK`), and as far as
            // messages hold it that were not read.
            let kept = now.max(budget.promised());
            sock.resize_receive(now, kept, buffer.first);
            grown = buffer.grown.min(kept.saturating_sub(buffer.first));
        }
        let waits = budget.is_wanted() || budget.exclusive().is_some();
        let stunted = !is_set && waits && budget.most() < buffer.most / 2;
        if stunted != buffer.stunted || grown != buffer.grown {
            self.changed(handle, grown, stunted);
        }
    }

    /// A socket has another part of what all may have, or waits for more of it.
    #[inline(never)]
    fn changed(&mut self, handle: u64, grown: u32, stunted: bool) {
        let Some(socket) = self.all.get_mut(&handle) else {
            return;
        };
        let buffer: &mut Buffer = &mut socket.buffer;
        let before = core::mem::replace(&mut buffer.grown, grown);
        let was_stunted = core::mem::replace(&mut buffer.stunted, stunted);
        self.stunted = self
            .stunted
            .saturating_sub(was_stunted.into())
            .saturating_add(stunted.into());
        if grown == before {
            return;
        }
        self.grown = self.grown.saturating_sub(before).saturating_add(grown);
        if buffer.noted == 0 {
            // The owner of a socket may change.
            buffer.user = socket.sock.user();
        }
        let user = buffer.user;
        let of_user = self.by_user.get(&user).copied().unwrap_or(0);
        let of_user = of_user.saturating_sub(buffer.noted).saturating_add(grown);
        buffer.noted = grown;
        match self.by_user.get_mut(&user) {
            _ if of_user == 0 => drop(self.by_user.remove(&user)),
            Some(has) => *has = of_user,
            None => {
                // Without memory it counts to nobody, and is taken off nobody later.
                let noted = self.by_user.try_create_and_insert(user, of_user, atomic());
                if noted.is_err() {
                    buffer.noted = 0;
                }
            }
        }
    }

    /// Whether other sockets would grow if one gave back what it has grown by.
    pub(crate) fn stunts_others(&self, buffer: &Buffer) -> bool {
        buffer.grown != 0 && self.stunted > u32::from(buffer.stunted)
    }

    /// What a socket had of what all may have is free.
    pub(crate) fn shrunk(&mut self, handle: u64) {
        self.changed(handle, 0, false);
    }

    pub(crate) fn remove(&mut self, handle: u64) {
        self.shrunk(handle);
        self.no_longer_waits(handle);
        self.give_up_keys(handle);
        self.unmark_promotable(handle);
        // The node: the socket itself is too large for the stack.
        drop(self.all.remove_node(&handle));
    }

    /// The first handle of a socket that is at least this.
    pub(crate) fn at_least(&self, handle: u64) -> Option<u64> {
        let cursor = self.all.cursor_lower_bound(&handle)?;
        Some(*cursor.current().0)
    }

    /// Takes a socket out, for who wants to free it later.
    pub(crate) fn take(&mut self, handle: u64) -> Option<RBTreeNode<u64, Socket>> {
        self.shrunk(handle);
        self.no_longer_waits(handle);
        self.unmark_promotable(handle);
        self.give_up_keys(handle);
        self.all.remove_node(&handle)
    }

    /// The key that a socket's messages are sealed with.
    #[inline]
    pub(crate) fn key(&self, handle: u64) -> Option<Psk> {
        if self.keys.sealing() == Sealing::Off {
            return None;
        }
        self.get(handle)?.choice.to_send(&self.keys)
    }

    /// A socket's messages are sealed as its namespace's are.
    // Not inlined: keys take room on the stack.
    #[inline(never)]
    pub(crate) fn give_up_keys(&mut self, handle: u64) {
        if let Some(socket) = self.all.get_mut(&handle) {
            let before = core::mem::replace(&mut socket.choice, Choice::Namespace);
            if let Choice::Own(own) = &before {
                self.keys.leave(own.held.id());
                if let Some(other) = &own.other {
                    self.keys.leave(other.id());
                }
            }
        }
    }

    /// A socket's messages are sealed with a key of its own; they may come with another one, too.
    ///
    /// # Errors
    /// `ENODEV`, `ENOMEM`; `EEXIST`: packets call another key by the same name.
    pub(crate) fn take_keys(&mut self, handle: u64, held: Held, other: Option<Held>) -> Result {
        if self.get(handle).is_none() {
            return Err(ENODEV);
        }
        let own = KBox::new(Own { held, other }, atomic())?;
        self.keys.join(&own.held)?;
        if let Some(other) = &own.other {
            if let Err(error) = self.keys.join(other) {
                self.keys.leave(own.held.id());
                return Err(error);
            }
        }
        self.give_up_keys(handle);
        if let Some(socket) = self.all.get_mut(&handle) {
            socket.choice = Choice::Own(own);
        }
        Ok(())
    }

    /// A socket's messages are not sealed.
    pub(crate) fn take_no_keys(&mut self, handle: u64) {
        self.give_up_keys(handle);
        if let Some(socket) = self.all.get_mut(&handle) {
            socket.choice = Choice::Plain;
        }
    }
}
