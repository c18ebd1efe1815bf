// SPDX-License-Identifier: GPL-2.0
//! The generic netlink family `turnstile`. `docs/netlink/turnstile.yaml` describes it, in the
//! kernel's format.

use crate::state::Turnstile;
use core::ffi::CStr;
use knet_transport::{Command, Control, Family, News, Run};
use turnstile_core::transport::uapi::{self as uapi, command};

mod config;
mod events;
mod flows;
mod info;
mod stats;

impl Family for Turnstile {
    const NAME: &'static CStr = c"turnstile";
    const WHO: &'static str = uapi::FAMILY;
    const VERSION: u8 = uapi::FAMILY_VERSION;
    const GROUP: &'static CStr = c"events";
    const COMMANDS: &'static [Command<Self>] = &[
        Command {
            number: command::TRANSPORT_GET,
            run: Run::Read(config::get),
        },
        Command {
            number: command::TRANSPORT_SET,
            run: Run::Change(config::set),
        },
        Command {
            number: command::MESSAGE_GET,
            run: Run::Dump(flows::messages),
        },
        Command {
            number: command::PEER_GET,
            run: Run::Dump(flows::peers),
        },
        Command {
            number: command::STATS_GET,
            run: Run::Read(stats::get),
        },
        Command {
            number: command::LINK_GET,
            run: Run::Dump(flows::links),
        },
    ];

    fn news(net: &mut News<'_, Self>) {
        events::tell(net);
    }

    fn link_changed(net: &mut Control<'_, Self>) {
        config::link_changed(net);
    }
}
