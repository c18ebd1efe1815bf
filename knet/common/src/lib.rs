// SPDX-License-Identifier: GPL-2.0
//! Safe Rust over netlink's attributes and error messages: what `knet` (`knet/qdisc`) and
//! `knet_transport` (`knet/transport`) have in common.
//!
//! | type | C |
//! |---|---|
//! | [`attr`] | `struct nlattr`, `struct nla_policy` |
//! | [`Extack`] | `struct netlink_ext_ack *` |
//! | [`Message`] | the `struct sk_buff *` of an answer or a dump |
//!
//! A module on top uses these as its own `knet` shows them. Each module has a copy of this crate
//! linked into it, with `c/netlink.c`.

mod bindings;
mod extack;
mod message;

pub mod attr;

pub use extack::Extack;
pub use message::Message;
