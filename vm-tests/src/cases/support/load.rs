// SPDX-License-Identifier: GPL-2.0
//! Traffic of every kind that a port can meet, and that does not mind what becomes of it: devices
//! that go down, addresses that vanish, queues that are deleted.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use nix::sys::socket::{setsockopt, sockopt};
use turnstile_core::header::PORT;

use crate::netns::Netns;
use crate::rng::Rng;
use crate::topology::Net;
use crate::traffic::frame::{Frame, TPID_C, TPID_S};
use crate::traffic::{Packet, RawSocket, VirtioNetHeader};

/// What is sent from the first host of a pair to the second.
#[derive(Clone, Debug)]
pub(in crate::cases) struct Mix {
    /// UDP datagrams, from the smallest to fragments of large ones.
    pub(in crate::cases) udp: bool,
    /// UDP super-packets.
    pub(in crate::cases) gso: bool,
    /// Hand-made frames: tagged, malformed, not IP, TCP super-packets.
    pub(in crate::cases) raw: bool,
    /// TCP connections.
    pub(in crate::cases) tcp: bool,
    /// Ports whose classes are named by `skb->priority`, now and then.
    pub(in crate::cases) ports: Vec<u32>,
}

impl Mix {
    /// All of it.
    pub(in crate::cases) fn all(ports: &[u32]) -> Self {
        Self {
            udp: true,
            gso: true,
            raw: true,
            tcp: true,
            ports: ports.to_vec(),
        }
    }

    /// Datagrams only, as fast as they go.
    pub(in crate::cases) fn flood() -> Self {
        Self {
            udp: true,
            gso: false,
            raw: false,
            tcp: false,
            ports: Vec::new(),
        }
    }
}

/// Threads that send until they are stopped.
#[derive(Debug)]
pub(in crate::cases) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Load {
    /// Starts to send. Random choices follow `seed`; what goes between them depends on the machine.
    pub(in crate::cases) fn start(net: &Net, mix: &Mix, seed: u64) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut load = Self {
            stop,
            threads: Vec::new(),
        };
        let from = &net.hosts[0].ns;
        let to = &net.hosts[1];
        let addresses = [IpAddr::V4(to.v4), IpAddr::V6(to.v6)];
        if mix.udp || mix.gso {
            let sockets = from.enter(|| addresses.into_iter().map(UdpSender::new).collect())?;
            let (mix, rng) = (mix.clone(), Rng::new(seed, "udp"));
            load.spawn(from, move |stop| send_udp(sockets, &mix, rng, stop));
        }
        if mix.raw {
            let sockets = [
                RawSocket::open(from, "eth0")?,
                RawSocket::open_gso(from, "eth0")?,
            ];
            let (mix, rng) = (mix.clone(), Rng::new(seed, "raw"));
            let (v4, v6) = (to.v4, to.v6);
            load.spawn(from, move |stop| {
                send_raw(&sockets, &Raw { v4, v6 }, &mix, rng, stop);
                Ok(())
            });
        }
        if mix.tcp {
            for address in addresses {
                let listener = to.ns.enter(|| {
                    let listener = TcpListener::bind((address, 0)).context("listening")?;
                    listener.set_nonblocking(true).context("listening")?;
                    Ok(listener)
                })?;
                let target = listener.local_addr().context("the listener's address")?;
                load.spawn(&to.ns, move |stop| receive_tcp(&listener, stop));
                load.spawn(from, move |stop| {
                    send_tcp(target, stop);
                    Ok(())
                });
            }
        }
        Ok(load)
    }

    /// Asks the senders to end, without waiting.
    pub(in crate::cases) fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until all of them have ended. A sender may have to wait for its queue first.
    pub(in crate::cases) fn stop(self) -> Result<()> {
        self.ask_to_stop();
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a sender panicked"))??;
        }
        Ok(())
    }

    fn spawn(&mut self, ns: &Netns, work: impl FnOnce(&AtomicBool) -> Result<()> + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        let (inside, entered) = std::sync::mpsc::channel();
        self.threads.push(ns.spawn(move || {
            // Nobody listens any more only if the test is over.
            let _ = inside.send(());
            work(&stop)
        }));
        // The namespace may be deleted once the thread is inside. One that cannot enter says so at
        // the end.
        let _ = entered.recv();
    }
}

/// Time for others to run: there are as few as two processors.
fn breathe() {
    std::thread::sleep(Duration::from_millis(1));
}

