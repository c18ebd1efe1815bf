// SPDX-License-Identifier: GPL-2.0
//! All ways to lend at once, where packets are lost, sent again and looked at by others.

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use nix::fcntl::{self, SpliceFFlags};
use socket2::SockRef;
use turnstile_socket::Socket;

use super::super::content::{check, content};
use super::super::support::{addresses, nothing_more, pair, receiver, socket, PORT};
use super::calls::{all_returned, file, lend, lender, sendfile};
use super::limits::Mapping;
use super::out::Pipe;
use crate::harness::Ctx;
use crate::traffic::RawSocket;

/// Messages are lent, or sent from a file that is gone then, and sent on from the pages that they
/// came in. Between them are some whose socket and memory are gone while packets wait.
pub(super) fn lossy(ctx: &mut Ctx) -> Result<()> {
    const MESSAGES: u64 = 24;
    let net = pair()?;
    let (here, there) = (&net.hosts[0].ns, &net.hosts[1].ns);
    for ns in [here, there] {
        ns.tc("qdisc add dev eth0 root netem limit 100000 delay 2ms 2ms loss 3%")?;
    }
    let _taps = [
        RawSocket::open(here, "eth0")?,
        RawSocket::open(there, "eth0")?,
    ];
    let (middle, last) = (receiver(there)?, receiver(here)?);
    let _nobody = socket(there, ("::", PORT + 1))?;
    let [back, _] = [&net.hosts[0], &net.hosts[1]].map(addresses);
    for (mut address, back) in addresses(&net.hosts[1]).into_iter().zip(back) {
        let from = lender(here, address)?;
        let on = socket(there, "[::]:0")?;
        on.connect(back)?;
        address.set_port(PORT + 1);
        let (mut kept, mut lent) = (Vec::new(), 0);
        for number in 0..MESSAGES {
            let len = ctx.rng.range(70_000..=400_000) as usize;
            let data = content(number, len);
            let what = format!("message {number} of {len} bytes, from {back}");
            match number % 3 {
                0 => {
                    let from = lender(here, address)?;
                    SockRef::from(&from).set_linger(Some(Duration::ZERO))?;
                    let data = Mapping::new(&data)?;
                    lend(&from, data.bytes(), 0).context(what)?;
                    continue;
                }
                1 => {
                    lend(&from, &data, 0).with_context(|| what.clone())?;
                    lent += 1;
                }
                _ => {
                    let done = sendfile(&from, &file(&data)?, 0, len)?;
                    ensure!(done == len, "{what}: {done}");
                }
            }
            pass_on(&middle, &on, len).with_context(|| what.clone())?;
            let came = last.recv_message(len).context(what)?.data;
            ensure!(came.len() == len, "{} of {len}", came.len());
            check(number, 0, &came)?;
            kept.push(data);
        }
        let reports = all_returned(&from, 0, lent)?;
        ctx.note(format!("{lent} calls, {} reports", reports.len()));
        for (data, number) in kept.iter().zip((0..).filter(|number| number % 3 != 0)) {
            check(number, 0, data)?;
        }
    }
    nothing_more(&middle)?;
    nothing_more(&last)
}

/// A message of so many bytes goes on from a socket to another one's peer, by a pipe.
fn pass_on(from: &Socket, to: &Socket, len: usize) -> Result<()> {
    let pipe = Pipe::new(256)?;
    let mut left = len;
    while left > 0 {
        let mut moved = pipe.fill(from, left)?;
        ensure!(moved > 0, "{left} bytes are missing");
        left -= moved;
        let more = match left {
            0 => SpliceFFlags::empty(),
            _ => SpliceFFlags::SPLICE_F_MORE,
        };
        while moved > 0 {
            let gone = fcntl::splice(&pipe.out, None, to, None, moved, more)?;
            ensure!(gone > 0, "{moved} bytes are in the pipe");
            moved -= gone;
        }
    }
    Ok(())
}
