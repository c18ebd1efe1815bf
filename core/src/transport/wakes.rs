// SPDX-License-Identifier: GPL-2.0
//! When each link's pacer next has something to do, and which is the first.
//!
//! A tournament: the links are the leaves of a tree, and each node above them has the one of its
//! two that comes first. It is only as high as the links in use need, so that a host with one
//! device compares two times.

use super::links::LINKS;
use crate::units::Nanos;

/// No time.
pub(crate) const NEVER: Nanos = Nanos::MAX;

pub(crate) struct Wakes {
    /// By link.
    at: [Nanos; LINKS],
    /// By node: the link below it that comes first. Node `i` is above `2 * i` and `2 * i + 1`;
    /// link `i` is node `LINKS + i`.
    winners: [u8; LINKS],
    /// The node above all links in use.
    root: usize,
    /// The first of all once more, since it is asked for most.
    first: (Nanos, u32),
}

impl Wakes {
    /// No link is in use.
    pub(crate) const NEW: Self = Self {
        at: [NEVER; LINKS],
        winners: [0; LINKS],
        root: LINKS,
        first: (NEVER, 0),
    };

    /// So many links are in use from now on; never fewer than before.
    pub(crate) fn cover(&mut self, links: usize) {
        let (mut root, mut covered) = (LINKS, 1_usize);
        while covered < links && root > 1 {
            root /= 2;
            covered = covered.saturating_mul(2);
        }
        if root >= self.root {
            return;
        }
        self.root = root;
        for node in (root..LINKS).rev() {
            let (_, link) = self.better(node);
            if let Some(winner) = self.winners.get_mut(node) {
                *winner = link as u8;
            }
        }
        self.first = self.winner(root);
    }

    /// The first time of all, and its link.
    #[inline]
    pub(crate) fn first(&self) -> (Nanos, u32) {
        self.first
    }

    /// A link's time from now on.
    #[inline]
    pub(crate) fn set(&mut self, link: u32, at: Nanos) {
        match self.at.get_mut(link as usize) {
            Some(wake) if *wake != at => *wake = at,
            _ => return,
        }
        let mut node = LINKS.saturating_add(link as usize);
        while node > self.root {
            step!();
            node /= 2;
            let (_, first) = self.better(node);
            let Some(winner) = self.winners.get_mut(node) else {
                return;
            };
            if u32::from(*winner) != link && first != link {
                // The same as before is first here, and above.
                return;
            }
            *winner = first as u8;
        }
        self.first = self.winner(self.root);
    }

    /// What is first at a node.
    #[inline]
    fn winner(&self, node: usize) -> (Nanos, u32) {
        let link = match node.checked_sub(LINKS) {
            Some(link) => link,
            None => self.winners.get(node).copied().unwrap_or(0).into(),
        };
        (self.at.get(link).copied().unwrap_or(NEVER), link as u32)
    }

    /// The better of the two below a node: the first link of equal ones.
    #[inline]
    fn better(&self, node: usize) -> (Nanos, u32) {
        let left = self.winner(node.saturating_mul(2));
        let right = self.winner(node.saturating_mul(2).saturating_add(1));
        if right.0 < left.0 {
            right
        } else {
            left
        }
    }
}

#[cfg(test)]
mod tests;
