// SPDX-License-Identifier: GPL-2.0
//! Named network namespaces, as `ip netns` makes them.

use std::fs::File;
use std::io;

use nix::errno::Errno;
use nix::sched::{setns, CloneFlags};

use crate::failure::Failure;

/// Moves the calling thread into the namespace of this name.
pub(crate) fn enter(name: &str) -> Result<(), Failure> {
    let failed = |why: &str| format!("network namespace \"{name}\": {why}");
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        let why = "not a name that `ip netns add` takes";
        return Err(Failure::Usage(failed(why)));
    }
    let file = File::open(format!("/run/netns/{name}")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::Usage(failed("there is none of that name")),
        _ => Failure::Kernel(failed(&error.to_string())),
    })?;
    setns(file, CloneFlags::CLONE_NEWNET).map_err(|errno| match errno {
        Errno::EPERM => Failure::Kernel(failed("only root may enter it")),
        errno => Failure::Kernel(failed(errno.desc())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_not_paths() {
        for (name, why) in [
            ("", "not a name that `ip netns add` takes"),
            (".", "not a name"),
            ("..", "not a name"),
            ("../mnt", "not a name"),
            ("a/b", "not a name"),
            ("surely not there", "there is none of that name"),
        ] {
            match enter(name) {
                Err(Failure::Usage(said)) => {
                    let start = format!("network namespace \"{name}\": {why}");
                    assert!(said.starts_with(&start), "{said}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
