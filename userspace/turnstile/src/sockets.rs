// SPDX-License-Identifier: GPL-2.0
//! `turnstile sockets`.

use std::collections::BTreeMap;
use std::fs;

use clap::{ArgGroup, Args, ValueEnum};
use nix::net::if_::if_indextoname;
use serde_json::{json, Value};
use turnstile_netlink::print::Printer;
use turnstile_netlink::transport::sockets::show::print_socket;
use turnstile_netlink::transport::sockets::{Filter, Socket, Sockets, State};
use turnstile_netlink::transport::Error;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::transport::{list, shown, write, Shown};
use crate::{enter, say};

/// Which sockets, and what to do with them.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").multiple(true)
    .args(["ipv4", "ipv6", "state", "port", "peer_port"]))]
pub(crate) struct Wanted {
    /// Only sockets of AF_INET
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Only sockets of AF_INET6; those may have messages over IPv4, too
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Only sockets in this state; may be repeated
    #[arg(long, value_enum)]
    state: Vec<Is>,
    /// Only sockets with this port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Only sockets that are connected to this port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    peer_port: Option<u16>,
    /// Show the memory that each has
    #[arg(short, long)]
    memory: bool,
    /// End the sockets that are shown: the next call on each fails with ECONNABORTED. Another flag
    /// has to say which
    #[arg(short = 'K', long, requires = "which")]
    kill: bool,
}

/// What a socket is.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Is {
    /// It has no port
    Unbound,
    /// It has a port, and receives from anybody
    Bound,
    /// It has a peer
    Connected,
    /// It is closed, and has messages under way
    Closing,
}

impl From<Is> for State {
    fn from(is: Is) -> Self {
        match is {
            Is::Unbound => Self::Unbound,
            Is::Bound => Self::Bound,
            Is::Connected => Self::Connected,
            Is::Closing => Self::Closing,
        }
    }
}

impl Wanted {
    fn filter(&self) -> Filter {
        Filter {
            ipv6: (self.ipv4 || self.ipv6).then_some(self.ipv6),
            states: self.state.iter().copied().map(State::from).collect(),
            port: self.port.unwrap_or(0),
            peer_port: self.peer_port.unwrap_or(0),
            memory: self.memory,
        }
    }
}

/// A process that has a socket open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct User {
    name: String,
    pid: u32,
    fd: u32,
}

/// Who has which socket open, by the socket's inode: of the processes that may be looked at.
fn users() -> BTreeMap<u32, Vec<User>> {
    let mut users: BTreeMap<u32, Vec<User>> = BTreeMap::new();
    let number = |name: &std::ffi::OsStr| name.to_str()?.parse::<u32>().ok();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = number(&process.file_name()) else {
            continue;
        };
        let files = fs::read_dir(process.path().join("fd"));
        for file in files.into_iter().flatten().flatten() {
            let target = fs::read_link(file.path()).unwrap_or_default();
            let inode = target.to_str().and_then(socket_inode);
            if let (Some(inode), Some(fd)) = (inode, number(&file.file_name())) {
                let name = fs::read_to_string(process.path().join("comm"));
                let name = name.unwrap_or_default().trim_end().to_owned();
                let user = User { name, pid, fd };
                users.entry(inode).or_default().push(user);
            }
        }
    }
    users
}

/// `socket:[INODE]`.
fn socket_inode(link: &str) -> Option<u32> {
    let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok()
}

fn show(cli: &Cli, socket: &Socket, users: &[User]) -> Shown {
    let name = (socket.device != 0)
        .then(|| if_indextoname(socket.device).ok())
        .flatten();
    let name = name.as_ref().and_then(|name| name.to_str().ok());
    let line = shown(cli, |to| {
        print_socket(socket, name, to);
        print_users(users, to);
    });
    match line {
        Shown::Json(Value::Object(mut object)) => {
            let users = users
                .iter()
                .map(|it| json!({"name": it.name, "pid": it.pid, "fd": it.fd}));
            object.insert("processes".to_owned(), users.collect());
            Shown::Json(Value::Object(object))
        }
        other => other,
    }
}

fn print_users(users: &[User], to: &mut dyn Printer) {
    for user in users {
        to.text(format_args!(
            "process {} pid {} fd {} ",
            user.name, user.pid, user.fd
        ));
    }
}

/// `turnstile sockets`.
pub(crate) fn sockets(cli: &Cli, wanted: &Wanted) -> Result<(), Failure> {
    enter(cli)?;
    let mut kernel = Sockets::connect()?;
    let mut found = kernel.list(&wanted.filter())?;
    let users = users();
    if wanted.kill {
        let mut ended = Vec::new();
        for socket in found {
            match kernel.destroy(&socket) {
                Ok(()) => ended.push(socket),
                // It has ended by itself.
                Err(Error::Refused {
                    errno: libc::ENOENT,
                    ..
                }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        found = ended;
    }
    if found.is_empty() {
        say("no such sockets in this network namespace");
    }
    let lines = found.iter().map(|socket| {
        let users = users.get(&socket.inode).filter(|_| socket.inode != 0);
        show(cli, socket, users.map_or(&[], Vec::as_slice))
    });
    write(&list(cli, lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn wanted(flags: &str) -> Result<Wanted, String> {
        let line = format!("turnstile sockets {flags}");
        let cli = Cli::try_parse_from(line.split_whitespace()).map_err(|e| e.to_string())?;
        match cli.command {
            crate::cli::Command::Sockets(wanted) => Ok(wanted),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn filters() {
        let filter = |flags: &str| wanted(flags).unwrap().filter();
        assert_eq!(filter(""), Filter::default());
        assert_eq!(filter("-4").ipv6, Some(false));
        assert_eq!(filter("-6 -m").ipv6, Some(true));
        let some = filter("--state closing --state unbound --port 5000 --peer-port 7 -m");
        assert_eq!(some.states, [State::Closing, State::Unbound]);
        assert_eq!((some.port, some.peer_port, some.memory), (5000, 7, true));
        assert!(wanted("-4 -6").unwrap_err().contains("cannot be used with"));
        assert!(wanted("--port 0").unwrap_err().contains("1..=65535"));
    }

    #[test]
    fn nobody_ends_all_sockets_by_one_letter() {
        let error = wanted("-K").unwrap_err();
        assert!(error.contains("required"), "{error}");
        assert!(wanted("-K --port 5000").unwrap().kill);
        assert!(wanted("-K -6").unwrap().kill);
        assert!(wanted("-K -m").is_err(), "that says nothing of which");
    }

    #[test]
    fn inodes_of_sockets() {
        assert_eq!(socket_inode("socket:[4711]"), Some(4711));
        assert_eq!(socket_inode("pipe:[4711]"), None);
        assert_eq!(socket_inode("socket:[x]"), None);
        assert_eq!(socket_inode("socket:[1"), None);
    }

    #[test]
    fn own_sockets_are_found_by_their_inode() {
        use std::os::unix::fs::MetadataExt;
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        let inode = fs::metadata(format!("/proc/self/fd/{fd}")).unwrap().ino();
        let users = users();
        let users = users.get(&u32::try_from(inode).unwrap()).unwrap();
        let own = users.iter().find(|user| user.pid == std::process::id());
        assert_eq!(own.unwrap().fd, u32::try_from(fd).unwrap());
    }
}
