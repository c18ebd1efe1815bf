// SPDX-License-Identifier: GPL-2.0
//! Named network namespaces, as `ip netns` makes them.

use std::fs::File;

use nix::sched::{setns, CloneFlags};

/// Moves the calling thread into the namespace of this name.
pub(crate) fn enter(name: &str) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("network namespace \"{name}\": {error}");
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        return Err(failed(&"not a name that `ip netns add` takes"));
    }
    let file = File::open(format!("/run/netns/{name}")).map_err(|error| failed(&error))?;
    setns(file, CloneFlags::CLONE_NEWNET).map_err(|error| failed(&error.desc()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_not_paths() {
        for name in ["", ".", "..", "../mnt", "a/b"] {
            let error = super::enter(name).unwrap_err();
            assert!(
                error.starts_with(&format!("network namespace \"{name}\": not a name")),
                "{error}"
            );
        }
        assert!(super::enter("surely not there")
            .unwrap_err()
            .contains("No such file"));
    }
}
