// SPDX-License-Identifier: GPL-2.0
/* The speed of a namespace's devices. */
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include "genl.h"
#include "internal.h"

/* bytes/s: the fastest device that is up and says how fast it is; 0: none does. Sleeps. */
u64 knt_net_fastest(const struct knt_net *tn)
{
	struct ethtool_link_ksettings settings;
	struct net_device *dev;
	u64 fastest = 0;

	rtnl_lock();
	for_each_netdev(tn->net, dev) {
		if (!(dev->flags & IFF_UP) || __ethtool_get_link_ksettings(dev, &settings) < 0)
			continue;
		/* Some say 0 for "not known". */
		if (settings.base.speed != SPEED_UNKNOWN)
			fastest = max(fastest, (u64)settings.base.speed * (1000 * 1000 / 8));
	}
	rtnl_unlock();
	return fastest;
}

static int knt_device_event(struct notifier_block *block, unsigned long event, void *info)
{
	struct knt_net *tn = knt_net_of(dev_net(netdev_notifier_info_to_dev(info)));

	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		/* Not here: the device may be locked, and asking all of them takes its time. */
		if (knt_net_state(tn)) {
			WRITE_ONCE(tn->link_changed, true);
			knt_news(tn);
		}
	}
	return NOTIFY_DONE;
}

static struct notifier_block knt_devices = {
	.notifier_call = knt_device_event,
};

int knt_devices_watch(void)
{
	return register_netdevice_notifier(&knt_devices);
}

void knt_devices_unwatch(void)
{
	unregister_netdevice_notifier(&knt_devices);
}
