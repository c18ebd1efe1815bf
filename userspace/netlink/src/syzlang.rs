// SPDX-License-Identifier: GPL-2.0
//! `docs/fuzz/turnstile.txt`: what programs can ask the modules for, in syzkaller's language, and
//! beside it the values of the names in it. Both are made here, of the modules' own tables and
//! numbers. With `UPDATE=1` in the environment, the test writes them; without, it compares them.

use std::collections::{BTreeMap, BTreeSet};

use turnstile_core::options::{Kind, Opt, Table};
use turnstile_core::transport::uapi::{
    ancillary, command, sockopt, FAMILY, GROUP_EVENTS, IPPROTO_TURNSTILE, SOL_TURNSTILE,
};
use turnstile_core::{pacer, port, transport};

const PORT: &str = include_str!("../../../core/src/port/uapi.rs");
const PACER: &str = include_str!("../../../core/src/pacer/uapi.rs");
const TRANSPORT: &str = include_str!("../../../core/src/transport/uapi.rs");

/// Names of Linux's that the descriptions have, with their values on amd64.
const LINUX: &[(&str, u64)] = &[
    ("AF_INET", 2),
    ("AF_INET6", 10),
    ("AF_UNSPEC", 0),
    ("IPV6_MTU", 24),
    ("IPV6_PKTINFO", 50),
    ("IPV6_RECVPKTINFO", 49),
    ("IPV6_UNICAST_HOPS", 16),
    ("IPV6_V6ONLY", 26),
    ("IP_BIND_ADDRESS_NO_PORT", 24),
    ("IP_MTU", 14),
    ("IP_PKTINFO", 8),
    ("IP_TTL", 2),
    ("RTM_DELQDISC", 37),
    ("RTM_NEWQDISC", 36),
    ("SIOCINQ", 0x541b),
    ("SIOCOUTQ", 0x5411),
    ("SOCK_CLOEXEC", 0x8_0000),
    ("SOCK_NONBLOCK", 0x800),
    ("SOCK_RDM", 4),
    ("SOL_IP", 0),
    ("SOL_IPV6", 41),
    ("TCA_KIND", 1),
    ("TCA_OPTIONS", 2),
    ("__NR_bind", 49),
    ("__NR_connect", 42),
    ("__NR_getpeername", 52),
    ("__NR_getsockname", 51),
    ("__NR_getsockopt", 55),
    ("__NR_ioctl", 16),
    ("__NR_recvmsg", 47),
    ("__NR_sendmsg", 46),
    ("__NR_sendto", 44),
    ("__NR_setsockopt", 54),
    ("__NR_socket", 41),
];

/// The constants of a module of a file of numbers, in their order; `MAX`, `FIRST` and lengths are
/// none of the interface's.
fn numbers(file: &str, module: &str) -> Vec<(String, u64)> {
    let start = file.find(&format!("pub mod {module} {{")).expect(module);
    let part = &file[start..];
    let part = &part[..part.find("\n}").expect(module)];
    let all: Vec<_> = part
        .lines()
        .filter_map(|line| line.trim().strip_prefix("pub const "))
        .filter_map(|line| {
            let (name, rest) = line.split_once(": ")?;
            let value = rest.split_once("= ")?.1.trim_end_matches(';');
            Some((name.to_owned(), value.parse().ok()?))
        })
        .filter(|(name, _)| !["MAX", "FIRST", "INFO_LEN"].contains(&name.as_str()))
        .collect();
    assert!(!all.is_empty(), "{module}");
    all
}

/// The text under construction, and the values of the names that are its own.
#[derive(Default)]
struct Writer {
    text: String,
    own: BTreeMap<String, u64>,
}

impl Writer {
    fn line(&mut self, line: &str) {
        self.text += line;
        self.text.push('\n');
    }

    /// Some lines; one that is too wide here goes on behind ` \`.
    fn lines(&mut self, lines: &str) {
        self.text += &lines.trim_start_matches('\n').replace(" \\\n  ", " ");
        self.text.push('\n');
    }

    /// `define` lines; each name stands behind a prefix.
    fn define(&mut self, prefix: &str, numbers: &[(String, u64)]) {
        for (name, value) in numbers {
            let name = format!("TURNSTILE_{prefix}{name}");
            self.line(&format!("define {name}\t{value}"));
            assert!(self.own.insert(name.clone(), *value).is_none(), "{name}");
        }
        self.line("");
    }

