// SPDX-License-Identifier: GPL-2.0
//! TCP under incast: the baseline for `incast-transport` (TOP fig. 12).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use turnstile_test_protocol::lab::{Plot, Style, Table};

use super::report::{number, rounded, thinned};
use super::setups::SetUp;
use super::{Experiment, Lab};
use crate::clock;
use crate::recorder::{lengths, longest, mean, passages, Passage, Recorder, Unit};
use crate::scenario::incast::{BUFFER, DELAY, PACKETS, RATE};
use crate::scenario::{RTO, THRESHOLD};
use crate::topology::{Fabric, Link, Plan};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "incast",
    title: "n hosts send 50 packets each to one host at the same time, with TCP",
    source: "TOP fig. 12 (n flows of 50 packets into one server: its algorithms have no incast \
             problem, that is the ideal time); ExpressPass section 3.1 (K = 65)",
    run,
};

/// Hosts that send.
const SENDERS: [usize; 4] = [8, 16, 32, 64];
/// Payload of a full packet: 1500 less 20 of IPv4, 20 of TCP and 12 of timestamps.
const PAYLOAD: u64 = 1448;
/// The port that the receiver listens on.
const PORT: u16 = 5001;

/// A congestion control with its queue.
struct Tcp {
    set_up: SetUp,
    control: &'static str,
}

/// The result of one run.
struct Outcome {
    /// Completion times of the flows, ns, by rising time.
    times: Vec<u64>,
    passages: Vec<Passage>,
    began: u64,
}

fn run(lab: &mut Lab) -> Result<()> {
    let ways = [drop_tail(), dctcp()];
    lab.report.setups = ways.iter().map(|way| way.set_up.report()).collect();
    let most = SENDERS[SENDERS.len() - 1];
    let fabric = Plan::star(most + 1, Link::new(RATE, DELAY)).build()?;
    let mut queue_plot = Plot::new(
        &format!("queue of the receiver's port, {most} senders"),
        "time, us",
        "kB",
        Style::Steps,
    )
    .level("buffer", f64::from(BUFFER) / 1e3);
    let mut time_plot = Plot::new("last flow done", "senders", "us", Style::Line);
    for way in &ways {
        for host in 0..fabric.hosts() {
            let ns = fabric.host(host);
            // As an attribute of the route: the namespace's sysctl refuses algorithms that the
            // machine does not allow to all users. It also turns on ECN, where the congestion
            // control needs it.
            fabric.tune_route(host, &format!("congctl {}", way.control))?;
            ns.sysctl("net/ipv4/tcp_rto_min_us", &RTO.to_string())?;
            ns.sysctl("net/ipv4/tcp_no_metrics_save", "1")?;
        }
        let mut table = Table::new(
            &format!("{}: {}", way.set_up.name, way.set_up.title),
            &[
                "senders",
                "last flow done, us",
                "paper (ideal)",
                "times ideal",
                "median flow, us",
                "longest queue, kB",
                "mean queue, kB",
                "packets dropped",
                "packets marked",
            ],
        );
        let mut points = Vec::new();
        for senders in SENDERS {
            lab.progress(&format!("{}, {senders} senders", way.set_up.name));
            let outcome = measure(lab, &fabric, way, senders)?;
            let last = outcome.times.last().copied().unwrap_or(0) as f64;
            let median = outcome.times[outcome.times.len() / 2] as f64;
            let queue = lengths(&outcome.passages, Unit::Bytes, |_| true);
            let until = outcome.began + last as u64;
            let dropped = outcome.passages.iter().filter(|p| p.left.is_none());
            table.row(vec![
                senders.into(),
                number(last / 1e3, 1),
                number(ideal(senders) / 1e3, 1),
                number(last / ideal(senders), 2),
                number(median / 1e3, 1),
                number(longest(&queue) as f64 / 1e3, 1),
                number(mean(&queue, outcome.began, until) / 1e3, 1),
                dropped.count().into(),
                outcome.passages.iter().filter(|p| p.marked).count().into(),
            ]);
            points.push((senders as f64, rounded(last / 1e3, 1)));
            if senders == most {
                let curve: Vec<(f64, f64)> = queue
                    .iter()
                    .filter(|(at, _)| *at >= outcome.began)
                    .map(|&(at, bytes)| {
                        let at = (at - outcome.began) as f64 / 1e3;
                        (rounded(at, 3), bytes as f64 / 1e3)
                    })
                    .collect();
                queue_plot.series(way.set_up.name, thinned(&curve, 400));
            }
        }
        time_plot.series(way.set_up.name, points);
        lab.report.tables.push(table);
    }
    time_plot.series(
        "ideal",
        SENDERS
            .iter()
            .map(|&n| (n as f64, rounded(ideal(n) / 1e3, 1)))
            .collect(),
    );
    lab.report.plots.extend([time_plot, queue_plot]);
    lab.report.notes.push(format!(
        "connections are set up beforehand; ideal: {PACKETS} full packets of each sender at the \
         link's rate and one way through the switch. Links of {} \
         Gbit/s and {} us, a buffer of {} packets, the shortest retransmission timeout {} ms (a \
         tick; ExpressPass took 0.2)",
        RATE / 1_000_000_000,
        DELAY / 1000,
        BUFFER / 1514,
        RTO / 1000
    ));
    lab.report.notes.push(
        "the baseline that later transports are compared with: nothing is claimed about it".into(),
    );
    Ok(())
}

