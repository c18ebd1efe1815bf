// SPDX-License-Identifier: GPL-2.0
//! The border to C: the table that tc looks for, the functions in it, and tc's functions that they
//! call.
//!
//! Layouts and signatures are those of `tc/tc_util.h`, `include/json_print.h` and
//! `include/libnetlink.h` of iproute2. tc has one thread. No panic leaves a callback: tc would be
//! aborted in the middle of a list.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr;

use turnstile_netlink::print::Printer;

use crate::{Kind, Outcome, Pacer, Port, Queues};

/// `struct nlmsghdr`, of which only tc knows how much room is behind it.
#[repr(C)]
struct NlMsgHdr([u8; 0]);

/// `struct rtattr`; the payload follows.
#[repr(C)]
struct RtAttr {
    len: u16,
    kind: u16,
}

type ParseFn = unsafe extern "C" fn(
    *const QdiscUtil,
    c_int,
    *mut *mut c_char,
    *mut NlMsgHdr,
    *const c_char,
) -> c_int;
type PrintFn = unsafe extern "C" fn(*const QdiscUtil, *mut c_void, *mut RtAttr) -> c_int;
type HasBlockFn = unsafe extern "C" fn(*const QdiscUtil, *mut RtAttr, u32, *mut bool) -> c_int;

/// `struct qdisc_util`.
#[repr(C)]
pub(crate) struct QdiscUtil {
    next: *mut QdiscUtil,
    id: *const c_char,
    parse_qopt: Option<ParseFn>,
    print_qopt: Option<PrintFn>,
    print_xstats: Option<PrintFn>,
    parse_copt: Option<ParseFn>,
    print_copt: Option<PrintFn>,
    has_block: Option<HasBlockFn>,
}

/// A table that tc writes to.
#[repr(transparent)]
pub(crate) struct Table(UnsafeCell<QdiscUtil>);

// SAFETY: nothing in here touches it after it is made, and tc, which sets `next`, has one thread.
unsafe impl Sync for Table {}

/// What tc looks for when it meets the kind `turnstile`.
#[no_mangle]
#[allow(non_upper_case_globals, reason = "the name is tc's")]
pub(crate) static turnstile_qdisc_util: Table = table::<Port>(c"turnstile");

/// What tc looks for when it meets the kind `turnstile_mq`.
#[no_mangle]
#[allow(non_upper_case_globals, reason = "the name is tc's")]
pub(crate) static turnstile_mq_qdisc_util: Table = table::<Queues>(c"turnstile_mq");

/// What tc looks for when it meets the kind `turnstile_pacer`.
#[no_mangle]
#[allow(non_upper_case_globals, reason = "the name is tc's")]
pub(crate) static turnstile_pacer_qdisc_util: Table = table::<Pacer>(c"turnstile_pacer");

const fn table<K: Kind>(id: &'static CStr) -> Table {
    Table(UnsafeCell::new(QdiscUtil {
        next: ptr::null_mut(),
        id: id.as_ptr(),
        parse_qopt: Some(parse_qopt::<K>),
        print_qopt: Some(print_qopt::<K>),
        print_xstats: Some(print_xstats::<K>),
        parse_copt: Some(parse_copt::<K>),
        print_copt: Some(print_copt::<K>),
        has_block: None,
    }))
}

/// `PRINT_FP`: text only.
const PRINT_FP: c_int = 1;
/// `PRINT_JSON`: JSON only.
const PRINT_JSON: c_int = 2;
/// `COLOR_NONE`.
const COLOR_NONE: c_int = 6;
/// `TCA_OPTIONS`, with the flag that the kernel's strict parser wants.
const OPTIONS: c_int = 2 | (1 << 15);
/// Room for the whole request; tc has 64 KiB, its own qdiscs ask for 1 or 2.
const MAX_REQUEST: c_int = 4096;

extern "C" {
    fn addattr_l(
        n: *mut NlMsgHdr,
        maxlen: c_int,
        kind: c_int,
        data: *const c_void,
        len: c_int,
    ) -> c_int;
    fn print_color_string(
        to: c_int,
        color: c_int,
        key: *const c_char,
        format: *const c_char,
        value: *const c_char,
    ) -> c_int;
    fn print_color_bool(
        to: c_int,
        color: c_int,
        key: *const c_char,
        format: *const c_char,
        value: bool,
    ) -> c_int;
    fn print_nl();
    fn open_json_object(key: *const c_char);
    fn close_json_object();
    fn get_json_writer() -> *mut c_void;
    fn jsonw_name(writer: *mut c_void, key: *const c_char);
    fn jsonw_printf(writer: *mut c_void, format: *const c_char, ...);
}

/// Runs a callback's work and turns its outcome into what tc wants: 0, or a message and -1.
fn guarded(work: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(message)) => {
            eprintln!("{message}");
            -1
        }
        // The panic has printed its own message.
        Err(_) => -1,
    }
}

unsafe extern "C" fn parse_qopt<K: Kind>(
    _: *const QdiscUtil,
    argc: c_int,
    argv: *mut *mut c_char,
    request: *mut NlMsgHdr,
    _: *const c_char,
) -> c_int {
    guarded(|| {
        let count = usize::try_from(argc).unwrap_or(0);
        let word = |at| {
            // SAFETY: tc hands over `argc` pointers to strings, which live as long as the call.
            let word = unsafe { CStr::from_ptr(*argv.add(at)) };
            word.to_string_lossy().into_owned()
        };
        let words: Vec<String> = (0..count).map(word).collect();
        K::parse_qdisc(&words, &mut Request(request))
    })
}

