// SPDX-License-Identifier: GPL-2.0
//! What encrypts below the transport: WireGuard, and IPsec's ESP in both modes. Messages of all
//! lengths arrive whole, in packets as long as what is left of the MTU, and none of their bytes is
//! on the wire. The commands are those of docs/security.md.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use turnstile_socket::{SendOptions, Socket};

use super::support::{
    addresses, configure_all, hosts, joined, nothing_more, receive, same, sender, socket, PATIENCE,
    PORT,
};
use super::zerocopy;
use crate::harness::{Case, Ctx, Need};
use crate::netns::Netns;
use crate::pcap::{Capture, Packet};
use crate::topology::{Builder, Host, Net};

const WIREGUARD: &[Need] = &[Need::Module("wireguard")];
const ESP: &[Need] = &[Need::Module("esp4"), Need::Module("esp6")];
// Encrypting tens of megabytes.
const MUCH_WIREGUARD: &[Need] = &[Need::Speed, Need::Module("wireguard")];
const MUCH_ESP: &[Need] = &[Need::Speed, Need::Module("esp4"), Need::Module("esp6")];

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("transport/below/wireguard", wireguard)
        .needs(MUCH_WIREGUARD)
        .timeout_s(180),
    Case::new("transport/below/wireguard-wrong-key", wireguard_wrong_key).needs(WIREGUARD),
    Case::new("transport/below/esp-transport", |ctx| {
        esp(ctx, Mode::Transport)
    })
    .needs(MUCH_ESP)
    .timeout_s(180),
    Case::new("transport/below/esp-tunnel", |ctx| esp(ctx, Mode::Tunnel))
        .needs(MUCH_ESP)
        .timeout_s(180),
    Case::new("transport/below/esp-wrong-key", esp_wrong_key).needs(ESP),
    Case::new("transport/below/esp-from-now-on", esp_from_now_on).needs(ESP),
    Case::new("transport/below/esp-device-ends", esp_device_ends).needs(ESP),
];

/// Bytes of the messages.
const LENGTHS: [usize; 7] = [1, 100, 1400, 1500, 70_000, 1_000_000, 10_000_000];
/// What messages are made of, so that they are known where they can be read.
const CLEAR: &[u8] = b"this is to be read by nobody but him ";

/// Addresses in the tunnel.
const INNER: [[&str; 2]; 2] = [["192.168.77.1", "fd77::1"], ["192.168.77.2", "fd77::2"]];

fn message(len: usize) -> Vec<u8> {
    CLEAR.iter().copied().cycle().take(len).collect()
}

fn inner(v6: usize) -> Result<SocketAddr> {
    let ip: IpAddr = INNER[1][v6].parse()?;
    Ok(SocketAddr::new(ip, PORT))
}

/// Offloads would show packets to the capture that are not on the wire.
fn network() -> Result<Net> {
    hosts(&Builder::pair().without_offloads())
}

/// The IP protocol of a frame, whether it is a fragment, and where its content begins; `None`: it
/// is not IP.
fn ip(bytes: &[u8]) -> Option<(u8, bool, usize)> {
    match bytes.get(12..14)? {
        [0x08, 0x00] => {
            let fragment = u16::from_be_bytes([*bytes.get(20)?, *bytes.get(21)?]) & 0x3fff != 0;
            let header = usize::from(bytes.get(14)? & 15) * 4;
            Some((*bytes.get(23)?, fragment, 14 + header))
        }
        [0x86, 0xdd] => {
            let next = *bytes.get(20)?;
            Some((next, next == 44, 54))
        }
        _ => None,
    }
}

const UDP: u8 = 17;
const ESP_PROTOCOL: u8 = 50;
const ICMP6: u8 = 58;
const HOP_BY_HOP: u8 = 0;
const WG_PORT: u16 = 51_820;

/// What may be on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Wireguard,
    Esp,
}

