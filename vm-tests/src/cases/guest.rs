// SPDX-License-Identifier: GPL-2.0
//! The guest itself: what every other case relies on.

use anyhow::{ensure, Result};

use crate::harness::{Case, Ctx};
use crate::netns::Netns;

pub(in crate::cases) const CASES: &[Case] = &[
    Case::new("guest/namespaces", namespaces),
    Case::new("guest/module-loads", module_loads),
];

/// A device in one namespace is not seen in another.
fn namespaces(_: &mut Ctx) -> Result<()> {
    let (a, b) = (Netns::create("a")?, Netns::create("b")?);
    a.ip("link add x0 type veth peer name x1 netns b")?;
    ensure!(a.ip("-br link")?.contains("x0"), "x0 is not in a");
    ensure!(b.ip("-br link")?.contains("x1"), "x1 is not in b");
    ensure!(!b.ip("-br link")?.contains("x0@"), "x0 is in b");
    Ok(())
}

/// The module fits the running kernel.
fn module_loads(_: &mut Ctx) -> Result<()> {
    let ns = Netns::create("a")?;
    ns.run("modprobe sch_turnstile")?;
    ensure!(
        std::path::Path::new("/sys/module/sch_turnstile").exists(),
        "loaded, but not in /sys/module"
    );
    Ok(())
}
