// SPDX-License-Identifier: GPL-2.0
//! What sendfile() and splice() send.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

use anyhow::{ensure, Context, Result};
use nix::fcntl::{self, OFlag, SpliceFFlags};
use nix::unistd::pipe2;
use turnstile_socket::Socket;

use super::super::content::{check, content};
use super::super::support::{
    addresses, delivered, hosts, nothing_more, pair, receiver, same, send_once, sender,
};
use super::calls::{all_returned, file, lend, lender, sendfile as sendfile_once, splice};
use crate::harness::Ctx;
use crate::rng::Rng;
use crate::topology::{Builder, Net};

/// Files of all lengths and from any place are messages as they are, also behind a head of another
/// call's, and where the device cuts no trains and makes no checksums.
pub(super) fn sendfile(_: &mut Ctx) -> Result<()> {
    for builder in [Builder::pair(), Builder::pair().without_offloads()] {
        files(&hosts(&builder)?)?;
    }
    Ok(())
}

fn files(net: &Net) -> Result<()> {
    let to = receiver(&net.hosts[1].ns)?;
    let all = content(1, 3 << 20);
    let file = file(&all)?;
    for there in addresses(&net.hosts[1]) {
        let from = sender(&net.hosts[0].ns)?;
        from.connect(there)?;
        let mut sent = 0;
        for (head, offset, len) in [
            (0, 0, 1),
            (0, 0, 2048),
            (0, 0, 2049),
            (0, 0, 4096),
            (0, 4095, 4097),
            (0, 0, 65_536),
            (0, 8, 65_537),
            (0, 3, 100_001),
            (0, 0, 2 << 20),
            (0, 777, 2 << 20),
            (1, 0, 8192),
            (100, 0, 300_000),
            (4096, 4096, 300_000),
            (20_000, 1, 300_000),
        ] {
            let what = format!("{len} bytes from {offset} on behind {head}, to {there}");
            if head != 0 {
                send_once(&from, &all[..head], None, &[], libc::MSG_MORE)?;
            }
            let done =
                sendfile_once(&from, &file, offset as u64, len).with_context(|| what.clone())?;
            ensure!(done == len, "{what}: {done}");
            sent += 1;
            let came = to.recv_message(all.len()).with_context(|| what.clone())?;
            let want = [&all[..head], &all[offset..offset + len]].concat();
            same(&what, &came.data, &want)?;
        }
        delivered(&from, sent)?;
    }
    nothing_more(&to)
}

/// Nothing is copied on the way: what changes in the file before it is read on the same machine is
/// read as it is by then. Of a head that was written nothing changes.
pub(super) fn by_reference(_: &mut Ctx) -> Result<()> {
    const HEAD: usize = 5000;
    const LEN: usize = 1 << 20;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    from.connect(addresses(&net.hosts[1])[0])?;
    let mut head = vec![1; HEAD];
    let file = file(&vec![2; LEN])?;
    send_once(&from, &head, None, &[], libc::MSG_MORE)?;
    let done = sendfile_once(&from, &file, 0, LEN)?;
    ensure!(done == LEN, "{done}");
    delivered(&from, 1)?;
    head.fill(3);
    file.write_all_at(&vec![4; LEN], 0)?;
    let came = to.recv_message(HEAD + LEN)?.data;
    ensure!(came[..HEAD].iter().all(|byte| *byte == 1), "the head");
    // What is left of the head's last page was copied, and single packets may be.
    let lent = came[HEAD..].iter().filter(|byte| **byte == 4).count();
    ensure!(
        lent > LEN - LEN / 16,
        "of {LEN} bytes {lent} were by reference"
    );
    Ok(())
}

/// Who asks for more than the file has sends what there is, and the message goes on.
pub(super) fn past_the_end(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 10_000;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    from.connect(addresses(&net.hosts[1])[0])?;
    let all = content(1, LEN + 8);
    let done = sendfile_once(&from, &file(&all[..LEN])?, 0, 1 << 20)?;
    ensure!(done == LEN, "{done}");
    send_once(&from, &all[LEN..], None, &[], 0)?;
    let came = to.recv_message(all.len())?;
    same("a file and more", &came.data, &all)?;
    delivered(&from, 1)
}

