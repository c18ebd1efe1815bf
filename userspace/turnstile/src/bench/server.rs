// SPDX-License-Identifier: GPL-2.0
//! Receives what the clients send, and throws it away.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use socket2::{Domain, Protocol, Type};
use turnstile_socket::Socket;

use super::worker::{control, PIECE, PREFIX};
use super::Protocol as Over;
use crate::failure::Failure;

/// Connections that may wait to be taken.
const BACKLOG: i32 = 1024;

/// Serves without end.
pub(super) fn serve(over: Over, at: SocketAddr, congestion: &str) -> Result<(), Failure> {
    match over {
        Over::Turnstile => {
            let socket = Socket::bind(at)?;
            ready(at)?;
            let mut data = vec![0; PIECE];
            loop {
                match socket.recv(&mut data) {
                    Ok(_) => {}
                    // A message that failed on the way is its sender's to report.
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::ConnectionReset | io::ErrorKind::TimedOut
                        ) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Over::Tcp => {
            let listener = listen(at, congestion)?;
            ready(at)?;
            loop {
                match listener.accept() {
                    Ok((connection, _)) => {
                        std::thread::spawn(move || {
                            // The client reports what fails.
                            let _ = take(connection);
                        });
                    }
                    Err(error) => return Err(Failure::Kernel(format!("cannot accept: {error}"))),
                }
            }
        }
    }
}

/// For who waits until it can be sent to.
fn ready(at: SocketAddr) -> Result<(), Failure> {
    let mut out = io::stdout();
    writeln!(out, "listening on {at}")?;
    Ok(out.flush()?)
}

fn listen(at: SocketAddr, congestion: &str) -> Result<TcpListener, Failure> {
    let failed = |error: io::Error| Failure::Kernel(format!("cannot listen on {at}: {error}"));
    let socket = socket2::Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))
        .map_err(failed)?;
    socket.set_reuse_address(true).map_err(failed)?;
    // Connections inherit it.
    control(&socket, congestion).map_err(Failure::Kernel)?;
    socket.bind(&at.into()).map_err(failed)?;
    socket.listen(BACKLOG).map_err(failed)?;
    Ok(socket.into())
}

/// Takes messages until the client closes.
fn take(mut connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut data = vec![0; PIECE];
    let mut prefix = [0; PREFIX];
    loop {
        connection.read_exact(&mut prefix)?;
        let size = u64::from_be_bytes(prefix);
        let mut left = size;
        while left > 0 {
            let most = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
            match connection.read(&mut data[..most])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => left -= len as u64,
            }
        }
        connection.write_all(&[1])?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::worker::Worker;
    use crate::bench::Over as How;

    #[test]
    fn messages_over_tcp_of_any_size() {
        let listener = listen("127.0.0.1:0".parse().unwrap(), "").unwrap();
        let to = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            // One connection for both messages, one for each of the others.
            for _ in 0..3 {
                let (connection, _) = listener.accept().unwrap();
                std::thread::spawn(move || take(connection));
            }
        });
        for fresh in [false, true] {
            let mut worker = Worker::new(&How::Tcp {
                congestion: String::new(),
                fresh,
            });
            worker.prepare(to).unwrap();
            for size in [1, 3_000_000] {
                assert!(!worker.send(to, size).unwrap().is_zero());
            }
        }
        server.join().unwrap();
    }

    #[test]
    fn a_congestion_control_that_is_not_there() {
        let error = listen("127.0.0.1:0".parse().unwrap(), "surely-not").unwrap_err();
        assert!(
            matches!(error, Failure::Kernel(why) if why.starts_with("congestion: the kernel does \
                not take \"surely-not\""))
        );
    }
}
