// SPDX-License-Identifier: GPL-2.0
//! The guest side of Turnstile's tests: PID 1, a library for networks made of namespaces and veth,
//! traffic sources and sinks, the test cases and the demonstration.
//!
//! A test case does not know on which bed it runs. It builds its network with [`topology`], drives
//! the system through its real interfaces ([`cmd`], [`traffic`], [`raw_netlink`]) and reads
//! [`stats`]. `README.md` shows how to add one.

pub mod bench;
pub mod cases;
pub mod clock;
pub mod cmd;
mod complaints;
pub mod demo;
pub mod events;
pub mod handout;
pub mod harness;
pub mod init;
pub mod lab;
pub mod limits;
pub mod netns;
pub mod pcap;
pub mod planted;
pub mod raw_netlink;
pub mod recorder;
pub mod rng;
pub mod run_config;
pub mod scenario;
pub mod stalls;
pub mod stats;
pub mod suspend;
pub mod tool;
pub mod topology;
pub mod traffic;
