// SPDX-License-Identifier: GPL-2.0
//! Socket options of the transport's level.

use anyhow::{ensure, Context, Result};
use nix::sys::socket::{getsockopt, setsockopt, sockopt, GetSockOpt, SetSockOpt};
use socket2::Domain;
use turnstile_core::transport::uapi::SOL_TURNSTILE;

use super::support::{pair, refused, unbound};
use crate::harness::{Case, Ctx};

pub(in crate::cases) const CASES: &[Case] = &[Case::new("transport/options/values", options)];

/// An `int` option of the transport's level, to be set and read.
macro_rules! int_option {
    ($name:ident, $number:ident) => {
        #[derive(Clone, Copy, Debug)]
        struct $name;
        nix::setsockopt_impl!(
            $name,
            SOL_TURNSTILE as libc::c_int,
            numbers::$number,
            libc::c_int,
            sockopt::SetStruct<libc::c_int>
        );
        nix::getsockopt_impl!(
            $name,
            SOL_TURNSTILE as libc::c_int,
            numbers::$number,
            libc::c_int,
            sockopt::GetStruct<libc::c_int>
        );
    };
}

/// As the C library's types have them.
mod numbers {
    use turnstile_core::transport::uapi::sockopt;

    pub(super) const RECVINFO: libc::c_int = sockopt::RECVINFO as libc::c_int;
    pub(super) const COMPLETIONS: libc::c_int = sockopt::COMPLETIONS as libc::c_int;
    pub(super) const DEFAULT_PRIORITY: libc::c_int = sockopt::DEFAULT_PRIORITY as libc::c_int;
    pub(super) const NUMBER: libc::c_int = sockopt::NUMBER as libc::c_int;
    pub(super) const OPEN: libc::c_int = sockopt::OPEN as libc::c_int;
    /// No option has this number.
    pub(super) const NONE: libc::c_int = 10;
}

int_option!(ReceiveInfo, RECVINFO);
int_option!(Completions, COMPLETIONS);
int_option!(DefaultPriority, DEFAULT_PRIORITY);
int_option!(NextNumber, NUMBER);
int_option!(HasOpen, OPEN);
int_option!(NoOption, NONE);

/// An option in one byte.
#[derive(Clone, Copy, Debug)]
struct Short;
nix::setsockopt_impl!(
    Short,
    SOL_TURNSTILE as libc::c_int,
    numbers::RECVINFO,
    u8,
    sockopt::SetStruct<u8>
);

fn options(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    for domain in [Domain::IPV4, Domain::IPV6] {
        let socket = unbound(&net.hosts[0].ns, domain)?;
        fn check<O>(
            socket: &socket2::Socket,
            what: &str,
            option: O,
            first: i32,
            good: &[i32],
            bad: &[i32],
        ) -> Result<()>
        where
            O: SetSockOpt<Val = i32> + GetSockOpt<Val = i32> + Copy,
        {
            let is = getsockopt(socket, option).with_context(|| format!("reading {what}"))?;
            ensure!(is == first, "{what} is {is} at first");
            for value in good {
                setsockopt(socket, option, value).with_context(|| format!("{what} {value}"))?;
                ensure!(
                    getsockopt(socket, option)? == *value,
                    "{what} is not {value}"
                );
                for wrong in bad {
                    let result = setsockopt(socket, option, wrong);
                    refused(&format!("{what} {wrong}"), result, libc::EINVAL)?;
                }
                ensure!(
                    getsockopt(socket, option)? == *value,
                    "{what} is no longer {value}"
                );
            }
            Ok(())
        }
        let wrong = [-1, 2, i32::MAX, i32::MIN];
        let beyond = [-1, 3, i32::MAX, i32::MIN];
        check(&socket, "RECVINFO", ReceiveInfo, 0, &[1, 2, 0], &beyond)?;
        check(&socket, "COMPLETIONS", Completions, 0, &[1, 0], &wrong)?;
        let wrong = [-2, 8, i32::MAX, i32::MIN];
        check(
            &socket,
            "DEFAULT_PRIORITY",
            DefaultPriority,
            -1,
            &[0, 7, -1],
            &wrong,
        )?;
        let next = getsockopt(&socket, NextNumber).context("reading NUMBER")?;
        ensure!(next == 0, "a new socket's message would be number {next}");
        let open = getsockopt(&socket, HasOpen).context("reading OPEN")?;
        ensure!(open == 0, "a message is open on a new socket");
        refused(
            "setting OPEN",
            setsockopt(&socket, HasOpen, &1),
            libc::ENOPROTOOPT,
        )?;
        refused(
            "setting NUMBER",
            setsockopt(&socket, NextNumber, &1),
            libc::ENOPROTOOPT,
        )?;
        refused(
            "no option",
            setsockopt(&socket, NoOption, &1),
            libc::ENOPROTOOPT,
        )?;
        refused(
            "reading no option",
            getsockopt(&socket, NoOption),
            libc::ENOPROTOOPT,
        )?;
        refused("one byte", setsockopt(&socket, Short, &1), libc::EINVAL)?;
    }
    Ok(())
}
