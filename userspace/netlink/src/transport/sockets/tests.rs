// SPDX-License-Identifier: GPL-2.0

use super::show::print_socket;
use super::wire::{decode, exact, list};
use super::{Filter, State};
use crate::attr::{put, put_u32, put_u64};
use crate::json::Json;
use crate::print::Text;

/// What the kernel sends of a socket: `struct inet_diag_msg`, and attributes.
fn answer(family: u8, state: u8) -> Vec<u8> {
    let mut bytes = vec![family, state, 0, 0];
    bytes.extend(5000_u16.to_be_bytes());
    bytes.extend(40_000_u16.to_be_bytes());
    let ip = |last| match family {
        2 => [10, 0, 0, last, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        _ => [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last],
    };
    bytes.extend(ip(1));
    bytes.extend(ip(2));
    bytes.extend(3_u32.to_ne_bytes());
    bytes.extend(77_u64.to_ne_bytes());
    for number in [0_u32, 1234, 5678, 1000, 4711] {
        bytes.extend(number.to_ne_bytes());
    }
    let mut info = Vec::new();
    for number in [1_u32, 2, 3, 0] {
        info.extend(number.to_ne_bytes());
    }
    put(&mut bytes, 8, &[0]);
    put(&mut bytes, 2, &info);
    put_u32(&mut bytes, 15, 0x10);
    put_u64(&mut bytes, 21, 99);
    bytes
}

#[test]
fn every_field_is_where_the_kernel_has_it() {
    let socket = decode(&answer(2, 1)).unwrap();
    assert_eq!(socket.state, State::Connected);
    assert!(!socket.ipv6);
    assert_eq!(socket.local.to_string(), "10.0.0.1");
    assert_eq!(socket.peer.to_string(), "10.0.0.2");
    assert_eq!((socket.local_port, socket.peer_port), (5000, 40_000));
    assert_eq!((socket.device, socket.cookie), (3, 77));
    assert_eq!((socket.readable, socket.unacknowledged), (1234, 5678));
    assert_eq!((socket.uid, socket.inode), (1000, 4711));
    let messages = (socket.whole, socket.incoming, socket.outgoing);
    assert_eq!(messages, (1, 2, 3));
    assert_eq!((socket.mark, socket.cgroup), (Some(0x10), Some(99)));
    let socket = decode(&answer(10, 4)).unwrap();
    assert_eq!(socket.state, State::Closing);
    assert_eq!(socket.local.to_string(), "fd00::1");
}

#[test]
fn what_is_cut_off_is_refused() {
    let whole = answer(2, 7);
    for len in 0..72 {
        assert!(decode(&whole[..len]).is_err(), "{len}");
    }
    assert!(decode(&whole[..whole.len() - 4]).is_err());
    assert!(decode(&[9; 72]).is_err(), "a family of nobody");
}

#[test]
fn a_socket_is_asked_for_as_it_was_told() {
    let bytes = answer(10, 1);
    let request = exact(&decode(&bytes).unwrap());
    // The identity, from the ports to the cookie, is at 8 here and at 4 there.
    assert_eq!(request[8..56], bytes[4..52]);
    assert_eq!(request[56..], [8, 0, 3, 0, 3, 1, 0, 0], "the protocol");
}

#[test]
fn a_list_is_asked_for_by_what_is_wanted() {
    let all = list(false, &Filter::default());
    assert_eq!(all[..4], [2, 255, 2, 0]);
    assert_eq!(
        all[4..8],
        ((1_u32 << 1) | (1 << 4) | (1 << 7)).to_ne_bytes()
    );
    assert_eq!(all[8..12], [0; 4]);
    assert_eq!(all[48..56], [0xff; 8], "any cookie");
    let some = Filter {
        states: vec![State::Closing],
        port: 258,
        peer_port: 772,
        memory: true,
        ..Filter::default()
    };
    let some = list(true, &some);
    assert_eq!(some[..4], [10, 255, 0x43, 0]);
    assert_eq!(some[4..8], (1_u32 << 4).to_ne_bytes());
    assert_eq!(some[8..12], [1, 2, 3, 4]);
}

#[test]
fn as_text_and_as_json() {
    let socket = decode(&answer(10, 1)).unwrap();
    let mut text = Text::default();
    print_socket(&socket, Some("eth0"), &mut text);
    assert_eq!(
        text.finish().trim_end(),
        "connected inet6 recv-q 1234 send-q 5678 local [fd00::1]:5000 peer [fd00::2]:40000 \
         device eth0 whole 1 incoming 2 outgoing 3 uid 1000 inode 4711 cookie 77 mark 0x10 \
         cgroup 99"
    );
    let mut json = Json::default();
    print_socket(&socket, None, &mut json);
    let json = json.finish();
    assert_eq!(json["local-address"], "fd00::1");
    assert_eq!(json["local-port"], 5000);
    assert_eq!(json["device"], "3");
    assert_eq!(json["recv-q"], 1234);
    let mut unbound = socket;
    (unbound.local, unbound.local_port) = (std::net::Ipv6Addr::UNSPECIFIED.into(), 0);
    unbound.peer_port = 0;
    let mut text = Text::default();
    print_socket(&unbound, None, &mut text);
    assert!(text.finish().contains(" local *:* device 3 whole"));
}
