// SPDX-License-Identifier: GPL-2.0
//! What splice() gives of messages that come.

use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use anyhow::{ensure, Context, Result};
use nix::errno::Errno;
use nix::fcntl::{self, OFlag, SpliceFFlags};
use nix::unistd::pipe2;
use turnstile_socket::{SendOptions, Socket};

use super::super::content::content;
use super::super::sealed::psk;
use super::super::support::{
    addresses, configure_all, delivered, nothing_more, pair, receiver, same, sender, PATIENCE,
};
use super::calls::{file, sendfile};
use crate::harness::Ctx;

/// Splices up to so many bytes into a pipe of so many pages, and reads them from there.
pub(super) struct Pipe {
    pub(super) out: std::fs::File,
    into: std::os::fd::OwnedFd,
}

impl Pipe {
    pub(super) fn new(pages: i32) -> Result<Self> {
        let (out, into) = pipe2(OFlag::O_CLOEXEC)?;
        fcntl::fcntl(&into, fcntl::FcntlArg::F_SETPIPE_SZ(pages * 4096))?;
        let out = out.into();
        Ok(Self { out, into })
    }

    pub(super) fn fill(&self, socket: &Socket, len: usize) -> nix::Result<usize> {
        let none = SpliceFFlags::empty();
        fcntl::splice(socket, None, &self.into, None, len, none)
    }

    fn empty(&mut self, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.out.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

/// Messages of all lengths come as they are, by pipes with room for little or much of them, and no
/// call gives bytes of two.
pub(super) fn messages(_: &mut Ctx) -> Result<()> {
    let net = pair()?;
    let key = psk("splice", 1)?;
    for words in ["security off".to_owned(), format!("security psk key {key}")] {
        configure_all(&net, &words)?;
        let to = receiver(&net.hosts[1].ns)?;
        for there in addresses(&net.hosts[1]) {
            let from = sender(&net.hosts[0].ns)?;
            from.connect(there)?;
            let lens = [1, 100, 1450, 1451, 4096, 30_000, 65_537, 1_000_003];
            for pages in [1, 4, 256] {
                let mut pipe = Pipe::new(pages)?;
                for len in lens {
                    let data = content(1, len);
                    // Behind it there is another one, which must not overtake it.
                    for data in [&data[..], b"next"] {
                        from.send(data, &SendOptions::default())?;
                        let done = from.wait_completion(Some(PATIENCE))?;
                        done.context("no report")?.outcome?;
                    }
                    let what = format!("{words}: {len} bytes, {pages} pages");
                    let mut came = Vec::new();
                    while came.len() < len {
                        let left = len - came.len() + 100;
                        let moved = pipe.fill(&to, left).with_context(|| what.clone())?;
                        ensure!(moved > 0, "{what}: the end");
                        came.extend(pipe.empty(moved)?);
                    }
                    same(&what, &came, &data)?;
                    ensure!(to.recv_message(4)?.data == b"next", "{what}");
                }
            }
        }
        to.set_nonblocking(true)?;
        let nothing = Pipe::new(1)?.fill(&to, 1);
        ensure!(nothing == Err(Errno::EAGAIN), "{nothing:?}");
        nothing_more(&to)?;
    }
    Ok(())
}

/// What is in the pipe is in the pages that the message came in; here those of a file, which is
/// changed by then.
pub(super) fn by_reference(_: &mut Ctx) -> Result<()> {
    const LEN: usize = 100_000;
    let net = pair()?;
    let to = receiver(&net.hosts[1].ns)?;
    let from = sender(&net.hosts[0].ns)?;
    from.connect(addresses(&net.hosts[1])[0])?;
    let file = file(&vec![2; LEN])?;
    sendfile(&from, &file, 0, LEN)?;
    delivered(&from, 1)?;
    let mut pipe = Pipe::new(256)?;
    let moved = pipe.fill(&to, LEN)?;
    // A packet is a part of a page, at least, and as many places of the pipe.
    ensure!(moved > LEN / 8, "{moved}");
    file.write_all_at(&vec![4; LEN], 0)?;
    let came = pipe.empty(moved)?;
    let lent = came.iter().filter(|byte| **byte == 4).count();
    ensure!(lent > moved / 2, "of {moved} bytes {lent} by reference");
    Ok(())
}
