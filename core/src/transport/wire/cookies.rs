// SPDX-License-Identifier: GPL-2.0
//! The messages that an ACK lists.

use core::fmt;

use super::{Cookie, MAX_COOKIES};

/// Several messages of one sender to one receiver: one at least, and [`MAX_COOKIES`] at most.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cookies {
    first: Cookie,
    others: [Cookie; MAX_COOKIES - 1],
    /// How many others there are.
    len: u8,
}

impl Cookies {
    /// One message.
    pub const fn new(first: Cookie) -> Self {
        Self {
            first,
            others: [Cookie(0); MAX_COOKIES - 1],
            len: 0,
        }
    }

    /// Adds another one. `false`: there is no room.
    pub fn push(&mut self, cookie: Cookie) -> bool {
        let Some(place) = self.others.get_mut(usize::from(self.len)) else {
            return false;
        };
        *place = cookie;
        self.len = self.len.saturating_add(1);
        true
    }

    /// The first one.
    pub const fn first(&self) -> Cookie {
        self.first
    }

    /// The others.
    pub fn others(&self) -> &[Cookie] {
        self.others.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// How many there are, with the first.
    #[allow(clippy::len_without_is_empty)] // there is always one
    pub const fn len(&self) -> usize {
        (self.len as usize).saturating_add(1)
    }
}

/// Hides them: they are secrets.
impl fmt::Debug for Cookies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cookies({})", self.len())
    }
}