/// `skb->priority`: mostly none, else a class, sometimes one that the port does not have.
fn priority(mix: &Mix, rng: &mut Rng) -> u32 {
    if mix.ports.is_empty() || !rng.one_in(3) {
        return 0;
    }
    let minor = *rng.pick(&[1, 2, 3, 0x10, 0x12, 0x15, 0x17, 0, 4, 0x102]);
    *rng.pick(&mix.ports) | minor
}

struct UdpSender {
    plain: UdpSocket,
    /// Its datagrams become super-packets.
    gso: UdpSocket,
}

impl UdpSender {
    fn new(to: IpAddr) -> Result<Self> {
        let open = || -> Result<UdpSocket> {
            let any: SocketAddr = match to {
                IpAddr::V4(_) => ([0; 4], 0).into(),
                IpAddr::V6(_) => ([0_u16; 8], 0).into(),
            };
            let socket = UdpSocket::bind(any).context("binding a sender's socket")?;
            socket
                .connect((to, PORT))
                .context("connecting a sender's socket")?;
            socket
                .set_nonblocking(true)
                .context("making a socket non-blocking")?;
            setsockopt(&socket, sockopt::SndBuf, &(1 << 20)).context("setting SO_SNDBUF")?;
            Ok(socket)
        };
        Ok(Self {
            plain: open()?,
            gso: open()?,
        })
    }
}

fn any_packet(rng: &mut Rng) -> Packet {
    match rng.range(0..=9) {
        0 => Packet::Signal,
        1..=4 => Packet::Token(rng.range(0..=8) as u8),
        5 | 6 => Packet::Data,
        7 | 8 => Packet::Unscheduled,
        _ => Packet::Other,
    }
}

fn send_udp(senders: Vec<UdpSender>, mix: &Mix, mut rng: Rng, stop: &AtomicBool) -> Result<()> {
    let mut buffer = vec![0; 60_000];
    while !stop.load(Ordering::Relaxed) {
        let sender = rng.pick(&senders);
        let gso = mix.gso && (!mix.udp || rng.one_in(4));
        let socket = if gso { &sender.gso } else { &sender.plain };
        let prio = libc::c_int::try_from(priority(mix, &mut rng)).context("SO_PRIORITY")?;
        setsockopt(socket, sockopt::Priority, &prio).context("setting SO_PRIORITY")?;
        let mut segment = 0;
        if gso {
            segment = *rng.pick(&[18, 100, 512, 1200, 1452]);
            let size = libc::c_int::try_from(segment).context("UDP_SEGMENT")?;
            setsockopt(socket, sockopt::UdpGsoSegment, &size).context("setting UDP_SEGMENT")?;
        }
        for _ in 0..rng.range(1..=24) {
            let packet = any_packet(&mut rng);
            let len = match segment {
                // Sometimes too large for one packet: fragments.
                0 if rng.one_in(20) => rng.range(1473..=5000) as usize,
                0 => *rng.pick(&[4, 18, 18, 64, 300, 1400, 1452]),
                // Whole segments and a rest.
                _ => (segment * (1 + rng.index(20)) + rng.index(segment)).min(40_000),
            };
            let step = if gso { segment } else { len };
            for datagram in buffer[..len].chunks_mut(step) {
                let header = packet.header();
                let len = datagram.len().min(header.len());
                datagram[..len].copy_from_slice(&header[..len]);
            }
            // Refused for any of many reasons: no route, a device that is down, a full queue.
            let _ = socket.send(&buffer[..len]);
        }
        breathe();
        if rng.one_in(25) {
            // Queues run empty, too, and TCP gets a word in.
            std::thread::sleep(Duration::from_millis(rng.range(5..=30)));
        }
    }
    Ok(())
}

/// Where hand-made frames go.
struct Raw {
    v4: std::net::Ipv4Addr,
    v6: std::net::Ipv6Addr,
}

