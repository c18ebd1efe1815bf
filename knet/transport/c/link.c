// SPDX-License-Identifier: GPL-2.0
/* The speed of a namespace's devices. */
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include "genl.h"
#include "internal.h"

/*
 * The speeds are kept by the devices' indices, so that who receives packets can look them up:
 * Mbit/s of each device that is up; 0: it does not say.
 */
static void knt_note_speed(struct knt_net *tn, const struct net_device *dev, u32 speed)
{
	void *entry = xa_mk_value(speed);

	/* Without memory it counts as one that is not there. */
	if (xa_load(&tn->speeds, dev->ifindex) != entry &&
	    xa_err(xa_store(&tn->speeds, dev->ifindex, entry, GFP_KERNEL)))
		xa_erase(&tn->speeds, dev->ifindex);
}

static u64 knt_bytes(u32 speed)
{
	return (u64)speed * (1000 * 1000 / 8);
}

/*
 * bytes/s: the fastest device that is up and says how fast it is; 0: none does. Notes all of them
 * for knt_net_speed(). Sleeps.
 */
u64 knt_net_fastest(struct knt_net *tn)
{
	struct ethtool_link_ksettings settings;
	struct net_device *dev;
	unsigned long index;
	u32 fastest = 0;
	void *entry;

	rtnl_lock();
	for_each_netdev(tn->net, dev) {
		u32 speed = 0;

		if (!(dev->flags & IFF_UP))
			continue;
		/* Some say 0 for "not known". */
		if (__ethtool_get_link_ksettings(dev, &settings) == 0 &&
		    settings.base.speed != SPEED_UNKNOWN)
			speed = settings.base.speed;
		fastest = max(fastest, speed);
		knt_note_speed(tn, dev, speed);
	}
	xa_for_each(&tn->speeds, index, entry) {
		dev = __dev_get_by_index(tn->net, index);
		if (!dev || !(dev->flags & IFF_UP))
			xa_erase(&tn->speeds, index);
	}
	rtnl_unlock();
	return knt_bytes(fastest);
}

/* bytes/s; 0: it does not say; U64_MAX: there is no such device, or it is down. In any context. */
u64 knt_net_speed(struct knt_net *tn, u32 device)
{
	const void *entry = xa_load(&tn->speeds, device);

	return entry ? knt_bytes(xa_to_value(entry)) : U64_MAX;
}

static int knt_device_event(struct notifier_block *block, unsigned long event, void *info)
{
	struct knt_net *tn = knt_net_of(dev_net(netdev_notifier_info_to_dev(info)));

	switch (event) {
	case NETDEV_UNREGISTER:
		/*
		 * A route of IP's tables lets go of a device that ends. One through IPsec keeps it, and the
		 * device would wait for us; this is repeated as long as it does.
		 */
		knt_routes_drop(tn);
		knt_came_drop(tn);
		break;
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