    /// The attributes of a table of options, each with the values that it may have.
    fn options<T: Table>(&mut self, what: &str, prefix: &str, numbers: &[(String, u64)]) {
        let mut members = Vec::new();
        let mut words = Vec::new();
        for (name, number) in numbers {
            let number = u16::try_from(*number).expect("an attribute");
            let attribute = format!("TURNSTILE_{prefix}{name}");
            let payload = match T::option(number) {
                Some(option) => payload(option, number, what, &mut words),
                // What pads, and what is only read.
                None if number == T::PAD => "void".to_owned(),
                None => "int64".to_owned(),
            };
            members.push(format!("\t{name}\tnlattr[{attribute}, {payload}]"));
        }
        self.line(&format!("turnstile_{what}_options ["));
        members.iter().for_each(|member| self.line(member));
        self.line("] [varlen]\n");
        words.iter().for_each(|union| self.line(union));
    }

    /// Attributes that requests do not have, with any number in them.
    fn others(&mut self, what: &str, prefix: &str, numbers: &[(String, u64)]) {
        self.line(&format!("turnstile_{what}_attributes ["));
        for (name, _) in numbers {
            let attribute = format!("TURNSTILE_{prefix}{name}");
            self.line(&format!("\t{name}\tnlattr[{attribute}, int64]"));
        }
        self.line("] [varlen]\n");
    }
}

/// What an option's attribute may hold. Where words stand for values outside its range, that is a
/// union of its own, added to `words`.
fn payload(option: &Opt, number: u16, what: &str, words: &mut Vec<String>) -> String {
    let kind = option.kind_of(number).expect(option.name);
    let int = match kind {
        Kind::U32 => "int32",
        Kind::U64 => "int64",
        Kind::Map => return "array[flags[turnstile_classes, int8], 64]".into(),
    };
    if number != option.number {
        return int.to_owned();
    }
    let (min, max) = option.form.ends();
    let range = format!("{int}[{min}:{max}]");
    if option.form.words().is_empty() {
        return range;
    }
    let name = format!("turnstile_{what}_{}", option.name.replace([' ', '-'], "_"));
    let mut union = format!("{name} [\n\tsome\t{range}\n");
    for (word, value) in option.form.words() {
        union += &format!("\t{word}\tconst[{value}, {int}]\n");
    }
    words.push(union + "]\n");
    name
}

/// Commands of the family that a request may have, and whether they take options.
fn commands(writer: &mut Writer) {
    for (name, value) in numbers(TRANSPORT, "command") {
        let policy = if value == u64::from(command::TRANSPORT_SET) {
            "turnstile_transport_options"
        } else {
            "turnstile_any_attributes"
        };
        writer.line(&format!(
            "sendmsg$TURNSTILE_CMD_{name}(fd sock_nl_generic, msg ptr[in, \
             msghdr_nl_turnstile[TURNSTILE_CMD_{name}, {policy}]], f flags[send_flags])"
        ));
    }
    writer.line("");
}

/// Options of sockets.
fn socket_options(writer: &mut Writer) {
    for (name, value) in numbers(TRANSPORT, "sockopt") {
        let payload = match u32::try_from(value).expect("an option") {
            sockopt::RECVINFO => "int32[0:2]",
            sockopt::COMPLETIONS => "int32[0:1]",
            sockopt::DEFAULT_PRIORITY => "int32[-1:7]",
            sockopt::KEY => "int32[-1:2147483647]",
            sockopt::ACCEPT_KEY => "int32[0:2147483647]",
            sockopt::READ | sockopt::DISCARD => "int64[0:16]",
            // Given by the kernel; to set it is refused.
            sockopt::NUMBER | sockopt::OPEN => "int32",
            other => panic!("the socket option {other} is new"),
        };
        let place = format!("level const[SOL_TURNSTILE], opt const[TURNSTILE_{name}]");
        writer.line(&format!(
            "setsockopt$TURNSTILE_{name}(fd sock_turnstile, {place}, val ptr[in, {payload}], len \
             len[val])"
        ));
        writer.line(&format!(
            "getsockopt$TURNSTILE_{name}(fd sock_turnstile, {place}, val ptr[out, int64], len \
             ptr[inout, len[val, int32]])"
        ));
    }
    for (level, name, payload) in [
        ("SOL_IP", "IP_TTL", "int32[-1:255]"),
        ("SOL_IP", "IP_PKTINFO", "int32[0:1]"),
        ("SOL_IP", "IP_BIND_ADDRESS_NO_PORT", "int32[0:1]"),
        ("SOL_IP", "IP_MTU", "int32"),
        ("SOL_IPV6", "IPV6_V6ONLY", "int32[0:1]"),
        ("SOL_IPV6", "IPV6_UNICAST_HOPS", "int32[-1:255]"),
        ("SOL_IPV6", "IPV6_RECVPKTINFO", "int32[0:1]"),
        ("SOL_IPV6", "IPV6_MTU", "int32"),
    ] {
        let place = format!("level const[{level}], opt const[{name}]");
        writer.line(&format!(
            "setsockopt$turnstile_{name}(fd sock_turnstile, {place}, val ptr[in, {payload}], len \
             len[val])"
        ));
        writer.line(&format!(
            "getsockopt$turnstile_{name}(fd sock_turnstile, {place}, val ptr[out, int32], len \
             ptr[inout, len[val, int32]])"
        ));
    }
    writer.line("");
}

