// SPDX-License-Identifier: GPL-2.0
//! Options at the user's hand, for every table of `turnstile_core::options`: port, pacer and
//! transport have nothing of their own but their tables.
//!
//! | module | what is there |
//! |---|---|
//! | [`Options`] | options that are given, of one table |
//! | [`grammar`] | words as a user types them → [`Options`] |
//! | [`mod@print`] | [`Options`] → text that can be typed back, or JSON |
//! | [`wire`] | [`Options`] ⇄ netlink attributes |
//! | [`help`] | help texts, synopses, what man pages, documentation and completions say |
//! | [`units`], [`dscp`] | single values as words |

use std::collections::BTreeMap;
use std::marker::PhantomData;

use turnstile_core::options::{Form, Opt, Table, Value};

pub mod dscp;
pub mod grammar;
pub mod help;
pub mod print;
pub mod units;
pub mod wire;

#[cfg(test)]
pub(crate) mod testing;

/// The options that were given, of the table `T`: those that a user gives, or all that the kernel
/// reports.
///
/// The kernel, not this type, has the last word on what is allowed: values out of range can be
/// sent, and are refused there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options<T> {
    /// By the number of the attribute.
    values: BTreeMap<u16, Value>,
    table: PhantomData<T>,
}

impl<T> Default for Options<T> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            table: PhantomData,
        }
    }
}

impl<T: Table> Options<T> {
    /// Nothing is given.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The attribute's number, if it is given and is one.
    pub fn get(&self, number: u16) -> Option<u64> {
        self.values.get(&number).and_then(Value::number)
    }

    /// Gives an attribute.
    pub fn set(&mut self, number: u16, value: Value) {
        self.values.insert(number, value);
    }

    /// What `config` becomes. What is given and means nothing is left out.
    pub fn configure(&self, mut config: T) -> T {
        for (number, value) in &self.values {
            config.set(*number, *value);
        }
        config
    }

    /// The attribute of a row that is given, with its number.
    fn given(&self, row: &Opt) -> Option<(u16, Value)> {
        let numbers = [Some(row.number), row.rate].into_iter().flatten();
        numbers
            .filter_map(|number| Some((number, *self.values.get(&number)?)))
            .next()
    }
}

/// An option as it is typed: a row of the table, or the rows of a group, of which the first has a
/// word that turns the group off.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The word, which is also the key in JSON.
    pub name: &'static str,
    /// One, or those of the group.
    pub rows: Vec<&'static Opt>,
}

impl Entry {
    /// All of a table, in the order in which they are shown.
    pub fn all(rows: &'static [Opt]) -> Vec<Self> {
        let mut entries: Vec<Self> = Vec::new();
        for row in rows {
            let name = row.name.split(' ').next().unwrap_or(row.name);
            match entries.iter_mut().find(|entry| entry.name == name) {
                Some(entry) => entry.rows.push(row),
                None => entries.push(Self {
                    name,
                    rows: vec![row],
                }),
            }
        }
        entries
    }

    /// Whether it is a word that says it all, and may have `no-` before it.
    fn is_flag(&self) -> bool {
        matches!(self.rows[0].form, Form::Flag(_))
    }

    /// The rows with their words, if it is a group.
    fn members(&self) -> Option<impl Iterator<Item = (&'static str, &'static Opt)> + '_> {
        let is_group = self.rows.iter().any(|row| row.name != self.name);
        is_group.then(|| self.rows.iter().map(|row| (member(row), *row)))
    }

    /// What a member of the group may be: the first one's word for off stands before all members.
    fn form_within(&self, row: &Opt) -> Form {
        match row.number == self.rows[0].number {
            true => help::without_off(row.form),
            false => row.form,
        }
    }

    /// The word that turns a group off, and its value.
    fn off(&self) -> Option<(&'static str, u64)> {
        self.rows[0].form.words().first().copied()
    }
}

/// The word of a row within its group; of any other its name.
fn member(row: &Opt) -> &'static str {
    row.name.rsplit(' ').next().unwrap_or(row.name)
}