impl Raw {
    fn frame(&self, rng: &mut Rng) -> Vec<u8> {
        let payload = [
            &any_packet(rng).header()[..],
            &vec![0x5a; rng.index(1200)][..],
        ]
        .concat();
        let dscp = rng.range(0..=63) as u8;
        let frame = match rng.range(0..=7) {
            0 => Frame::arp(),
            1 => Frame::new(0x88cc, &payload),
            2 => Frame::new(0x88b5, &payload),
            3 => Frame::ipv6(
                self.v6,
                dscp,
                *rng.pick(&[0, 43, 44, 51, 58, 59, 60]),
                &payload,
            ),
            4 | 5 => Frame::udp4(self.v4, dscp, PORT, &payload),
            _ => Frame::udp6(self.v6, dscp, PORT, &payload),
        };
        let frame = match rng.range(0..=5) {
            0 => frame.tagged(TPID_C, 7),
            1 => frame.tagged(TPID_C, 7).tagged(TPID_S, 8),
            2 => frame.truncated(rng.index(60)),
            _ => frame,
        };
        if rng.one_in(2) {
            return frame.bytes();
        }
        // A device takes nothing shorter than its own header.
        let mut bytes = frame.unpadded();
        bytes.resize(bytes.len().max(14), 0);
        bytes
    }

    /// A TCP super-packet as a virtual machine would send it.
    fn super_packet(&self, rng: &mut Rng) -> (VirtioNetHeader, Vec<u8>) {
        let payload = vec![0x5a; 1 + rng.index(20_000)];
        tcp_super_packet(
            self.v4,
            self.v6,
            rng.one_in(2),
            *rng.pick(&[100, 536, 1400]),
            &payload,
        )
    }
}

/// A TCP super-packet to port 9, to be cut into segments of `mss` bytes.
pub(in crate::cases) fn tcp_super_packet(
    v4: std::net::Ipv4Addr,
    v6: std::net::Ipv6Addr,
    over_v6: bool,
    mss: u16,
    payload: &[u8],
) -> (VirtioNetHeader, Vec<u8>) {
    const TCP: u8 = 6;
    const TCP_HEADER: u16 = 20;
    const ETHERNET: u16 = 14;
    // Ports 9 and 9, sequence 1, no acknowledgement, 20 bytes of header, PSH.
    let mut tcp = vec![
        0, 9, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 8, 16, 0, 0, 0, 0, 0,
    ];
    tcp.extend_from_slice(payload);
    let (frame, ip_header, gso_type) = if over_v6 {
        (Frame::ipv6(v6, 0, TCP, &tcp), 40, 4)
    } else {
        // As a UDP datagram, then another protocol and content of the same length.
        let mut frame = Frame::udp4(v4, 0, 9, &tcp[8..]).with_byte(9, TCP);
        for (at, byte) in (20..).zip(&tcp[..8]) {
            frame = frame.with_byte(at, *byte);
        }
        (frame, 20, 1)
    };
    let header = VirtioNetHeader {
        flags: 1,
        gso_type,
        header_len: ETHERNET + ip_header + TCP_HEADER,
        gso_size: mss,
        sum_start: ETHERNET + ip_header,
        sum_offset: 16,
    };
    (header, frame.unpadded())
}

fn send_raw(sockets: &[RawSocket; 2], raw: &Raw, mix: &Mix, mut rng: Rng, stop: &AtomicBool) {
    let [plain, gso] = sockets;
    while !stop.load(Ordering::Relaxed) {
        // A class of no port is as good as none.
        let _ = plain.set_priority(priority(mix, &mut rng));
        for _ in 0..rng.range(1..=12) {
            // Refused when the device is down, or the frame is too short for it.
            let _ = plain.send(&raw.frame(&mut rng));
        }
        if rng.one_in(3) {
            let (header, frame) = raw.super_packet(&mut rng);
            let _ = gso.send_gso(header, &frame);
        }
        breathe();
    }
}

fn send_tcp(to: SocketAddr, stop: &AtomicBool) {
    let chunk = [0x5a; 16 << 10];
    while !stop.load(Ordering::Relaxed) {
        let connected = TcpStream::connect_timeout(&to, Duration::from_millis(50));
        let Ok(mut stream) = connected else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        // Ends without a farewell that would be repeated: nothing is to be sent after the stop.
        let abrupt = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        if setsockopt(&stream, sockopt::Linger, &abrupt).is_err()
            || stream
                .set_write_timeout(Some(Duration::from_millis(50)))
                .is_err()
        {
            return;
        }
        // A new connection now and then.
        for _ in 0..200 {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match stream.write(&chunk) {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            breathe();
        }
    }
}

fn receive_tcp(listener: &TcpListener, stop: &AtomicBool) -> Result<()> {
    let mut streams = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((stream, _)) = listener.accept() {
            stream
                .set_nonblocking(true)
                .context("making a connection non-blocking")?;
            streams.push(stream);
        }
        streams.retain_mut(|stream| match stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
        });
        breathe();
    }
    Ok(())
}
