// SPDX-License-Identifier: GPL-2.0
//! Requests whose bytes do not make sense.

use anyhow::{ensure, Result};
use turnstile_core::transport::uapi::{command, config, FAMILY};

use super::Bench;
use crate::cases::support::Verdicts;
use crate::harness::Ctx;
use crate::raw_netlink::{
    attribute, attribute_of_length, attribute_u32, attribute_u64, GenericRequest, NESTED,
};

/// `NLA_F_NET_BYTEORDER`.
const NET_BYTE_ORDER: u16 = 0x4000;
/// Netlink's header and generic netlink's.
const HEAD: u32 = 16 + 4;

/// What comes behind the header, the refusal's words, and which attribute is at fault, by its
/// offset behind the headers.
fn refused() -> Vec<(Vec<u8>, &'static str, u32)> {
    let good = attribute_u32(config::PRIORITIES, 4);
    let after = |bytes: &[u8]| [&good[..], bytes].concat();
    let priorities =
        |len: usize, content: &[u8]| attribute_of_length(config::PRIORITIES, content, len);
    vec![
        (vec![1], "1 stray bytes after the last option", 0),
        (vec![4, 0, 15], "3 stray bytes after the last option", 0),
        (after(&[8, 0]), "2 stray bytes after the last option", 8),
        (
            priorities(0, &[0; 4]),
            "attribute 17: length 0 is not in 4..8",
            0,
        ),
        (
            priorities(3, &[0; 4]),
            "attribute 17: length 3 is not in 4..8",
            0,
        ),
        (
            priorities(9, &[0; 4]),
            "attribute 17: length 9 is not in 4..8",
            0,
        ),
        (
            after(&priorities(0xffff, &[0; 4])),
            "attribute 17: length 65535 is not in 4..8",
            8,
        ),
        (
            priorities(8, &[]),
            "attribute 17: length 8 is not in 4..4",
            0,
        ),
        (
            attribute(config::PRIORITIES, &[]),
            "priorities: 0 bytes, not 4",
            0,
        ),
        (attribute(config::POLICY, &[1]), "policy: 1 bytes, not 4", 0),
        (
            attribute(config::JITTER, &[1, 0, 0]),
            "jitter: 3 bytes, not 4",
            0,
        ),
        (
            attribute_u64(config::SEND_BUFFER, 1 << 20),
            "send-buffer: 8 bytes, not 4",
            0,
        ),
        (
            attribute_u32(config::LINK_RATE64, 125_000_000),
            "link: 4 bytes, not 8",
            0,
        ),
        (
            attribute(config::TIMEOUT, &[0; 16]),
            "timeout: 16 bytes, not 8",
            0,
        ),
        (
            attribute(config::RTO, &vec![2; 60_000]),
            "rto: 60000 bytes, not 8",
            0,
        ),
        (attribute_u32(0, 0), "unknown attribute 0", 0),
        (attribute_u32(config::MAX + 1, 0), "unknown attribute 70", 0),
        (attribute_u32(0x3fff, 0), "unknown attribute 16383", 0),
        (after(&attribute(99, &[])), "unknown attribute 99", 8),
        (after(&good), "priorities: given twice", 8),
        (
            after(&attribute_u32(config::PRIORITIES | NESTED, 4)),
            "priorities: given twice",
            8,
        ),
        (
            after(&attribute_u64(config::TIMEOUT, 5_000)),
            "timeout: 5us is not in 100ms..3600s",
            8,
        ),
        (
            after(&attribute_u64(config::LINK_IN_FORCE, 1)),
            "link-in-force: can only be read",
            8,
        ),
    ]
}

