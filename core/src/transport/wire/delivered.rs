// SPDX-License-Identifier: GPL-2.0
//! The messages that a receiver acknowledges together.

use core::fmt;

use super::{header, Cookie, COOKIE_LEN};

/// How many messages can be acknowledged together.
pub const MAX_DELIVERED: usize = 4;
/// Bytes before the cookies where they are in a packet with data.
const RIDING_LEN: usize = 4;

/// Messages of one sender that are complete, and what it may have under way from now on. None, or
/// [`MAX_DELIVERED`] at most.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    cookies: [Cookie; MAX_DELIVERED],
    len: u8,
    /// As [`Ack::allowance`](super::Ack::allowance); 0 if there are none.
    pub allowance: u16,
}

impl Delivered {
    /// No message.
    pub const NONE: Self = Self {
        cookies: [Cookie(0); MAX_DELIVERED],
        len: 0,
        allowance: 0,
    };

    /// Adds one. `false`: there is no room.
    pub fn push(&mut self, cookie: Cookie) -> bool {
        let Some(place) = self.cookies.get_mut(usize::from(self.len)) else {
            return false;
        };
        *place = cookie;
        self.len = self.len.saturating_add(1);
        true
    }

    /// Which ones.
    pub fn cookies(&self) -> &[Cookie] {
        self.cookies.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The first one, of which there is one.
    pub const fn first(&self) -> Cookie {
        let [first, ..] = self.cookies;
        first
    }

    /// Whether there is none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there are.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes that they take in a packet with data.
    #[inline]
    pub const fn riding_len(&self) -> usize {
        match self.len {
            0 => 0,
            len => RIDING_LEN.saturating_add((len as usize).saturating_mul(COOKIE_LEN)),
        }
    }

    /// Bytes of a packet of their own.
    #[inline]
    pub const fn list_len(&self) -> usize {
        header::LEN
            .saturating_add(2)
            .saturating_add(self.len().saturating_mul(COOKIE_LEN))
    }
}

/// Hides them: they are secrets.
impl fmt::Debug for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Delivered({}, {})", self.len, self.allowance)
    }
}
