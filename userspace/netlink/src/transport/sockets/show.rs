// SPDX-License-Identifier: GPL-2.0
//! A socket as text and as JSON, by one set of calls.

use std::net::IpAddr;

use super::Socket;
use crate::print::Printer;

/// An address with a port, as it is typed; `*`: any address, or any port.
fn address(ip: IpAddr, port: u16) -> String {
    let port = match port {
        0 => "*".to_owned(),
        port => port.to_string(),
    };
    match ip {
        ip if ip.is_unspecified() => format!("*:{port}"),
        IpAddr::V4(ip) => format!("{ip}:{port}"),
        IpAddr::V6(ip) => format!("[{ip}]:{port}"),
    }
}

fn number(key: &str, value: u64, to: &mut dyn Printer) {
    to.number(key, &value, format_args!("{key} {value} "));
}

/// Shows a socket: in text as one line. `device` is the name of the one that it is bound to.
pub fn print_socket(socket: &Socket, device: Option<&str>, to: &mut dyn Printer) {
    let state = socket.state.name();
    to.string("state", state, format_args!("{state} "));
    let family = if socket.ipv6 { "inet6" } else { "inet" };
    to.string("family", family, format_args!("{family} "));
    number("recv-q", socket.readable.into(), to);
    number("send-q", socket.unacknowledged.into(), to);
    let local = address(socket.local, socket.local_port);
    to.string(
        "local-address",
        &socket.local.to_string(),
        format_args!("local {local} "),
    );
    to.number("local-port", &socket.local_port, format_args!(""));
    if socket.peer_port != 0 {
        let peer = address(socket.peer, socket.peer_port);
        to.string(
            "peer-address",
            &socket.peer.to_string(),
            format_args!("peer {peer} "),
        );
        to.number("peer-port", &socket.peer_port, format_args!(""));
    }
    if socket.device != 0 {
        let index = socket.device.to_string();
        let name = device.unwrap_or(&index);
        to.string("device", name, format_args!("device {name} "));
    }
    number("whole", socket.whole.into(), to);
    number("incoming", socket.incoming.into(), to);
    number("outgoing", socket.outgoing.into(), to);
    number("uid", socket.uid.into(), to);
    number("inode", socket.inode.into(), to);
    number("cookie", socket.cookie, to);
    if let Some(mark) = socket.mark {
        let shown = if mark == 0 {
            String::new()
        } else {
            format!("mark {mark:#x} ")
        };
        to.number("mark", &mark, format_args!("{shown}"));
    }
    if let Some(cgroup) = socket.cgroup {
        number("cgroup", cgroup, to);
    }
    if let Some(memory) = socket.memory {
        to.text(format_args!("memory "));
        to.open("memory");
        number("receive", memory.receive.into(), to);
        number("receive-buffer", memory.receive_buffer.into(), to);
        number("send", memory.send.into(), to);
        number("send-buffer", memory.send_buffer.into(), to);
        number("ahead", memory.ahead.into(), to);
        to.close();
    }
}