pub(super) fn run(ctx: &mut Ctx) -> Result<()> {
    let mut bench = Bench::new()?;
    let mut verdicts = Verdicts::default();
    for (attributes, words, offset) in refused() {
        let head = &attributes[..attributes.len().min(24)];
        let verdict = bench
            .refused(&attributes, words)
            .and_then(|()| blamed(&mut bench, &attributes, offset));
        verdicts.row(&format!("{words}: {head:02x?}"), verdict);
    }
    for flags in [0, NESTED, NET_BYTE_ORDER, NESTED | NET_BYTE_ORDER] {
        let attributes = [
            attribute(config::PAD, &[]),
            attribute_u32(config::PRIORITIES | flags, 5),
            attribute(config::PAD, &[1, 2, 3]),
        ];
        let verdict = bench.set(&attributes.concat()).and_then(|a| a.success());
        verdicts.row(&format!("flags {flags:x} and padding"), verdict);
    }
    headers(&mut bench, &mut verdicts);
    arguments(&mut bench, &mut verdicts);
    ctx.note(format!("{} rows", verdicts.rows));
    verdicts.finish()
}

fn blamed(bench: &mut Bench, attributes: &[u8], offset: u32) -> Result<()> {
    let answer = bench.set(attributes)?;
    ensure!(answer.offset == Some(HEAD + offset), "{answer:?}");
    Ok(())
}

/// Fields of the headers that must be zero.
fn headers(bench: &mut Bench, verdicts: &mut Verdicts) {
    let attributes = attribute_u32(config::PRIORITIES, 3);
    let good = GenericRequest::new(command::TRANSPORT_SET, &attributes);
    let mut refused = |what: &str, request: GenericRequest<'_>, errno: i32, words: &str| {
        let verdict = bench.config().and_then(|before| {
            let (_, answer) = bench.request(&request)?;
            ensure!(
                answer.errno == errno && answer.text.contains(words),
                "{answer:?}"
            );
            ensure!(bench.config()? == before, "the refusal left a trace");
            Ok(())
        });
        verdicts.row(what, verdict);
    };
    let reserved = GenericRequest {
        reserved: 1,
        ..good
    };
    refused("a reserved field", reserved, libc::EINVAL, "reserved");
    for flag in [0x10, 0x20, 0x80, 0x100, 0x200, 0x400, 0x800] {
        let request = GenericRequest {
            flags: good.flags | flag,
            ..good
        };
        refused(
            &format!("flag {flag:x}"),
            request,
            libc::EINVAL,
            "reserved bits set in nlmsg_flags",
        );
    }
    for number in [0, command::EVENT, command::EVENT + 1, 255] {
        let request = GenericRequest {
            command: number,
            ..good
        };
        refused(&format!("command {number}"), request, libc::EOPNOTSUPP, "");
    }
    // A dump of what is no dump, and the other way round.
    let dump = GenericRequest {
        flags: good.flags | 0x300,
        ..good
    };
    refused("set, as a dump", dump, libc::EOPNOTSUPP, "");
    for number in [command::MESSAGE_GET, command::PEER_GET] {
        let request = GenericRequest::new(number, &[]);
        refused(
            &format!("dump {number}, as a read"),
            request,
            libc::EOPNOTSUPP,
            "",
        );
    }
    let verdict = bench.request(&good).and_then(|(_, a)| a.success());
    verdicts.row("and the same without a fault", verdict);
}

/// Attributes for commands that take none.
fn arguments(bench: &mut Bench, verdicts: &mut Verdicts) {
    for number in [
        command::TRANSPORT_GET,
        command::MESSAGE_GET,
        command::PEER_GET,
        command::STATS_GET,
    ] {
        let dump = matches!(number, command::MESSAGE_GET | command::PEER_GET);
        for (attributes, words) in [
            (attribute_u32(2, 0), "unknown attribute 2"),
            (vec![1, 0], "2 stray bytes after the last option"),
        ] {
            let mut request = GenericRequest::new(number, &attributes);
            request.flags |= if dump { 0x300 } else { 0 };
            let verdict = bench.request(&request).and_then(|(replies, answer)| {
                ensure!(
                    replies.is_empty()
                        && answer.errno == libc::EINVAL
                        && answer.text == format!("{FAMILY}: {words}"),
                    "{answer:?} {replies:?}"
                );
                Ok(())
            });
            verdicts.row(&format!("command {number}: {words}"), verdict);
        }
    }
}
