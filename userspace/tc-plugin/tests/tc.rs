// SPDX-License-Identifier: GPL-2.0
//! Runs the plugin in the machine's own tc. The kernel is not needed: refused words never get
//! there, and what a kernel would report comes from a file, by way of `tc monitor file`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use turnstile_core::port::uapi::{self, class};
use turnstile_netlink::attr::{put, put_u32, NESTED};
use turnstile_netlink::stats::{ClassStats, PhantomStats, PortStats};
use turnstile_netlink::{parse, Options};

/// A folder of this test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("q_turnstile-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let built = std::env::current_exe().unwrap();
        let built = built.with_file_name("libq_turnstile.so");
        for name in [
            "q_turnstile.so",
            "q_turnstile_mq.so",
            "q_turnstile_pacer.so",
        ] {
            std::fs::copy(&built, folder.join(name))
                .unwrap_or_else(|e| panic!("{}: {e}", built.display()));
        }
        Self(folder)
    }

    fn tc(&self, words: &[&str], input: &str) -> Output {
        let tc = ["/usr/sbin/tc", "/sbin/tc", "/usr/bin/tc"]
            .into_iter()
            .find(|tc| Path::new(tc).exists());
        let mut child = Command::new(tc.expect("this test runs tc: install iproute2"))
            .args(words)
            .env("TC_LIB_DIR", &self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    }

    /// What tc prints of these messages.
    fn monitor(&self, flags: &[&str], messages: &[u8]) -> String {
        let file = self.0.join("messages");
        std::fs::write(&file, messages).unwrap();
        let output = self.tc(
            &[flags, &["monitor", "file", file.to_str().unwrap()]].concat(),
            "",
        );
        assert!(output.status.success(), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A message about qdisc 1: on lo (`RTM_NEWQDISC`), or a class of it (`RTM_NEWTCLASS`).
fn message(kind: u16, handle: u32, parent: u32, options: &[u8], stats: &[u8]) -> Vec<u8> {
    message_of(uapi::KIND, kind, handle, parent, options, stats)
}

/// The same about a qdisc of this kind.
fn message_of(
    qdisc: &str,
    kind: u16,
    handle: u32,
    parent: u32,
    options: &[u8],
    stats: &[u8],
) -> Vec<u8> {
    let mut body = vec![0; 4];
    for word in [1u32, handle, parent, 2] {
        body.extend(word.to_ne_bytes());
    }
    put(&mut body, 1, format!("{qdisc}\0").as_bytes());
    put(&mut body, 2 | NESTED, options);
    let mut all = Vec::new();
    put(&mut all, 1, &[0; 16]);
    put(&mut all, 3, &[0; 20]);
    put(&mut all, 4, stats);
    put(&mut body, 7, &all);
    let mut message = Vec::new();
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(body);
    message
}

const NEW_QDISC: u16 = 36;
const NEW_CLASS: u16 = 40;

#[test]
fn refused_words_are_named() {
    let folder = Folder::new("refused");
    for (words, error) in [
        (
            "priorities 9",
            "turnstile: priorities: \"9\" is not in 1..8",
        ),
        (
            "token-expiry 10parsecs",
            "turnstile: token-expiry: \"10parsecs\" is not a time (s, ms, \
            us, ns), \"auto\" or \"off\"",
        ),
        ("link", "turnstile: link: needs a value: RATE|auto"),
        (
            "prioritis 8",
            "turnstile: unknown word \"prioritis\": did you mean \"priorities\"?",
        ),
        (
            "colour 8",
            "turnstile: unknown word \"colour\": the options are link, tokens, ",
        ),
        (
            "tokens 5",
            "turnstile: tokens: \"5\" has no unit: did you mean 5%?",
        ),
        ("link 1gbit help", "Usage: ... turnstile OPTIONS"),
        ("mpu \u{00fc}", "turnstile: mpu: \"\u{00fc}\" is not a size"),
    ] {
        let line = format!("qdisc add dev lo root turnstile {words}");
        let output = folder.tc(&line.split(' ').collect::<Vec<_>>(), "");
        assert_eq!(output.status.code(), Some(1), "{words}: {output:?}");
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(shown.starts_with(error), "{words}: {shown}");
    }
    let class = folder.tc(
        &[
            "class",
            "add",
            "dev",
            "lo",
            "parent",
            "1:",
            "classid",
            "1:5",
            "turnstile",
        ],
        "",
    );
    assert_eq!(class.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&class.stderr).starts_with("turnstile: classes cannot be added")
    );
}

#[test]
fn a_batch_goes_on_after_errors() {
    let folder = Folder::new("batch");
    let batch =
        "qdisc add dev lo root turnstile mpu 999\nqdisc add dev lo root turnstile order none\n";
    let output = folder.tc(&["-force", "-batch", "-"], batch);
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(
        shown.contains("turnstile: mpu: \"999\" is not in 0b..256b"),
        "{shown}"
    );
    assert!(
        shown.contains("turnstile: order: \"none\" is none of tokens-first|data-first"),
        "{shown}"
    );
}

#[test]
fn printed_options_can_be_typed_back() {
    let folder = Folder::new("printed");
    for words in [
        "link 10gbit tokens 5.1787916% priorities 6 token-limit 8 token-expiry auto order \
         tokens-first unscheduled 1 data-limit 1514000b signal-limit 1000 signal-share \
         5% dscp CS6=signal,CS7=signal split-gso overhead 24 mpu 84 jitter 50us",
        "link auto tokens 62500008bit priorities 1 token-limit 1024 token-expiry 5us order \
         data-first unscheduled off data-limit 1mb signal-limit 1 signal-share off dscp none \
         split-gso auto gso-hold auto overhead 0 mpu 0 jitter 0ns",
        "tokens 0.01% token-expiry off dscp 3=token7,EF=unscheduled no-split-gso gso-hold 25us",
    ] {
        let options: Options = parse(&words.split_whitespace().collect::<Vec<_>>()).unwrap();
        let dump = message(NEW_QDISC, 0x1_0000, u32::MAX, &options.encode(), &[]);
        let words: Vec<_> = words.split_whitespace().collect();
        let expected = format!(
            "qdisc turnstile 1: dev lo root refcnt 2 {} \n",
            words.join(" ")
        );
        assert_eq!(folder.monitor(&[], &dump), expected);
    }
}

#[test]
fn statistics_of_ports_and_classes() {
    let folder = Folder::new("statistics");
    let port = PortStats {
        link_rate: 1_250_000_000,
        token_expiry: 10_368,
        gso_drops: 3,
        ..PortStats::default()
    };
    let mut band = Vec::new();
    put_u32(&mut band, uapi::CLASS_BAND, class::TOKENS.into());
    let token = ClassStats {
        offered_packets: 12,
        expired: 4,
        sojourn_max: 1_500_000,
        ..ClassStats::default()
    };
    let mut messages = message(NEW_QDISC, 0x1_0000, u32::MAX, &[], &port.encode());
    messages.extend(message(
        NEW_CLASS,
        0x1_0010,
        0x1_0000,
        &band,
        &token.encode(),
    ));
    let mut data = Vec::new();
    put_u32(&mut data, uapi::CLASS_BAND, class::DATA.into());
    let phantom = PhantomStats {
        seen: 20,
        marked: 5,
        ..PhantomStats::default()
    };
    let stats = [ClassStats::default().encode(), phantom.encode()].concat();
    messages.extend(message(NEW_CLASS, 0x1_0002, 0x1_0000, &data, &stats));
    let shown = folder.monitor(&["-s"], &messages);
    for part in [
        "  link-rate 10gbit token-rate 0bit token-expiry 10.368us\n  link-waits 0 ",
        " gso-drops 3\n",
        "class turnstile 1:10 dev lo parent 1: leaf 0: band token0 \n",
        "  offered-packets 12 offered-bytes 0 over-limit 0 expired 4 trimmed 0 purged 0 child \
         0\n  queued 0 ",
        " sojourn-mean 0ns sojourn-max 1.5ms\n",
        " sojourn-max 0ns\n  phantom-seen 20 phantom-markable 0 phantom-marked 5 phantom-backlog 0 \
         phantom-max 0\n",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    let one_line = folder.monitor(&["-s", "-oneline"], &messages);
    assert!(one_line.contains("10.368us\\  link-waits"), "{one_line}");
}

/// Ports of several queues have a port's options; a class is a queue, and its statistics are those
/// of its bands together.
#[test]
fn the_ports_of_several_queues() {
    let folder = Folder::new("queues");
    let kind = uapi::KIND_MQ;
    for (words, error) in [
        (
            "priorities 9",
            "turnstile_mq: priorities: \"9\" is not in 1..8",
        ),
        ("help", "Usage: ... turnstile_mq OPTIONS"),
    ] {
        let line = format!("qdisc add dev lo root {kind} {words}");
        let output = folder.tc(&line.split(' ').collect::<Vec<_>>(), "");
        assert_eq!(output.status.code(), Some(1), "{words}: {output:?}");
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(shown.starts_with(error), "{words}: {shown}");
    }
    let options = parse(&["link", "10gbit", "priorities", "4"]).unwrap();
    let stats = PortStats {
        link_rate: 1_250_000_000,
        ..PortStats::default()
    };
    let mut messages = message_of(
        kind,
        NEW_QDISC,
        0x1_0000,
        u32::MAX,
        &options.encode(),
        &stats.encode(),
    );
    let shown = folder.monitor(&[], &messages);
    assert_eq!(
        shown,
        "qdisc turnstile_mq 1: dev lo root refcnt 2 link 10gbit priorities 4 \n"
    );
    let queue = ClassStats {
        offered_packets: 12,
        ..ClassStats::default()
    };
    messages.extend(message_of(
        kind,
        NEW_CLASS,
        0x1_0002,
        0x1_0000,
        &[],
        &queue.encode(),
    ));
    let shown = folder.monitor(&["-s"], &messages);
    for part in [
        "  link-rate 10gbit ",
        "  offered-packets 12 offered-bytes 0 ",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
}

#[test]
fn the_pacer() {
    use turnstile_netlink::pacer::{Options, Stats};
    let folder = Folder::new("pacer");
    for (words, error) in [
        (
            "eta 0%",
            "turnstile_pacer: eta: \"0%\" is not in 0.1%..100%",
        ),
        (
            "gamma 1",
            "turnstile_pacer: unknown word \"gamma\": the options are interval, ",
        ),
        ("help", "Usage: ... turnstile_pacer OPTIONS"),
    ] {
        let line = format!("qdisc add dev lo root turnstile_pacer {words}");
        let output = folder.tc(&line.split(' ').collect::<Vec<_>>(), "");
        assert_eq!(output.status.code(), Some(1), "{words}: {output:?}");
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(shown.starts_with(error), "{words}: {shown}");
    }
    let words = "interval 64us eta 12.5% beta 16 associate 12.5% idle 10ms flows 64 bucket 3kb \
        limit 128kb pass-limit 1514000b initial-rate auto split-gso overhead 24 mpu 84";
    let options = Options::parse(&words.split_whitespace().collect::<Vec<_>>()).unwrap();
    let stats = Stats {
        rate: 1_250_000_000,
        delay_max: 1_500_000,
        ..Stats::default()
    };
    let kind = turnstile_core::pacer::uapi::KIND;
    let dump = message_of(
        kind,
        NEW_QDISC,
        0x1_0000,
        u32::MAX,
        &options.encode(),
        &stats.encode(),
    );
    let words: Vec<_> = words.split_whitespace().collect();
    let expected = format!(
        "qdisc turnstile_pacer 1: dev lo root refcnt 2 {} \n",
        words.join(" ")
    );
    assert_eq!(folder.monitor(&[], &dump), expected);
    let shown = folder.monitor(&["-s"], &dump);
    for part in ["  rate 10gbit updates 0 ", " delay-max 1.5ms "] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
}

#[test]
fn a_kernel_that_makes_no_sense() {
    let folder = Folder::new("nonsense");
    let file = folder.0.join("messages");
    let mut wrong = Vec::new();
    put_u32(&mut wrong, uapi::option::ORDER, 9);
    std::fs::write(&file, message(NEW_QDISC, 0x1_0000, u32::MAX, &wrong, &[])).unwrap();
    let output = folder.tc(&["monitor", "file", file.to_str().unwrap()], "");
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(
        shown.contains("turnstile: netlink: attribute order has no meaning"),
        "{shown}"
    );
}
