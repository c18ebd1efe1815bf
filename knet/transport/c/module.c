// SPDX-License-Identifier: GPL-2.0
/*
 * Registration, in the order in which each part needs the next.
 *
 * What is registered refers to the module, and may only go with it. Rust's types see to it that it
 * goes when the module's value is dropped. That happens when nothing uses the module any more, or
 * when its init fails; whoever finds other ways to drop it is met here.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include "internal.h"

const struct knt_ops *knt_ops;
static DEFINE_MUTEX(knt_mutex);
static bool knt_registered;
static bool knt_ending;

/*
 * Waits until the module's init has succeeded, if it is under way: until then it may fail, and
 * nothing of Rust's may have been called. Process context; the caller holds the module.
 */
int knt_wait_ready(void)
{
	while (READ_ONCE(THIS_MODULE->state) == MODULE_STATE_COMING) {
		if (READ_ONCE(knt_ending))
			return -ENODEV;
		if (msleep_interruptible(1))
			return -EINTR;
	}
	return 0;
}

/*
 * Whether the module is in use or may be, so that nothing can be unregistered. Then the module
 * stays, too.
 */
bool knt_stays(void)
{
	WRITE_ONCE(knt_ending, true);
	return READ_ONCE(THIS_MODULE->state) == MODULE_STATE_LIVE && try_module_get(THIS_MODULE);
}

/*
 * Waits until nobody but a failing init holds the module: whoever waits in knt_wait_ready()
 * leaves.
 */
void knt_wait_unused(void)
{
	while (module_refcount(THIS_MODULE) > 1)
		msleep(1);
}

int knt_register(const struct knt_ops *ops, const void *place)
{
	int err;

	/*
	 * Only what is in the module's data is certain to be dropped when the module ends, and not
	 * before.
	 */
	if (!within_module_core((unsigned long)place, THIS_MODULE))
		return -EINVAL;
	if (ops->numbers.header > KNT_MAX_HEADER)
		return -EINVAL;
	mutex_lock(&knt_mutex);
	err = -EBUSY;
	if (knt_registered)
		goto out;
	knt_ops = ops;
	WRITE_ONCE(knt_ending, false);
	err = knt_net_register();
	if (err)
		goto out;
	err = knt_devices_watch();
	if (err)
		goto net;
	err = knt_sockets_register();
	if (err)
		goto devices;
	err = knt_diag_register();
	if (err)
		goto sockets;
	knt_registered = true;
	goto out;
sockets:
	/* Who is in socket() and waits for the end of this does so no longer. */
	WRITE_ONCE(knt_ending, true);
	knt_sockets_unregister();
devices:
	knt_devices_unwatch();
net:
	knt_net_unregister();
out:
	mutex_unlock(&knt_mutex);
	return err;
}

/* No socket is left: each holds the module. */
void knt_unregister(void)
{
	if (knt_stays())
		return;
	mutex_lock(&knt_mutex);
	knt_diag_unregister();
	knt_sockets_unregister();
	knt_devices_unwatch();
	knt_net_unregister();
	/* Sockets, routes and packets are freed after a grace period, with functions of this module. */
	rcu_barrier();
	knt_registered = false;
	mutex_unlock(&knt_mutex);
}
