// SPDX-License-Identifier: GPL-2.0
/* Registration, in the order in which each part needs the next. */
#include "internal.h"

const struct knt_ops *knt_ops;

int knt_register(const struct knt_ops *ops)
{
	int err;

	knt_ops = ops;
	err = knt_net_register();
	if (err)
		return err;
	err = knt_devices_watch();
	if (err)
		goto net;
	err = knt_sockets_register();
	if (!err)
		return 0;
	knt_devices_unwatch();
net:
	knt_net_unregister();
	return err;
}

/* No socket is left: each holds the module. */
void knt_unregister(void)
{
	knt_sockets_unregister();
	knt_devices_unwatch();
	knt_net_unregister();
	/* Sockets, routes and packets are freed after a grace period, with functions of this module. */
	rcu_barrier();
}
