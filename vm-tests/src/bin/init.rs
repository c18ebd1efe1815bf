// SPDX-License-Identifier: GPL-2.0
//! PID 1 of the guest.

fn main() {
    vm_tests::init::main();
}
