// SPDX-License-Identifier: GPL-2.0
/* The module's version: Rust's module! has no word for it. Kbuild takes it from the workspace. */
#include <linux/module.h>
#include <linux/stringify.h>

MODULE_VERSION(__stringify(KNET_VERSION));