/// That nothing but what is encrypted was on the wire, none of it in pieces; the longest IP packet.
fn sealed(packets: &[Packet], below: Below) -> Result<usize> {
    let mut longest = 0;
    let mut count = 0;
    for packet in packets {
        let bytes = &packet.bytes;
        let readable = bytes.windows(16).any(|part| part == &CLEAR[..16]);
        ensure!(!readable, "in clear: {bytes:x?}");
        let Some((protocol, fragment, content)) = ip(bytes) else {
            continue;
        };
        ensure!(
            !fragment,
            "a fragment of {} bytes: {:x?}",
            packet.length,
            &bytes[..60]
        );
        let port = bytes.get(content + 2..content + 4);
        let port = port.map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
        let right = match (protocol, below) {
            (UDP, Below::Wireguard) => port == WG_PORT,
            (ESP_PROTOCOL, Below::Esp) => true,
            // Neighbours and multicast groups.
            (ICMP6 | HOP_BY_HOP, _) => continue,
            _ => false,
        };
        ensure!(right, "protocol {protocol} to port {port} on the wire");
        longest = longest.max(packet.length - 14);
        count += 1;
    }
    ensure!(count > 1000, "only {count} packets on the wire");
    Ok(longest)
}

/// What both hosts put on the wire. What comes in is shown to a capture once more when it is
/// decrypted, and is not looked at.
struct Wire(Vec<Capture>);

impl Wire {
    fn capture(net: &Net) -> Result<Self> {
        let start = |host: &Host| Capture::keeping(&host.ns, Some("eth0"), 2000);
        Ok(Self(net.hosts.iter().map(start).collect::<Result<_>>()?))
    }

    fn finish(self) -> Result<Vec<Packet>> {
        let mut packets = Vec::new();
        for capture in self.0 {
            packets.extend(capture.finish()?.sent_by("eth0")?.cloned());
        }
        Ok(packets)
    }
}

/// Sends messages of all lengths, and gives what was on the wire.
fn exchange(net: &Net, to: SocketAddr) -> Result<Vec<Packet>> {
    let wire = Wire::capture(net)?;
    let receiver = socket(&net.hosts[1].ns, to)?;
    let from = sender(&net.hosts[0].ns)?;
    let receiving = receive(receiver, LENGTHS.len());
    for len in LENGTHS {
        from.send_to(&message(len), to, &SendOptions::default())
            .with_context(|| format!("{len} bytes to {to}"))?;
    }
    for len in LENGTHS {
        let done = from.wait_completion(Some(PATIENCE))?;
        let done = done.with_context(|| format!("{len} bytes: nothing is reported"))?;
        done.outcome.with_context(|| format!("to {to}"))?;
    }
    let (receiver, messages) = joined(receiving)?;
    let mut lengths: Vec<usize> = messages.iter().map(|it| it.data.len()).collect();
    lengths.sort_unstable();
    ensure!(lengths == LENGTHS, "{lengths:?}");
    for got in &messages {
        same("a message", &got.data, &message(got.data.len()))?;
    }
    nothing_more(&receiver)?;
    zerocopy::unharmed(&net.hosts[0].ns, &receiver, to)?;
    wire.finish()
}

/// That a message fails with a time-out, after as long as the transport tries.
fn fails(net: &Net, to: SocketAddr) -> Result<()> {
    configure_all(net, "timeout 2s")?;
    let receiver = socket(&net.hosts[1].ns, to)?;
    let from: Socket = sender(&net.hosts[0].ns)?;
    let wire = Wire::capture(net)?;
    from.send_to(&message(5000), to, &SendOptions::default())?;
    let done = from.wait_completion(Some(PATIENCE))?;
    let done = done.context("nothing is reported")?;
    let error = done.outcome.err().context("it was delivered")?;
    ensure!(error.raw_os_error() == Some(libc::ETIMEDOUT), "{error}");
    nothing_more(&receiver)?;
    for packet in wire.finish()? {
        let readable = packet.bytes.windows(16).any(|part| part == &CLEAR[..16]);
        ensure!(!readable, "in clear: {:x?}", packet.bytes);
    }
    Ok(())
}

/// Key pairs of both hosts: private, public.
fn keys(net: &Net) -> Result<Vec<(String, String)>> {
    net.hosts
        .iter()
        .map(|host| {
            let private = host.ns.run("wg genkey")?;
            let public = host.ns.run_with("wg pubkey", &private)?;
            Ok((private.trim().to_owned(), public.trim().to_owned()))
        })
        .collect()
}

