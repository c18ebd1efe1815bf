// SPDX-License-Identifier: GPL-2.0
//! Devices: down and up, other MTUs, made and removed under way.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::raw_netlink::{attribute, NESTED};

use super::hand::{Hand, Shelved};
use super::sockets;

const SIOCSIFFLAGS: u64 = 0x8914;
const SIOCSIFADDR: u64 = 0x8916;
const SIOCSIFMTU: u64 = 0x8922;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
/// `NLM_F_CREATE`, `NLM_F_EXCL`.
const CREATE: u16 = 0x600;

/// Does something to a device.
pub(super) fn call(hand: &mut Hand<'_>) {
    match hand.rng.index(10) {
        0 | 1 => down_and_up(hand),
        2..4 => mtu(hand),
        4..7 => make(hand),
        7 => remove(hand),
        _ => up(hand),
    }
}

/// `struct ifreq`.
fn request(number: u64, device: &str, value: &[u8], v6: bool) -> bool {
    let mut request = [0_u8; 40];
    request[..device.len()].copy_from_slice(device.as_bytes());
    request[16..16 + value.len()].copy_from_slice(value);
    let place = if v6 { "[::]:0" } else { "0.0.0.0:0" };
    let Ok(socket) = UdpSocket::bind(place) else {
        return false;
    };
    let place = request.as_mut_ptr();
    // SAFETY: these calls read and write at most a struct ifreq.
    unsafe { libc::ioctl(socket.as_raw_fd(), number as _, place) == 0 }
}

/// Switches a device on or off.
pub(super) fn switch(device: &str, on: bool) -> bool {
    let flags = if on { libc::IFF_UP } else { 0 };
    request(SIOCSIFFLAGS, device, &(flags as i16).to_ne_bytes(), false)
}

fn down_and_up(hand: &mut Hand<'_>) {
    let device = *hand.rng.pick(&["eth0", "eth0", "lo", "dev1"]);
    hand.about_to(format!("{device} down"));
    let done = switch(device, false);
    hand.tally.count("a device down", done);
    if hand.rng.one_in(2) {
        std::thread::sleep(std::time::Duration::from_micros(hand.rng.range(1..=5000)));
    }
    up(hand);
}

/// All as it was: with the device, IPv6 has lost its address.
fn up(hand: &mut Hand<'_>) {
    hand.about_to("all devices up".into());
    let done = ["lo", "eth0"].map(|device| switch(device, true));
    hand.tally.count("devices up", done == [true; 2]);
    let Ok(index) = nix::net::if_::if_nametoindex("eth0") else {
        return;
    };
    // struct in6_ifreq: address, length of the prefix, device.
    let mut bytes = hand.shared.places.v6[hand.side].octets().to_vec();
    bytes.extend_from_slice(&64_u32.to_ne_bytes());
    bytes.extend_from_slice(&index.to_ne_bytes());
    let Ok(socket) = UdpSocket::bind("[::]:0") else {
        return;
    };
    // SAFETY: the call reads that structure, which is there.
    unsafe { libc::ioctl(socket.as_raw_fd(), SIOCSIFADDR as _, bytes.as_mut_ptr()) };
}

fn mtu(hand: &mut Hand<'_>) {
    let rng = &mut hand.rng;
    let device = *rng.pick(&["eth0", "eth0", "lo", "dev1"]);
    let mtu = *rng.pick(&[1500, 1500, 1500, 1280, 576, 9000, 68, 65_535]);
    hand.about_to(format!("{device}: MTU {mtu}"));
    let done = request(SIOCSIFMTU, device, &i32::to_ne_bytes(mtu), false);
    hand.tally.count("another MTU", done);
    if mtu < 1280 && hand.rng.one_in(2) {
        request(SIOCSIFMTU, device, &1500_i32.to_ne_bytes(), false);
        up(hand);
    }
}

/// `struct ifinfomsg` of no device yet, or of one.
fn info(index: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&index.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes
}

/// A pair of devices, or one that leads nowhere; with an address, and a socket bound to it.
fn make(hand: &mut Hand<'_>) {
    const IFNAME: u16 = 3;
    const LINKINFO: u16 = 18;
    const INFO_KIND: u16 = 1;
    const INFO_DATA: u16 = 2;
    const PEER: u16 = 1;
    let pair = hand.rng.one_in(2);
    let link = if pair {
        let peer = [info(0), attribute(IFNAME, b"dev2\0")].concat();
        let data = attribute(PEER, &peer);
        [
            attribute(INFO_KIND, b"veth\0"),
            attribute(INFO_DATA | NESTED, &data),
        ]
        .concat()
    } else {
        attribute(INFO_KIND, b"dummy\0")
    };
    let body = [
        info(0),
        attribute(IFNAME, b"dev1\0"),
        attribute(LINKINFO | NESTED, &link),
    ]
    .concat();
    hand.about_to(format!("dev1 is made, a pair: {pair}"));
    let netlink = &mut hand.devices.tc.netlink;
    let answer = netlink.ask(RTM_NEWLINK, CREATE, &body);
    let done = answer.is_ok_and(|answer| answer.errno == 0);
    hand.tally.count("a device made", done);
    if !done {
        return;
    }
    // struct sockaddr_in of 10.1.0.1.
    let mut address = vec![2, 0, 0, 0, 10, 1, 0, 1];
    address.resize(16, 0);
    request(SIOCSIFADDR, "dev1", &address, false);
    for device in ["dev1", "dev2"] {
        switch(device, true);
    }
    let domain = *hand.rng.pick(&[libc::AF_INET, libc::AF_INET6]);
    if let Some(fd) = sockets::new(domain, libc::SOCK_RDM | libc::SOCK_CLOEXEC) {
        let bound = sockets::set_option(&fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, b"dev1\0");
        hand.tally.count("a socket bound to a device", bound);
        hand.shared.shelve(&mut hand.rng, Shelved { fd, domain });
    }
}

fn remove(hand: &mut Hand<'_>) {
    hand.about_to("dev1 is removed".into());
    let Ok(index) = nix::net::if_::if_nametoindex("dev1") else {
        return;
    };
    let netlink = &mut hand.devices.tc.netlink;
    let answer = netlink.ask(RTM_DELLINK, 0, &info(index));
    let done = answer.is_ok_and(|answer| answer.errno == 0);
    hand.tally.count("a device removed", done);
}