unsafe extern "C" fn parse_copt<K: Kind>(
    _: *const QdiscUtil,
    _: c_int,
    _: *mut *mut c_char,
    _: *mut NlMsgHdr,
    _: *const c_char,
) -> c_int {
    guarded(K::parse_class)
}

unsafe extern "C" fn print_qopt<K: Kind>(
    _: *const QdiscUtil,
    _: *mut c_void,
    attribute: *mut RtAttr,
) -> c_int {
    // SAFETY: tc hands over an attribute, or null, that lives as long as the call.
    guarded(|| K::print_qdisc(unsafe { payload(attribute) }, &mut Printing(())))
}

unsafe extern "C" fn print_copt<K: Kind>(
    _: *const QdiscUtil,
    _: *mut c_void,
    attribute: *mut RtAttr,
) -> c_int {
    // SAFETY: tc hands over an attribute, or null, that lives as long as the call.
    guarded(|| K::print_class(unsafe { payload(attribute) }, &mut Printing(())))
}

unsafe extern "C" fn print_xstats<K: Kind>(
    _: *const QdiscUtil,
    _: *mut c_void,
    attribute: *mut RtAttr,
) -> c_int {
    // SAFETY: tc hands over an attribute, or null, that lives as long as the call.
    guarded(|| K::print_stats(unsafe { payload(attribute) }, &mut Printing(())))
}

/// The payload of an attribute; nothing of none.
///
/// # Safety
/// `attribute` is null, or points to an attribute with its payload behind it that lives for `'a`.
unsafe fn payload<'a>(attribute: *const RtAttr) -> &'a [u8] {
    if attribute.is_null() {
        return &[];
    }
    // SAFETY: not null, so it is an attribute.
    let length = usize::from(unsafe { (*attribute).len }).saturating_sub(size_of::<RtAttr>());
    // SAFETY: as many bytes as its header says follow that header; tc has checked that they are in
    // the message.
    unsafe { std::slice::from_raw_parts(attribute.add(1).cast(), length) }
}

/// The message that tc is about to send.
pub(crate) struct Request(*mut NlMsgHdr);

impl Request {
    /// Appends `TCA_OPTIONS` with this content.
    pub(crate) fn put_options(&mut self, content: &[u8]) -> Outcome {
        let length = c_int::try_from(content.len()).map_err(|error| error.to_string())?;
        // SAFETY: the message is tc's, with room for `MAX_REQUEST` bytes, which addattr_l checks
        // against; the content is `length` bytes long.
        match unsafe {
            addattr_l(
                self.0,
                MAX_REQUEST,
                OPTIONS,
                content.as_ptr().cast(),
                length,
            )
        } {
            0 => Ok(()),
            _ => Err("turnstile: the request is too long".to_owned()),
        }
    }
}

/// tc's own printing: text or JSON, as its command line says.
pub(crate) struct Printing(());

/// A string for C, up to its first NUL.
fn c_string(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).unwrap_or_default()
}

impl Printer for Printing {
    fn text(&mut self, shown: fmt::Arguments<'_>) {
        for (at, line) in shown.to_string().split('\n').enumerate() {
            let line = c_string(line);
            // SAFETY: strings that live through the calls; the format takes the one string that it
            // is given. print_nl knows how -oneline ends lines. In JSON neither prints anything.
            unsafe {
                if at > 0 {
                    print_nl();
                }
                print_color_string(
                    PRINT_FP,
                    COLOR_NONE,
                    ptr::null(),
                    c"%s".as_ptr(),
                    line.as_ptr(),
                );
            }
        }
    }

    fn string(&mut self, key: &str, value: &str, shown: fmt::Arguments<'_>) {
        let (key, value) = (c_string(key), c_string(value));
        // SAFETY: strings that live through the call. In text it prints nothing, in JSON it takes
        // no format.
        unsafe {
            print_color_string(
                PRINT_JSON,
                COLOR_NONE,
                key.as_ptr(),
                ptr::null(),
                value.as_ptr(),
            )
        };
        self.text(shown);
    }

    fn number(&mut self, key: &str, value: &dyn fmt::Display, shown: fmt::Arguments<'_>) {
        let (key, value) = (c_string(key), c_string(&value.to_string()));
        // SAFETY: the writer is null except in JSON, and then tc's; strings that live through the
        // calls; the format takes the one string that it is given. tc's functions for numbers would
        // round: they print %g.
        unsafe {
            let writer = get_json_writer();
            if !writer.is_null() {
                jsonw_name(writer, key.as_ptr());
                jsonw_printf(writer, c"%s".as_ptr(), value.as_ptr());
            }
        }
        self.text(shown);
    }

    fn boolean(&mut self, key: &str, value: bool, shown: fmt::Arguments<'_>) {
        let key = c_string(key);
        // SAFETY: a string that lives through the call. In text it prints nothing, in JSON it takes
        // no format.
        unsafe { print_color_bool(PRINT_JSON, COLOR_NONE, key.as_ptr(), ptr::null(), value) };
        self.text(shown);
    }

    fn open(&mut self, key: &str) {
        let key = c_string(key);
        // SAFETY: a string that lives through the call. In text it prints nothing.
        unsafe { open_json_object(key.as_ptr()) };
    }

    fn close(&mut self) {
        // SAFETY: in text it does nothing; in JSON `open` came before.
        unsafe { close_json_object() };
    }
}