/// Ancillary data.
fn items(writer: &mut Writer) {
    writer.line("cmsghdr_turnstile [");
    for (name, value) in numbers(TRANSPORT, "ancillary") {
        let payload = match u32::try_from(value).expect("a type") {
            ancillary::LENGTH => "int64[1:1073741823]",
            ancillary::DEADLINE => "int64[0:1000000000]",
            ancillary::COFLOW => "int32[1:4]",
            ancillary::PRIORITY => "int32[0:7]",
            ancillary::UNKNOWN_SIZE => "int32[0:1]",
            // Given by the kernel; as a request it is refused.
            ancillary::INFO => "array[int64, 4]",
            other => panic!("the ancillary data {other} is new"),
        };
        let kind = format!("SOL_TURNSTILE, TURNSTILE_{name}");
        writer.line(&format!("\t{name}\tcmsghdr_t[{kind}, {payload}]"));
    }
    writer.line("\tpktinfo\tcmsghdr_t[SOL_IP, IP_PKTINFO, in_pktinfo]");
    writer.line("\tpktinfo6\tcmsghdr_t[SOL_IPV6, IPV6_PKTINFO, in6_pktinfo]");
    writer.line("] [varlen]\n");
}

const HEAD: &str = r#"
# SPDX-License-Identifier: GPL-2.0
#
# Turnstile for syzkaller: the transport's sockets and its generic netlink family, and the qdiscs
# `turnstile`, `turnstile_mq` and `turnstile_pacer`.
#
# Made of the modules' own tables by userspace/netlink/src/syzlang.rs; a test compares them. To use
# it, put this file and turnstile.txt.const into syzkaller's sys/linux/ as socket_turnstile.txt and
# socket_turnstile.txt.const, run `make generate` there, and let syz-manager run on a kernel that
# has the modules loaded.

include <linux/net.h>
include <linux/socket.h>
include <linux/sockios.h>
include <uapi/linux/in.h>
include <uapi/linux/in6.h>
include <uapi/linux/netlink.h>
include <uapi/linux/genetlink.h>
include <uapi/linux/rtnetlink.h>
include <uapi/linux/pkt_sched.h>

# ------------------------------ numbers ------------------------------
"#;

const SOCKETS: &str = r"
# ------------------------------ sockets ------------------------------
resource sock_turnstile[sock]

socket$turnstile(domain flags[turnstile_domains], type flags[turnstile_types], proto \
  const[IPPROTO_TURNSTILE]) sock_turnstile
bind$turnstile(fd sock_turnstile, addr ptr[in, sockaddr_turnstile], addrlen len[addr])
connect$turnstile(fd sock_turnstile, addr ptr[in, sockaddr_turnstile], addrlen len[addr])
getsockname$turnstile(fd sock_turnstile, addr ptr[out, sockaddr_turnstile], addrlen \
  ptr[inout, len[addr, int32]])
getpeername$turnstile(fd sock_turnstile, addr ptr[out, sockaddr_turnstile], addrlen \
  ptr[inout, len[addr, int32]])
sendto$turnstile(fd sock_turnstile, buf buffer[in], len len[buf], f flags[send_flags], addr \
  ptr[in, sockaddr_turnstile, opt], addrlen len[addr])
