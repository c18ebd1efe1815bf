// SPDX-License-Identifier: GPL-2.0
//! Without the module: what is asked, and what is made of answers. And with it, of a family that
//! every kernel has.

use super::*;
use crate::attr;
use crate::error::NOT_ROOT;
use crate::transport::record::{self, tests::read};
use turnstile_core::transport::uapi::{config, stat};

/// Answers as it is told, and keeps what it was asked.
struct Fake {
    answer: Option<Result<Vec<Attributes>, Error>>,
    asked: Vec<(u16, u8, Vec<u8>, bool)>,
}

impl Fake {
    fn new(answer: Result<Vec<Vec<u8>>, Error>) -> Self {
        let read = |answers: Vec<Vec<u8>>| answers.iter().map(|bytes| read(bytes)).collect();
        Self {
            answer: Some(answer.map(read)),
            asked: Vec::new(),
        }
    }
}

impl Kernel for Fake {
    fn ask(
        &mut self,
        family: u16,
        command: u8,
        attributes: Attributes,
        dump: bool,
    ) -> Result<Vec<Attributes>, Error> {
        let bytes = to_bytes(&attributes).unwrap();
        self.asked.push((family, command, bytes, dump));
        self.answer.take().unwrap()
    }
}

/// `EPERM` of asm-generic/errno-base.h.
const EPERM: i32 = 1;
/// `GENL_ID_CTRL`: the family that knows the others.
const CONTROLLER: u16 = 16;

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

/// The controller is a family that every kernel has.
#[test]
fn the_family_and_its_group() {
    let controller = Family::find("nlctrl", "notify").unwrap();
    assert_eq!((controller.id, controller.events), (CONTROLLER, Some(16)));
    let other = Family::find("nlctrl", "no such group").unwrap();
    assert_eq!(other.events, None);
}

#[test]
fn without_the_module() {
    let error = Family::find("no such family", "events").unwrap_err();
    assert!(matches!(error, Error::NotLoaded), "{error:?}");
    assert_eq!(error.to_string(), "the kernel has no turnstile transport");
}

#[test]
fn settings_there_and_back() {
    let words = ["policy", "top", "rto", "1ms"];
    let given = Settings::parse(&words).unwrap();
    let mut kernel = Fake::new(Ok(vec![]));
    set(&mut kernel, FAMILY_31, &given).unwrap();
    assert_eq!(kernel.asked, [(31, 2, given.encode(), false)]);

    let mut answer = given.encode();
    attr::put_u64(&mut answer, config::LINK_IN_FORCE, 1_250_000_000);
    let mut kernel = Fake::new(Ok(vec![answer]));
    let shown = settings(&mut kernel, FAMILY_31).unwrap();
    assert_eq!(shown.to_string(), "policy top rto 1ms");
    assert_eq!(shown.get(config::LINK_IN_FORCE), Some(1_250_000_000));
    assert_eq!(kernel.asked, [(31, 1, vec![], false)]);
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
    assert_eq!(kernel.asked, [(31, 3, vec![], true)]);

    let mut answer = Vec::new();
    attr::put_u64(&mut answer, stat::FIRST, 7);
    attr::put(&mut answer, stat::PAD, &[]);
    attr::put_u64(&mut answer, stat::FIRST + 1, 9);
    let mut kernel = Fake::new(Ok(vec![answer]));
    assert_eq!(counters(&mut kernel, FAMILY_31).unwrap(), [(2, 7), (3, 9)]);
    let mut answer = Vec::new();
    attr::put(&mut answer, stat::FIRST, &[1, 2, 3]);
    let mut kernel = Fake::new(Ok(vec![answer]));
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

/// The whole way, with the controller, which describes itself on every kernel.
#[test]
fn a_real_kernel_answers() {
    const GETFAMILY: u8 = 3;
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    let mut wire = Wire::open().unwrap();
    let named = |name: &[u8]| {
        let mut bytes = Vec::new();
        attr::put(&mut bytes, FAMILY_NAME, name);
        read(&bytes)
    };
    let answers = wire
        .ask(CONTROLLER, GETFAMILY, named(b"nlctrl\0"), false)
        .unwrap();
    let handle = answers[0].get_attr_handle();
    assert_eq!(
        handle.get_attr_payload_as::<u16>(FAMILY_ID).unwrap(),
        CONTROLLER
    );
    let all = wire
        .ask(CONTROLLER, GETFAMILY, Attributes::new(), true)
        .unwrap();
    assert!(!all.is_empty());
    // A name that is too long is refused by the kernel's policy, in words.
    let error = wire
        .ask(CONTROLLER, GETFAMILY, named(&[b'x'; 64]), false)
        .unwrap_err();
    match error {
        Error::Refused {
            errno,
            message: Some(message),
        } => assert!(errno > 0 && !message.is_empty(), "{errno} {message}"),
        other => panic!("{other:?}"),
    }
}

/// Only what says so is an event: the group may have other messages one day.
#[test]
fn events_are_told_from_others() {
    use turnstile_core::transport::uapi::{message, EVENT_LIMITED};
    let mut bytes = Vec::new();
    attr::put_u32(&mut bytes, message::EVENT, EVENT_LIMITED);
    attr::put_u32(&mut bytes, message::LIMIT, config::MAX_INCOMING.into());
    let attributes = read(&bytes);
    assert!(event(command::EVENT, &attributes).unwrap().is_some());
    assert!(event(command::TRANSPORT_SET, &attributes)
        .unwrap()
        .is_none());
}
