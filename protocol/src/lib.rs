// SPDX-License-Identifier: GPL-2.0
//! What the test guest (`vm-tests`) and the host that boots it (`xtask`) write to each other, all
//! of it JSON: what a boot is for ([`run`]), what happens meanwhile ([`event`]), and what was
//! measured, by `demo` ([`demo`], [`messages`]), `lab` ([`lab`]) and `bench` ([`mod@bench`]).
//!
//! Each form is written once, here, and both sides use it. Figures of earlier runs are files that
//! people keep and show again (`cargo xtask demo --from FILE`), so fields are added, never renamed:
//! the tests hold files of the first forms.

pub mod bench;
pub mod demo;
pub mod event;
pub mod lab;
pub mod messages;
pub mod run;

/// That a file of an earlier run is read, and that all of its fields are written again.
#[cfg(test)]
fn kept<T: serde::Serialize + for<'a> serde::Deserialize<'a>>(json: &str) -> T {
    let read: T = serde_json::from_str(json).expect(json);
    let old: serde_json::Value = serde_json::from_str(json).expect(json);
    let new = serde_json::to_value(&read).expect("can be written");
    assert_contains(&new, &old);
    read
}

/// That `new` holds all that `old` does.
#[cfg(test)]
fn assert_contains(new: &serde_json::Value, old: &serde_json::Value) {
    use serde_json::Value;
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            for (key, old) in old {
                let new = new.get(key).unwrap_or_else(|| panic!("{key} is gone"));
                assert_contains(new, old);
            }
        }
        (Value::Array(new), Value::Array(old)) => {
            assert_eq!(new.len(), old.len());
            for (new, old) in new.iter().zip(old) {
                assert_contains(new, old);
            }
        }
        _ => assert_eq!(new, old),
    }
}