sendmsg$turnstile(fd sock_turnstile, msg ptr[in, msghdr_turnstile], f flags[send_flags])
recvmsg$turnstile(fd sock_turnstile, msg ptr[inout, recv_msghdr], f flags[recv_flags])
ioctl$TURNSTILE_SIOCINQ(fd sock_turnstile, cmd const[SIOCINQ], arg ptr[out, int32])
ioctl$TURNSTILE_SIOCOUTQ(fd sock_turnstile, cmd const[SIOCOUTQ], arg ptr[out, int32])

turnstile_domains = AF_INET, AF_INET6
turnstile_types = SOCK_RDM, SOCK_NONBLOCK, SOCK_CLOEXEC

sockaddr_turnstile [
	in	sockaddr_in
	in6	sockaddr_in6
] [varlen]

msghdr_turnstile {
	addr	ptr[in, sockaddr_turnstile, opt]
	addrlen	len[addr, int32]
	vec	ptr[in, array[iovec[in, array[int8]]]]
	vlen	len[vec, intptr]
	ctrl	ptr[in, array[cmsghdr_turnstile], opt]
	ctrllen	bytesize[ctrl, intptr]
	f	flags[send_flags, int32]
}
";

const GENERIC: &str = r#"
# ------------------------------ generic netlink ------------------------------
resource genl_turnstile_family_id[int16]

type msghdr_nl_turnstile[CMD, POLICY] msghdr_netlink[netlink_msg_t[genl_turnstile_family_id, \
  genlmsghdr_t[CMD], POLICY]]

syz_genetlink_get_family_id$turnstile(name ptr[in, string["turnstile"]], fd sock_nl_generic) \
  genl_turnstile_family_id
"#;

const ANY: &str = r"
# What only answers have; requests with it are refused.
turnstile_any_attributes [
	options	turnstile_transport_options
	message	turnstile_message_attributes
	peer	turnstile_peer_attributes
	link	turnstile_link_attributes
] [varlen]
";

const QDISCS: &str = r#"
# ------------------------------ qdiscs ------------------------------
sendmsg$nl_route_turnstile(fd sock_nl_route, msg ptr[in, \
  msghdr_netlink[netlink_msg_turnstile]], f flags[send_flags])

netlink_msg_turnstile [
	newqdisc	netlink_msg[RTM_NEWQDISC, tcmsg[AF_UNSPEC], turnstile_qdisc]
	delqdisc	netlink_msg[RTM_DELQDISC, tcmsg[AF_UNSPEC], turnstile_qdisc]
] [varlen]

turnstile_qdisc [
	port	turnstile_qdisc_t["turnstile", turnstile_port_options]
	queues	turnstile_qdisc_t["turnstile_mq", turnstile_port_options]
	pacer	turnstile_qdisc_t["turnstile_pacer", turnstile_pacer_options]
] [varlen]

type turnstile_qdisc_t[NAME, OPTIONS] {
	TCA_KIND	nlattr[TCA_KIND, string[NAME]]
	TCA_OPTIONS	nlnest[TCA_OPTIONS, array[OPTIONS]]
}
"#;