/// A tunnel between the hosts, over IPv4 or IPv6.
fn tunnel(net: &Net, over_v6: bool, keys: &[(String, String)]) -> Result<()> {
    for (at, host) in net.hosts.iter().enumerate() {
        let ns = &host.ns;
        let other = &net.hosts[1 - at];
        let endpoint = SocketAddr::new(addresses(other)[usize::from(over_v6)].ip(), WG_PORT);
        ns.ip("link add wg0 type wireguard")?;
        let path = std::env::temp_dir().join(format!("key-{at}"));
        std::fs::write(&path, &keys[at].0)?;
        ns.run(&format!(
            "wg set wg0 private-key {} listen-port {WG_PORT} peer {} endpoint {endpoint} \
             allowed-ips {}/32,{}/128",
            path.display(),
            keys[1 - at].1,
            INNER[1 - at][0],
            INNER[1 - at][1]
        ))?;
        ns.ip(&format!("address add {}/24 dev wg0", INNER[at][0]))?;
        ns.ip(&format!("address add {}/64 dev wg0 nodad", INNER[at][1]))?;
        ns.ip("link set wg0 up")?;
    }
    Ok(())
}

/// Packets fill the device's MTU, which leaves room for WireGuard's headers.
fn wireguard(ctx: &mut Ctx) -> Result<()> {
    for over_v6 in [false, true] {
        let net = network()?;
        tunnel(&net, over_v6, &keys(&net)?)?;
        for v6 in 0..2 {
            let packets = exchange(&net, inner(v6)?)?;
            let longest = sealed(&packets, Below::Wireguard)?;
            ctx.note(format!(
                "IPv6 {v6} over IPv6 {over_v6}: {} frames, the longest IP packet {longest}",
                packets.len()
            ));
            // 1420, WireGuard's 32, UDP's 8 and IP's header.
            let filled = 1420 + 32 + 8 + if over_v6 { 40 } else { 20 };
            ensure!(
                longest == filled,
                "the longest of {longest} bytes, not {filled}"
            );
        }
    }
    Ok(())
}

