// SPDX-License-Identifier: GPL-2.0
//! Without the module: what is asked, and what is made of answers. And with it, of a family that
//! every kernel has.

use super::family::ctrl;
use super::*;
use crate::attr;
use crate::error::NOT_ROOT;
use crate::transport::record;
use turnstile_core::transport::uapi::{config, stat};

/// Answers as it is told, and keeps what it was asked.
struct Fake {
    answer: Option<Result<Vec<Vec<u8>>, Error>>,
    asked: Vec<(u16, u8, u8, Vec<u8>, bool)>,
}

impl Fake {
    fn new(answer: Result<Vec<Vec<u8>>, Error>) -> Self {
        Self {
            answer: Some(answer),
            asked: Vec::new(),
        }
    }
}

impl Kernel for Fake {
    fn ask(
        &mut self,
        family: u16,
        command: u8,
        version: u8,
        attributes: &[u8],
        dump: bool,
    ) -> Result<Vec<Vec<u8>>, Error> {
        self.asked
            .push((family, command, version, attributes.to_vec(), dump));
        self.answer.take().unwrap()
    }
}

// Numbers of asm-generic/errno-base.h.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;

const FAMILY_31: Family = Family {
    id: 31,
    events: None,
};

fn refused(errno: i32, message: Option<&str>) -> Error {
    Error::Refused {
        errno,
        message: message.map(str::to_owned),
    }
}

#[test]
fn the_family_and_its_group() {
    let named = |name: &str, id: u32| {
        let mut bytes = Vec::new();
        attr::put_u32(&mut bytes, ctrl::GROUP_ID, id);
        attr::put(
            &mut bytes,
            ctrl::GROUP_NAME,
            &[name.as_bytes(), &[0]].concat(),
        );
        bytes
    };
    let mut groups = Vec::new();
    attr::put(&mut groups, 1, &named("other", 5));
    attr::put(&mut groups, 2, &named("events", 6));
    let mut answer = Vec::new();
    attr::put(&mut answer, ctrl::FAMILY_ID, &31u16.to_ne_bytes());
    attr::put(&mut answer, ctrl::MCAST_GROUPS, &groups);
    let mut kernel = Fake::new(Ok(vec![answer]));
    assert_eq!(
        Family::find(&mut kernel).unwrap(),
        Family {
            id: 31,
            events: Some(6)
        }
    );
    let mut name = Vec::new();
    attr::put(&mut name, 2, b"turnstile\0");
    assert_eq!(kernel.asked, [(0x10, 3, 2, name, false)]);
}

#[test]
fn without_the_module() {
    let mut kernel = Fake::new(Err(refused(ENOENT, None)));
    let error = Family::find(&mut kernel).unwrap_err().to_string();
    assert_eq!(error, "the kernel has no turnstile transport");
}

#[test]
fn settings_there_and_back() {
    let words = ["policy", "top", "rto", "1ms"];
    let given = Settings::parse(&words).unwrap();
    let mut kernel = Fake::new(Ok(vec![]));
    set(&mut kernel, FAMILY_31, &given).unwrap();
    assert_eq!(kernel.asked, [(31, 2, 1, given.encode(), false)]);

    let mut answer = given.encode();
    attr::put_u64(&mut answer, config::LINK_IN_FORCE, 1_250_000_000);
    let mut kernel = Fake::new(Ok(vec![answer]));
    let shown = settings(&mut kernel, FAMILY_31).unwrap();
    assert_eq!(shown.to_string(), "policy top rto 1ms");
    assert_eq!(shown.link_in_force, Some(1_250_000_000));
    assert_eq!(kernel.asked, [(31, 1, 1, vec![], false)]);
}

#[test]
fn lists_and_counters() {
    let outgoing = record::tests::outgoing();
    let mut kernel = Fake::new(Ok(vec![outgoing.clone(), outgoing]));
    let all = list(
        &mut kernel,
        FAMILY_31,
        command::MESSAGE_GET,
        Message::decode,
    );
    assert_eq!(all.unwrap().len(), 2);
    assert_eq!(kernel.asked, [(31, 3, 1, vec![], true)]);

    let mut answer = Vec::new();
    attr::put_u64(&mut answer, stat::FIRST, 7);
    attr::put(&mut answer, stat::PAD, &[]);
    attr::put_u64(&mut answer, stat::FIRST + 1, 9);
    let mut kernel = Fake::new(Ok(vec![answer]));
    assert_eq!(counters(&mut kernel, FAMILY_31).unwrap(), [(2, 7), (3, 9)]);
    let mut kernel = Fake::new(Ok(vec![vec![1, 2, 3]]));
    assert!(matches!(
        counters(&mut kernel, FAMILY_31),
        Err(Error::Malformed(_))
    ));
}

#[test]
fn refusals_in_words() {
    let says = |error: Error| error.to_string();
    assert_eq!(
        says(refused(22, Some("turnstile: rto: 2s is above timeout, 1s"))),
        "rto: 2s is above timeout, 1s"
    );
    assert_eq!(says(refused(EPERM, None)), NOT_ROOT);
    assert_eq!(
        says(refused(EPERM, Some("no."))),
        format!("no ({NOT_ROOT})")
    );
    assert!(says(refused(16, None)).contains("busy"));
}

/// The controller describes itself on every kernel: the whole way, with a family that is always
/// there.
#[test]
fn a_real_kernel_answers() {
    let mut wire = Wire::open().unwrap();
    let mut name = Vec::new();
    attr::put(&mut name, ctrl::FAMILY_NAME, b"nlctrl\0");
    let answers = wire
        .ask(ctrl::ID, ctrl::GETFAMILY, ctrl::VERSION, &name, false)
        .unwrap();
    let id = attributes(&answers[0])
        .map(Result::unwrap)
        .find(|attribute| attribute.number == ctrl::FAMILY_ID);
    assert_eq!(id.unwrap().u16("id"), Ok(ctrl::ID));
    let all = wire
        .ask(ctrl::ID, ctrl::GETFAMILY, ctrl::VERSION, &[], true)
        .unwrap();
    assert!(!all.is_empty());
    // A name that is too long is refused by the kernel's policy.
    let mut name = Vec::new();
    attr::put(&mut name, ctrl::FAMILY_NAME, &[b'x'; 64]);
    let error = wire
        .ask(ctrl::ID, ctrl::GETFAMILY, ctrl::VERSION, &name, false)
        .unwrap_err();
    assert!(
        matches!(error, Error::Refused { errno, .. } if errno > 0),
        "{error:?}"
    );
}