/// Messages of pieces that are written, spliced and lent, of any lengths and in any order.
pub(super) fn pieces(ctx: &mut Ctx) -> Result<()> {
    const MESSAGES: u64 = 60;
    for builder in [
        Builder::pair(),
        Builder::pair().mtu(9000).without_offloads(),
    ] {
        let net = hosts(&builder)?;
        let to = receiver(&net.hosts[1].ns)?;
        for there in addresses(&net.hosts[1]) {
            let mut from = Pieces {
                socket: lender(&net.hosts[0].ns, there)?,
                lent: 0,
                kept: Vec::new(),
            };
            for number in 0..MESSAGES {
                let len = from.message(&mut ctx.rng, number)?;
                let came = to
                    .recv_message(len)
                    .with_context(|| format!("message {number} of {len} bytes"))?;
                ensure!(came.data.len() == len, "{} of {len}", came.data.len());
                check(number, 0, &came.data)?;
            }
            let reports = all_returned(&from.socket, 0, from.lent)?;
            ctx.note(format!("{} calls, {} reports", from.lent, reports.len()));
        }
        nothing_more(&to)?;
    }
    Ok(())
}

struct Pieces {
    socket: Socket,
    /// Calls that lent pages.
    lent: u32,
    /// Whose pages are not to be written to.
    kept: Vec<Vec<u8>>,
}

impl Pieces {
    /// Sends a message, and says how long it is.
    fn message(&mut self, rng: &mut Rng, number: u64) -> Result<usize> {
        let lens: Vec<usize> = (0..rng.range(0..=6)).map(|_| length(rng)).collect();
        let len = 8 + lens.iter().sum::<usize>();
        let all = content(number, len);
        let mut at = 0;
        for piece in lens {
            let bytes = &all[at..at + piece];
            at += piece;
            match rng.index(4) {
                0 => {
                    send_once(&self.socket, bytes, None, &[], libc::MSG_MORE)?;
                }
                1 => self.lend(bytes)?,
                2 => self.splice_file(rng, bytes)?,
                _ => self.splice_scraps(rng, bytes)?,
            }
        }
        send_once(&self.socket, &all[at..], None, &[], 0)?;
        // Calls refer to it.
        self.kept.push(all);
        Ok(len)
    }

    fn lend(&mut self, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            done += lend(&self.socket, &bytes[done..], libc::MSG_MORE)?;
            self.lent += 1;
        }
        Ok(())
    }

    /// A part of a file, by a pipe.
    fn splice_file(&self, rng: &mut Rng, bytes: &[u8]) -> Result<()> {
        let before = rng.index(5000);
        let file = file(&[&vec![0; before], bytes].concat())?;
        let (out, into) = pipe2(OFlag::O_CLOEXEC)?;
        let mut offset = before as i64;
        let mut left = bytes.len();
        while left > 0 {
            let moved = fcntl::splice(
                &file,
                Some(&mut offset),
                &into,
                None,
                left,
                SpliceFFlags::empty(),
            )?;
            ensure!(moved > 0, "the file ends");
            self.empty(&out, moved)?;
            left -= moved;
        }
        Ok(())
    }

    /// Pages of which each has little.
    fn splice_scraps(&self, rng: &mut Rng, bytes: &[u8]) -> Result<()> {
        let (out, into) = pipe2(OFlag::O_CLOEXEC | OFlag::O_DIRECT)?;
        let mut into = std::fs::File::from(into);
        let mut left = bytes;
        while !left.is_empty() {
            let mut sent = 0;
            for _ in 0..rng.range(1..=12) {
                let most = *rng.pick(&[1, 100, 2000, 4096]);
                let len = (1 + rng.index(most)).min(left.len());
                into.write_all(&left[..len])?;
                left = &left[len..];
                sent += len;
            }
            self.empty(&out, sent)?;
        }
        Ok(())
    }

    /// All that is in a pipe goes into the message, which goes on.
    fn empty(&self, out: &OwnedFd, len: usize) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let done = splice(&self.socket, out, left)?;
            ensure!(done > 0, "the pipe ends");
            left -= done;
        }
        Ok(())
    }
}

/// Of short pieces and long ones as many.
fn length(rng: &mut Rng) -> usize {
    let most = 1 << rng.range(0..=18);
    1 + rng.index(most)
}
