// SPDX-License-Identifier: GPL-2.0
//! Options: one table for each kind of thing that can be configured.
//!
//! Port, pacer and transport each have a struct `Config`, made by the macro `options!`, in which a
//! field is a row: its type, its default, the number of its netlink attribute, the word that a user
//! types, what is allowed, and what it is. All else comes from these rows: what the kernel modules
//! accept and report ([`Table::set`], [`Table::get`]), what they say of values that are not allowed
//! ([`Refusal`]), what `tc` and `turnstile` read and print, help texts, man pages and tables in the
//! documentation.
//!
//! | item | what is there |
//! |---|---|
//! | [`Table`], [`Opt`] | a table, a row |
//! | [`Form`] | what may follow the word |
//! | [`Range`], [`Unit`] | numbers, and how they are shown |
//! | [`Field`], [`Value`] | a field of the struct ⇄ the value of its attribute |
//! | [`Refusal`] | why a configuration is not accepted |
//! | [`limits`] | ranges that several options have |
//! | [`dscp`] | names of code points |

pub mod dscp;
mod field;
mod form;
pub mod limits;
mod refusal;
mod table;
mod units;

pub(crate) use field::number;
pub use field::{Field, Kind, Share, Value};
pub use form::Form;
pub use refusal::{Problem, Refusal};
pub(crate) use table::options;
pub use table::{Given, Opt, Table};
pub use units::{Percent, Range, Shown, Time, Unit};

#[cfg(test)]
mod tests;
