// SPDX-License-Identifier: GPL-2.0
//! The keys of sealed messages: the namespace's, and those of sockets.

use crate::errno;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNodeReservation};
use knet_transport::{hmac, Net};
use turnstile_core::transport::config::Config;
use turnstile_core::transport::host::Sealing;
use turnstile_core::transport::seal::{key_id, Psk};
use turnstile_core::transport::uapi;

use crate::state::Turnstile;

/// A key, and the serial number that it was read by.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) serial: u32,
    psk: Psk,
}

impl Held {
    /// Reads a key from the caller's keyrings. Sleeps.
    ///
    /// # Errors
    /// See [`knet_transport::key`].
    pub(crate) fn read(net: &mut Net<'_, Turnstile>, serial: u32) -> Result<Self> {
        let key = knet_transport::key(net, serial)?;
        let id = key_id(|key, data| Some(hmac(key, data)), &key).ok_or(EINVAL)?;
        let psk = Psk { id, key };
        Ok(Self { serial, psk })
    }

    pub(crate) fn psk(&self) -> Psk {
        self.psk
    }

    pub(crate) fn id(&self) -> u32 {
        self.psk.id
    }
}

impl Drop for Held {
    /// What is freed is no secret.
    fn drop(&mut self) {
        self.psk.key.fill(0);
        core::hint::black_box(&mut self.psk);
    }
}

/// The namespace's keys: of `key`, `accept-key` and `accept-key-2`.
pub(crate) type Slots = [Option<Held>; 3];

/// All keys of a namespace.
pub(crate) struct Keys {
    /// All messages are sealed, but those of sockets that say otherwise.
    pub(crate) sealed: bool,
    pub(crate) slots: Slots,
    /// Those of sockets, by what packets call them, and how many sockets have each.
    sockets: RBTree<u32, (Held, u32)>,
}

/// What a configuration has in its slots: serial numbers, 0 for none.
pub(crate) fn serials(config: &Config) -> [u32; 3] {
    [config.key, config.accept_key, config.accept_key_2]
}

impl Keys {
    pub(crate) fn new() -> Self {
        Self {
            sealed: false,
            slots: [const { None }; 3],
            sockets: RBTree::new(),
        }
    }

    /// Whether packets have to be sealed.
    #[inline]
    pub(crate) fn sealing(&self) -> Sealing {
        if self.sealed {
            Sealing::All
        } else if self.sockets.is_empty() {
            Sealing::Off
        } else {
            Sealing::Some
        }
    }

    /// Puts a configuration in force, of which these keys were read. `false`: they are others by
    /// now.
    pub(crate) fn configure(&mut self, config: &Config, slots: Slots) -> bool {
        let read = slots
            .iter()
            .map(|slot| slot.as_ref().map_or(0, |held| held.serial));
        if !read.eq(serials(config)) {
            return false;
        }
        self.slots = slots;
        self.sealed = config.security == uapi::SECURITY_PSK;
        true
    }

    /// The key that the namespace's messages are sealed with.
    fn main(&self) -> Option<Psk> {
        self.slots.first()?.as_ref().map(Held::psk)
    }

    fn has(&self, id: u32) -> bool {
        self.slots.iter().flatten().any(|held| held.id() == id)
    }

    /// The key that packets call by this name.
    pub(crate) fn find(&self, id: u32) -> Option<Psk> {
        let held = self.slots.iter().flatten().find(|held| held.id() == id);
        let held = held.filter(|_| self.sealed);
        held.or_else(|| self.sockets.get(&id).map(|(held, _)| held))
            .map(Held::psk)
    }

    /// A socket has this key from now on.
    ///
    /// # Errors
    /// `ENOMEM`; `EEXIST`: packets call another key by the same name.
    pub(crate) fn join(&mut self, held: &Held) -> Result {
        match self.sockets.get_mut(&held.id()) {
            Some((known, _)) if known.psk() != held.psk() => Err(EEXIST),
            Some((_, count)) => {
                *count = count.saturating_add(1);
                Ok(())
            }
            None => {
                let entry = (held.clone(), 1);
                let place = RBTreeNodeReservation::new(crate::memory::atomic())?;
                drop(self.sockets.insert(place.into_node(held.id(), entry)));
                Ok(())
            }
        }
    }

    /// A socket does not have this key any more.
    pub(crate) fn leave(&mut self, id: u32) {
        let left = match self.sockets.get_mut(&id) {
            Some((_, count)) => {
                *count = count.saturating_sub(1);
                *count
            }
            None => return,
        };
        if left == 0 {
            self.sockets.remove(&id);
        }
    }
}

/// Which keys a socket's messages have.
pub(crate) enum Choice {
    /// The namespace's, if it has any.
    Namespace,
    /// None.
    Plain,
    /// Its own. Not in the socket: most have none.
    Own(KBox<Own>),
}

/// A socket's own keys: what its messages are sealed with, and perhaps another one that messages
/// may come with.
pub(crate) struct Own {
    pub(crate) held: Held,
    pub(crate) other: Option<Held>,
}

impl Choice {
    /// The key that a message is to be sealed with.
    pub(crate) fn to_send(&self, keys: &Keys) -> Option<Psk> {
        match self {
            Self::Namespace => keys.main().filter(|_| keys.sealed),
            Self::Plain => None,
            Self::Own(own) => Some(own.held.psk()),
        }
    }

    /// Whether a message may come that is sealed with this key, or not at all.
    pub(crate) fn admits(&self, keys: &Keys, id: Option<u32>) -> bool {
        match (self, id) {
            (Self::Namespace, None) => !keys.sealed,
            (Self::Namespace, Some(id)) => keys.sealed && keys.has(id),
            (Self::Plain, id) => id.is_none(),
            (Self::Own(_), None) => false,
            (Self::Own(own), Some(id)) => {
                // Another key may have the same name: it was opened with the one that is found.
                let found = keys.find(id);
                let is_it = |held: &Held| found == Some(held.psk());
                is_it(&own.held) || own.other.as_ref().is_some_and(is_it)
            }
        }
    }
}

/// What is to be said of a key that could not be read.
pub(crate) fn why(error: Error) -> &'static str {
    match error {
        EINVAL => "a key of type logon is wanted",
        error if error == errno::no_key() => "there is no key of this number",
        error if error == errno::not_allowed() => "the key is in none of your keyrings",
        error if error == errno::too_long() => "the key has to have 32 bytes",
        _ => "the key cannot be read: it is revoked or has expired",
    }
}
