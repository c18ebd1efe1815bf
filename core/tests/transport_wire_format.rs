// SPDX-License-Identifier: GPL-2.0
//! `docs/wire-format.md` against the code: its examples, counters and numbers; and Wireshark's
//! dissector against both.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use turnstile_core::header::{Type, FLAG_SHORT, FLAG_UNASKED, PORT, VERSION};
use turnstile_core::transport::stats::Counter;
use turnstile_core::transport::wire::*;

const FORMAT: &str = include_str!("../../docs/wire-format.md");
const DISSECTOR: &str = include_str!("../../docs/turnstile.lua");

const COOKIE: Cookie = Cookie(0x0123_4567_89ab_cdef);

/// The packets of the text's examples.
fn described() -> [(&'static str, Packet); 14] {
    let other = Cookie(0x1112_1314_1516_1718);
    let mut list = Cookies::new(COOKIE);
    assert!(list.push(other));
    let mut delivered = Delivered::NONE;
    assert!(delivered.push(COOKIE) && delivered.push(other));
    delivered.allowance = 1000;
    let mut spans = Spans::EMPTY;
    assert!(spans.push(0, 1450) && spans.push(2900, 5800));
    [
        (
            "SYNC",
            Packet::Sync(Sync {
                cookie: COOKIE,
                source: 40_000,
                destination: 7,
                length: Some(1_000_000),
                deadline: 250,
                coflow: 9,
                unscheduled: 2900,
                mss: 1450,
                patience: 100,
                echo: 0x0102_0304_0506_0708,
                priority: Some(3),
                probe: false,
                acked: false,
                ren: false,
                paced: false,
            }),
        ),
        (
            "TOKEN",
            Packet::Token(Token {
                cookie: COOKIE,
                sequence: 65_534,
                timestamp: 0xdead_beef,
                priority: 5,
                grant: None,
                worth: 1,
            }),
        ),
        (
            "DATA 1450",
            Packet::Data(Data {
                cookie: COOKIE,
                token: 65_534,
                timestamp: 0xdead_beef,
                offset: 1450,
                len: 1450,
                flags: 0,
                more: 0,
            }),
        ),
        (
            "RESEND",
            Packet::Resend(Resend {
                cookie: COOKIE,
                spans,
            }),
        ),
        (
            "FIN",
            Packet::Fin(Fin {
                cookie: COOKIE,
                length: 1_000_000,
            }),
        ),
        (
            "ACK",
            Packet::Ack(Ack {
                cookie: COOKIE,
                received: 2900,
                window: 65_536,
                allowance: 1000,
                last: true,
                mark: turnstile_core::transport::rate::Mark::None,
                notify: false,
            }),
        ),
        (
            "RESET",
            Packet::Reset(Reset {
                cookie: COOKIE,
                code: ResetCode::NoSocket,
            }),
        ),
        (
            "CHALLENGE",
            Packet::Challenge(Challenge {
                cookie: COOKIE,
                echo: 0x1122_3344_5566_7788,
                ticket: false,
            }),
        ),
        (
            "TICKET",
            Packet::Challenge(Challenge {
                cookie: COOKIE,
                echo: 0x1122_3344_5566_7788,
                ticket: true,
            }),
        ),
        (
            "FIRST 100",
            Packet::First(First {
                sync: Sync {
                    cookie: COOKIE,
                    source: 40_000,
                    destination: 7,
                    length: Some(100),
                    deadline: 0,
                    coflow: 0,
                    unscheduled: 100,
                    mss: 1450,
                    patience: 100,
                    echo: 0x0102_0304_0506_0708,
                    priority: None,
                    probe: false,
                    acked: false,
                    ren: false,
                    paced: false,
                },
                data: Data {
                    cookie: COOKIE,
                    token: 0,
                    timestamp: 0,
                    offset: 0,
                    len: 100,
                    flags: FLAG_UNASKED | FLAG_SHORT,
                    more: 1,
                },
                prompt: false,
                delivered: Delivered::NONE,
            }),
        ),
        ("LIST", Packet::Confirm(list)),
        (
            "TOKEN for 8",
            Packet::Token(Token {
                cookie: COOKIE,
                sequence: 65_535,
                timestamp: 0xfeed_f00d,
                priority: 5,
                grant: None,
                worth: 8,
            }),
        ),
        ("DELIVERED", Packet::Delivered(delivered)),
        (
            "FIRST 100 DELIVERED",
            Packet::First(First {
                sync: Sync {
                    cookie: COOKIE,
                    source: 40_000,
                    destination: 7,
                    length: Some(100),
                    deadline: 0,
                    coflow: 0,
                    unscheduled: 100,
                    mss: 1450,
                    patience: 100,
                    echo: 0x0102_0304_0506_0708,
                    priority: None,
                    probe: false,
                    acked: false,
                    ren: false,
                    paced: false,
                },
                data: Data {
                    cookie: COOKIE,
                    token: 0,
                    timestamp: 0,
                    offset: 0,
                    len: 100,
                    flags: FLAG_UNASKED | FLAG_SHORT,
                    more: 1,
                },
                prompt: true,
                delivered,
            }),
        ),
    ]
}

/// The text's blocks of hexadecimal digits, by name.
fn examples() -> BTreeMap<&'static str, Vec<u8>> {
    let mut examples = BTreeMap::new();
    for block in FORMAT.split("```hex ").skip(1) {
        let (name, rest) = block.split_once('\n').unwrap();
        let (digits, _) = rest.split_once("```").unwrap();
        let digits: String = digits.chars().filter(|c| !c.is_whitespace()).collect();
        let bytes = (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
            .collect();
        assert!(examples.insert(name, bytes).is_none(), "{name} twice");
    }
    examples
}

#[test]
fn the_examples_are_what_the_code_reads_and_writes() {
    let examples = examples();
    // And a sealed one, which is looked at where the cipher is.
    assert_eq!(examples.len(), 15);
    for (name, packet) in described() {
        let example = &examples[name];
        let mut written = [0; MAX_HEADER];
        let len = packet.write(&mut written);
        assert_eq!(example, &written[..len], "{name}");
        let payload = packet.bytes() as usize - packet.header_len();
        assert_eq!(parse(example, len + payload), Ok(packet), "{name}");
    }
}

#[test]
fn all_causes_limits_and_types_are_in_the_text() {
    for field in Malformed::ALL {
        let counter = Counter::malformed(field).name();
        assert!(FORMAT.contains(&format!("`{counter}`")), "{counter}");
    }
    for number in [
        PORT.into(),
        MAX_LENGTH,
        MIN_MSS.into(),
        MAX_MSS.into(),
        MAX_SPANS as u32,
    ] {
        assert!(FORMAT.contains(&number.to_string()), "{number}");
    }
    let types = [
        (Type::Sync, "SYNC", SYNC_LEN),
        (Type::Token, "TOKEN", TOKEN_LEN),
        (Type::Data, "DATA", DATA_LEN),
        (Type::Resend, "RESEND", RESEND_LEN),
        (Type::Fin, "FIN", FIN_LEN),
        (Type::Ack, "ACK", ACK_LEN),
        (Type::Reset, "RESET", RESET_LEN),
        (Type::Challenge, "CHALLENGE", CHALLENGE_LEN),
    ];
    for (kind, name, len) in types {
        let number = kind as u8;
        let row = FORMAT
            .lines()
            .find(|line| line.starts_with(&format!("| {number} | {name} | ")))
            .unwrap_or_else(|| panic!("no row of {name}"));
        let bytes = row.split(" | ").nth(3).unwrap();
        assert!(bytes.starts_with(&len.to_string()), "{row}");
        assert!(FORMAT.contains(&format!("\n## {name} ({number})\n")));
        assert!(
            DISSECTOR.contains(&format!("[{number}] = \"{name}\"")),
            "{name}"
        );
    }
    for code in ResetCode::ALL {
        let row = format!("\n| {} | ", code as u16);
        assert!(FORMAT.contains(&row), "{code:?}");
        assert!(DISSECTOR.contains(&format!("[{}] = \"", code as u16)));
    }
}

#[test]
fn the_dissector_has_the_same_numbers_and_names() {
    let says = |name: &str, value: u32| {
        let line = format!("local {name} = {value}\n");
        assert!(DISSECTOR.contains(&line), "no line {line:?}");
    };
    says("PORT", PORT.into());
    says("VERSION", VERSION.into());
    says("MAX_LENGTH", MAX_LENGTH);
    says("MIN_MSS", MIN_MSS.into());
    says("MAX_MSS", MAX_MSS.into());
    says("MAX_SPANS", MAX_SPANS as u32);
    says("MAX_PRIORITY", MAX_PRIORITY.into());
    says("MAX_COOKIES", MAX_COOKIES as u32);
    says("MAX_PATIENCE", MAX_PATIENCE.into());
    for field in Malformed::ALL {
        let cause = format!("\"{}\"", field.cause());
        assert!(DISSECTOR.contains(&cause), "{cause}");
    }
}

/// A capture of UDP datagrams over IPv4, in the classic format.
fn capture(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        // Version 2.4; link type 101: IP.
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (n, payload) in payloads.iter().enumerate() {
        let len = 28 + payload.len();
        for word in [0, 10 * n as u32, len as u32, len as u32] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(&[0x45, 0]);
        file.extend_from_slice(&(len as u16).to_be_bytes());
        file.extend_from_slice(&[0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        for number in [PORT, PORT, 8 + payload.len() as u16, 0] {
            file.extend_from_slice(&number.to_be_bytes());
        }
        file.extend_from_slice(payload);
    }
    file
}

/// The dissector takes those flags for known that a receiver does.
#[test]
fn the_dissector_knows_the_flags() {
    let (_, table) = DISSECTOR.split_once("known_flags = { ").unwrap();
    let (table, _) = table.split_once(" }").unwrap();
    let known: Vec<u8> = table
        .split(", ")
        .map(|flags| u8::from_str_radix(flags.trim_start_matches("0x"), 16).unwrap())
        .collect();
    for (name, packet) in described() {
        let mut bytes = examples()[name].clone();
        if matches!(
            packet,
            Packet::First(_) | Packet::Confirm(_) | Packet::Delivered(_)
        ) {
            // Which flags go with theirs is not in the table.
            continue;
        }
        if matches!(packet, Packet::Data(_)) {
            bytes.resize(bytes.len() + 1450, 0);
        }
        let kind = usize::from(bytes[0] & 0xf);
        if kind == 2 {
            // A grant is for one.
            bytes[3] = 0;
        }
        // A mark is a grant's.
        let (grant, sealed) = if kind == 2 { (8, 0x40) } else { (0, 0x20) };
        // A notification is of a mark, and two bits are one.
        let grant = if kind == 6 { 1 } else { grant };
        for bit in (0..8).map(|bit| 1 << bit).filter(|bit| *bit != sealed) {
            bytes[2] = grant | bit;
            let unknown = parse(&bytes, bytes.len()) == Err(Malformed::Flags);
            assert_eq!(known[kind - 1] & bit == 0, unknown, "{name}, {bit:#x}");
        }
    }
}

/// Runs the examples through tshark, where it is installed: it must show all fields and the links
/// between packets, and report each malformed packet and no other.
#[test]
fn wireshark_shows_all_fields() {
    if Command::new("tshark").arg("-v").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "there is no tshark");
        println!("there is no tshark: only the dissector's text was checked");
        return;
    }
    let mut packets: Vec<Vec<u8>> = Vec::new();
    let mut good = 0;
    for (name, packet) in described() {
        let mut bytes = examples()[name].clone();
        bytes.resize(packet.bytes() as usize, 0);
        packets.push(bytes);
        good += 1;
    }
    // Each of them cut by a byte, or by its payload and a byte, and with a wrong version, reserved
    // byte and flag.
    for n in 0..good {
        let len = match n {
            2 => 21,
            // By all of its payload.
            9 => 64,
            13 => 76,
            _ => packets[n].len() - 1,
        };
        packets.push(packets[n][..len].to_vec());
        // A token may be for up to 64 packets; all others have nothing in that byte.
        let reserved = if n == 1 || n == 11 { 64 } else { 1 };
        for (at, to) in [(0, 0x21), (0, 0x1f), (2, 0x97), (3, reserved), (1, 8)] {
            if at == 1 && packets[n].len() > 1000 {
                // DATA has a number there, and no priority.
                continue;
            }
            let mut bytes = packets[n].clone();
            bytes[at] = to;
            packets.push(bytes);
        }
    }
    // Flags and fields of DATA with its SYNC, and of a list.
    for (at, to) in [
        (2, 0x1c),
        (2, 0x1f),
        (2, 0x9e),
        (2, 0x3e),
        (1, 2),
        (13, 1),
        (17, 1),
        (21, 1),
        (22, 1),
        (23, 0x10),
        (31, 99),
        (43, 99),
        (44, 0),
        (46, 0xff),
    ] {
        let mut bytes = packets[9].clone();
        bytes[at] = to;
        packets.push(bytes);
    }
    for to in [0x08, 0x49, 0x68] {
        let mut bytes = packets[10].clone();
        bytes[2] = to;
        packets.push(bytes);
    }
    for (n, at, to) in [
        (12, 2, 0x18),
        (12, 2, 0x59),
        (12, 2, 0x78),
        (13, 2, 0x1f),
        (13, 2, 0x1c),
        (13, 2, 0x3e),
        (13, 23, 0x48),
        (13, 58, 0),
        (13, 58, 5),
        (13, 59, 1),
        (13, 58, 1),
    ] {
        let mut bytes = packets[n].clone();
        bytes[at] = to;
        packets.push(bytes);
    }
    // Fields of SYNC, RESEND, FIN, ACK, RESET and CHALLENGE.
    for (n, at) in [
        (0, 12),
        (0, 14),
        (0, 16),
        (0, 28),
        (0, 32),
        (0, 34),
        (3, 12),
        (3, 14),
        (3, 20),
        (4, 12),
        (5, 12),
        (5, 16),
        (6, 12),
        (6, 14),
        (7, 12),
    ] {
        let mut bytes = packets[n].clone();
        let to = if at == 12 || at == 14 && n == 0 {
            0
        } else {
            0xff
        };
        bytes[at..at + 2].fill(to);
        if n == 7 {
            bytes[12..20].fill(0);
        }
        if (n, at) == (5, 12) {
            bytes[12] = 0xff;
        }
        if (n, at) == (4, 12) {
            bytes[12] = 0x40;
        }
        packets.push(bytes);
    }
    let dir = std::env::temp_dir().join(format!("turnstile-dissector-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (file, script) = (dir.join("packets.pcap"), dir.join("turnstile.lua"));
    std::fs::write(&file, capture(&packets)).unwrap();
    std::fs::write(&script, DISSECTOR).unwrap();
    let tshark = |arguments: &[&str]| {
        let output = Command::new("tshark")
            .args(["-n", "-2", "-X"])
            .arg(format!("lua_script:{}", script.display()))
            .arg("-r")
            .arg(&file)
            .args(arguments)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && !errors.contains("lua"),
            "{errors}"
        );
        String::from_utf8(output.stdout).unwrap()
    };

    let fields = tshark(&[
        "-T",
        "fields",
        "-E",
        "separator=,",
        "-E",
        "aggregator=;",
        "-e",
        "_ws.expert.message",
        "-e",
        "turnstile.type",
        "-e",
        "turnstile.cookie",
        "-e",
        "turnstile.priority",
        "-e",
        "turnstile.source_port",
        "-e",
        "turnstile.destination_port",
        "-e",
        "turnstile.length",
        "-e",
        "turnstile.deadline",
        "-e",
        "turnstile.coflow",
        "-e",
        "turnstile.unscheduled",
        "-e",
        "turnstile.mss",
        "-e",
        "turnstile.patience",
        "-e",
        "turnstile.echo",
        "-e",
        "turnstile.token",
        "-e",
        "turnstile.timestamp",
        "-e",
        "turnstile.offset",
        "-e",
        "turnstile.data.length",
        "-e",
        "turnstile.span.start",
        "-e",
        "turnstile.span.end",
        "-e",
        "turnstile.received",
        "-e",
        "turnstile.window",
        "-e",
        "turnstile.allowance",
        "-e",
        "turnstile.flags.final",
        "-e",
        "turnstile.code",
        "-e",
        "turnstile.sync_in",
        "-e",
        "turnstile.token_in",
        "-e",
        "turnstile.data_in",
        "-e",
        "turnstile.more",
        "-e",
        "turnstile.beyond",
    ]);
    let lines: Vec<&str> = fields.lines().collect();
    assert_eq!(lines.len(), packets.len(), "{fields}");
    let cookie = "0x0123456789abcdef";
    let expected = [
        format!(
            ",1,{cookie},3,40000,7,1000000,250,9,2900,1450,100,0x0102030405060708,,,,,,,,,,,,,,,,"
        ),
        format!(",2,{cookie},5,,,,,,,,,,65534,3735928559,,,,,,,,,,1,,3,,0"),
        format!(",3,{cookie},0,,,,,,,,,,65534,3735928559,1450,1450,,,,,,,,1,2,,0,"),
        format!(",4,{cookie},0,,,,,,,,,,,,,,0;2900,1450;5800,,,,,,1,,,,"),
        format!(",5,{cookie},0,,,1000000,,,,,,,,,,,,,,,,,,1,,,,"),
        format!(",6,{cookie},0,,,,,,,,,,,,,,,,2900,65536,1000,1,,1,,,,"),
        format!("The message failed: no socket,7,{cookie},0,,,,,,,,,,,,,,,,,,,,1,1,,,,"),
        format!(",8,{cookie},0,,,,,,,,,0x1122334455667788,,,,,,,,,,,,1,,,,"),
        format!(",8,{cookie},0,,,,,,,,,0x1122334455667788,,,,,,,,,,,,1,,,,"),
        format!(
            ",3,{cookie},1,40000,7,100,0,0,100,1450,100,0x0102030405060708,0,0,0,100,,,,,,,,1,,,1,"
        ),
        format!(",6,{cookie},0,,,,,,,,,,,,,,,,,,,1,,1,,,,"),
        format!(",2,{cookie},5,,,,,,,,,,65535,4277006349,,,,,,,,,,1,,,,7"),
        format!(",6,{cookie},0,,,,,,,,,,,,,,,,,,1000,1,,1,,,,"),
        format!(
            "These bytes were sent before,3,{cookie},1,40000,7,100,0,0,100,1450,100,\
             0x0102030405060708,0,0,0,100,,,,,1000,,,1,,,1,"
        ),
    ];
    assert_eq!(expected.len(), good);
    let mut wrong = String::new();
    for (line, expected) in lines.iter().zip(&expected) {
        if line != expected {
            let _ = writeln!(wrong, "{line}\n{expected} was expected");
        }
    }
    for (n, line) in lines.iter().enumerate().skip(good) {
        let bytes = &packets[n];
        let why = parse(bytes, bytes.len()).unwrap_err();
        if !line.starts_with(&format!("Malformed: {}", why.cause())) {
            let _ = writeln!(wrong, "{line}: {bytes:02x?} is malformed: {why}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let _ = std::fs::remove_dir_all(&dir);
}