/// The description and the values of its names.
fn descriptions() -> (String, String) {
    let mut writer = Writer::default();
    writer.lines(HEAD);
    let level = [
        ("IPPROTO_TURNSTILE", u64::from(IPPROTO_TURNSTILE)),
        ("SOL_TURNSTILE", u64::from(SOL_TURNSTILE)),
    ];
    for (name, value) in level {
        writer.line(&format!("define {name}\t{value}"));
        writer.own.insert(name.into(), value);
    }
    writer.line("");
    let [config, message, peer, link] =
        ["config", "message", "peer", "link"].map(|module| numbers(TRANSPORT, module));
    let (port_options, pacer_options) = (numbers(PORT, "option"), numbers(PACER, "option"));
    writer.define("", &numbers(TRANSPORT, "sockopt"));
    writer.define("", &numbers(TRANSPORT, "ancillary"));
    writer.define("CMD_", &numbers(TRANSPORT, "command"));
    writer.define("CONFIG_", &config);
    writer.define("MESSAGE_", &message);
    writer.define("PEER_", &peer);
    writer.define("LINK_", &link);
    writer.define("PORT_", &port_options);
    writer.define("PACER_", &pacer_options);
    writer.lines(SOCKETS);
    socket_options(&mut writer);
    items(&mut writer);
    writer.lines(GENERIC);
    commands(&mut writer);
    writer.lines(ANY);
    writer.options::<transport::config::Config>("transport", "CONFIG_", &config);
    writer.others("message", "MESSAGE_", &message);
    writer.others("peer", "PEER_", &peer);
    writer.others("link", "LINK_", &link);
    writer.lines(QDISCS);
    writer.options::<port::config::Config>("port", "PORT_", &port_options);
    writer.options::<pacer::config::Config>("pacer", "PACER_", &pacer_options);
    let classes = [
        port::uapi::class::SIGNAL,
        port::uapi::class::DATA,
        port::uapi::class::UNSCHEDULED,
        port::uapi::class::TOKENS,
    ];
    let classes = classes.map(|class| class.to_string()).join(", ");
    writer.line(&format!("turnstile_classes = {classes}"));
    let mut values: BTreeMap<&str, u64> = LINUX.iter().copied().collect();
    values.extend(
        writer
            .own
            .iter()
            .map(|(name, value)| (name.as_str(), *value)),
    );
    let mut consts = "# Made with turnstile.txt.\narches = amd64\n".to_owned();
    for (name, value) in values {
        consts += &format!("{name} = {value}\n");
    }
    (writer.text, consts)
}

#[test]
fn the_descriptions_are_those_of_the_code() {
    let (text, consts) = descriptions();
    let root = env!("CARGO_MANIFEST_DIR");
    for (name, expected) in [("turnstile.txt", text), ("turnstile.txt.const", consts)] {
        let path = format!("{root}/../../docs/fuzz/{name}");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &expected).unwrap();
        } else {
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(found == expected, "{path}: run this test with UPDATE=1");
        }
    }
}

/// The words of a description, as syzkaller's language has them.
fn words(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("include"))
        .flat_map(|line| line.split(|c: char| !(c.is_alphanumeric() || c == '_')))
        .collect()
}

#[test]
fn every_number_is_described_and_has_its_value() {
    let (text, consts) = descriptions();
    let defined = text
        .find("# ------------------------------ sockets")
        .unwrap();
    let used = words(&text[defined..]);
    for (file, modules) in [
        (
            TRANSPORT,
            &["sockopt", "ancillary", "command", "config"][..],
        ),
        (TRANSPORT, &["message", "peer", "link"]),
        (PORT, &["option"]),
        (PACER, &["option"]),
    ] {
        for (name, value) in modules.iter().flat_map(|module| numbers(file, module)) {
            let is_it = |word: &&&str| {
                word.strip_suffix(name.as_str())
                    .is_some_and(|head| head.starts_with("TURNSTILE_"))
                    && consts.contains(&format!("\n{word} = {value}\n"))
            };
            assert!(used.iter().any(|word| is_it(&word)), "{name} = {value}");
        }
    }
    assert!(text.contains(&format!("string[\"{FAMILY}\"]")));
    assert!(text.contains(&format!("turnstile_qdisc_t[\"{}\"", port::uapi::KIND)));
    assert!(text.contains(&format!("turnstile_qdisc_t[\"{}\"", pacer::uapi::KIND)));
    // Groups are joined by numbers, which syzkaller's own descriptions of netlink sockets do.
    assert_eq!(GROUP_EVENTS, "events");
}

/// What is in capitals must have a value, and nothing has one that is not there any more.
#[test]
fn names_and_values_go_together() {
    let (text, consts) = descriptions();
    let known: BTreeSet<&str> = consts
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .filter(|name| *name != "arches")
        .collect();
    let words = words(&text);
    let call = |name: &str| {
        let call = name.strip_prefix("__NR_").map(str::to_owned);
        call.is_some_and(|call| text.contains(&format!("\n{call}$")))
    };
    for name in &known {
        assert!(words.contains(name) || call(name), "{name} is not used");
    }
    let prefixes = [
        "AF_",
        "IP_",
        "IPV6_",
        "RTM_",
        "SIOC",
        "SOCK_",
        "SOL_",
        "TCA_",
        "TURNSTILE_",
    ];
    for word in words {
        let name = prefixes.iter().any(|prefix| word.starts_with(prefix));
        // Calls are named after their commands.
        let variant = text.contains(&format!("${word}("));
        assert!(
            !name || variant || known.contains(word),
            "{word} has no value"
        );
    }
}