/// The peer's key is another one's.
fn wireguard_wrong_key(_: &mut Ctx) -> Result<()> {
    let net = network()?;
    let mut keys = keys(&net)?;
    keys[1].1 = net.hosts[0]
        .ns
        .run_with("wg pubkey", &net.hosts[0].ns.run("wg genkey")?)?;
    keys[1].1.truncate(44);
    tunnel(&net, false, &keys)?;
    for v6 in 0..2 {
        fails(&net, inner(v6)?)?;
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Transport,
    Tunnel,
}

/// The way of ESP's keys: 16 bytes and 4 of salt.
const KEY: &str = "0x000102030405060708090a0b0c0d0e0f10111213";
const OTHER_KEY: &str = "0xffeeddccbbaa99887766554433221100ffeeddcc";

/// The security associations of both directions, with a key for those that this host sends by.
fn associations(ns: &Netns, ends: [IpAddr; 2], mode: Mode, sends: &str) -> Result<()> {
    let mode = if mode == Mode::Transport {
        "transport"
    } else {
        "tunnel"
    };
    for (from, to, spi, key) in [(0, 1, 1, sends), (1, 0, 2, KEY)] {
        ns.ip(&format!(
            "xfrm state add src {} dst {} proto esp spi {spi} reqid 1 mode {mode} aead \
             rfc4106(gcm(aes)) {key} 128",
            ends[from], ends[to]
        ))?;
    }
    Ok(())
}

/// What is to be encrypted, and how: between two hosts, or what these have behind them.
fn policies(
    ns: &Netns,
    at: usize,
    ends: [IpAddr; 2],
    inside: [IpAddr; 2],
    mode: Mode,
) -> Result<()> {
    let name = if mode == Mode::Transport {
        "transport"
    } else {
        "tunnel"
    };
    for (from, to) in [(at, 1 - at), (1 - at, at)] {
        let dir = if from == at { "out" } else { "in" };
        let ends = match mode {
            Mode::Transport => String::new(),
            Mode::Tunnel => format!("src {} dst {} ", ends[from], ends[to]),
        };
        ns.ip(&format!(
            "xfrm policy add src {} dst {} dir {dir} tmpl {ends}proto esp reqid 1 \
             mode {name}",
            inside[from], inside[to]
        ))?;
    }
    Ok(())
}

/// Both hosts' addresses: outside, and where messages go.
fn ends(net: &Net, mode: Mode, v6: usize) -> Result<([IpAddr; 2], [IpAddr; 2])> {
    let outside = [0, 1].map(|at| addresses(&net.hosts[at])[v6].ip());
    let inside = match mode {
        Mode::Transport => outside,
        Mode::Tunnel => [INNER[0][v6].parse()?, INNER[1][v6].parse()?],
    };
    Ok((outside, inside))
}

/// ESP between the hosts; `sends` is the key that the first one sends with.
fn encrypt(net: &Net, mode: Mode, v6: usize, sends: &str) -> Result<SocketAddr> {
    let (outside, inside) = ends(net, mode, v6)?;
    for (at, host) in net.hosts.iter().enumerate() {
        let ns = &host.ns;
        if mode == Mode::Tunnel {
            let (length, flag) = [("32", ""), ("128", " nodad")][v6];
            ns.ip(&format!("address add {}/{length} dev lo{flag}", inside[at]))?;
            ns.ip(&format!(
                "route add {}/{length} via {} dev eth0 src {}",
                inside[1 - at],
                outside[1 - at],
                inside[at]
            ))?;
        }
        // The other one knows only the right key.
        associations(ns, outside, mode, if at == 0 { sends } else { KEY })?;
        policies(ns, at, outside, inside, mode)?;
    }
    Ok(SocketAddr::new(inside[1], PORT))
}

fn esp(ctx: &mut Ctx, mode: Mode) -> Result<()> {
    for v6 in 0..2 {
        let net = network()?;
        let to = encrypt(&net, mode, v6, KEY)?;
        let packets = exchange(&net, to)?;
        let longest = sealed(&packets, Below::Esp)?;
        ctx.note(format!(
            "{mode:?} IPv6 {v6}: {} frames, the longest IP packet {longest}",
            packets.len()
        ));
        // ESP's content is padded to a multiple of four.
        ensure!(
            (1494..=1500).contains(&longest),
            "the longest of {longest} bytes"
        );
    }
    Ok(())
}

/// The receiver does not have the key that the sender uses.
fn esp_wrong_key(_: &mut Ctx) -> Result<()> {
    for mode in [Mode::Transport, Mode::Tunnel] {
        for v6 in 0..2 {
            let net = network()?;
            let to = encrypt(&net, mode, v6, OTHER_KEY)?;
            fails(&net, to).with_context(|| format!("{mode:?}, IPv6 {v6}"))?;
        }
    }
    Ok(())
}

/// The transport keeps routes: a policy that comes holds for the very next packet, and what has no
/// key any more does not go out.
fn esp_from_now_on(_: &mut Ctx) -> Result<()> {
    for v6 in 0..2 {
        let net = network()?;
        let to = addresses(&net.hosts[1])[v6];
        let receiver = socket(&net.hosts[1].ns, to)?;
        let from = sender(&net.hosts[0].ns)?;
        let long = message(2_000_000);
        from.send_to(&long, to, &SendOptions::default())?;
        ensure!(receiver.recv_message(1 << 22)?.data == long, "in clear");
        let _ = from.wait_completion(Some(PATIENCE))?;
        std::thread::sleep(Duration::from_millis(100));
        encrypt(&net, Mode::Transport, v6, KEY)?;
        let wire = Wire::capture(&net)?;
        from.send_to(&long, to, &SendOptions::default())?;
        ensure!(receiver.recv_message(1 << 22)?.data == long, "encrypted");
        let done = from.wait_completion(Some(PATIENCE))?;
        done.context("nothing is reported")?
            .outcome
            .context("encrypted")?;
        sealed(&wire.finish()?, Below::Esp).with_context(|| format!("IPv6 {v6}"))?;
        drop(receiver);
        // Without an association.
        net.hosts[0].ns.ip("xfrm state flush")?;
        fails(&net, to).with_context(|| format!("IPv6 {v6}, without a key"))?;
    }
    Ok(())
}

/// A socket that is connected by way of IPsec and idle does not keep a device from its end.
fn esp_device_ends(ctx: &mut Ctx) -> Result<()> {
    for mode in [Mode::Transport, Mode::Tunnel] {
        for v6 in 0..2 {
            let net = network()?;
            let to = encrypt(&net, mode, v6, KEY)?;
            let receiver = socket(&net.hosts[1].ns, to)?;
            let from = sender(&net.hosts[0].ns)?;
            from.connect(to)?;
            from.send(CLEAR, &SendOptions::default())?;
            ensure!(receiver.recv_message(1 << 10)?.data == CLEAR, "it came");
            let began = Instant::now();
            net.hosts[0].ns.ip("link del eth0")?;
            let took = began.elapsed();
            ctx.note(format!("{mode:?}, IPv6 {v6}: gone after {took:?}"));
            ensure!(
                took < Duration::from_secs(2),
                "{mode:?}, IPv6 {v6}: {took:?}"
            );
            drop(from);
        }
    }
    Ok(())
}
