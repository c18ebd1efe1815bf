// SPDX-License-Identifier: GPL-2.0
//! TCP: the everyday source of GSO super-packets.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{anyhow, ensure, Context, Result};

use crate::netns::Netns;

/// Sends `bytes` from `from` to `to`, which has `address`, and waits until all have arrived.
/// Gives the time that it took.
///
/// # Errors
/// When no connection comes about, it stalls for 30 s, or bytes are missing.
pub fn bulk(from: &Netns, to: &Netns, address: IpAddr, bytes: u64) -> Result<Duration> {
    const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));
    let listener = to.enter(|| TcpListener::bind((address, 0)).context("listening"))?;
    let target = listener.local_addr().context("the listener's address")?;
    let reader = to.spawn(move || {
        let (mut stream, _) = listener.accept().context("accepting")?;
        stream
            .set_read_timeout(PATIENCE)
            .context("setting a time limit")?;
        let mut buffer = [0; 65536];
        let mut got = 0;
        loop {
            match stream.read(&mut buffer).context("reading")? {
                0 => return Ok(got),
                len => got += len as u64,
            }
        }
    });
    let began = Instant::now();
    let sending = from.enter(|| {
        let mut stream =
            TcpStream::connect_timeout(&target, Duration::from_secs(30)).context("connecting")?;
        stream
            .set_write_timeout(PATIENCE)
            .context("setting a time limit")?;
        let chunk = [0x5a; 65536];
        let mut left = bytes;
        while left > 0 {
            let len = left.min(chunk.len() as u64);
            stream
                .write_all(&chunk[..len as usize])
                .context("writing")?;
            left -= len;
        }
        stream.shutdown(Shutdown::Write).context("closing")
    });
    // Without a connection the reader would wait for ever: it is left behind, and ends with the
    // process.
    sending?;
    let got = reader
        .join()
        .map_err(|_| anyhow!("the reader panicked"))??;
    ensure!(got == bytes, "{got} of {bytes} bytes arrived");
    Ok(began.elapsed())
}