/// ns until the last packet has arrived, with the link to the receiver busy all the time.
fn ideal(senders: usize) -> f64 {
    let frame = 1538.0 * 8e9 / RATE as f64;
    (senders as f64 * PACKETS as f64 + 1.0) * frame + 2.0 * DELAY as f64
}

fn queue(child: &[String]) -> Vec<String> {
    let mut lines = vec![
        format!(
            "qdisc add dev DEV root handle 1: turnstile link {RATE}bit jitter 0 data-limit {BUFFER}"
        ),
        "filter add dev DEV parent 1: protocol all matchall classid 1:2".into(),
    ];
    lines.extend_from_slice(child);
    lines
}

fn drop_tail() -> Tcp {
    Tcp {
        set_up: SetUp {
            name: "cubic",
            title: "TCP cubic, drop tail",
            lines: queue(&[]),
        },
        control: "cubic",
    }
}

fn dctcp() -> Tcp {
    let least = THRESHOLD * 1514;
    Tcp {
        set_up: SetUp {
            name: "dctcp",
            title: "DCTCP, marked by RED above 65 packets",
            // The two thresholds are adjacent, so that RED marks deterministically; the average
            // follows the queue closely.
            lines: queue(&[format!(
                "qdisc add dev DEV parent 1:2 handle 2: red limit {BUFFER} min {least} max {} \
                 avpkt 1514 burst {THRESHOLD} \
                 probability 1 bandwidth {RATE}bit ecn",
                least + 1
            )]),
        },
        control: "dctcp",
    }
}

fn measure(lab: &mut Lab, fabric: &Fabric, way: &Tcp, senders: usize) -> Result<Outcome> {
    let dev = format!("h{}", fabric.hosts());
    fabric.requeue("s1", &dev, &way.set_up.lines)?;
    let (mut starts, receivers) = connect(fabric, senders)?;
    let recorder = Recorder::start(&fabric.node("s1")?.ns)?;
    // The packets of connection set-up have passed.
    let start = clock::monotonic() + 100_000_000;
    let began = clock::realtime() + (start - clock::monotonic());
    let sending: Vec<_> = starts
        .drain(..)
        .map(|mut stream| {
            std::thread::spawn(move || -> Result<TcpStream> {
                clock::exact_timers();
                clock::sleep_until(start);
                let bytes = vec![0x5a; (PACKETS * PAYLOAD) as usize];
                stream.write_all(&bytes).context("sending")?;
                Ok(stream)
            })
        })
        .collect();
    let mut times = Vec::new();
    for receiver in receivers {
        let done = receiver
            .join()
            .map_err(|_| anyhow!("a receiver panicked"))??;
        times.push(done.saturating_sub(start));
    }
    times.sort_unstable();
    for sender in sending {
        sender.join().map_err(|_| anyhow!("a sender panicked"))??;
    }
    let captured = recorder.finish()?;
    if senders == SENDERS[SENDERS.len() - 1] {
        lab.capture(way.set_up.name, &captured)?;
    }
    Ok(Outcome {
        times,
        passages: passages(&captured, &dev, &fabric.hosts_behind("s1", &dev)?)?,
        began,
    })
}

/// A thread that returns when all has come, ns of the monotonic clock.
type Receiving = std::thread::JoinHandle<Result<u64>>;

/// A connection from each sender to the last host.
fn connect(fabric: &Fabric, senders: usize) -> Result<(Vec<TcpStream>, Vec<Receiving>)> {
    const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));
    let receiver = fabric.hosts() - 1;
    let address = SocketAddr::from((fabric.address(receiver), PORT));
    let listener = fabric
        .host(receiver)
        .enter(|| TcpListener::bind(address).context("listening"))?;
    let (mut starts, mut receivers) = (Vec::new(), Vec::new());
    for sender in 0..senders {
        let stream = fabric.host(sender).enter(|| {
            TcpStream::connect_timeout(&address, Duration::from_secs(5)).context("connecting")
        })?;
        stream
            .set_write_timeout(PATIENCE)
            .context("setting a time limit")?;
        starts.push(stream);
        let (mut stream, _) = listener.accept().context("accepting")?;
        stream
            .set_read_timeout(PATIENCE)
            .context("setting a time limit")?;
        receivers.push(std::thread::spawn(move || {
            let mut left = (PACKETS * PAYLOAD) as usize;
            let mut buffer = vec![0; 65536];
            while left > 0 {
                let most = left.min(buffer.len());
                match stream.read(&mut buffer[..most]).context("reading")? {
                    0 => anyhow::bail!("{left} bytes are missing"),
                    len => left -= len,
                }
            }
            Ok(clock::monotonic())
        }));
    }
    Ok((starts, receivers))
}
