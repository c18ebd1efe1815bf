// SPDX-License-Identifier: GPL-2.0
//! As the kernel's `rbtree`, as far as the module's files use it.

use crate::memory::{is_left, Flags, NoMemory};
use std::collections::BTreeMap;

pub(crate) struct RBTree<K, V>(BTreeMap<K, V>);

/// An entry that is in no tree.
pub(crate) struct RBTreeNode<K, V>(Box<(K, V)>);

/// Memory for one.
pub(crate) struct Reservation;

pub(crate) struct Cursor<'a, K, V>(&'a K, &'a V);

impl<K: Ord, V> RBTree<K, V> {
    pub(crate) fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    pub(crate) fn insert(&mut self, node: RBTreeNode<K, V>) -> Option<RBTreeNode<K, V>> {
        let (key, value) = *node.0;
        let before = self.remove_node(&key);
        self.0.insert(key, value);
        before
    }

    pub(crate) fn try_create_and_insert(
        &mut self,
        key: K,
        value: V,
        _: Flags,
    ) -> Result<Option<RBTreeNode<K, V>>, NoMemory> {
        match is_left() {
            true => Ok(self.insert(RBTreeNode(Box::new((key, value))))),
            false => Err(NoMemory),
        }
    }

    pub(crate) fn remove_node(&mut self, key: &K) -> Option<RBTreeNode<K, V>> {
        Some(RBTreeNode(Box::new(self.0.remove_entry(key)?)))
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }

    pub(crate) fn cursor_front(&self) -> Option<Cursor<'_, K, V>> {
        let (key, value) = self.0.first_key_value()?;
        Some(Cursor(key, value))
    }

    pub(crate) fn cursor_lower_bound(&self, key: &K) -> Option<Cursor<'_, K, V>> {
        let (key, value) = self.0.range(key..).next()?;
        Some(Cursor(key, value))
    }
}

impl<K, V> Cursor<'_, K, V> {
    pub(crate) fn current(&self) -> (&K, &V) {
        (self.0, self.1)
    }
}

impl<K, V> RBTreeNode<K, V> {
    #[allow(clippy::wrong_self_convention)] // the kernel's name
    pub(crate) fn to_key_value(self) -> (K, V) {
        *self.0
    }

    pub(crate) fn into_reservation(self) -> Reservation {
        Reservation
    }
}

impl Reservation {
    pub(crate) fn into_node<K, V>(self, key: K, value: V) -> RBTreeNode<K, V> {
        RBTreeNode(Box::new((key, value)))
    }
}
